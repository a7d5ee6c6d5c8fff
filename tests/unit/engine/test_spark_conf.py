"""Settings of our Spark applications and the file they travel in."""

import sys

import pytest

from airflow_hive_acid import resources
from airflow_hive_acid.engine.applications.spark_conf import (
    configuration,
    is_local,
    local_cores,
    renewal_settings,
    write_properties,
)
from airflow_hive_acid.engine.applications.spark_version import SUPPORTED, InstalledSpark
from airflow_hive_acid.errors import ConfigurationError


def test_local_master_gets_settings_for_small_jobs():
    settings = configuration("local[2]", "/scratch", {})
    assert settings["spark.sql.shuffle.partitions"] == "2"
    assert settings["spark.local.dir"] == "/scratch/local"
    assert settings["spark.driver.extraJavaOptions"].startswith("-Duser.timezone=UTC -XX:+UseSerialGC")


def test_cluster_gets_only_what_correctness_asks_for_and_what_is_good_on_any_machine():
    assert configuration("yarn", "/scratch", {}, deploy_mode="cluster") == {
        "spark.hive.acid.accelerator": "off",
        "spark.driver.extraJavaOptions": "-Duser.timezone=UTC",
        "spark.executor.extraJavaOptions": "-Duser.timezone=UTC",
        "spark.yarn.maxAppAttempts": "1",
        "spark.sql.codegen.cache.maxEntries": "500",
        "spark.log.level": "WARN",
        "spark.kryo.registrationRequired": "false",
    }


def test_a_driver_on_this_machine_runs_with_our_python_whatever_spark_defaults_says():
    """spark.pyspark.python of the site's spark-defaults.conf is stronger than PYSPARK_DRIVER_PYTHON; it names the
    Python of the executors, which need not have this package."""
    client = configuration("yarn", "/scratch", {})
    assert client["spark.pyspark.driver.python"] == sys.executable
    assert "spark.pyspark.python" not in client
    assert "spark.pyspark.driver.python" not in configuration("yarn", "/scratch", {}, deploy_mode="cluster")
    executors = configuration("yarn", "/scratch", {"spark.pyspark.python": "/opt/py/bin/python"})
    assert executors["spark.pyspark.python"] == "/opt/py/bin/python"
    assert executors["spark.pyspark.driver.python"] == sys.executable


def test_on_a_local_master_workers_have_the_drivers_python():
    local = configuration("local[2]", "/scratch", {})
    assert local["spark.pyspark.python"] == local["spark.pyspark.driver.python"] == sys.executable
    own = configuration("local[2]", "/scratch", {"spark.pyspark.driver.python": "/mine"})
    assert own["spark.pyspark.driver.python"] == "/mine"


def test_a_job_that_is_to_do_without_the_jar_is_told_so():
    """And not that the jar is missing."""
    assert configuration("yarn", "/s", {}, "off")["spark.hive.acid.accelerator"] == "off"
    assert "spark.hive.acid.accelerator" not in configuration("yarn", "/s", {}, "auto")


def test_settings_of_the_user_win_but_java_options_keep_the_time_zone():
    conf = {"spark.executor.extraJavaOptions": "-Xss4m", "spark.log.level": "INFO"}
    settings = configuration("yarn", "/scratch", conf)
    assert settings["spark.executor.extraJavaOptions"] == "-Duser.timezone=UTC -Xss4m"
    assert settings["spark.log.level"] == "INFO"
    local = configuration("local", "/scratch", {"spark.driver.extraJavaOptions": "-XX:+UseG1GC"})
    assert local["spark.driver.extraJavaOptions"] == "-Duser.timezone=UTC -XX:+UseG1GC"


@pytest.mark.parametrize(("master", "cores"), [("local", 1), ("local[4]", 4), ("local[3,2]", 3)])
def test_cores_of_a_local_master(master, cores):
    assert is_local(master)
    assert local_cores(master) == cores


@pytest.mark.parametrize("master", ["local-cluster[2,1,1024]", "yarn", "spark://local:7077"])
def test_other_masters_are_not_local(master):
    assert not is_local(master)


def test_properties_survive_every_character(tmp_path):
    path = tmp_path / "p"
    write_properties(path, {"a b:c=d#e": "x=\\y\n\tü😀"})
    assert path.read_text() == "a\\ b\\:c\\=d\\#e=x=\\\\y\\n\\t\\u00fc\\ud83d\\ude00\n"


def test_accelerator_is_put_behind_the_users_jars_when_it_was_built(tmp_path, monkeypatch):
    monkeypatch.setattr(resources, "accelerator_jar", lambda spark, scala: tmp_path / "fast.jar")
    assert configuration("yarn", "/s", {}, "auto")["spark.jars"] == f"{tmp_path}/fast.jar"
    conf = {"spark.jars": "/mine.jar"}
    assert configuration("yarn", "/s", conf, "auto")["spark.jars"] == f"/mine.jar,{tmp_path}/fast.jar"
    assert configuration("yarn", "/s", conf, "off")["spark.jars"] == "/mine.jar"
    monkeypatch.setattr(resources, "accelerator_jar", lambda spark, scala: None)
    assert "spark.jars" not in configuration("yarn", "/s", {}, "auto")


@pytest.mark.parametrize(
    ("version", "scala", "jar"),
    [
        ("4.3.0", "2.13", "4.3_2.13"),
        ("4.0.1", "2.13", "4.0_2.13"),
        ("3.5.1", "2.12", "3.5_2.12"),
        ("3.5.1", "2.13", None),
    ],
)
def test_accelerator_is_the_one_for_the_spark_that_will_be_started(tmp_path, monkeypatch, version, scala, jar):
    monkeypatch.setattr(resources, "_PACKAGE", tmp_path)
    (tmp_path / "jars").mkdir()
    for name in ("4.3_2.13", "4.0_2.13", "3.5_2.12"):
        (tmp_path / "jars" / f"hive-acid-accelerator-{name}.jar").touch()
    settings = configuration("yarn", "/s", {}, "auto", spark=InstalledSpark(tmp_path, version, scala))
    expected = None if jar is None else f"{tmp_path}/jars/hive-acid-accelerator-{jar}.jar"
    assert settings.get("spark.jars") == expected


def test_accelerator_for_the_newest_spark_goes_along_when_it_cannot_be_told_which_is_started(tmp_path, monkeypatch):
    """The driver leaves it alone when it does not fit."""
    monkeypatch.setattr(resources, "_PACKAGE", tmp_path)
    (tmp_path / "jars").mkdir()
    newest = tmp_path / "jars" / f"hive-acid-accelerator-{SUPPORTED[-1]}_2.13.jar"
    newest.touch()
    assert configuration("yarn", "/s", {}, "auto")["spark.jars"] == str(newest)


def test_accelerator_may_be_a_file_or_lie_where_the_cluster_finds_it(tmp_path):
    (tmp_path / "fast.jar").touch()
    for jar in (f"{tmp_path}/fast.jar", "hdfs:///jars/fast.jar"):
        assert configuration("yarn", "/s", {}, jar)["spark.jars"] == jar
    with pytest.raises(ConfigurationError, match=r"/no/such\.jar, and there is no such file; set it to auto, off"):
        configuration("yarn", "/s", {}, "/no/such.jar")


def test_who_has_a_ticket_alone_gets_new_tokens_with_it():
    """A keytab, a driver on the cluster and a choice of the user's are left as they are."""
    renewal = "spark.kerberos.renewal.credentials"
    assert renewal_settings("client", {}) == {renewal: "ccache"}
    assert renewal_settings("cluster", {}) == {}
    assert renewal_settings("client", {}, "airflow") == {}
    assert renewal_settings("client", {"spark.kerberos.principal": "airflow"}) == {}
    assert renewal_settings("client", {renewal: "keytab"}) == {}
