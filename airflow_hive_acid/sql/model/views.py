"""Statements about views: those of the catalog, which a Hive reads as well, and those of a script."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from airflow_hive_acid.sql.model.origins import Origin

if TYPE_CHECKING:
    from airflow_hive_acid.sql.model.origins import Fragment, TableName


@dataclass(frozen=True, slots=True)
class ViewStatement(Origin):
    """A statement that changes a view of the catalog."""

    view: TableName


@dataclass(frozen=True, slots=True)
class CreateView(ViewStatement):
    """``CREATE [OR REPLACE] VIEW [IF NOT EXISTS] v [(columns)] [COMMENT …] [TBLPROPERTIES (…)] AS query``.

    :param columns: names with their comments; none: as the query calls them.
    """

    query: Fragment
    columns: tuple[tuple[str, str | None], ...] = ()
    replace: bool = False
    if_not_exists: bool = False
    comment: str | None = None
    properties: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DropView(ViewStatement):
    """``DROP VIEW [IF EXISTS] v``."""

    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class AlterViewQuery(ViewStatement):
    """``ALTER VIEW v AS query``: comment and properties stay."""

    query: Fragment


@dataclass(frozen=True, slots=True)
class AlterViewProperties(ViewStatement):
    """``ALTER VIEW v SET | UNSET TBLPROPERTIES (…)``.

    :param unset: names of properties to remove.
    :param if_exists: removing one that is not there is no error.
    """

    properties: dict[str, str] = field(default_factory=dict)
    unset: tuple[str, ...] = ()
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class RenameView(ViewStatement):
    """``ALTER VIEW v RENAME TO w``."""

    new: TableName


@dataclass(frozen=True, slots=True)
class CreateTemporaryQuery(Origin):
    """``CREATE [OR REPLACE] TEMPORARY VIEW v [(columns)] AS query``: for the later statements of the script.

    :param columns: names; none: as the query calls them.
    """

    name: str
    query: Fragment
    columns: tuple[str, ...] = ()
    replace: bool = False
