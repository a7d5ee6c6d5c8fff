"""Lock compatibility against a model that asks, object by object, what two locks do to each other."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_hive_acid.metastore.database.codes import LockType, Operation
from airflow_hive_acid.metastore.locks.compatibility import (
    BLOCKING,
    Lock,
    LocksByObject,
    conflicts,
    first_conflict,
    overlap,
)
from airflow_hive_acid.metastore.locks.interface import LockComponent, describe_components, merge_components
from tests.models import PLACES, SR, SW, WAITS, XW, Place, must_wait

types = st.sampled_from(list(LockType))
places = st.sampled_from(PLACES)


def lock(lock_id: int, txn_id: int, place: Place, kind: LockType, number: int = 1) -> Lock:
    return Lock(lock_id, number, txn_id, *place, kind)


@pytest.mark.parametrize(("request_type", "existing_type"), list(product(LockType, LockType)))
def test_the_matrix_on_one_table(request_type: LockType, existing_type: LockType) -> None:
    expected = WAITS[request_type][existing_type]
    table = ("a", "t", None)
    assert conflicts(lock(2, 0, table, request_type), lock(1, 0, table, existing_type)) is expected
    assert (existing_type in BLOCKING[request_type]) is expected


def test_all_conflicts_are_those_of_the_model() -> None:
    """All of them, not a sample: of the exceptions for databases each is one case in many."""
    wanted = [lock(2, txn, place, kind) for txn, place, kind in product(range(3), PLACES, LockType)]
    held = [lock(1, txn, place, kind) for txn, place, kind in product(range(3), PLACES, LockType)]
    for request, existing in product(wanted, held):
        assert conflicts(request, existing) is must_wait(request, existing), (request, existing)


def test_a_partition_is_the_same_however_often_its_name_was_escaped() -> None:
    """A Hive 4 and we escape it twice, an earlier release of ours did once."""
    once, twice, other = (("a", "t", f"ds={value}") for value in ("a%2Fb", "a%252Fb", "a%2Fc"))
    for mine, theirs in product((once, twice), repeat=2):
        assert conflicts(lock(2, 0, mine, XW), lock(1, 0, theirs, XW))
    for mine in (once, twice):
        assert not conflicts(lock(2, 0, mine, XW), lock(1, 0, other, XW))


def test_a_request_never_waits_for_another_part_of_itself() -> None:
    for one, other in product(product(PLACES, LockType), repeat=2):
        assert not conflicts(lock(2, 0, *one), lock(2, 0, *other, number=2))


locks = st.builds(lock, st.integers(1, 8), st.integers(0, 3), places, types, st.integers(1, 3))


@given(
    st.lists(locks, max_size=12),
    st.lists(st.tuples(places, types), min_size=1, max_size=3),
    st.integers(0, 3),
    st.integers(1, 9),
)
def test_the_first_conflict_is_the_smallest_id_of_an_earlier_request(
    existing: list[Lock], wanted: list[tuple[Place, LockType]], txn_id: int, lock_id: int
) -> None:
    mine = [lock(lock_id, txn_id, place, kind, number) for number, (place, kind) in enumerate(wanted, 1)]
    blocking = [(e.lock_id, e.internal_id) for e in existing for m in mine if e.lock_id < lock_id and must_wait(m, e)]
    found = first_conflict(mine, existing)
    assert (None if found is None else (found[1].lock_id, found[1].internal_id)) == min(blocking, default=None)


def test_locks_near_another_are_those_that_overlap_with_it() -> None:
    escaped = [("a", "t", "p=a%2Fb"), ("a", "t", "p=a%252Fb")]
    every = [lock(number, 0, place, SR) for number, place in enumerate([*PLACES, *escaped])]
    by_object = LocksByObject(every)
    for one in every:
        assert by_object.near(one) == [other for other in every if overlap(one, other)]


def test_two_requests_for_many_partitions_are_not_compared_each_with_each(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every lock request of the metastore waits meanwhile."""
    compared = []

    def counting(request: Lock, existing: Lock) -> bool:
        compared.append(request)
        return conflicts(request, existing)

    monkeypatch.setattr("airflow_hive_acid.metastore.locks.compatibility.conflicts", counting)
    held = [lock(1, 0, ("a", "t", f"p={number}"), XW, number) for number in range(200)]
    mine = [lock(2, 0, ("a", "t", f"p={number}"), XW, number) for number in range(199, 400)]
    assert first_conflict(mine, held) == (mine[0], held[199])
    assert len(compared) == 1
    assert first_conflict(mine[1:], held) is None
    assert len(compared) == 1


def test_one_component_per_object_remains_the_more_restrictive() -> None:
    def part(kind: LockType, operation: Operation) -> LockComponent:
        return LockComponent("db", "t", None, kind, operation)

    other = LockComponent("db", "u", None, SR, Operation.SELECT)
    assert merge_components([part(SW, Operation.INSERT), other, part(XW, Operation.UPDATE)]) == (
        part(XW, Operation.UPDATE),
        other,
    )
    assert merge_components([part(SW, Operation.INSERT), part(SW, Operation.UPDATE)]) == (part(SW, Operation.UPDATE),)
    assert merge_components([part(SW, Operation.DELETE), part(SW, Operation.INSERT)]) == (part(SW, Operation.DELETE),)
    assert merge_components([part(XW, Operation.UPDATE), part(SR, Operation.SELECT)]) == (part(XW, Operation.UPDATE),)


def test_a_message_names_three_of_many_places() -> None:
    wanted = [LockComponent("db", "t", f"k={number}", XW, Operation.NO_TXN) for number in range(1204)]
    assert describe_components(wanted[:2]) == "db.t/k=0, db.t/k=1"
    assert describe_components(wanted) == "db.t/k=0, db.t/k=1, db.t/k=2 and 1,201 more"
