"""What has become of a table, commit by commit, as far as the notification log goes back; and what was there when."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timezone
from typing import TYPE_CHECKING

from sqlalchemy import bindparam, select

from airflow_hive_acid.errors import HistoryGoneError, InvalidArgumentsError
from airflow_hive_acid.format.id_ranges import IdRanges
from airflow_hive_acid.format.write_ids import ValidWriteIdList
from airflow_hive_acid.metastore.database.clock import now_ms
from airflow_hive_acid.metastore.listing.changes import altered_after
from airflow_hive_acid.metastore.listing.commit_log import CommitLog
from airflow_hive_acid.metastore.schema.hive_transactions import NOTIFICATION_LOG
from airflow_hive_acid.python_versions import datetime_of

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection

    from airflow_hive_acid.metastore.catalog.values.model import Table
    from airflow_hive_acid.metastore.database.database import Database
    from airflow_hive_acid.metastore.listing.commit_events import TableCommit
    from airflow_hive_acid.metastore.names.objects import TableName
    from airflow_hive_acid.metastore.notifications.log import Notifications

_L = NOTIFICATION_LOG.c
_FIRST = select(_L.EVENT_ID, _L.EVENT_TIME).order_by(_L.EVENT_ID).limit(1)
_TIME = select(_L.EVENT_TIME).where(_L.EVENT_ID == bindparam("id"))


@dataclass(frozen=True, slots=True)
class TableHistory:
    """The commits of a table that the log still knows.

    :param commits: in order.
    :param times: of each write id that was committed meanwhile, the time in seconds since 1970.
    :param since: from then on, in seconds since 1970, no commit is missing; None: nothing is known.
    :param runs: at a replica, first, last and time of write ids that came together; some are in ``times``, too.
    :param begun: when the first event that is there was written.
    :param aborted: write ids that were aborted meanwhile; the metastore may have forgotten that since.
    """

    commits: tuple[TableCommit, ...]
    times: dict[int, int]
    since: int | None
    begun: int = 0
    runs: tuple[tuple[int, int, int], ...] = ()
    aborted: frozenset[int] = frozenset()

    @property
    def committed(self) -> IdRanges:
        """The write ids of which it is known when they were committed."""
        return IdRanges.of(self.times) | IdRanges((low, high) for low, high, _ in self.runs)

    def later_than(self, moment: int) -> IdRanges:
        """Those that were committed after a moment, in seconds since 1970."""
        late = IdRanges.of(w for w, time in self.times.items() if time > moment)
        return late | IdRanges((low, high) for low, high, time in self.runs if time > moment)

    def known_from(self, seen: ValidWriteIdList) -> int | None:
        """From when on it is known what a reader saw, in seconds since 1970; None: nothing is.

        What is older than the first event was committed before it, and nobody knows when. A log of which nothing was
        purged may be younger than the table, too: it was switched on later.

        :param seen: what a reader sees now.
        """
        if self.since is None or self.begun <= self.since:
            return self.since
        first = self.committed.first or seen.high_watermark + 1
        older = IdRanges([(1, first - 1)]) - seen.exceptions - self.aborted
        return self.begun if older else self.since


def read_history(database: Database, notifications: Notifications, table: TableName) -> TableHistory:
    """Read the log from its beginning.

    :raises InvalidArgumentsError: when the metastore writes none.
    """
    log = CommitLog(database, notifications)
    log.latest()
    first = database.read(lambda connection: connection.execute(_FIRST).one_or_none())
    if first is None:
        return TableHistory((), {}, None)
    # Nothing was purged of a log that begins with its first event.
    since = 0 if first[0] == 1 else int(first[1]) + 1
    commits: list[TableCommit] = []
    times: dict[int, int] = {}
    runs: tuple[tuple[int, int, int], ...] = ()
    aborted: frozenset[int] = frozenset()
    opened: set[int] = set()
    after, more = int(first[0]) - 1, True
    while more:
        told = log.written(after, table, opened)
        page = told.page
        commits += [commit for commit in page.commits if commit.table == table]
        times |= told.times
        runs += told.runs
        aborted |= told.aborted
        # Who began before the log does may have got a write id that is noted nowhere by now. It was seen from then on.
        since = max(since, told.unknown)
        if page.missed:
            commits, times, runs, since = [], {}, (), _time_of(database, page.upto)
            opened.clear()  # what they were given may be among what is missing
        after, more = page.upto, page.more
    return TableHistory(tuple(commits), times, since, int(first[1]), runs, aborted)


def write_ids_at(
    database: Database, notifications: Notifications, table: Table, key: TableName, seen: ValidWriteIdList, moment: str
) -> ValidWriteIdList:
    """What a reader saw at a moment of the past, to the second.

    :param seen: what a reader sees now.
    :param moment: ISO 8601; UTC unless it says another zone.
    :raises HistoryGoneError: when the log does not go back so far, or the table was not there, or had another name.
    :raises InvalidArgumentsError: for what is no time, and for the future.
    """
    wanted = parse_moment(moment)
    if wanted > database.read(now_ms) // 1000:
        raise InvalidArgumentsError(f"{moment!r} lies in the future")
    if wanted < table.created:
        raise HistoryGoneError(f"{key} was made at {shown_moment(table.created)}, after {moment}")
    history = read_history(database, notifications, key)
    known_from = history.known_from(seen)
    since = "no commit" if known_from is None else f"commits from {shown_moment(known_from)} on"
    if known_from is None or wanted < known_from:
        raise HistoryGoneError(
            f"{key} cannot be read as of {moment}: the notification log knows {since}. Read it as of a write id "
            f"(hive-acid history {key}), or keep states with a pin (hive-acid pin add); "
            "hive.metastore.event.db.listener.timetolive says how long the log is kept"
        )
    altered = database.read(lambda connection: altered_after(connection, key, time=wanted))
    if altered is not None:
        raise HistoryGoneError(f"{key} cannot be read as of {moment}: {altered} since; read it as of a write id")
    return list_at(key, history, seen, wanted)


def list_at(key: TableName, history: TableHistory, seen: ValidWriteIdList, wanted: int) -> ValidWriteIdList:
    """The list of a reader of the past: what was committed after it counts as open.

    :param wanted: seconds since 1970.
    :raises HistoryGoneError: when a write id of that time is not in the log.
    """
    known = history.committed
    first = known.first or seen.high_watermark + 1
    # Of an aborted one that was forgotten nothing is left, and it counts as committed.
    silent = (IdRanges([(first, seen.high_watermark)]) - seen.exceptions - known - history.aborted).first
    if silent is not None:
        raise HistoryGoneError(
            f"when write id {silent} of {key} was committed is not known: the notification log lacks its commit. In a "
            "Hive, switch DbNotificationListener on; read the table as of a write id"
        )
    late = history.later_than(wanted).up_to(seen.high_watermark) - seen.exceptions
    return ValidWriteIdList(seen.high_watermark, seen.open_ids | late, seen.aborted_ids, None, seen.table)


def parse_moment(text: str) -> int:
    """A time as seconds since 1970.

    :param text: ISO 8601, as ``2026-11-25 14:00:00``; UTC unless it says another zone.
    :raises InvalidArgumentsError: for what is none.
    """
    given = text.strip()
    try:
        moment = datetime_of(given[:-1] + "Z" if given[-1:] == "z" else given)
    except ValueError:
        raise InvalidArgumentsError(
            f"{text[:80]!r} is no time; write for example '2026-11-25 14:00:00', in UTC, or with a zone: "
            "'2026-11-25T14:00:00+01:00'"
        ) from None
    return int((moment if moment.tzinfo is not None else moment.replace(tzinfo=timezone.utc)).timestamp())


def shown_moment(seconds: int) -> str:
    """Seconds since 1970 as a time that :func:`parse_moment` reads."""
    return datetime.fromtimestamp(seconds, timezone.utc).strftime("%Y-%m-%d %H:%M:%S")


def _time_of(database: Database, event_id: int) -> int:
    """From when on nothing is missing behind an event."""

    def read(connection: Connection) -> int:
        found = connection.execute(_TIME, {"id": event_id}).scalar()
        return (now_ms(connection) // 1000 if found is None else int(found)) + 1

    return database.read(read)
