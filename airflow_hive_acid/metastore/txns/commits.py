"""Committing a txn: checks, components, write conflicts, history, in the order that keeps global locks short.

Hive's commitTxn with our additions. R12: a partitioned table's components must name partitions. R2: a change that the
txn's snapshot already contained is no conflict. R15: everything that can be done before is done before the open-txn
lock is taken exclusively; events come last. Committing twice succeeds twice.

The order: row lock, the caller's checks (manifest, then idempotency claim and leases), partitions, R12, components,
then the short global lock with MAX(TXN_ID) and the conflict check, then events and COMMIT.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from sqlalchemy import and_, bindparam, delete, func, insert, or_, select, update

from airflow_hive_acid.errors import HiveAcidError, InvalidArgumentsError
from airflow_hive_acid.metastore.database.backend import (
    SAVEPOINT,
    UNDO,
    Step,
    backend_of,
    execute_batch,
    finish_batch,
    open_txn_lock,
    together,
    unless_halted,
)
from airflow_hive_acid.metastore.database.clock import clock_ms, clock_timestamp
from airflow_hive_acid.metastore.database.codes import COMPACTING_TYPES, AbortReason, TxnState, TxnType
from airflow_hive_acid.metastore.database.wakeups import release_steps
from airflow_hive_acid.metastore.names.partitions import in_both_spellings
from airflow_hive_acid.metastore.schema.hive_catalog import DBS, PARTITION_KEYS, TBLS
from airflow_hive_acid.metastore.schema.hive_transactions import (
    COMPACTION_QUEUE,
    COMPLETED_TXN_COMPONENTS,
    HIVE_LOCKS,
    MATERIALIZATION_REBUILD_LOCKS,
    REPL_TXN_MAP,
    TXN_COMPONENTS,
    TXNS,
    WRITE_SET,
)
from airflow_hive_acid.metastore.txns.aborts import abort_rows
from airflow_hive_acid.metastore.txns.conflicts import (
    Conflict,
    candidates_step,
    describe,
    first_conflict,
    record_step,
)
from airflow_hive_acid.metastore.txns.history import COUNTED, forget_steps
from airflow_hive_acid.metastore.txns.jobs import committed_step
from airflow_hive_acid.metastore.txns.statistics import SELECT_EXACT, forget
from airflow_hive_acid.metastore.txns.txns import TxnFacts, facts, lock_txn_step, missing_txn, not_open, was_committed

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sqlalchemy.engine import Connection

    from airflow_hive_acid.format.write_ids import ValidTxnList
    from airflow_hive_acid.metastore.database.database import Features
    from airflow_hive_acid.metastore.txns.expectations import Expectation

_TXN = bindparam("txn_id", type_=sa.BigInteger)
_TEXT, _NUMBER = sa.cast(sa.null(), sa.String(256)), sa.cast(sa.null(), sa.BigInteger)
_WRITES = (
    select(
        sa.literal(0, sa.Integer).label("kind"),
        TXN_COMPONENTS.c.TC_OPERATION_TYPE,
        TXN_COMPONENTS.c.TC_DATABASE,
        TXN_COMPONENTS.c.TC_WRITEID,
        _NUMBER,
        _NUMBER,
    )
    .where(TXN_COMPONENTS.c.TC_TXNID == _TXN)
    .distinct()
)
#: R12: a component without partition on a table that the catalog knows as partitioned.
_UNNAMED_PARTITION = (
    select(
        sa.literal(1, sa.Integer), TXN_COMPONENTS.c.TC_DATABASE, TXN_COMPONENTS.c.TC_TABLE, _NUMBER, _NUMBER, _NUMBER
    )
    .join(DBS, and_(DBS.c.NAME == TXN_COMPONENTS.c.TC_DATABASE, DBS.c.CTLG_NAME == "hive"))
    .join(TBLS, and_(TBLS.c.DB_ID == DBS.c.DB_ID, TBLS.c.TBL_NAME == TXN_COMPONENTS.c.TC_TABLE))
    .join(PARTITION_KEYS, PARTITION_KEYS.c.TBL_ID == TBLS.c.TBL_ID)
    .where(
        TXN_COMPONENTS.c.TC_TXNID == _TXN,
        TXN_COMPONENTS.c.TC_PARTITION.is_(None),
        TXN_COMPONENTS.c.TC_OPERATION_TYPE != "c",
    )
)
_EXACT = SELECT_EXACT.subquery()
_LOOK = sa.union_all(
    _WRITES,
    _UNNAMED_PARTITION,
    select(sa.literal(2, sa.Integer), _TEXT, _TEXT, _EXACT.c.TBL_ID, _EXACT.c.PART_ID, _EXACT.c.WRITE_ID),
)
"""What the txn wrote (0), which partitions it did not name (1), which statistics it outdates (2)."""
_WS_COLUMNS = ["WS_DATABASE", "WS_TABLE", "WS_PARTITION", "WS_TXNID", "WS_COMMIT_ID", "WS_OPERATION_TYPE"]


def _write_set(operations: tuple[str, ...]) -> sa.Insert:
    return insert(WRITE_SET).from_select(
        _WS_COLUMNS,
        in_both_spellings(
            lambda partition: select(
                TXN_COMPONENTS.c.TC_DATABASE,
                TXN_COMPONENTS.c.TC_TABLE,
                partition,
                TXN_COMPONENTS.c.TC_TXNID,
                bindparam("commit_id", type_=sa.BigInteger),
                TXN_COMPONENTS.c.TC_OPERATION_TYPE,
            ).where(
                TXN_COMPONENTS.c.TC_TXNID == _TXN, or_(*(TXN_COMPONENTS.c.TC_OPERATION_TYPE == o for o in operations))
            ),
            TXN_COMPONENTS.c.TC_PARTITION,
        ),
    )


_CHANGES, _ALL_WRITES = ("u", "d"), ("i", "u", "d")
_WRITE_SETS: dict[tuple[str, ...], sa.Insert] = {letters: _write_set(letters) for letters in (_CHANGES, _ALL_WRITES)}
_SET_COMMIT_ID = (
    update(WRITE_SET)
    .where(WRITE_SET.c.WS_TXNID == _TXN, WRITE_SET.c.WS_COMMIT_ID == bindparam("temporary_id"))
    .values(WS_COMMIT_ID=bindparam("commit_id"))
)
_MAX_TXN = select(func.max(TXNS.c.TXN_ID))
_COUNTED_TXN = select(COUNTED)
_COMPLETE = insert(COMPLETED_TXN_COMPONENTS).from_select(
    ["CTC_TXNID", "CTC_DATABASE", "CTC_TABLE", "CTC_PARTITION", "CTC_TIMESTAMP", "CTC_WRITEID", "CTC_UPDATE_DELETE"],
    select(
        TXN_COMPONENTS.c.TC_TXNID,
        TXN_COMPONENTS.c.TC_DATABASE,
        TXN_COMPONENTS.c.TC_TABLE,
        TXN_COMPONENTS.c.TC_PARTITION,
        clock_timestamp(),
        TXN_COMPONENTS.c.TC_WRITEID,
        bindparam("flag", type_=sa.CHAR(1)),
    ).where(TXN_COMPONENTS.c.TC_TXNID == _TXN, TXN_COMPONENTS.c.TC_OPERATION_TYPE != "c"),
)
_COMPLETE_REPLAYED = insert(COMPLETED_TXN_COMPONENTS).values(
    CTC_TXNID=_TXN,
    CTC_DATABASE=bindparam("db"),
    CTC_TABLE=bindparam("tbl"),
    CTC_PARTITION=bindparam("part"),
    CTC_TIMESTAMP=clock_timestamp(),
    CTC_WRITEID=bindparam("write_id"),
    CTC_UPDATE_DELETE="N",
)
_FORGET_MAP = delete(REPL_TXN_MAP).where(
    REPL_TXN_MAP.c.RTM_REPL_POLICY == bindparam("policy"), REPL_TXN_MAP.c.RTM_SRC_TXN_ID == bindparam("source_txn")
)
_DELETE_COMPONENTS = delete(TXN_COMPONENTS).where(TXN_COMPONENTS.c.TC_TXNID == _TXN)
_DELETE_LOCKS = delete(HIVE_LOCKS).where(HIVE_LOCKS.c.HL_TXNID == _TXN)
_MARK = update(TXNS).where(TXNS.c.TXN_ID == _TXN).values(TXN_STATE="c")
#: Where txns are counted, a committed txn has no row: a Hive 3 takes every row for one that is open or aborted.
_FORGET_TXN = delete(TXNS).where(TXNS.c.TXN_ID == _TXN)
_DELETE_REBUILD_LOCK = delete(MATERIALIZATION_REBUILD_LOCKS).where(MATERIALIZATION_REBUILD_LOCKS.c.MRL_TXN_ID == _TXN)
_STAMP_QUEUE = (
    update(COMPACTION_QUEUE)
    .where(COMPACTION_QUEUE.c.CQ_TXN_ID == _TXN)
    .values(CQ_NEXT_TXN_ID=bindparam("commit_id"), CQ_COMMIT_TIME=clock_ms())
)


@dataclass(frozen=True, slots=True)
class Committed:
    """What is committed, for its events.

    :param operations: letters of its components.
    :param writes: database and write id of each table written.
    """

    txn_id: int
    type: TxnType
    operations: frozenset[str] = frozenset()
    writes: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class CommitHooks:
    """What else must hold, or happen, in the commit's own transaction; each raises to refuse the commit.

    :param checks: the manifest check; then whatever belongs to the data.
    :param partitions: adds the partitions written, in the catalog and as components.
    :param claims: the idempotency record (R14).
    :param leases: locks the lease's rows and evaluates its end after that wait (R8).
    :param behind_lock: evaluates the lease's end once more, behind the global lock: the last wait (R8).
    :param events: makes the statements that write the notification events, last of all (R15).
    :param statistics: is told which statistics are about to be outdated, as rows of ``SELECT_EXACT``.
    :param writes: database and write id of tables written without components, as by DDL: the commit's event names them.
    """

    checks: tuple[Callable[[Connection], None], ...] = ()
    partitions: tuple[Callable[[Connection], None], ...] = ()
    claims: tuple[Callable[[Connection], None], ...] = ()
    leases: tuple[Callable[[Connection], None], ...] = ()
    behind_lock: tuple[Callable[[Connection], None], ...] = ()
    events: Callable[[Connection, Committed], list[Step]] | None = None
    statistics: Callable[[Connection, Sequence[Sequence[Any]]], None] | None = None
    writes: tuple[tuple[str, int], ...] = ()

    def before_lock(self) -> tuple[Callable[[Connection], None], ...]:
        """All that runs before the global lock, in protocol order."""
        return (*self.checks, *self.partitions, *self.claims, *self.leases)


@dataclass(frozen=True, slots=True)
class Replayed:
    """Commit of a txn that was opened for one of another Hive.

    :param policy: replication policy; ``source_txn`` the other Hive's txn.
    :param writes: what it wrote, as the source recorded it: (database, table, partition, write id).
    """

    policy: str
    source_txn: int
    writes: tuple[tuple[str, str, str | None, int], ...] = ()


@dataclass(frozen=True, slots=True)
class CommitRequest:
    """A txn to commit.

    :param check_conflicts: false for Hive's exclWriteEnabled: the caller held exclusive write locks throughout.
    :param snapshot: what the writes were based on (R2); without it Hive's plain interval rule applies.
    :param expected: how the caller knows the txn to be, if it does: then it need not be looked at first.
    """

    txn_id: int
    check_conflicts: bool = True
    snapshot: ValidTxnList | None = None
    hooks: CommitHooks = field(default_factory=CommitHooks)
    replayed: Replayed | None = None
    expected: Expectation | None = None


@dataclass(frozen=True, slots=True)
class CommitOutcome:
    """What a commit came to; a conflict means that the txn is now aborted.

    :param already: the txn had been committed before.
    """

    conflict: Conflict | None = None
    already: bool = False


class NotAtOnceError(HiveAcidError):
    """A commit at once met a conflict, or not what it expected; nothing happened, and the long way will tell which."""


def commit_txn(
    connection: Connection, request: CommitRequest, features: Features, *, at_once: bool = False
) -> CommitOutcome:
    """Commit a txn.

    :param at_once: where it can be done, hold the global lock for no longer than the server itself needs.
    A conflict does not raise here: the abort it leads to is part of this transaction and must be committed.

    :raises TxnAbortedError: when it is aborted.
    :raises NoSuchTxnError: when it was never opened.
    :raises InvalidArgumentsError: when a partitioned table's component names no partition (R12).
    :raises NotAtOnceError: when it was to be at once, and a conflict has to be described: commit again, the long way.
    """
    if at_once and request.expected is not None and _needs_no_look(connection, request):
        return _commit_expected(connection, request, request.expected, features)
    committed = _check(connection, request)
    if committed is None:
        return CommitOutcome(already=True)
    txn_id, kind = committed.txn_id, committed.type
    if request.replayed is not None:
        return _finish(connection, request, committed, _replayed_steps(request.replayed, txn_id, features))
    plan = _Plan.of(kind, committed.operations, features, check=request.check_conflicts)
    # Negative, so that nobody takes it for a commit id; random, so that no other commit under way has the same.
    temporary_id = -random.getrandbits(62) - 1
    at_once = (
        at_once
        and not request.hooks.behind_lock
        and bool(plan.recorded)
        and backend_of(connection).one_trip
        and kind not in COMPACTING_TYPES
    )
    steps = _steps(plan, txn_id, features, kind, None if at_once else temporary_id)
    if not plan.needs_lock:
        return _finish(connection, request, committed, steps)

    if at_once:
        return _commit_at_once(connection, request, committed, plan, together(connection, steps))
    # R15: all row changes first, then the lock, so that other clients' opens wait as briefly as possible.
    # R3: what is read under the lock is read in statements of its own.
    counting = backend_of(connection).layout.counts_txns
    under_lock = [open_txn_lock(connection, exclusive=True), Step(_COUNTED_TXN if counting else _MAX_TXN)]
    if plan.check:
        under_lock.append(candidates_step(txn_id))
    undo = () if request.hooks.before_lock() else (SAVEPOINT,)
    results = execute_batch(connection, [*undo, *together(connection, steps), *under_lock])
    for hook in request.hooks.behind_lock:
        hook(connection)
    commit_id = int(results[-2 if plan.check else -1].rows[0][0])
    conflict = first_conflict(results[-1].rows, request.snapshot) if plan.check else None
    if conflict is not None:
        connection.execute(UNDO.statement)
        # Which partitions hold files of the aborted write id must not be forgotten with the rest.
        for hook in request.hooks.partitions:
            hook(connection)
        # R4: where it has moved files into plain tables, its locks stay until they are moved back.
        abort_rows(connection, [txn_id], features, AbortReason.WRITE_CONFLICT)
        return CommitOutcome(conflict=describe(connection, conflict, commit_id))
    after: list[Step] = []
    if plan.recorded:
        after.append(Step(_SET_COMMIT_ID, {"txn_id": txn_id, "temporary_id": temporary_id, "commit_id": commit_id}))
    if kind in COMPACTING_TYPES:
        after.append(Step(_STAMP_QUEUE, {"txn_id": txn_id, "commit_id": commit_id}))
    return _finish(connection, request, committed, after)


def _needs_no_look(connection: Connection, request: CommitRequest) -> bool:
    """Whether nothing has to be done before the txn's rows change, and all of it can travel together."""
    backend, hooks = backend_of(connection), request.hooks
    whole = not hooks.before_lock() and not hooks.behind_lock and not hooks.writes and request.replayed is None
    return whole and backend.one_trip and not backend.layout.counts_txns


def _commit_expected(
    connection: Connection, request: CommitRequest, expected: Expectation, features: Features
) -> CommitOutcome:
    """All of a commit in one round trip; halted where the txn is not as expected."""
    plan = _Plan.of(expected.type, expected.operations, features, check=request.check_conflicts)
    committed = Committed(request.txn_id, expected.type, expected.operations, expected.writes)
    lock, halting = lock_txn_step(request.txn_id), expected.step(request.txn_id)
    steps = _steps(plan, request.txn_id, features, expected.type, None)
    if not plan.recorded and expected.written is not None:
        steps.append(Step(_DELETE_COMPONENTS, {"txn_id": request.txn_id}))
    return _commit_at_once(connection, request, committed, plan, [lock, *unless_halted(connection, halting, steps)])


def _commit_at_once(
    connection: Connection, request: CommitRequest, committed: Committed, plan: _Plan, steps: list[Step]
) -> CommitOutcome:
    """Changes, lock, commit id, conflict check, events and COMMIT in one trip: nobody waits for this client (R15).

    R3: commit id and conflicts are read in a statement of its own behind the lock.
    """
    if plan.recorded:
        record = record_step(committed.txn_id, request.snapshot, plan.recorded, check=plan.check)
        steps = [*steps, open_txn_lock(connection, exclusive=True), record]
    events = [] if request.hooks.events is None else request.hooks.events(connection, committed)
    try:
        finish_batch(
            connection, [*steps, *_end_steps(connection, committed.txn_id), *events, *release_steps(connection)]
        )
    except Exception as error:
        if backend_of(connection).was_halted(error):
            raise NotAtOnceError(f"txn {committed.txn_id} meets a conflict, or is not as expected") from error
        raise
    return CommitOutcome()


def _check(connection: Connection, request: CommitRequest) -> Committed | None:
    """Lock the txn, run the caller's checks, and read what it wrote; None when it is committed already."""
    look = Step(_LOOK, {"txn_id": request.txn_id})
    before = request.hooks.before_lock()
    # Whatever hooks do is undone by a conflict, so the savepoint comes before them; the row's lock stays.
    (row, *rest) = execute_batch(connection, [lock_txn_step(request.txn_id), *((SAVEPOINT,) if before else (look,))])
    found = _open_or_committed(connection, request.txn_id, row.rows)
    if found is None:
        return None
    if before:
        for hook in before:
            hook(connection)
        rest = execute_batch(connection, [look])
    by_kind: tuple[list[Any], list[Any], list[Any]] = ([], [], [])
    for kind, *columns in rest[0].rows:
        by_kind[kind].append(columns)
    written, unnamed, exact = by_kind
    if unnamed:
        raise _unnamed_partition(request.txn_id, *unnamed[0][:2])
    # Hive would go on answering count(*) from statistics that this commit outdates.
    outdated = [columns[2:] for columns in exact]
    if outdated and request.hooks.statistics is not None:
        request.hooks.statistics(connection, outdated)
    forget(connection, outdated)
    return Committed(
        request.txn_id,
        found.type,
        frozenset(c[0] for c in written),
        (*((c[1], c[2]) for c in written if c[2] is not None), *request.hooks.writes),
    )


@dataclass(frozen=True, slots=True)
class _Plan:
    """What a commit of this kind has to do.

    :param recorded: letters of the components that go to the write set, if any does.
    """

    recorded: tuple[str, ...]
    needs_lock: bool
    check: bool
    completes: bool
    changes: bool

    @classmethod
    def of(cls, kind: TxnType, operations: frozenset[str], features: Features, *, check: bool) -> _Plan:
        if kind is TxnType.READ_ONLY:
            return cls((), False, False, False, False)
        if kind in (TxnType.COMPACTION, TxnType.SOFT_DELETE):
            return cls((), True, False, kind is TxnType.SOFT_DELETE, False)
        changes = bool(operations & {"u", "d"})
        completes = kind is not TxnType.REBALANCE_COMPACTION
        # Without MIN_HISTORY_LEVEL the write set also protects TXN_TO_WRITE_ID, so inserts are recorded too.
        recorded = _CHANGES if features.min_history_level else _ALL_WRITES
        needs_record = changes or (not features.min_history_level and "i" in operations)
        lock = needs_record or kind in COMPACTING_TYPES
        return cls(recorded if needs_record else (), lock, changes and check, completes, changes)


def _open_or_committed(connection: Connection, txn_id: int, rows: list[Any]) -> TxnFacts | None:
    """The open txn, None when it is committed already."""
    if not rows:
        if was_committed(connection, txn_id):
            return None
        raise missing_txn(connection, txn_id)
    found = facts(rows[0])
    if found.state is TxnState.COMMITTED:
        return None
    if found.state is TxnState.ABORTED or found.given_up:  # R4: its jobs are being fenced
        raise not_open(txn_id, found)
    return found


def _steps(plan: _Plan, txn_id: int, features: Features, kind: TxnType, temporary_id: int | None) -> list[Step]:
    """Row changes that every commit of this kind makes.

    :param temporary_id: of the write set until the commit id is known; None when it is recorded, and the components
        are removed, behind the lock.
    """
    me = {"txn_id": txn_id}
    steps = []
    if plan.completes:
        steps.append(Step(_COMPLETE, {**me, "flag": "Y" if plan.changes else "N"}))
    if plan.recorded and temporary_id is not None:
        steps.append(Step(_WRITE_SETS[plan.recorded], {**me, "commit_id": temporary_id}))
    if kind is not TxnType.READ_ONLY:
        if temporary_id is not None:
            steps.append(Step(_DELETE_COMPONENTS, me))
        if features.extensions:
            steps.append(committed_step(txn_id))
    if kind is TxnType.MATER_VIEW_REBUILD:
        steps.append(Step(_DELETE_REBUILD_LOCK, me))
    return [*steps, Step(_DELETE_LOCKS, me), Step(_MARK, me), *forget_steps(features, txn_id)]


def _replayed_steps(replayed: Replayed, txn_id: int, features: Features) -> list[Step]:
    """A replayed txn has been checked where it came from; its components come from the source's record."""
    me = {"txn_id": txn_id}
    steps = [
        Step(_COMPLETE_REPLAYED, {**me, "db": db, "tbl": tbl, "part": part, "write_id": write_id})
        for db, tbl, part, write_id in replayed.writes
    ]
    forget_map = Step(_FORGET_MAP, {"policy": replayed.policy, "source_txn": replayed.source_txn})
    return [
        *steps,
        Step(_DELETE_COMPONENTS, me),
        *([committed_step(txn_id)] if features.extensions else ()),
        Step(_DELETE_LOCKS, me),
        Step(_MARK, me),
        *forget_steps(features, txn_id),
        forget_map,
    ]


def _finish(connection: Connection, request: CommitRequest, committed: Committed, steps: list[Step]) -> CommitOutcome:
    events = request.hooks.events
    # R15: TXN_LOCK_TBL first, NOTIFICATION_SEQUENCE last.
    last = [] if events is None else events(connection, committed)
    end = _end_steps(connection, committed.txn_id)
    finish_batch(connection, [*together(connection, steps), *end, *last, *release_steps(connection)])
    return CommitOutcome()


def _end_steps(connection: Connection, txn_id: int) -> list[Step]:
    """What comes when nothing refers to the txn's row any more."""
    return [Step(_FORGET_TXN, {"txn_id": txn_id})] if backend_of(connection).layout.counts_txns else []


def _unnamed_partition(txn_id: int, database: str, table: str) -> InvalidArgumentsError:
    return InvalidArgumentsError(
        f"txn {txn_id} changed {database}.{table}, which is partitioned, without naming partitions; call "
        f"add_partitions('{database}.{table}', […]) before the commit, with an empty list when nothing was written"
    )
