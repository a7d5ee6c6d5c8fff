"""Deadlocks: edges from the queue, and victims against a model that tries all paths."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from airflow_hive_acid.metastore.database.codes import LockType
from airflow_hive_acid.metastore.locks.compatibility import Lock, conflicts
from airflow_hive_acid.metastore.locks.deadlocks import Party, QueuedLock, Work, find_victims, wait_for

if TYPE_CHECKING:
    import pytest

SR, SW, XW, X = LockType


def queued(lock_id: int, txn_id: int, table: str, kind: LockType, *, waiting: bool = False) -> QueuedLock:
    return QueuedLock(Lock(lock_id, 1, txn_id, "db", table, None, kind), waiting)


def txns(*ids: int) -> set[Party]:
    return {Party(i) for i in ids}


def on_a_cycle(graph: dict[Party, set[Party]], party: Party) -> bool:
    seen: set[Party] = set()
    front = set(graph.get(party, ()))
    while front:
        if party in front:
            return True
        seen |= front
        front = {t for p in front for t in graph.get(p, ())} - seen
    return False


def without(graph: dict[Party, set[Party]], gone: set[Party]) -> dict[Party, set[Party]]:
    return {p: targets - gone for p, targets in graph.items() if p not in gone}


def test_two_txns_that_want_each_others_tables() -> None:
    graph = wait_for(
        [
            queued(1, 1, "a", X),
            queued(2, 2, "b", X),
            queued(3, 1, "b", X, waiting=True),
            queued(4, 2, "a", X, waiting=True),
        ]
    )
    assert graph == {Party(1): txns(2), Party(2): txns(1)}
    [victim] = find_victims(graph, {1, 2}, {1: Work(writes=3), 2: Work(writes=1)})
    assert victim.party == Party(2)
    assert victim.describe() == "txn 2 waits for txn 1 waits for txn 2"


def test_edges_include_requests_that_wait_ahead() -> None:
    """
    1 reads t; 2 wants t exclusively and waits; 3 reads u; 3 wants to read t and waits behind 2, not behind 1;
    2 also wants u: a circle that no held lock alone would show
    """
    graph = wait_for(
        [
            queued(1, 1, "t", SR),
            queued(2, 3, "u", SR),
            queued(3, 2, "t", X, waiting=True),
            queued(4, 3, "t", SR, waiting=True),
            queued(5, 2, "u", X, waiting=True),
        ]
    )
    assert graph == {Party(2): txns(1, 3), Party(3): txns(2)}
    assert [v.party for v in find_victims(graph, {1, 2, 3}, {})] == [Party(3)]


def test_a_request_outside_txns_can_be_on_the_circle_but_never_gives_way() -> None:
    graph = wait_for(
        [
            queued(1, 1, "a", SR),
            QueuedLock(Lock(2, 1, 0, "db", "a", None, X), True),
            QueuedLock(Lock(2, 2, 0, "db", "b", None, X), True),
            queued(3, 1, "b", SR, waiting=True),
        ]
    )
    assert graph == {Party(0, 2): txns(1), Party(1): {Party(0, 2)}}
    assert [v.party for v in find_victims(graph, {1}, {})] == [Party(1)]


def test_the_one_with_the_least_work_gives_way_and_of_equals_the_later() -> None:
    ring = {Party(1): txns(2), Party(2): txns(3), Party(3): txns(1)}
    everybody = {1, 2, 3}
    assert [v.party for v in find_victims(ring, everybody, {})] == [Party(3)]
    assert [v.party for v in find_victims(ring, everybody, {3: Work(jobs=1), 2: Work(writes=9)})] == [Party(1)]
    by_writes = {i: Work(jobs=1, writes=i) for i in everybody}
    assert [v.party for v in find_victims(ring, everybody, by_writes)] == [Party(1)]


def test_strangers_and_innocents_are_spared() -> None:
    graph = {Party(1): txns(2), Party(2): txns(1), Party(3): txns(1), Party(4): txns(5), Party(5): txns(4)}
    assert [v.party for v in find_victims(graph, {2, 3}, {2: Work(jobs=99)})] == [Party(2)]
    assert find_victims(graph, {3}, {}) == []


def test_a_long_circle_is_found() -> None:
    graph = {Party(i): txns(i + 1) for i in range(1, 5000)} | {Party(5000): txns(1)}
    [victim] = find_victims(graph, set(range(1, 5001)), {})
    assert victim.party == Party(5000)
    assert len(victim.cycle) == 5000


ids = st.integers(1, 7)
graphs = st.dictionaries(ids.map(Party), st.sets(ids.map(Party), max_size=4), max_size=7).map(
    lambda g: {p: targets - {p} for p, targets in g.items()}
)


@given(graphs, st.sets(ids), st.dictionaries(ids, st.builds(Work, st.integers(0, 2), st.integers(0, 2))))
def test_victims_break_every_circle_that_has_one_of_ours(
    graph: dict[Party, set[Party]], ours: set[int], work: dict[int, Work]
) -> None:
    victims = find_victims(graph, ours, work)
    gone: set[Party] = set()
    for victim in victims:
        left = without(graph, gone)
        assert victim.party.txn_id in ours
        assert on_a_cycle(left, victim.party)
        steps = zip(victim.cycle, (*victim.cycle[1:], victim.cycle[0]), strict=True)
        assert all(target in left[party] for party, target in steps)
        gone.add(victim.party)
    left = without(graph, gone)
    assert not [p for p in left if p.txn_id in ours and on_a_cycle(left, p)]
    assert victims == find_victims(graph, ours, work)


@given(
    st.permutations(range(1, 8)),
    st.integers(2, 7),
    st.sets(ids, min_size=1),
    st.dictionaries(ids, st.builds(Work, st.integers(0, 2))),
)
def test_one_circle_has_exactly_one_victim(
    order: list[int], length: int, ours: set[int], work: dict[int, Work]
) -> None:
    ring = order[:length]
    graph = {Party(a): txns(b) for a, b in zip(ring, [*ring[1:], ring[0]], strict=True)}
    graph |= {Party(outside): txns(ring[0]) for outside in order[length:]}
    victims = find_victims(graph, ours, work)
    candidates = [i for i in ring if i in ours]
    if not candidates:
        assert victims == []
        return
    [victim] = victims
    least = min((work.get(i, Work()).jobs, work.get(i, Work()).writes) for i in candidates)
    done = work.get(victim.party.txn_id, Work())
    assert (done.jobs, done.writes) == least
    assert victim.party.txn_id in candidates


def test_a_request_that_waits_for_many_partitions_is_compared_with_those_it_may_wait_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    compared = []

    def counting(request: Lock, existing: Lock) -> bool:
        compared.append(existing)
        return conflicts(request, existing)

    monkeypatch.setattr("airflow_hive_acid.metastore.locks.deadlocks.conflicts", counting)

    def of(lock_id: int, waiting: bool, *partitions: int) -> list[QueuedLock]:
        locks = [Lock(lock_id, n, lock_id, "db", "t", f"k={n}", XW) for n in partitions]
        return [QueuedLock(lock, waiting) for lock in locks]

    queue = [*of(1, False, *range(100)), *of(2, True, *range(99, 200))]
    assert wait_for(queue) == {Party(2): txns(1)}
    assert len(compared) == 1
