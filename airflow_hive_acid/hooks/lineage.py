"""What a task's statements have read and written, gathered from the engine's events: lineage before it has a format.

Gathering keeps references and computes nothing; who wants lineage (OpenLineage, hook lineage) asks afterwards.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from airflow_hive_acid.engine.outcomes.events import (
    JobFinished,
    Published,
    StatementFinished,
    StatementPlanned,
    StatementStarted,
    TransactionAborted,
    TransactionCommitted,
    TransactionOpened,
)
from airflow_hive_acid.errors import HiveAcidError
from airflow_hive_acid.hooks.assets import table_asset

if TYPE_CHECKING:
    from airflow.sdk import BaseHook

    from airflow_hive_acid.engine.outcomes.events import Event
    from airflow_hive_acid.hooks.connection import HiveAcidConnection
    from airflow_hive_acid.settings import Settings
    from airflow_hive_acid.sql.lineage.values import Lineage

log = logging.getLogger(__name__)
URIS = "hive.metastore.uris"
_FAILURES = (HiveAcidError, ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
"""What a statement that was not foreseen may bring about; lineage never fails a task, and loses no other statement."""


@dataclass(slots=True)
class Output:
    """What was written to one table.

    :param write_id: the last one, None for a plain table.
    :param inserted: rows inserted, updated and deleted, as a user counts them.
    :param files: data files and their ``bytes``; None when an earlier try wrote them.
    """

    write_id: int | None = None
    inserted: int = 0
    updated: int = 0
    deleted: int = 0
    files: int | None = 0
    bytes: int | None = 0


@dataclass(slots=True)
class Txn:
    """One txn of the task.

    :param state: ``open``, ``committed`` or ``aborted``, as far as this task knows; ``read`` when it only read.
    :param operations: what it was declared for, by table.
    :param snapshot: up to which write id it saw each table.
    """

    txn_id: int
    state: str = "read"
    operations: dict[str, str] = field(default_factory=dict)
    write_ids: dict[str, int] = field(default_factory=dict)
    snapshot: dict[str, int] = field(default_factory=dict)


@dataclass(slots=True)
class Collected:
    """What the engine has told so far.

    :param planned: every statement on data that has run, was about to, or was applied by an earlier try.
    """

    planned: list[StatementPlanned] = field(default_factory=list)
    txns: dict[int, Txn] = field(default_factory=dict)
    outputs: dict[str, Output] = field(default_factory=dict)
    _pending: list[JobFinished | Published] = field(default_factory=list)
    _ran: bool = False

    def __call__(self, event: Event) -> None:
        """Note an event."""
        match event:
            case StatementStarted():
                self._ran = False
            case StatementPlanned():
                self.planned.append(event)
                if event.txn_id is not None:
                    txn = self._txn(event.txn_id)
                    txn.snapshot.update(event.snapshot)
                    if event.plan.write is not None and txn.state == "read":
                        txn.state, txn.write_ids = "open", dict(event.write_ids)  # opened by another task
            case TransactionOpened():
                self._pending.clear()
                txn = self._txn(event.txn_id)
                txn.operations, txn.write_ids = dict(event.operations), dict(event.write_ids)
                txn.state = "open"
            case JobFinished() | Published():
                self._ran = True
                self._pending.append(event)
            case TransactionAborted():
                self._txn(event.txn_id).state = "aborted"
                self._pending.clear()
            case TransactionCommitted():
                txn = self._txn(event.txn_id)
                txn.state = "committed"
                self._settle(txn.write_ids)
            case StatementFinished() if not self._ran and event.result.write_ids:
                self._earlier(event)

    def still_open(self) -> dict[str, Output]:
        """What was written in a txn that this task leaves open: it is committed by another one."""
        unsettled = Collected(outputs={}, _pending=list(self._pending))
        for txn in self.txns.values():
            if txn.state == "open":
                unsettled._settle(txn.write_ids)
        return unsettled.outputs

    def lineages(self) -> list[Lineage]:
        """Column lineage, one for each table that was written and one for all queries."""
        from airflow_hive_acid.sql import parse_script
        from airflow_hive_acid.sql.lineage.statements import lineage_of  # the SQL parser, which only lineage needs here
        from airflow_hive_acid.sql.lineage.values import merged

        found = []
        for told in self.planned:
            statement = told.plan.statement
            if told.plan.kind == "program":
                continue  # a function of somebody's own: what it does with what it reads nobody can see
            try:
                known = {**told.catalog_views, **told.tables}
                found.append(
                    lineage_of(statement, known.__getitem__, told.views, queries=told.queries, parse=parse_script)
                )
            except _FAILURES as problem:
                log.warning("no column lineage of %r: %s: %s", statement.text[:80], type(problem).__name__, problem)
        return list(merged(found))

    def _txn(self, txn_id: int) -> Txn:
        return self.txns.setdefault(txn_id, Txn(txn_id))

    def _settle(self, write_ids: dict[str, int]) -> None:
        for event in self._pending:
            if event.table is None:
                continue
            output = self.outputs.setdefault(event.table, Output())
            output.write_id = write_ids.get(event.table, output.write_id)
            if isinstance(event, Published):
                output.files = None if output.files is None else output.files + event.files
                output.bytes = None if output.bytes is None else output.bytes + event.bytes
            else:
                output.inserted += event.inserted
                output.updated += event.updated
                output.deleted += event.deleted
        self._pending.clear()

    def _earlier(self, event: StatementFinished) -> None:
        """A statement that an earlier try has applied (R14): its rows are told for all its tables together."""
        result = event.result
        for table, write_id in result.write_ids.items():
            output = self.outputs.setdefault(table, Output())
            output.write_id, output.files, output.bytes = write_id, None, None
            if len(result.write_ids) == 1:
                output.inserted += result.inserted
                output.updated += result.updated
                output.deleted += result.deleted
        if result.txn_id is not None:
            txn = self._txn(result.txn_id)
            txn.state = "committed"
            txn.write_ids.update(result.write_ids)


def namespace_of(connection: HiveAcidConnection, settings: Settings) -> str:
    """OpenLineage's name for the metastore: ``hive://host:port``.

    The thrift address of ``hive.metastore.uris`` where it is known, because other engines use that; else host and port
    of the metastore's database, and for a file the id of the connection. Nothing secret is in it.
    """
    first = settings.string(URIS).split(",")[0].strip()
    parts = urlsplit(first if "://" in first else f"thrift://{first}")
    if parts.hostname:
        return _hive(parts.hostname, parts.port)
    url = connection.metastore_url
    return _hive(url.host, url.port) if url.host else _hive(connection.conn_id, None)


def report_to_airflow(hook: BaseHook, collected: Collected, conn_id: str) -> None:
    """Tell Airflow's hook lineage of the tables, where something reads it: for code of one's own that uses the hook.

    Without a reader nothing is imported: making the collector would load the asset modules of every provider.
    """
    from airflow_hive_acid import airflow_versions

    if not airflow_versions.has_lineage_readers():
        return
    from airflow_hive_acid.airflow_versions import get_hook_lineage_collector

    collector = get_hook_lineage_collector()
    for told in collected.planned:
        for read in told.plan.reads:
            collector.add_input_asset(context=hook, uri=table_asset(read.table, conn_id).uri)
    for table, output in {**collected.still_open(), **collected.outputs}.items():
        extra: dict[str, Any] = {"write_id": output.write_id, "rows": output.inserted + output.updated}
        collector.add_output_asset(context=hook, uri=table_asset(table, conn_id).uri, asset_extra=extra)


def _hive(host: str, port: int | None) -> str:
    return f"hive://{host}" if port is None else f"hive://{host}:{port}"
