// A table whose rows keep their identity over refreshes, with pages of the server's making.

import { count } from "./format.js";
import { Button, Status, h } from "./kit.js";
import { rowKey } from "./state.js";

const { React, ChakraUI: Chakra = {} } = globalThis;
const { memo } = React;
const Native = Chakra.Table?.Root ? Chakra.Table : null;
/** Cursors lead forward only: the cursor of the page before, by list and cursor. An address that is opened has none. */
const BEFORE = new Map();

/**
 * Rows under column heads.
 *
 * @param columns `{id, title, cell(row, context), align, width}`; their functions must not depend on anything else. Without
 *   a cell the row's field of that id is shown.
 * @param context what cells need besides the row (the clock above all); a row is drawn anew when it changes.
 */
export function Table({ label, columns, rows, context, stale = false }) {
  const head = columns.map((column) => {
    const props = { key: column.id, scope: "col", className: kindOf(column), style: { width: column.width } };
    const content = column.title || h("span", { className: "ha-hidden" }, "Actions");
    return Native ? h(Native.ColumnHeader, props, content) : h("th", props, content);
  });
  const body = rows.map((row) => h(Row, { key: rowKey(row), row, columns, context }));
  const props = { "aria-label": label, className: "ha-table", "aria-busy": stale || undefined };
  return h("div", { className: `ha-scroll${stale ? " ha-stale" : ""}`, tabIndex: 0, role: "region", "aria-label": `${label}, scrolls` },
    Native
      ? h(Native.Root, { size: "sm", ...props }, h(Native.Header, null, h(Native.Row, null, head)), h(Native.Body, null, body))
      : h("table", props, h("thead", null, h("tr", null, head)), h("tbody", null, body)));
}

/** Numbers stand at the right; actions stay in sight where the rest scrolls. */
function kindOf(column) {
  return column.id === "act" ? "ha-act" : column.align === "end" ? "ha-end" : undefined;
}

const Row = memo(function Row({ row, columns, context }) {
  const cells = columns.map((column) => {
    const props = { key: column.id, className: kindOf(column) };
    const content = column.cell ? column.cell(row, context) : row[column.id] ?? "";
    return Native ? h(Native.Cell, props, content) : h("td", props, content);
  });
  return Native ? h(Native.Row, { "data-row": rowKey(row) }, cells) : h("tr", { "data-row": rowKey(row) }, cells);
});

/**
 * A list of the server: its states, its rows, its pages.
 *
 * @param filters `[values, change]` of useFilters; the page's cursor is one of them.
 */
export function List({ label, state, columns, context, empty, filters, noun }) {
  const [values, change] = filters ?? [{ cursor: "" }, () => {}];
  const rows = state.data?.items ?? [];
  const known = BEFORE.has(`${label} ${values.cursor}`);
  let page = 1;
  for (let at = values.cursor; BEFORE.has(`${label} ${at}`); at = BEFORE.get(`${label} ${at}`)) page += 1;
  const forward = () => { BEFORE.set(`${label} ${state.data.next}`, values.cursor); change({ cursor: state.data.next }); };
  const back = () => change({ cursor: BEFORE.get(`${label} ${values.cursor}`) ?? "" });
  const total = state.data?.total;
  return h(React.Fragment, null,
    h(Status, { state, empty, isEmpty: rows.length === 0 }),
    rows.length > 0 && h(Table, { label, columns, rows, context, stale: state.stale || (state.error !== null) }),
    (values.cursor || state.data?.next) && h("nav", { className: "ha-pages", "aria-label": `Pages of ${label}` },
      h(Button, { disabled: !values.cursor || state.stale, onClick: back }, values.cursor && !known ? "First page" : "Previous"),
      h(Button, { disabled: !state.data?.next || state.stale, onClick: forward }, "Next"),
      h("span", { className: "ha-muted" }, total !== null && total !== undefined
        ? `${count(rows.length)} of ${count(total)} ${noun}` : known || !values.cursor ? `Page ${page}` : "")),
    !values.cursor && !state.data?.next && rows.length > 1 && h("p", { className: "ha-muted ha-total" }, `${count(rows.length)} ${noun}`));
}
