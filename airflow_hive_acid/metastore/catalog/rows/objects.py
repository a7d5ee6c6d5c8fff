"""Databases, tables and partitions as rows: written whole, from values, so that a real Hive reads them.

Many tables or partitions take as many statements as one: rows of all of them go to each of Hive's tables together.
Where an object exists, only what differs is written. Skewed values are not written (Hive keeps them in lists with ids
of their own; they say where rows lie, never which rows there are); constraints have a file of their own.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias

from sqlalchemy import bindparam, delete, exists, insert, select, update
from sqlalchemy.exc import IntegrityError

from airflow_hive_acid.errors import AlreadyExistsError
from airflow_hive_acid.metastore.catalog.rows.constraints import follow_columns
from airflow_hive_acid.metastore.catalog.rows.ids import IdKind
from airflow_hive_acid.metastore.catalog.values.model import Skew, StorageIds
from airflow_hive_acid.metastore.database.clock import now_ms
from airflow_hive_acid.metastore.schema.hive_catalog import (
    BUCKETING_COLS,
    CATALOG,
    CDS,
    COLUMNS_V2,
    DATABASE_PARAMS,
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
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from sqlalchemy import Connection

    from airflow_hive_acid.metastore.catalog.values.model import FieldSchema, Storage, Table, WholePartition

TakeIds: TypeAlias = "Callable[[Connection, IdKind, int], Sequence[int]]"

_DATABASES = select(DBS.c.NAME, DBS.c.DB_ID).where(
    DBS.c.CTLG_NAME == CATALOG, DBS.c.NAME.in_(bindparam("names", expanding=True))
)


# --- databases ----------------------------------------------------------------------------------------------------


def insert_database(
    connection: Connection,
    database_id: int,
    name: str,
    locations: tuple[str, str | None],
    owner: tuple[str, str],
    description: str | None,
    properties: Mapping[str, str] | None = None,
) -> None:
    """The rows of a new database.

    :param locations: those of its external and of its managed tables.
    :param owner: a name and its type.
    :param properties: DBPROPERTIES.
    :raises AlreadyExistsError: when somebody else was faster.
    """
    row = {
        "DB_ID": database_id, "DESC": description, "DB_LOCATION_URI": locations[0], "NAME": name,
        "OWNER_NAME": owner[0], "OWNER_TYPE": owner[1], "CTLG_NAME": CATALOG,
        "CREATE_TIME": now_ms(connection) // 1000, "DB_MANAGED_LOCATION_URI": locations[1], "TYPE": "NATIVE",
        "DATACONNECTOR_NAME": None, "REMOTE_DBNAME": None,
    }  # fmt: skip
    try:
        with connection.begin_nested():
            connection.execute(insert(DBS), row)
            if properties:
                rows = [{"DB_ID": database_id, "PARAM_KEY": k, "PARAM_VALUE": v} for k, v in properties.items()]
                connection.execute(insert(DATABASE_PARAMS), rows)
    except IntegrityError:
        raise AlreadyExistsError(f"database {name} was created by somebody else just now") from None


def database_ids(connection: Connection, tables: Iterable[Table]) -> dict[str, int]:
    """The ids of the databases of tables, by name; one that is not there is left out."""
    names = sorted({table.db for table in tables})
    return {row.NAME: row.DB_ID for row in connection.execute(_DATABASES, {"names": names})} if names else {}


# --- tables -------------------------------------------------------------------------------------------------------


def insert_tables(
    connection: Connection, tables: Sequence[Table], databases: Mapping[str, int], take_ids: TakeIds
) -> list[Table]:
    """All rows of new tables.

    :param databases: ids of their databases by name.
    :return: the tables with their ids.
    """
    if not tables:
        return []
    ids = take_ids(connection, IdKind.TABLE, len(tables))
    storages = _insert_storages(connection, [(table.storage, None) for table in tables], take_ids)
    new = [replace(t, id=i, storage=s) for t, i, s in zip(tables, ids, storages, strict=True)]
    insert_many(connection, TBLS, [
        {"TBL_ID": table.id, "SD_ID": ids_of(table.storage).storage, "DB_ID": databases[table.db],
         "TBL_NAME": table.name, "CREATE_TIME": table.created, "LAST_ACCESS_TIME": table.last_access,
         **_table_values(table)}
        for table in new
    ])  # fmt: skip
    insert_many(connection, TABLE_PARAMS, _parameters("TBL_ID", {table.id: table.properties for table in new}))
    insert_many(connection, PARTITION_KEYS, _keys(new))
    return new


def update_tables(
    connection: Connection, changes: Sequence[tuple[Table, Table, bool]], take_ids: TakeIds
) -> list[Table]:
    """Make tables what they shall be.

    :param changes: each as it is and as it shall be, and whether partitions that share its columns follow.
    :return: the tables with their ids.
    """
    if not changes:
        return []
    pairs = [(b, replace(a, id=b.id, storage=replace(a.storage, ids=b.storage.ids)), c) for b, a, c in changes]
    changed = [
        {"b_id": after.id, **_table_values(after)} for before, after, _ in pairs
        if _table_values(before) != _table_values(after)
    ]  # fmt: skip
    if changed:
        connection.execute(update(TBLS).where(TBLS.c.TBL_ID == bindparam("b_id")), changed)
    change_parameters(connection, TABLE_PARAMS, "TBL_ID", [(a.id, b.properties, a.properties) for b, a, _ in pairs])
    keyed = [after for before, after, _ in pairs if before.partition_keys != after.partition_keys]
    if keyed:
        connection.execute(delete(PARTITION_KEYS).where(PARTITION_KEYS.c.TBL_ID.in_([t.id for t in keyed])))
        insert_many(connection, PARTITION_KEYS, _keys(keyed))
    _change_storages(connection, [(before.storage, after.storage) for before, after, _ in pairs])
    recolumned = [
        (after, cascade) for before, after, cascade in pairs if before.storage.columns != after.storage.columns
    ]
    columned = _change_table_columns(connection, recolumned, take_ids)
    return [columned.get(after.id, after) for _, after, _ in pairs]


def _change_table_columns(
    connection: Connection, changed: Sequence[tuple[Table, bool]], take_ids: TakeIds
) -> dict[int, Table]:
    if not changed:
        return {}
    new_ids = take_ids(connection, IdKind.COLUMNS, len(changed))
    insert_columns(connection, {i: table.storage.columns for i, (table, _) in zip(new_ids, changed, strict=True)})
    found = {}
    for columns_id, (table, cascade) in zip(new_ids, changed, strict=True):
        ids = ids_of(table.storage)
        where = SDS.c.SD_ID == ids.storage
        if cascade:
            where = where | SDS.c.SD_ID.in_(select(PARTITIONS.c.SD_ID).where(PARTITIONS.c.TBL_ID == table.id))
        connection.execute(update(SDS).where(where, SDS.c.CD_ID == ids.columns).values(CD_ID=columns_id))
        follow_columns(connection, table.id, ids.columns, columns_id)
        storage = replace(table.storage, ids=replace(ids, columns=columns_id))
        found[table.id] = replace(table, storage=storage)
    delete_unused_columns(connection, [ids_of(table.storage).columns for table, _ in changed])
    return found


def _table_values(table: Table) -> dict[str, Any]:
    return {
        "OWNER": table.owner, "OWNER_TYPE": table.owner_type, "RETENTION": table.retention, "TBL_TYPE": table.type,
        "VIEW_EXPANDED_TEXT": table.view_expanded, "VIEW_ORIGINAL_TEXT": table.view_original,
        "IS_REWRITE_ENABLED": table.rewrite_enabled, "WRITE_ID": table.write_id,
    }  # fmt: skip


def _keys(tables: Iterable[Table]) -> list[dict[str, Any]]:
    return [
        {"TBL_ID": table.id, "PKEY_COMMENT": column.comment, "PKEY_NAME": column.name, "PKEY_TYPE": column.type,
         "INTEGER_IDX": index}
        for table in tables
        for index, column in enumerate(table.partition_keys)
    ]  # fmt: skip


# --- partitions ---------------------------------------------------------------------------------------------------


def insert_partitions(
    connection: Connection, partitions: Sequence[tuple[Table, WholePartition]], take_ids: TakeIds
) -> None:
    """All rows of new partitions of tables; those with the columns of their table share its descriptor."""
    if not partitions:
        return
    part_ids = take_ids(connection, IdKind.PARTITION, len(partitions))
    storages = _insert_storages(connection, [(part.storage, table.storage) for table, part in partitions], take_ids)
    placed = [
        (part_id, ids_of(storage).storage, table, part)
        for part_id, storage, (table, part) in zip(part_ids, storages, partitions, strict=True)
    ]
    insert_many(connection, PARTITIONS, [
        {"PART_ID": part_id, "CREATE_TIME": part.created, "LAST_ACCESS_TIME": part.last_access, "PART_NAME": part.name,
         "SD_ID": storage_id, "TBL_ID": table.id, "WRITE_ID": part.write_id}
        for part_id, storage_id, table, part in placed
    ])  # fmt: skip
    insert_many(connection, PARTITION_KEY_VALS, [
        {"PART_ID": part_id, "PART_KEY_VAL": value, "INTEGER_IDX": index}
        for part_id, _, _, part in placed
        for index, value in enumerate(part.values)
    ])  # fmt: skip
    insert_many(
        connection,
        PARTITION_PARAMS,
        _parameters("PART_ID", {part_id: part.properties for part_id, _, _, part in placed}),
    )


def update_partitions(
    connection: Connection, changes: Sequence[tuple[Table, WholePartition, WholePartition]], take_ids: TakeIds
) -> None:
    """Make partitions what they shall be.

    :param changes: their table, each as it is and as it shall be.
    """
    if not changes:
        return
    change_parameters(
        connection, PARTITION_PARAMS, "PART_ID", [(b.id, b.properties, a.properties) for _, b, a in changes]
    )
    changed = [{"b_id": b.id, "write_id": a.write_id} for _, b, a in changes if b.write_id != a.write_id]
    if changed:
        statement = update(PARTITIONS).where(PARTITIONS.c.PART_ID == bindparam("b_id"))
        connection.execute(statement.values(WRITE_ID=bindparam("write_id")), changed)
    _change_storages(connection, [(before.storage, after.storage) for _, before, after in changes])
    for table, before, after in changes:
        if before.storage.columns == after.storage.columns:
            continue
        ids = ids_of(before.storage)
        if after.storage.columns == table.storage.columns:
            columns_id = ids_of(table.storage).columns
        else:
            columns_id = take_ids(connection, IdKind.COLUMNS, 1)[0]
            insert_columns(connection, {columns_id: after.storage.columns})
        connection.execute(update(SDS).where(SDS.c.SD_ID == ids.storage).values(CD_ID=columns_id))
        delete_unused_columns(connection, [ids.columns])


# --- what they have alike -----------------------------------------------------------------------------------------


def ids_of(storage: Storage) -> StorageIds:
    """The rows of a storage that was read or written."""
    if storage.ids is None:
        raise AssertionError(f"the storage at {storage.location} is not in the catalog")
    return storage.ids


def without_skew(storage: Storage) -> Storage:
    """A storage as these rows can hold it."""
    return replace(storage, skew=Skew())


def insert_many(connection: Connection, target: Any, rows: Sequence[dict[str, Any]]) -> None:
    """Insert rows into a table; none is fine."""
    if rows:
        connection.execute(insert(target), rows)


def change_parameters(
    connection: Connection,
    target: Any,
    owner: str,
    changes: Iterable[tuple[int, Mapping[str, str], Mapping[str, str]]],
) -> None:
    """Parameters of many owners, from what they are to what they shall be.

    :param target: the table that holds them.
    :param owner: its column with the owner's id.
    :param changes: an id, the parameters as they are, and as they shall be.
    """
    gone, other, new = [], [], []
    for i, before, after in changes:
        gone += [{"b_id": i, "b_key": key} for key in before if key not in after]
        for key, value in after.items():
            if key not in before:
                new.append({owner: i, "PARAM_KEY": key, "PARAM_VALUE": value})
            elif before[key] != value:
                other.append({"b_id": i, "b_key": key, "b_value": value})
    one = (target.c[owner] == bindparam("b_id")) & (target.c.PARAM_KEY == bindparam("b_key"))
    if gone:
        connection.execute(delete(target).where(one), gone)
    if other:
        connection.execute(update(target).where(one).values(PARAM_VALUE=bindparam("b_value")), other)
    insert_many(connection, target, new)


def insert_columns(connection: Connection, by_id: Mapping[int, Iterable[FieldSchema]]) -> None:
    """New descriptors of columns, by their ids."""
    insert_many(connection, CDS, [{"CD_ID": i} for i in by_id])
    insert_many(connection, COLUMNS_V2, [
        {"CD_ID": i, "COMMENT": column.comment, "COLUMN_NAME": column.name, "TYPE_NAME": column.type,
         "INTEGER_IDX": index}
        for i, columns in by_id.items()
        for index, column in enumerate(columns)
    ])  # fmt: skip


def delete_unused_columns(connection: Connection, ids: Iterable[int | None]) -> None:
    """Delete those of the descriptors that nothing uses any more."""
    wanted = sorted({i for i in ids if i is not None})
    for child in (COLUMNS_V2, CDS):
        unused = ~exists(select(SDS.c.SD_ID).where(SDS.c.CD_ID == child.c.CD_ID))
        connection.execute(delete(child).where(child.c.CD_ID.in_(wanted), unused))


def _parameters(owner: str, by_id: Mapping[int, Mapping[str, str]]) -> list[dict[str, Any]]:
    return [
        {owner: i, "PARAM_KEY": key, "PARAM_VALUE": value}
        for i, values in by_id.items()
        for key, value in values.items()
    ]


def _insert_storages(
    connection: Connection, storages: Sequence[tuple[Storage, Storage | None]], take_ids: TakeIds
) -> list[Storage]:
    """All rows of new storages.

    :param storages: each with the one whose columns it shares if they are the same.
    :return: the storages with their ids.
    """
    storage_ids = take_ids(connection, IdKind.STORAGE, len(storages))
    own = [i for i, (storage, other) in enumerate(storages) if other is None or other.columns != storage.columns]
    columns = dict(zip(own, take_ids(connection, IdKind.COLUMNS, len(own)) if own else [], strict=True))
    serde_ids = take_ids(connection, IdKind.SERDE, len(storages))
    new = []
    for i, (storage, other) in enumerate(storages):
        columns_id = columns[i] if i in columns or other is None else ids_of(other).columns
        new.append(replace(storage, ids=StorageIds(storage_ids[i], columns_id, serde_ids[i])))
    placed = [(ids_of(storage), storage) for storage in new]
    insert_columns(connection, {columns_id: storages[i][0].columns for i, columns_id in columns.items()})
    no_text = {"DESCRIPTION": None, "SERIALIZER_CLASS": None, "DESERIALIZER_CLASS": None, "SERDE_TYPE": 0}
    insert_many(connection, SERDES, [{"SERDE_ID": ids.serde, **_serde_values(s), **no_text} for ids, s in placed])
    insert_many(connection, SDS, [
        {"SD_ID": ids.storage, "SERDE_ID": ids.serde, "CD_ID": ids.columns, **_storage_values(s)}
        for ids, s in placed
    ])  # fmt: skip
    insert_many(connection, SERDE_PARAMS, _parameters("SERDE_ID", {ids.serde: s.serde_properties for ids, s in placed}))
    insert_many(connection, SD_PARAMS, _parameters("SD_ID", {ids.storage: s.properties for ids, s in placed}))
    _insert_buckets(connection, new)
    return new


def _insert_buckets(connection: Connection, storages: Sequence[Storage]) -> None:
    insert_many(connection, BUCKETING_COLS, [
        {"SD_ID": ids_of(storage).storage, "BUCKET_COL_NAME": name, "INTEGER_IDX": index}
        for storage in storages
        for index, name in enumerate(storage.bucket_columns)
    ])  # fmt: skip
    insert_many(connection, SORT_COLS, [
        {"SD_ID": ids_of(storage).storage, "COLUMN_NAME": name, "ORDER": order, "INTEGER_IDX": index}
        for storage in storages
        for index, (name, order) in enumerate(storage.sort_columns)
    ])  # fmt: skip


def _change_storages(connection: Connection, changes: Sequence[tuple[Storage, Storage]]) -> None:
    """Everything but the columns."""
    placed = [(ids_of(before), before, after) for before, after in changes if before != after]
    change_parameters(
        connection, SERDE_PARAMS, "SERDE_ID", [(i.serde, b.serde_properties, a.serde_properties) for i, b, a in placed]
    )
    change_parameters(connection, SD_PARAMS, "SD_ID", [(i.storage, b.properties, a.properties) for i, b, a in placed])
    storages = [
        {"b_id": i.storage, **_storage_values(a)} for i, b, a in placed if _storage_values(b) != _storage_values(a)
    ]
    if storages:
        connection.execute(update(SDS).where(SDS.c.SD_ID == bindparam("b_id")), storages)
    serdes = [{"b_id": i.serde, **_serde_values(a)} for i, b, a in placed if b.serde != a.serde]
    if serdes:
        connection.execute(update(SERDES).where(SERDES.c.SERDE_ID == bindparam("b_id")), serdes)
    buckets = [
        replace(a, ids=i)
        for i, b, a in placed
        if (b.bucket_columns, b.sort_columns) != (a.bucket_columns, a.sort_columns)
    ]
    if buckets:
        for target in (BUCKETING_COLS, SORT_COLS):
            connection.execute(delete(target).where(target.c.SD_ID.in_([ids_of(s).storage for s in buckets])))
        _insert_buckets(connection, buckets)


def _storage_values(storage: Storage) -> dict[str, Any]:
    return {
        "INPUT_FORMAT": storage.input_format, "IS_COMPRESSED": storage.compressed, "LOCATION": storage.location,
        "NUM_BUCKETS": storage.bucket_count, "OUTPUT_FORMAT": storage.output_format,
        "IS_STOREDASSUBDIRECTORIES": storage.subdirectories,
    }  # fmt: skip


def _serde_values(storage: Storage) -> dict[str, Any]:
    return {"NAME": storage.serde[0], "SLIB": storage.serde[1]}
