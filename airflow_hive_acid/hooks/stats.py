"""Our metrics through Airflow's stats: gauges of a metastore, durations of maintenance, and what tasks did.

Names are Hive's where it has one, below ``hive_acid.`` (and Airflow's own prefix). Where Airflow sends tags
(OpenTelemetry, Datadog, Influx's StatsD) the connection, pool and table are tags; plain StatsD drops those, so there
they are parts of the name. Nothing is sent per heartbeat, and nothing at all unless Airflow's ``[metrics]`` says where
to.
"""

from __future__ import annotations

import contextlib
import logging
import re
import time
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow_hive_acid.airflow_versions import conf, stats
from airflow_hive_acid.hooks.configuration import DEFAULT_CONN_ID

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from airflow_hive_acid.engine.outcomes.events import Event
    from airflow_hive_acid.maintenance.decisions import CleaningOutcome, CompactionOutcome
    from airflow_hive_acid.maintenance.measures.health import Reading
    from airflow_hive_acid.metastore.cache import CacheStatistics
    from airflow_hive_acid.replication.cycles.runner import CycleReport

log = logging.getLogger(__name__)

PREFIX = "hive_acid"
_TAGGED = ("statsd_influxdb_enabled", "statsd_datadog_enabled", "otel_on")
_UNFIT = re.compile(r"[^A-Za-z0-9_-]+")
_LONGEST = 60
"""Characters of a part of a name: StatsD's and OpenTelemetry's names are limited."""


def sends_tags() -> bool:
    """Whether the configured backend of Airflow's metrics has tags."""
    return any(conf.getboolean("metrics", key, fallback=False) for key in _TAGGED)


def named(
    metric: str, labels: Mapping[str, str], conn_id: str | None, *, tagged: bool
) -> tuple[str, dict[str, str] | None]:
    """Name and tags of a metric.

    :param labels: what it is about; values of any characters.
    :param conn_id: the connection; None where it is not known.
    :param tagged: whether tags are sent; otherwise labels, and a connection that is not the default, are in the name.
    """
    if tagged:
        return f"{PREFIX}.{metric}", {**({} if conn_id is None else {"conn_id": conn_id}), **labels}
    where = [] if conn_id in (None, DEFAULT_CONN_ID) else [conn_id]
    parts = [PREFIX, metric, *(_UNFIT.sub("_", str(part))[:_LONGEST] for part in (*where, *labels.values()))]
    return ".".join(parts), None


def tell_health(readings: Iterable[Reading], conn_id: str) -> None:
    """Send what was read as gauges; what is beyond a threshold goes to the log, too."""
    tagged = sends_tags()
    for reading in readings:
        name, tags = named(reading.name, reading.labels, conn_id, tagged=tagged)
        stats.gauge(name, reading.value, tags=tags)
        if reading.advice:
            log.log(logging.ERROR if reading.level.value == "error" else logging.WARNING, "%s", reading)


def tell_cache(found: CacheStatistics, conn_id: str) -> None:
    """Send what the catalog cache of this process says of itself, as gauges."""
    tagged = sends_tags()
    for metric, value in (
        ("cache_hits", found.hits), ("cache_missing", found.missing), ("cache_stale", found.stale),
        ("cache_entries", found.entries), ("cache_bytes", found.bytes), ("cache_restarts", found.restarts),
        ("cache_lag_events", found.lag_events), ("cache_lag_in_sec", found.lag_seconds),
    ):  # fmt: skip
        if value is not None:
            name, tags = named(metric, {}, conn_id, tagged=tagged)
            stats.gauge(name, value, tags=tags)


@contextlib.contextmanager
def cycle(service: str, conn_id: str) -> Iterator[None]:
    """Around a pass of a maintenance service: its duration, and whether it failed.

    :param service: ``initiator``, ``cleaner`` and so on; Hive's ``compaction_<service>_cycle``.
    """
    started = time.monotonic()
    try:
        yield
    except Exception:
        count(f"compaction_{service}_failure_counter", conn_id)
        raise
    finally:
        duration(f"compaction_{service}_cycle", time.monotonic() - started, conn_id)


def count(metric: str, conn_id: str | None, number: int = 1, labels: Mapping[str, str] | None = None) -> None:
    """So many more; none are not told."""
    if number > 0:
        name, tags = named(metric, labels or {}, conn_id, tagged=sends_tags())
        stats.incr(name, number, tags=tags)


def duration(metric: str, seconds: float, conn_id: str | None, labels: Mapping[str, str] | None = None) -> None:
    """How long something took."""
    name, tags = named(metric, labels or {}, conn_id, tagged=sends_tags())
    stats.timing(name, timedelta(seconds=seconds), tags=tags)


def tell_event(event: Event, conn_id: str) -> None:
    """What a statement or transaction of a task came to."""
    # By name: the engine, which has the SQL parser, need not be imported for this.
    kind, happened = type(event).__name__, _Fields(event)
    match kind:
        case "TransactionOpened":
            duration("transaction_open", happened.seconds, conn_id)
        case "TransactionCommitted":
            count("total_num_committed_transactions", conn_id)
            duration("transaction_commit", happened.seconds, conn_id)
        case "TransactionAborted":
            count("total_num_aborted_transactions", conn_id)
        case "JobFinished":
            duration("spark_job", happened.seconds, conn_id, {"kind": happened.kind})
        case "Published":
            count("published_files", conn_id, happened.files)
            count("published_bytes", conn_id, happened.bytes)


class _Fields:
    """An event's fields, whichever it is."""

    def __init__(self, event: object) -> None:
        self._event = event

    def __getattr__(self, name: str) -> Any:
        return getattr(self._event, name)


def tell_compactions(outcomes: Iterable[CompactionOutcome], conn_id: str) -> None:
    """What a Worker did: how long each request took, by what became of it."""
    for outcome in outcomes:
        labels = {"outcome": outcome.kind.value, "type": outcome.type.name.lower()}
        count("compactions", conn_id, labels=labels)
        duration("compaction_worker_cycle", outcome.seconds, conn_id, labels)


def tell_replication(report: CycleReport, lag: float | None, conn_id: str) -> None:
    """What a cycle of replication did, and how far behind the replica is after it.

    :param lag: seconds.
    :param conn_id: of the destination.
    """
    labels = {"policy": report.policy}
    duration("replication_cycle", report.seconds, conn_id, labels)
    for metric, number in (
        ("replication_events", report.events), ("replication_changes", report.applied),
        ("replication_files", report.files), ("replication_bytes", report.bytes),
    ):  # fmt: skip
        count(metric, conn_id, number, labels)
    if lag is not None:
        name, tags = named("replication_lag_in_sec", labels, conn_id, tagged=sends_tags())
        stats.gauge(name, lag, tags=tags)


def tell_cleaning(outcomes: Iterable[CleaningOutcome], conn_id: str) -> None:
    """What a Cleaner did."""
    by_kind: dict[str, int] = {}
    removed = 0
    for outcome in outcomes:
        by_kind[outcome.kind.value] = by_kind.get(outcome.kind.value, 0) + 1
        removed += len(outcome.removed)
    for kind, number in by_kind.items():
        count("cleanings", conn_id, number, {"outcome": kind})
    count("removed_directories", conn_id, removed)
