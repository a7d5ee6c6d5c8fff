"""Opens that are seen late: on every path they are given up before anybody works in them (R11)."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa

from airflow_hive_acid.errors import InvalidArgumentsError, MetastoreUnavailableError, WriteConflictError
from airflow_hive_acid.metastore import MetastoreClient
from airflow_hive_acid.metastore.database.clock import clock_ms
from airflow_hive_acid.metastore.database.codes import AbortReason, TxnType
from airflow_hive_acid.metastore.schema.hive_transactions import TXNS
from airflow_hive_acid.metastore.txns.opens import open_in_time
from airflow_hive_acid.settings import Settings, Source

if TYPE_CHECKING:
    from collections.abc import Callable

GAP_MS = 1000
LATE = AbortReason.OPENED_LATE.value
OPENS: dict[str, Callable[[MetastoreClient], list[int]]] = {
    "one": lambda client: [client.open_txn()],
    "batch": lambda client: client.open_txns(3),
    "replicated": lambda client: client.replica("p").open_txns([70, 71]),
    "compaction": lambda client: [client.open_txn(type=TxnType.COMPACTION)],
}


def listening(on: bool) -> Settings:
    return Settings({Source.CONNECTION: {"hive.metastore.event.db.listener.on": str(on).lower()}})


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, "it did not come true within a minute"
        time.sleep(0.02)


def slow_at_first(monkeypatch: pytest.MonkeyPatch, rows: Any, *, really: bool) -> None:
    """The first open is answered 5 s late; its rows are as old if its COMMIT was late, and not just its lock."""
    seconds = iter([0.0, 5.0, 10.0, 10.1])
    genuine = open_in_time

    def told(database: Any, gap: int, attempt: Any, undo: Any) -> list[int]:
        def aged() -> list[int]:
            ids = attempt()
            if really and not rows.select("TXNS", "TXN_ID", TXN_META_INFO=LATE):
                rows.age_txns(5000, ids)
            return ids

        return genuine(database, gap, aged, undo, timer=lambda: next(seconds))

    for module in ("verbs", "replica.verbs"):
        monkeypatch.setattr(f"airflow_hive_acid.metastore.{module}.open_in_time", told)


@pytest.mark.hive4("one of the ways to open is a replica's")
@pytest.mark.conformance("T10")
@pytest.mark.backends("postgresql", "mariadb")
@pytest.mark.parametrize(("kind", "listener"), [("one", False), *((kind, True) for kind in OPENS)])
def test_an_open_that_is_seen_late_is_aborted_and_done_again(
    metastore_url: str, rows: Any, monkeypatch: pytest.MonkeyPatch, kind: str, listener: bool
) -> None:
    slow_at_first(monkeypatch, rows, really=True)
    with MetastoreClient(metastore_url, listening(listener)) as client:
        ids = OPENS[kind](client)
        number = len(ids)
        assert rows.select("TXNS", "TXN_ID", TXN_META_INFO=LATE) == [(i,) for i in range(1, number + 1)]
        assert ids == list(range(number + 1, 2 * number + 1))
        assert rows.select("TXNS", "TXN_ID", TXN_STATE="o") == [(i,) for i in ids]
        assert rows.select("MIN_HISTORY_LEVEL", "MHL_TXNID") == [(i,) for i in ids]
        if kind == "replicated":
            assert [client.replica("p").target_of(source) for source in (70, 71)] == ids


@pytest.mark.hive4("one of the ways to open is a replica's")
@pytest.mark.parametrize("kind", ["one", "replicated"])
def test_an_open_that_has_only_waited_for_its_lock_is_kept(
    client: MetastoreClient, rows: Any, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """Ids are given behind the lock, so nobody can have a larger one that is old."""
    slow_at_first(monkeypatch, rows, really=False)
    assert OPENS[kind](client)[0] == 1
    assert rows.select("TXNS", "TXN_ID", TXN_META_INFO=LATE) == []


@pytest.mark.backends("sqlite")
def test_on_sqlite_no_open_is_late(client: MetastoreClient, rows: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The write transaction keeps everybody else from a larger id until it is committed."""
    slow_at_first(monkeypatch, rows, really=True)
    assert client.open_txn() == 1
    assert rows.select("TXNS", "TXN_ID", TXN_META_INFO=LATE) == []


@pytest.mark.backends("postgresql", "mariadb")
def test_opens_that_are_late_again_and_again_are_an_error_with_the_setting(client: MetastoreClient, rows: Any) -> None:
    opened: list[int] = []

    def late() -> list[int]:
        opened.append(client.open_txn())
        rows.age_txns(5000, opened[-1:])
        return opened[-1:]

    def undo(connection: Any, ids: list[int]) -> None:
        client._abort_late(connection, ids)

    clock = iter(range(0, 1000, 5))
    with pytest.raises(MetastoreUnavailableError, match=r"hive\.txn\.opentxn\.timeout \(1000 ms\)"):
        open_in_time(client.database, GAP_MS, late, undo, timer=lambda: float(next(clock)))
    assert rows.select("TXNS", "TXN_ID", TXN_STATE="o") == []
    assert len(opened) == 10


def test_a_timeout_of_nothing_is_refused() -> None:
    for value in ("0", "0ms", "-1"):
        with pytest.raises(InvalidArgumentsError, match=r"hive\.txn\.opentxn\.timeout = .* must be at least 1"):
            Settings({Source.CONNECTION: {"hive.txn.opentxn.timeout": value}})


STALL = """
CREATE FUNCTION stall() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN IF NEW."TXN_USER" = 'slow' THEN PERFORM pg_advisory_xact_lock(77); END IF; RETURN NULL; END $$;
CREATE CONSTRAINT TRIGGER stall AFTER INSERT ON "TXNS" DEFERRABLE INITIALLY DEFERRED
FOR EACH ROW EXECUTE FUNCTION stall();
"""


@pytest.mark.hive4("a Hive 3 counts its txns: there are no gaps")
@pytest.mark.backends("postgresql")
def test_a_commit_of_an_open_that_stalls_in_the_server_loses_no_update(metastore_url: str) -> None:
    """A trigger that waits at COMMIT stands for a server that stalls. With the listener, events would keep others out.

    t1  slow opens 1, its COMMIT stalls
    t2                                   anybody opens 2, which grows older than the timeout
    t3                                   fast opens 3; to its snapshot 1 was never opened
    t4  the COMMIT returns: 1 is aborted, slow opens 4
    t5                                   fast commits its update
    t6  slow commits: must be refused
    """
    settings = listening(False)
    engine = sa.create_engine(metastore_url, isolation_level="AUTOCOMMIT", poolclass=sa.pool.NullPool)
    begun: list[Any] = []
    with (
        engine.connect() as gate,
        MetastoreClient(metastore_url, settings, user="slow") as slow,
        MetastoreClient(metastore_url, settings) as fast,
    ):
        gate.exec_driver_sql(STALL)
        gate.exec_driver_sql("SELECT pg_advisory_lock(77)")
        thread = threading.Thread(target=lambda: begun.append(slow.begin({"db.t": "update"})), daemon=True)
        thread.start()
        waits = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
        until(lambda: gate.exec_driver_sql(waits).scalar_one() == 1)
        filler = fast.open_txn()
        age = sa.select(clock_ms() - TXNS.c.TXN_STARTED).where(TXNS.c.TXN_ID == filler)
        until(lambda: gate.execute(age).scalar_one() > GAP_MS + 50)
        second = fast.begin({"db.t": "update"})
        assert second.valid_txns.is_valid(1)  # as if it had never been opened
        gate.exec_driver_sql("SELECT pg_advisory_unlock(77)")
        thread.join()
        [first] = begun
        assert first.txn_id > second.txn_id
        assert {t.txn_id: t.abort_reason for t in fast.show_transactions()}[1] == LATE
        second.commit()
        with pytest.raises(WriteConflictError):
            first.commit()
    engine.dispose()
