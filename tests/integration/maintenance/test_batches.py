"""Transaction batches: what readers see at any moment, what is left after any kill, and what a dead writer can do."""

from __future__ import annotations

import contextlib
import os
import re
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa

from airflow_hive_acid.engine import Engine, batches
from airflow_hive_acid.engine.spool import error_of
from airflow_hive_acid.errors import (
    BadRecordError,
    ClaimLostError,
    CommitStateUnknownError,
    HiveAcidError,
    InvalidArgumentsError,
    JobFailedError,
    PublishError,
    TxnAbortedError,
    UnsupportedStatementError,
)
from airflow_hive_acid.format.jobs import Append, JobError, JobResult
from airflow_hive_acid.format.names import base_name
from airflow_hive_acid.maintenance import run_cleaner, run_reaper, run_worker
from airflow_hive_acid.maintenance.doctor import examine_tables
from airflow_hive_acid.metastore.batches import runs
from airflow_hive_acid.metastore.codes import LockType
from airflow_hive_acid.metastore.compaction_queue_model import CompactionType
from airflow_hive_acid.metastore.schema_catalog import TABLE_PARAMS
from airflow_hive_acid.metastore.schema_transactions import TXN_COMPONENTS, TXNS
from airflow_hive_acid.settings import Source

from .batch_model import ModelSpark, compact_model, failed, local, read
from .killing import run_and_kill
from .steps import change, pass_time, rows

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from airflow_hive_acid.filesystem import Filesystem
    from airflow_hive_acid.format.jobs import JobSpec
    from airflow_hive_acid.metastore import MetastoreClient

TABLES = (
    "CREATE DATABASE IF NOT EXISTS w;"
    "CREATE TABLE w.t (id INT) STORED AS ORC TBLPROPERTIES ('transactional'='true');"
    "CREATE TABLE w.p (id INT) PARTITIONED BY (k STRING) STORED AS ORC TBLPROPERTIES ('transactional'='true')"
)
FENCE = re.compile("_tmp_[0-9a-f-]+")
KILL_EVERY = int(os.environ.get("HIVE_ACID_BATCH_KILLS", "6"))
"""In front of every sixth change a writer is killed; 1 for every one."""


@pytest.fixture
def settings(settings: dict[str, str]) -> dict[str, str]:
    return {**settings, "hive.compactor.abortedtxn.threshold": "0"}


def engine_of(client: MetastoreClient, spark: Any, warehouse: str) -> Engine:
    return Engine(client, spark, warehouse, agent_info="a writer")


@pytest.fixture
def spark() -> ModelSpark:
    return ModelSpark()


@pytest.fixture
def engine(client: MetastoreClient, spark: ModelSpark, warehouse: str) -> Iterator[Engine]:
    with engine_of(client, spark, warehouse) as engine:
        engine.run(TABLES)
        yield engine


def records(*ids: int) -> list[dict[str, Any]]:
    return [{"id": i} for i in ids]


def names(client: MetastoreClient, table: str) -> list[str]:
    root = local(client.catalog.get_table(table).location)
    return sorted(str(p.relative_to(root)) for p in root.rglob("*") if p.is_file())


def states(client: MetastoreClient) -> dict[str, int]:
    found: dict[str, int] = {}
    for row in client.show_transactions():
        found[row.state.value] = found.get(row.state.value, 0) + 1
    return found


def forget(client: MetastoreClient, fs: Filesystem) -> None:
    """Time passes: reaper and Cleaner have their turns, and what nobody needs to know of aborted txns is gone."""
    for _ in range(3):
        pass_time(client)
        run_reaper(client, fs)
        run_cleaner(client, fs)


def compact(client: MetastoreClient, fs: Filesystem, table: str, partition: str | None = None) -> None:
    """A major compaction, and time for the Cleaner."""
    client.compactions.enqueue(table, partition, type=CompactionType.MAJOR)
    run_worker(client, fs, partial(compact_model, fs), "worker")
    forget(client, fs)


def silent(client: MetastoreClient, host: str = "host1") -> None:
    """The process of all open txns is gone, and its time is up."""
    change(client, sa.update(TXNS).where(TXNS.c.TXN_STATE == "o", TXNS.c.TXN_HOST == host).values(TXN_LAST_HEARTBEAT=1))


@pytest.mark.rule("R4")
def test_readers_see_the_committed_txns_of_an_open_batch(client: MetastoreClient, engine: Engine) -> None:
    batch = engine.batch("w.t", transactions=4)
    batch.write(records(1, 2))
    assert read(client, "w.t") == []
    first = batch.commit()
    assert first is not None
    assert (first.rows, first.directories[0].rpartition("/")[2]) == (2, "delta_0000001_0000005")
    with client.snapshot(["w.t"]) as earlier:
        batch.write(records(3))
        batch.commit()
        assert read(client, "w.t", earlier) == [1, 2]
    batch.write(records(4))
    batch.abort()
    assert read(client, "w.t") == [1, 2, 3]
    assert "delta_0000001_0000005/bucket_00000_flush_length" in names(client, "w.t")
    batch.close()
    assert read(client, "w.t") == [1, 2, 3]
    assert names(client, "w.t") == ["delta_0000001_0000005/_orc_acid_version", "delta_0000001_0000005/bucket_00000"]
    assert "o" not in states(client)
    assert client.show_locks() == []


def test_used_up_batches_are_followed_by_others(client: MetastoreClient, engine: Engine) -> None:
    with engine.batch("w.t", transactions=2) as batch:
        for i in range(5):
            batch.write(records(i))
            batch.commit()
        batch.write(records(5))
    assert read(client, "w.t") == [0, 1, 2, 3, 4, 5]
    found = {name.partition("/")[0] for name in names(client, "w.t")}
    assert found == {"delta_0000001_0000003", "delta_0000004_0000006", "delta_0000007_0000009"}


def test_an_exception_inside_of_the_block_drops_what_was_not_committed(client: MetastoreClient, engine: Engine) -> None:
    def fail() -> None:
        with engine.batch("w.t", transactions=3) as batch:
            batch.write(records(1))
            batch.commit()
            batch.write(records(2))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert read(client, "w.t") == [1]
    assert "o" not in states(client)


def test_partitions_of_a_batch_are_named_by_its_commits(client: MetastoreClient, engine: Engine) -> None:
    """R12"""
    with (
        engine.batch("w.p", partition={"k": "a"}, transactions=2) as one,
        engine.batch("w.p", partition={"K": "b"}, transactions=2) as other,
    ):
        for i in range(2):
            one.write(records(i))
            other.write(records(10 + i))
            one.commit()
            other.commit()
    assert read(client, "w.p") == [0, 1, 10, 11]
    assert [p.name for p in client.catalog.list_partitions("w.p")] == ["k=a", "k=b"]
    assert rows(client, TXN_COMPONENTS) == []


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        ({}, "record 3, column id: the field is missing"),
        ({"id": []}, "record 3, column id: [] is no int: give an int"),
        ({"id": 2**31}, "record 3, column id: 2147483648 is no int: it does not fit into 32 bits"),
        ({"id": 1, "ID2": 1}, "record 3, field id2: w.t has no such column to fill; it has id"),
        (7, "record 3 for w.t must be a dict of values, not 7"),
    ],
)
def test_a_poison_record_is_named_and_aborts_its_txn(
    client: MetastoreClient, engine: Engine, bad: Any, says: str
) -> None:
    with engine.batch("w.t", transactions=4) as batch:
        batch.write(records(1))
        batch.commit()
        batch.write(records(2, 3))
        with pytest.raises(BadRecordError) as failure:
            batch.write([bad])
        assert str(failure.value).startswith(says)
        batch.write(records(4))
    assert read(client, "w.t") == [1, 4]
    assert len({name.partition("/")[0] for name in names(client, "w.t")}) == 1


def test_a_record_that_only_spark_refuses_aborts_its_txn_alone(
    client: MetastoreClient, engine: Engine, spark: ModelSpark
) -> None:
    batch = engine.batch("w.t", transactions=4)
    batch.write(records(1))
    batch.commit()
    run = spark.run

    def refuse(spec: JobSpec) -> JobResult:
        if isinstance(spec.step, Append):
            raise error_of(JobError("BadRecordError", "row 1, column id: no int"))
        return run(spec)

    spark.run = refuse  # type: ignore[method-assign]
    batch.write(records(2))
    with pytest.raises(BadRecordError, match="row 1, column id"):
        batch.commit()
    spark.run = run  # type: ignore[method-assign]
    batch.write(records(3))
    assert batch.commit() is not None
    batch.close()
    assert read(client, "w.t") == [1, 3]
    assert len({name.partition("/")[0] for name in names(client, "w.t") if name.startswith("delta")}) == 1


def test_too_many_bytes_are_refused_with_the_setting(client: MetastoreClient, engine: Engine) -> None:
    few = {"hive.acid.rows.max.bytes": "40"}
    engine._context.settings = engine._context.settings.with_overrides(Source.REQUEST, few)
    with engine.batch("w.t", transactions=2) as batch:
        with pytest.raises(InvalidArgumentsError, match=r"more than 40 bytes \(hive.acid.rows.max.bytes\)"):
            batch.write(records(*range(10)))
        assert batch.pending == 0
    assert read(client, "w.t") == []


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"table": "w.t", "transactions": 1000}, "1 to 999 can be opened at once"),
        ({"table": "w.t", "transactions": 0}, "1 to 999 can be opened at once"),
        ({"table": "w.t", "partition": {"k": "a"}}, "w.t has no partitions"),
        ({"table": "w.p", "partition": {"j": "a"}}, "w.p is partitioned by k"),
        ({"table": "w.t", "stream": ""}, None),
        ({"table": "w.plain"}, "no full ACID table"),
    ],
)
def test_what_cannot_be_a_batch_is_refused_with_the_remedy(
    engine: Engine, arguments: dict[str, Any], says: str | None
) -> None:
    engine.run("CREATE TABLE w.plain (id INT) STORED AS ORC TBLPROPERTIES ('transactional'='false')")
    if says is None:
        with engine.batch(**arguments) as batch, pytest.raises(InvalidArgumentsError, match="this batch has no stream"):
            _ = batch.position
        return

    def write() -> None:
        batch = engine.batch(**arguments)
        batch.write(records(1))
        batch.commit()

    with pytest.raises((InvalidArgumentsError, UnsupportedStatementError), match=says):
        write()


def test_positions_move_with_the_commit_and_with_nothing_else(client: MetastoreClient, engine: Engine) -> None:
    with engine.batch("w.t", transactions=3, stream="orders") as batch:
        assert batch.position is None
        batch.write(records(1))
        batch.commit({"orders-0": 17})
        batch.write(records(2))
        with pytest.raises(ZeroDivisionError):
            batch.commit({"orders-0": 18}, check=lambda _conn: 1 / 0)  # type: ignore[arg-type, return-value]
        assert batch.position == {"orders-0": 17}
        batch.write(records(3))
        batch.commit()
    with engine.batch("w.t", stream="orders") as again:
        assert again.position == {"orders-0": 17}
    assert read(client, "w.t") == [1, 3]
    keys = {row["PARAM_KEY"]: row["PARAM_VALUE"] for row in rows(client, TABLE_PARAMS)}
    assert keys["_meta.position.orders"] == '{"orders-0": 17}'


@pytest.mark.rule("R14")
def test_of_two_writers_of_a_stream_the_slower_one_commits_nothing(client: MetastoreClient, engine: Engine) -> None:
    one, other = (engine.batch("w.t", transactions=2, stream="orders") for _ in range(2))
    one.write(records(1))
    one.commit(1)
    other.write(records(1))
    with pytest.raises(ClaimLostError, match="another writer of stream 'orders' has gone on to 1"):
        other.commit(1)
    one.write(records(2))
    one.commit(2)
    one.close()
    other.close()
    assert read(client, "w.t") == [1, 2]


@pytest.mark.rule("R4")
@pytest.mark.rule("R5")
def test_a_writer_that_was_given_up_adds_nothing_to_what_is_committed(
    client: MetastoreClient, engine: Engine, fs: Filesystem, spark: ModelSpark
) -> None:
    """A writer sleeps between its job and the publishing, and wakes up when nobody remembers its txn.

    t1  A commits 1
    t2  A's job has appended 2 to the open file, flushed it, and staged the new length
    t3             the reaper fences and aborts; the Cleaner and time forget
    t4  A publishes: refused. Its Spark writes on into the file: nobody sees it
    """
    batch = engine.batch("w.t", transactions=3)
    batch.write(records(1))
    batch.commit()

    opened = batch._open
    assert opened is not None

    def reaped(_spec: JobSpec) -> None:
        spark.after = None
        with opened._heartbeat.turn:  # it sleeps: no beat either
            silent(client)
            forget(client, fs)

    (file,) = spark.files.values()
    spark.after = reaped
    batch.write(records(2))
    with pytest.raises((PublishError, HiveAcidError, OSError)):
        batch.commit()
    with contextlib.suppress(ValueError):
        file.append(b"[2, 99]\n[3, 98]\n")
    assert read(client, "w.t") == [1]
    forget(client, fs)
    assert read(client, "w.t") == [1]
    compact(client, fs, "w.t")
    assert read(client, "w.t") == [1]
    assert [name for name in names(client, "w.t") if name.startswith("delta")] == []


@pytest.mark.rule("R4")
def test_rows_of_a_txn_that_others_aborted_late_are_remembered_until_they_are_compacted(
    client: MetastoreClient, engine: Engine, fs: Filesystem
) -> None:
    """The abort comes when the rows are published: they are in a file with committed ones, and stay aborted."""
    batch = engine.batch("w.p", partition={"k": "a"}, transactions=4)
    batch.write(records(1))
    batch.commit()
    batch.write(records(2))

    def aborted(_conn: Any) -> None:
        raise TxnAbortedError("as a Hive's administrator may")

    with pytest.raises(TxnAbortedError):
        batch.commit(check=aborted)
    assert read(client, "w.p") == [1]
    forget(client, fs)
    assert [row["TC_PARTITION"] for row in rows(client, TXN_COMPONENTS)] == ["k=a"]
    assert read(client, "w.p") == [1]
    batch.write(records(3))  # another batch
    batch.commit()
    batch.close()
    compact(client, fs, "w.p", "k=a")
    assert read(client, "w.p") == [1, 3]
    assert rows(client, TXN_COMPONENTS) == []
    assert not [name for name in names(client, "w.p") if name.startswith("k=a/delta")]


def test_compaction_stops_below_an_open_batch(client: MetastoreClient, engine: Engine, fs: Filesystem) -> None:
    """K: the anchor's write id is the smallest open one. A base of write id 3 would hide the rows of 2 and 3."""
    with client.transaction({"w.t": "insert"}):
        pass  # write id 1, of which there are no files
    batch = engine.batch("w.t", transactions=4)
    for i in range(2):
        batch.write(records(i))
        batch.commit()
    compact(client, fs, "w.t")
    assert read(client, "w.t") == [0, 1]
    batch.write(records(2))
    batch.commit()
    batch.close()
    compact(client, fs, "w.t")
    assert read(client, "w.t") == [0, 1, 2]
    assert {name.partition("_v")[0] for name in names(client, "w.t")} == {"base_0000006"}


def test_a_batch_whose_lock_was_taken_away_commits_nothing(client: MetastoreClient, engine: Engine) -> None:
    batch = engine.batch("w.t", transactions=3)
    batch.write(records(1))
    first = batch.commit()
    assert first is not None
    client.abort_txn(first.txn_id - 1, "an administrator")
    batch.write(records(2))
    with pytest.raises(TxnAbortedError, match="the batch has lost its lock"):
        batch.commit()
    assert read(client, "w.t") == [1]
    batch.write(records(3))
    batch.commit()
    batch.close()
    assert read(client, "w.t") == [1, 3]


@pytest.mark.rule("R4")
@pytest.mark.parametrize("when", ["before the job", "after the job"])
def test_a_writer_that_slept_until_its_txns_were_forgotten_goes_on_in_another_batch(
    client: MetastoreClient, engine: Engine, fs: Filesystem, spark: ModelSpark, when: str
) -> None:
    """No txn of it can be aborted any more, and yet the batch has ended: no beat goes out for what is left of it."""
    batch = engine.batch("w.p", partition={"k": "a"}, transactions=4)
    batch.write(records(1))
    batch.commit()
    opened = batch._open
    assert opened is not None

    def slept(_spec: JobSpec | None = None) -> None:
        spark.after = None
        with opened._heartbeat.turn:
            silent(client)
            forget(client, fs)

    batch.write(records(2))
    if when == "after the job":
        spark.after = slept
    else:
        slept()
    with pytest.raises((HiveAcidError, OSError)):
        batch.commit()
    assert opened.ended
    batch.write(records(3))
    assert batch.commit() is not None
    batch.close()
    forget(client, fs)
    assert read(client, "w.p") == [1, 3]
    compact(client, fs, "w.p", "k=a")
    assert read(client, "w.p") == [1, 3]
    assert rows(client, TXN_COMPONENTS) == []


@pytest.mark.rule("R12")
def test_a_txn_that_a_hives_reaper_aborts_after_it_was_published_has_named_its_partition(
    client: MetastoreClient, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hive's Cleaner forgets an aborted txn without partition when the table's own directory holds nothing of it."""
    batch = engine.batch("w.p", partition={"k": "a"}, transactions=3)
    batch.write(records(1))
    first = batch.commit()
    assert first is not None
    publish = batches.publish_batch

    def aborted_then(*given: Any) -> None:
        publish(*given)
        client.abort_txn(first.txn_id + 1, "it sent no heartbeat, says a Hive")

    monkeypatch.setattr(batches, "publish_batch", aborted_then)
    batch.write(records(2))
    with pytest.raises(TxnAbortedError):
        batch.commit()
    assert [(r["TC_TXNID"], r["TC_PARTITION"]) for r in rows(client, TXN_COMPONENTS)] == [(first.txn_id + 1, "k=a")]
    assert read(client, "w.p") == [1]


@pytest.mark.rule("R17")
def test_a_lost_answer_to_the_end_of_a_batch_is_no_failure_of_what_was_committed(
    client: MetastoreClient, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The anchor has written nothing: it has ended, or times out."""
    batch = engine.batch("w.t", transactions=2)
    batch.write(records(1))
    batch.commit()

    def lossy(txn_id: int, **how: Any) -> None:
        raise CommitStateUnknownError("the connection broke")

    with monkeypatch.context() as patched:
        patched.setattr(client, "commit_txn", lossy)
        batch.close()
    assert read(client, "w.t") == [1]


@pytest.mark.parametrize("used", [True, False], ids=["written to before", "first written to"])
def test_rows_written_behind_the_drop_of_their_partition_are_not_lost(
    client: MetastoreClient, warehouse: str, fs: Filesystem, used: bool
) -> None:
    """
    t1  a batch is open: its write ids are given
    t2            the partition is dropped, beside its lock: a base of a later write id hides what is there
    t3  the batch writes to it: hidden, too, if it were committed. Refused; another batch writes behind the base
    """
    engine = engine_of(client, ModelSpark(), warehouse)
    shared = {"hive.txn.xlock.write": "true"}  # Hive's default: INSERT shares its lock with DROP PARTITION
    engine._context.settings = engine._context.settings.with_overrides(Source.REQUEST, shared)
    engine.run(TABLES)
    with engine.batch("w.p", partition={"k": "a"}, transactions=1) as first:
        first.write(records(0))
    batch = engine.batch("w.p", partition={"k": "a" if used else "b"}, transactions=4)
    batch.write(records(1))
    batch.commit()
    if not used:
        batch._static = (("k", "a"),)
        assert batch._open is not None
        batch._open._static = batch._static
    assert [lock.type for lock in client.show_locks()] == [LockType.SHARED_READ]
    engine.run("ALTER TABLE w.p DROP PARTITION (k = 'a')")
    batch.write(records(2))
    with pytest.raises(PublishError, match=r"k=a/base_0*\d+ .*dropped"):
        batch.commit()
    batch.write(records(2))
    batch.commit()
    batch.close()
    assert read(client, "w.p") == ([2] if used else [1, 2])
    forget(client, fs)
    compact(client, fs, "w.p", "k=a")
    assert read(client, "w.p") == ([2] if used else [1, 2])


def test_rows_written_behind_a_truncate_are_not_lost(client: MetastoreClient, warehouse: str) -> None:
    engine = engine_of(client, ModelSpark(), warehouse)
    shared = {"hive.txn.xlock.write": "true", "hive.txn.xlock.iow": "false"}
    engine._context.settings = engine._context.settings.with_overrides(Source.REQUEST, shared)
    engine.run(TABLES)
    batch = engine.batch("w.t", transactions=3)
    batch.write(records(1))
    batch.commit()
    with client.transaction({"w.t": "insert"}) as txn:  # INSERT OVERWRITE of nothing, as Spark would write it
        root = local(client.catalog.get_table("w.t").location)
        (root / base_name(txn.write_ids["w.t"])).mkdir()
    batch.write(records(2))
    with pytest.raises(PublishError, match=r"w.db/t/base_0*\d+ hides"):
        batch.commit()
    batch.write(records(2))
    batch.commit()
    batch.close()


def test_a_job_that_fails_ends_the_batch_and_the_next_write_begins_another(
    client: MetastoreClient, engine: Engine, spark: ModelSpark
) -> None:
    batch = engine.batch("w.t", transactions=5)
    batch.write(records(1))
    batch.commit()
    spark.after = lambda _spec: failed("the disk is full")
    batch.write(records(2))
    with pytest.raises(JobFailedError, match="the disk is full"):
        batch.commit()
    spark.after = None
    assert states(client).get("o", 0) == 0
    batch.write(records(3))
    batch.commit()
    batch.close()
    assert read(client, "w.t") == [1, 3]


@pytest.mark.rule("R17")
def test_a_commit_whose_answer_is_lost_is_left_alone(
    client: MetastoreClient, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch = engine.batch("w.t", transactions=3, stream="s")
    batch.write(records(1))
    batch.commit(1)
    commit, lost = client.commit_txn, []

    def lossy(txn_id: int, **how: Any) -> None:
        commit(txn_id, **how)
        if not lost:
            lost.append(txn_id)
            raise CommitStateUnknownError("the connection broke")

    monkeypatch.setattr(client, "commit_txn", lossy)
    batch.write(records(2))
    with pytest.raises(CommitStateUnknownError):
        batch.commit(2)
    assert read(client, "w.t") == [1, 2]
    assert "o" not in states(client)
    batch.write(records(2))
    with pytest.raises(ClaimLostError, match="has gone on to 2"):  # so it is not written twice
        batch.commit(2)
    with engine.batch("w.t", stream="s") as again:
        assert again.position == 2
    batch.close()
    assert read(client, "w.t") == [1, 2]


def test_the_doctor_finds_nothing_in_a_table_that_is_being_written(
    client: MetastoreClient, engine: Engine, fs: Filesystem
) -> None:
    batch = engine.batch("w.t", transactions=3)
    batch.write(records(1))
    batch.commit()
    assert list(examine_tables(client, fs)) == []
    batch.close()
    assert list(examine_tables(client, fs)) == []


def test_heartbeats_keep_all_txns_of_a_batch_alive(client: MetastoreClient, engine: Engine, fs: Filesystem) -> None:
    batch = engine.batch("w.t", transactions=3)
    batch.write(records(1))
    batch.commit()
    silent(client)
    opened = batch._open
    assert opened is not None
    opened._heartbeat.beat()
    run_reaper(client, fs)
    assert states(client)["o"] == 3
    batch.write(records(2))
    batch.commit()
    batch.close()
    assert read(client, "w.t") == [1, 2]


def test_ranges_leave_out_the_txns_of_others() -> None:
    assert runs([]) == []
    assert runs([3, 4, 5, 8, 10, 11]) == [(3, 5), (8, 8), (10, 11)]


# --- kills ------------------------------------------------------------------------------------------------------------


def stream_of_txns(acknowledged: Path, client: MetastoreClient, fs: Filesystem) -> None:
    """Three txns in a batch of two, one of them rolled back, in a process that is going to be killed."""
    engine = engine_of(client, ModelSpark(), "")
    engine._context.filesystem = fs
    with engine.batch("w.p", partition={"k": "a"}, transactions=2, stream="s") as batch:
        for i in range(4):
            batch.write(records(10 * i, 10 * i + 1))
            if i == 1:
                batch.abort()
                continue
            batch.commit(i)
            with acknowledged.open("a") as file:
                file.write(f"{i}\n")


@pytest.mark.rule("R4")
@pytest.mark.rule("R17")
@pytest.mark.backends("sqlite")
@pytest.mark.parametrize("start", [1])
def test_a_writer_that_is_killed_anywhere_leaves_whole_txns_and_nothing_else(
    client: MetastoreClient, fs: Filesystem, warehouse: str, settings: dict[str, str], tmp_path: Path, start: int
) -> None:
    """Killed in front of a change; then time passes, all services have their turn, and a second writer goes on."""
    whole = {0: [0, 1], 2: [20, 21], 3: [30, 31]}
    number, done = start, False
    while not done:
        with engine_of(client, ModelSpark(), warehouse) as engine:
            engine.run(TABLES)
        acknowledged = tmp_path / f"acknowledged-{number}"
        acknowledged.touch()
        what = run_and_kill(client.database.url, warehouse, settings, number, partial(stream_of_txns, acknowledged))
        done, sure = what is None, {int(i) for i in acknowledged.read_text().split()}
        before = read(client, "w.p")
        possible = [sorted(i for txn in {0, 2, 3} if txn <= last for i in whole[txn]) for last in (-1, 0, 2, 3)]
        assert before in possible, f"killed in front of change {number}: {what}"
        assert {i for txn in sure for i in whole[txn]} <= set(before), what
        silent(client, "dead")
        forget(client, fs)
        assert read(client, "w.p") == before, what
        assert "o" not in states(client)
        with engine_of(client, ModelSpark(), warehouse) as engine:
            with engine.batch("w.p", partition={"k": "a"}, transactions=2, stream="s") as batch:
                at = batch.position
                assert sorted(i for txn in {0, 2, 3} if at is not None and txn <= at for i in whole[txn]) == before
                batch.write(records(77))
            assert read(client, "w.p") == sorted([*before, 77])
            compact(client, fs, "w.p", "k=a")
            assert read(client, "w.p") == sorted([*before, 77]), what
            # Of the dead writer its fences are left, no file of its own.
            left = [name for name in names(client, "w.p") if "base" not in name and not FENCE.fullmatch(name)]
            assert left == [], f"killed in front of change {number}: {what}"
            assert rows(client, TXN_COMPONENTS) == []
            engine.run("DROP TABLE w.t; DROP TABLE w.p")
        number += KILL_EVERY
    assert number > 30
