"""What a history of transactions shows: Adya's anomalies, from who read and wrote which write id.

Each transaction reads tables as sets of write ids and writes at most one write id per table. Edges go from a writer to
who saw it (wr), from an update to the next one of its table by write id (ww), from one transaction of a client to its
next (so), and from a reader to who wrote what it did not see (rw). Snapshot isolation allows a cycle only where two rw
edges follow each other, as in write skew (Cerone and Gotsman, "Analysing snapshot isolation"). So the graph holds each
transaction twice: as reached, and as reached by a dependency, from where alone an rw edge may leave; a cycle in that
graph is a violation.

What one transaction sees of a table is nearly always a prefix of its write ids: prefixes and suffixes are nodes of
their own, and the graph stays as small as the history.
"""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict, deque
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Mapping, Sequence

    Node = tuple[Hashable, ...]

STATEMENTS = 2
"""Each write is made of so many statements, each a file."""


class Outcome(Enum):
    """What the client knows of the end of its transaction."""

    COMMITTED = "committed"
    ABORTED = "aborted"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Txn:
    """One transaction as its client saw it.

    :param reads: files seen at first: by table, pairs of write id and statement.
    :param again: files seen later in the same transaction.
    :param writes: write id by table; ``updates`` are the tables in which it replaces what it has read.
    """

    txn_id: int
    client: int
    outcome: Outcome
    reads: Mapping[str, frozenset[tuple[int, int]]]
    again: Mapping[str, frozenset[tuple[int, int]]] = field(default_factory=dict)
    writes: Mapping[str, int] = field(default_factory=dict)
    updates: frozenset[str] = frozenset()

    def seen(self, table: str) -> frozenset[int]:
        """Write ids of others that it saw."""
        own = self.writes.get(table)
        return frozenset(w for w, _ in self.reads.get(table, ()) if w != own)


ANOMALIES = {
    "G0": "writes of two txns are in different orders in two tables",
    "G1a": "a write of an aborted txn was read",
    "G1b": "half of a txn's write to a table was read",
    "G1c": "two txns depend on each other",
    "OTV": "of a txn, one table's write was seen and another's was not",
    "PMP": "the same read gave another answer later in its txn",
    "P4": "two updates of a table committed, and one did not see the other",
    "G-single": "a cycle with one anti-dependency",
    "long fork": "two readers saw two writes in different orders, or another cycle of separate anti-dependencies",
    "lost commit": "a committed write is not there in the end",
}
ALLOWED = {"write skew": "a cycle of neighbouring anti-dependencies: snapshot isolation permits it"}
KNOWN = {"long fork"}
"""What lists that end at one's own txn id bring about, as Hive's do, when a snapshot is taken long after the open."""


@dataclass(frozen=True, slots=True)
class Report:
    """What was found; ``examples`` has a few of each kind, in words."""

    txns: int
    committed: int
    found: Counter[str]
    examples: Mapping[str, Sequence[str]]

    @property
    def violations(self) -> dict[str, int]:
        """What must not happen: all that snapshot isolation does not permit, but for what is known."""
        return {name: n for name, n in self.found.items() if name in ANOMALIES and name not in KNOWN and n}


def check(history: Iterable[Txn], final: Mapping[str, frozenset[int]]) -> Report:
    """Look for every anomaly.

    :param final: write ids of each table that are visible when everything has ended.
    """
    txns = list(history)
    search = _Search(txns, final)
    search.direct()
    search.cycles()
    return Report(len(txns), len(search.committed), search.found, search.examples)


class _Search:
    def __init__(self, txns: Sequence[Txn], final: Mapping[str, frozenset[int]]) -> None:
        self.txns = txns
        self.final = final
        self.found: Counter[str] = Counter()
        self.examples: dict[str, list[str]] = defaultdict(list)
        self.writer = {(table, w): t for t in txns for table, w in t.writes.items()}
        # Unknown ends are told by what is there in the end; a txn without writes has nothing to lose.
        self.committed = [t for t in txns if self._is_committed(t)]
        self._ids = {t.txn_id for t in self.committed}

    def _is_committed(self, txn: Txn) -> bool:
        if txn.outcome is not Outcome.UNKNOWN:
            return txn.outcome is Outcome.COMMITTED
        return bool(txn.writes) and all(w in self.final.get(table, ()) for table, w in txn.writes.items())

    def _tell(self, name: str, text: str) -> None:
        self.found[name] += 1
        if len(self.examples[name]) < 3:
            self.examples[name].append(text)

    # --- without a graph --------------------------------------------------------------------------------------------

    def direct(self) -> None:
        """G1a, G1b, PMP, lost commits, P4 and OTV."""
        for txn in self.txns:
            for table, files in txn.reads.items():
                self._read(txn, table, files)
            if txn.again and any(txn.again[table] != files for table, files in txn.reads.items()):
                self._tell("PMP", f"txn {txn.txn_id} read twice and saw different files")
            self._half_seen(txn)
        for txn in self.committed:
            gone = [f"{t}:{w}" for t, w in txn.writes.items() if w not in self.final.get(t, ())]
            if gone:
                self._tell("lost commit", f"txn {txn.txn_id} committed {', '.join(gone)}")
        for txn in self.txns:
            if txn.outcome is Outcome.ABORTED and any(w in self.final.get(t, ()) for t, w in txn.writes.items()):
                self._tell("G1a", f"txn {txn.txn_id} was aborted, and is visible in the end")
        self._lost_updates()

    def _read(self, txn: Txn, table: str, files: frozenset[tuple[int, int]]) -> None:
        statements: dict[int, int] = Counter(w for w, _ in files)
        for write_id, number in statements.items():
            writer = self.writer.get((table, write_id))
            if writer is txn:
                continue
            if writer is None or writer.txn_id not in self._ids:
                self._tell("G1a", f"txn {txn.txn_id} saw {table}:{write_id}, whose txn did not commit")
            if number != STATEMENTS:
                self._tell("G1b", f"txn {txn.txn_id} saw {number} of {STATEMENTS} files of {table}:{write_id}")

    def _half_seen(self, txn: Txn) -> None:
        """Of each writer it saw, all tables that it read must show the write."""
        seen = {table: txn.seen(table) for table in txn.reads}
        for table, ids in seen.items():
            for write_id in ids:
                writer = self.writer.get((table, write_id))
                if writer is None or len(writer.writes) < 2:
                    continue
                missing = [t for t, w in writer.writes.items() if t in seen and w not in seen[t]]
                if missing:
                    self._tell("OTV", f"txn {txn.txn_id} saw txn {writer.txn_id} in {table}, not in {missing[0]}")

    def _lost_updates(self) -> None:
        by_table: dict[str, list[Txn]] = defaultdict(list)
        for txn in self.committed:
            for table in txn.updates:
                by_table[table].append(txn)
        for table, updates in by_table.items():
            # Each must have seen, or be seen by, each other one: then the order by what they saw has no ties.
            ordered = sorted(updates, key=lambda t: t.writes[table])
            for position, later in enumerate(ordered):
                seen = later.seen(table)
                for earlier in ordered[:position]:
                    if earlier.writes[table] not in seen and later.writes[table] not in earlier.seen(table):
                        self._tell("P4", f"txns {earlier.txn_id} and {later.txn_id} both updated {table}")

    # --- with one ---------------------------------------------------------------------------------------------------

    def cycles(self) -> None:
        """G0, G1c, G-single, long fork; and write skew, which is allowed."""
        graph = _Graph(self.committed)
        ww = _components(graph.ww)
        for part in ww:
            self._tell("G0", _named(part))
        dependent = _components(graph.dependencies)
        for part in dependent:
            if len(_txns(part)) > 1:
                self._tell("G1c", _named(part))
        inside = {node for part in dependent for node in part}
        violations: set[Hashable] = set()
        for part in _components(graph.doubled()):
            txns = _txns(part)
            violations |= txns
            if txns <= {node[1] for node in inside if node[0] == "t"}:
                continue  # it needs no anti-dependency
            fewest = graph.fewest_anti_dependencies(part)
            self._tell("G-single" if fewest == 1 else "long fork", _named(part))
        for part in _components(graph.full()):
            if not _txns(part) & violations and len(_txns(part)) > 1:
                self._tell("write skew", _named(part))


class _Graph:
    """Edges between transactions, and between prefixes and suffixes of a table's write ids.

    A node ``("t", id)`` is a transaction, ``("p", table, k)`` stands for having seen the first ``k`` writes, and
    ``("s", table, k)`` for not having seen those from the ``k``-th on.
    """

    def __init__(self, committed: Sequence[Txn]) -> None:
        self.ww: dict[Node, list[Node]] = defaultdict(list)
        self.dependencies: dict[Node, list[Node]] = defaultdict(list)
        self.anti: dict[Node, list[Node]] = defaultdict(list)
        self._onward: dict[Node, list[Node]] = defaultdict(list)
        tables: dict[str, list[tuple[int, Txn]]] = defaultdict(list)
        for txn in committed:
            for table, write_id in txn.writes.items():
                tables[table].append((write_id, txn))
        self._order = {table: sorted(found, key=lambda pair: pair[0]) for table, found in tables.items()}
        for table, ordered in self._order.items():
            self._chains(table, ordered)
        last: dict[int, Txn] = {}
        for txn in sorted(committed, key=lambda t: t.txn_id):
            if txn.client in last:
                self.dependencies["t", last[txn.client].txn_id].append(("t", txn.txn_id))
            if txn.outcome is Outcome.COMMITTED:  # what a killed client has sent may be committed later than its next
                last[txn.client] = txn
            for table in txn.reads:
                self._read(txn, table)

    def _chains(self, table: str, ordered: Sequence[tuple[int, Txn]]) -> None:
        updates = [txn for _, txn in ordered if table in txn.updates]
        for one, other in itertools.pairwise(updates):
            self.ww["t", one.txn_id].append(("t", other.txn_id))
            self.dependencies["t", one.txn_id].append(("t", other.txn_id))
        for number, (_, txn) in enumerate(ordered):
            self.dependencies["t", txn.txn_id].append(("p", table, number + 1))
            self.dependencies["p", table, number].append(("p", table, number + 1))
            self._onward["s", table, number] += [("t", txn.txn_id), ("s", table, number + 1)]

    def _read(self, txn: Txn, table: str) -> None:
        ordered = self._order.get(table, [])
        seen = txn.seen(table)
        first = next((i for i, (w, writer) in enumerate(ordered) if writer is txn or w not in seen), len(ordered))
        last = max((i for i, (w, writer) in enumerate(ordered) if writer is txn or w in seen), default=-1) + 1
        me: Node = ("t", txn.txn_id)
        self.dependencies["p", table, first].append(me)
        for write_id, writer in ordered[first:last]:
            if writer is txn:
                continue
            if write_id in seen:
                self.dependencies["t", writer.txn_id].append(me)
            else:
                self.anti[me].append(("t", writer.txn_id))
        if last < len(ordered):
            self.anti[me].append(("s", table, max(last, first)))

    def full(self) -> dict[Node, list[Node]]:
        """All edges."""
        graph: dict[Node, list[Node]] = defaultdict(list)
        for edges in (self.dependencies, self.anti, self._onward):
            for node, others in edges.items():
                graph[node] += others
        return graph

    def doubled(self) -> dict[Node, list[Node]]:
        """No two anti-dependencies in a row: ``("d", id)`` is a transaction as reached by a dependency."""
        graph: dict[Node, list[Node]] = defaultdict(list)
        for node, others in self.dependencies.items():
            for other in others:
                graph[node].append(other)
                if other[0] == "t":
                    graph[node].append(("d", other[1]))
        for node, others in self.anti.items():
            graph["d", node[1]] += others
        for node, others in self._onward.items():
            graph[node] += others
        # Reached by a dependency, the rest of the way is open, too.
        for node in [n for n in graph if n[0] == "t"]:
            graph["d", node[1]].extend(graph[node])
        return graph

    def fewest_anti_dependencies(self, part: set[Node]) -> int:
        """Of the cycles in a strongly connected part of the doubled graph, what the best has."""
        graph = self.doubled()
        best = len(part)
        for start in [node for node in part if node[0] == "t"][:200]:
            cost: dict[Node, int] = {start: 0}
            todo: deque[Node] = deque([start])
            while todo:
                node = todo.popleft()
                if cost[node] >= best:
                    continue
                for other in graph.get(node, ()):
                    if other not in part:
                        continue
                    step = cost[node] + (other[0] == "s" != node[0] or self._is_anti(node, other))
                    if other in (start, ("d", start[1])) and step:
                        best = min(best, step)
                    if step < cost.get(other, best):
                        cost[other] = step
                        todo.append(other)
        return best

    def _is_anti(self, node: Node, other: Node) -> bool:
        if node[0] != "d" or other[0] != "t":
            return False
        mine: Node = ("t", node[1])
        return other in self.anti.get(mine, ()) and other not in self.dependencies.get(mine, ())


def _components(graph: Mapping[Node, Sequence[Node]]) -> list[set[Node]]:
    """Strongly connected parts with more than one node (Tarjan, without recursion)."""
    index: dict[Node, int] = {}
    low: dict[Node, int] = {}
    on_stack: set[Node] = set()
    stack: list[Node] = []
    parts: list[set[Node]] = []
    for root in list(graph):
        if root in index:
            continue
        work = [(root, iter(graph.get(root, ())))]
        index[root] = low[root] = len(index)
        stack.append(root)
        on_stack.add(root)
        while work:
            node, others = work[-1]
            for other in others:
                if other not in index:
                    index[other] = low[other] = len(index)
                    stack.append(other)
                    on_stack.add(other)
                    work.append((other, iter(graph.get(other, ()))))
                    break
                if other in on_stack:
                    low[node] = min(low[node], index[other])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    part: set[Node] = set()
                    while node not in part:
                        part.add(stack.pop())
                    on_stack -= part
                    if len(part) > 1:
                        parts.append(part)
    return parts


def _txns(part: Iterable[Node]) -> set[Hashable]:
    return {node[1] for node in part if node[0] in ("t", "d")}


def _named(part: Iterable[Node]) -> str:
    ids = sorted(str(i) for i in _txns(part))
    return f"txns {', '.join(ids[:8])}" + (f" and {len(ids) - 8} more" if len(ids) > 8 else "")
