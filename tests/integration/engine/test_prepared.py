"""Tables that a test did not make itself are what they would be if it had (tests/prepared.py)."""

from __future__ import annotations

import base64
import gzip
import re
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from airflow_hive_acid.engine import Engine
from airflow_hive_acid.metastore import MetastoreClient
from tests.integration.engine.conftest import TABLES, FakeSpark
from tests.prepared import prepare

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.backends("sqlite")


VARYING = re.compile(r"[0-9a-f]{8}(-?[0-9a-f]{4}){3}-?[0-9a-f]{12}|[0-9]+")
"""Times, and ids that are drawn."""


def unpacked(text: str) -> str:
    """Messages of events are packed."""
    return gzip.decompress(base64.b64decode(text)).decode() if text.startswith("H4sI") else text


def rows(metastore: Path, warehouse: str) -> dict[str, list[list[str]]]:
    """Texts of all rows of a metastore, whose warehouse is called W."""
    with closing(sqlite3.connect(metastore)) as connection:
        tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        return {
            table: [
                [VARYING.sub("#", unpacked(value).replace(warehouse, "W")) for value in row if isinstance(value, str)]
                for row in connection.execute(f'SELECT * FROM "{table}"')  # noqa: S608 - names of ours
            ]
            for table in tables
        }


def files(warehouse: Path) -> list[str]:
    return sorted(VARYING.sub("#", str(path.relative_to(warehouse))) for path in warehouse.rglob("*"))


def test_a_copy_is_what_was_made_at_another_place(schema_template: str, tmp_path: Path) -> None:
    found: list[Any] = []
    for name in ("made", "copied"):
        home = tmp_path / name
        (home / "warehouse").mkdir(parents=True)
        with closing(sqlite3.connect(schema_template)) as source, closing(sqlite3.connect(home / "m.db")) as target:
            source.backup(target)
        with MetastoreClient(f"sqlite:///{home / 'm.db'}") as client:
            client.catalog.set_warehouse((home / "warehouse").as_uri())
            with Engine(client, FakeSpark(), None) as engine:
                prepare(client, (home / "warehouse").as_uri(), "a test", lambda engine=engine: engine.run(TABLES))
                engine.run("INSERT INTO w.t VALUES (1, 'x'); INSERT INTO w.p PARTITION (k='a') VALUES (1)")
                assert client.catalog.get_table("w.t").location.endswith(f"{name}/warehouse/w.db/t")
        found.append((rows(home / "m.db", str(home / "warehouse")), files(home / "warehouse")))
    assert found[0] == found[1]
    assert any("W/w.db/t" in text for table in found[1][0].values() for row in table for text in row)
