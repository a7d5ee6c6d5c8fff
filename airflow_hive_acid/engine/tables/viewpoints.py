"""How a job looks at tables: as the reader that runs it, as a pin, or at what write ids have changed.

What is asked of the metastore here is asked by a reader whose own txn is open (R16): from then on no Cleaner removes
what it finds.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from airflow_hive_acid.engine.tables.snapshots import table_snapshot
from airflow_hive_acid.errors import (
    ChangesNoLongerAvailableError,
    ChangesNotCompleteError,
    HistoryGoneError,
    InvalidArgumentsError,
)
from airflow_hive_acid.format.changes import as_of as format_as_of
from airflow_hive_acid.format.changes import checked_range, complete_up_to
from airflow_hive_acid.format.jobs import AsOf
from airflow_hive_acid.format.write_ids import ValidWriteIdList
from airflow_hive_acid.metastore.listing import (
    cleaned_up_to,
    lost_partition,
    require_partitions_kept,
    txns_of,
    write_ids_at,
)
from airflow_hive_acid.metastore.names import table_name
from airflow_hive_acid.metastore.replica import came_up_to, cut_run, overwritten_runs

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from sqlalchemy.engine import Connection

    from airflow_hive_acid.format.changes import Changes
    from airflow_hive_acid.format.jobs import PartitionRef, TableSnapshot, View
    from airflow_hive_acid.format.write_ids import ValidTxnList
    from airflow_hive_acid.metastore import MetastoreClient
    from airflow_hive_acid.metastore.catalog import Table
    from airflow_hive_acid.metastore.names import TableName
    from airflow_hive_acid.metastore.txns import PinnedTable
    from airflow_hive_acid.sql.model.plans import Plan, TableRead


class Looks:
    """The looks of one job."""

    def __init__(self, client: MetastoreClient) -> None:
        self._client = client
        self._pinned: list[PinnedTable] = []

    def snapshot(
        self,
        table: Table,
        read: TableRead,
        partitions: Iterable[PartitionRef],
        write_ids: ValidWriteIdList | None,
        txns: ValidTxnList | None,
    ) -> TableSnapshot:
        """A table as its reader sees it, as the pin does that the query names, or as it was.

        :raises NoSuchPinError: when there is no such pin.
        :raises HistoryGoneError: when it is not known any more what there was.
        :raises ChangesNotCompleteError: when write ids of then have not ended.
        """
        # R17: the job sees in the listing, for nothing, whether it is there. One question, for a place of its own only.
        marked = self._client.places.of_table(table) is not None
        if read.as_of is not None and write_ids is not None:
            then, past = as_of(self._client, table, read.as_of, write_ids)
            was = table_snapshot(table, partitions, read.partitions, then, txns)
            if isinstance(read.as_of, int):  # a time is a state that was here; a write id need not be
                names = [partition.name for partition in was.partitions]
                past = replace(past, cleaned=self._with_what_came(table, past.cleaned, names))
            return replace(was, marked=marked, as_of=past)
        if read.pin is None:
            return replace(table_snapshot(table, partitions, read.partitions, write_ids, txns), marked=marked)
        pinned = self._client.pins.look(read.pin, read.table)
        self._pinned.append(pinned)
        seen = table_snapshot(table, pinned.partitions or (), read.partitions, pinned.write_ids, pinned.txns)
        return replace(seen, marked=marked)

    def _with_what_came(self, table: Table, cleaned: Mapping[str, int], partitions: Iterable[str]) -> dict[str, int]:
        """At a replica what an overwrite has replaced may never have come; that is as if it had been removed."""
        key, database = table_name(table.qualified_name), self._client.database

        def read(connection: Connection) -> int:
            return came_up_to(connection, key) if database.features(connection).replication else 0

        came = database.read(read)
        return {name: max(came, cleaned.get(name, 0)) for name in partitions} if came else dict(cleaned)

    def views(self, plan: Plan, snapshots: Mapping[str, TableSnapshot]) -> tuple[View, ...]:
        """The views of the job spec.

        :param snapshots: by name of the view.
        :raises ChangesNotCompleteError: when write ids of a range of changes have not ended.
        :raises ChangesNoLongerAvailableError: when a range begins or ends where this replica never was.
        """
        return tuple(
            view if view.changes is None else replace(view, changes=self._changes(view.snapshot, view.changes))
            for view in plan.views(snapshots)
        )

    def _changes(self, snapshot: TableSnapshot, wanted: Changes) -> Changes:
        table, database = table_name(snapshot.table), self._client.database
        checked_range(snapshot.table, ValidWriteIdList.parse(snapshot.write_ids), wanted.first, wanted.last)

        def read(connection: Connection) -> Changes:
            if snapshot.partition_columns:
                require_partitions_kept(connection, database.features(connection), table, wanted.first)
            _require_told(table, overwritten_runs(connection, table), wanted)
            cleaned = {
                name: highest for name, highest in cleaned_up_to(connection, table).items() if highest >= wanted.first
            }
            txns = {str(w): t for w, t in txns_of(connection, table, wanted.first, wanted.last).items()}
            return replace(wanted, cleaned=cleaned, txns=txns)

        return database.read(read)

    def require_kept(self) -> None:
        """Refuse what was read by a pin if it may not be all; asked when the job has ended."""
        for pinned in self._pinned:
            self._client.pins.require_kept(pinned)


def _require_told(table: TableName, runs: Sequence[tuple[int, int]], wanted: Changes) -> None:
    """Refuse a range that begins or ends between a state of the source that came here and the next one that did."""
    cut = cut_run(runs, wanted.first, wanted.last)
    if cut is not None:
        raise ChangesNoLongerAvailableError(
            f"the changes of {table} from write id {wanted.first} to {wanted.last} cannot be told here: the write ids "
            f"{cut[0]} to {cut[1]} came to this replica together, and what an INSERT OVERWRITE or TRUNCATE among them "
            f"has replaced did not come. Those from {cut[0]} or earlier to {cut[1]} or later can be told, and those "
            f"from {cut[1] + 1} on; or read the table as a whole, and go on from there"
        )


def as_of(
    client: MetastoreClient, table: Table, moment: int | str, seen: ValidWriteIdList
) -> tuple[ValidWriteIdList, AsOf]:
    """What a reader saw of a table at a moment of the past.

    :param moment: a write id, or a time as its text.
    :param seen: what a reader whose txn is open sees now.
    """
    key = table_name(table.qualified_name)
    if isinstance(moment, int):
        shown, then = f"write id {moment}", _as_of_write_id(str(key), moment, seen)
    else:
        shown, then = moment, write_ids_at(client.database, client.notifications, table, key, seen, moment)

    def read(connection: Connection) -> tuple[tuple[str, int] | None, dict[str, int]]:
        features = client.database.features(connection)
        gone = lost_partition(connection, features, key, moment + 1) if isinstance(moment, int) else None
        return gone if table.is_partitioned else None, cleaned_up_to(connection, key)

    gone, cleaned = client.database.read(read)
    if gone is not None:
        raise HistoryGoneError(
            f"{key} cannot be read as of {shown} any more: {gone[0]}. It can be read as of write ids from "
            f"{gone[1]} on (hive-acid history {key}); a pin keeps a state: hive-acid pin add"
        )
    return then, AsOf(shown, cleaned)


def _as_of_write_id(table: str, moment: int, seen: ValidWriteIdList) -> ValidWriteIdList:
    if moment < 1:
        raise InvalidArgumentsError(f"VERSION AS OF {moment}: write ids begin at 1")
    if moment > seen.high_watermark:
        raise InvalidArgumentsError(
            f"VERSION AS OF {moment}: {table} has write ids up to {seen.high_watermark} (hive-acid history)"
        )
    complete = complete_up_to(seen)
    if moment > complete:
        raise ChangesNotCompleteError(
            f"{table} as of write id {moment} is not decided: write id {complete + 1} is open; wait for its commit or "
            f"abort, or read it as of write id {complete}"
            if complete
            else f"{table} as of write id {moment} is not decided: write id 1 is open; wait for its commit or abort"
        )
    return format_as_of(seen, moment)
