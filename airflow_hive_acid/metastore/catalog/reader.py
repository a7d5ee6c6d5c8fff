"""Reading databases and tables from the catalog: any number of tables in two statements.

What Hive wrote is taken as it is: views, foreign formats and types we could not create ourselves included.
"""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Any

from sqlalchemy import Text, and_, bindparam, cast, literal, null, select, tuple_, union_all

from airflow_hive_acid.errors import NoSuchObjectError
from airflow_hive_acid.format.jobs import Column
from airflow_hive_acid.metastore.catalog.model import Database, Table
from airflow_hive_acid.metastore.catalog.places import share_files, shares_files
from airflow_hive_acid.metastore.database.database import chunks
from airflow_hive_acid.metastore.schema.hive_catalog import (
    BUCKETING_COLS,
    CATALOG,
    COLUMNS_V2,
    CTLGS,
    DATABASE_PARAMS,
    DBS,
    KEY_CONSTRAINTS,
    PARTITION_KEYS,
    PARTITIONS,
    SDS,
    SERDE_PARAMS,
    SERDES,
    SORT_COLS,
    TABLE_PARAMS,
    TBLS,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from sqlalchemy import Connection, Row

UNSET_LOCATION = "TBD"
"""What Hive's scripts put where the warehouse directory will stand."""
_TABLES_AT_ONCE = 200
_NAMES_FOR_SUGGESTIONS = 2000
_PLACES = 50
"""Directories whose insides are looked for by one statement."""

_SELECT_DATABASE = select(DBS).where(DBS.c.NAME == bindparam("name"), DBS.c.CTLG_NAME == CATALOG)
_SELECT_DATABASE_NAMES = select(DBS.c.NAME).where(DBS.c.CTLG_NAME == CATALOG).order_by(DBS.c.NAME)
_SELECT_DATABASE_PARAMS = select(DATABASE_PARAMS.c.PARAM_KEY, DATABASE_PARAMS.c.PARAM_VALUE).where(
    DATABASE_PARAMS.c.DB_ID == bindparam("id")
)
_SELECT_PARAMS_BY_NAME = (
    select(DBS.c.NAME, DATABASE_PARAMS.c.PARAM_KEY, DATABASE_PARAMS.c.PARAM_VALUE)
    .outerjoin(DATABASE_PARAMS, DATABASE_PARAMS.c.DB_ID == DBS.c.DB_ID)
    .where(DBS.c.CTLG_NAME == CATALOG, DBS.c.NAME.in_(bindparam("names", expanding=True)))
)
_SELECT_WAREHOUSE = select(CTLGS.c.LOCATION_URI).where(CTLGS.c.NAME == CATALOG)
_SELECT_TABLE_NAMES = (
    select(TBLS.c.TBL_NAME)
    .join(DBS, DBS.c.DB_ID == TBLS.c.DB_ID)
    .where(DBS.c.NAME == bindparam("db"), DBS.c.CTLG_NAME == CATALOG)
    .order_by(TBLS.c.TBL_NAME)
)
_SELECT_DATABASES_OF = (
    select(DBS.c.NAME)
    .join(TBLS, DBS.c.DB_ID == TBLS.c.DB_ID)
    .where(TBLS.c.TBL_NAME == bindparam("name"), DBS.c.CTLG_NAME == CATALOG)
    .order_by(DBS.c.NAME)
    .limit(3)
)
_SELECT_TABLES = (
    select(
        DBS.c.NAME.label("DB_NAME"), TBLS.c.TBL_ID, TBLS.c.TBL_NAME, TBLS.c.TBL_TYPE, TBLS.c.OWNER, TBLS.c.WRITE_ID,
        TBLS.c.SD_ID, SDS.c.CD_ID, SDS.c.LOCATION, SDS.c.NUM_BUCKETS, SDS.c.INPUT_FORMAT,
        SDS.c.SERDE_ID, SERDES.c.SLIB,
    )
    .join(DBS, DBS.c.DB_ID == TBLS.c.DB_ID)
    .outerjoin(SDS, SDS.c.SD_ID == TBLS.c.SD_ID)
    .outerjoin(SERDES, SERDES.c.SERDE_ID == SDS.c.SERDE_ID)
    .where(
        DBS.c.CTLG_NAME == CATALOG,
        tuple_(DBS.c.NAME, TBLS.c.TBL_NAME).in_(bindparam("names", expanding=True)),
    )
)  # fmt: skip


def _details(kind: str, owner: Any, index: Any, name: Any, value: Any, comment: Any, ids: str) -> Any:
    return select(
        literal(kind).label("kind"), owner.label("owner"), index.label("position"), cast(name, Text).label("name"),
        cast(value, Text).label("value"), cast(comment, Text).label("comment"),
    ).where(owner.in_(bindparam(ids, expanding=True)))  # fmt: skip


_k, _c, _b, _s, _p = PARTITION_KEYS.c, COLUMNS_V2.c, BUCKETING_COLS.c, SORT_COLS.c, TABLE_PARAMS.c
_d = SERDE_PARAMS.c
_n = KEY_CONSTRAINTS.c
_NOT_NULL, _ENABLED = 3, 4
"""Of MConstraint: the kind, and the bit of ENABLE_VALIDATE_RELY that has Hive enforce it."""
_REQUIRED = (
    _details("required", _n.PARENT_TBL_ID, _n.PARENT_INTEGER_IDX, _c.COLUMN_NAME, null(), null(), "table_ids")
    .join_from(
        KEY_CONSTRAINTS,
        COLUMNS_V2,
        and_(_c.CD_ID == _n.PARENT_CD_ID, _c.INTEGER_IDX == _n.PARENT_INTEGER_IDX),
    )
    .where(_n.CONSTRAINT_TYPE == _NOT_NULL, _n.ENABLE_VALIDATE_RELY >= _ENABLED)
)
_SELECT_DETAILS = union_all(
    _details("column", _c.CD_ID, _c.INTEGER_IDX, _c.COLUMN_NAME, _c.TYPE_NAME, _c.COMMENT, "column_ids"),
    _details("key", _k.TBL_ID, _k.INTEGER_IDX, _k.PKEY_NAME, _k.PKEY_TYPE, _k.PKEY_COMMENT, "table_ids"),
    _details("bucket", _b.SD_ID, _b.INTEGER_IDX, _b.BUCKET_COL_NAME, null(), null(), "storage_ids"),
    _details("sort", _s.SD_ID, _s.INTEGER_IDX, _s.COLUMN_NAME, _s.ORDER, null(), "storage_ids"),
    _details("property", _p.TBL_ID, literal(0), _p.PARAM_KEY, _p.PARAM_VALUE, null(), "table_ids"),
    _details("serde", _d.SERDE_ID, literal(0), _d.PARAM_KEY, _d.PARAM_VALUE, null(), "serde_ids"),
    _REQUIRED,
)


def read_database(connection: Connection, name: str) -> Database | None:
    """A database by its lower-case name."""
    row = connection.execute(_SELECT_DATABASE, {"name": name}).mappings().first()
    if row is None:
        return None
    properties = connection.execute(_SELECT_DATABASE_PARAMS, {"id": row["DB_ID"]})
    location = str(row["DB_LOCATION_URI"])
    return Database(
        name=str(row["NAME"]),
        id=int(row["DB_ID"]),
        location=location,
        managed_location=row["DB_MANAGED_LOCATION_URI"] or managed_default(connection, name) or location,
        owner=row["OWNER_NAME"],
        description=row["DESC"],
        properties={str(key): str(value or "") for key, value in properties},
    )


def require_database(connection: Connection, name: str) -> Database:
    """A database by its lower-case name.

    :raises NoSuchObjectError: with the names that look like it.
    """
    found = read_database(connection, name)
    if found is None:
        names = [str(row[0]) for row in connection.execute(_SELECT_DATABASE_NAMES)]
        raise NoSuchObjectError(f"there is no database {name}{_suggest(name, names)}")
    return found


def read_warehouse(connection: Connection) -> str | None:
    """The warehouse directory of the catalog, None while it has not been set."""
    location = connection.execute(_SELECT_WAREHOUSE).scalar()
    return None if location in (None, "", UNSET_LOCATION) else str(location).rstrip("/")


def managed_default(connection: Connection, name: str) -> str | None:
    """Where the managed tables of a database go unless it says otherwise, None while there is no warehouse."""
    warehouse = read_warehouse(connection)
    if warehouse is None or name == "default":
        return warehouse
    return f"{warehouse}/{name}.db"


def read_database_properties(connection: Connection, names: Sequence[str]) -> dict[str, dict[str, str]]:
    """The parameters of databases, by name; databases that do not exist are left out."""
    found: dict[str, dict[str, str]] = {}
    for batch in chunks(names):
        for name, key, value in connection.execute(_SELECT_PARAMS_BY_NAME, {"names": list(batch)}):
            properties = found.setdefault(name, {})
            if key is not None:
                properties[key] = value or ""
    return found


def read_database_names(connection: Connection) -> list[str]:
    """All databases, sorted."""
    return [str(row[0]) for row in connection.execute(_SELECT_DATABASE_NAMES)]


def read_table_names(connection: Connection, db: str) -> list[str]:
    """All tables and views of a database, sorted."""
    return [str(row[0]) for row in connection.execute(_SELECT_TABLE_NAMES, {"db": db})]


def read_tables(connection: Connection, names: Iterable[tuple[str, str]]) -> dict[tuple[str, str], Table]:
    """Those of the tables that exist, by lower-case ``(db, table)``."""
    found: dict[tuple[str, str], Table] = {}
    for batch in chunks(list(dict.fromkeys(names)), _TABLES_AT_ONCE):
        rows: Sequence[Any] = connection.execute(_SELECT_TABLES, {"names": list(batch)}).all()
        if rows:
            details = _by_owner(connection, rows)
            found |= {(row.DB_NAME, row.TBL_NAME): _table(row, details) for row in rows}
    return found


def read_owner_of(connection: Connection, location: str, *, around: bool) -> str | None:
    """A table that owns a directory or something inside it; with ``around`` also one whose directory contains it."""
    if not location:
        return None
    owns = shares_files(SDS.c.LOCATION, location, around=around, inside=True)
    of_table = select(DBS.c.NAME, TBLS.c.TBL_NAME).join(DBS, DBS.c.DB_ID == TBLS.c.DB_ID)
    for statement in (
        of_table.join(SDS, SDS.c.SD_ID == TBLS.c.SD_ID),
        of_table.join(PARTITIONS, PARTITIONS.c.TBL_ID == TBLS.c.TBL_ID).join(SDS, SDS.c.SD_ID == PARTITIONS.c.SD_ID),
    ):
        row = connection.execute(statement.where(owns).limit(1)).first()
        if row is not None:
            return f"{row[0]}.{row[1]}"
    return None


def read_owned(connection: Connection, locations: Iterable[str]) -> set[str]:
    """Those of many directories in which, around which, or inside of which a table has files."""
    owned: set[str] = set()
    for batch in chunks(sorted(set(locations)), _PLACES):
        owns = shares_files(SDS.c.LOCATION, *batch, around=True, inside=True)
        for owners in (TBLS, PARTITIONS):
            of_one = select(SDS.c.LOCATION).join(owners, owners.c.SD_ID == SDS.c.SD_ID).where(owns)
            for place in connection.execute(of_one).scalars():
                owned |= {location for location in batch if share_files(place, location)}
    return owned


def no_such_table(connection: Connection, db: str, name: str) -> NoSuchObjectError:
    """The error for a table that is not there, with the names that look like it."""
    databases = read_database_names(connection)
    if db not in databases:
        return NoSuchObjectError(f"there is no table {db}.{name}: no database {db}{_suggest(db, databases)}")
    tables = list(connection.execute(_SELECT_TABLE_NAMES.limit(_NAMES_FOR_SUGGESTIONS), {"db": db}).scalars())
    same: list[str] = []
    if db == "default":  # as a rule nobody meant it: the database was left out
        same = [f"{other}.{name}" for other in connection.execute(_SELECT_DATABASES_OF, {"name": name}).scalars()]
    return NoSuchObjectError(f"there is no table {db}.{name}{_suggest(name, tables, same)}")


def _by_owner(connection: Connection, rows: Sequence[Any]) -> dict[tuple[str, int], list[Row[Any]]]:
    details: dict[tuple[str, int], list[Row[Any]]] = {}
    found = connection.execute(_SELECT_DETAILS, {
        "table_ids": [row.TBL_ID for row in rows],
        "storage_ids": [row.SD_ID for row in rows if row.SD_ID is not None],
        "column_ids": [row.CD_ID for row in rows if row.CD_ID is not None],
        "serde_ids": [row.SERDE_ID for row in rows if row.SERDE_ID is not None],
    })  # fmt: skip
    for detail in found:
        details.setdefault((detail.kind, detail.owner), []).append(detail)
    for group in details.values():
        group.sort(key=lambda detail: detail.position)
    return details


def _table(row: Any, details: dict[tuple[str, int], list[Row[Any]]]) -> Table:
    columns = details.get(("column", row.CD_ID), [])
    keys = details.get(("key", row.TBL_ID), [])
    required = {d.name for d in details.get(("required", row.TBL_ID), [])}
    return Table(
        db=row.DB_NAME,
        name=row.TBL_NAME,
        id=row.TBL_ID,
        location=row.LOCATION or "",
        columns=tuple(Column(d.name, d.value, d.name in required) for d in columns),
        partition_columns=tuple(Column(d.name, d.value) for d in keys),
        properties={d.name: d.value or "" for d in details.get(("property", row.TBL_ID), [])},
        owner=row.OWNER,
        type=row.TBL_TYPE,
        bucket_columns=tuple(d.name for d in details.get(("bucket", row.SD_ID), [])),
        bucket_count=row.NUM_BUCKETS if row.NUM_BUCKETS is not None else -1,
        sort_columns=tuple((d.name, d.value == "1") for d in details.get(("sort", row.SD_ID), [])),
        input_format=row.INPUT_FORMAT,
        write_id=row.WRITE_ID or 0,
        comments={d.name: d.comment for d in (*columns, *keys) if d.comment},
        serde=row.SLIB,
        serde_properties={d.name: d.value or "" for d in details.get(("serde", row.SERDE_ID), [])},
    )


def _suggest(name: str, names: Iterable[str], same: Sequence[str] = ()) -> str:
    near = same or difflib.get_close_matches(name, list(names), n=3, cutoff=0.6)
    return f"; did you mean {' or '.join(near)}?" if near else ""
