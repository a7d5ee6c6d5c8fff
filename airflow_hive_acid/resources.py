"""Finds what travels with the package: ``dags/``, ``spark_jobs/`` and the optional jar, in checkout or wheel."""

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


def accelerator_jar(spark: str, scala: str) -> Path | None:
    """The optional jar for a Spark, None where it was not built.

    :param spark: version of Spark without its last number, for example ``4.1``.
    :param scala: version of Scala that it was built with, for example ``2.13``.
    """
    path = _PACKAGE / "jars" / f"hive-acid-accelerator-{spark}_{scala}.jar"
    return path if path.is_file() else None
