// Locks: as a list, or drawn as the graph of who waits for whom.

import { under } from "../api.js";
import { count, plural } from "../format.js";
import { useClock, useData, useFilters, usePage } from "../hooks.js";
import { Button, Select, Status, TextField, h } from "../kit.js";
import { List } from "../table.js";
import { WaitGraph } from "./graph_view.js";
import { LOCK_COLUMNS } from "./lock_columns.js";

const { React } = globalThis;
const { useMemo } = React;
const DEFAULTS = { view: "locks", graph: "", lock_id: "", txn_id: "", state: "", type: "", database: "", table: "", partition: "", user: "", node: "" };
const MODES = [["", "all modes"], ["shared_read", "shared read"], ["shared_write", "shared write"], ["excl_write", "exclusive write"], ["exclusive", "exclusive"]];

export function Locks() {
  const [values, change] = useFilters(DEFAULTS);
  const drawn = values.graph === "1";
  return h(React.Fragment, null,
    h("div", { className: "ha-filters", role: "search", "aria-label": "Filters" },
      h("div", { className: "ha-switch", role: "group", "aria-label": "Show as" },
        h(Button, { kind: drawn ? "ghost" : "plain", "aria-pressed": !drawn, onClick: () => change({ graph: "", node: "" }) }, "List"),
        h(Button, { kind: drawn ? "plain" : "ghost", "aria-pressed": drawn, onClick: () => change({ graph: "1" }) }, "Who waits for whom")),
      !drawn && h(Select, { label: "State", value: values.state, onChange: (state) => change({ state }),
        options: [["", "all states"], ["waiting", "waiting"], ["acquired", "acquired"]] }),
      !drawn && h(Select, { label: "Mode", value: values.type, onChange: (type) => change({ type }), options: MODES }),
      h(TextField, { label: "Database", value: values.database, onChange: (database) => change({ database }, true) }),
      h(TextField, { label: "Table", value: values.table, onChange: (table) => change({ table }, true) }),
      !drawn && h(TextField, { label: "Partition", value: values.partition, onChange: (partition) => change({ partition }, true) }),
      !drawn && h(TextField, { label: "User", value: values.user, onChange: (user) => change({ user }, true), width: 110 }),
      !drawn && h(TextField, { label: "Txn", value: values.txn_id, onChange: (txn_id) => change({ txn_id }, true), width: 80 }),
      !drawn && h(TextField, { label: "Lock", value: values.lock_id, onChange: (lock_id) => change({ lock_id }, true), width: 80 })),
    drawn ? h(Drawn, { values, change }) : h(Listed, { values, change }));
}

function Listed({ values, change }) {
  const { connection } = usePage();
  const { state, type, database, table, partition, txn_id, lock_id, user, cursor } = values;
  const found = useData(under(connection, "locks"), { state, type, database, table, partition, txn_id, lock_id, user, cursor });
  const clock = useClock(found);
  const context = useMemo(() => ({ clock, connection, reload: found.reload }), [clock, connection, found.reload]);
  const filtered = [state, type, database, table, partition, txn_id, lock_id, user].some(Boolean);
  return h(List, { label: "Locks", state: found, columns: LOCK_COLUMNS, context, filters: [values, change], noun: "locks",
    empty: lock_id || txn_id ? "It is gone: nothing holds or waits for a lock under this id now." : filtered ? "No lock fits these filters." : "There are no locks." });
}

function Drawn({ values, change }) {
  const { connection } = usePage();
  const found = useData(under(connection, "locks/graph"), { database: values.database, table: values.table, limit: 2000 });
  const data = found.data;
  return h(React.Fragment, null,
    h(Status, { state: found, isEmpty: data !== null && data.nodes.length === 0, empty: "Nobody waits for a lock." }),
    data !== null && data.nodes.length > 0 && h(React.Fragment, null,
      h("p", { className: "ha-graph-sum" }, `${plural(data.waiters, "request waits", "requests wait")}. `,
        data.cycles.length > 0 && h("strong", { className: "ha-bad" },
          `${plural(data.cycles.length, "deadlock")}: ${data.cycles[0].map((id) => id.replace(":", " ")).join(" → ")} → … `),
        data.truncated && `The first ${count(data.nodes.length)} of ${count(data.total_nodes)} are drawn; filter by database and table for the others.`),
      h(WaitGraph, { graph: data, clock: data.now - found.at, selected: values.node, select: (node) => change({ node }, true) })));
}
