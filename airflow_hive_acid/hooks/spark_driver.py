"""A running ``SparkSubmitHook.submit``: watched, waited for and stopped, with everything that it has started."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import threading
import time
from typing import TYPE_CHECKING

from airflow_hive_acid.airflow_versions import AirflowException

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from airflow_hive_acid.engine.applications.cluster_driver import ClusterDriver
    from airflow_hive_acid.hooks.spark_submit import TappedSparkSubmitHook

#: So long is output read after the end of spark-submit; then it has ended, whoever holds its output open.
_OUTPUT_SECONDS = 5.0
_STOP_SECONDS = 10.0


class HookDriver:
    """A running ``SparkSubmitHook.submit`` (a :class:`~airflow_hive_acid.engine.applications.spool.Driver`).

    :param program: the file to submit.
    :param remote: the driver, where it is on a cluster.
    """

    def __init__(
        self,
        hook: TappedSparkSubmitHook,
        program: str,
        environment: Mapping[str, str],
        scratch: Path,
        remote: ClusterDriver | None = None,
    ) -> None:
        self._remote = remote
        self._hook = hook
        self._program = program
        self._environment = dict(environment)
        self._scratch = scratch
        self._owner = os.getpid()
        self._code: int | None = None
        self._ended_at: float | None = None
        self._failure = ""
        self._stopped = False
        self._thread = threading.Thread(target=self._submit, name="hive-acid-spark-submit", daemon=True)
        self._thread.start()

    def exit_code(self) -> int | None:
        """None while it runs."""
        if not self._thread.is_alive():
            return self._code
        # The thread reads the output to its end, which a process that spark-submit has left behind may keep open.
        code = self._hook.exit_code()
        if code is None:
            return None
        self._ended_at = self._ended_at or time.monotonic()
        return code if time.monotonic() - self._ended_at > _OUTPUT_SECONDS else None

    def wait(self, seconds: float) -> bool:
        """Wait for it to end by itself; whether it did."""
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def stop(self) -> None:
        """Kill spark-submit with everything it started, on this machine and on the cluster."""
        if self._stopped or os.getpid() != self._owner:
            return
        self._stopped = True
        # A thread that has not yet got as far as starting the process would start it after we have looked.
        self._hook.started.wait()
        code = self._hook.exit_code()
        self._hook.on_kill()
        group = self._hook.process_group
        if group is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(group, signal.SIGKILL)
        # A process that has left the group may hold the output open; the thread ends with it, or with us.
        self._thread.join(_STOP_SECONDS)
        # Whatever spark-submit ended with but 0, it may have lost sight of a driver that goes on.
        if self._remote is not None and group is not None and code != 0:
            self._remote.delete(self._hook.submitted)

    def log_tail(self) -> str:
        """The last lines of its output; all of it is in the task's log."""
        if self._hook.refusal is not None:
            return self._hook.refusal
        lines = [f"  | {line[:500]}" for line in self._hook.last_lines if line.strip()]
        elsewhere = [] if self._remote is None else [self._remote.log_command]
        return "\n".join([*lines, *([self._failure] if not lines else []), *elsewhere])

    def release(self) -> None:
        """Remove the private directory: spool, settings, shuffle files."""
        shutil.rmtree(self._scratch, ignore_errors=True)

    def _submit(self) -> None:
        try:
            self._hook.submit(
                self._program,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )
            self._code = 0
        except (AirflowException, OSError, RuntimeError, ValueError) as error:
            # Told by whoever waits for the session, with the end of the output.
            self._failure = str(error)
            self._code = 1
        finally:
            self._hook.started.set()
            self._hook.close_output()
