"""Waits until nobody holds a lock any more."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseSensorOperator, conf
from airflow.sdk.exceptions import AirflowException

from airflow_hive_acid.errors import HiveAcidError
from airflow_hive_acid.hooks.configuration import DEFAULT_CONN_ID
from airflow_hive_acid.hooks.tasks import fail_task
from airflow_hive_acid.triggers.locks import LocksReleasedTrigger, describe, held_locks

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow.sdk import Context


class HiveLockReleasedSensor(BaseSensorOperator):
    """Waits until a lock, or all locks of a database, table or partition, are released.

    :param table: ``db.table``, or ``db`` for everything in a database. (templated)
    :param partition: partition name ``k1=v1/k2=v2``; without it the whole table is waited for. (templated)
    :param lock_id: one lock request instead of an object, for example from SHOW LOCKS. (templated)
    :param lock_types: names of the lock types that count: ``["SHARED_WRITE", "EXCL_WRITE", "EXCLUSIVE"]``, for example,
        to wait for writers only; None for all.
    :param deferrable: wait in the triggerer instead of in a worker slot.
    :param hive_acid_conn_id: connection of type ``hive_acid``. (templated)
    """

    template_fields: Sequence[str] = ("table", "partition", "lock_id", "hive_acid_conn_id")
    ui_color = "#e6e0f5"

    def __init__(
        self,
        *,
        table: str | None = None,
        partition: str | None = None,
        lock_id: int | str | None = None,
        lock_types: Sequence[str] | None = None,
        deferrable: bool = conf.getboolean("operators", "default_deferrable", fallback=False),
        hive_acid_conn_id: str = DEFAULT_CONN_ID,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.table = table
        self.partition = partition
        self.lock_id = lock_id
        self.lock_types = lock_types
        self.deferrable = deferrable
        self.hive_acid_conn_id = hive_acid_conn_id

    def poke(self, context: Context) -> bool:
        """Whether nothing is locked any more."""
        from airflow_hive_acid.hooks.hive_acid import HiveAcidHook  # not needed to parse a DAG file

        try:
            with HiveAcidHook(self.hive_acid_conn_id) as hook:
                found = held_locks(hook.get_conn(), self.table, self.partition, self._lock_number(), self.lock_types)
        except HiveAcidError as error:
            fail_task(error)
        if found:
            self.log.info("%s", describe(found))
        return not found

    def execute(self, context: Context) -> Any:
        """Look once; wait in the triggerer if allowed, in the worker otherwise."""
        if not self.deferrable:
            return super().execute(context)
        if not self.poke(context):
            self.defer(
                trigger=LocksReleasedTrigger(
                    table=self.table,
                    partition=self.partition,
                    lock_id=self._lock_number(),
                    lock_types=None if self.lock_types is None else list(self.lock_types),
                    hive_acid_conn_id=self.hive_acid_conn_id,
                    poll_interval=float(self.poke_interval),
                ),
                method_name="execute_complete",
                timeout=timedelta(seconds=self.timeout),
            )
        return None

    def execute_complete(self, context: Context, event: dict[str, Any]) -> None:
        """Go on after the wait.

        :raises AirflowException: when the metastore could not be asked.
        """
        if event["status"] != "success":
            raise AirflowException(f"{event['type']}: {event['message']}")

    def _lock_number(self) -> int | None:
        """A template renders to text."""
        return None if self.lock_id in (None, "") else int(self.lock_id)
