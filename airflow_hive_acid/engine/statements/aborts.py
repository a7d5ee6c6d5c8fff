"""ABORT TRANSACTIONS and ABORT COMPACTIONS.

R4: a txn is given up, then its jobs are fenced, then it is marked aborted; so nothing of it can be published later, and
nothing that its commit has made visible is touched.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_hive_acid.engine.outcomes.results import Rows
from airflow_hive_acid.format.jobs import Column
from airflow_hive_acid.maintenance.warehouse.fences import end_txns
from airflow_hive_acid.metastore.database import AbortReason
from airflow_hive_acid.sql.model.statements import ShowKind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow_hive_acid.engine.context import Context
    from airflow_hive_acid.filesystem import Filesystem
    from airflow_hive_acid.metastore import MetastoreClient
    from airflow_hive_acid.metastore.txns import AbortedTxns
    from airflow_hive_acid.sql.model.statements import Abort


def abort(context: Context, statement: Abort) -> Rows:
    """Abort what is named; one row for each id says what became of it."""
    if statement.kind is ShowKind.COMPACTIONS:
        answers = context.client.compactions.abort(statement.ids, user=context.client.user)
        return _rows("compactionid", [[a.id, "Successful" if a.aborted else "Error", a.message] for a in answers])
    done = abort_txns(context.client, context.filesystem, statement.ids, AbortReason.QUERY)
    said = {
        **dict.fromkeys(done.aborted, ("Successful", "aborted")),
        **dict.fromkeys(done.already_aborted, ("Successful", "was aborted before")),
        **dict.fromkeys(done.committed, ("Error", "is committed, and stays so")),
        **dict.fromkeys(done.ending, ("Successful", "cannot commit any more; the reaper moves its files back")),
        **dict.fromkeys(done.missing, ("Error", "No such transaction, or it is no longer listed")),
    }
    return _rows("txnid", [[txn_id, *said[txn_id]] for txn_id in statement.ids])


def abort_txns(
    client: MetastoreClient, filesystem: Filesystem, txn_ids: Sequence[int], why: AbortReason | str
) -> AbortedTxns:
    """Give up those of the txns that are open, fence their jobs and abort them (R4); what is committed stays (R17).

    :param why: kept with the txns.
    """
    return end_txns(client, filesystem, txn_ids, why)


def _rows(name: str, rows: list[list[object]]) -> Rows:
    return Rows((Column(name, "bigint"), Column("status", "string"), Column("message", "string")), rows)
