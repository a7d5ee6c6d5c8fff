"""Partitions of the source that bear the name of another one since the last sync, or have another directory.

A rename takes the files along, another directory has files of its own, and no write id of theirs is new; so neither
listings nor write ids tell of it. The notification log does (a real Hive's, too), and the catalog says which write id
has altered a partition last.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_hive_acid.metastore.names import TableName
from airflow_hive_acid.replication.events.decoder import decode_event, promised_kind
from airflow_hive_acid.replication.events.event import EventKind

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from airflow_hive_acid.format.write_ids import ValidWriteIdList
    from airflow_hive_acid.replication.acid.snapshot import SourceTable
    from airflow_hive_acid.replication.events.event import EventSource, ReplicationEvent
    from airflow_hive_acid.replication.site import Site

_PAGE = 1000


def renamed_since(
    site: Site, source: SourceTable, state_id: int, known: ValidWriteIdList, here: Collection[str], *,
    events: EventSource | None = None, again: bool = False,
) -> dict[str, str]:  # fmt: skip
    """Partitions that have other rows under a name which the replica knows.

    :param site: the source.
    :param state_id: the latest event whose effects the replica has.
    :param known: the source's write ids that the replica has.
    :param here: names of the replica's partitions.
    :param events: a store that keeps events for longer than the source's log.
    :param again: a copy is made again because nobody knows what was missed: partitions that were altered since are
        taken for renamed when the events that would tell are gone.
    :return: what has become of each, by its name now, for messages.
    """
    mark = known.high_watermark
    may_be = {name for name in here if name in source.places and source.altered.get(name, mark + 1) > mark}
    if not may_be:
        return {}
    found = _renamed(_alterations(site, source, state_id), may_be)
    # R3: asked behind what was read; events may have been purged meanwhile.
    if site.client.notifications.first_event_id() <= state_id + 1:
        return found
    if events is not None and events.first_event_id() <= state_id + 1:
        return found | _renamed(_kept(events, source, state_id), may_be)
    return dict.fromkeys(may_be, "may be another one (the events that tell were purged)") | found if again else found


def _renamed(events: Iterable[ReplicationEvent], may_be: Collection[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for event in events:
        for name in event.partitions:
            if name in may_be and event.partitions_before:
                found[name] = f"was {event.partitions_before[0]} before, and here it is another one"
            elif name in may_be and event.relocated:
                found[name] = "was given another directory"
            elif name in may_be and event.kind is EventKind.UNREADABLE:
                found[name] = f"may be another one ({event.problem})"
    return found


def _alterations(site: Site, source: SourceTable, state_id: int) -> Iterator[ReplicationEvent]:
    """What is told of single partitions of the table, in order."""
    table, after = TableName(source.table.db, source.table.name), state_id
    while page := site.client.notifications.partitions_altered(table, after, _PAGE):
        yield from map(decode_event, page)
        after = page[-1].event_id


def _kept(events: EventSource, source: SourceTable, state_id: int) -> Iterator[ReplicationEvent]:
    """The same out of a store, which is read as a whole."""
    after = state_id
    while page := events.events_after(after, _PAGE):
        for logged in page:
            is_there = (logged.database, logged.table) == (source.table.db, source.table.name)
            if is_there and promised_kind(logged.type) is EventKind.ALTER_PARTITION:
                yield decode_event(logged)
        after = page[-1].event_id
