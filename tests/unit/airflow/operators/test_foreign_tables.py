"""The operator that brings in tables of other formats: what it asks the engine for, and what it refuses."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from airflow_hive_acid.airflow_versions import AirflowFailException
from airflow_hive_acid.engine.outcomes.results import StatementResult
from airflow_hive_acid.engine.statements.foreign_tables import Imported
from airflow_hive_acid.errors import ImportDiffersError
from airflow_hive_acid.hooks.hive_acid import HiveAcidHook
from airflow_hive_acid.mirrors import imports
from airflow_hive_acid.mirrors.reports import Verification
from airflow_hive_acid.operators.foreign_tables import HiveAcidImportForeignTableOperator
from airflow_hive_acid.settings import Settings

TASK = SimpleNamespace(dag_id="d", run_id="r", task_id="t", map_index=-1, try_number=1, max_tries=2)


class FakeEngine:
    """Remembers what it was asked for."""

    def __init__(self) -> None:
        self.wanted: list[Any] = []
        self.how: dict[str, Any] = {}

    def __enter__(self) -> FakeEngine:
        return self

    def __exit__(self, *error: object) -> None: ...

    def import_table(self, wanted: Any, **how: Any) -> Imported:
        self.wanted.append(wanted)
        self.how = how
        return Imported(wanted, "7", 3, (StatementResult(wanted.text, "create_table", inserted=3, txn_id=5),))


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> FakeEngine:
    fake = FakeEngine()
    monkeypatch.setattr(HiveAcidHook, "get_engine", lambda self, agent_info: fake)
    monkeypatch.setattr(HiveAcidHook, "settings", Settings())
    monkeypatch.setattr(HiveAcidHook, "get_conn", lambda self: None)
    monkeypatch.setattr(HiveAcidHook, "acknowledge", lambda self, once: None)
    return fake


@pytest.fixture
def compared(monkeypatch: pytest.MonkeyPatch) -> list[Imported]:
    found: list[Imported] = []

    def verify(client: object, engine: object, made: Imported) -> Verification:
        found.append(made)
        return Verification("w.t", "delta:/d", 1, 3, 3, 1, 0)

    monkeypatch.setattr(imports, "verify_import", verify)
    return found


def run(**arguments: Any) -> dict[str, Any]:
    return HiveAcidImportForeignTableOperator(task_id="t", **arguments).execute({"ti": TASK})


def test_it_imports_once_and_compares(engine: FakeEngine, compared: list[Imported]) -> None:
    done = run(
        source="delta:/d", table="W.T", version=7, partition_by="day", columns={"A b": "ab"}, properties={"k": 1}
    )
    (wanted,) = engine.wanted
    assert (str(wanted.source), wanted.table, wanted.version) == ("delta:/d", "w.t", "7")
    assert (wanted.partition_by, wanted.columns, wanted.properties) == (("day",), {"A b": "ab"}, {"k": "1"})
    assert engine.how["once"].scope[1:4] == ("d", "r", "t")
    assert len(compared) == 1
    assert {k: done[k] for k in ("table", "source", "version", "imported", "inserted")} == {
        "table": "w.t", "source": "delta:/d", "version": "7", "imported": 3, "inserted": 3,
    }  # fmt: skip


def test_it_compares_nothing_where_it_is_not_asked_to_or_there_is_one_side(
    engine: FakeEngine, compared: list[Imported]
) -> None:
    run(source="delta:/d", table="t", verify=False)
    run(source="orc:/d", table="t", reuse_files=True)
    assert [wanted.reuse_files for wanted in engine.wanted] == [False, True]
    assert compared == []


def test_a_difference_fails_the_task_for_good(engine: FakeEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    def differs(*_: object) -> None:
        raise ImportDiffersError("w.t is not what delta:/d is")

    monkeypatch.setattr(imports, "verify_import", differs)
    with pytest.raises(AirflowFailException, match="is not what"):
        run(source="delta:/d", table="w.t")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"source": "csv:/d"}, "source must be iceberg:"),
        ({"source": "parquet:/d", "version": 1}, "has no versions"),
        ({"source": "delta:/d", "version": "new"}, "version must be a Delta version"),
        ({"source": "parquet:/d", "reuse_files": True}, "only files of plain ORC"),
        ({"source": "orc:/d", "reuse_files": True, "replace": True}, "replace: files that stay"),
        ({"source": "orc:/d", "table": "a.b.c"}, "table must be"),
    ],
)
def test_what_cannot_be_meant_is_refused_before_anything_begins(
    engine: FakeEngine, arguments: dict[str, Any], said: str
) -> None:
    with pytest.raises(AirflowFailException, match=said):
        run(**{"table": "t", **arguments})
    assert engine.wanted == []
