"""Which files writes have brought: ACID_WRITE and INSERT, for those who copy tables (``hive.metastore.dml.events``).

ACID_WRITE is no event but a row of TXN_WRITE_NOTIFICATION_LOG per txn, table and partition, which readers of COMMIT_TXN
look up; it is written inside the commit, before any global lock (R15). INSERT is an event, for tables that are not
transactional.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from sqlalchemy import and_, bindparam, func, insert, select, update

from airflow_hive_acid.errors import InvalidArgumentsError, NoSuchObjectError
from airflow_hive_acid.format.table_kinds import is_transactional
from airflow_hive_acid.metastore.catalog.rows.reader import no_such_table, read_tables, read_whole_partitions
from airflow_hive_acid.metastore.catalog.thrift import messages
from airflow_hive_acid.metastore.database.clock import clock_ms
from airflow_hive_acid.metastore.names.objects import table_name
from airflow_hive_acid.metastore.schema.hive_transactions import SEQUENCE_TABLE, TXN_WRITE_NOTIFICATION_LOG

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from sqlalchemy import Connection

    from airflow_hive_acid.metastore.catalog.values.model import Table, WholePartition
    from airflow_hive_acid.metastore.database.database import Database
    from airflow_hive_acid.metastore.names.objects import TableName
    from airflow_hive_acid.metastore.notifications.log import Notifications
    from airflow_hive_acid.settings import Settings

SEQUENCE = "org.apache.hadoop.hive.metastore.model.MTxnWriteNotificationLog"

_W = TXN_WRITE_NOTIFICATION_LOG.c
_OBJECT = and_(
    _W.WNL_TXNID == bindparam("txn_id"),
    _W.WNL_DATABASE == bindparam("db"),
    _W.WNL_TABLE == bindparam("tbl"),
    _W.WNL_PARTITION == bindparam("part"),
)
_CONTENT = {
    "WNL_TABLE_OBJ": bindparam("table_object", type_=sa.Text),
    "WNL_PARTITION_OBJ": bindparam("partition_object", type_=sa.Text),
    "WNL_FILES": bindparam("files", type_=sa.Text),
    "WNL_EVENT_TIME": sa.cast(clock_ms() // 1000, sa.Integer),
}
_FILES = select(_W.WNL_FILES).where(_OBJECT).with_for_update()
_APPEND = update(TXN_WRITE_NOTIFICATION_LOG).where(_OBJECT).values(_CONTENT)
_INSERT = insert(TXN_WRITE_NOTIFICATION_LOG).values(
    WNL_ID=bindparam("id"),
    WNL_TXNID=bindparam("txn_id"),
    WNL_WRITEID=bindparam("write_id"),
    WNL_DATABASE=bindparam("db"),
    WNL_TABLE=bindparam("tbl"),
    WNL_PARTITION=bindparam("part"),
    **_CONTENT,
)
_OF_SEQUENCE = SEQUENCE_TABLE.c.SEQUENCE_NAME == SEQUENCE
_LOCK_ID = select(SEQUENCE_TABLE.c.NEXT_VAL).where(_OF_SEQUENCE).with_for_update()
_SET_ID = update(SEQUENCE_TABLE).where(_OF_SEQUENCE).values(NEXT_VAL=bindparam("next"))
_CREATE_SEQUENCE = insert(SEQUENCE_TABLE).values(SEQUENCE_NAME=SEQUENCE, NEXT_VAL=bindparam("next"))
_HIGHEST_ID = select(func.coalesce(func.max(_W.WNL_ID), 0))


@dataclass(frozen=True, slots=True)
class Write:
    """What a txn has written into a table or one partition of it.

    :param partition: its name, empty without partitions.
    :param files: URI of each file, and the name of the delta or base directory it lies in.
    """

    table: TableName
    write_id: int
    partition: str
    files: tuple[tuple[str, str], ...]


class WriteEvents:
    """ACID_WRITE and INSERT of one metastore; nothing is written unless both switches are on."""

    def __init__(self, database: Database, log: Notifications, settings: Settings) -> None:
        self._database = database
        self._log = log
        self._wanted = settings.flag("hive.metastore.dml.events")

    def enabled(self, connection: Connection) -> bool:
        """Whether files are told."""
        return self._wanted and self._log.enabled(connection)

    def acid_written(self, connection: Connection, txn_id: int, writes: Iterable[Write]) -> None:
        """Record what a txn has written; again for the same object adds to its files.

        :raises NoSuchObjectError: when the catalog does not know a table or partition.
        """
        listed = list(writes)
        if not listed or not self.enabled(connection):
            return
        for write in listed:
            table, partition = _objects(connection, write.table, write.partition)
            key = {"txn_id": txn_id, "db": write.table.database, "tbl": write.table.name, "part": write.partition}
            content = messages.acid_write_row(table, partition, write.files)
            earlier = connection.execute(_FILES, key).first()
            if earlier is None:
                row = {**key, **content, "id": _next_id(connection), "write_id": write.write_id}
                connection.execute(_INSERT, row)
            else:
                files = messages.FILE_SEPARATOR.join(filter(None, (earlier.WNL_FILES, content["files"])))
                connection.execute(_APPEND, {**key, **content, "files": files})

    def inserted(self, name: str, files: Sequence[str], *, partition: str | None = None, replace: bool = False) -> None:
        """Tell that files came into a table that is not transactional (Hive's fireListenerEvent).

        :param partition: its name, of a partitioned table.
        :param replace: whether they took the place of what was there.
        :raises InvalidArgumentsError: for a transactional table, whose commits tell what they bring.
        """
        key = table_name(name)

        def operation(connection: Connection) -> None:
            table, part = _objects(connection, key, partition or "")
            if is_transactional(table.properties):
                raise InvalidArgumentsError(f"{key} is transactional; what a txn wrote is told by its commit")
            if self.enabled(connection):
                self._log.write(connection, [messages.insert(table, part, files, replace=replace)])

        self._database.run(operation)


def _objects(connection: Connection, key: TableName, partition: str) -> tuple[Table, WholePartition | None]:
    table = read_tables(connection, [key]).get(key)
    if table is None:
        raise no_such_table(connection, *key)
    if not partition:
        return table, None
    found = read_whole_partitions(connection, [(table.id, partition)])
    if not found:
        raise NoSuchObjectError(f"{key} has no partition {partition}")
    return table, found[table.id, partition]


def _next_id(connection: Connection) -> Any:
    next_id = connection.execute(_LOCK_ID).scalar()
    if next_id is None:
        next_id = connection.execute(_HIGHEST_ID).scalar_one() + 1
        connection.execute(_CREATE_SEQUENCE, {"next": next_id + 1})
    else:
        connection.execute(_SET_ID, {"next": next_id + 1})
    return next_id
