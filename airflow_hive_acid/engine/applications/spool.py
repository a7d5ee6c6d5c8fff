"""The control plane's end of a Spark session: specs in, results out, through a directory (decision 1).

``NNNN.spec.json`` goes in, ``NNNN.result.json`` comes back, ``ready.json`` says that the driver is there, ``here``
that it still is, ``alive`` that we are, ``close`` that we are done. Every file appears whole or not at all. How the
driver was started, and how it is stopped, is the business of a :class:`Driver`; so one session serves a subprocess
here and a cluster elsewhere.
"""

from __future__ import annotations

import contextlib
import json
import threading
import time
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Protocol

from airflow_hive_acid.engine.applications.spark_version import require_driver_version
from airflow_hive_acid.errors import ConfigurationError, JobFailedError
from airflow_hive_acid.format import spool_files
from airflow_hive_acid.format.jobs.documents import result_from_json, to_json
from airflow_hive_acid.format.jobs.errors import reported

if TYPE_CHECKING:
    from collections.abc import Iterator

    from airflow_hive_acid.errors import HiveAcidError
    from airflow_hive_acid.filesystem import StreamingFilesystem
    from airflow_hive_acid.format.jobs import JobError, JobResult, JobSpec

#: How often ``alive`` changes; the driver waits many times as long before it believes that we are gone.
ALIVE_SECONDS = 5.0
#: A driver whose ``here`` stands still for so long is gone, whatever became of the program that started it: a
#: spark-submit may outlive its driver for ever. Many times what it takes a driver to write it.
SILENT_SECONDS = 180.0
#: Between two looks at ``here``.
_LOOK_SECONDS = 10.0
#: So long may the thread that says that we are here take to end; its storage may hang.
_JOIN_SECONDS = 10.0
#: First and longest pause between two looks at the spool.
POLL_SECONDS = (0.005, 0.1)


class Driver(Protocol):
    """A started Spark application, seen from outside."""

    def exit_code(self) -> int | None:
        """None while it runs."""

    def stop(self) -> None:
        """End it now, with everything it started. Fine if it has ended."""

    def wait(self, seconds: float) -> bool:
        """Wait for it to end by itself; whether it did."""

    def log_tail(self) -> str:
        """The last lines of its log."""

    def release(self) -> None:
        """It has ended: remove what was kept for it alone."""


class SpoolSession:
    """A :class:`~airflow_hive_acid.engine.applications.launcher.JobSession` over a spool directory.

    :param filesystem: where the spool lies.
    :param uri: the spool directory; it exists and is empty but for what ``driver`` put there.
    :param driver: the application that reads it.
    :param start_seconds: how long the application may take until it is ready.
    :param close_seconds: how long it may take to leave when asked to.
    :param silent_seconds: after how long without a sign of life it is gone, once it has given one.
    :param swept: whether the driver outlives us and removes what we leave; it may write there while we leave.
    """

    def __init__(
        self,
        filesystem: StreamingFilesystem,
        uri: str,
        driver: Driver,
        *,
        start_seconds: float = 300.0,
        close_seconds: float = 10.0,
        silent_seconds: float = SILENT_SECONDS,
        swept: bool = False,
    ) -> None:
        self._filesystem = filesystem
        self._uri = uri.rstrip("/")
        self._driver = driver
        self._start_seconds = start_seconds
        self._close_seconds = close_seconds
        self._silent_seconds = silent_seconds
        self._swept = swept
        self._sign: str | None = None
        self._heard = self._looked = time.monotonic()
        self._started = time.monotonic()
        self._ready: dict[str, Any] | None = None
        self._number = 0
        self._one_step = threading.Lock()
        self._ended = threading.Event()
        self._cancelled = False
        self._closed = False
        self._beat(0)
        self._alive = threading.Thread(target=self._keep_alive, name="hive-acid-spool", daemon=True)
        self._alive.start()

    @property
    def application_id(self) -> str | None:
        """Spark's id of the application, None until it is ready."""
        return None if self._ready is None else str(self._ready["application_id"])

    @property
    def is_alive(self) -> bool:
        """Whether another step can be given to it."""
        return not self._closed and not self._cancelled and self._driver.exit_code() is None

    @property
    def exit_code(self) -> int | None:
        """With what the application has ended, None while it runs."""
        return self._driver.exit_code()

    def log_tail(self) -> str:
        """The last lines of its log."""
        return self._driver.log_tail()

    def wait_ready(self) -> str:
        """Wait until the application has started.

        :return: its application id.
        :raises JobFailedError: when it ended before, or took too long; it is stopped then.
        :raises ConfigurationError: when its Spark is none that this package supports; it is stopped then.
        """
        if self._ready is None:
            deadline = self._started + self._start_seconds
            text = self._await("ready.json", deadline, "while it started")
            application_id, version = _application_of(text)
            try:
                require_driver_version(version)
            except ConfigurationError:
                self.cancel()
                raise
            self._ready = {"application_id": application_id}
        return str(self._ready["application_id"])

    def run(self, spec: JobSpec) -> JobResult:
        """Run one step and wait for its result; steps of several threads run one after the other.

        Interrupted (``KeyboardInterrupt``), it stops the application: a step that nobody waits for must not go on.

        :raises HiveAcidError: of the class that the job named, for example ``BadRecordError``.
        :raises JobFailedError: when the application ended without a result.
        """
        with self._one_step:
            try:
                self.wait_ready()
                self._number += 1
                name = f"{self._number:04d}"
                put(self._filesystem, f"{self._uri}/{name}.spec.json", to_json(spec))
                text = self._await(f"{name}.result.json", None, "while it ran a step")
            except BaseException as failure:
                if not isinstance(failure, Exception):
                    self.cancel()
                raise
        return self._checked(spec, text)

    def rows_uri(self, job_id: str) -> str:
        """Where a select of this session leaves its rows."""
        return f"{self._uri}/rows-{job_id}.jsonl"

    def read_rows(self, uri: str) -> Iterator[list[Any]]:
        """The rows of a select, one after the other, then remove them; fractions come with all their digits."""
        for line in self._filesystem.read_text(uri).split("\n"):
            if line:
                yield json.loads(line, parse_float=Decimal)
        self._filesystem.delete(uri, inside=self._uri)

    def cancel(self) -> None:
        """Stop the application at once, from any thread; a running step fails."""
        self._cancelled = True
        self._ended.set()
        self._driver.stop()

    def close(self) -> None:
        """Ask the application to leave, stop it if it does not, and remove the spool."""
        if self._closed:
            return
        self._closed = True
        try:
            if self._driver.exit_code() is None and not self._cancelled:
                put(self._filesystem, f"{self._uri}/close", "")
                # Before it is ready it would not look at the spool for seconds; there is nothing to wait for.
                if self._ready is not None:
                    self._driver.wait(self._close_seconds)
        finally:
            self._ended.set()
            self._driver.stop()
            self._alive.join(_JOIN_SECONDS)
            self._driver.release()
            with contextlib.suppress(OSError) if self._swept else contextlib.nullcontext():
                self._filesystem.delete(self._uri, inside=self._uri.rpartition("/")[0])

    def _await(self, name: str, deadline: float | None, doing: str) -> str:
        """The text of a file that the driver writes."""
        uri, pause = f"{self._uri}/{name}", POLL_SECONDS[0]
        self._heard = self._looked = time.monotonic()
        while True:
            # The order matters: what is written before the end must be seen after the end.
            code = self._driver.exit_code()
            if self._filesystem.exists(uri):
                return self._filesystem.read_text(uri)
            if self._cancelled:
                raise JobFailedError(f"the Spark application was cancelled {doing}")
            if code is not None:
                raise JobFailedError(f"the Spark application ended with code {code} {doing}\n{self._driver.log_tail()}")
            if self._is_silent():
                self.cancel()
                raise JobFailedError(
                    f"the Spark driver has given no sign of life for {self._silent_seconds:.0f} s {doing} and was "
                    f"stopped; the program that started it had not ended\n{self._driver.log_tail()}"
                )
            if deadline is not None and time.monotonic() > deadline:
                self.cancel()
                raise JobFailedError(
                    f"the Spark application was not ready after {self._start_seconds:.0f} s and was stopped; "
                    f"the cluster may have no room for it\n{self._driver.log_tail()}"
                )
            self._ended.wait(pause)
            pause = min(pause * 1.5, POLL_SECONDS[1])

    def _is_silent(self) -> bool:
        """Whether the driver has not been heard of for too long, by our own clock; looks only now and then."""
        now = time.monotonic()
        if now - self._looked < min(_LOOK_SECONDS, self._silent_seconds / 4):
            return False
        self._looked = now
        try:
            sign = self._filesystem.read_text(f"{self._uri}/here")
        except FileNotFoundError:
            return False  # it has not started, which has a bound of its own
        if sign != self._sign:
            self._sign, self._heard = sign, now
        return now - self._heard > self._silent_seconds

    def _checked(self, spec: JobSpec, text: str) -> JobResult:
        try:
            result = result_from_json(text)
        except ValueError as error:
            raise JobFailedError(f"the result of job {spec.job_id} cannot be read: {error}") from error
        if result.job_id != spec.job_id:
            raise JobFailedError(f"the driver answered job {spec.job_id} with the result of {result.job_id}")
        if result.error is not None:
            # A JVM that died shows in the Python driver as a broken connection; its own log says more.
            if self._driver.wait(0.5 if result.error.type == "JobFailedError" else 0.0):
                code = self._driver.exit_code()
                raise JobFailedError(
                    f"the Spark application ended with code {code} while it ran a step: {result.error.message}\n"
                    f"{self._driver.log_tail()}"
                )
            raise error_of(result.error)
        return result

    def _keep_alive(self) -> None:
        beat = 0
        while not self._ended.wait(ALIVE_SECONDS):
            beat += 1
            try:
                self._beat(beat)
            except OSError:
                # One missed beat is nothing; if the storage is gone for good, run() meets the same error.
                continue

    def _beat(self, number: int) -> None:
        put(self._filesystem, f"{self._uri}/alive", str(number))


def put(filesystem: StreamingFilesystem, uri: str, text: str) -> None:
    """Write a file of a spool; on a disk with the rights of its directory, elsewhere the storage decides."""
    path = filesystem.local_path(uri)
    if path is None:
        filesystem.write_text(uri, text)
    else:
        spool_files.replace(path, text)


def _application_of(text: str) -> tuple[str, str]:
    """What ``ready.json`` says: the application's id, and the version of its Spark (empty when it does not)."""
    try:
        said = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise JobFailedError(f"what the Spark application says of itself cannot be read: {error}") from None
    found = said.get("application_id") if isinstance(said, dict) else None
    if not isinstance(found, str):
        raise JobFailedError("the Spark application does not say its id in ready.json")
    return found, str(said.get("spark_version") or "")


def error_of(error: JobError) -> HiveAcidError:
    """The exception a job's error stands for; one that a job may not report is a ``JobFailedError``."""
    return reported(error.type, error.message)
