"""``hive-acid compaction cancel``: end requests that wait, and those that a Worker of ours runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from airflow_hive_acid.cli.output import say

if TYPE_CHECKING:
    from airflow_hive_acid.cli.session import CliSession


def cancel(
    context: typer.Context,
    ids: Annotated[list[int], typer.Argument(metavar="ID…", help="As SHOW COMPACTIONS prints them.")],
    reason: Annotated[str | None, typer.Option(help="Kept in the history, for whoever asks why.")] = None,
) -> None:
    """End compaction requests: one that waits at once, one that runs as soon as its Worker looks, within seconds.

    A request that a real Hive's worker runs is left alone. Exit code 1 when one of them was not cancelled.
    """
    session: CliSession = context.obj
    client = session.existing_client()
    answers = client.compactions.abort(ids, user=client.user, reason=reason)
    for answer in answers:
        say(f"compaction {answer.id}: {answer.message}")
    if not all(answer.aborted for answer in answers):
        raise typer.Exit(1)
