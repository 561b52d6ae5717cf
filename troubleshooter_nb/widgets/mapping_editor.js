// The page of the mapping editor: it draws what the kernel says and asks the kernel for every rule.
// Names come from files: they are only ever set as textContent.

const ROW = 26; // pixels, as in the style sheet
const POOL = 156; // height of a pool: six rows
const SPARE = 2; // rows drawn beyond the visible ones
const PATIENCE = 4000; // milliseconds until a kernel that has not answered is said to be silent
const LATE = 2000; // milliseconds until a table that was drawn must have come into the page
const SILENCE = 5000; // the same for a question of an editor that had its rows
// How well a name fits, as the kernel says it: the class, and what stands in front of the reason.
const TONES = { fits: ["tsnb-w-ok", " ✓ "], open: ["tsnb-w-note", " "], not: ["tsnb-w-warn", " ▲ "] };

function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  // On every element: Notebook 7 looks for its shortcuts before an event gets here, from the focused
  // element upwards, and stops at the first that has one. On the outermost alone it comes too late.
  element.setAttribute("data-lm-suppress-shortcuts", "true");
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined) continue;
    if (value === false && !name.startsWith("aria-")) continue;
    if (name === "class") element.className = value;
    else if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, String(value));
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

// Text and attributes of a row: what stays as it is costs no layout.
function put(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

function mark(node, attributes) {
  for (const [name, value] of Object.entries(attributes))
    if (node.getAttribute(name) !== String(value)) node.setAttribute(name, value);
}

// Only what is visible stands in the page; the rest is two spacers. Rows stay and are filled anew:
// a drag must not lose its row, and a focused row that is removed hands the focus to the notebook.
class VirtualList {
  constructor({ view, body, spacers, blank, fill, height }) {
    Object.assign(this, { view, body, spacers, blank, fill, height });
    body.append(...spacers);
    this.rows = [];
    this.items = [];
    this.active = -1; // position of the item that the keyboard is on
    this.top = 0; // what the view says, kept: asking it makes the browser lay the page out
    view.addEventListener("scroll", () => {
      if (this.hidden) return; // a collapsed output scrolls to its top
      this.top = view.scrollTop;
      this.render();
    });
    new ResizeObserver(([{ contentRect }]) => {
      const shown = this.hidden && contentRect.height > 0;
      this.hidden = contentRect.height === 0;
      const wider = !this.hidden && contentRect.width !== this.width;
      if (wider) this.width = contentRect.width;
      if (!shown && !wider) return;
      if (shown) view.scrollTop = this.top;
      this.render();
    }).observe(view);
  }

  // The keyboard stays on its item, or where it was: on the one that came after it.
  set(items) {
    const at = this.items[this.active] === items[this.active] ? this.active : items.indexOf(this.item);
    this.items = items;
    this.active = at >= 0 ? at : Math.min(Math.max(this.active, 0), items.length - 1);
    this.render();
  }

  render() {
    const had = this.body.contains(this.view.ownerDocument.activeElement) ||
      this.body.contains(this.view.getRootNode().activeElement);
    const count = Math.ceil(this.height() / ROW) + 2 * SPARE;
    const most = Math.max(this.items.length - count, 0);
    const first = Math.min(Math.max(Math.floor(this.top / ROW) - SPARE, 0), most);
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
    this.spacers[0].style.height = first * ROW + "px";
    this.spacers[1].style.height = (this.items.length - last) * ROW + "px";
    this.first = first;
    // Where the active row was scrolled away, the list itself can still be reached by Tab.
    const there = this.active >= first && this.active < last;
    mark(this.view, { tabindex: there ? -1 : 0 });
    if (had) (there ? this.rows[this.active - first] : this.view).focus({ preventScroll: true });
    for (const row of gone) row.remove();
  }

  go(position, focus = true) {
    if (!this.items.length) return;
    this.active = Math.min(Math.max(position, 0), this.items.length - 1);
    const top = this.active * ROW;
    const visible = this.height() - ROW;
    const wanted = Math.max(Math.min(this.top, top), top - visible);
    if (wanted !== this.top) this.view.scrollTop = this.top = wanted;
    this.render();
    if (focus && this.rows[this.active - this.first])
      this.rows[this.active - this.first].focus({ preventScroll: true });
  }

  // The focus without scrolling: a mouse looks at something else.
  hold() {
    (this.rows[this.active - this.first] || this.view).focus({ preventScroll: true });
  }

  get item() {
    return this.items[this.active];
  }
}

// Shapes read better so: 64x32 becomes 64×32.
function times(text) {
  return text.replace(/(\d)x(?=\d)/g, "$1×");
}

// The parts of a name, each with whether the other name lacks it where it stands.
function differing(name, other) {
  const parts = name.split(/(?<=[._/:])|(?=[._/:])/);
  const theirs = other === null || other === name ? parts : other.split(/(?<=[._/:])|(?=[._/:])/);
  if (theirs === parts || parts.length * theirs.length > 10000) return parts.map((part) => [false, part]);
  const common = parts.map(() => new Uint16Array(theirs.length + 1));
  common.push(new Uint16Array(theirs.length + 1));
  for (let i = parts.length - 1; i >= 0; i--)
    for (let j = theirs.length - 1; j >= 0; j--)
      common[i][j] = parts[i] === theirs[j] ? common[i + 1][j + 1] + 1
        : Math.max(common[i + 1][j], common[i][j + 1]);
  let j = 0;
  const found = parts.map((part, i) => {
    while (j < theirs.length && part !== theirs[j] && common[i][j + 1] >= common[i + 1][j]) j++;
    const same = j < theirs.length && part === theirs[j];
    if (same) j++;
    return [!same, part];
  });
  // Of names that have no word in common all would be bold, which says nothing.
  const alike = found.some(([is_new, part]) => !is_new && /\w/.test(part));
  return alike ? found : parts.map((part) => [false, part]);
}

// Words before the last dot become letters until a name has so many letters: its numbers, its end
// and what the other one has not tell it from the others of its net.
function shortened(parts, room) {
  let length = parts.reduce((sum, [, part]) => sum + part.length, 0);
  const last = parts.findLastIndex(([, part]) => part === ".");
  return parts.map(([is_new, part], i) => {
    if (is_new || i >= last || length <= room || part.length < 3 || /\d/.test(part)) return [is_new, part];
    length -= part.length - 1;
    return [is_new, part[0]];
  });
}

// A name whose end stays visible where it is cut off, with what another one has not in bold.
function put_name(node, text, other = null, room = Infinity) {
  const kept = node.named;
  if (kept && kept[0] === text && kept[1] === other && kept[2] === room) return;
  node.named = [text, other, room];
  const inner = node.firstChild || node.appendChild(make("bdi", { dir: "ltr" }));
  const parts = shortened(differing(text, other), room);
  const runs = [];
  for (const [is_new, part] of parts)
    if (runs.length && runs[runs.length - 1][0] === is_new) runs[runs.length - 1][1] += part;
    else runs.push([is_new, part]);
  if (runs.length > 1 || (runs.length && runs[0][0]))
    inner.replaceChildren(...runs.map(([is_new, part]) => is_new ? make("b", {}, part) : part));
  else put(inner, parts.map(([, part]) => part).join(""));
}

// How many are shown, and of how many where that is not all.
function of(shown, all) {
  const said = (count) => count.toLocaleString("en");
  return shown === all ? said(all) : `${said(shown)} / ${said(all)}`;
}

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
    // Whether the table below is still to follow: that changes nothing of the editor itself.
    this.outside = outside;
    outside.dataset.drawing = "0";
    this.asked = new Map(); // number of a question -> what to do with its answer
    // Several views of one widget hear all answers, so that their questions need names of their own.
    this.token = Math.random().toString(36).slice(2);
    this.number = 0;
    this.again = 0; // rows to unpair when the last answer is there
    this.words = {};
    this.shown = {}; // what the panel speaks of
    this.hear = (message) => this.heard(message);
    model.on("msg:custom", this.hear);
    this.timer = setTimeout(() => this.lonely(), PATIENCE);
  }

  close() {
    clearTimeout(this.timer);
    clearTimeout(this.checking);
    if (this.observer) this.observer.disconnect();
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

  // The table below is part of what is saved: whoever saves meanwhile waits for it.
  drawn() {
    this.outside.dataset.drawing = "0";
    const saving = this.saving;
    this.saving = null;
    if (saving) saving();
    this.checking ||= setTimeout(() => this.check(), LATE);
  }

  // A front end forgets which output is the table when its page is loaded again or the cell is
  // moved; the kernel draws on without knowing. So the page looks whether anything changes there.
  watch() {
    const area = this.outside.closest(".jp-OutputArea, .output");
    if (!area || area === this.area) return;
    if (this.observer) this.observer.disconnect();
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

  // Says so where the table below did not follow, until it does. Where there is none nothing is said.
  check() {
    this.checking = null;
    if (this.outside.dataset.drawing === "1") return; // the next one is looked at
    if (!this.observer || !this.state || !this.root.isConnected) return;
    this.saw(this.observer.takeRecords());
    const tables = [...this.area.querySelectorAll(".tsnb")];
    this.lose(!this.seen && tables.some((one) => !this.outside.contains(one)));
    this.seen = false;
  }

  lose(lost) {
    if (!this.lost || this.lost.hidden === !lost) return;
    this.lost.hidden = !lost;
    put(this.lost, lost ? "▲ " + this.words.lost : "");
  }

  heard(message) {
    if (message.type === "drawn") {
      this.drawn();
      return;
    }
    if (message.due) {
      this.watch();
      this.outside.dataset.drawing = "1";
    }
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

  // A sentence in place of the editor.
  wait(text) {
    this.root.replaceChildren(make("p", { class: "tsnb-w-wait", role: "status" }, text));
  }

  // --- the state ---------------------------------------------------------------------------

  start(message) {
    clearTimeout(this.timer);
    const first = !this.state;
    this.state = message;
    if (message.words) this.words = message.words;
    this.place = [message.left_places, message.right_places];
    this.names = [message.left, message.right].map((names, side) =>
      message.places.length ? names.map((name, n) => name + this.place_text(this.place[side][n])) : names);
    this.lower = this.names.map((names) => names.map((name) => name.toLowerCase()));
    this.shape = [message.left_shapes, message.right_shapes];
    this.absent = message.absent.map((numbers) => new Set(numbers));
    this.rows = new Map(message.rows.map((row) => [row[0], row]));
    this.joints = new Map(); // several names of both sides -> what would come of them
    this.before = this.joints; // the same before the last change
    // Of each side: the unmatched names chosen, in their order, the one chosen last, whether the
    // arrow keys leave them alone, and how the other side fits the last one.
    this.give_up();
    this.row = null; // key of the chosen row
    this.history = message;
    if (first) this.build();
    this.label();
    this.arrange();
    this.refresh();
    this.say("");
  }

  // Entries of several steps or ranks are called the same: their place is part of the name.
  place_text(number) {
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
    if (this.row !== null && message.put.some((row) => row[0] === this.row)) this.learn(this.row);
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

  // A name that is typed or was replaced: numbers stay, so that only these are told.
  know(side, number, name, shape, is_there) {
    const { shapes } = this.state;
    if (!shapes.includes(shape)) shapes.push(shape);
    this.names[side][number] = name;
    this.lower[side][number] = name.toLowerCase();
    this.shape[side][number] = shapes.indexOf(shape);
    this.absent[side][is_there ? "delete" : "add"](number);
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
    this.say([message.text, ...message.left_out.map((one) => "▲ " + one)].join(" · "), "ok");
  }

  exists(message) {
    this.say(message.text, "warn");
  }

  say(text, tone = "", silent = false) {
    const sign = { bad: "✗ ", ok: "✓ ", warn: "▲ " }[tone] || "";
    put(this.message, silent ? "" : sign + text);
    this.message.className = "tsnb-w-say" + (tone ? " tsnb-w-" + tone : "");
    put(this.live, text);
  }

  // --- the parts of the page ----------------------------------------------------------------

  button(word, click, more = {}) {
    const text = this.words[word] || word;
    return make("button", { type: "button", onclick: click, ...more }, text);
  }

  build() {
    const words = this.words;
    const pairing = this.state.kind === "pairing";
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
    this.lost = make("p", { class: "tsnb-w-lost tsnb-w-warn", role: "status" });
    this.lost.hidden = true;
    this.message = make("p", { class: "tsnb-w-say" });
    this.live = make("p", { class: "tsnb-w-live", role: "status", "aria-live": "polite" });
    this.pools = [0, 1].map((side) => this.pool(side));
    this.build_rows(pairing);
    this.panel = make("div", { class: "tsnb-w-panel" });
    this.path = make("input", {
      type: "text", class: "tsnb-w-path", value: "mapping.yaml", spellcheck: "false",
      "aria-label": pairing ? words.path_pairing : words.path,
      title: pairing ? words.path_pairing : words.path,
      onkeydown: (event) => { if (event.key === "Enter" && !event.repeat) this.save(); },
    });
    this.kind = pairing ? make("select", { "aria-label": words.kind, title: words.kind, class: "tsnb-w-kind" },
      ...["", "data", "layer", "cell", "api"].map((one) => make("option", { value: one }, one || words.by_name))) : null;
    this.root.append(
      make("div", { class: "tsnb-w-bar", role: "toolbar", "aria-label": words.title },
        this.undo, this.redo, this.restButton,
        make("span", { class: "tsnb-w-gap" }), this.query, this.show),
      this.summary,
      this.lost,
      make("div", { class: "tsnb-w-pools" }, ...this.pools.map((pool) => pool.section)),
      this.table_section,
      this.panel,
      make("div", { class: "tsnb-w-bar" }, this.path, this.kind,
        // The second click of a double one is no answer to what the first one made us ask.
        this.button("save", (event) => { if (event.detail < 2) this.save(); }, { class: "tsnb-w-save" }), this.message),
      this.live,
    );
    // The notebook's own shortcuts must not see what is typed or pressed here, but for saving.
    for (const kind of ["keydown", "keypress", "keyup"])
      this.root.addEventListener(kind, (event) => {
        event.stopPropagation();
        const saves = (event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "s";
        if (!saves || kind !== "keydown") return;
        event.preventDefault();
        const { key, code, keyCode, which, ctrlKey, metaKey } = event;
        const save = () => {
          // nbclassic hears no key while a widget has the focus.
          const manager = window.Jupyter && window.Jupyter.keyboard_manager;
          const deaf = manager && !manager.enabled;
          if (deaf) manager.enable();
          this.outside.dispatchEvent(new KeyboardEvent("keydown", {
            key, code, keyCode, which, ctrlKey, metaKey, bubbles: true, cancelable: true,
          }));
          if (deaf) manager.disable();
        };
        if (this.outside.dataset.drawing === "0" && !this.asked.size) save();
        else this.save_soon(save);
      });
    this.root.addEventListener("keydown", (event) => this.pressed(event));
    this.root.addEventListener("mousedown", () => { this.keyboard = false; }, true);
    this.root.addEventListener("mousemove", (event) => { this.pointer = [event.screenX, event.screenY]; });
    this.root.addEventListener("dragend", () => this.dropped());
  }

  // Saves when the last change is answered and drawn, and at the latest after a while.
  save_soon(save) {
    if (this.saving) return;
    const timer = setTimeout(() => this.drawn(), PATIENCE);
    this.saving = () => {
      clearTimeout(timer);
      save();
    };
  }

  // What the two sides are called, which another value may change.
  label() {
    const { labels } = this.state;
    this.root.setAttribute("aria-label", `${this.words.title}: ${labels.join(" → ")}`);
    labels.forEach((text, side) => {
      const { body, view } = this.pools[side];
      const label = `${this.words.unmatched} ${text}`;
      for (const node of [body, view]) mark(node, { "aria-label": label });
      put(this.heads[side], text);
      mark(this.heads[side], { title: text });
    });
  }

  pool(side) {
    const title = make("h4", {});
    const body = make("ul", { class: "tsnb-w-list", role: "listbox", "aria-multiselectable": true });
    const view = make("div", { class: "tsnb-w-view", style: `height:${POOL}px`, role: "group" }, body);
    const empty = make("p", { class: "tsnb-w-none" });
    const section = make("section", { class: `tsnb-w-pool tsnb-w-side${side}` }, title, view, empty);
    const spacer = () => make("li", { role: "presentation", class: "tsnb-w-space" });
    const list = new VirtualList({
      view, body, spacers: [spacer(), spacer()], height: () => POOL, blank: () => this.option(),
      fill: (row, number, position) => this.fill_option(row, side, number, position),
    });
    const several = (event) => event.ctrlKey || event.metaKey;
    body.addEventListener("mousedown", (event) => {
      const item = event.target.closest("[data-number]");
      const number = item && Number(item.dataset.number);
      // One of several may be dragged with the others: it is chosen alone when it was not.
      const held = this.group[side].length > 1 && this.group[side].includes(number);
      if (item && !several(event) && !held) this.choose(side, number, false);
    });
    body.addEventListener("click", (event) => {
      const item = event.target.closest("[data-number]");
      if (!item) return;
      const number = Number(item.dataset.number);
      if (several(event)) this.toggle(side, number);
      else if (this.group[side].length > 1) this.choose(side, number);
      list.go(list.items.indexOf(number));
    });
    body.addEventListener("dblclick", (event) => { if (!several(event)) this.pair(); });
    body.addEventListener("dragstart", (event) => {
      const item = event.target.closest("[data-number]");
      if (!item) return;
      const number = Number(item.dataset.number);
      const group = this.group[side];
      this.drag = { side, number, group: group.length > 1 && group.includes(number) ? [...group] : null };
      event.dataTransfer.setData("text/plain", (this.drag.group || [number]).map((one) => this.names[side][one]).join("\n"));
      event.dataTransfer.effectAllowed = "link";
      event.stopPropagation();
      this.root.classList.add("tsnb-w-dragging");
    });
    this.droppable(body, (target) => {
      const item = target.closest("[data-number]");
      if (!item || !this.drag || this.drag.side === side) return null;
      const number = Number(item.dataset.number);
      const group = this.group[side];
      const here = group.length > 1 && group.includes(number) ? [...group] : number;
      const there = this.drag.group || this.drag.number;
      return { element: item, pair: side ? [there, here] : [here, there] };
    });
    return { section, title, list, empty, view, body };
  }

  build_rows(pairing) {
    const words = this.words;
    const heads = [...this.state.labels, pairing ? words.method : words.transform, words.shape, words.remark];
    const body = make("tbody", {});
    const height = this.model.get("_height");
    this.heads = heads.map((text) => make("th", { scope: "col" }, text));
    const head = make("tr", { "aria-rowindex": 1 }, ...this.heads);
    this.table = make("table", { class: "tsnb-w-rows", role: "grid", "aria-label": words.pairs },
      make("colgroup", {}, ...["28%", "28%", "13%", "13%", "18%"].map((width) => make("col", { style: `width:${width}` }))),
      make("thead", {}, head), body);
    const view = make("div", {
      class: "tsnb-w-view", style: `height:${height}px`, role: "group", "aria-label": words.pairs,
    }, this.table);
    const spacer = () => make("tr", { role: "presentation", class: "tsnb-w-space" });
    this.list = new VirtualList({
      view, body, spacers: [spacer(), spacer()], height: () => height - ROW, blank: () => this.tr(),
      fill: (row, key, position) => this.fill_tr(row, this.rows.get(key), position),
    });
    const choose = (event) => {
      const item = event.target.closest("tr[data-key]");
      if (!item) return;
      this.choose_row(item.dataset.key);
      this.list.go(this.list.items.indexOf(item.dataset.key));
    };
    body.addEventListener("click", choose);
    this.droppable(body, (target) => {
      const item = target.closest("tr[data-key]");
      if (!item || !this.drag || this.drag.group) return null;
      const row = this.rows.get(item.dataset.key);
      const other = row[this.drag.side ? 1 : 2];
      if (other.length !== 1) return null;
      const pair = this.drag.side ? [other[0], this.drag.number] : [this.drag.number, other[0]];
      return { element: item, pair, key: row[0] };
    });
    this.pairs_title = make("h4", {});
    this.no_pairs = make("p", { class: "tsnb-w-none" });
    this.table_section = make("section", { class: "tsnb-w-pairs" }, this.pairs_title, view, this.no_pairs);
  }

  droppable(body, find) {
    body.addEventListener("dragover", (event) => {
      const found = find(event.target);
      if (this.over && (!found || this.over !== found.element)) this.over.classList.remove("tsnb-w-over", "tsnb-w-no");
      this.over = found ? found.element : null;
      if (!found) {
        this.unhint();
        return;
      }
      event.preventDefault();
      event.stopPropagation();
      event.dataTransfer.dropEffect = "link";
      this.hint(found);
    });
    body.addEventListener("drop", (event) => {
      const found = find(event.target);
      if (!found) return;
      event.preventDefault();
      event.stopPropagation();
      this.send_pair(...found.pair, found.key);
      this.dropped();
    });
  }

  // What comes of a drop here is said before it.
  hint({ element, pair }) {
    const { side } = this.drag;
    const fit = pair.some(Array.isArray) ? this.joint_fit(pair, element) : this.fit(1 - side, pair[1 - side]);
    const misfit = Boolean(fit) && fit[0] === "!";
    element.classList.toggle("tsnb-w-no", misfit);
    element.classList.toggle("tsnb-w-over", !misfit);
    const said = this.fit_text(fit);
    if (this.message.textContent !== said) this.say(said);
    this.hinted = said;
  }

  unhint() {
    if (this.hinted && this.message.textContent === this.hinted) this.say("");
    this.hinted = null;
  }

  dropped() {
    if (this.over) this.over.classList.remove("tsnb-w-over", "tsnb-w-no");
    this.over = this.drag = null;
    this.unhint();
    this.root.classList.remove("tsnb-w-dragging");
  }

  // How a name of this side fits the chosen one of the other: undefined where nothing is chosen.
  fit(side, number) {
    if (this.several()) return undefined; // it is said of all together
    const fits = this.fits[1 - side];
    if (fits && this.state.places.length && this.place[1 - side][fits.number] !== this.place[side][number])
      return "!" + this.words.another_place;
    return fits ? fits.fits[this.shape[side][number]] : undefined;
  }

  fit_text(fit) {
    if (fit === undefined) return "";
    if (fit === "") return "✓ " + this.words.same_shape;
    if (fit === "?") return this.words.unknown_shape;
    return fit[0] === "!" ? "✗ " + fit.slice(1) : "⇄ " + fit;
  }

  option() {
    return make("li", { role: "option", draggable: "true" },
      make("span", { class: "tsnb-w-name" }),
      make("span", { class: "tsnb-w-tag tsnb-w-nth" }),
      make("span", { class: "tsnb-w-tag" }, this.words.expected),
      make("span", { class: "tsnb-w-shape" }),
      make("span", { class: "tsnb-w-why" }));
  }

  fill_option(node, side, number, position) {
    const fit = this.fit(side, number);
    const name = this.names[side][number];
    const nth = this.group[side].indexOf(number);
    mark(node, {
      "data-number": number, title: name, "aria-selected": nth >= 0,
      "aria-setsize": this.pools[side].list.items.length, "aria-posinset": position + 1,
      class: "tsnb-w-item" +
        (fit === undefined || fit === "?" ? "" : fit[0] === "!" ? " tsnb-w-misfit" : " tsnb-w-fit"),
    });
    const [called, place, tag, shape, why] = node.children;
    put_name(called, name);
    place.hidden = this.group[side].length < 2 || nth < 0;
    put(place, place.hidden ? "" : String(nth + 1));
    tag.hidden = !this.history.expected[side].includes(number);
    put(shape, times(this.state.shapes[this.shape[side][number]]));
    put(why, this.fit_text(fit));
  }

  tr() {
    const kinds = ["tsnb-w-name", "tsnb-w-name", "", "", "tsnb-w-note"];
    return make("tr", {}, ...kinds.map((kind) => make("td", { class: kind })));
  }

  fill_tr(node, row, position) {
    const [key, left, right, how, shapes, remark, tone, suggestion] = row;
    const name = (side, numbers) => numbers.map((number) => this.names[side][number]).join(" + ");
    const sign = tone === "bad" ? "✗ " : tone === "warn" ? "▲ " : "";
    const note = suggestion ? `${this.words.suggested} ${suggestion}; ${remark}` : remark;
    const target = right.length ? name(1, right) : this.words.dropped;
    const cells = [name(0, left), target, how === "copy" || how === "drop" ? "" : how,
      times(shapes), sign + note];
    // Letters that a cell has room for, as the style sheet divides the table.
    const { width } = this.list;
    const room = width ? Math.floor((width * (width > 560 ? 0.28 : 0.33) - 18) / 7.3) : Infinity;
    mark(node, {
      "data-key": key, "aria-selected": this.row === key, "aria-rowindex": position + 2,
      class: tone ? "tsnb-w-" + tone : "",
    });
    cells.forEach((text, column) => {
      if (column > 1) put(node.children[column], text);
      else put_name(node.children[column], text, right.length ? cells[1 - column] : null, room);
      mark(node.children[column], { title: text });
    });
  }

  // --- drawing ------------------------------------------------------------------------------

  // What depends on the rows alone, so that typing in the filter need not look at it again.
  arrange() {
    const rows = [...this.rows.values()].sort((a, b) => a[1][0] - b[1][0]);
    this.ordered = rows.map((row) => row[0]);
    this.open = [0, 1].map((side) => {
      const used = new Uint8Array(this.names[side].length);
      for (const row of rows) for (const number of row[1 + side]) used[number] = 1;
      const open = new Set();
      used.forEach((one, number) => { if (!one && !this.absent[side].has(number)) open.add(number); });
      return open;
    });
  }

  refresh() {
    const query = this.query.value.trim().toLowerCase();
    const hit = (side, number) => this.lower[side][number].includes(query);
    const show = this.show.value;
    const keys = query || show !== "all" ? this.ordered.filter((key) => {
      const row = this.rows.get(key);
      if (query && !row[1].some((n) => hit(0, n)) && !row[2].some((n) => hit(1, n))) return false;
      if (show === "attention") return Boolean(row[6]);
      return show !== "changed" || this.is_changed(row);
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
      const count = of(items.length, this.open[side].size);
      put(pool.title, `○ ${this.words.unmatched} ${this.state.labels[side]} (${count})`);
      put(pool.empty, items.length ? "" : this.words[this.open[side].size ? "no_hits" : "none_left"]);
      pool.list.set(items);
    }
    put(this.pairs_title, `${this.words.pairs} (${of(keys.length, this.rows.size)})`);
    put(this.no_pairs, keys.length ? "" : this.words[this.rows.size ? "no_hits" : "no_pairs"]);
    mark(this.table, { "aria-rowcount": keys.length + 1 });
    this.list.set(keys);
    put(this.summary, this.history.summary.join(" · "));
    for (const [button, word] of [[this.undo, "undo"], [this.redo, "redo"]]) {
      const what = this.history[word];
      // Not `disabled`: the button keeps the focus of whoever undoes by keyboard.
      const title = what === null ? this.words.nothing : `${this.words[word]}: ${what}`;
      mark(button, { "aria-disabled": what === null, title });
    }
    this.detail();
  }

  is_changed(row) {
    const same = row[2].length === 1 && this.names[0][row[1][0]] === this.names[1][row[2][0]];
    return !same || (this.state.kind === "weight_map" && row[3] !== "copy");
  }

  draw() {
    for (const pool of this.pools) pool.list.render();
    this.list.render();
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

  // One name more, or one less: several are split or joined in the order in which they are chosen.
  toggle(side, number) {
    const group = this.group[side];
    const others = group.filter((one) => one !== number);
    this.group[side] = others.length < group.length ? others : [...group, number];
    this.chosen[side] = this.group[side].at(-1) ?? null;
    this.holding[side] = this.group[side].length > (this.holding[side] ? 0 : 1);
    this.fits[side] = this.crossing = null;
    this.chose(side);
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
    if (this.several()) this.ask_joint();
    if (number !== null) this.ask("fits", { side: sides[side], number }, (answer) => {
      if (this.chosen[side] !== number) return;
      this.fits[side] = answer;
      this.pools[1 - side].list.render();
      this.detail();
      if (this.crossing === side) this.cross(side, this.pools[1 - side].list);
    });
    this.detail();
  }

  // What would come of the names that are chosen.
  ask_joint(pair = this.group, then = () => this.detail()) {
    const [left, right] = pair.map((one) => [one].flat());
    const key = pair.join(" > ");
    if (!left.length || !right.length || this.joints.has(key)) return;
    this.joints.set(key, this.before.get(key)); // shown until the answer is there
    this.ask("together", { left, right }, (answer) => {
      this.joints.set(key, answer);
      then();
    });
  }

  // How a drop of several fits, in the form of `fit`; asked for where it is not known.
  joint_fit(pair, element) {
    const answer = this.joints.get(pair.join(" > "));
    if (!answer) {
      this.ask_joint(pair, () => {
        if (this.drag && this.over === element) this.hint({ element, pair });
      });
      return undefined;
    }
    const text = times(answer.text).replace("->", "→");
    return answer.ok ? [answer.transforms[0], text].filter(Boolean).join(": ") : "!" + text;
  }

  choose_row(key) {
    this.give_up();
    this.row = key;
    const at = this.list.items.indexOf(key);
    if (at >= 0) this.list.active = at;
    this.learn(key);
    this.draw();
    this.detail();
  }

  // Nothing is chosen in the pools any more.
  give_up() {
    this.crossing = null;
    this.chosen = [null, null];
    this.group = [[], []];
    this.holding = [false, false];
    this.fits = [null, null];
    this.side_before = undefined;
  }

  // What the kernel knows of a row as it is now.
  learn(key) {
    this.about = null;
    this.ask("row", { key }, (answer) => {
      if (this.row !== key) return;
      this.about = answer;
      this.detail();
    });
  }

  detail() {
    const { panel } = this;
    const { activeElement } = this.root.getRootNode();
    const before = this.shown;
    const side = this.row === null && this.side !== undefined && this.chosen[this.side] !== null ? this.side : null;
    const together = this.row === null && this.several();
    const subject = this.row !== null ? "row " + this.row : together ? "together"
      : side !== null ? `name ${side} ${this.chosen[side]}` : "";
    const about = this.row !== null ? this.about : null;
    const same = subject !== "" && subject === before.subject;
    const typed = same ? panel.querySelector("input") : null;
    // Whoever types is not disturbed where there is nothing new.
    const row = this.row !== null ? this.rows.get(this.row) : null;
    if (same && row && row === before.row && about === before.about) return;
    this.shown = { subject, about, side, row };
    const held = panel.contains(activeElement) && (activeElement.dataset.do || true);
    const kept = typed && typed.value !== typed.defaultValue && [typed.value, typed.selectionStart, typed.selectionEnd];
    if (this.row !== null) panel.replaceChildren(...this.row_detail());
    else if (together) panel.replaceChildren(...this.together_detail());
    else if (side !== null) panel.replaceChildren(...this.name_detail(side));
    else if (!panel.querySelector(".tsnb-w-help"))
      panel.replaceChildren(make("p", { class: "tsnb-w-help" }, this.words.help),
        this.state.kind === "pairing" ? "" : make("p", { class: "tsnb-w-help" }, this.words.help_several));
    const field = panel.querySelector("input");
    // What was typed stays, but for what has become so meanwhile.
    if (kept && field && (this.row === null || field.defaultValue === typed.defaultValue)) {
      field.value = kept[0];
      field.setSelectionRange(kept[1], kept[2]);
      if (this.row !== null) this.settle(this.row);
    }
    const again = held && [...panel.querySelectorAll("[data-do]")].find((one) => one.dataset.do === held);
    if (again) again.focus({ preventScroll: true });
    else if (held) this.land(before.side);
  }

  // Where the focus goes when what had it is gone: the next name of a side, or the next row.
  land(side) {
    const pools = this.pools.map((pool) => pool.list);
    const lists = side === null || side === undefined ? [this.list, ...pools] : [pools[side], pools[1 - side], this.list];
    const list = lists.find((one) => one.items.length);
    if (!list) this.undo.focus({ preventScroll: true });
    else if (this.keyboard) list.go(list.active);
    else list.hold();
  }

  name_detail(side) {
    const number = this.chosen[side];
    const answer = this.fits[side];
    const other = this.chosen[1 - side];
    const parts = [make("p", {}, make("b", {}, this.words.closest + " "),
      make("samp", {}, this.names[side][number]))];
    const found = answer ? answer.candidates : [];
    if (answer && !found.length) parts.push(make("p", { class: "tsnb-w-note" }, this.words.no_candidates));
    for (const [candidate, why, fits] of found) {
      const [tone, mark] = TONES[fits];
      parts.push(make("p", { class: "tsnb-w-candidate" },
        this.button("pair_with", () => this.send_pair(...(side ? [candidate, number] : [number, candidate])),
          { "data-do": "c" + candidate, "aria-label": `${this.words.pair_with} ${this.names[1 - side][candidate]}: ${why}` }),
        " ", make("samp", {}, this.names[1 - side][candidate]),
        make("span", { class: tone }, mark + why)));
    }
    const actions = make("p", { class: "tsnb-w-actions" });
    if (other !== null)
      actions.append(this.button("pair_with", () => this.pair(), { class: "tsnb-w-pair", "data-do": "pair" }),
        make("samp", {}, ` ${this.names[0][this.chosen[0]]} → ${this.names[1][this.chosen[1]]} `),
        make("span", {}, this.fit_text(this.fit(1 - side, other)) + " "));
    if (this.state.kind === "pairing" || side === 0) {
      const is_expected = this.history.expected[side].includes(number);
      const word = this.state.kind !== "pairing" ? "drop" : is_expected ? "want" : "expect";
      const ask = () => this.ask("aside", { side: ["left", "right"][side], number }, () => {
        if (this.chosen[side] === null) this.next(side);
      });
      actions.append(this.button(word, ask, { class: "tsnb-w-aside", "data-do": "aside" }));
    }
    parts.push(actions);
    if (this.state.open_target && side === 0) parts.push(this.to_field(number, answer ? answer.former : ""));
    return parts;
  }

  // Several names of a side that are split or joined, in their order.
  together_detail() {
    const { group, words } = this;
    const list = (side) => make("ol", { "aria-label": this.state.labels[side] },
      ...group[side].map((number) => make("li", {}, make("samp", {}, this.names[side][number]),
        make("span", { class: "tsnb-w-shape" }, " " + times(this.state.shapes[this.shape[side][number]])))));
    const parts = [make("p", {}, make("b", {}, words.together)),
      make("div", { class: "tsnb-w-together" }, list(0), make("span", { "aria-hidden": "true" }, "→"), list(1))];
    const answer = this.joints.get(group.join(" > "));
    if (group.some((one) => !one.length)) parts.push(make("p", { class: "tsnb-w-note" }, words.choose_partner));
    if (answer) {
      const text = times(answer.text).replace("->", "→");
      const send = (transform) => () => this.send_pair(...group.map((one) => [...one]), null, transform);
      const actions = make("p", { class: "tsnb-w-actions" });
      if (answer.ok)
        actions.append(this.button("pair_with", send(), { class: "tsnb-w-pair", "data-do": "pair" }),
          make("span", {}, words.by_transform),
          ...answer.transforms.map((one) => make("button", {
            type: "button", class: "tsnb-w-choice", "data-do": "t" + one, onclick: send(one),
            title: answer.words[one],
            "aria-label": `${words.pair_with}: ${one} ${text}`,
          }, one)));
      actions.append(make("span", { class: answer.ok ? "tsnb-w-ok" : "tsnb-w-bad" }, (answer.ok ? "✓ " : "✗ ") + text));
      parts.push(actions);
    }
    parts.push(make("p", { class: "tsnb-w-note" }, words.holding));
    return parts;
  }

  // Where the names of the target are not known, one can be typed.
  to_field(number, former) {
    const { words } = this;
    const send = () => this.ask("name", { left: number, name: field.value }, () => this.next(0));
    const field = make("input", {
      type: "text", class: "tsnb-w-to", value: former, spellcheck: "false", size: 32, "data-do": "to",
      "aria-label": words.target_name, title: words.target_name_why,
      onkeydown: (event) => { if (event.key === "Enter" && !event.repeat) send(); },
    });
    return make("p", { class: "tsnb-w-actions" }, make("label", {}, `${words.target_name} `, field),
      this.button("pair_with", send, { "data-do": "name", "aria-label": `${words.pair_with}: ${words.target_name}` }));
  }

  row_detail() {
    const key = this.row;
    const row = this.rows.get(key);
    const about = this.about;
    const name = (side, numbers) => numbers.map((number) => this.names[side][number]).join(" + ");
    const parts = [make("p", {}, make("samp", {}, name(0, row[1])), " → ",
      make("samp", {}, row[2].length ? name(1, row[2]) : this.words.dropped))];
    const actions = make("p", { class: "tsnb-w-actions" },
      this.button("unpair", () => this.ask("unpair", { key }), { class: "tsnb-w-unpair", "data-do": "unpair" }));
    if (row[7])
      actions.append(this.button("accept", () => this.ask("accept", { key }), { "data-do": "accept" }),
        make("span", { class: "tsnb-w-warn" }, ` ${this.words.suggested} ${row[7]} `));
    if (this.state.kind === "weight_map" && row[2].length) {
      const how = this.how = make("input", {
        type: "text", class: "tsnb-w-how", value: row[3], spellcheck: "false", size: 18,
        "aria-label": this.words.transform, "data-do": "how",
        oninput: () => this.settle(key),
        onkeydown: (event) => { if (event.key === "Enter" && !event.repeat) this.apply(key, how.value); },
      });
      actions.append(make("label", {}, ` ${this.words.transform} `, how),
        this.button("apply", () => this.apply(key, how.value), { class: "tsnb-w-apply", "data-do": "apply" }));
      for (const one of about ? about.transforms : [])
        if (one !== row[3])
          actions.append(make("button", {
            type: "button", class: "tsnb-w-choice", "data-do": "t" + one, title: about.words[one],
            onmouseenter: (event) => this.point(event, key, one),
            onmousemove: (event) => this.point(event, key, one),
            onmouseleave: () => this.settle(key),
            onfocus: () => this.try_out(key, one), onblur: () => this.settle(key),
            onclick: () => this.apply(key, one),
          }, one));
    }
    this.trying = null;
    this.preview = make("p", { class: "tsnb-w-preview" });
    parts.push(actions, this.preview);
    // What the preview says of the row is not said again.
    const said = about && !about.ok ? about.text : "";
    const note = said && row[5].startsWith(said) ? row[5].slice(said.length).replace(/^; /, "") : row[5];
    if (note) parts.push(make("p", { class: "tsnb-w-note" }, note));
    if (about) this.show_preview(about);
    return parts;
  }

  // A choice that comes to lie under a pointer at rest was not pointed at.
  point(event, key, transform) {
    const [x, y] = this.pointer || [];
    if (event.screenX !== x || event.screenY !== y) this.try_out(key, transform);
  }

  try_out(key, transform) {
    if (this.trying === transform) return;
    this.trying = transform;
    this.ask("preview", { key, transform }, (answer) => {
      if (this.row === key && this.trying === transform) this.show_preview(answer);
    });
  }

  // The preview is again of what stands in the field: the row's own transform, or what is typed.
  settle(key) {
    if (this.row !== key || !this.rows.has(key) || !this.how.isConnected) return;
    if (this.how.value.trim() !== this.rows.get(key)[3]) {
      this.try_out(key, this.how.value);
      return;
    }
    this.trying = null;
    if (this.about) this.show_preview(this.about);
  }

  show_preview(answer) {
    const text = times(answer.text).replace("->", "→");
    const said = answer.ok ? (answer.text ? "✓ " + text : "") : "✗ " + answer.text;
    const of = answer.transform && (said || answer.evidence) ? answer.transform + ": " : "";
    this.preview.replaceChildren(
      make("samp", {}, of),
      make("span", { class: answer.ok ? "tsnb-w-ok" : "tsnb-w-bad" }, said),
      answer.evidence ? make("span", {}, `${said ? " · " : ""}${answer.evidence}`) : "");
    this.live.textContent = `${of}${said} ${answer.evidence}`;
  }

  apply(key, transform) {
    this.ask("transform", { key, transform }, (answer) => {
      // Back on the row, where undo and the arrow keys are heard.
      const { activeElement } = this.root.getRootNode();
      if (activeElement === this.how && this.row === key) {
        this.how.value = this.how.defaultValue;
        this.land(null);
        this.detail();
      }
      if (answer.said) this.say(answer.said);
    });
  }

  // --- acting -------------------------------------------------------------------------------

  pair() {
    const [left, right] = this.several() ? this.group.map((one) => [...one]) : this.chosen;
    if (this.asked.has(this.pairing)) return; // the last pair is not made yet
    if (left !== null && right !== null) this.send_pair(left, right);
  }

  send_pair(left, right, key = null, transform = undefined) {
    this.pairing = this.ask("pair", { left, right, key, transform }, () => this.next(0));
  }

  // The next name is ready for whoever works by keyboard.
  next(side) {
    const list = this.pools[side].list;
    if (!this.keyboard || !list.items.length) return;
    this.choose(side, list.items[Math.max(list.active, 0)], true);
  }

  save() {
    this.ask("save", { path: this.path.value, kind: this.kind && this.kind.value ? this.kind.value : null });
  }

  pressed(event) {
    const command = event.ctrlKey || event.metaKey;
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
    if (side >= 0) this.pressed_in_pool(event, side);
    else if (this.list.view.contains(event.target)) this.pressed_in_rows(event);
    else if (event.key === "Escape" && this.panel.contains(event.target)) this.escape();
  }

  pressed_in_pool(event, side) {
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
      else if (this.chosen[1 - side] !== null && this.side_before === 1 - side) this.pair();
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
    this.give_up();
    this.row = null;
    this.draw();
    this.detail();
  }

  // Space takes a name, after which the arrow keys only move; on a name that was taken it lets go.
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

  // To the other pool, onto the closest name that fits what is chosen here.
  cross(side, other) {
    if (!other.items.length) return;
    if (this.chosen[side] === null) this.choose(side, this.pools[side].list.item);
    // Which name is the closest is for the kernel to say: whoever is faster waits for it.
    this.crossing = this.fits[side] ? null : side;
    if (this.crossing !== null) return;
    this.side_before = side;
    if (this.holding[1 - side]) { // what is chosen there stays
      other.go(other.active);
      return;
    }
    const found = this.fits[side].candidates;
    const near = found.map(([number]) => other.items.indexOf(number)).filter((at) => at >= 0);
    other.go(near.length ? near[0] : Math.max(other.active, 0));
    this.choose(1 - side, other.item);
  }

  pressed_in_rows(event) {
    if (event.key in STEPS) {
      event.preventDefault();
      this.list.go(this.list.active + STEPS[event.key]);
    } else if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      if (this.list.item !== undefined) this.choose_row(this.list.item);
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
    if (this.list.item === undefined) return;
    this.unpairing = this.ask("unpair", { key: this.list.item }, () => {
      if (this.again < 1) return;
      this.again -= 1;
      this.unpair();
    });
  }
}

export default { render };
