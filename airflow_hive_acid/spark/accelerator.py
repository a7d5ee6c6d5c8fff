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
    jvm: Any = context._jvm
    try:
        # Looked up by name through the loader that knows --jars; a missing class makes py4j think of a package.
        built_for, version = str(jvm.hiveacid.Accelerator.spark()), str(jvm.hiveacid.Accelerator.version())
    except (Py4JError, TypeError):
        _log.warning(
            "This Spark application runs without the accelerator jar: everything works, but reading and writing tables "
            "is slower. Released wheels carry the jar; in a checkout 'make accelerator' builds it (needs a JDK 17). Or "
            "name one in hive.acid.spark.accelerator; 'off' there ends this message"
        )
        return None
    if not fits(built_for, version, context.version):
        _log.warning(
            "The accelerator jar is of version %s for Spark %s; this is %s on Spark %s, so it is not used. Build it "
            "anew: python scripts/build_accelerator.py",
            version,
            built_for,
            __version__,
            context.version,
        )
        return None
    return jvm.hiveacid


def fits(built_for: str, version: str, spark_version: str) -> bool:
    """Whether a jar belongs to this package and to a Spark of this version."""
    return version == __version__ and spark_version.split(".")[:2] == built_for.split(".")
