"""``hive-acid spark``: a Spark that callers share, and what makes others start faster."""

from __future__ import annotations

import contextlib
import os
import time
from typing import TYPE_CHECKING, Annotated

import typer

from airflow_hive_acid.cli.output import say
from airflow_hive_acid.errors import ConfigurationError, JobFailedError

if TYPE_CHECKING:
    from airflow_hive_acid.cli.session import CliSession

app = typer.Typer(help="A Spark that callers share, and what makes others start faster.", no_args_is_help=True)
#: Between two looks whether the service still runs.
_LOOK_SECONDS = 0.5


@app.command()
def serve(
    context: typer.Context,
    name: Annotated[str, typer.Option("--name", help="What callers call it (--spark-service).")] = "default",
    spool: Annotated[
        str | None,
        typer.Option(help="URI that callers reach, too; default: this machine, for callers of the same user."),
    ] = None,
    places: Annotated[int, typer.Option(help="Steps at a time.")] = 4,
    max_callers: Annotated[int, typer.Option(help="Callers at a time; others start a Spark of their own.")] = 32,
    max_idle: Annotated[
        float | None, typer.Option(help="Seconds without a caller after which it ends; default: never.")
    ] = None,
) -> None:
    """Run a Spark that serves the statements of others, until it is told to end (Ctrl-C, SIGTERM)."""
    from airflow_hive_acid.engine.applications.found_services import service_directory
    from airflow_hive_acid.engine.applications.service import ServiceSettings, serving

    session: CliSession = context.obj
    uri = service_directory(name, spool)
    with (
        contextlib.suppress(KeyboardInterrupt),  # that is how it is told to end
        serving(session.spark_launcher(), uri, ServiceSettings(places, max_callers, max_idle)) as application,
    ):
        application_id = application.wait_ready()
        say(f"Spark service {name!r} ({application_id}) serves callers with --spark-service {name}, in {uri}")
        while application.is_alive:
            time.sleep(_LOOK_SECONDS)
        if application.exit_code:
            raise JobFailedError(f"the Spark service {name!r} has ended\n{application.log_tail()}")
    say(f"Spark service {name!r} has ended")


@app.command()
def archive(
    remove: Annotated[bool, typer.Option("--remove", help="Remove the archive, so that it is not used.")] = False,
) -> None:
    """Keep the classes that Spark loads, so that each local Spark starts with less work. Run it once a machine.

    Java ignores the archive when Spark or Java changes; run it again then.
    """
    from airflow_hive_acid.engine.applications import class_archive
    from airflow_hive_acid.engine.applications.java import find_spark_submit, require_java
    from airflow_hive_acid.engine.applications.spark_version import require_spark

    environment = dict(os.environ)
    program = find_spark_submit(environment)
    require_java(environment)
    spark = require_spark(program, environment)
    if spark is None:
        raise ConfigurationError(
            f"{program} does not show where its Spark lies; set SPARK_HOME to the directory that has its jars"
        )
    place = class_archive.archive_path(spark)
    if remove:
        say(
            f"{place} is removed"
            if class_archive.forget_class_archive(place)
            else f"there is no archive of Spark {spark.version}"
        )
        return
    say(f"Spark {spark.version} in {spark.home} starts once and tries a little of everything")
    class_archive.make_class_archive(program, place, environment)
    say(f"{place} ({place.stat().st_size / 2**20:.0f} MiB) is used from now on by each local Spark of {spark.home}")
