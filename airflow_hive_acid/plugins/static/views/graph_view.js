// The wait-for graph as SVG: blockers on the left, who waits for them to the right, large queues as one box to open.

import { NOTHING, count, duration, plural, shorten } from "../format.js";
import { NODE, OPENED, folded, fromServer, layout } from "../graph.js";
import { useTick } from "../hooks.js";
import { Button, Facts, Section, TaskLink, h, muted } from "../kit.js";
import { NodeLink } from "./transactions.js";

const { React } = globalThis;
const { useEffect, useMemo, useRef, useState } = React;

export function WaitGraph({ graph, clock, selected, select }) {
  const [opened, setOpened] = useState(() => new Set());
  const { nodes, edges, width, height } = useMemo(() => {
    const all = fromServer(graph);
    const small = folded(all.nodes, all.edges, opened);
    return layout(small.nodes, small.edges);
  }, [graph, opened]);
  const chosen = nodes.find((node) => node.id === selected) ?? null;
  const toggle = (id) => setOpened((before) => {
    const after = new Set(before);
    if (!after.delete(id)) after.add(id);
    return after;
  });
  const near = useMemo(() => {
    if (!chosen) return null;
    return new Set([chosen.id, ...edges.filter((e) => e.from === chosen.id).map((e) => e.to), ...edges.filter((e) => e.to === chosen.id).map((e) => e.from)]);
  }, [chosen, edges]);
  return h("div", { className: "ha-graph" },
    h("div", { className: "ha-graph-box ha-scroll", tabIndex: 0, role: "region", "aria-label": "Who waits for whom, scrolls" },
      h("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "group", "aria-label": "Who waits for whom" },
        h("defs", null, ["", "-bad"].map((kind) => h("marker", {
          key: kind, id: `ha-arrow${kind}`, viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 7, markerHeight: 7, orient: "auto-start-reverse",
        }, h("path", { d: "M0 0.5L8 4L0 7.5Z", className: `ha-arrow${kind}` })))),
        edges.map((edge) => h(Edge, { key: `${edge.from} ${edge.to}`, edge, faded: near && !(edge.from === chosen.id || edge.to === chosen.id) })),
        nodes.map((node) => h(Node, {
          key: node.id, node, clock, chosen: node === chosen, faded: near !== null && !near.has(node.id),
          onSelect: () => select(node.id === selected ? "" : node.id),
        })))),
    chosen && h(Chosen, { node: chosen, clock, edges, toggle, close: () => select("") }));
}

function Edge({ edge, faded }) {
  const bad = edge.cycle;
  return h("path", {
    d: edge.path, className: `ha-edge${bad ? " ha-edge-bad" : ""}${faded ? " ha-faded" : ""}`,
    markerEnd: `url(#ha-arrow${bad ? "-bad" : ""})`, style: edge.count > 1 ? { strokeWidth: Math.min(5, 1.5 + Math.log10(edge.count)) } : undefined,
  }, h("title", null, `${edge.count > 1 ? `${count(edge.count)} wait` : "waits"} for ${edge.object}`));
}

function Node({ node, clock, chosen, faded, onSelect }) {
  const now = useTick() + clock;
  const box = useRef(null);
  const text = node.group ? groupText(node) : nodeText(node, now);
  const kind = node.cycle || node.in_cycle ? "bad" : node.group ? "group" : node.waiting ? "waits" : "holds";
  useEffect(() => { if (chosen) box.current?.scrollIntoView({ block: "nearest", inline: "nearest" }); }, [chosen]);
  return h("g", {
    ref: box, transform: `translate(${node.x} ${node.y})`, tabIndex: 0, role: "button", "aria-pressed": chosen, "data-node": node.id,
    "aria-label": text.join(", "), className: `ha-node ha-node-${kind}${chosen ? " ha-node-chosen" : ""}${faded ? " ha-faded" : ""}`,
    onClick: onSelect,
    onKeyDown: (event) => { if (event.key === "Enter" || event.key === " ") { event.preventDefault(); onSelect(); } },
  },
    node.group && h("rect", { x: 5, y: -5, width: NODE.width - 10, height: NODE.height, rx: 6, className: "ha-node-shadow" }),
    h("rect", { width: NODE.width, height: NODE.height, rx: 6 }),
    h("text", { x: 12, y: 18, className: "ha-node-title" }, shorten(text[0], 27)),
    h("text", { x: 12, y: 34, className: "ha-node-text" }, shorten(text[1], 31)),
    h("title", null, text.join("\n")));
}

function nodeText(node, now) {
  const name = node.id.replace(":", " ");
  const age = node.started ? ` · ${duration(Math.max(0, Math.floor((now - node.started) / 1000)))}` : "";
  const what = node.task ? [node.task.dag_id, node.task.task_id].filter(Boolean).join(".") : node.user || node.agent_info || "";
  return [name + age, what, ...(node.waiting ? [`waits for ${node.objects.join(", ")}`] : []), ...(node.blocks ? [`${plural(node.blocks, "request waits", "requests wait")} for it`] : [])];
}

function groupText(node) {
  return [`${count(node.count)} ${node.opened ? "more " : ""}${node.waiting ? "wait" : "hold"}`, objectsOf(node)];
}

/** What a group is about: its object, or how many there are. */
function objectsOf(node) {
  return node.objects.length > 3 ? plural(node.objects.length, "object") : node.objects.join(", ") || NOTHING;
}

function Chosen({ node, clock, edges, toggle, close }) {
  const now = useTick() + clock;
  const aside = h(Button, { kind: "ghost", onClick: close }, "Close");
  if (node.group) {
    return h(Section, { title: `${plural(node.count, "request")} on ${objectsOf(node)}`, aside },
      h("p", null, `${node.waiting ? "They wait one behind the other." : "They hold what others wait for."} `,
        h(Button, { onClick: () => toggle(node.id) }, node.opened ? "Fold them again" : `Draw the first ${Math.min(OPENED, node.count)}`)),
      h("ul", { className: "ha-list ha-members" }, node.members.slice(0, 50).map((one) => h("li", { key: one.id },
        h(NodeLink, { id: one.id }), h("span", { className: "ha-muted" }, ` ${nodeText(one, now)[1]}`)))),
      node.count > 50 && h("p", { className: "ha-muted" }, `… and ${count(node.count - 50)} more; the list of locks has them all.`));
  }
  const [kind, number] = node.id.split(":");
  const on = (from, to) => edges.filter((edge) => edge[from] === node.id).map((edge) => h("li", { key: `${edge[to]} ${edge.object}` },
    /^(txn|lock):\d+$/.test(edge[to]) ? h(NodeLink, { id: edge[to] }) : "those in the box", muted(` on ${edge.object}`)));
  const waits = on("from", "to"), waited = on("to", "from");
  return h(Section, { title: `${kind === "txn" ? "Txn" : "Lock"} ${number}`, aside: [h(NodeLink, { key: "link", id: node.id }), h(React.Fragment, { key: "close" }, aside)] },
    h(Facts, { pairs: [
      ["User", node.user], ["Age", node.started && duration(Math.max(0, Math.floor((now - node.started) / 1000)))], ["Task", node.task && h(TaskLink, { task: node.task })],
      ["Agent", node.agent_info], ["In its way", waits.length > 0 && h("ul", { className: "ha-list" }, waits)],
      ["Right behind it", waited.length > 0 && h("ul", { className: "ha-list" }, waited.slice(0, 12))],
      ["Blocks", node.blocks ? plural(node.blocks, "request") : null], ["Deadlock", node.in_cycle ? "it is part of one" : null],
    ] }));
}
