"""The streaming application's end of the conversation that ``format/streams.py`` describes.

On a local spool the operating system is asked directly, which takes microseconds where Hadoop's FileSystem takes a
millisecond and starts processes; elsewhere it is Hadoop's.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import threading
import time
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from airflow_hive_acid import errors
from airflow_hive_acid.errors import ConfigurationError, HiveAcidError, JobFailedError
from airflow_hive_acid.format import spool_files, streams
from airflow_hive_acid.spark.hadoop import HadoopFilesystem

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

_PAUSES = {True: (0.0005, 0.004), False: (0.01, 0.1)}
_LOOK_SECONDS = 2.0


class Files(Protocol):
    """What a conversation needs of a filesystem."""

    def exists(self, uri: str) -> bool:
        """Whether there is a file of that name."""

    def read_text(self, uri: str) -> str | None:
        """Its text, None when there is none."""

    def replace_text(self, uri: str, text: str) -> None:
        """Give a file its content, whether it is there or not; nobody sees it half written, or missing."""

    def make_directories(self, uri: str) -> None:
        """Make a directory."""

    def delete(self, uri: str) -> None:
        """Remove it with all it holds."""


class LocalFiles:
    """A directory of this machine."""

    def exists(self, uri: str) -> bool:
        """See :class:`Files`."""
        return os.path.exists(_local(uri))

    def read_text(self, uri: str) -> str | None:
        """See :class:`Files`."""
        try:
            return Path(_local(uri)).read_text(encoding="utf-8")
        except FileNotFoundError:
            return None

    def replace_text(self, uri: str, text: str) -> None:
        """See :class:`Files`."""
        path = Path(_local(uri))
        partial = path.with_name(f".{path.name}.partial")
        partial.unlink(missing_ok=True)
        spool_files.write(str(partial), text)
        partial.replace(path)

    def make_directories(self, uri: str) -> None:
        """See :class:`Files`."""
        spool_files.make_directory(_local(uri))

    def delete(self, uri: str) -> None:
        """See :class:`Files`."""
        shutil.rmtree(_local(uri), ignore_errors=True)


class Conversation:
    """One stream's questions and answers.

    :param spool: URI of the spool directory, on which the other side looks for streams.
    :param idle_seconds: after how long without a sign of life the other side counts as gone.
    """

    def __init__(
        self,
        files: Files,
        spool: str,
        idle_seconds: float,
        *,
        is_local: bool,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._files = files
        self._spool = spool.rstrip("/")
        self._uri = f"{self._spool}/stream-{uuid.uuid4()}"
        self._idle_seconds = idle_seconds
        self._pauses = _PAUSES[is_local]
        self._clock = clock
        self._number = 0
        self._ended = threading.Event()
        self._sign: str | None = None
        self._heard = self._looked = clock()

    @classmethod
    def of(cls, spark: SparkSession, spool: str, idle_seconds: float) -> Conversation:
        """Over the filesystem of the spool."""
        is_local = spool.startswith(("file:", "/"))
        return cls(LocalFiles() if is_local else HadoopFilesystem.of(spark), spool, idle_seconds, is_local=is_local)

    def open(self, question: dict[str, Any]) -> dict[str, Any]:
        """Make the stream known and ask the first question."""
        if not self._files.exists(f"{self._spool}/{streams.ALIVE}"):
            raise ConfigurationError(
                f"nobody answers at {self._spool}: start 'hive-acid stream serve --spool {self._spool}' beside this "
                "application, or run the script by HiveAcidStreamOperator or 'hive-acid stream run'"
            )
        self._files.make_directories(self._uri)
        self._here(0)
        threading.Thread(target=self._keep_here, name="hive-acid-stream", daemon=True).start()
        self._files.replace_text(f"{self._uri}/{streams.OPENED}", "{}")
        return self.ask(question)

    def ask(self, question: dict[str, Any]) -> dict[str, Any]:
        """Ask, and wait for the answer.

        :raises HiveAcidError: of the class that the answer names.
        :raises JobFailedError: when nobody answers any more; what came of the question is not known then.
        """
        self._number += 1
        self._files.replace_text(f"{self._uri}/{streams.question_name(self._number)}", streams.to_text(question))
        uri = f"{self._uri}/{streams.answer_name(self._number)}"
        pause, self._heard = self._pauses[0], self._clock()
        while not self._files.exists(uri):
            why = self._over()
            # The order matters: what was answered before the end is seen after it.
            if why is not None and not self._files.exists(uri):
                raise JobFailedError(f"{why}. Start the stream again: a micro-batch that was committed stays so")
            time.sleep(pause)
            pause = min(pause * 1.3, self._pauses[1])
        answer: dict[str, Any] = json.loads(self._files.read_text(uri) or "{}")
        if answer.get("is") == "error":
            raise _error(answer)
        return answer

    def close(self) -> None:
        """Say that nothing more will come."""
        if self._ended.is_set():
            return
        try:
            with contextlib.suppress(HiveAcidError):
                self.ask({"ask": "close"})
        finally:
            self._ended.set()
            self._files.delete(self._uri)

    def _over(self) -> str | None:
        """Why nothing will be answered, None as long as something may."""
        now = self._clock()
        if now - self._looked < _LOOK_SECONDS:
            return None
        self._looked = now
        if self._files.exists(f"{self._uri}/{streams.OVER}"):
            return f"the process that answers at {self._spool} has ended this conversation; its log says why"
        sign = self._files.read_text(f"{self._spool}/{streams.ALIVE}")
        if sign is not None and sign != self._sign:
            self._sign, self._heard = sign, now
        if now - self._heard < self._idle_seconds:
            return None
        return f"the process that answers at {self._spool} was silent for {self._idle_seconds:.0f} s"

    def _keep_here(self) -> None:
        beat = 0
        while not self._ended.wait(streams.ALIVE_SECONDS):
            beat += 1
            # A missed beat is nothing; a spool that is gone for good is met by the next question.
            with contextlib.suppress(OSError, HiveAcidError):
                self._here(beat)

    def _here(self, beat: int) -> None:
        self._files.replace_text(f"{self._uri}/{streams.HERE}", str(beat))


def _error(answer: dict[str, Any]) -> HiveAcidError:
    known = getattr(errors, str(answer["type"]), None)
    if isinstance(known, type) and issubclass(known, HiveAcidError):
        return known(str(answer["message"]))
    return JobFailedError(f"{answer['type']}: {answer['message']}")


def _local(uri: str) -> str:
    return uri if uri.startswith("/") else "/" + uri.removeprefix("file:").lstrip("/")
