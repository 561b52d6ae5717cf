// Tables and bars of an opened row, drawn from what the kernel says of it.

import { make } from "./dom.js";
import { filled } from "./names.js";

/** A small table; a head without words is an empty corner. */
export function tableOf(caption, heads, rows) {
  const cells = heads.map((text, i) =>
    text ? make("th", { scope: "col", class: i ? "tnb-right" : "" }, text) : make("td"),
  );
  return make(
    "table",
    { class: "tnb-table" },
    make("caption", {}, caption),
    heads.length ? make("thead", {}, make("tr", {}, ...cells)) : null,
    make("tbody", {}, ...rows.map((row) => make("tr", {}, ...row))),
  );
}

/** A cell with a number. */
function number(text) {
  return make("td", { class: "tnb-right" }, text);
}

/** The worst elements, each with a button that calls `goTo` with its flat index. */
export function worstTable({ worst, places }, words, single, goTo) {
  if (!worst.length) return null; // nothing differs
  const heads = single
    ? [words.index, words.value]
    : [words.index, words.left, words.right, words.error, words.relative];
  const rows = worst.map(([index, ...figures], i) => {
    const label = filled(words.show_there, { index });
    const onclick = () => goTo(places[i]);
    const go = make("button", { type: "button", class: "tnb-link", "aria-label": label, onclick }, index);
    return [make("td", {}, go), ...figures.map(number)];
  });
  return tableOf(single ? words.largest_elements : words.worst, heads, rows);
}

/** Which indices of each axis hold the error, or the large values. */
export function profilesOf(profiles, words, single) {
  if (!profiles.length) return [];
  return [
    make("p", { class: "tnb-caption" }, single ? words.value_profiles : words.profiles),
    ...profiles.map(({ axis, bars, text, concentrated }) => {
      const label = filled(words.axis, { axis });
      const drawn = barsOf(bars, `${label}: ${text}`, { tone: concentrated ? "bad" : "" });
      const said = make("span", { class: concentrated ? "tnb-bad" : "" }, text);
      return make("div", { class: "tnb-profile" }, make("span", {}, label), drawn, said);
    }),
  ];
}

/** How many values lie in each range, one line of bars a side. */
export function histogramOf({ title, ranges, series }) {
  const lines = series.map(({ name, bars, counts }) => {
    const titles = counts.map((count, i) => `${ranges[i]}: ${count}`);
    const drawn = barsOf(bars, `${name}: ${counts.join(", ")}`, { titles });
    return make("div", { class: "tnb-profile" }, make("span", {}, name), drawn);
  });
  return make("div", {}, make("p", { class: "tnb-caption" }, title), ...lines);
}

/** All figures in two columns, and the statistics of both sides. */
export function figureTables({ figures, heads, statistics }, words) {
  const half = Math.ceil(figures.length / 2);
  const pairs = figures.slice(0, half).map((left, i) =>
    [left, figures[half + i]]
      .filter(Boolean)
      .flatMap(([word, text, name]) => [make("th", { scope: "row", title: name }, word), number(text)]),
  );
  const sides = statistics.map(([side, ...texts]) => [make("th", { scope: "row" }, side), ...texts.map(number)]);
  return make(
    "div",
    { class: "tnb-figures" },
    pairs.length ? tableOf(words.figures, [], pairs) : null,
    sides.length ? tableOf(words.statistics, heads, sides) : null,
  );
}

/** Bars for shares from 0 to 1; `titles` say what each is. */
function barsOf(shares, label, { tone = "", titles = [] }) {
  const bars = shares.map((share, i) => {
    const bar = make("i", { title: titles[i] });
    bar.style.height = share > 0 ? `${Math.max(6, share * 100)}%` : "1px";
    return bar;
  });
  const kind = `tnb-bars ${tone ? `tnb-bars-${tone}` : ""}`;
  return make("span", { class: kind, role: "img", "aria-label": label }, ...bars);
}
