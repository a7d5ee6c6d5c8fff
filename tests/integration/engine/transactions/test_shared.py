"""Transactions that several tasks work in, on a real metastore. The Spark side is made up."""

import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import sqlalchemy as sa

from airflow_hive_acid.engine.statements.programs import Call
from airflow_hive_acid.engine.transactions import shared
from airflow_hive_acid.engine.transactions.claims import Once
from airflow_hive_acid.errors import (
    ClaimLostError,
    CommitStateUnknownError,
    InvalidArgumentsError,
    JobFailedError,
    NoSuchObjectError,
    NoSuchTxnError,
    PublishError,
    TransactionEndedError,
    TransactionLimitError,
    TurnPendingError,
    TxnAbortedError,
    UnsupportedStatementError,
    WriteConflictError,
)
from airflow_hive_acid.filesystem import AnyFilesystem
from airflow_hive_acid.format.jobs import Column, JobResult, Program
from airflow_hive_acid.maintenance.reaper.reaper import run_reaper
from airflow_hive_acid.maintenance.reaper.shared_txns import end_overdue, give_up, held_bytes, keep
from airflow_hive_acid.maintenance.warehouse.expected import published_of
from airflow_hive_acid.metastore.compaction.model import Resource
from airflow_hive_acid.metastore.listing import commits_of_txns
from airflow_hive_acid.metastore.records.claim_rules import Rerun
from airflow_hive_acid.metastore.records.shared_rules import NO_KEEPER, SharedState
from airflow_hive_acid.metastore.schema.shared_txns import HIVE_ACID_SHARED_TXN

TABLES = {"w.t": "update", "w.p": "insert"}
INSERT = "INSERT INTO w.t VALUES (1, 'x')"
UPDATE = "UPDATE w.t SET b = 'y' WHERE a = 1"
INTO_P = "INSERT INTO w.p PARTITION (k = 'new') VALUES (1)"
COUNTS = "SELECT count(*) FROM w.t"


def once(task="load.begin", life="0", run="run1", **kwargs):
    return Once(("airflow", "dag", run, task, "-1"), life=life, **kwargs)


def name(task, run="run1"):
    return ("airflow", "dag", run, task, "-1")


def begin(engine, tables=None, **kwargs):
    return engine.begin_shared(tables or TABLES, kwargs.pop("once", once()), **kwargs).txn_id


def member(engine, txn_id, task, *statements, final=True, patience=0.0):
    """A member that runs statements; what it returns is each statement's write ids."""
    with engine.joined(txn_id, name(task), patience=patience, is_final=lambda _: final):
        return [result for sql in statements for result in engine.run(sql)]


def broken(engine, fake, txn_id, task, *statements, final=False):
    """A member whose last statement fails in Spark, after it has written its files."""
    runs = []

    def fail_last(spec):
        runs.append(spec)
        if len(runs) == len(statements):
            raise JobFailedError("out of memory")

    fake.meanwhile = fail_last
    with pytest.raises((JobFailedError, TransactionEndedError)) as failure:
        member(engine, txn_id, task, *statements, final=final)
    fake.meanwhile, fake.is_alive = None, True
    return failure.value


def age(client, txn_id, **columns):
    """Let what is recorded of a transaction be older."""
    table = HIVE_ACID_SHARED_TXN
    values = {column: table.c[column] - milliseconds for column, milliseconds in columns.items()}
    client.database.run(
        lambda connection: connection.execute(sa.update(table).where(table.c.HST_TXNID == txn_id).values(values))
    )


@pytest.mark.every_database
def test_two_tables_two_members_one_commit(engine, other, client, fake, listing, states):
    """
    t1  begin: two tables are locked, one snapshot
    t2                one member writes w.t twice           (its own Spark application)
    t3                another reads w.t: it sees delta 1_1_0 and 1_1_1; it writes a new partition of w.p
    t4  nobody else sees anything
    t5  commit: both tables, and the partition, at once
    """
    txn_id = begin(engine)
    first = member(engine, txn_id, "load.t", INSERT, UPDATE)
    assert [result.write_ids for result in first] == [{"w.t": 1}, {"w.t": 1}]
    with other.joined(txn_id, name("load.p")):
        other.fake.answer = [[1]]
        other.run(COUNTS)
        (view,) = other.fake.specs[-1].views
        assert "w.t:1:" in view.snapshot.write_ids
        other.run(INTO_P)
    assert client.catalog.find_partitions("w.p", ["k=new"]) == {}
    assert client.get_valid_write_ids(["w.t"])["w.t"].is_valid(1) is False
    txn, results = engine.commit_shared(txn_id)
    assert txn.state is SharedState.COMMITTED
    assert [result["kind"] for result in results] == ["insert", "update", "select", "insert"]
    assert states() == {txn_id: "COMMITTED"}
    assert list(client.catalog.find_partitions("w.p", ["k=new"])) == ["k=new"]
    names = [entry for entry in listing("w.t") if "/" not in entry]
    assert names == [
        "delete_delta_0000001_0000001_0001", "delta_0000001_0000001_0000", "delta_0000001_0000001_0002",
    ]  # fmt: skip


@pytest.mark.rule("R17")
def test_commit_is_applied_once(engine, other, client, monkeypatch, states):
    """
    t1  a member writes; the commit is sent, it succeeds, and its answer is lost
    t2  the commit is tried again, by another process: it finds the result
    t3  somebody gives the transaction up: it stays committed
    """
    txn_id = begin(engine)
    member(engine, txn_id, "load.t", INSERT)
    commit = client.commit_txn

    def lost(txn_id, **kwargs):
        commit(txn_id, **kwargs)
        raise CommitStateUnknownError("the answer was lost")

    monkeypatch.setattr(client, "commit_txn", lost)
    with pytest.raises(CommitStateUnknownError):
        engine.commit_shared(txn_id)
    monkeypatch.setattr(client, "commit_txn", commit)
    txn, results = other.commit_shared(txn_id)
    assert (txn.state, [result["inserted"] for result in results]) == (SharedState.COMMITTED, [1])
    assert give_up(client, AnyFilesystem(), txn_id, "X", "too late").state is SharedState.COMMITTED
    assert states() == {txn_id: "COMMITTED"}
    with pytest.raises(TransactionEndedError, match="is committed; clear the task that begins it"):
        member(engine, txn_id, "load.late", INSERT)


@pytest.mark.every_database
@pytest.mark.rule("R17")
def test_commit_that_did_not_arrive_is_sent_again(engine, client, monkeypatch, states):
    txn_id = begin(engine)
    member(engine, txn_id, "load.t", INSERT)
    commit = client.commit_txn

    def away(txn_id, **kwargs):
        raise CommitStateUnknownError("the connection broke")

    monkeypatch.setattr(client, "commit_txn", away)
    with pytest.raises(CommitStateUnknownError):
        engine.commit_shared(txn_id)
    assert states() == {txn_id: "OPEN"}
    monkeypatch.setattr(client, "commit_txn", commit)
    engine.commit_shared(txn_id)
    assert states() == {txn_id: "COMMITTED"}


@pytest.mark.every_database
def test_commit_that_another_try_has_taken_over_is_refused(engine, other, client, monkeypatch, states):
    """
    t1  try 1 is about to send its commit
    t2  try 2 takes over and commits
    t3  try 1 goes on: refused, and what is committed stays so
    """
    txn_id = begin(engine)
    member(engine, txn_id, "load.t", INSERT)
    commit, taken = client.commit_txn, []

    def late(txn_id, **kwargs):
        if not taken:
            taken.append(client.shared_txns.take_turn(txn_id, "", "", 60_000))
        commit(txn_id, **kwargs)

    monkeypatch.setattr(client, "commit_txn", late)
    with pytest.raises(ClaimLostError, match="another try commits it"):
        engine.commit_shared(txn_id)
    assert states() == {txn_id: "OPEN"}
    other.commit_shared(txn_id)
    assert states() == {txn_id: "COMMITTED"}


@pytest.mark.rule("R5")
@pytest.mark.rule("R14")
def test_retry_of_a_member_undoes_what_its_first_try_published(engine, client, fake, listing, states):
    """
    t1  one member is done
    t2  another publishes one statement, its second fails: undone, statement ids are not used again
    t3  it is tried again, and commits: each row is there once
    """
    txn_id = begin(engine)
    member(engine, txn_id, "load.first", INSERT)
    broken(engine, fake, txn_id, "load.second", INSERT, UPDATE)
    assert [e for e in listing("w.t") if "/" not in e and not e.startswith("_")] == ["delta_0000001_0000001_0000"]
    member(engine, txn_id, "load.second", INSERT, UPDATE)
    engine.commit_shared(txn_id)
    names = [entry for entry in listing("w.t") if "/" not in entry and entry.startswith("de")]
    assert names == [
        "delete_delta_0000001_0000001_0005", "delta_0000001_0000001_0000", "delta_0000001_0000001_0004",
        "delta_0000001_0000001_0006",
    ]  # fmt: skip
    assert states() == {txn_id: "COMMITTED"}
    # What was undone is not looked for by those who read now, and not counted in the log of commits.
    (published,) = published_of(client, "w.t").values()
    assert sorted(directory for directory, _ in published) == names
    with client.database.reading() as connection:
        (commit,) = commits_of_txns(connection, client.database.features(connection), [txn_id], 0)
    assert (commit.volume.inserted, commit.volume.files) == (4, 8)


@pytest.mark.rule("R5")
@pytest.mark.parametrize("goes_on", [True, False])
def test_half_a_statement_is_not_committed_because_its_task_has_caught_the_failure(
    engine, client, listing, fake, goes_on
):
    """
    t1  an INSERT into two partitions publishes one of them; the other one cannot be published
    t2  the task catches that, and goes on, or ends as if nothing had happened: it fails, and all of it is undone
    t3  its second try writes everything; the commit shows each row once
    """
    client.catalog.add_partitions("w.p", ["k=a"])
    fake.partitions = [("a",), ("b",)]
    location = client.catalog.get_table("w.p").location.removeprefix("file:").replace("///", "/")
    in_the_way = Path(location) / "k=b" / "delta_0000001_0000001_0000"
    in_the_way.mkdir(parents=True)
    txn_id = begin(engine)

    def work():
        with engine.joined(txn_id, name("load.p"), is_final=lambda _: False):
            with pytest.raises(PublishError):
                engine.run("INSERT INTO w.p SELECT 1, 'x'")
            if goes_on:
                with pytest.raises(PublishError):
                    engine.run(INTO_P)

    with pytest.raises(PublishError, match="exists already") as failure:
        work()
    assert "this try can do nothing more" in " ".join(failure.value.__notes__)
    assert [entry for entry in listing("w.p") if "delta" in entry] == []
    member(engine, txn_id, "load.p", "INSERT INTO w.p SELECT 1, 'x'", INTO_P)
    engine.commit_shared(txn_id)
    assert [entry for entry in listing("w.p") if entry.endswith("bucket_00000")] == [
        f"k={k}/delta_0000001_0000001_000{statement}/bucket_00000" for k, statement in (("a", 1), ("b", 1), ("new", 2))
    ]


def test_a_query_that_fails_keeps_no_task_from_its_work(engine, fake, listing):
    txn_id = begin(engine)
    with engine.joined(txn_id, name("load.t")):
        fake.fail("JobFailedError", "out of memory")
        with pytest.raises(JobFailedError):
            engine.query(COUNTS)
        fake.meanwhile = None
        engine.run(INSERT)
    engine.commit_shared(txn_id)
    assert "delta_0000001_0000001_0000" in listing("w.t")


@pytest.mark.rule("R14")
def test_retry_of_a_member_that_had_finished_returns_its_results(engine, other):
    txn_id = begin(engine)
    first = member(engine, txn_id, "load.t", INSERT, UPDATE)
    again = member(other, txn_id, "load.t", INSERT, UPDATE)
    assert [result.directories for result in again] == [result.directories for result in first]
    assert not other.fake.specs
    with pytest.raises(InvalidArgumentsError, match="did something else as its step 1"):
        member(other, txn_id, "load.t", UPDATE)


@pytest.mark.rule("R5")
def test_try_that_was_taken_over_publishes_nothing_more(engine, other, fake, listing):
    """
    t1  try 1 publishes a statement, and hangs in its second
    t2  try 2 takes over: it fences and undoes try 1, writes, finishes
    t3  try 1 goes on: it is refused, and undoes nothing of try 2
    """
    txn_id = begin(engine)
    runs = []

    def hang(spec):
        runs.append(spec)
        result = fake.work(spec)
        if len(runs) == 2:
            member(other, txn_id, "load.t", INSERT)
        return result

    fake.meanwhile = hang
    with pytest.raises(Exception, match=r"fenced|another try"):
        member(engine, txn_id, "load.t", INSERT, INSERT, final=False)
    engine.commit_shared(txn_id)
    assert [e for e in listing("w.t") if e.startswith("delta") and "/" not in e] == ["delta_0000001_0000001_0002"]


@pytest.mark.rule("R14")
def test_member_that_was_killed_is_undone_by_whoever_comes_next(engine, other, client, fake, listing):
    """
    t1  a member publishes a statement, and its process dies: nobody extends its turn
    t2  another member has to wait
    t3  the turn is over: the other undoes what was left, and works
    t4  the commit is refused as long as the killed one has not been tried again
    """
    txn_id = begin(engine)
    client.shared_txns.take_turn(txn_id, "somebody", "somebody", 0)  # a turn that was over at once
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("airflow_hive_acid.engine.transactions.shared._failed", lambda *_args, **_kwargs: None)
        broken(engine, fake, txn_id, "load.killed", INSERT, INSERT)
    with pytest.raises(TurnPendingError, match=r"task load\.killed of DAG dag, run run1 is at work in it"):
        member(other, txn_id, "load.next", INTO_P)
    age(client, txn_id, HST_TURN_UNTIL=3_600_000)
    member(other, txn_id, "load.next", INTO_P)
    assert [e for e in listing("w.t") if e.startswith("delta")] == []
    with pytest.raises(TransactionEndedError, match=r"has begun to work in it and not finished"):
        other.commit_shared(txn_id)


@pytest.mark.every_database
@pytest.mark.rule("R5")
def test_members_that_run_at_the_same_time_take_turns(engine, other, fake, listing):
    """
    t1  A is at work; B wants to begin, and waits
    t2  A goes on when B is known to wait, and finishes
    t3  B works: the statement ids of both are different
    """
    txn_id, waits = begin(engine), threading.Event()
    fake.meanwhile = lambda spec: waits.wait(60) and None
    with pytest.MonkeyPatch.context() as patch, ThreadPoolExecutor(2) as pool:
        patch.setattr(shared, "_POLL_SECONDS", 0.01)
        at_work = threading.Event()

        def first():
            with engine.joined(txn_id, name("load.a")):
                at_work.set()
                return engine.run(INSERT)

        def second():
            assert at_work.wait(60)
            patch.setattr(shared.time, "sleep", lambda seconds: (waits.set(), threading.Event().wait(seconds)))
            return member(other, txn_id, "load.b", INSERT, patience=60)

        for done in [pool.submit(first), pool.submit(second)]:
            assert [result.inserted for result in done.result(120)] == [1]
    engine.commit_shared(txn_id)
    assert [entry for entry in listing("w.t") if "/" not in entry] == [
        "delta_0000001_0000001_0000", "delta_0000001_0000001_0001",
    ]  # fmt: skip


@pytest.mark.every_database
def test_commit_of_a_txn_that_was_aborted_from_outside_says_so(engine, client):
    txn_id = begin(engine)
    member(engine, txn_id, "load.t", INSERT)
    client.abort_txns([txn_id])
    with pytest.raises(TxnAbortedError, match="abort"):
        engine.commit_shared(txn_id)
    record = client.shared_txns.get(txn_id)
    assert (record.state, record.error) == (SharedState.ABORTED, "TxnAbortedError")


def test_failure_for_good_gives_everything_up_at_once(engine, other, client, fake, states):
    txn_id = begin(engine)
    member(engine, txn_id, "load.first", INSERT)
    failure = broken(engine, fake, txn_id, "load.second", INSERT, final=True)
    assert isinstance(failure, TransactionEndedError)
    assert states() == {txn_id: "ABORTED"}
    assert client.show_locks() == []
    with pytest.raises(TransactionEndedError, match="a task of it failed: JobFailedError: out of memory"):
        member(other, txn_id, "load.third", INTO_P)
    with pytest.raises(TransactionEndedError, match="out of memory"):
        other.commit_shared(txn_id)
    assert {job.state.name for job in client.jobs.of_txn(txn_id)} == {"FENCED"}


def test_overwrite_of_what_another_member_wrote_cannot_be_undone_alone(engine, fake, states):
    """The second member's base took the place of the first one's; then it fails."""
    txn_id = begin(engine, {"w.t": "overwrite"})
    member(engine, txn_id, "load.first", "INSERT OVERWRITE TABLE w.t VALUES (1, 'x')")
    failure = broken(
        engine, fake, txn_id, "load.second", "INSERT OVERWRITE TABLE w.t VALUES (2, 'y')", "SELECT 1 FROM w.t"
    )
    assert "which another task of the transaction has written; that cannot be undone alone" in str(failure)
    assert states() == {txn_id: "ABORTED"}


def test_overwrite_truncate_and_new_partitions_of_members_are_committed_together(engine, other, client, listing):
    txn_id = begin(engine, {"w.t": "overwrite", "w.p": "overwrite"})
    member(engine, txn_id, "load.a", "TRUNCATE TABLE w.t", INTO_P)
    member(other, txn_id, "load.b", INSERT, INTO_P, "INSERT INTO w.p PARTITION (k = 'two') VALUES (1)")
    engine.commit_shared(txn_id)
    assert [e for e in listing("w.t") if "/" not in e] == ["base_0000001"]
    assert sorted(client.catalog.find_partitions("w.p", ["k=new", "k=two"])) == ["k=new", "k=two"]
    assert len([e for e in listing("w.p") if e.startswith("k=new/delta") and e.count("/") == 1]) == 2


@pytest.mark.every_database
@pytest.mark.rule("R2")
def test_two_transactions_that_change_the_same_conflict_at_the_commit(engine, other, client, states):
    """
    t1  A begins and updates w.t                    B begins and updates w.t
    t2  A commits
    t3                                              B's commit is refused; it names A, its DAG run and task
    """
    first = begin(engine, {"w.t": "update"})
    second = begin(other, {"w.t": "update"}, once=once(run="run2"))
    member(engine, first, "load.t", UPDATE)
    with other.joined(second, name("load.t", "run2")):
        other.run(UPDATE)
    engine.commit_shared(first)
    with pytest.raises(WriteConflictError, match="tests"):
        other.commit_shared(second)
    record = client.shared_txns.get(second)
    assert (record.state, record.error) == (SharedState.ABORTED, "WriteConflictError")
    assert states() == {first: "COMMITTED", second: "ABORTED"}


@pytest.mark.every_database
@pytest.mark.rule("R14")
def test_begin_that_is_tried_again_fences_the_transaction_before(engine, other, client, states):
    first = begin(engine)
    second = begin(other)
    assert states() == {first: "ABORTED", second: "OPEN"}
    assert client.shared_txns.get(first).state is SharedState.ABORTED
    member(other, second, "load.t", INSERT)
    other.commit_shared(second)
    (result,) = engine.begin_shared(TABLES, once())
    assert (result.txn_id, result.inserted) == (second, 1)
    client.claims.acknowledge(once().scope)
    (result,) = engine.begin_shared(TABLES, once(life="1", on_rerun=Rerun.SKIP))
    assert result.txn_id == second
    third = begin(engine, once=once(life="1"))
    assert states()[third] == "OPEN"


@pytest.mark.every_database
@pytest.mark.rule("R9")
def test_member_stops_when_the_keeper_has_gone(engine, client, fake, states, monkeypatch):
    """
    t1  the keeper beats; a member works
    t2  the keeper is silent for too long: a member that is at work finds out, its Spark job is cancelled
    t3  whoever comes later fails at once
    """
    monkeypatch.setattr("airflow_hive_acid.engine.transactions.shared._LOOK_SECONDS", 0.01)
    txn_id = begin(engine)
    assert not keep(client, AnyFilesystem(), txn_id, measure=False).ended
    member(engine, txn_id, "load.first", INSERT)

    def dies(spec):
        age(client, txn_id, HST_KEPT=3_600_000)
        until(lambda: not fake.is_alive)

    fake.meanwhile = dies
    with pytest.raises(TransactionLimitError, match=r"the keeper of txn .* of DAG dag, run run1 has gone"):
        member(engine, txn_id, "load.second", INSERT, final=False)
    assert states() == {txn_id: "ABORTED"}
    with pytest.raises(TransactionLimitError, match="Look at the triggerer"):
        member(engine, txn_id, "load.third", INSERT)


@pytest.mark.rule("R9")
def test_member_stops_when_the_txn_was_aborted_from_outside(engine, client, fake, states):
    """Somebody aborts it by hand while a member works: nothing of the member is published, and no retry helps."""
    txn_id = begin(engine)
    fake.meanwhile = lambda spec: client.abort_txns([txn_id]) and None
    with pytest.raises(TransactionEndedError, match="was given up"):
        member(engine, txn_id, "load.t", INSERT, INSERT)
    assert states() == {txn_id: "ABORTED"}
    assert client.shared_txns.get(txn_id).state is SharedState.ABORTED


@pytest.mark.every_database
@pytest.mark.rule("R9")
def test_keeper_keeps_it_alive_and_notices_its_end(engine, client, states):
    files = AnyFilesystem()
    committed, aborted, outside = (begin(engine, once=once(run=f"run{i}"), tables={"w.t": "insert"}) for i in range(3))
    assert not keep(client, files, committed, measure=True).ended
    before = client.shared_txns.get(committed).kept
    assert before is not None
    engine.commit_shared(committed)
    assert keep(client, files, committed, measure=True).txn.state is SharedState.COMMITTED
    # Marked, and then the process died: the keeper goes on where it ended.
    client.shared_txns.mark_aborted(aborted, "X", "somebody gave it up")
    assert states()[aborted] == "OPEN"
    assert keep(client, files, aborted, measure=False).ended
    client.abort_txn(outside)
    kept = keep(client, files, outside, measure=False)
    assert (kept.ended, kept.limit) == (True, False)
    assert "aborted from outside" in kept.txn.reason
    assert keep(client, files, 4711, measure=False).txn is None
    assert states() == {committed: "COMMITTED", aborted: "ABORTED", outside: "ABORTED"}


@pytest.mark.every_database
def test_limits_on_age_and_on_what_is_held_back(engine, client, fake, states):
    """
    t1  the Cleaner notes that it keeps a directory of w.t for the txn
    t2  the keeper measures it: more than the limit
    t3  another transaction is too old: its keeper, or the reaper, ends it; the text names DAG, run and task
    """
    files = AnyFilesystem()
    engine.run(INSERT)
    (directory,) = [d.uri for d in _directories(client)]
    held = begin(engine, {"w.t": "insert"}, most_bytes=4)
    client.cleanings.note(
        Resource("w", "t", None), 7, "kept", "somebody reads it",
        {"kept": [directory.rpartition("/")[2], "and 1 more"], "for": [{"txn": held, "user": "u"}]}, lasts=True,
    )  # fmt: skip
    assert held_bytes(client, files, client.shared_txns.get(held)) > 4
    assert not keep(client, files, held, measure=False).ended
    kept = keep(client, files, held, measure=True)
    assert kept.limit
    assert "holds back" in kept.txn.reason
    assert "more than the 4 that it may" in kept.txn.reason

    old, reaped = (begin(engine, {"w.t": "insert"}, once=once(run=f"r{i}"), max_age=3600) for i in (2, 3))
    for txn_id in (old, reaped):
        age(client, txn_id, HST_BEGUN=7_200_000, HST_UNTIL=7_200_000)
    assert keep(client, files, old, measure=False).limit
    report = run_reaper(client, files)
    (why,) = report.overdue
    assert "task load.begin of DAG dag, run r3 was begun at" in why
    assert why in str(report)
    with pytest.raises(TransactionLimitError, match="longer than it may be"), engine.joined(reaped, name("x", "r3")):
        raise AssertionError("not reached")
    assert {client.shared_txns.get(txn_id).state for txn_id in (held, old, reaped)} == {SharedState.ABORTED}
    assert "OPEN" not in states().values()
    assert client.show_locks() == []


def _directories(client):
    from airflow_hive_acid.filesystem.publishing import Manifest
    from tests.jobs import jobs_of

    return [
        d
        for job in jobs_of(client, "w.t")
        if job.write_id is not None  # not that of CREATE TABLE
        for d in Manifest.from_document(job.manifest).directories
    ]  # fmt: skip


@pytest.mark.every_database
def test_transaction_whose_tasks_never_end_it_is_reaped(engine, client, states):
    """Nobody sends heartbeats any more: the txn times out, and its record says whose it was."""
    txn_id = begin(engine)
    client.abort_txns([txn_id])  # what a time-out does, a Hive's too
    (why,) = end_overdue(client, AnyFilesystem())
    assert why.startswith(f"txn {txn_id} of task load.begin of DAG dag, run run1 was left open")
    assert end_overdue(client, AnyFilesystem()) == []
    assert client.shared_txns.forget(-3_600_000) == 1
    with pytest.raises(NoSuchTxnError, match="clear the task that begins it"):
        client.shared_txns.get(txn_id)
    assert client.shared_txns.members(txn_id) == []


def test_bad_input_is_refused_before_anything_is_opened(engine, client, states):
    engine.run("CREATE TABLE w.plain (a INT) STORED AS ORC TBLPROPERTIES ('transactional'='false')")
    for tables, words in (
        ({}, "tables is empty"),
        ({"w.t": "drop"}, r"tables\['w\.t'\] must be one of"),
        ({"w.none": "insert"}, r"w\.none"),
        ({"w.t; DROP TABLE TXNS": "insert"}, "tables must be"),
        ({"w.plain": "insert"}, r"w\.plain has no transactions"),
    ):
        with pytest.raises((InvalidArgumentsError, UnsupportedStatementError, NoSuchObjectError), match=words):
            engine.begin_shared(tables, once())
    with pytest.raises(InvalidArgumentsError, match="max_age"):
        engine.begin_shared(TABLES, once(), max_age=0)
    assert "OPEN" not in states().values()
    txn_id = begin(engine)
    with pytest.raises(InvalidArgumentsError, match="its own DAG run"), engine.joined(txn_id, name("x", "run2")):
        raise AssertionError("not reached")
    for sql, words in (
        ("DROP TABLE w.t", "cannot run inside a transaction"),
        ("BEGIN; COMMIT", "remove it"),
        ("DELETE FROM w.p", "was begun with insert on w.p"),
    ):
        with pytest.raises((InvalidArgumentsError, UnsupportedStatementError), match=words):
            member(engine, txn_id, "load.bad", sql, final=False)
    with pytest.raises(UnsupportedStatementError, match="Export after the commit"), _joined(engine, txn_id):
        engine.export("SELECT 1", None)
    with pytest.raises(NoSuchTxnError, match="no transaction across tasks"):
        member(engine, 4711, "load.t", INSERT)
    assert client.shared_txns.keep(txn_id, NO_KEEPER).kept == NO_KEEPER


def _joined(engine, txn_id):
    return engine.joined(txn_id, name("load.export"), is_final=lambda _: False)


def test_programs_are_members_too(engine, fake):
    """A function of one's own asks for changes; they are made in the shared txn, once for all its tries."""
    txn_id = begin(engine)
    fake.answer = [[json.dumps([{"action": "delete", "table": "w.t", "where": "a = 1", "parameters": None}]), '"done"']]
    call = Call("program.py", {"w.t": "update"}, "def main(job): ...")
    answer = JobResult("job", "fake-1", columns=(Column("changes", "string"), Column("returned", "string")), rows=1)
    fake.meanwhile = lambda spec: answer if isinstance(spec.step, Program) else None
    results = []
    for _ in range(2):
        with engine.joined(txn_id, name("load.program")):
            results.append(engine.call(call))
    assert [(r.kind, r.txn_id, r.rows.rows) for r in results] == [("program", txn_id, [['"done"']])] * 2
    assert [type(spec.step).__name__ for spec in fake.specs] == ["Program", "Delete"]
    engine.commit_shared(txn_id)


def until(condition):
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)
