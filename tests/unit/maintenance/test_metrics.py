"""Hive's metrics from counted rows, and what is said when a threshold is passed."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_hive_acid.maintenance.measures import health
from airflow_hive_acid.maintenance.measures.health import Level, findings, judge
from airflow_hive_acid.metastore.compaction.model import CompactionState
from airflow_hive_acid.metastore.listing.metrics import (
    DeltaCount,
    Followed,
    LastGroup,
    MetricRows,
    QueueGroup,
    TxnGroup,
    Waiting,
)
from airflow_hive_acid.settings import Settings, Source

NOW = 1_800_000_000_000
HOUR = 3_600_000
S = CompactionState


def queue(state: CompactionState, pool: str, count: int, hours: float, retried: int = 0) -> QueueGroup:
    since = NOW - int(hours * HOUR)
    times = {
        S.INITIATED: (since, None, None, None), S.WORKING: (since, since, None, None),
        S.READY_FOR_CLEANING: (since, since, since, since),
    }[state]  # fmt: skip
    return QueueGroup(state, pool, count, *times, retried)


def last(state: CompactionState, count: int, version: str | None = None) -> LastGroup:
    return LastGroup(state, "h-i", version, None, None, count)


def test_an_empty_metastore_has_every_metric_and_no_alarm() -> None:
    found = judge(MetricRows(NOW), Settings())
    assert findings(found) == []
    assert {(reading.value, reading.level, reading.advice) for reading in found} == {(0, Level.OK, "")}
    assert {reading.view for reading in found} == {"transactions", "locks", "leases", "compactions", "tables"}
    assert {reading.name for reading in found} >= {
        "oldest_open_non_repl_txn_age_in_sec", "oldest_open_repl_txn_age_in_sec", "oldest_aborted_txn_age_in_sec",
        "tables_with_x_aborted_transactions", "compaction_oldest_enqueue_age_in_sec",
        "compaction_oldest_working_age_in_sec", "compaction_oldest_cleaning_age_in_sec", "num_locks",
        "oldest_lock_age_in_sec", "compaction_initiator_failure_counter", "compaction_cleaner_failure_counter",
        "num_writes_to_disabled_compaction_table", "compaction_num_ready_for_cleaning",
        "compaction_num_did_not_initiate", "oldest_ready_for_cleaning_age_in_sec", "compaction_failed_ratio",
        "num_open_transactions", "num_silent_transactions", "num_waiting_lock_requests", "num_leases",
        "oldest_waiting_txn_age_in_sec", "num_lease_waiters", "oldest_lease_waiter_age_in_sec",
        "compaction_num_given_up", "compaction_num_unreadable",
    }  # fmt: skip


def test_counts_and_ages() -> None:
    rows = MetricRows(
        NOW,
        txns=(
            TxnGroup("o", 0, 3, 17, NOW - 90_000), TxnGroup("o", 2, 2, 11, NOW - 30_500),
            TxnGroup("o", 1, 1, 5, NOW - HOUR), TxnGroup("a", 0, 4, 2, NOW - 2 * HOUR), TxnGroup("c", 0, 90, 1, 0),
        ),
        locks=7, oldest_lock=NOW - 5000, completed_components=12, txn_to_write_id=34, tables_with_aborts=0,
        queue=(
            queue(S.INITIATED, "default", 5, 0.5), queue(S.INITIATED, "night", 2, 0.75),
            queue(S.WORKING, "default", 1, 0.25), queue(S.READY_FOR_CLEANING, "default", 3, 3, retried=2),
        ),
        last=(
            LastGroup(S.INITIATED, "host1-initiator", "4.2.0", None, None, 6),
            LastGroup(S.SUCCEEDED, "host2-manual", "4.2.0", "host1-w1", "4.2.0", 400),
            LastGroup(S.SUCCEEDED, "host3-initiator", "4.2.0", "host1-w2", "4.2.0", 100),
            LastGroup(S.FAILED, "host1-initiator", "4.2.0", "host4-w1", "4.2.0", 2),
        ),
        did_not_initiate=3, cleanings_failed=1, waiting=Waiting(2, NOW - 61_000), silent=0,
        leases=Waiting(9, NOW - HOUR), lease_waiters=Waiting(3, None), decisions={"NOTHING": 40, "MAJOR": 2},
        deltas=(DeltaCount("d", "few", "", 12), DeltaCount("d", "t", "k=a", 99)),
    )  # fmt: skip
    readings = judge(rows, Settings())
    found = {reading.name: reading.value for reading in readings if not reading.labels}
    assert {name: found[name] for name in (
        "num_open_non_repl_transactions", "oldest_open_non_repl_txn_id", "oldest_open_non_repl_txn_age_in_sec",
        "num_open_repl_transactions", "oldest_open_repl_txn_age_in_sec", "num_aborted_transactions",
        "oldest_aborted_txn_id", "num_locks", "oldest_lock_age_in_sec", "compaction_num_initiated",
        "compaction_num_succeeded", "compaction_num_failed", "compaction_oldest_enqueue_age_in_sec",
        "compaction_oldest_working_age_in_sec", "compaction_oldest_cleaning_age_in_sec",
        "oldest_ready_for_cleaning_age_in_sec", "compaction_initiator_failure_counter",
        "compaction_cleaner_failure_counter", "compaction_num_initiators", "compaction_num_workers",
        "compaction_num_worker_versions", "num_open_transactions", "num_waiting_lock_requests",
        "oldest_waiting_txn_age_in_sec", "num_leases", "oldest_lease_age_in_sec", "num_lease_waiters",
        "oldest_lease_waiter_age_in_sec", "compaction_failed_ratio",
    )} == {
        "num_open_non_repl_transactions": 5, "oldest_open_non_repl_txn_id": 11,
        "oldest_open_non_repl_txn_age_in_sec": 90, "num_open_repl_transactions": 1,
        "oldest_open_repl_txn_age_in_sec": 3600, "num_aborted_transactions": 4, "oldest_aborted_txn_id": 2,
        "num_locks": 7, "oldest_lock_age_in_sec": 5, "compaction_num_initiated": 6, "compaction_num_succeeded": 500,
        "compaction_num_failed": 2, "compaction_oldest_enqueue_age_in_sec": 2700,
        "compaction_oldest_working_age_in_sec": 900, "compaction_oldest_cleaning_age_in_sec": 10800,
        "oldest_ready_for_cleaning_age_in_sec": 10800, "compaction_initiator_failure_counter": 3,
        "compaction_cleaner_failure_counter": 3, "compaction_num_initiators": 2, "compaction_num_workers": 2,
        "compaction_num_worker_versions": 1, "num_open_transactions": 6, "num_waiting_lock_requests": 2,
        "oldest_waiting_txn_age_in_sec": 61, "num_leases": 9, "oldest_lease_age_in_sec": 3600, "num_lease_waiters": 3,
        "oldest_lease_waiter_age_in_sec": 0, "compaction_failed_ratio": 0.004,
    }  # fmt: skip
    assert findings(readings) == []
    tables = [(r.value, dict(r.labels)) for r in readings if "table" in r.labels]
    assert tables == [(99, {"table": "d.t", "partition": "k=a"}), (12, {"table": "d.few"})]
    pools = {(r.name, r.labels["pool"]): r.value for r in readings if "pool" in r.labels}
    assert pools == {
        ("compaction_pools_initiated_item_count", "default"): 5,
        ("compaction_pools_oldest_enqueue_age_in_sec", "default"): 1800,
        ("compaction_pools_initiated_item_count", "night"): 2,
        ("compaction_pools_oldest_enqueue_age_in_sec", "night"): 2700,
        ("compaction_pools_working_item_count", "default"): 1,
        ("compaction_pools_oldest_working_age_in_sec", "default"): 900,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("rows", "level", "metric", "advice"),
    [
        (MetricRows(NOW, txns=(TxnGroup("o", 0, 1, 1, NOW - 24 * HOUR),)), "warning",
         "oldest_open_non_repl_txn_age_in_sec", "show transactions"),
        (MetricRows(NOW, txns=(TxnGroup("o", 0, 1, 1, NOW - 72 * HOUR),)), "error",
         "oldest_open_non_repl_txn_age_in_sec", "ABORT TRANSACTIONS"),
        (MetricRows(NOW, txns=(TxnGroup("o", 1, 1, 1, NOW - 15 * 24 * HOUR),)), "warning",
         "oldest_open_repl_txn_age_in_sec", "replication"),
        (MetricRows(NOW, txns=(TxnGroup("a", 0, 1, 1, NOW - 30 * HOUR),)), "warning",
         "oldest_aborted_txn_age_in_sec", "hive_acid_cleaner"),
        (MetricRows(NOW, queue=(queue(S.INITIATED, "p", 1, 13),)), "error",
         "compaction_oldest_enqueue_age_in_sec", "hive_acid_worker"),
        (MetricRows(NOW, queue=(queue(S.READY_FOR_CLEANING, "p", 1, 24),)), "warning",
         "oldest_ready_for_cleaning_age_in_sec", "cleaning explain"),
        (MetricRows(NOW, completed_components=500_000), "warning",
         "compaction_num_completed_txn_components", "keep up"),
        (MetricRows(NOW, txn_to_write_id=1_000_000), "error", "compaction_num_txn_to_writeid", "hive_acid_reaper"),
        (MetricRows(NOW, tables_with_aborts=1), "warning", "tables_with_x_aborted_transactions", "keep failing"),
        (MetricRows(NOW, disabled_writes=1), "warning", "num_writes_to_disabled_compaction_table", "by hand"),
        (MetricRows(NOW, last=(last(S.SUCCEEDED, 98), last(S.DID_NOT_INITIATE, 1))),
         "warning", "compaction_failed_ratio", "state failed"),
        (MetricRows(NOW, txns=(TxnGroup("o", 0, 90_000, 1, NOW),)), "error", "num_open_transactions", "reaper"),
        (MetricRows(NOW, txns=(TxnGroup("o", 0, 50_000, 1, NOW),)), "warning", "num_open_transactions", "refused"),
        (MetricRows(NOW, silent=1), "warning", "num_silent_transactions", "hive_acid_reaper"),
        (MetricRows(NOW, waiting=Waiting(1, NOW - HOUR)), "warning", "oldest_waiting_txn_age_in_sec", "show locks"),
        (MetricRows(NOW, waiting=Waiting(1, NOW - 6 * HOUR)), "error", "oldest_waiting_txn_age_in_sec", "show locks"),
        (MetricRows(NOW, lease_waiters=Waiting(1, NOW - 2 * HOUR)), "warning", "oldest_lease_waiter_age_in_sec",
         "DROP FORCE LEASE"),
        (MetricRows(NOW, decisions={"GIVEN_UP": 1}), "warning", "compaction_num_given_up", "COMPACT"),
        (MetricRows(NOW, decisions={"ERROR": 1}), "warning", "compaction_num_unreadable", "compaction explain"),
        (MetricRows(NOW, deltas=(DeltaCount("d", "t", "", 100),)), "warning", "compaction_num_active_deltas",
         "compaction explain"),
        (MetricRows(NOW, followed=(Followed("p", NOW - HOUR, False, 0),)), "warning", "replication_lag_in_sec",
         "replication status"),
        (MetricRows(NOW, followed=(Followed("p", NOW - 24 * HOUR, False, 0),)), "error", "replication_lag_in_sec",
         "hive_acid_replication"),
        (MetricRows(NOW, followed=(Followed("p", None, True, 0),)), "warning", "replication_failed", "the error"),
        (MetricRows(NOW, followed=(Followed("p", NOW, False, 2),)), "warning", "replication_num_kept_events",
         "replication events"),
        (MetricRows(NOW, last=(last(S.SUCCEEDED, 1, "4.1.0"), last(S.SUCCEEDED, 1, "4.2.0"))),
         "warning", "compaction_num_initiator_versions", "bring all to one"),
    ],
)  # fmt: skip
def test_a_threshold_that_is_passed_says_what_to_do(rows: MetricRows, level: str, metric: str, advice: str) -> None:
    (found,) = findings(judge(rows, Settings()))
    assert (found.level.value, found.name) == (level, metric)
    assert advice in found.advice
    assert found.limit is not None
    assert found.value >= found.limit > 0
    assert str(found).startswith(f"{level}: {metric} ")


def test_errors_come_before_warnings() -> None:
    rows = MetricRows(NOW, txns=(TxnGroup("o", 0, 1, 1, NOW - 24 * HOUR),), completed_components=1_000_000)
    assert [found.level for found in findings(judge(rows, Settings()))] == [Level.ERROR, Level.WARNING]


def test_what_is_well_tells_from_where_on_it_is_not() -> None:
    readings = {reading.name: reading for reading in judge(MetricRows(NOW), Settings())}
    told = readings["oldest_open_non_repl_txn_age_in_sec"]
    assert (told.setting, told.limit) == ("hive.compactor.oldest.open.txn.threshold.warning", 86_400)
    assert (readings["num_locks"].setting, readings["num_locks"].limit) == ("", None)


def test_the_manual_names_every_metric_that_has_a_threshold_and_its_setting() -> None:
    manual = (Path(__file__).parents[3] / "docs" / "how-to" / "running" / "metrics.md").read_text()
    table = manual[manual.index("# Metrics") : manual.index("**In Airflow's metrics.**")]
    for name, rule in health._RULES.items():
        assert f"`{name}`" in table
        for limit in rule.limits(Settings()):
            key = limit.setting.removesuffix(".warning").removesuffix(".error")
            assert key in table or "." not in key


def test_a_threshold_of_0_is_off() -> None:
    rows = MetricRows(NOW, waiting=Waiting(1, NOW - 100 * HOUR))
    off = {f"hive.acid.oldest.waiting.threshold.{level}": "0" for level in ("warning", "error")}
    assert findings(judge(rows, Settings({Source.CONNECTION: off}))) == []


def test_thresholds_are_settings() -> None:
    rows = MetricRows(NOW, txns=(TxnGroup("o", 0, 1, 1, NOW - 24 * HOUR),))
    lax = Settings({Source.CONNECTION: {"metastore.compactor.oldest.open.txn.threshold.warning": "25"}})
    assert findings(judge(rows, lax)) == []
