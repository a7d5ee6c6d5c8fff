// Charts as numbers: scales, ticks, paths. Pure functions; views/charts.js draws them.

const STEPS = [1, 2, 5, 10];
const TIMES = [60, 300, 900, 1800, 3600, 10800, 21600, 43200, 86400, 172800, 604800, 2592000].map((s) => s * 1000);

/** A linear scale from [d0, d1] to [r0, r1]; an empty domain maps to the middle. */
export function scale(d0, d1, r0, r1) {
  return (value) => (d1 === d0 ? (r0 + r1) / 2 : r0 + ((value - d0) / (d1 - d0)) * (r1 - r0));
}

/** Round numbers from 0 to at least `most`, about `wanted` of them. `binary` steps by powers of two (bytes). */
export function ticks(most, wanted = 4, binary = false) {
  if (!(most > 0)) return [0, 1];
  const rough = most / wanted;
  let step;
  if (binary && rough >= 1) step = 2 ** Math.ceil(Math.log2(rough));
  else {
    const power = 10 ** Math.floor(Math.log10(rough));
    step = power * STEPS.find((one) => power * one >= rough * 0.999);
  }
  const result = [0];
  while (result[result.length - 1] < most) result.push(Number((result.length * step).toPrecision(12)));
  return result;
}

/** Times (epoch ms) on round hours or days of UTC between two times, at most `most` of them. */
export function timeTicks(first, last, most = 6) {
  const step = TIMES.find((one) => (last - first) / one <= most) ?? TIMES[TIMES.length - 1];
  const result = [];
  for (let time = Math.ceil(first / step) * step; time <= last; time += step) result.push(time);
  return result;
}

/** A label for a tick: the time of day, or the day where ticks are days apart. */
export function timeLabel(time, span) {
  const text = new Date(time).toISOString();
  return span > 2 * 86400000 ? text.slice(5, 10) : text.slice(11, 16);
}

/** The path of a line through points `[x, y]`; a null y interrupts it. */
export function linePath(points) {
  let path = "", pen = false;
  for (const [x, y] of points) {
    if (y === null || Number.isNaN(y)) { pen = false; continue; }
    path += `${pen ? "L" : "M"}${round(x)} ${round(y)}`;
    pen = true;
  }
  return path;
}

/** Points stacked on each other: for each layer `[x, low, high]` per point. */
export function stacked(points, keys) {
  const base = points.map(() => 0);
  return keys.map((key) => points.map((point, i) => {
    const low = base[i];
    base[i] += point[key] ?? 0;
    return [point.time, low, base[i]];
  }));
}

/** The closed path of a stacked layer, already in pixels: `[x, yLow, yHigh]`. */
export function areaPath(layer) {
  if (!layer.length) return "";
  const top = layer.map(([x, , y]) => `${round(x)} ${round(y)}`);
  const bottom = layer.map(([x, y]) => `${round(x)} ${round(y)}`).reverse();
  return `M${top.join("L")}L${bottom.join("L")}Z`;
}

/** Index of the point whose time is nearest; -1 if there is none. Points are in order of time. */
export function nearest(points, time) {
  let best = -1, distance = Infinity;
  points.forEach((point, i) => {
    const away = Math.abs(point.time - time);
    if (away < distance) { best = i; distance = away; }
  });
  return best;
}

function round(value) {
  return Math.round(value * 10) / 10;
}
