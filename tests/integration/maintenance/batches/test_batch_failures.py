"""Transaction batches: what is left after any kill, what a dead writer can do, and what is told of a lost answer."""

from __future__ import annotations

import contextlib
import re
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from airflow_hive_acid.engine.streams import open_batch
from airflow_hive_acid.errors import (
    ClaimLostError,
    CommitStateUnknownError,
    HiveAcidError,
    JobFailedError,
    LeaseEndedError,
    PublishError,
    TxnAbortedError,
)
from airflow_hive_acid.format.names import base_name
from airflow_hive_acid.metastore.database.codes import LockType
from airflow_hive_acid.metastore.schema.hive_transactions import TXN_COMPONENTS
from tests.examples import places
from tests.integration.maintenance.batch_model import ModelSpark, failed, local, read
from tests.integration.maintenance.cycles.steps import rows
from tests.integration.maintenance.worker.killing import run_and_kill

from .world import TABLES, compact, engine_of, forget, names, records, silent, states

if TYPE_CHECKING:
    from pathlib import Path

    from airflow_hive_acid.engine import Engine
    from airflow_hive_acid.filesystem import Filesystem
    from airflow_hive_acid.format.jobs import JobSpec
    from airflow_hive_acid.metastore import MetastoreClient


FENCE = re.compile("_tmp_[0-9a-f-]+")


@pytest.mark.every_database
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


@pytest.mark.every_database
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


@pytest.mark.every_database
@pytest.mark.rule("R6")
@pytest.mark.rule("R8")
def test_a_batch_under_a_lease_commits_only_while_it_is_held(client: MetastoreClient, engine: Engine) -> None:
    """
    t1  A grabs x, begins a batch under it, and commits 1: its own lease is not in its way
    t2             somebody drops the lease by force, and grabs x
    t3  A commits 2: refused, and so is another batch under that lease
    """
    lease = client.leases.grab_lease("w.t", 600)
    with client.leases.under(lease):
        batch = engine.batch("w.t", transactions=3)
        batch.write(records(1))
        batch.commit()
        client.leases.force_drop_lease("w.t", "somebody", "a test")
        batch.write(records(2))
        with pytest.raises(LeaseEndedError):
            batch.commit()
        assert "o" not in states(client)  # nothing of it stands in the way of the next holder
        batch.write(records(3))
        with pytest.raises(LeaseEndedError):
            batch.commit()
        batch.close()
    assert read(client, "w.t") == [1]
    assert client.show_locks() == []


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
    publish = open_batch.publish_batch

    def aborted_then(*given: Any) -> None:
        publish(*given)
        client.abort_txn(first.txn_id + 1, "it sent no heartbeat, says a Hive")

    monkeypatch.setattr(open_batch, "publish_batch", aborted_then)
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
    # Hive's default: INSERT shares its lock with DROP PARTITION.
    engine = engine_of(client, ModelSpark(), warehouse, txn__xlock__write="true")
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
    engine = engine_of(client, ModelSpark(), warehouse, txn__xlock__write="true", txn__xlock__iow="false")
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


@pytest.mark.every_database
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
def test_a_writer_that_is_killed_anywhere_leaves_whole_txns_and_nothing_else(
    client: MetastoreClient, fs: Filesystem, warehouse: str, settings: dict[str, str], tmp_path: Path
) -> None:
    """Killed in front of a change; then time passes, all services have their turn, and a second writer goes on."""
    whole = {0: [0, 1], 2: [20, 21], 3: [30, 31]}
    for number in places(200, 11):
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
        if done:
            break
    assert number > 30
    assert done, "there are more changes than were tried"
