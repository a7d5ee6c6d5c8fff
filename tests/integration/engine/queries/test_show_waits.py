"""SHOW WAITS, and what SHOW says about names that are not there."""

import pytest

from airflow_hive_acid.engine.outcomes.events import Noted
from airflow_hive_acid.metastore.database import LockType, Operation
from airflow_hive_acid.metastore.locks import LockComponent, LockRequest


def ask(client, txn, table, partition=None, type_=LockType.EXCLUSIVE, agent=None):
    """A lock, granted or not."""
    part = LockComponent("w", table, partition, type_, Operation.SELECT)
    client.lock(LockRequest((part,), client.user, client.host, txn, agent))


def lock(client, table, agent=None):
    """A txn with a lock."""
    txn = client.open_txn(agent_info=agent)
    ask(client, txn, table, agent=agent)
    return txn


def test_who_waits_for_whom_is_shown_first_in_line_first_and_without_what_follows(engine, client):
    first, second, third = (lock(client, "t", agent=f"task {n}") for n in "abc")
    other = lock(client, "p", agent="another table")
    rows = engine.run("SHOW WAITS")[0].rows.to_dicts()
    assert [(r["waiter"], r["waits_for"], r["wants"], r["blocks"], r["deadlock"]) for r in rows] == [
        (f"txn {second}", f"txn {first}", "w.t", 1, None), (f"txn {third}", f"txn {second}", "w.t", 0, None),
    ]  # fmt: skip
    assert (rows[0]["waiter_info"], rows[0]["holder_info"]) == ("task b", "task a")
    assert rows[0]["holder_since"].startswith("20")
    assert engine.run("SHOW WAITS w.t LIMIT 1")[0].rows.to_dicts() == rows[:1]
    assert engine.run("SHOW WAITS w.p")[0].rows.rows == []
    assert len(engine.run("SHOW WAITS DATABASE w")[0].rows) == 2
    client.abort_txn(other)


def test_a_deadlock_is_marked_and_comes_first(engine, client):
    one, two = lock(client, "t"), lock(client, "p")
    for txn, table in ((one, "p"), (two, "t")):
        ask(client, txn, table)
    rows = engine.run("SHOW WAITS")[0].rows.to_dicts()
    assert {(r["waiter"], r["waits_for"], r["deadlock"]) for r in rows} == {
        (f"txn {one}", f"txn {two}", "yes"), (f"txn {two}", f"txn {one}", "yes"),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("SHOW LOCKS w.gone", "there is no table w.gone"),
        ("SHOW LOCKS DATABASE gone EXTENDED", "there is no database gone"),
        ("SHOW LOCKS w.p PARTITION (k='nope')", "there is no partition k=nope of w.p"),
        ("SHOW COMPACTIONS w.gone", "there is no table w.gone"),
        ("SHOW COMPACTIONS DATABASE gone", "there is no database gone"),
        ("SHOW LEASE w.gone", "there is no table w.gone"),
        ("SHOW WAITS w.gone", "there is no table w.gone"),
    ],
)
def test_a_name_that_is_not_there_is_said_beside_no_rows(engine, events, statement, said):
    (result,) = engine.run(statement)
    assert len(result.rows) == 0
    (note,) = [str(event) for event in events if isinstance(event, Noted)]
    assert note.startswith(f"note: {said}")


def test_names_that_are_there_are_not_spoken_of(engine, events):
    engine.run("ALTER TABLE w.p ADD PARTITION (k='a')")
    engine.run(
        "SHOW LOCKS; SHOW LOCKS w.t; SHOW LOCKS w.p PARTITION (k='a'); SHOW LOCKS DATABASE w; SHOW LEASE *; SHOW WAITS"
    )
    assert [event for event in events if isinstance(event, Noted)] == []


def test_partition_columns_may_stand_in_any_order_wherever_something_is_shown(engine, client):
    engine.run("CREATE TABLE w.pp (a INT) PARTITIONED BY (k STRING, h INT); "
               "ALTER TABLE w.pp ADD PARTITION (k='a', h=2); "
               "ALTER TABLE w.pp PARTITION (h=2, k='a') COMPACT 'major'")  # fmt: skip
    client.leases.grab_lease("w.pp/k=a/h=2", 60)
    ask(client, client.open_txn(), "pp", "k=a/h=2", LockType.SHARED_READ)
    for what in ("LOCKS", "COMPACTIONS", "LEASE"):
        for values in ("k='a', h=2", "h=02, k='a'"):
            rows = engine.run(f"SHOW {what} w.pp PARTITION ({values})")[0].rows.to_dicts()
            found = {row.get("partition") or row.get("partname") or row.get("partition_name") for row in rows}
            assert found == {"k=a/h=2"}, (what, values, rows)
