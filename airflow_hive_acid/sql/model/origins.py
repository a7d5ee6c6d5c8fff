"""What all statements are made of: names, columns, pieces of the script, and where they stand in it."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sqlglot import exp

    from airflow_hive_acid.metastore.catalog import Constraint


@dataclass(frozen=True, slots=True)
class TableName:
    """A qualified table name."""

    database: str
    name: str

    def __str__(self) -> str:
        return f"{self.database}.{self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Where a statement stands.

    :param text: its own text without the semicolon.
    :param line: the line of the script it begins on, from 1.
    :param script: the script it is part of; places in it are counted in characters from its beginning.
    :param offset: the character of the script it begins at, from 0.
    :param default_database: database of unqualified table names.
    """

    text: str = ""
    line: int = 1
    script: str = field(default="", repr=False, compare=False)
    offset: int = field(default=0, repr=False, compare=False)
    default_database: str = "default"

    @property
    def origin(self) -> dict[str, Any]:
        """Where it stands, as keywords for a statement that is made of it."""
        return {field.name: getattr(self, field.name) for field in fields(Origin)}

    @property
    def kind_text(self) -> str:
        """What kind of statement it is, as results spell it: ``insert``, ``create_table``, …."""
        name = type(self).__name__
        return "".join(f"_{c.lower()}" if c.isupper() else c for c in name).removeprefix("_")


@dataclass(frozen=True, slots=True)
class Fragment:
    """A query or an expression.

    :param tree: what it means, in Hive's dialect; names and literals in it know their places in the script.
    :param ranges: where its text stands: first character and the one after the last. Two ranges for
        ``WITH … INSERT … SELECT``, whose query is divided.
    :param lead: words that the script leaves out before the last range: ``SELECT * FROM`` of ``USING (VALUES …) s(a)``.
    :param text: what runs instead of the script's words, for what a ``*`` stands for.
    :param defaults: of ``VALUES (…)``, where DEFAULT stands: which value of its row it is, first and last character.
    :param field: in SET, the field of a struct column that the value is for; empty for the column itself.
    """

    tree: exp.Expr
    ranges: tuple[tuple[int, int], ...]
    lead: str = ""
    text: str | None = None
    field: tuple[str, ...] = ()
    defaults: tuple[tuple[int, int, int], ...] = ()

    @property
    def span(self) -> tuple[int, int]:
        """First and last character."""
        return self.ranges[0][0], self.ranges[-1][1] - 1


@dataclass(frozen=True, slots=True)
class ColumnDefinition:
    """A column of CREATE TABLE; the type in Hive's lower-case spelling, empty where it is known later."""

    name: str
    type: str
    comment: str | None = None
    constraints: tuple[Constraint, ...] = field(default=(), repr=False)
