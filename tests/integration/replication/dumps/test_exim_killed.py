"""EXPORT, IMPORT and drops for replication that are killed: what the next try ends, and what the doctor finds."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import pytest

from airflow_hive_acid.maintenance.doctor.leftovers import examine_dumps, examine_leftovers
from airflow_hive_acid.maintenance.doctor.rules import Check
from airflow_hive_acid.metastore.names.objects import TableName
from airflow_hive_acid.replication.dumps.dropped_directories import mark_dropped, remove_dropped
from airflow_hive_acid.replication.dumps.drops import drop_partitions, drop_table, finish_drops
from airflow_hive_acid.replication.dumps.exports import export_table
from airflow_hive_acid.replication.dumps.imports import import_table
from tests.examples import places
from tests.integration.replication.dumps.exim import (
    FILES,
    add_partition,
    contents,
    exported,
    forget_txns,
    location,
    make_table,
    path_of,
    state_ids,
    write,
)
from tests.integration.replication.dying import Countdown, Killed, dying

if TYPE_CHECKING:
    from pathlib import Path

    from airflow_hive_acid.replication.site import Site


@pytest.mark.rule("R4")
@pytest.mark.rule("R5")
@pytest.mark.backends("sqlite")
def test_a_crash_anywhere_is_repaired_by_the_next_import(pair: tuple[Site, Site], tmp_path: Path) -> None:
    """Killed in front of every change; what others see then is the old table or the new one once the dead txn is gone
    and its job is undone, and the next import makes it the new one."""
    primary, replica = pair
    make_table(primary, partitioned=True)
    add_partition(primary, "ds=1", {"000000_0": b"old", "gone": b"x"})
    exported(primary, f"{tmp_path}/one")
    write(primary, location(primary, partition="ds=1"), {"000000_0": b"new"})
    path_of(location(primary, partition="ds=1")).joinpath("gone").unlink()
    add_partition(primary, "ds=2", {"000000_0": b"two"})
    exported(primary, f"{tmp_path}/two")
    for number in places(100, 4):
        import_table(replica, f"{tmp_path}/one")
        lived = False
        with dying(replica, Countdown(number)) as site:
            try:
                import_table(site, f"{tmp_path}/two")
                lived = True
            except Killed:
                pass
        forget_txns(replica)
        done = import_table(replica, f"{tmp_path}/two")
        # Fences, and what was moved aside when it was killed just after the commit: nobody reads it.
        found = {path: data for path, data in contents(replica, location(replica)).items() if path[:5] != "_tmp_"}
        assert found == {"ds=1/000000_0": b"new", "ds=2/000000_0": b"two"}, number
        assert set(state_ids(replica).values()) == {str(done.state_id)}, number
        drop_table(replica, "w.t", 10**6)
        if lived:
            break
    assert number > 10
    assert lived, "there are more changes than were tried"


@pytest.mark.rule("R17")
@pytest.mark.backends("sqlite")
@pytest.mark.parametrize("what", ["table", "partition"])
def test_a_drop_that_was_killed_anywhere_is_ended_by_its_next_try(
    pair: tuple[Site, Site], tmp_path: Path, what: str
) -> None:
    primary, replica = pair
    make_table(primary, partitioned=True)
    add_partition(primary, "ds=1", {"000000_0": b"one"})
    add_partition(primary, "ds=2", {"000000_0": b"two"})
    exported(primary, f"{tmp_path}/dump")

    def drop(site: Site) -> None:
        if what == "table":
            drop_table(site, "w.t", 10**6)
        else:
            drop_partitions(site, "w.t", ["ds=1"], 10**6)

    found = 0
    for number in places(100, 3):
        import_table(replica, f"{tmp_path}/dump")
        lived = False
        place = location(replica)
        with dying(replica, Countdown(number)) as site:
            try:
                drop(site)
                lived = True
            except Killed:
                pass
        forget_txns(replica)
        found += sum(finding.check is Check.LEFT for finding in examine_leftovers(replica.client, replica.filesystem))
        drop(replica)
        left = {} if what == "table" else {"ds=2/000000_0": b"two"}
        assert contents(replica, place) == left, number
        assert list(examine_leftovers(replica.client, replica.filesystem)) == []
        assert [i.name for i in replica.filesystem.list_files(place.rpartition("/")[0]) if i.name[:5] == "_tmp_"] == []
        drop_table(replica, "w.t", 10**6)
        if lived:
            break
    assert number > 5
    assert lived, "there are more changes than were tried"
    assert bool(found) == (what == "table")  # those of partitions lie deeper than it looks


@pytest.mark.rule("R17")
@pytest.mark.backends("sqlite")
def test_a_drop_that_was_killed_does_not_take_the_next_table_with_it(pair: tuple[Site, Site], tmp_path: Path) -> None:
    primary, replica = pair
    make_table(primary)
    write(primary, location(primary), FILES)
    exported(primary, f"{tmp_path}/dump")
    import_table(replica, f"{tmp_path}/dump")
    place = location(replica)
    mark_dropped(replica, place, "as by a drop that was killed in front of its commit")
    assert list(examine_leftovers(replica.client, replica.filesystem)) == []
    finish_drops(replica, [(TableName("w", "t"), None)])
    assert not remove_dropped(replica, place, "w.t")
    assert {path for path in contents(replica, place) if path[0] != "_"} == set(FILES)


@pytest.mark.backends("sqlite")
def test_imports_and_exports_that_nobody_tries_again_are_found(pair: tuple[Site, Site], tmp_path: Path) -> None:
    primary, replica = pair
    make_table(primary)
    write(primary, location(primary), FILES)
    exported(primary, f"{tmp_path}/dump")
    found: dict[str, set[str]] = {"import": set(), "export": set()}
    for number in places(40, 4):
        with dying(replica, Countdown(number)) as site, contextlib.suppress(Killed):
            import_table(site, f"{tmp_path}/dump")
        open_ids = replica.client.get_valid_txns().open_ids
        if open_ids:  # it may still be at it, for all that is known
            assert list(examine_leftovers(replica.client, replica.filesystem)) == []
        forget_txns(replica)
        for finding in examine_leftovers(replica.client, replica.filesystem):
            assert finding.check is Check.LEFT
            assert finding.place.rpartition("/")[2].startswith("_repl_")
            found["import"].add(finding.place)
        with dying(primary, Countdown(number)) as site, contextlib.suppress(Killed):
            export_table(site, "w.t", f"{tmp_path}/more/{number}")
        forget_txns(primary)
        found["export"] |= {finding.place for finding in examine_dumps(primary.filesystem, [f"{tmp_path}/more"])}
    assert found["import"]
    assert found["export"]


@pytest.mark.backends("sqlite")
def test_what_a_killed_export_has_copied_is_kept(primary: Site, dump: str) -> None:
    make_table(primary)
    write(primary, location(primary), {f"f{i}": bytes([i]) * 100 for i in range(20)})
    countdown = Countdown(None)
    with dying(primary, countdown) as site:
        export_table(site, "w.t", f"{dump}-counted")
    with dying(primary, Countdown(countdown.changes - 4)) as site, pytest.raises(Killed):
        export_table(site, "w.t", dump)
    forget_txns(primary)
    result = export_table(primary, "w.t", dump)
    assert result.reused == 20
    assert result.files == 20
