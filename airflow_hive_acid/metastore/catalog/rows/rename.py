"""Renaming tables and partitions: the catalog's rows, and every row of the txn tables that bears the name.

Hive's onRename. What is known of the writes of an object must follow it: its write id numbering goes on under the new
name, conflicts are found, aborted writes are cleaned. MIN_HISTORY_WRITE_ID and HIVE_ACID_JOB follow, too: a reader that
registered keeps its files, and a job is fenced under the table's name of today. So do streams, the Cleaner's record and
its trash: what was moved there can become a table with the columns of today's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy import String, case, delete, func, insert, literal, select, update

from airflow_hive_acid.errors import InvalidArgumentsError
from airflow_hive_acid.format.partitions import escaped_twice, is_escaped_twice, spellings
from airflow_hive_acid.format.paths import join, relative_to
from airflow_hive_acid.metastore.catalog.rows.drop import streams_of
from airflow_hive_acid.metastore.compaction.measures import rename_measures
from airflow_hive_acid.metastore.compaction.model import format_properties, parse_properties
from airflow_hive_acid.metastore.names.objects import TableName
from airflow_hive_acid.metastore.names.partitions import unambiguous_spellings
from airflow_hive_acid.metastore.schema.cleaning import HIVE_ACID_CLEANING, HIVE_ACID_TRASH
from airflow_hive_acid.metastore.schema.hive_catalog import PARTITION_KEY_VALS, PARTITIONS, SDS, TBLS
from airflow_hive_acid.metastore.schema.hive_transactions import (
    COMPACTION_METRICS_CACHE,
    COMPACTION_QUEUE,
    COMPLETED_COMPACTIONS,
    COMPLETED_TXN_COMPONENTS,
    HIVE_LOCKS,
    MIN_HISTORY_WRITE_ID,
    NEXT_WRITE_ID,
    TXN_COMPONENTS,
    TXN_TO_WRITE_ID,
    WRITE_SET,
)
from airflow_hive_acid.metastore.schema.streams import HIVE_ACID_STREAM
from airflow_hive_acid.metastore.txns.jobs import rename_jobs

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from airflow_hive_acid.metastore.catalog.values.model import Partition, Table
    from airflow_hive_acid.metastore.database.database import Features

_HISTORY = (MIN_HISTORY_WRITE_ID, "MH_DATABASE", "MH_TABLE")
_OURS = (
    (HIVE_ACID_CLEANING, "HCL_DATABASE", "HCL_TABLE", "HCL_PARTITION"),
    (HIVE_ACID_TRASH, "HTR_DATABASE", "HTR_TABLE", "HTR_PARTITION"),
)
_BY_TABLE = ((TXN_TO_WRITE_ID, "T2W_DATABASE", "T2W_TABLE"), (NEXT_WRITE_ID, "NWI_DATABASE", "NWI_TABLE"))
_OF_ANOTHER = (*_BY_TABLE, (TXN_COMPONENTS, "TC_DATABASE", "TC_TABLE"))
_BY_PARTITION = (
    (TXN_COMPONENTS, "TC_DATABASE", "TC_TABLE", "TC_PARTITION"),
    (COMPLETED_TXN_COMPONENTS, "CTC_DATABASE", "CTC_TABLE", "CTC_PARTITION"),
    (HIVE_LOCKS, "HL_DB", "HL_TABLE", "HL_PARTITION"),
    (COMPACTION_QUEUE, "CQ_DATABASE", "CQ_TABLE", "CQ_PARTITION"),
    (COMPLETED_COMPACTIONS, "CC_DATABASE", "CC_TABLE", "CC_PARTITION"),
    (COMPACTION_METRICS_CACHE, "CMC_DATABASE", "CMC_TABLE", "CMC_PARTITION"),
    (WRITE_SET, "WS_DATABASE", "WS_TABLE", "WS_PARTITION"),
)


def rename_table_rows(
    connection: Connection, table: Table, new: TableName, database_id: int, location: str, features: Features
) -> None:
    """Give a table another name, and perhaps another database and directory.

    :param location: where it lies afterwards; partitions inside the old directory lie inside the new one.
    """
    old = (table.db, table.name)
    if location != table.location:
        _move_locations(connection, table, location)
        _move_dropped(connection, table, None, table.location, location)
    connection.execute(update(TBLS).where(TBLS.c.TBL_ID == table.id).values(TBL_NAME=new.name, DB_ID=database_id))
    for target, database, name in _OF_ANOTHER:
        # Left by a former table of the new name, or one that never came to be (CREATE TABLE … AS that failed): its
        # numbering must not become this one's, nor files of this one count as those of its aborted writes.
        connection.execute(delete(target).where(target.c[database] == new.database, target.c[name] == new.name))
    tables: list[tuple[Any, str, str]] = [*_BY_TABLE, *((t, d, n) for t, d, n, _ in _BY_PARTITION)]
    if features.min_history_write_id:
        tables.append(_HISTORY)
    if features.decisions:  # our tables' version 5
        tables += [(t, d, n) for t, d, n, _ in _OURS]
        _move_trashed(connection, table, table.location, location)
    for target, database, name in tables:
        of_table = update(target).where(target.c[database] == old[0], target.c[name] == old[1])
        connection.execute(of_table.values({database: new.database, name: new.name}))
    if features.replication:  # our tables' version 7
        for stream in streams_of(connection, TableName(*old), table.id):
            connection.execute(update(HIVE_ACID_STREAM).where(stream).values(HSR_TABLE=str(new)))
    if features.measures:
        rename_measures(connection, new.__class__(*old), new)
    if features.extensions:
        rename_jobs(connection, new.__class__(*old), new)


def rename_partition_rows(
    connection: Connection, table: Table, partition: Partition, new: Partition, features: Features
) -> None:  # fmt: skip
    """Give a partition other values, and perhaps another directory."""
    of_partition = PARTITIONS.c.PART_ID == partition.id
    connection.execute(update(PARTITIONS).where(of_partition).values(PART_NAME=new.name))
    for index, value in enumerate(new.values):
        key = PARTITION_KEY_VALS.c
        changed = update(PARTITION_KEY_VALS).where(key.PART_ID == partition.id, key.INTEGER_IDX == index)
        connection.execute(changed.values(PART_KEY_VAL=value))
    storage = select(PARTITIONS.c.SD_ID).where(of_partition)
    connection.execute(update(SDS).where(SDS.c.SD_ID.in_(storage)).values(LOCATION=new.location))
    _move_dropped(connection, table, partition.name, partition.location, new.location)
    if features.decisions:
        _move_trashed(connection, table, partition.location, new.location)
    for target, database, name, part in (*_BY_PARTITION, *(_OURS if features.decisions else ())):
        for old_name, new_name in _respelled(connection, target, table, partition.name, new.name):
            of_old = target.c[database] == table.db, target.c[name] == table.name, target.c[part] == old_name
            if target is TXN_COMPONENTS and is_escaped_twice(old_name):
                # It may be of another partition: files of an aborted txn are looked for in both.
                rest = [column for column in target.c if column.name != part]
                rows = select(*rest, literal(new_name, String)).where(*of_old)
                connection.execute(insert(target).from_select([*(column.name for column in rest), part], rows))
            else:
                connection.execute(update(target).where(*of_old).values({part: new_name}))


def _respelled(connection: Connection, target: Any, table: Table, old: str, new: str) -> list[tuple[str, str]]:
    """How a table of the txn tables may spell a partition, and how it is to spell it from now on.

    A Hive and we lock it by a name that is escaped twice; components and write sets hold either spelling.
    """
    if target is HIVE_LOCKS:
        return [(stored, escaped_twice(new)) for stored in reversed(spellings(old))]
    both = target in (TXN_COMPONENTS, COMPLETED_TXN_COMPONENTS, WRITE_SET)
    names = unambiguous_spellings(connection, TableName(table.db, table.name), [old]) if both else [old]
    return [(stored, new if stored == old else escaped_twice(new)) for stored in names]


def _move_locations(connection: Connection, table: Table, location: str) -> None:
    """Rewrite the directory of the table, and of the partitions inside it."""
    inside = SDS.c.LOCATION.startswith(f"{table.location}/", autoescape=True)
    moved = literal(location, String) + func.substr(SDS.c.LOCATION, len(table.location) + 1)
    of_table = select(TBLS.c.SD_ID).where(TBLS.c.TBL_ID == table.id)
    of_partitions = select(PARTITIONS.c.SD_ID).where(PARTITIONS.c.TBL_ID == table.id)
    connection.execute(update(SDS).where(SDS.c.SD_ID.in_(of_table)).values(LOCATION=location))
    rewritten = case((inside, moved), else_=SDS.c.LOCATION)
    connection.execute(update(SDS).where(SDS.c.SD_ID.in_(of_partitions)).values(LOCATION=rewritten))


def _move_trashed(connection: Connection, table: Table, old: str, new: str) -> None:
    """Let the trash know where something lies that belongs to a batch and is not moved there yet: it joins the batch
    from its new place, or of two batches neither would be whole."""
    if old == new:
        return
    trash = HIVE_ACID_TRASH.c
    inside = trash.HTR_SOURCE.startswith(f"{old}/", autoescape=True)
    of_old = trash.HTR_DATABASE == table.db, trash.HTR_TABLE == table.name, inside
    moved = literal(new, String) + func.substr(trash.HTR_SOURCE, len(old) + 1)
    connection.execute(update(HIVE_ACID_TRASH).where(*of_old).values(HTR_SOURCE=moved))


def _move_dropped(connection: Connection, table: Table, partition: str | None, old: str, new: str) -> None:
    """Let what drops have left to the Cleaner follow a directory that it lies in: that of partitions dropped since, or
    of one that was added again and renamed."""
    if old == new:
        return
    queue = COMPACTION_QUEUE.c
    left = select(queue.CQ_ID, queue.CQ_TBLPROPERTIES).where(
        queue.CQ_DATABASE == table.db, queue.CQ_TABLE == table.name, queue.CQ_TBLPROPERTIES.is_not(None)
    )
    if partition is not None:
        left = left.where(queue.CQ_PARTITION == partition)
    for request_id, text in connection.execute(left).all():
        try:
            properties = parse_properties(text)
        except InvalidArgumentsError:
            continue  # the Cleaner says so
        below = relative_to(old, properties.get("location", ""))
        if below is None:
            continue
        properties["location"] = join(new, *([below] if below else []))
        moved = update(COMPACTION_QUEUE).where(queue.CQ_ID == request_id)
        connection.execute(moved.values(CQ_TBLPROPERTIES=format_properties(properties)))
