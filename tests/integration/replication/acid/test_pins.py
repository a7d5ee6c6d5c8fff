"""Replication and pins: a pinned source is synced; what is pinned at the replica is not taken away by a sync."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from airflow_hive_acid.errors import ReplicaDivergedError, TablePinnedError
from airflow_hive_acid.format.acid_state import acid_state
from airflow_hive_acid.format.jobs import Column
from airflow_hive_acid.maintenance import run_cleaner
from airflow_hive_acid.replication.acid.sync import sync_tables
from tests.integration.replication.acid_world import (
    T,
    compact,
    create,
    drop_partition,
    drop_table,
    listing,
    path_of,
    rows,
    write,
)

if TYPE_CHECKING:
    from airflow_hive_acid.replication.site import Site


def pinned_rows(site: Site, pin: str) -> list[str]:
    """What a reader by the pin finds."""
    seen = site.client.pins.look(pin, T)
    place = path_of(site.client.catalog.get_table(T).location)
    state = acid_state(listing(place), seen.write_ids, seen.txns)
    files = [f for d in state.inserts for f, _ in d.bucket_files()]
    return sorted(line for f in files for line in (place / f.path).read_text().splitlines())


@pytest.mark.backends("sqlite")
@pytest.mark.rule("R16")
def test_a_pin_at_either_side_outlives_syncs_and_compactions(primary: Site, replica: Site) -> None:
    create(primary)
    write(primary, "one")
    primary.client.pins.pin("there", [T], expires=3600)
    sync_tables(primary, replica, "p", [T])
    replica.client.pins.pin("here", [T], expires=3600)
    write(primary, "two")
    compact(primary, major=True)
    run_cleaner(primary.client, primary.filesystem)
    sync_tables(primary, replica, "p", [T])
    assert rows(replica) == rows(primary) == {"": {"1:one", "2:two"}}
    compact(replica, major=True)
    run_cleaner(replica.client, replica.filesystem)
    write(primary, "three")
    sync_tables(primary, replica, "p", [T])
    assert rows(replica) == {"": {"1:one", "2:two", "3:three"}}
    assert pinned_rows(primary, "there") == pinned_rows(replica, "here") == ["1:one"]


@pytest.mark.backends("sqlite")
def test_a_sync_takes_nothing_from_a_pin_at_the_replica(primary: Site, replica: Site) -> None:
    """A dropped partition, changed columns, and a table that was made again: refused with the remedy, with nothing
    changed in any table of the sync, until the pin has ended."""
    create(primary, partitioned=True)
    write(primary, "a", partition="p=1")
    write(primary, "b", partition="p=2")
    create(primary, "default.u")
    sync_tables(primary, replica, "p", [T, "default.u"])
    changes = {
        "dropping partitions": lambda: drop_partition(primary, "p=2"),
        "changing its columns": lambda: primary.client.catalog.replace_columns(
            T, [Column("a", "string"), Column("more", "int")]
        ),
        "dropping it": lambda: (drop_table(primary), create(primary, partitioned=True)),
    }
    for what, change in changes.items():
        replica.client.pins.pin("books", [T], expires=3600)
        before = rows(replica)
        change()
        added = write(primary, "row", table="default.u")
        with pytest.raises(
            TablePinnedError, match=f"default.t is pinned by 'books'.*{what}.*hive-acid pin drop 'books'"
        ):
            sync_tables(primary, replica, "p", [T, "default.u"])
        assert rows(replica) == before, what
        assert f"{added}:row" not in rows(replica, "default.u")[""], what
        replica.client.pins.unpin("books")
        sync_tables(primary, replica, "p", [T, "default.u"])
        assert rows(replica) == rows(primary), what
        assert f"{added}:row" in rows(replica, "default.u")[""], what


@pytest.mark.backends("sqlite")
@pytest.mark.parametrize("what", ["columns", "partition", "foreign write"])
def test_a_table_that_begins_anew_is_not_dropped_while_another_one_stands_in_the_way(
    primary: Site, replica: Site, what: str
) -> None:
    """It would be empty at the replica until the other one's pin has ended, or its foreign write is seen to."""
    create(primary, "default.a")
    write(primary, "old", table="default.a")
    create(primary, partitioned=True)
    write(primary, "a", partition="p=1")
    tables = ["default.a", T]
    sync_tables(primary, replica, "p", tables)
    drop_table(primary, "default.a")
    create(primary, "default.a")
    write(primary, "new", table="default.a")
    if what == "foreign write":
        write(replica, "foreign", partition="p=1")
    else:
        replica.client.pins.pin("books", [T], expires=3600)
    if what == "columns":
        primary.client.catalog.replace_columns(T, [Column("a", "string"), Column("more", "int")])
    if what == "partition":
        drop_partition(primary, "p=1")
    with pytest.raises((TablePinnedError, ReplicaDivergedError)):
        sync_tables(primary, replica, "p", tables)
    assert rows(replica, "default.a") == {"": {"1:old"}}
