"""What a table's properties make of it: full ACID, insert-only, or plain.

Hive looks such keys up in any case (AcidUtils.isTransactionalTable, isInsertOnlyTable), and so does everybody here.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

TRANSACTIONAL = "transactional"
TRANSACTIONAL_PROPERTIES = "transactional_properties"
NO_AUTO_COMPACTION = "no_auto_compaction"


class TableKind(enum.Enum):
    """How a table's rows are kept."""

    FULL = "full"
    """Rows have ids, and can be changed."""
    INSERT_ONLY = "insert_only"
    """Files belong to write ids; rows have no ids."""
    PLAIN = "no"
    """No transactions."""


def property_of(properties: Mapping[str, str], key: str) -> str | None:
    """The value of a property, whose key counts in any case, the very spelling first; None if it is not set."""
    if key in properties:
        return properties[key]
    return next((value for name, value in properties.items() if name.lower() == key.lower()), None)


def table_kind(properties: Mapping[str, str]) -> TableKind:
    """What properties of the catalog say a table is."""
    if not is_transactional(properties):
        return TableKind.PLAIN
    kind = property_of(properties, TRANSACTIONAL_PROPERTIES) or ""
    return TableKind.INSERT_ONLY if kind.lower() == TableKind.INSERT_ONLY.value else TableKind.FULL


def is_transactional(properties: Mapping[str, str], *, unsaid: bool = False) -> bool:
    """Whether a table with these properties has write ids: full ACID or insert-only.

    :param unsaid: what is so where they do not say; True for a CREATE TABLE, which makes ACID tables unless told.
    """
    value = property_of(properties, TRANSACTIONAL)
    return unsaid if value is None else value.lower() == "true"


def is_insert_only(properties: Mapping[str, str]) -> bool:
    """Whether a table with these properties has write ids, but no row ids."""
    return table_kind(properties) is TableKind.INSERT_ONLY


def no_auto_compaction(database: Mapping[str, str], table: Mapping[str, str]) -> str | None:
    """Who switches automatic compaction off, ``database`` or ``table``; None when it is on.

    A value of the database decides alone, whether it is true or false, as in Hive.
    """
    where, value = "database", property_of(database, NO_AUTO_COMPACTION)
    if value is None:
        where, value = "table", property_of(table, NO_AUTO_COMPACTION)
    return where if value is not None and value.strip().lower() == "true" else None
