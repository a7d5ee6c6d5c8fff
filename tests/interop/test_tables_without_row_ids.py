"""Insert-only and plain tables of both sides, and what our newer statements leave behind, read by Hive and by us."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest

from .hive import RowId

if TYPE_CHECKING:
    from airflow_hive_acid.engine import Engine

    from .hive import Hive

pytestmark = [pytest.mark.interop, pytest.mark.spark]

COLUMNS = "id int, name string, amount decimal(12,2), day date, flag boolean"
ROWS = "(1, 'é漢', 1.5, date'1500-03-01', true), (2, null, null, null, null)"


def as_hive(value: Any) -> Any:
    """One of our values as the oracle prints Hive's."""
    return format(value.normalize(), "f") if isinstance(value, Decimal) else value


def read_by_both(hive: Hive, engine: Engine, table: str) -> list[list[Any]]:
    """The rows of a table, after both sides have read the same ones."""
    theirs = sorted((list(row) for row in hive.run(f"SELECT * FROM {table}")), key=str)
    ours = sorted(([as_hive(v) for v in row] for row in engine.query(f"SELECT * FROM {table}").rows), key=str)
    assert ours == theirs
    return ours


@pytest.mark.parametrize("stored_as", ["ORC", "PARQUET", "TEXTFILE"])
def test_insert_only_tables_are_written_by_both_and_compacted_by_us(
    hive: Hive, engine: Engine, hive_database: str, stored_as: str
) -> None:
    table = f"{hive_database}.i"
    engine.run(
        f"CREATE TABLE {table} ({COLUMNS}) STORED AS {stored_as} TBLPROPERTIES ('transactional'='true', "
        "'transactional_properties'='insert_only')"
    )
    engine.run(f"INSERT INTO {table} VALUES {ROWS}")
    assert len(read_by_both(hive, engine, table)) == 2
    hive.run(f"INSERT INTO {table} SELECT 3, 'hive', 2.25, date'2024-02-29', false")
    assert len(read_by_both(hive, engine, table)) == 3
    engine.run(f"ALTER TABLE {table} COMPACT 'major' AND WAIT")
    assert len(read_by_both(hive, engine, table)) == 3
    engine.run(f"INSERT OVERWRITE {table} SELECT * FROM {table} WHERE id > 1")
    assert [row[0] for row in read_by_both(hive, engine, table)] == [2, 3]
    engine.run(f"TRUNCATE TABLE {table}")
    assert read_by_both(hive, engine, table) == []


@pytest.mark.parametrize("stored_as", ["ORC", "PARQUET", "TEXTFILE"])
def test_plain_tables_are_written_by_both(hive: Hive, engine: Engine, hive_database: str, stored_as: str) -> None:
    table = f"{hive_database}.e"
    engine.run(f"CREATE EXTERNAL TABLE {table} ({COLUMNS}) STORED AS {stored_as}")
    engine.run(f"INSERT INTO {table} VALUES {ROWS}")
    assert len(read_by_both(hive, engine, table)) == 2
    assert json.dumps(hive.run(f"SELECT count(*) FROM {table}")) == "[[2]]"
    hive.run(f"INSERT INTO {table} SELECT 3, 'hive', 2.25, date'2024-02-29', false")
    assert len(read_by_both(hive, engine, table)) == 3
    engine.run(f"INSERT OVERWRITE {table} SELECT * FROM {table} WHERE id <> 2")
    assert [row[0] for row in read_by_both(hive, engine, table)] == [1, 3]


def test_what_joins_a_base_and_what_several_branches_write_is_read_by_hive_with_the_same_row_ids(
    hive: Hive, engine: Engine, hive_database: str
) -> None:
    table, other = f"{hive_database}.t", f"{hive_database}.u"
    engine.run(
        f"""
        CREATE TABLE {table} (id INT) STORED AS ORC;
        BEGIN; INSERT OVERWRITE {table} VALUES (1); INSERT INTO {table} VALUES (2); COMMIT;
        CREATE TABLE {other} STORED AS ORC AS SELECT id + 10 AS id FROM {table};
        FROM {table} INSERT INTO {table} SELECT id + 100 INSERT INTO {other} SELECT id;
        DELETE FROM {table} WHERE id = 2;
        """
    )
    for name, expected in ((table, [1, 101, 102]), (other, [1, 2, 11, 12])):
        theirs = {RowId.parse(i): v for i, v in hive.run(f"SELECT t.row__id, t.id FROM {name} t")}
        ours = engine.query(f"SELECT t.row__id, t.id FROM {name} t").rows
        assert {RowId(i["writeid"], i["bucketid"], i["rowid"]): v for i, v in ours} == theirs
        assert sorted(theirs.values()) == expected
    hive.run(f"UPDATE {table} SET id = 7 WHERE id = 1")
    engine.run(f"TRUNCATE TABLE {other}")
    assert read_by_both(hive, engine, table) == [[101], [102], [7]]
    assert read_by_both(hive, engine, other) == []


SORTED = "(a INT, b STRING) CLUSTERED BY (a) SORTED BY (b DESC, a) INTO 4 BUCKETS"
SAMPLE = "SELECT a, b FROM {table} TABLESAMPLE (BUCKET {number} OUT OF 4 ON a)"


@pytest.mark.parametrize("kind", ["insert_only", "external"])
def test_sorted_buckets_are_filled_by_both_and_hive_finds_rows_by_them(
    hive: Hive, engine: Engine, hive_database: str, kind: str
) -> None:
    """Hive samples and joins bucket by bucket: a row in the wrong file would be missing."""
    table = f"{hive_database}.s_{kind}"
    if kind == "external":
        engine.run(f"CREATE EXTERNAL TABLE {table} {SORTED} STORED AS ORC")
    else:
        engine.run(
            f"CREATE TABLE {table} {SORTED} STORED AS ORC TBLPROPERTIES ('transactional_properties'='insert_only')"
        )
    described = {str(row[0]).strip(): str(row[1]).strip() for row in hive.run(f"DESCRIBE FORMATTED {table}")}
    assert described["Sort Columns:"] == "[Order(col:b, order:0), Order(col:a, order:1)]"
    made = "SELECT cast(id % 40 AS int), if(id % 7 = 0, null, concat('b', id % 11)) FROM range(0, 100)"
    engine.run(f"INSERT INTO {table} {made}")
    hive.run(f"INSERT INTO {table} VALUES (1000, 'hive'), (1001, null)")

    def sampled() -> list[tuple[Any, ...]]:
        parts = [hive.run(SAMPLE.format(table=table, number=number)) for number in range(1, 5)]
        assert all(parts)
        return sorted((row for part in parts for row in part), key=str)

    assert sampled() == sorted(map(tuple, read_by_both(hive, engine, table)), key=str)
    joined, pairs = f"SELECT count(*) FROM {table} x JOIN {table} y ON x.a = y.a", 20 * 9 + 20 * 4
    assert hive.run(joined) == [(pairs + 2,)]
    if kind == "insert_only":
        engine.run(f"ALTER TABLE {table} COMPACT 'major' AND WAIT")
        assert len(sampled()) == 102
        assert hive.run(joined) == [(pairs + 2,)]
    engine.run(f"INSERT OVERWRITE {table} SELECT a, b FROM {table} WHERE a < 1000")
    assert len(sampled()) == 100
    assert hive.run(joined) == [(pairs,)]


def test_what_a_second_overwrite_of_a_transaction_leaves_is_read_by_hive(
    hive: Hive, engine: Engine, hive_database: str
) -> None:
    table = f"{hive_database}.o"
    engine.run(
        f"""
        CREATE TABLE {table} (id INT) STORED AS ORC;
        INSERT INTO {table} VALUES (1);
        BEGIN; INSERT OVERWRITE {table} VALUES (2), (3); INSERT INTO {table} VALUES (4);
        INSERT OVERWRITE {table} SELECT id + 10 FROM {table}; INSERT INTO {table} VALUES (5); COMMIT;
        DELETE FROM {table} WHERE id = 12
        """
    )
    assert read_by_both(hive, engine, table) == [[13], [14], [5]]
    hive.run(f"UPDATE {table} SET id = 6 WHERE id = 5")
    assert read_by_both(hive, engine, table) == [[13], [14], [6]]
