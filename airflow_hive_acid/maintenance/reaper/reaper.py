"""The reaper: ends txns whose owners are gone, and what keeps the txn tables small (Hive's housekeepers).

R4: the jobs of a txn are fenced before it is aborted for silence; jobs of txns that somebody else aborted are fenced
in every pass, well inside the thresholds after which a Hive would forget them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from airflow_hive_acid.maintenance.cleaner.trash import purge_trash
from airflow_hive_acid.maintenance.reaper.shared_txns import end_overdue
from airflow_hive_acid.maintenance.warehouse.fences import FenceReport, fence_dead_jobs, fence_jobs_of, finish_jobs

if TYPE_CHECKING:
    from collections.abc import Mapping

    from airflow_hive_acid.filesystem import Filesystem
    from airflow_hive_acid.metastore import MetastoreClient
    from airflow_hive_acid.metastore.txns import Job

FENCED_JOBS_KEPT_MS = 7 * 86_400_000
"""How long the record of a fenced job is kept, for people who look for it."""


@dataclass(frozen=True, slots=True)
class ReaperReport:
    """What a pass of the reaper did.

    :param aborted: txns that were silent for longer than ``hive.txn.timeout``, and those that others had given up
        and not ended.
    :param expired_locks: locks outside txns that were.
    :param overdue: transactions across tasks that nobody ended, and pins that were over: for each, whose it was and
        why it was ended.
    :param fenced: jobs that cannot write any more.
    :param alive: jobs of dead txns that could not be fenced, and why.
    :param purged: what was removed, by housekeeping task: rows, and directories of the trash.
    :param problems: tasks that failed or were skipped, and why.
    """

    aborted: tuple[int, ...] = ()
    expired_locks: int = 0
    overdue: tuple[str, ...] = ()
    fenced: tuple[Job, ...] = ()
    alive: tuple[tuple[Job, str], ...] = ()
    purged: Mapping[str, int] = field(default_factory=dict)
    problems: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        lines = [
            f"{len(self.aborted)} txns aborted, {self.expired_locks} locks expired, {len(self.fenced)} jobs fenced; "
            "removed: " + ", ".join(f"{task}: {number}" for task, number in self.purged.items())
        ]
        if self.aborted:
            lines.append(f"  aborted for silence: {', '.join(map(str, self.aborted))}")
        lines += [f"  {why}" for why in self.overdue]
        lines += [f"  job {job.job_id} of txn {job.txn_id} may still write: {why}" for job, why in self.alive]
        lines += [f"  {task}: {problem}" for task, problem in self.problems.items()]
        return "\n".join(lines)


def run_reaper(client: MetastoreClient, filesystem: Filesystem) -> ReaperReport:
    """Abort what is silent, fence what is dead, purge what is over; one task's failure does not stop the others."""
    fenced: list[Job] = []

    def fence_first(txn_ids: list[int]) -> None:
        why = "its txn sent no heartbeat for too long"
        fenced.extend(fence_jobs_of(client, filesystem, txn_ids, why, silent_only=True).fenced)

    keeper = client.housekeeping
    fenced_since: list[FenceReport] = []
    overdue: list[str] = []
    retention = client.settings.milliseconds("hive.acid.claim.retention")
    reports = {
        # Before the time-outs: those say only that a txn was silent, this says whose it was.
        "transactions across tasks": keeper.run_isolated(
            {"overdue": lambda: overdue.extend(end_overdue(client, filesystem))}
        ),
        "pins": keeper.run_isolated({"over": lambda: overdue.extend(client.pins.end_overdue())}),
        "housekeeping": keeper.run_house_keeper(before_abort=fence_first),
        "fencing": keeper.run_isolated({"fenced": lambda: fenced_since.append(fence_dead_jobs(client, filesystem))}),
        "forgetting txns": keeper.run_txn_cleaner(),
        "others": keeper.run_isolated({
            "replaced": lambda: len(finish_jobs(client, filesystem).fenced),
            "jobs": lambda: client.jobs.forget(FENCED_JOBS_KEPT_MS),
            "claims": lambda: client.claims.forget(retention),
            "transactions across tasks": lambda: client.shared_txns.forget(retention),
            "pins": lambda: client.pins.forget(retention),
            "events": keeper.purge_notifications,
            "trash": lambda: purge_trash(client, filesystem),
            "open txns": keeper.too_many_open,
        }),
    }  # fmt: skip
    time_outs = reports["housekeeping"].done.get("time-outs")
    purged: dict[str, int] = {}
    problems: dict[str, str] = {}
    for name, report in reports.items():
        if report.skipped:
            problems[name] = "another service holds the mutex; skipped in this pass"
        purged |= {task: count for task, count in report.done.items() if isinstance(count, int)}
        problems |= {task: text for task, text in report.done.items() if isinstance(text, str)}
        problems |= {task: f"{type(error).__name__}: {error}" for task, error in report.failed.items()}
    dead = fenced_since[0] if fenced_since else FenceReport()
    return ReaperReport(
        aborted=(*(() if time_outs is None else time_outs.txns), *dead.ended),
        expired_locks=0 if time_outs is None else time_outs.locks,
        overdue=tuple(overdue),
        fenced=(*fenced, *dead.fenced),
        alive=dead.alive,
        purged=purged,
        problems=problems,
    )
