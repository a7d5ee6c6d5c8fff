"""A MariaDB of its own for the history checker, that can be killed and started again."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import sqlalchemy as sa

from airflow_hive_acid.metastore import MetastoreClient
from tests.mysql_servers import wait_for_server

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class Server:
    """mariadbd on a socket in a directory of its own; a COMMIT that was answered survives the death of the process."""

    def __init__(self, home: Path) -> None:
        path = f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/usr/local/sbin"
        server, install = (shutil.which(name, path=path) for name in ("mariadbd", "mariadb-install-db"))
        assert server, "mariadbd is not installed: apt-get install mariadb-server"
        assert install, "mariadb-install-db is not installed: apt-get install mariadb-server"
        who = ["--user=root"] if os.geteuid() == 0 else []
        self._home = home
        self._environment = os.environ | {"TMPDIR": str(home)}
        data = f"--datadir={home / 'data'}"
        subprocess.run(
            [install, "--no-defaults", *who, data, "--skip-test-db", "--auth-root-authentication-method=normal"],
            check=True, capture_output=True, env=self._environment,
        )  # fmt: skip
        self._command = [
            server, "--no-defaults", *who, data, f"--socket={home / 'socket'}", f"--pid-file={home / 'pid'}",
            "--skip-networking", "--skip-log-bin", "--innodb-flush-log-at-trx-commit=2", "--max-connections=200",
        ]  # fmt: skip
        self.url = sa.URL.create(
            "mysql+pymysql", "root", host="localhost", database="mysql", query={"unix_socket": str(home / "socket")}
        )
        self._process = self._start()

    def _start(self) -> subprocess.Popen[bytes]:
        with (self._home / "log").open("ab") as log:
            process = subprocess.Popen(self._command, stdout=log, stderr=log, env=self._environment)
        wait_for_server(process, self._home)
        return process

    def restart(self) -> None:
        """As a crash."""
        self.stop()
        self._process = self._start()

    def stop(self) -> None:
        """Kill it."""
        self._process.kill()
        self._process.wait()


@contextlib.contextmanager
def mariadb() -> Iterator[tuple[str, Callable[[], None]]]:
    """URL of a fresh metastore, and what restarts the server."""
    with tempfile.TemporaryDirectory(prefix="hive-acid-mariadb-") as home:
        server = Server(Path(home))
        try:
            engine = sa.create_engine(server.url, poolclass=sa.pool.NullPool)
            with engine.connect() as connection:
                connection.exec_driver_sql("CREATE DATABASE histories")
            engine.dispose()
            url = server.url.set(database="histories").render_as_string(hide_password=False)
            with MetastoreClient(url) as client:
                client.create_schema()
            yield url, server.restart
        finally:
            server.stop()
