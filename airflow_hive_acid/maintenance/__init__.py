"""Keeping tables healthy: Initiator, Worker, Cleaner, reaper and history purge.

Each service is a pure decision that says why, with its numbers, and a thin runner that gathers the facts, acts on the
decision and hands it back. Imports ``metastore``, ``filesystem`` and ``format``.
"""

from __future__ import annotations

from airflow_hive_acid.maintenance.cleaner.cleaner import run_cleaner
from airflow_hive_acid.maintenance.decisions import CleaningOutcome, CompactionOutcome, Decision
from airflow_hive_acid.maintenance.initiator.initiator import run_initiator
from airflow_hive_acid.maintenance.reaper.history import run_history_purge
from airflow_hive_acid.maintenance.reaper.reaper import ReaperReport, run_reaper
from airflow_hive_acid.maintenance.worker.worker import run_worker

__all__ = [
    "CleaningOutcome",
    "CompactionOutcome",
    "Decision",
    "ReaperReport",
    "run_cleaner",
    "run_history_purge",
    "run_initiator",
    "run_reaper",
    "run_worker",
]
