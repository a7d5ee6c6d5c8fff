"""What DDL does to files while it holds its locks: fences dead jobs, moves directories, hides dropped partitions.

R4: a table or partition is dropped or renamed only when no job of a dead txn can write into it any more; what such a
job published later would become rows of the next table of that place. A dropped partition gets a base without rows
under the drop's write id, as Hive's ``hive.acid.droppartition.usebase`` does, and through a staging directory like
every other file of a write id, so that this process can be fenced, too.
"""

from __future__ import annotations

import json
import logging
import uuid
from typing import TYPE_CHECKING

from airflow_hive_acid.errors import AlreadyExistsError, JobsAliveError
from airflow_hive_acid.format import paths
from airflow_hive_acid.format.names import METADATA_FILE, base_name, staging_name
from airflow_hive_acid.maintenance.conversion import name_originals
from airflow_hive_acid.maintenance.fences import fence_jobs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow_hive_acid.filesystem import Filesystem
    from airflow_hive_acid.metastore import MetastoreClient
    from airflow_hive_acid.metastore.catalog_model import Partition, Table
    from airflow_hive_acid.metastore.jobs import Job

log = logging.getLogger(__name__)

DROPPED = json.dumps({"thisFileVersion": "0", "dataFormat": "dropped"}, separators=(",", ":"))
"""``_metadata_acid`` of a base that stands for a dropped partition."""


class WarehouseFiles:
    """The files that DDL verbs of the catalog work on."""

    def __init__(self, client: MetastoreClient, filesystem: Filesystem) -> None:
        self._client = client
        self._filesystem = filesystem

    def fence(self, jobs: Sequence[Job]) -> None:
        """Fence jobs that are left over on a table that nobody else can be working on.

        :raises JobsAliveError: when one of them cannot be fenced.
        """
        report = fence_jobs(self._client, self._filesystem, jobs, "its table is dropped or renamed")
        if report.alive:
            job, problem = report.alive[0]
            raise JobsAliveError(
                f"job {job.job_id} of txn {job.txn_id} may still write into {job.table}: {problem}. Nothing was "
                "changed; stop it and try again"
            )

    def move(self, source: str, target: str) -> None:
        """Rename a directory that may not have been made yet; the target must not exist."""
        if self._filesystem.exists(source):
            self._filesystem.make_directory(target.rpartition("/")[0])
            try:
                self._filesystem.rename_directory(source, target)
            except FileExistsError:
                raise AlreadyExistsError(
                    f"{source} cannot become {target}, where there are files already; move them away, or choose "
                    "another name"
                ) from None

    def name_originals(self, table: Table, places: Sequence[str]) -> None:
        """Give the files of a plain table names by which they can be files of an ACID table."""
        for renaming in name_originals(self._filesystem, table, places):
            log.info("%s: %s is now called %s", table.qualified_name, renaming.old, renaming.new)

    def hide(self, txn_id: int, write_id: int, table: Table, partitions: Sequence[Partition]) -> None:
        """Put a base without rows into partitions that are being dropped."""
        job_id = uuid.uuid4().hex
        staging = paths.join(table.location, staging_name(job_id))
        self._client.jobs.start(
            job_id=job_id, txn_id=txn_id, table=table.qualified_name, write_id=write_id, statement=0, kind="drop",
            table_location=table.location, staging=staging,
        )  # fmt: skip
        places = [p.location for p in partitions if self._filesystem.exists(p.location)]
        staged = [paths.join(staging, "data", str(index), base_name(write_id)) for index in range(len(places))]
        for directory in staged:
            self._filesystem.make_directory(directory)
            self._filesystem.write_text(paths.join(directory, METADATA_FILE), DROPPED)
        manifest = {"directories": [paths.join(place, base_name(write_id)) for place in places]}
        self._client.jobs.record_manifest(job_id, manifest)
        for directory, target in zip(staged, manifest["directories"], strict=True):
            self._filesystem.rename_directory(directory, target)
        self._filesystem.delete(staging, inside=table.location)
