"""The life of one statement or transaction: parse, plan, lock, run, publish, commit.

``Engine`` is the way in; ``SparkSubmitLauncher`` starts its Spark applications here, other launchers elsewhere. Names
are imported when they are first used: whoever needs one module of this room does not pay for the SQL parser.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from airflow_hive_acid.engine.engine import Engine, EngineTransaction
    from airflow_hive_acid.engine.launcher import JobLauncher, JobSession, SparkSubmitLauncher
    from airflow_hive_acid.engine.results import Rows, StatementResult

__all__ = ["Engine", "EngineTransaction", "JobLauncher", "JobSession", "Rows", "SparkSubmitLauncher", "StatementResult"]

_HOMES = {
    "Engine": "engine",
    "EngineTransaction": "engine",
    "JobLauncher": "launcher",
    "JobSession": "launcher",
    "Rows": "results",
    "SparkSubmitLauncher": "launcher",
    "StatementResult": "results",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
