"""A Spark that does not fit is refused before it starts, or as soon as its driver says its version."""

from __future__ import annotations

import sys
from importlib.machinery import ModuleSpec

import pytest

from airflow_hive_acid.engine.applications import spark_version
from airflow_hive_acid.engine.applications.spark_version import require_driver_version, require_spark
from airflow_hive_acid.errors import ConfigurationError


@pytest.fixture
def spark(tmp_path):
    """Makes the directory of a Spark; gives its spark-submit."""

    def make(jars: str | None, python: str | None = None, where: str = "spark"):
        home = tmp_path / where
        for folder in ("bin", "jars", "python/pyspark"):
            (home / folder).mkdir(parents=True)
        if jars is not None:
            (home / "jars" / f"spark-core_2.13-{jars}.jar").touch()
        if python is not None:
            (home / "python" / "pyspark" / "version.py").write_text(f'__version__: str = "{python}"\n')
        program = home / "bin" / "spark-submit"
        program.touch(mode=0o755)
        return program

    return make


@pytest.mark.parametrize("version", ["4.3.0", "4.3.7", "4.3.0.7-cdh"])
def test_a_spark_of_this_line_is_left_alone(spark, version):
    require_spark(str(spark(version, version[:5])), {"PATH": ""})


@pytest.mark.parametrize("version", ["3.5.9", "4.1.1", "5.0.0"])
def test_a_spark_of_another_line_is_refused_with_its_place_and_the_remedy(spark, version, tmp_path):
    program = spark(version)
    with pytest.raises(ConfigurationError) as caught:
        require_spark(str(program), {"PATH": ""})
    assert f"the Spark in {tmp_path / 'spark'} is {version}; this package runs on 4.3" in str(caught.value)
    assert "airflow-hive-acid[spark]" in str(caught.value)
    assert "SPARK_HOME" in str(caught.value)


def test_spark_home_counts_whichever_program_is_started(spark):
    old, fitting = spark("3.5.1", where="old"), spark("4.3.0", where="new")
    require_spark(str(old), {"SPARK_HOME": str(fitting.parent.parent)})
    with pytest.raises(ConfigurationError, match=r"old is 3\.5\.1"):
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


def test_the_spark_of_this_environment_fits():
    from airflow_hive_acid.engine.applications.java import find_spark_submit

    require_spark(find_spark_submit({"PATH": ""}), {"PATH": ""})


def test_what_does_not_tell_its_version_is_left_to_the_driver(spark, tmp_path):
    require_spark(str(spark(None)), {"PATH": ""})
    require_spark("no-such-program", {"PATH": str(tmp_path)})
    wrapper = tmp_path / "wrapper" / "spark-submit"
    wrapper.parent.mkdir()
    wrapper.touch(mode=0o755)
    require_spark(str(wrapper), {"PATH": ""})


def test_a_driver_with_another_spark_is_refused():
    with pytest.raises(ConfigurationError, match=r"the Spark of the driver is 4\.1\.1; this package runs on 4\.3"):
        require_driver_version("4.1.1")
    require_driver_version("4.3.1")
    require_driver_version("")
