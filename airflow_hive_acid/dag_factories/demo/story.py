"""What the demo tells while it runs: plain lines in the tasks' logs.

``scripts/run_dag.py`` prints the lines of these loggers as they are; in a deployment they stand in the tasks' logs.
"""

from __future__ import annotations

import contextlib
import logging
import time
from typing import TYPE_CHECKING, Any, TextIO

from airflow_hive_acid.engine.outcomes.events import StatementFinished, TransactionAborted

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    _StreamHandler = logging.StreamHandler[TextIO]
else:
    _StreamHandler = logging.StreamHandler  # no generic before Python 3.11

log = logging.getLogger("airflow_hive_acid.demo")

_MARGIN = "    "
_STATEMENT = 48

_started: dict[str, float] = {}
_brief: list[bool] = []


def say(text: str) -> None:
    """One or more lines of the story."""
    for line in text.splitlines():
        log.info("%s%s", _MARGIN, line)


def some(things: Sequence[object], shown: int = 3) -> str:
    """The first few, one per line, and how many more there are."""
    lines = [str(thing) for thing in things[:shown]]
    if len(things) > shown:
        lines.append(f"… and {len(things) - shown} more like these")
    return "\n".join(lines)


@contextlib.contextmanager
def brief() -> Iterator[None]:
    """Leave out of the story what others say at length meanwhile; in a deployment's log it stands all the same."""
    _brief.append(True)
    try:
        yield
    finally:
        _brief.pop()


def table(header: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Rows under a header, in columns; numbers to the right, with separators between thousands."""
    texts = [[_cell(value) for value in row] for row in rows]
    widths = [max(len(line[i]) for line in [list(header), *texts]) for i in range(len(header))]
    numeric = [all(isinstance(row[i], int | float) for row in rows) for i in range(len(header))]

    def line(cells: Sequence[str]) -> str:
        aligned = (c.rjust(w) if n else c.ljust(w) for c, w, n in zip(cells, widths, numeric, strict=True))
        return "  ".join(aligned).rstrip()

    return "\n".join([line(header), *(line(row) for row in texts)])


def task_begins(context: Any) -> None:
    """Airflow callback: the headline of a task, which is the first line of its documentation."""
    task = context["task"]
    _started[task.task_id] = time.monotonic()
    headline = (task.doc or task.task_id).strip().splitlines()[0]
    log.info("\n%s", headline)


def task_ends(context: Any) -> None:
    """Airflow callback: how long a task took."""
    started = _started.pop(context["task"].task_id, None)
    if started is not None:
        say(f"{time.monotonic() - started:.1f} s")


class StoryHandler(_StreamHandler):
    """Prints log lines as they are; of what an engine says about a statement, only how it ended."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__(stream)
        self.addFilter(_matters)

    def format(self, record: logging.LogRecord) -> str:
        """A line of the story."""
        event = getattr(record, "hive_acid_event", None)
        if isinstance(event, StatementFinished):
            return f"{_MARGIN}{_statement(event)}"
        if event is not None or record.name != log.name:
            return f"{_MARGIN}{record.getMessage()}"
        return record.getMessage()


def _matters(record: logging.LogRecord) -> bool:
    if _brief and record.levelno < logging.WARNING and record.name != log.name:
        return False
    event = getattr(record, "hive_acid_event", None)
    return event is None or isinstance(event, StatementFinished | TransactionAborted)


def _statement(event: StatementFinished) -> str:
    """The beginning of a statement, and what became of it."""
    result = event.result
    begin = " ".join(result.statement.split())
    begin = begin if len(begin) <= _STATEMENT else f"{begin[: _STATEMENT - 1]}…"
    counts = {"inserted": result.inserted, "updated": result.updated, "deleted": result.deleted}
    told = ", ".join(f"{number:,} {what}" for what, number in counts.items() if number)
    return f"{begin:<{_STATEMENT}}  {result.seconds:5.1f} s  {told}".rstrip()


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:,.1f}"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return "" if value is None else str(value)
