"""Streams without Spark: conversations, and processes that die at every step of a micro-batch (R4, R14, R17)."""

from __future__ import annotations

from dataclasses import replace

import pytest
import sqlalchemy as sa

from airflow_hive_acid.engine import Engine
from airflow_hive_acid.engine.definitions import alter
from airflow_hive_acid.engine.transactions.transaction import StatementTransaction
from airflow_hive_acid.errors import (
    BackPressureError,
    BadRecordError,
    ClaimLostError,
    CommitStateUnknownError,
    InvalidArgumentsError,
    JobFailedError,
    MetastoreUnavailableError,
    StreamBusyError,
    StreamSchemaError,
    WriteConflictError,
)
from airflow_hive_acid.format.jobs import Column
from airflow_hive_acid.format.jobs.documents import spec_from_json, to_json
from airflow_hive_acid.metastore.schema.streams import HIVE_ACID_STREAM

from .applications import Application, visible


@pytest.mark.every_database
def test_micro_batches_are_committed_in_order_and_replayed_ones_are_skipped(client, table, process, fake):
    here = process()
    app = Application(here.spool, fake).open()
    assert app.opened == {"is": "opened", "batch": -1}
    for number in range(3):
        assert app.batch(number, offsets={"sources": str(number)})["again"] is False
    assert app.batch(2) == {"is": "committed", "again": True}
    assert len(visible(client, table)) == len(list(table.glob("delta_*"))) == 3
    assert app.talk.ask({"ask": "close"}) == {"is": "closed"}
    assert [(s.committed, s.problem) for s in here.stop()] == [(3, None)]
    found = client.streams.find("s")
    assert (found.batch, found.rows, found.offsets, found.running) == (2, 3, '{"sources": "2"}', False)


@pytest.mark.parametrize(("number", "end"), [(2, "21"), (1, "20"), (0, "0")])
def test_a_number_that_is_taken_is_refused_to_rows_of_an_older_checkpoint(client, table, process, fake, number, end):
    """
    t1  stream s commits micro-batches 0 to 2, up to offset 20
    t2  its query is started from an older checkpoint, and makes a micro-batch of all that the source has since
    t3  then from the right one, which repeats the last micro-batch
    """
    app = Application(process().spool, fake).open()
    for each in range(3):
        app.batch(each, offsets={"ends": [str(each * 10)]})
    app.talk.close()
    restored = Application(process().spool, fake).open()
    with pytest.raises(InvalidArgumentsError, match=r"up to micro-batch 2, and the checkpoint .* is older"):
        restored.batch(number, offsets={"ends": [end]})
    restored.talk.close()
    right = Application(process().spool, fake).open()
    assert right.batch(2, offsets={"ends": ["20"]}) == {"is": "committed", "again": True}
    assert right.batch(3, offsets={"ends": ["30"]})["again"] is False
    right.talk.close()
    assert len(visible(client, table)) == 4


def test_a_start_behind_micro_batches_that_are_not_committed_any_more_is_refused(client, table, process, fake):
    """
    t1  stream s commits micro-batches 0 to 2
    t2  the metastore is restored from a backup of before micro-batch 1
    t3  its query is started from its checkpoint, which is behind micro-batch 2
    """
    app = Application(process().spool, fake).open()
    for number in range(3):
        app.batch(number)
    app.talk.close()
    client.database.run(lambda connection: connection.execute(sa.update(HIVE_ACID_STREAM).values(HSR_BATCH=0)))
    late = Application(process().spool, fake).open()
    for _ in range(2):
        with pytest.raises(
            InvalidArgumentsError, match=r"committed, 0: those between are not in w\.t, .* on_gap='ignore'"
        ):
            late.batch(3)
    late.talk.close()
    assert (client.streams.find("s").batch, len(visible(client, table))) == (0, 3)
    knowing = Application(process().spool, fake, on_gap="ignore").open()
    assert knowing.batch(3)["again"] is False
    knowing.talk.close()
    assert len(visible(client, table)) == 4


def test_a_program_that_leaves_micro_batches_out_may_while_it_runs(client, table, process, fake):
    app = Application(process().spool, fake).open()
    assert [app.batch(number)["again"] for number in (0, 2, 5)] == [False] * 3
    app.talk.close()
    again = Application(process().spool, fake).open()
    assert [again.batch(number)["again"] for number in (5, 9)] == [True, False]
    again.talk.close()
    assert len(visible(client, table)) == 4


@pytest.mark.parametrize(("first", "warned"), [(0, False), (7, True)])
def test_a_stream_that_nobody_knows_says_when_it_begins_in_the_midst_of_its_checkpoint(
    process, fake, caplog, first, warned
):
    app = Application(process().spool, fake).open()
    assert app.batch(first)["again"] is False
    app.talk.close()
    assert (f"stream s begins with micro-batch {first}" in caplog.text) is warned


def test_a_program_that_numbers_its_micro_batches_itself_may_repeat_any(client, table, process, fake):
    app = Application(process().spool, fake, source="-").open()
    for number in (0, 1):
        app.batch(number)
    assert [app.batch(number)["again"] for number in (0, 1, 2)] == [True, True, False]
    app.talk.close()
    assert len(visible(client, table)) == 3


STEPS = ["begin", "written", "publishing", "committing", "committed"]


@pytest.mark.parametrize("step", STEPS)
def test_r14_a_process_that_dies_at_a_step_is_gone_on_with_and_each_micro_batch_is_there_once(
    client, table, process, fake, step, monkeypatch
):
    """The process dies in micro-batch 1; another one of the same name goes on with the application's repetition."""
    first = process()
    app = Application(first.spool, fake, idle=2.0).open()
    app.batch(0)
    patches = {
        "publishing": ("airflow_hive_acid.engine.transactions.transaction.publish", None),
        "committing": (StatementTransaction, "commit"),
    }
    with monkeypatch.context() as patch:
        if step == "publishing":
            patch.setattr(patches[step][0], lambda *_args: first.die())
        elif step == "committing":
            patch.setattr(StatementTransaction, "commit", lambda self: first.die())
        elif step == "committed":
            commit = StatementTransaction.commit
            patch.setattr(StatementTransaction, "commit", lambda self: (commit(self), first.die()))
        answer = app.begin(1)
        if step == "begin":
            with pytest.raises(MetastoreUnavailableError):
                first.die()
        elif step == "written":
            question = app.write(answer)
            with pytest.raises(MetastoreUnavailableError):
                first.die()
            assert question["ask"] == "result"
        else:
            with pytest.raises((JobFailedError, MetastoreUnavailableError)):
                app.talk.ask(app.write(answer))
        first.stop()
    second = process()
    again = Application(second.spool, fake).open()
    assert again.opened["batch"] == (1 if step == "committed" else 0)
    assert again.batch(1)["again"] is (step == "committed")
    assert again.batch(2)["again"] is False
    again.talk.close()
    names = visible(client, table)
    assert len(names) == 3
    # R4: whatever the first process had begun cannot become visible any more.
    open_txns = [t for t in client.show_transactions() if t.state.name == "OPEN"]
    assert open_txns == []
    assert client.streams.find("s").batches == 3


def test_an_application_that_dies_leaves_nothing_and_the_next_one_repeats_the_micro_batch(client, table, process, fake):
    first = process()
    app = Application(first.spool, fake).open()
    assert app.begin(0)["is"] == "step"
    app.die()
    first.application_died()
    assert [s.problem for s in first.stop()] == ["the streaming application ended with code 137"]
    second = process(who="another")
    again = Application(second.spool, fake).open()
    assert again.opened["batch"] == -1
    assert again.batch(0)["again"] is False
    again.talk.close()
    assert len(visible(client, table)) == 1


@pytest.mark.every_database
def test_one_stream_run_twice_at_once_is_refused_and_a_taken_over_one_commits_nothing(client, table, process, fake):
    """
    t1  process a runs stream s, and begins micro-batch 0
    t2           b opens stream s: refused
    t3           a's own second try opens it: taken over
    t4  a's first try tells its result: refused, nothing visible
    """
    first = process("a")
    app = Application(first.spool, fake).open()
    question = app.write(app.begin(0))
    with pytest.raises(StreamBusyError, match="stream s is run by a"):
        Application(process("b").spool, fake).open()
    second = process("a")
    retried = Application(second.spool, fake).open()
    with pytest.raises(ClaimLostError):
        app.talk.ask(question)
    assert visible(client, table) == []
    assert retried.batch(0)["again"] is False
    assert len(visible(client, table)) == 1
    for each in (app, retried):
        each.talk.close()


def test_one_stream_of_two_applications_that_one_server_answers_is_refused(client, table, process, fake):
    here = process(several=True)
    app = Application(here.spool, fake).open()
    with pytest.raises(StreamBusyError, match="stream s is run by me, application app-1"):
        Application(here.spool, fake, application_id="app-2").open()
    assert app.batch(0)["again"] is False
    app.talk.close()
    assert Application(here.spool, fake, application_id="app-2").open().opened["batch"] == 0


def test_a_micro_batch_that_others_were_in_the_way_of_is_tried_again_at_once(client, table, process, fake, monkeypatch):
    app = Application(process().spool, fake).open()
    commit, conflicts = StatementTransaction.commit, [WriteConflictError("w.t was changed by txn 1")]

    def refused_once(transaction):
        if conflicts:
            failure = conflicts.pop()
            transaction.abort_after(failure)
            raise failure
        commit(transaction)

    monkeypatch.setattr(StatementTransaction, "commit", refused_once)
    answer = app.begin(0)
    while answer["is"] == "step":
        answer = app.talk.ask(app.write(answer))
    assert answer["again"] is False
    app.talk.close()
    assert (len(visible(client, table)), client.streams.find("s").batches, conflicts) == (1, 1, [])


@pytest.mark.rule("R17")
def test_a_program_may_leave_micro_batches_out_after_a_commit_that_was_looked_up(
    client, table, process, fake, monkeypatch
):
    app = Application(process().spool, fake).open()
    commit = StatementTransaction.commit

    def unheard(transaction):
        commit(transaction)
        raise CommitStateUnknownError("the answer was lost")

    with monkeypatch.context() as patch:
        patch.setattr(StatementTransaction, "commit", unheard)
        assert app.batch(0)["again"] is False
    assert app.batch(4)["again"] is False
    app.talk.close()
    assert len(visible(client, table)) == 2


def test_two_streams_into_one_table_do_not_disturb_each_other(client, table, process, fake):
    here = process()
    apps = [Application(here.spool, fake, stream=name).open() for name in ("s", "other")]
    begun = [app.begin(0) for app in apps]
    assert [app.talk.ask(app.write(answer))["again"] for app, answer in zip(apps, begun, strict=True)] == [False] * 2
    assert [app.batch(1)["again"] for app in apps] == [False, False]
    assert len(visible(client, table)) == 4
    for app in apps:
        app.talk.close()
    assert {s.name: s.batch for s in client.streams.all()} == {"s": 1, "other": 1}


def test_a_bad_record_aborts_its_micro_batch_and_the_stream_may_go_on(client, table, process, fake):
    app = Application(process().spool, fake).open()
    fake.fail("BadRecordError", "micro-batch 0 of stream s: column a: the value x is no int; the row is {}")
    answer = app.begin(0)
    result = fake.meanwhile(spec_from_json(answer["spec"]))
    with pytest.raises(BadRecordError, match="column a: the value x is no int"):
        app.talk.ask({"ask": "result", "result": to_json(result)})
    fake.meanwhile = None
    assert app.batch(0, quarantined=2)["again"] is False
    app.talk.close()
    assert (len(visible(client, table)), client.streams.find("s").quarantined) == (1, 2)


def test_a_new_column_is_added_to_the_table_or_refused_by_name(client, table, process, fake):
    here = process()
    wide = (("a", "int"), ("b", "string"), ("c", "decimal(5,2)"))
    strict = Application(here.spool, fake).open()
    with pytest.raises(StreamSchemaError, match=r"column c \(decimal\(5,2\)\) of stream s is not in w.t"):
        strict.batch(0, wide)
    strict.talk.close()
    free = Application(here.spool, fake, stream="free", on_new_column="add", on_missing_column="null").open()
    free.batch(0, wide)
    free.batch(1)
    free.talk.close()
    assert [c.name for c in client.catalog.get_table("w.t").columns] == ["a", "b", "c"]
    assert [spec.step.columns for spec in fake.specs[-2:]] == [(), ()]
    assert " ".join(fake.specs[-1].step.query.split()).startswith("SELECT `a`, `b`, NULL AS `c` FROM")


@pytest.mark.every_database
def test_two_streams_that_bring_the_same_new_column_both_go_on(client, table, process, fake, monkeypatch):
    """t1  stream s finds a column that the table lacks; t2  another stream adds it; t3  s adds it, too"""
    usual = alter.run_alter

    def late(context, statement):
        client.catalog.add_columns("w.t", [Column("c", "int")])
        return usual(context, statement)

    monkeypatch.setattr(alter, "run_alter", late)
    app = Application(process().spool, fake, on_new_column="add").open()
    wide = (("a", "int"), ("b", "string"), ("c", "int"))
    assert app.batch(0, wide)["again"] is False
    assert app.batch(1, wide)["again"] is False
    app.talk.close()
    assert [c.name for c in client.catalog.get_table("w.t").columns] == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("rule", "selected", "columns", "inserted"),
    [
        ("null", "SELECT `a`, NULL AS `c` FROM", (), {"a", "c"}),
        ("default", "SELECT `a` FROM", ("a",), {"a"}),
    ],
)
def test_a_column_that_the_stream_lacks_is_null_or_has_its_default(
    client, table, process, fake, rule, selected, columns, inserted
):
    """A column without a value has its DEFAULT in an INSERT; so NULL is said."""
    with Engine(client, fake, None) as engine:
        engine.run("CREATE TABLE w.d (a INT, c STRING DEFAULT 'new') TBLPROPERTIES ('transactional'='true')")
    here, given = process(), (("a", "int"),)
    for mode, keys in (("append", ()), ("upsert", ("a",))):
        app = Application(
            here.spool, fake, stream=mode, table="w.d", mode=mode, keys=keys, on_missing_column=rule
        ).open()
        app.batch(0, given)
        app.talk.close()
    append, upsert = (spec.step for spec in fake.specs[-2:])
    assert " ".join(append.query.split()).startswith(selected)
    assert append.columns == columns
    (clause,) = [clause for clause in upsert.clauses if clause.action == "insert"]
    assert {a.column: a.expression for a in clause.assignments if a.column in inserted} == (
        {"a": "(s.`a`)", "c": "(NULL)"} if rule == "null" else {"a": "(s.`a`)"}
    )


def test_rows_that_delete_are_a_clause_of_the_one_merge_and_are_counted(client, table, process, fake):
    """The columns that only decide (op, at) are not in the table, and need not be, though others must."""
    app = Application(process().spool, fake, mode="upsert", keys=("a",), deletes=True).open()
    columns = [["a", "int"], ["b", "string"], ["op", "string"], ["At", "int"]]
    begin = {"ask": "begin", "batch": 0, "columns": columns, "aside": ["at", "op"]}
    answer = app.talk.ask(begin)
    spec = spec_from_json(answer["spec"])
    result = replace(fake.run(spec), inserted=1, updated=2, deleted=4)
    app.talk.ask({"ask": "result", "result": to_json(result)})
    assert [(c.matched, c.action, c.condition) for c in spec.step.clauses] == [
        (True, "delete", "(s.__acid_deleted)"), (True, "update", None), (False, "insert", "(NOT s.__acid_deleted)"),
    ]  # fmt: skip
    assert " ".join(spec.step.source.split()).startswith("SELECT `a`, `b`, `__acid_deleted` FROM")
    assert [c.name for c in client.catalog.get_table("w.t").columns] == ["a", "b"]
    assert client.streams.find("s").rows == 7
    with pytest.raises(StreamSchemaError, match=r"column op \(string\) of stream s is not in w.t"):
        app.talk.ask({**begin, "batch": 1, "aside": ["at"]})
    app.talk.close()


def test_a_condition_that_is_none_is_known_to_both_sides_and_nothing_was_begun(client, table, process, fake):
    here = process()
    app = Application(here.spool, fake, mode="upsert", keys=("a",), deletes=True).open()
    txns = len(client.show_transactions())
    with pytest.raises(InvalidArgumentsError, match="delete_when names colour"):
        app.talk.ask({"ask": "refuse", "type": "InvalidArgumentsError", "message": "delete_when names colour"})
    app.talk.close()
    (served,) = here.stop()
    assert (type(served.refused), str(served.refused)) == (InvalidArgumentsError, "delete_when names colour")
    assert (len(client.show_transactions()), visible(client, table)) == (txns, [])


def test_a_stream_near_its_budget_asks_for_a_compaction_and_stops_when_none_comes(client, table, process, fake):
    thresholds = {"compact": "3", "slow": "0", "stop": "6"}
    given = {f"hive.acid.stream.deltas.{name}": value for name, value in thresholds.items()}
    app = Application(process(**given, **{"hive.acid.stream.stop.wait": "0s"}).spool, fake).open()
    for number in range(2):
        app.batch(number)
    assert client.compactions.active() == []
    for number in range(2, 6):
        app.batch(number)
    assert [(str(c.resource), c.type.name) for c in client.compactions.active()] == [("w.t", "MINOR")]
    with pytest.raises(BackPressureError, match=r"w\.t has 6 live deltas, and a stream stops at 6"):
        app.begin(6)
    app.talk.close()
    assert len(visible(client, table)) == 6


def test_a_stream_asks_for_no_compaction_where_the_database_switches_it_off(client, table, process, fake):
    client.catalog.alter_database("w", {"NO_AUTO_COMPACTION": "true"})
    app = Application(process(**{"hive.acid.stream.deltas.compact": "2"}).spool, fake).open()
    for number in range(4):
        app.batch(number)
    app.talk.close()
    assert client.compactions.active() == []
    assert len(visible(client, table)) == 4
