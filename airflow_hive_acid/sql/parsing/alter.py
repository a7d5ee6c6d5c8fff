"""ALTER TABLE, read word by word: Hive's clauses for tables and partitions."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Any, TypeAlias

from airflow_hive_acid.errors import InvalidArgumentsError
from airflow_hive_acid.format.buckets import MAX_BUCKET
from airflow_hive_acid.format.ordering import order_text, read_order
from airflow_hive_acid.metastore.catalog import Constraint, ConstraintKind
from airflow_hive_acid.sql.model.alterations import (
    AddConstraint,
    AddPartitions,
    AlterColumns,
    AlterFileFormat,
    AlterLocation,
    AlterOwner,
    AlterProperties,
    AlterSerde,
    ChangeColumn,
    Compact,
    Concatenate,
    DropConstraint,
    DropPartitions,
    RenamePartition,
    RenameTable,
    RepairTable,
    Touch,
)
from airflow_hive_acid.sql.model.origins import ColumnDefinition
from airflow_hive_acid.sql.model.statements import AlterDatabase
from airflow_hive_acid.sql.model.transfers import DropPartitionsForReplication
from airflow_hive_acid.sql.parsing.commands import names_of_properties, partition_values, properties_in_parentheses
from airflow_hive_acid.sql.parsing.constraints import column_constraint, table_constraint
from airflow_hive_acid.sql.parsing.ddl import column_definition, column_definitions, column_type
from airflow_hive_acid.sql.parsing.replication import event_of_drop
from airflow_hive_acid.sql.parsing.storage import stored_as

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_hive_acid.sql.model.alterations import AlterStatement, Partition
    from airflow_hive_acid.sql.model.origins import TableName
    from airflow_hive_acid.sql.parsing.cursor import Cursor

    _Altered: TypeAlias = AlterStatement | DropPartitionsForReplication

_COMPACTION_TYPES = ("major", "minor", "rebalance")
_COMPARISONS = ("<=", ">=", "<>", "!=", "=", "<", ">")
_CLAUSES = (
    "RENAME TO", "RENAME COLUMN", "ADD COLUMNS", "REPLACE COLUMNS", "CHANGE COLUMN", "ALTER COLUMN",
    "ADD CONSTRAINT", "DROP CONSTRAINT", "SET OWNER", "RECOVER PARTITIONS", "SET TBLPROPERTIES", "UNSET TBLPROPERTIES",
    "SET SERDEPROPERTIES", "SET SERDE", "SET FILEFORMAT", "ADD PARTITION", "DROP PARTITION", "TOUCH",
    "PARTITION (…) RENAME TO PARTITION", "PARTITION (…) SET LOCATION", "CONCATENATE", "COMPACT",
)  # fmt: skip
_REMEDIES: tuple[tuple[tuple[str, ...], str], ...] = (
    (("DROP", "COLUMN"), "columns of ACID files cannot be dropped; copy the table with INSERT INTO … SELECT"),
    (("EXCHANGE",), "INSERT INTO … SELECT, then DROP PARTITION"),
    (("ARCHIVE",), "leave it out"),
    (("UNARCHIVE",), "leave it out"),
    (("CLUSTERED", "BY"), "rows would have to move: CREATE TABLE … CLUSTERED BY, then INSERT INTO … SELECT"),
    (("NOT",), "leave it out"),
    (("SKEWED", "BY"), "leave it out"),
    (("INTO",), "rows would have to move: CREATE TABLE … CLUSTERED BY, then INSERT INTO … SELECT"),
    (("SET", "LOCATION"), "ALTER TABLE … PARTITION (…) SET LOCATION; a table stays where it is, or CREATE … LOCATION"),
    (("SET", "SKEWED"), "leave it out"),
    (("UPDATE", "STATISTICS"), "ANALYZE TABLE … COMPUTE STATISTICS counts them"),
    (("UPDATE", "COLUMNS"), "ADD COLUMNS or REPLACE COLUMNS with CASCADE"),
    (("CONVERT",), "CREATE TABLE … AS SELECT"),
    (("EXECUTE",), "INSERT OVERWRITE … SELECT … FOR SYSTEM_VERSION AS OF n brings an earlier state back"),
)


def parse_msck(cursor: Cursor, origin: dict[str, Any]) -> RepairTable:
    """Read what follows MSCK; the tokenizer may have taken REPAIR along."""
    cursor.accept("REPAIR")
    cursor.expect("TABLE")
    table = cursor.table_name()
    if cursor.at("DROP") or cursor.at("SYNC"):
        raise cursor.unsupported(
            f"MSCK … {cursor.word()} PARTITIONS is not supported: a directory that is not found may be on a disk "
            "that is not mounted; ALTER TABLE … DROP PARTITION"
        )
    if cursor.accept("ADD"):
        cursor.expect("PARTITIONS")
    cursor.end()
    return RepairTable(table, **origin)


def _database(cursor: Cursor, origin: dict[str, Any]) -> AlterDatabase:
    name = cursor.name("a database name")
    cursor.expect("SET")
    found: dict[str, Any] = {}
    if cursor.accept("DBPROPERTIES") or cursor.accept("PROPERTIES"):
        found["properties"] = properties_in_parentheses(cursor)
    elif cursor.accept("OWNER"):
        found["owner"], found["owner_type"] = _principal(cursor)
    elif cursor.accept("LOCATION"):
        found["location"] = cursor.string("a location")
    elif cursor.accept("MANAGEDLOCATION"):
        found["managed_location"] = cursor.string("a location")
    else:
        raise cursor.expected("DBPROPERTIES, OWNER, LOCATION or MANAGEDLOCATION")
    cursor.end()
    return AlterDatabase(name, **found, **origin)


def _principal(cursor: Cursor) -> tuple[str, str]:
    """Read ``USER|ROLE|GROUP name``; without the kind it is a user, as in Spark."""
    kind = next((word for word in ("USER", "ROLE", "GROUP") if cursor.accept(word)), "USER")
    token = cursor.next("a name")
    if not token.text:
        raise cursor.error("an owner has a name", token)
    return token.text, kind


def parse_alter(cursor: Cursor, origin: dict[str, Any]) -> _Altered | AlterDatabase:
    """Read what follows ALTER."""
    if cursor.accept("DATABASE") or cursor.accept("SCHEMA") or cursor.accept("NAMESPACE"):
        return _database(cursor, origin)
    if not cursor.accept("TABLE"):
        raise cursor.unsupported(
            f"ALTER {cursor.word() or '…'} is not supported; supported is ALTER TABLE …, and ALTER DATABASE …"
        )
    table = cursor.table_name()
    if cursor.at("PARTITION", "COLUMN"):
        raise cursor.unsupported("PARTITION COLUMN is not supported; copy the table with INSERT INTO … SELECT")
    partition = partition_values(cursor) if cursor.at("PARTITION") else ()
    for words, read in _READERS:
        if cursor.at(*words):
            clause = cursor.position
            cursor.accept(*words)
            statement = read(cursor, table, partition, origin)
            cursor.end()
            _check_partition(cursor, words, partition, clause)
            return statement
    raise _unknown(cursor)


def _check_partition(cursor: Cursor, words: tuple[str, ...], partition: Partition, clause: int) -> None:
    """Refuse a PARTITION clause where there can be none, and its absence where there must be one."""
    if partition and words in _OF_TABLES:
        cursor.position = clause
        raise cursor.error(f"{' '.join(words)} is about the table; leave PARTITION (…) out")
    if not partition and words == ("SET", "LOCATION"):
        cursor.position = clause
        raise _unknown(cursor)


def _unknown(cursor: Cursor) -> Exception:
    if cursor.at_end:
        return cursor.expected(f"a clause of ALTER TABLE: {', '.join(_CLAUSES)}")
    for words, remedy in _REMEDIES:
        if cursor.at(*words):
            return cursor.unsupported(f"ALTER TABLE … {' '.join(words)} is not supported: {remedy}")
    said = f"{cursor.word()} {cursor.word(1)}".strip()
    near = difflib.get_close_matches(said, _CLAUSES, 1, 0.5) or list(_CLAUSES)
    return cursor.unsupported(f"ALTER TABLE … {said or '…'} is not supported; supported is ALTER TABLE … {near[0]}")


def _rename(cursor: Cursor, table: TableName, partition: Partition, origin: dict[str, Any]) -> AlterStatement:
    if not partition and cursor.accept("COLUMN"):
        old = cursor.column_name()
        cursor.expect("TO")
        return ChangeColumn(table, old, ColumnDefinition(cursor.column_name(), ""), **origin)
    cursor.expect("TO")
    if partition:
        return RenamePartition(table, partition, partition_values(cursor), **origin)
    return RenameTable(table, cursor.table_name(), **origin)


def _columns(replace: bool) -> Callable[[Cursor, TableName, Partition, dict[str, Any]], _Altered]:
    def read(cursor: Cursor, table: TableName, partition: Partition, origin: dict[str, Any]) -> AlterStatement:
        columns = column_definitions(cursor)
        return AlterColumns(table, columns, replace, _cascade(cursor), partition, **origin)

    return read


def _add_column(cursor: Cursor, table: TableName, partition: Partition, origin: dict[str, Any]) -> AlterStatement:
    """Spark's ``ADD COLUMN[S] a INT, b INT``, with or without parentheses."""
    if cursor.at("("):
        columns = column_definitions(cursor)
    else:
        listed = [_plain_column(cursor)]
        while cursor.accept(","):
            listed.append(_plain_column(cursor))
        columns = tuple(listed)
    return AlterColumns(table, columns, False, _cascade(cursor), partition, **origin)


def _plain_column(cursor: Cursor) -> ColumnDefinition:
    first = cursor.position
    column = column_definition(cursor)
    if column.constraints:
        words = column.constraints[0].kind.words
        raise cursor.unsupported(f"{words} is added to a column that is there, with ADD CONSTRAINT or CHANGE COLUMN",
                                 cursor.tokens[first])  # fmt: skip
    _refuse_places(cursor)
    return column


def _refuse_places(cursor: Cursor) -> None:
    for word in ("FIRST", "AFTER"):
        if cursor.at(word):
            raise cursor.unsupported(
                f"{word} is not supported: columns of ACID files are found by their place; order them in a SELECT"
            )


def _alter_column(cursor: Cursor, table: TableName, partition: Partition, origin: dict[str, Any]) -> AlterStatement:
    """Spark's ``ALTER COLUMN a TYPE BIGINT``, ``… COMMENT 'text'`` and ``… SET NOT NULL``."""
    cursor.accept("COLUMN")
    name = cursor.column_name()
    if cursor.accept("SET", "NOT", "NULL"):
        return AddConstraint(table, Constraint(ConstraintKind.NOT_NULL, (name,)), **origin)
    if cursor.accept("SET", "DEFAULT"):
        cursor.position -= 1
        constraint = column_constraint(cursor, name)
        if constraint is None:
            raise cursor.expected("a value")
        return AddConstraint(table, constraint, **origin)
    if cursor.at("DROP"):
        raise cursor.unsupported("ALTER COLUMN … DROP is not supported: ALTER TABLE … DROP CONSTRAINT name")
    if cursor.accept("COMMENT"):
        return ChangeColumn(table, name, ColumnDefinition(name, "", cursor.string("a comment")), **origin)
    if cursor.accept("SET", "DATA", "TYPE") or cursor.accept("TYPE"):
        kind = column_type(cursor)
        comment = cursor.string("a comment") if cursor.accept("COMMENT") else None
        return ChangeColumn(table, name, ColumnDefinition(name, kind, comment), **origin)
    _refuse_places(cursor)
    raise cursor.expected("TYPE, COMMENT, SET NOT NULL or SET DEFAULT")


def _add_constraint(cursor: Cursor, table: TableName, partition: Partition, origin: dict[str, Any]) -> AlterStatement:
    cursor.position -= 1
    return AddConstraint(table, table_constraint(cursor), **origin)


def _drop_constraint(cursor: Cursor, table: TableName, partition: Partition, origin: dict[str, Any]) -> AlterStatement:
    return DropConstraint(table, cursor.column_name("the name of a constraint"), **origin)


def _owner(cursor: Cursor, table: TableName, partition: Partition, origin: dict[str, Any]) -> AlterStatement:
    return AlterOwner(table, *_principal(cursor), **origin)


def _comment(cursor: Cursor, table: TableName, partition: Partition, origin: dict[str, Any]) -> AlterStatement:
    return AlterProperties(table, {"comment": cursor.string("a comment")}, **origin)


def _recover(cursor: Cursor, table: TableName, partition: Partition, origin: dict[str, Any]) -> AlterStatement:
    return RepairTable(table, **origin)


def _change(cursor: Cursor, table: TableName, partition: Partition, origin: dict[str, Any]) -> AlterStatement:
    cursor.accept("COLUMN")
    old = cursor.column_name()
    new = column_definition(cursor)
    _refuse_places(cursor)
    return ChangeColumn(table, old, new, _cascade(cursor), **origin)


def _cascade(cursor: Cursor) -> bool:
    return not cursor.accept("RESTRICT") if not cursor.accept("CASCADE") else True


def _set_properties(cursor: Cursor, table: TableName, partition: Partition, origin: dict[str, Any]) -> AlterStatement:
    return AlterProperties(table, properties_in_parentheses(cursor), partition=partition, **origin)


def _unset_properties(cursor: Cursor, table: TableName, partition: Partition, origin: dict[str, Any]) -> AlterStatement:
    if_exists = cursor.accept("IF", "EXISTS")
    names = names_of_properties(cursor)
    return AlterProperties(table, unset=names, if_exists=if_exists, partition=partition, **origin)


def _serde_properties(cursor: Cursor, table: TableName, partition: Partition, origin: dict[str, Any]) -> AlterStatement:
    return AlterSerde(table, properties_in_parentheses(cursor), partition=partition, **origin)


def _serde(cursor: Cursor, table: TableName, partition: Partition, origin: dict[str, Any]) -> AlterStatement:
    serde = cursor.string("the name of a class")
    properties = properties_in_parentheses(cursor) if cursor.accept("WITH", "SERDEPROPERTIES") else {}
    return AlterSerde(table, properties, serde, partition, **origin)


def _file_format(cursor: Cursor, table: TableName, partition: Partition, origin: dict[str, Any]) -> AlterStatement:
    return AlterFileFormat(table, stored_as(cursor).name, partition, **origin)


def _location(cursor: Cursor, table: TableName, partition: Partition, origin: dict[str, Any]) -> AlterStatement:
    return AlterLocation(table, cursor.string("a location"), partition, **origin)


def _add_partitions(cursor: Cursor, table: TableName, partition: Partition, origin: dict[str, Any]) -> AlterStatement:
    if_not_exists = cursor.accept("IF", "NOT", "EXISTS")
    partitions: list[Partition] = []
    locations: list[str | None] = []
    while True:
        partitions.append(partition_values(cursor))
        locations.append(cursor.string("a location") if cursor.accept("LOCATION") else None)
        if cursor.at_end:
            break
        cursor.accept(",")
    places = tuple(locations) if any(locations) else ()
    return AddPartitions(table, tuple(partitions), if_not_exists, places, **origin)


def _drop_partitions(cursor: Cursor, table: TableName, partition: Partition, origin: dict[str, Any]) -> _Altered:
    if_exists = cursor.accept("IF", "EXISTS")
    clauses = [_partition_conditions(cursor)]
    while cursor.accept(",") or cursor.at("PARTITION"):
        clauses.append(_partition_conditions(cursor))
    event_id = event_of_drop(cursor)
    if event_id is not None:
        if any(sign != "=" for clause in clauses for _, sign, _ in clause):
            raise cursor.error("a drop FOR REPLICATION names its partitions: PARTITION (column = value, …)")
        named = tuple(tuple((column, value) for column, _, value in clause) for clause in clauses)
        return DropPartitionsForReplication(table, named, event_id, if_exists, **origin)
    return DropPartitions(table, tuple(clauses), if_exists, cursor.accept("PURGE"), **origin)


def _partition_conditions(cursor: Cursor) -> tuple[tuple[str, str, str], ...]:
    """Read ``PARTITION (column < value, …)``."""
    cursor.expect("PARTITION")
    cursor.expect("(")
    found: list[tuple[str, str, str]] = []
    while True:
        name = cursor.column_name("a partition column")
        operator = next((sign for sign in _COMPARISONS if cursor.accept(sign)), None)
        if operator is None:
            raise cursor.expected(f"one of {' '.join(_COMPARISONS)}")
        found.append((name, "<>" if operator == "!=" else operator, cursor.value("a value")))
        if not cursor.accept(","):
            break
    cursor.expect(")")
    return tuple(found)


def _touch(cursor: Cursor, table: TableName, partition: Partition, origin: dict[str, Any]) -> AlterStatement:
    return Touch(table, partition_values(cursor) if cursor.at("PARTITION") else partition, **origin)


def _concatenate(cursor: Cursor, table: TableName, partition: Partition, origin: dict[str, Any]) -> AlterStatement:
    return Concatenate(table, partition, **origin)


def _compact(cursor: Cursor, table: TableName, partition: Partition, origin: dict[str, Any]) -> AlterStatement:
    """Hive's order: type, CLUSTERED INTO, AND WAIT, ORDER BY, POOL, WITH OVERWRITE TBLPROPERTIES."""
    kind = cursor.string("'major', 'minor' or 'rebalance'").lower()
    if kind not in _COMPACTION_TYPES:
        cursor.position -= 1
        near = difflib.get_close_matches(kind, _COMPACTION_TYPES, 1)
        hint = f"did you mean '{near[0]}'?" if near else "supported are 'major', 'minor', 'rebalance'"
        raise cursor.unsupported(f"COMPACT '{kind}' is not supported; {hint}")
    clauses: dict[str, Any] = {}
    while not cursor.at_end:
        name = next((name for words, name in _COMPACT_CLAUSES if cursor.at(*words)), None)
        if name is None:
            raise cursor.expected("AND WAIT, CLUSTERED INTO, ORDER BY, POOL or WITH OVERWRITE TBLPROPERTIES")
        if name in clauses:
            raise cursor.error(f"{cursor.word()} is given twice")
        if name in ("buckets", "order_by") and kind != "rebalance":
            raise cursor.unsupported(
                f"{cursor.word()} is not supported with COMPACT '{kind}'; leave it out, or COMPACT 'rebalance'"
            )
        clauses[name] = _COMPACT_READERS[name](cursor)
    return Compact(table, kind, partition, **clauses, **origin)


def _wait(cursor: Cursor) -> bool:
    return cursor.accept("AND", "WAIT")


def _rebalance_buckets(cursor: Cursor) -> int:
    cursor.expect("CLUSTERED")
    cursor.expect("INTO")
    token = cursor.next("a number of buckets")
    cursor.position -= 1
    count = cursor.number("a number of buckets")
    if not 1 <= count <= MAX_BUCKET + 1:
        raise cursor.error(f"a rebalance makes 1 to {MAX_BUCKET + 1} buckets, not {count}", token)
    cursor.expect("BUCKETS")
    return count


def _rebalance_order(cursor: Cursor) -> str:
    """The columns, as the queue keeps them: from ORDER BY on."""
    cursor.expect("ORDER", "BY")
    words = cursor.until("POOL", "WITH")
    if not words:
        raise cursor.expected("what to order by")
    text = cursor.source.text[words[0].start : words[-1].end + 1]
    try:
        return order_text(read_order(text))
    except InvalidArgumentsError as error:
        raise cursor.error(str(error), words[0]) from None


def _pool(cursor: Cursor) -> str:
    cursor.expect("POOL")
    return cursor.string("the name of a pool")


def _overwritten_properties(cursor: Cursor) -> dict[str, str]:
    cursor.expect("WITH", "OVERWRITE", "TBLPROPERTIES")
    return properties_in_parentheses(cursor)


_COMPACT_CLAUSES = (
    (("AND", "WAIT"), "wait"),
    (("CLUSTERED",), "buckets"),
    (("ORDER", "BY"), "order_by"),
    (("POOL",), "pool"),
    (("WITH",), "properties"),
)
_COMPACT_READERS: dict[str, Callable[[Cursor], Any]] = {
    "wait": _wait,
    "buckets": _rebalance_buckets,
    "order_by": _rebalance_order,
    "pool": _pool,
    "properties": _overwritten_properties,
}
_READERS: tuple[tuple[tuple[str, ...], Callable[[Cursor, TableName, Partition, dict[str, Any]], _Altered]], ...] = (
    (("RENAME",), _rename),
    (("RECOVER", "PARTITIONS"), _recover),
    (("ADD", "COLUMNS"), _add_column),
    (("ADD", "COLUMN"), _add_column),
    (("ALTER",), _alter_column),
    (("ADD", "CONSTRAINT"), _add_constraint),
    (("DROP", "CONSTRAINT"), _drop_constraint),
    (("SET", "OWNER"), _owner),
    (("SET", "COMMENT"), _comment),
    (("REPLACE", "COLUMNS"), _columns(replace=True)),
    (("CHANGE",), _change),
    (("SET", "TBLPROPERTIES"), _set_properties),
    (("UNSET", "TBLPROPERTIES"), _unset_properties),
    (("SET", "SERDEPROPERTIES"), _serde_properties),
    (("SET", "SERDE"), _serde),
    (("SET", "FILEFORMAT"), _file_format),
    (("SET", "LOCATION"), _location),
    (("ADD", "IF"), lambda cursor, *rest: _add_partitions(_back(cursor), *rest)),
    (("ADD", "PARTITION"), lambda cursor, *rest: _add_partitions(_back(cursor), *rest)),
    (("DROP", "IF"), lambda cursor, *rest: _drop_partitions(_back(cursor), *rest)),
    (("DROP", "PARTITION"), lambda cursor, *rest: _drop_partitions(_back(cursor), *rest)),
    (("TOUCH",), _touch),
    (("CONCATENATE",), _concatenate),
    (("COMPACT",), _compact),
)
_OF_TABLES = (
    ("CHANGE",), ("ALTER",), ("ADD", "CONSTRAINT"), ("DROP", "CONSTRAINT"), ("SET", "OWNER"), ("SET", "COMMENT"),
    ("RECOVER", "PARTITIONS"), ("ADD", "IF"), ("ADD", "PARTITION"), ("DROP", "IF"), ("DROP", "PARTITION"),
)  # fmt: skip


def _back(cursor: Cursor) -> Cursor:
    """IF and PARTITION belong to what is read next."""
    cursor.position -= 1
    return cursor
