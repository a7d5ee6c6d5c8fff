"""A replica's table where there is none yet, and none any more where one must begin anew."""

from __future__ import annotations

import contextlib
from functools import partial
from typing import TYPE_CHECKING

from airflow_hive_acid.errors import CommitStateUnknownError, HiveAcidError, InvalidArgumentsError
from airflow_hive_acid.filesystem.absence import list_or_prove
from airflow_hive_acid.filesystem.fencing import fence_staging
from airflow_hive_acid.format import paths
from airflow_hive_acid.format.names import is_hidden, parse_directory, staging_name
from airflow_hive_acid.metastore.catalog import TableDefinition
from airflow_hive_acid.metastore.database import LockType, Operation
from airflow_hive_acid.metastore.leases import require_no_other
from airflow_hive_acid.metastore.locks import LockComponent
from airflow_hive_acid.metastore.names import table_name
from airflow_hive_acid.metastore.protocol import database_lock, ddl_transaction, table_lock, wait_until_granted
from airflow_hive_acid.metastore.replica import ended_here, forget_records, given_up, require_attempt
from airflow_hive_acid.metastore.txns import moves_with_commits
from airflow_hive_acid.replication.acid.plan import is_left_behind, leftovers
from airflow_hive_acid.replication.acid.snapshot import list_places, places_of
from airflow_hive_acid.replication.dumps.dropped_directories import bury, grave_of
from airflow_hive_acid.replication.dumps.drops import going_with
from airflow_hive_acid.replication.presence import require_place

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from sqlalchemy import Connection

    from airflow_hive_acid.format.write_ids import ValidWriteIdList
    from airflow_hive_acid.metastore.catalog import DroppedTable, Table
    from airflow_hive_acid.replication.site import Site

STAGING = "repl-"
"""Staging directories of syncs are named ``_tmp_repl-<attempt>``."""
_NOT_COPIED = ("repl.", "hive.acid.repl.")
_STATISTICS = frozenset({
    "column_stats_accurate", "numfiles", "numrows", "rawdatasize", "totalsize", "numfileserasurecoded",
    "transient_lastddltime", "last_modified_by", "last_modified_time",
})  # fmt: skip


def create_like(site: Site, source: Table, name: str) -> Table:
    """Make the replica's table as the source's is; its directory must be empty or absent.

    What only the full metadata of the source says (owners, privileges, comments of the database) follows by import.

    :raises InvalidArgumentsError: when something lies where the table goes.
    """
    key = table_name(name)
    definition = TableDefinition(
        db=key.database, name=key.name, columns=source.columns, partition_columns=source.partition_columns,
        properties=_copied_properties(source), owner=source.owner, bucket_columns=source.bucket_columns,
        bucket_count=source.bucket_count, sort_columns=source.sort_columns, comments=source.comments,
        stored_as=source.format or "orc",
    )  # fmt: skip
    planned = site.client.catalog.plan_table(definition)
    location = planned.location or ""
    bury(site, location, name)
    if site.filesystem.exists(location):
        there = [e.name for e in site.filesystem.list_files(location) if not is_hidden(e.name)]
        if there:
            raise InvalidArgumentsError(
                f"{location} is not empty: it holds {there[0]}, and the new table {name} of {site.name} would take it "
                "for its own; empty it"
            )
    if location:
        site.filesystem.make_directory(location)  # first: nobody finds a table without its directory
    table = site.client.catalog.create_table(definition)
    site.filesystem.make_directory(table.location)
    return table


def is_described_otherwise(source: Table, target: Table) -> bool:
    """Whether the catalogs say different things of a table and its copy; places, statistics and positions left aside.

    That the source was altered counts, too: its files may know columns under names that are gone by now.
    """

    def said(table: Table) -> tuple[object, ...]:
        properties = {k: v for k, v in _copied_properties(table).items() if not moves_with_commits(k)}
        return (*_columns(table), table.comments, properties, table.serde, table.serde_properties)

    return said(source) != said(target) or (source.is_altered and not target.is_altered)


def is_stored_otherwise(source: Table, target: Table) -> bool:
    """Whether the catalogs disagree on what a pin needs to read a table: its columns and how they lie in files."""

    def said(table: Table) -> tuple[object, ...]:
        return (*_columns(table), table.partition_columns, table.serde, table.serde_properties)

    return said(source) != said(target)


def _columns(table: Table) -> list[tuple[str, str]]:
    """Names and types; constraints are not replicated, so that a NOT NULL of the source is no difference."""
    return [(column.name, column.type) for column in table.columns]


def _copied_properties(table: Table) -> dict[str, str]:
    return {
        k: v for k, v in table.properties.items()
        if not k.lower().startswith(_NOT_COPIED) and k.lower() not in _STATISTICS
    }  # fmt: skip


def ended_at(site: Site, name: str, known: ValidWriteIdList) -> frozenset[int]:
    """Write ids that were open at the last sync, and that somebody else has ended at the site: compactions pass them.

    :param known: what came with the last sync that ended; where nothing was open, nobody is asked.
    """
    if not known.open:
        return frozenset()
    return site.client.database.read(lambda connection: ended_here(connection, table_name(name), known))


def remove_leftovers(site: Site, table: Table, known: ValidWriteIdList, left: Collection[int]) -> list[str]:
    """Remove what a killed sync had renamed into place; nobody sees it.

    Who calls this keeps other syncs of the policy out. Where somebody else has written since, nothing is touched but
    what carries a txn of a sync: the same numbers may be theirs. Nor is a compaction that has passed a write id whose
    txn here was ended by others, or by a fail-over.

    :param known: what came with the last sync that ended.
    :param left: txns of syncs that did not end.
    """
    removed = []
    places = list(places_of(site, table).values())
    if not site.filesystem.exists(table.location):
        require_place(site, table)
    found = {place: leftovers(list_places(site.filesystem, {"": place})[""], known, left) for place in places}
    # After the listings: what they have of a write id that is given to nobody even now is a sync's.
    foreign = site.client.max_allocated_write_id(table.qualified_name) != known.high_watermark
    left_open = given_up(known, ended_at(site, table.qualified_name, known))
    for place in places:
        for name in found[place]:
            directory = parse_directory(name)
            txn_id = 0 if directory is None else directory.visibility_txn_id
            if txn_id not in left and (foreign or (txn_id and not is_left_behind(name, left_open, left))):
                continue
            site.filesystem.delete(paths.join(place, name), inside=place)
            removed.append(name)
    return removed


def fence_syncs(site: Site, table: Table, note: str) -> None:
    """Make sure that no sync that is still alive renames anything into a table (R4)."""
    for staging in staging_of_syncs(site, table):
        fence_staging(site.filesystem, staging, inside=table.location, note=note)


def staging_of_syncs(site: Site, table: Table) -> list[str]:
    """Staging directories of syncs in a table; those that are fenced are files.

    :raises WarehouseMissingError: when the warehouse of the table is not there: what nobody found is not fenced (R4).
    """
    proof = partial(require_place, site, table)
    entries = list_or_prove(site.filesystem, [table.location], proof, recursive=False)[table.location] or []
    found = [entry.name for entry in entries if entry.is_dir and entry.name.startswith(staging_name(STAGING))]
    return [paths.join(table.location, name) for name in sorted(found)]


def require_no_lease(site: Site, connection: Connection, tables: Iterable[str]) -> None:
    """A lease says that nobody else writes: it keeps off syncs as well, which ask for no lock of Hive's.

    :raises LeaseAlreadyExistsError: when somebody else holds one on a table or its partitions.
    """
    if site.client.database.features(connection).leases:
        require_no_other(connection, sorted(map(table_name, tables)), site.client.leases.current)


def keep_cleaner_away(site: Site, sync_txn: int, tables: Sequence[str]) -> None:
    """Lock tables that get partitions, to the end of a sync's txn.

    The directory of such a partition may wait for the Cleaner since it was dropped, and until the sync commits no
    catalog says that it is somebody's again.

    :raises LockTimeoutError: when a Cleaner, or DDL, does not end in time.
    """
    if not tables:
        return
    names = sorted(table_name(table) for table in tables)
    locks = [LockComponent(*name, None, LockType.SHARED_WRITE, Operation.NO_TXN, transactional=False) for name in names]
    response = site.client.lock(locks, txn_id=sync_txn, agent_info="replication")
    wait_until_granted(site.client, response, sync_txn, f"write lock of {', '.join(map(str, names))}")


def drop_for_bootstrap(site: Site, table: Table, policy: str, attempt: str) -> None:
    """Drop a table of the replica with its files: it is a copy of one that is gone, or is copied again.

    Who calls this has asked whether it is pinned.

    :param attempt: the sync that does it.
    :raises ReplicationBusyError: when another one took over, or the replica was failed over; the table stays.
    """
    client, key = site.client, table_name(table.qualified_name)
    locks = [database_lock(key.database, LockType.SHARED_READ), table_lock(key, LockType.EXCLUSIVE)]

    def change(connection: Connection) -> DroppedTable:
        require_attempt(connection, policy, attempt)
        forget_records(connection, policy, [table.id])
        return client.catalog.drop_table_in(connection, key, purge=True)

    grave = grave_of(table.location, table.qualified_name)
    agent = site.agent_info(f"drop {key} to copy it again")
    with ddl_transaction(client, locks, agent_info=agent) as ddl:
        going = going_with(site, key)
        bury(site, table.location, table.qualified_name)
        # Away first: a kill after the catalog has forgotten the table must leave nothing where the next one goes.
        if table.location in going:
            with contextlib.suppress(FileNotFoundError):
                site.filesystem.rename_directory(table.location, grave)
        try:
            dropped = ddl.commit(change)
        except CommitStateUnknownError:
            raise  # R17: the next sync drops it, or makes it anew; what is moved away is deleted either way
        except HiveAcidError:
            with contextlib.suppress(FileNotFoundError):
                site.filesystem.rename_directory(grave, table.location)
            raise
    for location in {*(at for at in dropped.locations if at in going), grave}:
        parent = location.rstrip("/").rpartition("/")[0]
        paths.require_inside(parent, location)
        site.filesystem.delete(location, inside=parent)
