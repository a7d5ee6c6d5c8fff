"""What tables and partitions have in rows of other tables: columns, buckets, parameters, constraints, skew.

All of it is read for 200 owners in one statement.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy import (
    BigInteger,
    BindParameter,
    Text,
    and_,
    bindparam,
    cast,
    literal,
    null,
    select,
    union_all,
)

from airflow_hive_acid.metastore.catalog.values.model import (
    FieldSchema,
    Skew,
    Storage,
    StorageIds,
)
from airflow_hive_acid.metastore.schema.hive_catalog import (
    BUCKETING_COLS,
    COLUMNS_V2,
    KEY_CONSTRAINTS,
    PARTITION_KEYS,
    PARTITION_PARAMS,
    SD_PARAMS,
    SERDE_PARAMS,
    SKEWED_COL_NAMES,
    SKEWED_COL_VALUE_LOC_MAP,
    SKEWED_STRING_LIST_VALUES,
    SKEWED_VALUES,
    SORT_COLS,
    TABLE_PARAMS,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import Connection


_IDS: BindParameter[Any] = bindparam("ids", expanding=True)


def _details(kind: str, ids: Any, owner: Any, position: Any, name: Any, value: Any, comment: Any = None) -> Any:
    return select(
        literal(kind).label("kind"), owner.label("owner"), cast(position, BigInteger).label("position"),
        cast(name, Text).label("name"), cast(value, Text).label("value"),
        cast(null() if comment is None else comment, Text).label("comment"),
    ).where(owner.in_(ids))  # fmt: skip


def _parameters(kind: str, ids: Any, source: Any, id_column: str) -> Any:
    return _details(kind, ids, source.c[id_column], literal(0), source.c.PARAM_KEY, source.c.PARAM_VALUE)


_c, _b, _s, _k = COLUMNS_V2.c, BUCKETING_COLS.c, SORT_COLS.c, PARTITION_KEYS.c
_OWNERS: Any = bindparam("owners", expanding=True)
_COLUMN_LISTS: Any = bindparam("column_lists", expanding=True)
_STORAGES: Any = bindparam("storages", expanding=True)
_SERDES: Any = bindparam("serdes", expanding=True)
_STORAGE_DETAILS = (
    _details("column", _COLUMN_LISTS, _c.CD_ID, _c.INTEGER_IDX, _c.COLUMN_NAME, _c.TYPE_NAME, _c.COMMENT),
    _details("bucket", _STORAGES, _b.SD_ID, _b.INTEGER_IDX, _b.BUCKET_COL_NAME, null()),
    _details("sort", _STORAGES, _s.SD_ID, _s.INTEGER_IDX, _s.COLUMN_NAME, _s.ORDER),
    _details("skewed", _STORAGES, SKEWED_COL_NAMES.c.SD_ID, SKEWED_COL_NAMES.c.INTEGER_IDX,
             SKEWED_COL_NAMES.c.SKEWED_COL_NAME, null()),
    _parameters("storage", _STORAGES, SD_PARAMS, "SD_ID"),
    _parameters("serde", _SERDES, SERDE_PARAMS, "SERDE_ID"),
)  # fmt: skip
_n = KEY_CONSTRAINTS.c
_NOT_NULL, _ENABLED = 3, 4
"""Of MConstraint: the kind, and the bit of ENABLE_VALIDATE_RELY that has Hive enforce it."""
_REQUIRED = (
    _details("required", _OWNERS, _n.PARENT_TBL_ID, _n.PARENT_INTEGER_IDX, _c.COLUMN_NAME, null())
    .join_from(
        KEY_CONSTRAINTS,
        COLUMNS_V2,
        and_(_c.CD_ID == _n.PARENT_CD_ID, _c.INTEGER_IDX == _n.PARENT_INTEGER_IDX),
    )
    .where(_n.CONSTRAINT_TYPE == _NOT_NULL, _n.ENABLE_VALIDATE_RELY >= _ENABLED)
)
_DEFAULT, _CHECK = 4, 5
_DEFAULTS = (
    _details("default", _OWNERS, _n.PARENT_TBL_ID, _n.PARENT_INTEGER_IDX, _c.COLUMN_NAME, _n.DEFAULT_VALUE)
    .join_from(
        KEY_CONSTRAINTS,
        COLUMNS_V2,
        and_(_c.CD_ID == _n.PARENT_CD_ID, _c.INTEGER_IDX == _n.PARENT_INTEGER_IDX),
    )
    .where(_n.CONSTRAINT_TYPE == _DEFAULT, _n.ENABLE_VALIDATE_RELY >= _ENABLED)
)
_CHECKS = _details("check", _OWNERS, _n.PARENT_TBL_ID, _n.POSITION, _n.CONSTRAINT_NAME, _n.DEFAULT_VALUE).where(
    _n.CONSTRAINT_TYPE == _CHECK, _n.ENABLE_VALIDATE_RELY >= _ENABLED
)
SELECT_TABLE_DETAILS = union_all(
    *_STORAGE_DETAILS, _parameters("property", _OWNERS, TABLE_PARAMS, "TBL_ID"),
    _details("key", _OWNERS, _k.TBL_ID, _k.INTEGER_IDX, _k.PKEY_NAME, _k.PKEY_TYPE, _k.PKEY_COMMENT), _REQUIRED,
    _DEFAULTS, _CHECKS,
)  # fmt: skip
SELECT_PARTITION_DETAILS = union_all(*_STORAGE_DETAILS, _parameters("property", _OWNERS, PARTITION_PARAMS, "PART_ID"))

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


class Details:
    """What belongs to rows of tables or partitions, in the order of its positions."""

    def __init__(self, connection: Connection, statement: Any, rows: Sequence[Any], owners: Sequence[int]) -> None:
        found = connection.execute(statement, {
            "owners": list(owners),
            "column_lists": sorted({row.CD_ID for row in rows if row.CD_ID is not None}),
            "storages": sorted({row.SD_ID for row in rows if row.SD_ID is not None}),
            "serdes": sorted({row.SERDE_ID for row in rows if row.SERDE_ID is not None}),
        })  # fmt: skip
        self._lists: dict[tuple[str, int], list[Any]] = {}
        for detail in found:
            self._lists.setdefault((detail.kind, detail.owner), []).append(detail)
        for details in self._lists.values():
            details.sort(key=lambda detail: detail.position)
        skewed = [owner for kind, owner in self._lists if kind == "skewed"]
        self._skew: dict[int, Skew] = _read_skew(connection, self, skewed) if skewed else {}

    def names(self, kind: str, owner: int | None) -> tuple[str, ...]:
        """The names of what an owner has of a kind."""
        return tuple(detail.name for detail in self.of(kind, owner))

    def map(self, kind: str, owner: int | None) -> dict[str, str]:
        """The values of what an owner has of a kind, by name."""
        return {detail.name: detail.value or "" for detail in self.of(kind, owner)}

    def columns(self, kind: str, owner: int | None) -> tuple[FieldSchema, ...]:
        """What an owner has of a kind, as columns."""
        return tuple(FieldSchema(d.name, d.value, d.comment) for d in self.of(kind, owner))

    def of(self, kind: str, owner: int | None) -> list[Any]:
        """What an owner has of a kind, as rows."""
        return [] if owner is None else self._lists.get((kind, owner), [])

    def storage(self, row: Any) -> Storage:
        """The storage of a table or partition."""
        return Storage(
            columns=self.columns("column", row.CD_ID),
            location=row.LOCATION,
            input_format=row.INPUT_FORMAT,
            output_format=row.OUTPUT_FORMAT,
            serde=(row.SERDE_NAME, row.SLIB),
            serde_properties=self.map("serde", row.SERDE_ID),
            bucket_count=-1 if row.NUM_BUCKETS is None else row.NUM_BUCKETS,
            bucket_columns=self.names("bucket", row.SD_ID),
            sort_columns=tuple((d.name, int(d.value)) for d in self.of("sort", row.SD_ID)),
            properties=self.map("storage", row.SD_ID),
            skew=self._skew.get(row.SD_ID, Skew()),
            compressed=bool(row.IS_COMPRESSED),
            subdirectories=bool(row.IS_STOREDASSUBDIRECTORIES),
            ids=None if row.SD_ID is None else StorageIds(row.SD_ID, row.CD_ID, row.SERDE_ID),
        )


def _read_skew(connection: Connection, details: Details, storage_ids: Sequence[int]) -> dict[int, Skew]:
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
