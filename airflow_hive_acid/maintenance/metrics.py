"""Hive's metrics of transactions and compaction, as data: names and meaning from its MetricsConstants.

``compute`` makes them of counted rows; ``read_metrics`` counts. What Hive's AcidMetricLogger writes into a log when a
threshold is passed comes as :class:`Alarm` with what to do about it. Counters of a server's life (cycle durations,
totals since its start) are left out: there is no server, and rows do not know them. The two failure counters count what
the compaction history still holds.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from airflow_hive_acid.metastore.codes import TxnType
from airflow_hive_acid.metastore.compaction_queue_model import CompactionState
from airflow_hive_acid.metastore.metric_rows import MetricRows, read_metric_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from airflow_hive_acid.metastore import MetastoreClient
    from airflow_hive_acid.settings import Settings

_MANUAL = "manual"
_SHOWN_STATES = tuple(CompactionState)


@dataclass(frozen=True, slots=True)
class Metric:
    """One number.

    :param name: Hive's.
    :param labels: what it is about, where there are several of the name; for example the pool.
    """

    name: str
    value: float
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Alarm:
    """A metric beyond a threshold.

    :param level: ``warning`` or ``error``.
    :param setting: of the threshold, and ``limit`` its value in the unit of the metric.
    :param advice: what to look at, and with which command.
    """

    level: str
    metric: str
    value: float
    setting: str
    limit: float
    advice: str

    def __str__(self) -> str:
        return f"{self.level}: {self.metric} is {self.value:g}, {self.setting} is {self.limit:g}: {self.advice}"


@dataclass(frozen=True, slots=True)
class Metrics:
    """The metrics of one moment, in the order of Hive's documentation, and what is wrong with them."""

    metrics: tuple[Metric, ...]
    alarms: tuple[Alarm, ...]

    def __getitem__(self, name: str) -> float:
        """The value of a metric without labels."""
        return next(metric.value for metric in self.metrics if metric.name == name and not metric.labels)


def read_metrics(client: MetastoreClient) -> Metrics:
    """Count and compute."""
    many = client.settings.integer("hive.metastore.acidmetrics.table.aborted.txns.threshold")
    return compute(client.database.read(lambda connection: read_metric_rows(connection, many)), client.settings)


def compute(rows: MetricRows, settings: Settings) -> Metrics:
    """The metrics of what was counted."""
    metrics = (*_txns(rows), *_tables(rows), *_locks(rows), *_compactions(rows), *_pools(rows))
    values = {metric.name: metric.value for metric in metrics if not metric.labels}
    return Metrics(metrics, tuple(_alarms(values, settings)))


def _age(now: int, times: Iterable[int | None]) -> float:
    """Seconds since the oldest of these times; 0 when there is none, as Hive has it."""
    known = [time for time in times if time is not None]
    return max(0.0, (now - min(known)) // 1000) if known else 0.0


def _txns(rows: MetricRows) -> Iterator[Metric]:
    replicated = TxnType.REPL_CREATED
    for kind, groups in (
        ("repl", [g for g in rows.txns if g.state == "o" and g.type == replicated]),
        ("non_repl", [g for g in rows.txns if g.state == "o" and g.type != replicated]),
    ):
        yield Metric(f"num_open_{kind}_transactions", sum(g.count for g in groups))
        yield Metric(f"oldest_open_{kind}_txn_id", min((g.first for g in groups), default=0))
        yield Metric(f"oldest_open_{kind}_txn_age_in_sec", _age(rows.now, (g.oldest for g in groups)))
    aborted = [g for g in rows.txns if g.state == "a"]
    yield Metric("num_aborted_transactions", sum(g.count for g in aborted))
    yield Metric("oldest_aborted_txn_id", min((g.first for g in aborted), default=0))
    yield Metric("oldest_aborted_txn_age_in_sec", _age(rows.now, (g.oldest for g in aborted)))


def _tables(rows: MetricRows) -> Iterator[Metric]:
    yield Metric("tables_with_x_aborted_transactions", rows.tables_with_aborts)
    yield Metric("compaction_num_completed_txn_components", rows.completed_components)
    yield Metric("compaction_num_txn_to_writeid", rows.txn_to_write_id)
    yield Metric("num_writes_to_disabled_compaction_table", rows.disabled_writes)


def _locks(rows: MetricRows) -> Iterator[Metric]:
    yield Metric("num_locks", rows.locks)
    yield Metric("oldest_lock_age_in_sec", _age(rows.now, [rows.oldest_lock]))


def _compactions(rows: MetricRows) -> Iterator[Metric]:
    counts: Counter[CompactionState] = Counter()
    for group in rows.last:
        counts[group.state] += group.count
    for state in _SHOWN_STATES:
        yield Metric(f"compaction_num_{state.text.replace(' ', '_')}", counts[state])
    queue, now = rows.queue, rows.now
    waiting = [g.enqueued for g in queue if g.state is CompactionState.INITIATED]
    working = [g.started for g in queue if g.state is CompactionState.WORKING]
    ready = [g for g in queue if g.state is CompactionState.READY_FOR_CLEANING]
    yield Metric("compaction_oldest_enqueue_age_in_sec", _age(now, waiting))
    yield Metric("compaction_oldest_working_age_in_sec", _age(now, working))
    yield Metric("compaction_oldest_cleaning_age_in_sec", _age(now, (g.cleaner_started for g in ready)))
    yield Metric("oldest_ready_for_cleaning_age_in_sec", _age(now, (g.committed for g in ready)))
    yield Metric("compaction_initiator_failure_counter", rows.did_not_initiate)
    retried = sum(g.retried for g in ready)
    yield Metric("compaction_cleaner_failure_counter", rows.cleanings_failed + retried)
    automatic = [g for g in rows.last if g.initiator and not g.initiator.endswith(f"-{_MANUAL}")]
    workers = [g for g in rows.last if g.worker]
    yield Metric("compaction_num_initiators", len({_host(g.initiator) for g in automatic}))
    yield Metric("compaction_num_workers", len({_host(g.worker) for g in workers}))
    yield Metric("compaction_num_initiator_versions", _distinct(g.initiator_version for g in automatic))
    yield Metric("compaction_num_worker_versions", _distinct(g.worker_version for g in workers))


def _host(identity: str | None) -> str:
    """``<host>-<thread>``: Hive's form of an initiator's or worker's id."""
    return (identity or "").rpartition("-")[0]


def _distinct(texts: Iterable[str | None]) -> int:
    return len({text for text in texts if text})


def _pools(rows: MetricRows) -> Iterator[Metric]:
    for group in sorted(rows.queue, key=lambda g: (g.state.text, g.pool)):
        labels = {"pool": group.pool}
        if group.state is CompactionState.INITIATED:
            yield Metric("compaction_pools_initiated_item_count", group.count, labels)
            yield Metric("compaction_pools_oldest_enqueue_age_in_sec", _age(rows.now, [group.enqueued]), labels)
        elif group.state is CompactionState.WORKING:
            yield Metric("compaction_pools_working_item_count", group.count, labels)
            yield Metric("compaction_pools_oldest_working_age_in_sec", _age(rows.now, [group.started]), labels)


# --- thresholds -----------------------------------------------------------------------------------------------------

_OPEN = (
    "a client holds a txn open, and until it ends nothing that it may read is removed: see its user and host in "
    "'hive-acid show transactions'; ABORT TRANSACTIONS ends it"
)
_REPLICATION = (
    "a replication's txn is open: finish the load, or 'REPL LOAD' it again; ABORT TRANSACTIONS is the last resort"
)
_ROWS_OF_CTC = "compaction or cleaning does not keep up: 'hive-acid show compactions --state \"ready for cleaning\"'"
_DURATIONS = (
    ("oldest_open_non_repl_txn_age_in_sec", "hive.compactor.oldest.open.txn.threshold", _OPEN),
    ("oldest_open_repl_txn_age_in_sec", "hive.compactor.oldest.replication.open.txn.threshold", _REPLICATION),
    (
        "oldest_aborted_txn_age_in_sec",
        "hive.compactor.oldest.uncleaned.aborted.txn.time.threshold",
        "what it left is not cleaned up: is hive_acid_cleaner running, and what does 'hive-acid cleaning explain' say?",
    ),
    (
        "compaction_oldest_enqueue_age_in_sec",
        "hive.compactor.oldest.initiated.compaction.time.threshold",
        "requests wait for a worker: is hive_acid_worker running, does anybody serve the pool, is "
        "hive.compactor.worker.threads large enough?",
    ),
)
_COUNTS = (
    (
        "compaction_num_completed_txn_components",
        "hive.compactor.completed.txn.components.record.threshold",
        _ROWS_OF_CTC,
    ),
    (
        "compaction_num_txn_to_writeid",
        "hive.compactor.txn.to.writeid.record.threshold",
        "old write ids are not forgotten: a txn is open for long, aborted ones are not cleaned up, or hive_acid_reaper "
        "does not run",
    ),
)
_SINGLE = (
    (
        "tables_with_x_aborted_transactions",
        "hive.compactor.tables.with.aborted.txn.threshold",
        "writers of these tables keep failing, or the Cleaner cannot follow: 'hive-acid show transactions'",
    ),
    (
        "num_writes_to_disabled_compaction_table",
        "hive.compactor.number.of.disabled.compaction.tables.threshold",
        "tables with no_auto_compaction=true are written: ask for their compactions by hand, or unset the property",
    ),
)


def _alarms(values: Mapping[str, float], settings: Settings) -> Iterator[Alarm]:
    for name, key, advice in _DURATIONS:
        yield from _two_levels(name, values[name], key, settings.seconds, advice)
    for name, key, advice in _COUNTS:
        yield from _two_levels(name, values[name], key, settings.integer, advice)
    for name, key, advice in _SINGLE:
        limit = settings.integer(key)
        if values[name] >= limit > 0:
            yield Alarm("warning", name, values[name], key, limit, advice)
    key = "hive.compactor.oldest.uncleaned.compaction.time.threshold"
    age = values["oldest_ready_for_cleaning_age_in_sec"]
    if age >= settings.seconds(key) > 0:
        advice = "files that compaction replaced stay: 'hive-acid cleaning explain' names for whom"
        yield Alarm("warning", "oldest_ready_for_cleaning_age_in_sec", age, key, settings.seconds(key), advice)
    yield from _failing(values, settings)
    for who in ("initiator", "worker"):
        versions = values[f"compaction_num_{who}_versions"]
        if versions > 1:
            advice = "several releases, or a Hive besides, are at work: bring all to one"
            yield Alarm("warning", f"compaction_num_{who}_versions", versions, "one version", 1, advice)


def _two_levels(name: str, value: float, key: str, limit_of: Callable[[str], float], advice: str) -> Iterator[Alarm]:
    for level in ("error", "warning"):
        limit = limit_of(f"{key}.{level}")
        if value >= limit > 0:
            yield Alarm(level, name, value, f"{key}.{level}", limit, advice)
            return


def _failing(values: Mapping[str, float], settings: Settings) -> Iterator[Alarm]:
    failed = values["compaction_num_failed"] + values["compaction_num_did_not_initiate"]
    ended = failed + values["compaction_num_succeeded"]
    key = "hive.compactor.failed.compaction.ratio.threshold"
    if failed and failed / ended > settings.number(key):
        advice = (
            "of so many tables and partitions the last compaction failed: 'hive-acid show compactions --state failed'"
        )
        yield Alarm("warning", "compaction_num_failed", failed, key, settings.number(key), advice)
