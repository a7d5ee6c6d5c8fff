"""What jobs tell of their reads: for tables whose Initiator weighs them, and for no others."""

import pytest

from airflow_hive_acid.engine.tables import read_counts
from airflow_hive_acid.errors import MetastoreUnavailableError
from airflow_hive_acid.metastore.compaction import Resource

POLICY = "'compactorthreshold.hive.acid.initiator.policy' = 'benefit'"


@pytest.fixture
def counted(engine, client):
    """Has the tables weighed, and tells how often they and partitions were read."""
    for table in ("w.t", "w.p"):
        engine.run(f"ALTER TABLE {table} SET TBLPROPERTIES ({POLICY})")

    def of(table, partition=None):
        resource = Resource("w", table, partition)
        _, found = client.reads.find([resource])
        return found[resource].reads if resource in found else 0

    return of


def partitions(client, *days):
    client.catalog.add_partitions("w.p", [f"k={day}" for day in days])


@pytest.mark.setting("hive.acid.initiator.policy")
def test_without_the_policy_no_read_is_counted_and_no_statement_is_sent(engine, client, monkeypatch):
    asked = []
    monkeypatch.setattr(client.database, "run", _watching(client.database.run, asked))
    engine.query("SELECT a FROM w.t")
    engine.run("DELETE FROM w.t WHERE a = 1")
    assert not [name for name in asked if "ReadCounts" in name]


def _watching(run, asked):
    def watched(operation, *args, **options):
        asked.append(operation.__qualname__)
        return run(operation, *args, **options)

    return watched


@pytest.mark.parametrize(
    ("statement", "times"),
    [
        ("SELECT a FROM w.t", 1),
        ("SELECT x.a FROM w.t x JOIN w.t y ON x.a = y.a", 1),
        ("INSERT INTO w.t VALUES (1, 'a')", 0),
        ("INSERT INTO w.t SELECT a, b FROM w.t", 1),
        ("UPDATE w.t SET b = 'x' WHERE a = 1", 1),
        ("DELETE FROM w.t WHERE a = 1", 1),
        ("MERGE INTO w.t USING (SELECT 1 AS a) s ON w.t.a = s.a WHEN MATCHED THEN DELETE", 1),
        ("BEGIN; DELETE FROM w.t WHERE a = 1; UPDATE w.t SET b = 'y' WHERE a = 2; COMMIT", 2),
    ],
)
def test_each_job_that_reads_a_table_counts_once(engine, counted, statement, times):
    engine.run(statement)
    assert counted("t") == times


def test_a_job_counts_the_partitions_that_it_reads_and_all_of_them_as_the_table(
    engine, client, fake, counted, monkeypatch
):
    partitions(client, "1", "2", "3")
    fake.partitions = []
    engine.query("SELECT a FROM w.p WHERE k IN ('1', '2')")
    engine.query("SELECT a FROM w.p WHERE k = '1'")
    assert [counted("p", f"k={k}") for k in "123"] == [2, 1, 0]
    engine.query("SELECT a FROM w.p")
    assert [counted("p", f"k={k}") for k in "123"] == [3, 2, 1]
    monkeypatch.setattr(read_counts, "MOST_PARTITIONS", 1)
    engine.query("SELECT a FROM w.p WHERE k IN ('1', '2')")
    assert [counted("p", f"k={k}") for k in "123"] == [4, 3, 2]


def test_what_fails_reads_nothing(engine, fake, counted):
    fake.fail("JobFailedError", "no memory")
    with pytest.raises(Exception, match="no memory"):
        engine.query("SELECT a FROM w.t")
    assert counted("t") == 0


def test_a_count_that_cannot_be_noted_fails_no_statement(engine, client, counted, monkeypatch, caplog):
    def unavailable(_read):
        raise MetastoreUnavailableError("nobody answers")

    monkeypatch.setattr(client.reads, "add", unavailable)
    engine.query("SELECT a FROM w.t")
    assert "reads of w.t were not counted: nobody answers" in caplog.text
    monkeypatch.undo()
    assert counted("t") == 0
