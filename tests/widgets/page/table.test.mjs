import assert from "node:assert/strict";
import { test } from "node:test";

import { columnsOf, measuredColumns, packed } from "../../../troubleshooter_nb/widgets/page/columns.js";
import { Table } from "../../../troubleshooter_nb/widgets/page/table.js";

const VIEW = { text: "", where: {}, between: null, sort: "number", descending: false };

const FORMATS = { number: "number", left_display: "names", growth: "growth" };

/** A table of columns of numbers, or of texts which are coded in their order. */
function tableOf(columns) {
  const described = [];
  const buffers = [];
  for (const [name, values] of Object.entries(columns)) {
    const texts = typeof values[0] === "string" ? [...new Set(values)].sort() : null;
    const codes = texts && values.map((value) => texts.indexOf(value));
    described.push({ name, texts, title: `the ${name}`, format: FORMATS[name] || "scientific", right: !texts });
    buffers.push(new DataView((texts ? Int32Array.from(codes) : Float64Array.from(values)).buffer));
  }
  return new Table(described, buffers);
}

const PAIRS = tableOf({
  number: [3, 1, 2, 7],
  left: ["a.attn", "b.mlp", "c.attn", "d.norm"],
  left_display: ["a.attn input 0", "b.mlp", "c.attn", "d.norm"],
  right_display: ["a.attn input 0", "b.ffn", "", "d.norm"],
  verdict: ["differs", "equal", "missing", "equal"],
  left_shape: ["2x3", "2x3", "4", "5"],
  right_shape: ["2x3", "3x2", "", "5"],
  direction: ["input", "output", "output", "output"],
  max_abs_error: [0.5, 0, NaN, Infinity],
  growth: [NaN, NaN, NaN, NaN],
});
const shown = (parts) => PAIRS.shown({ ...VIEW, ...parts });

test("rows are those that pass every filter", () => {
  assert.deepEqual(shown({}), [1, 2, 0, 3]);
  assert.deepEqual(shown({ where: { verdict: ["equal", "no such"] } }), [1, 3]);
  assert.deepEqual(shown({ where: { verdict: [], nothing: ["x"] } }), [1, 2, 0, 3]);
  assert.deepEqual(shown({ where: { number: [7, 3] } }), [0, 3]);
  assert.deepEqual(shown({ between: [2, 3] }), [2, 0]);
  assert.deepEqual(shown({ where: { verdict: ["equal"] }, between: [2, 9] }), [3]);
});

test("every word of a search stands in a name, in any case", () => {
  assert.deepEqual(shown({ text: " ATTN " }), [2, 0]);
  assert.deepEqual(shown({ text: "input a." }), [0]);
  assert.deepEqual(shown({ text: "ffn" }), [1]);
  assert.deepEqual(shown({ text: "attn mlp" }), []);
});

test("rows without a figure come last, whatever the order", () => {
  assert.deepEqual(shown({ sort: "max_abs_error" }), [1, 0, 3, 2]);
  assert.deepEqual(shown({ sort: "max_abs_error", descending: true }), [3, 0, 1, 2]);
  assert.deepEqual(shown({ sort: "verdict" }), [0, 1, 3, 2]);
  assert.deepEqual(shown({ sort: "no such column" }), [0, 1, 2, 3]);
});

test("a row has two names where they differ, and a stroke for one that is missing", () => {
  assert.deepEqual([0, 1, 2].map((row) => PAIRS.label(row)), ["a.attn input 0", "b.mlp → b.ffn", "c.attn → –"]);
  assert.deepEqual([0, 1, 2].map((row) => PAIRS.shapes(row)), ["2×3", "2×3 → 3×2", "4"]);
});

test("choices are the values of a column, with how many rows have each", () => {
  assert.deepEqual(PAIRS.choices("verdict"), [
    { value: "differs", count: 1 },
    { value: "equal", count: 2 },
    { value: "missing", count: 1 },
  ]);
});

test("names tell a column where nearly all of them say it", () => {
  const names = ["a input 0", "b output 0"];
  assert.equal(tableOf({ number: [0, 1], left_display: names, direction: ["input", "output"] }).tells("direction"), true);
  assert.equal(PAIRS.tells("direction"), false);
});

test("a table has the columns that Python shows, with what their declaration says", () => {
  const [check, number, names, error] = columnsOf(PAIRS, ["number", "left_display", "max_abs_error"]);
  assert.deepEqual([check.name, number.name, error.name], ["check", "number", "max_abs_error"]);
  assert.deepEqual([number.title, number.right, number.width], ["the number", true, null]);
  assert.deepEqual([names.right, names.width], [false, 0]); // the room that is left
});

test("a column is as wide as its widest text, or its head, and not wider than it may be", () => {
  const words = { left_shape: "shape", number: "a very long head" };
  const marks = { differs: ["✗", "bad", "differs"], equal: ["✓", "ok", "equal"], missing: ["◇", "miss", "missing"] };
  const spec = [
    { name: "check", width: 22, title: "" },
    { name: "number", title: words.number },
    { name: "left_shape", title: "shape" },
    { name: "verdict", title: "" },
  ];
  const widths = measuredColumns(spec, PAIRS, { words, marks }, (text) => 10 * text.length).map(({ width }) => width);
  assert.deepEqual(widths, [22, 170, 100, 100]);
  const wide = measuredColumns(spec, PAIRS, { words, marks }, () => 500);
  assert.deepEqual(wide.map(({ width }) => width), [22, 510, 510, 510]); // its head is seen
});

const SPEC = [
  { name: "number", width: 40 },
  { name: "left_display", width: 0 },
  { name: "max_abs_error", width: 60, figure: true },
  { name: "role", width: 50 },
  { name: "direction", width: 50 },
];
const ROOM = { longest: 30, letter: 7, paired: true, tells: () => false };

test("where there is room, all columns stay and names have the rest", () => {
  const { folded, fixed, letters } = packed(SPEC, { ...ROOM, room: 500 });
  assert.deepEqual([[...folded], fixed, letters], [[], 200, Math.floor((300 - 9) / 7)]);
});

test("columns that names tell go first, then what the opened row says", () => {
  const tells = (name) => name === "role";
  assert.deepEqual([...packed(SPEC, { ...ROOM, room: 410, tells }).folded], ["role"]);
  assert.deepEqual([...packed(SPEC, { ...ROOM, room: 380 }).folded], ["direction"]);
  assert.deepEqual([...packed(SPEC, { ...ROOM, room: 300 }).folded], ["direction", "role"]);
});

test("a table that is too narrow scrolls: two names are read, one leaves the first figure beside it", () => {
  assert.equal(packed(SPEC, { ...ROOM, room: 150 }).least, 219);
  assert.equal(packed(SPEC, { ...ROOM, room: 220, paired: false }).least, 120);
  assert.equal(packed(SPEC, { ...ROOM, room: 120, paired: false }).least, 90);
});
