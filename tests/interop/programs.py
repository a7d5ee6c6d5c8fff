"""Random programs over one table, and a plain model of the rows they leave: pure, the same for the same seed.

Each step of a program carries the side that does it, so that files of both sides meet in one table. The model knows
SQL's meaning of the statements and nothing of transactions, deltas or ROW__IDs.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Protocol

from .conditions import (
    COMPARISONS,
    NULL_SAFE,
    TYPES,
    And,
    Compare,
    Condition,
    Expression,
    IsNull,
    Known,
    Literal,
    Not,
    OneOf,
    Or,
    Plus,
    Record,
    Remainder,
    Suffixed,
    Value,
    literal,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

STEPS = 6
IDS = 12
#: By partition column, its values. Not NULL for text: there Hive reads ``__HIVE_DEFAULT_PARTITION__``, and we NULL.
PLACES: dict[str, tuple[Value, ...]] = {"day": ("mon", "tue", "a b/c=d:e%f"), "hour": (0, 7, None)}
DEFAULT_PARTITION = "__HIVE_DEFAULT_PARTITION__"
NAMES: tuple[str | None, ...] = ("tea", "jam", "é漢", "", None)
REBALANCES = ("", " CLUSTERED INTO 1 BUCKETS", " CLUSTERED INTO 3 BUCKETS", " ORDER BY amount DESC")
MOST_ROWS = 40  # no copies of the whole table beyond that: programs are about histories, not about size


class Side(Enum):
    """Who does a step."""

    OURS = "ours"
    HIVE = "hive"


class Kind(Enum):
    """The shapes of table, and what CREATE TABLE says of them."""

    UNPARTITIONED = "(id int, name string, amount int)"
    PARTITIONED = "(id int, name string, amount int) PARTITIONED BY (day string)"
    BUCKETED = "(id int, name string, amount int) CLUSTERED BY (id) INTO 3 BUCKETS"
    PARTITIONED_BY_NUMBER = "(id int, name string, amount int) PARTITIONED BY (hour int)"

    @property
    def columns(self) -> tuple[str, ...]:
        return ("id", "name", "amount", *((self.place,) if self.place else ()))

    @property
    def place(self) -> str | None:
        """The partition column."""
        return {Kind.PARTITIONED: "day", Kind.PARTITIONED_BY_NUMBER: "hour"}.get(self)

    @property
    def changeable(self) -> tuple[str, ...]:
        """Columns that an UPDATE may set: neither partition columns nor bucketing columns."""
        return ("name", "amount") if self is Kind.BUCKETED else ("id", "name", "amount")


class Step(Protocol):
    """A statement on table ``table``, and the rows after it."""

    def sql(self, table: str) -> str: ...

    def after(self, rows: list[Record]) -> list[Record]: ...


@dataclass(frozen=True)
class Place:
    """A partition that a statement names.

    :param value: None for that of the rows without a value.
    """

    column: str
    value: Value

    def sql(self) -> str:
        return f" PARTITION ({self.column} = {literal(DEFAULT_PARTITION if self.value is None else self.value)})"


def _partition(place: Place | None) -> str:
    return "" if place is None else place.sql()


def _place_column(columns: Sequence[str]) -> str | None:
    return next((name for name in columns if name in PLACES), None)


def _matching(rows: Sequence[Record], condition: Condition) -> list[Record]:
    return [row for row in rows if condition.holds(row) is True]


@dataclass(frozen=True)
class Insert:
    """INSERT … VALUES.

    :param place: the static partition; its column is then not among the values.
    """

    rows: tuple[Record, ...]
    place: Place | None = None

    def sql(self, table: str) -> str:
        static = self.place.column if self.place else None
        values = ((v for name, v in row.items() if name != static) for row in self.rows)
        text = ", ".join(f"({', '.join(map(literal, row))})" for row in values)
        return f"INSERT INTO {table}{_partition(self.place)} VALUES {text}"

    def after(self, rows: list[Record]) -> list[Record]:
        return rows + [dict(row) for row in self.rows]


@dataclass(frozen=True)
class InsertSelect:
    """INSERT of the table's own rows with other ids."""

    columns: tuple[str, ...]
    condition: Condition
    shift: int
    place: Place | None = None
    overwrite: bool = False

    def sql(self, table: str) -> str:
        into = "OVERWRITE TABLE" if self.overwrite else "INTO"
        static = self.place.column if self.place else None
        names = [name for name in self.columns if name != static]
        select = ", ".join(f"id + {self.shift}" if name == "id" else name for name in names)
        return (
            f"INSERT {into} {table}{_partition(self.place)} SELECT {select} FROM {table} WHERE {self.condition.sql('')}"
        )

    def after(self, rows: list[Record]) -> list[Record]:
        new = [{**row, "id": Plus("id", self.shift).value(row)} for row in _matching(rows, self.condition)]
        if self.place is not None:
            new = [{**row, self.place.column: self.place.value} for row in new]
        return (self._left(rows, new) if self.overwrite else rows) + new

    def _left(self, rows: list[Record], new: list[Record]) -> list[Record]:
        """A static partition is overwritten; of dynamic ones, those which get rows."""
        column = _place_column(self.columns)
        if column is None:
            return []
        replaced = {row[column] for row in new} if self.place is None else {self.place.value}
        return [row for row in rows if row[column] not in replaced]


@dataclass(frozen=True)
class Update:
    """UPDATE … SET; all expressions see the old row."""

    assignments: tuple[tuple[str, Expression], ...]
    condition: Condition

    def sql(self, table: str) -> str:
        changes = ", ".join(f"{name} = {value.sql('')}" for name, value in self.assignments)
        return f"UPDATE {table} SET {changes} WHERE {self.condition.sql('')}"

    def after(self, rows: list[Record]) -> list[Record]:
        return [_changed(row, self.assignments, row) if self.condition.holds(row) is True else row for row in rows]


def _changed(row: Record, assignments: Sequence[tuple[str, Expression]], source: Record) -> Record:
    return {**row, **{name: value.value(source) for name, value in assignments}}


@dataclass(frozen=True)
class Delete:
    """DELETE … WHERE."""

    condition: Condition

    def sql(self, table: str) -> str:
        return f"DELETE FROM {table} WHERE {self.condition.sql('')}"

    def after(self, rows: list[Record]) -> list[Record]:
        return [row for row in rows if self.condition.holds(row) is not True]


@dataclass(frozen=True)
class Merge:
    """MERGE with one source row per id: delete, update, insert.

    :param doomed: matched rows are deleted where it holds, for the target's row.
    :param assignments: what the other matched rows get, made from the source's row.
    :param wanted: source rows without a match are inserted where it holds.
    """

    columns: tuple[str, ...]
    source: tuple[Record, ...]
    doomed: Condition
    assignments: tuple[tuple[str, Expression], ...]
    wanted: Condition
    update_condition: Condition | None = None

    def sql(self, table: str) -> str:
        # One branch of a UNION ALL for each row would exceed the number of counters that Tez has.
        values = ", ".join(literal(value, TYPES[name]) for row in self.source for name, value in row.items())
        source = f"SELECT stack({len(self.source)}, {values}) AS ({', '.join(self.columns)})"
        by = " AND ".join(f"t.{key} = s.{key}" for key in self._keys())
        extra = f" AND {self.update_condition.sql('t.')}" if self.update_condition else ""
        changes = ", ".join(f"{name} = {value.sql('s.')}" for name, value in self.assignments)
        return (
            f"MERGE INTO {table} t USING ({source}) s ON {by} "
            f"WHEN MATCHED AND {self.doomed.sql('t.')} THEN DELETE "
            f"WHEN MATCHED{extra} THEN UPDATE SET {changes} "
            f"WHEN NOT MATCHED AND {self.wanted.sql('s.')} THEN INSERT VALUES "
            f"({', '.join(f's.{name}' for name in self.columns)})"
        )

    def after(self, rows: list[Record]) -> list[Record]:
        left: list[Record] = []
        hit: list[int] = []
        for row in rows:
            found = [n for n, source in enumerate(self.source) if self._joins(row, source)]
            hit += found
            if not found:
                left.append(row)
            elif self.doomed.holds(row) is True:
                continue
            elif self.update_condition is None or self.update_condition.holds(row) is True:
                left.append(_changed(row, self.assignments, self.source[found[0]]))
            else:
                left.append(row)
        others = [row for number, row in enumerate(self.source) if number not in hit]
        return left + [dict(row) for row in _matching(others, self.wanted)]

    def _keys(self) -> tuple[str, ...]:
        column = _place_column(self.columns)
        return ("id",) if column is None else ("id", column)

    def _joins(self, row: Record, source: Record) -> bool:
        return all(row[key] is not None and row[key] == source[key] for key in self._keys())


@dataclass(frozen=True)
class Compact:
    """A request for a compaction, which its side then works on.

    :param options: what follows the type.
    """

    type: str
    place: Place | None
    options: str = ""

    def sql(self, table: str) -> str:
        return f"ALTER TABLE {table}{_partition(self.place)} COMPACT '{self.type}'{self.options}"

    def after(self, rows: list[Record]) -> list[Record]:
        return rows


@dataclass(frozen=True)
class Clean:
    """The Cleaner, until nothing of the table waits for it."""

    def sql(self, table: str) -> str:
        return f"-- the Cleaner on {table}"

    def after(self, rows: list[Record]) -> list[Record]:
        return rows


@dataclass(frozen=True)
class Program:
    """A table and what happens to it."""

    kind: Kind
    steps: tuple[tuple[Side, Step], ...]

    def text(self, table: str = "t") -> str:
        """All of it, a line per step."""
        return "\n".join([f"{self.kind.value}", *(f"{side.value}: {step.sql(table)}" for side, step in self.steps)])


def program(seed: int) -> Program:
    """The program of a seed: four seeds in a row have the four kinds of table."""
    return _Writer(list(Kind)[seed % len(Kind)], random.Random(seed)).write()


def _is_wrong_in_hive(step: Step) -> bool:
    """Hive 4.1 rebalances a partition by writing the rows of all partitions into it; tested apart."""
    return isinstance(step, Compact) and step.type == "rebalance" and step.place is not None


@dataclass
class _Writer:
    """Writes one program, with the model running along: it must know which partitions there are."""

    kind: Kind
    random: random.Random
    rows: list[Record] = field(default_factory=list)
    places: set[Value] = field(default_factory=set)

    def write(self) -> Program:
        steps: list[tuple[Side, Step]] = []
        while len(steps) < STEPS:
            step = self._insert() if not steps else self._step()
            self.rows = step.after(self.rows)
            if self.kind.place:
                self.places |= {row[self.kind.place] for row in self.rows}
            side = self.random.choice(list(Side))
            steps.append((Side.OURS if _is_wrong_in_hive(step) else side, step))
        return Program(self.kind, tuple(steps))

    def _step(self) -> Step:
        weights: dict[Callable[[], Step], int] = {
            self._insert: 2,
            self._insert_select: 2 if len(self.rows) <= MOST_ROWS else 0,
            self._update: 4,
            self._delete: 3,
            self._merge: 4,
            self._overwrite: 1,
            self._compact: 4,
            Clean: 1,
        }
        (choice,) = self.random.choices(list(weights), list(weights.values()))
        return choice()

    def _insert(self) -> Step:
        place = self._static_place()
        rows = [self._record() for _ in range(self.random.randint(2, 8))]
        return Insert(tuple(row if place is None else {**row, place.column: place.value} for row in rows), place)

    def _insert_select(self) -> Step:
        return InsertSelect(self.kind.columns, self._condition(), self.random.choice((0, 5, 100)), self._static_place())

    def _overwrite(self) -> Step:
        shift = self.random.choice((0, 1))
        return InsertSelect(self.kind.columns, self._condition(), shift, self._static_place(), overwrite=True)

    def _update(self) -> Step:
        names = self.kind.changeable
        chosen = [name for name in names if self.random.random() < 0.5] or [self.random.choice(names)]
        return Update(tuple((name, self._expression(name)) for name in chosen), self._condition())

    def _delete(self) -> Step:
        return Delete(self._condition())

    def _merge(self) -> Step:
        ids: list[int | None] = [*self.random.sample(range(IDS), self.random.randint(1, 5))]
        if self.random.random() < 0.2:
            ids.append(None)  # joins nothing
        source = tuple({**self._record(), "id": number} for number in ids)
        chosen = [name for name in ("name", "amount") if self.random.random() < 0.7] or ["name"]
        changes = tuple((name, self._expression(name)) for name in chosen)
        update_condition = self._condition() if self.random.random() < 0.3 else None
        # In Hive a matched row of which the first condition is unknown gets to no later clause; tested apart.
        doomed = Known(self._condition())
        return Merge(self.kind.columns, source, doomed, changes, self._condition(), update_condition)

    def _compact(self) -> Step:
        place = None
        if self.kind.place:
            place = Place(self.kind.place, self.random.choice(sorted(self.places, key=str)))
        # Rows of a bucketed table stay in the buckets of their values.
        types = ("minor", "major") if self.kind is Kind.BUCKETED else ("minor", "major", "rebalance")
        (chosen,) = self.random.choices(types, (3, 3, 2)[: len(types)])
        options = self.random.choice(REBALANCES) if chosen == "rebalance" else ""
        return Compact(chosen, place, options)

    def _static_place(self) -> Place | None:
        """A partition to be named; that of NULL cannot be."""
        column = self.kind.place
        if column is None:
            return None
        value = self.random.choice((None, *(value for value in PLACES[column] if value is not None)))
        return None if value is None else Place(column, value)

    def _record(self) -> Record:
        return {name: self._value(name) for name in self.kind.columns}

    def _value(self, column: str) -> Value:
        if column in PLACES:
            return self.random.choice(PLACES[column])
        if column == "name":
            return self.random.choice(NAMES)
        return None if self.random.random() < 0.1 else self.random.randrange(IDS)

    def _expression(self, column: str) -> Expression:
        if self.random.random() < 0.5:
            return Literal(self._value(column), TYPES[column])
        return Suffixed("name", "!") if column == "name" else Plus(column, self.random.randint(1, 9))

    def _condition(self, depth: int = 2) -> Condition:
        column = self.random.choice(self.kind.columns)
        choice = self.random.random()
        if depth and choice < 0.15:
            return Not(self._condition(depth - 1))
        if depth and choice < 0.4:
            both = And if choice < 0.25 else Or
            return both(self._condition(depth - 1), self._condition(depth - 1))
        if choice < 0.5:
            return IsNull(column)
        if choice < 0.65:
            values = {value for value in (self._value(column) for _ in range(3)) if value is not None}
            return OneOf(column, tuple(sorted(values, key=str)) or (1 if TYPES[column] == "int" else "tea",))
        if choice < 0.8 and TYPES[column] == "int":
            return Remainder(column, self.random.randint(2, 3), self.random.randint(0, 1))
        operator = self.random.choice(COMPARISONS)
        value = self._value(column)
        return Compare(column, operator, value if operator == NULL_SAFE or value is not None else self._value(column))
