"""The settings in force for a task: the connection's extra, then Airflow's ``[hive_acid]`` section, then hive-site.xml.

A Hive key is written in ``airflow.cfg`` with underscores for dots, because environment variables cannot hold dots:
``hive.txn.timeout`` is ``hive_txn_timeout`` and ``AIRFLOW__HIVE_ACID__HIVE_TXN_TIMEOUT``.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from airflow_hive_acid.airflow_versions import conf, given_options, options_of
from airflow_hive_acid.errors import InvalidArgumentsError
from airflow_hive_acid.settings import SETTINGS, Settings, Source, read_hive_site

if TYPE_CHECKING:
    from collections.abc import Mapping

_POOL_OPTION = re.compile(r"^hive_compactor_worker_(.+)_threads$")
_POOL_KEY = re.compile(r"^(?:hive|metastore)\.compactor\.worker\.(.+)\.threads$")
SECTION = "hive_acid"
_HIVE_SITE = f"hive_site of [{SECTION}]"
DEFAULT_CONN_ID = "hive_acid_default"
DEFAULT_SPARK_CONN_ID = "spark_default"


def option_of(key: str) -> str:
    """Name under which a Hive setting stands in ``airflow.cfg``."""
    return key.replace(".", "_")


def load_settings(connection: Mapping[str, str] | None = None) -> Settings:
    """The settings in force.

    :param connection: the Hive settings of a connection's extra; they win.
    :raises InvalidArgumentsError: when a value is not of its setting's type; names key, value and where it stands.
    """
    airflow: dict[str, str] = {}
    given = given_options(SECTION)
    for key in SETTINGS:
        value = conf.get(SECTION, option_of(key), fallback=None) if option_of(key) in given else None
        if value not in (None, ""):
            airflow[key] = str(value)
    sources: dict[Source, Mapping[str, str]] = {Source.CONNECTION: connection or {}, Source.AIRFLOW: airflow}
    hive_site = conf.get(SECTION, "hive_site", fallback=None)
    if hive_site:
        sources[Source.HIVE_SITE] = read_hive_site(Path(hive_site), _HIVE_SITE)
    return Settings(sources)


def worker_pools() -> dict[str, int]:
    """Compaction pools that have workers of their own, with their number: ``hive.compactor.worker.<pool>.threads``.

    From ``airflow.cfg`` (where names are in lower case) and ``hive-site.xml``; the DAG has a task for each, so a
    connection cannot name more.

    :raises InvalidArgumentsError: when a number is none; names the pool.
    """
    found: dict[str, object] = {}
    hive_site = conf.get(SECTION, "hive_site", fallback=None)
    for key, text in (read_hive_site(Path(hive_site), _HIVE_SITE) if hive_site else {}).items():
        match = _POOL_KEY.match(key)
        if match is not None:
            found[match.group(1)] = text
    for option, value in options_of(SECTION).items():
        match = _POOL_OPTION.match(option)
        if match is not None and value not in (None, ""):
            found[match.group(1)] = value
    pools: dict[str, int] = {}
    for pool, given in sorted(found.items()):
        text = str(given).strip()
        if not (text.isascii() and text.isdigit()):
            raise InvalidArgumentsError(
                f"hive.compactor.worker.{pool}.threads = {text!r} is no number of workers; write 0 or more"
            )
        if int(text):
            pools[pool] = int(text)
    return pools
