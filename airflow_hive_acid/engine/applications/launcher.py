"""Starting Spark applications: the protocol the engine knows, and the launcher for ``spark-submit`` as a subprocess.

An application is started in the background as soon as somebody knows that it will be needed, runs any number of
steps, and never outlives the process that started it: it is asked to leave, killed with its whole process group, or,
when we are killed ourselves, leaves because ``alive`` in its spool stands still (decision 1).
"""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
import uuid
import weakref
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from airflow_hive_acid import resources
from airflow_hive_acid.engine.applications.cluster_driver import cluster_driver
from airflow_hive_acid.engine.applications.java import find_spark_submit, require_java
from airflow_hive_acid.engine.applications.job_environment import job_environment
from airflow_hive_acid.engine.applications.kubernetes import pod_settings, require_pods
from airflow_hive_acid.engine.applications.package_zip import cache_directory, cluster_package
from airflow_hive_acid.engine.applications.spark_conf import (
    configuration,
    is_local,
    renewal_settings,
    with_application,
    write_properties,
)
from airflow_hive_acid.engine.applications.spark_defaults import old_spark_submit, site_defaults
from airflow_hive_acid.engine.applications.spark_version import name_home, require_spark
from airflow_hive_acid.engine.applications.spool import Driver, SpoolSession
from airflow_hive_acid.engine.applications.yarn import yarn_settings
from airflow_hive_acid.errors import ConfigurationError
from airflow_hive_acid.filesystem import open_filesystem
from airflow_hive_acid.maintenance.worker.jobs import Application

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from airflow_hive_acid.engine.applications.cluster_driver import ClusterDriver
    from airflow_hive_acid.format.jobs import JobResult, JobSpec

log = logging.getLogger(__name__)

_LOG_TAIL_LINES = 30
#: A line of a JVM's stack trace: where it was, not what went wrong.
_FRAME = re.compile(r"\s*at [\w$./<>-]+\(.*\)|[\w$./<>-]+\([\w$]+\.(java|scala):\d+\)|\s*\.\.\. \d+ more")
_LOGS_KEPT = 20
_STOP_SECONDS = 60.0
_ANY = Application()


class JobSession(Protocol):
    """A Spark application that runs one step after the other."""

    @property
    def application_id(self) -> str | None:
        """Spark's id of the application, None until it is ready."""

    @property
    def is_alive(self) -> bool:
        """Whether another step can be given to it."""

    def wait_ready(self) -> str:
        """Wait until the application has started; returns its id."""

    def run(self, spec: JobSpec) -> JobResult:
        """Run one step; raises the error the job reported, or ``JobFailedError`` when there is no result."""

    def rows_uri(self, job_id: str) -> str:
        """Where a select leaves its rows."""

    def read_rows(self, uri: str) -> Iterator[list[Any]]:
        """The rows of a select, once."""

    def cancel(self) -> None:
        """Stop it now, from any thread."""

    def close(self) -> None:
        """Let it leave."""


class JobLauncher(Protocol):
    """Starts Spark applications."""

    def start(self, application: Application = ...) -> JobSession:
        """Start one and return at once; the session waits for it when the first step is run.

        :param application: its name, and what it must be like.
        :raises ConfigurationError: when something it needs is missing on this machine.
        """


def session_of(driver: Driver, spool: str, start_seconds: float) -> SpoolSession:
    """A session over the spool of an application that was just started; it ends with what goes wrong here.

    :param start_seconds: how long the application may take until it is ready.
    """
    try:
        return SpoolSession(open_filesystem(spool), spool, driver, start_seconds=start_seconds)
    except BaseException:
        driver.stop()
        driver.release()
        raise


@dataclass(frozen=True, slots=True)
class SparkSubmitLauncher:
    """Runs ``spark-submit`` as a subprocess of this one.

    :param master: Spark's master URL, for example ``local[*]``, ``spark://host:7077``, ``yarn``; never guessed.
    :param conf: Spark settings; handed over in a file, so they may hold secrets.
    :param deploy_mode: ``client``, or ``cluster``, which needs a ``spool`` that the cluster can reach.
    :param spool: URI below which session directories are made; a private directory on this machine by default.
    :param log_directory: where the logs of the applications are kept (the newest 20).
    :param environment: more variables for spark-submit.
    :param program: ``spark-submit`` itself; the one of this Python environment by default.
    :param start_seconds: how long an application may wait for its place and start.
    :param idle_seconds: after how long without a sign of us the driver leaves by itself.
    :param accelerator: ``hive.acid.spark.accelerator``: ``auto``, ``off``, or the path of the jar.
    :param passed_on: names of variables that jobs get beside those they always get (``hive.acid.job.environment``).
    """

    master: str
    conf: Mapping[str, str] = field(default_factory=dict)
    deploy_mode: str = "client"
    spool: str | None = None
    log_directory: Path | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    start_seconds: float = 300.0
    idle_seconds: int = 60
    program: str | None = None
    accelerator: str = "auto"
    passed_on: tuple[str, ...] = ()

    def start(self, application: Application = _ANY) -> JobSession:
        """Start an application in the background.

        :raises ConfigurationError: no Java, no spark-submit, one of another Spark, a cluster without a spool it can
            reach, pods without an image (Kubernetes), or a cluster that cannot run our driver.
        """
        return self.start_job("session", [], {}, application)

    def start_job(
        self, job: str, arguments: Sequence[str], conf: Mapping[str, str], application: Application
    ) -> SpoolSession:
        """Start one of our own Spark jobs that serve a spool, in the background.

        :param job: its name, see :func:`~airflow_hive_acid.resources.spark_job`.
        :param arguments: beside those that each of them has.
        :param conf: Spark settings that it needs, over those of the user.
        :raises ConfigurationError: as :meth:`start`.
        """
        script = str(resources.spark_job(job))
        driver, spool = self._submit(
            application,
            lambda spool: ([script, "--spool", spool, "--idle-seconds", str(self.idle_seconds), *arguments], conf),
        )
        return session_of(driver, spool, self.start_seconds)

    def submit(
        self, script: str, arguments: Sequence[str], conf: Callable[[str], Mapping[str, str]], application: Application
    ) -> tuple[SubprocessDriver, str]:
        """Start somebody's own program with a spool directory, on which nobody listens yet.

        :param conf: from the URI of the spool to more Spark settings.
        :return: the running program, and the spool.
        """
        return self._submit(application, lambda spool: ([script, *arguments], conf(spool)))

    def _submit(
        self, application: Application, program_of: Callable[[str], tuple[list[str], Mapping[str, str]]]
    ) -> tuple[SubprocessDriver, str]:
        require_driver_place(self.master, self.deploy_mode)
        if self.deploy_mode == "cluster" and self.spool is None:
            raise ConfigurationError(
                f"deploy mode cluster on {self.master} needs a spool directory that the cluster can reach; "
                "set it to a URI on shared storage, for example hdfs:///tmp/hive-acid"
            )
        environment = job_environment(self.master, self.deploy_mode, self.passed_on) | dict(self.environment)
        require_java(environment)
        program = self.program or find_spark_submit(environment)
        spark = require_spark(program, environment)
        name_home(environment, self.deploy_mode, spark)
        conf = with_application(self.master, self.conf, application)
        site = site_defaults(environment, program)
        if spark is not None:  # else nobody knows which spark-defaults.conf counts
            require_pods(self.master, self.deploy_mode, {**site, **conf}, self.spool, "the Spark settings (conf)")
        scratch = Path(tempfile.mkdtemp(prefix="hive-acid-"))  # private: mode 0700
        try:
            spool = f"{self.spool.rstrip('/')}/session-{uuid.uuid4()}" if self.spool else f"file://{scratch}/spool"
            make_spool(spool, private=self.deploy_mode == "client" or application.user is None)
            job, more = program_of(spool)
            conf |= pod_settings(self.master, self.deploy_mode, {**site, **conf}, spool)
            conf |= yarn_settings(self.master, {**site, **conf}, spool)
            conf |= renewal_settings(self.deploy_mode, {**site, **conf, **more})
            properties = scratch / "spark.properties"
            settings = configuration(
                self.master, str(scratch), {**conf, **more}, self.accelerator, self.deploy_mode, spark
            )
            load_defaults = spark is None or spark.loads_defaults
            write_properties(properties, settings if load_defaults else {**site, **settings})
            command = [*self._command(program, properties, application, load_defaults), *job]
            remote = cluster_driver(
                self.master,
                self.deploy_mode,
                {**site, **settings},
                program,
                environment,
                properties,
                spool,
                load_defaults=load_defaults,
                user=application.user,
            )
            return SubprocessDriver(command, environment, scratch, self._open_log(), remote), spool
        except BaseException:
            shutil.rmtree(scratch, ignore_errors=True)
            raise

    def _command(self, program: str, properties: Path, about: Application, load_defaults: bool) -> list[str]:
        command = [program, "--master", self.master, "--deploy-mode", self.deploy_mode, "--name", about.name]
        if about.user is not None:
            command += ["--proxy-user", about.user]
        command += ["--properties-file", str(properties)]
        if load_defaults:
            command.append("--load-spark-defaults")
        if not is_local(self.master):
            command += ["--py-files", str(cluster_package())]
        return command

    def _open_log(self) -> Path:
        directory = self.log_directory or cache_directory() / "logs"
        directory.mkdir(parents=True, exist_ok=True)
        _forget_old_logs(directory)
        return directory / f"spark-{time.strftime('%Y%m%dT%H%M%S')}-{os.getpid()}-{uuid.uuid4().hex[:8]}.log"


def require_driver_place(master: str, deploy_mode: str, where: str = "") -> None:
    """Refuse a driver on a standalone cluster, as spark-submit would after the start of a JVM.

    :param where: what says so, and how to change it there.
    :raises ConfigurationError: names the remedy.
    """
    if deploy_mode == "cluster" and master.startswith("spark://"):
        raise ConfigurationError(
            f"{master} is a standalone master, which runs no Python drivers in deploy mode cluster; "
            f"use deploy mode client{where} (YARN and Kubernetes run both)"
        )


def make_spool(uri: str, *, private: bool) -> None:
    """Make the spool directory of one application: specs may hold passwords of sources, so on disks it is ours alone.

    :param private: nobody else may look; not where the driver is another user on the cluster.
    """
    filesystem = open_filesystem(uri)
    path = filesystem.local_path(uri)
    if path is None or not private:
        filesystem.make_directory(uri)
        return
    above = Path(path).parent
    for missing in [p for p in (*reversed(above.parents), above) if not p.exists()]:
        missing.mkdir(0o755, exist_ok=True)  # with a umask of 0 others could put a directory of theirs in our place
    os.mkdir(path, 0o700)


class SubprocessDriver:
    """A running ``spark-submit`` and everything it started: one process group of its own.

    :param remote: the driver, where it is on a cluster.
    """

    def __init__(
        self,
        command: list[str],
        environment: Mapping[str, str],
        scratch: Path,
        log: Path,
        remote: ClusterDriver | None = None,
    ) -> None:
        self.log = log
        self._remote = remote
        self._scratch = scratch
        self._owner = os.getpid()
        self._stopped = False
        with open(log, "xb") as output:
            os.chmod(log, 0o600)
            self._process = subprocess.Popen(
                command,
                env=dict(environment),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        _running.add(self)

    @property
    def is_ours(self) -> bool:
        """Whether this process started it, not one that we were forked from."""
        return os.getpid() == self._owner

    @property
    def pid(self) -> int:
        """Process id; also that of the group."""
        return self._process.pid

    def exit_code(self) -> int | None:
        """None while it runs."""
        return self._process.poll()

    def wait(self, seconds: float) -> bool:
        """Wait for it to end by itself; whether it did."""
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        return True

    def stop(self) -> None:
        """Kill the group. The files of a step are invisible, so there is nothing a gentler end would save."""
        if self._stopped or not self.is_ours:
            return
        # Also when the JVM has gone: its Python driver may still be there. Never twice: the number may be another's.
        self._stopped = True
        code = self.exit_code()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        # Not for ever: a process that the kernel keeps in a call of a dead file server goes when that answers.
        if not self.wait(_STOP_SECONDS):
            log.warning("process group %d of Spark was killed and has not ended yet", self._process.pid)
        _running.discard(self)
        # Whatever spark-submit ended with but 0, it may have lost sight of a driver that goes on.
        if self._remote is not None and code != 0:
            self._remote.delete(self.log.read_text(encoding="utf-8", errors="replace"))

    def log_tail(self) -> str:
        """The last lines of the log that say something, and where the rest is."""
        text = self.log.read_text(encoding="utf-8", errors="replace")
        refusal = old_spark_submit(text.splitlines())
        if refusal is not None:
            return f"{refusal}. The whole log: {self.log}"
        lines = [line for line in text.splitlines() if line.strip() and not _FRAME.fullmatch(line)][-_LOG_TAIL_LINES:]
        elsewhere = [] if self._remote is None else [self._remote.log_command]
        return "\n".join([*(f"  | {line[:500]}" for line in lines), *elsewhere, f"The whole log: {self.log}"])

    def release(self) -> None:
        """Remove the private directory: spool, settings, shuffle files."""
        shutil.rmtree(self._scratch, ignore_errors=True)


_running: weakref.WeakSet[SubprocessDriver] = weakref.WeakSet()


@atexit.register
def _stop_all() -> None:
    """The last net: whoever forgot to close a session still leaves no JVM behind."""
    for driver in list(_running):
        if driver.is_ours:
            driver.stop()
            driver.release()


def _forget_old_logs(directory: Path) -> None:
    logs = sorted(directory.glob("spark-*.log"))
    for log in logs[: max(0, len(logs) - _LOGS_KEPT + 1)]:
        log.unlink(missing_ok=True)
