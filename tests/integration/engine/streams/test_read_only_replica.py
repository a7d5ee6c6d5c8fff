"""The engine refuses to write where a replication does, and says what to do instead."""

from __future__ import annotations

import pytest

from airflow_hive_acid.engine.streams.service import StreamService
from airflow_hive_acid.errors import ReadOnlyReplicaError
from airflow_hive_acid.format.streams import StreamOptions, open_question
from airflow_hive_acid.metastore.replica.records import mark_target, unmark_target

WRITES = [
    "INSERT INTO w.t VALUES (1, 'a')",
    "INSERT OVERWRITE TABLE w.t SELECT 1, 'a'",
    "UPDATE w.t SET b = 'x' WHERE a = 1",
    "DELETE FROM w.t",
    "TRUNCATE TABLE w.t",
    "CREATE TABLE w.n (a INT)",
    "CREATE TABLE w.n AS SELECT 1 AS a",
    "DROP TABLE w.t",
    "ALTER TABLE w.p ADD PARTITION (k='x')",
    "ALTER TABLE w.t SET TBLPROPERTIES ('k'='v')",
    "ALTER TABLE d.moved RENAME TO w.moved",
    "DROP DATABASE w CASCADE",
]


@pytest.fixture
def guarded(engine, client):
    """The database w is the target of a policy, d of none."""
    engine.run("CREATE DATABASE d; CREATE TABLE d.moved (a INT) TBLPROPERTIES ('transactional'='true')")
    client.database.run(lambda connection: mark_target(connection, "w", "nightly"))
    return engine


@pytest.mark.backends("sqlite")
def test_writes_and_ddl_are_refused_with_the_remedy(guarded, client, states):
    """No txn is left behind by any of them, and after a fail-over they are allowed."""
    before = states()
    for statement in WRITES:
        with pytest.raises(ReadOnlyReplicaError, match=r"policy nightly.*Write at the primary.*failover nightly"):
            guarded.run(statement)
    assert {t: s for t, s in states().items() if s == "OPEN"} == {t: s for t, s in before.items() if s == "OPEN"}
    with pytest.raises(ReadOnlyReplicaError):
        guarded.begin({"w.t": "insert"})
    client.database.run(lambda connection: unmark_target(connection, "w", "nightly"))
    guarded.run("INSERT INTO w.t VALUES (1, 'a')")


class Asked:
    """A streaming application that opens its stream and hears the answer."""

    def __init__(self, question):
        self.question, self.answers = question, []

    def next(self):
        return self.question

    def answer(self, document):
        self.answers.append(document)


@pytest.mark.backends("sqlite")
@pytest.mark.parametrize("mode", ["append", "upsert"])
def test_a_stream_is_refused_when_it_opens(guarded, client, mode):
    """Before its first micro-batch, and nothing of it is recorded."""
    keys = ("a",) if mode == "upsert" else ()
    channel = Asked(open_question(StreamOptions("tills", "w.t", "s3://checkpoint", mode=mode, keys=keys)))
    service = StreamService(client, channel, client.settings, "a test")
    service.serve()
    assert isinstance(service.problem, ReadOnlyReplicaError)
    (answer,) = channel.answers
    assert "Write at the primary" in str(answer)
    assert client.streams.all() == []


@pytest.mark.backends("sqlite")
def test_reading_compacting_and_writing_elsewhere_stay_allowed(guarded, client):
    guarded.run("SELECT * FROM w.t")
    guarded.run("ALTER TABLE w.t COMPACT 'major'")
    guarded.run("INSERT INTO d.moved SELECT a FROM w.t")
    guarded.run("SHOW COMPACTIONS")
    assert [c.resource.table for c in client.compactions.show()] == ["t"]
