import assert from "node:assert/strict";
import { test } from "node:test";

import { inOrder, isChanged, isShown, readable, restOf, shownOf, unmatched } from "../../../troubleshooter_nb/widgets/page/pairs.js";

const NAMES = [["a", "b", "c"], ["a", "x", "c"]];
const ROWS = [
  ["k2", [2], [2], "copy", "", "", "", ""],
  ["k0", [0], [0], "transpose", "", "", "warn", ""],
  ["k1", [1], [], "drop", "", "", "", ""],
];

test("rows come in the order of their left names, and the given ones stay", () => {
  const given = new Map(ROWS.map((row) => [row[0], row])).values();
  assert.deepEqual(inOrder(given).map(([key]) => key), ["k0", "k1", "k2"]);
  assert.equal(ROWS[0][0], "k2");
});

test("names that are there and that no row has are unmatched", () => {
  const none = new Set();
  assert.deepEqual([...unmatched(ROWS, 0, 4, none)], [3]);
  assert.deepEqual([...unmatched(ROWS, 1, 3, none)], [1]);
  assert.deepEqual([...unmatched(ROWS, 0, 5, new Set([3]))], [4]);
});

test("a row is changed by another name, by several, by none, and in a weight map by a transform", () => {
  assert.deepEqual(ROWS.map((row) => isChanged(row, NAMES, false)), [false, true, true]);
  assert.deepEqual(ROWS.map((row) => isChanged(row, NAMES, true)), [false, false, true]);
  assert.equal(isChanged(["k", [1], [1], "copy"], NAMES, false), true);
  assert.equal(isChanged(["k", [0], [0, 1], "copy"], NAMES, false), true);
});

test("one sees all rows, those that are changed, or those with a remark that needs a look", () => {
  const seen = (show) => ROWS.filter((row) => isShown(row, show, NAMES, false)).map(([key]) => key);
  assert.deepEqual(seen("all"), ["k2", "k0", "k1"]);
  assert.deepEqual(seen("changed"), ["k0", "k1"]);
  assert.deepEqual(seen("attention"), ["k0"]);
});

test("of how many is said where not all are shown", () => {
  assert.deepEqual([shownOf(1200, 1200), shownOf(3, 1200)], ["1,200", "3 / 1,200"]);
});

test("shapes and transforms have the signs that one reads", () => {
  assert.equal(readable("64x32 -> 32x64"), "64×32 → 32×64");
});

test("a remark does not say again what is said elsewhere", () => {
  assert.equal(restOf("wrong shape; by hand", "wrong shape"), "by hand");
  assert.equal(restOf("by hand", "wrong shape"), "by hand");
  assert.equal(restOf("by hand", ""), "by hand");
});
