"""``hive-acid schema``: create the metastore's tables, upgrade our own, or say what is there."""

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
def upgrade(context: typer.Context) -> None:
    """Add our own tables to the metastore of a Hive (3.1, 4.0 to 4.2), or bring them to this release's version.

    Hive's own tables keep their rows and columns, and its VERSION stays. Harmless when there is nothing to do.
    """
    session: CliSession = context.obj
    client = session.bare_client()
    upgraded = client.upgrade_schema()
    before = "none" if upgraded.before is None else f"version {upgraded.before}"
    done = "; ".join(upgraded.done) if upgraded.done else "nothing to do"
    say(f"{client.database.where}: our tables were {before}, are version {upgraded.after}: {done}")


@app.command()
def check(context: typer.Context) -> None:
    """Say which schema the database holds; fails when it is none that can be used."""
    session: CliSession = context.obj
    client = session.bare_client()
    state = client.check_schema()
    if state.extension_version is None:
        extension = "without our tables: run 'hive-acid schema upgrade'"
    elif state.is_current:
        extension = f"our tables version {state.extension_version}"
    else:
        extension = f"our tables version {state.extension_version}, an older one: run 'hive-acid schema upgrade'"
    say(f"{client.database.where}: Hive schema {state.version}, {extension}; warehouse {client.catalog.warehouse()}")
    for what in state.lacks:
        say(f"  not on this metastore: {what}")
    if not state.is_current:
        raise typer.Exit(1)
