// The columns of locks: in their own view and beside their txn.

import { Age, ObjectLink, PageLink, TaskLink, Time, h, muted } from "../kit.js";
import { viewQuery } from "../state.js";
import { usePage } from "../hooks.js";
import { Act, StateBadge, TxnLink, Who, withdrawQuestion, words } from "./shared.js";

export const LOCK_COLUMNS = [
  { id: "id", title: "Lock", cell: (row) => h(LockLink, { id: row.id }) },
  { id: "object", title: "On", cell: (row) => h(ObjectLink, { row }) },
  { id: "state", title: "State", cell: (row) => h(StateBadge, { state: row.state }) },
  { id: "type", title: "Mode", cell: (row) => words(row.type) },
  { id: "txn", title: "Txn", align: "end", cell: (row) => h(TxnLink, { id: row.txn_id || null }) },
  { id: "blocked", title: "Behind", cell: (row) => (row.blocked_by ? h(LockLink, { id: row.blocked_by }) : muted("–")) },
  { id: "held", title: "Held for", align: "end", cell: (row, { clock }) => h(Age, { since: row.acquired_at, clock }) },
  { id: "heartbeat", title: "Heartbeat", cell: (row, { clock }) => h(Time, { at: row.last_heartbeat || null, clock }) },
  { id: "who", title: "Who", cell: (row) => h(Who, { row }) },
  { id: "task", title: "Task", cell: (row) => h(TaskLink, { task: row.task }) },
  { id: "act", title: "", align: "end", cell: (row, { connection, reload }) => h(Act, {
    allowed: row.can_withdraw, label: "Withdraw", question: withdrawQuestion(connection, row), onDone: reload,
  }) },
];

function LockLink({ id }) {
  const { connection } = usePage();
  return h(PageLink, { to: viewQuery("locks", connection, { lock_id: String(id).split(".")[0] }) }, id);
}
