"""Statements as values: what a script says, statement by statement, before anything is looked up.

Names are lower-case and qualified with their database. Queries and expressions keep the words of the script: their
sqlglot tree says what they mean, and what runs is their text with the names of tables exchanged.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sqlglot import exp

    from airflow_hive_acid.format.jobs import Source


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


@dataclass(frozen=True, slots=True)
class Fragment:
    """A query or an expression.

    :param tree: what it means, in Hive's dialect; names and literals in it know their places in the script.
    :param ranges: where its text stands: first character and the one after the last. Two ranges for
        ``WITH … INSERT … SELECT``, whose query is divided.
    """

    tree: exp.Expr
    ranges: tuple[tuple[int, int], ...]

    @property
    def span(self) -> tuple[int, int]:
        """First and last character."""
        return self.ranges[0][0], self.ranges[-1][1] - 1


@dataclass(frozen=True, slots=True)
class ColumnDefinition:
    """A column of CREATE TABLE; the type in Hive's lower-case spelling."""

    name: str
    type: str
    comment: str | None = None


@dataclass(frozen=True, slots=True)
class CreateDatabase(Origin):
    """``CREATE DATABASE [IF NOT EXISTS] name [COMMENT] [LOCATION] [WITH DBPROPERTIES]``."""

    name: str
    if_not_exists: bool = False
    comment: str | None = None
    location: str | None = None
    properties: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DropDatabase(Origin):
    """``DROP DATABASE [IF EXISTS] name [RESTRICT|CASCADE]``."""

    name: str
    if_exists: bool = False
    cascade: bool = False


@dataclass(frozen=True, slots=True)
class CreateTable(Origin):
    """``CREATE [EXTERNAL] TABLE … STORED AS ORC|PARQUET|TEXTFILE …``.

    :param columns: data columns, without the partition columns.
    :param bucket_count: -1 when the table is not bucketed.
    :param stored_as: ``orc``, ``parquet`` or ``text``.
    :param query: of CREATE TABLE … AS SELECT, which has no columns of its own.
    """

    table: TableName
    columns: tuple[ColumnDefinition, ...]
    partition_columns: tuple[ColumnDefinition, ...] = ()
    bucket_columns: tuple[str, ...] = ()
    bucket_count: int = -1
    sort_columns: tuple[tuple[str, bool], ...] = ()
    if_not_exists: bool = False
    external: bool = False
    comment: str | None = None
    location: str | None = None
    properties: dict[str, str] = field(default_factory=dict)
    stored_as: str = "orc"
    query: Fragment | None = None


@dataclass(frozen=True, slots=True)
class DropTable(Origin):
    """``DROP TABLE [IF EXISTS] db.t [PURGE]``."""

    table: TableName
    if_exists: bool = False
    purge: bool = False


@dataclass(frozen=True, slots=True)
class CreateTemporaryView(Origin):
    """``CREATE [OR REPLACE] TEMPORARY VIEW v [(typed columns)] USING csv|orc|parquet|json [OPTIONS (…)]``.

    The view lives as long as the script's session and may be read by its later statements.
    """

    source: Source
    replace: bool = False


@dataclass(frozen=True, slots=True)
class Insert(Origin):
    """``INSERT INTO|OVERWRITE [TABLE] t [PARTITION (…)] [(columns)] query``.

    :param partition: of the PARTITION clause, a value for static columns and None for dynamic ones.
    :param columns: the column list, empty when there is none.
    """

    table: TableName
    query: Fragment
    overwrite: bool = False
    partition: tuple[tuple[str, str | None], ...] = ()
    columns: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class MultiInsert(Origin):
    """``FROM … INSERT … SELECT … INSERT … SELECT …``: several inserts, one statement, one transaction."""

    inserts: tuple[Insert, ...]


@dataclass(frozen=True, slots=True)
class Truncate(Origin):
    """``TRUNCATE TABLE t [PARTITION (…)]``.

    :param partition: columns and values; those partitions that have them are emptied, all without any.
    """

    table: TableName
    partition: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Update(Origin):
    """``UPDATE t SET c = e, … [WHERE …]``."""

    table: TableName
    alias: str
    assignments: tuple[tuple[str, Fragment], ...]
    where: Fragment | None = None


@dataclass(frozen=True, slots=True)
class Delete(Origin):
    """``DELETE FROM t [WHERE …]``."""

    table: TableName
    alias: str
    where: Fragment | None = None


@dataclass(frozen=True, slots=True)
class MergeWhen:
    """A WHEN clause of MERGE.

    :param matched: WHEN MATCHED; otherwise WHEN NOT MATCHED.
    :param action: ``update``, ``delete`` or ``insert``.
    :param columns: of an insert, empty when all columns are meant.
    :param values: of an insert, in the order of ``columns``.
    :param assignments: of an update.
    """

    matched: bool
    action: str
    condition: Fragment | None = None
    assignments: tuple[tuple[str, Fragment], ...] = ()
    columns: tuple[str, ...] = ()
    values: tuple[Fragment, ...] = ()


@dataclass(frozen=True, slots=True)
class Merge(Origin):
    """``MERGE INTO t USING source ON condition WHEN …``.

    :param source: a query; for ``USING table`` a tree of that table alone.
    """

    table: TableName
    alias: str
    source: Fragment
    source_alias: str
    on: Fragment
    whens: tuple[MergeWhen, ...]


@dataclass(frozen=True, slots=True)
class Select(Origin):
    """A query whose rows the caller wants: SELECT, WITH, VALUES, set operations."""

    query: Fragment


@dataclass(frozen=True, slots=True)
class Begin(Origin):
    """``BEGIN`` or ``START TRANSACTION``."""


@dataclass(frozen=True, slots=True)
class Commit(Origin):
    """``COMMIT``."""


@dataclass(frozen=True, slots=True)
class Rollback(Origin):
    """``ROLLBACK``."""


class ShowKind(Enum):
    """What SHOW lists."""

    LOCKS = "locks"
    TRANSACTIONS = "transactions"
    COMPACTIONS = "compactions"


@dataclass(frozen=True, slots=True)
class Show(Origin):
    """``SHOW LOCKS [t [PARTITION (…)]]``, ``SHOW TRANSACTIONS``, ``SHOW COMPACTIONS``.

    :param partition: of SHOW LOCKS, column and value.
    """

    kind: ShowKind
    table: TableName | None = None
    partition: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Compact(Origin):
    """``ALTER TABLE t [PARTITION (…)] COMPACT 'major'|'minor'|'rebalance' [AND WAIT]``.

    :param buckets: of a rebalance, ``CLUSTERED INTO n BUCKETS``.
    :param order_by: of a rebalance: the text from ORDER BY on.
    """

    table: TableName
    type: str
    partition: tuple[tuple[str, str], ...] = ()
    wait: bool = False
    buckets: int | None = None
    order_by: str | None = None


@dataclass(frozen=True, slots=True)
class AlterProperties(Origin):
    """``ALTER TABLE t SET TBLPROPERTIES (…)``; with ``'transactional'='true'`` a plain table becomes transactional."""

    table: TableName
    properties: dict[str, str]


DataStatement = Insert | Update | Delete | Merge | Select
Statement = (
    CreateDatabase
    | DropDatabase
    | CreateTable
    | DropTable
    | CreateTemporaryView
    | DataStatement
    | MultiInsert
    | Truncate
    | Begin
    | Commit
    | Rollback
    | Show
    | Compact
    | AlterProperties
)
