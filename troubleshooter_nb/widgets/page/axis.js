// Where the rows of an explorer stand in its chart, from top to bottom.

const DECADES_SHOWN = 14; // that the axis spans, unless the tolerance asks for more
const FEW = 0.05; // share of the sizes that may be far from all others
export const HEIGHT = 150; // px of the chart
const [TOP, LANE] = [15, 13]; // px: where rows stand that are too large, and the height of a line of its own

/** The decades that an axis shows: the largest sizes, what lies within so many decades below them,
 * the tolerance and the least failing error. A few sizes far from all others, one that overflowed or
 * one that is nearly 0, must not press the others on one line.
 *
 * `sizes` (sorted) and `line` are powers of ten, `failing` is an error or Infinity. */
export function decadesOf(sizes, line, failing) {
  const few = Math.max(1, Math.floor(FEW * sizes.length));
  const tolerance = line.length ? line[0] : -Infinity;
  // Those at the top are the worst: they are left out only where they have no room with the others.
  let count = sizes.length;
  for (let k = 1; k <= few && sizes.length - k >= 2; k++) {
    const next = sizes[sizes.length - k - 1];
    if (sizes[sizes.length - k] - Math.max(next, tolerance) > DECADES_SHOWN) count = sizes.length - k;
  }
  const inside = [...sizes.slice(0, count)].filter((size) => size >= sizes[count - 1] - DECADES_SHOWN);
  let first = 0;
  for (let k = 1; k <= few && inside.length - k >= 2; k++) {
    if (inside[k] - inside[k - 1] > DECADES_SHOWN / 2) first = k;
  }
  const must = [...line];
  const least = Math.log10(failing);
  if (Number.isFinite(least) && !must.some((one) => Math.abs(one - least) > 2 * DECADES_SHOWN)) must.push(least);
  const known = inside.length ? [inside[first], inside[inside.length - 1]] : [];
  if (!must.length && !known.length) return [-8, 0];
  // So far below the tolerance nothing is of interest.
  const floor = must.length ? Math.min(...must) - 10 : -Infinity;
  const low = Math.floor(Math.max(floor, Math.min(...must, ...known)));
  return [low, Math.max(Math.ceil(Math.max(...must, ...known)), low + 2)];
}

/** The axis of sizes, and lines of their own for what has no place on it: at the top what is not finite
 * or too large, at the bottom what is 0 or too small, and what was not measured.
 *
 * `isMiss` and `isFailing` say of a row whether its two sides cannot be compared, and whether it fails;
 * `tolerance` is an error or null. */
export class Axis {
  constructor(sizes, { isMiss, isFailing, tolerance }) {
    this.sizes = sizes;
    this.isMiss = isMiss;
    const isPositive = (size) => Number.isFinite(size) && size > 0;
    const powers = Float64Array.from([...sizes].filter(isPositive), Math.log10).sort();
    const failing = [...sizes].filter((size, row) => isPositive(size) && isFailing(row));
    const line = tolerance === null ? [] : [Math.log10(tolerance)];
    const least = failing.reduce((one, other) => Math.min(one, other), Infinity);
    this.isSized = powers.length > 0;
    [this.low, this.high] = decadesOf(powers, line, least);
    const rows = (fits) => Uint8Array.from(sizes, (size, row) => !isMiss(row) && fits(size));
    this.over = rows((size) => size > 10 ** this.high);
    this.under = rows((size) => size < 10 ** this.low);
    this.unsized = rows(Number.isNaN);
    this.top = this.over.includes(1) || sizes.some((_, row) => isMiss(row)) ? 2 * TOP : 12;
    const isSmall = sizes.some((size, row) => this.under[row] && size > 0);
    const lanes = [{ label: isSmall ? `<1e${this.low}` : "0", rows: this.under }, { label: "–", rows: this.unsized }];
    this.lanes = lanes.filter((lane) => lane.rows.includes(1));
    for (const [i, lane] of this.lanes.entries()) lane.y = HEIGHT - 20 - LANE * (this.lanes.length - 1 - i);
    this.bottom = this.lanes.length ? this.lanes[0].y - LANE : HEIGHT - 22;
  }

  /** Where a power of ten stands. */
  y(power) {
    const share = (power - this.low) / (this.high - this.low);
    return this.top + (this.bottom - this.top) * (1 - Math.min(1, Math.max(0, share)));
  }

  /** Where a row stands. */
  yOf(row) {
    if (this.over[row] || this.isMiss(row)) return TOP;
    const lane = this.lanes.find(({ rows }) => rows[row]);
    return lane ? lane.y : this.y(Math.log10(this.sizes[row]));
  }
}

/** The first and the last place between two bounds, of numbers in ascending order; null if none is. */
export function spanOf(numbers, between) {
  if (!between) return null;
  const first = numbers.findIndex((number) => number >= between[0]);
  const last = numbers.findLastIndex((number) => number <= between[1]);
  return first < 0 || last < first ? null : [first, last];
}
