"""UPDATE and DELETE by Spark jobs: events on disk, rows read back, against a model in plain Python."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest

from airflow_hive_acid.errors import (
    BadRecordError,
    CorruptTableError,
    InvalidArgumentsError,
)
from airflow_hive_acid.format.buckets import decode_bucket
from airflow_hive_acid.format.jobs import Assignment, Column, Update
from airflow_hive_acid.spark.accelerator import SESSION_KEY
from tests.orc_rows import events_in

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.spark


def events(table: Any, pattern: str) -> list[Any]:
    """All events in the files below directories that match, in file order."""
    return [event for file in sorted(table.root.glob(f"{pattern}/bucket_*")) for event in events_in(file)]


@pytest.fixture
def every_row_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A few rows keep the tasks of their query, as many do."""
    monkeypatch.setattr("airflow_hive_acid.spark.write.insert.FEW_ROWS", 0)


def test_an_update_is_a_delete_event_and_an_insert_event(acid_table: Callable) -> None:
    table = acid_table("id int, name string")
    table.insert("select * from values (1, 'a'), (2, 'b'), (3, 'c')")
    result = table.update("id >= 2", name="concat(t.name, id)")
    assert (result.updated, result.inserted, result.deleted) == (2, 0, 0)
    assert table.rows() == [(1, "a"), (2, "b2"), (3, "c3")]
    assert table.directories() == [
        "delete_delta_0000002_0000002_0000",
        "delta_0000001_0000001_0000",
        "delta_0000002_0000002_0001",
    ]
    assert events(table, "delete_delta*") == [
        (2, 1, 536870912, 1, 2, None),
        (2, 1, 536870912, 2, 2, None),
    ]
    inserted = events(table, "delta_0000002*")
    assert [(r[0], r[1], r[2], r[4]) for r in inserted] == [(0, 2, 536870913, 2)] * 2
    assert [r[5] for r in inserted] == [(2, "b2"), (3, "c3")]


@pytest.mark.usefixtures("every_row_counts")
def test_delete_events_lie_in_the_bucket_file_of_their_row_in_order(acid_table: Callable) -> None:
    """Hive looks for a row's delete event only in the file of the row's own bucket number, and expects them sorted."""
    table = acid_table("id bigint")
    table.insert("select /*+ REPARTITION(5) */ id from range(0, 2000)")
    table.insert("select /*+ REPARTITION(3) */ id + 2000 as id from range(0, 2000)")
    result = table.delete("id % 10 = 3")
    assert result.deleted == 400
    (directory,) = result.directories
    assert [f.name for f in directory.files] == [f"bucket_0000{i}" for i in range(5)]
    for file in (table.root / directory.name).glob("bucket_*"):
        keys = [event[1:4] for event in events_in(file)]
        assert keys == sorted(keys)
        assert {decode_bucket(bucket).bucket for _, bucket, _ in keys} == {int(file.name[-5:])}
    assert table.frame().count() == 3600


def test_a_statement_that_matches_nothing_writes_nothing(acid_table: Callable) -> None:
    table = acid_table("id int")
    assert table.delete(None).directories == ()
    table.insert("select 1")
    assert table.delete("id = 2").directories == ()
    assert table.update("id = 2", id="3").directories == ()
    assert table.rows() == [(1,)]


def test_a_transaction_sees_what_it_wrote_itself(acid_table: Callable) -> None:
    """Four statements in one txn, each on top of the one before; statement ids grow."""
    table = acid_table("id int, v string")
    table.insert("select 1, 'old'")
    own = table.next_write_id()
    table.insert("select 2, 'new'", own, 0)
    table.update("true", own, (1, 2), v="concat(v, '!')")
    table.update("id = 2", own, (3, 4), v="concat(v, '?')")
    table.delete("id = 1", own, 5)
    assert table.rows(own) == [(2, "new!?")]
    table.aborted.add(own)
    assert table.rows() == [(1, "old")]


def test_rows_of_equal_row_id_in_other_partitions_are_left_alone(acid_table: Callable) -> None:
    """One task writes row 0 of bucket 0 into every partition; a delete names the row only within its own."""
    table = acid_table("id int", partitioned_by="p string")
    table.insert("select id, concat('p', id) from values (1), (2), (3) as v(id)")
    table.update("id = 3", id="30")
    result = table.delete("p = 'p2'")
    assert [(d.partition, d.values, d.name) for d in result.directories] == [
        ("p=p2", ("p2",), "delete_delta_0000003_0000003_0000")
    ]
    assert table.rows() == [(1, "p1"), (30, "p3")]


def test_many_partitions_are_read_and_changed_like_few(acid_table: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond a number of partitions values are looked up by file name instead of being constants of branches."""
    monkeypatch.setattr("airflow_hive_acid.spark.read.scan.MAX_BRANCHES", 2)
    table = acid_table("id int", partitioned_by="p string, n int")
    table.insert("select id, concat('a b%/', id), id from range(8)")
    table.insert("select id + 100, concat('a b%/', id), id from range(8)")
    table.delete("id % 2 = 1")
    table.update("n >= 4 and id < 100", id="-id")
    expected = [
        (-i if i >= 4 and not extra else i + extra, f"a b%/{i}", i) for i in range(0, 8, 2) for extra in (0, 100)
    ]
    assert table.rows() == sorted(expected, key=repr)
    assert table.frame().where("n = 7").count() == 0
    assert table.frame().where("p = 'a b%/6'").count() == 2


@pytest.mark.usefixtures("every_row_counts")
def test_sparse_bucket_numbers_are_kept(acid_table: Callable) -> None:
    table = acid_table("id int")
    table.insert("select 1")
    moved = table.root / "delta_0000001_0000001_0000"
    (moved / "bucket_00000").unlink()
    other = acid_table("id bigint")
    other.insert("select /*+ REPARTITION(7) */ id from range(0, 200)")
    (other.root / "delta_0000001_0000001_0000" / "bucket_00001").unlink()
    (other.root / "delta_0000001_0000001_0000" / "bucket_00004").unlink()
    before = other.rows()
    result = other.update("id % 2 = 0", id="id")
    assert [f.name for f in result.directories[0].files] == [f"bucket_0000{i}" for i in (0, 2, 3, 5, 6)]
    assert other.rows() == before


def test_wrong_assignments_are_refused(acid_table: Callable) -> None:
    table = acid_table("id int", partitioned_by="p string")
    table.insert("select 1, 'a'")
    with pytest.raises(InvalidArgumentsError, match="there is no column x"):
        table.update(None, x="1")
    with pytest.raises(BadRecordError, match=r"column id of db\.t: the value 'z' is no int"):
        table.update(None, id="lower('Z')")
    with pytest.raises(InvalidArgumentsError, match="Spark cannot run the statement"):
        table.update("nowhere = 1", id="2")
    # As a Hive that declared it NOT NULL.
    table.columns = (Column("id", "int", required=True),)
    table.insert("select 2, 'a'")
    table.update("id = 2", id="3")
    for change in (lambda: table.insert("select nullif(1, 1), 'a'"), lambda: table.update(None, id="nullif(id, 3)")):
        with pytest.raises(BadRecordError, match=r"NOT NULL constraint violated! column id of db\.t takes no NULL"):
            change()
    assert table.rows() == [(1, "a"), (3, "a")]


def test_conditions_may_use_subqueries_and_row_ids(acid_table: Callable) -> None:
    table = acid_table("id int")
    table.insert("select id from range(10)")
    table.delete("id in (select max(c) from values (3), (4) as v(c)) or row__id.rowid = 0")
    assert table.rows() == [(i,) for i in (1, 2, 3, 5, 6, 7, 8, 9)]


def test_a_delete_delta_without_files_is_damage_and_not_no_deletes(acid_table: Callable) -> None:
    table = acid_table("id int")
    table.insert("select id from range(3)")
    table.delete("id = 1")
    (file,) = table.root.glob("delete_delta*/bucket_00000")
    file.unlink()
    with pytest.raises(CorruptTableError, match="delete_delta_0000002_0000002_0000 holds no data file"):
        table.rows()


def test_an_unreadable_delete_file_is_damage(acid_table: Callable) -> None:
    table = acid_table("id int")
    table.insert("select id from range(3)")
    table.delete("id = 1")
    (file,) = table.root.glob("delete_delta*/bucket_00000")
    file.write_bytes(file.read_bytes()[:100])
    (file.parent / f".{file.name}.crc").unlink(missing_ok=True)
    with pytest.raises(CorruptTableError, match=r"delete_delta_0000002_0000002_0000/bucket_00000 is missing or"):
        table.update("id = 2", id="5")


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.repeats("another random program"))])
def test_random_programs_agree_with_a_model(acid_table: Callable, seed: int) -> None:
    """Inserts, updates, deletes and compactions of a partitioned table; a dict is the expected table."""
    chance = random.Random(seed)
    table = acid_table("id int, v int", partitioned_by="p int")
    model: dict[int, tuple[int, int]] = {}
    fresh = 0
    for _ in range(8):
        kind = chance.choice(["insert", "insert", "update", "delete", "minor", "major"])
        low = chance.randrange(0, 40)
        high = low + chance.randrange(1, 30)
        if kind == "insert" or not model:
            ids = list(range(fresh, fresh + chance.randrange(1, 20)))
            fresh = ids[-1] + 1
            rows = f"range({ids[0]}, {fresh})"
            table.insert(f"select id, id * 7, id % 3 from {rows}")  # noqa: S608
            model |= {i: (i * 7, i % 3) for i in ids}
        elif kind == "update":
            table.update(f"id between {low} and {high} and v % 2 = 0", v="v + p + 1")
            model |= {i: (v + p + 1, p) for i, (v, p) in model.items() if low <= i <= high and v % 2 == 0}
        elif kind == "delete":
            table.delete(f"id between {low} and {high} and p <> 1")
            model = {i: (v, p) for i, (v, p) in model.items() if not (low <= i <= high and p != 1)}
        else:
            partition = chance.choice(sorted(table.partitions))
            before = table.ids()
            table.compact(kind, partition)
            assert table.ids() == before
        assert table.rows() == sorted(((i, v, p) for i, (v, p) in model.items()), key=repr), kind


@pytest.mark.parametrize("way", ["auto", "off"])
def test_changes_of_many_partitions_are_written_by_no_more_tasks_than_a_directory_has_buckets(
    acid_table: Callable, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if the format had 8 buckets: 3 buckets of 6 partitions make 18 groups of rows."""
    table = acid_table("id int", partitioned_by="p int")
    with monkeypatch.context() as patch:
        patch.setattr("airflow_hive_acid.spark.write.insert.FEW_ROWS", 0)
        table.insert("select /*+ REPARTITION(3) */ cast(id as int), cast(id % 6 as int) from range(0, 120)")
    monkeypatch.setattr("airflow_hive_acid.spark.write.change.MAX_BUCKET", 7)
    own = table.next_write_id()
    step = Update(table.snapshot(own), "t", (Assignment("id", "id + 1000"),), None, own, 0, 1)
    table.publish(table.run(step, **{"spark.sql.shuffle.partitions": "18", SESSION_KEY: way}))
    assert {int(name[-5:]) for names in table.files().values() for name in names} <= set(range(8))
    assert sorted(row[0] for row in table.rows()) == list(range(1000, 1120))
