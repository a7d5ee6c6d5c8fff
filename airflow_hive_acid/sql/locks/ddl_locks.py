"""Who locks what in DDL: Hive 4's table of commands (decision 15), and our statements seen through it.

The table has every command of Hive, those that are not run here included: what a Hive beside us holds is answered by
the same rules.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from airflow_hive_acid.format.partitions import partition_name
from airflow_hive_acid.format.table_kinds import is_transactional
from airflow_hive_acid.metastore.database import Operation
from airflow_hive_acid.metastore.locks import LockComponent
from airflow_hive_acid.metastore.names import as_stored, may_be_several
from airflow_hive_acid.sql.locks.rules import (
    DEFAULT_LOCKS,
    LockSettings,
    PlannedLock,
    WriteType,
    advisory_locks,
    lockable,
    merged,
    write_rule,
)
from airflow_hive_acid.sql.model import alterations as alter
from airflow_hive_acid.sql.model.plans import is_external
from airflow_hive_acid.sql.model.statements import (
    AlterDatabase,
    CreateDatabase,
    CreateTable,
    DropDatabase,
    DropTable,
    Truncate,
)
from airflow_hive_acid.sql.model.statistics import Analyze

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from airflow_hive_acid.sql.model.origins import TableName
    from airflow_hive_acid.sql.model.plans import TableFacts, TableLookup

DdlStatement = (
    CreateDatabase | AlterDatabase | DropDatabase | CreateTable | DropTable | Truncate | Analyze | alter.AlterStatement
)
_E, _EW, _SR, _NONE = (
    WriteType.DDL_EXCLUSIVE,
    WriteType.DDL_EXCL_WRITE,
    WriteType.DDL_SHARED,
    WriteType.DDL_NO_LOCK,
)


class Command(Enum):
    """A DDL command of Hive."""

    CREATE_DATABASE = "CREATE DATABASE"
    CREATE_TABLE = "CREATE TABLE"
    CREATE_VIEW = "CREATE VIEW"
    DROP_TABLE = "DROP TABLE"
    DROP_DATABASE = "DROP DATABASE"
    DROP_VIEW = "DROP VIEW"
    DROP_MATERIALIZED_VIEW = "DROP MATERIALIZED VIEW"
    TRUNCATE = "TRUNCATE"
    ADD_PARTITION = "ADD PARTITION"
    ADD_PARTITION_IF_NOT_EXISTS = "ADD IF NOT EXISTS PARTITION"
    DROP_PARTITION = "DROP PARTITION"
    RENAME_PARTITION = "RENAME PARTITION"
    EXCHANGE_PARTITION = "EXCHANGE PARTITION"
    RENAME = "RENAME TABLE"
    ADD_COLUMNS = "ADD COLUMNS"
    REPLACE_COLUMNS = "REPLACE COLUMNS"
    CHANGE_COLUMN = "CHANGE COLUMN"
    CONSTRAINT = "ADD|DROP CONSTRAINT"
    SET_OWNER = "SET OWNER"
    SET_FILEFORMAT = "SET FILEFORMAT"
    SET_SERDE = "SET SERDE"
    BUCKETING = "CLUSTERED BY"
    UNSET_PROPERTIES = "UNSET TBLPROPERTIES"
    CONVERT = "conversion to a transactional table"
    SET_PROPERTIES = "SET TBLPROPERTIES"
    SET_SERDE_PROPERTIES = "SET SERDEPROPERTIES"
    UPDATE_STATISTICS = "UPDATE STATISTICS"
    COMPACT = "COMPACT"
    TOUCH = "TOUCH"
    CONCATENATE = "CONCATENATE"
    SET_LOCATION = "SET LOCATION"
    SKEWED = "SKEWED"
    INTO_BUCKETS = "INTO BUCKETS"
    MSCK_ADD = "MSCK … ADD PARTITIONS"
    MSCK_DROP = "MSCK … SYNC|DROP PARTITIONS"
    LOAD = "LOAD DATA"
    LOAD_OVERWRITE = "LOAD DATA … OVERWRITE"
    ARCHIVE = "ARCHIVE PARTITION"
    ANALYZE = "ANALYZE TABLE"


Part = tuple[str, WriteType]
"""What is written (``database``, ``table``, ``partition``, ``source``), and how."""

_SIMPLE: dict[Command, tuple[Part, ...]] = {
    Command.CREATE_DATABASE: (),
    Command.CREATE_TABLE: (("database", _SR),),
    Command.CREATE_VIEW: (("database", _SR),),
    Command.DROP_VIEW: (),
    Command.ADD_PARTITION: (("table", _SR),),
    Command.ADD_PARTITION_IF_NOT_EXISTS: (("table", _EW),),
    Command.EXCHANGE_PARTITION: (("table", _SR), ("source", _E)),
    Command.SET_PROPERTIES: (("table", _SR),),
    Command.SET_SERDE_PROPERTIES: (("table", _SR),),
    Command.UPDATE_STATISTICS: (("table", _SR),),
    Command.COMPACT: (),
    Command.TOUCH: (),
    Command.CONCATENATE: (("table", _E),),
    Command.SET_LOCATION: (("table", _E),),
    Command.SKEWED: (("table", _E),),
    Command.INTO_BUCKETS: (("table", _E),),
    Command.MSCK_ADD: (("table", _SR),),
    Command.LOAD: (("table", WriteType.INSERT),),
    Command.LOAD_OVERWRITE: (("table", WriteType.INSERT_OVERWRITE),),
    Command.ARCHIVE: (("partition", _NONE), ("table", _E)),
    Command.ANALYZE: (),
}
_ALTERS = (
    Command.RENAME, Command.ADD_COLUMNS, Command.REPLACE_COLUMNS, Command.CHANGE_COLUMN, Command.CONSTRAINT,
    Command.SET_OWNER, Command.SET_FILEFORMAT, Command.SET_SERDE, Command.BUCKETING, Command.UNSET_PROPERTIES,
    Command.CONVERT,
    Command.MSCK_DROP,
)  # fmt: skip


def command_rule(
    command: Command, settings: LockSettings = DEFAULT_LOCKS, *, transactional: bool = True
) -> tuple[tuple[Part, ...], str]:
    """What a command writes, and the setting that decided; no part for a command without locks.

    :param transactional: of DROP DATABASE: every table in it is.
    """
    if command in _SIMPLE:
        return _SIMPLE[command], ""
    if command in _ALTERS:
        beside = settings.lockless and transactional
        return (("table", _EW if beside else _E),), f"hive.acid.lockless.reads.enabled={str(settings.lockless).lower()}"
    level, beside, why = _BESIDE_READERS[command](settings)
    parts: tuple[Part, ...] = ((level, _EW if beside and transactional else _E),)
    if command is Command.DROP_TABLE:
        parts = (("database", _SR), *parts)
    return parts, why if transactional else "the table has no snapshots"


_BESIDE_READERS: dict[Command, Callable[[LockSettings], tuple[str, bool, str]]] = {
    Command.DROP_TABLE: lambda s: ("table", s.soft_delete, f"soft delete {_on(s.soft_delete)}"),
    Command.DROP_DATABASE: lambda s: ("database", s.soft_delete, f"soft delete {_on(s.soft_delete)}"),
    Command.DROP_MATERIALIZED_VIEW: lambda s: ("table", s.soft_delete, f"soft delete {_on(s.soft_delete)}"),
    Command.TRUNCATE: lambda s: (
        "table", s.truncate_usebase, f"hive.acid.truncate.usebase={_flag(s.truncate_usebase)}",
    ),
    Command.DROP_PARTITION: lambda s: (
        "partition", s.drop_partition_usebase, f"hive.acid.droppartition.usebase={_flag(s.drop_partition_usebase)}",
    ),
    Command.RENAME_PARTITION: lambda s: (
        "partition", s.make_copy, f"hive.acid.rename.partition.make.copy={_flag(s.make_copy)}",
    ),
}  # fmt: skip


def ddl_locks(
    statement: DdlStatement, table_of: TableLookup, settings: LockSettings = DEFAULT_LOCKS, *, as_there: bool = False
) -> tuple[PlannedLock, ...]:
    """The lock request of one DDL statement, as the metastore runs it.

    :param table_of: facts of a table by ``db.table``; its NoSuchObjectError passes through.
    :param as_there: it says values as they stand in the catalog's names; else they are taken as a Hive writes them.
    """
    found = [lock for parts in _requests(statement, table_of, settings, as_there) for lock in parts]
    return (*merged(found), *advisory_locks(settings)) if found else ()


def _requests(
    statement: DdlStatement, table_of: TableLookup, settings: LockSettings, as_there: bool
) -> list[Sequence[PlannedLock]]:
    match statement:
        case CreateDatabase() | AlterDatabase():
            return []
        case DropDatabase(name=name):
            parts, why = command_rule(Command.DROP_DATABASE, settings)
            return [[_lock(Command.DROP_DATABASE, parts[0][1], why, name)]]
        case CreateTable(table=table):
            return [[_lock(Command.CREATE_TABLE, _SR, "", table.database)]]
        case alter.RenameTable(table=table, new=new):
            facts = table_of(str(table))
            databases = [
                _lock(Command.RENAME, _SR, "the table leaves or enters it", database)
                for database in sorted({table.database, new.database})
            ]
            old = _on_table(Command.RENAME, table, facts, settings)
            taken = [_lock(Command.RENAME, _E, "the new name", new.database, new.name)] if old else []
            return [databases, old, taken]
        case DropTable(table=table):
            return [_on_table(Command.DROP_TABLE, table, table_of(str(table)), settings)]
        case Analyze(table=table):
            read = _lock(Command.ANALYZE, _SR, "it is read", table.database, table.name)
            return [[read] if _is_locked(table_of(str(table)), settings) else []]
        case Truncate(table=table, partition=partition):
            return [_truncate(table, partition, table_of(str(table)), settings)]
        case _:
            return [_alter(statement, table_of(str(statement.table)), settings, as_there)]


def _truncate(
    table: TableName, partition: alter.Partition, facts: TableFacts, settings: LockSettings
) -> Sequence[PlannedLock]:
    """Ours leaves a component: the Initiator must see it, and writers of the same rows conflict with it."""
    locks = _on_table(Command.TRUNCATE, table, facts, settings)
    if not facts.is_transactional:
        return locks
    name = _only_name(facts, partition)
    return [
        PlannedLock(
            LockComponent(
                table.database, table.name, name, lock.component.type, Operation.UPDATE,
                dynamic_partitions=bool(facts.partition_columns) and name is None,
            ),
            lock.rule,
        )
        for lock in locks
    ]  # fmt: skip


def _alter(
    statement: alter.AlterStatement, facts: TableFacts, settings: LockSettings, as_there: bool
) -> Sequence[PlannedLock]:
    table = statement.table
    match statement:
        case alter.RenamePartition(partition=old, new=new):
            names = [_name(facts, old, as_there), _name(facts, new)]
            return _on_partitions(Command.RENAME_PARTITION, table, names, facts, settings)
        case alter.DropPartitions(partitions=clauses):
            # Those that are compared and not named are known only when the catalog has been asked.
            exact = [c for c in clauses if all(operator == "=" for _, operator, _ in c)]
            full = [c for c in exact if len(c) == len(facts.partition_columns)]
            if len(full) != len(clauses):
                return _on_table(Command.DROP_PARTITION, table, facts, settings)
            names = [_name(facts, tuple((column, value) for column, _, value in clause), as_there) for clause in full]
            return _on_partitions(Command.DROP_PARTITION, table, names, facts, settings)
        case alter.Concatenate() if facts.is_transactional:
            return ()  # it asks for a compaction
        case alter.AddPartitions(if_not_exists=True) | alter.RepairTable():
            return _on_table(Command.ADD_PARTITION_IF_NOT_EXISTS, table, facts, settings)
    command = _command(statement, facts)
    partition = getattr(statement, "partition", ())
    if partition and len(partition) == len(facts.partition_columns):
        return _on_partitions(command, table, [_name(facts, partition, as_there)], facts, settings)
    return _on_table(command, table, facts, settings)


def _command(statement: alter.AlterStatement, facts: TableFacts) -> Command:
    match statement:
        case alter.AlterProperties(unset=unset, properties=properties):
            converts = not facts.is_transactional and is_transactional(properties)
            if converts:
                return Command.CONVERT
            return Command.UNSET_PROPERTIES if unset else Command.SET_PROPERTIES
        case alter.AlterColumns(replace=replace):
            return Command.REPLACE_COLUMNS if replace else Command.ADD_COLUMNS
        case alter.AlterSerde(serde=serde):
            return Command.SET_SERDE_PROPERTIES if serde is None else Command.SET_SERDE
        case _:
            return _COMMANDS[type(statement)]


_COMMANDS: dict[type[alter.Alteration], Command] = {
    alter.ChangeColumn: Command.CHANGE_COLUMN,
    alter.AlterFileFormat: Command.SET_FILEFORMAT,
    alter.AlterLocation: Command.SET_LOCATION,
    alter.AddPartitions: Command.ADD_PARTITION,
    alter.Touch: Command.TOUCH,
    alter.Concatenate: Command.CONCATENATE,
    alter.AddConstraint: Command.CONSTRAINT,
    alter.DropConstraint: Command.CONSTRAINT,
    alter.AlterOwner: Command.SET_OWNER,
    alter.Compact: Command.COMPACT,
}


def _on_table(command: Command, table: TableName, facts: TableFacts, settings: LockSettings) -> list[PlannedLock]:
    """The locks of a command about a table as a whole."""
    parts, why = command_rule(command, settings, transactional=facts.is_transactional)
    found = []
    for level, write in parts:
        if level == "database":
            found.append(_lock(command, write, why, table.database))
        elif write is not _NONE and _is_locked(facts, settings):
            found.append(_lock(command, write, why, table.database, table.name))
    return found


def _on_partitions(
    command: Command, table: TableName, names: Sequence[str], facts: TableFacts, settings: LockSettings
) -> list[PlannedLock]:
    parts, why = command_rule(command, settings, transactional=facts.is_transactional)
    if not parts or not _is_locked(facts, settings):
        return []
    write = parts[-1][1]
    # A dropped partition leaves a component: its rows are gone for those who overlap.
    operation = Operation.DELETE if command is Command.DROP_PARTITION and facts.is_transactional else None
    return [
        _lock(command, write, why, table.database, table.name, name, operation, facts.is_transactional)
        for name in sorted(set(names))
    ]


def _is_locked(facts: TableFacts, settings: LockSettings) -> bool:
    return lockable(
        settings, transactional=facts.is_transactional, external=is_external(facts), reading=False, ddl=True
    )


def _lock(
    command: Command, write: WriteType, why: str, database: str, table: str | None = None,
    partition: str | None = None, operation: Operation | None = None, transactional: bool = True,
) -> PlannedLock:  # fmt: skip
    answer = write_rule(write)
    if answer is None:
        raise AssertionError(f"{command.value} takes no lock")
    component = LockComponent(database, table, partition, answer[0], operation or answer[1], transactional)
    return PlannedLock(component, f"{command.value}: {why}" if why else command.value)


def _name(facts: TableFacts, given: alter.Partition, as_there: bool = False) -> str:
    """The catalog's name of a partition, in the order of the partition columns."""
    values = [(column, dict(given).get(column.name, "")) for column in facts.partition_columns]
    return partition_name([(c.name, value if as_there else as_stored(c.type, value)) for c, value in values])


def _on(flag: bool) -> str:
    return "on" if flag else "off"


def _flag(flag: bool) -> str:
    return str(flag).lower()


def _only_name(facts: TableFacts, given: alter.Partition) -> str | None:
    """The one name that the catalog can have for a partition; None where several names may be meant.

    A CHAR value stands in some names without its blanks, and ``1.50`` of a DECIMAL may be ``1.5``; which of them is
    there only the catalog knows.
    """
    columns, values = facts.partition_columns, dict(given)
    complete = bool(columns) and set(values) == {column.name for column in columns}
    several = complete and any(may_be_several(c.type, values[c.name]) for c in columns)
    return _name(facts, given) if complete and not several else None
