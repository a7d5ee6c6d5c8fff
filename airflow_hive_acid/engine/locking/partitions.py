"""The partitions that plans read, listed so that they can be locked one by one."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from airflow_hive_acid.engine.tables.partitions import KnownPartitions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow_hive_acid.engine.locking.requests import Listed
    from airflow_hive_acid.engine.tables.lookup import Tables
    from airflow_hive_acid.format.jobs import PartitionRef
    from airflow_hive_acid.sql.locks.ddl_locks import DdlStatement
    from airflow_hive_acid.sql.model.plans import Plan
    from airflow_hive_acid.sql.model.pruning import PartitionFilter


def read_partitions(tables: Tables, plans: Sequence[Plan], *, every: bool = False) -> Listed:
    """The partitions that are read, of the tables whose conditions leave some of them out.

    A table of which all is read is locked as a whole: one lock instead of one for each partition.

    :param every: those of all tables: by the Hive Concurrency Model a writer of one would go unseen.
    """
    found: dict[tuple[str, PartitionFilter], list[PartitionRef]] = {}
    reads = [read for plan in plans for read in plan.reads]
    whole = set() if every else {r.table for r in reads if not r.partitions.alternatives}
    for read in reads:
        key = (read.table, read.partitions)
        if read.table not in whole and key not in found:
            found[key] = KnownPartitions(tables.catalog, tables.table(read.table)).matching(read.partitions)
    return found


def as_there(tables: Tables, statement: DdlStatement) -> DdlStatement:
    """A statement about one partition by the values that the catalog has of it: locks go by names, and ``k=01``, which
    ``PARTITION (k = 1)`` may mean, is another name than ``k=1``."""
    given = dict(getattr(statement, "partition", ()))
    if not given or None in given.values():
        return statement
    table = tables.table(str(getattr(statement, "table", "")))
    names = [column.name for column in table.partition_columns]
    found = KnownPartitions(tables.catalog, table).with_values(given) if set(given) == set(names) else []
    if len(found) != 1:
        return statement
    changed: dict[str, Any] = {"partition": tuple(zip(names, found[0].values, strict=True))}
    return replace(statement, **changed)


def names_of(listed: Listed) -> dict[str, list[str]]:
    """Names of the partitions, by table."""
    found: dict[str, set[str]] = {}
    for (table, _), refs in listed.items():
        found.setdefault(table, set()).update(ref.name for ref in refs)
    return {table: sorted(names) for table, names in found.items()}
