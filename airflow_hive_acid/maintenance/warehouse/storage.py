"""What a job must know of the way a table's files are stored, from the catalog."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from airflow_hive_acid.errors import UnsupportedStatementError
from airflow_hive_acid.format.bucketing import stored_version
from airflow_hive_acid.format.jobs import Bucketing

if TYPE_CHECKING:
    from airflow_hive_acid.metastore.catalog import Table

_WRITER_PROPERTIES = ("orc.", "parquet.", "skip.header.", "skip.footer.", "serialization.null.format", "acid.fetch.")


def require_format(table: Table) -> Literal["orc", "parquet", "text", "csv", "json", "avro"]:
    """The format of a table's files.

    :raises UnsupportedStatementError: when it is none of ours, or none a full ACID table can have.
    """
    match table.format:
        case "orc":
            return "orc"
        case ("parquet" | "text" | "csv" | "json" | "avro") as known if (
            not table.is_transactional or table.is_insert_only
        ):
            return known
    raise UnsupportedStatementError(
        f"{table.qualified_name} is stored as {table.input_format} with {table.serde}; supported are ORC and, for "
        "insert-only and plain tables, Parquet, text (LazySimpleSerDe), CSV (OpenCSVSerde), JSON and Avro. Keep the "
        "table to Hive, or copy it"
    )


def writer_properties(table: Table) -> dict[str, str]:
    """The table properties that matter to readers and writers of its files."""
    return {k: v for k, v in table.properties.items() if k.lower().startswith(_WRITER_PROPERTIES)}


def bucketing(table: Table) -> Bucketing | None:
    """How a table's rows are placed in buckets, as the catalog has it."""
    if not table.bucket_columns:
        return None
    full_acid = table.is_transactional and not table.is_insert_only
    sorting = () if full_acid else table.sort_columns
    return Bucketing(table.bucket_columns, table.bucket_count, stored_version(table.properties), sorting)
