"""Partitions in the catalog: listing with the filter in SQL, adding without doubles, dropping.

Conditions on partition columns become part of the statement, so a hundred of 100,000 partitions are found without
loading the others; what is listed is read in the order of its names, page by page if the caller likes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sqlalchemy import String, and_, bindparam, delete, false, func, or_, select

from airflow_hive_acid.errors import AlreadyExistsError, InvalidArgumentsError
from airflow_hive_acid.format.partitions import DEFAULT_PARTITION, parse_partition_name, partition_name
from airflow_hive_acid.format.paths import join
from airflow_hive_acid.metastore.catalog.rows.ids import allocate_ids
from airflow_hive_acid.metastore.catalog.rows.objects import insert_partitions
from airflow_hive_acid.metastore.catalog.rows.reader import read_tables_by_id
from airflow_hive_acid.metastore.catalog.values.definitions import empty_statistics
from airflow_hive_acid.metastore.catalog.values.model import Partition, PartitionSpec, Skew, Table, WholePartition
from airflow_hive_acid.metastore.catalog.values.partition_conditions import (
    Condition,
    PartitionFilter,
    columns_of,
    to_sql,
)
from airflow_hive_acid.metastore.catalog.values.partition_names import Range, ranges_of, ranges_of_values
from airflow_hive_acid.metastore.database.backend import backend_of
from airflow_hive_acid.metastore.database.clock import now_ms
from airflow_hive_acid.metastore.database.database import chunks
from airflow_hive_acid.metastore.names.partition_spellings import spelled
from airflow_hive_acid.metastore.names.partition_values import is_char, stored_char
from airflow_hive_acid.metastore.names.partitions import resolve
from airflow_hive_acid.metastore.schema.hive_catalog import (
    PART_COL_PRIVS,
    PART_COL_STATS,
    PART_PRIVS,
    PARTITION_KEY_VALS,
    PARTITION_PARAMS,
    PARTITIONS,
    SDS,
    TBLS,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from sqlalchemy import ColumnElement, Connection, Select

    from airflow_hive_acid.metastore.catalog.rows.objects import TakeIds
    from airflow_hive_acid.metastore.database.database import Database

_BATCH = 1000
_SELECT_PARTITIONS = select(
    PARTITIONS.c.PART_ID, PARTITIONS.c.PART_NAME, PARTITIONS.c.WRITE_ID, SDS.c.LOCATION, SDS.c.INPUT_FORMAT
).join(SDS, SDS.c.SD_ID == PARTITIONS.c.SD_ID)
_SELECT_NAMED = _SELECT_PARTITIONS.where(
    PARTITIONS.c.TBL_ID == bindparam("table"), PARTITIONS.c.PART_NAME.in_(bindparam("names", expanding=True))
)
_SELECT_PROPERTIES = select(PARTITION_PARAMS.c.PARAM_KEY, PARTITION_PARAMS.c.PARAM_VALUE).where(
    PARTITION_PARAMS.c.PART_ID == bindparam("partition")
)
_SELECT_EXISTING = select(PARTITIONS.c.PART_NAME).where(
    PARTITIONS.c.TBL_ID == bindparam("table"), PARTITIONS.c.PART_NAME.in_(bindparam("names", expanding=True))
)
_SELECT_ELSEWHERE = (
    select(PARTITIONS.c.PART_NAME, SDS.c.LOCATION)
    .join(SDS, SDS.c.SD_ID == PARTITIONS.c.SD_ID)
    .where(PARTITIONS.c.TBL_ID == bindparam("table"))
    .where(SDS.c.LOCATION != bindparam("below", type_=String).concat(PARTITIONS.c.PART_NAME))
    .order_by(PARTITIONS.c.PART_NAME)
    .limit(bindparam("most"))
)
_SELECT_ELSEWHERE_ONLY = _SELECT_ELSEWHERE.where(PARTITIONS.c.PART_NAME == bindparam("only"))
_LOCK_TABLE = select(TBLS.c.TBL_ID).where(TBLS.c.TBL_ID == bindparam("table")).with_for_update()


def read_partitions(
    connection: Connection,
    table: Table,
    wanted: PartitionFilter | None = None,
    limit: int | None = None,
    after: str | None = None,
) -> Iterator[Partition]:
    """The partitions of a table in the order of their names, read from the server bit by bit.

    :param limit: at most this many.
    :param after: only those whose names follow this one in the database's order: the last of the page before.
    :raises InvalidArgumentsError: when the filter names a column that is no partition column, or a value of another
        type, or a limit is not positive.
    """
    if not table.is_partitioned:
        raise InvalidArgumentsError(f"{table.qualified_name} is not partitioned")
    if limit is not None and limit < 1:
        raise InvalidArgumentsError(f"a page of {limit} partitions of {table.qualified_name}; ask for 1 or more")
    statement: Select[Any] = _SELECT_PARTITIONS.where(PARTITIONS.c.TBL_ID == table.id)
    statement = statement.order_by(PARTITIONS.c.PART_NAME)
    ranges: list[Range] | None = None
    if isinstance(wanted, Condition):
        ranges = ranges_of(table, wanted)
        statement, stored = _join_values(connection, statement, columns_of(table, wanted))
        statement = statement.where(to_sql(table, wanted, stored))
    elif wanted:
        values = filter_values(table, wanted)
        ranges = ranges_of_values(table, values)
        statement = _where_values(connection, statement, table, values)
    name = backend_of(connection).by_bytes(PARTITIONS.c.PART_NAME)
    if ranges is not None and name is not None:
        # One range around all of them: of an OR alone not every database makes ranges of its index.
        lowest, highest = min(low for low, _ in ranges), max(high for _, high in ranges)
        statement = statement.where(name >= lowest, name < highest)
        statement = statement.where(or_(*(and_(name >= low, name < high) for low, high in ranges)))
    if after is not None:
        statement = statement.where(PARTITIONS.c.PART_NAME > _name_of_page(table, after))
    if limit is not None:
        statement = statement.limit(limit)
    for row in connection.execute(statement, execution_options={"yield_per": _BATCH}):
        yield _partition(row)


def _name_of_page(table: Table, name: str) -> str:
    """The last name of a page, as the catalog has it: a value of it may be one that a Hive left (``hour=01``)."""
    if [key for key, _ in parse_partition_name(name)] == [column.name for column in table.partition_columns]:
        return name
    return table.partition_name(name)  # says what is wrong


def find_partitions(connection: Connection, table: Table, names: Sequence[str]) -> dict[str, Partition]:
    """Those of the partitions that exist, by name."""
    found: dict[str, Partition] = {}
    for batch in chunks(names):
        rows = connection.execute(_SELECT_NAMED, {"table": table.id, "names": list(batch)})
        # To MySQL `k=a` and `k=a ` are one text, and by some collations `k=A` as well.
        wanted = set(batch)
        found |= {partition.name: partition for partition in map(_partition, rows) if partition.name in wanted}
    return found


def partitions_elsewhere(connection: Connection, table: Table, most: int, only: str | None = None) -> dict[str, str]:
    """The partitions that do not lie where their names say, at most so many: their directories by name.

    :param only: ask for this partition alone, which costs the same however many there are.
    """
    asked = {"table": table.id, "below": f"{table.location.rstrip('/')}/", "most": most}
    if only is None:
        found = connection.execute(_SELECT_ELSEWHERE, asked)
    else:
        found = connection.execute(_SELECT_ELSEWHERE_ONLY, asked | {"only": only})
    return {str(name): str(location) for name, location in found}


def names_there(connection: Connection, table: Table, specs: Iterable[PartitionSpec]) -> list[str]:
    """The catalog's names of the partitions that are meant, once each, in this order; they need not exist.

    :raises InvalidArgumentsError: when a spec names no partition of this table, or may mean several.
    """
    spelled = [table.spellings(spec) for spec in specs]
    asked = dict.fromkeys(name for each in spelled if not each.is_one for name in each.names)
    there = find_partitions(connection, table, list(asked)) if asked else {}
    return list(dict.fromkeys(each.choose(table.qualified_name, there) for each in spelled))


def read_partition_properties(connection: Connection, part_id: int) -> dict[str, str]:
    """The parameters of a partition."""
    found = connection.execute(_SELECT_PROPERTIES, {"partition": part_id})
    return {str(key): str(value or "") for key, value in found}


def add_partitions(
    connection: Connection,
    table: Table,
    names: Iterable[str],
    *,
    write_id: int | None = None,
    if_not_exists: bool = True,
    take_ids: TakeIds = allocate_ids,
    locations: Mapping[str, str] | None = None,
    empty: bool = True,
) -> list[str]:
    """Add partitions to a table; their directories are named as Hive names them.

    :param names: partition names of this table.
    :param write_id: the write id that fills them; None for partitions that are known to be empty.
    :param locations: directories, by name, of those that lie elsewhere.
    :param empty: without a write id: nothing lies there. Hive answers queries from what is noted then.
    :return: the names that are new.
    :raises AlreadyExistsError: when one exists and ``if_not_exists`` is off; nothing was changed.
    """
    wanted = list(dict.fromkeys(names))
    missing = _missing(connection, table, wanted)
    if missing:
        # Two writers may add the same partition: whoever comes second waits here and looks again (R3).
        connection.execute(_LOCK_TABLE, {"table": table.id})
        missing = _missing(connection, table, missing)
    if not if_not_exists and len(missing) < len(wanted):
        there = next(name for name in wanted if name not in set(missing))
        raise AlreadyExistsError(f"partition {there} of {table.qualified_name} exists already; nothing was added")
    if not missing:
        return []
    # As it is now: nobody can change it any more.
    current = read_tables_by_id(connection, [table.id])[table.id]
    storage = replace(current.storage, serde_properties={}, properties={}, skew=Skew(), ids=None)
    created = now_ms(connection) // 1000
    properties = {"transient_lastDdlTime": str(created)}
    if write_id is None and empty:
        properties |= empty_statistics(table.columns)
    places = locations or {}
    for batch in chunks(missing, _BATCH):
        new = [
            WholePartition(
                table.db, table.name, name, tuple(value for _, value in parse_partition_name(name)), created, 0,
                replace(storage, location=places.get(name) or join(table.location, name)), properties, write_id or 0,
            )
            for name in batch
        ]  # fmt: skip
        insert_partitions(connection, [(current, partition) for partition in new], take_ids)
    return missing


def delete_partitions(connection: Connection, part_ids: Sequence[int]) -> list[int]:
    """Delete the rows of partitions, children first.

    :return: ids of their storage descriptors, which the caller deletes afterwards.
    """
    storage_ids: list[int] = []
    for batch in chunks(part_ids, _BATCH):
        storage_ids += connection.execute(select(PARTITIONS.c.SD_ID).where(PARTITIONS.c.PART_ID.in_(batch))).scalars()
        for child in (PART_COL_STATS, PART_COL_PRIVS, PART_PRIVS, PARTITION_KEY_VALS, PARTITION_PARAMS, PARTITIONS):
            connection.execute(delete(child).where(child.c.PART_ID.in_(batch)))
    return [storage_id for storage_id in storage_ids if storage_id is not None]


def _partition(row: Any) -> Partition:
    values = tuple(value for _, value in parse_partition_name(row.PART_NAME))
    return Partition(row.PART_NAME, values, row.LOCATION or "", row.PART_ID, row.WRITE_ID or 0, row.INPUT_FORMAT)


def _missing(connection: Connection, table: Table, names: Sequence[str]) -> list[str]:
    existing: set[str] = set()
    for batch in chunks(names):
        existing.update(connection.execute(_SELECT_EXISTING, {"table": table.id, "names": list(batch)}).scalars())
    return [name for name in names if name not in existing]


def filter_values(table: Table, wanted: Mapping[str, str | Sequence[str | None] | None]) -> dict[str, list[str]]:
    """The values asked for by column, as the catalog holds them.

    :raises InvalidArgumentsError: when a column is no partition column.
    """
    columns = {column.name: column.type for column in table.partition_columns}
    values: dict[str, list[str]] = {}
    for key, given in wanted.items():
        if key.lower() not in columns:
            raise InvalidArgumentsError(
                f"{key!r} is no partition column of {table.qualified_name}; those are {', '.join(sorted(columns))}"
            )
        several = [given] if given is None or isinstance(given, str) else list(given)
        values[key.lower()] = [
            stored_char(columns[key.lower()], value) if value else DEFAULT_PARTITION for value in several
        ]
    return values


def _where_values(
    connection: Connection, statement: Select[Any], table: Table, values: Mapping[str, Sequence[str]]
) -> Select[Any]:
    """Values compared as the catalog's text: as a Hive writes them, and as they are given."""
    if len(values) == len(table.partition_columns) and all(len(v) == 1 for v in values.values()):
        # A full specification is one partition: its name is indexed, its single values are not.
        names = table.spellings({column: v[0] for column, v in values.items()}, others=False).names
        return statement.where(PARTITIONS.c.PART_NAME.in_(names))
    asked = [position for position, column in enumerate(table.partition_columns) if column.name in values]
    statement, stored = _join_values(connection, statement, asked)
    for position, text in stored.items():
        column = table.partition_columns[position]
        wanted: Sequence[str] = values[column.name]
        if is_char(column.type):
            wanted, text = [value.rstrip(" ") for value in wanted], func.rtrim(text)
        else:
            wanted = [one for value in wanted for one in spelled(column.type, value)]
        statement = statement.where(or_(false(), *(text.in_(part) for part in chunks(wanted))))
    return statement


def _join_values(
    connection: Connection, statement: Select[Any], positions: Iterable[int]
) -> tuple[Select[Any], dict[int, ColumnElement[Any]]]:
    """Partitions with the texts of some of their values, by position; there is one row for each value."""
    stored: dict[int, ColumnElement[Any]] = {}
    for position in positions:
        key = PARTITION_KEY_VALS.alias(f"KEY_{position}")
        of_partition = and_(key.c.PART_ID == PARTITIONS.c.PART_ID, key.c.INTEGER_IDX == position)
        beside, on = backend_of(connection).one_beside(key, of_partition, PARTITIONS)
        statement = statement.join(beside, on)
        stored[position] = beside.c.PART_KEY_VAL
    return statement, stored


def named_by(database: Database, table: Table, spec: PartitionSpec) -> str:
    """The catalog's name of one partition that a user means; it need not exist.

    :param spec: its name, in any spelling that means it, or values by column, or in the order of the columns.
    :raises InvalidArgumentsError: when it does not name exactly one partition of this table.
    """
    by_name = not isinstance(spec, Mapping)
    if isinstance(spec, Mapping):
        spec = partition_name((key, None if value is None else str(value)) for key, value in spec.items())
    if not isinstance(spec, str):
        return table.partition_name(spec)
    name, text = f"{table.db}.{table.name}", spec
    return database.read(lambda connection: resolve(connection, name, text, partial=False, by_name=by_name))
