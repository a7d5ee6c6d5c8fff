// Charts in plain SVG: layers over time with compactions marked, and bars of how long compactions took.

import { areaPath, linePath, nearest, scale, stacked, ticks, timeLabel, timeTicks } from "../chart.js";
import { NOTHING, absolute, count, duration } from "../format.js";
import { h, muted } from "../kit.js";

const { React } = globalThis;
const { useLayoutEffect, useRef, useState } = React;
const HEIGHT = 190, LEFT = 62, RIGHT = 12, TOP = 10, BOTTOM = 24;

/** The width there is, renewed when the window changes. */
function useWidth() {
  const box = useRef(null);
  const [width, setWidth] = useState(0);
  useLayoutEffect(() => {
    const observer = new ResizeObserver(([entry]) => setWidth(Math.floor(entry.contentRect.width)));
    observer.observe(box.current);
    return () => observer.disconnect();
  }, []);
  return [box, width];
}

/**
 * Values over time, stacked or as lines.
 *
 * @param layers `[key, name, class]` of the points' fields.
 * @param marks `{time, text}` drawn as vertical lines.
 */
export function TimeChart({ label, points, layers, format, binary = false, stack = false, marks = [] }) {
  const [box, width] = useWidth();
  const [pointed, setPointed] = useState(null);
  const first = points[0].time, last = points[points.length - 1].time;
  const total = (point) => (stack ? layers.reduce((sum, [key]) => sum + (point[key] ?? 0), 0) : Math.max(...layers.map(([key]) => point[key] ?? 0)));
  const rows = ticks(Math.max(0, ...points.map(total)), 4, binary);
  const x = scale(first, last, LEFT, Math.max(LEFT + 1, width - RIGHT)), y = scale(0, rows[rows.length - 1], HEIGHT - BOTTOM, TOP);
  const point = pointed === null ? points.length - 1 : pointed;
  const move = (event) => {
    const at = event.clientX - box.current.getBoundingClientRect().left;
    setPointed(nearest(points, scale(LEFT, Math.max(LEFT + 1, width - RIGHT), first, last)(at)));
  };
  const keys = (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!step) return;
    event.preventDefault();
    setPointed(Math.min(points.length - 1, Math.max(0, point + step)));
  };
  const areas = stack ? stacked(points, layers.map(([key]) => key)) : null;
  return h("figure", { className: "ha-chart", ref: box },
    h("figcaption", null, h("b", null, label), h("span", { className: "ha-legend" }, layers.map(([key, name, kind]) => h("span", { key },
      h("i", { className: `ha-swatch ${kind}`, "aria-hidden": true }), `${name} `, h("b", null, format(points[point][key]))))),
      h("span", { className: "ha-muted", "aria-live": "polite" }, absolute(points[point].time))),
    width > 0 && h("svg", { width, height: HEIGHT, tabIndex: 0, role: "img", "aria-label": `${label}; arrow keys go from one measurement to the next`,
      onMouseMove: move, onMouseLeave: () => setPointed(null), onKeyDown: keys },
      h(Grid, { rows, y, width, format }), h(TimeAxis, { first, last, x, width }),
      marks.filter((mark) => mark.time >= first && mark.time <= last).map((mark) => h("line", {
        key: `${mark.time} ${mark.text}`, x1: x(mark.time), x2: x(mark.time), y1: TOP, y2: HEIGHT - BOTTOM, className: "ha-mark",
      }, h("title", null, mark.text))),
      layers.map(([key, , kind], i) => (stack
        ? h("path", { key, className: `ha-area ${kind}`, d: areaPath(areas[i].map(([at, low, high]) => [x(at), y(low), y(high)])) })
        : h("path", { key, className: `ha-line ${kind}`, d: linePath(points.map((one) => [x(one.time), one[key] === null ? null : y(one[key])])) }))),
      points.length === 1 && layers.map(([key, , kind]) => h("circle", { key, cx: x(first), cy: y(points[0][key] ?? 0), r: 3, className: `ha-spot ${kind}` })),
      pointed !== null && h("line", { x1: x(points[point].time), x2: x(points[point].time), y1: TOP, y2: HEIGHT - BOTTOM, className: "ha-cursor" })));
}

/** How long compactions took: a bar up to the longest, its solid part up to the mean. */
export function DurationChart({ buckets, hours }) {
  const [box, width] = useWidth();
  const step = hours <= 48 ? 3600000 : 86400000;
  const kinds = [...new Set(buckets.map((one) => `${one.type} ${one.state}`))].sort();
  const starts = buckets.map((one) => one.start);
  const first = Math.min(...starts), last = Math.max(...starts) + step;
  const most = Math.max(1000, ...buckets.map((one) => one.max_ms ?? 0));
  const rows = ticks(most / 1000, 3).map((value) => value * 1000);
  const span = Math.max(last - first, step * 12);
  const x = scale(last - span, last, LEFT, Math.max(LEFT + 1, width - RIGHT)), y = scale(0, rows[rows.length - 1], 130 - BOTTOM, TOP);
  const slot = x(first + step) - x(first), bar = Math.max(3, Math.min(18, (slot - 4) / Math.max(1, kinds.length)));
  return h("figure", { className: "ha-chart", ref: box },
    h("figcaption", null, h("b", null, "How long compactions took"), muted("solid: mean, pale: longest"),
      h("span", { className: "ha-legend" }, kinds.map((kind, i) => h("span", { key: kind }, h("i", { className: `ha-swatch ${colour(kind, i)}`, "aria-hidden": true }), kind)))),
    width > 0 && h("svg", { width, height: 130, role: "img", "aria-label": buckets.map(said).join("; ") },
      h(Grid, { rows, y, width, format: (value) => duration(value / 1000) }), h(TimeAxis, { first: last - span, last, x, width, height: 130 }),
      buckets.map((one) => {
        const i = kinds.indexOf(`${one.type} ${one.state}`), left = x(one.start) + (slot - bar * kinds.length) / 2 + i * bar;
        const pieces = [["ha-bar-max", one.max_ms], ["", one.mean_ms]];
        return h("g", { key: `${one.start} ${one.type} ${one.state}`, className: `ha-bar ${colour(kinds[i], i)}` }, h("title", null, said(one)),
          pieces.map(([kind, value]) => value !== null && h("rect", {
            key: kind, className: kind, x: left, width: Math.max(2, bar - 1), y: Math.min(y(value), y(0) - 2), height: Math.max(2, y(0) - y(value)),
          })));
      })));
}

function colour(kind, i) {
  return / (failed|refused|aborted)$/.test(kind) ? "ha-c-bad" : `ha-c${(i % 3) + 1}`;
}

function said(one) {
  const took = (value) => (value === null ? NOTHING : duration(value / 1000));
  return `${absolute(one.start)}: ${count(one.count)} ${one.type} ${one.state}, mean ${took(one.mean_ms)}, longest ${took(one.max_ms)}`;
}

function Grid({ rows, y, width, format }) {
  return h("g", { className: "ha-grid" }, rows.map((value) => h("g", { key: value },
    h("line", { x1: LEFT, x2: width - RIGHT, y1: y(value), y2: y(value) }),
    h("text", { x: LEFT - 8, y: y(value) + 4, textAnchor: "end" }, format(value)))));
}

function TimeAxis({ first, last, x, width, height = HEIGHT }) {
  const marks = timeTicks(first, last, Math.max(2, Math.floor(width / 110)));
  return h("g", { className: "ha-grid" }, marks.map((time) => h("text", { key: time, x: x(time), y: height - 6, textAnchor: "middle" }, timeLabel(time, last - first))));
}

export const SIZES = [["base_bytes", "base", "ha-c1"], ["insert_bytes", "deltas", "ha-c2"], ["delete_bytes", "delete deltas", "ha-c-bad"]];
export const NUMBERS = [["deltas", "all deltas", "ha-c2"], ["delete_deltas", "delete deltas among them", "ha-c-bad"]];
