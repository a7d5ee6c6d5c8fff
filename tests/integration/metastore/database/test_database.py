"""The database layer: what is repeated, what is not, and how trouble is told."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import stat
from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa

from airflow_hive_acid.errors import (
    CommitStateUnknownError,
    InvalidArgumentsError,
    MetastoreUnavailableError,
    NoSuchTxnError,
    SchemaVersionError,
)
from airflow_hive_acid.metastore import MetastoreClient
from airflow_hive_acid.metastore.database.backend import Step, execute_batch, finish_batch
from airflow_hive_acid.metastore.database.clock import clock_ms, now_ms, statement_ms, statement_time
from airflow_hive_acid.metastore.database.codes import LockType
from airflow_hive_acid.metastore.database.database import Database, OutcomeUnknownError, Repeat
from airflow_hive_acid.metastore.database.failures import FailureRules
from airflow_hive_acid.metastore.setup import schema

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from sqlalchemy.engine import Connection

pytestmark = pytest.mark.every_database


_PROCESS = sa.select(sa.func.pg_backend_pid())


class Lost(Exception):
    """Stands for a driver's error of a lost connection."""

    sqlstate = "08006"


class Deadlock(Exception):
    sqlstate = "40P01"


@pytest.fixture
def database(metastore_url: str) -> Iterator[Database]:
    pauses: list[float] = []
    database = Database(metastore_url, FailureRules.from_setting("flaky.*network,other"), sleep=pauses.append)
    database.pauses = pauses  # type: ignore[attr-defined]
    yield database
    database.close()


def failing(times: int, error: Exception) -> Any:
    """An operation that fails a number of times and then answers how often it was tried."""
    tried = []

    def operation(connection: Connection) -> int:
        tried.append(1)
        connection.execute(sa.update(schema.NEXT_LOCK_ID).values(NL_NEXT=schema.NEXT_LOCK_ID.c.NL_NEXT + 1))
        if len(tried) <= times:
            raise error
        return len(tried)

    return operation


def test_deadlocks_repeat_the_whole_operation(database: Database) -> None:
    assert database.run(failing(3, Deadlock())) == 4
    assert database.pauses == pytest.approx([0.2, 0.4, 0.6])  # type: ignore[attr-defined]
    with database.reading() as connection:
        assert connection.execute(sa.select(schema.NEXT_LOCK_ID)).scalar_one() == 2  # the failed tries left nothing


def test_an_operation_is_given_up_after_ten_tries(database: Database) -> None:
    with pytest.raises(Deadlock):
        database.run(failing(10, Deadlock()))
    assert len(database.pauses) == 9  # type: ignore[attr-defined]


def test_errors_named_in_the_settings_are_worth_a_retry(database: Database) -> None:
    assert database.run(failing(1, RuntimeError("a flaky corporate network"))) == 2
    with pytest.raises(RuntimeError, match="something else"):
        database.run(failing(1, RuntimeError("something else")))


def test_a_pattern_that_is_none_is_refused_at_once(metastore_url: str) -> None:
    with pytest.raises(InvalidArgumentsError, match=r"hive\.txn\.retryable\.sqlex\.regex = '\(' is no pattern"):
        FailureRules.from_setting("(")


def test_a_connection_lost_before_the_commit_repeats_everything(database: Database) -> None:
    assert database.run(failing(2, Lost()), Repeat.BEFORE_COMMIT) == 3


@pytest.mark.rule("R17")
def test_who_is_not_patient_hears_at_once_of_a_lost_connection(metastore_url: str) -> None:
    """A server whose threads others wait for; and what its pool holds is tried before it is used."""
    pauses: list[float] = []
    database = Database(metastore_url, sleep=pauses.append, patient=False)
    assert database.read(lambda connection: connection.execute(sa.select(sa.literal(1))).scalar()) == 1
    tries = []

    def lose(connection: Any) -> None:
        tries.append(1)
        raise sa.exc.DBAPIError("x", None, ConnectionError("gone"), connection_invalidated=True)

    with pytest.raises(MetastoreUnavailableError, match="cannot be reached"):
        database.read(lose)
    assert (len(tries), pauses) == (1, [])
    assert database.backend.name == "sqlite" or database.engine.pool._pre_ping  # type: ignore[attr-defined]
    database.close()


def test_a_connection_lost_at_the_commit_of_an_open_is_an_unknown_outcome(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An open, or a lock request, that may have happened must not be done again blindly."""
    tried: list[int] = []
    _lose_at_commit(database, monkeypatch, times=1)
    with pytest.raises(OutcomeUnknownError, match="whether the change happened is unknown"):
        database.run(lambda connection: tried.append(1), Repeat.BEFORE_COMMIT)
    assert tried == [1]


@pytest.mark.rule("R17")
def test_a_commit_whose_answer_is_lost_is_asked_again(metastore_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    t1  the client sends its commit; the server does it
    t2  the answer is lost
    t3  the client asks again: committed already, so success
    """
    with MetastoreClient(metastore_url) as client:
        client.database._sleep = lambda seconds: None
        txn = client.begin({"db.t": "update"})
        _lose_after_commit(client.database, monkeypatch, times=1)
        txn.commit()
        committed = [] if client.database.layout().counts_txns else ["c", "c"]  # their rows are gone in a Hive 3
        assert [t.state.value for t in client.show_transactions(include_committed=True)] == committed
        assert client.get_valid_write_ids("db.t")["db.t"].is_valid(txn.write_ids["db.t"])


@pytest.mark.rule("R17")
def test_a_commit_that_is_forgotten_when_it_is_asked_again_is_unknown(
    metastore_url: str, client: MetastoreClient, rows: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    t1  the commit of a txn that changed nothing; the answer is lost
    t2                                              the txn's row is purged
    t3  asked again, nobody knows the txn: that must not look like a failure
    """
    txn_id = client.open_txn()

    def forget(seconds: float) -> None:
        rows.delete("TXNS", TXN_ID=txn_id)

    client.database._sleep = forget
    _lose_after_commit(client.database, monkeypatch, times=1)
    with pytest.raises(CommitStateUnknownError, match=f"whether txn {txn_id} is committed is unknown"):
        client.commit_txn(txn_id)
    with pytest.raises(NoSuchTxnError):
        client.commit_txn(txn_id)


@pytest.mark.rule("R17")
def test_a_commit_without_any_answer_is_unknown(client: MetastoreClient, monkeypatch: pytest.MonkeyPatch) -> None:
    client.database._sleep = lambda seconds: None
    txn_id = client.open_txn()
    _lose_after_commit(client.database, monkeypatch, times=100)
    with pytest.raises(CommitStateUnknownError):
        client.commit_txn(txn_id)


def _lose_at_commit(database: Database, monkeypatch: pytest.MonkeyPatch, times: int) -> None:
    """The next commits raise as if the connection broke, and do not happen."""
    remaining = [times]
    commit = database.engine.dialect.do_commit

    def broken(connection: Any) -> None:
        if remaining[0]:
            remaining[0] -= 1
            raise Lost
        commit(connection)

    monkeypatch.setattr(database.engine.dialect, "do_commit", broken)


def _lose_after_commit(database: Database, monkeypatch: pytest.MonkeyPatch, times: int) -> None:
    """The next commits happen and then raise as if the connection broke."""
    remaining = [times]
    commit = database.engine.dialect.do_commit

    def broken(connection: Any) -> None:
        commit(connection)
        if remaining[0]:
            remaining[0] -= 1
            raise Lost

    monkeypatch.setattr(database.engine.dialect, "do_commit", broken)


def test_a_server_that_drops_the_connection_is_connected_again(metastore_url: str, backend: str) -> None:
    """The server ends the session of an idle connection; the next verb does not even notice."""
    if backend == "sqlite":
        # There is no server; a closed file handle is the nearest thing.
        with MetastoreClient(metastore_url) as client:
            client.open_txn()
            client.database.engine.dispose()
            assert client.open_txn() == 2
        return
    with MetastoreClient(metastore_url) as client, MetastoreClient(metastore_url) as killer:
        client.database._sleep = lambda seconds: None
        client.open_txn()
        with killer.database.transaction() as connection:
            end_other_sessions(connection)
        assert client.open_txn() == 2


def end_other_sessions(connection: sa.Connection) -> None:
    """As an administrator would end them."""
    if connection.dialect.name == "postgresql":
        activity = sa.table("pg_stat_activity", sa.column("pid"), sa.column("datname"))
        connection.execute(
            sa.select(sa.func.pg_terminate_backend(activity.c.pid)).where(
                activity.c.datname == sa.func.current_database(), activity.c.pid != sa.func.pg_backend_pid()
            )
        )
        return
    sessions = sa.table("PROCESSLIST", sa.column("ID"), sa.column("DB"), schema="information_schema")
    others = sa.select(sessions.c.ID).where(
        sessions.c.DB == sa.func.database(), sessions.c.ID != sa.func.connection_id()
    )
    for session in connection.execute(others).scalars().all():
        connection.exec_driver_sql(f"KILL {session}")


def test_batches_answer_each_statement(database: Database) -> None:
    with database.transaction() as connection:
        first, second, third = execute_batch(
            connection,
            [
                Step(sa.select(schema.SEQUENCE_TABLE.c.NEXT_VAL).where(schema.SEQUENCE_TABLE.c.NEXT_VAL == 1).limit(1)),
                Step(sa.update(schema.NEXT_LOCK_ID).values(NL_NEXT=sa.bindparam("next")), {"next": 5}),
                Step(sa.select(schema.NEXT_LOCK_ID.c.NL_NEXT)),
            ],
        )
    assert (first.rows, second.rowcount, third.rows) == ([(1,)], 1, [(5,)])


def test_a_batch_that_fails_leaves_nothing(database: Database) -> None:
    steps = [Step(sa.update(schema.NEXT_LOCK_ID).values(NL_NEXT=9)), Step(sa.insert(schema.CTLGS).values(CTLG_ID=1))]
    for batch in (execute_batch, finish_batch):
        with pytest.raises(MetastoreUnavailableError):
            database.run(lambda connection, batch=batch: batch(connection, steps))
    with database.reading() as connection:
        assert connection.execute(sa.select(schema.NEXT_LOCK_ID)).scalar_one() == 1


def test_the_clock_is_the_databases_and_moves_within_a_transaction(database: Database) -> None:
    with database.transaction() as connection:
        first = now_ms(connection)
        while now_ms(connection) == first:
            pass
        statement = sa.select(statement_ms(), clock_ms() - statement_ms())
        now, difference = connection.execute(statement, statement_time(connection)).one()
    assert 1_700_000_000_000 < first < now
    assert 0 <= difference < 1000


def test_a_view_of_the_database_does_not_move(client: MetastoreClient, other_client: MetastoreClient) -> None:
    count = sa.select(sa.func.count()).select_from(schema.TXNS)
    with client.database.reading() as connection:
        before = connection.execute(count).scalar_one()
        other_client.open_txn()
        assert connection.execute(count).scalar_one() == before
    assert client.database.read(lambda connection: connection.execute(count).scalar_one()) == before + 1


def test_reading_changes_nothing(client: MetastoreClient, backend: str) -> None:
    if backend == "postgresql":
        with pytest.raises(MetastoreUnavailableError, match="is read-only"), client.database.reading() as connection:
            connection.execute(sa.update(schema.NEXT_LOCK_ID).values(NL_NEXT=9))
    assert client.database.read(lambda connection: connection.execute(sa.select(schema.NEXT_LOCK_ID)).scalar_one()) == 1


def test_a_kept_connection_survives_an_error_and_is_replaced_after_a_loss(
    client: MetastoreClient, backend: str, lock_on: Any
) -> None:
    """What a failed verb left is undone; a connection that broke takes the other idle ones with it."""
    if backend != "postgresql":
        return

    def process() -> int:
        return client.database.run(lambda connection: int(connection.execute(_PROCESS).scalar_one()), hot=True)

    first = process()
    with pytest.raises(NoSuchTxnError):
        client.lock([lock_on("db.t", LockType.SHARED_READ)], txn_id=999)
    with pytest.raises(NoSuchTxnError):
        client.commit_txn(999)
    assert process() == first
    with client.database.transaction() as connection:
        connection.execute(sa.select(sa.func.pg_terminate_backend(first)))
    txn_id = client.open_txn()
    assert process() != first
    client.commit_txn(txn_id)


def _is_locked(database: Database) -> bool:
    assert database.path is not None
    with contextlib.closing(sqlite3.connect(database.path, timeout=0, isolation_level=None)) as other:
        try:
            other.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError:
            return True
        return False


def _fail(connection: Connection) -> None:
    raise ZeroDivisionError


def _stop(connection: Connection) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize("broken", [None, _fail, _stop])
def test_a_connection_that_has_only_read_takes_the_lock_as_soon_as_it_is_to_write(tmp_path: Path, broken: Any) -> None:
    """SQLite's connections stay open, and begin as the next operation needs it, however the one before has ended."""
    url = f"sqlite:///{tmp_path / 'metastore.db'}"
    with MetastoreClient(url) as client, MetastoreClient(url) as other:
        client.create_schema()
        database = client.database
        for _ in range(2):
            with other.database.transaction():  # has the one lock there is: who reads does not wait for it
                assert database.read(now_ms) > 0
                if broken is not None:
                    with pytest.raises((ZeroDivisionError, KeyboardInterrupt)):
                        database.read(broken)
            with database.transaction():
                assert _is_locked(database)
            assert not _is_locked(database)


def test_an_operation_inside_another_one_has_a_connection_of_its_own(metastore_url: str) -> None:
    """Where one is kept idle, it is lent to one operation at a time."""
    with MetastoreClient(metastore_url) as client:
        database = client.database

        def operation(connection: Connection) -> bool:
            return database.read(
                lambda inner: inner.connection.dbapi_connection is not connection.connection.dbapi_connection
            )

        assert [database.read(operation) for _ in range(3)] == [True] * 3


def test_a_forked_process_opens_connections_of_its_own(
    client: MetastoreClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.open_txn()
    disposed = []
    monkeypatch.setattr(client.database.engine, "dispose", lambda close=True: disposed.append(close))
    monkeypatch.setattr(os, "getpid", lambda: -1)
    client.open_txn()
    assert disposed == [False]
    monkeypatch.undo()


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://u:s3cr3t@127.0.0.1:1/metastore?connect_timeout=2",
        "mysql://u:s3cr3t@127.0.0.1:1/metastore",
        "sqlite:////nowhere/at/all/metastore.db",
    ],
)
def test_a_database_that_cannot_be_reached_is_named_without_the_password(url: str) -> None:
    with MetastoreClient(url) as client, pytest.raises(MetastoreUnavailableError) as caught:
        client.open_txn()
    text = str(caught.value)
    assert "s3cr3t" not in text
    assert url.split("@")[-1].split("/")[0] in text
    assert "check" in text


def test_a_misspelt_path_does_not_create_a_file(tmp_path: Path) -> None:
    with (
        MetastoreClient(f"sqlite:///{tmp_path}/mestatore.db") as client,
        pytest.raises(MetastoreUnavailableError, match=r"mestatore\.db"),
    ):
        client.check_schema()
    assert list(tmp_path.iterdir()) == []


def test_a_read_only_metastore_is_named_with_the_remedy(metastore_url: str, backend: str) -> None:
    if backend == "sqlite":
        path = Database(metastore_url).path
        assert path is not None
        if os.geteuid() != 0:
            path.chmod(stat.S_IRUSR)
            url = metastore_url
        else:  # root may write anything, so the file system has to refuse
            with MetastoreClient(metastore_url) as client, client.database.transaction() as connection:
                connection.exec_driver_sql("PRAGMA query_only=ON")
                with pytest.raises(sa.exc.OperationalError, match="readonly"):
                    connection.execute(sa.update(schema.NEXT_LOCK_ID).values(NL_NEXT=9))
            return
    elif backend == "postgresql":
        option = {"options": "-c default_transaction_read_only=on"}
        url = sa.make_url(metastore_url).update_query_dict(option).render_as_string(hide_password=False)
    else:
        url = metastore_url
    with MetastoreClient(url) as client:
        if backend in ("mariadb", "mysql"):
            read_only = "SET SESSION TRANSACTION READ ONLY"
            sa.event.listen(client.database.engine, "connect", lambda driver, _: driver.query(read_only))
        with pytest.raises(MetastoreUnavailableError, match=r"read-only.*write access"):
            client.open_txn()


def test_a_user_without_rights_is_told_so(metastore_url: str, client: MetastoreClient, backend: str) -> None:
    if backend == "sqlite":
        return  # a file has no users; see the read-only test
    create, drop, told = {
        "postgresql": ("CREATE ROLE nobody_special LOGIN", "DROP ROLE nobody_special", "permission denied"),
        "mariadb": ("CREATE USER nobody_special@localhost", "DROP USER nobody_special@localhost", "Access denied"),
        "mysql": ("CREATE USER nobody_special@localhost", "DROP USER nobody_special@localhost", "Access denied"),
    }[backend]
    with client.database.transaction() as connection:
        connection.execute(sa.DDL(create))
    try:
        url = sa.make_url(metastore_url).set(username="nobody_special")
        with MetastoreClient(url) as other, pytest.raises(MetastoreUnavailableError, match=f"refuses.*{told}"):
            other.open_txn()
    finally:
        with client.database.transaction() as connection:
            connection.execute(sa.DDL(drop))


def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("these are my notes, not a database\n" * 100)
    with (
        MetastoreClient(f"sqlite:///{path}") as client,
        pytest.raises(MetastoreUnavailableError, match="not a database"),
    ):
        client.check_schema()


def test_a_database_without_tables_is_no_metastore(database_url: str, backend: str) -> None:
    if backend == "sqlite":
        import sqlite3

        sqlite3.connect(sa.make_url(database_url).database or "").close()
    with MetastoreClient(database_url) as client:
        with pytest.raises(SchemaVersionError, match="hive-acid schema create"):
            client.check_schema()
        with pytest.raises(SchemaVersionError, match="hive-acid schema create"):
            client.open_txn()


@pytest.mark.backends("mariadb", "mysql")
def test_a_table_that_is_changed_under_a_reader_is_read_again(metastore_url: str, database: Database) -> None:
    """
    t1  A's view of the database is made
    t2                  B upgrades the schema
    t3  A reads one of the tables: not as of its view any more; it begins anew
    """
    tries: list[int] = []

    def read(connection: Connection) -> int:
        tries.append(len(tries))
        connection.execute(sa.select(sa.func.count()).select_from(schema.TXNS))
        if len(tries) == 1:
            with MetastoreClient(metastore_url) as other, other.database.transaction() as change:
                schema.HIVE_ACID_MEASURE.drop(change)
                schema.HIVE_ACID_MEASURE.create(change)
        return int(connection.execute(sa.select(sa.func.count()).select_from(schema.HIVE_ACID_MEASURE)).scalar_one())

    assert database.read(read) == 0
    assert tries == [0, 1]
