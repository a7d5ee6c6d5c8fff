"""ABORT TRANSACTIONS and ABORT COMPACTIONS.

R4: the jobs of a txn are fenced before it is marked aborted, so that nothing of it can be published later.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_hive_acid.engine.results import Rows
from airflow_hive_acid.format.jobs import Column
from airflow_hive_acid.maintenance.fences import fence_jobs_of
from airflow_hive_acid.metastore.codes import AbortReason
from airflow_hive_acid.sql.statements import ShowKind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow_hive_acid.engine.context import Context
    from airflow_hive_acid.filesystem import Filesystem
    from airflow_hive_acid.metastore import MetastoreClient
    from airflow_hive_acid.metastore.aborts import AbortedTxns
    from airflow_hive_acid.sql.statements import Abort


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
        **dict.fromkeys(done.missing, ("Error", "No such transaction, or it is no longer listed")),
    }
    return _rows("txnid", [[txn_id, *said[txn_id]] for txn_id in statement.ids])


def abort_txns(
    client: MetastoreClient, filesystem: Filesystem, txn_ids: Sequence[int], why: AbortReason | str
) -> AbortedTxns:
    """Fence the jobs of txns and abort those that are open (R4).

    :param why: kept with the txns.
    """
    text = "a query command" if why is AbortReason.QUERY else str(why)
    fence_jobs_of(client, filesystem, txn_ids, f"its txn is ended: {text}")
    return client.abort_txns(txn_ids, why)


def _rows(name: str, rows: list[list[object]]) -> Rows:
    return Rows((Column(name, "bigint"), Column("status", "string"), Column("message", "string")), rows)
