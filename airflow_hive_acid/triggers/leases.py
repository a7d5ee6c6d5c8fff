"""Waiting for a lease to be granted, or for others' leases to end."""

from __future__ import annotations

import asyncio
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow_hive_acid.errors import HiveAcidError
from airflow_hive_acid.hooks.configuration import DEFAULT_CONN_ID
from airflow_hive_acid.triggers.base import MetastoreWaitTrigger, QuestionTrigger
from airflow_hive_acid.triggers.questions import Looked, Question, some

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow_hive_acid.metastore import MetastoreClient
    from airflow_hive_acid.metastore.leases import HiveLease, WaitingGrab

#: A place in the queue is kept by looking; the metastore gives it up after 30 seconds without a look.
LONGEST_INTERVAL = 10.0


class LeaseGrantedTrigger(MetastoreWaitTrigger):
    """Stands in line for a lease, and fires when it is granted; the event carries it sealed.

    A triggerer that restarts finds its place, or what it was granted meanwhile: the secret comes with the arguments.

    :param objects: ``db.table`` or ``db.table/k=v``.
    :param lease_type: ``s`` or ``x``.
    :param duration: of the lease, seconds.
    :param user: whose lease it will be, for people.
    :param sealed_secret: see ``hooks.leases``.
    :param ticket: the place in the queue that the task had.
    :param until: when to give up, seconds since 1970; None never.
    """

    def __init__(
        self,
        objects: list[str],
        lease_type: str,
        duration: float,
        user: str,
        sealed_secret: str,
        ticket: int | None = None,
        until: float | None = None,
        hive_acid_conn_id: str = DEFAULT_CONN_ID,
        poll_interval: float = 2.0,
    ) -> None:
        super().__init__(hive_acid_conn_id, min(poll_interval, LONGEST_INTERVAL))
        self.objects = objects
        self.lease_type = lease_type
        self.duration = duration
        self.user = user
        self.sealed_secret = sealed_secret
        self.ticket = ticket
        self.until = until
        self._grab: WaitingGrab | None = None
        self._looking = threading.Lock()
        self._killed = False

    def check(self, client: MetastoreClient) -> dict[str, Any] | None:
        """Look once."""
        with self._looking:
            return None if self._killed else self._look(client)

    def _look(self, client: MetastoreClient) -> dict[str, Any] | None:
        from airflow_hive_acid.hooks.leases import seal_lease

        if self._grab is None:
            self._grab = self._waiting(client, self.ticket)
        lease = self._grab.look()
        if lease is not None:
            return {"lease": seal_lease(client, lease)}
        text = self._grab.blocked.text if self._grab.blocked is not None else "something is in the way"
        if self.until is not None and time.time() > self.until:
            self._grab.withdraw()
            return {"status": "timeout", "message": text}
        self.log.info("Waiting for a lease on %s: %s", ", ".join(self.objects), text)
        return None

    def _waiting(self, client: MetastoreClient, ticket: int | None) -> WaitingGrab:
        from airflow_hive_acid.hooks.leases import open_secret

        return client.leases.waiting_grab(
            self.objects, self.duration, lease_type=self.lease_type, user=self.user,
            secret=open_secret(client, self.sealed_secret), ticket=ticket,
        )  # fmt: skip

    async def let_go(self) -> None:
        """The task was cleared or marked: give back the place in the queue, or what was granted to it, here or in a
        triggerer of before.

        One that has succeeded may have gone on with what another triggerer was granted, and given it to other tasks;
        it has extended it then. What it has not, nobody knows of: the task was marked while it waited.
        """
        from airflow_hive_acid.hooks.hive_acid import HiveAcidHook

        connection = await HiveAcidHook.aget_connection(self.hive_acid_conn_id)
        await asyncio.to_thread(self._give_up, connection)

    def _give_up(self, connection: Any) -> None:
        from airflow_hive_acid.hooks.hive_acid import HiveAcidHook

        with self._looking:  # A look that has begun may be granted the lease still.
            self._killed = True
        ticket = self.ticket if self._grab is None else self._grab.ticket
        with HiveAcidHook.client_of(connection) as client:
            try:
                self._waiting(client, ticket).give_up(untouched=self._has_succeeded)
            except HiveAcidError as error:
                self.log.warning("What waited for a lease could not be withdrawn, and will end by itself: %s", error)


@dataclass(frozen=True, slots=True)
class LeasesQuestion(Question):
    """Is no lease in the way of one of this type?

    :param objects: ``db.table`` or ``db.table/k=v``.
    """

    objects: tuple[str, ...]
    lease_type: str

    def ask(self, client: MetastoreClient) -> Looked:
        """Look once.

        :raises InvalidArgumentsError: for an object that is none, none at all, or an unknown type.
        """
        found = leases_in_the_way(client, self.objects, self.lease_type)
        return Looked(True) if not found else Looked(False, describe_leases(found))


class LeasesEndedTrigger(QuestionTrigger):
    """Fires when no lease is in the way any more.

    :param objects: ``db.table`` or ``db.table/k=v``.
    :param lease_type: what somebody wants to do there: ``s`` is in the way of ``x`` only, ``x`` of both.
    """

    def __init__(
        self,
        objects: list[str],
        lease_type: str = "x",
        until: float | None = None,
        hive_acid_conn_id: str = DEFAULT_CONN_ID,
        poll_interval: float = 5.0,
    ) -> None:
        super().__init__(until, hive_acid_conn_id, poll_interval)
        self.objects = objects
        self.lease_type = lease_type

    def question(self) -> Question:
        """What is waited for."""
        return LeasesQuestion(tuple(self.objects), self.lease_type)


def leases_in_the_way(client: MetastoreClient, objects: Sequence[str], lease_type: str) -> list[HiveLease]:
    """The leases held now that exclude one of this type.

    :raises InvalidArgumentsError: for an object that is none, none at all, or an unknown type.
    """
    from airflow_hive_acid.metastore.leases import conflicts

    wanted = client.leases.objects(objects, lease_type)
    return [held for held in client.leases.list_lease(wanted) if any(conflicts(want, held) for want in wanted)]


def describe_leases(found: Sequence[HiveLease]) -> str:
    """Who holds what, since when and until when, in one line."""
    from airflow_hive_acid.metastore.leases import utc

    told = some([
        f"lease {held.lease_id} ({held.lease_type.value}) of {held.user} on {held.describe()} until "
        f"{utc(held.end_utc)}, held since {utc(held.start_utc)}"
        for held in found
    ])  # fmt: skip
    return f"waiting for {len(found)} lease{'s' * (len(found) > 1)}: {told}"
