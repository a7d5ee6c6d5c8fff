"""Whole catalog objects, written as values: what an import brings, with everything Hive's metastore knows of it.

Many tables or partitions take as many statements as one: rows of all of them go to each of Hive's tables together.
Where an object exists, only what differs is written. Skewed values are not written (Hive keeps them in lists with ids
of their own; they say where rows lie, never which rows there are); constraints are no part of these objects.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from sqlalchemy import bindparam, delete, exists, select, tuple_, update

from airflow_hive_acid.metastore.catalog.descriptors import (
    change_parameters,
    delete_unused_columns,
    insert_columns,
    insert_many,
)
from airflow_hive_acid.metastore.catalog.ids import IdKind, IdPool
from airflow_hive_acid.metastore.catalog.thrift import messages
from airflow_hive_acid.metastore.catalog.thrift.objects import Skew
from airflow_hive_acid.metastore.catalog.thrift.reader import read_partition_objects, read_table_objects
from airflow_hive_acid.metastore.database.database import chunks
from airflow_hive_acid.metastore.names.objects import TableName
from airflow_hive_acid.metastore.schema.hive_catalog import (
    BUCKETING_COLS,
    CATALOG,
    DBS,
    PARTITION_KEY_VALS,
    PARTITION_KEYS,
    PARTITION_PARAMS,
    PARTITIONS,
    SD_PARAMS,
    SDS,
    SERDE_PARAMS,
    SERDES,
    SORT_COLS,
    TABLE_PARAMS,
    TBLS,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from sqlalchemy import Connection

    from airflow_hive_acid.metastore.catalog.thrift.objects import PartitionObject, Storage, TableObject
    from airflow_hive_acid.metastore.database.database import Database
    from airflow_hive_acid.metastore.notifications.log import Notifications

_AT_ONCE = 200
_TABLE_IDS = (
    select(DBS.c.NAME, TBLS.c.TBL_NAME, TBLS.c.TBL_ID)
    .join(DBS, DBS.c.DB_ID == TBLS.c.DB_ID)
    .where(DBS.c.CTLG_NAME == CATALOG, tuple_(DBS.c.NAME, TBLS.c.TBL_NAME).in_(bindparam("names", expanding=True)))
)
_IDS: Any = bindparam("ids", expanding=True)
_LOCK_TABLES = select(TBLS.c.TBL_ID).where(TBLS.c.TBL_ID.in_(_IDS)).order_by(TBLS.c.TBL_ID).with_for_update()
_PARTITION_IDS = select(PARTITIONS.c.TBL_ID, PARTITIONS.c.PART_NAME, PARTITIONS.c.PART_ID).where(
    tuple_(PARTITIONS.c.TBL_ID, PARTITIONS.c.PART_NAME).in_(bindparam("names", expanding=True))
)
_PARTITIONS_OF = select(PARTITIONS.c.TBL_ID, PARTITIONS.c.PART_NAME, PARTITIONS.c.PART_ID).where(
    PARTITIONS.c.TBL_ID.in_(_IDS)
)
_OF_TABLE, _OF_PARTITION = SDS.alias("of_table"), SDS.alias("of_partition")
_OTHER_COLUMNS = (
    select(TBLS.c.TBL_ID)
    .join(_OF_TABLE, _OF_TABLE.c.SD_ID == TBLS.c.SD_ID)
    .where(
        TBLS.c.TBL_ID.in_(_IDS),
        exists().where(
            PARTITIONS.c.TBL_ID == TBLS.c.TBL_ID,
            _OF_PARTITION.c.SD_ID == PARTITIONS.c.SD_ID,
            _OF_PARTITION.c.CD_ID != _OF_TABLE.c.CD_ID,
        ),
    )
)
_DATABASES = select(DBS.c.NAME, DBS.c.DB_ID).where(
    DBS.c.CTLG_NAME == CATALOG, DBS.c.NAME.in_(bindparam("names", expanding=True))
)


@dataclass(frozen=True, slots=True)
class StoredPartition:
    """A partition of the catalog with its id."""

    id: int
    object: PartitionObject


@dataclass(frozen=True, slots=True)
class TableWrite:
    """A table that is to be as ``after`` says; its id is that of ``before``, or a new one.

    :param cascade: let partitions that share its columns follow when these change.
    """

    after: TableObject
    before: TableObject | None = None
    cascade: bool = False

    @property
    def name(self) -> TableName:
        """Its name."""
        return TableName(self.after.db, self.after.name)


@dataclass(frozen=True, slots=True)
class PartitionWrite:
    """A partition that is to be as ``after`` says."""

    after: PartitionObject
    before: StoredPartition | None = None


@dataclass(frozen=True, slots=True)
class _Rows:
    """Ids of the rows that hold an object's storage."""

    owner: int
    storage: int
    columns: int
    serde: int


class ObjectRows:
    """Reads and writes whole objects inside somebody's transaction; events are collected for its end.

    :param log: where changes are told.
    :param ids: where new ids come from; by default a pool of its own, whose rest is given up.
    """

    def __init__(self, database: Database, log: Notifications, ids: IdPool | None = None) -> None:
        self._database = database
        self._ids = ids or IdPool(database)
        self._log = log

    def reserve(self, tables: int, partitions: int) -> None:
        """Fetch ids ahead of the transaction that may need them."""
        for kind, count in (
            (IdKind.TABLE, tables), (IdKind.PARTITION, partitions), (IdKind.COLUMNS, tables),
            (IdKind.STORAGE, tables + partitions), (IdKind.SERDE, tables + partitions),
        ):  # fmt: skip
            self._ids.reserve(kind, count)

    # --- reading --------------------------------------------------------------------------------------------------

    def find_tables(
        self, connection: Connection, names: Iterable[TableName], *, lock: bool = False
    ) -> dict[TableName, TableObject]:
        """Those of the tables that exist.

        :param lock: let nobody else change them until the transaction ends.
        """
        ids: dict[int, TableName] = {}
        for batch in chunks(sorted(set(names)), _AT_ONCE):
            rows = connection.execute(_TABLE_IDS, {"names": [tuple(name) for name in batch]})
            ids |= {row[2]: TableName(row[0], row[1]) for row in rows}
        if lock:
            for part in chunks(sorted(ids), _AT_ONCE):
                connection.execute(_LOCK_TABLES, {"ids": list(part)})
        return {ids[table_id]: found for table_id, found in read_table_objects(connection, ids).items()}

    def find_partitions(
        self, connection: Connection, wanted: Iterable[tuple[int, str]]
    ) -> dict[tuple[int, str], StoredPartition]:
        """Those of the partitions that exist, by table id and name."""
        keys: dict[int, tuple[int, str]] = {}
        for batch in chunks(sorted(set(wanted)), _AT_ONCE):
            keys |= {row[2]: (row[0], row[1]) for row in connection.execute(_PARTITION_IDS, {"names": list(batch)})}
        return {keys[i]: StoredPartition(i, found) for i, found in read_partition_objects(connection, keys).items()}

    def partitions_of(self, connection: Connection, table_id: int) -> dict[str, StoredPartition]:
        """All partitions of a table, by name."""
        return {name: stored for (_, name), stored in self.all_partitions(connection, [table_id]).items()}

    def all_partitions(
        self, connection: Connection, table_ids: Iterable[int]
    ) -> dict[tuple[int, str], StoredPartition]:
        """All partitions of several tables, by table id and name."""
        keys: dict[int, tuple[int, str]] = {}
        for batch in chunks(sorted(set(table_ids)), _AT_ONCE):
            keys |= {row[2]: (row[0], row[1]) for row in connection.execute(_PARTITIONS_OF, {"ids": list(batch)})}
        return {keys[i]: StoredPartition(i, found) for i, found in read_partition_objects(connection, keys).items()}

    def sharing_columns(self, connection: Connection, table_ids: Iterable[int]) -> set[int]:
        """Those of the tables all of whose partitions have the columns of the table, not lists of their own."""
        ids = set(table_ids)
        other: set[int] = set()
        for batch in chunks(sorted(ids), _AT_ONCE):
            other.update(connection.execute(_OTHER_COLUMNS, {"ids": list(batch)}).scalars())
        return ids - other

    def database_ids(self, connection: Connection, names: Iterable[str]) -> dict[str, int]:
        """Ids of those of the databases that exist."""
        return {row[0]: row[1] for row in connection.execute(_DATABASES, {"names": sorted(set(names))})}

    # --- writing --------------------------------------------------------------------------------------------------

    def write_tables(self, connection: Connection, writes: Sequence[TableWrite]) -> dict[TableName, TableObject]:
        """Create and change tables; each may be named once.

        :return: the tables with their ids.
        """
        new = [write for write in writes if write.before is None]
        old = [write for write in writes if write.before is not None]
        written = self._insert_tables(connection, new) | self._update_tables(connection, old)
        self._tell(
            connection,
            [
                messages.create_table(written[w.name]) if w.before is None
                else messages.alter_table(w.before, written[w.name])
                for w in writes
            ],
        )  # fmt: skip
        return written

    def write_partitions(
        self, connection: Connection, writes: Sequence[tuple[TableObject, Sequence[PartitionWrite]]]
    ) -> None:
        """Add and change partitions of tables (with their ids); each table and partition may be named once."""
        of_tables = _storage_rows(connection, TBLS, TBLS.c.TBL_ID, [table.id for table, _ in writes])
        new = [(table, write.after) for table, several in writes for write in several if write.before is None]
        old = [(table, write) for table, several in writes for write in several if write.before is not None]
        if new:
            self._insert_partitions(connection, of_tables, new)
        if old:
            self._update_partitions(connection, of_tables, old)
        events = []
        for table, several in writes:
            added = [write.after for write in several if write.before is None]
            events += [messages.add_partitions(table, list(part)) for part in chunks(added, _AT_ONCE)]
            events += [
                messages.alter_partition(table, write.before.object, write.after)
                for write in several
                if write.before is not None
            ]
        self._tell(connection, events)

    def _tell(self, connection: Connection, events: Sequence[Any]) -> None:
        if events and self._log.enabled(connection):
            self._log.later(connection, events)

    def _insert_tables(self, connection: Connection, writes: Sequence[TableWrite]) -> dict[TableName, TableObject]:
        if not writes:
            return {}
        databases = self.database_ids(connection, [write.after.db for write in writes])
        count = len(writes)
        taken = [
            self._ids.take(connection, kind, count)
            for kind in (IdKind.TABLE, IdKind.STORAGE, IdKind.COLUMNS, IdKind.SERDE)
        ]
        rows = [_Rows(*ids) for ids in zip(*taken, strict=True)]
        tables = [replace(write.after, id=row.owner) for write, row in zip(writes, rows, strict=True)]
        _insert_columns(connection, {row.columns: table.storage for row, table in zip(rows, tables, strict=True)})
        _insert_storage(connection, [(row, table.storage) for row, table in zip(rows, tables, strict=True)])
        insert_many(connection, TBLS, [
            {"TBL_ID": row.owner, "SD_ID": row.storage, "DB_ID": databases[table.db], "TBL_NAME": table.name,
             "CREATE_TIME": table.created, "LAST_ACCESS_TIME": table.last_access, **_table_values(table)}
            for row, table in zip(rows, tables, strict=True)
        ])  # fmt: skip
        insert_many(connection, TABLE_PARAMS, _parameters("TBL_ID", {table.id: table.parameters for table in tables}))
        insert_many(connection, PARTITION_KEYS, [row for table in tables for row in _keys(table)])
        return {TableName(table.db, table.name): table for table in tables}

    def _update_tables(self, connection: Connection, writes: Sequence[TableWrite]) -> dict[TableName, TableObject]:
        pairs = [(w.before, replace(w.after, id=w.before.id), w.cascade) for w in writes if w.before is not None]
        if not pairs:
            return {}
        rows = _storage_rows(connection, TBLS, TBLS.c.TBL_ID, [after.id for _, after, _ in pairs])
        changed = [
            {"b_id": after.id, **_table_values(after)} for before, after, _ in pairs
            if _table_values(before) != _table_values(after)
        ]  # fmt: skip
        if changed:
            connection.execute(update(TBLS).where(TBLS.c.TBL_ID == bindparam("b_id")), changed)
        change_parameters(
            connection,
            TABLE_PARAMS,
            "TBL_ID",
            [(after.id, before.parameters, after.parameters) for before, after, _ in pairs],
        )
        keys = [after for before, after, _ in pairs if before.partition_columns != after.partition_columns]
        if keys:
            connection.execute(delete(PARTITION_KEYS).where(PARTITION_KEYS.c.TBL_ID.in_([t.id for t in keys])))
            insert_many(connection, PARTITION_KEYS, [row for table in keys for row in _keys(table)])
        _change_storage(connection, [(rows[after.id], before.storage, after.storage) for before, after, _ in pairs])
        recolumned = [(a, c) for b, a, c in pairs if b.storage.columns != a.storage.columns]
        if recolumned:
            self._change_table_columns(connection, rows, recolumned)
        return {TableName(after.db, after.name): after for _, after, _ in pairs}

    def _change_table_columns(
        self, connection: Connection, rows: Mapping[int, _Rows], changed: Sequence[tuple[TableObject, bool]]
    ) -> None:
        new_ids = self._ids.take(connection, IdKind.COLUMNS, len(changed))
        _insert_columns(connection, {i: table.storage for i, (table, _) in zip(new_ids, changed, strict=True)})
        for columns_id, (table, cascade) in zip(new_ids, changed, strict=True):
            of = rows[table.id]
            where = SDS.c.SD_ID == of.storage
            if cascade:
                parts = select(PARTITIONS.c.SD_ID).where(PARTITIONS.c.TBL_ID == table.id)
                where = where | SDS.c.SD_ID.in_(parts)
            connection.execute(update(SDS).where(where, SDS.c.CD_ID == of.columns).values(CD_ID=columns_id))
        delete_unused_columns(connection, [rows[table.id].columns for table, _ in changed])

    def _insert_partitions(
        self, connection: Connection, of_tables: Mapping[int, _Rows], new: Sequence[tuple[TableObject, PartitionObject]]
    ) -> None:
        count = len(new)
        owners, storages, serdes = (
            self._ids.take(connection, kind, count) for kind in (IdKind.PARTITION, IdKind.STORAGE, IdKind.SERDE)
        )
        own = [i for i, (table, part) in enumerate(new) if part.storage.columns != table.storage.columns]
        own_ids = dict(zip(own, self._ids.take(connection, IdKind.COLUMNS, len(own)), strict=True))
        rows = [
            _Rows(owner, storage, own_ids.get(i, of_tables[table.id].columns), serde)
            for i, ((table, _), owner, storage, serde) in enumerate(zip(new, owners, storages, serdes, strict=True))
        ]
        placed = [(row, table, part) for row, (table, part) in zip(rows, new, strict=True)]
        _insert_columns(connection, {columns_id: new[i][1].storage for i, columns_id in own_ids.items()})
        _insert_storage(connection, [(row, part.storage) for row, _, part in placed])
        insert_many(connection, PARTITIONS, [
            {"PART_ID": row.owner, "CREATE_TIME": part.created, "LAST_ACCESS_TIME": part.last_access,
             "PART_NAME": part.name, "SD_ID": row.storage, "TBL_ID": table.id, "WRITE_ID": part.write_id}
            for row, table, part in placed
        ])  # fmt: skip
        insert_many(connection, PARTITION_KEY_VALS, [
            {"PART_ID": row.owner, "PART_KEY_VAL": value, "INTEGER_IDX": index}
            for row, _, part in placed
            for index, value in enumerate(part.values)
        ])  # fmt: skip
        insert_many(
            connection,
            PARTITION_PARAMS,
            _parameters("PART_ID", {row.owner: part.parameters for row, _, part in placed}),
        )

    def _update_partitions(
        self, connection: Connection, of_tables: Mapping[int, _Rows], old: Sequence[tuple[TableObject, PartitionWrite]]
    ) -> None:
        pairs = [(t, w.before.id, w.before.object, w.after) for t, w in old if w.before is not None]
        rows = _storage_rows(connection, PARTITIONS, PARTITIONS.c.PART_ID, [i for _, i, _, _ in pairs])
        change_parameters(
            connection, PARTITION_PARAMS, "PART_ID",
            [(i, before.parameters, after.parameters) for _, i, before, after in pairs],
        )  # fmt: skip
        changed = [{"b_id": i, "write_id": a.write_id} for _, i, b, a in pairs if b.write_id != a.write_id]
        if changed:
            statement = update(PARTITIONS).where(PARTITIONS.c.PART_ID == bindparam("b_id"))
            connection.execute(statement.values(WRITE_ID=bindparam("write_id")), changed)
        _change_storage(connection, [(rows[i], before.storage, after.storage) for _, i, before, after in pairs])
        for table, part_id, before, after in pairs:
            if before.storage.columns == after.storage.columns:
                continue
            row = rows[part_id]
            if after.storage.columns == table.storage.columns:
                columns_id = of_tables[table.id].columns
            else:
                columns_id = self._ids.take(connection, IdKind.COLUMNS, 1)[0]
                _insert_columns(connection, {columns_id: after.storage})
            connection.execute(update(SDS).where(SDS.c.SD_ID == row.storage).values(CD_ID=columns_id))
            delete_unused_columns(connection, [row.columns])


def without_skew(storage: Storage) -> Storage:
    """A storage as these rows can hold it."""
    return replace(storage, skew=Skew())


def _storage_rows(connection: Connection, owners: Any, key: Any, ids: Sequence[int]) -> dict[int, _Rows]:
    found: dict[int, _Rows] = {}
    statement = select(key, SDS.c.SD_ID, SDS.c.CD_ID, SDS.c.SERDE_ID).join(owners, owners.c.SD_ID == SDS.c.SD_ID)
    for batch in chunks(sorted(ids), _AT_ONCE):
        found |= {row[0]: _Rows(*row) for row in connection.execute(statement.where(key.in_(batch)))}
    return found


def _table_values(table: TableObject) -> dict[str, Any]:
    return {
        "OWNER": table.owner, "OWNER_TYPE": table.owner_type, "RETENTION": table.retention, "TBL_TYPE": table.type,
        "VIEW_EXPANDED_TEXT": table.view_expanded, "VIEW_ORIGINAL_TEXT": table.view_original,
        "IS_REWRITE_ENABLED": table.rewrite_enabled, "WRITE_ID": table.write_id,
    }  # fmt: skip


def _keys(table: TableObject) -> list[dict[str, Any]]:
    return [
        {"TBL_ID": table.id, "PKEY_COMMENT": column.comment, "PKEY_NAME": column.name, "PKEY_TYPE": column.type,
         "INTEGER_IDX": index}
        for index, column in enumerate(table.partition_columns)
    ]  # fmt: skip


def _parameters(owner: str, by_id: Mapping[int, Mapping[str, str]]) -> list[dict[str, Any]]:
    return [
        {owner: i, "PARAM_KEY": key, "PARAM_VALUE": value}
        for i, values in by_id.items()
        for key, value in values.items()
    ]


def _insert_columns(connection: Connection, by_id: Mapping[int, Storage]) -> None:
    insert_columns(
        connection, {i: [(c.name, c.type, c.comment) for c in storage.columns] for i, storage in by_id.items()}
    )


def _storage_values(storage: Storage) -> dict[str, Any]:
    return {
        "INPUT_FORMAT": storage.input_format, "IS_COMPRESSED": storage.compressed, "LOCATION": storage.location,
        "NUM_BUCKETS": storage.bucket_count, "OUTPUT_FORMAT": storage.output_format,
        "IS_STOREDASSUBDIRECTORIES": storage.subdirectories,
    }  # fmt: skip


def _serde_values(storage: Storage) -> dict[str, Any]:
    return {"NAME": storage.serde[0], "SLIB": storage.serde[1]}


def _insert_storage(connection: Connection, storages: Sequence[tuple[_Rows, Storage]]) -> None:
    no_text = {"DESCRIPTION": None, "SERIALIZER_CLASS": None, "DESERIALIZER_CLASS": None, "SERDE_TYPE": 0}
    insert_many(connection, SERDES, [{"SERDE_ID": row.serde, **_serde_values(s), **no_text} for row, s in storages])
    insert_many(connection, SDS, [
        {"SD_ID": row.storage, "SERDE_ID": row.serde, "CD_ID": row.columns, **_storage_values(s)}
        for row, s in storages
    ])  # fmt: skip
    insert_many(
        connection, SERDE_PARAMS, _parameters("SERDE_ID", {row.serde: s.serde_parameters for row, s in storages})
    )
    insert_many(connection, SD_PARAMS, _parameters("SD_ID", {row.storage: s.parameters for row, s in storages}))
    _insert_buckets(connection, storages)


def _insert_buckets(connection: Connection, storages: Sequence[tuple[_Rows, Storage]]) -> None:
    insert_many(connection, BUCKETING_COLS, [
        {"SD_ID": row.storage, "BUCKET_COL_NAME": name, "INTEGER_IDX": index}
        for row, storage in storages
        for index, name in enumerate(storage.bucket_columns)
    ])  # fmt: skip
    insert_many(connection, SORT_COLS, [
        {"SD_ID": row.storage, "COLUMN_NAME": name, "ORDER": order, "INTEGER_IDX": index}
        for row, storage in storages
        for index, (name, order) in enumerate(storage.sort_columns)
    ])  # fmt: skip


def _change_storage(connection: Connection, changes: Sequence[tuple[_Rows, Storage, Storage]]) -> None:
    """Everything but the columns."""
    change_parameters(
        connection, SERDE_PARAMS, "SERDE_ID", [(r.serde, b.serde_parameters, a.serde_parameters) for r, b, a in changes]
    )
    change_parameters(connection, SD_PARAMS, "SD_ID", [(r.storage, b.parameters, a.parameters) for r, b, a in changes])
    storages = [
        {"b_id": r.storage, **_storage_values(a)} for r, b, a in changes if _storage_values(b) != _storage_values(a)
    ]
    if storages:
        connection.execute(update(SDS).where(SDS.c.SD_ID == bindparam("b_id")), storages)
    serdes = [{"b_id": r.serde, **_serde_values(a)} for r, b, a in changes if b.serde != a.serde]
    if serdes:
        connection.execute(update(SERDES).where(SERDES.c.SERDE_ID == bindparam("b_id")), serdes)
    buckets = [
        (r, a) for r, b, a in changes if (b.bucket_columns, b.sort_columns) != (a.bucket_columns, a.sort_columns)
    ]
    if buckets:
        ids = [row.storage for row, _ in buckets]
        for target in (BUCKETING_COLS, SORT_COLS):
            connection.execute(delete(target).where(target.c.SD_ID.in_(ids)))
        _insert_buckets(connection, buckets)
