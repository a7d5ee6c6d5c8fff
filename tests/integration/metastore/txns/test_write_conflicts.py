"""Write conflicts: the first to commit wins."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from airflow_hive_acid.errors import InvalidArgumentsError, WriteConflictError
from airflow_hive_acid.metastore.database.codes import LockType, Operation, TxnType
from airflow_hive_acid.metastore.txns.key_values import KeyValue, take_over

if TYPE_CHECKING:
    from airflow_hive_acid.metastore import MetastoreClient

INSERT, UPDATE, DELETE = Operation.INSERT, Operation.UPDATE, Operation.DELETE


class Writer:
    """A txn that locks places and commits by the plain verbs, as Hive's own client does."""

    def __init__(
        self,
        client: MetastoreClient,
        lock_on: Any,
        places: dict[str, Operation],
        *,
        agent: str | None = None,
        dynamic: bool = False,
    ) -> None:
        self.client = client
        self.txn_id = client.open_txn(agent_info=agent)
        for table in {place.split("/")[0] for place in places}:
            client.allocate_write_ids(table, self.txn_id)
        components = [
            lock_on(place, LockType.SHARED_WRITE, operation, dynamic_partitions=dynamic)
            for place, operation in places.items()
        ]
        client.lock(components, txn_id=self.txn_id)

    def commit(self, **options: Any) -> None:
        self.client.commit_txn(self.txn_id, **options)


@pytest.mark.conformance("W01")
def test_one_after_the_other_is_no_conflict(client: MetastoreClient, lock_on: Any) -> None:
    for _ in range(2):
        Writer(client, lock_on, {"db.t/p=1": UPDATE}).commit()


@pytest.mark.conformance("W02")
@pytest.mark.parametrize("second", ["db.u/p=1", "db.t/p=2", "other.t/p=1"])
def test_different_tables_or_partitions_are_no_conflict(client: MetastoreClient, lock_on: Any, second: str) -> None:
    one, two = Writer(client, lock_on, {"db.t/p=1": UPDATE}), Writer(client, lock_on, {second: UPDATE})
    one.commit()
    two.commit()


@pytest.mark.hive4("a Hive 3 keeps no row of a committed txn")
@pytest.mark.conformance("W03")
def test_the_second_to_commit_a_change_of_the_same_partition_is_aborted(
    client: MetastoreClient, rows: Any, lock_on: Any
) -> None:
    """
    t1  A opens 1, updates p=1
    t2                          B opens 2, updates p=1
    t3  A commits with commit id 2
    t4                          B: [2,2] overlaps [1,2], so it is aborted, in the same database transaction
    """
    one = Writer(client, lock_on, {"default.tab/p=1": UPDATE}, agent="dag=loads run=r1 task=merge try=1")
    two = Writer(client, lock_on, {"default.tab/p=1": UPDATE})
    one.commit()
    with pytest.raises(WriteConflictError) as caught:
        two.commit()
    text = str(caught.value)
    assert text.startswith(
        "Aborting [txnid:2,2] due to a write conflict on default/tab/p=1 committed by [txnid:1,2] u/u."
    )
    assert "The other txn was dag=loads run=r1 task=merge try=1's, committed at 2" in text
    assert rows.txn_state(2) == ("a", "write conflicts")
    assert rows.select("WRITE_SET", "WS_TXNID", "WS_COMMIT_ID", "WS_OPERATION_TYPE") == [(1, 2, "u")]
    assert rows.count("HIVE_LOCKS") == 0
    assert rows.select("TXN_COMPONENTS", "TC_TXNID") == [(2,)]
    assert rows.select("COMPLETED_TXN_COMPONENTS", "CTC_TXNID") == [(1,)]
    assert rows.select("MIN_HISTORY_LEVEL") == []


@pytest.mark.conformance("W05")
@pytest.mark.parametrize(
    ("first", "second", "letters"), [(DELETE, DELETE, "d/d"), (UPDATE, DELETE, "d/u"), (DELETE, UPDATE, "u/d")]
)
def test_deletes_conflict_like_updates(
    client: MetastoreClient, lock_on: Any, first: Operation, second: Operation, letters: str
) -> None:
    one, two = (Writer(client, lock_on, {"default.tab/p=1": o}) for o in (first, second))
    one.commit()
    with pytest.raises(WriteConflictError, match=letters):
        two.commit()


@pytest.mark.conformance("W06")
def test_an_insert_never_conflicts(client: MetastoreClient, lock_on: Any) -> None:
    update, insert = Writer(client, lock_on, {"db.t/p=1": UPDATE}), Writer(client, lock_on, {"db.t/p=1": INSERT})
    insert.commit()
    update.commit()


@pytest.mark.conformance("W07")
def test_an_aborted_change_is_no_conflict(client: MetastoreClient, lock_on: Any) -> None:
    one, two = (Writer(client, lock_on, {"db.t": UPDATE}) for _ in range(2))
    client.abort_txn(one.txn_id)
    two.commit()


@pytest.mark.conformance("W08")
def test_a_reader_is_never_in_the_write_set(client: MetastoreClient, rows: Any) -> None:
    reader = client.begin({"db.t": "select"})
    with client.transaction({"db.t": "update"}):
        pass
    reader.commit()
    assert rows.select("WRITE_SET", "WS_TXNID") == [(2,)]


@pytest.mark.conformance("W10")
@pytest.mark.parametrize(("second", "conflict"), [(["p=1", "p=2"], True), (["p=2"], False), ([], False)])
def test_dynamic_partition_updates_conflict_by_the_partitions_they_named(
    client: MetastoreClient, lock_on: Any, second: list[str], conflict: bool
) -> None:
    one, two = (Writer(client, lock_on, {"default.tab": UPDATE}, dynamic=True) for _ in range(2))
    client.add_partitions(one.txn_id, "default.tab", ["p=1"])
    client.add_partitions(two.txn_id, "default.tab", second)
    one.commit()
    if conflict:
        with pytest.raises(WriteConflictError, match="default/tab/p=1"):
            two.commit()
    else:
        two.commit()


@pytest.mark.conformance("W11")
def test_changes_of_a_table_without_partitions_conflict(client: MetastoreClient, lock_on: Any) -> None:
    one, two = (Writer(client, lock_on, {"default.tab": UPDATE}) for _ in range(2))
    one.commit()
    with pytest.raises(WriteConflictError, match=r"on default/tab committed by \[txnid:1,2\] u/u"):
        two.commit()


@pytest.mark.conformance("W13")
def test_a_commit_under_exclusive_write_locks_skips_the_check(client: MetastoreClient, lock_on: Any) -> None:
    one, two = (Writer(client, lock_on, {"db.t": UPDATE}) for _ in range(2))
    one.commit()
    two.commit(check_conflicts=False)


@pytest.mark.conformance("W14")
def test_a_commit_moves_components_and_marks_whether_the_txn_changed_rows(
    client: MetastoreClient, rows: Any, lock_on: Any
) -> None:
    Writer(client, lock_on, {"db.t": INSERT, "db.u": INSERT}).commit()
    Writer(client, lock_on, {"db.t": INSERT, "db.u": DELETE}).commit()
    compaction = client.open_txn(type=TxnType.COMPACTION)
    rows.insert(
        "TXN_COMPONENTS", TC_TXNID=compaction, TC_DATABASE="db", TC_TABLE="t", TC_OPERATION_TYPE="c", TC_WRITEID=2
    )
    client.commit_txn(compaction)
    with client.snapshot(["db.t"]):
        pass
    assert rows.select("COMPLETED_TXN_COMPONENTS", "CTC_TXNID", "CTC_TABLE", "CTC_WRITEID", "CTC_UPDATE_DELETE") == [
        (1, "t", 1, "N"),
        (1, "u", 1, "N"),
        (2, "t", 2, "Y"),
        (2, "u", 2, "Y"),
    ]
    assert rows.count("TXN_COMPONENTS") == 0


@pytest.mark.conformance("W15")
def test_two_changes_of_one_partition_in_one_txn_are_one_row_of_the_write_set(
    client: MetastoreClient, rows: Any, lock_on: Any
) -> None:
    writer = Writer(client, lock_on, {"db.t/p=1": UPDATE})
    client.lock([lock_on("db.t/p=1", LockType.SHARED_WRITE, UPDATE)], txn_id=writer.txn_id)
    client.lock([lock_on("db.t/p=1", LockType.SHARED_WRITE, DELETE)], txn_id=writer.txn_id)
    writer.commit()
    assert rows.select("WRITE_SET", "WS_PARTITION", "WS_OPERATION_TYPE") == [("p=1", "d"), ("p=1", "u")]


@pytest.mark.rule("R2")
def test_waiting_writer_is_not_doomed_by_the_commit_it_waited_for(
    client: MetastoreClient, other_client: MetastoreClient, lock_on: Any
) -> None:
    """
    t1  A opens 1, holds EXCL_WRITE
    t2                      B opens 2, waits for A
    t3  A commits, commit id = MAX(TXN_ID) = 2
    t4                      B is granted; its snapshot sees 1
    t5                      B commits: must succeed, although [2,2] and [1,2] overlap
    """
    first = client.open_txn()
    client.lock([lock_on("db.t", LockType.EXCL_WRITE, UPDATE)], txn_id=first)
    client.allocate_write_ids("db.t", first)
    pending = other_client.start({"db.t": "update"})
    assert not pending.granted
    client.commit_txn(first)
    assert pending.check()
    second = other_client.finish(pending)
    assert second is not None
    assert str(second.snapshot["db.t"]) == "db.t:2:9223372036854775807::"
    second.commit()


@pytest.mark.rule("R2")
def test_a_writer_that_would_be_doomed_is_opened_anew_before_it_works(
    client: MetastoreClient, other_client: MetastoreClient, rows: Any, lock_on: Any
) -> None:
    """
    t1  A holds EXCLUSIVE
    t2                      B opens 1, waits
    t3                                          C opens 2, updates, commits (commit id 2)
    t4  A lets go
    t5                      B is granted; C is later than B's snapshot can see: B starts over as txn 3
    """
    blocker = client.lock([lock_on("db.t", LockType.EXCLUSIVE)])
    pending = other_client.start({"db.t": "update"})
    third = client.open_txn()
    rows.insert("TXN_COMPONENTS", TC_TXNID=third, TC_DATABASE="db", TC_TABLE="t", TC_OPERATION_TYPE="u", TC_WRITEID=1)
    client.commit_txn(third)
    client.unlock(blocker.lock_id)
    assert pending.check()
    assert other_client.finish(pending) is None
    assert rows.txn_state(pending.txn_id) == ("a", "concurrent committed transaction")
    again = other_client.begin({"db.t": "update"})
    assert again.txn_id == 3
    again.commit()


@pytest.mark.rule("R2")
@pytest.mark.parametrize(("operation", "begun"), [("overwrite", 2), ("update", 1), ("insert", 1)])
def test_who_overwrites_sees_whatever_was_committed_before_its_lock(
    client: MetastoreClient, other_client: MetastoreClient, operation: str, begun: int
) -> None:
    """
    t1  A opens 1
    t2                      B opens 2, inserts, commits
    t3  A is granted EXCL_WRITE at once, and would not see 2: what it reads of the table and writes back lacks B's row
    """
    opened: list[int] = []

    def insert_once(txn_id: int) -> None:
        if not opened:
            other_client.begin({"db.t": "insert"}).commit()
        opened.append(txn_id)

    txn = client.begin({"db.t": operation}, opened=insert_once)
    assert len(opened) == begun
    assert txn.snapshot["db.t"].is_valid(1) == (operation == "overwrite")


@pytest.mark.rule("R2")
def test_who_has_waited_to_overwrite_sees_whatever_was_committed_meanwhile(
    client: MetastoreClient, other_client: MetastoreClient, lock_on: Any, rows: Any
) -> None:
    """
    t1  A holds EXCLUSIVE
    t2                      B opens 1 to overwrite, waits
    t3                                          C opens 2, inserts, commits
    t4  A lets go, B is granted and starts over
    """
    blocker = client.lock([lock_on("db.t", LockType.EXCLUSIVE)])
    pending = other_client.start({"db.t": "overwrite"})
    third = client.open_txn()
    client.allocate_write_ids("db.t", third)
    rows.insert("TXN_COMPONENTS", TC_TXNID=third, TC_DATABASE="db", TC_TABLE="t", TC_OPERATION_TYPE="i", TC_WRITEID=1)
    client.commit_txn(third)
    client.unlock(blocker.lock_id)
    assert pending.check()
    assert other_client.finish(pending) is None
    assert rows.txn_state(pending.txn_id) == ("a", "concurrent committed transaction")


@pytest.mark.rule("R2")
def test_who_overwrites_sees_what_a_housekeeper_has_forgotten(
    client: MetastoreClient, other_client: MetastoreClient, lock_on: Any
) -> None:
    """
    t1  A opens 1                         B opens 2, to overwrite
    t2               C opens 3, inserts with write id 1, commits
    t3  A inserts with write id 2, commits; of write id 1 a housekeeper forgets who has written it
    t4                                    B is granted its lock, and would not see 3
    """
    first = other_client.open_txn()
    opened: list[int] = []

    def insert(txn_id: int) -> None:
        other_client.lock([lock_on("db.t", LockType.SHARED_WRITE, INSERT)], txn_id=txn_id)
        other_client.allocate_write_ids("db.t", txn_id)
        other_client.commit_txn(txn_id)

    def before_the_lock(txn_id: int) -> None:
        if not opened:
            insert(other_client.open_txn())
            insert(first)
            assert other_client.housekeeping.remove_duplicate_completed_components() == 1
        opened.append(txn_id)

    client.begin({"db.t": "overwrite"}, opened=before_the_lock)
    assert len(opened) == 2


@pytest.mark.rule("R2")
def test_a_change_the_snapshot_did_not_contain_is_a_conflict(
    client: MetastoreClient, other_client: MetastoreClient
) -> None:
    first, second = client.begin({"db.t": "update"}), other_client.begin({"db.t": "update"})
    first.commit()
    with pytest.raises(WriteConflictError):
        second.commit()


@pytest.mark.rule("R2")
@pytest.mark.parametrize("aborted_before", [0, 3])
def test_a_conflict_is_the_same_whatever_else_the_snapshot_leaves_out(
    client: MetastoreClient, other_client: MetastoreClient, aborted_before: int
) -> None:
    """
    t1  some txns abort: the snapshots list them
    t2  A changes the table and commits; B, which began later, has seen it: no conflict
    t3  C began before B's commit, and has not seen it: conflict
    """
    for _ in range(aborted_before):
        client.begin({"db.t": "update"}).abort()
    client.begin({"db.t": "update"}).commit()
    first, second = client.begin({"db.t": "update"}), other_client.begin({"db.t": "delete"})
    first.commit()
    with pytest.raises(WriteConflictError, match=rf"committed by \[txnid:{first.txn_id},{second.txn_id}\] d/u"):
        second.commit()


@pytest.mark.rule("R12")
def test_a_partitioned_table_is_not_committed_without_naming_partitions(
    client: MetastoreClient, rows: Any, lock_on: Any
) -> None:
    for table, values in (
        ("DBS", {"DB_ID": 1, "DB_LOCATION_URI": "file:/w/db.db", "NAME": "db", "CTLG_NAME": "hive"}),
        ("TBLS", {"TBL_ID": 1, "CREATE_TIME": 1, "DB_ID": 1, "LAST_ACCESS_TIME": 0, "RETENTION": 0, "TBL_NAME": "t"}),
        ("PARTITION_KEYS", {"TBL_ID": 1, "PKEY_NAME": "p", "PKEY_TYPE": "int", "INTEGER_IDX": 0}),
    ):
        rows.insert(table, **values)
    writer = Writer(client, lock_on, {"db.t": UPDATE})
    before = rows.counts()
    with pytest.raises(InvalidArgumentsError, match=r"txn 1 changed db\.t, which is partitioned, without naming"):
        writer.commit()
    assert rows.counts() == before
    assert rows.txn_state(1)[0] == "o"
    client.add_partitions(writer.txn_id, "db.t", ["p=1"])
    writer.commit()
    assert rows.select("WRITE_SET", "WS_PARTITION") == [("p=1",)]


@pytest.mark.parametrize(
    ("columns", "bad", "text"),
    [
        (["p"], "q=1", r"db\.t is partitioned by p, and 'q=1' is no partition of it"),
        (["p"], "p=1/q=1", "is no partition of it"),
        (["p", "q"], "q=1/p=1", "is partitioned by p, q"),
        ([], "p=1", r"db\.t has no partitions"),
    ],
)
def test_a_partition_that_is_not_the_tables_is_refused(
    client: MetastoreClient, rows: Any, columns: list[str], bad: str, text: str
) -> None:
    rows.insert("DBS", DB_ID=1, DB_LOCATION_URI="file:/w/db.db", NAME="db", CTLG_NAME="hive")
    rows.insert("TBLS", TBL_ID=1, CREATE_TIME=1, DB_ID=1, LAST_ACCESS_TIME=0, RETENTION=0, TBL_NAME="t")
    for number, column in enumerate(columns):
        rows.insert("PARTITION_KEYS", TBL_ID=1, PKEY_NAME=column, PKEY_TYPE="int", INTEGER_IDX=number)
    txn = client.begin({"db.t": "update"}, partitioned=["db.t"])
    before = rows.counts()
    with pytest.raises(InvalidArgumentsError, match=text):
        client.add_partitions(txn.txn_id, "db.t", [bad])
    txn.add_partitions("db.t", [bad])
    with pytest.raises(InvalidArgumentsError, match=text):
        txn.commit()
    assert rows.counts() == before
    txn.abort("gave up")
    assert rows.txn_state(txn.txn_id) == ("a", "gave up")


@pytest.mark.rule("R12")
def test_a_transaction_asks_for_the_partitions_of_tables_declared_partitioned(
    client: MetastoreClient, rows: Any
) -> None:
    txn = client.begin({"db.t": "update", "db.u": "insert"}, partitioned=["db.t"])
    with pytest.raises(InvalidArgumentsError, match=r"add_partitions\('db\.t'"):
        txn.commit()
    txn.add_partitions("db.t", [])
    txn.commit()
    assert rows.count("WRITE_SET") == 0
    assert rows.select("COMPLETED_TXN_COMPONENTS", "CTC_TABLE") == [("u",)]


def test_partitions_of_several_statements_add_up_with_their_operations(client: MetastoreClient, rows: Any) -> None:
    with client.transaction({"db.t": "update"}, partitioned={"db.t": True}) as txn:
        txn.add_partitions("db.t", ["m=1"], "insert")
        txn.add_partitions("db.t", ["m=1", "M=2"])
        txn.add_partitions("db.t", ["m=3"], "delete")
        txn.add_partitions("db.t", [])
    assert rows.select("WRITE_SET", "WS_PARTITION", "WS_OPERATION_TYPE") == [("m=1", "u"), ("m=2", "u"), ("m=3", "d")]
    assert rows.select("COMPLETED_TXN_COMPONENTS", "CTC_PARTITION", "CTC_WRITEID", "CTC_UPDATE_DELETE") == [
        ("m=1", 1, "Y"),
        ("m=1", 1, "Y"),
        ("m=2", 1, "Y"),
        ("m=3", 1, "Y"),
    ]


def test_the_latest_txn_in_conflict_is_told(client: MetastoreClient, lock_on: Any) -> None:
    one, two, three = (Writer(client, lock_on, {"db.t": UPDATE}) for _ in range(3))
    assert client.latest_txn_in_conflict(one.txn_id) == 0
    two.commit()
    assert client.latest_txn_in_conflict(one.txn_id) == two.txn_id
    assert client.latest_txn_in_conflict(three.txn_id) == two.txn_id


def test_where_a_stream_stands_changes_with_the_commit(client: MetastoreClient, rows: Any, lock_on: Any) -> None:
    rows.insert("DBS", DB_ID=1, DB_LOCATION_URI="file:/w/db.db", NAME="db", CTLG_NAME="hive")
    rows.insert("TBLS", TBL_ID=7, CREATE_TIME=1, DB_ID=1, LAST_ACCESS_TIME=0, RETENTION=0, TBL_NAME="t")
    rows.insert("TABLE_PARAMS", TBL_ID=7, PARAM_KEY="_meta_offset", PARAM_VALUE="10")
    first, second = (Writer(client, lock_on, {"db.t": UPDATE}) for _ in range(2))
    first.commit(key_value=KeyValue(7, "_meta_offset", "20"))
    assert rows.select("TABLE_PARAMS", "PARAM_VALUE", PARAM_KEY="_meta_offset") == [("20",)]
    with pytest.raises(WriteConflictError):
        second.commit(key_value=KeyValue(7, "_meta_offset", "30"))
    assert rows.select("TABLE_PARAMS", "PARAM_VALUE", PARAM_KEY="_meta_offset") == [("20",)]
    third = Writer(client, lock_on, {"db.t": INSERT})
    with pytest.raises(InvalidArgumentsError, match="has no parameter '_meta_other'"):
        third.commit(key_value=KeyValue(7, "_meta_other", "1"))
    assert rows.txn_state(third.txn_id)[0] == "o"
    with pytest.raises(InvalidArgumentsError, match="only keys that begin with _meta"):
        KeyValue(7, "transactional", "false")


def test_a_table_takes_over_where_the_streams_of_its_copy_stand(client: MetastoreClient, rows: Any) -> None:
    rows.insert("DBS", DB_ID=1, DB_LOCATION_URI="file:/w/db.db", NAME="db", CTLG_NAME="hive")
    rows.insert("TBLS", TBL_ID=7, CREATE_TIME=1, DB_ID=1, LAST_ACCESS_TIME=0, RETENTION=0, TBL_NAME="t")
    before = {"_meta.position.a": "1", "_meta.position.b": "2", "_meta.position.gone": "3", "note": "stays"}
    for key, value in before.items():
        rows.insert("TABLE_PARAMS", TBL_ID=7, PARAM_KEY=key, PARAM_VALUE=value)
    wanted = {"_meta.position.a": "1", "_meta.position.b": "5", "_meta.position.new": "6"}
    client.database.run(lambda connection: take_over(connection, 7, wanted))
    found = rows.select("TABLE_PARAMS", "PARAM_KEY", "PARAM_VALUE", TBL_ID=7)
    assert dict(found) == {**wanted, "note": "stays"}
