"""Builder of the DAGs that keep Spark services alive: one for each name in ``[hive_acid] spark_services``.

The only task of a run is the service. When it ends, Airflow starts the next run at once; when it dies, it is tried
again first, with longer and longer pauses, so that a Spark that cannot start does not start all the time.
"""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG

from airflow_hive_acid.airflow_versions import conf
from airflow_hive_acid.errors import InvalidArgumentsError
from airflow_hive_acid.format.services import service_name
from airflow_hive_acid.hooks.configuration import DEFAULT_CONN_ID, SECTION
from airflow_hive_acid.operators.services import HiveAcidSparkServiceOperator

OPTION = "spark_services"
DAG_ID = "hive_acid_spark_service"


def spark_service_dags(names: list[str] | None = None) -> list[DAG]:
    """The DAGs that keep Spark services alive.

    :param names: of the services; by default those of ``[hive_acid] spark_services``.
    :raises InvalidArgumentsError: when one cannot be a name; names the option.
    """
    if names is None:
        text = str(conf.get(SECTION, OPTION, fallback=None) or "")
        names = [name for name in text.replace(",", " ").split() if name]
    try:
        return [_dag(service_name(name)) for name in dict.fromkeys(names)]
    except InvalidArgumentsError as error:
        raise InvalidArgumentsError(f"[{SECTION}] {OPTION}: {error}") from None


def _dag(name: str) -> DAG:
    with DAG(
        f"{DAG_ID}_{name}",
        schedule="@continuous",
        catchup=False,
        max_active_runs=1,
        tags=["hive-acid"],
        default_args={
            "owner": "hive-acid", "retries": 10, "retry_delay": timedelta(seconds=10),
            "retry_exponential_backoff": True, "max_retry_delay": timedelta(minutes=10),
        },
        doc_md=f"Keeps the Spark service `{name}` alive. It takes a worker slot as long as it runs.",
    ) as dag:  # fmt: skip
        HiveAcidSparkServiceOperator(
            task_id="serve",
            service=name,
            hive_acid_conn_id=conf.get(SECTION, "conn_id", fallback=DEFAULT_CONN_ID),
            execution_timeout=None,
        )
    return dag
