"""EXPLAIN LOCKS tells the truth: each statement is explained, then run, and asks for just those locks."""

import pytest

from airflow_hive_acid.engine import Engine
from airflow_hive_acid.metastore.protocol import begin
from airflow_hive_acid.settings import Settings, Source

STATEMENTS = [
    "INSERT INTO w.t VALUES (1, 'a')",
    "INSERT OVERWRITE w.t SELECT a, k FROM w.p",
    "INSERT INTO w.p PARTITION (k='x') SELECT a FROM w.t",
    "INSERT INTO w.p PARTITION (k) SELECT a, b FROM w.t",
    "UPDATE w.p SET a = 1 WHERE k = 'x'",
    "DELETE FROM w.p WHERE a IN (SELECT a FROM w.p WHERE k = 'y')",
    "MERGE INTO w.t USING w.p p ON t.a = p.a WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT VALUES (p.a, p.k)",
    "MERGE INTO w.t USING w.p p ON t.a = p.a WHEN NOT MATCHED THEN INSERT VALUES (p.a, p.k)",
    "SELECT * FROM w.p WHERE k >= 'y'",
    "SELECT * FROM w.p JOIN w.e ON p.a = e.a",
    "INSERT INTO w.e SELECT a FROM w.t",
    "INSERT OVERWRITE w.e VALUES (1)",
    "FROM w.p INSERT INTO w.t SELECT a, k INSERT INTO w.e SELECT a WHERE k = 'x'",
    "TRUNCATE TABLE w.t",
    "TRUNCATE TABLE w.p PARTITION (k='x')",
    "CREATE TABLE w.n (a INT) STORED AS ORC",
    "DROP TABLE w.t",
    "DROP TABLE w.e",
    "DROP DATABASE w CASCADE",
    "ALTER TABLE w.t RENAME TO w.u",
    "ALTER TABLE w.t ADD COLUMNS (c INT)",
    "ALTER TABLE w.t REPLACE COLUMNS (x INT, y STRING)",
    "ALTER TABLE w.t CHANGE a x BIGINT",
    "ALTER TABLE w.t SET TBLPROPERTIES ('x'='y')",
    "ALTER TABLE w.t UNSET TBLPROPERTIES IF EXISTS ('x')",
    "ALTER TABLE w.e SET SERDEPROPERTIES ('x'='y')",
    "ALTER TABLE w.e SET FILEFORMAT PARQUET",
    "ALTER TABLE w.p ADD PARTITION (k='new')",
    "ALTER TABLE w.p ADD IF NOT EXISTS PARTITION (k='new')",
    "ALTER TABLE w.p DROP PARTITION (k='x')",
    "ALTER TABLE w.p PARTITION (k='x') RENAME TO PARTITION (k='b')",
    "ALTER TABLE w.p PARTITION (k='x') SET TBLPROPERTIES ('x'='y')",
    "ALTER TABLE w.p TOUCH PARTITION (k='x')",
    "ALTER TABLE w.t TOUCH",
    "ALTER TABLE w.t COMPACT 'major'",
]
SETTINGS = [
    {},
    {"hive.txn.xlock.write": "true"},
    {"hive.txn.strict.locking.mode": "false", "hive.txn.xlock.mergeinsert": "false"},
    {"hive.acid.lockless.reads.enabled": "true"},
    {"hive.txn.ext.locking.enabled": "false", "hive.txn.read.locks": "false"},
    {"hive.locks.max.partitions": "1", "hive.query.exclusive.lock": "nightly"},
]


@pytest.fixture
def asked(client, monkeypatch):
    """All lock requests: those by the verb, and those that come with all else that a txn begins with."""
    requests = []
    real, real_at_once = client.lock, begin.begin_at_once

    def lock(components, **rest):
        requests.append(list(components))
        return real(components, **rest)

    def at_once(client, txn_id, uses, components, agent_info):
        done = real_at_once(client, txn_id, uses, components, agent_info)
        if done is not None:
            requests.append(list(components))
        return done

    monkeypatch.setattr(client, "lock", lock)
    monkeypatch.setattr(begin, "begin_at_once", at_once)
    return requests


def shown(requests):
    return {
        f"{'.'.join(part for part in component.object if part is not None)} -> {component.type.name}"
        for components in requests
        for component in components
    }


def check(engine, fake, asked, statement):
    """Explain and run."""
    fake.partitions = [("x",)]
    asked.clear()
    (explained,) = engine.run(f"EXPLAIN LOCKS {statement}")
    assert asked == []
    engine.run(statement)
    lines = [row[0] for row in explained.rows.rows]
    assert lines[0] == "LOCK INFORMATION:"
    return set(lines[1:]) - {"no locks"}


@pytest.fixture
def tables(engine, fake):
    engine.run("CREATE TABLE w.e (a INT) STORED AS ORC TBLPROPERTIES ('transactional'='false')")
    engine.run("ALTER TABLE w.p ADD PARTITION (k='x') PARTITION (k='y') PARTITION (k='z')")


@pytest.mark.parametrize("statement", STATEMENTS)
def test_what_is_explained_is_what_is_asked_for(engine, fake, tables, asked, statement):
    explained = check(engine, fake, asked, statement)
    assert explained == shown(asked)


@pytest.mark.parametrize("settings", SETTINGS)
def test_the_settings_decide(engine, client, fake, warehouse, tables, asked, settings):
    with Engine(client, fake, warehouse, settings=Settings({Source.REQUEST: settings})) as other:
        for statement in STATEMENTS[:13]:
            assert check(other, fake, asked, statement) == shown(asked), statement


def test_reading_a_few_partitions_leaves_the_others_alone(engine, fake, tables, asked):
    engine.run("SELECT * FROM w.p WHERE k = 'y'")
    assert shown(asked) == {"w.p.k=y -> SHARED_READ"}


@pytest.fixture
def newcomers(other, client, asked, monkeypatch):
    """Before locks for reading w.p are asked for, another engine adds a partition: as often as is said."""
    names = []
    real = client.lock

    def lock(components, **rest):
        if names and any(c.table == "p" and c.type.name == "SHARED_READ" and c.partition for c in components):
            name = names.pop(0)
            other.run(f"ALTER TABLE w.p ADD PARTITION (k='{name}')")
        return real(components, **rest)

    monkeypatch.setattr(client, "lock", lock)
    return names


@pytest.mark.parametrize(
    "statement", ["SELECT a FROM w.p WHERE k >= 'y'", "INSERT INTO w.e SELECT a FROM w.p WHERE k >= 'y'"]
)
def test_a_partition_that_comes_before_the_grant_is_locked_too(engine, fake, tables, asked, newcomers, statement):
    """
    t1  A plans to read y and z
    t2            another engine adds zz and commits
    t3  A is granted y and z, sees zz, gives them back and asks for y, z and zz
    """
    newcomers.append("zz")
    engine.run(statement)
    of_p = [c.partition for c in asked[-1] if c.table == "p"]
    assert of_p == ["k=y", "k=z", "k=zz"]
    (view,) = fake.specs[-1].views
    assert [ref.name for ref in view.snapshot.partitions] == of_p


def test_when_partitions_keep_coming_the_table_is_locked(engine, fake, tables, asked, newcomers):
    newcomers += [f"z{number}" for number in range(100)]
    engine.run("SELECT a FROM w.p WHERE k >= 'y'")
    assert "w.p -> SHARED_READ" in shown(asked[-1:])
    (view,) = fake.specs[-1].views
    assert len(view.snapshot.partitions) == 2 + 100 - len(newcomers)


def test_create_table_as_locks_the_new_table_and_its_sources(engine, fake, tables, asked):
    fake.answer = []
    (explained,) = engine.run("EXPLAIN LOCKS CREATE TABLE w.n STORED AS ORC AS SELECT a FROM w.t")
    assert [row[0] for row in explained.rows.rows[1:]] == [
        "w -> SHARED_READ", "w.n -> EXCL_WRITE", "w.t -> SHARED_READ",
    ]  # fmt: skip
    engine.run("CREATE TABLE w.n STORED AS ORC AS SELECT a FROM w.t")
    assert shown(asked) == {"w -> SHARED_READ", "w.n -> EXCL_WRITE", "w.t -> SHARED_READ"}


def test_a_transaction_of_several_statements_asks_once(engine, fake, tables, asked):
    fake.partitions = [("x",)]
    engine.run("BEGIN; INSERT INTO w.t VALUES (1, 'a'); INSERT OVERWRITE w.t VALUES (2, 'b'); DELETE FROM w.p; COMMIT")
    assert len(asked) == 1
    assert shown(asked) == {"w.t -> EXCL_WRITE", "w.p -> SHARED_WRITE"}


def test_every_lock_has_a_rule(engine, tables):
    for statement in STATEMENTS:
        (explained,) = engine.run(f"EXPLAIN LOCKS {statement}")
        assert all(rule for _, rule in explained.rows.rows[1:]), statement


# --- EXPLAIN --------------------------------------------------------------------------------------------------------


def lines(engine, statement):
    (result,) = engine.run(f"EXPLAIN {statement}")
    assert [c.name for c in result.rows.columns] == ["Explain"]
    return [row[0] for row in result.rows.rows]


def test_explain_tells_plan_partitions_files_locks_and_job(engine, client, fake, tables):
    insert = "INSERT INTO w.p PARTITION (k='x') VALUES (1)"
    for statement in (insert, insert, insert.replace("'x'", "'y'")):
        engine.run(statement)
    txns = len(client.show_transactions(include_committed=True))
    jobs = len(fake.specs)
    told = lines(engine, "UPDATE w.p SET a = a + 1 WHERE k = 'x' AND a > 0")
    assert told[:4] == [
        "PLAN:",
        "  update → w.p (transactional)",
        "    partitions by the rows: k",
        "    one write id, allocated after the locks; 2 statement ids",
    ]
    assert "    partitions: 1 of 3 (2 pruned by k = 'x')" in told
    assert "    files: 2 in 2 directories, 8 bytes" in told
    assert "      k=x/delta_0000002_0000002_0000" in told
    assert "  w.p -> SHARED_WRITE  (UPDATE: hive.txn.xlock.write=false; its partitions become known later)" in told
    assert told[-3:] == [
        "  1 Spark job",
        "  reads 2 files, 8 bytes, in about 2 tasks",
        "  writes a delete_delta and a delta for each partition with rows that match",
    ]
    assert (len(client.show_transactions(include_committed=True)), len(fake.specs)) == (txns, jobs)


def test_explain_shows_what_a_snapshot_of_now_would_read(engine, other, fake, tables):
    """An open transaction's files are not in it."""
    engine.run("INSERT INTO w.t VALUES (1, 'a')")
    seen = []

    def look(spec):
        seen.extend(lines(other, "SELECT * FROM w.t"))

    engine.run("INSERT INTO w.t VALUES (2, 'b')")
    fake.meanwhile = look
    engine.run("INSERT OVERWRITE w.t VALUES (3, 'c')")
    assert "    files: 2 in 2 directories, 8 bytes" in seen
    fake.meanwhile = None
    assert "      base_0000003" in lines(engine, "SELECT * FROM w.t")


def test_explain_of_statements_without_a_job(engine):
    assert lines(engine, "DROP TABLE w.t") == [
        "PLAN:",
        "  DROP TABLE: the metastore alone, no job",
        "LOCKS:",
        "  w -> SHARED_READ  (DROP TABLE: soft delete off)",
        "  w.t -> EXCLUSIVE  (DROP TABLE: soft delete off)",
    ]
    assert "  none (such statements take no lock)" in lines(engine, "SHOW LOCKS")


def test_explain_does_not_go_into_partitions_that_are_pruned(engine, fake, tables, monkeypatch):
    from airflow_hive_acid.engine.queries import explain

    listed = []
    real = explain.list_many
    monkeypatch.setattr(
        explain, "list_many", lambda filesystem, uris, **rest: listed.extend(uris) or real(filesystem, uris, **rest)
    )
    lines(engine, "SELECT * FROM w.p WHERE k = 'y'")
    assert [uri.rpartition("/")[2] for uri in listed] == ["k=y"]


def test_explain_of_a_bad_statement_is_its_error(engine):
    with pytest.raises(Exception, match=r"did you mean t\?"):
        engine.run("EXPLAIN SELECT * FROM w.tt")
