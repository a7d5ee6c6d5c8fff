"""Databases, tables and partitions with everything Hive's metastore knows of them, and their Thrift text.

Field numbers are those of Hive's ``hive_metastore.thrift``. Values are as the catalog's rows hold them, so what is
written here equals what a real Hive writes after reading the same rows.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from airflow_hive_acid.metastore.catalog.thrift.json import (
    dump,
    flag,
    i32,
    i64,
    list_map,
    string,
    string_lists,
    string_map,
    strings,
    struct,
    structs,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from airflow_hive_acid.metastore.catalog.thrift.json import Fields

CATALOG = "hive"
_PRINCIPALS = {"USER": 1, "ROLE": 2, "GROUP": 3}
_DATABASE_TYPES = {"NATIVE": 1, "REMOTE": 2}


@dataclass(frozen=True, slots=True)
class FieldSchema:
    """A column: name, type, comment."""

    name: str
    type: str
    comment: str | None = None


@dataclass(frozen=True, slots=True)
class Skew:
    """Skewed columns, their skewed values, and where those lie."""

    columns: tuple[str, ...] = ()
    values: tuple[tuple[str, ...], ...] = ()
    locations: Mapping[tuple[str, ...], str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Storage:
    """A StorageDescriptor with its SerDeInfo.

    :param serde: name and library of the serde.
    :param sort_columns: column and order, 1 ascending and 0 descending.
    """

    columns: tuple[FieldSchema, ...]
    location: str | None
    input_format: str | None
    output_format: str | None
    serde: tuple[str | None, str | None]
    serde_parameters: Mapping[str, str] = field(default_factory=dict)
    bucket_count: int = -1
    bucket_columns: tuple[str, ...] = ()
    sort_columns: tuple[tuple[str, int], ...] = ()
    parameters: Mapping[str, str] = field(default_factory=dict)
    skew: Skew = field(default_factory=Skew)
    compressed: bool = False
    subdirectories: bool = False


@dataclass(frozen=True, slots=True)
class DatabaseObject:
    """A row of DBS with its parameters."""

    name: str
    description: str | None
    location: str
    managed_location: str | None
    owner: str | None
    owner_type: str | None
    created: int | None
    parameters: Mapping[str, str] = field(default_factory=dict)
    type: str = "NATIVE"
    connector: str | None = None
    remote_name: str | None = None


@dataclass(frozen=True, slots=True)
class TableObject:
    """A row of TBLS with all that belongs to it.

    :param created: seconds since 1970.
    """

    db: str
    name: str
    id: int
    owner: str | None
    owner_type: str | None
    created: int
    last_access: int
    retention: int
    storage: Storage
    partition_columns: tuple[FieldSchema, ...]
    parameters: Mapping[str, str]
    type: str
    write_id: int = 0
    view_original: str | None = None
    view_expanded: str | None = None
    rewrite_enabled: bool = False


@dataclass(frozen=True, slots=True)
class PartitionObject:
    """A row of PARTITIONS with all that belongs to it; ``name`` is its PART_NAME."""

    db: str
    table: str
    name: str
    values: tuple[str, ...]
    created: int
    last_access: int
    storage: Storage
    parameters: Mapping[str, str]
    write_id: int = 0


def database_text(database: DatabaseObject) -> str:
    """A database as Thrift's JSON."""
    return dump({
        1: string(database.name), 2: string(database.description), 3: string(database.location),
        4: string_map(database.parameters), 6: string(database.owner),
        7: i32(_PRINCIPALS.get(database.owner_type or "")), 8: string(CATALOG), 9: i32(database.created),
        10: string(database.managed_location), 11: i32(_DATABASE_TYPES.get(database.type)),
        12: string(database.connector), 13: string(database.remote_name),
    })  # fmt: skip


def table_text(table: TableObject) -> str:
    """A table as Thrift's JSON."""
    return dump({
        1: string(table.name), 2: string(table.db), 3: string(table.owner), 4: i32(table.created),
        5: i32(table.last_access), 6: i32(table.retention), 7: struct(_storage(table.storage)),
        8: structs(_columns(table.partition_columns)), 9: string_map(table.parameters),
        10: string(table.view_original), 11: string(table.view_expanded), 12: string(table.type),
        15: flag(table.rewrite_enabled), 17: string(CATALOG), 18: i32(_PRINCIPALS.get(table.owner_type or "", 1)),
        19: i64(table.write_id), 25: i64(table.id),
    })  # fmt: skip


def partition_text(partition: PartitionObject) -> str:
    """A partition as Thrift's JSON."""
    return dump({
        1: strings(partition.values), 2: string(partition.db), 3: string(partition.table), 4: i32(partition.created),
        5: i32(partition.last_access), 6: struct(_storage(partition.storage)), 7: string_map(partition.parameters),
        9: string(CATALOG), 10: i64(partition.write_id),
    })  # fmt: skip


def _storage(storage: Storage) -> Fields:
    name, library = storage.serde
    serde = {1: string(name), 2: string(library), 3: string_map(storage.serde_parameters)}
    skew = {1: strings(storage.skew.columns), 2: string_lists(storage.skew.values), 3: list_map(storage.skew.locations)}
    return {
        1: structs(_columns(storage.columns)), 2: string(storage.location), 3: string(storage.input_format),
        4: string(storage.output_format), 5: flag(storage.compressed), 6: i32(storage.bucket_count),
        7: struct(serde), 8: strings(storage.bucket_columns),
        9: structs({1: string(column), 2: i32(order)} for column, order in storage.sort_columns),
        10: string_map(storage.parameters), 11: struct(skew), 12: flag(storage.subdirectories),
    }  # fmt: skip


def _columns(columns: Sequence[FieldSchema]) -> list[Fields]:
    return [{1: string(c.name), 2: string(c.type), 3: string(c.comment)} for c in columns]
