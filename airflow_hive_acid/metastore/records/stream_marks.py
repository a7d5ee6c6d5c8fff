"""What streams have committed into a table, as it belongs to the rows that are there: a replica gets both together.

The record of a stream says which micro-batches are in its table (R14). After a fail-over the query goes on there with
its checkpoint: what has come is skipped, and a start behind what has not come is noticed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sqlalchemy import bindparam, delete, insert, select, update

from airflow_hive_acid.metastore.catalog.rows.reader import read_tables, read_tables_by_id
from airflow_hive_acid.metastore.database.clock import clock_ms
from airflow_hive_acid.metastore.database.database import chunks
from airflow_hive_acid.metastore.records.streams import NONE_YET, digest
from airflow_hive_acid.metastore.schema.streams import HIVE_ACID_STREAM, offsets_text, read_offsets

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from sqlalchemy import Connection

    from airflow_hive_acid.metastore.names import TableName

_S = HIVE_ACID_STREAM.c
_OF_TABLE = _S.HSR_TABLE == bindparam("of_table")
_ONE = (_S.HSR_STREAM == bindparam("stream"), _OF_TABLE)
_MARKS = (
    select(
        _S.HSR_TABLE, _S.HSR_NAME, _S.HSR_SOURCE, _S.HSR_BATCH, _S.HSR_WRITEID, _S.HSR_BATCHES, _S.HSR_ROWS,
        _S.HSR_QUARANTINED, _S.HSR_OFFSETS, _S.HSR_WHO,
    )
    .where(_S.HSR_TABLE.in_(bindparam("tables", expanding=True)), _S.HSR_BATCH > NONE_YET)
    .order_by(_S.HSR_STREAM)
)  # fmt: skip
_KEYS = select(_S.HSR_STREAM).where(_OF_TABLE)
_IS_THERE = select(_S.HSR_TABLE).where(_S.HSR_STREAM == bindparam("stream"))
_LOCK = (
    select(_S.HSR_TABLE, _S.HSR_SOURCE, _S.HSR_OFFSETS).where(_S.HSR_STREAM == bindparam("stream")).with_for_update()
)
_FORGET = delete(HIVE_ACID_STREAM).where(*_ONE)
_BRING = (
    update(HIVE_ACID_STREAM)
    .where(_S.HSR_STREAM == bindparam("stream"))
    .values(HSR_TABLE=bindparam("new_table"), HSR_ATTEMPT="", HSR_UPDATED=clock_ms())
)
_ADD = insert(HIVE_ACID_STREAM).values(HSR_ATTEMPT="", HSR_OPEN_TXNS="[]", HSR_BEAT=clock_ms(), HSR_UPDATED=clock_ms())
#: Txns of its attempts stay named: whoever goes on with the stream here fences them.
_SET = update(HIVE_ACID_STREAM).where(*_ONE).values(HSR_ATTEMPT="", HSR_UPDATED=clock_ms())


@dataclass(frozen=True, slots=True)
class StreamMark:
    """How far a stream has come in its table.

    :param source: which checkpoint it comes from.
    :param batch: the last micro-batch that was committed, with this write id.
    :param batches: number of micro-batches, ``rows`` and ``quarantined`` those of all of them.
    :param offsets: what the stream said of its sources with the last commit, as JSON text.
    :param who: who ran it last, for people.
    """

    name: str
    source: str
    batch: int
    write_id: int | None
    batches: int
    rows: int
    quarantined: int
    offsets: str | None
    who: str = field(default="", compare=False)


def read_marks(connection: Connection, tables: Collection[TableName]) -> dict[TableName, tuple[StreamMark, ...]]:
    """How far the streams of tables have come; streams that have committed nothing are left out.

    So are those that wrote another table, which a Hive has dropped since, or given another name.
    """
    noted: dict[str, list[tuple[StreamMark, int | None]]] = {str(table): [] for table in tables}
    for part in chunks(sorted(noted)):
        for row in connection.execute(_MARKS, {"tables": list(part)}):
            noted[row.HSR_TABLE].append(_mark(row))
    ids = _table_ids(connection, (table for table in tables if noted[str(table)]))
    return {
        table: tuple(mark for mark, table_id in noted[str(table)] if table_id is None or table_id == ids.get(table))
        for table in tables
    }


def _mark(row: Any) -> tuple[StreamMark, int | None]:
    """What a row says, and of which table."""
    offsets, table_id = read_offsets(row.HSR_OFFSETS)
    mark = StreamMark(
        row.HSR_NAME, row.HSR_SOURCE, row.HSR_BATCH, row.HSR_WRITEID, row.HSR_BATCHES, row.HSR_ROWS,
        row.HSR_QUARANTINED, offsets, row.HSR_WHO,
    )  # fmt: skip
    return mark, table_id


def _table_ids(connection: Connection, tables: Iterable[TableName]) -> dict[TableName, int]:
    return {name: table.id for name, table in read_tables(connection, tables).items()}


def take_over_marks(connection: Connection, wanted: Mapping[TableName, Sequence[StreamMark]]) -> None:
    """Make streams stand in tables where they stand in others, whose rows these get in the same transaction.

    Who runs one of them here commits nothing more. A stream of the same name into another table stays what it is:
    whoever begins it for this one is told.

    :param wanted: by table, which is in the catalog, the marks of all its streams.
    """
    ids = _table_ids(connection, (table for table, marks in wanted.items() if marks))
    for table, marks in wanted.items():
        of_table = {"of_table": str(table)}
        known = set(connection.execute(_KEYS, of_table).scalars())
        for key in sorted(known - {digest(mark.name) for mark in marks}):
            connection.execute(_FORGET, {"stream": key, **of_table})
    for table, marks in wanted.items():
        for mark in marks:
            values = _values(mark, ids[table])
            key = {"stream": digest(mark.name)}
            there = connection.execute(_IS_THERE, key).scalar()
            if there is None:
                _add(connection, table, mark, values)
            else:
                connection.execute(_SET.values(values), {**key, "of_table": str(table)})


def bring_marks(connection: Connection, table: TableName, marks: Sequence[StreamMark]) -> None:
    """Make streams stand in a new table where the rows end that it begins with: those of a dump.

    A stream that is known here stays what it is, unless it comes from the same checkpoint and its table is gone: then
    this one is what is left of that. Who runs it commits nothing more before he has looked again.

    :param table: it is in the catalog.
    """
    if not marks:
        return
    table_id = _table_ids(connection, [table])[table]
    for mark in marks:
        values, key = _values(mark, table_id), {"stream": digest(mark.name)}
        known = connection.execute(_LOCK, key).first()
        if known is None:
            _add(connection, table, mark, values)
        elif known.HSR_SOURCE == mark.source and _is_gone(connection, known, table):
            connection.execute(_BRING.values(values), {**key, "new_table": str(table)})


def _is_gone(connection: Connection, known: Any, table: TableName) -> bool:
    """Whether the table that a stream has written is none any more, when there is a new one of a name."""
    _, table_id = read_offsets(known.HSR_OFFSETS)
    if table_id is None:
        return bool(known.HSR_TABLE == str(table))
    return table_id not in read_tables_by_id(connection, [table_id])


def _values(mark: StreamMark, table_id: int) -> dict[str, Any]:
    return {
        "HSR_SOURCE": mark.source, "HSR_OWNER": "", "HSR_WHO": mark.who, "HSR_BATCH": mark.batch, "HSR_TXNID": None,
        "HSR_WRITEID": mark.write_id, "HSR_BATCHES": mark.batches, "HSR_ROWS": mark.rows,
        "HSR_QUARANTINED": mark.quarantined, "HSR_OFFSETS": offsets_text(mark.offsets, table_id),
    }  # fmt: skip


def _add(connection: Connection, table: TableName, mark: StreamMark, values: Mapping[str, Any]) -> None:
    new = {"HSR_STREAM": digest(mark.name), "HSR_NAME": mark.name, "HSR_TABLE": str(table)}
    connection.execute(_ADD.values({**new, **values}))
