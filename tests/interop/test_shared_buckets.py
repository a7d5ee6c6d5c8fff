"""Buckets that several of our tasks wrote together: a Hive reads, changes and compacts them as any other."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pyarrow import orc

from airflow_hive_acid.spark.conf import RANGE_BYTES_KEY

from .test_our_tables_in_hive import ACID, read_by_both

if TYPE_CHECKING:
    from collections.abc import Iterator

    from airflow_hive_acid.engine import Engine
    from airflow_hive_acid.metastore import MetastoreClient

    from .hive import Hive

pytestmark = [pytest.mark.interop, pytest.mark.spark]


@pytest.fixture(scope="module")
def sharing(hive: Hive, client: MetastoreClient) -> Iterator[Engine]:
    """Our engine, whose tasks share every bucket of more than a byte."""
    from airflow_hive_acid.engine import Engine, SparkSubmitLauncher

    client.upgrade_schema()
    launcher = SparkSubmitLauncher("local[2]", conf={RANGE_BYTES_KEY: "1"})
    with Engine(client, launcher, hive.warehouse.as_uri()) as engine:
        yield engine


def test_hive_goes_on_with_a_bucket_that_several_tasks_wrote(hive: Hive, sharing: Engine, hive_database: str) -> None:
    table = f"{hive_database}.shared"
    sharing.run(f"CREATE TABLE {table} (id int, name string) {ACID}")
    sharing.run(f"INSERT INTO {table} SELECT /*+ COALESCE(1) */ cast(id AS int), concat('n', id) FROM range(0, 20000)")
    sharing.run(f"UPDATE {table} SET name = concat(name, '!') WHERE id % 7 = 3")
    sharing.run(f"DELETE FROM {table} WHERE id % 11 = 5")
    rows = read_by_both(hive, sharing, table)
    assert len(rows) == sum(i % 11 != 5 for i in range(20000))
    sharing.run(f"ALTER TABLE {table} COMPACT 'minor' AND WAIT")
    assert read_by_both(hive, sharing, table) == rows
    sharing.run(f"DELETE FROM {table} WHERE id % 17 = 2")
    rows = read_by_both(hive, sharing, table)
    sharing.run(f"ALTER TABLE {table} COMPACT 'major' AND WAIT")
    assert read_by_both(hive, sharing, table) == rows
    place = hive.warehouse / f"{hive_database}.db" / "shared"
    stripes = [orc.ORCFile(str(base)).nstripes for base in place.glob("base_*/bucket_00000")]
    assert stripes == [2], sorted(path.name for path in place.iterdir())
    hive.run(f"UPDATE {table} SET name = 'hive' WHERE id % 13 = 1")
    hive.run(f"DELETE FROM {table} WHERE id BETWEEN 9000 AND 11000")
    rows = read_by_both(hive, sharing, table)
    assert len(rows) == sum(i % 11 != 5 and i % 17 != 2 and not 9000 <= i <= 11000 for i in range(20000))
    hive.run(f"ALTER TABLE {table} COMPACT 'major'")
    hive.worker()
    hive.cleaner()
    assert read_by_both(hive, sharing, table) == rows
    sharing.run(f"DELETE FROM {table} WHERE name = 'hive'")
    sharing.run(f"ALTER TABLE {table} COMPACT 'major' AND WAIT")
    assert len(read_by_both(hive, sharing, table)) == sum(row[1] != "hive" for row in rows)
