// How numbers are written: as Python writes them, tests/widgets/test_page_in_node.py compares the two.

const ALL = 100; // digits that a method of numbers writes at the most, more than a tie can have

/** A whole number with its thousands apart. */
export function counted(count) {
  return count.toLocaleString("en");
}

/** What `toExponential` or `toFixed` writes, but of two numbers that are as close the even one. */
function toEven(value, method, digits) {
  const [exact, power] = value[method](ALL).split("e");
  const end = exact.indexOf(".") + (digits ? digits + 1 : 0);
  const isTie = /^\.?50*$/.test(exact.slice(end));
  if (!isTie || exact[end - 1] % 2) return value[method](digits);
  return power === undefined ? exact.slice(0, end) : `${exact.slice(0, end)}e${power}`;
}

/** A number with two digits: 1.2e-5. */
export function scientific(value) {
  if (Number.isNaN(value)) return "nan";
  if (!Number.isFinite(value)) return value > 0 ? "inf" : "-inf";
  return value === 0 ? "0" : toEven(value, "toExponential", 1).replace("e+", "e");
}

/** A number rounded to so many bits of precision; 53 are all it has. */
export function rounded(value, bits) {
  if (bits >= 53 || value === 0) return value;
  if (bits === 24) return Math.fround(value);
  // The sum pushes the bits that are too many out of the number, and rounds to even as it does.
  const push = value * (2 ** (53 - bits) + 1);
  return Number.isFinite(push) ? push - (push - value) : value;
}

/** The fewest digits that tell a number from all others of so many bits; as opened_row.py. */
export function shortest(value, bits) {
  if (!Number.isFinite(value)) return scientific(value);
  if (value === 0) return Object.is(value, -0) ? "-0" : "0";
  let text = value.toExponential();
  for (let digits = 0; digits < 16; digits++) {
    const fewer = toEven(value, "toExponential", digits);
    if (rounded(Number(fewer), bits) !== value) continue;
    text = fewer;
    break;
  }
  const [mantissa, power] = text.split("e");
  return power >= -4 && power < 16 ? String(Number(text)) : `${mantissa}e${Number(power)}`;
}

/** A figure as a column of the table says it. */
export function figure(name, value) {
  if (Number.isNaN(value)) return "–";
  if (["number", "step", "rank"].includes(name)) return String(value);
  if (name.endsWith("_count")) return counted(value);
  // A share that is never rounded up to 100 %, as words.percent.
  if (name === "allclose_ratio") return value >= 1 ? "100%" : `${toEven(Math.min(value * 100, 99.99), "toFixed", 2)}%`;
  return name === "growth" ? `×${scientific(value)}` : scientific(value);
}

/** Where a size stands between two others, in decades: from 0 to 1. */
export function level(value, low, high) {
  if (!(value > 0)) return 0;
  return Math.min(1, Math.max(0, Math.log10(value / low) / Math.log10(high / low)));
}
