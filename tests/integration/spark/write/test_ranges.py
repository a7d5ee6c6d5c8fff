"""Several tasks share a large bucket: what they write is what one task would have written."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import pytest

from airflow_hive_acid.errors import CardinalityViolationError, CorruptTableError, JobFailedError
from airflow_hive_acid.format.jobs import Assignment, Bucketing, Column, Compact, MergeClause
from airflow_hive_acid.spark.conf import RANGE_BYTES_KEY
from airflow_hive_acid.spark.write import ranges, rebalance
from tests.integration.spark.write.test_writers import COLUMNS, QUERY
from tests.orc_footers import footer

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.crossing("shared buckets x jobs"), pytest.mark.spark]


@pytest.fixture
def both(
    acid_table: Callable[..., Any],
    accelerator_jar: Path | None,
    pytestconfig: pytest.Config,
    monkeypatch: pytest.MonkeyPatch,
) -> Callable[..., tuple[Any, Any]]:
    """Two tables alike: buckets of one are divided into four ranges, those of the other are not."""
    if pytestconfig.getoption("--accelerator") == "off":
        pytest.skip("Spark's own source does not divide buckets")
    if accelerator_jar is None:
        pytest.fail("the accelerator is not built; it needs a JDK (Debian: apt-get install openjdk-17-jdk-headless)")
    monkeypatch.setattr(ranges, "_cores", lambda _: 4)

    def make(*arguments: str, **properties: str) -> tuple[Any, Any]:
        divided, whole = acid_table(*arguments, **properties), acid_table(*arguments, **properties)
        for table, size in ((divided, "1"), (whole, "0")):
            table.run = functools.partial(_run, table.run, size)
        return divided, whole

    return make


def _run(run: Callable[..., Any], size: str, step: Any, *arguments: Any, **conf: str) -> Any:
    """Only a compaction divides buckets; what it reads is the same in both tables."""
    return run(step, *arguments, **{RANGE_BYTES_KEY: size if isinstance(step, Compact) else "0", **conf})


def file_of(table: Any, pattern: str = "base*/bucket_00000") -> Path:
    (path,) = table.root.glob(pattern)
    return path


def events(spark: SparkSession, path: Path) -> list[str]:
    """The events of one file in their order."""
    frame = spark.read.orc(str(path)).coalesce(1)
    return [r[0] for r in frame.selectExpr("to_json(struct(*), map('ignoreNullFields', 'false'))").collect()]


def assert_alike(spark: SparkSession, divided: Path, whole: Path, stripes: int) -> None:
    """Both hold the same, and say so; the index has the last key of each stripe (R18)."""
    found = events(spark, divided)
    assert found == events(spark, whole)
    one, other = footer(spark, divided), footer(spark, whole)
    assert (len(one["stripes"]), len(other["stripes"])) == (stripes, 1)
    keys = one["metadata"].pop("hive.acid.key.index")
    other["metadata"].pop("hive.acid.key.index")
    rows = [r[1:4] for r in spark.read.orc(str(divided)).coalesce(1).collect()]
    ends = [sum(one["stripes"][: i + 1]) - 1 for i in range(stripes)]
    assert keys == "".join(f"{rows[i][0]},{rows[i][1]},{rows[i][2]};" for i in ends)
    for said in (one, other):
        said.pop("stripes")
    assert one == other


def test_values_of_every_type_are_those_of_one_task(both: Callable[..., Any], spark: SparkSession) -> None:
    tables = both(COLUMNS, **{"orc.compress": "SNAPPY", "orc.bloom.filter.columns": "id,v"})
    for table in tables:
        table.insert(QUERY)
        table.delete("id % 10 = 7")
        table.compact("major")
    assert_alike(spark, *map(file_of, tables), stripes=4)
    assert repr(tables[0].rows()) == repr(tables[1].rows())


def test_updates_and_deletes_of_many_transactions(both: Callable[..., Any], spark: SparkSession) -> None:
    """Minor and major: ranges begin in the middle of some files, and take others as they are."""
    tables = both("id bigint, v string")
    for table in tables:
        table.insert("select id, 'a' from range(0, 5000, 1, 1)")
        table.insert("select id, 'b' from range(5000, 5010, 1, 1)")
        table.update("id % 3 = 1", v="concat(v, '!')")
        table.insert("select id, 'c' from range(6000, 9000, 1, 1)")
        table.delete("id % 7 = 2")
        table.aborted = {6}
        table.insert("select id, 'never' from range(0, 100, 1, 1)")
        before = table.ids()
        table.compact("minor")
        assert table.ids() == before
    for kind in ("delta", "delete_delta"):
        name = f"{kind}_0000001_0000006_v0000101/bucket_00000"
        assert_alike(spark, *(t.root / name for t in tables), stripes=4)
    for table in tables:
        before = table.ids()
        table.compact("major")
        assert table.ids() == before
    assert_alike(spark, *map(file_of, tables), stripes=4)


def test_a_write_id_that_is_hidden_leaves_gaps(both: Callable[..., Any], spark: SparkSession) -> None:
    """Ranges are of rows, seen or not; what is left of one may be nothing."""
    tables = both("id bigint")
    for table in tables:
        table.insert("select id from range(0, 1000, 1, 1)")
        table.insert("select id from range(1000, 4000, 1, 1)")
        table.compact("minor")
        table.aborted = {2}
        table.compact("major")
        assert len(table.ids()) == 1000
    assert events(spark, file_of(tables[0])) == events(spark, file_of(tables[1]))
    assert len(footer(spark, file_of(tables[0]))["stripes"]) == 1


@pytest.mark.parametrize(("where", "stripes"), [("id < 3000", 2), ("id < 5990", 1), ("id between 2000 and 2100", 4)])
def test_ranges_without_rows_leave_nothing_behind(
    both: Callable[..., Any], spark: SparkSession, where: str, stripes: int
) -> None:
    tables = both("id bigint")
    for table in tables:
        table.insert("select id from range(0, 6000, 1, 1)")
        table.delete(where)
        table.compact("major")
    assert_alike(spark, *map(file_of, tables), stripes=stripes)


@pytest.mark.parametrize("kind", ["major", "rebalance"])
def test_a_bucket_that_loses_all_rows(both: Callable[..., Any], kind: str) -> None:
    for table in both("id bigint"):
        table.insert("select id from range(0, 2000, 1, 1)")
        table.delete("true")
        (directory,) = table.compact(kind).directories
        assert (directory.files, table.rows()) == ((), [])


@pytest.mark.parametrize("kind", ["major", "rebalance"])
@pytest.mark.parametrize("rows", [1, 2, 3])
def test_a_few_rows_are_divided_as_far_as_they_go(
    both: Callable[..., Any], spark: SparkSession, rows: int, kind: str
) -> None:
    tables = both("id bigint")
    for table in tables:
        table.insert(f"select /*+ COALESCE(1) */ explode(sequence(1, {rows}))")
        table.compact(kind)
    assert_alike(spark, *map(file_of, tables), stripes=rows)


def test_each_bucket_of_a_bucketed_table_stays_one_file(both: Callable[..., Any], spark: SparkSession) -> None:
    tables = both("id int, v string")
    for table in tables:
        table.bucketing = Bucketing(("id",), 4, "2")
        table.insert("select cast(id as int), 'a' from range(0, 4000)")
        table.update("id % 5 = 0", v="'b'")
        table.compact("major")
        assert [len(names) for name, names in table.files().items() if name.startswith("base")] == [4]
    for bucket in range(4):
        one, other = (events(spark, file_of(t, f"base*/bucket_{bucket:05d}")) for t in tables)
        assert one == other


def test_a_table_whose_columns_have_changed(both: Callable[..., Any], spark: SparkSession) -> None:
    """Files from before lack a column, have another type for one and another name for one."""
    tables = both("id int, v string")
    for table in tables:
        table.insert("select cast(id as int), concat('v', id) from range(0, 1000, 1, 1)")
        table.columns = (Column("id", "bigint"), Column("v", "string"), Column("n", "int"))
        table.insert("select id, 'later', 1 from range(1000, 1200, 1, 1)")
        table.delete("id % 9 = 0")
        table.compact("major")
    assert_alike(spark, *map(file_of, tables), stripes=4)
    assert tables[0].rows() == tables[1].rows()


def test_files_without_a_row_index_are_not_divided(both: Callable[..., Any], spark: SparkSession) -> None:
    """Nothing says where a row of them is; a Hive 3.1 has compacted into such files."""
    table, _ = both("id bigint")
    table.insert("select id from range(0, 1000, 1, 1)")
    path = file_of(table, "delta*/bucket_00000")
    rewrite(spark, path, "1", **{"orc.row.index.stride": "0"})
    table.compact("major")
    assert len(footer(spark, file_of(table))["stripes"]) == 1
    assert len(table.rows()) == 1000


def test_a_file_in_disorder_is_refused_and_nothing_is_left(both: Callable[..., Any], spark: SparkSession) -> None:
    table, _ = both("id bigint")
    table.insert("select id from range(0, 9000, 1, 1)")
    rewrite(spark, file_of(table, "delta*/bucket_00000"), "pmod(rowId + 4096, 9000)")
    step = Compact(table.snapshot(), "major", 101)
    with pytest.raises(JobFailedError, match="comes after row"):
        table.run(step)
    assert not list(table.root.rglob("_tmp_*/data/*"))


def test_a_damaged_file_is_named(both: Callable[..., Any]) -> None:
    table, _ = both("id bigint")
    table.insert("select id from range(0, 9000, 1, 1)")
    path = file_of(table, "delta*/bucket_00000")
    path.write_bytes(path.read_bytes()[:-100])
    path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
    with pytest.raises(CorruptTableError, match="delta_0000001_0000001_0000/bucket_00000"):
        table.run(Compact(table.snapshot(), "major", 101))


@pytest.mark.parametrize("order_by", [None, "v DESC, id"])
def test_tasks_share_the_buckets_of_a_rebalance(
    both: Callable[..., Any], spark: SparkSession, order_by: str | None
) -> None:
    tables = both(COLUMNS, **{"orc.compress": "SNAPPY", "orc.bloom.filter.columns": "id,v"})
    for table in tables:
        table.insert(QUERY)
        table.delete("id % 10 = 7")
        table.compact("rebalance", order_by=order_by)
    assert_alike(spark, *map(file_of, tables), stripes=4)
    assert repr(tables[0].rows()) == repr(tables[1].rows())


def test_a_shared_rebalance_numbers_the_rows_of_many_transactions_through(
    both: Callable[..., Any], spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Shares begin in some of many blocks of row numbers, which deletes have made uneven."""
    monkeypatch.setattr(rebalance, "_BLOCK_ROWS", 64)
    tables = both("id bigint, v string")
    for table in tables:
        table.insert("select id, 'a' from range(0, 3001, 1, 3)")
        table.update("id % 3 = 1", v="concat(v, '!')")
        table.insert("select id, 'b' from range(5000, 5010, 1, 1)")
        table.delete("id % 7 = 2 or id between 1000 and 1100")
        before = [(key[0], row) for key, row in sorted(table.ids().items())]
        table.compact("rebalance", buckets=2)
        after = sorted((key[2], key[0], row) for key, row in table.ids().items())
        assert after == [(number, *row) for number, row in enumerate(before)]
    for bucket in range(2):
        assert_alike(spark, *(file_of(t, f"base*/bucket_{bucket:05d}") for t in tables), stripes=2)


def test_a_share_of_another_size_ends_a_rebalance(both: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """The task before would give its last row the number of the first row of the next one."""
    begins = rebalance._begins
    monkeypatch.setattr(rebalance, "_begins", lambda *given: [(w, b, n + 1) for w, b, n in begins(*given)])
    table, _ = both("id bigint")
    table.insert("select id from range(0, 1000, 1, 1)")
    with pytest.raises(JobFailedError, match=r"have \[251, 250, 250, 249\] rows instead of \[250, 250, 250, 250\]"):
        table.run(Compact(table.snapshot(), "rebalance", 101))
    assert not list(table.root.rglob("_tmp_*/data/*"))


@pytest.fixture
def changed(both: Callable[..., tuple[Any, Any]]) -> Callable[..., tuple[Any, Any]]:
    """The same, with as many tasks after an exchange as there are shares."""

    def make(*arguments: str) -> tuple[Any, Any]:
        tables = both(*arguments)
        for table, size in zip(tables, ("1", "0"), strict=True):
            conf = {"spark.sql.shuffle.partitions": "8", RANGE_BYTES_KEY: size}
            table.run = functools.partial(table.run, **conf)
        return tables

    return make


def assert_changed_alike(spark: SparkSession, divided: Any, whole: Any, most: int) -> None:
    """The same rows; delete events in one file for each bucket, new versions in a file of each task."""
    deletes = sorted(str(p.relative_to(divided.root)) for p in divided.root.rglob("delete_delta*/bucket_*"))
    assert deletes == sorted(str(p.relative_to(whole.root)) for p in whole.root.rglob("delete_delta*/bucket_*"))
    for name in deletes:
        one, other = divided.root / name, whole.root / name
        assert events(spark, one) == events(spark, other)
        assert footer(spark, one) == footer(spark, other)
    assert divided.rows() == whole.rows()
    files = max((len(f) for d, f in divided.files().items() if "delete_delta" not in d), default=0)
    assert files == most


def test_changes_of_a_bucket_are_written_by_several_tasks(
    changed: Callable[..., tuple[Any, Any]], spark: SparkSession
) -> None:
    """Also where the rows lie together: blocks of row numbers are dealt out."""
    tables = changed("id bigint, v string")
    for table in tables:
        table.insert("select id, 'a' from range(0, 40000, 1, 1)")
        table.update("id % 3 = 1 and id > 20000", v="concat(v, '!')")
        table.delete("id % 5 = 2 and v = 'a'")
    assert_changed_alike(spark, *tables, most=4)
    # New versions lie in a bucket of each task.
    for table in tables:
        table.delete("id % 2 = 0 and v = 'a!'")
    assert [len(list(t.root.glob("delete_delta_0000004*/bucket_*"))) for t in tables] == [4, 1]
    for table in tables:
        before = table.ids()
        table.compact("major")
        assert table.ids() == before
    assert tables[0].rows() == tables[1].rows()


def test_changes_of_partitions_stay_in_their_partitions(
    changed: Callable[..., tuple[Any, Any]], spark: SparkSession
) -> None:
    tables = changed("id bigint, v string", "p string")
    for table in tables:
        table.insert("select /*+ COALESCE(1) */ id, 'a', if(id % 10 = 0, 'small', 'large') from range(0, 40000)")
        table.update("id % 4 = 0", v="concat(v, '!')")
        table.delete("id % 7 = 0 and v = 'a'")
    assert_changed_alike(spark, *tables, most=3)


def test_a_merge_sees_all_matches_of_a_row_in_one_task(
    changed: Callable[..., tuple[Any, Any]], spark: SparkSession
) -> None:
    tables = changed("id bigint, v string")
    clauses = (
        MergeClause("delete", True, "s.k % 2 = 0", ()),
        MergeClause("update", True, None, (Assignment("v", "'merged'"),)),
        MergeClause("insert", False, None, (Assignment("id", "s.k"), Assignment("v", "'new'"))),
    )
    for table in tables:
        table.insert("select id, 'a' from range(0, 40000, 1, 1)")
        table.merge("select id * 5 as k from range(0, 10000)", "t.id = s.k", *clauses)
    assert sum(row[1] == "new" for row in tables[0].rows()) == 2000
    assert tables[0].rows() == tables[1].rows()
    with pytest.raises(CardinalityViolationError, match="2 rows of the source match"):
        tables[0].merge("select id % 20000 + 1 as k from range(0, 20001)", "t.id = s.k", *clauses)


def rewrite(spark: SparkSession, path: Path, order: str, **options: str) -> None:
    """Write a file anew by Spark's own source, in another order."""
    scratch = path.parent.parent / "_rewritten"
    rows = spark.read.orc(str(path)).coalesce(1)
    rows.selectExpr("*", f"{order} as o").sortWithinPartitions("o", "rowId").drop("o").write.options(**options).orc(
        str(scratch)
    )
    (written,) = scratch.glob("*.orc")
    written.rename(path)
    path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
