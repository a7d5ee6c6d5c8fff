// The plain page: the same data as tables of text, without anything that Airflow would have to share. It only looks.

import { absolute, bytes, duration, percent } from "./format.js";
import { describeError, toQuery } from "./state.js";

const BASE = new URL("..", location.href);
const PATHS = {
  overview: [["Health", "overview", "findings"], ["Waiting locks", "overview", "waiting_locks"], ["Failures", "overview", "failures"], ["Queue", "overview", "queue"], ["Spark services", "spark-services", "items"]],
  transactions: [["Transactions", "transactions", "items"]],
  locks: [["Locks", "locks", "items"]],
  compactions: [["Compactions", "compactions", "items"]],
  leases: [["Leases", "leases", "items"], ["Pins", "pins", "items"], ["Waiting", "leases/waiting", "items"], ["Dropped by force", "leases/drops", "items"]],
  tables: [["Tables", "tables", "items"]],
  replication: [["Policies", "replications", "items"], ["Tables", "replications/tables", "items"], ["Kept events", "replications/events", "items"], ["Mirrors", "mirrors", "items"]],
};
const TIMES = new Set(["started", "last_heartbeat", "acquired_at", "enqueued", "ended", "created", "committed", "ends", "since", "alive_until", "time", "measured", "oldest", "as_of"]);
const HIDDEN = new Set(["id", "internal_id", "can_abort", "can_cancel", "can_withdraw", "database", "table", "partition", "labels", "queued", "view", "number"]);
const params = new URLSearchParams(location.search);
const view = Object.hasOwn(PATHS, params.get("view")) ? params.get("view") : "overview";
const main = document.getElementById("main");

document.getElementById("tabs").append(...Object.keys(PATHS).map((name) => {
  const link = element("a", name[0].toUpperCase() + name.slice(1), "ha-tab");
  link.href = toQuery({ view: name, conn_id: params.get("conn_id") });
  if (name === view) link.setAttribute("aria-current", "page");
  return link;
}));
show().catch((error) => main.replaceChildren(box(error.told ?? describeError(500, null))));

async function show() {
  main.replaceChildren(element("p", "Loading …", "ha-muted"));
  const { items } = await get("connections");
  const wanted = params.get("conn_id");
  const connection = wanted === null ? items.find((one) => one.default) ?? items[0] : items.find((one) => one.conn_id === wanted);
  if (!connection) {
    main.replaceChildren(element("p", "There is no such connection of type Hive ACID.", "ha-empty"));
    return;
  }
  const below = new URLSearchParams(params);
  below.delete("view");
  below.delete("conn_id");
  const parts = [];
  for (const [title, path, key] of PATHS[view]) {
    const answer = await get(`connections/${encodeURIComponent(connection.conn_id)}/${path}?${below}`);
    parts.push(element("h2", title), table(answer[key]));
    if (answer.next) {
      const link = element("a", "Next page", "ha-link");
      link.href = toQuery({ ...Object.fromEntries(params), cursor: answer.next });
      parts.push(link);
    }
  }
  main.replaceChildren(...parts);
}

async function get(path) {
  let answer;
  try {
    answer = await fetch(new URL(`hive-acid/api/v1/${path}`, BASE), { credentials: "same-origin" });
  } catch {
    throw Object.assign(new Error("no answer"), { told: describeError(0, null) });
  }
  const body = await answer.json().catch(() => null);
  if (!answer.ok) throw Object.assign(new Error("refused"), { told: describeError(answer.status, body) });
  return body;
}

function table(rows) {
  if (!rows.length) return element("p", "Nothing.", "ha-empty");
  const names = Object.keys(rows[0]).filter((name) => !HIDDEN.has(name) && rows.some((row) => row[name] !== null));
  const result = element("table", "", "ha-table"), head = element("tr");
  head.append(...names.map((name) => element("th", name.replaceAll("_", " "))));
  result.append(head, ...rows.map((row) => {
    const line = element("tr");
    line.append(...names.map((name) => element("td", text(name, row[name]))));
    return line;
  }));
  const scroll = element("div", "", "ha-scroll");
  scroll.append(result);
  return scroll;
}

function text(name, value) {
  if (value === null || value === undefined) return "–";
  if (TIMES.has(name)) return absolute(value);
  if (name.endsWith("_ms")) return duration(value / 1000);
  if (name.endsWith("bytes")) return bytes(value);
  if (name === "delete_ratio") return percent(value);
  if (name === "task") return [value.dag_id, value.task_id, value.run_id].filter(Boolean).join(" ");
  return typeof value === "object" ? Object.values(value).join(" ") : String(value);
}

function box(told) {
  const result = element("div", "", "ha-box ha-box-error");
  result.setAttribute("role", "alert");
  result.append(element("strong", told.title), element("p", [told.message, told.remedy].filter(Boolean).join(" ")));
  if (told.kind === "login") {
    const link = element("a", "Sign in again", "ha-link");
    link.href = new URL(`auth/login?next=${encodeURIComponent(location.href)}`, BASE).href;
    result.append(link);
  }
  return result;
}

/** Everything that comes from a metastore is a text node, never markup. */
function element(name, content = "", kind = "") {
  const result = document.createElement(name);
  if (content) result.textContent = content;
  if (kind) result.className = kind;
  return result;
}
