"""Constraints of tables as Hive keeps them: rows of KEY_CONSTRAINTS."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from sqlalchemy import delete, insert, select, update

from airflow_hive_acid.errors import AlreadyExistsError, NoSuchObjectError
from airflow_hive_acid.metastore.catalog.values.constraints import (
    ENABLED,
    RELIED,
    Constraint,
    ConstraintKind,
    check_constraints,
)
from airflow_hive_acid.metastore.schema.hive_catalog import KEY_CONSTRAINTS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import Connection

    from airflow_hive_acid.metastore.catalog.values.model import Table


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


def delete_constraints(connection: Connection, table: Table) -> None:
    """Forget all constraints of a table; foreign keys of others to it stay."""
    c = KEY_CONSTRAINTS.c
    of_others = c.CHILD_TBL_ID.is_not(None) & (c.CHILD_TBL_ID != table.id)
    connection.execute(delete(KEY_CONSTRAINTS).where(c.PARENT_TBL_ID == table.id, ~of_others))


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
            ConstraintKind(row.CONSTRAINT_TYPE), column, row.CONSTRAINT_NAME, bool(bits & ENABLED),
            bool(bits & RELIED), row.DEFAULT_VALUE,
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
