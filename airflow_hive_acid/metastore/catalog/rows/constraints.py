"""Constraints of tables as Hive keeps them: rows of KEY_CONSTRAINTS."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sqlalchemy import and_, delete, insert, select, update

from airflow_hive_acid.errors import AlreadyExistsError, InvalidArgumentsError, NoSuchObjectError
from airflow_hive_acid.metastore.catalog.rows.reader import read_tables
from airflow_hive_acid.metastore.catalog.values.constraints import (
    ENABLED,
    RELIED,
    Constraint,
    ConstraintKind,
    check_constraints,
)
from airflow_hive_acid.metastore.names.objects import table_name
from airflow_hive_acid.metastore.schema.hive_catalog import COLUMNS_V2, DBS, KEY_CONSTRAINTS, TBLS

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
        if constraint.kind is ConstraintKind.FOREIGN_KEY:
            rows += _foreign_key_rows(connection, table, constraint)
            continue
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


def _foreign_key_rows(connection: Connection, table: Table, constraint: Constraint) -> list[dict[str, Any]]:
    """In Hive's words the table itself is the child; what it refers to is the parent, and there must be a key of that.

    :raises InvalidArgumentsError: when the other table has no such key, or columns of other types.
    :raises NoSuchObjectError: when there is no such table.
    """
    key = table_name(constraint.parent or "")
    where = f"table {table.qualified_name}: FOREIGN KEY ({', '.join(constraint.columns)})"
    parent = table if str(key) == table.qualified_name else read_tables(connection, [key]).get(key)
    if parent is None or parent.is_view:
        raise NoSuchObjectError(f"{where}: there is no table {key}")
    unique = (ConstraintKind.PRIMARY_KEY, ConstraintKind.UNIQUE)
    keys = [c.columns for c in read_constraints(connection, parent) if c.kind in unique]
    if constraint.parent_columns not in keys:
        said = " and ".join(f"({', '.join(columns)})" for columns in keys) or "none"
        raise InvalidArgumentsError(
            f"{where} refers to ({', '.join(constraint.parent_columns)}) of {key}, which is no PRIMARY KEY or UNIQUE "
            f"there; keys of it are {said}"
        )
    places: list[list[int]] = []
    for one, columns in ((table, constraint.columns), (parent, constraint.parent_columns)):
        names = [c.name for c in one.columns]
        places.append([names.index(column) for column in columns])
    for here, there in zip(*places, strict=True):
        if table.columns[here].type != parent.columns[there].type:
            raise InvalidArgumentsError(
                f"{where}: {table.columns[here].name} is {table.columns[here].type}, and "
                f"{parent.columns[there].name} of {key} is {parent.columns[there].type}; both need one type"
            )
    if table.storage.ids is None or parent.storage.ids is None:
        raise AssertionError("the columns of a table that is nowhere")
    return [
        {
            "CHILD_CD_ID": table.storage.ids.columns, "CHILD_INTEGER_IDX": here, "CHILD_TBL_ID": table.id,
            "PARENT_CD_ID": parent.storage.ids.columns, "PARENT_INTEGER_IDX": there, "PARENT_TBL_ID": parent.id,
            "POSITION": position, "CONSTRAINT_NAME": constraint.name, "CONSTRAINT_TYPE": int(constraint.kind),
            "UPDATE_RULE": 0, "DELETE_RULE": 0, "ENABLE_VALIDATE_RELY": constraint.bits, "DEFAULT_VALUE": None,
        }
        for position, (here, there) in enumerate(zip(*places, strict=True), 1)
    ]  # fmt: skip


def _of_table(table: Table) -> Any:
    """Its own constraints: a foreign key stands with the table that it refers to."""
    c = KEY_CONSTRAINTS.c
    foreign = c.CONSTRAINT_TYPE == int(ConstraintKind.FOREIGN_KEY)
    return (~foreign & (c.PARENT_TBL_ID == table.id)) | (foreign & (c.CHILD_TBL_ID == table.id))


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
    connection.execute(delete(KEY_CONSTRAINTS).where(_of_table(table), KEY_CONSTRAINTS.c.CONSTRAINT_NAME == name))


def delete_constraints(connection: Connection, table: Table) -> None:
    """Forget all constraints of a table; foreign keys of others to it stay."""
    connection.execute(delete(KEY_CONSTRAINTS).where(_of_table(table)))


def read_constraints(connection: Connection, table: Table) -> list[Constraint]:
    """All constraints of a table, by name; what is not read any more, as a key of a table that is gone, is left out."""
    columns = [c.name for c in table.columns]
    c = KEY_CONSTRAINTS.c
    found: dict[str, Constraint] = {}
    for row in connection.execute(
        select(KEY_CONSTRAINTS, DBS.c.NAME.label("PARENT_DB"), TBLS.c.TBL_NAME, COLUMNS_V2.c.COLUMN_NAME)
        .join(TBLS, TBLS.c.TBL_ID == c.PARENT_TBL_ID)
        .join(DBS, DBS.c.DB_ID == TBLS.c.DB_ID)
        .outerjoin(
            COLUMNS_V2,
            and_(COLUMNS_V2.c.CD_ID == c.PARENT_CD_ID, COLUMNS_V2.c.INTEGER_IDX == c.PARENT_INTEGER_IDX),
        )
        .where(_of_table(table), c.CONSTRAINT_TYPE.in_([int(kind) for kind in ConstraintKind]))
        .order_by(c.CONSTRAINT_NAME, c.POSITION)
    ):
        kind = ConstraintKind(row.CONSTRAINT_TYPE)
        foreign = kind is ConstraintKind.FOREIGN_KEY
        index = row.CHILD_INTEGER_IDX if foreign else row.PARENT_INTEGER_IDX
        column = (columns[index],) if 0 <= index < len(columns) else ()
        referred = (row.COLUMN_NAME,) if foreign and row.COLUMN_NAME is not None else ()
        known = found.get(row.CONSTRAINT_NAME)
        if known is not None:
            found[row.CONSTRAINT_NAME] = replace(
                known, columns=(*known.columns, *column), parent_columns=(*known.parent_columns, *referred)
            )
            continue
        bits = row.ENABLE_VALIDATE_RELY
        found[row.CONSTRAINT_NAME] = Constraint(
            kind, column, row.CONSTRAINT_NAME, bool(bits & ENABLED), bool(bits & RELIED), row.DEFAULT_VALUE,
            f"{row.PARENT_DB}.{row.TBL_NAME}" if foreign else None, referred,
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
