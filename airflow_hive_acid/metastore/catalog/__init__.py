"""Databases, tables and partitions: their model, their rows, and the verbs that read and change them.

:mod:`.thrift` has their text, as dumps and messages hold it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_hive_acid.faces import lazily

if TYPE_CHECKING:
    from airflow_hive_acid.metastore.catalog.alteration_rows import without_column_statistics
    from airflow_hive_acid.metastore.catalog.catalog import Catalog
    from airflow_hive_acid.metastore.catalog.drop import check_droppable, delete_storage, forget_object
    from airflow_hive_acid.metastore.catalog.formats import KEYWORDS
    from airflow_hive_acid.metastore.catalog.model import (
        EXTERNAL_TABLE,
        MANAGED_TABLE,
        Database,
        DroppedTable,
        Partition,
        PartitionSpec,
        Table,
        TableDefinition,
        check_location,
    )
    from airflow_hive_acid.metastore.catalog.partition_alteration import PartitionAlteration
    from airflow_hive_acid.metastore.catalog.partition_conditions import And, Compare, Condition, In, Or
    from airflow_hive_acid.metastore.catalog.partitions import delete_partitions, find_partitions, named_by
    from airflow_hive_acid.metastore.catalog.places import lock_places, require_own_place
    from airflow_hive_acid.metastore.catalog.privileges import (
        Entries,
        Entry,
        Member,
        Owner,
        Principal,
        Privilege,
        Privileges,
        Role,
        Securable,
        Value,
        put_entry,
        read_privileges,
        remove_entry,
        securables,
    )
    from airflow_hive_acid.metastore.catalog.reader import no_such_table, read_owned, read_owner_of, require_database
    from airflow_hive_acid.metastore.catalog.rows import preview
    from airflow_hive_acid.metastore.catalog.thrift.objects import (
        DatabaseObject,
        PartitionObject,
        Storage,
        TableObject,
        partition_text,
        table_text,
    )
    from airflow_hive_acid.metastore.catalog.thrift.parser import parse_database, parse_partition, parse_table
    from airflow_hive_acid.metastore.catalog.thrift.write_events import Write
    from airflow_hive_acid.metastore.catalog.thrift.writer import (
        ObjectRows,
        PartitionWrite,
        StoredPartition,
        TableWrite,
        without_skew,
    )
    from airflow_hive_acid.metastore.catalog.types import check_partition_value, normalise_type
else:
    __getattr__ = lazily(
        __name__,
        {
            "And": "partition_conditions",
            "Catalog": "catalog",
            "Compare": "partition_conditions",
            "Condition": "partition_conditions",
            "Database": "model",
            "DatabaseObject": "thrift.objects",
            "DroppedTable": "model",
            "EXTERNAL_TABLE": "model",
            "Entries": "privileges",
            "Entry": "privileges",
            "In": "partition_conditions",
            "KEYWORDS": "formats",
            "MANAGED_TABLE": "model",
            "Member": "privileges",
            "ObjectRows": "thrift.writer",
            "Or": "partition_conditions",
            "Owner": "privileges",
            "Partition": "model",
            "PartitionAlteration": "partition_alteration",
            "PartitionObject": "thrift.objects",
            "PartitionSpec": "model",
            "PartitionWrite": "thrift.writer",
            "Principal": "privileges",
            "Privilege": "privileges",
            "Privileges": "privileges",
            "Role": "privileges",
            "Securable": "privileges",
            "Storage": "thrift.objects",
            "StoredPartition": "thrift.writer",
            "Table": "model",
            "TableDefinition": "model",
            "TableObject": "thrift.objects",
            "TableWrite": "thrift.writer",
            "Value": "privileges",
            "Write": "thrift.write_events",
            "check_droppable": "drop",
            "check_location": "model",
            "check_partition_value": "types",
            "delete_partitions": "partitions",
            "delete_storage": "drop",
            "find_partitions": "partitions",
            "forget_object": "drop",
            "lock_places": "places",
            "named_by": "partitions",
            "no_such_table": "reader",
            "normalise_type": "types",
            "parse_database": "thrift.parser",
            "parse_partition": "thrift.parser",
            "parse_table": "thrift.parser",
            "partition_text": "thrift.objects",
            "preview": "rows",
            "put_entry": "privileges",
            "read_owned": "reader",
            "read_owner_of": "reader",
            "read_privileges": "privileges",
            "remove_entry": "privileges",
            "require_database": "reader",
            "require_own_place": "places",
            "securables": "privileges",
            "table_text": "thrift.objects",
            "without_column_statistics": "alteration_rows",
            "without_skew": "thrift.writer",
        },
    )

__all__ = [
    "EXTERNAL_TABLE",
    "KEYWORDS",
    "MANAGED_TABLE",
    "And",
    "Catalog",
    "Compare",
    "Condition",
    "Database",
    "DatabaseObject",
    "DroppedTable",
    "Entries",
    "Entry",
    "In",
    "Member",
    "ObjectRows",
    "Or",
    "Owner",
    "Partition",
    "PartitionAlteration",
    "PartitionObject",
    "PartitionSpec",
    "PartitionWrite",
    "Principal",
    "Privilege",
    "Privileges",
    "Role",
    "Securable",
    "Storage",
    "StoredPartition",
    "Table",
    "TableDefinition",
    "TableObject",
    "TableWrite",
    "Value",
    "Write",
    "check_droppable",
    "check_location",
    "check_partition_value",
    "delete_partitions",
    "delete_storage",
    "find_partitions",
    "forget_object",
    "lock_places",
    "named_by",
    "no_such_table",
    "normalise_type",
    "parse_database",
    "parse_partition",
    "parse_table",
    "partition_text",
    "preview",
    "put_entry",
    "read_owned",
    "read_owner_of",
    "read_privileges",
    "remove_entry",
    "require_database",
    "require_own_place",
    "securables",
    "table_text",
    "without_column_statistics",
    "without_skew",
]
