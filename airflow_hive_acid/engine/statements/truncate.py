"""TRUNCATE TABLE: a base without rows for each partition (Hive 4), or for a plain table its files moved out.

The mark of an empty base is a file ``_metadata_acid`` alone in it. Nothing is removed here: the Cleaner takes what the
base hides, and readers of older snapshots go on reading it. No Spark job is needed.
"""

from __future__ import annotations

import time
import uuid
from typing import TYPE_CHECKING

from airflow_hive_acid.engine.locking.requests import Statements
from airflow_hive_acid.engine.outcomes.results import StatementResult
from airflow_hive_acid.engine.statements.views import require_files
from airflow_hive_acid.engine.transactions.claims import UNCLAIMED
from airflow_hive_acid.engine.transactions.transaction import StatementTransaction
from airflow_hive_acid.errors import InvalidArgumentsError, UnsupportedStatementError
from airflow_hive_acid.format.jobs import JobResult, WrittenDirectory, WrittenFile
from airflow_hive_acid.format.names import METADATA_FILE, PLAIN_FILES, TRUNCATED, base_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow_hive_acid.engine.context import Context
    from airflow_hive_acid.engine.transactions.claims import ToApply
    from airflow_hive_acid.format.jobs import PartitionRef
    from airflow_hive_acid.metastore.catalog import Table
    from airflow_hive_acid.metastore.protocol import Patience
    from airflow_hive_acid.sql.model.statements import Truncate


def truncate(
    context: Context, statement: Truncate, claim: ToApply = UNCLAIMED, patience: Patience | None = None
) -> StatementResult:
    """Run a TRUNCATE in a transaction of its own.

    :param claim: the claim on it, if it is to be done once (R14).
    :param patience: how long it waits for its locks here; by default as long as the settings say.
    """
    check_truncate(context, statement)
    name, wanted = str(statement.table), Statements((), [statement])
    with StatementTransaction.begin(context, {name: "overwrite"}, wanted, claim, patience) as transaction:
        result = truncate_inside(transaction, statement)
        transaction.remember([result])
    return result


def truncate_inside(transaction: StatementTransaction, statement: Truncate) -> StatementResult:
    """Run a TRUNCATE in an open transaction: what the table held before, in it or before it, is gone with its commit.

    :raises InvalidArgumentsError: for a partition that does not exist, and a table that was not declared.
    """
    started, name = time.monotonic(), str(statement.table)
    transaction.require_declared({name: "overwrite"})
    table = transaction.table(name)
    given = dict(statement.partition)
    chosen = transaction.partitions(table, given)
    if statement.partition and not chosen:
        raise InvalidArgumentsError(f"Partition {given} of {name} does not exist")
    write_id = transaction.write_ids.get(name)
    return StatementResult(
        statement.text,
        "truncate",
        txn_id=transaction.txn_id,
        write_ids={} if write_id is None else {name: write_id},
        directories=publish_empty(transaction, table, chosen),
        seconds=time.monotonic() - started,
    )


def publish_empty(transaction: StatementTransaction, table: Table, chosen: Sequence[PartitionRef]) -> tuple[str, ...]:
    """A base without rows for each of these partitions; of a plain table its files are moved out.

    :return: URIs of the directories.
    """
    write_id = transaction.write_ids.get(table.qualified_name)
    directory = PLAIN_FILES if write_id is None else base_name(write_id)
    mark = () if write_id is None else (WrittenFile(METADATA_FILE, 0, len(TRUNCATED.encode())),)
    written = tuple(WrittenDirectory(p.name, p.values, directory, mark) for p in chosen)
    reported = JobResult(str(uuid.uuid4()), "", directories=written)
    return transaction.publish_unchecked(table, reported, {METADATA_FILE: TRUNCATED})


def check_truncate(context: Context, statement: Truncate) -> None:
    """Refuse what cannot be truncated, before anything is locked.

    :raises UnsupportedStatementError: for an external table whose files belong to somebody else, in Hive's words.
    :raises InvalidArgumentsError: for a PARTITION clause that is none of the table's, and for a view.
    """
    name = str(statement.table)
    table = context.table(name)
    require_files(table, "TRUNCATE")
    if not table.is_transactional and not table.owns_files:
        raise UnsupportedStatementError(
            f"Cannot truncate non-managed table {name}; its files belong to somebody else: INSERT OVERWRITE it with no "
            "rows, or set 'external.table.purge'='true'"
        )
    _check_partition(table, statement)
    context.locking.require([table])


def _check_partition(table: Table, statement: Truncate) -> None:
    names = [column.name for column in table.partition_columns]
    unknown = [name for name, _ in statement.partition if name not in names]
    if unknown:
        raise InvalidArgumentsError(
            f"{table.qualified_name} has no partition column {unknown[0]}; it has {', '.join(names) or 'none'}"
        )
