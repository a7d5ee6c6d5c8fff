"""Which events a policy is about, and which of its ACID tables have changed at the source.

A rename across the border of a policy is a drop or a creation. The drop of a database is that of the destination's only
when the policy has all of its tables; otherwise the tables go one by one, with events of their own.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from sqlalchemy import select

from airflow_hive_acid.metastore.names import TableName, table_name
from airflow_hive_acid.metastore.replica import read_records, txns_of
from airflow_hive_acid.metastore.schema import NEXT_WRITE_ID
from airflow_hive_acid.replication.events.decoder import promised_kind
from airflow_hive_acid.replication.events.event import TXN_KINDS, EventKind

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from sqlalchemy import Connection

    from airflow_hive_acid.format.write_ids import ValidTxnList, ValidWriteIdList
    from airflow_hive_acid.replication.events.event import ReplicationEvent
    from airflow_hive_acid.replication.policies.policy import Policy

_N = NEXT_WRITE_ID.c
_NEXT = select(_N.NWI_DATABASE, _N.NWI_TABLE, _N.NWI_NEXT)


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


def next_write_ids(connection: Connection) -> dict[TableName, int]:
    """The next write id of every table of a metastore."""
    return {TableName(row[0], row[1]): int(row[2]) for row in connection.execute(_NEXT)}


def copies(connection: Connection, policy: str) -> dict[TableName, ValidWriteIdList]:
    """What of the ACID tables of the source a policy has brought: their write ids as of the last sync, by the table's
    name there.
    """
    records = sorted(read_records(connection, policy).values(), key=lambda record: (record.state_id, record.table_id))
    return {table_name(record.source_table): record.write_ids for record in records}


def unfinished(known: Mapping[TableName, ValidWriteIdList]) -> set[TableName]:
    """Tables of the source of which there are copies with write ids whose txns were open there."""
    return {table for table, write_ids in known.items() if write_ids.open}


def seen_changed(
    connection: Connection, policy: Policy, known: Mapping[TableName, ValidWriteIdList], txns: ValidTxnList
) -> set[TableName]:
    """Tables of the source of which a snapshot may see what is not at the destination.

    To be asked after the snapshot was taken: whoever committed before it has its write ids.

    :param connection: to the source.
    :param known: see :func:`copies`.
    :param txns: that the snapshot sees.
    """
    following = next_write_ids(connection)
    found = {
        table
        for table, write_id in following.items()
        if policy.selects(table) and write_id != (known[table].high_watermark + 1 if table in known else 1)
    }
    for table in unfinished(known) & following.keys():
        owners = txns_of(connection, table, known[table].open)
        if policy.selects(table) and any(owners.get(w) not in txns.open for w in known[table].open):
            found.add(table)
    return found


def changed(
    tables: Iterable[TableName],
    policy: Policy,
    there: Mapping[TableName, int],
    here: Mapping[TableName, int],
    open_copies: set[TableName],
) -> frozenset[TableName]:
    """Tables of the source whose rows may differ from the destination's, whatever events say.

    :param there: next write ids at the source, ``here`` at the destination.
    :param open_copies: see :func:`unfinished`.
    """
    return frozenset(
        table for table in tables
        if there.get(table, 1) != here.get(policy.target(table), 1) or table in open_copies
    )  # fmt: skip
