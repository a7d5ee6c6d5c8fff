"""Batches on MySQL and MariaDB: few round trips, each statement answered, and none behind an error."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa
from pymysql.connections import Connection as Driver
from pymysql.connections import MySQLResult
from pymysql.cursors import Cursor
from pymysql.err import IntegrityError

from airflow_hive_acid.errors import MetastoreUnavailableError
from airflow_hive_acid.metastore.database.backend import Result, Step, execute_batch
from airflow_hive_acid.metastore.database.codes import LockType
from airflow_hive_acid.metastore.leases.model import LeaseObject
from airflow_hive_acid.metastore.schema.hive_transactions import HIVE_LOCKS, NEXT_LOCK_ID, TXNS

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_hive_acid.metastore import MetastoreClient

pytestmark = pytest.mark.backends("mariadb", "mysql")
_TAKE = sa.update(NEXT_LOCK_ID).values(NL_NEXT=sa.bindparam("next"))
_TAKEN = sa.select(NEXT_LOCK_ID.c.NL_NEXT, sa.bindparam("note", type_=sa.String))


@pytest.fixture
def trips(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], Any]], int]:
    """How many texts travel to the server while something runs; a COMMIT is none."""
    sent: list[None] = []
    query = Driver.query

    def counting(driver: Any, *arguments: Any, **options: Any) -> Any:
        sent.append(None)
        return query(driver, *arguments, **options)

    monkeypatch.setattr(Driver, "query", counting)

    def count(run: Callable[[], Any]) -> int:
        sent.clear()
        run()
        return len(sent)

    return count


def write_once(client: MetastoreClient) -> None:
    with client.transaction({"db.t": "insert"}):
        pass


def test_a_transaction_of_one_insert_takes_few_round_trips(
    client: MetastoreClient, trips: Callable[[Callable[[], Any]], int]
) -> None:
    write_once(client)  # what is looked up once, and the table's first write id
    assert trips(lambda: write_once(client)) <= 15


def test_many_locks_do_not_take_a_round_trip_each(
    client: MetastoreClient, trips: Callable[[Callable[[], Any]], int], lock_on: Any
) -> None:
    txn_id = client.open_txn()
    wanted = [lock_on(f"db.t/p={number}", LockType.SHARED_READ) for number in range(1000)]
    assert trips(lambda: client.lock(wanted, txn_id=txn_id)) <= 6
    with client.database.reading() as connection:
        assert connection.scalar(sa.select(sa.func.count()).where(HIVE_LOCKS.c.HL_TXNID == txn_id)) == 1000


def test_a_lease_on_many_partitions_takes_as_many_round_trips_as_on_one(
    client: MetastoreClient, trips: Callable[[Callable[[], Any]], int]
) -> None:
    def lease(number: int) -> None:
        objects = [LeaseObject("db", "t", f"p={i}") for i in range(number)]
        client.leases.drop_lease(client.leases.grab_lease(objects, 60))

    lease(1)
    assert trips(lambda: lease(50)) == trips(lambda: lease(1))


@pytest.mark.parametrize("one_by_one", [False, True])
def test_statements_are_answered_in_their_order_however_long_the_batch_is(
    client: MetastoreClient, trips: Callable[[Callable[[], Any]], int], one_by_one: bool
) -> None:
    """A proxy that cannot take several statements in one text gets them one by one."""
    notes = [f"{number}: 100 % of it's; \\ \n" + "n" * 30_000 for number in range(20)]
    steps = [
        step
        for number, note in enumerate(notes)
        for step in (Step(_TAKE, {"next": number}), Step(_TAKEN, {"note": note}))
    ]
    with client.database.transaction() as connection:
        if one_by_one:
            driver: Any = connection.connection.driver_connection
            driver.server_capabilities = 0
        results: list[Result] = []
        assert trips(lambda: results.extend(execute_batch(connection, steps))) == (40 if one_by_one else 3)
    assert [result.rows for result in results[1::2]] == [[(number, note)] for number, note in enumerate(notes)]
    assert {result.rowcount for result in results} == {1}


def test_a_row_that_is_found_counts_though_nothing_of_it_changes(client: MetastoreClient) -> None:
    with client.database.transaction() as connection:
        assert [r.rowcount for r in execute_batch(connection, [Step(_TAKE, {"next": 7})] * 2)] == [1, 1]


def test_nothing_behind_an_error_is_run(client: MetastoreClient) -> None:
    """The transaction is still there, and can be gone on with."""
    txn_id = client.open_txn()
    again = sa.insert(TXNS).values(
        TXN_ID=sa.bindparam("id"), TXN_STATE="o", TXN_STARTED=0, TXN_LAST_HEARTBEAT=0, TXN_USER="u", TXN_HOST="h"
    )
    with client.database.transaction() as connection:
        with pytest.raises(IntegrityError):
            execute_batch(connection, [Step(_TAKE, {"next": 5}), Step(again, {"id": txn_id}), Step(_TAKE, {"next": 6})])
        assert execute_batch(connection, [Step(_TAKEN, {"note": ""})])[0].rows == [(5, "")]


def test_a_connection_that_is_lost_in_a_batch_is_not_used_again(client: MetastoreClient) -> None:
    kill = Step(sa.text("KILL CONNECTION_ID()"))
    lost: list[None] = []

    def operation(connection: sa.Connection) -> int:
        if not lost:
            lost.append(None)
            execute_batch(connection, [Step(_TAKE, {"next": 5}), kill, Step(_TAKE, {"next": 6})])
        return int(execute_batch(connection, [Step(_TAKEN, {"note": ""})])[0].rows[0][0])

    client.database._sleep = lambda seconds: None
    before = client.database.run(lambda connection: connection.scalar(sa.select(NEXT_LOCK_ID.c.NL_NEXT)))
    assert client.database.run(operation) == before


def test_after_a_restart_of_the_server_one_try_finds_out_about_all_connections(client: MetastoreClient) -> None:
    """Not one after the other, with a pause before each next try."""
    number = sa.select(sa.func.connection_id())
    with contextlib.ExitStack() as held:
        connections = [held.enter_context(client.database.transaction()) for _ in range(4)]
        ids = [connection.execute(number).scalar_one() for connection in connections]
    with sa.create_engine(client.database.url, poolclass=sa.pool.NullPool).connect() as connection:
        for one in ids:
            connection.execute(sa.text("KILL :id"), {"id": one})
    pauses: list[float] = []
    client.database._sleep = pauses.append
    client.database.run(lambda connection: execute_batch(connection, [Step(_TAKEN, {"note": ""})]))
    assert len(pauses) == 1


def test_a_parameter_that_a_step_leaves_out_is_not_null(client: MetastoreClient) -> None:
    with client.database.transaction() as connection, pytest.raises(KeyError, match="note"):
        execute_batch(connection, [Step(_TAKEN)])


def test_an_answer_that_is_missing_is_an_error_and_nothing_is_done(
    client: MetastoreClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody between us and the server said that he can do it, and cannot."""
    with client.database.reading() as connection:
        before = connection.scalar(sa.select(NEXT_LOCK_ID.c.NL_NEXT))
    with monkeypatch.context() as patch:
        patch.setattr(Cursor, "nextset", lambda cursor: None)
        with (
            pytest.raises(MetastoreUnavailableError, match=r"answered 1 of 2 .*to the server itself"),
            client.database.transaction() as connection,
        ):
            execute_batch(connection, [Step(_TAKE, {"next": 5}), Step(_TAKE, {"next": 6})])
    with client.database.reading() as connection:
        assert connection.scalar(sa.select(NEXT_LOCK_ID.c.NL_NEXT)) == before


def test_a_batch_that_is_interrupted_half_way_leaves_no_answer_to_whoever_comes_next(
    client: MetastoreClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers: list[None] = []
    read = MySQLResult.read

    def interrupted(result: Any) -> None:
        answers.append(None)
        if len(answers) == 2:
            raise KeyboardInterrupt
        read(result)

    with client.database.reading() as connection:
        before = connection.scalar(sa.select(NEXT_LOCK_ID.c.NL_NEXT))
    steps = [Step(_TAKE, {"next": number}) for number in (5, 6, 7)]
    with monkeypatch.context() as patch:
        patch.setattr(MySQLResult, "read", interrupted)
        with pytest.raises(KeyboardInterrupt), client.database.transaction() as connection:
            execute_batch(connection, steps)
    with client.database.transaction() as connection:
        assert execute_batch(connection, [Step(_TAKEN, {"note": "x"})])[0].rows == [(before, "x")]
