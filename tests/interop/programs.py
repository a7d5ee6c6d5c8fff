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
DAYS = ("mon", "tue", "a b/c=d:e%f")
NAMES: tuple[str | None, ...] = ("tea", "jam", "é漢", "", None)
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

    @property
    def columns(self) -> tuple[str, ...]:
        return ("id", "name", "amount", *(("day",) if self is Kind.PARTITIONED else ()))

    @property
    def changeable(self) -> tuple[str, ...]:
        """Columns that an UPDATE may set: neither partition columns nor bucketing columns."""
        return ("name", "amount") if self is Kind.BUCKETED else ("id", "name", "amount")


class Step(Protocol):
    """A statement on table ``table``, and the rows after it."""

    def sql(self, table: str) -> str: ...

    def after(self, rows: list[Record]) -> list[Record]: ...


def _partition(day: str | None) -> str:
    return "" if day is None else f" PARTITION (day = {literal(day)})"


def _matching(rows: Sequence[Record], condition: Condition) -> list[Record]:
    return [row for row in rows if condition.holds(row) is True]


@dataclass(frozen=True)
class Insert:
    """INSERT … VALUES.

    :param day: the static partition; its column is then not among the values.
    """

    rows: tuple[Record, ...]
    day: str | None = None

    def sql(self, table: str) -> str:
        values = ((v for name, v in row.items() if not (self.day and name == "day")) for row in self.rows)
        text = ", ".join(f"({', '.join(map(literal, row))})" for row in values)
        return f"INSERT INTO {table}{_partition(self.day)} VALUES {text}"

    def after(self, rows: list[Record]) -> list[Record]:
        return rows + [dict(row) for row in self.rows]


@dataclass(frozen=True)
class InsertSelect:
    """INSERT of the table's own rows with other ids."""

    columns: tuple[str, ...]
    condition: Condition
    shift: int
    day: str | None = None
    overwrite: bool = False

    def sql(self, table: str) -> str:
        into = "OVERWRITE TABLE" if self.overwrite else "INTO"
        names = [name for name in self.columns if not (self.day and name == "day")]
        select = ", ".join(f"id + {self.shift}" if name == "id" else name for name in names)
        return (
            f"INSERT {into} {table}{_partition(self.day)} SELECT {select} FROM {table} WHERE {self.condition.sql('')}"
        )

    def after(self, rows: list[Record]) -> list[Record]:
        new = [{**row, "id": Plus("id", self.shift).value(row)} for row in _matching(rows, self.condition)]
        if self.day is not None:
            new = [{**row, "day": self.day} for row in new]
        return (self._left(rows, new) if self.overwrite else rows) + new

    def _left(self, rows: list[Record], new: list[Record]) -> list[Record]:
        """A static partition is overwritten; of dynamic ones, those which get rows."""
        if "day" not in self.columns:
            return []
        days = {row["day"] for row in new} if self.day is None else {self.day}
        return [row for row in rows if row["day"] not in days]


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
        by = "t.id = s.id" + (" AND t.day = s.day" if "day" in self.columns else "")
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

    def _joins(self, row: Record, source: Record) -> bool:
        keys = ("id", "day") if "day" in self.columns else ("id",)
        return all(row[key] is not None and row[key] == source[key] for key in keys)


@dataclass(frozen=True)
class Compact:
    """A request for a compaction, which its side then works on."""

    type: str
    day: str | None

    def sql(self, table: str) -> str:
        return f"ALTER TABLE {table}{_partition(self.day)} COMPACT '{self.type}'"

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
    """The program of a seed: three seeds in a row have the three kinds of table."""
    return _Writer(list(Kind)[seed % len(Kind)], random.Random(seed)).write()


@dataclass
class _Writer:
    """Writes one program, with the model running along: it must know which partitions there are."""

    kind: Kind
    random: random.Random
    rows: list[Record] = field(default_factory=list)
    days: set[str] = field(default_factory=set)

    def write(self) -> Program:
        steps: list[tuple[Side, Step]] = []
        while len(steps) < STEPS:
            step = self._insert() if not steps else self._step()
            self.rows = step.after(self.rows)
            self.days |= {str(row["day"]) for row in self.rows if "day" in row}
            steps.append((self.random.choice(list(Side)), step))
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
        day = self._static_day()
        rows = [self._record() for _ in range(self.random.randint(2, 8))]
        return Insert(tuple(row if day is None else {**row, "day": day} for row in rows), day)

    def _insert_select(self) -> Step:
        return InsertSelect(self.kind.columns, self._condition(), self.random.choice((0, 5, 100)), self._static_day())

    def _overwrite(self) -> Step:
        shift = self.random.choice((0, 1))
        return InsertSelect(self.kind.columns, self._condition(), shift, self._static_day(), overwrite=True)

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
        day = self.random.choice(sorted(self.days)) if self.kind is Kind.PARTITIONED else None
        return Compact(self.random.choice(("minor", "major")), day)

    def _static_day(self) -> str | None:
        return self.random.choice((None, *DAYS)) if self.kind is Kind.PARTITIONED else None

    def _record(self) -> Record:
        return {name: self._value(name) for name in self.kind.columns}

    def _value(self, column: str) -> Value:
        if column == "day":
            return self.random.choice(DAYS)
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
