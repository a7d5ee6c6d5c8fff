// Mirrors: copies of tables in Iceberg and Delta, how far each is behind, and what went wrong.

import { under } from "../api.js";
import { useClock, useData, usePage } from "../hooks.js";
import { Age, Badge, Section, clip, h, timed } from "../kit.js";
import { List } from "../table.js";

const { useMemo } = globalThis.React;

const MIRRORS = [
  { id: "table", title: "Table" },
  { id: "target", title: "Mirror" },
  { id: "behind", title: "Commits behind", align: "end" },
  { id: "lag", title: "For at most", cell: (row, { clock }) => row.behind > 0 && h(Age, { since: row.looked, clock }) },
  timed("looked", "Last look"),
  { id: "last", title: "It did", cell: (row) => row.error ? h(Badge, { tone: "error", title: row.error }, "failed") : clip(row.last) },
  timed("verified", "Compared"),
  { id: "differ", title: "Differ", align: "end" },
  timed("primary", "Primary since"),
];

export function Mirrors() {
  const { connection } = usePage();
  const found = useData(under(connection, "mirrors"));
  const clock = useClock(found);
  const context = useMemo(() => ({ clock }), [clock]);
  return h(Section, { title: "Mirrors" }, h(List, { label: "Mirrors", state: found, columns: MIRRORS, context, noun: "mirrors", empty: "None." }));
}
