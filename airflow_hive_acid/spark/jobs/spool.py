"""The driver's end of a Spark session: specs come in, results go out, through a directory.

``NNNN.spec.json`` is answered by ``NNNN.result.json``; ``ready.json`` says that we are there, ``here`` that we still
are, ``alive`` that the control plane is, ``close`` that nothing more will come. Every file of ours appears whole or
not at all. A driver that finds an answer or a ``ready.json`` where it should be the first was started a second time
and leaves (R5).
"""

from __future__ import annotations

import json
import logging
import os
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_hive_acid.errors import InvalidArgumentsError, JobFailedError
from airflow_hive_acid.format.jobs import JobError, JobResult
from airflow_hive_acid.format.jobs.documents import spec_from_json, to_json
from airflow_hive_acid.spark.hadoop import HadoopFilesystem
from airflow_hive_acid.spark.jobs.run import execute

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

    from airflow_hive_acid.format.jobs import JobSpec

log = logging.getLogger(__name__)

READY, ALIVE, CLOSE, HERE = "ready.json", "alive", "close", "here"
HERE_SECONDS = 10.0
"""So often do we say that we are here; the control plane waits many times as long before it believes otherwise."""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.005, 0.1
_ALIVE_LOOK_SECONDS = 2.0


@dataclass
class _Sign:
    """The last sign of the control plane: what ``alive`` held, and when it last changed, by our own clock."""

    text: str | None
    at: float


class Spool:
    """Serves one spool directory until the control plane closes it or is gone.

    :param uri: the directory; it exists.
    :param idle_seconds: after how long without a change of ``alive``, and without a step running, to leave.
    :param run: runs a step.
    :param is_over: whether to leave all the same; asked between two steps.
    """

    def __init__(
        self,
        spark: SparkSession,
        uri: str,
        idle_seconds: float,
        clock: Callable[[], float] = time.monotonic,
        here_seconds: float = HERE_SECONDS,
        *,
        run: Callable[[SparkSession, JobSpec], JobResult] = execute,
        is_over: Callable[[], bool] = lambda: False,
    ) -> None:
        self._spark = spark
        self._fs = HadoopFilesystem.of(spark)
        self._uri = uri.rstrip("/")
        self._idle_seconds = idle_seconds
        self._clock = clock
        self._here_seconds = here_seconds
        self._run = run
        self._is_over = is_over

    def serve(self) -> int:
        """Answer steps in their order.

        :return: how many were answered.
        :raises InvalidArgumentsError: when another driver has served this spool.
        """
        self._announce()
        over = threading.Event()
        beats = threading.Thread(target=self._keep_saying, args=(over,), name="hive-acid-here", daemon=True)
        beats.start()
        try:
            return self._serve()
        finally:
            over.set()

    def _serve(self) -> int:
        number = 1
        sign = _Sign(None, self._clock())
        pause = _FIRST_PAUSE
        while True:
            if self._is_over():
                return number - 1
            if self._fs.exists(f"{self._uri}/{number:04d}.spec.json"):
                self._answer(number)
                number += 1
                # While a step runs nobody looks at alive: the wait begins anew.
                sign.at = self._clock()
                pause = _FIRST_PAUSE
            elif self._fs.exists(f"{self._uri}/{CLOSE}") or not self._is_alive(sign):
                return number - 1
            else:
                time.sleep(pause)
                pause = min(pause * 1.5, _LONGEST_PAUSE)

    def _keep_saying(self, over: threading.Event) -> None:
        """Not from the loop that serves: a step may take hours."""
        number = 0
        while not over.wait(self._here_seconds):
            number += 1
            try:
                self._say_here(number)
            except Exception as problem:  # noqa: BLE001 - one missed sign is nothing; a JVM that died ends the step too
                log.warning("the control plane was not told that this driver is alive: %s", problem)

    def _say_here(self, number: int) -> None:
        self._fs.replace_text(f"{self._uri}/{HERE}", str(number))

    def _announce(self) -> None:
        ready = f"{self._uri}/{READY}"
        if self._fs.exists(ready):
            raise InvalidArgumentsError(
                f"{ready} exists: another driver serves this spool, or did; a restarted driver must not write again"
            )
        self._say_here(0)
        context = self._spark.sparkContext
        said = {"application_id": context.applicationId, "spark_version": context.version, "pid": os.getpid()}
        self._fs.write_text_atomically(ready, json.dumps(said))

    def _answer(self, number: int) -> None:
        text = self._fs.read_text(f"{self._uri}/{number:04d}.spec.json") or ""
        answer = f"{self._uri}/{number:04d}.result.json"
        if self._fs.exists(answer):
            raise JobFailedError(f"{answer} exists: this step was answered by another driver")
        try:
            spec = spec_from_json(text)
        except ValueError as error:
            result = unreadable(text, error, self._spark.sparkContext.applicationId)
        else:
            result = self._run(self._spark, spec)
        self._fs.write_text_atomically(answer, to_json(result))

    def _is_alive(self, sign: _Sign) -> bool:
        """Whether the control plane has given a sign lately; looks at the file only now and then."""
        now = self._clock()
        if now - sign.at < min(_ALIVE_LOOK_SECONDS, self._idle_seconds):
            return True
        text = self._fs.read_text(f"{self._uri}/{ALIVE}")
        if text != sign.text:
            sign.text, sign.at = text, now
        return now - sign.at < self._idle_seconds


def unreadable(text: str, error: ValueError, application_id: str) -> JobResult:
    """The answer to a spec that cannot be read; under its job's id, if that can be.

    :param error: what is wrong with it.
    """
    try:
        job_id = str(json.loads(text)["job_id"])
        job_id.encode()
    except (ValueError, KeyError, TypeError, RecursionError):
        job_id = ""
    return JobResult(job_id, application_id, error=JobError("InvalidArgumentsError", str(error)))
