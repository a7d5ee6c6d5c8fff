"""What tables, partitions and other objects are called: checked, compared and resolved under every spelling.

Imports ``metastore.schema`` and ``format``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_hive_acid.faces import lazily

if TYPE_CHECKING:
    from airflow_hive_acid.metastore.names.objects import (
        MAX_DATABASE,
        MAX_TABLE,
        TableName,
        canonical_partition,
        database_name,
        info,
        is_table_name,
        shorten,
        table_name,
    )
    from airflow_hive_acid.metastore.names.partition_spellings import Spellings
    from airflow_hive_acid.metastore.names.partition_values import (
        as_stored,
        has_many_texts,
        has_several_texts,
        insertable_value,
        is_char,
        is_text_type,
        may_be_several,
        normal_value,
        stored_char,
    )
    from airflow_hive_acid.metastore.names.partitions import known_reading, resolve
    from airflow_hive_acid.metastore.names.value_tests import ValueTest
else:
    __getattr__ = lazily(
        __name__,
        {
            "MAX_DATABASE": "objects",
            "MAX_TABLE": "objects",
            "TableName": "objects",
            "as_stored": "partition_values",
            "canonical_partition": "objects",
            "database_name": "objects",
            "info": "objects",
            "is_table_name": "objects",
            "known_reading": "partitions",
            "Spellings": "partition_spellings",
            "ValueTest": "value_tests",
            "has_many_texts": "partition_values",
            "has_several_texts": "partition_values",
            "insertable_value": "partition_values",
            "is_char": "partition_values",
            "is_text_type": "partition_values",
            "may_be_several": "partition_values",
            "normal_value": "partition_values",
            "stored_char": "partition_values",
            "resolve": "partitions",
            "shorten": "objects",
            "table_name": "objects",
        },
    )

__all__ = [
    "MAX_DATABASE",
    "MAX_TABLE",
    "Spellings",
    "TableName",
    "ValueTest",
    "as_stored",
    "canonical_partition",
    "database_name",
    "has_many_texts",
    "has_several_texts",
    "info",
    "insertable_value",
    "is_char",
    "is_table_name",
    "is_text_type",
    "known_reading",
    "may_be_several",
    "normal_value",
    "resolve",
    "shorten",
    "stored_char",
    "table_name",
]
