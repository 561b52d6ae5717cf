// The columns of an explorer, and which rows a view of them shows.

import { times, visible } from "./names.js";
import { typed } from "./packed.js";

const NAMES = ["left", "right", "left_display", "right_display"];

/** The columns, and which rows a view shows: the same rule as packed_table.py has. A
 * column has what its declaration says as well: title, format, right, figure, bar. */
export class Table {
  constructor(described, buffers) {
    this.columns = {};
    described.forEach((said, i) => {
      const values = typed(said.texts ? Int32Array : Float64Array, buffers[i]);
      this.columns[said.name] = { ...said, values };
    });
    this.orders = new Map();
    this.numbers = this.columns.number.values;
    this.size = this.numbers.length;
    // One text a row to search in: no word of a search holds the line break between the names.
    const named = NAMES.filter((name) => this.has(name));
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

  /** What a row is called on the left and, where it is called otherwise there, on the right. */
  labels(row) {
    const [left, right] = ["left_display", "right_display"].map((name) => visible(this.text(name, row)));
    return !this.has("right_display") || left === right ? [left, ""] : [left || "–", right || "–"];
  }

  label(row) {
    return this.labels(row).filter(Boolean).join(" → ");
  }

  /** The shape of a pair, or both where they differ. */
  shapes(row) {
    const [left, right] = [this.text("left_shape", row), this.text("right_shape", row)];
    return times(left === right || !right ? left : left ? `${left} → ${right}` : right);
  }

  /** Whether nearly all names tell what a column says, too: "attn input 0" is an input. */
  tells(name) {
    const count = Math.min(this.size, 200);
    const some = Array.from({ length: count }, (_, k) => Math.floor((k * this.size) / count));
    const tells = (row) => this.labels(row).some((text) => ` ${text} `.includes(` ${this.text(name, row)} `));
    return some.filter(tells).length >= 0.9 * count;
  }

  shown(view) {
    const keep = new Uint8Array(this.size).fill(1);
    for (const [name, wanted] of Object.entries(view.where)) {
      const column = this.columns[name];
      if (!column || !wanted.length) continue;
      const chosen = new Set(wanted);
      const fits = column.texts?.map((text) => chosen.has(text));
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
    return this.order(view).filter((row) => keep[row]);
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
