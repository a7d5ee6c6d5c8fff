"""Keeps a Spark service alive: a task as long as the service, which Airflow starts again when it dies (decision 64)."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.sdk import BaseOperator

from airflow_hive_acid.airflow_versions import seconds_of
from airflow_hive_acid.errors import HiveAcidError, JobFailedError
from airflow_hive_acid.hooks.arguments import (
    Takes,
    check_parsed,
    check_rendered,
    count,
    optional_mapping,
    seconds,
    some_text,
)
from airflow_hive_acid.hooks.configuration import DEFAULT_CONN_ID
from airflow_hive_acid.hooks.tasks import fail_task, stop_on_kill

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import timedelta

    from airflow.sdk import Context

    from airflow_hive_acid.engine.applications.spool import SpoolSession

#: Between two looks whether it still runs.
_LOOK_SECONDS = 1.0


class HiveAcidSparkServiceOperator(BaseOperator):
    """Runs a Spark service, a Spark that runs the statements of other tasks, until it ends or the task is ended.

    Its Spark is that of the connection. The task keeps its worker slot as long as the service lives: the service is
    a child of the task, so that it ends with it, whatever ends it. The task fails when the service dies, and a retry
    starts it anew; statements that ran in it fail, too, and are applied once by their own retries (R14).

    :param service: its name, as tasks and connections give it with ``spark_service``. (templated)
    :param places: statements at a time; others wait for their turn.
    :param max_callers: tasks at a time; others start a Spark of their own.
    :param max_idle: seconds, or a ``timedelta``, without a caller after which the service ends, and the
        task succeeds; None: never.
    :param hive_acid_conn_id: connection of type ``hive_acid``; the service lies below its ``spool``. (templated)
    :param spark_conn_id: Spark connection instead of the one that the connection names. (templated)
    :param spark_conf: Spark settings of the service; they win over the connection's.
    """

    template_fields: Sequence[str] = ("service", "hive_acid_conn_id", "spark_conn_id")
    ui_color = "#fde2cf"
    takes: ClassVar[Takes] = {
        "service": some_text("the name of the service"),
        "places": count(1),
        "max_callers": count(1),
        "max_idle": seconds(0.001, optional=True),
        "spark_conf": optional_mapping("Spark's settings to their values"),
    }

    def __init__(
        self,
        *,
        service: str = "default",
        places: int = 4,
        max_callers: int = 32,
        max_idle: float | timedelta | None = None,
        hive_acid_conn_id: str = DEFAULT_CONN_ID,
        spark_conn_id: str | None = None,
        spark_conf: Mapping[str, str] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.service = service
        self.places = places
        self.max_callers = max_callers
        self.max_idle = seconds_of(max_idle)
        self.hive_acid_conn_id = hive_acid_conn_id
        self.spark_conn_id = spark_conn_id
        self.spark_conf = spark_conf
        self._ending = threading.Event()
        self._application: SpoolSession | None = None
        check_parsed(self, self.takes)

    def execute(self, context: Context) -> None:
        """Serve."""
        from airflow_hive_acid.engine.applications.found_services import service_directory
        from airflow_hive_acid.engine.applications.service import ServiceSettings, serving
        from airflow_hive_acid.hooks.hive_acid import HiveAcidHook

        try:
            check_rendered(self, self.takes)
        except HiveAcidError as error:
            fail_task(error)
        settings = ServiceSettings(self.places, self.max_callers, self.max_idle)
        hook = HiveAcidHook(self.hive_acid_conn_id, spark_conn_id=self.spark_conn_id, spark_conf=self.spark_conf)
        try:
            with hook:
                uri = service_directory(self.service, hook.connection.spool)
                with serving(hook.get_launcher(), uri, settings) as application:
                    self._application = application
                    said = application.wait_ready()
                    self.log.info("Spark service %r (%s) serves callers, in %s", self.service, said, uri)
                    while application.is_alive and not self._ending.wait(_LOOK_SECONDS):
                        pass
                    if not self._ending.is_set() and application.exit_code:
                        raise JobFailedError(f"the Spark service {self.service!r} has ended\n{application.log_tail()}")
        except HiveAcidError as error:
            fail_task(error)
        finally:
            self._application = None
        why = "it was told to" if self._ending.is_set() else f"nobody has called for {self.max_idle} s"
        self.log.info("Spark service %r has ended: %s", self.service, why)

    def on_kill(self) -> None:
        """End the service; its callers start a Spark of their own from then on."""
        self._ending.set()
        application = self._application
        if application is not None:
            stop_on_kill(application.cancel)
