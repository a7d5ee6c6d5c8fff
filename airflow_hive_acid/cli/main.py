"""``hive-acid``: SQL, schema, what is going on, and maintenance, from a terminal.

Rows go to standard output and messages to standard error. Exit code 0: done; 1: the statement or work failed, the
text says why; 2: the command line is wrong; 3: the doctor found something. Options that say where to work
stand before the sub-command.
"""

from __future__ import annotations

import signal
import sys
from pathlib import Path  # noqa: TC003 - typer reads the annotations
from typing import TYPE_CHECKING, Annotated

import typer

from airflow_hive_acid import __version__
from airflow_hive_acid.cli.commands import (
    changes,
    history,
    lease,
    lookups,
    mirror,
    pin,
    replication,
    settings,
    show,
    spark,
)
from airflow_hive_acid.cli.commands.statements import demo, explain, imports, ingest, sql, stream
from airflow_hive_acid.cli.commands.upkeep import cleaning, compaction, compaction_cancel, doctor, maintenance, schema
from airflow_hive_acid.cli.output import say
from airflow_hive_acid.cli.session import CliSession, parse_pairs
from airflow_hive_acid.errors import HiveAcidError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import FrameType

#: Packages whose errors say that credentials, endpoints or rights are wrong, and are no OSError.
_STORAGE_CLIENTS = frozenset({"botocore", "aiobotocore", "s3fs", "gcsfs", "adlfs", "azure", "google"})
#: What typer makes of KeyboardInterrupt.
_TYPER_INTERRUPTED = 130

app = typer.Typer(
    name="hive-acid",
    help="Hive's ACID tables: SQL, transactions, locks, compaction.",
    epilog="Exit codes: 0 done; 1 it failed, the text says why; 2 the command line is wrong; 3 the doctor found "
    "something. Rows go to standard output, messages to standard error.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
app.command("sql")(sql.sql)
app.command("explain")(explain.explain)
app.command("tables")(lookups.tables)
app.command("describe")(lookups.describe)
app.command("ingest")(ingest.ingest)
app.command("import")(imports.import_table)
app.command("changes")(changes.changes)
app.command("history")(history.history)
app.command("settings")(settings.settings)
app.command("doctor")(doctor.doctor)
app.command("demo")(demo.demo)
app.add_typer(schema.app, name="schema")
app.add_typer(show.app, name="show")
app.add_typer(maintenance.app, name="maintenance")
app.add_typer(lease.app, name="lease")
app.add_typer(replication.app, name="replication")
app.add_typer(pin.app, name="pin")
app.add_typer(mirror.app, name="mirror")
app.add_typer(cleaning.app, name="cleaning")
app.add_typer(compaction.app, name="compaction")
app.add_typer(stream.app, name="stream")
app.add_typer(spark.app, name="spark")
compaction.app.command()(compaction_cancel.cancel)
show.app.command("databases")(lookups.databases)
show.app.command("partitions")(lookups.partitions)
show.app.command("metrics")(compaction.metrics)


def _print_version(wanted: bool) -> None:
    if wanted:
        sys.stdout.write(f"hive-acid {__version__}\n")
        raise typer.Exit


@app.callback()
def options(
    context: typer.Context,
    metastore_url: Annotated[
        str | None,
        typer.Option(
            envvar="HIVE_ACID_METASTORE_URL",
            show_default="an embedded SQLite file in $HIVE_ACID_HOME or ~/.hive-acid",
            help="Metastore database: sqlite:///file, postgresql://… or mysql://….",
        ),
    ] = None,
    warehouse: Annotated[
        str | None,
        typer.Option(
            envvar="HIVE_ACID_WAREHOUSE",
            show_default="the one the metastore knows",
            help="Directory or URI below which tables are made.",
        ),
    ] = None,
    spark_master: Annotated[
        str, typer.Option(envvar="HIVE_ACID_SPARK_MASTER", help="Where Spark runs, as spark-submit --master takes it.")
    ] = "local[*]",
    spark_conf: Annotated[
        list[str] | None, typer.Option(metavar="KEY=VALUE", help="A Spark setting; may be given more than once.")
    ] = None,
    hive_site: Annotated[
        Path | None,
        typer.Option(envvar="HIVE_ACID_HIVE_SITE", help="A hive-site.xml whose settings are followed.", dir_okay=False),
    ] = None,
    hive_settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="A Hive setting, for example hive.txn.timeout=60s."),
    ] = None,
    spark_service: Annotated[
        str | None,
        typer.Option(
            envvar="HIVE_ACID_SPARK_SERVICE",
            help="Name of a Spark service that runs statements (hive-acid spark serve); default: a Spark of its own.",
        ),
    ] = None,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Options that every command understands."""
    make: Callable[..., CliSession] = context.obj or CliSession
    if context.obj is not None:
        _refuse_where(context)
    session = make(
        metastore_url=metastore_url or None,
        warehouse=warehouse or None,
        spark_master=spark_master,
        spark_conf=parse_pairs("--spark-conf", spark_conf or []),
        hive_site=hive_site,
        hive_settings=parse_pairs("--set", hive_settings or [])
        | ({"hive.acid.spark.service": spark_service} if spark_service else {}),
    )
    context.obj = session
    context.call_on_close(session.close)


def _refuse_where(context: typer.Context) -> None:
    """Where to work is known already: an option that says something else would go unheard."""
    for name in ("metastore_url", "warehouse", "spark_master", "hive_site"):
        source = context.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE":
            option = "--" + name.replace("_", "-")
            raise typer.BadParameter(f"{option}: the Airflow connection says that", context)


def main() -> None:
    """The entry point; exits with 0, 1, 2 or 3."""
    run()


def run(
    arguments: Sequence[str] | None = None,
    make_session: Callable[..., CliSession] | None = None,
    program: str | None = None,
) -> None:
    """Run one command line and end the process.

    :param arguments: those of this process by default.
    :param make_session: takes the fields of :class:`CliSession`; for callers that know where to work.
    :param program: as what we were called.
    """
    # So that everything is stopped and aborted as on Ctrl-C when somebody ends us politely.
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        app(args=arguments, prog_name=program, obj=make_session)
    except HiveAcidError as error:
        say(f"error: {error}")
        for note in getattr(error, "__notes__", ()):
            say(note)
        sys.exit(1)
    except OSError as error:
        # A full disk, a directory that is not ours: the text says which; a traceback would add nothing.
        say(f"error: {error}")
        sys.exit(1)
    except Exception as error:
        if type(error).__module__.partition(".")[0] not in _STORAGE_CLIENTS:
            raise
        say(f"error: the storage cannot be used: {error} ({type(error).__name__}); see docs/how-to/running/storage.md")
        sys.exit(1)
    except SystemExit as end:
        if end.code != _TYPER_INTERRUPTED:
            raise
        say("interrupted")
        sys.exit(1)


def _interrupt(_signal: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt
