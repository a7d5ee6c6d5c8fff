"""What the Cleaner removes, what it keeps, and for whom; it forgets nothing that could come back."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa

from airflow_hive_acid.errors import PublishError
from airflow_hive_acid.filesystem import Filesystem, open_filesystem
from airflow_hive_acid.maintenance import run_cleaner, run_reaper, run_worker
from airflow_hive_acid.maintenance.decisions import Kind
from airflow_hive_acid.maintenance.fences import COPIES_SETTLE_MS
from airflow_hive_acid.metastore.codes import TxnType
from airflow_hive_acid.metastore.compaction_queue_model import CompactionState, CompactionType, Resource
from airflow_hive_acid.metastore.jobs import JobState
from airflow_hive_acid.metastore.schema_transactions import (
    COMPACTION_QUEUE,
    COMPLETED_COMPACTIONS,
    HIVE_ACID_JOB,
    MIN_HISTORY_LEVEL,
    MIN_HISTORY_WRITE_ID,
    TXN_COMPONENTS,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_hive_acid.format.jobs import JobResult, JobSpec
    from airflow_hive_acid.metastore import MetastoreClient

    RunJob = Callable[[JobSpec], JobResult]


def rows(client: MetastoreClient, table: sa.Table) -> list[dict[str, Any]]:
    with client.database.reading() as connection:
        return [dict(row) for row in connection.execute(sa.select(table)).mappings()]


def change(client: MetastoreClient, statement: Any) -> None:
    with client.database.transaction() as connection:
        connection.execute(statement)


@pytest.fixture
def compacted(client: MetastoreClient, fs: Filesystem, table: Any, compact_lines: RunJob) -> Any:
    """The table after two inserts and a major compaction, not cleaned yet; ``base`` is the new base."""
    table.insert(lines=2)
    table.insert(lines=2)
    client.compactions.enqueue("default.t")
    table.base = run_worker(client, fs, compact_lines, "w")[0].directories[0]
    return table


# --- readers ------------------------------------------------------------------------------------------------------


@pytest.mark.conformance("K03")
@pytest.mark.rule("R16")
def test_a_running_reader_keeps_its_files_and_is_named(
    client: MetastoreClient, fs: Filesystem, table: Any, compact_lines: RunJob
) -> None:
    """
    t1  reader pins its snapshot: two deltas
    t2  compaction commits, the Cleaner looks again and again: everything stays
    t3  the reader reads, and lets go; a later reader, which saw the first one open, is waited for by Hive's rule
    t4  the Cleaner removes the deltas
    """
    table.insert(lines=2)
    table.insert(lines=2)
    reader = client.open_snapshot(["default.t"], agent_info="dag sales, task report")
    before = table.read(reader)
    client.compactions.enqueue("default.t")
    base = run_worker(client, fs, compact_lines, "w")[0].directories[0]
    table.settle()
    for _ in range(3):
        outcome = run_cleaner(client, fs)[0]
        assert outcome.kind is Kind.WAITING
        assert outcome.blocked_by == (f"txn {reader.txn_id} (ann@host1, dag sales, task report)",)
        assert outcome.removed == ()
    assert table.read(reader) == before
    assert len(before) == 4
    late = client.open_snapshot(["default.t"])
    assert len(table.read(late)) == 4
    reader.close()
    outcome = run_cleaner(client, fs)[0]
    assert (outcome.kind, outcome.blocked_by) == (Kind.WAITING, (f"txn {late.txn_id} (ann@host1, hive-acid)",))
    late.close()
    assert [o.kind for o in run_cleaner(client, fs)] == [Kind.CLEANED]
    assert table.directories() == [base]
    with client.snapshot(["default.t"]) as last:
        assert len(table.read(last)) == 4


def test_a_reader_that_only_registered_its_history_is_respected(client: MetastoreClient, fs: Filesystem,
                                                                compacted: Any) -> None:  # fmt: skip
    """Hive 4.2 protects readers by MIN_HISTORY_WRITE_ID alone; its rule must allow the clean-up, too."""
    compacted.settle()
    txn = client.open_txn(type=TxnType.READ_ONLY)
    registered = {"MH_TXNID": txn, "MH_DATABASE": "default", "MH_TABLE": "t", "MH_WRITEID": 2}
    change(client, sa.insert(MIN_HISTORY_WRITE_ID).values(registered))
    change(client, sa.delete(MIN_HISTORY_LEVEL))
    outcome = run_cleaner(client, fs)[0]
    assert (outcome.kind, outcome.reason) == (Kind.WAITING, "a reader needs the history from write id 2 on")
    assert outcome.blocked_by == (f"txn {txn} (ann@host1, hive-acid)",)
    client.commit_txn(txn)
    assert run_cleaner(client, fs)[0].kind is Kind.CLEANED


def test_a_reader_that_saw_the_compaction_open_is_respected(client: MetastoreClient, fs: Filesystem,
                                                            compacted: Any) -> None:  # fmt: skip
    """Hive 4.0 and 4.1 protect readers by MIN_HISTORY_LEVEL."""
    compacted.settle()
    txn = client.open_txn(type=TxnType.READ_ONLY)
    compaction = client.compactions.show()[0].txn_id
    change(client, sa.update(MIN_HISTORY_LEVEL).values(MHL_MIN_OPEN_TXNID=compaction))
    outcome = run_cleaner(client, fs)[0]
    assert outcome.kind is Kind.WAITING
    assert outcome.blocked_by == (f"txn {txn} (ann@host1, hive-acid)",)
    client.commit_txn(txn)
    assert run_cleaner(client, fs)[0].kind is Kind.CLEANED


@pytest.mark.conformance("K11")
@pytest.mark.conformance("C05")
def test_a_compaction_that_is_not_visible_yet_replaces_nothing(
    client: MetastoreClient, fs: Filesystem, table: Any, compact_lines: RunJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    t1  worker marks its request compacted
    t2  before it commits, the Cleaner looks; then the worker dies and its txn is aborted
    t3  the Cleaner gives the request up; the data are as they were
    """
    from airflow_hive_acid.metastore.transactions import Transaction

    table.insert()
    table.insert()
    client.compactions.enqueue("default.t")
    seen: list[Any] = []

    def die(txn: Transaction) -> None:
        seen.extend(run_cleaner(client, fs))
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Transaction, "commit", die)
        patch.setattr("airflow_hive_acid.maintenance.worker._Work._give_up", lambda *a: None)
        with pytest.raises(KeyboardInterrupt):
            run_worker(client, fs, compact_lines, "w")
    assert [(o.kind, o.removed) for o in seen] == [(Kind.WAITING, ())]
    request = client.compactions.show()[0]
    assert (request.state, request.next_txn_id) == (CompactionState.READY_FOR_CLEANING, None)
    client.heartbeats.remove(request.txn_id)
    client.abort_txn(request.txn_id)
    outcome = run_cleaner(client, fs)[0]
    assert outcome.kind is Kind.FAILED
    assert f"txn {request.txn_id} was aborted" in outcome.reason
    assert outcome.removed == ()
    with client.snapshot(["default.t"]) as snapshot:
        assert len(table.read(snapshot)) == 2


@pytest.mark.conformance("K17")
def test_the_result_of_an_aborted_compaction_goes_when_a_later_one_is_cleaned(
    client: MetastoreClient, fs: Filesystem, table: Any, compact_lines: RunJob
) -> None:
    table.insert()
    table.insert()
    failed = client.open_txn(type=TxnType.COMPACTION)
    client.compactions.enqueue("default.t")
    claimed = client.compactions.claim("dead")
    client.compactions.update_state(claimed, highest_write_id=2, txn_id=failed)
    table.directory(f"base_0000002_v{failed:07d}")
    client.abort_txn(failed)
    client.compactions.mark_failed(claimed, "a test")
    client.compactions.enqueue("default.t")
    done = run_worker(client, fs, compact_lines, "w")[0]
    with client.snapshot(["default.t"]) as snapshot:
        assert len(table.read(snapshot)) == 2
    table.settle()
    assert run_cleaner(client, fs)[0].kind is Kind.CLEANED
    assert table.directories() == list(done.directories)
    assert rows(client, TXN_COMPONENTS) == []


# --- what is removed ----------------------------------------------------------------------------------------------


@pytest.mark.conformance("K12")
@pytest.mark.conformance("K07")
def test_nothing_above_the_compactions_mark_is_removed_in_its_name(
    client: MetastoreClient, fs: Filesystem, table: Any, compact_lines: RunJob
) -> None:
    """Two compactions before any clean-up: the first one's turn must leave what only the second one replaced."""
    table.insert()
    table.insert()
    client.compactions.enqueue("default.t")
    first = run_worker(client, fs, compact_lines, "w")[0]
    table.insert()
    table.settle()
    client.compactions.enqueue("default.t")
    second = run_worker(client, fs, compact_lines, "w")[0]
    table.settle()
    outcome = run_cleaner(client, fs)[0]
    assert (outcome.kind, outcome.request_id) == (Kind.CLEANED, first.request_id)
    third = "delta_0000003_0000003_0000"
    assert table.directories() == sorted([*first.directories, *second.directories, third])
    outcome = run_cleaner(client, fs)[0]
    assert (outcome.kind, outcome.request_id) == (Kind.CLEANED, second.request_id)
    assert table.directories() == list(second.directories)


@pytest.mark.conformance("K10")
def test_an_earlier_compaction_whose_turn_comes_late_finds_nothing_left(
    client: MetastoreClient, fs: Filesystem, table: Any, compact_lines: RunJob
) -> None:
    table.insert()
    table.insert()
    client.compactions.enqueue("default.t")
    first = run_worker(client, fs, compact_lines, "w")[0]
    client.compactions.retry_cleaning(client.compactions.get(first.request_id), "a test", 3_600_000)
    table.insert()
    client.compactions.enqueue("default.t")
    second = run_worker(client, fs, compact_lines, "w")[0]
    table.settle()
    assert [o.request_id for o in run_cleaner(client, fs)] == [second.request_id]
    client.compactions.retry_cleaning(client.compactions.get(first.request_id), "a test", 0)
    outcome = run_cleaner(client, fs)[0]
    assert (outcome.kind, outcome.request_id, outcome.removed) == (Kind.CLEANED, first.request_id, ())
    assert table.directories() == list(second.directories)


@pytest.mark.conformance("K02")
def test_what_an_overwrite_replaced_goes_with_the_next_clean_up(
    client: MetastoreClient, fs: Filesystem, table: Any, compact_lines: RunJob
) -> None:
    table.insert()
    table.insert()
    with table.begin("overwrite") as txn:
        table.directory(f"base_{txn.write_ids['default.t']:07d}")
    client.compactions.enqueue("default.t")
    assert [o.kind for o in run_worker(client, fs, compact_lines, "w")] == [Kind.FOR_CLEANER]
    table.settle()
    assert [o.kind for o in run_cleaner(client, fs)] == [Kind.CLEANED]
    assert table.directories() == ["base_0000003"]
    with client.snapshot(["default.t"]) as snapshot:
        assert len(table.read(snapshot)) == 1


@pytest.mark.conformance("K09")
@pytest.mark.parametrize("where", ["table", "partition"])
def test_no_cleanup_keeps_the_files(client: MetastoreClient, fs: Filesystem, make_table: Callable[..., Any],
                                    compact_lines: RunJob, where: str) -> None:  # fmt: skip
    properties = {"NO_CLEANUP": "true"} if where == "table" else {}
    table = make_table("default.p", "k", properties=properties)
    for _ in range(2):
        table.insert(partition="k=a")
    if where == "partition":
        part = client.catalog.get_partition("default.p", "k=a").id
        change(client, sa.insert(sa.table("PARTITION_PARAMS", *map(sa.column, ("PART_ID", "PARAM_KEY", "PARAM_VALUE"))))
               .values(PART_ID=part, PARAM_KEY="no_cleanup", PARAM_VALUE="TRUE"))  # fmt: skip
    client.compactions.enqueue("default.p", "k=a")
    run_worker(client, fs, compact_lines, "w")
    table.settle()
    assert [o.kind for o in run_cleaner(client, fs)] == [Kind.REFUSED]
    assert client.compactions.show()[0].state is CompactionState.REFUSED
    assert len(table.directories("k=a")) == 3


@pytest.mark.conformance("K06")
def test_delayed_clean_up_waits_for_its_time(metastore_url: str, client: MetastoreClient, fs: Filesystem,
                                             compacted: Any) -> None:  # fmt: skip
    from airflow_hive_acid.metastore import MetastoreClient as Client
    from airflow_hive_acid.settings import Settings, Source

    compacted.settle()
    delayed = {"hive.compactor.delayed.cleanup.enabled": "true", "hive.txn.opentxn.timeout": "150ms"}
    with Client(metastore_url, Settings({Source.CONNECTION: delayed})) as patient:
        assert run_cleaner(patient, fs) == []
        change(client, sa.update(COMPACTION_QUEUE).values(CQ_COMMIT_TIME=COMPACTION_QUEUE.c.CQ_COMMIT_TIME - 301_000))
        assert [o.kind for o in run_cleaner(patient, fs)] == [Kind.CLEANED]


@pytest.mark.conformance("K14")
def test_a_clean_up_that_fails_is_tried_again_with_growing_pauses_and_given_up_in_the_end(
    client: MetastoreClient, fs: Filesystem, compacted: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    compacted.settle()

    def refuse(*arguments: object, **named: object) -> bool:
        raise PermissionError("not ours")

    monkeypatch.setattr(type(fs), "delete", refuse)
    for pause in (300_000, 600_000, 1_200_000, 2_400_000, 4_800_000):
        outcome = run_cleaner(client, fs)[0]
        assert outcome.kind is Kind.ERROR
        request = client.compactions.show()[0]
        assert (request.state, request.retry_retention) == (CompactionState.READY_FOR_CLEANING, pause)
        assert "not ours" in str(request.error)
        assert run_cleaner(client, fs) == []
        change(client, sa.update(COMPACTION_QUEUE).values(CQ_COMMIT_TIME=COMPACTION_QUEUE.c.CQ_COMMIT_TIME - pause))
    assert run_cleaner(client, fs)[0].kind is Kind.FAILED
    assert client.compactions.show()[0].state is CompactionState.FAILED


def test_originals_of_a_converted_table_go_with_the_first_base(
    client: MetastoreClient, fs: Filesystem, table: Any, compact_lines: RunJob
) -> None:
    fs.write_text(f"{table.location}/000000_0", "old\n")
    table.insert()
    client.compactions.enqueue("default.t")
    done = run_worker(client, fs, compact_lines, "w")[0]
    table.settle()
    outcome = run_cleaner(client, fs)[0]
    assert outcome.kind is Kind.CLEANED
    assert table.directories() == list(done.directories)


def test_services_that_are_switched_off_do_nothing(metastore_url: str, fs: Filesystem, compacted: Any) -> None:
    from airflow_hive_acid.maintenance import run_initiator
    from airflow_hive_acid.metastore import MetastoreClient as Client
    from airflow_hive_acid.settings import Settings, Source

    compacted.settle()
    off = {"hive.compactor.initiator.on": "false", "hive.compactor.cleaner.on": "false"}
    with Client(metastore_url, Settings({Source.HIVE_SITE: off})) as client:
        assert run_cleaner(client, fs) == []
        assert run_initiator(client, fs) == []
        assert run_initiator(client, fs, dry_run=True) != []


def test_two_cleaners_do_not_work_at_once(client: MetastoreClient, fs: Filesystem, compacted: Any) -> None:
    compacted.settle()
    with client.mutexes.hold("Cleaner"):
        assert run_cleaner(client, fs) == []
    assert [o.kind for o in run_cleaner(client, fs)] == [Kind.CLEANED]


def test_what_a_killed_reader_has_copied_of_a_streaming_delta_goes_with_the_delta(
    client: MetastoreClient, fs: Filesystem, table: Any, compact_lines: RunJob
) -> None:
    """One of a delta that was compacted, one of a delta that is gone; that of a later delta is still in use."""
    table.insert()
    table.insert()
    client.compactions.enqueue("default.t")
    base = run_worker(client, fs, compact_lines, "w")[0].directories[0]
    later = table.insert()
    used = f"_tmp_flushed-delta_{later:07d}_{later:07d}_0000-{uuid.uuid4()}"
    for name in (
        f"_tmp_flushed-delta_0000001_0000001_0000-{uuid.uuid4()}",
        f"_tmp_flushed-delta_0000007_0000009-{uuid.uuid4()}",
        used,
    ):
        table.directory(name)
    table.settle()
    assert [o.kind for o in run_cleaner(client, fs)] == [Kind.CLEANED]
    left = [name for name in table.directories() if name.startswith("_tmp_flushed")]
    assert left == [used]
    assert base in table.directories()


# --- aborted writes -----------------------------------------------------------------------------------------------


@pytest.fixture
def settings(settings: dict[str, str]) -> dict[str, str]:
    return {**settings, "hive.compactor.abortedtxn.threshold": "1"}


@pytest.mark.conformance("K18")
@pytest.mark.conformance("K24")
def test_aborted_writes_are_removed_without_any_compaction(client: MetastoreClient, fs: Filesystem, table: Any) -> None:
    aborted = [table.abort(), table.abort()]
    kept = table.insert()
    aborted.append(table.abort())
    outcome = run_cleaner(client, fs)[0]
    assert (outcome.kind, len(outcome.removed)) == (Kind.CLEANED, 3)
    assert table.directories() == [f"delta_{kept:07d}_{kept:07d}_0000"]
    assert rows(client, TXN_COMPONENTS) == rows(client, COMPACTION_QUEUE) == rows(client, COMPLETED_COMPACTIONS) == []
    table.settle()
    run_reaper(client, fs)
    table.insert()
    with client.snapshot(["default.t"]) as snapshot:
        assert len(table.read(snapshot)) == 2
    assert aborted == [1, 2, 4]


@pytest.mark.conformance("K19")
def test_only_the_partition_with_aborted_writes_is_touched(
    client: MetastoreClient, fs: Filesystem, make_table: Callable[..., Any]
) -> None:
    table = make_table("default.p", "k")
    for _ in range(2):
        table.abort(partition="k=a")
    table.abort(partition="k=b")
    table.insert(partition="k=b")
    assert [o.resource.partition for o in run_cleaner(client, fs)] == ["k=a"]
    assert table.directories("k=a") == []
    assert len(table.directories("k=b")) == 2
    assert len(rows(client, TXN_COMPONENTS)) == 1


@pytest.mark.conformance("K21")
def test_a_base_is_left_alone(client: MetastoreClient, fs: Filesystem, compacted: Any) -> None:
    compacted.settle()
    run_cleaner(client, fs)
    for _ in range(2):
        compacted.abort()
    assert [o.kind for o in run_cleaner(client, fs)] == [Kind.CLEANED]
    assert compacted.directories() == [compacted.base]


def test_a_dead_dynamic_partition_write_is_found_in_every_partition(
    client: MetastoreClient, fs: Filesystem, make_table: Callable[..., Any]
) -> None:
    """Its partitions were never named: only the write id in the directory names tells what it wrote."""
    table = make_table("default.p", "k")
    table.insert(partition="k=a")
    for _ in range(2):
        txn = table.begin()
        table.put(txn, 1, "k=a")
        table.put(txn, 1, "k=new")
        txn.abort("a test")
    assert [(o.kind, len(o.removed)) for o in run_cleaner(client, fs)] == [(Kind.CLEANED, 4)]
    assert len(table.directories("k=a")) == 1
    assert table.directories("k=new") == []
    assert rows(client, TXN_COMPONENTS) == []


@pytest.mark.rule("R5")
def test_what_our_own_jobs_were_to_publish_is_looked_for_where_they_say(
    client: MetastoreClient, fs: Filesystem, make_table: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A table of 300 partitions, an aborted write into two of them: only these are listed, the catalog is not asked."""
    table = make_table("default.p", "k")
    client.catalog.add_partitions("default.p", [f"k={i}" for i in range(300)])
    for number, partitions in enumerate((["k=7", "k=new"], [])):
        txn = table.begin()
        staging = start_job(client, table, txn, f"job{number}")
        written = [table.put(txn, 1, partition) for partition in partitions]
        if written:
            found = [{"place": uri.rpartition("/")[0], "name": uri.rpartition("/")[2]} for uri in written]
            client.jobs.record_manifest(f"job{number}", {"directories": found})
        assert staging
        txn.abort("a test")
    listed: list[str] = []
    usual = type(fs).list_files

    def list_files(self: Filesystem, uri: str, *more: Any, **options: Any) -> Any:
        listed.append(uri)
        return usual(self, uri, *more, **options)

    monkeypatch.setattr(type(fs), "list_files", list_files)
    monkeypatch.setattr(type(client.catalog), "list_partitions", None)
    assert [(o.kind, len(o.removed)) for o in run_cleaner(client, fs)] == [(Kind.CLEANED, 2)]
    assert {uri.rpartition("/")[2] for uri in listed if "_tmp_" not in uri} == {"k=7", "k=new"}
    assert rows(client, TXN_COMPONENTS) == []


@pytest.mark.rule("R4")
def test_what_is_not_where_our_jobs_said_is_looked_for_everywhere(
    client: MetastoreClient, fs: Filesystem, make_table: Callable[..., Any]
) -> None:
    """Somebody has moved the partition with the aborted rows in it."""
    table = make_table("default.p", "k")
    client.catalog.add_partitions("default.p", ["k=a", "k=b"])
    for number in range(2):
        txn = table.begin()
        start_job(client, table, txn, f"job{number}")
        uri = table.put(txn, 1, "k=a")
        found = {"place": uri.rpartition("/")[0], "name": uri.rpartition("/")[2]}
        client.jobs.record_manifest(f"job{number}", {"directories": [found]})
        txn.abort("a test")
    fs.rename_directory(table.place("k=a"), table.place("k=moved"))
    assert [(o.kind, len(o.removed)) for o in run_cleaner(client, fs)] == [(Kind.CLEANED, 2)]
    assert table.directories("k=moved") == []


def test_aborts_above_an_open_writer_wait_for_it(client: MetastoreClient, fs: Filesystem, table: Any) -> None:
    table.abort()
    writer = table.begin()
    table.abort()
    outcome = run_cleaner(client, fs)[0]
    assert (outcome.kind, len(outcome.removed)) == (Kind.CLEANED, 1)
    assert [row["TC_TXNID"] > writer.txn_id for row in rows(client, TXN_COMPONENTS) if row["TC_WRITEID"] == 3] == [True]
    table.abort()
    outcome = run_cleaner(client, fs)[0]
    assert outcome.kind is Kind.WAITING
    assert str(writer.txn_id) in outcome.blocked_by[0]
    writer.commit()
    assert run_cleaner(client, fs)[0].kind is Kind.CLEANED


@pytest.mark.conformance("K23")
def test_few_and_young_aborts_are_left_for_later(client: MetastoreClient, fs: Filesystem, table: Any) -> None:
    table.abort()
    assert run_cleaner(client, fs) == []
    assert client.compactions.find_aborts_to_clean(count=0, age_ms=-1)[0].components == 1
    assert client.compactions.find_aborts_to_clean(count=5, age_ms=0)[0].components == 1
    assert client.compactions.find_aborts_to_clean(count=5, age_ms=3_600_000) == []
    assert client.compactions.find_aborts_to_clean(count=5, age_ms=-1) == []


@pytest.mark.conformance("K22")
def test_a_failed_removal_of_aborted_writes_is_remembered_and_repeated(
    client: MetastoreClient, fs: Filesystem, table: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(2):
        table.abort()

    def refuse(*arguments: object, **named: object) -> bool:
        raise PermissionError("not ours")

    with monkeypatch.context() as patch:
        patch.setattr(type(fs), "delete", refuse)
        assert run_cleaner(client, fs)[0].kind is Kind.ERROR
        (row,) = rows(client, COMPACTION_QUEUE)
        assert (row["CQ_TYPE"], row["CQ_STATE"], row["CQ_RETRY_RETENTION"]) == ("c", "r", 300_000)
        first = row["CQ_COMMIT_TIME"]
        assert run_cleaner(client, fs)[0].kind is Kind.WAITING
        change(client, sa.update(COMPACTION_QUEUE).values(CQ_COMMIT_TIME=first - 300_000))
        assert run_cleaner(client, fs)[0].kind is Kind.ERROR
        (row,) = rows(client, COMPACTION_QUEUE)
        assert (row["CQ_RETRY_RETENTION"], row["CQ_COMMIT_TIME"]) == (600_000, first - 300_000)
        change(client, sa.update(COMPACTION_QUEUE).values(CQ_COMMIT_TIME=first - 600_000))
    assert run_cleaner(client, fs)[0].kind is Kind.CLEANED
    assert rows(client, COMPACTION_QUEUE) == rows(client, TXN_COMPONENTS) == []
    assert table.directories() == []


# --- fences -------------------------------------------------------------------------------------------------------


def start_job(client: MetastoreClient, table: Any, txn: Any, job_id: str) -> str:
    staging = f"{table.location}/_tmp_{job_id}"
    client.jobs.start(job_id=job_id, txn_id=txn.txn_id, table=table.name, write_id=txn.write_ids[table.name],
                      statement=0, kind="insert", table_location=table.location, staging=staging)  # fmt: skip
    table.fs.make_directory(f"{staging}/data/delta_9")
    return staging


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
    from airflow_hive_acid.metastore.catalog_model import TableDefinition

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


# --- dropped objects ----------------------------------------------------------------------------------------------


def soft_delete(client: MetastoreClient, resource: Resource, location: str, *, abort: bool = False) -> int:
    txn = client.open_txn(type=TxnType.SOFT_DELETE)
    with client.database.transaction() as connection:
        request = client.compactions.enqueue_soft_delete(
            connection, resource, location, txn_id=txn, highest_write_id=1)  # fmt: skip
    client.abort_txn(txn) if abort else client.commit_txn(txn)
    return request


@pytest.mark.conformance("K25")
def test_a_dropped_partition_loses_its_files_when_its_last_reader_has_gone(
    client: MetastoreClient, fs: Filesystem, make_table: Callable[..., Any]
) -> None:
    table = make_table("default.p", "k")
    table.insert(partition="k=a")
    table.insert(partition="k=b")
    reader = client.open_snapshot(["default.p"])
    dropped = client.catalog.drop_partition("default.p", "k=a")
    soft_delete(client, Resource("default", "p", "k=a"), dropped.location)
    table.settle()
    assert run_cleaner(client, fs)[0].kind is Kind.WAITING
    assert len(table.read(reader, "k=a")) == 1
    reader.close()
    outcome = run_cleaner(client, fs)[0]
    assert (outcome.kind, outcome.removed) == (Kind.CLEANED, (dropped.location,))
    assert not fs.exists(dropped.location)
    assert len(table.directories("k=b")) == 1
    assert client.show_locks() == []


def test_a_dropped_table_loses_its_directory_but_not_a_new_tables_history(
    client: MetastoreClient, fs: Filesystem, make_table: Callable[..., Any]
) -> None:
    old = make_table("default.t")
    old.insert()
    gone = client.catalog.drop_table("default.t").locations[0]
    fs.rename_directory(gone, f"{gone}.v7")
    new = make_table("default.t")
    new.insert()
    soft_delete(client, Resource("default", "t"), f"{gone}.v7")
    new.settle()
    outcome = run_cleaner(client, fs)[0]
    assert (outcome.kind, outcome.removed) == (Kind.CLEANED, (f"{gone}.v7",))
    assert len(new.directories()) == 1
    assert len(client.compactions.find_candidates()) == 1


def test_a_location_that_is_not_the_dropped_objects_is_never_removed(
    client: MetastoreClient, fs: Filesystem, make_table: Callable[..., Any], tmp_path: Any, warehouse: str
) -> None:
    table, other = make_table("default.p", "k"), make_table("default.other")
    table.insert(partition="k=a")
    other.insert()
    outside = tmp_path / "elsewhere"
    outside.mkdir()
    (outside / "precious").write_text("x")
    inside = f"{other.location}/delta_0000001_0000001_0000"
    for location in (f"file:{outside}", other.location, inside, f"{warehouse}/../elsewhere", warehouse):
        soft_delete(client, Resource("default", "t"), location)
    aborted = soft_delete(client, Resource("default", "p", "k=z"), table.place("k=a"), abort=True)
    taken = soft_delete(client, Resource("default", "p", "k=y"), table.place("k=a"))
    table.settle()
    kinds = {}
    for _ in range(3):
        kinds |= {o.request_id: o.kind for o in run_cleaner(client, fs)}
    assert kinds.pop(aborted) is Kind.FAILED
    assert kinds.pop(taken) is Kind.REFUSED
    assert set(kinds.values()) <= {Kind.REFUSED, Kind.ERROR}
    assert len(kinds) == 5
    assert (outside / "precious").exists()
    assert len(other.directories()) == len(table.directories("k=a")) == 1


def test_a_partition_that_was_added_again_is_judged_like_any_other(
    client: MetastoreClient, fs: Filesystem, make_table: Callable[..., Any]
) -> None:
    table = make_table("default.p", "k")
    table.insert(partition="k=a")
    soft_delete(client, Resource("default", "p", "k=a"), table.place("k=a"))
    table.settle()
    assert run_cleaner(client, fs)[0].removed == ()
    assert len(table.directories("k=a")) == 1


def test_a_minor_compaction_type_is_what_the_queue_says(client: MetastoreClient, fs: Filesystem, table: Any,
                                                        compact_lines: RunJob) -> None:  # fmt: skip
    for _ in range(3):
        table.insert()
    client.compactions.enqueue("default.t", type=CompactionType.MINOR)
    outcome = run_worker(client, fs, compact_lines, "w")[0]
    table.settle()
    assert run_cleaner(client, fs)[0].kind is Kind.CLEANED
    assert table.directories() == list(outcome.directories)
