"""Asks for the compaction of a table or partition, as ``ALTER TABLE … COMPACT`` does, and waits for it if wanted."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator, conf

from airflow_hive_acid.errors import HiveAcidError, InvalidArgumentsError, JobFailedError
from airflow_hive_acid.hooks.configuration import DEFAULT_CONN_ID
from airflow_hive_acid.hooks.tasks import fail_task
from airflow_hive_acid.triggers.compactions import CompactionFinishedTrigger, compaction_outcome

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from airflow.sdk import Context

    from airflow_hive_acid.metastore import MetastoreClient
    from airflow_hive_acid.metastore.compaction_queue_model import EnqueueResult

_TYPES = ("major", "minor")


class HiveAcidCompactOperator(BaseOperator):
    """Puts a compaction request into the queue, from which the Worker DAG or a real Hive serves it.

    A request for something that is queued or worked on already is not made twice: the one that exists counts.

    :param table: ``db.table``. (templated)
    :param partition: partition name ``k1=v1/k2=v2`` or a mapping of columns to values; needed for a partitioned table.
        (templated)
    :param type: ``major`` or ``minor``. (templated)
    :param wait: succeed only when the compacted files are there; fail when the request fails.
    :param timeout: seconds to wait at most; None for as long as it takes.
    :param poll_interval: seconds between two looks.
    :param deferrable: wait in the triggerer instead of in a worker slot.
    :param hive_acid_conn_id: connection of type ``hive_acid``. (templated)
    """

    template_fields: Sequence[str] = ("table", "partition", "type", "hive_acid_conn_id")
    ui_color = "#d5e8d4"

    def __init__(
        self,
        *,
        table: str,
        partition: str | Mapping[str, Any] | None = None,
        type: str = "major",
        wait: bool = False,
        timeout: float | None = None,
        poll_interval: float = 5.0,
        deferrable: bool = conf.getboolean("operators", "default_deferrable", fallback=False),
        hive_acid_conn_id: str = DEFAULT_CONN_ID,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.table = table
        self.partition = partition
        self.type = type
        self.wait = wait
        self.timeout = timeout
        self.poll_interval = poll_interval
        self.deferrable = deferrable
        self.hive_acid_conn_id = hive_acid_conn_id

    def execute(self, context: Context) -> dict[str, Any]:
        """Ask, and wait if wanted.

        :return: ``request_id``, its ``state``, and ``accepted``, which is False when there was such a request already.
        """
        from airflow_hive_acid.hooks.hive_acid import HiveAcidHook  # not needed to parse a DAG file

        try:
            with HiveAcidHook(self.hive_acid_conn_id) as hook:
                client = hook.get_conn()
                answer = self._enqueue(client)
                request: dict[str, Any] = {
                    "request_id": answer.id,
                    "state": answer.state.text,
                    "accepted": answer.accepted,
                }
                self.log.info("%s", answer.message or f"compaction request {answer.id} is queued")
                if not self.wait:
                    return request
                if not self.deferrable:
                    return {**request, **self._poll(client, answer.id)}
        except HiveAcidError as error:
            fail_task(error)
        self.defer(
            trigger=CompactionFinishedTrigger(request["request_id"], self.hive_acid_conn_id, self.poll_interval),
            method_name="execute_complete",
            kwargs={"request": request},
            timeout=None if self.timeout is None else timedelta(seconds=self.timeout),
        )

    def execute_complete(self, context: Context, event: dict[str, Any], request: dict[str, Any]) -> dict[str, Any]:
        """Go on after the wait."""
        if event.pop("status") != "success":
            fail_task(JobFailedError(event["message"]))
        return {**request, **event}

    def _enqueue(self, client: MetastoreClient) -> EnqueueResult:
        from airflow_hive_acid.metastore.compaction_queue_model import CompactionType

        if self.type.lower() not in _TYPES:
            raise InvalidArgumentsError(f"compaction type must be one of {', '.join(_TYPES)}, not {self.type!r}")
        table = client.catalog.get_table(self.table)
        partition = partition_text(self.partition)
        if not table.is_transactional:
            raise InvalidArgumentsError(f"{self.table} is not transactional; there is nothing to compact")
        if table.is_partitioned and partition is None:
            raise InvalidArgumentsError(f"{self.table} is partitioned; name the partition to compact")
        if not table.is_partitioned and partition is not None:
            raise InvalidArgumentsError(f"{self.table} has no partitions, so there is no {partition}")
        return client.compactions.enqueue(self.table, partition, CompactionType[self.type.upper()])

    def _poll(self, client: MetastoreClient, request_id: int) -> dict[str, Any]:
        started = time.monotonic()
        while (outcome := compaction_outcome(client, request_id)) is None:
            if self.timeout is not None and time.monotonic() - started > self.timeout:
                raise JobFailedError(
                    f"compaction request {request_id} was not served in {self.timeout:.0f} s and stays queued. Is the "
                    "Worker DAG hive_acid_worker running?"
                )
            time.sleep(self.poll_interval)
        return outcome


def partition_text(partition: str | Mapping[str, Any] | None) -> str | None:
    """The partition's name, with its values escaped as Hive does.

    :param partition: a name is taken as it is.
    """
    if partition is None or isinstance(partition, str):
        return partition or None
    from airflow_hive_acid.format.partitions import partition_name

    return partition_name([(key, None if value is None else str(value)) for key, value in partition.items()])
