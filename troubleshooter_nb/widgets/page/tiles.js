// Places in the heat map of a tensor: a window of a plane, cut into tiles. All ranges are half-open.

const DECADES = 4; // that the colours span

/** The range of tile i of so many in a range. */
function tileRange([start, stop], i, count) {
  const length = stop - start;
  return [start + Math.ceil((i * length) / count), start + Math.ceil(((i + 1) * length) / count)];
}

/** Rows and columns of the plane that a tile of a window holds. */
export function tileAt({ rows, columns, tiles }, [r, c]) {
  return [tileRange(rows, r, tiles[0]), tileRange(columns, c, tiles[1])];
}

/** The tile of a window that holds an element of the tensor. */
export function tileOf({ rows, columns, tiles, plane, offset }, flat) {
  const at = flat - offset;
  const tile = (place, [start, stop], count) => Math.floor(((place - start) * count) / (stop - start));
  return [tile(Math.floor(at / plane[1]), rows, tiles[0]), tile(at % plane[1], columns, tiles[1])];
}

/** The tile that is worst: one with a mismatch, or the one with the largest value. */
export function worstTile({ maxima, mismatch, tiles }) {
  let [best, most] = [0, -1];
  maxima.forEach((value, i) => {
    const size = mismatch[i] ? Infinity : value;
    if (size > most) [best, most] = [i, size];
  });
  return [Math.floor(best / tiles[1]), best % tiles[1]];
}

/** So many places around one, inside a range. */
export function around(middle, [start, stop], count) {
  const first = Math.max(start, Math.min(middle - (count >> 1), stop - count));
  return [first, Math.min(stop, first + count)];
}

/** A range moved by so many of its tiles, inside an axis of some length. */
export function moved([start, stop], steps, count, length) {
  const size = stop - start;
  const first = Math.max(0, Math.min(start + Math.round((steps * size) / count), length - size));
  return [first, first + size];
}

/** The index of an element of a tensor. */
export function unravel(flat, shape) {
  const index = [];
  for (let axis = shape.length - 1; axis >= 0; axis--) {
    index.unshift(flat % shape[axis]);
    flat = Math.floor(flat / shape[axis]);
  }
  return index;
}

/** The value that has the palest colour where so much is the largest. */
export function palest(largest) {
  return Math.max(largest * 10 ** -DECADES, Number.MIN_VALUE);
}

/** The colour of a value where so much is the largest; `stops` are colours at even distances. */
export function shade(value, largest, stops) {
  if (!largest) return stops[0];
  const floor = palest(largest);
  const share = Math.min(1, Math.max(0, Math.log10(Math.max(value, floor) / floor) / DECADES));
  const at = share * (stops.length - 1);
  const low = Math.min(stops.length - 2, Math.floor(at));
  return stops[low].map((channel, k) => Math.round(channel + (stops[low + 1][k] - channel) * (at - low)));
}
