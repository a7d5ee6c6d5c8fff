"""Runs one DAG of this repository in this process: no scheduler, no server, exit code 0 only if it succeeds.

``python scripts/run_dag.py hive_acid_demo`` is what ``make demo`` calls. Everything it makes lies in one state
directory: Airflow's own database, the metastore and the warehouse. A second run goes on with that directory; one with
other people's files in it is refused. Other DAGs, such as ``hive_acid_cleaner``, can be run on the same state.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import logging
import os
import sys
import time
import traceback
import warnings
from pathlib import Path
from typing import IO, Any

REPOSITORY = Path(__file__).resolve().parent.parent
DEFAULT_STATE = REPOSITORY / "build" / "demo"
#: A file of this name says that a directory is ours.
MARKER = ".hive-acid-state"


class UnusableStateError(Exception):
    """The state directory cannot be used; the message says why and what to do."""


def main(arguments: list[str] | None = None) -> int:
    """Run a DAG.

    :return: 0 when it succeeded, 1 when it failed, 2 when it could not be started.
    """
    options = _parse(arguments)
    started = time.monotonic()
    try:
        second = prepare_state(options.state)
        lock = hold_state(options.state)
    except UnusableStateError as error:
        print(error, file=sys.stderr)
        return 2
    with lock:
        return _run_in(options, second, started)


def _run_in(options: argparse.Namespace, second: bool, started: float) -> int:
    # Airflow reads its configuration while it is imported, so this comes first.
    os.environ.update(environment(options.state, os.environ, options.verbose))
    print(f"{options.dag} on {'the state of an earlier run' if second else 'new state'} in {options.state}", flush=True)
    state, failed = _run(options.dag, {"directory": str(options.state / "data"), **options.conf})
    seconds = time.monotonic() - started
    if state is None:
        return 2
    if state == "success":
        print(f"\n{options.dag} succeeded in {seconds:.0f} s")
        return 0
    print(f"\n{options.dag} failed after {seconds:.0f} s in {', '.join(failed) or 'no task'}", file=sys.stderr)
    return 1


def prepare_state(directory: Path) -> bool:
    """Make the state directory, or recognise an earlier one.

    :return: whether there was an earlier run.
    :raises UnusableStateError: when it holds files that are not ours.
    """
    marker = directory / MARKER
    if marker.is_file():
        return True
    if directory.exists() and not directory.is_dir():
        raise UnusableStateError(f"{directory} is a file; name a directory with --state")
    if directory.is_dir() and any(directory.iterdir()):
        found = sorted(entry.name for entry in directory.iterdir())[:3]
        raise UnusableStateError(
            f"{directory} is not empty and was not made by this script (it holds {', '.join(found)}); nothing was "
            "touched. Name another directory with --state, or empty this one"
        )
    directory.mkdir(parents=True, exist_ok=True)
    marker.write_text("Made by scripts/run_dag.py; may be removed with everything in this directory.\n")
    return False


def hold_state(directory: Path) -> IO[str]:
    """Keep other processes off the state until the file is closed.

    :raises UnusableStateError: when another process uses it.
    """
    file = (directory / MARKER).open("r+", encoding="utf-8")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        raise UnusableStateError(
            f"another run uses {directory} at this moment; wait for it, or name another directory with --state"
        ) from None
    return file


def environment(state: Path, given: Any, verbose: bool = False) -> dict[str, str]:
    """Variables for an Airflow whose state lies in one directory; connections that are set already stay."""
    spark = {"conn_type": "spark", "host": "local[*]", "extra": {"deploy-mode": "client"}}
    hive_acid = {
        "conn_type": "hive_acid",
        "host": str(state / "metastore.db"),
        "extra": {"dialect": "sqlite", "warehouse": str(state / "warehouse"), "spark_conn_id": "spark_default"},
    }
    variables = {
        "AIRFLOW_HOME": str(state / "airflow"),
        "AIRFLOW__CORE__DAGS_FOLDER": str(REPOSITORY / "dags"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        # All tasks run in this process, so one Spark application serves them all.
        "AIRFLOW__HIVE_ACID__SHARE_SPARK": "True",
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{state / 'airflow' / 'airflow.db'}",
        # Our own loggers say what happens; Airflow's messages would bury it.
        "AIRFLOW__LOGGING__LOGGING_LEVEL": "INFO" if verbose else "CRITICAL",
    }
    for name, connection in (("SPARK_DEFAULT", spark), ("HIVE_ACID_DEFAULT", hive_acid)):
        if f"AIRFLOW_CONN_{name}" not in given:
            variables[f"AIRFLOW_CONN_{name}"] = json.dumps(connection)
    return variables


def _run(dag_id: str, conf: dict[str, Any]) -> tuple[str | None, list[str]]:
    """Run a DAG; returns its state, None when there is no such DAG, and the tasks that failed."""
    with warnings.catch_warnings():
        # Airflow's own imports warn about its own dependencies.
        warnings.simplefilter("ignore")
        from airflow.utils import db

        from airflow_hive_acid.airflow_versions import DagBag

        db.initdb()
        bag = DagBag(str(REPOSITORY / "dags"))
    for path, error in bag.import_errors.items():
        print(f"{path}\n{error}", file=sys.stderr)
    dag = bag.dags.get(dag_id)
    if dag is None or bag.import_errors:
        known = ", ".join(sorted(bag.dags))
        print(f"{dag_id} cannot be run; the DAGs that can are {known}", file=sys.stderr)
        return None, []
    _print_story()
    for operator in dag.tasks:
        if operator.is_mapped:
            operator.partial_kwargs["on_failure_callback"] = [_tell_failure]
        else:
            operator.on_failure_callback = [_tell_failure]
    run = dag.test(run_conf={key: value for key, value in conf.items() if key in dag.params})
    failed = [instance.task_id for instance in run.get_task_instances() if instance.state == "failed"]
    return str(run.state), failed


def _tell_failure(context: Any) -> None:
    """Why a task failed; with the way there, unless the error is one that speaks for itself."""
    from airflow_hive_acid.airflow_versions import AirflowException
    from airflow_hive_acid.errors import HiveAcidError

    error = context["exception"]
    cause = error.__cause__ if isinstance(error.__cause__, HiveAcidError) else error
    print(f"\n{context['task'].task_id} FAILED  {type(cause).__name__}: {cause}", file=sys.stderr)
    for note in getattr(cause, "__notes__", ()):
        print(note, file=sys.stderr)
    if not isinstance(cause, HiveAcidError | AirflowException):
        traceback.print_exception(error)


def _print_story() -> None:
    """Print what our own code logs as plain lines."""
    from airflow_hive_acid.dag_factories.demo.story import StoryHandler

    logger = logging.getLogger("airflow_hive_acid")
    logger.setLevel(logging.INFO)
    logger.propagate = False
    logger.handlers = [StoryHandler(sys.stdout)]


def _parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Run one DAG of this repository in this process.")
    parser.add_argument("dag", help="id of the DAG, for example hive_acid_demo")
    parser.add_argument("--state", type=Path, default=DEFAULT_STATE, help="directory for everything it makes")
    parser.add_argument("--verbose", action="store_true", help="print Airflow's own log as well")
    parser.add_argument("--conf", type=json.loads, default={}, help="the run's parameters, as a JSON object")
    options = parser.parse_args(arguments)
    options.state = options.state.expanduser().absolute()
    return options


if __name__ == "__main__":
    sys.exit(main())
