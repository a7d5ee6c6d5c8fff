"""Workers that are told to stop, die, come back, or meet another one: nothing visible changes, nothing is lost."""

from __future__ import annotations

import errno
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa

from airflow_hive_acid.errors import JobFailedError
from airflow_hive_acid.filesystem.local import LocalFilesystem
from airflow_hive_acid.maintenance import run_cleaner, run_initiator, run_reaper, run_worker
from airflow_hive_acid.maintenance.decisions import Kind
from airflow_hive_acid.maintenance.warehouse.places import Places
from airflow_hive_acid.maintenance.worker.jobs import Application
from airflow_hive_acid.maintenance.worker.runner import JobRunner
from airflow_hive_acid.maintenance.worker.worker import end_attempts, release_worker, worker_name
from airflow_hive_acid.metastore.compaction.model import CompactionState, CompactionType
from airflow_hive_acid.metastore.setup.schema import METADATA
from airflow_hive_acid.metastore.txns.jobs import JobState
from tests.integration.maintenance.cycles.steps import FIRST_DELTAS, check_untouched

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_hive_acid.filesystem import Filesystem
    from airflow_hive_acid.format.jobs import JobResult, JobSpec
    from airflow_hive_acid.metastore import MetastoreClient

    RunJob = Callable[[JobSpec], JobResult]


class Killed(BaseException):
    """A process that ends here does nothing more."""


def die(client: MetastoreClient, fs: Filesystem, run: Any, worker: str) -> None:
    """A worker whose process ends without a word: no clean-up, no heartbeats."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("airflow_hive_acid.maintenance.worker.request.Work._give_up", lambda *a: None)
        with pytest.raises(Killed):
            run_worker(client, fs, run, worker)
    for row in client.show_transactions():
        client.heartbeats.remove(row.txn_id)


def killed(spec: JobSpec) -> JobResult:
    raise Killed


# --- cancelled ----------------------------------------------------------------------------------------------------


@pytest.mark.every_database
def test_running_request_is_cancelled_within_a_look(
    client: MetastoreClient, fs: Filesystem, asked: Any, compact_lines: RunJob
) -> None:
    """
    t1  worker's job runs
    t2              ABORT COMPACTIONS 1
    t3  the worker sees it, stops the job, fences, aborts: all as before, the reason is kept
    """
    stopped, specs = threading.Event(), []

    def run(spec: JobSpec) -> JobResult:
        specs.append(spec)
        (answer,) = client.compactions.abort([1], user="ann", reason="the cluster is needed")
        assert (answer.aborted, answer.message) == (
            True,
            "Running: its Worker w stops the job and aborts it in seconds",
        )
        assert stopped.wait(30)
        raise JobFailedError("the Spark application was cancelled while it ran a step")

    outcome = run_worker(client, fs, JobRunner(run, stop=stopped.set, look_seconds=0.02), "w")[0]
    assert (outcome.kind, outcome.reason) == (
        Kind.CANCELLED, "compaction 1 of default.t was cancelled by ann: the cluster is needed")  # fmt: skip
    done = client.compactions.get(1)
    assert (done.state, done.error, done.queued) == (CompactionState.ABORTED, outcome.reason, False)
    assert client.jobs.get(specs[0].job_id).state is JobState.FENCED
    check_untouched(client, asked)
    client.compactions.enqueue("default.t")
    assert run_worker(client, fs, compact_lines, "w")[0].kind is Kind.COMPACTED


def test_request_is_cancelled_until_it_is_marked_compacted(
    client: MetastoreClient, fs: Filesystem, asked: Any, compact_lines: RunJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last moment: the files have their final names, the txn is not committed."""
    from airflow_hive_acid.maintenance.worker import request as worker_request

    check = worker_request.check_published

    def cancel_then(*arguments: Any) -> None:
        check(*arguments)
        assert client.compactions.abort([1], user="ann")[0].aborted

    monkeypatch.setattr(worker_request, "check_published", cancel_then)
    assert run_worker(client, fs, compact_lines, "w")[0].kind is Kind.CANCELLED
    assert client.compactions.get(1).state is CompactionState.ABORTED
    check_untouched(client, asked)


def test_request_that_was_cancelled_while_its_worker_was_dead_is_not_begun(
    client: MetastoreClient, fs: Filesystem, asked: Any
) -> None:
    """A Hive gives it back, which does not know what it was told."""
    die(client, fs, killed, "dead")
    assert client.compactions.abort([1], user="ann")[0].aborted
    run_reaper_on_silence(client, fs)
    queue = METADATA.tables["COMPACTION_QUEUE"]
    with client.database.transaction() as connection:
        connection.execute(sa.update(queue).values(CQ_STATE="i", CQ_WORKER_ID=None, CQ_START=None))
    assert run_worker(client, fs, killed, "w")[0].kind is Kind.CANCELLED
    check_untouched(client, asked)


def run_reaper_on_silence(client: MetastoreClient, fs: Filesystem) -> Any:
    """The reaper, long after everybody who does not send heartbeats fell silent."""
    txns = METADATA.tables["TXNS"]
    with client.database.transaction() as connection:
        connection.execute(sa.update(txns).where(txns.c.TXN_STATE == "o").values(TXN_LAST_HEARTBEAT=1000))
    return run_reaper(client, fs)


@pytest.mark.every_database
def test_request_whose_worker_was_reaped_is_cancelled_at_once(
    client: MetastoreClient, fs: Filesystem, asked: Any
) -> None:
    die(client, fs, killed, "dead")
    run_reaper_on_silence(client, fs)
    (answer,) = client.compactions.abort([1])
    assert (answer.aborted, answer.message) == (True, "Aborted; its Worker dead was gone")
    assert client.compactions.get(1).state is CompactionState.ABORTED


@pytest.mark.every_database
def test_request_whose_worker_was_reaped_is_done_by_another_one_after_the_next_look_of_the_initiator(
    client: MetastoreClient, fs: Filesystem, asked: Any, compact_lines: RunJob
) -> None:
    """
    t1  a Worker has its job running, and dies; nobody of its name comes back
    t2              the reaper fences the job and aborts the txn
    t3                          the Initiator gives the request back; not after worker.timeout
    t4                                      another Worker claims it
    """
    die(client, fs, killed, worker_name("dead"))
    run_initiator(client, fs)
    assert run_worker(client, fs, compact_lines, worker_name("other")) == []
    run_reaper_on_silence(client, fs)
    run_initiator(client, fs)
    assert [o.kind for o in run_worker(client, fs, compact_lines, worker_name("other"))] == [Kind.COMPACTED]
    assert client.compactions.get(1).state is CompactionState.READY_FOR_CLEANING
    with client.snapshot(["default.t"]) as snapshot:
        assert len(asked.read(snapshot)) == 4


# --- killed and retried ---------------------------------------------------------------------------------------------


@pytest.mark.rule("R4")
@pytest.mark.rule("R5")
def test_retry_takes_up_its_own_request_at_once(
    client: MetastoreClient, fs: Filesystem, asked: Any, make_table: Any, compact_lines: RunJob
) -> None:
    """
    t1  try 1 of worker a[0] has its job running, and dies
    t2  try 2 of a[0]: fences the job, aborts the txn, claims the request again; not after worker.timeout
    t3  the dead job wakes up: it can write nothing
    """
    specs: list[JobSpec] = []

    def remember(spec: JobSpec) -> JobResult:
        specs.append(spec)
        raise Killed

    die(client, fs, remember, "a[0]")
    assert run_worker(client, fs, compact_lines, "a[1]") == []
    (outcome,) = run_worker(client, fs, compact_lines, "a[0]")
    assert (outcome.request_id, outcome.kind) == (1, Kind.COMPACTED)
    assert client.jobs.get(specs[0].job_id).state is JobState.FENCED
    with pytest.raises(OSError, match="_tmp_"):
        fs.make_directory(f"{specs[0].staging}/data/late")
    assert not [row for row in client.show_transactions() if row.state.value == "o"]


@pytest.mark.every_database
@pytest.mark.rule("R5")
def test_first_attempt_that_was_only_thought_dead_changes_nothing(
    client: MetastoreClient, fs: Filesystem, asked: Any, compact_lines: RunJob
) -> None:
    """
    t1  try 1 of worker a runs its job
    t2              try 2 of a takes the request up, and finishes it
    t3  try 1's job ends well: it publishes nothing, and spoils nothing of try 2's
    """
    second: list[Any] = []

    def run(spec: JobSpec) -> JobResult:
        result = compact_lines(spec)
        second.extend(run_worker(client, fs, compact_lines, "a"))
        return result

    outcomes = run_worker(client, fs, run, "a")
    assert [o.kind for o in outcomes] == [Kind.FAILED]
    assert [o.kind for o in second] == [Kind.COMPACTED]
    request = client.compactions.get(1)
    assert (request.state, request.txn_id) == (CompactionState.READY_FOR_CLEANING, second[0].txn_id)
    with client.snapshot(["default.t"]) as snapshot:
        assert len(asked.read(snapshot)) == 4
    asked.settle()
    assert run_cleaner(client, fs)[0].kind is Kind.CLEANED
    assert [n for n in asked.directories() if not n.startswith("_")] == list(second[0].directories)


@pytest.mark.every_database
def test_worker_that_is_slower_than_its_time_out_loses_its_request_to_one_other(
    client: MetastoreClient, fs: Filesystem, asked: Any, compact_lines: RunJob
) -> None:
    """
    t1  worker a runs its job
    t2              its request is given back, worker b claims and finishes it
    t3  a's job ends well: exactly one result counts
    """
    second: list[Any] = []

    def run(spec: JobSpec) -> JobResult:
        result = compact_lines(spec)
        for held in client.compactions.of_worker("a"):
            client.compactions.give_back(held, "a was slow")
        second.extend(run_worker(client, fs, compact_lines, "b"))
        return result

    assert [o.kind for o in run_worker(client, fs, run, "a")] == [Kind.FAILED]
    assert [o.kind for o in second] == [Kind.COMPACTED]
    assert client.compactions.get(1).state is CompactionState.READY_FOR_CLEANING
    with client.snapshot(["default.t"]) as snapshot:
        assert len(asked.read(snapshot)) == 4


@pytest.mark.parametrize("step", ["run", "mark_compacted", "commit"])
def test_worker_that_is_killed_politely_gives_everything_back_at_once(
    client: MetastoreClient, fs: Filesystem, asked: Any, compact_lines: RunJob, step: str
) -> None:
    """What on_kill does, from another thread and with connections of its own: nobody waits for the reaper."""
    places = {
        "mark_compacted": "airflow_hive_acid.metastore.compaction.queue.CompactionQueue.mark_compacted",
        "commit": "airflow_hive_acid.metastore.protocol.transaction.Transaction.commit",
    }
    with pytest.MonkeyPatch.context() as patch:
        if step in places:
            patch.setattr(places[step], lambda *a: (_ for _ in ()).throw(Killed()))
        die(client, fs, killed if step == "run" else compact_lines, "a")
    said = release_worker(client, fs, "a", "its task was killed in Airflow")
    # After mark_compacted the queue has no worker to take it from; the Cleaner finds that it never was committed.
    assert said == ({} if step == "commit" else {1: "back in the queue"})
    assert not [row for row in client.show_transactions() if row.state.value == "o"]
    with client.snapshot(["default.t"]) as snapshot:
        assert len(asked.read(snapshot)) == 4
    if step == "commit":
        asked.settle()
        assert run_cleaner(client, fs)[0].kind is Kind.FAILED
        client.compactions.enqueue("default.t")
    assert run_worker(client, fs, compact_lines, "b")[0].kind is Kind.COMPACTED


def test_interrupted_worker_puts_its_request_back(client: MetastoreClient, fs: Filesystem, asked: Any) -> None:
    def interrupted(spec: JobSpec) -> JobResult:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_worker(client, fs, interrupted, "w")
    request = client.compactions.get(1)
    assert (request.state, request.worker_id, request.txn_id) == (CompactionState.INITIATED, None, None)
    check_untouched(client, asked)


# --- the table changes, the disk is full ----------------------------------------------------------------------------


def change_column(client: MetastoreClient, fs: Filesystem, location: str) -> None:
    """As a Hive that takes no lock for it."""
    columns = METADATA.tables["COLUMNS_V2"]
    with client.database.transaction() as connection:
        connection.execute(sa.update(columns).values(COLUMN_NAME="other"))


def forget_table(client: MetastoreClient, fs: Filesystem, location: str) -> None:
    """Dropped with its directory by a Hive that takes no lock for it."""
    Places(client, fs).require("default", location)  # the warehouse is known, so that it can be told from a lost one
    tables, storage = METADATA.tables["TBLS"], METADATA.tables["SDS"]
    with client.database.transaction() as connection:
        connection.execute(sa.update(tables).where(tables.c.TBL_NAME == "t").values(TBL_NAME="gone"))
        connection.execute(sa.update(storage).where(storage.c.LOCATION == location).values(LOCATION="file:/gone"))
    fs.delete(location, inside=location.rpartition("/")[0])


@pytest.mark.parametrize(
    ("change", "said"), [(change_column, "its columns changed"), (forget_table, "the table was dropped")]
)
def test_a_table_that_is_another_one_by_now_gets_nothing_published(
    client: MetastoreClient, fs: Filesystem, asked: Any, compact_lines: RunJob, change: Any, said: str
) -> None:
    location = asked.location

    def run(spec: JobSpec) -> JobResult:
        result = compact_lines(spec)
        change(client, fs, location)
        return result

    (outcome,) = run_worker(client, fs, run, "w")
    assert outcome.kind is Kind.FAILED
    assert said in outcome.reason
    assert client.compactions.get(1).state is CompactionState.FAILED
    assert not [row for row in client.show_transactions() if row.state.value == "o"]
    if fs.exists(location):
        assert [i.name for i in fs.list_files(location) if not i.name.startswith("_")] == FIRST_DELTAS


def full(*arguments: Any, **named: Any) -> Any:
    raise OSError(errno.ENOSPC, "No space left on device")


def full_for_results(
    self: LocalFilesystem, source: str, target: str, real: Any = LocalFilesystem.rename_directory
) -> None:
    """A rename to where staging is moved aside needs no space; one into another directory may."""
    if ".fenced-" not in target:
        full()
    real(self, source, target)


@pytest.mark.parametrize("step", ["publish", "everything"])
def test_a_full_disk_changes_nothing_and_the_reason_is_kept(
    client: MetastoreClient, fs: Filesystem, asked: Any, compact_lines: RunJob, step: str
) -> None:
    """
    t1  the job has written; publishing meets a full disk (and so does the fence)
    t2  the request fails with that reason; a txn that could not be fenced is left to the reaper, without heartbeats
    t3  there is space again: the reaper fences and aborts, the next request is carried out
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LocalFilesystem, "rename_directory", full if step == "everything" else full_for_results)
        if step == "everything":
            patch.setattr(LocalFilesystem, "create_file", full)
        (outcome,) = run_worker(client, fs, compact_lines, "w")
    assert outcome.kind is Kind.FAILED
    assert "No space left" in outcome.reason
    assert "No space left" in (client.compactions.get(1).error or "")
    left = [row.txn_id for row in client.show_transactions() if row.state.value == "o"]
    assert len(left) == (step == "everything")
    report = run_reaper_on_silence(client, fs)
    assert (list(report.aborted), len(report.fenced)) == (left, len(left))
    check_untouched(client, asked)
    client.compactions.enqueue("default.t")
    assert run_worker(client, fs, compact_lines, "w")[0].kind is Kind.COMPACTED


# --- hive.compactor.max.num.delta -----------------------------------------------------------------------------------


class TestTooManyDeltas:
    """Partial minor compactions first, each in a txn of its own."""

    @pytest.fixture
    def settings(self) -> dict[str, str]:
        return {"hive.txn.opentxn.timeout": "150ms", "hive.compactor.max.num.delta": "3"}

    @pytest.fixture
    def many(self, table: Any) -> Any:
        """Seven deltas of two lines, and a delete delta."""
        for _ in range(7):
            table.insert(lines=2)
        table.delete(lines=1)
        return table

    @pytest.mark.parametrize("kind", [CompactionType.MAJOR, CompactionType.MINOR])
    def test_they_are_merged_in_parts_before_what_was_asked_for(
        self, client: MetastoreClient, fs: Filesystem, many: Any, compact_lines: RunJob, kind: CompactionType
    ) -> None:
        steps: list[tuple[str, int, int]] = []

        def run(spec: JobSpec) -> JobResult:
            from airflow_hive_acid.format.write_ids import ValidWriteIdList

            high = ValidWriteIdList.parse(spec.step.target.write_ids).high_watermark  # type: ignore[union-attr]
            steps.append((spec.step.type, spec.step.above, high))  # type: ignore[union-attr]
            with client.snapshot(["default.t"]) as snapshot:
                assert len(many.read(snapshot)) == 14
            return compact_lines(spec)

        client.compactions.enqueue("default.t", type=kind)
        (outcome,) = run_worker(client, fs, run, "w")
        assert steps == [("minor", 0, 3), ("minor", 3, 6), (kind.name.lower(), 0, 8)]
        assert outcome.kind is Kind.COMPACTED
        assert (client.compactions.get(1).next_txn_id or 0) >= (outcome.txn_id or 1)
        many.settle()
        assert run_cleaner(client, fs)[0].kind is Kind.CLEANED
        assert [n for n in many.directories() if not n.startswith("_")] == sorted(outcome.directories)
        with client.snapshot(["default.t"]) as snapshot:
            assert len(many.read(snapshot)) == 14

    def test_attempt_that_was_only_thought_dead_during_a_part_leaves_the_request_to_the_later_one(
        self, client: MetastoreClient, fs: Filesystem, many: Any, compact_lines: RunJob
    ) -> None:
        """
        t1  try 1 of worker a runs a part
        t2              try 2 of a takes the request up, and has no txn yet
        t3  try 1's job ends well: its txn is gone, and the request is try 2's
        """
        client.compactions.enqueue("default.t")

        def run(spec: JobSpec) -> JobResult:
            (held,) = end_attempts(client, fs, "a", "a later attempt has begun")
            assert client.compactions.retake(held) is not None
            return compact_lines(spec)

        assert [o.kind for o in run_worker(client, fs, run, "a", 1)] == [Kind.FAILED]
        request = client.compactions.get(1)
        assert (request.queued, request.state, request.worker_id) == (True, CompactionState.WORKING, "a")
        assert [o.kind for o in run_worker(client, fs, compact_lines, "a")] == [Kind.COMPACTED]
        with client.snapshot(["default.t"]) as snapshot:
            assert len(many.read(snapshot)) == 14

    @pytest.mark.parametrize("goes_on", ["w", "other"])
    def test_worker_that_dies_between_the_parts_has_lost_nothing(
        self, client: MetastoreClient, fs: Filesystem, many: Any, compact_lines: RunJob, goes_on: str
    ) -> None:
        """The request is not finished by a part: its txn must not look like the one that does."""
        client.compactions.enqueue("default.t")

        def second_kills(spec: JobSpec) -> JobResult:
            if spec.step.above:  # type: ignore[union-attr]
                raise Killed
            return compact_lines(spec)

        die(client, fs, second_kills, "w")
        request = client.compactions.get(1)
        assert (request.state, request.txn_id, request.next_txn_id) == (CompactionState.WORKING, None, None)
        if goes_on == "other":
            run_reaper_on_silence(client, fs)
            queue = METADATA.tables["COMPACTION_QUEUE"]
            with client.database.transaction() as connection:
                connection.execute(sa.update(queue).values(CQ_START=1000))
            assert client.compactions.requeue_of_dead(1000) == [1]
        (outcome,) = run_worker(client, fs, compact_lines, goes_on)
        assert outcome.kind is Kind.COMPACTED
        many.settle()
        assert run_cleaner(client, fs)[0].kind is Kind.CLEANED
        assert [n for n in many.directories() if not n.startswith("_")] == list(outcome.directories)
        with client.snapshot(["default.t"]) as snapshot:
            assert len(many.read(snapshot)) == 14


# --- what the job is asked for --------------------------------------------------------------------------------------


def test_the_job_gets_hives_name_the_queue_and_the_requests_properties(
    client: MetastoreClient, fs: Filesystem, make_table: Any, compact_lines: RunJob
) -> None:
    table = make_table(
        "default.p", "k", properties={"compactor.mapreduce.map.memory.mb": "1024", "orc.compress": "NONE"}
    )
    for _ in range(2):
        table.insert(partition="k=a")
    client.compactions.enqueue(
        "default.p", "k=a",
        properties={"compactor.hive.compactor.job.queue": "etl", "tblprops.orc.compress.size": "8192"},
    )  # fmt: skip
    prepared: list[Application] = []
    specs: list[JobSpec] = []

    def prepare(application: Application) -> str:
        prepared.append(application)
        return "application_9"

    def run(spec: JobSpec) -> JobResult:
        specs.append(spec)
        assert client.compactions.get(1).job_id == client.jobs.get(spec.job_id).application_id == "application_9"
        return replace(compact_lines(spec), application_id="application_9")

    (outcome,) = run_worker(client, fs, JobRunner(run, prepare), "w")
    assert outcome.kind is Kind.COMPACTED
    name = "host1-compactor-default.p.k=a"
    conf = {"spark.executor.memory": "1024m", "spark.yarn.queue": "etl"}
    assert prepared == [Application(name, conf)]
    assert specs[0].name == name
    assert specs[0].step.target.properties == {"orc.compress": "NONE", "orc.compress.size": "8192"}  # type: ignore[union-attr]


def test_property_that_nobody_may_give_refuses_the_request(client: MetastoreClient, fs: Filesystem, asked: Any) -> None:
    client.compactions.abort([1])
    client.compactions.enqueue("default.t", properties={"compactor.spark.jars": "http://evil/x.jar"})
    (outcome,) = run_worker(client, fs, killed, "w")
    assert outcome.kind is Kind.REFUSED
    assert "compactor.spark.jars" in (client.compactions.get(2).error or "")
    check_untouched(client, asked)


@pytest.mark.every_database
@pytest.mark.rule("R4")
def test_worker_killed_with_kill_9_loses_nothing(
    client: MetastoreClient, fs: Filesystem, asked: Any, compact_lines: RunJob, metastore_url: str, warehouse: str
) -> None:
    """
    t1  a process of its own works on the request: its txn is open, its job writes
    t2  kill -9
    t3  readers see nothing of it; another worker finds nothing to do
    t4  the retry of the same worker takes the request up, fences what was left, finishes
    """
    program = Path(__file__).with_name("dying_worker.py")
    process = subprocess.Popen(
        [sys.executable, str(program), metastore_url, warehouse, "@a[0]"], stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        staging = process.stdout.readline().strip()
        assert fs.exists(f"{staging}/data/base_half/bucket_00000")
    finally:
        process.kill()
        process.wait()
        process.stdout.close()  # type: ignore[union-attr]
    with client.snapshot(["default.t"]) as snapshot:
        assert len(asked.read(snapshot)) == 4
    (dead,) = [row for row in client.show_transactions() if row.state.value == "o"]
    assert dead.agent_info == "compaction 1 by @a[0]"
    assert run_worker(client, fs, compact_lines, "@b[0]") == []
    (outcome,) = run_worker(client, fs, compact_lines, "@a[0]")
    assert (outcome.request_id, outcome.kind) == (1, Kind.COMPACTED)
    with pytest.raises(OSError, match="_tmp_"):
        fs.make_directory(f"{staging}/data/late")
    asked.settle()
    assert run_cleaner(client, fs)[0].kind is Kind.CLEANED
    assert [n for n in asked.directories() if not n.startswith("_")] == list(outcome.directories)
