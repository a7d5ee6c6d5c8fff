"""Tasks of Airflow 3 may not touch Airflow's own database, and dag.test() does not stop them; so we look."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import airflow_hive_acid

ROOMS = ("hooks", "operators", "sensors", "triggers", "plugins", "dag_factories", "decorators")
FORBIDDEN = ("airflow.models", "airflow.settings", "airflow.utils.session", "airflow.utils.db", "airflow.jobs")
#: The page is a part of Airflow's API server, whose database that is; tasks never import it.
SERVER = "plugins/server_database.py"
FILES = sorted(
    p
    for room in ROOMS
    for p in (Path(airflow_hive_acid.__file__).parent / room).rglob("*.py")
    if not str(p).endswith(SERVER)
)


def imported_by(source: str) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return names


@pytest.mark.parametrize("path", FILES, ids=lambda p: f"{p.parent.name}/{p.name}")
def test_airflow_facing_code_does_not_import_airflows_orm(path):
    bad = {name for name in imported_by(path.read_text()) if name.startswith(FORBIDDEN)}
    assert bad == set()


def test_the_guard_sees_each_way_to_import():
    source = "import airflow.settings\nfrom airflow import models\nfrom airflow.utils.session import create_session"
    found = {name for name in imported_by(source) if name.startswith(FORBIDDEN)}
    assert {"airflow.settings", "airflow.models", "airflow.utils.session"} <= found
