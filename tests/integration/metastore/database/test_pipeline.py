"""Batches on PostgreSQL: what travels in one round trip, and what happens when something in it goes wrong."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa

from airflow_hive_acid.errors import InvalidArgumentsError, MetastoreUnavailableError
from airflow_hive_acid.metastore import MetastoreClient
from airflow_hive_acid.metastore.database.backend import (
    COMMIT_SENT,
    Step,
    at_once,
    backend_of,
    execute_batch,
    finish_batch,
    together,
)
from airflow_hive_acid.metastore.database.backends import pipeline
from airflow_hive_acid.metastore.database.backends.pipeline import server_statement
from airflow_hive_acid.metastore.database.clock import clock_ms
from airflow_hive_acid.metastore.database.codes import LockState, LockType, Operation
from airflow_hive_acid.metastore.database.database import Database, Repeat
from airflow_hive_acid.metastore.database.expressions import halt_if
from airflow_hive_acid.metastore.locks import manager
from airflow_hive_acid.metastore.locks.interface import LockRequest
from airflow_hive_acid.metastore.schema.layouts import NEXT_TXN_ID
from airflow_hive_acid.metastore.setup import schema

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.every_database

NEXT_LOCK, CTLGS = schema.NEXT_LOCK_ID, schema.CTLGS
READ = sa.select(NEXT_LOCK.c.NL_NEXT)
SET = sa.update(NEXT_LOCK).values(NL_NEXT=sa.bindparam("next"))
COMMENT = sa.update(CTLGS).values(DESC=sa.bindparam("comment"))
READ_COMMENT = sa.select(CTLGS.c.DESC)
_ACTIVITY = sa.table("pg_stat_activity", sa.column("pid"), sa.column("datname"), sa.column("wait_event_type"))
_WAITING = sa.select(_ACTIVITY.c.pid).where(
    _ACTIVITY.c.datname == sa.func.current_database(), _ACTIVITY.c.wait_event_type == "Lock"
)


def spelled(client: MetastoreClient, table: str) -> str:
    """A table's name as statements on this metastore write it."""
    name = client.database.layout().spelled(table)
    return name if name.islower() else f'"{name}"'


@pytest.fixture
def database(metastore_url: str) -> Iterator[Database]:
    database = Database(metastore_url, sleep=lambda seconds: None)
    yield database
    database.close()


def value(database: Database) -> int:
    return database.read(lambda connection: int(connection.execute(READ).scalar_one()))


def test_the_text_for_the_server_numbers_each_parameter_once() -> None:
    statement = server_statement("SELECT %(a)s::BIGINT, %(b)s::VARCHAR, %(a)s::BIGINT, 7 %% 4", {"a": None, "b": "x"})
    assert statement.text == b"SELECT $1::BIGINT, $2::VARCHAR, $1::BIGINT, 7 % 4"
    assert statement.names == ("a", "b")
    assert statement.fixed == {"b": "x"}


def test_a_statement_sees_what_the_one_before_it_did(database: Database) -> None:
    def operation(connection: Any) -> list[Any]:
        return execute_batch(connection, [Step(SET, {"next": 5}), Step(READ), Step(SET, {"next": 6}), Step(READ)])

    results = database.run(operation)
    assert [r.rows for r in results] == [[], [(5,)], [], [(6,)]]
    assert [r.rowcount for r in results[::2]] == [1, 1]


@pytest.mark.parametrize("text", ["", "it's", '"quoted"', "100 %", "%(x)s", "$1", "ü €", "a\\b", "x" * 255])
def test_any_text_arrives_as_it_is(database: Database, text: str) -> None:
    def operation(connection: Any) -> Any:
        return execute_batch(connection, [Step(COMMENT, {"comment": text}), Step(READ_COMMENT)])[1].rows

    assert database.run(operation) == [(text,)]


def test_null_arrives_as_null(database: Database) -> None:
    def operation(connection: Any) -> Any:
        return execute_batch(connection, [Step(COMMENT, {"comment": None}), Step(READ_COMMENT)])[1].rows

    assert database.run(operation) == [(None,)]


def test_the_last_batch_commits(database: Database) -> None:
    def operation(connection: Any) -> None:
        finish_batch(connection, [Step(SET, {"next": 9})])

    database.run(operation)
    assert value(database) == 9


@pytest.mark.rule("R17")
def test_the_short_way_is_committed_where_there_is_one_and_elsewhere_nothing_is_sent(database: Database) -> None:
    made: list[int] = []

    def steps() -> list[Step]:
        made.append(1)
        return [Step(SET, {"next": 9}), Step(READ)]

    found = database.run(lambda connection: at_once(connection, steps))
    assert (found, len(made), value(database)) == (([(9,)], 1, 9) if database.backend.one_trip else (None, 0, 1))


@pytest.mark.rule("R17")
def test_after_a_short_way_that_changed_nothing_the_long_way_is_a_transaction_of_its_own(database: Database) -> None:
    """Should the connection break now, then before its COMMIT: the operation may be repeated."""
    nobody = READ.where(NEXT_LOCK.c.NL_NEXT < 0)

    def operation(connection: Any) -> bool:
        assert at_once(connection, lambda: [Step(READ), Step(nobody)]) is None
        sent = bool(connection.info[COMMIT_SENT])
        execute_batch(connection, [Step(SET, {"next": 4})])
        return sent

    assert database.run(operation, Repeat.BEFORE_COMMIT) is False
    assert value(database) == 4


def test_a_batch_that_is_halted_is_not_committed(database: Database) -> None:
    if not database.backend.one_trip:
        return  # there a COMMIT does not travel with what decides
    check = sa.select(halt_if(sa.bindparam("wrong", type_=sa.Integer) == 1))

    def operation(connection: Any, next: int, wrong: int) -> None:
        finish_batch(connection, [Step(SET, {"next": next}), Step(check, {"wrong": wrong})])

    database.run(lambda connection: operation(connection, 20, 0))
    with pytest.raises(InvalidArgumentsError) as told:
        database.run(lambda connection: operation(connection, 30, 1))
    assert told.value.__cause__ is not None
    assert database.backend.was_halted(told.value.__cause__)
    assert value(database) == 20


@pytest.mark.parametrize("number", [1, 40])
def test_a_list_of_pairs_finds_each_of_them_and_nothing_else(database: Database, number: int) -> None:
    """Names as no table has them: quotes, brackets and backslashes are part of a name, not of a list."""
    odd = ['a"b', "{c,d}", "e\\f", "g'h", "NULL", "", "%s :x"]
    pairs = [(f"{odd[i % len(odd)]}{i}", f"{odd[(i + 3) % len(odd)]}{i}") for i in range(number)]
    sequence = schema.NEXT_WRITE_ID

    def operation(connection: Any) -> set[tuple[str, str]]:
        for left, right in [*pairs, (pairs[0][0], "other")]:
            connection.execute(sa.insert(sequence), {"NWI_DATABASE": left, "NWI_TABLE": right, "NWI_NEXT": 1})
        lists = backend_of(connection).pairs
        found = sa.select(sequence.c.NWI_DATABASE, sequence.c.NWI_TABLE).where(
            lists.holds(sequence.c.NWI_DATABASE, sequence.c.NWI_TABLE)
        )
        return set(execute_batch(connection, [Step(found, lists.parameters(pairs))])[0].rows)

    assert database.run(operation) == set(pairs)


def test_writes_together_are_all_done(database: Database) -> None:
    def operation(connection: Any) -> int:
        steps = together(connection, [Step(SET, {"next": 7}), Step(COMMENT, {"comment": "both"})])
        execute_batch(connection, steps)
        assert execute_batch(connection, [Step(READ), Step(READ_COMMENT)])[1].rows == [("both",)]
        return len(steps)

    assert database.run(operation) == (1 if database.backend.name == "postgresql" else 2)
    assert value(database) == 7


def test_writes_that_differ_in_a_parameter_stay_apart(database: Database) -> None:
    with database.transaction() as connection:
        assert len(together(connection, [Step(SET, {"next": 7}), Step(SET, {"next": 8})])) == 2


def test_after_an_error_the_connection_is_as_good_as_before(database: Database, backend: str) -> None:
    """Also what the failed batch had prepared on the server must not be in the way."""
    duplicate = sa.insert(CTLGS).values(CTLG_ID=sa.bindparam("id"), NAME="other", LOCATION_URI="x")
    new = sa.select(NEXT_LOCK.c.NL_NEXT + sa.bindparam("more", type_=sa.BigInteger))
    for _ in range(3):
        with pytest.raises(MetastoreUnavailableError, match=r"(?i)unique|duplicate"):
            database.run(
                lambda connection: execute_batch(connection, [Step(new, {"more": 1}), Step(duplicate, {"id": 1})])
            )
        assert database.run(lambda connection: execute_batch(connection, [Step(new, {"more": 1}), Step(READ)]))[
            0
        ].rows == [(2,)]


def test_a_value_the_server_cannot_take_is_refused(
    metastore_url: str, backend: str, client: MetastoreClient, rows: Any
) -> None:
    before = rows.counts()
    if backend == "postgresql":
        with pytest.raises(ValueError, match="NUL"), client.database.transaction() as connection:
            execute_batch(connection, [Step(COMMENT, {"comment": "a\0b"})])
    with pytest.raises(InvalidArgumentsError):
        client.begin({"db.t\0": "insert"})
    assert rows.counts() == before


def test_a_rollback_does_not_take_prepared_statements_away(database: Database) -> None:
    """psycopg would deallocate all of them if it had prepared any of its own."""
    for number in range(20):
        database.run(lambda connection: execute_batch(connection, [Step(READ), Step(READ_COMMENT)]))
        database.run(lambda connection: connection.execute(READ).all())
        with pytest.raises(ZeroDivisionError):
            database.run(lambda connection, number=number: connection.execute(READ).scalar_one() / (number - number))  # type: ignore[misc]


def test_a_batch_in_a_read_only_view_does_not_move(client: MetastoreClient, other_client: MetastoreClient) -> None:
    with client.database.reading() as connection:
        first = execute_batch(connection, [Step(READ), Step(sa.select(sa.func.count()).select_from(schema.TXNS))])
        other_client.open_txn()
        again = execute_batch(connection, [Step(READ), Step(sa.select(sa.func.count()).select_from(schema.TXNS))])
        assert [r.rows for r in first] == [r.rows for r in again]


def test_a_server_that_dies_while_a_batch_waits_is_told_as_a_lost_connection(
    metastore_url: str, backend: str, client: MetastoreClient
) -> None:
    """
    t1  A holds the row
    t2                  B's batch waits for it; the server ends B's session
    t3                  B is repeated, and waits again
    t4  A lets go
    t5                  B is done
    """
    if backend != "postgresql":
        return  # SQLite has no sessions to end
    done: list[int] = []

    def work() -> None:
        with MetastoreClient(metastore_url) as other:
            other.database._sleep = lambda seconds: None
            other.database.run(lambda connection: execute_batch(connection, [Step(SET, {"next": 77}), Step(READ)]))
            done.append(1)

    thread = threading.Thread(target=work)
    with client.database.transaction() as connection:
        connection.execute(SET, {"next": 5})
        thread.start()
        pid = _waiting(client, None)
        client.database.run(lambda c: c.execute(sa.select(sa.func.pg_terminate_backend(pid))).all())
        assert _waiting(client, pid) != pid
        assert done == []
    thread.join(30)
    assert done == [1]
    assert value(client.database) == 77


def _waiting(client: MetastoreClient, not_this: int | None) -> int:
    for _ in range(500):
        pids = client.database.read(lambda connection: list(connection.execute(_WAITING).scalars()))
        for pid in pids:
            if pid != not_this:
                return int(pid)
        threading.Event().wait(0.02)
    raise AssertionError("nobody waits")


def test_other_threads_run_while_a_batch_waits(metastore_url: str, client: MetastoreClient, backend: str) -> None:
    """The holder lets go from a thread of the same process; a wait that kept Python's lock would never end."""
    if backend != "postgresql":
        return
    with MetastoreClient(metastore_url) as other:
        holding, let_go = threading.Event(), threading.Event()

        def hold() -> None:
            with other.database.transaction() as connection:
                connection.execute(SET, {"next": 5})
                holding.set()
                let_go.wait(0.5)

        thread = threading.Thread(target=hold)
        thread.start()
        assert holding.wait(10)
        client.database.run(lambda connection: execute_batch(connection, [Step(SET, {"next": 6}), Step(READ)]))
        thread.join(10)
    assert value(client.database) == 6


@pytest.mark.parametrize("operation", [Operation.INSERT, Operation.UPDATE])
@pytest.mark.parametrize(("events", "most"), [(False, 5), (True, 7)])
def test_the_four_verbs_of_a_write_need_seven_round_trips_and_five_without_events(
    client: MetastoreClient,
    backend: str,
    lock_on: Any,
    monkeypatch: pytest.MonkeyPatch,
    operation: Operation,
    events: bool,
    most: int,
) -> None:
    """One for a lock that nothing is in the way of; ids must come back before events can name them.

    No answer is awaited while a global lock is held.
    """
    if backend != "postgresql":
        return

    def write() -> None:
        txn_id = client.open_txn()
        client.lock([lock_on("db.t", LockType.SHARED_WRITE, operation)], txn_id=txn_id)
        client.allocate_write_ids("db.t", txn_id)
        client.commit_txn(txn_id)

    write()
    monkeypatch.setattr(client.notifications, "_wanted", events)
    trips: list[str] = []
    run = pipeline.run
    monkeypatch.setattr(pipeline, "run", lambda *arguments: (trips.append("batch"), run(*arguments))[1])
    for event in ("before_cursor_execute", "commit", "rollback"):
        sa.event.listen(client.database.engine, event, lambda *arguments, event=event: trips.append(event))
    write()
    # The driver sends no COMMIT of its own when the batch has brought one, as the last of each verb does.
    assert [t for t in trips if t != "commit"] == ["batch"] * most


@pytest.mark.hive4("no MIN_HISTORY_WRITE_ID")
@pytest.mark.parametrize(("events", "most"), [(False, 3), (True, 6)])
def test_a_transaction_of_one_table_needs_three_round_trips_and_six_with_events(
    client: MetastoreClient, backend: str, monkeypatch: pytest.MonkeyPatch, events: bool, most: int
) -> None:
    """To open; for lock, registration, snapshot and write id; to commit. What events name must come back before."""
    if backend != "postgresql":
        return
    monkeypatch.setattr(client.notifications, "_wanted", events)
    client.transaction({"db.t": "insert"}).commit()
    trips: list[str] = []
    run = pipeline.run
    monkeypatch.setattr(pipeline, "run", lambda *arguments: (trips.append("batch"), run(*arguments))[1])
    for event in ("before_cursor_execute", "commit", "rollback"):
        sa.event.listen(client.database.engine, event, lambda *arguments, event=event: trips.append(event))
    client.transaction({"db.t": "insert"}).commit()
    assert [t for t in trips if t != "commit"] == ["batch"] * most


@pytest.mark.rule("R11")
def test_the_write_ids_of_a_hundred_tables_are_one_round_trip(
    client: MetastoreClient, backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One statement, so one view of the database."""
    if backend != "postgresql":
        return
    written = [f"db.t{i}" for i in range(20)]
    for number, table in enumerate(written):
        for txn_id in client.open_txns(1 + number % 2):
            client.allocate_write_ids(table, txn_id)
            client.commit_txn(txn_id)
    trips: list[str] = []
    run = pipeline.run
    monkeypatch.setattr(pipeline, "run", lambda *arguments: (trips.append("batch"), run(*arguments))[1])
    for event in ("before_cursor_execute", "begin", "commit", "rollback"):
        sa.event.listen(client.database.engine, event, lambda *arguments, event=event: trips.append(event))
    found = client.get_valid_write_ids(written)
    assert trips == ["batch"]
    assert {table: lists.high_watermark for table, lists in found.items()} == {
        table: 1 + number % 2 for number, table in enumerate(written)
    }


def test_plans_made_on_an_empty_metastore_do_not_read_whole_tables_later(
    client: MetastoreClient, backend: str, lock_on: Any
) -> None:
    """A statement is planned once, while TXNS fits a page and reading all of it is cheapest; then it grows."""
    if backend != "postgresql":
        return
    for _ in range(8):  # the server plans a prepared statement for good at its sixth use
        txn_id = client.open_txn()
        client.lock([lock_on("db.t", LockType.SHARED_WRITE, Operation.UPDATE)], txn_id=txn_id)
        client.allocate_write_ids("db.t", txn_id)
        client.commit_txn(txn_id)

    txns, locks = spelled(client, "TXNS"), spelled(client, "HIVE_LOCKS")

    def plans(connection: Any) -> list[tuple[str, str]]:
        cursor = connection.connection.driver_connection.cursor()
        prepared = cursor.execute("SELECT name, statement, cardinality(parameter_types) FROM pg_prepared_statements")
        found = []
        for name, text, parameters in prepared.fetchall():
            if txns in text:
                values = ", ".join(["NULL"] * parameters)
                lines = cursor.execute(f"EXPLAIN EXECUTE {name}({values})").fetchall()
                found.append((text, "\n".join(line for (line,) in lines)))
        return found

    looked = client.database.run(plans, hot=True)
    assert len(looked) >= 6
    assert not [text for text, plan in looked if f"Seq Scan on {txns}" in plan]
    # Nor all locks of a database for one of its tables.
    (granting,) = [plan for text, plan in looked if f"INSERT INTO {locks}" in text]
    conditions = [line.strip() for line in granting.splitlines() if "HL_TABLE" in line.upper()]
    assert len(conditions) == 2
    assert all(line.startswith("Index Cond") for line in conditions)


def test_a_snapshot_reads_no_more_rows_when_there_is_more_history(
    client: MetastoreClient, backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its plan is made while the server takes all tables for empty, and stays while they grow."""
    if backend != "postgresql":
        return
    sent: dict[bytes, list[bytes | None]] = {}
    values = pipeline._values

    def record(statement: pipeline.ServerStatement, parameters: Any) -> list[bytes | None]:
        sent[statement.text] = values(statement, parameters)
        return sent[statement.text]

    with client.database.engine_of_its_own("AUTOCOMMIT").connect() as connection:
        connection.execute(sa.text("ANALYZE"))
    monkeypatch.setattr(pipeline, "_values", record)
    for _ in range(8):
        with client.transaction({"db.t": "insert"}):
            pass
        reader = client.finish(client.start({"db.t": "select"}))  # registered by a statement of its own
        assert reader is not None
        reader.commit()
        client.get_valid_write_ids("db.t")
    txns, write_ids = schema.TXNS, schema.TXN_TO_WRITE_ID
    number = sa.func.generate_series(1000, 2999).column_valued("n")
    of_txn = (sa.literal("c"), sa.literal(0), sa.literal(0), sa.literal("u"), sa.literal("h"))
    of_write = (sa.literal("db"), sa.literal("t"), number)
    names = ["TXN_ID", "TXN_STATE", "TXN_STARTED", "TXN_LAST_HEARTBEAT", "TXN_USER", "TXN_HOST"]
    with client.database.transaction() as connection:
        connection.execute(sa.update(txns).values(TXN_STARTED=0))
        connection.execute(sa.insert(txns).from_select(names, sa.select(number, *of_txn)))
        written = ["T2W_TXNID", "T2W_DATABASE", "T2W_TABLE", "T2W_WRITEID"]
        connection.execute(sa.insert(write_ids).from_select(written, sa.select(number, *of_write)))
        connection.execute(sa.update(txns).where(txns.c.TXN_ID > 2997).values(TXN_STATE="o"))
        if client.database.layout().counts_txns:
            # A Hive 3 has rows of open and aborted txns only, and counts.
            connection.execute(sa.delete(txns).where(txns.c.TXN_STATE == "c"))
            connection.execute(sa.update(NEXT_TXN_ID).values(NTXN_NEXT=3000))

    def read(connection: Any) -> list[tuple[str, float]]:
        cursor = connection.connection.driver_connection.cursor()
        prepared = cursor.execute("SELECT name, statement FROM pg_prepared_statements").fetchall()
        found = []
        for name, text in prepared:
            if " AS neighbours" in text or " AS state_of_other" in text:
                sent_values = sent[text.encode()]
                if text.startswith("INSERT"):
                    sent_values = [b"2999", *sent_values[1:]]  # the last txn of this history
                given = ", ".join("NULL" if v is None else f"'{v.decode()}'" for v in sent_values)
                plan = cursor.execute(f"EXPLAIN (ANALYZE, FORMAT JSON) EXECUTE {name}({given})").fetchone()
                found.append((text.partition(" ")[0], _rows_read(plan[0][0]["Plan"])))
        connection.rollback()  # what registers has done so once more
        return found

    looked = client.database.run(read, hot=True)
    assert "INSERT" in {kind for kind, _ in looked} or client.database.layout().counts_txns
    assert max(rows for _, rows in looked) < 60


def _rows_read(plan: dict[str, Any]) -> float:
    """Rows that the scans of tables have looked at, whether they were wanted or not."""
    mine = 0.0
    if "Relation Name" in plan:
        mine = plan["Actual Loops"] * (plan["Actual Rows"] + plan.get("Rows Removed by Filter", 0))
    return mine + plan.get("Rows Removed by Join Filter", 0) + sum(map(_rows_read, plan.get("Plans", ())))


def test_statements_of_hot_verbs_prefer_indexes_and_are_not_compiled(client: MetastoreClient, backend: str) -> None:
    """Where sequential scans are off, their cost would have a PostgreSQL before 18 compile statements of a few rows."""
    if backend != "postgresql":
        return
    settings = sa.text(
        "SELECT name, setting FROM pg_settings WHERE name IN ('enable_seqscan', 'jit', 'plan_cache_mode')"
    )
    usual = client.database.read(lambda connection: dict(connection.execute(settings).all()))
    kept = client.database.run(lambda connection: dict(connection.execute(settings).all()), hot=True)
    assert kept == {"enable_seqscan": "off", "jit": "off", "plan_cache_mode": "force_generic_plan"}
    assert usual["enable_seqscan"] == "on"


@pytest.mark.rule("R3")
@pytest.mark.parametrize("operation", [Operation.INSERT, Operation.UPDATE])
def test_what_waits_decides_nothing(
    client: MetastoreClient, backend: str, lock_on: Any, monkeypatch: pytest.MonkeyPatch, operation: Operation
) -> None:
    """A statement's view is older than its wait, so every look at what others did is a statement after the lock."""
    if backend != "postgresql":
        return
    batches: list[list[str]] = []
    run = pipeline.run

    def record(driver: Any, info: Any, steps: Any, commit: bool) -> Any:
        batches.append([statement.text.decode() for statement, _ in steps])
        return run(driver, info, steps, commit)

    monkeypatch.setattr(pipeline, "run", record)
    txn_id = client.open_txn()
    client.lock([lock_on("db.t", LockType.SHARED_WRITE, operation)], txn_id=txn_id)
    client.allocate_write_ids("db.t", txn_id)
    client.commit_txn(txn_id)
    counting, locks = client.database.layout().counts_txns, spelled(client, "HIVE_LOCKS")
    waiting = [text for batch in batches for text in batch if "FOR UPDATE" in text or text.startswith("LOCK TABLE")]
    assert not [
        text for text in waiting if "HIVE_LOCKS" in text.upper() or "WRITE_SET" in text.upper() or "max(" in text
    ]
    (lock,) = [batch for batch in batches if any(f"INSERT INTO {locks}" in text for text in batch)]
    assert ["FOR UPDATE" in text for text in lock] == [True, False]
    commit = [text.split()[0] for text in batches[-1]]
    if operation is Operation.UPDATE:
        # Rows, the global lock, then commit id and conflicts with a view of their own.
        assert commit[:3] == ["WITH", "SELECT" if counting else "LOCK", "WITH"]
        assert "max(" not in batches[-1][0]
        assert "WRITE_SET" not in batches[-1][0].upper()
        assert ("NTXN_NEXT" in batches[-1][2].upper()) if counting else ("max(" in batches[-1][2])
        assert "WRITE_SET" in batches[-1][2].upper()
    else:
        assert "LOCK" not in commit
        assert not [text for text in batches[-1] if "NEXT_TXN_ID" in text.upper()]


@pytest.mark.rule("R3")
def test_of_two_exclusive_requests_at_the_same_moment_one_waits(
    metastore_url: str, backend: str, client: MetastoreClient, lock_on: Any
) -> None:
    """
    t1  A has the queue's row, and its EXCLUSIVE lock, and has not committed
    t2                  B asks for the same, in one round trip, and waits for the row
    t3  A commits
    t4                  B sees A's lock: it waits
    """
    if backend != "postgresql":
        return
    first, second = client.open_txns(2)
    answers: list[LockState] = []

    def ask() -> None:
        with MetastoreClient(metastore_url) as other:
            answers.append(other.lock([lock_on("db.t", LockType.EXCLUSIVE)], txn_id=second).state)

    thread = threading.Thread(target=ask)
    with client.database.transaction() as connection:
        request = LockRequest((lock_on("db.t", LockType.EXCLUSIVE),), "me", "here", first)
        assert manager.enqueue(connection, request, finish=False).state is LockState.ACQUIRED
        thread.start()
        _waiting(client, None)
    thread.join(30)
    assert answers == [LockState.WAITING]


def test_the_clock_in_a_batch_moves(database: Database) -> None:
    statement = sa.select(clock_ms())
    with database.transaction() as connection:
        first, second = execute_batch(connection, [Step(statement), Step(statement)])
    assert first.rows[0][0] <= second.rows[0][0]
