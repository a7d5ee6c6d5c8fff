"""Writers are held back where compaction does not keep up with their deltas."""

import time
from types import SimpleNamespace

import pytest

from airflow_hive_acid.engine import Engine
from airflow_hive_acid.engine.outcomes.events import Noted
from airflow_hive_acid.engine.transactions import back_pressure
from airflow_hive_acid.errors import BackPressureError, InvalidArgumentsError
from airflow_hive_acid.filesystem import AnyFilesystem
from airflow_hive_acid.maintenance import run_initiator
from airflow_hive_acid.settings import Settings, Source


@pytest.fixture
def session(client, fake, warehouse, events, engine):
    """Makes engines with settings ``hive.acid.writer.max.deltas…``; the tables are those of ``engine``."""
    opened = []

    def make(deltas, action="refuse", wait="0s"):
        given = {"": str(deltas), ".action": action, ".wait": wait}
        settings = Settings({Source.AIRFLOW: {f"hive.acid.writer.max.deltas{k}": v for k, v in given.items()}})
        opened.append(Engine(client, fake, warehouse, settings=settings, on_event=events.append))
        return opened[-1]

    yield make
    for one in opened:
        one.close()


def notes(events):
    return [str(event) for event in events if isinstance(event, Noted)]


def test_without_the_setting_nobody_is_held_back_and_nothing_is_listed(engine, monkeypatch):
    monkeypatch.setattr(back_pressure, "live_deltas", lambda *_: pytest.fail("listed"))
    for _ in range(3):
        engine.run("INSERT INTO w.t VALUES (1, 'a')")


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO w.t VALUES (1, 'a')", "UPDATE w.t SET b = 'x' WHERE a = 1", "DELETE FROM w.t WHERE a = 1",
        "MERGE INTO w.t USING (SELECT 1 AS a) s ON w.t.a = s.a WHEN MATCHED THEN DELETE",
        "BEGIN; INSERT INTO w.t VALUES (1, 'a'); COMMIT",
    ],
)  # fmt: skip
@pytest.mark.setting("hive.acid.writer.max.deltas")
def test_every_statement_that_would_add_a_delta_is_refused_and_asks_for_a_compaction(session, client, statement):
    writer = session(3)
    for _ in range(3):
        writer.run("INSERT INTO w.t VALUES (1, 'a')")
    with pytest.raises(
        BackPressureError, match=r"w\.t has 3 live deltas; hive\.acid\.writer\.max\.deltas is 3"
    ) as told:
        writer.run(statement)
    assert "nothing was written" in str(told.value)
    assert told.value.retryable
    assert [(r.type.name, r.state.text) for r in client.compactions.show()] == [("MINOR", "initiated")]
    assert [txn for txn in client.show_transactions() if txn.state.name == "OPEN"] == []


def test_what_replaces_all_deltas_is_never_held_back(session):
    writer = session(2)
    for _ in range(2):
        writer.run("INSERT INTO w.t VALUES (1, 'a')")
    writer.run("INSERT OVERWRITE TABLE w.t VALUES (2, 'b')")
    writer.run("INSERT INTO w.t VALUES (1, 'a')")
    writer.run("INSERT INTO w.t VALUES (1, 'a')")
    writer.run("TRUNCATE TABLE w.t")
    writer.run("SELECT * FROM w.t")


@pytest.mark.setting("hive.acid.writer.max.deltas.action")
def test_a_warning_is_said_beside_the_result_and_the_row_is_written(session, events):
    writer = session(1, action="warn")
    writer.run("INSERT INTO w.t VALUES (1, 'a')")
    assert notes(events) == []
    assert writer.run("INSERT INTO w.t VALUES (1, 'a')")[0].inserted == 1
    (said,) = notes(events)
    assert "w.t has 1 live deltas; hive.acid.writer.max.deltas is 1; compaction does not keep up" in said


def test_a_writer_waits_until_compaction_has_made_them_fewer(session, events, monkeypatch):
    writer = session(2, action="wait", wait="1h")
    for _ in range(2):
        writer.run("INSERT INTO w.t VALUES (1, 'a')")
    found = iter([2, 2, 2, 1])
    monkeypatch.setattr(back_pressure, "live_deltas", lambda *_: next(found))
    slept = []
    # Its own clock, not the module's: threads of other tests in this process may sleep, too.
    monkeypatch.setattr(back_pressure, "time", SimpleNamespace(sleep=slept.append, monotonic=time.monotonic))
    assert writer.run("INSERT INTO w.t VALUES (1, 'a')")[0].inserted == 1
    assert len(slept) == 3
    (said,) = notes(events)
    assert "waiting for a compaction for up to 3600 s" in said


@pytest.mark.setting("hive.acid.writer.max.deltas.wait")
def test_a_wait_that_brings_nothing_ends_with_an_error_that_may_be_tried_again(session):
    writer = session(1, action="wait", wait="1ms")
    writer.run("INSERT INTO w.t VALUES (1, 'a')")
    with pytest.raises(BackPressureError, match=r"no compaction has made them fewer in 0\.001 s"):
        writer.run("INSERT INTO w.t VALUES (1, 'a')")


def test_partitions_are_counted_one_by_one(session, fake):
    writer = session(2)
    for _ in range(2):
        writer.run("INSERT INTO w.p PARTITION (k='a') VALUES (1)")
    writer.run("INSERT INTO w.p PARTITION (k='b') VALUES (1)")
    with pytest.raises(BackPressureError, match=r"w\.p/k=a has 2 live deltas"):
        writer.run("INSERT INTO w.p PARTITION (k='a') VALUES (1)")
    with pytest.raises(BackPressureError, match=r"w\.p/k=a has 2 live deltas"):
        writer.run("DELETE FROM w.p WHERE k IN ('a', 'b')")
    fake.partitions = [("b",)]
    writer.run("DELETE FROM w.p WHERE k = 'b'")


def test_partitions_that_only_the_rows_name_are_warned_of_as_they_were_last_measured(session, client, fake, events):
    writer = session(2)
    for _ in range(2):
        writer.run("INSERT INTO w.p PARTITION (k='a') VALUES (1)")
    fake.partitions = [("c",)]
    writer.run("INSERT INTO w.p SELECT 1, 'c'")
    assert notes(events) == []  # nobody has measured yet
    run_initiator(client, AnyFilesystem())
    writer.run("INSERT INTO w.p SELECT 1, 'c'")
    (said,) = notes(events)
    assert "w.p/k=a has 2 live deltas" in said


def test_a_property_of_the_table_overrides_the_setting(session, engine):
    writer = session(0)
    engine.run("ALTER TABLE w.t SET TBLPROPERTIES ('hive.acid.writer.max.deltas'='1')")
    writer.run("INSERT INTO w.t VALUES (1, 'a')")
    with pytest.raises(BackPressureError, match=r"w\.t has 1 live deltas"):
        writer.run("INSERT INTO w.t VALUES (1, 'a')")
    engine.run("ALTER TABLE w.t SET TBLPROPERTIES ('hive.acid.writer.max.deltas'='few')")
    with pytest.raises(InvalidArgumentsError, match=r"hive\.acid\.writer\.max\.deltas = 'few' \(table property\)"):
        writer.run("INSERT INTO w.t VALUES (1, 'a')")


def test_a_batch_is_held_back_before_it_is_opened(session, client):
    writer = session(1)
    writer.run("INSERT INTO w.t VALUES (1, 'a')")
    batch = writer.batch("w.t")
    batch.write([{"a": 1, "b": "x"}])
    with pytest.raises(BackPressureError, match=r"w\.t has 1 live deltas"):
        batch.commit()
    assert batch.pending == 1  # nothing of it is lost
    batch.close()
    assert [txn for txn in client.show_transactions() if txn.state.name == "OPEN"] == []


def test_an_owner_who_wants_no_automatic_compaction_is_asked_for_none(session, client, engine):
    engine.run("ALTER TABLE w.t SET TBLPROPERTIES ('no_auto_compaction'='true')")
    writer = session(1)
    writer.run("INSERT INTO w.t VALUES (1, 'a')")
    with pytest.raises(BackPressureError):
        writer.run("INSERT INTO w.t VALUES (1, 'a')")
    assert client.compactions.show() == []
