"""What a policy no longer writes at the destination, because it names less than it did, or calls it otherwise."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from airflow_hive_acid.errors import ActionRefusedError
from airflow_hive_acid.metastore.replica import target_databases, unmark_target
from airflow_hive_acid.replication.cycles.runner import Applied
from airflow_hive_acid.replication.dumps.drops import drop_table
from airflow_hive_acid.replication.policies.state import taken_over

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from sqlalchemy import Connection

    from airflow_hive_acid.metastore.names import TableName
    from airflow_hive_acid.replication.policies.policy import Policy
    from airflow_hive_acid.replication.site import Site


def is_written(policy: Policy, table: TableName, name: TableName) -> bool:
    """Whether a policy writes the copy that it has brought.

    :param table: of the source.
    :param name: of the copy.
    """
    return policy.selects(table) and policy.target(table) == name


def require_names(
    policy: Policy, brought: Mapping[TableName, TableName], tables: Callable[[], Iterable[TableName]]
) -> None:
    """Refuse to follow events into other names than those of the copies: what does not change would come to none.

    And the old copies would be forgotten with the first event, so that nobody ever drops them.

    :param tables: those of the source that the policy replicates; asked for only where a name differs.
    :raises ActionRefusedError: naming one, and what to do.
    """
    differ = {table for table, name in brought.items() if policy.selects(table) and policy.target(table) != name}
    left = sorted(differ.intersection(tables())) if differ else []
    if left:
        raise ActionRefusedError(
            f"replication policy {policy.name!r} calls {left[0]} {policy.target(left[0])} now, and its copy is "
            f"{brought[left[0]]} ({len(left)} tables have another name): nothing was changed. Give 'rename' back what "
            "it was, or copy them under their new names, which drops the old copies: 'hive-acid replication bootstrap "
            f"{policy.name}'"
        )


def give_up(target: Site, policy: Policy, brought: Mapping[TableName, TableName]) -> list[Applied]:
    """Drop the copies that a policy no longer writes, however new they are, and let others write their databases.

    What another policy has brought since stays; it is that one's.

    :param brought: names of the copies, by those of the tables of the source.
    """
    given_up = sorted((table, name) for table, name in brought.items() if not is_written(policy, table, name))
    database = target.client.database
    others = database.read(lambda connection: taken_over(connection, policy.name)) if given_up else set()
    done = [
        Applied(table, f"{name} is another policy's by now", done=False, dropped=True)
        if str(name) in others
        else _dropped(target, table, name)
        for table, name in given_up
    ]
    released = database.run(lambda connection: _release(connection, target, policy))
    return done + [Applied(None, f"database {name} may be written by others") for name in released]


def _dropped(target: Site, table: TableName, name: TableName) -> Applied:
    result = drop_table(target, str(name), sys.maxsize)
    said = f"dropped {name}" if result.done else f"{name} stays: {result.kept[0][1]}"
    return Applied(table, said, result.done, dropped=result.done)


def _release(connection: Connection, target: Site, policy: Policy) -> list[str]:
    """Unmark the databases that a policy does not name any more, whose copies there are gone."""
    target.require_allowed(connection)
    sources = {called: name for name, called in policy.rename.items()}
    marked = target_databases(connection, policy.name)
    released = [name for name in marked if not _is_target(policy, sources.get(name, name), name)]
    for name in released:
        unmark_target(connection, name, policy.name)
    return released


def _is_target(policy: Policy, source: str, name: str) -> bool:
    return policy.touches(source) and policy.target_database(source) == name
