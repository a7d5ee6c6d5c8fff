"""Fields that a record lacks, and what DEFAULT, NOT NULL and CHECK say to records: for each way in which they come.

A DEFAULT belongs to the statement that leaves a column out, as in Hive, whose streaming writers store NULL in the place
of an absent field. Nothing becomes NULL without a word here: a batch refuses a record without a field.
"""

from __future__ import annotations

import contextlib
import json
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
import typer.testing

from airflow_hive_acid.cli.commands.statements.ingest import ingest
from airflow_hive_acid.errors import BadRecordError, HiveAcidError
from airflow_hive_acid.sql.parsing.builders import insert_statement
from airflow_hive_acid.sql.parsing.records import rows_query

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from airflow_hive_acid.engine import Engine
    from airflow_hive_acid.metastore import MetastoreClient

    Write = Callable[[Sequence[dict[str, Any]]], object]

pytestmark = [
    pytest.mark.crossing("records that lack fields x constraints x ways in"),
    pytest.mark.spark,
    pytest.mark.backends("sqlite"),
]

TABLE = """CREATE DATABASE r;
CREATE TABLE r.t (id INT NOT NULL, state STRING DEFAULT 'new', n INT CONSTRAINT small CHECK (n < 100))
    STORED AS ORC TBLPROPERTIES ('transactional'='true')"""
WAYS = ("batch", "ingest", "rows")


def write_by(way: str, engine: Engine, client: MetastoreClient, directory: Path) -> Write:
    def batch(records: Sequence[dict[str, Any]]) -> None:
        with engine.batch("r.t", transactions=1) as open_batch:
            open_batch.write(records)

    def from_file(records: Sequence[dict[str, Any]]) -> None:
        data = directory / "records.jsonl"
        data.write_text("".join(json.dumps(record) + "\n" for record in records))
        app = typer.Typer()
        app.command()(ingest)

        @contextlib.contextmanager
        def lent(_listener: Any = None) -> Iterator[Engine]:
            yield engine

        session = SimpleNamespace(engine=lent, client=lambda: client)
        result = typer.testing.CliRunner().invoke(app, ["r.t", str(data), "--quiet"], obj=session)
        if result.exception is not None:
            raise result.exception

    def rows(records: Sequence[dict[str, Any]], columns: tuple[str, ...] = ()) -> None:
        query = rows_query(records, client.catalog.get_table("r.t"), columns, ())
        engine.run(insert_statement("r.t", query, columns=columns))

    return {"batch": batch, "ingest": from_file, "rows": rows}[way]


def stored(engine: Engine) -> list[list[Any]]:
    return sorted(list(row) for row in engine.query("SELECT id, state, n FROM r.t").rows)


@pytest.mark.parametrize("way", WAYS)
def test_what_a_record_says_and_lacks(way: str, real_engine: Engine, client: MetastoreClient, tmp_path: Path) -> None:
    engine = real_engine
    engine.run(TABLE)
    write = write_by(way, engine, client, tmp_path)
    write([{"id": 1, "state": None, "n": 5}])
    assert stored(engine) == [[1, None, 5]]  # None is NULL, whatever the DEFAULT is
    if way == "rows":
        write([{"id": 2, "n": 6}])
        assert stored(engine)[1] == [2, None, 6]
        write([{"id": 3, "n": 7}], columns=("id", "n"))  # type: ignore[call-arg]
        assert stored(engine)[2] == [3, "new", 7]  # the statement leaves the column out
    else:
        with pytest.raises(BadRecordError, match=r"record 1, column state: the field is missing.*None for NULL"):
            write([{"id": 2, "n": 6}])
        assert stored(engine) == [[1, None, 5]]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("record", "problem"),
    [
        ({"id": None, "state": "x", "n": 1}, "NOT NULL|null"),
        ({"id": 9, "state": "x", "n": 100}, "small"),
    ],
)
def test_constraints_hold_for_records(
    way: str, record: dict[str, Any], problem: str, real_engine: Engine, client: MetastoreClient, tmp_path: Path
) -> None:
    engine = real_engine
    engine.run(TABLE)
    write = write_by(way, engine, client, tmp_path)
    write([{"id": 1, "state": "a", "n": None}])  # a CHECK that is NULL is kept
    with pytest.raises(HiveAcidError, match=problem):
        write([{"id": 2, "state": "b", "n": 1}, record])
    assert stored(engine) == [[1, "a", None]]
