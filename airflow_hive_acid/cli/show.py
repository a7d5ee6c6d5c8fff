"""``hive-acid show``: what is going on in the metastore."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from airflow_hive_acid.cli.output import Format, print_rows

if TYPE_CHECKING:
    from airflow_hive_acid.cli.session import CliSession

app = typer.Typer(help="Locks, transactions and compactions, as SHOW prints them.", no_args_is_help=True)
_FormatOption = Annotated[Format, typer.Option("--format", help="How the rows are printed.")]


@app.command()
def locks(context: typer.Context, form: _FormatOption = Format.TABLE) -> None:
    """All locks, waiting ones with what they wait for."""
    _show(context, "locks", form)


@app.command()
def transactions(context: typer.Context, form: _FormatOption = Format.TABLE) -> None:
    """Open and aborted transactions."""
    _show(context, "transactions", form)


@app.command()
def compactions(context: typer.Context, form: _FormatOption = Format.TABLE) -> None:
    """Compactions that wait, run, or have ended."""
    _show(context, "compactions", form)


def _show(context: typer.Context, kind: str, form: Format) -> None:
    from airflow_hive_acid.engine.shows import show_rows

    session: CliSession = context.obj
    print_rows(show_rows(session.client(), kind), form)
