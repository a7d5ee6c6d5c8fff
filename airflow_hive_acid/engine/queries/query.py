"""SELECT outside a transaction: under the snapshot of a registered, heart-beaten reader (R10, R16).

The reader stays registered until the last row has been fetched, so that no Cleaner removes a file under the query.
"""

from __future__ import annotations

import contextlib
import time
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow_hive_acid.engine.outcomes.events import JobFinished
from airflow_hive_acid.engine.outcomes.results import Rows, StatementResult
from airflow_hive_acid.engine.queries.announcements import tell
from airflow_hive_acid.engine.queries.blanks import with_blanks
from airflow_hive_acid.engine.tables.partitions import KnownPartitions
from airflow_hive_acid.engine.tables.read_counts import ReadsOfJob
from airflow_hive_acid.engine.tables.viewpoints import Looks
from airflow_hive_acid.errors import InvalidArgumentsError
from airflow_hive_acid.format.jobs import JobSpec
from airflow_hive_acid.maintenance.warehouse.expected import with_expected
from airflow_hive_acid.metastore.protocol import read_document

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from airflow_hive_acid.engine.context import Context
    from airflow_hive_acid.engine.locking.requests import Listed
    from airflow_hive_acid.engine.tables.snapshots import SnapshotLists
    from airflow_hive_acid.format.jobs import TableSnapshot
    from airflow_hive_acid.format.write_ids import ValidTxnList, ValidWriteIdList
    from airflow_hive_acid.metastore.catalog import Table
    from airflow_hive_acid.metastore.protocol import Patience
    from airflow_hive_acid.sql.model.plans import Plan, TableRead


def run_query(
    context: Context,
    plan: Plan,
    document: Mapping[str, Any] | None = None,
    limit: int | None = None,
    patience: Patience | None = None,
    *,
    locked: bool = False,
) -> StatementResult:
    """Run a planned SELECT and fetch its rows.

    :param limit: at most so many rows; 0 for the columns alone.
    :param patience: how long to wait here for locks; by default as long as the settings say.
    :param locked: the statement that it belongs to has asked for its locks already: it asks for none.
    :param document: of a reader opened earlier (``ReaderSnapshot.to_document()``): read what that reader sees.
    :raises InvalidArgumentsError: when that reader was not opened for a table of the query, and when the rows take
        more than ``hive.acid.select.max.bytes``.
    :raises LocksPendingError: when the patience was not enough; the request stays in the queue.
    :raises LocksDeniedForNowError: when it was not enough for locks that nobody queues for; nothing is held.
    """
    started = time.monotonic()
    session = context.application.ready()
    with _reader(context, plan, document, patience, locked=locked) as (reader, listed):
        tables = {read.table: context.table(read.table) for read in plan.reads}
        looks = Looks(context.client)
        snapshots = {
            read.view: _snapshot(context, looks, tables[read.table], read, reader, listed) for read in plan.reads
        }
        tell(context, plan, tables, reader)
        views = looks.views(plan, snapshots)
        job_id = str(uuid.uuid4())
        uri = session.rows_uri(job_id)
        step = plan.step(rows_uri=uri, limit=limit, max_bytes=most_bytes(context))
        result = session.run(JobSpec(job_id, step, views, plan.sources))
        rows = with_blanks(context, plan, views, Rows.of(result.columns, session.read_rows(uri)))
        looks.require_kept()
        reads = ReadsOfJob(context.client)
        for read in plan.reads if limit != 0 else ():  # with 0 it was asked for columns
            reads.saw(tables[read.table], read, snapshots[read.view])
        reads.tell()
        txn_id = None if reader is None else reader.txn_id
    context.emit(JobFinished("select", None, 0, 0, 0, result.rows, result.seconds))
    return StatementResult(plan.statement.text, "select", rows=rows, txn_id=txn_id, seconds=time.monotonic() - started)


def most_bytes(context: Context) -> int:
    """How much of a query's rows may come into this process."""
    return context.settings.integer("hive.acid.select.max.bytes")


@contextlib.contextmanager
def _reader(
    context: Context, plan: Plan, document: Mapping[str, Any] | None, patience: Patience | None, *, locked: bool
) -> Iterator[tuple[SnapshotLists | None, Listed]]:
    """The reader under which the query runs; None when it reads no table. Plain tables are locked, and that is all.

    With it the partitions that were listed under its locks.
    """
    tables = sorted(plan.operations)
    if not tables:
        yield None, {}
    elif document is None:
        with context.locking.reading(plan, patience, locked=locked) as own:
            yield own
    else:
        with _joined(context, document) as guest:
            transactional = {read.table for read in plan.reads if read.transactional}
            missing = [table for table in tables if table in transactional and table not in guest.snapshot]
            if missing:
                raise InvalidArgumentsError(
                    f"the snapshot was opened for {sorted(guest.snapshot)}, not for {missing}; "
                    "name all tables when it is opened"
                )
            yield guest, {}


@dataclass(frozen=True, slots=True)
class _Guest:
    """The lists of a reader that somebody else has opened, and will close."""

    txn_id: int
    valid_txns: ValidTxnList
    snapshot: Mapping[str, ValidWriteIdList]


@contextlib.contextmanager
def _joined(context: Context, document: Mapping[str, Any]) -> Iterator[_Guest]:
    """Read as an open reader does, and keep it alive meanwhile; its owner may be this very process."""
    txn_id, _, valid_txns, lists = read_document(document)
    context.client.heartbeat(txn_id)
    first = context.client.heartbeats.add(txn_id)
    try:
        yield _Guest(txn_id, valid_txns, {str(table): write_ids for table, write_ids in lists.items()})
    finally:
        if first:
            context.client.heartbeats.remove(txn_id)


def _snapshot(
    context: Context, looks: Looks, table: Table, read: TableRead, reader: SnapshotLists | None, listed: Listed
) -> TableSnapshot:
    partitions = listed.get((read.table, read.partitions))
    if partitions is None:
        partitions = KnownPartitions(context.client.catalog, table).matching(read.partitions)
    if reader is None or not table.is_transactional:
        return looks.snapshot(table, read, partitions, None, None)
    seen = looks.snapshot(table, read, partitions, reader.snapshot[read.table], reader.valid_txns)
    return with_expected(context.client, context.settings, table, seen)
