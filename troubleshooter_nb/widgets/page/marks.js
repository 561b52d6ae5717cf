// The marks of an explorer's chart.

import { canvasOf, make } from "./dom.js";

export const KINDS = ["unread", "ok", "carried", "warn", "plain", "bad", "miss"]; // the last on top
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
const INKS = { carried: "warn", plain: "bad", unread: "faint", above: "text" };

/** Paints marks by copying pixels: ten thousand strokes are slow. */
export class Marks {
  /** All marks, pale those that are not `seen`.
   *
   * `rowsOf` has the rows of each kind, `xs` and `ys` where each row stands in pixels of the page. */
  painted({ rowsOf, xs, ys, seen, over, width: wide, height: high }, ink) {
    const ratio = window.devicePixelRatio || 1;
    const [width, height] = [Math.round(wide * ratio), Math.round(high * ratio)];
    const picture = new ImageData(width, height);
    const pixels = new Uint32Array(picture.data.buffer);
    // Marks that fall on the same few pixels are drawn once.
    const cells = Math.ceil(wide / 2) + 1;
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
    const drawn = new Uint16Array(cells * (Math.ceil(high / 2) + 1));
    for (const shown of [0, 1]) {
      KINDS.forEach((kind, k) => {
        const bit = 1 << (k + shown * KINDS.length);
        const stamp = this.stamp(kind, ink, shown ? 1 : 0.2);
        const above = this.stamp("above", ink, shown ? 1 : 0.2);
        for (const row of rowsOf[k]) {
          if (seen[row] !== shown) continue;
          const key = (xs[row] >> 1) + cells * (ys[row] >> 1);
          if (drawn[key] & bit) continue;
          drawn[key] |= bit;
          print(stamp, xs[row], ys[row], shown);
          if (over[row]) print(above, xs[row], ys[row] - 9, shown);
        }
      });
    }
    return picture;
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
    context.strokeStyle = ink[INKS[kind] || kind];
    context.lineWidth = kind === "ok" ? 2 : 1.5;
    context.translate(6, 6);
    context.stroke(new Path2D(SHAPES[kind]));
    const { data, width } = context.getImageData(0, 0, canvas.width, canvas.height);
    return [...new Uint32Array(data.buffer)]
      .map((colour, i) => [i % width, Math.floor(i / width), colour])
      .filter(([, , colour]) => colour >>> 24);
  }
}
