"""ALTER TABLE through the catalog: each clause of Hive's is a verb there; directories are made and removed here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_hive_acid.engine.definitions.compactions import request_compaction
from airflow_hive_acid.engine.definitions.ddl import require_empty, require_known_columns, warehouse_files
from airflow_hive_acid.engine.definitions.repair import repair
from airflow_hive_acid.engine.tables.read_only import require_writable
from airflow_hive_acid.errors import InvalidArgumentsError, NoSuchObjectError
from airflow_hive_acid.format.jobs import Column
from airflow_hive_acid.format.partitions import DEFAULT_PARTITION
from airflow_hive_acid.maintenance.warehouse.places import Places
from airflow_hive_acid.metastore.catalog import And, Compare, PartitionAlteration, named_by
from airflow_hive_acid.metastore.names import ValueTest, is_text_type
from airflow_hive_acid.sql.model import alterations as alter

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow_hive_acid.engine.context import Context
    from airflow_hive_acid.engine.outcomes.results import Rows
    from airflow_hive_acid.metastore.catalog import Partition, Table

_TEXTS = ("string", "varchar")
"""Types whose values the database compares as they are."""
_LONGEST_VALUE, _MOST_TERMS = 256, 200
"""Of what the database is asked for."""

_CHANGES_WHAT_PINS_READ = (
    alter.RenameTable, alter.RenamePartition, alter.DropPartitions, alter.AlterColumns, alter.ChangeColumn,
    alter.AlterSerde, alter.AlterFileFormat, alter.AlterLocation, alter.AddConstraint, alter.DropConstraint,
)  # fmt: skip


def run_alter(context: Context, statement: alter.AlterStatement) -> Rows | None:
    """Run one ALTER TABLE.

    :return: of a compaction that was asked for, what became of that; of a repair, the partitions that it added.
    :raises ReadOnlyReplicaError: when a replication writes the database.
    :raises TablePinnedError: when it would change what a pin reads, or how; Hive's would wait for the pin's lock.
    """
    if not isinstance(statement, alter.Compact):
        renamed = [str(statement.new)] if isinstance(statement, alter.RenameTable) else []
        require_writable(context.client, [str(statement.table), *renamed])
    if isinstance(statement, _CHANGES_WHAT_PINS_READ):
        context.client.pins.require_unpinned([str(statement.table)], "this change")
    if isinstance(statement, alter.Compact):
        return request_compaction(context, statement)
    table = context.table(str(statement.table))
    match statement:
        case alter.Concatenate():
            return _concatenate(context, statement, table)
        case alter.RepairTable():
            return repair(context, table)
        case alter.AddPartitions():
            _add_partitions(context, statement, table)
        case alter.DropPartitions():
            _drop_partitions(context, statement, table)
        case alter.AlterColumns() | alter.ChangeColumn():
            _alter_columns(context, statement, table)
        case alter.AlterSerde() | alter.AlterFileFormat():
            _alter_storage(context, statement)
        case _:
            _alter_names_and_properties(context, statement, table)
    return None


def _alter_names_and_properties(context: Context, statement: alter.AlterStatement, table: Table) -> None:
    catalog, name, agent = context.client.catalog, str(statement.table), context.agent_info
    files = warehouse_files(context)
    match statement:
        case alter.RenameTable(new=new):
            home = catalog.get_database(new.database).managed_location
            Places(context.client, context.filesystem).before_create(new.database, home)  # R17
            catalog.rename_table(name, str(new), files=files, agent_info=agent)
        case alter.RenamePartition(partition=old, new=new_values):
            catalog.rename_partition(name, dict(old), dict(new_values), files=files, agent_info=agent)
        case alter.AlterOwner():
            catalog.alter_owner(name, statement.owner, statement.owner_type, agent_info=agent)
        case alter.AddConstraint():
            require_known_columns(table.columns, [statement.constraint])
            catalog.add_constraint(name, statement.constraint, agent_info=agent)
        case alter.DropConstraint():
            catalog.drop_constraint(name, statement.name, agent_info=agent)
        case alter.AlterProperties(partition=()):
            catalog.alter_properties(
                name, statement.properties, unset=statement.unset, if_exists=statement.if_exists, files=files,
                agent_info=agent,
            )  # fmt: skip
        case alter.AlterProperties():
            asked = PartitionAlteration(statement.properties, statement.unset, statement.if_exists)
            catalog.alter_partition(name, dict(statement.partition), asked, agent_info=agent)
        case alter.AlterLocation():
            asked = PartitionAlteration(location=statement.location)
            catalog.alter_partition(name, dict(statement.partition), asked, files=files, agent_info=agent)
        case alter.Touch():
            catalog.touch(name, dict(statement.partition) or None, agent_info=agent)
        case _:
            raise AssertionError(f"{type(statement).__name__} is altered elsewhere")


def _alter_columns(context: Context, statement: alter.AlterColumns | alter.ChangeColumn, table: Table) -> None:
    catalog, name, agent = context.client.catalog, str(statement.table), context.agent_info
    if isinstance(statement, alter.ChangeColumn):
        kept = {column.name: column.type for column in table.columns}
        kind = statement.new.type or kept.get(statement.column, "string")  # one that is not there is refused below
        added = statement.new.constraints
        require_known_columns([*table.columns, Column(statement.new.name, kind)], added)
        catalog.change_column(
            name, statement.column, Column(statement.new.name, kind), statement.new.comment,
            cascade=statement.cascade, agent_info=agent, added=added,
        )  # fmt: skip
        return
    columns = [Column(column.name, column.type) for column in statement.columns]
    comments = {column.name: column.comment for column in statement.columns if column.comment}
    if statement.partition:
        asked = PartitionAlteration(columns=columns, adds=not statement.replace, comments=comments)
        catalog.alter_partition(name, dict(statement.partition), asked, agent_info=agent)
    elif statement.replace:
        catalog.replace_columns(name, columns, comments, cascade=statement.cascade, agent_info=agent)
    else:
        catalog.add_columns(name, columns, comments, cascade=statement.cascade, agent_info=agent)


def _alter_storage(context: Context, statement: alter.AlterSerde | alter.AlterFileFormat) -> None:
    catalog, name, agent = context.client.catalog, str(statement.table), context.agent_info
    if statement.partition:
        if isinstance(statement, alter.AlterFileFormat):
            asked = PartitionAlteration(stored_as=statement.stored_as)
        else:
            asked = PartitionAlteration(serde_properties=statement.properties, serde=statement.serde)
        catalog.alter_partition(name, dict(statement.partition), asked, agent_info=agent)
        return
    if isinstance(statement, alter.AlterFileFormat):
        catalog.alter_storage(name, stored_as=statement.stored_as, agent_info=agent)
    else:
        catalog.alter_storage(name, serde_properties=statement.properties, serde=statement.serde, agent_info=agent)


def _concatenate(context: Context, statement: alter.Concatenate, table: Table) -> Rows:
    """Of a transactional table, as Hive does it; any other is written anew (``concatenate``)."""
    if table.is_partitioned and not statement.partition:
        raise InvalidArgumentsError(f"{table.qualified_name} is partitioned; name the partition to concatenate")
    wanted = alter.Compact(statement.table, "major", statement.partition, True, **statement.origin)
    return request_compaction(context, wanted)


def _add_partitions(context: Context, statement: alter.AddPartitions, table: Table) -> None:
    specs = [dict(given) for given in statement.partitions]
    places = zip(specs, statement.locations, strict=False)
    locations = {table.partition_name(spec): location for spec, location in places if location is not None}
    for name, location in locations.items() if table.is_transactional else ():
        # LOAD DATA by another name: what lies there has no row ids, or those of another table.
        require_empty(context, f"partition {name} of the transactional table {table.qualified_name}", location)
    context.client.catalog.add_locked_partitions(
        table.qualified_name, specs, locations=locations, if_not_exists=statement.if_not_exists,
        files=warehouse_files(context), agent_info=context.agent_info,
    )  # fmt: skip


def _drop_partitions(context: Context, statement: alter.DropPartitions, table: Table) -> None:
    catalog = context.client.catalog
    chosen = _chosen(context, table, statement)
    if not chosen:
        return
    names = [partition.name for partition in chosen]
    files = warehouse_files(context)
    if table.is_transactional:
        catalog.drop_partitions(
            table.qualified_name, names, files=files, if_exists=True, purge=statement.purge,
            agent_info=context.agent_info,
        )  # fmt: skip
        return
    catalog.drop_plain_partitions(
        table.qualified_name, names, files=files, purge=statement.purge, agent_info=context.agent_info
    )


def _chosen(context: Context, table: Table, statement: alter.DropPartitions) -> list[Partition]:
    """The partitions that the clauses name; nothing is dropped when one clause names none (unless IF EXISTS)."""
    found: dict[str, Partition] = {}
    for clause in statement.partitions:
        matching = _matching(context, table, clause)
        if not matching and not statement.if_exists:
            said = ", ".join(f"{column}{operator}{value!r}" for column, operator, value in clause)
            raise NoSuchObjectError(f"{table.qualified_name} has no partition ({said}); nothing was dropped")
        found |= {partition.name: partition for partition in matching}
    return list(found.values())


def _matching(context: Context, table: Table, clause: tuple[tuple[str, str, str], ...]) -> list[Partition]:
    catalog, name = context.client.catalog, table.qualified_name
    kinds = {column.name: column.type for column in table.partition_columns}
    for column, _, _ in clause:
        if column not in kinds:
            raise InvalidArgumentsError(f"{name} has no partition column {column}; it has {', '.join(kinds) or 'none'}")
    exact = {column: value for column, sign, value in clause if sign == "="}
    if len(exact) == len(clause) == len(kinds):
        found = catalog.find_partitions(name, [named_by(context.client.database, table, exact)])
        if found or all(map(is_text_type, kinds.values())):
            return list(found.values())
        # One that is written otherwise has the value, too: k=1.50, or hour=01, as a Hive compares them.
    columns = tuple(kinds)
    tests = [
        (columns.index(column), ValueTest.of(f"{column} of {name}", kinds[column], sign, value))
        for column, sign, value in clause
    ]

    def may_be_meant(values: Sequence[str]) -> bool:
        return all(test.holds(values[at]) is not False for at, test in tests)

    # What is surely not meant is neither sent by the database, where that can tell, nor held.
    sure = [
        Compare(column, sign, value)
        for column, sign, value in clause
        if kinds[column].startswith(_TEXTS) and 0 < len(value) <= _LONGEST_VALUE and "\0" not in value
        if value != DEFAULT_PARTITION
    ]
    candidates = catalog.list_partitions(name, And(sure[:_MOST_TERMS]) if sure else None, keeps=may_be_meant)
    for partition in candidates:
        if not all(test.holds(partition.values[at]) for at, test in tests):
            raise InvalidArgumentsError(
                f"whether partition {partition.name} of {name} is meant cannot be told, because it has no value of "
                "its column's type; nothing was dropped. Name the partitions to drop by ="
            )
    return candidates
