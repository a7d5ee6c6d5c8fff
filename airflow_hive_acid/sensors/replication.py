"""Waits until a replica is new enough."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from airflow_hive_acid.airflow_versions import seconds_of
from airflow_hive_acid.faces import renamed
from airflow_hive_acid.hooks.arguments import Takes, check_parsed, refused, seconds, some_text
from airflow_hive_acid.sensors.base import MetastoreSensor
from airflow_hive_acid.triggers.replication import FreshQuestion, ReplicaFreshTrigger, fresh_question

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime, timedelta

    from airflow_hive_acid.metastore import MetastoreClient
    from airflow_hive_acid.triggers.base import QuestionTrigger
    from airflow_hive_acid.triggers.questions import Question


class HiveAcidReplicationLagSensor(MetastoreSensor):
    """Waits until a replica is not further behind its primary than allowed; asks the replica's metastore alone.

    When it gives up it says how far behind it is, and why the last cycle failed.

    :param policy: name of the replication policy. (templated)
    :param max_lag: seconds, or a ``timedelta``, by which the replica may be behind at most. (templated)
    :param up_to: a moment: everything that was committed at the primary by then must have arrived, for example
        ``{{ data_interval_end }}``. By the clock of the replica's database. (templated)
    :param deferrable: wait in the triggerer instead of in a worker slot.
    :param hive_acid_conn_id: connection of type ``hive_acid`` of the replica. (templated)
    """

    template_fields: Sequence[str] = ("policy", "max_lag", "up_to", "hive_acid_conn_id")
    ui_color = "#e1d5e7"
    takes: ClassVar[Takes] = {
        "policy": some_text("the name of a policy"),
        "max_lag": seconds(optional=True),
    }

    def __init__(
        self,
        *,
        policy: str,
        max_lag: float | timedelta | str | None = None,
        up_to: str | datetime | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if max_lag is None and up_to is None:
            raise refused(self, f"task {self.task_id} must be given max_lag, up_to, or both")
        self.policy = policy
        self.max_lag = seconds_of(max_lag)
        self.up_to = up_to
        check_parsed(self, self.takes)

    def question(self, client: MetastoreClient) -> Question:
        """Is it new enough?"""
        return fresh_question(self.policy, self.max_lag, self.up_to)

    def page(self) -> dict[str, Any]:
        """The replications."""
        return {"view": "replication"}

    def trigger(self, question: Question, until: float) -> QuestionTrigger:
        """What waits for it."""
        if not isinstance(question, FreshQuestion):
            raise AssertionError("another sensor's question")
        return ReplicaFreshTrigger(
            question.policy, question.max_lag, question.up_to, until, self.hive_acid_conn_id, float(self.poke_interval)
        )


__getattr__ = renamed(__name__, {"HiveReplicationLagSensor": "HiveAcidReplicationLagSensor"})
