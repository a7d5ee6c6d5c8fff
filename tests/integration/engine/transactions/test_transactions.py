"""The life of statements and transactions on each database; the Spark side is made up."""

from dataclasses import replace
from pathlib import Path

import pytest

from airflow_hive_acid.engine import Engine
from airflow_hive_acid.engine.transactions import seen_tables
from airflow_hive_acid.errors import (
    BadRecordError,
    CommitStateUnknownError,
    InvalidArgumentsError,
    JobFailedError,
    NoSuchObjectError,
    PublishError,
    PublishInterruptedError,
    SqlSyntaxError,
    TxnAbortedError,
    UnsupportedStatementError,
    WriteConflictError,
)
from airflow_hive_acid.format.jobs import Uploads
from airflow_hive_acid.format.write_ids import ValidWriteIdList
from airflow_hive_acid.maintenance.warehouse.expected import published_of
from airflow_hive_acid.settings import Source

INSERT = "INSERT INTO w.t VALUES (1, 'x')"
OVERWRITE = "INSERT OVERWRITE TABLE w.t VALUES (2, 'b')"
UPDATE = "UPDATE w.t SET b = 'y' WHERE a = 1"


def kinds(events):
    return [type(event).__name__ for event in events]


# --- one statement, one transaction ---------------------------------------------------------------------------------


@pytest.mark.every_database
def test_statement_is_published_and_committed(engine, fake, listing, states, events):
    result = engine.run(INSERT)[0]
    assert (result.kind, result.inserted, result.write_ids) == ("insert", 1, {"w.t": 1})
    assert listing("w.t") == ["delta_0000001_0000001_0000", "delta_0000001_0000001_0000/bucket_00000"]
    assert result.directories == (f"{fake.specs[0].step.target.location}/delta_0000001_0000001_0000",)
    assert states()[result.txn_id] == "COMMITTED"
    assert kinds(events) == [
        "SparkStarting", "StatementStarted", "SparkReady", "TransactionOpened", "StatementPlanned", "JobFinished",
        "Published", "TransactionCommitted", "StatementFinished",
    ]  # fmt: skip
    assert all(str(event) for event in events)


def test_statements_of_an_engine_share_one_application(engine, fake):
    engine.run(f"{INSERT}; {INSERT}")
    engine.run(INSERT)
    assert fake.starts == 1


def test_ddl_needs_no_spark(engine, fake):
    engine.run("SHOW LOCKS; CREATE DATABASE other; DROP DATABASE other")
    assert fake.starts == 0


def test_next_statement_sees_what_was_committed(engine, fake):
    engine.run(f"{INSERT}; {UPDATE}")
    seen = ValidWriteIdList.parse(fake.specs[1].step.target.write_ids)
    assert seen.is_valid(1)
    assert (fake.specs[1].step.delete_statement_id, fake.specs[1].step.insert_statement_id) == (0, 1)


@pytest.mark.rule("R4")
def test_job_is_recorded_before_it_runs_and_its_manifest_before_it_is_published(engine, fake, client):
    seen = []
    fake.meanwhile = lambda spec: seen.append(client.jobs.get(spec.job_id))
    record = client.jobs.record_manifest

    def before_rename(job_id, manifest, rows):
        record(job_id, manifest, rows)
        assert Path(fake.specs[0].staging.removeprefix("file:")).is_dir()
        seen.append(client.jobs.get(job_id))

    client.jobs.record_manifest = before_rename
    engine.run(INSERT)
    assert [job.state.name for job in seen] == ["RUNNING", "PUBLISHING"]
    assert seen[0].staging == fake.specs[0].staging
    assert seen[0].application_id == "fake-1"
    assert seen[1].manifest["directories"][0]["name"] == "delta_0000001_0000001_0000"
    assert sorted(seen[1].manifest["rows"]) == ["deleted", "inserted", "updated"]


def test_job_that_fails_aborts_its_transaction_and_leaves_the_rest(engine, fake, listing, states, events):
    fake.fail("BadRecordError", "f.csv, row 3, column a: 'x' is no int")
    with pytest.raises(BadRecordError, match="row 3") as failure:
        engine.run(f"SHOW LOCKS;\n{INSERT};\n{INSERT}")
    assert failure.value.__notes__ == [f"in the statement on line 2: {INSERT}"]
    assert listing("w.t") == []
    assert "TransactionAborted" in kinds(events)
    assert "ABORTED" in states().values()
    fake.meanwhile = None
    assert engine.run(INSERT)[0].write_ids == {"w.t": 2}


def test_script_stops_at_the_failure_and_keeps_what_was_committed(engine, fake, listing):
    with pytest.raises(NoSuchObjectError, match="nowhere"):
        engine.run("; ".join([INSERT, "INSERT INTO w.nowhere VALUES (1)", INSERT]))
    assert len(fake.specs) == 1
    assert len(listing("w.t")) == 2


def test_script_that_does_not_parse_runs_nothing(engine, fake):
    with pytest.raises(SqlSyntaxError):
        engine.run(f"{INSERT}; SELEC 1")
    assert fake.specs == []
    assert fake.starts == 0


def test_unsupported_statement_runs_nothing(engine, fake):
    with pytest.raises(UnsupportedStatementError):
        engine.run(f"{INSERT}; GRANT SELECT ON w.t TO somebody")
    assert fake.specs == []


def test_dead_application_is_replaced(engine, fake, states):
    def die(spec):
        fake.is_alive = False

    fake.meanwhile = die
    with pytest.raises(JobFailedError):
        engine.run(INSERT)
    fake.meanwhile = None
    engine.run(INSERT)
    assert fake.starts == 2
    assert sorted(states().values()) == ["ABORTED", "COMMITTED"]


@pytest.mark.every_database
def test_cancel_from_another_thread_aborts(engine, fake, states):
    """
    t1  a statement's job runs
    t2                         another thread cancels the engine
    t3  the statement fails, its txn is aborted, no other application is started
    """
    fake.meanwhile = lambda spec: engine.cancel()
    with pytest.raises(JobFailedError, match="cancelled"):
        engine.run(INSERT)
    assert list(states().values()) == ["ABORTED"]
    with pytest.raises(JobFailedError, match="cancelled"):
        engine.run(INSERT)
    assert fake.starts == 1


def test_interrupted_statement_aborts(engine, fake, states):
    def interrupt(spec):
        raise KeyboardInterrupt

    fake.meanwhile = interrupt
    with pytest.raises(KeyboardInterrupt):
        engine.run(INSERT)
    assert list(states().values()) == ["ABORTED"]


@pytest.mark.every_database
def test_transaction_that_was_reaped_meanwhile_is_not_committed(engine, fake, client, states):
    """
    t1  A's job runs
    t2              the reaper aborts A
    t3  A's job is done, A wants to commit: refused
    """
    fake.meanwhile = lambda spec: client.abort_txn(client.jobs.get(spec.job_id).txn_id, "heartbeat time-out")
    with pytest.raises(TxnAbortedError, match="heartbeat time-out"):
        engine.run(INSERT)
    assert list(states().values()) == ["ABORTED"]


@pytest.mark.every_database
@pytest.mark.rule("R17")
def test_lost_answer_to_a_commit_touches_nothing(engine, client, listing, states, monkeypatch):
    """
    t1  A publishes and sends its commit
    t2  the answer is lost: A neither aborts nor removes anything
    """

    def lose(txn_id, **kwargs):
        raise CommitStateUnknownError("the connection broke")

    monkeypatch.setattr(client, "commit_txn", lose)
    with pytest.raises(CommitStateUnknownError):
        engine.run(INSERT)
    assert list(states().values()) == ["OPEN"]
    assert len(listing("w.t")) == 2


# --- what jobs report is checked ------------------------------------------------------------------------------------


def test_job_that_lies_is_not_published(engine, fake, listing, states):
    def lie(spec):
        result = fake.work(spec)
        (Path(spec.staging.removeprefix("file:")) / "data/delta_0000001_0000001_0000/bucket_00001").write_text("more")
        return result

    fake.meanwhile = lie
    with pytest.raises(PublishError, match="bucket_00001"):
        engine.run(INSERT)
    assert not [name for name in listing("w.t") if name.startswith("delta")]
    assert list(states().values()) == ["ABORTED"]


@pytest.mark.rule("R5")
def test_directory_of_another_attempt_refuses_the_commit(engine, fake, client, states):
    """
    t1  attempt 1 of A's statement publishes delta_1_1_7 and is forgotten
    t2  attempt 2 publishes delta_1_1_0, A commits: refused, the rows would be there twice
    """
    location = Path(client.catalog.get_table("w.t").location.removeprefix("file:"))
    fake.meanwhile = lambda spec: (location / "delta_0000001_0000001_0007").mkdir()
    with pytest.raises(PublishInterruptedError, match="another attempt"):
        engine.run(INSERT)
    assert list(states().values()) == ["ABORTED"]


# --- several statements, one transaction ----------------------------------------------------------------------------


def test_statements_between_begin_and_commit_share_a_transaction(engine, fake, states, listing):
    results = engine.run(f"BEGIN; {INSERT}; {UPDATE}; COMMIT")
    assert [r.kind for r in results] == ["begin", "insert", "update", "commit"]
    assert results[1].txn_id == results[2].txn_id
    assert states() == {results[1].txn_id: "COMMITTED"}
    assert [d for d in listing("w.t") if "/" not in d] == [
        "delete_delta_0000001_0000001_0001", "delta_0000001_0000001_0000", "delta_0000001_0000001_0002",
    ]  # fmt: skip
    # The update must see the rows of the insert, which nobody else can see yet.
    assert ValidWriteIdList.parse(fake.specs[1].step.target.write_ids).is_valid(1)


def test_one_transaction_does_the_same_for_a_whole_script(engine, states):
    results = engine.run(f"{INSERT}; {UPDATE}", one_transaction=True)
    assert states() == {results[0].txn_id: "COMMITTED"}


def test_queries_of_a_transaction_share_one_snapshot(engine, other, fake, states):
    """
    t1  A begins and reads t
    t2                        B inserts into t and commits
    t3  A reads t again: the same rows
    """
    fake.answer = [[1]]
    fake.meanwhile = lambda spec: other.run(INSERT) and None if len(fake.specs) == 1 else None
    results = engine.run("BEGIN; SELECT a FROM w.t; SELECT a FROM w.t; COMMIT")
    lists = {spec.views[0].snapshot.write_ids for spec in fake.specs}
    assert len(lists) == 1
    assert states()[results[1].txn_id] == "COMMITTED"


def test_rollback_leaves_nothing_visible(engine, client, states):
    results = engine.run(f"BEGIN; {INSERT}; {UPDATE}; ROLLBACK")
    assert results[-1].kind == "rollback"
    assert states() == {results[1].txn_id: "ABORTED"}
    seen = client.get_valid_write_ids("w.t")["w.t"]
    assert not seen.is_valid(1)


def test_failure_inside_a_transaction_undoes_all_of_it(engine, fake, states, client):
    def second_fails(spec):
        if len(fake.specs) == 2:
            raise JobFailedError("no space left on device")

    fake.meanwhile = second_fails
    with pytest.raises(JobFailedError, match="no space left"):
        engine.run(f"BEGIN; {INSERT}; {UPDATE}; COMMIT")
    assert list(states().values()) == ["ABORTED"]
    assert not client.get_valid_write_ids("w.t")["w.t"].is_valid(1)


@pytest.mark.parametrize("script", [f"BEGIN; {INSERT}", f"{INSERT}; COMMIT", f"BEGIN; BEGIN; {INSERT}; COMMIT"])
def test_broken_transaction_structure_runs_nothing(engine, fake, script):
    with pytest.raises(InvalidArgumentsError):
        engine.run(script)
    assert fake.specs == []


def test_view_made_inside_a_transaction_is_there_for_its_statements(engine, fake):
    engine.run(
        "BEGIN; CREATE TEMPORARY VIEW v (a INT, b STRING) USING csv OPTIONS (path '/f.csv');"
        "INSERT INTO w.t SELECT a, b FROM v; COMMIT"
    )
    assert fake.specs[0].sources[0].name == "v"


def test_view_outlives_its_script_but_not_its_engine(engine, other, fake):
    engine.run("CREATE TEMPORARY VIEW v (a INT, b STRING) USING csv OPTIONS (path '/f.csv')")
    engine.run("INSERT INTO w.t SELECT a, b FROM v")
    assert fake.specs[0].sources[0].options["path"] == "/f.csv"
    with pytest.raises(NoSuchObjectError, match="v"):
        other.run("INSERT INTO w.t SELECT a, b FROM v")


@pytest.mark.every_database
@pytest.mark.rule("R2")
def test_conflicting_transaction_is_refused_at_its_commit(engine, other, fake, states):
    """
    t1  A begins an update of t
    t2                          B updates t and commits
    t3  A commits: refused, its files stay invisible
    """
    fake.meanwhile = lambda spec: other.run(UPDATE) and None
    with pytest.raises(WriteConflictError, match=r"w.t"):
        engine.run(UPDATE)
    assert sorted(states().values()) == ["ABORTED", "COMMITTED"]


@pytest.mark.every_database
def test_writers_of_different_partitions_do_not_conflict(engine, other, fake, states):
    """
    t1  A begins an update of partition k=1
    t2                          B updates partition k=2 and commits
    t3  A commits
    """
    engine.run("INSERT INTO w.p PARTITION (k='1') VALUES (1); INSERT INTO w.p PARTITION (k='2') VALUES (1)")
    other.fake.partitions = [("2",)]
    fake.partitions = [("1",)]
    fake.meanwhile = lambda spec: other.run("UPDATE w.p SET a = 2 WHERE k = '2'") and None
    engine.run("UPDATE w.p SET a = 2 WHERE k = '1'")
    assert set(states().values()) == {"COMMITTED"}


# --- partitions -----------------------------------------------------------------------------------------------------


@pytest.mark.every_database
def test_new_partitions_enter_the_catalog_with_the_commit(engine, fake, client):
    fake.partitions = [("1",), ("a/b",)]
    names = []
    fake.meanwhile = lambda spec: names.append([p.name for p in client.catalog.list_partitions("w.p")])
    engine.run("INSERT INTO w.p SELECT 1, 'x'")
    assert names == [[]]
    found = client.catalog.list_partitions("w.p")
    assert [(p.name, p.values) for p in found] == [("k=1", ("1",)), ("k=a%2Fb", ("a/b",))]
    directory = Path(found[1].location.removeprefix("file:")) / "delta_0000001_0000001_0000"
    assert directory.is_dir()


def test_partitions_of_an_aborted_transaction_do_not(engine, fake, client):
    engine.run("BEGIN; INSERT INTO w.p PARTITION (k='1') VALUES (1); ROLLBACK")
    assert client.catalog.list_partitions("w.p") == []


def test_next_statement_of_the_transaction_knows_its_new_partitions(engine, fake):
    engine.run("BEGIN; INSERT INTO w.p PARTITION (k='1') VALUES (1); UPDATE w.p SET a = 2; SELECT a FROM w.p; COMMIT")
    assert [p.name for p in fake.specs[1].step.target.partitions] == ["k=1"]
    assert [p.name for p in fake.specs[2].views[0].snapshot.partitions] == ["k=1"]


def test_statement_reads_only_partitions_its_condition_can_touch(engine, fake):
    engine.run("INSERT INTO w.p PARTITION (k='1') VALUES (1); INSERT INTO w.p PARTITION (k='2') VALUES (1)")
    fake.specs.clear()
    engine.run("DELETE FROM w.p WHERE k = '2'; SELECT a FROM w.p WHERE k = '1'")
    assert [p.name for p in fake.specs[0].step.target.partitions] == ["k=2"]
    assert [p.name for p in fake.specs[1].views[0].snapshot.partitions] == ["k=1"]


@pytest.mark.every_database
@pytest.mark.rule("R12")
def test_statement_that_matches_nothing_conflicts_with_nobody(engine, other, fake, states):
    """
    t1  A begins an update of p that will match no row
    t2                          B updates p and commits
    t3  A commits: it changed nothing, so there is nothing to conflict
    """
    engine.run("INSERT INTO w.p PARTITION (k='1') VALUES (1)")
    other.fake.partitions = [("1",)]
    fake.partitions = []
    fake.meanwhile = lambda spec: other.run("UPDATE w.p SET a = 2") and None
    engine.run("UPDATE w.p SET a = 3 WHERE a = 99")
    assert set(states().values()) == {"COMMITTED"}


@pytest.mark.every_database
def test_two_inserts_into_the_same_new_partition_both_commit(engine, other, fake, client):
    """
    t1  A inserts into k=1, which does not exist
    t2                          B does the same and commits: k=1 is in the catalog
    t3  A commits: k=1 is there, at the place A wrote to
    """
    fake.meanwhile = lambda spec: other.run("INSERT INTO w.p PARTITION (k='1') VALUES (2)") and None
    engine.run("INSERT INTO w.p PARTITION (k='1') VALUES (1)")
    assert [p.name for p in client.catalog.list_partitions("w.p")] == ["k=1"]
    assert client.get_valid_write_ids("w.p")["w.p"].is_valid(1)


@pytest.mark.setting("hive.exec.dynamic.partition.mode")
def test_strict_mode_wants_a_static_partition(client, fake, engine, warehouse):
    settings = client.settings.with_overrides(Source.REQUEST, {"hive.exec.dynamic.partition.mode": "strict"})
    strict = Engine(client, fake, warehouse, settings=settings)
    with pytest.raises(InvalidArgumentsError, match="names no value for any of the partition columns k"):
        strict.run("INSERT INTO w.p SELECT 1, 'x'")
    strict.run("INSERT INTO w.p PARTITION (k='1') VALUES (1)")


def test_nothing_is_written_behind_an_overwrite_of_the_same_txn(engine, listing):
    """The base of write id 1 would hide a delta of write id 1."""
    with pytest.raises(InvalidArgumentsError, match=r"has overwritten w\.t"):
        engine.run("BEGIN; INSERT OVERWRITE TABLE w.t VALUES (1, 'a'); DELETE FROM w.t; COMMIT")
    engine.run("BEGIN; INSERT INTO w.t VALUES (2, 'b'); INSERT OVERWRITE TABLE w.t VALUES (1, 'a'); COMMIT")


@pytest.mark.parametrize(
    ("last", "kept"),
    [
        (OVERWRITE, [["_orc_acid_version", "bucket_00000"]]),
        ("TRUNCATE TABLE w.t", [["_metadata_acid"]]),
        (INSERT, [["_orc_acid_version", "bucket_00000", "bucket_00005"], ["_orc_acid_version", "bucket_00006"]]),
    ],
)
def test_nobody_looks_for_files_of_a_base_that_its_own_txn_has_replaced(engine, client, fake, listing, last, kept):
    """The first overwrite has two files, and makes way for what follows, or gets more; reads would miss the first."""
    work = fake.work

    def two_files(spec):
        result = work(spec)
        (directory,) = result.directories
        (file,) = directory.files
        place = Path(spec.staging.removeprefix("file:")) / "data" / directory.name
        (place / "bucket_00005").write_text("rows")
        return replace(result, directories=(replace(directory, files=(file, replace(file, name="bucket_00005"))),))

    with engine.begin({"w.t": "overwrite"}) as txn:
        fake.meanwhile = two_files
        txn.execute("INSERT OVERWRITE TABLE w.t VALUES (1, 'a')")
        fake.meanwhile = None
        txn.execute(last)
    (published,) = published_of(client, "w.t").values()
    assert published == [("base_0000001", files) for files in kept]


def test_insert_overwrite_of_a_partition_writes_a_base(engine, listing):
    engine.run("INSERT OVERWRITE TABLE w.p PARTITION (k='1') VALUES (1)")
    assert "k=1/base_0000001" in listing("w.p")


def test_an_overwrite_may_upload_its_files_unless_its_txn_has_made_a_base_there(engine, fake, monkeypatch):
    """A base that makes way, or gets more files, is moved among others."""
    monkeypatch.setattr(seen_tables, "uploads_of_job", lambda table, *_: Uploads(table.location))
    into = "INSERT OVERWRITE TABLE w.p PARTITION (k='{}') VALUES (1)"
    expected = {
        OVERWRITE: [True],
        "; ".join([INSERT, OVERWRITE, OVERWRITE, INSERT]): [True, True, False, False],
        f"TRUNCATE TABLE w.t; {INSERT}": [False],
        "; ".join(into.format(k) for k in (1, 2, 1)): [True, True, False],
    }
    for statements, uploads in expected.items():
        fake.specs.clear()
        engine.run(f"BEGIN; {statements}; COMMIT")
        assert [spec.uploads is not None for spec in fake.specs] == uploads, statements


# --- transactions held by a program ---------------------------------------------------------------------------------


def test_transaction_in_a_program_commits_at_a_clean_end(engine, states):
    with engine.begin({"w.t": "update"}) as txn:
        txn.execute(INSERT)
        txn.execute(UPDATE)
        assert states() == {txn.txn_id: "OPEN"}
    assert states() == {txn.txn_id: "COMMITTED"}


def test_transaction_in_a_program_declares_the_tables_of_its_statements(engine, client):
    with engine.begin([INSERT, "SELECT a FROM w.p"]) as txn:
        held = {(lock.table, lock.type.name) for lock in client.show_locks(txn_id=txn.txn_id)}
        assert held == {("t", "SHARED_WRITE"), ("p", "SHARED_READ")}
        txn.execute(INSERT)


def test_exception_in_a_program_aborts(engine, states):
    def work(txn):
        with txn:
            txn.execute(INSERT)
            raise ZeroDivisionError

    txn = engine.begin({"w.t": "insert"})
    with pytest.raises(ZeroDivisionError):
        work(txn)
    assert states() == {txn.txn_id: "ABORTED"}


def test_statement_that_fails_ends_the_transaction(engine, fake, states):
    txn = engine.begin({"w.t": "insert"})
    fake.fail("JobFailedError", "no")
    with pytest.raises(JobFailedError):
        txn.execute(INSERT)
    assert states() == {txn.txn_id: "ABORTED"}
    with pytest.raises(InvalidArgumentsError, match="has ended"):
        txn.execute(INSERT)
    txn.abort()


@pytest.mark.parametrize(
    ("declared", "statement"),
    [
        ({"w.t": "insert"}, UPDATE),
        ({"w.t": "select"}, INSERT),
        ({"w.p": "update"}, INSERT),
        ({"w.t": "insert"}, "INSERT INTO w.t SELECT a, k FROM w.p"),
    ],
)
def test_undeclared_use_of_a_table_is_refused(engine, fake, declared, statement):
    with pytest.raises(InvalidArgumentsError, match="declare all tables"), engine.begin(declared) as txn:
        txn.execute(statement)
    assert fake.specs == []


def test_transaction_without_tables_is_refused(engine):
    with pytest.raises(InvalidArgumentsError, match="at least one"):
        engine.begin([])


# --- queries --------------------------------------------------------------------------------------------------------


@pytest.mark.every_database
@pytest.mark.rule("R16")
def test_query_runs_under_a_registered_reader(engine, fake, client):
    seen = []
    fake.answer = [[1], [2]]
    fake.meanwhile = lambda spec: seen.extend(client.show_transactions())
    rows = engine.query("SELECT a FROM w.t")
    assert rows.to_dicts() == [{"c0": 1}, {"c0": 2}]
    assert [(t.type.name, t.state.name) for t in seen] == [("READ_ONLY", "OPEN")]
    assert client.show_transactions() == []
    assert client.show_locks() == []


def test_query_as_an_earlier_reader_sees_the_old_state(engine, fake, client):
    """
    t1  R opens a snapshot
    t2                      A inserts and commits
    t3  a query as R does not see it; R stays open
    """
    with client.snapshot(["w.t"]) as reader:
        engine.run(INSERT)
        fake.answer = [[1]]
        engine.query("SELECT a FROM w.t", snapshot=reader.to_document())
        engine.query("SELECT a FROM w.t")
        old, new = (ValidWriteIdList.parse(s.views[0].snapshot.write_ids) for s in fake.specs[1:])
        assert (old.is_valid(1), new.is_valid(1)) == (False, True)
        assert [t.txn_id for t in client.show_transactions()] == [reader.txn_id]
        reader.heartbeat()


def test_query_as_a_reader_of_other_tables_is_refused(engine, client):
    with client.snapshot(["w.t"]) as reader, pytest.raises(InvalidArgumentsError, match=r"w\.p"):
        engine.query("SELECT a FROM w.p", snapshot=reader.to_document())


def test_query_of_constants_needs_no_transaction(engine, fake, states):
    fake.answer = [[1]]
    assert engine.query("SELECT 1").rows == [[1]]
    assert states() == {}


def test_query_takes_exactly_one_select(engine):
    for text in (INSERT, "SELECT 1; SELECT 2", ""):
        with pytest.raises(InvalidArgumentsError, match="one SELECT"):
            engine.query(text)


# --- shows ----------------------------------------------------------------------------------------------------------


@pytest.mark.every_database
def test_show_locks_and_transactions_while_a_job_runs(engine, other, fake):
    shown = []
    fake.meanwhile = lambda spec: shown.extend(other.run("SHOW LOCKS w.t; SHOW TRANSACTIONS; SHOW COMPACTIONS"))
    engine.run(INSERT)
    locks, transactions, compactions = (result.rows.to_dicts() for result in shown)
    assert [(r["database"], r["table"], r["lock_state"], r["lock_type"], r["agent_info"]) for r in locks] == [
        ("w", "t", "ACQUIRED", "SHARED_WRITE", "tests")
    ]
    assert [(r["txnid"], r["state"], r["type"]) for r in transactions] == [
        (locks[0]["transaction_id"], "OPEN", "DEFAULT")
    ]
    assert compactions == []
