"""Reading databases, tables and partitions as notification messages show them: complete, a few statements for many."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy import BigInteger, BindParameter, Text, bindparam, cast, literal, null, select, union_all

from airflow_hive_acid.format.partitions import parse_partition_name
from airflow_hive_acid.metastore.catalog.thrift.objects import (
    CATALOG,
    DatabaseObject,
    FieldSchema,
    PartitionObject,
    Skew,
    Storage,
    TableObject,
)
from airflow_hive_acid.metastore.database.database import chunks
from airflow_hive_acid.metastore.schema.hive_catalog import (
    BUCKETING_COLS,
    COLUMNS_V2,
    DATABASE_PARAMS,
    DBS,
    PARTITION_KEYS,
    PARTITION_PARAMS,
    PARTITIONS,
    SD_PARAMS,
    SDS,
    SERDE_PARAMS,
    SERDES,
    SKEWED_COL_NAMES,
    SKEWED_COL_VALUE_LOC_MAP,
    SKEWED_STRING_LIST_VALUES,
    SKEWED_VALUES,
    SORT_COLS,
    TABLE_PARAMS,
    TBLS,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from sqlalchemy import Connection

_AT_ONCE = 200
_STORAGE = (
    SDS.c.SD_ID, SDS.c.CD_ID, SDS.c.LOCATION, SDS.c.INPUT_FORMAT, SDS.c.OUTPUT_FORMAT, SDS.c.NUM_BUCKETS,
    SDS.c.IS_COMPRESSED, SDS.c.IS_STOREDASSUBDIRECTORIES, SERDES.c.SERDE_ID, SERDES.c.NAME.label("SERDE_NAME"),
    SERDES.c.SLIB,
)  # fmt: skip
_IDS: BindParameter[Any] = bindparam("ids", expanding=True)
_SELECT_TABLES = (
    select(TBLS, DBS.c.NAME.label("DB_NAME"), *_STORAGE)
    .join(DBS, DBS.c.DB_ID == TBLS.c.DB_ID)
    .outerjoin(SDS, SDS.c.SD_ID == TBLS.c.SD_ID)
    .outerjoin(SERDES, SERDES.c.SERDE_ID == SDS.c.SERDE_ID)
    .where(TBLS.c.TBL_ID.in_(_IDS))
)
_SELECT_PARTITIONS = (
    select(PARTITIONS, DBS.c.NAME.label("DB_NAME"), TBLS.c.TBL_NAME, *_STORAGE)
    .join(TBLS, TBLS.c.TBL_ID == PARTITIONS.c.TBL_ID)
    .join(DBS, DBS.c.DB_ID == TBLS.c.DB_ID)
    .outerjoin(SDS, SDS.c.SD_ID == PARTITIONS.c.SD_ID)
    .outerjoin(SERDES, SERDES.c.SERDE_ID == SDS.c.SERDE_ID)
    .where(PARTITIONS.c.PART_ID.in_(_IDS))
)
_SELECT_DATABASE = select(DBS).where(DBS.c.NAME == bindparam("name"), DBS.c.CTLG_NAME == CATALOG)
_SELECT_DATABASE_PARAMS = select(DATABASE_PARAMS.c.PARAM_KEY, DATABASE_PARAMS.c.PARAM_VALUE).where(
    DATABASE_PARAMS.c.DB_ID == bindparam("id")
)


def _details(kind: str, owner: Any, position: Any, name: Any, value: Any, comment: Any = None) -> Any:
    return select(
        literal(kind).label("kind"), owner.label("owner"), cast(position, BigInteger).label("position"),
        cast(name, Text).label("name"), cast(value, Text).label("value"),
        cast(null() if comment is None else comment, Text).label("comment"),
    ).where(owner.in_(bindparam(f"{kind}_ids", expanding=True)))  # fmt: skip


def _parameters(kind: str, source: Any, id_column: str) -> Any:
    return _details(kind, source.c[id_column], literal(0), source.c.PARAM_KEY, source.c.PARAM_VALUE)


_c, _b, _s, _k = COLUMNS_V2.c, BUCKETING_COLS.c, SORT_COLS.c, PARTITION_KEYS.c
_STORAGE_DETAILS = (
    _details("column", _c.CD_ID, _c.INTEGER_IDX, _c.COLUMN_NAME, _c.TYPE_NAME, _c.COMMENT),
    _details("bucket", _b.SD_ID, _b.INTEGER_IDX, _b.BUCKET_COL_NAME, null()),
    _details("sort", _s.SD_ID, _s.INTEGER_IDX, _s.COLUMN_NAME, _s.ORDER),
    _details("skewed", SKEWED_COL_NAMES.c.SD_ID, SKEWED_COL_NAMES.c.INTEGER_IDX, SKEWED_COL_NAMES.c.SKEWED_COL_NAME,
             null()),
    _parameters("storage", SD_PARAMS, "SD_ID"),
    _parameters("serde", SERDE_PARAMS, "SERDE_ID"),
)  # fmt: skip
_SELECT_TABLE_DETAILS = union_all(
    *_STORAGE_DETAILS, _parameters("property", TABLE_PARAMS, "TBL_ID"),
    _details("key", _k.TBL_ID, _k.INTEGER_IDX, _k.PKEY_NAME, _k.PKEY_TYPE, _k.PKEY_COMMENT),
)  # fmt: skip
_SELECT_PARTITION_DETAILS = union_all(*_STORAGE_DETAILS, _parameters("property", PARTITION_PARAMS, "PART_ID"))

_list = SKEWED_STRING_LIST_VALUES.c
_SELECT_SKEW = union_all(
    select(SKEWED_VALUES.c.SD_ID_OID.label("owner"), SKEWED_VALUES.c.INTEGER_IDX.label("entry"),
           _list.INTEGER_IDX.label("position"), _list.STRING_LIST_VALUE.label("value"),
           cast(null(), Text).label("location"))
    .join(SKEWED_STRING_LIST_VALUES, _list.STRING_LIST_ID == SKEWED_VALUES.c.STRING_LIST_ID_EID)
    .where(SKEWED_VALUES.c.SD_ID_OID.in_(_IDS)),
    select(SKEWED_COL_VALUE_LOC_MAP.c.SD_ID, SKEWED_COL_VALUE_LOC_MAP.c.STRING_LIST_ID_KID, _list.INTEGER_IDX,
           _list.STRING_LIST_VALUE, cast(SKEWED_COL_VALUE_LOC_MAP.c.LOCATION, Text))
    .join(SKEWED_STRING_LIST_VALUES, _list.STRING_LIST_ID == SKEWED_COL_VALUE_LOC_MAP.c.STRING_LIST_ID_KID)
    .where(SKEWED_COL_VALUE_LOC_MAP.c.SD_ID.in_(_IDS)),
)  # fmt: skip


def read_database_object(connection: Connection, name: str) -> DatabaseObject | None:
    """A database by its lower-case name, None when there is none."""
    row = connection.execute(_SELECT_DATABASE, {"name": name}).mappings().first()
    if row is None:
        return None
    parameters = connection.execute(_SELECT_DATABASE_PARAMS, {"id": row["DB_ID"]})
    return DatabaseObject(
        name=row["NAME"],
        description=row["DESC"],
        location=row["DB_LOCATION_URI"],
        managed_location=row["DB_MANAGED_LOCATION_URI"],
        owner=row["OWNER_NAME"],
        owner_type=row["OWNER_TYPE"],
        created=row["CREATE_TIME"],
        parameters={key: value or "" for key, value in parameters},
        type=row["TYPE"] or "NATIVE",
        connector=row["DATACONNECTOR_NAME"],
        remote_name=row["REMOTE_DBNAME"],
    )


def read_table_objects(connection: Connection, table_ids: Iterable[int]) -> dict[int, TableObject]:
    """Those of the tables that exist, by their ids."""
    found: dict[int, TableObject] = {}
    for batch in chunks(sorted(set(table_ids)), _AT_ONCE):
        rows = connection.execute(_SELECT_TABLES, {"ids": list(batch)}).all()
        if rows:
            details = _Details(connection, _SELECT_TABLE_DETAILS, rows, property_ids=batch, key_ids=batch)
            found |= {row.TBL_ID: _table(row, details) for row in rows}
    return found


def read_partition_objects(connection: Connection, part_ids: Iterable[int]) -> dict[int, PartitionObject]:
    """Those of the partitions that exist, by their ids."""
    found: dict[int, PartitionObject] = {}
    for batch in chunks(sorted(set(part_ids)), _AT_ONCE):
        rows = connection.execute(_SELECT_PARTITIONS, {"ids": list(batch)}).all()
        if rows:
            details = _Details(connection, _SELECT_PARTITION_DETAILS, rows, property_ids=batch)
            found |= {row.PART_ID: _partition(row, details) for row in rows}
    return found


class _Details:
    """What belongs to rows of tables or partitions, in the order of its positions."""

    def __init__(self, connection: Connection, statement: Any, rows: Sequence[Any], **ids: Sequence[int]) -> None:
        storages = sorted({row.SD_ID for row in rows if row.SD_ID is not None})
        found = connection.execute(statement, {
            **{name: list(values) for name, values in ids.items()},
            "column_ids": sorted({row.CD_ID for row in rows if row.CD_ID is not None}),
            "serde_ids": sorted({row.SERDE_ID for row in rows if row.SERDE_ID is not None}),
            **{f"{kind}_ids": storages for kind in ("bucket", "sort", "skewed", "storage")},
        })  # fmt: skip
        self._lists: dict[tuple[str, int], list[Any]] = {}
        for detail in found:
            self._lists.setdefault((detail.kind, detail.owner), []).append(detail)
        for details in self._lists.values():
            details.sort(key=lambda detail: detail.position)
        skewed = [owner for kind, owner in self._lists if kind == "skewed"]
        self._skew: dict[int, Skew] = _read_skew(connection, self, skewed) if skewed else {}

    def names(self, kind: str, owner: int | None) -> tuple[str, ...]:
        return tuple(detail.name for detail in self.of(kind, owner))

    def map(self, kind: str, owner: int | None) -> dict[str, str]:
        return {detail.name: detail.value or "" for detail in self.of(kind, owner)}

    def columns(self, kind: str, owner: int | None) -> tuple[FieldSchema, ...]:
        return tuple(FieldSchema(d.name, d.value, d.comment) for d in self.of(kind, owner))

    def of(self, kind: str, owner: int | None) -> list[Any]:
        return [] if owner is None else self._lists.get((kind, owner), [])

    def storage(self, row: Any) -> Storage:
        return Storage(
            columns=self.columns("column", row.CD_ID),
            location=row.LOCATION,
            input_format=row.INPUT_FORMAT,
            output_format=row.OUTPUT_FORMAT,
            serde=(row.SERDE_NAME, row.SLIB),
            serde_parameters=self.map("serde", row.SERDE_ID),
            bucket_count=-1 if row.NUM_BUCKETS is None else row.NUM_BUCKETS,
            bucket_columns=self.names("bucket", row.SD_ID),
            sort_columns=tuple((d.name, int(d.value)) for d in self.of("sort", row.SD_ID)),
            parameters=self.map("storage", row.SD_ID),
            skew=self._skew.get(row.SD_ID, Skew()),
            compressed=bool(row.IS_COMPRESSED),
            subdirectories=bool(row.IS_STOREDASSUBDIRECTORIES),
        )


def _read_skew(connection: Connection, details: _Details, storage_ids: Sequence[int]) -> dict[int, Skew]:
    lists: dict[tuple[int, int, str | None], list[Any]] = {}
    for row in connection.execute(_SELECT_SKEW, {"ids": list(storage_ids)}):
        lists.setdefault((row.owner, row.entry, row.location), []).append(row)
    values: dict[int, list[tuple[str, ...]]] = {}
    locations: dict[int, dict[tuple[str, ...], str]] = {}
    for (owner, _, location), rows in sorted(lists.items(), key=lambda item: item[0][:2]):
        entry = tuple(row.value for row in sorted(rows, key=lambda row: row.position))
        if location is None:
            values.setdefault(owner, []).append(entry)
        else:
            locations.setdefault(owner, {})[entry] = location
    return {
        owner: Skew(details.names("skewed", owner), tuple(values.get(owner, ())), locations.get(owner, {}))
        for owner in storage_ids
    }


def _table(row: Any, details: _Details) -> TableObject:
    return TableObject(
        db=row.DB_NAME,
        name=row.TBL_NAME,
        id=row.TBL_ID,
        owner=row.OWNER,
        owner_type=row.OWNER_TYPE,
        created=row.CREATE_TIME,
        last_access=row.LAST_ACCESS_TIME,
        retention=row.RETENTION,
        storage=details.storage(row),
        partition_columns=details.columns("key", row.TBL_ID),
        parameters=details.map("property", row.TBL_ID),
        type=row.TBL_TYPE,
        write_id=row.WRITE_ID or 0,
        view_original=row.VIEW_ORIGINAL_TEXT,
        view_expanded=row.VIEW_EXPANDED_TEXT,
        rewrite_enabled=bool(row.IS_REWRITE_ENABLED),
    )


def _partition(row: Any, details: _Details) -> PartitionObject:
    return PartitionObject(
        db=row.DB_NAME,
        table=row.TBL_NAME,
        name=row.PART_NAME,
        values=tuple(value for _, value in parse_partition_name(row.PART_NAME)),
        created=row.CREATE_TIME,
        last_access=row.LAST_ACCESS_TIME,
        storage=details.storage(row),
        parameters=details.map("property", row.PART_ID),
        write_id=row.WRITE_ID or 0,
    )
