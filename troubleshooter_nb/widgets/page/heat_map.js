// The heat map of an opened row.

import { canvasOf, isCommand, make, mark } from "./dom.js";
import { filled } from "./names.js";
import { counted, scientific } from "./numbers.js";
import { Values, typed } from "./packed.js";
import { around, moved, palest, shade, tileAt, tileOf, unravel, worstTile } from "./tiles.js";

const [MOST_ROWS, MOST_COLUMNS] = [8, 6]; // of values that stand below the map as numbers
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

/** Where in a tensor the error sits, from tiles down to single values. */
export class HeatMap {
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
    this.cursor = answer.places.length ? tileOf(this.map, answer.places[0]) : worstTile(this.map);
  }

  slicer(first, places) {
    const { words } = this.explorer;
    const leading = this.shape.slice(0, -2);
    const start = places.length ? unravel(places[0], this.shape) : this.shape.map(() => 0);
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
    if (this.explorer.panel.map !== this) return false;
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
        this.cursor = worstTile(this.map);
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
    let [rows, columns] = tileAt(map, cursor);
    if (map.exact) {
      // The values around this one, as numbers.
      if (this.hasNumbers()) return;
      [rows, columns] = [around(rows[0], map.rows, MOST_ROWS), around(columns[0], map.columns, MOST_COLUMNS)];
    }
    const held = [map, [...cursor]];
    const [row, column] = tileAt(map, cursor).map(([start]) => start);
    if (await this.ask(map.lead, rows, columns)) {
      this.before.push(held);
      this.cursor = map.exact ? [row - rows[0], column - columns[0]] : worstTile(this.map);
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
    const rows = around(row, [0, this.map.plane[0]], MOST_ROWS);
    const columns = around(column, [0, wide], MOST_COLUMNS);
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
    const picture = new ImageData(columns, rows);
    const ink = explorer.ink();
    const [stops, violet] = ink.dark ? [DARK_STOPS, DARK_MISMATCH] : [STOPS, MISMATCH];
    for (let i = 0; i < map.maxima.length; i++) {
      const colour = map.mismatch[i] ? violet : shade(map.maxima[i], largest, stops);
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
    this.drawKey(largest);
    this.say();
    this.showNumbers();
  }

  drawKey(largest) {
    const { words } = this.explorer;
    const ramp = this.explorer.ink().dark ? DARK_STOPS : STOPS;
    const bar = make("i", { class: "tnb-ramp", "aria-hidden": "true" });
    const stops = ramp.map(([r, g, b, a]) => `rgba(${r},${g},${b},${(a / 255).toFixed(2)})`);
    bar.style.background = `linear-gradient(to right, ${stops.join(",")})`;
    const count = this.map.mismatch.reduce((sum, one) => sum + one, 0);
    const violet = count
      ? make("span", { class: "tnb-miss" }, ` ◇ ${filled(this.single ? words.nonfinite : words.mismatch, { count: counted(count) })}`)
      : null;
    const ends = largest ? [scientific(palest(largest)), this.figure(largest)] : ["0", "0"];
    this.key.replaceChildren(ends[0], " ", bar, " ", ends[1], ...(violet ? [violet] : []));
  }

  /** A largest |Δ| or |x|. What is too far apart for a float64 is drawn as its largest number. */
  figure(value) {
    return scientific(!this.single && value === Number.MAX_VALUE ? Infinity : value);
  }

  index(row, column) {
    const { offset, plane } = this.map;
    return `[${unravel(offset + row * plane[1] + column, this.shape).join(", ")}]`;
  }

  say() {
    const { map, explorer } = this;
    const { words } = explorer;
    const i = this.cursor[0] * map.tiles[1] + this.cursor[1];
    const [rows, columns] = tileAt(map, this.cursor);
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
    this.where.textContent = !whole ? slice : this.hasNumbers() ? "" : words.map_hint;
    // A button that is disabled would lose the focus to the notebook.
    mark(this.out, { "aria-disabled": !this.before.length });
    mark(this.all, { "aria-disabled": whole && !map.lead });
  }

  /** Whether what is shown is so small that its values stand below it: there is nothing to zoom into. */
  hasNumbers() {
    const { exact, tiles } = this.map;
    return exact && tiles[0] <= MOST_ROWS && tiles[1] <= MOST_COLUMNS;
  }

  showNumbers() {
    const { map, explorer } = this;
    const [rows, columns] = map.tiles;
    if (!this.hasNumbers()) {
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
    const far = isCommand(event) ? 10 : 1;
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
