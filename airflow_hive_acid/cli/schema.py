"""``hive-acid schema``: create the metastore's tables, or say what is there."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from airflow_hive_acid.cli.output import say

if TYPE_CHECKING:
    from airflow_hive_acid.cli.session import CliSession

app = typer.Typer(help="The tables of the metastore database.", no_args_is_help=True)


@app.command()
def create(context: typer.Context) -> None:
    """Create the schema in an empty database, or add our own tables to a Hive metastore. Harmless when it exists."""
    session: CliSession = context.obj
    session.create_schema()


@app.command()
def check(context: typer.Context) -> None:
    """Say which schema the database holds; fails when it is none that can be used."""
    session: CliSession = context.obj
    client = session.bare_client()
    state = client.check_schema()
    extension = (
        f"our tables version {state.extension_version}"
        if state.extension_version is not None
        else "without our tables: run 'hive-acid schema create'"
    )
    say(f"{client.database.where}: Hive schema {state.version}, {extension}; warehouse {client.catalog.warehouse()}")
    if state.extension_version is None:
        raise typer.Exit(1)
