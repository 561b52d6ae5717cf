import assert from "node:assert/strict";
import { test } from "node:test";

import { Axis, HEIGHT, decadesOf, spanOf } from "../../../troubleshooter_nb/widgets/page/axis.js";

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

const PLAIN = { isMiss: () => false, isFailing: () => false, tolerance: null };

test("rows stand by their size, the largest on top", () => {
  const axis = new Axis(Float64Array.of(1e-6, 1e-3, 1e-2), PLAIN);
  assert.deepEqual([axis.low, axis.high, axis.lanes], [-6, -2, []]);
  assert.deepEqual([0, 1, 2].map((row) => axis.yOf(row)), [HEIGHT - 22, 12 + (HEIGHT - 34) / 4, 12]);
  assert.equal(axis.y(-20), axis.y(-6)); // what is off the axis stands at its end
});

test("what has no place on the axis has a line of its own", () => {
  const sizes = Float64Array.of(1, 0, NaN, Infinity, 1e-2, 1e-30, 0.5, 0.25);
  const axis = new Axis(sizes, { ...PLAIN, isMiss: (row) => row === 3 });
  assert.deepEqual(axis.lanes.map(({ label }) => label), [`<1e${axis.low}`, "–"]);
  const [small, unsized] = axis.lanes.map(({ y }) => y);
  assert.ok(axis.bottom < small && small < unsized && unsized < HEIGHT);
  assert.deepEqual([1, 5, 2, 3].map((row) => axis.yOf(row)), [small, small, unsized, 15]);
  assert.deepEqual([...axis.over], Array(8).fill(0)); // what cannot be compared is nothing too large
  assert.ok(axis.top > 15);
});

test("sizes that are all 0 stand on a line that says so", () => {
  const axis = new Axis(Float64Array.of(0, 0), { ...PLAIN, tolerance: 1e-4 });
  assert.deepEqual([axis.isSized, axis.lanes.map(({ label }) => label)], [false, ["0"]]);
});

test("one that is too large for the axis stands above it", () => {
  const axis = new Axis(Float64Array.of(1e-4, 1e-3, 1e-2, 1e30), PLAIN);
  assert.deepEqual([...axis.over], [0, 0, 0, 1]);
  assert.equal(axis.yOf(3), 15);
});

test("the least failing error is on the axis", () => {
  const axis = new Axis(Float64Array.of(1e-4, 1e-3, 1e-20), { ...PLAIN, isFailing: (row) => row === 2 });
  assert.equal(axis.low, -20);
});

test("a brush covers the places of the numbers between its bounds", () => {
  assert.deepEqual(spanOf([1, 3, 3, 8], [2, 7]), [1, 2]);
  assert.deepEqual(spanOf([1, 3, 8], [0, 2 ** 31 - 1]), [0, 2]);
  assert.equal(spanOf([1, 3, 8], [4, 7]), null);
  assert.equal(spanOf([1, 3], null), null);
});
