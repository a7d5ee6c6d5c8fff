"""EXPORT, IMPORT and the drops FOR REPLICATION as statements: what they did is their row.

Repeating one does no harm: state ids refuse what is not newer, and the row says so (HiveReplicationDevelopment). A task
that is tried again has the row of the try that did it, which is recorded with the commit (R14).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_hive_acid.engine.outcomes.results import Rows, StatementResult
from airflow_hive_acid.errors import NoSuchObjectError
from airflow_hive_acid.format.jobs import Column
from airflow_hive_acid.format.partitions import partition_name
from airflow_hive_acid.metastore.catalog import named_by
from airflow_hive_acid.metastore.names import TableName
from airflow_hive_acid.replication.dumps.drops import drop_partitions, drop_table
from airflow_hive_acid.replication.dumps.dump import Scope
from airflow_hive_acid.replication.dumps.exports import export_table
from airflow_hive_acid.replication.dumps.import_plan import Asked
from airflow_hive_acid.replication.dumps.imports import import_table
from airflow_hive_acid.replication.site import Site
from airflow_hive_acid.sql.model.transfers import (
    DropPartitionsForReplication,
    DropTableForReplication,
    ExportTable,
    ImportTable,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_hive_acid.engine.context import Context
    from airflow_hive_acid.engine.transactions.claims import ToApply
    from airflow_hive_acid.replication.dumps.drops import DropResult
    from airflow_hive_acid.replication.dumps.import_results import ImportResult
    from airflow_hive_acid.sql.model.transfers import TransferStatement

_EXPORTED = (
    ("uri", "string"), ("table", "string"), ("state_id", "bigint"), ("partitions", "int"), ("files", "bigint"),
    ("bytes", "bigint"), ("note", "string"),
)  # fmt: skip
_IMPORTED = (
    ("table", "string"), ("action", "string"), ("state_id", "bigint"), ("partitions", "int"), ("files", "bigint"),
    ("bytes", "bigint"), ("reason", "string"),
)  # fmt: skip
_DROPPED = (("name", "string"), ("dropped", "boolean"), ("reason", "string"))


def site_of(context: Context, name: str = "here") -> Site:
    """This engine's side of a replication."""
    return Site(context.client, context.filesystem, lambda spec: context.application.ready().run(spec), name)


def transfer(context: Context, statement: TransferStatement, claim: ToApply) -> StatementResult:
    """Run one of them.

    :param claim: the claim under which it is done once, if it is.
    :raises UnsupportedStatementError: with DummyTxnManager, which has no txns.
    """
    context.locking.require_transactions(
        f"{statement.kind_text.replace('_', ' ').upper()} needs transactions; set hive.txn.manager to DbTxnManager"
    )
    told: list[Rows] = []

    def result() -> StatementResult:
        return StatementResult(statement.text, statement.kind_text, rows=told[-1])

    site = site_of(context)
    with claim.changing(result):
        match statement:
            case ExportTable():
                told.append(_export(site, statement, claim.key))
            case ImportTable():
                told.append(_imported(_import(site, statement, lambda done: told.append(_imported(done)))))
            case DropTableForReplication(table=table, event_id=event_id):
                _require(context, str(table), if_exists=statement.if_exists)
                gone = drop_table(site, str(table), event_id, lambda done: told.append(_dropped(done)))
                told.append(_dropped(gone))
            case DropPartitionsForReplication(table=table, event_id=event_id):
                _require(context, str(table), if_exists=statement.if_exists)
                names = _chosen(context, statement)
                gone = drop_partitions(site, str(table), names, event_id, lambda done: told.append(_dropped(done)))
                told.append(_dropped(gone))
    return result()


def _export(site: Site, statement: ExportTable, once: str | None) -> Rows:
    scope = Scope.NONE if statement.event_id is None else Scope.METADATA if statement.metadata_only else Scope.ALL
    done = export_table(
        site, str(statement.table), statement.location, [dict(p) for p in statement.partitions] or None, scope=scope,
        event_id=statement.event_id, once=once,
    )  # fmt: skip
    row = [done.uri, done.table, done.state_id, done.partitions, done.files, done.bytes, done.noop]
    return _rows(_EXPORTED, [row])


def _import(site: Site, statement: ImportTable, tell: Callable[[ImportResult], object]) -> ImportResult:
    table = None if statement.table is None else TableName(statement.table.database, statement.table.name)
    names = tuple(partition_name(spec) for spec in statement.partitions)
    asked = Asked(table, names or None, statement.external, statement.location)
    return import_table(site, statement.source, asked, tell=tell)


def _imported(done: ImportResult) -> Rows:
    row = [done.table, done.action, done.state_id, len(done.partitions), done.files, done.bytes, done.reason]
    return _rows(_IMPORTED, [row])


def _require(context: Context, table: str, *, if_exists: bool) -> None:
    if not if_exists and not context.client.catalog.find_tables([table]):
        raise NoSuchObjectError(f"there is no table {table}; say IF EXISTS if that is fine")


def _chosen(context: Context, statement: DropPartitionsForReplication) -> list[str]:
    """Names of the partitions that the clauses mean; those that are not there any more count by their full name."""
    name = str(statement.table)
    table = context.client.catalog.find_tables([name]).get(name)
    found: list[str] = []
    for clause in map(dict, statement.partitions if table is not None else ()):
        if table is not None and len(clause) == len(table.partition_columns):
            found.append(named_by(context.client.database, table, clause))
        else:
            found += [part.name for part in context.client.catalog.list_partitions(name, clause)]
    return list(dict.fromkeys(found))


def _dropped(done: DropResult) -> Rows:
    rows: list[list[Any]] = [[name, True, None] for name in done.dropped]
    return _rows(_DROPPED, rows + [[name, False, reason] for name, reason in done.kept])


def _rows(columns: tuple[tuple[str, str], ...], rows: list[list[Any]]) -> Rows:
    return Rows(tuple(Column(name, type_) for name, type_ in columns), rows)
