"""Forms that do nothing of what Airflow has since 3.2 or 3.3; :mod:`airflow_hive_acid.airflow_versions` gives them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from datetime import timedelta

NEVER_EXPIRE = None
"""How long a value of the task state store is kept; before 3.3 there is no such store."""

TeamDetails = None
"""What a team is for the auth manager; before 3.2 there are no teams."""


class RetryPolicy:
    """Before 3.3 nobody asks a policy: the task's own ``retries`` and ``retry_delay`` count."""


class RetryAction(Enum):
    """What should happen after a failure, as in Airflow 3.3."""

    RETRY = "retry"
    FAIL = "fail"
    DEFAULT = "default"


@dataclass(frozen=True)
class RetryDecision:
    """What a policy answers, as in Airflow 3.3."""

    action: RetryAction = RetryAction.DEFAULT
    retry_delay: timedelta | None = None
    reason: str | None = None

    @classmethod
    def default(cls) -> RetryDecision:
        """As the task says."""
        return cls()

    @classmethod
    def fail(cls, reason: str | None = None) -> RetryDecision:
        """No further try."""
        return cls(RetryAction.FAIL, None, reason)

    @classmethod
    def retry(cls, delay: timedelta | None = None, reason: str | None = None) -> RetryDecision:
        """Another try, after a pause."""
        return cls(RetryAction.RETRY, delay, reason)


class SharedStreamProducer:
    """Before 3.3 triggers share no stream: each watcher reads by itself."""


@dataclass(frozen=True)
class AdvanceOutcome:
    """What became of the events of a look, as in Airflow 3.3."""

    acked: int
    failed: int


@dataclass(frozen=True)
class AdvanceItem:
    """A look whose events are stored, as in Airflow 3.3."""

    broker_payload: Any
    outcome: AdvanceOutcome
