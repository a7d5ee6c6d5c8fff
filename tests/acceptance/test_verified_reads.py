"""``hive.acid.read.verify``: files that are gone as a whole are told by whatever reads, in every kind of table.

Real Spark, and each damage twice: while the manifests of the commits are on record, and after they have been forgotten,
when nothing but the number of rows is left.
"""

from __future__ import annotations

import contextlib
import shutil
from pathlib import Path

import pytest

from airflow_hive_acid.engine import Engine
from airflow_hive_acid.engine.transactions.claims import Once
from airflow_hive_acid.errors import FilesGoneError, HiveAcidError, JobFailedError
from airflow_hive_acid.filesystem import AnyFilesystem
from airflow_hive_acid.maintenance.doctor.doctor import examine_tables
from airflow_hive_acid.maintenance.doctor.rules import Check
from airflow_hive_acid.metastore import MetastoreClient
from airflow_hive_acid.settings import Source

pytestmark = [pytest.mark.spark]
# ruff: noqa: S608 - names are the test's own

INSERT_ONLY = "TBLPROPERTIES ('transactional'='true', 'transactional_properties'='insert_only')"
FULL = "TBLPROPERTIES ('transactional'='true')"
#: kind of table: how it is made, whether rows can be deleted, its partition.
KINDS = {
    "full": (f"(id INT) STORED AS ORC {FULL}", True, ""),
    "partitioned": (f"(id INT) PARTITIONED BY (k STRING) STORED AS ORC {FULL}", True, "k=x"),
    "insert-only": (f"(id INT) STORED AS ORC {INSERT_ONLY}", False, ""),
    "insert-only parquet": (f"(id INT) PARTITIONED BY (k STRING) STORED AS PARQUET {INSERT_ONLY}", False, "k=x"),
}
# The first and the last have between them each format, and each with partitions or deletes; make test has the first.
BETWEEN = pytest.mark.repeats("kinds between the first and the last")
LAST = pytest.mark.crossing("verified reads x insert-only tables x partitions")
CHOSEN = [pytest.param(k, marks={"full": (), "insert-only parquet": LAST}.get(k, BETWEEN)) for k in KINDS]


@pytest.fixture
def verifying(metastore_url, client, warehouse, spark_application):
    """An engine whose connection wants numbers of rows compared, too."""
    with verifies(metastore_url, client, warehouse, spark_application, "rows") as engine:
        yield engine


@pytest.fixture
def careless(metastore_url, client, warehouse, spark_application):
    """An engine that compares nothing."""
    with verifies(metastore_url, client, warehouse, spark_application, "off") as engine:
        yield engine


@contextlib.contextmanager
def verifies(metastore_url, client, warehouse, application, what):
    settings = client.settings.with_overrides(Source.CONNECTION, {"hive.acid.read.verify": what})
    with MetastoreClient(metastore_url, settings=settings) as own, Engine(own, application, warehouse) as engine:
        yield engine


def make(engine, kind):
    """Two inserts of two files each, and where rows can be deleted a delete; three or four rows are left."""
    columns, deletes, partition = KINDS[kind]
    into = "PARTITION (k='x')" if partition else ""
    engine.run(f"CREATE DATABASE IF NOT EXISTS w; CREATE TABLE w.t {columns}")
    for first in (0, 2):
        rows = f"SELECT /*+ REPARTITION(2, id) */ id FROM VALUES ({first}), ({first + 1}) AS v(id)"
        engine.run(f"INSERT INTO w.t {into} {rows}")
    if deletes:
        engine.run("DELETE FROM w.t WHERE id = 1")
    return partition


def place_of(client, partition):
    table = client.catalog.get_table("w.t")
    return Path(table.location.removeprefix("file:").replace("///", "/")) / partition


def damages(place, deletes):
    """What can be gone, and the name that is missed by a manifest."""
    deltas = sorted(d for d in place.iterdir() if d.name.startswith("delta_"))
    files = sorted(f for f in deltas[0].iterdir() if f.name[0] not in "._")
    found = {"delta": (deltas[1], deltas[1].name)}
    if len(files) > 1:
        found["bucket"] = (files[1], f"{deltas[0].name}/{files[1].name}")
    if deletes:
        (gone,) = (d for d in place.iterdir() if d.name.startswith("delete_delta_"))
        found["delete delta"] = (gone, gone.name)
    return found


@pytest.mark.parametrize("kind", CHOSEN)
@pytest.mark.setting("hive.acid.read.verify")
def test_what_is_gone_is_refused_by_every_read(engine, verifying, careless, client, tmp_path, kind):
    partition = make(engine, kind)
    deletes = KINDS[kind][1]
    place = place_of(client, partition)
    everything = [[0], [2], [3]] if deletes else [[0], [1], [2], [3]]
    reads = {
        "scan": lambda: verifying.query("SELECT id FROM w.t WHERE id >= 0 ORDER BY id").rows,
        "count": lambda: verifying.query("SELECT count(*) FROM w.t").rows,
        "insert": lambda: verifying.run("INSERT INTO w.o SELECT id FROM w.t"),
    }
    if deletes:
        reads |= {
            "update": lambda: verifying.run("UPDATE w.t SET id = id + 10 WHERE id = 3"),
            "delete": lambda: verifying.run("DELETE FROM w.t WHERE id = 3"),
            "merge": lambda: verifying.run(
                "MERGE INTO w.t USING (SELECT 3 AS id) s ON w.t.id = s.id WHEN MATCHED THEN DELETE"
            ),
        }
    engine.run(f"CREATE TABLE w.o (id INT) STORED AS ORC {FULL}")
    assert reads["scan"]() == everything
    assert reads["count"]() == [[len(everything)]]
    whole = tmp_path / "whole"
    shutil.copytree(place, whole)
    told = 0
    for remembered in (True, False):
        if not remembered:
            client.jobs.forget()
        for name, (gone, missed) in damages(place, deletes).items():
            shutil.rmtree(gone) if gone.is_dir() else gone.unlink()
            assert careless.query("SELECT id FROM w.t ORDER BY id").rows != everything
            if remembered:
                with pytest.raises(FilesGoneError, match="published by a txn that has committed, and gone"):
                    engine.query("SELECT id FROM w.t ORDER BY id")
            else:
                assert engine.query("SELECT id FROM w.t ORDER BY id").rows != everything, "rows count by wish"
            for read in reads.values():
                with pytest.raises(FilesGoneError) as refused:
                    read()
                told += 1
                text = str(refused.value)
                assert ("partition k=x of w.t" if partition else "w.t") in text
                assert "hive-acid doctor w.t" in text
                if remembered:
                    assert f"{missed}: published by a txn that has committed, and gone" in text
                else:
                    less = "deleted rows are back" if name == "delete delta" else "rows (a base, a delta, a bucket"
                    assert f"the catalog counts {len(everything)} rows, the files hold" in text
                    assert less in text
                    assert "delta_" in text, "what there is is listed"
            if "parquet" not in kind:
                checks = {f.check for f in examine_tables(client, AnyFilesystem(), ["w.t"])}
                assert Check.ROWS in checks, "the doctor keeps the same rule"
            shutil.rmtree(place)
            shutil.copytree(whole, place)
    assert reads["scan"]() == everything
    assert told == len(reads) * 2 * len(damages(place, deletes))


@pytest.mark.parametrize("kind", CHOSEN)
def test_nothing_is_refused_where_everything_is_there(engine, verifying, client, kind):
    """Every write, of ours, leaves what the next read compares with; so do compactions, TRUNCATE and partitions."""
    partition = make(verifying, kind)
    deletes = KINDS[kind][1]
    into = "PARTITION (k='x')" if partition else ""

    def count():
        return verifying.query("SELECT count(*) FROM w.t").rows[0][0]

    rows = 3 if deletes else 4
    assert count() == rows
    if deletes:
        verifying.run("UPDATE w.t SET id = 9 WHERE id = 2")
        assert count() == 3
        verifying.run(
            "START TRANSACTION; INSERT INTO w.t VALUES (5"
            + (", 'x'" if partition else "")
            + "); UPDATE w.t SET id = id + 1 WHERE id = 5; DELETE FROM w.t WHERE id = 6; COMMIT"
        )
        assert count() == 3
    place = "PARTITION (k='x') COMPACT" if partition else "COMPACT"
    verifying.run(f"ALTER TABLE w.t {place} 'minor' AND WAIT")
    assert count() == rows
    verifying.run(f"INSERT INTO w.t {into} SELECT 8; ALTER TABLE w.t {place} 'major' AND WAIT")
    assert count() == rows + 1
    verifying.run(f"INSERT OVERWRITE TABLE w.t {into} SELECT 7")
    assert count() == 1
    verifying.run("TRUNCATE TABLE w.t")
    assert count() == 0
    if partition:
        verifying.run("INSERT INTO w.t VALUES (1, 'x'), (2, 'y')")
        verifying.run("ALTER TABLE w.t DROP PARTITION (k='x')")
        assert count() == 1
        verifying.run("ALTER TABLE w.t ADD PARTITION (k='x')")
        assert count() == 1, "what was published in a partition that was dropped is not missed"
    verifying.run(f"DROP TABLE w.t; CREATE TABLE w.t {KINDS[kind][0]}")
    assert count() == 0, "nor in a table"


def test_what_cannot_be_compared_is_not(engine, verifying, client):
    """Another's open write id, one committed since, a past look, and a number that nobody knows."""
    make(engine, "full")
    place = place_of(client, "")
    client.jobs.forget()
    with client.snapshot(["w.t"]) as before, client.transaction({"w.t": "insert"}):
        (gone,) = (d for d in place.iterdir() if d.name.startswith("delete_delta_"))
        shutil.rmtree(gone)
        assert len(verifying.query("SELECT id FROM w.t").rows) == 4, "a Hive may have counted the open one"
        document = before.to_document()
        engine.run("INSERT INTO w.t VALUES (9)")
        assert len(verifying.query("SELECT id FROM w.t", snapshot=document).rows) == 4, "the number is a later one"
    with pytest.raises(FilesGoneError):
        verifying.query("SELECT id FROM w.t")


def test_compactions_refuse_what_is_damaged_and_keep_the_rest(engine, verifying, client):
    make(engine, "full")
    place = place_of(client, "")
    client.jobs.forget()
    (gone,) = (d for d in place.iterdir() if d.name.startswith("delete_delta_"))
    shutil.rmtree(gone)
    before = sorted(d.name for d in place.iterdir())
    for kind in ("minor", "major"):
        with pytest.raises(JobFailedError, match="the catalog counts 3 rows, the files hold 4"):
            verifying.run(f"ALTER TABLE w.t COMPACT '{kind}' AND WAIT")
    assert [d for d in sorted(d.name for d in place.iterdir()) if not d.startswith("_tmp_")] == before


@pytest.mark.rule("R5")
def test_what_was_undone_or_made_way_in_a_txn_is_not_missed(engine):
    """A task of a txn is tried again when it has written already; a base of two files makes way for one of one file."""
    engine.run(f"CREATE DATABASE IF NOT EXISTS w; CREATE TABLE w.t (id INT) STORED AS ORC {FULL}")
    scope = ("airflow", "dag", "run1", "load.begin", "-1")
    txn_id = engine.begin_shared({"w.t": "insert"}, Once(scope)).txn_id
    task = (*scope[:3], "load.t", "-1")

    def work(*statements):
        with engine.joined(txn_id, task, is_final=lambda _: False):
            for statement in statements:
                engine.run(statement)

    with pytest.raises(HiveAcidError, match="on purpose"):
        work("INSERT INTO w.t VALUES (1)", "INSERT INTO w.t SELECT raise_error('on purpose')")
    work("INSERT INTO w.t VALUES (1)")
    engine.commit_shared(txn_id)
    assert engine.query("SELECT id FROM w.t").rows == [[1]]
    with engine.begin({"w.t": "overwrite"}) as txn:
        txn.execute("INSERT OVERWRITE TABLE w.t SELECT /*+ REPARTITION(2, id) */ id FROM VALUES (2), (3) AS v(id)")
        txn.execute("INSERT OVERWRITE TABLE w.t VALUES (4)")
    assert engine.query("SELECT id FROM w.t").rows == [[4]]
