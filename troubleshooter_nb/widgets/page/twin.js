// The static table below an editor, which the file holds: whether it follows what is edited.

import { make, put } from "./dom.js";

const LATE = 2000; // ms until a table that was drawn must have come into the page
const LATEST = 4000; // ms until one saves although it was not drawn

export class Twin {
  constructor(root, outside) {
    this.root = root;
    // Whether the table is still to follow: that changes nothing of the editor itself.
    this.outside = outside;
    outside.dataset.drawing = "0";
    this.words = null; // until the kernel says them
    this.remark = make("p", { class: "tsnb-w-lost tsnb-w-warn", role: "status", hidden: true });
  }

  close() {
    clearTimeout(this.checking);
    this.observer?.disconnect();
  }

  get isDrawing() {
    return this.outside.dataset.drawing === "1";
  }

  /** The kernel will draw it. */
  due() {
    this.watch();
    this.outside.dataset.drawing = "1";
  }

  /** The kernel drew it. It is part of what is saved: whoever saves meanwhile waits for it. */
  drawn() {
    this.outside.dataset.drawing = "0";
    const { saving } = this;
    this.saving = null;
    if (saving) saving();
    this.checking ||= setTimeout(() => this.check(), LATE);
  }

  /** Saves when the last change is answered and drawn, and at the latest after a while. */
  saveSoon(save) {
    if (this.saving) return;
    const timer = setTimeout(() => this.drawn(), LATEST);
    this.saving = () => {
      clearTimeout(timer);
      save();
    };
  }

  /** A front end forgets which output is the table when its page is loaded again or the cell is
   * moved; the kernel draws on without knowing. So the page looks whether anything changes there. */
  watch() {
    const area = this.outside.closest(".jp-OutputArea, .output");
    if (!area || area === this.area) return;
    this.observer?.disconnect();
    this.area = area;
    this.observer = new MutationObserver((records) => this.saw(records));
    this.observer.observe(area, { childList: true, characterData: true, subtree: true });
  }

  saw(records) {
    const elsewhere = ({ target }) => !this.root.contains(target) &&
      !(target.closest ? target : target.parentElement)?.closest(".tsnb-w");
    if (!records.some(elsewhere)) return;
    this.seen = true;
    this.lose(false);
  }

  /** Says so where the table did not follow, until it does. Where there is none nothing is said. */
  check() {
    this.checking = null;
    if (this.isDrawing) return; // the next one is looked at
    if (!this.observer || !this.words || !this.root.isConnected) return;
    this.saw(this.observer.takeRecords());
    const tables = [...this.area.querySelectorAll(".tsnb")];
    this.lose(!this.seen && tables.some((one) => !this.outside.contains(one)));
    this.seen = false;
  }

  lose(lost) {
    if (this.remark.hidden === !lost) return;
    this.remark.hidden = !lost;
    put(this.remark, lost ? `▲ ${this.words.lost}` : "");
  }
}
