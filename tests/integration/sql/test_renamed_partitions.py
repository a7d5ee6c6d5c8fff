"""Partitions that take the names of others, whose files were written by the same statement."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest

from airflow_hive_acid.filesystem import AnyFilesystem
from airflow_hive_acid.maintenance.cleaner.cleaner import run_cleaner
from airflow_hive_acid.maintenance.decisions import Kind

if TYPE_CHECKING:
    from airflow_hive_acid.engine import Engine
    from airflow_hive_acid.metastore import MetastoreClient

pytestmark = [pytest.mark.crossing("renamed partitions x statements"), pytest.mark.spark]


def rows(engine: Engine) -> list[list[Any]]:
    return [list(row) for row in engine.query("SELECT id, k FROM r.p ORDER BY id").rows]


def fill(engine: Engine) -> None:
    """Two rows in two partitions, each written by a task of its own: their files have other names."""
    engine.run(
        "CREATE DATABASE r; CREATE TABLE r.s (id INT, k STRING) STORED AS ORC; INSERT INTO r.s VALUES (1, 'a');"
        "INSERT INTO r.s VALUES (2, 'b'); CREATE TABLE r.p (id INT) PARTITIONED BY (k STRING) STORED AS ORC;"
        "INSERT INTO r.p SELECT /*+ REPARTITION(2, id) */ id, k FROM r.s"
    )


def test_partitions_that_swap_their_names_are_read(real_engine: Engine) -> None:
    fill(real_engine)
    for old, new in (("a", "c"), ("b", "a"), ("c", "b")):
        real_engine.run(f"ALTER TABLE r.p PARTITION (k='{old}') RENAME TO PARTITION (k='{new}')")
        assert len(rows(real_engine)) == 2
    assert rows(real_engine) == [[1, "b"], [2, "a"]]


def test_a_partition_that_takes_the_name_of_one_that_was_dropped_is_read(
    real_engine: Engine, client: MetastoreClient
) -> None:
    fill(real_engine)
    real_engine.run("ALTER TABLE r.p DROP PARTITION (k='b')")
    while any(outcome.kind is Kind.WAITING for outcome in run_cleaner(client, AnyFilesystem())):
        time.sleep(0.1)
    real_engine.run("ALTER TABLE r.p PARTITION (k='a') RENAME TO PARTITION (k='b')")
    assert rows(real_engine) == [[1, "b"]]
