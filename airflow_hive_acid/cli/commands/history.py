"""``hive-acid history``: the commits of a table, as far as the notification log goes back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from airflow_hive_acid.cli.completion import complete_table
from airflow_hive_acid.cli.output import Format, print_rows, say

if TYPE_CHECKING:
    from airflow_hive_acid.cli.session import CliSession
    from airflow_hive_acid.metastore.listing import TableHistory

COLUMNS = (
    "time", "write_id", "txn_id", "operations", "inserted", "updated", "deleted", "partitions", "user", "agent_info",
)  # fmt: skip


def history(
    context: typer.Context,
    table: Annotated[str, typer.Argument(metavar="DATABASE.TABLE", autocompletion=complete_table)],
    limit: Annotated[int, typer.Option(min=1, help="So many commits, the latest ones.")] = 100,
    form: Annotated[Format, typer.Option("--format", help="How the rows are printed.")] = Format.TABLE,
) -> None:
    """Commits of a table, the latest first: write id, txn, operations, rows, user and task.

    A write id goes behind VERSION AS OF, a time (UTC) behind TIMESTAMP AS OF.
    """
    from airflow_hive_acid.engine.outcomes.results import Rows
    from airflow_hive_acid.format.jobs import Column
    from airflow_hive_acid.metastore.listing import read_history, shown_moment
    from airflow_hive_acid.metastore.names import table_name

    session: CliSession = context.obj
    client = session.existing_client()
    found = client.catalog.get_table(table)
    told = read_history(client.database, client.notifications, table_name(found.qualified_name))
    if told.since:
        say(f"commits before {shown_moment(told.since)} are not in the notification log any more")
    columns = tuple(Column(name, "string") for name in COLUMNS)
    print_rows(Rows(columns, rows_of(told, limit)), form)


def rows_of(told: TableHistory, limit: int) -> list[list[Any]]:
    """The rows that are printed, the latest commit first."""
    from airflow_hive_acid.metastore.listing import shown_moment

    return [
        [
            shown_moment(commit.time), commit.write_id, commit.txn_id, ", ".join(commit.operations) or None,
            *([None] * 3 if commit.volume is None else
              [commit.volume.inserted, commit.volume.updated, commit.volume.deleted]),
            None if not commit.partitions else ", ".join(commit.partitions), commit.user, commit.agent_info,
        ]
        for commit in reversed(told.commits[-limit:])
    ]  # fmt: skip
