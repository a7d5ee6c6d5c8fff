"""``hive-acid ingest``: where it goes on, and what it does not take for the file it has begun."""

from __future__ import annotations

import contextlib
import json
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
import typer
import typer.testing

from airflow_hive_acid.cli.commands.statements.ingest import ingest
from airflow_hive_acid.engine import Engine
from airflow_hive_acid.errors import InvalidArgumentsError, LeaseEndedError
from tests.integration.maintenance.batch_model import ModelSpark, read

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from airflow_hive_acid.metastore import MetastoreClient

    Run = Callable[..., typer.testing.Result]

pytestmark = pytest.mark.backends("sqlite")


@pytest.fixture
def engine(client: MetastoreClient, warehouse: str) -> Iterator[Engine]:
    with Engine(client, ModelSpark(), warehouse, agent_info="a writer") as engine:  # type: ignore[arg-type]
        engine.run("CREATE DATABASE w;CREATE TABLE w.t (id INT) STORED AS ORC TBLPROPERTIES ('transactional'='true')")
        yield engine


@pytest.fixture
def run(client: MetastoreClient, engine: Engine) -> Run:
    app = typer.Typer()
    app.command()(ingest)

    @contextlib.contextmanager
    def lent(_listener: Any = None) -> Iterator[Engine]:
        yield engine

    def run(file: Path, *more: str) -> typer.testing.Result:
        arguments = ["w.t", str(file), "--every", "2", "--stream", "tills", "--quiet", *more]
        return typer.testing.CliRunner().invoke(app, arguments, obj=SimpleNamespace(engine=lent, client=lambda: client))

    return run


def lines(path: Path, *ids: int) -> Path:
    path.write_text("".join(json.dumps({"id": i}) + "\n" for i in ids))
    return path


def test_a_file_with_fewer_lines_than_were_committed_is_another_file(
    client: MetastoreClient, run: Run, tmp_path: Path
) -> None:
    """Nothing of it would be written, and nobody would hear of that."""
    file = lines(tmp_path / "sales.jsonl", 1, 2, 3)
    assert run(file).exit_code == 0
    lines(file, 1, 2, 3, 4)
    assert run(file).exit_code == 0
    assert run(file).exit_code == 0, "all of it is done"
    assert read(client, "w.t") == [1, 2, 3, 4]
    result = run(lines(file, 8, 9))
    assert isinstance(result.exception, InvalidArgumentsError)
    assert "has 2 lines, and stream 'tills' has committed 4" in str(result.exception)
    assert read(client, "w.t") == [1, 2, 3, 4]


@pytest.mark.rule("R6")
@pytest.mark.rule("R8")
def test_records_are_written_under_the_lease_of_the_environment(
    client: MetastoreClient, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``hive-acid lease run … -- hive-acid ingest …`` does not wait for the lease that it runs under."""
    lease = client.leases.grab_lease("w.t", 600)
    monkeypatch.setenv("HIVE_ACID_LEASE", lease.token)
    result = run(lines(tmp_path / "sales.jsonl", 1, 2, 3))
    assert result.exit_code == 0, result.exception
    assert read(client, "w.t") == [1, 2, 3]
    client.leases.drop_lease(lease)
    assert isinstance(run(lines(tmp_path / "sales.jsonl", 1, 2, 3, 4)).exception, LeaseEndedError)
    assert read(client, "w.t") == [1, 2, 3]


@pytest.mark.parametrize("position", [7, {"offset": 3}, {"line": "3"}, {"line": -1}, {"line": True}, [1]])
def test_a_position_that_is_no_line_is_another_programs(
    client: MetastoreClient, engine: Engine, run: Run, tmp_path: Path, position: Any
) -> None:
    with engine.batch("w.t", stream="tills") as batch:
        batch.commit(position)
    result = run(lines(tmp_path / "sales.jsonl", 1))
    assert isinstance(result.exception, InvalidArgumentsError)
    assert "--stream" in str(result.exception)
    assert read(client, "w.t") == []
