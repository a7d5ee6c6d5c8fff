"""Databases of the destination that a policy no longer writes: it was given fewer than it had."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_hive_acid.metastore.replica import target_databases, unmark_target

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from airflow_hive_acid.replication.policies.policy import Policy
    from airflow_hive_acid.replication.site import Site


def release_databases(target: Site, policy: Policy) -> list[str]:
    """Let others write what the policy does not name any more; its copies there must be gone.

    :return: the databases.
    """
    sources = {called: name for name, called in policy.rename.items()}

    def operation(connection: Connection) -> list[str]:
        target.require_allowed(connection)
        marked = target_databases(connection, policy.name)
        released = [name for name in marked if not _is_written(policy, sources.get(name, name), name)]
        for name in released:
            unmark_target(connection, name, policy.name)
        return released

    return target.client.database.run(operation)


def _is_written(policy: Policy, source: str, name: str) -> bool:
    return policy.touches(source) and policy.target_database(source) == name
