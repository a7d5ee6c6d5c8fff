"""Waits until no lease is in the way any more."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseSensorOperator, conf
from airflow.sdk.exceptions import AirflowException, AirflowSensorTimeout, AirflowSkipException

from airflow_hive_acid.errors import HiveAcidError
from airflow_hive_acid.hooks.configuration import DEFAULT_CONN_ID
from airflow_hive_acid.hooks.tasks import fail_task
from airflow_hive_acid.triggers.leases import LeasesEndedTrigger, describe_leases, leases_in_the_way

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow.sdk import Context


class HiveLeaseSensor(BaseSensorOperator):
    """Waits until nobody holds a lease that excludes one of ``type`` on the objects; it takes none itself.

    When it gives up it says which leases are still held, by whom and until when.

    :param objects: one or several of ``db.table`` and ``db.table/k=v``. (templated)
    :param type: ``x`` waits for every lease, ``s`` only for exclusive ones. (templated)
    :param deferrable: wait in the triggerer instead of in a worker slot.
    :param hive_acid_conn_id: connection of type ``hive_acid``. (templated)
    """

    template_fields: Sequence[str] = ("objects", "type", "hive_acid_conn_id")
    ui_color = "#fff2cc"

    def __init__(
        self,
        *,
        objects: str | Sequence[str],
        type: str = "x",
        deferrable: bool = conf.getboolean("operators", "default_deferrable", fallback=False),
        hive_acid_conn_id: str = DEFAULT_CONN_ID,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.objects = objects
        self.type = type
        self.deferrable = deferrable
        self.hive_acid_conn_id = hive_acid_conn_id
        self._last = ""

    def poke(self, context: Context) -> bool:
        """Whether nothing is in the way any more."""
        from airflow_hive_acid.hooks.hive_acid import HiveAcidHook  # not needed to parse a DAG file
        from airflow_hive_acid.hooks.leases import objects_of

        try:
            with HiveAcidHook(self.hive_acid_conn_id) as hook:
                found = leases_in_the_way(hook.get_conn(), objects_of(self.objects), self.type)
        except HiveAcidError as error:
            fail_task(error)
        self._last = describe_leases(found) if found else ""
        if found:
            self.log.info("%s", self._last)
        return not found

    def execute(self, context: Context) -> Any:
        """Look once; wait in the triggerer if allowed, in the worker otherwise."""
        if not self.deferrable:
            try:
                return super().execute(context)
            except (AirflowSensorTimeout, AirflowSkipException) as gave_up:
                if not self._last:
                    raise
                raise type(gave_up)(f"{gave_up} Still {self._last}") from gave_up
        if not self.poke(context):
            from airflow_hive_acid.hooks.leases import objects_of

            self.defer(
                trigger=LeasesEndedTrigger(
                    objects_of(self.objects), self.type, time.time() + float(self.timeout), self.hive_acid_conn_id,
                    float(self.poke_interval),
                ),
                method_name="execute_complete",
            )  # fmt: skip
        return None

    def execute_complete(self, context: Context, event: dict[str, Any]) -> None:
        """Go on after the wait.

        :raises AirflowSensorTimeout: when it lasted too long; Airflow makes it a skip with ``soft_fail``.
        :raises AirflowException: when the metastore could not be asked.
        """
        if event["status"] == "timeout":
            said = f"Gave up after {float(self.timeout):g} s, still {event['message']}"
            self.log.warning("%s", said)
            raise AirflowSensorTimeout(said)
        if event["status"] != "success":
            raise AirflowException(f"{event['type']}: {event['message']}")
