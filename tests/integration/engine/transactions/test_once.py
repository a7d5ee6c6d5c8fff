"""R14: several tries of a script apply each of its writes once. The Spark side is made up."""

# ruff: noqa: S608 - statements put together from the names of the tests

import contextlib
import dataclasses
import threading
import time

import pytest

from airflow_hive_acid.engine import Engine
from airflow_hive_acid.engine.transactions.claims import Once
from airflow_hive_acid.errors import (
    ClaimLostError,
    CommitStateUnknownError,
    HiveAcidError,
    InvalidArgumentsError,
    JobFailedError,
    MetastoreUnavailableError,
    StorageUnavailableError,
    TxnAbortedError,
)
from airflow_hive_acid.format.jobs import Insert
from airflow_hive_acid.metastore.records.claim_rules import Rerun
from airflow_hive_acid.metastore.txns.aborts import AbortedTxns

pytestmark = pytest.mark.rule("R14")

INSERT = "INSERT INTO w.t VALUES (1, 'x')"
UPDATE = "UPDATE w.t SET b = 'y' WHERE a = 1"
ONCE = Once(("dag", "run", "task", "-1"), life="0")
NEXT_LIFE = dataclasses.replace(ONCE, life="1")


def told(events, kind):
    return [str(event) for event in events if type(event).__name__ == kind]


@pytest.mark.every_database
def test_retry_of_a_committed_statement_returns_its_result(engine, other, fake, listing, events):
    first = engine.run(INSERT, once=ONCE)
    again = other.run(INSERT, once=ONCE)
    assert [r.to_document() for r in again] == [
        {**r.to_document(), "seconds": again[0].to_document()["seconds"]} for r in first
    ]
    assert len(fake.specs) == 1
    assert not other.fake.specs
    assert len(listing("w.t")) == 2


def test_statements_before_the_one_that_failed_are_not_applied_again(engine, fake, listing):
    fake.meanwhile = lambda spec: None if len(fake.specs) == 1 else fake_failure(spec)
    with pytest.raises(JobFailedError):
        engine.run(f"{INSERT}; {UPDATE}", once=ONCE)
    fake.meanwhile, fake.is_alive = None, True
    results = engine.run(f"{INSERT}; {UPDATE}", once=ONCE)
    assert [type(spec.step).__name__ for spec in fake.specs] == ["Insert", "Update", "Update"]
    assert [result.write_ids["w.t"] for result in results] == [1, 3]


def fake_failure(spec):
    raise JobFailedError("killed")


@pytest.mark.every_database
def test_try_without_an_end_is_fenced_and_cannot_commit_any_more(engine, other, fake, listing, states, events):
    """
    t1  try 1 runs its Spark job and hangs
    t2  try 2 takes over: fences, aborts, applies, commits
    t3  try 1 goes on: its files and its commit are refused
    """

    def hang(spec):
        result = fake.work(spec)
        other.run(INSERT, once=ONCE)
        return result

    fake.meanwhile = hang
    with pytest.raises(HiveAcidError) as failure:
        engine.run(INSERT, once=ONCE)
    assert isinstance(failure.value, (ClaimLostError, TxnAbortedError)) or "fenced" in str(failure.value)
    assert sorted(states().values()) == ["ABORTED", "COMMITTED"]
    deltas = [name for name in listing("w.t") if name.startswith("delta") and "/" not in name]
    assert deltas == ["delta_0000002_0000002_0000"]


@pytest.mark.every_database
def test_commit_that_comes_after_the_take_over_is_refused(engine, client, other, fake, states, monkeypatch):
    """The later try took over while the first was between its last look and its commit."""
    commit = client.commit_txn

    def late(txn_id, **kwargs):
        monkeypatch.setattr(client, "commit_txn", commit)
        take_over_without_abort(client, monkeypatch, other)
        commit(txn_id, **kwargs)

    monkeypatch.setattr(client, "commit_txn", late)
    with pytest.raises(ClaimLostError, match="taken over by another try"):
        engine.run(INSERT, once=ONCE)
    assert sorted(states().values()) == ["ABORTED", "COMMITTED"]


def take_over_without_abort(client, monkeypatch, other):
    """As if the later try had died between taking the claim over and aborting the earlier txn, and a third came."""
    with monkeypatch.context() as patch:
        patch.setattr("airflow_hive_acid.engine.transactions.claims.end_txns", lambda *_args: AbortedTxns())
        other.run(INSERT, once=ONCE)


@pytest.mark.every_database
def test_two_tries_at_once_commit_once(engine, other, fake, listing, states):
    barrier, outcomes = threading.Barrier(2), []

    def wait(spec):
        # The other one may have been refused before it came here.
        with contextlib.suppress(threading.BrokenBarrierError):
            barrier.wait(20)

    def meet(run, own):
        own.meanwhile = wait
        try:
            outcomes.append(run(INSERT, once=ONCE))
        except (HiveAcidError, NotADirectoryError) as error:  # a job may find its staging fenced
            outcomes.append(error)
            barrier.abort()

    threads = [threading.Thread(target=meet, args=(e.run, f)) for e, f in ((engine, fake), (other, other.fake))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(outcomes) == 2
    assert list(states().values()).count("COMMITTED") == 1
    (result,) = [outcome[0] for outcome in outcomes if isinstance(outcome, list)]
    # The other one may have published before it was fenced: its txn is aborted, and the Cleaner takes what it left.
    assert states()[result.txn_id] == "COMMITTED"
    assert result.directories[0].rpartition("/")[2] in listing("w.t")


def test_transaction_of_several_statements_is_one_unit(engine, other, fake):
    fake.answer = [[7]]
    script = "; ".join(["BEGIN", INSERT, "SELECT count(*) FROM w.t", UPDATE, "COMMIT"])
    first = engine.run(script, once=ONCE)
    again = other.run(script, once=ONCE)
    assert not other.fake.specs
    assert [result.kind for result in again] == [result.kind for result in first]
    assert again[2].rows.to_dicts() == first[2].rows.to_dicts()


def test_block_that_is_rolled_back_claims_nothing(engine, fake):
    script = f"BEGIN; {INSERT}; ROLLBACK"
    engine.run(script, once=ONCE)
    engine.run(script, once=ONCE)
    assert len(fake.specs) == 2


def test_queries_run_in_every_try(engine, fake):
    engine.run("SELECT a FROM w.t", once=ONCE)
    engine.run("SELECT a FROM w.t", once=ONCE)
    assert len(fake.specs) == 2


def test_truncate_is_applied_once(engine, listing):
    engine.run("TRUNCATE TABLE w.t", once=ONCE)
    engine.run("TRUNCATE TABLE w.t", once=ONCE)
    assert listing("w.t") == ["base_0000001"]


def test_changes_of_the_catalog_are_made_once(engine, client, fake):
    script = (
        "CREATE TABLE w.n (a INT) STORED AS ORC TBLPROPERTIES ('transactional'='true'); ALTER TABLE w.n RENAME TO w.m"
    )
    engine.run(script, once=ONCE)
    engine.run(f"{script}; DROP TABLE w.m", once=ONCE)
    assert not client.catalog.find_tables(["w.n", "w.m"])


def test_the_first_statement_of_a_new_metastore_is_no_more_applied_than_it_is(client, fake, warehouse, monkeypatch):
    """
    t1  CREATE DATABASE says where the warehouse is, which a new metastore does not know, and fails behind that
    t2  its retry makes the database
    """

    def away(*_args):
        raise StorageUnavailableError("the warehouse does not answer")

    with Engine(client, fake, warehouse, agent_info="tests") as engine:
        assert client.catalog.warehouse() is None
        with monkeypatch.context() as patch:
            patch.setattr("airflow_hive_acid.engine.definitions.ddl.Places.before_create", away)
            with pytest.raises(StorageUnavailableError):
                engine.run("CREATE DATABASE n", once=ONCE)
        assert client.catalog.warehouse() is not None
        engine.run("CREATE DATABASE n", once=ONCE)
    assert "n" in client.catalog.list_databases()


@pytest.mark.every_database
@pytest.mark.rule("R17")
@pytest.mark.parametrize(
    "statement",
    ["CREATE DATABASE n", "ALTER DATABASE w SET DBPROPERTIES ('a'='b')", "ALTER TABLE w.t COMPACT 'major'"],
)
def test_change_without_a_txn_whose_answer_was_lost_is_found_applied(engine, client, fake, monkeypatch, statement):
    """Each of its commits is answered by a connection that broke, so everything is tried once more."""
    run = client.database.run

    def lose(operation, *args, **kwargs):
        run(operation, *args, **kwargs)
        return run(operation, *args, **kwargs)

    engine.run(INSERT)
    with monkeypatch.context() as patch:
        patch.setattr(client.database, "run", lose)
        (result,) = engine.run(statement, once=ONCE)
    assert result.kind
    (again,) = engine.run(statement, once=ONCE)
    assert again.statement == result.statement
    assert [r.state.name for r in client.compactions.show()] == ["INITIATED"] * statement.endswith("'major'")


def test_table_made_from_a_query_is_made_once(engine, client, fake):
    fake.answer = [[1]]
    script = "CREATE TABLE w.c STORED AS ORC TBLPROPERTIES ('transactional'='true') AS SELECT a FROM w.t"
    first = engine.run(script, once=ONCE)
    specs = len(fake.specs)
    again = engine.run(script, once=ONCE)
    assert len(fake.specs) == specs
    assert (again[0].kind, again[0].write_ids) == (first[0].kind, {"w.c": 1})


def test_request_for_compaction_is_made_once(engine, client):
    engine.run(f"{INSERT}; ALTER TABLE w.t COMPACT 'major'", once=ONCE)
    (request,) = client.compactions.show()
    client.compactions.abort([request.id])
    engine.run(f"{INSERT}; ALTER TABLE w.t COMPACT 'major'", once=ONCE)
    assert [r.id for r in client.compactions.show()] == [request.id]


@pytest.mark.hive4("no mirrored leases")
def test_leases_are_dropped_by_force_once(engine, client, fake):
    """
    t1  a script drops the lease of somebody dead; its INSERT fails
    t2                 somebody else is granted a lease
    t3  the retry leaves that one alone
    """
    script = f"DROP FORCE LEASE w.p COMMENT 'its worker died'; {INSERT}"
    dead = client.leases.grab_lease("w.p", 60)
    fake.meanwhile = fake_failure
    with pytest.raises(JobFailedError):
        engine.run(script, once=ONCE)
    fake.meanwhile, fake.is_alive = None, True
    lease = client.leases.grab_lease("w.p", 60)
    (dropped, _) = engine.run(script, once=ONCE)
    assert [row[1] for row in dropped.rows.rows] == [dead.lease_id]
    assert client.leases.confirm_lease(lease)


def test_deliberate_rerun_applies_again_and_says_so(engine, client, fake, events):
    engine.run(INSERT, once=ONCE)
    client.claims.acknowledge(ONCE.scope)
    assert engine.run(INSERT, once=ONCE)[0].write_ids == {"w.t": 1}
    assert engine.run(INSERT, once=NEXT_LIFE)[0].write_ids == {"w.t": 2}
    assert "WARNING: statement 1 of dag / run / task / -1 succeeded before" in told(events, "AppliedBefore")[-1]
    assert engine.run(INSERT, once=NEXT_LIFE)[0].write_ids == {"w.t": 2}
    assert len(fake.specs) == 2


def test_what_a_cleared_task_has_found_applied_is_not_applied_by_its_retry(engine, client, fake, states):
    """
    t1  life 0: the first statement commits, the second fails; no try is left, and the task fails
    t2  life 1 (somebody clears it): the first is found applied, the second commits, the success is acknowledged; the
        worker dies before Airflow hears of it
    t3  life 1: the retry applies neither
    """
    fake.meanwhile = lambda spec: None if len(fake.specs) == 1 else fake_failure(spec)
    with pytest.raises(JobFailedError):
        engine.run(f"{INSERT}; {UPDATE}", once=ONCE)
    fake.meanwhile, fake.is_alive = None, True
    cleared = engine.run(f"{INSERT}; {UPDATE}", once=NEXT_LIFE)
    client.claims.acknowledge(NEXT_LIFE.scope)
    retried = engine.run(f"{INSERT}; {UPDATE}", once=NEXT_LIFE)
    assert [result.txn_id for result in retried] == [result.txn_id for result in cleared]
    assert list(states().values()).count("COMMITTED") == 2
    # Cleared once more, after a success, both are applied again.
    client.claims.acknowledge(NEXT_LIFE.scope)
    again = engine.run(f"{INSERT}; {UPDATE}", once=dataclasses.replace(ONCE, life="2"))
    assert {result.txn_id for result in again}.isdisjoint(result.txn_id for result in cleared)


def test_deliberate_rerun_may_skip(engine, client, fake):
    engine.run(INSERT, once=ONCE)
    client.claims.acknowledge(ONCE.scope)
    skipping = dataclasses.replace(NEXT_LIFE, on_rerun=Rerun.SKIP)
    assert engine.run(INSERT, once=skipping)[0].write_ids == {"w.t": 1}
    assert len(fake.specs) == 1


def test_other_text_under_the_key_of_a_committed_statement_is_refused(engine, fake):
    engine.run(INSERT, once=ONCE)
    with pytest.raises(InvalidArgumentsError, match="another text, or is about other tables, than the one"):
        engine.run("INSERT INTO w.t VALUES (2, 'x')", once=ONCE)
    assert len(fake.specs) == 1


@pytest.mark.parametrize("text", ["INSERT INTO t VALUES (1, 'x')", "ALTER TABLE t SET TBLPROPERTIES ('a'='b')"])
def test_a_statement_that_means_another_database_in_a_later_try_is_another_one(engine, client, fake, text):
    """The operator's database was wrong, and the task failed behind this statement: it is not applied there yet."""
    acid = "STORED AS ORC TBLPROPERTIES ('transactional'='true')"
    engine.run(f"CREATE DATABASE v; CREATE TABLE v.t (a INT, b STRING) {acid}")
    engine.run(text, database="w", once=ONCE)
    with pytest.raises(InvalidArgumentsError, match="is about other tables, than the one"):
        engine.run(text, database="v", once=ONCE)
    qualified, another = text.replace(" t ", " w.t "), dataclasses.replace(ONCE, scope=("dag", "run", "other", "-1"))
    engine.run(qualified, database="w", once=another)
    engine.run(qualified, database="v", once=another)
    assert len(fake.specs) == 2 * text.startswith("INSERT")
    assert "a" not in client.catalog.get_table("v.t").properties


def test_other_runs_are_not_concerned(engine, fake):
    engine.run(INSERT, once=ONCE)
    engine.run(INSERT, once=dataclasses.replace(ONCE, scope=("dag", "next run", "task", "-1")))
    engine.run(INSERT)
    assert len(fake.specs) == 3


@pytest.mark.every_database
@pytest.mark.rule("R17")
def test_lost_answer_to_a_commit_that_happened_is_found_in_the_record(engine, client, fake, states, monkeypatch):
    commit = client.commit_txn

    def lose(txn_id, **kwargs):
        commit(txn_id, **kwargs)
        raise CommitStateUnknownError("the connection broke")

    monkeypatch.setattr(client, "commit_txn", lose)
    assert engine.run(INSERT, once=ONCE)[0].write_ids == {"w.t": 1}
    assert list(states().values()) == ["COMMITTED"]


@pytest.mark.every_database
@pytest.mark.rule("R17")
def test_lost_commit_that_did_not_happen_cannot_happen_later(engine, client, fake, states, monkeypatch):
    commit, late = client.commit_txn, []

    def lose(txn_id, **kwargs):
        late.append((txn_id, kwargs))
        raise CommitStateUnknownError("the connection broke")

    with monkeypatch.context() as patch:
        patch.setattr(client, "commit_txn", lose)
        with pytest.raises(TxnAbortedError, match="did not arrive"):
            engine.run(INSERT, once=ONCE)
    assert list(states().values()) == ["ABORTED"]
    txn_id, kwargs = late[0]
    with pytest.raises(HiveAcidError):
        commit(txn_id, **kwargs)
    assert engine.run(INSERT, once=ONCE)[0].write_ids == {"w.t": 2}


TEMPORARY = "CREATE TEMPORARY TABLE x AS SELECT a FROM w.t"
DELETE = "DELETE FROM w.t WHERE a = 1"
ON = "INSERT INTO w.p PARTITION (k = 'n') SELECT c0 FROM x"
LATE = "INSERT INTO w.p PARTITION (k = 'm') VALUES (1)"


def inserts_fail(spec):
    if isinstance(spec.step, Insert):
        fake_failure(spec)


def test_rows_of_a_temporary_table_that_are_gone_are_not_gone_on_with(engine, fake, states):
    """
    t1  rows go into a temporary table, and are deleted from the table they were in; the INSERT of them fails
    t2  the retry fills the temporary table anew, from what is left: inserting that would lose the rows in silence
    """
    fake.meanwhile = inserts_fail
    with pytest.raises(JobFailedError):
        engine.run(f"{TEMPORARY}; {DELETE}; {ON}", once=ONCE)
    fake.meanwhile, fake.is_alive = None, True
    for later in (
        ON,
        "SELECT c0 FROM x",
        f"BEGIN; {ON}; COMMIT",
        "CREATE TEMPORARY TABLE y AS SELECT c0 FROM x",
        "CREATE TEMPORARY VIEW v AS SELECT c0 FROM x; INSERT INTO w.t SELECT c0, 'y' FROM v",
        "DELETE FROM w.t WHERE a IN (SELECT c0 FROM x)",
    ):
        with pytest.raises(InvalidArgumentsError, match=r"temporary table x was filled from w\.t, which this script"):
            engine.run(f"{TEMPORARY}; {DELETE}; {later}", once=ONCE)
    inserted = [spec for spec in fake.specs if isinstance(spec.step, Insert)]
    assert len(inserted) == 1


@pytest.mark.parametrize(
    "script",
    [
        f"{TEMPORARY}; {ON}; {LATE}",
        f"CREATE TEMPORARY TABLE x AS SELECT a FROM w.p; {DELETE}; INSERT INTO w.t SELECT c0, 'x' FROM x",
        f"{TEMPORARY}; {DELETE}; TRUNCATE TABLE x; INSERT INTO w.t SELECT c0, 'x' FROM x",
        f"{TEMPORARY}; {DELETE}; INSERT OVERWRITE TABLE x SELECT a FROM w.p; INSERT INTO w.t SELECT c0, 'x' FROM x",
        f"{TEMPORARY}; {DELETE}; DROP TABLE x; INSERT INTO w.t VALUES (2, 'x')",
        f"{TEMPORARY}; BEGIN; {DELETE}; {ON}; COMMIT; {INSERT}",
    ],
)
def test_temporary_tables_that_hold_what_they_held_are_gone_on_with(engine, fake, script):
    number = script.count("INSERT INTO w.")

    def last_fails(spec):
        nonlocal number
        number -= isinstance(spec.step, Insert)
        if isinstance(spec.step, Insert) and not number:
            fake_failure(spec)

    fake.meanwhile = last_fails
    with pytest.raises(JobFailedError):
        engine.run(script, once=ONCE)
    fake.meanwhile, fake.is_alive = None, True
    assert engine.run(script, once=ONCE)[-1].inserted == 1


@pytest.mark.every_database
def test_records_are_forgotten_by_age(engine, client, fake):
    engine.run(INSERT, once=ONCE)
    assert client.claims.forget(60_000) == 0
    assert client.claims.forget(-60_000) == 1


def test_names_of_any_language_make_a_key(engine, fake):
    once = Once(("däg/☃", "run 'x'; DROP TABLE t", "task", "3"))
    engine.run(INSERT, once=once)
    engine.run(INSERT, once=once)
    assert len(fake.specs) == 1


@pytest.mark.every_database
@pytest.mark.parametrize("retried", [True, False])
@pytest.mark.parametrize("where", ["before its locks are granted", "after", "in a statement"])
def test_locks_go_when_a_database_that_was_away_for_longer_than_all_retries_answers_again(
    engine, client, other, fake, states, monkeypatch, where, retried
):
    """
    t1  try 1 has its locks; the database goes, and stays away longer than anybody repeats anything
    t2  it is back: a retry ends the txn of try 1 and has the locks at once
    t2  or, when there is none, the process of try 1 ends it, if it lives
    """
    run, read = client.database.run, client.database.read

    def away(*_args, **_kwargs):
        raise MetastoreUnavailableError("nobody answers")

    def go(*_args, **_kwargs):
        monkeypatch.setattr(client.database, "run", away)
        monkeypatch.setattr(client.database, "read", away)
        raise MetastoreUnavailableError("nobody answers")

    monkeypatch.setattr(client.heartbeats, "_soon", lambda: 3600.0 if retried else 0.05)
    with monkeypatch.context() as patch:
        if where == "in a statement":
            fake.meanwhile = go
        else:
            name = "wait_for_locks" if where.startswith("before") else "prepare"
            patch.setattr(f"airflow_hive_acid.metastore.protocol.begin.{name}", go)
            # Locks and what comes behind them are one trip where they can be (test_lost_replies.py loses it).
            patch.setattr("airflow_hive_acid.metastore.protocol.begin.begin_at_once", lambda *_: None)
        with pytest.raises(MetastoreUnavailableError):
            engine.run(UPDATE, once=ONCE)
    monkeypatch.setattr(client.database, "run", run)
    monkeypatch.setattr(client.database, "read", read)
    if retried:
        assert list(states().values()) == ["OPEN"]
        assert client.show_locks()
        other.run(UPDATE, once=ONCE)
        assert sorted(states().values()) == ["ABORTED", "COMMITTED"]
    else:
        deadline = time.monotonic() + 20
        while "OPEN" in states().values():
            assert time.monotonic() < deadline
            time.sleep(0.02)
    assert client.show_locks() == []
