"""Tables that we replace, read, changed and compacted by Hive."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from .test_our_tables_in_hive import read_by_both

if TYPE_CHECKING:
    from airflow_hive_acid.engine import Engine

    from .hive import Hive

pytestmark = [pytest.mark.interop, pytest.mark.spark]

ACID = "STORED AS ORC TBLPROPERTIES ('transactional'='true')"


def test_hive_reads_and_changes_a_table_that_we_have_replaced(hive: Hive, engine: Engine, hive_database: str) -> None:
    table = f"{hive_database}.t"
    hive.run(f"create table {table} (id int, name string) stored as orc tblproperties ('transactional'='true')")
    hive.run(f"insert into {table} values (1, 'a'), (2, 'b')")
    hive.run(f"update {table} set name = 'B' where id = 2")
    engine.run(
        f"CREATE OR REPLACE TABLE {table} {ACID} AS SELECT CAST(id AS BIGINT) AS key, name, 'm' AS note FROM {table}"
    )
    assert read_by_both(hive, engine, table) == [[1, "a", "m"], [2, "B", "m"]]
    hive.run(f"insert into {table} values (3, 'c', 'by hive')")
    hive.run(f"update {table} set note = 'changed' where key = 1")
    assert read_by_both(hive, engine, table) == [[1, "a", "changed"], [2, "B", "m"], [3, "c", "by hive"]]
    engine.run(f"ALTER TABLE {table} COMPACT 'major' AND WAIT")
    assert read_by_both(hive, engine, table) == [[1, "a", "changed"], [2, "B", "m"], [3, "c", "by hive"]]
    engine.run(f"CREATE OR REPLACE TABLE {table} (key BIGINT NOT NULL, name STRING DEFAULT 'x', note STRING) {ACID}")
    assert hive.run(f"select count(*) from {table}") == [(0,)]
    hive.run(f"insert into {table} (key) values (9)")
    assert read_by_both(hive, engine, table) == [[9, "x", None]]


def test_hive_reads_the_partitions_of_a_replaced_table(hive: Hive, engine: Engine, hive_database: str) -> None:
    table = f"{hive_database}.p"
    engine.run(
        f"CREATE TABLE {table} (id INT, name STRING) PARTITIONED BY (k STRING) {ACID};"
        f"INSERT INTO {table} VALUES (1, 'a', 'x'), (2, 'b', 'y');"
        f"CREATE OR REPLACE TABLE {table} PARTITIONED BY (k) {ACID} AS "
        f"SELECT id, name, id + 0.5D AS half, 'y' AS k FROM {table} WHERE k = 'x'"
    )
    assert read_by_both(hive, engine, table) == [[1, "a", 1.5, "y"]]
    hive.run(f"insert into {table} partition (k = 'x') values (3, 'c', 3.5)")
    hive.run(f"delete from {table} where id = 1")
    assert read_by_both(hive, engine, table) == [[3, "c", 3.5, "x"]]
