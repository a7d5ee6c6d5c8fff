"""Databases, tables and partitions as Thrift's JSON text.

Field numbers are those of Hive's ``hive_metastore.thrift``. Values are as the catalog's rows hold them, so what is
written here equals what a real Hive writes after reading the same rows.
"""

from __future__ import annotations

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
from airflow_hive_acid.metastore.schema.hive_catalog import CATALOG

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow_hive_acid.metastore.catalog.thrift.json import Fields
    from airflow_hive_acid.metastore.catalog.values.model import Database, FieldSchema, Storage, Table, WholePartition

_PRINCIPALS = {"USER": 1, "ROLE": 2, "GROUP": 3}
_DATABASE_TYPES = {"NATIVE": 1, "REMOTE": 2}


def database_text(database: Database) -> str:
    """A database as Thrift's JSON."""
    return dump({
        1: string(database.name), 2: string(database.description), 3: string(database.location),
        4: string_map(database.properties), 6: string(database.owner),
        7: i32(_PRINCIPALS.get(database.owner_type or "")), 8: string(CATALOG), 9: i32(database.created),
        10: string(database.own_managed_location), 11: i32(_DATABASE_TYPES.get(database.type)),
        12: string(database.connector), 13: string(database.remote_name),
    })  # fmt: skip


def table_text(table: Table) -> str:
    """A table as Thrift's JSON."""
    return dump({
        1: string(table.name), 2: string(table.db), 3: string(table.owner), 4: i32(table.created),
        5: i32(table.last_access), 6: i32(table.retention), 7: struct(_storage(table.storage)),
        8: structs(_columns(table.partition_keys)), 9: string_map(table.properties),
        10: string(table.view_original), 11: string(table.view_expanded), 12: string(table.type),
        15: flag(table.rewrite_enabled), 17: string(CATALOG), 18: i32(_PRINCIPALS.get(table.owner_type or "", 1)),
        19: i64(table.write_id), 25: i64(table.id),
    })  # fmt: skip


def partition_text(partition: WholePartition) -> str:
    """A partition as Thrift's JSON."""
    return dump({
        1: strings(partition.values), 2: string(partition.db), 3: string(partition.table), 4: i32(partition.created),
        5: i32(partition.last_access), 6: struct(_storage(partition.storage)), 7: string_map(partition.properties),
        9: string(CATALOG), 10: i64(partition.write_id),
    })  # fmt: skip


def _storage(storage: Storage) -> Fields:
    name, library = storage.serde
    serde = {1: string(name), 2: string(library), 3: string_map(storage.serde_properties)}
    skew = {1: strings(storage.skew.columns), 2: string_lists(storage.skew.values), 3: list_map(storage.skew.locations)}
    return {
        1: structs(_columns(storage.columns)), 2: string(storage.location), 3: string(storage.input_format),
        4: string(storage.output_format), 5: flag(storage.compressed), 6: i32(storage.bucket_count),
        7: struct(serde), 8: strings(storage.bucket_columns),
        9: structs({1: string(column), 2: i32(order)} for column, order in storage.sort_columns),
        10: string_map(storage.properties), 11: struct(skew), 12: flag(storage.subdirectories),
    }  # fmt: skip


def _columns(columns: Sequence[FieldSchema]) -> list[Fields]:
    return [{1: string(c.name), 2: string(c.type), 3: string(c.comment)} for c in columns]
