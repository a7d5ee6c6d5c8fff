"""Asks for the compaction of a table or partition, as ``ALTER TABLE … COMPACT`` does, and waits for it if wanted."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.sdk import BaseOperator

from airflow_hive_acid.airflow_versions import seconds_of
from airflow_hive_acid.errors import HiveAcidError, JobFailedError
from airflow_hive_acid.hooks.arguments import (
    Argument,
    Takes,
    check_parsed,
    check_rendered,
    count,
    mapping,
    optional_mapping,
    optional_text,
    seconds,
    some_text,
)
from airflow_hive_acid.hooks.configuration import DEFAULT_CONN_ID
from airflow_hive_acid.hooks.links import LINKS, linked_to
from airflow_hive_acid.hooks.tasks import fail_task, stop_on_kill
from airflow_hive_acid.triggers.compactions import (
    CompactionFinishedTrigger,
    cancel_requests,
    compaction_outcome,
    not_served,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import timedelta

    from airflow.sdk import Context

    from airflow_hive_acid.hooks.hive_acid import HiveAcidHook
    from airflow_hive_acid.maintenance.initiator.by_hand import Asked
    from airflow_hive_acid.metastore import MetastoreClient


_SPEC = mapping("partition columns to values")


class HiveAcidCompactOperator(BaseOperator):
    """Puts a compaction request into the queue, from which the Worker DAG or a real Hive serves it.

    A request for something that is queued or worked on already is not made twice: the one that exists counts. It asks
    for what ``ALTER TABLE … COMPACT`` can ask for, and refuses what that refuses. Of a partitioned table without a
    partition each one is handed to the Initiator's rules, which choose the type.

    :param table: ``db.table``. (templated)
    :param partition: partition name ``k1=v1/k2=v2`` or a mapping of columns to values; None for a table, or for those
        partitions of a table that need a compaction. (templated)
    :param type: ``major``, ``minor`` or ``rebalance``. (templated)
    :param compaction_pool: of the workers that may take it; by default the table's, else its database's. Airflow's own
        ``pool`` is that of this task. (templated)
    :param order_by: of a rebalance: the columns that rows are ordered by, for example ``a, b DESC``. (templated)
    :param number_of_buckets: of a rebalance: files that are made; by default as many as there are.
    :param properties: of this compaction alone: ``compactor.*`` for its job, ``tblprops.*`` over the table's
        properties, ``compactorthreshold.*`` over the thresholds. (templated)
    :param lease: the output of a HiveAcidGrabLeaseOperator: the request is made only while it is held, and a wait in
        the worker slot extends it. The compaction itself is the Worker's, and goes on without it. (templated)
    :param wait: succeed only when the compacted files are there; fail when a request fails.
    :param timeout: seconds, or a ``timedelta``, to wait at most; None for as long as it takes.
    :param poll_interval: seconds, or a ``timedelta``, between two looks.
    :param deferrable: wait in the triggerer instead of in a worker slot.
    :param hive_acid_conn_id: connection of type ``hive_acid``. (templated)
    """

    template_fields: Sequence[str] = (
        "table", "partition", "type", "compaction_pool", "order_by", "properties", "lease", "hive_acid_conn_id",
    )  # fmt: skip
    ui_color = "#d5e8d4"
    operator_extra_links = LINKS
    linked: dict[str, Any] | None = None
    takes: ClassVar[Takes] = {
        "table": some_text("db.table"),
        "partition": Argument(
            "k1=v1/k2=v2, or a mapping of partition columns to values; leave it out for all that need a compaction",
            lambda value: value not in ("", "None") if isinstance(value, str) else _SPEC.fits(value),
            (None,),
        ),
        "type": some_text("major, minor or rebalance"),
        "compaction_pool": optional_text("the name of a compaction pool"),
        "order_by": optional_text("columns, for example a, b DESC"),
        "number_of_buckets": count(1, optional=True),
        "properties": optional_mapping("properties to their values"),
        "timeout": seconds(optional=True),
        "poll_interval": seconds(0.01),
    }

    def __init__(
        self,
        *,
        table: str,
        partition: str | Mapping[str, Any] | None = None,
        type: str = "major",
        compaction_pool: str | None = None,
        order_by: str | None = None,
        number_of_buckets: int | None = None,
        properties: Mapping[str, str] | None = None,
        lease: Any = None,
        wait: bool = False,
        timeout: float | timedelta | None = None,
        poll_interval: float | timedelta = 5.0,
        deferrable: bool = True,
        hive_acid_conn_id: str = DEFAULT_CONN_ID,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.table = table
        self.partition = partition
        self.type = type
        self.compaction_pool = compaction_pool
        self.order_by = order_by
        self.number_of_buckets = number_of_buckets
        self.properties = properties
        self.lease = lease
        self._is_given_a_lease = lease is not None
        self.wait = wait
        self.timeout = seconds_of(timeout)
        self.poll_interval = seconds_of(poll_interval)
        self.deferrable = deferrable
        self.hive_acid_conn_id = hive_acid_conn_id
        self._asked: list[int] = []
        check_parsed(self, self.takes)

    def execute(self, context: Context) -> dict[str, Any]:
        """Ask, and wait if wanted.

        :return: ``request_id``, its ``state``, and ``accepted``, which is False when there was such a request already.
            Of all partitions of a table ``requests`` with these and ``partition`` for each, and ``left_alone``, the
            number of partitions that need no compaction.
        """
        from airflow_hive_acid.hooks.hive_acid import HiveAcidHook  # not needed to parse a DAG file
        from airflow_hive_acid.hooks.leases import kept_lease

        started = time.time()
        try:
            check_rendered(self, self.takes)
            with (
                HiveAcidHook(self.hive_acid_conn_id) as hook,
                kept_lease(hook, self.lease, is_given=self._is_given_a_lease),
            ):
                request = self._ask(hook)
                self.linked = linked_to(request)
                waiting = _ids(request)
                self._asked = _accepted(request) if self.wait else []
                if not self.wait or not waiting:
                    return request
                if not self.deferrable:
                    client = hook.get_conn()
                    return _done(request, [self._poll(client, request_id, started) for request_id in waiting])
        except HiveAcidError as error:
            fail_task(error)
        self._defer(request, [], started)
        raise AssertionError("a deferred task does not go on")

    def execute_complete(
        self,
        context: Context,
        event: dict[str, Any],
        request: dict[str, Any] | None = None,
        done: list[dict[str, Any]] | None = None,
        started: float = 0.0,
    ) -> dict[str, Any]:
        """Go on after the wait, for the next request if there is one.

        The event carries what is known by then as well: dag.test() passes nothing else.
        """
        if event.pop("status") != "success":
            fail_task(JobFailedError(event["message"]))
        kept = event.pop("handed_back", None)
        if request is None:
            request, done, started = kept["request"], kept["done"], kept["started"]
        self.linked = linked_to(request)
        ended = [*(done or []), event]
        if len(ended) < len(_ids(request)):
            self._defer(request, ended, started)
        return _done(request, ended)

    def on_kill(self) -> None:
        """Cancel what this task has asked for and waits for, running or not; requests of others stay."""
        if not self._asked:
            return
        stop_on_kill(self._cancel)

    def _cancel(self) -> None:
        from airflow_hive_acid.hooks.hive_acid import HiveAcidHook

        try:
            with HiveAcidHook(self.hive_acid_conn_id) as hook:
                for line in cancel_requests(hook.get_conn(), self._asked):
                    self.log.info("%s", line)
        except HiveAcidError as error:
            self.log.warning("compactions %s could not be cancelled: %s", self._asked, error)

    def _defer(self, request: dict[str, Any], done: list[dict[str, Any]], started: float) -> None:
        request_id = _ids(request)[len(done)]
        until = None if self.timeout is None else started + self.timeout
        known = {"request": request, "done": done, "started": started}
        self.defer(
            trigger=CompactionFinishedTrigger(
                request_id, self.hive_acid_conn_id, self.poll_interval, _accepted(request), known, until
            ),
            method_name="execute_complete",
            kwargs=known,
        )

    def _ask(self, hook: HiveAcidHook) -> dict[str, Any]:
        from airflow_hive_acid.maintenance.initiator.by_hand import Wanted, ask

        wanted = Wanted(
            self.table, _spec(self.partition), self.type, self.properties or {}, self.compaction_pool,
            self.number_of_buckets, self.order_by,
        )  # fmt: skip
        client = hook.get_conn()
        partitioned = client.catalog.get_table(self.table).is_partitioned
        answers = ask(client, hook.get_filesystem(), wanted)
        for answer in answers:
            self.log.info("%s", answer)
        if partitioned and wanted.partition is None:
            requests = [
                {"partition": a.resource.partition, **_document(a)} for a in answers if a.request_id is not None
            ]
            return {"requests": requests, "left_alone": len(answers) - len(requests)}
        return _document(answers[0])

    def _poll(self, client: MetastoreClient, request_id: int, started: float) -> dict[str, Any]:
        while (outcome := compaction_outcome(client, request_id)) is None:
            if self.timeout is not None and time.time() - started > self.timeout:
                raise not_served(request_id)
            time.sleep(self.poll_interval)
        return outcome


def _document(answer: Asked) -> dict[str, Any]:
    return {"request_id": answer.request_id, "state": answer.state, "accepted": answer.accepted}


def _ids(request: Mapping[str, Any]) -> list[int]:
    """The requests to wait for."""
    return [one["request_id"] for one in request.get("requests", [request])]


def _accepted(request: Mapping[str, Any]) -> list[int]:
    """The requests that this task made; those that were there before are somebody else's."""
    return [one["request_id"] for one in request.get("requests", [request]) if one["accepted"]]


def _done(request: dict[str, Any], outcomes: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """The answer with how the requests ended."""
    if "requests" not in request:
        return {**request, **next(iter(outcomes))}
    ended = {outcome["request_id"]: outcome for outcome in outcomes}
    return {**request, "requests": [{**one, **ended[one["request_id"]]} for one in request["requests"]]}


def _spec(partition: str | Mapping[str, Any] | None) -> str | dict[str, str | None] | None:
    """The partition as the catalog reads it.

    An empty one is refused before: a template that came out empty must not mean all partitions.
    """
    if partition is None or isinstance(partition, str):
        return partition
    return {key: None if value is None else str(value) for key, value in partition.items()}
