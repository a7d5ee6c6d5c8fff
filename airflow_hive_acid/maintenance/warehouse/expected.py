"""What a job is told to expect of the tables that it reads (``hive.acid.read.verify``).

Files that are gone leave no trace in a listing. The manifests of jobs and the catalog know better, and the job compares
what it lists with them, by the rules of ``format.row_counts``, which are the doctor's. Manifests are exact, so they
are compared by default. Where the catalog's numbers do not hold, the job is told nothing: a number that may be that of
another moment must not fail a read.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from airflow_hive_acid.filesystem.publishing import Manifest
from airflow_hive_acid.format.jobs import Expected
from airflow_hive_acid.format.names import parse_directory
from airflow_hive_acid.format.row_counts import is_of
from airflow_hive_acid.format.write_ids import ValidWriteIdList
from airflow_hive_acid.metastore.replica import STATE_ID
from airflow_hive_acid.metastore.txns import counted_rows

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from airflow_hive_acid.format.jobs import TableSnapshot
    from airflow_hive_acid.format.row_counts import CountedRows
    from airflow_hive_acid.metastore import MetastoreClient
    from airflow_hive_acid.metastore.catalog import Table
    from airflow_hive_acid.settings import Settings

SETTING = "hive.acid.read.verify"


def with_expected(
    client: MetastoreClient,
    settings: Settings,
    table: Table,
    snapshot: TableSnapshot,
    own: int | None = None,
    *,
    written: bool = False,
) -> TableSnapshot:
    """A snapshot with what its job compares it with, as far as the setting wants.

    :param settings: of the reader.
    :param own: write id of the txn that reads, if it has one.
    :param written: it has written to the table: the catalog has not counted that.
    """
    wanted = settings.string(SETTING)
    if not table.is_transactional or wanted == "off":
        return snapshot
    seen, rows = ValidWriteIdList.parse(snapshot.write_ids), wanted == "rows"
    # In this order: a commit between the looks shows in the list. What is published and seen was there before.
    counted = counted_of(client, table, [p.name for p in snapshot.partitions]) if rows and not written else {}
    if counted and not is_of(seen, client.get_valid_write_ids(table.qualified_name)[table.qualified_name], own):
        counted = {}
    published = published_of(client, table.qualified_name)
    expected = {}
    for partition in snapshot.partitions if rows or published else ():
        names = published.get(partition.location.rstrip("/"), ())
        directories = tuple((name, tuple(files)) for name, files in names if _sees(seen, name))
        if rows or directories:
            number = counted.get(partition.name)
            expected[partition.name] = Expected(
                None if number is None else number.rows,
                number is not None and number.claimed,
                directories,
                footers=rows,
            )
    return replace(snapshot, expected=expected) if expected else snapshot


def _sees(seen: ValidWriteIdList, directory: str) -> bool:
    named = parse_directory(directory)
    return named is not None and seen.is_valid(named.max_write_id)


def counted_of(client: MetastoreClient, table: Table, partitions: Sequence[str]) -> dict[str, CountedRows]:
    """The catalog's numbers of rows, by partition name; a replica has its source's, whenever they come.

    :param partitions: names; a table without partitions has the empty one.
    """
    if STATE_ID in table.properties:
        return {}
    return client.database.read(lambda connection: counted_rows(connection, table.id, partitions))


def _names_files(manifest: Mapping[str, Any]) -> bool:
    """Those of plain tables and of DDL name files and moves, those of dropped partitions directories alone."""
    return not any(isinstance(directory, str) for directory in manifest.get("directories", [""]))


def published_of(client: MetastoreClient, table: str) -> dict[str, list[tuple[str, list[str]]]]:
    """Directories of committed jobs and the files in each, by place; housekeeping forgets the jobs in time."""
    jobs = [
        (job.txn_id, Manifest.from_document(job.manifest))
        for job in client.jobs.committed_of(table)
        if job.manifest is not None and _names_files(job.manifest)
    ]
    # After the jobs: what has been dropped since is not looked for.
    there = client.jobs.written_parts(table, sorted({txn_id for txn_id, _ in jobs})) if jobs else ()
    found: dict[str, list[tuple[str, list[str]]]] = {}
    for txn_id, manifest in jobs:
        for place, _, name in (uri.rpartition("/") for uri in manifest.replaces):
            found[place] = [each for each in found.get(place, ()) if each[0] != name]
        for directory in manifest.directories:
            if (txn_id, directory.partition) in there:
                files = [file for file, _ in directory.files]
                found.setdefault(directory.place.rstrip("/"), []).append((directory.name, files))
    return found
