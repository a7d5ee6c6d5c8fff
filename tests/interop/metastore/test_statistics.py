"""With hive.compute.query.using.stats=true a real Hive counts what is there, whoever wrote it and whoever compacted."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import unquote

import pytest
import sqlalchemy as sa

from airflow_hive_acid.metastore.schema.hive_catalog import PARTITION_PARAMS, PARTITIONS, TAB_COL_STATS, TBLS

if TYPE_CHECKING:
    from airflow_hive_acid.engine import Engine
    from airflow_hive_acid.metastore import MetastoreClient
    from tests.interop.hive import Hive

pytestmark = [pytest.mark.interop, pytest.mark.spark]

#: Kind of table: its partition columns, and the values of two places. Hive makes the first, a write of ours the second.
KINDS = {
    "two keys": ("hour int, day string", ["7", "'mon'"], ["3", "'a b/c=d:e%f'"]),
    "varchar": ("grade varchar(8)", ["'low'"], ["'high!'"]),
}


@pytest.mark.parametrize("kind", KINDS)
def test_hive_counts_by_statistics_what_is_there(
    hive: Hive, engine: Engine, client: MetastoreClient, hive_database: str, kind: str
) -> None:
    """Hive's Worker calls numRows exact after a minor compaction, whatever it is: it has to be right all the time."""
    columns, first, second = KINDS[kind]
    keys = [column.split(" ")[0] for column in columns.split(", ")]
    name = f"s_{kind.replace(' ', '_')}"
    table = f"{hive_database}.{name}"
    (here, place), (there, other) = ((_values(v), _clause(keys, v)) for v in (first, second))
    hive.run(
        f"create table {table} (id int, n int) partitioned by ({columns}) "
        "stored as orc tblproperties ('transactional'='true')"
    )
    hive.run(f"alter table {table} add{place}")
    hive.run("set hive.compute.query.using.stats=true", "counting")
    count = f"select {', '.join(keys)}, count(*) from {table} group by {', '.join(keys)}"
    claimed = 0
    for ours, statement in [
        (True, f"INSERT INTO {table} VALUES (1, 1{here}), (2, 2{here}), (3, 3{there})"),
        (False, f"insert into {table} values (4, 4{here})"),
        (False, f"alter table {table}{place} compact 'minor'"),
        (True, f"UPDATE {table} SET n = 5 WHERE id <> 1; DELETE FROM {table} WHERE id = 1"),
        (False, f"alter table {table}{other} compact 'minor'"),
        (False, f"alter table {table} add columns (extra int)"),
        (False, f"update {table} set n = 6 where id = 2"),
        (False, f"alter table {table}{place} compact 'minor'"),
        (True, f"ALTER TABLE {table}{place} COMPACT 'major'"),
        (True, f"INSERT INTO {table} VALUES (9, 9, 9{here})"),
        (False, f"insert into {table} values (8, 8, 8{here}), (7, 7, 7{there})"),
        (False, f"alter table {table}{place} compact 'minor'"),
    ]:
        if ours:
            engine.run(statement)
        else:
            hive.run(statement)
        if "compact" in statement.lower():
            if ours:
                engine.run_compactions("statistics")
            else:
                hive.worker()
            hive.clean(table)
        real = {tuple(str(value) for value in row[:-1]): row[-1] for row in hive.run(count)}
        for partition, number in _claims(client, name).items():
            key = tuple(unquote(part.partition("=")[2]) for part in partition.split("/"))
            assert number == str(real.get(key, 0)), (statement, partition)
            claimed += 1
        assert hive.run(f"select count(*) from {table}", "counting") == [(sum(real.values()),)], statement
    assert claimed > 2  # otherwise nothing was looked at


EVERY_TYPE = (
    "i int, b bigint, t tinyint, d double, n decimal(10,2), s string, v varchar(20), o boolean, dt date, ts timestamp, "
    "x binary"
)
ROWS = (
    "(1, 10, 1, 2.5, 1.50, 'a', 'ab', true, '1970-01-11', '1970-01-02 00:00:01', 'q'), "
    "(-5, 20, null, 0.5, 100.00, 'bcd', null, false, '1969-12-31', '1970-01-01 00:00:00', 'qrs'), "
    "(1, null, 2, null, null, 'a', 'x', null, null, null, null)"
)
COUNTED = (
    "COLUMN_TYPE", "LONG_LOW_VALUE", "LONG_HIGH_VALUE", "DOUBLE_LOW_VALUE", "DOUBLE_HIGH_VALUE",
    "BIG_DECIMAL_LOW_VALUE", "BIG_DECIMAL_HIGH_VALUE", "NUM_NULLS", "NUM_DISTINCTS", "AVG_COL_LEN", "MAX_COL_LEN",
    "NUM_TRUES", "NUM_FALSES", "ENGINE",
)  # fmt: skip


def test_our_statistics_of_columns_are_those_of_hive_and_it_answers_from_them(
    hive: Hive, engine: Engine, client: MetastoreClient, hive_database: str
) -> None:
    table = f"{hive_database}.analyzed"
    hive.run(f"create table {table} ({EVERY_TYPE}) stored as orc tblproperties ('transactional'='true')")
    hive.run(f"insert into {table} values {ROWS}")
    hive.run(f"analyze table {table} compute statistics for columns")
    theirs = _column_statistics(client, "analyzed")
    engine.run(f"ANALYZE TABLE {table} COMPUTE STATISTICS FOR COLUMNS")
    ours = _column_statistics(client, "analyzed")
    assert ours == theirs
    hive.run("set hive.compute.query.using.stats=true", "counting")
    looks = [
        f"select count(*), count(i), min(i), max(i), count(b), max(b) from {table}",
        f"select min(dt), max(dt), min(d), max(d), count(s) from {table}",
    ]
    assert [hive.run(look, "counting") for look in looks] == [hive.run(look) for look in looks]
    engine.run(f"INSERT INTO {table} (i, dt) VALUES (7, DATE '2020-01-01')")
    assert [hive.run(look, "counting") for look in looks] == [hive.run(look) for look in looks]
    engine.run(f"ANALYZE TABLE {table} COMPUTE STATISTICS FOR COLUMNS i, dt")
    hive.run(f"insert into {table} (i) values (70)")
    assert [hive.run(look, "counting") for look in looks] == [hive.run(look) for look in looks]


def test_statistics_of_partitions_are_read_by_hive(
    hive: Hive, engine: Engine, client: MetastoreClient, hive_database: str
) -> None:
    table = f"{hive_database}.analyzed_p"
    hive.run(
        f"create table {table} (i int) partitioned by (k string) stored as orc tblproperties ('transactional'='true')"
    )
    engine.run(f"INSERT INTO {table} VALUES (1, 'a b/c'), (2, 'a b/c'), (3, 'z')")
    engine.run(f"ANALYZE TABLE {table} PARTITION (k) COMPUTE STATISTICS FOR COLUMNS")
    assert set(_claims(client, "analyzed_p").values()) == {"2", "1"}
    hive.run("set hive.compute.query.using.stats=true", "counting")
    look = f"select count(*), min(i), max(i) from {table}"
    assert hive.run(look, "counting") == hive.run(look) == [(3, 1, 3)]
    described = hive.run(f"describe formatted {table} partition (k='z') i")
    assert any("3" in str(row) for row in described)


def _column_statistics(client: MetastoreClient, table: str) -> dict[str, dict[str, object]]:
    statement = sa.select(TAB_COL_STATS).join(TBLS, TBLS.c.TBL_ID == TAB_COL_STATS.c.TBL_ID)
    with client.database.transaction() as connection:
        rows = connection.execute(statement.where(TBLS.c.TBL_NAME == table)).mappings().all()
    return {row["COLUMN_NAME"]: {name: row[name] for name in COUNTED} for row in rows}


def _values(values: list[str]) -> str:
    return "".join(f", {value}" for value in values)


def _clause(keys: list[str], values: list[str]) -> str:
    return f" partition ({', '.join(f'{k}={v}' for k, v in zip(keys, values, strict=True))})"


def _claims(client: MetastoreClient, table: str) -> dict[str, str | None]:
    """numRows of each partition whose number of rows is called exact."""
    parameters = (
        sa.select(PARTITIONS.c.PART_NAME, PARTITION_PARAMS.c.PARAM_KEY, PARTITION_PARAMS.c.PARAM_VALUE)
        .join(PARTITION_PARAMS, PARTITION_PARAMS.c.PART_ID == PARTITIONS.c.PART_ID)
        .join(TBLS, TBLS.c.TBL_ID == PARTITIONS.c.TBL_ID)
        .where(TBLS.c.TBL_NAME == table)
    )
    with client.database.transaction() as connection:
        found = {(name, key): value for name, key, value in connection.execute(parameters)}
    claim = '"BASIC_STATS":"true"'
    exact = [name for (name, key), value in found.items() if key == "COLUMN_STATS_ACCURATE" and claim in value]
    return {name: found.get((name, "numRows")) for name in exact}
