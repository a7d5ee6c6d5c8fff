"""Leases in DAGs: a task that grabs one, a task that drops it, and TaskFlow tasks that run under one.

What a grab returns, and so its XCom, may be seen by anybody: it names the lease, and the secret in it is sealed (see
``hooks.leases``). Between grab and drop the tasks that are given the lease (``lease=grab.output``) extend it.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import time
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, ParamSpec, TypeVar

from airflow.sdk import BaseOperator, get_current_context

from airflow_hive_acid.airflow_versions import seconds_of
from airflow_hive_acid.errors import HiveAcidError, LeaseAlreadyExistsError, LeaseEndedError
from airflow_hive_acid.faces import renamed
from airflow_hive_acid.hooks.arguments import (
    Takes,
    check_parsed,
    check_rendered,
    optional_texts,
    refused,
    seconds,
    some_text,
    texts,
)
from airflow_hive_acid.hooks.configuration import DEFAULT_CONN_ID
from airflow_hive_acid.hooks.links import LINKS, linked_to
from airflow_hive_acid.hooks.tasks import agent_info, error_of_event, fail_task
from airflow_hive_acid.triggers.leases import LeaseGrantedTrigger

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import timedelta

    from airflow.sdk import Context

    from airflow_hive_acid.metastore.leases import Lease, WaitingGrab

_P = ParamSpec("_P")
_R = TypeVar("_R")
_EMPTY = (None, "", "None")
_NAP = 1.0
"""Seconds after which who waits in a worker slot finds out that he was killed."""


class HiveAcidGrabLeaseOperator(BaseOperator):
    """Takes a lease on tables or partitions, all of them or none, and waits for it if wanted.

    Use it as a setup, and :class:`HiveAcidDropLeaseOperator` as its teardown; give ``grab.output`` to the tasks
    between them. A retry that finds the lease granted to the try before it goes on with that one; a task that is
    cleared drops it, and what was going on under it commits nothing more.

    :param objects: one or several of ``db.table`` and ``db.table/k=v``; they need not exist. (templated)
    :param type: ``x`` exclusive, or ``s`` shared. (templated)
    :param duration: seconds, or a ``timedelta``, that it lasts unless it is extended, which every task that is given it
        does while it runs.
    :param wait: seconds, or a ``timedelta``, to wait for it at most, first come first served; 0 for not at all, None
        for ever.
    :param poll_interval: seconds between two looks, at most 10.
    :param deferrable: wait in the triggerer instead of in a worker slot.
    :param hive_acid_conn_id: connection of type ``hive_acid``. (templated)
    """

    template_fields: Sequence[str] = ("objects", "type", "hive_acid_conn_id")
    ui_color = "#fff2cc"
    operator_extra_links = LINKS
    linked: dict[str, Any] | None = None
    takes: ClassVar[Takes] = {
        "objects": texts("the tables or partitions to lease, as db.table or db.table/k=v"),
        "type": some_text("x, exclusive, or s, shared"),
        "duration": seconds(0.001),
        "wait": seconds(optional=True),
    }

    def __init__(
        self,
        *,
        objects: str | Sequence[str],
        type: str = "x",
        duration: float | timedelta = 3600.0,
        wait: float | timedelta | None = 0.0,
        poll_interval: float = 2.0,
        deferrable: bool = True,
        hive_acid_conn_id: str = DEFAULT_CONN_ID,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        duration, wait = seconds_of(duration), seconds_of(wait)
        if not isinstance(poll_interval, int | float) or not 0 < poll_interval <= 10:
            raise refused(
                self, f"poll_interval of task {self.task_id} must be above 0 and at most 10, not {poll_interval!r}"
            )
        self.objects = objects
        self.type = type
        self.duration = duration
        self.wait = wait
        self.poll_interval = poll_interval
        self.deferrable = deferrable
        self.hive_acid_conn_id = hive_acid_conn_id
        self._is_killed = False
        check_parsed(self, self.takes)

    def execute(self, context: Context) -> dict[str, Any]:
        """Take it, or stand in line.

        :return: the lease for other tasks: ``lease_id`` (the fencing token), ``objects``, ``user``, ``start_utc`` and
            ``end_utc`` (milliseconds, database clock), ``duration_sec``, and ``sealed``, which opens nothing by itself.
        """
        from airflow_hive_acid.hooks.hive_acid import HiveAcidHook  # not needed to parse a DAG file
        from airflow_hive_acid.hooks.leases import objects_of, renewed, seal_lease, seal_secret, secret_of_task

        try:
            check_rendered(self, self.takes)
            with HiveAcidHook(self.hive_acid_conn_id) as hook:
                client = hook.get_conn()
                objects, user = objects_of(self.objects), agent_info(context)
                secret = secret_of_task(client, context, objects, self.type, resume=True)
                grab = client.leases.waiting_grab(
                    objects, self.duration, lease_type=self.type, user=user, secret=secret
                )
                until = None if self.wait is None else time.time() + self.wait
                stays = self.wait == 0 or not self.deferrable
                found = self._stand_in_line(grab, until) if stays else grab.look()
                if found is not None:
                    if context["ti"].try_number > 1:
                        found = renewed(client, found)  # the try before may have been granted it long ago
                    return self._granted(found, seal_lease(client, found))
                ticket, sealed = grab.ticket, seal_secret(client, secret)
        except HiveAcidError as error:
            fail_task(error)
        self.defer(
            trigger=LeaseGrantedTrigger(
                objects, self.type, self.duration, user, sealed, ticket, until, self.hive_acid_conn_id,
                self.poll_interval,
            ),
            method_name="execute_complete",
        )  # fmt: skip

    def execute_complete(self, context: Context, event: dict[str, Any]) -> dict[str, Any]:
        """Go on after the wait: the lease begins to last when the task does."""
        from airflow_hive_acid.hooks.hive_acid import HiveAcidHook
        from airflow_hive_acid.hooks.leases import objects_of, open_lease, renewed, seal_lease

        if event["status"] == "timeout":
            _not_granted(self.objects, event["message"], self.wait)
        if event["status"] != "success":
            fail_task(error_of_event(event))
        try:
            check_rendered(self, self.takes)
            with HiveAcidHook(self.hive_acid_conn_id) as hook:
                client = hook.get_conn()
                lease = open_lease(client, event["lease"])
                if lease.objects == client.leases.objects(objects_of(self.objects), self.type):
                    lease = renewed(client, lease)
                    return self._granted(lease, seal_lease(client, lease))
                with contextlib.suppress(LeaseEndedError):
                    client.leases.drop_lease(lease)
        except LeaseEndedError as error:
            # It was granted while no worker had a slot for this task; a retry stands in line again.
            raise _retry(f"{error}; it ended before this task got a slot: give it a longer duration") from error
        except HiveAcidError as error:
            fail_task(error)
        self.log.warning("The DAG file names another lease than before the wait; what was granted is given back")
        return self.execute(context)

    def on_kill(self) -> None:
        """End the wait in the worker slot: who comes later moves up, and a task that has ended is granted nothing."""
        self._is_killed = True

    def _stand_in_line(self, grab: WaitingGrab, until: float | None) -> Lease:
        try:
            while True:
                lease = grab.look()
                if self._is_killed:
                    grab.give_up()
                    raise _retry(f"killed by Airflow while it waited for a lease on {self.objects}; nothing is held")
                if lease is not None:
                    return lease
                text = grab.blocked.text if grab.blocked is not None else ""
                if until is not None and time.time() >= until:
                    _not_granted(self.objects, text, self.wait)
                self.log.info("Waiting for a lease on %s: %s", self.objects, text)
                self._pause()
        finally:
            grab.withdraw()

    def _pause(self) -> None:
        """Until the next look; in naps, because Airflow kills the process 5 seconds after it has asked it to end."""
        left = self.poll_interval
        while left > 0 and not self._is_killed:
            time.sleep(min(left, _NAP))
            left -= _NAP

    def _granted(self, lease: Lease, sealed: dict[str, Any]) -> dict[str, Any]:
        from airflow_hive_acid.hooks.leases import describe

        self.log.info("Granted: %s", describe(lease))
        self.linked = linked_to(sealed)
        return sealed


class HiveAcidDropLeaseOperator(BaseOperator):
    """Gives a lease back; as a teardown (``drop.as_teardown(setups=grab)``) also when the work failed.

    :param lease: the output of a :class:`HiveAcidGrabLeaseOperator`; None, of a grab that was skipped, is nothing to
        drop. (templated)
    :param objects: which of its objects; by default all. What is left is the output: give that to the tasks that go on
        under it. (templated)
    :param ended_ok: succeed, too, when the lease had ended before. By default that is an error: whatever was done in
        the end, other than statements that were given the lease, was not protected.
    :param hive_acid_conn_id: connection of type ``hive_acid``, the one that the lease was grabbed with. (templated)
    """

    template_fields: Sequence[str] = ("lease", "objects", "hive_acid_conn_id")
    ui_color = "#fff2cc"
    takes: ClassVar[Takes] = {"objects": optional_texts("the objects of the lease to drop")}

    def __init__(
        self,
        *,
        lease: Any,
        objects: str | Sequence[str] | None = None,
        ended_ok: bool = False,
        hive_acid_conn_id: str = DEFAULT_CONN_ID,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.lease = lease
        self.objects = objects
        self.ended_ok = ended_ok
        self.hive_acid_conn_id = hive_acid_conn_id
        check_parsed(self, self.takes)

    def execute(self, context: Context) -> dict[str, Any] | None:
        """Drop it.

        :return: the lease that is left for other tasks, as the grab returns it; None when all of it was dropped.
        """
        from airflow_hive_acid.hooks.hive_acid import HiveAcidHook  # not needed to parse a DAG file
        from airflow_hive_acid.hooks.leases import describe, dropped_before, objects_of, open_lease, seal_lease

        if self.lease in _EMPTY:
            self.log.info("There is no lease to drop")
            return None
        tried_before = False
        try:
            check_rendered(self, self.takes)
            with HiveAcidHook(self.hive_acid_conn_id) as hook:
                client = hook.get_conn()
                lease = open_lease(client, self.lease)
                tried_before = dropped_before(context, lease.lease_id)
                left = client.leases.drop_lease(lease, None if self.objects is None else objects_of(self.objects))
                self.log.info("Dropped: %s", describe(lease.without(left.objects)))
                return seal_lease(client, left) if left.objects else None
        except LeaseEndedError as error:
            # A try before this one may have dropped it and died before it could say so.
            if not self.ended_ok and not tried_before:
                fail_task(error)
            self.log.warning("Nothing to drop: %s", error)
            return None
        except HiveAcidError as error:
            fail_task(error)


class HiveAcidConfirmLeaseOperator(BaseOperator):
    """Succeeds only if a lease is held now: the fencing check, right before what must not happen without it.

    What is done under the lease by our operators asks by itself, with each commit (``lease=grab.output``). This is for
    what asks nobody: a copy, a message, a job of another system. A failure is for good, because a lease that has ended
    is not held again.

    :param lease: the output of a :class:`HiveAcidGrabLeaseOperator`. (templated)
    :param hive_acid_conn_id: connection of type ``hive_acid``, the one that the lease was grabbed with. (templated)
    """

    template_fields: Sequence[str] = ("lease", "hive_acid_conn_id")
    ui_color = "#fff2cc"
    operator_extra_links = LINKS
    linked: dict[str, Any] | None = None

    def __init__(self, *, lease: Any, hive_acid_conn_id: str = DEFAULT_CONN_ID, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.lease = lease
        self.hive_acid_conn_id = hive_acid_conn_id

    def execute(self, context: Context) -> dict[str, Any]:
        """Ask.

        :return: the lease for other tasks, as the grab returns it, with its end as it is now.
        """
        from airflow_hive_acid.hooks.hive_acid import HiveAcidHook  # not needed to parse a DAG file
        from airflow_hive_acid.hooks.leases import describe, open_lease, seal_lease

        try:
            with HiveAcidHook(self.hive_acid_conn_id) as hook:
                client = hook.get_conn()
                lease = client.leases.require_lease(open_lease(client, self.lease))
                sealed = seal_lease(client, lease)
        except HiveAcidError as error:
            fail_task(error)
        self.log.info("Held: %s", describe(lease))
        self.linked = linked_to(sealed)
        return sealed


def lease_on(
    *objects: str,
    type: str = "x",
    duration: float | timedelta = 600.0,
    wait: float | timedelta = 0.0,
    hive_acid_conn_id: str = DEFAULT_CONN_ID,
) -> Callable[[Callable[_P, _R]], Callable[_P, _R]]:
    """Run a TaskFlow task under a lease: grabbed before its first line, extended while it runs, dropped after its last.

    ::

        @task
        @lease_on("sales.orders/ds={{ ds }}", wait=3600)
        def load(lease=None):
            ...

    A parameter named ``lease`` is given the :class:`~airflow_hive_acid.metastore.leases.keeper.KeptLease`: its
    ``lease_id`` is the fencing token, its ``lease`` what ``hook.get_engine().run(sql, lease=…)`` takes, and its
    ``require()`` raises when it was lost.

    A retry takes over: the lease of the try before, if that still lives somewhere, is dropped first, so that it can
    commit nothing more under it.

    :param objects: ``db.table`` or ``db.table/k=v``; templates are rendered.
    :param type: ``x`` exclusive, or ``s`` shared.
    :param duration: seconds, or a ``timedelta``, that it outlives a task that was killed.
    :param wait: seconds, or a ``timedelta``, to wait for it at most, in the worker slot; 0 for not at all.
    """

    def decorate(function: Callable[_P, _R]) -> Callable[_P, _R]:
        signature = inspect.signature(function)

        @functools.wraps(function)
        def under_lease(*args: _P.args, **kwargs: _P.kwargs) -> _R:
            from airflow_hive_acid.hooks.hive_acid import HiveAcidHook
            from airflow_hive_acid.hooks.leases import secret_of_task

            context = get_current_context()
            rendered = context["task"].render_template(list(objects), context)
            try:
                with (
                    HiveAcidHook(hive_acid_conn_id) as hook,
                    hook.lease(
                        rendered,
                        type=type,
                        duration=seconds_of(duration),
                        wait=seconds_of(wait),
                        user=agent_info(context),
                        secret=secret_of_task(hook.get_conn(), context, rendered, type, resume=False),
                    ) as keeper,
                ):
                    if "lease" in signature.parameters:
                        kwargs["lease"] = keeper
                    return function(*args, **kwargs)
            except HiveAcidError as error:
                fail_task(error)

        visible = [p for p in signature.parameters.values() if p.name != "lease"]
        under_lease.__signature__ = signature.replace(parameters=visible)  # type: ignore[attr-defined]
        return under_lease

    return decorate


def _not_granted(objects: Any, text: str, waited: float | None) -> NoReturn:
    after = f" after {waited:g} s" if waited else ""
    fail_task(LeaseAlreadyExistsError(f"no lease on {objects}{after}: {text}. Nothing is held"))


def _retry(text: str) -> Exception:
    from airflow_hive_acid.airflow_versions import AirflowException

    return AirflowException(text)


__getattr__ = renamed(
    __name__, {"DropLeaseOperator": "HiveAcidDropLeaseOperator", "GrabLeaseOperator": "HiveAcidGrabLeaseOperator"}
)
