"""Changed rows and compactions on S3: files are uploaded under their final names, and none is copied (decision 74)."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest
import sqlalchemy as sa

from airflow_hive_acid.engine.transactions.claims import Once
from airflow_hive_acid.maintenance import run_reaper
from airflow_hive_acid.maintenance.decisions import Kind
from airflow_hive_acid.maintenance.warehouse import fences
from airflow_hive_acid.metastore.schema.hive_catalog import PARTITION_KEY_VALS, PARTITIONS
from airflow_hive_acid.metastore.schema.hive_transactions import TXNS

from .conftest import clean, uploads
from .faulty_s3 import Rule

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from airflow_hive_acid.engine import Engine
    from airflow_hive_acid.filesystem import AnyFilesystem
    from airflow_hive_acid.maintenance.decisions import CompactionOutcome
    from airflow_hive_acid.metastore import MetastoreClient

    from .faulty_s3 import Faults

pytestmark = [pytest.mark.storage, pytest.mark.spark]

MINE = 40_000
"""Rows of a partition, whose files are larger than what several tasks share."""
NEAR = "'a/b{'"
"""The partition that lies where its name says; another one lies elsewhere."""


def given(faults: Faults) -> dict[str, list[str]]:
    """The names that data files got inside the last ``faults.of()``, by how: ``COPY`` or ``COMPLETE``."""
    found: dict[str, list[str]] = {"COPY": [], "COMPLETE": []}
    for asked in faults.after:
        if asked.kind in found and not asked.name.endswith("/_orc_acid_version"):
            found[asked.kind].append(asked.name.partition("/warehouse/")[2])
    return {kind: sorted(names) for kind, names in found.items()}


@pytest.mark.rule("R4")
@pytest.mark.rule("R5")
def test_changed_rows_and_compactions_are_uploaded_under_their_names(
    start_engine: Callable[..., Engine],
    client: MetastoreClient,
    files: AnyFilesystem,
    warehouse: str,
    conf: dict[str, str],
    faults: Faults,
) -> None:
    """Also where several tasks share a bucket, and in a partition that lies elsewhere."""
    sizes = {"spark.hive.acid.range.bytes": "200k", "spark.hadoop.fs.s3a.multipart.size": "5M"}
    engine = start_engine(warehouse, {**conf, **sizes})
    engine.run(
        "CREATE DATABASE w; CREATE TABLE w.t (a BIGINT, b STRING) PARTITIONED BY (p STRING) STORED AS ORC "
        "TBLPROPERTIES ('transactional'='true', 'orc.compress'='NONE'); "
        f"ALTER TABLE w.t ADD PARTITION (p = 'far') LOCATION '{warehouse}/far'"
    )
    near, far = "w.db/t/p=a%2Fb%7B", "far"

    def changing(change: Callable[[], object]) -> dict[str, list[str]]:
        with faults.of():
            change()
        assert uploads() == []
        return given(faults)

    # A large file goes in several parts.
    assert changing(
        lambda: engine.run(
            f"INSERT INTO w.t SELECT id, repeat(uuid(), 5), IF(id < {MINE}, {NEAR}, 'far') "
            f"FROM range(0, {MINE + 10}, 1, 1)"
        )
    ) == {
        "COPY": [],
        "COMPLETE": [f"{place}/delta_0000002_0000002_0000/bucket_00000" for place in (far, near)],
    }
    file = f"{near}/delta_0000002_0000002_0000/bucket_00000"
    asked = [one.kind for one in faults.after if one.name.endswith(file)]
    assert asked == ["START", "PUT", "PUT", "GET", "COMPLETE"]
    compacting = [f"ALTER TABLE w.t PARTITION (p = {NEAR}) COMPACT '{kind}'" for kind in ("minor", "rebalance")]
    for statement in ("UPDATE w.t SET b = 'x'", *compacting):
        (explained,) = engine.run(f"EXPLAIN {statement}")
        assert explained.rows is not None
        *_, head, line = [row[0] for row in explained.rows.rows]
        assert head == "NAMES OF FILES:"
        assert line.startswith("  files of w.t are uploaded under their names (hive.acid.spark.s3.uploads is parts; ")
    # Two tasks share the bucket: what each changes are files of its own, what they delete is made one file.
    assert changing(lambda: engine.run("UPDATE w.t SET b = 'changed' WHERE a % 2 = 0")) == {
        "COPY": [],
        "COMPLETE": [
            f"{far}/delete_delta_0000003_0000003_0000/bucket_00000",
            f"{far}/delta_0000003_0000003_0001/bucket_00000",
            f"{near}/delete_delta_0000003_0000003_0000/bucket_00000",
            f"{near}/delta_0000003_0000003_0001/bucket_00000",
            f"{near}/delta_0000003_0000003_0001/bucket_00001",
        ],
    }
    # Of a bucket that tasks share, one has a row: its file is none of the whole bucket until all have ended.
    row = f"SELECT {MINE - 1}L AS i UNION ALL SELECT -1L"
    assert changing(
        lambda: engine.run(
            f"MERGE INTO w.t USING ({row}) s ON t.a = s.i WHEN MATCHED THEN DELETE "
            f"WHEN NOT MATCHED THEN INSERT VALUES (s.i, 'new', {NEAR})"
        )
    ) == {
        "COPY": [f"{near}/delete_delta_0000004_0000004_0000/bucket_00000"],
        "COMPLETE": [f"{near}/delta_0000004_0000004_0001/bucket_00001"],
    }
    rows = "SELECT count(*), count(DISTINCT b), sum(a), min(b), max(a) FROM w.t"
    expected = engine.query(rows).rows
    for kind, written in {
        "minor": {"delete_delta_0000002_0000004": [0], "delta_0000002_0000004": [0, 1]},
        "major": {"base_0000004": [0, 1]},
    }.items():
        engine.run(f"ALTER TABLE w.t PARTITION (p = {NEAR}) COMPACT '{kind}'")
        outcome = _compacted(changing, engine)
        # Two tasks share the first bucket, and the file of each is put into its file.
        staged = [asked.name for asked in faults.after if asked.kind == "PUT" and asked.name.endswith(".orc")]
        assert len(staged) == 2, staged
        assert outcome == {
            "COPY": [],
            "COMPLETE": [
                f"{near}/{name}_v{{txn}}/bucket_0000{bucket}" for name, buckets in written.items() for bucket in buckets
            ],
        }
        assert engine.query(rows).rows == expected
        assert [outcome.kind for outcome in clean(client, files)] == [Kind.CLEANED]
    engine.run("ALTER TABLE w.t PARTITION (p = 'far') COMPACT 'major'")
    outcome = _compacted(changing, engine)
    assert outcome == {"COPY": [], "COMPLETE": [f"{far}/base_0000004_v{{txn}}/bucket_00000"]}
    assert engine.query(rows).rows == expected
    for count in (1, 2):
        engine.run(f"ALTER TABLE w.t PARTITION (p = {NEAR}) COMPACT 'rebalance' CLUSTERED INTO {count} BUCKETS")
        outcome = _compacted(changing, engine)
        # Two tasks share one bucket; of two buckets each is the work of one task, which uploads it.
        staged = [asked.name for asked in faults.after if asked.kind == "PUT" and asked.name.endswith(".orc")]
        assert len(staged) == (2 if count == 1 else 0), staged
        assert outcome == {
            "COPY": [],
            "COMPLETE": [f"{near}/base_0000004_v{{txn}}/bucket_0000{i}" for i in range(count)],
        }
        assert engine.query(rows).rows == expected
        # A request that waits for the Cleaner stands in the way of the next one.
        clean(client, files)


@pytest.mark.rule("R5")
def test_rows_that_move_are_uploaded_to_where_their_partitions_lie(
    start_engine: Callable[..., Engine], client: MetastoreClient, warehouse: str, conf: dict[str, str], faults: Faults
) -> None:
    """Also into a partition that the statement does not read and that lies elsewhere, and one that a Hive spelled."""
    engine = start_engine(warehouse, conf)
    engine.run(
        "CREATE DATABASE w; CREATE TABLE w.t (a INT, b STRING) PARTITIONED BY (p INT) STORED AS ORC "
        f"TBLPROPERTIES ('transactional'='true'); ALTER TABLE w.t ADD PARTITION (p = 9) LOCATION '{warehouse}/far'; "
        "INSERT INTO w.t VALUES (1, 'a', 1), (2, 'b', 1), (3, 'c', 1), (4, 'd', 4)"
    )
    # As a Hive may have named it, and has spelled its value.
    with client.database.transaction() as connection:
        part = sa.select(PARTITIONS.c.PART_ID).where(PARTITIONS.c.PART_NAME == "p=4").scalar_subquery()
        values = sa.update(PARTITION_KEY_VALS).where(PARTITION_KEY_VALS.c.PART_ID == part)
        connection.execute(values.values(PART_KEY_VAL="04"))
        connection.execute(sa.update(PARTITIONS).where(PARTITIONS.c.PART_NAME == "p=4").values(PART_NAME="p=04"))
    statement = "UPDATE w.t SET p = CASE a WHEN 1 THEN 9 WHEN 2 THEN 4 ELSE 7 END, b = upper(b) WHERE p < 5 AND a < 4"
    with faults.of():
        engine.run(statement)
    # The second of the partitions that are read is the second task's, whose new rows are its bucket.
    deleted, new = "delete_delta_0000003_0000003_0000/bucket_00000", "delta_0000003_0000003_0001/bucket_00001"
    places = [f"w.db/t/p=1/{deleted}", f"w.db/t/p=4/{new}", f"w.db/t/p=7/{new}", f"far/{new}"]
    assert (given(faults), uploads()) == ({"COPY": [], "COMPLETE": sorted(places)}, [])
    rows = [[1, "A", 9], [2, "B", 4], [3, "C", 7], [4, "d", 4]]
    assert sorted(engine.query("SELECT a, b, p FROM w.t").rows) == rows
    with faults.of():
        engine.run(
            "MERGE INTO w.t USING (SELECT 1 AS i UNION ALL SELECT 3 UNION ALL SELECT 5) s ON t.a = s.i "
            "WHEN MATCHED AND i = 3 THEN DELETE WHEN MATCHED THEN UPDATE SET p = 7 "
            "WHEN NOT MATCHED THEN INSERT VALUES (i, 'new', 7)"
        )
    named = given(faults)
    assert (named["COPY"], uploads()) == ([], [])
    assert sorted({name.partition("/bucket")[0] for name in named["COMPLETE"]}) == [
        "far/delete_delta_0000004_0000004_0000",
        "w.db/t/p=7/delete_delta_0000004_0000004_0000",
        "w.db/t/p=7/delta_0000004_0000004_0001",
    ]
    rows = [[1, "A", 7], [2, "B", 4], [4, "d", 4], [5, "new", 7]]
    assert sorted(engine.query("SELECT a, b, p FROM w.t").rows) == rows


def test_what_a_table_held_before_its_transactions_is_compacted_into_uploads(
    start_engine: Callable[..., Engine], warehouse: str, conf: dict[str, str], faults: Faults
) -> None:
    engine = start_engine(warehouse, conf)
    engine.run(
        "CREATE DATABASE w; CREATE TABLE w.t (a INT) STORED AS ORC TBLPROPERTIES ('transactional'='false'); "
        "INSERT INTO w.t SELECT id FROM range(0, 10, 1, 2); "
        "ALTER TABLE w.t SET TBLPROPERTIES ('transactional'='true', 'EXTERNAL'='FALSE'); "
        "DELETE FROM w.t WHERE a < 2; INSERT INTO w.t VALUES (10)"
    )
    engine.run("ALTER TABLE w.t COMPACT 'major'")
    outcome = _compacted(lambda change: _given_by(faults, change), engine)
    assert (outcome["COPY"], uploads()) == ([], [])
    assert [name.rpartition("/")[2] for name in outcome["COMPLETE"]] == ["bucket_00000"]
    assert sorted(engine.query("SELECT a FROM w.t").rows) == [[a] for a in range(2, 11)]


def _given_by(faults: Faults, change: Callable[[], object]) -> dict[str, list[str]]:
    with faults.of():
        change()
    return given(faults)


def test_overwrites_are_uploaded_unless_their_txn_has_made_a_base_there(
    start_engine: Callable[..., Engine], warehouse: str, conf: dict[str, str], faults: Faults
) -> None:
    engine = start_engine(warehouse, conf)
    engine.run(
        "CREATE DATABASE w; CREATE TABLE w.t (a INT) PARTITIONED BY (p STRING) STORED AS ORC "
        "TBLPROPERTIES ('transactional'='true'); INSERT INTO w.t VALUES (1, 'a'), (2, 'b')"
    )
    overwrite = "INSERT OVERWRITE TABLE w.t PARTITION (p = 'a')"
    with faults.of():
        engine.run("INSERT OVERWRITE TABLE w.t VALUES (3, 'a'), (4, 'c')")
    places = [f"w.db/t/p={p}/base_0000002/bucket_00000" for p in ("a", "c")]
    assert (given(faults), uploads()) == ({"COPY": [], "COMPLETE": places}, [])
    assert sorted(engine.query("SELECT a, p FROM w.t").rows) == [[2, "b"], [3, "a"], [4, "c"]]
    with faults.of():
        engine.run(
            f"{overwrite} SELECT 5; {overwrite} SELECT 6; INSERT INTO w.t PARTITION (p = 'a') SELECT 7",
            one_transaction=True,
        )
    base = "w.db/t/p=a/base_0000003"
    named = given(faults)
    assert (named["COMPLETE"], uploads()) == ([f"{base}/bucket_00000"], [])
    assert [name for name in named["COPY"] if name.startswith(base)] == [f"{base}/bucket_0000{i}" for i in (0, 1)]
    assert sorted(engine.query("SELECT a, p FROM w.t").rows) == [[2, "b"], [4, "c"], [6, "a"], [7, "a"]]


def _compacted(
    changing: Callable[[Callable[[], object]], dict[str, list[str]]], engine: Engine
) -> dict[str, list[str]]:
    """How files of a compaction got their names, without the id of its txn."""
    outcomes: list[CompactionOutcome] = []
    found = changing(lambda: outcomes.extend(engine.run_compactions("compactor")))
    assert [outcome.kind for outcome in outcomes] == [Kind.COMPACTED], outcomes
    txn = f"_v{outcomes[0].txn_id:07d}/"
    return {how: [name.replace(txn, "_v{txn}/") for name in names] for how, names in found.items()}


@pytest.mark.rule("R4")
@pytest.mark.rule("R5")
@pytest.mark.rule("R14")
def test_a_kill_between_two_files_leaves_neither_a_row_nor_an_upload(
    start_engine: Callable[..., Engine],
    client: MetastoreClient,
    files: AnyFilesystem,
    warehouse: str,
    conf: dict[str, str],
    faults: Faults,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """
    t1  A's UPDATE publishes: of its two uploads, one is a file, the store has not answered for the other
    t2  kill -9 of A's control plane and of its Spark
    t3                    the second try of the statement fences A and is applied once
    t4  B's compaction publishes, and dies at the same place
    t5                    another Worker compacts, while B's txn is open
    t6                    the reaper ends the txns, and the Cleaner leaves what the last compaction wrote
    """
    # Else it is a quarter of an hour until what was published by a txn that failed there may be removed.
    monkeypatch.setattr(fences, "COPIES_SETTLE_MS", 0)
    engine = start_engine(warehouse, conf)
    engine.run(
        "CREATE DATABASE w; CREATE TABLE w.t (a INT, b STRING) STORED AS ORC TBLPROPERTIES ('transactional'='true'); "
        "INSERT INTO w.t VALUES (1, 'a'), (2, 'b')"
    )
    location = client.catalog.get_table("w.t").location
    update, once = "UPDATE w.t SET b = upper(b) WHERE a = 2", "the update"
    expected = [[1, "a"], [2, "B"]]

    def below(start: str) -> list[str]:
        return [name for name in names_of(files, location) if name.startswith(start)]

    def die(*words: str) -> None:
        held = Rule("hold", ("COMPLETE",), name="/delta_")
        with faults.of(held), control_plane(client, conf, tmp_path, *words) as running:
            wait_for(lambda: any(one.fault for one in faults.so_far()), running)
            wait_for(lambda: any("/delete_delta_" in one for one in given_so_far(faults)), running)

    die("sql", "--once", once, "-e", update)
    assert (len(below("delete_delta_0000002")), len(below("delta_0000002")), len(uploads())) == (1, 0, 1)
    assert sorted(engine.query("SELECT a, b FROM w.t").rows) == [[1, "a"], [2, "b"]]
    for _ in range(2):
        engine.run(update, once=Once(("hive-acid sql", once)))
    assert (uploads(), sorted(engine.query("SELECT a, b FROM w.t").rows)) == ([], expected)

    engine.run("ALTER TABLE w.t COMPACT 'minor'")
    die("maintenance", "worker", "--once")
    assert len(uploads()) == 1
    assert sorted(engine.query("SELECT a, b FROM w.t").rows) == expected
    for held in client.compactions.active():
        client.compactions.give_back(held, "its Worker died")
    (outcome,) = engine.run_compactions("another")
    assert (outcome.kind, sorted(engine.query("SELECT a, b FROM w.t").rows)) == (Kind.COMPACTED, expected)
    end_the_dead(client)
    for _ in range(2):
        report = run_reaper(client, files)
        assert not report.problems, report
        clean(client, files)
    assert (report.alive, uploads()) == ((), [])
    assert names_of(files, location) == sorted(outcome.directories)
    assert sorted(engine.query("SELECT a, b FROM w.t").rows) == expected


def names_of(files: AnyFilesystem, location: str) -> list[str]:
    """Directories of a table in which there are files."""
    entries = files.list_files(location, recursive=True)
    return sorted({entry.relative.partition("/")[0] for entry in entries if not entry.is_dir})


def given_so_far(faults: Faults) -> list[str]:
    """Names of the files that uploads have become."""
    return [asked.name for asked in faults.so_far() if asked.kind == "COMPLETE" and asked.fault is None]


def end_the_dead(client: MetastoreClient) -> None:
    """Their time-outs pass."""
    with client.database.transaction() as connection:
        connection.execute(sa.update(TXNS).where(TXNS.c.TXN_STATE == "o").values(TXN_LAST_HEARTBEAT=1000))


def wait_for(condition: Callable[[], bool], running: subprocess.Popen[str]) -> None:
    """Wait for what a process makes true."""
    deadline = time.monotonic() + 300
    while not condition():
        assert running.poll() is None, running.communicate()[1]
        assert time.monotonic() < deadline
        time.sleep(0.05)


@contextmanager
def control_plane(
    client: MetastoreClient, conf: dict[str, str], tmp_path: Path, *words: str
) -> Iterator[subprocess.Popen[str]]:
    """``hive-acid`` with these words in a process of its own, which is killed with its Spark in the end."""
    running = subprocess.Popen(
        [
            str(Path(sys.executable).parent / "hive-acid"),
            *("--metastore-url", str(client.database.url), "--spark-master", "local[1]"),
            *("--set", "hive.acid.job.environment=AWS_*"),
            *(part for pair in conf.items() for part in ("--spark-conf", "=".join(pair))),
            *words,
        ],
        env=os.environ | {"HIVE_ACID_CACHE": str(tmp_path / "cache"), "HIVE_ACID_HOME": str(tmp_path / "home")},
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield running
    finally:
        family = psutil.Process(running.pid).children(recursive=True) if running.poll() is None else []
        running.kill()
        for process in family:
            process.kill()
        psutil.wait_procs(family, timeout=20)
        running.communicate()
