"""Columns that are renamed, widened and added, crossed with kinds of tables, writers and compactions.

The rule that all of these hold: a compaction changes no row, and a rename or a wider type loses no value.
"""

# ruff: noqa: S608 - statements put together from words of the tests

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from airflow_hive_acid.maintenance.decisions import Kind
from tests.integration.sql.answers import rows

if TYPE_CHECKING:
    from airflow_hive_acid.engine import Engine
    from airflow_hive_acid.metastore import MetastoreClient

pytestmark = [pytest.mark.crossing("changed columns x kinds of tables x writers"), pytest.mark.spark]

ACID = "STORED AS ORC"
INSERT_ONLY = "STORED AS {} TBLPROPERTIES ('transactional_properties'='insert_only')"
PLAIN = "STORED AS {} TBLPROPERTIES ('transactional'='false')"


def compacted(engine: Engine, table: str, kind: str = "major") -> None:
    (answer,) = engine.run(f"ALTER TABLE {table} COMPACT '{kind}'")[-1].rows.to_dicts()
    assert answer["accepted"], answer
    outcomes = engine.run_compactions("worker")
    assert [outcome.kind for outcome in outcomes] == [Kind.COMPACTED], outcomes


def test_rows_from_before_a_table_was_transactional_keep_what_is_in_a_renamed_column(real_engine: Engine) -> None:
    engine = real_engine
    engine.run(
        f"CREATE TABLE t (a INT, b STRING) {PLAIN.format('ORC')}; INSERT INTO t VALUES (1, 'x'), (2, 'y'), (3, 'z');"
        "ALTER TABLE t SET TBLPROPERTIES ('transactional'='true', 'EXTERNAL'='FALSE');"
        "ALTER TABLE t CHANGE COLUMN b c STRING; INSERT INTO t VALUES (4, 'new')"
    )
    before = [[1, "x"], [2, "y"], [3, "z"], [4, "new"]]
    assert rows(engine, "SELECT a, c FROM t ORDER BY a") == before
    assert rows(engine, "SELECT a FROM t WHERE c = 'y'") == [[2]]
    engine.run("DELETE FROM t WHERE c = 'y'; UPDATE t SET a = a + 10 WHERE c = 'z'")
    left = [[1, "x"], [4, "new"], [13, "z"]]
    assert rows(engine, "SELECT a, c FROM t ORDER BY a") == left
    compacted(engine, "t")
    assert rows(engine, "SELECT a, c FROM t ORDER BY a") == left


@pytest.mark.parametrize("options", [INSERT_ONLY.format("ORC"), INSERT_ONLY.format("TEXTFILE"), PLAIN.format("ORC")])
def test_columns_of_orc_and_text_are_found_by_their_place_after_a_rename(real_engine: Engine, options: str) -> None:
    engine = real_engine
    engine.run(
        f"CREATE TABLE t (a INT, b STRING) {options}; INSERT INTO t VALUES (1, 'x');"
        "ALTER TABLE t CHANGE COLUMN b c STRING; INSERT INTO t VALUES (2, 'y'); ALTER TABLE t ADD COLUMNS (d STRING)"
    )
    expected = [[1, "x", None], [2, "y", None]]
    assert rows(engine, "SELECT a, c, d FROM t ORDER BY a") == expected
    assert rows(engine, "SELECT a FROM t WHERE c = 'x'") == [[1]]
    if "insert_only" not in options:
        engine.run("INSERT OVERWRITE t SELECT * FROM t")
        assert rows(engine, "SELECT a, c, d FROM t ORDER BY a") == expected
        return
    engine.run("ALTER TABLE t ADD COLUMNS (b STRING); INSERT INTO t VALUES (3, 'z', 'd', 'b')")
    more = [[*row, None] for row in expected] + [[3, "z", "d", "b"]]
    assert rows(engine, "SELECT a, c, d, b FROM t ORDER BY a") == more
    compacted(engine, "t")
    assert rows(engine, "SELECT a, c, d, b FROM t ORDER BY a") == more


WIDER = {
    "t": ("TINYINT", "7", "SMALLINT", 7), "t_s": ("TINYINT", "7", "STRING", "7"), "t_b": ("TINYINT", "7", "BIGINT", 7),
    "s": ("SMALLINT", "7", "INT", 7), "i": ("INT", "7", "BIGINT", 7), "i_f": ("INT", "7", "FLOAT", 7.0),
    "i_d": ("INT", "7", "DOUBLE", 7.0), "i_p": ("INT", "7", "DECIMAL(14,2)", "7.00"),
    "i_s": ("INT", "7", "STRING", "7"),
    "b_d": ("BIGINT", "7", "DOUBLE", 7.0), "b_f": ("BIGINT", "7", "FLOAT", 7.0),
    "b_p": ("BIGINT", "7", "DECIMAL(25,2)", "7.00"), "b_s": ("BIGINT", "7", "STRING", "7"),
    "f": ("FLOAT", "1.5", "DOUBLE", 1.5), "f_s": ("FLOAT", "1.5", "STRING", "1.5"),
    "d_s": ("DOUBLE", "1.5", "STRING", "1.5"), "p": ("DECIMAL(5,2)", "1.25", "DECIMAL(9,3)", "1.250"),
    "p_w": ("DECIMAL(5,2)", "1.25", "DECIMAL(22,3)", "1.250"), "p_s": ("DECIMAL(5,2)", "1.25", "STRING", "1.25"),
    "day_s": ("DATE", "DATE '2024-02-29'", "STRING", "2024-02-29"),
    "ts_s": ("TIMESTAMP", "TIMESTAMP '2024-02-29 12:34:56'", "STRING", "2024-02-29 12:34:56"),
    "v": ("VARCHAR(3)", "'abc'", "VARCHAR(5)", "abc"), "v_s": ("VARCHAR(3)", "'abc'", "STRING", "abc"),
    "c": ("CHAR(3)", "'ab'", "CHAR(5)", "ab   "), "c_v": ("CHAR(3)", "'ab'", "VARCHAR(5)", "ab"),
    "c_s": ("CHAR(3)", "'ab'", "STRING", "ab"),
}  # fmt: skip


@pytest.mark.parametrize(
    "options",
    [ACID, *[INSERT_ONLY.format(kind) for kind in ("ORC", "PARQUET", "TEXTFILE")], PLAIN.format("ORC")],
)
def test_every_wider_type_reads_what_was_stored_before(real_engine: Engine, options: str) -> None:
    engine = real_engine
    columns = ", ".join(f"{name} {kind}" for name, (kind, *_) in WIDER.items())
    values = ", ".join(value for _, value, *_ in WIDER.values())
    changes = ";".join(f"ALTER TABLE t CHANGE COLUMN {name} {name} {kind}" for name, (_, _, kind, _) in WIDER.items())
    engine.run(f"CREATE TABLE t ({columns}) {options}; INSERT INTO t VALUES ({values}); {changes}")
    (found,) = rows(engine, "SELECT * FROM t")
    assert dict(zip(WIDER, map(str, found), strict=True)) == {n: str(value) for n, (*_, value) in WIDER.items()}
    if "insert_only" in options:
        engine.run("INSERT INTO t SELECT * FROM t")
        compacted(engine, "t")
        assert rows(engine, "SELECT * FROM t") == [found, found]


@pytest.mark.parametrize(
    "options", [ACID, INSERT_ONLY.format("ORC"), INSERT_ONLY.format("PARQUET"), PLAIN.format("ORC")]
)
def test_conditions_on_columns_that_were_widened(real_engine: Engine, options: str) -> None:
    """Scans judge a condition by what files say of their columns, whose types are those of then."""
    engine = real_engine
    engine.run(
        f"CREATE TABLE t (i INT, n INT, f FLOAT, d DATE, o BOOLEAN, p DECIMAL(5,2)) {options};"
        "INSERT INTO t VALUES (7, 7, 0.1, DATE '2024-02-29', true, 1.25);"
        "ALTER TABLE t CHANGE COLUMN i i DOUBLE; ALTER TABLE t CHANGE COLUMN n n STRING;"
        "ALTER TABLE t CHANGE COLUMN f f DOUBLE; ALTER TABLE t CHANGE COLUMN d d STRING;"
        "ALTER TABLE t CHANGE COLUMN o o STRING; ALTER TABLE t CHANGE COLUMN p p DECIMAL(9,3)"
    )
    for condition in (
        "i < 7.5", "i = 7", "n = '7'", "n > '6'", "d = '2024-02-29'", "d LIKE '2024%'", "lower(o) = 'true'", "p = 1.25",
        "p < 1.26", "f > 0.09", "o IS NOT NULL", "n IN ('6', '7')",
    ):  # fmt: skip
        assert rows(engine, f"SELECT count(i) FROM t WHERE {condition}") == [[1]], condition


def test_columns_of_files_that_call_them_otherwise_are_found_by_their_place(
    real_engine: Engine, client: MetastoreClient, tmp_path: Path
) -> None:
    """A table may be made around files of somebody else; where they have its names, these count."""
    engine = real_engine
    engine.run(f"CREATE TABLE t (a INT, b STRING) {PLAIN.format('ORC')}; INSERT INTO t VALUES (1, 'x')")
    written = Path(client.catalog.get_table("default.t").location.removeprefix("file:"))
    for name, columns in (("other", "key INT, label STRING"), ("turned", "b STRING, a INT")):
        shutil.copytree(written, tmp_path / name)
        engine.run(f"CREATE EXTERNAL TABLE {name} ({columns}) STORED AS ORC LOCATION '{tmp_path / name}'")
    assert rows(engine, "SELECT key, label FROM other WHERE label = 'x'") == [[1, "x"]]
    assert rows(engine, "SELECT a, b FROM turned WHERE b = 'x'") == [[1, "x"]]


def test_a_file_that_came_into_a_plain_table_later_may_call_its_columns_otherwise(
    real_engine: Engine, client: MetastoreClient
) -> None:
    """A Hive's LOAD DATA moves files of somebody else in as they are; the first file does not speak for those."""
    engine = real_engine
    engine.run(f"CREATE TABLE t (a INT, b STRING) {PLAIN.format('ORC')}; INSERT INTO t VALUES (1, 'x')")
    engine.run(f"CREATE TABLE s (key INT, label STRING) {PLAIN.format('ORC')}; INSERT INTO s VALUES (2, 'y')")
    target, source = (Path(client.catalog.get_table(f"default.{n}").location.removeprefix("file:")) for n in "ts")
    (written,) = (file for file in source.iterdir() if not file.name.startswith((".", "_")))
    shutil.copy(written, target / "arrived")
    engine.run("INSERT INTO t VALUES (3, 'z')")  # so that it is the first one in no order of a listing
    assert rows(engine, "SELECT a, b FROM t ORDER BY a") == [[1, "x"], [2, "y"], [3, "z"]]
    assert rows(engine, "SELECT a FROM t WHERE b = 'y'") == [[2]]


def test_a_batch_fills_the_columns_that_its_records_name_whatever_order_the_table_has_by_then(
    real_engine: Engine,
) -> None:
    """No lock keeps the table between two batches: it may be another one of the same name."""
    engine = real_engine
    engine.run("CREATE TABLE t (a STRING, b STRING) STORED AS ORC")
    batch = engine.batch("default.t")
    batch.write([{"a": "A", "b": "B"}])
    engine.run("DROP TABLE t; CREATE TABLE t (b STRING, a STRING) STORED AS ORC")
    batch.commit()
    batch.write([{"a": "AA", "b": "BB"}])
    batch.commit()
    batch.close()
    assert rows(engine, "SELECT a, b FROM t ORDER BY a") == [["A", "B"], ["AA", "BB"]]
