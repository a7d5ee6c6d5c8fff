"""Leases on tables of a replica: who holds one is the only one to write, also where the others are syncs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from airflow_hive_acid.errors import LeaseAlreadyExistsError
from airflow_hive_acid.replication.acid.sync import sync_tables
from tests.integration.replication import acid_world as world

if TYPE_CHECKING:
    from airflow_hive_acid.replication.site import Site

T, create, rows, write = world.T, world.create, world.rows, world.write
pytestmark = pytest.mark.backends("sqlite")


@pytest.mark.rule("R8")
@pytest.mark.parametrize("leased", [T, f"{T}/p=1"], ids=["table", "partition"])
@pytest.mark.parametrize("mirror", [True, False])
@pytest.mark.parametrize("at", ["begin", "publish"])
def test_a_sync_changes_no_table_that_is_leased(
    primary: Site, replica: Site, at: str, leased: str, *, mirror: bool
) -> None:
    """It is refused before it looks, or when it is about to end; who holds the lease may sync, and so may all later."""
    create(primary, partitioned=True)
    write(primary, "a", partition="p=1")
    sync_tables(primary, replica, "p", [T])
    write(primary, "b", partition="p=1")
    held = []

    def meanwhile(step: str) -> None:
        if step == at and not held:
            held.append(replica.client.leases.grab_lease(leased, 60, mirror=mirror))

    with pytest.raises(LeaseAlreadyExistsError, match=r"t.* is held by .* until .*force-drop"):
        sync_tables(primary, replica, "p", [T], step=meanwhile)
    assert rows(replica) == {"p=1": {"1:a"}}
    with replica.client.leases.under(held[0]):
        sync_tables(primary, replica, "p", [T])
    assert rows(replica) == rows(primary)
    write(primary, "c", partition="p=1")
    with pytest.raises(LeaseAlreadyExistsError):
        sync_tables(primary, replica, "p", [T])
    replica.client.leases.drop_lease(held[0])
    sync_tables(primary, replica, "p", [T])
    assert rows(replica) == rows(primary)
