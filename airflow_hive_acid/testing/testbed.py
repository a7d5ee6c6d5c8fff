"""A metastore in a file, a warehouse in a directory, Spark on this machine: everything a DAG needs, for one test."""

from __future__ import annotations

import json
import os
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow_hive_acid.engine import Engine, SparkSubmitLauncher
from airflow_hive_acid.metastore import MetastoreClient
from airflow_hive_acid.settings import Settings, Source

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType

    from typing_extensions import Self

    from airflow_hive_acid.engine import StatementResult


class HiveAcidTestbed:
    """A metastore and a warehouse below a directory, and the connections by which Airflow finds them.

    Between entering and leaving the context the environment variables ``AIRFLOW_CONN_HIVE_ACID_DEFAULT`` and
    ``AIRFLOW_CONN_SPARK_DEFAULT`` name them, so that ``dag.test()`` runs against them.

    :param directory: an empty directory, for example pytest's ``tmp_path``.
    :param metastore_url: another database than a file in there; its schema is made if it has none.
    :param spark_master: where Spark runs.
    :param settings: Hive's settings, by name.
    """

    def __init__(
        self,
        directory: str | Path,
        *,
        metastore_url: str | None = None,
        spark_master: str = "local[2]",
        settings: Mapping[str, str] | None = None,
    ) -> None:
        self.directory = Path(directory).absolute()
        self.directory.mkdir(parents=True, exist_ok=True)
        self.metastore_url = metastore_url or f"sqlite:///{self.directory / 'metastore.db'}"
        self.warehouse = self.directory / "warehouse"
        self.spark_master = spark_master
        self.settings = Settings({Source.REQUEST: dict(settings or {})})
        self._given = dict(settings or {})
        self._before: dict[str, str | None] = {}

    @cached_property
    def client(self) -> MetastoreClient:
        """The metastore: transactions, locks, compaction queue, catalog."""
        client = MetastoreClient(self.metastore_url, settings=self.settings)
        client.create_schema()
        if client.catalog.warehouse() is None:
            client.catalog.set_warehouse(f"file:{self.warehouse}")
        return client

    @cached_property
    def engine(self) -> Engine:
        """Runs statements as :class:`HiveAcidOperator` does; all of a test share one Spark application."""
        launcher = SparkSubmitLauncher(self.spark_master)
        return Engine(self.client, launcher, f"file:{self.warehouse}", agent_info="hive-acid tests")

    @property
    def connections(self) -> dict[str, str]:
        """The environment variables that make Airflow's connections."""
        extra: dict[str, Any] = {"metastore_url": self.metastore_url, "warehouse": str(self.warehouse)}
        hive_acid = {"conn_type": "hive_acid", "extra": {**extra, **self._given}}
        spark = {"conn_type": "spark", "host": self.spark_master}
        return {
            "AIRFLOW_CONN_HIVE_ACID_DEFAULT": json.dumps(hive_acid),
            "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps(spark),
        }

    def sql(self, script: str) -> list[StatementResult]:
        """Run a script of statements, for example to make and fill the tables that a DAG under test expects."""
        return self.engine.run(script)

    def rows(self, query: str) -> list[dict[str, Any]]:
        """Rows of a SELECT, one dictionary each."""
        return self.engine.query(query).to_dicts()

    def __enter__(self) -> Self:
        self.client  # noqa: B018 - the DAG finds a metastore that is ready
        for name, value in self.connections.items():
            self._before[name] = os.environ.get(name)
            os.environ[name] = value
        return self

    def __exit__(
        self, kind: type[BaseException] | None, failure: BaseException | None, trace: TracebackType | None
    ) -> None:
        for name, value in self._before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
        if "engine" in self.__dict__:
            self.engine.close()
        if "client" in self.__dict__:
            self.client.close()
