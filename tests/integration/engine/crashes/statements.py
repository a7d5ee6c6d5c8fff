"""The statements of the crash and zombie matrix: what each needs, and what is there when it was applied once.

A data file holds who wrote it and the kind of its directory (``seed:delta``), so that what a reader sees is a list of
texts: a write that is lost, is seen twice, or comes from a try that was given up changes the list.
"""

# ruff: noqa: S608 - statements put together from names of this module

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow_hive_acid.engine import Engine
from airflow_hive_acid.format.acid_state import FileEntry, acid_state
from airflow_hive_acid.format.jobs import (
    Append,
    CloseBatch,
    Column,
    Export,
    JobResult,
    WrittenDirectory,
    WrittenFile,
)
from airflow_hive_acid.format.names import (
    ACID_VERSION,
    ACID_VERSION_FILE,
    PLACE_MARKER,
    PLAIN_FILES,
    bucket_file_name,
    is_hidden,
    original_file_name,
    unique_file_name,
)
from tests.integration.engine.conftest import FakeSpark
from tests.integration.engine.crashes.crashing import effect
from tests.integration.maintenance.batch_model import ModelSpark

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from airflow_hive_acid.engine import JobLauncher
    from airflow_hive_acid.metastore import MetastoreClient
    from airflow_hive_acid.metastore.catalog.values.model import Table

ACID, INSERT_ONLY, PLAIN = (
    "STORED AS ORC TBLPROPERTIES ('transactional'='true')",
    "STORED AS ORC TBLPROPERTIES ('transactional'='true', 'transactional_properties'='insert_only')",
    "STORED AS ORC TBLPROPERTIES ('transactional'='false')",
)


@dataclass(frozen=True)
class Case:
    """A statement.

    :param after: what readers see of each table of its database, by table; a table that is not named is not there.
    :param gone: its database is not there afterwards.
    :param program: what is run instead of the statement, with an engine and the name of the database.
    :param batched: rows are counted one by one, as files of a batch hold those of several txns.
    :param dump: texts of the files in the dump that it leaves; None: it leaves none.
    :param exported: texts of the files in the directory that it leaves outside of the warehouse.
    :param properties: what the catalog says of the table t afterwards.
    """

    name: str
    setup: str
    statement: str
    after: Mapping[str, list[str]]
    partitions: tuple[tuple[str, ...], ...] = ()
    gone: bool = False
    program: Callable[[Engine, str], object] | None = None
    batched: bool = False
    dump: tuple[str, ...] | None = None
    exported: tuple[str, ...] | None = None
    properties: Mapping[str, str] = field(default_factory=dict)


def _table(name: str, kind: str, *, columns: str = "(a INT)", seeded: bool = True) -> str:
    made = f"CREATE TABLE {{d}}.{name} {columns} {kind};"
    return made + (f"INSERT INTO {{d}}.{name} VALUES (1);" if seeded else "")


def _parted(name: str, kind: str) -> str:
    return _table(name, f"PARTITIONED BY (k STRING) {kind}", seeded=False) + (
        f"INSERT INTO {{d}}.{name} PARTITION (k='a') VALUES (1);"
    )


_EXTERNAL = (
    "CREATE EXTERNAL TABLE {d}.t (a INT) STORED AS ORC LOCATION '{root}/elsewhere/{d}';INSERT INTO {d}.t VALUES (1);"
)
_T = _table("t", ACID)
_FORGOTTEN = (
    "CREATE EXTERNAL TABLE {d}.t (a INT) PARTITIONED BY (k STRING) STORED AS ORC LOCATION '{root}/elsewhere/{d}';"
    "INSERT INTO {d}.t PARTITION (k='a') VALUES (1); INSERT INTO {d}.t PARTITION (k='b') VALUES (1);"
    "ALTER TABLE {d}.t DROP PARTITION (k='b');"
)
_TO_DIRECTORY = "INSERT OVERWRITE DIRECTORY '{root}-exports/{d}' SELECT a FROM {d}.t"
SEED, NEW = "seed:delta", "new:delta"
SEED_FILE, NEW_FILE = "seed:files", "new:files"

CASES = (
    Case("insert", _T, "INSERT INTO {d}.t VALUES (2)", {"t": [NEW, SEED]}),
    Case("insert into insert-only", _table("t", INSERT_ONLY), "INSERT INTO {d}.t VALUES (2)", {"t": [NEW, SEED]}),
    Case("insert into a new partition", _parted("t", ACID), "INSERT INTO {d}.t PARTITION (k='b') VALUES (2)",
         {"t": [f"k=a {SEED}", f"k=b {NEW}"]}),
    Case("insert into dynamic partitions", _parted("t", ACID), "INSERT INTO {d}.t VALUES (2, 'a'), (3, 'b')",
         {"t": [f"k=a {NEW}", f"k=a {SEED}", f"k=b {NEW}"]}, (("a",), ("b",))),
    Case("overwrite", _T, "INSERT OVERWRITE TABLE {d}.t SELECT 2", {"t": ["new:base"]}),
    Case("update", _T, "UPDATE {d}.t SET a = 2 WHERE a = 1", {"t": ["new:delete", NEW, SEED]}),
    Case("update that moves rows", _parted("t", ACID), "UPDATE {d}.t SET k = 'b' WHERE a = 1",
         {"t": ["k=a new:delete", f"k=a {SEED}", f"k=b {NEW}"]}, (("a",), ("b",))),
    Case("delete", _T, "DELETE FROM {d}.t WHERE a = 1", {"t": ["new:delete", SEED]}),
    Case("merge", _T + _table("s", ACID), "MERGE INTO {d}.t USING {d}.s ON t.a = s.a WHEN MATCHED THEN UPDATE SET a = 2"
         " WHEN NOT MATCHED THEN INSERT VALUES (s.a)", {"s": [SEED], "t": ["new:delete", NEW, SEED]}),
    Case("transaction", _T + _table("s", ACID), "BEGIN; INSERT INTO {d}.t VALUES (2); DELETE FROM {d}.s WHERE a = 1; "
         "COMMIT", {"s": ["new:delete", SEED], "t": [NEW, SEED]}),
    Case("truncate", _T, "TRUNCATE TABLE {d}.t", {"t": []}),
    Case("create table as", _T, "CREATE TABLE {d}.n " + ACID + " AS SELECT a FROM {d}.t", {"n": [NEW], "t": [SEED]}),
    Case("create table if not exists as", _T, "CREATE TABLE IF NOT EXISTS {d}.n " + ACID + " AS SELECT a FROM {d}.t",
         {"n": [NEW], "t": [SEED]}),
    Case("create plain table as", _T, "CREATE TABLE {d}.n " + PLAIN + " AS SELECT a FROM {d}.t",
         {"n": [NEW_FILE], "t": [SEED]}),
    Case("create partitioned table as", _T, "CREATE TABLE {d}.n PARTITIONED BY (c1) " + ACID
         + " AS SELECT a AS c0, 7 AS c1 FROM {d}.t", {"n": [f"c1=7 {NEW}"], "t": [SEED]}, (("7",),)),
    Case("create a view", _T, "CREATE VIEW {d}.v (x) AS SELECT a FROM {d}.t", {"t": [SEED], "v": ["a view of x"]}),
    Case("replace a view", _T + "CREATE VIEW {d}.v (x) AS SELECT a FROM {d}.t;",
         "CREATE OR REPLACE VIEW {d}.v (y) AS SELECT a FROM {d}.t", {"t": [SEED], "v": ["a view of y"]}),
    Case("analyze", _T, "ANALYZE TABLE {d}.t COMPUTE STATISTICS", {"t": [SEED]},
         properties={"numRows": "1", "numFiles": "1"}),
    Case("analyze partitions", _parted("t", ACID), "ANALYZE TABLE {d}.t COMPUTE STATISTICS NOSCAN",
         {"t": [f"k=a {SEED}"]}),
    Case("repair", _FORGOTTEN, "MSCK REPAIR TABLE {d}.t", {"t": [f"k=a {SEED_FILE}", f"k=b {SEED_FILE}"]}),
    Case("insert overwrite a directory", _T, _TO_DIRECTORY, {"t": [SEED]}, exported=("new:rows",)),
    Case("insert overwrite what an export has left", _T + _TO_DIRECTORY + ";", _TO_DIRECTORY, {"t": [SEED]},
         exported=("new:rows",)),
    Case("temporary table", _T, "CREATE TEMPORARY TABLE s AS SELECT a FROM {d}.t; INSERT INTO s SELECT a FROM {d}.t;"
         " INSERT INTO {d}.t SELECT 2", {"t": [NEW, SEED]}),
    Case("replace a table", _T, "CREATE OR REPLACE TABLE {d}.t (a BIGINT NOT NULL, b STRING) " + ACID, {"t": []}),
    Case("replace a table by its rows", _T, "CREATE OR REPLACE TABLE {d}.t " + ACID + " AS SELECT a FROM {d}.t",
         {"t": ["new:base"]}),
    Case("replace a table of partitions", _parted("t", ACID) + "INSERT INTO {d}.t PARTITION (k='b') VALUES (1);",
         "CREATE OR REPLACE TABLE {d}.t (a INT, b INT) PARTITIONED BY (k STRING) " + ACID, {"t": []}),
    Case("replace a table that is not there", _T, "CREATE OR REPLACE TABLE {d}.n " + ACID + " AS SELECT a FROM {d}.t",
         {"n": [NEW], "t": [SEED]}),
    Case("create table with constraints", _T, "CREATE TABLE {d}.n (a INT NOT NULL, CHECK (a > 0)) " + ACID,
         {"n": [], "t": [SEED]}),
    Case("add a constraint", _T, "ALTER TABLE {d}.t ADD CONSTRAINT c CHECK (a > 0)", {"t": [SEED]}),
    Case("alter a database", _T, "ALTER DATABASE {d} SET OWNER USER ann", {"t": [SEED]}),
    Case("create table", _T, "CREATE TABLE {d}.n (a INT) " + ACID, {"n": [], "t": [SEED]}),
    Case("rename", _T, "ALTER TABLE {d}.t RENAME TO {d}.u", {"u": [SEED]}),
    Case("rename an empty table", _table("t", ACID, seeded=False), "ALTER TABLE {d}.t RENAME TO {d}.u", {"u": []}),
    Case("rename a partition", _parted("t", ACID), "ALTER TABLE {d}.t PARTITION (k='a') RENAME TO PARTITION (k='b')",
         {"t": [f"k=b {SEED}"]}),
    Case("drop", _T + _table("u", ACID), "DROP TABLE {d}.t", {"u": [SEED]}),
    Case("drop plain", _table("t", PLAIN), "DROP TABLE {d}.t", {}),
    Case("drop a partition", _parted("t", ACID), "ALTER TABLE {d}.t DROP PARTITION (k='a')", {"t": []}),
    Case("drop a plain partition", _parted("t", PLAIN), "ALTER TABLE {d}.t DROP PARTITION (k='a')", {"t": []}),
    Case("drop a database", _T + _table("u", PLAIN), "DROP DATABASE {d} CASCADE", {}, gone=True),
    Case("add a partition", _parted("t", ACID), "ALTER TABLE {d}.t ADD PARTITION (k='b')", {"t": [f"k=a {SEED}"]}),
    Case("add a column", _T, "ALTER TABLE {d}.t ADD COLUMNS (b INT)", {"t": [SEED]}),
    Case("plain insert", _table("t", PLAIN), "INSERT INTO {d}.t VALUES (2)", {"t": [NEW_FILE, SEED_FILE]}),
    Case("plain overwrite", _table("t", PLAIN), "INSERT OVERWRITE TABLE {d}.t SELECT 2", {"t": [NEW_FILE]}),
    Case("plain overwrite of a partition", _parted("t", PLAIN),
         "INSERT OVERWRITE TABLE {d}.t PARTITION (k='a') SELECT 2", {"t": [f"k=a {NEW_FILE}"]}),
    Case("plain truncate", _table("t", PLAIN), "TRUNCATE TABLE {d}.t", {"t": []}),
    Case("external insert", _EXTERNAL, "INSERT INTO {d}.t VALUES (2)", {"t": [NEW_FILE, SEED_FILE]}),
    Case("external overwrite", _EXTERNAL, "INSERT OVERWRITE TABLE {d}.t SELECT 2", {"t": [NEW_FILE]}),
)  # fmt: skip
REFUSED = {
    "load": "LOAD DATA INPATH '/nowhere' INTO TABLE {d}.t",
    "export of an ACID table inside a transaction": "BEGIN; EXPORT TABLE {d}.t TO 'file:/nowhere'; COMMIT",
}


class LabelledSpark(FakeSpark):
    """Writes who wrote into each file; a job is an effect of its process."""

    def __init__(self, label: str) -> None:
        super().__init__()
        self.label = label
        self.answer = [[1]]
        self._batches = ModelSpark()

    def run(self, spec: Any) -> Any:
        job = super().run
        if isinstance(spec.step, Append | CloseBatch):
            job = self._batches.run
        return effect(f"job {type(spec.step).__name__}", lambda: job(spec))

    def work(self, spec: Any) -> Any:
        if not isinstance(spec.step, Export):
            return super().work(spec)
        path = Path(spec.step.uri.removeprefix("file:"))
        path.mkdir(parents=True)
        (path / "part-00000").write_text(f"{self.label}:rows")
        return JobResult(spec.job_id, self.application_id, columns=(Column("rows", "bigint"),), rows=1)

    def close(self) -> None:
        super().close()
        self._batches.close()

    def write(self, spec: Any, partition: str, values: tuple[str, ...], name: str) -> WrittenDirectory:
        path = Path(spec.staging.removeprefix("file:")) / "data" / partition / name
        path.mkdir(parents=True)
        text = f"{self.label}:{'files' if name == PLAIN_FILES else name.rpartition('_')[0].split('_')[0]}"
        if spec.step.target.has_row_ids:
            (path / ACID_VERSION_FILE).write_text(ACID_VERSION)
            file = bucket_file_name(getattr(spec.step, "bucket_offset", 0))
        elif name == PLAIN_FILES:
            file = unique_file_name(0, spec.step.statement_id, spec.step.write_id)
        else:
            file = original_file_name(0)
        (path / file).write_text(text)
        return WrittenDirectory(partition, values, name, (WrittenFile(file, 1, len(text)),))


def engine_of(
    client: MetastoreClient,
    warehouse: str,
    label: str,
    case: Case,
    launcher_of: Callable[[LabelledSpark], JobLauncher] = lambda spark: spark,
) -> Engine:
    """An engine whose Spark writes this label."""
    spark = LabelledSpark(label)
    spark.partitions = list(case.partitions)
    if "(c1)" in case.statement:
        spark.answer = [[1, 2]]  # the query gives the columns c0 and c1
    return Engine(client, launcher_of(spark), warehouse, agent_info=label)


def contents(client: MetastoreClient, database: str) -> dict[str, list[str]]:
    """What a reader sees of each table of a database."""
    tables = client.catalog.find_tables([f"{database}.{name}" for name in client.catalog.list_tables(database)])
    return {table.name: sorted(_of_table(client, table)) for table in tables.values()}


def _of_table(client: MetastoreClient, table: Table) -> list[str]:
    if table.is_view:
        return [f"a view of {', '.join(column.name for column in table.columns)}"]
    if not table.is_partitioned:
        return _of_place(client, table, table.location)
    partitions = client.catalog.list_partitions(table.qualified_name)
    return [f"{p.name} {text}" for p in partitions for text in _of_place(client, table, p.location)]


def _of_place(client: MetastoreClient, table: Table, location: str) -> list[str]:
    place = path_of(location)
    if not table.is_transactional:
        return [file.read_text() for file in place.iterdir() if not is_hidden(file.name)]
    with client.snapshot([table.qualified_name]) as snapshot:
        found = acid_state(_entries(place), snapshot.snapshot[table.qualified_name], snapshot.valid_txns)
    directories = {d.directory.name for d in (*found.inserts, *found.deletes)}
    files = [file for name in sorted(directories) for file in (place / name).iterdir() if file.name[0] != "_"]
    return [file.read_text() for file in files]


def _entries(place: Path) -> list[FileEntry]:
    return [
        FileEntry(f"{path.relative_to(place)}/" if path.is_dir() else str(path.relative_to(place)), path.stat().st_size)
        for path in sorted(place.rglob("*"))
    ]


def check_exported(case: Case, root: Path, database: str) -> None:
    """The directory that a case leaves is whole, and nothing lies beside it.

    :param root: the directory in which it lies.
    """
    assert [path.name for path in root.iterdir() if path.name.startswith(f"_{database}_")] == []
    if case.exported is not None:
        files = [path for path in (root / database).iterdir() if path.name[0] != "_"]
        assert sorted(path.read_text() for path in files) == sorted(case.exported)


def strays(client: MetastoreClient, database: str, root: Path) -> list[str]:
    """What lies in a database's directories and belongs to nothing; the plain file that fences a job belongs to it."""
    home = root / f"{database}.db"
    known, found = {home}, []
    if database in client.catalog.list_databases():
        names = [f"{database}.{name}" for name in client.catalog.list_tables(database)]
        for table in client.catalog.find_tables(names).values():
            if table.is_view:
                continue
            places = {path_of(location) for location in _places(client, table)}
            known |= places
            for place in places:
                assert place.is_dir(), f"{place} is missing"
                found += _stray_in(client, table, place, known)
        assert home.is_dir(), f"{home} is missing"
    elsewhere = [] if not home.exists() else [p for p in home.iterdir() if p not in known and p.name != PLACE_MARKER]
    if database not in client.catalog.list_databases() and home.exists():
        elsewhere.append(home)
    return [*found, *map(str, elsewhere)]


def _places(client: MetastoreClient, table: Table) -> list[str]:
    partitions = client.catalog.list_partitions(table.qualified_name) if table.is_partitioned else []
    return [table.location, *(partition.location for partition in partitions)]


def _stray_in(client: MetastoreClient, table: Table, place: Path, known: set[Path]) -> list[str]:
    found = []
    for entry in place.iterdir():
        if entry in known or (entry.name.startswith("_tmp_") and entry.is_file()):
            continue
        if not table.is_transactional:
            if is_hidden(entry.name) or entry.is_dir():
                found.append(str(entry))
            continue
        with client.snapshot([table.qualified_name]) as snapshot:
            write_ids = snapshot.snapshot[table.qualified_name]
        numbers = [int(part) for part in entry.name.split("_") if part.isdecimal()]
        of_batch = numbers[1:] and numbers[0] < numbers[1]  # a compaction takes out what counts of its rows
        if not numbers or not (of_batch or write_ids.is_valid(numbers[0])) or is_hidden(entry.name):
            found.append(str(entry))
    return found


def path_of(location: str) -> Path:
    """The local path of a URI."""
    return Path("/" + location.removeprefix("file:").lstrip("/"))
