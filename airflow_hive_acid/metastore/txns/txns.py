"""Opening txns, keeping them alive, and telling what became of them (Hive's openTxns, heartbeat).

An id is assigned before its row becomes visible, so an open that took longer than ``hive.txn.opentxn.timeout`` undoes
itself and is repeated: readers count missing ids below young rows as open and rely on that promise (R11). What is only
known once the COMMIT has been answered is looked at by :mod:`~airflow_hive_acid.metastore.txns.opens`. Every time is
the database's clock.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from sqlalchemy import bindparam, func, insert, or_, select, update

from airflow_hive_acid.errors import InvalidArgumentsError, NoSuchTxnError, TooManyOpenTxnsError, TxnAbortedError
from airflow_hive_acid.metastore.database.backend import Step, backend_of, execute_batch, finish_batch, open_txn_lock
from airflow_hive_acid.metastore.database.clock import clock_ms
from airflow_hive_acid.metastore.database.codes import TxnState, TxnType
from airflow_hive_acid.metastore.database.database import chunks
from airflow_hive_acid.metastore.database.failures import OpenTookTooLongError
from airflow_hive_acid.metastore.names.objects import info
from airflow_hive_acid.metastore.schema.hive_transactions import COMPLETED_TXN_COMPONENTS, MIN_HISTORY_LEVEL, TXNS
from airflow_hive_acid.metastore.schema.layouts import NEXT_TXN_ID
from airflow_hive_acid.metastore.txns.history import WATERMARK

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sqlalchemy.engine import Connection

    from airflow_hive_acid.metastore.database.database import Features

_ROW = {
    "TXN_STATE": "o", "TXN_STARTED": clock_ms(), "TXN_LAST_HEARTBEAT": clock_ms(), "TXN_USER": bindparam("user"),
    "TXN_HOST": bindparam("host"), "TXN_AGENT_INFO": bindparam("agent"), "TXN_TYPE": bindparam("type"),
}  # fmt: skip
_INSERT = insert(TXNS).values(_ROW)
_WATERMARK = select(WATERMARK)
_INSERT_LEVEL = insert(MIN_HISTORY_LEVEL).values(
    MHL_TXNID=bindparam("txn_id"), MHL_MIN_OPEN_TXNID=bindparam("min_open")
)

# Where one statement can write several tables: rows and history. All its parts see the database as it was before, so
# the watermark is the one from before the insert.
_SERIES = func.generate_series(1, bindparam("number", type_=sa.Integer)).table_valued("n")
_NEW_ROW = select(
    sa.literal("o", sa.CHAR(1)),
    clock_ms(),
    clock_ms(),
    bindparam("user", type_=sa.String),
    bindparam("host", type_=sa.String),
    bindparam("agent", type_=sa.String),
    bindparam("type", type_=sa.Integer),
)


@cache
def _opening(*, one: bool, with_level: bool) -> sa.Insert:
    """Insert and return ids; a single row without the series, whose length the server would plan for each time."""
    rows = insert(TXNS).from_select(list(_ROW), _NEW_ROW if one else _NEW_ROW.select_from(_SERIES))
    opened = rows.returning(TXNS.c.TXN_ID)
    if not with_level:
        return opened
    ids = opened.cte("opened")
    level = insert(MIN_HISTORY_LEVEL).from_select(["MHL_TXNID", "MHL_MIN_OPEN_TXNID"], select(ids.c.TXN_ID, WATERMARK))
    return level.returning(MIN_HISTORY_LEVEL.c.MHL_TXNID)


# Where txns are counted the ids come from NEXT_TXN_ID, whose row is locked by the statement before.
_NUMBER = bindparam("number", type_=sa.BigInteger)
_ADVANCE = update(NEXT_TXN_ID).values(NTXN_NEXT=NEXT_TXN_ID.c.NTXN_NEXT + _NUMBER)
_INSERT_COUNTED = insert(TXNS).values({**_ROW, "TXN_ID": bindparam("txn_id")})


@cache
def _opening_counted(*, with_level: bool) -> sa.Insert:
    """Advance the count, insert and return ids, in one statement: all its parts see the count as it was before."""
    advance = _ADVANCE.returning((NEXT_TXN_ID.c.NTXN_NEXT - _NUMBER).label("first")).cte("advance")
    following = func.generate_series(0, _NUMBER - 1).table_valued("n").render_derived(name="following")
    ids = advance.c.first + following.c.n
    rows = insert(TXNS).from_select(
        ["TXN_ID", *_ROW], _NEW_ROW.with_only_columns(ids, *_NEW_ROW.selected_columns).select_from(advance, following)
    )
    opened = rows.returning(TXNS.c.TXN_ID)
    if not with_level:
        return opened
    new = opened.cte("opened")
    level = insert(MIN_HISTORY_LEVEL).from_select(["MHL_TXNID", "MHL_MIN_OPEN_TXNID"], select(new.c.TXN_ID, WATERMARK))
    return level.returning(MIN_HISTORY_LEVEL.c.MHL_TXNID)


_HEARTBEAT = (
    update(TXNS)
    .where(TXNS.c.TXN_ID == bindparam("txn_id"), TXNS.c.TXN_STATE == "o")
    .values(TXN_LAST_HEARTBEAT=clock_ms())
)
_HEARTBEAT_RANGE = (
    update(TXNS)
    .where(TXNS.c.TXN_ID.between(bindparam("low"), bindparam("high")), TXNS.c.TXN_STATE == "o")
    .values(TXN_LAST_HEARTBEAT=clock_ms())
)
_LOCK_ROW = (
    select(TXNS.c.TXN_STATE, TXNS.c.TXN_TYPE, TXNS.c.TXN_META_INFO)
    .where(TXNS.c.TXN_ID == bindparam("txn_id"))
    .with_for_update()
)
_STATES = select(TXNS.c.TXN_ID, TXNS.c.TXN_STATE, TXNS.c.TXN_TYPE, TXNS.c.TXN_META_INFO).where(
    TXNS.c.TXN_ID.in_(bindparam("ids", expanding=True))
)
_COMPLETED = (
    select(COMPLETED_TXN_COMPONENTS.c.CTC_TXNID)
    .where(COMPLETED_TXN_COMPONENTS.c.CTC_TXNID == bindparam("txn_id"))
    .limit(1)
)
GIVEN_UP = "given up: "
"""How TXN_META_INFO of an open txn begins that cannot commit any more (``withdrawals``); Hive leaves it empty."""
#: NULL where TXN_META_INFO is NULL. Without LIKE, whose wildcards and letter cases differ between databases.
IS_GIVEN_UP = func.substr(TXNS.c.TXN_META_INFO, 1, len(GIVEN_UP)) == GIVEN_UP
IS_NOT_GIVEN_UP = or_(TXNS.c.TXN_META_INFO.is_(None), ~IS_GIVEN_UP)
_COUNT_OPEN = select(func.count()).select_from(TXNS).where(TXNS.c.TXN_STATE == "o")


@dataclass(frozen=True, slots=True)
class OpenRequest:
    """What to open.

    :param number: how many txns; at most ``hive.txn.max.open.batch`` are opened in one call.
    :param agent_info: who works in it: DAG, run, task, try.
    """

    user: str
    host: str
    number: int = 1
    type: TxnType = TxnType.DEFAULT
    agent_info: str | None = None

    def __post_init__(self) -> None:
        if self.number <= 0:
            raise InvalidArgumentsError(f"{self.number} txns cannot be opened; ask for at least 1")


@dataclass(frozen=True, slots=True)
class TxnFacts:
    """A row of TXNS as far as verbs need it."""

    state: TxnState
    type: TxnType
    reason: str | None

    @property
    def given_up(self) -> bool:
        """Whether it is open only until its jobs are fenced: it cannot commit any more (R4)."""
        return self.state is TxnState.OPEN and (self.reason or "").startswith(GIVEN_UP)


def open_txns(
    connection: Connection,
    request: OpenRequest,
    features: Features,
    gap_timeout_ms: int,
    *,
    finish: bool = False,
    timer: Callable[[], float] = time.monotonic,
) -> list[int]:
    """Open txns; returns their ids, ascending.

    :param finish: nothing else follows in this transaction.
    :raises OpenTookTooLongError: when it took longer than the timeout; the whole operation is to be repeated.
    """
    started = timer()
    rows = {
        "user": info(request.user),
        "host": info(request.host),
        "agent": info(request.agent_info) or None,
        "type": int(request.type),
    }
    backend = backend_of(connection)
    if backend.compound:
        ids = _open_together(connection, rows, request.number, features, gap_timeout_ms, finish=finish)
    else:
        ids = _open_one_by_one(connection, rows, request.number, features, gap_timeout_ms)
    if finish and backend.one_trip:  # it is committed: too late to undo anything here
        return sorted(ids)
    if request.type is not TxnType.READ_ONLY and (timer() - started) * 1000 >= gap_timeout_ms:
        # The rows would appear later than readers wait for them; the rollback burns the ids.
        raise OpenTookTooLongError(f"opening took longer than hive.txn.opentxn.timeout ({gap_timeout_ms} ms)")
    return sorted(ids)


def _open_together(
    connection: Connection, row: dict[str, Any], number: int, features: Features, timeout: int, *, finish: bool
) -> list[int]:
    if backend_of(connection).layout.counts_txns:
        statement = _opening_counted(with_level=features.min_history_level)
    else:
        statement = _opening(one=number == 1, with_level=features.min_history_level)
    parameters = {**row, "number": number, "gap_timeout": timeout}
    batch = finish_batch if finish else execute_batch
    results = batch(connection, [open_txn_lock(connection, exclusive=False), Step(statement, parameters)])
    return [r[0] for r in results[1].rows]


def _open_one_by_one(
    connection: Connection, row: dict[str, Any], number: int, features: Features, timeout: int
) -> list[int]:
    lock = open_txn_lock(connection, exclusive=False)
    counted = connection.execute(lock.statement).scalar()
    min_open = 0
    if features.min_history_level:
        min_open = connection.execute(_WATERMARK, {"gap_timeout": timeout}).scalar_one()
    ids: list[int] = []
    if backend_of(connection).layout.counts_txns:
        ids.extend(range(int(counted or 0), int(counted or 0) + number))
        connection.execute(_ADVANCE, {"number": number})
        connection.execute(_INSERT_COUNTED, [{**row, "txn_id": i} for i in ids])
    for _ in range(number - len(ids)):
        key = connection.execute(_INSERT, row).inserted_primary_key
        if key is None:
            raise AssertionError("the database returned no generated id")
        ids.append(int(key[0]))
    if features.min_history_level:
        connection.execute(_INSERT_LEVEL, [{"txn_id": i, "min_open": min_open} for i in ids])
    return ids


class OpenGate:
    """Refuses opens while too many txns are open (``hive.max.open.txns``), until fewer than 90 % of that are.

    The count is taken anew when it is older than ``hive.count.open.txns.interval``.
    """

    def __init__(self, limit: int, interval_ms: int, timer: Callable[[], float] = time.monotonic) -> None:
        self._limit = limit
        self._interval = interval_ms / 1000
        self._timer = timer
        self._taken: float | None = None
        self._count = 0
        self._closed = False

    def check(self, connection: Connection) -> None:
        """Raise while too many txns are open.

        :raises TooManyOpenTxnsError: names count and limit.
        """
        now = self._timer()
        if self._taken is None or now - self._taken >= self._interval:
            self._count = int(connection.execute(_COUNT_OPEN).scalar_one())
            self._taken = now
            if self._count >= self._limit:
                self._closed = True
            elif self._count < 0.9 * self._limit:
                self._closed = False
        if self._closed:
            raise TooManyOpenTxnsError(
                f"{self._count} txns are open, hive.max.open.txns is {self._limit}; txns are opened again when fewer "
                f"than {int(0.9 * self._limit)} are. Look for clients that do not commit: hive-acid show transactions"
            )


# --- what became of a txn -----------------------------------------------------------------------------------------


def lock_txn_step(txn_id: int) -> Step:
    """The statement that locks the row of a txn and reads its state, type and abort reason."""
    return Step(_LOCK_ROW, {"txn_id": txn_id})


def facts(row: Any) -> TxnFacts:
    """A row of :func:`lock_txn_step` as a value."""
    return TxnFacts(TxnState(row[0]), TxnType(row[1] or 0), row[2])


def require_open(connection: Connection, txn_id: int, rows: Sequence[Any]) -> TxnFacts:
    """The txn's row, checked to be open.

    :param rows: what :func:`lock_txn_step` returned.
    :raises TxnAbortedError: when it is aborted; the text gives the reason.
    :raises NoSuchTxnError: when it is committed or was never opened.
    """
    if not rows:
        raise missing_txn(connection, txn_id)
    found = facts(rows[0])
    if found.state is TxnState.OPEN and not found.given_up:
        return found
    raise not_open(txn_id, found)


def not_open(txn_id: int, found: TxnFacts) -> NoSuchTxnError | TxnAbortedError:
    """The error for a txn that is given up, aborted or committed."""
    if found.given_up:
        return TxnAbortedError(f"txn {txn_id} was {found.reason}; it is being aborted, open a new one")
    if found.state is TxnState.ABORTED:
        reason = f": {found.reason}" if found.reason else ""
        return TxnAbortedError(f"txn {txn_id} is already aborted{reason}; open a new one")
    return NoSuchTxnError(f"txn {txn_id} is already committed")


def missing_txn(connection: Connection, txn_id: int) -> NoSuchTxnError:
    """The error for a txn without row in TXNS: committed long ago, or never opened."""
    if connection.execute(_COMPLETED, {"txn_id": txn_id}).first() is not None:
        return NoSuchTxnError(f"txn {txn_id} is already committed")
    return NoSuchTxnError(f"no txn {txn_id}: it was never opened, or ended long ago and was forgotten")


def was_committed(connection: Connection, txn_id: int) -> bool:
    """Whether COMPLETED_TXN_COMPONENTS remembers the txn."""
    return connection.execute(_COMPLETED, {"txn_id": txn_id}).first() is not None


def txn_facts(connection: Connection, txn_ids: Sequence[int]) -> dict[int, TxnFacts]:
    """State, type and abort reason of txns; those without a row are left out."""
    found = {}
    for part in chunks(list(txn_ids)):
        for row in connection.execute(_STATES, {"ids": list(part)}):
            found[int(row[0])] = TxnFacts(TxnState(row[1]), TxnType(row[2] or 0), row[3])
    return found


# --- heartbeats ---------------------------------------------------------------------------------------------------


def heartbeat_step(txn_id: int) -> Step:
    """The statement that moves a txn's heartbeat and, as S4U does, locks its row; row count 0 when it is not open."""
    return Step(_HEARTBEAT, {"txn_id": txn_id})


def heartbeat_txn(connection: Connection, txn_id: int) -> None:
    """Move the heartbeat of an open txn.

    :raises TxnAbortedError: when it is aborted; the text gives the reason.
    :raises NoSuchTxnError: when it is committed or was never opened.
    """
    if connection.execute(_HEARTBEAT, {"txn_id": txn_id}).rowcount == 0:
        raise txn_problem(connection, txn_id)


def txn_problem(connection: Connection, txn_id: int) -> NoSuchTxnError | TxnAbortedError:
    """Why a txn that should be open is not."""
    found = txn_facts(connection, [txn_id]).get(txn_id)
    return missing_txn(connection, txn_id) if found is None else not_open(txn_id, found)


@dataclass(frozen=True, slots=True)
class RangeHeartbeat:
    """Answer of a heartbeat over a range of txns.

    :param missing: ids that are committed or unknown.
    :param aborted: ids that are aborted.
    """

    missing: frozenset[int]
    aborted: frozenset[int]


def heartbeat_range(connection: Connection, low: int, high: int) -> RangeHeartbeat:
    """Move the heartbeats of all open txns of ``low``..``high``; tells which are not open instead of raising."""
    if low > high:
        raise InvalidArgumentsError(f"the txn range {low}..{high} is empty")
    if connection.execute(_HEARTBEAT_RANGE, {"low": low, "high": high}).rowcount == high - low + 1:
        return RangeHeartbeat(frozenset(), frozenset())
    found = txn_facts(connection, range(low, high + 1))
    aborted = frozenset(i for i, f in found.items() if f.state is TxnState.ABORTED)
    alive = {i for i, f in found.items() if f.state is TxnState.OPEN}
    return RangeHeartbeat(frozenset(range(low, high + 1)) - aborted - alive, aborted)
