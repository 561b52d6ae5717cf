// Which rows an explorer shows, as page and kernel tell each other: {text, where, between, sort, descending}.

const LAST = 2 ** 31 - 1; // stands for no upper bound, in packed_table.py as well

/** A view with some parts of another; of the columns to filter by, too, only some. As explorer.py. */
export function withParts(view, parts) {
  const where = Object.entries({ ...view.where, ...parts.where }).filter(([, values]) => values.length);
  return { ...view, ...parts, where: Object.fromEntries(where) };
}

/** The name that each part of a view has among the parts of the state. */
export function partsOf({ where = {}, ...view }) {
  return [...Object.keys(view), ...Object.keys(where).map((name) => `where ${name}`)];
}

/** Those parts of a view whose name is not held. */
export function withoutHeld({ where = {}, ...view }, isHeld) {
  const free = (parts, before) => Object.fromEntries(Object.entries(parts).filter(([name]) => !isHeld(before + name)));
  return { ...free(view, ""), where: free(where, "where ") };
}

/** The whole numbers between two bounds, as packed_table.py has it; NaN bounds nothing. */
export function boundsOf(low, high) {
  if (Number.isNaN(low) && Number.isNaN(high)) return null;
  const first = Number.isNaN(low) ? 0 : Math.ceil(Math.min(Math.max(low, 0), LAST));
  const last = Number.isNaN(high) ? LAST : Math.floor(Math.max(Math.min(high, LAST), -1));
  return [first, last];
}

/** Bounds as one types them. */
export function typedBounds(between) {
  const [low, high] = between || ["", ""];
  return [String(low), high === LAST ? "" : String(high)];
}

/** A set with a value more, or without it where it was there. */
export function toggled(values, value) {
  const chosen = new Set(values);
  if (!chosen.delete(value)) chosen.add(value);
  return chosen;
}

/** Filters that Python set and no other element of the page shows: columns and the values of each. */
export function othersOf(where, offered, verdicts) {
  return Object.entries(where)
    .map(([name, values]) => [name, name === "verdict" ? values.filter((one) => !verdicts.includes(one)) : values])
    .filter(([name, values]) => values.length && !offered.includes(name));
}
