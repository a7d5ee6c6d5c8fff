"""The whole protocol: transactions and reader snapshots as programs use them."""

from __future__ import annotations

import contextlib
import json
import threading
from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa

from airflow_hive_acid.errors import (
    InvalidArgumentsError,
    LockTimeoutError,
    NoSuchTxnError,
    TxnAbortedError,
    WriteConflictError,
)
from airflow_hive_acid.metastore import MetastoreClient
from airflow_hive_acid.metastore.database.codes import LockState, LockType, Operation, TxnType
from airflow_hive_acid.metastore.names.objects import TableName
from airflow_hive_acid.metastore.setup import schema
from airflow_hive_acid.settings import Settings, Source

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.mark.hive4("no MIN_HISTORY_WRITE_ID")
def test_a_transaction_locks_pins_and_gets_its_write_ids(client: MetastoreClient, rows: Any) -> None:
    with client.transaction({"db.t": "insert", "db.u": "update", "db.v": "select"}, agent_info="dag=d") as txn:
        assert (txn.txn_id, dict(txn.write_ids)) == (1, {"db.t": 1, "db.u": 1})
        assert txn.write_ids["DB.T"] == 1
        assert str(txn.snapshot["db.v"]) == "db.v:0:9223372036854775807::"
        assert str(txn.valid_txns) == "1:9223372036854775807::"
        assert rows.select("HIVE_LOCKS", "HL_TABLE", "HL_LOCK_TYPE", "HL_LOCK_STATE", "HL_AGENT_INFO") == [
            ("t", "w", "a", "dag=d"),
            ("u", "w", "a", "dag=d"),
            ("v", "r", "a", "dag=d"),
        ]
        assert rows.select("TXN_COMPONENTS", "TC_TABLE", "TC_OPERATION_TYPE", "TC_WRITEID") == [
            ("t", "i", 1),
            ("u", "u", 1),
        ]
        assert rows.select("MIN_HISTORY_WRITE_ID", "MH_TXNID", "MH_TABLE", "MH_WRITEID") == [
            (1, "t", 1),
            (1, "u", 1),
            (1, "v", 1),
        ]
    assert rows.txn_state(1)[0] == "c"
    assert rows.count("HIVE_LOCKS") == rows.count("MIN_HISTORY_WRITE_ID") == rows.count("MIN_HISTORY_LEVEL") == 0


def test_an_exception_aborts_the_transaction_and_names_itself(client: MetastoreClient, rows: Any) -> None:
    with pytest.raises(ZeroDivisionError), client.transaction({"db.t": "insert"}):
        1 / 0  # noqa: B018
    assert rows.txn_state(1) == ("a", "ZeroDivisionError: division by zero")


def test_a_transaction_may_end_early_by_itself(client: MetastoreClient, rows: Any) -> None:
    with client.transaction({"db.t": "insert"}) as txn:
        txn.abort("changed my mind")
    assert rows.txn_state(1) == ("a", "changed my mind")
    with client.transaction({"db.t": "insert"}) as txn:
        txn.commit()
    with pytest.raises(NoSuchTxnError, match="txn 2 has ended"):
        txn.commit()


def test_statement_ids_count_up_for_each_table(client: MetastoreClient) -> None:
    with client.transaction({"db.t": "insert", "db.u": "insert"}) as txn:
        assert [txn.next_statement_id("db.t") for _ in range(3)] == [0, 1, 2]
        assert txn.next_statement_id("db.u") == 0
        with pytest.raises(InvalidArgumentsError, match=r"txn 1 does not write db\.x"):
            txn.next_statement_id("db.x")


@pytest.mark.rule("R1")
def test_write_ids_are_allocated_after_the_grant(
    client: MetastoreClient, other_client: MetastoreClient, rows: Any, lock_on: Any
) -> None:
    """
    t1  A holds EXCL_WRITE, has not allocated yet
    t2                      B opens 2, waits: without write id
    t3  A allocates 1, commits
    t4                      B is granted, allocates 2: its deletes apply to all that A wrote
    """
    first = client.open_txn()
    client.lock([lock_on("db.t", LockType.EXCL_WRITE, Operation.UPDATE)], txn_id=first)
    pending = other_client.start({"db.t": "update"})
    assert rows.select("TXN_TO_WRITE_ID") == []
    client.allocate_write_ids("db.t", first)
    client.commit_txn(first)
    assert pending.check()
    second = other_client.finish(pending)
    assert second is not None
    assert second.write_ids["db.t"] == 2
    assert rows.select("TXN_COMPONENTS", "TC_TXNID", "TC_WRITEID") == [(2, 2)]
    second.commit()


def test_a_transaction_reads_its_own_writes_but_not_those_allocated_between(
    client: MetastoreClient, other_client: MetastoreClient
) -> None:
    first = client.begin({"db.t": "insert"})
    second = other_client.begin({"db.t": "insert"})
    assert str(second.snapshot["db.t"]) == "db.t:2:1:1:"
    assert second.snapshot["db.t"].is_valid(second.write_ids["db.t"])
    first.commit()
    assert not second.snapshot["db.t"].is_valid(first.write_ids["db.t"])
    second.commit()


@pytest.mark.hive4("no MIN_HISTORY_WRITE_ID")
@pytest.mark.rule("R10")
def test_what_is_needed_is_registered_before_the_snapshot_is_taken(
    client: MetastoreClient, other_client: MetastoreClient, rows: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    t1                        W has write id 2 and is open
    t2  R registers: it may need the history of 2
    t3                        W commits
    t4  R looks: it sees 2, and needs less than it has registered
    """
    with other_client.transaction({"db.t": "insert"}):
        pass
    writer = other_client.begin({"db.t": "insert"})
    pending = client.start({"db.t": "select"})
    run, registered = client.database.run, []

    def run_and_commit(operation: Any, *arguments: Any, **options: Any) -> Any:
        answer = run(operation, *arguments, **options)
        if not registered:
            registered.extend(rows.select("MIN_HISTORY_WRITE_ID", "MH_WRITEID", MH_TXNID=pending.txn_id))
            writer.commit()
        return answer

    monkeypatch.setattr(client.database, "run", run_and_commit)
    reader = client.finish(pending)
    assert reader is not None
    assert registered == [(2,)]
    assert str(reader.snapshot["db.t"]) == "db.t:2:9223372036854775807::"
    reader.commit()


@pytest.mark.hive4("no MIN_HISTORY_WRITE_ID")
@pytest.mark.rule("R10")
@pytest.mark.parametrize("at_once", [True, False])
@pytest.mark.parametrize(
    ("before", "later", "registered", "seen"),
    [
        # Writers that ended before, one that is open, and one that began after the reader and has committed.
        (0, False, 1, "db.t:0:9223372036854775807::"),
        (2, False, 3, "db.t:2:9223372036854775807::"),
        (2, True, 3, "db.t:2:9223372036854775807::"),
    ],
)
def test_what_is_registered_is_what_the_snapshot_needs(
    client: MetastoreClient, other_client: MetastoreClient, rows: Any, at_once: bool, before: int, later: bool,
    registered: int, seen: str,
) -> None:  # fmt: skip
    def write(_: int = 0) -> None:
        with other_client.transaction({"db.t": "insert"}):
            pass

    for _ in range(before):
        write()
    if at_once:
        reader = client.begin({"db.t": "select"}, opened=write if later else None)
    else:
        pending = client.start({"db.t": "select"}, agent_info="long")
        if later:
            write()
        found = client.finish(pending)
        assert found is not None
        reader = found
    assert rows.select("MIN_HISTORY_WRITE_ID", "MH_TXNID", "MH_WRITEID") == [(reader.txn_id, registered)]
    assert str(reader.snapshot["db.t"]) == seen
    assert reader.snapshot["db.t"].min_open_or_next() == registered
    reader.commit()


@pytest.mark.hive4("no MIN_HISTORY_WRITE_ID")
@pytest.mark.rule("R10")
def test_a_snapshot_that_needs_more_than_is_registered_is_not_handed_out(
    client: MetastoreClient, rows: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from airflow_hive_acid.metastore.protocol import begin as beginning

    with client.transaction({"db.t": "insert"}):
        pass
    steps, given = beginning.pin_steps, []

    def too_much_at_first(features: Any, txn_id: int, tables: Any, needed: Any, **options: Any) -> Any:
        given.append(needed)
        first = dict.fromkeys(tables, 99)
        return steps(features, txn_id, tables, first if needed is None else needed, **options)

    monkeypatch.setattr(beginning, "pin_steps", too_much_at_first)
    reader = client.finish(client.start({"db.t": "select"}))
    assert reader is not None
    table = TableName("db", "t")
    assert given == [None, {table: 2}]
    assert rows.select("MIN_HISTORY_WRITE_ID", "MH_WRITEID", MH_TXNID=reader.txn_id) == [(2,)]
    reader.commit()


@pytest.mark.hive4("no MIN_HISTORY_WRITE_ID")
@pytest.mark.rule("R1")
def test_a_beginning_whose_first_look_does_not_do_starts_over_with_another_txn(
    client: MetastoreClient, other_client: MetastoreClient, rows: Any
) -> None:
    """
    t1  A opens 2
    t2              B opens 3, updates the table, commits
    t3  A locks, and takes a write id in the same trip; what it looked at says that B's change is in the way
    t4  A is aborted: a second look, later than its write id, would be as wrong; another txn begins
    """
    client.transaction({"db.t": "insert"}).commit()
    changed: list[int] = []

    def change(txn_id: int) -> None:
        if not changed:
            other_client.transaction({"db.t": "update"}).commit()
        changed.append(txn_id)

    writer = client.begin({"db.t": "update"}, opened=change)
    first, second = changed
    assert writer.txn_id == second
    assert rows.select("TXNS", "TXN_STATE", TXN_ID=first) == [("a",)]
    assert writer.snapshot["db.t"].is_valid(2)
    writer.commit()


@pytest.mark.rule("R10")
@pytest.mark.parametrize("others", ["aborted", "open behind them"])
def test_a_table_of_which_nothing_is_seen_costs_no_second_txn(
    client: MetastoreClient, other_client: MetastoreClient, others: str
) -> None:
    """Its snapshot ends with the lowest write id there is: what is registered must be as low."""
    for _ in range(3):
        client.transaction({"db.t": "insert"}).abort()
    with contextlib.ExitStack() as stack:
        if others.startswith("open"):
            stack.enter_context(other_client.transaction({"db.t": "insert"}))
        last = client.open_txn()
        opened: list[int] = []
        client.begin({"db.t": "insert"}, opened=opened.append).commit()
    assert opened == [last + 1]


@pytest.mark.hive4("no MIN_HISTORY_WRITE_ID")
@pytest.mark.rule("R10")
def test_a_reader_that_waited_past_a_compaction_starts_over(
    client: MetastoreClient, other_client: MetastoreClient, rows: Any, lock_on: Any
) -> None:
    """
    t1  R opens 1, waits behind an exclusive lock
    t2                      a compaction (txn 2) commits; a Cleaner that does not know R may remove its sources
    t3  R is granted: it does not see txn 2, so the base would be invisible and the deltas gone; it opens anew
    """
    blocker = client.lock([lock_on("db.t", LockType.EXCLUSIVE)])
    pending = client.start({"db.t": "select"})
    compaction = other_client.open_txn(type=TxnType.COMPACTION)
    rows.insert(
        "COMPACTION_QUEUE",
        CQ_ID=1,
        CQ_DATABASE="db",
        CQ_TABLE="t",
        CQ_STATE="r",
        CQ_TYPE="a",
        CQ_TXN_ID=compaction,
        CQ_HIGHEST_WRITE_ID=1,
    )
    other_client.commit_txn(compaction)
    client.unlock(blocker.lock_id)
    assert pending.check()
    assert client.finish(pending) is None
    with client.snapshot(["db.t"]) as reader:
        assert reader.valid_txns.is_valid(compaction)


@pytest.mark.hive4("no MIN_HISTORY_WRITE_ID")
@pytest.mark.rule("R16")
def test_a_reader_is_registered_locked_and_read_only(client: MetastoreClient, rows: Any) -> None:
    with client.transaction({"db.t": "insert"}):
        pass
    with client.snapshot(["db.t"]) as reader:
        assert str(reader.snapshot["db.t"]) == "db.t:1:9223372036854775807::"
        assert rows.select("TXNS", "TXN_TYPE", TXN_ID=reader.txn_id) == [(2,)]
        assert rows.select("MIN_HISTORY_LEVEL", "MHL_TXNID") == [(reader.txn_id,)]
        assert rows.select("MIN_HISTORY_WRITE_ID", "MH_TXNID", "MH_WRITEID") == [(reader.txn_id, 2)]
        assert rows.select("HIVE_LOCKS", "HL_LOCK_TYPE", "HL_LOCK_STATE") == [("r", "a")]
    assert rows.count("MIN_HISTORY_WRITE_ID") == rows.count("HIVE_LOCKS") == 0


def test_a_snapshot_does_not_move_while_others_commit(client: MetastoreClient) -> None:
    reader = client.open_snapshot(["db.t"])
    with client.transaction({"db.t": "insert"}) as txn:
        write_id = txn.write_ids["db.t"]
    assert not reader.snapshot["db.t"].is_valid(write_id)
    reader.close()
    reader.close()


@pytest.mark.hive4("no MIN_HISTORY_WRITE_ID")
def test_another_process_goes_on_with_a_snapshot(
    client: MetastoreClient, other_client: MetastoreClient, rows: Any
) -> None:
    with client.transaction({"db.t": "insert"}):
        pass
    reader = client.open_snapshot(["db.t"])
    document = json.loads(json.dumps(reader.release()))
    with client.transaction({"db.t": "insert"}):
        pass
    with other_client.resume_snapshot(document) as resumed:
        assert str(resumed.snapshot["db.t"]) == "db.t:1:9223372036854775807::"
        assert resumed.valid_txns == reader.valid_txns
    assert rows.txn_state(reader.txn_id)[0] == "c"
    with pytest.raises(NoSuchTxnError, match="already committed"):
        other_client.resume_snapshot(document)


def test_another_process_goes_on_with_a_transaction(
    client: MetastoreClient, other_client: MetastoreClient, rows: Any
) -> None:
    txn = client.begin({"db.t": "update", "db.u": "select"}, partitioned=["db.t"])
    txn.next_statement_id("db.t")
    txn.add_partitions("db.t", ["p=1"], "delete")
    document = json.loads(json.dumps(txn.release()))
    resumed = other_client.resume_transaction(document)
    assert resumed.next_statement_id("db.t") == 1
    assert resumed.write_ids["db.t"] == 1
    resumed.commit()
    assert rows.select("WRITE_SET", "WS_PARTITION", "WS_OPERATION_TYPE") == [("p=1", "d")]


@pytest.mark.parametrize("document", [{}, {"version": 2}, {"version": 1, "txn_id": "x"}, {"version": 1}])
def test_what_is_no_snapshot_document_is_refused(client: MetastoreClient, document: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgumentsError, match="document"):
        client.resume_snapshot(document)


def test_the_document_of_a_reader_is_no_transaction(client: MetastoreClient) -> None:
    document = client.open_snapshot(["db.t"]).release()
    with pytest.raises(InvalidArgumentsError, match="use resume_snapshot"):
        client.resume_transaction(document)


def test_checks_before_the_commit_can_refuse_it(client: MetastoreClient, rows: Any) -> None:
    txn = client.begin({"db.t": "insert"})
    before = rows.counts()

    def refuse(connection: Any) -> None:
        raise InvalidArgumentsError("the manifest does not hold")

    txn.before_commit(refuse)
    with pytest.raises(InvalidArgumentsError, match="manifest does not hold"):
        txn.commit()
    assert rows.counts() == before
    txn.abort("refused")


@pytest.mark.rule("R15")
def test_a_commit_runs_its_hooks_in_protocol_order_before_the_global_lock(client: MetastoreClient, rows: Any) -> None:
    """Manifest, partitions, claim, lease; then the lock, the write set and, last, the events."""
    from airflow_hive_acid.metastore.txns.commits import CommitHooks

    order: list[str] = []

    def note(name: str) -> Any:
        return lambda connection: order.append(name)

    txn_id = client.open_txn()

    def events(connection: Any, committed: Any) -> list[Any]:
        order.append(f"events of {committed.txn_id}")
        return []

    hooks = CommitHooks(
        checks=(note("manifest"),),
        partitions=(note("partitions"),),
        claims=(note("claim"),),
        leases=(note("lease"),),
        events=events,
    )
    client.commit_txn(txn_id, hooks=hooks)
    assert order == ["manifest", "partitions", "claim", "lease", f"events of {txn_id}"]


@pytest.mark.rule("R14")
def test_a_conflict_undoes_what_the_commits_hooks_did_but_not_where_files_lie(
    client: MetastoreClient, other_client: MetastoreClient, rows: Any
) -> None:
    """
    t1  A and B update p=1
    t2  A commits
    t3                  B's commit: hook records its claim, then the conflict is found
    t4                  B is aborted: the claim must not say committed; p=1 is remembered for the clean-up
    """
    first = client.begin({"db.t": "update"}, partitioned=["db.t"])
    second = other_client.begin({"db.t": "update"}, partitioned=["db.t"])
    for txn in (first, second):
        txn.add_partitions("db.t", ["p=1"])
    first.commit()
    second.claim_at_commit(
        lambda connection: connection.execute(sa.insert(schema.AUX_TABLE).values(MT_KEY1="claim", MT_KEY2=1))
    )  # type: ignore[arg-type, return-value]
    with pytest.raises(WriteConflictError):
        second.commit()
    assert rows.count("AUX_TABLE") == 0
    assert rows.select("TXN_COMPONENTS", "TC_TXNID", "TC_PARTITION", "TC_WRITEID") == [(2, "p=1", 2)]


def test_an_abort_remembers_the_partitions_that_hold_its_files(client: MetastoreClient, rows: Any) -> None:
    txn = client.begin({"db.t": "insert"}, partitioned=["db.t"])
    txn.add_partitions("db.t", ["p=1", "p=2"])
    txn.abort()
    assert rows.select("TXN_COMPONENTS", "TC_PARTITION", "TC_WRITEID") == [("p=1", 1), ("p=2", 1)]


def test_operations_and_tables_must_make_sense(client: MetastoreClient, rows: Any) -> None:
    before = rows.counts()
    for tables, text in (
        ({}, "no table is named"),
        ({"db.t": "upsert"}, "'upsert' is no operation"),
        ({"t": "insert"}, "no table name"),
        ({"db.t": "insert", "DB.T": "update"}, "declared twice"),
        ({"db.t;": "insert"}, "no table name"),
        ({"db." + "t" * 4096: "insert"}, "the limit is 256"),
    ):
        with pytest.raises(InvalidArgumentsError, match=text):
            client.begin(tables)
    assert rows.counts() == before


@pytest.fixture
def quick_client(metastore_url: str) -> Iterator[MetastoreClient]:
    """A client whose txns time out after a second, so that its heartbeats come every half."""
    settings = Settings({Source.CONNECTION: {"hive.txn.timeout": "1s", "hive.lock.numretries": "2"}})
    with MetastoreClient(metastore_url, settings) as client:
        yield client


def test_an_open_transaction_is_kept_alive_in_the_background(quick_client: MetastoreClient, rows: Any) -> None:
    beaten = threading.Event()
    beat = quick_client.heartbeats._beat

    def noted(txn_id: int) -> None:
        beat(txn_id)
        beaten.set()

    quick_client.heartbeats._beat = noted
    txn = quick_client.begin({"db.t": "insert"})
    first = rows.select("TXNS", "TXN_LAST_HEARTBEAT", TXN_ID=txn.txn_id)
    for _ in range(2):  # one may have come before the look
        beaten.clear()
        assert beaten.wait(10)
    assert rows.select("TXNS", "TXN_LAST_HEARTBEAT", TXN_ID=txn.txn_id) > first
    txn.commit()


def test_a_transaction_that_was_aborted_behind_its_back_finds_out(
    quick_client: MetastoreClient, client: MetastoreClient
) -> None:
    txn = quick_client.begin({"db.t": "insert"})
    client.abort_txn(txn.txn_id, "by the operator")
    waited = threading.Event()
    for _ in range(100):
        if quick_client.heartbeats.lost(txn.txn_id) is not None:
            break
        waited.wait(0.1)
    with pytest.raises(TxnAbortedError, match="by the operator"):
        txn.check()
    with pytest.raises(TxnAbortedError, match="by the operator"):
        txn.commit()


def test_waiting_for_a_lock_ends_with_nothing_left_behind(
    quick_client: MetastoreClient, rows: Any, lock_on: Any
) -> None:
    quick_client.lock([lock_on("db.t", LockType.EXCLUSIVE)])
    with pytest.raises(LockTimeoutError, match=r"waited 0\.3 s"):
        quick_client.begin({"db.t": "insert"})
    assert rows.select("HIVE_LOCKS", "HL_TXNID") == [(0,)]


def test_waiting_for_a_lock_ends_with_the_grant(
    client: MetastoreClient, other_client: MetastoreClient, lock_on: Any
) -> None:
    """
    t1  A holds X
    t2              B asks, waits
    t3  A lets go
    t4              B goes on
    """
    blocker = client.lock([lock_on("db.t", LockType.EXCLUSIVE)])
    began = []
    thread = threading.Thread(target=lambda: began.append(other_client.begin({"db.t": "insert"})))
    thread.start()
    while not any(row.state is LockState.WAITING for row in client.show_locks()):
        threading.Event().wait(0.01)
    client.unlock(blocker.lock_id)
    thread.join(30)
    assert [txn.write_ids["db.t"] for txn in began] == [1]
    began[0].commit()


@pytest.mark.parametrize("operation", ["insert", "update"])
def test_a_commit_of_rows_that_are_not_as_their_writer_left_them_takes_what_is_there(
    client: MetastoreClient, other_client: MetastoreClient, rows: Any, operation: str
) -> None:
    """Somebody has named partitions in the writer's place: the components are theirs."""
    writer = client.begin({"db.t": operation})
    other_client.add_partitions(writer.txn_id, "db.t", ["p=1", "p=2"], Operation.INSERT)
    writer.commit()
    found = rows.select("COMPLETED_TXN_COMPONENTS", "CTC_PARTITION", "CTC_WRITEID", CTC_TXNID=writer.txn_id)
    assert sorted(found) == [("p=1", 1), ("p=2", 1)]
    assert rows.count("TXN_COMPONENTS") == rows.count("HIVE_LOCKS") == 0


@pytest.mark.parametrize("operation", ["insert", "update", "select"])
def test_a_commit_finds_out_that_its_txn_was_aborted(
    client: MetastoreClient, other_client: MetastoreClient, rows: Any, operation: str
) -> None:
    writer = client.begin({"db.t": operation})
    other_client.abort_txn(writer.txn_id, "by hand")
    with pytest.raises(TxnAbortedError, match="by hand"):
        writer.commit()
    assert rows.count("COMPLETED_TXN_COMPONENTS") == 0


@pytest.mark.parametrize("operation", ["insert", "update"])
def test_a_commit_that_is_sent_again_has_happened_once(
    client: MetastoreClient, other_client: MetastoreClient, rows: Any, operation: str
) -> None:
    writer = client.begin({"db.t": operation})
    other_client.commit_txn(writer.txn_id, snapshot=writer.valid_txns)
    writer.commit()
    assert rows.select("COMPLETED_TXN_COMPONENTS", "CTC_WRITEID", CTC_TXNID=writer.txn_id) == [(1,)]
