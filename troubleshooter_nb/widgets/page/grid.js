// The table of an explorer: its columns, its rows, and moving and selecting in them.

import { columnsOf, measuredColumns, packed } from "./columns.js";
import { isCommand, make, mark, put } from "./dom.js";
import { filled, fitted, times, visible } from "./names.js";
import { figure, level } from "./numbers.js";
import { VirtualList } from "./virtual_list.js";
import { toggled } from "./view.js";

const PITCH = 24; // px, height of a table row
const TALLEST = 364; // px, of the table
const SPARE = 5; // rows kept above and below what is seen
const FOLDING = ["layer", "direction", "role"]; // columns that go where there is no room
let ruler = null;

/** Pixels that a text of the table takes. */
function wide(text, weight) {
  ruler = ruler || document.createElement("canvas").getContext("2d");
  ruler.font = `${weight} 12px sans-serif`;
  return ruler.measureText(text).width;
}

export class Grid {
  constructor(explorer) {
    this.explorer = explorer;
    const { table, words, isDump } = explorer;
    this.spec = measuredColumns(columnsOf(table, explorer.shown), table, explorer, wide);
    this.longest = 0; // letters of the names of a row
    this.paired = false; // whether rows have two names
    for (let row = 0; row < table.size; row++) {
      const [left, right] = table.labels(row);
      this.longest = Math.max(this.longest, left.length + (right ? right.length + 3 : 0));
      if (right) this.paired = true;
    }
    this.body = make("tbody");
    const label = isDump ? words.entries_label : words.table_label;
    this.grid = make(
      "table",
      { role: "grid", "aria-label": label, "aria-multiselectable": "true", "aria-colcount": this.spec.length },
      make("colgroup", {}, ...this.makeWidths()),
      make("thead", {}, make("tr", { "aria-rowindex": 1 }, ...this.makeHeads())),
      this.body,
    );
    this.empty = make("p", { class: "tnb-empty", hidden: true }, table.size ? words.nothing : words.no_rows);
    const view = { class: "tnb-scroller", tabindex: "-1", role: "group", "aria-label": label };
    this.root = make("div", view, this.grid, this.empty);
    const gap = () => make("tr", { class: "tnb-gap", role: "presentation", "aria-hidden": "true" }, make("td"));
    this.list = new VirtualList({
      view: this.root,
      body: this.body,
      spacers: [gap(), gap()],
      blank: () => this.blank(),
      fill: (node, row, at) => this.fill(node, row, at),
      pitch: PITCH,
      room: () => (this.root.clientHeight || 15 * PITCH) - this.grid.tHead.offsetHeight,
      spare: SPARE,
    });
    this.body.addEventListener("click", (event) => this.clicked(event));
    this.body.addEventListener("dblclick", (event) => {
      const at = this.list.positionOf(event.target);
      if (at < 0) return;
      if (this.before) explorer.select(this.before);
      this.before = null;
      explorer.panel.open(explorer.rows[at]);
    });
    this.root.addEventListener("keydown", (event) => this.pressed(event));
  }

  close() {
    this.list.close();
  }

  makeWidths() {
    return this.spec.map(({ name, width }) =>
      make("col", { class: `tnb-c-${name}`, style: width ? `width:${width}px` : null }),
    );
  }

  makeHeads() {
    const { explorer } = this;
    this.heads = new Map();
    return this.spec.map((column, i) => {
      const at = { scope: "col", ...attributesOf(column, i) };
      if (column.name === "check") {
        return make("th", { ...at, "aria-label": explorer.words.select_row.replace("{number}", "").trim() });
      }
      const onclick = () => this.sortBy(column.name);
      const head = make("th", { ...at, "aria-sort": "none" }, make("button", { type: "button", onclick }, column.title));
      this.heads.set(column.name, head);
      return head;
    });
  }

  sortBy(name) {
    const { explorer } = this;
    const { sort, descending } = explorer.view;
    // Large figures are what one looks for; names and numbers start at their beginning.
    const { texts, format } = explorer.table.columns[name];
    const first = !texts && format !== "number";
    explorer.change({ sort: name, descending: sort === name ? !descending : first });
  }

  showOrder({ sort, descending }) {
    for (const [name, head] of this.heads) {
      const order = name !== sort ? "none" : descending ? "descending" : "ascending";
      mark(head, { "aria-sort": order });
    }
  }

  // Rows --------------------------------------------------------------------------------------

  /** Other rows: one stays at the row where one was, if it is there, or starts at the top. */
  show(rows, fromTop) {
    const at = fromTop ? -1 : rows.indexOf(this.list.item);
    mark(this.grid, { "aria-rowcount": rows.length + 1 });
    this.empty.hidden = rows.length > 0;
    this.list.setAt(rows, Math.max(0, at), Math.max(0, at - 4) * PITCH);
  }

  draw() {
    this.list.render();
  }

  get current() {
    return this.list.active;
  }

  /** Gives the names the room that there is, and leaves out columns where it is short. */
  fit() {
    const { grid, root, spec, explorer } = this;
    // As high as all rows, so that it stays as it is while a filter hides some of them.
    const all = grid.tHead.offsetHeight + Math.max(explorer.table.size, 2) * PITCH + 2;
    root.style.height = `${Math.min(TALLEST, all)}px`;
    root.style.overflowY = all > TALLEST ? "scroll" : "auto";
    const room = root.clientWidth || 800;
    const probe = make("button", { class: "tnb-open" }, "0".repeat(40));
    explorer.root.append(probe);
    const letter = probe.scrollWidth / 40 || 7.3;
    probe.remove();
    const { longest, paired } = this;
    const tells = (name) => explorer.table.tells(name);
    const { folded, fixed, least, letters } = packed(spec, { room, longest, letter, paired, tells });
    for (const name of FOLDING) grid.classList.toggle(`tnb-without-${name}`, folded.has(name));
    grid.style.minWidth = `${fixed + least}px`;
    const bar = fixed + least > room ? 16 : 0; // to scroll sideways
    if (bar) root.style.height = `${Math.min(TALLEST, all + bar)}px`;
    if (letters === this.letters) return;
    this.letters = letters;
    this.fittedOf = new Map(); // row -> its names in so many letters
  }

  blank() {
    const cells = this.spec.map((column, i) => {
      const at = { role: "gridcell", ...attributesOf(column, i) };
      if (column.name === "check") {
        return make("td", { ...at, class: "tnb-check" }, make("input", { type: "checkbox", tabindex: "-1" }));
      }
      if (column.name !== "left_display") return make("td", at, "");
      // Of a name that does not fit its end is seen, which tells it from the others.
      const part = () => make("span", { class: "tnb-end" }, make("bdi", { dir: "ltr" }, ""));
      const fixed = (text) => make("span", { class: "tnb-to" }, text);
      const parts = [part(), fixed(" → "), part(), fixed("")];
      return make("td", at, make("button", { type: "button", class: "tnb-open", tabindex: "-1" }, ...parts));
    });
    return make("tr", { tabindex: "-1" }, ...cells);
  }

  fill(node, row, at) {
    const { table, selected, panel } = this.explorer;
    mark(node, { "aria-rowindex": at + 2, "aria-selected": selected.has(table.numbers[row]) });
    node.classList.toggle("tnb-current", at === this.current);
    node.classList.toggle("tnb-opened", row === panel.opened);
    for (const [i, column] of this.spec.entries()) this.fillCell(node.children[i], column, row);
  }

  fillCell(cell, { name, bar }, row) {
    const { table, words, marks, selected } = this.explorer;
    const inner = cell.firstChild;
    if (name === "check") {
      const number = table.numbers[row];
      inner.checked = selected.has(number);
      mark(inner, { "aria-label": filled(words.select_row, { number }) });
    } else if (name === "verdict") {
      const [sign, tone, word] = marks[table.text("verdict", row)];
      mark(cell, { class: `tnb-${tone}` });
      put(inner, `${sign} ${word}`);
    } else if (name === "left_display") {
      this.fillNames(inner, row);
    } else if (name === "origin") {
      const origin = table.text("origin", row);
      mark(cell, { class: { created: "tnb-bad", carried: "tnb-warn" }[origin] || "" });
      put(inner, words[origin] || "");
    } else if (name === "left_shape") {
      put(inner, table.shapes(row));
      mark(cell, { title: inner.nodeValue });
    } else if (name === "shape") {
      put(inner, times(table.text("shape", row)));
    } else if (table.columns[name].texts) {
      put(inner, visible(table.text(name, row)));
    } else {
      const value = table.number(name, row);
      put(inner, figure(table.columns[name].format, value));
      if (!bar) return;
      const share = level(value, ...bar) * 100;
      const tone = marks[table.text("verdict", row)][1];
      mark(cell, { class: `tnb-right tnb-bar-${tone}`, style: `--tnb-share:${share.toFixed(0)}%` });
    }
  }

  fillNames(button, row) {
    const { table } = this.explorer;
    if (!this.fittedOf.has(row)) this.fittedOf.set(row, fitted(...table.labels(row), this.letters));
    const [left, right, tail] = this.fittedOf.get(row);
    const [first, arrow, second, both] = button.children;
    put(first.firstChild.firstChild, left);
    put(second.firstChild.firstChild, right);
    put(both.firstChild, tail);
    arrow.hidden = second.hidden = !right;
    const full = [table.text("left", row), table.text("right", row)].filter(Boolean);
    mark(button, { title: visible([...new Set(full)].join(" → ")) });
  }

  // Moving, selecting -------------------------------------------------------------------------

  clicked(event) {
    const { explorer } = this;
    const { table, rows, selected } = explorer;
    const at = this.list.positionOf(event.target);
    if (at < 0) return;
    if (event.target.closest(".tnb-open")) {
      this.moveTo(at);
      explorer.panel.open(rows[at]);
      return;
    }
    const number = table.numbers[rows[at]];
    if (event.shiftKey) {
      const [low, high] = [Math.min(at, this.current), Math.max(at, this.current)];
      this.before = null;
      explorer.select([...selected, ...rows.slice(low, high + 1).map((row) => table.numbers[row])]);
    } else if (isCommand(event) || event.target.matches("input")) {
      this.before = null;
      explorer.select(toggled(selected, number));
    } else if (event.detail < 2) {
      this.before = selected; // a double click opens the row and selects nothing
      explorer.select([number]);
    }
    this.moveTo(at);
  }

  moveTo(at) {
    if (!this.list.items.length) return;
    this.list.go(at);
    this.explorer.chart.draw();
    this.list.row?.scrollIntoView({ block: "nearest" });
  }

  pressed(event) {
    if (event.target.closest("thead")) return;
    const { explorer } = this;
    const { table, rows, selected } = explorer;
    const page = Math.max(1, Math.floor(this.root.clientHeight / PITCH) - 2);
    const moves = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page };
    const numberOf = (at) => table.numbers[rows[at]];
    if (event.key in moves) {
      const from = this.current;
      this.moveTo(from + moves[event.key]);
      if (event.shiftKey) explorer.select([...selected, numberOf(from), numberOf(this.current)]);
    } else if (event.key === "Home") this.moveTo(0);
    else if (event.key === "End") this.moveTo(rows.length - 1);
    else if (event.key === "Enter") {
      if (rows.length) explorer.panel.open(rows[this.current]);
    } else if (event.key === " ") {
      if (rows.length) explorer.select(toggled(selected, numberOf(this.current)));
    } else if (event.key === "a" && isCommand(event)) {
      explorer.select(rows.map((row) => table.numbers[row]));
    } else if (event.key === "Escape") {
      if (!explorer.panel.close() && selected.size) explorer.select([]);
    } else return;
    event.preventDefault();
  }
}

/** Attributes that the head and the cells of a column share. */
function attributesOf({ name, right }, i) {
  return { "aria-colindex": i + 1, class: `tnb-c-${name}${right ? " tnb-right" : ""}` };
}
