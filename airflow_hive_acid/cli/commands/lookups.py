"""``hive-acid tables``, ``describe``, ``show databases`` and ``show partitions``: what the catalog holds.

Rows are printed while they are read.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from airflow_hive_acid.cli.completion import complete_database, complete_table
from airflow_hive_acid.cli.output import Format, print_stream
from airflow_hive_acid.errors import InvalidArgumentsError
from airflow_hive_acid.format.partitions import parse_partition_name

if TYPE_CHECKING:
    from airflow_hive_acid.cli.session import CliSession
    from airflow_hive_acid.sql.model.lookups import Lookup
    from airflow_hive_acid.sql.model.origins import TableName

_Table = Annotated[str, typer.Argument(metavar="DATABASE.TABLE", autocompletion=complete_table)]
_Like = Annotated[
    str | None, typer.Option("--like", metavar="PATTERN", help="Names like this: * is any text, | separates choices.")
]
_FormatOption = Annotated[Format, typer.Option("--format", help="How the rows are printed.")]


def databases(context: typer.Context, like: _Like = None, form: _FormatOption = Format.TABLE) -> None:
    """Databases, by name."""
    from airflow_hive_acid.sql.model.lookups import Listed, ShowNames

    _print(context, ShowNames(Listed.DATABASES, pattern=like), form)


def tables(
    context: typer.Context,
    database: Annotated[str, typer.Argument(autocompletion=complete_database)] = "default",
    like: _Like = None,
    views: Annotated[bool, typer.Option("--views", help="Views alone.")] = False,
    form: _FormatOption = Format.TABLE,
) -> None:
    """Tables and views of a database, by name."""
    from airflow_hive_acid.sql.model.lookups import Listed, ShowNames

    _print(context, ShowNames(Listed.VIEWS if views else Listed.TABLES, database, pattern=like), form)


def describe(
    context: typer.Context,
    table: _Table,
    column: Annotated[str | None, typer.Option(help="This column alone.")] = None,
    partition: Annotated[
        str | None, typer.Option(metavar="NAME", help="This partition, for example day=2026-11-01/hour=3.")
    ] = None,
    formatted: Annotated[bool, typer.Option("--formatted", help="Owner, place, parameters and storage, too.")] = False,
    create: Annotated[bool, typer.Option("--create", help="The statement that makes the table instead.")] = False,
    form: _FormatOption = Format.TABLE,
) -> None:
    """Columns of a table or partition."""
    from airflow_hive_acid.sql.model.lookups import Describe, Detail, ShowCreateTable

    if create:
        if column is not None or partition is not None or formatted:
            raise InvalidArgumentsError("--create prints the whole statement; leave the other options out")
        return _print(context, ShowCreateTable(_name(table)), form)
    values = parse_partition_name(partition) if partition is not None else ()
    if any(value is None for _, value in values):
        raise InvalidArgumentsError(f"--partition {partition}: each column needs a value")
    given = tuple((key.lower(), str(value)) for key, value in values)
    detail = Detail.FORMATTED if formatted else Detail.PLAIN
    return _print(context, Describe(_name(table), column.lower() if column else None, given, detail), form)


def partitions(
    context: typer.Context,
    table: _Table,
    where: Annotated[
        str | None, typer.Option(metavar="CONDITION", help="On partition columns, for example \"day >= '2026-11-01'\".")
    ] = None,
    limit: Annotated[int | None, typer.Option(min=0, help="So many rows at most.")] = None,
    form: _FormatOption = Format.TABLE,
) -> None:
    """Partitions of a table, in the order of their names."""
    from airflow_hive_acid.sql import parse_script
    from airflow_hive_acid.sql.model.lookups import ShowPartitions

    statement = ShowPartitions(_name(table))
    if where is not None:
        parsed = parse_script(f"SHOW PARTITIONS t WHERE {where}")
        if len(parsed) != 1 or not isinstance(parsed[0], ShowPartitions) or parsed[0].limit is not None:
            raise InvalidArgumentsError(f"--where {where!r} is no condition")
        statement = replace(statement, where=parsed[0].where)
    _print(context, replace(statement, limit=limit), form)


def _name(table: str) -> TableName:
    from airflow_hive_acid.metastore.names import table_name
    from airflow_hive_acid.sql.model.origins import TableName

    return TableName(*table_name(table))


def _print(context: typer.Context, statement: Lookup, form: Format) -> None:
    from airflow_hive_acid.engine.queries.lookups import stream_lookup

    session: CliSession = context.obj
    client = session.existing_client()
    streamed = stream_lookup(client, statement)
    print_stream([column.name for column in streamed.columns], streamed.rows, form)
