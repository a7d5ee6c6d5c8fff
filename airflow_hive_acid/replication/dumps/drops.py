"""DROP TABLE … and DROP PARTITION … FOR REPLICATION('id'): what came by replication goes, unless it is newer.

The id is that of the drop's event. An object whose state id is not older came, or was exported, after that drop: it
stays, and the result says so (HiveReplicationDevelopment, "DropTable"). What did not come by replication stays, too.
Files go after the commit, under no lock: nobody can find them any more. A drop that was killed before that is ended by
its next try (:mod:`~airflow_hive_acid.replication.dumps.dropped_directories`).
"""

from __future__ import annotations

import contextlib
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_hive_acid.errors import CommitStateUnknownError, HiveAcidError
from airflow_hive_acid.filesystem.threads import in_threads
from airflow_hive_acid.format import paths
from airflow_hive_acid.format.table_kinds import is_transactional
from airflow_hive_acid.metastore.catalog import (
    MANAGED_TABLE,
    delete_partitions,
    delete_storage,
    forget_partitions,
    names_there,
    read_tables,
    read_whole_partitions,
)
from airflow_hive_acid.metastore.database import LockType
from airflow_hive_acid.metastore.names import TableName, table_name
from airflow_hive_acid.metastore.protocol import ddl_transaction, partition_lock, table_lock
from airflow_hive_acid.replication.dumps.dropped_directories import (
    finish_drop,
    grave_of,
    mark_dropped,
    remove_dropped,
    unmark,
)
from airflow_hive_acid.replication.dumps.fences import fence_dead_jobs_of
from airflow_hive_acid.replication.dumps.state_ids import ObjectState, may_drop
from airflow_hive_acid.replication.presence import require_place

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from sqlalchemy import Connection

    from airflow_hive_acid.metastore.catalog import PartitionSpec, Table, WholePartition
    from airflow_hive_acid.replication.dumps.state_ids import Verdict
    from airflow_hive_acid.replication.site import Site


log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class DropResult:
    """What a drop has done.

    :param dropped: names of the partitions that went, or of the table; empty when nothing did.
    :param kept: what stayed, with the reason.
    """

    table: str
    event_id: int
    dropped: tuple[str, ...] = ()
    kept: tuple[tuple[str, str], ...] = ()

    @property
    def done(self) -> bool:
        """Whether anything was changed."""
        return bool(self.dropped)


def drop_table(
    site: Site, table: str, event_id: int, tell: Callable[[DropResult], object] = bool
) -> DropResult:  # fmt: skip
    """Drop a table, unless its state id is not older than the event.

    :param tell: called inside the commit with the result that it has.
    :raises LockTimeoutError: when its readers do not end in time; nothing was dropped.
    """
    name = table_name(table)
    found, verdict = site.client.database.read(lambda connection: _judge(site, connection, name, event_id))
    if found is None or not verdict.accepted:
        finish_drops(site, [(name, None)])
        return DropResult(str(name), event_id, kept=((str(name), verdict.reason),))
    site.client.pins.require_unpinned([str(name)], "dropping it")
    with ddl_transaction(
        site.client, [table_lock(name, LockType.EXCLUSIVE)], agent_info=site.agent_info(f"drop {name} for replication")
    ) as ddl:
        fence_dead_jobs_of(site, name)  # R4: under an exclusive lock none is alive
        going = going_with(site, name) if files_go(found) else ()
        place = found.storage.location if found.storage.location in going else None

        def change(connection: Connection) -> tuple[tuple[str, ...], str | None]:
            site.require_allowed(connection)
            now, again = _judge(site, connection, name, event_id, lock=True)
            if now is None or not again.accepted:
                tell(DropResult(str(name), event_id, kept=((str(name), again.reason),)))
                return (), again.reason
            tell(DropResult(str(name), event_id, dropped=(str(name),)))
            dropped = site.client.catalog.drop_table_in(connection, name)
            return tuple(at for at in dropped.locations if dropped.delete_data and at in going), None

        with _marked(site, {str(name): place} if place else {}, event_id) as gone:
            locations, kept = ddl.commit(change)
            if kept is None:
                gone.add(str(name))
    if kept is not None:
        return DropResult(str(name), event_id, kept=((str(name), kept),))
    for location in locations:
        if location == place:
            remove_dropped(site, location, str(name))
        else:
            _remove(site, location)
    return DropResult(str(name), event_id, dropped=(str(name),))


def drop_partitions(
    site: Site,
    table: str,
    partitions: Sequence[PartitionSpec],
    event_id: int,
    tell: Callable[[DropResult], object] = bool,
) -> DropResult:
    """Drop partitions, all that are older than the event at once.

    :param partitions: names, values, or values by column. A name means the partition of this name alone: an event may
        come twice, and another one may have the same value.
    :param tell: called inside the commit with the result that it has.
    """
    name = table_name(table)
    found = site.client.database.read(lambda connection: read_tables(connection, [name]).get(name))
    if found is None:
        return DropResult(str(name), event_id, kept=((str(name), "there is no such table"),))
    names = _names_of(site, found, partitions)
    doomed, kept = site.client.database.read(lambda connection: _judge_partitions(connection, found, names, event_id))
    finish_drops(site, [(name, part) for part, _ in kept])
    if not doomed:
        return DropResult(str(name), event_id, kept=kept)
    site.client.pins.require_unpinned([str(name)], "dropping partitions of it")
    locks = [partition_lock(name, stored.name, LockType.EXCLUSIVE) for stored in doomed]
    agent = site.agent_info(f"drop partitions of {name} for replication")
    with ddl_transaction(site.client, locks, agent_info=agent) as ddl:
        fence_dead_jobs_of(site, name)
        shared = _shared_partitions(site, name, [s.name for s in doomed]) if files_go(found) else {}

        def result_of(gone: Sequence[WholePartition], stayed: Sequence[tuple[str, str]]) -> DropResult:
            went = tuple(stored.name for stored in gone)
            return DropResult(str(name), event_id, went, tuple(k for k in (*kept, *stayed) if k[0] not in went))

        def change(connection: Connection) -> DropResult:
            gone, stayed = _take_out(site, connection, name, [s.name for s in doomed], event_id, ddl.txn_id)
            left[:] = gone
            tell(done := result_of(gone, stayed))
            return done

        left: list[WholePartition] = []
        going = {
            f"{name}/{stored.name}": place
            for stored in doomed
            if files_go(found) and (place := stored.storage.location) and place not in shared
        }
        with _marked(site, going, event_id) as gone:
            result = ddl.commit(change)
            gone.update(f"{name}/{stored.name}" for stored in left)
    in_threads(lambda part: remove_dropped(site, going[part], part), sorted(going.keys() & gone), "drops")
    return result


def _names_of(site: Site, table: Table, partitions: Sequence[PartitionSpec]) -> list[str]:
    """The names that partitions have in the catalog; a name that was given is meant as it is."""
    exact = [table.spellings(spec).exact for spec in partitions if isinstance(spec, str)]
    others = [spec for spec in partitions if not isinstance(spec, str)]
    there = site.client.database.read(lambda connection: names_there(connection, table, others))
    return sorted({*there, *(part for part in exact if part is not None)})


def _take_out(
    site: Site, connection: Connection, name: TableName, partitions: Sequence[str], event_id: int, txn_id: int
) -> tuple[list[WholePartition], tuple[tuple[str, str], ...]]:
    """Take out of the catalog what may still go, inside the commit of the drop.

    :return: the partitions that have gone, and those that stay, each with the reason.
    """
    site.require_allowed(connection)
    now = read_tables(connection, [name], lock=True).get(name)
    if now is None:
        return [], ((str(name), "there is no such table"),)
    going, staying = _judge_partitions(connection, now, partitions, event_id)
    ids = [stored.id for stored in going]
    site.client.catalog.require_fenced(connection, name, txn_id)
    site.client.catalog.events.dropping_partitions(connection, now, ids)
    delete_storage(connection, delete_partitions(connection, ids))
    forget_partitions(connection, name, [stored.name for stored in going])
    return going, staying


@contextlib.contextmanager
def _marked(site: Site, places: Mapping[str, str], event_id: int) -> Iterator[set[str]]:
    """Directories that have their marks while the drop of what lies there commits.

    :param places: by name of the table or partition.
    :return: takes the names of what was dropped; the others lose their marks.
    """
    gone: set[str] = set()

    def mark(name: str) -> None:
        mark_dropped(site, places[name], f"{name} was dropped at the source with event {event_id}")

    try:
        in_threads(mark, list(places), "drops")
        yield gone
    except CommitStateUnknownError:
        raise  # R17: a mark means nothing as long as the table or partition is there
    except BaseException:
        with contextlib.suppress(HiveAcidError, OSError):  # the failure is what the caller should hear of
            in_threads(lambda name: unmark(site, places[name]), list(places), "drops")
        raise
    in_threads(lambda name: unmark(site, places[name]), sorted(places.keys() - gone), "drops")


def finish_drops(site: Site, drops: Collection[tuple[TableName, str | None]]) -> None:
    """End drops that were killed behind their commit, and that have nothing to drop in the catalog any more.

    :param drops: the table, and the name of the partition if it is one.
    """
    catalog = site.client.catalog
    tables = catalog.find_tables({str(name) for name, _ in drops})
    known = {name.database for name, _ in drops}.intersection(catalog.list_databases())
    databases = {db: catalog.get_database(db) for db in known}
    for name, part in drops:
        table = tables.get(str(name))
        if part is None and table is None and name.database in known:
            for place in {databases[name.database].home_of(name.name, managed=managed) for managed in (True, False)}:
                finish_drop(site, place, str(name))
        elif part is not None and table is not None and table.location:
            finish_drop(site, paths.join(table.location, part), f"{name}/{part}")


def kept_drops(site: Site, drops: Sequence[tuple[TableName, str | None, int]]) -> list[str | None]:
    """Which drops would do nothing, and why, by one look at all of them; what a killed one has left is removed.

    :param drops: table, name of the partition if it is one, and event id.
    :return: for each why nothing would go; None where something would.
    """

    def operation(connection: Connection) -> list[str | None]:
        tables = read_tables(connection, {name for name, _, _ in drops})
        parts = [(tables[name].id, part) for name, part, _ in drops if part is not None and name in tables]
        found = read_whole_partitions(connection, parts)
        reasons: list[str | None] = []
        for name, part, event_id in drops:
            table = tables.get(name)
            parameters = None if table is None else table.properties
            if part is not None and table is not None:
                stored = found.get((table.id, part))
                parameters = None if stored is None else stored.properties
            verdict = may_drop(ObjectState.of(parameters, part or str(name)), event_id)
            reasons.append(None if verdict.accepted else verdict.reason)
        return reasons

    reasons = site.client.database.read(operation)
    finish_drops(site, [(name, part) for (name, part, _), why in zip(drops, reasons, strict=True) if why is not None])
    return reasons


def _judge(
    site: Site, connection: Connection, name: TableName, event_id: int, *, lock: bool = False
) -> tuple[Table | None, Verdict]:
    found = read_tables(connection, [name], lock=lock).get(name)
    held = ObjectState.of(None if found is None else found.properties, str(name))
    return found, may_drop(held, event_id)


def _judge_partitions(
    connection: Connection, table: Table, names: Sequence[str], event_id: int
) -> tuple[list[WholePartition], tuple[tuple[str, str], ...]]:
    found = read_whole_partitions(connection, [(table.id, name) for name in names])
    going, kept = [], []
    for name in names:
        stored = found.get((table.id, name))
        verdict = may_drop(ObjectState.of(None if stored is None else stored.properties, name), event_id)
        if stored is not None and verdict.accepted:
            going.append(stored)
        else:
            kept.append((name, verdict.reason))
    return going, tuple(kept)


def files_go(table: Table) -> bool:
    """Whether a drop of a table deletes its files."""
    purge = {key.lower(): value for key, value in table.properties.items()}.get("external.table.purge", "")
    return is_transactional(table.properties) or table.type == MANAGED_TABLE or purge.lower() == "true"


def going_with(site: Site, name: TableName) -> tuple[str, ...]:
    """The directories whose files go with a table: no other table uses them, and their disks are there.

    :raises WarehouseMissingError: naming one that is not (R17).
    """
    [planned] = site.client.catalog.plan_drop([str(name)])
    shared = site.client.catalog.shared_places(planned.locations, *name)
    _tell(shared)
    going = tuple(location for location in planned.locations if location not in shared)
    for location in going:
        if not site.filesystem.exists(grave_of(location, str(name))):  # a killed drop has moved it away
            require_place(site, planned.table, location)
    return going


def _shared_partitions(site: Site, name: TableName, partitions: Sequence[str]) -> dict[str, str]:
    catalog = site.client.catalog
    table, found = catalog.get_table(str(name)), list(catalog.find_partitions(str(name), partitions).values())
    shared = catalog.shared_partition_places(table, found)
    for part in found:
        if part.location not in shared:
            require_place(site, table, part.location)
    _tell(shared)
    return shared


def _tell(shared: Mapping[str, str]) -> None:
    for place, other in shared.items():  # an older version, or a Hive, has let them
        log.warning("the files in %s were not removed: they are shared with %s", place, other)


def _remove(site: Site, location: str) -> None:
    parent = location.rstrip("/").rpartition("/")[0]
    if len(paths.parse_location(location).segments) > 1:
        site.filesystem.delete(location, inside=parent)
