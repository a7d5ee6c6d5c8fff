"""What databases, tables and partitions have alike: parameters, and descriptors of columns that several may share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy import bindparam, delete, exists, insert, select, update

from airflow_hive_acid.metastore.schema.hive_catalog import CDS, COLUMNS_V2, SDS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from sqlalchemy import Connection

    from airflow_hive_acid.format.jobs import Column


def insert_many(connection: Connection, target: Any, rows: Sequence[dict[str, Any]]) -> None:
    """Insert rows into a table; none is fine."""
    if rows:
        connection.execute(insert(target), rows)


def change_parameters(
    connection: Connection,
    target: Any,
    owner: str,
    changes: Iterable[tuple[int, Mapping[str, str], Mapping[str, str]]],
) -> None:
    """Parameters of many owners, from what they are to what they shall be.

    :param target: the table that holds them.
    :param owner: its column with the owner's id.
    :param changes: an id, the parameters as they are, and as they shall be.
    """
    gone, other, new = [], [], []
    for i, before, after in changes:
        gone += [{"b_id": i, "b_key": key} for key in before if key not in after]
        for key, value in after.items():
            if key not in before:
                new.append({owner: i, "PARAM_KEY": key, "PARAM_VALUE": value})
            elif before[key] != value:
                other.append({"b_id": i, "b_key": key, "b_value": value})
    one = (target.c[owner] == bindparam("b_id")) & (target.c.PARAM_KEY == bindparam("b_key"))
    if gone:
        connection.execute(delete(target).where(one), gone)
    if other:
        connection.execute(update(target).where(one).values(PARAM_VALUE=bindparam("b_value")), other)
    insert_many(connection, target, new)


def described(columns: Iterable[Column], comments: Mapping[str, str]) -> list[tuple[str, str, str | None]]:
    """Columns as :func:`insert_columns` takes them."""
    return [(column.name, column.type, comments.get(column.name)) for column in columns]


def insert_columns(connection: Connection, by_id: Mapping[int, Iterable[tuple[str, str, str | None]]]) -> None:
    """New descriptors of columns.

    :param by_id: name, type and comment of each column, by the id of its descriptor.
    """
    insert_many(connection, CDS, [{"CD_ID": i} for i in by_id])
    insert_many(connection, COLUMNS_V2, [
        {"CD_ID": i, "COMMENT": comment, "COLUMN_NAME": name, "TYPE_NAME": kind, "INTEGER_IDX": index}
        for i, columns in by_id.items()
        for index, (name, kind, comment) in enumerate(columns)
    ])  # fmt: skip


def delete_unused_columns(connection: Connection, ids: Iterable[int | None]) -> None:
    """Delete those of the descriptors that nothing uses any more."""
    wanted = sorted({i for i in ids if i is not None})
    for child in (COLUMNS_V2, CDS):
        unused = ~exists(select(SDS.c.SD_ID).where(SDS.c.CD_ID == child.c.CD_ID))
        connection.execute(delete(child).where(child.c.CD_ID.in_(wanted), unused))
