import assert from "node:assert/strict";
import { test } from "node:test";

import { Values, typed } from "../../../troubleshooter_nb/widgets/page/packed.js";

const view = (array) => {
  // A buffer that starts at an odd byte, as one in a message does.
  const bytes = new Uint8Array(array.byteLength + 3);
  bytes.set(new Uint8Array(array.buffer), 3);
  return new DataView(bytes.buffer, 3);
};

test("numbers are read from any byte of a message", () => {
  assert.deepEqual(typed(Float64Array, view(Float64Array.of(1.5, -2))), Float64Array.of(1.5, -2));
});

test("integers of 64 bits keep every digit, and so does their distance", () => {
  const left = new Values("<i8", 0, view(BigInt64Array.of(9007199254740993n)));
  const right = new Values("<i8", 0, view(BigInt64Array.of(-1n)));
  assert.equal(left.text(0), "9007199254740993");
  assert.equal(left.distance(0, right), "9007199254740994");
  assert.equal(right.distance(0, left), "9007199254740994");
});

test("floating numbers have digits of their format, and no exact distance", () => {
  const values = new Values("<f8", 24, view(Float64Array.of(Math.fround(0.1), NaN)));
  assert.deepEqual([values.text(0), values.text(1)], ["0.1", "nan"]);
  assert.deepEqual([values.isFinite(0), values.isFinite(1)], [true, false]);
  assert.equal(values.distance(0, values), null);
});

test("a complex number is finite where both parts are", () => {
  const values = new Values("<c16", 53, view(Float64Array.of(1, -0.5, 2, 3, 0, Infinity)));
  assert.deepEqual([0, 1, 2].map((i) => values.text(i)), ["1-0.5j", "2+3j", "0+infj"]);
  assert.deepEqual([0, 1, 2].map((i) => values.isFinite(i)), [true, true, false]);
});
