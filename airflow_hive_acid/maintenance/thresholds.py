"""The numbers that Initiator and Cleaner decide by, with Hive's keys, and who may override them.

A database gives defaults for its tables, a table overrides them, a request overrides the table, all as properties
``compactorthreshold.<key>`` in any case. (Hive reads those of tables; databases as a default are ours.)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_hive_acid.settings import THRESHOLD_PREFIX, Settings, Source

if TYPE_CHECKING:
    from collections.abc import Mapping

JOB_PREFIX = "compactor."


def threshold_overrides(*layers: Mapping[str, str] | None) -> dict[str, str]:
    """What properties say about thresholds, by key without prefix.

    :param layers: of the database, the table and the request: the later wins.
    """
    found: dict[str, tuple[str, str]] = {}
    for layer in layers:
        for key, value in (layer or {}).items():
            if key.lower().startswith(THRESHOLD_PREFIX):
                bare = key[len(THRESHOLD_PREFIX) :]
                found[bare.lower()] = bare, value
    return dict(found.values())


def job_defaults(database: Mapping[str, str], table: Mapping[str, str]) -> dict[str, str]:
    """The database's ``compactor.*`` that its table does not set; they travel with the request to whatever Worker."""
    own = {key.lower() for key in table}
    return {k: v for k, v in database.items() if k.lower().startswith(JOB_PREFIX) and k.lower() not in own}


@dataclass(frozen=True, slots=True)
class InitiatorThresholds:
    """When a table or partition is compacted."""

    delta_pct: float  # hive.compactor.delta.pct.threshold: deltas larger than this part of the base
    delta_num: int  # hive.compactor.delta.num.threshold: more deltas than this
    aborted_txns: int  # hive.compactor.abortedtxn.threshold
    aborted_age_ms: int  # hive.compactor.aborted.txn.time.threshold, negative: off
    failed_compactions: int  # hive.compactor.initiator.failed.compacts.threshold
    failed_retry_ms: int  # hive.compactor.initiator.failed.retry.time
    worker_timeout_ms: int  # hive.compactor.worker.timeout
    fetch_size: int  # hive.compactor.fetch.size
    max_num_delta: int = 500  # hive.compactor.max.num.delta: more are compacted in several steps
    policy: str = "thresholds"  # hive.acid.initiator.policy
    benefit_horizon_ms: int = 604_800_000  # hive.acid.initiator.benefit.horizon
    benefit_other_reads: float = 24.0  # hive.acid.initiator.benefit.other.reads: a day, of who tells nothing
    benefit_job: float = 10.0  # hive.acid.initiator.benefit.job: CPU seconds of a compaction without its bytes
    benefit_bound: float = 5.0  # hive.acid.initiator.benefit.bound: times delta_num and delta_pct

    @classmethod
    def of(cls, settings: Settings) -> InitiatorThresholds:
        """The thresholds in force."""
        return cls(
            delta_pct=settings.number("hive.compactor.delta.pct.threshold"),
            delta_num=settings.integer("hive.compactor.delta.num.threshold"),
            aborted_txns=settings.integer("hive.compactor.abortedtxn.threshold"),
            aborted_age_ms=settings.milliseconds("hive.compactor.aborted.txn.time.threshold"),
            failed_compactions=settings.integer("hive.compactor.initiator.failed.compacts.threshold"),
            failed_retry_ms=settings.milliseconds("hive.compactor.initiator.failed.retry.time"),
            worker_timeout_ms=settings.milliseconds("hive.compactor.worker.timeout"),
            fetch_size=settings.integer("hive.compactor.fetch.size"),
            max_num_delta=settings.integer("hive.compactor.max.num.delta"),
            policy=settings.string("hive.acid.initiator.policy"),
            benefit_horizon_ms=settings.milliseconds("hive.acid.initiator.benefit.horizon"),
            benefit_other_reads=settings.number("hive.acid.initiator.benefit.other.reads"),
            benefit_job=settings.number("hive.acid.initiator.benefit.job"),
            benefit_bound=settings.number("hive.acid.initiator.benefit.bound"),
        )

    def for_table(
        self,
        settings: Settings,
        properties: Mapping[str, str],
        database: Mapping[str, str] | None = None,
        request: Mapping[str, str] | None = None,
    ) -> InitiatorThresholds:
        """The same with what a table, its database or a request overrides.

        :param properties: of the table.
        :raises InvalidArgumentsError: when an override is not of its setting's type, or breaks the rule that the
            history holds more failures than the Initiator counts.
        """
        overrides = threshold_overrides(database, properties, request)
        if not overrides:
            return self
        return InitiatorThresholds.of(settings.with_overrides(Source.TABLE, overrides))


@dataclass(frozen=True, slots=True)
class CleanerThresholds:
    """When leftovers are removed, and how often it is tried."""

    retention_ms: int  # hive.compactor.cleaner.retention.time.seconds, 0 unless delayed clean-up is on
    retry_pause_ms: int  # hive.compactor.cleaner.retry.retention.time
    max_attempts: int  # hive.compactor.cleaner.retry.maxattempts
    aborted_txns: int  # hive.compactor.abortedtxn.threshold
    aborted_age_ms: int  # hive.compactor.aborted.txn.time.threshold, negative: off
    fetch_size: int  # hive.compactor.fetch.size

    @classmethod
    def of(cls, settings: Settings) -> CleanerThresholds:
        """The thresholds in force."""
        delayed = settings.flag("hive.compactor.delayed.cleanup.enabled")
        return cls(
            retention_ms=settings.milliseconds("hive.compactor.cleaner.retention.time.seconds") if delayed else 0,
            retry_pause_ms=settings.milliseconds("hive.compactor.cleaner.retry.retention.time"),
            max_attempts=settings.integer("hive.compactor.cleaner.retry.maxattempts"),
            aborted_txns=settings.integer("hive.compactor.abortedtxn.threshold"),
            aborted_age_ms=settings.milliseconds("hive.compactor.aborted.txn.time.threshold"),
            fetch_size=settings.integer("hive.compactor.fetch.size"),
        )
