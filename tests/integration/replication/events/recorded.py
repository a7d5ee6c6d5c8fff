"""Metastores and tables of a real Hive, stage after stage, as the primary of a replication; and what a replica reads.

The fixtures hold the whole state of a Hive at some points of a script: rows of the metastore, files, and the rows that
Hive read. Loading one stage after the other is a primary that lives on, with all that Hive did between: DML,
compaction, cleaning, housekeeping.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from pyarrow import orc

from airflow_hive_acid.format.acid_state import FileEntry, acid_state
from airflow_hive_acid.format.names import parse_bucket_file
from airflow_hive_acid.metastore.setup.schema import EXTENSION_TABLES, METADATA
from tests.integration.metastore.catalog.conftest import _fit, parse_dump

if TYPE_CHECKING:
    from collections.abc import Iterator

    from airflow_hive_acid.format.acid_state import AcidState
    from airflow_hive_acid.replication.site import Site

FIXTURES = Path(__file__).parents[3] / "fixtures"
Key = tuple[int, int, int]
"""ROW__ID: write id, bucket property, row number."""


def stages(case: str) -> list[Path]:
    """The stages of a case, in order."""
    return sorted(p for p in (FIXTURES / case).iterdir() if p.is_dir())


def load_stage(site: Site, stage: Path, home: Path) -> None:
    """Make the primary what the Hive was at a stage; the warehouse is ``home``, the external one beside it."""
    external = home.with_name(f"{home.name}_ext")
    for name, place in (("tree", home), ("tree_ext", external)):
        shutil.rmtree(place, ignore_errors=True)
        if (stage / name).exists():
            shutil.copytree(stage / name, place)
        place.mkdir(exist_ok=True)
    text = (stage / "metastore.sql").read_text().replace("@WH@", str(home))
    rows = parse_dump(text)
    ours = {table.name for table in EXTENSION_TABLES}
    with site.client.database.transaction() as connection:
        for table in reversed(METADATA.sorted_tables):
            if table.name not in ours:
                connection.execute(sa.delete(table))
        for table in METADATA.sorted_tables:
            fitted = [_fit(table, row) for row in rows.get(table.name, [])]
            if fitted:
                connection.execute(sa.insert(table), fitted)
    for row in rows.get("SDS", []):  # git keeps no empty directories
        if row["LOCATION"].startswith(f"file:{home}"):
            Path(row["LOCATION"].removeprefix("file:")).mkdir(parents=True, exist_ok=True)


def tables_of(stage: Path) -> list[str]:
    """ACID tables whose rows Hive has read at a stage."""
    found = [path for path in stage.glob("expected_*.json") if '"row__id"' in path.read_text()]
    return sorted(path.stem.removeprefix("expected_") for path in found)


def expected_keys(stage: Path, table: str) -> list[Key]:
    """The ROW__IDs that Hive read."""
    expected = json.loads((stage / f"expected_{table}.json").read_text())
    column = [name for name, _ in expected["columns"]].index("row__id")
    ids = [json.loads(row[column]) for row in expected["rows"]]
    return sorted((i["writeid"], i["bucketid"], i["rowid"]) for i in ids)


def keys_at(site: Site, table: str) -> list[Key]:
    """The ROW__IDs that a snapshot of a site reads, from the files."""
    with site.client.snapshot([table]) as reader:
        made = site.client.catalog.get_table(table)
        places = [made.location]
        if made.partition_columns:
            places = [p.location for p in site.client.catalog.list_partitions(table)]
        found: list[Key] = []
        for place in places:
            entries = site.filesystem.list_files(place, recursive=True)
            listing = [FileEntry(f"{e.relative}/" if e.is_dir else e.relative, e.size) for e in entries]
            state = acid_state(listing, reader.snapshot[table], reader.valid_txns)
            found += _keys(Path(place.removeprefix("file://").removeprefix("file:")), state, reader.snapshot[table])
    return sorted(found)


def _keys(place: Path, state: AcidState, write_ids: Any) -> Iterator[Key]:
    deleted = {
        key
        for directory in state.deletes
        for entry, _ in directory.bucket_files()
        for key, by in _acid_rows(place / entry.path)
        if write_ids.is_valid(by)
    }
    plain = [(0, e.path) for e in state.originals]
    for directory in state.inserts:
        for entry, _ in directory.bucket_files():
            for key, by in _acid_rows(place / entry.path):
                if key not in deleted and write_ids.is_valid(by):
                    yield key
        plain += [(directory.directory.max_write_id, e.path) for e in directory.original_files()]
    numbers: dict[tuple[int, int], int] = {}
    for write_id, path in sorted(plain):
        bucket = 1 << 29 | int(path.rpartition("/")[2].split("_")[0]) << 16
        for _ in range(orc.ORCFile(place / path).nrows):
            number = numbers.get((write_id, bucket), 0)
            numbers[write_id, bucket] = number + 1
            if (write_id, bucket, number) not in deleted:
                yield write_id, bucket, number


def _acid_rows(path: Path) -> list[tuple[Key, int]]:
    """Key and writer of each row or delete event."""
    assert parse_bucket_file(path.name) is not None
    file = orc.ORCFile(path)
    by_name = {name.lower(): name for name in file.schema.names}
    names = [by_name[name] for name in ("originaltransaction", "bucket", "rowid", "currenttransaction")]
    read = file.read(columns=names)
    columns = [read.column(name).to_pylist() for name in names]
    return [((w, b, r), by) for w, b, r, by in zip(*columns, strict=True)]
