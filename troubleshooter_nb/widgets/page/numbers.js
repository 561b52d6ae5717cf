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

function growth(value) {
  if (value === Infinity) return "×∞";
  return `×${value < 100 ? toEven(value, "toFixed", 1) : scientific(value)}`;
}

function significant(value, digits) {
  return String(Number(toEven(value, "toExponential", digits - 1)));
}

/** How figures of a table are written, by the names that render/cells.py has for it. */
const FORMATS = {
  number: String,
  count: counted,
  scientific,
  // A share that is never rounded up to 100 %.
  share: (value) => (value >= 1 ? "100%" : `${toEven(Math.min(value * 100, 99.99), "toFixed", 2)}%`),
  growth,
  // Truncated: 1 is only written when it is 1.
  cosine: (value) => (Math.trunc(value * 1e6) / 1e6).toFixed(6),
  hundredths: (value) => toEven(value, "toFixed", 2),
  percent: (value) => `${significant(value, 6)}%`,
  four_digits: (value) => significant(value, 4),
  six_digits: (value) => significant(value, 6),
  seven_digits: (value) => significant(value, 7),
};

/** A figure in the format of its column. */
export function figure(format, value) {
  return Number.isNaN(value) ? "–" : FORMATS[format](value);
}

/** Where a size stands between two others, in decades: from 0 to 1. */
export function level(value, low, high) {
  if (!(value > 0)) return 0;
  return Math.min(1, Math.max(0, Math.log10(value / low) / Math.log10(high / low)));
}
