"""ALTER TABLE as values, one class per clause of Hive's DDL manual."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from airflow_hive_acid.sql.model.origins import ColumnDefinition, Origin, TableName

if TYPE_CHECKING:
    from airflow_hive_acid.metastore.catalog import Constraint

Partition = tuple[tuple[str, str], ...]
"""Columns and values of a PARTITION clause; empty when there is none."""


@dataclass(frozen=True, slots=True)
class Alteration(Origin):
    """What every ALTER TABLE has."""

    table: TableName


@dataclass(frozen=True, slots=True)
class RenameTable(Alteration):
    """``RENAME TO db.new``."""

    new: TableName


@dataclass(frozen=True, slots=True)
class RenamePartition(Alteration):
    """``PARTITION (…) RENAME TO PARTITION (…)``."""

    partition: Partition
    new: Partition


@dataclass(frozen=True, slots=True)
class AlterColumns(Alteration):
    """``[PARTITION (…)] ADD|REPLACE COLUMNS (…) [CASCADE|RESTRICT]``.

    :param cascade: partitions get the columns, too; without either word they do, because Hive reads NULL from a column
        that a partition does not have, whatever its files hold.
    """

    columns: tuple[ColumnDefinition, ...]
    replace: bool = False
    cascade: bool = True
    partition: Partition = ()


@dataclass(frozen=True, slots=True)
class ChangeColumn(Alteration):
    """``CHANGE [COLUMN] old new type [constraint] [COMMENT …] [CASCADE|RESTRICT]``, and Spark's ``RENAME COLUMN`` and
    ``ALTER COLUMN``: a type that is empty is the one there is.
    """

    column: str
    new: ColumnDefinition
    cascade: bool = True


@dataclass(frozen=True, slots=True)
class AddConstraint(Alteration):
    """``ADD CONSTRAINT name …``, and Spark's ``ALTER COLUMN c SET NOT NULL``."""

    constraint: Constraint


@dataclass(frozen=True, slots=True)
class DropConstraint(Alteration):
    """``DROP CONSTRAINT name``."""

    name: str


@dataclass(frozen=True, slots=True)
class AlterOwner(Alteration):
    """``SET OWNER USER|ROLE|GROUP name``."""

    owner: str
    owner_type: str = "USER"


@dataclass(frozen=True, slots=True)
class RepairTable(Alteration):
    """``MSCK [REPAIR] TABLE t [ADD PARTITIONS]`` and ``ALTER TABLE t RECOVER PARTITIONS``."""


@dataclass(frozen=True, slots=True)
class AlterProperties(Alteration):
    """``[PARTITION (…)] SET|UNSET TBLPROPERTIES (…)``; with ``'transactional'='true'`` a table becomes transactional.

    :param unset: names of the properties that are removed.
    :param if_exists: one that is not there is no error.
    """

    properties: dict[str, str] = field(default_factory=dict)
    unset: tuple[str, ...] = ()
    if_exists: bool = False
    partition: Partition = ()


@dataclass(frozen=True, slots=True)
class AlterSerde(Alteration):
    """``[PARTITION (…)] SET SERDE 'class' [WITH SERDEPROPERTIES (…)]`` or ``SET SERDEPROPERTIES (…)``.

    :param serde: None keeps the class.
    """

    properties: dict[str, str] = field(default_factory=dict)
    serde: str | None = None
    partition: Partition = ()


@dataclass(frozen=True, slots=True)
class AlterFileFormat(Alteration):
    """``[PARTITION (…)] SET FILEFORMAT orc|parquet|textfile``.

    :param stored_as: ``orc``, ``parquet`` or ``text``.
    """

    stored_as: str
    partition: Partition = ()


@dataclass(frozen=True, slots=True)
class AlterLocation(Alteration):
    """``PARTITION (…) SET LOCATION 'uri'``."""

    location: str
    partition: Partition


@dataclass(frozen=True, slots=True)
class AddPartitions(Alteration):
    """``ADD [IF NOT EXISTS] PARTITION (…) [LOCATION 'uri'] PARTITION (…) [LOCATION 'uri'] …``.

    :param locations: for each partition where it lies, None for where its name says; empty when none has a LOCATION.
    """

    partitions: tuple[Partition, ...]
    if_not_exists: bool = False
    locations: tuple[str | None, ...] = ()


@dataclass(frozen=True, slots=True)
class DropPartitions(Alteration):
    """``DROP [IF EXISTS] PARTITION (…), PARTITION (…) … [PURGE]``.

    :param partitions: for each clause columns, comparisons and values: ``("ds", "<", "2020-01-01")``.
    """

    partitions: tuple[tuple[tuple[str, str, str], ...], ...]
    if_exists: bool = False
    purge: bool = False


@dataclass(frozen=True, slots=True)
class Touch(Alteration):
    """``TOUCH [PARTITION (…)]``."""

    partition: Partition = ()


@dataclass(frozen=True, slots=True)
class Concatenate(Alteration):
    """``[PARTITION (…)] CONCATENATE``; of a transactional table a major compaction that is waited for, as in Hive."""

    partition: Partition = ()


@dataclass(frozen=True, slots=True)
class Compact(Alteration):
    """``[PARTITION (…)] COMPACT 'major'|'minor'|'rebalance' [AND WAIT] …``.

    :param buckets: of a rebalance, ``CLUSTERED INTO n BUCKETS``.
    :param order_by: of a rebalance: the text from ORDER BY on.
    :param pool: of workers that may take it.
    :param properties: ``WITH OVERWRITE TBLPROPERTIES``.
    """

    type: str
    partition: Partition = ()
    wait: bool = False
    buckets: int | None = None
    order_by: str | None = None
    pool: str | None = None
    properties: dict[str, str] = field(default_factory=dict)


AlterStatement = (
    RenameTable
    | RenamePartition
    | AlterColumns
    | ChangeColumn
    | AddConstraint
    | DropConstraint
    | AlterOwner
    | RepairTable
    | AlterProperties
    | AlterSerde
    | AlterFileFormat
    | AlterLocation
    | AddPartitions
    | DropPartitions
    | Touch
    | Concatenate
    | Compact
)
