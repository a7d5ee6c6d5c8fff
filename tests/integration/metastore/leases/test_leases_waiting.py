"""Leases for somebody who must not block, and leases that are kept while a block runs."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest

from airflow_hive_acid.errors import HiveAcidError, LeaseAlreadyExistsError, LeaseEndedError
from airflow_hive_acid.metastore import MetastoreClient
from airflow_hive_acid.metastore.leases.keeper import KeptLease, kept
from airflow_hive_acid.metastore.leases.model import Lease, new_secret

if TYPE_CHECKING:
    from collections.abc import Iterator


pytestmark = pytest.mark.hive4("no mirrored leases")


@pytest.fixture
def other(metastore_url: str) -> Iterator[MetastoreClient]:
    with MetastoreClient(metastore_url, user="bob") as client:
        yield client


def end(rows: Any, lease: Lease) -> None:
    rows.update("HIVE_LEASE", {"END_UTC": 1}, LEASE_ID=lease.lease_id)


def test_who_looks_keeps_his_place_before_those_who_came_later(client: MetastoreClient, other: MetastoreClient) -> None:
    """
    t1  held by somebody; ann looks, and stands in line
    t2                     bob looks, too
    t3  released
    t4                     bob looks: ann is before him
    t5  ann looks: granted
    """
    held = client.leases.grab_lease("db.t", 60)
    ann, bob = client.leases.waiting_grab("db.t", 60), other.leases.waiting_grab("db.t", 60)
    assert ann.look() is None
    assert bob.look() is None
    assert ann.blocked is not None
    assert f"lease {held.lease_id}" in ann.blocked.text
    client.leases.drop_lease(held)
    assert bob.look() is None
    granted = ann.look()
    assert granted is not None
    assert granted.lease_id > held.lease_id
    client.leases.drop_lease(granted)
    assert bob.look() is not None


def test_who_withdraws_holds_nobody_back(client: MetastoreClient, other: MetastoreClient, rows: Any) -> None:
    held = client.leases.grab_lease("db.t", 60)
    ann, bob = client.leases.waiting_grab("db.t", 60), other.leases.waiting_grab("db.t", 60)
    assert ann.look() is bob.look() is None
    ann.withdraw()
    ann.withdraw()
    client.leases.drop_lease(held)
    assert bob.look() is not None
    assert ann.look() is None


def test_who_starts_over_finds_what_his_secret_was_granted(client: MetastoreClient, rows: Any) -> None:
    secret = new_secret()
    first = client.leases.waiting_grab("db.t", 60, secret=secret).look()
    again = client.leases.waiting_grab("db.t", 60, secret=secret).look()
    assert first is not None
    assert again == first
    with pytest.raises(LeaseAlreadyExistsError):
        client.leases.grab_lease("db.t", 60)
    end(rows, first)
    anew = client.leases.waiting_grab("db.t", 60, secret=secret).look()
    assert anew is not None
    assert anew.lease_id > first.lease_id


def test_a_secret_that_was_granted_a_shared_lease_holds_no_exclusive_one(client: MetastoreClient) -> None:
    secret = new_secret()
    shared = client.leases.grab_lease("db.t", 60, lease_type="s", secret=secret)
    with pytest.raises(LeaseAlreadyExistsError, match=f"lease {shared.lease_id} "):
        client.leases.grab_lease("db.t", 60, lease_type="x", secret=secret)
    other = client.leases.grab_lease("db.u", 60, lease_type="x", secret=secret)
    again = client.leases.grab_lease("db.u", 60, lease_type="s", secret=secret)
    assert again.lease_id == other.lease_id > shared.lease_id
    with pytest.raises(LeaseAlreadyExistsError):
        client.leases.grab_lease(["db.t", "db.u"], 60, lease_type="s", secret=secret)


def test_who_gives_up_leaves_neither_a_place_nor_what_another_process_was_granted(
    client: MetastoreClient, other: MetastoreClient, rows: Any
) -> None:
    """
    t1  ann is granted two tables, and dies before she can say so
    t2                     bob has a share of a third one, cat waits for the first
    t3  whoever follows ann gives up: cat is granted hers, and bob keeps his
    """
    secret = new_secret()
    assert client.leases.waiting_grab(["db.t", "db.u/p=1"], 60, secret=secret).look() is not None
    share = client.leases.grab_lease("db.v", 60, lease_type="s")
    cat = other.leases.waiting_grab("db.t", 60)
    assert cat.look() is None
    after = other.leases.waiting_grab(["db.t", "db.u/p=1"], 60, secret=secret)
    after.give_up()
    after.give_up()
    granted = cat.look()
    assert granted is not None
    assert {each.describe() for each in client.leases.list_lease()} == {"db.t", "db.v"}
    assert client.leases.confirm_lease(share)
    waits = other.leases.waiting_grab("db.t", 60)
    assert waits.look() is None
    waits.give_up()
    client.leases.drop_lease(granted)
    assert client.leases.grab_lease("db.t", 60)


def test_a_kept_lease_outlives_its_duration_and_is_given_back(client: MetastoreClient, other: MetastoreClient) -> None:
    lease = client.leases.grab_lease("db.t", 0.9)
    extended = threading.Event()
    extend = client.leases.extend_lease

    def noticed(given: Lease) -> Lease:
        longer = extend(given)
        if longer.end_utc > lease.end_utc + 900:
            extended.set()
        return longer

    client.leases.extend_lease = noticed  # type: ignore[method-assign, assignment]
    with kept(client.leases, lease, drop=True) as keeper:
        assert extended.wait(60)
        keeper.require()
        assert keeper.lost is None
        with pytest.raises(LeaseAlreadyExistsError):
            other.leases.grab_lease("db.t", 1)
    assert other.leases.grab_lease("db.t", 1).lease_id > lease.lease_id


def test_a_kept_lease_that_was_lost_is_an_error_and_a_failure_comes_first(client: MetastoreClient, rows: Any) -> None:
    lease = client.leases.grab_lease("db.t", 600)
    with pytest.raises(LeaseEndedError), kept(client.leases, lease, drop=True):
        end(rows, lease)
    lease = client.leases.grab_lease("db.t", 600)
    with pytest.raises(LeaseEndedError), kept(client.leases, lease, drop=False):
        end(rows, lease)
    lease = client.leases.grab_lease("db.t", 600)
    with pytest.raises(KeyError), kept(client.leases, lease, drop=True):
        {}[end(rows, lease)]


def test_an_extension_that_finds_the_lease_gone_says_so(client: MetastoreClient, rows: Any) -> None:
    lease = client.leases.grab_lease("db.t", 0.4)
    with KeptLease(client.leases, lease) as keeper:
        client.leases.force_drop_lease("db.t", "root", "test")
        lost = threading.Event()
        while keeper.lost is None:
            assert not lost.wait(0.02)
        assert isinstance(keeper.lost, HiveAcidError)
