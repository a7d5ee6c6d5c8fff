"""Where WebHDFS serves an ``hdfs:`` authority: a name node, or the two and more of a nameservice.

A nameservice has no address of its own. Hadoop's clients find its name nodes in ``hdfs-site.xml`` and ask one after the
other until one is active (HDFS High Availability, ``dfs.ha.namenodes.…``); so do we, with the addresses of WebHDFS.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow_hive_acid.errors import ConfigurationError
from airflow_hive_acid.settings import read_hive_site

if TYPE_CHECKING:
    from collections.abc import Mapping

_SITE = "hdfs-site.xml"


def gateways(authority: str, configured: Mapping[str, Any], environment: Mapping[str, str]) -> tuple[str, ...]:
    """The addresses (``host:port``) that serve an authority; empty when nothing is configured for it.

    What ``FSSPEC_WEBHDFS`` says of it in ``namenodes`` counts, several addresses with commas between them. Else, where
    WebHDFS is configured at all, what ``hdfs-site.xml`` in ``HADOOP_CONF_DIR`` says of a nameservice.

    :param configured: fsspec's configuration of ``webhdfs``.
    :param environment: of this process.
    :raises ConfigurationError: when the file has no address of a name node.
    :raises InvalidArgumentsError: when it cannot be read.
    """
    known = configured.get("namenodes", {})
    if authority in known:
        return _split(str(known[authority]))
    folder = environment.get("HADOOP_CONF_DIR")
    if not configured or not folder:
        return ()
    file = Path(folder) / _SITE
    site = read_hive_site(file) if file.is_file() else {}
    nodes = _split(site.get(f"dfs.ha.namenodes.{authority}", ""))
    web = "https-address" if configured.get("use_https") else "http-address"
    found = []
    for node in nodes:
        key = f"dfs.namenode.{web}.{authority}.{node}"
        if not site.get(key):
            raise ConfigurationError(
                f"{file} names the name node {node} of {authority}, and no {key}: set it there, or name the addresses "
                f'of their WebHDFS: FSSPEC_WEBHDFS=\'{{"namenodes": {{"{authority}": "nn1:9870,nn2:9870"}}}}\''
            )
        found.append(site[key])
    return tuple(found)


def _split(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())
