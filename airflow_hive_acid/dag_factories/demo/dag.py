"""The demo as a DAG: thirteen tasks, each with a headline.

``load`` and ``change`` are what a DAG author writes: a ``HiveAcidOperator`` with a SQL file. The rest shows what
happens around them: readers, conflicts, compaction, and a check by somebody else's arithmetic.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from airflow.sdk import DAG, Param, chain, task

from airflow_hive_acid.airflow_versions import conf
from airflow_hive_acid.dag_factories.demo import data, story
from airflow_hive_acid.hooks.configuration import DEFAULT_CONN_ID, SECTION
from airflow_hive_acid.operators.hive_acid import HiveAcidOperator

_CONN = "{{ params.hive_acid_conn_id }}"
_DIRECTORY = "{{ params.directory }}"


def demo_dag() -> DAG:
    """A year of real flights, loaded, changed in one transaction, replicated, compacted, cleaned and checked."""
    with DAG(
        "hive_acid_demo",
        schedule=None,
        catchup=False,
        max_active_runs=1,
        tags=["hive-acid", "demo"],
        doc_md=demo_dag.__doc__,
        template_searchpath=[str(Path(__file__).parent / "sql")],
        user_defined_filters={"sql_literal": sql_literal},
        render_template_as_native_obj=False,
        params=_params(),
        default_args={
            "owner": "hive-acid",
            "retries": 0,
            "on_execute_callback": story.task_begins,
            "on_success_callback": story.task_ends,
        },
    ) as dag:
        reader = _open_reader(_CONN)
        chain(
            _prepare(_CONN, _DIRECTORY),
            HiveAcidOperator(
                task_id="load",
                doc="Load a year of flights, by month, with airlines and planes as dimensions",
                sql="load.sql",
                hive_acid_conn_id=_CONN,
            ),
            _replicate(_CONN, _DIRECTORY),
            reader,
            HiveAcidOperator(
                task_id="change",
                doc="Restate a month, rename an airline and forget a carrier, in one transaction",
                sql="change.sql",
                one_transaction=True,
                hive_acid_conn_id=_CONN,
            ),
            _refuse_conflict(_CONN),
            _compare_replica(_CONN, _DIRECTORY),
            _initiate(_CONN),
            _compact(_CONN),
            _clean_while_read(_CONN, reader),
            _check_both_sights(_CONN, _DIRECTORY, reader),
            _release_and_clean(_CONN, reader),
            _final_check(_CONN, _DIRECTORY),
        )
    return dag


def sql_literal(text: str) -> str:
    """A text as a SQL string literal."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def _params() -> dict[str, Any]:
    home = Path(os.environ.get("AIRFLOW_HOME", "~/airflow")).expanduser()
    constants = {
        "restated_month": data.RESTATED_MONTH,
        "renamed_carrier": data.RENAMED_CARRIER,
        "renamed_to": data.RENAMED_TO,
        "renamed_on": data.RENAMED_ON,
        "forgotten_carrier": data.FORGOTTEN_CARRIER,
    }
    return {
        "hive_acid_conn_id": Param(
            conf.get(SECTION, "conn_id", fallback=DEFAULT_CONN_ID),
            type="string",
            description="Connection of type hive_acid to work on.",
        ),
        "directory": Param(
            str(home / "hive_acid_demo"),
            type="string",
            description="Directory for the CSV files; Spark must be able to read it.",
        ),
        # What the SQL files are filled with; constants, because pandas computes with the same ones.
        **{name: Param(value, const=value) for name, value in constants.items()},
    }


@task(task_id="prepare", doc="Unpack the flights that left New York City in 2013")
def _prepare(conn_id: str, directory: str) -> None:
    from airflow_hive_acid.dag_factories.demo import steps

    steps.prepare(conn_id, directory)


@task(task_id="open_reader", doc="A reader opens its snapshot, before anything is changed")
def _open_reader(conn_id: str) -> dict[str, Any]:
    from airflow_hive_acid.dag_factories.demo import steps

    return steps.open_reader(conn_id)


@task(task_id="refuse_conflict", doc="Two transactions change the same row: the second is refused")
def _refuse_conflict(conn_id: str) -> None:
    from airflow_hive_acid.dag_factories.demo import steps

    steps.refuse_conflict(conn_id)


@task(task_id="replicate", doc="All tables are copied to a second metastore and warehouse")
def _replicate(conn_id: str, directory: str) -> None:
    from airflow_hive_acid.dag_factories.demo import replication

    replication.replicate_first(conn_id, directory)


@task(task_id="compare_replica", doc="The replica gets what was changed, and is compared row by row")
def _compare_replica(conn_id: str, directory: str) -> None:
    from airflow_hive_acid.dag_factories.demo import replication

    replication.follow_and_compare(conn_id, directory)


@task(task_id="initiate", doc="The Initiator looks for tables and partitions that need compaction")
def _initiate(conn_id: str) -> None:
    from airflow_hive_acid.dag_factories.demo import steps

    steps.initiate(conn_id)


@task(task_id="compact", doc="The Worker compacts what is queued")
def _compact(conn_id: str, **context: Any) -> None:
    from airflow_hive_acid.dag_factories.demo import steps
    from airflow_hive_acid.hooks.tasks import worker_id

    steps.compact(conn_id, worker_id(context))


@task(task_id="clean_while_read", doc="The Cleaner runs while the reader is still there")
def _clean_while_read(conn_id: str, reader: Any) -> None:
    from airflow_hive_acid.dag_factories.demo import steps

    steps.clean_while_read(conn_id, reader)


@task(task_id="check_both_sights", doc="Old reader and new reader, after compaction and Cleaner")
def _check_both_sights(conn_id: str, directory: str, reader: Any) -> None:
    from airflow_hive_acid.dag_factories.demo import steps

    steps.check_both_sights(conn_id, directory, reader)


@task(task_id="release_and_clean", doc="The reader lets go, and the Cleaner runs again")
def _release_and_clean(conn_id: str, reader: Any) -> None:
    from airflow_hive_acid.dag_factories.demo import steps

    steps.release_and_clean(conn_id, reader)


@task(task_id="final_check", doc="Everything once more, against pandas")
def _final_check(conn_id: str, directory: str) -> None:
    from airflow_hive_acid.dag_factories.demo import steps

    steps.final_check(conn_id, directory)
