"""``hive-acid maintenance``: the services of a metastore, once or as long as the process lives.

Each prints its decisions with their reasons. The DAGs of this package do the same on Airflow's schedule; run one or
the other.
"""

from __future__ import annotations

import os
import socket
import threading
import uuid
from typing import TYPE_CHECKING, Annotated, Any

import typer

from airflow_hive_acid.cli.output import say
from airflow_hive_acid.errors import HiveAcidError, InvalidArgumentsError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from airflow_hive_acid.cli.session import CliSession
    from airflow_hive_acid.metastore import MetastoreClient
    from airflow_hive_acid.metastore.txns import Job

app = typer.Typer(
    help="Initiator, Worker, Cleaner, reaper and history purge; and what they leave to people.", no_args_is_help=True
)
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
        from airflow_hive_acid.maintenance.initiator.initiator import look_once

        for step in look_once(client, session.filesystem()):
            yield from step

    if not once:
        client.cache.start()
    _repeat("Initiator", look, once, pause)


@app.command()
def worker(
    context: typer.Context,
    once: _Once = False,
    interval: _Interval = None,
    limit: Annotated[int | None, typer.Option(min=1, help="At most so many compactions per look.")] = None,
) -> None:
    """Run compactions that wait in the queue; Spark is started when there is one.

    With hive.compactor.worker.threads = 0 none is run here.
    """
    session: CliSession = context.obj
    if session.settings().integer("hive.compactor.worker.threads") == 0:
        say("hive.compactor.worker.threads is 0: no compaction is run here; set it to 1 or more")
        return
    from airflow_hive_acid.maintenance.worker.worker import worker_name

    worker_id = worker_name(f"{socket.gethostname()}-{os.getpid()}-{uuid.uuid4().hex[:8]}")
    with session.engine(lambda event: say(str(event))) as engine:
        _repeat("Worker", lambda: engine.run_compactions(worker_id, limit), once, interval or _WORKER_SECONDS)


@app.command()
def cleaner(context: typer.Context, once: _Once = False, interval: _Interval = None) -> None:
    """Remove files that compaction has replaced or aborted transactions have left, once nobody can need them."""
    session: CliSession = context.obj
    client = session.client()
    pause = interval or max(1.0, client.settings.seconds("hive.compactor.cleaner.run.interval"))

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
    start = 0.0 if once else client.settings.seconds("hive.timedout.txn.reaper.start")

    def look() -> Iterable[Any]:
        from airflow_hive_acid.maintenance import run_reaper

        return [run_reaper(client, session.filesystem())]

    _repeat("reaper", look, once, pause, start)


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


@app.command("mark-fenced")
def mark_fenced(
    context: typer.Context,
    job_id: Annotated[str, typer.Argument(metavar="JOB_ID", help="As the log of the reaper names it.")],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask: everything is known to be dead.")] = False,
) -> None:
    """Say that a job can write nothing any more, where nothing but a person can know it (decision 11)."""
    session: CliSession = context.obj
    client = session.client()
    job = client.jobs.get(job_id)
    if _may_be_marked(client, job):
        say(_what_must_be_dead(job))
        if not yes:
            typer.confirm("Is all of that dead?", abort=True, err=True)
        client.jobs.mark_fenced(job_id, "marked as fenced by hand")
    say(f"job {job_id} of txn {job.txn_id} on {job.table} is fenced")


def _may_be_marked(client: MetastoreClient, job: Job) -> bool:
    """Whether there is anything to mark.

    :raises InvalidArgumentsError: when the job has succeeded, or its txn is alive.
    """
    from airflow_hive_acid.maintenance.doctor.rules import judge_txn
    from airflow_hive_acid.metastore.database import TxnState, now_ms
    from airflow_hive_acid.metastore.txns import JobState

    if job.state is JobState.COMMITTED:
        raise InvalidArgumentsError(f"txn {job.txn_id} of job {job.job_id} is committed; there is nothing to fence")
    now, timeout = client.database.read(now_ms), client.settings.milliseconds("hive.txn.timeout")
    for txn in client.show_transactions():
        if txn.txn_id == job.txn_id and txn.state is TxnState.OPEN and judge_txn(txn, now, timeout) is None:
            raise InvalidArgumentsError(
                f"txn {txn.txn_id} of job {job.job_id} is open, and its last heartbeat was "
                f"{(now - txn.last_heartbeat) / 1000:.0f} s ago: somebody works in it. Stop that, and wait for "
                f"hive.txn.timeout ({timeout / 1000:g} s)"
            )
    return job.state is not JobState.FENCED


def _what_must_be_dead(job: Job) -> str:
    text = (
        f"job {job.job_id} of txn {job.txn_id} on {job.table} ({job.table_location}). These must be dead, or what they "
        "write later becomes rows of others: the process that ran the statement (SHOW TRANSACTIONS names its host; a "
        "machine that is cut off is not dead), the Spark application "
        f"{job.application_id or '(its id is not known: look for one that writes to ' + str(job.staging) + ')'}, and "
        "every copy of an object that they began"
    )
    if job.write_id is None:
        text += (
            ". The table has no transactions: files that the job moved are not moved back by this; look at them first"
        )
    return text


def _repeat(name: str, look: Callable[[], Iterable[Any]], once: bool, pause: float, start: float = 0.0) -> None:
    """Look, tell, wait; a look that fails ends a single run, and is told and repeated in a service.

    :param start: seconds before the first look.
    """
    stopped = threading.Event()
    if start:
        say(f"{name}: the first look is in {start:g} s (hive.timedout.txn.reaper.start)")
        try:
            stopped.wait(start)
        except KeyboardInterrupt:
            say(f"{name} stopped")
            return
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
