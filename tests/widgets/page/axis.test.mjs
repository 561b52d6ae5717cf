import assert from "node:assert/strict";
import { test } from "node:test";

import { decadesOf } from "../../../troubleshooter_nb/widgets/page/axis.js";

const powers = (...sizes) => Float64Array.from(sizes).sort();

test("an axis spans all sizes, in whole decades and two at the least", () => {
  assert.deepEqual(decadesOf(powers(-6.5, -2.2, -4), [], Infinity), [-7, -2]);
  assert.deepEqual(decadesOf(powers(-2.5), [], Infinity), [-3, -1]);
  assert.deepEqual(decadesOf(powers(), [], Infinity), [-8, 0]);
});

test("the tolerance and the least failing error are on it", () => {
  assert.deepEqual(decadesOf(powers(-4, -3), [-8], Infinity), [-8, -3]);
  assert.deepEqual(decadesOf(powers(-4, -3), [-5], 10), [-5, 1]);
});

test("one size far from all others does not press them on one line", () => {
  assert.deepEqual(decadesOf(powers(-4, -3.5, -3, 30), [], Infinity), [-4, -2]);
  assert.deepEqual(decadesOf(powers(-20, -4, -3.5, -3), [], Infinity), [-4, -2]);
});

test("what lies more than fourteen decades below the largest is left out", () => {
  assert.deepEqual(decadesOf(powers(-30, -29, -28, -1, 0), [], Infinity), [-1, 1]);
});

test("so far below the tolerance nothing is of interest", () => {
  assert.deepEqual(decadesOf(powers(-15, -14, -13), [-3], Infinity), [-13, -3]);
});
