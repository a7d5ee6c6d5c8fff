"""``hive-acid import``: a table of another format becomes one of ours."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from airflow_hive_acid.cli.commands.lease import lease_of_environment
from airflow_hive_acid.cli.commands.statements.sql import reporter
from airflow_hive_acid.cli.output import say
from airflow_hive_acid.cli.progress import progress
from airflow_hive_acid.cli.session import parse_pairs

if TYPE_CHECKING:
    from airflow_hive_acid.cli.session import CliSession


def import_table(
    context: typer.Context,
    source: Annotated[
        str, typer.Argument(metavar="SOURCE", help="iceberg:catalog.db.table, delta:/path, parquet:/path or orc:/path.")
    ],
    table: Annotated[str, typer.Argument(metavar="TABLE", help="[database.]table to make.")],
    partition_by: Annotated[
        list[str] | None, typer.Option(metavar="COLUMN", help="Partition the table by this column; may be repeated.")
    ] = None,
    version: Annotated[
        str | None, typer.Option(metavar="N", show_default="the newest", help="Iceberg snapshot id or Delta version.")
    ] = None,
    column: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=OTHER", help="Call a column of the source otherwise; may be repeated."),
    ] = None,
    property: Annotated[
        list[str] | None, typer.Option(metavar="KEY=VALUE", help="A property of the table; may be repeated.")
    ] = None,
    replace: Annotated[bool, typer.Option("--replace", help="A table of that name becomes this one.")] = False,
    reuse_files: Annotated[
        bool, typer.Option("--reuse-files", help="Leave plain ORC files where they are; the table owns them then.")
    ] = False,
    verify: Annotated[bool, typer.Option(help="Compare counts and checksums of both sides afterwards.")] = True,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress messages.")] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="All progress messages.")] = False,
) -> None:
    """Make a full ACID table of a table of another format, in one commit.

    Iceberg and Delta need their jars and catalogs in --spark-conf. One version of the source is read, which becomes a
    property of the table.
    """
    from airflow_hive_acid.engine.statements.foreign_tables import TableImport
    from airflow_hive_acid.mirrors.imports import verify_import

    session: CliSession = context.obj
    wanted = TableImport.of(
        source, table, version=version, partition_by=partition_by or (), columns=parse_pairs("--column", column or []),
        properties=parse_pairs("--property", property or []), replace=replace, reuse_files=reuse_files,
    )  # fmt: skip
    client = session.client()
    lease = lease_of_environment(client.leases)
    with progress(reporter(quiet, verbose), not quiet) as listener, session.engine(listener) as engine:
        made = engine.import_table(wanted, lease=lease)
        say(str(made))
        if verify and not reuse_files:
            verified = verify_import(client, engine, made)
            say(f"verified: {verified.target_rows} rows in {verified.partitions} partitions are the same")
