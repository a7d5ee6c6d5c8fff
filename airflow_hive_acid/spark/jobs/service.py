"""A Spark application that serves any number of callers at once, each through a spool of its own (decision 62).

A caller makes a session directory below ours; a thread of ours serves it as an application of the caller's own would
(:mod:`~airflow_hive_acid.spark.jobs.spool`). What callers share is the JVM: each step has a session of its own, so that
views, variables and settings are nobody else's, and each caller has a job group, by which it is stopped, and a pool of
the fair scheduler. A step that was stopped, or whose caller has gone, can do no harm: it only ever wrote staging (R5).
"""

from __future__ import annotations

import json
import logging
import os
import sys
import threading
import time
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from py4j.protocol import Py4JJavaError
from pyspark import InheritableThread

import airflow_hive_acid
from airflow_hive_acid.errors import ConfigurationError
from airflow_hive_acid.format.jobs import Append, CloseBatch, JobError, JobResult, Program
from airflow_hive_acid.format.services import (
    CALLER,
    CANCEL,
    LEFT,
    REFUSED,
    SERVES,
    SESSION,
    STATE,
    STORE_SECONDS,
    Caller,
    ServiceState,
    birth,
    place,
)
from airflow_hive_acid.spark.hadoop import HadoopFilesystem
from airflow_hive_acid.spark.java_errors import java_message
from airflow_hive_acid.spark.jobs.run import execute
from airflow_hive_acid.spark.jobs.spool import ALIVE, Spool

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

    from airflow_hive_acid.format.jobs import JobSpec

log = logging.getLogger(__name__)

#: Between two looks for new callers and for cancelled ones: first and longest.
_PAUSES = (0.01, 0.1)
#: So often does the state change.
BEAT_SECONDS = 2.0


@dataclass(eq=False)
class _Session:
    """A caller, and what is known of it.

    :ivar number: how many callers have come, with this one.
    :ivar heard: when its ``alive`` last changed, by our own clock.
    """

    uri: str
    name: str
    number: int
    heard: float
    who: str = ""
    sign: str | None = None
    running: str = ""
    waits: bool = False
    cancelled: threading.Event = field(default_factory=threading.Event)
    thread: InheritableThread | None = None


class Service:
    """Serves the sessions of one incarnation.

    :param above: directory of the service, where its state is kept.
    :param incarnation: name of our own directory there; it exists.
    :param places: steps at a time; others wait for their turn.
    :param max_callers: callers at a time; others are told to start a Spark of their own.
    :param max_idle: seconds without a caller after which the service ends; None: never.
    :param idle_seconds: after how long without a sign of a caller it is gone.
    """

    def __init__(
        self,
        spark: SparkSession,
        above: str,
        incarnation: str,
        *,
        places: int,
        max_callers: int,
        max_idle: float | None = None,
        idle_seconds: float = 60.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._spark = spark
        self._fs = HadoopFilesystem.of(spark)
        self._above = above.rstrip("/")
        self._uri = f"{self._above}/{incarnation}"
        self._incarnation = incarnation
        self._places = places
        self._max_callers = max_callers
        self._max_idle = max_idle
        self._idle_seconds = idle_seconds
        self._clock = clock
        self._turns = threading.BoundedSemaphore(places)
        self._sessions: dict[str, _Session] = {}
        self._known: set[str] = set()
        self._left: dict[str, float] = {}
        self._came = 0
        self._ending = threading.Event()
        self._ended = threading.Event()
        self._began = threading.Event()
        self._problem = ""
        self._used = clock()
        self._started = int(time.time() * 1000)
        self._beat = 0

    @property
    def has_ended(self) -> bool:
        """Whether nobody is served any more."""
        return self._ended.is_set()

    def require_storage(self, seconds: float = STORE_SECONDS) -> None:
        """Wait until :meth:`serve`, in another thread, has written to the directory of the service.

        :param seconds: after which storage that gives no answer is none.
        :raises ConfigurationError: when it cannot be written, or gives no answer; names the option.
        """
        problem = self._problem if self._began.wait(seconds) else f"it has given no answer for {seconds:.0f} s"
        if problem:
            raise ConfigurationError(
                f"--spool: the Spark application cannot write {self._uri} ({problem}); name a directory that it "
                "reaches, and look at its settings of that storage (--spark-conf spark.hadoop.fs.…), its jars, its "
                "credentials and the network from its driver"
            )

    def end(self) -> None:
        """Take no more callers, stop those that are there, and come back from :meth:`serve`."""
        self._ending.set()

    def serve(self) -> None:
        """Serve callers until :meth:`end`, or until nobody has called for too long, or another took our name."""
        pause, said = _PAUSES[0], float("-inf")
        try:
            self._fs.replace_text(f"{self._uri}/{SERVES}", "")
        except Exception as problem:  # noqa: BLE001 - told by who waits for the beginning
            told = java_message(problem) if isinstance(problem, Py4JJavaError) else str(problem).partition("\n")[0]
            self._problem = told[:500] or type(problem).__name__
            self._ended.set()
            return
        finally:
            self._began.set()
        try:
            while not self._ending.is_set():
                pause = _PAUSES[0] if self._look() else min(pause * 1.3, _PAUSES[1])
                now = self._clock()
                if now - said >= BEAT_SECONDS:
                    said = now
                    if not self._say():
                        break
                if self._sessions:
                    self._used = now
                elif self._max_idle is not None and now - self._used > self._max_idle:
                    log.warning("nobody has called for %.0f s: the service ends", now - self._used)
                    break
                self._ending.wait(pause)
        finally:
            self._ending.set()
            self._of_one(SERVES, partial(self._fs.delete, f"{self._uri}/{SERVES}"))
            self._leave()
            self._ended.set()

    def _look(self) -> bool:
        """Whether anything is new."""
        there = self._names()
        new = there - self._known
        for name in sorted(new - set(self._sessions)):
            self._of_one(name, partial(self._take, name))
        self._known = there  # not more: a service serves for months
        self._sweep(there - set(self._sessions))
        for session in list(self._sessions.values()):
            self._of_one(session.name, partial(self._watch, session))
        return bool(new)

    def _sweep(self, left: set[str]) -> None:
        """Remove what callers whom we have let go of, or refused, have not removed themselves: they are dead."""
        now = self._clock()
        self._left = {name: self._left.get(name, now) for name in left}
        for name, since in self._left.items():
            if now - since > self._idle_seconds:
                self._of_one(name, partial(self._fs.delete, f"{self._uri}/{name}"))

    @staticmethod
    def _of_one(name: str, look: Callable[[], None]) -> None:
        """What one caller's directory holds, or does to its storage, is no reason to leave the others."""
        try:
            look()
        except Exception as problem:  # noqa: BLE001 - said above; a caller that is not answered starts a Spark itself
            log.warning("%s in the directory of the service cannot be used: %s", name, problem)

    def _names(self) -> set[str]:
        """The callers that have come and not yet gone."""
        try:
            entries = self._fs.entries(self._fs.qualify(self._uri)) or []
        except Exception as problem:  # noqa: BLE001 - storage that does not answer now may answer later
            log.warning("new callers cannot be looked for: %s", problem)
            return self._known
        return {entry.name for entry in entries if entry.name.startswith(SESSION)}

    def _take(self, name: str) -> None:
        uri = f"{self._uri}/{name}"
        if len(self._sessions) >= self._max_callers:
            why = f"it serves {len(self._sessions)} callers, as many as it may"
            self._fs.write_text_atomically(f"{uri}/{REFUSED}", why)
            return
        self._came += 1
        session = _Session(uri, name, self._came, self._clock())
        self._sessions[name] = session
        session.thread = InheritableThread(target=self._serve, args=(session,), name=name, daemon=True)
        session.thread.start()

    def _watch(self, session: _Session) -> None:
        """Stop what a caller has cancelled, or has left behind."""
        if not session.who:
            session.who = (self._fs.read_text(f"{session.uri}/{CALLER}") or "")[:200]
        if not session.cancelled.is_set():
            text = self._fs.read_text(f"{session.uri}/{ALIVE}")
            if text != session.sign:
                session.sign, session.heard = text, self._clock()
            gone = text is None and not self._fs.is_directory(session.uri)  # it has left without waiting for us
            silent = self._clock() - session.heard > self._idle_seconds
            if not gone and not silent and not self._fs.exists(f"{session.uri}/{CANCEL}"):
                return
            session.cancelled.set()
        # Again and again: between two jobs of a step there is nothing to cancel.
        self._spark.sparkContext.cancelJobGroup(session.name)

    def _serve(self, session: _Session) -> None:
        try:
            context = self._spark.sparkContext
            context.setJobGroup(session.name, session.who or session.name)
            # Spark keeps a pool for ever: so many as there are places, not one for each caller.
            context.setLocalProperty("spark.scheduler.pool", f"callers-{session.number % self._places}")
            Spool(
                self._spark,
                session.uri,
                self._idle_seconds,
                run=lambda spark, spec: self._run(session, spark, spec),
                is_over=session.cancelled.is_set,
            ).serve()
        except Exception as problem:  # noqa: BLE001 - one caller's storage is no reason to leave the others
            log.warning("caller %s is served no more: %s", session.who, problem)
        finally:
            self._sessions.pop(session.name, None)
            self._say_left(session)

    def _say_left(self, session: _Session) -> None:
        try:
            if self._fs.is_directory(session.uri):  # else the caller did not wait for it
                self._fs.write_text_atomically(f"{session.uri}/{LEFT}", "")
        except Exception as problem:  # noqa: BLE001 - it hears the same from our state, later
            log.warning("caller %s was not told that it is served no more: %s", session.who, problem)

    def _run(self, session: _Session, spark: SparkSession, spec: JobSpec) -> JobResult:
        if isinstance(spec.step, Program | Append | CloseBatch):
            return _failed(spark, spec, "programs and batches need a Spark of their own; this one is shared")
        session.running, session.waits = spec.name or spec.job_id, True
        try:
            while not self._turns.acquire(timeout=0.1):
                if session.cancelled.is_set():
                    return _failed(spark, spec, "it was cancelled before its turn")
            try:
                session.waits = False
                if session.cancelled.is_set():
                    return _failed(spark, spec, "it was cancelled before its turn")
                return execute(spark, spec)
            finally:
                self._turns.release()
        finally:
            session.running, session.waits = "", False

    def _say(self) -> bool:
        """Write our state; whether the name is still ours."""
        where = f"{self._above}/{STATE}"
        try:
            there = json.loads(self._fs.read_text(where) or "{}").get("incarnation", self._incarnation)
            if self._beat and there != self._incarnation:
                log.error("another service has taken the name of this one (%s): this one ends", there)
                return False
            self._beat += 1
            self._fs.replace_text(where, self._state().to_json())
        except Exception as problem:  # noqa: BLE001 - one missed beat is nothing
            log.warning("the state of the service was not written: %s", problem)
        return True

    def _state(self) -> ServiceState:
        context = self._spark.sparkContext
        return ServiceState(
            incarnation=self._incarnation,
            beat=self._beat,
            application_id=context.applicationId,
            package=airflow_hive_acid.__version__,
            python=f"{sys.version_info[0]}.{sys.version_info[1]}",
            spark=context.version,
            place=place(),
            pid=os.getpid(),
            started=self._started,
            places=self._places,
            max_callers=self._max_callers,
            idle_seconds=0.0 if self._sessions else round(self._clock() - self._used, 1),
            birth=birth(os.getpid()) or "",
            callers=tuple(Caller(s.who, s.running, s.waits) for s in list(self._sessions.values())),
        )

    def _leave(self) -> None:
        """Let go of everybody; what they ran fails, and they may try it again elsewhere."""
        for session in list(self._sessions.values()):
            session.cancelled.set()
        deadline = self._clock() + 5.0
        while self._sessions and self._clock() < deadline:
            for session in list(self._sessions.values()):
                self._spark.sparkContext.cancelJobGroup(session.name)
            time.sleep(0.05)


def _failed(spark: SparkSession, spec: JobSpec, why: str) -> JobResult:
    return JobResult(spec.job_id, spark.sparkContext.applicationId, error=JobError("JobFailedError", why))
