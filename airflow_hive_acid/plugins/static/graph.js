// The wait-for graph: who waits for whom, made small enough to read and laid out in columns. Pure functions.
//
// Nodes are `{id, objects: [what it waits for, or what others want of it], …}`, edges `{from, to, object}`: `from` waits
// for `to`. Blockers stand on the left, who waits for them to the right. Waiters for the same objects become one group when the graph is large; what is
// part of a deadlock is never put away.

export const NODE = Object.freeze({ width: 196, height: 44, gapX: 72, gapY: 14, margin: 12 });
/** A graph of at most so many nodes in at most so many columns is drawn as it is. */
export const SMALL = 24;
export const FLAT = 8;
/** So many members of an opened group are drawn. */
export const OPENED = 20;

/** The strongly connected components with more than one node, or with an edge to itself: the deadlocks. */
export function cycles(nodes, edges) {
  const targets = neighbours(edges, "from", "to");
  const index = new Map(), low = new Map(), stack = [], onStack = new Set(), found = [];
  let next = 0;
  for (const { id } of nodes) if (!index.has(id)) walk(id);
  return found;

  // Tarjan's algorithm with a stack of its own: a queue of 2,000 is deeper than the engine's.
  function walk(start) {
    const work = [[start, 0]];
    while (work.length) {
      const frame = work[work.length - 1], [id, position] = frame;
      if (position === 0) {
        index.set(id, next); low.set(id, next); next += 1;
        stack.push(id); onStack.add(id);
      }
      const onward = targets.get(id) ?? [];
      if (position < onward.length) {
        frame[1] += 1;
        const target = onward[position];
        if (!index.has(target)) work.push([target, 0]);
        else if (onStack.has(target)) low.set(id, Math.min(low.get(id), index.get(target)));
        continue;
      }
      work.pop();
      if (work.length) {
        const parent = work[work.length - 1][0];
        low.set(parent, Math.min(low.get(parent), low.get(id)));
      }
      if (low.get(id) === index.get(id)) {
        const component = [];
        let member;
        do { member = stack.pop(); onStack.delete(member); component.push(member); } while (member !== id);
        if (component.length > 1 || onward.includes(id)) found.push(component);
      }
    }
  }
}

/**
 * The graph with its large parts folded into groups, the largest first, until it is small enough to read.
 *
 * @param opened ids of groups whose first OPENED members are drawn.
 * @returns `{nodes, edges, folded}`; a group is `{id, group: true, count, members, objects}`, an edge has a count.
 */
export function folded(nodes, edges, opened = new Set()) {
  const inCycle = new Set(cycles(nodes, edges).flat());
  const groups = atMost(alike(nodes, edges, inCycle), SMALL);
  const largest = [...groups.keys()].filter((key) => groups.get(key).length > 2)
    .sort((a, b) => groups.get(b).length - groups.get(a).length);
  const away = new Set();
  let total = nodes.length, drawn = null;
  for (const key of [...largest, null]) {
    // Depth is looked at only when the number is small: a queue of 2,000 need not be laid out to be put away.
    if (total <= SMALL || key === null) {
      drawn = withGroups(nodes, edges, groups, away, new Set(), inCycle);
      if (key === null || Math.max(0, ...columns(drawn.nodes, drawn.edges).values()) < FLAT) break;
    }
    away.add(key);
    total -= groups.get(key).length - 1;
  }
  return { ...(opened.size ? withGroups(nodes, edges, groups, away, opened, inCycle) : drawn), folded: away.size > 0 };
}

/** Waiters are alike if they wait for the same objects; blockers, if others want the same of them. */
function alike(nodes, edges, inCycle) {
  const waits = new Set(edges.map((edge) => edge.from)), groups = new Map();
  for (const node of nodes) {
    if (inCycle.has(node.id)) continue;
    const key = `${waits.has(node.id) ? "w" : "b"} ${objectsOf(node).join("\n")}`;
    if (!groups.has(key)) groups.set(key, []);
    groups.get(key).push(node);
  }
  return groups;
}

/** Where there are more kinds than can be read, the smallest are one kind of their own. */
function atMost(groups, most) {
  for (const kind of ["w", "b"]) {
    const keys = [...groups.keys()].filter((key) => key.startsWith(`${kind} `));
    if (keys.length <= most) continue;
    keys.sort((a, b) => groups.get(b).length - groups.get(a).length);
    const others = keys.slice(most - 1);
    const members = others.flatMap((key) => groups.get(key));
    for (const key of others) groups.delete(key);
    groups.set(`${kind} \n`, members);
  }
  return groups;
}

function withGroups(nodes, edges, groups, away, opened, inCycle) {
  const place = new Map(), result = [];
  const draw = (node) => { place.set(node.id, node.id); result.push({ ...node, cycle: inCycle.has(node.id) }); };
  for (const node of nodes) if (inCycle.has(node.id)) draw(node);
  for (const [key, members] of groups) {
    const shown = !away.has(key) ? members.length : opened.has(key) ? OPENED : 0;
    members.slice(0, shown).forEach(draw);
    const rest = members.slice(shown);
    if (!rest.length) continue;
    for (const node of rest) place.set(node.id, key);
    result.push({ id: key, group: true, waiting: key.startsWith("w "), count: rest.length, members: rest,
      objects: [...new Set(rest.flatMap(objectsOf))].sort(), opened: opened.has(key), cycle: false });
  }
  const moved = edges.map((edge) => ({ ...edge, from: place.get(edge.from), to: place.get(edge.to) }))
    .filter((edge) => edge.from !== undefined && edge.to !== undefined && edge.from !== edge.to);
  return { nodes: result, edges: counted(moved) };
}

/** The server's graph in the shape of this module: each node knows the objects it waits for or holds. */
export function fromServer(graph) {
  const wanted = new Map(), held = new Map();
  for (const edge of graph.edges) {
    add(wanted, edge.source, edge.object);
    add(held, edge.target, edge.object);
  }
  return {
    nodes: graph.nodes.map((node) => ({ ...node, objects: [...(wanted.get(node.id) ?? held.get(node.id) ?? [])] })),
    edges: graph.edges.map((edge) => ({ from: edge.source, to: edge.target, object: edge.object, cycle: edge.in_cycle })),
  };
}

function add(map, key, value) {
  if (!map.has(key)) map.set(key, new Set());
  map.get(key).add(value);
}

/**
 * Places for nodes and curves for edges.
 *
 * @returns `{nodes: [{…, x, y}], edges: [{…, path}], width, height}` in pixels.
 */
export function layout(nodes, edges) {
  const column = columns(nodes, edges);
  const rows = [];
  for (const node of nodes) (rows[column.get(node.id)] ??= []).push(node);
  const order = new Map();
  const targets = neighbours(edges, "from", "to");
  rows.forEach((members, c) => {
    if (c > 0) {
      const weight = new Map(members.map((node) => [node.id, middle(targets.get(node.id), order)]));
      members.sort((a, b) => weight.get(a.id) - weight.get(b.id));
    }
    members.forEach((node, i) => order.set(node.id, i));
  });
  const tallest = Math.max(0, ...rows.map((members) => members.length));
  const step = NODE.height + NODE.gapY;
  const places = new Map();
  rows.forEach((members, c) => members.forEach((node, i) => {
    places.set(node.id, {
      x: NODE.margin + c * (NODE.width + NODE.gapX),
      y: NODE.margin + i * step + ((tallest - members.length) * step) / 2,
    });
  }));
  return {
    nodes: nodes.map((node) => ({ ...node, ...places.get(node.id) })),
    edges: edges.filter((edge) => places.has(edge.from) && places.has(edge.to))
      .map((edge) => ({ ...edge, path: curve(places.get(edge.from), places.get(edge.to)) })),
    width: 2 * NODE.margin + rows.length * NODE.width + Math.max(0, rows.length - 1) * NODE.gapX,
    height: 2 * NODE.margin + tallest * step - (tallest ? NODE.gapY : 0),
  };
}

/** The column of each node: 0 waits for nobody, others stand right of all they wait for; a deadlock shares its first. */
function columns(nodes, edges) {
  const component = new Map(nodes.map((node) => [node.id, node.id]));
  for (const cycle of cycles(nodes, edges)) for (const id of cycle) component.set(id, cycle[0]);
  const between = edges.map((e) => ({ from: component.get(e.from), to: component.get(e.to) }))
    .filter((e) => e.from !== undefined && e.to !== undefined && e.from !== e.to);
  const waiting = new Map(), behind = neighbours(between, "to", "from"), at = new Map();
  for (const id of component.values()) { waiting.set(id, 0); at.set(id, 0); }
  for (const edge of between) waiting.set(edge.from, waiting.get(edge.from) + 1);
  const ready = [...waiting.keys()].filter((id) => waiting.get(id) === 0);
  while (ready.length) {
    const id = ready.pop();
    for (const next of behind.get(id) ?? []) {
      at.set(next, Math.max(at.get(next), at.get(id) + 1));
      waiting.set(next, waiting.get(next) - 1);
      if (waiting.get(next) === 0) ready.push(next);
    }
  }
  // Members of a cycle stand side by side, in turns, so that its edges can be seen.
  const result = new Map(), shift = new Map();
  for (const node of nodes) {
    const home = component.get(node.id), turn = shift.get(home) ?? 0;
    shift.set(home, turn + 1);
    result.set(node.id, at.get(home) + turn % 2);
  }
  return result;
}

/** From the left edge of who waits to the right edge of whom it waits for. */
function curve(from, to) {
  const y1 = from.y + NODE.height / 2, y2 = to.y + NODE.height / 2;
  if (from.x > to.x) {
    const x1 = from.x, x2 = to.x + NODE.width + 6, bend = Math.min(48, (x1 - x2) / 2);
    return `M${x1} ${y1}C${x1 - bend} ${y1} ${x2 + bend} ${y2} ${x2} ${y2}`;
  }
  const x1 = from.x + NODE.width, x2 = to.x + (from.x === to.x ? NODE.width + 6 : -6);
  const out = 40, into = from.x === to.x ? 40 : -40;
  return `M${x1} ${y1}C${x1 + out} ${y1} ${x2 + into} ${y2} ${x2} ${y2}`;
}

function counted(edges) {
  const found = new Map();
  for (const edge of edges) {
    const key = JSON.stringify([edge.from, edge.to]);
    const known = found.get(key);
    if (known) known.count += edge.count ?? 1;
    else found.set(key, { ...edge, count: edge.count ?? 1 });
  }
  return [...found.values()];
}

function neighbours(edges, from, to) {
  const result = new Map();
  for (const edge of edges) {
    if (!result.has(edge[from])) result.set(edge[from], []);
    result.get(edge[from]).push(edge[to]);
  }
  return result;
}

function middle(ids, order) {
  const known = (ids ?? []).map((id) => order.get(id)).filter((value) => value !== undefined);
  return known.length ? known.reduce((a, b) => a + b, 0) / known.length : Infinity;
}

function objectsOf(node) {
  return [...new Set(node.objects ?? [])].sort();
}
