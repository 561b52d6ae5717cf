// The page's side of the explorer: a table of columns, a chart, and one opened row.
// Names come from files and are hostile: they reach the page as text nodes and never as markup.

const ROW = 24; // px, height of a table row
const TALLEST = 364; // px, of the table
const NAME = 330; // px that two names should have
const ONE_NAME = 190; // px that a name alone should have before the table scrolls sideways
const MOST_SAID = 5; // values that a filter lists
const PATIENCE = 100; // ms until it is said that a row is being read
const SILENCE = 5000; // ms until a question that has no answer is said to have none
const SPARE = 5; // rows kept above and below what is seen
const DECADES = 4; // that the heat map's colours span
const DECADES_SHOWN = 14; // that the chart's axis spans, unless the tolerance asks for more
const STOPS = [
  [128, 128, 128, 26],
  [214, 165, 32, 120],
  [226, 110, 20, 215],
  [206, 38, 40, 255],
  [130, 10, 62, 255],
];
// On dark paper the largest is the lightest.
const DARK_STOPS = [
  [128, 128, 128, 38],
  [150, 60, 20, 150],
  [214, 90, 20, 230],
  [245, 165, 50, 255],
  [255, 236, 170, 255],
];
const MISMATCH = [122, 111, 200, 255];
const DARK_MISMATCH = [160, 150, 235, 255];
// What breaks a line, moves to a tab stop or turns the direction of what follows; and the byte order
// mark and its like, which are not seen at all.
const UNSEEN = /[\u0000-\u001f\u007f-\u009f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g;
const KINDS = ["unread", "ok", "carried", "warn", "plain", "bad", "miss"]; // marks of the chart, the last on top
const NAMES = ["left", "right", "left_display", "right_display"];

function make(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value == null || (value === false && !name.startsWith("aria-"))) continue;
    if (name === "class") node.className = value;
    else if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value);
  }
  // Notebook 7 hears a key before this page does, and its shortcuts look at the focused element
  // first: an attribute further out comes too late.
  node.setAttribute("data-lm-suppress-shortcuts", "true");
  node.append(...children.filter((child) => child != null));
  return node;
}

/** Text of a node; one that stays as it is costs no layout. */
function put(node, text) {
  if (node.nodeValue !== text) node.nodeValue = text;
}

function mark(node, name, value) {
  if (node.getAttribute(name) !== value) node.setAttribute(name, value);
}

/** A name with what cannot be seen of it written out. */
function visible(text) {
  const known = { "\n": "\\n", "\r": "\\r", "\t": "\\t" };
  return text.replace(UNSEEN, (one) => known[one] || `\\u${one.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

function filled(text, values) {
  return text.replace(/\{(\w+)\}/g, (gap, name) => (name in values ? values[name] : gap));
}

function scientific(value) {
  if (Number.isNaN(value)) return "nan";
  if (!Number.isFinite(value)) return value > 0 ? "inf" : "-inf";
  return value === 0 ? "0" : value.toExponential(1).replace("e+", "e");
}

/** How figures of the table are written, by the names that render/cells.py has for it. */
const FORMATS = {
  number: String,
  count: (value) => value.toLocaleString("en"),
  scientific,
  // A share that is never rounded up to 100 %.
  share: (value) => (value >= 1 ? "100%" : `${Math.min(value * 100, 99.99).toFixed(2)}%`),
  growth: (value) => (value === Infinity ? "×∞" : `×${value < 100 ? value.toFixed(1) : scientific(value)}`),
  cosine: (value) => (Math.trunc(value * 1e6) / 1e6).toFixed(6),
  hundredths: (value) => value.toFixed(2),
  percent: (value) => `${Number(value.toPrecision(6))}%`,
  four_digits: (value) => String(Number(value.toPrecision(4))),
  six_digits: (value) => String(Number(value.toPrecision(6))),
  seven_digits: (value) => String(Number(value.toPrecision(7))),
};

/** A number rounded to so many bits of precision; 53 are all it has. */
function rounded(value, bits) {
  if (bits >= 53 || value === 0) return value;
  if (bits === 24) return Math.fround(value);
  // The sum pushes the bits that are too many out of the number, and rounds to even as it does.
  const push = value * (2 ** (53 - bits) + 1);
  return Number.isFinite(push) ? push - (push - value) : value;
}

/** The fewest digits that tell a number from all others of so many bits; as opened_row.py. */
function shortest(value, bits) {
  if (!Number.isFinite(value)) return scientific(value);
  if (value === 0) return Object.is(value, -0) ? "-0" : "0";
  let text = value.toExponential();
  for (let digits = 0; digits < 16; digits++) {
    const fewer = value.toExponential(digits);
    if (rounded(Number(fewer), bits) !== value) continue;
    text = fewer;
    break;
  }
  const [mantissa, power] = text.split("e");
  return power >= -4 && power < 16 ? String(Number(text)) : `${mantissa}e${Number(power)}`;
}

/** The parts of a name, each with whether the other name lacks it where it stands. */
function differing(name, other) {
  const cut = (text) => text.split(/(?<=[._/:])|(?=[._/:])/);
  const [parts, theirs] = [cut(name), cut(other)];
  if (name === other || parts.length * theirs.length > 10000) return parts.map((part) => [false, part]);
  // How many parts the ends of the two have in common.
  const common = Array.from({ length: parts.length + 1 }, () => new Uint16Array(theirs.length + 1));
  for (let i = parts.length - 1; i >= 0; i--) {
    for (let j = theirs.length - 1; j >= 0; j--) {
      common[i][j] =
        parts[i] === theirs[j] ? common[i + 1][j + 1] + 1 : Math.max(common[i + 1][j], common[i][j + 1]);
    }
  }
  let j = 0;
  return parts.map((part, i) => {
    while (j < theirs.length && part !== theirs[j] && common[i][j + 1] >= common[i + 1][j]) j++;
    const same = j < theirs.length && part === theirs[j];
    if (same) j++;
    return [!same, part];
  });
}

/** A name in so many letters, if it can be: its words become letters, first those that the other
 * name has as well. Numbers and the last word stay: they tell a name from the others of its net. */
function shortened(name, other, room) {
  if (name.length <= room) return name;
  const parts = differing(name, other);
  const texts = parts.map(([, part]) => part);
  const last = texts.findLastIndex((text) => text === "." || text === "/");
  let { length } = name;
  for (const lacking of [false, true]) {
    for (let i = 0; i < last && length > room; i++) {
      if (parts[i][0] !== lacking || texts[i].length < 2 || /\d/.test(texts[i])) continue;
      length -= texts[i].length - 1;
      texts[i] = texts[i][0];
    }
  }
  if (length <= room || last < 1) return texts.join("");
  // Where letters do not do, only the numbers and the end are left.
  const numbers = texts.slice(0, last).filter((text) => /\d/.test(text));
  return ["", ...numbers, texts.slice(last + 1).join("")].join("…");
}

/** Two names in so many letters, and what both end with ("input 0") where it is said once. */
function fitted(left, right, room) {
  if (!right) return [shortened(left, left, room), "", ""];
  if (left.length + right.length + 3 <= room) return [left, right, ""];
  const [i, j] = [left.indexOf(" "), right.indexOf(" ")];
  let tail = i > 0 && left.slice(i) === right.slice(j) ? left.slice(i) : "";
  if (tail.length > room / 3) tail = "";
  const [one, other] = tail ? [left.slice(0, i), right.slice(0, j)] : [left, right];
  const both = room - 3 - tail.length;
  const first = shortened(one, other, Math.max(both >> 1, both - other.length));
  return [first, shortened(other, one, Math.max(both >> 1, both - first.length)), tail];
}

let ruler = null;

/** Pixels that a text of the table takes. */
function wide(text, weight = 400) {
  ruler = ruler || document.createElement("canvas").getContext("2d");
  ruler.font = `${weight} 12px sans-serif`;
  return ruler.measureText(text).width;
}

/** The name that a filter by a column has among the parts of the state. */
function columnOf(name) {
  return `where ${name}`;
}

function level(value, low = 1e-9, high = 10) {
  if (!(value > 0)) return 0;
  return Math.min(1, Math.max(0, Math.log10(value / low) / Math.log10(high / low)));
}

function typed(Kind, view) {
  // A buffer may start at any byte of the message it came in.
  return new Kind(view.buffer.slice(view.byteOffset, view.byteOffset + view.byteLength));
}

const KINDS_OF = { "<i8": BigInt64Array, "<u8": BigUint64Array };

/** Values of one side as the kernel sent them: integers of 64 bits and complex numbers as they are. */
class Values {
  constructor(kind, bits, buffer) {
    this.isComplex = kind === "<c16";
    this.bits = bits; // precision of a floating number, in the dtype it is stored in
    this.values = typed(KINDS_OF[kind] || Float64Array, buffer);
  }

  text(i) {
    const { values, bits } = this;
    if (!this.isComplex) return typeof values[i] === "bigint" ? String(values[i]) : shortest(values[i], bits);
    const imaginary = shortest(values[2 * i + 1], bits);
    return `${shortest(values[2 * i], bits)}${imaginary.startsWith("-") ? "" : "+"}${imaginary}j`;
  }

  isFinite(i) {
    const parts = this.isComplex ? [2 * i, 2 * i + 1] : [i];
    return parts.every((at) => Number.isFinite(Number(this.values[at])));
  }

  /** |this - other|, exactly between integers; null where the kernel's figure is as good. */
  distance(i, other) {
    const [mine, theirs] = [this.values[i], other.values[i]];
    if (typeof mine !== "bigint" || typeof theirs !== "bigint") return null;
    return String(mine > theirs ? mine - theirs : theirs - mine);
  }
}

/** The columns, and which rows a view shows: the same rule as packed_table.py has. */
class Table {
  constructor(described, buffers) {
    this.columns = {};
    // What the declaration of a column says comes along: title, format, right, figure, bar.
    described.forEach((said, i) => {
      const values = typed(said.texts ? Int32Array : Float64Array, buffers[i]);
      this.columns[said.name] = { ...said, values };
    });
    this.orders = new Map();
    this.numbers = this.columns.number.values;
    this.size = this.numbers.length;
    this.rowOf = new Map();
    for (let row = this.size - 1; row >= 0; row--) this.rowOf.set(this.numbers[row], row);
    // One text a row to search in: no word of a search holds the line break between the names.
    const named = NAMES.filter((name) => this.columns[name]);
    this.sought = Array.from({ length: this.size }, (_, row) =>
      [...new Set(named.map((name) => this.text(name, row)))].join("\n").toLowerCase(),
    );
  }

  has(name) {
    return name in this.columns;
  }

  number(name, row) {
    return this.columns[name].values[row];
  }

  text(name, row) {
    const column = this.columns[name];
    if (!column) return "";
    return column.texts ? column.texts[column.values[row]] : String(column.values[row]);
  }

  /** The different values of a column, with how many rows have each. */
  choices(name) {
    const { values, texts } = this.columns[name];
    const counts = new Map();
    for (const value of values) counts.set(value, (counts.get(value) || 0) + 1);
    const sorted = [...counts.keys()].sort((one, other) => one - other);
    return sorted.map((value) => ({ value: texts ? texts[value] : value, count: counts.get(value) }));
  }

  shown(view) {
    const keep = new Uint8Array(this.size).fill(1);
    for (const [name, wanted] of Object.entries(view.where)) {
      const column = this.columns[name];
      if (!column || !wanted.length) continue;
      const chosen = new Set(wanted);
      const fits = column.texts && column.texts.map((text) => chosen.has(text));
      const { values } = column;
      for (let i = 0; i < this.size; i++) {
        if (!(fits ? fits[values[i]] : chosen.has(values[i]))) keep[i] = 0;
      }
    }
    if (view.between) {
      const [low, high] = view.between;
      for (let i = 0; i < this.size; i++) {
        if (!(this.numbers[i] >= low && this.numbers[i] <= high)) keep[i] = 0;
      }
    }
    for (const word of view.text.toLowerCase().split(/\s+/).filter(Boolean)) {
      for (let i = 0; i < this.size; i++) if (keep[i] && !this.sought[i].includes(word)) keep[i] = 0;
    }
    const rows = [];
    for (const row of this.order(view)) if (keep[row]) rows.push(row);
    return rows;
  }

  /** All rows in the order of a view, sorted once: a filter only leaves some of them out. */
  order({ sort, descending }) {
    const name = `${sort}${descending ? " down" : ""}`;
    if (!this.orders.has(name)) this.orders.set(name, this.sorted(sort, descending));
    return this.orders.get(name);
  }

  sorted(name, descending) {
    const column = this.columns[name];
    const rows = [...this.numbers.keys()];
    if (!column) return rows;
    const sign = descending ? -1 : 1;
    const keys = column.values.map((value) => sign * value);
    const known = rows.filter((row) => !Number.isNaN(keys[row]));
    // Of two infinities the difference is NaN, which counts as equal here too.
    known.sort((one, other) => keys[one] - keys[other] || one - other);
    return known.concat(rows.filter((row) => Number.isNaN(keys[row])));
  }
}

class Explorer {
  constructor(model, el) {
    this.model = model;
    this.token = Math.random().toString(36).slice(2);
    this.waiting = new Map();
    this.asked = 0;
    this.told = new Map(); // part of the state -> how often the kernel was told it without an answer
    this.root = make("div", {
      class: "tnb-explorer",
      "data-pending": "0",
    });
    // What the kernel was not told yet changes nothing that is shown: it stands outside the root.
    this.outside = el;
    el.dataset.untold = "0";
    this.root.addEventListener("keydown", (event) => this.key(event));
    for (const kind of ["keypress", "keyup"]) {
      this.root.addEventListener(kind, (event) => event.stopPropagation());
    }
    this.hint = make("p", { class: "tnb-hint" });
    this.root.append(this.hint);
    el.append(this.root);
    this.hear = (message, buffers) => this.heard(message, buffers);
    model.on("msg:custom", this.hear);
    this.resized = new ResizeObserver(([{ contentRect }]) => {
      // Only the width decides what is drawn; the height changes with every opened row.
      if (!this.table || contentRect.width === this.width) return;
      const shown = this.width === 0;
      this.width = contentRect.width;
      if (this.width === 0) return; // collapsed: what was seen is shown again
      if (shown) this.scroller.scrollTop = this.top;
      this.fit();
      this.redraw();
    });
    this.themed = new MutationObserver(() => {
      this.inks = null;
      if (this.table) this.redraw();
    });
    this.themed.observe(document.body, { attributes: true, attributeFilter: ["data-jp-theme-light", "class"] });
    this.hint.textContent = model.get("waiting");
    this.ask("ready").then((answer) => this.start(answer));
  }

  close() {
    this.model.off("msg:custom", this.hear);
    this.resized.disconnect();
    this.themed.disconnect();
    cancelAnimationFrame(this.painting);
    for (const { timer } of this.waiting.values()) clearTimeout(timer);
    this.root.remove();
  }

  // Questions to the kernel -----------------------------------------------------------------

  ask(kind, content = {}) {
    const counter = kind === "tell" ? "untold" : "pending";
    const id = ++this.asked;
    const timer = this.table ? setTimeout(() => this.unanswered(), SILENCE) : null;
    const answered = new Promise((resolve) => this.waiting.set(id, { resolve, counter, timer }));
    this.count(counter, 1);
    try {
      this.model.send({ kind, id, from: this.token, ...content });
    } catch {
      // Without a kernel there is nobody to ask; the hint that is shown says so.
    }
    return answered;
  }

  unanswered() {
    this.silent.hidden = false;
    this.silent.textContent = this.words.silent;
    if (this.map) this.map.unanswered();
    if (this.panel.getAttribute("aria-busy") !== "true") return;
    // What stands there is of the row that was opened before.
    this.panel.setAttribute("aria-busy", "false");
    this.map = null;
    const name = make("samp", {}, this.label(this.opened));
    const head = make("h4", {}, `#${this.table.numbers[this.opened]} `, name);
    this.panel.replaceChildren(
      make("div", { class: "tnb-panel-head" }, head, this.closeButton()),
      make("p", { class: "tnb-sentence" }, this.words.silent),
    );
  }

  count(name, change) {
    const node = name === "untold" ? this.outside : this.root;
    node.dataset[name] = Number(node.dataset[name]) + change;
  }

  heard(message, buffers) {
    if (message.kind === "answer" && message.from === this.token) {
      const asked = this.waiting.get(message.id);
      if (!asked) return;
      this.waiting.delete(message.id);
      clearTimeout(asked.timer);
      if (this.silent && !this.silent.hidden) this.silent.hidden = true;
      asked.resolve({ ...message, buffers });
      // After those who wait for it have drawn.
      Promise.resolve().then(() => this.count(asked.counter, -1));
    } else if (message.kind === "state" && this.table) this.adopt(message);
  }

  /** Tells the kernel what changed here, and no more: the rest may have changed there meanwhile. */
  tell(parts) {
    const { where = {}, ...view } = parts.view || {};
    const names = [...Object.keys(view), ...Object.keys(where).map(columnOf)];
    if (parts.selected) names.push("selected");
    for (const name of names) this.told.set(name, (this.told.get(name) || 0) + 1);
    this.ask("tell", parts).then((answer) => {
      for (const name of names) this.told.set(name, this.told.get(name) - 1);
      this.adopt(answer);
    });
  }

  /** Takes what the kernel says of the state. A part that it was told and has not answered yet is
   * left as it is: that telling comes there after what is heard here, and holds. */
  adopt({ view: said = {}, selected }) {
    const free = (name) => !this.told.get(name);
    const view = { ...this.view, where: { ...this.view.where } };
    for (const [name, value] of Object.entries(said)) {
      if (name !== "where" && free(name)) view[name] = value;
    }
    for (const [name, values] of Object.entries(said.where || {})) {
      if (!free(columnOf(name))) continue;
      if (values.length) view.where[name] = values;
      else delete view.where[name];
    }
    const chosen = selected && free("selected");
    if (chosen) this.selected = new Set(selected);
    if (JSON.stringify(view) !== JSON.stringify(this.view)) {
      this.view = view;
      this.refresh();
      this.showFilters();
    } else if (chosen) {
      // The rows are those that were there: whoever looks at them stays where he is.
      this.draw();
      this.say();
    }
  }

  // Building ------------------------------------------------------------------------------

  start(answer) {
    if (!answer.columns) {
      this.hint.textContent = answer.sentence;
      return;
    }
    this.words = answer.words;
    this.marks = answer.marks;
    this.isDump = answer.dump;
    this.line = answer.line;
    this.table = new Table(answer.columns, answer.buffers);
    this.shown = answer.shown;
    this.view = answer.view;
    this.selected = new Set(answer.selected);
    this.current = 0;
    this.spec = this.columnSpec();
    this.longest = 0;
    this.paired = false; // whether rows have two names
    for (let i = 0; i < this.table.size; i++) {
      const [left, right] = this.labels(i);
      this.longest = Math.max(this.longest, left.length + (right ? right.length + 3 : 0));
      if (right) this.paired = true;
    }
    const title = make("p", { class: "tnb-title" }, visible(answer.title));
    this.chart = new Chart(this);
    this.live = make("span", { class: "tnb-count", role: "status", "aria-live": "polite" });
    this.spoken = make("span", { class: "tnb-spoken", role: "status", "aria-live": "polite" });
    this.panel = make("section", { class: "tnb-panel", hidden: true });
    this.silent = make("p", { class: "tnb-silent tnb-bad", role: "alert", hidden: true });
    this.top = 0;
    this.hint.replaceWith(title, this.silent, this.buildFilters(), this.chart.root, this.buildGrid());
    this.root.append(make("p", { class: "tnb-keys" }, this.words.keys), this.spoken, this.panel);
    this.panel.addEventListener("keydown", (event) => {
      if (event.key === "Escape") this.closePanel();
    });
    this.resized.observe(this.root);
    this.fit();
    this.showFilters();
    this.refresh();
  }

  /** What stands in a row, each with the room its texts and its head take. */
  columnSpec() {
    const { words, table } = this;
    const said = (name) => {
      const { values, texts, format } = table.columns[name];
      if (name === "verdict") return texts.map((text) => this.marks[text].slice(0, 3).filter((_, k) => k !== 1).join(" "));
      if (name === "origin") return texts.map((text) => words[text] || "");
      if (name === "left_shape") return [...new Set(Array.from({ length: table.size }, (_, i) => this.shapes(i)))];
      if (texts) return texts;
      if (format === "count" || format === "number") {
        return [values.reduce((most, value) => (value > most ? value : most), 0)].map((value) => this.figure(name, value));
      }
      const deep = values.some((value) => value !== 0 && Number.isFinite(value) && Math.abs(Math.log10(Math.abs(value))) >= 99);
      const sign = format === "growth" ? "×" : values.some((value) => value < 0) ? "-" : "";
      if (format === "growth" || format === "scientific") return [`${sign}8.8e-88${deep ? "8" : ""}`];
      const step = Math.ceil(table.size / 200);
      return [...values.filter((value, i) => i % step === 0)].map((value) => this.figure(name, value));
    };
    return this.columnsOf().map((column) => {
      if (column.width != null) return column;
      const { name, title } = column;
      const weight = name === "verdict" || name === "origin" ? 600 : 400;
      const texts = said(name).map((text) => wide(this.times(text), weight));
      const room = Math.min(Math.max(...texts), name.endsWith("shape") ? 110 : 140);
      return { ...column, width: Math.ceil(Math.max(room, wide(title, 600)) + 10) };
    });
  }

  columnsOf() {
    // The names take the room that the others leave.
    const said = ({ name, title, format, right, figure, bar }) => ({ name, title, right, figure, bar, width: format === "names" ? 0 : null });
    return [{ name: "check", title: "", width: 22 }, ...this.shown.map((name) => said(this.table.columns[name]))];
  }

  /** Whether nearly all names tell what a column says, too: "attn input 0" is an input. */
  tells(name) {
    const { table } = this;
    const count = Math.min(table.size, 200);
    const some = Array.from({ length: count }, (_, k) => Math.floor((k * table.size) / count));
    const tells = (row) => this.labels(row).some((text) => ` ${text} `.includes(` ${table.text(name, row)} `));
    return some.filter(tells).length >= 0.9 * count;
  }

  /** Gives the names the room that is left; where it is short, columns go: first those that the names
   * tell as well, then what the opened row says. */
  fit() {
    // As high as all rows, so that it stays as it is while a filter hides some of them.
    const all = this.grid.tHead.offsetHeight + Math.max(this.table.size, 2) * ROW + 2;
    this.scroller.style.height = `${Math.min(TALLEST, all)}px`;
    this.scroller.style.overflowY = all > TALLEST ? "scroll" : "auto";
    const room = this.scroller.clientWidth || 800;
    const probe = make("button", { class: "tnb-open" }, "0".repeat(40));
    this.root.append(probe);
    const letter = probe.scrollWidth / 40 || 7.3;
    probe.remove();
    let fixed = this.spec.reduce((sum, { width }) => sum + width, 0);
    const wanted = Math.min(NAME, this.longest * letter + 9);
    // Of two names less than that does not tell a row from the others.
    const tight = this.paired ? Math.max(wanted, 90) : Math.min(wanted, ONE_NAME);
    const folded = new Set();
    const fold = (name, short) => {
      const column = this.spec.find((one) => one.name === name);
      if (!column || folded.has(name) || !short()) return;
      folded.add(name);
      fixed -= column.width;
    };
    for (const name of ["direction", "role"]) fold(name, () => room - fixed < wanted && this.tells(name));
    for (const name of ["layer", "direction", "role"]) fold(name, () => room - fixed < tight);
    for (const name of ["layer", "direction", "role"]) {
      this.grid.classList.toggle(`tnb-without-${name}`, folded.has(name));
    }
    let least = Math.min(wanted, room - fixed);
    if (room - fixed < (this.paired ? 220 : tight)) {
      // One has to scroll sideways: the names are read, or the first figure is seen beside them.
      const first = this.spec.findIndex(({ figure }) => figure);
      const beside = this.spec.slice(0, first + 1).reduce((sum, { width }) => sum + width, 0);
      least = this.paired ? tight : Math.max(90, Math.min(tight, room - beside));
    }
    this.grid.style.minWidth = `${fixed + least}px`;
    const bar = fixed + least > room ? 16 : 0; // to scroll sideways
    if (bar) this.scroller.style.height = `${Math.min(TALLEST, all + bar)}px`;
    const letters = Math.floor((Math.max(room - fixed, least) - 9) / letter);
    if (letters === this.letters) return;
    this.letters = letters;
    this.fittedOf = new Map();
  }

  buildFilters() {
    const { words, table } = this;
    this.search = make("input", {
      type: "search",
      class: "tnb-search",
      placeholder: words.filter_hint,
      "aria-label": words.filter_label,
      spellcheck: "false",
      autocomplete: "off",
      oninput: () => this.change({ text: this.search.value }),
    });
    this.chips = table.choices("verdict").map(({ value, count }) => {
      const [mark, tone, word] = this.marks[value];
      const button = make(
        "button",
        {
          type: "button",
          class: "tnb-chip",
          "aria-pressed": "false",
          onclick: () => this.toggle("verdict", value),
        },
        make("span", { class: `tnb-${tone}` }, `${mark} ${word}`),
        ` ${count.toLocaleString("en")}`,
      );
      return { value, button };
    });
    this.others = make("span", { class: "tnb-others" });
    this.selects = ["origin", "role", "direction", "step", "rank"]
      .filter((name) => table.has(name) && table.choices(name).length > 1)
      .map((name) => {
        const options = table.choices(name).map(({ value, count }) => {
          const said = name === "origin" && words[value] ? words[value] : value;
          const label = `${said === "" ? words.none : visible(String(said))} (${count.toLocaleString("en")})`;
          return make("option", { value: JSON.stringify(value) }, label);
        });
        const select = make("select", {
          onchange: () => {
            // What Python chose may be several values; the page offers one.
            const chosen = select.value === "" ? [] : [JSON.parse(select.value)].flat();
            this.change({ where: { [name]: chosen } });
          },
        });
        select.append(make("option", { value: "" }, words.all), ...options);
        return { name, select, label: make("label", {}, `${this.table.columns[name].title} `, select) };
      });
    const bound = (label) =>
      make("input", { type: "number", step: "1", "aria-label": label, onchange: () => this.bounds() });
    const from = this.isDump ? words.from_entry : words.from_pair;
    this.from = bound(from);
    this.to = bound(words.to);
    this.clear = make(
      "button",
      { type: "button", class: "tnb-clear", onclick: () => this.clearFilters() },
      words.clear,
    );
    const chosen = (label, act) => make("button", { type: "button", disabled: true, onclick: act }, label);
    this.only = chosen(words.selected_only, () => this.change({ where: { number: [...this.selected] } }));
    this.none = chosen(words.clear_selection, () => {
      this.select([]);
      this.comeBack();
    });
    return make(
      "div",
      { class: "tnb-filters", role: "search" },
      make("div", { class: "tnb-line" }, this.search, this.live, this.clear, this.only, this.none),
      make("div", { class: "tnb-line" }, ...this.chips.map(({ button }) => button), this.others),
      make(
        "div",
        { class: "tnb-line" },
        ...this.selects.map(({ label }) => label),
        make("span", {}, `${from} `, this.from, ` ${words.to} `, this.to),
      ),
    );
  }

  buildGrid() {
    const { words } = this;
    const columns = this.spec.map(({ name, width }) =>
      make("col", { class: `tnb-c-${name}`, style: width ? `width:${width}px` : null }),
    );
    this.heads = new Map();
    const cells = this.spec.map(({ name, title, right }, i) => {
      const at = { scope: "col", "aria-colindex": i + 1, class: `tnb-c-${name}${right ? " tnb-right" : ""}` };
      if (name === "check") return make("th", { ...at, "aria-label": words.select_row.replace("{number}", "").trim() });
      const button = make("button", { type: "button", onclick: () => this.sortBy(name) }, title);
      const head = make("th", { ...at, "aria-sort": "none" }, button);
      this.heads.set(name, head);
      return head;
    });
    this.above = make("tr", { class: "tnb-gap", role: "presentation", "aria-hidden": "true" }, make("td"));
    this.below = make("tr", { class: "tnb-gap", role: "presentation", "aria-hidden": "true" }, make("td"));
    this.pool = [];
    this.body = make("tbody", {}, this.above, this.below);
    this.grid = make(
      "table",
      {
        role: "grid",
        "aria-label": this.isDump ? words.entries_label : words.table_label,
        "aria-multiselectable": "true",
        "aria-colcount": this.spec.length,
      },
      make("colgroup", {}, ...columns),
      make("thead", {}, make("tr", { "aria-rowindex": 1 }, ...cells)),
      this.body,
    );
    this.empty = make("p", { class: "tnb-empty", hidden: true }, this.table.size ? words.nothing : words.no_rows);
    const label = this.grid.getAttribute("aria-label");
    this.scroller = make("div", { class: "tnb-scroller", tabindex: "-1", role: "group", "aria-label": label }, this.grid, this.empty);
    this.scroller.addEventListener("scroll", () => {
      if (this.width === 0) return; // a collapsed output scrolls to its top
      this.top = this.scroller.scrollTop;
      this.draw();
    });
    this.body.addEventListener("click", (event) => this.clicked(event));
    this.body.addEventListener("dblclick", (event) => {
      const at = this.placeOf(event.target);
      if (at == null) return;
      if (this.before) this.select(this.before);
      this.before = null;
      this.open(this.rows[at]);
    });
    this.scroller.addEventListener("keydown", (event) => this.gridKey(event));
    return this.scroller;
  }

  // Filters and order -------------------------------------------------------------------------

  change(part) {
    const where = { ...this.view.where, ...part.where };
    for (const [name, values] of Object.entries(where)) if (!values.length) delete where[name];
    this.view = { ...this.view, ...part, where };
    // Another order or a search starts at its top; a filter that goes leaves one where one was.
    this.refresh("sort" in part || Boolean(part.text));
    this.showFilters();
    this.tell({ view: part });
  }

  toggle(name, value) {
    const chosen = new Set(this.view.where[name] || []);
    if (!chosen.delete(value)) chosen.add(value);
    this.change({ where: { [name]: [...chosen] } });
  }

  bounds() {
    const parse = (input, other) => (Number.isFinite(input.valueAsNumber) ? input.valueAsNumber : other);
    const unset = this.from.value === "" && this.to.value === "";
    // The whole numbers between the two, as packed_table.py has it.
    const low = Math.ceil(Math.min(Math.max(parse(this.from, 0), 0), 2 ** 31 - 1));
    const high = Math.floor(Math.max(Math.min(parse(this.to, 2 ** 31 - 1), 2 ** 31 - 1), -1));
    this.bounded = null;
    this.change({ between: unset ? null : [low, high] });
  }

  clearFilters() {
    const where = Object.fromEntries(Object.keys(this.view.where).map((name) => [name, []]));
    this.change({ text: "", where, between: null });
    this.search.focus();
  }

  sortBy(name) {
    const { sort, descending } = this.view;
    // Large figures are what one looks for; names and numbers start at their beginning.
    const first = !this.table.columns[name].texts && this.table.columns[name].format !== "number";
    this.change({ sort: name, descending: sort === name ? !descending : first });
  }

  showFilters() {
    const { view } = this;
    if (this.search.value !== view.text) this.search.value = view.text;
    const verdicts = view.where.verdict || [];
    for (const { value, button } of this.chips) {
      button.setAttribute("aria-pressed", String(verdicts.includes(value)));
    }
    for (const { name, select } of this.selects) {
      const chosen = view.where[name] || [];
      for (const one of [...select.options]) if (one.value.startsWith("[")) one.remove();
      if (chosen.length > 1) select.append(make("option", { value: JSON.stringify(chosen) }, chosen.join(", ")));
      select.value = chosen.length ? JSON.stringify(chosen.length > 1 ? chosen : chosen[0]) : "";
    }
    // A bound that one is typing is written over only where the bounds are others now.
    if (String(view.between) !== this.bounded) {
      this.bounded = String(view.between);
      const [low, high] = view.between || ["", ""];
      this.from.value = low;
      this.to.value = high === 2 ** 31 - 1 ? "" : high;
    }
    this.showOthers();
    const filtered = view.text || view.between || Object.values(view.where).some((v) => v.length);
    this.clear.disabled = !filtered;
    for (const [name, head] of this.heads) {
      const mine = name === view.sort;
      head.setAttribute("aria-sort", mine ? (view.descending ? "descending" : "ascending") : "none");
    }
  }

  /** Filters that Python set and no other element here shows, each to take back. */
  showOthers() {
    const { view } = this;
    const chips = new Set(this.chips.map(({ value }) => value));
    const shown = new Set(this.selects.map(({ name }) => name));
    const others = Object.entries(view.where)
      .map(([name, values]) => [name, name === "verdict" ? values.filter((one) => !chips.has(one)) : values])
      .filter(([name, values]) => values.length && !shown.has(name) && this.table.has(name));
    this.others.replaceChildren(
      ...others.map(([name, values]) => {
        const { title } = this.table.columns[name];
        const some = values.slice(0, MOST_SAID).map((one) => visible(String(this.marks[one] && name === "verdict" ? this.marks[one][2] : one)));
        const said = `${title}: ${some.join(", ")}${values.length > MOST_SAID ? ` … ${values.length.toLocaleString("en")}` : ""}`;
        const rest = (view.where[name] || []).filter((one) => !values.includes(one));
        const drop = () => {
          this.change({ where: { [name]: rest } });
          this.search.focus();
        };
        return make("button", { type: "button", class: "tnb-chip", "aria-pressed": "true", onclick: drop }, `${said} ×`);
      }),
    );
  }

  refresh(fromTop = false) {
    const held = this.rows && !fromTop ? this.rows[this.current] : undefined;
    this.rows = this.table.shown(this.view);
    const at = held === undefined ? -1 : this.rows.indexOf(held);
    this.current = Math.max(0, at);
    this.grid.setAttribute("aria-rowcount", this.rows.length + 1);
    this.empty.hidden = this.rows.length > 0;
    this.scroller.scrollTop = this.top = at > 0 ? Math.max(0, at * ROW - 4 * ROW) : 0;
    // The words come last: what is measured while rows are drawn needs no new layout.
    this.redraw();
    this.say();
  }

  say() {
    const total = this.table.size.toLocaleString("en");
    const shown = this.rows.length.toLocaleString("en");
    const chosen = this.selected.size
      ? filled(this.words.selected, { selected: this.selected.size.toLocaleString("en") })
      : "";
    this.only.disabled = this.none.disabled = !this.selected.size;
    const text = filled(this.words.count, { shown, total }) + chosen;
    if (this.live.textContent !== text) this.live.textContent = text;
  }

  redraw() {
    this.draw();
    // The rows are what one waits for: the chart follows when they are on the screen.
    cancelAnimationFrame(this.painting);
    clearTimeout(this.painted);
    this.painting = requestAnimationFrame(() => {
      this.painted = setTimeout(() => this.chart.paint()); // as soon as that frame is shown
    });
    if (this.map) this.map.draw();
  }

  /** Colours as the theme gives them: a canvas does not know custom properties. */
  ink() {
    if (!this.inks) {
      const probe = make("span");
      this.root.append(probe);
      this.inks = { font: `11px ${getComputedStyle(this.root).fontFamily}` };
      for (const tone of ["ok", "bad", "warn", "miss", "text", "faint", "line", "brush", "paper"]) {
        probe.style.color = `var(--tnb-${tone})`;
        this.inks[tone] = getComputedStyle(probe).color;
      }
      // Light text stands on dark paper.
      this.inks.dark = this.inks.text.match(/\d+/g).slice(0, 3).reduce((sum, one) => sum + Number(one), 0) > 384;
      probe.remove();
    }
    return this.inks;
  }

  // Rows --------------------------------------------------------------------------------------

  draw() {
    const focused = this.body.contains(document.activeElement) && document.activeElement.matches("tr");
    const height = this.scroller.clientHeight || 15 * ROW;
    const first = Math.max(0, Math.floor(this.scroller.scrollTop / ROW) - SPARE);
    const last = Math.min(this.rows.length, first + Math.ceil(height / ROW) + 2 * SPARE);
    while (this.pool.length < last - first) {
      const row = this.blankRow();
      this.pool.push(row);
      this.below.before(row.node);
    }
    while (this.pool.length > last - first) this.pool.pop().node.remove();
    this.above.style.height = `${first * ROW}px`;
    this.below.style.height = `${(this.rows.length - last) * ROW}px`;
    this.pool.forEach((row, i) => this.fill(row, first + i));
    const inside = this.current >= first && this.current < last;
    this.scroller.tabIndex = inside && this.rows.length ? -1 : 0;
    if (focused) {
      const target = inside ? this.pool[this.current - first].node : this.scroller;
      target.focus({ preventScroll: true });
    }
  }

  blankRow() {
    const cells = this.spec.map(({ name, right }, i) => {
      const at = { role: "gridcell", "aria-colindex": i + 1, class: `tnb-c-${name}${right ? " tnb-right" : ""}` };
      if (name === "check") {
        const box = make("input", { type: "checkbox", tabindex: "-1" });
        return make("td", { ...at, class: "tnb-check" }, box);
      }
      if (name === "left_display") {
        // Of a name that does not fit its end is seen, which tells it from the others.
        const part = () => make("span", { class: "tnb-end" }, make("bdi", { dir: "ltr" }, ""));
        const fixed = (text) => make("span", { class: "tnb-to" }, text);
        const button = make("button", { type: "button", class: "tnb-open", tabindex: "-1" },
          part(), fixed(" → "), part(), fixed(""));
        return make("td", at, button);
      }
      return make("td", at, "");
    });
    return { node: make("tr", { tabindex: "-1" }, ...cells), cells, at: -1 };
  }

  fill(row, at) {
    const { table, spec } = this;
    const i = this.rows[at];
    const number = table.numbers[i];
    const chosen = this.selected.has(number);
    const { node, cells } = row;
    row.at = at;
    mark(node, "aria-rowindex", String(at + 2));
    mark(node, "aria-selected", String(chosen));
    mark(node, "tabindex", at === this.current ? "0" : "-1");
    node.classList.toggle("tnb-current", at === this.current);
    node.classList.toggle("tnb-opened", i === this.opened);
    spec.forEach(({ name, bar }, c) => {
      const cell = cells[c];
      const inner = cell.firstChild;
      if (name === "check") {
        inner.checked = chosen;
        mark(inner, "aria-label", filled(this.words.select_row, { number }));
      } else if (name === "verdict") {
        const [sign, tone, word] = this.marks[table.text("verdict", i)];
        mark(cell, "class", `tnb-${tone}`);
        put(inner, `${sign} ${word}`);
      } else if (name === "left_display") {
        if (!this.fittedOf.has(i)) this.fittedOf.set(i, fitted(...this.labels(i), this.letters));
        const [left, right, tail] = this.fittedOf.get(i);
        const [first, arrow, second, both] = inner.children;
        put(first.firstChild.firstChild, left);
        put(second.firstChild.firstChild, right);
        put(both.firstChild, tail);
        arrow.hidden = second.hidden = !right;
        const full = [table.text("left", i), table.text("right", i)].filter(Boolean);
        mark(inner, "title", visible([...new Set(full)].join(" → ")));
      } else if (name === "origin") {
        const origin = table.text("origin", i);
        mark(cell, "class", origin === "created" ? "tnb-bad" : origin === "carried" ? "tnb-warn" : "");
        put(inner, this.words[origin] || "");
      } else if (name === "left_shape") {
        put(inner, this.shapes(i));
        mark(cell, "title", inner.nodeValue);
      } else if (name === "shape") {
        put(inner, this.times(table.text("shape", i)));
      } else if (table.columns[name].texts) {
        put(inner, visible(table.text(name, i)));
      } else {
        const value = table.number(name, i);
        put(inner, this.figure(name, value));
        if (bar) {
          const [low, high] = bar;
          mark(cell, "class", `tnb-right tnb-bar-${this.marks[table.text("verdict", i)][1]}`);
          mark(cell, "style", `--tnb-share:${(level(value, low, high) * 100).toFixed(0)}%`);
        }
      }
    });
  }

  /** The shape of a row, or both where they differ. */
  shapes(i) {
    const [left, right] = [this.table.text("left_shape", i), this.table.text("right_shape", i)];
    return this.times(left === right || !right ? left : left ? `${left} → ${right}` : right);
  }

  times(shape) {
    return shape.replace(/x(?=\d)/g, "×");
  }

  figure(name, value) {
    return Number.isNaN(value) ? "–" : FORMATS[this.table.columns[name].format](value);
  }

  /** What a row is called on the left and, where it is called otherwise there, on the right. */
  labels(i) {
    const [left, right] = ["left_display", "right_display"].map((name) => visible(this.table.text(name, i)));
    return this.isDump || left === right ? [left, ""] : [left || "–", right || "–"];
  }

  label(i) {
    return this.labels(i).filter(Boolean).join(" → ");
  }

  // Moving, selecting -------------------------------------------------------------------------

  placeOf(target) {
    const node = target.closest("tr");
    const row = this.pool.find((one) => one.node === node);
    return row ? row.at : null;
  }

  clicked(event) {
    const at = this.placeOf(event.target);
    if (at == null) return;
    const number = this.table.numbers[this.rows[at]];
    if (event.target.closest(".tnb-open")) {
      this.moveTo(at);
      this.open(this.rows[at]);
      return;
    }
    if (event.shiftKey) {
      const [low, high] = [Math.min(at, this.current), Math.max(at, this.current)];
      const range = this.rows.slice(low, high + 1).map((row) => this.table.numbers[row]);
      this.before = null;
      this.select([...this.selected, ...range]);
    } else if (event.ctrlKey || event.metaKey || event.target.matches("input")) {
      this.before = null;
      this.toggleSelected(number);
    } else if (event.detail < 2) {
      this.before = this.selected; // a double click opens the row and selects nothing
      this.select([number]);
    }
    this.moveTo(at);
  }

  toggleSelected(number) {
    const chosen = new Set(this.selected);
    if (!chosen.delete(number)) chosen.add(number);
    this.select(chosen);
  }

  select(numbers) {
    this.selected = new Set(numbers);
    this.draw();
    this.say();
    this.tell({ selected: [...this.selected].sort((a, b) => a - b) });
  }

  moveTo(at, focus = true) {
    if (!this.rows.length) return;
    this.current = Math.min(this.rows.length - 1, Math.max(0, at));
    const top = this.current * ROW;
    const head = this.grid.tHead.offsetHeight;
    const room = this.scroller.clientHeight - head;
    if (top < this.scroller.scrollTop) this.scroller.scrollTop = top;
    else if (top + ROW > this.scroller.scrollTop + room) this.scroller.scrollTop = top + ROW - room;
    this.draw();
    this.chart.draw();
    const row = this.pool.find((one) => one.at === this.current);
    if (!focus || !row) return;
    row.node.focus({ preventScroll: true });
    row.node.scrollIntoView({ block: "nearest" });
  }

  key(event) {
    const typing = event.target.matches("input:not([type=checkbox]), select");
    if (event.key === "/" && !typing) {
      event.preventDefault();
      this.search.focus();
      this.search.select();
    } else if (event.key === "Escape" && event.target === this.search) {
      if (this.search.value) this.change({ text: "" });
      else this.moveTo(this.current);
    } else if (event.key === "ArrowDown" && event.target === this.search) {
      event.preventDefault();
      this.moveTo(this.current);
    }
    // The notebook's own shortcuts would act on the cell; saving alone is meant for it.
    event.stopPropagation();
    if (!(event.ctrlKey || event.metaKey) || event.key.toLowerCase() !== "s") return;
    event.preventDefault();
    const { key, code, keyCode, which, ctrlKey, metaKey } = event;
    // nbclassic hears no key at all while the focus is in a widget.
    const deaf = window.Jupyter?.keyboard_manager;
    const wakes = deaf && !deaf.enabled;
    if (wakes) deaf.enable();
    this.outside.dispatchEvent(new KeyboardEvent("keydown", {
      key, code, keyCode, which, ctrlKey, metaKey, bubbles: true, cancelable: true,
    }));
    if (wakes) deaf.disable();
  }

  gridKey(event) {
    if (event.target.closest("thead")) return;
    const page = Math.max(1, Math.floor(this.scroller.clientHeight / ROW) - 2);
    const moves = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page };
    if (event.key in moves) {
      const from = this.current;
      this.moveTo(from + moves[event.key]);
      if (event.shiftKey) {
        const numbers = [from, this.current].map((at) => this.table.numbers[this.rows[at]]);
        this.select([...this.selected, ...numbers]);
      }
    } else if (event.key === "Home") this.moveTo(0);
    else if (event.key === "End") this.moveTo(this.rows.length - 1);
    else if (event.key === "Enter") this.rows.length && this.open(this.rows[this.current]);
    else if (event.key === " ") {
      if (this.rows.length) this.toggleSelected(this.table.numbers[this.rows[this.current]]);
    } else if (event.key === "a" && (event.ctrlKey || event.metaKey)) {
      this.select(this.rows.map((row) => this.table.numbers[row]));
    } else if (event.key === "Escape") this.closePanel() || (this.selected.size && this.select([]));
    else return;
    event.preventDefault();
  }

  // The opened row ----------------------------------------------------------------------------

  async open(row, side) {
    this.opened = row;
    const name = this.label(row);
    this.panel.setAttribute("aria-label", name);
    // An answer is mostly there sooner than one sees that it is waited for.
    const slow = setTimeout(() => {
      if (this.opened !== row) return;
      this.panel.hidden = false;
      if (!this.map) this.panel.replaceChildren(make("p", {}, filled(this.words.reading, { name })));
      this.panel.setAttribute("aria-busy", "true");
    }, PATIENCE);
    this.draw();
    const answer = await this.ask("open", { row, side });
    clearTimeout(slow);
    if (this.opened !== row) return; // another one was opened meanwhile
    this.panel.hidden = false;
    this.panel.setAttribute("aria-busy", "false");
    this.showPanel(row, answer);
    // Its beginning, with the map where there is one: the row stays in sight if it can.
    const begin = this.panel.querySelector(".tnb-panel-head");
    (this.panel.querySelector(".tnb-inside") || this.panel).scrollIntoView({ block: "nearest" });
    begin.scrollIntoView({ block: "nearest" });
  }

  /** What was opened, for those who do not see it. */
  announce(row, answer) {
    const { table, words } = this;
    const name = this.isDump ? "largest" : "max_abs_error";
    const value = table.number(name, row);
    const figure = Number.isNaN(value) ? "" : `, ${this.table.columns[name].title} ${scientific(value)}`;
    const what = `${this.marks[table.text("verdict", row)][2]}${figure}${answer.sentence ? `. ${answer.sentence}` : ""}`;
    this.spoken.textContent = filled(words.opened, { number: table.numbers[row], name: visible(answer.name || this.label(row)), what });
  }

  /** Whether there was one to close. */
  closePanel() {
    if (this.panel.hidden && this.opened === undefined) return false;
    this.panel.hidden = true;
    this.panel.replaceChildren();
    this.spoken.textContent = "";
    this.map = null;
    this.opened = undefined;
    this.comeBack();
    return true;
  }

  /** The focus to the current row; without rows to what hides them. */
  comeBack() {
    if (this.rows.length) this.moveTo(this.current);
    else this.search.focus();
  }

  closeButton() {
    return make("button", { type: "button", class: "tnb-close", onclick: () => this.closePanel() }, `× ${this.words.close}`);
  }

  showPanel(row, answer) {
    const { words } = this;
    const number = this.table.numbers[row];
    const mark = this.marks[this.table.text("verdict", row)];
    const head = make(
      "div",
      { class: "tnb-panel-head" },
      make("h4", {}, make("span", { class: `tnb-${mark[1]}` }, `${mark[0]} ${mark[2]}`), ` #${number} `, make("samp", {}, visible(answer.name || this.label(row)))),
      this.closeButton(),
    );
    this.map = null;
    const parts = [head];
    if (answer.reason) parts.push(make("p", {}, visible(answer.reason)));
    if (answer.facts) parts.push(make("p", { class: "tnb-small" }, visible(answer.facts)));
    if (answer.sentence) parts.push(make("p", { class: "tnb-sentence" }, answer.sentence));
    if (answer.side) parts.push(this.sides(row, answer));
    if (answer.map) {
      this.map = new HeatMap(this, row, answer);
      parts.push(
        make("div", { class: "tnb-inside" }, this.map.root, this.worst(answer), this.map.numbers),
        make(
          "div",
          { class: "tnb-inside" },
          make("div", {}, ...this.profiles(answer)),
          make("div", { class: "tnb-histograms" }, ...answer.histograms.map((one) => this.histogram(one))),
        ),
      );
    }
    parts.push(this.figures(answer));
    this.panel.replaceChildren(...parts);
    if (this.map) this.map.draw();
    this.announce(row, answer);
  }

  /** Which side of a pair that cannot be compared is drawn. */
  sides(row, { side, sides }) {
    const buttons = sides.map(([name, word]) => {
      const onclick = async () => {
        await this.open(row, name);
        this.panel.querySelector('.tnb-sides [aria-pressed="true"]')?.focus();
      };
      return make("button", { type: "button", class: "tnb-chip", "aria-pressed": String(name === side), onclick }, word);
    });
    return make("div", { class: "tnb-line tnb-sides" }, ...buttons);
  }

  worst(answer) {
    if (!answer.worst.length) return null; // nothing differs
    const { words } = this;
    const single = this.isDump || Boolean(answer.side);
    const titles = single
      ? [words.index, words.value]
      : [words.index, words.left, words.right, words.error, words.relative];
    const rows = answer.worst.map(([index, ...figures], i) => {
      const go = make(
        "button",
        {
          type: "button",
          class: "tnb-link",
          "aria-label": filled(words.show_there, { index }),
          onclick: () => this.map.goTo(answer.places[i]),
        },
        index,
      );
      return make("tr", {}, make("td", {}, go), ...figures.map((text) => make("td", { class: "tnb-right" }, text)));
    });
    return make(
      "table",
      { class: "tnb-table" },
      make("caption", {}, single ? words.largest_elements : words.worst),
      make("thead", {}, make("tr", {}, ...titles.map((title, i) => make("th", { scope: "col", class: i ? "tnb-right" : "" }, title)))),
      make("tbody", {}, ...rows),
    );
  }

  profiles(answer) {
    if (!answer.profiles.length) return [];
    const { words } = this;
    return [
      make("p", { class: "tnb-caption" }, this.isDump || answer.side ? words.value_profiles : words.profiles),
      ...answer.profiles.map(({ axis, bars, text, concentrated }) => {
        const label = filled(words.axis, { axis });
        return make(
          "div",
          { class: "tnb-profile" },
          make("span", {}, label),
          bars_(bars, `${label}: ${text}`, concentrated ? "bad" : ""),
          make("span", { class: concentrated ? "tnb-bad" : "" }, text),
        );
      }),
    ];
  }

  histogram({ title, ranges, series }) {
    return make(
      "div",
      {},
      make("p", { class: "tnb-caption" }, title),
      ...series.map(({ name, bars, counts }) =>
        make(
          "div",
          { class: "tnb-profile" },
          make("span", {}, name),
          bars_(bars, `${name}: ${counts.join(", ")}`, "", counts.map((count, i) => `${ranges[i]}: ${count}`)),
        ),
      ),
    );
  }

  figures(answer) {
    const { words } = this;
    const half = Math.ceil(answer.figures.length / 2);
    const pairs = answer.figures.slice(0, half).map((left, i) => {
      const right = answer.figures[half + i];
      const cells = [left, right].filter(Boolean).flatMap(([word, text, name]) => [
        make("th", { scope: "row", title: name }, word),
        make("td", { class: "tnb-right" }, text),
      ]);
      return make("tr", {}, ...cells);
    });
    const sides = answer.statistics.length
      ? make(
          "table",
          { class: "tnb-table" },
          make("caption", {}, words.statistics),
          make("thead", {}, make("tr", {}, ...answer.heads.map((text, i) => make("th", { scope: "col", class: i ? "tnb-right" : "" }, text)))),
          make(
            "tbody",
            {},
            ...answer.statistics.map(([side, ...texts]) =>
              make("tr", {}, make("th", { scope: "row" }, side), ...texts.map((text) => make("td", { class: "tnb-right" }, text))),
            ),
          ),
        )
      : null;
    return make(
      "div",
      { class: "tnb-figures" },
      pairs.length
        ? make("table", { class: "tnb-table" }, make("caption", {}, words.figures), make("tbody", {}, ...pairs))
        : null,
      sides,
    );
  }
}

function bars_(shares, label, tone, titles) {
  const bars = shares.map((share, i) => {
    const bar = make("i", titles ? { title: titles[i] } : {});
    bar.style.height = share > 0 ? `${Math.max(6, share * 100)}%` : "1px";
    return bar;
  });
  return make("span", { class: `tnb-bars ${tone ? `tnb-bars-${tone}` : ""}`, role: "img", "aria-label": label }, ...bars);
}

function canvasOf(canvas, width, height) {
  const ratio = window.devicePixelRatio || 1;
  if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    canvas.style.height = `${height}px`;
  }
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  return context;
}

/** The decades that an axis shows: the largest sizes, what lies within so many decades below them,
 * the tolerance and the least failing error. A few sizes far from all others, one that overflowed or
 * one that is nearly 0, must not press the others on one line.
 *
 * `sizes` (sorted) and `line` are powers of ten, `failing` is an error or Infinity. */
function decadesOf(sizes, line, failing) {
  const few = Math.max(1, Math.floor(0.05 * sizes.length));
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

/** The size of every row in execution order, with a brush. */
class Chart {
  constructor(explorer) {
    this.explorer = explorer;
    const { table, words, isDump } = explorer;
    this.column = table.columns[isDump ? "largest" : "max_abs_error"].values;
    this.byNumber = [...table.numbers.keys()].sort((a, b) => table.numbers[a] - table.numbers[b] || a - b);
    this.inOrder = this.byNumber.map((row) => table.numbers[row]);
    this.placeOf = new Int32Array(table.size);
    this.byNumber.forEach((row, place) => { this.placeOf[row] = place; });
    const origins = table.has("origin") ? table.columns.origin.texts : [];
    const traced = ["created", "carried", "without_effect"].some((origin) => origins.includes(origin));
    const failing = traced ? ["mark_created", "mark_carried"] : ["mark_bad"];
    if (origins.includes("without_effect")) failing.push("mark_without_effect");
    const marks = isDump ? ["mark_fine", "mark_odd", "mark_miss"] : ["mark_ok", ...failing, "mark_warn", "mark_miss"];
    const tones = {
      mark_fine: "ok", mark_ok: "ok", mark_bad: "bad", mark_created: "bad", mark_without_effect: "bad",
      mark_carried: "warn", mark_warn: "warn", mark_odd: "warn", mark_miss: "miss", mark_unread: "unread",
    };
    const title = isDump ? words.chart_entries : words.chart_pairs;
    this.canvas = make("canvas", { role: "img" });
    this.picture = make("canvas");
    this.kinds = Uint8Array.from({ length: table.size }, (_, row) => {
      const tone = explorer.marks[table.text("verdict", row)][1];
      const origin = { carried: "carried", without_effect: "plain" }[table.text("origin", row)];
      return KINDS.indexOf((tone === "bad" && origin) || tone);
    });
    if (this.kinds.includes(KINDS.indexOf("unread"))) marks.push("mark_unread");
    this.setRange();
    const count = (rows) => rows.reduce((sum, one) => sum + one, 0).toLocaleString("en");
    const [over, under, unsized] = [this.over, this.under, this.unsized].map(count);
    const axis = filled(words.chart_axis, { low: this.low, high: this.high, over, under, unsized });
    this.canvas.setAttribute("aria-label", `${title}; ${axis}`);
    const legend = marks.map((key) => make("span", { class: `tnb-${tones[key]}` }, words[key]));
    if (this.over.includes(1)) legend.push(make("span", {}, words.mark_over));
    this.rowsOf = KINDS.map((_, k) => this.byNumber.filter((row) => this.kinds[row] === k));
    const nothing = this.nothing();
    this.root = make(
      "figure",
      { class: "tnb-chart", hidden: !table.size },
      nothing
        ? make("p", { class: "tnb-sentence" }, nothing)
        : make("figcaption", {}, `${title} `, ...legend.flatMap((mark) => [mark, " "])),
      nothing ? null : this.canvas,
    );
    this.canvas.addEventListener("pointerdown", (event) => this.down(event));
    this.canvas.addEventListener("pointermove", (event) => this.move(event));
    this.canvas.addEventListener("pointerup", (event) => this.up(event));
    this.canvas.addEventListener("pointercancel", () => { this.dragged = null; this.draw(); });
  }

  /** Decades of the axis, and which rows lie above it, beneath it, or have no size at all. */
  setRange() {
    const { column, kinds, explorer } = this;
    const positive = (value) => Number.isFinite(value) && value > 0;
    const sizes = Float64Array.from([...column].filter(positive), Math.log10).sort();
    const failing = [...column].filter((value, row) => positive(value) && ["bad", "plain", "carried"].includes(KINDS[kinds[row]]));
    const line = explorer.line ? [Math.log10(explorer.line[0])] : [];
    this.sized = sizes.length > 0;
    [this.low, this.high] = decadesOf(sizes, line, failing.reduce((least, value) => Math.min(least, value), Infinity));
    const [least, most] = [10 ** this.low, 10 ** this.high];
    const isMiss = (row) => KINDS[kinds[row]] === "miss";
    this.over = Uint8Array.from(column, (value, row) => !isMiss(row) && value > most);
    this.under = Uint8Array.from(column, (value, row) => !isMiss(row) && value < least);
    this.unsized = Uint8Array.from(column, (value, row) => !isMiss(row) && Number.isNaN(value));
    // What has no place on the axis stands on lines of its own: at the top what is not finite or
    // too large, at the bottom what is 0 or too small, and what was not measured.
    this.height = 150;
    this.top = this.over.includes(1) || kinds.includes(KINDS.indexOf("miss")) ? 30 : 12;
    this.lanes = [];
    if (this.under.includes(1)) {
      const small = column.some((value, row) => this.under[row] && value > 0);
      this.lanes.push({ label: small ? `<1e${this.low}` : "0", rows: this.under });
    }
    if (this.unsized.includes(1)) this.lanes.push({ label: "–", rows: this.unsized });
    this.lanes.forEach((lane, i) => { lane.y = this.height - 20 - 13 * (this.lanes.length - 1 - i); });
    this.bottom = this.lanes.length ? this.lanes[0].y - 13 : this.height - 22;
  }

  /** Why there is no chart: nothing was read or compared, or no value has a size. */
  nothing() {
    const { table, words, isDump, marks } = this.explorer;
    if (this.sized || !table.size) return "";
    // Errors that are all 0 have their place on the lowest line.
    if (!isDump && this.column.some((value) => !Number.isNaN(value))) return "";
    const kinds = table.choices("verdict");
    if (kinds.length === 1 && kinds[0].value === "not_read") return words.no_chart;
    const counts = kinds.map(({ value, count }) => `${marks[value][2]} ${count.toLocaleString("en")}`);
    return filled(isDump ? words.no_size : words.no_pair_sizes, { counts: counts.join(", ") });
  }

  x(place) {
    return 46 + (this.width - 60) * (place / Math.max(1, this.explorer.table.size - 1));
  }

  /** Where a power of ten stands. */
  y(power) {
    const share = (power - this.low) / (this.high - this.low);
    return this.top + (this.bottom - this.top) * (1 - Math.min(1, Math.max(0, share)));
  }

  yOf(row) {
    if (this.over[row] || KINDS[this.kinds[row]] === "miss") return 15;
    const lane = this.lanes.find(({ rows }) => rows[row]);
    return lane ? lane.y : this.y(Math.log10(this.column[row]));
  }

  /** Paints all marks, which change with the filters, and shows them. */
  paint() {
    const { explorer, canvas } = this;
    if (!canvas.isConnected) return;
    this.width = canvas.clientWidth;
    if (!this.width) return;
    const ink = explorer.ink();
    this.place();
    const context = canvasOf(this.picture, this.width, this.height);
    const seen = new Uint8Array(explorer.table.size);
    for (const row of explorer.rows) seen[row] = 1;
    context.putImageData(this.marks(seen, ink), 0, 0);
    this.axes(context, ink);
    this.draw();
  }

  /** Where each row's mark stands, in pixels of the page. */
  place() {
    if (this.placed === this.width) return;
    this.placed = this.width;
    const { size } = this.explorer.table;
    this.xs = Float32Array.from({ length: size }, (_, row) => this.x(this.placeOf[row]));
    this.ys = Float32Array.from({ length: size }, (_, row) => this.yOf(row));
  }

  /** All marks, pale where the filters hide them: pixels are copied, ten thousand strokes are slow. */
  marks(seen, ink) {
    const ratio = window.devicePixelRatio || 1;
    const [width, height] = [Math.round(this.width * ratio), Math.round(this.height * ratio)];
    const picture = new ImageData(width, height);
    const pixels = new Uint32Array(picture.data.buffer);
    // Marks that fall on the same few pixels are drawn once.
    const cells = Math.ceil(this.width / 2) + 1;
    const put = (stamp, middle, centre, shown) => {
      const left = Math.round((middle - 6) * ratio);
      const top = Math.round((centre - 6) * ratio);
      for (const [across, down, colour] of stamp) {
        const x = left + across;
        const y = top + down;
        if (x < 0 || x >= width || y < 0 || y >= height) continue;
        const at = y * width + x;
        if (colour >>> 24 >= pixels[at] >>> 24 || shown) pixels[at] = colour;
      }
    };
    const drawn = new Uint16Array(cells * (Math.ceil(this.height / 2) + 1));
    for (const shown of [0, 1]) {
      KINDS.forEach((kind, k) => {
        const bit = 1 << (k + shown * KINDS.length);
        const stamp = this.stamp(kind, ink, shown ? 1 : 0.2);
        const above = this.stamp("above", ink, shown ? 1 : 0.2);
        for (const row of this.rowsOf[k]) {
          if (seen[row] !== shown) continue;
          const key = (this.xs[row] >> 1) + cells * (this.ys[row] >> 1);
          if (drawn[key] & bit) continue;
          drawn[key] |= bit;
          put(stamp, this.xs[row], this.ys[row], shown);
          if (this.over[row]) put(above, this.xs[row], this.ys[row] - 9, shown);
        }
      });
    }
    return picture;
  }

  /** Shows the marks with the brush and the current row over them. */
  draw() {
    if (!this.canvas.isConnected || !this.width) return;
    const context = canvasOf(this.canvas, this.width, this.height);
    context.drawImage(this.picture, 0, 0, this.width, this.height);
    this.overlay(context, this.explorer.ink());
  }

  /** The pixels of one mark that are not empty: right, down, colour. */
  stamp(kind, ink, alpha) {
    if (this.stampedWith !== ink) [this.stampedWith, this.stamps] = [ink, new Map()];
    const name = `${kind} ${alpha} ${window.devicePixelRatio}`;
    if (!this.stamps.has(name)) this.stamps.set(name, this.stamped(kind, ink, alpha));
    return this.stamps.get(name);
  }

  stamped(kind, ink, alpha) {
    const canvas = make("canvas");
    const context = canvasOf(canvas, 12, 12);
    context.globalAlpha = alpha;
    context.strokeStyle = ink[{ carried: "warn", plain: "bad", unread: "faint", above: "text" }[kind] || kind];
    context.lineWidth = kind === "ok" ? 2 : 1.5;
    context.beginPath();
    this.stroke(context, kind, 6, 6);
    context.stroke();
    const { data, width } = context.getImageData(0, 0, canvas.width, canvas.height);
    return [...new Uint32Array(data.buffer)]
      .map((colour, i) => [i % width, Math.floor(i / width), colour])
      .filter(([, , colour]) => colour >>> 24);
  }

  stroke(context, kind, x, y) {
    if (kind === "above") {
      context.moveTo(x - 3, y + 3);
      context.lineTo(x, y);
      context.lineTo(x + 3, y + 3);
    } else if (kind === "ok") {
      context.moveTo(x - 2, y);
      context.lineTo(x + 2, y);
    } else if (kind === "bad") {
      context.moveTo(x - 3.5, y - 3.5);
      context.lineTo(x + 3.5, y + 3.5);
      context.moveTo(x + 3.5, y - 3.5);
      context.lineTo(x - 3.5, y + 3.5);
    } else if (kind === "plain") {
      context.moveTo(x - 4, y);
      context.lineTo(x + 4, y);
      context.moveTo(x, y - 4);
      context.lineTo(x, y + 4);
    } else if (kind === "unread") {
      context.rect(x - 2.5, y - 2.5, 5, 5);
    } else if (kind === "carried") {
      context.moveTo(x, y - 3);
      context.lineTo(x, y + 3);
    } else if (kind === "warn") {
      context.moveTo(x + 2.5, y);
      context.arc(x, y, 2.5, 0, 2 * Math.PI);
    } else {
      context.moveTo(x - 4, y + 3);
      context.lineTo(x + 4, y + 3);
      context.lineTo(x, y - 4);
      context.closePath();
    }
  }

  axes(context, ink) {
    const { table, line } = this.explorer;
    context.font = ink.font;
    context.lineWidth = 1;
    context.fillStyle = ink.faint;
    const step = Math.max(1, Math.ceil((this.high - this.low) / 5));
    context.textAlign = "right";
    const across = (y, label, gaps = []) => {
      context.strokeStyle = ink.line;
      context.setLineDash(gaps);
      context.beginPath();
      context.moveTo(46, y);
      context.lineTo(this.width - 14, y);
      context.stroke();
      context.setLineDash([]);
      context.fillText(label, 40, y + 4);
    };
    if (this.sized || line) {
      for (let power = this.low; power <= this.high; power += step) across(this.y(power), `1e${power}`);
    }
    for (const { y, label } of this.lanes) across(y, label, [1, 3]);
    if (this.over.includes(1)) context.fillText(`>1e${this.high}`, 40, 19);
    const ticks = Math.min(6, table.size - 1);
    for (let tick = 0; tick <= ticks; tick++) {
      const place = Math.round(((table.size - 1) * tick) / Math.max(1, ticks));
      context.textAlign = tick === 0 ? "left" : tick === ticks ? "right" : "center";
      if (table.size) context.fillText(`#${table.numbers[this.byNumber[place]]}`, this.x(place), this.height - 3);
    }
    if (line) {
      const y = this.y(Math.log10(line[0]));
      context.strokeStyle = ink.text;
      context.setLineDash([5, 4]);
      context.beginPath();
      context.moveTo(46, y);
      context.lineTo(this.width - 14, y);
      context.stroke();
      context.setLineDash([]);
      context.textAlign = "right";
      context.fillStyle = ink.text;
      context.fillText(line[1], this.width - 16, y - 4);
    }
  }

  overlay(context, ink) {
    const { view, rows, current } = this.explorer;
    const span = this.dragged ? this.dragged.map((x) => this.placeAt(x)) : this.span(view.between);
    if (span) {
      const [left, right] = [Math.min(...span), Math.max(...span)].map((place) => this.x(place));
      context.fillStyle = ink.brush;
      context.fillRect(left - 2, 6, right - left + 4, this.height - 26);
      context.fillStyle = ink.ok;
      for (const edge of [left - 2, right + 1]) context.fillRect(edge, 6, 1, this.height - 26);
    }
    if (rows.length) {
      const x = this.x(this.placeOf[rows[current]]);
      context.strokeStyle = ink.text;
      context.lineWidth = 1;
      context.beginPath();
      context.moveTo(x, 4);
      context.lineTo(x, this.height - 18);
      context.stroke();
    }
  }

  span(between) {
    if (!between) return null;
    const { inOrder } = this;
    const first = inOrder.findIndex((number) => number >= between[0]);
    let last = inOrder.length - 1;
    while (last >= 0 && inOrder[last] > between[1]) last--;
    return first < 0 || last < first ? null : [first, last];
  }

  placeAt(x) {
    const last = this.explorer.table.size - 1;
    return Math.round(Math.min(1, Math.max(0, (x - 46) / (this.width - 60))) * last);
  }

  down(event) {
    if (event.button) return;
    this.canvas.setPointerCapture(event.pointerId);
    this.dragged = [event.offsetX, event.offsetX];
  }

  move(event) {
    if (!this.dragged) return;
    this.dragged[1] = event.offsetX;
    this.draw();
  }

  up(event) {
    if (!this.dragged) return;
    const [from, to] = [this.dragged[0], event.offsetX].sort((a, b) => a - b);
    this.dragged = null;
    const { explorer, byNumber } = this;
    const { numbers } = explorer.table;
    if (to - from > 4) {
      const [low, high] = [from, to].map((x) => numbers[byNumber[this.placeAt(x)]]);
      explorer.change({ between: [low, high] });
      return;
    }
    this.draw();
    this.nearest(event.offsetX, event.offsetY);
  }

  nearest(x, y) {
    const { explorer } = this;
    let [best, least] = [-1, Infinity];
    explorer.rows.forEach((row, at) => {
      const far = (this.xs[row] - x) ** 2 + (this.ys[row] - y) ** 2;
      if (far < least) [best, least] = [at, far];
    });
    if (best >= 0) explorer.moveTo(best);
  }
}

/** Where in a tensor the error sits, from tiles down to single values. */
class HeatMap {
  constructor(explorer, row, answer) {
    this.explorer = explorer;
    this.row = row;
    this.side = answer.side; // the one drawn of a pair that cannot be compared
    this.single = explorer.isDump || Boolean(answer.side);
    this.shape = answer.shape;
    this.before = [];
    this.cursor = [0, 0];
    const { words } = explorer;
    this.canvas = make("canvas", { tabindex: "0", role: "application", "aria-label": words.map_label });
    this.readout = make("p", { class: "tnb-readout", role: "status", "aria-live": "polite" });
    this.where = make("span", { class: "tnb-small" });
    this.out = make("button", { type: "button", onclick: () => this.zoomOut() }, words.zoom_out);
    this.all = make("button", { type: "button", onclick: () => this.showAll() }, words.whole);
    this.key = make("span", { class: "tnb-key" });
    this.numbers = make("div", { class: "tnb-numbers" });
    this.said = make("p", { class: "tnb-sentence", hidden: true });
    this.root = make(
      "div",
      { class: "tnb-map" },
      make("p", { class: "tnb-caption" }, this.single ? words.map_value : words.map_error, " ", this.key),
      this.shape.length > 2 ? this.slicer(answer.map, answer.places) : null,
      this.canvas,
      this.readout,
      make("div", { class: "tnb-line" }, this.out, this.all, this.where),
      this.said,
    );
    this.canvas.addEventListener("pointermove", (event) => this.hover(event));
    this.canvas.addEventListener("click", (event) => {
      this.hover(event);
      this.zoomIn();
    });
    this.canvas.addEventListener("keydown", (event) => this.pressed(event));
    this.take(answer.map, answer.buffers);
    this.cursor = answer.places.length ? this.tileOf(answer.places[0]) : this.worst();
  }

  /** The tile that holds an element of the plane. */
  tileOf(flat) {
    const { rows, columns, tiles, plane, offset } = this.map;
    const at = flat - offset;
    const tile = (place, [start, stop], count) => Math.floor(((place - start) * count) / (stop - start));
    return [tile(Math.floor(at / plane[1]), rows, tiles[0]), tile(at % plane[1], columns, tiles[1])];
  }

  /** The tile that is worst: one with a mismatch, or the one with the largest value. */
  worst() {
    const { maxima, mismatch, tiles } = this.map;
    let [best, most] = [0, -1];
    maxima.forEach((value, i) => {
      const size = mismatch[i] ? Infinity : value;
      if (size > most) [best, most] = [i, size];
    });
    return [Math.floor(best / tiles[1]), best % tiles[1]];
  }

  slicer(first, places) {
    const { words } = this.explorer;
    const leading = this.shape.slice(0, -2);
    const start = places.length ? this.unravel(places[0]) : this.shape.map(() => 0);
    this.indices = leading.map((length, axis) =>
      make("input", {
        type: "number",
        min: "0",
        max: length - 1,
        value: start[axis],
        step: "1",
        disabled: true,
        "aria-label": filled(words.axis, { axis }),
        onchange: () => this.show(this.lead()),
        onblur: () => this.showLead(),
      }),
    );
    this.mode = make(
      "select",
      {
        "aria-label": words.slices,
        onchange: () => {
          const whole = this.mode.value === "folded";
          this.show(whole ? null : this.lead());
        },
      },
      make("option", { value: "folded" }, filled(words.folded, { rows: first.plane[0], columns: first.plane[1] })),
      make("option", { value: "slice" }, words.one_slice),
    );
    const inputs = this.indices.flatMap((input, axis) => [
      make("label", {}, `${filled(words.axis, { axis })} `, input, ` / ${leading[axis]}`),
    ]);
    return make("div", { class: "tnb-line tnb-slices" }, this.mode, ...inputs);
  }

  lead() {
    return this.indices.map((input, axis) => {
      const value = Math.round(Number(input.value)) || 0;
      return Math.min(this.shape[axis] - 1, Math.max(0, value));
    });
  }

  take(map, buffers) {
    const [height, width] = map.tiles;
    const exact = height === map.rows[1] - map.rows[0] && width === map.columns[1] - map.columns[0];
    this.map = {
      ...map,
      exact: exact && buffers.length > 2,
      maxima: typed(Float64Array, buffers[0]),
      mismatch: typed(Int32Array, buffers[1]),
      left: buffers[2] && new Values(map.kinds[0], map.bits[0], buffers[2]),
      right: buffers[3] && new Values(map.kinds[1], map.bits[1], buffers[3]),
    };
    this.cursor = [Math.min(this.cursor[0], height - 1), Math.min(this.cursor[1], width - 1)];
  }

  async ask(lead, rows, columns) {
    this.asked = true;
    const answer = await this.explorer.ask("part", { row: this.row, side: this.side, lead, rows, columns });
    this.asked = false;
    if (this.explorer.map !== this) return false;
    this.said.hidden = !answer.sentence;
    this.said.textContent = answer.sentence || "";
    if (answer.sentence) return false;
    this.take(answer, answer.buffers);
    return true;
  }

  unanswered() {
    if (!this.asked) return;
    this.said.hidden = false;
    this.said.textContent = this.explorer.words.silent;
  }

  /** Another slice, or the whole tensor: one question at a time, and the next is what is wanted then. */
  async show(lead) {
    this.wanted = { lead };
    if (this.showing) return;
    this.showing = true;
    try {
      await this.stepping;
      while (this.wanted) {
        this.coming = this.wanted;
        this.wanted = null;
        await this.shown(this.coming.lead);
        this.coming = null;
        this.showLead();
      }
    } finally {
      this.showing = false;
    }
  }

  async shown(lead) {
    // From slice to slice the window stays, and where one is in it.
    const stays = Boolean(lead && this.map.lead);
    const { rows, columns } = this.map;
    if (await this.ask(lead, stays ? rows : null, stays ? columns : null)) {
      if (!stays) {
        this.before = [];
        this.cursor = this.worst();
      }
      this.draw();
    }
  }

  /** The slice that is shown, in what chooses it; an index that one is typing stays as it is. */
  showLead() {
    if (!this.mode) return;
    const { lead } = this.wanted || this.coming || this.map;
    this.mode.value = lead ? "slice" : "folded";
    for (const [axis, input] of this.indices.entries()) {
      input.disabled = !lead;
      if (lead && input !== document.activeElement) input.value = lead[axis];
    }
  }

  showAll() {
    if (this.all.getAttribute("aria-disabled") !== "true") this.show(null);
  }

  /** Half-open ranges of a tile, in the plane. */
  tile([r, c]) {
    const range = ([start, stop], i, count) => {
      const length = stop - start;
      return [start + Math.ceil((i * length) / count), start + Math.ceil(((i + 1) * length) / count)];
    };
    const { rows, columns, tiles } = this.map;
    return [range(rows, r, tiles[0]), range(columns, c, tiles[1])];
  }

  /** One step at a time: the second click of a double click would start where the first did. */
  async alone(step) {
    if (this.stepping || this.showing) return;
    this.stepping = step();
    try {
      await this.stepping;
    } finally {
      this.stepping = null;
    }
  }

  zoomIn() {
    return this.alone(() => this.zoomedIn());
  }

  async zoomedIn() {
    const { map, cursor } = this;
    let [rows, columns] = this.tile(cursor);
    if (map.exact) {
      // The values around this one, as numbers.
      const around = (middle, [start, stop], count) => {
        const first = Math.max(start, Math.min(middle - (count >> 1), stop - count));
        return [first, Math.min(stop, first + count)];
      };
      if (map.tiles[0] <= 8 && map.tiles[1] <= 6) return;
      [rows, columns] = [around(rows[0], map.rows, 8), around(columns[0], map.columns, 6)];
    }
    const held = [map, [...cursor]];
    const [row, column] = this.tile(cursor).map(([start]) => start);
    if (await this.ask(map.lead, rows, columns)) {
      this.before.push(held);
      this.cursor = map.exact ? [row - rows[0], column - columns[0]] : this.worst();
      this.draw();
    }
  }

  zoomOut() {
    return this.alone(() => this.zoomedOut());
  }

  async zoomedOut() {
    const last = this.before.pop();
    if (!last) return;
    const [map, cursor] = last;
    // The window that was left, of the slice that is shown now.
    if (String(map.lead) === String(this.map.lead)) this.map = map;
    else if (!(await this.ask(this.map.lead, map.rows, map.columns))) return;
    this.cursor = cursor;
    this.draw();
  }

  /** Moves the window where it is smaller than the plane. */
  async pan(down, right) {
    const { map } = this;
    const moved = ([start, stop], steps, count, length) => {
      const size = stop - start;
      const first = start + Math.round((steps * size) / count);
      const held = Math.max(0, Math.min(first, length - size));
      return [held, held + size];
    };
    const rows = moved(map.rows, down, map.tiles[0], map.plane[0]);
    const columns = moved(map.columns, right, map.tiles[1], map.plane[1]);
    if (rows[0] === map.rows[0] && columns[0] === map.columns[0]) return;
    if (await this.ask(map.lead, rows, columns)) this.draw();
  }

  /** The neighbourhood of one element of the whole tensor. */
  goTo(flat) {
    return this.alone(() => this.goneTo(flat));
  }

  async goneTo(flat) {
    const held = [this.map, [...this.cursor]];
    const lead = this.map.lead;
    let place = flat - (lead ? this.map.offset : 0);
    const inside = place >= 0 && place < this.map.plane[0] * this.map.plane[1];
    if (!inside) {
      await this.shown(null);
      this.showLead();
      place = flat;
    }
    const [, wide] = this.map.plane;
    const [row, column] = [Math.floor(place / wide), place % wide];
    const around = (middle, length, count) => {
      const first = Math.max(0, Math.min(middle - (count >> 1), length - count));
      return [first, Math.min(length, first + count)];
    };
    const rows = around(row, this.map.plane[0], 8);
    const columns = around(column, wide, 6);
    if (await this.ask(this.map.lead, rows, columns)) {
      if (inside) this.before.push(held);
      this.cursor = [row - rows[0], column - columns[0]];
      this.draw();
    }
  }

  size() {
    const [height, width] = this.map.tiles;
    const room = Math.max(200, Math.min(430, this.root.clientWidth || 430));
    const wide = Math.min(room / width, 40);
    const high = Math.max(Math.min(wide, 260 / height), height === 1 ? 24 : 3);
    return [wide * width, high * height, wide, high];
  }

  draw() {
    const { map, canvas, explorer } = this;
    const [width, height, wide, high] = this.size();
    canvas.style.width = `${width}px`;
    const context = canvasOf(canvas, width, height);
    const [rows, columns] = map.tiles;
    let largest = 0;
    for (const value of map.maxima) if (value > largest) largest = value;
    const floor = Math.max(largest * 10 ** -DECADES, 5e-324);
    const picture = new ImageData(columns, rows);
    const ink = explorer.ink();
    const [stops, violet] = ink.dark ? [DARK_STOPS, DARK_MISMATCH] : [STOPS, MISMATCH];
    for (let i = 0; i < map.maxima.length; i++) {
      const colour = map.mismatch[i] ? violet : shade(map.maxima[i], floor, largest, stops);
      picture.data.set(colour, 4 * i);
    }
    const small = make("canvas", { width: columns, height: rows });
    small.getContext("2d").putImageData(picture, 0, 0);
    context.imageSmoothingEnabled = false;
    context.drawImage(small, 0, 0, width, height);
    const [r, c] = this.cursor;
    // Around the tile and not over it; in paper and ink, to be seen beside the palest and the strongest.
    const frame = [c * wide - 1.5, r * high - 1.5, (c + 1) * wide + 1.5, (r + 1) * high + 1.5];
    const [x, y, right, bottom] = frame.map((at, i) => Math.min(Math.max(at, 1), (i % 2 ? height : width) - 1));
    for (const [across, colour] of [[4, ink.paper], [1.5, ink.text]]) {
      context.lineWidth = across;
      context.strokeStyle = colour;
      context.strokeRect(x, y, right - x, bottom - y);
    }
    this.drawKey(floor, largest);
    this.say();
    this.showNumbers();
  }

  drawKey(floor, largest) {
    const { words } = this.explorer;
    const ramp = this.explorer.ink().dark ? DARK_STOPS : STOPS;
    const bar = make("i", { class: "tnb-ramp", "aria-hidden": "true" });
    const stops = ramp.map(([r, g, b, a]) => `rgba(${r},${g},${b},${(a / 255).toFixed(2)})`);
    bar.style.background = `linear-gradient(to right, ${stops.join(",")})`;
    const count = this.map.mismatch.reduce((sum, one) => sum + one, 0);
    const violet = count
      ? make("span", { class: "tnb-miss" }, ` ◇ ${filled(this.single ? words.nonfinite : words.mismatch, { count: count.toLocaleString("en") })}`)
      : null;
    const ends = largest ? [scientific(floor), this.figure(largest)] : ["0", "0"];
    this.key.replaceChildren(ends[0], " ", bar, " ", ends[1], ...(violet ? [violet] : []));
  }

  unravel(flat) {
    const found = [];
    for (let axis = this.shape.length - 1; axis >= 0; axis--) {
      found.unshift(flat % this.shape[axis]);
      flat = Math.floor(flat / this.shape[axis]);
    }
    return found;
  }

  /** A largest |Δ| or |x|. What is too far apart for a float64 is drawn as its largest number. */
  figure(value) {
    return scientific(!this.single && value === Number.MAX_VALUE ? Infinity : value);
  }

  index(row, column) {
    const { offset, plane } = this.map;
    return `[${this.unravel(offset + row * plane[1] + column).join(", ")}]`;
  }

  say() {
    const { map, explorer } = this;
    const { words } = explorer;
    const i = this.cursor[0] * map.tiles[1] + this.cursor[1];
    const [rows, columns] = this.tile(this.cursor);
    const one = rows[1] - rows[0] === 1 && columns[1] - columns[0] === 1;
    const place = one
      ? this.index(rows[0], columns[0])
      : filled(words.rows_columns, { rows: rows.join(":"), columns: columns.join(":") });
    const value = `${this.single ? "max |x|" : "max |Δ|"} ${this.figure(map.maxima[i])}`;
    let text = map.mismatch[i] ? `${place} · ${value} · ◇ ${map.mismatch[i]} NaN/Inf` : `${place} · ${value}`;
    if (map.exact && this.single) text = `${place} · ${words.value} ${map.left.text(i)}`;
    else if (map.exact) {
      text = `${place} · ${words.left} ${map.left.text(i)} · ${words.right} ${map.right.text(i)}`;
      const far = map.left.distance(i, map.right) || this.figure(map.maxima[i]);
      text += map.mismatch[i] ? " · ◇" : map.left.isFinite(i) ? ` · |Δ| ${far}` : ` · ${words.alike}`;
    }
    this.readout.textContent = text;
    const slice = filled(words.rows_columns, { rows: map.rows.join(":"), columns: map.columns.join(":") });
    const whole = map.rows[1] - map.rows[0] === map.plane[0] && map.columns[1] - map.columns[0] === map.plane[1];
    const single = map.exact && map.tiles[0] <= 8 && map.tiles[1] <= 6; // nothing to zoom into
    this.where.textContent = !whole ? slice : single ? "" : words.map_hint;
    // A button that is disabled would lose the focus to the notebook.
    mark(this.out, "aria-disabled", String(!this.before.length));
    mark(this.all, "aria-disabled", String(whole && !map.lead));
  }

  showNumbers() {
    const { map, explorer } = this;
    const [rows, columns] = map.tiles;
    if (!map.exact || rows > 8 || columns > 6) {
      this.numbers.replaceChildren();
      return;
    }
    const { words } = explorer;
    const heads = Array.from({ length: columns }, (_, c) =>
      make("th", { scope: "col", class: "tnb-right" }, String(map.columns[0] + c)),
    );
    const lines = Array.from({ length: rows }, (_, r) => {
      const cells = Array.from({ length: columns }, (_, c) => {
        const i = r * columns + c;
        const here = r === this.cursor[0] && c === this.cursor[1];
        const lines_ = [make("span", {}, map.left.text(i))];
        if (map.right) lines_.push(make("br"), make("span", {}, map.right.text(i)));
        return make("td", { class: `tnb-right${here ? " tnb-here" : ""}` }, ...lines_);
      });
      return make("tr", {}, make("th", { scope: "row" }, String(map.rows[0] + r)), ...cells);
    });
    const caption = map.right ? `${words.left} / ${words.right}` : words.value;
    this.numbers.replaceChildren(
      make(
        "table",
        { class: "tnb-table" },
        make("caption", {}, caption),
        make("thead", {}, make("tr", {}, make("td"), ...heads)),
        make("tbody", {}, ...lines),
      ),
    );
    this.seeHere();
  }

  /** Scrolls sideways to the value one is at; the page stays where it is. */
  seeHere() {
    const { numbers } = this;
    const here = numbers.querySelector(".tnb-here");
    if (!here || numbers.scrollWidth <= numbers.clientWidth) return;
    const head = numbers.querySelector("tbody th").offsetWidth;
    // One more than the whole pixels that these are rounded to.
    const [start, stop] = [here.offsetLeft - head, here.offsetLeft + here.offsetWidth + 1];
    if (start < numbers.scrollLeft) numbers.scrollLeft = start;
    else if (stop > numbers.scrollLeft + numbers.clientWidth) numbers.scrollLeft = stop - numbers.clientWidth;
  }

  hover(event) {
    const [width, height] = this.size();
    const [rows, columns] = this.map.tiles;
    const c = Math.floor((event.offsetX / width) * columns);
    const r = Math.floor((event.offsetY / height) * rows);
    this.point(r, c);
  }

  point(r, c) {
    const [rows, columns] = this.map.tiles;
    const place = [Math.min(rows - 1, Math.max(0, r)), Math.min(columns - 1, Math.max(0, c))];
    if (place[0] === this.cursor[0] && place[1] === this.cursor[1]) return;
    this.cursor = place;
    this.draw();
  }

  pressed(event) {
    const [r, c] = this.cursor;
    const far = event.ctrlKey || event.metaKey ? 10 : 1;
    const moves = { ArrowUp: [-far, 0], ArrowDown: [far, 0], ArrowLeft: [0, -far], ArrowRight: [0, far] };
    if (event.key in moves) {
      const [down, right] = moves[event.key];
      const { tiles } = this.map;
      const leaves = r + down < 0 || r + down >= tiles[0] || c + right < 0 || c + right >= tiles[1];
      if (leaves) this.alone(() => this.pan(down, right));
      this.point(r + down, c + right);
    } else if (event.key === "Enter") this.zoomIn();
    else if (event.key === "Backspace") this.zoomOut();
    else return;
    event.preventDefault();
  }
}

function shade(value, floor, largest, stops) {
  if (!largest) return stops[0];
  const share = Math.min(1, Math.max(0, Math.log10(Math.max(value, floor) / floor) / DECADES));
  const at = share * (stops.length - 1);
  const low = Math.min(stops.length - 2, Math.floor(at));
  return stops[low].map((channel, k) => Math.round(channel + (stops[low + 1][k] - channel) * (at - low)));
}

function render({ model, el }) {
  const explorer = new Explorer(model, el);
  return () => explorer.close();
}

export default { render };
