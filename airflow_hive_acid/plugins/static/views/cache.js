// The catalog cache of the API server that answered: what it answers from memory, and how far it is behind the log.

import { under } from "../api.js";
import { bytes, count, duration, percent, plural } from "../format.js";
import { useData, usePage } from "../hooks.js";
import { Section, h } from "../kit.js";

const STATES = {
  off: "Off: every read of the catalog goes to the database.",
  behind: "Behind: it could not look at the notification log, so the database answers.",
};

export function CachePanel() {
  const { connection } = usePage();
  const { data } = useData(under(connection, "cache"));
  if (!data) return null;
  return h(Section, { title: "Catalog cache" }, h("p", { className: data.state === "following" ? undefined : "ha-empty" },
    STATES[data.state] ?? [
      data.hit_ratio === null ? "No reads yet" : `${percent(data.hit_ratio)} of the reads from memory`,
      `${count(data.stale)} by the database because the reader knew more`,
      `${plural(data.entries, "entry", "entries")}, ${bytes(data.bytes)} of ${bytes(data.max_bytes)}`,
      `${plural(data.lag_events ?? 0, "event")} and ${duration(data.lag_seconds ?? 0)} behind`,
    ].join(" · ")));
}
