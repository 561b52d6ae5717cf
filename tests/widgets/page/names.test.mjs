import assert from "node:assert/strict";
import { test } from "node:test";

import { differing, filled, fitted, runs, shortened, times, visible } from "../../../troubleshooter_nb/widgets/page/names.js";

const text = (parts) => parts.map(([, part]) => part).join("");
const lacking = (parts) => parts.filter(([is]) => is).map(([, part]) => part);

test("what cannot be seen of a name is written out", () => {
  assert.equal(visible("a\nb\tc\u202ed\ufeff\u0007"), "a\\nb\\tc\\u202ed\\ufeff\\u0007");
  assert.equal(visible("层.0<b>é"), "层.0<b>é");
});

test("gaps of a sentence are filled, and one that has no value stays", () => {
  assert.equal(filled("{shown} of {total}, {what}", { shown: 0, total: "9" }), "0 of 9, {what}");
});

test("an x between numbers is a sign, and one in a word is not", () => {
  assert.equal(times("2x3x40 conv2x x4 1x1"), "2×3×40 conv2x x4 1×1");
});

test("of two names the words differ that the other has not where they stand", () => {
  const parts = differing("h.0.attn.c_proj.weight", "h.0.mlp.c_proj.weight");
  assert.deepEqual(lacking(parts), ["attn"]);
  assert.equal(text(parts), "h.0.attn.c_proj.weight");
});

test("nothing of a name differs from itself, from no other, and from one without a common word", () => {
  for (const other of ["a.b", undefined, null, "x.y.z"]) assert.deepEqual(lacking(differing("a.b", other)), []);
  assert.deepEqual(lacking(differing("层.甲", "层.乙")), ["甲"]);
});

test("names of very many parts are not compared", () => {
  const long = "a.".repeat(150);
  assert.deepEqual(lacking(differing(`${long}b`, `${long}c`)), []);
});

test("common words become letters from the left until a name has so many letters", () => {
  const parts = differing("model.layers.10.self_attn.q_proj.weight", "model.layers.10.attention.q_proj.weight");
  const short = shortened(parts, 30);
  assert.equal(text(short), "m.l.10.self_attn.q_proj.weight");
  assert.deepEqual(lacking(short), lacking(parts));
  assert.deepEqual(shortened(parts, 99), parts);
});

test("numbers, the last word and words of two letters stay", () => {
  assert.equal(text(shortened(differing("block12.up.layer/final"), 1)), "block12.up.l/final");
  assert.equal(text(shortened(differing("alone_word"), 1)), "alone_word");
});

test("neighbours of one kind are one run", () => {
  assert.deepEqual(runs([[false, "a"], [false, "."], [true, "b"], [false, "c"]]), [[false, "a."], [true, "b"], [false, "c"]]);
  assert.deepEqual(runs([]), []);
});

test("two names that have room stay as they are", () => {
  assert.deepEqual(fitted("a.b", "a.c", 9), ["a.b", "a.c", ""]);
  assert.deepEqual(fitted("a.b", "", 3), ["a.b", "", ""]);
});

test("what two names end with is said once where there is little room", () => {
  const [left, right, tail] = fitted("encoder.block.0.attention input 0", "encoder.block.0.attn input 0", 40);
  assert.equal(tail, " input 0");
  assert.ok(left.length + right.length + tail.length + 3 <= 40);
  assert.ok(left.endsWith("attention") && right.endsWith("attn"));
});

test("where letters do not do, numbers and the end of a name are left", () => {
  assert.deepEqual(fitted("transformer.h.11.attention.dense.weight", "", 12), ["…11…weight", "", ""]);
});
