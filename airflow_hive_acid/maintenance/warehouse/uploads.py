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

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from airflow_hive_acid.format.jobs import PartitionRef
    from airflow_hive_acid.metastore.catalog import Table

MOST_ELSEWHERE = 1000
"""So many names of partitions go into a job's spec; of a table with more that lie elsewhere, all files are copied."""
KINDS = ("insert", "update", "delete", "merge", "minor", "major")
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
    unless = "without the optional jar, and in partitions that do not lie where their names say, they are copied"
    return Naming(True, f"{SETTING} is {way}; {unless}")


def uploads_of_job(table: Table, kind: str, way: str, find_elsewhere: Callable[[int], list[str]]) -> Uploads | None:
    """What a job may upload; None: its files go to staging.

    :param kind: of the statement, or type of the compaction, in small letters.
    :param way: value of the setting: ``parts`` or ``copy``.
    :param find_elsewhere: names of the partitions that do not lie where their names say, at most so many.
    """
    found = naming(table, kind, way)
    if found is None or not found.uploads:
        return None
    elsewhere = find_elsewhere(MOST_ELSEWHERE + 1)
    return None if len(elsewhere) > MOST_ELSEWHERE else Uploads(table.location, tuple(elsewhere))


def names_elsewhere(table: Table, partitions: Iterable[PartitionRef]) -> list[str]:
    """Names of those that do not lie where their names say."""
    home = table.location.rstrip("/")
    return [p.name for p in partitions if p.name and p.location.rstrip("/") != paths.join(home, p.name)]
