"""Which backend a URL needs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_hive_acid.metastore.database.backends.mysql import MysqlBackend
from airflow_hive_acid.metastore.database.backends.postgresql import PostgresqlBackend
from airflow_hive_acid.metastore.database.backends.sqlite import SqliteBackend

if TYPE_CHECKING:
    import sqlalchemy as sa

    from airflow_hive_acid.metastore.database.backend import Backend

_BACKENDS: dict[str, type[Backend]] = {each.name: each for each in (SqliteBackend, PostgresqlBackend, MysqlBackend)}


def backend_for(url: sa.URL) -> Backend:
    """The backend of a URL that :func:`~airflow_hive_acid.metastore.database.urls.normalize_url` has let pass."""
    return _BACKENDS[url.get_backend_name()]()
