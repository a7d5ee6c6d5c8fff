"""The partitions that plans read, listed so that they can be locked one by one."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias

from airflow_hive_acid.engine.tables.partitions import KnownPartitions
from airflow_hive_acid.errors import InvalidArgumentsError
from airflow_hive_acid.format.partitions import parse_partition_name
from airflow_hive_acid.sql.model.alterations import DropPartitions

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from airflow_hive_acid.engine.locking.requests import Listed
    from airflow_hive_acid.engine.tables.lookup import Tables
    from airflow_hive_acid.format.jobs import PartitionRef
    from airflow_hive_acid.metastore.catalog import Table
    from airflow_hive_acid.sql.locks.ddl_locks import DdlStatement
    from airflow_hive_acid.sql.model.plans import Plan
    from airflow_hive_acid.sql.model.pruning import PartitionFilter

_Clause: TypeAlias = "tuple[tuple[str, str, str], ...]"


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
    """A statement about partitions by the values that the catalog has of them: locks go by names, and ``k=01``, which
    ``PARTITION (k = 1)`` may mean, is another name than ``k=1``. What names none, or several, stays as it is written;
    the statement itself says so."""
    if isinstance(statement, DropPartitions):
        table = tables.table(str(statement.table))
        clauses = tuple(_clause_there(tables, table, clause) for clause in statement.partitions)
        return statement if clauses == statement.partitions else replace(statement, partitions=clauses)
    given = dict(getattr(statement, "partition", ()))
    if not given or None in given.values():
        return statement
    found = _values_there(tables, tables.table(str(getattr(statement, "table", ""))), given)
    changed: dict[str, Any] = {} if found is None else {"partition": tuple(found.items())}
    return replace(statement, **changed)


def _clause_there(tables: Tables, table: Table, clause: _Clause) -> _Clause:
    exact = {column: value for column, sign, value in clause if sign == "="}
    found = _values_there(tables, table, exact) if len(exact) == len(clause) else None
    return clause if found is None else tuple((column, "=", value) for column, value in found.items())


def _values_there(tables: Tables, table: Table, given: Mapping[str, str]) -> dict[str, str] | None:
    """The values by column that the one partition has in the catalog; None when not just one is meant."""
    if not given or set(given) != {column.name for column in table.partition_columns}:
        return None
    try:
        spelled = table.spellings(given)
        found = tables.catalog.find_partitions(table.qualified_name, spelled.names)
        chosen = spelled.choose(table.qualified_name, found)
    except InvalidArgumentsError:
        return None
    return dict(parse_partition_name(chosen)) if chosen in found else None


def names_of(listed: Listed) -> dict[str, list[str]]:
    """Names of the partitions, by table."""
    found: dict[str, set[str]] = {}
    for (table, _), refs in listed.items():
        found.setdefault(table, set()).update(ref.name for ref in refs)
    return {table: sorted(names) for table, names in found.items()}
