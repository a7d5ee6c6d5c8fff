"""What CREATE OR REPLACE may make of a transactional table, as a pure decision.

The table stays the same one, with its id, its directory, its owner and its grants: a base with a new write id hides
what was there, and readers of older snapshots go on reading that, under the columns that the table has now. So what
says how files are found and read (kind, format, partitioning, buckets) stays, and columns change as REPLACE COLUMNS
may change them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from airflow_hive_acid.errors import InvalidArgumentsError, UnsupportedStatementError
from airflow_hive_acid.format.table_kinds import TRANSACTIONAL, TRANSACTIONAL_PROPERTIES
from airflow_hive_acid.metastore.catalog.values.alteration import ColumnChange, replace_columns
from airflow_hive_acid.metastore.txns.key_values import moves_with_commits
from airflow_hive_acid.metastore.txns.statistics import STATISTICS_ACCURATE

if TYPE_CHECKING:
    from collections.abc import Iterable

    from airflow_hive_acid.metastore.catalog.values.model import Table

_KEPT = frozenset({
    TRANSACTIONAL, TRANSACTIONAL_PROPERTIES, STATISTICS_ACCURATE, "bucketing_version", "numFiles", "numRows",
    "totalSize", "rawDataSize", "numFilesErasureCoded", "transient_lastDdlTime", "last_modified_by",
    "last_modified_time",
})  # fmt: skip
_OTHERWISE = "DROP TABLE, then CREATE TABLE, if nobody needs what it holds"


@dataclass(frozen=True, slots=True)
class Replaced:
    """A table as it becomes.

    :param table: with its new columns and properties.
    :param change: what becomes of its columns.
    """

    table: Table
    change: ColumnChange


def replaced(table: Table, new: Table, location: str | None = None) -> Replaced:
    """The table that takes the place of another one.

    :param new: what the statement describes.
    :param location: its LOCATION, if it has one.
    :raises UnsupportedStatementError: for what is no transactional table, or would become none.
    :raises InvalidArgumentsError: for a change by which older snapshots could not be read any more.
    """
    name = table.qualified_name
    if table.is_view:
        raise InvalidArgumentsError(f"{name} is a view; CREATE OR REPLACE VIEW, or DROP VIEW first")
    if not table.is_transactional:
        raise UnsupportedStatementError(
            f"{name} has no transactions: nothing would keep its rows for who reads them just now. {_OTHERWISE}"
        )
    if not new.is_transactional:
        raise UnsupportedStatementError(
            f"{name} is transactional, and would have no transactions any more; leave EXTERNAL and "
            f"'transactional'='false' out, or {_OTHERWISE}"
        )
    for what, before, after in _fixed(table, new):
        if before != after:
            raise InvalidArgumentsError(
                f"CREATE OR REPLACE of {name}: {what} is {before} and would become {after}; older snapshots could not "
                f"be read any more. Keep it, or {_OTHERWISE}"
            )
    if location is not None and location.rstrip("/") != table.location:
        raise InvalidArgumentsError(
            f"CREATE OR REPLACE of {name}: it lies at {table.location} and stays there; leave LOCATION out"
        )
    try:
        change = replace_columns(table, new.columns, _comments(table, new))
    except InvalidArgumentsError as problem:
        raise InvalidArgumentsError(f"CREATE OR REPLACE of {name}: {problem}. Or {_OTHERWISE}") from None
    if change.renamed and table.is_insert_only and table.format not in ("orc", "text"):
        old, given = next(iter(change.renamed.items()))
        raise InvalidArgumentsError(
            f"CREATE OR REPLACE of {name}: column {old} would become {given}, and files of {table.format} are read "
            f"by the names of their columns: older snapshots would have NULL there. Keep the name, or {_OTHERWISE}"
        )
    storage = change.made_of(table.storage)
    if (storage.bucket_columns, storage.sort_columns) != (new.storage.bucket_columns, new.storage.sort_columns):
        raise InvalidArgumentsError(
            f"CREATE OR REPLACE of {name}: it is clustered by {_said(storage.bucket_columns)} and would be by "
            f"{_said(new.storage.bucket_columns)}: rows would be looked for in the wrong buckets. Keep it, or "
            f"{_OTHERWISE}"
        )
    change = replace(change, outdated=frozenset(column.name for column in table.columns))
    kept = {key: value for key, value in table.properties.items() if _stays(key) or key.startswith("repl.")}
    said = {key: value for key, value in new.properties.items() if not _stays(key)}
    return Replaced(replace(table, storage=storage, properties={**said, **kept}), change)


def _stays(key: str) -> bool:
    """Whether a property is the table's, and not the statement's; so is where its streams stand: as after INSERT
    OVERWRITE they go on, and rows of theirs that the query has taken over do not come twice."""
    return key in _KEPT or moves_with_commits(key)


def _fixed(table: Table, new: Table) -> list[tuple[str, str, str]]:
    """What stays as it is: its name, how it is, how it would be."""
    keys = [", ".join(f"{c.name} {c.type}" for c in t.partition_columns) or "nothing" for t in (table, new)]
    kinds = ["insert-only" if t.is_insert_only else "full ACID" for t in (table, new)]
    rows = [_said(f"{key}={value!r}" for key, value in sorted(_serde(t).items())) for t in (table, new)]
    return [
        ("its kind", kinds[0], kinds[1]),
        ("its format", str(table.format), str(new.format)),
        ("what it is partitioned by", keys[0], keys[1]),
        ("its number of buckets", str(max(table.bucket_count, 0)), str(max(new.bucket_count, 0))),
        ("its ROW FORMAT", rows[0], rows[1]),
    ]


def _serde(table: Table) -> dict[str, str]:
    properties = {key: value for key, value in table.storage.serde_properties.items() if value}
    # A Hive and we note the same default in different words.
    if properties.get("serialization.format") in ("1", properties.get("field.delim")):
        properties.pop("serialization.format", None)
    return properties


def _comments(table: Table, new: Table) -> dict[str, str]:
    keys = {key.name for key in table.partition_columns}
    return {name: comment for name, comment in new.comments.items() if name not in keys}


def _said(words: Iterable[str]) -> str:
    return ", ".join(words) or "nothing"
