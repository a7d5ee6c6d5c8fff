"""Waiting for locks in one process and working in another, without a moment in which nobody keeps the txn alive (R9).

A process that has waited long enough hands its request over: it sets the txn's heartbeat into the future by
``hive.acid.handover.grace`` and leaves. Whoever takes it up (a trigger, then a task) sends heartbeats as usual.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlalchemy import bindparam, update

from airflow_hive_acid.errors import LocksPendingError, NoSuchLockError, NoSuchTxnError, TxnAbortedError
from airflow_hive_acid.metastore.database.clock import clock_ms
from airflow_hive_acid.metastore.schema.hive_transactions import TXNS
from airflow_hive_acid.metastore.txns.txns import txn_problem

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from sqlalchemy.engine import Connection

    from airflow_hive_acid.metastore.locks.interface import LockComponent
    from airflow_hive_acid.metastore.verbs import Verbs

_VERSION = 1
_INTO_THE_FUTURE = (
    update(TXNS)
    .where(TXNS.c.TXN_ID == bindparam("txn_id"), TXNS.c.TXN_STATE == "o")
    .values(TXN_LAST_HEARTBEAT=clock_ms() + bindparam("grace"))
)


@dataclass(slots=True)
class Patience:
    """How long a process waits for locks itself.

    :param seconds: after that it hands its request over.
    :param resumed: document of a request that was handed over and is granted now; the next txn that asks for the same
        locks takes it up.
    :param tried: how often locks of the Hive Concurrency Model were asked for again before,
    :param of: and by which request: another one of the same script has its own tries.
    """

    seconds: float
    resumed: Mapping[str, Any] | None = None
    tried: int = 0
    of: str = ""

    def take(self, client: Verbs, components: Iterable[LockComponent]) -> tuple[int, int] | None:
        """Txn and lock of the request that was handed over, once.

        :return: None when there is none. One for other locks, because the tables have changed meanwhile, is withdrawn,
            and so is one that another release of ours has handed over: what it means may have changed.
        """
        document, self.resumed = self.resumed, None
        if document is None:
            return None
        if document.get("version") != _VERSION:
            withdraw(client, document, f"another release handed it over (document version {document.get('version')})")
            return None
        if document["wanted"] != digest_of(components):
            withdraw(client, document, "other locks are needed now")
            return None
        return int(document["txn_id"]), int(document["lock_id"])


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


def leave(
    client: Verbs, txn_id: int, lock_id: int, components: Iterable[LockComponent], blocked_by: str | None
) -> LocksPendingError:
    """Hand a waiting request over.

    :return: the error to raise: it holds the document with which another process goes on.
    """
    hand_over(client, txn_id)
    document = {"version": _VERSION, "txn_id": txn_id, "lock_id": lock_id, "wanted": digest_of(components)}
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
