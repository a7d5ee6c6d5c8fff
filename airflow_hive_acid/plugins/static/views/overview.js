// Overview: what is wrong and what to do next, the numbers that say how the metastore is, and the worst of each kind.

import { under } from "../api.js";
import { capital, count, duration, percent } from "../format.js";
import { useClock, useData, usePage } from "../hooks.js";
import { Age, Badge, ObjectLink, PageLink, Section, Status, TaskLink, Time, h, muted, timed } from "../kit.js";
import { viewQuery } from "../state.js";
import { Table } from "../table.js";
import { CachePanel } from "./cache.js";
import { ServicesPanel } from "./services.js";
import { COMPACTION_COLUMNS, TxnLink, words } from "./shared.js";

const { React } = globalThis;
const EMPTY = Object.freeze({ clock: 0 });
const LOCKS = [
  { id: "id", title: "Lock" },
  { id: "object", title: "Waits for", cell: (row) => h(ObjectLink, { row }) },
  { id: "type", title: "Mode", cell: (row) => words(row.type) },
  { id: "txn", title: "Txn", cell: (row) => h(TxnLink, { id: row.txn_id }) },
  { id: "task", title: "Task", cell: (row) => h(TaskLink, { task: row.task }) },
];
const LEASES = [
  { id: "lease_id", title: "Lease" },
  { id: "object", title: "On", cell: (row) => h(ObjectLink, { row }) },
  { id: "user", title: "Held by" },
  timed("ends", "Ends"),
];
const FAILURES = COMPACTION_COLUMNS.filter((column) => ["id", "object", "type", "why", "task"].includes(column.id));

export function Overview() {
  const { connection } = usePage();
  const state = useData(under(connection, "overview"));
  const clock = useClock(state);
  const data = state.data;
  return h(React.Fragment, null,
    h(Status, { state, isEmpty: false }),
    data && h("div", { className: state.error ? "ha-stale" : undefined }, h(Health, { findings: data.findings }), h(Tiles, { data, clock }),
      h("div", { className: "ha-columns" },
        h(Section, { title: "Waiting locks", aside: h(More, { view: "locks", more: { graph: 1 } }, "Who waits for whom") },
          data.waiting_locks.length
            ? h(Table, { label: "Waiting locks", columns: LOCKS, rows: data.waiting_locks, context: EMPTY })
            : h("p", { className: "ha-empty" }, "Nobody waits for a lock.")),
        h(Section, { title: "Compactions that failed", aside: h(More, { view: "compactions", more: { state: "failed" } }, "All") },
          data.failures.length
            ? h(Table, { label: "Compactions that failed", columns: FAILURES, rows: data.failures, context: EMPTY })
            : h("p", { className: "ha-empty" }, "None failed.")),
        h(Section, { title: "Queue", aside: h(More, { view: "compactions", more: { queued: "true" } }, "All") },
          h(Queue, { queue: data.queue, clock })),
        h(Section, { title: "Leases", aside: h(More, { view: "leases" }, "All") },
          data.leases.length
            ? h(Table, { label: "Leases", columns: LEASES, rows: data.leases, context: { clock } })
            : h("p", { className: "ha-empty" }, "No lease is held.")),
        h(CachePanel)),
      h(ServicesPanel)));
}

function More({ view, more, children }) {
  const { connection } = usePage();
  return h(PageLink, { to: viewQuery(view, connection, more) }, children);
}

function Health({ findings }) {
  const { connection } = usePage();
  if (!findings.length) {
    return h("div", { className: "ha-health ha-health-ok", role: "status" }, h("span", { className: "ha-dot ha-dot-ok", "aria-hidden": true }),
      "Everything is within its limits.");
  }
  return h("ul", { className: "ha-findings", "aria-label": "Health" }, findings.map((one) => {
    const of = Object.entries(one.labels).map(([key, value]) => `${key} ${value}`).join(", ");
    return h("li", { key: `${one.name} ${of}`, className: `ha-finding ha-finding-${one.level}` },
      h(Badge, { tone: one.level }, one.level),
      h("div", null,
        h("p", null, h("strong", null, `${capital(words(one.name.replace(/_in_sec$/, "")))}${of && ` of ${of}`}: ${measure(one.name, one.value)}`),
          one.limit !== null && h("span", { className: "ha-muted", title: one.setting }, ` limit ${measure(one.name, one.limit)}`)),
        h("p", null, capital(one.advice))),
      one.view && h(PageLink, { to: viewQuery(one.view, connection) }, "Show"));
  }));
}

function measure(name, value) {
  if (name.endsWith("_ratio")) return percent(value);
  return name.endsWith("_in_sec") ? duration(value) : count(value);
}

function Tiles({ data, clock }) {
  const { connection } = usePage();
  const readings = Object.fromEntries(data.readings.filter((one) => !Object.keys(one.labels).length).map((one) => [one.name, one]));
  const value = (name) => readings[name]?.value ?? null;
  const level = (...names) => ["error", "warning"].find((one) => names.some((name) => readings[name]?.level === one)) ?? "ok";
  const oldest = data.oldest_txn;
  const tiles = [
    ["Oldest open txn", oldest ? h(Age, { since: oldest.started, clock }) : "none",
      oldest ? `txn ${oldest.txn_id} of ${count(value("num_open_non_repl_transactions"))} open` : "no txn is open",
      viewQuery("transactions", connection, oldest ? { txn_id: oldest.txn_id } : {}), level("oldest_open_non_repl_txn_age_in_sec", "num_open_non_repl_transactions")],
    ["Waiting locks", count(value("num_waiting_lock_requests")),
      value("num_waiting_lock_requests") ? `the longest for ${duration(value("oldest_waiting_txn_age_in_sec"))}` : `${count(value("num_locks"))} held`,
      viewQuery("locks", connection, { graph: 1 }), level("num_waiting_lock_requests", "oldest_waiting_txn_age_in_sec")],
    ["Compaction queue", count((value("compaction_num_initiated") ?? 0) + (value("compaction_num_working") ?? 0)),
      `${count(value("compaction_num_working"))} running, ${count(value("compaction_num_initiated"))} waiting`,
      viewQuery("compactions", connection, { queued: "true" }), level("compaction_num_initiated", "compaction_oldest_enqueue_age_in_sec")],
    ["Failed compactions", count(value("compaction_num_failed")), `${count(value("compaction_num_did_not_initiate"))} not initiated`,
      viewQuery("compactions", connection, { state: "failed" }), level("compaction_num_failed", "compaction_num_did_not_initiate")],
    ["Cleaner lag", value("compaction_num_ready_for_cleaning") ? duration(value("oldest_ready_for_cleaning_age_in_sec")) : "none",
      `${count(value("compaction_num_ready_for_cleaning"))} to clean`,
      viewQuery("compactions", connection, { state: "ready for cleaning" }), level("oldest_ready_for_cleaning_age_in_sec", "compaction_cleaner_failure_counter")],
    ["Leases", count(value("num_leases")), `${count(value("num_lease_waiters"))} waiting`, viewQuery("leases", connection), level("num_leases", "num_lease_waiters")],
  ];
  return h("div", { className: "ha-tiles" }, tiles.map(([title, big, small, to, how]) => h(PageLink, {
    key: title, to, className: `ha-tile ha-tile-${how}`,
  }, h("span", { className: "ha-tile-title" }, title), h("span", { className: "ha-tile-value" }, big), muted(small))));
}

function Queue({ queue, clock }) {
  if (!queue.length) return h("p", { className: "ha-empty" }, "The queue is empty.");
  const rows = queue.map((row) => ({ ...row, id: `${row.pool} ${row.state}` }));
  return h(Table, { label: "Queue", context: { clock }, rows, columns: [
    { id: "pool", title: "Pool", cell: (row) => row.pool ?? "default" },
    { id: "state", title: "State" },
    { id: "count", title: "Requests", align: "end", cell: (row) => count(row.count) },
    { id: "oldest", title: "Oldest", cell: (row, at) => h(Time, { at: row.oldest, clock: at.clock }) },
  ] });
}
