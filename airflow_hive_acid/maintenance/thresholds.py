"""The numbers that Initiator and Cleaner decide by, with Hive's keys.

Tables may override the Initiator's with properties ``compactorthreshold.<key>``; whoever knows only the settings gets
Hive's defaults.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from airflow_hive_acid.settings import THRESHOLD_PREFIX, Settings, Source

if TYPE_CHECKING:
    from collections.abc import Mapping


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
        )

    def for_table(self, settings: Settings, properties: Mapping[str, str]) -> InitiatorThresholds:
        """The same with what a table overrides.

        :raises InvalidArgumentsError: when an override is not of its setting's type.
        """
        overrides = {k: v for k, v in properties.items() if k.lower().startswith(THRESHOLD_PREFIX)}
        if not overrides:
            return self
        own = InitiatorThresholds.of(settings.with_overrides(Source.TABLE, overrides))
        return replace(self, delta_pct=own.delta_pct, delta_num=own.delta_num)


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
