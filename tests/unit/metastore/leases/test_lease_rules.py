"""The rules of leases as pure functions: what excludes what, whom a holder's locks pass, whose turn it is."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_hive_acid.errors import InvalidArgumentsError
from airflow_hive_acid.metastore.database.codes import LockType
from airflow_hive_acid.metastore.leases.grants import next_in_line
from airflow_hive_acid.metastore.leases.holders import Mirror
from airflow_hive_acid.metastore.leases.model import Lease, LeaseObject, conflicts, parse_token
from airflow_hive_acid.metastore.leases.rows import Waiter
from airflow_hive_acid.metastore.locks.compatibility import Lock
from airflow_hive_acid.metastore.locks.compatibility import conflicts as locks_conflict
from airflow_hive_acid.metastore.locks.lease_locks import in_the_way

SR, SW, XW, X = LockType
OBJECTS = [
    LeaseObject("db", table, partition, kind)
    for table in ("t", "u")
    for partition in ("", "p=1", "p=2")
    for kind in ("s", "x")
]


def lock(number: int, kind: LockType, txn: int = 0, table: str | None = "t", partition: str | None = None) -> Lock:
    return Lock(number, 1, txn, "db", table, partition, kind)


def test_excluding_each_other_is_mutual() -> None:
    for one, other in itertools.product(OBJECTS, repeat=2):
        assert conflicts(one, other) == conflicts(other, one)


def test_a_partitions_lease_stands_as_s_on_its_table() -> None:
    """What conflicts with S on the table conflicts with any lease on a partition of it, and an X there with more."""
    for other in (o for o in OBJECTS if not o.partition_name):
        on_table = LeaseObject("db", "t", "", "s")
        assert conflicts(LeaseObject("db", "t", "p=1", "s"), other) == conflicts(on_table, other)
        assert conflicts(LeaseObject("db", "t", "p=1", "x"), other) >= conflicts(on_table, other)


@pytest.mark.rule("R6")
def test_a_holder_passes_its_mirror_and_those_who_wait_for_nothing_else() -> None:
    mirror = Mirror(frozenset({(1, 1)}), frozenset({(1, 1)}))
    mine, other = lock(1, XW), lock(2, SR, txn=7)
    behind_mirror, behind_both = lock(3, SW, txn=8), lock(4, X, txn=9)
    behind_waiter = lock(5, XW, txn=10)
    queue = [(mine, False), (other, False), (behind_mirror, True), (behind_both, True), (behind_waiter, True)]
    # 4 waits for the reader 2 as well, and 5 for 4: both count. 3 waits for the mirror alone.
    assert in_the_way(queue, mirror) == [other, behind_both, behind_waiter]


@pytest.mark.rule("R6")
def test_a_shared_mirror_is_in_the_way_itself_but_not_those_who_wait_for_it() -> None:
    mirror = Mirror(frozenset({(1, 1)}), frozenset())
    assert in_the_way([(lock(1, XW), False), (lock(2, X, txn=5), True)], mirror) == [lock(1, XW)]


@pytest.mark.rule("R6")
def test_a_waiter_that_waits_for_nobody_counts() -> None:
    """It is about to be granted."""
    mirror = Mirror(frozenset({(1, 1)}), frozenset({(1, 1)}))
    elsewhere = lock(2, X, txn=5, table="u")
    assert in_the_way([(lock(1, XW), False), (elsewhere, True)], mirror) == [elsewhere]


_LOCKS = st.lists(
    st.tuples(
        st.sampled_from(list(LockType)),
        st.sampled_from(["t", None]),
        st.sampled_from([None, "p=1", "p=2"]),
        st.booleans(),
    ),
    min_size=1,
    max_size=6,
)


@pytest.mark.rule("R6")
@given(_LOCKS)
def test_nobody_is_passed_who_could_be_granted_while_the_lease_is_held(
    drawn: list[tuple[LockType, str | None, str | None, bool]],
) -> None:
    """Who is passed stays behind the mirror, whatever happens to everybody else."""
    mirror = Mirror(frozenset({(1, 1)}), frozenset({(1, 1)}))
    others = [
        Lock(number, 1, number, "db", table, partition if table else None, kind)
        for number, (kind, table, partition, _) in enumerate(drawn, 2)
    ]
    queue = [(lock(1, XW), False), *((o, waits) for o, (*_, waits) in zip(others, drawn, strict=True))]
    counted = in_the_way(queue, mirror)
    passed = [o for o in others if o not in counted]
    for each in passed:
        assert dict(queue)[each]
        # All who are not passed leave; then it still waits: for the mirror, or for one that is passed.
        ahead = [lock(1, XW), *(p for p in passed if p.lock_id < each.lock_id)]
        assert any(locks_conflict(each, a) for a in ahead)


def test_those_whom_nobody_before_them_keeps_waiting_are_called() -> None:
    s, x = LeaseObject("db", "t", "", "s"), LeaseObject("db", "t", "", "x")
    p1, p2 = LeaseObject("db", "t", "p=1", "x"), LeaseObject("db", "t", "p=2", "x")

    def called(*wanted: LeaseObject | tuple[LeaseObject, ...]) -> list[int]:
        waiting = [
            Waiter(ticket, each, "u")
            for ticket, objects in enumerate(wanted, 1)
            for each in (objects if isinstance(objects, tuple) else (objects,))
        ]
        return next_in_line(reversed(waiting))

    assert called() == []
    assert called(x, x, s) == [1]
    assert called(s, s, x, s) == [1, 2]
    assert called(p1, p2, x, p1) == [1, 2]
    assert called((p1, p2), p2, s) == [1]


@pytest.mark.parametrize("text", ["", "1", "1.", ".x" * 30, "1." + "ä" * 43, "-1." + "a" * 43, None, 5, "x.y"])
def test_tokens_that_are_none_are_refused_and_not_repeated(text: object) -> None:
    with pytest.raises(InvalidArgumentsError) as caught:
        parse_token(text)  # type: ignore[arg-type]
    assert str(text or "nothing") not in str(caught.value).replace("lease", "")


@pytest.mark.parametrize(
    "document", [{}, {"version": 2}, {"version": 1}, {"version": 1, "token": "1." + "a" * 43, "objects": 5}]
)
def test_documents_that_are_none_are_refused(document: dict[str, object]) -> None:
    with pytest.raises(InvalidArgumentsError):
        Lease.from_document(document)
