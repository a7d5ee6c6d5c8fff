"""A real Hive 3.1.3 under remote control, built once from Maven's artifacts: one process, one request at a time."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import socket
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import sqlalchemy as sa

from tests import hive_scripts, mysql_servers
from tests.interop.oracle import oracle

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType

RECIPE = Path(__file__).parent / "recipe"
OUTPUT = Path(__file__).parents[3] / "build" / "hive3"
OPENED = (
    "java.io", "java.lang", "java.lang.reflect", "java.math", "java.net", "java.nio", "java.text", "java.time",
    "java.util", "java.util.concurrent", "java.util.concurrent.atomic", "java.util.regex", "sun.nio.ch",
)  # fmt: skip
"""Packages of java.base that Hive 3 looks into."""


class Hive3Error(Exception):
    """A request failed in Hive; the text is Hive's."""


def build(output: Path = OUTPUT) -> Path:
    """Bring ``output`` up to date with the recipe and return it."""
    digest = hashlib.sha256()
    for path in sorted([RECIPE / "pom.xml", *RECIPE.glob("java/**/*.java")]):
        digest.update(path.relative_to(RECIPE).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    stamp = output / "recipe.sha256"
    if stamp.exists() and stamp.read_text() == digest.hexdigest():
        return output
    maven = shutil.which("mvn")
    if maven is None:
        raise Hive3Error("Maven is needed to fetch Hive's jars: install it (Debian: apt-get install maven)")
    shutil.rmtree(output, ignore_errors=True)
    command = [maven, "-q", "-B", "-f", str(RECIPE / "pom.xml"), "package", f"-Doutput={output}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Hive3Error(f"{' '.join(command)} failed:\n{(done.stdout + done.stderr)[-4000:]}")
    stamp.write_text(digest.hexdigest())
    return output


def create_metastore(postgres: oracle.Postgres, name: str) -> str:
    """A database with the metastore schema of Hive's own 3.1.0 script; its URL."""
    url = postgres.create_database(name)
    hive_scripts.run(url, build() / "schema" / "hive-schema-3.1.0.postgres.sql")
    return url


def create_mysql_metastore(server: str, name: str) -> str:
    """The same on a MySQL that listens on a port; the URL of its user ``hive``."""
    admin = sa.create_engine(server, isolation_level="AUTOCOMMIT", poolclass=sa.pool.NullPool)
    with admin.connect() as connection:
        port = connection.execute(sa.text("SELECT @@port")).scalar_one()
        for statement in (
            f"CREATE DATABASE `{name}`",
            "CREATE USER IF NOT EXISTS hive@'127.0.0.1' IDENTIFIED WITH mysql_native_password BY 'none'",
            "GRANT ALL ON *.* TO hive@'127.0.0.1'",
        ):
            connection.execute(sa.DDL(statement))
    url = sa.URL.create("mysql+pymysql", "hive", "none", "127.0.0.1", port, name).render_as_string(hide_password=False)
    hive_scripts.run(url, build() / "schema" / "hive-schema-3.1.0.mysql.sql")
    return url


@contextlib.contextmanager
def mysql() -> Iterator[str]:
    """A MySQL 8 that Hive can reach: it listens on a port of 127.0.0.1."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    options = ("--skip-networking=OFF", "--bind-address=127.0.0.1", f"--port={port}", "--skip-name-resolve")
    with mysql_servers.server("mysql", *options) as url:
        yield url


def jdbc_url(url: str) -> str:
    """The JDBC form of a SQLAlchemy URL."""
    parts = sa.make_url(url)
    if parts.get_backend_name() == "postgresql":
        return oracle.jdbc_url(url)
    asked = "useSSL=false&allowPublicKeyRetrieval=true&serverTimezone=UTC"
    return f"jdbc:mysql://{parts.host}:{parts.port}/{parts.database}?{asked}"


class Hive3:
    """An embedded Hive 3.1.3.

    :param metastore_url: SQLAlchemy URL of a database with Hive's 3.1.0 schema, on PostgreSQL or MySQL.
    :param warehouse: warehouse directory; a database ``d`` gets ``d.db`` in it.
    """

    def __init__(self, metastore_url: str, warehouse: Path) -> None:
        self.metastore_url, self.warehouse = metastore_url, warehouse
        self._scratch = tempfile.TemporaryDirectory(prefix="hive3-")
        self._log = Path(self._scratch.name) / "hive.log"
        output = build()
        warehouse.mkdir(parents=True, exist_ok=True)
        command = [
            "java", "-Xmx1g", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Duser.timezone=UTC",
            "-Djava.net.preferIPv4Stack=true", f"-Djava.io.tmpdir={self._scratch.name}",
            *(f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in OPENED),
            "-cp", str(output / "classes"), "hive3.Launcher", str(output / "classes"), str(output / "lib"),
            jdbc_url(metastore_url), str(warehouse), self._scratch.name,
        ]  # fmt: skip
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True, cwd=self._scratch.name,
                env={**os.environ, "HADOOP_USER_NAME": "hive3"},
            )  # fmt: skip

    def __enter__(self) -> Hive3:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with contextlib.suppress(BrokenPipeError):  # it has ended by itself
            self._process.stdin.close()
        try:
            self._process.wait(60)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()
        self._scratch.cleanup()

    def ask(self, *request: object) -> list[str]:
        """Send one request (see ``Requests.java``) and return the rows of its answer."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write("\t".join(str(part) for part in request) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise self._ended() from None
        rows = []
        for line in self._process.stdout:
            text = line.rstrip("\n")
            if text.startswith("="):
                if text != "=":
                    raise Hive3Error(text[1:])
                return rows
            rows.append(text)
        raise self._ended()

    def _ended(self) -> Hive3Error:
        return Hive3Error(f"Hive has ended:\n{self._log.read_text(errors='replace')[-4000:]}")

    def run(self, sql: str) -> list[tuple[str, ...]]:
        """Run one statement; values are Hive's texts."""
        return [tuple(row.split("\t")) for row in self.ask("sql", " ".join(sql.split()))]

    def lock(self, txn_id: int, table: str, kind: str, operation: str) -> tuple[int, str]:
        """Ask for a lock on a table; id and state of the request."""
        lock_id, state = self.ask("lock", txn_id, *table.split("."), kind, operation)
        return int(lock_id), state

    def check(self, lock_id: int) -> str:
        """The state of a request now; it is granted when nothing is in its way any more."""
        return self.ask("check", lock_id)[1]

    def open(self) -> int:
        """Open a txn."""
        return int(self.ask("open", 1)[0])
