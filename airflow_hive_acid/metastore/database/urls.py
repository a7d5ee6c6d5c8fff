"""Metastore URLs: which database, through which driver, printed without the password.

SQLite (embedded), PostgreSQL and MySQL/MariaDB are served; anything else, Oracle included, is refused here with the
remedy. A driver that is not installed is named together with the extra that brings it.
"""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import sqlalchemy as sa

from airflow_hive_acid.errors import ConfigurationError, InvalidArgumentsError
from airflow_hive_acid.metastore.database.url_parameters import check_parameters

_DRIVERS = {
    "sqlite": "sqlite",
    "postgresql": "postgresql+psycopg",
    "postgres": "postgresql+psycopg",
    "mysql": "mysql+pymysql",
    "mariadb": "mysql+pymysql",
}
_MODULES = {"postgresql": ("psycopg", "postgres"), "mysql": ("pymysql", "mysql")}
_EXAMPLES = "sqlite:///path/metastore.db, postgresql://user:password@host/db or mysql://user:password@host/db"
#: Parameters of drivers that hold a secret.
_SECRET = re.compile("pass|pwd|secret|token", re.IGNORECASE)
_NAMED = {
    "oracle": "a metastore on Oracle (Hive's own scripts make one there)",
    "mssql": "a metastore on SQL Server (Hive's own scripts make one there)",
}
_HALF = re.compile("[\ud800-\udfff]")
_HIGHEST_PORT = 65_535


def normalize_url(url: str | sa.URL) -> sa.URL:
    """The URL with the driver we use.

    :raises InvalidArgumentsError: when it is no URL of a database that can hold a metastore, or has a parameter of its
        driver that is not allowed.
    :raises ConfigurationError: when the driver is not installed; names the extra.
    """
    parsed = parse_url(url, "the metastore URL")
    backend = parsed.get_backend_name()
    if backend not in _DRIVERS:
        named = _NAMED.get(backend, f"a metastore database of type {backend!r}")
        raise InvalidArgumentsError(
            f"{named} is not supported; supported are SQLite, PostgreSQL and MySQL/MariaDB: {_EXAMPLES}"
        )
    parsed = parsed.set(drivername=_DRIVERS[backend])
    if backend == "sqlite":
        if parsed.query or (isinstance(url, str) and "?" in url):
            # What is behind it would be dropped, and another file be opened.
            raise InvalidArgumentsError("a SQLite URL takes no parameters here; in its path write ? as %3F")
        return _sqlite_file(parsed)
    if not parsed.database:
        raise InvalidArgumentsError(f"{safe_url(parsed)} names no database; expected {_EXAMPLES}")
    check_parameters(parsed, safe_url(parsed.set(query={})))
    _require_driver(parsed.get_backend_name())
    return parsed


def parse_url(url: str | sa.URL, what: str) -> sa.URL:
    """The parts of a URL, which may still be one of any database.

    :param what: what it is called in messages. The text itself is not repeated in them: it may hold a password.
    :raises InvalidArgumentsError: when it is no URL.
    """
    try:
        parsed = sa.make_url(url)
    except (sa.exc.ArgumentError, ValueError):
        path = url if isinstance(url, str) and url.startswith("/") and "@" not in url else None
        hint = f"; for the file {path} write sqlite:///{path}" if path else ""
        if isinstance(url, str) and url.startswith("jdbc:"):
            hint = "; a JDBC URL is written without jdbc:, with user and password in front of the host"
        raise InvalidArgumentsError(f"{what} cannot be read; expected {_EXAMPLES}{hint}") from None
    parts = (parsed.username, parsed.password, parsed.host, parsed.database, *map(str, parsed.query.values()))
    if any(_HALF.search(part) for part in parts if isinstance(part, str)):
        raise InvalidArgumentsError(f"{what} holds half a character (a surrogate); write it in plain letters")
    if "@" in (parsed.host or ""):
        raise InvalidArgumentsError(f"{what} has more than one @; in its user or password write @ as %40")
    if parsed.port is not None and not 0 < parsed.port <= _HIGHEST_PORT:
        raise InvalidArgumentsError(f"{what} has the port {parsed.port}; ports are 1 to {_HIGHEST_PORT:,}")
    return parsed


def safe_url(url: sa.URL) -> str:
    """The URL for messages: the password is hidden, and so are parameters that are secrets."""
    secrets = {name: "***" for name in url.query if _SECRET.search(name)}
    text = url.update_query_dict(secrets).render_as_string(hide_password=True)
    return text.replace("%2A%2A%2A", "***")


def _sqlite_file(url: sa.URL) -> sa.URL:
    if not url.database or url.database == ":memory:":
        raise InvalidArgumentsError(
            "an in-memory SQLite database cannot be shared by processes; give a file: sqlite:///path/metastore.db"
        )
    if "\0" in url.database:
        raise InvalidArgumentsError("the path of the SQLite file contains a NUL character; give a file that can exist")
    if url.host or url.username:
        raise InvalidArgumentsError("a SQLite URL has no host; write sqlite:///relative.db or sqlite:////absolute.db")
    return url.set(database=str(Path(url.database).expanduser().absolute()))


def _require_driver(backend: str) -> None:
    module, extra = _MODULES[backend]
    if importlib.util.find_spec(module) is None:
        raise ConfigurationError(
            f"the driver {module!r} for {backend} is not installed; install airflow-hive-acid[{extra}]"
        )
