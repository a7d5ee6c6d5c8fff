"""``retry_policy=HiveAcidRetryPolicy()``: whether and when a task is tried again, by what went wrong.

Our operators end a task for good where trying again cannot help (``HiveAcidError.retryable``), whatever its policy.
This policy says the same for task functions that use the hook, and chooses the pause: those who met a conflict come
back at different times, one whose commit has an unknown outcome looks it up soon, and a failed job waits as the task
says.
"""

from __future__ import annotations

import functools
import hashlib
import logging
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow_hive_acid import errors
from airflow_hive_acid.airflow_versions import RetryDecision, RetryPolicy, has_retry_policies
from airflow_hive_acid.errors import HiveAcidError, InvalidArgumentsError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from airflow.sdk import Context
    from typing_extensions import Self

_CONTENTION = (
    errors.WriteConflictError,
    errors.DeadlockError,
    errors.LockDeniedError,
    errors.LockTimeoutError,
    errors.TurnPendingError,
    errors.LeaseAlreadyExistsError,
    errors.TooManyOpenTxnsError,
    errors.MetastoreUnavailableError,
    errors.JobsAliveError,
)
log = logging.getLogger(__name__)

_LOOK_UP_SOON = timedelta(seconds=5)
_CAUSES = 10


class HiveAcidRetryPolicy(RetryPolicy):
    """Maps our errors to another try or the end.

    ::

        default_args = {"retries": 5, "retry_policy": HiveAcidRetryPolicy()}

    Errors that are none of ours are left to the task's own ``retries`` and ``retry_delay``; a policy never gives a task
    more tries than ``retries``.

    :param delay: pause before the second try after a conflict, a lock that was not granted, a metastore that could not
        be reached; it doubles with each further one, and differs by up to a quarter from task to task, so that those
        who met do not meet again.
    :param longest: the longest of these pauses.
    :param fail_on: names of errors (``airflow_hive_acid.errors``) after which a task ends although another try could
        help, subclasses included.
    :param delays: pause by name of error, instead of what is said above.
    """

    def __init__(
        self,
        *,
        delay: timedelta = timedelta(seconds=15),
        longest: timedelta = timedelta(minutes=10),
        fail_on: Sequence[str] = (),
        delays: Mapping[str, timedelta] | None = None,
    ) -> None:
        self.delay = delay
        self.longest = longest
        self.fail_on = tuple(fail_on)
        self.delays = dict(delays or {})
        for name in (*self.fail_on, *self.delays):
            _named(name)
        if not has_retry_policies():
            _say_that_nobody_asks()

    def evaluate(
        self, exception: BaseException, try_number: int, max_tries: int, context: Context | None = None
    ) -> RetryDecision:
        """Decide.

        :param exception: what ended the task; the error of ours that caused it counts.
        """
        error = error_behind(exception)
        if error is None:
            return RetryDecision.default()
        name = type(error).__name__
        if not error.retryable:
            return RetryDecision.fail(f"{name}: trying again cannot help")
        if any(isinstance(error, _named(each)) for each in self.fail_on):
            return RetryDecision.fail(f"{name}: fail_on names it")
        for each, pause in self.delays.items():
            if isinstance(error, _named(each)):
                return RetryDecision.retry(pause, f"{name}: delays names it")
        if isinstance(error, errors.CommitStateUnknownError):
            return RetryDecision.retry(_LOOK_UP_SOON, f"{name}: the next try looks up what became of the commit")
        if isinstance(error, _CONTENTION):
            pause = pause_after(try_number, self.delay, self.longest, _of_task(context))
            return RetryDecision.retry(pause, f"{name}: others were first")
        return RetryDecision.retry(None, f"{name}: may succeed when it is tried again")

    def serialize(self) -> dict[str, Any]:
        """As plain values."""
        return {
            "delay": self.delay.total_seconds(),
            "longest": self.longest.total_seconds(),
            "fail_on": list(self.fail_on),
            "delays": {name: pause.total_seconds() for name, pause in self.delays.items()},
        }

    @classmethod
    def deserialize(cls, data: Mapping[str, Any]) -> Self:
        """From the values of :meth:`serialize`."""
        return cls(
            delay=timedelta(seconds=data["delay"]),
            longest=timedelta(seconds=data["longest"]),
            fail_on=data["fail_on"],
            delays={name: timedelta(seconds=pause) for name, pause in data["delays"].items()},
        )


@functools.cache
def _say_that_nobody_asks() -> None:
    """Once in a process: DAG files are parsed again and again."""
    log.warning(
        "HiveAcidRetryPolicy does nothing here: Airflow asks retry policies since 3.3. The task's own retries and "
        "retry_delay count; operators of this package end a task for good where trying again cannot help, as before"
    )


def error_behind(exception: BaseException) -> HiveAcidError | None:
    """The error of ours that an exception is, or was raised from; None when there is none."""
    found: BaseException | None = exception
    for _ in range(_CAUSES):
        if found is None or isinstance(found, HiveAcidError):
            break
        found = found.__cause__ or (None if found.__suppress_context__ else found.__context__)
    return found if isinstance(found, HiveAcidError) else None


def pause_after(try_number: int, delay: timedelta, longest: timedelta, of: str) -> timedelta:
    """Pause after a try: doubling, and of each task by another part of a quarter more or less.

    :param try_number: from 1.
    :param of: names the task instance; the same gives the same pause.
    """
    doubled = min(delay * (1 << min(max(0, try_number - 1), 30)), longest)
    part = int.from_bytes(hashlib.sha256(f"{of}#{try_number}".encode()).digest()[:4], "big") / 2**32
    return min(doubled * (0.75 + part / 2), longest)


def _of_task(context: Context | None) -> str:
    if context is None:
        return ""
    instance = context["ti"]
    return f"{instance.dag_id}/{instance.run_id}/{instance.task_id}/{instance.map_index}"


def _named(name: str) -> type[HiveAcidError]:
    found = getattr(errors, name, None)
    if isinstance(found, type) and issubclass(found, HiveAcidError):
        return found
    raise InvalidArgumentsError(f"{name!r} is no error of airflow_hive_acid.errors; give names such as DeadlockError")
