"""What the Cleaner removes, what it keeps, and for whom; it forgets nothing that could come back."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa

from airflow_hive_acid.maintenance import run_cleaner, run_initiator, run_worker
from airflow_hive_acid.maintenance.decisions import Kind
from airflow_hive_acid.metastore.compaction.model import CompactionState
from airflow_hive_acid.metastore.database.codes import TxnType
from airflow_hive_acid.metastore.schema.hive_transactions import (
    COMPACTION_QUEUE,
    MIN_HISTORY_LEVEL,
    MIN_HISTORY_WRITE_ID,
    TXN_COMPONENTS,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_hive_acid.filesystem import Filesystem
    from airflow_hive_acid.format.jobs import JobResult, JobSpec
    from airflow_hive_acid.metastore import MetastoreClient

    RunJob = Callable[[JobSpec], JobResult]


from tests.integration.maintenance.cycles.steps import change, rows

# --- readers ------------------------------------------------------------------------------------------------------


@pytest.mark.every_database
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


def test_sizes_are_noted_by_the_initiator_before_and_by_the_cleaner_after_a_compaction(
    client: MetastoreClient, fs: Filesystem, table: Any, compact_lines: RunJob
) -> None:
    """What a chart of the table is made of: two deltas, then a base alone; looks without a change add nothing."""
    table.insert(lines=2)
    table.insert(lines=2)
    for _ in range(2):
        run_initiator(client, fs)
    client.compactions.enqueue("default.t")
    run_worker(client, fs, compact_lines, "w")
    table.settle()
    run_cleaner(client, fs)
    deltas, base = client.measures.of_table("default", "t")
    assert (deltas.measure.deltas, deltas.measure.files, deltas.measure.base_bytes) == (2, 2, 0)
    assert (base.measure.deltas, base.measure.files, base.measure.delta_bytes) == (0, 1, 0)
    assert base.measure.base_bytes > 0
    assert deltas.until <= base.since


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
    from airflow_hive_acid.metastore.protocol.transaction import Transaction

    table.insert()
    table.insert()
    client.compactions.enqueue("default.t")
    seen: list[Any] = []

    def die(txn: Transaction) -> None:
        seen.extend(run_cleaner(client, fs))
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Transaction, "commit", die)
        patch.setattr("airflow_hive_acid.maintenance.worker.request.Work._give_up", lambda *a: None)
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


@pytest.mark.every_database
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


@pytest.mark.every_database
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


@pytest.mark.setting("hive.compactor.initiator.on", "hive.compactor.cleaner.on")
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


@pytest.mark.every_database
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
