"""Constraints of tables as values: the rules by which they can be, and what of them writes obey.

Of those that are enabled NOT NULL, DEFAULT and CHECK are obeyed by writers, Hive's and ours. PRIMARY KEY, UNIQUE and
FOREIGN KEY are kept for readers and planners; like Hive this package takes them DISABLE NOVALIDATE only, because nobody
checks them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import IntEnum
from typing import TYPE_CHECKING

from airflow_hive_acid.errors import InvalidArgumentsError

if TYPE_CHECKING:
    from collections.abc import Sequence

LONGEST_NAME, LONGEST_VALUE = 255, 255
"""Characters of a constraint's name and of its expression, as Hive takes them."""


class ConstraintKind(IntEnum):
    """CONSTRAINT_TYPE of Hive's MConstraint."""

    PRIMARY_KEY = 0
    FOREIGN_KEY = 1
    UNIQUE = 2
    NOT_NULL = 3
    DEFAULT = 4
    CHECK = 5

    @property
    def words(self) -> str:
        """As SQL writes it."""
        return self.name.replace("_", " ")


_SHORT = {
    ConstraintKind.PRIMARY_KEY: "pk", ConstraintKind.FOREIGN_KEY: "fk", ConstraintKind.UNIQUE: "uk",
    ConstraintKind.NOT_NULL: "nn", ConstraintKind.DEFAULT: "dc", ConstraintKind.CHECK: "cc",
}  # fmt: skip
KEYS = (ConstraintKind.PRIMARY_KEY, ConstraintKind.UNIQUE, ConstraintKind.FOREIGN_KEY)
"""Kinds that nobody enforces."""
ENABLED, RELIED = 4, 1
"""Bits of ENABLE_VALIDATE_RELY; 2 is for a constraint that was validated, which none is."""


@dataclass(frozen=True, slots=True)
class Constraint:
    """A constraint of a table.

    :param columns: of a key all of them; of CHECK the column it was said of, none if it was said of the table.
    :param name: None for one that is made up.
    :param enabled: writers obey it.
    :param relied: planners may count on it.
    :param value: the expression of DEFAULT and CHECK.
    :param parent: of FOREIGN KEY the table that it refers to, ``db.table``; ``parent_columns`` its columns.
    """

    kind: ConstraintKind
    columns: tuple[str, ...]
    name: str | None = None
    enabled: bool = True
    relied: bool = True
    value: str | None = None
    parent: str | None = None
    parent_columns: tuple[str, ...] = ()

    @property
    def bits(self) -> int:
        """ENABLE_VALIDATE_RELY; nothing is validated, as in Hive."""
        return ENABLED * self.enabled + RELIED * self.relied


def check_constraints(
    where: str, constraints: Sequence[Constraint], columns: Sequence[str], keys: Sequence[str] = ()
) -> tuple[Constraint, ...]:
    """The constraints with the names that they will have.

    :param columns: data columns of the table; ``keys`` are its partition columns.
    :raises InvalidArgumentsError: naming the first that cannot be.
    """
    taken = {c.name for c in constraints if c.name is not None}
    named: list[Constraint] = []
    seen: set[str] = set()
    for constraint in constraints:
        _check(where, constraint, columns, keys)
        name = constraint.name
        if name is None:
            name = _made_up(constraint, taken)
            taken.add(name)
        elif name in seen:
            raise InvalidArgumentsError(f"{where}: two constraints are called {name}")
        seen.add(name)
        named.append(replace(constraint, name=name))
    single = [(c.kind, c.columns) for c in named if c.kind in (ConstraintKind.NOT_NULL, ConstraintKind.DEFAULT)]
    for kind, of in single:
        if single.count((kind, of)) > 1:
            raise InvalidArgumentsError(f"{where}: column {of[0]} has {kind.words} twice")
    if sum(c.kind is ConstraintKind.PRIMARY_KEY for c in named) > 1:
        raise InvalidArgumentsError(f"{where} has two primary keys")
    return tuple(named)


def _check(where: str, constraint: Constraint, columns: Sequence[str], keys: Sequence[str]) -> None:
    words, kind = constraint.kind.words, constraint.kind
    for column in constraint.columns:
        if column not in columns:
            of = "is a partition column, which takes no constraint" if column in keys else "is none of its columns"
            raise InvalidArgumentsError(f"{where}: {words} ({column}): {column} {of}")
    if constraint.enabled and kind in KEYS:
        raise InvalidArgumentsError(
            f"{where}: {words}: ENABLE/ENFORCED feature not supported yet. Please use DISABLE NOVALIDATE instead: "
            "nobody looks whether values come twice, or are there"
        )
    if kind is ConstraintKind.FOREIGN_KEY and len(constraint.columns) != len(constraint.parent_columns):
        raise InvalidArgumentsError(
            f"{where}: {words}: {len(constraint.columns)} columns refer to {len(constraint.parent_columns)} of "
            f"{constraint.parent}"
        )
    if constraint.name is not None and not 0 < len(constraint.name) <= LONGEST_NAME:
        raise InvalidArgumentsError(f"{where}: the name of a constraint has 1 to {LONGEST_NAME} characters")
    if constraint.value is not None and len(constraint.value) > LONGEST_VALUE:
        raise InvalidArgumentsError(
            f"{where}: {words} has {len(constraint.value)} characters; the catalog holds {LONGEST_VALUE}"
        )


def _made_up(constraint: Constraint, taken: set[str]) -> str:
    stem = "_".join((_SHORT[constraint.kind], *constraint.columns))[: LONGEST_NAME - 8]
    name, number = stem, 1
    while name in taken:
        number += 1
        name = f"{stem}_{number}"
    return name
