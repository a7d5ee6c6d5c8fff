// Transactions: open and aborted ones, oldest first; one of them with its locks, its writes, its jobs and whom it waits for.

import { under } from "../api.js";
import { useClock, useData, useFilters, usePage } from "../hooks.js";
import { Age, Facts, PageLink, Section, Select, Status, TaskLink, TextField, Time, h, muted, timed } from "../kit.js";
import { viewQuery } from "../state.js";
import { List, Table } from "../table.js";
import { Act, CompactionLink, StateBadge, TxnLink, Who, abortQuestion, words } from "./shared.js";
import { LOCK_COLUMNS } from "./lock_columns.js";

const { React } = globalThis;
const { useMemo } = React;
const DEFAULTS = { view: "transactions", txn_id: "", state: "", user: "", dag_id: "", database: "", table: "", order: "oldest" };

const COLUMNS = [
  { id: "txn", title: "Txn", align: "end", cell: (row) => h(TxnLink, { id: row.txn_id }) },
  { id: "state", title: "State", cell: (row) => h(StateBadge, { state: row.state, title: row.abort_reason ?? undefined }) },
  { id: "type", title: "Type", cell: (row) => words(row.type) },
  { id: "age", title: "Age", align: "end", cell: (row, { clock }) => h(Age, { since: row.started, clock }) },
  timed("last_heartbeat", "Heartbeat"),
  { id: "who", title: "Who", cell: (row) => h(Who, { row }) },
  { id: "task", title: "Task", cell: (row) => h(TaskLink, { task: row.task }) },
  { id: "act", title: "", align: "end", cell: (row, { connection, reload }) => h(Act, {
    allowed: row.can_abort, label: "Abort", question: abortQuestion(connection, row), onDone: reload,
  }) },
];

export function Transactions() {
  const [values, change] = useFilters(DEFAULTS);
  return values.txn_id ? h(Transaction, { id: values.txn_id }) : h(TransactionList, { values, change });
}

function TransactionList({ values, change }) {
  const { connection } = usePage();
  const { state, user, dag_id, database, table, order, cursor } = values;
  const found = useData(under(connection, "transactions"), { state, user, dag_id, database, table, order, cursor });
  const clock = useClock(found);
  const context = useMemo(() => ({ clock, connection, reload: found.reload }), [clock, connection, found.reload]);
  return h(React.Fragment, null,
    h("div", { className: "ha-filters", role: "search", "aria-label": "Filters" },
      h(Select, { label: "State", value: state, onChange: (value) => change({ state: value }), options: [
        ["", "open and aborted"], ["open", "open"], ["aborted", "aborted"], ["committed", "committed"]] }),
      h(Select, { label: "Order", value: order, onChange: (value) => change({ order: value }), options: [["oldest", "oldest first"], ["newest", "newest first"]] }),
      h(TextField, { label: "User", value: user, onChange: (value) => change({ user: value }, true) }),
      h(TextField, { label: "DAG", value: dag_id, onChange: (value) => change({ dag_id: value }, true) }),
      h(TextField, { label: "Database", value: database, onChange: (value) => change({ database: value }, true) }),
      h(TextField, { label: "Table", value: table, onChange: (value) => change({ table: value }, true) })),
    h(List, { label: "Transactions", state: found, columns: COLUMNS, context, filters: [values, change], noun: "txns",
      empty: state || user || dag_id || database || table ? "No txn fits these filters." : "No txn is open or aborted." }));
}

const COMPONENTS = [
  { id: "object", title: "Table", cell: (row) => [`${row.database}.${row.table}`, row.partition].filter(Boolean).join("/") },
  { id: "operation", title: "Operation", cell: (row) => words(row.operation) },
  { id: "write", title: "Write id", align: "end", cell: (row) => row.write_id ?? "–" },
];
const JOBS = [
  { id: "job", title: "Job", cell: (row) => h("code", null, row.job_id) },
  { id: "table", title: "Table" },
  { id: "kind", title: "Kind", cell: (row) => words(row.kind) },
  { id: "state", title: "State", cell: (row) => h(StateBadge, { state: row.state }) },
  { id: "application", title: "Application", cell: (row) => row.application_id ?? "–" },
];
const NONE = Object.freeze({});

function Transaction({ id }) {
  const { connection } = usePage();
  const state = useData(under(connection, `transactions/${encodeURIComponent(id)}`));
  const clock = useClock(state);
  const data = state.data, txn = data?.txn;
  const context = useMemo(() => ({ clock, connection, reload: state.reload, acts: false }), [clock, connection, state.reload]);
  return h(React.Fragment, null,
    h(Back, { view: "transactions" }, "All transactions"),
    h(Status, { state, isEmpty: false }),
    txn && h(React.Fragment, null,
      h(Section, { title: `Txn ${txn.txn_id}`, aside: h(Act, {
        allowed: txn.can_abort, label: "Abort", kind: "danger", question: abortQuestion(connection, txn), onDone: state.reload,
      }) },
        data.sentence && h("p", { className: "ha-sentence" }, data.sentence),
        h(Facts, { pairs: [
          ["State", h(StateBadge, { state: txn.state })], ["Type", words(txn.type)],
          ["Started", h(Time, { at: txn.started, clock })], ["Heartbeat", h(Time, { at: txn.last_heartbeat, clock })],
          ["Who", h(Who, { row: txn })], ["Task", txn.task && h(TaskLink, { task: txn.task })], ["Agent", txn.agent_info],
          ["Aborted because", txn.abort_reason], ["Compaction", txn.compaction_id !== null ? h(CompactionLink, { id: txn.compaction_id }) : null],
        ] })),
      h("div", { className: "ha-columns" },
        h(Part, { title: "Waits for", edges: data.waits_for, end: "target", empty: "It waits for nobody." }),
        h(Part, { title: "Waited for by", edges: data.waited_by, end: "source", empty: "Nobody waits for it." })),
      h(Section, { title: "Locks" }, data.locks.length
        ? h(Table, { label: "Locks", columns: LOCK_COLUMNS, rows: data.locks, context })
        : h("p", { className: "ha-empty" }, "It holds no lock.")),
      data.components.length > 0 && h(Section, { title: "Writes" }, h(Table, { label: "Writes", columns: COMPONENTS, context: NONE,
        rows: data.components.map((row, i) => ({ ...row, id: `${i} ${row.database}.${row.table}/${row.partition}` })) })),
      data.jobs.length > 0 && h(Section, { title: "Jobs" }, h(Table, { label: "Jobs", columns: JOBS, context: NONE,
        rows: data.jobs.map((row) => ({ ...row, id: row.job_id })) }))));
}

function Part({ title, edges, end, empty }) {
  return h(Section, { title }, edges.length
    ? h("ul", { className: "ha-list" }, edges.map((edge) => h("li", { key: `${edge[end]} ${edge.object}` },
      h(NodeLink, { id: edge[end] }), muted(` on ${edge.object}`))))
    : h("p", { className: "ha-empty" }, empty));
}

/** A link for a node of the wait-for graph: "txn:5" or "lock:7". */
export function NodeLink({ id }) {
  const { connection } = usePage();
  const [kind, number] = id.split(":");
  return h(PageLink, { to: kind === "txn" ? viewQuery("transactions", connection, { txn_id: number }) : viewQuery("locks", connection, { lock_id: number }) },
    `${kind} ${number}`);
}

export function Back({ view, children }) {
  const { connection } = usePage();
  return h("p", { className: "ha-back" }, h(PageLink, { to: viewQuery(view, connection) }, "← ", children));
}
