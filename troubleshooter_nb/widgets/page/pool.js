// The unmatched names of one side of an editor.

import { isCommand, make, mark, put } from "./dom.js";
import { times } from "./names.js";
import { ROW, putName } from "./row_parts.js";
import { VirtualList } from "./virtual_list.js";

const HEIGHT = 6 * ROW.pitch;

export class Pool {
  constructor(editor, side) {
    this.editor = editor;
    this.side = side;
    this.title = make("h4", {});
    this.body = make("ul", { class: "tsnb-w-list", role: "listbox", "aria-multiselectable": true });
    this.view = make("div", { class: "tsnb-w-view", style: `height:${HEIGHT}px`, role: "group" }, this.body);
    this.empty = make("p", { class: "tsnb-w-none" });
    const section = { class: `tsnb-w-pool tsnb-w-side${side}` };
    this.section = make("section", section, this.title, this.view, this.empty);
    const spacer = () => make("li", { role: "presentation", class: "tsnb-w-space" });
    this.list = new VirtualList({
      ...ROW, view: this.view, body: this.body, spacers: [spacer(), spacer()], room: () => HEIGHT,
      blank: () => this.blank(),
      fill: (node, number, position) => this.fill(node, number, position),
    });
    this.listen();
  }

  listen() {
    const { body, editor, list, side } = this;
    const numberOf = (event) => {
      const item = event.target.closest("[data-number]");
      return item ? Number(item.dataset.number) : null;
    };
    body.addEventListener("mousedown", (event) => {
      const number = numberOf(event);
      // One of several may be dragged with the others: it is chosen alone when it was not.
      const held = editor.group[side].length > 1 && editor.group[side].includes(number);
      if (number !== null && !isCommand(event) && !held) editor.choose(side, number, false);
    });
    body.addEventListener("click", (event) => {
      const number = numberOf(event);
      if (number === null) return;
      if (isCommand(event)) editor.toggle(side, number);
      else if (editor.group[side].length > 1) editor.choose(side, number);
      list.go(list.items.indexOf(number));
    });
    body.addEventListener("dblclick", (event) => { if (!isCommand(event)) editor.pair(); });
    body.addEventListener("dragstart", (event) => {
      const number = numberOf(event);
      if (number !== null) editor.drag.start(event, side, number);
    });
    editor.drag.onto(body, (target, held) => {
      const element = target.closest("[data-number]");
      if (!element || held.side === side) return null;
      const number = Number(element.dataset.number);
      const group = editor.group[side];
      const here = group.length > 1 && group.includes(number) ? [...group] : number;
      const there = held.group || held.number;
      return { element, pair: side ? [there, here] : [here, there] };
    });
  }

  blank() {
    return make("li", { role: "option", draggable: "true" },
      make("span", { class: "tsnb-w-name" }),
      make("span", { class: "tsnb-w-tag tsnb-w-nth" }),
      make("span", { class: "tsnb-w-tag" }, this.editor.words.expected),
      make("span", { class: "tsnb-w-shape" }),
      make("span", { class: "tsnb-w-why" }));
  }

  fill(node, number, position) {
    const { editor, side } = this;
    const fit = editor.fit(side, number);
    const name = editor.names[side][number];
    const nth = editor.group[side].indexOf(number);
    const tone = fit === undefined || fit === "?" ? "" : fit[0] === "!" ? " tsnb-w-misfit" : " tsnb-w-fit";
    mark(node, {
      "data-number": number, title: name, "aria-selected": nth >= 0,
      "aria-setsize": this.list.items.length, "aria-posinset": position + 1, class: `tsnb-w-item${tone}`,
    });
    const [called, place, tag, shape, why] = node.children;
    putName(called, name);
    place.hidden = editor.group[side].length < 2 || nth < 0;
    put(place, place.hidden ? "" : String(nth + 1));
    tag.hidden = !editor.history.expected[side].includes(number);
    put(shape, times(editor.state.shapes[editor.shape[side][number]]));
    put(why, editor.fitText(fit));
  }
}
