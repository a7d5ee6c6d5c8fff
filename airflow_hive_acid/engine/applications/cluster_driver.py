"""A driver that runs on the cluster, which the end of spark-submit does not end: a pod, or a YARN application."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from airflow_hive_acid.engine.applications.kubernetes import driver_pod
from airflow_hive_acid.engine.applications.yarn import yarn_application

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


class ClusterDriver(Protocol):
    """What can be done about a driver elsewhere."""

    @property
    def log_command(self) -> str:
        """Where its own log is: spark-submit says only how it fares."""

    def delete(self, said: str = "") -> bool:
        """End it now; fine if it has ended. Never raises: whoever calls it is clearing up.

        :param said: the output of spark-submit, as far as it is known.
        :return: whether the cluster was told.
        """


def cluster_driver(
    master: str,
    deploy_mode: str,
    conf: Mapping[str, str],
    program: str,
    environment: Mapping[str, str],
    properties: Path,
    spool: str,
    *,
    namespace: str | None = None,
    load_defaults: bool = True,
    user: str | None = None,
    login: tuple[str, str] | None = None,
) -> ClusterDriver | None:
    """The driver of an application, None where it is a process of this machine.

    :param conf: all settings that Spark will see.
    :param program: the spark-submit that asks for it.
    :param environment: what that is started with.
    :param properties: its file of settings.
    :param spool: of the application.
    :param namespace: of the Spark connection, on Kubernetes.
    :param user: whom the application acts for.
    :param login: principal and keytab file of the Spark connection.
    """
    pod = driver_pod(
        master, deploy_mode, conf, program, environment, properties, namespace=namespace, load_defaults=load_defaults
    )
    if pod is not None:
        return pod
    return yarn_application(master, deploy_mode, conf, program, environment, spool=spool, user=user, login=login)
