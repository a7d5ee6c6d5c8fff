"""Telling what a statement is about to read and write: the raw material of lineage."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from airflow_hive_acid.engine.outcomes.events import StatementPlanned

if TYPE_CHECKING:
    from collections.abc import Mapping

    from airflow_hive_acid.engine.context import Context
    from airflow_hive_acid.format.write_ids import ValidWriteIdList
    from airflow_hive_acid.metastore.catalog import Table
    from airflow_hive_acid.sql.model.plans import Plan

_NONE: Mapping[str, int] = {}


class SeenLists(Protocol):
    """What a transaction or reader sees."""

    @property
    def txn_id(self) -> int:
        """Its txn."""

    @property
    def snapshot(self) -> Mapping[str, ValidWriteIdList]:
        """Write ids by table."""


class WritingLists(SeenLists, Protocol):
    """The lists of a transaction that has looked its tables up."""

    @property
    def write_ids(self) -> dict[str, int]:
        """Its own, by table."""

    def table(self, name: str) -> Table:
        """A table as the transaction knows it."""


def tell_planned(context: Context, plan: Plan, transaction: WritingLists | None = None) -> None:
    """Emit the event for a statement.

    :param transaction: the one it runs in, which has looked its tables up; None when an earlier try has applied it.
    """
    table_of = context.table if transaction is None else transaction.table
    own = {} if transaction is None else transaction.write_ids
    tell(context, plan, {name: table_of(name) for name in plan.operations}, transaction, own)


def tell(
    context: Context,
    plan: Plan,
    tables: Mapping[str, Table],
    seen: SeenLists | None,
    own: Mapping[str, int] = _NONE,
) -> None:
    """Emit the event.

    :param seen: the transaction or reader, None for neither.
    :param own: its own write ids, which it sees as well: what it found is what is below them.
    """
    marks: dict[str, int] = {}
    snapshot = {} if seen is None else seen.snapshot
    for name in tables:
        if name in snapshot:
            mark = snapshot[name].high_watermark
            marks[name] = min(mark, own.get(name, mark + 1) - 1)
    txn_id = None if seen is None else seen.txn_id
    # A copy: views come and go with later statements.
    through = {name: context.table(name) for name in plan.views_read}
    context.emit(
        StatementPlanned(plan, tables, dict(context.views), txn_id, marks, own, through, dict(context.queries))
    )
