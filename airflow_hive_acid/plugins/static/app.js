// The page itself: connection, views, what happened, and the question before an action.

import { BASE, loginUrl } from "./api.js";
import { Confirm } from "./dialog.js";
import { Page, useAddress, useData, useTick } from "./hooks.js";
import { Badge, Button, ErrorBox, PageLink, Select, Waiting, h, muted } from "./kit.js";
import { viewQuery } from "./state.js";
import { shortDuration } from "./format.js";
import { Compactions } from "./views/compactions.js";
import { Leases } from "./views/leases.js";
import { Locks } from "./views/locks.js";
import { Overview } from "./views/overview.js";
import { Replication } from "./views/replication.js";
import { Tables } from "./views/tables.js";
import { Transactions } from "./views/transactions.js";

const { React } = globalThis;
const { Component, useCallback, useEffect, useMemo, useRef, useState } = React;

const VIEWS = [
  ["overview", "Overview", Overview],
  ["transactions", "Transactions", Transactions],
  ["locks", "Locks", Locks],
  ["compactions", "Compactions", Compactions],
  ["leases", "Leases", Leases],
  ["tables", "Tables", Tables],
  ["replication", "Replication", Replication],
];
/** A notice of something done goes by itself after so many milliseconds. */
const NOTICE = 12000;

let settled = false;

/**
 * What Airflow shows.
 *
 * Airflow draws a module's component through a lazy wrapper at first, and directly from the next navigation on; React
 * takes that for another component and begins anew, and whoever was typing into a filter lost the focus. So the first
 * navigation is one of ours, to where we are, before there is anything to lose.
 */
export function App() {
  const [search, go] = useAddress();
  const [ready, setReady] = useState(settled);
  useEffect(() => {
    if (ready) return undefined;
    settled = true;
    go(search ? `?${search}` : "", true);
    // Where that began nothing anew, it goes on here.
    const timer = setTimeout(() => setReady(true), 50);
    return () => clearTimeout(timer);
  }, []);
  return h("div", { className: "ha" }, ready ? h(Guard, null, h(Shell)) : h(Waiting));
}

/** What went wrong while drawing is told, with the way on; the rest of Airflow is not touched. */
class Guard extends Component {
  state = { broken: null };

  static getDerivedStateFromError(broken) {
    return { broken };
  }

  render() {
    if (!this.state.broken) return this.props.children;
    return h("div", { className: "ha-box ha-box-error", role: "alert" },
      h("strong", null, "This view could not be drawn"),
      h("p", null, String(this.state.broken.message ?? this.state.broken)),
      h("p", null, h("a", { className: "ha-link", href: location.pathname }, "Overview"), " · ",
        h("a", { className: "ha-link", href: new URL("hive-acid/", BASE).href }, "Plain page")));
  }
}

function Shell() {
  const [search, go] = useAddress();
  const [live, setLive] = useState(true);
  const [notices, setNotices] = useState([]);
  const [question, setQuestion] = useState(null);
  const [trouble, setTrouble] = useState(null);
  const [at, setAt] = useState(null);
  const ended = useRef(null), number = useRef(0);
  const known = useData("connections", {}, { interval: 60000 });

  const params = new URLSearchParams(search);
  const view = VIEWS.find(([name]) => name === params.get("view")) ?? VIEWS[0];
  const items = known.data?.items ?? [];
  const wanted = params.get("conn_id");
  const connection = wanted !== null
    ? items.find((one) => one.conn_id === wanted)
    : items.find((one) => one.default) ?? items[0];

  const answered = useCallback((told) => {
    if (told === null) setAt(Date.now());
    setTrouble((before) => (before?.kind === told?.kind ? before : told));
  }, []);
  const notify = useCallback((text, tone = "ok") => {
    const id = ++number.current;
    setNotices((all) => [...all.slice(-2), { id, text, tone }]);
    setTimeout(() => setNotices((all) => all.filter((one) => one.id !== id)), NOTICE);
  }, []);
  const confirm = useCallback((asked, onDone) => { ended.current = onDone; setQuestion(asked); }, []);
  const page = useMemo(() => ({
    connection: connection?.conn_id ?? "", canAct: connection?.can_act ?? false, live, search, go, notify, confirm, answered,
  }), [connection?.conn_id, connection?.can_act, live, search, go, notify, confirm, answered]);

  useEffect(() => { document.title = `${view[1]} · Hive ACID`; }, [view]);
  const onEnd = (answer) => {
    setQuestion(null);
    if (answer) notify(answer.message, answer.done || answer.already ? "ok" : "info");
    ended.current?.(answer);
  };

  return h(Page.Provider, { value: page },
    h("header", { className: "ha-header" },
      h("h1", { tabIndex: -1 }, "Hive ACID"),
      items.length > 1 && h(Select, {
        label: "Connection", value: connection?.conn_id ?? "",
        options: items.map((one) => [one.conn_id, one.conn_id]),
        onChange: (conn) => go(viewQuery(view[0], conn)),
      }),
      connection && h("span", { className: "ha-muted ha-metastore", title: connection.metastore }, connection.metastore),
      h("span", { className: "ha-spring" }),
      connection && !connection.can_act && h(Badge, { title: "Your role may look, and change nothing" }, "read only"),
      h(Live, { live, setLive, trouble, at })),
    h("nav", { className: "ha-tabs", "aria-label": "Views" }, VIEWS.map(([name, title]) => h(PageLink, {
      key: name, to: viewQuery(name, wanted ?? "") || "?", "aria-current": name === view[0] ? "page" : undefined, className: "ha-tab",
    }, title))),
    h("div", { className: "ha-notices", "aria-live": "polite" }, notices.map((one) => h("div", {
      key: one.id, className: `ha-notice ha-notice-${one.tone}`,
    }, h("span", null, one.text), h("button", {
      type: "button", "aria-label": "Dismiss", onClick: () => setNotices((all) => all.filter((other) => other.id !== one.id)),
    }, "×")))),
    (trouble?.kind === "login" || known.error?.kind === "login") && h("div", { className: "ha-box ha-box-error", role: "alert" },
      h("strong", null, "Your login has expired"),
      h("p", null, "What is shown is not renewed any more. ", h("a", { className: "ha-link", href: loginUrl() }, "Sign in again"), " and you come back to this page.")),
    h(Body, { known, connection, wanted, view }),
    question && h(Confirm, { question, onEnd }));
}

function Body({ known, connection, wanted, view }) {
  if (known.data === null) return known.error ? h(ErrorBox, { told: known.error }) : h(Waiting);
  if (!connection) {
    return h("div", { className: "ha-box" }, h("strong", null, wanted ? `There is no connection ${wanted}` : "No connection yet"),
      h("p", null, wanted ? h(PageLink, { to: "?" }, "Go to the default one")
        : "Add a connection of type Hive ACID with the metastore's database and the warehouse; docs/how-to/dags/run-sql.md says how."));
  }
  if (connection.error) {
    return h("div", { className: "ha-box ha-box-error", role: "alert" },
      h("strong", null, `The connection ${connection.conn_id} cannot be used`), h("p", null, connection.error));
  }
  return h("main", { key: `${connection.conn_id} ${view[0]}`, className: "ha-main" }, h(Guard, null, h(view[2])));
}

/** Whether the page renews itself, and since when it has not; a button to hold it still. */
function Live({ live, setLive, trouble, at }) {
  const tick = useTick();
  const since = at === null ? null : Math.max(0, Math.floor((tick - at) / 1000));
  const text = trouble ? "retrying" : !live ? "paused" : since === null ? "loading" : since < 15 ? "live" : `${shortDuration(since)} old`;
  return h("span", { className: "ha-live" },
    h("span", { className: `ha-dot ${trouble ? "ha-dot-error" : live ? "ha-dot-ok" : ""}`, "aria-hidden": true }),
    muted(text),
    h(Button, { kind: "ghost", onClick: () => setLive(!live), "aria-pressed": !live }, live ? "Pause" : "Resume"));
}
