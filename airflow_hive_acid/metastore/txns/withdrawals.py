"""Giving txns up: from then on they cannot commit, and what they wrote may be taken away (R4, R17).

The decision is made in one database transaction, behind the lock on the txn's row that its commit takes first. An open
txn is marked in TXN_META_INFO, which Hive fills when it aborts; it stays open and keeps its locks until its jobs are
fenced and what they moved into plain tables is moved back. Its commit reads the mark with the row's lock, and is
refused. A txn that is aborted, or whose row is gone although our commit never marked its jobs, cannot commit either.

Whoever fences a job, or undoes what it published, needs a :class:`GivenUp`, and only :func:`give_up` makes one. So
nothing that is committed, or may still be, can be touched by an abort that came too late.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from sqlalchemy import bindparam, select

from airflow_hive_acid.metastore.database.codes import TxnState
from airflow_hive_acid.metastore.database.database import chunks
from airflow_hive_acid.metastore.schema.hive_transactions import COMPLETED_TXN_COMPONENTS, TXNS
from airflow_hive_acid.metastore.txns.aborts import mark_given_up, stale_ones
from airflow_hive_acid.metastore.txns.jobs import JobState, jobs_of_txns
from airflow_hive_acid.metastore.txns.txns import IS_GIVEN_UP, lock_txn_step, require_open

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from sqlalchemy.engine import Connection

    from airflow_hive_acid.metastore.database.database import Features
    from airflow_hive_acid.metastore.txns.jobs import Job

_IDS: sa.BindParameter[Any] = bindparam("ids", expanding=True)
_LOCK = select(TXNS.c.TXN_ID, TXNS.c.TXN_STATE).where(TXNS.c.TXN_ID.in_(_IDS)).order_by(TXNS.c.TXN_ID).with_for_update()
_LEFT = select(TXNS.c.TXN_ID).where(TXNS.c.TXN_STATE == "o", IS_GIVEN_UP).order_by(TXNS.c.TXN_ID)
_REMEMBERED = (
    select(COMPLETED_TXN_COMPONENTS.c.CTC_TXNID).where(COMPLETED_TXN_COMPONENTS.c.CTC_TXNID.in_(_IDS)).distinct()
)
_SEAL = object()


@dataclass(frozen=True, slots=True)
class GivenUp:
    """A txn that cannot commit any more, or jobs of one that its commit will not count, as the database decided.

    :param jobs: the attempts it is about that may still write or have written, as they were then.
    :param seal: proves that this module made it.
    """

    txn_id: int
    jobs: tuple[Job, ...]
    seal: object

    def __post_init__(self) -> None:
        if self.seal is not _SEAL:
            raise AssertionError("only the database decides that a txn is given up: see metastore.giving_up")


@dataclass(frozen=True, slots=True)
class Decision:
    """What became of txns that somebody wanted to give up.

    :param given_up: those that cannot commit any more.
    :param spared: committed ones, and open ones of those that only the ended, or the silent, were asked of.
    """

    given_up: tuple[GivenUp, ...] = ()
    spared: tuple[int, ...] = ()


def give_up(
    connection: Connection, txn_ids: Iterable[int], reason: str, features: Features, *,
    silent: tuple[int, int] | None = None, ended_only: bool = False,
) -> Decision:  # fmt: skip
    """Decide that txns do not commit any more, where that is not decided otherwise.

    :param silent: spare open ones that have sent a heartbeat within the first time, in milliseconds; the second one
        is that of txns that stand for another Hive's.
    :param ended_only: spare open ones.
    """
    ids = sorted(set(txn_ids))
    states: dict[int, TxnState] = {}
    for part in chunks(ids):
        states |= {int(i): TxnState(state) for i, state in connection.execute(_LOCK, {"ids": list(part)})}
    opened = [i for i in ids if states.get(i) is TxnState.OPEN]
    # R3: what is read from here on is read behind the rows' locks.
    lost = _lost(connection, opened, silent, ended_only=ended_only)
    mark_given_up(connection, sorted(lost), reason)
    jobs = jobs_of_txns(connection, ids) if features.extensions else {}
    committed = {i for i, state in states.items() if state is TxnState.COMMITTED}
    gone = [i for i in ids if i not in states]
    for part in chunks(gone):
        committed |= {int(i) for i in connection.execute(_REMEMBERED, {"ids": list(part)}).scalars()}
    # Our commit marks its jobs in its own transaction, and that outlives the txn's row.
    committed |= {i for i in gone if any(job.state is JobState.COMMITTED for job in jobs.get(i, ()))}
    spared = committed | (set(opened) - lost)
    return Decision(
        tuple(GivenUp(i, tuple(jobs.get(i, ())), _SEAL) for i in ids if i not in spared), tuple(sorted(spared))
    )


def _lost(
    connection: Connection, opened: Sequence[int], silent: tuple[int, int] | None, *, ended_only: bool
) -> set[int]:
    """The open ones that are to be given up."""
    if ended_only:
        return set()
    return set(opened if silent is None else stale_ones(connection, opened, *silent))


def give_up_jobs(connection: Connection, txn_id: int, job_ids: Collection[str]) -> GivenUp:
    """Decide that some jobs of a txn do not count, while it goes on without them (R5).

    The caller makes sure, in the same database transaction, that the txn's commit will not count them.

    :raises TxnAbortedError: when the txn is not open; :raises NoSuchTxnError: when it is committed.
    """
    step = lock_txn_step(txn_id)
    require_open(connection, txn_id, connection.execute(step.statement, dict(step.parameters)).all())
    jobs = jobs_of_txns(connection, [txn_id]).get(txn_id, ())
    return GivenUp(txn_id, tuple(job for job in jobs if job.job_id in job_ids), _SEAL)


def left_open(connection: Connection) -> list[int]:
    """Txns that were given up, and are still to be fenced and aborted."""
    return list(connection.execute(_LEFT).scalars())
