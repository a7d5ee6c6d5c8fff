"""Airflow's own database, of which the API server is a part: connections by type, and rows of the audit log.

The only module of this package that touches it; nothing here is ever imported by a task (a test looks).
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

from airflow.configuration import conf
from airflow.models.connection import Connection
from airflow.models.log import Log
from airflow.utils.session import create_session  # noqa: TID251 - the API server, not a task
from sqlalchemy import select

from airflow_hive_acid.hooks.secrets import redact

if TYPE_CHECKING:
    from collections.abc import Mapping

_ENVIRONMENT = "AIRFLOW_CONN_"
_LONGEST = 500


def connection_ids(default: str) -> list[str]:
    """Connections of type ``hive_acid`` that can be listed: those in Airflow's database and in the environment.

    What only another secrets backend holds cannot be listed; it can be named.

    :param default: the one that the maintenance DAGs work on; the first of the answer, if there is such a connection.
    """
    with create_session() as session:
        wanted = select(Connection.conn_id).where(Connection.conn_type == "hive_acid").order_by(Connection.conn_id)
        found = list(session.scalars(wanted))
    found += sorted(name.removeprefix(_ENVIRONMENT).lower() for name in os.environ if name.startswith(_ENVIRONMENT))
    candidates = [default, *(conn_id for conn_id in found if conn_id != default)]
    return [conn_id for conn_id in dict.fromkeys(candidates) if _type_of(conn_id) == "hive_acid"]


def read(conn_id: str) -> Connection:
    """A connection from wherever Airflow has it.

    :raises AirflowNotFoundException: when there is none.
    """
    return Connection.get_connection_from_secrets(conn_id)


def team_of(conn_id: str) -> str | None:
    """The team that a connection belongs to, where there are teams."""
    return Connection.get_team_name(conn_id) if conf.getboolean("core", "multi_team", fallback=False) else None


def note_action(event: str, owner: str, about: Mapping[str, Any]) -> int:
    """Write a row into Airflow's audit log.

    :param about: what was asked for and what became of it; values that look like secrets are masked.
    :return: the row's id.
    """
    with create_session() as session:
        row = Log(event=event, task_instance=None, owner=owner, owner_display_name=owner, extra=_extra(about))
        session.add(row)
        session.flush()
        return int(row.id)


def complete_action(row_id: int, about: Mapping[str, Any]) -> None:
    """Say what became of an action that was noted before it was begun."""
    with create_session() as session:
        row = session.get(Log, row_id)
        if row is not None:
            row.extra = _extra(about)


def _type_of(conn_id: str) -> str | None:
    try:
        return read(conn_id).conn_type
    except Exception:  # noqa: BLE001 - a variable of the environment that is no connection, a backend that is away
        return None


def _extra(about: Mapping[str, Any]) -> str:
    return json.dumps({key: _short(redact(value, key)) for key, value in about.items()})


def _short(value: Any) -> Any:
    return value.replace("\0", "")[:_LONGEST] if isinstance(value, str) else value
