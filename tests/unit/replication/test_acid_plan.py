"""The planner of ACID syncs against Hive's directory rules: whatever both sides compact, the replica has the rows."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st

from airflow_hive_acid.errors import CorruptTableError, ReplicaDivergedError
from airflow_hive_acid.format.acid_state import FileEntry
from airflow_hive_acid.format.names import AcidDirectory, DirectoryKind, base_name, delta_name, parse_directory
from airflow_hive_acid.format.write_ids import ValidWriteIdList
from airflow_hive_acid.replication.acid.arrivals import Arrival, Copy
from airflow_hive_acid.replication.acid.plan import ReplicaView, SourceView, plan
from tests.examples import examples
from tests.unit.replication.directory_model import (
    EVERY_TXN,
    Event,
    Replica,
    Source,
    change,
    committed,
    maintain,
    tidy,
)

if TYPE_CHECKING:
    import random

OPERATIONS = st.lists(
    st.sampled_from([
        "insert", "insert", "update", "begin", "end", "abort", "overwrite", "stream", "source minor", "source major",
        "source clean", "source forget", "replica minor", "replica major", "replica clean", "sync", "sync", "crash",
    ]),
    min_size=4,
    max_size=40,
)  # fmt: skip

INSERT_ONLY = st.lists(
    st.sampled_from([
        "insert", "insert", "insert", "begin", "end", "abort", "overwrite", "source minor", "source minor",
        "source major", "source clean", "source clean", "replica minor", "replica major", "sync", "sync", "crash",
    ]),
    min_size=10,
    max_size=40,
)  # fmt: skip


@settings(max_examples=examples(250), deadline=None)
@given(OPERATIONS, st.randoms(use_true_random=False))
@pytest.mark.rule("R4")
@pytest.mark.rule("R18")
def test_the_replica_has_the_rows_of_the_snapshot_whatever_both_sides_compact(operations, chance) -> None:
    """Also with open and aborted write ids, statements, overwrites, streaming deltas and syncs that were killed."""
    live(Source(), Replica(), operations, chance)


@settings(max_examples=examples(150), deadline=None)
@given(INSERT_ONLY, st.randoms(use_true_random=False))
@pytest.mark.rule("R4")
def test_an_insert_only_table_has_each_row_once_whatever_both_sides_compact(operations, chance) -> None:
    """A reader sees all rows of a directory or none: what overlaps comes twice."""
    live(Source(has_row_ids=False), Replica(has_row_ids=False), operations, chance)


def live(source: Source, replica: Replica, operations: list[str], chance: random.Random) -> None:
    """What both sides do, and a last sync."""
    for operation in [*operations, "sync"]:
        source.txn += 1
        replica.txn += 1
        note(f"{operation}: {source.names()} {source.ids()} | {replica.names()}")
        who, _, verb = operation.partition(" ")
        if who in ("sync", "crash"):
            replica.sync(source, crash=who == "crash")
        elif who == "replica":
            tidy(replica, verb)
        elif who == "source":
            maintain(source, verb)
        else:
            change(source, operation, chance)


def test_single_deltas_that_compaction_replaced_travel_while_they_are_there() -> None:
    """The next sync after a major compaction moves the new delta, not the base."""
    source, replica = Source(), Replica()
    committed(source, 100)
    replica.sync(source)
    committed(source, 1)
    source.compact(source.ids(), 700, major=True)
    source.uncleaned[700] = 2
    found = replica.sync(source)
    assert [c.source for c in found.copies] == ["delta_0000002_0000002_0000"]
    assert not found.needs_spark


def test_the_base_travels_once_the_single_deltas_are_gone() -> None:
    source, replica = Source(), Replica()
    committed(source, 100)
    replica.sync(source)
    committed(source, 1)
    source.compact(source.ids(), 700, major=True)
    source.clean(source.ids(), 2)
    found = replica.sync(source)
    assert [c.arrival.name(9) for c in found.copies] == ["base_0000002_v0000009"]
    assert found.reasons == ("base_0000002_v0000700 travels whole: a Cleaner has been at what it replaced",)


def test_what_may_have_been_cleaned_in_part_is_not_trusted() -> None:
    """Without proof that nothing was removed, single deltas beside a base may be a remainder."""
    source, replica = Source(), Replica()
    committed(source, 2)
    replica.sync(source)
    committed(source, 1, 1)
    source.compact(source.ids(), 700, major=True)
    del source.directories["delta_0000002_0000002_0000"]
    found = replica.sync(source)
    assert [c.source for c in found.copies] == ["base_0000003_v0000700"]


def test_a_compacted_delta_over_old_and_new_ids_gives_its_new_rows_alone() -> None:
    source, replica = Source(), Replica()
    committed(source, 2, 2)
    replica.sync(source)
    committed(source, 2, 2)
    source.compact(source.ids(), 700, major=False)
    source.clean(source.ids(), 4)
    found = replica.sync(source)
    assert [(c.low, c.high, c.sources) for c in found.carries] == [(3, 4, ("delta_0000001_0000004_v0000700",))]
    assert not found.copies


@pytest.mark.parametrize("major", [True, False], ids=["major", "minor"])
def test_what_both_sides_of_an_insert_only_table_have_compacted_otherwise_travels_as_one_base(*, major: bool) -> None:
    """A compacted delta beside the replica's base, or across its delta, would show rows twice.

    ids 1     both have a base of it
    ids 2, 3  came one by one; the replica compacts all there is, or 2 and 3
    ids 3, 4  are a compacted delta at the source
    """
    source, replica = Source(has_row_ids=False), Replica(has_row_ids=False)
    committed(source, 1)
    replica.sync(source)
    source.compact(source.ids(), 700, major=True)
    source.clean(source.ids(), 1)
    committed(source, 1)
    replica.sync(source)
    source.compact(source.ids(), 701, major=True)
    source.clean(source.ids(), 2)
    committed(source, 1)
    replica.sync(source)
    replica.compact(replica.known, 20_000, major=major)
    committed(source, 1)
    source.compact(source.ids(), 702, major=False)
    source.clean(source.ids(), 4)
    found = replica.sync(source)
    assert [c.arrival.name(9) for c in found.copies] == ["base_0000004_v0000009"]
    assert sum(file.size for copy in found.copies for file in copy.files) == 400


def test_files_of_one_name_become_copies_of_the_same_bucket_in_one_directory() -> None:
    names = ("000001_0", "000001_0_copy_1", "000001_0.gz")
    files = tuple(FileEntry(f"{d}/{name}", 1) for d in ("base_0000001", "delta_0000002_0000003") for name in names)
    arrival = Arrival(AcidDirectory(DirectoryKind.BASE, 0, 3), True)
    placed = Copy("merged_3", arrival, (FileEntry("000001_0", 1), *files), of_several=True).placed()
    assert [name for _, name in placed] == [
        "000001_0", "000001_0_copy_1", "000001_0_copy_2", "000001_0.gz", "000001_0_copy_3", "000001_0_copy_4",
        "000001_0_copy_1.gz",
    ]  # fmt: skip


def test_a_write_id_that_was_open_at_the_last_sync_travels_when_it_commits() -> None:
    source, replica = Source(), Replica()
    late = source.begin()
    source.write(late, 1, 0)
    committed(source, 1)
    assert [c.source for c in replica.sync(source).copies] == ["delta_0000002_0000002_0000"]
    source.end(late, commit=True)
    assert [c.source for c in replica.sync(source).copies] == ["delta_0000001_0000001_0000"]


def test_a_base_that_would_hide_half_a_delta_of_the_replica_is_refused() -> None:
    """No compaction of either side leaves that behind; rows would come twice."""
    source = SourceView([FileEntry("base_0000002_v0000009/bucket_00000", 5)], ValidWriteIdList(3), EVERY_TXN)
    there = [FileEntry("delta_0000001_0000003_v0000008/bucket_00000", 5)]
    replica = ReplicaView(there, ValidWriteIdList(3), EVERY_TXN)
    known = replace(replica, known=ValidWriteIdList(3, open=frozenset({1})), listing=there)
    assert plan(source, known).leftovers == ("delta_0000001_0000003_v0000008",)
    across = ReplicaView([FileEntry("delta_0000002_0000005/bucket_00000", 5)], ValidWriteIdList(5), EVERY_TXN)
    later = SourceView([FileEntry("base_0000003/bucket_00000", 5)], ValidWriteIdList(9), EVERY_TXN)
    assert plan(replace(later, write_ids=ValidWriteIdList(5)), across).is_empty
    with pytest.raises(CorruptTableError, match="delta_0000002_0000005 of the replica"):
        plan(SourceView([FileEntry("base_0000003_v0000007/bucket_00000", 5)], ValidWriteIdList(9), EVERY_TXN),
             replace(across, known=ValidWriteIdList(5, open=frozenset({1}))))  # fmt: skip


def test_a_table_that_was_emptied_without_a_write_id_gets_an_empty_base() -> None:
    """DROP PARTITION and ADD PARTITION, or a TRUNCATE of a Hive that removes files."""
    source, replica = Source(), Replica()
    committed(source, 2, 2)
    replica.sync(source)
    source.directories.clear()
    committed(source, 1)
    found = replica.sync(source)
    assert found.empty_base is not None
    assert found.empty_base.write_id == 2
    assert replica.rows(replica.known) == {(3, 0)}


def test_rows_that_vanished_in_part_are_no_guess() -> None:
    source, replica = Source(), Replica()
    committed(source, 2, 2)
    replica.sync(source)
    del source.directories["delta_0000001_0000001_0000"]
    with pytest.raises(ReplicaDivergedError, match=r"delta_0000001_0000001_0000.*bootstrap"):
        replica.sync(source)


@pytest.mark.parametrize("what", ["as it was written", "compacted"])
def test_rows_that_are_missing_here_are_not_taken_for_those_that_came(what: str) -> None:
    """A Hive that knows of no replica drops and adds a partition there, without a write id."""
    source, replica = Source(), Replica()
    committed(source, 2, 2)
    replica.sync(source)
    if what == "compacted":
        source.compact(source.ids(), 700, major=True)
        source.clean(source.ids(), 2)
    lost = dict(replica.directories)
    replica.directories.clear()
    with pytest.raises(ReplicaDivergedError, match=r"has come here before.*bootstrap the table again"):
        replica.sync(source)
    replica.directories.update(lost)
    assert replica.sync(source).is_empty


def test_a_batch_of_which_no_row_has_come_is_not_missed() -> None:
    """Its first txn was committed without rows, and those in the file are of one that was aborted."""
    source, replica = Source(), Replica()
    first, second = source.begin(), source.begin()
    source.directories[delta_name(first, second)] = [Event((second, 0), second)]
    source.end(first, commit=True)
    assert replica.sync(source).needs_spark
    source.end(second, commit=False)
    assert replica.sync(source).is_empty
    assert not replica.directories


def test_a_truncated_table_of_hive_travels_as_its_empty_base() -> None:
    source, replica = Source(), Replica()
    committed(source, 2)
    replica.sync(source)
    write_id = source.begin()
    source.directories[base_name(write_id)] = []
    source.end(write_id, commit=True)
    assert [c.source for c in replica.sync(source).copies] == ["base_0000002"]
    assert replica.rows(replica.known) == set()


def test_files_of_a_converted_table_travel_before_anybody_reads_there_and_are_missed_later() -> None:
    listing = [FileEntry("000000_0", 10), FileEntry("delta_0000001_0000001_0000/bucket_00000", 5)]
    ids = ValidWriteIdList(1, table="db.t")
    source = SourceView(listing, ids, EVERY_TXN)
    new = ReplicaView([], ValidWriteIdList(0), EVERY_TXN, is_new=True)
    found = plan(source, new)
    assert found.originals == (FileEntry("000000_0", 10),)
    there = ReplicaView(listing, ids, EVERY_TXN)
    assert plan(source, there).is_empty
    lacking = replace(there, listing=listing[1:])
    with pytest.raises(ReplicaDivergedError, match="000000_0"):
        plan(source, lacking)


def test_names_say_what_a_parser_of_names_reads() -> None:
    """Every arrival is a name that Hive reads, with the sync's txn where compaction was."""
    source, replica = Source(), Replica()
    committed(source, 1, 1)
    source.compact(source.ids(), 700, major=False)
    source.clean(source.ids(), 2)
    found = replica.sync(source)
    names = [c.arrival.name(12) for c in found.copies]
    assert names == ["delta_0000001_0000002_v0000012"]
    assert all(parse_directory(n) is not None for n in names)
