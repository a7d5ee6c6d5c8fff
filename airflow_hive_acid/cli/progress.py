"""What runs at this moment, and for how long: one line that changes, on a terminal, and nothing anywhere else.

Messages that stay are printed by :func:`~airflow_hive_acid.cli.output.say`; this line disappears with the work.
"""

from __future__ import annotations

import contextlib
import sys
from typing import TYPE_CHECKING

from airflow_hive_acid.engine.outcomes.events import (
    JobFinished,
    Published,
    SparkReady,
    SparkStarting,
    StatementFinished,
    StatementStarted,
    TransactionOpened,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from airflow_hive_acid.engine.outcomes.events import Event


@contextlib.contextmanager
def progress(report: Callable[[Event], None], wanted: bool = True) -> Iterator[Callable[[Event], None]]:
    """A listener for an engine that shows what is running, and passes every event on.

    :param report: prints what is to stay.
    :param wanted: false: only ``report``.
    """
    if not wanted or not sys.stderr.isatty():
        yield report
        return
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
    console = Console(file=sys.stderr, force_terminal=True)
    with Progress(*columns, console=console, transient=True, redirect_stdout=False, refresh_per_second=4) as line:
        shown = line.add_task("starting")
        statement = ""

        def listen(event: Event) -> None:
            nonlocal statement
            report(event)
            if isinstance(event, StatementStarted):
                statement = _short(str(event))
                line.reset(shown, description=statement)
            elif isinstance(event, StatementFinished):
                statement = ""
            doing = _doing(event)
            if doing is not None:
                line.update(shown, description=f"{statement} · {doing}" if statement else doing)

        yield listen


def _doing(event: Event) -> str | None:
    """What begins with an event, in a few words; None where it says nothing about that."""
    match event:
        case SparkStarting():
            return "Spark is starting"
        case SparkReady():
            return "planning and locking"
        case TransactionOpened():
            return f"txn {event.txn_id}: running in Spark"
        case JobFinished():
            return "publishing" if event.inserted or event.updated or event.deleted else "finishing"
        case Published():
            return "committing"
        case StatementFinished():
            return "next"
        case _:
            return None


def _short(text: str) -> str:
    return text if len(text) <= 60 else text[:59] + "…"
