// Columns and questions that more than one view has.

import { under } from "../api.js";
import { NOTHING, capital, duration } from "../format.js";
import { usePage } from "../hooks.js";
import { Age, Badge, Button, ObjectLink, PageLink, TaskLink, Time, clip, h, muted } from "../kit.js";
import { viewQuery } from "../state.js";

const TONES = {
  open: "info", aborted: "error", committed: "good", acquired: "good", waiting: "warning",
  initiated: "info", working: "info", "ready for cleaning": "neutral", succeeded: "good", failed: "error",
  "did not initiate": "warning", refused: "warning", ok: "good", warning: "warning", error: "error",
};

export function StateBadge({ state, title }) {
  return h(Badge, { tone: TONES[state] ?? "neutral", title }, state);
}

export function TxnLink({ id }) {
  const { connection } = usePage();
  if (id === null || id === undefined) return muted(NOTHING);
  return h(PageLink, { to: viewQuery("transactions", connection, { txn_id: id }) }, String(id));
}

export function words(code) {
  return String(code ?? "").replaceAll("_", " ");
}

/** Who: user@host, and what the client said of itself where no task is known. */
export function Who({ row }) {
  const name = [row.user, row.host].filter(Boolean).join("@");
  return h("span", { title: [name, row.agent_info].filter(Boolean).join("\n") }, name || NOTHING);
}

/** The columns of compactions: in the queue and in the history. */
export const COMPACTION_COLUMNS = [
  { id: "id", title: "Id", align: "end", cell: (row) => h(CompactionLink, { id: row.id }) },
  { id: "object", title: "Table", cell: (row) => h(ObjectLink, { row }) },
  { id: "type", title: "Type", cell: (row) => words(row.type) },
  { id: "state", title: "State", cell: (row) => h(StateBadge, { state: row.state, title: row.error ?? row.reason ?? undefined }) },
  { id: "enqueued", title: "Requested", cell: (row, { clock }) => h(Time, { at: row.enqueued ?? row.started, clock }) },
  { id: "took", title: "Took", align: "end", cell: (row, { clock }) => (row.duration_ms !== null
    ? duration(row.duration_ms / 1000)
    : row.state === "working" ? h(Age, { since: row.started, clock }) : muted(NOTHING)) },
  { id: "why", title: "Why", cell: (row) => clip(row.error ?? row.reason) },
  { id: "task", title: "Task", cell: (row) => h(TaskLink, { task: row.task }) },
];

export function CompactionLink({ id }) {
  const { connection } = usePage();
  return h(PageLink, { to: viewQuery("compactions", connection, { compaction_id: id }) }, String(id));
}

/** A button that asks first. Who may not act sees none; a look at the role is the server's, this spares the click. */
export function Act({ allowed = true, label, question, onDone, kind = "row" }) {
  const { canAct, confirm } = usePage();
  if (!canAct || !allowed) return null;
  return h(Button, { kind, small: kind === "row", onClick: () => confirm(question, onDone), "aria-label": `${label}: ${question.title}` }, label);
}

const REASON = { name: "reason", label: "Reason, for the audit log" };

export function abortQuestion(connection, txn) {
  return {
    title: `Abort txn ${txn.txn_id}?`, verb: "Abort txn", path: under(connection, `transactions/${txn.txn_id}/abort`), fields: [REASON],
    text: "Its jobs are fenced and what it wrote never becomes visible. Its locks are released. This cannot be undone.",
  };
}

export function cancelQuestion(connection, compaction) {
  return {
    title: `Cancel compaction ${compaction.id}?`, verb: "Cancel compaction", path: under(connection, `compactions/${compaction.id}/cancel`),
    fields: [REASON],
    text: `The ${words(compaction.type)} compaction of ${compaction.object} is ${compaction.state}. The table's data is not affected; it can be requested again.`,
  };
}

export function dropQuestion(connection, lease) {
  return {
    title: `Force-drop lease ${lease.lease_id}?`, verb: "Force-drop lease", path: under(connection, `leases/${lease.lease_id}/force-drop`),
    fields: [{ ...REASON, required: true }],
    text: `${lease.user} holds ${lease.object}. Whoever works under this lease can commit nothing more; the drop is recorded with your name and reason.`,
  };
}

export function dropPinQuestion(connection, pin) {
  return {
    title: `Drop pin ${pin.name}?`, verb: "Drop pin", path: under(connection, `pins/${pin.pin_id}/drop`), fields: [REASON],
    text: `${pin.user} pinned ${pin.tables.join(", ")}. Nobody can begin to read by it any more, and what was kept for it goes with the next clean-up.`,
  };
}

export function withdrawQuestion(connection, lock) {
  return {
    title: `Withdraw lock ${lock.lock_id}?`, verb: "Withdraw lock", path: under(connection, `locks/${lock.lock_id}/withdraw`), fields: [REASON],
    text: `All its parts go, that on ${lock.object} among them. Who asked for it finds it gone.`,
  };
}

export function compactQuestion(connection, database, table, partition) {
  const object = [`${database}.${table}`, partition].filter(Boolean).join("/");
  return {
    title: `Request a compaction of ${object}?`, verb: "Request compaction", path: under(connection, "compactions"), danger: false,
    fields: [{ name: "type", label: "Type", value: "major", options: [
      ["major", "major: everything into a new base"], ["minor", "minor: many deltas into one"], ["rebalance", "rebalance: rows spread evenly over buckets"],
    ] }],
    body: (fields) => ({ database, table, partition: partition ?? null, type: fields.type, pool: null }),
    text: partition || partition === undefined
      ? "The next free Worker takes it up. Readers and writers go on meanwhile."
      : "Of a partitioned table, the partitions that need it are queued.",
  };
}

/** Why something was decided, with its numbers. */
export function DecisionLine({ decision, clock }) {
  const numbers = Object.entries(decision.numbers ?? {});
  return h("div", { className: "ha-decision" },
    h("div", null, h("strong", null, capital(decision.kind)), decision.partition && muted(` · ${decision.partition}`),
      decision.rule && h("code", { className: "ha-code", title: "The rule that decided" }, decision.rule)),
    h("p", null, decision.reason),
    decision.blocked_by?.length > 0 && h("p", null, "Held up by ", decision.blocked_by.join("; ")),
    numbers.length > 0 && h("p", { className: "ha-muted ha-numbers" }, numbers.map(([name, value]) => h("span", { key: name }, `${words(name)} `, h("b", null, number(value))))),
    (decision.looked || decision.since) && h("p", { className: "ha-muted" }, "Looked ", h(Time, { at: decision.looked ?? decision.since, clock }),
      decision.looks > 1 && `, the same for ${decision.looks} looks`));
}

function number(value) {
  if (typeof value !== "number") return String(value);
  return Number.isInteger(value) ? value.toLocaleString("en") : String(Number(value.toPrecision(3)));
}
