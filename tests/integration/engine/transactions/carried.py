"""What the crash and zombie matrix stops besides statements of one txn: transaction batches, EXPORT and IMPORT.

A batch is many txns that share files, so its rows are counted one by one. Of an EXPORT readers see the dump: its files
are listed and read, and it must be whole by what it says of itself.
"""

# ruff: noqa: S608 - statements put together from names of this module

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from airflow_hive_acid.filesystem import AnyFilesystem
from airflow_hive_acid.format.names import ACID_VERSION
from airflow_hive_acid.metastore.compaction.model import CompactionState, CompactionType
from airflow_hive_acid.metastore.schema.hive_transactions import TXN_COMPONENTS
from airflow_hive_acid.replication.dumps.copies import checksum_of
from airflow_hive_acid.replication.dumps.dump import COMPLETE, FILE_LIST, METADATA, read_dump
from tests.integration.engine.crashes.statements import (
    ACID,
    INSERT_ONLY,
    PLAIN,
    SEED,
    SEED_FILE,
    Case,
    _parted,
    _table,
    path_of,
)
from tests.integration.maintenance.batch_model import rows_in
from tests.integration.maintenance.batches.world import compact
from tests.integration.maintenance.cycles.steps import rows

if TYPE_CHECKING:
    from airflow_hive_acid.engine import Engine
    from airflow_hive_acid.metastore import MetastoreClient

DUMP = "{root}/dumps/{d}"
FENCE = re.compile("_tmp_[0-9a-f-]+")
_DOCUMENTS = {METADATA, FILE_LIST, COMPLETE}


def three_txns(engine: Engine, database: str) -> None:
    """Three txns in batches of two, from where the stream stands."""
    with engine.batch(f"{database}.t", transactions=2, stream="s") as batch:
        for number in range(batch.position or 0, 3):
            batch.write([{"id": 2 * number}, {"id": 2 * number + 1}])
            batch.commit(number + 1)


def one_of_three_is_rolled_back(engine: Engine, database: str) -> None:
    """Into a partition that the first commit makes; what is dropped in between is never seen."""
    with engine.batch(f"{database}.t", partition={"k": "b"}, transactions=3, stream="s") as batch:
        for number in range(batch.position or 0, 3):
            batch.write([{"id": number}])
            if number == 1:
                batch.abort()
            else:
                batch.commit(number + 1)


def _exported(kind: str, *, parted: bool = False, to: str = DUMP) -> str:
    return (_parted if parted else _table)("t", kind) + f"EXPORT TABLE {{d}}.t TO '{to}';"


_IDS = "CREATE TABLE {d}.t (id INT) "
_REPLACED = (
    _table("t", PLAIN) + f"EXPORT TABLE {{d}}.t TO '{DUMP}-old' FOR REPLICATION('1');"
    f"IMPORT TABLE {{d}}.n FROM '{DUMP}-old'; INSERT INTO {{d}}.t VALUES (2);"
    f"EXPORT TABLE {{d}}.t TO '{DUMP}' FOR REPLICATION('2');"
)
_EXPORT, _IMPORT = f"EXPORT TABLE {{d}}.t TO '{DUMP}'", f"IMPORT TABLE {{d}}.n FROM '{DUMP}'"

CARRIED = (
    Case("batch", _IDS + ACID, "a batch", {"t": ["0", "1", "2", "3", "4", "5"]}, program=three_txns, batched=True),
    Case("batch into a new partition", _IDS + "PARTITIONED BY (k STRING) " + ACID, "a batch",
         {"t": ["k=b 0", "k=b 2"]}, program=one_of_three_is_rolled_back, batched=True),
    Case("export", _table("t", ACID), _EXPORT, {"t": [SEED]}, dump=(SEED, ACID_VERSION)),
    Case("export partitions", _parted("t", INSERT_ONLY), _EXPORT, {"t": [f"k=a {SEED}"]},
         dump=(SEED,)),
    Case("export plain", _table("t", PLAIN), _EXPORT, {"t": [SEED_FILE]}, dump=(SEED_FILE,)),
    Case("export for replication", _parted("t", PLAIN), _EXPORT + " FOR REPLICATION('5')",
         {"t": [f"k=a {SEED_FILE}"]}, dump=(SEED_FILE,)),
    Case("export metadata", _table("t", PLAIN), _EXPORT + " FOR METADATA REPLICATION('5')", {"t": [SEED_FILE]},
         dump=()),
    Case("import", _exported(ACID), _IMPORT, {"n": [SEED], "t": [SEED]}),
    Case("import partitions", _exported(ACID, parted=True), _IMPORT, {"n": [f"k=a {SEED}"], "t": [f"k=a {SEED}"]}),
    Case("import plain", _exported(PLAIN), _IMPORT, {"n": [SEED_FILE], "t": [SEED_FILE]}),
    Case("import an external table", _exported(PLAIN), f"IMPORT EXTERNAL TABLE {{d}}.n FROM '{DUMP}' LOCATION "
         "'{root}/elsewhere/{d}'", {"n": [SEED_FILE], "t": [SEED_FILE]}),
    Case("import a newer state", _REPLACED, _IMPORT, {"n": [SEED_FILE, SEED_FILE], "t": [SEED_FILE, SEED_FILE]}),
    Case("import a partition into a table", _exported(PLAIN, parted=True) + "CREATE TABLE {d}.n (a INT) PARTITIONED BY "
         "(k STRING) " + PLAIN, f"IMPORT TABLE {{d}}.n PARTITION (k='a') FROM '{DUMP}'",
         {"n": [f"k=a {SEED_FILE}"], "t": [f"k=a {SEED_FILE}"]}),
)  # fmt: skip


def check_dump(case: Case, root: Path, database: str) -> None:
    """The dump that a case leaves is whole, holds what it should, and nothing lies in or beside it."""
    if case.dump is None:
        return
    place = root / "dumps" / database
    beside = {p.name for p in place.parent.iterdir()}
    assert {name for name in beside if not re.fullmatch(r"d[0-9]+(-old)?", name)} == set()
    filesystem = AnyFilesystem()
    dump = read_dump(filesystem, place.as_uri())
    for file in dump.files:
        assert checksum_of(filesystem, str(file.source)) == file.checksum
    assert sorted(path.read_text() for path in files_in(place)) == sorted(case.dump)
    assert {str(p.relative_to(place)) for p in files_in(place)} == {file.place for file in dump.files}
    folders = {parent for file in dump.files for parent in Path(file.place).parents} - {Path()}
    assert {p.relative_to(place) for p in place.rglob("*") if p.is_dir()} == folders


def files_in(place: Path) -> list[Path]:
    """The data files of a dump, by what lies there."""
    return [p for p in place.rglob("*") if p.is_file() and str(p.relative_to(place)) not in _DOCUMENTS]


def check_compacted(case: Case, client: MetastoreClient, database: str) -> None:
    """What aborted txns of batches have left among rows of others, and files of dead writers, go with a compaction."""
    for name in client.catalog.list_tables(database):
        table = client.catalog.get_table(f"{database}.{name}")
        parted = table.is_partitioned
        parts = [p.name for p in client.catalog.list_partitions(table.qualified_name)] if parted else [None]
        for part in parts:
            compact(client, AnyFilesystem(), table.qualified_name, part)
        left = [p for p in path_of(table.location).rglob("*") if p.is_file() and not FENCE.fullmatch(p.name)]
        # One delta of committed rows alone is refused, as in Hive: the Cleaner may have forgotten empty aborted txns
        # beside it before the request.
        shown = client.compactions.show(database=database)
        [state] = {row.state for row in shown if row.resource.table == name and row.type is CompactionType.MAJOR}
        kept = {"delta"} if state is CompactionState.REFUSED else {"base"}
        assert {p.parent.name.partition("_")[0] for p in left} == kept, left
        assert len({p.parent for p in left}) == len(parts), left
    assert batch_contents(client, database) == case.after
    assert [row for row in rows(client, TXN_COMPONENTS) if row["TC_DATABASE"] == database] == []


def batch_contents(client: MetastoreClient, database: str) -> dict[str, list[str]]:
    """The rows that a reader sees of each table that batches were written to."""
    found = {}
    for name in client.catalog.list_tables(database):
        table = client.catalog.get_table(f"{database}.{name}")
        places = {"": table.location}
        if table.is_partitioned:
            places = {f"{p.name} ": p.location for p in client.catalog.list_partitions(table.qualified_name)}
        with client.snapshot([table.qualified_name]) as snapshot:
            lists = snapshot.snapshot[table.qualified_name], snapshot.valid_txns
            found[name] = sorted(f"{p}{i}" for p, place in places.items() for _, i in rows_in(path_of(place), *lists))
    return found
