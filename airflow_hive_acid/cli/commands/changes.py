"""``hive-acid changes``: what a range of write ids has changed in a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from airflow_hive_acid.cli.output import Format, print_rows, say

if TYPE_CHECKING:
    from airflow_hive_acid.cli.session import CliSession


def changes(
    context: typer.Context,
    table: Annotated[str, typer.Argument(metavar="DB.TABLE", help="The table.")],
    first: Annotated[int, typer.Option("--from", metavar="WRITE_ID", help="The first write id.")],
    last: Annotated[
        int | None,
        typer.Option("--to", metavar="WRITE_ID", show_default="as far as all have ended", help="The last one."),
    ] = None,
    event: Annotated[
        int | None,
        typer.Option(
            "--event",
            metavar="EVENT_ID",
            help="What was known up to this event: fail if the table is another one since, or a partition was dropped.",
        ),
    ] = None,
    net: Annotated[bool, typer.Option("--net", help="Leave out what the range itself made and undid.")] = False,
    key: Annotated[
        list[str] | None,
        typer.Option("--key", metavar="COLUMN", help="Pair updates by this column; may be given more than once."),
    ] = None,
    form: Annotated[Format, typer.Option("--format", help="How the rows are printed.")] = Format.TABLE,
) -> None:
    """Rows that were inserted, updated (before and after) and deleted by a range of write ids."""
    from airflow_hive_acid.engine.changes import change_range

    session: CliSession = context.obj
    found = change_range(session.existing_client(), table, first, last, event)
    if found.is_empty:
        say(f"nothing new in {found.table} from write id {first} on")
        return
    then = f"; go on with --from {found.last + 1}" + ("" if found.event_id is None else f" --event {found.event_id}")
    say(f"changes of {found.table} from write id {found.first} to {found.last}{then}")
    with session.engine() as engine:
        print_rows(engine.query(found.query(net=net, key=key or [])), form)
