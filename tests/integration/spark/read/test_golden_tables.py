"""Tables written by a real Hive 4.1, read by Spark: rows and ROW__IDs at every recorded state."""

from __future__ import annotations

import dataclasses
import json
import re
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from airflow_hive_acid.format.partitions import DEFAULT_PARTITION
from airflow_hive_acid.spark.accelerator import SESSION_KEY
from airflow_hive_acid.spark.read.reader import read_snapshot
from airflow_hive_acid.spark.read.select import json_lines

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

FIXTURES = Path(__file__).parents[3] / "fixtures"
# Insert-only tables have tests of their own; of the other type Hive itself loses the values.
UNSUPPORTED = ("insert_only", "types_tsltz")


def states() -> list[tuple[Path, str, str]]:
    found = []
    for case in sorted(p for p in FIXTURES.iterdir() if p.is_dir() and p.name not in UNSUPPORTED):
        for stage in sorted(p for p in case.iterdir() if p.is_dir()):
            for expected in sorted(stage.glob("expected_*.json")):
                table = expected.stem.removeprefix("expected_")
                if "row__id" not in expected.read_text()[:300]:
                    continue  # recorded before the table had transactions
                if [*stage.glob(f"tree*/{table}")] and table in json.loads((stage / "snapshot.json").read_text()):
                    found.append((stage, table, f"{case.name}-{stage.name}-{table}"))
    return found


def as_hive_printed(value: Any, kind: str) -> Any:
    """A value of our JSON in the spelling of the recorded rows."""
    if value is None:
        return None
    if kind.startswith("decimal"):
        text = format(Decimal(value), "f")
        return text.rstrip("0").rstrip(".") if "." in text else text
    if kind == "binary":
        return "0x" + value.lower()
    if kind in ("float", "double"):
        return value if isinstance(value, str) else float(value)
    if kind.startswith(("array", "map", "struct")):
        return value
    return int(value) if isinstance(value, Decimal) else value


def as_recorded(value: Any, kind: str, is_partition: bool) -> Any:
    """Hive's value; times to microseconds, nested values parsed, and the default partition as the NULL it stands for.

    Hive shows the default partition of a string column by its name, but selects it with IS NULL.
    """
    if is_partition and value == DEFAULT_PARTITION:
        return None
    if kind == "timestamp" and value is not None:
        return re.sub(r"(\.\d{6})\d+$", r"\1", value)
    if kind.startswith(("array", "map", "struct")) and value is not None:
        return json.loads(value)
    return value


def both_ways() -> list[Any]:
    """Each state with the optional jar, as users read it; without it all in ``make test-all``, else every sixth."""
    found = []
    for number, (stage, table, name) in enumerate(states()):
        found.append(pytest.param(stage, table, "auto", id=f"{name}-jar"))
        repeats = () if number % 6 == 0 else pytest.mark.repeats("states of tables, read without the jar")
        found.append(pytest.param(stage, table, "off", id=f"{name}-spark", marks=repeats))
    return found


@pytest.mark.parametrize(("stage", "table", "way"), both_ways())
def test_rows_and_row_ids_are_those_hive_read(
    spark: SparkSession, golden_snapshot: Callable, stage: Path, table: str, way: str
) -> None:
    expected = json.loads((stage / f"expected_{table}.json").read_text())
    snapshot = golden_snapshot(stage, table)
    kinds = dict(zip([c for c, _ in expected["columns"]], [k for _, k in expected["columns"]], strict=True))
    session = spark.newSession()
    session.conf.set(SESSION_KEY, way)
    frame = read_snapshot(session, snapshot, row_ids=True)
    data = [name for name in kinds if "." in name]
    keys = {k.name for k in snapshot.partition_columns}
    assert frame.columns == [*[n.split(".")[1] for n in data], "row__id"]
    found = set()
    for (line,) in json_lines(frame).collect():
        *values, row_id = json.loads(line, parse_float=Decimal)
        row = [as_hive_printed(v, kinds[n]) for v, n in zip(values, data, strict=True)]
        found.add(json.dumps([row_id, *row], default=float))
    recorded = set()
    for row in expected["rows"]:
        by_name = dict(zip(kinds, row, strict=True))
        values = [as_recorded(by_name[n], kinds[n], n.split(".")[1] in keys) for n in data]
        recorded.add(json.dumps([json.loads(by_name["row__id"]), *values]))
    assert found == recorded
    assert len(found) == len(expected["rows"])


def test_a_table_from_before_it_had_transactions(spark: SparkSession, golden_snapshot: Callable) -> None:
    stage = FIXTURES / "original" / "1_nonacid"
    plain = dataclasses.replace(golden_snapshot(stage, "t"), transactional=False)
    recorded = json.loads((stage / "expected_t.json").read_text())["rows"]
    assert sorted(map(tuple, read_snapshot(spark, plain).collect())) == sorted(tuple(r[-2:]) for r in recorded)
