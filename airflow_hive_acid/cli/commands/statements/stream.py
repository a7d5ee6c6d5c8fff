"""``hive-acid stream``: run a streaming application, answer one that runs by itself, and see what was committed."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from airflow_hive_acid.cli.commands.lease import lease_of_environment
from airflow_hive_acid.cli.output import Format, print_stream, say
from airflow_hive_acid.cli.session import as_uri

if TYPE_CHECKING:
    from collections.abc import Iterator

    from airflow_hive_acid.cli.session import CliSession
    from airflow_hive_acid.metastore import MetastoreClient

app = typer.Typer(help="Structured Streaming into ACID tables, exactly once.", no_args_is_help=True)
_COLUMNS = (
    "stream", "table", "batch", "txn", "write_id", "batches", "rows", "quarantined", "state", "who", "silent_s",
    "offsets",
)  # fmt: skip


@app.command(context_settings={"allow_interspersed_args": False})
def run(
    context: typer.Context,
    script: Annotated[str, typer.Argument(metavar="SCRIPT", help="A PySpark program that uses hive_acid_sink(…).")],
    arguments: Annotated[list[str] | None, typer.Argument(metavar="[ARGUMENTS]...")] = None,
) -> None:
    """Run a PySpark program with spark-submit, and commit the micro-batches of its streams."""
    from airflow_hive_acid.engine import SparkSubmitLauncher
    from airflow_hive_acid.engine.streams.runs import StreamRunner

    session: CliSession = context.obj
    client = session.client()
    launcher = session.launcher()
    if not isinstance(launcher, SparkSubmitLauncher):
        raise typer.BadParameter(
            "streams are run by spark-submit of this machine; in Airflow use HiveAcidStreamOperator"
        )
    runner = StreamRunner(client, launcher, client.settings, _who(), warehouse=session.warehouse_of(client))
    try:
        with client.leases.under(lease_of_environment(client.leases)):
            done = runner.run(script, arguments or [])
    except BaseException:
        runner.cancel()
        raise
    say(str(done))


@app.command()
def serve(
    context: typer.Context,
    spool: Annotated[str, typer.Option(help="Directory or URI that the applications reach, too: spool= of the sink.")],
) -> None:
    """Answer streaming applications that were started in another way, until this is stopped."""
    from airflow_hive_acid.engine.streams.server import StreamServer
    from airflow_hive_acid.filesystem import open_filesystem

    session: CliSession = context.obj
    client = session.client()
    uri = as_uri(spool)
    if uri.startswith("file:"):
        # Private: whoever can write there can write into every table.
        Path(uri.removeprefix("file:")).mkdir(mode=0o700, parents=True, exist_ok=True)
    else:
        open_filesystem(uri).make_directory(uri)
    with client.leases.under(lease_of_environment(client.leases)):
        server = StreamServer(
            client, uri, client.settings, _who(), warehouse=session.warehouse_of(client), idle_seconds=30.0,
            several=True,
        )  # fmt: skip
    say(f"streams are answered at {uri}; end this with Ctrl-C")
    server.serve()


@app.command()
def show(
    context: typer.Context,
    form: Annotated[Format, typer.Option("--format", help="How rows are printed.")] = Format.TABLE,
) -> None:
    """All streams: what was committed last, and who runs them."""
    session: CliSession = context.obj
    print_stream(_COLUMNS, _rows(session.existing_client()), form)


@app.command()
def forget(context: typer.Context, stream: Annotated[str, typer.Argument(metavar="STREAM")]) -> None:
    """Forget what a stream has committed: one of that name begins anew, and applies every micro-batch it is given."""
    session: CliSession = context.obj
    client = session.existing_client()
    client.streams.forget(stream, silent_ms=client.settings.milliseconds("hive.acid.stream.owner.timeout"))
    say(f"stream {stream} is forgotten")


def _rows(client: MetastoreClient) -> Iterator[list[Any]]:
    for found in client.streams.all():
        yield [
            found.name, found.table, found.batch, found.txn_id, found.write_id, found.batches, found.rows,
            found.quarantined, "running" if found.running else "ended", found.who, round(found.silent_ms / 1000, 1),
            found.offsets,
        ]  # fmt: skip


def _who() -> str:
    """This process, for people; no other process has the same name."""
    return f"hive-acid stream on {socket.gethostname()}, process {os.getpid()}"
