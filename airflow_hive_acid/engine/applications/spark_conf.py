"""The Spark configuration of our applications, and the file in which spark-submit gets it.

Local masters get settings for small jobs on one machine, where the start is most of the time; everything else gets
only what correctness asks for and what is good on any machine. The file, readable by its owner alone, keeps secrets
such as object-store keys out of the process list.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from airflow_hive_acid import resources
from airflow_hive_acid.engine.applications.class_archive import archive_options
from airflow_hive_acid.errors import ConfigurationError
from airflow_hive_acid.maintenance.worker.jobs import DRIVER_MEMORY, EXECUTOR_MEMORY
from airflow_hive_acid.spark.conf import (
    ACCELERATOR_KEY,
    GENERATED_CLASSES,
    JAVA_OPTIONS,
    RANGE_BYTES,
    RANGE_BYTES_KEY,
    SMALL_JVM,
)

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from airflow_hive_acid.engine.applications.spark_version import InstalledSpark
    from airflow_hive_acid.maintenance.worker.jobs import Application
    from airflow_hive_acid.settings import Settings

ALWAYS = {
    "spark.driver.extraJavaOptions": JAVA_OPTIONS,
    "spark.executor.extraJavaOptions": JAVA_OPTIONS,
    # R5: a driver that the cluster manager starts a second time would write a second time.
    "spark.yarn.maxAppAttempts": "1",
    "spark.log.level": "WARN",
    # A site that serialises with Kryo may demand that each class is registered, to find those that it forgot; what
    # the jar sends goes through Java, and nobody can register it before the jar is loaded.
    "spark.kryo.registrationRequired": "false",
    **GENERATED_CLASSES,
}
#: The newest Spark that a jar is made for, and its Scala.
NEWEST = ("4.3", "2.13")
_JARS = "spark.jars"
_PRINCIPAL, _RENEWAL = "spark.kerberos.principal", "spark.kerberos.renewal.credentials"
_PYTHON, _DRIVER_PYTHON = "spark.pyspark.python", "spark.pyspark.driver.python"


def is_local(master: str) -> bool:
    """Whether driver and executors are one process on this machine."""
    return master == "local" or master.startswith("local[")


def configuration(
    master: str,
    scratch: str,
    conf: Mapping[str, str],
    accelerator: str = "off",
    deploy_mode: str = "client",
    spark: InstalledSpark | None = None,
) -> dict[str, str]:
    """All settings of an application.

    :param scratch: directory on this machine that vanishes with the application; used by local masters.
    :param conf: the user's settings; they win, and Java options are put behind those that must stay.
    :param accelerator: value of ``hive.acid.spark.accelerator``.
    :param deploy_mode: ``client``: the driver is this machine's, and runs with this Python.
    :param spark: what will be started; None when that cannot be told.
    """
    settings = dict(ALWAYS)
    # The class path of other drivers has the cluster's own configuration in it: no archive would fit.
    always = " ".join(filter(None, [JAVA_OPTIONS, archive_options(spark) if is_local(master) else ""]))
    if deploy_mode == "client":
        # Stronger than PYSPARK_DRIVER_PYTHON, as is a spark.pyspark.python in the site's spark-defaults.conf, which
        # names the Python of the executors and may have neither pyspark nor us.
        settings[_DRIVER_PYTHON] = sys.executable
    if is_local(master):
        settings |= {
            "spark.driver.extraJavaOptions": f"{always} {SMALL_JVM}",
            "spark.driver.memory": "2g",
            "spark.ui.enabled": "false",
            "spark.sql.shuffle.partitions": str(local_cores(master)),
            "spark.local.dir": f"{scratch}/local",
            "spark.sql.warehouse.dir": f"{scratch}/spark-warehouse",
            _PYTHON: sys.executable,
        }
    stay = {"spark.driver.extraJavaOptions": always, "spark.executor.extraJavaOptions": JAVA_OPTIONS}
    for key, value in conf.items():
        # The time zone stays; our tuning goes, because two garbage collectors would stop the JVM from starting.
        settings[key] = f"{stay[key]} {value}" if key in stay else value
    if accelerator.lower() == "off":
        settings.setdefault(ACCELERATOR_KEY, "off")
    jar = accelerator_jar(accelerator, spark)
    if jar is not None:
        settings[_JARS] = ",".join([*filter(None, [settings.get(_JARS)]), jar])
    return settings


def renewal_settings(deploy_mode: str, conf: Mapping[str, str], principal: str | None = None) -> dict[str, str]:
    """How an application gets new tokens of a secured Hadoop before its first ones are over (24 h by HDFS's default).

    With a keytab Spark knows by itself. With the ticket cache of a driver on this machine it would renew nothing, and a
    token that is over counts more than a ticket that is valid; since Spark 4.3 on local masters, too. Without Kerberos
    the setting does nothing.

    :param conf: all settings that Spark will see, ``spark-defaults.conf`` among them.
    :param principal: who logs in with a keytab, where the settings do not say it.
    """
    if deploy_mode != "client" or principal or conf.get(_PRINCIPAL, "").strip() or _RENEWAL in conf:
        return {}
    return {_RENEWAL: "ccache"}


def shares_of_buckets(settings: Settings) -> dict[str, str]:
    """What ``hive.acid.spark.range.bytes`` adds to an application's settings; the default is in the data plane."""
    least = settings.integer("hive.acid.spark.range.bytes")
    return {} if least == RANGE_BYTES else {RANGE_BYTES_KEY: str(least)}


def with_application(master: str, conf: Mapping[str, str], application: Application) -> dict[str, str]:
    """The user's settings with those that one application asks for laid over them.

    On a local master the driver is the only JVM, so it gets the memory that was asked for executors.
    """
    asked = dict(application.conf)
    if is_local(master) and EXECUTOR_MEMORY in asked:
        asked.setdefault(DRIVER_MEMORY, asked[EXECUTOR_MEMORY])
    return {**conf, **asked}


def accelerator_jar(setting: str, spark: InstalledSpark | None) -> str | None:
    """The jar that ``hive.acid.spark.accelerator`` asks for: ``auto``, ``off``, or a path or URI.

    :param spark: what will be started. When that cannot be told, ``auto`` is the jar for the newest Spark: a driver of
        another version leaves it alone and says so.
    :raises ConfigurationError: when a jar is named that does not exist.
    """
    if setting.lower() == "off":
        return None
    if setting.lower() == "auto":
        jar = resources.accelerator_jar(*(NEWEST if spark is None else (spark.line, spark.scala)))
        return None if jar is None else str(jar)
    if ":/" not in setting and not os.path.isfile(setting):
        raise ConfigurationError(
            f"hive.acid.spark.accelerator is {setting}, and there is no such file; set it to auto, off, or the path of "
            "the jar that python scripts/build_accelerator.py makes"
        )
    return setting


def local_cores(master: str) -> int:
    """The number of threads of a local master: ``local`` 1, ``local[4]`` 4, ``local[*]`` one per core."""
    inside = master[len("local[") : -1].split(",")[0] if master.startswith("local[") else "1"
    return (os.cpu_count() or 1) if inside == "*" else int(inside)


def write_properties(path: Path, settings: Mapping[str, str]) -> None:
    """Write settings as a Java properties file that only its owner can read."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "w", encoding="ascii") as file:
        file.writelines(f"{_escaped(k, key=True)}={_escaped(v)}\n" for k, v in settings.items())


def _escaped(text: str, key: bool = False) -> str:
    """Java's properties syntax. Spark trims values, so only what would end or continue a line needs care."""
    special = {"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\f": "\\f"}
    if key:
        special |= {"=": "\\=", ":": "\\:", " ": "\\ ", "#": "\\#", "!": "\\!"}
    units = text.encode("utf-16-be", "surrogatepass")
    characters = (chr(int.from_bytes(units[i : i + 2], "big")) for i in range(0, len(units), 2))
    return "".join(special.get(c) or (c if c.isascii() and c.isprintable() else f"\\u{ord(c):04x}") for c in characters)
