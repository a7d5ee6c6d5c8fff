"""A compaction whose files are uploads until its Worker publishes them (decision 74)."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa

from airflow_hive_acid.filesystem import open_filesystem, publishing
from airflow_hive_acid.format.jobs import Compact, JobResult, JobSpec, WrittenDirectory, WrittenFile
from airflow_hive_acid.format.names import base_name
from airflow_hive_acid.format.write_ids import ValidWriteIdList
from airflow_hive_acid.maintenance import run_cleaner, run_reaper, run_worker
from airflow_hive_acid.maintenance.decisions import Kind
from airflow_hive_acid.maintenance.warehouse.fences import COPIES_SETTLE_MS
from airflow_hive_acid.maintenance.worker import request
from airflow_hive_acid.metastore.catalog.values.model import TableDefinition
from airflow_hive_acid.metastore.compaction import CompactionType
from airflow_hive_acid.metastore.schema.hive_transactions import HIVE_ACID_JOB, TXNS
from airflow_hive_acid.metastore.txns.jobs import JobState
from tests.fake_uploads import FakeUploads
from tests.integration.maintenance.cycles.steps import change, pass_time, rows

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_hive_acid.metastore import MetastoreClient

pytestmark = [pytest.mark.rule("R4"), pytest.mark.rule("R5")]


@pytest.fixture
def settings(settings: dict[str, str]) -> dict[str, str]:
    return {**settings, "hive.compactor.abortedtxn.threshold": "1"}


@pytest.fixture
def stored(client: MetastoreClient, make_table: Callable[..., Any]) -> Any:
    """A table of two writes on an object store."""
    place = f"memory://bucket-{uuid.uuid4().hex}/w"
    columns = client.catalog.get_table(make_table().name).columns
    client.catalog.create_table(TableDefinition("default", "o", columns, location=f"{place}/o"))
    table = type(make_table("default.x"))(client, open_filesystem(place), "default.o", False)
    table.insert()
    table.insert()
    return table


@pytest.fixture
def fake(stored: Any, monkeypatch: pytest.MonkeyPatch) -> FakeUploads:
    """The store's uploads."""
    fake = FakeUploads(stored.fs)
    monkeypatch.setattr(type(stored.fs), "uploads", lambda self, uri: fake)
    return fake


def compaction(fake: FakeUploads) -> Callable[[JobSpec], JobResult]:
    """A job that uploads two files of a base, one of them twice, because of an attempt that does not count."""

    def run(spec: JobSpec) -> JobResult:
        step = spec.step
        assert isinstance(step, Compact)
        high = ValidWriteIdList.parse(step.target.write_ids).high_watermark
        name = base_name(high, step.visibility_txn_id)
        written = []
        for bucket in ("bucket_00000", "bucket_00001"):
            fake.start(f"{step.target.location}/{name}/{bucket}", f"{spec.job_id} {bucket}", "four")
            written.append(WrittenFile(bucket, 1, 4, upload=f"{spec.job_id} {bucket}"))
        fake.start(f"{step.target.location}/{name}/bucket_00000", f"{spec.job_id} again", "four")
        return JobResult(spec.job_id, "app", directories=(WrittenDirectory("", (), name, tuple(written)),))

    return run


def test_uploads_are_files_before_the_request_is_ready_for_cleaning(
    client: MetastoreClient, stored: Any, fake: FakeUploads, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.compactions.enqueue("default.o", type=CompactionType.MAJOR)
    marked: list[bool] = []
    mark = type(client.compactions).mark_compacted

    def remember(self: Any, *given: Any) -> Any:
        marked.append(not fake.open)
        return mark(self, *given)

    monkeypatch.setattr(type(client.compactions), "mark_compacted", remember)
    (outcome,) = run_worker(client, stored.fs, compaction(fake), "w")
    assert (outcome.kind, marked) == (Kind.COMPACTED, [True]), outcome
    (base,) = outcome.directories
    files = [entry.name for entry in stored.fs.list_files(f"{stored.location}/{base}")]
    assert files == ["_orc_acid_version", "bucket_00000", "bucket_00001"]


def test_a_worker_that_cannot_end_an_upload_leaves_the_fence_to_the_reaper(
    client: MetastoreClient, stored: Any, fake: FakeUploads
) -> None:
    """
    t1  A's manifest is recorded, one upload is a file; the store gives no answer for the other, and may yet do it
    t2  A gives up: its uploads are ended, its txn is aborted, its file is removed
    t3  the reaper waits for what A had asked for, and only then A's txn may be forgotten
    t4  the request is made again, and done
    """
    client.compactions.enqueue("default.o", type=CompactionType.MAJOR)
    fake.fails = {"bucket_00001"}
    (outcome,) = run_worker(client, stored.fs, compaction(fake), "w")
    assert (outcome.kind, "bucket_00001" in outcome.reason) == (Kind.FAILED, True)
    assert fake.open == {}
    (job,) = [job for job in client.jobs.to_fence() if job.kind == "compact"]
    assert job.state is JobState.PUBLISHING
    assert not [name for name in stored.directories() if name.startswith("base")]
    ((alive, why),) = run_reaper(client, stored.fs).alive
    assert (alive.job_id, "15 minutes" in why) == (job.job_id, True)
    change(client, sa.update(HIVE_ACID_JOB).values(HAJ_UPDATED=HIVE_ACID_JOB.c.HAJ_UPDATED - COPIES_SETTLE_MS - 1000))
    assert [fenced.job_id for fenced in run_reaper(client, stored.fs).fenced] == [job.job_id]
    fake.fails = set()
    client.compactions.enqueue("default.o", type=CompactionType.MAJOR)
    (outcome,) = run_worker(client, stored.fs, compaction(fake), "w")
    assert (outcome.kind, fake.open) == (Kind.COMPACTED, {}), outcome


def test_the_reaper_ends_what_a_dead_compaction_has_uploaded_and_nothing_else(
    client: MetastoreClient, stored: Any, fake: FakeUploads, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its tasks had uploaded files when its Worker died; nobody has recorded what they are."""

    class Died(BaseException):
        """Nothing is done after it, as after SIGKILL."""

    other = f"{stored.location}/base_0000002_v0000099/bucket_00000"
    fake.start(other, "another txn", "rows")
    client.compactions.enqueue("default.o", type=CompactionType.MAJOR)
    txns: list[int] = []

    def die(spec: JobSpec) -> JobResult:
        compaction(fake)(spec)
        assert isinstance(spec.step, Compact)
        txns.append(spec.step.visibility_txn_id)
        raise Died

    monkeypatch.setattr(request.Work, "_give_up", lambda self, error: None)
    with pytest.raises(Died):
        run_worker(client, stored.fs, die, "w")
    client.heartbeats.remove(txns[0])
    client.abort_txn(txns[0])
    assert [job.kind for job in run_reaper(client, stored.fs).fenced] == ["compact"]
    assert [one.upload_id for one in fake.open] == ["another txn"]


def test_a_worker_that_wakes_up_when_its_txn_is_forgotten_hides_no_row(
    client: MetastoreClient, stored: Any, fake: FakeUploads, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    t1  A's base has its files, and A sleeps
    t2            A's txn is aborted and its job fenced; the Cleaner removes the base, and the txn is forgotten
    t3  A wakes up: what it leaves would count, as nobody remembers that its txn was aborted
    """
    client.compactions.enqueue("default.o", type=CompactionType.MAJOR)
    complete_all = publishing.complete_all

    def complete_and_sleep(*given: Any) -> None:
        complete_all(*given)
        (job,) = client.jobs.unfenced_of("default.o")
        client.heartbeats.remove(job.txn_id)
        client.abort_txn(job.txn_id)
        assert [alive.job_id for alive, _ in run_reaper(client, stored.fs).alive] == [job.job_id]
        change(client, sa.update(HIVE_ACID_JOB).values(HAJ_UPDATED=1000))
        stored.abort()
        run_cleaner(client, stored.fs)
        pass_time(client)
        client.housekeeping.clean_empty_txns()
        assert job.txn_id not in {row["TXN_ID"] for row in rows(client, TXNS)}
        assert not [name for name in stored.directories() if name.startswith("base")]

    monkeypatch.setattr(publishing, "complete_all", complete_and_sleep)
    (outcome,) = run_worker(client, stored.fs, compaction(fake), "w")
    with client.snapshot(["default.o"]) as snapshot:
        assert len(stored.read(snapshot)) == 2
    assert (outcome.kind, "was fenced" in outcome.reason) == (Kind.FAILED, True), outcome
