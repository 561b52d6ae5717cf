// What the rows of an editor's lists have in common.

import { make, put } from "./dom.js";
import { differing, runs, shortened } from "./names.js";

// Pixels of a row, as in the style sheet, and rows that are drawn beyond the visible ones.
export const ROW = { pitch: 26, spare: 2 };

/** A name whose end stays visible where it is cut off, with what another one has not in bold. */
export function putName(node, text, other = null, room = Infinity) {
  const kept = node.named;
  if (kept && kept[0] === text && kept[1] === other && kept[2] === room) return;
  node.named = [text, other, room];
  const inner = node.firstChild || node.appendChild(make("bdi", { dir: "ltr" }));
  const parts = runs(shortened(differing(text, other), room));
  if (parts.some(([lacking]) => lacking))
    inner.replaceChildren(...parts.map(([lacking, part]) => (lacking ? make("b", {}, part) : part)));
  else put(inner, parts.map(([, part]) => part).join(""));
}
