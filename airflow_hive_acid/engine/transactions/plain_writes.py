"""What a transaction has written into tables without transactions: published at once, undone if it is given up.

The txn holds each such table's exclusive lock until it ends, so nobody sees what lies there meanwhile. Keeps R5 (the
manifest is recorded before the first move) and R17 (after a commit whose answer was lost, nothing is touched).
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from airflow_hive_acid.errors import HiveAcidError, JobsAliveError
from airflow_hive_acid.filesystem.plain_publishing import (
    PlainManifest,
    check_files,
    plan_moves,
    publish_files,
    undo,
    undo_fenced,
)
from airflow_hive_acid.filesystem.publishing import read_staging
from airflow_hive_acid.filesystem.syncing import sync
from airflow_hive_acid.metastore.catalog import find_partitions
from airflow_hive_acid.metastore.names import table_name
from airflow_hive_acid.metastore.txns import forget

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sqlalchemy import Connection

    from airflow_hive_acid.engine.context import Context
    from airflow_hive_acid.filesystem.publishing import Manifest, Target
    from airflow_hive_acid.format.jobs import JobResult
    from airflow_hive_acid.metastore.catalog import Table

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
    """The plain tables that one transaction has written.

    :ivar made: how many partitions the catalog may not know yet.
    """

    context: Context
    _published: list[_Published] = field(default_factory=list)
    made: int = 0

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
        self.made += len(touched.keys() - target.partitions.keys()) if table.is_partitioned else 0
        publish_files(filesystem, staging, manifest)
        # What was moved out is gone by the directories that are synced.
        moved = [file.uri for file in manifest.files]
        sync(self.context.client.settings, [*moved, *manifest.replaced], table.location)
        return manifest, staged

    def check_and_register(self, connection: Connection) -> None:
        """Inside the commit: the files are there, the catalog gets the new partitions and forgets its statistics."""
        check_files(self.context.filesystem, [p.manifest for p in self._published])
        by_table: dict[str, tuple[Table, set[str]]] = {}
        for published in self._published:
            name = published.table.qualified_name
            by_table.setdefault(name, (published.table, set()))[1].update(published.partitions)
        for name, (table, touched) in sorted(by_table.items()):
            forget(connection, [(table.id, None, None)])
            if table.is_partitioned and touched:
                # A write id of 0 leaves the statistics of a new partition unknown, as they are.
                catalog = self.context.client.catalog
                catalog.add_partitions_in(connection, table_name(name), sorted(touched), write_id=0)
                known = find_partitions(connection, table, sorted(touched))
                forget(connection, [(table.id, p.id, None) for p in known.values()])

    def created(self, table: Table) -> None:
        """A table that is made in the same commit has its id now."""
        for published in self._published:
            if published.table.qualified_name == table.qualified_name:
                published.table = table

    def undo(self, txn_id: int, reason: str) -> None:
        """Give everything back as it was, the last job first, when the txn cannot commit any more.

        Somebody else may be at it as well, who has given the txn up before; files are moved back once.

        :raises JobsAliveError: when not all could be moved back; the txn keeps its locks, and the reaper goes on.
        """
        if not self._published:
            return
        client, filesystem = self.context.client, self.context.filesystem
        given_up = client.give_up_txns([txn_id], reason).given_up
        if not given_up:  # R17
            raise JobsAliveError(f"txn {txn_id} is committed, and what it has written stays")
        note = f"its txn {txn_id} was given up: {reason}"
        try:
            while self._published:
                last = self._published[-1]
                # Where a file does not fence nobody else undoes anything, and the job itself has answered.
                if not undo_fenced(filesystem, last.staging, last.manifest, last.table.location, note):
                    undo(filesystem, last.staging, last.manifest, last.table.location)
                client.jobs.mark_fenced(last.manifest.job_id, note)
                filesystem.delete(last.staging, inside=last.table.location)
                self._published.pop()
        except (HiveAcidError, OSError) as problem:
            raise JobsAliveError(
                f"what txn {txn_id} has moved into {last.table.qualified_name} could not be moved back yet: {problem}. "
                "It cannot commit any more and keeps its locks until the reaper has moved it back"
            ) from problem

    def finish(self) -> None:
        """After the commit: what was replaced goes. A failure leaves hidden files behind, and that is all."""
        for published in self._published:
            try:
                self.context.filesystem.delete(published.staging, inside=published.table.location)
            except (HiveAcidError, OSError) as problem:
                log.warning("%s is not needed any more and could not be removed: %s", published.staging, problem)
