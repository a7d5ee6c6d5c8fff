"""Tables and partitions without files: many of them come in one transaction of each side.

Most new tables and partitions have no files yet. There is nothing to stage, to put into place or to undo then, and what
is left are locks and rows of the catalog, which many tables share: one txn of the source reads all of them under their
locks, one of the destination makes them. Whatever is not that simple (files, something to replace, what an import that
was killed has left) is left to :mod:`importing`.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from airflow_hive_acid.errors import HiveAcidError, InvalidArgumentsError
from airflow_hive_acid.filesystem import list_many
from airflow_hive_acid.filesystem.listing import enter
from airflow_hive_acid.format import paths
from airflow_hive_acid.format.names import IMPORT_PREFIX, STAGING_PREFIX
from airflow_hive_acid.format.table_kinds import is_transactional
from airflow_hive_acid.metastore.catalog import (
    CatalogWriter,
    lock_places,
    read_all_partitions,
    read_owned,
    read_tables,
    read_whole_partitions,
    require_database,
    sharing_columns,
)
from airflow_hive_acid.metastore.database import LockType, now_ms
from airflow_hive_acid.metastore.protocol import ddl_transaction, table_lock
from airflow_hive_acid.metastore.txns import tables_with_unfenced_jobs
from airflow_hive_acid.replication.dumps.dump import Dump, DumpFile, Scope
from airflow_hive_acid.replication.dumps.exports import MATERIALIZED_VIEW, plain_files, tagged
from airflow_hive_acid.replication.dumps.import_plan import Asked, Existing, ImportPlan, outline, plan_import
from airflow_hive_acid.replication.dumps.import_results import ImportResult, result_of
from airflow_hive_acid.replication.presence import require_listed

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from sqlalchemy import Connection

    from airflow_hive_acid.metastore.catalog import Table, WholePartition
    from airflow_hive_acid.metastore.names import TableName
    from airflow_hive_acid.replication.site import Site

_THREADS = 8


@contextlib.contextmanager
def open_exports(site: Site, wanted: Mapping[TableName, Sequence[str]]) -> Iterator[dict[TableName, Dump]]:
    """Dumps for replication of several tables, under one snapshot, which keeps their files until this ends.

    :param wanted: names of partitions by table; none for the whole table.
    :return: those of the tables that exist and have no transactions; the others are :func:`open_export`'s.
    """
    # R3: read first; everything that is read after it is at least as new.
    state = site.client.notifications.current_event_id()
    known = site.client.catalog.find_tables([str(name) for name in wanted])
    names = [name for name in wanted if str(name) in known and not known[str(name)].is_transactional]
    if not names:
        yield {}
        return
    listed = [str(name) for name in names]
    with site.client.open_snapshot(listed, plain=listed, agent_info=f"export {len(names)} tables"):
        dumps = site.client.database.read(
            lambda connection: _read(connection, {name: wanted[name] for name in names}, state)
        )
        yield {name: tagged(dump) for name, dump in _with_files(site, dumps).items()}


def _read(connection: Connection, wanted: Mapping[TableName, Sequence[str]], state: int) -> dict[TableName, Dump]:
    found = {
        name: table for name, table in read_tables(connection, wanted).items()
        if not is_transactional(table.properties) and table.type != MATERIALIZED_VIEW
        and (table.partition_columns or not wanted[name])
    }  # fmt: skip
    partitioned = {name: table for name, table in found.items() if table.partition_columns}
    sharing = sharing_columns(connection, [table.id for table in partitioned.values()])
    stored = read_all_partitions(connection, [table.id for name, table in partitioned.items() if not wanted[name]])
    stored |= read_whole_partitions(
        connection, [(t.id, part) for name, t in partitioned.items() for part in wanted[name]]
    )
    by_table: dict[int, dict[str, WholePartition]] = {}
    for (table_id, part), one in stored.items():
        by_table.setdefault(table_id, {})[part] = one
    dumps = {}
    for name, table in found.items():
        parts = by_table.get(table.id, {})
        dumps[name] = Dump(
            table, Scope.ALL, state, whole_table=not wanted[name],
            shared_columns=bool(table.partition_columns) and table.id in sharing,
            partitions=tuple(parts[part] for part in sorted(parts)),
            missing=tuple(part for part in wanted[name] if part not in parts),
        )  # fmt: skip
    return dumps


def _with_files(site: Site, dumps: Mapping[TableName, Dump]) -> dict[TableName, Dump]:
    places = {
        (name, part): place
        for name, dump in dumps.items()
        for part, place in (
            [(p.name, p.storage.location) for p in dump.partitions]
            if dump.table is not None and dump.table.partition_columns
            else [("", None if dump.table is None else dump.table.storage.location)]
        )
        if place
    }
    listings = list_many(site.filesystem, places.values(), descend=enter)
    for name, dump in dumps.items():
        if dump.table is not None and dump.table.storage.location:
            own = [place for (of, _), place in places.items() if of == name]
            require_listed(
                site.filesystem, str(name), dump.table.storage.location, listings, own, descend=enter
            )  # fmt: skip
    files: dict[TableName, list[DumpFile]] = {}
    for (name, part), place in places.items():
        files.setdefault(name, []).extend(
            DumpFile(part, path, size, source=f"{place}/{found}")
            for path, found, size in plain_files(listings[place] or ())
        )
    return {name: replace(dump, files=tuple(files.get(name, ()))) for name, dump in dumps.items()}


def import_empty(site: Site, dumps: Sequence[tuple[TableName, Dump]]) -> dict[TableName, ImportResult]:
    """Import dumps for replication without files, all or none of them.

    :param dumps: with the table at the destination, each one once.
    :return: what was done; what is missing there needs
        :func:`~airflow_hive_acid.replication.dumps.imports.import_dump`.
    :raises LockTimeoutError: when somebody else writes one of the tables and does not end in time.
    """
    return _Import(site, {name: dump for name, dump in dumps if not dump.files and not dump.is_noop}).run()


@dataclass(slots=True)
class _Import:
    """One import of several tables."""

    site: Site
    dumps: dict[TableName, Dump]

    def run(self) -> dict[TableName, ImportResult]:
        """Plan, lock, look, commit."""
        client, dumps = self.site.client, self.dumps
        plans = client.database.read(self._plan)
        done = {name: result_of(plan, dumps[name]) for name, plan in plans.items() if plan.is_noop}
        plans = {name: plan for name, plan in plans.items() if not plan.is_noop}
        if not plans:
            return done
        rows = _rows(self.site)
        parts = sum(len(plan.partitions) for plan in plans.values())
        rows.reserve(sum(plan.table is not None for plan in plans.values()), parts)
        # Keeps other imports and writers away, not readers: they see the catalog before or after the commit.
        locks = [table_lock(name, LockType.EXCL_WRITE) for name in sorted(plans)]
        agent = self.site.agent_info(f"import {len(plans)} tables without files")
        with ddl_transaction(client, locks, agent_info=agent) as ddl:
            self.dumps = {name: dumps[name] for name in plans}
            plans = self._free(client.database.read(self._plan_free))
            made = {name: plan for name, plan in plans.items() if not plan.is_noop}
            _make_directories(self.site, made)
            self.dumps = {name: dumps[name] for name in made}
            if made:
                ddl.commit(lambda connection: self._change(connection, rows, made))
        return done | {name: result_of(plan, dumps[name]) for name, plan in plans.items()}

    def _plan(self, connection: Connection, *, lock: bool = False) -> dict[TableName, ImportPlan]:
        """The plans of those that only add what is new."""
        tables = read_tables(connection, self.dumps, lock=lock)
        whole = [tables[name].id for name, dump in self.dumps.items() if name in tables and dump.whole_table]
        wanted = [(tables[n].id, p.name) for n, dump in self.dumps.items() if n in tables for p in dump.partitions]
        stored = read_all_partitions(connection, whole) | read_whole_partitions(connection, wanted)
        by_table: dict[int, dict[str, WholePartition]] = {}
        for (table_id, part), one in stored.items():
            by_table.setdefault(table_id, {})[part] = one
        databases = {
            name: require_database(connection, name) for name in sorted({name.database for name in self.dumps})
        }
        now = now_ms(connection) // 1000
        plans = {}
        for name, dump in self.dumps.items():
            table = tables.get(name)
            existing = Existing() if table is None else Existing(table, by_table.get(table.id, {}))
            # What is refused is refused alone, by the import of that dump.
            with contextlib.suppress(HiveAcidError):
                plan = plan_import(dump, Asked(table=name), existing, databases[name.database], now)
                if _only_adds(plan):
                    plans[name] = plan
        return plans

    def _plan_free(self, connection: Connection) -> dict[TableName, ImportPlan]:
        """Without tables on which an import that was killed has left something (R4), or that are in others' places."""
        unfenced = tables_with_unfenced_jobs(connection)
        plans = {name: plan for name, plan in self._plan(connection).items() if name not in unfenced}
        new = {name: plan.location for name, plan in plans.items() if _is_new(plan) and plan.location}
        times = Counter(new.values())
        owned = read_owned(connection, times)
        shared = {
            name for name, place in new.items() if times[place] > 1 or place in owned or _around(place) & times.keys()
        }
        return {name: plan for name, plan in plans.items() if name not in shared}

    def _free(self, plans: Mapping[TableName, ImportPlan]) -> dict[TableName, ImportPlan]:
        """Those whose directories hold nothing: no rows, and nothing of an import that was killed."""
        tables = list_many(self.site.filesystem, [p.location for p in plans.values() if p.location], recursive=False)
        places = [place for plan in plans.values() for place in _looked_at(plan)]
        below = list_many(self.site.filesystem, places, descend=enter)

        def is_free(plan: ImportPlan) -> bool:
            left = [e for e in tables.get(plan.location) or () if e.name.startswith((IMPORT_PREFIX, STAGING_PREFIX))]
            rows = [e for place in _looked_at(plan) for e in plain_files(below[place] or ())]
            return not left and not rows

        return {name: plan for name, plan in plans.items() if is_free(plan)}

    def _change(self, connection: Connection, rows: CatalogWriter, plans: Mapping[TableName, ImportPlan]) -> None:
        """Inside the commit: the catalog changes as planned, or nothing does."""
        self.site.require_allowed(connection)
        now = self._plan(connection, lock=True)
        for name, plan in plans.items():
            if name not in now or outline(now[name]) != outline(plan):
                raise InvalidArgumentsError(f"{name} was changed by somebody else while it was imported; try again")
        new = {plan.location: name for name, plan in now.items() if _is_new(plan) and plan.location}
        if new:
            lock_places(connection)
            for place in read_owned(connection, new):
                raise InvalidArgumentsError(f"{place} of {new[place]} was given to another table just now; try again")
        tables: dict[TableName, Table] = dict(
            rows.write_tables(connection, [plan.table for plan in now.values() if plan.table is not None])
        )
        tables |= read_tables(connection, now.keys() - tables.keys())
        rows.write_partitions(
            connection, [(tables[name], plan.partitions) for name, plan in now.items() if plan.partitions]
        )


def _rows(site: Site) -> CatalogWriter:
    return CatalogWriter(site.client.database, site.client.notifications, site.client.catalog.ids)


def _only_adds(plan: ImportPlan) -> bool:
    """Whether nothing that is there is replaced: new tables and partitions, and metadata of tables with partitions."""
    if plan.dropped or plan.in_place or any(write.before is not None for write in plan.partitions):
        return False
    return plan.table is None or plan.table.before is None or bool(plan.table.before.partition_columns)


def _is_new(plan: ImportPlan) -> bool:
    return plan.table is not None and plan.table.before is None


def _places(plan: ImportPlan) -> list[str]:
    """Directories whose files become rows by the plan."""
    own = [plan.location] if _is_new(plan) and plan.table is not None and plan.table.after.storage.location else []
    return own + [place for _, place in plan.places if place not in own]


def _looked_at(plan: ImportPlan) -> list[str]:
    """Directories that are listed for that, with all below them."""
    places = _places(plan)
    return [place for place in places if place == plan.location or not (
        plan.location in places and paths.is_inside(plan.location, place)
    )]  # fmt: skip


def _around(location: str) -> set[str]:
    """The directories in which a directory is."""
    scheme, _, path = location.partition(":")
    segments = path.split("/")
    return {f"{scheme}:{'/'.join(segments[:end])}" for end in range(2, len(segments))}


def _make_directories(site: Site, plans: Mapping[TableName, ImportPlan]) -> None:
    wanted = list(dict.fromkeys(place for plan in plans.values() for place in _places(plan)))
    with ThreadPoolExecutor(min(_THREADS, len(wanted) or 1), thread_name_prefix="directories") as pool:
        list(pool.map(site.filesystem.make_directory, wanted))
