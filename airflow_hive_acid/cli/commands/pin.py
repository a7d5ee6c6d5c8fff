"""``hive-acid pin``: name a snapshot of tables that stays readable, until it is dropped or expires."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from airflow_hive_acid.cli.output import Format, print_rows, say

if TYPE_CHECKING:
    from airflow_hive_acid.cli.session import CliSession
    from airflow_hive_acid.engine.outcomes.results import Rows
    from airflow_hive_acid.metastore.txns import Pin

app = typer.Typer(help="Pins: named snapshots of tables that stay readable.", no_args_is_help=True)
_Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the pin.")]
_MaxBytes = Annotated[
    int | None,
    typer.Option("--max-bytes", metavar="BYTES", help="Drop it when it holds back more than so much from cleaning."),
]
_FormatOption = Annotated[Format, typer.Option("--format", help="How the rows are printed.")]
_DAY = 86_400


@app.command()
def add(
    context: typer.Context,
    name: _Name,
    on: Annotated[list[str], typer.Option("--on", metavar="DB.TABLE", help="Table; may be given more than once.")],
    days: Annotated[float, typer.Option("--days", metavar="DAYS", help="Drop it after so many days.")],
    max_bytes: _MaxBytes = None,
    comment: Annotated[str | None, typer.Option("--comment", help="What it is for.")] = None,
) -> None:
    """Pin tables as they are now, all at one moment."""
    session: CliSession = context.obj
    pins = session.client().pins
    pin = pins.pin(name, on, expires=days * _DAY, max_bytes=max_bytes, comment=comment, agent_info="hive-acid CLI")
    say(f"{pin} on {', '.join(pin.tables)} until {pin.until}")


@app.command("list")
def list_(
    context: typer.Context,
    ended: Annotated[bool, typer.Option("--ended", help="Also those that have ended, and why.")] = False,
    form: _FormatOption = Format.TABLE,
) -> None:
    """Pins, until when they last, and what they hold back from cleaning."""
    session: CliSession = context.obj
    print_rows(pin_rows(session.existing_client().pins.show(ended=ended)), form)


@app.command()
def extend(
    context: typer.Context,
    name: _Name,
    days: Annotated[float | None, typer.Option("--days", metavar="DAYS", help="So many days from now.")] = None,
    max_bytes: _MaxBytes = None,
) -> None:
    """Let a pin last for a time from now, or hold back another number of bytes."""
    if days is None and max_bytes is None:
        raise typer.BadParameter("give --days, --max-bytes or both", context)
    session: CliSession = context.obj
    pins = session.client().pins
    pin = pins.extend(name, expires=None if days is None else days * _DAY, max_bytes=max_bytes)
    say(f"{pin} on {', '.join(pin.tables)} until {pin.until}")


@app.command()
def drop(
    context: typer.Context,
    name: _Name,
    why: Annotated[str | None, typer.Option("--why", help="Why; it is kept in the record.")] = None,
) -> None:
    """Drop a pin: what was kept for it alone goes with the next clean-up."""
    session: CliSession = context.obj
    pin = session.existing_client().pins.unpin(name, why)
    rest = "" if pin.state.name == "SETTLED" else "; who reads by it now reads to the end"
    say(f"{pin} is dropped{rest}")


def pin_rows(pins: list[Pin]) -> Rows:
    """Pins as a table."""
    from airflow_hive_acid.engine.outcomes.results import Rows
    from airflow_hive_acid.format.jobs import Column

    columns = [("name", "string"), ("tables", "string"), ("state", "string"), ("created", "string"),
               ("expires", "string"), ("held_bytes", "bigint"), ("max_bytes", "bigint"), ("user", "string"),
               ("comment", "string"), ("reason", "string")]  # fmt: skip
    documents = [{**pin.to_document(), "tables": ", ".join(pin.tables)} for pin in pins]
    return Rows(
        tuple(Column(name, kind) for name, kind in columns), [[d[name] for name, _ in columns] for d in documents]
    )
