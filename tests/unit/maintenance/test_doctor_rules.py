"""What the doctor calls wrong, and what it leaves in peace."""

from __future__ import annotations

import pytest

from airflow_hive_acid.format.acid_state import FileEntry
from airflow_hive_acid.maintenance.doctor_rules import (
    Check,
    judge_compaction,
    judge_directories,
    judge_lock,
    judge_old_files,
    judge_timeout,
    judge_txn,
)
from airflow_hive_acid.metastore.codes import LockState, LockType, TxnState, TxnType
from airflow_hive_acid.metastore.compaction_queue_model import Compaction, CompactionState, CompactionType, Resource
from airflow_hive_acid.metastore.locks.interface import LockRow
from airflow_hive_acid.metastore.locks.listing import TxnRow

NOW, TIMEOUT = 1_000_000, 300_000


def lock(txn_id: int, last_heartbeat: int = 0) -> LockRow:
    return LockRow(
        lock_id=7, internal_id=1, database="db", table="t", partition="p=1", state=LockState.ACQUIRED,
        type=LockType.SHARED_READ, txn_id=txn_id, last_heartbeat=last_heartbeat, acquired_at=0, user="u", host="h",
        agent_info=None, blocked_by=None,
    )  # fmt: skip


def txn(last_heartbeat: int, state: TxnState = TxnState.OPEN, kind: TxnType = TxnType.DEFAULT) -> TxnRow:
    return TxnRow(5, state, kind, 0, last_heartbeat, "ann", "host1", None, None)


def test_a_lock_of_a_txn_lives_as_long_as_it_is_open() -> None:
    assert judge_lock(lock(5), {5}, NOW, TIMEOUT) is None
    found = judge_lock(lock(5), {4, 6}, NOW, TIMEOUT)
    assert found is not None
    assert (found.check, found.place) == (Check.GHOST_LOCK, "lock 7.1 on db.t/p=1")
    assert "ABORT TRANSACTIONS 5" in found.repair


@pytest.mark.parametrize(("heartbeat", "silent"), [(NOW - TIMEOUT, False), (NOW - TIMEOUT - 1, True), (NOW + 9, False)])
def test_a_lock_outside_a_txn_needs_heartbeats(heartbeat: int, silent: bool) -> None:
    found = judge_lock(lock(0, heartbeat), set(), NOW, TIMEOUT)
    assert (found is not None and found.check is Check.SILENT_LOCK) is silent


@pytest.mark.parametrize(
    ("row", "silent"),
    [
        (txn(NOW - TIMEOUT), False),
        (txn(NOW - TIMEOUT - 1), True),
        (txn(0, TxnState.ABORTED), False),
        (txn(0, kind=TxnType.REPL_CREATED), False),
        (txn(0, kind=TxnType.COMPACTION), True),
    ],
)
def test_an_open_txn_needs_heartbeats(row: TxnRow, silent: bool) -> None:
    found = judge_txn(row, NOW, TIMEOUT)
    assert (found is not None) is silent
    if found is not None:
        assert "ann@host1" in found.text
        assert "reaper" in found.repair


@pytest.mark.parametrize(
    ("state", "txn_id", "dead"),
    [
        (CompactionState.WORKING, 5, False), (CompactionState.WORKING, 6, True), (CompactionState.WORKING, None, False),
        (CompactionState.READY_FOR_CLEANING, 6, False), (CompactionState.INITIATED, None, False),
    ],
)  # fmt: skip
def test_a_worker_needs_an_open_txn(state: CompactionState, txn_id: int | None, dead: bool) -> None:
    request = Compaction(1, Resource("db", "t"), CompactionType.MAJOR, state, True, txn_id=txn_id)
    assert (judge_compaction(request, {5}) is not None) is dead


def test_time_outs_must_be_equal_where_a_hive_may_be() -> None:
    assert judge_timeout(300_000, 300_000, shared=True) is None
    assert judge_timeout(300_000, None, shared=False) is None
    unknown, other = judge_timeout(300_000, None, shared=True), judge_timeout(300_000, 600_000, shared=False)
    assert unknown is not None
    assert "--hive-site" in unknown.repair
    assert other is not None
    assert "600 s in hive-site.xml" in other.text


def test_only_what_was_never_given_is_a_directory_no_txn_knows() -> None:
    listing = [
        FileEntry("base_0000003_v0000009/bucket_00000", 10),
        FileEntry("delta_0000004_0000005_0000/bucket_00000", 10),
        FileEntry("delta_0000006_0000006_0000/bucket_00000", 10),
        FileEntry("base_0000005_v0000031/bucket_00000", 10),
        FileEntry("000000_0", 10),
        FileEntry("p=1/delta_0000099_0000099/bucket_00000", 10),
    ]
    found = judge_directories("file:/w/t", listing, max_write_id=5, max_txn_id=30)
    assert [(f.check, f.place) for f in found] == [
        (Check.UNKNOWN_DIRECTORY, "file:/w/t/base_0000005_v0000031"),
        (Check.UNKNOWN_DIRECTORY, "file:/w/t/delta_0000006_0000006_0000"),
    ]
    assert "txn 31 was never opened" in found[0].text
    assert "write id 6 was never given" in found[1].text


def test_a_delete_delta_has_bucket_files_with_rows() -> None:
    listing = [
        FileEntry("delete_delta_0000001_0000001_0000/bucket_00000", 10),
        FileEntry("delete_delta_0000002_0000002_0000/bucket_00000", 0),
        FileEntry("delete_delta_0000002_0000002_0000/_orc_acid_version", 1),
        FileEntry("delete_delta_0000003_0000003_0000/"),
        FileEntry("delta_0000004_0000004_0000/"),
    ]
    found = judge_directories("file:/w/t", listing, max_write_id=9, max_txn_id=9)
    assert [f.place.rsplit("/", 1)[-1] for f in found] == [
        "delete_delta_0000002_0000002_0000", "delete_delta_0000003_0000003_0000",
    ]  # fmt: skip
    assert {f.check for f in found} == {Check.EMPTY_DELETE_DELTA}


def test_a_delete_delta_whose_footers_count_no_events_has_no_rows() -> None:
    name = "delete_delta_0000001_0000001_0000/bucket_0000"
    listing = [FileEntry(f"{name}0", 300), FileEntry(f"{name}1", 300)]
    assert judge_directories("file:/w/t", listing, 9, 9, {f"{name}0"}) == []
    (found,) = judge_directories("file:/w/t", listing, 9, 9, {f"{name}0", f"{name}1"})
    assert found.check is Check.EMPTY_DELETE_DELTA


def test_files_of_a_hive_before_3_need_a_major_compaction_before_an_upgrade() -> None:
    assert judge_old_files("db.t", None, "file:/w/t", None, []) is None
    found = judge_old_files("db.t", "day=1/h=a b", "file:/w/t", "delta_1_1/bucket_00000", ["base_1/bucket_00000"])
    assert found is not None
    assert found.check is Check.OLD_UPDATES
    assert "delta_1_1/bucket_00000 of db.t holds update or delete events" in found.text
    assert "ALTER TABLE db.t PARTITION (day='1', h='a b') COMPACT 'major'" in found.repair


def test_files_whose_ends_do_not_tell_are_called_unknown_and_never_safe() -> None:
    found = judge_old_files("db.t", None, "file:/w/t", None, ["base_1/bucket_00000"])
    assert found is not None
    assert "whether 1 files of db.t (base_1/bucket_00000, …)" in found.text
    assert "is unknown" in found.text
    assert "ALTER TABLE db.t COMPACT 'major'" in found.repair
