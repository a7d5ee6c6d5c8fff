"""Dropping databases, tables and partitions: rows of the catalog, children first, and what the txn tables remember.

Hive's foreign keys do not cascade. The txn tables have no keys to the catalog at all: what they remember of a dropped
table (components, write ids, compactions) would be applied to the next table of that name, so it goes too
(Hive's cleanupRecords). WRITE_SET and the rows of open readers stay; they end with their txns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy import and_, delete, exists, select

from airflow_hive_acid.errors import InvalidArgumentsError
from airflow_hive_acid.format.partitions import is_escaped_twice
from airflow_hive_acid.metastore.catalog.rows.objects import delete_unused_columns
from airflow_hive_acid.metastore.catalog.rows.partitions import delete_partitions
from airflow_hive_acid.metastore.database.database import chunks
from airflow_hive_acid.metastore.names.partitions import unambiguous_spellings
from airflow_hive_acid.metastore.schema.hive_catalog import (
    BUCKETING_COLS,
    DATABASE_PARAMS,
    DB_PRIVS,
    DBS,
    KEY_CONSTRAINTS,
    MV_TABLES_USED,
    PARTITION_KEYS,
    PARTITIONS,
    SD_PARAMS,
    SDS,
    SERDE_PARAMS,
    SERDES,
    SKEWED_COL_NAMES,
    SKEWED_COL_VALUE_LOC_MAP,
    SKEWED_VALUES,
    SORT_COLS,
    TAB_COL_STATS,
    TABLE_PARAMS,
    TBL_COL_PRIVS,
    TBL_PRIVS,
    TBLS,
)
from airflow_hive_acid.metastore.schema.hive_transactions import (
    COMPACTION_METRICS_CACHE,
    COMPACTION_QUEUE,
    COMPLETED_COMPACTIONS,
    COMPLETED_TXN_COMPONENTS,
    NEXT_WRITE_ID,
    TXN_COMPONENTS,
    TXN_TO_WRITE_ID,
    TXNS,
)
from airflow_hive_acid.metastore.schema.streams import HIVE_ACID_STREAM, read_offsets

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import ColumnElement, Connection

    from airflow_hive_acid.metastore.catalog.values.model import Table
    from airflow_hive_acid.metastore.names.objects import TableName

_BY_PARTITION = (
    (TXN_COMPONENTS, "TC"),
    (COMPLETED_TXN_COMPONENTS, "CTC"),
    (COMPACTION_QUEUE, "CQ"),
    (COMPLETED_COMPACTIONS, "CC"),
    (COMPACTION_METRICS_CACHE, "CMC"),
)
_BY_TABLE = ((TXN_TO_WRITE_ID, "T2W"), (NEXT_WRITE_ID, "NWI"))
_FORGOTTEN_AT_ONCE = 400
"""Partitions of one statement, each of which may have two names: together they fit into one IN list."""


def check_droppable(name: str, tables: Sequence[str], *, cascade: bool) -> None:
    """Refuse to drop the default database, or one with tables unless they are to go with it."""
    if name == "default":
        raise InvalidArgumentsError("the database default cannot be dropped; Hive needs it")
    if tables and not cascade:
        raise InvalidArgumentsError(
            f"database {name} is not empty: it holds {len(tables)} tables, among them {tables[0]}; "
            "drop them first or use CASCADE"
        )


def delete_table(connection: Connection, table_id: int) -> None:
    """Delete all rows of a table and its partitions."""
    storage_ids = [
        *delete_partitions(
            connection, list(connection.execute(select(PARTITIONS.c.PART_ID).where(PARTITIONS.c.TBL_ID == table_id))
                             .scalars())),
        *connection.execute(select(TBLS.c.SD_ID).where(TBLS.c.TBL_ID == table_id)).scalars(),
    ]  # fmt: skip
    for child in (PARTITION_KEYS, TABLE_PARAMS, TAB_COL_STATS, TBL_PRIVS, TBL_COL_PRIVS):
        connection.execute(delete(child).where(child.c.TBL_ID == table_id))
    for column in (KEY_CONSTRAINTS.c.CHILD_TBL_ID, KEY_CONSTRAINTS.c.PARENT_TBL_ID):
        connection.execute(delete(KEY_CONSTRAINTS).where(column == table_id))
    connection.execute(delete(TBLS).where(TBLS.c.TBL_ID == table_id))
    delete_storage(connection, [storage_id for storage_id in storage_ids if storage_id is not None])


def lock_and_locate(connection: Connection, table: Table) -> tuple[str, ...]:
    """Lock a table's row before it is deleted, and say where its files are: its directory, and partitions elsewhere.

    :raises InvalidArgumentsError: when a materialized view is made of it.
    """
    connection.execute(select(TBLS.c.TBL_ID).where(TBLS.c.TBL_ID == table.id).with_for_update())
    if connection.execute(select(exists().where(MV_TABLES_USED.c.TBL_ID == table.id))).scalar_one():
        raise InvalidArgumentsError(
            f"{table.qualified_name} is used by a materialized view; drop the view in Hive first"
        )
    return locate(connection, table)


def locate(connection: Connection, table: Table) -> tuple[str, ...]:
    """Where a table's files are: its directory, and those of partitions elsewhere."""
    elsewhere = connection.execute(
        select(SDS.c.LOCATION)
        .join(PARTITIONS, PARTITIONS.c.SD_ID == SDS.c.SD_ID)
        .where(PARTITIONS.c.TBL_ID == table.id, ~SDS.c.LOCATION.startswith(f"{table.location}/", autoescape=True))
    ).scalars()
    return tuple(location for location in (table.location, *elsewhere) if location)


def delete_storage(connection: Connection, storage_ids: Sequence[int]) -> None:
    """Delete storage descriptors with their serdes, and column descriptors that nothing else uses."""
    for batch in chunks(storage_ids):
        used = connection.execute(select(SDS.c.SERDE_ID, SDS.c.CD_ID).where(SDS.c.SD_ID.in_(batch))).all()
        serde_ids = [serde_id for serde_id, _ in used if serde_id is not None]
        connection.execute(delete(SKEWED_VALUES).where(SKEWED_VALUES.c.SD_ID_OID.in_(batch)))
        for child in (SKEWED_COL_VALUE_LOC_MAP, SKEWED_COL_NAMES, BUCKETING_COLS, SORT_COLS, SD_PARAMS, SDS):
            connection.execute(delete(child).where(child.c.SD_ID.in_(batch)))
        for child in (SERDE_PARAMS, SERDES):
            connection.execute(delete(child).where(child.c.SERDE_ID.in_(serde_ids)))
        delete_unused_columns(connection, (column_id for _, column_id in used))


def delete_database(connection: Connection, database_id: int) -> None:
    """Delete the rows of a database whose tables are gone."""
    for child in (DATABASE_PARAMS, DB_PRIVS, DBS):
        connection.execute(delete(child).where(child.c.DB_ID == database_id))


def forget_object(connection: Connection, db: str, table: str | None = None) -> None:
    """Delete what the txn tables remember of a database or a table."""
    for target, prefix in (*_BY_PARTITION, *_BY_TABLE):
        connection.execute(delete(target).where(*_matches(target, prefix, db, table)))


def forget_streams(connection: Connection, table: TableName, table_id: int) -> None:
    """Delete the records of a table's streams: what they have committed is not in the next table of that name."""
    for stream in streams_of(connection, table, table_id):
        connection.execute(delete(HIVE_ACID_STREAM).where(stream))


def streams_of(connection: Connection, table: TableName, table_id: int) -> list[ColumnElement[bool]]:
    """What finds each of a table's streams by its key, so that a change of it waits for no commit of another stream.

    They are looked up without a lock. One that belongs to another table when it is changed is not found any more. Nor
    is one that has written to a former table of that name, which a Hive has renamed: it knows nothing of streams.
    """
    key, of_table = HIVE_ACID_STREAM.c.HSR_STREAM, HIVE_ACID_STREAM.c.HSR_TABLE == str(table)
    rows = connection.execute(select(key, HIVE_ACID_STREAM.c.HSR_OFFSETS).where(of_table))
    return [and_(key == stream, of_table) for stream, text in rows if read_offsets(text)[1] in (None, table_id)]


def forget_partitions(
    connection: Connection, table: TableName, partitions: Sequence[str], *, dropped_by: int | None = None
) -> None:
    """Delete what the txn tables remember of partitions.

    The components are kept that may be of another partition, as a Hive spells it, and those of txns that spell it so:
    the Cleaner forgets them when it has seen that no files of theirs are left.

    :param partitions: the catalog's names.
    :param dropped_by: a txn that drops partitions beside others who read or write them. Of those that are open the
        components stay: an INSERT of a Hive that begins meanwhile adds the partition again, or is aborted and has left
        files that a partition which is added again must not show.
    """
    # Many by one statement: most of these tables have no index of partitions, and drops make the queue long.
    for batch in chunks(partitions, _FORGOTTEN_AT_ONCE):
        for target, prefix in _BY_PARTITION:
            names = list(batch)
            conditions = _matches(target, prefix, table.database, table.name)
            if target is TXN_COMPONENTS:
                names = [name for name in names if not is_escaped_twice(name)]
            elif target is COMPLETED_TXN_COMPONENTS:
                names = unambiguous_spellings(connection, table, names)
            if target is TXN_COMPONENTS and dropped_by is not None:
                opened = select(TXNS.c.TXN_ID).where(TXNS.c.TXN_STATE == "o", TXNS.c.TXN_ID != dropped_by)
                conditions.append(target.c.TC_TXNID.not_in(opened))
            if names:
                connection.execute(delete(target).where(*conditions, target.c[f"{prefix}_PARTITION"].in_(names)))


def _matches(target: Any, prefix: str, db: str, table: str | None) -> list[Any]:
    conditions = [target.c[f"{prefix}_DATABASE"] == db]
    if table is not None:
        conditions.append(target.c[f"{prefix}_TABLE"] == table)
    return conditions
