// The page of the mapping editor: it draws what the kernel says and asks the kernel for every rule.

import { isCommand, keepKeys, make, mark, put } from "./dom.js";
import { Drag } from "./drag.js";
import { EditorPanel, onEnter } from "./editor_panel.js";
import { visible } from "./names.js";
import { PairTable } from "./pair_table.js";
import { inOrder, isShown, shownOf, unmatched } from "./pairs.js";
import { Pool } from "./pool.js";
import { Twin } from "./twin.js";

const PATIENCE = 4000; // ms until a kernel that has not answered is said to be silent
const SILENCE = 5000; // the same for a question of an editor that had its rows
// What is asked without the number of a name or the key of a row.
const NUMBERLESS = new Set(["ready", "undo", "redo", "rest", "save"]);
const STEPS = { ArrowDown: 1, ArrowUp: -1, PageDown: 6, PageUp: -6, Home: -1e9, End: 1e9 };

function render({ model, el }) {
  const root = make("div", { class: "tsnb-w", role: "group", "data-pending": 0 });
  root.append(make("p", { class: "tsnb-w-wait", role: "status" }, model.get("_waiting")));
  el.append(root);
  const editor = new Editor(model, root, el);
  editor.ask("ready");
  return () => {
    editor.close();
    root.remove();
  };
}

class Editor {
  constructor(model, root, outside) {
    this.model = model;
    this.root = root;
    this.outside = outside;
    this.twin = new Twin(root, outside);
    this.asked = new Map(); // number of a question -> what to do with its answer
    // Several views of one widget hear all answers, so that their questions need names of their own.
    this.token = Math.random().toString(36).slice(2);
    this.number = 0;
    this.again = 0; // rows to unpair when the last answer is there
    this.words = {};
    this.hear = (message) => this.heard(message);
    model.on("msg:custom", this.hear);
    this.timer = setTimeout(() => this.lonely(), PATIENCE);
  }

  close() {
    clearTimeout(this.timer);
    this.twin.close();
    if (this.state) for (const list of this.lists()) list.close();
    for (const { timer } of this.asked.values()) clearTimeout(timer);
    this.model.off("msg:custom", this.hear);
  }

  // --- talking to the kernel ---------------------------------------------------------------

  ask(op, more = {}, then = null) {
    const re = `${this.token} ${++this.number}`;
    const timer = this.state ? setTimeout(() => this.unanswered(), SILENCE) : null;
    this.asked.set(re, { then, timer });
    this.root.dataset.pending = this.asked.size;
    try {
      const numbering = NUMBERLESS.has(op) ? {} : { numbering: this.state.numbering };
      this.model.send({ op, re, ...numbering, ...more });
    } catch {
      // After a restart there is nobody to ask; what is said of an unanswered question says so.
    }
    return re;
  }

  unanswered() {
    this.silent = true;
    this.say(this.words.silent, "bad");
  }

  heard(message) {
    if (message.type === "drawn") {
      this.twin.drawn();
      return;
    }
    if (message.due) this.twin.due();
    const mine = this.asked.has(message.re);
    const { then, timer } = this.asked.get(message.re) || {};
    clearTimeout(timer);
    if (mine) this.asked.delete(message.re);
    if (this.silent) {
      this.silent = false;
      this.say("");
    }
    // Another view of the same widget asked: its changes are ours, its questions are not.
    const shared = message.type === "rows" || (message.type === "state" && !message.first);
    if (mine || shared) {
      this.root.dataset.revision = message.revision;
      const act = { state: "start", rows: "changed", error: "failed", saved: "saved", exists: "exists" }[message.type];
      if (act) this[act](message);
      if (mine && then && message.type !== "error") then(message);
    }
    this.root.dataset.pending = this.asked.size;
  }

  lonely() {
    if (this.state) return;
    // A kernel that was busy answers later, and the editor appears then.
    this.wait(this.model.get("_lonely"));
  }

  /** A sentence in place of the editor. */
  wait(text) {
    this.root.replaceChildren(make("p", { class: "tsnb-w-wait", role: "status" }, text));
  }

  // --- the state ---------------------------------------------------------------------------

  start(message) {
    clearTimeout(this.timer);
    const first = !this.state;
    this.state = message;
    if (message.words) this.words = this.twin.words = message.words;
    this.place = [message.left_places, message.right_places];
    this.names = [message.left, message.right].map((names, side) =>
      names.map((name, n) => visible(name) + (message.places.length ? this.placeText(this.place[side][n]) : "")));
    this.lower = this.names.map((names) => names.map((name) => name.toLowerCase()));
    this.shape = [message.left_shapes, message.right_shapes];
    this.absent = message.absent.map((numbers) => new Set(numbers));
    this.rows = new Map(message.rows.map((row) => [row[0], row]));
    this.joints = new Map(); // several names of both sides -> what would come of them
    this.before = this.joints; // the same before the last change
    // Of each side: the unmatched names chosen, in their order, the one chosen last, whether the
    // arrow keys leave them alone, and how the other side fits the last one.
    this.giveUp();
    this.row = null; // key of the chosen row
    this.history = message;
    if (first) this.build();
    this.label();
    this.arrange();
    this.refresh();
    this.say("");
  }

  /** Entries of several steps or ranks are called the same: their place is part of the name. */
  placeText(number) {
    return Object.entries(this.state.places[number])
      .map(([key, value]) => ` · ${this.words[key]} ${value}`).join("");
  }

  changed(message) {
    if (!this.state) return;
    for (const name of message.names) this.know(...name);
    for (const key of message.gone) this.rows.delete(key);
    for (const row of message.put) this.rows.set(row[0], row);
    this.history = message;
    if (this.row !== null && !this.rows.has(this.row)) this.row = null;
    if (this.row !== null && message.put.some((row) => row[0] === this.row)) this.panel.learn(this.row);
    this.arrange();
    this.refresh();
    this.say(message.summary.join(" · "), "", true);
    // What was known of the chosen names may have changed with the rows.
    [this.before, this.joints] = [this.joints, new Map()];
    for (const side of [0, 1]) {
      this.fits[side] = null;
      if (this.chosen[side] !== null) this.chose(side);
    }
  }

  /** A name that is typed or was replaced: numbers stay, so that only these are told. */
  know(side, number, name, shape, isThere) {
    const { shapes } = this.state;
    if (!shapes.includes(shape)) shapes.push(shape);
    this.names[side][number] = visible(name);
    this.lower[side][number] = this.names[side][number].toLowerCase();
    this.shape[side][number] = shapes.indexOf(shape);
    this.absent[side][isThere ? "delete" : "add"](number);
  }

  failed(message) {
    this.again = 0;
    if (this.state) {
      this.say(message.text, "bad");
      return;
    }
    clearTimeout(this.timer); // it did answer
    this.wait(message.text);
  }

  saved(message) {
    this.say([message.text, ...message.left_out.map((one) => `▲ ${one}`)].join(" · "), "ok");
  }

  exists(message) {
    this.say(message.text, "warn");
  }

  say(text, tone = "", silent = false) {
    const sign = { bad: "✗ ", ok: "✓ ", warn: "▲ " }[tone] || "";
    put(this.message, silent ? "" : sign + text);
    this.message.className = `tsnb-w-say${tone ? ` tsnb-w-${tone}` : ""}`;
    put(this.live, text);
  }

  // --- the parts of the page ----------------------------------------------------------------

  button(word, click, more = {}) {
    const text = this.words[word] || word;
    return make("button", { type: "button", onclick: click, ...more }, text);
  }

  build() {
    const words = this.words;
    const isPairing = this.state.kind === "pairing";
    this.root.replaceChildren();
    this.undo = this.button("undo", () => this.ask("undo"), { class: "tsnb-w-undo" });
    this.redo = this.button("redo", () => this.ask("redo"), { class: "tsnb-w-redo" });
    this.restButton = this.button("rest", () => this.ask("rest", {}, (answer) => this.say(answer.said)), { class: "tsnb-w-rest" });
    this.query = make("input", {
      type: "search", class: "tsnb-w-filter", placeholder: words.filter,
      "aria-label": words.filter, oninput: () => this.refresh(),
    });
    this.show = make("select", { "aria-label": words.show, class: "tsnb-w-show", onchange: () => this.refresh() },
      ...["all", "changed", "attention"].map((one) => make("option", { value: one }, words[one])));
    this.summary = make("p", { class: "tsnb-w-sum", "data-drawing": words.drawing });
    this.message = make("p", { class: "tsnb-w-say" });
    this.live = make("p", { class: "tsnb-w-live", role: "status", "aria-live": "polite" });
    this.drag = new Drag(this);
    this.pools = [0, 1].map((side) => new Pool(this, side));
    this.table = new PairTable(this, this.model.get("_height"));
    this.panel = new EditorPanel(this);
    this.path = make("input", {
      type: "text", class: "tsnb-w-path", value: "mapping.yaml", spellcheck: "false",
      "aria-label": isPairing ? words.path_pairing : words.path,
      title: isPairing ? words.path_pairing : words.path,
      onkeydown: onEnter(() => this.save()),
    });
    this.kind = isPairing ? make("select", { "aria-label": words.kind, title: words.kind, class: "tsnb-w-kind" },
      ...["", "data", "layer", "cell", "api"].map((one) => make("option", { value: one }, one || words.by_name))) : null;
    this.root.append(
      make("div", { class: "tsnb-w-bar", role: "toolbar", "aria-label": words.title },
        this.undo, this.redo, this.restButton,
        make("span", { class: "tsnb-w-gap" }), this.query, this.show),
      this.summary,
      this.twin.remark,
      make("div", { class: "tsnb-w-pools" }, ...this.pools.map((pool) => pool.section)),
      this.table.section,
      this.panel.root,
      make("div", { class: "tsnb-w-bar" }, this.path, this.kind,
        // The second click of a double one is no answer to what the first one made us ask.
        this.button("save", (event) => { if (event.detail < 2) this.save(); }, { class: "tsnb-w-save" }), this.message),
      this.live,
    );
    keepKeys(this.root, this.outside, (save) => {
      if (!this.twin.isDrawing && !this.asked.size) save();
      else this.twin.saveSoon(save);
    });
    this.root.addEventListener("keydown", (event) => this.pressed(event));
    this.root.addEventListener("mousedown", () => { this.keyboard = false; }, true);
    this.root.addEventListener("mousemove", (event) => { this.pointer = [event.screenX, event.screenY]; });
  }

  /** What the two sides are called, which another value may change. */
  label() {
    const { labels } = this.state;
    this.root.setAttribute("aria-label", `${this.words.title}: ${labels.join(" → ")}`);
    labels.forEach((text, side) => {
      const { body, view } = this.pools[side];
      const label = `${this.words.unmatched} ${text}`;
      for (const node of [body, view]) mark(node, { "aria-label": label });
      put(this.table.heads[side], text);
      mark(this.table.heads[side], { title: text });
    });
  }

  /** The names of a side as one text. */
  namesOf(side, numbers) {
    return numbers.map((number) => this.names[side][number]).join(" + ");
  }

  /** How a name of this side fits the chosen one of the other: undefined where nothing is chosen. */
  fit(side, number) {
    if (this.several()) return undefined; // it is said of all together
    const fits = this.fits[1 - side];
    if (fits && this.state.places.length && this.place[1 - side][fits.number] !== this.place[side][number])
      return `!${this.words.another_place}`;
    return fits ? fits.fits[this.shape[side][number]] : undefined;
  }

  fitText(fit) {
    if (fit === undefined) return "";
    if (fit === "") return `✓ ${this.words.same_shape}`;
    if (fit === "?") return this.words.unknown_shape;
    return fit[0] === "!" ? `✗ ${fit.slice(1)}` : `⇄ ${fit}`;
  }

  // --- drawing ------------------------------------------------------------------------------

  /** What depends on the rows alone, so that typing in the filter need not look at it again. */
  arrange() {
    const rows = inOrder(this.rows.values());
    this.ordered = rows.map((row) => row[0]);
    this.open = this.names.map((names, side) => unmatched(rows, side, names.length, this.absent[side]));
  }

  refresh() {
    const query = this.query.value.trim().toLowerCase();
    const hit = (side, number) => this.lower[side][number].includes(query);
    const show = this.show.value;
    const keys = query || show !== "all" ? this.ordered.filter((key) => {
      const row = this.rows.get(key);
      if (query && !row[1].some((n) => hit(0, n)) && !row[2].some((n) => hit(1, n))) return false;
      return isShown(row, show, this.names, this.state.kind === "pairing");
    }) : this.ordered;
    for (const side of [0, 1]) {
      const pool = this.pools[side];
      const items = [...this.open[side]].filter((number) => !query || hit(side, number));
      this.group[side] = this.group[side].filter((number) => this.open[side].has(number));
      if (this.chosen[side] !== null && !this.open[side].has(this.chosen[side])) {
        this.chosen[side] = this.group[side].at(-1) ?? null;
        this.fits[side] = null;
      }
      if (!this.group[side].length) this.holding[side] = false;
      const count = shownOf(items.length, this.open[side].size);
      put(pool.title, `○ ${this.words.unmatched} ${this.state.labels[side]} (${count})`);
      put(pool.empty, items.length ? "" : this.words[this.open[side].size ? "no_hits" : "none_left"]);
      pool.list.set(items);
    }
    put(this.table.title, `${this.words.pairs} (${shownOf(keys.length, this.rows.size)})`);
    put(this.table.empty, keys.length ? "" : this.words[this.rows.size ? "no_hits" : "no_pairs"]);
    mark(this.table.grid, { "aria-rowcount": keys.length + 1 });
    this.table.list.set(keys);
    put(this.summary, this.history.summary.join(" · "));
    for (const [button, word] of [[this.undo, "undo"], [this.redo, "redo"]]) {
      const what = this.history[word];
      // Not `disabled`: the button keeps the focus of whoever undoes by keyboard.
      const title = what === null ? this.words.nothing : `${this.words[word]}: ${what}`;
      mark(button, { "aria-disabled": what === null, title });
    }
    this.panel.show();
  }

  lists() {
    return [...this.pools.map((pool) => pool.list), this.table.list];
  }

  draw() {
    for (const list of this.lists()) list.render();
  }

  // --- choosing -----------------------------------------------------------------------------

  choose(side, number, focus = false) {
    if (this.chosen[side] !== number) {
      this.fits[side] = null;
      this.crossing = null;
    }
    this.chosen[side] = number;
    this.group[side] = [number];
    this.holding[side] = false;
    this.chose(side, focus);
  }

  /** One name more, or one less: several are split or joined in the order in which they are chosen. */
  toggle(side, number) {
    const group = this.group[side];
    const others = group.filter((one) => one !== number);
    this.group[side] = others.length < group.length ? others : [...group, number];
    this.chosen[side] = this.group[side].at(-1) ?? null;
    this.holding[side] = this.group[side].length > (this.holding[side] ? 0 : 1);
    this.fits[side] = this.crossing = null;
    this.chose(side);
  }

  /** The side of the name that was chosen last, or null. */
  chosenSide() {
    return this.side !== undefined && this.chosen[this.side] !== null ? this.side : null;
  }

  several() {
    return this.group.some((group) => group.length > 1);
  }

  chose(side, focus = false) {
    const number = this.chosen[side];
    this.row = null;
    this.side = number === null && this.chosen[1 - side] !== null ? 1 - side : side;
    const list = this.pools[side].list;
    const at = list.items.indexOf(number);
    if (at >= 0 && !this.holding[side]) list.active = at;
    const sides = ["left", "right"];
    this.draw();
    if (focus) list.go(at);
    if (this.several()) this.askJoint();
    if (number !== null) this.ask("fits", { side: sides[side], number }, (answer) => {
      if (this.chosen[side] !== number) return;
      this.fits[side] = answer;
      this.pools[1 - side].list.render();
      this.panel.show();
      if (this.crossing === side) this.cross(side, this.pools[1 - side].list);
    });
    this.panel.show();
  }

  /** What would come of the names that are chosen. */
  askJoint(pair = this.group, then = () => this.panel.show()) {
    const [left, right] = pair.map((one) => [one].flat());
    const key = pair.join(" > ");
    if (!left.length || !right.length || this.joints.has(key)) return;
    this.joints.set(key, this.before.get(key)); // shown until the answer is there
    this.ask("together", { left, right }, (answer) => {
      this.joints.set(key, answer);
      then();
    });
  }

  chooseRow(key) {
    this.giveUp();
    this.row = key;
    const at = this.table.list.items.indexOf(key);
    if (at >= 0) this.table.list.active = at;
    this.panel.learn(key);
    this.draw();
    this.panel.show();
  }

  /** Nothing is chosen in the pools any more. */
  giveUp() {
    this.crossing = null;
    this.chosen = [null, null];
    this.group = [[], []];
    this.holding = [false, false];
    this.fits = [null, null];
    this.sideBefore = undefined;
  }

  // --- acting -------------------------------------------------------------------------------

  pair() {
    const [left, right] = this.several() ? this.group.map((one) => [...one]) : this.chosen;
    if (this.asked.has(this.pairing)) return; // the last pair is not made yet
    if (left !== null && right !== null) this.sendPair(left, right);
  }

  sendPair(left, right, key = null, transform = undefined) {
    this.pairing = this.ask("pair", { left, right, key, transform }, () => this.next(0));
  }

  /** The next name is ready for whoever works by keyboard. */
  next(side) {
    const list = this.pools[side].list;
    if (!this.keyboard || !list.items.length) return;
    this.choose(side, list.items[Math.max(list.active, 0)], true);
  }

  save() {
    this.ask("save", { path: this.path.value, kind: this.kind?.value ? this.kind.value : null });
  }

  pressed(event) {
    const command = isCommand(event);
    const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName);
    const key = event.key.toLowerCase();
    this.keyboard = true;
    // In a field the browser undoes what was typed, where something was.
    const typed = /^(INPUT|TEXTAREA)$/.test(event.target.tagName) && event.target.value !== event.target.defaultValue;
    if (command && !typed && (key === "z" || key === "y")) {
      event.preventDefault();
      this.ask(key === "y" || event.shiftKey ? "redo" : "undo");
      return;
    }
    if (command || typing || event.altKey) return;
    const side = this.pools.findIndex((pool) => pool.view.contains(event.target));
    if (side >= 0) this.pressedInPool(event, side);
    else if (this.table.list.view.contains(event.target)) this.pressedInRows(event);
    else if (event.key === "Escape" && this.panel.root.contains(event.target)) this.escape();
  }

  pressedInPool(event, side) {
    const list = this.pools[side].list;
    const other = this.pools[1 - side].list;
    if (event.key in STEPS) {
      event.preventDefault();
      list.go(list.active + STEPS[event.key]);
      if (list.items.length && !this.holding[side]) this.choose(side, list.item);
    } else if (event.key === " ") {
      event.preventDefault();
      if (list.items.length) this.hold(side, list.item);
    } else if (event.key === "Enter") {
      event.preventDefault();
      if (this.several() && this.group.every((one) => one.length)) this.pair();
      else if (this.holding[side] && this.chosen[side] !== null) this.cross(side, other);
      else if (this.chosen[side] !== list.item) this.choose(side, list.item);
      else if (this.chosen[1 - side] !== null && this.sideBefore === 1 - side) this.pair();
      else this.cross(side, other);
    } else if (event.key === "ArrowRight" || event.key === "ArrowLeft") {
      if ((event.key === "ArrowRight") === (side === 1)) return;
      event.preventDefault();
      this.cross(side, other);
    } else if (event.key === "Escape") {
      this.escape();
    }
  }

  escape() {
    this.giveUp();
    this.row = null;
    this.draw();
    this.panel.show();
  }

  /** Space takes a name, after which the arrow keys only move; on a name that was taken it lets go. */
  hold(side, number) {
    const only = this.group[side].length === 1 && this.group[side][0] === number;
    if (only && !this.holding[side]) {
      this.holding[side] = true;
      this.say(this.words.holding, "", true);
      return;
    }
    this.holding[side] = true;
    this.toggle(side, number);
  }

  /** To the other pool, onto the closest name that fits what is chosen here. */
  cross(side, other) {
    if (!other.items.length) return;
    if (this.chosen[side] === null) this.choose(side, this.pools[side].list.item);
    // Which name is the closest is for the kernel to say: whoever is faster waits for it.
    this.crossing = this.fits[side] ? null : side;
    if (this.crossing !== null) return;
    this.sideBefore = side;
    if (this.holding[1 - side]) { // what is chosen there stays
      other.go(other.active);
      return;
    }
    const found = this.fits[side].candidates;
    const near = found.map(([number]) => other.items.indexOf(number)).filter((at) => at >= 0);
    other.go(near.length ? near[0] : Math.max(other.active, 0));
    this.choose(1 - side, other.item);
  }

  pressedInRows(event) {
    if (event.key in STEPS) {
      event.preventDefault();
      this.table.list.go(this.table.list.active + STEPS[event.key]);
    } else if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      if (this.table.list.item !== undefined) this.chooseRow(this.table.list.item);
    } else if (event.key === "Escape") {
      this.escape();
    } else if (event.key === "Delete" || event.key === "Backspace") {
      event.preventDefault();
      // A key that is held goes on when the row is gone, one that is pressed again is not lost.
      if (!this.asked.has(this.unpairing)) this.unpair();
      else if (!event.repeat) this.again += 1;
    }
  }

  unpair() {
    if (this.table.list.item === undefined) return;
    this.unpairing = this.ask("unpair", { key: this.table.list.item }, () => {
      if (this.again < 1) return;
      this.again -= 1;
      this.unpair();
    });
  }
}

export default { render };
