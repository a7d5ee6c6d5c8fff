"""Spark on Kubernetes: the pods, config maps and deletions that real ``spark-submit`` asks an API server for.

The server and its kubelet are the tests' own (kubernetes_api.py). A pod is processes that see neither this checkout
nor its packages; what they need of the package reaches them by the upload path.
"""

from __future__ import annotations

import json
import os
import re
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from airflow_hive_acid.engine import Engine, SparkSubmitLauncher
from airflow_hive_acid.errors import JobFailedError
from airflow_hive_acid.format.jobs import JobSpec, Select
from airflow_hive_acid.metastore import MetastoreClient

from .kubernetes_api import Kubernetes, kubernetes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = [pytest.mark.spark, pytest.mark.story("a table on Kubernetes")]


@pytest.fixture
def volume(tmp_path: Path) -> Path:
    """A directory that worker and pods see under the same path, as a claim that is mounted on both."""
    (tmp_path / "volume").mkdir()
    return tmp_path / "volume"


@pytest.fixture
def launcher(volume: Path, tmp_path: Path, monkeypatch: Any) -> Callable[..., SparkSubmitLauncher]:
    """Make launchers of one cluster: ``launcher(cluster, deploy_mode)``."""
    for name in ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"):  # they would go along, and other tests set them
        monkeypatch.delenv(name, raising=False)
    jar = tmp_path / "accelerator.jar"
    jar.write_bytes(b"PK\5\6" + bytes(18))

    def make(cluster: Kubernetes, deploy_mode: str, **conf: str) -> SparkSubmitLauncher:
        claim = "volumes.persistentVolumeClaim.shared"
        settings = {
            "spark.kubernetes.container.image": "spark:4",
            "spark.kubernetes.namespace": "etl",
            "spark.kubernetes.authenticate.driver.serviceAccountName": "spark",
            "spark.kubernetes.driver.master": cluster.url,
            "spark.executor.instances": "1",
            "spark.executor.memory": "512m",
            "spark.driver.memory": "512m",
            "spark.ui.enabled": "false",
            "spark.sql.shuffle.partitions": "2",
            "spark.executor.extraJavaOptions": os.environ["SPARK_SUBMIT_OPTS"],
        }
        if deploy_mode == "client":
            settings["spark.driver.host"] = "127.0.0.1"
        for pod in ("driver", "executor"):
            settings[f"spark.kubernetes.{pod}.{claim}.mount.path"] = str(volume)
            settings[f"spark.kubernetes.{pod}.{claim}.options.claimName"] = "hive-acid"
        return SparkSubmitLauncher(
            f"k8s://{cluster.url}",
            settings | conf,
            deploy_mode=deploy_mode,
            spool=(volume / "spool").as_uri(),
            log_directory=tmp_path / "logs",
            environment={"SPARK_LOCAL_IP": "127.0.0.1"},
            accelerator=str(jar),
        )

    return make


@pytest.fixture
def pods(tmp_path: Path) -> Iterator[Kubernetes]:
    """A cluster that runs what it is asked for."""
    (tmp_path / "pods").mkdir()
    with kubernetes(tmp_path / "pods") as cluster:
        yield cluster


@pytest.mark.parametrize("deploy_mode", ["cluster", "client"])
def test_a_table_lives_on_pods(
    deploy_mode: str, pods: Kubernetes, launcher: Callable[..., SparkSubmitLauncher], volume: Path, tmp_path: Path
) -> None:
    client = MetastoreClient(f"sqlite:///{tmp_path / 'metastore.db'}")
    client.create_schema()
    with client, Engine(client, launcher(pods, deploy_mode), (volume / "warehouse").as_uri()) as engine:
        engine.run(
            "CREATE DATABASE w; CREATE TABLE w.t (id INT, name STRING) STORED AS ORC "
            "TBLPROPERTIES ('transactional'='true'); INSERT INTO w.t SELECT id, concat('n', id) FROM range(100); "
            "UPDATE w.t SET name = 'x' WHERE id < 10; DELETE FROM w.t WHERE id >= 50"
        )
        assert engine.query("SELECT count(*), count_if(name = 'x'), sum(id) FROM w.t").rows == [[50, 10, 1225]]
        (executor,) = pods.of_kind("pods", "executor")
        assert executor["spec"]["containers"][0]["image"] == "spark:4"
        assert executor["metadata"]["namespace"] == "etl"
        assert executor["spec"]["restartPolicy"] == "Never"
        drivers = pods.of_kind("pods", "driver")
        owners = [owner["uid"] for owner in executor["metadata"].get("ownerReferences", [])]
        assert owners == [driver["metadata"]["uid"] for driver in drivers]
        assert len(drivers) == (deploy_mode == "cluster")
    pods.until("the executors are gone", lambda: not pods.of_kind("pods", "executor"))
    assert pods.asked <= _granted()
    assert list((volume / "spool").iterdir()) == []
    for driver in drivers:
        assert driver["status"]["phase"] == "Succeeded"


@pytest.mark.rule("R5")
def test_driver_pod_is_started_once_finds_its_files_and_is_deleted_when_the_application_is_stopped(
    launcher: Callable[..., SparkSubmitLauncher], volume: Path, tmp_path: Path
) -> None:
    """The recorded contract: what our launcher makes spark-submit send for deploy mode cluster."""
    (tmp_path / "pods").mkdir()
    with kubernetes(tmp_path / "pods", runs=()) as cluster:
        session = launcher(cluster, "cluster", **{"spark.hadoop.fs.s3a.secret.key": "hunter2"}).start()
        (pod,) = cluster.until("a driver", lambda: cluster.of_kind("pods", "driver"))
        (settings,) = cluster.until("its settings", lambda: cluster.of_kind("configmaps"))
        (spool,) = (volume / "spool").iterdir()
        assert pod["metadata"]["name"] == f"hive-acid-{spool.name}-driver"
        assert len(pod["metadata"]["name"]) <= 63
        spec = pod["spec"]
        (container,) = spec["containers"]
        assert (spec["restartPolicy"], spec["serviceAccountName"]) == ("Never", "spark")
        assert (container["image"], container["args"][0]) == ("spark:4", "driver")
        claims = {v["name"]: v["persistentVolumeClaim"]["claimName"] for v in spec["volumes"] if v["name"] == "shared"}
        assert claims == {"shared": "hive-acid"}
        assert str(volume) in [mount["mountPath"] for mount in container["volumeMounts"]]
        (program,) = [Path(each[7:]) for each in container["args"] if each.endswith("session.py")]
        assert program.is_relative_to(spool / "upload")
        assert container["args"][-4:] == ["--spool", spool.as_uri(), "--idle-seconds", "60"]
        sent = dict(line.replace("\\", "").split("=", 1) for line in _lines(settings))
        package, jar = (Path(sent[key][7:]) for key in ("spark.submit.pyFiles", "spark.jars"))
        assert package.is_relative_to(spool / "upload")
        assert package.name.startswith("airflow_hive_acid-")
        assert jar.is_relative_to(spool / "upload")
        assert jar.name == "accelerator.jar"
        assert all(each.is_file() for each in (program, package, jar))
        # A secret among the settings is in the config map; docs/how-to/running/clusters.md says where to put it.
        assert sent["spark.hadoop.fs.s3a.secret.key"] == "hunter2"
        assert "hunter2" not in json.dumps(pod)
        # Nothing of this machine's environment: the variables are those that Spark itself makes.
        assert not {each["name"] for each in container["env"]} & {"PYTHONPATH", "PATH", "PYSPARK_DRIVER_PYTHON"}
        for owned in (settings, *cluster.of_kind("services")):
            assert [owner["uid"] for owner in owned["metadata"]["ownerReferences"]] == [pod["metadata"]["uid"]]
        session.cancel()
        session.close()
        assert ("DELETE", f"/api/v1/namespaces/etl/pods/{pod['metadata']['name']}") in [
            (method, path.partition("?")[0]) for method, path in cluster.requests
        ]
        assert cluster.objects == {}
        assert list((volume / "spool").iterdir()) == []


def _granted() -> set[tuple[str, str]]:
    """Verbs and resources of the Role that the documents tell to make."""
    page = (Path(__file__).parents[2] / "docs" / "how-to" / "running" / "clusters.md").read_text()
    role = next(
        yaml.safe_load(block) for block in re.findall(r"```yaml\n(.*?)```", page, re.S) if "kind: Role\n" in block
    )
    return {(verb, kind) for rule in role["rules"] for verb in rule["verbs"] for kind in rule["resources"]}


def _lines(settings: dict[str, Any]) -> list[str]:
    return [line for line in settings["data"]["spark.properties"].splitlines() if not line.startswith("#")]


def test_a_lost_driver_fails_its_step_at_once_and_takes_its_executors_with_it(
    pods: Kubernetes, launcher: Callable[..., SparkSubmitLauncher], volume: Path
) -> None:
    """Time line:

    t1  a step of an application is running, on a pod of its own
    k   deletes the driver's pod, as a node that is drained would
    t1  fails; the pod of the executor is collected with its owner
    """
    session = launcher(pods, "cluster").start()
    failed: list[Exception] = []

    def run() -> None:
        query = "SELECT java_method('java.lang.Thread', 'sleep', 3600000L) FROM range(1)"
        try:
            session.run(JobSpec("sleeps", Select(query, session.rows_uri("sleeps"))))
        except JobFailedError as error:
            failed.append(error)

    step = threading.Thread(target=run)
    step.start()
    try:
        pods.until("a step", lambda: list((volume / "spool").glob("session-*/0001.spec.json")))
        pods.until("an executor", lambda: pods.of_kind("pods", "executor"))
        (driver,) = pods.of_kind("pods", "driver")
        assert pods.delete("etl", "pods", driver["metadata"]["name"])
        step.join(60)
        (error,) = failed
        assert "while it ran a step" in str(error)
        assert f"kubectl logs -n etl {driver['metadata']['name']}" in str(error)
        assert pods.of_kind("pods") == []
    finally:
        session.cancel()
        session.close()
        step.join(60)
