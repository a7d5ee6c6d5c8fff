"""The Hive Concurrency Model's S and X locks: each test is one of the document's sentences."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest

from airflow_hive_acid.errors import ConfigurationError, InvalidArgumentsError, LockTimeoutError, NoSuchLockError
from airflow_hive_acid.metastore import MetastoreClient
from airflow_hive_acid.metastore.database.codes import LockState, LockType
from airflow_hive_acid.metastore.locks.interface import LockRequest
from airflow_hive_acid.metastore.locks.legacy.choice import legacy_lock_manager
from airflow_hive_acid.metastore.locks.legacy.concurrency_model import objects_of
from airflow_hive_acid.metastore.locks.legacy.manager import LegacyLockManager
from airflow_hive_acid.settings import Settings, Source

if TYPE_CHECKING:
    from collections.abc import Callable

S, X = LockType.SHARED_READ, LockType.EXCLUSIVE
GRANTED, DENIED = LockState.ACQUIRED, LockState.NOT_ACQUIRED


@pytest.fixture
def request_of(lock_on: Any) -> Callable[..., LockRequest]:
    """``request_of(("db.t/p=1", X), …)``."""
    return lambda *locks: LockRequest(tuple(lock_on(place, kind) for place, kind in locks), "ann", "host1")


def manager(client: MetastoreClient, **settings: str) -> LegacyLockManager:
    given = {f"hive.{key.replace('_', '.')}": value for key, value in settings.items()}
    return LegacyLockManager(client.database, Settings({Source.REQUEST: given}))


@pytest.mark.parametrize(("held", "asked", "answer"), [(S, S, GRANTED), (S, X, DENIED), (X, S, DENIED), (X, X, DENIED)])
def test_two_locks_on_one_object_must_both_be_shared(
    client: MetastoreClient, request_of: Any, held: LockType, asked: LockType, answer: LockState
) -> None:
    locks = manager(client)
    first = locks.lock(request_of(("db.t", held)))
    second = locks.lock(request_of(("db.t", asked)))
    assert (first.state, second.state) == (GRANTED, answer)
    if answer is DENIED:
        assert second.message == f"lock {first.lock_id} on db.t is in the way"
        locks.unlock(first.lock_id)
        locks.unlock(first.lock_id)
        assert locks.lock(request_of(("db.t", asked))).state is GRANTED


def test_parents_are_locked_shared_and_all_in_lexicographic_order(lock_on: Any) -> None:
    """insert into T2(partition P.Q) select .. T1 partition P1: S on T2, T2.P, T1, T1.P1 and X on T2.P.Q."""
    found = objects_of([lock_on("db.t2/p=1/q=2", X), lock_on("db.t1/p=1", S)])
    assert list(found.items()) == [
        (("db", "t1", ""), "s"),
        (("db", "t1", "p=1"), "s"),
        (("db", "t2", ""), "s"),
        (("db", "t2", "p=1"), "s"),
        (("db", "t2", "p=1/q=2"), "x"),
    ]
    assert objects_of([lock_on("db.t", X), lock_on("db.t/p=1", S)])["db", "t", ""] == "x"
    assert objects_of([lock_on("db.t/p=1", S), lock_on("db.t", X)])["db", "t", ""] == "x"


def test_a_table_cannot_be_dropped_while_a_partition_is_written(client: MetastoreClient, request_of: Any) -> None:
    locks = manager(client)
    writer = locks.lock(request_of(("db.t/p=1", X)))
    assert locks.lock(request_of(("db.t", X))).state is DENIED
    assert locks.lock(request_of(("db.t/p=1", S))).state is DENIED
    assert locks.lock(request_of(("db.t/p=2", X))).state is GRANTED
    # The known prefix of dynamic partitions: below it nobody reads.
    assert locks.lock(request_of(("db.u/p=1", X))).state is GRANTED
    assert locks.lock(request_of(("db.u/p=1/q=1", S))).state is DENIED
    assert locks.lock(request_of(("db.u/p=2/q=1", S))).state is GRANTED
    locks.unlock(writer.lock_id)
    assert locks.lock(request_of(("db.t/p=1", S))).state is GRANTED


def test_a_denied_request_keeps_nothing(client: MetastoreClient, request_of: Any) -> None:
    locks = manager(client)
    held = locks.lock(request_of(("db.z", X)))
    assert locks.lock(request_of(("db.a", X), ("db.z", S))).state is DENIED
    assert [(r.lock_id, r.describe(), r.type, r.user) for r in locks.show_locks()] == [(held.lock_id, "db.z", X, "ann")]
    assert locks.lock(request_of(("db.a", X))).state is GRANTED
    assert [r.table for r in locks.show_locks("DB", "A")] == ["a"]
    assert locks.show_locks(txn_id=5) == []


def test_a_denied_request_is_tried_again_after_the_pause(client: MetastoreClient, request_of: Any) -> None:
    locks = manager(client, lock_numretries="3", lock_sleep_between_retries="7s")
    held = locks.lock(request_of(("db.t", X)))
    pauses: list[float] = []
    with pytest.raises(LockTimeoutError, match=rf"db.t could not be locked in 4 tries .* lock {held.lock_id} on db.t"):
        locks.acquire(request_of(("db.t", S)), pauses.append)
    assert pauses == [7, 7, 7]

    def release(seconds: float) -> None:
        pauses.append(seconds)
        locks.unlock(held.lock_id)

    assert locks.acquire(request_of(("db.t", S)), release).state is GRANTED
    assert pauses == [7, 7, 7, 7]


def test_locks_of_who_sends_no_heartbeat_are_removed(client: MetastoreClient, request_of: Any, rows: Any) -> None:
    locks = manager(client)
    silent, alive = locks.lock(request_of(("db.t", X))).lock_id, locks.lock(request_of(("db.u", X))).lock_id
    rows.update("HIVE_ACID_LEGACY_LOCK", {"HLL_HEARTBEAT": 1})
    assert locks.check_lock(alive).state is GRANTED
    assert locks.lock(request_of(("db.u", S))).state is DENIED
    assert locks.lock(request_of(("db.t", X))).state is GRANTED
    with pytest.raises(NoSuchLockError, match=f"no lock {silent}"):
        locks.check_lock(silent)


def test_without_concurrency_nothing_is_locked(client: MetastoreClient, request_of: Any) -> None:
    locks = manager(client, support_concurrency="false")
    first, second = (locks.lock(request_of(("db.t", X))) for _ in range(2))
    assert first.state is second.state is GRANTED
    assert locks.check_lock(first.lock_id).state is GRANTED
    locks.unlock(first.lock_id)
    assert locks.show_locks() == []


def test_modes_of_hive_4_are_refused(client: MetastoreClient, request_of: Any) -> None:
    with pytest.raises(InvalidArgumentsError, match=r"db.t is SHARED_WRITE; .* knows SHARED_READ \(S\)"):
        manager(client).lock(request_of(("db.t", LockType.SHARED_WRITE)))


def test_the_manager_is_chosen_by_the_name_of_hives_class(
    client: MetastoreClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert isinstance(legacy_lock_manager(client.database, Settings()), LegacyLockManager)
    with pytest.raises(InvalidArgumentsError, match=r"hive.lock.manager = 'org.other.Manager' .* must be one of"):
        Settings({Source.REQUEST: {"hive.lock.manager": "org.other.Manager"}})
    monkeypatch.setattr(
        "airflow_hive_acid.metastore.locks.legacy.choice._MANAGERS", {"some.Manager": LegacyLockManager}
    )
    with pytest.raises(ConfigurationError, match=r"\(default\) names .*EmbeddedLockManager, which .* some.Manager"):
        legacy_lock_manager(client.database, Settings())


@pytest.mark.rule("R3")
def test_of_many_exclusive_requests_at_once_one_is_granted(
    metastore_url: str, client: MetastoreClient, request_of: Any
) -> None:
    """Eight ask at the same moment; the row of NEXT_LOCK_ID lets one after the other look."""
    answers: list[LockState] = []
    start = threading.Barrier(8)

    def ask() -> None:
        with MetastoreClient(metastore_url) as other:
            start.wait(30)
            answers.append(manager(other).lock(request_of(("db.t", X))).state)

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(state.name for state in answers) == ["ACQUIRED"] + ["NOT_ACQUIRED"] * 7
