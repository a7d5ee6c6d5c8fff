"""What all sensors have in common: look once, wait in the triggerer or in the worker, and say at the end what was in
the way.

A subclass names its question and its trigger; everything else is here. ``soft_fail`` and ``never_fail`` work in either
way of waiting, and the last words are in the task's log whatever becomes of the task.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.sdk import BaseSensorOperator

from airflow_hive_acid.airflow_versions import (
    AirflowException,
    AirflowFailException,
    AirflowSensorTimeout,
    AirflowSkipException,
)
from airflow_hive_acid.errors import HiveAcidError
from airflow_hive_acid.hooks.arguments import Takes, check_rendered
from airflow_hive_acid.hooks.configuration import DEFAULT_CONN_ID
from airflow_hive_acid.hooks.links import LINKS
from airflow_hive_acid.hooks.tasks import error_of_event, fail_task
from airflow_hive_acid.triggers.base import MetastoreWaitTrigger

if TYPE_CHECKING:
    from datetime import timedelta

    from airflow.sdk import Context

    from airflow_hive_acid.metastore import MetastoreClient
    from airflow_hive_acid.triggers.base import QuestionTrigger
    from airflow_hive_acid.triggers.questions import Looked, Question

IN_VAIN_KEY = "hive_acid_looks_in_vain"
_SECONDS_IN_TRIGGERER = 5.0
_SECONDS_IN_WORKER = 60.0


class MetastoreSensor(BaseSensorOperator):
    """Waits until a question about the metastore is answered.

    :param deferrable: wait in the triggerer instead of in a worker slot.
    :param poke_interval: seconds between two looks; by default 5 in the triggerer, where all sensors look together, and
        Airflow's 60 in a worker slot.
    :param hive_acid_conn_id: connection of type ``hive_acid``. (templated)
    """

    operator_extra_links = LINKS
    #: What its fields may be.
    takes: ClassVar[Takes] = {}

    def __init__(
        self,
        *,
        deferrable: bool = True,
        poke_interval: timedelta | float | None = None,
        hive_acid_conn_id: str = DEFAULT_CONN_ID,
        **kwargs: Any,
    ) -> None:
        if poke_interval is None:
            poke_interval = _SECONDS_IN_TRIGGERER if deferrable else _SECONDS_IN_WORKER
        super().__init__(poke_interval=poke_interval, **kwargs)
        self.deferrable = deferrable
        self.hive_acid_conn_id = hive_acid_conn_id
        self.linked: dict[str, Any] = {}
        self._asked: Question | None = None
        self._last = ""
        self._failures = 0
        self._answer: dict[str, Any] | None = None

    def question(self, client: MetastoreClient) -> Question:
        """What is waited for, from the rendered arguments.

        :raises HiveAcidError: when the arguments make no sense, or name what is not there.
        """
        raise NotImplementedError

    def asked_before(self, context: Context) -> Question | None:
        """The question as an earlier look of another process has left it, as far as Airflow keeps that."""
        return None

    def gone_on_with(self, question: Question, context: Context) -> Question:
        """The question as an earlier try has left it; the same for what needs no memory."""
        return question

    def page(self) -> dict[str, Any]:
        """View and filters of the page that shows what is waited for."""
        raise NotImplementedError

    def trigger(self, question: Question, until: float) -> QuestionTrigger:
        """What waits for it in the triggerer."""
        raise NotImplementedError

    def poke(self, context: Context) -> bool:
        """Whether it is over.

        :raises AirflowFailException: when it never will be.
        """
        from airflow_hive_acid.hooks.hive_acid import HiveAcidHook  # not needed to parse a DAG file

        try:
            check_rendered(self, self.takes)
            self.linked = self.page()
            with HiveAcidHook(self.hive_acid_conn_id) as hook:
                client = hook.get_conn()
                if self._asked is None:
                    self._asked = self.asked_before(context) or self.gone_on_with(self.question(client), context)
                looked = self._asked.ask(client)
        except HiveAcidError as error:
            if self._gets_over(error, context):
                return False
            fail_task(error)
        self._failures = 0
        return self._judge(looked)

    def _gets_over(self, error: HiveAcidError, context: Context) -> bool:
        """Whether to go on waiting after a look in vain, as in the triggerer: who waits already gets over an outage."""
        alone = self.reschedule and not self.deferrable
        before = int(context.get("task_reschedule_count") or 0) if alone else 0
        if not error.retryable or not (self._last or before):
            return False
        self._failures = _in_a_row(context, before) if before else self._failures + 1
        if self._failures > MetastoreWaitTrigger.tolerated_failures:
            return False
        self.log.warning("Looked %d times in vain: %s", self._failures, error)
        self._last = self._last or f"without an answer of the metastore: {error}"
        return True

    def _judge(self, looked: Looked) -> bool:
        if looked.failed:
            self.log.error("%s", looked.failed)
            raise AirflowFailException(looked.failed)
        self._last = looked.said
        self._answer = looked.answer or None
        if not looked.over:
            self.log.info("%s", looked.said)
        return looked.over

    def execute(self, context: Context) -> Any:
        """Look once; wait in the triggerer if allowed, in the worker otherwise.

        :return: what the question's answer holds, None when there is nothing to tell.
        :raises AirflowSensorTimeout: when it is not over in time; says what is in the way.
        """
        if self.deferrable:
            try:
                over = self.poke(context)
            except AirflowException as error:
                if self.soft_fail or self.never_fail:
                    raise AirflowSkipException(str(error)) from error
                raise
            if not over:
                self._wait_elsewhere()
            return self._answer
        try:
            super().execute(context)
        except (AirflowSensorTimeout, AirflowSkipException) as gave_up:
            if not self._last:
                raise
            said = f"Gave up after {float(self.timeout):g} s, still {self._last}"
            self.log.warning("%s", said)
            raise type(gave_up)(said) from gave_up
        return self._answer

    def _wait_elsewhere(self) -> None:
        if self._asked is None:
            raise AssertionError("waits without a question")
        until = time.time() + float(self.timeout)
        self.defer(trigger=self.trigger(self._asked, until), method_name="execute_complete")

    def execute_complete(self, context: Context, event: dict[str, Any]) -> Any:
        """Go on after the wait.

        :raises AirflowSensorTimeout: when it lasted too long; Airflow makes it a skip with ``soft_fail``.
        :raises AirflowException: when the metastore could not be asked.
        """
        self.linked = self.page()
        if event["status"] == "timeout":
            said = f"Gave up after {float(self.timeout):g} s, still {event['message']}"
            self.log.warning("%s", said)
            raise AirflowSensorTimeout(said)
        if event["status"] == "failed":
            self.log.error("%s", event["message"])
            raise AirflowFailException(event["message"])
        if event["status"] != "success":
            fail_task(error_of_event(event))
        return event.get("answer") or None


def _in_a_row(context: Context, before: int) -> int:
    """How many looks of a sensor that is rescheduled were in vain, one after the other, this one included.

    Each look is a process of its own, and Airflow removes XComs before the next one; what it keeps in the task state
    store stays. Where an Airflow has no such store each is the first one, and the sensor's ``timeout`` ends the wait.

    :param before: how many looks there were in this try.
    """
    store: Any = context.get("task_state_store")
    if store is None:
        return 1
    kept, tried, count = store.get(IN_VAIN_KEY), context["ti"].try_number, 1
    if isinstance(kept, dict) and (kept.get("try"), kept.get("look")) == (tried, before - 1):
        count = int(kept.get("count", 0)) + 1
    store.set(IN_VAIN_KEY, {"try": tried, "look": before, "count": count})
    return count


def listed(value: Any) -> list[Any]:
    """One or several that may have come through a template, which makes a list text: ``[1, 2]``."""
    if isinstance(value, str):
        text = value.strip()
        if text.startswith("[") and text.endswith("]"):
            return [part.strip() for part in text[1:-1].split(",") if part.strip()]
    return [value] if value is None or isinstance(value, int | str) else list(value)


def number(name: str, value: int | str | None) -> int | None:
    """A number that may have come through a template, which makes it text.

    :raises InvalidArgumentsError: naming the argument when it is none.
    """
    from airflow_hive_acid.errors import InvalidArgumentsError

    if value in (None, "", "None"):
        return None
    try:
        return int(str(value))
    except ValueError:
        raise InvalidArgumentsError(f"{name} must be a number, not {value!r}") from None
