"""Waits until a compaction has ended, or until nothing of a table is being compacted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from airflow_hive_acid.faces import renamed
from airflow_hive_acid.hooks.arguments import Takes, check_parsed, optional_text
from airflow_hive_acid.hooks.links import object_filters
from airflow_hive_acid.sensors.base import MetastoreSensor, listed, number
from airflow_hive_acid.triggers.compactions import CompactionsQuestion, CompactionWaitTrigger

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from airflow_hive_acid.metastore import MetastoreClient
    from airflow_hive_acid.triggers.base import QuestionTrigger
    from airflow_hive_acid.triggers.questions import Question


class HiveAcidCompactionSensor(MetastoreSensor):
    """Waits for one request, or until no request of a table or partition waits or runs.

    Readers see a compaction as soon as its request is ready for cleaning; the Cleaner's part is not waited for. A
    request that failed, was refused or aborted fails the sensor with its reason (``soft_fail``: skips it). When the
    time is over, the message says what is still queued, and who works on it since when.

    :param request_id: id of the request, for example from ``HiveAcidCompactOperator``, or a list of ids, all of which
        are waited for; of none at all nothing is. (templated)
    :param table: ``db.table`` instead of a request. (templated)
    :param partition: partition name ``k1=v1/k2=v2``; without it all partitions are waited for. (templated)
    :param deferrable: wait in the triggerer instead of in a worker slot.
    :param hive_acid_conn_id: connection of type ``hive_acid``. (templated)
    """

    template_fields: Sequence[str] = ("request_id", "table", "partition", "hive_acid_conn_id")
    ui_color = "#d5e8d4"
    takes: ClassVar[Takes] = {
        "table": optional_text("db.table"),
        "partition": optional_text("k1=v1/k2=v2"),
    }

    def __init__(
        self,
        *,
        request_id: int | str | Sequence[int | str] | None = None,
        table: str | None = None,
        partition: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.request_id = request_id
        self.table = table
        self.partition = partition
        check_parsed(self, self.takes)

    def question(self, client: MetastoreClient) -> Question:
        """Has it ended?"""
        return CompactionsQuestion(self._requests(), self.table, self.partition)

    def page(self) -> dict[str, Any]:
        """The request, or those of the table."""
        return {
            "view": "compactions", "compaction_id": next(iter(self._requests() or ()), None),
            **object_filters(self.table, self.partition),
        }  # fmt: skip

    def _requests(self) -> tuple[int, ...] | None:
        """The ids; a template makes a list text as well."""
        given = listed(self.request_id)
        if given != [self.request_id]:
            return self._numbers(given)
        one = number("request_id", given[0])
        return None if one is None else (one,)

    def _numbers(self, given: Iterable[int | str]) -> tuple[int, ...]:
        found = (number("request_id", part.strip() if isinstance(part, str) else part) for part in given)
        return tuple(one for one in found if one is not None)

    def trigger(self, question: Question, until: float) -> QuestionTrigger:
        """What waits for it."""
        return CompactionWaitTrigger(
            until,
            request_id=list(asked) if (asked := self._requests()) is not None else None,
            table=self.table,
            partition=self.partition,
            hive_acid_conn_id=self.hive_acid_conn_id,
            poll_interval=float(self.poke_interval),
        )


__getattr__ = renamed(__name__, {"HiveCompactionSensor": "HiveAcidCompactionSensor"})
