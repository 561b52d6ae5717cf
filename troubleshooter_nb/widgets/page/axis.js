// Which decades the chart of an explorer shows.

const DECADES_SHOWN = 14; // that the axis spans, unless the tolerance asks for more
const FEW = 0.05; // share of the sizes that may be far from all others

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
