"""The wait-for graph for drawing: fewer edges than there are waits, and nothing of what they say lost."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from airflow_hive_acid.metastore.database.codes import LockType
from airflow_hive_acid.metastore.locks.compatibility import Lock
from airflow_hive_acid.metastore.locks.deadlocks import Party, QueuedLock, wait_for
from airflow_hive_acid.metastore.locks.wait_graph import MOST_TARGETS, wait_graph

if TYPE_CHECKING:
    from collections.abc import Mapping

    from airflow_hive_acid.metastore.locks.wait_graph import WaitGraph

WRITE, EXCLUSIVE, EXCL_WRITE = LockType.SHARED_WRITE, LockType.EXCLUSIVE, LockType.EXCL_WRITE


def queued(
    lock_id: int, txn_id: int, place: str, type: LockType = EXCLUSIVE, *, waiting: bool = True, internal_id: int = 1
) -> QueuedLock:
    database, table, partition = [*place.split("/"), None, None][:3]
    return QueuedLock(Lock(lock_id, internal_id, txn_id, str(database), table, partition, type), waiting)


def random_queue(seed: int) -> list[QueuedLock]:
    choose = random.Random(seed)
    places = ["d", "d/t", "d/u", "d/t/p", "d/t/q"]
    return [
        queued(
            lock_id, txn_id, choose.choice(places), choose.choice(list(LockType)), waiting=choose.random() < 0.6,
            internal_id=number,
        )
        for lock_id in range(1, choose.randint(2, 14))
        for txn_id in [choose.choice([0, 1, 2, 3, 4, 5])]
        for number in range(1, choose.randint(2, 4))
    ]  # fmt: skip


def reached(steps: Mapping[Party, set[Party]]) -> dict[Party, set[Party]]:
    """Whom each waits for, directly or over others."""
    found: dict[Party, set[Party]] = {}
    for start, first in steps.items():
        seen: set[Party] = set()
        todo = list(first)
        while todo:
            party = todo.pop()
            if party not in seen:
                seen.add(party)
                todo += steps.get(party, ())
        found[start] = seen
    return found


def steps_of(graph: WaitGraph) -> dict[Party, set[Party]]:
    steps: dict[Party, set[Party]] = {}
    for edge in graph.edges:
        steps.setdefault(edge.source, set()).add(edge.target)
    return steps


def test_leaving_out_edges_changes_nothing_about_who_waits_for_whom() -> None:
    """Beside ``deadlocks.wait_for``, which has all edges, on a thousand random queues."""
    for seed in range(1000):
        queue = random_queue(seed)
        everything = reached(wait_for(queue))
        graph = wait_graph(queue)
        assert reached(steps_of(graph)) == everything, seed
        for node in graph.nodes:
            behind = {party for party, targets in everything.items() if node.party in targets and party != node.party}
            assert node.blocks == len(behind), (seed, node)
            assert node.in_cycle == (node.party in everything.get(node.party, ())), (seed, node)
            assert node.waiting == bool(everything.get(node.party)), (seed, node)
        cycles = {frozenset(cycle) for cycle in graph.cycles}
        assert cycles == {
            frozenset(other for other in targets if party in everything.get(other, ()))
            for party, targets in everything.items()
            if party in targets
        }, seed


def test_a_queue_is_a_chain() -> None:
    graph = wait_graph([queued(n, n, "d/t", waiting=n > 1) for n in range(1, 2002)])
    assert [(e.source.txn_id, e.target.txn_id, e.place) for e in graph.edges] == [
        (n, n - 1, "d.t") for n in range(2, 2002)
    ]
    assert [(n.depth, n.blocks) for n in graph.nodes] == [(n, 2000 - n) for n in range(2001)]
    assert (graph.waiters, graph.cycles) == (2000, ())


def test_a_deadlock_is_drawn_as_a_cycle() -> None:
    """
    t1  A holds t, B holds u
    t2  A wants u, B wants t
    t3  C wants t
    """
    queue = [queued(1, 5, "d/t", waiting=False), queued(2, 6, "d/u", waiting=False), queued(3, 5, "d/u"),
             queued(4, 6, "d/t"), queued(5, 7, "d/t")]  # fmt: skip
    graph = wait_graph(queue)
    assert graph.cycles == ((Party(5), Party(6)),)
    assert {n.party.txn_id: (n.in_cycle, n.blocks) for n in graph.nodes} == {5: (True, 2), 6: (True, 2), 7: (False, 0)}
    assert {(e.source.txn_id, e.target.txn_id): (e.place, e.in_cycle) for e in graph.edges} == {
        (5, 6): ("d.u", True), (6, 5): ("d.t", True), (7, 6): ("d.t", False),
    }  # fmt: skip


def test_a_table_behind_many_partitions_has_some_of_the_edges_and_says_how_many_there_are() -> None:
    queue = [queued(n, n, f"d/t/p{n}", WRITE, waiting=False) for n in range(1, 101)]
    graph = wait_graph([*queue, queued(101, 101, "d/t", EXCL_WRITE)])
    assert (len(graph.edges), graph.total_edges) == (MOST_TARGETS, 100)


def test_the_first_in_line_are_shown_first_and_deadlocks_before_all() -> None:
    chain = [queued(n, n, "d/t", waiting=n > 1) for n in range(1, 11)]
    cycle = [queued(20, 20, "d/u", waiting=False), queued(21, 21, "d/v", waiting=False), queued(22, 20, "d/v"),
             queued(23, 21, "d/u")]  # fmt: skip
    shown = wait_graph([*chain, *cycle]).first(4)
    assert {node.party.txn_id for node in shown.nodes} == {20, 21, 1, 2}
    assert {(e.source.txn_id, e.target.txn_id) for e in shown.edges} == {(20, 21), (21, 20), (2, 1)}


def test_around_a_party_are_those_before_and_behind_it() -> None:
    chains = [queued(n, n, "d/t" if n % 2 else "d/u", waiting=n > 2) for n in range(1, 11)]
    assert {node.party.txn_id for node in wait_graph(chains).around([Party(5)]).nodes} == {1, 3, 5, 7, 9}


@pytest.mark.parametrize("queue", [[], [queued(1, 1, "d/t", waiting=False)]])
def test_where_nobody_waits_there_is_no_graph(queue: list[QueuedLock]) -> None:
    assert wait_graph(queue).nodes == ()
