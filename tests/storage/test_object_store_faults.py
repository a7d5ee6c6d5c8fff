"""An object store that refuses requests, fails behind its back, or does what it was asked and does not say so."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from airflow_hive_acid.engine.transactions.claims import Once
from airflow_hive_acid.errors import HiveAcidError, StorageUnavailableError
from airflow_hive_acid.filesystem.s3_uploads import SETTING
from airflow_hive_acid.maintenance import run_cleaner, run_reaper
from airflow_hive_acid.maintenance.decisions import Kind
from airflow_hive_acid.maintenance.warehouse import fences
from airflow_hive_acid.settings import Source

from .conftest import clean, uploads
from .faulty_s3 import READS, WRITES, Rule

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_hive_acid.engine import Engine
    from airflow_hive_acid.filesystem import AnyFilesystem
    from airflow_hive_acid.maintenance.decisions import CleaningOutcome
    from airflow_hive_acid.metastore import MetastoreClient

    from .faulty_s3 import Faults

pytestmark = [pytest.mark.storage, pytest.mark.spark]

UPDATE = "UPDATE w.t SET b = 'b' WHERE a = 1"
#: Two tasks write: Spark does not know how few rows these are.
INSERT = "INSERT INTO w.t SELECT x, 'b' FROM (SELECT explode(array(id)) AS x FROM range(2, 4, 1, 2))"
#: Spark's S3 client gives up within seconds; by its defaults it would try for minutes.
FEW_TRIES = {
    "spark.hadoop.fs.s3a.attempts.maximum": "2",
    "spark.hadoop.fs.s3a.retry.limit": "2",
    "spark.hadoop.fs.s3a.retry.interval": "50ms",
    "spark.hadoop.fs.s3a.retry.throttle.limit": "2",
    "spark.hadoop.fs.s3a.retry.throttle.interval": "50ms",
}
#: Requests that an INSERT makes; the others are those of an UPDATE whose files are copied.
OF_INSERTS = (*READS, "PUT", "START", "COMPLETE")
TABLE = "CREATE DATABASE w; CREATE TABLE w.t (a INT, b STRING) STORED AS ORC TBLPROPERTIES ('transactional'='true')"


def rows(engine: Engine) -> list[list[object]]:
    return sorted(engine.query("SELECT a, b FROM w.t").rows)


def under_the_table(client: MetastoreClient, files: AnyFilesystem) -> list[str]:
    location = client.catalog.get_table("w.t").location
    return sorted({e.relative.partition("/")[0] for e in files.list_files(location, recursive=True) if not e.is_dir})


def run_cleaner_when_due(
    client: MetastoreClient, files: AnyFilesystem, faults: Faults, rule: Rule
) -> list[CleaningOutcome]:
    """A pass that meets faults, once there is something to clean: a pause, or a txn that may still appear, is over."""
    while True:
        with faults.of(rule):
            outcomes = run_cleaner(client, files)
        if any(outcome.kind is not Kind.WAITING for outcome in outcomes):
            return outcomes
        time.sleep(0.1)


@pytest.mark.rule("R17")
def test_one_request_that_fails_once_is_no_failure_of_a_statement(
    start_engine: Callable[..., Engine], warehouse: str, conf: dict[str, str], faults: Faults
) -> None:
    """Each kind of request, with each fault: clients ask again, nothing is there twice, and no upload is left."""
    engine = start_engine(warehouse, conf)
    engine.run(
        f"{TABLE}; CREATE TABLE w.far (b STRING) PARTITIONED BY (p INT) STORED AS ORC "
        "TBLPROPERTIES ('transactional'='true'); "
        f"ALTER TABLE w.far ADD PARTITION (p = 1) LOCATION '{warehouse}/far'; INSERT INTO w.far VALUES ('a', 1)"
    )
    expected: list[list[object]] = []
    for fault in ("slow_down", "cut", "error_after", "lost_answer"):
        writes = [kind for kind in WRITES if kind in OF_INSERTS]
        for kind in (*writes, "COPY", "DELETE") if fault in ("error_after", "lost_answer") else (*READS, *writes):
            with faults.of(Rule(fault, (kind,), times=1)):
                if kind in OF_INSERTS:
                    expected.append([len(expected), f"{fault} {kind}"])
                    engine.run(f"INSERT INTO w.t VALUES ({len(expected) - 1}, '{fault} {kind}')")
                else:
                    engine.run(f"UPDATE w.far SET b = '{fault} {kind}'")
                    assert engine.query("SELECT b FROM w.far").rows == [[f"{fault} {kind}"]]
                assert rows(engine) == expected
            assert [one.fault for one in faults.met] == [fault], kind
    assert uploads() == []


@pytest.mark.rule("R4")
@pytest.mark.rule("R5")
@pytest.mark.parametrize(
    ("fault", "kind", "name", "statement"),
    [
        ("slow_down", "COPY", "", UPDATE),
        ("lost_answer", "DELETE", "", UPDATE),
        # One of two files is there, and the other one as well, but nobody says so.
        ("lost_answer", "COMPLETE", "bucket_00001", INSERT),
    ],
)
def test_a_store_that_goes_on_failing_fails_the_statement_and_nothing_else(
    start_engine: Callable[..., Engine],
    client: MetastoreClient,
    files: AnyFilesystem,
    warehouse: str,
    conf: dict[str, str],
    faults: Faults,
    monkeypatch: pytest.MonkeyPatch,
    fault: str,
    kind: str,
    name: str,
    statement: str,
) -> None:
    """
    t1  A's statement is written; the store refuses, or does not answer, what publishing asks of it
    t2  A fails, and its txn is aborted
    t3  the store answers again: A's second try is applied once, the Cleaner leaves nothing of the first
    """
    if kind in ("COPY", "DELETE"):
        client.settings = client.settings.with_overrides(Source.REQUEST, {SETTING: "copy"})
    # Else it is a quarter of an hour until what was published by a txn that failed there may be removed.
    monkeypatch.setattr(fences, "COPIES_SETTLE_MS", 0)
    engine = start_engine(warehouse, {**conf, **FEW_TRIES})
    engine.run(TABLE)
    engine.run("INSERT INTO w.t VALUES (1, 'a')")
    once = Once((fault, kind))
    with faults.of(Rule(fault, (kind,), name=name)), pytest.raises(HiveAcidError):
        engine.run(statement, once=once)
    assert faults.met
    assert rows(engine) == [[1, "a"]]
    assert uploads() == []
    for _ in range(2):
        engine.run(statement, once=once)
    expected = [[1, "b"]] if statement == UPDATE else [[1, "a"], [2, "b"], [3, "b"]]
    assert rows(engine) == expected
    run_reaper(client, files)
    engine.run("ALTER TABLE w.t COMPACT 'major'")
    engine.run_compactions("w")
    assert rows(engine) == expected
    clean(client, files)
    assert uploads() == []
    assert [name[:4] for name in under_the_table(client, files)] == ["base"]
    assert client.show_locks() == []


@pytest.mark.rule("R17")
def test_cleaning_that_meets_failures_forgets_nothing(
    start_engine: Callable[..., Engine],
    client: MetastoreClient,
    files: AnyFilesystem,
    warehouse: str,
    conf: dict[str, str],
    faults: Faults,
) -> None:
    """The Cleaner says what failed, and its next pass goes on."""
    pauses = {"hive.compactor.cleaner.retry.retention.time": "1ms", "hive.compactor.cleaner.retry.maxattempts": "20"}
    client.settings = client.settings.with_overrides(Source.REQUEST, pauses)
    engine = start_engine(warehouse, conf)
    engine.run(
        TABLE + "; INSERT INTO w.t VALUES (1, 'a'); INSERT INTO w.t VALUES (2, 'b'); DELETE FROM w.t WHERE a = 1"
    )
    engine.run("ALTER TABLE w.t COMPACT 'major'")
    assert [outcome.kind for outcome in engine.run_compactions("w")] == [Kind.COMPACTED]
    assert rows(engine) == [[2, "b"]]
    for kind, fault in (("LIST", "slow_down"), ("DELETE", "cut")):
        outcomes = run_cleaner_when_due(client, files, faults, Rule(fault, (kind,)))
        assert faults.met, outcomes
        assert [outcome.kind for outcome in outcomes] != [Kind.CLEANED], (kind, fault)
        assert rows(engine) == [[2, "b"]]
    # The work is done, the answers are lost.
    with faults.of(Rule("lost_answer", ("DELETE",), times=3)):
        run_cleaner(client, files)
    clean(client, files)
    assert len(under_the_table(client, files)) == 1
    assert rows(engine) == [[2, "b"]]


STATEMENTS = (
    "INSERT INTO w.t SELECT id, concat('n', id) FROM range(0, 20, 1, 2)",
    "UPDATE w.t SET b = upper(b) WHERE a % 3 = 0",
    "DELETE FROM w.t WHERE a IN (4, 5)",
    "MERGE INTO w.t USING (SELECT 1 AS i UNION ALL SELECT 50) s ON t.a = s.i WHEN MATCHED THEN UPDATE SET b = 'merged' "
    "WHEN NOT MATCHED THEN INSERT VALUES (s.i, 'new')",
    "INSERT INTO w.t VALUES (60, 'last')",
)


def _expected() -> list[list[object]]:
    kept: dict[int, str] = {a: f"{'N' if a % 3 == 0 else 'n'}{a}" for a in range(20) if a not in (4, 5)}
    return [[a, b] for a, b in sorted({**kept, 1: "merged", 50: "new", 60: "last"}.items())]


@pytest.mark.rule("R5")
@pytest.mark.rule("R14")
@pytest.mark.parametrize(("accelerator", "seed"), [("auto", 1), ("off", 2)])
def test_statements_through_a_store_that_often_fails_are_applied_once(
    start_engine: Callable[..., Engine],
    client: MetastoreClient,
    files: AnyFilesystem,
    warehouse: str,
    conf: dict[str, str],
    faults: Faults,
    accelerator: str,
    seed: int,
) -> None:
    """Faults at random; what fails is tried again, as Airflow does. Compactions and cleaning in between."""
    engine = start_engine(warehouse, {**conf, **FEW_TRIES}, accelerator)
    engine.run(TABLE)
    everything = (*READS, *WRITES)
    rules = (
        Rule("slow_down", everything, rate=0.08),
        Rule("cut", everything, rate=0.03),
        Rule("error_after", WRITES, rate=0.08),
        Rule("lost_answer", WRITES, rate=0.05),
    )
    tries = 0
    with faults.of(*rules, seed=seed):
        for number, statement in enumerate(STATEMENTS):
            for _ in range(20):
                tries += 1
                try:
                    engine.run(statement, once=Once((str(number),)))
                    break
                except HiveAcidError:
                    continue
            else:
                raise AssertionError(f"never: {statement}")
            for work in (lambda: run_reaper(client, files), lambda: run_cleaner(client, files)):
                try:
                    work()
                except StorageUnavailableError:
                    continue
    assert faults.met
    assert rows(engine) == _expected(), tries
    engine.run("ALTER TABLE w.t COMPACT 'major'")
    with faults.of(*rules, seed=seed):
        engine.run_compactions("w")
    engine.run("ALTER TABLE w.t COMPACT 'major'")
    engine.run_compactions("w")
    assert rows(engine) == _expected()
    for _ in range(2):
        run_reaper(client, files)
        clean(client, files)
    assert [name[:4] for name in under_the_table(client, files)] == ["base"]
    assert uploads() == []
    assert rows(engine) == _expected()
