"""What a Worker does when things go wrong: nothing visible changes, nothing stays locked, the reason is kept."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import update

from airflow_hive_acid.errors import CommitStateUnknownError, MetastoreUnavailableError
from airflow_hive_acid.format.jobs import Bucketing, Column, Compact, JobError, JobResult
from airflow_hive_acid.maintenance import run_cleaner, run_reaper, run_worker
from airflow_hive_acid.maintenance.decisions import Kind
from airflow_hive_acid.metastore.catalog.values.model import TableDefinition
from airflow_hive_acid.metastore.compaction.model import CompactionState, CompactionType
from airflow_hive_acid.metastore.protocol.transaction import Transaction
from airflow_hive_acid.metastore.schema.hive_transactions import COMPACTION_QUEUE
from airflow_hive_acid.metastore.txns.jobs import JobState
from tests.integration.maintenance.cycles.steps import check_untouched, give_back_what_the_dead_hold

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_hive_acid.filesystem import Filesystem
    from airflow_hive_acid.format.jobs import JobSpec
    from airflow_hive_acid.metastore import MetastoreClient

    RunJob = Callable[[JobSpec], JobResult]


@pytest.mark.parametrize(
    "how", ["error", "raises", "wrong name", "missing file", "extra file", "wrong size", "nothing"]
)
def test_a_job_that_fails_or_lies_leaves_the_table_as_it_was(
    client: MetastoreClient, fs: Filesystem, asked: Any, compact_lines: RunJob, how: str
) -> None:
    specs: list[JobSpec] = []

    def run(spec: JobSpec) -> JobResult:
        specs.append(spec)
        if how == "error":
            return JobResult(spec.job_id, "app", error=JobError("CorruptTableError", "bucket_00000 is unreadable"))
        if how == "raises":
            raise MetastoreUnavailableError("the driver was lost")
        result = compact_lines(spec)
        staged = f"{spec.staging}/data/{result.directories[0].name}"
        if how == "wrong name":
            return replace(result, directories=(replace(result.directories[0], name="base_0000099_v0000099"),))
        if how == "missing file":
            fs.delete(f"{staged}/bucket_00000", inside=staged)
        elif how == "extra file":
            fs.write_text(f"{staged}/bucket_00001", "more")
        elif how == "wrong size":
            fs.write_text(f"{staged}/bucket_00000", "less")
        else:
            return replace(result, directories=())
        return result

    outcome = run_worker(client, fs, run, "w")[0]
    assert outcome.kind is Kind.FAILED
    done = client.compactions.get(outcome.request_id)
    assert (done.state, done.queued) == (CompactionState.FAILED, False)
    assert outcome.reason == done.error
    check_untouched(client, asked)
    assert client.jobs.get(specs[0].job_id).state is JobState.FENCED
    with pytest.raises(OSError, match="_tmp_"):
        fs.make_directory(f"{specs[0].staging}/data/late")


def test_the_txn_that_is_aborted_under_a_worker_ends_its_request(
    client: MetastoreClient, fs: Filesystem, asked: Any, compact_lines: RunJob
) -> None:
    """
    t1  worker's job runs
    t2  its txn is aborted (a reaper's time-out)
    t3  the job ends well: its result must not appear
    """

    def run(spec: JobSpec) -> JobResult:
        result = compact_lines(spec)
        client.abort_txn(spec.step.visibility_txn_id, "heartbeat time-out")  # type: ignore[union-attr]
        return result

    outcome = run_worker(client, fs, run, "w")[0]
    assert outcome.kind is Kind.FAILED
    assert client.compactions.get(outcome.request_id).state is CompactionState.FAILED
    check_untouched(client, asked)


@pytest.mark.parametrize(
    "text",
    [
        "ORDER BY raise_error(java_method('java.lang.System', 'getenv', 'SECRET'))",
        "ORDER BY (SELECT max(value) FROM text.`file:/etc/passwd`)",
        "ORDER BY a LIMIT 1",
        "ORDER BY no_such_column",
        ") x -- ",
    ],
)
def test_an_order_that_another_engine_wrote_into_the_queue_is_no_text_to_run(
    client: MetastoreClient, fs: Filesystem, asked: Any, text: str
) -> None:
    """The queue is anybody's who may write the database: a Worker reads again what stands there."""
    rebalance = {"CQ_ORDER_BY": text, "CQ_TYPE": CompactionType.REBALANCE.value}
    client.database.run(lambda connection: connection.execute(update(COMPACTION_QUEUE).values(rebalance)))

    def never(spec: JobSpec) -> JobResult:
        raise AssertionError(spec)

    outcome = run_worker(client, fs, never, "w")[0]
    assert outcome.kind is Kind.REFUSED
    assert "ORDER BY of a rebalance" in outcome.reason
    assert client.compactions.get(outcome.request_id).state is CompactionState.REFUSED
    check_untouched(client, asked)


@pytest.mark.rule("R17")
def test_after_a_lost_commit_nothing_is_touched(
    client: MetastoreClient, fs: Filesystem, asked: Any, compact_lines: RunJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    t1  worker sends the commit, the connection breaks, the commit has happened
    t2  the worker does not know: it neither aborts nor deletes
    t3  the Cleaner finds the commit and goes on
    """
    commit = Transaction.commit

    def lose_the_answer(txn: Transaction) -> None:
        commit(txn)
        raise CommitStateUnknownError(f"whether txn {txn.txn_id} is committed is unknown")

    with monkeypatch.context() as patch:
        patch.setattr(Transaction, "commit", lose_the_answer)
        outcome = run_worker(client, fs, compact_lines, "w")[0]
    assert outcome.kind is Kind.FAILED
    assert "unknown" in outcome.reason
    request = client.compactions.get(outcome.request_id)
    assert (request.state, request.next_txn_id) == (CompactionState.READY_FOR_CLEANING, outcome.txn_id)
    asked.settle()
    assert run_cleaner(client, fs)[0].kind is Kind.CLEANED
    assert asked.directories() == [f"base_0000002_v{outcome.txn_id:07d}"]


@pytest.mark.parametrize(
    "step",
    ["lock", "pin", "update_state", "record job", "run", "record_manifest", "half published", "publish",
     "mark_compacted", "commit"],
)  # fmt: skip
def test_a_worker_killed_at_any_step_is_cleaned_up_after(
    client: MetastoreClient, fs: Filesystem, asked: Any, compact_lines: RunJob, monkeypatch: pytest.MonkeyPatch,
    step: str,
) -> None:  # fmt: skip
    """
    t1  worker is killed with SIGKILL: no clean-up of its own
    t2  its txn times out, the reaper fences and aborts, the request is given back or given up
    t3  another worker does it again; nothing of the dead one is ever seen
    """

    class Killed(BaseException):
        pass

    def kill(*arguments: object, **named: object) -> None:
        raise Killed

    places = {
        "lock": "airflow_hive_acid.metastore.client.MetastoreClient.lock",
        "pin": "airflow_hive_acid.maintenance.worker.request.acid_state",
        "update_state": "airflow_hive_acid.metastore.compaction.queue.CompactionQueue.update_state",
        "record job": "airflow_hive_acid.metastore.txns.jobs.Jobs.start",
        "half published": "airflow_hive_acid.filesystem.local.LocalFilesystem.rename_directory",
        "record_manifest": "airflow_hive_acid.metastore.txns.jobs.Jobs.record_manifest",
        "publish": "airflow_hive_acid.maintenance.worker.request.check_published",
        "mark_compacted": "airflow_hive_acid.metastore.compaction.queue.CompactionQueue.mark_compacted",
        "commit": "airflow_hive_acid.metastore.protocol.transaction.Transaction.commit",
    }
    with monkeypatch.context() as patch:
        patch.setattr("airflow_hive_acid.maintenance.worker.request.Work._give_up", lambda *a: None)
        if step == "lock":  # what the interrupted call would do about its txn, a dead process does not
            patch.setattr("airflow_hive_acid.maintenance.worker.request.Work._abort", lambda *a: None)
        if step in places:
            patch.setattr(places[step], kill)
        with pytest.raises(Killed):
            run_worker(client, fs, kill if step == "run" else compact_lines, "dead-1")
    txn = next(row.txn_id for row in client.show_transactions() if row.state.value == "o")
    client.heartbeats.remove(txn)
    client.abort_txn(txn, "heartbeat time-out")
    report = run_reaper(client, fs)
    assert len(report.fenced) == (step not in ("lock", "pin", "update_state", "record job"))
    give_back_what_the_dead_hold(client)
    if step == "commit":
        asked.settle()
        assert run_cleaner(client, fs)[0].kind is Kind.FAILED
        client.compactions.enqueue("default.t")
    outcome = run_worker(client, fs, compact_lines, "w2")[0]
    assert outcome.kind is Kind.COMPACTED
    with client.snapshot(["default.t"]) as snapshot:
        assert len(asked.read(snapshot)) == 4
    asked.settle()
    assert run_cleaner(client, fs)[0].kind is Kind.CLEANED
    assert [name for name in asked.directories() if not name.startswith("_")] == list(outcome.directories)


def test_a_partition_without_a_directory_has_nothing_to_compact(
    client: MetastoreClient, fs: Filesystem, make_table: Callable[..., Any], compact_lines: RunJob
) -> None:
    make_table("default.p", "k")
    client.catalog.add_partitions("default.p", ["k=empty"])
    client.compactions.enqueue("default.p", "k=empty")
    assert run_worker(client, fs, compact_lines, "w")[0].kind is Kind.REFUSED


def test_a_partition_elsewhere_is_compacted_where_it_lies(
    client: MetastoreClient, fs: Filesystem, make_table: Callable[..., Any], compact_lines: RunJob, tmp_path: Any
) -> None:
    import sqlalchemy as sa

    table = make_table("default.p", "k")
    for _ in range(2):
        table.insert(partition="k=a")
    elsewhere = f"file:{tmp_path}/elsewhere"
    fs.rename_directory(table.place("k=a"), elsewhere)
    sds = sa.table("SDS", sa.column("LOCATION"))
    with client.database.transaction() as connection:
        connection.execute(sa.update(sds).where(sds.c.LOCATION.endswith("k=a")).values(LOCATION=elsewhere))
    client.compactions.enqueue("default.p", "k=a")
    outcome = run_worker(client, fs, compact_lines, "w")[0]
    assert outcome.kind is Kind.COMPACTED
    table.settle()
    assert run_cleaner(client, fs)[0].kind is Kind.CLEANED
    assert [info.name for info in fs.list_files(elsewhere)] == list(outcome.directories)


def test_a_worker_takes_at_most_as_many_as_it_is_told(
    client: MetastoreClient, fs: Filesystem, make_table: Callable[..., Any], compact_lines: RunJob
) -> None:
    for name in ("a", "b", "c"):
        table = make_table(f"default.{name}")
        table.insert()
        table.insert()
        client.compactions.enqueue(table.name, type=CompactionType.MINOR, pool="x" if name == "c" else None)
    assert len(run_worker(client, fs, compact_lines, "w", limit=1)) == 1
    assert len(run_worker(client, fs, compact_lines, "w")) == 1
    assert [o.resource.table for o in run_worker(client, fs, compact_lines, "w", pool="x")] == ["c"]
    assert run_worker(client, fs, compact_lines, "w") == []


def test_the_job_learns_how_rows_are_placed_in_buckets(
    client: MetastoreClient, fs: Filesystem, make_table: Callable[..., Any]
) -> None:
    """Otherwise all rows would go to the file of bucket 0, and Hive joins tables bucket by bucket."""
    client.catalog.create_table(
        TableDefinition(
            "default", "s", (Column("a", "int"), Column("b", "string")), bucket_columns=("a",), bucket_count=4,
            sort_columns=(("b", False), ("a", True)), properties={"transactional_properties": "insert_only"},
        )
    )  # fmt: skip
    table = type(make_table("default.x"))(client, fs, "default.s", False)
    fs.make_directory(table.location)
    table.insert()
    table.insert()
    assert client.compactions.enqueue("default.s").accepted
    specs: list[JobSpec] = []

    def job(spec: JobSpec) -> JobResult:
        specs.append(spec)
        return JobResult(spec.job_id, "app", error=JobError("JobFailedError", "that is all"))

    run_worker(client, fs, job, "w")
    (spec,) = specs
    assert isinstance(spec.step, Compact)
    assert spec.step.target.bucketing == Bucketing(("a",), 4, "2", (("b", False), ("a", True)))


@pytest.mark.rule("R17")
def test_a_compaction_is_synced_before_it_commits(
    client: MetastoreClient, fs: Filesystem, asked: Any, compact_lines: RunJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its commit lets the Cleaner remove the originals: until then the base must be on the disk."""
    done: list[str] = []
    fsync, commit = os.fsync, Transaction.commit

    def record(descriptor: int) -> None:
        fsync(descriptor)
        done.append(os.readlink(f"/proc/self/fd/{descriptor}"))

    def committing(self: Transaction, *args: Any, **more: Any) -> Any:
        done.append("commit")
        return commit(self, *args, **more)

    monkeypatch.setattr(os, "fsync", record)
    monkeypatch.setattr(Transaction, "commit", committing)
    assert run_worker(client, fs, compact_lines, "w")[0].kind is Kind.COMPACTED
    before = done[: done.index("commit")]
    (base,) = [path for path in before if path.rpartition("/")[2].startswith("base_")]
    assert {f"{base}/bucket_00000", f"{base}/_orc_acid_version", base.rpartition("/")[0]} <= set(before)
