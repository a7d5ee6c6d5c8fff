"""Waiting for something in the metastore without a worker slot.

A subclass says in :meth:`MetastoreWaitTrigger.check` when it is over; the base polls, and turns whatever happens into
one event. What sensors wait for is a question (:class:`QuestionTrigger`), and those of a metastore are asked together.
A trigger travels from worker to triggerer as keyword arguments; that it survives the journey is checked when the class
is made and again when it is serialised in the worker, not in the triggerer where nobody would see it.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import time
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.triggers.base import BaseTrigger, TriggerEvent

from airflow_hive_acid.airflow_versions import AirflowException
from airflow_hive_acid.errors import HiveAcidError
from airflow_hive_acid.hooks.configuration import DEFAULT_CONN_ID
from airflow_hive_acid.triggers.shared import in_thread, question_room, shared_client

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from airflow_hive_acid.metastore import MetastoreClient
    from airflow_hive_acid.triggers.questions import Looked, Question

_VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
#: What lets go of something; the event loop itself holds tasks by weak references alone.
_AT_WORK: set[asyncio.Task[None]] = set()
#: States of a task that still waits, or goes on with what was waited for.
_GOES_ON = frozenset({"deferred", "scheduled", "queued", "running"})
#: Attributes that Airflow sets on a trigger; an argument of that name would be overwritten.
_RESERVED = frozenset({"task", "task_id", "task_instance", "template_ext", "template_fields", "trigger_id", "log"})


class MetastoreWaitTrigger(BaseTrigger):
    """Polls the metastore until :meth:`check` has an answer.

    Every argument of a subclass's ``__init__`` is kept in an attribute of the same name and must be JSON.

    :param hive_acid_conn_id: connection of the metastore.
    :param poll_interval: seconds between two looks.
    """

    #: Looks in a row that may fail for a passing reason before the wait ends with an error.
    tolerated_failures: ClassVar[int] = 10
    #: Whether the task was found to have succeeded: what was granted to it may be in use by others.
    _has_succeeded = False

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "<locals>" in cls.__qualname__:
            raise TypeError(f"{cls.__qualname__} is made inside a function; the triggerer could not import it")
        for name, parameter in _parameters(cls).items():
            if parameter.kind in _VARIADIC:
                raise TypeError(f"{cls.__qualname__}.__init__ takes *{name}; a trigger must name its arguments")
            if name in _RESERVED:
                raise TypeError(f"{cls.__qualname__}.__init__ takes {name!r}, which Airflow sets itself; rename it")

    def __init__(self, hive_acid_conn_id: str = DEFAULT_CONN_ID, poll_interval: float = 5.0) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.hive_acid_conn_id = hive_acid_conn_id
        self.poll_interval = poll_interval

    def check(self, client: MetastoreClient) -> dict[str, Any] | None:
        """Look once, in a thread of its own.

        :return: what the event shall say, or None to go on waiting.
        :raises HiveAcidError: when waiting is pointless; retryable errors are tolerated a few times.
        """
        raise NotImplementedError

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Class path and arguments, from which Airflow makes this trigger again."""
        arguments = {name: getattr(self, name) for name in _parameters(type(self))}
        for name, value in arguments.items():
            if not _survives_json(value):
                raise TypeError(
                    f"{type(self).__qualname__}: {name} = {value!r} does not survive JSON; use text or numbers"
                )
        return f"{type(self).__module__}.{type(self).__qualname__}", arguments

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Wait, then fire one event: ``status`` ``success`` with the answer, or ``error`` with a ``message``."""
        try:
            async with shared_client(self.hive_acid_conn_id) as client:
                event = await self._wait(client)
        except (HiveAcidError, AirflowException) as error:
            event = failed(error)
        yield event

    async def _wait(self, client: MetastoreClient) -> TriggerEvent:
        failures = 0
        while True:
            try:
                answer = await self.look(client)
            except HiveAcidError as error:
                failures += 1
                if not error.retryable or failures > self.tolerated_failures:
                    return failed(error)
                self.log.warning("Looked %d times in vain: %s", failures, error)
            else:
                failures = 0
                if answer is not None:
                    return TriggerEvent({"status": "success", **answer})  # type: ignore[no-untyped-call]
            await self.pause()

    async def look(self, client: MetastoreClient) -> dict[str, Any] | None:
        """Look once without holding up the others of this triggerer."""
        return await in_thread(self.check, client)

    async def pause(self) -> None:
        """Until the next look."""
        await asyncio.sleep(self.poll_interval)

    async def on_kill(self) -> None:
        """Let go, because somebody has ended or cleared the task.

        Airflow cancels this again in each of its rounds until it has ended, in a second or less. So the work is a task
        of its own, which goes on when that happens.
        """
        work = asyncio.create_task(self._let_go_if_ended())
        _AT_WORK.add(work)
        work.add_done_callback(_AT_WORK.discard)
        await asyncio.shield(work)

    async def _let_go_if_ended(self) -> None:
        """Airflow calls ``on_kill``, too, in a triggerer that was silent for so long that another one has taken the
        trigger over: then the task waits there, or goes on already. So its state is asked for first."""
        if await self._task_goes_on():
            self.log.info("The task was not ended; another triggerer waits for it, or it goes on")
        else:
            await self.let_go()

    async def let_go(self) -> None:
        """Give up what is held or asked for on behalf of the task; nothing by default."""

    async def _task_goes_on(self) -> bool:
        instance = getattr(self, "task_instance", None)
        if instance is None:
            return False
        from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance

        ask = partial(
            RuntimeTaskInstance.get_task_states, dag_id=instance.dag_id, map_index=instance.map_index,
            task_ids=[instance.task_id], run_ids=[instance.run_id],
        )  # fmt: skip
        try:
            told = await asyncio.to_thread(ask)
        except Exception as error:  # noqa: BLE001 - R17: whatever it is, nobody knows; what nobody keeps alive times out
            self.log.warning("Whether the task was ended is unknown, and nothing is given up: %s", error)
            return True
        states = {str(state) for state in told.get(instance.run_id, {}).values()}
        self._has_succeeded = "success" in states
        return not states.isdisjoint(_GOES_ON)


def failed(error: Exception) -> TriggerEvent:
    """The event of a wait that has come to nothing."""
    event = {"status": "error", "type": type(error).__name__, "message": str(error)}
    return TriggerEvent(event)  # type: ignore[no-untyped-call]


def _parameters(cls: type) -> dict[str, inspect.Parameter]:
    parameters = dict(inspect.signature(cls.__init__).parameters)  # type: ignore[misc]
    del parameters["self"]
    return parameters


def _survives_json(value: Any) -> bool:
    try:
        return bool(json.loads(json.dumps(value)) == value)
    except (TypeError, ValueError):
        return False


class UntilTrigger(MetastoreWaitTrigger):
    """Fires when something is so, or when the time is over; the event says which, under the name :attr:`said_as`.

    :param until: seconds since 1970 by the triggerer's clock.
    """

    said_as: ClassVar[str]

    def __init__(self, until: float, hive_acid_conn_id: str = DEFAULT_CONN_ID, poll_interval: float = 5.0) -> None:
        super().__init__(hive_acid_conn_id, poll_interval)
        self.until = until

    def is_so(self, client: MetastoreClient) -> bool:
        """Look once, in a thread of its own.

        :raises HiveAcidError: as of :meth:`check`.
        """
        raise NotImplementedError

    def check(self, client: MetastoreClient) -> dict[str, Any] | None:
        """Look once."""
        is_so = self.is_so(client)
        return {self.said_as: is_so} if is_so or time.time() >= self.until else None


class QuestionTrigger(MetastoreWaitTrigger):
    """Fires when a question is answered: ``status`` is ``success`` (with the ``answer``), ``failed`` or ``timeout``.

    All of them in one triggerer look together, at most once a second.

    :param until: when to give up, seconds since 1970 by the triggerer's clock; None never.
    """

    def __init__(
        self, until: float | None, hive_acid_conn_id: str = DEFAULT_CONN_ID, poll_interval: float = 5.0
    ) -> None:
        super().__init__(hive_acid_conn_id, poll_interval)
        self.until = until
        self._question: Question | None = None

    def question(self) -> Question:
        """What is waited for, made from this trigger's arguments."""
        raise NotImplementedError

    def _asked(self) -> Question:
        # Always the same one: some remember what they have seen.
        if self._question is None:
            self._question = self.question()
        return self._question

    def check(self, client: MetastoreClient) -> dict[str, Any] | None:
        """Look once, alone."""
        return self._event(self._asked().ask(client))

    async def look(self, client: MetastoreClient) -> dict[str, Any] | None:
        """Look once, together with the others."""
        async with question_room(self.hive_acid_conn_id) as room:
            return self._event(await room.look(self._asked()))

    async def pause(self) -> None:
        """Until the next look; the last one is when the time is over."""
        left = self.poll_interval if self.until is None else self.until - time.time()
        await asyncio.sleep(max(0.0, min(self.poll_interval, left)))

    def _event(self, looked: Looked) -> dict[str, Any] | None:
        if looked.failed:
            return {"status": "failed", "message": looked.failed}
        if looked.over:
            return {"answer": looked.answer}
        if self.until is not None and time.time() >= self.until:
            return {"status": "timeout", "message": looked.said}
        self.log.info("%s", looked.said)
        return None
