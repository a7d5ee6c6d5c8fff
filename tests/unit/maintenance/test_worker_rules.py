"""What a Worker refuses, what is enough for it, and what its result must be called."""

from __future__ import annotations

from dataclasses import replace

import pytest

from airflow_hive_acid.errors import InvalidArgumentsError, PublishError
from airflow_hive_acid.format.acid_state import AcidState, FileEntry, acid_state, state_directories
from airflow_hive_acid.format.jobs import Column
from airflow_hive_acid.format.write_ids import ValidTxnList, ValidWriteIdList
from airflow_hive_acid.maintenance.worker.rules import (
    check_result,
    is_enough,
    needs_cleaning,
    order_of,
    outside_of_batches,
    parts_first,
    refusal,
    result_names,
    same_definition,
)
from airflow_hive_acid.metastore.catalog.values.model import Partition, Table
from airflow_hive_acid.metastore.compaction.model import Compaction, CompactionState, CompactionType, Resource
from tests.tables import flat_table

MAJOR, MINOR = CompactionType.MAJOR, CompactionType.MINOR


def state(*directories: str, aborted: tuple[int, ...] = (), high: int = 100) -> AcidState:
    listing = [FileEntry(d if d[0].isdigit() else f"{d}/bucket_00000", 10) for d in directories]
    writes = ValidWriteIdList(high, aborted=frozenset(aborted), table="default.t").for_compactor()
    return acid_state(listing, writes, ValidTxnList(1000))


def table(**changes: object) -> Table:
    known: dict[str, object] = {
        "db": "default", "name": "t", "id": 1, "location": "file:/w/t", "columns": (Column("id", "int"),),
        "partition_columns": (), "properties": {"transactional": "true"}, "owner": None, "type": "MANAGED_TABLE",
    }  # fmt: skip
    return flat_table(**{**known, **changes})  # type: ignore[arg-type]


def request(kind: CompactionType = MAJOR, partition: str | None = None) -> Compaction:
    return Compaction(1, Resource("default", "t", partition), kind, CompactionState.WORKING, queued=True)


@pytest.mark.conformance("C25")
@pytest.mark.parametrize(
    ("directories", "enough"),
    [
        (("delta_0000001_0000001_0000",), False),
        (("delta_0000001_0000001_0000", "delta_0000002_0000002_0000"), True),
        (("delta_0000001_0000001_0001", "delete_delta_0000001_0000001_0000"), False),
        (("delete_delta_0000001_0000001_0000", "delete_delta_0000002_0000002_0000"), True),
        (("delta_0000001_0000001_0001", "delete_delta_0000001_0000001_0000", "delta_0000002_0000002_0000"), True),
        (("base_0000001", "delta_0000002_0000002_0000"), False),
        ((), False),
    ],
)
def test_a_minor_compaction_needs_several_deltas_of_a_kind(directories: tuple[str, ...], enough: bool) -> None:
    assert is_enough(MINOR, state(*directories)) is enough


@pytest.mark.conformance("C26")
@pytest.mark.parametrize(
    ("directories", "enough"),
    [
        (("base_0000005",), False),
        (("base_0000005", "delta_0000006_0000006_0000"), True),
        (("delta_0000001_0000001_0000",), False),
        (("delta_0000001_0000001_0000", "delete_delta_0000002_0000002_0000"), True),
        (("000000_0",), True),
        ((), False),
    ],
)
def test_a_major_compaction_needs_something_to_merge(directories: tuple[str, ...], enough: bool) -> None:
    assert is_enough(MAJOR, state(*directories)) is enough


@pytest.mark.conformance("C26")
def test_aborted_leftovers_are_work_for_the_cleaner() -> None:
    assert needs_cleaning(state("base_0000005", "delta_0000006_0000006_0000", aborted=(6,)))
    assert needs_cleaning(state("base_0000005", "delta_0000004_0000004_0000"))
    assert not needs_cleaning(state("base_0000005", "delta_0000006_0000006_0000"))


@pytest.mark.parametrize(
    ("found", "asked", "exists", "said"),
    [
        (None, request(), True, "no table default.t"),
        (table(properties={}), request(), True, "not transactional"),
        (table(sort_columns=(("id", True),)), request(), True, "sorted by id"),
        (table(partition_columns=(Column("p", "int"),)), request(), True, "request the compaction of a partition"),
        (table(), request(partition="p=1"), True, "not partitioned"),
        (table(partition_columns=(Column("p", "int"),)), request(partition="p=1"), False, "no partition p=1"),
    ],
)  # fmt: skip
@pytest.mark.conformance("C24")
def test_what_cannot_be_compacted_is_refused_with_the_reason(
    found: Table | None, asked: Compaction, exists: bool, said: str
) -> None:
    reason = refusal(asked, found, partition_exists=exists)
    assert reason is not None
    assert said in reason


def test_a_replica_is_not_rebalanced_and_compacts_otherwise_as_it_likes() -> None:
    reason = refusal(request(CompactionType.REBALANCE), table(), partition_exists=True, policies=["p", "q"])
    assert reason == (
        "default.t is written by the replication policy p, q, whose changes know its rows by the ids that they have at "
        "the source: rebalance it there"
    )
    for kind in (MAJOR, MINOR):
        assert refusal(request(kind), table(), partition_exists=True, policies=["p"]) is None


@pytest.mark.conformance("C31")
def test_a_bucketed_table_is_not_rebalanced() -> None:
    reason = refusal(request(CompactionType.REBALANCE), table(bucket_count=4, bucket_columns=("id",)),
                     partition_exists=True)  # fmt: skip
    assert reason is not None
    assert "bucketed" in reason


def test_a_rebalance_is_always_worth_its_while_and_makes_one_base() -> None:
    kind = CompactionType.REBALANCE
    assert refusal(request(kind), table(), partition_exists=True) is None
    found = state("base_0000005")
    assert is_enough(kind, found)
    base = result_names(kind, found, 5, 9)
    assert base == ("base_0000005_v0000009",)
    check_result(kind, base, base)
    with pytest.raises(PublishError, match="did not report base_0000005_v0000009"):
        check_result(kind, (), base)


def test_an_ordinary_request_is_worked_on() -> None:
    assert refusal(request(), table(), partition_exists=True) is None
    partitioned = table(partition_columns=(Column("p", "int"),))
    assert refusal(request(partition="p=1"), partitioned, partition_exists=True) is None


@pytest.mark.conformance("C27")
def test_the_result_reaches_up_to_the_compactors_mark() -> None:
    found = state("delta_0000001_0000001_0000", "delta_0000002_0000002_0000", high=2)
    assert result_names(MAJOR, found, 2, 9) == ("base_0000002_v0000009",)
    assert result_names(MINOR, found, 2, 9) == (
        "delta_0000001_0000002_v0000009", "delete_delta_0000001_0000002_v0000009")  # fmt: skip


def test_a_result_that_was_not_asked_for_is_refused() -> None:
    found = state("delta_0000001_0000001_0000", "delta_0000002_0000002_0000", "delete_delta_0000002_0000002_0001")
    base, both = result_names(MAJOR, found, 5, 9), result_names(MINOR, found, 5, 9)
    check_result(MAJOR, base, base)
    check_result(MINOR, both, both)
    check_result(MINOR, both[:1], both)
    for kind, written, allowed in (
        (MAJOR, (), base), (MAJOR, ("base_0000006_v0000009",), base), (MAJOR, base * 2, base), (MINOR, base, both),
    ):  # fmt: skip
        with pytest.raises(PublishError):
            check_result(kind, written, allowed)


def test_deltas_without_a_file_do_not_widen_the_result() -> None:
    listing = [FileEntry("delta_0000001_0000001_0000/_orc_acid_version", 1),
               FileEntry("delta_0000002_0000002_0000/bucket_00000", 9)]  # fmt: skip
    writes = ValidWriteIdList(3, table="default.t").for_compactor()
    found = acid_state(listing, writes, ValidTxnList(1000))
    assert result_names(MINOR, found, 3, 9)[0] == "delta_0000002_0000003_v0000009"
    assert result_names(MINOR, acid_state(listing[:1], writes, ValidTxnList(1000)), 3, 9) == ()


def test_a_sorted_table_without_row_ids_is_compacted_in_its_order() -> None:
    found = table(
        properties={"transactional": "true", "transactional_properties": "insert_only"}, bucket_count=2,
        bucket_columns=("id",), sort_columns=(("id", True),),
    )  # fmt: skip
    assert refusal(request(), found, partition_exists=True) is None


def deltas(*ranges: tuple[int, int]) -> tuple[str, ...]:
    return tuple(f"delta_{low:07d}_{high:07d}_0000" for low, high in ranges)


def ranges_of(found: AcidState, most: int) -> list[tuple[int, int, int]]:
    return [(part.above, part.upto, len(part.deltas)) for part in parts_first(found, most)]


def test_no_more_deltas_than_one_job_takes_are_compacted_at_once() -> None:
    assert ranges_of(state(*deltas((1, 1), (2, 2), (3, 3))), 3) == []


def test_too_many_deltas_are_merged_in_parts_first() -> None:
    """hive.compactor.max.num.delta: several partial minor compactions, then what was asked for."""
    many = state(*deltas(*((i, i) for i in range(1, 9))))
    assert ranges_of(many, 3) == [(0, 3, 3), (3, 6, 3)]
    assert [d.name for d in parts_first(many, 3)[1].deltas] == list(deltas((4, 4), (5, 5), (6, 6)))


@pytest.mark.rule("R18")
def test_a_part_never_ends_within_the_range_of_a_delta() -> None:
    """Else the events of a write id would be in two deltas that readers both see."""
    streamed = state(*deltas((1, 1), (2, 9), (10, 10), (11, 11)), "delete_delta_0000009_0000009_0001")
    assert ranges_of(streamed, 2) == [(0, 9, 3)]
    statements = state("delta_0000001_0000001_0000", "delta_0000001_0000001_0001", *deltas((2, 2), (3, 3)))
    assert ranges_of(statements, 1) == [(0, 1, 2), (1, 2, 1)]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"id": 2}, "the table was dropped and made anew"),
        ({"location": "file:/w/elsewhere"}, "its location changed"),
        ({"columns": (Column("id", "int"), Column("x", "int"))}, "its columns changed"),
        ({"properties": {}}, "its transactional changed"),
        ({"owner": "bob", "write_id": 9}, None),
    ],
)
def test_a_table_that_is_another_one_by_now_is_told_apart(changes: dict[str, object], said: str | None) -> None:
    assert same_definition(table(), table(**changes), None, None) == said


def test_a_dropped_table_or_partition_is_told_apart() -> None:
    one = Partition("k=a", ("a",), "file:/w/t/k=a", 1)
    assert same_definition(table(), None, None, None) == "the table was dropped"
    assert same_definition(table(), table(), one, None) == "the partition was dropped"
    again = Partition("k=a", ("a",), "file:/w/t/k=a", 2)
    assert same_definition(table(), table(), one, again) == "the partition was dropped and made anew"


@pytest.mark.parametrize(
    ("highest", "expected"), [(4, 4), (5, 4), (7, 4), (8, 8), (9, 9), (11, 9), (3, 3), (2, 1), (1, 1)]
)
def test_a_compaction_does_not_end_inside_the_range_of_a_batch(highest: int, expected: int) -> None:
    """A base_6 beside delta_5_8 hides the rows of 5 and 6 from everybody who does not see 7 or 8."""
    names = ["delta_0000005_0000008", "delta_0000010_0000012", "delta_0000002_0000003", "delta_0000004_0000004_0000",
             "delta_0000001_0000009_v0000040", "base_0000001"]  # fmt: skip
    found = state_directories([FileEntry(f"{name}/bucket_00000", 10) for name in names])
    assert outside_of_batches(found, highest) == expected


def test_why_a_compaction_must_not_end_inside_the_range_of_a_batch() -> None:
    """5 and 6 are committed, 7 and 8 open or aborted: who reads base_6 passes over delta_5_8, as Hive does."""
    names = ["base_0000006_v0000009", "delta_0000005_0000008"]
    listing = [FileEntry(f"{name}/bucket_00000", 10) for name in names]
    for others in ({"open": frozenset({7, 8})}, {"aborted": frozenset({7, 8})}):
        seen = acid_state(listing, ValidWriteIdList(8, table="default.t", **others), ValidTxnList(1000))
        assert [d.name for d in seen.inserts] == ["base_0000006_v0000009"]
    seen = acid_state(listing, ValidWriteIdList(8, frozenset({8}), table="default.t"), ValidTxnList(1000))
    assert [d.name for d in seen.inserts] == names


KEYED = (Column("p", "int"),)
PARQUET = "org.apache.hadoop.hive.ql.io.parquet.MapredParquetInputFormat"


@pytest.mark.conformance("C24")
@pytest.mark.parametrize(
    ("kind", "changes", "partition", "exists", "reason"),
    [
        (MAJOR, {"properties": {}}, None, True, "default.t is not transactional"),
        (CompactionType.REBALANCE, {"bucket_count": 1, "bucket_columns": ("id",)}, None, True,
         "default.t cannot be rebalanced: it is bucketed or insert-only"),
        (CompactionType.REBALANCE,
         {"properties": {"transactional": "true", "transactional_properties": "insert_only"}}, None, True,
         "default.t cannot be rebalanced: it is bucketed or insert-only"),
        (MAJOR, {"sort_columns": (("id", True),)}, None, True,
         "default.t is sorted by id, and rows with ids lie in their order"),
        (MAJOR, {"partition_columns": KEYED}, None, True,
         "default.t is partitioned; request the compaction of a partition"),
        (MAJOR, {}, "p=1", True, "default.t is not partitioned"),
        (MAJOR, {"partition_columns": KEYED}, "p=1", False, "there is no partition p=1 of default.t (any more)"),
        (MAJOR, {"bucket_count": 1, "bucket_columns": ("id",)}, None, True, None),
    ],
)  # fmt: skip
def test_a_refusal_names_the_table_and_the_reason(
    kind: CompactionType, changes: dict[str, object], partition: str | None, exists: bool, reason: str | None
) -> None:
    assert refusal(request(kind, partition), table(**changes), partition_exists=exists) == reason


def test_a_table_that_is_gone_is_refused_by_its_name() -> None:
    assert refusal(request(), None, partition_exists=True) == "there is no table default.t (any more)"


def test_the_order_of_a_rebalance_is_read_again_and_an_order_of_others_is_not_looked_at() -> None:
    rebalance = replace(request(CompactionType.REBALANCE), order_by="ORDER BY ID desc")
    assert order_of(rebalance, table()) == "ORDER BY ID DESC"
    assert order_of(replace(rebalance, order_by=None), table()) is None
    assert order_of(replace(rebalance, type=MAJOR, order_by="x; DROP"), table()) is None
    with pytest.raises(InvalidArgumentsError):
        order_of(replace(rebalance, order_by="nope"), table())
    reason = refusal(replace(rebalance, order_by="nope"), table(), partition_exists=True)
    assert reason is not None
    assert "nope" in reason


def test_a_partition_that_moved_is_told_with_both_places() -> None:
    one = Partition("k=a", ("a",), "file:/w/t/k=a", 1)
    moved = Partition("k=a", ("a",), "file:/else", 1)
    assert same_definition(table(), table(), one, moved) == (
        "the partition lies at file:/else, not at file:/w/t/k=a any more"
    )
    assert same_definition(table(), table(), one, one) is None
    assert same_definition(table(), table(), None, one) == "the partition was dropped"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"partition_columns": KEYED}, "its partition columns changed"),
        ({"bucket_columns": ("id",)}, "its bucket columns changed"),
        ({"bucket_count": 2}, "its bucket count changed"),
        ({"properties": {"transactional": "true", "transactional_properties": "insert_only"}},
         "its insert only changed"),
        ({"input_format": PARQUET}, "its format changed"),
    ],
)  # fmt: skip
def test_each_part_of_a_definition_that_files_depend_on_is_compared(changes: dict[str, object], said: str) -> None:
    assert same_definition(table(), table(**changes), None, None) == said
    one = Partition("k=a", ("a",), "file:/w/t/k=a", 1)
    assert same_definition(table(), table(**changes), one, one) == said


def test_a_file_its_writer_never_closed_is_enough_for_a_major_compaction() -> None:
    batch = ["delta_0000001_0000005/bucket_00000", "delta_0000001_0000005/bucket_00000_flush_length"]
    single = ["delta_0000001_0000001_0000/bucket_00000", "delta_0000001_0000001_0000/bucket_00000_flush_length"]
    writes = ValidWriteIdList(9, table="default.t").for_compactor()

    def found(paths: list[str]) -> AcidState:
        return acid_state([FileEntry(path, 8) for path in paths], writes, ValidTxnList(1000))

    assert is_enough(MAJOR, found(batch))
    assert not is_enough(MAJOR, found(batch[:1]))
    assert not is_enough(MAJOR, found(single))
    assert not is_enough(MINOR, found(batch))


def test_parts_are_cut_as_soon_as_they_are_full_and_the_last_delta_is_left() -> None:
    pairs = deltas((1, 2), (3, 3), (4, 6), (7, 7), (8, 8))
    assert ranges_of(state(*pairs), 2) == [(0, 3, 2), (3, 7, 2)]
    assert ranges_of(state(*pairs), 4) == [(0, 7, 4)]
    assert ranges_of(state(*pairs), 5) == []


def test_what_is_wrong_with_a_result_is_said() -> None:
    base = ("base_0000002_v0000009",)
    with pytest.raises(PublishError) as unknown:
        check_result(MAJOR, ("x", "base_0000002_v0000009"), base)
    assert str(unknown.value) == f"the compaction reported ['x']; it may write each of {base} once"
    with pytest.raises(PublishError) as twice:
        check_result(MAJOR, base * 2, base)
    assert str(twice.value) == f"the compaction reported {list(base * 2)}; it may write each of {base} once"
    with pytest.raises(PublishError) as nothing:
        check_result(MAJOR, (), base)
    assert str(nothing.value) == (
        "the compaction did not report base_0000002_v0000009; without it the sources would stay for ever"
    )
    check_result(MINOR, (), base)


def test_replaced_original_files_are_work_for_the_cleaner() -> None:
    assert needs_cleaning(state("000000_0", "base_0000005"))
    assert not needs_cleaning(state("000000_0"))


def test_a_minor_result_begins_at_the_first_delta_with_data() -> None:
    found = state("delta_0000004_0000005_0000", "delta_0000002_0000003_0000", "delete_delta_0000006_0000006_0000")
    assert result_names(MINOR, found, 6, 9) == (
        "delta_0000002_0000006_v0000009",
        "delete_delta_0000002_0000006_v0000009",
    )


@pytest.mark.parametrize(("highest", "expected"), [(7, 1), (5, 1), (8, 8), (1, 1)])
def test_a_mark_that_is_lowered_into_another_batch_is_lowered_again(highest: int, expected: int) -> None:
    found = state_directories(
        [FileEntry(f"delta_000000{name}/bucket_00000", 10) for name in ("2_0000006", "5_0000008")]
    )
    assert outside_of_batches(found, highest) == expected


def test_a_table_of_no_buckets_can_be_rebalanced() -> None:
    assert refusal(request(CompactionType.REBALANCE), table(bucket_count=0), partition_exists=True) is None
