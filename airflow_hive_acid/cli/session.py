"""Where the command line works: which metastore, which warehouse, which Spark; from options, environment, defaults."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from airflow_hive_acid.cli.output import say
from airflow_hive_acid.errors import InvalidArgumentsError
from airflow_hive_acid.format.paths import parse_location

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import sqlalchemy as sa

    from airflow_hive_acid.engine import Engine, SparkSubmitLauncher
    from airflow_hive_acid.engine.applications.launcher import JobLauncher
    from airflow_hive_acid.engine.outcomes.events import Event
    from airflow_hive_acid.filesystem import Filesystem
    from airflow_hive_acid.metastore import MetastoreClient
    from airflow_hive_acid.replication.policies.policy import Policy
    from airflow_hive_acid.settings import Settings

AGENT = "hive-acid CLI"


def home() -> Path:
    """Where the embedded metastore and its warehouse live by default: ``$HIVE_ACID_HOME``, else ``~/.hive-acid``."""
    return Path(os.environ.get("HIVE_ACID_HOME") or "~/.hive-acid").expanduser().absolute()


@dataclass(slots=True)
class CliSession:
    """The global options of one call.

    :param metastore_url: None for the embedded metastore in the home directory.
    :param hive_site: a ``hive-site.xml`` whose settings are followed.
    :param hive_settings: settings that win over it.
    :param warehouse: as the user gave it; None for the one the metastore knows, or the home directory's.
    """

    metastore_url: str | None = None
    warehouse: str | None = None
    spark_master: str = "local[*]"
    spark_conf: dict[str, str] = field(default_factory=dict)
    hive_site: Path | None = None
    hive_settings: dict[str, str] = field(default_factory=dict)
    _client: MetastoreClient | None = None

    @property
    def url(self) -> str | sa.URL:
        """The metastore's URL."""
        import sqlalchemy as sa

        # Made of its parts, because a directory's name may hold what means something in a URL.
        return self.metastore_url or sa.URL.create("sqlite", database=str(home() / "metastore.db"))

    def settings(self) -> Settings:
        """Hive's settings: ``--set``, then ``hive-site.xml``, then our defaults."""
        from airflow_hive_acid.settings import Settings, Source, read_hive_site

        self.check_settings()
        sources = {Source.REQUEST: self.hive_settings}
        if self.hive_site is not None:
            sources[Source.HIVE_SITE] = read_hive_site(self.hive_site, "--hive-site")
        return Settings(sources)

    def check_settings(self) -> None:
        """Refuse settings that do not exist.

        :raises InvalidArgumentsError: naming the first.
        """
        from airflow_hive_acid.settings import check_keys

        check_keys(self.hive_settings, "--set")

    def bare_client(self) -> MetastoreClient:
        """A client of the metastore, whatever is in there."""
        if self._client is None:
            from airflow_hive_acid.metastore import MetastoreClient

            self._client = MetastoreClient(self.url, self.settings())
        return self._client

    def client(self) -> MetastoreClient:
        """A client of the metastore, checked; an embedded one that does not exist yet is created."""
        client = self.bare_client()
        if self.is_new_embedded():
            self.create_schema()
        else:
            client.check_schema()
        return client

    def existing_client(self) -> MetastoreClient:
        """A client for what only looks: a metastore of a misspelt address is not created for that.

        :raises SchemaVersionError: when there is none.
        """
        client = self.bare_client()
        client.check_schema()
        return client

    def create_schema(self) -> None:
        """Create the metastore's tables and say where its warehouse is."""
        client = self.bare_client()
        client.create_schema()
        known = self.warehouse_of(client)
        where = f"warehouse {known}" if known else "it does not know its warehouse yet: give --warehouse"
        say(f"the metastore {client.database.where} is ready; {where}")

    def filesystem(self) -> Filesystem:
        """The files of the warehouse, wherever they are."""
        from airflow_hive_acid.filesystem import AnyFilesystem

        return AnyFilesystem()

    def engine(self, on_event: Callable[[Event], None] | None = None) -> Engine:
        """An engine on this metastore, with Spark as the options say."""
        from airflow_hive_acid.engine import Engine

        client = self.client()
        return Engine(client, self.launcher(), self.warehouse_of(client), on_event=on_event, agent_info=AGENT)

    def launcher(self) -> JobLauncher:
        """What starts Spark applications, or asks a Spark service instead."""
        from airflow_hive_acid.engine.applications.service import WithService

        service = self.settings().string("hive.acid.spark.service")
        own = self.spark_launcher()
        return WithService(own, service, None, say=say) if service else own

    def spark_launcher(self) -> SparkSubmitLauncher:
        """What starts Spark applications."""
        from airflow_hive_acid.engine import SparkSubmitLauncher
        from airflow_hive_acid.engine.applications.job_environment import names_of
        from airflow_hive_acid.engine.applications.spark_conf import shares_of_buckets

        settings = self.settings()
        return SparkSubmitLauncher(
            self.spark_master,
            conf={**shares_of_buckets(settings), **self.spark_conf},
            accelerator=settings.string("hive.acid.spark.accelerator"),
            passed_on=names_of(settings.string("hive.acid.job.environment")),
        )

    def warehouse_of(self, client: MetastoreClient) -> str | None:
        """The warehouse in force, set now if nobody has said where it is and we may.

        Only an embedded metastore gets the home directory's without being told: others are shared.
        """
        wanted = self.warehouse
        if wanted is None and client.database.path is not None:
            wanted = str(home() / "warehouse")
        known = client.catalog.warehouse()
        if known is None and wanted is not None:
            known = client.catalog.set_warehouse(as_uri(wanted))
        if known and self.warehouse and parse_location(known) != parse_location(as_uri(self.warehouse)):
            say(f"the warehouse of {client.database.where} is {known}; --warehouse {self.warehouse} is not used")
        return known

    def other(self, name: str, urls: Mapping[str, str]) -> CliSession:
        """A session on another metastore, with this one's Spark and settings.

        :param urls: metastores by name, as the user gave them; else ``HIVE_ACID_SITE_<NAME>`` of the environment.
        """
        variable = f"HIVE_ACID_SITE_{name.upper().replace('-', '_')}"
        url = urls.get(name) or os.environ.get(variable)
        if not url:
            raise InvalidArgumentsError(
                f"where is {name!r}? Give --site {name}=<URL of its metastore>, or, when that has a password, put it "
                f"into {variable}"
            )
        return CliSession(url, None, self.spark_master, self.spark_conf, self.hive_site, self.hive_settings)

    @property
    def has_policies(self) -> bool:
        """Whether policies are known without being named."""
        return False

    def policies(self, path: Path | None) -> tuple[Policy, ...]:
        """Replication policies of a file."""
        from airflow_hive_acid.replication.policies.policy import read_policy_file

        if path is None:
            raise InvalidArgumentsError("name the file of the replication policies: --policies policies.toml")
        return read_policy_file(path)

    def note_missing(self, database: str | None, table: str | None = None, partition: str | None = None) -> None:
        """Say so when there is no such database, table or partition: rows about it may be left, and none is no good
        news."""
        from airflow_hive_acid.engine.queries.shows import missing

        said = missing(self.existing_client(), database, table, partition)
        if said:
            say(f"note: {said}")

    def close(self) -> None:
        """Close the metastore's connections."""
        if self._client is not None:
            self._client.close()

    def is_new_embedded(self) -> bool:
        path = self.bare_client().database.path
        return path is not None and (not path.exists() or path.stat().st_size == 0)


def as_uri(location: str) -> str:
    """A directory or URI as the catalog writes it: ``file:/a/b``."""
    head, colon, _ = location.partition(":")
    if colon and "/" not in head:
        return location.rstrip("/")
    if "\0" in location:
        raise InvalidArgumentsError("the warehouse path contains a NUL character")
    return f"file:{Path(location).expanduser().absolute()}"


def parse_pairs(option: str, pairs: list[str]) -> dict[str, str]:
    """``key=value`` options as a mapping.

    :raises typer.BadParameter: when one is no pair; the program then ends with 2.
    """
    conf = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise typer.BadParameter(f"{pair!r} is no setting; write {option} key=value")
        conf[key] = value
    return conf
