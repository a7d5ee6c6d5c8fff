"""docs/explanation/format.md is enough for a stranger: the reader made from it alone agrees with Hive.

``examples/minimal_reader.py`` uses nothing of this package. Each table below was written by a real Hive 4, which also
said what it reads there.
"""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from types import ModuleType

ROOT = Path(__file__).parents[3]
FIXTURES = ROOT / "tests" / "fixtures"
CASES = (
    "unpart_dml",
    "part_dyn",
    "bucketed_dml",
    "minor_major",
    "aborted",
    "multistmt",
    "iow",
    "original",
    "load_data",
)


def _reader() -> ModuleType:
    spec = importlib.util.spec_from_file_location("minimal_reader", ROOT / "examples" / "minimal_reader.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _tables() -> list[tuple[str, str, str]]:
    """Every recorded stage of an ACID table: those whose expected rows have row ids."""
    return [
        (case, expected.parent.name, expected.stem.removeprefix("expected_"))
        for case in CASES
        for expected in sorted((FIXTURES / case).glob("*/expected_*.json"))
        if '"row__id"' in expected.read_text()[:400]
    ]


@pytest.mark.parametrize(("case", "stage", "table"), _tables(), ids=str)
def test_a_reader_made_from_the_document_reads_what_hive_reads(case: str, stage: str, table: str) -> None:
    reader = _reader()
    directory = FIXTURES / case / stage
    snapshot = json.loads((directory / "snapshot.json").read_text())
    expected = json.loads((directory / f"expected_{table}.json").read_text())
    trees = [directory / name / table for name in ("tree", "tree_ext") if (directory / name / table).exists()]
    assert len(trees) == 1
    partitions = {_partition_of(row[1], table) for row in expected["rows"]} or {""}
    found: set[tuple[Any, ...]] = set()
    for partition in partitions:
        rows = reader.read(trees[0] / partition, snapshot[table]["reader_write_ids"], snapshot["valid_txn_list"])
        found |= {(partition, *identity, row["id"]) for identity, row in rows.items()}
    number = next(i for i, (name, _) in enumerate(expected["columns"]) if name.endswith(".id"))
    assert found == {(_partition_of(row[1], table), *_identity(row[0]), row[number]) for row in expected["rows"]}


def _partition_of(file: str, table: str) -> str:
    """``ds=…/h=…`` from the path of a file, empty without partitions."""
    inside = file.partition(f"/{table}/")[2].split("/")
    return "/".join(part for part in inside if "=" in part)


def _identity(text: str) -> tuple[int, int, int]:
    row_id = json.loads(text)
    return row_id["writeid"], row_id["bucketid"], row_id["rowid"]
