"""SHOW LEASE and DROP FORCE LEASE as rows, with the document's fields; times are UTC."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from airflow_hive_acid.engine.outcomes.results import Rows, StatementResult
from airflow_hive_acid.engine.queries.shows import partition_meant
from airflow_hive_acid.format.jobs import Column
from airflow_hive_acid.metastore.leases import LeaseObject

if TYPE_CHECKING:
    from collections.abc import Iterable

    from airflow_hive_acid.engine.transactions.claims import ToApply
    from airflow_hive_acid.metastore import MetastoreClient
    from airflow_hive_acid.metastore.leases import HiveLease
    from airflow_hive_acid.sql.model.statements import DropForceLease, ShowLease

COLUMNS = (
    Column("user", "string"),
    Column("lease_id", "bigint"),
    Column("db_name", "string"),
    Column("table_name", "string"),
    Column("partition_name", "string"),
    Column("start_utc", "string"),
    Column("end_utc", "string"),
    Column("lease_type", "string"),
)


def show_lease(client: MetastoreClient, statement: ShowLease) -> Rows:
    """Leases that are held now."""
    return lease_rows(client.leases.list_lease(_objects(client, statement)))


def drop_force_lease(client: MetastoreClient, statement: DropForceLease, claim: ToApply) -> StatementResult:
    """Drop leases of whomever; the rows are what was dropped.

    :param claim: the claim on it, if it is to be done once (R14): a lease that was granted since is not its business.
    """
    why = statement.why or " ".join(statement.text.split())
    rows: Rows | None = None

    def result() -> StatementResult:
        return StatementResult(statement.text, statement.kind_text, rows=rows)

    with claim.changing(result):
        rows = lease_rows(client.leases.force_drop_lease(_objects(client, statement), client.user, why))
    return result()


def lease_rows(leases: Iterable[HiveLease]) -> Rows:
    """Leases as people read them."""
    return Rows(COLUMNS, [_row(lease) for lease in leases])


def _objects(client: MetastoreClient, statement: ShowLease | DropForceLease) -> list[LeaseObject]:
    if statement.table is None:
        return []
    partition = partition_meant(client, statement.table, statement.partition) if statement.partition else ""
    return [LeaseObject(statement.table.database, statement.table.name, partition)]


def _row(lease: HiveLease) -> list[Any]:
    return [
        lease.user,
        lease.lease_id,
        lease.db_name,
        lease.table_name,
        lease.partition_name or None,
        _time(lease.start_utc),
        _time(lease.end_utc),
        lease.lease_type.value,
    ]


def _time(milliseconds: int) -> str:
    return datetime.fromtimestamp(milliseconds / 1000, timezone.utc).isoformat(sep=" ", timespec="milliseconds")[:-6]
