"""Plans of statements, by the catalog and by what the session has made."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from airflow_hive_acid.errors import InvalidArgumentsError
from airflow_hive_acid.metastore.database import now_ms
from airflow_hive_acid.sql import plan
from airflow_hive_acid.sql.model.statements import Merge, MultiInsert
from airflow_hive_acid.sql.parsing.multi_insert import in_order
from airflow_hive_acid.sql.planning.common import Common

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_hive_acid.engine.context import Context
    from airflow_hive_acid.metastore.catalog import Table
    from airflow_hive_acid.sql.model.plans import Plan
    from airflow_hive_acid.sql.model.statements import DataStatement


def plan_of(
    context: Context,
    statement: DataStatement,
    table_of: Callable[[str], Table] | None = None,
    path: tuple[str, ...] = (),
    replaced: Table | None = None,
    common: Common | None = None,
) -> Plan:
    """The plan of a statement, by the session's views as they are now.

    :param table_of: where tables are looked up; by default in the catalog as it is now.
    :param path: the view whose query it is.
    :param replaced: the table that it writes, if it gets another definition by it.
    :param common: what its queries have in common.
    """
    table_of = table_of or context.table
    guarded = context.settings.flag("hive.txn.xlock.mergeinsert")
    planned = plan(
        statement, table_of, context.views, queries=context.queries, path=path, guarded_merge=guarded,
        replaced=replaced, common=common,
    )  # fmt: skip
    context.locking.require(map(table_of, planned.operations))
    _check_partition_mode(context, planned)
    return planned


def plans_of(
    context: Context, statement: DataStatement | MultiInsert, table_of: Callable[[str], Table] | None = None
) -> list[Plan]:
    """The plans of a statement in the order in which they run."""
    common = Common(functools.cache(lambda: context.client.database.read(now_ms)))
    if isinstance(statement, Merge):
        return [plan_of(context, statement, table_of, common=common)]
    if not isinstance(statement, MultiInsert):
        return [plan_of(context, statement, table_of)]
    if len(statement.inserts) == 1:
        return [plan_of(context, statement.inserts[0], table_of)]
    plans = [plan_of(context, insert, table_of, common=common.of_branch(insert.query)) for insert in statement.inserts]
    return [plans[i] for i in in_order(statement, plans)]


def _check_partition_mode(context: Context, planned: Plan) -> None:
    """Hive's guard against a forgotten PARTITION clause, for those who switch it on."""
    write, key = planned.write, "hive.exec.dynamic.partition.mode"
    if planned.kind != "insert" or write is None or not write.dynamic_partition or write.static_partition:
        return
    if context.settings.string(key).lower() == "strict":
        raise InvalidArgumentsError(
            f"{key} is strict, and the INSERT into {write.table} names no value for any of the partition columns "
            f"{', '.join(write.dynamic_partition)}; name one in PARTITION (…), or set {key} to nonstrict"
        )
