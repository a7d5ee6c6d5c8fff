"""IMPORT of metadata: dumps become tables and partitions, all in one database transaction; no file is touched."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_hive_acid.errors import (
    InvalidArgumentsError,
)
from airflow_hive_acid.metastore.catalog import (
    CatalogWriter,
    read_tables,
    read_whole_partitions,
    require_database,
)
from airflow_hive_acid.metastore.database import now_ms
from airflow_hive_acid.replication.dumps.dump import Dump, Scope
from airflow_hive_acid.replication.dumps.import_plan import Asked, Existing, plan_import, target_of
from airflow_hive_acid.replication.dumps.import_results import ImportResult, result_of, result_of_nothing

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sqlalchemy import Connection

    from airflow_hive_acid.metastore.names import TableName
    from airflow_hive_acid.replication.site import Site

_NOTHING = Asked()


def import_metadata(
    site: Site,
    dumps: Sequence[Dump],
    names: Sequence[TableName | None] = (),
    tell: Callable[[ImportResult], object] = bool,
) -> list[ImportResult]:
    """Import dumps of metadata, all in one database transaction.

    :param names: of the tables at the destination, one for each dump, or none for those of the source.
    :param tell: called with each result when all that is left is to commit it.
    """
    unit = site.client.claims.current

    def operation(connection: Connection) -> list[ImportResult]:
        site.require_allowed(connection)
        results = import_metadata_in(connection, site, dumps, names)
        for result in results:
            tell(result)
        if unit is not None:
            unit.in_commit(None)(connection)
        site.client.notifications.write(connection, [])
        return results

    results = site.client.database.run(operation)
    if unit is not None:
        unit.committed = True
    return results


def import_metadata_in(
    connection: Connection, site: Site, dumps: Sequence[Dump], names: Sequence[TableName | None] = ()
) -> list[ImportResult]:
    """The same as part of a transaction of the caller, who writes the events that were collected, last of all (R15)."""
    if any(dump.scope is not Scope.METADATA for dump in dumps):
        raise InvalidArgumentsError("import_metadata takes dumps of metadata only; use import_dump for the others")
    asked = [Asked(table=name) for name in names] or [_NOTHING] * len(dumps)
    rows = CatalogWriter(site.client.database, site.client.notifications, site.client.catalog.ids)
    results: list[ImportResult | None] = [None] * len(dumps)
    now = now_ms(connection) // 1000
    waiting = list(range(len(dumps)))
    while waiting:
        # A table that several dumps are about takes one of them at a time, in their order.
        round_, seen, later = [], set(), []
        for index in waiting:
            name = target_of(dumps[index], asked[index])
            if name is not None and name in seen:
                later.append(index)
                continue
            if name is not None:
                seen.add(name)
            round_.append(index)
        _import_round(connection, rows, [(i, dumps[i], asked[i]) for i in round_], results, now)
        waiting = later
    return [result for result in results if result is not None]


def _import_round(
    connection: Connection,
    rows: CatalogWriter,
    items: Sequence[tuple[int, Dump, Asked]],
    results: list[ImportResult | None],
    now: int,
) -> None:
    """Import dumps of metadata of different tables."""
    for index, dump, asked in items:
        if dump.is_noop:
            results[index] = result_of_nothing(dump, asked)
    live = [(i, d, a, n) for i, d, a in items if not d.is_noop and (n := target_of(d, a)) is not None]
    databases = {db: require_database(connection, db) for db in sorted({name.database for *_, name in live})}
    tables = read_tables(connection, [name for *_, name in live], lock=True)
    wanted = [(tables[name].id, part.name) for _, dump, _, name in live if name in tables for part in dump.partitions]
    found = read_whole_partitions(connection, wanted)
    plans = []
    for index, dump, asked, name in live:
        table = tables.get(name)
        parts = {} if table is None else {
            p.name: found[table.id, p.name] for p in dump.partitions if (table.id, p.name) in found
        }  # fmt: skip
        plan = plan_import(dump, asked, Existing(table, parts), databases[name.database], now)
        plans.append(plan)
        results[index] = result_of(plan, dump)
    tables |= rows.write_tables(connection, [plan.table for plan in plans if plan.table is not None])
    rows.write_partitions(connection, [(tables[plan.name], plan.partitions) for plan in plans if plan.partitions])
