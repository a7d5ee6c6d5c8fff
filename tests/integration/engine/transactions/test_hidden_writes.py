"""Rows that are committed and that nobody could see: their place was dropped or emptied after their txn had begun."""

import pytest
import sqlalchemy as sa

from airflow_hive_acid.engine import Engine
from airflow_hive_acid.engine.transactions import transaction as transactions
from airflow_hive_acid.errors import WriteConflictError
from airflow_hive_acid.metastore.catalog.rows.drop import delete_storage
from airflow_hive_acid.metastore.catalog.rows.partitions import delete_partitions
from airflow_hive_acid.metastore.schema.hive_catalog import PARTITIONS
from airflow_hive_acid.settings import Settings, Source


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


SHARED = Settings({Source.REQUEST: {"hive.txn.xlock.write": "true"}})


def meanwhile(client, monkeypatch, act):
    """Do something when a statement has its locks and its write id, and its job is not on record yet."""
    start = client.jobs.start

    def late(*given, **named):
        monkeypatch.setattr(client.jobs, "start", start)
        act()
        return start(*given, **named)

    monkeypatch.setattr(client.jobs, "start", late)


@pytest.mark.rule("R3")
@pytest.mark.parametrize(
    ("statement", "emptied"),
    [
        ("INSERT INTO w.t VALUES (1, 'x')", "TRUNCATE TABLE w.t"),
        ("INSERT INTO w.t VALUES (1, 'x')", "SET hive.txn.xlock.iow=false; INSERT OVERWRITE TABLE w.t VALUES (2, 'y')"),
        ("INSERT INTO w.p PARTITION (k='a') VALUES (1)", "TRUNCATE TABLE w.p PARTITION (k='a')"),
        ("INSERT INTO w.p SELECT a, b FROM w.t", "TRUNCATE TABLE w.p"),
        ("INSERT INTO w.m VALUES (1)", "TRUNCATE TABLE w.m"),
    ],
)
def test_what_is_written_behind_what_has_emptied_a_table_meanwhile_is_refused(
    engine, client, fake, warehouse, states, monkeypatch, statement, emptied
):
    """
    t1  A begins to insert, with SHARED_READ as hive.txn.xlock.write says
    t2  B empties the table: its base has the higher write id, and is committed
    t3  A's job writes, and A commits: nobody could see its rows
    """
    fake.partitions = [("a",)]
    engine.run(
        "ALTER TABLE w.p ADD PARTITION (k='a'); CREATE TABLE w.m (a INT) STORED AS PARQUET "
        "TBLPROPERTIES ('transactional'='true', 'transactional_properties'='insert_only')"
    )
    with Engine(client, fake, warehouse, settings=SHARED) as other:
        meanwhile(client, monkeypatch, lambda: other.run(emptied))
        with pytest.raises(WriteConflictError, match="was overwritten or emptied after this txn had begun"):
            other.run(statement)
        assert sorted(states().values()).count("ABORTED") == 1
        assert other.run(statement)[0].inserted


@pytest.mark.rule("R3")
def test_what_was_to_be_emptied_and_was_not_hides_nothing(engine, client, fake, warehouse, monkeypatch):
    def give_up():
        txn = engine.begin({"w.t": "overwrite"})
        txn.execute("TRUNCATE TABLE w.t")
        txn.abort()

    meanwhile(client, monkeypatch, give_up)
    with Engine(client, fake, warehouse, settings=SHARED) as other:
        assert other.run("INSERT INTO w.t VALUES (1, 'x')")[0].inserted


@pytest.mark.every_database
@pytest.mark.rule("R3")
def test_a_partition_that_a_program_without_locks_has_dropped_is_missed(engine, client, fake, monkeypatch):
    """Its rows would be in no partition of the catalog."""
    engine.run("ALTER TABLE w.p ADD PARTITION (k='a')")

    def drop():
        with client.database.transaction() as connection:
            ids = connection.execute(
                sa.select(PARTITIONS.c.PART_ID).where(PARTITIONS.c.PART_NAME == "k=a")
            ).scalars().all()  # fmt: skip
            delete_storage(connection, delete_partitions(connection, list(ids)))

    publish = transactions.publish

    def late(*given, **named):
        publish(*given, **named)
        drop()

    monkeypatch.setattr(transactions, "publish", late)
    with pytest.raises(WriteConflictError, match=r"partition k=a of w\.p was dropped after this txn had begun"):
        engine.run("INSERT INTO w.p PARTITION (k='a') VALUES (1)")
    monkeypatch.setattr(transactions, "publish", publish)
    assert engine.run("INSERT INTO w.p PARTITION (k='a') VALUES (1)")[0].inserted
    assert [p.name for p in client.catalog.list_partitions("w.p")] == ["k=a"]
