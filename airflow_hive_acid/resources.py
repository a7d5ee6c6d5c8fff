"""Finds what travels beside the package: ``dags/`` and ``spark_jobs/``, in a checkout and in an installed wheel."""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent


def _folder(name: str) -> Path:
    for candidate in (_PACKAGE / f"_{name}", _PACKAGE.parent / name):
        if candidate.is_dir():
            return candidate
    raise FileNotFoundError(f"{name}/ is neither inside {_PACKAGE} nor beside it; reinstall airflow-hive-acid")


def dags_folder() -> Path:
    """The folder with the DAG files that come with this package."""
    return _folder("dags")


def spark_job(name: str) -> Path:
    """The main file of a Spark job.

    :param name: file name without ending, for example ``session``.
    :return: absolute path, to be handed to spark-submit.
    :raises FileNotFoundError: when the package is not completely installed.
    """
    path = _folder("spark_jobs") / f"{name}.py"
    if not path.is_file():
        raise FileNotFoundError(f"{path} is missing; reinstall airflow-hive-acid")
    return path
