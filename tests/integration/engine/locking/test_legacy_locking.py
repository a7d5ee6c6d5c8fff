"""DummyTxnManager: the engine takes the Hive Concurrency Model's locks. Each test is one of the document's rules."""

import threading

import pytest
import sqlalchemy as sa

from airflow_hive_acid.engine import Engine
from airflow_hive_acid.engine.transactions.claims import Once
from airflow_hive_acid.errors import (
    HiveAcidError,
    JobFailedError,
    LocksDeniedForNowError,
    LockTimeoutError,
    MetastoreUnavailableError,
    UnsupportedStatementError,
)
from airflow_hive_acid.metastore.database.codes import AbortReason, LockState, LockType, Operation
from airflow_hive_acid.metastore.locks.interface import LockComponent, LockRequest
from airflow_hive_acid.metastore.locks.legacy.manager import LegacyLockManager
from airflow_hive_acid.metastore.protocol import Patience
from airflow_hive_acid.metastore.schema.hive_catalog import PARTITIONS, SDS
from airflow_hive_acid.metastore.schema.hive_transactions import HIVE_ACID_LEGACY_LOCK
from airflow_hive_acid.settings import Settings, Source
from tests.integration.engine.conftest import FakeSpark

S, X = "SHARED", "EXCLUSIVE"
DUMMY = "org.apache.hadoop.hive.ql.lockmgr.DummyTxnManager"


def dummy(**settings):
    """DummyTxnManager, and by default one try for each request."""
    given = {"lock.numretries": "0", "lock.sleep.between.retries": "50ms"} | settings
    return Settings({Source.REQUEST: {"hive.txn.manager": DUMMY} | {f"hive.{k}": v for k, v in given.items()}})


@pytest.fixture
def tables(engine):
    """The plain tables w.e, partitioned by k, with k=x and k=y; w.d, partitioned by k and l; and w.f."""
    plain = "STORED AS ORC TBLPROPERTIES ('transactional'='false')"
    engine.run(
        f"CREATE TABLE w.e (a INT) PARTITIONED BY (k STRING) {plain};"
        f"CREATE TABLE w.d (a INT) PARTITIONED BY (k STRING, l INT) {plain};"
        f"CREATE TABLE w.f (a INT) {plain};"
        "ALTER TABLE w.e ADD PARTITION (k='x') PARTITION (k='y')"
    )


@pytest.fixture
def first(client, fake, warehouse, tables):
    """A session with DummyTxnManager; its Spark is ``fake``."""
    with Engine(client, fake, warehouse, settings=dummy(), agent_info="first") as session:
        yield session


@pytest.fixture
def second(client, warehouse, tables):
    """Makes sessions beside the first."""
    opened = []

    def make(**settings):
        session = Engine(client, FakeSpark(), warehouse, settings=dummy(**settings), agent_info="second")
        opened.append(session)
        return session

    yield make
    for session in opened:
        session.close()


@pytest.fixture
def hold(client):
    """Holds ``"w.t/k=x"`` in S or X as another process would; returns the id."""
    manager = LegacyLockManager(client.database, dummy())

    def take(place, mode):
        name, _, partition = place.partition("/")
        database, _, table = name.partition(".")
        kind = LockType.EXCLUSIVE if mode == X else LockType.SHARED_READ
        component = LockComponent(database, table or None, partition or None, kind, Operation.NO_TXN)
        return manager.lock(LockRequest((component,), "ann", "host2")).lock_id

    take.manager = manager
    return take


def locks(session, what="SHOW LOCKS"):
    return [(r["tab_name"], r["mode"]) for r in session.run(what)[0].rows.to_dicts()]


def during(fake, session):
    """The locks held while a job of ``fake`` runs."""
    held = []
    fake.meanwhile = lambda spec: held.extend(locks(session))
    return held


def test_a_select_shares_the_table_and_each_partition_it_reads(first, second, fake):
    held = during(fake, second())
    first.run("SELECT * FROM w.e")
    assert held == [("w@e", S), ("w@e@k=x", S), ("w@e@k=y", S)]
    held.clear()
    first.run("SELECT * FROM w.e WHERE k = 'x'")
    assert held == [("w@e", S), ("w@e@k=x", S)]
    assert locks(first) == []


def test_an_insert_has_its_partition_to_itself_and_shares_the_parents(first, second, fake):
    held = during(fake, second())
    first.run("INSERT INTO w.e PARTITION (k='x') SELECT a FROM w.f")
    assert held == [("w@e", S), ("w@e@k=x", X), ("w@f", S)]
    held.clear()
    first.run("INSERT INTO w.f VALUES (1)")
    assert held == [("w@f", X)]


def test_dynamic_partitions_lock_the_prefix_that_is_known(first, second, fake):
    held = during(fake, second())
    fake.partitions = [("x", "1")]
    first.run("INSERT INTO w.d PARTITION (k='x', l) VALUES (1, 1)")
    assert held == [("w@d", S), ("w@d@k=x", X)]
    held.clear()
    first.run("INSERT INTO w.d PARTITION (k, l) VALUES (1, 'x', 1)")
    assert held == [("w@d", X)]


@pytest.mark.parametrize("key", ["transactional", "TRANSACTIONAL"])
def test_create_table_as_shares_what_it_reads_and_has_the_new_table_to_itself(first, second, fake, key):
    held = during(fake, second())
    first.run(f"CREATE TABLE w.n STORED AS ORC TBLPROPERTIES ('{key}'='false') AS SELECT a FROM w.f")  # noqa: S608
    # The query is asked for its columns first.
    assert held == [("w@f", S), ("w", S), ("w@f", S), ("w@n", X)]
    for session in (first, second()):
        shown = session.run("EXPLAIN LOCKS CREATE TABLE w.m STORED AS ORC AS SELECT a FROM w.f")[0].rows.rows
        assert [lock for lock, _ in shown[1:]] == ["w -> SHARED", "w.f -> SHARED", "w.m -> EXCLUSIVE"]


@pytest.mark.setting("hive.txn.manager")
def test_dropping_a_database_with_acid_tables_is_refused_as_the_tables_would_be(first, client, hold):
    """DROP TABLE w.t is refused; so is what would drop it among others, before anything is locked or dropped."""
    before = client.catalog.list_tables("w")
    with pytest.raises(UnsupportedStatementError, match=r"ACID table w\.[pt] with a non-ACID transaction manager"):
        first.run("DROP DATABASE w CASCADE")
    assert client.catalog.list_tables("w") == before
    assert hold.manager.show_locks() == []
    first.run("DROP DATABASE IF EXISTS nowhere CASCADE")


@pytest.mark.parametrize(
    ("statement", "place", "mode"),
    [
        ("ALTER TABLE w.e RENAME TO w.g", "w.e", X),
        ("ALTER TABLE w.f ADD COLUMNS (b INT)", "w.f", X),
        ("ALTER TABLE w.f REPLACE COLUMNS (a INT, b INT)", "w.f", X),
        ("ALTER TABLE w.f CHANGE a a BIGINT", "w.f", X),
        ("ALTER TABLE w.e ADD PARTITION (k='z')", "w.e/k=z", X),
        ("ALTER TABLE w.e DROP PARTITION (k='x')", "w.e/k=x", X),
        ("ALTER TABLE w.e TOUCH PARTITION (k='x')", "w.e/k=x", X),
        ("ALTER TABLE w.f SET TBLPROPERTIES ('a'='b')", "w.f", X),
        ("ALTER TABLE w.f SET SERDEPROPERTIES ('a'='b')", "w.f", S),
        ("TRUNCATE TABLE w.f", "w.f", X),
        ("DROP TABLE w.f", "w.f", X),
        ("DROP DATABASE w CASCADE", "w.f", X),
    ],
)
def test_ddl_waits_for_whom_the_model_says(first, hold, client, statement, place, mode):
    """S meets X alone; X meets both."""
    if statement.startswith("DROP DATABASE"):
        client.catalog.drop_table("w.t")
        client.catalog.drop_table("w.p")
    exclusive = hold(place, X)
    before = client.catalog.list_tables("w"), client.catalog.get_table("w.f")
    with pytest.raises(LockTimeoutError, match=f"lock {exclusive} on {place} is in the way"):
        first.run(statement)
    assert before == (client.catalog.list_tables("w"), client.catalog.get_table("w.f"))
    hold.manager.unlock(exclusive)
    shared = hold(place, S)
    if mode == X:
        with pytest.raises(LockTimeoutError, match=f"lock {shared} on {place} is in the way"):
            first.run(statement)
        hold.manager.unlock(shared)
    first.run(statement)
    assert [row.lock_id for row in hold.manager.show_locks()] == ([shared] if mode == S else [])


def test_ddl_of_a_partition_that_another_program_called_otherwise_locks_all_that_it_may_be(first, client):
    """``h=01``, as a Hive's MSCK REPAIR calls it: DROP PARTITION (h=1) locked ``h=1``, which nobody else locks."""
    first.run(
        "CREATE TABLE w.h (a INT) PARTITIONED BY (h INT) STORED AS ORC TBLPROPERTIES ('transactional'='false');"
        "ALTER TABLE w.h ADD PARTITION (h=1) PARTITION (h=2)"
    )
    with client.database.transaction() as connection:
        connection.execute(sa.update(PARTITIONS).where(PARTITIONS.c.PART_NAME == "h=1").values(PART_NAME="h=01"))
    for statement in ("TRUNCATE TABLE w.h PARTITION (h=1)", "ALTER TABLE w.h DROP PARTITION (h=1), PARTITION (h=2)"):
        [explained] = first.run(f"EXPLAIN LOCKS {statement}")
        assert ["w.h", "EXCLUSIVE"] in [str(row[0]).split(" -> ") for row in explained.rows.rows]


def test_a_partition_in_another_format_than_its_table_can_be_altered_and_dropped(first, client):
    """Its rows cannot be read here, and nothing of this reads them."""
    with client.database.transaction() as connection:
        theirs = SDS.c.SD_ID.in_(sa.select(PARTITIONS.c.SD_ID))
        connection.execute(sa.update(SDS).where(theirs).values(INPUT_FORMAT="org.apache.hadoop.mapred.TextInputFormat"))
    first.run("ALTER TABLE w.e TOUCH PARTITION (k='x'); ALTER TABLE w.e DROP PARTITION (k='x')")
    assert [part.name for part in client.catalog.list_partitions("w.e")] == ["k=y"]


def test_a_reader_of_all_partitions_meets_the_writer_of_one(first, hold):
    writer = hold("w.e/k=y", X)
    with pytest.raises(LockTimeoutError, match=f"lock {writer} on w.e/k=y is in the way"):
        first.run("SELECT * FROM w.e")
    first.run("SELECT * FROM w.e WHERE k = 'x'; INSERT INTO w.e PARTITION (k='x') VALUES (1)")


def test_a_writer_waits_until_the_one_before_has_ended(first, second, fake, states, monkeypatch):
    """
    t1  first takes X on w.f, and works
    t2           second is denied, and tries again; it has no txn
    t3  first ends
    t4           second is granted, and works
    """
    later, denied, ended = second(**{"lock.numretries": "2000"}), threading.Event(), []
    lock = LegacyLockManager.lock

    def noticed(manager, request):
        response = lock(manager, request)
        if response.state is LockState.NOT_ACQUIRED:
            denied.set()
        return response

    monkeypatch.setattr(LegacyLockManager, "lock", noticed)
    writer = threading.Thread(target=lambda: ended.append(later.run("INSERT INTO w.f VALUES (2)")[0].txn_id))

    def meanwhile(spec):
        writer.start()
        assert denied.wait(60)
        assert (len(states()), ended) == (1, [])

    fake.meanwhile = meanwhile
    (done,) = first.run("INSERT INTO w.f VALUES (1)")
    writer.join(60)
    assert states() == {done.txn_id: "COMMITTED", ended[0]: "COMMITTED"}
    assert done.txn_id < ended[0]
    assert locks(first) == []


def test_a_writer_gives_up_after_its_tries_and_leaves_nothing(first, second, fake, states):
    later = second(**{"lock.numretries": "2"})
    told = []

    def meanwhile(spec):
        with pytest.raises(LockTimeoutError, match=r"w.f could not be locked in 3 tries \(hive.lock.numretries\)") as e:
            later.run("INSERT INTO w.f VALUES (2)")
        told.append((str(e.value), len(states()), locks(later)))

    fake.meanwhile = meanwhile
    first.run("INSERT INTO w.f VALUES (1)")
    assert [rest for _, *rest in told] == [[1, [("w@f", X)]]]
    assert later.run("INSERT INTO w.f VALUES (2)")[0].txn_id


def test_locks_are_released_when_the_statement_fails(first, fake, states):
    fake.fail("JobFailedError", "no space left")
    with pytest.raises(JobFailedError):
        first.run("INSERT INTO w.f VALUES (1)")
    with pytest.raises(JobFailedError):
        first.run("SELECT * FROM w.f")
    assert locks(first) == []
    assert "OPEN" not in states().values()


def test_a_transaction_keeps_the_locks_of_all_its_statements_until_it_ends(first, second):
    other = second()
    with first.begin({"w.f": "insert", "w.e": "select"}) as txn:
        txn.execute("INSERT INTO w.f VALUES (1)")
        assert locks(other) == [("w@e", S), ("w@e@k=x", S), ("w@e@k=y", S), ("w@f", X)]
    assert locks(other) == []
    with first.begin(["INSERT INTO w.f VALUES (1)"]) as txn:
        assert locks(other) == [("w@f", X)]
        txn.abort()
        assert locks(other) == []


@pytest.mark.rule("R4")
def test_locks_of_a_dead_process_expire_when_its_txn_has_ended(first, second, fake, client, hold):
    """Not before: until then the reaper may undo what its jobs did, and nobody else may write there."""
    later, seen = second(), []

    def die(spec):
        with client.database.transaction() as connection:
            connection.execute(sa.update(HIVE_ACID_LEGACY_LOCK).values(HLL_HEARTBEAT=1))
        with pytest.raises(LockTimeoutError):
            later.run("INSERT INTO w.f VALUES (2)")
        (txn_id,) = {row.txn_id for row in hold.manager.show_locks()}
        client.abort_txn(txn_id, AbortReason.TIMEOUT)
        seen.append(later.run("SELECT * FROM w.f")[0].txn_id)

    fake.meanwhile = die
    with pytest.raises(HiveAcidError):
        first.run("INSERT INTO w.f VALUES (1)")
    assert len(seen) == 1
    assert locks(later) == []


def test_a_release_is_tried_again(hold, monkeypatch):
    lock_id, tries, pauses = hold("w.f", X), [], []
    unlock = hold.manager.unlock

    def failing(wanted):
        tries.append(wanted)
        if len(tries) < 3:
            raise MetastoreUnavailableError("gone for a moment")
        unlock(wanted)

    monkeypatch.setattr(hold.manager, "unlock", failing)
    hold.manager.release(lock_id, pauses.append)
    assert (tries, len(pauses), hold.manager.show_locks()) == ([lock_id] * 3, 2, [])


def test_a_release_is_given_up_after_its_tries(client, monkeypatch):
    manager, tries = LegacyLockManager(client.database, dummy(**{"unlock.numretries": "4"})), []

    def failing(wanted):
        tries.append(wanted)
        raise MetastoreUnavailableError("gone for good")

    monkeypatch.setattr(manager, "unlock", failing)
    with pytest.raises(MetastoreUnavailableError):
        manager.release(7, lambda seconds: None)
    assert tries == [7] * 5


def test_without_concurrency_nothing_is_locked(client, fake, warehouse, tables, hold):
    hold("w.f", X)
    hold("w.e/k=x", X)
    with Engine(client, fake, warehouse, settings=dummy(**{"support.concurrency": "false"})) as session:
        held = during(fake, session)
        session.run("INSERT INTO w.f VALUES (1); SELECT * FROM w.e; ALTER TABLE w.f SET TBLPROPERTIES ('a'='b')")
    assert set(held) == {("w@f", X), ("w@e", S), ("w@e@k=x", X)}


def test_show_locks_prints_hives_columns_for_this_manager(first, second, fake):
    shown = []
    other = second()
    fake.meanwhile = lambda spec: shown.extend(
        other.run("SHOW LOCKS w.e; SHOW LOCKS w.e PARTITION (k='x') EXTENDED; SHOW LOCKS w.f")
    )
    first.run("INSERT INTO w.e PARTITION (k='x') VALUES (1)")
    short, extended, none = (result.rows for result in shown)
    assert [c.name for c in short.columns] == ["tab_name", "mode"]
    assert short.rows == [["w@e", S], ["w@e@k=x", X]]
    assert none.rows == []
    (row,) = extended.to_dicts()
    assert len(row.pop("lock_queryid")) == 36
    assert int(row.pop("lock_time")) > 1_700_000_000_000
    assert row == {
        "tab_name": "w@e@k=x", "mode": X, "lock_mode": "IMPLICIT",
        "lock_querystring": "INSERT INTO w.e PARTITION (k='x') VALUES (1)",
    }  # fmt: skip


def test_explain_locks_prints_what_is_taken(first):
    def explained(sql):
        return [line for line, _ in first.run(f"EXPLAIN LOCKS {sql}")[0].rows.rows[1:]]

    assert explained("INSERT INTO w.d PARTITION (k='x', l) VALUES (1, 1)") == [
        "w.d -> SHARED", "w.d/k=x -> EXCLUSIVE"
    ]  # fmt: skip
    assert "w.e/k=y -> SHARED" in [line.strip() for line in explained("SELECT * FROM w.e")]


def test_a_write_that_is_denied_is_not_waited_for_here_longer_than_the_patience(client, warehouse, tables, hold):
    """An operator hands the pause to the triggerer: nothing is held in it, and the tries count on."""
    blocking = hold("w.f", X)
    settings = dummy(**{"lock.numretries": "3", "lock.sleep.between.retries": "1h"})
    with Engine(client, FakeSpark(), warehouse, settings=settings, agent_info="patient") as session:
        for tried in range(3):
            with pytest.raises(
                LocksDeniedForNowError, match=r"lock \d+ on w\.f is in the way; trying again in 3600 s"
            ) as d:
                session.run("INSERT INTO w.f VALUES (1)", patience=Patience(5, tried=tried))
            assert (d.value.tried, d.value.pause) == (tried + 1, 3600)
        with pytest.raises(LockTimeoutError, match="could not be locked in 4 tries"):
            session.run("INSERT INTO w.f VALUES (1)", patience=Patience(5, tried=3))
        LegacyLockManager(client.database, dummy()).unlock(blocking)
        assert session.run("INSERT INTO w.f VALUES (1)", patience=Patience(5, tried=3))[0].inserted == 1


@pytest.mark.parametrize(
    ("place", "statement"),
    [
        ("w.f", "SELECT * FROM w.f"),
        ("w.f", "INSERT OVERWRITE DIRECTORY '{out}' STORED AS ORC SELECT * FROM w.f"),
        ("w.f", "CREATE TABLE w.made TBLPROPERTIES ('transactional'='false') AS SELECT * FROM w.f"),
        ("w.f", "CREATE VIEW w.seen AS SELECT a FROM w.f"),
        ("w.f", "TRUNCATE TABLE w.f"),
        ("w.f", "ALTER TABLE w.f ADD COLUMNS (b INT)"),
        ("w.f", "ALTER TABLE w.f RENAME TO w.g"),
        ("w.f", "DROP TABLE w.f"),
        ("v.h", "DROP DATABASE v CASCADE"),
        ("w.e", "ALTER TABLE w.e ADD PARTITION (k='z')"),
        ("w.e/k=x", "ALTER TABLE w.e DROP PARTITION (k='x')"),
    ],
)  # fmt: skip
def test_a_query_or_ddl_that_is_denied_is_left_to_the_triggerer_and_then_done_once(
    client, engine, warehouse, tables, hold, tmp_path, place, statement
):
    """As a write: nothing is held in the pause, nothing of it is left, and the same script goes on later."""
    engine.run("CREATE DATABASE v; CREATE TABLE v.h (a INT) STORED AS ORC TBLPROPERTIES ('transactional'='false')")
    text = statement.format(out=tmp_path / "out" / "f")
    blocking, once = hold(place, X), Once(("run", "task"), life="0")
    settings = dummy(**{"lock.numretries": "3", "lock.sleep.between.retries": "1h"})
    before = client.catalog.list_tables("w")
    with Engine(client, FakeSpark(), warehouse, settings=settings, agent_info="patient") as session:
        with pytest.raises(LocksDeniedForNowError, match="trying again in 3600 s") as denied:
            session.run(text, once=once, patience=Patience(5))
        assert (denied.value.tried, denied.value.pause) == (1, 3600)
        assert {row.lock_id for row in hold.manager.show_locks()} == {blocking}
        assert client.catalog.list_tables("w") == before
        with pytest.raises(LockTimeoutError, match="could not be locked in 4 tries"):
            session.run(text, once=once, patience=Patience(5, tried=3, of=denied.value.of))
        hold.manager.unlock(blocking)
        waiting = Patience(5, tried=3, of=denied.value.of)
        assert len(session.run(text, once=once, patience=waiting)) == 1
    assert hold.manager.show_locks() == []


def test_the_tries_of_one_statement_are_not_those_of_the_next(client, warehouse, tables, hold):
    """The first statement has waited three times; the second has all its tries before it."""
    hold("w.e", X)
    settings = dummy(**{"lock.numretries": "3", "lock.sleep.between.retries": "1h"})
    script = "SELECT * FROM w.f; SELECT * FROM w.e"
    with Engine(client, FakeSpark(), warehouse, settings=settings, agent_info="patient") as session:
        with pytest.raises(LocksDeniedForNowError, match=r"w\.e is in the way") as denied:
            session.run(script, patience=Patience(5, tried=3, of="of the first"))
        assert denied.value.tried == 1
        with pytest.raises(LocksDeniedForNowError) as again:
            session.run(script, patience=Patience(5, tried=denied.value.tried, of=denied.value.of))
        assert again.value.tried == 2
