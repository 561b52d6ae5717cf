// The filters above the table of an explorer.

import { make } from "./dom.js";
import { filled, visible } from "./names.js";
import { counted } from "./numbers.js";
import { boundsOf, othersOf, toggled, typedBounds } from "./view.js";

const MOST_SAID = 5; // values that a filter lists
const SELECTS = ["origin", "role", "direction", "step", "rank"];

/** A search, a button for each verdict, a list for other columns, and bounds. */
export class FilterBar {
  constructor(explorer) {
    this.explorer = explorer;
    const { words, isDump } = explorer;
    this.search = make("input", {
      type: "search",
      class: "tnb-search",
      placeholder: words.filter_hint,
      "aria-label": words.filter_label,
      spellcheck: "false",
      autocomplete: "off",
      oninput: () => explorer.change({ text: this.search.value }),
    });
    this.live = make("span", { class: "tnb-count", role: "status", "aria-live": "polite" });
    const button = (word, onclick, more) => make("button", { type: "button", onclick, ...more }, word);
    this.clear = button(words.clear, () => this.clearAll(), { class: "tnb-clear" });
    const only = () => explorer.change({ where: { number: [...explorer.selected] } });
    this.only = button(words.selected_only, only, { disabled: true });
    const none = () => {
      explorer.select([]);
      explorer.comeBack();
    };
    this.none = button(words.clear_selection, none, { disabled: true });
    this.chips = this.makeChips();
    this.others = make("span", { class: "tnb-others" });
    this.selects = this.makeSelects();
    const from = isDump ? words.from_entry : words.from_pair;
    const bound = (label) =>
      make("input", { type: "number", step: "1", "aria-label": label, onchange: () => this.bound() });
    [this.from, this.to] = [bound(from), bound(words.to)];
    this.root = make(
      "div",
      { class: "tnb-filters", role: "search" },
      make("div", { class: "tnb-line" }, this.search, this.live, this.clear, this.only, this.none),
      make("div", { class: "tnb-line" }, ...this.chips.map((chip) => chip.button), this.others),
      make(
        "div",
        { class: "tnb-line" },
        ...this.selects.map(({ name, select }) => make("label", {}, `${explorer.table.columns[name].title} `, select)),
        make("span", {}, `${from} `, this.from, ` ${words.to} `, this.to),
      ),
    );
  }

  makeChips() {
    const { explorer } = this;
    return explorer.table.choices("verdict").map(({ value, count }) => {
      const [sign, tone, word] = explorer.marks[value];
      const onclick = () => {
        const verdicts = toggled(explorer.view.where.verdict, value);
        explorer.change({ where: { verdict: [...verdicts] } });
      };
      const button = make(
        "button",
        { type: "button", class: "tnb-chip", "aria-pressed": "false", onclick },
        make("span", { class: `tnb-${tone}` }, `${sign} ${word}`),
        ` ${counted(count)}`,
      );
      return { value, button };
    });
  }

  makeSelects() {
    const { explorer } = this;
    const { table, words } = explorer;
    return SELECTS.filter((name) => table.has(name) && table.choices(name).length > 1).map((name) => {
      const options = table.choices(name).map(({ value, count }) => {
        const said = name === "origin" && words[value] ? words[value] : value;
        const label = `${said === "" ? words.none : visible(String(said))} (${counted(count)})`;
        return make("option", { value: JSON.stringify(value) }, label);
      });
      const onchange = () => {
        // What Python chose may be several values; the page offers one.
        const chosen = select.value === "" ? [] : [JSON.parse(select.value)].flat();
        explorer.change({ where: { [name]: chosen } });
      };
      const select = make("select", { onchange }, make("option", { value: "" }, words.all), ...options);
      return { name, select };
    });
  }

  bound() {
    this.bounded = null;
    this.explorer.change({ between: boundsOf(this.from.valueAsNumber, this.to.valueAsNumber) });
  }

  clearAll() {
    const { explorer } = this;
    const where = Object.fromEntries(Object.keys(explorer.view.where).map((name) => [name, []]));
    explorer.change({ text: "", where, between: null });
    this.search.focus();
  }

  /** The view of the explorer. */
  show() {
    const { view } = this.explorer;
    if (this.search.value !== view.text) this.search.value = view.text;
    const verdicts = view.where.verdict || [];
    for (const { value, button } of this.chips) {
      button.setAttribute("aria-pressed", verdicts.includes(value));
    }
    for (const { name, select } of this.selects) {
      const chosen = view.where[name] || [];
      for (const one of [...select.options]) if (one.value.startsWith("[")) one.remove();
      if (chosen.length > 1) select.append(make("option", { value: JSON.stringify(chosen) }, chosen.join(", ")));
      select.value = chosen.length ? JSON.stringify(chosen.length > 1 ? chosen : chosen[0]) : "";
    }
    // A bound that one is typing is written over only where the bounds are others now.
    if (String(view.between) !== this.bounded) {
      this.bounded = String(view.between);
      [this.from.value, this.to.value] = typedBounds(view.between);
    }
    this.showOthers();
    this.clear.disabled = !(view.text || view.between || Object.values(view.where).some((one) => one.length));
  }

  /** Filters that Python set and no other element here shows, each to take back. */
  showOthers() {
    const { explorer } = this;
    const { where } = explorer.view;
    const offered = this.selects.map(({ name }) => name);
    const verdicts = this.chips.map(({ value }) => value);
    const others = othersOf(where, offered, verdicts).filter(([name]) => explorer.table.has(name));
    const chips = others.map(([name, values]) => {
      const onclick = () => {
        explorer.change({ where: { [name]: where[name].filter((one) => !values.includes(one)) } });
        this.search.focus();
      };
      const chip = { type: "button", class: "tnb-chip", "aria-pressed": "true", onclick };
      return make("button", chip, `${this.saidOf(name, values)} ×`);
    });
    this.others.replaceChildren(...chips);
  }

  saidOf(name, values) {
    const { table, marks } = this.explorer;
    const { title } = table.columns[name];
    const word = (value) => (name === "verdict" && marks[value] ? marks[value][2] : value);
    const some = values.slice(0, MOST_SAID).map((value) => visible(String(word(value))));
    return `${title}: ${some.join(", ")}${values.length > MOST_SAID ? ` … ${counted(values.length)}` : ""}`;
  }

  /** How many rows are shown and selected. */
  count() {
    const { table, rows, selected, words } = this.explorer;
    this.only.disabled = this.none.disabled = !selected.size;
    const shown = filled(words.count, { shown: counted(rows.length), total: counted(table.size) });
    const chosen = selected.size ? filled(words.selected, { selected: counted(selected.size) }) : "";
    if (this.live.textContent !== shown + chosen) this.live.textContent = shown + chosen;
  }
}
