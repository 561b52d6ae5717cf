import assert from "node:assert/strict";
import { test } from "node:test";

import { around, moved, palest, shade, tileAt, tileOf, unravel, worstTile } from "../../../troubleshooter_nb/widgets/page/tiles.js";

const WINDOW = { rows: [10, 17], columns: [4, 9], tiles: [3, 2], plane: [40, 20], offset: 800 };

test("tiles cut a window without gaps, and each element lies in the tile that holds it", () => {
  const seen = new Set();
  for (let r = 0; r < 3; r++) {
    for (let c = 0; c < 2; c++) {
      const [rows, columns] = tileAt(WINDOW, [r, c]);
      for (let row = rows[0]; row < rows[1]; row++) {
        for (let column = columns[0]; column < columns[1]; column++) {
          const flat = WINDOW.offset + row * WINDOW.plane[1] + column;
          assert.deepEqual(tileOf(WINDOW, flat), [r, c]);
          seen.add(flat);
        }
      }
    }
  }
  assert.equal(seen.size, 7 * 5);
});

test("the worst tile has a mismatch, or the largest value", () => {
  const tiles = [2, 3];
  assert.deepEqual(worstTile({ maxima: [0, 5, 2, 9, 1, 0], mismatch: [0, 0, 0, 0, 0, 0], tiles }), [1, 0]);
  assert.deepEqual(worstTile({ maxima: [0, 5, 2, 9, 1, 0], mismatch: [0, 0, 1, 0, 0, 0], tiles }), [0, 2]);
  assert.deepEqual(worstTile({ maxima: [0, 0], mismatch: [0, 0], tiles: [1, 2] }), [0, 0]);
});

test("so many places around one stay inside their range", () => {
  assert.deepEqual(around(20, [0, 100], 8), [16, 24]);
  assert.deepEqual(around(1, [0, 100], 8), [0, 8]);
  assert.deepEqual(around(99, [0, 100], 8), [92, 100]);
  assert.deepEqual(around(2, [0, 5], 8), [0, 5]);
});

test("a window moves by its tiles and stops at the ends", () => {
  assert.deepEqual(moved([10, 20], 1, 5, 100), [12, 22]);
  assert.deepEqual(moved([10, 20], -10, 5, 100), [0, 10]);
  assert.deepEqual(moved([10, 20], 100, 5, 25), [15, 25]);
});

test("an index is that of the flat place", () => {
  assert.deepEqual(unravel(23, [2, 3, 4]), [1, 2, 3]);
  assert.deepEqual(unravel(0, []), []);
});

test("colours go in decades from the palest to the largest", () => {
  const stops = [[0, 0, 0, 0], [100, 100, 100, 100], [200, 0, 0, 255]];
  assert.deepEqual(shade(5, 5, stops), stops[2]);
  assert.deepEqual(shade(5 * 10 ** -2, 5, stops), stops[1]);
  assert.deepEqual(shade(palest(5) / 10, 5, stops), stops[0]);
  assert.deepEqual(shade(0, 0, stops), stops[0]);
  assert.deepEqual(shade(5, 5 * 10 ** 1, stops), [150, 50, 50, 178]);
});
