"""Tables that batches are written to, and what happens to them besides."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from airflow_hive_acid.engine import Engine
from airflow_hive_acid.maintenance import run_cleaner, run_reaper, run_worker
from airflow_hive_acid.metastore.compaction.model import CompactionType
from airflow_hive_acid.metastore.schema.hive_transactions import TXNS
from airflow_hive_acid.settings import Source
from tests.integration.maintenance.batch_model import compact_model, local
from tests.integration.maintenance.cycles.steps import change, pass_time

if TYPE_CHECKING:
    from airflow_hive_acid.filesystem import Filesystem
    from airflow_hive_acid.metastore import MetastoreClient

TABLES = (
    "CREATE DATABASE IF NOT EXISTS w;"
    "CREATE TABLE w.t (id INT) STORED AS ORC TBLPROPERTIES ('transactional'='true');"
    "CREATE TABLE w.p (id INT) PARTITIONED BY (k STRING) STORED AS ORC TBLPROPERTIES ('transactional'='true')"
)


def engine_of(client: MetastoreClient, spark: Any, warehouse: str, **given: str) -> Engine:
    """An engine; ``given`` are settings of its own, with ``__`` for a point and without ``hive.``."""
    properties = {f"hive.{key.replace('__', '.')}": value for key, value in given.items()}
    settings = client.settings.with_overrides(Source.REQUEST, properties)
    return Engine(client, spark, warehouse, settings=settings, agent_info="a writer")


def records(*ids: int) -> list[dict[str, Any]]:
    return [{"id": i} for i in ids]


def names(client: MetastoreClient, table: str) -> list[str]:
    root = local(client.catalog.get_table(table).location)
    return sorted(str(p.relative_to(root)) for p in root.rglob("*") if p.is_file())


def states(client: MetastoreClient) -> dict[str, int]:
    found: dict[str, int] = {}
    for row in client.show_transactions():
        found[row.state.value] = found.get(row.state.value, 0) + 1
    return found


def forget(client: MetastoreClient, fs: Filesystem) -> None:
    """Time passes: reaper and Cleaner have their turns, and what nobody needs to know of aborted txns is gone."""
    for _ in range(3):
        pass_time(client)
        run_reaper(client, fs)
        run_cleaner(client, fs)


def compact(client: MetastoreClient, fs: Filesystem, table: str, partition: str | None = None) -> None:
    """A major compaction, and time for the Cleaner."""
    client.compactions.enqueue(table, partition, type=CompactionType.MAJOR)
    run_worker(client, fs, partial(compact_model, fs), "worker")
    forget(client, fs)


def silent(client: MetastoreClient, host: str = "host1") -> None:
    """The process of all open txns is gone, and its time is up."""
    change(client, sa.update(TXNS).where(TXNS.c.TXN_STATE == "o", TXNS.c.TXN_HOST == host).values(TXN_LAST_HEARTBEAT=1))
