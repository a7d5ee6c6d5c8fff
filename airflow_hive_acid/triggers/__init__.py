"""Airflow triggers: what waits without a worker slot, and what starts a DAG when a table is committed to.

The names of ``__all__`` are public; each is imported when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_hive_acid.faces import lazily

if TYPE_CHECKING:
    from airflow_hive_acid.triggers.commits import HiveAcidCommitTrigger, watched_table

__all__ = ["HiveAcidCommitTrigger", "watched_table"]

_HOMES = {"HiveAcidCommitTrigger": "commits", "watched_table": "commits"}

#: Names of before the prefix was one for all.
_RENAMED = {
    "HiveCommitTrigger": "HiveAcidCommitTrigger",
}

__getattr__ = lazily(__name__, _HOMES, _RENAMED)
