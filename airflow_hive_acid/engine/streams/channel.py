"""Questions of a streaming application, answered through a directory (decision 1 the other way round).

The application writes ``NNN.ask.json`` and waits for ``NNN.answer.json``; see ``format/streams.py`` for what they
hold. Every file appears whole or not at all. What was answered is removed with the next question, so the directory
stays small; the application removes it when it has closed the stream. Somebody who has given no sign of life for long
is gone: the application by the file ``here``, we by the file ``alive``.
"""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

from airflow_hive_acid.engine.applications.spool import put
from airflow_hive_acid.errors import JobFailedError
from airflow_hive_acid.format import streams
from airflow_hive_acid.format.jobs.documents import result_from_json, to_json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from airflow_hive_acid.filesystem import StreamingFilesystem
    from airflow_hive_acid.format.jobs import JobResult, JobSpec

#: First and longest pause between two looks while micro-batches follow each other, and the longest after a while
#: without one.
_PAUSES = (0.001, 0.004, 0.05)
_BUSY_SECONDS = 5.0
_HERE_SECONDS = 2.0


class ApplicationGoneError(JobFailedError):
    """The streaming application ended, or was not heard of for long, in the middle of something."""


class Channel:
    """One stream's questions, from the control plane's end.

    :param uri: the stream's directory.
    :param ended: says why nothing more will come (the application has ended), None as long as something may.
    :param idle_seconds: after how long without a sign of life the application counts as gone.
    """

    def __init__(
        self,
        filesystem: StreamingFilesystem,
        uri: str,
        ended: Callable[[], str | None],
        idle_seconds: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._filesystem = filesystem
        self._uri = uri.rstrip("/")
        self._ended = ended
        self._idle_seconds = idle_seconds
        self._clock = clock
        self._number = 0
        self._sign: str | None = None
        self._heard = self._looked = clock()

    def next(self) -> dict[str, Any]:
        """Wait for the next question.

        :raises ApplicationGoneError: when none will come.
        """
        name = streams.question_name(self._number + 1)
        uri, began = f"{self._uri}/{name}", self._clock()
        pause = _PAUSES[0]
        while not self._filesystem.exists(uri):
            # The order matters: what is asked before the end must be seen after it.
            why = self._ended() or self._silent()
            if why is not None and not self._filesystem.exists(uri):
                raise ApplicationGoneError(why)
            time.sleep(pause)
            pause = min(pause * 1.2, _PAUSES[1 if self._clock() - began < _BUSY_SECONDS else 2])
        text = self._filesystem.read_text(uri)
        self._forget(self._number)
        self._number += 1
        self._heard = self._clock()
        try:
            question = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise JobFailedError(f"{uri} is no question of a stream: {error}") from None
        if not isinstance(question, dict) or "ask" not in question:
            raise JobFailedError(f"{uri} is no question of a stream")
        return question

    def answer(self, document: dict[str, Any]) -> None:
        """Answer the last question."""
        name = streams.answer_name(self._number)
        put(self._filesystem, f"{self._uri}/{name}", streams.to_text(document))

    def pause(self, seconds: float) -> None:
        """Let the application wait for its answer so long.

        :raises ApplicationGoneError: when it ended meanwhile.
        """
        until = self._clock() + seconds
        while (left := until - self._clock()) > 0:
            why = self._ended() or self._silent()
            if why is not None:
                raise ApplicationGoneError(why)
            time.sleep(min(left, _PAUSES[2]))

    def close(self) -> None:
        """Say that nothing is answered any more. The directory stays: its last answer may still be read."""
        put(self._filesystem, f"{self._uri}/{streams.OVER}", "")

    def _silent(self) -> str | None:
        now = self._clock()
        if now - self._looked >= _HERE_SECONDS:
            self._looked = now
            try:
                sign = self._filesystem.read_text(f"{self._uri}/{streams.HERE}")
            except FileNotFoundError:
                sign = None
            if sign != self._sign:
                self._sign, self._heard = sign, now
        if now - self._heard < self._idle_seconds:
            return None
        return f"the streaming application has given no sign of life for {self._idle_seconds:.0f} s"

    def _forget(self, number: int) -> None:
        if number:
            root = self._uri
            for name in (streams.question_name(number), streams.answer_name(number)):
                self._filesystem.delete(f"{root}/{name}", inside=root)


class SinkSession:
    """The streaming application as what runs the steps of its own micro-batches.

    A :class:`~airflow_hive_acid.engine.applications.launcher.JobSession`: a step is the answer to the question at
    hand, and the next question is its result.
    """

    def __init__(self, channel: Channel, application_id: str | None) -> None:
        self._channel = channel
        self._application_id = application_id
        self._cancelled = False
        self.last: dict[str, Any] = {}

    @property
    def application_id(self) -> str | None:
        """Spark's id of it."""
        return self._application_id

    @property
    def is_alive(self) -> bool:
        """Whether another step can be given to it."""
        return not self._cancelled

    def wait_ready(self) -> str:
        """It is, or it could not have asked."""
        return self._application_id or ""

    def run(self, spec: JobSpec) -> JobResult:
        """Have it run a step.

        :raises HiveAcidError: of the class that the step named.
        """
        from airflow_hive_acid.engine.applications.spool import error_of

        self._channel.answer({"is": "step", "spec": to_json(spec)})
        self.last = self._channel.next()
        if self.last["ask"] != "result":
            raise JobFailedError(f"the stream asked to {self.last['ask']} instead of telling the result of a step")
        try:
            result = result_from_json(self.last["result"])
        except ValueError as problem:
            raise JobFailedError(f"the result of job {spec.job_id} cannot be read: {problem}") from problem
        if result.job_id != spec.job_id:
            raise JobFailedError(f"the stream answered job {spec.job_id} with the result of {result.job_id}")
        if result.error is not None:
            raise error_of(result.error)
        return result

    def rows_uri(self, job_id: str) -> str:
        """Micro-batches only write."""
        raise AssertionError("a micro-batch selects nothing")

    def read_rows(self, uri: str) -> Iterator[list[Any]]:
        """Micro-batches only write."""
        raise AssertionError("a micro-batch selects nothing")

    def cancel(self) -> None:
        """The application is somebody else's: it gets no more steps, and goes on or ends as it likes."""
        self._cancelled = True

    def close(self) -> None:
        """As it likes."""
