"""What a real Spark answers to SQL."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from airflow_hive_acid.engine import Engine


def rows(engine: Engine, script: str) -> list[list[Any]]:
    """The rows of the last statement of a script, in their order."""
    found = engine.run(script)[-1].rows
    assert found is not None
    return found.rows
