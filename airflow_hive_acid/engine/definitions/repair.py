"""MSCK REPAIR TABLE and RECOVER PARTITIONS: directories of partitions that the catalog does not know yet.

Only for tables without transactions: a transactional one registers its partitions with the txns that write them, and
files from elsewhere have no row ids. Nothing is dropped: a directory that is not there may be on a disk that is not
mounted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_hive_acid.engine.definitions.ddl import warehouse_files
from airflow_hive_acid.engine.outcomes.results import Rows
from airflow_hive_acid.errors import InvalidArgumentsError, UnsupportedStatementError
from airflow_hive_acid.format.jobs import Column
from airflow_hive_acid.format.names import is_hidden
from airflow_hive_acid.format.partitions import DEFAULT_PARTITION, unescape_path_name
from airflow_hive_acid.maintenance.warehouse.places import Places

if TYPE_CHECKING:
    from airflow_hive_acid.engine.context import Context
    from airflow_hive_acid.metastore.catalog import Table


def repair(context: Context, table: Table) -> Rows:
    """Add the partitions whose directories are there.

    :return: their names.
    :raises UnsupportedStatementError: for a transactional table.
    :raises InvalidArgumentsError: for a table without partitions, and a directory that names no value of its column.
    """
    name = table.qualified_name
    if table.is_transactional:
        raise UnsupportedStatementError(
            f"{name} is transactional: its partitions are registered by the transactions that write them, and files "
            "from elsewhere have no row ids. INSERT INTO … SELECT from a view of the files"
        )
    if not table.is_partitioned:
        raise InvalidArgumentsError(f"{name} is not partitioned; there is nothing to repair")
    if table.owns_files:
        Places(context.client, context.filesystem).require_table(table)  # R17
    found = _found(context, table)
    known = set(context.client.catalog.find_partitions(name, list(found)))
    missing = {part: place for part, place in found.items() if part not in known}
    added = context.client.catalog.add_locked_partitions(
        name, list(missing), locations=missing, if_not_exists=True,
        files=warehouse_files(context), agent_info=context.agent_info,
    ) if missing else []  # fmt: skip
    return Rows((Column("partition", "string"),), [[part] for part in sorted(p.name for p in added)])


def _found(context: Context, table: Table) -> dict[str, str]:
    """Directory by partition name, as far as directories are called after the table's partition columns."""
    level: list[tuple[str, tuple[str, ...]]] = [(table.location, ())]
    for column in table.partition_columns:
        below: list[tuple[str, tuple[str, ...]]] = []
        for place, values in level:
            try:
                entries = context.filesystem.list_files(place)
            except FileNotFoundError:
                entries = []
            for entry in entries:
                key, equals, text = entry.name.partition("=")
                if entry.is_dir and equals and not is_hidden(entry.name) and key.lower() == column.name:
                    below.append((entry.path, (*values, unescape_path_name(text) or DEFAULT_PARTITION)))
        level = below
    found: dict[str, str] = {}
    for place, values in level:
        try:
            part = table.partition_name(values)
        except InvalidArgumentsError as problem:
            raise InvalidArgumentsError(
                f"{place}: {problem}; give the directory that name. Nothing was added"
            ) from None
        if part in found:
            raise InvalidArgumentsError(
                f"{found[part]} and {place} are both called after partition {part} of {table.qualified_name}; move one "
                "of them away"
            )
        found[part] = place
    return found
