"""SHOW DATABASES, TABLES, VIEWS, PARTITIONS, COLUMNS, … and DESCRIBE: rows of the catalog, with Hive's columns.

They take no locks and open no txn: each is one view of the catalog, or for partitions one for each page of them.
"""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from airflow_hive_acid.engine.outcomes.results import Rows
from airflow_hive_acid.engine.queries.partition_filters import condition_of
from airflow_hive_acid.engine.queries.shows import StreamedRows
from airflow_hive_acid.engine.queries.table_texts import (
    create_statement,
    described,
    described_column,
    described_database,
)
from airflow_hive_acid.errors import InvalidArgumentsError, NoSuchObjectError
from airflow_hive_acid.format.jobs import Column
from airflow_hive_acid.format.partitions import DEFAULT_PARTITION
from airflow_hive_acid.metastore.catalog import MANAGED_TABLE, VIRTUAL_VIEW, And, Compare, IsNull
from airflow_hive_acid.sql.model.lookups import (
    Describe,
    DescribeDatabase,
    Detail,
    Listed,
    ShowCreateTable,
    ShowNames,
    ShowPartitions,
    ShowProperties,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from airflow_hive_acid.metastore import MetastoreClient
    from airflow_hive_acid.metastore.catalog import Condition, Table
    from airflow_hive_acid.sql.model.lookups import Lookup

_PAGE = 1000
"""Partitions read together."""
_NAMES = {
    Listed.DATABASES: "database_name",
    Listed.TABLES: "tab_name",
    Listed.VIEWS: "tab_name",
    Listed.COLUMNS: "field",
}
_OF_DATABASE = ("db_name", "comment", "location", "managedlocation", "owner_name", "owner_type", "connector_name",
                "remote_dbname", "parameters")  # fmt: skip


def look(client: MetastoreClient, statement: Lookup) -> Rows:
    """Run a statement that looks at the catalog.

    :raises NoSuchObjectError: for a database, table, partition or column that is not there.
    """
    streamed = stream_lookup(client, statement)
    return Rows(streamed.columns, list(streamed.rows))


def stream_lookup(client: MetastoreClient, statement: Lookup) -> StreamedRows:
    """The same, without holding all rows: partitions are read by pages."""
    match statement:
        case ShowNames(listed=listed, pattern=pattern):
            return _rows((_NAMES[listed],), ([name] for name in _matching(_names(client, statement), pattern)))
        case ShowPartitions():
            return _rows(("partition",), _partitions(client, statement))
        case ShowCreateTable(table=name):
            table = client.catalog.get_table(str(name))
            database = client.catalog.get_database(table.db)
            home = database.home_of(table.name, managed=table.type == MANAGED_TABLE)
            lines = create_statement(table, home, client.catalog.constraints(str(name)))
            return _rows(("createtab_stmt",), ([line] for line in lines))
        case ShowProperties(table=name, key=key):
            return _rows(("prpt_name", "prpt_value"), _properties(client.catalog.get_table(str(name)), key))
        case Describe():
            return _rows(("col_name", "data_type", "comment"), _describe(client, statement))
        case DescribeDatabase(database=name, extended=extended):
            database = client.catalog.get_database(name)
            return _rows(_OF_DATABASE, iter([described_database(database, extended=extended)]))
    raise AssertionError(f"no rows for {type(statement).__name__}")


def _rows(columns: Iterable[str], rows: Iterator[list[Any]]) -> StreamedRows:
    return StreamedRows(tuple(Column(name, "string") for name in columns), rows)


def _names(client: MetastoreClient, statement: ShowNames) -> list[str]:
    catalog = client.catalog
    match statement.listed:
        case Listed.DATABASES:
            return catalog.list_databases()
        case Listed.TABLES | Listed.VIEWS if statement.database is not None:
            return catalog.list_tables(statement.database, VIRTUAL_VIEW if statement.listed is Listed.VIEWS else None)
    table = catalog.get_table(str(statement.table))
    return [column.name for column in (*table.columns, *table.partition_columns)]


def _matching(names: Iterable[str], pattern: str | None) -> Iterator[str]:
    """Those that match a pattern: ``*`` and ``%`` are any text, ``|`` separates choices; in any case."""
    if pattern is None:
        yield from names
        return
    # Of what fnmatch knows, a pattern of Hive has the star alone.
    choices = [re.sub(r"[?\[]", r"[\g<0>]", choice.strip().lower()).replace("%", "*") for choice in pattern.split("|")]
    yield from (name for name in names if any(fnmatchcase(name.lower(), choice) for choice in choices))


def _partitions(client: MetastoreClient, statement: ShowPartitions) -> Iterator[list[Any]]:
    name = str(statement.table)
    table = client.catalog.get_table(name)
    if not table.is_partitioned:
        raise InvalidArgumentsError(f"{name} is not partitioned")
    columns = {column.name: column.type for column in table.partition_columns}
    conditions: list[Condition] = []
    for column, value in statement.values:
        if column not in columns:
            raise InvalidArgumentsError(f"{column} is no partition column of {name}; there are {', '.join(columns)}")
        no_value = value in ("", DEFAULT_PARTITION)
        conditions.append(IsNull(column) if no_value else Compare(column, "=", value))
    if statement.where is not None:
        conditions.append(condition_of(statement.where.tree, columns, name))
    left, after = statement.limit, None
    while left is None or left > 0:
        count = _PAGE if left is None else min(_PAGE, left)
        page = client.catalog.list_partitions(name, And(conditions) if conditions else None, count, after=after)
        yield from ([partition.name] for partition in page)
        if len(page) < count:
            return
        left, after = None if left is None else left - count, page[-1].name


def _properties(table: Table, key: str | None) -> Iterator[list[Any]]:
    if key is None:
        yield from ([name, value] for name, value in sorted(table.properties.items()))
        return
    value = table.property(key)
    missing = f"Table {table.qualified_name} does not have property: {key}"  # Hive's words, in the place of the value
    yield [key, missing if value is None else value]


def _describe(client: MetastoreClient, statement: Describe) -> Iterator[list[Any]]:
    name = str(statement.table)
    table = client.catalog.get_table(name)
    partition = client.catalog.get_whole_partition(name, dict(statement.partition)) if statement.partition else None
    if statement.column is not None:
        own = table.storage.columns if partition is None else partition.storage.columns or table.storage.columns
        known = {column.name.lower(): column for column in (*own, *table.partition_keys)}
        if statement.column not in known:
            raise NoSuchObjectError(f"{name} has no column {statement.column}; there are {', '.join(known)}")
        yield from described_column(known[statement.column])
        return
    whole = statement.detail is not Detail.PLAIN
    constraints = client.catalog.constraints(table.qualified_name) if whole and not table.is_view else ()
    yield from described(table, partition, whole=whole, constraints=constraints)
