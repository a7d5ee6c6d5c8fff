"""Spark sessions with the settings that the data plane relies on.

Only jobs in ``spark_jobs/``, tests and benchmarks make one; everything else is given its session. Each step runs in a
session of its own within the application, so that views and settings of one statement are gone with it.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from pyspark.sql import SparkSession

from airflow_hive_acid.errors import ConfigurationError
from airflow_hive_acid.spark.conf import EXCLUDED_RULES, JAVA_OPTIONS, REQUIRED, SMALL_JVM, session_settings
from airflow_hive_acid.spark.java_names import java_names

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark import SparkContext

_UTC = ("UTC", "Etc/UTC", "Zulu", "Z", "GMT", "Etc/GMT", "Etc/UCT", "Universal")


def session_builder(master: str | None = None, app_name: str = "hive-acid") -> SparkSession.Builder:
    """A builder of a session that reads and writes tables the way Hive does.

    :param master: Spark's master URL when this process starts the JVM itself; None under spark-submit, which has set
        the master and the JVM options already.
    """
    builder = SparkSession.builder.appName(app_name)
    for key, value in REQUIRED.items():
        builder = builder.config(key, value)
    if master is not None:
        options = f"{JAVA_OPTIONS} {SMALL_JVM}" if master.startswith("local") else JAVA_OPTIONS
        builder = builder.master(master)
        builder = builder.config("spark.driver.extraJavaOptions", options)
        builder = builder.config("spark.executor.extraJavaOptions", JAVA_OPTIONS)
    return builder


def require_utc(spark: SparkSession) -> None:
    """Refuse a JVM in another time zone: Spark's ORC writer would shift every timestamp that Hive reads.

    :raises ConfigurationError: naming the zone and the remedy.
    """
    zone = _time_zone(spark.sparkContext)
    if zone not in _UTC:
        raise ConfigurationError(
            f"the time zone of the Spark driver's JVM is {zone}; timestamps would be stored shifted. Start Spark with "
            f"spark.driver.extraJavaOptions and spark.executor.extraJavaOptions set to {JAVA_OPTIONS}"
        )


@lru_cache(maxsize=1)
def _time_zone(context: SparkContext) -> str:
    jvm = java_names(context)
    return str(jvm.java.util.TimeZone.getDefault().getID())


def step_session(spark: SparkSession, conf: Mapping[str, str]) -> SparkSession:
    """A session for one step: no views, the required settings, then those of the step.

    :param conf: settings of the statement; they cannot weaken the required ones.
    """
    session = spark.newSession()
    settings = {**conf, **session_settings()}
    if conf.get(EXCLUDED_RULES):
        settings[EXCLUDED_RULES] = f"{conf[EXCLUDED_RULES]},{settings[EXCLUDED_RULES]}"
    for key, value in settings.items():
        session.conf.set(key, value)
    return session
