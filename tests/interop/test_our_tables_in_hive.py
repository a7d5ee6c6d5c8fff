"""Tables that we write, read by Hive after every step, and tables that both sides change: rows and ROW__IDs agree."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from airflow_hive_acid.format.bucketing import bucket_of
from airflow_hive_acid.format.partitions import DEFAULT_PARTITION

from .hive import RowId

if TYPE_CHECKING:
    from airflow_hive_acid.engine import Engine
    from airflow_hive_acid.metastore import MetastoreClient

    from .hive import Hive, Row

pytestmark = [pytest.mark.interop, pytest.mark.spark]

ACID = "STORED AS ORC TBLPROPERTIES ('transactional'='true')"


def as_hive(value: Any) -> Any:
    """One of our values as the oracle prints Hive's: decimals without trailing zeros, complex values as JSON text."""
    if isinstance(value, Decimal):
        return format(value.normalize(), "f")
    if isinstance(value, list | dict):
        return json.dumps(value, separators=(",", ":"), default=as_hive)
    return value


def read_by_both(hive: Hive, engine: Engine, table: str) -> list[Row]:
    """The rows of a table, after both sides have read the same ones with the same ROW__IDs."""
    select = f"SELECT t.row__id, t.* FROM {table} t"
    # Hive shows the name of the default partition where its value, NULL, belongs.
    answer = [(i, *(None if v == DEFAULT_PARTITION else v for v in values)) for i, *values in hive.run(select)]
    theirs = sorted(((RowId.parse(i), *values) for i, *values in answer), key=str)
    found = engine.query(select).rows
    ours = [(RowId(i["writeid"], i["bucketid"], i["rowid"]), *map(as_hive, values)) for i, *values in found]
    assert sorted(ours, key=str) == theirs
    return sorted((values for _, *values in theirs), key=str)


Life = list[tuple[str, list[list[Any]] | None]]
"""Statements, and the rows after them where they are worth writing out."""

UNPARTITIONED: Life = [
    (
        "INSERT INTO {t} VALUES (1, 'tea', 1.50), (2, 'jam', 2.25), (3, 'rye', NULL), (4, NULL, 4.00)",
        [[1, "tea", "1.5"], [2, "jam", "2.25"], [3, "rye", None], [4, None, "4"]],
    ),
    (
        "UPDATE {t} SET name = upper(name), price = price + 1 WHERE id <= 2",
        [[1, "TEA", "2.5"], [2, "JAM", "3.25"], [3, "rye", None], [4, None, "4"]],
    ),
    ("DELETE FROM {t} WHERE price IS NULL", [[1, "TEA", "2.5"], [2, "JAM", "3.25"], [4, None, "4"]]),
    (
        "MERGE INTO {t} t USING (SELECT 1 AS id, 'gone' AS what UNION ALL SELECT 4, 'oat' UNION ALL SELECT 5, 'fig') s "
        "ON t.id = s.id WHEN MATCHED AND s.what = 'gone' THEN DELETE WHEN MATCHED THEN UPDATE SET name = s.what "
        "WHEN NOT MATCHED THEN INSERT VALUES (s.id, s.what, 5.00)",
        [[2, "JAM", "3.25"], [4, "oat", "4"], [5, "fig", "5"]],
    ),
    ("ALTER TABLE {t} COMPACT 'minor' AND WAIT", [[2, "JAM", "3.25"], [4, "oat", "4"], [5, "fig", "5"]]),
    ("INSERT INTO {t} SELECT id + 10, name, price FROM {t} WHERE id > 4", None),
    (
        "ALTER TABLE {t} COMPACT 'major' AND WAIT",
        [[15, "fig", "5"], [2, "JAM", "3.25"], [4, "oat", "4"], [5, "fig", "5"]],
    ),
    ("UPDATE {t} SET price = 0 WHERE id IN (2, 15)", None),
    ("DELETE FROM {t} WHERE id = 4", [[15, "fig", "0"], [2, "JAM", "0"], [5, "fig", "5"]]),
]

PARTITIONED: Life = [
    (
        "INSERT INTO {t} VALUES (1, 'tea', 'mon'), (2, 'jam', 'mon'), (3, 'rye', 'tue'), (4, 'oat', NULL), "
        "(5, 'fig', 'a b/c=d:e%f')",
        [
            [1, "tea", "mon"],
            [2, "jam", "mon"],
            [3, "rye", "tue"],
            [4, "oat", None],
            [5, "fig", "a b/c=d:e%f"],
        ],
    ),
    ("INSERT INTO {t} PARTITION (day = 'wed') VALUES (6, 'gin')", None),
    (
        "UPDATE {t} SET name = upper(name) WHERE id IN (1, 3, 4, 5)",
        [
            [1, "TEA", "mon"],
            [2, "jam", "mon"],
            [3, "RYE", "tue"],
            [4, "OAT", None],
            [5, "FIG", "a b/c=d:e%f"],
            [6, "gin", "wed"],
        ],
    ),
    ("DELETE FROM {t} WHERE day = 'mon' AND id = 2", None),
    (
        "MERGE INTO {t} t USING (SELECT 3 AS id, 'tue' AS day UNION ALL SELECT 6, 'wed' UNION ALL SELECT 7, 'thu') s "
        "ON t.id = s.id AND t.day = s.day WHEN MATCHED AND s.id = 6 THEN DELETE "
        "WHEN MATCHED THEN UPDATE SET name = 'bun' WHEN NOT MATCHED THEN INSERT VALUES (s.id, 'ale', s.day)",
        [
            [1, "TEA", "mon"],
            [3, "bun", "tue"],
            [4, "OAT", None],
            [5, "FIG", "a b/c=d:e%f"],
            [7, "ale", "thu"],
        ],
    ),
    ("ALTER TABLE {t} PARTITION (day = 'mon') COMPACT 'major' AND WAIT", None),
    ("ALTER TABLE {t} PARTITION (day = 'tue') COMPACT 'minor' AND WAIT", None),
    (
        "UPDATE {t} SET name = 'end' WHERE id < 5",
        [
            [1, "end", "mon"],
            [3, "end", "tue"],
            [4, "end", None],
            [5, "FIG", "a b/c=d:e%f"],
            [7, "ale", "thu"],
        ],
    ),
]

BUCKETED: Life = [
    (
        "INSERT INTO {t} SELECT cast(id as int), concat('n', id) FROM range(20)",
        [[i, f"n{i}"] for i in range(20)],
    ),
    ("DELETE FROM {t} WHERE id % 2 = 1", [[i, f"n{i}"] for i in range(0, 20, 2)]),
    ("UPDATE {t} SET name = 'x' WHERE id % 4 = 0", None),
    (
        "MERGE INTO {t} t USING (SELECT 2 AS id UNION ALL SELECT -7) s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET name = 'two' WHEN NOT MATCHED THEN INSERT VALUES (s.id, 'new')",
        None,
    ),
    (
        "ALTER TABLE {t} COMPACT 'major' AND WAIT",
        [[i, "two" if i == 2 else "x" if i % 4 == 0 else f"n{i}"] for i in range(0, 20, 2)] + [[-7, "new"]],
    ),
]

TRANSACTIONS: Life = [
    (
        "BEGIN; INSERT INTO {t} VALUES (1, 'a'), (2, 'b'); UPDATE {t} SET name = 'B' WHERE id = 2; "
        "DELETE FROM {t} WHERE id = 1; INSERT INTO {t} VALUES (3, 'c'); COMMIT",
        [[2, "B"], [3, "c"]],
    ),
    ("BEGIN; INSERT INTO {t} VALUES (9, 'never'); DELETE FROM {t}; ROLLBACK", [[2, "B"], [3, "c"]]),
    ("UPDATE {t} SET name = 'nobody' WHERE id = 77", [[2, "B"], [3, "c"]]),
    ("INSERT OVERWRITE TABLE {t} SELECT id * 10, name FROM {t}", [[20, "B"], [30, "c"]]),
    ("DELETE FROM {t}", []),
    ("ALTER TABLE {t} COMPACT 'major' AND WAIT", []),
    ("INSERT INTO {t} VALUES (5, 'e')", [[5, "e"]]),
]

LIVES = {
    "unpartitioned": ("(id int, name string, price decimal(10,2))", UNPARTITIONED),
    "partitioned": ("(id int, name string) PARTITIONED BY (day string)", PARTITIONED),
    "transactions": ("(id int, name string)", TRANSACTIONS),
    "bucketed": ("(id int, name string) CLUSTERED BY (id) INTO 3 BUCKETS", BUCKETED),
}


@pytest.mark.parametrize("kind", LIVES)
def test_hive_reads_our_table_after_every_step(hive: Hive, engine: Engine, hive_database: str, kind: str) -> None:
    table = f"{hive_database}.{kind}"
    columns, life = LIVES[kind]
    engine.run(f"CREATE TABLE {table} {columns} {ACID}")
    assert read_by_both(hive, engine, table) == []
    for statement, expected in life:
        engine.run(statement.format(t=table))
        rows = read_by_both(hive, engine, table)
        if expected is not None:
            assert rows == sorted(expected, key=str), statement


def test_hive_finds_rows_in_the_buckets_where_we_put_them(hive: Hive, engine: Engine, hive_database: str) -> None:
    """TABLESAMPLE reads one bucket's files, and Hive compacts what both sides wrote into them."""
    table = f"{hive_database}.t"
    columns = "(id int, name string, price decimal(10,2))"
    engine.run(f"CREATE TABLE {table} {columns} CLUSTERED BY (name, price) INTO 4 BUCKETS {ACID}")
    rows = [(i, f"é{i}", f"{i}.50") for i in range(12)]
    engine.run(f"INSERT INTO {table} VALUES " + ", ".join(f"({i}, '{name}', {price})" for i, name, price in rows))
    hive.run(f"insert into {table} values (100, 'é3', 3.50), (101, NULL, NULL)")

    def sampled() -> list[list[int]]:
        sample = f"select id from {table} tablesample(bucket {{}} out of 4 on name, price)"
        return [sorted(row[0] for row in hive.run(sample.format(number))) for number in (1, 2, 3, 4)]

    wanted: list[list[int]] = [[], [], [], []]
    for number, name, price in [*rows, (100, "é3", "3.50"), (101, None, None)]:
        values = [name, None if price is None else Decimal(price)]
        wanted[bucket_of(values, ["string", "decimal(10,2)"], 4)].append(number)
    assert sampled() == wanted
    hive.run(f"alter table {table} compact 'major'")
    hive.worker()
    assert sampled() == wanted
    assert len(read_by_both(hive, engine, table)) == 14


@pytest.mark.parametrize("partitioned", [False, True], ids=["unpartitioned", "partitioned"])
def test_both_sides_change_one_table(hive: Hive, engine: Engine, hive_database: str, *, partitioned: bool) -> None:
    """Each side changes rows that the other wrote, and compacts what the other left behind."""
    table = f"{hive_database}.t"
    day, one, other = (", 'mon'", "PARTITION (day = 'mon')", "PARTITION (day = 'tue')") if partitioned else ("", "", "")
    by = "PARTITIONED BY (day string)" if partitioned else ""

    def names() -> dict[int, str]:
        return {row[0]: row[1] for row in read_by_both(hive, engine, table)}

    hive.run(f"create table {table} (id int, name string) {by} {ACID}")
    hive.run(f"insert into {table} values (1, 'hive'{day}), (2, 'hive'{day}), (3, 'hive'{day})")
    engine.run(f"INSERT INTO {table} VALUES (4, 'ours'{day}), (5, 'ours'{day}), (6, 'ours'{day.replace('mon', 'tue')})")
    assert names() == {1: "hive", 2: "hive", 3: "hive", 4: "ours", 5: "ours", 6: "ours"}

    engine.run(f"UPDATE {table} SET name = 'ours of hive' WHERE id IN (1, 2)")
    hive.run(f"update {table} set name = 'hive of ours' where id in (4, 6)")
    assert names() == {1: "ours of hive", 2: "ours of hive", 3: "hive", 4: "hive of ours", 5: "ours", 6: "hive of ours"}

    engine.run(f"DELETE FROM {table} WHERE id = 3")
    hive.run(f"delete from {table} where id in (2, 5)")
    assert names() == {1: "ours of hive", 4: "hive of ours", 6: "hive of ours"}

    hive.run(f"alter table {table} {one} compact 'minor'")
    hive.worker()
    assert names() == {1: "ours of hive", 4: "hive of ours", 6: "hive of ours"}
    hive.clean(table)
    engine.run(f"ALTER TABLE {table} {one} COMPACT 'major' AND WAIT")
    assert names() == {1: "ours of hive", 4: "hive of ours", 6: "hive of ours"}
    hive.clean(table)

    hive.run(f"insert into {table} values (7, 'hive'{day})")
    engine.run(f"UPDATE {table} SET name = 'ours at last' WHERE id IN (1, 7)")
    hive.run(f"alter table {table} {one} compact 'major'")
    hive.worker()
    hive.clean(table)
    if partitioned:
        engine.run(f"ALTER TABLE {table} {other} COMPACT 'major' AND WAIT")
    assert names() == {1: "ours at last", 4: "hive of ours", 6: "hive of ours", 7: "ours at last"}


def test_we_change_rows_from_before_the_table_was_acid(hive: Hive, engine: Engine, hive_database: str) -> None:
    """Plain ORC files count as write id 0: our deletes of their rows hold in Hive, our compaction keeps their ids."""
    table = f"{hive_database}.t"
    hive.run(f"create table {table} (id int, name string) stored as orc tblproperties ('transactional'='false')")
    hive.run(f"insert into {table} values (1, 'a'), (2, 'b'), (3, 'c')")
    hive.run(f"insert into {table} values (4, 'd'), (5, 'e')")
    hive.run(f"alter table {table} set tblproperties ('EXTERNAL'='FALSE', 'transactional'='true')")
    assert len(read_by_both(hive, engine, table)) == 5
    engine.run(f"DELETE FROM {table} WHERE id = 4; UPDATE {table} SET name = 'B' WHERE id = 2")
    assert read_by_both(hive, engine, table) == [[1, "a"], [2, "B"], [3, "c"], [5, "e"]]
    engine.run(f"ALTER TABLE {table} COMPACT 'major' AND WAIT")
    assert read_by_both(hive, engine, table) == [[1, "a"], [2, "B"], [3, "c"], [5, "e"]]


def test_a_table_that_we_made_transactional_is_hives_too(
    hive: Hive, engine: Engine, client: MetastoreClient, hive_database: str
) -> None:
    """Files with Spark's names get names of buckets; Hive reads and changes their rows."""
    table = f"{hive_database}.t"
    hive.run(f"create external table {table} (id int, name string) stored as orc")
    hive.run(f"insert into {table} values (1, 'a'), (2, 'b')")
    hive.run(f"insert into {table} values (3, 'c')")
    place = Path(client.catalog.get_table(table).location.removeprefix("file:"))
    files = sorted(path for path in place.iterdir() if not path.name.startswith((".", "_")))
    files[1].rename(place / "part-00000-0b1c2d3e-aaaa-bbbb-cccc-121314151617-c000.zstd.orc")
    engine.run(f"ALTER TABLE {table} SET TBLPROPERTIES ('EXTERNAL'='FALSE', 'transactional'='true')")
    assert read_by_both(hive, engine, table) == [[1, "a"], [2, "b"], [3, "c"]]
    hive.run(f"update {table} set name = 'C' where id = 3")
    hive.run(f"delete from {table} where id = 1")
    assert read_by_both(hive, engine, table) == [[2, "b"], [3, "C"]]
    engine.run(f"ALTER TABLE {table} COMPACT 'rebalance' CLUSTERED INTO 2 BUCKETS AND WAIT")
    assert read_by_both(hive, engine, table) == [[2, "b"], [3, "C"]]


def test_columns_that_hive_added_or_widened_are_ours_too(hive: Hive, engine: Engine, hive_database: str) -> None:
    table = f"{hive_database}.t"
    engine.run(f"CREATE TABLE {table} (id int, name string) {ACID}; INSERT INTO {table} VALUES (1, 'a'), (2, 'b')")
    hive.run(f"alter table {table} add columns (age int)")
    hive.run(f"alter table {table} change id id bigint")
    engine.run(f"INSERT INTO {table} VALUES (4000000000, 'c', 30); UPDATE {table} SET age = 11 WHERE id = 1")
    expected = [[1, "a", 11], [2, "b", None], [4000000000, "c", 30]]
    assert read_by_both(hive, engine, table) == expected
    engine.run(f"ALTER TABLE {table} COMPACT 'major' AND WAIT")
    assert read_by_both(hive, engine, table) == expected


TYPES = {
    "boolean": ("true", "false"),
    "tinyint": ("127Y", "cast(-128 as tinyint)"),
    "smallint": ("32767S", "cast(-32768 as smallint)"),
    "int": ("2147483647", "cast(-2147483648 as int)"),
    "bigint": ("9223372036854775807L", "-9223372036854775807L"),
    "float": ("cast(1.5 as float)", "cast(-3.4028235e38 as float)"),
    "double": ("1.7976931348623157e308", "-2.5e-10"),
    "decimal(38,18)": ("12345678901234567890.123456789012345678BD", "-0.000000000000000001BD"),
    "decimal(7,2)": ("99999.99BD", "-0.1BD"),
    "string": ("'grüße 你好 😀'", "''"),
    "varchar(5)": ("cast('abcde' as varchar(5))", "cast('x ' as varchar(5))"),
    "char(4)": ("cast('abcd' as char(4))", "cast('x' as char(4))"),
    "date": ("date '9999-12-31'", "date '1500-02-28'"),
    "timestamp": ("timestamp '2024-02-29 12:34:56.123456'", "timestamp '1969-12-31 23:59:59.5'"),
    "binary": ("unhex('00ff10')", "unhex('')"),
    "array<int>": ("array(1, 2, cast(null as int))", "if(false, array(1), null)"),
    "map<string,decimal(5,2)>": (
        "map('a', cast(1.25 as decimal(5,2)), 'b', cast(null as decimal(5,2)))",
        "if(false, map('a', cast(1.25 as decimal(5,2))), null)",
    ),
    "struct<a:int,b:array<string>>": (
        "named_struct('a', 1, 'b', array('x', 'y'))",
        "named_struct('a', cast(null as int), 'b', array(cast(null as string)))",
    ),
}


def test_values_of_char_partition_columns_are_the_same_partitions_for_both(
    hive: Hive, engine: Engine, hive_database: str
) -> None:
    table = f"{hive_database}.t"
    hive.run(f"create table {table} (id int) partitioned by (c char(5)) {ACID}")
    hive.run(f"insert into {table} values (1, 'ab'), (2, 'xy  ')")
    engine.run(f"INSERT INTO {table} VALUES (3, 'ab'); INSERT INTO {table} PARTITION (c = 'xy') VALUES (4)")
    engine.run(f"INSERT INTO {table} PARTITION (c = 'new') VALUES (5); UPDATE {table} SET c = 'ab' WHERE id = 2")
    assert hive.run(f"show partitions {table}") == [("c=ab   ",), ("c=new  ",), ("c=xy   ",)]
    for value in ("ab", "ab   "):
        query = f"select id from {table} where c = '{value}' order by id"
        assert hive.run(query) == [(1,), (2,), (3,)]
        found = engine.run(query)[-1].rows
        assert found is not None
        assert found.rows == [[1], [2], [3]]
    hive.run(f"insert into {table} values (6, 'new')")
    written = [(3, "ab   "), (4, "xy   "), (5, "new  "), (6, "new  ")]
    assert hive.run(f"select id, c from {table} where id > 2 order by id") == written


def test_values_of_every_type_go_from_hive_through_us_to_hive(hive: Hive, engine: Engine, hive_database: str) -> None:
    """What Hive wrote, we read and write again, and Hive reads the same."""
    theirs, ours = f"{hive_database}.theirs", f"{hive_database}.ours"
    columns = ", ".join(f"c{number} {name}" for number, name in enumerate(TYPES))
    for table in (theirs, ours):
        hive.run(f"create table {table} (id int, {columns}) {ACID}")
    for row in range(2):
        hive.run(f"insert into {theirs} select {row}, {', '.join(values[row] for values in TYPES.values())}")
    hive.run(f"insert into {theirs} (id) values (2)")
    engine.run(f"INSERT INTO {ours} SELECT * FROM {theirs}; UPDATE {ours} SET id = id + 10 WHERE id = 1")
    names = ", ".join(f"c{number}" for number in range(len(TYPES)))
    written = hive.run(f"select id % 10 as n, {names} from {ours} order by n")
    assert written == hive.run(f"select id, {names} from {theirs} order by id")
    assert [row[0] for row in written] == [0, 1, 2]
    assert set(written[2][1:]) == {None}
