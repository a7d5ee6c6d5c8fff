"""What a job may upload under final names (decision 74): files of full ACID tables on S3.

Whether it does is known to the job: it needs the optional jar and S3A's uploader, and a file that one task writes as a
whole.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from airflow_hive_acid.filesystem.s3_uploads import SETTING
from airflow_hive_acid.format import paths
from airflow_hive_acid.format.jobs import Uploads
from airflow_hive_acid.format.paths import OBJECT_STORE_SCHEMES, S3_SCHEMES, parse_location
from airflow_hive_acid.metastore.catalog import check_location

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from airflow_hive_acid.format.jobs import PartitionRef
    from airflow_hive_acid.metastore.catalog import Table

MOST_ELSEWHERE = 1000
"""So many places of partitions go into a job's spec; of a table with more that lie elsewhere, all files are copied."""
KINDS = ("insert", "update", "delete", "merge", "minor", "major", "rebalance")
"""Statements and compactions whose files the optional jar writes."""


class Naming(NamedTuple):
    """How the files of a job get their final names on an object store.

    :param uploads: whether they may be uploaded under them; otherwise they are copied out of staging.
    :param reason: why.
    """

    uploads: bool
    reason: str


def naming(table: Table, kind: str, way: str) -> Naming | None:
    """How the files of a job get their names; None where a rename costs nothing.

    :param kind: of the statement, or type of the compaction, in small letters.
    :param way: value of the setting: ``parts`` or ``copy``.
    """
    scheme = parse_location(table.location).scheme
    if scheme not in OBJECT_STORE_SCHEMES:
        return None
    if scheme not in S3_SCHEMES:
        return Naming(False, f"only files on S3 are uploaded under their names, and this is {scheme}")
    if way == "copy":
        return Naming(False, f"{SETTING} is copy")
    if not table.is_transactional or table.is_insert_only:
        return Naming(False, f"the table is {'insert-only' if table.is_transactional else 'without transactions'}")
    if kind not in KINDS:
        return Naming(False, f"Spark's own writer writes the files of a {kind}")
    unless = "without the optional jar, and in partitions of another bucket, they are copied"
    return Naming(True, f"{SETTING} is {way}; {unless}")


def uploads_of_job(
    table: Table, kind: str, way: str, find_elsewhere: Callable[[int], Mapping[str, str]]
) -> Uploads | None:
    """What a job may upload; None: its files go to staging.

    :param kind: of the statement, or type of the compaction, in small letters.
    :param way: value of the setting: ``parts`` or ``copy``.
    :param find_elsewhere: the partitions that do not lie where their names say, at most so many: their places by name.
    """
    found = naming(table, kind, way)
    if found is None or not found.uploads:
        return None
    elsewhere = find_elsewhere(MOST_ELSEWHERE + 1)
    if len(elsewhere) > MOST_ELSEWHERE:
        return None
    return Uploads(table.location, {name: _uploaded_to(place, table.location) for name, place in elsewhere.items()})


def places_elsewhere(table: Table, partitions: Iterable[PartitionRef]) -> dict[str, str]:
    """Places of those that do not lie where their names say, by name."""
    home = table.location.rstrip("/")
    return {p.name: p.location for p in partitions if p.name and p.location.rstrip("/") != paths.join(home, p.name)}


def _uploaded_to(place: str, table_location: str) -> str:
    """Where files of a partition are uploaded to; empty in another bucket, whose version file cannot be a copy.

    A place that the catalog spells as Hadoop does not is one object's name here and another one's there.
    """
    place = place.rstrip("/")
    return place if paths.is_same_store(place, table_location) and place == check_location(place) else ""
