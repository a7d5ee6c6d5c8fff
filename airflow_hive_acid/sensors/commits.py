"""Waits until somebody has committed to a table."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, ClassVar

from airflow_hive_acid.faces import renamed
from airflow_hive_acid.hooks.arguments import Takes, check_parsed, optional_text, refused, some_text
from airflow_hive_acid.hooks.links import object_filters
from airflow_hive_acid.sensors.base import MetastoreSensor, number
from airflow_hive_acid.triggers.table_commits import CommitsQuestion, TableCommitTrigger, commits_question

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow.sdk import Context

    from airflow_hive_acid.metastore import MetastoreClient
    from airflow_hive_acid.triggers.base import QuestionTrigger
    from airflow_hive_acid.triggers.questions import Question

MARK_KEY = "hive_acid_commits_since"


class HiveAcidTableCommitSensor(MetastoreSensor):
    """Waits for commits to a transactional table or partition, by whatever engine; returns what has come.

    The result holds ``write_ids``, ``txn_ids`` and ``partitions``. Txns that wrote nothing do not count, nor does what
    a compaction has tidied up before the sensor looked; to miss nothing, schedule a DAG by the table's asset instead.
    Of a table that is dropped and made anew meanwhile, the commits to the new one count; with ``mode="reschedule"``
    that is noticed where Airflow keeps the state of tasks (3.3).
    When it gives up it says how many commits are missing, and who is writing since when.

    :param table: ``db.table``. (templated)
    :param partition: partition name ``k1=v1/k2=v2``; without it every commit to the table counts. (templated)
    :param after_write_id: commits with a larger write id count, also those from before the sensor began; without it,
        those count that are committed after the sensor's first look. A retry counts from there, too, where Airflow
        keeps the state of tasks (3.3). (templated)
    :param commits: how many to wait for. (templated)
    :param deferrable: wait in the triggerer instead of in a worker slot.
    :param hive_acid_conn_id: connection of type ``hive_acid``. (templated)
    """

    template_fields: Sequence[str] = ("table", "partition", "after_write_id", "commits", "hive_acid_conn_id")
    ui_color = "#dae8fc"
    takes: ClassVar[Takes] = {
        "table": some_text("db.table"),
        "partition": optional_text("k1=v1/k2=v2"),
    }

    def __init__(
        self,
        *,
        table: str,
        partition: str | None = None,
        after_write_id: int | str | None = None,
        commits: int | str = 1,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if self.mode == "reschedule" and after_write_id is None and not self.deferrable:
            raise refused(
                self,
                f"task {self.task_id}: with mode='reschedule' the sensor would forget between its looks where it "
                "began; give after_write_id, or deferrable=True",
            )
        self.table = table
        self.partition = partition
        self.after_write_id = after_write_id
        self.commits = commits
        check_parsed(self, self.takes)

    def question(self, client: MetastoreClient) -> Question:
        """Were there so many commits?"""
        after, commits = number("after_write_id", self.after_write_id), number("commits", self.commits)
        return commits_question(client, self.table, self.partition, after, 1 if commits is None else commits)

    def asked_before(self, context: Context) -> Question | None:
        """From where the first look began, without a question to the catalog: the table may be gone for a while."""
        kept = self._kept(context)
        if kept is None or kept.get("given") != self._given():
            return None
        commits = number("commits", self.commits)
        return CommitsQuestion(
            kept["table"], kept["partition"], kept["after"], tuple(kept["pending"]), 1 if commits is None else commits,
            kept["table_id"],
        )  # fmt: skip

    def gone_on_with(self, question: Question, context: Context) -> Question:
        """From where the first try began, in an Airflow that keeps that: what came before a retry counts, too.

        Which table had the name is kept beside it, as the write ids of one that is made anew begin anew.
        """
        from airflow_hive_acid.hooks.lives import task_life  # not needed to parse a DAG file

        if not isinstance(question, CommitsQuestion):
            raise AssertionError("another sensor's question")
        store: Any = context.get("task_state_store")
        if store is None:
            return question
        kept = self._kept(context)
        of = {"life": task_life(context), "table": question.table, "partition": question.partition}
        is_after_given = number("after_write_id", self.after_write_id) is not None
        # Of an earlier release, which kept no more.
        names = (*of, "given")
        if kept is not None and not is_after_given and {n: kept[n] for n in names if n in kept} == of:
            pending = tuple(kept["pending"])
            return dataclasses.replace(question, after=kept["after"], pending=pending, table_id=kept["table_id"])
        mark = {"after": question.after, "pending": list(question.pending), "table_id": question.table_id}
        store.set(MARK_KEY, {**of, **mark, "given": self._given()})
        return question

    def _kept(self, context: Context) -> dict[str, Any] | None:
        """What an earlier look of the same life of this task has kept."""
        from airflow_hive_acid.hooks.lives import task_life  # not needed to parse a DAG file

        store: Any = context.get("task_state_store")
        kept = None if store is None else store.get(MARK_KEY)
        return kept if isinstance(kept, dict) and kept.get("life") == task_life(context) else None

    def _given(self) -> list[Any]:
        return [self.table, self.partition, number("after_write_id", self.after_write_id)]

    def page(self) -> dict[str, Any]:
        """The table."""
        return {"view": "tables", **object_filters(self.table, self.partition)}

    def trigger(self, question: Question, until: float) -> QuestionTrigger:
        """What waits for it, from the mark that the first look has set."""
        if not isinstance(question, CommitsQuestion):
            raise AssertionError("another sensor's question")
        return TableCommitTrigger(
            question.table, question.partition, question.after, list(question.pending), question.commits, until,
            self.hive_acid_conn_id, float(self.poke_interval), question.table_id,
        )  # fmt: skip


__getattr__ = renamed(__name__, {"HiveTableCommitSensor": "HiveAcidTableCommitSensor"})
