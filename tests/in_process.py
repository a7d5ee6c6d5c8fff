"""A launcher whose application is the Spark session of the tests: no other JVM is started."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    from airflow_hive_acid.format.jobs import JobResult, JobSpec


class InProcess:
    """A launcher whose application is the session of the tests; its steps run in the thread that asks."""

    application_id, is_alive = "in-process", True

    def __init__(self, spark: SparkSession, scratch: Path) -> None:
        self._spark = spark
        self._scratch = scratch

    def start(self, application: Any = None) -> InProcess:
        return self

    def wait_ready(self) -> str:
        return self.application_id

    def run(self, spec: JobSpec) -> JobResult:
        from airflow_hive_acid.engine.applications.spool import error_of
        from airflow_hive_acid.spark.jobs.run import execute

        result = execute(self._spark, spec)
        if result.error is not None:
            raise error_of(result.error)
        return result

    def rows_uri(self, job_id: str) -> str:
        return f"file:{self._scratch}/{job_id}"

    def read_rows(self, uri: str) -> Iterator[list[Any]]:
        from decimal import Decimal

        with open(uri.removeprefix("file:"), encoding="utf-8") as file:
            yield from (json.loads(line, parse_float=Decimal) for line in file)

    def cancel(self) -> None:
        """Nobody does."""

    def close(self) -> None:
        """The session goes on."""
