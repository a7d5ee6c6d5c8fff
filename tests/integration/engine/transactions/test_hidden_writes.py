"""Rows that are committed and that nobody could see: their partition was dropped after their txn had begun."""

import pytest

from airflow_hive_acid.engine import Engine
from airflow_hive_acid.errors import WriteConflictError
from airflow_hive_acid.settings import Settings, Source

pytestmark = pytest.mark.every_database


@pytest.mark.rule("R3")
@pytest.mark.parametrize(
    "statement", ["INSERT INTO w.p PARTITION (k='a') VALUES (1)", "INSERT INTO w.p SELECT a, b FROM w.t"]
)
@pytest.mark.parametrize("again", [False, True], ids=["gone", "added again"])
def test_what_is_written_into_a_partition_that_was_dropped_meanwhile_is_refused(
    engine, client, fake, warehouse, states, monkeypatch, statement, again
):
    """
    t1  A begins to insert into k=a, with SHARED_READ as hive.txn.xlock.write says
    t2  B drops k=a: its base without rows has the higher write id; perhaps the partition is added again
    t3  A's job writes, and A commits: nobody could see its rows
    """
    fake.partitions = [("a",)]
    engine.run("ALTER TABLE w.p ADD PARTITION (k='a')")
    start = client.jobs.start

    def late(*given, **named):
        monkeypatch.setattr(client.jobs, "start", start)
        engine.run("ALTER TABLE w.p DROP PARTITION (k='a')")
        if again:
            engine.run("ALTER TABLE w.p ADD PARTITION (k='a')")
        return start(*given, **named)

    monkeypatch.setattr(client.jobs, "start", late)
    settings = Settings({Source.REQUEST: {"hive.txn.xlock.write": "true"}})
    with Engine(client, fake, warehouse, settings=settings) as other:
        with pytest.raises(WriteConflictError, match=r"partition k=a of w\.p was dropped after this txn had begun"):
            other.run(statement)
        assert sorted(states().values()).count("ABORTED") == 1
        assert other.run(statement)[0].inserted
