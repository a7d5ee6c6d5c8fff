"""USE, SET and RESET, and what a Hive session has that a script has not, refused with the reason."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from airflow_hive_acid.sql.model.session import Reset, SetValue, ShowValues, Space, Use

if TYPE_CHECKING:
    from airflow_hive_acid.sql.model.session import SessionStatement
    from airflow_hive_acid.sql.parsing.cursor import Cursor

_SET = re.compile(r"SET(?:\s+(?P<flag>-v)|\s+(?P<name>[^\s=]+)\s*(?:(?P<equals>=)(?P<value>.*))?)?", re.I | re.S)
_KEY = re.compile(r"[\w.\-]+")
_SPACES = {space.value: space for space in Space}
_ELSEWHERE = {
    "env": "a script does not see the environment of the process that runs it; pass what it needs as variables",
    "system": "they belong to the Java of a Hive server; Spark's are set with spark_conf",
    "metaconf": "the metastore is a database here, with the settings of the connection",
}
_CODE = "statements run no code of their own: a job of your own does (docs/how-to/dags/pyspark.md)"
REFUSED = {
    "ADD": f"ADD JAR, FILE and ARCHIVE are not supported: {_CODE}; jars for Spark: spark.jars in spark_conf",
    "DELETE": f"DELETE JAR, FILE and ARCHIVE are not supported: {_CODE}",
    "LIST": f"LIST JARS, FILES and ARCHIVES are not supported: {_CODE}",
    "RELOAD": f"RELOAD FUNCTION is not supported: {_CODE}",
}
_KINDS = ("JAR", "JARS", "FILE", "FILES", "ARCHIVE", "ARCHIVES", "FUNCTION", "FUNCTIONS")
NO_FUNCTIONS = f"functions are Spark's (https://spark.apache.org/docs/latest/api/sql/), and {_CODE}"


def parse_use(cursor: Cursor, origin: dict[str, Any]) -> Use:
    """Read what follows USE."""
    if cursor.word() in ("DATABASE", "SCHEMA", "NAMESPACE") and len(cursor.rest()) > 1:
        cursor.position += 1
    database = cursor.name("a database name")
    cursor.end()
    return Use(database, **origin)


def parse_set(cursor: Cursor, origin: dict[str, Any]) -> SessionStatement:
    """Read SET; its value is what stands there up to the end of the statement, as in Hive."""
    if cursor.at("ROLE"):
        raise cursor.unsupported("SET ROLE is not supported; access is a matter of the warehouse's filesystem")
    if cursor.at("TIME", "ZONE"):
        raise cursor.unsupported("SET TIME ZONE is not supported; set spark.sql.session.timeZone with spark_conf")
    found = _SET.fullmatch(origin["text"])
    if found is None:
        raise cursor.error("expected SET key=value, SET hivevar:name=value, SET key, SET -v or SET")
    if found["flag"]:
        return ShowValues(everything=True, **origin)
    if found["name"] is None:
        return ShowValues(**origin)
    prefix, colon, name = found["name"].partition(":")
    if not colon:
        prefix, name = Space.HIVECONF.value, prefix
    if prefix.lower() in _ELSEWHERE:
        raise cursor.unsupported(f"SET {prefix}:… is not supported: {_ELSEWHERE[prefix.lower()]}")
    space = _SPACES.get(prefix.lower())
    if space is None:
        raise cursor.error(f"{prefix}: is no kind of variable; there are hivevar: and hiveconf:")
    name = name.strip("`")
    if not _KEY.fullmatch(name):
        raise cursor.error(f"{name[:40]!r} is no name of a setting or variable")
    if found["equals"] is None:
        return ShowValues(space, name, **origin)
    if space is Space.HIVECONF and name.lower().startswith("spark."):
        raise cursor.unsupported(
            f"SET {name} is not supported: Spark is started with its settings; give it in spark_conf"
        )
    return SetValue(space, name, found["value"].strip(), **origin)


def parse_reset(cursor: Cursor, origin: dict[str, Any]) -> Reset:
    """Read what follows RESET."""
    cursor.until()
    names = tuple(origin["text"].split()[1:])
    if any(not _KEY.fullmatch(name) for name in names):
        raise cursor.error("expected RESET, or RESET and names of settings")
    return Reset(names, **origin)


def refuse_if_of_a_session(cursor: Cursor, word: str) -> None:
    """Refuse ADD JAR and its like; the cursor stands at the first word of the statement."""
    first, _, second = word.partition(" ")  # the tokenizer takes ADD JAR for one word
    if first in REFUSED and (second or cursor.word(1)) in _KINDS:
        raise cursor.unsupported(REFUSED[first])
