"""What is sent to Airflow's metrics, with which names and tags, and that hostile names cannot break them."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from airflow_hive_acid.airflow_versions import AirflowException, AirflowFailException
from airflow_hive_acid.airflow_versions import stats as airflow_stats
from airflow_hive_acid.engine.outcomes.events import (
    JobFinished,
    Published,
    SparkStarting,
    TransactionCommitted,
    TransactionOpened,
)
from airflow_hive_acid.errors import DeadlockError, InvalidArgumentsError
from airflow_hive_acid.hooks import stats
from airflow_hive_acid.hooks.tasks import fail_task
from airflow_hive_acid.maintenance.decisions import Kind
from airflow_hive_acid.maintenance.measures.health import judge
from airflow_hive_acid.metastore.listing.metrics import DeltaCount, MetricRows, TxnGroup
from airflow_hive_acid.settings import Settings

if TYPE_CHECKING:
    from datetime import timedelta

NOW, DAY = 1_800_000_000_000, 86_400_000


class Backend:
    """Airflow's interface of a metrics backend; remembers what it was sent."""

    def __init__(self) -> None:
        self.sent: list[tuple[Any, ...]] = []

    def incr(self, stat: str, count: int = 1, rate: float = 1, *, tags: Any = None) -> None:
        self.sent.append(("count", stat, count, tags))

    def gauge(self, stat: str, value: float, rate: float = 1, delta: bool = False, *, tags: Any = None) -> None:
        self.sent.append(("gauge", stat, value, tags))

    def timing(self, stat: str, dt: timedelta, *, tags: Any = None) -> None:
        self.sent.append(("timing", stat, dt.total_seconds(), tags))


@pytest.fixture
def recorder(monkeypatch: pytest.MonkeyPatch) -> Backend:
    made = Backend()
    if isinstance(airflow_stats, type):  # before Airflow 3.3
        monkeypatch.setattr(stats, "stats", made)
        return made
    from airflow.sdk._shared.observability.metrics import stats as inside

    monkeypatch.setattr(inside, "_backend", made)
    monkeypatch.setattr(inside, "_factory", lambda: made)
    assert airflow_stats.incr is inside.incr
    return made


@pytest.fixture
def tagged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__METRICS__OTEL_ON", "True")


def test_the_health_of_a_metastore_as_gauges(recorder: Backend, caplog: pytest.LogCaptureFixture) -> None:
    rows = MetricRows(
        NOW, txns=(TxnGroup("o", 0, 7, 1, NOW - DAY),), deltas=(DeltaCount("sales", "a.b c/d:é", "k=x y", 120),)
    )
    stats.tell_health(judge(rows, Settings()), "hive_acid_default")
    sent = {name: value for kind, name, value, tags in recorder.sent if kind == "gauge" and tags is None}
    assert sent["hive_acid.num_open_non_repl_transactions"] == 7
    assert sent["hive_acid.oldest_open_non_repl_txn_age_in_sec"] == 86_400
    assert sent["hive_acid.compaction_num_active_deltas.sales_a_b_c_d_.k_x_y"] == 120
    assert len(sent) == len(recorder.sent)
    assert all(re.fullmatch(r"[A-Za-z0-9_.-]{1,249}", name) for name in sent)
    assert [(r.levelname, "show transactions" in r.getMessage()) for r in caplog.records] == [
        ("WARNING", True), ("WARNING", False)]  # fmt: skip


@pytest.mark.usefixtures("tagged")
def test_with_tags_names_are_one_for_all_connections_and_pools(recorder: Backend) -> None:
    rows = MetricRows(NOW, deltas=(DeltaCount("d", "t", "k=1", 120),))
    stats.tell_health(judge(rows, Settings()), "other")
    assert ("gauge", "hive_acid.num_locks", 0, {"conn_id": "other"}) in recorder.sent
    about = {"conn_id": "other", "table": "d.t", "partition": "k=1"}
    assert ("gauge", "hive_acid.compaction_num_active_deltas", 120, about) in recorder.sent


def test_without_tags_another_connection_is_part_of_the_name() -> None:
    assert stats.named("num_locks", {}, "other", tagged=False) == ("hive_acid.num_locks.other", None)
    name, _ = stats.named("m", {"table": "x" * 1000}, None, tagged=False)
    assert len(name) < 100


def test_a_pass_of_a_service_is_timed_and_its_failure_counted(recorder: Backend) -> None:
    with stats.cycle("initiator", "hive_acid_default"):
        pass
    with pytest.raises(ZeroDivisionError), stats.cycle("cleaner", "hive_acid_default"):
        _ = 1 / 0
    assert [(kind, name) for kind, name, *_ in recorder.sent] == [
        ("timing", "hive_acid.compaction_initiator_cycle"),
        ("count", "hive_acid.compaction_cleaner_failure_counter"),
        ("timing", "hive_acid.compaction_cleaner_cycle"),
    ]


def test_events_of_a_task(recorder: Backend) -> None:
    for event in (
        SparkStarting(),
        TransactionOpened(5, {"d.t": "insert"}, {"d.t": 1}, 0.5),
        JobFinished("insert", "d.t", 3, 0, 0, 3, 2.0),
        Published("d.t", 1, 4, 1000, 0.1),
        TransactionCommitted(5, 0.25),
    ):
        stats.tell_event(event, "hive_acid_default")
    assert recorder.sent == [
        ("timing", "hive_acid.transaction_open", 0.5, None),
        ("timing", "hive_acid.spark_job.insert", 2.0, None),
        ("count", "hive_acid.published_files", 4, None),
        ("count", "hive_acid.published_bytes", 1000, None),
        ("count", "hive_acid.total_num_committed_transactions", 1, None),
        ("timing", "hive_acid.transaction_commit", 0.25, None),
    ]


def test_a_task_that_fails_is_counted_by_what_ended_it(recorder: Backend) -> None:
    with pytest.raises(AirflowException):
        fail_task(DeadlockError("a deadlock"))
    with pytest.raises(AirflowFailException):
        fail_task(InvalidArgumentsError("no"))
    assert recorder.sent == [
        ("count", "hive_acid.task_failures.DeadlockError", 1, None),
        ("count", "hive_acid.task_failures.InvalidArgumentsError", 1, None),
    ]


def test_what_maintenance_did(recorder: Backend) -> None:
    compaction: Any = SimpleNamespace(kind=Kind.COMPACTED, type=SimpleNamespace(name="MAJOR"), seconds=3.0)
    cleaning: Any = [
        SimpleNamespace(kind=Kind.CLEANED, removed=("a", "b")),
        SimpleNamespace(kind=Kind.KEPT, removed=()),
    ]
    stats.tell_compactions([compaction], "hive_acid_default")
    stats.tell_cleaning(cleaning, "hive_acid_default")
    assert recorder.sent == [
        ("count", "hive_acid.compactions.compacted.major", 1, None),
        ("timing", "hive_acid.compaction_worker_cycle.compacted.major", 3.0, None),
        ("count", "hive_acid.cleanings.cleaned", 1, None),
        ("count", "hive_acid.cleanings.kept", 1, None),
        ("count", "hive_acid.removed_directories", 2, None),
    ]
