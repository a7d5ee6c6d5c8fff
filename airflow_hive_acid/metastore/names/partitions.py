"""Which partition a name means: what users write, resolved against the table's partition columns, and what the txn
tables hold, under either of its spellings (``format.partitions``).

A Hive 4 spells a name that needs escapes in two ways: HIVE_LOCKS and the components of static partitions hold it
escaped twice, the catalog, the queue of compactions and the components of dynamic partitions once. No SQL compares a
partition's name in any other way than by these functions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy import and_, bindparam, func, or_, select

from airflow_hive_acid.errors import InvalidArgumentsError
from airflow_hive_acid.format.partitions import (
    PartitionValues,
    escaped_twice,
    from_lock_name,
    is_escaped_twice,
    partition_name,
    readings,
    spellings,
)
from airflow_hive_acid.metastore.names.objects import canonical_partition, shorten, table_name
from airflow_hive_acid.metastore.names.partition_spellings import Spellings
from airflow_hive_acid.metastore.names.partition_values import is_char, normal_value, stored_char
from airflow_hive_acid.metastore.schema.hive_catalog import CATALOG, DBS, PARTITION_KEYS, PARTITIONS, TBLS

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from sqlalchemy.engine import Connection

    from airflow_hive_acid.metastore.names.objects import TableName

_OF_TABLE = and_(
    DBS.c.NAME == bindparam("db", type_=sa.String),
    DBS.c.CTLG_NAME == CATALOG,
    TBLS.c.TBL_NAME == bindparam("tbl", type_=sa.String),
)
_KEYS = (
    select(PARTITION_KEYS.c.PKEY_NAME, PARTITION_KEYS.c.PKEY_TYPE)
    .select_from(
        TBLS.join(DBS, TBLS.c.DB_ID == DBS.c.DB_ID).join(
            PARTITION_KEYS, PARTITION_KEYS.c.TBL_ID == TBLS.c.TBL_ID, isouter=True
        )
    )
    .where(_OF_TABLE)
    .order_by(PARTITION_KEYS.c.INTEGER_IDX)
)
_NAMES = (
    select(PARTITIONS.c.PART_NAME)
    .select_from(PARTITIONS.join(TBLS, TBLS.c.TBL_ID == PARTITIONS.c.TBL_ID).join(DBS, TBLS.c.DB_ID == DBS.c.DB_ID))
    .where(_OF_TABLE)
)
_THERE = _NAMES.where(PARTITIONS.c.PART_NAME.in_(bindparam("parts", expanding=True)))


class PartitionKey(NamedTuple):
    """A partition column: its name, and its type as the catalog holds it."""

    name: str
    type: str


# --- what users write -----------------------------------------------------------------------------------------------


def partition_keys(connection: Connection, table: TableName) -> tuple[PartitionKey, ...] | None:
    """The partition columns of a table, in order; empty without partitions, None when the catalog does not know it."""
    found = connection.execute(_KEYS, {"db": table.database, "tbl": table.name}).all()
    if not found:
        return None
    return tuple(PartitionKey(name, kind) for name, kind in found if name is not None)


def resolve(
    connection: Connection, table: str | TableName, partition: str, *, partial: bool = True, by_name: bool = True
) -> str:
    """The catalog's name of what a user calls a partition.

    The columns may stand in any order, and values of a column that is no text in any spelling (``hour=02``); a CHAR
    value with any blanks means the partition that is there. Of a table that the catalog does not know the name is taken
    as it is.

    :param table: ``db.table``.
    :param partial: whether it may name some of the columns, and mean all partitions with these values.
    :param by_name: the name of a partition means this one, even when there is another of the same CHAR value; without
        it, it was made of a PARTITION clause.
    :raises InvalidArgumentsError: when the table has no partitions, or no such columns, or several partitions of the
        same CHAR value.
    """
    name = table_name(table) if isinstance(table, str) else table
    keys = partition_keys(connection, name)
    return resolve_by(connection, keys, name, partition, partial=partial, by_name=by_name)


def resolve_by(
    connection: Connection,
    keys: Sequence[PartitionKey] | None,
    table: TableName,
    partition: str,
    *,
    partial: bool = True,
    by_name: bool = True,
) -> str:
    """As :func:`resolve`, for whoever knows the table's partition columns."""
    given = PartitionValues.of(canonical_partition(partition))
    if keys is None:
        return given.name
    shown = shorten(partition)
    if not keys:
        raise InvalidArgumentsError(f"{table} has no partitions, and {shown!r} was given; leave the partition out")
    wanted = ", ".join(key.name for key in keys)
    values = dict(given.values)
    unknown = sorted(values.keys() - {key.name for key in keys})
    if unknown:
        raise InvalidArgumentsError(
            f"{table} is partitioned by {wanted}, and has no partition column {unknown[0]}; {shown!r} is no partition "
            "of it"
        )
    missing = [key.name for key in keys if key.name not in values]
    if missing and not partial:
        raise InvalidArgumentsError(
            f"{table} is partitioned by {wanted}; {shown!r} gives no value for {', '.join(missing)}"
        )
    as_given = [(key.name, values[key.name]) for key in keys if key.name in values]
    found = [(key, normal_value(key.name, key.type, values[key.name])) for key in keys if key.name in values]
    normal = [(key.name, value) for key, value in found]
    chars = [key for key, _ in found if is_char(key.type)]
    if not chars and missing:
        return canonical_partition(partition_name(normal))
    if not chars and normal != as_given and _exists(connection, table, partition_name(as_given)):
        return partition_name(as_given)  # spelled as no Hive would, by whoever made it
    # Blanks as they were given; too long a value is cut.
    spelled = Spellings.of(
        (
            (key.name, key.type, values[key.name] if _only_blanks(key, values[key.name]) else value)
            for key, value in found
        ),
        by_name=by_name,
    )
    if missing:
        there = _with_values(connection, table, spelled.names)
    else:
        there = set() if spelled.is_one else _there(connection, table, spelled.names)
    return canonical_partition(spelled.choose(table, there))


def _only_blanks(key: PartitionKey, value: str) -> bool:
    """Whether a value differs by nothing but blanks from what a Hive stores."""
    return is_char(key.type) and stored_char(key.type, value) == normal_value(key.name, key.type, value)


def _there(connection: Connection, table: TableName, names: Sequence[str]) -> set[str]:
    """Those of the partitions that the catalog has."""
    place = {"db": table.database, "tbl": table.name, "parts": list(names)}
    return set(connection.execute(_THERE, place).scalars())


def _with_values(connection: Connection, table: TableName, names: Sequence[str]) -> set[str]:
    """Those of the names, of some of the columns, that a partition has."""
    place = {"db": table.database, "tbl": table.name}
    return {
        name
        for name in names
        if connection.execute(_NAMES.where(within(PARTITIONS.c.PART_NAME, name, in_catalog)).limit(1), place).first()
    }


def _exists(connection: Connection, table: TableName, name: str) -> bool:
    return bool(_there(connection, table, [name]))


def resolve_filter(connection: Connection, database: str | None, table: str | None, partition: str) -> str:
    """The catalog's name of a partition by which rows are chosen; without its table the name as it is written.

    :raises InvalidArgumentsError: as :func:`resolve`.
    """
    if database is None or table is None:
        return PartitionValues.of(canonical_partition(partition)).name
    return resolve(connection, f"{database}.{table}", partition)


def is_whole(keys: Sequence[PartitionKey] | None, partition: str) -> bool:
    """Whether a resolved name gives a value to every partition column; taken for granted of an unknown table."""
    return keys is None or len(PartitionValues.of(partition).values) == len(keys)


# --- what the txn tables hold ---------------------------------------------------------------------------------------


def in_catalog(name: str) -> tuple[str, ...]:
    """How the catalog spells a partition, and with it COMPACTION_QUEUE and its history."""
    return (name,)


def in_locks(name: str) -> tuple[str, ...]:
    """How HIVE_LOCKS may spell a partition: as a Hive 4 and we do; or as we once did, if that is no other one there."""
    return (escaped_twice(name),) if is_escaped_twice(name) else spellings(name)


def within(
    column: sa.ColumnElement[Any], name: str, spelled: Callable[[str], tuple[str, ...]] = spellings
) -> sa.ColumnElement[bool]:
    """Whether a column of the txn tables may mean a partition that has these values.

    :param name: a resolved name, of all partition columns or of some.
    :param spelled: how the table may spell it.
    """
    parts = []
    bounded = sa.literal("/", sa.String) + column + sa.literal("/", sa.String)
    for part in name.split("/"):
        # Not LIKE, which takes no account of case on SQLite.
        parts.append(or_(*(func.replace(bounded, f"/{each}/", "") != bounded for each in spelled(part))))
    return or_(column.in_(spelled(name)), and_(*parts))


def overlapping(column: sa.ColumnElement[Any], keys: int) -> list[sa.ColumnElement[bool]]:
    """Whether a column of the catalog's names, each of all partition columns or of some, can have a partition in common
    with a name of ``keys`` columns, given by :func:`overlap_parameters`.

    For each of them it has no value, or the same one. An empty name is the whole table.
    """
    bounded = sa.literal("/", sa.String) + column + sa.literal("/", sa.String)
    found: list[sa.ColumnElement[bool]] = []
    for number in range(keys):
        key, part = (bindparam(f"{what}{number}", type_=sa.String) for what in ("key", "part"))
        found.append(or_(func.replace(bounded, key, "") == bounded, func.replace(bounded, part, "") != bounded))
    return found


def overlap_parameters(name: str) -> dict[str, str]:
    """The parameters of :func:`overlapping` for a name, two for each column."""
    parameters: dict[str, str] = {}
    for number, part in enumerate(name.split("/") if name else ()):
        parameters |= {f"key{number}": f"/{part.partition('=')[0]}=", f"part{number}": f"/{part}/"}
    return parameters


def twice(column: sa.ColumnElement[Any]) -> sa.ColumnElement[Any]:
    """A column that holds the catalog's name, as a Hive spells it in HIVE_LOCKS."""
    return func.replace(column, sa.literal("%", sa.String), sa.literal("%25", sa.String))


def needs_escapes(column: sa.ColumnElement[Any]) -> sa.ColumnElement[bool]:
    """Whether the two spellings of a name differ."""
    return column.contains("%", autoescape=True)


def in_both_spellings(
    rows: Callable[[sa.ColumnElement[Any]], sa.Select[Any]], column: sa.ColumnElement[Any]
) -> sa.CompoundSelect[Any]:
    """Distinct rows with a partition, which appear once more under its other spelling where it has two.

    :param rows: selects them, with the column that it is given in the partition's place.
    """
    return sa.union(rows(column), rows(twice(column)).where(needs_escapes(column)))


def unambiguous_spellings(connection: Connection, table: TableName, partitions: Iterable[str]) -> list[str]:
    """The spellings of partitions that mean no other one of the catalog: what may be forgotten with them.

    :param partitions: the catalog's names, as many as fit into one statement.
    """
    names = list(partitions)
    others = [other for name in names if (other := escaped_twice(name)) != name]
    there = _there(connection, table, others) if others else set()
    return list(dict.fromkeys((*names, *(other for other in others if other not in there))))


def catalog_names(connection: Connection, table: TableName, stored: Iterable[str]) -> dict[str, str]:
    """The catalog's names of partitions, by what the txn tables hold; asked for only where that may be either."""
    found: dict[str, str] = {}
    for name in set(stored):
        found[name] = name
        if is_escaped_twice(name):
            found[name] = name if _exists(connection, table, name) else from_lock_name(name)
    return found


def known_reading(stored: str, known: Collection[str]) -> str | None:
    """The partition of the catalog that a name of the txn tables means; None when the catalog has none of that name.

    :param known: names of the catalog.
    """
    return next((name for name in readings(stored) if name in known), None)
