// The chart of an explorer.

import { Axis, HEIGHT, spanOf } from "./axis.js";
import { canvasOf, make } from "./dom.js";
import { KINDS, Marks } from "./marks.js";
import { filled } from "./names.js";
import { counted } from "./numbers.js";

const [LEFT, RIGHT] = [46, 14]; // pixels beside the marks
const TONES_OF = {
  mark_fine: "ok", mark_ok: "ok", mark_bad: "bad", mark_created: "bad", mark_without_effect: "bad",
  mark_carried: "warn", mark_warn: "warn", mark_odd: "warn", mark_miss: "miss", mark_unread: "unread",
};

/** The size of every row in execution order, with a brush. */
export class Chart {
  constructor(explorer) {
    this.explorer = explorer;
    const { table, words, isDump, line } = explorer;
    const { numbers } = table;
    this.byNumber = [...numbers.keys()].sort((one, other) => numbers[one] - numbers[other] || one - other);
    this.inOrder = this.byNumber.map((row) => numbers[row]);
    this.placeOf = new Int32Array(table.size);
    this.byNumber.forEach((row, place) => { this.placeOf[row] = place; });
    const kindOf = (row) => {
      const tone = explorer.marks[table.text("verdict", row)][1];
      const origin = { carried: "carried", without_effect: "plain" }[table.text("origin", row)];
      return (tone === "bad" && origin) || tone;
    };
    const kinds = Array.from({ length: table.size }, (_, row) => kindOf(row));
    this.axis = new Axis(table.columns[isDump ? "largest" : "max_abs_error"].values, {
      isMiss: (row) => kinds[row] === "miss",
      isFailing: (row) => ["bad", "plain", "carried"].includes(kinds[row]),
      tolerance: line ? line[0] : null,
    });
    this.rowsOf = KINDS.map((kind) => this.byNumber.filter((row) => kinds[row] === kind));
    const { low, high, over, under, unsized } = this.axis;
    const sum = (rows) => counted(rows.reduce((total, one) => total + one, 0));
    const ends = { low, high, over: sum(over), under: sum(under), unsized: sum(unsized) };
    const title = isDump ? words.chart_entries : words.chart_pairs;
    this.canvas = make("canvas", { role: "img", "aria-label": `${title}; ${filled(words.chart_axis, ends)}` });
    this.picture = make("canvas");
    this.marks = new Marks();
    const nothing = this.nothing();
    const legend = nothing ? [] : this.legend(kinds.includes("unread")).flatMap((one) => [one, " "]);
    this.root = make(
      "figure",
      { class: "tnb-chart", hidden: !table.size },
      nothing ? make("p", { class: "tnb-sentence" }, nothing) : make("figcaption", {}, `${title} `, ...legend),
      nothing ? null : this.canvas,
    );
    this.canvas.addEventListener("pointerdown", (event) => this.down(event));
    this.canvas.addEventListener("pointermove", (event) => this.move(event));
    this.canvas.addEventListener("pointerup", (event) => this.up(event));
    this.canvas.addEventListener("pointercancel", () => { this.dragged = null; this.draw(); });
  }

  /** What the marks mean. */
  legend(hasUnread) {
    const { table, words, isDump } = this.explorer;
    const origins = table.has("origin") ? table.columns.origin.texts : [];
    const traced = ["created", "carried", "without_effect"].some((origin) => origins.includes(origin));
    const failing = traced ? ["mark_created", "mark_carried"] : ["mark_bad"];
    if (origins.includes("without_effect")) failing.push("mark_without_effect");
    const marks = isDump ? ["mark_fine", "mark_odd", "mark_miss"] : ["mark_ok", ...failing, "mark_warn", "mark_miss"];
    if (hasUnread) marks.push("mark_unread");
    const said = marks.map((key) => make("span", { class: `tnb-${TONES_OF[key]}` }, words[key]));
    return this.axis.over.includes(1) ? [...said, make("span", {}, words.mark_over)] : said;
  }

  /** Why there is no chart: nothing was read or compared, or no value has a size. */
  nothing() {
    const { table, words, isDump, marks } = this.explorer;
    if (this.axis.isSized || !table.size) return "";
    // Errors that are all 0 have their place on the lowest line.
    if (!isDump && this.axis.sizes.some((value) => !Number.isNaN(value))) return "";
    const kinds = table.choices("verdict");
    if (kinds.length === 1 && kinds[0].value === "not_read") return words.no_chart;
    const counts = kinds.map(({ value, count }) => `${marks[value][2]} ${counted(count)}`);
    return filled(isDump ? words.no_size : words.no_pair_sizes, { counts: counts.join(", ") });
  }

  x(place) {
    return LEFT + (this.width - LEFT - RIGHT) * (place / Math.max(1, this.explorer.table.size - 1));
  }

  /** Paints all marks, which change with the filters, and shows them. */
  paint() {
    const { explorer, canvas } = this;
    if (!canvas.isConnected) return;
    this.width = canvas.clientWidth;
    if (!this.width) return;
    const ink = explorer.ink();
    this.place();
    const context = canvasOf(this.picture, this.width, HEIGHT);
    const seen = new Uint8Array(explorer.table.size);
    for (const row of explorer.rows) seen[row] = 1;
    const { rowsOf, xs, ys, axis, width } = this;
    context.putImageData(this.marks.painted({ rowsOf, xs, ys, seen, over: axis.over, width, height: HEIGHT }, ink), 0, 0);
    this.axes(context, ink);
    this.draw();
  }

  /** Where each row's mark stands, in pixels of the page. */
  place() {
    if (this.placed === this.width) return;
    this.placed = this.width;
    const { size } = this.explorer.table;
    this.xs = Float32Array.from({ length: size }, (_, row) => this.x(this.placeOf[row]));
    this.ys = Float32Array.from({ length: size }, (_, row) => this.axis.yOf(row));
  }

  /** Shows the marks with the brush and the current row over them. */
  draw() {
    if (!this.canvas.isConnected || !this.width) return;
    const context = canvasOf(this.canvas, this.width, HEIGHT);
    context.drawImage(this.picture, 0, 0, this.width, HEIGHT);
    this.overlay(context, this.explorer.ink());
  }

  axes(context, ink) {
    const { axis, byNumber } = this;
    const { table, line } = this.explorer;
    context.font = ink.font;
    context.lineWidth = 1;
    context.fillStyle = ink.faint;
    const step = Math.max(1, Math.ceil((axis.high - axis.low) / 5));
    context.textAlign = "right";
    const across = (y, colour, gaps = []) => {
      context.strokeStyle = colour;
      context.setLineDash(gaps);
      context.beginPath();
      context.moveTo(LEFT, y);
      context.lineTo(this.width - RIGHT, y);
      context.stroke();
      context.setLineDash([]);
    };
    const labelled = (y, label, gaps) => {
      across(y, ink.line, gaps);
      context.fillText(label, LEFT - 6, y + 4);
    };
    if (axis.isSized || line) {
      for (let power = axis.low; power <= axis.high; power += step) labelled(axis.y(power), `1e${power}`);
    }
    for (const { y, label } of axis.lanes) labelled(y, label, [1, 3]);
    if (axis.over.includes(1)) context.fillText(`>1e${axis.high}`, LEFT - 6, 19);
    const ticks = Math.min(6, table.size - 1);
    for (let tick = 0; tick <= ticks; tick++) {
      const place = Math.round(((table.size - 1) * tick) / Math.max(1, ticks));
      context.textAlign = tick === 0 ? "left" : tick === ticks ? "right" : "center";
      if (table.size) context.fillText(`#${table.numbers[byNumber[place]]}`, this.x(place), HEIGHT - 3);
    }
    if (line) {
      const y = axis.y(Math.log10(line[0]));
      across(y, ink.text, [5, 4]);
      context.textAlign = "right";
      context.fillStyle = ink.text;
      context.fillText(line[1], this.width - 16, y - 4);
    }
  }

  overlay(context, ink) {
    const { view, rows, grid } = this.explorer;
    const span = this.dragged ? this.dragged.map((x) => this.placeAt(x)) : spanOf(this.inOrder, view.between);
    if (span) {
      const [left, right] = [Math.min(...span), Math.max(...span)].map((place) => this.x(place));
      context.fillStyle = ink.brush;
      context.fillRect(left - 2, 6, right - left + 4, HEIGHT - 26);
      context.fillStyle = ink.ok;
      for (const edge of [left - 2, right + 1]) context.fillRect(edge, 6, 1, HEIGHT - 26);
    }
    if (rows.length) {
      const x = this.x(this.placeOf[rows[grid.current]]);
      context.strokeStyle = ink.text;
      context.lineWidth = 1;
      context.beginPath();
      context.moveTo(x, 4);
      context.lineTo(x, HEIGHT - 18);
      context.stroke();
    }
  }

  placeAt(x) {
    const last = this.explorer.table.size - 1;
    return Math.round(Math.min(1, Math.max(0, (x - LEFT) / (this.width - LEFT - RIGHT))) * last);
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
    if (best >= 0) explorer.grid.moveTo(best);
  }
}
