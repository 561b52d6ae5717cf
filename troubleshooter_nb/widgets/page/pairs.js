// What an editor shows of its pairs. A row is [key, left, right, how, shapes, remark, tone, suggestion],
// where left and right are numbers of names.

import { times } from "./names.js";
import { counted } from "./numbers.js";

/** How many are shown, and of how many where that is not all. */
export function shownOf(shown, all) {
  return shown === all ? counted(all) : `${counted(shown)} / ${counted(all)}`;
}

/** What the kernel says of shapes and transforms, with the signs that one reads. */
export function readable(text) {
  return times(text).replace("->", "→");
}

const MOST_ARGUMENTS = 8;

/** The text of a transform with the first arguments of a step that has many. */
export function brief(transform) {
  return transform.replace(/\([^()]*\)/g, (all) => {
    const words = all.split(", ");
    return words.length <= MOST_ARGUMENTS + 1 ? all : `${words.slice(0, MOST_ARGUMENTS).join(", ")}, …)`;
  });
}

/** The rows in the order of their left names. */
export function inOrder(rows) {
  return [...rows].sort((one, other) => one[1][0] - other[1][0]);
}

/** The names of a side, 0 or 1, that are there and of which no row has any. */
export function unmatched(rows, side, count, absent) {
  const used = new Uint8Array(count);
  for (const row of rows) for (const number of row[1 + side]) used[number] = 1;
  const open = new Set();
  used.forEach((one, number) => {
    if (!one && !absent.has(number)) open.add(number);
  });
  return open;
}

/** Whether an editor changed a row: another name on the right, or values that are not copied. */
export function isChanged(row, names, isPairing) {
  const same = row[2].length === 1 && names[0][row[1][0]] === names[1][row[2][0]];
  return !same || (!isPairing && row[3] !== "copy");
}

/** Which of "all", "changed" and "attention" a row is shown in. */
export function isShown(row, show, names, isPairing) {
  if (show === "attention") return Boolean(row[6]);
  return show !== "changed" || isChanged(row, names, isPairing);
}

/** The remark of a row without what is said of it elsewhere. */
export function restOf(remark, said) {
  return said && remark.startsWith(said) ? remark.slice(said.length).replace(/^; /, "") : remark;
}
