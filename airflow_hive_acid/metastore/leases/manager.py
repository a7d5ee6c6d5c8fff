"""The lease manager: the HiveLease document's verbs on one metastore (``client.leases``).

Each verb is one transaction of the database. Grabs, extensions and drops of one table are serialised by the row of that
table (``rows``), all times are the database's, and what a holder may do is decided by the secret in its handle:
the metastore holds only a hash, and an id alone opens nothing. Keeps R3, R6, R7 and R8.
"""

from __future__ import annotations

import contextlib
import logging
from contextvars import ContextVar
from dataclasses import replace
from typing import TYPE_CHECKING

from airflow_hive_acid.errors import ExceedsMaxLeaseTimeError, InvalidArgumentsError, LeaseEndedError
from airflow_hive_acid.metastore.database.backend import Step, execute_batch, finish_batch
from airflow_hive_acid.metastore.database.clock import now_ms
from airflow_hive_acid.metastore.leases import rows
from airflow_hive_acid.metastore.leases.attempts import Attempts
from airflow_hive_acid.metastore.leases.expiry import expire, expire_lock
from airflow_hive_acid.metastore.leases.extensions import extend_at_once
from airflow_hive_acid.metastore.leases.grants import Request, utc, wake_next, what_passes
from airflow_hive_acid.metastore.leases.holders import held_step, lock_and_look, look
from airflow_hive_acid.metastore.leases.model import (
    HiveLease,
    Lease,
    LeaseObject,
    LeaseType,
    duration_ms,
    hash_of,
    lease_objects,
    new_secret,
    parse_token,
    wait_seconds,
)
from airflow_hive_acid.metastore.leases.objects import covers, resolve_objects
from airflow_hive_acid.metastore.leases.queue import WaitingGrab, granted_in_time
from airflow_hive_acid.metastore.names.objects import info
from airflow_hive_acid.metastore.setup.abilities import require_hive_4

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from sqlalchemy.engine import Connection

    from airflow_hive_acid.metastore.database.backend import Result
    from airflow_hive_acid.metastore.database.database import Database
    from airflow_hive_acid.settings import Settings

log = logging.getLogger(__name__)


class Leases:
    """Grab, confirm, extend, list and drop leases.

    :param user: whose leases they are, if a verb is not told.
    :param end_dead: aborts a txn whose owner is gone, and says whether it did.
    """

    def __init__(
        self, database: Database, settings: Settings, user: str, host: str, end_dead: Callable[[int], bool]
    ) -> None:
        self._database = database
        self._user, self._host = user, host
        self._longest_ms = settings.milliseconds("hive.acid.lease.max.time")
        self._attempts = Attempts(database, end_dead, self._longest_ms)
        self._mirror = settings.string("hive.acid.lease.mirror")
        self._passes = what_passes(settings)
        self._current: ContextVar[Lease | None] = ContextVar("lease", default=None)

    # --- the document's verbs -------------------------------------------------------------------------------------

    def grab_lease(
        self,
        objs: Iterable[LeaseObject | HiveLease | str] | LeaseObject | HiveLease | str,
        lease_duration_sec: float,
        lease_wait_duration_sec: float = 0,
        *,
        lease_type: LeaseType | str = LeaseType.EXCLUSIVE,
        user: str | None = None,
        mirror: bool | None = None,
        secret: str | None = None,
        sleep: Callable[[float], bool] | None = None,
    ) -> Lease:
        """Take a lease on all objects or on none; they need not exist.

        :param objs: :class:`LeaseObject`, or texts ``db.table`` or ``db.table/k=v``.
        :param lease_duration_sec: for how long, in seconds; it can be extended.
        :param lease_wait_duration_sec: how long to wait for it; first come, first served. 0 does not wait.
        :param lease_type: of objects given as text.
        :param mirror: whether Hive's writers are to wait for it (R7); by default as ``hive.acid.lease.mirror`` says.
        :param secret: of an earlier attempt of the same work: what that was granted, and still holds, is the answer.
        :return: the handle; its ``lease_id`` is the fencing token, and larger than all ids granted before.
        :raises LeaseAlreadyExistsError: when it was not granted in time; names who holds what until when.
        :raises ExceedsMaxLeaseTimeError: for a duration over ``hive.acid.lease.max.time``.
        """
        again, secret = secret is not None, secret or new_secret()
        request = self._request(objs, lease_duration_sec, lease_type, user, mirror, secret)
        patience = wait_seconds(lease_wait_duration_sec)
        granted = granted_in_time(self._database, self._attempts, request, patience, sleep, again=again)
        return Lease(
            granted.lease_id, secret, request.objects, request.user, granted.start, granted.end,
            request.duration_ms / 1000,
        )  # fmt: skip

    def waiting_grab(
        self,
        objs: Iterable[LeaseObject | HiveLease | str] | LeaseObject | HiveLease | str,
        lease_duration_sec: float,
        *,
        lease_type: LeaseType | str = LeaseType.EXCLUSIVE,
        user: str | None = None,
        mirror: bool | None = None,
        secret: str | None = None,
        ticket: int | None = None,
    ) -> WaitingGrab:
        """A grab for somebody who waits without blocking; nothing is asked for before its first look.

        :param secret: of an earlier attempt: what that was granted, and still holds, is found again.
        :param ticket: the place in the queue of an earlier attempt, if somebody looked less than 30 s ago.
        """
        secret = secret or new_secret()
        request = self._request(objs, lease_duration_sec, lease_type, user, mirror, secret)
        return WaitingGrab(replace(request, ticket=ticket), secret, self._attempts)

    def confirm_lease(self, lease: Lease) -> bool:
        """Whether a lease is held now, with all the objects of the handle: the fencing check."""
        try:
            self.require_lease(lease)
        except LeaseEndedError:
            return False
        return True

    def require_lease(self, lease: Lease) -> Lease:
        """Check that a lease is held, with all the objects of the handle; returns the handle with its end as it is.

        :raises LeaseEndedError: when it is not; says since when.
        """
        _, found = self._database.read(lambda connection: look(connection, lease))
        return replace(lease, end_utc=min(row.lease.end_utc for row in found))

    def resume_lease(self, token: str) -> Lease:
        """The handle of a lease whose token another process has printed.

        :raises LeaseEndedError: when it is not held any more, or the token is of none.
        """
        lease_id, secret = parse_token(token)
        bare = Lease(lease_id, secret, (), "", 0, 0, 0)
        found = [row.lease for row in self._database.read(lambda connection: look(connection, bare))[1]]
        end = min(row.end_utc for row in found)
        objects = tuple(sorted((_object(row) for row in found), key=lambda each: each.place))
        return Lease(
            lease_id, secret, objects, found[0].user, found[0].start_utc, end, (end - found[0].start_utc) / 1000
        )

    def list_lease(
        self, objs: Iterable[LeaseObject | HiveLease | str] | LeaseObject | HiveLease | str | None = None
    ) -> list[HiveLease]:
        """Leases held now on these objects, above them (on the table), or below (on its partitions).

        :param objs: None, or an empty list, for all leases.
        """
        if objs is None or (not isinstance(objs, str | LeaseObject | HiveLease) and not (objs := tuple(objs))):
            steps = [Step(rows.ALL)]
            wanted: tuple[LeaseObject, ...] = ()
        else:
            # As exclusive ones, because everything is in the way of those.
            wanted = tuple(replace(o, lease_type=LeaseType.EXCLUSIVE) for o in self.objects(objs))
            steps = [rows.conflict_step(each) for each in wanted]

        def operation(connection: Connection) -> tuple[list[Result], int]:
            return execute_batch(connection, steps), now_ms(connection)

        found, now = self._database.read(operation)
        live = [row.lease for row in rows.lease_rows(found) if row.is_live(now)]
        return sorted(live, key=lambda each: (each.place, each.lease_id))

    def extend_lease(
        self,
        lease: Lease,
        objs: Iterable[LeaseObject | HiveLease | str] | LeaseObject | HiveLease | str | None = None,
        lease_duration_sec: float | None = None,
    ) -> Lease:
        """Let a lease, or some of its objects, last for a time from now; it never gets shorter, its start stays.

        :param objs: which of its objects; by default all.
        :param lease_duration_sec: by default what it was taken for.
        :return: the handle with the new end.
        :raises LeaseEndedError: when it is not held any more; nothing was extended.
        :raises ExceedsMaxLeaseTimeError: when it would last longer than ``hive.acid.lease.max.time`` from its start.
        """
        places = self._parts(lease, objs)
        lasts = duration_ms(lease.duration_sec if lease_duration_sec is None else lease_duration_sec, self._longest_ms)

        def operation(connection: Connection) -> int:
            if len(places) == len(lease.objects):
                earliest = extend_at_once(connection, lease, lasts, self._longest_ms)
                if earliest is not None:
                    return earliest
            now, found = lock_and_look(connection, lease)
            end = now + lasts
            for row in found:
                if end - row.lease.start_utc > self._longest_ms:
                    raise ExceedsMaxLeaseTimeError(
                        f"lease {lease.lease_id} on {row.lease.describe()} began {utc(row.lease.start_utc)}; extended "
                        f"by {lasts / 1000:g} s it would last longer than {self._longest_ms / 1000:g} s "
                        "(hive.acid.lease.max.time). Drop it and grab a new one"
                    )
            chosen = [row for row in found if row.lease.place in places and row.lease.end_utc < end]
            finish_batch(connection, rows.extend_steps(chosen, end))
            ends = {row.lease.place: row.lease.end_utc for row in found}
            return min([*(max(ends[place], end) for place in places), *(e for p, e in ends.items() if p not in places)])

        return replace(lease, end_utc=self._database.run(operation, hot=True))

    def drop_lease(
        self,
        lease: Lease,
        objs: Iterable[LeaseObject | HiveLease | str] | LeaseObject | HiveLease | str | None = None,
    ) -> Lease:
        """Give a lease back, or some of its objects.

        :param objs: which of its objects; by default all.
        :return: the handle of what is left.
        :raises LeaseEndedError: when one of them was not held any more: whatever was done under it was not protected to
            the end. The others are given back all the same.
        """
        places = self._parts(lease, objs)
        part = replace(lease, objects=tuple(o for o in lease.objects if o.place in places))
        dropped_before = False
        ended: LeaseEndedError | None = None

        def operation(connection: Connection) -> None:
            nonlocal dropped_before, ended
            again, dropped_before = dropped_before, True
            try:
                _, found = lock_and_look(connection, part)
            except LeaseEndedError as error:
                now, mine = execute_batch(connection, [rows.NOW, held_step(lease)])
                found = [row for row in rows.lease_rows([mine]) if row.is_live(int(now.rows[0][0]))]
                was_dropped = again and not any(row.lease.place in places for row in rows.lease_rows([mine]))
                if ended is None and not was_dropped:  # by an earlier try, whose answer was lost
                    ended = error
            gone = [row for row in found if row.lease.place in places]
            if gone:
                finish_batch(connection, [*rows.remove_steps(gone), *wake_next(connection, [r.lease for r in gone])])

        self._database.run(operation, hot=True)
        if ended is not None:
            raise ended
        return lease.without([o for o in lease.objects if o.place in places])

    def force_drop_lease(
        self,
        objs: Iterable[LeaseObject | HiveLease | str] | LeaseObject | HiveLease | str,
        who: str,
        why: str,
        *,
        lease_id: int | None = None,
    ) -> list[HiveLease]:
        """Drop leases of whomever: those on the objects, and on the partitions of a table; recorded with who and why.

        Their holders find every verb refused, and what they have not committed under the lease stays invisible.

        :param objs: an empty list drops every lease there is.
        :param lease_id: of these only this one: what somebody saw a while ago may have a new holder by now.
        :return: what was dropped.
        """
        each = (objs,) if isinstance(objs, str | LeaseObject | HiveLease) else tuple(objs)
        wanted = self.objects(each) if each else ()
        for name, text in (("who", who), ("why", why)):
            if not isinstance(text, str) or not text.strip():
                raise InvalidArgumentsError(f"{name} is empty; a forced drop is recorded with who did it and why")

        def operation(connection: Connection) -> list[HiveLease]:
            if wanted:
                tables: list[LeaseObject] = list(wanted)
            else:
                everything = rows.lease_rows(execute_batch(connection, [Step(rows.ALL)]))
                tables = [_object(row.lease) for row in everything]
            execute_batch(connection, rows.guard_steps(tables))
            # R3: what stands there now is read behind the locks.
            names = sorted({each.table for each in tables})
            steps = [Step(rows.ON_TABLE, {"db": db, "tbl": tbl}) for db, tbl in names]
            found = [
                r for r in rows.lease_rows(execute_batch(connection, steps)) if not wanted or covers(wanted, r.lease)
            ]
            now = now_ms(connection)
            if lease_id is not None:
                found = [row for row in found if row.lease.lease_id == lease_id]
            live = [row.lease for row in found if row.is_live(now)]
            records = [rows.audit_step(lease, info(who), info(why, 4000), now) for lease in live]
            wake = wake_next(connection, [row.lease for row in found])
            finish_batch(connection, [*records, *rows.remove_steps(found), *wake])
            return live

        return self._database.run(operation)

    # --- leases and transactions ----------------------------------------------------------------------------------

    @contextlib.contextmanager
    def under(self, lease: Lease | None) -> Iterator[None]:
        """Around work that is done under a lease: locks that are asked for inside pass its mirror (R6), and
        transactions that begin inside commit only while it is held (R8).

        :param lease: None changes nothing.
        """
        if lease is None:
            yield
            return
        token = self._current.set(lease)
        try:
            yield
        finally:
            self._current.reset(token)

    @property
    def current(self) -> Lease | None:
        """The lease under which this thread works."""
        return self._current.get()

    def mirrors(self, wanted: bool | None = None) -> bool:
        """Whether leases stand in HIVE_LOCKS: as told, else by the setting; ``auto`` is another word for on."""
        if wanted is not None:
            return wanted
        return self._mirror != "off"

    def expire(self) -> int:
        """Remove leases that have ended, places in the queue that nobody keeps, and their locks; returns how many."""
        return expire(self._database)

    def expire_lock(self, lock_id: int) -> bool:
        """Remove a lock that stands for leases, if all of them have ended; whether it was one."""
        return self._available() and expire_lock(self._database, lock_id)

    def _available(self) -> bool:
        """Whether our tables are there: a metastore of an earlier version knows no leases."""
        return self._database.read(lambda connection: self._database.features(connection).leases)

    # --- what is asked for ----------------------------------------------------------------------------------------

    def _request(
        self,
        objs: Iterable[LeaseObject | HiveLease | str] | LeaseObject | HiveLease | str,
        seconds: float,
        lease_type: LeaseType | str,
        user: str | None,
        mirror: bool | None,
        secret: str,
    ) -> Request:
        """What is asked for, checked."""
        wanted, partial = self._resolved(lease_objects(objs, lease_type))
        self._check_storable(wanted)
        lasts = duration_ms(seconds, self._longest_ms)
        mirrored = self.mirrors(mirror)
        if mirrored:
            require_hive_4(
                self._database.layout(),
                "a lease for which Hive's writers wait",
                "with mirror=False, or hive.acid.lease.mirror=false, it holds among the users of this package",
            )
            if self._passes:
                log.warning("%s", self._passes)
        return Request(wanted, lasts, info(user or self._user), self._host, hash_of(secret), mirrored, partial=partial)

    def objects(
        self,
        objs: Iterable[LeaseObject | HiveLease | str] | LeaseObject | HiveLease | str,
        type: LeaseType | str = LeaseType.EXCLUSIVE,
    ) -> tuple[LeaseObject, ...]:
        """The objects of a request, their partitions as the tables' columns have it (:func:`partition_names.resolve`).

        :param type: of those given as text.
        :raises InvalidArgumentsError: when there are none, one is named twice, or a table has no such partitions.
        """
        return self._resolved(lease_objects(objs, type))[0]

    def _resolved(
        self, wanted: tuple[LeaseObject, ...]
    ) -> tuple[tuple[LeaseObject, ...], frozenset[tuple[str, str, str]]]:
        """Objects under the catalog's names, and those of them that may be several partitions."""
        if not any(each.partition_name for each in wanted):
            return wanted, frozenset()
        return self._database.read(lambda connection: resolve_objects(connection, wanted))

    # --- helpers --------------------------------------------------------------------------------------------------

    def _parts(
        self, lease: Lease, objs: Iterable[LeaseObject | HiveLease | str] | LeaseObject | HiveLease | str | None
    ) -> set[tuple[str, str, str]]:
        """The places meant by a verb; all must be the lease's."""
        if not isinstance(lease, Lease):
            raise InvalidArgumentsError("a lease is extended and dropped by the handle that grab_lease returned")
        held = {o.place for o in lease.objects}
        if not held:
            raise LeaseEndedError(f"lease {lease.lease_id} has no objects left; grab a new one")
        if objs is None:
            return held
        wanted = {o.place: o for o in self.objects(objs)}
        for place, each in wanted.items():
            if place not in held:
                raise InvalidArgumentsError(f"lease {lease.lease_id} is not on {each.describe()}; name its objects")
        return set(wanted)

    def _check_storable(self, wanted: tuple[LeaseObject, ...]) -> None:
        if not self._database.backend.latin1:
            return
        for each in wanted:
            try:
                each.partition_name.encode("latin-1")
            except UnicodeEncodeError:
                raise InvalidArgumentsError(
                    f"partition_name of {each.describe()}: Hive's tables on MySQL hold latin1 only; lease the table"
                ) from None


def _object(row: HiveLease) -> LeaseObject:
    return LeaseObject(*row.place, row.lease_type)
