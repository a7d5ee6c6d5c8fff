"""Waits until nobody holds a lock any more."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from airflow_hive_acid.faces import renamed
from airflow_hive_acid.hooks.arguments import Takes, check_parsed, names_of, optional_text, optional_texts
from airflow_hive_acid.hooks.links import object_filters
from airflow_hive_acid.sensors.base import MetastoreSensor, number
from airflow_hive_acid.triggers.locks import LocksReleasedTrigger, locks_question

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow_hive_acid.metastore import MetastoreClient
    from airflow_hive_acid.triggers.base import QuestionTrigger
    from airflow_hive_acid.triggers.questions import Question


class HiveAcidLockReleasedSensor(MetastoreSensor):
    """Waits until a lock, or all locks of a database, table, partition or txn, are released.

    When it gives up it says which locks are still held, by whom and since when.

    :param table: ``db.table``, or ``db`` for everything in a database. (templated)
    :param partition: partition name ``k1=v1/k2=v2``; without it the whole table is waited for. (templated)
    :param lock_id: one lock request instead of an object, for example from SHOW LOCKS. (templated)
    :param txn_id: the locks of one txn instead. (templated)
    :param lock_types: names of the lock types that count: ``["SHARED_WRITE", "EXCL_WRITE", "EXCLUSIVE"]``, for example,
        to wait for writers only; None for all.
    :param deferrable: wait in the triggerer instead of in a worker slot.
    :param hive_acid_conn_id: connection of type ``hive_acid``. (templated)
    """

    template_fields: Sequence[str] = ("table", "partition", "lock_id", "txn_id", "hive_acid_conn_id")
    ui_color = "#e6e0f5"
    takes: ClassVar[Takes] = {
        "table": optional_text("db.table, or db"),
        "partition": optional_text("k1=v1/k2=v2"),
        "lock_types": optional_texts("names of lock types"),
    }

    def __init__(
        self,
        *,
        table: str | None = None,
        partition: str | None = None,
        lock_id: int | str | None = None,
        txn_id: int | str | None = None,
        lock_types: Sequence[str] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.table = table
        self.partition = partition
        self.lock_id = lock_id
        self.txn_id = txn_id
        self.lock_types = lock_types
        check_parsed(self, self.takes)

    def question(self, client: MetastoreClient) -> Question:
        """Are they released?"""
        lock_id, txn_id = number("lock_id", self.lock_id), number("txn_id", self.txn_id)
        return locks_question(self.table, self.partition, lock_id, self._types(), txn_id)

    def _types(self) -> list[str] | None:
        return None if self.lock_types is None else names_of(self.lock_types)

    def page(self) -> dict[str, Any]:
        """The locks."""
        return {
            "view": "locks", "lock_id": self.lock_id, "txn_id": self.txn_id,
            **object_filters(self.table, self.partition),
        }  # fmt: skip

    def trigger(self, question: Question, until: float) -> QuestionTrigger:
        """What waits for it."""
        return LocksReleasedTrigger(
            table=self.table,
            partition=self.partition,
            lock_id=number("lock_id", self.lock_id),
            lock_types=self._types(),
            txn_id=number("txn_id", self.txn_id),
            until=until,
            hive_acid_conn_id=self.hive_acid_conn_id,
            poll_interval=float(self.poke_interval),
        )


__getattr__ = renamed(__name__, {"HiveLockReleasedSensor": "HiveAcidLockReleasedSensor"})
