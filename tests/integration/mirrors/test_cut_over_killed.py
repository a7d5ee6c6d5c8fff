"""Cut-over, take-back and retire that are killed in front of each of their effects, and tried again.

    t1  A hands the table over, or takes it back, or drops it; killed in front of effect n
    t2              the time-outs of what it held pass, the reaper has its turn
    t3              B does the same: as a task that is tried again, only what is still left to do

Behind t2 the table is written as before, or handed over with the lock that says so to a real Hive; there is nothing
between the two. An effect is a database transaction that may write, something done to files, or a Spark job.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa

from airflow_hive_acid.engine import Engine
from airflow_hive_acid.errors import HandedOverError
from airflow_hive_acid.filesystem import AnyFilesystem
from airflow_hive_acid.maintenance import run_reaper
from airflow_hive_acid.metastore import MetastoreClient
from airflow_hive_acid.metastore.database.codes import LockType
from airflow_hive_acid.metastore.schema.hive_transactions import HIVE_LOCKS, TXNS
from airflow_hive_acid.metastore.schema.leases import HIVE_LEASE
from airflow_hive_acid.mirrors.cut_over import CUT_OVER, RETIRE, TAKE_BACK, cut_over, is_left, retire, take_back
from airflow_hive_acid.mirrors.runner import run_mirror
from tests.examples import places
from tests.integration.engine.crashes.crashing import Process, effect, effects_counted

from .conftest import TARGET, MirrorJob

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from airflow_hive_acid.format.jobs import JobResult, JobSpec

pytestmark = [pytest.mark.rule("R7"), pytest.mark.backends("sqlite")]
DO: dict[str, Callable[..., Any]] = {CUT_OVER: cut_over, TAKE_BACK: take_back, RETIRE: retire}
LATE = 1 << 42
"""Milliseconds, in the year 2109: a heartbeat behind it is none of a process."""


def target_of(table: str) -> str:
    """Each table has its own: what one was handed over to takes no other."""
    return f"{TARGET}_{table.replace('.', '_')}"


class CountedJob(MirrorJob):
    """Its jobs are effects."""

    def run(self, spec: JobSpec) -> JobResult:
        return effect("a Spark job", lambda: super(CountedJob, self).run(spec))


@pytest.fixture
def process(engine: Engine, client: MetastoreClient, metastore_url: str, monkeypatch: Any) -> Iterator[Any]:
    """Makes a process that does one of the actions to a table, with a client of its own, and stops somewhere."""

    def make(action: str, table: str, stop: int) -> Process:
        def run() -> None:
            with MetastoreClient(metastore_url, client.settings) as own:
                # They would come at a random moment, in a thread that no kill ends.
                own.heartbeats._beat = lambda txn_id: None  # type: ignore[method-assign]
                with Engine(own, CountedJob(), engine._context.warehouse, agent_info="victim") as victim:
                    if is_left(own, action, table, target_of(table)):
                        DO[action](own, lambda: contextlib.nullcontext(victim), table, target_of(table))

        return Process(run, stop)

    with effects_counted(monkeypatch):
        yield make


def time_passes(client: MetastoreClient) -> None:
    """What was held without heartbeats is over."""
    with client.database.transaction() as connection:
        connection.execute(sa.update(TXNS).where(TXNS.c.TXN_STATE == "o").values(TXN_LAST_HEARTBEAT=1))
        recent = HIVE_LOCKS.c.HL_LAST_HEARTBEAT < LATE
        of_leases = HIVE_LOCKS.c.HL_LOCK_EXT_ID.in_(sa.select(HIVE_LEASE.c.MIRROR_EXT_ID))
        connection.execute(sa.update(HIVE_LOCKS).where(recent & ~of_leases).values(HL_LAST_HEARTBEAT=1))
        connection.execute(sa.update(HIVE_LEASE).values(END_UTC=1))
    report = run_reaper(client, AnyFilesystem())
    assert not report.problems, report


def write(engine: Engine, table: str) -> None:
    engine.run(f"INSERT INTO {table} VALUES (1, 'x')")  # noqa: S608 - names of our own


def mirrored(engine: Engine, client: MetastoreClient, table: str) -> None:
    """A table with a row, and its mirror."""
    engine.run(f"CREATE TABLE {table} (a INT, b STRING) STORED AS ORC TBLPROPERTIES ('transactional'='true')")
    write(engine, table)
    run_mirror(client, lambda: contextlib.nullcontext(engine), table, target_of(table), key=["a"])


def is_handed_over(client: MetastoreClient, engine: Engine, table: str) -> bool:
    """Whether it is; a writer, the record and the lock say the same."""
    locks = [row for row in client.show_locks(table) if row.type is LockType.EXCL_WRITE]
    if client.mirrors.find(table, target_of(table)).primary is None:
        assert locks == []
        write(engine, table)
        return False
    assert [row.agent_info for row in locks] == [f"handed over to {target_of(table)}"]
    with pytest.raises(HandedOverError):
        write(engine, table)
    return True


@pytest.mark.parametrize("action", [CUT_OVER, TAKE_BACK])
def test_a_move_of_the_primary_that_is_killed_anywhere_is_ended_by_its_next_try(
    engine: Engine, client: MetastoreClient, process: Any, action: str
) -> None:
    found: set[bool] = set()
    for stop in places(100, 4):
        table = f"w.t{stop}"
        mirrored(engine, client, table)
        if action == TAKE_BACK:
            cut_over(client, lambda: contextlib.nullcontext(engine), table, target_of(table))
        first = process(action, table, stop)
        first.start()
        where = f"{action}, killed in front of effect {stop}, behind {first.done[-3:]}"
        assert first.stopped or first.failure is None, where
        time_passes(client)
        found.add(is_handed_over(client, engine, table))
        second = process(action, table, 0)
        second.start()
        assert second.failure is None, (where, second.failure)
        assert is_handed_over(client, engine, table) == (action == CUT_OVER), where
        said = client.catalog.get_table(table).properties.get("hive.acid.primary")
        assert said == (target_of(table) if action == CUT_OVER else None), where
        assert client.leases.list_lease() == [], where
        if not first.stopped:
            break
    assert stop > 5
    assert found == {True, False}


def test_a_table_whose_dropping_is_killed_anywhere_is_gone_after_the_next_try(
    engine: Engine, client: MetastoreClient, process: Any
) -> None:
    found: set[bool] = set()
    for stop in places(100, 4):
        table = f"w.t{stop}"
        mirrored(engine, client, table)
        cut_over(client, lambda: contextlib.nullcontext(engine), table, target_of(table))
        first = process(RETIRE, table, stop)
        first.start()
        where = f"retire, killed in front of effect {stop}, behind {first.done[-3:]}"
        assert first.stopped or first.failure is None, where
        time_passes(client)
        found.add(bool(client.catalog.find_tables([table])))
        second = process(RETIRE, table, 0)
        second.start()
        assert second.failure is None, (where, second.failure)
        assert client.catalog.find_tables([table]) == {}, where
        assert client.mirrors.list(table) == [], where
        assert (client.show_locks(table), client.leases.list_lease()) == ([], []), where
        if not first.stopped:
            break
    assert stop > 5
    assert found == {True, False}
