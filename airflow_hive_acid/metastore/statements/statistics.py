"""ANALYZE TABLE: what was counted under a snapshot becomes the catalog's statistics, in the commit of a txn.

Hive answers COUNT, MIN and MAX from statistics that are called exact. Ours are called so only if the snapshot saw all
there is when they are written: no other write id of the table is open, and none has been given since. Nobody gets one
until the commit is done, so whoever writes next finds the claim and takes it away (``metastore.txns.statistics``; a
Hive counts on from it). Locks and write id are those of Hive's ANALYZE.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

from sqlalchemy import select

from airflow_hive_acid.format.row_counts import is_of
from airflow_hive_acid.metastore.catalog.rows import alteration as rows
from airflow_hive_acid.metastore.catalog.rows.ids import IdKind
from airflow_hive_acid.metastore.catalog.rows.partitions import find_partitions
from airflow_hive_acid.metastore.catalog.rows.reader import read_partitions_by_id
from airflow_hive_acid.metastore.catalog.rows.statistics import Look, write_column_statistics
from airflow_hive_acid.metastore.database.codes import LockType
from airflow_hive_acid.metastore.names.objects import table_name
from airflow_hive_acid.metastore.protocol.ddl import ddl_transaction, table_lock
from airflow_hive_acid.metastore.protocol.transaction import reader_document
from airflow_hive_acid.metastore.schema.hive_transactions import NEXT_WRITE_ID
from airflow_hive_acid.metastore.setup.abilities import require_hive_4
from airflow_hive_acid.metastore.txns.snapshots import take_snapshot
from airflow_hive_acid.metastore.txns.statistics import STATISTICS_ACCURATE

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from sqlalchemy import Connection

    from airflow_hive_acid.format.write_ids import ValidWriteIdList
    from airflow_hive_acid.metastore.catalog.rows.statistics import Counted
    from airflow_hive_acid.metastore.catalog.values.model import Table
    from airflow_hive_acid.metastore.names.objects import TableName
    from airflow_hive_acid.metastore.statements.locked_tables import LockedTables


class StatisticsStatements:
    """The statement that writes statistics."""

    def __init__(self, tables: LockedTables) -> None:
        self._tables = tables
        self._client = tables.client
        self._catalog = tables.catalog
        self._changes = tables.catalog.changes

    def analyze(
        self,
        name: str,
        count: Callable[[Look], Mapping[str, Counted]],
        *,
        of_columns: bool = True,
        agent_info: str | None = None,
    ) -> tuple[Mapping[str, Counted], str | None]:
        """Count, and write down what was counted.

        :param count: is given the snapshot; answers by partition name, of a table without partitions by the empty one.
            Partitions that are gone when it is written are left out.
        :param of_columns: what is counted has statistics of columns.
        :return: what was counted, and why it is not called exact (None if it is).
        :raises SchemaVersionError: before anything is counted, on a metastore of a Hive before 4, which finds
            statistics of columns by names that we do not write.
        """
        if of_columns:
            require_hive_4(
                self._client.database.layout(), "ANALYZE … FOR COLUMNS", "let its Hive count, or leave FOR COLUMNS out"
            )
        key = table_name(name)
        before = self._catalog.get_table(name)
        with ddl_transaction(self._client, [table_lock(key, LockType.SHARED_READ)], agent_info=agent_info) as ddl:
            look, write_id = Look(before, None, None, None), None
            if before.is_transactional:
                write_id = ddl.allocate(key)
                txns = self._client.get_valid_txns(ddl.txn_id)
                write_ids = self._client.get_valid_write_ids(str(key), txns)[str(key)]
                look = Look(before, reader_document(ddl.txn_id, txns, {key: write_ids}), write_ids, txns)
            counted = count(look)
            found = sum(len(one.columns) for one in counted.values())
            self._catalog.ids.reserve(_ids_of(before), found)

            def change(connection: Connection) -> str | None:
                table = self._tables.locked(connection, key, before)
                why = self._doubt(connection, key, look.write_ids, write_id)
                self._write(connection, table, counted, write_id, exact=why is None)
                return why

            return counted, ddl.commit(change)

    def _doubt(
        self, connection: Connection, key: TableName, seen: ValidWriteIdList | None, own: int | None
    ) -> str | None:
        if seen is None:
            return "a table without transactions may be written by anybody"
        # Nobody is given a write id until this commits: who is given one later finds what is written here.
        connection.execute(
            select(NEXT_WRITE_ID.c.NWI_NEXT)
            .where(NEXT_WRITE_ID.c.NWI_DATABASE == key.database, NEXT_WRITE_ID.c.NWI_TABLE == key.name)
            .with_for_update()
        ).all()
        now = take_snapshot(connection, [key], 0, self._client.gap_timeout_ms).write_ids[key]
        return None if is_of(seen, now, own) else "others wrote to it meanwhile, or are about to"

    def _write(
        self, connection: Connection, table: Table, counted: Mapping[str, Counted], write_id: int | None, *, exact: bool
    ) -> None:
        take = self._catalog.ids.take
        if not table.is_partitioned:
            after = replace(table, properties=_with(table.properties, counted[""], exact=exact))
            self._tables.write_table(connection, table, after)
            rows.advance_write_id(connection, table, write_id)
            write_column_statistics(connection, {table.id: counted[""].columns}, take, of_partitions=False)
            self._tables.altered(connection, table, table_name(table.qualified_name), write_id)
            return
        known = find_partitions(connection, table, sorted(counted))
        before = read_partitions_by_id(connection, [partition.id for partition in known.values()])
        changes = [
            (part, replace(part, properties=_with(part.properties, counted[part.name], exact=exact)))
            for part in before.values()
        ]
        rows.write_partitions(connection, table, changes, self._changes.user, take)
        rows.advance_write_id(connection, table, write_id, *before)
        columns = {part.id: counted[part.name].columns for part in before.values()}
        write_column_statistics(connection, columns, take, of_partitions=True)
        self._catalog.events.partitions_altered(connection, table, list(before))


def _ids_of(table: Table) -> IdKind:
    return IdKind.PARTITION_STATISTICS if table.is_partitioned else IdKind.TABLE_STATISTICS


def _with(properties: Mapping[str, str], counted: Counted, *, exact: bool) -> dict[str, str]:
    """Parameters with what was counted.

    A claim that is there holds: whoever writes takes it away. So what it says of other columns is kept.
    """
    after = {**properties, "numFiles": str(counted.files), "totalSize": str(counted.bytes)}
    if counted.rows is None:
        return after
    after |= {"numRows": str(counted.rows), "rawDataSize": "0"}  # 0: Hive takes the size of the files
    claimed = _claimed(after.pop(STATISTICS_ACCURATE, None))
    if not exact:
        return after
    for column in counted.columns:
        claimed.discard(column.name)
        if column.exact:
            claimed.add(column.name)
    claim: dict[str, Any] = {"BASIC_STATS": "true"}
    if claimed:
        claim["COLUMN_STATS"] = dict.fromkeys(sorted(claimed), "true")
    return {**after, STATISTICS_ACCURATE: json.dumps(claim, separators=(",", ":"))}


def _claimed(text: str | None) -> set[str]:
    """The columns whose statistics are called exact."""
    try:
        found = json.loads(text or "{}").get("COLUMN_STATS", {})
        return {name for name, says in found.items() if says == "true"}
    except (ValueError, AttributeError):  # whoever wrote it meant something else
        return set()
