"""Tables of other formats become ours, with a real Spark: rows, names, retries, and files that stay where they are."""

from __future__ import annotations

import shutil
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyarrow import dataset, orc, parquet

from airflow_hive_acid.engine.statements.foreign_tables import TableImport, adopting
from airflow_hive_acid.engine.transactions.claims import Once
from airflow_hive_acid.errors import AlreadyExistsError, ImportDiffersError, InvalidArgumentsError
from airflow_hive_acid.mirrors.imports import verify_import

if TYPE_CHECKING:
    from pathlib import Path

    from airflow_hive_acid.engine import Engine
    from airflow_hive_acid.metastore import MetastoreClient

pytestmark = [pytest.mark.crossing("tables of other formats x conversion x retries"), pytest.mark.spark]

ONCE = Once(("dag", "run", "task", "-1"), "1")


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """Ten rows as Parquet in directories of days, and as one file of ORC."""
    rows = pa.table({"id": range(10), "Name": [f"n{i}" for i in range(10)], "day": [i % 3 for i in range(10)]})
    parts = dataset.partitioning(pa.schema([("day", pa.int64())]), flavor="hive")
    dataset.write_dataset(rows, tmp_path / "parquet", format="parquet", partitioning=parts)
    (tmp_path / "orc").mkdir()
    orc.write_table(rows.rename_columns(["id", "name", "day"]), tmp_path / "orc" / "part-7.orc")
    for day in range(3):
        (tmp_path / "days" / f"day={day}").mkdir(parents=True)
        some = rows.filter(pa.array([d == day for d in rows["day"].to_pylist()])).drop_columns("day")
        orc.write_table(some.rename_columns(["id", "name"]), tmp_path / "days" / f"day={day}" / "part-1.orc")
    return tmp_path


def rows_of(engine: Engine, table: str) -> list[list[Any]]:
    """All rows by id."""
    return engine.query(f"SELECT id, name, day FROM {table} ORDER BY id").rows  # noqa: S608 - names of this file


EXPECTED = [[i, f"n{i}", i % 3] for i in range(10)]


def test_parquet_becomes_an_acid_table_once(real_engine: Engine, client: MetastoreClient, files: Path) -> None:
    wanted = TableImport.of(f"parquet:{files}/parquet", "t", partition_by=["day"], properties={"owner of": "it's me"})
    made = real_engine.import_table(wanted, once=ONCE)
    assert (made.rows, made.version, str(made)) == (10, None, f"default.t holds 10 rows of parquet:{files}/parquet")
    assert rows_of(real_engine, "t") == EXPECTED
    found = verify_import(client, real_engine, made)
    assert (found.source_rows, found.target_rows, found.partitions) == (10, 10, 3)
    table = client.catalog.get_table("default.t")
    assert [c.name for c in table.partition_columns] == ["day"]
    assert table.properties["hive.acid.imported.from"] == f"parquet:{files}/parquet"
    assert table.properties["owner of"] == "it's me"
    real_engine.run("DELETE FROM t WHERE id = 3")
    # A retry finds its work done; somebody else's import does not take the table for its own.
    assert real_engine.import_table(wanted, once=ONCE).to_document() == made.to_document()
    assert len(rows_of(real_engine, "t")) == 9
    with pytest.raises(AlreadyExistsError, match=r"exists already \(imported from parquet"):
        real_engine.import_table(wanted)
    assert real_engine.import_table(replace(wanted, replace=True)).rows == 10
    assert rows_of(real_engine, "t") == EXPECTED


def test_columns_get_names_that_a_table_can_have(real_engine: Engine, client: MetastoreClient, tmp_path: Path) -> None:
    (tmp_path / "p").mkdir()
    parquet.write_table(pa.table({"id": [1], "Größe in m": [2.5], "ID2": [3]}), tmp_path / "p" / "a.parquet")
    with pytest.raises(InvalidArgumentsError, match=r"column 'Größe in m'.*columns="):
        real_engine.import_table(TableImport.of(f"parquet:{tmp_path}/p", "t"))
    for columns, said in (({"no": "x"}, "has no column no"), ({"Größe in m": "ID"}, "would both be id")):
        with pytest.raises(InvalidArgumentsError, match=said):
            real_engine.import_table(TableImport.of(f"parquet:{tmp_path}/p", "t", columns=columns))
    made = real_engine.import_table(TableImport.of(f"parquet:{tmp_path}/p", "t", columns={"Größe in m": "size"}))
    assert real_engine.query("SELECT id, size, id2 FROM t").rows == [[1, 2.5, 3]]
    assert verify_import(client, real_engine, made).is_equal


def test_a_difference_is_named_by_its_partition(real_engine: Engine, client: MetastoreClient, files: Path) -> None:
    made = real_engine.import_table(TableImport.of(f"parquet:{files}/parquet", "t", partition_by=["day"]))
    (file,) = (files / "parquet" / "day=1").iterdir()
    shutil.copy(file, files / "parquet" / "day=1" / "more.parquet")
    with pytest.raises(ImportDiffersError, match=r"day=1 \(6 rows and 3\)\. The table stays"):
        verify_import(client, real_engine, made)
    assert rows_of(real_engine, "t") == EXPECTED


def test_orc_files_stay_where_they_are(real_engine: Engine, client: MetastoreClient, files: Path) -> None:
    for source, keys in (("orc", []), ("days", ["day"])):
        wanted = TableImport.of(f"orc:{files}/{source}", f"o_{source}", partition_by=keys, reuse_files=True)
        once = Once(("dag", source), "1")
        made = real_engine.import_table(wanted, once=once)
        assert made.rows == 10
        with pytest.raises(InvalidArgumentsError, match="no two sides"):
            verify_import(client, real_engine, made)
        assert rows_of(real_engine, f"o_{source}") == EXPECTED
        assert client.catalog.get_table(f"default.o_{source}").location == f"file:{files}/{source}"
        real_engine.run(f"UPDATE o_{source} SET name = 'changed' WHERE id = 4")  # noqa: S608 - as above
        # A retry after all of it, and after others have written: nothing is looked at again.
        assert real_engine.import_table(wanted, once=once).rows == 10
        assert rows_of(real_engine, f"o_{source}")[4] == [4, "changed", 1]
    assert not list(files.rglob("part-*.orc"))  # they have names that Hive takes for original files
    assert len(list((files / "orc").glob("000000_*"))) == 1
    with pytest.raises(AlreadyExistsError):
        real_engine.import_table(TableImport.of(f"orc:{files}/days", "o_orc", reuse_files=True))


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("parquet:{}/none", "no such directory"),
        ("delta:{}/parquet", "holds no _delta_log"),
        ("parquet:{}/log", "Import delta:"),
        ("orc:{}/acid", "Hive ACID"),
    ],
)
@pytest.mark.parametrize("reuse", [False, True])
def test_a_source_that_is_another_one_is_refused(
    real_engine: Engine, client: MetastoreClient, files: Path, source: str, said: str, reuse: bool
) -> None:
    (files / "log" / "_delta_log").mkdir(parents=True)
    (files / "acid" / "delta_0000001_0000001_0000").mkdir(parents=True)
    if reuse and not source.startswith("orc"):
        with pytest.raises(InvalidArgumentsError, match="reuse_files"):
            TableImport.of(source.format(files), "t", reuse_files=True)
        return
    with pytest.raises(InvalidArgumentsError, match=said):
        real_engine.import_table(TableImport.of(source.format(files), "t", reuse_files=reuse))
    assert client.catalog.find_tables(["default.t"]) == {}


def test_an_import_that_died_between_its_statements_goes_on(
    real_engine: Engine, client: MetastoreClient, files: Path
) -> None:
    wanted = TableImport.of(f"orc:{files}/days", "o", partition_by=["day"], reuse_files=True)
    script = adopting(real_engine._context, wanted, None).split("; ")
    assert len(script) == 3
    for done in (1, 2):
        real_engine.run("; ".join(script[:done]))
        assert not client.catalog.get_table("default.o").is_transactional
    assert real_engine.import_table(wanted).rows == 10
    assert client.catalog.get_table("default.o").is_transactional
    assert rows_of(real_engine, "o") == EXPECTED


def test_a_partition_column_that_is_not_there_is_named(real_engine: Engine, files: Path) -> None:
    for source, reuse in (("parquet", False), ("orc", True)):
        wanted = TableImport.of(f"{source}:{files}/{source}", "t", partition_by="month", reuse_files=reuse)
        with pytest.raises(InvalidArgumentsError, match="no column month"):
            real_engine.import_table(wanted)
