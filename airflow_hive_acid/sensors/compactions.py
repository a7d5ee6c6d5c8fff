"""Waits until a compaction has ended, or until nothing of a table is being compacted."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseSensorOperator, conf
from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowSensorTimeout

from airflow_hive_acid.errors import HiveAcidError, JobFailedError
from airflow_hive_acid.hooks.configuration import DEFAULT_CONN_ID
from airflow_hive_acid.hooks.tasks import fail_task
from airflow_hive_acid.triggers.compactions import CompactionWaitTrigger, look_at_compactions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow.sdk import Context


class HiveCompactionSensor(BaseSensorOperator):
    """Waits for one request, or until no request of a table or partition waits or runs.

    Readers see a compaction as soon as its request is ready for cleaning; the Cleaner's part is not waited for. A
    request that failed, was refused or aborted fails the sensor with its reason (``soft_fail``: skips it). When the
    time is over, the message says what is still queued, and who works on it.

    :param request_id: id of the request, for example from ``HiveAcidCompactOperator``. (templated)
    :param table: ``db.table`` instead of a request. (templated)
    :param partition: partition name ``k1=v1/k2=v2``; without it all partitions are waited for. (templated)
    :param deferrable: wait in the triggerer instead of in a worker slot.
    :param hive_acid_conn_id: connection of type ``hive_acid``. (templated)
    """

    template_fields: Sequence[str] = ("request_id", "table", "partition", "hive_acid_conn_id")
    ui_color = "#d5e8d4"

    def __init__(
        self,
        *,
        request_id: int | str | None = None,
        table: str | None = None,
        partition: str | None = None,
        deferrable: bool = conf.getboolean("operators", "default_deferrable", fallback=False),
        hive_acid_conn_id: str = DEFAULT_CONN_ID,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.request_id = request_id
        self.table = table
        self.partition = partition
        self.deferrable = deferrable
        self.hive_acid_conn_id = hive_acid_conn_id
        self._waiting_for = ""

    def poke(self, context: Context) -> bool:
        """Whether it is over."""
        from airflow_hive_acid.hooks.hive_acid import HiveAcidHook  # not needed to parse a DAG file

        try:
            with HiveAcidHook(self.hive_acid_conn_id) as hook:
                looked = look_at_compactions(hook.get_conn(), self._request_number(), self.table, self.partition)
        except JobFailedError as error:
            # The request has ended; a retry of this task would find the same.
            raise AirflowFailException(str(error)) from None
        except HiveAcidError as error:
            fail_task(error)
        self._waiting_for = looked.waiting_for
        if not looked.over:
            self.log.info("%s", looked.waiting_for)
        return looked.over

    def execute(self, context: Context) -> Any:
        """Look once; wait in the triggerer if allowed, in the worker otherwise.

        :raises AirflowSensorTimeout: when it is not over in time; says what is still to be done.
        """
        if not self.deferrable:
            try:
                return super().execute(context)
            except AirflowSensorTimeout as error:
                raise AirflowSensorTimeout(f"{error} {self._waiting_for}".strip()) from None
        if not self.poke(context):
            self.defer(
                trigger=CompactionWaitTrigger(
                    until=time.time() + float(self.timeout),
                    request_id=self._request_number(),
                    table=self.table,
                    partition=self.partition,
                    hive_acid_conn_id=self.hive_acid_conn_id,
                    poll_interval=float(self.poke_interval),
                ),
                method_name="execute_complete",
            )
        return None

    def execute_complete(self, context: Context, event: dict[str, Any]) -> None:
        """Go on after the wait.

        :raises AirflowSensorTimeout: when it is not over in time; says what is still to be done.
        """
        if event["status"] != "success":
            if event["type"] == JobFailedError.__name__:
                raise AirflowFailException(event["message"])
            raise AirflowException(f"{event['type']}: {event['message']}")
        if not event["over"]:
            raise AirflowSensorTimeout(f"not over after {self.timeout:.0f} s: {event['waiting_for']}")

    def _request_number(self) -> int | None:
        """A template renders to text."""
        return None if self.request_id in (None, "", "None") else int(str(self.request_id))
