// Which columns the table of an explorer has, and which of them it has room for.

import { times } from "./names.js";
import { figure } from "./numbers.js";

const NAME = 330; // px that two names should have
const ONE_NAME = 190; // px that a name alone should have before the table scrolls sideways
const PADDING = 9; // px beside a name

/** What the table shows of its columns, those of the names in `shown`; the names take the room that is left. */
export function columnsOf(table, shown) {
  const said = shown.map((name) => {
    const { title, format, right, figure, bar } = table.columns[name];
    return { name, title, right, figure, bar, width: format === "names" ? 0 : null };
  });
  return [{ name: "check", title: "", width: 22 }, ...said];
}

/** The columns with the room that their texts and heads take; `wide` measures a text in pixels. */
export function measuredColumns(columns, table, { words, marks }, wide) {
  return columns.map((column) => {
    if (column.width != null) return column;
    const { name, title } = column;
    const weight = name === "verdict" || name === "origin" ? 600 : 400;
    const texts = widest(name, table, words, marks).map((text) => wide(times(text), weight));
    const room = Math.min(Math.max(...texts), name.endsWith("shape") ? 110 : 140);
    return { ...column, width: Math.ceil(Math.max(room, wide(title, 600)) + 10) };
  });
}

/** Texts of a column of which one is the widest. */
function widest(name, table, words, marks) {
  const { values, texts, format } = table.columns[name];
  if (name === "verdict") return texts.map((text) => `${marks[text][0]} ${marks[text][2]}`);
  if (name === "origin") return texts.map((text) => words[text] || "");
  if (name === "left_shape") return [...new Set(Array.from({ length: table.size }, (_, row) => table.shapes(row)))];
  if (texts) return texts;
  if (format === "count" || format === "number") {
    // biome-ignore lint/complexity/useMathMinMax: of NaN it makes NaN
    return [figure(format, values.reduce((most, value) => (value > most ? value : most), 0))];
  }
  if (format !== "growth" && format !== "scientific") {
    const step = Math.ceil(values.length / 200);
    return Array.from(values.filter((_, row) => row % step === 0), (value) => figure(format, value));
  }
  const deep = values.some((value) => value !== 0 && Number.isFinite(value) && Math.abs(Math.log10(Math.abs(value))) >= 99);
  const sign = format === "growth" ? "×" : values.some((value) => value < 0) ? "-" : "";
  return [`${sign}8.8e-88${deep ? "8" : ""}`];
}

/** Gives the names the room that is left; where it is short, columns go: first those that the names
 * tell as well, then what the opened row says.
 *
 * `longest` is how many letters the names of a row have at the most, `letter` their width, `paired`
 * whether rows have two names, `tells` whether names tell a column. The answer: names of the columns
 * that go, the width of all others, pixels of the names at the least, and letters that they have. */
export function packed(spec, { room, longest, letter, paired, tells }) {
  const folded = new Set();
  let fixed = spec.reduce((sum, { width }) => sum + width, 0);
  const wanted = Math.min(NAME, longest * letter + PADDING);
  // Of two names less than that does not tell a row from the others.
  const tight = paired ? Math.max(wanted, 90) : Math.min(wanted, ONE_NAME);
  const fold = (name, isShort) => {
    const column = spec.find((one) => one.name === name);
    if (!column || folded.has(name) || !isShort()) return;
    folded.add(name);
    fixed -= column.width;
  };
  for (const name of ["direction", "role"]) fold(name, () => room - fixed < wanted && tells(name));
  for (const name of ["layer", "direction", "role"]) fold(name, () => room - fixed < tight);
  let least = Math.min(wanted, room - fixed);
  if (room - fixed < (paired ? 220 : tight)) {
    // One has to scroll sideways: the names are read, or the first figure is seen beside them.
    const first = spec.findIndex((column) => column.figure);
    const beside = spec.slice(0, first + 1).reduce((sum, { width }) => sum + width, 0);
    least = paired ? tight : Math.max(90, Math.min(tight, room - beside));
  }
  const letters = Math.floor((Math.max(room - fixed, least) - PADDING) / letter);
  return { folded, fixed, least, letters };
}
