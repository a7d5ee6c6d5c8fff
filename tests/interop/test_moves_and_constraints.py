"""Rows that we move between partitions, read and changed by Hive; constraints that either side declares bind both."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from airflow_hive_acid.errors import BadRecordError

from .hive import HiveError
from .test_our_tables_in_hive import read_by_both

if TYPE_CHECKING:
    from airflow_hive_acid.engine import Engine

    from .hive import Hive

pytestmark = [pytest.mark.interop, pytest.mark.spark]

ACID = "STORED AS ORC TBLPROPERTIES ('transactional'='true')"


def test_hive_reads_changes_and_compacts_rows_that_moved(hive: Hive, engine: Engine, hive_database: str) -> None:
    table = f"{hive_database}.p"
    engine.run(
        f"CREATE TABLE {table} (a INT, b STRING) PARTITIONED BY (k STRING) {ACID};"
        f"INSERT INTO {table} VALUES (1, 'one', 'x'), (2, 'two', 'x'), (3, 'three', 'y')"
    )
    hive.run(f"insert into {table} partition (k = 'x') select 4, 'four'")
    engine.run(f"UPDATE {table} SET k = 'y', b = upper(b) WHERE a IN (1, 3, 4)")
    assert read_by_both(hive, engine, table) == [
        [1, "ONE", "y"],
        [2, "two", "x"],
        [3, "THREE", "y"],
        [4, "FOUR", "y"],
    ]
    hive.run(f"update {table} set b = 'by hive' where k = 'y' and a = 1")
    engine.run(
        f"MERGE INTO {table} t USING (VALUES (1, 'm', 'z'), (9, 'n', 'z')) AS s(a, b, k) ON t.a = s.a "
        "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )
    expected = [[1, "m", "z"], [2, "two", "x"], [3, "THREE", "y"], [4, "FOUR", "y"], [9, "n", "z"]]
    assert read_by_both(hive, engine, table) == expected
    for part in ("x", "y"):  # of z there is one delta
        engine.run(f"ALTER TABLE {table} PARTITION (k = '{part}') COMPACT 'major' AND WAIT")
    assert read_by_both(hive, engine, table) == expected


def test_constraints_of_ours_bind_hive(hive: Hive, engine: Engine, hive_database: str) -> None:
    table = f"{hive_database}.c"
    engine.run(
        f"CREATE TABLE {table} (a INT NOT NULL, b STRING DEFAULT 'dd', c INT CONSTRAINT pos CHECK (c > 0), "
        f"CONSTRAINT pk PRIMARY KEY (a) DISABLE NOVALIDATE) {ACID}; ALTER TABLE {table} ADD COLUMNS (d INT)"
    )
    hive.run(f"insert into {table} (a, c) select 1, 5")
    engine.run(f"INSERT INTO {table} (a, c) VALUES (2, 6)")
    assert [row[:3] for row in read_by_both(hive, engine, table)] == [[1, "dd", 5], [2, "dd", 6]]
    for values in ("cast(null as int), 'x', 5, 1", "3, 'x', -5, 1"):
        with pytest.raises(HiveError):
            hive.run(f"insert into {table} select {values}")
    described = "\n".join(str(row) for row in hive.run(f"describe formatted {table}"))
    for name in ("nn_a", "dc_b", "pos", "pk"):
        assert name in described


def test_constraints_of_hive_bind_us(hive: Hive, engine: Engine, hive_database: str) -> None:
    table = f"{hive_database}.h"
    hive.run(
        f"create table {table} (a int not null enable, b string default 'dd', c int check (c > 0)) stored as orc "
        "tblproperties ('transactional'='true')"
    )
    engine.run(f"INSERT INTO {table} (a, c) VALUES (1, 5)")
    for values in ("(NULL, 'x', 5)", "(3, 'x', -5)"):
        with pytest.raises(BadRecordError, match="constraint violated"):
            engine.run(f"INSERT INTO {table} VALUES {values}")
    with pytest.raises(BadRecordError, match="CHECK constraint violated"):
        engine.run(f"UPDATE {table} SET c = 0")
    assert read_by_both(hive, engine, table) == [[1, "dd", 5]]
