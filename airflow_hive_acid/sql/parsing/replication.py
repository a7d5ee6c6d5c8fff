"""EXPORT, IMPORT and FOR REPLICATION, read word by word."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_hive_acid.sql.model.transfers import ExportTable, ImportTable
from airflow_hive_acid.sql.parsing.commands import partition_values

if TYPE_CHECKING:
    from airflow_hive_acid.sql.parsing.cursor import Cursor


def parse_export(cursor: Cursor, origin: dict[str, Any]) -> ExportTable:
    """Read what follows EXPORT."""
    cursor.expect("TABLE")
    table = cursor.table_name()
    partitions = _partitions(cursor)
    cursor.expect("TO")
    location = cursor.string("a directory")
    metadata_only, event_id = False, None
    if cursor.accept("FOR"):
        metadata_only = cursor.accept("METADATA")
        event_id = _replication(cursor)
    cursor.end()
    return ExportTable(table, location, partitions, metadata_only, event_id, **origin)


def parse_import(cursor: Cursor, origin: dict[str, Any]) -> ImportTable:
    """Read what follows IMPORT."""
    external = cursor.accept("EXTERNAL")
    table = None
    partitions: tuple[tuple[tuple[str, str], ...], ...] = ()
    if external or cursor.at("TABLE"):
        cursor.expect("TABLE")
        table = cursor.table_name()
        partitions = _partitions(cursor)
    cursor.expect("FROM")
    source = cursor.string("the directory of a dump")
    location = cursor.string("a location") if cursor.accept("LOCATION") else None
    cursor.end()
    return ImportTable(source, table, partitions, external, location, **origin)


def event_of_drop(cursor: Cursor) -> int | None:
    """Read ``FOR REPLICATION('id')`` behind a drop, if it follows."""
    if not cursor.accept("FOR"):
        return None
    start = cursor.position
    text = _replication(cursor)
    if not (text.isascii() and text.isdecimal()):
        cursor.position = start
        raise cursor.error(f"a drop FOR REPLICATION needs the id of its event, a number, not {text!r}")
    return int(text)


def _replication(cursor: Cursor) -> str:
    cursor.expect("REPLICATION")
    cursor.expect("(")
    text = cursor.string("the id of an event")
    cursor.expect(")")
    return text


def _partitions(cursor: Cursor) -> tuple[tuple[tuple[str, str], ...], ...]:
    found: list[tuple[tuple[str, str], ...]] = []
    while cursor.at("PARTITION") or (found and cursor.accept(",")):
        found.append(partition_values(cursor))
    return tuple(found)
