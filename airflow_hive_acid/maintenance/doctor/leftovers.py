"""What imports, drops and exports that were killed have left, and nobody has tried again.

Nobody reads it: the next try goes on with it, or removes it. The doctor finds what waits for a try that never comes.
What belongs to work that goes on is gone, or is an open txn's, by the second look.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_hive_acid.filesystem import list_many
from airflow_hive_acid.format.names import DROP_MARK, DROPPED_PREFIX, DUMP_BEGUN, EXPORT_PREFIX, parse_import
from airflow_hive_acid.maintenance.doctor.rules import judge_dropped, judge_export, judge_import

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from airflow_hive_acid.filesystem import FileInfo, Filesystem
    from airflow_hive_acid.maintenance.doctor.rules import Finding
    from airflow_hive_acid.metastore import MetastoreClient

_PLACES = 100
"""Directories of tables whose listings are held together."""


def examine_leftovers(client: MetastoreClient, filesystem: Filesystem) -> Iterator[Finding]:
    """Directories of imports and of drops for replication, in the directories of databases and what lies in them.

    Partitions, and tables that lie elsewhere, are not looked into: their next import does that.
    """
    homes: set[str] = set()
    for name in client.catalog.list_databases():
        database = client.catalog.get_database(name)
        homes |= {database.location, database.managed_location}
    listed = list_many(filesystem, sorted(homes), recursive=False)
    inside = [info for found in listed.values() for info in _directories(found)]
    for info in inside:
        if info.name.startswith(DROPPED_PREFIX) and _is_there(filesystem, info):
            yield judge_dropped(info.path)
    places = [info.path for info in inside if info.path not in homes]
    for start in range(0, len(places), _PLACES):
        for place, found in list_many(filesystem, places[start : start + _PLACES], recursive=False).items():
            if any(info.name == DROP_MARK for info in found or ()) and _is_nobodys(client, place):
                yield judge_dropped(place)
            yield from _imports(client, filesystem, _directories(found))


def examine_dumps(filesystem: Filesystem, places: Iterable[str]) -> Iterator[Finding]:
    """Exports that were begun and not ended: beside their dumps, or on an object store in the place of them.

    :param places: directories in which dumps lie.
    """
    for found in list_many(filesystem, places, recursive=False).values():
        for info in _directories(found):
            if info.name.startswith(EXPORT_PREFIX) or filesystem.exists(f"{info.path}/{DUMP_BEGUN}"):
                yield judge_export(info.path)


def _imports(client: MetastoreClient, filesystem: Filesystem, found: Iterable[FileInfo]) -> Iterator[Finding]:
    copies = [(info, txn_id) for info in found if (txn_id := parse_import(info.name)) is not None]
    if not copies:
        return
    txns = client.get_valid_txns()
    for info, txn_id in copies:
        # An id beyond the list's end was opened after the listing of the directories, or never.
        is_over = txn_id <= txns.high_watermark and txn_id not in txns.open_ids
        if is_over and _is_there(filesystem, info):
            yield judge_import(info.path, txn_id)


def _is_nobodys(client: MetastoreClient, place: str) -> bool:
    return client.catalog.owner_of_location(place, around=False) is None


def _is_there(filesystem: Filesystem, info: FileInfo) -> bool:
    return filesystem.exists(info.path)


def _directories(found: Iterable[FileInfo] | None) -> list[FileInfo]:
    return [info for info in found or () if info.is_dir]
