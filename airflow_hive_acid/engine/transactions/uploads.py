"""What a job may upload under final names (decision 74): new rows of full ACID tables on S3."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_hive_acid.format.jobs import Uploads
from airflow_hive_acid.format.paths import S3_SCHEMES, parse_location

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_hive_acid.metastore.catalog import Table

MOST_ELSEWHERE = 1000
"""So many names of partitions go into a job's spec; of a table with more that lie elsewhere, all files are copied."""
_NEW_ROWS = ("insert", "merge")


def uploads_of_job(table: Table, kind: str, way: str, find_elsewhere: Callable[[int], list[str]]) -> Uploads | None:
    """What the job of a statement may upload; None: its files go to staging.

    :param kind: of the statement; files of changed rows get their buckets when all tasks have ended.
    :param way: value of the setting: ``parts`` or ``copy``.
    :param find_elsewhere: names of the partitions that do not lie where their names say, at most so many.
    """
    is_on_s3 = parse_location(table.location).scheme in S3_SCHEMES
    if not is_on_s3 or way == "copy" or kind not in _NEW_ROWS or not table.is_transactional or table.is_insert_only:
        return None
    elsewhere = find_elsewhere(MOST_ELSEWHERE + 1)
    return None if len(elsewhere) > MOST_ELSEWHERE else Uploads(table.location, tuple(elsewhere))
