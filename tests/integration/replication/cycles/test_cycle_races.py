"""Whole cycles, while the primary goes on, while somebody fails over, and killed between a change and its files."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa

from airflow_hive_acid.errors import ActionRefusedError, HiveAcidError, ReplicationBusyError
from airflow_hive_acid.format.jobs import Column
from airflow_hive_acid.metastore import MetastoreClient
from airflow_hive_acid.metastore.catalog.values.model import TableDefinition
from airflow_hive_acid.metastore.database.clock import now_ms
from airflow_hive_acid.metastore.schema.hive_catalog import TBLS
from airflow_hive_acid.replication.cycles.cycle import fail_over_policy, parts_of, replicate
from airflow_hive_acid.replication.cycles.failover import fail_back
from airflow_hive_acid.replication.cycles.runner import _Cycle
from airflow_hive_acid.replication.policies.policy import policy
from airflow_hive_acid.replication.policies.state import PolicyRecord
from airflow_hive_acid.replication.site import Site
from airflow_hive_acid.settings import Settings, Source
from tests.integration.replication import acid_world as world
from tests.integration.replication.lost_answers import LostAnswers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from airflow_hive_acid.replication.cycles.runner import CycleReport

begin, create, fill, path_of, rows, write = (
    world.begin, world.create, world.fill, world.path_of, world.rows, world.write
)  # fmt: skip

pytestmark = pytest.mark.backends("sqlite")
POLICY = policy({"name": "p", "source": "primary", "destination": "replica", "databases": ["default"]})
ONE, TWO, PLAIN = "default.one", "default.two", "default.plain"


@pytest.fixture
def pair(metastore_url: str, replica_metastore_url: str, tmp_path: Path) -> Iterator[tuple[Site, Site]]:
    settings = Settings({Source.CONNECTION: {"hive.metastore.dml.events": "true"}})
    sites = []
    for name, url in (("primary", metastore_url), ("replica", replica_metastore_url)):
        (tmp_path / name).mkdir()
        client = MetastoreClient(url, settings)
        client.catalog.set_warehouse((tmp_path / name).as_uri())
        sites.append(Site(client, name=name))
    yield sites[0], sites[1]
    for site in sites:
        site.client.close()


def cycle(pair: tuple[Site, Site], step: Callable[[str], None] = lambda _step: None, **rest: Any) -> CycleReport:
    return replicate(POLICY, *pair, holder="a test", step=step, **rest)


def at(wanted: str, do: Callable[[], object]) -> Callable[[str], None]:
    """A step that does something once."""
    done: list[str] = []

    def step(name: str) -> None:
        if name == wanted and not done:
            done.append(name)
            do()

    return step


def plain(site: Site, *lines: str) -> None:
    """A plain table with a file for each line."""
    definition = TableDefinition(*PLAIN.split("."), (Column("line", "string"),), external=True,
                                 properties={"external.table.purge": "true"})  # fmt: skip
    site.filesystem.make_directory(site.client.catalog.create_table(definition).location)
    for line in lines:
        insert(site, line)


def insert(site: Site, line: str) -> None:
    location = site.client.catalog.get_table(PLAIN).location
    uri = f"{location}/{line}"
    site.filesystem.write_text(uri, line)
    site.client.write_events.inserted(PLAIN, [uri])


def lines(site: Site) -> list[str]:
    return sorted(p.name for p in path_of(site.client.catalog.get_table(PLAIN).location).iterdir() if p.name[0] != "_")


def test_a_txn_over_two_tables_that_commits_before_the_sync_looks_arrives_whole_or_not_at_all(
    pair: tuple[Site, Site],
) -> None:
    """Events of the cycle are about one of the tables only.

    t1  cycle: reads that ``one`` was written
    t2  primary: a txn writes ``one`` and ``two``
    t3  cycle: syncs
    """
    primary, replica = pair
    for table in (ONE, TWO):
        create(primary, table)
        write(primary, "a", table=table)
    cycle(pair)
    write(primary, "b", table=ONE)

    def both() -> None:
        with primary.client.begin({ONE: "insert", TWO: "insert"}) as transaction:
            fill(primary, transaction, "x", table=ONE)
            fill(primary, transaction, "x", table=TWO)

    cycle(pair, at("syncing", both))
    seen = [any(row.endswith(":x") for row in rows(replica, table)[""]) for table in (ONE, TWO)]
    assert seen in ([True, True], [False, False])
    cycle(pair)
    for table in (ONE, TWO):
        assert rows(replica, table) == rows(primary, table)


def test_a_txn_over_two_tables_that_was_open_in_a_cycle_before_arrives_whole(pair: tuple[Site, Site]) -> None:
    """Its end names the txn alone, and both its write ids are at the replica already."""
    primary, replica = pair
    for table in (ONE, TWO):
        create(primary, table)
        write(primary, "a", table=table)
    late = primary.client.begin({ONE: "insert", TWO: "insert"})
    fill(primary, late, "x", table=ONE)
    fill(primary, late, "x", table=TWO)
    cycle(pair)
    late.commit()
    cycle(pair)
    for table in (ONE, TWO):
        assert rows(replica, table) == rows(primary, table)


def test_what_a_cycle_says_to_have_is_there_also_when_events_come_from_a_store(
    pair: tuple[Site, Site], tmp_path: Path
) -> None:
    """``as_of`` is what the sensor on lag goes by.

    t1  cycle begins
    t2  primary: a row is committed
    t3  cycle notes the time, and copies the events
    """
    primary, replica = pair
    one = replace(POLICY, event_store=(tmp_path / "events").as_uri())
    plain(primary, "a")
    replicate(one, primary, replica, holder="a test")
    insert(primary, "b")
    committed: list[int] = []

    def commit() -> None:
        insert(primary, "c")
        committed.append(replica.client.database.read(now_ms))

    replicate(one, primary, replica, holder="a test", step=at("begun", commit))
    state = PolicyRecord(replica.client.database, one.name).read()
    assert state is not None
    assert (state.as_of or 0) >= committed[0]
    assert lines(replica) == ["a", "b", "c"]


@pytest.mark.rule("R3")
@pytest.mark.rule("R17")
def test_a_cycle_that_is_under_way_overwrites_nothing_after_a_fail_over(pair: tuple[Site, Site]) -> None:
    """
    t1  cycle: has read that the primary's table was written
    t2  the policy is failed over; somebody writes the table at the replica
    t3  the cycle goes on: refused
    """
    primary, replica = pair
    plain(primary, "a")
    cycle(pair)
    insert(primary, "b")

    def fail_over() -> None:
        fail_over_policy(POLICY.name, replica, holder="an admin")
        insert(replica, "mine")

    with pytest.raises(ReplicationBusyError):
        cycle(pair, at("applying", fail_over))
    assert lines(replica) == ["a", "mine"]


@pytest.mark.rule("R3")
def test_a_cycle_that_is_under_way_drops_nothing_after_a_fail_over(pair: tuple[Site, Site]) -> None:
    primary, replica = pair
    plain(primary, "a")
    cycle(pair)
    primary.client.catalog.drop_table(PLAIN)
    with pytest.raises(ReplicationBusyError):
        cycle(pair, at("applying", lambda: fail_over_policy(POLICY.name, replica, holder="an admin")))
    assert lines(replica) == ["a"]


class Killed(BaseException):
    """The process ends here."""


class Dying:
    """A filesystem whose process ends in front of the n-th directory that it moves or deletes."""

    def __init__(self, inner: Any, number: int) -> None:
        self._inner, self._left = inner, number

    def __getattr__(self, verb: str) -> Any:
        return getattr(self._inner, verb)

    def _change(self, uri: str) -> None:
        self._left -= 1
        if not self._left:
            raise Killed(uri)

    def delete(self, uri: str, *, inside: str) -> None:
        self._change(uri)
        self._inner.delete(uri, inside=inside)

    def rename_directory(self, source: str, target: str) -> None:
        self._change(source)
        self._inner.rename_directory(source, target)


@pytest.mark.rule("R17")
@pytest.mark.parametrize("number", [1, 2, 3])
def test_a_drop_that_is_killed_anywhere_is_in_no_later_tables_way(pair: tuple[Site, Site], number: int) -> None:
    """Killed after the commit: before it looks for what an earlier one left, before the files are moved, before they
    are deleted; then the table is made again at the primary, and comes.
    """
    primary, replica = pair
    plain(primary, "a")
    cycle(pair)
    location = primary.client.catalog.drop_table(PLAIN).locations[0]
    primary.filesystem.delete(location, inside=location.rpartition("/")[0])
    with pytest.raises(Killed):
        cycle((primary, replace(replica, filesystem=Dying(replica.filesystem, number))))
    assert not replica.client.catalog.find_tables([PLAIN])
    plain(primary, "z")
    cycle(pair)
    assert lines(replica) == ["z"]
    assert [p.name for p in path_of(replica.client.catalog.warehouse()).iterdir() if p.name[0] == "_"] == []


@pytest.mark.rule("R3")
def test_a_drop_that_goes_on_late_deletes_nothing_of_the_table_that_has_its_name_now(pair: tuple[Site, Site]) -> None:
    """
    t1  cycle A has dropped the table in the catalog, and lost its mutex
    t2  the table is made again; cycle B brings it
    t3  A deletes files: those that were there at t1
    """
    primary, replica = pair
    plain(primary, "a")
    cycle(pair)
    location = primary.client.catalog.drop_table(PLAIN).locations[0]
    primary.filesystem.delete(location, inside=location.rpartition("/")[0])

    class Late:
        def __init__(self) -> None:
            self.met = False

        def __getattr__(self, verb: str) -> Any:
            return getattr(replica.filesystem, verb)

        def delete(self, uri: str, *, inside: str) -> None:
            if not self.met and not replica.client.catalog.find_tables([PLAIN]):
                self.met = True
                plain(primary, "z")
                parts = parts_of(POLICY, primary, replica)
                record = PolicyRecord(replica.client.database, POLICY.name)
                _Cycle(POLICY, record, record.begin("primary", "B"), parts).run(again=False)
            replica.filesystem.delete(uri, inside=inside)

    late = Late()
    with pytest.raises(ReplicationBusyError):
        cycle((primary, replace(replica, filesystem=late)))
    assert late.met
    assert lines(replica) == ["z"]


def test_a_table_with_a_name_that_is_not_replicated_stops_no_others(pair: tuple[Site, Site]) -> None:
    """A Hive with hive.support.special.characters.tablename has made it."""
    primary, replica = pair
    plain(primary, "a")
    create(primary, ONE)
    primary.client.database.run(
        lambda connection: connection.execute(sa.update(TBLS).where(TBLS.c.TBL_NAME == "one").values(TBL_NAME="o n e"))
    )
    report = cycle(pair)
    assert lines(replica) == ["a"]
    assert replica.client.catalog.list_tables() == ["plain"]
    assert report.notes == ["not replicated, as names are letters, digits and _ only: default.o n e"]


def test_the_sides_change_places_and_again(pair: tuple[Site, Site]) -> None:
    """There, fail-over, back, fail-over, there: with a table of write ids and one without."""
    primary, replica = pair
    back = policy({"name": "back", "source": "replica", "destination": "primary", "databases": ["default"]})
    create(primary, ONE)
    write(primary, "1", table=ONE)
    plain(primary, "a")
    cycle(pair)
    fail_over_policy(POLICY.name, replica, holder="an admin")
    write(replica, "2", table=ONE)
    insert(replica, "b")
    fail_back(primary, replica, POLICY.name, back.name)
    replicate(back, replica, primary, holder="a test")
    assert (rows(primary, ONE), lines(primary)) == ({"": {"1:1", "2:2"}}, ["a", "b"])
    fail_over_policy(back.name, primary, holder="an admin")
    write(primary, "3", table=ONE)
    insert(primary, "c")
    fail_back(replica, primary, back.name, POLICY.name)
    cycle(pair)
    assert (rows(replica, ONE), lines(replica)) == ({"": {"1:1", "2:2", "3:3"}}, ["a", "b", "c"])
    write(primary, "4", table=ONE)
    insert(primary, "d")
    cycle(pair)
    assert (rows(replica, ONE), lines(replica)) == (rows(primary, ONE), lines(primary))


def test_a_table_that_left_the_policies_while_the_sides_had_changed_places_stays_where_it_was_written(
    pair: tuple[Site, Site],
) -> None:
    """It came by a policy that is opened again, and is no copy any more."""
    primary, replica = pair
    there = policy({"name": POLICY.name, "source": "primary", "destination": "replica", "tables": [ONE]})
    back = policy({"name": "back", "source": "replica", "destination": "primary", "tables": [ONE]})
    create(primary, ONE)
    write(primary, "1", table=ONE)
    plain(primary, "a")
    cycle(pair)
    fail_over_policy(POLICY.name, replica, holder="an admin")
    insert(replica, "b")
    fail_back(primary, replica, POLICY.name, back.name)
    replicate(back, replica, primary, holder="a test")
    fail_over_policy(back.name, primary, holder="an admin")
    fail_back(replica, primary, back.name, there.name)
    replicate(there, primary, replica, holder="a test", again=True)
    assert lines(replica) == ["a", "b"]


def test_sides_without_acid_tables_change_places_too(pair: tuple[Site, Site]) -> None:
    primary, replica = pair
    back = policy({"name": "back", "source": "replica", "destination": "primary", "databases": ["default"]})
    plain(primary, "a")
    cycle(pair)
    fail_over_policy(POLICY.name, replica, holder="an admin")
    with pytest.raises(ActionRefusedError, match="was not failed over"):
        fail_back(replica, primary, back.name, POLICY.name)
    assert "no ACID tables" in fail_back(primary, replica, POLICY.name, back.name).proposal
    replicate(back, replica, primary, holder="a test")
    fail_over_policy(back.name, primary, holder="an admin")
    insert(primary, "b")
    fail_back(replica, primary, back.name, POLICY.name)
    cycle(pair)
    assert lines(replica) == ["a", "b"]


@pytest.mark.rule("R17")
@pytest.mark.parametrize("for_good", [False, True], ids=["once", "for good"])
def test_a_cycle_may_lose_the_answer_to_any_commit_at_the_replica(
    pair: tuple[Site, Site], monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest, *, for_good: bool
) -> None:
    """An import with files; a drop, and a table that is made anew. Every COMMIT (in the suite: every fifth)."""
    primary, replica = pair
    plain(primary, "a")
    cycle(pair)
    first, apart = (1, 1) if request.config.getoption("programs") else (3 if for_good else 1, 5)
    for number in range(first, 100, apart):
        before = lines(primary)
        insert(primary, f"b{number}")
        if number % 2:
            location = primary.client.catalog.drop_table(PLAIN).locations[0]
            primary.filesystem.delete(location, inside=location.rpartition("/")[0])
            plain(primary, f"c{number}")
        with monkeypatch.context() as patched:
            lost = LostAnswers(replica, number, patched, for_good=for_good)
            with contextlib.suppress(HiveAcidError):
                cycle(pair)
        if replica.client.catalog.find_tables([PLAIN]) and not replica.client.show_locks():
            assert lines(replica) in (before, lines(primary))
        cycle(pair)
        assert lines(replica) == lines(primary)
        assert not [t for t in replica.client.show_transactions() if t.state.value == "o"]
        if not lost.happened:
            break
    assert not lost.happened
    assert number > 5
