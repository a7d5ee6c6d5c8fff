"""What a transaction has written into tables without transactions: published at once, undone if it is given up.

The txn holds each such table's exclusive lock until it ends, so nobody sees what lies there meanwhile. Keeps R5 (the
manifest is recorded before the first move) and R17 (after a commit whose answer was lost, nothing is touched).
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from airflow_hive_acid.errors import HiveAcidError
from airflow_hive_acid.filesystem.plain_publishing import PlainManifest, check_files, plan_moves, publish_files, undo
from airflow_hive_acid.filesystem.publishing import read_staging
from airflow_hive_acid.metastore.catalog_partitions import find_partitions
from airflow_hive_acid.metastore.catalog_statistics import forget
from airflow_hive_acid.metastore.objects import table_name

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sqlalchemy import Connection

    from airflow_hive_acid.engine.context import Context
    from airflow_hive_acid.filesystem.publishing import Manifest, Target
    from airflow_hive_acid.format.jobs import JobResult
    from airflow_hive_acid.metastore.catalog_model import Table

log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Published:
    """One job's files, from the moment its manifest is recorded."""

    table: Table
    staging: str
    manifest: PlainManifest
    partitions: Mapping[str, tuple[str, ...]]


@dataclass(slots=True)
class PlainWrites:
    """The plain tables that one transaction has written."""

    context: Context
    _published: list[_Published] = field(default_factory=list)

    def publish(
        self, table: Table, staging: str, result: JobResult, target: Target, *, overwrite: bool
    ) -> tuple[PlainManifest, Manifest]:
        """Put a job's files into place.

        :return: what was moved, and what was found in staging.
        :raises PublishError: when that is not what the job reported, or could not be moved; :meth:`undo` then.
        """
        filesystem = self.context.filesystem
        staged = read_staging(filesystem, staging, result, target)
        manifest = plan_moves(filesystem, staged, overwrite=overwrite)
        self.context.client.jobs.record_manifest(result.job_id, manifest.to_document())
        touched = {d.partition: d.values for d in staged.directories}
        self._published.append(_Published(table, staging, manifest, touched))
        publish_files(filesystem, staging, manifest)
        return manifest, staged

    def check_and_register(self, connection: Connection) -> None:
        """Inside the commit: the files are there, the catalog gets the new partitions and forgets its statistics."""
        check_files(self.context.filesystem, [p.manifest for p in self._published])
        by_table: dict[str, tuple[Table, set[str]]] = {}
        for published in self._published:
            name = published.table.qualified_name
            by_table.setdefault(name, (published.table, set()))[1].update(published.partitions)
        for name, (table, touched) in by_table.items():
            forget(connection, [(table.id, None, None)])
            if table.is_partitioned and touched:
                # A write id of 0 leaves the statistics of a new partition unknown, as they are.
                catalog = self.context.client.catalog
                catalog.add_partitions_in(connection, table_name(name), sorted(touched), write_id=0)
                known = find_partitions(connection, table, sorted(touched))
                forget(connection, [(table.id, p.id, None) for p in known.values()])

    def undo(self) -> None:
        """Give everything back as it was, the last job first."""
        filesystem = self.context.filesystem
        while self._published:
            last = self._published[-1]
            undo(filesystem, last.staging, last.manifest, last.table.location)
            filesystem.delete(last.staging, inside=last.table.location)
            self._published.pop()

    def finish(self) -> None:
        """After the commit: what was replaced goes. A failure leaves hidden files behind, and that is all."""
        for published in self._published:
            try:
                self.context.filesystem.delete(published.staging, inside=published.table.location)
            except (HiveAcidError, OSError) as problem:
                log.warning("%s is not needed any more and could not be removed: %s", published.staging, problem)
