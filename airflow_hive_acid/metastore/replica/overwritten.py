"""States that a replica never had, because an INSERT OVERWRITE of the same sync has passed over them.

A sync brings one state to the next. Of what was written and then overwritten between the two it brings the overwrite
alone; so inside its write ids neither those rows nor their end can be told, and from before them to behind them the
changes are whole. The ranges stay with the table as a parameter, also when the replica is a primary by now.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from sqlalchemy import bindparam, delete, insert, select

from airflow_hive_acid.metastore.database.database import chunks
from airflow_hive_acid.metastore.schema.hive_catalog import DBS, TABLE_PARAMS, TBLS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sqlalchemy import Connection

    from airflow_hive_acid.metastore.names.objects import TableName

OVERWRITTEN = "repl.acid.overwritten"
"""Ours, of a table: ``6-8,20-31``, the first write id that came with a sync and its last overwrite. Hive has no use for
it and keeps it."""
MOST_RUNS = 100
"""More are not kept apart: the oldest two become one, which refuses more than it has to."""

Run = tuple[int, int]
"""The first write id of a sync, and its last overwrite; both included."""

_P = TABLE_PARAMS.c
_IDS: sa.BindParameter[Any] = bindparam("ids", expanding=True)
_READ = select(_P.TBL_ID, _P.PARAM_VALUE).where(_P.TBL_ID.in_(_IDS), _P.PARAM_KEY == OVERWRITTEN)
_FORGET = delete(TABLE_PARAMS).where(_P.TBL_ID.in_(_IDS), _P.PARAM_KEY == OVERWRITTEN)
_SET = insert(TABLE_PARAMS).values(TBL_ID=bindparam("id"), PARAM_KEY=OVERWRITTEN, PARAM_VALUE=bindparam("value"))
_OF_TABLE = (
    select(_P.PARAM_VALUE)
    .join(TBLS, TBLS.c.TBL_ID == _P.TBL_ID)
    .join(DBS, DBS.c.DB_ID == TBLS.c.DB_ID)
    .where(
        DBS.c.NAME == bindparam("db"), DBS.c.CTLG_NAME == "hive", TBLS.c.TBL_NAME == bindparam("tbl"),
        _P.PARAM_KEY == OVERWRITTEN,
    )
)  # fmt: skip


def overwritten_runs(connection: Connection, table: TableName) -> tuple[Run, ...]:
    """The write ids of each sync of a table that has brought an overwrite of others; empty where none has come."""
    return runs_of(connection.execute(_OF_TABLE, {"db": table.database, "tbl": table.name}).scalar())


def cut_run(runs: Sequence[Run], first: int, last: int) -> Run | None:
    """The run that a range of changes begins or ends within, so that it cannot be told; None when there is none."""
    return next((run for run in runs if run[0] < first <= run[1] or run[0] <= last < run[1]), None)


def add_runs(connection: Connection, found: Mapping[int, Run]) -> None:
    """Note what came with a sync.

    :param found: by TBL_ID.
    """
    for part in chunks(sorted(found)):
        ids = {"ids": list(part)}
        known = {table_id: runs_of(text) for table_id, text in connection.execute(_READ, ids)}
        connection.execute(_FORGET, ids)
        connection.execute(_SET, [{"id": i, "value": text_of((*known.get(i, ()), found[i]))} for i in part])


def runs_of(text: str | None) -> tuple[Run, ...]:
    """The runs of a parameter's text."""
    pairs = [run.split("-") for run in (text or "").split(",") if run]
    return tuple((int(low), int(high)) for low, high in pairs)


def text_of(runs: Sequence[Run]) -> str:
    """Runs as the parameter holds them, the oldest first."""
    more = len(runs) - MOST_RUNS
    if more > 0:
        old = runs[: more + 1]
        runs = ((min(low for low, _ in old), max(high for _, high in old)), *runs[more + 1 :])
    return ",".join(f"{low}-{high}" for low, high in runs)
