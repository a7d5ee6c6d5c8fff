"""Partitions that an earlier version wrote as a value was given (``k=1.50``), beside those of a Hive (``k=1.5``)."""

# ruff: noqa: S608 - statements put together from names of the tests

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa

from airflow_hive_acid.errors import HiveAcidError
from airflow_hive_acid.format.partitions import partition_name
from airflow_hive_acid.metastore.schema.hive_catalog import PARTITION_KEY_VALS, PARTITIONS, SDS

if TYPE_CHECKING:
    from airflow_hive_acid.engine import Engine
    from airflow_hive_acid.metastore import MetastoreClient

pytestmark = [pytest.mark.crossing("spellings of partitions x writers"), pytest.mark.spark]

PLAIN = "STORED AS ORC TBLPROPERTIES ('transactional'='false')"
KINDS = [
    ("DECIMAL(5,2)", "1.50", "1.5", "STORED AS ORC"),
    pytest.param("DOUBLE", "1", "1.0", PLAIN, marks=pytest.mark.repeats("a plain table")),
    pytest.param("TIMESTAMP", "2024-01-01 10:00:00.0", "2024-01-01 10:00:00", "STORED AS ORC",
                 marks=pytest.mark.repeats("a timestamp")),
    pytest.param("BOOLEAN", "TRUE", "true", "STORED AS ORC", marks=pytest.mark.repeats("a boolean")),
]  # fmt: skip


def rows(engine: Engine, query: str) -> list[list[Any]]:
    found = engine.run(query, database="o")[-1].rows
    assert found is not None
    return sorted(found.rows)


def called(client: MetastoreClient, value: str, old: str) -> None:
    """Give the one partition the name and the directory that an earlier version gave it."""
    (partition,) = client.catalog.list_partitions("o.t")
    place = Path(partition.location.removeprefix("file:"))
    place.rename(place.with_name("old"))
    with client.database.transaction() as connection:
        connection.execute(sa.update(PARTITIONS).values(PART_NAME=partition_name([("k", old)])))
        stored = PARTITION_KEY_VALS.c.PART_KEY_VAL
        connection.execute(sa.update(PARTITION_KEY_VALS).where(stored == value).values(PART_KEY_VAL=old))
        here = SDS.c.LOCATION == partition.location
        connection.execute(sa.update(SDS).where(here).values(LOCATION=f"file:{place.with_name('old')}"))


@pytest.mark.instead("postgresql")
@pytest.mark.parametrize(("kind", "old", "value", "stored"), KINDS)
def test_rows_beside_each_other_are_read_once_and_not_left_by_an_overwrite(
    real_engine: Engine, client: MetastoreClient, kind: str, old: str, value: str, stored: str
) -> None:
    """An OVERWRITE of 1.5 left the rows of 1.50 beside the new ones."""
    engine, clause = real_engine, f"PARTITION (k = '{value}')"
    engine.run(f"CREATE DATABASE o; CREATE TABLE o.t (a INT) PARTITIONED BY (k {kind}) {stored};"
               f"INSERT INTO o.t {clause} VALUES (1)")  # fmt: skip
    called(client, value, old)
    where = f"WHERE k = CAST('{value}' AS {kind})"
    assert rows(engine, f"SELECT a FROM t {where}") == [[1]]
    for query in ("VALUES (2)", f"SELECT 2, CAST('{value}' AS {kind})"):
        target = f"t {clause}" if query.startswith("VALUES") else "t"
        with pytest.raises(HiveAcidError, match=r"of the same value as .*its rows would stay beside the new ones"):
            engine.run(f"INSERT OVERWRITE TABLE {target} {query}", database="o")
    engine.run(f"INSERT INTO t {clause} VALUES (3)", database="o")
    assert len(client.catalog.list_partitions("o.t")) == 2
    assert rows(engine, f"SELECT a FROM t {where}") == rows(engine, "SELECT a FROM t") == [[1], [3]]
    assert rows(engine, f"SELECT a FROM t WHERE k <> CAST('{value}' AS {kind})") == []
    if stored != PLAIN:
        engine.run(f"UPDATE t SET a = a + 10 {where}; DELETE FROM t {where} AND a = 11", database="o")
        assert rows(engine, "SELECT a FROM t") == [[13]]


def test_a_row_that_moves_there_is_read_once_and_a_rename_gives_it_hives_name(
    real_engine: Engine, client: MetastoreClient
) -> None:
    engine = real_engine
    engine.run("""CREATE DATABASE o; USE o; CREATE TABLE t (a INT) PARTITIONED BY (k DECIMAL(5,2)) STORED AS ORC;
        INSERT INTO t VALUES (1, 2), (2, 3)""")
    client.catalog.add_partitions("o.t", [("1.50",)])
    engine.run("UPDATE t SET k = 1.5 WHERE a = 1", database="o")
    assert rows(engine, "SELECT a FROM t WHERE k = 1.5") == [[1]]
    engine.run("DELETE FROM t WHERE k < 2; ALTER TABLE t DROP PARTITION (k = 1.5), PARTITION (k < 2)", database="o")
    assert rows(engine, "SHOW PARTITIONS t") == [["k=2"], ["k=3"]]
    client.catalog.add_partitions("o.t", [("4.50",)])
    engine.run("ALTER TABLE t PARTITION (k = 4.50) RENAME TO PARTITION (k = 4.50)", database="o")
    assert rows(engine, "SHOW PARTITIONS t") == [["k=2"], ["k=3"], ["k=4.5"]]
    engine.run("INSERT OVERWRITE TABLE t PARTITION (k = 4.50) VALUES (7)", database="o")
    assert rows(engine, "SELECT a FROM t WHERE k = 4.5") == [[7]]
