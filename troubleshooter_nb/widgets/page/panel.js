// The panel below the table of an explorer: one opened row.

import { make } from "./dom.js";
import { HeatMap } from "./heat_map.js";
import { filled, visible } from "./names.js";
import { scientific } from "./numbers.js";
import { figureTables, histogramOf, profilesOf, worstTable } from "./opened_row.js";

const PATIENCE = 100; // ms until it is said that a row is being read

/** What was opened: where its error sits, its worst elements and all its figures. */
export class Panel {
  constructor(explorer) {
    this.explorer = explorer;
    this.root = make("section", { class: "tnb-panel", hidden: true });
    this.spoken = make("span", { class: "tnb-spoken", role: "status", "aria-live": "polite" });
    this.map = null;
    this.root.addEventListener("keydown", (event) => {
      if (event.key === "Escape") this.close();
    });
  }

  async open(row, side) {
    const { explorer, root } = this;
    this.opened = row;
    const name = explorer.table.label(row);
    root.setAttribute("aria-label", name);
    // An answer is mostly there sooner than one sees that it is waited for.
    const slow = setTimeout(() => {
      if (this.opened !== row) return;
      root.hidden = false;
      if (!this.map) root.replaceChildren(make("p", {}, filled(explorer.words.reading, { name })));
      root.setAttribute("aria-busy", "true");
    }, PATIENCE);
    explorer.grid.draw();
    const answer = await explorer.ask("open", { row, side });
    clearTimeout(slow);
    if (this.opened !== row) return; // another one was opened meanwhile
    root.hidden = false;
    root.setAttribute("aria-busy", "false");
    this.show(row, answer);
    // Its beginning, with the map where there is one: the row stays in sight if it can.
    const begin = root.querySelector(".tnb-panel-head");
    (root.querySelector(".tnb-inside") || root).scrollIntoView({ block: "nearest" });
    begin.scrollIntoView({ block: "nearest" });
  }

  /** Whether there was one to close. */
  close() {
    if (this.root.hidden && this.opened === undefined) return false;
    this.root.hidden = true;
    this.root.replaceChildren();
    this.spoken.textContent = "";
    this.map = null;
    this.opened = undefined;
    this.explorer.comeBack();
    return true;
  }

  unanswered() {
    const { explorer, root } = this;
    if (this.map) this.map.unanswered();
    if (root.getAttribute("aria-busy") !== "true") return;
    // What stands there is of the row that was opened before.
    root.setAttribute("aria-busy", "false");
    this.map = null;
    const name = make("samp", {}, explorer.table.label(this.opened));
    const head = this.head(`#${explorer.table.numbers[this.opened]} `, name);
    root.replaceChildren(head, make("p", { class: "tnb-sentence" }, explorer.words.silent));
  }

  head(...title) {
    const onclick = () => this.close();
    const close = make("button", { type: "button", class: "tnb-close", onclick }, `× ${this.explorer.words.close}`);
    return make("div", { class: "tnb-panel-head" }, make("h4", {}, ...title), close);
  }

  show(row, answer) {
    const { explorer } = this;
    const { table, words } = explorer;
    const [sign, tone, word] = explorer.marks[table.text("verdict", row)];
    const name = make("samp", {}, visible(answer.name || table.label(row)));
    const verdict = make("span", { class: `tnb-${tone}` }, `${sign} ${word}`);
    const said = (kind, text) => (text ? make("p", kind ? { class: kind } : {}, text) : null);
    this.map = answer.map ? new HeatMap(explorer, row, answer) : null;
    const parts = [
      this.head(verdict, ` #${table.numbers[row]} `, name),
      said("", visible(answer.reason || "")),
      said("tnb-small", visible(answer.facts || "")),
      said("tnb-small", visible(answer.neighbours || "")),
      said("tnb-sentence", answer.sentence),
      answer.side ? this.sides(row, answer) : null,
      ...(this.map ? this.inside(this.map, answer) : []),
      figureTables(answer, words),
    ];
    this.root.replaceChildren(...parts.filter(Boolean));
    if (this.map) this.map.draw();
    this.announce(row, answer);
  }

  /** Where in the tensor it is. */
  inside(map, answer) {
    const { words } = this.explorer;
    const worst = worstTable(answer, words, map.single, (flat) => map.goTo(flat));
    const profiles = profilesOf(answer.profiles, words, map.single);
    const histograms = make("div", { class: "tnb-histograms" }, ...answer.histograms.map(histogramOf));
    return [
      make("div", { class: "tnb-inside" }, map.root, worst, map.numbers),
      make("div", { class: "tnb-inside" }, make("div", {}, ...profiles), histograms),
    ];
  }

  /** Which side of a pair that cannot be compared is drawn. */
  sides(row, { side, sides }) {
    const buttons = sides.map(([name, word]) => {
      const onclick = async () => {
        await this.open(row, name);
        this.root.querySelector('.tnb-sides [aria-pressed="true"]')?.focus();
      };
      return make("button", { type: "button", class: "tnb-chip", "aria-pressed": name === side, onclick }, word);
    });
    return make("div", { class: "tnb-line tnb-sides" }, ...buttons);
  }

  /** What was opened, for those who do not see it. */
  announce(row, answer) {
    const { table, words, marks, isDump } = this.explorer;
    const column = isDump ? "largest" : "max_abs_error";
    const value = table.number(column, row);
    const figure = Number.isNaN(value) ? "" : `, ${table.columns[column].title} ${scientific(value)}`;
    const what = `${marks[table.text("verdict", row)][2]}${figure}${answer.sentence ? `. ${answer.sentence}` : ""}`;
    const name = visible(answer.name || table.label(row));
    this.spoken.textContent = filled(words.opened, { number: table.numbers[row], name, what });
  }
}
