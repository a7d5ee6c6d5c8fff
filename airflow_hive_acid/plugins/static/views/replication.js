// Replication: what other metastores send here, how far behind each policy is, and what nobody could apply.

import { under } from "../api.js";
import { bytes, count, duration, plural } from "../format.js";
import { useClock, useData, useFilters, usePage } from "../hooks.js";
import { Age, Badge, PageLink, Section, Time, clip, h, timed } from "../kit.js";
import { viewQuery } from "../state.js";
import { List } from "../table.js";
import { Mirrors } from "./mirrors.js";

const { useMemo } = globalThis.React;
const DEFAULTS = { view: "replication", policy: "" };
const TONES = { following: "ok", "failed over": "warning" };

const POLICIES = [
  { id: "policy", title: "Policy", cell: (row, { connection }) => h(PageLink, { to: viewQuery("replication", connection, { policy: row.policy }) }, row.policy) },
  { id: "source", title: "From" },
  { id: "phase", title: "Phase", cell: (row) => h(Badge, { tone: row.error ? "error" : TONES[row.phase] ?? "neutral" }, row.phase) },
  { id: "lag", title: "Behind at most", align: "end", cell: (row, { clock }) => (row.as_of === null || row.phase === "failed over" ? "" : h(Age, { since: row.as_of, clock })) },
  { id: "position", title: "Event", align: "end" },
  { id: "tables", title: "Tables", align: "end", cell: (row) => count(row.tables) },
  { id: "last", title: "Last cycle", cell: (row, { clock }) => (row.running ? h("span", { title: row.holder ?? "" }, "running since ", h(Time, { at: row.started, clock })) : row.ended === null ? "never" : h("span", { title: row.holder ?? "" }, h(Time, { at: row.ended, clock }))) },
  { id: "work", title: "It did", cell: (row) => (row.seconds === null ? "" : `${plural(row.events, "event")}, ${bytes(row.bytes)} in ${duration(row.seconds)}`) },
  { id: "kept", title: "Kept events", align: "end", cell: (row) => (row.kept_events ? h(Badge, { tone: "warning" }, row.kept_events) : "") },
  { id: "error", title: "Error", cell: (row) => clip(row.error) },
];
const TABLES = [
  { id: "table", title: "Table" },
  { id: "source_table", title: "At the source" },
  { id: "policy", title: "Policy" },
  { id: "state_id", title: "State", align: "end" },
  timed("time", "Changed"),
  { id: "copied", title: "Copied then", align: "end", cell: (row) => (row.files ? `${plural(row.files, "file")}, ${bytes(row.bytes)}` : "") },
  { id: "said", title: "What was done", cell: (row) => clip(row.error ?? row.said) },
];
const EVENTS = [
  { id: "event_id", title: "Event", align: "end" },
  timed("time", "Time"),
  { id: "type", title: "Type" },
  { id: "object", title: "About" },
  { id: "policy", title: "Policy" },
  { id: "why", title: "Why it was kept", cell: (row) => clip(row.why) },
];

export function Replication() {
  const { connection } = usePage();
  const [values] = useFilters(DEFAULTS);
  const policy = values.policy || undefined;
  const policies = useData(under(connection, "replications"));
  const tables = useData(under(connection, "replications/tables"), { policy });
  const events = useData(under(connection, "replications/events"), { policy }, { interval: 15000 });
  const clock = useClock(policies);
  const context = useMemo(() => ({ clock, connection }), [clock, connection]);
  const title = policy ? `Tables of ${policy}` : "Tables";
  return h("div", null,
    h(Section, { title: "Policies" }, h(List, {
      label: "Policies", state: policies, columns: POLICIES, context, noun: "policies", empty: "Nothing is replicated to here.",
    })),
    h(Section, { title, aside: policy && h(PageLink, { to: viewQuery("replication", connection) }, "of all policies") }, h(List, {
      label: "Replicated tables", state: tables, columns: TABLES, context, noun: "tables", empty: "No table has come yet.",
    })),
    h(Section, { title: "Kept events" }, h(List, {
      label: "Kept events", state: events, columns: EVENTS, context, noun: "events", empty: "Every event was applied.",
    })),
    h(Mirrors));
}
