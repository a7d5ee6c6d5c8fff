"""Whether there is anything to do: what a waiting Worker or Cleaner asks every few seconds, from the metastore alone.

Nothing is listed, claimed or changed here, and nothing depends on the answer being complete: whoever waits looks for
itself when the wait is over, and does not wait for ever.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_hive_acid.maintenance.cleaner.rules import Verdict, may_clean
from airflow_hive_acid.maintenance.cleaner.subject import fate_of
from airflow_hive_acid.maintenance.thresholds import CleanerThresholds
from airflow_hive_acid.metastore.compaction import RegisteredReaders, read_horizon, read_registered

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sqlalchemy import Connection

    from airflow_hive_acid.metastore import MetastoreClient
    from airflow_hive_acid.metastore.compaction import Compaction, Waiting
    from airflow_hive_acid.metastore.names import TableName

_LOOKED_AT = 200
"""So many finished compactions are judged in one look; the oldest first."""


def plan(waiting: list[Waiting], threads: int, pools: Mapping[str, int]) -> dict[str | None, int]:
    """How many workers to start: no more than have something to do, and than a pool has threads.

    :param threads: ``hive.compactor.worker.threads``: of workers without a pool, which take overdue requests as well.
    :param pools: ``hive.compactor.worker.<pool>.threads`` by pool.
    :return: workers by pool; None for those without one.
    """
    by_pool = {each.pool: each for each in waiting}
    without = by_pool[None].requests if None in by_pool else 0
    overdue = sum(each.overdue for each in waiting)
    found: dict[str | None, int] = {None: min(without + overdue, threads)}
    for pool, limit in pools.items():
        found[pool] = min(by_pool[pool].requests if pool in by_pool else 0, limit)
    return found


def workers_wanted(client: MetastoreClient, threads: int, pools: Mapping[str, int]) -> dict[str | None, int]:
    """How many workers the queue could use now; see :func:`plan`."""
    timeout = client.settings.milliseconds("hive.compactor.worker.pool.timeout")
    return plan(client.compactions.waiting(timeout), threads, pools)


def is_something_to_clean(client: MetastoreClient) -> bool:
    """Whether a Cleaner would find a finished compaction or a dropped directory that nobody needs any more."""
    retention = CleanerThresholds.of(client.settings).retention_ms
    requests = client.compactions.find_ready_to_clean(retention, _LOOKED_AT)
    if not requests:
        return False
    return client.database.read(lambda connection: _any_ready(client, connection, requests))


def _any_ready(client: MetastoreClient, connection: Connection, requests: list[Compaction]) -> bool:
    features = client.database.features(connection)
    horizon = read_horizon(connection, features, client.gap_timeout_ms)
    registered: dict[TableName, RegisteredReaders] = {}
    for request in requests:
        table = request.resource.table_name
        if table not in registered:
            registered[table] = read_registered(connection, features, table)
        if may_clean(request, horizon, fate_of(connection, request), registered[table]).verdict is not Verdict.WAIT:
            return True
    return False
