"""The Cleaner: removes what compaction has replaced and aborted txns have left, once nobody needs it (Hive's Cleaner).

Runs under Hive's mutex ``Cleaner``. For each finished compaction: may it be cleaned (``cleaner_rules``), which
directories are obsolete for everybody, delete them, look again, and only if nothing is left forget what the compaction
covered. R4: jobs of aborted txns are fenced before anything of them is forgotten. R17: what is not known to be
superfluous stays; every outcome says for whom.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from airflow_hive_acid.maintenance.aborted_writes import clean_aborted_writes
from airflow_hive_acid.maintenance.cleaning import Cleaning
from airflow_hive_acid.maintenance.fences import fence_dead_jobs
from airflow_hive_acid.maintenance.thresholds import CleanerThresholds

if TYPE_CHECKING:
    from airflow_hive_acid.filesystem import Filesystem
    from airflow_hive_acid.maintenance.decisions import CleaningOutcome
    from airflow_hive_acid.metastore import MetastoreClient

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
    thresholds = CleanerThresholds.of(client.settings)
    outcomes: list[CleaningOutcome] = []
    with client.mutexes.try_hold(MUTEX) as mutex:
        if mutex is None:
            log.info("another Cleaner holds the mutex; nothing is done in this look")
            return []
        fence_dead_jobs(client, filesystem)
        for request in client.compactions.find_ready_to_clean(thresholds.retention_ms, thresholds.fetch_size):
            outcomes.append(Cleaning(client, filesystem, thresholds, request).outcome())
            log.info("%s", outcomes[-1])
        for writes in client.compactions.find_aborts_to_clean(
            thresholds.aborted_txns, thresholds.aborted_age_ms, thresholds.fetch_size
        ):
            outcomes.append(clean_aborted_writes(client, filesystem, thresholds, writes))
            log.info("%s", outcomes[-1])
    return outcomes
