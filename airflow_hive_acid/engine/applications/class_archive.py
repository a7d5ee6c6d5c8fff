"""An archive of the classes that a Spark loads when it starts: what every local application would read from jars again.

Java maps such an archive into memory (application class data sharing) where it would read, check and link each class.
It looks by itself whether an archive fits its own version and the jars, and goes on without one that does not; so an
archive can make a start cheaper and never wrong. One is made by whoever asks for it (``hive-acid spark archive``), for
the Spark of this machine, and is used from then on by each local application of that Spark.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from airflow_hive_acid.engine.applications.package_zip import cache_directory
from airflow_hive_acid.errors import HiveAcidError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from airflow_hive_acid.engine.applications.spark_version import InstalledSpark

#: What short jobs do: ORC written and read, joins, aggregates, windows, texts, dates, decimals, Python's rows.
_PROGRAM = """
import sys
from pyspark.sql import SparkSession
session = (
    SparkSession.builder.master("local[2]")
    .config("spark.ui.enabled", "false")
    .config("spark.sql.shuffle.partitions", "2")
    .getOrCreate()
)
session.sparkContext.setLogLevel("ERROR")
columns = ["id", "id % 10 AS k", "CAST(id AS STRING) AS s", "CAST(id AS DECIMAL(10, 2)) AS d", "DATE '2024-01-01' AS t"]
rows = session.range(100).selectExpr(*columns, "STRUCT(id, id + 1 AS x) AS r")
rows.write.mode("overwrite").orc(sys.argv[1] + "/rows")
rows.write.mode("overwrite").partitionBy("k").orc(sys.argv[1] + "/parts")
session.read.schema(rows.schema).orc(sys.argv[1] + "/rows").createOrReplaceTempView("v")
session.read.orc(sys.argv[1] + "/parts").createOrReplaceTempView("w")
session.sql("SELECT v.k, count(*), max(v.s), sum(v.d) FROM v JOIN w ON v.id = w.id GROUP BY v.k ORDER BY 1").collect()
session.sql("SELECT * FROM v LEFT ANTI JOIN w ON v.id = w.id + 5 WHERE v.t > DATE '2020-01-01'").collect()
session.sql("SELECT upper(s), CAST(d AS INT) FROM v WHERE s LIKE '1%' AND k IN (1, 2) LIMIT 3").collect()
session.sql("SELECT id, row_number() OVER (PARTITION BY k ORDER BY id) FROM v").toJSON().take(3)
session.createDataFrame([(1, "a")], "x INT, y STRING").repartition(2, "x").sortWithinPartitions("y").collect()
session.stop()
"""
_MAKING = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xlog:disable"
# Java's warnings go to standard output otherwise, where callers look for other things.
_USING = "-Xlog:disable -Xlog:all=warning:stderr"
_MINUTES = 5


def archive_path(spark: InstalledSpark) -> Path:
    """Where the archive of a Spark lies, made or not: its name says which jars it was made of.

    :param spark: a Spark of this machine.
    """
    digest = hashlib.sha256(str(spark.home.resolve()).encode())
    for jar in sorted((spark.home / "jars").glob("*.jar")):
        about = jar.stat()
        digest.update(f"\0{jar.name}\0{about.st_size}\0{about.st_mtime_ns}".encode())
    return cache_directory() / "classes" / f"spark-{spark.version}-{digest.hexdigest()[:16]}.jsa"


def archive_options(spark: InstalledSpark | None) -> str:
    """The Java options with which a driver of this Spark uses its archive; empty when none was made.

    :param spark: what will be started; None when that cannot be told.
    """
    if spark is None:
        return ""
    archive = archive_path(spark)
    return f"-XX:SharedArchiveFile={shlex.quote(str(archive))} {_USING}" if archive.is_file() else ""


def make_class_archive(program: str, archive: Path, environment: Mapping[str, str]) -> None:
    """Start a Spark that does a little of everything, and keep the classes that it has loaded.

    :param program: the ``spark-submit`` of that Spark.
    :param archive: the file to make; one that is there is replaced when the new one is whole.
    :param environment: variables of that process.
    :raises HiveAcidError: when Spark or Java could not make one; says what they printed. Nothing is left behind.
    """
    archive.parent.mkdir(parents=True, exist_ok=True)
    # Beside its place: a rename within one filesystem is one step.
    with tempfile.TemporaryDirectory(dir=archive.parent, prefix=".making-") as place:
        made = Path(place) / archive.name
        job = Path(place) / "job.py"
        job.write_text(_PROGRAM, encoding="utf-8")
        # All in one properties file, and no others: the user's own options could keep Java from writing an archive.
        properties = Path(place) / "spark.properties"
        properties.write_text("spark.ui.enabled=false\n", encoding="utf-8")
        variables = {
            **environment,
            "SPARK_SUBMIT_OPTS": f"{_MAKING} -XX:ArchiveClassesAtExit={shlex.quote(str(made))}",
            "PYSPARK_PYTHON": sys.executable,
            "PYSPARK_DRIVER_PYTHON": sys.executable,
            "SPARK_LOCAL_IP": "127.0.0.1",
        }
        command = [program, "--properties-file", str(properties), str(job), place]
        try:
            done = subprocess.run(
                command,
                env=variables,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=_MINUTES * 60,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise HiveAcidError(f"no archive of classes: {program} did not end within {_MINUTES} minutes") from error
        if done.returncode or not made.is_file():
            raise HiveAcidError(
                f"no archive of classes: {program} ended with {done.returncode} and Java wrote none. Java makes none "
                "when a directory with files is on Spark's class path (SPARK_HOME/conf, HADOOP_CONF_DIR). It printed:\n"
                f"{(done.stdout + done.stderr)[-2000:].strip()}"
            )
        os.replace(made, archive)


def forget_class_archive(archive: Path) -> bool:
    """Remove an archive.

    :return: whether there was one.
    """
    try:
        archive.unlink()
    except FileNotFoundError:
        return False
    return True
