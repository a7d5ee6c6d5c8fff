"""A policy between two real sites: plain and ACID tables, first copied, then followed."""

from __future__ import annotations

import random
import shutil
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import pytest
import sqlalchemy as sa

from airflow_hive_acid.errors import (
    ActionRefusedError,
    InvalidArgumentsError,
    NoSuchObjectError,
    ReplicaDivergedError,
    ReplicationGapError,
)
from airflow_hive_acid.format.jobs import Column
from airflow_hive_acid.metastore.catalog.values.model import FieldSchema, TableDefinition
from airflow_hive_acid.metastore.catalog.values.views import new_view
from airflow_hive_acid.metastore.schema.hive_catalog import TABLE_PARAMS
from airflow_hive_acid.metastore.schema.hive_transactions import NOTIFICATION_LOG
from airflow_hive_acid.replication.cycles.cycle import commits_between, replicate, standing
from airflow_hive_acid.replication.policies.policy import policy
from airflow_hive_acid.replication.policies.state import PolicyRecord
from tests.integration.replication.world import Watch, World, read

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from airflow_hive_acid.metastore.catalog.values.model import Table
    from airflow_hive_acid.replication.cycles.runner import CycleReport
    from airflow_hive_acid.replication.policies.policy import Policy
    from airflow_hive_acid.replication.site import Site

DOCUMENT = {"name": "sales", "source": "primary", "destination": "replica", "databases": ["sales"]}
POLICY = policy(DOCUMENT)


def cycle(primary: Site, replica: Site, one: Policy = POLICY, **how: object) -> CycleReport:
    return replicate(one, primary, replica, holder="a test", **how)  # type: ignore[arg-type]


def plain_table(site: Site, name: str, **files: str) -> str:
    """A table of text files, with an event for what is written."""
    definition = TableDefinition(
        *name.split("."), (Column("line", "string"),), properties={"transactional": "false"}, stored_as="text"
    )
    location = site.client.catalog.create_table(definition).location
    site.filesystem.make_directory(location)
    write(site, location, **files)
    return location


def write(site: Site, location: str, **files: str) -> None:
    for name, text in files.items():
        site.filesystem.write_text(f"{location}/{name}", text)


def lines(site: Site, name: str) -> dict[str, str]:
    return contents(site, site.client.catalog.get_table(name).location)


def contents(site: Site, location: str) -> dict[str, str]:
    return {f.name: site.filesystem.read_text(f.path) for f in site.filesystem.list_files(location) if not f.is_dir}


@pytest.fixture
def world(primary: Site, replica: Site) -> World:
    found = World(primary, random.Random(7))
    found.create()
    replica.client.catalog.create_database("sales")
    return found


@pytest.mark.backends("sqlite")
def test_a_database_that_a_policy_does_not_name_any_more_may_be_written_when_its_copies_are_gone(
    world: World, primary: Site, replica: Site
) -> None:
    for site in (primary, replica):
        site.client.catalog.create_database("hr")
    plain_table(primary, "hr.people", a="one\n")
    cycle(primary, replica, policy({**DOCUMENT, "databases": ["sales", "hr"]}))

    def targets() -> dict[str, str | None]:
        get = replica.client.catalog.get_database
        return {name: get(name).properties.get("repl.target.for") for name in ("hr", "sales")}

    assert targets() == {"hr": "sales", "sales": "sales"}
    before = cycle(primary, replica).position
    primary.client.catalog.alter_properties("sales.plain", {"told": "in an event that cannot be read"})
    with primary.client.database.transaction() as connection:
        after = NOTIFICATION_LOG.c.EVENT_ID > before
        connection.execute(sa.update(NOTIFICATION_LOG).where(after).values(MESSAGE="not of its format"))
    assert "which tables there are" in " ".join(cycle(primary, replica).kept)
    assert targets() == {"hr": "sales", "sales": "sales"}  # its copies are there, and nobody has said that they may go
    assert replica.client.catalog.list_tables("hr") == ["people"]
    cycle(primary, replica, again=True)
    assert targets() == {"hr": None, "sales": "sales"}
    assert replica.client.catalog.list_tables("hr") == []


@pytest.mark.backends("sqlite")
def test_a_copy_that_went_to_another_policy_stays_when_the_first_one_gives_it_up(
    world: World, primary: Site, replica: Site
) -> None:
    location = plain_table(primary, "sales.lines", a="one\n")
    cycle(primary, replica)
    other = policy({**DOCUMENT, "name": "other", "databases": [], "tables": ["sales.lines"]})
    rest = policy({**DOCUMENT, "exclude": ["sales.lines"]})
    cycle(primary, replica, other)
    world.write()  # the rest is at a later event than the copy
    cycle(primary, replica, rest, again=True)
    assert lines(replica, "sales.lines") == {"a": "one\n"}
    brought = {one.source for one in PolicyRecord(replica.client.database, "sales").objects()}
    assert brought == {"sales.parts", "sales.plain"}
    write(primary, location, b="two\n")
    primary.client.catalog.alter_properties("sales.lines", {"numFiles": "2"})
    cycle(primary, replica, other)
    assert lines(replica, "sales.lines") == {"a": "one\n", "b": "two\n"}


@pytest.mark.backends("sqlite")
def test_a_database_that_gets_another_name_at_the_destination_is_copied_and_its_old_copies_go(
    world: World, primary: Site, replica: Site
) -> None:
    catalog = replica.client.catalog
    for name in ("first", "second"):
        catalog.create_database(name)
    plain_table(primary, "sales.lines", a="one\n")
    world.write()
    cycle(primary, replica, policy({**DOCUMENT, "rename": {"sales": "first"}}))
    cycle(primary, replica, policy({**DOCUMENT, "rename": {"sales": "second"}}), again=True)
    assert catalog.list_tables("first") == []
    assert "repl.target.for" not in catalog.get_database("first").properties
    assert lines(replica, "second.lines") == {"a": "one\n"}
    for table in world.tables:
        ours = {k[1]: v for k, v in read(replica, [table.replace("sales.", "second.")]).items() if v}
        assert ours == {k[1]: v for k, v in read(primary, [table]).items() if v}


@pytest.mark.backends("sqlite")
def test_names_that_have_changed_are_not_followed_before_everything_is_copied_under_them(
    world: World, primary: Site, replica: Site
) -> None:
    """Else what does not change would come to none of the two, and nobody would know of the old copies any more."""
    catalog = replica.client.catalog
    for name in ("first", "second"):
        catalog.create_database(name)
    location = plain_table(primary, "sales.lines", a="one\n")
    plain_table(primary, "sales.quiet", a="1\n")
    world.write()
    first = policy({**DOCUMENT, "rename": {"sales": "first"}})
    second = policy({**DOCUMENT, "rename": {"sales": "second"}})
    cycle(primary, replica, first)
    write(primary, location, b="two\n")
    primary.client.catalog.alter_properties("sales.lines", {"numFiles": "2"})
    for _ in range(2):
        with pytest.raises(ActionRefusedError, match=r"calls sales\.lines second\.lines now, and its copy is first"):
            cycle(primary, replica, second)
    assert catalog.list_tables("second") == []
    cycle(primary, replica, first)
    assert lines(replica, "first.lines") == {"a": "one\n", "b": "two\n"}
    cycle(primary, replica, second, again=True)
    assert catalog.list_tables("first") == []
    world.write()
    cycle(primary, replica, second)
    assert lines(replica, "second.quiet") == {"a": "1\n"}


@pytest.mark.backends("sqlite")
def test_a_partition_that_comes_brings_the_others_if_another_policy_has_left_the_table(
    primary: Site, replica: Site
) -> None:
    """Else the table would count as this policy's, with rows of another source."""
    for site in (primary, replica):
        site.client.catalog.create_database("sales")
    catalog = primary.client.catalog
    columns = (Column("line", "string"),), (Column("day", "string"),)
    catalog.create_table(
        TableDefinition("sales", "days", *columns, properties={"transactional": "false"}, stored_as="text")
    )

    def add(day: str, **files: str) -> str:
        catalog.add_partitions("sales.days", [day])
        location = catalog.get_partition("sales.days", day).location
        primary.filesystem.make_directory(location)
        write(primary, location, **files)
        return location

    location = add("day=1", a="one\n")
    cycle(primary, replica, policy({**DOCUMENT, "name": "former"}))
    cycle(primary, replica, policy({**DOCUMENT, "exclude": ["sales.days"]}))
    write(primary, location, a="two\n")
    add("day=2", a="three\n")
    cycle(primary, replica)
    here = {p.name: contents(replica, p.location) for p in replica.client.catalog.list_partitions("sales.days")}
    assert here == {"day=1": {"a": "two\n"}, "day=2": {"a": "three\n"}}


@pytest.mark.backends("sqlite")
def test_a_view_of_a_database_that_is_called_otherwise_is_left_out_and_named(
    world: World, primary: Site, replica: Site
) -> None:
    """Its text would read the destination's own tables of that name. A policy without other names copies it."""
    id_only = [FieldSchema("id", "bigint", None)]

    def view(name: str, query: str) -> Table:
        return new_view(f"sales.{name}", id_only, query, query)

    primary.client.catalog.create_view(view("first", "SELECT `plain`.`id` FROM `SALES`.`plain`"))
    primary.client.catalog.create_view(view("other", "SELECT 1 AS `id`"))
    primary.client.catalog.create_view(view("wholesales", "SELECT `id` FROM `wholesales`.`plain`"))
    replica.client.catalog.create_database("copy")
    renaming = policy({**DOCUMENT, "name": "renaming", "rename": {"sales": "copy"}})
    told = cycle(primary, replica, renaming).notes
    assert told == [
        "view sales.first is not replicated: its text names the database sales, which is copy here; create it by hand"
    ]
    assert replica.client.catalog.list_tables("copy") == ["other", "parts", "plain", "wholesales"]
    primary.client.catalog.create_view(view("second", "SELECT `id` FROM `sales`.`parts`"))
    primary.client.catalog.alter_view_query(view("other", "SELECT `id` FROM `sales`.`parts`"))
    told = cycle(primary, replica, renaming).notes
    assert [each.split(" is not")[0] for each in told] == ["view sales.other", "view sales.second"]
    assert replica.client.catalog.get_table("copy.other").view_text == "SELECT 1 AS `id`"
    assert "second" not in replica.client.catalog.list_tables("copy")
    assert cycle(primary, replica).notes == []
    assert {"first", "other", "second"} < set(replica.client.catalog.list_tables("sales"))


@pytest.mark.every_database
def test_a_policy_copies_and_then_follows_plain_and_acid_tables(world: World, primary: Site, replica: Site) -> None:
    plain_table(primary, "sales.lines", a="one\n")
    for _ in range(4):
        world.step()
    world.end_all()
    first = cycle(primary, replica)
    watch = Watch(world, replica)
    watch.look(must_be_current=True)
    assert lines(replica, "sales.lines") == {"a": "one\n"}
    assert (first.first, sorted(first.tables)) == (True, ["sales.lines", "sales.parts", "sales.plain"])
    at = standing("sales", primary, replica)
    assert (at.behind, at.lag_seconds, at.has_news) == (0, 0.0, False)

    world.two_tables()
    plain_table(primary, "sales.new", b="two\n")
    primary.client.catalog.drop_table("sales.lines")
    at = standing("sales", primary, replica)
    assert at.has_news
    second = cycle(primary, replica)
    watch.look(must_be_current=True)
    assert lines(replica, "sales.new") == {"b": "two\n"}
    assert replica.client.catalog.list_tables("sales") == ["new", "parts", "plain"]
    assert second.position == first.position + at.behind  # type: ignore[operator]
    assert cycle(primary, replica).applied == 0
    assert first.position is not None
    assert second.position is not None
    told = list(commits_between(POLICY, primary, replica, first.position, second.position))
    assert [(c["kind"], c["tables"]) for c in told] == [("replicated", ["sales.parts", "sales.plain"])]


@pytest.mark.backends("sqlite")
def test_events_that_cannot_be_read_leave_no_difference(world: World, primary: Site, replica: Site) -> None:
    """A rename, a drop, an insert, writes of ACID tables, and a plain table that became one; no message says so."""
    for name in ("sales.old", "sales.gone", "sales.kept", "sales.turns"):
        plain_table(primary, name, a="one\n")
    world.write()
    first = cycle(primary, replica)
    catalog = primary.client.catalog
    write(primary, catalog.get_table("sales.kept").location, b="two\n")
    catalog.alter_properties("sales.kept", {"numFiles": "2"})
    catalog.rename_table("sales.old", "sales.new")
    catalog.drop_table("sales.gone")
    catalog.drop_table("sales.turns")
    catalog.create_table(TableDefinition("sales", "turns", (Column("a", "int"),), properties={"transactional": "true"}))
    world.two_tables()
    assert first.position is not None
    with primary.client.database.transaction() as connection:
        after = NOTIFICATION_LOG.c.EVENT_ID > first.position
        connection.execute(sa.update(NOTIFICATION_LOG).where(after).values(MESSAGE="not of its format"))
    second = cycle(primary, replica)
    Watch(world, replica).look(must_be_current=True)
    assert second.position == primary.client.notifications.current_event_id()
    assert replica.client.catalog.list_tables("sales") == catalog.list_tables("sales")
    assert lines(replica, "sales.kept") == {"a": "one\n", "b": "two\n"}
    assert lines(replica, "sales.new") == {"a": "one\n"}
    assert replica.client.catalog.get_table("sales.turns").is_transactional
    assert cycle(primary, replica).applied == 0


def test_a_replica_has_databases_of_other_names(world: World, primary: Site, replica: Site) -> None:
    other = policy({**DOCUMENT, "rename": {"sales": "copy"}})
    with pytest.raises(NoSuchObjectError, match="run CREATE DATABASE copy there"):
        cycle(primary, replica, other)
    replica.client.catalog.create_database("copy")
    world.write()
    cycle(primary, replica, other)
    for table in world.tables:
        renamed = table.replace("sales.", "copy.")
        ours = {k[1]: v for k, v in read(replica, [renamed]).items() if v}
        assert ours == {k[1]: v for k, v in read(primary, [table]).items() if v}
    world.two_tables()
    cycle(primary, replica, other)
    assert replica.client.catalog.list_tables("sales") == []


def test_events_are_kept_longer_in_a_store(world: World, primary: Site, replica: Site) -> None:
    root = f"{replica.client.catalog.warehouse()}/_events"
    stored = policy({**DOCUMENT, "event_store": root})
    cycle(primary, replica, stored)
    world.write()
    report = cycle(primary, replica, stored)
    Watch(world, replica).look(must_be_current=True)
    assert report.position == primary.client.notifications.current_event_id()
    assert replica.filesystem.list_files(root)


@pytest.mark.parametrize("purged", [False, True])
def test_a_store_that_is_named_while_there_is_no_news_begins_where_the_policy_is(
    world: World, primary: Site, replica: Site, *, purged: bool
) -> None:
    """It has no event until the next one comes, and is as far as the source all the same."""
    world.write()
    stored = policy({**DOCUMENT, "event_store": f"{replica.client.catalog.warehouse()}/_events"})
    if purged:  # the first copy finds an empty store and an empty log
        with primary.client.database.transaction() as connection:
            connection.execute(sa.delete(NOTIFICATION_LOG))
    else:
        cycle(primary, replica)
        for again in (False, True):
            report = cycle(primary, replica, stored, again=again)
            assert (report.files, [note for note in report.notes if "anew" in note]) == (0, [])
    assert cycle(primary, replica, stored).position == primary.client.notifications.current_event_id()
    world.write()
    cycle(primary, replica, stored)
    Watch(world, replica).look(must_be_current=True)


def test_a_table_is_copied_anew_only_by_name_and_with_a_first_copy(world: World, primary: Site, replica: Site) -> None:
    plain_table(primary, "sales.lines", a="one\n")
    world.write()
    cycle(primary, replica)
    location = replica.client.catalog.get_table("sales.lines").location
    write(replica, location, stray="what somebody wrote here\n")
    for wrong, how in (("sales.lines", {}), ("hr.people", {"again": True})):
        with pytest.raises(InvalidArgumentsError, match="cannot be copied anew"):
            cycle(primary, replica, anew=[wrong], **how)
    cycle(primary, replica, again=True)
    assert "stray" in lines(replica, "sales.lines")
    report = cycle(primary, replica, again=True, anew=["sales.lines", "sales.plain"])
    assert lines(replica, "sales.lines") == {"a": "one\n"}
    Watch(world, replica).look(must_be_current=True)
    assert sorted(report.tables) == ["sales.lines", "sales.plain"]
    assert PolicyRecord(replica.client.database, "sales").read() is not None


@pytest.mark.parametrize("partitioned", [False, True])
def test_an_external_table_whose_files_stay_at_a_drop_is_copied_anew_in_its_place(
    primary: Site, replica: Site, *, partitioned: bool
) -> None:
    """Its files would be in the way of the copy, and of those that follow: each would begin with the first table."""
    for site in (primary, replica):
        site.client.catalog.create_database("sales")
    keys = (Column("day", "string"),) if partitioned else ()
    definition = TableDefinition("sales", "ext", (Column("line", "string"),), keys, external=True, stored_as="text")
    place = primary.client.catalog.create_table(definition).location
    days = ("day=1", "day=2") if partitioned else ("",)
    for day in days:
        primary.filesystem.make_directory(f"{place}/{day}".rstrip("/"))
        write(primary, f"{place}/{day}".rstrip("/"), a="one\n")
    if partitioned:
        primary.client.catalog.add_partitions("sales.ext", days)
    cycle(primary, replica)
    catalog = replica.client.catalog
    before = catalog.get_table("sales.ext")
    where = f"{before.location}/{days[0]}".rstrip("/")
    write(replica, where, a="two\n", stray="what somebody wrote here\n")
    if partitioned:
        primary.client.catalog.drop_partition("sales.ext", "day=2")
    cycle(primary, replica, again=True, anew=["sales.ext"])
    after = catalog.get_table("sales.ext")
    assert (after.id, after.location, after.type) == (before.id, before.location, "EXTERNAL_TABLE")
    assert contents(replica, where) == {"a": "one\n"}
    if partitioned:
        assert [p.name for p in catalog.list_partitions("sales.ext")] == ["day=1"]


def backed_up(database: Path, warehouse: Path) -> Callable[[], None]:
    """Take a backup of a site; what is returned restores it."""
    kept = database.with_suffix(".backup")

    def copy(source: Path, target: Path) -> None:
        with closing(sqlite3.connect(source)) as one, closing(sqlite3.connect(target)) as other:
            one.backup(other)

    def restore() -> None:
        copy(kept, database)
        shutil.rmtree(warehouse)
        shutil.copytree(kept.with_suffix(".files"), warehouse)

    copy(database, kept)
    shutil.copytree(warehouse, kept.with_suffix(".files"))
    return restore


@pytest.mark.backends("sqlite")
@pytest.mark.parametrize("stored", [False, True], ids=["log", "store"])
def test_a_primary_that_was_restored_and_has_gone_on_is_copied_whole_when_somebody_says_so(
    world: World, primary: Site, replica: Site, metastore_url: str, tmp_path: Path, *, stored: bool
) -> None:
    """The same event ids, write ids and txn ids were given again, to something else."""
    stores = [f"{replica.client.catalog.warehouse()}/_events{number}" for number in range(2)]
    policies = [policy({**DOCUMENT, **({"event_store": root} if stored else {})}) for root in stores]
    location = plain_table(primary, "sales.lines", a="one\n")
    world.write()
    restore = backed_up(tmp_path / metastore_url.rpartition("/")[2], tmp_path / "primary")
    known = len(world.history)
    plain_table(primary, "sales.lost", a="lost\n")
    write(primary, location, b="lost\n")
    world.two_tables()
    world.begin_to_stay_open()
    cycle(primary, replica, policies[0])
    restore()
    del world.history[known:]
    world._open.clear()
    write(primary, location, b="kept\n")
    for number in range(3):
        plain_table(primary, f"sales.new{number}", c="new\n")
    world.two_tables()
    world.two_tables()
    with primary.client.database.transaction() as connection:  # a restore takes its time
        log = NOTIFICATION_LOG.c
        later = sa.update(NOTIFICATION_LOG).where(log.EVENT_ID > known_events(primary, replica) - 3)
        connection.execute(later.values(EVENT_TIME=log.EVENT_TIME + 60))
    for _ in range(2):
        with pytest.raises(InvalidArgumentsError if stored else ReplicationGapError, match="restored"):
            cycle(primary, replica, policies[0])
    with pytest.raises(ReplicationGapError, match="restored from a backup"):
        cycle(primary, replica, policies[1])
    world.note("gone on")
    cycle(primary, replica, policies[1], again=True)
    Watch(world, replica).look(must_be_current=True)
    assert lines(replica, "sales.lines") == {"a": "one\n", "b": "kept\n"}
    assert replica.client.catalog.list_tables("sales") == ["lines", "new0", "new1", "new2", "parts", "plain"]
    world.two_tables()
    cycle(primary, replica, policies[1])
    Watch(world, replica).look(must_be_current=True)


def known_events(primary: Site, replica: Site) -> int:
    """The last event that the replica has."""
    state = PolicyRecord(replica.client.database, "sales").read()
    assert state is not None
    assert state.position is not None
    assert primary.client.notifications.current_event_id() > state.position
    return state.position


@pytest.mark.backends("sqlite")
def test_a_policy_counts_nothing_that_another_one_has_left(world: World, primary: Site, replica: Site) -> None:
    """State ids are of the events of one source. Here those of an older one, which has had more of them.

    t1  a policy brings a plain and an ACID table; its source is given up
    t2  a policy of another name brings the tables of another source
    """
    location = plain_table(primary, "sales.lines", a="one\n")
    world.write()
    cycle(primary, replica, policy({**DOCUMENT, "name": "former"}))
    with replica.client.database.transaction() as connection:
        is_state = TABLE_PARAMS.c.PARAM_KEY == "repl.last.id"
        connection.execute(sa.update(TABLE_PARAMS).where(is_state).values(PARAM_VALUE="1000000"))
    write(primary, location, b="two\n")
    with pytest.raises(ReplicaDivergedError, match="bootstrap these tables again") as refused:
        cycle(primary, replica)
    assert lines(replica, "sales.lines") == {"a": "one\n", "b": "two\n"}
    cycle(primary, replica, again=True, anew=sorted(refused.value.tables))
    Watch(world, replica).look(must_be_current=True)
    write(primary, location, c="three\n")
    primary.client.catalog.alter_properties("sales.lines", {"numFiles": "3"})
    cycle(primary, replica)
    assert sorted(lines(replica, "sales.lines")) == ["a", "b", "c"]
