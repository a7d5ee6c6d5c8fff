"""Steps that change columns, partitions or the whole table. Each returns None where it cannot be."""

# ruff: noqa: S608 - statements put together from words of the tests

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from .steps import Clean, Compact, Dice, Pin, Sql
from .tables import ACID, Column, Place, State

if TYPE_CHECKING:
    from collections.abc import Collection


# --- columns ----------------------------------------------------------------------------------------------------------


def add_column(dice: Dice, table: State) -> Sql:
    """ADD COLUMNS, under a new name or one that a column had before."""
    column = Column(_name(dice, table), dice.random.choice(("INT", "STRING")))
    return Sql(
        replace(table, columns=(*table.columns, column)),
        f"ALTER TABLE {table.name} ADD COLUMNS ({column.name} {column.type}){_cascade(dice)}",
        alone=True,
    )


def rename_column(dice: Dice, table: State) -> Sql:
    """CHANGE COLUMN to another name."""
    at = _changeable(dice, table)
    old = table.columns[at]
    return _change(dice, table, at, replace(old, name=_name(dice, table)))


def widen(dice: Dice, table: State) -> Sql | None:
    """CHANGE COLUMN to a type that holds all its values."""
    at = _changeable(dice, table)
    old = table.columns[at]
    if old.type == "STRING":
        return None
    # Conditions and shifts are of the first column: it stays a number.
    return _change(dice, table, at, replace(old, type=dice.random.choice(("BIGINT", "STRING")[: 2 if at else 1])))


def _changeable(dice: Dice, table: State) -> int:
    return dice.random.randrange(1 if table.kind.buckets else 0, len(table.columns))


def _change(dice: Dice, table: State, at: int, column: Column) -> Sql:
    old = table.columns[at]
    return Sql(
        table.with_column(at, column),
        f"ALTER TABLE {table.name} CHANGE COLUMN {old.name} {column.name} {column.type}{_cascade(dice)}",
        alone=True,
    )


def _cascade(dice: Dice) -> str:
    return dice.random.choice(("", " CASCADE"))


def _name(dice: Dice, table: State) -> str:
    number = dice.number()
    taken = {column.name for column in table.columns}
    before = [name for name in ("id", "name", "amount", *(f"c{n}" for n in range(number))) if name not in taken]
    return dice.random.choice([*before, f"c{number}"])


# --- partitions -------------------------------------------------------------------------------------------------------


def add_partition(dice: Dice, table: State) -> Sql | None:
    """ADD PARTITION, where its name says or elsewhere."""
    place = dice.place(table)
    if place in table.partitions:
        return None
    clause = f"{dice.random.choice(('', ' IF NOT EXISTS'))}{table.partition(place)}"
    location = f" LOCATION '{_elsewhere(dice)}'" if dice.some(0.35) else ""
    return Sql(_with(table, {place}), f"ALTER TABLE {table.name} ADD{clause}{location}")


def drop_partition(dice: Dice, table: State) -> Sql | None:
    """DROP PARTITION, with its rows."""
    place = dice.partition(table)
    if place is None:
        return None
    return Sql(
        replace(_emptied(table, place), partitions=table.partitions - {place}),
        f"ALTER TABLE {table.name} DROP{table.partition(place)}",
    )


def rename_partition(dice: Dice, table: State) -> Sql | None:
    """RENAME of a partition, which takes its rows along."""
    old, new = dice.partition(table), dice.place(table)
    if old is None or new in table.partitions:
        return None
    return Sql(
        replace(
            table,
            rows=tuple((data, new if place == old else place) for data, place in table.rows),
            partitions=table.partitions - {old} | {new},
        ),
        f"ALTER TABLE {table.name}{table.partition(old)} RENAME TO{table.partition(new)}",
        alone=True,
    )


def set_location(dice: Dice, table: State) -> Sql | None:
    """SET LOCATION of a partition to a directory without files: its rows are no longer shown."""
    place = dice.partition(table)
    if place is None:
        return None
    return Sql(
        _emptied(table, place),
        f"ALTER TABLE {table.name}{table.partition(place)} SET LOCATION '{_elsewhere(dice)}'",
        alone=True,
    )


def _with(table: State, places: Collection[Place]) -> State:
    return replace(table, partitions=table.partitions | frozenset(places))


def _emptied(table: State, place: Place) -> State:
    return replace(table, rows=tuple(row for row in table.rows if row[1] != place))


def _elsewhere(dice: Dice) -> str:
    return f"{dice.places}/other{dice.number()}"


# --- the whole table --------------------------------------------------------------------------------------------------


def compact(dice: Dice, table: State) -> Compact | None:
    """A compaction of any type."""
    types = ["minor", "major", "minor", "major"]
    if table.kind.has_row_ids and not table.kind.buckets:
        types.append("rebalance")
    place = dice.partition(table)
    if table.keys and place is None:
        return None
    return Compact(table, f"ALTER TABLE {table.name}{table.partition(place)} COMPACT '{dice.random.choice(types)}'")


def clean(dice: Dice, table: State) -> Clean:
    """The Cleaner comes along."""
    return Clean(table)


def pin(dice: Dice, table: State) -> Pin:
    """Somebody pins the table."""
    return Pin(table)


def concatenate(dice: Dice, table: State) -> Sql | None:
    """CONCATENATE of a table without txns."""
    place = dice.partition(table)
    if table.keys and place is None:
        return None
    return Sql(table, f"ALTER TABLE {table.name}{table.partition(place)} CONCATENATE")


def rename(dice: Dice, table: State) -> Sql:
    """RENAME of the table."""
    new = _other(dice, table, "r")
    return Sql(replace(table, name=new), f"ALTER TABLE {table.name} RENAME TO {new}", alone=True)


def convert(dice: Dice, table: State) -> Sql:
    """A table without txns becomes full ACID."""
    return Sql(
        replace(table, kind=ACID),
        f"ALTER TABLE {table.name} SET TBLPROPERTIES ('transactional'='true', 'EXTERNAL'='FALSE')",
        alone=True,
    )


def replace_table(dice: Dice, table: State) -> Sql:
    """CREATE OR REPLACE TABLE with some of the table's own rows. Partitions that are then without rows may stay."""
    condition, holds = dice.condition(table)
    rows = tuple((table.whole(data), place) for data, place in table.rows if holds(data))
    return Sql(
        replace(table, rows=rows),
        f"CREATE OR REPLACE TABLE {table.name}{_partitioned(table)} {_options(table)}"
        f" AS SELECT * FROM {table.name} WHERE {condition}",
        alone=True,
    )


def copy(dice: Dice, table: State) -> Sql:
    """CREATE TABLE … AS SELECT of all rows; the old table is dropped."""
    new = _other(dice, table, "c")
    rows = tuple((table.whole(data), place) for data, place in table.rows)
    return Sql(
        replace(table, name=new, rows=rows, partitions=frozenset(place for _, place in rows)),
        f"CREATE TABLE {new}{_partitioned(table)} {_options(table)} AS SELECT * FROM {table.name};"
        f" DROP TABLE {table.name}",
        alone=True,
    )


def export(dice: Dice, table: State) -> Sql:
    """EXPORT, and IMPORT as another table; the old one is dropped."""
    new, dump = _other(dice, table, "i"), f"{dice.places}/dump{dice.number()}"
    return Sql(
        replace(table, name=new),
        f"EXPORT TABLE {table.name} TO '{dump}'; IMPORT TABLE {new} FROM '{dump}'; DROP TABLE {table.name}",
        alone=True,
    )


def _other(dice: Dice, table: State, letter: str) -> str:
    return f"{table.name.partition('.')[0]}.{letter}{dice.number()}"


def _partitioned(table: State) -> str:
    return f" PARTITIONED BY ({', '.join(table.keys)})" if table.keys else ""


def _options(table: State) -> str:
    return table.kind.options(table.columns[0].name)
