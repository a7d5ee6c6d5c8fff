"""docs/how-to/streams/streaming-batches.md: its examples run, on real files, and what they promise is so."""

from __future__ import annotations

import contextlib
import json
import re
import shlex
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
import typer.testing

from airflow_hive_acid.cli.commands.statements.ingest import ingest
from airflow_hive_acid.errors import BadRecordError
from airflow_hive_acid.maintenance import run_cleaner

if TYPE_CHECKING:
    from collections.abc import Iterator

    from airflow_hive_acid.engine import Engine
    from airflow_hive_acid.metastore import MetastoreClient

PAGE = (Path(__file__).parents[3] / "docs" / "how-to" / "streams" / "streaming-batches.md").read_text()
EXAMPLES = re.findall(r"^```python(?: error=([^\n]*))?\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
COMMAND = re.search(r"^\$ hive-acid ingest (.*)$", PAGE, re.MULTILINE)
TABLES = """
CREATE DATABASE shop;
CREATE TABLE shop.events (id INT, kind STRING, amount DECIMAL(10,2)) PARTITIONED BY (day STRING)
    CLUSTERED BY (id) INTO 2 BUCKETS STORED AS ORC TBLPROPERTIES ('transactional'='true');
CREATE TABLE shop.rates (currency STRING, rate DECIMAL(8,4)) STORED AS ORC TBLPROPERTIES ('transactional'='true');
CREATE TABLE shop.kinds (number BIGINT, real DOUBLE, flag BOOLEAN, at TIMESTAMP, born DATE, code CHAR(3), raw BINARY,
    tags ARRAY<STRING>, sizes MAP<STRING,DECIMAL(6,2)>, part STRUCT<x:FLOAT,born:DATE>)
    STORED AS ORC TBLPROPERTIES ('transactional'='true');
"""


def rows(engine: Engine, sql: str) -> list[list[Any]]:
    return [list(row) for row in engine.query(sql).rows]


@pytest.mark.spark
@pytest.mark.backends("sqlite")
def test_the_examples_run(real_engine: Engine, client: MetastoreClient, tmp_path: Path) -> None:
    engine = real_engine
    engine.run(TABLES)
    hook = SimpleNamespace(batch=engine.batch)

    def insert(*, table: str, rows: list[dict[str, Any]], **_: Any) -> None:
        from airflow_hive_acid.sql.parsing.builders import insert_statement
        from airflow_hive_acid.sql.parsing.records import rows_query

        engine.run(insert_statement(table, rows_query(rows, client.catalog.get_table(table), (), ())))

    names = {"hook": hook, "HiveAcidInsertOperator": insert}
    for error, text in EXAMPLES:
        with pytest.raises(BadRecordError, match=error) if error else contextlib.nullcontext():
            exec(compile(text, "docs/how-to/streams/streaming-batches.md", "exec"), names)  # noqa: S102 - our own page
        if "stream=" in text:
            exec(compile(text, "docs/how-to/streams/streaming-batches.md", "exec"), names)  # noqa: S102 - again, and nothing is doubled
    assert rows(engine, "SELECT day, count(*), min(id), max(id) FROM shop.events GROUP BY day ORDER BY day") == [
        ["2026-11-22", 9, 1, 9],
        ["2026-11-23", 6, 100, 105],
    ]
    assert rows(engine, "SELECT currency FROM shop.rates") == [["EUR"]]
    _ingest(engine, client, tmp_path)
    _all_types(engine)
    _read_while_open(engine, client)


def _ingest(engine: Engine, client: MetastoreClient, tmp_path: Path) -> None:
    """As the page says, twice; then with a line that is no record."""
    assert COMMAND is not None
    data = tmp_path / "sales.jsonl"
    data.write_text("".join(json.dumps({"id": i, "kind": "sale", "amount": i}) + "\n" for i in range(2500)))
    arguments = shlex.split(COMMAND[1].replace("/data/", f"{tmp_path}/"))
    app = typer.Typer()
    app.command()(ingest)

    @contextlib.contextmanager
    def lent(_listener: Any = None) -> Iterator[Engine]:
        yield engine

    runner, session = typer.testing.CliRunner(), SimpleNamespace(engine=lent, client=lambda: client)
    for _ in range(2):
        result = runner.invoke(app, [*arguments, "--quiet"], obj=session)
        assert result.exit_code == 0, result.output
    with data.open("a") as file:
        file.write('\n{"id": 2500, "kind": "sale", "amount": 0.125}\n')
    result = runner.invoke(app, [*arguments, "--quiet"], obj=session)
    assert isinstance(result.exception, BadRecordError)
    assert "sales.jsonl, line 2502: record 1, column amount" in str(result.exception)
    found = rows(engine, "SELECT count(*), count(DISTINCT id), sum(amount) FROM shop.events WHERE day = '2026-11-24'")
    assert [str(value) for value in found[0]] == ["2500", "2500", "3123750.00"]


def _all_types(engine: Engine) -> None:
    record = {
        "number": 2**63 - 1, "real": float("inf"), "flag": True, "at": "2026-11-22 14:05:00.123456",
        "born": "1582-10-15", "code": "ab", "raw": b"\x00\xff", "tags": ["ä", None], "sizes": {"l": "1.50", "s": None},
        "part": {"x": 0.5, "born": "2026-01-31"},
    }  # fmt: skip
    with engine.batch("shop.kinds", transactions=1) as batch:
        batch.write([record, dict.fromkeys(record)])
    (first, second) = rows(
        engine,
        "SELECT number, real, flag, cast(at AS STRING), cast(born AS STRING), code, hex(raw), to_json(tags), "
        "to_json(sizes), to_json(part) FROM shop.kinds ORDER BY number DESC NULLS LAST",
    )
    assert first == [
        2**63 - 1, "Infinity", True, "2026-11-22 14:05:00.123456", "1582-10-15", "ab ", "00FF", '["ä",null]',
        '{"l":1.50,"s":null}', '{"x":0.5,"born":"2026-01-31"}',
    ]  # fmt: skip
    assert second == [None] * 10


def batch_directory(client: MetastoreClient) -> str:
    """Of the only batch on shop.rates: write id 1 is that of the INSERT before it."""
    return f"{client.catalog.get_table('shop.rates').location}/delta_0000002_0000005"


def _read_while_open(engine: Engine, client: MetastoreClient) -> None:
    """What real readers see of a real file that is being written; then it is compacted."""
    count = "SELECT count(*), coalesce(sum(rate), 0) FROM shop.rates"
    seen = []
    with engine.batch("shop.rates", transactions=3) as batch:
        for rate in (1, 2):
            batch.write([{"currency": "X", "rate": rate}])
            batch.commit()
            seen.append(str(rows(engine, count)[0]))
    listed = engine._context.filesystem.list_files(batch_directory(client))
    assert [entry.name for entry in listed] == ["_orc_acid_version", "bucket_00000"]
    engine.run("ALTER TABLE shop.rates COMPACT 'major'")
    engine.run_compactions("a worker")
    run_cleaner(client, engine._context.filesystem)
    seen.append(str(rows(engine, count)[0]))
    assert [text.replace("Decimal", "") for text in seen] == ["[2, ('2.0800')]", "[3, ('4.0800')]", "[3, ('4.0800')]"]
