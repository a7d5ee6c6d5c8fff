"""The process beside streaming applications: finds their streams in a spool directory and answers each in a thread.

It ends when it is told to, or with the application that it was started for; what streams had begun then is aborted,
and committed by whoever goes on with them.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_hive_acid.engine.applications.spool import put
from airflow_hive_acid.engine.streams.channel import ApplicationGoneError, Channel
from airflow_hive_acid.engine.streams.service import StreamService
from airflow_hive_acid.filesystem import open_filesystem
from airflow_hive_acid.format.streams import ALIVE, ALIVE_SECONDS, OPENED

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_hive_acid.engine.outcomes.events import Event
    from airflow_hive_acid.errors import HiveAcidError
    from airflow_hive_acid.metastore import MetastoreClient
    from airflow_hive_acid.settings import Settings

log = logging.getLogger(__name__)

_LOOK_SECONDS = 0.1
_STREAM = "stream-"


@dataclass(frozen=True, slots=True)
class Served:
    """A conversation that has ended.

    :param committed: micro-batches that were committed in it.
    :param problem: why it ended before it was closed; None when it was.
    :param refused: what the stream was told last instead of a commit.
    """

    committed: int
    problem: str | None
    refused: HiveAcidError | None = None


class StreamServer:
    """Answers all streams of one spool directory.

    :param spool: URI of the directory; it exists.
    :param who: names this process; an earlier one of the same name is over, and its streams are taken over at once.
    :param ended: says why the application has ended; None while it runs, or when there may be several.
    :param idle_seconds: after how long without a sign of life an application counts as gone.
    :param several: applications come and go, and one must not take over what another one runs.

    One that is made inside of ``leases.under(lease)`` commits micro-batches only while that lease is held.
    """

    def __init__(
        self,
        client: MetastoreClient,
        spool: str,
        settings: Settings,
        who: str,
        *,
        warehouse: str | None = None,
        on_event: Callable[[Event], None] | None = None,
        agent_info: str = "hive-acid stream",
        ended: Callable[[], str | None] = lambda: None,
        idle_seconds: float = 60.0,
        several: bool = False,
    ) -> None:
        self._client = client
        self._lease = client.leases.current  # threads do not have it by themselves
        self._spool = spool.rstrip("/")
        self._filesystem = open_filesystem(spool)
        self._settings = settings
        self._who = who
        self._warehouse = warehouse
        self._on_event = on_event
        self._agent_info = agent_info
        self._ended = ended
        self._idle_seconds = idle_seconds
        self._several = several
        self._stopped = threading.Event()
        self._threads: dict[str, threading.Thread] = {}
        self._over: dict[str, float] = {}
        self._served: list[Served] = []
        self._beat = 0
        self._alive()

    def serve(self, until: Callable[[], bool] = lambda: False) -> list[Served]:
        """Answer until the application has ended, :meth:`stop` was called, or ``until`` says so.

        :return: what became of each stream that was opened.
        """
        alive_at = time.monotonic()
        try:
            while not self._stopped.is_set() and not until():
                # The order matters: a stream that was opened before the end is seen after it.
                over = self._ended() is not None
                self._find()
                if over:
                    break
                if time.monotonic() - alive_at >= ALIVE_SECONDS:
                    alive_at = time.monotonic()
                    self._alive()
                self._stopped.wait(_LOOK_SECONDS)
        finally:
            self._stopped.set()
            for thread in self._threads.values():
                thread.join()
        return list(self._served)

    def stop(self) -> None:
        """Let :meth:`serve` return, from any thread."""
        self._stopped.set()

    def _find(self) -> None:
        for entry in self._filesystem.list_files(self._spool):
            if not entry.is_dir or not entry.name.startswith(_STREAM):
                continue
            uri = f"{self._spool}/{entry.name}"
            if entry.name in self._threads:
                # An application that was killed does not remove what it leaves.
                if time.monotonic() - self._over.get(entry.name, math.inf) > self._idle_seconds:
                    self._filesystem.delete(uri, inside=self._spool)
                continue
            if self._filesystem.exists(f"{uri}/{OPENED}"):
                thread = threading.Thread(target=self._serve, args=(uri,), name=f"hive-acid-{entry.name}", daemon=True)
                self._threads[entry.name] = thread
                thread.start()

    def _serve(self, uri: str) -> None:
        channel = Channel(self._filesystem, uri, self._why, self._idle_seconds)
        service = StreamService(
            self._client, channel, self._settings, self._who,
            warehouse=self._warehouse, on_event=self._on_event, agent_info=self._agent_info,
            several=self._several,
        )  # fmt: skip
        problem: str | None = None
        try:
            with self._client.leases.under(self._lease):
                service.serve()
        except ApplicationGoneError as gone:
            problem = str(gone)
        except Exception as failure:  # of a thread: whoever waits for it hears of it by what serve() returns
            log.exception("a stream's conversation at %s ended", uri)
            problem = f"{type(failure).__name__}: {failure}"
        self._served.append(Served(service.committed, problem, service.problem))
        try:
            channel.close()
        except OSError as gone:
            log.info("%s was removed by its application: %s", uri, gone)
        self._over[uri.rpartition("/")[2]] = time.monotonic()

    def _why(self) -> str | None:
        why = self._ended()
        if why is None and self._stopped.is_set():
            why = "this process was told to stop"
        return why

    def _alive(self) -> None:
        self._beat += 1
        try:
            put(self._filesystem, f"{self._spool}/{ALIVE}", f"{self._who} {self._beat}")
        except OSError as problem:
            # One missed beat is nothing; if the storage is gone for good, the streams meet the same error.
            log.warning("no sign of life at %s: %s", self._spool, problem)
