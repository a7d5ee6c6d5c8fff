"""Write conflicts: first committer wins.

Two txns overlap when the other's commit id (MAX(TXN_ID) at its commit) is not below this txn's id. They conflict when
both updated or deleted the same table without partitions, or the same partition. R2: a change the txn's snapshot
already contained is what it was based on, and no conflict. The error names the other txn, who worked in it, and when
it committed.

A Hive spells a partition whose name needs escapes in two ways (``names.partitions``), and compares texts: a static
INSERT OVERWRITE of its own misses its own UPDATE. Our write sets hold both spellings, so that whoever compares finds
the other.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from sqlalchemy import and_, bindparam, func, or_, select

from airflow_hive_acid.errors import WriteConflictError
from airflow_hive_acid.metastore.database.backend import Step
from airflow_hive_acid.metastore.database.expressions import halt_if, within_ranges
from airflow_hive_acid.metastore.names.partitions import in_both_spellings, twice
from airflow_hive_acid.metastore.schema.hive_transactions import (
    COMPLETED_TXN_COMPONENTS,
    TXN_COMPONENTS,
    TXNS,
    WRITE_SET,
)
from airflow_hive_acid.metastore.txns.history import LARGEST_TXN

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sqlalchemy.engine import Connection

    from airflow_hive_acid.format.write_ids import ValidTxnList

_MINE = WRITE_SET.alias("mine")
_OTHER = WRITE_SET.alias("other")
_TXN = bindparam("txn_id", type_=sa.BigInteger)


def _changes(column: sa.ColumnElement[str]) -> sa.ColumnElement[bool]:
    return or_(column == "u", column == "d")


def _same_object(database: Any, table: Any, partition: Any) -> sa.ColumnElement[bool]:
    """Whether somebody else's row is about the object that I wrote."""
    return and_(
        _OTHER.c.WS_DATABASE == database,
        _OTHER.c.WS_TABLE == table,
        or_(_OTHER.c.WS_PARTITION == partition, and_(_OTHER.c.WS_PARTITION.is_(None), partition.is_(None))),
    )


def _both_change(mine: Any) -> tuple[sa.ColumnElement[bool], ...]:
    """Whether it committed after I began, and both of us changed rows."""
    return (
        _OTHER.c.WS_TXNID != _TXN,
        _OTHER.c.WS_COMMIT_ID >= _TXN,
        _changes(mine),
        _changes(_OTHER.c.WS_OPERATION_TYPE),
    )


_COLUMNS = (
    _MINE.c.WS_TXNID,
    _OTHER.c.WS_TXNID,
    _OTHER.c.WS_COMMIT_ID,
    _MINE.c.WS_DATABASE,
    _MINE.c.WS_TABLE,
    _MINE.c.WS_PARTITION,
    _MINE.c.WS_OPERATION_TYPE,
    _OTHER.c.WS_OPERATION_TYPE,
)
_CANDIDATES = (
    select(*_COLUMNS)
    .join(_OTHER, _same_object(_MINE.c.WS_DATABASE, _MINE.c.WS_TABLE, _MINE.c.WS_PARTITION))
    .where(_MINE.c.WS_TXNID == _TXN, *_both_change(_MINE.c.WS_OPERATION_TYPE))
    .order_by(_OTHER.c.WS_COMMIT_ID, _OTHER.c.WS_TXNID)
)
_SEEN = and_(
    _OTHER.c.WS_TXNID <= bindparam("seen_mark", type_=sa.BigInteger),
    ~within_ranges(_OTHER.c.WS_TXNID, bindparam("unseen", type_=sa.String)),
)
#: In one statement: what I wrote, taken out of my components by the statement that records it.
_TAKEN = (
    sa.delete(TXN_COMPONENTS)
    .where(TXN_COMPONENTS.c.TC_TXNID == _TXN)
    .returning(
        TXN_COMPONENTS.c.TC_DATABASE,
        TXN_COMPONENTS.c.TC_TABLE,
        TXN_COMPONENTS.c.TC_PARTITION,
        TXN_COMPONENTS.c.TC_OPERATION_TYPE,
    )
    .cte("taken")
)
#: The same, each partition under both of its spellings.
_WROTE = in_both_spellings(
    lambda partition: select(
        _TAKEN.c.TC_DATABASE, _TAKEN.c.TC_TABLE, partition.label("TC_PARTITION"), _TAKEN.c.TC_OPERATION_TYPE
    ),
    _TAKEN.c.TC_PARTITION,
).cte("wrote")
_OVERLAPS = (
    select(_WROTE.c.TC_DATABASE)
    .join(_OTHER, _same_object(_WROTE.c.TC_DATABASE, _WROTE.c.TC_TABLE, _WROTE.c.TC_PARTITION))
    .where(*_both_change(_WROTE.c.TC_OPERATION_TYPE), ~_SEEN)
)
_WS_COLUMNS = ("WS_DATABASE", "WS_TABLE", "WS_PARTITION", "WS_TXNID", "WS_COMMIT_ID", "WS_OPERATION_TYPE")


@cache
def _recording(operations: tuple[str, ...], *, check: bool) -> sa.Select[Any]:
    """Move my components to the write set under MAX(TXN_ID); fail where somebody else's are in the way."""
    rows = select(
        _WROTE.c.TC_DATABASE,
        _WROTE.c.TC_TABLE,
        _WROTE.c.TC_PARTITION,
        _TXN,
        LARGEST_TXN,
        _WROTE.c.TC_OPERATION_TYPE,
    ).where(or_(*(_WROTE.c.TC_OPERATION_TYPE == letter for letter in operations)))
    record = sa.insert(WRITE_SET).from_select(_WS_COLUMNS, rows).cte("record")
    answer: sa.ColumnElement[int] = halt_if(_OVERLAPS.exists()) if check else sa.literal(1, sa.Integer)
    return select(answer).add_cte(record)


#: What is already there right after the grant: my components, whose partitions may not be known yet.
_EARLY = (
    select(
        _OTHER.c.WS_TXNID,
        _OTHER.c.WS_COMMIT_ID,
        _OTHER.c.WS_DATABASE,
        _OTHER.c.WS_TABLE,
        _OTHER.c.WS_PARTITION,
        TXN_COMPONENTS.c.TC_OPERATION_TYPE,
        _OTHER.c.WS_OPERATION_TYPE,
    )
    .join(
        TXN_COMPONENTS,
        and_(
            _OTHER.c.WS_DATABASE == TXN_COMPONENTS.c.TC_DATABASE,
            _OTHER.c.WS_TABLE == TXN_COMPONENTS.c.TC_TABLE,
            or_(
                TXN_COMPONENTS.c.TC_PARTITION.is_(None),
                _OTHER.c.WS_PARTITION == TXN_COMPONENTS.c.TC_PARTITION,
                _OTHER.c.WS_PARTITION == twice(TXN_COMPONENTS.c.TC_PARTITION),
            ),
        ),
    )
    .where(
        TXN_COMPONENTS.c.TC_TXNID == _TXN,
        _OTHER.c.WS_TXNID != _TXN,
        _OTHER.c.WS_COMMIT_ID >= _TXN,
        _changes(TXN_COMPONENTS.c.TC_OPERATION_TYPE),
        _changes(_OTHER.c.WS_OPERATION_TYPE),
    )
)
#: getLatestTxnIdInConflict: as above, largest txn id only.
_LATEST = select(func.max(_EARLY.subquery().c.WS_TXNID))
_WHO = select(TXNS.c.TXN_USER, TXNS.c.TXN_HOST, TXNS.c.TXN_AGENT_INFO).where(TXNS.c.TXN_ID == bindparam("other"))
_WHEN = select(func.max(COMPLETED_TXN_COMPONENTS.c.CTC_TIMESTAMP)).where(
    COMPLETED_TXN_COMPONENTS.c.CTC_DATABASE == bindparam("db"),
    COMPLETED_TXN_COMPONENTS.c.CTC_TABLE == bindparam("tbl"),
    COMPLETED_TXN_COMPONENTS.c.CTC_TXNID == bindparam("other"),
)


@dataclass(frozen=True, slots=True)
class Overlap:
    """Two txns that changed the same thing at the same time.

    :param operation: my operation, ``u`` or ``d``; ``other_operation`` the other's.
    """

    txn_id: int
    other_txn: int
    other_commit: int
    database: str
    table: str
    partition: str | None
    operation: str
    other_operation: str


@dataclass(frozen=True, slots=True)
class Conflict:
    """A conflict with what is known of the other txn.

    :param commit_id: my commit id, for Hive's text.
    :param user: user and host of the other txn, None when its row is gone.
    :param agent_info: who worked in it (DAG run, task, try).
    :param committed_at: its commit by the database's clock, as text.
    """

    overlap: Overlap
    commit_id: int
    user: str | None
    agent_info: str | None
    committed_at: str | None

    def error(self) -> WriteConflictError:
        """The error to raise; it begins with Hive's own text."""
        o = self.overlap
        place = f"{o.database}/{o.table}" + (f"/{o.partition}" if o.partition is not None else "")
        who = self.agent_info or self.user
        by = f" The other txn was {who}'s" if who else " The other txn is no longer listed"
        when = f", committed at {self.committed_at} (database clock)." if self.committed_at else "."
        return WriteConflictError(
            f"Aborting [txnid:{o.txn_id},{self.commit_id}] due to a write conflict on {place} committed by "
            f"[txnid:{o.other_txn},{o.other_commit}] {o.operation}/{o.other_operation}.{by}{when} "
            "Run the statement again: it will see the other's change."
        )


def candidates_step(txn_id: int) -> Step:
    """The statement that reads who changed, and committed since I opened, what my write set names."""
    return Step(_CANDIDATES, {"txn_id": txn_id})


def record_step(txn_id: int, snapshot: ValidTxnList | None, operations: tuple[str, ...], *, check: bool) -> Step:
    """The statement that records what I changed, with its commit id, and takes it out of my components.

    R3: it belongs behind the open-txn lock, where MAX(TXN_ID) and the others' changes are final.

    :param operations: letters of the components to record.
    :param check: halt the batch when there is a conflict: nothing after it is done.
    """
    parameters: dict[str, Any] = {"txn_id": txn_id}
    if check:
        # Without snapshot every candidate counts: no txn id is small enough to have been seen.
        unseen = () if snapshot is None else snapshot.exceptions.edges
        mark = -1 if snapshot is None else snapshot.high_watermark
        parameters |= {"seen_mark": mark, "unseen": ",".join(map(str, unseen))}
    return Step(_recording(operations, check=check), parameters)


def first_conflict(rows: Iterable[Any], snapshot: ValidTxnList | None) -> Overlap | None:
    """The first candidate whose change my snapshot did not contain (R2)."""
    for row in rows:
        overlap = Overlap(*row)
        if snapshot is None or not snapshot.is_valid(overlap.other_txn):
            return overlap
    return None


def early_step(txn_id: int) -> Step:
    """The statement for :func:`early_conflict`."""
    return Step(_EARLY, {"txn_id": txn_id})


def early_conflict(txn_id: int, rows: Iterable[Any], snapshot: ValidTxnList) -> Overlap | None:
    """Whether somebody committed a change, unseen by my snapshot, that my commit would stumble over (R2).

    As long as partitions are not named, any partition of the table counts.
    """
    for row in rows:
        if not snapshot.is_valid(row[0]):
            return Overlap(txn_id, *row)
    return None


def latest_conflict(connection: Connection, txn_id: int) -> int:
    """getLatestTxnIdInConflict: the largest txn that changed what I am to change and overlaps me, 0 for none."""
    return int(connection.execute(_LATEST, {"txn_id": txn_id}).scalar() or 0)


def describe(connection: Connection, overlap: Overlap, commit_id: int) -> Conflict:
    """What is known of the other txn."""
    who = connection.execute(_WHO, {"other": overlap.other_txn}).first()
    when = connection.execute(
        _WHEN, {"db": overlap.database, "tbl": overlap.table, "other": overlap.other_txn}
    ).scalar()
    return Conflict(
        overlap,
        commit_id,
        f"{who[0]}@{who[1]}" if who else None,
        who[2] if who else None,
        None if when is None else str(when)[:23],
    )
