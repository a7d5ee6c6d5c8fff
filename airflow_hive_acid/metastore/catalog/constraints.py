"""Constraints of tables as Hive keeps them: rows of KEY_CONSTRAINTS, their rules, and what of them writes obey.

Of those that are enabled NOT NULL, DEFAULT and CHECK are obeyed by writers, Hive's and ours. PRIMARY KEY and UNIQUE
are kept for readers and planners; like Hive this package takes them DISABLE NOVALIDATE only, because nobody checks
them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import IntEnum
from typing import TYPE_CHECKING

from sqlalchemy import delete, insert, select, update

from airflow_hive_acid.errors import AlreadyExistsError, InvalidArgumentsError, NoSuchObjectError
from airflow_hive_acid.metastore.schema.hive_catalog import KEY_CONSTRAINTS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import Connection

    from airflow_hive_acid.metastore.catalog.model import Table

LONGEST_NAME, LONGEST_VALUE = 255, 255
"""Characters of a constraint's name and of its expression, as Hive takes them."""


class ConstraintKind(IntEnum):
    """CONSTRAINT_TYPE of Hive's MConstraint; FOREIGN KEY (1) is not made here."""

    PRIMARY_KEY = 0
    UNIQUE = 2
    NOT_NULL = 3
    DEFAULT = 4
    CHECK = 5

    @property
    def words(self) -> str:
        """As SQL writes it."""
        return self.name.replace("_", " ")


_SHORT = {
    ConstraintKind.PRIMARY_KEY: "pk", ConstraintKind.UNIQUE: "uk", ConstraintKind.NOT_NULL: "nn",
    ConstraintKind.DEFAULT: "dc", ConstraintKind.CHECK: "cc",
}  # fmt: skip
_ENABLED, _VALIDATED, _RELIED = 4, 2, 1


@dataclass(frozen=True, slots=True)
class Constraint:
    """A constraint of a table.

    :param columns: of a key all of them; of CHECK the column it was said of, none if it was said of the table.
    :param name: None for one that is made up.
    :param enabled: writers obey it.
    :param relied: planners may count on it.
    :param value: the expression of DEFAULT and CHECK.
    """

    kind: ConstraintKind
    columns: tuple[str, ...]
    name: str | None = None
    enabled: bool = True
    relied: bool = True
    value: str | None = None

    @property
    def bits(self) -> int:
        """ENABLE_VALIDATE_RELY; nothing is validated, as in Hive."""
        return _ENABLED * self.enabled + _RELIED * self.relied


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
    if constraint.enabled and kind in (ConstraintKind.PRIMARY_KEY, ConstraintKind.UNIQUE):
        raise InvalidArgumentsError(
            f"{where}: {words}: ENABLE/ENFORCED feature not supported yet. Please use DISABLE NOVALIDATE instead: "
            "nobody looks whether values come twice"
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


def insert_constraints(connection: Connection, table: Table, constraints: Sequence[Constraint]) -> None:
    """The rows of new constraints of a table that is there, as Hive's ObjectStore writes them.

    :param constraints: checked ones.
    """
    columns = [c.name for c in table.columns]
    if table.storage.ids is None:
        raise AssertionError("the columns of a table that is nowhere")
    of_columns = table.storage.ids.columns
    rows = []
    for constraint in constraints:
        for position, column in enumerate(constraint.columns or ("",), 1):
            found = column in columns
            rows.append({
                "CHILD_CD_ID": None, "CHILD_INTEGER_IDX": None, "CHILD_TBL_ID": None,
                "PARENT_CD_ID": of_columns if found or not column else None,
                "PARENT_INTEGER_IDX": columns.index(column) if found else -1,
                "PARENT_TBL_ID": table.id, "POSITION": position, "CONSTRAINT_NAME": constraint.name,
                "CONSTRAINT_TYPE": int(constraint.kind), "UPDATE_RULE": None, "DELETE_RULE": None,
                "ENABLE_VALIDATE_RELY": constraint.bits, "DEFAULT_VALUE": constraint.value,
            })  # fmt: skip
    if rows:
        connection.execute(insert(KEY_CONSTRAINTS), rows)


def add_constraint(connection: Connection, table: Table, constraint: Constraint) -> None:
    """ADD CONSTRAINT.

    :raises AlreadyExistsError: when the table has one of that name.
    :raises InvalidArgumentsError: when it cannot be, or the table has a primary key already.
    """
    where = f"table {table.qualified_name}"
    known = read_constraints(connection, table)
    if constraint.name is not None and any(constraint.name == other.name for other in known):
        raise AlreadyExistsError(f"{where} has a constraint {constraint.name} already; drop it first")
    if constraint.kind in (ConstraintKind.NOT_NULL, ConstraintKind.DEFAULT):
        same = [c.name for c in known if (c.kind, c.columns) == (constraint.kind, constraint.columns)]
        if same:
            raise AlreadyExistsError(
                f"{where}: column {constraint.columns[0]} has {constraint.kind.words} already ({same[0]}); drop that"
            )
    columns, keys = [c.name for c in table.columns], [c.name for c in table.partition_columns]
    *_, checked = check_constraints(where, [*known, constraint], columns, keys)
    insert_constraints(connection, table, [checked])


def drop_constraint(connection: Connection, table: Table, name: str) -> None:
    """DROP CONSTRAINT.

    :raises NoSuchObjectError: naming those that there are.
    """
    known = [c.name or "" for c in read_constraints(connection, table)]
    if name not in known:
        raise NoSuchObjectError(
            f"table {table.qualified_name} has no constraint {name}; it has {', '.join(sorted(set(known))) or 'none'}"
        )
    here = (KEY_CONSTRAINTS.c.PARENT_TBL_ID == table.id, KEY_CONSTRAINTS.c.CONSTRAINT_NAME == name)
    connection.execute(delete(KEY_CONSTRAINTS).where(*here))


def read_constraints(connection: Connection, table: Table) -> list[Constraint]:
    """All constraints of a table but its foreign keys, by name."""
    columns = [c.name for c in table.columns]
    c = KEY_CONSTRAINTS.c
    found: dict[str, Constraint] = {}
    for row in connection.execute(
        select(KEY_CONSTRAINTS)
        .where(c.PARENT_TBL_ID == table.id, c.CONSTRAINT_TYPE.in_([int(kind) for kind in ConstraintKind]))
        .order_by(c.CONSTRAINT_NAME, c.POSITION)
    ):
        index = row.PARENT_INTEGER_IDX
        column = (columns[index],) if 0 <= index < len(columns) else ()
        known = found.get(row.CONSTRAINT_NAME)
        if known is not None:
            found[row.CONSTRAINT_NAME] = replace(known, columns=(*known.columns, *column))
            continue
        bits = row.ENABLE_VALIDATE_RELY
        found[row.CONSTRAINT_NAME] = Constraint(
            ConstraintKind(row.CONSTRAINT_TYPE), column, row.CONSTRAINT_NAME, bool(bits & _ENABLED),
            bool(bits & _RELIED), row.DEFAULT_VALUE,
        )  # fmt: skip
    return list(found.values())


def follow_columns(connection: Connection, table_id: int, old: int | None, new: int) -> None:
    """Let the constraints of a table name its columns where they are now: their places stay, the list is another."""
    for owner, of_columns in (
        (KEY_CONSTRAINTS.c.PARENT_TBL_ID, KEY_CONSTRAINTS.c.PARENT_CD_ID),
        (KEY_CONSTRAINTS.c.CHILD_TBL_ID, KEY_CONSTRAINTS.c.CHILD_CD_ID),
    ):
        connection.execute(
            update(KEY_CONSTRAINTS).where(owner == table_id, of_columns == old).values({of_columns.name: new})
        )
