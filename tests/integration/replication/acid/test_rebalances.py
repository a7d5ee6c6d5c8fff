"""Rebalancing compactions, which give rows other ids: what is deleted afterwards is deleted at the replica, too."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from airflow_hive_acid.maintenance import run_worker
from airflow_hive_acid.maintenance.decisions import Kind
from airflow_hive_acid.metastore.compaction.model import CompactionType
from airflow_hive_acid.replication.acid import sync as acid_sync
from airflow_hive_acid.replication.acid.sync import sync_tables
from tests.integration.replication import acid_world as world

if TYPE_CHECKING:
    from airflow_hive_acid.replication.acid.report import TableReport
    from airflow_hive_acid.replication.site import Site

T, compact, create, rebalance, rows, write = (
    world.T, world.compact, world.create, world.rebalance, world.rows, world.write
)  # fmt: skip

pytestmark = pytest.mark.backends("sqlite")


def alive(site: Site) -> set[str]:
    """The rows that are there, without the delete events, which are lines, too."""
    (found,) = rows(site).values()
    return {line for line in found if "-" not in line}


def sync(primary: Site, replica: Site) -> TableReport:
    (found,) = sync_tables(primary, replica, "p", [T]).tables
    return found


@pytest.mark.parametrize("then", ["nothing", "major", "cleaned"])
def test_a_replica_begins_anew_when_the_rows_of_its_source_have_other_ids(
    primary: Site, replica: Site, then: str
) -> None:
    """
    t1  rows a and b are at both sides
    t2  at the source they get other ids, and then a is deleted by its new one; a major compaction may follow
    t3  a sync: the delete event says nothing to a replica that knows a by its old id
    """
    create(primary)
    write(primary, "a")
    write(primary, "b")
    sync(primary, replica)
    rebalance(primary)
    write(primary, "c", deletes=("1:A",))
    if then != "nothing":
        compact(primary, major=True, clean=then == "cleaned")
    assert sync(primary, replica).bootstrapped
    assert alive(replica) == alive(primary) == {"2:B", "3:c"}
    write(primary, "d", deletes=("2:B",))
    assert not sync(primary, replica).bootstrapped
    assert alive(replica) == alive(primary) == {"3:c", "4:d"}


def test_a_first_copy_is_of_the_rows_with_their_new_ids(primary: Site, replica: Site) -> None:
    """What the rebalance has replaced is still there, and complete; it is not what later delete events speak of."""
    create(primary)
    write(primary, "a")
    write(primary, "b")
    rebalance(primary)
    write(primary, "c", deletes=("1:A",))
    sync(primary, replica)
    assert alive(replica) == alive(primary) == {"2:B", "3:c"}


def test_a_rebalance_that_commits_behind_the_look_is_told_with_the_next_sync(
    primary: Site, replica: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(primary)
    write(primary, "a")
    write(primary, "b")
    looked = acid_sync.describe

    def rebalanced_meanwhile(*arguments: object) -> object:
        rebalance(primary)
        return looked(*arguments)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(acid_sync, "describe", rebalanced_meanwhile)
        sync(primary, replica)
    write(primary, "c", deletes=("1:A",))
    assert sync(primary, replica).bootstrapped
    assert alive(replica) == alive(primary) == {"2:B", "3:c"}


def test_a_replica_is_not_rebalanced(primary: Site, replica: Site) -> None:
    create(primary)
    write(primary, "a")
    sync(primary, replica)
    for site, kind in ((replica, Kind.REFUSED), (primary, Kind.FAILED)):
        site.client.compactions.enqueue(T, type=CompactionType.REBALANCE)
        asked: list[object] = []

        def run(spec: object, asked: list[object] = asked) -> object:
            asked.append(spec)
            raise OSError("no Spark here")

        (outcome,) = run_worker(site.client, site.filesystem, run, "worker")  # type: ignore[arg-type]
        assert (outcome.kind, len(asked)) == (kind, site is primary)
        if site is replica:
            assert "default.t is written by the replication policy p" in outcome.reason
            assert "rebalance it there" in outcome.reason
