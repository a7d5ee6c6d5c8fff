"""The line that says what runs: on a terminal only, and gone when the work is done."""

import io

import pytest

from airflow_hive_acid.cli.progress import progress
from airflow_hive_acid.engine.outcomes.events import (
    JobFinished,
    SparkReady,
    SparkStarting,
    StatementStarted,
    TransactionOpened,
)

EVENTS = [
    SparkStarting(),
    StatementStarted(1, 2, "insert", 1, "INSERT INTO w.t VALUES ([1])"),
    SparkReady("app-1", 0.1),
    TransactionOpened(7, {"w.t": "insert"}, {"w.t": 1}, 0.1),
    JobFinished("insert", "w.t", 1, 0, 0, 0, 0.1),
]


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize("wanted", [True, False])
def test_nothing_is_shown_where_nobody_looks_or_nobody_wants_it(monkeypatch, wanted):
    err = io.StringIO() if wanted else Terminal()
    monkeypatch.setattr("sys.stderr", err)
    told = []
    with progress(told.append, wanted) as listener:
        for event in EVENTS:
            listener(event)
    assert told == EVENTS
    assert err.getvalue() == ""


def test_a_terminal_shows_what_runs_and_is_clean_afterwards(monkeypatch):
    err, told, shown = Terminal(), [], []
    monkeypatch.setattr("sys.stderr", err)
    monkeypatch.setattr("rich.progress.Progress.update", lambda self, task, **fields: shown.append(fields))
    with progress(told.append) as listener:
        for event in EVENTS:
            listener(event)
    assert told == EVENTS
    text = "[1/2] INSERT INTO w.t VALUES ([1])"
    assert [fields["description"] for fields in shown] == [
        "Spark is starting",
        f"{text} · planning and locking",
        f"{text} · txn 7: running in Spark",
        f"{text} · publishing",
    ]
    assert text in err.getvalue()
    assert err.getvalue().endswith("\x1b[1A\x1b[2K")


def test_a_failure_inside_leaves_the_terminal_as_it_was(monkeypatch):
    err = Terminal()
    monkeypatch.setattr("sys.stderr", err)
    with pytest.raises(ValueError, match="no"), progress(print):
        raise ValueError("no")
    assert "\x1b[?25h" in err.getvalue()
