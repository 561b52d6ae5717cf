// The panel below the pairs of an editor: what it says of the names or the row that are chosen.

import { focusedIn, make } from "./dom.js";
import { times } from "./names.js";
import { brief, readable, restOf } from "./pairs.js";

// How well a name fits, as the kernel says it: the class, and what stands in front of the reason.
const TONES = { fits: ["tsnb-w-ok", " ✓ "], open: ["tsnb-w-note", " "], not: ["tsnb-w-warn", " ▲ "] };

export class EditorPanel {
  constructor(editor) {
    this.editor = editor;
    this.root = make("div", { class: "tsnb-w-panel" });
    this.shown = {}; // what it speaks of
    this.about = null; // what the kernel knows of the chosen row
  }

  /** Asks what the kernel knows of a row as it is now. */
  learn(key) {
    const { editor } = this;
    this.about = null;
    editor.ask("row", { key }, (answer) => {
      if (editor.row !== key) return;
      this.about = answer;
      this.show();
    });
  }

  show() {
    const { editor, root } = this;
    const before = this.shown;
    const row = editor.row === null ? null : editor.rows.get(editor.row);
    const about = editor.row === null ? null : this.about;
    const several = editor.row === null && editor.several();
    const side = editor.row === null ? editor.chosenSide() : null;
    const subject = editor.row !== null ? `row ${editor.row}` : several ? "together"
      : side !== null ? `name ${side} ${editor.chosen[side]}` : "";
    const same = subject !== "" && subject === before.subject;
    // Whoever types is not disturbed where there is nothing new.
    if (same && row && row === before.row && about === before.about) return;
    this.shown = { subject, about, side, row };
    const focused = focusedIn(editor.root);
    const held = root.contains(focused) && (focused.dataset.do || true);
    const typed = same ? root.querySelector("input") : null;
    const kept = typed && typed.value !== typed.defaultValue && [typed.value, typed.selectionStart, typed.selectionEnd];
    if (row) root.replaceChildren(...this.ofRow());
    else if (several) root.replaceChildren(...this.ofSeveral());
    else if (side !== null) root.replaceChildren(...this.ofName(side));
    else if (!root.querySelector(".tsnb-w-help")) root.replaceChildren(...this.help());
    const field = root.querySelector("input");
    // What was typed stays, but for what has become so meanwhile.
    if (kept && field && (!row || field.defaultValue === typed.defaultValue)) {
      field.value = kept[0];
      field.setSelectionRange(kept[1], kept[2]);
      if (row) this.settle(editor.row);
    }
    const again = held && [...root.querySelectorAll("[data-do]")].find((one) => one.dataset.do === held);
    if (again) again.focus({ preventScroll: true });
    else if (held) this.land(before.side);
  }

  /** Where the focus goes when what had it is gone: the next name of a side, or the next row. */
  land(side) {
    const { editor } = this;
    const pools = editor.pools.map((pool) => pool.list);
    const rows = editor.table.list;
    const lists = side === null || side === undefined ? [rows, ...pools] : [pools[side], pools[1 - side], rows];
    const list = lists.find((one) => one.items.length);
    if (!list) editor.undo.focus({ preventScroll: true });
    else if (editor.keyboard) list.go(list.active);
    else list.hold();
  }

  help() {
    const { state, words } = this.editor;
    const said = state.kind === "pairing" ? [words.help] : [words.help, words.help_several];
    return said.map((text) => make("p", { class: "tsnb-w-help" }, text));
  }

  ofName(side) {
    const { editor } = this;
    const { state, words } = editor;
    const number = editor.chosen[side];
    const answer = editor.fits[side];
    const name = make("samp", {}, editor.names[side][number]);
    const parts = [make("p", {}, make("b", {}, `${words.closest} `), name)];
    const found = answer ? answer.candidates : [];
    if (answer && !found.length) parts.push(make("p", { class: "tsnb-w-note" }, words.no_candidates));
    parts.push(...found.map((candidate) => this.candidate(side, number, candidate)), this.nameActions(side, number));
    if (state.open_target && side === 0) parts.push(this.targetField(number, answer ? answer.former : ""));
    return parts;
  }

  /** A name of the other side that may be the partner of one, with why. */
  candidate(side, number, [other, why, fits]) {
    const { editor } = this;
    const word = editor.words.pair_with;
    const name = editor.names[1 - side][other];
    const [tone, sign] = TONES[fits];
    const pair = () => editor.sendPair(...(side ? [other, number] : [number, other]));
    const button = editor.button("pair_with", pair, { "data-do": `c${other}`, "aria-label": `${word} ${name}: ${why}` });
    const said = make("span", { class: tone }, sign + why);
    return make("p", { class: "tsnb-w-candidate" }, button, " ", make("samp", {}, name), said);
  }

  nameActions(side, number) {
    const { editor } = this;
    const { chosen, names } = editor;
    const isPairing = editor.state.kind === "pairing";
    const actions = make("p", { class: "tsnb-w-actions" });
    if (chosen[1 - side] !== null)
      actions.append(editor.button("pair_with", () => editor.pair(), { class: "tsnb-w-pair", "data-do": "pair" }),
        make("samp", {}, ` ${names[0][chosen[0]]} → ${names[1][chosen[1]]} `),
        make("span", {}, `${editor.fitText(editor.fit(1 - side, chosen[1 - side]))} `));
    if (isPairing || side === 0) {
      const isExpected = editor.history.expected[side].includes(number);
      const word = !isPairing ? "drop" : isExpected ? "want" : "expect";
      const ask = () => editor.ask("aside", { side: ["left", "right"][side], number }, () => {
        if (editor.chosen[side] === null) editor.next(side);
      });
      actions.append(editor.button(word, ask, { class: "tsnb-w-aside", "data-do": "aside" }));
    }
    return actions;
  }

  /** Several names of a side that are split or joined, in their order. */
  ofSeveral() {
    const { editor } = this;
    const { group, names, shape, state, words } = editor;
    const list = (side) => make("ol", { "aria-label": state.labels[side] },
      ...group[side].map((number) => make("li", {}, make("samp", {}, names[side][number]),
        make("span", { class: "tsnb-w-shape" }, ` ${times(state.shapes[shape[side][number]])}`))));
    const parts = [make("p", {}, make("b", {}, words.together)),
      make("div", { class: "tsnb-w-together" }, list(0), make("span", { "aria-hidden": "true" }, "→"), list(1))];
    const answer = editor.joints.get(group.join(" > "));
    if (group.some((one) => !one.length)) parts.push(make("p", { class: "tsnb-w-note" }, words.choose_partner));
    if (answer) parts.push(this.severalActions(answer));
    parts.push(make("p", { class: "tsnb-w-note" }, words.holding));
    return parts;
  }

  severalActions(answer) {
    const { editor } = this;
    const { group, words } = editor;
    const text = readable(answer.text);
    const send = (transform) => () => editor.sendPair(...group.map((one) => [...one]), null, transform);
    const actions = make("p", { class: "tsnb-w-actions" });
    if (answer.ok)
      actions.append(editor.button("pair_with", send(), { class: "tsnb-w-pair", "data-do": "pair" }),
        make("span", {}, words.by_transform),
        ...answer.transforms.map((one) =>
          choice(one, { onclick: send(one), title: answer.words[one], "aria-label": `${words.pair_with}: ${brief(one)} ${text}` })));
    const said = (answer.ok ? "✓ " : "✗ ") + text;
    actions.append(make("span", { class: answer.ok ? "tsnb-w-ok" : "tsnb-w-bad" }, said));
    return actions;
  }

  /** Where the names of the target are not known, one can be typed. */
  targetField(number, former) {
    const { editor } = this;
    const { words } = editor;
    const send = () => editor.ask("name", { left: number, name: field.value }, () => editor.next(0));
    const field = make("input", {
      type: "text", class: "tsnb-w-to", value: former, spellcheck: "false", size: 32, "data-do": "to",
      "aria-label": words.target_name, title: words.target_name_why, onkeydown: onEnter(send),
    });
    const label = `${words.pair_with}: ${words.target_name}`;
    return make("p", { class: "tsnb-w-actions" }, make("label", {}, `${words.target_name} `, field),
      editor.button("pair_with", send, { "data-do": "name", "aria-label": label }));
  }

  ofRow() {
    const { about, editor } = this;
    const { words } = editor;
    const key = editor.row;
    const [, left, right, , , remark, , suggestion] = editor.rows.get(key);
    const target = right.length ? editor.namesOf(1, right) : words.dropped;
    const unpair = { class: "tsnb-w-unpair", "data-do": "unpair" };
    const actions = make("p", { class: "tsnb-w-actions" },
      editor.button("unpair", () => editor.ask("unpair", { key }), unpair));
    if (suggestion)
      actions.append(editor.button("accept", () => editor.ask("accept", { key }), { "data-do": "accept" }),
        make("span", { class: "tsnb-w-warn" }, ` ${words.suggested} ${suggestion} `));
    if (editor.state.kind === "weight_map" && right.length) actions.append(...this.transforms(key));
    this.trying = null;
    this.preview = make("p", { class: "tsnb-w-preview" });
    if (about) this.showPreview(about);
    // What the preview says of the row is not said again.
    const note = restOf(remark, about && !about.ok ? about.text : "");
    return [
      make("p", {}, make("samp", {}, editor.namesOf(0, left)), " → ", make("samp", {}, target)),
      actions, this.preview, note ? make("p", { class: "tsnb-w-note" }, note) : "",
    ];
  }

  /** A field for the transform of a row, and the transforms that one may choose. */
  transforms(key) {
    const { about, editor } = this;
    const [, , , transform] = editor.rows.get(key);
    const word = editor.words.transform;
    const apply = () => this.apply(key, this.how.value);
    this.how = make("input", {
      type: "text", class: "tsnb-w-how", value: transform, spellcheck: "false", size: 30, "aria-label": word,
      "data-do": "how", oninput: () => this.settle(key), onkeydown: onEnter(apply),
    });
    const others = (about ? about.transforms : []).filter((one) => one !== transform);
    return [
      make("label", {}, ` ${word} `, this.how),
      editor.button("apply", apply, { class: "tsnb-w-apply", "data-do": "apply" }),
      ...others.map((one) => choice(one, {
        onclick: () => this.apply(key, one), title: about.words[one],
        onmouseenter: (event) => this.point(event, key, one),
        onmousemove: (event) => this.point(event, key, one),
        onmouseleave: () => this.settle(key),
        onfocus: () => this.tryOut(key, one), onblur: () => this.settle(key),
      })),
    ];
  }

  /** A choice that comes to lie under a pointer at rest was not pointed at. */
  point(event, key, transform) {
    const [x, y] = this.editor.pointer || [];
    if (event.screenX !== x || event.screenY !== y) this.tryOut(key, transform);
  }

  tryOut(key, transform) {
    if (this.trying === transform) return;
    this.trying = transform;
    this.editor.ask("preview", { key, transform }, (answer) => {
      if (this.editor.row === key && this.trying === transform) this.showPreview(answer);
    });
  }

  /** The preview is again of what stands in the field: the row's own transform, or what is typed. */
  settle(key) {
    const { row, rows } = this.editor;
    if (row !== key || !rows.has(key) || !this.how.isConnected) return;
    if (this.how.value.trim() !== rows.get(key)[3]) {
      this.tryOut(key, this.how.value);
      return;
    }
    this.trying = null;
    if (this.about) this.showPreview(this.about);
  }

  showPreview(answer) {
    const text = readable(answer.text);
    const said = answer.ok ? (answer.text ? `✓ ${text}` : "") : `✗ ${answer.text}`;
    const of = answer.transform && (said || answer.evidence) ? `${brief(answer.transform)}: ` : "";
    this.preview.replaceChildren(
      make("samp", {}, of),
      make("span", { class: answer.ok ? "tsnb-w-ok" : "tsnb-w-bad" }, said),
      answer.evidence ? make("span", {}, `${said ? " · " : ""}${answer.evidence}`) : "");
    this.editor.live.textContent = `${of}${said} ${answer.evidence}`;
  }

  apply(key, transform) {
    const { editor } = this;
    editor.ask("transform", { key, transform }, (answer) => {
      // Back on the row, where undo and the arrow keys are heard.
      if (focusedIn(editor.root) === this.how && editor.row === key) {
        this.how.value = this.how.defaultValue;
        this.land(null);
        this.show();
      }
      if (answer.said) editor.say(answer.said);
    });
  }
}

/** A button with a transform to choose. */
function choice(transform, more) {
  return make("button", { type: "button", class: "tsnb-w-choice", "data-do": `t${transform}`, ...more }, brief(transform));
}

/** What a field does when Enter is pressed in it, once however long it is held. */
export function onEnter(act) {
  return (event) => {
    if (event.key === "Enter" && !event.repeat) act();
  };
}
