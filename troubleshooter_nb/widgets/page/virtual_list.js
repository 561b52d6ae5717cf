// A long list of which only what is visible stands in the page.

import { focusedIn, mark } from "./dom.js";

/** Rows of one height; the rest is two spacers. Rows stay and are filled anew: a drag must not lose its
 * row, and a focused row that is removed hands the focus to the notebook.
 *
 * `view` scrolls, `body` holds the rows between two `spacers`; `blank()` makes a row and
 * `fill(row, item, position)` fills it; `pitch` is the height of a row, `room()` that of all that are
 * visible, `spare` how many more are drawn on either side. */
export class VirtualList {
  constructor({ view, body, spacers, blank, fill, pitch, room, spare }) {
    Object.assign(this, { view, body, spacers, blank, fill, pitch, room, spare });
    body.append(...spacers);
    this.rows = [];
    this.items = [];
    this.first = 0; // position of the first row that is drawn
    this.active = -1; // position of the item that the keyboard is on
    this.top = 0; // what the view says, kept: asking it makes the browser lay the page out
    view.addEventListener("scroll", () => {
      if (this.hidden) return; // a collapsed output scrolls to its top
      this.top = view.scrollTop;
      this.render();
    });
    this.resized = new ResizeObserver(([{ contentRect }]) => {
      const shown = this.hidden && contentRect.height > 0;
      this.hidden = contentRect.height === 0;
      const wider = !this.hidden && contentRect.width !== this.width;
      if (wider) this.width = contentRect.width;
      if (!shown && !wider) return;
      if (shown) view.scrollTop = this.top;
      this.render();
    });
    this.resized.observe(view);
  }

  close() {
    this.resized.disconnect();
  }

  /** Other items. The keyboard stays on its item, or where it was: on the one that came after it. */
  set(items) {
    const at = this.items[this.active] === items[this.active] ? this.active : items.indexOf(this.item);
    this.items = items;
    this.active = at >= 0 ? at : Math.min(Math.max(this.active, 0), items.length - 1);
    this.render();
  }

  /** Other items, with the keyboard and the view at one of them. */
  setAt(items, active, top) {
    Object.assign(this, { items, active, top });
    this.render();
    this.view.scrollTop = top;
  }

  render() {
    const had = this.body.contains(focusedIn(this.view));
    const count = Math.ceil(this.room() / this.pitch) + 2 * this.spare;
    const most = Math.max(this.items.length - count, 0);
    const first = Math.min(Math.max(Math.floor(this.top / this.pitch) - this.spare, 0), most);
    const last = Math.min(first + count, this.items.length);
    while (this.rows.length < last - first) {
      const row = this.blank();
      this.rows.push(row);
      this.spacers[1].before(row);
    }
    const gone = this.rows.splice(last - first);
    this.rows.forEach((row, k) => {
      this.fill(row, this.items[first + k], first + k);
      mark(row, { tabindex: first + k === this.active ? 0 : -1 });
    });
    this.spacers[0].style.height = `${first * this.pitch}px`;
    this.spacers[1].style.height = `${(this.items.length - last) * this.pitch}px`;
    this.first = first;
    // Where the active row was scrolled away, the list itself can still be reached by Tab.
    mark(this.view, { tabindex: this.row ? -1 : 0 });
    if (had) this.hold();
    for (const row of gone) row.remove();
  }

  go(position) {
    if (!this.items.length) return;
    this.active = Math.min(Math.max(position, 0), this.items.length - 1);
    const top = this.active * this.pitch;
    const wanted = Math.max(Math.min(this.top, top), top + this.pitch - this.room());
    if (wanted !== this.top) this.view.scrollTop = this.top = wanted;
    this.render();
    this.row?.focus({ preventScroll: true });
  }

  /** The focus without scrolling: a mouse looks at something else. */
  hold() {
    (this.row || this.view).focus({ preventScroll: true });
  }

  get item() {
    return this.items[this.active];
  }

  /** The row of the item that the keyboard is on, where it is drawn. */
  get row() {
    return this.active >= this.first ? this.rows[this.active - this.first] : undefined;
  }

  /** Where the item of a row is that an event came from, or -1. */
  positionOf(target) {
    const at = this.rows.findIndex((row) => row.contains(target));
    return at < 0 ? -1 : this.first + at;
  }
}
