"""Steps of a program, and what they are thrown with: values, rows, partitions and conditions by the dice of a seed."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from .tables import KEYS, Data, Place, Row, State, Value, literal, put

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

NAMES: tuple[str | None, ...] = ("tea", "jam", "é漢", "", None)
IDS = 9
"""So many ids there are: statements meet the same rows again."""


@dataclass(frozen=True)
class Step:
    """What is done, and the table then.

    :param alone: nobody may read the table meanwhile: pins go first.
    """

    after: State
    alone: bool = field(default=False, kw_only=True)

    def text(self) -> str:
        """For the person who reads a failure."""
        raise NotImplementedError


@dataclass(frozen=True)
class Sql(Step):
    """Statements, one after the other."""

    sql: str

    def text(self) -> str:
        return self.sql


@dataclass(frozen=True)
class Compact(Step):
    """ALTER TABLE … COMPACT, and the compaction itself."""

    sql: str

    def text(self) -> str:
        return f"{self.sql}; -- and run it"


@dataclass(frozen=True)
class Clean(Step):
    """The Cleaner removes what nobody needs."""

    def text(self) -> str:
        return "-- the Cleaner"


@dataclass(frozen=True)
class Pin(Step):
    """The table is pinned as it is."""

    def text(self) -> str:
        return "-- a pin"


@dataclass(frozen=True)
class Batch(Step):
    """A streaming batch.

    :param commits: the records of each of its commits, which may be none.
    """

    commits: tuple[tuple[dict[str, Value], ...], ...]

    def text(self) -> str:
        return f"-- a batch with the commits {self.commits}"


class Dice:
    """What a seed throws.

    :param places: URI of a directory for partitions elsewhere and for dumps.
    """

    def __init__(self, seed: int, places: str) -> None:
        self.random = random.Random(seed)
        self.places = places
        self._numbers = 0

    def some(self, chance: float) -> bool:
        """True with this chance."""
        return self.random.random() < chance

    def number(self) -> int:
        """One that was not given before, for a name."""
        self._numbers += 1
        return self._numbers

    def place(self, table: State) -> Place:
        """Values for the partition columns, none of them NULL."""
        return tuple(self.random.choice([v for v in KEYS[key][1] if v is not None]) for key in table.keys)

    def partition(self, table: State) -> Place | None:
        """A partition that there is, and that can be named; None if there is none."""
        known = table.named_partitions
        return self.random.choice(known) if known else None

    def static(self, table: State) -> Place | None:
        """The partition that an INSERT names; None for none: then values are dynamic."""
        return self.place(table) if table.keys and self.some(0.5) else None

    def row(self, table: State, place: Place | None = None) -> Row:
        """A row.

        :param place: its partition; None for any.
        """
        data: list[Value] = [self.random.randrange(IDS)]
        for column in table.columns[1:]:
            if column.type == "STRING":
                data.append(self.random.choice(NAMES))
            else:
                data.append(None if self.some(0.15) else self.random.randrange(IDS))
        return tuple(data), place or tuple(self.random.choice(KEYS[key][1]) for key in table.keys)

    def rows(self, table: State, place: Place | None, least: int, most: int) -> list[Row]:
        """So many rows."""
        return [self.row(table, place) for _ in range(self.random.randint(least, most))]

    def condition(self, table: State) -> tuple[str, Callable[[Data], bool]]:
        """A condition on the first two columns, and whether the data of a row meet it."""
        first, second = table.columns[0].name, table.columns[1].name
        match self.random.randrange(4):
            case 0:
                number = self.random.randrange(IDS)
                return f"{first} < {number}", lambda data: id_of(data) < number
            case 1:
                text = self.random.choice(NAMES)
                if text is None:
                    return f"{second} IS NULL", lambda data: data[1] is None
                return f"{second} = {literal(text)}", lambda data: data[1] == text
            case 2:
                rest = self.random.randrange(3)
                return f"{first} % 3 = {rest}", lambda data: id_of(data) % 3 == rest
        return "1 = 1", lambda _: True


def id_of(data: Data) -> int:
    """The first value of a row, which is never NULL."""
    assert isinstance(data[0], int)
    return data[0]


def values(table: State, rows: Sequence[Row], static: Place | None = None) -> str:
    """What comes behind VALUES.

    :param static: the partition that the statement names; its values are not among those of the rows then.
    """
    types = [*(column.type for column in table.columns), *(KEYS[key][0] for key in table.keys if static is None)]
    texts = []
    for data, place in rows:
        row = [*data, *(place if static is None else ())]
        texts.append(f"({', '.join(literal(value, type) for value, type in zip(row, types, strict=True))})")
    return ", ".join(texts)


def query(table: State, shift: int, static: Place | None) -> str:
    """A query of all rows for an INSERT into the same table.

    :param shift: what is added to the first column.
    """
    first, *others = [column.name for column in table.columns]
    names = [f"{first} + {shift}", *others, *(table.keys if static is None else ())]
    return f"SELECT {', '.join(names)} FROM {table.name}"  # noqa: S608 - words of the tests


def selected(table: State, holds: Callable[[Data], bool], shift: int, static: Place | None) -> list[Row]:
    """The rows of that query that meet a condition."""
    return [
        (put(table.whole(data), 0, id_of(data) + shift), place if static is None else static)
        for data, place in table.rows
        if holds(data)
    ]
