"""Segments of an event store as values: their names, their text, and which of them hold an event.

A segment holds the events ``first`` to ``last``, which its name says, one a line: check sum, blank, JSON. So a segment
is whole exactly when it has as many good lines as its name promises; what a crash cut off is seen, and the lines before
it are good. Segments may overlap (two copied at once, or small ones were merged): an event is the same in all of them.
"""

from __future__ import annotations

import json
import re
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_hive_acid.errors import CorruptEventStoreError
from airflow_hive_acid.metastore.notifications import LoggedEvent

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_NAME = re.compile(r"events_([0-9]{20})_([0-9]{20})\.jsonl")
_LINE = re.compile(rb"([0-9a-f]{8}) (.*)")
_HALF = re.compile("[\ud800-\udfff]")
_TEXT_OR_NONE = (str, type(None))
_TYPES: tuple[tuple[type, ...], ...] = (
    (int,), (int,), (str,), _TEXT_OR_NONE, _TEXT_OR_NONE, _TEXT_OR_NONE, (str,), _TEXT_OR_NONE
)  # fmt: skip


@dataclass(frozen=True, slots=True, order=True)
class Segment:
    """A segment by the events that its name promises."""

    first: int
    last: int

    @property
    def name(self) -> str:
        """The name of its file; names sort as their first events do."""
        return f"events_{self.first:020d}_{self.last:020d}.jsonl"

    @property
    def count(self) -> int:
        """Number of events that it promises."""
        return self.last - self.first + 1

    @classmethod
    def parse(cls, name: str) -> Segment | None:
        """From the name of a file; None when it is no segment."""
        match = _NAME.fullmatch(name)
        if match is None or not 0 < int(match[1]) <= int(match[2]):
            return None
        return cls(int(match[1]), int(match[2]))


def encode_segment(events: Sequence[LoggedEvent]) -> bytes:
    """The text of a segment."""
    return b"".join(_encode(event) for event in events)


def decode_segment(segment: Segment, content: bytes) -> list[LoggedEvent]:
    """The good events at the beginning of a segment; all of them, when it is whole."""
    found: list[LoggedEvent] = []
    for line in content.split(b"\n")[:-1]:  # what follows the last newline is cut off, or nothing
        event = _decode(line)
        if event is None or event.event_id != segment.first + len(found) or len(found) == segment.count:
            break
        found.append(event)
    return found


def chain(segments: Iterable[Segment]) -> list[Segment]:
    """The segments that are needed to read all events in order: the longest from each place on.

    :raises CorruptEventStoreError: when there is a hole between them.
    """
    found: list[Segment] = []
    for segment in sorted(segments, key=lambda s: (s.first, -s.last)):
        if found and segment.last <= found[-1].last:
            continue
        if found and segment.first > found[-1].last + 1:
            raise CorruptEventStoreError(
                f"the event store has no events {found[-1].last + 1} to {segment.first - 1}: a segment was removed. "
                "Put it back, or delete the store and bootstrap what reads from it."
            )
        if len(found) > 1 and segment.first <= found[-2].last + 1:
            found[-1] = segment  # reaches further, and begins where the one before it ends
        else:
            found.append(segment)
    return found


def to_merge(segments: Sequence[Segment], size: int, least: int) -> list[Segment]:
    """Small segments in a row that are better one: not more than ``size`` events together.

    :param segments: a chain without its last segment, which may still be under repair.
    :param least: not for fewer segments than this.
    """
    run: list[Segment] = []
    for segment in segments:
        if run and segment.last - run[0].first >= size:
            if len(run) >= least:
                return run
            run = []
        if segment.count < size:
            run.append(segment)
        else:
            if len(run) >= least:
                return run
            run = []
    return run if len(run) >= least else []


def _encode(event: LoggedEvent) -> bytes:
    values = [
        event.event_id, event.time, event.type, event.catalog, event.database, event.table, event.raw_message,
        event.message_format,
    ]  # fmt: skip
    body = json.dumps(values, ensure_ascii=True, separators=(",", ":")).encode("ascii")
    return b"%08x %s\n" % (zlib.crc32(body), body)


def _decode(line: bytes) -> LoggedEvent | None:
    match = _LINE.fullmatch(line)
    if match is None or int(match[1], 16) != zlib.crc32(match[2]):
        return None
    try:
        values = json.loads(match[2])
    except (ValueError, RecursionError):
        return None
    if not isinstance(values, list) or len(values) != len(_TYPES):
        return None
    if not all(isinstance(value, kinds) for value, kinds in zip(values, _TYPES, strict=True)):
        return None
    if any(isinstance(value, str) and _HALF.search(value) for value in values):
        return None  # no database has such text
    return LoggedEvent(*values)
