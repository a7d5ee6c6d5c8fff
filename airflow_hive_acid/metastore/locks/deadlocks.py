"""Deadlocks: who waits for whom, and which txn gives way, as pure functions over the lock queue.

An edge goes from every waiting request to each lock it must wait for: those that are held, and those that wait with a
smaller id, because the queue is strict. It is computed from the queue itself; HL_BLOCKEDBY names only one of them and
is as old as the last check. The victim of a cycle is the one of our txns that has done the least; a txn of somebody
else is never chosen, and neither is one that is on no cycle. Every client computes the same victims, so each aborts
only itself.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from airflow_hive_acid.metastore.locks.compatibility import Lock, LocksByObject, conflicts

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

Graph = dict["Party", set["Party"]]


@dataclass(frozen=True, slots=True, order=True)
class Party:
    """Who waits or is waited for: a txn with all its locks, or a single request outside txns."""

    txn_id: int
    lock_id: int = 0

    @classmethod
    def of(cls, lock: Lock) -> Party:
        """The party a lock belongs to."""
        return cls(lock.txn_id) if lock.txn_id else cls(0, lock.lock_id)

    def __str__(self) -> str:
        return f"txn {self.txn_id}" if self.txn_id else f"lock {self.lock_id}"


@dataclass(frozen=True, slots=True)
class QueuedLock:
    """A lock as it stands in the queue.

    :param waiting: not granted yet.
    """

    lock: Lock
    waiting: bool


@dataclass(frozen=True, slots=True)
class Wait:
    """One party waits for another, as data for people.

    :param place: what the waiter wants; ``since`` the waiter's last start by the database's clock, in ms.
    :param waiter_info: who works there (DAG run, task, try).
    """

    waiter: Party
    holder: Party
    place: str
    since: int | None = None
    waiter_info: str | None = None
    holder_info: str | None = None


@dataclass(frozen=True, slots=True)
class Victim:
    """A txn that must give way, and the cycle it is on."""

    party: Party
    cycle: tuple[Party, ...]

    def describe(self) -> str:
        """``txn 3 waits for txn 5 waits for txn 3``."""
        return " waits for ".join(map(str, (*self.cycle, self.cycle[0])))


@dataclass(frozen=True, slots=True)
class Work:
    """How much a txn has done: what would be lost with it, the most precious first.

    :param jobs: Spark jobs run; ``writes`` components written.
    """

    jobs: int = 0
    writes: int = 0


@dataclass(frozen=True, slots=True)
class _Visit:
    """State of the search for strongly connected parts."""

    index: dict[Party, int] = field(default_factory=dict)
    low: dict[Party, int] = field(default_factory=dict)
    stack: list[Party] = field(default_factory=list)
    on_stack: set[Party] = field(default_factory=set)
    parts: list[frozenset[Party]] = field(default_factory=list)


def edges(queue: Iterable[QueuedLock]) -> Iterator[tuple[Lock, Lock]]:
    """Every waiting lock with every lock it must wait for."""
    locks = list(queue)
    by_object = LocksByObject(queued.lock for queued in locks)
    for waiter in (queued.lock for queued in locks if queued.waiting):
        for other in by_object.near(waiter):
            if other.lock_id < waiter.lock_id and conflicts(waiter, other):
                yield waiter, other


def wait_for(queue: Iterable[QueuedLock]) -> Graph:
    """Who waits for whom."""
    graph: Graph = {}
    for waiter, other in edges(queue):
        graph.setdefault(Party.of(waiter), set()).add(Party.of(other))
    return graph


def find_victims(graph: Graph, ours: Collection[int], work: Mapping[int, Work]) -> list[Victim]:
    """The txns to abort so that no cycle with a txn of ours remains: one per cycle, the one with the least work.

    :param ours: txn ids that may be chosen.
    :param work: by txn; of equals the later txn gives way.
    """
    remaining = {party: set(targets) for party, targets in graph.items()}
    victims: list[Victim] = []
    while True:
        chosen = None
        for part in _cyclic_parts(remaining):
            candidates = [p for p in part if p.txn_id in ours]
            if candidates:
                chosen = min(candidates, key=lambda p: _cost(p, work))
                break
        if chosen is None:
            return victims
        victims.append(Victim(chosen, _cycle_through(remaining, chosen)))
        remaining.pop(chosen)
        for targets in remaining.values():
            targets.discard(chosen)


def _cost(party: Party, work: Mapping[int, Work]) -> tuple[int, int, int]:
    done = work.get(party.txn_id, Work())
    return done.jobs, done.writes, -party.txn_id


def _cyclic_parts(graph: Graph) -> list[frozenset[Party]]:
    """Strongly connected parts with more than one member (nobody waits for itself), in a fixed order."""
    visit = _Visit()
    for root in sorted(graph):
        if root not in visit.index:
            _connect(graph, root, visit)
    return sorted((p for p in visit.parts if len(p) > 1), key=min)


def _connect(graph: Graph, root: Party, visit: _Visit) -> None:
    """Tarjan's search from one party, with a stack of its own: queues may be long."""
    todo = [(root, iter(sorted(graph.get(root, ()))))]
    visit.index[root] = visit.low[root] = len(visit.index)
    _push(visit, root)
    while todo:
        party, targets = todo[-1]
        for target in targets:
            if target not in visit.index:
                visit.index[target] = visit.low[target] = len(visit.index)
                _push(visit, target)
                todo.append((target, iter(sorted(graph.get(target, ())))))
                break
            if target in visit.on_stack:
                visit.low[party] = min(visit.low[party], visit.index[target])
        else:
            todo.pop()
            if todo:
                above = todo[-1][0]
                visit.low[above] = min(visit.low[above], visit.low[party])
            if visit.low[party] == visit.index[party]:
                part = {visit.stack.pop()}
                while party not in part:
                    part.add(visit.stack.pop())
                visit.parts.append(frozenset(part))
                visit.on_stack.difference_update(part)


def _push(visit: _Visit, party: Party) -> None:
    visit.stack.append(party)
    visit.on_stack.add(party)


def _cycle_through(graph: Graph, party: Party) -> tuple[Party, ...]:
    """A shortest cycle through a party that is on one."""
    came_from: dict[Party, Party] = {}
    front = [party]
    while front:
        found = []
        for here in front:
            for target in sorted(graph.get(here, ())):
                if target == party:
                    path = [here]
                    while path[-1] != party:
                        path.append(came_from[path[-1]])
                    return tuple(reversed(path))
                if target not in came_from:
                    came_from[target] = here
                    found.append(target)
        front = found
    raise AssertionError(f"{party} is on no cycle")
