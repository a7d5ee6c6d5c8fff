"""An event store: events of a source kept outside its metastore, on a warehouse's filesystem, for as long as needed.

The notification log of a metastore forgets after a day; a store forgets when all who read from it have read. It has the
interface of the log (:class:`~airflow_hive_acid.replication.events.event.EventSource`), so replication reads from
either, and whatever else keeps events in order (a message queue) fits as well.

A store is a directory of segments that are written whole under a temporary name, flushed to the disk, renamed and never
changed. Who copies goes on where the store ends; two who copy at once write the same events, which does no harm. What a
crash of the machine cut off at the end is recognised by check sums, put aside and copied again.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_hive_acid.errors import CorruptEventStoreError, InvalidArgumentsError, ReplicationGapError
from airflow_hive_acid.replication.events.event import read_after
from airflow_hive_acid.replication.events.segments import Segment, chain, decode_segment, encode_segment, to_merge

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow_hive_acid.filesystem import StreamingFilesystem
    from airflow_hive_acid.metastore.notifications import LoggedEvent
    from airflow_hive_acid.replication.events.event import EventSource

SEGMENT_EVENTS = 1000
MERGE_FROM = 16
"""So many small segments in a row become one."""
_READER = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}")
_FLOOR = "_floor"


@dataclass(frozen=True, slots=True)
class Repair:
    """What was found at the end of a store.

    :param aside: name of the file that the broken segment has now.
    :param kept: id of its last good event; None when it had none.
    :param lost: ids that its name promised and that are to be copied again.
    """

    aside: str
    kept: int | None
    lost: range


class EventStore:
    """Events in files.

    :param filesystem: of ``root``.
    :param root: directory of the store, made when it is missing. One store holds the events of one metastore.
    :param segment_events: most events in one file.
    """

    def __init__(self, filesystem: StreamingFilesystem, root: str, *, segment_events: int = SEGMENT_EVENTS) -> None:
        if segment_events < 1:
            raise InvalidArgumentsError(f"segments of {segment_events} events: each needs at least one")
        self._fs = filesystem
        self._root = root.rstrip("/")
        self._size = segment_events
        self._cached: tuple[Segment, list[LoggedEvent]] | None = None
        self._made = False
        self._begins_after = 0

    # --- reading (EventSource) ---

    def events_after(self, event_id: int, limit: int = 1000) -> list[LoggedEvent]:
        """Events with larger ids, in order.

        :raises CorruptEventStoreError: when a segment other than the last is broken.
        """
        segments = self._chain()
        found: list[LoggedEvent] = []
        for segment in segments:
            if segment.last <= event_id:
                continue
            if len(found) >= limit:
                break
            after = found[-1].event_id if found else event_id
            found += [event for event in self._events(segment, segment == segments[-1]) if event.event_id > after]
        return found[:limit]

    def current_event_id(self) -> int:
        """Id of the last event in the store; of an empty one, of the event behind which the last copy was to begin."""
        segments = self._chain()
        if not segments:
            return self._begins_after
        events = self._events(segments[-1], last=True)
        return events[-1].event_id if events else segments[-1].first - 1

    def first_event_id(self) -> int:
        """Id of the oldest event in the store; of an empty one, of the first that it is to have."""
        segments = self._chain()
        return segments[0].first if segments else self._begins_after + 1

    # --- writing ---

    def append(self, events: Sequence[LoggedEvent]) -> None:
        """Add events behind the last one.

        :raises InvalidArgumentsError: when one of them is in the store already, or they are not in order.
        :raises ReplicationGapError: when events between the last one and these are missing.
        """
        if not events:
            return
        self.repair()
        last = self.current_event_id()
        expected = last + 1 if last else events[0].event_id
        for event in events:
            if event.event_id < expected:
                raise InvalidArgumentsError(
                    f"event {event.event_id} is in the event store {self._root} already, whose last one is "
                    f"{expected - 1}; events are added once and in order"
                )
            if event.event_id > expected:
                raise ReplicationGapError(
                    f"events {expected} to {event.event_id - 1} are missing before event {event.event_id}: the event "
                    f"store {self._root} has no holes. Copy them first, or begin a new store and bootstrap its readers."
                )
            expected += 1
        for start in range(0, len(events), self._size):
            self._publish(events[start : start + self._size])

    def copy_from(self, source: EventSource, *, after: int | None = None, upto: int | None = None) -> int:
        """Copy what the source has and the store has not; goes on where the last copy ended, whoever made it.

        :param after: where an empty store begins; by default with the oldest event of the source.
        :param upto: the last event to copy; by default the source's latest at the beginning.
        :return: number of events copied.
        :raises ReplicationGapError: when the source has purged events that the store does not have.
        """
        self.repair()
        self._begins_after = 0
        position = self.current_event_id()
        if position:
            self._require_same(source, position)
        else:
            # Noted: where there is no news yet, the store is as far as its source, and knows of nothing before.
            position = self._begins_after = source.first_event_id() - 1 if after is None else after
        goal = source.current_event_id() if upto is None else upto
        copied = 0
        while position < goal:
            events = read_after(source, position, min(self._size, goal - position))
            if not events:
                break
            self._publish(events)
            copied += len(events)
            position = events[-1].event_id
        if copied:
            self._merge()
        return copied

    def repair(self) -> Repair | None:
        """Put a broken end aside and keep what is good of it; None when there is nothing to repair."""
        segments = chain(self._segments())
        if not segments:
            return None
        last = segments[-1]
        good = decode_segment(last, self._read(last))
        if len(good) == last.count:
            return None
        if good:
            self._publish(good)
        aside = f"broken_{last.name}_{uuid.uuid4().hex}"
        self._fs.rename(self._uri(last.name), self._uri(aside))
        self._cached = None
        kept = good[-1].event_id if good else None
        return Repair(aside, kept, range(last.first + len(good), last.last + 1))

    # --- readers and retention ---

    def readers(self) -> dict[str, int]:
        """The position of each registered reader: the last event that it is done with."""
        with contextlib.suppress(FileNotFoundError):
            listed = self._fs.list_files(self._uri("readers"))
            return {
                info.name.removesuffix(".json"): self._position(info.path)
                for info in listed
                if not info.is_dir and info.name.endswith(".json") and not info.name.startswith(".")
            }
        return {}

    def _position(self, uri: str) -> int:
        try:
            return int(json.loads(self._fs.read_text(uri))["position"])
        except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
            # Cut off by a crash of the machine. What it was is not known, so everything is kept for it.
            return 0

    def register(self, reader: str, position: int) -> None:
        """Tell the store who reads, and how far it is: no event after that is deleted. A position never goes back.

        :param reader: letters, digits, ``_``, ``.`` and ``-``, for example the name of a policy.
        :raises ReplicationGapError: when events after the position are deleted already.
        """
        if not _READER.fullmatch(reader) or position < 0:
            raise InvalidArgumentsError(
                f"reader {reader!r} at {position}: a name has up to 128 letters, digits, '_', '.' and '-', a position "
                "is an event id or 0"
            )
        known = self.readers().get(reader)
        if known is not None and position < known:
            raise InvalidArgumentsError(
                f"reader {reader!r} of the event store {self._root} is at event {known}; it cannot go back to "
                f"{position}, whose events may be deleted. Unregister it first if that is meant."
            )
        self._fs.make_directory(self._uri("readers"))
        uri = self._uri(f"readers/{reader}.json")
        self._fs.write_text(uri, json.dumps({"position": position}))
        # A purge says what it is about to delete before it looks for readers, and we look there after we have
        # written: one of the two sees the other.
        floor = max(self._floor(), self.first_event_id())
        if known is None and position + 1 < floor:
            self._fs.delete(uri, inside=self._uri("readers"))
            raise ReplicationGapError(
                f"reader {reader!r} is at event {position}, the oldest event of the event store {self._root} is "
                f"{floor}. Bootstrap what it replicates again."
            )

    def unregister(self, reader: str) -> bool:
        """Forget a reader; False when there was none of that name."""
        if not _READER.fullmatch(reader):
            return False
        return self._fs.delete(self._uri(f"readers/{reader}.json"), inside=self._uri("readers"))

    def purge(self, before: int) -> int:
        """Delete segments that every registered reader is done with; the last one stays, and without readers all do.

        :param before: delete only what is older than this moment, in seconds since 1970.
        :return: number of events deleted.
        """
        segments = self._chain()
        read = min(self.readers().values(), default=0)
        old: list[Segment] = []
        for segment in segments[:-1]:
            if segment.last > read or any(event.time >= before for event in self._events(segment, last=False)):
                break
            old.append(segment)
        if not old:
            return 0
        self._fs.write_text(self._uri(_FLOOR), json.dumps({"first": old[-1].last + 1}))
        # Asked again, now that whoever registers sees what we are about to delete.
        done = min(self.readers().values(), default=0)
        gone = [segment for segment in old if segment.last <= done]
        first = gone[-1].last + 1 if gone else segments[0].first
        # A purge that ends half way leaves no hole: what ends first goes first.
        for segment in sorted(self._segments(), key=lambda s: (s.last, s.first)):
            if segment.last < first:
                self._fs.delete(self._uri(segment.name), inside=self._root)
        self._fs.write_text(self._uri(_FLOOR), json.dumps({"first": first}))
        return sum(segment.count for segment in gone)

    # --- files ---

    def _chain(self) -> list[Segment]:
        """The segments to read. One that is cut off does not hide another that is whole and reaches further."""
        segments = self._segments()
        while found := chain(segments):
            last = found[-1]
            good = len(self._events(last, last=True))
            rest = [segment for segment in segments if segment != last]
            if good == last.count or max((s.last for s in rest), default=0) < last.first + good:
                break
            segments = rest
        return found

    def _segments(self) -> list[Segment]:
        try:
            listed = self._fs.list_files(self._root)
        except FileNotFoundError:
            return []
        return [s for info in listed if not info.is_dir and (s := Segment.parse(info.name)) is not None]

    def _events(self, segment: Segment, last: bool) -> list[LoggedEvent]:
        """The events of a segment; of the last one those that are good."""
        if self._cached is not None and self._cached[0] == segment:
            return self._cached[1]
        events = decode_segment(segment, self._read(segment))
        if len(events) == segment.count:
            self._cached = segment, events
        elif not last:
            raise CorruptEventStoreError(
                f"{self._uri(segment.name)} is broken after event {segment.first + len(events) - 1} of "
                f"{segment.last}, and later events follow: this is no crash while it was written. Restore the file "
                "from a backup, or delete the store and bootstrap what reads from it."
            )
        return events

    def _read(self, segment: Segment) -> bytes:
        with self._fs.open_input(self._uri(segment.name)) as file:
            return file.read()

    def _require_same(self, source: EventSource, position: int) -> None:
        """Refuse a source that has another event where the store's last one is, or none yet: two metastores' events do
        not mix."""
        if source.current_event_id() < position:
            raise InvalidArgumentsError(
                f"the last event of the event store {self._root} is {position}, and the source has only had "
                f"{source.current_event_id()}: the store holds the events of another metastore, or of this one before "
                "it was restored. Give each source a store of its own."
            )
        theirs = source.events_after(position - 1, 1)
        ours = self.events_after(position - 1, 1)
        if theirs and theirs[0].event_id == position and list(theirs) != ours:
            raise InvalidArgumentsError(
                f"event {position} of the event store {self._root} is {ours[0].type} of second {ours[0].time}, the "
                f"source's is {theirs[0].type} of second {theirs[0].time}: the store holds the events of another "
                "metastore, or of this one before it was restored. Give each source a store of its own."
            )

    def _publish(self, events: Sequence[LoggedEvent]) -> None:
        """Write a segment so that it is there whole or not at all."""
        segment = Segment(events[0].event_id, events[-1].event_id)
        target = self._uri(segment.name)
        if not self._made:
            self._fs.make_directory(self._root)
            self._made = True
        if not self._fs.can_fence(self._root):
            # An object store: one PUT is whole or nothing, and a rename is neither.
            with self._fs.open_output(target) as file:
                file.write(encode_segment(events))
            return
        temporary = self._uri(f".{segment.name}.{uuid.uuid4().hex}.tmp")
        with self._fs.open_output(temporary) as file:
            file.write(encode_segment(events))
            file.flush()
            if self._fs.local_path(temporary) is not None:
                os.fsync(file.fileno())
        try:
            self._fs.rename(temporary, target)
        except FileExistsError:
            # Somebody else has copied exactly these events.
            self._fs.delete(temporary, inside=self._root)
        _flush_directory(self._fs.local_path(self._root))

    def _merge(self) -> None:
        """Make one of many small segments, so that frequent copies do not leave a file for every few events."""
        parts = to_merge(self._chain()[:-1], self._size, MERGE_FROM)
        if not parts:
            return
        events: list[LoggedEvent] = []
        for part in parts:
            events += [e for e in self._events(part, last=False) if not events or e.event_id > events[-1].event_id]
        self._publish(events)
        whole = Segment(events[0].event_id, events[-1].event_id)
        for part in self._segments():
            if part != whole and whole.first <= part.first and part.last <= whole.last:
                self._fs.delete(self._uri(part.name), inside=self._root)

    def _floor(self) -> int:
        try:
            return int(json.loads(self._fs.read_text(self._uri(_FLOOR)))["first"])
        except FileNotFoundError:
            return 1
        except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
            raise CorruptEventStoreError(
                f"{self._uri(_FLOOR)} does not say which event is the first that is kept; delete the file while nobody "
                "purges"
            ) from None

    def _uri(self, name: str) -> str:
        return f"{self._root}/{name}"


def _flush_directory(path: str | None) -> None:
    """Have the names in a directory of this machine on the disk."""
    if path is None:
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
