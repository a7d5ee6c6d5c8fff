"""What pods need, looked at before anything is begun, and what is said to Kubernetes at the end."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_hive_acid.engine.applications.kubernetes import driver_pod, pod_settings, require_pods
from airflow_hive_acid.errors import ConfigurationError

MASTER = "k8s://https://api:443"
IMAGE = {"spark.kubernetes.container.image": "spark:4"}
VOLUMES = "spark.kubernetes.driver.volumes"


@pytest.mark.parametrize(
    ("deploy_mode", "conf", "spool"),
    [
        ("client", {"spark.kubernetes.executor.container.image": "spark:4"}, None),
        ("client", IMAGE, "file:///tmp/spool"),
        ("cluster", IMAGE, "s3a://bucket/spool"),
        ("cluster", IMAGE, "hdfs:///tmp/spool"),
        ("cluster", IMAGE | {f"{VOLUMES}.persistentVolumeClaim.x.mount.path": "/mnt/x"}, "file:///mnt/x/spool"),
        ("cluster", IMAGE | {f"{VOLUMES}.nfs.x.mount.path": "/mnt/x/"}, "file:///mnt/x"),
        ("cluster", IMAGE | {f"{VOLUMES}.nfs.x.mount.path": "/mnt/a b"}, "file:///mnt/a%20b/spool"),
        ("cluster", IMAGE | {"spark.kubernetes.driver.podTemplateFile": "t.yaml"}, "file:///mnt/x"),
    ],
)
def test_what_pods_can_reach_is_taken(deploy_mode, conf, spool):
    require_pods(MASTER, deploy_mode, conf, spool, "here")


@pytest.mark.parametrize(
    ("deploy_mode", "conf", "spool", "reason"),
    [
        ("client", {}, None, "needs spark.kubernetes.container.image: .* in here or in spark-defaults.conf"),
        (
            "cluster",
            {"spark.kubernetes.executor.container.image": "x"},
            "s3a://b/s",
            "needs spark.kubernetes.container",
        ),
        ("cluster", IMAGE, "file:///tmp/spool", "the spool is file:///tmp/spool, which the driver's pod"),
        ("cluster", IMAGE | {f"{VOLUMES}.nfs.x.mount.path": "/mnt/x"}, "file:///mnt/xy", "the spool is file:///mnt/xy"),
        ("cluster", IMAGE | {f"{VOLUMES}.emptyDir.x.mount.path": "/mnt/x"}, "file:///mnt/x/s", "the spool is"),
        (
            "cluster",
            IMAGE | {"spark.kubernetes.file.upload.path": "file:///tmp/up"},
            "s3a://b/s",
            "spark.kubernetes.file.upload.path is file:///tmp/up, which the driver's pod .*options.claimName in here",
        ),
    ],
)
def test_what_no_pod_can_reach_is_refused_with_the_remedy(deploy_mode, conf, spool, reason):
    with pytest.raises(ConfigurationError, match=reason):
        require_pods(MASTER, deploy_mode, conf, spool, "here")


def test_other_masters_have_no_pods():
    require_pods("yarn", "cluster", {}, "file:///tmp/spool", "here")
    assert pod_settings("yarn", "cluster", {}, "hdfs:///s/session-1") == {}
    assert driver_pod("yarn", "cluster", {}, "spark-submit", {}, Path("p")) is None
    assert driver_pod(MASTER, "client", {}, "spark-submit", {}, Path("p")) is None


def test_what_the_user_says_of_the_pods_name_and_the_files_place_counts():
    name, place = "spark.kubernetes.driver.pod.name", "spark.kubernetes.file.upload.path"
    assert pod_settings(MASTER, "client", {}, "s3a://b/session-1") == {}
    assert pod_settings(MASTER, "cluster", {name: " "}, "s3a://b/session-1") == {
        name: "hive-acid-session-1-driver",
        place: "s3a://b/session-1/upload",
    }
    assert pod_settings(MASTER, "cluster", {name: "mine", place: "s3a://b/u"}, "s3a://b/session-1") == {}


@pytest.mark.parametrize(
    ("script", "told", "logged"),
    [
        ("exit 0", True, "driver pod d in namespace default was ended"),
        (
            "printf 'Forbidden: pods is forbidden\\n\\tat io.fabric8.X.y(X.java:1)\\n\\t... 1 more\\n' >&2; exit 1",
            False,
            "driver pod d in namespace default may still run: Forbidden: pods is forbidden; end it with "
            "'kubectl delete pod -n default d'",
        ),
    ],
)
def test_a_pod_that_could_not_be_ended_is_named_with_the_command_that_ends_it(tmp_path, caplog, script, told, logged):
    program = tmp_path / "spark-submit"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    caplog.set_level("INFO", logger="airflow_hive_acid")
    conf = {"spark.kubernetes.driver.pod.name": "d"}
    pod = driver_pod(MASTER, "cluster", conf, str(program), {}, tmp_path / "properties")
    assert pod.delete() is told
    assert logged in caplog.text


def test_a_missing_program_is_no_error_of_whoever_clears_up(tmp_path, caplog):
    conf = {"spark.kubernetes.driver.pod.name": "d"}
    assert (
        driver_pod(MASTER, "cluster", conf, str(tmp_path / "none"), {}, tmp_path / "p", namespace="n").delete() is False
    )
    assert "kubectl delete pod -n n d" in caplog.text
