"""The objects of a lease under the catalog's names: two claims on one partition meet, however each is written."""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import TYPE_CHECKING

from airflow_hive_acid.format.partitions import name_covers
from airflow_hive_acid.metastore.leases.model import lease_objects
from airflow_hive_acid.metastore.names.objects import TableName
from airflow_hive_acid.metastore.names.partitions import is_whole, partition_keys, resolve_by

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sqlalchemy.engine import Connection

    from airflow_hive_acid.metastore.leases.model import HiveLease, LeaseObject, Place


def resolve_objects(
    connection: Connection, wanted: Iterable[LeaseObject]
) -> tuple[tuple[LeaseObject, ...], frozenset[Place]]:
    """Objects with their partitions as the tables' columns have it.

    :return: the objects, sorted; and the places of those that give no value to some of the columns, and so may be
        several partitions.
    :raises InvalidArgumentsError: when one is named twice, or a table has no such partition column, or none at all.
    """
    found = []
    partial = set()
    columns = functools.cache(functools.partial(partition_keys, connection))
    for each in wanted:
        if each.partition_name:
            table = TableName(*each.table)
            each = replace(each, partition_name=resolve_by(connection, columns(table), table, each.partition_name))
            if not is_whole(columns(table), each.partition_name):
                partial.add(each.place)
        found.append(each)
    return lease_objects(found), frozenset(partial)


def covers(wanted: Iterable[LeaseObject], lease: HiveLease) -> bool:
    """Whether a lease is on one of the objects, or on partitions of one."""
    return any(
        each.table == lease.place[:2] and name_covers(each.partition_name, lease.partition_name) for each in wanted
    )
