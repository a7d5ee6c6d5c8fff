"""``hive-acid settings``: every setting with its value, where the value comes from, and Hive's own default."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from airflow_hive_acid.cli.output import Format, print_rows
from airflow_hive_acid.engine.outcomes.results import Rows
from airflow_hive_acid.format.jobs import Column

if TYPE_CHECKING:
    from airflow_hive_acid.cli.session import CliSession


def settings(
    context: typer.Context,
    form: Annotated[Format, typer.Option("--format", help="How the rows are printed.")] = Format.TABLE,
) -> None:
    """Print Hive's settings as they are in force here."""
    session: CliSession = context.obj
    columns = tuple(Column(name, "string") for name in ("setting", "value", "from", "hive_default", "meaning"))
    found = [
        [r.setting.key, r.text, r.source.value, r.setting.hive_default, r.setting.description]
        for r in session.settings()
    ]
    print_rows(Rows(columns, found), form)
