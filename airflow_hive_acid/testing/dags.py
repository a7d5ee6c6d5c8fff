"""Running a DAG in a test's own process, whether or not it lies in Airflow's DAGs folder."""

from __future__ import annotations

import warnings
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from airflow.sdk import DAG

_BUNDLE = "hive_acid_tests"


def register(dag: DAG) -> DAG:
    """Make a DAG known to Airflow, as ``dag.test()`` wants it; Airflow's own database is made if it has none."""
    from airflow.models.dagbundle import DagBundleModel
    from airflow.utils.session import create_session  # noqa: TID251 - the test prepares Airflow's own database

    from airflow_hive_acid.airflow_versions import DagBag, sync_bag_to_db

    make_database()
    with create_session() as session:
        session.merge(DagBundleModel(name=_BUNDLE))
    bag = DagBag("/dev/null", collect_dags=False)
    bag.bag_dag(dag)
    sync_bag_to_db(bag, _BUNDLE, "1")
    return dag


def run_dag(dag: DAG, **conf: Any) -> Any:
    """Run all tasks of a DAG here, deferred ones included.

    :param conf: configuration of the run.
    :return: Airflow's DAG run: its ``state``, and ``get_task_instances()`` with their XComs.
    """
    return register(dag).test(run_conf=conf)


@cache
def make_database() -> None:
    """Make Airflow's own database, once."""
    from airflow.utils import db

    with warnings.catch_warnings():
        # What Airflow warns about in its own code is nobody's failure.
        warnings.simplefilter("ignore")
        db.initdb()
