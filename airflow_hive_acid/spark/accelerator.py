"""The optional jar (``accelerator/``): whether this application has it, and the way to its classes.

Nothing depends on it: every caller keeps a path that uses Spark's own sources. A jar of another Spark or of another
version of this package is not used, because both sides must agree about what they hand each other.
"""

from __future__ import annotations

import logging
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError

from airflow_hive_acid import __version__
from airflow_hive_acid.spark.conf import ACCELERATOR_KEY
from airflow_hive_acid.spark.java_names import java_names

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

SESSION_KEY = ACCELERATOR_KEY

_log = logging.getLogger(__name__)


def accelerator(spark: SparkSession) -> Any | None:
    """The package ``hiveacid`` of the JVM, None when the job is to do without.

    Data sources of the jar are named ``hiveacid.…`` in ``format(…)``.
    """
    if (spark.conf.get(SESSION_KEY, "auto") or "").lower() == "off":
        return None
    return _of_application(spark.sparkContext)


@lru_cache(maxsize=1)
def _of_application(context: SparkContext) -> Any | None:
    jvm = java_names(context)
    try:
        # Looked up by name through the loader that knows --jars; a missing class makes py4j think of a package.
        jar = jvm.hiveacid.Accelerator
        version, built_for, scala = str(jar.version()), str(jar.spark()), str(jar.scala())
    except (Py4JError, TypeError):
        _log.warning(
            "This Spark application runs without the accelerator jar: everything works, but reading and writing tables "
            "is slower. Released wheels carry a jar for each Spark, chosen by the version of this machine's Spark; "
            "in a checkout 'make accelerator' builds it (needs a JDK 17). Or name one in hive.acid.spark.accelerator; "
            "'off' there ends this message"
        )
        return None
    scala_here = str(jvm.scala.util.Properties.versionNumberString())
    if not fits(version, built_for, scala, context.version, scala_here):
        _log.warning(
            "The accelerator jar is of version %s for Spark %s with Scala %s; this is %s on Spark %s with Scala %s, so "
            "it is not used and jobs are slower. The jar is chosen by the Spark that this package finds before it "
            "starts spark-submit: let SPARK_HOME be the directory of the one that runs here, or name the right jar in "
            "hive.acid.spark.accelerator (those of the package lie in its folder jars/)",
            *(version, built_for, scala, __version__, context.version, scala_here),
        )
        return None
    return jvm.hiveacid


def fits(version: str, built_for: str, scala: str, spark_here: str, scala_here: str) -> bool:
    """Whether a jar belongs to this package, and to a Spark of this version that was built with this Scala.

    :param version: of the package that the jar belongs to.
    :param built_for: Spark's version, without its last number; ``scala`` is of the same form.
    :param spark_here: the version that runs, for example ``4.1.4``; ``scala_here`` for example ``2.13.17``.
    """
    here = (spark_here.split(".")[:2], scala_here.split(".")[:2])
    return version == __version__ and (built_for.split("."), scala.split(".")) == here
