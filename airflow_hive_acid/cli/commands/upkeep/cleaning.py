"""``hive-acid cleaning``: what the Cleaner removed, what it keeps and for whom, and what its trash can give back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from airflow_hive_acid.cli.output import Format, print_stream, say
from airflow_hive_acid.errors import InvalidArgumentsError

if TYPE_CHECKING:
    from airflow_hive_acid.cli.session import CliSession
    from airflow_hive_acid.maintenance.decisions import CleaningOutcome
    from airflow_hive_acid.metastore.compaction import CleaningRecord

app = typer.Typer(help="What the Cleaner removed and keeps, for whom; and its trash.", no_args_is_help=True)
_FormatOption = Annotated[Format, typer.Option("--format", help="How the rows are printed.")]
_WhatArgument = Annotated[str | None, typer.Argument(metavar="[DATABASE|DATABASE.TABLE]", show_default="everything")]
_EXPLAINED = ("table", "partition", "request", "outcome", "reason", "for", "directories", "since")
_TRASHED = ("batch", "table", "partition", "request", "name", "moved", "uri")


@app.command()
def explain(
    context: typer.Context,
    what: _WhatArgument = None,
    form: _FormatOption = Format.TABLE,
    limit: Annotated[int, typer.Option("--limit", min=0, help="So many earlier outcomes at most.")] = 20,
) -> None:
    """What the Cleaner would do now, for whom it keeps the rest, and what it did last; changes nothing."""
    from airflow_hive_acid.maintenance.cleaner.cleaner import explain_cleaning

    session: CliSession = context.obj
    client = session.existing_client()
    database, table = _place(what)
    session.note_missing(database, table)
    now = [
        _now(outcome)
        for outcome in explain_cleaning(client, session.filesystem())
        if database in (None, outcome.resource.database) and table in (None, outcome.resource.table)
    ]
    before = [_before(record) for record in client.cleanings.newest(database, table, limit=limit)]
    print_stream(_EXPLAINED, [*now, *before], form)


@app.command()
def trash(context: typer.Context, what: _WhatArgument = None, form: _FormatOption = Format.TABLE) -> None:
    """What lies in the trash, oldest first; without a time and a place: what a batch lacks."""
    from airflow_hive_acid.maintenance.cleaner.trash import in_trash

    session: CliSession = context.obj
    items = session.existing_client().trash.show(*_place(what))
    there = in_trash(session.filesystem(), items) if items else set()
    rows = [
        [
            item.batch, f"{item.resource.database}.{item.resource.table}", item.resource.partition or "",
            item.request_id, item.source.rpartition("/")[2],
            *([_time(item.moved), item.path] if item.path in there else ["", ""]),
        ]
        for item in items
    ]  # fmt: skip
    print_stream(_TRASHED, rows, form)


@app.command()
def undo(
    context: typer.Context,
    batch: Annotated[str, typer.Argument(metavar="BATCH", help="As 'hive-acid cleaning trash' names it.")],
    table: Annotated[
        str | None, typer.Option("--table", metavar="DATABASE.TABLE", help="Make a new table of it: rows as they were.")
    ] = None,
    into: Annotated[
        str | None, typer.Option("--into", metavar="URI", help="Put the directories there, away from every table.")
    ] = None,
) -> None:
    """Take what one clean-up has moved out of the trash again; never back into the table it came from."""
    from airflow_hive_acid.cli.session import as_uri
    from airflow_hive_acid.maintenance.cleaner.undo import restore_as_table, restore_into

    if (table is None) == (into is None):
        raise InvalidArgumentsError("give either --table, for a new table, or --into, for a directory")
    session: CliSession = context.obj
    client, filesystem = session.client(), session.filesystem()
    if table is not None:
        say(str(restore_as_table(client, filesystem, batch, table)))
    elif into is not None:
        say(str(restore_into(client, filesystem, batch, as_uri(into))))


@app.command("purge-trash")
def purge_trash(
    context: typer.Context,
    everything: Annotated[
        bool, typer.Option("--all", help="Also what is younger than hive.acid.cleaner.trash.retention.")
    ] = False,
) -> None:
    """Delete for good what has been in the trash for longer than its retention; the reaper does so, too."""
    from airflow_hive_acid.maintenance.cleaner.trash import purge_trash as purge

    session: CliSession = context.obj
    number = purge(session.client(), session.filesystem(), -1 if everything else None)
    say(f"{number} directories and files are deleted for good")


def _place(what: str | None) -> tuple[str | None, str | None]:
    from airflow_hive_acid.metastore.names import database_name, table_name

    if what is None:
        return None, None
    if "." not in what:
        return database_name(what), None
    name = table_name(what)
    return name.database, name.name


def _now(outcome: CleaningOutcome) -> list[Any]:
    resource, details = outcome.resource, outcome.details()
    return [
        f"{resource.database}.{resource.table}", resource.partition or "", outcome.request_id, outcome.kind.value,
        outcome.reason, "; ".join(outcome.blocked_by), ", ".join([*details["removed"], *details["kept"]]), "now",
    ]  # fmt: skip


def _before(record: CleaningRecord) -> list[Any]:
    resource, details = record.resource, record.details
    directories = [*details.get("removed", ()), *details.get("kept", ())]
    return [
        f"{resource.database}.{resource.table}", resource.partition or "", record.request_id, record.kind,
        record.reason, "; ".join(map(_whom, details.get("for", ()))), ", ".join(directories), _time(record.since),
    ]  # fmt: skip


def _whom(holder: dict[str, Any]) -> str:
    if "what" in holder:
        return str(holder["what"])
    who = "@".join(part for part in (holder["user"], holder["host"]) if part)
    return f"txn {holder['txn']} ({', '.join(part for part in (who, holder['agent']) if part)})"


def _time(milliseconds: int) -> str:
    from datetime import datetime, timezone

    return datetime.fromtimestamp(milliseconds / 1000, timezone.utc).isoformat(sep=" ", timespec="seconds")
