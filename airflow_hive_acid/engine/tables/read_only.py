"""Databases that a replication writes, and tables that were handed over to a mirror, are read-only for everybody else.

Hive's database parameter ``repl.target.for`` names the policies. A write there would take write ids that the primary is
going to give to other rows; replication would notice, name the tables as diverged and propose to bootstrap them again.
Reading, compaction and cleaning stay allowed: the replica compacts on its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_hive_acid.errors import HandedOverError, ReadOnlyReplicaError
from airflow_hive_acid.metastore.replica import TARGET_FOR, policies_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from airflow_hive_acid.metastore import MetastoreClient


def require_writable(client: MetastoreClient, tables: Iterable[str]) -> None:
    """Refuse to write, or to change the catalog, where a replication does, and what was handed over to a mirror.

    :param tables: ``db.table`` of those that are written or changed; ``db`` alone stands for all tables of a database.
    :raises ReadOnlyReplicaError: naming the database, the policy and the remedy; nothing was begun.
    :raises HandedOverError: naming the table, the mirror and the remedy; nothing was begun.
    """
    names = list(tables)
    for table, target in client.mirrors.primaries(names).items():
        raise HandedOverError(
            f"{table} was handed over to {target} and is read-only: write there. 'hive-acid mirror take-back {table} "
            f"{target}' lets the table be written again, 'hive-acid mirror retire' drops it"
        )
    require_no_replica(client, {name.partition(".")[0] for name in names})


def require_no_replica(client: MetastoreClient, databases: Iterable[str]) -> None:
    """Refuse to change a database that a replication writes; tables in it may be handed over.

    :raises ReadOnlyReplicaError: naming the database, the policy and the remedy; nothing was begun.
    """
    wanted = {name.lower() for name in databases}
    if not wanted:
        return
    for name, properties in client.catalog.database_properties(wanted).items():
        policies = policies_of(properties.get(TARGET_FOR))
        if policies:
            raise ReadOnlyReplicaError(
                f"database {name} is written by the replication policy {', '.join(policies)} and read-only for others. "
                "Write at the primary; or, if this is to be the primary from now on, fail over: 'hive-acid replication "
                f"failover {policies[0]}'"
            )


def written_by(operations: Iterable[tuple[str, str]]) -> list[str]:
    """The tables that are written.

    :param operations: table and operation, as transactions declare them.
    """
    return [table for table, operation in operations if operation != "select"]
