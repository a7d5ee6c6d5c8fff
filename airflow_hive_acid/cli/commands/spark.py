"""``hive-acid spark``: what makes Spark start faster on this machine."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from airflow_hive_acid.cli.output import say
from airflow_hive_acid.engine.applications.class_archive import archive_path, forget_class_archive, make_class_archive
from airflow_hive_acid.engine.applications.java import find_spark_submit, require_java
from airflow_hive_acid.engine.applications.spark_version import require_spark
from airflow_hive_acid.errors import ConfigurationError

app = typer.Typer(help="The Spark of this machine.", no_args_is_help=True)


@app.command()
def archive(
    remove: Annotated[bool, typer.Option("--remove", help="Remove the archive, so that it is not used.")] = False,
) -> None:
    """Keep the classes that Spark loads, so that each local Spark starts with less work. Run it once a machine.

    Java ignores the archive when Spark or Java changes; run it again then.
    """
    environment = dict(os.environ)
    program = find_spark_submit(environment)
    require_java(environment)
    spark = require_spark(program, environment)
    if spark is None:
        raise ConfigurationError(
            f"{program} does not show where its Spark lies; set SPARK_HOME to the directory that has its jars"
        )
    place = archive_path(spark)
    if remove:
        say(f"{place} is removed" if forget_class_archive(place) else f"there is no archive of Spark {spark.version}")
        return
    say(f"Spark {spark.version} in {spark.home} starts once and tries a little of everything")
    make_class_archive(program, place, environment)
    say(f"{place} ({place.stat().st_size / 2**20:.0f} MiB) is used from now on by each local Spark of {spark.home}")
