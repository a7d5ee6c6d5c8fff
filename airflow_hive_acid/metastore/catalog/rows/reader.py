"""Reading databases, tables and partitions whole: any number of tables or partitions in two statements per 200.

What Hive wrote is taken as it is: views, foreign formats and types we could not create ourselves included.
"""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Any

from sqlalchemy import (
    BindParameter,
    and_,
    bindparam,
    exists,
    select,
    tuple_,
)

from airflow_hive_acid.errors import NoSuchObjectError
from airflow_hive_acid.format.partitions import parse_partition_name
from airflow_hive_acid.metastore.catalog.rows.details import SELECT_PARTITION_DETAILS, SELECT_TABLE_DETAILS, Details
from airflow_hive_acid.metastore.catalog.values.model import (
    Database,
    Table,
    WholePartition,
)
from airflow_hive_acid.metastore.database.database import chunks
from airflow_hive_acid.metastore.names.objects import TableName
from airflow_hive_acid.metastore.schema.hive_catalog import (
    CATALOG,
    CTLGS,
    DATABASE_PARAMS,
    DBS,
    PARTITIONS,
    SDS,
    SERDES,
    TBLS,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from sqlalchemy import Connection

UNSET_LOCATION = "TBD"
"""What Hive's scripts put where the warehouse directory will stand."""
_AT_ONCE = 200
_NAMES_FOR_SUGGESTIONS = 2000

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
_STORAGE = (
    SDS.c.SD_ID, SDS.c.CD_ID, SDS.c.LOCATION, SDS.c.INPUT_FORMAT, SDS.c.OUTPUT_FORMAT, SDS.c.NUM_BUCKETS,
    SDS.c.IS_COMPRESSED, SDS.c.IS_STOREDASSUBDIRECTORIES, SERDES.c.SERDE_ID, SERDES.c.NAME.label("SERDE_NAME"),
    SERDES.c.SLIB,
)  # fmt: skip
_IDS: BindParameter[Any] = bindparam("ids", expanding=True)
_NAMES: BindParameter[Any] = bindparam("names", expanding=True)
_NAMED = and_(DBS.c.CTLG_NAME == CATALOG, tuple_(DBS.c.NAME, TBLS.c.TBL_NAME).in_(_NAMES))
_TABLES = (
    select(TBLS, DBS.c.NAME.label("DB_NAME"), *_STORAGE)
    .join(DBS, DBS.c.DB_ID == TBLS.c.DB_ID)
    .outerjoin(SDS, SDS.c.SD_ID == TBLS.c.SD_ID)
    .outerjoin(SERDES, SERDES.c.SERDE_ID == SDS.c.SERDE_ID)
)
_TABLES_BY_NAME = _TABLES.where(_NAMED)
_TABLES_BY_ID = _TABLES.where(TBLS.c.TBL_ID.in_(_IDS))
_TABLE_IDS = select(TBLS.c.TBL_ID).join(DBS, DBS.c.DB_ID == TBLS.c.DB_ID).where(_NAMED)
_LOCK_TABLES = select(TBLS.c.TBL_ID).where(TBLS.c.TBL_ID.in_(_IDS)).order_by(TBLS.c.TBL_ID).with_for_update()
_PARTITIONS = (
    select(PARTITIONS, DBS.c.NAME.label("DB_NAME"), TBLS.c.TBL_NAME, *_STORAGE)
    .join(TBLS, TBLS.c.TBL_ID == PARTITIONS.c.TBL_ID)
    .join(DBS, DBS.c.DB_ID == TBLS.c.DB_ID)
    .outerjoin(SDS, SDS.c.SD_ID == PARTITIONS.c.SD_ID)
    .outerjoin(SERDES, SERDES.c.SERDE_ID == SDS.c.SERDE_ID)
    .where(PARTITIONS.c.PART_ID.in_(_IDS))
)
_PARTITION_KEYS_OF = select(PARTITIONS.c.TBL_ID, PARTITIONS.c.PART_NAME, PARTITIONS.c.PART_ID)
# Not by pairs: MariaDB looks for those in a list of its own and misses what is no ASCII in a latin1 column.
_PARTITIONS_NAMED = _PARTITION_KEYS_OF.where(PARTITIONS.c.TBL_ID.in_(_IDS), PARTITIONS.c.PART_NAME.in_(_NAMES))
_PARTITIONS_OF = _PARTITION_KEYS_OF.where(PARTITIONS.c.TBL_ID.in_(_IDS))
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


def read_database(connection: Connection, name: str) -> Database | None:
    """A database by its lower-case name."""
    row = connection.execute(_SELECT_DATABASE, {"name": name}).first()
    if row is None:
        return None
    properties = connection.execute(_SELECT_DATABASE_PARAMS, {"id": row.DB_ID})
    own = row.DB_MANAGED_LOCATION_URI
    return Database(
        name=row.NAME,
        id=row.DB_ID,
        location=row.DB_LOCATION_URI,
        managed_location=own or managed_default(connection, name) or row.DB_LOCATION_URI,
        owner=row.OWNER_NAME,
        description=row.DESC,
        properties={key: value or "" for key, value in properties},
        own_managed_location=own,
        owner_type=row.OWNER_TYPE,
        created=row.CREATE_TIME,
        type=row.TYPE or "NATIVE",
        connector=row.DATACONNECTOR_NAME,
        remote_name=row.REMOTE_DBNAME,
    )


def require_database(connection: Connection, name: str) -> Database:
    """A database by its lower-case name.

    :raises NoSuchObjectError: with the names that look like it.
    """
    found = read_database(connection, name)
    if found is None:
        names = read_database_names(connection)
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
    return list(connection.execute(_SELECT_DATABASE_NAMES).scalars())


def read_table_names(connection: Connection, db: str, type: str | None = None) -> list[str]:
    """All tables and views of a database, sorted.

    :param type: those of this TBL_TYPE only.
    """
    statement = _SELECT_TABLE_NAMES if type is None else _SELECT_TABLE_NAMES.where(TBLS.c.TBL_TYPE == type)
    return list(connection.execute(statement, {"db": db}).scalars())


def read_tables(
    connection: Connection, names: Iterable[tuple[str, str]], *, lock: bool = False
) -> dict[TableName, Table]:
    """Those of the tables that exist, by lower-case ``(db, table)``.

    :param lock: let nobody else change them until the transaction ends.
    """
    found: dict[TableName, Table] = {}
    batches = list(chunks(list(dict.fromkeys(names)), _AT_ONCE))
    if lock:
        ids = [i for batch in batches for i in connection.execute(_TABLE_IDS, {"names": list(batch)}).scalars()]
        for part in chunks(sorted(ids), _AT_ONCE):
            connection.execute(_LOCK_TABLES, {"ids": list(part)})
    for batch in batches:
        tables = _tables(connection, connection.execute(_TABLES_BY_NAME, {"names": list(batch)}).all())
        found |= {TableName(table.db, table.name): table for table in tables}
    return found


def read_tables_by_id(connection: Connection, table_ids: Iterable[int]) -> dict[int, Table]:
    """Those of the tables that exist, by their ids."""
    found: dict[int, Table] = {}
    for batch in chunks(sorted(set(table_ids)), _AT_ONCE):
        tables = _tables(connection, connection.execute(_TABLES_BY_ID, {"ids": list(batch)}).all())
        found |= {table.id: table for table in tables}
    return found


def read_partitions_by_id(connection: Connection, part_ids: Iterable[int]) -> dict[int, WholePartition]:
    """Those of the partitions that exist, by their ids and in the order of these: messages list them so."""
    found: dict[int, WholePartition] = {}
    for batch in chunks(sorted(set(part_ids)), _AT_ONCE):
        rows = connection.execute(_PARTITIONS, {"ids": list(batch)}).all()
        if rows:
            details = Details(connection, SELECT_PARTITION_DETAILS, rows, batch)
            found |= {row.PART_ID: _partition(row, details) for row in rows}
    return dict(sorted(found.items()))


def read_whole_partitions(
    connection: Connection, wanted: Iterable[tuple[int, str]]
) -> dict[tuple[int, str], WholePartition]:
    """Those of the partitions that exist, by table id and name."""
    keys: dict[int, tuple[int, str]] = {}
    pairs = set(wanted)
    for batch in chunks(sorted(pairs), _AT_ONCE):
        asked = {"ids": sorted({table_id for table_id, _ in batch}), "names": sorted({name for _, name in batch})}
        found = {row.PART_ID: (row.TBL_ID, row.PART_NAME) for row in connection.execute(_PARTITIONS_NAMED, asked)}
        keys |= {part_id: key for part_id, key in found.items() if key in pairs}
    return _by_key(connection, keys)


def read_all_partitions(connection: Connection, table_ids: Iterable[int]) -> dict[tuple[int, str], WholePartition]:
    """All partitions of several tables, by table id and name."""
    keys: dict[int, tuple[int, str]] = {}
    for batch in chunks(sorted(set(table_ids)), _AT_ONCE):
        rows = connection.execute(_PARTITIONS_OF, {"ids": list(batch)})
        keys |= {row.PART_ID: (row.TBL_ID, row.PART_NAME) for row in rows}
    return _by_key(connection, keys)


def read_partitions_of(connection: Connection, table_id: int) -> dict[str, WholePartition]:
    """All partitions of a table, by name."""
    return {name: found for (_, name), found in read_all_partitions(connection, [table_id]).items()}


def sharing_columns(connection: Connection, table_ids: Iterable[int]) -> set[int]:
    """Those of the tables all of whose partitions have the columns of the table, not lists of their own."""
    ids = set(table_ids)
    other: set[int] = set()
    for batch in chunks(sorted(ids), _AT_ONCE):
        other.update(connection.execute(_OTHER_COLUMNS, {"ids": list(batch)}).scalars())
    return ids - other


def require_tables(connection: Connection, keys: Sequence[TableName]) -> list[Table]:
    """Tables in the order given, read together.

    :raises NoSuchObjectError: for the first that does not exist, with the names that look like it.
    """
    found = read_tables(connection, keys)
    for key in keys:
        if key not in found:
            raise no_such_table(connection, *key)
    return [found[key] for key in keys]


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


def _by_key(connection: Connection, keys: Mapping[int, tuple[int, str]]) -> dict[tuple[int, str], WholePartition]:
    return {keys[i]: found for i, found in read_partitions_by_id(connection, keys).items()}


def _tables(connection: Connection, rows: Sequence[Any]) -> list[Table]:
    if not rows:
        return []
    details = Details(connection, SELECT_TABLE_DETAILS, rows, [row.TBL_ID for row in rows])
    return [_table(row, details) for row in rows]


def _table(row: Any, details: Details) -> Table:
    return Table(
        db=row.DB_NAME,
        name=row.TBL_NAME,
        id=row.TBL_ID,
        owner=row.OWNER,
        owner_type=row.OWNER_TYPE,
        created=row.CREATE_TIME,
        last_access=row.LAST_ACCESS_TIME,
        retention=row.RETENTION,
        storage=details.storage(row),
        partition_keys=details.columns("key", row.TBL_ID),
        properties=details.map("property", row.TBL_ID),
        type=row.TBL_TYPE,
        write_id=row.WRITE_ID or 0,
        view_original=row.VIEW_ORIGINAL_TEXT,
        view_expanded=row.VIEW_EXPANDED_TEXT,
        rewrite_enabled=bool(row.IS_REWRITE_ENABLED),
        required=frozenset(details.names("required", row.TBL_ID)),
        defaults=details.map("default", row.TBL_ID),
        checks=details.map("check", row.TBL_ID),
    )


def _partition(row: Any, details: Details) -> WholePartition:
    return WholePartition(
        db=row.DB_NAME,
        table=row.TBL_NAME,
        name=row.PART_NAME,
        values=tuple(value for _, value in parse_partition_name(row.PART_NAME)),
        created=row.CREATE_TIME,
        last_access=row.LAST_ACCESS_TIME,
        storage=details.storage(row),
        properties=details.map("property", row.PART_ID),
        write_id=row.WRITE_ID or 0,
        id=row.PART_ID,
    )


def _suggest(name: str, names: Iterable[str], same: Sequence[str] = ()) -> str:
    near = same or difflib.get_close_matches(name, list(names), n=3, cutoff=0.6)
    return f"; did you mean {' or '.join(near)}?" if near else ""
