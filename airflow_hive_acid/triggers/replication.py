"""Waiting for replication: for news at the source, for another cycle to end, and for a replica to be new enough."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_hive_acid.errors import InvalidArgumentsError
from airflow_hive_acid.hooks.configuration import DEFAULT_CONN_ID
from airflow_hive_acid.triggers.base import QuestionTrigger, UntilTrigger
from airflow_hive_acid.triggers.questions import Looked, Question

if TYPE_CHECKING:
    from airflow_hive_acid.metastore import MetastoreClient


class ReplicationNewsTrigger(UntilTrigger):
    """Fires when the source has events after a position, or when the time is over; ``news`` says which.

    :param position: the last event that is applied.
    :param hive_acid_conn_id: connection of the source.
    """

    said_as = "news"

    def __init__(
        self,
        position: int,
        until: float,
        hive_acid_conn_id: str = DEFAULT_CONN_ID,
        poll_interval: float = 5.0,
    ) -> None:
        super().__init__(until, hive_acid_conn_id, poll_interval)
        self.position = position

    def is_so(self, client: MetastoreClient) -> bool:
        """Look once."""
        return client.notifications.current_event_id() != self.position


class ReplicationFreeTrigger(UntilTrigger):
    """Fires when no cycle of a policy is at work, or when the time is over; ``free`` says which.

    :param policy: its name.
    :param hive_acid_conn_id: connection of the destination.
    """

    said_as = "free"

    def __init__(
        self,
        policy: str,
        until: float,
        hive_acid_conn_id: str = DEFAULT_CONN_ID,
        poll_interval: float = 5.0,
    ) -> None:
        super().__init__(until, hive_acid_conn_id, poll_interval)
        self.policy = policy

    def is_so(self, client: MetastoreClient) -> bool:
        """Look once: take the mutex of cycles and give it back."""
        from airflow_hive_acid.replication.policies.state import PolicyRecord

        with client.mutexes.try_hold(PolicyRecord(client.database, self.policy).mutex) as mutex:
            return mutex is not None


@dataclass(frozen=True)
class FreshQuestion(Question):
    """Is a replica new enough?

    :param max_lag: by so many seconds at most it may be behind; None: any lag will do.
    :param up_to: everything committed at the source by then must be here, milliseconds since 1970; None: no moment.
    """

    policy: str
    max_lag: float | None
    up_to: int | None

    def ask(self, client: MetastoreClient) -> Looked:
        """Look once, at the destination alone."""
        from airflow_hive_acid.metastore.database import now_ms
        from airflow_hive_acid.metastore.leases import utc
        from airflow_hive_acid.replication.policies.state import Phase, PolicyRecord

        record = PolicyRecord(client.database, self.policy)
        state, now = record.read(), client.database.read(now_ms)
        if state is None:
            return Looked(False, f"replication policy {self.policy!r} has not run yet")
        if state.phase is Phase.FAILED_OVER:
            return Looked(False, failed=f"replication policy {self.policy!r} was failed over; its tables go on here")
        last = f"; its last cycle failed: {state.error}" if state.error else ""
        lag = state.lag_seconds(now)
        if lag is None or state.as_of is None:
            return Looked(False, f"the first copy of replication policy {self.policy!r} is not complete{last}")
        said = f"replication policy {self.policy!r} has what was committed by {utc(state.as_of)}, {lag:.0f} s ago{last}"
        is_behind = self.max_lag is not None and lag > self.max_lag
        if is_behind or (self.up_to is not None and state.as_of < self.up_to):
            return Looked(False, said)
        answer = {"policy": self.policy, "lag_seconds": lag, "as_of": state.as_of, "position": state.position}
        return Looked(True, said, answer)


class ReplicaFreshTrigger(QuestionTrigger):
    """Fires when a replica is new enough, see :class:`FreshQuestion`.

    :param hive_acid_conn_id: connection of the destination.
    """

    def __init__(
        self,
        policy: str,
        max_lag: float | None,
        up_to: int | None,
        until: float | None = None,
        hive_acid_conn_id: str = DEFAULT_CONN_ID,
        poll_interval: float = 5.0,
    ) -> None:
        super().__init__(until, hive_acid_conn_id, poll_interval)
        self.policy = policy
        self.max_lag = max_lag
        self.up_to = up_to

    def question(self) -> Question:
        """Is it?"""
        return FreshQuestion(self.policy, self.max_lag, self.up_to)


def fresh_question(policy: str, max_lag: object, up_to: object) -> FreshQuestion:
    """The question of rendered arguments.

    :param max_lag: seconds, or text of a number.
    :param up_to: a moment: ISO 8601 text with a zone, or seconds since 1970.
    :raises InvalidArgumentsError: naming the argument and what it may be.
    """
    from airflow_hive_acid.replication.policies.policy import MAX_NAME

    if not policy or len(policy) > MAX_NAME:
        raise InvalidArgumentsError(f"policy must be the name of a replication policy, not {policy!r}")
    lag, moment = _seconds(max_lag), _moment(up_to)
    if lag is None and moment is None:
        raise InvalidArgumentsError(
            "give max_lag (seconds that the replica may be behind), up_to (a moment up to which it must have "
            "everything), or both"
        )
    return FreshQuestion(policy, lag, moment)


def _seconds(value: object) -> float | None:
    if value in (None, "", "None"):
        return None
    try:
        seconds = float(str(value))
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < float("inf"):
        raise InvalidArgumentsError(f"max_lag must be a number of seconds, 0 or more, not {value!r}")
    return seconds


def _moment(value: object) -> int | None:
    from datetime import datetime

    from airflow_hive_acid.python_versions import datetime_of

    if value in (None, "", "None"):
        return None
    if isinstance(value, int | float) and not isinstance(value, bool):
        return int(value * 1000)
    try:
        moment = value if isinstance(value, datetime) else datetime_of(str(value))
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise InvalidArgumentsError(
            f"up_to must be a moment with a time zone, as 2026-11-22T12:00:00+00:00, not {value!r}"
        )
    return int(moment.timestamp() * 1000)
