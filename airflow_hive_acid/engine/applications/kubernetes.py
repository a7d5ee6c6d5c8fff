"""Drivers in pods of Kubernetes (deploy mode ``cluster`` on ``k8s://…``): what they need, and how one is ended.

Nothing on this machine can be seen from a pod. spark-submit copies our job, package and jar to an upload path, from
where the pods fetch them; specs and results travel through the spool. The pod is named after the spool's directory, so
that it can be ended by name at any time: before spark-submit has said one, and when it has said nothing.
Source of the settings: Spark's "Running on Kubernetes".
"""

from __future__ import annotations

import logging
import re
import subprocess
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from airflow_hive_acid.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

log = logging.getLogger(__name__)

IMAGE = "spark.kubernetes.container.image"
NAMESPACE = "spark.kubernetes.namespace"
POD_NAME = "spark.kubernetes.driver.pod.name"
UPLOAD_PATH = "spark.kubernetes.file.upload.path"
_TEMPLATE = "spark.kubernetes.driver.podTemplateFile"
# Volumes of any other type are the pod's alone.
_MOUNT = re.compile(r"spark\.kubernetes\.driver\.volumes\.(?:persistentVolumeClaim|nfs|hostPath)\.[^.]+\.mount\.path")
_KILL_SECONDS = 60
_FRAME = re.compile(r"\s+at |\s+\.\.\. \d+ more|\s+Suppressed: java\.lang\.Throwable: waiting here")


def is_kubernetes(master: str) -> bool:
    """Whether driver or executors are pods."""
    return master.startswith("k8s://")


def require_pods(master: str, deploy_mode: str, conf: Mapping[str, str], spool: str | None, where: str) -> None:
    """Refuse what Kubernetes cannot run, as spark-submit or a pod would after half a minute.

    :param conf: all settings that Spark will see, those of ``spark-defaults.conf`` too.
    :param spool: below which the spools of applications lie.
    :param where: where the user sets them.
    :raises ConfigurationError: names the setting and the remedy.
    """
    if not is_kubernetes(master):
        return
    pods = ("executor",) if deploy_mode == "client" else ("driver", "executor")
    for pod in pods:
        own = f"spark.kubernetes.{pod}.container.image"
        if not conf.get(IMAGE, "").strip() and not conf.get(own, "").strip():
            raise ConfigurationError(
                f"Spark on {master} needs {IMAGE}: the image of the pods, which holds Python and the same Spark, for "
                f"example apache/spark:4.3.0-python3. Set it in {where} or in spark-defaults.conf"
            )
    if deploy_mode != "cluster" or conf.get(_TEMPLATE, "").strip():
        return  # a template may mount what we cannot see
    mounts = [path.strip() for key, path in conf.items() if _MOUNT.fullmatch(key)]
    for name, uri in (("the spool", spool), (UPLOAD_PATH, conf.get(UPLOAD_PATH))):
        path = _local_path(uri)
        if path is not None and not any(path.is_relative_to(mount) for mount in mounts if mount):
            raise ConfigurationError(
                f"{name} is {uri}, which the driver's pod on {master} cannot see: set it to a URI on shared storage, "
                "for example s3a://bucket/hive-acid, or mount the directory at the same path there: "
                "spark.kubernetes.driver.volumes.persistentVolumeClaim.NAME.mount.path and .options.claimName in "
                f"{where}"
            )


def pod_settings(master: str, deploy_mode: str, conf: Mapping[str, str], spool: str) -> dict[str, str]:
    """What the user has left to us: the name of the driver's pod, and where its files are put.

    Without a place of their own the files lie in the spool, which both sides reach and which goes with the application.

    :param conf: all settings that Spark will see.
    :param spool: the application's.
    """
    if deploy_mode != "cluster" or not is_kubernetes(master):
        return {}
    # At most 63 characters: it is the pod's host name, too.
    ours = {POD_NAME: f"hive-acid-{spool.rstrip('/').rpartition('/')[2]}-driver", UPLOAD_PATH: f"{spool}/upload"}
    return {key: value for key, value in ours.items() if not conf.get(key, "").strip()}


@dataclass(frozen=True, slots=True)
class DriverPod:
    """The pod of a driver, which spark-submit's end does not end.

    :param program: the spark-submit that asked for it.
    :param environment: what that was started with.
    :param properties: its file of settings, which say how to log in.
    :param options: more options of the command line.
    """

    master: str
    namespace: str
    name: str
    program: str
    environment: Mapping[str, str] = field(repr=False)
    properties: Path
    options: tuple[str, ...] = ()

    @property
    def log_command(self) -> str:
        """Where its own log is: spark-submit says only how it fares."""
        return f"The driver's log, if it got that far: kubectl logs -n {self.namespace} {self.name}"

    def delete(self, said: str = "") -> bool:
        """End it now; fine if it has ended. Never raises: whoever calls it is clearing up.

        :param said: the output of spark-submit, which is not needed: the pod's name is ours.
        :return: whether Kubernetes was told.
        """
        command = [self.program, "--master", self.master, "--properties-file", str(self.properties), *self.options]
        try:
            done = subprocess.run(
                [*command, "--kill", f"{self.namespace}:{self.name}"],
                env=dict(self.environment),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=_KILL_SECONDS,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            return self._told(str(error))
        return self._told(_reason(done.stderr) if done.returncode else None)

    def _told(self, problem: str | None) -> bool:
        if problem is None:
            log.info("driver pod %s in namespace %s was ended, if it was there", self.name, self.namespace)
            return True
        log.warning(
            "driver pod %s in namespace %s may still run: %s; end it with 'kubectl delete pod -n %s %s'",
            self.name,
            self.namespace,
            problem,
            self.namespace,
            self.name,
        )
        return False


def driver_pod(
    master: str,
    deploy_mode: str,
    conf: Mapping[str, str],
    program: str,
    environment: Mapping[str, str],
    properties: Path,
    *,
    namespace: str | None = None,
    load_defaults: bool = True,
) -> DriverPod | None:
    """The pod of an application's driver, None where it has none.

    :param conf: all settings that Spark will see.
    :param namespace: that of the Spark connection, which wins.
    """
    if deploy_mode != "cluster" or not is_kubernetes(master):
        return None
    options = ("--load-spark-defaults",) if load_defaults else ()
    place = namespace or conf.get(NAMESPACE, "").strip() or "default"
    return DriverPod(master, place, conf[POD_NAME].strip(), program, environment, properties, options)


def _reason(output: str) -> str:
    """The last line of an output that is not a place in a stack trace."""
    lines = [line.strip() for line in output.splitlines() if line.strip() and not _FRAME.match(line)]
    return lines[-1][:500] if lines else "spark-submit gave no reason"


def _local_path(uri: str | None) -> PurePosixPath | None:
    """The path of a URI on this machine's disks, None of any other."""
    if uri is None or not uri.strip():
        return None
    parts = urlsplit(uri.strip())
    return PurePosixPath(unquote(parts.path)) if parts.scheme in ("", "file") else None
