"""Reads of changes and of times at a replica, and at the new primary that it becomes: whole, or refused."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest
import sqlalchemy as sa

from airflow_hive_acid.engine.tables.viewpoints import Looks
from airflow_hive_acid.errors import ChangesNoLongerAvailableError, HistoryGoneError
from airflow_hive_acid.format.acid_state import acid_state
from airflow_hive_acid.format.changes import Changes, PartKind, as_of, partition_changes
from airflow_hive_acid.format.jobs import View
from airflow_hive_acid.format.names import DirectoryKind, base_name
from airflow_hive_acid.metastore.listing import CommitLog, read_history, shown_moment, write_ids_at
from airflow_hive_acid.metastore.names.objects import table_name
from airflow_hive_acid.metastore.schema.hive_catalog import TBLS
from airflow_hive_acid.metastore.schema.hive_transactions import NOTIFICATION_LOG
from airflow_hive_acid.replication.acid.sync import sync_tables
from airflow_hive_acid.replication.cycles.failover import fail_over
from airflow_hive_acid.sql.model.plans import TableRead
from airflow_hive_acid.sql.model.pruning import KEEP_ALL
from tests.integration.replication import acid_world as world

if TYPE_CHECKING:
    from airflow_hive_acid.replication.site import Site

T, begin, create, fill, path_of, put, rows, write = (
    world.T, world.begin, world.create, world.fill, world.path_of, world.put, world.rows, world.write
)  # fmt: skip


def sync(primary: Site, replica: Site) -> None:
    sync_tables(primary, replica, "p", [T])


def overwrite(site: Site, *lines: str) -> None:
    """INSERT OVERWRITE."""
    with site.client.begin({T: "overwrite"}) as transaction:
        write_id = transaction.write_ids[T]
        put(site, T, base_name(write_id), [f"{write_id}:{line}" for line in lines])


def applied(site: Site, first: int, last: int, before: set[str]) -> set[str]:
    """Rows after the changes of a range, as a reader of them finds these."""
    table = site.client.catalog.get_table(T)
    with site.client.snapshot([T]) as reader:
        ids, txns, looks = reader.snapshot[T], reader.valid_txns, Looks(site.client)
        snapshot = looks.snapshot(table, TableRead(T, "v", KEEP_ALL), [], ids, txns)
        asked = View("v", snapshot, changes=Changes(first, last))
        (view,) = looks.views(SimpleNamespace(views=lambda _: [asked]), {"v": snapshot})
    place = path_of(table.location)
    listing, cleaned = world.listing(place), view.changes.cleaned.get("", 0)
    after = set(before)
    for part in partition_changes(listing, ids, txns, first, last, cleaned=cleaned).parts or ():
        seen = as_of(ids, part.last)
        state = acid_state(listing, seen, txns)
        if part.kind is PartKind.REPLACED:
            was = as_of(ids, part.first - 1)
            after -= visible(place, acid_state(listing, was, txns), was)
            after |= visible(place, state, seen)
            continue
        deltas = [d for d in state.deltas if d.directory.max_write_id >= part.first]
        for kind in (DirectoryKind.DELTA, DirectoryKind.DELETE_DELTA):
            for found in (d for d in deltas if d.directory.kind is kind):
                lines = (place / found.name / "bucket_00000").read_text().splitlines()
                for line in lines:
                    if kind is DirectoryKind.DELTA:
                        after.add(line)
                    else:
                        after.discard(line.split("-", 1)[1])
    return after


def visible(place, state, ids) -> set[str]:
    lines = world._lines(place, state, ids)
    return {x for x in lines if ":" in x and "-" not in x} - {x.split("-", 1)[1] for x in lines if "-" in x}


def test_changes_that_go_on_at_a_new_primary_lose_no_delete_of_an_overwrite(primary: Site, replica: Site) -> None:
    """
    write id 1  row a; the replica gets it
    write id 2  row b; somebody has followed the primary's changes up to here
    write id 3  INSERT OVERWRITE; the replica gets its base, and not row b, which it has deleted
    write id 4  row d; the same sync
    then        the replica becomes the primary, and whoever followed goes on there from write id 3
    """
    create(primary)
    write(primary, "a")
    sync(primary, replica)
    write(primary, "b")
    assert applied(primary, 1, 2, set()) == {"1:a", "2:b"}
    overwrite(primary, "c")
    write(primary, "d")
    sync(primary, replica)
    primary.client.catalog.alter_properties(T, {"note": "what the catalog says travels, too"})
    e = write(primary, "e")
    sync(primary, replica)
    fail_over(replica, "p")
    f = write(replica, "f")
    left = {"3:c", "4:d", f"{e}:e", f"{f}:f"}
    assert rows(replica) == {"": left}
    assert applied(primary, 3, e, {"1:a", "2:b"}) == left - {f"{f}:f"}
    for first, last in ((3, f), (2, 2), (1, 2), (3, 3)):
        with pytest.raises(ChangesNoLongerAvailableError, match=r"the write ids 2 to 3 came .* those from 4 on"):
            applied(replica, first, last, {"1:a", "2:b"})
    assert applied(replica, 2, f, {"1:a"}) == applied(replica, 1, f, set()) == left
    assert applied(replica, 4, f, {"3:c"}) == left
    assert applied(replica, 1, 1, set()) == {"1:a"}
    overwrite(replica, "g")
    assert applied(replica, f + 1, f + 1, left) == {f"{f + 1}:g"}


@pytest.mark.backends("sqlite")
def test_an_overwrite_that_hides_nothing_new_can_be_told_from_its_write_id_on(primary: Site, replica: Site) -> None:
    """All that was there before it came with a sync before."""
    create(primary)
    write(primary, "a")
    sync(primary, replica)
    overwrite(primary, "b")
    sync(primary, replica)
    overwrite(primary, "c")
    write(primary, "d")
    sync(primary, replica)
    assert applied(replica, 2, 2, {"1:a"}) == {"2:b"}
    assert applied(replica, 3, 4, {"2:b"}) == applied(replica, 4, 4, {"3:c"}) == {"3:c", "4:d"}


@pytest.mark.backends("sqlite")
def test_a_late_write_that_an_overwrite_hides_is_among_what_cannot_be_told_by_itself(
    primary: Site, replica: Site
) -> None:
    """
    t1  write id 2 is open, 3 commits; sync
    t2  2 commits, then INSERT OVERWRITE by 4; sync: row late has never been here
    """
    create(primary)
    write(primary, "a")
    late = begin(primary)
    fill(primary, late, "late")
    write(primary, "b")
    sync(primary, replica)
    late.commit()
    overwrite(primary, "c")
    sync(primary, replica)
    assert applied(replica, 2, 4, {"1:a"}) == {"4:c"}
    with pytest.raises(ChangesNoLongerAvailableError):
        applied(replica, 3, 4, {"1:a", "2:late"})


@pytest.mark.backends("sqlite")
def test_what_a_partition_was_before_it_lost_its_rows_by_no_write_id_is_refused(primary: Site, replica: Site) -> None:
    """At the primary it was dropped and added again; a base without rows hides here what was there before."""
    create(primary, partitioned=True)
    write(primary, "a", partition="p=1")
    sync(primary, replica)
    world.drop_partition_without_a_base(primary, "p=1")
    last = write(primary, "b", partition="p=1")
    sync(primary, replica)
    assert rows(replica) == rows(primary) == {"p=1": {f"{last}:b"}}
    for site in (primary, replica):
        with pytest.raises(ChangesNoLongerAvailableError, match="a partition was dropped since"):
            applied(site, 2, last, set())
    write(primary, "c", partition="p=1")
    sync(primary, replica)
    applied(replica, last + 1, last + 1, set())  # what has come since can be told


def commits_after(log: CommitLog, position: int) -> tuple[list[tuple[int, int]], int]:
    """The ranges of changes that a watcher tells, and where it stands then."""
    page = log.read(position)
    told = [json.loads(json.dumps(c.to_document()))["changes"] for c in page.commits]
    return sorted((c["from_write_id"], c["to_write_id"]) for c in told), page.upto


def test_a_watcher_at_a_replica_tells_every_write_id_that_came(primary: Site, replica: Site) -> None:
    """
    t1  write ids 2 to 5, of which 4 is open; a sync: they are one commit at the replica, in two runs
    t2  6 and 7, and 4 commits; a sync
    """
    create(primary)
    write(primary, "a")
    sync(primary, replica)
    log = CommitLog(replica.client.database, replica.client.notifications)
    position = log.latest()
    write(primary, "b")
    write(primary, "c")
    late = begin(primary)
    assert late.write_ids[T] == 4
    write(primary, "d")
    sync(primary, replica)
    told, position = commits_after(log, position)
    assert told == [(2, 3), (5, 5)]
    write(primary, "e")
    write(primary, "f")
    fill(primary, late, "late")
    late.commit()
    sync(primary, replica)
    assert rows(replica) == rows(primary)
    told, position = commits_after(log, position)
    assert told == [(4, 4), (6, 7)]
    write(primary, "g")
    sync(primary, replica)
    assert commits_after(log, position)[0] == [(8, 8)]


def test_a_time_at_a_replica_is_the_state_that_it_had_then(primary: Site, replica: Site) -> None:
    """The syncs are moved to 200 and 100 s ago. Of the write ids of each, most have no txn of their own here."""
    create(primary)
    client, log = replica.client, NOTIFICATION_LOG
    ends = []
    for names in ("abcd", "efgh"):
        for name in names:
            write(primary, name)
        sync(primary, replica)
        ends.append(client.notifications.current_event_id())
    with client.database.transaction() as connection:
        now = connection.execute(sa.select(sa.func.max(log.c.EVENT_TIME))).scalar_one()
        for age, event in zip((100, 200), reversed(ends), strict=True):
            connection.execute(sa.update(log).where(log.c.EVENT_ID <= event).values(EVENT_TIME=now - age))
        connection.execute(sa.update(TBLS).values(CREATE_TIME=now - 4000))
    table, key, seen = client.catalog.get_table(T), table_name(T), client.get_valid_write_ids(T)[T]

    def at(age: int) -> set[int]:
        then = write_ids_at(client.database, client.notifications, table, key, seen, shown_moment(now - age))
        return {w for w in range(1, 9) if then.is_valid(w)}

    assert at(50) == set(range(1, 9))
    assert at(150) == at(200) == set(range(1, 5))
    assert read_history(client.database, client.notifications, key).committed == set(range(1, 9))
    with pytest.raises(HistoryGoneError):
        at(300)
