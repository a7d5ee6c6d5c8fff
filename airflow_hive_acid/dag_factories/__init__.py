"""Builders of the DAGs that come with the package; the files in ``dags/`` only call them.

The names of ``__all__`` are public; each is imported when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_hive_acid.faces import lazily

if TYPE_CHECKING:
    from airflow_hive_acid.dag_factories.maintenance import (
        cleaner_dag,
        history_purge_dag,
        initiator_dag,
        reaper_dag,
        worker_dag,
    )
    from airflow_hive_acid.dag_factories.replication import replication_dags
    from airflow_hive_acid.dag_factories.services import spark_service_dags

__all__ = [
    "cleaner_dag",
    "history_purge_dag",
    "initiator_dag",
    "reaper_dag",
    "replication_dags",
    "spark_service_dags",
    "worker_dag",
]

_HOMES = {
    "cleaner_dag": "maintenance",
    "history_purge_dag": "maintenance",
    "initiator_dag": "maintenance",
    "reaper_dag": "maintenance",
    "replication_dags": "replication",
    "spark_service_dags": "services",
    "worker_dag": "maintenance",
}

__getattr__ = lazily(__name__, _HOMES)
