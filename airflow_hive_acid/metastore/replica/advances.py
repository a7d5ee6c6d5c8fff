"""What a sync makes of tables, as values: their write ids at the source, and which of these need an owner here."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

from airflow_hive_acid.format.write_ids import ValidTxnList, ValidWriteIdList
from airflow_hive_acid.metastore.names.objects import TableName
from airflow_hive_acid.metastore.replica.records import (
    TableRecord,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sqlalchemy import Connection

    from airflow_hive_acid.metastore.catalog.values.model import Table


EVERYTHING = ValidTxnList(2**63 - 1)


class IdState(Enum):
    """What became of a write id at the source."""

    COMMITTED = "committed"
    OPEN = "open"
    ABORTED = "aborted"


@dataclass(frozen=True, slots=True)
class Written:
    """A partition (None: the table) that got directories: its largest new write id, and whether rows went."""

    partition: str | None
    write_id: int
    changes: bool


@dataclass(frozen=True, slots=True)
class TableAdvance:
    """What one table becomes.

    :param table: at the replica; ``source_table`` and its TBL_ID at the source.
    :param known: the list of the last sync; high-water mark 0 before the first.
    :param write_ids: the source's list now.
    :param source_txns: the source's txns of ids that are open there.
    :param added: partitions that are new, ``gone`` those that the source no longer has.
    :param overwritten: the first new write id and the last new overwrite, if that may have hidden rows of others.
    :param emptied: partitions that lost their rows by no write id: at the source they were dropped and added again.
    :param hides: whether what arrives hides what is here of write ids that had come before.
    :param rebalanced: the newest rebalance of the source whose result is in it.
    """

    table: Table
    source_table: str
    source_id: int
    known: ValidWriteIdList
    write_ids: ValidWriteIdList
    source_txns: Mapping[int, int] = field(default_factory=dict)
    added: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()
    written: tuple[Written, ...] = ()
    overwritten: tuple[int, int] | None = None
    emptied: tuple[str, ...] = ()
    hides: bool = False
    rebalanced: int = 0

    @property
    def name(self) -> TableName:
        """The table at the replica."""
        return TableName(self.table.db, self.table.name)

    def record(self, state_id: int) -> TableRecord:
        """What is remembered: aborted ids also after the source has forgotten them, because it may do so any time."""
        aborted = self.write_ids.aborted | {w for w in self.known.aborted if w not in self.write_ids.open}
        high = self.write_ids.high_watermark
        ids = ValidWriteIdList(high, self.write_ids.open, aborted, None, str(self.name))
        return TableRecord(self.table.id, self.source_table, self.source_id, ids, state_id)


@dataclass(frozen=True, slots=True)
class Advance:
    """A whole sync.

    :param attempt: the token of this one.
    :param state_id: event of the source whose state the replica has then.
    :param sync_txn: txn here whose id compacted directories carry; 0 when nothing was copied or dropped.
    :param metadata: changes what the catalog says of the tables.
    :param seen: the list of txns by which the replica was looked at.
    """

    policy: str
    attempt: str
    state_id: int
    sync_txn: int
    tables: tuple[TableAdvance, ...]
    metadata: Callable[[Connection], object] | None = None
    seen: ValidTxnList = EVERYTHING


def rows_for(known: ValidWriteIdList, write_ids: ValidWriteIdList) -> list[tuple[int, IdState]]:
    """The new write ids that need a row of TXN_TO_WRITE_ID, ascending: the first, the last committed, and each that
    is not committed."""
    first, mark = known.high_watermark + 1, write_ids.high_watermark
    if mark < first:
        return []
    states = {w: IdState.OPEN for w in write_ids.open if w >= first}
    states |= {w: IdState.ABORTED for w in write_ids.aborted if w >= first}
    last = next((w for w in range(mark, first - 1, -1) if w not in states), None)
    for write_id in (first, last):
        if write_id is not None:
            states.setdefault(write_id, IdState.COMMITTED)
    return sorted(states.items())
