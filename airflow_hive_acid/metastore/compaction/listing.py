"""SHOW COMPACTIONS as a stream: queue and history as one, filtered, ordered and limited by the database."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from sqlalchemy import case, func, select

from airflow_hive_acid.errors import InvalidArgumentsError
from airflow_hive_acid.metastore.compaction.model import (
    DEFAULT_POOL,
    Compaction,
    CompactionState,
    CompactionType,
)
from airflow_hive_acid.metastore.compaction.rows import compaction
from airflow_hive_acid.metastore.database.row_stream import stream_rows
from airflow_hive_acid.metastore.names.partitions import in_catalog, resolve_filter, within
from airflow_hive_acid.metastore.schema.hive_transactions import COMPACTION_QUEUE, COMPLETED_COMPACTIONS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from sqlalchemy.engine import Connection

    from airflow_hive_acid.metastore.database.database import Database


@dataclasses.dataclass(frozen=True, slots=True)
class CompactionFilter:
    """Which compactions; None does not restrict.

    :param partition: its name, in any spelling that means it; of some of the partition columns: all with these values.
    :param pool: ``default`` includes requests without a pool.
    """

    id: int | None = None
    database: str | None = None
    table: str | None = None
    partition: str | None = None
    type: CompactionType | None = None
    state: CompactionState | None = None
    pool: str | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Order:
    """One column of ORDER BY: a key of :data:`COMPACTION_ORDER`; NULL is smaller than everything, as in Hive."""

    column: str
    descends: bool = False


def stream_compactions(
    connection: Connection, wanted: CompactionFilter, order: tuple[Order, ...] = (), limit: int | None = None
) -> Iterator[Compaction]:
    """Queue and history; without ``order`` what ended or began last comes first.

    :raises InvalidArgumentsError: for a column that is not in :data:`COMPACTION_ORDER`.
    """
    statement = select(_BOTH).where(*compaction_conditions(connection, wanted, _column))
    for asked in order:
        if asked.column not in COMPACTION_ORDER:
            raise InvalidArgumentsError(
                f"{asked.column!r} is no column of compactions; there are {', '.join(COMPACTION_ORDER)}"
            )
        key = COMPACTION_ORDER[asked.column]
        keys = (case((key.is_(None), 0), else_=1), key)
        statement = statement.order_by(*(k.desc() for k in keys) if asked.descends else keys)
    statement = statement.order_by(_LATEST.desc(), func.coalesce(_column("ENQUEUE_TIME"), 0), _column("ID"))
    return map(_compaction, (row._mapping for row in stream_rows(connection, statement, limit)))


def compactions(
    database: Database,
    wanted: CompactionFilter = CompactionFilter(),
    order: tuple[Order, ...] = (),
    limit: int | None = None,
) -> Iterator[Compaction]:
    """:func:`stream_compactions` in a transaction that lasts as long as the iteration."""
    with database.reading() as connection:
        yield from stream_compactions(connection, wanted, order, limit)


# --- queue and history as one -------------------------------------------------------------------------------------


def _half(table: sa.Table, prefix: str) -> sa.Select[Any]:
    """One of the two tables, with the columns of both."""
    columns: list[sa.ColumnElement[Any]] = [sa.literal(int(prefix == "CQ"), sa.Integer).label("queued")]
    for name in _NAMES:
        if f"{prefix}_{name}" in table.c:
            columns.append(table.c[f"{prefix}_{name}"].label(f"CQ_{name}"))
        else:
            columns.append(sa.cast(sa.null(), sa.BigInteger).label(f"CQ_{name}"))
    statement: sa.Select[Any] = select(*columns)
    return statement


_NAMES = [name.removeprefix("CQ_") for name in COMPACTION_QUEUE.c.keys() if name != "CQ_META_INFO"] + ["END"]  # noqa: SIM118
_BOTH = sa.union_all(_half(COMPACTION_QUEUE, "CQ"), _half(COMPLETED_COMPACTIONS, "CC")).subquery("both")


def compaction_conditions(
    connection: Connection, wanted: CompactionFilter, column: Callable[[str], sa.ColumnElement[Any]]
) -> Iterator[sa.ColumnElement[bool]]:
    """What a filter demands of the rows of compactions.

    :param column: gives a column by its name without prefix, such as ``POOL_NAME``.
    """
    for name, value in (
        ("ID", wanted.id),
        ("DATABASE", None if wanted.database is None else wanted.database.lower()),
        ("TABLE", None if wanted.table is None else wanted.table.lower()),
        ("TYPE", None if wanted.type is None else wanted.type.value),
        ("STATE", None if wanted.state is None else wanted.state.value),
    ):
        if value is not None:
            yield column(name) == value
    if wanted.partition is not None:
        named = resolve_filter(connection, wanted.database, wanted.table, wanted.partition)
        yield within(column("PARTITION"), named, in_catalog)
    if wanted.pool is not None:
        yield func.coalesce(column("POOL_NAME"), DEFAULT_POOL) == wanted.pool


def _column(name: str) -> sa.ColumnElement[Any]:
    return _BOTH.c[f"CQ_{name}"]


def _larger(one: sa.ColumnElement[int], other: sa.ColumnElement[int]) -> sa.ColumnElement[int]:
    return case((one > other, one), else_=other)


def _or_zero(name: str) -> sa.ColumnElement[int]:
    return func.coalesce(_column(name), 0)


_LATEST = _larger(_larger(_or_zero("END"), _or_zero("START")), _or_zero("COMMIT_TIME"))
_STATE_TEXT = case({s.value: s.text for s in CompactionState}, value=_column("STATE"), else_=_column("STATE"))
_TYPE_TEXT = case({t.value: t.name for t in CompactionType}, value=_column("TYPE"), else_=_column("TYPE"))

COMPACTION_ORDER: Mapping[str, sa.ColumnElement[Any]] = {
    **{name.lower(): _column(name) for name in _NAMES if name not in ("STATE", "TYPE", "POOL_NAME")},
    **{
        shown: _column(name)
        for shown, name in {
            "compactionid": "ID", "dbname": "DATABASE", "tabname": "TABLE", "partname": "PARTITION",
            "workerhost": "WORKER_ID", "workerid": "WORKER_ID", "enqueuetime": "ENQUEUE_TIME", "starttime": "START",
            "hadoopjobid": "HADOOP_JOB_ID", "errormessage": "ERROR_MESSAGE", "initiatorhost": "INITIATOR_ID",
            "initiatorid": "INITIATOR_ID", "txnid": "TXN_ID", "nexttxnid": "NEXT_TXN_ID", "committime": "COMMIT_TIME",
            "highestwriteid": "HIGHEST_WRITE_ID",
        }.items()
    },
    "state": _STATE_TEXT,
    "type": _TYPE_TEXT,
    "duration": _column("END") - _column("START"),
    "poolname": func.coalesce(_column("POOL_NAME"), DEFAULT_POOL),
    "pool_name": func.coalesce(_column("POOL_NAME"), DEFAULT_POOL),
}  # fmt: skip
"""What ORDER BY may name, in lower case: the columns that SHOW prints, and Hive's names without ``CQ_``."""


def _compaction(row: Mapping[Any, Any]) -> Compaction:
    return dataclasses.replace(compaction(row, "CQ"), queued=bool(row["queued"]))
