"""What the doctor calls wrong, and what it leaves in peace."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from airflow_hive_acid.format.acid_state import FileEntry, acid_state
from airflow_hive_acid.format.row_counts import CountedRows
from airflow_hive_acid.format.write_ids import ValidTxnList, ValidWriteIdList
from airflow_hive_acid.maintenance.doctor.rules import (
    Check,
    Finding,
    judge_compaction,
    judge_damage,
    judge_directories,
    judge_lock,
    judge_old_files,
    judge_published,
    judge_rows,
    judge_timeout,
    judge_txn,
)
from airflow_hive_acid.metastore.compaction.model import Compaction, CompactionState, CompactionType, Resource
from airflow_hive_acid.metastore.database.codes import LockState, LockType, TxnState, TxnType
from airflow_hive_acid.metastore.locks.interface import LockRow
from airflow_hive_acid.metastore.locks.listing import TxnRow

if TYPE_CHECKING:
    from collections.abc import Sequence


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


def test_a_timeout_that_differs_from_hives_is_told_with_both_values_and_the_remedy() -> None:
    assert judge_timeout(300_000, None, shared=True) == Finding(
        Check.TIMEOUT,
        "hive.txn.timeout",
        "300 s here; what a Hive on the same metastore has is not known",
        "give --hive-site with Hive's hive-site.xml; if no Hive uses this metastore, nothing is to be done",
    )
    for shared in (True, False):
        assert judge_timeout(1_500, 600_000, shared=shared) == Finding(
            Check.TIMEOUT,
            "hive.txn.timeout",
            "1.5 s here, 600 s in hive-site.xml",
            "take Hive's value: leave out --set hive.txn.timeout, and the setting in airflow.cfg and the connection",
        )
        assert judge_timeout(1_500, 1_500, shared=shared) is None


def test_what_a_committed_txn_has_published_is_there_or_was_replaced() -> None:
    """Its manifest names a directory and its files: whole, compacted, overwritten, without a bucket, gone."""
    name = "delta_0000005_0000005_0000"
    whole = [f"{name}/_orc_acid_version", f"{name}/bucket_00000", f"{name}/bucket_00001"]
    published = [(name, ["_orc_acid_version", "bucket_00000", "bucket_00001"])]
    write_ids, txns = ValidWriteIdList(9, table="db.t"), ValidTxnList(99)
    cases: list[tuple[list[str], list[str]]] = [
        (whole, []),
        (["base_0000007/bucket_00000"], []),
        (["delta_0000003_0000006_v0000020/bucket_00000"], []),
        (["base_0000004_v0000020/bucket_00000"], [name]),
        (whole[:2], [f"{name}/bucket_00001"]),
        (["delta_0000006_0000006_0000/bucket_00000"], [name]),
        ([], [name]),
    ]
    for paths, expected in cases:
        state = acid_state([FileEntry(path, 1) for path in paths], write_ids, txns)
        assert [f.place for f in judge_published("file:/t", state, published)] == [f"file:/t/{e}" for e in expected]


REAPER = "run the reaper (hive-acid maintenance reaper --once, or its DAG)"


@pytest.mark.parametrize(
    ("changes", "where"),
    [({}, "db.t/p=1"), ({"partition": None}, "db.t"), ({"partition": None, "table": None}, "db")],
)
def test_a_lock_is_told_with_its_object_what_is_wrong_and_what_to_do(changes: dict[str, object], where: str) -> None:
    assert judge_lock(replace(lock(5), **changes), (), NOW, TIMEOUT) == Finding(
        Check.GHOST_LOCK,
        f"lock 7.1 on {where}",
        "it belongs to txn 5, which is not open; others wait for it for ever",
        "make sure that no program works in txn 5 any more; then ABORT TRANSACTIONS 5, "
        "and if the txn is no longer listed, delete the rows of HIVE_LOCKS with HL_TXNID 5",
    )
    assert judge_lock(replace(lock(0, NOW - 301_500), **changes), (), NOW, TIMEOUT + 400) == Finding(
        Check.SILENT_LOCK,
        f"lock 7.1 on {where}",
        "it has no txn, and its last heartbeat was 302 s ago (hive.txn.timeout 300.4 s)",
        f"{REAPER}: it removes such locks",
    )


def test_a_txn_is_told_with_its_owner_or_the_program_if_that_is_known() -> None:
    silent = Finding(
        Check.SILENT_TXN,
        "txn 5",
        "it is open, and its last heartbeat was 400 s ago (hive.txn.timeout 300 s); it is ann@host1's",
        f"{REAPER}: it fences the txn's jobs and then aborts it. If it runs already, see why it does not come to this",
    )
    assert judge_txn(txn(NOW - 400_000), NOW, TIMEOUT) == silent
    of_program = judge_txn(replace(txn(NOW - 400_000), agent_info="airflow/dag"), NOW, TIMEOUT)
    assert of_program == replace(silent, text=silent.text.replace("ann@host1", "airflow/dag"))


def test_a_compaction_without_its_txn_is_told_with_its_worker() -> None:
    request = Compaction(3, Resource("db", "t"), CompactionType.MAJOR, CompactionState.WORKING, True, txn_id=6)
    dead = Finding(
        Check.DEAD_COMPACTION,
        "compaction 3 of db.t",
        "worker unknown is at it, but its txn 6 is not open any more",
        "look whether that worker lives; an Initiator (hive-acid maintenance initiator --once) queues the request "
        "again: of a Worker of this package when it has been silent for hive.txn.timeout, of a Hive's after "
        "hive.compactor.worker.timeout. Nothing is to be changed by hand",
    )
    assert judge_compaction(request, ()) == dead
    assert judge_compaction(replace(request, worker_id="w1"), ()) == replace(
        dead, text="worker w1 is at it, but its txn 6 is not open any more"
    )


@pytest.mark.rule("R17")
def test_a_directory_no_txn_knows_is_told_with_its_number_and_is_not_to_be_deleted() -> None:
    listing = [
        FileEntry("x"),
        FileEntry("delta_0000006_0000006_0000/bucket_00000", 10),
        FileEntry("base_0000005_v0000031/"),
    ]
    repair = (
        "find out who wrote it (a copy of files, a restored metastore); when nothing writes to the table, "
        "move the directory out of it. Do not delete it before its rows are accounted for"
    )
    assert judge_directories("file:/w/t", listing, 5, 30) == [
        Finding(
            Check.UNKNOWN_DIRECTORY, "file:/w/t/base_0000005_v0000031",
            "txn 31 was never opened, the largest is 30; its rows will appear when that id is given to somebody",
            repair,
        ),
        Finding(
            Check.UNKNOWN_DIRECTORY, "file:/w/t/delta_0000006_0000006_0000",
            "write id 6 was never given, the largest is 5; its rows will appear when that id is given to somebody",
            repair,
        ),
    ]  # fmt: skip
    assert judge_directories("file:/w/t", listing, 6, 31) == []


def test_a_delete_delta_without_rows_is_told_with_what_to_compare_it_with() -> None:
    assert judge_directories("file:/w/t", [FileEntry("delete_delta_0000001_0000001_0000/")], 9, 9) == [
        Finding(
            Check.EMPTY_DELETE_DELTA,
            "file:/w/t/delete_delta_0000001_0000001_0000",
            "no bucket file in it holds a row: its txn deleted nothing, or what it deleted is still there",
            "compare with a backup or replica of the directory; if the txn deleted nothing, a major compaction "
            "(ALTER TABLE … COMPACT 'major') takes the directory away",
        )
    ]


def test_files_of_a_statements_own_directory_count_as_rows_of_its_delete_delta() -> None:
    listing = [FileEntry("delete_delta_0000001_0000001_0000/sub/bucket_00000", 1)]
    assert judge_directories("file:/w/t", listing, 9, 9) == []


def test_what_an_older_hive_wrote_is_told_with_the_statement_that_helps() -> None:
    tail = ". Hive 3 and later do not read such events"
    repair = (
        "before the upgrade to Hive 3 or 4: ALTER TABLE db.t{} COMPACT 'major', and no update, delete or merge "
        "on it between that and the upgrade"
    )
    assert judge_old_files("db.t", None, "file:/w/t", "delta_1_1/bucket_00000", []) == Finding(
        Check.OLD_UPDATES,
        "file:/w/t",
        "delta_1_1/bucket_00000 of db.t holds update or delete events among its inserts, as Hives before 3 wrote them"
        + tail,
        repair.format(""),
    )
    assert judge_old_files("db.t", "p=1", "file:/w/t/p=1", None, ["a", "b"]) == Finding(
        Check.OLD_UPDATES,
        "file:/w/t/p=1",
        "whether 2 files of db.t (a, …) hold update or delete events among their inserts, as Hives before 3 wrote "
        "them, is unknown: no version is noted, and their ends do not tell or cannot be read" + tail,
        repair.format(" PARTITION (p='1')"),
    )


@pytest.mark.rule("R17")
def test_what_is_gone_is_told_by_directory_or_by_file_and_is_to_be_restored() -> None:
    """A directory that is gone is told once, not with its files; a name that is none of ours is passed over."""
    present, gone = "delta_0000005_0000005_0000", "delete_delta_0000006_0000006_0000"
    state = acid_state([FileEntry(f"{present}/bucket_00000", 1)], ValidWriteIdList(9, table="db.t"), ValidTxnList(99))
    published = [("ds=1", ["x"]), (gone, ["bucket_00000"]), (present, ["bucket_00002", "bucket_00000", "bucket_00001"])]
    assert judge_published("file:/t", state, published) == [
        Finding(
            Check.DAMAGED_FILE,
            f"file:/t/{place}",
            "was published by a txn that has committed, and is gone",
            "restore it from a backup or a replica; keep the metastore as it is, and do not compact the table before "
            "that",
        )
        for place in (gone, f"{present}/bucket_00001", f"{present}/bucket_00002")
    ]


@pytest.mark.parametrize(
    ("paths", "missing"),
    [
        (["base_0000006/b"], False),
        (["base_0000005/b"], True),
        (["delta_0000006_0000007_v0000020/b"], False),
        (["delta_0000006_0000006_v0000020/b"], False),
        (["delta_0000005_0000006_v0000020/b"], False),
        (["delta_0000007_0000008_v0000020/b"], True),
        (["delta_0000004_0000005_v0000020/b"], True),
        (["delta_0000006_0000006_0001/b"], True),
        (["delta_0000005_0000007/b"], False),  # a minor compaction of a Hive 3.1
        (["delta_0000007_0000008/b"], True),
        (["base_0000008/b", "delta_0000006_0000007_v0000020/b"], False),
    ],
)
def test_a_published_directory_is_replaced_by_a_later_base_or_a_compaction_over_it(
    paths: list[str], missing: bool
) -> None:
    state = acid_state(
        [FileEntry(path.replace("/b", "/bucket_00000"), 1) for path in paths],
        ValidWriteIdList(9, table="db.t"), ValidTxnList(99),
    )  # fmt: skip
    assert bool(judge_published("file:/t", state, [("delta_0000006_0000006_0000", [])])) is missing


def test_damage_is_looked_for_in_the_listing_and_at_the_ends_of_files() -> None:
    """Files of a batch may be growing, and empty ones have no end: neither is read."""
    paths = {
        "base_0000001/bucket_00000": 9,
        "delete_delta_0000002_0000002_0000/_orc_acid_version": 1,
        "delta_0000003_0000004/bucket_00000": 9,
        "delta_0000005_0000005_0000/bucket_00000": 9,
        "delta_0000005_0000005_0000/bucket_00001": 0,
    }
    state = acid_state(
        [FileEntry(path, size) for path, size in paths.items()], ValidWriteIdList(9, table="db.t"), ValidTxnList(99)
    )
    asked = []

    def tails(files: Sequence[FileEntry]) -> list[str | None]:
        asked.extend(entry.path for entry in files)
        return [None, "it ends early"]

    found = judge_damage("file:/t", state, tails)
    assert asked == ["base_0000001/bucket_00000", "delta_0000005_0000005_0000/bucket_00000"]
    assert [f.place for f in found] == [
        "file:/t/delta_0000005_0000005_0000/bucket_00001",
        "file:/t/delete_delta_0000002_0000002_0000",
        "file:/t/delta_0000005_0000005_0000/bucket_00000",
    ]
    assert found[0].text.startswith("has 0 bytes")
    assert found[1].text.startswith("holds no data file: its delete events are missing")
    assert found[2].text == "it ends early"
    with pytest.raises(ValueError, match="zip"):
        judge_damage("file:/t", state, lambda _: [None])


def test_a_directory_no_txn_knows_is_found_by_files_of_the_branches_of_a_union() -> None:
    listing = [FileEntry("delta_0000006_0000006_0000/HIVE_UNION_SUBDIR_1/000000_0", 1)]
    (found,) = judge_directories("file:/w/t", listing, 5, 9)
    assert (found.check, found.place) == (Check.UNKNOWN_DIRECTORY, "file:/w/t/delta_0000006_0000006_0000")


def test_what_was_replaced_does_not_end_the_look_for_what_is_gone() -> None:
    """Files of a UNION ALL lie one level deeper, and count by their own names."""
    union = "delta_0000007_0000007_0000"
    listing = [FileEntry("base_0000005/bucket_00000", 1), FileEntry(f"{union}/HIVE_UNION_SUBDIR_1/000000_0", 1)]
    state = acid_state(listing, ValidWriteIdList(9, table="db.t"), ValidTxnList(99))
    gone = "delta_0000008_0000008_0000"
    published = [("delta_0000004_0000004_0000", ["b"]), (union, ["000000_0"]), (gone, ["b"])]
    assert [f.place for f in judge_published("file:/t", state, published)] == [f"file:/t/{gone}"]


def test_other_rows_than_the_catalog_counts_are_told_with_what_may_be_gone() -> None:
    for counted, live in ((None, 3), (CountedRows(3, claimed=True), None), (CountedRows(3, claimed=False), 3)):
        assert judge_rows("file:/t", counted, live) is None
    fewer = judge_rows("file:/t", CountedRows(1200, claimed=False), 3)
    wrong = "or its number is wrong (a writer that does not count, an aborted txn that a Hive has counted)"
    assert fewer == Finding(
        Check.ROWS,
        "file:/t",
        "the catalog counts 1200 rows, the files hold 3: files with inserted rows (a base, a delta, a bucket of one) "
        f"may be gone, {wrong}",
        "compare the directories with a backup or a replica before the table is compacted; restore what is missing. If "
        "nothing is, let a Hive count: ANALYZE TABLE … COMPUTE STATISTICS",
    )
    more = judge_rows("file:/t", CountedRows(2, claimed=True), 3)
    assert more is not None
    assert more.text == (
        "the catalog counts 2 rows and calls that exact, the files hold 3: files with delete events may be gone, and "
        f"deleted rows are back, {wrong}"
    )
