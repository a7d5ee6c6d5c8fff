"""Names of tables and partitions as the txn tables hold them, checked before they reach the database.

Database and table names are lower-cased before every access; of a partition name only the key parts are. Lengths are
those of Hive's columns: SQLite would not refuse a longer one, and a shortened name would be another object.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from airflow_hive_acid.errors import InvalidArgumentsError
from airflow_hive_acid.format.partitions import escaped_twice, parse_partition_name, partition_name

if TYPE_CHECKING:
    from collections.abc import Iterable

MAX_DATABASE, MAX_TABLE, MAX_PARTITION, MAX_INFO = 128, 256, 767, 128
GLOBAL_LOCKS = "__global_locks"
"""Database under which advisory locks (``hive.query.exclusive.lock``) are taken; their names are free text."""
_NAME = re.compile(r"[A-Za-z0-9_]+")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


class TableName(NamedTuple):
    """A table as ``database`` and ``name``, both lower-case."""

    database: str
    name: str

    def __str__(self) -> str:
        return f"{self.database}.{self.name}"


def table_name(text: str) -> TableName:
    """Read ``db.table``.

    :raises InvalidArgumentsError: when it is not two names of letters, digits and underscores, or too long.
    """
    if not isinstance(text, str):
        raise InvalidArgumentsError(f"a table name must be text, not {type(text).__name__}")
    parts = text.split(".")
    if len(parts) != 2:
        raise InvalidArgumentsError(f"{shorten(text)!r} is no table name; write database.table")
    return TableName(database_name(parts[0]), _name(parts[1], "table", MAX_TABLE))


def is_table_name(text: str) -> bool:
    """Whether :func:`table_name` takes it; a Hive may allow other characters in names."""
    try:
        table_name(text)
    except InvalidArgumentsError:
        return False
    return True


def database_name(text: str) -> str:
    """A database name, lower-case and checked."""
    return _name(text, "database", MAX_DATABASE)


def lock_object(database: str, table: str | None, partition: str | None) -> tuple[str, str | None, str | None]:
    """The object of a lock: database, table, partition, as the lock tables hold them."""
    if database.lower() == GLOBAL_LOCKS:
        return GLOBAL_LOCKS, free_text(table or "", "advisory lock name", MAX_TABLE), None
    if table is None:
        if partition is not None:
            raise InvalidArgumentsError(
                f"a lock on partition {shorten(partition)!r} of database {database} names no table"
            )
        return database_name(database), None, None
    name = table_name(f"{database}.{table}")
    return name.database, name.name, None if partition is None else canonical_partition(partition)


def canonical_partition(text: str) -> str:
    """A partition name ``k1=v1/k2=v2`` with lower-case keys.

    :raises InvalidArgumentsError: when it is no partition name or longer than Hive's column.
    """
    free_text(text, "partition name", MAX_PARTITION)
    canonical = partition_name(parse_partition_name(text))
    if len(canonical) > MAX_PARTITION:
        raise InvalidArgumentsError(
            f"partition name {shorten(text)!r} has {len(canonical)} characters when escaped; "
            f"the metastore holds {MAX_PARTITION}"
        )
    return canonical


def lock_partition(name: str | None) -> str | None:
    """A partition as HIVE_LOCKS spells it: as a Hive does, escaped once more, so that its locks and ours meet.

    One whose name does not fit into the column so is locked with its whole table.

    :param name: the catalog's name; None for a table or a database.
    """
    stored = None if name is None else escaped_twice(name)
    return None if stored is None or len(stored) > MAX_PARTITION else stored


def free_text(text: str, what: str, limit: int) -> str:
    """Text without control characters and not longer than its column."""
    if not text:
        raise InvalidArgumentsError(f"the {what} is empty")
    if _CONTROL.search(text):
        raise InvalidArgumentsError(f"the {what} {shorten(text)!r} contains a control character; remove it")
    if len(text) > limit:
        raise InvalidArgumentsError(f"the {what} {shorten(text)!r} has {len(text)} characters; the limit is {limit}")
    return text


def info(text: str | None, limit: int = MAX_INFO) -> str:
    """User, host, agent information or a reason for its column: control characters replaced, cut to length."""
    cleaned = _CONTROL.sub(" ", text or "")
    return cleaned if len(cleaned) <= limit else cleaned[: limit - 1] + "…"


def distinct_tables(names: Iterable[str]) -> list[TableName]:
    """The tables, each once, in the order given."""
    return list(dict.fromkeys(table_name(name) for name in names))


def shorten(text: str, limit: int = 60) -> str:
    """Text for a message."""
    return text if len(text) <= limit else text[: limit - 1] + "…"


def _name(text: str, what: str, limit: int) -> str:
    if not _NAME.fullmatch(text):
        raise InvalidArgumentsError(
            f"{shorten(text)!r} is no {what} name; use letters, digits and underscores"
            if text
            else f"the {what} name is empty"
        )
    if len(text) > limit:
        raise InvalidArgumentsError(f"{what} name {shorten(text)!r} has {len(text)} characters; the limit is {limit}")
    return text.lower()
