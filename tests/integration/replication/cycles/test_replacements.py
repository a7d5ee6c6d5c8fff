"""CREATE OR REPLACE TABLE at the primary: the replica has the table of before, whole, or the new one, whole.

The engine and both metastores are real; each line of a data file is a row, named ``write id:label``.
"""

# ruff: noqa: S608 - statements put together from what is above them

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, TypeAlias

import pytest

from airflow_hive_acid.engine import Engine
from airflow_hive_acid.errors import (
    InvalidArgumentsError,
    LockTimeoutError,
    TablePinnedError,
    UnsupportedStatementError,
)
from airflow_hive_acid.format.jobs import Column, JobResult, Select, WrittenDirectory, WrittenFile
from airflow_hive_acid.metastore import MetastoreClient
from airflow_hive_acid.metastore.catalog import read_whole_partitions
from airflow_hive_acid.replication.acid.sync import sync_tables
from airflow_hive_acid.replication.cycles.cycle import replicate
from airflow_hive_acid.replication.policies.policy import policy
from airflow_hive_acid.settings import Settings, Source
from tests.integration.engine.conftest import FakeSpark
from tests.integration.replication.acid_world import T, compact, path_of, rows
from tests.integration.replication.dying import Countdown, Killed, dying
from tests.integration.replication.world import reap

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from airflow_hive_acid.replication.site import Site


POLICY = policy({"name": "p", "source": "primary", "destination": "replica", "databases": ["default"]})
ACID = "STORED AS ORC TBLPROPERTIES ('transactional'='true')"
Shown: TypeAlias = "tuple[Any, ...] | None"
"""What a site shows of the table: its definition, and its rows by partition."""


class LineSpark(FakeSpark):
    """Writes one row into each directory: the write id and a label.

    :param columns: of the answers of queries: a name and a type for each.
    """

    def __init__(self, label: str, *columns: tuple[str, str]) -> None:
        super().__init__()
        self.label, self.columns = label, columns

    def work(self, spec: Any) -> JobResult:
        if isinstance(spec.step, Select):
            found = tuple(Column(name, kind) for name, kind in self.columns)
            return JobResult(spec.job_id, self.application_id, columns=found)
        return super().work(spec)

    def write(self, spec: Any, partition: str, values: tuple[str, ...], name: str) -> WrittenDirectory:
        written = super().write(spec, partition, values, name)
        row = f"{spec.step.write_id}:{self.label}"
        file = path_of(spec.staging) / "data" / partition / name / written.files[0].name
        file.write_text(row)
        return WrittenDirectory(partition, values, name, (WrittenFile(file.name, 1, len(row)),))


def run(site: Site, sql: str, label: str, *columns: tuple[str, str], partitions: tuple[str, ...] = ()) -> None:
    """Run statements at a site.

    :param label: of the rows that they write.
    :param columns: of their queries.
    :param partitions: values of the partitions that they write.
    """
    spark = LineSpark(label, *columns)
    spark.partitions = [(value,) for value in partitions]
    with Engine(site.client, spark, site.client.catalog.warehouse()) as engine:
        engine.run(sql)


def shown(site: Site) -> Shown:
    """What a reader of now finds."""
    table = site.client.catalog.find_tables([T]).get(T)
    if table is None:
        return None
    parts = site.client.catalog.list_partitions(T) if table.is_partitioned else []
    names = [(table.id, part.name) for part in parts]
    whole = site.client.database.read(lambda connection: read_whole_partitions(connection, names))
    if table.is_transactional:
        found = rows(site)
    else:
        files = [path for path in path_of(table.location).iterdir() if path.name[0] not in "_."]
        found = {"": {path.read_text() for path in files}}
    return (
        [(column.name, column.type) for column in table.columns],
        [column.name for column in table.partition_columns],
        {name: [(f.name, f.type) for f in part.storage.columns] for (_, name), part in whole.items()},
        {key: table.property(key) for key in ("comment", "note", "transactional")},
        {name: lines for name, lines in found.items() if lines},
    )


def cycle(primary: Site, replica: Site, **rest: Any) -> None:
    """One cycle, after which the replica shows what the primary shows."""
    replicate(POLICY, primary, replica, holder="a test", **rest)
    assert shown(replica) == shown(primary)


def cycles_that_die(primary: Site, replica: Site, every: int = 1) -> Iterator[str]:
    """Cycles killed in front of each of their changes, one after the other, until one lives; what died is told when its
    time-outs have passed.

    :param every: only each such change.
    """
    for number in range(1, 400, every):
        countdown = Countdown(number)
        with dying(primary, countdown) as source, dying(replica, countdown) as target:
            try:
                replicate(POLICY, source, target, holder="a test")
            except Killed:
                for site in (primary, replica):
                    reap(site)  # a drop that was killed holds its lock until then
                yield countdown.what
                continue
        return
    raise AssertionError("no cycle came to its end")


OLD = f"CREATE TABLE t (a INT, b INT) {ACID}; INSERT INTO t VALUES (1, 1)"
NEW = (
    "CREATE OR REPLACE TABLE t COMMENT 'other' STORED AS ORC TBLPROPERTIES ('transactional'='true', 'note'='new') "
    "AS SELECT CAST(a AS BIGINT) AS x, b, 'c' AS c FROM t"
)
NEW_COLUMNS = (("x", "bigint"), ("b", "int"), ("c", "string"))
OLD_PARTED = f"CREATE TABLE t (a INT, b INT) PARTITIONED BY (k STRING) {ACID}; " + "".join(
    f"INSERT INTO t PARTITION (k='{key}') VALUES (1, 1);" for key in "12"
)
NEW_PARTED = (
    "CREATE OR REPLACE TABLE t PARTITIONED BY (k) STORED AS ORC TBLPROPERTIES ('transactional'='true', 'note'='new') "
    "AS SELECT CAST(a AS BIGINT) AS x, b, 'c' AS c, k FROM t"
)
KEY = ("k", "string")


def replaced(site: Site, *, parted: bool, label: str = "new") -> None:
    """The table gets other columns and rows; of partitions 1 and 2 the first loses its rows, and there is a third."""
    if parted:
        run(site, NEW_PARTED, label, *NEW_COLUMNS, KEY, partitions=("2", "3"))
    else:
        run(site, NEW, label, *NEW_COLUMNS)


@pytest.mark.parametrize("parted", [False, True], ids=["whole", "partitions"])
def test_a_replaced_table_comes_with_its_new_columns_and_rows_and_none_of_the_old(
    primary: Site, replica: Site, *, parted: bool
) -> None:
    """By a query, then by columns alone, then twice between two cycles, with what a compaction has left of it."""
    run(primary, OLD_PARTED if parted else OLD, "old")
    cycle(primary, replica)
    replaced(primary, parted=parted)
    cycle(primary, replica)
    table, keys, of_partitions, said, found = shown(replica) or ()
    assert table == list(NEW_COLUMNS)
    assert keys == (["k"] if parted else [])
    assert of_partitions == (dict.fromkeys(["k=1", "k=2", "k=3"], table) if parted else {})
    assert said["note"] == "new"
    assert found == ({"k=2": {"3:new"}, "k=3": {"3:new"}} if parted else {"": {"2:new"}})
    by = "PARTITIONED BY (k STRING) " if parted else ""
    run(primary, f"CREATE OR REPLACE TABLE t (x BIGINT, z INT NOT NULL, c STRING, d INT) {by}{ACID}", "")
    cycle(primary, replica)
    assert (shown(replica) or ())[4] == {}
    assert (shown(replica) or ())[3]["note"] is None
    for label in ("never here", "last"):
        where = "PARTITION (k='1') " if parted else ""
        run(primary, f"CREATE OR REPLACE TABLE t (x BIGINT, z INT, c STRING, d INT) {by}{ACID};"
            f"INSERT INTO t {where}VALUES (1, 2, '3', 4)", label)  # fmt: skip
    compact(primary, major=True, partition="k=1" if parted else "", clean=True)
    compact(replica, major=True, partition="k=1" if parted else "", clean=True)
    cycle(primary, replica)
    assert {line.split(":")[1] for lines in (shown(replica) or ())[4].values() for line in lines} == {"last"}


@pytest.mark.rule("R5")
@pytest.mark.parametrize("parted", [False, True], ids=["whole", "partitions"])
def test_a_cycle_that_is_killed_anywhere_leaves_the_old_table_or_the_new_one(
    primary: Site, replica: Site, request: pytest.FixtureRequest, *, parted: bool
) -> None:
    """Whole: old columns with old rows, or new columns with new rows. So is what loads the same events again."""
    run(primary, OLD_PARTED if parted else OLD, "old")
    cycle(primary, replica)
    before = shown(replica)
    replaced(primary, parted=parted)
    after = shown(primary)
    seen = [before]
    whole = request.config.getoption("--crashes-every") > 0
    every = 1 if whole else 7
    for what in cycles_that_die(primary, replica, every):
        seen.append(shown(replica))
        assert seen[-1] in (before, after), what
        assert seen[-2:] != [after, before], f"the replica went back when {what} died"
    assert seen.count(before) * every > 15
    cycle(primary, replica)
    assert shown(replica) == after


def test_a_replacement_whose_events_are_loaded_twice_is_there_once(primary: Site, replica: Site) -> None:
    """
    t1  the table is replaced; a cycle brings that, and dies in front of moving its position
    t2  it is written; the next cycle reads the events of the replacement again, and those of the write
    t3  the first copy is made again
    """
    run(primary, OLD, "old")
    cycle(primary, replica)
    replaced(primary, parted=False)

    def die(step: str) -> None:
        if step == "advancing":
            raise Killed(step)

    with pytest.raises(Killed):
        replicate(POLICY, primary, replica, holder="a test", step=die)
    assert shown(replica) == shown(primary)
    run(primary, "INSERT INTO t VALUES (1, 2, '3')", "later")
    cycle(primary, replica)
    cycle(primary, replica, again=True)
    assert (shown(replica) or ())[4] == {"": {"2:new", "3:later"}}
    assert replica.client.max_allocated_write_id(T) == primary.client.max_allocated_write_id(T)


PURGED = "STORED AS ORC TBLPROPERTIES ('external.table.purge'='true')"
OTHERS = {
    "other partition columns": (OLD_PARTED, f"CREATE TABLE t (a INT, k STRING) PARTITIONED BY (d STRING) {ACID}",
                                "INSERT INTO t PARTITION (d='1') VALUES (1, '1')"),
    "partitions instead of none": (OLD, f"CREATE TABLE t (a INT) PARTITIONED BY (k STRING) {ACID}",
                                   "INSERT INTO t PARTITION (k='1') VALUES (1)"),
    "ACID instead of external": (f"CREATE EXTERNAL TABLE t (a INT) {PURGED}; INSERT INTO t VALUES (1)",
                                 f"CREATE TABLE t (x BIGINT) {ACID}", "INSERT INTO t VALUES (2)"),
    "external instead of ACID": (OLD, f"CREATE EXTERNAL TABLE t (x BIGINT) {PURGED}", "INSERT INTO t VALUES (2)"),
}  # fmt: skip


@pytest.mark.parametrize("what", OTHERS)
def test_what_cannot_be_replaced_is_dropped_and_made_and_comes_as_another_table(
    primary: Site, replica: Site, what: str, request: pytest.FixtureRequest
) -> None:
    """Other partition columns, or another kind: CREATE OR REPLACE says so. Between the two the replica has none."""
    old, new, filled = OTHERS[what]
    run(primary, old, "old")
    cycle(primary, replica)
    before = shown(replica)
    with pytest.raises((InvalidArgumentsError, UnsupportedStatementError), match="DROP TABLE, then CREATE TABLE"):
        run(primary, new.replace("CREATE", "CREATE OR REPLACE", 1), "refused")
    assert shown(primary) == before
    run(primary, f"DROP TABLE t; {new}", "new")
    empty = shown(primary)
    run(primary, filled, "new")
    after = shown(primary)
    whole = request.config.getoption("--crashes-every") > 0
    reached = 0
    for died in cycles_that_die(primary, replica, 1 if whole else 13):
        now = shown(replica)
        assert now in (before, None, empty, after), died
        assert (before, None, empty, after).index(now) >= reached, died
        reached = (before, None, empty, after).index(now)
    cycle(primary, replica)
    assert shown(replica) == after


def test_files_of_an_external_table_are_not_taken_for_those_of_the_table_in_its_place(
    primary: Site, replica: Site, tmp_path: Path
) -> None:
    """They outlive its DROP, here as there: the cycle names the directory, and goes on when it is empty."""
    elsewhere = (tmp_path / "elsewhere").as_uri()
    run(
        primary,
        f"CREATE EXTERNAL TABLE t (a INT) STORED AS ORC LOCATION '{elsewhere}'; INSERT INTO t VALUES (1)",
        "old",
    )
    cycle(primary, replica)
    copies = path_of(replica.client.catalog.get_table(T).location)
    run(primary, f"DROP TABLE t; CREATE TABLE t (x BIGINT) {ACID}; INSERT INTO t VALUES (2)", "new")
    with pytest.raises(InvalidArgumentsError, match=r"replica/t is not empty: .* empty it"):
        cycle(primary, replica)
    assert [path.read_text().split(":")[1] for path in copies.iterdir()] == ["old"]
    for path in copies.iterdir():
        path.unlink()
    cycle(primary, replica)
    assert (shown(replica) or ())[4] == {"": {"1:new"}}


@pytest.mark.rule("R16")
def test_constraints_of_the_primary_are_no_difference_that_a_pin_at_the_replica_stands_in_the_way_of(
    primary: Site, replica: Site
) -> None:
    """They are not replicated; a sync neither brings the definition again and again nor calls its columns changed."""
    run(primary, f"CREATE TABLE t (a INT NOT NULL, b INT DEFAULT 7) {ACID}; INSERT INTO t VALUES (1, 1)", "old")
    cycle(primary, replica)
    replica.client.pins.pin("books", [T], expires=3600)
    run(primary, "INSERT INTO t VALUES (2, 2)", "more")
    cycle(primary, replica)
    replaced(primary, parted=False)
    with pytest.raises(TablePinnedError, match="changing its columns"):
        cycle(primary, replica)
    assert (shown(replica) or ())[4] == {"": {"1:old", "2:more"}}
    replica.client.pins.unpin("books")
    cycle(primary, replica)


@pytest.mark.every_database
def test_a_table_is_not_replaced_while_a_sync_looks_at_it(primary: Site, replica: Site) -> None:
    """Its columns and rows are read under one lock.

    t1  a sync has looked at the table, and copies
    t2                    somebody wants to replace it: not as long as the sync looks at the source
    t3                    the sync has all it needs: the table is replaced
    t4  the sync ends: the replica has what was there at t1, columns and rows
    """
    run(primary, OLD, "old")
    cycle(primary, replica)
    run(primary, "INSERT INTO t VALUES (1, 2)", "more")
    at_t1 = shown(primary)
    said: list[str] = []
    hurried = Settings({Source.CONNECTION: {"hive.lock.numretries": "1", "hive.lock.sleep.between.retries": "10ms"}})
    url = primary.client.database.url.render_as_string(hide_password=False)

    def meanwhile(step: str) -> None:
        if step == "copy":
            with MetastoreClient(url, hurried) as client, pytest.raises(LockTimeoutError):
                replaced(dataclasses.replace(primary, client=client), parted=False)
        elif step == "advance":
            replaced(primary, parted=False)
        said.append(step)

    sync_tables(primary, replica, POLICY.name, [T], step=meanwhile)
    assert {"copy", "advance"} <= {*said}
    assert shown(replica) == at_t1
    cycle(primary, replica)
