"""MERGE by Spark jobs: all clauses in one statement, cardinality, new partitions."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from airflow_hive_acid.errors import CardinalityViolationError, InvalidArgumentsError, JobFailedError
from airflow_hive_acid.format.jobs import Assignment, MergeClause
from airflow_hive_acid.spark.write import merge

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.spark


def clause(action: str, matched: bool, condition: str | None = None, **values: str) -> MergeClause:
    assignments = tuple(Assignment(c, e) for c, e in values.items())
    return MergeClause(action, matched, condition, assignments)  # type: ignore[arg-type]


SOURCE = "select * from values (1, 'x', 5), (2, 'y', 6), (3, 'z', 7), (8, 'n', 8), (9, null, 9) as v(id, name, amt)"


def test_all_clauses_in_statement_order(acid_table: Callable) -> None:
    table = acid_table("id int, name string, amt bigint")
    table.insert("select * from values (1, 'a', 10), (2, 'b', 20), (3, 'c', 30), (4, 'd', 40)")
    result = table.merge(
        SOURCE,
        "t.id = s.id",
        clause("delete", True, "s.name = 'y'"),
        clause("update", True, "t.amt >= 30", name="upper(concat(t.name, s.name))"),
        clause("update", True, amt="t.amt + s.amt"),
        clause("insert", False, "s.name is not null", id="s.id", name="s.name", amt="s.amt * 100"),
        clause("insert", False, id="s.id"),
    )
    assert (result.inserted, result.updated, result.deleted) == (2, 2, 1)
    assert table.rows() == [(1, "a", 15), (3, "CZ", 30), (4, "d", 40), (8, "n", 800), (9, None, None)]
    assert table.directories() == [
        "delete_delta_0000002_0000002_0000",
        "delta_0000001_0000001_0000",
        "delta_0000002_0000002_0001",
    ]
    assert len(table.ids()) == 5


def test_updates_and_inserts_of_one_directory_have_different_buckets(
    acid_table: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = acid_table("id bigint, v string")
    monkeypatch.setattr("airflow_hive_acid.spark.write.insert.FEW_ROWS", 0)
    table.insert("select /*+ REPARTITION(3) */ id, 'old' from range(0, 2000)")
    result = table.merge(
        "select id * 2 as id from range(0, 2000)",
        "t.id = s.id",
        clause("update", True, v="'changed'"),
        clause("insert", False, id="s.id", v="'new'"),
    )
    assert (result.updated, result.inserted) == (1000, 1000)
    assert len(table.ids()) == 3000
    counts = dict(table.frame().groupBy("v").count().collect())
    assert counts == {"old": 1000, "changed": 1000, "new": 1000}
    names = [f.name for d in result.directories if d.name.startswith("delta") for f in d.files]
    assert len(names) == len(set(names))


@pytest.mark.rule("R18")
def test_two_source_rows_for_one_target_row_are_refused(acid_table: Callable) -> None:
    """R18: Hive counts matches of the ON condition, even if only one of them changes anything."""
    table = acid_table("id int, v int", partitioned_by="p int")
    table.insert("select 1, 1, 1 union all select 1, 1, 2")
    with pytest.raises(CardinalityViolationError, match=r"MERGE INTO db\.t: 2 rows of the source match .* p=2"):
        table.merge(
            "select * from values (1, 2, 'a'), (1, 2, 'b') as v(id, p, x)",
            "t.id = s.id and t.p = s.p",
            clause("update", True, "s.x = 'a'", v="2"),
        )
    result = table.merge("select 1 as id", "t.id = s.id", clause("update", True, v="v + 1"))
    assert result.updated == 2


def test_several_matches_are_fine_when_nothing_is_changed(acid_table: Callable) -> None:
    table = acid_table("id int")
    table.insert("select 1")
    result = table.merge(
        "select * from values (1), (1), (2), (2) as v(id)", "t.id = s.id", clause("insert", False, id="s.id")
    )
    assert (result.inserted, result.updated, result.deleted) == (2, 0, 0)
    assert table.rows() == [(1,), (2,), (2,)]


def test_inserts_go_to_new_and_old_partitions(acid_table: Callable) -> None:
    table = acid_table("id int, v string", partitioned_by="ds string")
    table.insert("select 1, 'a', 'd1' union all select 2, 'b', 'd2'")
    result = table.merge(
        "select * from values (1, 'd1', 'A'), (3, 'd1', 'C'), (4, 'd/3', 'D'), (5, null, 'E') as v(id, ds, v)",
        "t.id = s.id and t.ds = s.ds",
        clause("update", True, v="s.v"),
        clause("insert", False, id="s.id", v="s.v", ds="s.ds"),
    )
    assert (result.inserted, result.updated) == (3, 1)
    assert table.rows() == [(1, "A", "d1"), (2, "b", "d2"), (3, "C", "d1"), (4, "D", "d/3"), (5, "E", None)]
    assert sorted({d.partition for d in result.directories}) == [
        "ds=__HIVE_DEFAULT_PARTITION__",
        "ds=d%2F3",
        "ds=d1",
    ]


def test_only_partitions_whose_values_the_source_has_are_read(acid_table: Callable) -> None:
    table = acid_table("id int, v string", partitioned_by="ds string, n int")
    table.insert("select 1, 'a', 'd1', 1 union all select 2, 'b', 'd2', 1 union all select 3, 'c', null, 2")
    pairs = (("ds", "day"), ("n", "n"))
    for name in table.partitions.keys() - {"ds=d2/n=1"}:  # what is not read may be unreadable
        (file,) = (Path(table.location.removeprefix("file:")) / name).glob("delta_*/bucket_00000")
        file.write_bytes(b"no ORC")
    result = table.merge(
        "select * from values (2, 'd2', '1', 'B'), (9, 'd9', '1', 'I'), (3, null, '2', 'C') as v(id, day, n, v)",
        "t.id = s.id and t.ds = s.day and t.n = s.n",
        clause("update", True, v="s.v"),
        clause("insert", False, id="s.id", v="s.v", ds="s.day", n="s.n"),
        pairs=pairs,
    )
    assert (result.inserted, result.updated) == (2, 1)
    result = table.merge(
        "select 2 as id, 'd8' as day, 1 as n",
        "t.id = s.id and t.ds = s.day and t.n = s.n",
        clause("delete", True),
        pairs=pairs,
    )
    assert (result.deleted, result.directories) == (0, ())


def test_merging_into_an_empty_table_inserts_everything(acid_table: Callable) -> None:
    table = acid_table("id int, name string")
    result = table.merge(
        SOURCE,
        "t.id = s.id",
        clause("update", True, name="s.name"),
        clause("insert", False, id="s.id", name="s.name"),
    )
    assert (result.inserted, result.updated) == (5, 0)
    assert len(table.rows()) == 5


def test_deletes_alone(acid_table: Callable) -> None:
    table = acid_table("id int")
    table.insert("select id from range(6)")
    result = table.merge("select id from range(3, 9)", "t.id = s.id", clause("delete", True, "t.id <> 4"))
    assert (result.inserted, result.updated, result.deleted) == (0, 0, 2)
    assert table.rows() == [(0,), (1,), (2,), (4,)]


def test_unknown_columns_are_refused(acid_table: Callable) -> None:
    table = acid_table("id int")
    table.insert("select 1")
    with pytest.raises(InvalidArgumentsError, match="there is no column x"):
        table.merge("select 2 as id", "t.id = s.id", clause("insert", False, x="s.id"))
    with pytest.raises(InvalidArgumentsError, match="there is no column x"):
        table.merge("select 1 as id", "t.id = s.id", clause("update", True, x="s.id"))


@pytest.mark.parametrize("lost", [False, True])
def test_rows_of_the_source_that_were_made_again_end_the_statement(
    acid_table: Callable, monkeypatch: pytest.MonkeyPatch, lost: bool
) -> None:
    """An executor that is lost takes kept rows along, and their numbers are others then.

    t1  the rows of the source are numbered and kept, the numbers of those that match are gathered
    t2  the executor dies; its rows are made again, in another order
    t3  the rows whose numbers matched nothing are inserted: others than those that match nothing
    """
    monkeypatch.setattr(merge, "can_be_lost", lambda _: True)
    write = merge._Merge._write_inserts

    def after_a_loss(self: Any, *given: Any) -> Any:
        if lost:
            self._spark.catalog.clearCache()
        return write(self, *given)

    monkeypatch.setattr(merge._Merge, "_write_inserts", after_a_loss)
    table = acid_table("id int, v bigint")
    table.insert("select 1, 0L union all select 2, 0L")
    source = "select id % 4 as id, count(*) as n from range(0, 40) group by id % 4"
    clauses = clause("update", True, v="s.n"), clause("insert", False, id="cast(s.id as int)", v="s.n")
    if lost:
        with pytest.raises(JobFailedError, match="rows of the source was lost"):
            table.merge(source, "t.id = s.id", *clauses)
        return
    table.merge(source, "t.id = s.id", *clauses)
    assert table.rows() == [(0, 10), (1, 10), (2, 10), (3, 10)]
