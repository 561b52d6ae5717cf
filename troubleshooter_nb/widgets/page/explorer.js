// The page's side of the explorer: a table of columns, a chart, and one opened row.

import { Chart } from "./chart.js";
import { keepKeys, make } from "./dom.js";
import { FilterBar } from "./filter_bar.js";
import { Grid } from "./grid.js";
import { visible } from "./names.js";
import { Panel } from "./panel.js";
import { Table } from "./table.js";
import { partsOf, withParts, withoutHeld } from "./view.js";

const SILENCE = 5000; // ms until a question that has no answer is said to have none
const TONES = ["ok", "bad", "warn", "miss", "text", "faint", "line", "brush", "paper"];

class Explorer {
  constructor(model, el) {
    this.model = model;
    this.token = Math.random().toString(36).slice(2);
    this.waiting = new Map();
    this.asked = 0;
    this.told = new Map(); // part of the state -> how often the kernel was told it without an answer
    this.root = make("div", { class: "tnb-explorer", "data-pending": "0" });
    // What the kernel was not told yet changes nothing that is shown: it stands outside the root.
    this.outside = el;
    el.dataset.untold = "0";
    this.root.addEventListener("keydown", (event) => this.pressed(event));
    keepKeys(this.root, el);
    this.hint = make("p", { class: "tnb-hint" }, model.get("waiting"));
    this.root.append(this.hint);
    el.append(this.root);
    this.hear = (message, buffers) => this.heard(message, buffers);
    model.on("msg:custom", this.hear);
    this.resized = new ResizeObserver(([{ contentRect }]) => {
      // Only the width decides what is drawn; the height changes with every opened row.
      if (!this.table || contentRect.width === this.width) return;
      this.width = contentRect.width;
      if (this.width === 0) return; // collapsed: what was seen is shown again
      this.grid.fit();
      this.redraw();
    });
    this.themed = new MutationObserver(() => {
      this.inks = null;
      if (this.table) this.redraw();
    });
    this.themed.observe(document.body, { attributes: true, attributeFilter: ["data-jp-theme-light", "class"] });
    this.ask("ready").then((answer) => this.start(answer));
  }

  close() {
    this.model.off("msg:custom", this.hear);
    this.resized.disconnect();
    this.themed.disconnect();
    this.grid?.close();
    cancelAnimationFrame(this.painting);
    clearTimeout(this.painted);
    for (const { timer } of this.waiting.values()) clearTimeout(timer);
    this.root.remove();
  }

  // Questions to the kernel -----------------------------------------------------------------

  ask(kind, content = {}) {
    const counter = kind === "tell" ? "untold" : "pending";
    const id = ++this.asked;
    const timer = this.table ? setTimeout(() => this.unanswered(), SILENCE) : null;
    const answered = new Promise((resolve) => this.waiting.set(id, { resolve, counter, timer }));
    this.count(counter, 1);
    try {
      this.model.send({ kind, id, from: this.token, ...content });
    } catch {
      // Without a kernel there is nobody to ask; the hint that is shown says so.
    }
    return answered;
  }

  unanswered() {
    this.silent.hidden = false;
    this.silent.textContent = this.words.silent;
    this.panel.unanswered();
  }

  count(name, change) {
    const node = name === "untold" ? this.outside : this.root;
    node.dataset[name] = Number(node.dataset[name]) + change;
  }

  heard(message, buffers) {
    if (message.kind === "answer" && message.from === this.token) {
      const asked = this.waiting.get(message.id);
      if (!asked) return;
      this.waiting.delete(message.id);
      clearTimeout(asked.timer);
      if (this.silent && !this.silent.hidden) this.silent.hidden = true;
      asked.resolve({ ...message, buffers });
      // After those who wait for it have drawn.
      Promise.resolve().then(() => this.count(asked.counter, -1));
    } else if (message.kind === "state" && this.table) this.adopt(message);
  }

  /** Tells the kernel what changed here, and no more: the rest may have changed there meanwhile. */
  tell(parts) {
    const names = partsOf(parts.view || {});
    if (parts.selected) names.push("selected");
    for (const name of names) this.told.set(name, (this.told.get(name) || 0) + 1);
    this.ask("tell", parts).then((answer) => {
      for (const name of names) this.told.set(name, this.told.get(name) - 1);
      this.adopt(answer);
    });
  }

  /** Takes what the kernel says of the state. A part that it was told and has not answered yet is
   * left as it is: that telling comes there after what is heard here, and holds. */
  adopt({ view: said = {}, selected }) {
    const isHeld = (name) => Boolean(this.told.get(name));
    const view = withParts(this.view, withoutHeld(said, isHeld));
    const chosen = selected && !isHeld("selected");
    if (chosen) this.selected = new Set(selected);
    if (JSON.stringify(view) !== JSON.stringify(this.view)) {
      this.view = view;
      this.refresh();
    } else if (chosen) {
      // The rows are those that were there: whoever looks at them stays where he is.
      this.grid.draw();
      this.filters.count();
    }
  }

  // What is shown ---------------------------------------------------------------------------

  start(answer) {
    if (!answer.columns) {
      this.hint.textContent = answer.sentence;
      return;
    }
    this.words = answer.words;
    this.marks = answer.marks;
    this.isDump = answer.dump;
    this.line = answer.line;
    this.table = new Table(answer.columns, answer.buffers);
    this.shown = answer.shown; // names of the columns that the table shows
    this.view = answer.view;
    this.selected = new Set(answer.selected);
    this.chart = new Chart(this);
    this.filters = new FilterBar(this);
    this.grid = new Grid(this);
    this.panel = new Panel(this);
    const title = make("p", { class: "tnb-title" }, visible(answer.title));
    this.silent = make("p", { class: "tnb-silent tnb-bad", role: "alert", hidden: true });
    this.hint.replaceWith(title, this.silent, this.filters.root, this.chart.root, this.grid.root);
    this.root.append(make("p", { class: "tnb-keys" }, this.words.keys), this.panel.spoken, this.panel.root);
    this.resized.observe(this.root);
    this.grid.fit();
    this.refresh();
  }

  change(part) {
    this.view = withParts(this.view, part);
    // Another order or a search starts at its top; a filter that goes leaves one where one was.
    this.refresh("sort" in part || Boolean(part.text));
    this.tell({ view: part });
  }

  refresh(fromTop = false) {
    this.rows = this.table.shown(this.view);
    this.grid.show(this.rows, fromTop);
    this.repaint();
    // The words come last: what is measured while rows are drawn needs no new layout.
    this.filters.count();
    this.filters.show();
    this.grid.showOrder(this.view);
  }

  select(numbers) {
    this.selected = new Set(numbers);
    this.grid.draw();
    this.filters.count();
    this.tell({ selected: [...this.selected].sort((one, other) => one - other) });
  }

  redraw() {
    this.grid.draw();
    this.repaint();
  }

  /** Paints the pictures. */
  repaint() {
    // The rows are what one waits for: the chart follows when they are on the screen.
    cancelAnimationFrame(this.painting);
    clearTimeout(this.painted);
    this.painting = requestAnimationFrame(() => {
      this.painted = setTimeout(() => this.chart.paint()); // as soon as that frame is shown
    });
    if (this.panel.map) this.panel.map.draw();
  }

  /** Colours as the theme gives them: a canvas does not know custom properties. */
  ink() {
    if (!this.inks) {
      const probe = make("span");
      this.root.append(probe);
      this.inks = { font: `11px ${getComputedStyle(this.root).fontFamily}` };
      for (const tone of TONES) {
        probe.style.color = `var(--tnb-${tone})`;
        this.inks[tone] = getComputedStyle(probe).color;
      }
      // Light text stands on dark paper.
      this.inks.dark = this.inks.text.match(/\d+/g).slice(0, 3).reduce((sum, one) => sum + Number(one), 0) > 384;
      probe.remove();
    }
    return this.inks;
  }

  // Keys ------------------------------------------------------------------------------------

  /** The focus to the current row; without rows to what hides them. */
  comeBack() {
    if (this.rows.length) this.grid.moveTo(this.grid.current);
    else this.filters.search.focus();
  }

  pressed(event) {
    if (!this.filters) return;
    const { search } = this.filters;
    const typing = event.target.matches("input:not([type=checkbox]), select");
    if (event.key === "/" && !typing) {
      event.preventDefault();
      search.focus();
      search.select();
    } else if (event.key === "Escape" && event.target === search) {
      if (search.value) this.change({ text: "" });
      else this.grid.moveTo(this.grid.current);
    } else if (event.key === "ArrowDown" && event.target === search) {
      event.preventDefault();
      this.grid.moveTo(this.grid.current);
    }
  }
}

function render({ model, el }) {
  const explorer = new Explorer(model, el);
  return () => explorer.close();
}

export default { render };
