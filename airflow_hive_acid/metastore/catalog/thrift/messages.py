"""Notification events of changes to the catalog: values to messages, key for key as Hive's JSONMessageFactory.

Objects travel inside as Thrift's JSON text. Files are listed where data came with the change (INSERT and ACID_WRITE);
Hive lists those of new tables and partitions only in databases that are a source of replication, and so do we not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_hive_acid.metastore.catalog.thrift.text import database_text, partition_text, table_text
from airflow_hive_acid.metastore.catalog.values.model import EXTERNAL_TABLE
from airflow_hive_acid.metastore.notifications.events import Event, EventType

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from airflow_hive_acid.metastore.catalog.values.model import Database, Table, WholePartition

NO_WRITE_ID = -1


def create_database(database: Database) -> Event:
    """A database was created."""
    return _of_database(EventType.CREATE_DATABASE, database, {"dbJson": database_text(database)})


def drop_database(database: Database) -> Event:
    """A database was dropped; the drops of its tables have events of their own, before this one."""
    return _of_database(EventType.DROP_DATABASE, database, {"dbJson": database_text(database)})


def alter_database(before: Database, after: Database) -> Event:
    """A database's properties, owner or location were changed."""
    texts = {"dbObjBeforeJson": database_text(before), "dbObjAfterJson": database_text(after)}
    return _of_database(EventType.ALTER_DATABASE, before, texts)


def create_table(table: Table) -> Event:
    """A table was created, without data."""
    return _of_table(EventType.CREATE_TABLE, table, {"tableObjJson": table_text(table), "files": []})


def drop_table(table: Table) -> Event:
    """A table was dropped with its partitions."""
    return _of_table(EventType.DROP_TABLE, table, {"tableObjJson": table_text(table)})


def alter_table(before: Table, after: Table, *, write_id: int | None = None, truncated: bool = False) -> Event:
    """A table was changed, or renamed: Hive files it under the new name.

    :param write_id: of the change, None outside a txn.
    :param truncated: whether it lost its data.
    """
    return _of_table(EventType.ALTER_TABLE, after, {
        # The names in the message are the old ones; who renames finds the new ones in the object.
        "db": before.db, "table": before.name, "tableObjBeforeJson": table_text(before),
        "tableObjAfterJson": table_text(after), "isTruncateOp": _word(truncated),
        "writeId": NO_WRITE_ID if write_id is None else write_id,
    })  # fmt: skip


def add_partitions(table: Table, partitions: Sequence[WholePartition]) -> Event:
    """Partitions were added."""
    # The files of external tables are not Hive's.
    owned = [] if table.type == EXTERNAL_TABLE else partitions
    return _of_table(EventType.ADD_PARTITION, table, {
        "tableObjJson": table_text(table), **_partitions(table, partitions),
        "partitionFiles": [{"partitionName": partition.name, "files": []} for partition in owned],
    })  # fmt: skip


def drop_partitions(table: Table, partitions: Sequence[WholePartition]) -> Event:
    """Partitions were dropped."""
    return _of_table(EventType.DROP_PARTITION, table, {
        "tableObjJson": table_text(table), "partitions": [_key_values(table, p) for p in partitions],
    })  # fmt: skip


def alter_partition(
    table: Table,
    before: WholePartition,
    after: WholePartition,
    *,
    write_id: int | None = None,
    truncated: bool = False,
) -> Event:
    """One partition was changed, or renamed."""
    return _of_table(EventType.ALTER_PARTITION, table, {
        "tableObjJson": table_text(table), "isTruncateOp": _word(truncated),
        "writeId": NO_WRITE_ID if write_id is None else write_id, "keyValues": _key_values(table, before),
        "partitionObjBeforeJson": partition_text(before), "partitionObjAfterJson": partition_text(after),
    })  # fmt: skip


def alter_partitions(table: Table, partitions: Iterable[WholePartition], *, truncated: bool = False) -> list[Event]:
    """Several partitions were changed; only what they are now is told.

    :return: an event for each write id among them: Hive refuses to read one with several.
    """
    by_write_id: dict[int, list[WholePartition]] = {}
    for partition in partitions:
        by_write_id.setdefault(partition.write_id, []).append(partition)
    return [
        _of_table(EventType.ALTER_PARTITIONS, table, {
            "tableObjJson": table_text(table), "isTruncateOp": _word(truncated), "writeId": write_id,
            **_partitions(table, listed),
        })
        for write_id, listed in by_write_id.items()
    ]  # fmt: skip


def insert(table: Table, partition: WholePartition | None, files: Iterable[str], *, replace: bool = False) -> Event:
    """Files came into a table or partition that is not transactional.

    :param replace: whether they took the place of what was there.
    """
    return _of_table(EventType.INSERT, table, {
        "tableObjJson": table_text(table), "ptnObjJson": None if partition is None else partition_text(partition),
        "replace": _word(replace), "files": [encode_file(file) for file in files],
    })  # fmt: skip


def acid_write_row(table: Table, partition: WholePartition | None, files: Iterable[tuple[str, str]]) -> dict[str, Any]:
    """What TXN_WRITE_NOTIFICATION_LOG holds of a write (ACID_WRITE): objects and files.

    :param files: URI of each file and the name of the delta or base directory it lies in.
    """
    return {
        "table_object": table_text(table),
        "partition_object": None if partition is None else partition_text(partition),
        "files": FILE_SEPARATOR.join(encode_file(file, directory) for file, directory in files),
    }


FILE_SEPARATOR = "]"
"""Between the files of one row of TXN_WRITE_NOTIFICATION_LOG."""


def encode_file(uri: str, directory: str = "") -> str:
    """A file as messages name it: URI, check sum, root of Hive's trash and directory, joined by ``#``.

    Check sum and trash are for databases that are a source of replication with change management.
    """
    return f"{uri}###{directory}"


def _of_database(kind: EventType, database: Database, message: dict[str, Any]) -> Event:
    return Event(kind, {"db": database.name, **message}, database.name)


def _of_table(kind: EventType, table: Table, message: dict[str, Any]) -> Event:
    named = {"db": table.db, "table": table.name, "tableType": table.type}
    return Event(kind, {**named, **message}, table.db, table.name)


def _partitions(table: Table, partitions: Sequence[WholePartition]) -> dict[str, Any]:
    return {
        "partitions": [_key_values(table, partition) for partition in partitions],
        "partitionListJson": [partition_text(partition) for partition in partitions],
    }


def _key_values(table: Table, partition: WholePartition) -> dict[str, str]:
    return {column.name: value for column, value in zip(table.partition_columns, partition.values, strict=True)}


def _word(value: bool) -> str:
    return "true" if value else "false"
