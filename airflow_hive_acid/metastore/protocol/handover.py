"""Waiting for locks in one process and working in another, without a moment in which nobody keeps the txn alive (R9).

A process that has waited long enough hands its request over: it sets the txn's heartbeat into the future by
``hive.acid.handover.grace`` and leaves. Whoever takes it up (a trigger, then a task) sends heartbeats as usual.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlalchemy import bindparam, update

from airflow_hive_acid.errors import LocksPendingError, NoSuchLockError, NoSuchTxnError, TxnAbortedError
from airflow_hive_acid.metastore.database.clock import clock_ms
from airflow_hive_acid.metastore.schema.hive_transactions import TXNS
from airflow_hive_acid.metastore.txns.txns import txn_problem

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from sqlalchemy.engine import Connection

    from airflow_hive_acid.metastore.locks.interface import LockComponent, LockResponse
    from airflow_hive_acid.metastore.verbs import Verbs

log = logging.getLogger(__name__)

_VERSION = 2
_INTO_THE_FUTURE = (
    update(TXNS)
    .where(TXNS.c.TXN_ID == bindparam("txn_id"), TXNS.c.TXN_STATE == "o")
    .values(TXN_LAST_HEARTBEAT=clock_ms() + bindparam("grace"))
)


@dataclass(slots=True)
class Patience:
    """How long a process waits for locks itself.

    :param seconds: after that it hands its request over.
    :param resumed: document of a request that was handed over and is granted now; the statement that it belongs to
        takes it up.
    :param tried: how often locks of the Hive Concurrency Model were asked for again before,
    :param of: and by which request: another one of the same script has its own tries.
    :param statement: number of the statement that runs; those of a script share their patience.
    """

    seconds: float
    resumed: Mapping[str, Any] | None = None
    tried: int = 0
    of: str = ""
    statement: int = 0

    @contextlib.contextmanager
    def running(self, statement: int) -> Iterator[None]:
        """Around a statement of a script: a request that it hands over is known as its own.

        :param statement: its number.
        """
        self.statement = statement
        try:
            yield
        except LocksPendingError as pending:
            pending.document["statement"] = statement
            raise

    def take(
        self, client: Verbs, components: Iterable[LockComponent], *, reads: bool = False
    ) -> tuple[int, int] | None:
        """Txn and lock of the request that was handed over, once.

        What a script does before the statement that waited leaves it alone: queries that are run again, and the look
        at its columns that a statement takes before it asks for its own locks.

        :param reads: whether the txn only reads.
        :return: None when there is none for this txn. One for other locks, because the tables have changed meanwhile,
            is withdrawn, and so are one that its statement has not taken up, and one that another release of ours has
            handed over: what it means may have changed.
        """
        document = self.resumed
        if document is None:
            return None
        if document.get("version") != _VERSION:
            self._refuse(client, f"another release handed it over (document version {document.get('version')})")
            return None
        statement = document.get("statement", self.statement)
        if self.statement < statement or (self.statement == statement and reads and not document["reads"]):
            return None
        if self.statement > statement or document["wanted"] != digest_of(components):
            self._refuse(client, "other locks are needed now")
            return None
        self.resumed = None
        return int(document["txn_id"]), int(document["lock_id"])

    @property
    def holds_for_change(self) -> bool:
        """Whether the request that was waited for is the one with which the statement that runs changes something.

        It may be granted, and in the way of any other that asks for the same tables, of this statement, too.
        """
        document = self.resumed
        if document is None or document.get("version") != _VERSION:
            return False
        return document.get("statement", self.statement) == self.statement and not document["reads"]

    def give_up(self, client: Verbs) -> None:
        """Withdraw the request that was handed over, if nothing has taken it up."""
        self._refuse(client, "the statement that waited for it did not run")

    def _refuse(self, client: Verbs, why: str) -> None:
        document, self.resumed = self.resumed, None
        if document is not None:
            withdraw(client, document, why)


_OF_DDL: ContextVar[list[Patience] | None] = ContextVar("patience", default=None)


@contextlib.contextmanager
def patiently(patience: Patience | None) -> Iterator[None]:
    """Around a statement that changes the catalog: the first txn that it begins waits for its locks with this patience.

    What it begins after that waits as long as the settings say: another process would do the first part again.

    :param patience: None: all of them do.
    """
    token = _OF_DDL.set(None if patience is None else [patience])
    try:
        yield
    finally:
        _OF_DDL.reset(token)


def patience_of_ddl() -> Patience | None:
    """The patience of the statement that runs, for the first txn that asks."""
    held = _OF_DDL.get()
    return held.pop() if held else None


def hand_over(client: Verbs, txn_id: int) -> None:
    """Stop the heartbeats here; the txn lives on for ``hive.acid.handover.grace`` and ``hive.txn.timeout``.

    :raises TxnAbortedError: when it is aborted; NoSuchTxnError when it has ended.
    """
    grace = client.settings.milliseconds("hive.acid.handover.grace")

    def operation(connection: Connection) -> None:
        if not connection.execute(_INTO_THE_FUTURE, {"txn_id": txn_id, "grace": grace}).rowcount:
            raise txn_problem(connection, txn_id)

    client.heartbeats.remove(txn_id)
    client.database.run(operation)


def take_up(
    client: Verbs, components: Iterable[LockComponent], patience: Patience, *, reads: bool = False
) -> tuple[int, LockResponse] | None:
    """Go on with the request that another process has waited for; it is kept alive from here.

    :param components: the locks that are needed.
    :param reads: whether the txn only reads.
    :return: its txn, and how far the request has come; None when there is none, or it has ended meanwhile.
    """
    found = patience.take(client, components, reads=reads)
    if found is None:
        return None
    txn_id, lock_id = found
    client.heartbeats.add(txn_id)
    try:
        response = client.check_lock(lock_id)
    except (NoSuchTxnError, NoSuchLockError, TxnAbortedError) as error:
        client.heartbeats.remove(txn_id)
        log.warning("what was waited for has ended, and is asked for again: %s", error)
        if isinstance(error, NoSuchLockError):  # somebody has withdrawn the request, and its txn is open still
            withdraw(client, {"txn_id": txn_id}, str(error))
        return None
    client.own_txns.add(txn_id)
    return txn_id, response


def leave(
    client: Verbs,
    txn_id: int,
    lock_id: int,
    components: Iterable[LockComponent],
    blocked_by: str | None,
    *,
    reads: bool = False,
) -> LocksPendingError:
    """Hand a waiting request over.

    :param reads: whether the txn only reads.
    :return: the error to raise: it holds the document with which another process goes on.
    """
    hand_over(client, txn_id)
    document = {
        "version": _VERSION,
        "txn_id": txn_id,
        "lock_id": lock_id,
        "wanted": digest_of(components),
        "reads": reads,
    }
    return LocksPendingError(
        f"lock {lock_id} of txn {txn_id} still waits behind lock {blocked_by}; somebody else waits on", document
    )


def withdraw(client: Verbs, document: Mapping[str, Any], reason: str) -> None:
    """Give a request up that was handed over; one that is gone is fine."""
    try:
        client.abort_txn(int(document["txn_id"]), reason)
    except (NoSuchTxnError, NoSuchLockError, TxnAbortedError):
        return


def digest_of(components: Iterable[LockComponent]) -> str:
    """Tells one set of locks from another."""
    return hashlib.sha256("\n".join(sorted(map(repr, components))).encode()).hexdigest()
