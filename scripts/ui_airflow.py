"""An Airflow of one's own for the page: in a directory, on free ports of loopback, with a user for each role."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import signal
import socket
import sqlite3
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

REPOSITORY = Path(__file__).resolve().parent.parent
#: User and password of each role are the role's name.
ROLES = ("admin", "op", "user", "viewer")
START_SECONDS = 300


class UiAirflow:
    """Airflow's processes.

    :param home: a directory of its own; kept between runs if the caller keeps it.
    :param metastores: connections of type Hive ACID: id → extra.
    :param dags: the DAGs folder.
    :param options: more of Airflow's configuration: ``section.option`` → value.
    :param port: of the API server; a free one by default.
    """

    def __init__(
        self,
        home: Path,
        metastores: Mapping[str, Mapping[str, str]],
        dags: Path = REPOSITORY / "dags",
        options: Mapping[str, object] | None = None,
        port: int | None = None,
    ) -> None:
        self.home = home
        self.port = port or free_port()
        self.url = f"http://localhost:{self.port}"
        self._process: subprocess.Popen[bytes] | None = None
        home.mkdir(parents=True, exist_ok=True)
        passwords = home / "passwords.json"
        passwords.write_text(json.dumps({role: role for role in ROLES}))
        given = {
            "api.base_url": self.url, "api.host": "127.0.0.1", "api.port": self.port, "api.workers": 1,
            "api.secret_key": secrets.token_hex(16), "api_auth.jwt_secret": secrets.token_hex(32),
            "core.dags_folder": dags, "core.load_examples": False,
            "core.execution_api_server_url": f"{self.url}/execution/",
            "core.simple_auth_manager_users": ",".join(f"{role}:{role}" for role in ROLES),
            "core.simple_auth_manager_passwords_file": passwords, "core.parallelism": 2,
            "database.sql_alchemy_conn": f"sqlite:///{home / 'airflow.db'}", "logging.base_log_folder": home / "logs",
            "logging.worker_log_server_port": free_port(), "logging.trigger_log_server_port": free_port(),
            **(options or {}),
        }  # fmt: skip
        variables = {f"AIRFLOW__{key.replace('.', '__')}".upper(): str(value) for key, value in given.items()}
        for name, extra in metastores.items():
            variables[f"AIRFLOW_CONN_{name.upper()}"] = json.dumps({"conn_type": "hive_acid", "extra": dict(extra)})
        variables["AIRFLOW_CONN_SPARK_DEFAULT"] = json.dumps({"conn_type": "spark", "host": "local[1]"})
        kept = {key: value for key, value in os.environ.items() if not key.startswith(("AIRFLOW", "PYTEST"))}
        path = f"{Path(sys.executable).parent}{os.pathsep}{kept.get('PATH', os.defpath)}"
        self.environment = kept | variables | {"AIRFLOW_HOME": str(home), "PATH": path}

    def start(self, *, whole: bool = False, wait: bool = True) -> None:
        """Start the API server alone, or everything.

        :param whole: ``airflow standalone``: scheduler, triggerer and DAG processor, too.
        :param wait: until it answers.
        """
        self.run("db", "migrate")
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [_program(), "standalone"] if whole else [_program(), "api-server"], env=self.environment,
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip
        if wait:
            self.wait_until_it_answers()

    def stop(self) -> None:
        """End all of it."""
        process = self._process
        if process is None:
            return
        for how, seconds in ((signal.SIGTERM, 30), (signal.SIGKILL, 20)):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, how)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(seconds)
                break
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        self._process = None

    def run(self, *arguments: str) -> None:
        """Run one of Airflow's commands to its end."""
        with self.log.open("ab") as log:
            subprocess.run(
                [_program(), *arguments], env=self.environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                check=True, timeout=START_SECONDS,
            )  # fmt: skip

    @property
    def log(self) -> Path:
        """What its processes say."""
        return self.home / "airflow.log"

    def wait_until_it_answers(self) -> None:
        """Wait for the API server."""
        deadline = time.monotonic() + START_SECONDS
        while not self.is_answering():
            ended = self._process is None or self._process.poll() is not None
            if ended or time.monotonic() > deadline:
                tail = self.log.read_text(errors="replace")[-3000:]
                raise RuntimeError(f"Airflow does not answer on {self.url}; the end of {self.log}:\n{tail}")
            time.sleep(0.2)

    def is_running(self) -> bool:
        """Whether its first process lives."""
        return self._process is not None and self._process.poll() is None

    def wait_for_dag(self, dag_id: str) -> bool:
        """Wait until a DAG file is parsed; false if Airflow ends before."""
        deadline = time.monotonic() + START_SECONDS
        while self.is_running() and time.monotonic() < deadline:
            with (
                contextlib.suppress(sqlite3.OperationalError),
                contextlib.closing(sqlite3.connect(f"file:{self.home / 'airflow.db'}?mode=ro", uri=True)) as database,
            ):
                if database.execute("SELECT 1 FROM dag WHERE dag_id = ?", (dag_id,)).fetchone():
                    return True
            time.sleep(1)
        return False

    def is_answering(self) -> bool:
        """Whether the API server is up."""
        try:
            with urllib.request.urlopen(f"{self.url}/api/v2/monitor/health", timeout=5) as answer:  # noqa: S310 - ours
                return int(answer.status) == 200
        except (OSError, urllib.error.URLError):
            return False


def free_port() -> int:
    """A port of loopback that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _program() -> str:
    return str(Path(sys.executable).parent / "airflow")
