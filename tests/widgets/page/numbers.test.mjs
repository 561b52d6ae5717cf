import assert from "node:assert/strict";
import { test } from "node:test";

import { counted, figure, level, rounded, scientific, shortest } from "../../../troubleshooter_nb/widgets/page/numbers.js";

test("a number has two digits and a short power", () => {
  assert.deepEqual([1.25e-5, 12345, -0.5, 0].map(scientific), ["1.3e-5", "1.2e4", "-5.0e-1", "0"]);
  assert.deepEqual([NaN, Infinity, -Infinity].map(scientific), ["nan", "inf", "-inf"]);
});

test("rounding to a format goes to the nearest, and between two to the even one", () => {
  assert.equal(rounded(1 + 2 ** -8, 8), 1);
  assert.equal(rounded(1 + 3 * 2 ** -8, 8), 1 + 2 ** -6);
  assert.equal(rounded(0.1, 24), Math.fround(0.1));
  assert.equal(rounded(0.1, 53), 0.1);
  assert.equal(rounded(Number.MAX_VALUE, 8), Number.MAX_VALUE); // the sum would overflow
});

test("a number has the fewest digits that tell it from the others of its format", () => {
  assert.equal(shortest(0.1, 53), "0.1");
  assert.equal(shortest(Math.fround(0.1), 24), "0.1");
  assert.equal(shortest(Math.fround(0.1), 53), "0.10000000149011612");
  assert.equal(shortest(0.10009765625, 8), "0.1");
  assert.deepEqual([1e16, 1e-5, -0, 0, NaN].map((one) => shortest(one, 53)), ["1e16", "1e-5", "-0", "0", "nan"]);
});

test("a figure is written as its column asks", () => {
  assert.equal(figure("scientific", NaN), "–");
  assert.equal(figure("number", 1200), "1200");
  assert.equal(figure("count", 1200), "1,200");
  assert.deepEqual([12, 1234, Infinity].map((one) => figure("growth", one)), ["×12.0", "×1.2e3", "×∞"]);
  assert.equal(figure("four_digits", 1234.56), "1235");
  assert.equal(figure("cosine", 0.9999999), "0.999999");
  assert.equal(figure("hundredths", 0.999), "1.00");
  assert.equal(figure("percent", 6.25), "6.25%");
  assert.equal(counted(1234567), "1,234,567");
});

test("a share is never rounded up to all", () => {
  assert.deepEqual([1, 0.99999, 0.5].map((one) => figure("share", one)), ["100%", "99.99%", "50.00%"]);
});

test("a level grows with the decades between two sizes", () => {
  assert.deepEqual([0, NaN, 1e-12, 1e-9, 1e-4, 10, Infinity].map((one) => level(one, 1e-9, 10)), [0, 0, 0, 0, 0.5, 1, 1]);
});

test("of two numbers that are as close it is the even one", () => {
  assert.deepEqual([72.5, 73.5, -72.5, 0.25].map(scientific), ["7.2e1", "7.4e1", "-7.2e1", "2.5e-1"]);
  assert.equal(shortest(2.5625, 11), "2.562");
  assert.deepEqual([17 / 32, 19 / 32].map((one) => figure("share", one)), ["53.12%", "59.38%"]);
});
