"""What people on call do to others' work: abort a txn, cancel or ask for a compaction, drop a lease, withdraw a lock.

The command line and SQL have these verbs; here each is safe to do twice: the second time changes nothing and says so.
R4: a txn is given up, then its jobs are fenced, then it is aborted. A lease or lock is named by its id, never by its
object, because what somebody saw a while ago may have a new holder by now.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_hive_acid.engine.statements.aborts import abort_txns
from airflow_hive_acid.errors import (
    ActionRefusedError,
    LeaseEndedError,
    NoSuchLockError,
    NoSuchObjectError,
    NoSuchPinError,
    NoSuchTxnError,
)
from airflow_hive_acid.maintenance.initiator.by_hand import ask
from airflow_hive_acid.metastore.compaction import CompactionState
from airflow_hive_acid.metastore.leases import LeaseObject
from airflow_hive_acid.metastore.listing import (
    LocksWanted,
    Slice,
    drops_page,
    find_compaction,
    lease_of_lock,
    locks_page,
    rows_of_lease,
)
from airflow_hive_acid.metastore.txns import PinState

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection

    from airflow_hive_acid.filesystem import Filesystem
    from airflow_hive_acid.maintenance.initiator.by_hand import Wanted
    from airflow_hive_acid.metastore import MetastoreClient
    from airflow_hive_acid.metastore.locks import LockRow

_SHOWN = 100
_RUNNING = (CompactionState.INITIATED, CompactionState.WORKING)


@dataclass(frozen=True, slots=True)
class Part:
    """What became of one object.

    :param id: of the request or lease it is about.
    """

    object: str
    id: int | None
    done: bool
    message: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """What an intervention has done.

    :param done: whether it is now as it was wanted.
    :param already: it was so before.
    """

    done: bool
    already: bool
    message: str
    parts: tuple[Part, ...] = ()


@dataclass(frozen=True, slots=True)
class Person:
    """Who intervenes, and why; both are kept where others look for them.

    :param name: as Airflow or the operating system knows them.
    """

    name: str
    reason: str = ""

    def __str__(self) -> str:
        return f"{self.name}: {self.reason}" if self.reason else self.name


def abort_txn(client: MetastoreClient, filesystem: Filesystem, txn_id: int, person: Person) -> Outcome:
    """Fence a txn's jobs and abort it.

    :raises NoSuchTxnError: when it was never opened, or is not listed any more.
    :raises ActionRefusedError: when it is committed.
    """
    done = abort_txns(client, filesystem, [txn_id], f"abort by {person}")
    if done.missing:
        raise NoSuchTxnError(
            f"txn {txn_id} is not there: it was never opened, or ended so long ago that it is forgotten"
        )
    if done.committed:
        raise ActionRefusedError(f"txn {txn_id} is committed, and stays so")
    if done.ending:
        return Outcome(True, False, f"txn {txn_id} cannot commit any more; the reaper moves its files back and ends it")
    if done.already_aborted:
        return Outcome(True, True, f"txn {txn_id} was aborted before")
    return Outcome(True, False, f"txn {txn_id} is aborted; what it has written will be cleaned up")


def request_compaction(client: MetastoreClient, filesystem: Filesystem, wanted: Wanted) -> Outcome:
    """Ask for a compaction; one that waits or runs already is as good.

    :raises NoSuchObjectError: when there is no such table or partition.
    :raises InvalidArgumentsError: when it cannot be meant.
    :raises ActionRefusedError: when something else than such a request stands in its way.
    """
    answers = ask(client, filesystem, wanted)
    parts = tuple(Part(str(a.resource), a.request_id, a.accepted, str(a)) for a in answers)
    if any(answer.accepted for answer in answers):
        return Outcome(True, False, "; ".join(part.message for part in parts if part.done), parts)
    if len(answers) == 1 and answers[0].request_id is not None:
        (answer,) = answers
        if answer.state in {state.text for state in _RUNNING}:
            return Outcome(True, True, f"request {answer.request_id} for {answer.resource} is {answer.state}", parts)
        raise ActionRefusedError(f"{answer.resource}: {answer.message}")
    return Outcome(False, False, "; ".join(part.message for part in parts) or "nothing there needs a compaction", parts)


def cancel_compaction(client: MetastoreClient, compaction_id: int, person: Person) -> Outcome:
    """End a request that waits, or that a Worker of ours runs.

    :raises NoSuchObjectError: when there is no such request.
    :raises ActionRefusedError: when it has ended otherwise, or a real Hive runs it.
    """
    before = client.database.read(lambda connection: find_compaction(connection, compaction_id))
    if before is None:
        raise NoSuchObjectError(f"compaction {compaction_id} is not there: never asked for, or purged from the history")
    (answer,) = client.compactions.abort([compaction_id], user=person.name, reason=person.reason or None)
    if answer.aborted:
        return Outcome(True, False, f"compaction {compaction_id}: {answer.message}")
    found = client.database.read(lambda connection: find_compaction(connection, compaction_id)) or before
    if found.state is CompactionState.ABORTED:
        return Outcome(True, True, f"compaction {compaction_id} was cancelled before")
    raise ActionRefusedError(
        answer.message if found.queued else f"compaction {compaction_id} has ended: it is {found.state.text}"
    )


def force_drop_lease(client: MetastoreClient, lease_id: int, person: Person) -> Outcome:
    """Drop one lease with all of its objects, whoever holds it.

    :raises LeaseEndedError: when it is not held, and nobody dropped it by force.
    :raises InvalidArgumentsError: without a reason.
    """
    found = client.database.read(lambda connection: rows_of_lease(connection, lease_id))
    objects = [LeaseObject(r.lease.db_name, r.lease.table_name, r.lease.partition_name) for r in found]
    dropped = client.leases.force_drop_lease(objects, person.name, person.reason, lease_id=lease_id) if objects else []
    if dropped:
        parts = tuple(Part(each.describe(), each.lease_id, True, f"was held by {each.user}") for each in dropped)
        places = ", ".join(part.object for part in parts)
        return Outcome(True, False, f"lease {lease_id} on {places} is dropped; its holder will find it gone", parts)
    page = client.database.read(lambda connection: drops_page(connection, Slice(1), lease_id))
    if page.items:
        return Outcome(True, True, f"lease {lease_id} was dropped by {page.items[0].who} before")
    raise LeaseEndedError(f"lease {lease_id} is not held: it ended, was given back, or never was")


def drop_pin(client: MetastoreClient, pin_id: int, person: Person) -> Outcome:
    """Drop a pin, whoever has made it.

    :raises NoSuchPinError: when there is none of that id, and none is remembered.
    """
    found = next((pin for pin in client.pins.show(ended=True) if pin.id == pin_id), None)
    if found is None:
        raise NoSuchPinError(f"there is no pin {pin_id}; it ended long ago, or never was")
    if found.state is not PinState.ACTIVE:
        return Outcome(True, True, f"{found} has ended before: {found.reason}")
    why = f"dropped by {person.name}" + (f": {person.reason}" if person.reason else "")
    client.pins.unpin(found.name, why, pin_id=pin_id)
    return Outcome(True, False, f"{found} is dropped; what was kept for it alone goes with the next clean-up")


def withdraw_lock(client: MetastoreClient, lock_id: int) -> Outcome:
    """Withdraw a request for locks, or take away locks that belong to no txn.

    :raises NoSuchLockError: when it is not there (any more).
    :raises TxnOpenError: when a txn holds it.
    :raises ActionRefusedError: when it stands for a lease.
    """

    def look(connection: Connection) -> tuple[list[LockRow], str | None]:
        wanted = LocksWanted(lock_id=lock_id)
        return list(locks_page(connection, wanted, Slice(_SHOWN)).items), lease_of_lock(
            connection, lock_id, features=client.database.features(connection)
        )

    locks, lease = client.database.read(look)
    if not locks:
        raise NoSuchLockError(f"lock {lock_id} is not there (any more): released, withdrawn, or timed out")
    if lease is not None:
        raise ActionRefusedError(f"lock {lock_id} stands for {lease}; drop the lease instead")
    client.unlock(lock_id)
    parts = tuple(Part(lock.describe(), lock_id, True, lock.type.name.lower()) for lock in locks)
    return Outcome(True, False, f"lock {lock_id} on {', '.join(part.object for part in parts)} is withdrawn", parts)
