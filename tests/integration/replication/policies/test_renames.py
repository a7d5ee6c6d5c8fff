"""Renames of tables and partitions at the primary, seen by a replica: swapped names, chains, and repeats."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from airflow_hive_acid.errors import NoSuchObjectError
from airflow_hive_acid.format.jobs import Column
from airflow_hive_acid.metastore.catalog.values.model import TableDefinition
from airflow_hive_acid.replication.cycles.cycle import replicate
from airflow_hive_acid.replication.policies.policy import policy
from airflow_hive_acid.replication.policies.state import PolicyRecord

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_hive_acid.replication.site import Site

POLICY = policy({"name": "r", "source": "primary", "destination": "replica", "tables": ["w.*"], "exclude": ["w.x_*"]})
PLAIN = {"transactional": "false"}


def create(site: Site, name: str, *, partitioned: bool = False) -> None:
    keys = (Column("day", "string"),) if partitioned else ()
    made = site.client.catalog.create_table(
        TableDefinition("w", name, (Column("line", "string"),), keys, properties=PLAIN, stored_as="text")
    )
    site.filesystem.make_directory(made.location)
    if not partitioned:
        site.filesystem.write_text(f"{made.location}/f", f"made as {name}")
        site.client.write_events.inserted(f"w.{name}", [f"{made.location}/f"])


def add(site: Site, name: str, day: str) -> None:
    site.client.catalog.add_partitions(f"w.{name}", [(day,)])
    place = site.client.catalog.get_partition(f"w.{name}", (day,)).location
    site.filesystem.make_directory(place)
    site.filesystem.write_text(f"{place}/f", f"day {day}")
    site.client.write_events.inserted(f"w.{name}", [f"{place}/f"], partition=f"day={day}")


def seen(site: Site) -> dict[str, object]:
    """What each table of the policy holds."""
    catalog, found = site.client.catalog, dict[str, object]()
    for name in catalog.list_tables("w"):
        if name.startswith("x_"):
            continue
        table = catalog.get_table(f"w.{name}")
        places = {"": table.location}
        if table.is_partitioned:
            places = {p.name: p.location for p in catalog.list_partitions(f"w.{name}")}
        found[name] = {part: site.filesystem.read_text(f"{place}/f") for part, place in places.items()}
    return found


def cycle(primary: Site, replica: Site) -> None:
    replicate(POLICY, primary, replica, holder="a test")


@pytest.mark.backends("sqlite")
def test_renames_arrive_whatever_was_replicated_before_and_however_often_they_are_repeated(
    primary: Site, replica: Site
) -> None:
    """
    t1  a, b and p are copied
    t2  a and b swap their names; c goes through two names; p and one of its partitions are renamed; b leaves the
        policy, y comes into it
    t3  the replica follows; then it repeats from every earlier position
    """
    catalog = primary.client.catalog
    for site in (primary, replica):
        site.client.catalog.create_database("w")
    create(primary, "a")
    create(primary, "b")
    create(primary, "x_y")
    create(primary, "p", partitioned=True)
    add(primary, "p", "mon")
    add(primary, "p", "tue")
    cycle(primary, replica)
    assert seen(replica) == seen(primary)
    start = primary.client.notifications.current_event_id()

    changes: list[Callable[[], object]] = [
        lambda: catalog.rename_table("w.a", "w.between"), lambda: catalog.rename_table("w.b", "w.a"),
        lambda: catalog.rename_table("w.between", "w.b"), lambda: create(primary, "c"),
        lambda: catalog.rename_table("w.c", "w.d"), lambda: catalog.rename_table("w.d", "w.e"),
        lambda: catalog.rename_partition("w.p", "day=mon", "day=wed"), lambda: catalog.rename_table("w.p", "w.q"),
        lambda: add(primary, "q", "mon"), lambda: catalog.rename_table("w.b", "w.x_b"),
        lambda: catalog.rename_table("w.x_y", "w.y"),
    ]  # fmt: skip
    for number, change in enumerate(changes, 1):
        change()
        if number % 4 == 0 or number == len(changes):
            cycle(primary, replica)
            assert seen(replica) == seen(primary)
    assert seen(replica) == {
        "a": {"": "made as b"}, "e": {"": "made as c"}, "q": {"day=mon": "day mon", "day=tue": "day tue",
                                                              "day=wed": "day mon"}, "y": {"": "made as x_y"},
    }  # fmt: skip
    with pytest.raises(NoSuchObjectError):
        replica.client.catalog.get_table("w.x_b")
    record = PolicyRecord(replica.client.database, "r")
    for position in range(start, primary.client.notifications.current_event_id(), 7):
        epoch = record.begin("primary", "a test").epoch
        record.change(epoch, position=position)
        record.end(epoch, {}, None)
        cycle(primary, replica)
        assert seen(replica) == seen(primary)
