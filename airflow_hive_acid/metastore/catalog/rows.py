"""The rows a real Hive 4.1 writes for a new table or partition, column for column.

Checked against dumps of metastores that Hive itself filled (``tests/fixtures``). Statistics are written only where
they are exact: an empty table has no rows. The first write to it must call ``forget_statistics``, or Hive goes on
answering ``count(*)`` from them.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from sqlalchemy import insert
from sqlalchemy.exc import IntegrityError

from airflow_hive_acid.errors import AlreadyExistsError
from airflow_hive_acid.format.table_kinds import is_transactional
from airflow_hive_acid.metastore.catalog.descriptors import described, insert_columns, insert_many
from airflow_hive_acid.metastore.catalog.formats import FORMATS, ORC
from airflow_hive_acid.metastore.catalog.model import EXTERNAL_TABLE, MANAGED_TABLE, Table
from airflow_hive_acid.metastore.database.clock import now_ms
from airflow_hive_acid.metastore.schema.hive_catalog import (
    BUCKETING_COLS,
    CATALOG,
    DBS,
    PARTITION_KEY_VALS,
    PARTITION_KEYS,
    PARTITION_PARAMS,
    PARTITIONS,
    SDS,
    SERDE_PARAMS,
    SERDES,
    SORT_COLS,
    TABLE_PARAMS,
    TBLS,
)
from airflow_hive_acid.metastore.txns.statistics import STATISTICS_ACCURATE

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from sqlalchemy import Connection

    from airflow_hive_acid.format.jobs import Column
    from airflow_hive_acid.metastore.catalog.model import Partition, TableDefinition

ORC_INPUT = ORC.input_format


def table_parameters(definition: TableDefinition, created: int) -> dict[str, str]:
    """TABLE_PARAMS of a new table.

    :param created: seconds since 1970.
    """
    parameters = dict(definition.properties)
    if table_type(definition) == EXTERNAL_TABLE:
        parameters.pop("transactional", None)
        parameters["EXTERNAL"] = "TRUE"
        if not definition.external:
            # Hive's translation of a managed table that is not transactional: its files still go with it.
            parameters |= {"TRANSLATED_TO_EXTERNAL": "TRUE", "external.table.purge": "TRUE"}
    parameters.setdefault("bucketing_version", "2")
    parameters["transient_lastDdlTime"] = str(created)
    if not definition.partition_columns:
        parameters |= empty_statistics(definition.columns)
    return parameters


def table_type(definition: TableDefinition) -> str:
    """MANAGED_TABLE for a transactional table, EXTERNAL_TABLE for any other."""
    return MANAGED_TABLE if is_transactional(definition.properties) else EXTERNAL_TABLE


def empty_statistics(columns: Iterable[Column]) -> dict[str, str]:
    """What Hive notes about a table or partition that it knows to be empty."""
    exact = {"BASIC_STATS": "true", "COLUMN_STATS": dict.fromkeys(sorted(c.name for c in columns), "true")}
    return {
        "numFiles": "0",
        "numRows": "0",
        "totalSize": "0",
        "rawDataSize": "0",
        "numFilesErasureCoded": "0",
        STATISTICS_ACCURATE: json.dumps(exact, separators=(",", ":")),
    }


def insert_database(
    connection: Connection,
    database_id: int,
    name: str,
    locations: tuple[str, str | None],
    owner: tuple[str, str],
    description: str | None,
) -> None:
    """The row of a new database.

    :param locations: those of its external and of its managed tables.
    :param owner: a name and its type.
    :raises AlreadyExistsError: when somebody else was faster.
    """
    row = {
        "DB_ID": database_id, "DESC": description, "DB_LOCATION_URI": locations[0], "NAME": name,
        "OWNER_NAME": owner[0], "OWNER_TYPE": owner[1], "CTLG_NAME": CATALOG,
        "CREATE_TIME": now_ms(connection) // 1000, "DB_MANAGED_LOCATION_URI": locations[1], "TYPE": "NATIVE",
        "DATACONNECTOR_NAME": None, "REMOTE_DBNAME": None,
    }  # fmt: skip
    try:
        with connection.begin_nested():
            connection.execute(insert(DBS), row)
    except IntegrityError:
        raise AlreadyExistsError(f"database {name} was created by somebody else just now") from None


def preview(definition: TableDefinition) -> Table:
    """A table as it will be read when it is created; its id is 0.

    :param definition: a checked one, with its location.
    """
    stored = FORMATS[definition.stored_as]
    return Table(
        definition.db, definition.name, 0, definition.location or "", tuple(definition.columns),
        tuple(definition.partition_columns), table_parameters(definition, 0), definition.owner, table_type(definition),
        bucket_columns=tuple(definition.bucket_columns), bucket_count=definition.bucket_count,
        sort_columns=tuple(definition.sort_columns), input_format=stored.input_format,
        comments=dict(definition.comments), serde=stored.serde, serde_properties={"serialization.format": "1"},
    )  # fmt: skip


def insert_table(
    connection: Connection, definition: TableDefinition, ids: Mapping[str, int], location: str, created: int
) -> None:
    """All rows of a new table.

    :param ids: ``db``, ``table``, ``storage``, ``columns`` and ``serde``.
    """
    parameters = table_parameters(definition, created)
    insert_columns(connection, {ids["columns"]: described(definition.columns, definition.comments)})
    stored = FORMATS[definition.stored_as]
    _insert_storage(
        connection, [(ids["storage"], ids["serde"], location)], ids["columns"], definition.bucket_count,
        stored.input_format, stored.output_format, stored.serde,
    )  # fmt: skip
    connection.execute(
        insert(SERDE_PARAMS),
        {"SERDE_ID": ids["serde"], "PARAM_KEY": "serialization.format", "PARAM_VALUE": "1"},
    )
    insert_many(connection, BUCKETING_COLS, [
        {"SD_ID": ids["storage"], "BUCKET_COL_NAME": name, "INTEGER_IDX": index}
        for index, name in enumerate(definition.bucket_columns)
    ])  # fmt: skip
    _insert_sorting(connection, [ids["storage"]], definition.sort_columns)
    connection.execute(insert(TBLS), {
        "TBL_ID": ids["table"], "CREATE_TIME": created, "DB_ID": ids["db"], "LAST_ACCESS_TIME": 0,
        "OWNER": definition.owner, "OWNER_TYPE": "USER", "RETENTION": 0, "SD_ID": ids["storage"],
        "TBL_NAME": definition.name, "TBL_TYPE": table_type(definition), "VIEW_EXPANDED_TEXT": None,
        "VIEW_ORIGINAL_TEXT": None, "IS_REWRITE_ENABLED": False, "WRITE_ID": 0,
    })  # fmt: skip
    insert_many(connection, TABLE_PARAMS, [
        {"TBL_ID": ids["table"], "PARAM_KEY": key, "PARAM_VALUE": value} for key, value in parameters.items()
    ])  # fmt: skip
    insert_many(connection, PARTITION_KEYS, [
        {"TBL_ID": ids["table"], "PKEY_COMMENT": definition.comments.get(column.name), "PKEY_NAME": column.name,
         "PKEY_TYPE": column.type, "INTEGER_IDX": index}
        for index, column in enumerate(definition.partition_columns)
    ])  # fmt: skip


def insert_partitions(
    connection: Connection,
    partitions: Sequence[Partition],
    storage_ids: Sequence[int],
    serde_ids: Sequence[int],
    table_storage: Mapping[str, Any],
    parameters: Mapping[str, str],
) -> None:
    """All rows of new partitions; they share the column descriptor of their table.

    :param table_storage: ``TBL_ID``, ``CD_ID``, ``NUM_BUCKETS``, ``INPUT_FORMAT``, ``OUTPUT_FORMAT``, ``SLIB``,
        ``BUCKETS`` (columns), ``SORTS`` (columns, and whether ascending) of the table.
    :param parameters: PARTITION_PARAMS of each of them, ``transient_lastDdlTime`` included.
    """
    places = [(s, e, p.location) for s, e, p in zip(storage_ids, serde_ids, partitions, strict=True)]
    _insert_storage(
        connection, places, table_storage["CD_ID"], table_storage["NUM_BUCKETS"], table_storage["INPUT_FORMAT"],
        table_storage["OUTPUT_FORMAT"], table_storage["SLIB"],
    )  # fmt: skip
    insert_many(connection, BUCKETING_COLS, [
        {"SD_ID": storage_id, "BUCKET_COL_NAME": name, "INTEGER_IDX": index}
        for storage_id in storage_ids
        for index, name in enumerate(table_storage["BUCKETS"])
    ])  # fmt: skip
    _insert_sorting(connection, storage_ids, table_storage["SORTS"])
    created = int(parameters["transient_lastDdlTime"])
    insert_many(connection, PARTITIONS, [
        {"PART_ID": p.id, "CREATE_TIME": created, "LAST_ACCESS_TIME": 0, "PART_NAME": p.name, "SD_ID": storage_id,
         "TBL_ID": table_storage["TBL_ID"], "WRITE_ID": p.write_id}
        for p, storage_id in zip(partitions, storage_ids, strict=True)
    ])  # fmt: skip
    insert_many(connection, PARTITION_KEY_VALS, [
        {"PART_ID": p.id, "PART_KEY_VAL": value, "INTEGER_IDX": index}
        for p in partitions
        for index, value in enumerate(p.values)
    ])  # fmt: skip
    insert_many(connection, PARTITION_PARAMS, [
        {"PART_ID": p.id, "PARAM_KEY": key, "PARAM_VALUE": value}
        for p in partitions
        for key, value in parameters.items()
    ])  # fmt: skip


def _insert_sorting(connection: Connection, storage_ids: Sequence[int], order: Sequence[tuple[str, bool]]) -> None:
    insert_many(connection, SORT_COLS, [
        {"SD_ID": storage_id, "COLUMN_NAME": name, "ORDER": int(ascending), "INTEGER_IDX": index}
        for storage_id in storage_ids
        for index, (name, ascending) in enumerate(order)
    ])  # fmt: skip


def _insert_storage(
    connection: Connection,
    places: Sequence[tuple[int, int, str]],
    columns_id: int,
    bucket_count: int,
    input_format: str,
    output_format: str,
    serde: str,
) -> None:
    """SERDES and SDS of ``(storage id, serde id, location)``."""
    insert_many(connection, SERDES, [
        {"SERDE_ID": serde_id, "NAME": None, "SLIB": serde, "DESCRIPTION": None, "SERIALIZER_CLASS": None,
         "DESERIALIZER_CLASS": None, "SERDE_TYPE": 0}
        for _, serde_id, _ in places
    ])  # fmt: skip
    insert_many(connection, SDS, [
        {"SD_ID": storage_id, "INPUT_FORMAT": input_format, "IS_COMPRESSED": False, "LOCATION": location,
         "NUM_BUCKETS": bucket_count, "OUTPUT_FORMAT": output_format, "SERDE_ID": serde_id, "CD_ID": columns_id,
         "IS_STOREDASSUBDIRECTORIES": False}
        for storage_id, serde_id, location in places
    ])  # fmt: skip
