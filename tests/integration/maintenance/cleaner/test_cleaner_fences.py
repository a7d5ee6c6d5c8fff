"""Jobs of dead txns are fenced before anything of them is forgotten (R4), on object stores by their record."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa

from airflow_hive_acid.errors import PublishError
from airflow_hive_acid.filesystem import Filesystem, open_filesystem
from airflow_hive_acid.filesystem.protocol import Upload
from airflow_hive_acid.format.jobs import Column
from airflow_hive_acid.format.names import delta_name
from airflow_hive_acid.maintenance import run_cleaner, run_reaper
from airflow_hive_acid.maintenance.decisions import Kind
from airflow_hive_acid.maintenance.warehouse.fences import COPIES_SETTLE_MS
from airflow_hive_acid.metastore.catalog import TableDefinition
from airflow_hive_acid.metastore.database.codes import TxnType
from airflow_hive_acid.metastore.schema.hive_catalog import SDS
from airflow_hive_acid.metastore.schema.hive_transactions import (
    HIVE_ACID_JOB,
    TXN_COMPONENTS,
    TXNS,
)
from airflow_hive_acid.metastore.txns.jobs import JobState

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_hive_acid.metastore import MetastoreClient


from tests.fake_uploads import FakeUploads
from tests.integration.maintenance.cycles.steps import (
    change,
    give_back_what_the_dead_hold,
    pass_time,
    rows,
    start_job,
)


@pytest.fixture
def settings(settings: dict[str, str]) -> dict[str, str]:
    return {**settings, "hive.compactor.abortedtxn.threshold": "1"}


@pytest.mark.every_database
@pytest.mark.rule("R4")
def test_an_orphaned_job_is_fenced_before_its_txn_is_forgotten(
    client: MetastoreClient, fs: Filesystem, table: Any
) -> None:
    """
    t1  a driver stages files, its task dies, the txn is aborted
    t2  the Cleaner removes what was published, forgets the components; the reaper forgets the txn
    t3  the driver wakes up and renames its staging: it must fail, or aborted rows become visible for ever
    """
    txn = table.begin()
    staging = start_job(client, table, txn, "job1")
    table.put(txn, 1)
    txn.abort("task killed")
    table.abort()
    outcome = run_cleaner(client, fs)[0]
    assert (outcome.kind, len(outcome.removed)) == (Kind.CLEANED, 2)
    assert client.jobs.get("job1").state is JobState.FENCED
    assert rows(client, TXN_COMPONENTS) == []
    with pytest.raises(OSError, match="delta_9"):
        fs.rename_directory(f"{staging}/data/delta_9", f"{table.location}/delta_0000001_0000001_0000")
    assert table.directories() == ["_tmp_job1"]
    table.settle()
    table.insert()
    with client.snapshot(["default.t"]) as snapshot:
        assert len(table.read(snapshot)) == 1


@pytest.fixture
def stored(client: MetastoreClient, make_table: Callable[..., Any]) -> Any:
    """A table on an object store, where a file does not fence."""
    from airflow_hive_acid.metastore.catalog.values.model import TableDefinition

    place = f"memory://bucket-{uuid.uuid4().hex}/w"
    columns = client.catalog.get_table(make_table().name).columns
    client.catalog.create_table(TableDefinition("default", "o", columns, location=f"{place}/o"))
    return type(make_table("default.x"))(client, open_filesystem(place), "default.o", False)


@pytest.mark.rule("R4")
def test_on_an_object_store_a_job_that_has_not_begun_to_publish_is_fenced_by_its_record(
    client: MetastoreClient, stored: Any
) -> None:
    """
    t1  a driver stages files, its task dies, the txn is aborted
    t2  the reaper marks the job: a manifest of it is not taken any more
    t3  its control plane wakes up and wants to publish: refused, and staging is gone
    """
    txn = stored.begin()
    staging = start_job(client, stored, txn, "job2")
    txn.abort("task killed")
    stored.abort()
    assert [job.job_id for job in run_reaper(client, stored.fs).fenced] == ["job2"]
    with pytest.raises(PublishError, match=r"job job2 .* publishes nothing: it is fenced"):
        client.jobs.record_manifest("job2", {"directories": []})
    assert not stored.fs.exists(staging)
    assert run_cleaner(client, stored.fs)[0].kind is Kind.CLEANED
    assert rows(client, TXN_COMPONENTS) == []


@pytest.mark.rule("R4")
def test_on_an_object_store_a_job_that_was_publishing_is_fenced_when_its_copies_must_have_ended(
    client: MetastoreClient, stored: Any
) -> None:
    """
    t1  A has recorded its manifest and copied one of two directories; the txn is aborted
    t2              the reaper removes staging; the components stay, because a copy may be under way
    t3  A goes on: there is nothing to copy any more
    t4              a quarter of an hour after t2 the job counts as fenced, and the Cleaner removes what A had copied
    """
    txn = stored.begin()
    staging = start_job(client, stored, txn, "job3")
    stored.fs.write_text(f"{staging}/data/delta_9/bucket_00000", "rows")
    copied = stored.put(txn, 1)
    manifest = {"directories": [{"files": [["bucket_00000", 4]]}, {"files": [["bucket_00000", 4]]}]}
    client.jobs.record_manifest("job3", manifest)
    txn.abort("task killed")
    stored.abort()
    for _ in range(2):
        ((job, why),) = run_reaper(client, stored.fs).alive
        assert (job.job_id, "15 minutes" in why) == ("job3", True)
    outcome = run_cleaner(client, stored.fs)[0]
    assert (outcome.kind, outcome.blocked_by) == (Kind.KEPT, (f"job job3 of txn {txn.txn_id}",))
    assert [row["TC_TXNID"] for row in rows(client, TXN_COMPONENTS)] == [txn.txn_id]
    with pytest.raises(FileNotFoundError):
        stored.fs.rename_directory(f"{staging}/data/delta_9", f"{stored.location}/delta_9")
    change(client, sa.update(HIVE_ACID_JOB).values(HAJ_UPDATED=HIVE_ACID_JOB.c.HAJ_UPDATED - COPIES_SETTLE_MS - 1000))
    assert [job.job_id for job in run_reaper(client, stored.fs).fenced] == ["job3"]
    stored.abort()
    assert run_cleaner(client, stored.fs)[0].kind is Kind.CLEANED
    assert rows(client, TXN_COMPONENTS) == []
    assert not stored.fs.exists(copied)


@pytest.mark.rule("R4")
@pytest.mark.parametrize(
    "manifest",
    [
        pytest.param({"directories": [{"files": [["bucket_00000", 5 * 1024**3 + 1]]}]}, id="copied-in-parts"),
        pytest.param(
            {"kind": "plain", "table": "default.o", "job_id": "job4", "files": [], "replaced": []}, id="plain"
        ),
    ],
)
def test_on_an_object_store_what_might_still_publish_is_left_to_people(
    client: MetastoreClient, stored: Any, manifest: dict[str, Any]
) -> None:
    """The last step of a copy in parts needs no source, and files of a plain table carry no write id."""
    txn = stored.begin()
    start_job(client, stored, txn, "job4")
    client.jobs.record_manifest("job4", manifest)
    txn.abort("task killed")
    stored.abort()
    for _ in range(2):
        ((job, why),) = run_reaper(client, stored.fs).alive
        assert (job.job_id, "mark it as fenced" in why) == ("job4", True)
        change(client, sa.update(HIVE_ACID_JOB).values(HAJ_UPDATED=1000))
    client.jobs.mark_fenced("job4", "its application is gone")
    assert run_reaper(client, stored.fs).alive == ()
    assert run_cleaner(client, stored.fs)[0].kind is Kind.CLEANED
    assert rows(client, TXN_COMPONENTS) == []


@pytest.mark.rule("R4")
def test_on_s3_a_job_that_was_publishing_loses_the_uploads_that_it_has_not_ended(
    client: MetastoreClient, stored: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    t1  A has recorded its manifest and put one of two uploads together, both of 6 GiB; the txn is aborted
    t2              the store ends no upload: the job counts as alive, and no time is measured
    t3              it does: nobody but a request that is under way could publish the second one now
    t4  A goes on: there is no upload any more
    t5              a quarter of an hour after t3 the job counts as fenced, and the Cleaner removes what A had published
    """
    fake = FakeUploads(stored.fs)
    monkeypatch.setattr(type(stored.fs), "uploads", lambda self, uri: fake)
    txn = stored.begin()
    start_job(client, stored, txn, "job5")
    first = stored.put(txn, 1)
    place, _, name = first.rpartition("/")
    second = Upload(f"{first}/bucket_00001", "u2")
    fake.start(second.uri, second.upload_id, "rows")
    fake.start(second.uri, "an attempt that does not count", "rows")
    fake.start(f"{place}/delta_0000099_0000099_0000/bucket_00000", "another txn", "rows")
    whole = fake.look_at(second)
    files = [["bucket_00000", 6 * 1024**3], ["bucket_00001", 6 * 1024**3]]
    uploads = {"bucket_00000": "u1", "bucket_00001": "u2"}
    manifest = {"place": place, "name": name, "files": files, "uploads": uploads}
    client.jobs.record_manifest("job5", {"table": "default.o", "directories": [manifest]})
    txn.abort("task killed")
    stored.abort()
    fake.fails = {"abort"}
    ((job, why),) = run_reaper(client, stored.fs).alive
    assert (job.job_id, "AccessDenied" in why) == ("job5", True)
    change(client, sa.update(HIVE_ACID_JOB).values(HAJ_UPDATED=1000))
    fake.fails = set()
    ((job, why),) = run_reaper(client, stored.fs).alive
    assert (job.job_id, "15 minutes" in why) == ("job5", True)
    assert [one.upload_id for one in fake.open] == ["another txn"]
    with pytest.raises(FileNotFoundError):
        fake.complete(whole)
    change(client, sa.update(HIVE_ACID_JOB).values(HAJ_UPDATED=HIVE_ACID_JOB.c.HAJ_UPDATED - COPIES_SETTLE_MS - 1000))
    assert [job.job_id for job in run_reaper(client, stored.fs).fenced] == ["job5"]
    stored.abort()
    assert run_cleaner(client, stored.fs)[0].kind is Kind.CLEANED
    assert rows(client, TXN_COMPONENTS) == []
    assert not stored.fs.exists(first)


@pytest.mark.rule("R17")
def test_a_committed_job_is_never_fenced(client: MetastoreClient, fs: Filesystem, table: Any) -> None:
    txn = table.begin()
    staging = start_job(client, table, txn, "job3")
    directory = table.put(txn, 1)
    txn.commit()
    table.settle()
    report = run_reaper(client, fs)
    run_cleaner(client, fs)
    assert report.fenced == ()
    assert fs.exists(f"{staging}/data/delta_9")
    assert fs.exists(directory)


@pytest.mark.rule("R4")
def test_the_result_of_a_dead_compaction_cannot_come_back_when_its_txn_is_forgotten(
    client: MetastoreClient, fs: Filesystem, table: Any, compact_lines: Any
) -> None:
    """
    t1  a Worker's job has staged base_2_vT; the Worker dies, T is aborted
    t2  the Cleaner fences the job, then forgets T's component; the reaper forgets T
    t3  the driver wakes up and renames its staging: with T forgotten, readers would take base_2_vT for committed
    """
    from airflow_hive_acid.maintenance import run_worker

    class Killed(BaseException):
        pass

    staged: list[str] = []

    def stage_and_die(spec: Any) -> Any:
        result = compact_lines(spec)
        staged.append(f"{spec.staging}/data/{result.directories[0].name}")
        raise Killed

    table.insert()
    table.insert()
    client.compactions.enqueue("default.t")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("airflow_hive_acid.maintenance.worker.request.Work._give_up", lambda *a: None)
        with pytest.raises(Killed):
            run_worker(client, fs, stage_and_die, "dead-1")
    (txn,) = [row.txn_id for row in client.show_transactions() if row.state.value == "o"]
    client.heartbeats.remove(txn)
    client.abort_txn(txn, "heartbeat time-out")
    assert give_back_what_the_dead_hold(client) == [1]
    client.compactions.abort([1])
    change(client, sa.update(TXNS).values(TXN_STARTED=1))
    assert [o.kind for o in run_cleaner(client, fs)] == [Kind.CLEANED]
    assert rows(client, TXN_COMPONENTS) == []
    table.insert()
    change(client, sa.update(TXNS).values(TXN_STARTED=1))
    run_reaper(client, fs)
    assert txn not in {row["TXN_ID"] for row in rows(client, TXNS)}
    with pytest.raises(OSError, match="base_0000002"):
        fs.rename_directory(staged[0], f"{table.location}/{staged[0].rpartition('/')[2]}")
    with client.snapshot(["default.t"]) as snapshot:
        assert len(table.read(snapshot)) == 3


@pytest.mark.every_database
@pytest.mark.rule("R4")
def test_what_is_aborted_while_a_clean_up_is_at_work_is_not_forgotten_with_it(
    client: MetastoreClient, fs: Filesystem, compacted: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    t1  the Cleaner has fenced the jobs of aborted txns, and lists the table
    t2                      a compaction of the same write ids is aborted: its job is not fenced
    t3  the Cleaner forgets what it fenced; the component of t2 stays until somebody has fenced that, too
    """
    pass_time(client)
    late = client.open_txn(type=TxnType.COMPACTION)
    component = {"TC_TXNID": late, "TC_DATABASE": "default", "TC_TABLE": "t", "TC_PARTITION": None,
                 "TC_OPERATION_TYPE": "c", "TC_WRITEID": 2}  # fmt: skip
    change(client, sa.insert(TXN_COMPONENTS).values(**component))
    list_files = type(fs).list_files

    def abort_meanwhile(self: Any, *arguments: Any, **named: Any) -> Any:
        client.abort_txn(late)
        return list_files(self, *arguments, **named)

    with monkeypatch.context() as patch:
        patch.setattr(type(fs), "list_files", abort_meanwhile)
        assert run_cleaner(client, fs)[0].kind is Kind.CLEANED
    assert [row["TC_TXNID"] for row in rows(client, TXN_COMPONENTS)] == [late]


@pytest.mark.rule("R4")
def test_what_a_dead_job_has_uploaded_into_a_partition_elsewhere_is_ended(
    client: MetastoreClient, make_table: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    t1  A's tasks upload a file of the table's directory, and one of a partition that lies outside of it; A dies
    t2  in that partition's directory another table lies, whose txn has the same write id and uploads, too
    t3                    the reaper ends A's two uploads, and not the other one
    """
    place = f"memory://bucket-{uuid.uuid4().hex}/w"
    columns = client.catalog.get_table(make_table().name).columns
    keys = (Column("p", "string"),)
    client.catalog.create_table(TableDefinition("default", "o", columns, keys, location=f"{place}/o"))
    stored = type(make_table("default.x"))(client, open_filesystem(place), "default.o", True)
    client.catalog.add_partitions("default.o", ["p=1"])
    change(client, sa.update(SDS).where(SDS.c.LOCATION == f"{place}/o/p=1").values(LOCATION=f"{place}/far"))
    fake = FakeUploads(stored.fs)
    monkeypatch.setattr(type(stored.fs), "uploads", lambda self, uri: fake)
    txn = stored.begin()
    start_job(client, stored, txn, "job9")
    write_id = txn.write_ids["default.o"]
    file = f"{delta_name(write_id, write_id, 0)}/bucket_00000"
    for where in ("o/p=2", "far", "far/other"):
        fake.start(f"{place}/{where}/{file}", where, "rows")
    txn.add_partitions("default.o", [])
    txn.abort("task killed")
    assert [job.job_id for job in run_reaper(client, stored.fs).fenced] == ["job9"]
    assert [one.upload_id for one in fake.open] == ["far/other"]
