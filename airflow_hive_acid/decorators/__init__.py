"""TaskFlow decorators: ``@task.hive_acid_sql`` and ``@task.hive_acid_pyspark``.

The names of ``__all__`` are public; each is imported when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_hive_acid.faces import lazily

if TYPE_CHECKING:
    from airflow_hive_acid.decorators.tasks import hive_acid_pyspark_task, hive_acid_sql_task

__all__ = ["hive_acid_pyspark_task", "hive_acid_sql_task"]

_HOMES = {"hive_acid_pyspark_task": "tasks", "hive_acid_sql_task": "tasks"}

__getattr__ = lazily(__name__, _HOMES)
