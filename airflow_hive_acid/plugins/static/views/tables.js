// Tables: how many files and deltas each has; of one of them its partitions, its history and why it is not compacted.

import { under } from "../api.js";
import { bytes, count, percent } from "../format.js";
import { useClock, useData, useFilters, usePage } from "../hooks.js";
import { Badge, Button, Facts, ObjectLink, PageLink, Section, Select, Status, TextField, Time, h, muted, timed } from "../kit.js";
import { viewQuery } from "../state.js";
import { List, Table } from "../table.js";
import { NUMBERS, SIZES, TimeChart } from "./charts.js";
import { Cleaning } from "./compactions.js";
import { Act, COMPACTION_COLUMNS, CompactionLink, DecisionLine, StateBadge, compactQuestion, words } from "./shared.js";
import { Back } from "./transactions.js";

const { React } = globalThis;
const { useMemo, useState } = React;
const DEFAULTS = { view: "tables", database: "", table: "", partition: "", name: "", transactional: "", order: "name", hours: "720" };

const SIZE_COLUMNS = [
  { id: "files", title: "Files", align: "end", cell: (row) => count(row.files) },
  { id: "bytes", title: "Size", align: "end", cell: (row) => bytes(row.bytes) },
  { id: "deltas", title: "Deltas", align: "end", cell: (row) => count(row.deltas) },
  { id: "deletes", title: "Delete deltas", align: "end", cell: (row) => count(row.delete_deltas) },
  { id: "ratio", title: "Delete ratio", align: "end", cell: (row) => h(Ratio, { share: row.delete_ratio }) },
  timed("measured", "Measured"),
];
const COLUMNS = [
  { id: "object", title: "Table", cell: (row) => h(ObjectLink, { row }) },
  { id: "kind", title: "ACID", cell: (row) => (row.transactional === "no"
    ? h(Badge, { title: "not transactional" }, words(row.kind))
    : h(Badge, { tone: "info", title: row.kind }, words(row.transactional))) },
  ...SIZE_COLUMNS,
  { id: "last", title: "Last compaction", cell: (row, { clock }) => (row.last_compaction
    ? h("span", { className: "ha-nowrap" }, h(CompactionLink, { id: row.last_compaction.id }), ` ${words(row.last_compaction.type)} `,
      h(StateBadge, { state: row.last_compaction.state }), " ", row.last_compaction.ended && h(Time, { at: row.last_compaction.ended, clock }))
    : muted("never")) },
];

function Ratio({ share }) {
  return h("span", { className: share !== null && share >= 0.1 ? "ha-warn" : undefined, title: "Bytes of delete deltas in all bytes" }, percent(share));
}

export function Tables() {
  const [values, change] = useFilters(DEFAULTS);
  return values.database && values.table ? h(TablePage, { values, change }) : h(TableList, { values, change });
}

function TableList({ values, change }) {
  const { connection } = usePage();
  const { database, name, transactional, order, cursor } = values;
  const found = useData(under(connection, "tables"), { database, name, transactional, order, cursor }, { interval: 15000 });
  const clock = useClock(found);
  const context = useMemo(() => ({ clock }), [clock]);
  return h(React.Fragment, null,
    h("div", { className: "ha-filters", role: "search", "aria-label": "Filters" },
      h(TextField, { label: "Name", value: name, onChange: (value) => change({ name: value }, true), width: 200 }),
      h(TextField, { label: "Database", value: database, onChange: (value) => change({ database: value }, true) }),
      h(Select, { label: "ACID", value: transactional, onChange: (value) => change({ transactional: value }), options: [["", "all tables"], ["true", "transactional"], ["false", "others"]] }),
      h(Select, { label: "Order", value: order, onChange: (value) => change({ order: value }),
        options: [["name", "by name"], ["deltas", "most deltas first"], ["delete_ratio", "most deletes first"], ["bytes", "largest first"]] })),
    h(List, { label: "Tables", state: found, columns: COLUMNS, context, filters: [values, change], noun: "tables",
      empty: database || name || transactional ? "No table fits these filters." : "The metastore has no tables yet." }));
}

function TablePage({ values, change }) {
  const { connection } = usePage();
  const { database, table, partition, hours } = values;
  const state = useData(under(connection, "tables/detail"), { database, table });
  const clock = useClock(state);
  const data = state.data, row = data?.row;
  const context = useMemo(() => ({ clock, connection, reload: state.reload }), [clock, connection, state.reload]);
  const question = compactQuestion(connection, database, table, row?.partitioned ? partition || null : undefined);
  return h(React.Fragment, null,
    h(Back, { view: "tables" }, "All tables"),
    h(Status, { state, isEmpty: false }),
    row && h(React.Fragment, null,
      h(Section, { title: row.object, aside: h(Act, { allowed: row.transactional !== "no", label: "Request compaction", kind: "plain", question, onDone: state.reload }) },
        h(Facts, { pairs: [
          ["Kind", words(row.kind)], ["ACID", words(row.transactional)], ["Files", count(row.files)], ["Size", bytes(row.bytes)], ["Deltas", count(row.deltas)],
          ["Delete deltas", count(row.delete_deltas)], ["Delete ratio", h(Ratio, { share: row.delete_ratio })], ["Measured", h(Time, { at: row.measured, clock })],
          ["Owner", row.owner], ["Location", data.location && h("code", { className: "ha-code" }, data.location)], ...Object.entries(data.properties),
        ] })),
      h(Why, { key: `${database}.${table}/${partition}`, database, table, partition, partitioned: row.partitioned, clock }),
      row.partitioned && h(Partitions, { values, change }),
      h(History, { database, table, partition: row.partitioned ? partition : "", hours, change }),
      h(Section, { title: "Compactions", aside: h(PageLink, { to: viewQuery("compactions", connection, { database, table }) }, "All") }, data.requests.length
        ? h(Table, { label: "Compactions", columns: COMPACTION_COLUMNS.filter((one) => one.id !== "object"), rows: data.requests, context })
        : h("p", { className: "ha-empty" }, "It was never compacted."))));
}

/** Asked for, because it lists files. */
function Why({ database, table, partition, partitioned, clock }) {
  const { connection } = usePage();
  const [asked, setAsked] = useState(false);
  const state = useData(asked ? under(connection, "tables/explain") : null, { database, table, partition }, { interval: 0 });
  const ready = !partitioned || partition;
  const data = state.data;
  return h(Section, { title: "Why is this not compacted?", aside: asked && h(Button, { onClick: state.reload, busy: state.loading }, "Look again") },
    !ready && h("p", { className: "ha-muted" }, "Choose a partition below."),
    ready && !asked && h(Button, { onClick: () => setAsked(true) }, partition ? `Explain ${partition}` : "Explain"),
    asked && h(Status, { state, isEmpty: false }),
    data && h(React.Fragment, null,
      h(DecisionLine, { decision: data.decision, clock }),
      data.before.length > 0 && h("details", null, h("summary", null, `Decisions before (${data.before.length})`), data.before.map((one, i) => h(DecisionLine, { key: i, decision: one, clock }))),
      h(Cleaning, { notes: data.cleaning, title: "Waiting to be cleaned", clock }),
      h(Cleaning, { notes: data.cleaned, title: "Cleaned before", clock })));
}

function Partitions({ values, change }) {
  const { connection } = usePage();
  const { database, table, partition, name, cursor } = values;
  const found = useData(under(connection, "tables/partitions"), { database, table, name, cursor }, { interval: 15000 });
  const clock = useClock(found);
  const columns = useMemo(() => [
    { id: "partition", title: "Partition", cell: (row, { chosen }) => h(PageLink, {
      to: viewQuery("tables", connection, { database, table, partition: row.partition }), "aria-current": row.partition === chosen ? "true" : undefined,
    }, row.partition) },
    ...SIZE_COLUMNS,
    { id: "decision", title: "Last decision", cell: (row) => (row.decision ? h("span", { className: "ha-clip", title: row.decision.reason }, row.decision.kind) : "–") },
  ], [connection, database, table]);
  const context = useMemo(() => ({ clock, chosen: partition }), [clock, partition]);
  return h(Section, { title: "Partitions", aside: h(TextField, { label: "Partition name", value: name, onChange: (value) => change({ name: value }, true), width: 180 }) },
    h(List, { label: "Partitions", state: found, columns, context, filters: [values, change], noun: "partitions", empty: name ? "No partition has this in its name." : "It has no partitions." }));
}

function History({ database, table, partition, hours, change }) {
  const { connection } = usePage();
  const found = useData(under(connection, "tables/series"), { database, table, partition, hours }, { interval: 30000 });
  // The server counts delete deltas among the deltas; layers must not.
  const points = useMemo(() => (found.data?.points ?? []).map((one) => ({ ...one, insert_bytes: one.delta_bytes - one.delete_bytes })), [found.data]);
  const marks = (found.data?.compactions ?? []).map((one) => ({ time: one.ended, text: `Compaction ${one.id}: ${words(one.type)}, ${one.state}` }));
  return h(Section, { title: `History${partition ? ` of ${partition}` : ""}`, aside: h(Select, { label: "Time", value: hours, onChange: (value) => change({ hours: value }),
    options: [["24", "last day"], ["168", "last week"], ["720", "last 30 days"], ["2160", "last 90 days"]] }) },
    h(Status, { state: found, isEmpty: points.length === 0, empty: "It was not measured in this time; the Initiator measures what it looks at." }),
    points.length > 0 && h("div", { className: "ha-columns" },
      h(TimeChart, { label: "Deltas", points, layers: NUMBERS, format: count, marks }),
      h(TimeChart, { label: "Size", points, layers: SIZES, format: bytes, binary: true, stack: true, marks })));
}

