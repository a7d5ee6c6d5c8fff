"""One table, a Hive 3.1.3 and our engine: both change it in turns, Hive compacts it, both read the same."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.interop.hive3.hive3 import Hive3Error

if TYPE_CHECKING:
    from airflow_hive_acid.engine import Engine
    from airflow_hive_acid.metastore import MetastoreClient
    from tests.interop.hive3.hive3 import Hive3

pytestmark = [pytest.mark.interop, pytest.mark.spark]

Rows = list[tuple[str, ...]]


def both(hive: Hive3, engine: Engine, table: str) -> Rows:
    """The rows of a table as text, after both have read the same ones with the same ROW__IDs."""
    select = f"SELECT t.row__id, t.* FROM {table} t"
    theirs = sorted((_ids(row[0]), *row[1:]) for row in hive.run(select))
    ours = sorted(
        (
            (found["writeid"], found["bucketid"], found["rowid"]),
            *("NULL" if value is None else str(value) for value in values),
        )
        for found, *values in engine.query(select).rows
    )
    assert ours == theirs
    return sorted(row[1:] for row in theirs)


def _ids(text: str) -> tuple[int, int, int]:
    value = json.loads(text)
    return value["writeid"], value["bucketid"], value["rowid"]


def directories(hive: Hive3, table: str) -> list[str]:
    database, name = table.split(".")
    return sorted(path.name for path in (hive.warehouse / f"{database}.db" / name).iterdir())


def compact(hive: Hive3, table: str) -> None:
    """Let Hive do what is asked for; its Cleaner first notes the locks there are, then looks whether they are gone."""
    hive.ask("worker")
    assert f"{table} MAJOR ready for cleaning" in hive.ask("compactions")
    hive.ask("cleaner")
    hive.ask("cleaner")
    assert f"{table} MAJOR succeeded" in hive.ask("compactions")


def test_a_table_of_hives_is_changed_by_both_and_compacted_by_hive(
    hive: Hive3, client: MetastoreClient, engine: Engine
) -> None:
    hive.run("create database shop")
    table = "shop.t"
    hive.run(f"create table {table} (id int, name string) stored as orc tblproperties ('transactional'='true')")
    hive.run(f"insert into {table} values (1, 'tea'), (2, 'jam')")
    assert both(hive, engine, table) == [("1", "tea"), ("2", "jam")]
    engine.run(f"INSERT INTO {table} VALUES (3, 'rye'), (4, NULL)")
    hive.run(f"update {table} set name = 'TEA' where id = 1")
    engine.run(f"UPDATE {table} SET name = 'JAM' WHERE id = 2")
    engine.run(f"DELETE FROM {table} WHERE id = 3")
    expected = [("1", "TEA"), ("2", "JAM"), ("4", "NULL")]
    assert both(hive, engine, table) == expected
    hive.run(f"delete from {table} where id = 4")
    assert both(hive, engine, table) == expected[:2]
    client.compactions.enqueue(table)
    compact(hive, table)
    assert directories(hive, table) == ["base_0000006"]
    assert both(hive, engine, table) == expected[:2]
    engine.run(
        f"MERGE INTO {table} t USING (SELECT 2 AS id, 'fig' AS name UNION ALL SELECT 5, 'oat') s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET name = s.name WHEN NOT MATCHED THEN INSERT VALUES (s.id, s.name)"
    )
    expected = [("1", "TEA"), ("2", "fig"), ("5", "oat")]
    assert both(hive, engine, table) == expected
    client.compactions.enqueue(table)
    compact(hive, table)
    assert directories(hive, table) == ["base_0000007"]
    assert both(hive, engine, table) == expected
    engine.run(f"INSERT OVERWRITE TABLE {table} SELECT id + 10, name FROM {table}")
    assert both(hive, engine, table) == [("11", "TEA"), ("12", "fig"), ("15", "oat")]


@pytest.mark.rule("R10")
def test_hive_compacts_a_table_of_ours_and_removes_nothing_before_our_reader_has_ended(
    hive: Hive3, client: MetastoreClient, engine: Engine
) -> None:
    """
    t1  our reader has its snapshot
    t2  we delete; Hive compacts; its Cleaner looks twice
    t3  the reader ends; the Cleaner looks again
    """
    engine.run("CREATE DATABASE IF NOT EXISTS ours")
    table = "ours.read"
    engine.run(f"CREATE TABLE {table} (id int, name string) STORED AS ORC TBLPROPERTIES ('transactional'='true')")
    engine.run(f"INSERT INTO {table} VALUES (1, 'tea'), (2, 'jam'), (3, 'rye')")
    engine.run(f"UPDATE {table} SET name = 'TEA' WHERE id = 1")
    with client.snapshot([table]) as reader:
        assert reader.snapshot[table].high_watermark == 2
        before = set(directories(hive, table))
        engine.run(f"DELETE FROM {table} WHERE id = 3")
        engine.run(f"ALTER TABLE {table} COMPACT 'major'")
        hive.ask("worker")
        hive.ask("cleaner")
        hive.ask("cleaner")
        assert before < set(directories(hive, table))
        assert f"{table} MAJOR ready for cleaning" in hive.ask("compactions")
        assert both(hive, engine, table) == [("1", "TEA"), ("2", "jam")]
    hive.ask("cleaner")
    hive.ask("cleaner")
    assert directories(hive, table) == ["base_0000003"]
    assert both(hive, engine, table) == [("1", "TEA"), ("2", "jam")]


def test_a_partition_that_we_drop_is_gone_at_once_for_hive_too(hive: Hive3, engine: Engine) -> None:
    """Its Cleaner would leave the files: a request for a partition that is not there is done with, to it."""
    engine.run("CREATE DATABASE IF NOT EXISTS ours")
    table = "ours.days"
    engine.run(
        f"CREATE TABLE {table} (id int) PARTITIONED BY (day string) STORED AS ORC "
        "TBLPROPERTIES ('transactional'='true')"
    )
    hive.run(f"insert into {table} partition (day) values (1, 'mon'), (2, 'tue')")
    engine.run(f"ALTER TABLE {table} DROP PARTITION (day = 'mon')")
    assert not [line for line in hive.ask("compactions") if table in line]
    assert [name for name in directories(hive, table) if name.startswith("day")] == ["day=tue"]
    assert hive.run(f"show partitions {table}") == [("day=tue",)]
    engine.run(f"ALTER TABLE {table} ADD PARTITION (day = 'mon')")
    engine.run(f"INSERT INTO {table} PARTITION (day) VALUES (3, 'mon')")
    expected = [("2", "tue"), ("3", "mon")]
    assert sorted(hive.run(f"select id, day from {table}")) == expected
    assert sorted((str(i), d) for i, d in engine.query(f"SELECT id, day FROM {table}").rows) == expected


def test_a_table_of_ours_with_partitions_is_changed_by_both(hive: Hive3, engine: Engine) -> None:
    engine.run("CREATE DATABASE IF NOT EXISTS ours")
    table = "ours.p"
    engine.run(
        f"CREATE TABLE {table} (id int, price decimal(8,2)) PARTITIONED BY (day string) STORED AS ORC "
        "TBLPROPERTIES ('transactional'='true')"
    )
    engine.run(f"INSERT INTO {table} PARTITION (day) VALUES (1, 1.50, 'mon'), (2, 2.25, 'tue')")
    hive.run(f"insert into {table} partition (day) values (3, 3.75, 'tue'), (4, 4.00, 'wed')")
    hive.run(f"update {table} set price = price + 1 where day = 'mon'")
    engine.run(f"DELETE FROM {table} WHERE id = 2")
    rows = {(row[0], float(row[1]), row[2]) for row in hive.run(f"select id, price, day from {table}")}
    assert rows == {("1", 2.5, "mon"), ("3", 3.75, "tue"), ("4", 4.0, "wed")}
    assert {(str(i), float(p), d) for i, p, d in engine.query(f"SELECT id, price, day FROM {table}").rows} == rows
    assert sorted(row[0] for row in hive.run(f"show partitions {table}")) == ["day=mon", "day=tue", "day=wed"]


def test_a_minor_compaction_of_hives_own_is_one_that_it_cannot_read(hive: Hive3, engine: Engine) -> None:
    """Nobody else has touched this table. So we ask for major ones alone; and read it."""
    hive.run("create database if not exists shop")
    hive.run("create table shop.source (id int) stored as orc tblproperties ('transactional'='true')")
    hive.run("insert into shop.source values (1), (2), (3), (4)")
    table = "shop.two"
    hive.run(f"create table {table} (id int, name string) stored as orc tblproperties ('transactional'='true')")
    hive.ask("set", "mapreduce.job.reduces", "2")
    hive.run(f"insert into {table} select id, 'a' from shop.source distribute by id")
    for remainder in range(2):
        hive.run(f"update {table} set name = 'b' where id % 2 = {remainder}")
    hive.ask("set", "mapreduce.job.reduces", "1")
    hive.run(f"alter table {table} compact 'minor'")
    hive.ask("worker")
    hive.ask("cleaner")
    hive.ask("cleaner")
    assert f"{table} MINOR succeeded" in hive.ask("compactions")
    with pytest.raises(Hive3Error, match="Two readers for"):
        hive.run(f"select * from {table}")
    assert sorted(map(tuple, engine.query(f"SELECT * FROM {table}").rows)) == [(i, "b") for i in range(1, 5)]
