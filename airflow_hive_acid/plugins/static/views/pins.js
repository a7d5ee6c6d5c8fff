// Pins: what is kept readable until when, and what that holds back from cleaning.

import { under } from "../api.js";
import { bytes } from "../format.js";
import { useClock, useData, usePage } from "../hooks.js";
import { Section, clip, h, muted, timed } from "../kit.js";
import { List } from "../table.js";
import { Act, dropPinQuestion } from "./shared.js";

const { useMemo } = globalThis.React;
const NO_HIVE = "Its txn was ended from outside: a real Hive's Cleaner does not know of it any more";

const PINS = [
  { id: "name", title: "Pin", cell: (row) => h("span", { title: row.comment ?? "" }, row.name) },
  { id: "tables", title: "On", cell: (row) => clip(row.tables.join(", ")) },
  { id: "held", title: "Holds back", align: "end", cell: (row) => bytes(row.held_bytes) },
  { id: "most", title: "At most", align: "end", cell: (row) => (row.max_bytes === null ? "" : bytes(row.max_bytes)) },
  { id: "user", title: "Pinned by" },
  timed("created", "Since"),
  timed("ends", "Ends"),
  { id: "hive", title: "Hive waits", cell: (row) => (row.honoured_by_hive ? "yes" : muted("no", NO_HIVE)) },
  { id: "act", title: "", align: "end", cell: (row, { connection, reload }) => h(Act, { label: "Drop", question: dropPinQuestion(connection, row), onDone: reload }) },
];

export function Pins() {
  const { connection } = usePage();
  const found = useData(under(connection, "pins"), {}, { interval: 15000 });
  const clock = useClock(found);
  const context = useMemo(() => ({ clock, connection, reload: found.reload }), [clock, connection]);
  return h(Section, { title: "Pins" }, h(List, {
    label: "Pins", state: found, columns: PINS, context, noun: "pins", empty: "Nothing is pinned.",
  }));
}
