"""Statements that lock in a real ZooKeeper: each row of the document's table, and what a lost session means."""

from pathlib import Path

import pytest

from airflow_hive_acid.engine import Engine
from airflow_hive_acid.engine.statements import definitions
from airflow_hive_acid.errors import LockTimeoutError, TxnAbortedError
from airflow_hive_acid.metastore.database.codes import AbortReason
from airflow_hive_acid.metastore.locks.legacy.zookeeper import ZooKeeperLockManager
from tests.integration.engine.conftest import FakeSpark

R, W = "read-", "write-"
PLAIN = "STORED AS ORC TBLPROPERTIES ('transactional'='false')"


@pytest.fixture
def first(engine, client, fake, warehouse, settings_of):
    """A session that locks in ZooKeeper. t1 has the partitions k=1 and k=2, t2 is partitioned by p, t3 by p and q."""
    engine.run(
        f"CREATE TABLE w.t1 (a INT) PARTITIONED BY (k INT) {PLAIN}; CREATE TABLE w.t2 (a INT) PARTITIONED BY (p INT) "
        f"{PLAIN}; CREATE TABLE w.t3 (a INT) PARTITIONED BY (p INT, q INT) {PLAIN}; CREATE TABLE w.u (a INT) {PLAIN};"
        "ALTER TABLE w.t1 ADD PARTITION (k=1) PARTITION (k=2)"
    )
    with Engine(client, fake, warehouse, settings=settings_of(), agent_info="first") as session:
        yield session


@pytest.fixture
def second(client, first, warehouse, settings_of):
    """A session beside it, with a Spark of its own."""
    with Engine(client, FakeSpark(), warehouse, settings=settings_of(), agent_info="second") as session:
        yield session


@pytest.fixture
def during(first, fake, nodes, monkeypatch):
    """The nodes while a statement does its work, by object; ``txn-`` nodes left out."""
    seen = []

    def look(*_):
        seen.append({path: [n for n in names if n in (R, W)] for path, names in nodes().items()})

    def watched(run):
        def look_and_run(context, statement, **options):
            look()
            return run(context, statement, **options)

        return look_and_run

    fake.meanwhile = look
    for name in ("run_alter", "run_ddl"):
        monkeypatch.setattr(definitions, name, watched(getattr(definitions, name)))

    def of(statement):
        seen.clear()
        first.run(statement)
        assert nodes() == {}
        return seen[0]

    return of


@pytest.mark.parametrize(
    ("statement", "locked"),
    [
        ("SELECT * FROM w.t1 WHERE k = 1", {"t1": [R], "t1/k=1": [R]}),
        (
            "INSERT INTO w.t2 PARTITION (p=5) SELECT a FROM w.t1 WHERE k = 1",
            {"t1": [R], "t1/k=1": [R], "t2": [R], "t2/p=5": [W]},
        ),
        (
            "INSERT INTO w.t3 PARTITION (p=5, q=6) SELECT a FROM w.t1 WHERE k = 1",
            {"t1": [R], "t1/k=1": [R], "t3": [R], "t3/p=5": [R], "t3/p=5/q=6": [W]},
        ),
        ("ALTER TABLE w.t1 RENAME TO w.t9", {"t1": [W]}),
        ("ALTER TABLE w.t1 ADD COLUMNS (b INT)", {"t1": [W]}),
        ("ALTER TABLE w.t1 REPLACE COLUMNS (a INT, b INT)", {"t1": [W]}),
        ("ALTER TABLE w.t1 CHANGE a a BIGINT", {"t1": [W]}),
        ("ALTER TABLE w.u CONCATENATE", {"u": [W]}),
        ("ALTER TABLE w.t1 ADD PARTITION (k=3)", {"t1": [R], "t1/k=3": [W]}),
        ("ALTER TABLE w.t1 DROP PARTITION (k=1)", {"t1": [R], "t1/k=1": [W]}),
        ("ALTER TABLE w.t1 TOUCH PARTITION (k=1)", {"t1": [R], "t1/k=1": [W]}),
        ("ALTER TABLE w.t1 SET SERDEPROPERTIES ('a'='b')", {"t1": [R]}),
        ("ALTER TABLE w.t1 SET SERDE 'org.apache.hadoop.hive.ql.io.orc.OrcSerde'", {"t1": [R]}),
        ("ALTER TABLE w.t1 SET FILEFORMAT ORC", {"t1": [R]}),
        ("ALTER TABLE w.t1 SET TBLPROPERTIES ('a'='b')", {"t1": [W]}),
        ("ALTER TABLE w.t1 PARTITION (k=1) CONCATENATE", {"t1": [R], "t1/k=1": [W]}),
        ("DROP TABLE w.t1", {"t1": [W]}),
    ],
)
def test_each_row_of_the_documents_table_is_these_nodes(during, statement, locked):
    assert during(statement) == {f"/w/{place}": kinds for place, kinds in locked.items()}


def test_two_sessions_exclude_each_other_and_see_each_others_locks(first, second, fake, nodes):
    told = []

    def meanwhile(spec):
        with pytest.raises(LockTimeoutError, match=r"lock \d+ on w.u is in the way"):
            second.run("INSERT INTO w.u VALUES (2)")
        told.extend(second.run("SHOW LOCKS w.u EXTENDED")[0].rows.to_dicts())
        assert second.run("SELECT * FROM w.t1 WHERE k = 2")[0].txn_id

    fake.meanwhile = meanwhile
    first.run("INSERT INTO w.u VALUES (1)")
    (row,) = told
    assert len(row.pop("lock_queryid")) == 36
    assert int(row.pop("lock_time")) > 1_700_000_000_000
    assert row == {
        "tab_name": "w@u", "mode": "EXCLUSIVE", "lock_mode": "IMPLICIT",
        "lock_querystring": "INSERT INTO w.u VALUES (1)",
    }  # fmt: skip
    assert nodes() == {}
    fake.meanwhile = None
    assert second.run("INSERT INTO w.u VALUES (3)")[0].txn_id


@pytest.fixture
def lose(monkeypatch, end_session):
    """Ends the session that holds the locks of the statement that runs; nobody is told."""
    managers = []
    lock = ZooKeeperLockManager.lock

    def remembered(manager, request):
        managers.append(manager)
        return lock(manager, request)

    monkeypatch.setattr(ZooKeeperLockManager, "lock", remembered)
    return lambda: end_session(managers[0])


@pytest.mark.rule("R4")
def test_a_writer_that_lost_its_session_publishes_nothing(first, second, fake, lose, client, nodes, states):
    """
    t1  first writes w.u from w.t1
    t2  its session ends
    t3           second locks w.t1, which first has read, and is kept from w.u while first's txn is open
    t4  first's job is done: the statement is refused, its txn aborted
    t5           second writes w.u
    """
    refused = []

    def meanwhile(spec):
        lose()
        second.run("ALTER TABLE w.t1 TOUCH PARTITION (k=1)")
        with pytest.raises(LockTimeoutError, match=r"the open txn \d+ on w.u is in the way") as denied:
            second.run("INSERT INTO w.u VALUES (2)")
        refused.append(str(denied.value))

    fake.meanwhile = meanwhile
    with pytest.raises(TxnAbortedError, match="the locks of this statement were lost while it ran"):
        first.run("INSERT INTO w.u SELECT a FROM w.t1 WHERE k = 1")
    assert len(refused) == 1
    assert "OPEN" not in states().values()
    location = client.catalog.get_table("w.u").location
    assert list(Path(location.removeprefix("file://")).glob("[!._]*")) == []
    assert second.run("INSERT INTO w.u VALUES (2)")[0].txn_id
    assert nodes() == {}


def test_a_reader_that_lost_its_session_gives_no_answer(first, fake, lose):
    fake.meanwhile = lambda spec: lose()
    with pytest.raises(TxnAbortedError, match="run it again"):
        first.run("SELECT * FROM w.u")


@pytest.mark.rule("R4")
def test_a_writer_that_was_reaped_without_session_frees_its_table(first, second, fake, lose, client):
    def meanwhile(spec):
        lose()
        (mine,) = [row.txn_id for row in client.show_transactions() if row.agent_info == "first"]
        client.abort_txn(mine, AbortReason.TIMEOUT)
        assert second.run("INSERT INTO w.u VALUES (2)")[0].txn_id

    fake.meanwhile = meanwhile
    with pytest.raises(TxnAbortedError):
        first.run("INSERT INTO w.u VALUES (1)")
