"""The archive of Spark's classes: where it lies, who uses it, and what stays when none can be made."""

import os
import shlex

import pytest
from typer.testing import CliRunner

from airflow_hive_acid.cli.main import app
from airflow_hive_acid.engine.applications.class_archive import archive_options, archive_path, make_class_archive
from airflow_hive_acid.engine.applications.spark_conf import configuration
from airflow_hive_acid.engine.applications.spark_version import InstalledSpark
from airflow_hive_acid.errors import ConfigurationError, HiveAcidError


@pytest.fixture
def spark(tmp_path, monkeypatch):
    """A Spark of two jars, and a cache directory whose name a shell would take for two."""
    monkeypatch.setenv("HIVE_ACID_CACHE", str(tmp_path / "my cache"))
    (tmp_path / "spark" / "jars").mkdir(parents=True)
    for name in ("spark-core_2.13-4.3.0.jar", "orc-core.jar"):
        (tmp_path / "spark" / "jars" / name).write_bytes(b"jar")
    return InstalledSpark(tmp_path / "spark", "4.3.0", "2.13")


@pytest.fixture
def program(tmp_path):
    """``program(script)``: a stand-in for spark-submit, which knows as ``$made`` what Java is asked to write."""

    def define(script):
        found = tmp_path / "bin" / "spark-submit"
        found.parent.mkdir(exist_ok=True)
        find = """eval "made=$(echo "$SPARK_SUBMIT_OPTS" | sed 's/.*-XX:ArchiveClassesAtExit=//')" """
        found.write_text(f"#!/bin/bash\n{find}\n{script}\n")
        found.chmod(0o755)
        return str(found)

    return define


def driver_options(settings):
    return settings["spark.driver.extraJavaOptions"]


def test_an_archive_that_is_there_is_used_by_local_drivers_of_that_spark_alone(spark, program):
    assert "SharedArchiveFile" not in driver_options(configuration("local[2]", "/s", {}, spark=spark))
    make_class_archive(program('echo classes > "$made"'), archive_path(spark), os.environ)
    option = f"-XX:SharedArchiveFile={archive_path(spark)}"

    assert archive_path(spark).read_text() == "classes\n"
    assert option in shlex.split(driver_options(configuration("local[2]", "/s", {}, spark=spark)))
    own = {"spark.driver.extraJavaOptions": "-XX:+UseZGC"}
    mine = shlex.split(driver_options(configuration("local[2]", "/s", own, spark=spark)))
    assert mine.index(option) < mine.index("-XX:+UseZGC")
    assert "-XX:+UseSerialGC" not in mine
    executors = configuration("local[2]", "/s", {"spark.executor.extraJavaOptions": "-Dx=y"}, spark=spark)
    assert executors["spark.executor.extraJavaOptions"] == "-Duser.timezone=UTC -Dx=y"
    for others in (configuration("yarn", "/s", {}, spark=spark), configuration("local[2]", "/s", {})):
        assert "SharedArchiveFile" not in driver_options(others)


@pytest.mark.parametrize("change", ["another size", "another time", "one more", "one less"])
def test_other_jars_are_another_archive(spark, program, change):
    make_class_archive(program('echo classes > "$made"'), archive_path(spark), os.environ)
    assert archive_options(spark)
    jar = spark.home / "jars" / "orc-core.jar"
    if change == "another size":
        times = jar.stat().st_mtime_ns
        jar.write_bytes(b"another jar")
        os.utime(jar, ns=(times, times))
    elif change == "another time":
        os.utime(jar, (1, 1))
    elif change == "one more":
        (spark.home / "jars" / "more.jar").touch()
    else:
        jar.unlink()
    assert archive_options(spark) == ""


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("echo no memory >&2; echo half > $made; exit 3", "ended with 3 .*no memory"),
        ("echo CDS dumping is off", "Java wrote none.*CDS dumping is off"),
    ],
    ids=["it fails", "java writes none"],
)
def test_what_cannot_be_made_is_said_and_the_one_that_is_there_stays(spark, program, script, reason):
    archive = archive_path(spark)
    make_class_archive(program('echo first > "$made"'), archive, os.environ)
    with pytest.raises(HiveAcidError, match=f"(?s){reason}"):
        make_class_archive(program(script), archive, os.environ)
    assert list(archive.parent.iterdir()) == [archive]
    assert archive.read_text() == "first\n"


def test_the_verb_makes_it_and_removes_it(spark, program, monkeypatch):
    submit = program('echo classes > "$made"')
    monkeypatch.setenv("SPARK_HOME", str(spark.home))
    monkeypatch.setattr("airflow_hive_acid.engine.applications.java.find_spark_submit", lambda environment: submit)
    made = CliRunner().invoke(app, ["spark", "archive"])
    assert made.exit_code == 0, made.output
    assert f"{archive_path(spark)} (0 MiB) is used from now on by each local Spark of {spark.home}" in made.stderr
    removed = CliRunner().invoke(app, ["spark", "archive", "--remove"])
    assert f"{archive_path(spark)} is removed" in removed.stderr
    assert archive_options(spark) == ""
    assert "there is no archive of Spark 4.3.0" in CliRunner().invoke(app, ["spark", "archive", "--remove"]).stderr


def test_a_spark_that_does_not_show_where_it_lies_is_refused(spark, program, monkeypatch):
    submit = program('echo classes > "$made"')
    monkeypatch.delenv("SPARK_HOME", raising=False)
    monkeypatch.setattr("airflow_hive_acid.engine.applications.java.find_spark_submit", lambda environment: submit)
    done = CliRunner().invoke(app, ["spark", "archive"])
    assert isinstance(done.exception, ConfigurationError)
    assert "set SPARK_HOME" in str(done.exception)
