"""Which events a policy is about, and which of its ACID tables have changed at the source.

A rename across the border of a policy is a drop or a creation. The drop of a database is that of the destination's only
when the policy has all of its tables; otherwise the tables go one by one, with events of their own.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from sqlalchemy import bindparam, select

from airflow_hive_acid.metastore.objects import TableName
from airflow_hive_acid.metastore.schema_transactions import NEXT_WRITE_ID, REPL_TXN_MAP, TXN_TO_WRITE_ID
from airflow_hive_acid.replication.decoding import promised_kind
from airflow_hive_acid.replication.events import TXN_KINDS, EventKind

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from sqlalchemy import Connection

    from airflow_hive_acid.replication.events import ReplicationEvent
    from airflow_hive_acid.replication.policies import Policy

_N, _T, _M = NEXT_WRITE_ID.c, TXN_TO_WRITE_ID.c, REPL_TXN_MAP.c
_NEXT = select(_N.NWI_DATABASE, _N.NWI_TABLE, _N.NWI_NEXT)
_OPEN_HERE = (
    select(_T.T2W_DATABASE, _T.T2W_TABLE)
    .join(REPL_TXN_MAP, _M.RTM_TARGET_TXN_ID == _T.T2W_TXNID)
    .where(_M.RTM_REPL_POLICY == bindparam("policy"))
    .distinct()
)


def of_policy(event: ReplicationEvent, policy: Policy) -> ReplicationEvent | None:
    """The event as a policy sees it; None when it is not about anything that the policy replicates."""
    if event.kind in TXN_KINDS:
        return _of_txn(event, policy)
    if event.kind is EventKind.UNREADABLE and promised_kind(event.type) is EventKind.ALTER_TABLE:
        return event  # it may be a rename, and the name that the row does not have may be the policy's
    if event.table is None:
        return _of_database(event, policy)
    after = policy.selects(event.table)
    before = event.table_before
    if before is None or event.kind is not EventKind.ALTER_TABLE:
        return event if after else None
    if policy.selects(before):
        return event if after else replace(event, kind=EventKind.DROP_TABLE, table=before, table_before=None)
    return replace(event, kind=EventKind.CREATE_TABLE, table_before=None) if after else None


def _of_txn(event: ReplicationEvent, policy: Policy) -> ReplicationEvent | None:
    if event.table is not None:
        return event if policy.selects(event.table) else None
    if event.databases is not None and not any(policy.touches(name) for name in event.databases):
        return None
    return event


def _of_database(event: ReplicationEvent, policy: Policy) -> ReplicationEvent | None:
    if event.database is None:
        return event
    if not policy.touches(event.database):
        return None
    if event.kind is EventKind.DROP_DATABASE and not policy.owns(event.database):
        why = f"policy {policy.name} replicates some tables of {event.database} only; the database stays"
        return replace(event, kind=EventKind.NOT_REPLICATED, problem=why)
    return event


def next_write_ids(conn: Connection) -> dict[TableName, int]:
    """The next write id of every table of a metastore."""
    return {TableName(row[0], row[1]): int(row[2]) for row in conn.execute(_NEXT)}


def tables_with_open_copies(conn: Connection, policy: str) -> set[TableName]:
    """Tables of the destination with write ids of txns that were open at the source when they were copied."""
    return {TableName(row[0], row[1]) for row in conn.execute(_OPEN_HERE, {"policy": policy})}


def changed(
    tables: Iterable[TableName],
    policy: Policy,
    there: Mapping[TableName, int],
    here: Mapping[TableName, int],
    unfinished: set[TableName],
) -> frozenset[TableName]:
    """Tables of the source whose rows may differ from the destination's, whatever events say.

    :param there: next write ids at the source, ``here`` at the destination.
    :param unfinished: see :func:`tables_with_open_copies`.
    """
    return frozenset(
        table
        for table in tables
        if there.get(table, 1) != here.get(policy.target(table), 1) or policy.target(table) in unfinished
    )
