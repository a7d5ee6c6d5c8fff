"""One DDL statement as a txn: locks, a write id, and the catalog's change committed together (decision 15).

The txn holds the statement's locks and is kept alive while files are moved; the rows of the catalog change inside its
commit, so a txn that was reaped meanwhile changes nothing. A transactional table advances its write id: whoever cached
the table sees from its write ids alone that it is another one (ALTER takes a write id without a delta, as in Hive).
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Protocol, TypeVar

from airflow_hive_acid.errors import HiveAcidError, LocksPendingError, MetastoreUnavailableError
from airflow_hive_acid.metastore.database.codes import LockState, LockType, Operation, TxnType
from airflow_hive_acid.metastore.leases.holders import commit_hooks
from airflow_hive_acid.metastore.locks.interface import LockComponent, describe_components
from airflow_hive_acid.metastore.protocol.handover import leave, patience_of_ddl, take_up
from airflow_hive_acid.metastore.protocol.lock_wait import abort_reason, wait_until_granted
from airflow_hive_acid.metastore.txns.commits import CommitHooks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from contextlib import AbstractContextManager

    from sqlalchemy import Connection

    from airflow_hive_acid.metastore.catalog.values.model import Partition, Table
    from airflow_hive_acid.metastore.locks.interface import LockResponse
    from airflow_hive_acid.metastore.names.objects import TableName
    from airflow_hive_acid.metastore.protocol.handover import Patience
    from airflow_hive_acid.metastore.txns.jobs import Job
    from airflow_hive_acid.metastore.verbs import Verbs

T = TypeVar("T")


class DdlFiles(Protocol):
    """What a DDL verb needs done to files while it holds its locks; the metastore itself touches none."""

    def fence(self, jobs: Sequence[Job]) -> None:
        """Make sure that jobs of dead txns write nothing any more (R4).

        :raises JobsAliveError: when one cannot be fenced.
        """

    def moving(
        self, txn_id: int, table: TableName, moves: Iterable[tuple[str, str]]
    ) -> AbstractContextManager[None]:  # fmt: skip
        """Rename directories (source and target, which must not exist) before the block commits; an empty target takes
        one away for good. When the block does not commit, or dies, all of it is undone."""

    def making(self, txn_id: int, table: TableName, places: Iterable[str]) -> AbstractContextManager[None]:
        """Make directories of what the block commits; they go again when it does not."""

    def name_originals(self, table: Table, places: Sequence[str]) -> None:
        """Give the files of a plain table in these directories names by which they can be files of an ACID table.

        :raises InvalidArgumentsError: when that cannot be; no file was touched.
        """

    def hide(self, txn_id: int, write_id: int, table: Table, partitions: Sequence[Partition]) -> None:
        """Put a base of this write id without rows into partitions that are dropped, so that one which is added again
        before the Cleaner comes starts empty."""

    def require_nothing_left(self, table: Table, partition: Partition) -> None:
        """Refuse to rename a partition while rows lie in the directory of its name, which it has left.

        :raises InvalidArgumentsError: naming the directory.
        """

    def leave(self, table: Table, place: str) -> None:
        """Remove what aborted txns have written into a directory that a partition leaves: whoever looks for it later
        looks in another one, and forgets them (R4).

        :raises InvalidArgumentsError: when it lies among rows of others.
        """


class DdlTransaction:
    """The txn of one DDL statement, with its locks granted.

    Under a lease its locks pass what stands for that (R6), and it commits only while the lease is held (R8).
    """

    def __init__(self, client: Verbs, txn_id: int) -> None:
        self._client = client
        self._lease = client.leases.current
        self.txn_id = txn_id
        self.ended = False
        self._writes: list[tuple[str, int]] = []

    def allocate(self, table: TableName) -> int:
        """The write id under which the table changes."""
        write_id = self._client.allocate_write_ids(str(table), self.txn_id)[self.txn_id]
        self._writes.append((table.database, write_id))
        return write_id

    def commit(self, change: Callable[[Connection], T]) -> T:
        """Make the change in the commit's own transaction: both happen, or neither.

        :raises TxnAbortedError: when the txn was reaped meanwhile; nothing was changed.
        :raises LeaseEndedError: when the lease under which it began has ended; nothing was changed (R8).
        """
        done: list[T] = []

        def hook(connection: Connection) -> None:
            done[:] = [change(connection)]

        unit = self._client.claims.current
        claims = () if unit is None else (unit.in_commit(self.txn_id),)
        hooks = CommitHooks(checks=(hook,), claims=claims, writes=tuple(self._writes))
        self._client.commit_txn(self.txn_id, hooks=commit_hooks(self._lease, hooks))
        self.ended = True
        if unit is not None:
            unit.committed = True
        return done[0]


@contextlib.contextmanager
def ddl_transaction(
    client: Verbs,
    components: Sequence[LockComponent],
    *,
    agent_info: str | None = None,
    type: TxnType = TxnType.DEFAULT,
) -> Iterator[DdlTransaction]:
    """Open a txn, wait for its locks, and end it: committed at a clean end, else aborted.

    :param components: what to lock; nothing for what only needs a write id.
    :raises LockTimeoutError: when they were not granted in time; nothing is left behind.
    :raises LocksPendingError: when the patience of the statement (``patiently``) was not enough; the request stays in
        the queue.
    """
    patience = patience_of_ddl()
    taken = None if patience is None or not components else take_up(client, components, patience)
    txn_id = client.open_txn(agent_info=agent_info, type=type) if taken is None else taken[0]
    client.heartbeats.add(txn_id)
    ddl = DdlTransaction(client, txn_id)
    try:
        if client.claims.current is not None:
            client.claims.current.begun(txn_id)
        if components:
            response = client.lock(components, txn_id=txn_id, agent_info=agent_info) if taken is None else taken[1]
            _wait(client, response, txn_id, components, patience)
        yield ddl
        if not ddl.ended:
            client.commit_txn(txn_id)
    except BaseException as error:
        if isinstance(error, LocksPendingError) and error.document.get("txn_id") == txn_id:
            raise  # it waits on elsewhere; a request of another txn inside the block ends this one
        client.heartbeats.remove(txn_id)
        reason = abort_reason(error)
        # A txn that did commit refuses to be aborted; one that cannot be reached is aborted when it can.
        try:
            client.abort_txn(txn_id, reason)
        except MetastoreUnavailableError:
            client.heartbeats.end_later(txn_id, lambda: client.abort_txn(txn_id, reason))
        except HiveAcidError:
            pass
        raise
    client.heartbeats.remove(txn_id)


def _wait(
    client: Verbs,
    response: LockResponse,
    txn_id: int,
    components: Sequence[LockComponent],
    patience: Patience | None,
) -> None:
    seconds = None if patience is None else patience.seconds
    response = wait_until_granted(client, response, txn_id, describe_components(components), patience=seconds)
    if response.state is LockState.WAITING:
        raise leave(client, txn_id, response.lock_id, components, response.blocked_by)


def table_lock(table: TableName, type: LockType) -> LockComponent:
    """A DDL lock on a table."""
    return LockComponent(table.database, table.name, None, type, Operation.NO_TXN)


def database_lock(database: str, type: LockType) -> LockComponent:
    """A DDL lock on a database."""
    return LockComponent(database, None, None, type, Operation.NO_TXN)


def partition_lock(table: TableName, partition: str, type: LockType) -> LockComponent:
    """A DDL lock on a partition."""
    return LockComponent(table.database, table.name, partition, type, Operation.NO_TXN)
