"""Tables and partitions without files come together, and what a killed cycle holds is not waited for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa

from airflow_hive_acid.errors import AlreadyExistsError, HiveAcidError, InvalidArgumentsError
from airflow_hive_acid.metastore.database.codes import LockType
from airflow_hive_acid.metastore.names.objects import TableName
from airflow_hive_acid.metastore.protocol.ddl import table_lock
from airflow_hive_acid.metastore.schema.hive_transactions import TXNS
from airflow_hive_acid.replication.cycles.cycle import replicate
from airflow_hive_acid.replication.cycles.unfinished_txns import agent_of, end_earlier
from airflow_hive_acid.replication.dumps.empty_objects import import_empty, open_exports
from airflow_hive_acid.replication.policies.policy import policy
from tests.integration.replication.dumps.exim import (
    add_partition,
    contents,
    location,
    make_table,
    objects,
    state_ids,
    whole,
    write,
)
from tests.integration.replication.dying import Countdown, Killed, dying

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow_hive_acid.metastore.database.database import Database
    from airflow_hive_acid.replication.cycles.runner import CycleReport
    from airflow_hive_acid.replication.site import Site

POLICY = policy({"name": "dr", "source": "primary", "destination": "replica", "databases": ["w"]})


class Lost(Exception):
    """Stands for a driver's error of a lost connection."""

    sqlstate = "08006"


@pytest.fixture
def stride(request: pytest.FixtureRequest) -> int:
    """Every so manieth change is died at; each of them with ``--programs``."""
    return 1 if request.config.getoption("programs") else 4


def cycle(primary: Site, replica: Site) -> CycleReport:
    return replicate(POLICY, primary, replica, holder="a test")


def begun(primary: Site, replica: Site) -> None:
    """The first copy, of a database without tables."""
    for site in (primary, replica):
        site.client.catalog.create_database("w")
    cycle(primary, replica)


def make(site: Site, names: Sequence[str], *days: str) -> None:
    for name in names:
        make_table(site, name, partitioned=True)
        site.filesystem.make_directory(location(site, name))
        for day in days:
            add_partition(site, f"ds={day}", {}, name)
            site.filesystem.make_directory(location(site, name, f"ds={day}"))


def commits(site: Site) -> list[int]:
    """Counts the transactions that the site's client commits from now on."""
    found: list[int] = []
    sa.event.listen(site.client.database.engine, "commit", lambda _conn: found.append(1))
    return found


def same(primary: Site, replica: Site, names: Sequence[str]) -> None:
    for name in names:
        found = whole(replica, name)
        # A fence is a hidden file, which stays.
        files = {path: content for path, content in found["files"].items() if not path.startswith("_tmp_")}  # type: ignore[attr-defined]
        assert {**found, "files": files} == whole(primary, name), name
        for partition in objects(replica, name)[1]:
            assert replica.filesystem.exists(location(replica, name, partition))


@pytest.mark.conformance("E04")
@pytest.mark.conformance("E07")
def test_many_tables_without_files_take_no_more_transactions_than_few(primary: Site, replica: Site) -> None:
    begun(primary, replica)
    here = commits(replica)
    taken = []
    for names in (["w.a", "w.b"], [f"w.c{n}" for n in range(12)]):
        make(primary, names, "1", "2")
        primary.client.catalog.drop_partition(names[0], "ds=2")
        del here[:]
        report = cycle(primary, replica)
        taken.append(len(here))
        same(primary, replica, names)
        assert report.files == 0
    assert taken[1] <= taken[0], "the second cycle finds its ids and mutexes"
    more = [f"w.c{n}" for n in range(12)]
    for name in more:
        add_partition(primary, "ds=3", {}, name)
    cycle(primary, replica)
    same(primary, replica, more)
    assert not cycle(primary, replica).applied


@pytest.mark.rule("R5")
@pytest.mark.backends("sqlite")
def test_what_is_not_that_simple_is_left_to_the_import_of_one_table(primary: Site, replica: Site) -> None:
    begun(primary, replica)
    make(primary, ["w.easy", "w.full", "w.other"], "1")
    write(primary, location(primary, "w.full", "ds=1"), {"x": b"1"})
    place = f"{replica.client.catalog.get_database('w').location}/other"
    write(replica, place, {"ds=1/taken": b"no"})
    wanted = {TableName("w", name): () for name in ("easy", "full", "other", "gone")}
    with open_exports(primary, wanted) as dumps:
        assert sorted(map(str, dumps)) == ["w.easy", "w.full", "w.other"]
        done = import_empty(replica, list(dumps.items()))
    assert [(str(name), result.action) for name, result in done.items()] == [("w.easy", "created")]
    with pytest.raises(AlreadyExistsError, match="other is not empty"):
        cycle(primary, replica)
    assert contents(replica, place) == {"ds=1/taken": b"no"}, "nothing of it became rows, or was lost"
    replica.filesystem.delete(place, inside=place.rpartition("/")[0])
    cycle(primary, replica)
    same(primary, replica, ["w.easy", "w.full", "w.other"])


@pytest.mark.backends("sqlite")
def test_a_table_that_changed_while_it_was_imported_is_not_written(
    primary: Site, replica: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All or none: what somebody else has made meanwhile stays, and nothing else comes without it."""
    begun(primary, replica)
    make(primary, ["w.a", "w.b"])
    make_directory = replica.filesystem.make_directory

    def meanwhile(uri: str) -> None:
        make_directory(uri)
        if uri.endswith("/b") and objects(replica, "w.b")[0] is None:
            make_table(replica, "w.b", partitioned=True)

    monkeypatch.setattr(type(replica.filesystem), "make_directory", lambda _self, uri: meanwhile(uri))
    with (
        open_exports(primary, {TableName("w", "a"): (), TableName("w", "b"): ()}) as dumps,
        pytest.raises(InvalidArgumentsError, match=r"w\.b was changed by somebody else"),
    ):
        import_empty(replica, list(dumps.items()))
    assert objects(replica, "w.a")[0] is None
    assert state_ids(replica, "w.b") == {"": None}


@pytest.mark.rule("R4")
@pytest.mark.rule("R17")
@pytest.mark.backends("sqlite")
def test_a_cycle_that_is_killed_leaves_no_lock_for_the_next(primary: Site, replica: Site, stride: int) -> None:
    """Before a change of the replica, or of its files, one after the other; the locks' time-outs have not passed."""
    begun(primary, replica)
    number, left = 0, 0
    while True:
        number += stride
        names = [f"w.a{number}", f"w.b{number}"]
        make(primary, names, "1")
        write(primary, location(primary, names[1], "ds=1"), {"x": b"1"})
        try:
            with dying(replica, Countdown(number)) as target:
                cycle(primary, target)
        except Killed:
            dead = _open(replica)
            left += len(dead)
            cycle(primary, replica)
            assert not dead & _open(replica)
            same(primary, replica, names)
            continue
        same(primary, replica, names)
        break
    assert number > 20
    assert left * stride > 10, "kills between the beginning of a txn and its end"


def _open(site: Site) -> set[int]:
    with site.client.database.transaction() as connection:
        return set(connection.execute(sa.select(TXNS.c.TXN_ID).where(TXNS.c.TXN_STATE == "o")).scalars())


def test_only_txns_of_earlier_cycles_of_the_policy_end(replica: Site) -> None:
    client = replica.client
    names = (
        f"{agent_of('dr', 4)}: import w.t", f"{agent_of('dr', 5)}: import w.t", f"{agent_of('dr', 6)}: import w.t",
        f"{agent_of('dr2', 4)}: import w.t", f"{agent_of('DR', 4)}: import w.t", f"{agent_of('d_', 4)}: import w.t",
        f"by hand, {agent_of('dr', 4)}: import w.t", "import w.t",
    )  # fmt: skip
    txns = [client.open_txn(agent_info=name) for name in names]
    client.lock([table_lock(TableName("w", "t"), LockType.EXCLUSIVE)], txn_id=txns[0])
    assert end_earlier(replica, "dr", 5) == [txns[0]]
    assert _open(replica) == set(txns[1:])
    assert not client.show_locks(), "its locks are free"


@pytest.mark.rule("R17")
@pytest.mark.backends("sqlite")
def test_a_commit_whose_answer_is_lost_anywhere_in_a_cycle_is_done_once(
    primary: Site, replica: Site, monkeypatch: pytest.MonkeyPatch, stride: int
) -> None:
    """
    t1  a cycle imports; its n-th transaction at the replica commits, and the answer is lost
    t2  it goes on, or ends with an error and the next cycle goes on: every table is there once, nothing is left
    """
    begun(primary, replica)
    replica.client.database._sleep = lambda seconds: None
    number = failed = 0
    while True:
        number += stride
        names = [f"w.a{number}", f"w.b{number}"]
        make(primary, names, "1")
        write(primary, location(primary, names[1], "ds=1"), {"x": b"1"})
        with monkeypatch.context() as patch:
            is_lost = lose_answer(replica.client.database, patch, number)
            try:
                cycle(primary, replica)
            except HiveAcidError:
                failed += 1
        if not is_lost():
            break
        cycle(primary, replica)
        same(primary, replica, names)
        assert not cycle(primary, replica).applied
    assert number > 15
    assert failed * stride < number


def lose_answer(database: Database, patch: pytest.MonkeyPatch, number: int) -> Any:
    """The n-th commit happens, and then raises as if the connection broke."""
    count = [0]
    commit = database.engine.dialect.do_commit

    def broken(connection: Any) -> None:
        commit(connection)
        count[0] += 1
        if count[0] == number:
            raise Lost

    patch.setattr(database.engine.dialect, "do_commit", broken)
    return lambda: count[0] >= number
