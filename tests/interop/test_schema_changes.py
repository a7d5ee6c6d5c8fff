"""Tables whose columns were changed after rows were written: Hive and we read the same, whatever kind they are."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from airflow_hive_acid.engine import Engine

    from .hive import Hive

pytestmark = [pytest.mark.interop, pytest.mark.spark]

INSERT_ONLY = "TBLPROPERTIES ('transactional'='true', 'transactional_properties'='insert_only')"
KINDS = {
    "acid": "STORED AS ORC TBLPROPERTIES ('transactional'='true')",
    "insert-only orc": f"STORED AS ORC {INSERT_ONLY}",
    "insert-only parquet": f"STORED AS PARQUET {INSERT_ONLY}",
    "insert-only text": f"STORED AS TEXTFILE {INSERT_ONLY}",
    "plain orc": "STORED AS ORC TBLPROPERTIES ('transactional'='false')",
    "plain parquet": "STORED AS PARQUET TBLPROPERTIES ('transactional'='false')",
}


def as_hive(value: Any) -> Any:
    """One of our values as the oracle prints Hive's."""
    return format(value.normalize(), "f") if isinstance(value, Decimal) else value


def read_by_both(hive: Hive, engine: Engine, query: str) -> list[list[Any]]:
    """The rows of a query, after both sides have found the same ones."""
    theirs = sorted((list(row) for row in hive.run(query)), key=str)
    ours = sorted(([as_hive(v) for v in row] for row in engine.query(query).rows), key=str)
    assert ours == theirs
    return ours


@pytest.mark.parametrize("kind", KINDS)
def test_a_renamed_column_and_a_new_one_of_its_old_name(
    hive: Hive, engine: Engine, hive_database: str, kind: str
) -> None:
    table = f"{hive_database}.t"
    hive.run(f"CREATE TABLE {table} (a INT, b STRING) {KINDS[kind]}")
    hive.run(f"INSERT INTO {table} VALUES (1, 'x')")
    hive.run(f"ALTER TABLE {table} CHANGE COLUMN b c STRING")
    engine.run(f"INSERT INTO {table} VALUES (2, 'y')")
    # Files of a table without transactions may have been there before it: there names count that the table knows.
    name = "d" if kind == "plain orc" else "b"
    hive.run(f"ALTER TABLE {table} ADD COLUMNS ({name} STRING)")
    hive.run(f"INSERT INTO {table} VALUES (3, 'z', 'new')")
    before = read_by_both(hive, engine, f"SELECT a, c, {name} FROM {table}")
    assert before == [[1, None, "x"] if "parquet" in kind else [1, "x", None], [2, "y", None], [3, "z", "new"]]
    found = read_by_both(hive, engine, f"SELECT a FROM {table} WHERE c = 'x'")
    assert found == [[row[0]] for row in before if row[1] == "x"]
    if "plain" not in kind:
        engine.run(f"ALTER TABLE {table} COMPACT 'major' AND WAIT")
        assert read_by_both(hive, engine, f"SELECT a, c, {name} FROM {table}") == before


def test_rows_from_before_a_table_was_transactional(hive: Hive, engine: Engine, hive_database: str) -> None:
    table = f"{hive_database}.t"
    hive.run(f"CREATE TABLE {table} (a INT, b STRING) {KINDS['plain orc']}")
    hive.run(f"INSERT INTO {table} VALUES (1, 'x'), (2, 'y'), (3, 'z')")
    hive.run(f"ALTER TABLE {table} SET TBLPROPERTIES ('EXTERNAL'='FALSE', 'transactional'='true')")
    hive.run(f"ALTER TABLE {table} CHANGE COLUMN b c STRING")
    assert read_by_both(hive, engine, f"SELECT a, c FROM {table}") == [[1, "x"], [2, "y"], [3, "z"]]
    engine.run(f"DELETE FROM {table} WHERE c = 'y'")
    left = read_by_both(hive, engine, f"SELECT a, c FROM {table}")
    assert left == [[1, "x"], [3, "z"]]
    engine.run(f"ALTER TABLE {table} COMPACT 'major' AND WAIT")
    assert read_by_both(hive, engine, f"SELECT a, c FROM {table}") == left


WIDER = {
    "t_s": ("TINYINT", "7", "STRING"), "i": ("INT", "7", "BIGINT"), "i_f": ("INT", "7", "FLOAT"),
    "i_d": ("INT", "7", "DOUBLE"), "i_p": ("INT", "7", "DECIMAL(14,2)"), "i_s": ("INT", "7", "STRING"),
    "b_d": ("BIGINT", "7", "DOUBLE"), "b_f": ("BIGINT", "7", "FLOAT"), "b_p": ("BIGINT", "7", "DECIMAL(25,2)"),
    "f": ("FLOAT", "1.5", "DOUBLE"), "f_s": ("FLOAT", "1.5", "STRING"), "d_s": ("DOUBLE", "1.5", "STRING"),
    "p": ("DECIMAL(5,2)", "1.25", "DECIMAL(9,3)"), "p_s": ("DECIMAL(5,2)", "1.20", "STRING"),
    "day_s": ("DATE", "DATE '2024-02-29'", "STRING"),
    "ts_s": ("TIMESTAMP", "TIMESTAMP '2024-02-29 12:34:56'", "STRING"), "v": ("VARCHAR(3)", "'abc'", "VARCHAR(5)"),
    "v_s": ("VARCHAR(3)", "'abc'", "STRING"), "c": ("CHAR(3)", "'ab'", "CHAR(5)"),
    "c_v": ("CHAR(3)", "'ab'", "VARCHAR(5)"), "c_s": ("CHAR(3)", "'ab'", "STRING"),
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_wider_types(hive: Hive, engine: Engine, hive_database: str, kind: str) -> None:
    """But for a DATE in Parquet, which Hive does not read as a text."""
    table = f"{hive_database}.t"
    chosen = {name: given for name, given in WIDER.items() if name != "day_s" or "parquet" not in kind}
    hive.run(f"CREATE TABLE {table} ({', '.join(f'{n} {k}' for n, (k, *_) in chosen.items())}) {KINDS[kind]}")
    hive.run(f"INSERT INTO {table} SELECT {', '.join(value for _, value, _ in chosen.values())}")
    for name, (_, _, wider) in chosen.items():
        hive.run(f"ALTER TABLE {table} CHANGE COLUMN {name} {name} {wider}")
    [row] = read_by_both(hive, engine, f"SELECT * FROM {table}")
    if "plain" not in kind:
        engine.run(f"INSERT INTO {table} SELECT * FROM {table}; ALTER TABLE {table} COMPACT 'major' AND WAIT")
        assert read_by_both(hive, engine, f"SELECT * FROM {table}") == [row, row]


def test_a_partition_with_columns_of_its_own(hive: Hive, engine: Engine, hive_database: str) -> None:
    """Hive's ADD COLUMNS without CASCADE leaves partitions with theirs."""
    table = f"{hive_database}.p"
    hive.run(f"CREATE TABLE {table} (a INT) PARTITIONED BY (k INT) {KINDS['acid']}")
    hive.run(f"INSERT INTO {table} PARTITION (k=1) VALUES (1)")
    hive.run(f"ALTER TABLE {table} ADD COLUMNS (b STRING)")
    hive.run(f"INSERT INTO {table} PARTITION (k=1) VALUES (2, 'two')")
    engine.run(f"INSERT INTO {table} PARTITION (k=1) VALUES (3, 'three')")
    before = read_by_both(hive, engine, f"SELECT a, b FROM {table}")
    assert before == [[1, None], [2, "two"], [3, "three"]]
    engine.run(f"ALTER TABLE {table} PARTITION (k=1) COMPACT 'major' AND WAIT")
    assert read_by_both(hive, engine, f"SELECT a, b FROM {table}") == before
