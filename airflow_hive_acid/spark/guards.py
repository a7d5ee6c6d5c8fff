"""What the SQL of a step may not reach: files by their path, sources outside of a list, functions in a list.

The texts of a step name its views, and nothing else in Spark; a table that Spark would find by another way (a file as
``text.`/path```, whatever clause or function says it) is one that nobody has locked or looked for. So the session of a
step cannot resolve it. Whoever configures the application may refuse sources and functions as well, for all of its
steps: ``spark.hive.acid.sources.allowed`` and ``spark.hive.acid.functions.refused`` (docs/explanation/security.md).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from pyspark.errors import AnalysisException

from airflow_hive_acid.errors import ConfigurationError, InvalidArgumentsError, UnsupportedStatementError
from airflow_hive_acid.format import paths
from airflow_hive_acid.format.jobs import DATAFRAME, RECORDS
from airflow_hive_acid.spark.versions import drop_function, error_condition

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import SparkSession

    from airflow_hive_acid.format.jobs import Source

SOURCES = "spark.hive.acid.sources.allowed"
FUNCTIONS = "spark.hive.acid.functions.refused"
# How Spark says that a name is no function, and where it then holds the name.
_NO_FUNCTION = {
    "UNRESOLVED_ROUTINE": "routineName",
    "ROUTINE_NOT_FOUND": "routineName",
    "UNRESOLVABLE_TABLE_VALUED_FUNCTION": "name",
    "REQUIRES_SINGLE_PART_NAMESPACE": "identifier",
}
_LAST_PART = re.compile(r"(?:.*\.)?`?([^`.]+)`?")


def guard(session: SparkSession) -> None:
    """Take from the session of a step what its SQL may not reach; not for programs, which are not only SQL.

    :param session: of the step alone.
    """
    session.conf.set("spark.sql.runSQLOnFiles", "false")
    refuse_functions(session)


def refuse_functions(session: SparkSession) -> None:
    """Take the functions of the list from a session; a new session beside it has them again.

    :raises ConfigurationError: for a name that is no function of Spark: a slip there would leave one open.
    """
    names = _refused(session)
    if not names:
        return
    for name in names:
        if not drop_function(session, name):
            raise ConfigurationError(
                f"{FUNCTIONS} names {name}, which is no function of this Spark; nothing runs until the list is right"
            )


def refusal(session: SparkSession, failure: BaseException) -> UnsupportedStatementError | None:
    """The error for a failure that comes from the list of refused functions."""
    if not isinstance(failure, AnalysisException):
        return None
    condition, parameters = error_condition(failure)
    name = _LAST_PART.fullmatch(parameters.get(_NO_FUNCTION.get(condition, ""), ""))
    if name is None or name[1].lower() not in _refused(session):
        return None
    return UnsupportedStatementError(
        f"the function {name[1].lower()} is refused by {FUNCTIONS} of this Spark application; ask whoever configures "
        "the connection"
    )


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


def bounds_sources(session: SparkSession) -> bool:
    """Whether the application says where sources may lie."""
    return bool(_listed(session, SOURCES))


def _is_below(uri: str, allowed: Iterable[str]) -> bool:
    """Whether a path, which may be a pattern, is one of some directories or can name only what lies in them."""
    if not _stays_below(uri):
        return False
    try:
        return any(paths.relative_to(root, uri) is not None for root in allowed)
    except (InvalidArgumentsError, ValueError):
        return False


def _stays_below(pattern: str) -> bool:
    """Whether Hadoop makes no ``..`` of a pattern that has none, as of ``\\.\\.`` and of braces around a slash."""
    return "\\" not in pattern and all(part.count("{") == part.count("}") for part in pattern.split("/"))


def _refused(session: SparkSession) -> list[str]:
    return [name.lower() for name in _listed(session, FUNCTIONS)]


def _listed(session: SparkSession, key: str) -> list[str]:
    """Of the application's configuration, which no statement can change."""
    java: Any = session._jsparkSession
    # The one value: `getConf` of PySpark copies the whole configuration, setting by setting, through the gateway.
    text = str(java.sparkContext().conf().get(key, ""))
    return [item for item in text.replace(",", " ").split() if item]
