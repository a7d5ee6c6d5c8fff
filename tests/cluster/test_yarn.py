"""Spark on YARN under Kerberos: the tasks' launcher, real spark-submit, containers that see nothing of this machine's.

The nodes have Java, a Python, a Spark (``spark.yarn.jars``) and ``/etc/krb5.conf``. Our package, the job, the jar, the
keytab and the spool reach them by what Spark's provider offers.
"""

from __future__ import annotations

import base64
import getpass
import json
import os
import signal
import threading
import time
from typing import TYPE_CHECKING, Any

import psutil
import pytest
import requests

from airflow_hive_acid.engine import Engine
from airflow_hive_acid.engine.transactions.claims import Once
from airflow_hive_acid.errors import JobFailedError
from airflow_hive_acid.filesystem import AnyFilesystem
from airflow_hive_acid.format.jobs import JobSpec, Select
from airflow_hive_acid.hooks.spark_launcher import AirflowSparkLauncher
from airflow_hive_acid.maintenance.decisions import Kind
from airflow_hive_acid.metastore import MetastoreClient
from tests.storage.conftest import Life, clean

from .servers import NODES, NODES_SPARK, TOKEN_SECONDS, Cluster, nodes_python

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytestmark = [pytest.mark.cluster, pytest.mark.spark]
_SECONDS = 240


@pytest.fixture
def launcher(
    secured: Cluster, home: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., AirflowSparkLauncher]:
    """Make launchers: ``launcher(deploy_mode, task, spool, user, conf, principal)``.

    Drivers on the cluster log in with the keytab of the principal.
    """
    krb5 = f"-Djava.security.krb5.conf={secured.realm.conf}"
    monkeypatch.setenv("SPARK_SUBMIT_OPTS", f"{os.environ.get('SPARK_SUBMIT_OPTS', '')} {krb5}".strip())
    monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
    monkeypatch.setenv("HADOOP_CONF_DIR", str(secured.conf))
    monkeypatch.setenv("YARN_CONF_DIR", str(secured.conf))
    monkeypatch.setenv("HIVE_ACID_CACHE", str(tmp_path / "cache"))
    keytabs = {name: secured.realm.folder / f"{name}.keytab" for name in ("airflow", "short")}
    conf = {
        "spark.executor.memory": "512m",
        "spark.executor.instances": "1",
        "spark.driver.memory": "700m",
        "spark.sql.shuffle.partitions": "2",
        "spark.yarn.jars": NODES_SPARK,
        "spark.pyspark.python": nodes_python(),
    }

    def make(
        deploy_mode: str,
        task: str | None = None,
        spool: str = f"{home}/spool",
        user: str | None = None,
        more: dict[str, str] | None = None,
        principal: str = "airflow",
    ) -> AirflowSparkLauncher:
        keytab = base64.b64encode(keytabs[principal].read_bytes()).decode()
        login = {"principal": principal, "keytab": keytab} if deploy_mode == "cluster" else {}
        extra = {"deploy-mode": deploy_mode, **login}
        fields = {"conn_type": "spark", "host": "yarn", "extra": extra}
        monkeypatch.setenv("AIRFLOW_CONN_SPARK_YARN", json.dumps(fields))
        mine = conf | (more or {}) | ({"spark.driver.host": "127.0.0.1"} if deploy_mode == "client" else {})
        where = spool if deploy_mode == "cluster" else None
        return AirflowSparkLauncher("spark_yarn", mine, spool=where, task=task, user=user)

    return make


@pytest.fixture
def client(tmp_path: Path) -> Iterator[MetastoreClient]:
    with MetastoreClient(f"sqlite:///{tmp_path / 'metastore.db'}") as client:
        client.create_schema()
        yield client


def _until(what: str, ready: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + _SECONDS
    while not (found := ready()):
        assert time.monotonic() < deadline, f"not in {_SECONDS} s: {what}"
        time.sleep(0.1)
    return found


def _applications(cluster: Cluster) -> dict[str, dict[str, Any]]:
    said = requests.get(f"{cluster.manager}/ws/v1/cluster/apps", timeout=60).json()
    return {each["id"]: each for each in (said["apps"] or {}).get("app", [])}


def _processes(application: str) -> list[psutil.Process]:
    """The JVMs of its containers."""
    found = []
    for process in psutil.process_iter(["cmdline", "name"]):
        line = " ".join(process.info["cmdline"] or ())
        if process.info["name"] == "java" and application in line:
            found.append(process)
    return found


@pytest.mark.parametrize("deploy_mode", ["cluster", "client"])
def test_a_table_lives_on_yarn(
    deploy_mode: str,
    launcher: Callable[..., AirflowSparkLauncher],
    client: MetastoreClient,
    home: str,
    secured: Cluster,
) -> None:
    """Insert, update, delete, merge, both compactions, the Cleaner and selects; the application ends with its task."""
    before = set(_applications(secured))
    with Engine(client, launcher(deploy_mode), f"{home}/warehouse-{deploy_mode}") as engine:
        life = Life(engine, client)
        life.create_and_change()
        life.compact_and_clean()
    started = {key: each for key, each in _applications(secured).items() if key not in before}
    assert started
    for key, application in started.items():
        assert application["user"] == "airflow"
        assert "hive-acid-session-" in application["applicationTags"]
        _until("its containers are gone", lambda key=key: not _processes(key))
    left = _applications(secured)
    assert {left[key]["state"] for key in started} == {"FINISHED"}
    if deploy_mode == "cluster":
        assert AnyFilesystem().list_files(f"{home}/spool") == []


@pytest.mark.parametrize("deploy_mode", ["cluster", "client"])
def test_a_worker_and_its_application_outlive_their_first_tickets_and_tokens(
    deploy_mode: str,
    launcher: Callable[..., AirflowSparkLauncher],
    client: MetastoreClient,
    secured: Cluster,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """No token is valid for longer than TOKEN_SECONDS.

    Cluster: publishing logs in with a keytab by MIT's library (KRB5_CLIENT_KTNAME), the application
    with that of its connection; no ticket of this user is valid for longer than 90 s. Client: the application fetches
    new tokens with the ticket cache of the worker. In both, Worker and Cleaner go on as well.
    """
    folder, mine, files = secured.realm.folder, f"hdfs://{secured.authority}/user/airflow", AnyFilesystem()
    if deploy_mode == "cluster":
        mine = mine.replace("/airflow", "/short")
        monkeypatch.setenv("KRB5_CLIENT_KTNAME", f"FILE:{folder / 'short.keytab'}")
        monkeypatch.setenv("KRB5CCNAME", str(tmp_path / "short.cache"))
        make = launcher(deploy_mode, spool=f"{mine}/spool", principal="short")
    else:
        make = launcher(deploy_mode)
    with Engine(client, make, f"{mine}/tokens-{deploy_mode}") as engine:
        insert = "INSERT INTO w.t SELECT id FROM range(0, 100, 1, 2)"
        engine.run(
            "CREATE DATABASE w; CREATE TABLE w.t (id INT) STORED AS ORC TBLPROPERTIES ('transactional'='true'); "
            + insert
        )
        over = time.monotonic() + TOKEN_SECONDS + 30
        _until("the first tokens are over", lambda: time.monotonic() > over)
        files.at(mine)._fs.session.cookies.clear()  # type: ignore[attr-defined]  # as after a failover
        engine.run(insert)
        engine.run("ALTER TABLE w.t COMPACT 'major'")
        outcomes = engine.run_compactions("w")
        assert [outcome.kind for outcome in outcomes] == [Kind.COMPACTED], outcomes
        assert [outcome.kind for outcome in clean(client, files)] == [Kind.CLEANED]
        assert engine.query("SELECT count(*), sum(id) FROM w.t").rows == [[200, 9900]]


def test_driver_executor_and_worker_are_on_machines_that_share_no_directory(
    launcher: Callable[..., AirflowSparkLauncher], client: MetastoreClient, home: str, secured: Cluster
) -> None:
    """Neither node has room for both; each runs its containers as its own user, in directories of its own."""
    conf = {"spark.driver.memory": "1700m", "spark.executor.memory": "1100m"}
    with Engine(client, launcher("cluster", more=conf), f"{home}/apart") as engine:
        engine.run(
            "CREATE DATABASE w; CREATE TABLE w.t (id INT) STORED AS ORC TBLPROPERTIES ('transactional'='true'); "
            "INSERT INTO w.t SELECT id FROM range(0, 100, 1, 2); DELETE FROM w.t WHERE id % 2 = 0"
        )
        assert engine.query("SELECT count(*), sum(id) FROM w.t").rows == [[50, 2500]]
        (application,) = [key for key, each in _applications(secured).items() if each["state"] == "RUNNING"]
        said = requests.get(f"{secured.manager}/ws/v1/cluster/nodes", timeout=60).json()
        assert {node["id"].partition(":")[0]: node["state"] for node in said["nodes"]["node"]} == {
            "localhost": "RUNNING"
        }
        assert [node["numContainers"] for node in said["nodes"]["node"]] == [1, 1]
        users = {process.username() for process in _processes(application)}
        assert users == (set(NODES.values()) if os.getuid() == 0 else {getpass.getuser()})


@pytest.mark.parametrize("deploy_mode", ["cluster", "client"])
def test_jobs_act_for_another_user_to_whom_what_they_write_belongs(
    deploy_mode: str, launcher: Callable[..., AirflowSparkLauncher], client: MetastoreClient, secured: Cluster
) -> None:
    """The worker is airflow and publishes, commits and cleans; jobs are owner's, and so are their files."""
    shared = f"hdfs://{secured.authority}/shared"
    before = set(_applications(secured))
    make = launcher(deploy_mode, spool=f"{shared}/spool", user="owner")
    with Engine(client, make, f"{shared}/{deploy_mode}") as engine:
        engine.run(
            "CREATE DATABASE w; CREATE TABLE w.t (id INT) STORED AS ORC TBLPROPERTIES ('transactional'='true'); "
            "INSERT INTO w.t SELECT id FROM range(0, 100, 1, 2); DELETE FROM w.t WHERE id % 2 = 0; "
            "ALTER TABLE w.t COMPACT 'major'"
        )
        assert [outcome.kind for outcome in engine.run_compactions("w")] == [Kind.COMPACTED]
        assert [outcome.kind for outcome in clean(client, AnyFilesystem())] == [Kind.CLEANED]
        assert engine.query("SELECT count(*), sum(id) FROM w.t").rows == [[50, 2500]]
        location = client.catalog.get_table("w.t").location
    (application,) = [each for key, each in _applications(secured).items() if key not in before]
    assert application["user"] == "owner"
    files = AnyFilesystem().at(location)._fs  # type: ignore[attr-defined]
    (base,) = files.ls(location.partition(secured.authority)[2], detail=True)
    assert base["name"].rpartition("/")[2].startswith("base_")
    assert {entry["owner"] for entry in [base, *files.ls(base["name"], detail=True)]} == {"owner"}


@pytest.mark.rule("R14")
def test_a_driver_that_is_killed_while_it_writes_is_followed_by_a_retry_that_applies_the_insert_once(
    launcher: Callable[..., AirflowSparkLauncher], client: MetastoreClient, home: str, secured: Cluster
) -> None:
    """Time line:

    t1  try 1 stages rows of an INSERT
    k   kills the driver's JVM on its node
    t1  fails, and says where the driver's log is
    t2  try 2, with an application of its own, writes all rows
    t3  try 3 applies nothing any more
    """
    insert = "INSERT INTO w.t SELECT id, concat('n', id) FROM range(0, 6000000, 1, 2)"
    files, once = AnyFilesystem(skip_instance_cache=True), Once(("test", "killed driver"))
    failed: list[Exception] = []
    with Engine(client, launcher("cluster", "t#1"), f"{home}/killed", agent_info="t#1") as engine:
        engine.run(
            "CREATE DATABASE w; CREATE TABLE w.t (id INT, name STRING) STORED AS ORC "
            "TBLPROPERTIES ('transactional'='true'); INSERT INTO w.t VALUES (-1, 'first')"
        )
        location = client.catalog.get_table("w.t").location
        (application,) = [key for key, each in _applications(secured).items() if each["state"] == "RUNNING"]

        def first_try() -> None:
            try:
                engine.run(insert, once=once)
            except JobFailedError as error:
                failed.append(error)

        trying = threading.Thread(target=first_try)
        trying.start()
        _until("staged rows", lambda: any(e.name.startswith("_tmp_") for e in files.list_files(location)))
        for jvm in _processes(application):
            if "ApplicationMaster" in " ".join(jvm.cmdline()):
                jvm.send_signal(signal.SIGKILL)
        trying.join(_SECONDS)
    (error,) = failed
    assert "yarn logs -applicationId" in str(error)
    with Engine(client, launcher("cluster", "t#2"), f"{home}/killed", agent_info="t#2") as engine:
        assert engine.run(insert, once=once)[0].inserted == 6000000
        engine.run(insert, once=once)
        assert engine.query("SELECT count(*), count(DISTINCT id) FROM w.t").rows == [[6000001, 6000001]]


@pytest.mark.rule("R5")
def test_the_application_of_a_killed_task_ends_and_so_does_one_that_a_lost_worker_has_left(
    launcher: Callable[..., AirflowSparkLauncher], secured: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Time line:

    t1  try 1 has an application; its worker is lost: spark-submit is gone, nobody has told YARN anything
    t2  try 2 starts one of its own, by which the first one ends
    t3  task 2 is killed: its application ends, too, and without the program ``yarn``
    """
    monkeypatch.setenv("PATH", ":".join(p for p in os.environ["PATH"].split(":") if not os.path.exists(f"{p}/yarn")))
    first = launcher("cluster", "airflow/d/r/t#1").start()
    lost = first.wait_ready()
    driver = first._driver  # type: ignore[attr-defined]
    os.killpg(driver._hook.process_group, signal.SIGKILL)
    assert _applications(secured)[lost]["state"] == "RUNNING"
    second = launcher("cluster", "airflow/d/r/t#2").start()
    own = second.wait_ready()
    _until("the one that was left has ended", lambda: _applications(secured)[lost]["state"] == "KILLED")
    _until("its containers are gone", lambda: not _processes(lost))
    second.run(JobSpec("one", Select("SELECT 1 AS a", second.rows_uri("one"))))
    assert list(second.read_rows(second.rows_uri("one"))) == [[1]]
    second.cancel()
    assert _applications(secured)[own]["state"] == "KILLED"
    _until("its containers are gone", lambda: not _processes(own))
    second.close()
    driver._remote = None  # it has ended already
    first.close()
