"""A site: one side of a replication, that is a metastore, its warehouse, and a Spark connection where one is needed.

Primary and replica are each a site; they may share nothing. A site decides nothing: who replicates asks it for the
catalog, for files, and for Spark jobs that read and write its warehouse.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from airflow_hive_acid.errors import ConfigurationError
from airflow_hive_acid.filesystem import AnyFilesystem
from airflow_hive_acid.format.jobs import JobResult, JobSpec

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from airflow_hive_acid.filesystem import StreamingFilesystem
    from airflow_hive_acid.metastore import MetastoreClient
    from airflow_hive_acid.settings import Settings

RunJob: TypeAlias = Callable[[JobSpec], JobResult]
"""Runs one step in a Spark application and returns its result; raises what the job reported."""


@dataclass(frozen=True, slots=True)
class Site:
    """One side of a replication.

    :param client: of its metastore.
    :param filesystem: of its warehouse; a dump may lie on any filesystem that it reaches.
    :param run_job: for what needs Spark (large copies, rows of some write ids); None: there is no Spark here.
    :param name: as messages call it: a connection id, or ``primary`` and ``replica``.
    :param agent: how its txns are called in front, so that the next cycle of a policy finds them; empty: not at all.
    :param guard: asked inside each transaction that changes the catalog for a cycle of a policy: raises when that cycle
        may change nothing any more.
    """

    client: MetastoreClient
    filesystem: StreamingFilesystem = field(default_factory=AnyFilesystem)
    run_job: RunJob | None = None
    name: str = "here"
    agent: str = ""
    guard: Callable[[Connection], object] | None = None

    def require_allowed(self, connection: Connection) -> None:
        """Refuse a change of whom a later cycle or a fail-over has taken the policy from (R3); locks to the commit.

        :raises ReplicationBusyError: saying so.
        """
        if self.guard is not None:
            self.guard(connection)

    def agent_info(self, what: str) -> str:
        """What a txn says that is opened for something."""
        return f"{self.agent}: {what}" if self.agent else what

    @property
    def settings(self) -> Settings:
        """The settings of its metastore."""
        return self.client.settings

    def run(self, spec: JobSpec) -> JobResult:
        """Run a step in Spark.

        :raises ConfigurationError: when there is no Spark at this site.
        """
        if self.run_job is None:
            raise ConfigurationError(
                f"{self.name} has no Spark application for a {spec.step.kind} step of replication; give the "
                "connection a Spark master, or raise hive.exec.copyfile.maxsize to copy in this process"
            )
        return self.run_job(spec)
