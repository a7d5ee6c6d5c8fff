"""What keeps the txn tables small: time-outs, and the purges that follow one from the other.

Hive's AcidHouseKeeperService, AcidTxnCleanerService and the table part of CompactionHouseKeeperService as callables.
An aborted txn's rows go in a chain: compaction or clean-up removes its components, then its TXNS row goes, then the
bound of TXN_TO_WRITE_ID advances. R4: a txn whose job is not fenced keeps its row, and before a time-out aborts a txn
the caller gets the chance to fence its job.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from sqlalchemy import and_, bindparam, delete, exists, func, or_, select

from airflow_hive_acid.errors import HiveAcidError
from airflow_hive_acid.format.write_ids import MAX_ID
from airflow_hive_acid.metastore.database.backend import backend_of
from airflow_hive_acid.metastore.database.clock import now_ms
from airflow_hive_acid.metastore.database.database import chunks
from airflow_hive_acid.metastore.leases import expiry as leases_expiring
from airflow_hive_acid.metastore.locks.view_rebuilds import expire_rebuild_locks
from airflow_hive_acid.metastore.schema.hive_transactions import (
    COMPLETED_TXN_COMPONENTS,
    HIVE_ACID_JOB,
    MIN_HISTORY_WRITE_ID,
    TXN_COMPONENTS,
    TXN_TO_WRITE_ID,
    TXNS,
    WRITE_SET,
)
from airflow_hive_acid.metastore.txns import events as txn_events
from airflow_hive_acid.metastore.txns.aborts import abort_timed_out, expire_locks, find_timed_out
from airflow_hive_acid.metastore.txns.history import LARGEST_TXN, low_boundary, min_txn_seen_open
from airflow_hive_acid.metastore.txns.pin_watermark import watermark_beside_pins
from airflow_hive_acid.metastore.txns.replicas import note_incompatible
from airflow_hive_acid.metastore.txns.txns import lock_txn_step

if TYPE_CHECKING:
    from collections.abc import Callable

    from sqlalchemy.engine import Connection

    from airflow_hive_acid.metastore.database.database import Database
    from airflow_hive_acid.metastore.notifications.log import Notifications
    from airflow_hive_acid.metastore.txns.mutexes import Mutexes
    from airflow_hive_acid.settings import Settings

log = logging.getLogger(__name__)

HOUSE_KEEPER, TXN_CLEANER = "HouseKeeper", "TxnCleaner"
#: Ours: Hive's own has none. Its row holds when events were purged last.
NOTIFICATION_CLEANER = "HiveAcidNotificationCleaner"
TIMEOUT_PART = 1000
"""Txns aborted in one transaction by the reaper: short, so that nobody waits for it."""

_BOUND = bindparam("bound", type_=sa.BigInteger)
_IDS: sa.BindParameter[Any] = bindparam("ids", expanding=True)
_GC_WRITE_SET = delete(WRITE_SET).where(WRITE_SET.c.WS_COMMIT_ID < _BOUND)
_MAX_TXN = select(func.coalesce(LARGEST_TXN, 0))
_COUNT_OPEN = select(func.count()).select_from(TXNS).where(TXNS.c.TXN_STATE == "o")
_MIN_UNFINISHED = select(func.coalesce(func.min(TXNS.c.TXN_ID), MAX_ID)).where(TXNS.c.TXN_STATE.in_(("a", "o")))
_MIN_WRITE_SET = select(func.coalesce(func.min(WRITE_SET.c.WS_TXNID), MAX_ID))
_CLEAN_WRITE_IDS = delete(TXN_TO_WRITE_ID).where(TXN_TO_WRITE_ID.c.T2W_TXNID < _BOUND)
_EMPTY = (
    select(TXNS.c.TXN_ID)
    .where(
        TXNS.c.TXN_STATE.in_(("a", "c")),
        TXNS.c.TXN_ID < _BOUND,
        ~exists().where(TXN_COMPONENTS.c.TC_TXNID == TXNS.c.TXN_ID),
    )
    .order_by(TXNS.c.TXN_ID)
    .limit(bindparam("limit"))
)
_NOT_REGISTERED = ~exists().where(MIN_HISTORY_WRITE_ID.c.MH_TXNID == TXNS.c.TXN_ID)
#: A Hive before 4.2 that aborts a txn leaves what was registered for it: its Cleaner does not look, and its purge of
#: TXNS fails on the foreign key from then on.
_DELETE_LEFT_BEHIND = delete(MIN_HISTORY_WRITE_ID).where(
    MIN_HISTORY_WRITE_ID.c.MH_TXNID.in_(select(TXNS.c.TXN_ID).where(TXNS.c.TXN_STATE != "o"))
)
#: R4: as long as a job of an aborted txn may write, its txn must not be forgotten.
_NO_LIVE_JOB = or_(
    TXNS.c.TXN_STATE == "c",
    ~exists().where(HIVE_ACID_JOB.c.HAJ_TXNID == TXNS.c.TXN_ID, HIVE_ACID_JOB.c.HAJ_STATE.in_(("r", "p"))),
)
_EMPTY_BY_TABLES = {
    (registered, jobs): _EMPTY.where(*(_NOT_REGISTERED,) * registered, *(_NO_LIVE_JOB,) * jobs)
    for registered in (False, True)
    for jobs in (False, True)
}
_LIVE_JOBS = select(func.count()).where(
    HIVE_ACID_JOB.c.HAJ_TXNID == bindparam("txn_id", type_=sa.BigInteger), HIVE_ACID_JOB.c.HAJ_STATE.in_(("r", "p"))
)
_DELETE_TXNS = delete(TXNS).where(TXNS.c.TXN_ID.in_(_IDS), TXNS.c.TXN_STATE.in_(("a", "c")))

_CTC = COMPLETED_TXN_COMPONENTS
_NEWER = _CTC.alias("newer")
_OUTDOES = and_(
    _NEWER.c.CTC_DATABASE == _CTC.c.CTC_DATABASE,
    _NEWER.c.CTC_TABLE == _CTC.c.CTC_TABLE,
    _NEWER.c.CTC_WRITEID > _CTC.c.CTC_WRITEID,
    or_(_CTC.c.CTC_UPDATE_DELETE == "N", _NEWER.c.CTC_UPDATE_DELETE == "Y"),
)
# Two statements, because an OR of the two keeps a database from its index: each partition was compared with each other.
_ARE_OUTDONE = (
    and_(_OUTDOES, _NEWER.c.CTC_PARTITION == _CTC.c.CTC_PARTITION),
    and_(_OUTDOES, _NEWER.c.CTC_PARTITION.is_(None), _CTC.c.CTC_PARTITION.is_(None)),
)


#: Hive's own ``hive.txn.opentxn.timeout``, in milliseconds. A Hive that opens a txn looks for the newest row of TXNS
#: older than that and fails when there is none: here nothing younger counts as old, however short our time-out is.
HIVES_OPEN_TIMEOUT_MS = 1000


@dataclass(frozen=True, slots=True)
class TimeOuts:
    """What time-outs took away.

    :param locks: number of locks outside txns.
    :param txns: txns aborted.
    """

    locks: int
    txns: tuple[int, ...]


@dataclass(slots=True)
class HousekeepingReport:
    """What a pass did; a task that failed is named and did not stop the others.

    :param skipped: another service holds the mutex, nothing was done.
    """

    skipped: bool = False
    done: dict[str, Any] = field(default_factory=dict)
    failed: dict[str, Exception] = field(default_factory=dict)


class Housekeeping:
    """Time-outs and purges of one metastore."""

    def __init__(self, database: Database, settings: Settings, mutexes: Mutexes, notifications: Notifications) -> None:
        self._database = database
        self._notifications = notifications
        self._mutexes = mutexes
        self._gap = max(settings.milliseconds("hive.txn.opentxn.timeout"), HIVES_OPEN_TIMEOUT_MS)
        self._timeout = settings.milliseconds("hive.txn.timeout")
        self._repl_timeout = settings.milliseconds("hive.repl.txn.timeout")
        self._events_interval = settings.milliseconds("hive.metastore.event.db.listener.clean.interval")
        self._max_open = settings.integer("hive.max.open.txns")

    def run_house_keeper(self, before_abort: Callable[[list[int]], None] | None = None) -> HousekeepingReport:
        """Time-outs, write-set GC and TXN_TO_WRITE_ID clean-up under Hive's mutex HouseKeeper."""
        return self._run(
            HOUSE_KEEPER,
            {
                "time-outs": lambda: self.perform_time_outs(before_abort),
                "write set": self.perform_write_set_gc,
                "write ids": self.clean_txn_to_write_id,
                "rebuild locks": self.expire_rebuild_locks,
                "leases": self.expire_leases,
            },
        )

    def run_txn_cleaner(self) -> HousekeepingReport:
        """Forget ended txns under Hive's mutex TxnCleaner."""
        return self._run(TXN_CLEANER, {"txns": self.clean_empty_txns})

    def run_compaction_house_keeper(self, tasks: dict[str, Callable[[], Any]]) -> HousekeepingReport:
        """Superfluous completed components, and what the caller adds, under Hive's mutex HouseKeeper."""
        return self._run(HOUSE_KEEPER, {"duplicates": self.remove_duplicate_completed_components, **tasks})

    def run_isolated(self, tasks: dict[str, Callable[[], Any]]) -> HousekeepingReport:
        """Tasks that need no mutex; one that fails does not stop the others."""
        report = HousekeepingReport()
        _run_all(tasks, report)
        return report

    def _run(self, mutex: str, tasks: dict[str, Callable[[], Any]]) -> HousekeepingReport:
        report = HousekeepingReport()
        with self._mutexes.try_hold(mutex) as held:
            if held is None:
                report.skipped = True
                return report
            _run_all(tasks, report)
        return report

    # --- time-outs ------------------------------------------------------------------------------------------------

    def find_timed_out(self) -> list[int]:
        """Open txns without heartbeat for longer than their time-out, ascending."""
        return self._database.read(lambda connection: find_timed_out(connection, self._timeout, self._repl_timeout))

    def perform_time_outs(self, before_abort: Callable[[list[int]], None] | None = None) -> TimeOuts:
        """Remove locks and abort txns that stopped sending heartbeats (performTimeOuts).

        :param before_abort: fences the jobs of these txns (R4).
        """
        locks = self._database.run(lambda connection: expire_locks(connection, self._timeout))
        aborted: list[int] = []
        tried: set[int] = set()
        while found := [i for i in self.find_timed_out() if i not in tried]:
            for part in chunks(found, TIMEOUT_PART):
                if before_abort is not None:
                    before_abort(list(part))
                aborted += self.abort_timed_out(list(part))
            # Whoever sent a heartbeat meanwhile is found again only when it is stale again.
            tried.update(found)
        return TimeOuts(locks, tuple(aborted))

    def abort_timed_out(self, txn_ids: list[int]) -> list[int]:
        """Abort those of the txns that are still without heartbeat; returns them."""

        def operation(connection: Connection) -> list[int]:
            aborted = abort_timed_out(
                connection, txn_ids, self._database.features(connection), self._timeout, self._repl_timeout
            )
            note_incompatible(connection, aborted)
            txn_events.aborted(connection, self._notifications, aborted)
            return aborted

        return self._database.run(operation)

    def end_dead(self, txn_id: int) -> bool:
        """Abort a txn that has sent no heartbeat for longer than its time-out, without waiting for the reaper.

        R4: not while a job of it may write; the reaper fences that first. None can be recorded behind the row's lock.

        :return: whether it was; others, and those that live, are left alone.
        """

        def operation(connection: Connection) -> bool:
            features = self._database.features(connection)
            lock = lock_txn_step(txn_id)
            connection.execute(lock.statement, dict(lock.parameters))
            if features.extensions and connection.execute(_LIVE_JOBS, {"txn_id": txn_id}).scalar_one():
                return False
            aborted = abort_timed_out(connection, [txn_id], features, self._timeout, self._repl_timeout)
            note_incompatible(connection, aborted)
            txn_events.aborted(connection, self._notifications, aborted)
            return bool(aborted)

        if txn_id not in self.find_timed_out():
            return False
        return self._database.run(operation)

    def expire_rebuild_locks(self) -> int:
        """Remove locks on materialized view rebuilds that stopped sending heartbeats."""
        return self._database.run(lambda connection: expire_rebuild_locks(connection, self._timeout))

    def count_open(self) -> int:
        """How many txns are open (AcidOpenTxnsCounterService)."""
        return self._database.read(lambda connection: int(connection.execute(_COUNT_OPEN).scalar_one()))

    def too_many_open(self) -> str | None:
        """Why nobody may open a txn, None while everybody may; each client counts for itself when it opens one."""
        number = self.count_open()
        if number < self._max_open:
            return None
        return (
            f"{number} txns are open, hive.max.open.txns is {self._max_open}: no more are opened until fewer than 90 % "
            "of that are. Look for clients that do not commit: hive-acid show transactions"
        )

    def expire_leases(self) -> int:
        """Remove leases that have ended, with the locks that stood for them."""
        if not self._database.read(lambda connection: self._database.features(connection).leases):
            return 0
        return leases_expiring.expire(self._database)

    # --- purges ---------------------------------------------------------------------------------------------------

    def purge_notifications(self) -> int:
        """Remove old events when ``hive.metastore.event.db.listener.clean.interval`` has passed since the last time."""
        if not self._database.read(lambda connection: self._database.features(connection).notifications):
            return 0
        with self._mutexes.try_hold(NOTIFICATION_CLEANER) as held:
            now = self._database.read(now_ms)
            if held is None or now - held.value < self._events_interval:
                return 0
            removed = self._notifications.purge()
            held.leave(now)
        return removed

    def perform_write_set_gc(self) -> int:
        """Forget write sets that no open txn, and none that may still appear, can overlap."""

        def operation(connection: Connection) -> int:
            bound = watermark_beside_pins(connection, self._database.features(connection), self._gap)
            return connection.execute(_GC_WRITE_SET, {"bound": bound}).rowcount

        return self._database.run(operation)

    def clean_txn_to_write_id(self) -> int:
        """Forget write ids below everything that is open, aborted, or still seen as open by a reader.

        What is forgotten is valid: below the high-water mark and not excepted. Both of Hive's rules are kept, those
        with and those without MIN_HISTORY_LEVEL.
        """

        def operation(connection: Connection) -> int:
            features = self._database.features(connection)
            bound = min(
                int(connection.execute(_MAX_TXN).scalar_one()) + 1,
                int(connection.execute(_MIN_UNFINISHED).scalar_one()),
                min_txn_seen_open(connection, features),
                MAX_ID if features.min_history_level else int(connection.execute(_MIN_WRITE_SET).scalar_one()),
            )
            return connection.execute(_CLEAN_WRITE_IDS, {"bound": bound}).rowcount

        return self._database.run(operation)

    def clean_empty_txns(self, batch: int = 1000) -> int:
        """Forget aborted and committed txns without components, but never the newest (cleanEmptyAbortedAndCommitted).

        MAX(TXN_ID) must not decrease, and rows as young as the open time-out close gaps. What is still registered in
        MIN_HISTORY_WRITE_ID for txns that have ended goes, too: it protects nobody, and is in everybody's way.
        """
        removed = 0
        while True:
            found = self._database.run(lambda connection: self._clean_some(connection, batch))
            removed += found
            if found < batch:
                return removed

    def _clean_some(self, connection: Connection, batch: int) -> int:
        features = self._database.features(connection)
        statement = _EMPTY_BY_TABLES[features.min_history_write_id, features.extensions]
        if features.min_history_write_id:
            connection.execute(_DELETE_LEFT_BEHIND)
        bound = low_boundary(connection, self._gap)
        ids = list(connection.execute(statement, {"bound": bound, "limit": batch}).scalars())
        if ids:
            connection.execute(_DELETE_TXNS, {"ids": ids})
        return len(ids)

    def remove_duplicate_completed_components(self) -> int:
        """Of the writes of one table or partition keep the newest, and the newest update or delete."""

        def operation(connection: Connection) -> int:
            outdone = backend_of(connection).delete_outdone
            return sum(connection.execute(outdone(_CTC, condition)).rowcount for condition in _ARE_OUTDONE)

        return self._database.run(operation)


def _run_all(tasks: dict[str, Callable[[], Any]], report: HousekeepingReport) -> None:
    for name, task in tasks.items():
        try:
            report.done[name] = task()
        except Exception as error:
            if isinstance(error, HiveAcidError | OSError):
                log.warning("housekeeping task %s failed: %s", name, error)
            else:
                log.exception("housekeeping task %s failed", name)
            report.failed[name] = error
