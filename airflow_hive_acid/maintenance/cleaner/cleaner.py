"""The Cleaner: removes what compaction has replaced and aborted txns have left, once nobody needs it (Hive's Cleaner).

Runs under Hive's mutex ``Cleaner``. For each finished compaction: may it be cleaned (``rules.py``), which
directories are obsolete for everybody, delete them, look again, and only if nothing is left forget what the compaction
covered. R4: jobs of aborted txns are fenced before anything of them is forgotten. R17: what is not known to be
superfluous stays; every outcome says for whom, and is written down in HIVE_ACID_CLEANING.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from airflow_hive_acid.errors import HiveAcidError
from airflow_hive_acid.maintenance.cleaner.aborted_writes import clean_aborted_writes
from airflow_hive_acid.maintenance.cleaner.cleaning import clean_up
from airflow_hive_acid.maintenance.cleaner.look import Look
from airflow_hive_acid.maintenance.decisions import CleaningOutcome, Kind
from airflow_hive_acid.maintenance.warehouse.fences import fence_dead_jobs
from airflow_hive_acid.metastore.compaction import CompactionState, CompactionType

if TYPE_CHECKING:
    from airflow_hive_acid.filesystem import Filesystem
    from airflow_hive_acid.metastore import MetastoreClient
    from airflow_hive_acid.metastore.compaction import Compaction

log = logging.getLogger(__name__)

MUTEX = "Cleaner"


def run_cleaner(client: MetastoreClient, filesystem: Filesystem) -> list[CleaningOutcome]:
    """Look once.

    :return: an outcome per finished compaction and per table or partition with aborted writes that are due; empty
        when another Cleaner is at work.
    """
    if not client.settings.flag("hive.compactor.cleaner.on"):
        log.info("hive.compactor.cleaner.on is false; the Cleaner does nothing")
        return []
    outcomes: list[CleaningOutcome] = []
    with client.mutexes.try_hold(MUTEX) as mutex:
        if mutex is None:
            log.info("another Cleaner holds the mutex; nothing is done in this look")
            return []
        look = Look.begin(client, filesystem)
        fence_dead_jobs(client, filesystem)
        for over in client.pins.end_overdue():
            log.info("dropped %s", over)
        for request in look.ready():
            outcomes.append(clean_up(look, request))
            _tell(client, outcomes[-1])
        # Otherwise the Initiator asks for compactions where there are too many, as Hive before 4.0 did.
        if client.settings.flag("hive.compactor.clean.aborts.using.cleaner"):
            due = look.thresholds.aborted_txns, look.thresholds.aborted_age_ms, look.thresholds.fetch_size
            for writes in client.compactions.find_aborts_to_clean(*due):
                outcomes.append(clean_aborted_writes(look, writes))
                _tell(client, outcomes[-1])
    return outcomes


def explain_cleaning(client: MetastoreClient, filesystem: Filesystem) -> list[CleaningOutcome]:
    """What a look would do now about each finished compaction, and what it would keep for whom; changes nothing.

    Also about those that wait for their time: after a failure, or for the retention of delayed clean-up.
    """
    look = Look.begin(client, filesystem, dry_run=True)
    thresholds, outcomes = look.thresholds, [clean_up(look, request) for request in look.ready()]
    looked = {outcome.request_id for outcome in outcomes}
    for request in client.compactions.show(state=CompactionState.READY_FOR_CLEANING):
        if request.id not in looked and request.type is not CompactionType.ABORT_TXN_CLEANUP:
            outcomes.append(CleaningOutcome(request.resource, Kind.WAITING, _turn(request), {}, request_id=request.id))
    for writes in client.compactions.find_aborts_to_clean(0, 0, thresholds.fetch_size):
        reason = f"{writes.components} components of aborted txns; they are removed when there are more than "
        reason += f"{thresholds.aborted_txns}, or the oldest is {thresholds.aborted_age_ms // 3_600_000} h old"
        outcomes.append(CleaningOutcome(writes.resource, Kind.WAITING, reason, {"components": writes.components}))
    return outcomes


def _turn(request: Compaction) -> str:
    if request.error:
        return f"its clean-up failed ({request.error}); it is tried again {request.retry_retention // 1000} s later"
    return "another compaction of it comes first, or its retention time (delayed clean-up) is not over"


def _tell(client: MetastoreClient, outcome: CleaningOutcome) -> None:
    """Log an outcome and write it down; a record that cannot be written stops no clean-up."""
    log.info("%s", outcome)
    try:
        lasts = outcome.kind in (Kind.WAITING, Kind.KEPT, Kind.ERROR) and not outcome.removed
        client.cleanings.note(
            outcome.resource, outcome.request_id, outcome.kind.value, outcome.reason, outcome.details(), lasts=lasts
        )
    except HiveAcidError as error:
        log.warning("what was cleaned could not be written down: %s", error)
