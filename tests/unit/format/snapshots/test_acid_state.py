"""Which directories a snapshot sees: Hive's own cases, and a model of a table's whole life."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_hive_acid.errors import CorruptTableError, SnapshotTooOldError
from airflow_hive_acid.format.acid_state import AcidState, FileEntry, acid_state
from airflow_hive_acid.format.names import base_name, delete_delta_name, delta_name
from airflow_hive_acid.format.write_ids import ValidTxnList, ValidWriteIdList
from tests.examples import examples

ALL_TXNS = ValidTxnList(10**6)


def listing(*names: str) -> list[FileEntry]:
    """Directories with one data file each; a name with a slash or digit first is a file of its own."""
    own = tuple("0123456789_.-")
    return [FileEntry(n if "/" in n or n.startswith(own) else f"{n}/bucket_00000", 100) for n in names]


def state(names: list[str], write_ids: ValidWriteIdList, txns: ValidTxnList = ALL_TXNS) -> AcidState:
    return acid_state(listing(*names), write_ids, txns)


def names_of(directories: tuple[object, ...]) -> list[str]:
    return [d.name for d in directories]  # type: ignore[attr-defined]


def reader(mark: int, open_: set[int] | None = None, aborted: set[int] | None = None) -> ValidWriteIdList:
    return ValidWriteIdList(mark, frozenset(open_ or ()), frozenset(aborted or ()), table="d.t")


@pytest.mark.conformance("D01")
def test_the_best_base_hides_what_is_before_it() -> None:
    names = [
        "base_5",
        "base_10",
        "base_49",
        "delta_025_025",
        "delta_029_029",
        "delta_025_030",
        "delta_050_105",
        "delta_90_120",
    ]
    found = state(names, reader(100))
    assert found.base is not None
    assert found.base.name == "base_49"
    assert names_of(found.deltas) == ["delta_050_105"]
    assert found.deltas[0].needs_row_check
    assert sorted(names_of(found.obsolete)) == ["base_10", "base_5", "delta_025_025", "delta_025_030", "delta_029_029"]
    assert found.aborted == ()


@pytest.mark.conformance("D02")
def test_a_base_makes_originals_obsolete() -> None:
    found = state(["000000_0", "000001_1", "random/000000_0", "base_5", "base_10"], reader(150))
    assert found.base is not None
    assert found.base.name == "base_10"
    assert found.originals == ()
    assert [entry.path for entry in found.obsolete_originals] == ["000000_0", "000001_1", "random/000000_0"]
    assert names_of(found.obsolete) == ["base_5"]


def test_without_a_base_originals_are_read_in_path_order() -> None:
    entries = [*listing("000001_0", "000000_0_copy_1", "000000_0", "_done", ".hidden"), FileEntry("000002_0", 0)]
    found = acid_state(entries, reader(150), ALL_TXNS)
    assert [entry.path for entry in found.originals] == ["000000_0", "000000_0_copy_1", "000001_0"]


@pytest.mark.conformance("D03")
def test_wider_deltas_hide_the_ones_inside() -> None:
    names = [
        "delta_0000063_63",
        "delta_000062_62",
        "delta_00061_61",
        "delta_40_60",
        "delta_0060_60",
        "delta_052_55",
        "base_50",
    ]
    found = state(names, reader(100))
    assert names_of(found.deltas) == ["delta_40_60", "delta_00061_61", "delta_000062_62", "delta_0000063_63"]
    assert sorted(names_of(found.obsolete)) == ["delta_0060_60", "delta_052_55"]


@pytest.mark.conformance("D04")
def test_statements_of_one_txn_are_read_together() -> None:
    names = [
        "delta_0000063_63_0",
        "delta_000062_62_0",
        "delta_000062_62_3",
        "delta_00061_61_0",
        "delta_40_60",
        "delta_0060_60_1",
        "delta_0060_60_4",
        "delta_0060_60_7",
        "delta_052_55",
        "delta_058_58",
        "base_50",
    ]
    found = state(names, reader(100))
    assert names_of(found.deltas) == [
        "delta_40_60",
        "delta_00061_61_0",
        "delta_000062_62_0",
        "delta_000062_62_3",
        "delta_0000063_63_0",
    ]
    assert sorted(names_of(found.obsolete)) == [
        "delta_0060_60_1",
        "delta_0060_60_4",
        "delta_0060_60_7",
        "delta_052_55",
        "delta_058_58",
    ]


@pytest.mark.conformance("D06")
@pytest.mark.parametrize("mark", [3, 4])
def test_a_compactor_takes_no_delta_that_reaches_beyond_its_mark(mark: int) -> None:
    found = state(["delta_1_1", "delta_2_5", "delta_6_10"], reader(mark).for_compactor())
    assert names_of(found.deltas) == ["delta_1_1"]
    assert found.obsolete == ()


@pytest.mark.conformance("D06")
def test_a_compactor_drops_rows_of_aborted_ids_one_by_one() -> None:
    found = state(["delta_1_3"], reader(5, aborted={2}).for_compactor())
    assert names_of(found.deltas) == ["delta_1_3"]
    assert found.deltas[0].needs_row_check


@pytest.mark.conformance("D07")
def test_delete_deltas_follow_the_same_rules() -> None:
    names = [
        "base_5",
        "base_10",
        "base_49",
        "delta_025_025",
        "delta_029_029",
        "delete_delta_029_029",
        "delta_025_030",
        "delete_delta_025_030",
        "delta_050_105",
        "delete_delta_050_105",
        "delete_delta_110_110",
    ]
    found = state(names, reader(100))
    assert names_of(found.deltas) == ["delete_delta_050_105", "delta_050_105"]
    assert names_of(found.inserts) == ["base_49", "delta_050_105"]
    assert names_of(found.deletes) == ["delete_delta_050_105"]
    assert sorted(names_of(found.obsolete)) == [
        "base_10",
        "base_5",
        "delete_delta_025_030",
        "delete_delta_029_029",
        "delta_025_025",
        "delta_025_030",
        "delta_029_029",
    ]


@pytest.mark.conformance("D08")
def test_a_wider_delta_hides_delete_deltas_inside_it() -> None:
    names = [
        "delta_0000063_63",
        "delta_000062_62",
        "delta_00061_61",
        "delta_40_60",
        "delta_0060_60",
        "delta_052_55",
        "delete_delta_0000063_63",
        "delete_delta_000062_62",
        "delete_delta_40_60",
        "delete_delta_50_50",
        "base_50",
    ]
    found = state(names, reader(100))
    assert names_of(found.deltas) == [
        "delete_delta_40_60",
        "delta_40_60",
        "delta_00061_61",
        "delete_delta_000062_62",
        "delta_000062_62",
        "delete_delta_0000063_63",
        "delta_0000063_63",
    ]
    assert sorted(names_of(found.obsolete)) == ["delete_delta_50_50", "delta_0060_60", "delta_052_55"]


@pytest.mark.conformance("D10")
def test_a_compacted_base_exists_only_for_those_who_see_its_txn() -> None:
    names = ["delta_0000001_0000001_0000", "delta_0000002_0000002_0000", "base_0000002_v0000009"]
    before = state(names, reader(2), ValidTxnList(8))
    assert before.base is None
    assert names_of(before.deltas) == names[:2]
    assert before.obsolete == ()
    running = state(names, reader(2), ValidTxnList(12, open=frozenset({9})))
    assert names_of(running.deltas) == names[:2]
    assert running.aborted == ()
    failed = state(names, reader(2), ValidTxnList(12, aborted=frozenset({9})))
    assert names_of(failed.aborted) == ["base_0000002_v0000009"]
    after = state(names, reader(2), ValidTxnList(12))
    assert names_of(after.inserts) == ["base_0000002_v0000009"]
    assert names_of(after.obsolete) == names[:2]


@pytest.mark.conformance("D10")
def test_a_base_above_the_mark_leaves_the_older_one_in_use() -> None:
    found = state(["base_5", "delta_7_7_0", "base_10"], reader(8))
    assert names_of(found.inserts) == ["base_5", "delta_7_7_0"]
    assert found.obsolete == ()


@pytest.mark.conformance("D11")
def test_history_that_was_compacted_away_is_an_error() -> None:
    with pytest.raises(SnapshotTooOldError, match=r"d\.t:4:9223372036854775807:: needs history that base_0000010_v"):
        state(["base_0000010_v0000020", "delta_0000011_0000011_0000"], reader(4))
    with pytest.raises(SnapshotTooOldError, match="begin a new transaction"):
        state(["base_0000010_v0000020"], reader(12, open_={7}))
    with pytest.raises(SnapshotTooOldError, match="base_0000010_v0000020 has replaced"):
        state(["base_0000010", "base_0000010_v0000020"], reader(4))
    assert state(["base_0000010", "delta_1_1_0"], reader(4)).base is None, "an overwrite alone has replaced nothing yet"


def test_an_overwrite_that_is_open_or_aborted_hides_nothing() -> None:
    names = ["delta_0000001_0000001_0000", "base_0000002"]
    opened = state(names, reader(2, open_={2}))
    assert (names_of(opened.inserts), opened.aborted) == (names[:1], ())
    aborted = state(names, reader(2, aborted={2}))
    assert (names_of(aborted.inserts), names_of(aborted.aborted)) == (names[:1], ["base_0000002"])


def test_of_two_bases_of_one_write_id_the_compactors_counts() -> None:
    found = state(["base_0000002", "base_0000002_v0000009", "base_0000002_v0000007"], reader(2))
    assert names_of(found.inserts) == ["base_0000002_v0000009"]
    assert sorted(names_of(found.obsolete)) == ["base_0000002", "base_0000002_v0000007"]


def test_of_two_compactions_of_one_range_the_later_counts() -> None:
    names = [
        "delta_0000001_0000004_v0000008",
        "delete_delta_0000001_0000004_v0000008",
        "delta_0000001_0000004_v0000011",
        "delete_delta_0000001_0000004_v0000011",
    ]
    found = state(names, reader(4))
    assert sorted(names_of(found.deltas)) == sorted(names[2:])
    assert sorted(names_of(found.obsolete)) == sorted(names[:2])


def test_a_truncated_base_is_empty_and_counts_only_when_committed() -> None:
    entries = [*listing("delta_0000001_0000001_0000"), FileEntry("base_0000002/_metadata_acid", 50)]
    committed = acid_state(entries, reader(2), ALL_TXNS)
    assert committed.base is not None
    assert committed.base.bucket_files() == ()
    assert committed.deltas == ()
    aborted = acid_state(entries, reader(2, aborted={2}), ALL_TXNS)
    assert names_of(aborted.inserts) == ["delta_0000001_0000001_0000"]
    assert names_of(aborted.aborted) == ["base_0000002"]


def test_a_base_compacted_before_hive_4_is_known_by_its_side_file() -> None:
    entries = [FileEntry("base_0000005/_metadata_acid", 50), *listing("base_0000005")]
    found = acid_state(entries, reader(5, aborted={5}), ALL_TXNS)
    assert names_of(found.inserts) == ["base_0000005"]
    assert found.aborted == ()


def test_a_converted_tables_first_base_is_always_valid() -> None:
    found = state(["base_-9223372036854775808", "delta_0000001_0000001_0000"], reader(1))
    assert names_of(found.inserts) == ["base_-9223372036854775808", "delta_0000001_0000001_0000"]


def test_a_delta_is_aborted_only_if_all_its_ids_are() -> None:
    found = state(["delta_1_2", "delta_3_4", "delta_5_5_0"], reader(9, aborted={1, 3, 4}))
    assert names_of(found.deltas) == ["delta_1_2", "delta_5_5_0"]
    assert [d.needs_row_check for d in found.deltas] == [True, False]
    assert names_of(found.aborted) == ["delta_3_4"]


def test_files_are_sorted_into_acid_loaded_and_side_files() -> None:
    entries = [
        FileEntry(f"delta_0000001_0000001_0000/{name}", 9)
        for name in ("bucket_00001_0", "bucket_00000_flush_length", "_orc_acid_version", "000000_0", ".x.crc", "_tmp/x")
    ]
    (found,) = acid_state(entries, reader(1), ALL_TXNS).deltas
    assert [(entry.path.split("/")[1], b.bucket, b.attempt) for entry, b in found.bucket_files()] == [
        ("bucket_00001_0", 1, 0)
    ]
    assert [entry.path.split("/")[1] for entry in found.original_files()] == ["000000_0"]


def test_staging_is_invisible_and_directories_without_files_exist() -> None:
    entries = [
        FileEntry("_tmp_1/data/delta_0000001_0000001_0000/bucket_00000", 9),
        FileEntry("-tmp.delta_0000002_0000002_0000/bucket_00000", 9),
        FileEntry("delta_0000003_0000003_0000/", 0),
    ]
    found = acid_state(entries, reader(5), ALL_TXNS)
    assert [(d.name, d.files) for d in found.deltas] == [("delta_0000003_0000003_0000", ())]
    assert names_of(acid_state(entries, reader(5, aborted={3}), ALL_TXNS).aborted) == ["delta_0000003_0000003_0000"]


def test_only_directories_without_a_later_hives_mark_may_update_in_place() -> None:
    entries = [
        FileEntry(f"{directory}/{name}", 9)
        for directory, names in {
            "base_0000002": ("bucket_00000", "bucket_00001"),
            "delta_0000003_0000003": ("bucket_00000",),
            "delta_0000004_0000004_0000": ("bucket_00000", "_orc_acid_version"),
            "delta_0000005_0000005_0000": ("000000_0",),
            "delta_0000006_0000007_v0000009": ("bucket_00000",),
            "delete_delta_0000008_0000008_0000": ("bucket_00000",),
        }.items()
        for name in names
    ]
    found = acid_state(entries, reader(9), ALL_TXNS)
    assert len(found.deltas) == 5
    assert [e.path for e in found.files_of_older_hives] == [
        "base_0000002/bucket_00000",
        "base_0000002/bucket_00001",
        "delta_0000003_0000003/bucket_00000",
    ]


def test_a_damaged_directory_name_is_an_error() -> None:
    with pytest.raises(CorruptTableError) as refused:
        state(["delta_5_3"], reader(9))
    assert str(refused.value) == (
        "directory 'delta_5_3' is called like a base or delta, but its name cannot be read; "
        "move it out of the table if it is not part of it"
    )


@dataclass
class Table:
    """A model of a table: which rows each directory holds, and what became of every txn."""

    contents: dict[str, frozenset[int]] = field(default_factory=dict)
    writers: set[int] = field(default_factory=set)  # open txns that write
    all_writers: dict[int, int] = field(default_factory=dict)  # write id → txn
    next_txn: int = 1
    aborted: set[int] = field(default_factory=set)
    still_open: set[int] = field(default_factory=set)
    compacted_to: int = 0

    def txns(self) -> ValidTxnList:
        return ValidTxnList(self.next_txn - 1, frozenset(self.still_open), frozenset(self.aborted))

    def write_ids(self) -> ValidWriteIdList:
        of = self.all_writers.items()
        return ValidWriteIdList(
            len(self.all_writers),
            frozenset(w for w, t in of if t in self.still_open),
            frozenset(w for w, t in of if t in self.aborted),
            table="d.t",
        )

    def listing(self) -> list[FileEntry]:
        return [FileEntry(f"{name}/bucket_00000", 9) for name in self.contents]

    def open_txn(self) -> int:
        self.next_txn += 1
        self.still_open.add(self.next_txn - 1)
        return self.next_txn - 1

    def end(self, txn: int, outcome: str) -> None:
        if outcome != "open":
            self.still_open.discard(txn)
            self.writers.discard(txn)
        if outcome == "abort":
            self.aborted.add(txn)

    def write(self, statements: int) -> list[int]:
        """Open a txn and write one row per statement; the row's number is write id * 100 + statement."""
        txn = self.open_txn()
        write_id = len(self.all_writers) + 1
        self.all_writers[write_id] = txn
        self.writers.add(txn)
        rows = [write_id * 100 + statement for statement in range(statements)]
        for statement, row in enumerate(rows):
            self.contents[delta_name(write_id, write_id, statement)] = frozenset({row})
        return rows

    def compact(self, major: bool, outcome: str) -> None:
        write_ids = self.write_ids().for_compactor()
        found = acid_state(self.listing(), write_ids, self.txns())
        txn = self.open_txn()
        sources = found.inserts if major else found.deltas
        if not sources:
            self.end(txn, "abort")
            return
        rows = frozenset().union(*(self.visible(d.name, write_ids) for d in sources))
        low = min(d.directory.min_write_id for d in sources)
        name = base_name(write_ids.high_watermark, txn)
        if not major:
            name = delta_name(low, write_ids.high_watermark, None, txn)
            self.contents[delete_delta_name(low, write_ids.high_watermark, None, txn)] = frozenset()
        self.contents[name] = rows
        self.end(txn, outcome)
        if outcome == "commit":
            self.compacted_to = write_ids.high_watermark

    def visible(self, name: str, write_ids: ValidWriteIdList) -> frozenset[int]:
        return frozenset(row for row in self.contents[name] if write_ids.is_valid(row // 100))

    def clean(self) -> None:
        found = acid_state(self.listing(), self.write_ids().for_cleaner(self.compacted_to), self.txns())
        for directory in (*found.obsolete, *found.aborted):
            del self.contents[directory.name]

    def read(self, write_ids: ValidWriteIdList, txns: ValidTxnList) -> list[int]:
        rows: list[int] = []
        for directory in acid_state(self.listing(), write_ids, txns).inserts:
            held = self.contents[directory.name]
            rows.extend(self.visible(directory.name, write_ids) if directory.needs_row_check else held)
        return sorted(rows)


_events = st.one_of(
    st.tuples(st.just("write"), st.integers(1, 3)),
    st.tuples(st.just("end"), st.sampled_from(["commit", "commit", "abort"]), st.sampled_from([min, max])),
    st.tuples(st.just("compact"), st.booleans(), st.sampled_from(["commit", "commit", "abort", "open"])),
    st.tuples(st.just("clean")),
)


@settings(max_examples=examples(300), deadline=None)
@given(st.lists(_events, max_size=25))
def test_every_snapshot_sees_each_committed_row_once_whatever_compaction_does(events: list[tuple[Any, ...]]) -> None:
    """Writers commit and abort in any order, compactions come between; a Cleaner works once all readers are gone."""
    table = Table()
    written: dict[int, list[int]] = {}
    snapshots: list[tuple[ValidWriteIdList, ValidTxnList, list[int]]] = []
    for kind, *details in events:
        if kind == "write":
            written[len(written) + 1] = table.write(*details)
        elif kind == "end" and table.writers:
            outcome, choose = details
            table.end(choose(table.writers), outcome)
        elif kind == "compact":
            table.compact(*details)
        elif kind == "clean":
            snapshots.clear()
            table.clean()
        write_ids, txns = table.write_ids(), table.txns()
        visible = sorted(row for w, rows in written.items() if write_ids.is_valid(w) for row in rows)
        snapshots.append((write_ids, txns, visible))
    for write_ids, txns, rows in snapshots:
        assert table.read(write_ids, txns) == rows


@pytest.mark.parametrize(("aborted", "shown"), [(16, 80), (17, 81)])
def test_history_that_is_gone_is_told_with_the_beginning_of_the_snapshot(aborted: int, shown: int) -> None:
    writes = ValidWriteIdList(1, table="d" * (80 - len("d:1:9223372036854775807::")) + "d" * (aborted - 15))
    text = str(writes)
    assert len(text) == shown
    with pytest.raises(SnapshotTooOldError) as gone:
        acid_state([FileEntry("base_0000005_v0000009/bucket_00000", 9)], writes, ValidTxnList(100))
    assert str(gone.value) == (
        f"the snapshot {text if shown <= 80 else text[:80] + '…'} needs history that base_0000005_v0000009 has "
        "replaced; begin a new transaction (its txn was not open, or not registered, while compaction was cleaned up "
        "after)"
    )


def test_an_overwrite_counts_while_lower_write_ids_are_open() -> None:
    """They write other partitions; of a compactor's base nobody could say that it holds what they wrote."""
    names = ["delta_0000001_0000001_0000", "base_0000003"]
    assert names_of(state(names, reader(4, open_={2})).inserts) == ["base_0000003"]
    assert names_of(state([names[0], "base_1", "base_0000003_v0000009"], reader(4, open_={2})).inserts) == ["base_1"]


def test_a_merged_delta_of_which_only_aborted_ids_are_new_ends_nothing() -> None:
    names = ["base_0000002", "delta_0000002_0000003", "delta_0000004_0000004_0000"]
    found = state(names, reader(4, aborted={3}))
    assert names_of(found.inserts) == ["base_0000002", "delta_0000004_0000004_0000"]
    assert found.obsolete == ()


def test_statements_follow_each_other_each_with_its_deletes_first() -> None:
    rows = [f"delta_0000005_0000005_{statement:04d}" for statement in range(3)]
    found = state([*reversed(rows), *(f"delete_{name}" for name in rows)], reader(5))
    assert names_of(found.deltas) == [name for row in rows for name in (f"delete_{row}", row)]
