"""What an Airflow connection of type ``hive_acid`` says, as a value.

The metastore's URL is put together by SQLAlchemy from the connection's own fields, so that no character of a host,
user or password can change its meaning. Keys of the extra that begin with ``hive.`` or ``metastore.`` are Hive
settings, those with ``spark.`` configuration of the Spark applications; any other unknown key is refused, because a
misspelt ``warehouse`` must not send tables somewhere else.
"""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from airflow_hive_acid.errors import ConfigurationError, InvalidArgumentsError
from airflow_hive_acid.format.services import service_name
from airflow_hive_acid.hooks.configuration import DEFAULT_SPARK_CONN_ID
from airflow_hive_acid.maintenance.worker.jobs import ACCOUNT
from airflow_hive_acid.metastore.database import parse_url

if TYPE_CHECKING:
    from collections.abc import Mapping

    from airflow.sdk import Connection

_NAME = re.compile(r"[A-Za-z0-9_]+")
_DIALECTS = ("sqlite", "postgresql", "mysql")
_FIELDS = (
    "dialect", "metastore_url", "warehouse", "spark_conn_id", "spark_service", "default_database", "spool",
    "proxy_user",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class HiveAcidConnection:
    """A connection, read and checked.

    :param metastore_url: complete, with the password; printing it hides the password.
    :param warehouse: URI of the directory below which databases are created, or None.
    :param default_database: of names without a database.
    :param spark_service: name or URI of the Spark service that runs statements; None: each task has a Spark of its own.
    :param spool: URI of the directory through which specs and results travel, or None for a local one.
    :param spark_conf: configuration of the Spark applications.
    :param settings: Hive settings given on the connection.
    :param proxy_user: whom Spark applications act for (``spark-submit --proxy-user``); None: whoever submits.
    """

    conn_id: str
    metastore_url: sa.URL
    warehouse: str | None
    spark_conn_id: str = DEFAULT_SPARK_CONN_ID
    spool: str | None = None
    spark_conf: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, str] = field(default_factory=dict)
    default_database: str = "default"
    spark_service: str | None = None
    proxy_user: str | None = None


def read_connection(connection: Connection) -> HiveAcidConnection:
    """Read a connection.

    :raises InvalidArgumentsError: when a field is unusable; names the connection, the field and the remedy.
    """
    name = f"connection {connection.conn_id!r}"
    if connection.conn_type != "hive_acid":
        raise InvalidArgumentsError(f"{name} is of type {connection.conn_type!r}; make it one of type 'hive_acid'")
    extra = _extra(name, connection)
    settings = _take(extra, ("hive.", "metastore."))
    spark_conf = _take(extra, ("spark.",))
    _refuse_unknown(name, extra)
    return HiveAcidConnection(
        conn_id=str(connection.conn_id),
        metastore_url=_metastore_url(name, connection, extra),
        warehouse=_uri(name, "warehouse", extra.get("warehouse")),
        spark_conn_id=str(extra.get("spark_conn_id", DEFAULT_SPARK_CONN_ID)),
        spool=_uri(name, "spool", extra.get("spool")),
        spark_conf=spark_conf,
        settings=settings,
        default_database=_database(name, extra.get("default_database", "default")),
        spark_service=_service(name, extra.get("spark_service")),
        proxy_user=_proxy_user(name, extra.get("proxy_user")),
    )


def require_warehouse(connection: HiveAcidConnection) -> str:
    """The warehouse, which whoever creates tables needs.

    :raises ConfigurationError: when the connection names none.
    """
    if connection.warehouse is None:
        raise ConfigurationError(
            f'connection {connection.conn_id!r} names no warehouse; put "warehouse": "/path/or/URI" into its extra'
        )
    return connection.warehouse


def _database(name: str, value: object) -> str:
    text = str(value)
    if not _NAME.fullmatch(text):
        raise InvalidArgumentsError(f"{name}: default_database is {text[:80]!r}; give the name of one database")
    return text.lower()


def _service(name: str, value: object) -> str | None:
    if value is None:
        return None
    text = str(value)
    if ":/" not in text:
        try:
            service_name(text)
        except InvalidArgumentsError as error:
            raise InvalidArgumentsError(f"{name}: spark_service: {error}") from None
    return text


def _proxy_user(name: str, value: object) -> str | None:
    if value is None:
        return None
    if not ACCOUNT.fullmatch(str(value)):
        raise InvalidArgumentsError(f"{name}: proxy_user is {str(value)[:80]!r}; give the name of one account")
    return str(value)


def _extra(name: str, connection: Connection) -> dict[str, Any]:
    try:
        given: object = connection.extra_dejson
    except (ValueError, RecursionError) as error:
        raise InvalidArgumentsError(f"{name}: its extra cannot be read as JSON ({type(error).__name__})") from None
    if not isinstance(given, dict):
        raise InvalidArgumentsError(f'{name}: its extra must be a JSON object, for example {{"warehouse": "/path"}}')
    return {key: value for key, value in given.items() if value not in (None, "")}


def _take(extra: dict[str, Any], prefixes: tuple[str, ...]) -> dict[str, str]:
    keys = [key for key in extra if key.lower().startswith(prefixes)]
    return {key: _text(extra.pop(key)) for key in keys}


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _refuse_unknown(name: str, extra: Mapping[str, Any]) -> None:
    for key in extra:
        if key not in _FIELDS:
            near = difflib.get_close_matches(key, _FIELDS, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(_FIELDS)}, hive.*, spark.*"
            raise InvalidArgumentsError(f"{name}: its extra has the unknown key {key!r}; {hint}")


def _metastore_url(name: str, connection: Connection, extra: Mapping[str, Any]) -> sa.URL:
    if "metastore_url" in extra:
        return _given_url(name, connection, str(extra["metastore_url"]))
    dialect = str(extra.get("dialect", "sqlite"))
    if dialect not in _DIALECTS:
        raise InvalidArgumentsError(f"{name}: dialect must be one of {', '.join(_DIALECTS)}, not {dialect!r}")
    if dialect == "sqlite":
        return _sqlite_url(name, connection)
    for attribute, label in (("host", "Metastore host"), ("schema", "Metastore database")):
        if not getattr(connection, attribute):
            raise InvalidArgumentsError(f"{name}: {label} ({attribute}) is empty; a {dialect} metastore needs it")
    return sa.URL.create(
        dialect,
        username=connection.login or None,
        password=connection.password or None,
        host=connection.host,
        port=connection.port,
        database=connection.schema,
    )


def _sqlite_url(name: str, connection: Connection) -> sa.URL:
    path = connection.host or ""
    if not PurePosixPath(path).is_absolute():
        raise InvalidArgumentsError(
            f"{name}: its host must be the absolute path of the SQLite file, not {path!r}; "
            'or choose another database with "dialect" in its extra'
        )
    return sa.URL.create("sqlite", database=path)


def _given_url(name: str, connection: Connection, text: str) -> sa.URL:
    given = [label for label in ("host", "port", "schema") if getattr(connection, label)]
    if given:
        raise InvalidArgumentsError(
            f"{name} has a metastore_url and the field {given[0]!r}; leave one of them empty, "
            "or it is unclear which counts"
        )
    url = parse_url(text, f"{name}: metastore_url")
    if connection.login:
        url = url.set(username=connection.login)
    if connection.password:
        url = url.set(password=connection.password)
    return url


def _uri(name: str, key: str, value: Any) -> str | None:
    if value is None:
        return None
    text = str(value)
    if "://" in text or text.startswith("file:/"):
        return text
    path = PurePosixPath(text)
    if not path.is_absolute():
        raise InvalidArgumentsError(f"{name}: {key} must be a URI or an absolute path, not {text!r}")
    return path.as_uri()
