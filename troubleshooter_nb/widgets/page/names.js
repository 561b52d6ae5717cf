// How names, shapes and sentences are written.

// What breaks a line, moves to a tab stop or turns the direction of what follows; and the byte order
// mark and its like, which are not seen at all.
// biome-ignore lint/suspicious/noControlCharactersInRegex: it looks for them
const UNSEEN = /[\u0000-\u001f\u007f-\u009f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g;
const MOST_COMPARED = 10000; // parts of one name times parts of the other

/** A name with what cannot be seen of it written out. */
export function visible(text) {
  const known = { "\n": "\\n", "\r": "\\r", "\t": "\\t" };
  return text.replace(UNSEEN, (one) => known[one] || `\\u${one.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

/** A sentence with values in its gaps. */
export function filled(text, values) {
  return text.replace(/\{(\w+)\}/g, (gap, name) => (name in values ? values[name] : gap));
}

/** Shapes read better so: 64x32 becomes 64×32. */
export function times(text) {
  return text.replace(/(?<=\d)x(?=\d)/g, "×");
}

/** The parts of a name, each with whether the other name lacks it where it stands.
 *
 * Of names that have no word in common none is lacking: all would be, which says nothing. */
export function differing(name, other = null) {
  const cut = (text) => text.split(/(?<=[._/:])|(?=[._/:])/);
  const parts = cut(name);
  const nothing = parts.map((part) => [false, part]);
  if (other === null || other === name) return nothing;
  const theirs = cut(other);
  if (parts.length * theirs.length > MOST_COMPARED) return nothing;
  // How many parts the ends of the two have in common.
  const common = Array.from({ length: parts.length + 1 }, () => new Uint16Array(theirs.length + 1));
  for (let i = parts.length - 1; i >= 0; i--) {
    for (let j = theirs.length - 1; j >= 0; j--) {
      const same = parts[i] === theirs[j];
      common[i][j] = same ? common[i + 1][j + 1] + 1 : Math.max(common[i + 1][j], common[i][j + 1]);
    }
  }
  let j = 0;
  const found = parts.map((part, i) => {
    while (j < theirs.length && part !== theirs[j] && common[i][j + 1] >= common[i + 1][j]) j++;
    const same = j < theirs.length && part === theirs[j];
    if (same) j++;
    return [!same, part];
  });
  return found.some(([lacking, part]) => !lacking && /[\p{L}\p{N}]/u.test(part)) ? found : nothing;
}

/** The parts of a name in so many letters, if it can be: words that the other name has as well become
 * letters. Numbers and the last word stay: they tell a name from the others of its net; and so do
 * words of two letters, of which little would be left out. */
export function shortened(parts, room) {
  const last = parts.findLastIndex(([, part]) => part === "." || part === "/");
  let length = parts.reduce((sum, [, part]) => sum + part.length, 0);
  return parts.map(([lacking, part], i) => {
    if (lacking || i >= last || length <= room || part.length < 3 || /\d/.test(part)) return [lacking, part];
    length -= part.length - 1;
    return [lacking, part[0]];
  });
}

/** The parts of a name with neighbours of one kind as one text. */
export function runs(parts) {
  const found = [];
  for (const [lacking, part] of parts) {
    if (found.at(-1)?.[0] === lacking) found.at(-1)[1] += part;
    else found.push([lacking, part]);
  }
  return found;
}

/** A name in so many letters: where it takes more, words that the other lacks become letters too. */
function squeezed(name, other, room) {
  if (name.length <= room) return name;
  const common = shortened(differing(name, other), room);
  const texts = shortened(common.map(([, part]) => [false, part]), room).map(([, part]) => part);
  const last = texts.findLastIndex((text) => text === "." || text === "/");
  const text = texts.join("");
  if (text.length <= room || last < 1) return text;
  // Where letters do not do, only the numbers and the end are left.
  const numbers = texts.slice(0, last).filter((one) => /\d/.test(one));
  return ["", ...numbers, texts.slice(last + 1).join("")].join("…");
}

/** Two names in so many letters, and what both end with ("input 0") where it is said once. */
export function fitted(left, right, room) {
  if (!right) return [squeezed(left, left, room), "", ""];
  if (left.length + right.length + 3 <= room) return [left, right, ""];
  const [i, j] = [left.indexOf(" "), right.indexOf(" ")];
  let tail = i > 0 && left.slice(i) === right.slice(j) ? left.slice(i) : "";
  if (tail.length > room / 3) tail = "";
  const [one, other] = tail ? [left.slice(0, i), right.slice(0, j)] : [left, right];
  const both = room - 3 - tail.length;
  const first = squeezed(one, other, Math.max(both >> 1, both - other.length));
  return [first, squeezed(other, one, Math.max(both >> 1, both - first.length)), tail];
}
