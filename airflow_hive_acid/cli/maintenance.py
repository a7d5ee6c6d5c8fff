"""``hive-acid maintenance``: the services of a metastore, once or as long as the process lives.

Each prints its decisions with their reasons. The DAGs of this package do the same on Airflow's schedule; run one or
the other.
"""

from __future__ import annotations

import os
import socket
import threading
from typing import TYPE_CHECKING, Annotated, Any

import typer

from airflow_hive_acid.cli.output import say
from airflow_hive_acid.errors import HiveAcidError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from airflow_hive_acid.cli.session import CliSession

app = typer.Typer(help="Initiator, Worker, Cleaner, reaper and history purge.", no_args_is_help=True)
_Once = Annotated[bool, typer.Option("--once", help="Look once and exit, instead of going on until stopped.")]
_Interval = Annotated[
    float | None, typer.Option(min=0.1, metavar="SECONDS", show_default="Hive's setting", help="Pause between looks.")
]
#: A worker has no setting of its own in Hive: its threads ask the queue every few seconds.
_WORKER_SECONDS = 5.0


@app.command()
def initiator(context: typer.Context, once: _Once = False, interval: _Interval = None) -> None:
    """Look for tables and partitions that need compaction, and put them into the queue."""
    session: CliSession = context.obj
    client = session.client()
    pause = interval or client.settings.seconds("hive.compactor.check.interval")

    def look() -> Iterable[Any]:
        from airflow_hive_acid.maintenance import run_initiator

        return run_initiator(client, session.filesystem())

    _repeat("Initiator", look, once, pause)


@app.command()
def worker(
    context: typer.Context,
    once: _Once = False,
    interval: _Interval = None,
    limit: Annotated[int | None, typer.Option(min=1, help="At most so many compactions per look.")] = None,
) -> None:
    """Run compactions that wait in the queue; Spark is started when there is one."""
    session: CliSession = context.obj
    worker_id = f"{socket.gethostname()}-{os.getpid()}"
    with session.engine(lambda event: say(str(event))) as engine:
        _repeat("Worker", lambda: engine.run_compactions(worker_id, limit), once, interval or _WORKER_SECONDS)


@app.command()
def cleaner(context: typer.Context, once: _Once = False, interval: _Interval = None) -> None:
    """Remove files that compaction has replaced or aborted transactions have left, once nobody can need them."""
    session: CliSession = context.obj
    client = session.client()
    pause = interval or client.settings.seconds("hive.compactor.cleaner.run.interval")

    def look() -> Iterable[Any]:
        from airflow_hive_acid.maintenance import run_cleaner

        return run_cleaner(client, session.filesystem())

    _repeat("Cleaner", look, once, pause)


@app.command()
def reaper(context: typer.Context, once: _Once = False, interval: _Interval = None) -> None:
    """Abort transactions and release locks whose owners have stopped sending heartbeats; forget old ones."""
    session: CliSession = context.obj
    client = session.client()
    pause = interval or client.settings.seconds("hive.timedout.txn.reaper.interval")

    def look() -> Iterable[Any]:
        from airflow_hive_acid.maintenance import run_reaper

        return [run_reaper(client, session.filesystem())]

    _repeat("reaper", look, once, pause)


@app.command("history-purge")
def history_purge(context: typer.Context, once: _Once = False, interval: _Interval = None) -> None:
    """Forget old compactions beyond what the retention settings keep."""
    session: CliSession = context.obj
    client = session.client()
    pause = interval or client.settings.seconds("hive.compactor.history.reaper.interval")

    def look() -> Iterable[Any]:
        from airflow_hive_acid.maintenance import run_history_purge

        return [run_history_purge(client)]

    _repeat("history purge", look, once, pause)


def _repeat(name: str, look: Callable[[], Iterable[Any]], once: bool, pause: float) -> None:
    """Look, tell, wait; a look that fails ends a single run, and is told and repeated in a service."""
    stopped = threading.Event()
    while True:
        try:
            for outcome in look():
                say(str(outcome))
        except HiveAcidError as error:
            if once:
                raise
            say(f"{name}: {error}; looking again in {pause:g} s")
        except KeyboardInterrupt:
            if once:
                raise
            break
        if once:
            return
        try:
            stopped.wait(pause)
        except KeyboardInterrupt:
            break
    say(f"{name} stopped")
