// The chart of an explorer.

import { decadesOf } from "./axis.js";
import { canvasOf, make } from "./dom.js";
import { filled } from "./names.js";
import { counted } from "./numbers.js";

const KINDS = ["unread", "ok", "carried", "warn", "plain", "bad", "miss"]; // marks, the last on top
// How each is drawn around its place, and what stands over one that is too large for the axis.
const SHAPES = {
  unread: "M-2.5-2.5h5v5h-5z",
  ok: "M-2 0h4",
  carried: "M0-3v6",
  warn: "M2.5 0a2.5 2.5 0 1 1-5 0a2.5 2.5 0 1 1 5 0",
  plain: "M-4 0h8M0-4v8",
  bad: "M-3.5-3.5l7 7M3.5-3.5l-7 7",
  miss: "M-4 3h8l-4-7z",
  above: "M-3 3l3-3l3 3",
};
const [LEFT, RIGHT] = [46, 14]; // pixels beside the marks

/** The size of every row in execution order, with a brush. */
export class Chart {
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
    const sum = (rows) => counted(rows.reduce((total, one) => total + one, 0));
    const [over, under, unsized] = [this.over, this.under, this.unsized].map(sum);
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
    const counts = kinds.map(({ value, count }) => `${marks[value][2]} ${counted(count)}`);
    return filled(isDump ? words.no_size : words.no_pair_sizes, { counts: counts.join(", ") });
  }

  x(place) {
    return LEFT + (this.width - LEFT - RIGHT) * (place / Math.max(1, this.explorer.table.size - 1));
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
    const print = (stamp, middle, centre, shown) => {
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
          print(stamp, this.xs[row], this.ys[row], shown);
          if (this.over[row]) print(above, this.xs[row], this.ys[row] - 9, shown);
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
    context.translate(6, 6);
    context.stroke(new Path2D(SHAPES[kind]));
    const { data, width } = context.getImageData(0, 0, canvas.width, canvas.height);
    return [...new Uint32Array(data.buffer)]
      .map((colour, i) => [i % width, Math.floor(i / width), colour])
      .filter(([, , colour]) => colour >>> 24);
  }

  axes(context, ink) {
    const { table, line } = this.explorer;
    context.font = ink.font;
    context.lineWidth = 1;
    context.fillStyle = ink.faint;
    const step = Math.max(1, Math.ceil((this.high - this.low) / 5));
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
    if (this.sized || line) {
      for (let power = this.low; power <= this.high; power += step) labelled(this.y(power), `1e${power}`);
    }
    for (const { y, label } of this.lanes) labelled(y, label, [1, 3]);
    if (this.over.includes(1)) context.fillText(`>1e${this.high}`, LEFT - 6, 19);
    const ticks = Math.min(6, table.size - 1);
    for (let tick = 0; tick <= ticks; tick++) {
      const place = Math.round(((table.size - 1) * tick) / Math.max(1, ticks));
      context.textAlign = tick === 0 ? "left" : tick === ticks ? "right" : "center";
      if (table.size) context.fillText(`#${table.numbers[this.byNumber[place]]}`, this.x(place), this.height - 3);
    }
    if (line) {
      const y = this.y(Math.log10(line[0]));
      across(y, ink.text, [5, 4]);
      context.textAlign = "right";
      context.fillStyle = ink.text;
      context.fillText(line[1], this.width - 16, y - 4);
    }
  }

  overlay(context, ink) {
    const { view, rows, grid } = this.explorer;
    const span = this.dragged ? this.dragged.map((x) => this.placeAt(x)) : this.span(view.between);
    if (span) {
      const [left, right] = [Math.min(...span), Math.max(...span)].map((place) => this.x(place));
      context.fillStyle = ink.brush;
      context.fillRect(left - 2, 6, right - left + 4, this.height - 26);
      context.fillStyle = ink.ok;
      for (const edge of [left - 2, right + 1]) context.fillRect(edge, 6, 1, this.height - 26);
    }
    if (rows.length) {
      const x = this.x(this.placeOf[rows[grid.current]]);
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
