"""Statements that look at the catalog: SHOW DATABASES, TABLES, VIEWS, PARTITIONS, COLUMNS, …, and DESCRIBE."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from airflow_hive_acid.sql.model.origins import Origin

if TYPE_CHECKING:
    from airflow_hive_acid.sql.model.origins import Fragment, TableName


class Listed(Enum):
    """What SHOW lists; the value is what follows SHOW."""

    DATABASES = "DATABASES"
    TABLES = "TABLES"
    VIEWS = "VIEWS"
    COLUMNS = "COLUMNS"


class Detail(Enum):
    """How much DESCRIBE tells."""

    PLAIN = "plain"
    EXTENDED = "extended"
    FORMATTED = "formatted"


@dataclass(frozen=True, slots=True)
class Lookup(Origin):
    """A statement that looks at the catalog, and at nothing else."""


@dataclass(frozen=True, slots=True)
class ShowNames(Lookup):
    """``SHOW DATABASES | TABLES | VIEWS | COLUMNS … [LIKE 'pattern']``.

    :param database: of the tables or views.
    :param table: of the columns.
    :param pattern: as Hive has it: ``*`` is any text, ``|`` separates choices; None for all.
    """

    listed: Listed
    database: str | None = None
    table: TableName | None = None
    pattern: str | None = None


@dataclass(frozen=True, slots=True)
class ShowPartitions(Lookup):
    """``SHOW PARTITIONS t [PARTITION (…)] [WHERE …] [LIMIT n]``.

    :param values: of some of the partition columns.
    :param where: a condition on partition columns.
    """

    table: TableName
    values: tuple[tuple[str, str], ...] = ()
    where: Fragment | None = None
    limit: int | None = None


@dataclass(frozen=True, slots=True)
class ShowCreateTable(Lookup):
    """``SHOW CREATE TABLE t``."""

    table: TableName


@dataclass(frozen=True, slots=True)
class ShowProperties(Lookup):
    """``SHOW TBLPROPERTIES t [('key')]``."""

    table: TableName
    key: str | None = None


@dataclass(frozen=True, slots=True)
class Describe(Lookup):
    """``DESCRIBE [EXTENDED | FORMATTED] t [column] [PARTITION (…)]``.

    :param partition: all of its values.
    """

    table: TableName
    column: str | None = None
    partition: tuple[tuple[str, str], ...] = ()
    detail: Detail = Detail.PLAIN


@dataclass(frozen=True, slots=True)
class DescribeDatabase(Lookup):
    """``DESCRIBE DATABASE | SCHEMA [EXTENDED] d``."""

    database: str
    extended: bool = False
