"""Files outside the warehouse: every value fits its column, or the job says which one does not."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest

from airflow_hive_acid.errors import BadRecordError, InvalidArgumentsError, UnsupportedStatementError
from airflow_hive_acid.format.jobs import Column, Source, View

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = pytest.mark.spark

HEADER = "id,day,amount,note\n"
COLUMNS = (Column("id", "int"), Column("day", "date"), Column("amount", "decimal(6,2)"), Column("note", "varchar(5)"))


def csv(path: Path, text: str, columns: tuple[Column, ...] = COLUMNS, **options: str) -> Source:
    path.write_text(text)
    return Source("s", "csv", {"path": str(path), "header": "true", **options}, columns)


def table(acid_table: Callable) -> Any:
    return acid_table("id int, day date, amount decimal(6,2), note varchar(5)")


def test_a_csv_is_loaded_in_the_declared_types(acid_table: Callable, tmp_path: Path) -> None:
    text = HEADER + '1,2024-02-29,12.5,"a,b"\n2,,NA,\n'
    loaded = table(acid_table)
    loaded.insert("select * from s", sources=[csv(tmp_path / "s.csv", text, nullValue="NA")])
    assert loaded.rows() == [(1, datetime.date(2024, 2, 29), Decimal("12.50"), "a,b"), (2, None, None, None)]


def test_a_declared_char_is_equal_to_one_of_a_table_and_to_its_text_without_blanks(
    acid_table: Callable, tmp_path: Path
) -> None:
    """A MERGE by such a column took every row of the file for a new one."""
    columns = (Column("id", "int"), Column("c", "char(5)"))
    loaded = acid_table("id int, c char(5)")
    loaded.insert("select 1, 'ab'")
    source = csv(tmp_path / "s.csv", "id,c\n2,ab\n3,x\n", columns)
    loaded.insert("select id + 10, c from s where c = 'x'", sources=[source])
    loaded.insert("select s.id, t.c from s join t on t.c = s.c", views=[View("t", loaded.snapshot())], sources=[source])
    assert loaded.rows() == [(1, "ab   "), (13, "x    "), (2, "ab   "), (3, "x    ")]


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("x,2024-01-01,1,a", "row 3, column id: 'x' is no int"),
        ("3,2024-02-30,1,a", "row 3, column day: '2024-02-30' is no date"),
        ("3,2024-01-01,12345.6,a", "row 3, column amount: '12345.6' is no decimal(6,2)"),
        ("3,2024-01-01,1,abcdef", "row 3, column note: 'abcdef' is no varchar(5)"),
        ("3,2024-01-01", "row 3: the record does not have the 4 fields id, day, amount, note"),
        ("3,2024-01-01,1,a,b", "row 3: the record does not have the 4 fields id, day, amount, note"),
    ],
)
def test_a_bad_record_is_named_by_file_row_and_column(
    acid_table: Callable, tmp_path: Path, line: str, complaint: str
) -> None:
    """The statement uses only one column: the others must fit as well."""
    text = HEADER + f"1,2024-01-01,1,a\n2,2024-01-01,1,a\n{line}\n4,2024-01-01,1,a\n"
    source = csv(tmp_path / "some file.csv", text)
    loaded = acid_table("note string")
    with pytest.raises(BadRecordError) as caught:
        loaded.insert("select note from s where id = 1", sources=[source])
    assert complaint in str(caught.value)
    assert "some%20file.csv" in str(caught.value)


def test_the_first_bad_record_of_the_first_file_is_named(acid_table: Callable, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    good = "".join(f"{i},2024-01-01,1,a\n" for i in range(5000))
    (folder / "1.csv").write_text(HEADER + good)
    (folder / "2.csv").write_text(HEADER + good + "5001,2024-01-01,no,a\n" + good)
    (folder / "3.csv").write_text(HEADER + "worse\n")
    source = Source("s", "csv", {"path": str(folder), "header": "true"}, COLUMNS)
    with pytest.raises(BadRecordError, match=r"in/2\.csv, row 5001, column amount: 'no' is no decimal\(6,2\)"):
        table(acid_table).insert("select * from s", sources=[source])


def test_formats_of_dates_and_times_can_be_given(acid_table: Callable, tmp_path: Path) -> None:
    columns = (Column("d", "date"), Column("t", "timestamp"))
    options = {"dateFormat": "dd/MM/yyyy", "timestampFormat": "dd/MM/yyyy HH:mm"}
    source = csv(tmp_path / "s.csv", "d,t\n29/02/2024,01/03/2024 07:30\n", columns, **options)
    loaded = acid_table("d date, t timestamp")
    loaded.insert("select * from s", sources=[source])
    assert loaded.rows() == [(datetime.date(2024, 2, 29), datetime.datetime(2024, 3, 1, 7, 30))]
    bad = csv(tmp_path / "s.csv", "d,t\n2024-02-29,01/03/2024 07:30\n", columns, **options)
    with pytest.raises(BadRecordError, match=r"row 1, column d: '2024-02-29' is no date"):
        loaded.insert("select * from s", sources=[bad])


def test_json_and_files_with_types_of_their_own(acid_table: Callable, tmp_path: Path) -> None:
    loaded = acid_table("id int, tags array<string>")
    columns = (Column("id", "int"), Column("tags", "array<string>"))
    (tmp_path / "s.json").write_text('{"id": 1, "tags": ["x"]}\n{"tags": null, "id": 2}\n')
    json = Source("s", "json", {"path": str(tmp_path / "s.json")}, columns)
    loaded.insert("select * from s", sources=[json])
    assert loaded.rows() == [(1, ["x"]), (2, None)]
    loaded.spark.sql("select 7000000000 as id, array('y') as tags").write.parquet(str(tmp_path / "p"))
    parquet = Source("s", "parquet", {"path": str(tmp_path / "p")}, columns)
    with pytest.raises(BadRecordError, match="row 1, column id: '7000000000' is no int"):
        loaded.insert("select * from s", sources=[parquet])


def test_a_source_without_columns_is_what_spark_makes_of_it(acid_table: Callable, tmp_path: Path) -> None:
    source = csv(tmp_path / "s.csv", "a,b\n1,x\n", (), inferSchema="true")
    loaded = acid_table("a int, b string")
    loaded.insert("select a + 1, b from s", sources=[source])
    assert loaded.rows() == [(2, "x")]


def test_sources_that_cannot_be_opened(acid_table: Callable, tmp_path: Path) -> None:
    missing = Source("s", "csv", {"path": str(tmp_path / "none.csv")}, COLUMNS)
    with pytest.raises(InvalidArgumentsError, match=r"PATH_NOT_FOUND.*none\.csv"):
        table(acid_table).insert("select * from s", sources=[missing])
    (tmp_path / "x.orc").write_text("this is no orc file")
    damaged = Source("s", "orc", {"path": str(tmp_path / "x.orc")}, ())
    with pytest.raises((BadRecordError, InvalidArgumentsError), match=r"x\.orc|infer schema"):
        table(acid_table).insert("select * from s", sources=[damaged])


def test_views_of_a_step_do_not_outlive_it(acid_table: Callable, tmp_path: Path) -> None:
    loaded = table(acid_table)
    loaded.insert("select * from s", sources=[csv(tmp_path / "s.csv", HEADER)])
    with pytest.raises(UnsupportedStatementError, match="`s` as a relation"):
        loaded.insert("select * from s")
