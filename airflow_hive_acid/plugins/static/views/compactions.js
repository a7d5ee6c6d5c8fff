// Compactions: queue and history, how long they took, and of one of them why it was asked for and what became of it.

import { under } from "../api.js";
import { NOTHING, count, duration, plural } from "../format.js";
import { useClock, useData, useFilters, usePage } from "../hooks.js";
import { Facts, ObjectLink, Section, Select, Status, TaskLink, TextField, Time, h, muted } from "../kit.js";
import { List } from "../table.js";
import { DurationChart } from "./charts.js";
import { Act, COMPACTION_COLUMNS, DecisionLine, StateBadge, TxnLink, cancelQuestion, compactQuestion, words } from "./shared.js";
import { Back } from "./transactions.js";

const { React } = globalThis;
const { useMemo } = React;
const DEFAULTS = { view: "compactions", compaction_id: "", queued: "", state: "", type: "", database: "", table: "", partition: "", pool: "", hours: "168" };
const STATES = ["initiated", "working", "ready for cleaning", "succeeded", "failed", "did not initiate", "refused", "aborted"];
const TYPES = ["major", "minor", "rebalance", "abort_txn_cleanup"];
const COLUMNS = [...COMPACTION_COLUMNS, { id: "act", title: "", align: "end", cell: (row, { connection, reload }) => h(Act, {
  allowed: row.can_cancel, label: "Cancel", question: cancelQuestion(connection, row), onDone: reload,
}) }];

export function Compactions() {
  const [values, change] = useFilters(DEFAULTS);
  return values.compaction_id ? h(Compaction, { id: values.compaction_id }) : h(CompactionList, { values, change });
}

function CompactionList({ values, change }) {
  const { connection } = usePage();
  const { queued, state, type, database, table, partition, pool, hours, cursor } = values;
  const found = useData(under(connection, "compactions"), { queued, state, type, database, table, partition, pool, cursor });
  const clock = useClock(found);
  const context = useMemo(() => ({ clock, connection, reload: found.reload }), [clock, connection, found.reload]);
  const filtered = [queued, state, type, database, table, partition, pool].some(Boolean);
  return h(React.Fragment, null,
    h("div", { className: "ha-filters", role: "search", "aria-label": "Filters" },
      h(Select, { label: "Queue or history", value: queued, onChange: (value) => change({ queued: value }), options: [["", "queue and history"], ["true", "queue"], ["false", "history"]] }),
      h(Select, { label: "State", value: state, onChange: (value) => change({ state: value }), options: [["", "all states"], ...STATES.map((one) => [one, one])] }),
      h(Select, { label: "Type", value: type, onChange: (value) => change({ type: value }), options: [["", "all types"], ...TYPES.map((one) => [one, words(one)])] }),
      h(TextField, { label: "Database", value: database, onChange: (value) => change({ database: value }, true) }),
      h(TextField, { label: "Table", value: table, onChange: (value) => change({ table: value }, true) }),
      h(TextField, { label: "Partition", value: partition, onChange: (value) => change({ partition: value }, true) }),
      h(TextField, { label: "Pool", value: pool, onChange: (value) => change({ pool: value }, true), width: 100 })),
    h(List, { label: "Compactions", state: found, columns: COLUMNS, context, filters: [values, change], noun: "compactions",
      empty: filtered ? "No compaction fits these filters." : "Nothing was compacted yet." }),
    h(Durations, { database, table, hours, change }));
}

function Durations({ database, table, hours, change }) {
  const { connection } = usePage();
  const found = useData(under(connection, "compactions/durations"), { hours, database, table }, { interval: 30000 });
  const timed = (found.data?.items ?? []).filter((one) => one.mean_ms !== null);
  return h(Section, { title: "Durations", aside: h(Select, { label: "Time", value: hours, onChange: (value) => change({ hours: value }),
    options: [["24", "last day"], ["48", "last two days"], ["168", "last week"], ["720", "last 30 days"]] }) },
    h(Status, { state: found, isEmpty: timed.length === 0, empty: "No compaction ended in this time." }),
    timed.length > 0 && h(DurationChart, { buckets: timed, hours: Number(hours) }));
}

function Compaction({ id }) {
  const { connection } = usePage();
  const state = useData(under(connection, `compactions/${encodeURIComponent(id)}`));
  const clock = useClock(state);
  const one = state.data?.compaction;
  return h(React.Fragment, null,
    h(Back, { view: "compactions" }, "All compactions"),
    h(Status, { state, isEmpty: false }),
    one && h(React.Fragment, null,
      h(Section, { title: `Compaction ${one.id}`, aside: [
        h(Act, { key: "cancel", allowed: one.can_cancel, label: "Cancel", kind: "danger", question: cancelQuestion(connection, one), onDone: state.reload }),
        h(Act, { key: "again", allowed: !one.queued, label: "Request again", kind: "plain", question: compactQuestion(connection, one.database, one.table, one.partition), onDone: state.reload }),
      ] },
        one.error && h("div", { className: "ha-box ha-box-error" }, h("strong", null, "It failed"), h("p", null, one.error)),
        h(Facts, { pairs: [
          ["Table", h(ObjectLink, { row: one })], ["State", h(StateBadge, { state: one.state })], ["Type", words(one.type)], ["Pool", one.pool || "default"],
          ["Requested", h(Time, { at: one.enqueued, clock })], ["Why", one.reason], ["Rule", one.rule && h("code", { className: "ha-code" }, one.rule)],
          ["Started", h(Time, { at: one.started, clock })], ["Ended", h(Time, { at: one.ended, clock })],
          ["Took", one.duration_ms === null ? null : duration(one.duration_ms / 1000)], ["Requested by", one.initiator_id], ["Worker", one.worker_id],
          ["Task", one.task && h(TaskLink, { task: one.task })], ["Run as", one.run_as], ["Txn", one.txn_id === null ? null : h(TxnLink, { id: one.txn_id })],
          ["Job", one.job_id], ["Up to write id", one.highest_write_id === null ? null : count(one.highest_write_id)],
          ...Object.entries(state.data.properties),
        ] })),
      state.data.decisions.length > 0 && h(Section, { title: "Decisions" }, state.data.decisions.map((decision, i) => h(DecisionLine, { key: i, decision, clock }))),
      h(Cleaning, { notes: state.data.cleaning, clock })));
}

/** What the Cleaner did and did not, with its reason. */
export function Cleaning({ notes, title = "Cleaning", clock }) {
  if (!notes.length) return null;
  return h(Section, { title }, notes.map((note, i) => h("div", { className: "ha-decision", key: i },
    h("div", null, h("strong", null, words(note.kind)), note.partition && muted(` · ${note.partition}`)),
    h("p", null, note.reason),
    note.removed.length > 0 && h("p", { className: "ha-muted", title: note.removed.join("\n") },
      `Removed ${plural(note.removed.length, "directory", "directories")}: ${firstOf(note.removed)}`),
    note.kept.length > 0 && h("p", null, `Kept ${firstOf(note.kept)} for ${note.kept_for.join("; ") || NOTHING}`),
    note.since && h("p", { className: "ha-muted" }, h(Time, { at: note.since, clock })))));
}

function firstOf(names) {
  return names.slice(0, 4).join(", ") + (names.length > 4 ? ", …" : "");
}
