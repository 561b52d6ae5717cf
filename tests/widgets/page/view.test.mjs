import assert from "node:assert/strict";
import { test } from "node:test";

import { boundsOf, othersOf, partsOf, toggled, typedBounds, withParts, withoutHeld } from "../../../troubleshooter_nb/widgets/page/view.js";

const VIEW = { text: "a", where: { role: ["x"], step: [1] }, between: null, sort: "number", descending: false };

test("parts of a view replace its own, and a column without values goes", () => {
  const view = withParts(VIEW, { text: "b", where: { role: [], rank: [2] } });
  assert.deepEqual(view, { ...VIEW, text: "b", where: { step: [1], rank: [2] } });
  assert.deepEqual(withParts(VIEW, {}), VIEW);
});

test("a part that the kernel was told and has not answered is left as it is", () => {
  const said = { text: "b", sort: "growth", where: { role: ["y"], step: [] } };
  assert.deepEqual(partsOf(said), ["text", "sort", "where role", "where step"]);
  const held = new Set(["text", "where role"]);
  const free = withoutHeld(said, (name) => held.has(name));
  assert.deepEqual(free, { sort: "growth", where: { step: [] } });
  assert.deepEqual(withParts(VIEW, withoutHeld({}, () => false)), VIEW);
});

test("bounds are the whole numbers between two that are typed", () => {
  assert.deepEqual(boundsOf(1.5, 3.5), [2, 3]);
  assert.deepEqual(boundsOf(NaN, 3), [0, 3]);
  assert.deepEqual(boundsOf(-5, NaN), [0, 2 ** 31 - 1]);
  assert.deepEqual(boundsOf(1e12, -1e12), [2 ** 31 - 1, -1]);
  assert.equal(boundsOf(NaN, NaN), null);
});

test("bounds are typed as they are, and none where there is none", () => {
  assert.deepEqual(typedBounds([2, 3]), ["2", "3"]);
  assert.deepEqual(typedBounds([0, 2 ** 31 - 1]), ["0", ""]);
  assert.deepEqual(typedBounds(null), ["", ""]);
});

test("a value is in a set or not, in turn", () => {
  assert.deepEqual([...toggled([1, 2], 2)], [1]);
  assert.deepEqual([...toggled(undefined, 2)], [2]);
});

test("filters that nothing on the page offers are told apart", () => {
  const where = { verdict: ["equal", "nan"], role: ["x"], number: [3], dtype: [] };
  assert.deepEqual(othersOf(where, ["role"], ["equal"]), [["verdict", ["nan"]], ["number", [3]]]);
});
