"""The environment of a Spark job: an allow-list.

A job runs users' SQL and programs, which can read its environment (``java_method('java.lang.System', 'getenv', …)``).
What this process has for itself (Airflow's settings and variables, other metastores, passwords of databases, keys of
clouds) is nothing for it. Passed on is what tells programs where they are and what they are started with; more by
``hive.acid.job.environment``. docs/explanation/security.md lists it for users.
"""

from __future__ import annotations

import os
import re
import sys
from typing import TYPE_CHECKING

from airflow_hive_acid.engine.applications.spark_conf import is_local

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_NAMES = frozenset(
    {
        "PATH",
        "HOME",
        "USER",
        "LOGNAME",
        "SHELL",
        "PWD",
        "TERM",
        "HOSTNAME",
        "LANG",
        "LANGUAGE",
        "TZ",
        "TMPDIR",
        "TMP",
        "TEMP",
        "_JAVA_OPTIONS",
        "JDK_JAVA_OPTIONS",
        "JRE_HOME",
        "LD_LIBRARY_PATH",
        "LD_PRELOAD",
        "DYLD_LIBRARY_PATH",
        "VIRTUAL_ENV",
        "CONDA_PREFIX",
        "CONDA_DEFAULT_ENV",
        "MALLOC_ARENA_MAX",
        "HADOOP_TOKEN_FILE_LOCATION",
        "HTTP_PROXY",
        "HTTPS_PROXY",
        "FTP_PROXY",
        "NO_PROXY",
        "ALL_PROXY",
        "SSL_CERT_FILE",
        "SSL_CERT_DIR",
        "REQUESTS_CA_BUNDLE",
        "CURL_CA_BUNDLE",
        "KUBECONFIG",
        "NSS_WRAPPER_PASSWD",
        "NSS_WRAPPER_GROUP",
        "AWS_REGION",
        "AWS_DEFAULT_REGION",
        "AWS_EC2_METADATA_DISABLED",
        "AWS_STS_REGIONAL_ENDPOINTS",
    }
)
_PREFIXES = (
    "LC_",
    "JAVA_",
    "SPARK_",
    "PYSPARK_",
    "HADOOP_",
    "HDFS_",
    "YARN_",
    "HIVE_CONF",
    "HIVE_HOME",
    "KRB5",
    "PYTHON",
    "OMP_",
    "OPENBLAS_",
    "MKL_",
    "NSS_WRAPPER_",
    "XDG_",
    "KUBERNETES_",
)
_SECRET = re.compile("PASS|PWD_|SECRET|TOKEN|CREDENTIAL|CREDSTORE|PRIVATE|API_?KEY|ACCESS_?KEY", re.IGNORECASE)


def is_passed_on(name: str) -> bool:
    """Whether a variable goes to jobs without being asked for."""
    upper = name.upper()
    return upper in _NAMES or (upper.startswith(_PREFIXES) and _SECRET.search(upper) is None)


def names_of(setting: str) -> tuple[str, ...]:
    """The names in ``hive.acid.job.environment``."""
    return tuple(name for name in re.split(r"[\s,]+", setting) if name)


def job_environment(
    master: str, deploy_mode: str, more: Iterable[str] = (), environment: Mapping[str, str] | None = None
) -> dict[str, str]:
    """The environment for spark-submit: what of this process's a job may have, with what it needs.

    :param more: names of variables that go to it as well, ``AWS_*`` for all that begin so.
    :param environment: of this process.
    """
    wanted, given = tuple(more), os.environ if environment is None else environment
    exact = frozenset(wanted)
    beginnings = tuple(name[:-1] for name in wanted if name.endswith("*") and len(name) > 1)
    found = {
        name: value
        for name, value in given.items()
        if is_passed_on(name) or name in exact or (beginnings and name.startswith(beginnings))
    }
    if deploy_mode == "client":
        found["PYSPARK_DRIVER_PYTHON"] = sys.executable
    if is_local(master):
        found["PYSPARK_PYTHON"] = sys.executable
        # Spark asks for this host's name otherwise, which may resolve to nothing or to a card that is down.
        found.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    return found
