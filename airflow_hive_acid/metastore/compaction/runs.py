"""Requests in the hands of a worker: how many wait for one, taking up one's own again, those of the dead, ending one.

A request that waits is aborted as Hive does it. One that a Worker of ours runs is marked in
HIVE_ACID_COMPACTION_CANCEL; its Worker looks there while the job runs, and a last time in the database transaction that
marks the request compacted, so that a request is either finished or cancelled, never both. A Hive's worker knows
nothing of the mark: what it runs is left alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlalchemy import BigInteger, bindparam, case, delete, func, insert, or_, select, update

from airflow_hive_acid.metastore.compaction.model import Compaction, CompactionState
from airflow_hive_acid.metastore.compaction.rows import (
    QUEUE,
    clean_text,
    compaction,
    lock_request,
    move_to_history,
)
from airflow_hive_acid.metastore.database.clock import clock_ms
from airflow_hive_acid.metastore.database.database import chunks
from airflow_hive_acid.metastore.names.objects import info
from airflow_hive_acid.metastore.schema.hive_transactions import COMPACTION_QUEUE, TXNS
from airflow_hive_acid.metastore.schema.ours import HIVE_ACID_COMPACTION_CANCEL

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import Connection

OUR_VERSION = "airflow-hive-acid "
"""What the version of every worker of ours begins with (CQ_WORKER_VERSION)."""
_KEPT_MS = 7 * 86_400_000

_cq, _hcn = COMPACTION_QUEUE.c, HIVE_ACID_COMPACTION_CANCEL.c
_WAITING = (
    select(
        _cq.CQ_POOL_NAME,
        func.count().label("requests"),
        func.sum(
            case((_cq.CQ_ENQUEUE_TIME < clock_ms() - bindparam("pool_timeout", type_=BigInteger), 1), else_=0)
        ).label("overdue"),
    )
    .where(_cq.CQ_STATE == CompactionState.INITIATED.value)
    .group_by(_cq.CQ_POOL_NAME)
)
_OF_WORKER = QUEUE.where(
    _cq.CQ_STATE == CompactionState.WORKING.value, _cq.CQ_WORKER_ID == bindparam("worker")
).order_by(_cq.CQ_ID)
_RETAKE = (
    update(COMPACTION_QUEUE)
    .where(_cq.CQ_ID == bindparam("id"))
    .values(
        CQ_START=clock_ms(), CQ_WORKER_VERSION=bindparam("version"), CQ_TXN_ID=None, CQ_HIGHEST_WRITE_ID=None,
        CQ_HADOOP_JOB_ID=None,
    )
)  # fmt: skip
_BACK_TO_THE_QUEUE = update(COMPACTION_QUEUE).values(
    CQ_STATE=CompactionState.INITIATED.value, CQ_WORKER_ID=None, CQ_START=None, CQ_TXN_ID=None,
    CQ_HIGHEST_WRITE_ID=None, CQ_HADOOP_JOB_ID=None,
)  # fmt: skip
_GIVE_BACK = _BACK_TO_THE_QUEUE.where(_cq.CQ_ID == bindparam("id"))
_REQUEUE = _BACK_TO_THE_QUEUE.where(_cq.CQ_ID.in_(bindparam("ids", expanding=True)))
#: A mark outlives its request for a while and means nothing then: where our tables are missing, requests end, too.
_CANCELLED = (
    select(_hcn.HCN_USER, _hcn.HCN_REASON)
    .join(COMPACTION_QUEUE, _cq.CQ_ID == _hcn.HCN_ID)
    .where(_hcn.HCN_ID == bindparam("id"))
)
_OPEN_OF_WORKER = (
    select(TXNS.c.TXN_ID)
    .where(
        TXNS.c.TXN_STATE == "o",
        TXNS.c.TXN_AGENT_INFO.startswith("compaction ", autoescape=True),
        TXNS.c.TXN_AGENT_INFO.endswith(bindparam("end"), escape="/"),
    )
    .order_by(TXNS.c.TXN_ID)
)
_TXN_IS_OPEN = select(TXNS.c.TXN_ID).where(TXNS.c.TXN_ID == _cq.CQ_TXN_ID, TXNS.c.TXN_STATE == "o").exists()
_OF_SILENT = (
    select(_cq.CQ_ID)
    .where(
        _cq.CQ_STATE == CompactionState.WORKING.value, _cq.CQ_START < clock_ms() - bindparam("timeout"), ~_TXN_IS_OPEN
    )
    .with_for_update()
)  # fmt: skip
#: A Worker of ours that lives finds out within ``hive.txn.timeout`` that its txn was aborted, and gives up.
_TXN_MAY_BE_WATCHED = (
    select(TXNS.c.TXN_ID)
    .where(
        TXNS.c.TXN_ID == _cq.CQ_TXN_ID,
        or_(TXNS.c.TXN_STATE != "a", TXNS.c.TXN_LAST_HEARTBEAT > clock_ms() - bindparam("timeout")),
    )
    .exists()
)
_OF_DEAD = (
    select(_cq.CQ_ID)
    .where(
        _cq.CQ_STATE == CompactionState.WORKING.value,
        _cq.CQ_WORKER_VERSION.startswith(OUR_VERSION, autoescape=True),
        _cq.CQ_TXN_ID.is_not(None),
        ~_TXN_MAY_BE_WATCHED,
    )
    .with_for_update()
)
#: Those that have not said yet which txn finishes the request: they are beginning, or make many deltas fewer first.
_WITHOUT_TXN = (
    select(_cq.CQ_ID, _cq.CQ_WORKER_ID, _cq.CQ_START)
    .where(
        _cq.CQ_STATE == CompactionState.WORKING.value,
        _cq.CQ_WORKER_VERSION.startswith(OUR_VERSION, autoescape=True),
        _cq.CQ_TXN_ID.is_(None),
        _cq.CQ_START < clock_ms() - bindparam("timeout"),
    )
    .with_for_update()
)
#: A part that is done has committed, and is forgotten within seconds: then nothing may tell of a claim any more.
_LAST_TXN = (
    select(TXNS.c.TXN_STATE, case((TXNS.c.TXN_LAST_HEARTBEAT > clock_ms() - bindparam("timeout"), 1), else_=0))
    .where(TXNS.c.TXN_AGENT_INFO == bindparam("agent"), TXNS.c.TXN_STARTED >= bindparam("start"))
    .order_by(TXNS.c.TXN_ID.desc())
    .limit(1)
)
_OPEN = select(TXNS.c.TXN_ID).where(TXNS.c.TXN_ID == bindparam("txn_id"), TXNS.c.TXN_STATE == "o")
_FORGET_OLD = delete(HIVE_ACID_COMPACTION_CANCEL).where(
    _hcn.HCN_REQUESTED < clock_ms() - bindparam("age", type_=BigInteger)
)


@dataclass(frozen=True, slots=True)
class AbortAnswer:
    """What became of the wish to abort one request.

    :param aborted: it will not be carried out: it has ended, or its Worker ends it within seconds.
    """

    id: int
    aborted: bool
    message: str


@dataclass(frozen=True, slots=True)
class Waiting:
    """Requests of one pool that wait for a worker.

    :param pool: None for those without one.
    :param overdue: those of them that a worker without a pool may take, because they have waited for too long.
    """

    pool: str | None
    requests: int
    overdue: int


def waiting(connection: Connection, pool_timeout_ms: int) -> list[Waiting]:
    """How many requests wait, by pool; none of them is read."""
    rows = connection.execute(_WAITING, {"pool_timeout": pool_timeout_ms})
    return [
        Waiting(pool, int(requests), int(overdue or 0) if pool is not None else 0) for pool, requests, overdue in rows
    ]


def of_worker(connection: Connection, worker_id: str) -> list[Compaction]:
    """What a worker has claimed and not finished."""
    return [compaction(row, "CQ") for row in connection.execute(_OF_WORKER, {"worker": worker_id}).mappings()]


def agent_of(request_id: int, worker_id: str | None) -> str:
    """What the txns of a request say about themselves (TXN_AGENT_INFO); by it they are found again."""
    return info(f"compaction {request_id} by {worker_id}")


def open_txns_of(connection: Connection, worker_id: str) -> list[int]:
    """The open txns in which a worker compacts; their agent information ends with its id."""
    end = f" by {worker_id}".replace("/", "//").replace("%", "/%").replace("_", "/_")
    return [int(txn_id) for txn_id in connection.execute(_OPEN_OF_WORKER, {"end": end}).scalars()]


def retake(connection: Connection, request: Compaction, version: str) -> Compaction | None:
    """Claim a request again that an earlier attempt of the same worker holds; None when somebody else has it now."""
    if _held(connection, request) is None:
        return None
    connection.execute(_RETAKE, {"id": request.id, "version": version})
    return lock_request(connection, request.id)


def give_back(connection: Connection, request: Compaction, reason: str) -> CompactionState | None:
    """Let another worker take a request.

    :return: INITIATED; ABORTED when its cancellation was asked for; None when it is not the worker's any more.
    """
    found = _held(connection, request)
    if found is None:
        return None
    why = cancellation(connection, request.id)
    if why is not None:
        move_to_history(connection, found, CompactionState.ABORTED, f"{why} ({reason})")
        return CompactionState.ABORTED
    connection.execute(_GIVE_BACK, {"id": request.id})
    return CompactionState.INITIATED


def requeue_timed_out(connection: Connection, timeout_ms: int) -> list[int]:
    """Give back requests that were claimed too long ago, unless their txn is still open; whoever holds them.

    One whose Worker was told to end it ends now.
    """
    return _requeue(connection, connection.execute(_OF_SILENT, {"timeout": timeout_ms}).scalars().all())


def requeue_of_dead(connection: Connection, txn_timeout_ms: int) -> list[int]:
    """Give back requests of Workers of ours whose txn is aborted or forgotten, and silent for so long.

    Of one that has not said in which txn it ends the request, the last one counts, if that is remembered. A Worker
    opens its next one at once; one that was only held up finds out before it changes anything that the request is not
    its own.

    A Hive's worker is given its whole time: when it ends after all, it ends whatever has its request's id by then. One
    whose Worker was told to end it ends now.
    """
    given = {"timeout": txn_timeout_ms}
    found = list(connection.execute(_OF_DEAD, given).scalars())
    for request_id, worker_id, start in connection.execute(_WITHOUT_TXN, given).all():
        of_claim = {"agent": agent_of(request_id, worker_id), "start": start}
        state, is_heard = connection.execute(_LAST_TXN, {**given, **of_claim}).first() or ("c", 0)
        if state != "o" and not is_heard:
            found.append(request_id)
    return _requeue(connection, found)


def _requeue(connection: Connection, found: Sequence[Any]) -> list[int]:
    ids = [request_id for request_id in sorted(map(int, found)) if not _ends_cancelled(connection, request_id)]
    for some in chunks(ids):
        connection.execute(_REQUEUE, {"ids": list(some)})
    return ids


def _ends_cancelled(connection: Connection, request_id: int) -> bool:
    """End what a Worker of ours was told to end, and is gone: a Hive's, which may come next, knows nothing of the mark.

    :return: whether that was so.
    """
    request = lock_request(connection, request_id)
    if request is None or not (request.worker_version or "").startswith(OUR_VERSION):
        return False
    why = cancellation(connection, request_id)
    if why is not None:
        move_to_history(connection, request, CompactionState.ABORTED, f"{why}; its Worker was gone")
    return why is not None


def _held(connection: Connection, request: Compaction) -> Compaction | None:
    found = lock_request(connection, request.id)
    if found is None or found.state is not CompactionState.WORKING or found.worker_id != request.worker_id:
        return None
    return found


def cancellation(connection: Connection, request_id: int) -> str | None:
    """Why a request shall end, None when nobody wants that."""
    row = connection.execute(_CANCELLED, {"id": request_id}).first()
    if row is None:
        return None
    person, reason = row
    return f"cancelled by {person}" + (f": {reason}" if reason else "")


def cancel(connection: Connection, request_id: int, user: str, reason: str | None) -> AbortAnswer:
    """End a request: at once if it waits, by its Worker if one of ours runs it."""
    request = lock_request(connection, request_id)
    if request is None:
        return AbortAnswer(request_id, False, f"No compaction request with id {request_id} is in the queue")
    by_whom = f"cancelled by {user}" + (f": {reason}" if reason else "")
    if request.state is CompactionState.INITIATED:
        move_to_history(connection, request, CompactionState.ABORTED, by_whom)
        return AbortAnswer(request_id, True, "Successfully aborted compaction")
    in_state = f"Error while aborting compaction as compaction is in state-{request.state.text}"
    if request.state is not CompactionState.WORKING:
        return AbortAnswer(request_id, False, in_state)
    if not (request.worker_version or "").startswith(OUR_VERSION):
        return AbortAnswer(
            request_id, False,
            f"{in_state}: {request.worker_id} (version {request.worker_version or 'unknown'}) runs it, which is no "
            "Worker of this package and cannot be told to stop; wait for it, or kill its job where it runs",
        )  # fmt: skip
    if request.txn_id is not None and connection.execute(_OPEN, {"txn_id": request.txn_id}).first() is None:
        move_to_history(connection, request, CompactionState.ABORTED, f"{by_whom}; its Worker was gone")
        return AbortAnswer(request_id, True, f"Aborted; its Worker {request.worker_id} was gone")
    _mark(connection, request_id, user, reason)
    return AbortAnswer(
        request_id, True, f"Running: its Worker {request.worker_id} stops the job and aborts it in seconds"
    )


def _mark(connection: Connection, request_id: int, user: str, reason: str | None) -> None:
    connection.execute(_FORGET_OLD, {"age": _KEPT_MS})
    if connection.execute(_CANCELLED, {"id": request_id}).first() is None:
        connection.execute(
            insert(HIVE_ACID_COMPACTION_CANCEL).values(
                HCN_ID=request_id, HCN_USER=info(user) or "unknown", HCN_REASON=clean_text(reason),
                HCN_REQUESTED=clock_ms(),
            )
        )  # fmt: skip
