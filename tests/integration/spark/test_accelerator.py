"""The optional jar: found where it was built, left alone where it does not belong or is not wanted."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from airflow_hive_acid import __version__
from airflow_hive_acid.spark.accelerator import SESSION_KEY, accelerator, fits

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


def test_jar_of_another_spark_or_package_does_not_fit() -> None:
    assert fits("4.3", __version__, "4.3.1")
    assert not fits("4.3", __version__, "4.4.0")
    assert not fits("4.3", "0.0.1", "4.3.0")
