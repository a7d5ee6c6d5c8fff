"""Rows of a notification log, a real Hive's or ours, to :class:`ReplicationEvent`.

What cannot be used is kept: a type that nobody knows becomes UNKNOWN, a message that is not what its type promises
UNREADABLE, with the reason: what it changed must be read anew. Types of Hive's without a copy at a destination become
NOT_REPLICATED. Names are lower-cased, and partition names are made as Hive makes them. Of a rename the message has the
old names and the row the new ones.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from airflow_hive_acid.errors import InvalidArgumentsError
from airflow_hive_acid.format.partitions import partition_name
from airflow_hive_acid.format.table_kinds import is_transactional
from airflow_hive_acid.metastore.catalog import parse_database, parse_partition, parse_table
from airflow_hive_acid.metastore.names import TableName, database_name, table_name
from airflow_hive_acid.metastore.notifications import CATALOG
from airflow_hive_acid.replication.events.event import EventKind, ReplicationEvent

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from airflow_hive_acid.metastore.catalog import Table
    from airflow_hive_acid.metastore.notifications import LoggedEvent

_SUFFIX = "_EVENT"
"""Some types carry it in the log, and not all versions of Hive agree on which."""
_STATISTICS: Final = "column statistics are those of the destination's own rows; they are gathered there"
_CONSTRAINT: Final = "constraints that no engine enforces are not replicated; create them at the destination"
_FUNCTION: Final = "functions are code, which an administrator installs at the destination"
_SERVER: Final = "it belongs to the metastore server, not to a database"
_SCHEMAS: Final = "the schema registry is not replicated"

NOT_REPLICATED: Final[dict[str, str]] = {
    **dict.fromkeys(
        ("UPDATE_TBL_COL_STAT", "DELETE_TBL_COL_STAT", "UPDATE_PART_COL_STAT", "DELETE_PART_COL_STAT",
         "UPDATE_TABLE_COLUMN_STAT", "DELETE_TABLE_COLUMN_STAT", "UPDATE_PARTITION_COLUMN_STAT",
         "DELETE_PARTITION_COLUMN_STAT", "UPDATE_PART_COL_STAT_EVENT_BATCH", "UPDATE_PARTITION_COLUMN_STAT_BATCH",
         "UPDATE_PART_COL_STAT_BATCH"), _STATISTICS),
    **dict.fromkeys(
        ("ADD_PRIMARYKEY", "ADD_FOREIGNKEY", "ADD_UNIQUECONSTRAINT", "ADD_NOTNULLCONSTRAINT", "ADD_DEFAULTCONSTRAINT",
         "ADD_CHECKCONSTRAINT", "DROP_CONSTRAINT"), _CONSTRAINT),
    **dict.fromkeys(("CREATE_FUNCTION", "DROP_FUNCTION"), _FUNCTION),
    **dict.fromkeys(
        ("CREATE_CATALOG", "DROP_CATALOG", "ALTER_CATALOG", "CREATE_DATACONNECTOR", "DROP_DATACONNECTOR",
         "ALTER_DATACONNECTOR", "RELOAD"), _SERVER),
    **dict.fromkeys(
        ("CREATE_ISCHEMA", "ALTER_ISCHEMA", "DROP_ISCHEMA", "ADD_SCHEMA_VERSION", "ALTER_SCHEMA_VERSION",
         "DROP_SCHEMA_VERSION"), _SCHEMAS),
}  # fmt: skip
"""Types of Hive's without a copy at the destination, and why."""
SILENT: Final = frozenset(name for name, why in NOT_REPLICATED.items() if why == _STATISTICS) | {"RELOAD"}
"""Those of them that nobody needs to hear of: nothing is missing at the destination."""

_MOST_TXNS = 1 << 20
"""Hive opens at most hive.txn.max.open.batch (1000) at once."""
_FILE_STATISTICS = ("numFiles", "totalSize")
_Fields = dict[str, Any]


def decode_event(logged: LoggedEvent) -> ReplicationEvent:
    """What a row of the log says; never an error."""
    name = base_type(logged.type)
    bare = _bare(logged)
    if logged.catalog not in (None, "", CATALOG):
        why = f"it is about the catalog {logged.catalog!r}; only {CATALOG!r} is replicated"
        return replace(bare, kind=EventKind.NOT_REPLICATED, problem=why)
    if name in NOT_REPLICATED:
        return replace(bare, kind=EventKind.NOT_REPLICATED, problem=NOT_REPLICATED[name])
    known = _READERS.get(name)
    if known is None:
        return replace(bare, problem=f"{logged.type} is no type of event that this version knows")
    kind, read = known
    if logged.table and bare.database is not None and bare.table is None and kind is not EventKind.ALTER_TABLE:
        why = f"the table {logged.table[:100]!a}: names of letters, digits and _ are replicated; rename it"
        return replace(bare, kind=EventKind.NOT_REPLICATED, problem=why)
    try:
        return _checked(replace(bare, kind=kind, **read(bare, logged.message())))
    except (
        InvalidArgumentsError, KeyError, TypeError, ValueError, AttributeError, IndexError, ArithmeticError,
        RecursionError,
    ) as error:  # fmt: skip
        why = str(error) if isinstance(error, InvalidArgumentsError) else repr(error)
        problem = f"the message of {bare} is not as Hive writes it: {why}"
        return replace(bare, kind=EventKind.UNREADABLE, problem=problem)


def _checked(event: ReplicationEvent) -> ReplicationEvent:
    """Refuse names and ids that nobody could use: no table of a metastore has them, and every query would fail.

    :raises InvalidArgumentsError: naming one.
    """
    for table in (event.table, event.table_before):
        if table is not None:
            table_name(str(table))
    if event.database is not None:
        database_name(event.database)
    for partition in (*event.partitions, *event.partitions_before):
        if not partition or "\0" in partition or any("\ud800" <= c <= "\udfff" for c in partition):
            raise InvalidArgumentsError(f"{partition[:100]!a} is no name of a partition")
    numbers = (*event.txn_ids, *(number for pair in event.write_ids for number in pair))
    if any(not 0 <= number < 1 << 63 for number in numbers):
        raise InvalidArgumentsError("it has an id that no txn or write id can be")
    return event


def base_type(name: str) -> str:
    """A type without the suffix that it has in some versions."""
    return name.removesuffix(_SUFFIX)


def promised_kind(name: str) -> EventKind | None:
    """What an event of this type is when its message can be read; None for a type that nobody knows."""
    known = _READERS.get(base_type(name))
    return None if known is None else known[0]


def is_acid(table: Table) -> bool:
    """Whether a table is one of Hive's ACID system (``transactional``)."""
    return is_transactional(table.properties)


def _bare(logged: LoggedEvent) -> ReplicationEvent:
    database = _usable(logged.database)
    name = _usable(logged.table)
    table = TableName(database, name) if database and name else None
    return ReplicationEvent(
        logged.event_id, logged.time, EventKind.UNKNOWN, logged.type, logged, database=database, table=table
    )


def _usable(name: str | None) -> str | None:
    """A name of the row, lower-case; None for one that no database or table of ours could have."""
    try:
        return None if not name else table_name(f"d.{name}").name
    except InvalidArgumentsError:
        return None


def _create_database(_: ReplicationEvent, message: Mapping[str, Any]) -> _Fields:
    return {"database_object": parse_database(message["dbJson"])}


def _drop_database(bare: ReplicationEvent, _: Mapping[str, Any]) -> _Fields:
    _required(bare.database, "its database")
    return {}


def _alter_database(_: ReplicationEvent, message: Mapping[str, Any]) -> _Fields:
    return {"database_object": parse_database(message["dbObjAfterJson"])}


def _table_only(bare: ReplicationEvent, message: Mapping[str, Any]) -> _Fields:
    table = parse_table(message["tableObjJson"])
    return {"table": _required(bare.table, "its table"), "table_object": table, "transactional": is_acid(table)}


def _create_table(bare: ReplicationEvent, message: Mapping[str, Any]) -> _Fields:
    return {**_table_only(bare, message), "files": _files(message.get("files"))}


def _alter_table(bare: ReplicationEvent, message: Mapping[str, Any]) -> _Fields:
    before, after = parse_table(message["tableObjBeforeJson"]), parse_table(message["tableObjAfterJson"])
    name, old = (TableName(t.db.lower(), t.name.lower()) for t in (after, before))
    return {
        # The object knows the new name; which of the two the row is filed under has changed between versions of Hive.
        "database": name.database, "table": name, "table_before": None if name == old else old,
        "table_object": after, "table_before_object": before,
        "transactional": is_acid(after), "was_transactional": is_acid(before),
        "truncated": _is_true(message.get("isTruncateOp")),
        "moved": before.storage.location != after.storage.location
        or _other_files(before.properties, after.properties),
    }  # fmt: skip


def _add_partitions(bare: ReplicationEvent, message: Mapping[str, Any]) -> _Fields:
    fields = _partitions(bare, message)
    listed = [file for entry in message.get("partitionFiles") or () for file in entry.get("files") or ()]
    return {**fields, "files": _files(listed)}


def _alter_partitions(bare: ReplicationEvent, message: Mapping[str, Any]) -> _Fields:
    return {
        **_partitions(bare, message), "truncated": _is_true(message.get("isTruncateOp")),
        # What they were before is not told, so other files are taken for possible.
        "moved": True,
    }  # fmt: skip


def _alter_partition(bare: ReplicationEvent, message: Mapping[str, Any]) -> _Fields:
    fields = _table_only(bare, message)
    columns = fields["table_object"].partition_columns
    before = parse_partition(message["partitionObjBeforeJson"], columns)
    after = parse_partition(message["partitionObjAfterJson"], columns)
    elsewhere = before.storage.location != after.storage.location
    return {
        **fields, "partitions": (after.name,), "partitions_before": () if after.name == before.name else (before.name,),
        "partition_objects": (after,), "truncated": _is_true(message.get("isTruncateOp")),
        "moved": elsewhere or _other_files(before.properties, after.properties),
        "relocated": elsewhere and after.name == before.name,
    }  # fmt: skip


def _drop_partitions(bare: ReplicationEvent, message: Mapping[str, Any]) -> _Fields:
    fields = _table_only(bare, message)
    return {**fields, "partitions": _names(fields["table_object"], message["partitions"])}


def _insert(bare: ReplicationEvent, message: Mapping[str, Any]) -> _Fields:
    fields = _table_only(bare, message)
    fields |= {"files": _files(message.get("files")), "replace": _is_true(message.get("replace"))}
    if message.get("ptnObjJson") is not None:
        partition = parse_partition(message["ptnObjJson"], fields["table_object"].partition_columns)
        fields |= {"partitions": (partition.name,), "partition_objects": (partition,)}
    return fields


def _open_txn(_: ReplicationEvent, message: Mapping[str, Any]) -> _Fields:
    ids = message.get("txnIds")
    if ids is None:
        first, last = int(message["fromTxnId"]), int(message["toTxnId"])
        if last - first >= _MOST_TXNS:
            raise InvalidArgumentsError(f"it opens the txns {first} to {last}; nobody opens as many at once")
        ids = range(first, last + 1)
    return {"txn_ids": tuple(int(txn_id) for txn_id in ids)}


def _end_txn(_: ReplicationEvent, message: Mapping[str, Any]) -> _Fields:
    # Before Hive 4.2 a message names the txn alone. Without write ids the databases say nothing either.
    named = message.get("databases") or message.get("dbsUpdated")
    known = tuple(sorted({str(name).lower() for name in named})) if named and message.get("writeIds") else None
    return {"txn_ids": (int(message["txnid"]),), "databases": known}


def _alloc_write_ids(_: ReplicationEvent, message: Mapping[str, Any]) -> _Fields:
    table = TableName(str(message["dbName"]).lower(), str(message["tableName"]).lower())
    pairs = zip(message["txnIdList"], message["writeIdList"], strict=True)
    write_ids = tuple((int(txn_id), int(write_id)) for txn_id, write_id in pairs)
    return {
        "database": table.database, "table": table, "txn_ids": tuple(txn_id for txn_id, _ in write_ids),
        "write_ids": write_ids, "transactional": True,
    }  # fmt: skip


def _acid_write(_: ReplicationEvent, message: Mapping[str, Any]) -> _Fields:
    table = TableName(str(message["database"]).lower(), str(message["table"]).lower())
    txn_id = int(message["txnid"])
    partition = message.get("partition")
    return {
        "database": table.database, "table": table, "txn_ids": (txn_id,), "transactional": True,
        "write_ids": ((txn_id, int(message["writeId"])),), "partitions": (str(partition),) if partition else (),
        "files": _files(message.get("files")),
    }  # fmt: skip


def _batch_acid_write(bare: ReplicationEvent, message: Mapping[str, Any]) -> _Fields:
    table = TableName(str(message["database"]).lower(), str(message["table"]).lower())
    txn_id = int(message["txnid"])
    write_ids = message.get("writeIds") or ([message["writeId"]] if "writeId" in message else [])
    return {
        "database": table.database, "table": table, "txn_ids": (txn_id,), "transactional": True,
        "write_ids": tuple((txn_id, int(write_id)) for write_id in sorted(set(write_ids))),
        "partitions": tuple(str(name) for name in message.get("partitions") or () if name),
    }  # fmt: skip


def _commit_compaction(_: ReplicationEvent, message: Mapping[str, Any]) -> _Fields:
    table = TableName(str(message["dbname"]).lower(), str(message["tableName"]).lower())
    partition = message.get("partName")
    return {
        "database": table.database, "table": table, "txn_ids": (int(message["txnid"]),), "transactional": True,
        "partitions": (str(partition),) if partition else (),
    }  # fmt: skip


def _partitions(bare: ReplicationEvent, message: Mapping[str, Any]) -> _Fields:
    fields = _table_only(bare, message)
    columns = fields["table_object"].partition_columns
    objects = tuple(parse_partition(text, columns) for text in message.get("partitionListJson") or ())
    names = tuple(p.name for p in objects) or _names(fields["table_object"], message["partitions"])
    return {**fields, "partitions": names, "partition_objects": objects}


def _names(table: Table, listed: Iterable[Mapping[str, Any]]) -> tuple[str, ...]:
    names = []
    for pairs in listed:
        values = {str(column).lower(): str(value) for column, value in pairs.items()}
        names.append(partition_name([(c.name, values[c.name.lower()]) for c in table.partition_columns]))
    return tuple(names)


def _other_files(before: Mapping[str, str], after: Mapping[str, str]) -> bool:
    """Whether the statistics of files changed: the only sign of new data of a Hive that writes no INSERT events
    (``hive.metastore.dml.events`` is off by default).
    """
    return any(before.get(key) != after.get(key) for key in _FILE_STATISTICS)


def _files(listed: Iterable[str] | None) -> tuple[str, ...]:
    """URIs without check sums, trash and directories, which follow after ``#``."""
    return tuple(str(file).split("#", 1)[0] for file in listed or ())


def _is_true(value: object) -> bool:
    return str(value).lower() == "true"


def _required(value: Any, what: str) -> Any:
    if value is None:
        raise InvalidArgumentsError(f"the row does not name {what}")
    return value


_READERS: Final[dict[str, tuple[EventKind, Callable[[ReplicationEvent, Mapping[str, Any]], _Fields]]]] = {
    "CREATE_DATABASE": (EventKind.CREATE_DATABASE, _create_database),
    "DROP_DATABASE": (EventKind.DROP_DATABASE, _drop_database),
    "ALTER_DATABASE": (EventKind.ALTER_DATABASE, _alter_database),
    "CREATE_TABLE": (EventKind.CREATE_TABLE, _create_table),
    "DROP_TABLE": (EventKind.DROP_TABLE, _table_only),
    "ALTER_TABLE": (EventKind.ALTER_TABLE, _alter_table),
    "ADD_PARTITION": (EventKind.ADD_PARTITION, _add_partitions),
    "DROP_PARTITION": (EventKind.DROP_PARTITION, _drop_partitions),
    "ALTER_PARTITION": (EventKind.ALTER_PARTITION, _alter_partition),
    "ALTER_PARTITIONS": (EventKind.ALTER_PARTITION, _alter_partitions),
    "INSERT": (EventKind.INSERT, _insert),
    "OPEN_TXN": (EventKind.OPEN_TXN, _open_txn),
    "COMMIT_TXN": (EventKind.COMMIT_TXN, _end_txn),
    "ABORT_TXN": (EventKind.ABORT_TXN, _end_txn),
    "ALLOC_WRITE_ID": (EventKind.ALLOC_WRITE_ID, _alloc_write_ids),
    "ACID_WRITE": (EventKind.ACID_WRITE, _acid_write),
    "BATCH_ACID_WRITE": (EventKind.ACID_WRITE, _batch_acid_write),
    "COMMIT_COMPACTION": (EventKind.COMMIT_COMPACTION, _commit_compaction),
}
