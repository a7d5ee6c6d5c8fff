"""Hive's metrics of transactions and compaction, as data: names and meaning from its MetricsConstants.

``compute`` makes them of counted rows; :mod:`~airflow_hive_acid.maintenance.measures.health` says which are beyond a
threshold and what to do. The two failure counters count what the compaction history still holds. Hive's counters of a
server's life (durations of cycles, totals) are told by whoever does the work, through Airflow's stats
(``hooks/stats.py``). What Hive has no name for is named in its manner: leases, those who wait, and txns that nobody
reaps.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from airflow_hive_acid.maintenance.decisions import Kind
from airflow_hive_acid.metastore.compaction import CompactionState
from airflow_hive_acid.metastore.database import TxnType

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from airflow_hive_acid.metastore.listing import MetricRows

_MANUAL = "manual"
_SHOWN_STATES = tuple(CompactionState)


@dataclass(frozen=True, slots=True)
class Metric:
    """One number.

    :param name: Hive's; what ends in ``_in_sec`` is in seconds, the rest are counts and ids.
    :param labels: what it is about, where there are several of the name: the pool, or the table and partition.
    """

    name: str
    value: float
    labels: Mapping[str, str] = field(default_factory=dict)


def compute(rows: MetricRows) -> tuple[Metric, ...]:
    """The metrics of what was counted; those without labels are always all there."""
    return (
        *_txns(rows), *_tables(rows), *_locks(rows), *_leases(rows), *_compactions(rows), *_pools(rows), *_deltas(rows),
        *_replication(rows),
    )  # fmt: skip


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
    yield Metric("num_open_transactions", sum(g.count for g in rows.txns if g.state == "o"))
    yield Metric("num_silent_transactions", rows.silent)
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
    yield Metric("num_waiting_lock_requests", rows.waiting.count)
    yield Metric("oldest_waiting_txn_age_in_sec", _age(rows.now, [rows.waiting.oldest]))


def _leases(rows: MetricRows) -> Iterator[Metric]:
    yield Metric("num_leases", rows.leases.count)
    yield Metric("oldest_lease_age_in_sec", _age(rows.now, [rows.leases.oldest]))
    yield Metric("num_lease_waiters", rows.lease_waiters.count)
    yield Metric("oldest_lease_waiter_age_in_sec", _age(rows.now, [rows.lease_waiters.oldest]))


def _replication(rows: MetricRows) -> Iterator[Metric]:
    for one in rows.followed:
        of_policy = {"policy": one.policy}
        if one.as_of is not None:
            yield Metric("replication_lag_in_sec", max(0.0, (rows.now - one.as_of) // 1000), of_policy)
        yield Metric("replication_failed", int(one.failed), of_policy)
        yield Metric("replication_num_kept_events", one.kept, of_policy)


def _compactions(rows: MetricRows) -> Iterator[Metric]:
    counts: Counter[CompactionState] = Counter()
    for group in rows.last:
        counts[group.state] += group.count
    for state in _SHOWN_STATES:
        yield Metric(f"compaction_num_{state.text.replace(' ', '_')}", counts[state])
    failed = counts[CompactionState.FAILED] + counts[CompactionState.DID_NOT_INITIATE]
    ended = failed + counts[CompactionState.SUCCEEDED]
    yield Metric("compaction_failed_ratio", round(failed / ended, 4) if ended else 0.0)
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
    yield Metric("compaction_num_given_up", rows.decisions.get(Kind.GIVEN_UP.name, 0))
    yield Metric("compaction_num_unreadable", rows.decisions.get(Kind.ERROR.name, 0))
    automatic = [g for g in rows.last if g.initiator and not g.initiator.endswith(f"-{_MANUAL}")]
    workers = [g for g in rows.last if g.worker]
    yield Metric("compaction_num_initiators", len({_host(g.initiator) for g in automatic}))
    yield Metric("compaction_num_workers", len({_host(g.worker) for g in workers}))
    yield Metric("compaction_num_initiator_versions", _distinct(g.initiator_version for g in automatic))
    yield Metric("compaction_num_worker_versions", _distinct(g.worker_version for g in workers))


def _host(identity: str | None) -> str:
    """``<host>-<thread>``: Hive's form of an Initiator's or Worker's id."""
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


def _deltas(rows: MetricRows) -> Iterator[Metric]:
    for each in sorted(rows.deltas, key=lambda d: -d.deltas):
        labels = {"table": f"{each.database}.{each.table}"}
        if each.partition:
            labels["partition"] = each.partition
        yield Metric("compaction_num_active_deltas", each.deltas, labels)
