"""Airflow's ``SparkSubmitHook``, with what the launcher must see of it.

The only module that needs Airflow's Spark provider, which comes with the extra ``spark``.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
from collections import deque
from typing import TYPE_CHECKING, Any

from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook

from airflow_hive_acid.engine.applications.spark_defaults import old_spark_submit
from airflow_hive_acid.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

_LOG_TAIL_LINES = 30
_KINIT_SECONDS = 60


class TappedSparkSubmitHook(SparkSubmitHook):
    """The hook, with its last lines of output and its process group to be seen from outside.

    :ivar submitted: the line that names a YARN application, empty until it comes.
    """

    def __init__(self, load_defaults: bool = True, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._load_defaults = load_defaults
        self.last_lines: deque[str] = deque(maxlen=_LOG_TAIL_LINES)
        self.refusal: str | None = None
        self.submitted = ""
        self.started = threading.Event()

    @property
    def process_group(self) -> int | None:
        """The process group of spark-submit, None when it was never started."""
        return None if self._submit_sp is None else int(self._submit_sp.pid)

    def exit_code(self) -> int | None:
        """That of spark-submit itself, None while it runs and before."""
        return None if self._submit_sp is None else self._submit_sp.poll()

    @property
    def program(self) -> str:
        """The ``spark-submit`` that is started."""
        return str(self._connection["spark_binary"])

    @property
    def login(self) -> tuple[str, str] | None:
        """Principal and keytab file that spark-submit logs in with; None when it uses the ticket of its environment."""
        principal, keytab = self._connection["principal"], self._connection["keytab"]
        return (str(principal), str(keytab)) if principal and keytab else None

    def on_kill(self) -> None:
        """Kill spark-submit; the driver's pod or YARN application is ended by whoever named it.

        The hook would need the program ``yarn``, and without it fail before anything else was killed.
        """
        self._kubernetes_driver_pod = self._yarn_application_id = None
        super().on_kill()

    def _delete_driver_pod(self) -> None:
        """Not with the credentials of Airflow's own pods, which may be none, or lead to another cluster."""

    def close_output(self) -> None:
        """The program has ended; the hook itself never closes its end of the pipe."""
        if self._submit_sp is not None and self._submit_sp.stdout is not None:
            self._submit_sp.stdout.close()

    def take_ticket(self, scratch: Path) -> dict[str, str]:
        """Log in with the connection's keytab, into a ticket cache of this application alone.

        Spark takes either a principal with its keytab or a user to act for; acting for one, it needs a ticket.

        :param scratch: private directory that vanishes with the application.
        :return: variables for spark-submit; none when the connection has no keytab: whoever runs Airflow is logged in.
        :raises ConfigurationError: when kinit is missing or refuses; nothing secret is in the text or in its arguments.
        """
        keytab, principal = self._connection["keytab"], self._connection["principal"]
        self._connection["keytab"] = self._connection["principal"] = None
        if not (keytab and principal):
            return {}
        variables = {"KRB5CCNAME": f"FILE:{scratch / 'krb5cc'}"}
        try:
            done = subprocess.run(
                [shutil.which("kinit") or "kinit", "-k", "-t", str(keytab), "--", str(principal)],
                env=os.environ | variables,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=_KINIT_SECONDS,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise ConfigurationError(
                f"kinit for {principal} of Spark connection {self._conn_id!r}: {error}; an application that acts for "
                "another user needs it (Debian: krb5-user)"
            ) from None
        if done.returncode:
            raise ConfigurationError(
                f"kinit for {principal} of Spark connection {self._conn_id!r}: {done.stderr.strip()}"
            )
        return variables

    def _build_spark_common_args(self) -> list[str]:
        # With a properties file, spark-submit would leave out the site's spark-defaults.conf.
        # Spark 3.5 does not know the option; the launcher has put the defaults into the file.
        common = super()._build_spark_common_args()
        return [*common, "--load-spark-defaults"] if self._load_defaults else common

    def _process_spark_submit_log(self, itr: Iterator[Any]) -> None:
        self.started.set()
        super()._process_spark_submit_log(self._tapped(itr))

    def _tapped(self, lines: Iterable[Any]) -> Iterator[Any]:
        for line in lines:
            self.last_lines.append(str(line).rstrip())
            if not self.submitted and "Submitted application" in str(line):
                self.submitted = str(line).rstrip()
            # The usage that follows is longer than what is kept.
            self.refusal = self.refusal or old_spark_submit([str(line)])
            yield line
