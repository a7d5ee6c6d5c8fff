"""The life of one statement or transaction: parse, plan, lock, run, publish, commit.

``Engine`` is the way in; ``SparkSubmitLauncher`` starts its Spark applications here, other launchers elsewhere. Names
are imported when they are first used: whoever needs one module of this room does not pay for the SQL parser.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_hive_acid.faces import lazily

if TYPE_CHECKING:
    from airflow_hive_acid.engine.applications.launcher import JobLauncher, JobSession, SparkSubmitLauncher
    from airflow_hive_acid.engine.engine import Engine, EngineTransaction
    from airflow_hive_acid.engine.outcomes.results import Rows, StatementResult

__all__ = ["Engine", "EngineTransaction", "JobLauncher", "JobSession", "Rows", "SparkSubmitLauncher", "StatementResult"]

_HOMES = {
    "Engine": "engine",
    "EngineTransaction": "engine",
    "JobLauncher": "applications.launcher",
    "JobSession": "applications.launcher",
    "Rows": "outcomes.results",
    "SparkSubmitLauncher": "applications.launcher",
    "StatementResult": "outcomes.results",
}


__getattr__ = lazily(__name__, _HOMES)
