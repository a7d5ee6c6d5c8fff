"""What ``airflow hive-acid`` runs: the commands of ``hive-acid`` on a session that a connection describes."""

from __future__ import annotations

import functools
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from airflow.sdk.log import configure_logging

from airflow_hive_acid.airflow_versions import AirflowNotFoundException, conf
from airflow_hive_acid.cli.main import run as run_command
from airflow_hive_acid.cli.session import CliSession
from airflow_hive_acid.errors import ConfigurationError, InvalidArgumentsError
from airflow_hive_acid.hooks.configuration import SECTION
from airflow_hive_acid.hooks.hive_acid import HiveAcidHook
from airflow_hive_acid.hooks.replication import OPTION, configured_policies
from airflow_hive_acid.maintenance.worker.jobs import Application
from airflow_hive_acid.settings import Source

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping

    from airflow_hive_acid.engine.applications.launcher import JobLauncher, JobSession
    from airflow_hive_acid.metastore import MetastoreClient
    from airflow_hive_acid.replication.policies.policy import Policy
    from airflow_hive_acid.settings import Settings

_ANY = Application()


def run(arguments: argparse.Namespace) -> None:
    """Run one command; ends the process with its exit code."""
    # As Airflow's own commands about connections do: it may read them from its database.
    os.environ["_AIRFLOW_PROCESS_CONTEXT"] = "server"
    # Airflow logs to standard output, which is for rows here.
    configure_logging(log_level="WARNING", output=sys.stderr)
    make = functools.partial(ConnectionSession, connection=arguments.conn_id)
    run_command(arguments.arguments, make, program="airflow hive-acid")


@dataclass(slots=True)
class ConnectionSession(CliSession):
    """A session whose metastore, warehouse, Spark and settings are those of an Airflow connection.

    :param connection: its id.
    """

    connection: str = ""
    _hook: HiveAcidHook | None = None

    def __post_init__(self) -> None:
        site = conf.get(SECTION, "hive_site", fallback=None)
        self.hive_site = Path(site) if site else None

    @property
    def hook(self) -> HiveAcidHook:
        """What reads the connection, once."""
        if self._hook is None:
            hook = HiveAcidHook(self.connection, spark_conf=self.spark_conf)
            try:
                hook.connection  # noqa: B018 - read now, so that what is wrong with it is told in our words
            except AirflowNotFoundException:
                raise ConfigurationError(
                    f"Airflow knows no connection {self.connection!r}; name another with --conn-id, or make it: "
                    f"airflow connections add {self.connection} --conn-type hive_acid …"
                ) from None
            self._hook = hook
        return self._hook

    @property
    def url(self) -> str:
        """The metastore's URL."""
        return self.hook.connection.metastore_url.render_as_string(hide_password=False)

    def settings(self) -> Settings:
        """``--set``, then what the connection, Airflow's configuration and hive-site.xml say."""
        self.check_settings()
        return self.hook.settings.with_overrides(Source.REQUEST, self.hive_settings)

    def launcher(self) -> JobLauncher:
        """Spark as the connection's Spark connection says, which is looked up when something is to run there."""
        return _Later(self.hook)

    def other(self, name: str, urls: Mapping[str, str]) -> CliSession:
        """A session on another connection of Airflow's."""
        if urls:
            raise InvalidArgumentsError("--site is for hive-acid alone: here the connections of the policies say that")
        return ConnectionSession(spark_conf=self.spark_conf, hive_settings=self.hive_settings, connection=name)

    @property
    def has_policies(self) -> bool:
        """Whether Airflow's configuration names policies."""
        return bool(conf.get(SECTION, OPTION, fallback=None))

    def policies(self, path: Path | None) -> tuple[Policy, ...]:
        """Replication policies of a file, or those of Airflow's configuration."""
        if path is not None:
            return CliSession.policies(self, path)
        return configured_policies()

    def warehouse_of(self, client: MetastoreClient) -> str | None:
        """The connection's warehouse, made known to a metastore that has none."""
        wanted = self.hook.connection.warehouse
        if client.catalog.warehouse() is None and wanted is not None:
            client.catalog.set_warehouse(wanted)
        return wanted


@dataclass(frozen=True, slots=True)
class _Later:
    """A launcher that is made when it is used: most commands run nothing in Spark."""

    hook: HiveAcidHook

    def start(self, application: Application = _ANY) -> JobSession:
        return self.hook.get_launcher().start(application)
