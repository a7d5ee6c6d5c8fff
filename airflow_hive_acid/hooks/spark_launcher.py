"""Starts Spark applications through Airflow's ``SparkSubmitHook`` and a Spark connection.

The connection says where Spark runs; one that does not exist is an error, because the hook would take it for "yarn".
Settings travel in a file that only its owner can read, and the application's environment holds nothing that could open
the metastore or Airflow. spark-submit runs in a thread, in a process group of its own, and its output goes to the
task's log; what is said to the application goes through the spool (decision 1).
"""

from __future__ import annotations

import base64
import os
import shutil
import tempfile
import uuid
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from airflow.sdk import BaseHook

from airflow_hive_acid import resources
from airflow_hive_acid.airflow_versions import AirflowNotFoundException
from airflow_hive_acid.engine.applications.cluster_driver import cluster_driver
from airflow_hive_acid.engine.applications.java import SPARK_REMEDY, find_spark_submit, require_java
from airflow_hive_acid.engine.applications.job_environment import job_environment
from airflow_hive_acid.engine.applications.kubernetes import is_kubernetes, pod_settings, require_pods
from airflow_hive_acid.engine.applications.launcher import make_spool, require_driver_place, session_of
from airflow_hive_acid.engine.applications.package_zip import cluster_package
from airflow_hive_acid.engine.applications.spark_conf import (
    configuration,
    is_local,
    renewal_settings,
    with_application,
    write_properties,
)
from airflow_hive_acid.engine.applications.spark_defaults import site_defaults
from airflow_hive_acid.engine.applications.spark_version import installed_spark, name_home, require_spark
from airflow_hive_acid.engine.applications.yarn import YarnApplication, earlier_applications, yarn_settings
from airflow_hive_acid.errors import ConfigurationError
from airflow_hive_acid.hooks import shared_spark
from airflow_hive_acid.hooks.spark_driver import HookDriver
from airflow_hive_acid.maintenance.worker.jobs import QUEUE, Application

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from airflow_hive_acid.engine.applications.cluster_driver import ClusterDriver
    from airflow_hive_acid.engine.applications.launcher import JobSession
    from airflow_hive_acid.engine.applications.spark_version import InstalledSpark
    from airflow_hive_acid.engine.applications.spool import SpoolSession
    from airflow_hive_acid.hooks.spark_submit import TappedSparkSubmitHook

_ANY = Application()
_PROPERTIES = "spark.properties"


@dataclass(frozen=True, slots=True)
class AirflowSparkLauncher:
    """A :class:`~airflow_hive_acid.engine.applications.launcher.JobLauncher` over a Spark connection.

    :param spark_conn_id: the Spark connection; must exist.
    :param conf: Spark settings; handed over in a file, so they may hold secrets.
    :param spool: URI below which session directories are made; a private directory on this machine by default.
    :param user: whom applications act for that name nobody (``spark-submit --proxy-user``).
    :param name: name of the applications.
    :param start_seconds: how long an application may wait for its place and start.
    :param idle_seconds: after how long without a sign of us the driver leaves by itself.
    :param accelerator: ``hive.acid.spark.accelerator``: ``auto``, ``off``, or the path of the jar.
    :param passed_on: names of variables that jobs get beside those they always get (``hive.acid.job.environment``).
    :param task: whose applications they are, ``….#<try>``; by it the next try finds one that was left on YARN.
    :param share: take and give back applications within this process, see :mod:`airflow_hive_acid.hooks.shared_spark`.
    """

    spark_conn_id: str
    conf: Mapping[str, str] = field(default_factory=dict)
    spool: str | None = None
    name: str = "hive-acid"
    start_seconds: float = 300.0
    idle_seconds: int = 60
    share: bool = False
    accelerator: str = "auto"
    passed_on: tuple[str, ...] = ()
    task: str | None = None
    user: str | None = None

    def start(self, application: Application = _ANY) -> JobSession:
        """Start an application in the background.

        :param application: its name, and what it must be like; an application that another task has given back serves
            whatever it is called.
        :raises ConfigurationError: no such connection, no Java, no Spark or another one than this package supports, a
            driver on the cluster without a spool it can reach, or on one that cannot run it, pods without an image, or
            Kubernetes without Airflow's provider for it.
        """
        target = spark_target(self.spark_conn_id)
        application = self._for_user(application)
        if not self.share:
            return self._start(target, application)
        own = (("accelerator", self.accelerator), ("environment", self.passed_on))
        settings = (*sorted(self._conf(target, application).items()), *own)
        key = (target, self.spark_conn_id, application.user, self.spool, settings)
        return shared_spark.take(key, lambda: self._start(target, application))

    def _conf(self, target: SparkTarget, application: Application) -> dict[str, str]:
        return with_application(target.master, self.conf, application)

    def _start(self, target: SparkTarget, application: Application) -> SpoolSession:
        return self._start_job("session", [], {}, target, application)

    def start_job(
        self, job: str, arguments: Sequence[str], conf: Mapping[str, str], application: Application
    ) -> SpoolSession:
        """Start one of our own Spark jobs that serve a spool, in the background.

        :param job: its name, see :func:`~airflow_hive_acid.resources.spark_job`.
        :param arguments: beside those that each of them has.
        :param conf: Spark settings that it needs, over those of the user.
        :raises ConfigurationError: as :meth:`start`.
        """
        return self._start_job(job, arguments, conf, spark_target(self.spark_conn_id), self._for_user(application))

    def _start_job(
        self,
        job: str,
        arguments: Sequence[str],
        conf: Mapping[str, str],
        target: SparkTarget,
        application: Application,
    ) -> SpoolSession:
        script = str(resources.spark_job(job))
        driver, spool = self._submit(
            target,
            application,
            lambda spool: (script, ["--spool", spool, "--idle-seconds", str(self.idle_seconds), *arguments], conf),
        )
        return session_of(driver, spool, self.start_seconds)

    def submit(
        self, script: str, arguments: Sequence[str], conf: Callable[[str], Mapping[str, str]], application: Application
    ) -> tuple[HookDriver, str]:
        """Start somebody's own program with a spool directory, on which nobody listens yet.

        :param conf: from the URI of the spool to more Spark settings.
        :return: the running program, and the spool.
        """
        target = spark_target(self.spark_conn_id)
        return self._submit(target, self._for_user(application), lambda spool: (script, list(arguments), conf(spool)))

    def _for_user(self, application: Application) -> Application:
        return replace(application, user=self.user) if application.user is None else application

    def _submit(
        self,
        target: SparkTarget,
        application: Application,
        program_of: Callable[[str], tuple[str, list[str], Mapping[str, str]]],
    ) -> tuple[HookDriver, str]:
        self._require_place(target)
        machine = _Machine.of(target, self.passed_on)
        conf = self._conf(target, application)
        if is_kubernetes(target.master):
            self._require_pods(target, machine, conf)
        scratch = Path(tempfile.mkdtemp(prefix="hive-acid-"))  # private: mode 0700
        try:
            below = scratch.as_uri() if self.spool is None else self.spool.rstrip("/")
            spool = f"{below}/session-{uuid.uuid4()}"
            make_spool(spool, private=target.deploy_mode == "client" or application.user is None)
            program, arguments, more = program_of(spool)
            settings = self._settings(target, machine, conf, more, spool, scratch)
            write_properties(scratch / _PROPERTIES, settings)
            hook = self._hook(target, scratch, arguments, application, machine.loads_defaults)
            environment = dict(machine.environment)
            if application.user is not None:
                environment |= hook.take_ticket(scratch)
            remote = cluster_driver(
                target.master,
                target.deploy_mode,
                {**machine.site, **settings},
                hook.program,
                environment,
                scratch / _PROPERTIES,
                spool,
                namespace=target.namespace,
                load_defaults=machine.loads_defaults,
                user=application.user,
                login=hook.login,
            )
            self._delete_earlier(remote)
            return HookDriver(hook, program, environment, scratch, remote), spool
        except BaseException:
            shutil.rmtree(scratch, ignore_errors=True)
            raise

    def _require_place(self, target: SparkTarget) -> None:
        """Refuse a driver where it cannot run, or where nobody could hear of it."""
        remedy = f': put "deploy-mode": "client" into the extra of Spark connection {self.spark_conn_id!r}'
        require_driver_place(target.master, target.deploy_mode, remedy)
        if target.deploy_mode == "cluster" and self.spool is None:
            raise ConfigurationError(
                f"Spark connection {self.spark_conn_id!r} runs drivers on the cluster ({target.master}), so specs and "
                'results need a directory that both sides reach; put "spool": "hdfs:///tmp/hive-acid" or another URI '
                "on shared storage into the extra of the hive_acid connection"
            )

    def _require_pods(self, target: SparkTarget, machine: _Machine, conf: Mapping[str, str]) -> None:
        """Refuse Kubernetes without its provider, and pods that lack what they need."""
        _require_kubernetes_provider(self.spark_conn_id)
        if machine.spark is not None:  # else nobody knows which spark-defaults.conf counts
            where = "the extra of the hive_acid connection"
            require_pods(target.master, target.deploy_mode, {**machine.site, **conf}, self.spool, where)

    def _settings(
        self,
        target: SparkTarget,
        machine: _Machine,
        conf: Mapping[str, str],
        more: Mapping[str, str],
        spool: str,
        scratch: Path,
    ) -> dict[str, str]:
        """All that spark-submit is told by file.

        :param conf: of the connection and of the application; ``more`` of the program, over those.
        """
        site, mode = machine.site, target.deploy_mode
        conf = {**conf, **pod_settings(target.master, mode, {**site, **conf}, spool), **more}
        conf |= yarn_settings(target.master, {**site, **conf}, spool, self._owner)
        conf |= renewal_settings(mode, {**site, **conf}, target.principal)
        settings = configuration(target.master, str(scratch), conf, self.accelerator, mode, machine.spark)
        return settings if machine.loads_defaults else {**site, **settings}

    @property
    def _owner(self) -> str | None:
        """Whose applications are found again on YARN; one that is shared belongs to no task."""
        return None if self.share else self.task

    def _delete_earlier(self, remote: ClusterDriver | None) -> None:
        """Have an application deleted that an earlier try of the task has left on YARN."""
        earlier = earlier_applications(remote, self._owner) if isinstance(remote, YarnApplication) else None
        if earlier is not None:
            earlier.delete_in_background()  # nothing waits for it: their files are fenced (R4)

    def _hook(
        self,
        target: SparkTarget,
        scratch: Path,
        arguments: list[str],
        application: Application,
        load_defaults: bool,
    ) -> TappedSparkSubmitHook:
        return _submit_hook()(
            conn_id=self.spark_conn_id,
            deploy_mode=target.deploy_mode,
            name=self.name if application.name == _ANY.name else application.name,
            proxy_user=application.user,
            # As an argument, because the connection may name a queue, and arguments win over the file.
            yarn_queue=application.conf.get(QUEUE),
            properties_file=str(scratch / _PROPERTIES),
            keytab=_keytab(self.spark_conn_id, target, scratch),
            principal=target.principal,
            py_files=None if is_local(target.master) else str(cluster_package()),
            application_args=arguments,
            spark_binary=target.spark_binary,
            load_defaults=load_defaults,
        )


@dataclass(frozen=True, slots=True)
class SparkTarget:
    """Where a Spark connection sends applications.

    :param spark_binary: the program to start; None when the connection names its own.
    :param principal: who logs in to Kerberos, with the ``keytab`` (base64).
    :param namespace: of the pods, on Kubernetes; None when the settings say it.
    """

    master: str
    deploy_mode: str
    spark_binary: str | None
    principal: str | None = None
    keytab: str | None = field(default=None, repr=False)
    namespace: str | None = None


@dataclass(frozen=True, slots=True)
class _Machine:
    """What an application finds on this machine.

    :param environment: of spark-submit, and with it of the application.
    :param spark: None when nobody knows what the connection's own program starts.
    :param site: of its ``spark-defaults.conf``.
    """

    environment: Mapping[str, str]
    spark: InstalledSpark | None
    site: Mapping[str, str]

    @classmethod
    def of(cls, target: SparkTarget, passed_on: Sequence[str]) -> _Machine:
        """Look for Java and Spark.

        :raises ConfigurationError: when there is none, or another one than this package supports.
        """
        environment = job_environment(target.master, target.deploy_mode, passed_on)
        require_java(environment)
        spark = _spark_of(target, environment)
        name_home(environment, target.deploy_mode, spark)
        return cls(environment, spark, site_defaults(environment, target.spark_binary))

    @property
    def loads_defaults(self) -> bool:
        """Whether spark-submit reads ``spark-defaults.conf`` beside a file of ours; else that holds what it says."""
        return self.spark is None or self.spark.loads_defaults


def _keytab(conn_id: str, target: SparkTarget, scratch: Path) -> str | None:
    """The connection's keytab as a file that only we can read and that vanishes with the application.

    The hook would leave one in /tmp for good, and do without a login when it cannot write it.
    """
    if target.keytab is None:
        return None
    path = scratch / "keytab"
    try:
        content = base64.b64decode(target.keytab, validate=True)
    except ValueError:
        raise ConfigurationError(
            f"the keytab in the extra of Spark connection {conn_id!r} is no base64; put in what 'base64 -w0 <keytab>' "
            "prints"
        ) from None
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(content)
    return str(path)


def spark_target(conn_id: str) -> SparkTarget:
    """Read a Spark connection.

    :raises ConfigurationError: when it does not exist or names no master; says how to make one.
    """
    remedy = f"airflow connections add {conn_id} --conn-type spark --conn-host 'local[*]'"
    try:
        connection = BaseHook.get_connection(conn_id)
    except AirflowNotFoundException:
        raise ConfigurationError(
            f"there is no Spark connection {conn_id!r}, and where to run Spark is never guessed; make one, for "
            f"example: {remedy}"
        ) from None
    host = connection.host or ""
    if connection.conn_type == "spark" and not host:
        raise ConfigurationError(f"Spark connection {conn_id!r} names no master in its host; for example: {remedy}")
    # The same rules as SparkSubmitHook's, which keeps the answer to itself.
    if connection.conn_type == "spark" and ("://" in host or not connection.port):
        master = host
    else:
        master = f"{connection.conn_type}://{host}"
    if connection.port:
        master = f"{master}:{connection.port}"
    extra = connection.extra_dejson
    return SparkTarget(
        master=master,
        deploy_mode=str(extra.get("deploy-mode") or "client"),
        spark_binary=None if extra.get("spark-binary") else find_spark_submit(os.environ),
        principal=extra.get("principal") or None,
        keytab=extra.get("keytab") or None,
        namespace=extra.get("namespace") or None,
    )


def _spark_of(target: SparkTarget, environment: Mapping[str, str]) -> InstalledSpark | None:
    """What will be started, as far as it can be told.

    :raises ConfigurationError: when it is known not to fit.
    """
    if target.spark_binary is not None:
        return require_spark(target.spark_binary, environment)
    # A program that the connection names is somebody's own: SPARK_HOME says what it starts, else the driver will.
    return installed_spark("spark-submit", environment) if environment.get("SPARK_HOME") else None


def _require_kubernetes_provider(conn_id: str) -> None:
    """Airflow's SparkSubmitHook takes no master on Kubernetes without that provider, and fails on a name.

    :raises ConfigurationError: when it is not installed.
    """
    _submit_hook()
    from airflow.providers.apache.spark.hooks import spark_submit

    if getattr(spark_submit, "kube_client", None) is None:
        raise ConfigurationError(
            f"Spark connection {conn_id!r} leads to Kubernetes, for which Airflow's SparkSubmitHook needs one more "
            "provider on this worker: 'pip install apache-airflow-providers-cncf-kubernetes'"
        )


def _submit_hook() -> type[TappedSparkSubmitHook]:
    """Our form of Airflow's hook; loaded only where Spark is started, because its package is optional.

    :raises ConfigurationError: when Airflow's Spark provider is not installed.
    """
    try:
        from airflow_hive_acid.hooks.spark_submit import TappedSparkSubmitHook
    except ModuleNotFoundError as error:
        if not (error.name or "").startswith("airflow.providers.apache"):
            raise
        raise ConfigurationError(
            "Airflow's Spark provider is not installed on this worker; Spark connections need it. "
            f"{SPARK_REMEDY}; beside a Spark of its own: 'pip install apache-airflow-providers-apache-spark'"
        ) from None
    return TappedSparkSubmitHook
