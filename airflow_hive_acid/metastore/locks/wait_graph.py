"""The wait-for graph as people draw it: who waits for whom, without the edges that others imply.

Every waiting lock waits for all that conflict with it and were there before (``deadlocks.edges``), so a queue of n has
n² edges, which nobody can look at. Here a queue is a chain: an edge is left out when its target is reached over another
one. Nothing else is lost: who waits for whom, directly or not, is the same, and so are the cycles. Parties are bits of
integers, so that two thousand waiters cost milliseconds.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from airflow_hive_acid.format.partitions import from_lock_name
from airflow_hive_acid.metastore.database.codes import LockType
from airflow_hive_acid.metastore.locks.compatibility import BLOCKING, Lock, conflicts
from airflow_hive_acid.metastore.locks.deadlocks import Party
from airflow_hive_acid.metastore.locks.interface import describe_object

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from airflow_hive_acid.metastore.locks.deadlocks import QueuedLock

MOST_TARGETS = 50
"""Edges of one party that are kept: a table lock behind a thousand partition locks has one for each."""


@dataclass(frozen=True, slots=True)
class WaitNode:
    """A party of the graph.

    :param waiting: whether it waits for somebody.
    :param blocks: how many wait for it, directly or over others.
    :param depth: 0 for who waits for nobody, else one more than the deepest it waits for.
    :param in_cycle: it is part of a deadlock.
    """

    party: Party
    waiting: bool
    blocks: int
    depth: int
    in_cycle: bool


@dataclass(frozen=True, slots=True)
class WaitEdge:
    """A party waits for another.

    :param place: what it wants: ``db``, ``db.table`` or ``db.table/partition``.
    """

    source: Party
    target: Party
    place: str
    in_cycle: bool


@dataclass(frozen=True, slots=True)
class WaitGraph:
    """Who waits for whom.

    :param cycles: deadlocks, each with its parties.
    :param total_edges: edges there are; ``edges`` may be fewer by :data:`MOST_TARGETS`.
    """

    nodes: tuple[WaitNode, ...] = ()
    edges: tuple[WaitEdge, ...] = ()
    cycles: tuple[tuple[Party, ...], ...] = ()
    total_edges: int = 0

    @property
    def waiters(self) -> int:
        """How many wait."""
        return sum(node.waiting for node in self.nodes)

    def around(self, parties: Iterable[Party]) -> WaitGraph:
        """The part that has to do with some parties: those, who is in their way, and who waits for them."""
        ahead: dict[Party, set[Party]] = {}
        back: dict[Party, set[Party]] = {}
        for edge in self.edges:
            ahead.setdefault(edge.source, set()).add(edge.target)
            back.setdefault(edge.target, set()).add(edge.source)
        seeds = set(parties)
        return self._only(_reached(seeds, ahead) | _reached(seeds, back))

    def first(self, most: int) -> WaitGraph:
        """At most so many parties: those in deadlocks, then the first in line."""
        if len(self.nodes) <= most:
            return self
        ranked = sorted(self.nodes, key=lambda n: (not n.in_cycle, n.depth, -n.blocks, n.party))
        return self._only({node.party for node in ranked[:most]})

    def _only(self, wanted: set[Party]) -> WaitGraph:
        return WaitGraph(
            tuple(node for node in self.nodes if node.party in wanted),
            tuple(edge for edge in self.edges if edge.source in wanted and edge.target in wanted),
            tuple(cycle for cycle in self.cycles if wanted.issuperset(cycle)),
            self.total_edges,
        )


def wait_graph(queue: Iterable[QueuedLock]) -> WaitGraph:
    """The graph of a lock queue.

    :param queue: locks held and wanted; those of places where nobody waits may be missing.
    """
    return _Builder(sorted(queue, key=lambda q: (q.lock.lock_id, q.lock.internal_id))).build()


@dataclass(slots=True)
class _Builder:
    """Parties are numbered by their last request: who came later mostly waits for who came earlier."""

    queue: Sequence[QueuedLock]
    parties: list[Party] = field(default_factory=list)
    number: dict[Party, int] = field(default_factory=dict)
    targets: list[int] = field(default_factory=list)
    component: list[int] = field(default_factory=list)
    members: list[list[int]] = field(default_factory=list)
    beyond: list[int] = field(default_factory=list)

    def build(self) -> WaitGraph:
        last = {Party.of(queued.lock): queued.lock.lock_id for queued in self.queue}
        self.parties = sorted(last, key=lambda party: (last[party], party))
        self.number = {party: index for index, party in enumerate(self.parties)}
        self._find_targets()
        self._find_components()
        reduced, total = self._reduce()
        return self._drawn(reduced, total)

    # --- who waits for whom ---------------------------------------------------------------------------------------

    def _find_targets(self) -> None:
        """For each party the bits of all it waits for.

        The queue is read in its order, so what stands in a place already is what was there before.
        """
        self.targets = [0] * len(self.parties)
        places: dict[tuple[str, ...], dict[LockType, int]] = {}
        for queued in self.queue:
            lock = queued.lock
            me = self.number[Party.of(lock)]
            if queued.waiting:
                found = 0
                for place, types in _in_the_way(lock):
                    there = places.get(place)
                    if there is not None:
                        for kind in types:
                            found |= there.get(kind, 0)
                self.targets[me] |= found & ~(1 << me)
            for place in _stands_in(lock):
                there = places.setdefault(place, {})
                there[lock.type] = there.get(lock.type, 0) | 1 << me

    # --- deadlocks ------------------------------------------------------------------------------------------------

    def _find_components(self) -> None:
        """Strongly connected parts (Tarjan, without recursion); a part is numbered after all that it waits for."""
        count = len(self.parties)
        order, low = [-1] * count, [0] * count
        self.component = [-1] * count
        unseen = (1 << count) - 1
        on_stack = 0
        stack: list[int] = []
        clock = 0
        for root in range(count):
            if order[root] >= 0:
                continue
            path = [root]
            while path:
                here = path[-1]
                if order[here] < 0:
                    order[here] = low[here] = clock
                    clock += 1
                    unseen &= ~(1 << here)
                    stack.append(here)
                    on_stack |= 1 << here
                following = self.targets[here] & unseen
                if following:
                    path.append(following.bit_length() - 1)
                    continue
                for other in _bits(self.targets[here] & on_stack):
                    low[here] = min(low[here], order[other])
                path.pop()
                if path:
                    low[path[-1]] = min(low[path[-1]], low[here])
                if low[here] == order[here]:
                    part = []
                    while True:
                        member = stack.pop()
                        on_stack &= ~(1 << member)
                        self.component[member] = len(self.members)
                        part.append(member)
                        if member == here:
                            break
                    self.members.append(sorted(part))

    # --- leaving out what is implied --------------------------------------------------------------------------------

    def _reduce(self) -> tuple[list[list[int]], int]:
        """The targets that stay, by party; and how many there are before each party's are limited."""
        reduced: list[list[int]] = [[] for _ in self.parties]
        self.beyond = [0] * len(self.members)
        total = 0
        for index, part in enumerate(self.members):
            own = sum(1 << member for member in part)
            beyond = own
            direct: dict[int, int] = {member: self.targets[member] & own for member in part}
            rest = {member: self.targets[member] & ~own for member in part}
            everything = 0
            for outside in rest.values():
                everything |= outside
            covered = 0
            # The last in line first: what it waits for itself is not said again.
            while left := everything & ~covered:
                other = left.bit_length() - 1
                covered |= self.beyond[self.component[other]]
                source = next(member for member in part if rest[member] >> other & 1)
                direct[source] |= 1 << other
            beyond |= covered
            self.beyond[index] = beyond
            for member, bits in direct.items():
                total += bits.bit_count()
                reduced[member] = list(_bits(bits))[-MOST_TARGETS:]
        return reduced, total

    def _drawn(self, reduced: Sequence[Sequence[int]], total: int) -> WaitGraph:
        depth = [0] * len(self.parties)
        behind = [0] * len(self.members)  # who waits for a part, as bits of parties
        for part in self.members:
            deepest = max(
                (
                    depth[other] + 1
                    for member in part
                    for other in reduced[member]
                    if self.component[other] != self.component[member]
                ),
                default=0,
            )
            for place, member in enumerate(part):
                depth[member] = deepest + place
        for index in range(len(self.members) - 1, -1, -1):
            part = self.members[index]
            mine = behind[index] | sum(1 << member for member in part)
            for member in part:
                for other in reduced[member]:
                    if self.component[other] != index:
                        behind[self.component[other]] |= mine
        wanted = {number for number, bits in enumerate(self.targets) if bits}
        shown = wanted | {other for targets in reduced for other in targets}
        nodes = [
            WaitNode(
                self.parties[number],
                waiting=number in wanted,
                blocks=behind[self.component[number]].bit_count() + len(self.members[self.component[number]]) - 1,
                depth=depth[number],
                in_cycle=len(self.members[self.component[number]]) > 1,
            )
            for number in sorted(shown)
        ]
        cycles = [tuple(self.parties[m] for m in part) for part in self.members if len(part) > 1]
        return WaitGraph(tuple(nodes), tuple(self._edges(reduced)), tuple(cycles), total)

    def _edges(self, reduced: Sequence[Sequence[int]]) -> Iterator[WaitEdge]:
        locks: dict[int, list[QueuedLock]] = {}
        for queued in self.queue:
            locks.setdefault(self.number[Party.of(queued.lock)], []).append(queued)
        for source, targets in enumerate(reduced):
            for target in targets:
                same = self.component[source] == self.component[target]
                place = _place(locks[source], locks[target])
                yield WaitEdge(self.parties[source], self.parties[target], place, same)


def _place(waiting: Sequence[QueuedLock], others: Sequence[QueuedLock]) -> str:
    """What the one wants of the other."""
    for wanted in (queued.lock for queued in waiting if queued.waiting):
        for other in others:
            if other.lock.lock_id < wanted.lock_id and conflicts(wanted, other.lock):
                return describe_object(*wanted.object)
    raise AssertionError("an edge without a conflict")


def _stands_in(lock: Lock) -> Iterator[tuple[str, ...]]:
    """Where a lock is found by those that look for it: at its object, and in what contains it."""
    yield "database", lock.database
    if lock.table is None:
        yield "only database", lock.database
        return
    yield "table", lock.database, lock.table
    if lock.partition is None:
        yield "only table", lock.database, lock.table
    else:
        yield "partition", lock.database, lock.table, from_lock_name(lock.partition)


def _in_the_way(lock: Lock) -> Iterator[tuple[tuple[str, ...], frozenset[LockType]]]:
    """Where what conflicts with a lock stands, and of which types it is (``compatibility.conflicts``)."""
    types = BLOCKING[lock.type]
    if lock.table is None:
        # Dropping a table does not block readers of its database.
        yield ("only database" if lock.type is LockType.SHARED_READ else "database", lock.database), types
        return
    # A reader of a database does not block dropping a table in it.
    of_database = types - {LockType.SHARED_READ} if lock.type is LockType.EXCLUSIVE else types
    yield ("only database", lock.database), of_database
    if lock.partition is None:
        yield ("table", lock.database, lock.table), types
    else:
        yield ("only table", lock.database, lock.table), types
        yield ("partition", lock.database, lock.table, from_lock_name(lock.partition)), types


def _bits(number: int) -> Iterator[int]:
    while number:
        low = number & -number
        yield low.bit_length() - 1
        number ^= low


def _reached(seeds: set[Party], steps: dict[Party, set[Party]]) -> set[Party]:
    found, todo = set(seeds), list(seeds)
    while todo:
        for other in steps.get(todo.pop(), ()):
            if other not in found:
                found.add(other)
                todo.append(other)
    return found
