"""What the SQL of a step may not reach: files by their path, and sources outside of a list.

The texts of a step name its views, and nothing else in Spark; a table that Spark would find by another way (a file as
``text.`/path```, whatever clause or function says it) is one that nobody has locked or looked for. So the session of a
step cannot resolve it. Whoever configures the application may refuse sources as well, for all of its steps:
``spark.hive.acid.sources.allowed`` (docs/security.md).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_hive_acid.errors import InvalidArgumentsError, UnsupportedStatementError
from airflow_hive_acid.format import paths
from airflow_hive_acid.format.jobs import DATAFRAME, RECORDS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import SparkSession

    from airflow_hive_acid.format.jobs import Source

SOURCES = "spark.hive.acid.sources.allowed"


def guard(session: SparkSession) -> None:
    """Take from the session of a step what its SQL may not reach; not for programs, which are not only SQL.

    :param session: of the step alone.
    """
    session.conf.set("spark.sql.runSQLOnFiles", "false")


def check_sources(session: SparkSession, sources: Iterable[Source]) -> None:
    """Refuse files outside of what is allowed, and sources that are no files, where a list says so.

    :raises UnsupportedStatementError: names the source and the list.
    """
    allowed = _listed(session, SOURCES)
    if not allowed:
        return
    for source in sources:
        if source.format in (DATAFRAME, RECORDS):
            continue
        options = {key.lower(): value for key, value in source.options.items()}
        given = [options[key] for key in ("path", "paths") if options.get(key)]
        if not given or not all(_is_below(uri, allowed) for uri in given):
            raise UnsupportedStatementError(
                f"source {source.name} of format {source.format} is outside of what {SOURCES} allows: "
                f"{', '.join(allowed)}"
            )


def _is_below(uri: str, allowed: Iterable[str]) -> bool:
    try:
        return any(paths.is_inside(root, uri) for root in allowed)
    except (InvalidArgumentsError, ValueError):
        return False


def _listed(session: SparkSession, key: str) -> list[str]:
    """Of the application's configuration, which no statement can change."""
    text = session.sparkContext.getConf().get(key, "") or ""
    return [item for item in text.replace(",", " ").split() if item]
