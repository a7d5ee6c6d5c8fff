"""How a lease is granted: all objects or none, first come first served, in one transaction of the database.

The order is the protocol. R8: the rows of the tables are locked first, in the order of names; every change of a lease
locks them. Then the row of NEXT_LOCK_ID, so that no lock of Hive with a smaller id can still appear. R3: the clock, and
what is in the way, are read by later statements. What the grant takes over from leases that have ended is deleted, so
that a clock that is set back cannot bring them to life. R7: leases and the locks that stand for them change together.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timezone
from itertools import groupby
from typing import TYPE_CHECKING

from airflow_hive_acid.errors import HiveAcidError, LeaseAlreadyExistsError
from airflow_hive_acid.metastore.database.backend import Step, backend_of, execute_batch, finish_batch
from airflow_hive_acid.metastore.database.clock import now_ms
from airflow_hive_acid.metastore.database.wakeups import listen_steps, unlisten_steps, wake_steps
from airflow_hive_acid.metastore.leases import rows
from airflow_hive_acid.metastore.leases.model import LeaseObject, LeaseType, first_conflict
from airflow_hive_acid.metastore.names.objects import lock_partition

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from sqlalchemy.engine import Connection

    from airflow_hive_acid.metastore.database.backend import Result
    from airflow_hive_acid.metastore.leases.model import HiveLease, Place
    from airflow_hive_acid.settings import Settings

ALIVE_MS = 30_000
"""So long a place in the queue is kept for somebody who does not come back to it."""
_TYPES = {LeaseType.SHARED: "shared", LeaseType.EXCLUSIVE: "exclusive"}
_WAITING_AGENT = "hive-acid: waits for a lease"


@dataclass(frozen=True, slots=True)
class Request:
    """A lease that is wanted.

    :param objects: sorted, each once.
    :param ticket: the place in the queue, None without one.
    :param hive_id: the lock that stands in Hive's queue for it; read anew with every look.
    :param listens: whoever waits for it is called on this connection.
    :param partial: places that are no single partition, but all with some values: Hive knows no lock on those, so that
        their mirrors lock the table.
    """

    objects: tuple[LeaseObject, ...]
    duration_ms: int
    user: str
    host: str
    secret_hash: str
    mirrored: bool
    ticket: int | None = None
    hive_id: int | None = None
    listens: bool = False
    partial: frozenset[Place] = frozenset()

    def mirrors(self, wanted: LeaseObject) -> str | None:
        """The partition that an object's mirror locks, as HIVE_LOCKS spells it; None for the whole table."""
        return None if wanted.place in self.partial else lock_partition(wanted.partition_name or None)


@dataclass(frozen=True, slots=True)
class Granted:
    """The lease is ours."""

    lease_id: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Blocked:
    """Something is in the way.

    :param text: what, for people.
    :param in_ms: when the lease in the way ends unless it is extended, from now; None for what has no end.
    :param ticket: our place in the queue now.
    :param by_hive: it is a lock of Hive's: nobody will call us when it goes.
    :param txn_id: whose lock that is.
    """

    text: str
    in_ms: int | None = None
    ticket: int | None = None
    by_hive: bool = False
    txn_id: int | None = None

    def error(self, objects: Sequence[LeaseObject], waited: float) -> LeaseAlreadyExistsError:
        """What the caller hears."""
        places = ", ".join(o.describe() for o in objects[:3]) + (", …" if len(objects) > 3 else "")
        after = f" after {waited:g} s" if waited else ""
        return LeaseAlreadyExistsError(
            f"no lease on {places}{after}: {self.text}. Nothing is held; try again, or wait longer "
            "(lease_wait_duration_sec); 'hive-acid lease list' shows all leases"
        )


def what_passes(settings: Settings) -> str:
    """What does not wait for a mirrored lease by these settings, and the remedy; empty where all writers wait (R7)."""
    if not settings.flag("hive.txn.xlock.write") or settings.flag("hive.acid.lockless.reads.enabled"):
        return ""
    return (
        "INSERT does not wait for leases: with hive.txn.xlock.write=true it takes SHARED_READ, which the lock of a "
        "lease lets pass. Set that to false for all who write these tables if leases are to keep INSERTs away"
    )


class GuardMissingError(HiveAcidError):
    """A table was never leased before; its row has to be made first."""


def grab(connection: Connection, request: Request, *, queue: bool) -> Granted | Blocked:
    """Grant a lease, or take or keep a place in the queue.

    :param queue: whether to wait for it, when it cannot be granted now.
    :raises GuardMissingError: when a row to lock is missing; nothing was done.
    """
    request = with_hive_id(connection, request)
    guards = rows.guard_steps(request.objects)
    looks, ticket_steps = look_steps(request), _ticket_steps(request)
    first = [*guards, rows.NEXT_ID, rows.NOW, *ticket_steps, *looks]
    results = execute_batch(connection, first)
    if any(not result.rows for result in results[: len(guards)]):
        raise GuardMissingError("a table without a row to lock")
    (next_id,), (now,) = results[len(guards)].rows[0], results[len(guards) + 1].rows[0]
    behind = len(guards) + 2
    mine, found = results[behind : behind + len(ticket_steps)], results[behind + len(ticket_steps) :]
    if request.ticket is not None and not _keeps_place(request, mine, now):
        # Nobody waited for us any longer: what we wanted may have been given to somebody behind us. Once more, anew.
        execute_batch(connection, rows.leave_steps(request.ticket, request.hive_id))
        return grab(connection, replace(request, ticket=None, hive_id=None), queue=queue)
    answer = judge(request, found, now)
    if isinstance(answer, Blocked):
        if not queue:
            return answer
        return _queue(connection, request, answer, int(next_id), now)
    _grant(connection, request, answer, int(next_id), now)
    return Granted(int(next_id), now, now + request.duration_ms)


@dataclass(frozen=True, slots=True)
class Free:
    """Nothing is in the way.

    :param ended: rows of leases that have ended, whose objects this one takes over.
    :param shared: the lock that already stands for s leases, by number of the object (R7).
    """

    ended: list[rows.LeaseRow]
    shared: dict[int, tuple[int, int]]


def look_steps(request: Request) -> list[Step]:
    """Whatever could be in the way; what :func:`judge` reads."""
    ticket = rows.ANY_TICKET if request.ticket is None else request.ticket
    below = rows.ANY_TICKET if request.hive_id is None else request.hive_id
    steps = []
    for each in request.objects:
        steps += [rows.conflict_step(each), rows.ahead_step(each, ticket)]
        if request.mirrored:
            steps += [*rows.hive_lock_steps(each, below, request.mirrors(each)), rows.shared_mirror_step(each)]
    return steps


def judge(request: Request, found: Sequence[Result], now: int) -> Free | Blocked:
    """Whether a lease can be granted: no lease in the way, nobody before us in the queue, no lock of Hive's."""
    width = 5 if request.mirrored else 2
    by_object = [found[i : i + width] for i in range(0, len(found), width)]
    held = rows.lease_rows(results[0] for results in by_object)
    live = [row for row in held if row.is_live(now)]
    conflict = first_conflict(request.objects, [row.lease for row in live])
    if conflict is not None:
        lease = max((r.lease for r in live), key=lambda each: each.end_utc)
        return Blocked(
            f"lease {lease.lease_id} of {lease.user} on {lease.describe()} is {_TYPES[lease.lease_type]} and ends "
            f"{utc(lease.end_utc)}, in {(lease.end_utc - now) / 1000:.1f} s, unless it is extended",
            min(row.lease.end_utc for row in live) - now,
        )
    ahead = [rows.waiter(r) for results in by_object for r in results[1].rows]
    if ahead:
        first = min(ahead, key=lambda each: each.ticket)
        return Blocked(
            f"{first.user} waits for {first.wanted.describe()} ({_TYPES[first.wanted.lease_type]}) and was there before"
        )
    if not request.mirrored:
        return Free(held, {})
    for wanted, results in zip(request.objects, by_object, strict=True):
        for lock in (*results[2].rows, *results[3].rows):
            whose = f"txn {lock[4]}" if lock[4] else f"lock {lock[0]}.{lock[1]}"
            text = f"{whose} of {lock[3]} ({lock[5] or 'Hive'}) writes {wanted.describe()}"
            return Blocked(text, by_hive=True, txn_id=lock[4] or None)
    shared = {
        number: (r[0], r[1])
        for number, (each, results) in enumerate(zip(request.objects, by_object, strict=True), 1)
        if each.lease_type is LeaseType.SHARED
        for r in results[4].rows
    }
    return Free(held, shared)


def next_in_line(waiting: Iterable[rows.Waiter]) -> list[int]:
    """Tickets of those whom nobody before them keeps waiting."""
    found: list[int] = []
    before: list[LeaseObject] = []
    for ticket, entries in groupby(sorted(waiting, key=lambda each: each.ticket), key=lambda each: each.ticket):
        wanted = [each.wanted for each in entries]
        if first_conflict(wanted, before) is None:
            found.append(ticket)
        before += wanted
    return found


def wake_next(connection: Connection, objects: Iterable[LeaseObject | HiveLease]) -> list[Step]:
    """The statement that wakes those who may be granted something in these tables now, if anybody waits there.

    To be called behind the locks on the tables: whoever comes later finds what is free by himself.
    """
    if not backend_of(connection).calls_waiters:
        return []
    found = execute_batch(connection, rows.waiters_steps(objects))
    return wake_steps(connection, next_in_line(rows.waiter(r) for result in found for r in result.rows))


def granted_to(connection: Connection, request: Request, *, locked: bool = False) -> list[rows.LeaseRow]:
    """What was granted to the secret of a request on its tables, and is held.

    :param locked: behind the locks on the tables, so that it can be changed.
    """
    locks = rows.guard_steps(request.objects) if locked else []
    tables = sorted({each.table for each in request.objects})
    looks = [Step(rows.OF_SECRET, {"hash": request.secret_hash, "db": db, "tbl": tbl}) for db, tbl in tables]
    # R3: the clock and the rows are read behind the locks.
    time_now, *found = execute_batch(connection, [*locks, rows.NOW, *looks])[len(locks) :]
    return [row for row in rows.lease_rows(found) if row.is_live(int(time_now.rows[0][0]))]


def granted_before(connection: Connection, request: Request) -> Granted | None:
    """The lease that was granted to the secret of a request, if it is what is wanted now.

    One that is shared is no answer to who wants it exclusive: whoever changes what he wants gives the other back first.
    """
    leases: dict[int, list[HiveLease]] = {}
    for row in granted_to(connection, request):
        leases.setdefault(row.lease.lease_id, []).append(row.lease)
    for lease_id, held in leases.items():
        types = {each.place: each.lease_type for each in held}
        if all(types.get(each.place) in (each.lease_type, LeaseType.EXCLUSIVE) for each in request.objects):
            return Granted(lease_id, held[0].start_utc, min(each.end_utc for each in held))
    return None


def give_back(connection: Connection, request: Request, *, untouched: int | None = None) -> None:
    """Drop what was granted to the secret of a request that nobody makes any more.

    :param untouched: only what nobody has gone on with: it was not extended since it was granted, and could have been,
        as a lease lasts for so many milliseconds at most (``hive.acid.lease.max.time``).
    """
    gone = granted_to(connection, request, locked=True)
    if untouched is not None:
        now = now_ms(connection)
        gone = [row for row in gone if _is_untouched(row.lease, request.duration_ms, untouched, now)]
    if gone:
        finish_batch(connection, [*rows.remove_steps(gone), *wake_next(connection, [row.lease for row in gone])])


def _is_untouched(lease: HiveLease, duration: int, longest: int, now: int) -> bool:
    lasts = lease.end_utc - lease.start_utc
    return lasts <= duration and now + duration - lease.start_utc <= longest


def utc(ms: int) -> str:
    """A time by the database's clock for messages."""
    return datetime.fromtimestamp(ms / 1000, timezone.utc).isoformat(sep=" ", timespec="seconds")


def with_hive_id(connection: Connection, request: Request) -> Request:
    """A request with the lock that stands for it in Hive's queue, which nobody else puts there."""
    if request.ticket is None or not request.mirrored:
        return request
    found = execute_batch(connection, [Step(rows.MY_HIVE_ID, {"ticket": request.ticket})])[0].rows
    return replace(request, hive_id=found[0][0] if found else None)


def _ticket_steps(request: Request) -> list[Step]:
    if request.ticket is None:
        return []
    steps = [Step(rows.MY_TICKET, {"ticket": request.ticket})]
    return steps if request.hive_id is None else [*steps, rows.lock_waiting_locks(request.hive_id)]


def _keeps_place(request: Request, mine: Sequence[Result], now: int) -> bool:
    """Whether our place, and our locks in Hive's queue, are still there."""
    places, *locks = mine
    if len(places.rows) != len(request.objects) or any(until <= now for _, until in places.rows):
        return False
    return all(len(found.rows) == len(request.objects) for found in locks)


def _queue(connection: Connection, request: Request, answer: Blocked, next_id: int, now: int) -> Blocked:
    """Take or keep a place in the queue; in Hive's, too, as soon as nothing but Hive's locks is in the way.

    Not before: who holds a lease without mirror may be writing through Hive, and must not wait for us there (R6).
    """
    until, ticket, hive_id = now + ALIVE_MS, request.ticket, request.hive_id
    steps: list[Step] = []
    if answer.by_hive and hive_id is None:
        # Later writers wait for us, and those before us end one day. The id is a new one: smaller ones have been looked
        # at by locks that are granted.
        hive_id = next_id
        user = _latin(request.user)
        steps += [
            rows.mirror_step(
                (hive_id, number),
                each,
                request.mirrors(each),
                acquired=None,
                until=now,
                user=user,
                host=request.host,
                agent=_WAITING_AGENT,
            )
            for number, each in enumerate(request.objects, 1)
        ]
        if ticket is not None:
            steps.append(rows.enter_hives(ticket, hive_id))
    if ticket is None:
        ticket = next_id
        steps += rows.enqueue_steps(ticket, request.objects, request.user, now, until, hive_id)
        if request.listens:
            steps += listen_steps(ticket)
    else:
        steps += rows.stay_steps(ticket, request.hive_id, now, until)
    if next_id in (ticket, hive_id):
        steps.append(rows.advance(next_id + 1))
    finish_batch(connection, steps)
    return replace(answer, ticket=ticket)


def _grant(connection: Connection, request: Request, free: Free, lease_id: int, now: int) -> None:
    end, ticket = now + request.duration_ms, request.ticket
    steps = [rows.advance(lease_id + 1), *rows.remove_steps(free.ended)]
    agent = f"hive-acid: lease {lease_id}"
    for number, each in enumerate(request.objects, 1):
        mirror = None
        if request.mirrored:
            place = (lease_id if request.hive_id is None else request.hive_id, number)
            shared = free.shared.get(number)
            if shared is not None:
                mirror = shared
                steps.append(rows.mirror_until(shared, end))
                if request.hive_id is not None:
                    steps.append(rows.leave_hives(place))
            elif request.hive_id is not None:
                mirror = place
                steps.append(rows.mirror_acquired(place, now, end, agent))
            else:
                mirror = place
                user = _latin(request.user)
                steps.append(
                    rows.mirror_step(
                        place,
                        each,
                        request.mirrors(each),
                        acquired=now,
                        until=end,
                        user=user,
                        host=request.host,
                        agent=agent,
                    )
                )
        steps.append(rows.insert_step(lease_id, number, each, request.user, now, end, request.secret_hash, mirror))
    if ticket is not None:
        # Nobody to wake: who waited for our place in the queue waits for our lease now.
        steps += rows.leave_steps(ticket, request.hive_id)
    if request.listens:
        steps += unlisten_steps()
    finish_batch(connection, steps)


def _latin(user: str) -> str:
    """HIVE_LOCKS is latin1 on MySQL."""
    return user.encode("latin-1", "replace").decode("latin-1")
