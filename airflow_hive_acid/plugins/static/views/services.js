// Spark services: which there are, what they run for whom, and why a task would not use one.

import { under } from "../api.js";
import { duration } from "../format.js";
import { useClock, useData, usePage } from "../hooks.js";
import { Badge, Section, clip, h, timed } from "../kit.js";
import { Table } from "../table.js";

const { useMemo } = globalThis.React;

const SERVICES = [
  { id: "service", title: "Service", cell: (row) => h("span", { title: row.at ?? "" }, row.name) },
  { id: "state", title: "State", cell: (row) => (row.problem
    ? h(Badge, { tone: "warning", title: row.problem }, "not used")
    : h(Badge, { tone: "ok" }, row.running ? "running" : "ready")) },
  { id: "why", title: "Why", cell: (row) => clip(row.problem) },
  { id: "callers", title: "Callers", align: "end", cell: (row) => `${row.callers.length} of ${row.max_callers}` },
  { id: "running", title: "Run", align: "end", cell: (row) => `${row.running} of ${row.places}` },
  { id: "waiting", title: "Wait", align: "end" },
  { id: "idle", title: "Idle", align: "end", cell: (row) => (row.callers.length ? "" : duration(row.idle_seconds)) },
  timed("since", "Since"),
  { id: "application_id", title: "Application" },
  { id: "versions", title: "Versions", cell: (row) => `${row.package}, Spark ${row.spark}, Python ${row.python}` },
];
const CALLERS = [
  { id: "service", title: "Service" },
  { id: "who", title: "Caller" },
  { id: "statement", title: "Statement", cell: (row) => clip(row.running) },
  { id: "turn", title: "Turn", cell: (row) => (row.waits ? "waits" : row.running ? "runs" : "") },
];

export function ServicesPanel() {
  const { connection } = usePage();
  const found = useData(under(connection, "spark-services"));
  const clock = useClock(found);
  const context = useMemo(() => ({ clock }), [clock]);
  const data = found.data;
  if (!data) return null;
  const callers = data.items.flatMap((one) => one.callers.map((caller, number) => ({ ...caller, service: one.name, id: `${one.name} ${number}` })));
  return h(Section, { title: "Spark services" },
    data.items.length
      ? h(Table, { label: "Spark services", columns: SERVICES, rows: data.items.map((one) => ({ ...one, id: one.name })), context })
      : h("p", { className: "ha-empty" }, `None in ${data.at}. ${data.shared ? "" : "The connection has no spool: those of other machines and users are not seen from here."}`),
    callers.length > 0 && h(Table, { label: "Callers of Spark services", columns: CALLERS, rows: callers, context }));
}
