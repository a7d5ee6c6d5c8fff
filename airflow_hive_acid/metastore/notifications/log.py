"""The notification log: events written with the change they are about, read in order, and purged by age.

Event ids come from NOTIFICATION_SEQUENCE, whose one row stays locked to the commit: ids have no gaps and are in commit
order. It serialises everybody who writes events, a real Hive included, so events are written last, after the open-txn
lock (R15).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import sqlalchemy as sa
from sqlalchemy import bindparam, delete, func, insert, select, update

from airflow_hive_acid.metastore.database.backend import Step, backend_of, execute_batch
from airflow_hive_acid.metastore.database.clock import clock_ms
from airflow_hive_acid.metastore.notifications.events import CATALOG, Event, EventType, decode, encode
from airflow_hive_acid.metastore.schema.hive_transactions import (
    NOTIFICATION_LOG,
    NOTIFICATION_SEQUENCE,
    SEQUENCE_TABLE,
    TXN_WRITE_NOTIFICATION_LOG,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from sqlalchemy.engine import Connection, RootTransaction

    from airflow_hive_acid.metastore.database.database import Database
    from airflow_hive_acid.metastore.names.objects import TableName
    from airflow_hive_acid.settings import Settings

ROW_SEQUENCE = "org.apache.hadoop.hive.metastore.model.MNotificationLog"

_L = NOTIFICATION_LOG.c
_SECONDS = sa.cast(clock_ms() // 1000, sa.Integer)
_VALUES = {
    "EVENT_TYPE": bindparam("event_type", type_=sa.String), "CAT_NAME": bindparam("cat", type_=sa.String),
    "DB_NAME": bindparam("db", type_=sa.String), "TBL_NAME": bindparam("tbl", type_=sa.String),
    "MESSAGE": bindparam("message", type_=sa.Text), "MESSAGE_FORMAT": bindparam("message_format", type_=sa.String),
}  # fmt: skip

# Where one statement can write several tables: ids are taken and used in one. The updates wait for the rows and then
# take their latest value. Parts of a statement run in an order of the plan's, and plans differ from one session to the
# next: the second update reads the first, so that all who commit lock the two rows in the same order.
_EVENT_ID = (
    update(NOTIFICATION_SEQUENCE)
    .values(NEXT_EVENT_ID=NOTIFICATION_SEQUENCE.c.NEXT_EVENT_ID + 1)
    .returning((NOTIFICATION_SEQUENCE.c.NEXT_EVENT_ID - 1).label("event_id"))
    .cte("event")
)
_ROW_ID = (
    update(SEQUENCE_TABLE)
    .where(SEQUENCE_TABLE.c.SEQUENCE_NAME == bindparam("sequence"), _EVENT_ID.c.event_id.is_not(None))
    .values(NEXT_VAL=SEQUENCE_TABLE.c.NEXT_VAL + 1)
    .returning((SEQUENCE_TABLE.c.NEXT_VAL - 1).label("row_id"), _EVENT_ID.c.event_id)
    .cte("entry")
)
_WRITE_AT_ONCE = insert(NOTIFICATION_LOG).from_select(
    ["NL_ID", "EVENT_ID", "EVENT_TIME", *_VALUES],
    select(_ROW_ID.c.row_id, _ROW_ID.c.event_id, _SECONDS, *_VALUES.values()),
)

# Elsewhere: the sequences move first, and what they were before is counted back from where they stand, behind their
# locks (R3).
_MORE = bindparam("more", type_=sa.BigInteger)
_MOVE_EVENT_ID = update(NOTIFICATION_SEQUENCE).values(NEXT_EVENT_ID=NOTIFICATION_SEQUENCE.c.NEXT_EVENT_ID + _MORE)
_LOCK_EVENT_ID = select(NOTIFICATION_SEQUENCE.c.NEXT_EVENT_ID).with_for_update()
_ROW_SEQUENCE = select(SEQUENCE_TABLE.c.NEXT_VAL).where(SEQUENCE_TABLE.c.SEQUENCE_NAME == bindparam("sequence"))
_MOVE_ROW_ID = (
    update(SEQUENCE_TABLE)
    .where(SEQUENCE_TABLE.c.SEQUENCE_NAME == bindparam("sequence"))
    .values(NEXT_VAL=SEQUENCE_TABLE.c.NEXT_VAL + _MORE)
)
_CREATE_SEQUENCE = insert(SEQUENCE_TABLE).values(SEQUENCE_NAME=bindparam("sequence"), NEXT_VAL=bindparam("next"))
_HIGHEST_ROW = select(func.coalesce(func.max(_L.NL_ID), 0))
_BACK = bindparam("back", type_=sa.BigInteger)
_WRITE = insert(NOTIFICATION_LOG).values(
    NL_ID=_ROW_SEQUENCE.scalar_subquery() - _BACK,
    EVENT_ID=select(NOTIFICATION_SEQUENCE.c.NEXT_EVENT_ID).scalar_subquery() - _BACK,
    EVENT_TIME=_SECONDS,
    **_VALUES,
)

_COLUMNS = (
    _L.EVENT_ID,
    _L.EVENT_TIME,
    _L.EVENT_TYPE,
    _L.CAT_NAME,
    _L.DB_NAME,
    _L.TBL_NAME,
    _L.MESSAGE,
    _L.MESSAGE_FORMAT,
)
_AFTER = select(*_COLUMNS).where(_L.EVENT_ID > bindparam("after")).order_by(_L.EVENT_ID).limit(bindparam("limit"))
_OF_PARTITIONS = _AFTER.where(
    _L.DB_NAME == bindparam("db", type_=sa.String), _L.TBL_NAME == bindparam("tbl", type_=sa.String),
    _L.EVENT_TYPE.in_(bindparam("types", expanding=True)),
)  # fmt: skip
_CURRENT = select(NOTIFICATION_SEQUENCE.c.NEXT_EVENT_ID)
# The largest: before Hive 4 no index makes sure that an id comes once.
_TIME = select(func.max(_L.EVENT_TIME)).where(_L.EVENT_ID == bindparam("event_id", type_=sa.BigInteger))
_END = select(NOTIFICATION_SEQUENCE.c.NEXT_EVENT_ID, _TIME.scalar_subquery())
_FIRST = select(func.coalesce(select(func.min(_L.EVENT_ID)).scalar_subquery(), NOTIFICATION_SEQUENCE.c.NEXT_EVENT_ID))
_COUNT = select(func.count()).where(_L.EVENT_ID > bindparam("after"), _L.EVENT_ID <= bindparam("upto"))
_OLD = (
    select(_L.EVENT_ID)
    .where(_L.EVENT_TIME < _SECONDS - bindparam("age", type_=sa.Integer))
    .order_by(_L.EVENT_ID)
    .limit(bindparam("limit"))
)
_DELETE = delete(NOTIFICATION_LOG).where(
    _L.EVENT_ID.between(bindparam("low"), bindparam("high")),
    _L.EVENT_TIME < _SECONDS - bindparam("age", type_=sa.Integer),
)
_W = TXN_WRITE_NOTIFICATION_LOG.c
_OLD_WRITES = (
    select(_W.WNL_ID)
    .where(_W.WNL_EVENT_TIME < _SECONDS - bindparam("age", type_=sa.Integer))
    .order_by(_W.WNL_ID)
    .limit(bindparam("limit"))
)
_DELETE_WRITES = delete(TXN_WRITE_NOTIFICATION_LOG).where(
    _W.WNL_ID.between(bindparam("low"), bindparam("high")),
    _W.WNL_EVENT_TIME < _SECONDS - bindparam("age", type_=sa.Integer),
)


@dataclass(frozen=True, slots=True)
class LoggedEvent:
    """A row of the notification log.

    :param time: seconds since 1970.
    :param type: EVENT_TYPE as it stands there; a Hive may write types that we do not.
    """

    event_id: int
    time: int
    type: str
    catalog: str | None
    database: str | None
    table: str | None
    raw_message: str
    message_format: str | None

    def message(self) -> dict[str, Any]:
        """The decoded message."""
        return decode(self.raw_message, self.message_format)


class Notifications:
    """The notification log of one metastore."""

    def __init__(self, database: Database, settings: Settings) -> None:
        self._database = database
        self._wanted = settings.flag("hive.metastore.event.db.listener.on")
        self._format = str(settings["hive.metastore.event.message.factory"].value)
        self._ttl = settings.milliseconds("hive.metastore.event.db.listener.timetolive")
        self._batch = settings.integer("hive.metastore.event.db.clean.maxevents")
        self._has_row_sequence = False
        self._later: WeakKeyDictionary[RootTransaction, list[Event]] = WeakKeyDictionary()

    def enabled(self, connection: Connection) -> bool:
        """Whether events are written: switched on, and the tables are there."""
        return self._wanted and self._database.features(connection).notifications

    def later(self, connection: Connection, events: Iterable[Event]) -> None:
        """Have events written before those of the next :meth:`steps` or :meth:`write` of the same transaction.

        For changes in the middle of a transaction: the sequence's lock must be its last (R15).
        """
        transaction = connection.get_transaction()
        if transaction is None:
            raise AssertionError("events belong into a database transaction")
        self._later.setdefault(transaction, []).extend(events)

    def forget(self, connection: Connection) -> None:
        """Give up what :meth:`later` has collected: the changes were undone."""
        self._collected(connection)

    def steps(self, connection: Connection, events: Sequence[Event]) -> list[Step]:
        """The statements that write events, as the last ones of a transaction (R15); none when it is switched off."""
        events = [*self._collected(connection), *events]
        if not events or not self.enabled(connection):
            return []
        self._ensure_row_sequence(connection)
        of_rows = {"sequence": ROW_SEQUENCE}
        rows = [{**self._row(event), **of_rows} for event in events]
        if backend_of(connection).compound:
            return [Step(_WRITE_AT_ONCE, row) for row in rows]
        number = len(rows)
        return [
            Step(_MOVE_EVENT_ID, {"more": number}),
            Step(_MOVE_ROW_ID, {**of_rows, "more": number}),
            *(Step(_WRITE, {**row, "back": number - i}) for i, row in enumerate(rows)),
        ]

    def write(self, connection: Connection, events: Sequence[Event]) -> None:
        """Write events as the last thing of a transaction."""
        execute_batch(connection, self.steps(connection, events))

    def events_after(self, event_id: int, limit: int = 1000) -> list[LoggedEvent]:
        """Events with larger ids, in order."""
        return self._database.read(lambda connection: read_events(connection, event_id, limit))

    def partitions_altered(
        self, table: TableName, event_id: int, limit: int = 1000, *, dropped: bool = False
    ) -> list[LoggedEvent]:
        """What larger ids tell of single partitions of a table that were altered or renamed, in order.

        :param dropped: also of those that were dropped.
        """
        types = [EventType.ALTER_PARTITION.value, *([EventType.DROP_PARTITION.value] if dropped else [])]
        given = {"after": event_id, "limit": limit, "db": table.database, "tbl": table.name, "types": types}
        return self._database.read(
            lambda connection: [LoggedEvent(*row) for row in connection.execute(_OF_PARTITIONS, given)]
        )

    def current_event_id(self) -> int:
        """Id of the latest event, 0 when there was none."""
        return self._database.read(read_last_event_id)

    def end(self, event_id: int) -> tuple[int, int | None]:
        """Id of the latest event, and when another one was written (:func:`read_end`)."""
        return self._database.read(lambda connection: read_end(connection, event_id))

    def first_event_id(self) -> int:
        """Id of the oldest event that is still in the log; of an empty log, the id that the next one will have."""
        return self._database.read(lambda connection: int(connection.execute(_FIRST).scalar_one()))

    def count(self, after: int, upto: int | None = None) -> int:
        """Number of events with ids above ``after`` and up to ``upto``."""
        parameters = {"after": after, "upto": 2**63 - 1 if upto is None else upto}
        return self._database.read(lambda connection: int(connection.execute(_COUNT, parameters).scalar_one()))

    def purge(self, age_ms: int | None = None, batch: int | None = None) -> int:
        """Remove events older than ``hive.metastore.event.db.listener.timetolive``, in short transactions.

        :param batch: so many in each, ``hive.metastore.event.db.clean.maxevents`` by default.
        """
        age = (self._ttl if age_ms is None else age_ms) // 1000
        size = self._batch if batch is None else batch
        removed = 0
        for old, remove in ((_OLD_WRITES, _DELETE_WRITES), (_OLD, _DELETE)):
            purge_some = partial(_purge_some, old=old, remove=remove, age=age, batch=size)
            while found := self._database.run(purge_some):
                removed += found
        return removed

    def _collected(self, connection: Connection) -> list[Event]:
        transaction = connection.get_transaction()
        return [] if transaction is None else self._later.pop(transaction, [])

    def _row(self, event: Event) -> dict[str, Any]:
        return {
            "event_type": event.type.value,
            "cat": None if event.database is None else CATALOG,
            "db": event.database,
            "tbl": event.table,
            "message": encode(event.message, self._format),
            "message_format": self._format,
        }

    def _ensure_row_sequence(self, connection: Connection) -> None:
        """The sequence of row ids appears on first use, as in Hive; by one of those who write events."""
        if self._has_row_sequence:
            return
        of_rows = {"sequence": ROW_SEQUENCE}
        if connection.execute(_ROW_SEQUENCE, of_rows).first() is None:
            # Out of turn (R15), but once in a metastore's life.
            connection.execute(_LOCK_EVENT_ID)
            if connection.execute(_ROW_SEQUENCE, of_rows).first() is not None:  # a racer was first
                return
            first = int(connection.execute(_HIGHEST_ROW).scalar_one()) + 1
            connection.execute(_CREATE_SEQUENCE, {"sequence": ROW_SEQUENCE, "next": first})
            return  # not remembered: this transaction may yet be rolled back
        self._has_row_sequence = True


def read_events(connection: Connection, after: int, limit: int) -> list[LoggedEvent]:
    """Events with larger ids, in order."""
    return [LoggedEvent(*row) for row in connection.execute(_AFTER, {"after": after, "limit": limit})]


def read_last_event_id(connection: Connection) -> int:
    """Id of the latest event, 0 when there was none."""
    return int(connection.execute(_CURRENT).scalar_one()) - 1


def read_end(connection: Connection, event_id: int) -> tuple[int, int | None]:
    """Id of the latest event, and when another one was written, in seconds since 1970; None when it is not there."""
    following, time = connection.execute(_END, {"event_id": event_id}).one()
    return int(following) - 1, None if time is None else int(time)


def is_another_log(noted: int | None, time: int | None) -> bool:
    """Whether the event of an id is another one than it was: the metastore was restored, and has gone on since.

    A restore gives ids again, and not before the time of those that it has lost. Of an event that was purged nobody
    knows.

    :param noted: when it was written, as whoever had read it has noted; ``time`` what the log says now.
    """
    return noted is not None and time is not None and noted != time


def _purge_some(connection: Connection, old: sa.Select[Any], remove: sa.Delete, age: int, batch: int) -> int:
    ids = list(connection.execute(old, {"age": age, "limit": batch}).scalars())
    if not ids:
        return 0
    return connection.execute(remove, {"low": ids[0], "high": ids[-1], "age": age}).rowcount
