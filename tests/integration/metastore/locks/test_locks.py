"""Locks: who waits for whom, how they are granted, released and lost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from airflow_hive_acid.errors import (
    InvalidArgumentsError,
    LockDeniedError,
    LockTimeoutError,
    NoSuchLockError,
    NoSuchTxnError,
    TxnAbortedError,
    TxnOpenError,
)
from airflow_hive_acid.metastore.database.codes import LockState, LockType, Operation, TxnType
from airflow_hive_acid.metastore.protocol.begin import begin
from airflow_hive_acid.metastore.protocol.table_uses import table_uses

if TYPE_CHECKING:
    from airflow_hive_acid.metastore import MetastoreClient

SR, SW, XW, X = LockType
ACQUIRED, WAITING, REFUSED = LockState.ACQUIRED, LockState.WAITING, LockState.NOT_ACQUIRED


def second_state(
    client: MetastoreClient, lock_on: Any, first: tuple[str, LockType], second: tuple[str, LockType]
) -> LockState:
    """State of the second of two requests by two txns."""
    one, two = client.open_txns(2)
    assert client.lock([lock_on(*first)], txn_id=one).state is ACQUIRED
    return client.lock([lock_on(*second)], txn_id=two).state


@pytest.mark.hive4("EXCL_WRITE is written as EXCLUSIVE")
@pytest.mark.conformance("L01")
@pytest.mark.parametrize(("first", "second"), [(SR, SR), (SR, SW), (SW, SW), (SR, XW), (XW, SR)])
def test_compatible_locks_are_both_granted(
    client: MetastoreClient, lock_on: Any, first: LockType, second: LockType
) -> None:
    assert second_state(client, lock_on, ("db.t", first), ("db.t", second)) is ACQUIRED


@pytest.mark.conformance("L02")
@pytest.mark.parametrize(("first", "second"), [(SW, XW), (XW, SW), (XW, XW)])
def test_writers_wait_for_exclusive_writers(
    client: MetastoreClient, lock_on: Any, first: LockType, second: LockType
) -> None:
    assert second_state(client, lock_on, ("db.t", first), ("db.t", second)) is WAITING


@pytest.mark.conformance("L03")
@pytest.mark.parametrize("other", list(LockType))
def test_an_exclusive_lock_excludes_all_others(client: MetastoreClient, lock_on: Any, other: LockType) -> None:
    assert second_state(client, lock_on, ("db.t", X), ("db.t", other)) is WAITING
    assert second_state(client, lock_on, ("db.u", other), ("db.u", X)) is WAITING


@pytest.mark.conformance("L04")
def test_dropping_a_table_and_reading_its_database_do_not_disturb_each_other(
    client: MetastoreClient, lock_on: Any
) -> None:
    assert second_state(client, lock_on, ("a.t", X), ("a", SR)) is ACQUIRED
    assert second_state(client, lock_on, ("b", SR), ("b.t", X)) is ACQUIRED


@pytest.mark.conformance("L05")
def test_an_exclusive_lock_on_a_database_covers_its_tables(client: MetastoreClient, lock_on: Any) -> None:
    assert second_state(client, lock_on, ("db", X), ("db.t", SR)) is WAITING


@pytest.mark.conformance("L06")
def test_an_exclusive_lock_on_a_partition_stops_readers_of_the_table_but_not_of_other_partitions(
    client: MetastoreClient, lock_on: Any
) -> None:
    assert second_state(client, lock_on, ("db.t/p=1", X), ("db.t", SR)) is WAITING
    assert second_state(client, lock_on, ("db.u/p=1", X), ("db.u/p=2", SR)) is ACQUIRED


@pytest.mark.conformance("L07")
def test_locks_on_different_objects_never_meet(client: MetastoreClient, lock_on: Any) -> None:
    for place in ("a.t", "b.t", "a.u", "a.v/p=1", "a.v/p=2"):
        assert client.lock([lock_on(place, X)], txn_id=client.open_txn()).state is ACQUIRED


@pytest.mark.conformance("L09")
@pytest.mark.conformance("L10")
def test_a_request_is_granted_as_a_whole_or_not_at_all(client: MetastoreClient, rows: Any, lock_on: Any) -> None:
    """
    t1  lock 1: X on a.t
    t2              lock 2: SR on a.t and a.u: waits, with neither
    t3  unlock 1
    t4              check: both granted
    """
    first = client.lock([lock_on("a.t", X)])
    txn_id = client.open_txn()
    second = client.lock([lock_on("a.u", SR), lock_on("a.t", SR)], txn_id=txn_id)
    assert second.state is WAITING
    assert second.blocked_by == "1.1"
    assert rows.select("HIVE_LOCKS", "HL_LOCK_STATE", HL_TXNID=txn_id) == [("w",), ("w",)]
    client.unlock(first.lock_id)
    assert client.check_lock(second.lock_id).state is ACQUIRED
    assert rows.select("HIVE_LOCKS", "HL_LOCK_STATE", "HL_BLOCKEDBY_EXT_ID", HL_TXNID=txn_id) == [
        ("a", None),
        ("a", None),
    ]


@pytest.mark.conformance("L11")
def test_a_txn_never_waits_for_itself(client: MetastoreClient, lock_on: Any) -> None:
    txn_id = client.open_txn()
    assert client.lock([lock_on("db.t", SR)], txn_id=txn_id).state is ACQUIRED
    assert client.lock([lock_on("db.t", X)], txn_id=txn_id).state is ACQUIRED


@pytest.mark.conformance("L12")
def test_locks_outside_txns_wait_for_each_other_even_of_one_user(client: MetastoreClient, lock_on: Any) -> None:
    assert client.lock([lock_on("db.t", X)]).state is ACQUIRED
    assert client.lock([lock_on("db.t", X)]).state is WAITING


@pytest.mark.conformance("L13")
def test_checking_a_lock_that_is_gone_says_so(client: MetastoreClient, lock_on: Any) -> None:
    with pytest.raises(NoSuchLockError, match="no lock 77"):
        client.check_lock(77)
    txn_id = client.open_txn()
    lock = client.lock([lock_on("db.t", SR)], txn_id=txn_id)
    client.abort_txn(txn_id)
    with pytest.raises(NoSuchLockError):
        client.check_lock(lock.lock_id)


@pytest.mark.conformance("L13")
def test_checking_a_lock_left_behind_by_an_aborted_txn_names_the_txn(
    client: MetastoreClient, rows: Any, lock_on: Any
) -> None:
    txn_id = client.open_txn()
    lock = client.lock([lock_on("db.t", SR)], txn_id=txn_id)
    rows.update("TXNS", {"TXN_STATE": "a", "TXN_META_INFO": "elsewhere"}, TXN_ID=txn_id)
    with pytest.raises(TxnAbortedError, match="elsewhere"):
        client.check_lock(lock.lock_id)


@pytest.mark.conformance("L14")
def test_only_waiting_locks_of_a_txn_can_be_released_alone(client: MetastoreClient, rows: Any, lock_on: Any) -> None:
    blocker, txn_id = client.lock([lock_on("db.u", X)]), client.open_txn()
    held = client.lock([lock_on("db.t", SR)], txn_id=txn_id)
    waiting = client.lock([lock_on("db.u", SR)], txn_id=txn_id)
    with pytest.raises(TxnOpenError, match=f"lock {held.lock_id} belongs to txn {txn_id}"):
        client.unlock(held.lock_id)
    client.unlock(waiting.lock_id)
    client.unlock(waiting.lock_id)
    client.unlock(blocker.lock_id)
    assert rows.select("HIVE_LOCKS", "HL_LOCK_EXT_ID") == [(held.lock_id,)]


@pytest.mark.conformance("L15")
@pytest.mark.parametrize("end", ["aborted", "committed", "unknown"])
def test_a_txn_that_is_not_open_gets_no_locks(client: MetastoreClient, rows: Any, lock_on: Any, end: str) -> None:
    txn_id = 99 if end == "unknown" else client.open_txn()
    if end == "aborted":
        client.abort_txn(txn_id)
    elif end == "committed":
        client.commit_txn(txn_id)
    before = rows.counts()
    with pytest.raises(TxnAbortedError if end == "aborted" else NoSuchTxnError):
        client.lock([lock_on("db.t", SW, Operation.INSERT)], txn_id=txn_id)
    assert rows.counts() == before
    assert rows.select("NEXT_LOCK_ID") == [(1,)]


@pytest.mark.conformance("L16")
def test_only_locks_outside_txns_time_out_by_themselves(client: MetastoreClient, rows: Any, lock_on: Any) -> None:
    client.lock([lock_on("db.t", SR)])
    client.lock([lock_on("db.t", SR)], txn_id=client.open_txn())
    rows.age_locks(301_000)
    assert client.housekeeping.perform_time_outs().locks == 1
    assert rows.select("HIVE_LOCKS", "HL_TXNID") == [(1,)]


def test_the_locks_by_which_hive_elects_its_leader_are_left_alone(client: MetastoreClient, rows: Any) -> None:
    rows.insert(
        "HIVE_LOCKS",
        HL_LOCK_EXT_ID=1,
        HL_LOCK_INT_ID=1,
        HL_TXNID=0,
        HL_DB="__metastore_leader_election__",
        HL_TABLE="metastore_housekeeping",
        HL_LOCK_STATE="a",
        HL_LOCK_TYPE="x",
        HL_LAST_HEARTBEAT=1,
        HL_USER="hive",
        HL_HOST="hms",
    )
    assert client.housekeeping.perform_time_outs().locks == 0


@pytest.mark.conformance("L17")
def test_heartbeats_keep_a_lock_outside_a_txn(client: MetastoreClient, rows: Any, lock_on: Any) -> None:
    lock = client.lock([lock_on("db.t", SR)])
    rows.age_locks(301_000)
    client.heartbeat(lock_id=lock.lock_id)
    assert client.housekeeping.perform_time_outs().locks == 0
    rows.age_locks(301_000)
    client.housekeeping.perform_time_outs()
    with pytest.raises(NoSuchLockError):
        client.heartbeat(lock_id=lock.lock_id)


@pytest.mark.hive4("EXCL_WRITE is written as EXCLUSIVE")
@pytest.mark.conformance("L18")
def test_show_locks_shows_who_holds_what_and_who_waits_for_whom(client: MetastoreClient, lock_on: Any) -> None:
    txn_id = client.open_txn()
    client.lock([lock_on("db.t/p=1", XW, Operation.UPDATE)], txn_id=txn_id, agent_info="dag=a run=1 task=t try=2")
    client.lock([lock_on("db.t", XW)])
    held, waiting = client.show_locks()
    assert (held.id, held.state, held.type, held.txn_id, held.blocked_by) == ("1.1", ACQUIRED, XW, txn_id, None)
    assert (held.database, held.table, held.partition) == ("db", "t", "p=1")
    assert (held.user, held.host, held.agent_info) == (client.user, client.host, "dag=a run=1 task=t try=2")
    assert held.last_heartbeat == 0
    assert held.acquired_at is not None
    assert (waiting.id, waiting.state, waiting.txn_id, waiting.blocked_by) == ("2.1", WAITING, 0, "1.1")
    assert waiting.last_heartbeat > 0
    assert waiting.acquired_at is None
    assert client.show_locks("DB.T", "p=1") == [held]
    assert client.show_locks(txn_id=txn_id) == [held]
    assert client.show_locks("db.other") == []


@pytest.mark.conformance("L20")
def test_two_ctas_of_one_name_fail_fast(client: MetastoreClient, rows: Any, lock_on: Any) -> None:
    one, two = client.open_txns(2)
    client.lock([lock_on("db.t", XW, Operation.INSERT)], txn_id=one, exclusive_ctas=True)
    answer = client.lock([lock_on("db.t", XW, Operation.INSERT)], txn_id=two, exclusive_ctas=True)
    assert answer.state is REFUSED
    assert answer.message is not None
    assert answer.message.startswith("Failed to initiate a concurrent CTAS operation with the same table name")
    assert rows.select("HIVE_LOCKS", "HL_TXNID") == [(one,)]


def test_a_zero_wait_read_fails_at_once_behind_an_exclusive_lock(client: MetastoreClient, lock_on: Any) -> None:
    client.lock([lock_on("db.t", X)])
    answer = client.lock([lock_on("db.t", SR, Operation.SELECT)], txn_id=client.open_txn(), zero_wait_read=True)
    assert answer.state is REFUSED
    assert "Unable to acquire read lock due to an existing exclusive lock {lock 1.1" in str(answer.message)


@pytest.mark.conformance("L21")
def test_only_writes_of_transactional_tables_leave_components(client: MetastoreClient, rows: Any, lock_on: Any) -> None:
    txn_id = client.open_txn()
    client.lock(
        [
            lock_on("db.a", SW, Operation.INSERT),
            lock_on("db.b", SW, Operation.UPDATE),
            lock_on("db.c", SW, Operation.DELETE),
            lock_on("db.d", SR, Operation.SELECT),
            lock_on("db.e", X, Operation.NO_TXN),
            lock_on("db.f", X, Operation.INSERT, transactional=False),
            lock_on("db.g/p=1", SW, Operation.INSERT),
        ],
        txn_id=txn_id,
    )
    assert rows.select("TXN_COMPONENTS", "TC_TXNID", "TC_TABLE", "TC_PARTITION", "TC_OPERATION_TYPE") == [
        (1, "a", None, "i"),
        (1, "b", None, "u"),
        (1, "c", None, "d"),
        (1, "g", "p=1", "i"),
    ]


@pytest.mark.conformance("L23")
def test_a_component_carries_the_write_id_that_was_allocated_before_the_lock(
    client: MetastoreClient, rows: Any, lock_on: Any
) -> None:
    txn_id = client.open_txn()
    client.allocate_write_ids("db.t", txn_id)
    client.lock([lock_on("db.t", SW, Operation.INSERT), lock_on("db.u", SW, Operation.INSERT)], txn_id=txn_id)
    assert rows.select("TXN_COMPONENTS", "TC_TABLE", "TC_WRITEID") == [("t", 1), ("u", None)]


@pytest.mark.conformance("L24")
def test_lock_ids_ascend_and_components_are_numbered_in_order(client: MetastoreClient, rows: Any, lock_on: Any) -> None:
    for _ in range(3):
        client.lock([lock_on("db.b", SR), lock_on("db.a", SR)])
    assert rows.select("HIVE_LOCKS", "HL_LOCK_EXT_ID", "HL_LOCK_INT_ID", "HL_TABLE") == [
        (1, 1, "b"),
        (1, 2, "a"),
        (2, 1, "b"),
        (2, 2, "a"),
        (3, 1, "b"),
        (3, 2, "a"),
    ]
    assert rows.select("NEXT_LOCK_ID") == [(4,)]


@pytest.mark.conformance("L25")
def test_partitions_written_replace_the_row_of_the_table(client: MetastoreClient, rows: Any, lock_on: Any) -> None:
    one, two = client.open_txns(2)
    for txn_id in (one, two):
        client.lock([lock_on("db.t", SW, Operation.UPDATE, dynamic_partitions=True)], txn_id=txn_id)
    client.add_partitions(one, "db.t", ["p=1", "P=2"])
    client.add_partitions(two, "db.t", [])
    assert rows.select("TXN_COMPONENTS", "TC_TXNID", "TC_PARTITION", "TC_OPERATION_TYPE") == [
        (1, "p=1", "u"),
        (1, "p=2", "u"),
    ]


def test_dynamic_partition_writes_of_one_table_leave_one_row(client: MetastoreClient, rows: Any, lock_on: Any) -> None:
    client.lock(
        [
            lock_on("db.t/p=1", SW, Operation.INSERT, dynamic_partitions=True),
            lock_on("db.t/p=2", SW, Operation.DELETE, dynamic_partitions=True),
        ],
        txn_id=client.open_txn(),
    )
    assert rows.select("TXN_COMPONENTS", "TC_PARTITION", "TC_OPERATION_TYPE") == [(None, "u")]


def test_a_waiting_exclusive_lock_goes_before_readers_that_come_later(client: MetastoreClient, lock_on: Any) -> None:
    """
    t1  reader 1 holds SR
    t2                  X waits for it
    t3                                  reader 2 waits behind X (FIFO), not before it
    """
    client.lock([lock_on("db.t", SR)])
    assert client.lock([lock_on("db.t", X)]).state is WAITING
    answer = client.lock([lock_on("db.t", SR)])
    assert (answer.state, answer.blocked_by) == (WAITING, "2.1")


@pytest.mark.conformance("L35")
def test_a_wait_that_is_given_up_leaves_nothing_behind(client: MetastoreClient, rows: Any, lock_on: Any) -> None:
    client.lock([lock_on("db.t", X)])
    pauses: list[float] = []
    with pytest.raises(LockTimeoutError, match=r"waited 5502\.3 s for db\.t, last behind lock 1\.1"):
        begin(client, table_uses({"db.t": "insert"}), None, TxnType.DEFAULT, pauses.append)
    assert len(pauses) == 100
    assert rows.select("HIVE_LOCKS", "HL_TXNID") == [(0,)]
    assert rows.txn_state(1) == ("a", "lock not granted in time")
    assert rows.count("TXN_TO_WRITE_ID") == 0


@pytest.mark.conformance("L36")
def test_one_txn_at_a_time_rebuilds_a_materialized_view(client: MetastoreClient, rows: Any) -> None:
    one, two = (client.open_txn(type=TxnType.MATER_VIEW_REBUILD) for _ in range(2))
    assert client.lock_materialization_rebuild("db.mv", one).state is ACQUIRED
    assert client.lock_materialization_rebuild("db.mv", two).state is REFUSED
    client.commit_txn(one)
    assert client.lock_materialization_rebuild("db.mv", two).state is ACQUIRED
    assert client.heartbeat_materialization_rebuild("db.mv", two)
    rows.update("MATERIALIZATION_REBUILD_LOCKS", {"MRL_LAST_HEARTBEAT": 1})
    assert client.housekeeping.expire_rebuild_locks() == 1
    assert not client.heartbeat_materialization_rebuild("db.mv", two)


def test_ddl_holds_its_tables_exclusively_while_it_runs(client: MetastoreClient, rows: Any, lock_on: Any) -> None:
    with client.exclusive(["db.t", "db.u"], agent_info="ddl"):
        assert client.lock([lock_on("db.u", SR)]).state is WAITING
        assert {(r.describe(), r.type, r.state) for r in client.show_locks(txn_id=1)} == {
            ("db.t", X, ACQUIRED),
            ("db.u", X, ACQUIRED),
        }
    assert client.show_locks(txn_id=1) == []
    assert rows.txn_state(1)[0] == "c"


def test_an_error_in_ddl_gives_the_locks_back(client: MetastoreClient, rows: Any) -> None:
    with pytest.raises(RuntimeError, match="half way"), client.exclusive(["db.t"]):
        raise RuntimeError("half way")
    assert client.show_locks() == []
    assert rows.txn_state(1) == ("a", "RuntimeError: half way")


def test_a_refused_lock_of_a_transaction_aborts_it(
    client: MetastoreClient, rows: Any, lock_on: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.lock([lock_on("db.t", X)])
    ask = client.lock

    def zero_wait(components: Any, **options: Any) -> Any:
        return ask(components, **options, zero_wait_read=True)

    monkeypatch.setattr(client, "lock", zero_wait)
    with pytest.raises(LockDeniedError, match="existing exclusive lock"):
        client.begin({"db.t": "select"})
    assert rows.txn_state(1)[0] == "a"


@pytest.mark.parametrize(
    "bad",
    [
        {"database": "d" * 129, "table": "t"},
        {"database": "db", "table": "t" * 257},
        {"database": "db", "table": "t\0"},
        {"database": "db", "table": "o'hara"},
        {"database": "db", "table": 't"'},
        {"database": "db", "table": "%"},
        {"database": "..", "table": "t"},
        {"database": "db", "table": "täble"},
        {"database": "", "table": "t"},
        {"database": "db", "table": "t", "partition": "p=" + "1" * 800},
        {"database": "db", "table": "t", "partition": "p"},
        {"database": "db", "table": "t", "partition": "p=\0"},
        {"database": "db", "table": None, "partition": "p=1"},
    ],
)
def test_a_name_that_cannot_be_one_is_refused_before_anything_happens(
    client: MetastoreClient, rows: Any, bad: dict[str, Any]
) -> None:
    before = rows.counts()
    with pytest.raises(InvalidArgumentsError):
        client.lock([component_of(**bad)])
    assert rows.counts() == before


def component_of(database: str, table: str | None, partition: str | None = None) -> Any:
    from airflow_hive_acid.metastore.locks.interface import LockComponent

    return LockComponent(database, table, partition, SR, Operation.SELECT)


@pytest.mark.parametrize("partition", ["p=%25", "p=_", "p=..", "p=ä", "p=o'hara", "p=a%22b", "p=a%2Fb"])
def test_odd_partition_values_are_locked_as_they_are(client: MetastoreClient, lock_on: Any, partition: str) -> None:
    client.lock([lock_on(f"db.t/{partition}", X)])
    assert client.lock([lock_on(f"db.t/{partition}", SR)]).state is WAITING
    assert client.lock([lock_on("db.t/p=other", SR)]).state is ACQUIRED


def test_a_request_that_says_nothing_is_refused(client: MetastoreClient, lock_on: Any) -> None:
    with pytest.raises(InvalidArgumentsError, match="without components"):
        client.lock([])
    with pytest.raises(InvalidArgumentsError, match="does not say what it is for"):
        client.lock([lock_on("db.t", SR, Operation.UNSET)])
    with pytest.raises(InvalidArgumentsError, match="needs a table"):
        client.lock([lock_on("db", SR, Operation.INSERT)])


def test_advisory_locks_have_free_names(client: MetastoreClient, lock_on: Any) -> None:
    from airflow_hive_acid.metastore.locks.interface import LockComponent

    wanted = LockComponent("__GLOBAL_LOCKS", "nightly load (EU)", None, X, Operation.NO_TXN)
    assert client.lock([wanted]).state is ACQUIRED
    assert client.lock([wanted]).state is WAITING
