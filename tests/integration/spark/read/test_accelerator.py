"""The optional jar: found where it was built, left alone where it does not belong or is not wanted."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from airflow_hive_acid import __version__
from airflow_hive_acid.spark.accelerator import SESSION_KEY, _of_application, accelerator, fits

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def test_jar_is_used_if_it_was_built_unless_a_session_is_told_otherwise(
    spark: SparkSession, accelerator_jar: Path | None, pytestconfig: pytest.Config
) -> None:
    session = spark.newSession()
    expected = accelerator_jar is not None and pytestconfig.getoption("--accelerator") == "auto"
    assert (accelerator(session) is not None) == expected
    session.conf.set(SESSION_KEY, "off")
    assert accelerator(session) is None


class _NoJar:
    """A Spark context whose JVM has no class of ours, as py4j shows it: a package of that name, which is not called."""

    version = "4.3.0"

    class _Package:
        def __getattr__(self, name: str) -> _NoJar._Package:
            return _NoJar._Package()

    _jvm = _Package()


def test_job_without_the_jar_says_so_once_with_the_remedy(caplog: pytest.LogCaptureFixture) -> None:
    _of_application.cache_clear()
    try:
        application: Any = _NoJar()
        assert [_of_application(application) for _ in range(3)] == [None] * 3
        (told,) = [record.getMessage() for record in caplog.records]
    finally:
        _of_application.cache_clear()
    assert "without the accelerator jar" in told
    assert "hive.acid.spark.accelerator" in told


def test_jar_of_another_spark_or_package_does_not_fit() -> None:
    assert fits(__version__, "4.3", "2.13", "4.3.1", "2.13.17")
    assert not fits(__version__, "4.3", "2.13", "4.4.0", "2.13.17")
    assert not fits("0.0.1", "4.3", "2.13", "4.3.0", "2.13.17")
    assert fits(__version__, "3.5", "2.12", "3.5.9", "2.12.18")
    assert not fits(__version__, "3.5", "2.13", "3.5.9", "2.12.18")


class _Accelerator:
    version = staticmethod(lambda: __version__)
    spark = staticmethod(lambda: "4.3")
    scala = staticmethod(lambda: "2.13")


class _Properties:
    versionNumberString = staticmethod(lambda: "2.13.17")


class _OtherJar:
    """A Spark context whose JVM has the jar for another Spark."""

    version = "4.1.4"
    _jvm = SimpleNamespace(**{"hiveacid.Accelerator": _Accelerator, "scala.util.Properties": _Properties})


def test_job_with_the_jar_of_another_spark_does_without_and_says_how_the_right_one_is_chosen(
    caplog: pytest.LogCaptureFixture,
) -> None:
    _of_application.cache_clear()
    try:
        application: Any = _OtherJar()
        assert _of_application(application) is None
        (told,) = [record.getMessage() for record in caplog.records]
    finally:
        _of_application.cache_clear()
    assert "for Spark 4.3 with Scala 2.13; this is" in told
    assert "on Spark 4.1.4 with Scala 2.13.17" in told
    assert "SPARK_HOME" in told
