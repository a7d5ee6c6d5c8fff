// Small parts that all views are made of: Airflow's own components (Chakra) where it shares them, plain HTML otherwise.

import { airflowUrl } from "./api.js";
import { NOTHING, absolute, duration, relative, shorten } from "./format.js";
import { usePage, useTick } from "./hooks.js";

const { React, ChakraUI: Chakra = {} } = globalThis;
const { useEffect, useRef, useState } = React;
export const h = React.createElement;

const COLORS = { ok: "green", good: "green", warning: "orange", error: "red", info: "blue", neutral: "gray" };

/** A button. `kind`: "plain" (default), "danger", "primary", "ghost". */
export function Button({ kind = "plain", children, busy = false, small = false, ...rest }) {
  const props = { type: "button", ...rest, disabled: rest.disabled || busy, "aria-busy": busy || undefined };
  if (!Chakra.Button) return h("button", { ...props, className: `ha-button ha-button-${kind}${small ? " ha-button-small" : ""}` }, children);
  const looks = {
    plain: { variant: "outline" }, row: { variant: "outline" }, ghost: { variant: "ghost" },
    primary: { variant: "solid", colorPalette: "brand" }, danger: { variant: "solid", colorPalette: "red" },
  }[kind];
  return h(Chakra.Button, { size: small ? "2xs" : "xs", ...looks, ...props }, children);
}

/** A word with a colour that says how it stands. */
export function Badge({ tone = "neutral", children, title }) {
  if (!Chakra.Badge) return h("span", { className: `ha-badge ha-${tone}`, title }, children);
  return h(Chakra.Badge, { colorPalette: COLORS[tone], size: "sm", variant: "subtle", title }, children);
}

/** A field for text that is told when typing pauses. */
export function TextField({ label, value, onChange, width = 150, ...rest }) {
  const [text, setText] = useState(value);
  const timer = useRef(null);
  useEffect(() => setText(value), [value]);
  useEffect(() => () => clearTimeout(timer.current), []);
  const props = {
    ...rest, value: text, placeholder: label, "aria-label": label, style: { width },
    onChange: (event) => {
      const typed = event.target.value;
      setText(typed);
      clearTimeout(timer.current);
      timer.current = setTimeout(() => onChange(typed.trim()), 350);
    },
  };
  return Chakra.Input ? h(Chakra.Input, { size: "xs", ...props }) : h("input", { type: "text", ...props, className: "ha-input" });
}

/** A choice of a few: `options` are `[value, text]`. */
export function Select({ label, value, options, onChange }) {
  const props = { value, "aria-label": label, onChange: (event) => onChange(event.target.value) };
  const items = options.map(([key, text]) => h("option", { key, value: key }, text));
  if (!Chakra.NativeSelect?.Root) return h("select", { ...props, className: "ha-input" }, items);
  return h(Chakra.NativeSelect.Root, { size: "xs", width: "auto" },
    h(Chakra.NativeSelect.Field, props, items), h(Chakra.NativeSelect.Indicator));
}

/** A heading with what belongs to its right. */
export function Section({ title, aside, children, id }) {
  return h("section", { className: "ha-section", "aria-label": title, id },
    h("div", { className: "ha-section-head" }, h("h2", null, title), aside && h("div", { className: "ha-aside" }, aside)),
    children);
}

/** A time: how long ago, in full when pointed at. `clock`: see useClock. */
export function Time({ at, clock = 0 }) {
  const tick = useTick();
  if (at === null || at === undefined) return muted(NOTHING);
  return h("time", { dateTime: new Date(at).toISOString(), title: absolute(at) }, relative(at, tick + clock));
}

/** A column of times. */
export function timed(id, title) {
  return { id, title, cell: (row, { clock }) => h(Time, { at: row[id], clock }) };
}

/** An age that goes on: 3 min 20 s. */
export function Age({ since, clock = 0 }) {
  const tick = useTick();
  if (since === null || since === undefined) return muted(NOTHING);
  return h("time", { dateTime: new Date(since).toISOString(), title: `since ${absolute(since)}` },
    duration(Math.max(0, Math.floor((tick + clock - since) / 1000))));
}

/** A text in one line, in full when pointed at. */
export const clip = (text) => h("span", { className: "ha-clip", title: text ?? "" }, text ?? "");

/** What matters less than the rest of its line. */
export const muted = (text, title) => h("span", { className: "ha-muted", title }, text);

/** A link to another part of this page; `to` is a query string. */
export function PageLink({ to, children, ...rest }) {
  const { go } = usePage();
  const onClick = (event) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey || event.button !== 0) return;
    event.preventDefault();
    go(to);
  };
  return h("a", { ...rest, href: `${location.pathname}${to || ""}`, onClick, className: `ha-link ${rest.className ?? ""}` }, children);
}

/** The DAG run, task and try behind something, each a link into Airflow. */
export function TaskLink({ task }) {
  if (!task) return muted(NOTHING);
  const link = (href, text, title) => (href
    ? h("a", { className: "ha-link", href: airflowUrl(href), title }, text)
    : h("span", { title }, text));
  const mapped = task.map_index !== null && task.map_index >= 0 ? `[${task.map_index}]` : "";
  return h("span", { className: "ha-task" },
    link(task.dag_url, shorten(task.dag_id, 32), `DAG ${task.dag_id}`),
    task.task_id && muted("."),
    task.task_id && h("span", { title: task.task_id }, shorten(task.task_id, 28) + mapped),
    task.run_url && h(React.Fragment, null, " ", link(task.run_url, "run", `Run ${task.run_id}`)),
    task.log_url && h(React.Fragment, null, " ", link(task.log_url, task.try_number ? `try ${task.try_number} log` : "log",
      `Log of ${task.task_id}${task.try_number ? `, try ${task.try_number}` : ""}`)));
}

/** The object of a lock, lease or compaction, as a link to its table. */
export function ObjectLink({ row }) {
  const { connection } = usePage();
  const name = row.object ?? [row.database, row.table].filter(Boolean).join(".");
  if (!row.table) return h("span", { title: name }, shorten(name, 56));
  const query = new URLSearchParams({ view: "tables", conn_id: connection, database: row.database, table: row.table });
  return h(PageLink, { to: `?${query}`, title: name }, shorten(name, 56));
}

/** What is shown instead of data: an error that names its remedy, a line while the first answer is awaited, or nothing. */
export function Status({ state, empty, isEmpty }) {
  const parts = [];
  if (state.error) parts.push(h(ErrorBox, { key: "error", told: state.error, kept: state.data !== null }));
  if (state.data === null && !state.error) parts.push(h(Waiting, { key: "waiting" }));
  if (state.data !== null && isEmpty) parts.push(h("p", { key: "empty", className: "ha-empty" }, empty));
  return parts.length ? h(React.Fragment, null, parts) : null;
}

/** Lines that stand for rows to come; said to a screen reader as one sentence. */
export function Waiting() {
  return h("div", { className: "ha-waiting", role: "status", "aria-label": "Loading" },
    [92, 78, 85, 60].map((width) => h("span", { key: width, style: { width: `${width}%` } })));
}

/** An error, told. An expired login is told by the page itself, above everything. */
export function ErrorBox({ told, kept = false }) {
  if (told.kind === "login") return null;
  return h("div", { className: "ha-box ha-box-error", role: "alert" },
    h("strong", null, told.title),
    told.message && h("p", null, told.message),
    (told.remedy || kept) && h("p", { className: "ha-muted" }, [told.remedy, kept && "Below is what was known last."].filter(Boolean).join(" ")));
}

/** Names and values of one thing. Pairs `[name, value]`; those without a value are left out. */
export function Facts({ pairs }) {
  return h("dl", { className: "ha-facts" }, pairs.filter(([, value]) => value !== null && value !== undefined && value !== "" && value !== false)
    .map(([name, value]) => h("div", { key: name }, h("dt", null, name), h("dd", null, value))));
}
