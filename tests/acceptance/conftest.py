"""The whole way with real spark-submit; one Spark application serves all tests of the session."""

from __future__ import annotations

import pytest

from airflow_hive_acid.engine import Engine, SparkSubmitLauncher


class OneApplication:
    """A launcher that starts one application and hands it to every engine; closing an engine leaves it running."""

    def __init__(self, launcher):
        self._launcher = launcher
        self._session = None

    def start(self, application=None):
        if self._session is None or not self._session.is_alive:
            self._session = self._launcher.start()
        return _Lent(self._session)

    def stop(self):
        if self._session is not None:
            self._session.close()


class _Lent:
    """The session, but for its end."""

    def __init__(self, session):
        self._session = session

    def __getattr__(self, name):
        return getattr(self._session, name)

    def close(self):
        """Somebody else may still need it."""


@pytest.fixture(scope="session")
def spark_application(tmp_path_factory):
    """Starts real Spark applications, the same one again and again."""
    one = OneApplication(SparkSubmitLauncher("local[2]", log_directory=tmp_path_factory.mktemp("spark-logs")))
    yield one
    one.stop()


@pytest.fixture
def engine(client, warehouse, spark_application):
    """An engine on a fresh metastore."""
    with Engine(client, spark_application, warehouse, agent_info="acceptance") as engine:
        yield engine


@pytest.fixture
def other(client, warehouse, spark_application):
    """A second engine on the same metastore."""
    with Engine(client, spark_application, warehouse, agent_info="other") as engine:
        yield engine
