"""Compactions of a replica that no request names, because they only made many deltas fewer, beside syncs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from airflow_hive_acid.format.acid_state import acid_state
from airflow_hive_acid.format.jobs import Compact, JobResult, JobSpec, WrittenDirectory, WrittenFile
from airflow_hive_acid.format.names import ACID_VERSION, ACID_VERSION_FILE, delta_name
from airflow_hive_acid.format.write_ids import ValidTxnList, ValidWriteIdList
from airflow_hive_acid.maintenance import run_reaper, run_worker
from airflow_hive_acid.metastore.compaction.model import CompactionType
from airflow_hive_acid.replication.acid.sync import sync_tables
from tests.integration.replication import acid_world as world
from tests.integration.replication.world import pass_time

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_hive_acid.replication.site import Site

T, compact, create, path_of, rows, write = (
    world.T, world.compact, world.create, world.path_of, world.rows, world.write
)  # fmt: skip

pytestmark = pytest.mark.backends("sqlite")


def sync(primary: Site, replica: Site, step: Callable[[str], object] = lambda _name: None) -> None:
    sync_tables(primary, replica, "p", [T], step=step)


def merge(site: Site, spec: JobSpec) -> JobResult:
    """The job of a minor compaction of an insert-only table."""
    step = spec.step
    assert isinstance(step, Compact)
    assert step.type == "minor"
    place = path_of(step.target.partitions[0].location)
    ids = ValidWriteIdList.parse(step.target.write_ids).for_compactor()
    state = acid_state(world.listing(place), ids, ValidTxnList.parse(step.target.txns))
    low = min(d.directory.min_write_id for d in state.deltas)
    name = delta_name(low, ids.high_watermark, None, step.visibility_txn_id)
    text = "\n".join((place / f.path).read_text() for d in state.deltas for f in d.plain_files())
    made = f"{spec.staging}/data/{name}"
    site.filesystem.make_directory(made)
    site.filesystem.write_text(f"{made}/000000_0", text)
    site.filesystem.write_text(f"{made}/{ACID_VERSION_FILE}", ACID_VERSION)
    file = WrittenFile("000000_0", text.count("\n") + 1, len(text))
    return JobResult(spec.job_id, "application_1", directories=(WrittenDirectory("", (), name, (file,)),))


class Killed(BaseException):
    """The Worker is told to leave."""


def merge_some_and_leave(site: Site) -> str:
    """A Worker that dies after the first part of a compaction; what its txns were is forgotten since."""
    site.client.compactions.enqueue(
        T, type=CompactionType.MINOR, properties={"compactorthreshold.hive.compactor.max.num.delta": "2"}
    )
    jobs: list[JobSpec] = []

    def run(spec: JobSpec) -> JobResult:
        jobs.append(spec)
        if len(jobs) > 1:
            raise Killed
        return merge(site, spec)

    with pytest.raises(Killed):
        run_worker(site.client, site.filesystem, run, "worker")
    pass_time(site)
    run_reaper(site.client, site.filesystem)
    place = path_of(site.client.catalog.get_table(T).location)
    step = jobs[0].step
    assert isinstance(step, Compact)
    [made] = [found.name for found in place.iterdir() if found.name.endswith(f"_v{step.visibility_txn_id:07d}")]
    return made


@pytest.mark.rule("R4")
def test_deltas_that_were_only_made_fewer_are_not_shown_beside_what_a_sync_brings(primary: Site, replica: Site) -> None:
    """The replica has its rows of 2 in a delta of 1 to 2 by then, which one of 2 to 4 does not hide.

    t1  deltas 1, 2, 3 are at the replica; at the source, a base of 1 and a compacted delta of 2 to 4
    t2  a sync is about to put delta 2 to 4 in place, which hides 2 and 3
    t3            a Worker of the replica merges 1 and 2 first, because three are too many, and dies
    t4            its txns are forgotten, its request waits again
    t5  the sync looks again: all rows travel as one base
    """
    create(primary, transactional="true", transactional_properties="insert_only")
    write(primary, "a")
    sync(primary, replica)
    compact(primary, major=True, clean=True)
    write(primary, "b")
    write(primary, "c")
    sync(primary, replica)
    write(primary, "d")
    compact(primary, major=False, clean=True)
    made: list[str] = []

    def meanwhile(step: str) -> None:
        if step == "publish" and not made:
            made.append(merge_some_and_leave(replica))

    sync(primary, replica, meanwhile)
    assert made[0].startswith("delta_0000001_0000002_v")
    assert rows(replica) == rows(primary) == {"": {"1:a", "2:b", "3:c", "4:d"}}
    assert replica.client.jobs.to_finish(), "the record is there as long as the sync"
    run_reaper(replica.client, replica.filesystem)
    assert replica.client.jobs.to_finish() == []
