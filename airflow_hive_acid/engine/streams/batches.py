"""Transaction batches: many small writes as many txns, and one ``delta_X_Y`` (Hive's streaming ingest, decision 33).

``with engine.batch("w.events", partition={"day": "2026-11-22"}) as batch: batch.write(records); batch.commit()``. Each
txn is committed or aborted on its own, and readers see the committed ones at any moment. When the txns of a batch are
used up, or a failure has ended them, the next write opens others (:mod:`.open_batch`).
"""

from __future__ import annotations

import contextlib
import json
from typing import TYPE_CHECKING, Any

from airflow_hive_acid.engine.streams.open_batch import OpenBatch, writable
from airflow_hive_acid.engine.streams.records import lines, record_columns, static_partition
from airflow_hive_acid.engine.transactions.back_pressure import hold_back_batch
from airflow_hive_acid.errors import BadRecordError, HiveAcidError, InvalidArgumentsError
from airflow_hive_acid.metastore.names import insertable_value
from airflow_hive_acid.metastore.protocol import read_position

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from types import TracebackType

    from sqlalchemy import Connection
    from typing_extensions import Self

    from airflow_hive_acid.engine.context import Context
    from airflow_hive_acid.engine.streams.open_batch import CommittedRows
    from airflow_hive_acid.engine.streams.records import RecordColumns
    from airflow_hive_acid.metastore.protocol import Position


class TransactionBatch:
    """Writes records to one table, txn by txn; batch after batch is opened as they are used up.

    Not for several threads at a time; several writers, each with a batch of its own, do not disturb each other.

    :param partition: value by partition column for all records; those of other partition columns are in the records.
    :param transactions: how many txns are opened at once, by default ``hive.acid.batch.transactions``.
    :param stream: name under which the table remembers a position with each commit; a second writer of the same name
        finds its commits refused.
    """

    def __init__(
        self,
        context: Context,
        table: str,
        partition: Mapping[str, Any] | None = None,
        transactions: int | None = None,
        stream: str | None = None,
    ) -> None:
        self._context = context
        found = writable(context, context.table(table))
        kinds = {column.name: column.type for column in found.partition_columns}
        self._name = found.qualified_name
        self._static = tuple(
            (name, insertable_value(f"{name} of {self._name}", kinds[name], value))
            for name, value in static_partition(list(kinds), partition, self._name)
        )
        self._columns = record_columns(found, self._static)
        default = context.settings.integer("hive.acid.batch.transactions")
        self._size = min(default, _most(context)) if transactions is None else transactions
        self._limit = context.settings.integer("hive.acid.rows.max.bytes")
        self._position: Position | None = read_position(context.client, found.id, stream) if stream else None
        self._lines: list[str] = []
        self._bytes = 0
        self._open: OpenBatch | None = None
        self._closed = False
        context.application.warm_up()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, failure: BaseException | None, trace: TracebackType | None
    ) -> None:
        if failure is None:
            try:
                if self._lines:
                    self.commit()
            finally:
                self.close()
            return
        with contextlib.suppress(HiveAcidError, OSError):  # what went wrong first is what matters; the txns time out
            self.abort(f"{type(failure).__name__}: {failure}")
            self.close()

    @property
    def position(self) -> Any:
        """Where the stream stands: what the last commit under its name was given; None at the beginning."""
        if self._position is None:
            raise InvalidArgumentsError("this batch has no stream; give its name to know where it stands")
        return json.loads(self._position.text) if self._position.text else None

    @property
    def pending(self) -> int:
        """Records that the next commit will write."""
        return len(self._lines)

    def write(self, records: Iterable[Mapping[str, Any]]) -> int:
        """Add records to the current txn; they become visible with its commit.

        :param records: values by column, of all columns; None for NULL.
        :return: how many records the txn has now.
        :raises BadRecordError: names record and column; the txn is aborted, whatever was written to it before.
        :raises InvalidArgumentsError: when the txn would hold more than ``hive.acid.rows.max.bytes``; it is aborted.
        """
        self._require_usable()
        try:
            for line in lines(self._columns, records, len(self._lines) + 1):
                self._bytes += len(line) + 1
                if self._bytes > self._limit:
                    raise InvalidArgumentsError(
                        f"the records of one transaction on {self._name} take more than {self._limit:,} bytes "
                        "(hive.acid.rows.max.bytes): commit more often, or INSERT from files"
                    )
                self._lines.append(line)
        except BaseException as failure:
            self.abort(str(failure) or type(failure).__name__)
            raise
        return len(self._lines)

    def commit(
        self,
        position: Any = None,
        *,
        check: Callable[[Connection], None] | None = None,
    ) -> CommittedRows | None:
        """Make the records of the current txn visible.

        :param position: where the source stands behind these records, any JSON value; kept with the commit in a table
            parameter, which needs a ``stream``.
        :param check: called inside the commit's database transaction; an exception refuses it.
        :return: None when there was nothing to commit.
        :raises BadRecordError: Spark found a value that fits no column, or the table has other columns than when the
            records were written; the txn is aborted, the batch goes on.
        :raises ClaimLostError: another writer of the stream has moved its position; nothing is committed.
        :raises CommitStateUnknownError: the answer was lost; nothing was touched.
        """
        self._require_usable()
        moved = self._moved(position)
        if not self._lines and moved is None and check is None:
            return None
        if self._open is None or not self._open.free:
            self._renew()
        opened = self._open
        if opened is None:
            raise AssertionError("no batch")
        records, self._lines, self._bytes = self._lines, [], 0
        claims = tuple(claim for claim in (moved, check) if claim is not None)
        try:
            found = opened.write_and_commit("\n".join(records), len(records), claims)
        except BaseException:
            if opened.ended:
                self._open = None
            raise
        if self._position is not None and moved is not None:
            self._position.text = json.dumps(position, sort_keys=True)
        return found

    def abort(self, reason: str = "rollback") -> None:
        """Drop the records of the current txn, and abort it; those committed before stay, and the batch goes on."""
        had, self._lines, self._bytes = bool(self._lines), [], 0
        if had and self._open is not None and self._open.free:
            self._open.abort_next(reason)

    def close(self) -> None:
        """Finish the files and end the txns that were not used; records that were not committed are dropped."""
        self._lines, self._bytes, self._closed = [], 0, True
        opened, self._open = self._open, None
        if opened is not None:
            opened.close()

    def _renew(self) -> None:
        before, self._open = self._open, None
        if before is not None:
            before.close()
        hold_back_batch(self._context, self._context.table(self._name), self._static)
        of = None if self._position is None else self._position.table_id
        self._open = OpenBatch.open(self._context, self._name, self._static, self._size, of)
        self._follow(self._open.columns)

    def _follow(self, now: RecordColumns) -> None:
        """Take the columns that the table has under the lock of its batch: no lock has kept them as they were.

        :raises BadRecordError: when the records that wait have others; they are dropped.
        """
        before, self._columns = self._columns, now
        asked, given = now.names, before.names
        if self._lines and set(asked) != set(given):
            self.abort("the columns of the table have changed")
            raise BadRecordError(
                f"{self._name} was altered since these records were written: it has the columns {', '.join(asked)}, "
                f"and they have {', '.join(given)}; write them again with the columns that it has now"
            )

    def _moved(self, position: Any) -> Callable[[Connection], None] | None:
        if position is None:
            return None
        of = self._position
        if of is None:
            raise InvalidArgumentsError("a position is kept under the name of a stream; give the batch one")
        try:
            text = json.dumps(position, sort_keys=True)
        except (TypeError, ValueError) as problem:
            raise InvalidArgumentsError(f"the position must be what JSON can hold: {problem}") from None
        return lambda connection: of.moved(connection, text)

    def _require_usable(self) -> None:
        if self._closed:
            raise InvalidArgumentsError(f"the batch on {self._name} is closed; open another one")


def _most(context: Context) -> int:
    return max(1, context.settings.integer("hive.txn.max.open.batch") - 1)
