"""What metrics are computed from: counts and oldest times of the transaction tables, in a handful of statements.

Hive's AcidMetricService reads the same tables, partly row by row; here the database counts. All of it is one moment.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sqlalchemy import BigInteger, and_, bindparam, case, func, literal, or_, select, union_all

from airflow_hive_acid.format.table_kinds import NO_AUTO_COMPACTION
from airflow_hive_acid.metastore.compaction.model import DEFAULT_POOL, CompactionState, CompactionType
from airflow_hive_acid.metastore.database.clock import now_ms
from airflow_hive_acid.metastore.database.codes import TxnType
from airflow_hive_acid.metastore.schema.hive_catalog import CATALOG, DATABASE_PARAMS, DBS, TABLE_PARAMS, TBLS
from airflow_hive_acid.metastore.schema.hive_transactions import (
    COMPACTION_QUEUE,
    COMPLETED_COMPACTIONS,
    COMPLETED_TXN_COMPONENTS,
    HIVE_LOCKS,
    TXN_COMPONENTS,
    TXN_TO_WRITE_ID,
    TXNS,
)
from airflow_hive_acid.metastore.schema.leases import HIVE_ACID_LEASE_QUEUE, HIVE_LEASE
from airflow_hive_acid.metastore.schema.ours import HIVE_ACID_DECISION
from airflow_hive_acid.metastore.schema.replication import HIVE_ACID_REPL_EVENT, HIVE_ACID_REPL_POLICY
from airflow_hive_acid.metastore.txns.pin_watermark import PINNED

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sqlalchemy import Connection, Select

    from airflow_hive_acid.metastore.database.database import Features

_cq, _cc, _ctc = COMPACTION_QUEUE.c, COMPLETED_COMPACTIONS.c, COMPLETED_TXN_COMPONENTS.c
_ABORTED_CLEANUP = CompactionType.ABORT_TXN_CLEANUP.value
_TXNS = select(
    TXNS.c.TXN_STATE, TXNS.c.TXN_TYPE, func.count(), func.min(TXNS.c.TXN_ID), func.min(TXNS.c.TXN_STARTED)
).where(TXNS.c.TXN_ID > 0).group_by(TXNS.c.TXN_STATE, TXNS.c.TXN_TYPE)  # fmt: skip
_aborted = (
    select(TXN_COMPONENTS.c.TC_DATABASE, TXN_COMPONENTS.c.TC_TABLE)
    .join(TXNS, TXNS.c.TXN_ID == TXN_COMPONENTS.c.TC_TXNID)
    .where(TXNS.c.TXN_STATE == "a")
    .group_by(TXN_COMPONENTS.c.TC_DATABASE, TXN_COMPONENTS.c.TC_TABLE)
    .having(func.count(TXNS.c.TXN_ID.distinct()) > bindparam("aborted"))
    .subquery("aborted")
)
_SIZES = select(
    select(func.count()).select_from(_aborted).scalar_subquery(),
    select(func.count()).select_from(COMPLETED_TXN_COMPONENTS).scalar_subquery(),
    select(func.count()).select_from(TXN_TO_WRITE_ID).scalar_subquery(),
    select(func.count()).select_from(HIVE_LOCKS).scalar_subquery(),
    select(func.min(HIVE_LOCKS.c.HL_ACQUIRED_AT)).scalar_subquery(),
)
_OLDEST_LOCK_BUT = select(func.min(HIVE_LOCKS.c.HL_ACQUIRED_AT)).where(HIVE_LOCKS.c.HL_TXNID.not_in(PINNED))
#: A txn waits for all its locks at once. Nobody notes when a lock was asked for; its txn is older.
_waiting = (
    select(HIVE_LOCKS.c.HL_LOCK_EXT_ID, HIVE_LOCKS.c.HL_TXNID)
    .where(HIVE_LOCKS.c.HL_LOCK_STATE == "w")
    .distinct()
    .subquery("waiting")
)
_WAITING = select(func.count(), func.min(TXNS.c.TXN_STARTED)).select_from(
    _waiting.outerjoin(TXNS, and_(TXNS.c.TXN_ID == _waiting.c.HL_TXNID, TXNS.c.TXN_STATE == "o"))
)
_SILENT = select(func.count()).where(
    TXNS.c.TXN_STATE == "o", func.coalesce(TXNS.c.TXN_TYPE, 0) != TxnType.REPL_CREATED.value,
    TXNS.c.TXN_LAST_HEARTBEAT < bindparam("before", type_=BigInteger),
)  # fmt: skip
_L, _Q = HIVE_LEASE.c, HIVE_ACID_LEASE_QUEUE.c
_LEASES = select(func.count(_L.LEASE_ID.distinct()), func.min(_L.START_UTC)).where(
    _L.END_UTC > bindparam("now", type_=BigInteger)
)
_LEASE_WAITERS = select(func.count(_Q.HLQ_TICKET.distinct()), func.min(_Q.HLQ_SINCE)).where(
    _Q.HLQ_ALIVE_UNTIL > bindparam("now", type_=BigInteger)
)
_hrp, _hre = HIVE_ACID_REPL_POLICY.c, HIVE_ACID_REPL_EVENT.c
_kept = (
    select(_hre.HRE_POLICY, func.count().label("number")).group_by(_hre.HRE_POLICY).subquery("kept")
)  # fmt: skip
_FOLLOWED = (
    select(
        _hrp.HRP_POLICY, _hrp.HRP_AS_OF, case((_hrp.HRP_ERROR.is_(None), 0), else_=1), func.coalesce(_kept.c.number, 0)
    )
    .select_from(HIVE_ACID_REPL_POLICY.outerjoin(_kept, _kept.c.HRE_POLICY == _hrp.HRP_POLICY))
    .where(_hrp.HRP_PHASE != "o")
    .order_by(_hrp.HRP_POLICY)
)
_had = HIVE_ACID_DECISION.c
_DECISIONS = select(_had.HAD_KIND, func.count()).where(_had.HAD_NEWEST == "Y").group_by(_had.HAD_KIND)
#: Whoever has the most deltas is among those with the most writes.
_MOST_WRITTEN = (
    select(_had.HAD_DATABASE, _had.HAD_TABLE, _had.HAD_PART_NAME, _had.HAD_NUMBERS)
    .where(_had.HAD_NEWEST == "Y", _had.HAD_NUMBERS.is_not(None))
    .order_by(_had.HAD_WRITES.desc(), _had.HAD_ID)
    .limit(bindparam("limit"))
)
_QUEUE = (
    select(
        _cq.CQ_STATE, _cq.CQ_POOL_NAME, func.count(),
        func.min(_cq.CQ_ENQUEUE_TIME), func.min(_cq.CQ_START), func.min(_cq.CQ_CLEANER_START),
        func.min(_cq.CQ_COMMIT_TIME), func.sum(case((_cq.CQ_RETRY_RETENTION > 0, 1), else_=0)),
    )
    .where(_cq.CQ_TYPE != _ABORTED_CLEANUP)
    .group_by(_cq.CQ_STATE, _cq.CQ_POOL_NAME)
)  # fmt: skip


def _ended(table: Any, prefix: str) -> Select[Any]:
    column = table.c
    names = ("ID", "DATABASE", "TABLE", "PARTITION", "STATE", "TYPE", "INITIATOR_ID", "INITIATOR_VERSION", "WORKER_ID",
             "WORKER_VERSION")  # fmt: skip
    return select(*(column[f"{prefix}_{name}"].label(name) for name in names))


_all = union_all(_ended(COMPACTION_QUEUE, "CQ"), _ended(COMPLETED_COMPACTIONS, "CC")).subquery("compactions")
_ranked = (
    select(
        _all,
        func.row_number()
        .over(partition_by=(_all.c.DATABASE, _all.c.TABLE, _all.c.PARTITION), order_by=_all.c.ID.desc())
        .label("number"),
    )
    .where(_all.c.TYPE != _ABORTED_CLEANUP)
    .subquery("ranked")
)
#: As Hive: of each table or partition only the last compaction counts.
_LAST = (
    select(
        _ranked.c.STATE, _ranked.c.INITIATOR_ID, _ranked.c.INITIATOR_VERSION, _ranked.c.WORKER_ID,
        _ranked.c.WORKER_VERSION, func.count(),
    )
    .where(_ranked.c.number == 1)
    .group_by(
        _ranked.c.STATE, _ranked.c.INITIATOR_ID, _ranked.c.INITIATOR_VERSION, _ranked.c.WORKER_ID,
        _ranked.c.WORKER_VERSION,
    )
)  # fmt: skip
_FAILURES = select(
    func.sum(case((_cc.CC_STATE == CompactionState.DID_NOT_INITIATE.value, 1), else_=0)),
    func.sum(case((and_(_cc.CC_STATE == CompactionState.FAILED.value, _cc.CC_NEXT_TXN_ID.is_not(None)), 1), else_=0)),
)


def _says(parameters: Any) -> Any:
    return func.lower(parameters.c.PARAM_KEY) == NO_AUTO_COMPACTION


_table_says = func.lower(TABLE_PARAMS.c.PARAM_VALUE)
_database_says = func.lower(DATABASE_PARAMS.c.PARAM_VALUE)
#: A value of the database decides alone, as for the Initiator.
_DISABLED = (
    select(func.count())
    .select_from(COMPLETED_TXN_COMPONENTS)
    .join(DBS, and_(DBS.c.NAME == _ctc.CTC_DATABASE, DBS.c.CTLG_NAME == CATALOG))
    .join(TBLS, and_(TBLS.c.DB_ID == DBS.c.DB_ID, TBLS.c.TBL_NAME == _ctc.CTC_TABLE))
    .outerjoin(DATABASE_PARAMS, and_(DATABASE_PARAMS.c.DB_ID == DBS.c.DB_ID, _says(DATABASE_PARAMS)))
    .outerjoin(TABLE_PARAMS, and_(TABLE_PARAMS.c.TBL_ID == TBLS.c.TBL_ID, _says(TABLE_PARAMS)))
    .where(
        or_(
            _database_says == literal("true"),
            and_(DATABASE_PARAMS.c.DB_ID.is_(None), _table_says == literal("true")),
        )
    )
)


@dataclass(frozen=True, slots=True)
class TxnGroup:
    """Txns of one state and TXN_TYPE.

    :param oldest: TXN_STARTED of the first, ms.
    """

    state: str
    type: int
    count: int
    first: int
    oldest: int


@dataclass(frozen=True, slots=True)
class QueueGroup:
    """Requests of one state and pool; times in ms, None when no request has one.

    :param retried: those whose clean-up has failed before.
    """

    state: CompactionState
    pool: str
    count: int
    enqueued: int | None
    started: int | None
    cleaner_started: int | None
    committed: int | None
    retried: int


@dataclass(frozen=True, slots=True)
class LastGroup:
    """Tables and partitions whose last compaction has this state, and who asked for it and did it."""

    state: CompactionState
    initiator: str | None
    initiator_version: str | None
    worker: str | None
    worker_version: str | None
    count: int


@dataclass(frozen=True, slots=True)
class Waiting:
    """Those who wait for something, and the time of the first, ms; None when it is not known."""

    count: int = 0
    oldest: int | None = None


@dataclass(frozen=True, slots=True)
class DeltaCount:
    """Deltas that the Initiator counted in its last look at a table or partition ('' for a table)."""

    database: str
    table: str
    partition: str
    deltas: int


@dataclass(frozen=True, slots=True)
class Followed:
    """A replication policy that writes here.

    :param as_of: everything committed at its source by then is here, ms; None before the first copy.
    :param failed: whether its last cycle failed.
    :param kept: events that nobody could apply.
    """

    policy: str
    as_of: int | None
    failed: bool
    kept: int


@dataclass(frozen=True, slots=True)
class MetricRows:
    """What was counted at one moment, ``now`` in ms by the database's clock.

    :param tables_with_aborts: tables with more aborted txns than asked about.
    :param oldest_lock: when the oldest lock was acquired, ms.
    :param did_not_initiate: rows of the history that the Initiator left when it failed.
    :param cleanings_failed: compactions in the history whose clean-up was given up.
    :param disabled_writes: completed components of tables that are not compacted automatically.
    :param waiting: requests for locks that wait; since their txns began at the latest.
    :param silent: open txns that the reaper should have ended.
    :param leases: held now, since their start; ``lease_waiters`` since they began to wait.
    :param decisions: tables and partitions by the kind of the Initiator's last decision.
    :param deltas: of those with the most writes.
    :param followed: replication policies that write here, without those that were failed over.
    """

    now: int
    txns: tuple[TxnGroup, ...] = ()
    tables_with_aborts: int = 0
    completed_components: int = 0
    txn_to_write_id: int = 0
    locks: int = 0
    oldest_lock: int | None = None
    queue: tuple[QueueGroup, ...] = ()
    last: tuple[LastGroup, ...] = ()
    did_not_initiate: int = 0
    cleanings_failed: int = 0
    disabled_writes: int = 0
    waiting: Waiting = Waiting()
    silent: int = 0
    leases: Waiting = Waiting()
    lease_waiters: Waiting = Waiting()
    decisions: Mapping[str, int] = field(default_factory=dict)
    deltas: tuple[DeltaCount, ...] = ()
    followed: tuple[Followed, ...] = ()


def read_metric_rows(
    connection: Connection, features: Features, *, aborted: int, silent_ms: int, many_deltas: int, tables: int
) -> MetricRows:
    """Count.

    :param features: which of our tables are there; what needs one that is missing is 0.
    :param aborted: tables with more aborted txns than this are counted.
    :param silent_ms: open txns without a heartbeat for so long are counted.
    :param many_deltas: tables and partitions with so many deltas are told, of those with the most writes ``tables`` at
        most.
    """
    now = now_ms(connection)
    sizes = connection.execute(_SIZES, {"aborted": aborted}).one()
    txns, oldest_lock = _TXNS, sizes[4]
    if features.pins:
        # Pins are old on purpose, and so are their locks.
        txns = _TXNS.where(TXNS.c.TXN_ID.not_in(PINNED))
        oldest_lock = connection.execute(_OLDEST_LOCK_BUT).scalar_one()
    did_not_initiate, cleanings_failed = connection.execute(_FAILURES).one()
    return MetricRows(
        now=now,
        txns=tuple(TxnGroup(state, int(kind or 0), *numbers) for state, kind, *numbers in connection.execute(txns)),
        tables_with_aborts=sizes[0],
        completed_components=sizes[1],
        txn_to_write_id=sizes[2],
        locks=sizes[3],
        oldest_lock=oldest_lock,
        queue=tuple(
            QueueGroup(
                CompactionState(state),
                pool or DEFAULT_POOL,
                count,
                enqueued,
                started,
                cleaning,
                committed,
                int(retried or 0),
            )
            for state, pool, count, enqueued, started, cleaning, committed, retried in connection.execute(_QUEUE)
        ),
        last=tuple(LastGroup(CompactionState(state), *rest) for state, *rest in connection.execute(_LAST)),
        did_not_initiate=int(did_not_initiate or 0),
        cleanings_failed=int(cleanings_failed or 0),
        disabled_writes=connection.execute(_DISABLED).scalar_one(),
        waiting=Waiting(*connection.execute(_WAITING).one()),
        silent=connection.execute(_SILENT, {"before": now - silent_ms}).scalar_one(),
        **_of_ours(connection, features, now, many_deltas, tables),
    )


def _of_ours(connection: Connection, features: Features, now: int, many_deltas: int, tables: int) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if features.leases:
        found["leases"] = Waiting(*connection.execute(_LEASES, {"now": now}).one())
        found["lease_waiters"] = Waiting(*connection.execute(_LEASE_WAITERS, {"now": now}).one())
    if features.decisions:
        found["decisions"] = dict(connection.execute(_DECISIONS).all())
        most = connection.execute(_MOST_WRITTEN, {"limit": tables})
        counted = [
            DeltaCount(database, table, partition, json.loads(numbers).get("deltas", 0))
            for database, table, partition, numbers in most
        ]
        found["deltas"] = tuple(count for count in counted if count.deltas >= many_deltas)
    if features.replication:
        found["followed"] = tuple(
            Followed(policy, as_of, bool(failed), int(kept))
            for policy, as_of, failed, kept in connection.execute(_FOLLOWED)
        )
    return found
