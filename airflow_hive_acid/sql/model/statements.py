"""Statements as values: what a script says, statement by statement, before anything is looked up.

Names are lower-case and qualified with their database. Queries and expressions keep the words of the script: their
sqlglot tree says what they mean, and what runs is their text with the names of tables exchanged.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

from airflow_hive_acid.sql.model.alterations import AlterStatement
from airflow_hive_acid.sql.model.lookups import Lookup
from airflow_hive_acid.sql.model.origins import ColumnDefinition, Fragment, Origin, TableName
from airflow_hive_acid.sql.model.session import SessionStatement
from airflow_hive_acid.sql.model.statistics import Analyze
from airflow_hive_acid.sql.model.transfers import TransferStatement
from airflow_hive_acid.sql.model.views import CreateTemporaryQuery, ViewStatement

if TYPE_CHECKING:
    from airflow_hive_acid.format.jobs import Source
    from airflow_hive_acid.metastore.catalog import Constraint

__all__ = ["ColumnDefinition", "Fragment", "Origin", "TableName"]


@dataclass(frozen=True, slots=True)
class CreateDatabase(Origin):
    """``CREATE DATABASE [IF NOT EXISTS] name [COMMENT] [LOCATION] [WITH DBPROPERTIES]``."""

    name: str
    if_not_exists: bool = False
    comment: str | None = None
    location: str | None = None
    properties: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class AlterDatabase(Origin):
    """``ALTER DATABASE|SCHEMA name SET DBPROPERTIES (…) | OWNER USER|ROLE|GROUP name | [MANAGED]LOCATION 'uri'``.

    :param location: where its external tables go from now on; ``managed_location`` its managed ones.
    """

    name: str
    properties: dict[str, str] = field(default_factory=dict)
    owner: str | None = None
    owner_type: str = "USER"
    location: str | None = None
    managed_location: str | None = None


@dataclass(frozen=True, slots=True)
class DropDatabase(Origin):
    """``DROP DATABASE [IF EXISTS] name [RESTRICT|CASCADE]``."""

    name: str
    if_exists: bool = False
    cascade: bool = False


@dataclass(frozen=True, slots=True)
class CreateTable(Origin):
    """``CREATE [OR REPLACE] [EXTERNAL] TABLE … STORED AS ORC|PARQUET|TEXTFILE …``.

    :param columns: data columns, without the partition columns.
    :param bucket_count: -1 when the table is not bucketed.
    :param stored_as: ``orc``, ``parquet`` or ``text``.
    :param query: of CREATE TABLE … AS SELECT, which has no columns of its own; its partition columns have no types.
    :param serde_properties: of ROW FORMAT.
    :param constraints: of the table and of its columns.
    :param like: the table whose definition is taken, without its rows.
    :param replace: a table of that name that is there becomes this one.
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
    serde_properties: dict[str, str] = field(default_factory=dict)
    constraints: tuple[Constraint, ...] = ()
    like: TableName | None = None
    replace: bool = False


@dataclass(frozen=True, slots=True)
class CreateTemporaryTable(Origin):
    """``CREATE TEMPORARY TABLE [IF NOT EXISTS] t (columns) | AS query | LIKE other``.

    :param create: the same without TEMPORARY; what it says of files is not looked at.
    """

    create: CreateTable


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
    :param by_name: BY NAME: the columns that the query's columns are called after are filled.
    """

    table: TableName
    query: Fragment
    overwrite: bool = False
    partition: tuple[tuple[str, str | None], ...] = ()
    columns: tuple[str, ...] = ()
    by_name: bool = False


@dataclass(frozen=True, slots=True)
class InsertDirectory(Origin):
    """``INSERT OVERWRITE [LOCAL] DIRECTORY 'uri' [ROW FORMAT …] [STORED AS …] query``.

    :param format: Spark's name of the format, or ``hive_text`` for Hive's text files.
    :param options: of that format; of ``hive_text`` the serde's properties.
    """

    uri: str
    query: Fragment
    format: str = "hive_text"
    options: dict[str, str] = field(default_factory=dict)


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
class FirstRows:
    """``ORDER BY … LIMIT n`` of UPDATE and DELETE.

    :param order: expressions, each with its direction in words, ``DESC NULLS LAST``.
    """

    order: tuple[tuple[Fragment, str], ...]
    count: int


@dataclass(frozen=True, slots=True)
class Update(Origin):
    """``UPDATE t SET c = e, … [WHERE …] [ORDER BY … LIMIT n]``."""

    table: TableName
    alias: str
    assignments: tuple[tuple[str, Fragment], ...]
    where: Fragment | None = None
    first: FirstRows | None = None


@dataclass(frozen=True, slots=True)
class Delete(Origin):
    """``DELETE FROM t [WHERE …] [ORDER BY … LIMIT n]``."""

    table: TableName
    alias: str
    where: Fragment | None = None
    first: FirstRows | None = None


@dataclass(frozen=True, slots=True)
class MergeWhen:
    """A WHEN clause of MERGE.

    :param matched: WHEN MATCHED; otherwise WHEN NOT MATCHED.
    :param action: ``update``, ``delete`` or ``insert``.
    :param by_source: WHEN NOT MATCHED BY SOURCE: rows of the target that no row of the source matches.
    :param star: where ``*`` stands in ``UPDATE SET *`` and ``INSERT *``: columns take the source's of their names.
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
    by_source: bool = False
    star: tuple[int, int] | None = None

    @property
    def of_target(self) -> bool:
        """Whether the clause is about rows that are in the target."""
        return self.matched or self.by_source


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
    WAITS = "waits"


@dataclass(frozen=True, slots=True)
class Show(Origin):
    """``SHOW LOCKS …``, ``SHOW TRANSACTIONS``, ``SHOW COMPACTIONS …``, ``SHOW WAITS …``.

    :param partition: column and value.
    :param database: of SHOW LOCKS DATABASE and SHOW COMPACTIONS DATABASE.
    :param extended: SHOW LOCKS … EXTENDED; more columns with DummyTxnManager, the same with DbTxnManager, as in Hive.
    :param id: of SHOW COMPACTIONS COMPACT_ID; likewise ``pool``, ``type`` and ``state``, in lower case.
    :param order: columns of ORDER BY, and whether each descends.
    """

    kind: ShowKind
    table: TableName | None = None
    partition: tuple[tuple[str, str], ...] = ()
    database: str | None = None
    extended: bool = False
    id: int | None = None
    pool: str | None = None
    type: str | None = None
    state: str | None = None
    order: tuple[tuple[str, bool], ...] = ()
    limit: int | None = None


@dataclass(frozen=True, slots=True)
class Abort(Origin):
    """``ABORT TRANSACTIONS id …`` and ``ABORT COMPACTIONS id …``."""

    kind: ShowKind
    ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Load(Origin):
    """``LOAD DATA … INTO TABLE t``: read so that it can be refused in Hive's words."""

    table: TableName
    overwrite: bool = False
    partition: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class ShowLease(Origin):
    """``SHOW LEASE *``, ``SHOW LEASE t [PARTITION (…)]``.

    :param table: None for all leases.
    """

    table: TableName | None = None
    partition: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class DropForceLease(Origin):
    """``DROP FORCE LEASE * | t [PARTITION (…)] [COMMENT 'why']``.

    :param table: None for all leases.
    :param why: kept in the record of forced drops.
    """

    table: TableName | None = None
    partition: tuple[tuple[str, str], ...] = ()
    why: str | None = None


DataStatement = Insert | Update | Delete | Merge | Select
PlainStatement = (
    CreateDatabase
    | AlterDatabase
    | DropDatabase
    | CreateTable
    | CreateTemporaryTable
    | DropTable
    | CreateTemporaryView
    | DataStatement
    | InsertDirectory
    | MultiInsert
    | Truncate
    | Begin
    | Commit
    | Rollback
    | Show
    | Abort
    | ShowLease
    | DropForceLease
    | Load
    | AlterStatement
    | TransferStatement
    | Lookup
    | Analyze
    | SessionStatement
    | ViewStatement
    | CreateTemporaryQuery
)


@dataclass(frozen=True, slots=True)
class Explain(Origin):
    """``EXPLAIN [LOCKS] statement``."""

    statement: PlainStatement
    locks: bool = False


Statement = PlainStatement | Explain
