"""A Spark that does not fit is refused before it starts, or as soon as its driver says its version."""

from __future__ import annotations

import sys
from importlib.machinery import ModuleSpec

import pytest

from airflow_hive_acid.engine.applications import spark_version
from airflow_hive_acid.engine.applications.spark_version import (
    InstalledSpark,
    require_driver_version,
    require_spark,
    spark_of_python,
)
from airflow_hive_acid.errors import ConfigurationError


@pytest.fixture
def spark(tmp_path):
    """Makes the directory of a Spark; gives its spark-submit."""

    def make(jars: str | None, python: str | None = None, where: str = "spark", scala: str = "2.13"):
        home = tmp_path / where
        for folder in ("bin", "jars", "python/pyspark"):
            (home / folder).mkdir(parents=True)
        if jars is not None:
            (home / "jars" / f"spark-core_{scala}-{jars}.jar").touch()
        if python is not None:
            (home / "python" / "pyspark" / "version.py").write_text(f'__version__: str = "{python}"\n')
        program = home / "bin" / "spark-submit"
        program.touch(mode=0o755)
        return program

    return make


@pytest.mark.parametrize("version", ["3.5.0", "4.0.1", "4.1.4", "4.2.1", "4.3.0", "4.3.7", "4.3.0.7-cdh"])
def test_a_supported_spark_is_told_by_its_core_jar(spark, version, tmp_path):
    found = require_spark(str(spark(version, version[:5])), {"PATH": ""})
    assert found == InstalledSpark(tmp_path / "spark", version[:5], "2.13")
    assert found.line == version[:3]
    assert found.loads_defaults == (version != "3.5.0")


def test_a_spark_of_an_older_scala_is_told_from_one_of_a_newer(spark):
    assert require_spark(str(spark("3.5.1", scala="2.12")), {"PATH": ""}).scala == "2.12"


@pytest.mark.parametrize("version", ["2.4.7", "3.4.4", "5.0.0"])
def test_a_spark_of_another_line_is_refused_with_its_place_and_the_remedy(spark, version, tmp_path):
    program = spark(version)
    with pytest.raises(ConfigurationError) as caught:
        require_spark(str(program), {"PATH": ""})
    assert f"the Spark in {tmp_path / 'spark'} is {version}; this package runs on 3.5, 4.0, 4.1, 4.2 and 4.3" in str(
        caught.value
    )
    assert "airflow-hive-acid[spark]" in str(caught.value)
    assert "SPARK_HOME" in str(caught.value)


def test_spark_home_counts_whichever_program_is_started(spark):
    old, fitting = spark("3.4.1", where="old"), spark("4.3.0", where="new")
    require_spark(str(old), {"SPARK_HOME": str(fitting.parent.parent)})
    with pytest.raises(ConfigurationError, match=r"old is 3\.4\.1"):
        require_spark(str(fitting), {"SPARK_HOME": str(old.parent.parent)})


def test_python_files_of_another_spark_are_refused_with_the_command_that_puts_them_right(tmp_path, monkeypatch):
    """pyspark-client 4.2, which the Spark provider brings, was unpacked over pyspark 4.3."""
    package = tmp_path / "site-packages" / "pyspark"
    (package / "jars").mkdir(parents=True)
    (package / "jars" / "spark-core_2.13-4.3.0.jar").touch()
    (package / "version.py").write_text("__version__: str = '4.2.0'\n")
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "spark-submit"
    program.touch(mode=0o755)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "bin" / "python"))
    spec = ModuleSpec("pyspark", None, origin=str(package / "__init__.py"))
    monkeypatch.setattr(spark_version.importlib.util, "find_spec", lambda name: spec)
    with pytest.raises(ConfigurationError) as caught:
        require_spark(str(program), {"PATH": ""})
    assert "jars of 4.3.0 and Python files of 4.2.0" in str(caught.value)
    assert 'pip install --force-reinstall --no-deps "pyspark==4.3.0"' in str(caught.value)


def test_python_files_that_a_newer_spark_has_left_over_a_3_5_are_refused_with_the_commands_that_remove_them(spark):
    """pyspark-client 4, then pyspark 3.5 over it: the folder functions/ would be imported, not functions.py."""
    program = spark("3.5.9", python="3.5.9")
    sql = program.parent.parent / "python" / "pyspark" / "sql"
    (sql / "functions").mkdir(parents=True)
    (sql / "functions.py").touch()
    assert require_spark(str(program), {"PATH": ""}).line == "3.5"
    (sql / "functions" / "__init__.py").touch()
    with pytest.raises(ConfigurationError) as caught:
        require_spark(str(program), {"PATH": ""})
    assert f"{sql / 'functions'} is of another version" in str(caught.value)
    assert "'pip uninstall --yes pyspark-client pyspark', then 'pip install" in str(caught.value)
    assert '"pyspark==3.5.9"' in str(caught.value)


def test_the_spark_of_this_environment_fits():
    from airflow_hive_acid.engine.applications.java import find_spark_submit

    found = require_spark(find_spark_submit({"PATH": ""}), {"PATH": ""})
    assert found == spark_of_python()


def test_what_does_not_tell_its_version_is_left_to_the_driver(spark, tmp_path):
    assert require_spark(str(spark(None)), {"PATH": ""}) is None
    assert require_spark("no-such-program", {"PATH": str(tmp_path)}) is None
    wrapper = tmp_path / "wrapper" / "spark-submit"
    wrapper.parent.mkdir()
    wrapper.touch(mode=0o755)
    assert require_spark(str(wrapper), {"PATH": ""}) is None


def test_a_driver_with_another_spark_is_refused():
    with pytest.raises(
        ConfigurationError, match=r"the Spark of the driver is 4\.4\.0; this package runs on 3\.5, 4\.0"
    ):
        require_driver_version("4.4.0")
    require_driver_version("4.3.1")
    require_driver_version("")
