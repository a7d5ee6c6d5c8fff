"""The directories a snapshot reads, against tables written by a real Hive and the rows that Hive itself read.

Hive recorded for each row the file it came from. Every such directory must be chosen, nothing else except directories
whose rows are all deleted, and the keys of the rows left over must be those Hive saw.
"""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from pyarrow import orc

from airflow_hive_acid.format.acid_state import AcidState, FileEntry, acid_state
from airflow_hive_acid.format.write_ids import ValidTxnList, ValidWriteIdList

FIXTURES = Path(__file__).parents[2] / "fixtures"
STATES = sorted(
    (str(path.parent.relative_to(FIXTURES)), path.stem.removeprefix("expected_"))
    for path in FIXTURES.glob("*/*/expected_*.json")
    if "input__file__name" in path.read_text()
)


def partitions_of(table: Path) -> dict[str, list[FileEntry]]:
    """The listing of each partition (the empty name for an unpartitioned table)."""
    listings: dict[str, list[FileEntry]] = defaultdict(list)
    for path in sorted(p for p in table.rglob("*") if p.is_file()):
        parts = path.relative_to(table).parts
        depth = next(i for i, part in enumerate(parts) if "=" not in part)
        listings["/".join(parts[:depth])].append(FileEntry("/".join(parts[depth:]), path.stat().st_size))
    return listings


def keys_in(path: Path) -> list[tuple[int, int, int]]:
    """(write id, bucket, row number) of the rows of an ACID file; MR compaction and DML differ in the case of names."""
    file = orc.ORCFile(path)
    by_name = {name.lower(): name for name in file.schema.names}
    names = [by_name[name] for name in ("originaltransaction", "bucket", "rowid")]
    ids = file.read(columns=names)
    return list(zip(*(ids.column(name).to_pylist() for name in names), strict=True))


def live_directories(root: Path, state: AcidState) -> set[str]:
    """Directories with at least one row that no delete delta has an event for; loaded files always count."""
    deleted = {
        key
        for directory in state.deletes
        for entry, _ in directory.bucket_files()
        for key in keys_in(root / entry.path)
    }
    live = {entry.path.rpartition("/")[0] for entry in state.originals}
    for directory in state.inserts:
        if directory.original_files():
            live.add(directory.name)
        for entry, _ in directory.bucket_files():
            if not deleted.issuperset(keys_in(root / entry.path)):
                live.add(directory.name)
    return live


def recorded(state: str, table: str) -> tuple[dict[str, Any], Path, str]:
    expected = json.loads((FIXTURES / state / f"expected_{table}.json").read_text())
    external = "@WH@_ext" in json.dumps(expected["rows"])
    tree, prefix = ("tree_ext", "file:@WH@_ext/") if external else ("tree", "file:@WH@/")
    return expected, FIXTURES / state / tree / table, f"{prefix}{table}"


@pytest.mark.parametrize(("state", "table"), STATES)
def test_a_snapshot_reads_the_directories_hive_read(state: str, table: str) -> None:
    expected, root, prefix = recorded(state, table)
    column = [name for name, _ in expected["columns"]].index("input__file__name")
    read_by_hive = {row[column].removeprefix(prefix).strip("/").rpartition("/")[0] for row in expected["rows"]}
    snapshot = json.loads((FIXTURES / state / "snapshot.json").read_text())
    write_ids = ValidWriteIdList.parse(snapshot.get(table, {}).get("reader_write_ids", ""))
    txns = ValidTxnList.parse(snapshot["valid_txn_list"])

    chosen = set()
    for partition, listing in partitions_of(root).items():
        found = acid_state(listing, write_ids, txns)
        assert found.files_of_older_hives == ()  # loaded files, rebalanced and truncated bases have no mark, either
        chosen |= {f"{partition}/{directory}".strip("/") for directory in live_directories(root / partition, found)}
    assert chosen == read_by_hive


@pytest.mark.parametrize("state", sorted({state for state, _ in STATES}))
def test_the_texts_of_a_real_hive_survive_and_give_its_compactors_list(state: str) -> None:
    snapshot = json.loads((FIXTURES / state / "snapshot.json").read_text())
    txns = snapshot.pop("valid_txn_list")
    assert str(ValidTxnList.parse(txns)) == txns
    for lists in snapshot.values():
        reader = ValidWriteIdList.parse(lists["reader_write_ids"])
        assert str(reader) == lists["reader_write_ids"]
        assert str(reader.for_compactor()) == lists["compactor_write_ids"]
