// Answers of the pages' rules, to be compared with those of Python: test_page_in_node.py asks in JSON on stdin,
// [rule, ...arguments] of each case.
import { readFileSync } from "node:fs";

import { figure, scientific, shortest } from "../../../troubleshooter_nb/widgets/page/numbers.js";
import { brief } from "../../../troubleshooter_nb/widgets/page/pairs.js";
import { Table } from "../../../troubleshooter_nb/widgets/page/table.js";
import { tileAt, tileOf, unravel } from "../../../troubleshooter_nb/widgets/page/tiles.js";
import { boundsOf, withParts } from "../../../troubleshooter_nb/widgets/page/view.js";

const bytes = (text) => new DataView(Uint8Array.from(Buffer.from(text, "base64")).buffer);
const number = (text) => bytes(text).getFloat64(0, true); // JSON has no NaN, and no -0 in some writers
let table = null;

const RULES = {
  table: (described, buffers) => {
    table = new Table(described, buffers.map(bytes));
    return table.size;
  },
  shown: (view) => table.shown(view),
  shortest: (value, bits) => shortest(number(value), bits),
  scientific: (value) => scientific(number(value)),
  figure: (format, value) => figure(format, number(value)),
  brief,
  bounds: (low, high) => boundsOf(number(low), number(high)),
  with_parts: withParts,
  unravel,
  tile_of: tileOf,
  tile_at: tileAt,
};

const asked = JSON.parse(readFileSync(0, "utf-8"));
const answered = asked.map(([rule, ...given]) => RULES[rule](...given));
process.stdout.write(JSON.stringify(answered));
