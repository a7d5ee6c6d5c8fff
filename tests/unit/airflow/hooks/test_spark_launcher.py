"""Where Spark runs comes from a Spark connection, and from nowhere else."""

from __future__ import annotations

import itertools
import json
import os
import re
import signal
import stat
import textwrap
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from airflow.providers.apache.spark.hooks import spark_submit
from airflow.sdk import BaseHook

from airflow_hive_acid.engine.applications.kubernetes import require_pods
from airflow_hive_acid.errors import ConfigurationError, JobFailedError
from airflow_hive_acid.format.jobs import JobSpec, Select
from airflow_hive_acid.hooks import spark_driver, spark_launcher
from airflow_hive_acid.hooks.connection import read_connection
from airflow_hive_acid.hooks.spark_launcher import AirflowSparkLauncher, SparkTarget, spark_target


@pytest.fixture
def spark_connection(monkeypatch):
    def define(**fields):
        monkeypatch.setenv("AIRFLOW_CONN_SPARK_TEST", json.dumps({"conn_type": "spark", **fields}))
        return "spark_test"

    return define


def test_missing_spark_connection_is_an_error_with_the_remedy():
    with pytest.raises(ConfigurationError) as caught:
        AirflowSparkLauncher("no_such_connection").start()
    assert "no Spark connection 'no_such_connection'" in str(caught.value)
    assert "airflow connections add no_such_connection --conn-type spark" in str(caught.value)


def test_spark_connection_without_a_master_is_an_error(spark_connection):
    with pytest.raises(ConfigurationError, match="names no master"):
        spark_target(spark_connection())


@pytest.mark.parametrize(
    ("fields", "master", "deploy_mode"),
    [
        ({"host": "local[2]"}, "local[2]", "client"),
        ({"host": "yarn", "extra": {"deploy-mode": "cluster"}}, "yarn", "cluster"),
        ({"host": "spark://master", "port": 7077}, "spark://master:7077", "client"),
        ({"host": "master", "port": 7077}, "spark://master:7077", "client"),
        ({"host": "k8s://https://api", "port": 443}, "k8s://https://api:443", "client"),
    ],
)
def test_master_is_the_one_that_the_spark_hook_will_use(spark_connection, fields, master, deploy_mode):
    from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook

    conn_id = spark_connection(**fields)
    if not master.startswith("k8s"):  # the hook wants the kubernetes provider for these
        assert SparkSubmitHook(conn_id=conn_id)._connection["master"] == master
    target = spark_target(conn_id)
    assert (target.master, target.deploy_mode) == (master, deploy_mode)


def test_program_named_by_the_connection_is_left_to_the_hook(spark_connection):
    target = spark_target(spark_connection(host="local", extra={"spark-binary": "spark3-submit"}))
    assert target == SparkTarget("local", "client", None)


def test_driver_on_the_cluster_needs_a_spool(spark_connection):
    conn_id = spark_connection(host="yarn", extra={"deploy-mode": "cluster"})
    with pytest.raises(ConfigurationError, match=r"'spark_test'.*yarn.*\"spool\""):
        AirflowSparkLauncher(conn_id).start()


def test_driver_on_a_standalone_cluster_is_refused_with_the_remedy(spark_connection, tmp_path):
    conn_id = spark_connection(host="spark://master", port=7077, extra={"deploy-mode": "cluster"})
    with pytest.raises(ConfigurationError, match=r"spark://master:7077 .*\"deploy-mode\": \"client\".*'spark_test'"):
        AirflowSparkLauncher(conn_id, spool=tmp_path.as_uri()).start()


@pytest.fixture
def fake_spark_submit(monkeypatch, tmp_path, spark_connection):
    """A spark-submit that writes down its arguments and environment, then runs a script of the test."""

    def define(script: str, spool: str | None = None, **connection: Any) -> tuple[AirflowSparkLauncher, Path]:
        program = tmp_path / "spark-submit"
        program.write_text(
            "#!/bin/sh\n"
            f"printf '%s\\n' \"$@\" > {tmp_path}/arguments\n"
            f"env > {tmp_path}/environment\n" + textwrap.dedent(script)
        )
        program.chmod(0o755)
        monkeypatch.setattr(spark_launcher, "find_spark_submit", lambda environment: str(program))
        monkeypatch.setattr(spark_launcher, "require_java", lambda environment: "java")
        monkeypatch.setattr(spark_launcher.resources, "spark_job", lambda name: Path(f"/jobs/{name}.py"))
        conn_id = spark_connection(**({"host": "local[1]"} | connection))
        conf = {"spark.hadoop.fs.s3a.secret.key": "hunter2", "spark.executor.memory": "3g"}
        return AirflowSparkLauncher(conn_id, conf=conf, spool=spool), tmp_path

    return define


READY = """
    spool=$(sed -n '/^--spool$/{n;p}' DIR/arguments | sed 's,^file://,,')
    echo '{"application_id": "local-1", "spark_version": "4.3.0", "pid": 1}' > $spool/ready.tmp
    mv $spool/ready.tmp $spool/ready.json
"""


def test_secrets_stand_neither_in_arguments_nor_in_the_environment(fake_spark_submit, monkeypatch, tmp_path):
    monkeypatch.setenv("AIRFLOW_CONN_HIVE_ACID_DEFAULT", '{"password": "hunter2"}')
    monkeypatch.setenv("HIVE_ACID_METASTORE_URL", "postgresql://u:hunter2@h/m")
    launcher, _ = fake_spark_submit(
        READY.replace("DIR", str(tmp_path))
        + f"""
    stat -c %a $(sed -n '/^--properties-file$/{{n;p}}' {tmp_path}/arguments) > {tmp_path}/mode
    cp $(sed -n '/^--properties-file$/{{n;p}}' {tmp_path}/arguments) {tmp_path}/properties
    while [ ! -e $spool/close ]; do sleep 0.05; done
    """
    )
    session = launcher.start()
    assert session.wait_ready() == "local-1"
    session.close()
    assert "hunter2" not in (tmp_path / "arguments").read_text()
    assert "hunter2" not in (tmp_path / "environment").read_text()
    assert "hunter2" in (tmp_path / "properties").read_text()
    assert (tmp_path / "mode").read_text().strip() == "600"
    arguments = (tmp_path / "arguments").read_text().splitlines()
    assert arguments[:2] == ["--master", "local[1]"]
    assert "--load-spark-defaults" in arguments
    assert "/jobs/session.py" in arguments


def test_driver_on_yarn_gets_everything_it_needs_and_no_secret(fake_spark_submit, monkeypatch, tmp_path):
    """In deploy mode cluster nothing of this machine is there: what the driver imports goes along, and the rest is on
    shared storage; settings travel in the file that spark-submit reads and ships."""
    monkeypatch.setenv("HIVE_ACID_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("HIVE_ACID_METASTORE_URL", "postgresql://u:hunter2@h/m")
    shared = tmp_path / "shared"
    launcher, _ = fake_spark_submit(
        READY.replace("DIR", str(tmp_path))
        + f"""
    cp $(sed -n '/^--properties-file$/{{n;p}}' {tmp_path}/arguments) {tmp_path}/properties
    while [ ! -e $spool/close ]; do sleep 0.05; done
    """,
        spool=shared.as_uri(),
        host="yarn",
        extra={"deploy-mode": "cluster", "queue": "etl; rm -rf /"},
    )
    session = launcher.start()
    assert session.wait_ready() == "local-1"
    session.close()
    arguments = (tmp_path / "arguments").read_text().splitlines()
    options = dict(itertools.pairwise(arguments))
    assert (options["--master"], options["--deploy-mode"], options["--queue"]) == ("yarn", "cluster", "etl; rm -rf /")
    assert Path(options["--py-files"]).parent == tmp_path / "cache"
    assert zipfile.is_zipfile(options["--py-files"])
    assert arguments[-5] == "/jobs/session.py"
    assert options["--spool"].startswith(f"{shared.as_uri()}/session-")
    assert list(shared.iterdir()) == []
    properties = (tmp_path / "properties").read_text()
    assert "spark.yarn.maxAppAttempts=1\n" in properties  # R5
    assert "spark.executor.memory=3g\n" in properties
    assert not re.search(r"spark\.(local\.dir|driver\.memory|sql\.warehouse\.dir)=", properties)
    assert "hunter2" in properties
    assert "hunter2" not in (tmp_path / "arguments").read_text() + (tmp_path / "environment").read_text()
    assert "PYSPARK_DRIVER_PYTHON" not in (tmp_path / "environment").read_text()


def test_program_that_ends_early_is_reported_with_its_last_lines(fake_spark_submit):
    launcher, _ = fake_spark_submit("echo the reason; exit 3")
    session = launcher.start()
    with pytest.raises(JobFailedError, match="the reason"):
        session.wait_ready()
    session.close()


def test_an_old_spark_submit_is_named_in_one_line(fake_spark_submit):
    """Its usage is longer than what is kept of the output."""
    launcher, _ = fake_spark_submit(
        "echo 'Error: Unrecognized option: --load-spark-defaults'; for i in $(seq 70); do echo usage $i; done; exit 1"
    )
    session = launcher.start()
    with pytest.raises(JobFailedError, match=r"older than 4: it does not know --load-spark-defaults") as caught:
        session.wait_ready()
    session.close()
    assert len(str(caught.value).splitlines()) == 2


@pytest.mark.parametrize("extra", [{}, {"spark-binary": "spark-submit"}], ids=["ours", "program of the connection"])
def test_spark_3_gets_the_sites_defaults_in_our_file(fake_spark_submit, monkeypatch, tmp_path, extra):
    """Its spark-submit does not know the option that reads both."""
    (tmp_path / "spark" / "jars").mkdir(parents=True)
    (tmp_path / "spark" / "jars" / "spark-core_2.12-3.5.9.jar").touch()
    (tmp_path / "spark" / "conf").mkdir()
    (tmp_path / "spark" / "conf" / "spark-defaults.conf").write_text(
        "spark.executor.cores 3\nspark.executor.memory 1g\n"
    )
    monkeypatch.setenv("SPARK_HOME", str(tmp_path / "spark"))
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    launcher, _ = fake_spark_submit(
        READY.replace("DIR", str(tmp_path)).replace("4.3.0", "3.5.9")
        + f"""
    cp $(sed -n '/^--properties-file$/{{n;p}}' {tmp_path}/arguments) {tmp_path}/properties
    while [ ! -e $spool/close ]; do sleep 0.05; done
    """,
        extra=extra,
    )
    session = launcher.start()
    assert session.wait_ready() == "local-1"
    session.close()
    assert "--load-spark-defaults" not in (tmp_path / "arguments").read_text()
    properties = (tmp_path / "properties").read_text().splitlines()
    assert "spark.executor.cores=3" in properties
    assert "spark.executor.memory=3g" in properties


@pytest.fixture
def kubernetes(fake_spark_submit, monkeypatch, tmp_path):
    """``kubernetes(script, **conf)``: a launcher onto pods that can see nothing of this machine but ``shared``."""
    monkeypatch.setenv("HIVE_ACID_CACHE", str(tmp_path / "cache"))
    # An environment with Airflow's Spark provider alone has pyspark-client, which is no Spark to submit with.
    spark = tmp_path / "spark"
    (spark / "jars").mkdir(parents=True)
    (spark / "jars" / "spark-core_2.13-4.3.0.jar").touch()
    monkeypatch.setenv("SPARK_HOME", str(spark))
    monkeypatch.setattr(spark_submit, "kube_client", object(), raising=False)

    def define(script: str, **conf: str) -> AirflowSparkLauncher:
        extra = {"deploy-mode": "cluster", "namespace": "etl"}
        spool = (tmp_path / "shared").as_uri()
        launcher, _ = fake_spark_submit(script, spool, host="k8s://https://api", port=443, extra=extra)
        claim = "spark.kubernetes.driver.volumes.persistentVolumeClaim.shared.mount.path"
        image = {"spark.kubernetes.container.image": "spark:4"}
        return replace(launcher, conf={**launcher.conf, **image, claim: str(tmp_path), **conf})

    return define


@pytest.mark.parametrize(
    ("conf", "reason"),
    [
        (
            {"spark.kubernetes.container.image": ""},
            r"needs spark\.kubernetes\.container\.image.*extra of the hive_acid",
        ),
        (
            {"spark.kubernetes.driver.volumes.persistentVolumeClaim.shared.mount.path": "/elsewhere"},
            r"the spool is file:.* cannot see",
        ),
        (
            {"spark.kubernetes.file.upload.path": "/srv/upload"},
            r"file\.upload\.path is /srv/upload, which the driver's pod on k8s://https://api:443 cannot see",
        ),
    ],
)
def test_what_pods_cannot_do_is_refused_before_anything_is_made(kubernetes, tmp_path, conf, reason):
    launcher = kubernetes("exit 0", **conf)
    with pytest.raises(ConfigurationError, match=reason):
        launcher.start()
    assert not (tmp_path / "shared").exists()
    assert not (tmp_path / "arguments").exists()


def test_kubernetes_without_airflows_provider_for_it_is_refused_with_the_remedy(kubernetes, tmp_path, monkeypatch):
    """SparkSubmitHook then fails on a name that is not defined."""
    launcher = kubernetes("exit 0")
    monkeypatch.delattr(spark_submit, "kube_client")
    with pytest.raises(
        ConfigurationError, match=r"'spark_test' .*'pip install apache-airflow-providers-cncf-kubernetes"
    ):
        launcher.start()
    assert not (tmp_path / "shared").exists()


@pytest.mark.parametrize("ends", ["killed", "by itself"])
def test_the_driver_pod_of_a_killed_task_is_ended_with_the_means_of_spark(kubernetes, tmp_path, ends):
    """Not with those of Airflow's own pods: here that client is an object that can do nothing."""
    launcher = kubernetes(
        f"""
    case "$*" in *--kill*) cp {tmp_path}/arguments {tmp_path}/killed; exit;; esac
    cp {tmp_path}/arguments {tmp_path}/submitted
    """
        + READY.replace("DIR", str(tmp_path))
        + """
    name=hive-acid-$(basename $spool)-driver
    echo "    pod name: $name"
    while [ ! -e $spool/close ]; do sleep 0.05; done
    echo "    exit code: 0"
    """
    )
    session = launcher.start()
    session.wait_ready()
    (spool,) = (tmp_path / "shared").iterdir()
    if ends == "killed":
        session.cancel()
    session.close()
    options = dict(itertools.pairwise((tmp_path / "submitted").read_text().splitlines()))
    assert options["--conf"] == "spark.kubernetes.namespace=etl"
    if ends == "by itself":
        assert not (tmp_path / "killed").exists()
        return
    arguments = (tmp_path / "killed").read_text().splitlines()
    assert arguments[:3] == ["--master", "k8s://https://api:443", "--properties-file"]
    assert arguments[4:] == ["--load-spark-defaults", "--kill", f"etl:hive-acid-{spool.name}-driver"]


def test_cancel_kills_the_program_and_what_it_started(fake_spark_submit, tmp_path):
    launcher, _ = fake_spark_submit(
        READY.replace("DIR", str(tmp_path)) + f"sleep 1000 & echo $! > {tmp_path}/child; wait"
    )
    session = launcher.start()
    session.wait_ready()
    child = _number_in(tmp_path / "child")
    session.cancel()
    assert not session.is_alive
    assert _gone(child)
    session.close()


@pytest.mark.parametrize("when", ["starting", "running"])
def test_a_process_that_holds_the_output_open_keeps_nobody_waiting(fake_spark_submit, tmp_path, monkeypatch, when):
    """
    t1  spark-submit starts a process in a group of its own, as Spark's Python workers are
    t2  spark-submit ends; the other one has its output open
    t3  whoever waits for the session hears of the end, and close() returns
    """
    monkeypatch.setattr(spark_driver, "_OUTPUT_SECONDS", 0.3)
    monkeypatch.setattr(spark_driver, "_STOP_SECONDS", 0.3)
    ready = READY.replace("DIR", str(tmp_path)) if when == "running" else ""
    launcher, _ = fake_spark_submit(f"{ready}setsid sh -c 'echo $$ > {tmp_path}/child; exec sleep 1000' & exit 3")
    session = launcher.start()
    try:
        with pytest.raises(JobFailedError, match="ended with code 3"):
            session.run(JobSpec("job-1", Select("select 1", "file:///nowhere")))
        assert not session.is_alive
        session.close()
    finally:
        os.kill(_number_in(tmp_path / "child"), signal.SIGKILL)


def test_session_leaves_no_files_behind(fake_spark_submit, tmp_path, monkeypatch):
    monkeypatch.setattr(spark_launcher.tempfile, "mkdtemp", lambda prefix: _made(tmp_path / "scratch"))
    launcher, _ = fake_spark_submit("exit 0")
    launcher.start().close()
    assert not (tmp_path / "scratch").exists()


def _made(path: Path) -> str:
    path.mkdir(mode=stat.S_IRWXU)
    return str(path)


def _number_in(path: Path) -> int:
    import time

    for _ in range(200):
        if path.is_file() and path.read_text().strip():
            return int(path.read_text())
        time.sleep(0.02)
    raise AssertionError(f"{path} was not written")


def _gone(pid: int) -> bool:
    import time

    for _ in range(200):
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
        except FileNotFoundError:
            return True
        if state == "Z":
            return True
        os.sched_yield()
        time.sleep(0.02)
    return False


def test_connections_of_the_page_on_clusters_are_taken(monkeypatch):
    page = (Path(__file__).parents[4] / "docs" / "how-to" / "running" / "clusters.md").read_text()
    told = re.findall(r"export AIRFLOW_CONN_(\w+)='(.+)'$", page, re.MULTILINE)
    assert [name for name, _ in told] == ["SPARK_DEFAULT", "HIVE_ACID_DEFAULT"] * 3
    seen = []
    for name, text in told:
        monkeypatch.setenv(f"AIRFLOW_CONN_{name}", text)
        if name == "HIVE_ACID_DEFAULT":
            given = read_connection(BaseHook.get_connection("hive_acid_default"))
            target = spark_target(given.spark_conn_id)
            require_pods(target.master, target.deploy_mode, given.spark_conf, given.spool, "here")
            seen.append((target.master, target.deploy_mode, given.spool is not None, target.namespace))
    assert seen == [
        ("spark://master.example:7077", "client", False, None),
        ("yarn", "cluster", True, None),
        ("k8s://https://api.example:6443", "cluster", True, "etl"),
    ]
