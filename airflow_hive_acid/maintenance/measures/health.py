"""Which metrics are beyond a threshold, and what to do about it: Hive's AcidMetricLogger, with advice.

One list serves the command line, the UI's overview and the log of the maintenance tasks. ``judge`` is a function of
counted rows and settings; ``read_health`` counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

from airflow_hive_acid.maintenance.measures.metrics import compute
from airflow_hive_acid.metastore.listing import read_metric_rows
from airflow_hive_acid.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from airflow_hive_acid.maintenance.measures.metrics import Metric
    from airflow_hive_acid.metastore import MetastoreClient
    from airflow_hive_acid.metastore.listing import MetricRows

_DELTA_TABLES = "hive.txn.acid.metrics.max.cache.size"
_DELTA_NUM = "hive.txn.acid.metrics.delta.num.threshold"
_ABORTED_OF_TABLE = "hive.metastore.acidmetrics.table.aborted.txns.threshold"
#: The reaper comes every ``hive.timedout.txn.reaper.interval``; so many time-outs of silence, and it does not.
_SILENT_TIMEOUTS = 3
_MANY_OPEN = ((0.9, "error"), (0.5, "warning"))


class Level(Enum):
    """How bad it is."""

    OK = "ok"
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class Reading:
    """A metric, judged.

    :param name: Hive's; what ends in ``_in_sec`` is in seconds.
    :param labels: what it is about, where there are several of the name.
    :param advice: what is wrong and what to do next; empty when nothing is.
    :param setting: of the threshold, and ``limit`` its value in the unit of the metric; those of the one that was
        passed, else of the first that would be.
    :param view: which view shows more: ``transactions``, ``locks``, ``leases``, ``compactions``, ``tables`` or
        ``replication``.
    """

    name: str
    value: float
    labels: Mapping[str, str] = field(default_factory=dict)
    level: Level = Level.OK
    advice: str = ""
    setting: str = ""
    limit: float | None = None
    view: str = ""

    def __str__(self) -> str:
        about = f" of {', '.join(self.labels.values())}" if self.labels else ""
        text = f"{self.name}{about} is {self.value:g}"
        if self.level is Level.OK:
            return text
        return f"{self.level.value}: {text}, {self.setting} is {self.limit:g}: {self.advice}"


def read_health(client: MetastoreClient) -> tuple[Reading, ...]:
    """Count, and judge."""
    settings, database = client.settings, client.database
    return judge(
        database.read(
            lambda connection: read_metric_rows(
                connection,
                database.features(connection),
                aborted=settings.integer(_ABORTED_OF_TABLE),
                silent_ms=_SILENT_TIMEOUTS * settings.milliseconds("hive.txn.timeout"),
                many_deltas=settings.integer(_DELTA_NUM),
                tables=settings.integer(_DELTA_TABLES),
            )
        ),
        settings,
    )


def judge(rows: MetricRows, settings: Settings) -> tuple[Reading, ...]:
    """What was counted, as metrics with the thresholds of these settings."""
    return tuple(_judged(metric, settings) for metric in compute(rows))


def findings(readings: Iterable[Reading]) -> list[Reading]:
    """Those beyond a threshold, errors first."""
    wrong = [reading for reading in readings if reading.level is not Level.OK]
    return sorted(wrong, key=lambda reading: reading.level is not Level.ERROR)


# --- thresholds -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Limit:
    """From which value on a metric is what; a value of 0 switches it off, as in Hive."""

    level: Level
    setting: str
    value: float


_Limits = Callable[[Settings], Iterator[_Limit]]
_Read = Callable[[Settings, str], float]


@dataclass(frozen=True, slots=True)
class _Rule:
    """What is said when a metric is beyond one of its limits.

    :param limits: the worst first.
    """

    view: str
    advice: str
    limits: _Limits


def _two(key: str, read: _Read = Settings.seconds) -> _Limits:
    """``key.error`` and ``key.warning``."""

    def limits(settings: Settings) -> Iterator[_Limit]:
        for level in (Level.ERROR, Level.WARNING):
            name = f"{key}.{level.value}"
            yield _Limit(level, name, read(settings, name))

    return limits


def _one(key: str, read: _Read = Settings.integer) -> _Limits:
    def limits(settings: Settings) -> Iterator[_Limit]:
        yield _Limit(Level.WARNING, key, read(settings, key))

    return limits


def _fixed(limit: float, name: str) -> _Limits:
    """What is no setting."""

    def limits(settings: Settings) -> Iterator[_Limit]:
        yield _Limit(Level.WARNING, name, limit)

    return limits


def _many_open(settings: Settings) -> Iterator[_Limit]:
    key = "hive.max.open.txns"
    for part, level in _MANY_OPEN:
        yield _Limit(Level(level), key, part * settings.integer(key))


_RULES: Mapping[str, _Rule] = {
    "oldest_open_non_repl_txn_age_in_sec": _Rule(
        "transactions",
        "a client holds a txn open, and until it ends nothing that it may read is removed: see its user and host in "
        "'hive-acid show transactions'; ABORT TRANSACTIONS ends it",
        _two("hive.compactor.oldest.open.txn.threshold"),
    ),
    "oldest_open_repl_txn_age_in_sec": _Rule(
        "transactions",
        "a replication's txn is open: finish the load, or 'REPL LOAD' it again; ABORT TRANSACTIONS is the last resort",
        _two("hive.compactor.oldest.replication.open.txn.threshold"),
    ),
    "num_open_transactions": _Rule(
        "transactions",
        "so many are open that new ones will be refused: find who opens them in 'hive-acid show transactions', and "
        "whether hive_acid_reaper runs",
        _many_open,
    ),
    "num_silent_transactions": _Rule(
        "transactions",
        "they have sent no heartbeat for several times hive.txn.timeout and still hold their locks: hive_acid_reaper "
        "does not run, or cannot fence their jobs: unpause it, or see its log ('hive-acid maintenance reaper --once')",
        _fixed(1, "any at all"),
    ),
    "oldest_aborted_txn_age_in_sec": _Rule(
        "transactions",
        "what it left is not cleaned up: is hive_acid_cleaner running, and what does 'hive-acid cleaning explain' say?",
        _two("hive.compactor.oldest.uncleaned.aborted.txn.time.threshold"),
    ),
    "tables_with_x_aborted_transactions": _Rule(
        "tables",
        "writers of these tables keep failing, or the Cleaner cannot follow: 'hive-acid show transactions'",
        _one("hive.compactor.tables.with.aborted.txn.threshold"),
    ),
    "compaction_num_completed_txn_components": _Rule(
        "compactions",
        "compaction or cleaning does not keep up: 'hive-acid show compactions --state \"ready for cleaning\"'",
        _two("hive.compactor.completed.txn.components.record.threshold", Settings.integer),
    ),
    "compaction_num_txn_to_writeid": _Rule(
        "transactions",
        "old write ids are not forgotten: a txn is open for long, aborted ones are not cleaned up, or hive_acid_reaper "
        "does not run",
        _two("hive.compactor.txn.to.writeid.record.threshold", Settings.integer),
    ),
    "num_writes_to_disabled_compaction_table": _Rule(
        "tables",
        "tables with no_auto_compaction=true are written: ask for their compactions by hand, or unset the property",
        _one("hive.compactor.number.of.disabled.compaction.tables.threshold"),
    ),
    "oldest_waiting_txn_age_in_sec": _Rule(
        "locks",
        "a txn waits for locks: 'hive-acid show locks' names who holds them (blocked by); ABORT TRANSACTIONS ends the "
        "holder if nobody needs its work",
        _two("hive.acid.oldest.waiting.threshold"),
    ),
    "oldest_lease_waiter_age_in_sec": _Rule(
        "leases",
        "somebody waits for a lease: SHOW LEASE names who holds it until when; DROP FORCE LEASE … COMMENT ends it",
        _two("hive.acid.oldest.waiting.threshold"),
    ),
    "compaction_oldest_enqueue_age_in_sec": _Rule(
        "compactions",
        "requests wait for a worker: is hive_acid_worker running, does anybody serve the pool, is "
        "hive.compactor.worker.threads large enough?",
        _two("hive.compactor.oldest.initiated.compaction.time.threshold"),
    ),
    "oldest_ready_for_cleaning_age_in_sec": _Rule(
        "compactions",
        "files that compaction replaced stay: 'hive-acid cleaning explain' names for whom",
        _one("hive.compactor.oldest.uncleaned.compaction.time.threshold", Settings.seconds),
    ),
    "compaction_failed_ratio": _Rule(
        "compactions",
        "of this part of the tables and partitions the last compaction failed, or did not begin: 'hive-acid show "
        "compactions --state failed' has the errors",
        _one("hive.compactor.failed.compaction.ratio.threshold", Settings.number),
    ),
    "compaction_num_given_up": _Rule(
        "compactions",
        "their compactions failed so often that the Initiator does not ask for them any more: see the errors in "
        "'hive-acid show compactions --state failed', mend the cause, and ask by ALTER TABLE … COMPACT",
        _fixed(1, "any at all"),
    ),
    "compaction_num_unreadable": _Rule(
        "tables",
        "the Initiator could not look at these tables or partitions: 'hive-acid compaction explain <table>' says why",
        _fixed(1, "any at all"),
    ),
    "compaction_num_initiator_versions": _Rule(
        "compactions",
        "several releases, or a Hive besides, are at work: bring all to one",
        _fixed(2, "one version"),
    ),
    "compaction_num_worker_versions": _Rule(
        "compactions",
        "several releases, or a Hive besides, are at work: bring all to one",
        _fixed(2, "one version"),
    ),
    "replication_lag_in_sec": _Rule(
        "replication",
        "the replica is so far behind its primary: is hive_acid_replication running, and what does 'hive-acid "
        "replication status' say?",
        _two("hive.acid.repl.lag.threshold"),
    ),
    "replication_failed": _Rule(
        "replication",
        "the last cycle of the policy failed, and nothing is applied until one succeeds: 'hive-acid replication "
        "status' has the error",
        _fixed(1, "any at all"),
    ),
    "replication_num_kept_events": _Rule(
        "replication",
        "events of the primary that nobody here can apply were kept: 'hive-acid replication events' shows them; see to "
        "them by hand, then forget them there",
        _fixed(1, "any at all"),
    ),
    "compaction_num_active_deltas": _Rule(
        "tables",
        "every reader opens them all: 'hive-acid compaction explain <table>' says why it was not compacted",
        _one(_DELTA_NUM),
    ),
}
_VIEWS = (("compaction_", "compactions"), ("lease", "leases"), ("lock", "locks"), ("txn", "transactions"),
          ("transactions", "transactions"))  # fmt: skip


def _judged(metric: Metric, settings: Settings) -> Reading:
    rule = _RULES.get(metric.name)
    if rule is None:
        view = next((view for part, view in _VIEWS if part in metric.name), "tables")
        return Reading(metric.name, metric.value, metric.labels, view=view)
    limits = [limit for limit in rule.limits(settings) if limit.value > 0]
    passed = next((limit for limit in limits if metric.value >= limit.value), None)
    if passed is not None:
        return Reading(
            metric.name, metric.value, metric.labels, passed.level, rule.advice, passed.setting, passed.value, rule.view
        )
    first = limits[-1] if limits else None
    return Reading(
        metric.name, metric.value, metric.labels, setting="" if first is None else first.setting,
        limit=None if first is None else first.value, view=rule.view,
    )  # fmt: skip
