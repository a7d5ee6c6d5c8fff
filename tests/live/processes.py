"""A whole Airflow in processes of its own: API server, DAG processor, scheduler with LocalExecutor, and triggerer.

What a test needs of it goes the way of everybody else: through the REST API. Only process ids are looked up beside it,
by those who kill them.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

SECONDS = 180.0
#: How soon Airflow notices that a process of its own is gone.
HEARTBEAT_SECONDS = 15


class LiveAirflow:
    """Its processes, and what a user may ask of it.

    :param home: an empty directory; logs of the processes lie in it.
    :param dags: the DAGs folder.
    :param environment: variables beside its own, for example connections.
    """

    def __init__(self, home: Path, dags: Path, environment: Mapping[str, str]) -> None:
        self.home = home
        self._port = _free_port()
        self._url = f"http://127.0.0.1:{self._port}"
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._token = ""
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("AIRFLOW", "PYTEST"))}
        self.environment = kept | _configuration(home, dags, self._url) | dict(environment)

    def start(self) -> None:
        """Start everything, and wait until all DAG files are parsed and somebody answers."""
        self._run("db", "migrate")
        self.spawn("api-server", "--port", str(self._port), "--host", "127.0.0.1", "--workers", "1")
        self.spawn("dag-processor")
        self.spawn("scheduler", "--skip-serve-logs")
        self.spawn("triggerer", "--skip-serve-logs")
        self.wait_for(self._is_healthy, "is healthy")

    def spawn(self, name: str, *arguments: str) -> None:
        """Start one of Airflow's processes, in a group of its own."""
        with (self.home / f"{name}.log").open("ab") as log:
            self._processes[name] = subprocess.Popen(
                [_program(), name, *arguments], env=self.environment, stdin=subprocess.DEVNULL, stdout=log,
                stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip

    def kill(self, name: str) -> None:
        """``kill -9`` of one of them with all it has started."""
        process = self._processes.pop(name)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(60)

    def stop(self) -> None:
        """End all of them and whatever they have started; nobody needs what they would still do."""
        left = [child for process in self._processes.values() for child in _descendants(process.pid)]
        for name in list(self._processes):
            self.kill(name)
        for child in left:
            with contextlib.suppress(psutil.NoSuchProcess):
                child.kill()

    def run_dag(self, dag_id: str, conf: Mapping[str, Any] | None = None) -> str:
        """Start a run, with what its tasks find in ``dag_run.conf``; returns its id."""
        self.wait_for(lambda: self.knows(dag_id), f"knows the DAG {dag_id}")
        wanted = {"logical_date": None, "conf": dict(conf or {})}
        return str(self.api("POST", f"dags/{dag_id}/dagRuns", wanted)["dag_run_id"])

    def task(self, dag_id: str, run_id: str, task_id: str) -> dict[str, Any]:
        """State, try number and the rest of a task instance."""
        return self.api("GET", f"dags/{dag_id}/dagRuns/{run_id}/taskInstances/{task_id}")

    def wait_for_state(self, dag_id: str, run_id: str, task_id: str, *states: str) -> dict[str, Any]:
        """Wait until a task instance is in one of these states; returns it."""
        found: dict[str, Any] = {}

        def reached() -> bool:
            found.update(self.task(dag_id, run_id, task_id))
            if found["state"] in ("failed", "upstream_failed") and found["state"] not in states:
                raise AssertionError(f"{task_id} is {found['state']}; its log:\n{self.log_of(dag_id, run_id, task_id)}")
            return found["state"] in states

        self.wait_for(reached, f"brings {task_id} into state {' or '.join(states)}", lambda: str(found.get("state")))
        return found

    def xcom(self, dag_id: str, run_id: str, task_id: str) -> Any:
        """What a task has returned."""
        return self.api("GET", f"dags/{dag_id}/dagRuns/{run_id}/taskInstances/{task_id}/xcomEntries/return_value")[
            "value"
        ]

    def log_of(self, dag_id: str, run_id: str, task_id: str) -> str:
        """The logs of all tries of a task."""
        below = self.home / "logs" / f"dag_id={dag_id}" / f"run_id={run_id}" / f"task_id={task_id}"
        return "\n".join(path.read_text(errors="replace") for path in sorted(below.glob("*.log*")))

    def api(self, method: str, path: str, body: Any = None) -> dict[str, Any]:
        """Ask the REST API."""
        request = urllib.request.Request(
            f"{self._url}/api/v2/{path}",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"Bearer {self._login()}", "Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=60) as answer:
            return dict(json.load(answer))

    def wait_for(
        self, is_so: Callable[[], bool], does: str, found: Callable[[], str] = str, seconds: float = SECONDS
    ) -> None:
        """Wait for a condition; all processes must stay alive meanwhile."""
        deadline = time.monotonic() + seconds
        while not is_so():
            dead = [name for name, process in self._processes.items() if process.poll() is not None]
            if dead or time.monotonic() > deadline:
                logs = "\n".join(f"--- {path.name}\n{_tail(path)}" for path in sorted(self.home.glob("*.log")))
                raise AssertionError(f"Airflow never {does} ({found()}); ended: {dead or 'none'}\n{logs}")
            time.sleep(0.1)

    def _login(self) -> str:
        if not self._token:
            with urllib.request.urlopen(f"{self._url}/auth/token", timeout=60) as answer:
                self._token = str(json.load(answer)["access_token"])
        return self._token

    def _is_healthy(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self._url}/api/v2/monitor/health", timeout=60) as answer:
                health = json.load(answer)
        except OSError:
            return False
        return all(health[part]["status"] == "healthy" for part in ("scheduler", "triggerer", "dag_processor"))

    def knows(self, dag_id: str) -> bool:
        """Whether the DAG was found."""
        try:
            self.api("GET", f"dags/{dag_id}")
        except urllib.error.HTTPError as error:
            if error.code == 404:
                return False
            raise
        return True

    def _run(self, *arguments: str) -> None:
        with (self.home / "commands.log").open("ab") as log:
            subprocess.run(
                [_program(), *arguments], env=self.environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                check=True, timeout=SECONDS,
            )  # fmt: skip


def _configuration(home: Path, dags: Path, url: str) -> dict[str, str]:
    """Of an Airflow that notices within seconds what a big one may take minutes for."""
    options = {
        "api": {"base_url": url, "secret_key": secrets.token_hex(16)},
        "api_auth": {"jwt_secret": secrets.token_hex(32)},
        "core": {
            "dags_folder": dags, "dags_are_paused_at_creation": False, "execution_api_server_url": f"{url}/execution/",
            "load_examples": False, "parallelism": 2, "simple_auth_manager_all_admins": True,
        },
        "dag_processor": {"refresh_interval": 2, "parsing_processes": 1},
        "database": {"sql_alchemy_conn": f"sqlite:///{home / 'airflow.db'}"},
        "logging": {"base_log_folder": home / "logs"},
        "scheduler": {
            "task_instance_heartbeat_timeout": HEARTBEAT_SECONDS,
            "task_instance_heartbeat_timeout_detection_interval": 1, "scheduler_heartbeat_sec": 1,
        },
        "triggerer": {"job_heartbeat_sec": 1, "triggerer_health_check_threshold": HEARTBEAT_SECONDS},
        "workers": {"min_heartbeat_interval": 1},
    }  # fmt: skip
    variables = {
        f"AIRFLOW__{section}__{option}".upper(): str(value)
        for section, values in options.items()
        for option, value in values.items()
    }
    return {"AIRFLOW_HOME": str(home), **variables}


def _program() -> str:
    return str(Path(sys.executable).parent / "airflow")


def _descendants(pid: int) -> list[psutil.Process]:
    try:
        return psutil.Process(pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []


def _tail(path: Path) -> str:
    return path.read_text(errors="replace")[-1500:]


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
