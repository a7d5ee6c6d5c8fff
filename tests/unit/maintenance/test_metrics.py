"""Hive's metrics from counted rows, and what is said when a threshold is passed."""

from __future__ import annotations

import pytest

from airflow_hive_acid.maintenance.metrics import compute
from airflow_hive_acid.metastore.compaction_queue_model import CompactionState
from airflow_hive_acid.metastore.metric_rows import LastGroup, MetricRows, QueueGroup, TxnGroup
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
    found = compute(MetricRows(NOW), Settings())
    assert found.alarms == ()
    assert {metric.value for metric in found.metrics} == {0}
    assert {metric.name for metric in found.metrics} >= {
        "oldest_open_non_repl_txn_age_in_sec", "oldest_open_repl_txn_age_in_sec", "oldest_aborted_txn_age_in_sec",
        "tables_with_x_aborted_transactions", "compaction_oldest_enqueue_age_in_sec",
        "compaction_oldest_working_age_in_sec", "compaction_oldest_cleaning_age_in_sec", "num_locks",
        "oldest_lock_age_in_sec", "compaction_initiator_failure_counter", "compaction_cleaner_failure_counter",
        "num_writes_to_disabled_compaction_table", "compaction_num_ready_for_cleaning",
        "compaction_num_did_not_initiate", "oldest_ready_for_cleaning_age_in_sec",
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
        did_not_initiate=3, cleanings_failed=1,
    )  # fmt: skip
    found = compute(rows, Settings())
    assert {name: found[name] for name in (
        "num_open_non_repl_transactions", "oldest_open_non_repl_txn_id", "oldest_open_non_repl_txn_age_in_sec",
        "num_open_repl_transactions", "oldest_open_repl_txn_age_in_sec", "num_aborted_transactions",
        "oldest_aborted_txn_id", "num_locks", "oldest_lock_age_in_sec", "compaction_num_initiated",
        "compaction_num_succeeded", "compaction_num_failed", "compaction_oldest_enqueue_age_in_sec",
        "compaction_oldest_working_age_in_sec", "compaction_oldest_cleaning_age_in_sec",
        "oldest_ready_for_cleaning_age_in_sec", "compaction_initiator_failure_counter",
        "compaction_cleaner_failure_counter", "compaction_num_initiators", "compaction_num_workers",
        "compaction_num_worker_versions",
    )} == {
        "num_open_non_repl_transactions": 5, "oldest_open_non_repl_txn_id": 11,
        "oldest_open_non_repl_txn_age_in_sec": 90, "num_open_repl_transactions": 1,
        "oldest_open_repl_txn_age_in_sec": 3600, "num_aborted_transactions": 4, "oldest_aborted_txn_id": 2,
        "num_locks": 7, "oldest_lock_age_in_sec": 5, "compaction_num_initiated": 6, "compaction_num_succeeded": 500,
        "compaction_num_failed": 2, "compaction_oldest_enqueue_age_in_sec": 2700,
        "compaction_oldest_working_age_in_sec": 900, "compaction_oldest_cleaning_age_in_sec": 10800,
        "oldest_ready_for_cleaning_age_in_sec": 10800, "compaction_initiator_failure_counter": 3,
        "compaction_cleaner_failure_counter": 3, "compaction_num_initiators": 2, "compaction_num_workers": 2,
        "compaction_num_worker_versions": 1,
    }  # fmt: skip
    assert found.alarms == ()
    pools = {(m.name, m.labels["pool"]): m.value for m in found.metrics if m.labels}
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
         "warning", "compaction_num_failed", "state failed"),
        (MetricRows(NOW, last=(last(S.SUCCEEDED, 1, "4.1.0"), last(S.SUCCEEDED, 1, "4.2.0"))),
         "warning", "compaction_num_initiator_versions", "bring all to one"),
    ],
)  # fmt: skip
def test_a_threshold_that_is_passed_says_what_to_do(rows: MetricRows, level: str, metric: str, advice: str) -> None:
    (alarm,) = compute(rows, Settings()).alarms
    assert (alarm.level, alarm.metric) == (level, metric)
    assert advice in alarm.advice
    assert str(alarm).startswith(f"{level}: {metric} is ")


def test_thresholds_are_settings() -> None:
    rows = MetricRows(NOW, txns=(TxnGroup("o", 0, 1, 1, NOW - 24 * HOUR),))
    lax = Settings({Source.CONNECTION: {"metastore.compactor.oldest.open.txn.threshold.warning": "25"}})
    assert compute(rows, lax).alarms == ()
