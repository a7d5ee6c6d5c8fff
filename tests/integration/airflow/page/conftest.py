"""The application behind the page, called in this process, by users of each role of Airflow's simple auth manager."""

from __future__ import annotations

import json
import warnings
from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa

from airflow_hive_acid.metastore import MetastoreClient
from airflow_hive_acid.metastore.catalog.values.model import Column, TableDefinition

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from fastapi import FastAPI
    from fastapi.testclient import TestClient

CONN = "hive_acid_default"
BASE = f"/api/v1/connections/{CONN}"
HEADER = {"X-Hive-Acid": "1"}
ROLES = ("anonymous", "viewer", "user", "op", "admin")


@pytest.fixture(scope="session")
def tokens(airflow_db: None) -> dict[str, str]:
    """A token of each role."""
    from airflow.api_fastapi.app import get_auth_manager, init_auth_manager
    from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the key that Airflow makes for itself is short
        init_auth_manager()
        made = get_auth_manager().generate_jwt
        return {role: made(SimpleAuthManagerUser(username=f"a_{role}", role=role.upper())) for role in ROLES[1:]}


@pytest.fixture
def metastore(connections: str, tmp_path: Path) -> Iterator[MetastoreClient]:
    with MetastoreClient(connections) as client:
        client.catalog.set_warehouse(tmp_path.as_uri())
        client.catalog.create_database("db")
        client.catalog.create_table(TableDefinition("db", "t", (Column("x", "int"),)))
        (tmp_path / "db.db" / "t").mkdir(parents=True)  # a table without its directory is an error
        yield client


@pytest.fixture
def application(metastore: MetastoreClient) -> Iterator[FastAPI]:
    from airflow_hive_acid.plugins.application import make_application
    from airflow_hive_acid.plugins.metastores import Metastores

    metastores = Metastores()
    yield make_application(metastores)
    metastores.close()


@pytest.fixture
def page(application: FastAPI) -> Iterator[TestClient]:
    from fastapi.testclient import TestClient

    with TestClient(application, raise_server_exceptions=False) as client:
        yield client


@pytest.fixture
def ask(page: TestClient, tokens: dict[str, str]) -> Callable[..., Any]:
    """GET as somebody."""

    def ask(path: str, role: str = "viewer") -> Any:
        headers = {} if role == "anonymous" else {"Authorization": f"Bearer {tokens[role]}"}
        return page.get(path if path.startswith("/api") else BASE + path, headers=headers)

    return ask


@pytest.fixture
def act(page: TestClient, tokens: dict[str, str]) -> Callable[..., Any]:
    """POST as somebody, with the header unless others are given."""

    def act(path: str, body: Any = None, role: str = "op", headers: dict[str, str] | None = None) -> Any:
        given = dict(HEADER if headers is None else headers)
        if role != "anonymous":
            given["Authorization"] = f"Bearer {tokens[role]}"
        return page.post(BASE + path, json={} if body is None else body, headers=given)

    return act


@pytest.fixture
def audit(airflow_db: None) -> Iterator[Callable[[], list[tuple[str, str, dict[str, Any]]]]]:
    """Rows of Airflow's audit log since the test began."""
    from airflow.models.log import Log
    from airflow.utils.session import create_session  # noqa: TID251 - no task

    with create_session() as session:
        before = session.scalar(sa.select(sa.func.max(Log.id))) or 0

    def rows() -> list[tuple[str, str, dict[str, Any]]]:
        with create_session() as session:
            found = session.scalars(sa.select(Log).where(Log.id > before).order_by(Log.id)).all()
            return [
                (row.event, row.owner, json.loads(row.extra)) for row in found if row.event.startswith("hive_acid.")
            ]

    return rows


@pytest.fixture
def counts(metastore: MetastoreClient) -> Callable[[], dict[str, int]]:
    """Rows of every table of the metastore."""
    from airflow_hive_acid.metastore.schema.types import METADATA

    def counts() -> dict[str, int]:
        with metastore.database.reading() as connection:
            return {
                name: connection.execute(sa.select(sa.func.count()).select_from(table)).scalar_one()
                for name, table in METADATA.tables.items()
            }

    return counts
