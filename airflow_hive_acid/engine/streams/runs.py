"""A streaming application that is started here, and answered until it ends."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from airflow_hive_acid.engine.streams.server import StreamServer
from airflow_hive_acid.errors import JobFailedError
from airflow_hive_acid.filesystem import open_filesystem
from airflow_hive_acid.format.streams import SPOOL
from airflow_hive_acid.maintenance.worker.jobs import Application
from airflow_hive_acid.python_versions import add_note

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from airflow_hive_acid.engine.applications.spool import Driver
    from airflow_hive_acid.engine.outcomes.events import Event
    from airflow_hive_acid.metastore import MetastoreClient
    from airflow_hive_acid.settings import Settings


class ProgramLauncher(Protocol):
    """Starts programs of somebody else with spark-submit."""

    def submit(
        self, script: str, arguments: Sequence[str], conf: Callable[[str], Mapping[str, str]], application: Application
    ) -> tuple[Driver, str]:
        """Start one; returns the running program, and its spool directory."""


@dataclass(frozen=True, slots=True)
class StreamRun:
    """What an application has committed before it ended by itself.

    :param micro_batches: of all its streams.
    :param streams: conversations, of which one that was begun anew counts twice; a stream to which nothing new came
        begins none.
    """

    micro_batches: int
    streams: int

    def __str__(self) -> str:
        if not self.streams:
            return (
                "no micro-batch was written: nothing new had come, or the program does not write through "
                "hive_acid_sink(…)"
            )
        return f"{self.micro_batches} micro-batches were committed"

    def to_document(self) -> dict[str, Any]:
        """As plain JSON values."""
        return {"micro_batches": self.micro_batches, "streams": self.streams}


class StreamRunner:
    """Runs one streaming application.

    :param who: names this run; an earlier try of the same name is over, and its streams are taken over at once.
    """

    def __init__(
        self,
        client: MetastoreClient,
        launcher: ProgramLauncher,
        settings: Settings,
        who: str,
        *,
        warehouse: str | None = None,
        on_event: Callable[[Event], None] | None = None,
        agent_info: str = "hive-acid stream",
    ) -> None:
        self._client = client
        self._launcher = launcher
        self._settings = settings
        self._who = who
        self._warehouse = warehouse
        self._on_event = on_event
        self._agent_info = agent_info
        self._driver: Driver | None = None
        self._stopped = threading.Event()

    def run(self, script: str, arguments: Sequence[str] = (), conf: Mapping[str, str] | None = None) -> StreamRun:
        """Start the application and answer it until it ends.

        :param conf: more Spark settings; they may hold secrets.
        :raises HiveAcidError: what its stream was told last instead of a commit, when it ended with an error then.
        :raises JobFailedError: when it ended with another error: with the end of its log.
        """
        more = dict(conf or {})
        driver, spool = self._launcher.submit(
            script, arguments, lambda uri: {**more, SPOOL: uri}, Application(name="hive-acid stream")
        )
        self._driver = driver
        try:
            server = StreamServer(
                self._client, spool, self._settings, self._who,
                warehouse=self._warehouse, on_event=self._on_event, agent_info=self._agent_info,
                ended=lambda: _end_of(driver),
            )  # fmt: skip
            served = server.serve(self._stopped.is_set)
        finally:
            driver.stop()
            code, tail = driver.exit_code(), driver.log_tail()
            driver.release()
            open_filesystem(spool).delete(spool, inside=spool.rpartition("/")[0])
        committed = sum(each.committed for each in served)
        if self._stopped.is_set():
            raise JobFailedError(f"the streaming application was stopped; {committed} micro-batches were committed")
        refused = next((each.refused for each in reversed(served) if each.refused is not None), None)
        if code and refused is not None:
            add_note(refused, f"the streaming application then ended with code {code}\n{tail}")
            raise refused
        if code:
            raise JobFailedError(
                f"the streaming application ended with code {code}; {committed} micro-batches were committed, and a "
                f"later run goes on after them\n{tail}"
            )
        return StreamRun(committed, len(served))

    def cancel(self) -> None:
        """Stop it now, from any thread; what it has begun is aborted."""
        self._stopped.set()
        if self._driver is not None:
            self._driver.stop()


def _end_of(driver: Driver) -> str | None:
    code = driver.exit_code()
    return None if code is None else f"the streaming application ended with code {code}"
