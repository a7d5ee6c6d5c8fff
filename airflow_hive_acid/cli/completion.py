"""Names that a shell offers behind the TAB key, from the metastore that the command line is about.

Nothing is printed when it cannot be asked: the shell would show that in the middle of what somebody types.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import typer  # noqa: TC002 - typer reads the annotations

from airflow_hive_acid.errors import HiveAcidError

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_hive_acid.metastore.catalog import Catalog


def complete_database(context: typer.Context, incomplete: str) -> list[str]:
    """Databases whose names begin so."""
    begun = incomplete.lower()
    return [name for name in _ask(context, lambda catalog: catalog.list_databases()) if name.startswith(begun)]


def complete_table(context: typer.Context, incomplete: str) -> list[str]:
    """``database.table``; databases with a dot as long as none is named."""
    database, dot, begun = incomplete.lower().partition(".")
    if not dot:
        return [f"{name}." for name in complete_database(context, database)]
    names = _ask(context, lambda catalog: catalog.list_tables(database))
    return [f"{database}.{name}" for name in names if name.startswith(begun)]


def _ask(context: typer.Context, read: Callable[[Catalog], list[str]]) -> list[str]:
    from airflow_hive_acid.cli.session import CliSession

    session = CliSession(metastore_url=context.find_root().params.get("metastore_url"))
    if session.is_new_embedded():
        return []
    names: list[str] = []
    with contextlib.suppress(HiveAcidError), contextlib.closing(session):
        names = read(session.bare_client().catalog)
    return names
