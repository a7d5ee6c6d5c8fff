"""The verbs of Hive's transaction manager under their names: txns, locks, write ids, lists.

Lost replies: idempotent verbs are asked again, opening and locking are not repeated blindly (R17).
"""

from __future__ import annotations

import dataclasses
import functools
from typing import TYPE_CHECKING

from airflow_hive_acid.errors import CommitStateUnknownError, NoSuchTxnError
from airflow_hive_acid.format.write_ids import ValidTxnList, ValidWriteIdList, read_txn_list
from airflow_hive_acid.metastore.catalog.thrift.events import CatalogEvents
from airflow_hive_acid.metastore.client_base import ClientBase
from airflow_hive_acid.metastore.database.backend import backend_of, finish_batch
from airflow_hive_acid.metastore.database.codes import AbortReason, Operation, TxnType
from airflow_hive_acid.metastore.database.database import OutcomeUnknownError, Repeat
from airflow_hive_acid.metastore.leases.holders import mirror_of
from airflow_hive_acid.metastore.listing import show
from airflow_hive_acid.metastore.locks import manager, view_rebuilds, wait_queue
from airflow_hive_acid.metastore.locks.components import add_partitions
from airflow_hive_acid.metastore.locks.interface import LockComponent, LockRequest, LockResponse, LockRow
from airflow_hive_acid.metastore.names.objects import TableName, distinct_tables, table_name
from airflow_hive_acid.metastore.names.partitions import is_whole, partition_keys, resolve_by
from airflow_hive_acid.metastore.setup.abilities import require_verified
from airflow_hive_acid.metastore.txns import aborts, commits, replicas, txns, withdrawals, write_ids
from airflow_hive_acid.metastore.txns import events as txn_events
from airflow_hive_acid.metastore.txns.conflicts import latest_conflict
from airflow_hive_acid.metastore.txns.opens import open_in_time
from airflow_hive_acid.metastore.txns.snapshots import (
    Snapshot,
    TableWriteIds,
    open_txns,
    take_snapshot,
    valid_write_ids,
    write_ids_and_table_ids,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from sqlalchemy.engine import Connection

    from airflow_hive_acid.metastore.locks.deadlocks import Victim, Wait
    from airflow_hive_acid.metastore.locks.lease_locks import Mirror
    from airflow_hive_acid.metastore.locks.listing import TxnRow
    from airflow_hive_acid.metastore.txns.expectations import Expectation
    from airflow_hive_acid.metastore.txns.key_values import KeyValue

AGENT = "hive-acid"
"""Agent information of txns and locks that come without any."""


class Verbs(ClientBase):
    """Each verb is one database transaction."""

    # --- txns -----------------------------------------------------------------------------------------------------

    def open_txn(
        self,
        *,
        agent_info: str | None = None,
        type: TxnType = TxnType.DEFAULT,
        user: str | None = None,
        host: str | None = None,
    ) -> int:
        """Open one txn and return its id; it needs heartbeats, or it will be aborted after ``hive.txn.timeout``."""
        return self.open_txns(1, agent_info=agent_info, type=type, user=user, host=host)[0]

    def open_txns(
        self,
        number: int,
        *,
        agent_info: str | None = None,
        type: TxnType = TxnType.DEFAULT,
        user: str | None = None,
        host: str | None = None,
    ) -> list[int]:
        """Open several txns at once, at most ``hive.txn.max.open.batch``; returns their ids, ascending.

        :raises TooManyOpenTxnsError: while ``hive.max.open.txns`` are open.
        :raises SchemaVersionError: when they may write beside a vendor's Hive; see ``hive.acid.unverified.metastores``.
        """
        only_reads = type is TxnType.READ_ONLY
        anywhere = only_reads or self.settings.flag("hive.acid.unverified.metastores")
        capped = min(number, self.settings.integer("hive.txn.max.open.batch"))
        # Never empty: Hive leaves it empty, and so our txns can be told from others.
        request = txns.OpenRequest(user or self.user, host or self.host, capped, type, agent_info or AGENT)

        def operation(connection: Connection) -> list[int]:
            require_verified(backend_of(connection).layout, anywhere)
            self._gate.check(connection)
            features, silent = self.database.features(connection), not self.notifications.enabled(connection)
            ids = txns.open_txns(connection, request, features, self.gap_timeout_ms, finish=silent)
            if not silent:
                finish_batch(connection, txn_events.opened(connection, self.notifications, ids, type))
            return ids

        def attempt() -> list[int]:
            return self.database.run(operation, Repeat.BEFORE_COMMIT, hot=True)

        if only_reads:  # what nobody writes in may be seen late
            opened = attempt()
        else:
            opened = open_in_time(self.database, self.gap_timeout_ms, attempt, self._abort_late)
        self.own_txns.update(opened)
        return opened

    def _abort_late(self, connection: Connection, txn_ids: list[int]) -> None:
        aborted = aborts.abort_txns(
            connection, txn_ids, self.database.features(connection), AbortReason.OPENED_LATE
        ).aborted
        txn_events.aborted(connection, self.notifications, aborted)

    def heartbeat_txn_range(self, low: int, high: int) -> txns.RangeHeartbeat:
        """Keep all open txns of ``low``..``high`` alive and tell which are not open."""
        return self.database.run(lambda connection: txns.heartbeat_range(connection, low, high))

    def commit_txn(
        self,
        txn_id: int,
        *,
        snapshot: ValidTxnList | None = None,
        check_conflicts: bool = True,
        hooks: commits.CommitHooks | None = None,
        key_value: KeyValue | None = None,
        expected: Expectation | None = None,
    ) -> None:
        """Commit a txn; committing again is no error.

        :param snapshot: what its writes were based on; changes it contained are no conflict (R2).
        :param check_conflicts: false when exclusive write locks were held throughout (Hive's exclWriteEnabled).
        :param hooks: checks and records that belong into the commit's own transaction.
        :param key_value: a table parameter that changes with the commit.
        :param expected: how the txn is, as far as its owner knows; saves a look at it where that is so.
        :raises WriteConflictError: when another txn changed the same first; this one is aborted then.
        :raises TxnAbortedError: when it was aborted; :raises NoSuchTxnError: when it was never opened.
        :raises CommitStateUnknownError: when the connection broke after the commit was sent and asking again failed.
        """
        request = commits.CommitRequest(
            txn_id, check_conflicts, snapshot, self._all_hooks(hooks, key_value), expected=expected
        )
        tried, at_once = False, True

        def operation(connection: Connection) -> commits.CommitOutcome:
            nonlocal tried
            again, tried = tried, True
            try:
                outcome = commits.commit_txn(connection, request, self.database.features(connection), at_once=at_once)
            except commits.NotAtOnceError:
                self.notifications.forget(connection)
                tried = again  # nothing was committed, by this try
                raise
            except NoSuchTxnError as error:
                if again:
                    raise _commit_unknown(txn_id) from error
                raise
            if outcome.conflict is not None:
                if request.hooks.before_lock():  # what they did is undone
                    self.notifications.forget(connection)
                txn_events.aborted(connection, self.notifications, [txn_id])
            return outcome

        try:
            try:
                outcome = self.database.run(operation, hot=True)
            except commits.NotAtOnceError:
                at_once = False
                outcome = self.database.run(operation, hot=True)
        except OutcomeUnknownError as error:
            raise _commit_unknown(txn_id) from error
        if outcome.conflict is not None:
            raise outcome.conflict.error()
        self.own_txns.discard(txn_id)

    def _all_hooks(self, hooks: commits.CommitHooks | None, key_value: KeyValue | None) -> commits.CommitHooks:
        given = hooks or commits.CommitHooks()
        if key_value is not None:
            given = dataclasses.replace(given, checks=(*given.checks, key_value.set))
        if given.events is not None:
            return given
        return dataclasses.replace(
            given,
            events=lambda connection, facts: txn_events.committed(connection, self.notifications, facts),
            statistics=lambda connection, exact: CatalogEvents(self.notifications).losing_statistics(connection, exact),
        )

    def abort_txn(
        self,
        txn_id: int,
        reason: AbortReason | str | None = None,
        *,
        before: Callable[[Connection], None] | None = None,
    ) -> None:
        """Abort a txn; aborting again is no error.

        One that has moved files into plain tables is given up instead, and keeps its locks until they are moved back.

        :param before: records, in the same transaction, what must be known of it afterwards.
        :raises NoSuchTxnError: when it is committed or was never opened.
        """
        why = reason or AbortReason.ROLLBACK

        def operation(connection: Connection) -> None:
            if aborts.abort_txn(connection, txn_id, self.database.features(connection), why, before):
                replicas.note_incompatible(connection, [txn_id])
                txn_events.aborted(connection, self.notifications, [txn_id])

        self.database.run(operation)
        self.own_txns.discard(txn_id)

    def give_up_txns(
        self, txn_ids: Iterable[int], reason: str, *, silent_only: bool = False, ended_only: bool = False
    ) -> withdrawals.Decision:
        """Decide that txns cannot commit any more, before their jobs are fenced and they are aborted (R4).

        :param silent_only: spare open ones that have sent a heartbeat within their time-out.
        :param ended_only: spare open ones.
        """
        ids = list(txn_ids)
        if not ids:
            return withdrawals.Decision()
        times = self.settings.milliseconds("hive.txn.timeout"), self.settings.milliseconds("hive.repl.txn.timeout")
        silent = times if silent_only else None

        def operation(connection: Connection) -> withdrawals.Decision:
            features = self.database.features(connection)
            return withdrawals.give_up(connection, ids, reason, features, silent=silent, ended_only=ended_only)

        return self.database.run(operation)

    def abort_txns(self, txn_ids: Sequence[int], reason: AbortReason | str | None = None) -> aborts.AbortedTxns:
        """Abort those of the txns that are open; the answer names the others."""
        why = reason or AbortReason.QUERY

        def operation(connection: Connection) -> aborts.AbortedTxns:
            answer = aborts.abort_txns(connection, txn_ids, self.database.features(connection), why)
            replicas.note_incompatible(connection, answer.aborted)
            txn_events.aborted(connection, self.notifications, answer.aborted)
            return answer

        return self.database.run(operation)

    # --- locks ----------------------------------------------------------------------------------------------------

    def lock(
        self,
        components: LockRequest | LockComponent | Iterable[LockComponent],
        *,
        txn_id: int = 0,
        agent_info: str | None = None,
        zero_wait_read: bool = False,
        exclusive_ctas: bool = False,
    ) -> LockResponse:
        """Ask for locks; answers ACQUIRED, WAITING or NOT_ACQUIRED without waiting.

        Inside ``leases.under(lease)`` it passes what stands for that lease (R6). Partitions of components are resolved
        against the table's columns, those of a complete request are taken as the catalog's names; one that gives values
        to some of the columns locks the table, as Hive does where it does not know the partition.

        :param txn_id: the txn the locks belong to; 0 for locks of their own, which need heartbeats.
        :raises LeaseEndedError: when that lease has ended.
        """
        if isinstance(components, LockRequest):
            request = components
        else:
            parts = (components,) if isinstance(components, LockComponent) else tuple(components)
            request = LockRequest(
                parts, self.user, self.host, txn_id, agent_info or AGENT, zero_wait_read, exclusive_ctas
            )

        def operation(connection: Connection) -> LockResponse:
            wanted = request if isinstance(components, LockRequest) else _resolved(connection, request)
            return manager.enqueue(connection, wanted, mirror=self._mirror(connection))

        return self.database.run(operation, Repeat.BEFORE_COMMIT, hot=True)

    def _mirror(self, connection: Connection) -> Mirror | None:
        lease = self.leases.current
        return None if lease is None else mirror_of(connection, lease)

    def check_lock(self, lock_id: int) -> LockResponse:
        """Ask again whether locks are granted; sends a heartbeat, too. Under a lease as :meth:`lock`.

        :raises NoSuchLockError: when the lock does not exist (any more).
        """

        def operation(connection: Connection) -> LockResponse:
            return manager.check_lock(connection, lock_id, mirror=self._mirror(connection))

        response = self.database.run(operation, hot=True)
        lock_in_the_way = int((response.blocked_by or "0").partition(".")[0])
        if response.blocked_outside_txn and self.leases.expire_lock(lock_in_the_way):
            # It stood for a lease that has ended.
            return self.database.run(operation, hot=True)
        return response

    def unlock(self, lock_id: int) -> None:
        """Release locks outside a txn, or withdraw a waiting request.

        :raises TxnOpenError: when a txn holds them: commit or abort it.
        """
        self.database.run(lambda connection: manager.unlock(connection, lock_id))

    def lock_materialization_rebuild(self, view: str, txn_id: int) -> LockResponse:
        """Take the lock for rebuilding a materialized view; NOT_ACQUIRED when somebody is at it."""
        name = table_name(view)
        with self.mutexes.hold(view_rebuilds.MUTEX):
            return self.database.run(
                lambda connection: view_rebuilds.lock_rebuild(connection, name, txn_id), Repeat.BEFORE_COMMIT
            )

    def heartbeat_materialization_rebuild(self, view: str, txn_id: int) -> bool:
        """Keep the rebuild's lock alive; false when it is gone."""
        name = table_name(view)
        return self.database.run(lambda connection: view_rebuilds.heartbeat_rebuild(connection, name, txn_id))

    def show_locks(
        self,
        table: str | None = None,
        partition: str | None = None,
        *,
        database: str | None = None,
        txn_id: int | None = None,
    ) -> list[LockRow]:
        """Locks held and wanted, of everything, a database, a table, a partition or a txn; ``shown.locks`` streams."""
        name = None if table is None else table_name(table)
        wanted = show.LockFilter(name.database if name else database, name.name if name else None, partition, txn_id)
        return self.database.read(lambda connection: list(show.stream_locks(connection, wanted)))

    def show_transactions(self, *, include_committed: bool = False) -> list[TxnRow]:
        """Open and aborted txns; ``shown.transactions`` streams them."""
        return self.database.read(
            lambda connection: list(show.stream_transactions(connection, include_committed=include_committed))
        )

    def show_waits(self) -> list[Wait]:
        """Who waits for whom, for what, since when, and on whose behalf."""
        return self.database.read(wait_queue.read_waits)

    def find_deadlocks(self) -> list[Victim]:
        """The txns of ours that must give way so that others can go on; each aborts itself while it waits."""
        return self.database.read(
            lambda connection: wait_queue.deadlock_victims(connection, self.database.features(connection))
        )

    # --- write ids and snapshots ----------------------------------------------------------------------------------

    def allocate_write_ids(
        self, table: str, txn_ids: int | Iterable[int], *, reallocate: bool = False
    ) -> dict[int, int]:
        """Write ids of a table by txn; txns that have one keep it.

        :raises InvalidArgumentsError: when only some of the txns have one, or one is read-only.
        """
        name = table_name(table)
        ids = [txn_ids] if isinstance(txn_ids, int) else list(txn_ids)

        def operation(connection: Connection) -> dict[int, int]:
            return write_ids.allocate(
                connection,
                name,
                ids,
                reallocate=reallocate,
                short=not self.notifications.enabled(connection),
                finish=lambda pairs: txn_events.allocated(connection, self.notifications, name, pairs),
            )

        return self.database.run(operation, retry_duplicates=True, hot=True)

    def get_valid_txns(self, txn_id: int = 0) -> ValidTxnList:
        """Which txns a reader sees, inside its own txn or outside one."""
        return read_txn_list(self.database.read(lambda connection: open_txns(connection, self.gap_timeout_ms)), txn_id)

    def get_valid_write_ids(
        self, tables: str | Iterable[str], valid_txns: ValidTxnList | str | None = None
    ) -> dict[str, ValidWriteIdList]:
        """Which write ids of each table a reader sees.

        :param valid_txns: a txn list given out before; without it txns and write ids are looked up together (R11).
        """
        names = distinct_tables([tables] if isinstance(tables, str) else tables)
        if valid_txns is None:

            def look(connection: Connection) -> Snapshot:
                return take_snapshot(connection, names, 0, self.gap_timeout_ms, finish=True)

            # R11: all of it is one statement, which is one view of the database in any isolation.
            found = self.database.read(look, one_statement=True).write_ids
        else:
            given = ValidTxnList.parse(valid_txns) if isinstance(valid_txns, str) else valid_txns
            found = self.database.read(lambda connection: valid_write_ids(connection, names, given))
        return {str(t): w for t, w in found.items()}

    def valid_txns(self, txn_id: int = 0) -> ValidTxnList:
        """Which txns a reader sees (the seed's getValidTxns)."""
        return self.get_valid_txns(txn_id)

    def valid_write_ids_and_table_ids(
        self, tables: str | Iterable[str], txn: ValidTxnList | str | int | None = None
    ) -> dict[str, TableWriteIds]:
        """What a reader says of each table when it asks for metadata (getValidWriteIdsAndTblIds), in one round trip.

        Inside a transaction that has write ids, mark them with :meth:`ValidWriteIdList.with_committed`.

        :param txn: the reader's txn list, or its txn id; by default a list taken now.
        :return: by ``db.table``; tables that do not exist are left out.
        """
        names = distinct_tables([tables] if isinstance(tables, str) else tables)
        if not names:
            return {}
        txns = ValidTxnList.parse(txn) if isinstance(txn, str) else None if isinstance(txn, int) else txn
        current = txn if isinstance(txn, int) else 0
        _, found = self.database.read(
            lambda connection: write_ids_and_table_ids(connection, names, txns, self.gap_timeout_ms, current),
            one_statement=True,
        )
        return {str(table): ids for table, ids in found.items()}

    def add_partitions(
        self, txn_id: int, table: str, names: Sequence[str], operation: Operation = Operation.UPDATE
    ) -> None:
        """Name the partitions that an open txn writes (addDynamicPartitions), also when there are none (R12)."""
        name = table_name(table)

        def run(connection: Connection) -> None:
            step = txns.lock_txn_step(txn_id)
            txns.require_open(connection, txn_id, connection.execute(step.statement, dict(step.parameters)).all())
            add_partitions(connection, txn_id, name, names, operation)

        self.database.run(run)

    def max_allocated_write_id(self, table: str) -> int:
        """The largest write id given for a table, 0 when there is none."""
        name = table_name(table)
        return self.database.read(lambda connection: write_ids.max_allocated(connection, name))

    def txn_of_write_id(self, table: str, write_id: int) -> int | None:
        """The txn that got a write id, None when that is forgotten."""
        name = table_name(table)
        return self.database.read(lambda connection: write_ids.txn_of(connection, name, write_id))

    def latest_txn_in_conflict(self, txn_id: int) -> int:
        """The largest txn that changed what this one is to change, and overlaps it; 0 for none."""
        return self.database.read(lambda connection: latest_conflict(connection, txn_id))

    def seed_write_id(self, table: str, seed: int) -> None:
        """Let the write ids of a table that has none start above ``seed``."""
        name = table_name(table)
        self.database.run(lambda connection: write_ids.seed_write_id(connection, name, seed))

    def seed_txn_id(self, seed: int) -> None:
        """Let txn ids go on at ``seed``."""
        self.database.run(lambda connection: replicas.seed_txn_id(connection, seed))


def _commit_unknown(txn_id: int) -> CommitStateUnknownError:
    return CommitStateUnknownError(
        f"whether txn {txn_id} is committed is unknown: the connection broke after the commit was sent, and asking "
        "again gave no answer. Look it up (hive-acid show transactions) before anything else; clean nothing up"
    )


def _resolved(connection: Connection, request: LockRequest) -> LockRequest:
    """A request with its partitions as the tables' columns have it."""
    columns = functools.cache(functools.partial(partition_keys, connection))

    def resolved(wanted: LockComponent) -> LockComponent:
        if not wanted.partition or wanted.table is None:
            return wanted
        table = TableName(wanted.database, wanted.table)
        name = resolve_by(connection, columns(table), table, wanted.partition)
        return dataclasses.replace(wanted, partition=name if is_whole(columns(table), name) else None)

    if not any(each.partition for each in request.components):
        return request
    return dataclasses.replace(request, components=tuple(resolved(each) for each in request.components))
