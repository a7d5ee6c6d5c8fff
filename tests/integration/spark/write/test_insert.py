"""INSERT and INSERT OVERWRITE by Spark jobs: what lies on disk afterwards, and what is read back."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import TYPE_CHECKING

import pytest

from airflow_hive_acid.errors import BadRecordError, InvalidArgumentsError, UnsupportedStatementError
from airflow_hive_acid.format.buckets import decode_bucket
from airflow_hive_acid.format.jobs import Delete, Insert, View
from tests.orc_rows import events_in

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def test_inserted_rows_are_read_back_with_dense_row_ids(acid_table: Callable) -> None:
    table = acid_table("id int, name string")
    result = table.insert("select * from values (1, 'a'), (2, null) as v(id, name)")
    assert result.inserted == 2
    assert table.rows() == [(1, "a"), (2, None)]
    assert sorted(table.ids()) == [(1, 536870912, 0, "[]"), (1, 536870912, 1, "[]")]
    assert table.directories() == ["delta_0000001_0000001_0000"]
    assert (table.root / "delta_0000001_0000001_0000" / "_orc_acid_version").read_bytes() == b"2"


def test_each_task_writes_the_bucket_of_its_own_number(acid_table: Callable) -> None:
    table = acid_table("id bigint")
    result = table.insert("select /*+ REPARTITION(3) */ id from range(0, 20000)", statement=5)
    (directory,) = result.directories
    assert [f.name for f in directory.files] == ["bucket_00000", "bucket_00001", "bucket_00002"]
    assert sum(f.rows for f in directory.files) == result.inserted == 20000
    assert table.files() == {"delta_0000001_0000001_0005": ["bucket_00000", "bucket_00001", "bucket_00002"]}
    seen = {(decode_bucket(bucket).bucket, decode_bucket(bucket).statement_id) for _, bucket, _, _ in table.ids()}
    assert seen == {(0, 5), (1, 5), (2, 5)}


def test_the_tasks_of_a_query_with_a_shuffle_are_the_buckets(acid_table: Callable) -> None:
    """Adaptive execution may merge the partitions of the shuffle; what counts is which task writes."""
    table = acid_table("k bigint, n bigint")
    result = table.insert("select id % 15000, count(*) from range(0, 45000, 1, 3) group by 1")
    assert result.inserted == 15000
    assert table.frame().where("n = 3").count() == 15000
    assert len(table.ids()) == 15000


def test_few_rows_become_one_file(acid_table: Callable) -> None:
    table = acid_table("id bigint")
    table.insert("select id from range(0, 1000, 1, 4) union all select 1000 union all select max(id) from range(9)")
    assert table.files() == {"delta_0000001_0000001_0000": ["bucket_00000"]}


def test_constants_are_numbered_by_the_tasks_that_write_them(
    acid_table: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark's optimizer would evaluate a query of constants, bucket and row numbers included, on the driver."""
    monkeypatch.setattr("airflow_hive_acid.spark.write.insert.FEW_ROWS", 0)
    table = acid_table("id int")
    result = table.insert("select * from values (1), (2), (3), (4) as v(id)")
    ((name, files),) = table.files().items()
    assert (name, len(files), result.inserted) == ("delta_0000001_0000001_0000", 2, 4)
    assert len(table.ids()) == 4


def test_zero_rows_publish_nothing_for_an_insert(acid_table: Callable) -> None:
    table = acid_table("id int")
    result = table.insert("select 1 where false")
    assert (result.directories, result.inserted, table.directories(), table.rows()) == ((), 0, [], [])


def test_zero_rows_publish_an_empty_base_for_an_overwrite(acid_table: Callable) -> None:
    table = acid_table("id int")
    table.insert("select 1")
    result = table.insert("select 1 where false", overwrite=True)
    assert [(d.name, d.files) for d in result.directories] == [("base_0000002", ())]
    assert table.rows() == []


def test_overwrite_hides_what_was_before_and_may_read_it(acid_table: Callable) -> None:
    table = acid_table("id int")
    table.insert("select explode(array(1, 2, 3))")
    table.insert("select id * 10 from v where id > 1", overwrite=True, views=[View("v", table.snapshot())])
    assert table.rows() == [(20,), (30,)]
    assert table.directories() == ["base_0000002", "delta_0000001_0000001_0000"]


def test_columns_that_a_query_does_not_fill_are_null(acid_table: Callable) -> None:
    table = acid_table("a int, b string, c decimal(5,2)")
    table.insert("select 1.5, 7", columns=("C", "a"))
    assert table.rows() == [(7, None, Decimal("1.50"))]


def test_every_value_is_stored_in_the_type_of_its_column(acid_table: Callable) -> None:
    table = acid_table(
        "a tinyint, b bigint, c double, d decimal(10,3), e string, f date, g timestamp, h boolean, i char(4), "
        "j varchar(3), k array<int>, l struct<x:bigint,y:string>, m binary, n map<string,double>"
    )
    table.insert(
        "select '7', 7, 7, '7.1239', 7, '2024-02-29', '2024-02-29 12:00:00.5', 'true', 'ab', 'xyz  ', "
        "array(1, null), named_struct('x', 1, 'y', null), cast('q' as binary), map('k', 1)"
    )
    assert table.rows() == [
        (
            7,
            7,
            7.0,
            Decimal("7.124"),
            "7",
            datetime.date(2024, 2, 29),
            datetime.datetime(2024, 2, 29, 12, 0, 0, 500000),
            True,
            "ab  ",
            "xyz",
            [1, None],
            (1, None),
            bytearray(b"q"),
            {"k": 1.0},
        )
    ]


@pytest.mark.parametrize(
    ("column", "value", "complaint"),
    [
        ("tinyint", "300", "column a of db.t: the value '300' is no tinyint"),
        ("int", "'12x'", "column a of db.t: the value '12x' is no int"),
        ("decimal(4,2)", "123.456", "column a of db.t: the value '123.456' is no decimal"),
        ("date", "'2024-02-30'", "column a of db.t: the value '2024-02-30' is no date"),
        # What follows Spark could store, and a Hive stores something else.
        ("date", "'2024-05'", "column a of db.t: the value '2024-05' is no date (such as '2024-05-31')"),
        ("boolean", "'F'", "column a of db.t: the value 'F' is no boolean (such as 'true', 'false')"),
        ("timestamp", "'03:04'", "column a of db.t: the value '03:04' is no timestamp (such as"),
        ("timestamp", "'2024-05-31 12:30:00+02:00'", "with a day, without a time zone, no finer than microseconds"),
        ("timestamp", "'2024-05-31 12:30:00.1234567'", "no finer than microseconds"),
        ("varchar(3)", "'abcd'", "column a of db.t: the value 'abcd' is longer than 3 characters"),
        ("char(3)", "'abcd'", "column a of db.t: the value 'abcd' is longer than 3 characters"),
    ],
)
def test_a_value_that_does_not_fit_names_its_column(
    acid_table: Callable, column: str, value: str, complaint: str
) -> None:
    table = acid_table(f"a {column}")
    with pytest.raises(BadRecordError) as caught:
        table.insert("select ? from range(1)".replace("?", value))
    assert complaint in str(caught.value)
    assert table.directories() == [d for d in table.directories() if d.startswith("_tmp_")]


def test_texts_and_booleans_become_what_hive_makes_of_them(acid_table: Callable) -> None:
    table = acid_table("i int, a boolean, b date, c timestamp, d string, e varchar(5)")
    table.insert(
        "values (1, 'No', '2024-1-2', '2024-01-02T03:04:05', true, false), "
        "(2, 'yes', ' 2024-01-02 ', '2024-1-2 3:4:5.1000000', false, null), "
        "(3, '0', '2024-01-02 10:00:00', '2024-01-02 ', null, true), (4, null, null, null, null, null)"
    )
    day, at = datetime.date(2024, 1, 2), datetime.datetime(2024, 1, 2, 3, 4, 5)
    assert sorted(table.rows()) == [
        (1, False, day, at, "TRUE", "FALSE"),
        (2, True, day, at.replace(microsecond=100000), "FALSE", None),
        (3, False, day, datetime.datetime(2024, 1, 2), None, "TRUE"),
        (4, None, None, None, None, None),
    ]


def test_types_that_cannot_be_converted_at_all_are_refused(acid_table: Callable) -> None:
    with pytest.raises(InvalidArgumentsError, match=r"column a of db\.t is int; a value of type array<int>"):
        acid_table("a int").insert("select array(1)")
    with pytest.raises(InvalidArgumentsError, match=r"column a of db\.t is date; a value of type int"):
        acid_table("a date").insert("select 1")


def test_a_query_with_the_wrong_number_of_columns_is_refused(acid_table: Callable) -> None:
    with pytest.raises(InvalidArgumentsError, match=r"gives 1 columns, but db\.t takes 2: a, b"):
        acid_table("a int, b int").insert("select 1")


def test_timestamps_without_zone_are_not_written_as_numbers(acid_table: Callable, spark: SparkSession) -> None:
    """Spark writes TIMESTAMP_NTZ as an ORC bigint; Hive would show the year 50,000,000."""
    table = acid_table("at timestamp")
    table.insert("select timestamp_ntz'2021-03-28 02:30:00.123456'")
    assert table.rows() == [(datetime.datetime(2021, 3, 28, 2, 30, 0, 123456),)]
    (file,) = table.root.glob("delta*/bucket_00000")
    assert spark.read.orc(str(file)).select("row.at").dtypes == [("at", "timestamp")]


def test_dynamic_partitions_with_special_characters(acid_table: Callable) -> None:
    table = acid_table("id int", partitioned_by="ds string, n int")
    values = ["a b/c=d:e%f", "../x", "%2F", "ünï 日本", "plain", "'q'\"{}[]^?*#\\"]
    rows = [(i, v) for i, v in enumerate(values)]
    literals = [(i, v.replace("\\", "\\\\").replace("'", "\\'")) for i, v in rows]
    constants = ", ".join(f"({i}, '{literal}', {i % 2})" for i, literal in literals)
    nulls = "(10, '', 0), (11, cast(null as string), null)"
    table.insert(f"select * from values {constants}, {nulls} as v(id, ds, n)")  # noqa: S608
    expected = [(i, v, i % 2) for i, v in rows] + [(10, None, 0), (11, None, None)]
    assert table.rows() == sorted(expected, key=repr)
    assert sorted(table.partitions.items()) == sorted(
        {
            "ds=a b%2Fc%3Dd%3Ae%25f/n=0": ("a b/c=d:e%f", "0"),
            "ds=..%2Fx/n=1": ("../x", "1"),
            "ds=%252F/n=0": ("%2F", "0"),
            "ds=ünï 日本/n=1": ("ünï 日本", "1"),
            "ds=plain/n=0": ("plain", "0"),
            "ds=%27q%27%22%7B}%5B%5D%5E%3F%2A%23%5C/n=1": ("'q'\"{}[]^?*#\\", "1"),
            "ds=__HIVE_DEFAULT_PARTITION__/n=0": ("__HIVE_DEFAULT_PARTITION__", "0"),
            "ds=__HIVE_DEFAULT_PARTITION__/n=__HIVE_DEFAULT_PARTITION__": ("__HIVE_DEFAULT_PARTITION__",) * 2,
        }.items()
    )
    assert not list(table.root.parent.glob("x*"))


def test_files_of_dynamic_partitions_are_in_the_order_of_their_row_ids(acid_table: Callable) -> None:
    """If Spark sorted by partition after the rows were numbered, equal partitions could come out of order."""
    table = acid_table("id bigint", partitioned_by="p bigint")
    result = table.insert("select id, id % 7 from range(0, 20000, 1, 3)")
    assert len(table.partitions) == 7
    assert {len(d.files) for d in result.directories} == {3}
    rows = 0
    for file in table.root.rglob("bucket_*"):
        numbers = [event[3] for event in events_in(file)]
        assert numbers == sorted(numbers)
        assert len(set(numbers)) == len(numbers)
        rows += len(numbers)
    assert rows == table.frame().count() == 20000


def test_static_and_dynamic_partitions_in_one_statement(acid_table: Callable) -> None:
    table = acid_table("id int", partitioned_by="year int, month int")
    table.insert("select 1, 5 union all select 2, 6", static_partition=(("year", "02024"),))
    assert table.rows() == [(1, 2024, 5), (2, 2024, 6)]
    assert sorted(table.partitions) == ["year=2024/month=5", "year=2024/month=6"]
    table.insert("select 3 where false", static_partition=(("year", "2024"), ("month", "5")), overwrite=True)
    assert table.rows() == [(2, 2024, 6)]


def test_an_overwrite_replaces_only_the_partitions_it_has_rows_for(acid_table: Callable) -> None:
    table = acid_table("id int", partitioned_by="p string")
    table.insert("select 1, 'a' union all select 2, 'b'")
    table.insert("select 3, 'a'", overwrite=True)
    assert table.rows() == [(2, "b"), (3, "a")]
    table.insert("select 3, 'a' where false", overwrite=True)
    assert table.rows() == [(2, "b"), (3, "a")]


def test_partition_columns_may_be_called_like_header_columns(acid_table: Callable) -> None:
    table = acid_table("row int, operation string, rowid int", partitioned_by="bucket string, originaltransaction int")
    table.insert("select 1, 'x', 2, 'b', 3")
    assert table.rows() == [(1, "x", 2, "b", 3)]
    table.update("bucket = 'b' and operation = 'x' and rowid = 2", operation="upper(operation)")
    assert table.rows() == [(1, "X", 2, "b", 3)]


def test_a_partition_value_must_be_given(acid_table: Callable) -> None:
    table = acid_table("id int", partitioned_by="p int")
    with pytest.raises(InvalidArgumentsError, match="has no partition column q"):
        table.insert("select 1", static_partition=(("q", "1"),))
    with pytest.raises(InvalidArgumentsError, match=r"partition column p of db\.t is int; 'x' is not"):
        table.insert("select 1", static_partition=(("p", "x"),))


def test_rows_of_tables_without_transactions_are_not_changed(acid_table: Callable) -> None:
    table = acid_table("id int")
    with pytest.raises(UnsupportedStatementError, match="a table without transactions"):
        table.run(Delete(table.snapshot(transactional=False), "t", None, 1, 0))


def test_files_of_a_table_without_transactions_carry_statement_and_txn(acid_table: Callable) -> None:
    table = acid_table("id int")
    result = table.run(Insert(table.snapshot(transactional=False), "select 1", 77, 3))
    assert [(d.name, [f.name for f in d.files]) for d in result.directories] == [("files", ["000000_3_copy_77"])]


def test_writer_options_come_from_table_properties(acid_table: Callable, spark: SparkSession) -> None:
    table = acid_table("id int", **{"orc.compress": "SNAPPY"})
    table.insert("select 1")
    (file,) = table.root.glob("delta*/bucket_00000")
    jvm = spark._jvm
    orc = jvm.org.apache.orc.OrcFile  # type: ignore[union-attr]
    path = jvm.org.apache.hadoop.fs.Path(str(file))  # type: ignore[union-attr]
    reader = orc.createReader(path, orc.readerOptions(spark._jsc.hadoopConfiguration()))  # type: ignore[attr-defined]
    assert reader.getCompressionKind().toString() == "SNAPPY"
    reader.close()


def test_rows_that_join_a_base_of_their_transaction_have_buckets_of_their_own(acid_table: Callable) -> None:
    table = acid_table("id int")
    table.insert("select 9")
    table.insert("select 1", overwrite=True)
    base = table.root / "base_0000002"
    result = table.run(Insert(table.snapshot(2), "select 2", 2, 1, overwrite=True, bucket_offset=1))
    assert [[f.name for f in d.files] for d in result.directories] == [["bucket_00001"]]
    staged = table.root / f"_tmp_{result.job_id}" / "data" / "base_0000002" / "bucket_00001"
    staged.rename(base / "bucket_00001")
    assert table.rows() == [(1,), (2,)]
    assert sorted(key[:3] for key in table.ids()) == [(2, 1 << 29, 0), (2, (1 << 29) + (1 << 16) + 1, 0)]
    table.delete("id = 2")
    assert table.rows() == [(1,)]
