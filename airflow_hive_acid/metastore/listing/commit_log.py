"""Reading commits from the notification log, page by page, from a watermark on.

Event ids have no gaps: the row that gives them stays locked to the commit, so nobody sees an id while a smaller one may
still come. A gap therefore is what was purged (``hive.metastore.event.db.listener.timetolive``), and whoever had not
read it is told so. The same goes for an event that nobody can read.
"""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from sqlalchemy import bindparam, select

from airflow_hive_acid.errors import HiveAcidError, InvalidArgumentsError
from airflow_hive_acid.metastore.database.clock import now_ms
from airflow_hive_acid.metastore.listing.commit_events import (
    ABORTS,
    ALLOCATIONS,
    OPENS,
    CommitFacts,
    commits_of,
    committed_txns,
    hear,
    txns_of_event,
    whole,
)
from airflow_hive_acid.metastore.listing.commit_facts import read_facts
from airflow_hive_acid.metastore.names.partitions import resolve
from airflow_hive_acid.metastore.notifications.log import LoggedEvent, is_another_log
from airflow_hive_acid.metastore.schema.hive_transactions import NOTIFICATION_LOG

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from sqlalchemy.engine import Connection

    from airflow_hive_acid.metastore.database.database import Database
    from airflow_hive_acid.metastore.listing.commit_events import Heard, TableCommit
    from airflow_hive_acid.metastore.names.objects import TableName
    from airflow_hive_acid.metastore.notifications.log import Notifications

log = logging.getLogger(__name__)

PAGE = 500
_REMEMBERED = 100_000
"""Txns whose allocations are kept in memory; those of older ones are looked up."""
_SETTLED_SECONDS = 60
"""Notes of a commit are tidied up by housekeeping that comes every few minutes; sooner than this nothing is missing."""

_ANEW = "the log begins anew: the metastore is another one, or from a backup"

_L = NOTIFICATION_LOG.c
_EARLIER = (
    select(
        _L.EVENT_ID, _L.EVENT_TIME, _L.EVENT_TYPE, _L.CAT_NAME, _L.DB_NAME, _L.TBL_NAME, _L.MESSAGE, _L.MESSAGE_FORMAT
    )
    .where(_L.EVENT_TYPE == ALLOCATIONS, _L.EVENT_ID < bindparam("before"))
    .order_by(_L.EVENT_ID.desc())
    .limit(PAGE)
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Missed:
    """Events that nobody can tell of any more.

    :param first: and ``last``: their ids.
    :param reason: for a person.
    """

    first: int
    last: int
    reason: str


@dataclass(frozen=True, slots=True)
class CommitPage:
    """What the log holds after a watermark.

    :param after: the watermark.
    :param upto: the next one.
    :param commits: those between the two, in order.
    :param missed: what is missing between the two.
    :param more: the page was full; there may be another one.
    :param time: when the event at ``upto`` was written, in seconds since 1970; None when that is not known.
    :param anew: the event of the watermark is another one than it was: the log has begun anew, and gone on since.
    """

    after: int
    upto: int
    commits: tuple[TableCommit, ...] = ()
    missed: tuple[Missed, ...] = ()
    more: bool = False
    time: int | None = None
    anew: bool = False


@dataclass(frozen=True, slots=True)
class TablePage:
    """What a page says of the write ids of one table.

    :param times: of those whose txns have committed in it, seconds since 1970; also of those that changed no row.
    :param runs: first, last and time of those that came to a replica together.
    :param aborted: those whose txns were aborted in it.
    :param unknown: when the last commit came that may have written the table by a write id that nobody knows any more;
        0 for none.
    """

    page: CommitPage
    times: dict[int, int] = field(default_factory=dict)
    runs: tuple[tuple[int, int, int], ...] = ()
    aborted: frozenset[int] = frozenset()
    unknown: int = 0


class CommitLog:
    """The commits of one metastore; several threads may read at different places.

    :param database: the metastore.
    :param notifications: its log.
    :param page: so many events are read at once.
    """

    def __init__(self, database: Database, notifications: Notifications, page: int = PAGE) -> None:
        self._database = database
        self._notifications = notifications
        self._page = page
        self._allocated: OrderedDict[int, dict[TableName, int]] = OrderedDict()
        self._lock = threading.Lock()
        self._searched = False
        self._refused: set[tuple[TableName, str]] = set()

    def latest(self) -> int:
        """Id of the latest event: where somebody begins who wants to know what comes.

        :raises HiveAcidError: when the metastore writes no events.
        """
        if not self._database.read(self._notifications.enabled):
            raise InvalidArgumentsError(
                f"{self._database.where} has no notification log, or it is switched off: set "
                "hive.metastore.event.db.listener.on=true, and in a real Hive "
                "metastore.transactional.event.listeners=org.apache.hive.hcatalog.listener.DbNotificationListener"
            )
        return self._notifications.current_event_id()

    def standing(self) -> tuple[int, int | None]:
        """Id of the latest event, and when that was written; None when it is not in the log (any more)."""
        latest = self.latest()
        return latest, self.written_at(latest)

    def written_at(self, event_id: int) -> int | None:
        """When an event was written, in seconds since 1970; None when it is not in the log (any more)."""
        return self._notifications.end(event_id)[1]

    def read(self, after: int, noted: int | None = None) -> CommitPage:
        """The page after a watermark; an empty one when nothing has happened.

        :param noted: when the event of the watermark was written. If it has another time now, the metastore was
            restored, and what follows is no continuation: the page says ``anew``, and holds no commits.
        :raises HiveAcidError: when the metastore cannot be asked.
        """
        notifications = self._notifications
        listed = notifications.events_after(after, self._page)
        if noted is not None or not listed:
            latest, time = notifications.end(after)
            if is_another_log(noted, time):
                return CommitPage(after, latest, missed=(Missed(1, latest, _ANEW),), anew=True)
        if not listed:
            if latest == after:
                return CommitPage(after, after, time=time)
            # What was written meanwhile is found by the second look; what is not there then has been purged.
            listed = notifications.events_after(after, self._page)
            if not listed:
                return CommitPage(after, latest, missed=_nothing_left(after, latest))
        events = whole(listed, self._page)
        heard, unreadable = _hear_all(events)
        missed = (*gaps(after, [event.event_id for event in events]), *unreadable)
        commits = commits_of(heard, self._facts(heard)) if heard else []
        more, time = len(listed) >= self._page, events[-1].time
        return CommitPage(after, events[-1].event_id, tuple(commits), missed, more, time)

    def partition_of(self, table: TableName, partition: str) -> str:
        """The catalog's name of a partition that somebody watches, or of some of its columns.

        What names none of the table's stays as it is given.

        :raises HiveAcidError: when the metastore cannot be asked.
        """
        try:
            return self._database.read(lambda connection: resolve(connection, table, partition))
        except InvalidArgumentsError as problem:
            if (table, partition) not in self._refused:
                log.warning("Somebody watches partition %r of %s, which is none: %s", partition, table, problem)
            self._refused.add((table, partition))
            return partition

    def written(self, after: int, table: TableName, opened: set[int]) -> TablePage:
        """A page, and what it says of the write ids of a table.

        :param opened: the txns that were opened in the pages before, whose allocations are in the log; those of this
            one are added.
        """
        page = self.read(after)
        events = [e for e in self._notifications.events_after(after, self._page) if e.event_id <= page.upto]
        opened.update(txn_id for event in events if event.type == OPENS for txn_id in txns_of_event(event))
        given_up = {txn_id for event in events if event.type == ABORTS for txn_id in txns_of_event(event)}
        with self._lock:
            ids = (self._allocated.get(txn_id, {}).get(table) for txn_id in given_up)
            aborted = frozenset(write_id for write_id in ids if write_id is not None)
        txns = committed_txns(_hear_all(events)[0])
        if not txns:
            return TablePage(page, aborted=aborted)
        known = self._read_facts(txns)[0].write_ids
        times = {write_id: txns[txn].time for (txn, of), write_id in known.items() if of == table and txn in txns}
        runs = tuple((*run, event.time) for event in txns.values() for run in event.ranges.get(table, ()))
        unknown = (
            event.time for txn_id, event in txns.items()
            if txn_id not in opened and (txn_id, table) not in known and event.may_have_written(table)
        )  # fmt: skip
        return TablePage(page, times, runs, aborted, max(unknown, default=0))

    def _facts(self, heard: Sequence[Heard]) -> CommitFacts:
        self._remember(heard)
        txns = committed_txns(heard)
        if not txns:
            return CommitFacts()
        found, late = self._read_facts(txns)
        unknown = [txn_id for txn_id in txns if not any(known == txn_id for known, _ in found.write_ids)]
        if not unknown or not late or self._searched:
            return found
        # Whoever is late may find TXN_TO_WRITE_ID tidied up; the log still knows.
        self._search(heard[0].event_id)
        return self._read_facts(txns)[0]

    def _read_facts(self, txns: Mapping[int, Heard]) -> tuple[CommitFacts, bool]:
        database, ids = self._database, sorted(txns)
        with self._lock:
            known = {(t, table): w for t in ids for table, w in self._allocated.get(t, {}).items()}
        oldest = min(event.time for event in txns.values())

        def read(connection: Connection) -> tuple[CommitFacts, bool]:
            late = oldest < now_ms(connection) // 1000 - _SETTLED_SECONDS
            return read_facts(connection, database.features(connection), ids, known, late=late), late

        return database.read(read)

    def _search(self, before: int) -> None:
        """Find the allocations of the whole log before a page, once: later pages are read one after the other."""
        rows: Sequence[Any] = [(before,)]
        while rows:
            values = {"before": rows[-1][0]}
            rows = self._database.read(partial(_earlier, values=values))
            heard, _ = _hear_all([LoggedEvent(*row) for row in rows])
            self._remember(reversed(heard), newer=False)
        self._searched = True

    def _remember(self, heard: Iterable[Heard], *, newer: bool = True) -> None:
        with self._lock:
            for event in heard:
                for (txn_id, table), write_id in event.write_ids.items():
                    self._allocated.setdefault(txn_id, {})[table] = write_id
                    self._allocated.move_to_end(txn_id, last=newer)
            while len(self._allocated) > _REMEMBERED:
                self._allocated.popitem(last=False)


def _earlier(connection: Connection, values: Mapping[str, int]) -> Sequence[Any]:
    return connection.execute(_EARLIER, values).all()


def gaps(after: int, event_ids: Iterable[int]) -> tuple[Missed, ...]:
    """What is missing between a watermark and events, and between the events."""
    found = []
    expected = after + 1
    for event_id in event_ids:
        if event_id > expected:
            found.append(Missed(expected, event_id - 1, "purged before they were read"))
        expected = event_id + 1
    return tuple(found)


def _nothing_left(after: int, latest: int) -> tuple[Missed, ...]:
    if latest > after:
        return (Missed(after + 1, latest, "purged before they were read"),)
    return (Missed(latest + 1, after, _ANEW),)


def _hear_all(events: Sequence[LoggedEvent]) -> tuple[list[Heard], list[Missed]]:
    heard: list[Heard] = []
    unreadable: list[Missed] = []
    for event in events:
        try:
            one = hear(event)
        except HiveAcidError as error:
            unreadable.append(Missed(event.event_id, event.event_id, f"cannot be read: {error}"))
        else:
            if one is not None:
                heard.append(one)
    return heard, unreadable
