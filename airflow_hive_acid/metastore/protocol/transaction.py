"""Transactions and reader snapshots as objects: what a program holds while it works.

A :class:`Transaction` is open, locked, registered and has its write ids; a :class:`ReaderSnapshot` is the same without
writing. Both are kept alive by heartbeats in the background until they end (R16), and both can go on in another process
as a document. How they begin is in ``beginning``.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow_hive_acid.errors import (
    HiveAcidError,
    InvalidArgumentsError,
    LeaseEndedError,
    MetastoreUnavailableError,
    NoSuchTxnError,
)
from airflow_hive_acid.format.write_ids import ValidTxnList, ValidWriteIdList
from airflow_hive_acid.metastore.database.codes import AbortReason, Operation, TxnType
from airflow_hive_acid.metastore.leases.holders import commit_hooks
from airflow_hive_acid.metastore.locks.components import add_partitions
from airflow_hive_acid.metastore.names.objects import TableName, canonical_partition, table_name
from airflow_hive_acid.metastore.protocol.by_table import ByTable
from airflow_hive_acid.metastore.txns.commits import CommitHooks
from airflow_hive_acid.metastore.txns.expectations import Expectation, Written

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from types import TracebackType

    from sqlalchemy.engine import Connection
    from typing_extensions import Self

    from airflow_hive_acid.metastore.leases.model import Lease
    from airflow_hive_acid.metastore.protocol.table_uses import TableUse
    from airflow_hive_acid.metastore.verbs import Verbs

_DOCUMENT_VERSION = 1


@dataclass(frozen=True, slots=True)
class Begun:
    """What beginning came to: an open txn with granted locks and one snapshot.

    :param write_ids: of the tables that will be written.
    """

    txn_id: int
    lock_id: int | None
    uses: tuple[TableUse, ...]
    valid_txns: ValidTxnList
    lists: Mapping[TableName, ValidWriteIdList]
    write_ids: Mapping[TableName, int]


class _Alive:
    """A txn kept alive by heartbeats until it ends."""

    def __init__(self, client: Verbs, begun: Begun) -> None:
        self._client = client
        self._begun = begun
        self._ended = False
        self.snapshot: ByTable[ValidWriteIdList] = ByTable("snapshot", begun.lists)
        client.own_txns.add(begun.txn_id)
        client.heartbeats.add(begun.txn_id)

    @property
    def txn_id(self) -> int:
        """The txn's id."""
        return self._begun.txn_id

    @property
    def lock_id(self) -> int | None:
        """Id of its lock request."""
        return self._begun.lock_id

    @property
    def valid_txns(self) -> ValidTxnList:
        """Which txns it sees."""
        return self._begun.valid_txns

    def heartbeat(self) -> None:
        """Send a heartbeat now.

        :raises TxnAbortedError: when it was aborted meanwhile; the text says why.
        """
        self._client.heartbeat(self.txn_id)

    def check(self) -> None:
        """Raise what a background heartbeat found out, without asking the database.

        :raises TxnAbortedError: when it was aborted meanwhile; the text says why.
        :raises NoSuchTxnError: when it has ended.
        """
        lost = self._client.heartbeats.lost(self.txn_id)
        if lost is not None:
            raise lost
        if self._ended:
            raise NoSuchTxnError(f"txn {self.txn_id} has ended; begin a new one")

    def release(self) -> dict[str, Any]:
        """Stop the heartbeats here and return the document with which another process goes on."""
        self.check()
        document = self.to_document()
        self._finish()
        return document

    def to_document(self) -> dict[str, Any]:
        """Everything another process needs, as plain JSON values."""
        return reader_document(self.txn_id, self.valid_txns, self._begun.lists, self.lock_id)

    def _finish(self) -> None:
        self._ended = True
        self._client.heartbeats.remove(self.txn_id)


class Transaction(_Alive):
    """An open transaction: locks granted, one snapshot, write ids allocated.

    Use it as a context manager: it commits at a clean end and aborts at an exception.
    """

    def __init__(self, client: Verbs, begun: Begun, lease: Lease | None = None) -> None:
        super().__init__(client, begun)
        self._lease = lease
        self.write_ids: ByTable[int] = ByTable("write id", begun.write_ids)
        self._uses = {use.table: use for use in begun.uses}
        self._statements: dict[TableName, int] = {}
        self._partitions: dict[TableName, dict[str, set[Operation]]] = {}
        self._checks: list[Callable[[Connection], None]] = []
        self._claims: list[Callable[[Connection], None]] = []
        self._leases: list[Callable[[Connection], None]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, failure: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._ended:
            return
        if failure is None:
            self.commit()
            return
        # What went wrong is more interesting than that the abort did, too; the txn then times out.
        with contextlib.suppress(HiveAcidError):
            self.abort(f"{type(failure).__name__}: {failure}")

    def next_statement_id(self, table: str) -> int:
        """The next statement id of this txn for a table, from 0: part of a delta directory's name."""
        name = self._written(table).table
        number = self._statements.get(name, 0)
        self._statements[name] = number + 1
        return number

    def add_partitions(self, table: str, names: Iterable[str], operation: str | Operation | None = None) -> None:
        """Name the partitions written in a partitioned table (R12); call it also when there are none.

        They are recorded with the commit; several calls add up.

        :param operation: insert, update or delete, if it was not what the table was declared for.
        """
        use = self._written(table)
        kind = use.operation if operation is None else _operation(operation)
        if kind.code is None:
            raise InvalidArgumentsError(
                f"partitions of {use.table} are not written by {kind.value}; give insert, update or delete"
            )
        named = self._partitions.setdefault(use.table, {})
        for name in [names] if isinstance(names, str) else names:
            named.setdefault(canonical_partition(name), set()).add(kind)

    def before_commit(self, check: Callable[[Connection], None]) -> None:
        """Have something checked, or done, inside the commit's transaction before any global lock is taken.

        An exception refuses the commit.
        """
        self._checks.append(check)

    def claim_at_commit(self, claim: Callable[[Connection], None]) -> None:
        """Have the idempotency record updated inside the commit, after checks and partitions (R14)."""
        self._claims.append(claim)

    def check_lease_at_commit(self, check: Callable[[Connection], None]) -> None:
        """Have a lease locked and checked inside the commit, after all other waits but the global lock (R8)."""
        self._leases.append(check)

    def commit(self) -> None:
        """Make everything visible at once.

        :raises WriteConflictError: when another txn changed the same first; this one is aborted then.
        :raises LeaseEndedError: when the lease under which it began has ended; this one is aborted then (R8).
        :raises CommitStateUnknownError: when the answer was lost; look it up, and clean nothing (R17).
        """
        self.check()
        unnamed = [t for t, use in self._uses.items() if use.partitioned and use.writes and t not in self._partitions]
        if unnamed:
            raise InvalidArgumentsError(
                f"{unnamed[0]} is partitioned: call add_partitions('{unnamed[0]}', […]) before the commit, with an "
                "empty list when nothing was written"
            )
        hooks = CommitHooks(
            checks=tuple(self._checks),
            partitions=(self._record_partitions,) if self._partitions else (),
            claims=tuple(self._claims),
            leases=tuple(self._leases),
        )
        # No heartbeat meanwhile: it would wait for the row, and then find the txn committed.
        self._client.heartbeats.remove(self.txn_id)
        try:
            self._client.commit_txn(
                self.txn_id,
                snapshot=self.valid_txns,
                hooks=commit_hooks(self._lease, hooks),
                expected=self._expectation(),
            )
        except InvalidArgumentsError:  # refused, and still open
            self._client.heartbeats.add(self.txn_id)
            raise
        except LeaseEndedError as error:
            # What it holds must not stand in the way of the lease's next holder.
            with contextlib.suppress(HiveAcidError):
                self.abort(str(error))
            raise
        self._ended = True

    def abort(self, reason: str | AbortReason | None = None) -> None:
        """Give everything up; the partitions named so far are remembered for whoever cleans up.

        :raises MetastoreUnavailableError: when it cannot be reached; this process aborts it as soon as it can.
        """
        self._finish()
        why = reason or AbortReason.ROLLBACK
        try:
            self._abort(why)
        except MetastoreUnavailableError:
            self._client.heartbeats.end_later(self.txn_id, lambda: self._abort(why))
            raise

    def _abort(self, why: str | AbortReason) -> None:
        if self._partitions:
            # Partitions that are none of the table's cannot be recorded, and hold no files either.
            with contextlib.suppress(InvalidArgumentsError):
                self._client.abort_txn(self.txn_id, why, before=self._record_partitions)
                return
        self._client.abort_txn(self.txn_id, why)

    def to_document(self) -> dict[str, Any]:
        """Everything another process needs to go on with it, as plain JSON values."""
        return {
            **super().to_document(),
            "uses": [
                [str(u.table), u.lock.value, u.operation.value, u.partitioned, u.transactional]
                for u in self._begun.uses
            ],
            "write_ids": {str(t): w for t, w in self._begun.write_ids.items()},
            "lease": None if self._lease is None else self._lease.lease_id,
            "statements": {str(t): n for t, n in self._statements.items()},
            "partitions": {
                str(t): {name: sorted(o.value for o in kinds) for name, kinds in named.items()}
                for t, named in self._partitions.items()
            },
        }

    def restore(self, document: Mapping[str, Any]) -> None:
        """Take over statement ids and partitions from a document."""
        self._statements = {table_name(t): int(n) for t, n in document["statements"].items()}
        self._partitions = {
            table_name(t): {name: {Operation(k) for k in kinds} for name, kinds in named.items()}
            for t, named in document["partitions"].items()
        }

    def _expectation(self) -> Expectation | None:
        """How the metastore's rows say what this txn has done, where that is simple."""
        written = [use for use in self._begun.uses if use.writes]
        operation = written[0].operation.code if len(written) == 1 else None
        if operation is None or written[0].partitioned:
            return None
        table = written[0].table
        return Expectation(TxnType.DEFAULT, Written(table, operation, self._begun.write_ids[table]))

    def _record_partitions(self, connection: Connection) -> None:
        for table, named in self._partitions.items():
            by_operation: dict[Operation, list[str]] = {}
            for name, kinds in named.items():
                for kind in kinds:
                    by_operation.setdefault(kind, []).append(name)
            for kind in by_operation or {Operation.UPDATE: []}:
                add_partitions(connection, self.txn_id, table, by_operation.get(kind, []), kind)

    def _written(self, table: str) -> TableUse:
        use = self._uses.get(table_name(table))
        if use is None or not use.writes:
            raise InvalidArgumentsError(
                f"txn {self.txn_id} does not write {table}; declare every table with its operation when it begins"
            )
        return use


class ReaderSnapshot(_Alive):
    """A snapshot for reading, which nobody cleans away while it is open (R16)."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, failure: BaseException | None, trace: TracebackType | None
    ) -> None:
        if failure is None:
            self.close()
        else:
            with contextlib.suppress(HiveAcidError):
                self.close()

    def close(self) -> None:
        """Let go of it: files it needed may be removed now."""
        if self._ended:
            return
        self._finish()
        self._client.commit_txn(self.txn_id, expected=Expectation(TxnType.READ_ONLY))


def _operation(value: str | Operation) -> Operation:
    if isinstance(value, Operation):
        return value
    try:
        return Operation("update" if value in ("merge", "overwrite") else value)
    except ValueError:
        raise InvalidArgumentsError(f"{value!r} is no operation; give insert, update or delete") from None


def reader_document(
    txn_id: int, valid_txns: ValidTxnList, write_ids: Mapping[TableName, ValidWriteIdList], lock_id: int | None = None
) -> dict[str, Any]:
    """What an open txn sees, as plain JSON values: who reads by it reads as that txn."""
    return {
        "version": _DOCUMENT_VERSION,
        "txn_id": txn_id,
        "lock_id": lock_id,
        "valid_txns": str(valid_txns),
        "write_id_lists": {str(table): str(lists) for table, lists in write_ids.items()},
    }


def read_document(
    document: Mapping[str, Any],
) -> tuple[int, int | None, ValidTxnList, dict[TableName, ValidWriteIdList]]:
    """Txn id, lock id and lists of a document.

    :raises InvalidArgumentsError: when it is no document of this version.
    """
    try:
        if document["version"] != _DOCUMENT_VERSION:
            raise InvalidArgumentsError(
                f"a snapshot document of version {document['version']!r}; this release reads "
                f"version {_DOCUMENT_VERSION}"
            )
        lists = {table_name(t): ValidWriteIdList.parse(text) for t, text in document["write_id_lists"].items()}
        return int(document["txn_id"]), document["lock_id"], ValidTxnList.parse(document["valid_txns"]), lists
    except (KeyError, TypeError, AttributeError) as error:
        raise InvalidArgumentsError(f"not a snapshot document: {error!r}") from None
