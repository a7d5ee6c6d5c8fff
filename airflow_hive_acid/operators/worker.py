"""The tasks of the Worker and Cleaner DAGs: they wait without a worker slot, and leave nothing open when killed."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.sdk import Asset, AssetAlias, BaseOperator

from airflow_hive_acid.airflow_versions import seconds_of
from airflow_hive_acid.errors import HiveAcidError
from airflow_hive_acid.faces import renamed
from airflow_hive_acid.hooks import stats
from airflow_hive_acid.hooks.arguments import (
    Takes,
    check_parsed,
    check_rendered,
    count,
    optional_mapping,
    optional_text,
    seconds,
    whole_of,
)
from airflow_hive_acid.hooks.assets import COMPACTIONS, announce
from airflow_hive_acid.hooks.configuration import DEFAULT_CONN_ID
from airflow_hive_acid.hooks.tasks import Running, fail_task, require_rendered, stop_on_kill, worker_id
from airflow_hive_acid.triggers.readiness import CleaningReadyTrigger, WorkWaitsTrigger

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import timedelta

    from airflow.sdk import Context

    from airflow_hive_acid.engine import Engine
    from airflow_hive_acid.hooks.hive_acid import HiveAcidHook

#: News of this asset: the Cleaner has removed something; what it uncovered may be ready soon.
CLEANED = Asset(name="hive_acid_cleaned", uri="x-hive-acid://cleaned")
#: Through this outlet: an event is sent only when something was removed.
_MAYBE_CLEANED = AssetAlias(name="hive_acid_maybe_cleaned")
#: Hive's workers look every 10.8 s at first.
_POLL_SECONDS = 10.0


class HiveAcidPlanWorkersOperator(BaseOperator):
    """Waits until requests wait for compaction, then says how many workers shall start: a number for each.

    :param pools: threads by compaction pool; their requests end the wait, too.
    :param compaction_pool: whose workers are counted; None: those without a pool.
    :param wait_seconds: seconds, or a ``timedelta``, to wait at most, in the triggerer; 0: look once. (templated)
    :param hive_acid_conn_id: connection of type ``hive_acid``. (templated)
    """

    template_fields: Sequence[str] = ("wait_seconds", "hive_acid_conn_id")
    ui_color = "#d5e8d4"
    takes: ClassVar[Takes] = {
        "pools": optional_mapping("compaction pools to numbers of threads"),
        "compaction_pool": optional_text("the name of a compaction pool"),
        "wait_seconds": seconds(),
    }

    def __init__(
        self,
        *,
        pools: Mapping[str, int] | None = None,
        compaction_pool: str | None = None,
        wait_seconds: float | timedelta | str = 0,
        hive_acid_conn_id: str = DEFAULT_CONN_ID,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.pools = pools
        self.compaction_pool = compaction_pool
        self.wait_seconds = seconds_of(wait_seconds)
        self.hive_acid_conn_id = hive_acid_conn_id
        check_parsed(self, self.takes)

    def execute(self, context: Context) -> list[int]:
        """Look, and wait if there is nothing.

        :return: the numbers of the workers to start.
        """
        wait = _seconds_given(self)
        threads, found = self._look()
        if not any(found.values()) and wait > 0:
            self.defer(
                trigger=WorkWaitsTrigger(
                    time.time() + wait, threads, dict(self.pools or {}), self.hive_acid_conn_id,
                    _POLL_SECONDS,
                ),
                method_name="execute_complete",
            )  # fmt: skip
        return self._workers(found)

    def execute_complete(self, context: Context, event: dict[str, Any]) -> list[int]:
        """Look again: others may have taken what there was."""
        require_answer(event)
        return self._workers(self._look()[1])

    def _look(self) -> tuple[int, dict[str | None, int]]:
        from airflow_hive_acid.hooks.hive_acid import HiveAcidHook  # not needed to parse a DAG file
        from airflow_hive_acid.maintenance.cleaner.readiness import workers_wanted

        try:
            with HiveAcidHook(self.hive_acid_conn_id) as hook:
                threads = hook.settings.integer("hive.compactor.worker.threads")
                return threads, workers_wanted(hook.get_conn(), threads, self.pools or {})
        except HiveAcidError as error:
            fail_task(error)

    def _workers(self, found: Mapping[str | None, int]) -> list[int]:
        number = found.get(self.compaction_pool, 0)
        self.log.info("%d workers start", number)
        return list(range(1, number + 1))


class HiveAcidCompactionWorkerOperator(BaseOperator):
    """Serves compaction requests, one after the other, until none is left.

    Each request is claimed when it is worked on: one that is claimed and never run would wait for a day. A retry is the
    same worker, and takes up what the try before left. Commits are told as events of the tables' assets.

    :param worker: number of this worker.
    :param compaction_pool: only requests of this compaction pool.
    :param requests: so many at most. (templated)
    :param hive_acid_conn_id: connection of type ``hive_acid``. (templated)
    """

    template_fields: Sequence[str] = ("requests", "hive_acid_conn_id")
    ui_color = "#d5e8d4"
    takes: ClassVar[Takes] = {
        "worker": count(0),
        "compaction_pool": optional_text("the name of a compaction pool"),
        "requests": count(1, optional=True),
    }

    def __init__(
        self,
        *,
        worker: int,
        compaction_pool: str | None = None,
        requests: int | str | None = None,
        hive_acid_conn_id: str = DEFAULT_CONN_ID,
        **kwargs: Any,
    ) -> None:
        super().__init__(**{"outlets": [COMPACTIONS], **kwargs})
        self.worker = worker
        self.compaction_pool = compaction_pool
        self.requests = requests
        self.hive_acid_conn_id = hive_acid_conn_id
        self._running: Running | None = None
        check_parsed(self, self.takes)

    def execute(self, context: Context) -> dict[str, Any]:
        """Work.

        :return: how many requests were served, and those that failed, as text; failures are in the queue's history
            and do not fail this task, because an event of a failed task is lost.
        """
        from airflow_hive_acid.hooks.hive_acid import HiveAcidHook  # not needed to parse a DAG file
        from airflow_hive_acid.maintenance.decisions import Kind

        worker = worker_id(context)
        try:
            check_rendered(self, self.takes)
            limit = whole_of(self.requests)
            with HiveAcidHook(self.hive_acid_conn_id) as hook, hook.get_engine(agent_info=worker) as engine:
                self._running = _running(hook, engine, worker)
                outcomes = engine.run_compactions(worker, limit, pool=self.compaction_pool)
        except HiveAcidError as error:
            fail_task(error)
        finally:
            self._running = None
        announce(context["outlet_events"], self.hive_acid_conn_id, outcomes)
        stats.tell_compactions(outcomes, self.hive_acid_conn_id)
        failed = [str(outcome) for outcome in outcomes if outcome.kind is Kind.FAILED]
        return {"served": len(outcomes), "failed": failed}

    def on_kill(self) -> None:
        """Stop the Spark application, fence its job, abort the txn and give the request back, at once."""
        running = self._running
        if running is None:
            return
        stop_on_kill(running.stop)


def _running(hook: HiveAcidHook, engine: Engine, worker: str) -> Running:
    """Of a worker whose requests can be found by its id."""

    def give_back() -> str:
        states = hook.release_worker(worker, "its task was killed in Airflow")
        return (
            ", ".join(f"compaction {request_id} is {state}" for request_id, state in states.items()) or "held nothing"
        )

    return Running(engine, f"what {worker} held", give_back)


class HiveAcidCleanOperator(BaseOperator):
    """Waits until a Cleaner would find something, or the time is over, and cleans.

    :param wait_seconds: seconds, or a ``timedelta``, to wait at most, in the triggerer; 0: clean at once. (templated)
    :param hive_acid_conn_id: connection of type ``hive_acid``. (templated)
    """

    template_fields: Sequence[str] = ("wait_seconds", "hive_acid_conn_id")
    ui_color = "#d5e8d4"
    takes: ClassVar[Takes] = {"wait_seconds": seconds()}

    def __init__(
        self, *, wait_seconds: float | timedelta | str = 0, hive_acid_conn_id: str = DEFAULT_CONN_ID, **kwargs: Any
    ) -> None:
        super().__init__(**{"outlets": [_MAYBE_CLEANED], **kwargs})
        self.wait_seconds = seconds_of(wait_seconds)
        self.hive_acid_conn_id = hive_acid_conn_id
        check_parsed(self, self.takes)

    def execute(self, context: Context) -> int:
        """Wait without a worker slot, then clean.

        :return: how many directories were removed.
        """
        wait = _seconds_given(self)
        if wait <= 0:
            return self._clean(context)
        from airflow_hive_acid.hooks.hive_acid import HiveAcidHook  # not needed to parse a DAG file
        from airflow_hive_acid.maintenance.cleaner.readiness import is_something_to_clean

        try:
            with HiveAcidHook(self.hive_acid_conn_id) as hook:
                poll = max(1.0, hook.settings.seconds("hive.compactor.cleaner.run.interval"))
                ready = is_something_to_clean(hook.get_conn())
        except HiveAcidError as error:
            fail_task(error)
        if ready:
            return self._clean(context)
        self.defer(
            trigger=CleaningReadyTrigger(time.time() + wait, self.hive_acid_conn_id, poll),
            method_name="execute_complete",
        )

    def execute_complete(self, context: Context, event: dict[str, Any]) -> int:
        """Clean; also after a wait in vain, because not everything is waited for: aborted writes are found now."""
        require_answer(event)
        return self._clean(context)

    def _clean(self, context: Context) -> int:
        from airflow_hive_acid.hooks.hive_acid import HiveAcidHook
        from airflow_hive_acid.maintenance.cleaner.cleaner import run_cleaner

        try:
            with HiveAcidHook(self.hive_acid_conn_id) as hook, stats.cycle("cleaner", self.hive_acid_conn_id):
                outcomes = run_cleaner(hook.get_conn(), hook.get_filesystem())
        except HiveAcidError as error:
            fail_task(error)
        for outcome in outcomes:
            self.log.info("%s", outcome)
        stats.tell_cleaning(outcomes, self.hive_acid_conn_id)
        removed = sum(len(outcome.removed) for outcome in outcomes)
        if removed:
            context["outlet_events"][_MAYBE_CLEANED].add(CLEANED, extra={"removed": removed})
        return removed


def _seconds_given(task: HiveAcidPlanWorkersOperator | HiveAcidCleanOperator) -> float:
    """How long a task waits, now that its fields are rendered."""
    require_rendered(task, task.takes)
    return float(seconds_of(task.wait_seconds))


def require_answer(event: Mapping[str, Any]) -> None:
    """Fail when a wait ended because the metastore could not be asked; Airflow tries again.

    :raises AirflowException: saying why.
    """
    from airflow_hive_acid.airflow_versions import AirflowException

    if event["status"] != "success":
        raise AirflowException(f"{event['type']}: {event['message']}")


__getattr__ = renamed(
    __name__,
    {
        "CleanOperator": "HiveAcidCleanOperator",
        "CompactionWorkerOperator": "HiveAcidCompactionWorkerOperator",
        "PlanWorkersOperator": "HiveAcidPlanWorkersOperator",
    },
)
