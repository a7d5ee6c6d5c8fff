"""EXPORT, IMPORT and the drops FOR REPLICATION as values (HiveReplicationDevelopment, Hive's ImportExport)."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_hive_acid.sql.model.origins import Origin, TableName


@dataclass(frozen=True, slots=True)
class ReplicationStatement(Origin):
    """What tables are carried from one warehouse to another with."""


@dataclass(frozen=True, slots=True)
class ExportTable(ReplicationStatement):
    """``EXPORT TABLE t [PARTITION (…)]… TO 'uri' [FOR [METADATA] REPLICATION('id')]``.

    :param partitions: columns and values of each PARTITION clause; some of the columns name all partitions that fit.
    :param event_id: what ``REPLICATION`` says; None outside of replication.
    """

    table: TableName
    location: str
    partitions: tuple[tuple[tuple[str, str], ...], ...] = ()
    metadata_only: bool = False
    event_id: str | None = None


@dataclass(frozen=True, slots=True)
class ImportTable(ReplicationStatement):
    """``IMPORT [[EXTERNAL] TABLE t [PARTITION (…)]…] FROM 'uri' [LOCATION 'uri']``.

    :param table: None: it is called as at the source.
    """

    source: str
    table: TableName | None = None
    partitions: tuple[tuple[tuple[str, str], ...], ...] = ()
    external: bool = False
    location: str | None = None


@dataclass(frozen=True, slots=True)
class DropTableForReplication(ReplicationStatement):
    """``DROP TABLE [IF EXISTS] t FOR REPLICATION('id')``."""

    table: TableName
    event_id: int
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class DropPartitionsForReplication(ReplicationStatement):
    """``ALTER TABLE t DROP [IF EXISTS] PARTITION (…)… FOR REPLICATION('id')``.

    :param partitions: columns and values of each PARTITION clause; some of the columns name all partitions that fit.
    """

    table: TableName
    partitions: tuple[tuple[tuple[str, str], ...], ...]
    event_id: int
    if_exists: bool = False


TransferStatement = ExportTable | ImportTable | DropTableForReplication | DropPartitionsForReplication
