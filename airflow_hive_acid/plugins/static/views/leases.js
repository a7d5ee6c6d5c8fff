// Leases: held, waited for, and those that were dropped by force.

import { under } from "../api.js";
import { useClock, useData, useFilters, usePage } from "../hooks.js";
import { ObjectLink, Section, Select, TaskLink, TextField, clip, h, muted, timed } from "../kit.js";
import { List } from "../table.js";
import { Pins } from "./pins.js";
import { Act, dropQuestion } from "./shared.js";

const { React } = globalThis;
const { useMemo } = React;
const DEFAULTS = { view: "leases", lease_id: "", database: "", table: "", user: "", type: "" };

const LEASES = [
  { id: "lease_id", title: "Lease", align: "end" },
  { id: "object", title: "On", cell: (row) => h(ObjectLink, { row }) },
  { id: "type", title: "Type" },
  { id: "user", title: "Held by" },
  timed("started", "Granted"),
  timed("ends", "Ends"),
  { id: "mirrored", title: "Hive waits", cell: (row) => (row.mirrored ? "yes" : muted("no", "Its mirror in Hive's lock table is not there")) },
  { id: "task", title: "Task", cell: (row) => h(TaskLink, { task: row.task }) },
  { id: "act", title: "", align: "end", cell: (row, { connection, reload }) => h(Act, { label: "Force-drop", question: dropQuestion(connection, row), onDone: reload }) },
];
const WAITERS = [
  { id: "ticket", title: "Ticket", align: "end" },
  { id: "object", title: "On", cell: (row) => h(ObjectLink, { row }) },
  { id: "type", title: "Type" },
  { id: "user", title: "Wanted by" },
  timed("since", "Since"),
  { id: "task", title: "Task", cell: (row) => h(TaskLink, { task: row.task }) },
];
const DROPS = [
  timed("time", "Dropped"),
  { id: "lease_id", title: "Lease", align: "end" },
  { id: "object", title: "On" },
  { id: "user", title: "Was held by" },
  { id: "who", title: "Dropped by" },
  { id: "why", title: "Why", cell: (row) => clip(row.why) },
];

export function Leases() {
  const [values, change] = useFilters(DEFAULTS);
  const { connection } = usePage();
  const { database, table, user, type, cursor } = values;
  const held = useData(under(connection, "leases"), { database, table, user, type, cursor });
  const waiting = useData(under(connection, "leases/waiting"), { database, table });
  const drops = useData(under(connection, "leases/drops"), { limit: 20 }, { interval: 15000 });
  const clock = useClock(held);
  const reload = () => { held.reload(); waiting.reload(); drops.reload(); };
  const context = useMemo(() => ({ clock, connection, reload }), [clock, connection]);
  return h(React.Fragment, null,
    h("div", { className: "ha-filters", role: "search", "aria-label": "Filters" },
      h(TextField, { label: "Database", value: database, onChange: (value) => change({ database: value }, true) }),
      h(TextField, { label: "Table", value: table, onChange: (value) => change({ table: value }, true) }),
      h(TextField, { label: "User", value: user, onChange: (value) => change({ user: value }, true) }),
      h(Select, { label: "Type", value: type, onChange: (value) => change({ type: value }), options: [["", "all types"], ["shared", "shared"], ["exclusive", "exclusive"]] })),
    h(Section, { title: "Held" }, h(List, { label: "Leases held", state: held, columns: LEASES, context, filters: [values, change], noun: "leases",
      empty: database || table || user || type ? "No lease fits these filters." : "No lease is held." })),
    h(Pins),
    h(Section, { title: "Waiting" }, h(List, {
      label: "Waiting for a lease", state: waiting, columns: WAITERS, context, noun: "requests", empty: "Nobody waits for a lease.",
    })),
    h(Section, { title: "Dropped by force" }, h(List, {
      label: "Dropped by force", columns: DROPS, context, noun: "drops", empty: "No lease was dropped by force.",
      // The newest are enough here; the API has the others.
      state: { ...drops, data: drops.data && { ...drops.data, next: null } },
    })));
}
