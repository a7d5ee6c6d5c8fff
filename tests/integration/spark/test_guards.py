"""What the SQL of a step cannot reach, in whatever clause it says so."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from airflow_hive_acid.errors import HiveAcidError, UnsupportedStatementError
from airflow_hive_acid.format.jobs import Select, Source
from airflow_hive_acid.spark import guards

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = pytest.mark.spark


@pytest.fixture
def table(acid_table: Callable) -> Any:
    return acid_table("id int")


def test_no_clause_reads_a_file_by_its_path(table: Any, tmp_path: Path) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("secret-of-the-file\n")
    file = f"text.`{secret.as_uri()}`"
    queries = (
        "SELECT * FROM {}", "SELECT * FROM IDENTIFIER('{}')", "SELECT * FROM (TABLE {})",
        "SELECT (SELECT max(value) FROM IDENTIFIER('{}'))", "SELECT 1 WHERE EXISTS (TABLE {})",
        "WITH x AS (FROM {}) SELECT * FROM x", "SELECT * FROM range(1), LATERAL (SELECT * FROM {})",
    )  # fmt: skip
    for number, query in enumerate(queries):
        with pytest.raises(HiveAcidError) as refused:
            table.run(Select(query.format(file), f"{table.location}/rows-{number}"))
        assert "secret-of-the-file" not in str(refused.value)
        assert "TABLE_OR_VIEW_NOT_FOUND" in str(refused.value)


def test_sources_outside_of_a_list_are_refused(table: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.csv").write_text("1\n")
    monkeypatch.setattr(
        guards, "_listed", lambda session, key: [(tmp_path / "in").as_uri()] if key == guards.SOURCES else []
    )
    inside = Source("v", "csv", {"path": (tmp_path / "in" / "a.csv").as_uri()})
    table.run(Select("SELECT * FROM v", f"{table.location}/rows"), sources=[inside])
    for options in ({"path": tmp_path.as_uri()}, {"path": f"{tmp_path.as_uri()}/in/../b"}, {"url": "jdbc:x"}, {}):
        with pytest.raises(UnsupportedStatementError, match="is outside of what"):
            table.run(Select("SELECT 1", f"{table.location}/no"), sources=[Source("v", "csv", options)])
