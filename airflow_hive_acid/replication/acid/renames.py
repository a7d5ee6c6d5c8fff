"""Partitions of the source that bear the name of another one since the last sync.

A rename takes the files along, and no write id of theirs is new; so neither listings nor write ids tell of it. The
notification log does (a real Hive's, too), and the catalog says which write id has altered a partition last.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_hive_acid.metastore.names import TableName
from airflow_hive_acid.replication.events.decoder import decode_event
from airflow_hive_acid.replication.events.event import EventKind

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from airflow_hive_acid.format.write_ids import ValidWriteIdList
    from airflow_hive_acid.replication.acid.snapshot import SourceTable
    from airflow_hive_acid.replication.events.event import ReplicationEvent
    from airflow_hive_acid.replication.site import Site

_PAGE = 1000


def renamed_since(
    site: Site, source: SourceTable, state_id: int, known: ValidWriteIdList, here: Collection[str]
) -> dict[str, str]:
    """Partitions that have got a name which the replica knows as another one's.

    :param site: the source.
    :param state_id: the latest event whose effects the replica has.
    :param known: the source's write ids that the replica has.
    :param here: names of the replica's partitions.
    :return: the name that it had before, by the name now.
    """
    mark = known.high_watermark
    may_be = {name for name in here if name in source.places and source.altered.get(name, mark + 1) > mark}
    found: dict[str, str] = {}
    for event in _alterations(site, source, state_id) if may_be else ():
        for name in may_be.intersection(event.partitions):
            if event.partitions_before:
                found[name] = event.partitions_before[0]
            elif event.kind is EventKind.UNREADABLE:
                found[name] = f"any ({event.problem})"
    return found


def _alterations(site: Site, source: SourceTable, state_id: int) -> Iterator[ReplicationEvent]:
    """What is told of single partitions of the table, in order."""
    table, after = TableName(source.table.db, source.table.name), state_id
    while page := site.client.notifications.partitions_altered(table, after, _PAGE):
        yield from map(decode_event, page)
        after = page[-1].event_id
