"""Finds the programs a Spark application needs, Java and ``spark-submit``, and says what to do when one is missing."""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from airflow_hive_acid.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Spark 4 runs on Java 17 and newer; Spark 3.5 would run on an older one, our jar and JVM options would not.
MINIMUM_JAVA = 17

_VERSION = re.compile(r'version "(\d+)(?:\.(\d+))?')
_REMEDY = (
    f"Spark needs Java {MINIMUM_JAVA} or newer: install a JRE (Debian: apt-get install openjdk-17-jre-headless) "
    "and set JAVA_HOME to it or put its java on PATH."
)

#: How a worker gets a Spark.
SPARK_REMEDY = (
    "Install it with 'pip install \"airflow-hive-acid[spark]\"', or set SPARK_HOME to the directory of a Spark, 3.5 to "
    "4.3, for example the cluster's own client"
)


def require_java(environment: Mapping[str, str]) -> str:
    """The Java that Spark will start, checked.

    :param environment: variables of the process to be started; ``JAVA_HOME`` wins over ``PATH``, as in Spark's scripts.
    :return: path of the ``java`` program.
    :raises ConfigurationError: when it is missing or too old; says what was found and what to install.
    """
    home = environment.get("JAVA_HOME")
    if home:
        program = Path(home) / "bin" / "java"
        if not program.is_file():
            raise ConfigurationError(f"JAVA_HOME is {home}, which has no bin/java. {_REMEDY}")
        found = str(program)
    else:
        on_path = shutil.which("java", path=environment.get("PATH"))
        if on_path is None:
            raise ConfigurationError(f"no java on PATH and JAVA_HOME is not set. {_REMEDY}")
        found = on_path
    text = _version_text(found)
    major = parse_java_version(text)
    if major is None:
        raise ConfigurationError(f"{found} does not tell its version (it printed {text.strip()[:200]!r}). {_REMEDY}")
    if major < MINIMUM_JAVA:
        raise ConfigurationError(f"{found} is Java {major}. {_REMEDY}")
    return found


def parse_java_version(text: str) -> int | None:
    """The major version in the output of ``java -version``: 17 for ``17.0.15``, 8 for ``1.8.0_392``."""
    match = _VERSION.search(text)
    if match is None:
        return None
    first, second = match.groups()
    return int(second) if first == "1" and second else int(first)


@functools.cache
def _version_text(program: str) -> str:
    try:
        done = subprocess.run([program, "-version"], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ConfigurationError(f"{program} cannot be started: {error}. {_REMEDY}") from error
    return done.stderr + done.stdout


def find_spark_submit(environment: Mapping[str, str]) -> str:
    """``spark-submit`` of this Python environment, else of ``SPARK_HOME``, else the first on ``PATH``.

    The one beside the interpreter comes first because a process that was started by absolute path does not have its
    own ``bin`` on ``PATH``. It is a script that starts the Spark of ``SPARK_HOME`` when that is set.

    :raises ConfigurationError: when there is none.
    """
    candidates = [Path(sys.executable).parent / "spark-submit"]
    if environment.get("SPARK_HOME"):
        candidates.append(Path(environment["SPARK_HOME"]) / "bin" / "spark-submit")
    for candidate in candidates:
        if candidate.is_file() and os.access(candidate, os.X_OK):
            return str(candidate)
    on_path = shutil.which("spark-submit", path=environment.get("PATH"))
    if on_path is None:
        raise ConfigurationError(
            f"there is no Spark here: no spark-submit beside {sys.executable}, in SPARK_HOME or on PATH. "
            f"{SPARK_REMEDY}."
        )
    return on_path
