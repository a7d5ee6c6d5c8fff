"""Minor and major compaction by Spark jobs: other files, the same rows with the same ids."""

from __future__ import annotations

import functools
import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from airflow_hive_acid.errors import InvalidArgumentsError, SnapshotTooOldError
from airflow_hive_acid.format.buckets import decode_bucket
from airflow_hive_acid.format.jobs import Compact, JobSpec
from airflow_hive_acid.spark.accelerator import SESSION_KEY
from airflow_hive_acid.spark.jobs.run import run_step
from airflow_hive_acid.spark.read.reader import read_snapshot
from airflow_hive_acid.spark.read.select import json_lines
from tests.orc_rows import events_in

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def busy(acid_table: Callable) -> Any:
    """Three buckets, five write ids, updates and deletes across all of them."""
    table = acid_table("id bigint, v string")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("airflow_hive_acid.spark.write.insert.FEW_ROWS", 0)
        table.insert("select /*+ REPARTITION(3) */ id, 'a' from range(0, 900)")
    table.insert("select id + 900, 'b' from range(0, 100)")
    table.update("id % 100 = 1", v="concat(v, '!')")
    table.delete("id % 100 = 2")
    table.update("id % 200 = 1", v="'again'")
    return table


@pytest.fixture
def busy_table(begun: Callable) -> Any:
    return begun(busy)


def test_major_keeps_rows_and_row_ids(busy_table: Any) -> None:
    table = busy_table
    before = table.ids()
    result = table.compact("major")
    (directory,) = result.directories
    assert directory.name == "base_0000005_v0000101"
    assert [f.name for f in directory.files] == ["bucket_00000", "bucket_00001", "bucket_00002"]
    assert sum(f.rows for f in directory.files) == len(before)
    remove_others(table, directory.name)
    assert table.ids() == before
    for file in table.root.glob("base*/bucket_*"):
        rows = events_in(file)
        assert [r[1:4] for r in rows] == sorted(r[1:4] for r in rows)
        assert {decode_bucket(bucket).bucket for _, _, bucket, *_ in rows} == {int(file.name[-5:])}
        assert all(operation == 0 and current == original for operation, original, _, _, current, _ in rows)


@pytest.mark.parametrize("way", ["auto", "off"])
def test_a_major_compaction_applies_more_deletes_than_are_sent_to_all_tasks(
    acid_table: Callable, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    """Rows and deletes are exchanged then, so that a bucket of one file has several tasks, and is to be gathered."""
    monkeypatch.setattr("airflow_hive_acid.spark.read.reader.BROADCAST_DELETES_BYTES", 0)
    table = acid_table("id int, v string")
    # As of deletes that are too many for Spark to join them in one task.
    many = {"spark.sql.autoBroadcastJoinThreshold": "-1", "spark.sql.adaptive.enabled": "false"}
    table.run = functools.partial(table.run, **{SESSION_KEY: way, "spark.sql.shuffle.partitions": "3", **many})
    table.insert("select cast(id as int), 'a' from range(0, 300, 1, 1)")
    table.delete("id % 3 = 0")
    before = table.ids()
    (directory,) = table.compact("major").directories
    assert [(file.name, file.rows) for file in directory.files] == [("bucket_00000", 200)]
    remove_others(table, directory.name)
    assert table.ids() == before


@pytest.mark.rule("R18")
def test_minor_copies_the_events_of_both_kinds_over_one_range(busy_table: Any) -> None:
    table = busy_table
    before = table.ids()
    events = sorted_events(table.root)
    result = table.compact("minor")
    names = [d.name for d in result.directories]
    assert names == ["delete_delta_0000001_0000005_v0000101", "delta_0000001_0000005_v0000101"]
    remove_others(table, *names)
    assert table.ids() == before
    assert sorted_events(table.root) == events
    for file in table.root.glob("del*/bucket_*"):
        keys = [event[1:4] for event in events_in(file)]
        assert keys == sorted(keys)


def test_the_old_directories_and_the_new_ones_are_one_table_until_the_old_are_cleaned(busy_table: Any) -> None:
    table = busy_table
    before = table.ids()
    table.compact("minor")
    assert table.ids() == before
    table.compact("major")
    assert table.ids() == before
    table.delete("id < 600")
    table.compact("major")
    assert len(table.ids()) == len([v for v in before.values() if v[0] >= 600])


def test_many_delete_deltas_about_the_same_rows_are_merged_in_order(acid_table: Callable) -> None:
    """Two txns that did not see each other deleted row 7: a minor compaction keeps both events, the later first."""
    table = acid_table("id int")
    table.insert("select cast(id as int) from range(0, 40)")
    table.insert("select cast(id + 100 as int) from range(0, 40)")
    for first in range(6):
        table.delete(f"id % 8 = {first}")
    table.open = {9}
    table.delete("id = 7")
    table.delete("id = 7 or id = 6")
    table.open = set()
    before = table.ids()
    assert len(before) == 18
    events = sorted_events(table.root)
    result = table.compact("minor")
    remove_others(table, *[d.name for d in result.directories])
    assert sorted_events(table.root) == events
    for file in table.root.glob("delete_delta*/bucket_*"):
        found = [event[1:5] for event in events_in(file)]
        assert found == sorted(found, key=lambda key: (*key[:3], -key[3]))
        assert len(found) == 63
    assert table.ids() == before
    table.compact("major")
    assert table.ids() == before


def test_events_of_aborted_transactions_are_dropped(acid_table: Callable) -> None:
    """Also those inside a range that an earlier minor compaction made while the txn was still open."""
    table = acid_table("id int")
    table.insert("select 1")
    table.insert("select 2")
    table.delete("id = 1")
    table.aborted = {2, 3}
    table.insert("select 4")
    result = table.compact("minor")
    assert [d.name for d in result.directories] == ["delta_0000001_0000004_v0000101"]
    assert sum(f.rows for d in result.directories for f in d.files) == 2
    assert table.rows() == [(1,), (4,)]
    remove_others(table, "delta_0000001_0000004_v0000101")
    table.aborted = {2, 3, 4}
    assert table.rows() == [(1,)]
    table.insert("select 5")
    table.compact("major")
    assert table.rows() == [(1,), (5,)]


def test_compaction_stops_below_the_first_open_write_id(acid_table: Callable) -> None:
    table = acid_table("id int")
    table.insert("select 1")
    table.insert("select 2")
    table.insert("select 3")
    table.open = {3}
    table.insert("select 4")
    result = table.compact("major")
    assert [d.name for d in result.directories] == ["base_0000002_v0000101"]
    assert table.rows() == [(1,), (2,), (4,)]
    table.open = set()
    assert table.rows() == [(1,), (2,), (3,), (4,)]


def test_a_table_without_valid_rows(acid_table: Callable) -> None:
    table = acid_table("id int")
    assert table.compact("major").directories == ()
    assert table.compact("minor").directories == ()
    table.insert("select 1")
    table.delete("true")
    result = table.compact("major")
    assert [(d.name, d.files) for d in result.directories] == [("base_0000002_v0000103", ())]
    remove_others(table, "base_0000002_v0000103")
    assert table.rows() == []
    assert table.compact("major").directories == ()
    table.insert("select 2")
    table.aborted = {3}
    assert table.compact("minor").directories == ()


def test_one_partition_is_compacted_and_the_others_stay(acid_table: Callable) -> None:
    table = acid_table("id int", partitioned_by="p string")
    table.insert("select id, concat('p/', id % 2) from range(10)")
    table.update("id < 4", id="id + 100")
    before = table.ids()
    (partition, other) = sorted(table.partitions)
    table.compact("major", partition)
    assert table.directories(partition)[0] == "base_0000002_v0000101"
    assert not [d for d in table.directories(other) if d.startswith("base")]
    assert table.ids() == before
    with pytest.raises(InvalidArgumentsError, match="takes exactly one partition, not 2"):
        table.run(Compact(table.snapshot(), "major", 7))


def test_a_snapshot_from_before_the_compaction_does_not_see_the_base(acid_table: Callable) -> None:
    """t1 reader's snapshot; t2 compaction commits; t3 the Cleaner, wrongly, removes what the reader needs."""
    table = acid_table("id int")
    table.insert("select 1")
    table.insert("select 2")
    old = table.snapshot()
    table.compact("major")
    assert read_snapshot(table.spark, old).count() == 2
    remove_others(table, "base_0000002_v0000101")
    assert table.rows() == [(1,), (2,)]
    with pytest.raises(SnapshotTooOldError):
        read_snapshot(table.spark, table.snapshot(write_ids="db.t:1:9223372036854775807::"))


FIXTURES = Path(__file__).parents[3] / "fixtures"
AGAIN = pytest.mark.repeats("states of tables of a Hive, compacted")
HIVE_WRITTEN = [
    ("unpart_dml", "4_merge", "minor"),
    pytest.param("unpart_dml", "4_merge", "major", marks=AGAIN),
    ("minor_major", "5_more", "major"),
    ("bucketed_dml", "2_dml", "minor"),
    ("aborted", "3_committed", "major"),
    pytest.param("multistmt", "4_ctas", "minor", marks=AGAIN),
    pytest.param("load_data", "2_dml", "minor", marks=AGAIN),
    ("load_data", "2_dml", "major"),
    pytest.param("original", "3_dml", "minor", marks=AGAIN),
    ("original", "3_dml", "major"),
    ("evolve", "2_change", "major"),
    ("types", "2_update", "major"),
    ("iow", "5_post_truncate", "major"),
]


@pytest.mark.parametrize(("case", "stage", "kind"), HIVE_WRITTEN)
def test_tables_written_by_hive_keep_rows_and_row_ids(
    spark: SparkSession, tmp_path: Path, case: str, stage: str, kind: str, golden_snapshot: Callable
) -> None:
    root = tmp_path / "t"
    shutil.copytree(next(FIXTURES.glob(f"{case}/{stage}/tree*/t")), root)
    snapshot = golden_snapshot(FIXTURES / case / stage, "t", root)
    lists = json.loads((FIXTURES / case / stage / "snapshot.json").read_text())
    before = all_rows(spark, snapshot)
    target = golden_snapshot(FIXTURES / case / stage, "t", root, write_ids=lists["t"]["compactor_write_ids"])
    staging = f"file:{root}/_tmp_x"
    result = run_step(spark, JobSpec("x", Compact(target, kind, 900), staging=staging))  # type: ignore[arg-type]
    assert result.directories
    high = int(lists["t"]["compactor_write_ids"].split(":")[1])
    for old in [p for p in root.iterdir() if not p.name.startswith("_tmp")]:
        name = old.name.removeprefix("delete_")
        covered = kind == "major" or name.startswith("delta_")
        if covered and not (name.startswith("delta_") and int(name.split("_")[2]) > high):
            shutil.rmtree(old) if old.is_dir() else old.unlink()
    for directory in result.directories:
        (root / "_tmp_x" / "data" / directory.name).rename(root / directory.name)
    seen = golden_snapshot(FIXTURES / case / stage, "t", root, txns="900:9223372036854775807::")
    assert all_rows(spark, seen) == before
    assert before


def all_rows(spark: SparkSession, snapshot: Any) -> list[str]:
    rows = read_snapshot(spark.newSession(), snapshot, row_ids=True)
    # Spark's ORC writer sorts the keys of a map.
    return sorted(json.dumps(json.loads(line), sort_keys=True) for (line,) in json_lines(rows).collect())


def sorted_events(root: Path) -> list[str]:
    return sorted(repr(event) for file in root.rglob("bucket_*") for event in events_in(file))


def remove_others(table: Any, *names: str) -> None:
    """What a Cleaner does."""
    for directory in table.root.iterdir():
        if directory.name not in names:
            shutil.rmtree(directory)


def test_minor_of_a_part_takes_only_what_was_written_after_it(acid_table: Callable) -> None:
    """The partial compactions of hive.compactor.max.num.delta: from above one write id on."""
    table = acid_table("id int")
    for number in range(4):
        table.insert(f"select {number} as id")
    table.delete("id = 1")
    before = table.rows()
    deletes, rows = sorted(table.compact("minor", above=2).directories, key=lambda d: d.name)
    assert (rows.name, sum(file.rows for file in rows.files)) == ("delta_0000003_0000005_v0000101", 2)
    assert (deletes.name, sum(file.rows for file in deletes.files)) == ("delete_delta_0000003_0000005_v0000101", 1)
    remove_others(table, "delta_0000001_0000001_0000", "delta_0000002_0000002_0000", rows.name, deletes.name)
    assert table.rows() == before
