// The pairs of an editor, one row each.

import { make, mark, put } from "./dom.js";
import { times } from "./names.js";
import { brief } from "./pairs.js";
import { ROW, putName } from "./row_parts.js";
import { VirtualList } from "./virtual_list.js";

const CELLS = ["tsnb-w-name", "tsnb-w-name", "", "", "tsnb-w-note"];
const WIDTHS = ["26%", "26%", "17%", "13%", "18%"];

export class PairTable {
  constructor(editor, height) {
    this.editor = editor;
    const { words, state } = editor;
    const how = state.kind === "pairing" ? words.method : words.transform;
    this.heads = [...state.labels, how, words.shape, words.remark].map((text) => make("th", { scope: "col" }, text));
    this.body = make("tbody", {});
    this.grid = make("table", { class: "tsnb-w-rows", role: "grid", "aria-label": words.pairs },
      make("colgroup", {}, ...WIDTHS.map((width) => make("col", { style: `width:${width}` }))),
      make("thead", {}, make("tr", { "aria-rowindex": 1 }, ...this.heads)), this.body);
    this.view = make("div", {
      class: "tsnb-w-view", style: `height:${height}px`, role: "group", "aria-label": words.pairs,
    }, this.grid);
    this.title = make("h4", {});
    this.empty = make("p", { class: "tsnb-w-none" });
    this.section = make("section", { class: "tsnb-w-pairs" }, this.title, this.view, this.empty);
    const spacer = () => make("tr", { role: "presentation", class: "tsnb-w-space" });
    this.list = new VirtualList({
      ...ROW, view: this.view, body: this.body, spacers: [spacer(), spacer()],
      room: () => height - ROW.pitch,
      blank: () => make("tr", {}, ...CELLS.map((kind) => make("td", { class: kind }))),
      fill: (node, key, position) => this.fill(node, editor.rows.get(key), position),
    });
    this.listen();
  }

  listen() {
    const { body, editor, list } = this;
    body.addEventListener("click", (event) => {
      const item = event.target.closest("tr[data-key]");
      if (!item) return;
      editor.chooseRow(item.dataset.key);
      list.go(list.items.indexOf(item.dataset.key));
    });
    editor.drag.onto(body, (target, held) => {
      const element = target.closest("tr[data-key]");
      if (!element || held.group) return null;
      const row = editor.rows.get(element.dataset.key);
      const other = row[held.side ? 1 : 2];
      if (other.length !== 1) return null;
      const pair = held.side ? [other[0], held.number] : [held.number, other[0]];
      return { element, pair, key: row[0] };
    });
  }

  fill(node, row, position) {
    const { words } = this.editor;
    const [key, left, right, how, shapes, remark, tone, suggestion] = row;
    const sign = { bad: "✗ ", warn: "▲ " }[tone] || "";
    const note = suggestion ? `${words.suggested} ${suggestion}; ${remark}` : remark;
    const target = right.length ? this.editor.namesOf(1, right) : words.dropped;
    const cells = [this.editor.namesOf(0, left), target, how === "copy" || how === "drop" ? "" : brief(how),
      times(shapes), sign + note];
    // Letters that a cell has room for, as the style sheet divides the table.
    const { width } = this.list;
    const room = width ? Math.floor((width * (width > 560 ? 0.26 : 0.33) - 18) / 7.3) : Infinity;
    mark(node, {
      "data-key": key, "aria-selected": this.editor.row === key, "aria-rowindex": position + 2,
      class: tone ? `tsnb-w-${tone}` : "",
    });
    cells.forEach((text, column) => {
      if (column > 1) put(node.children[column], text);
      else putName(node.children[column], text, right.length ? cells[1 - column] : null, room);
      mark(node.children[column], { title: text });
    });
  }
}
