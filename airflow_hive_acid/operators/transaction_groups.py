"""``with hive_acid_transaction(…) as txn:`` a TaskGroup whose tasks work in one transaction.

::

    begin (setup) → your tasks → commit → end (teardown)
          ↘ keeper (deferred)

The tasks see one snapshot of all tables and what finished tasks of the group wrote; the commit makes everything
visible at once, and when one of them fails for good or times out, nothing ever is.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk import TaskGroup, TriggerRule
from airflow.sdk.definitions.mappedoperator import MappedOperator

from airflow_hive_acid.airflow_versions import has_retry_policies
from airflow_hive_acid.hooks.configuration import DEFAULT_CONN_ID
from airflow_hive_acid.operators.hive_acid import HiveAcidOperator
from airflow_hive_acid.operators.retries import HiveAcidRetryPolicy
from airflow_hive_acid.operators.transactions import (
    RETRY_ON,
    HiveAcidBeginTransactionOperator,
    HiveAcidCommitTransactionOperator,
    HiveAcidEndTransactionOperator,
    HiveAcidKeepTransactionOperator,
    HiveAcidTransactionOutcomeOperator,
    check_retry_on,
)

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Mapping, Sequence

    from airflow.sdk import BaseOperator

_OWN_DELAY = timedelta(seconds=10)
_OWN_TRIES: dict[str, Any] = {
    "retries": 3,
    "retry_delay": _OWN_DELAY,
    # The others read what it returns, whatever the DAG's default_args say.
    "do_xcom_push": True,
    # A begin that was chosen to give way in a deadlock comes back later than the others.
    **({"retry_policy": HiveAcidRetryPolicy(delay=_OWN_DELAY)} if has_retry_policies() else {}),
}
_KEEPER_PRIORITY = 10_000
#: Rules by which no failed task is committed over.
_WITHOUT_FAILURES = frozenset({
    TriggerRule.ALL_SUCCESS, TriggerRule.NONE_FAILED, TriggerRule.NONE_FAILED_MIN_ONE_SUCCESS,
})  # fmt: skip
_LONGEST_PAUSE = timedelta(minutes=10)


class HiveAcidTransaction(TaskGroup):
    """The TaskGroup of :func:`hive_acid_transaction`.

    :ivar begin: the task that begins it; ``output`` is for task functions that work in it.
    :ivar commit: the task that commits it; its output is the result.
    """

    begin: HiveAcidBeginTransactionOperator
    keeper: HiveAcidKeepTransactionOperator
    commit: HiveAcidCommitTransactionOperator
    end: HiveAcidEndTransactionOperator

    def __init__(
        self,
        group_id: str,
        *,
        tables: Mapping[str, str],
        hive_acid_conn_id: str = DEFAULT_CONN_ID,
        spark_conn_id: str | None = None,
        begin: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(group_id=group_id, **kwargs)
        self._tables = tables
        self._conn_id = hive_acid_conn_id
        self._spark_conn_id = spark_conn_id
        self._begin_arguments = dict(begin or {})

    @property
    def output(self) -> Any:
        """For task functions: ``with HiveAcidHook().join(txn.output) as part:``, as their argument."""
        return self.begin.output

    def __enter__(self) -> HiveAcidTransaction:
        super().__enter__()
        self.begin = HiveAcidBeginTransactionOperator(
            task_id="begin",
            tables=self._tables,
            hive_acid_conn_id=self._conn_id,
            spark_conn_id=self._spark_conn_id,
            **{**_OWN_TRIES, **self._begin_arguments},
        )
        self.begin.is_setup = True
        return self

    def __exit__(self, kind: Any, failure: Any, trace: Any) -> None:
        try:
            if failure is None:
                self._complete()
        finally:
            super().__exit__(kind, failure, trace)  # type: ignore[no-untyped-call]

    def _complete(self) -> None:
        tasks = [task for task in self if task is not self.begin]
        if not tasks:
            raise ValueError(f"the transaction {self.group_id} has no tasks")
        for task in tasks:
            self._make_member(task)
        ids = {task.task_id for task in tasks}
        roots = [task for task in tasks if task.upstream_task_ids.isdisjoint(ids)]
        leaves = [task for task in tasks if task.downstream_task_ids.isdisjoint(ids) and not task.is_teardown]
        common: dict[str, Any] = {
            "transaction": self._document(),
            "hive_acid_conn_id": self._conn_id,
            **_OWN_TRIES,
        }
        # It needs a worker only to leave for the triggerer; until it has, nobody keeps the txn between members.
        self.keeper = HiveAcidKeepTransactionOperator(
            task_id="keeper",
            trigger_rule=TriggerRule.ALL_SUCCESS,
            priority_weight=_KEEPER_PRIORITY,
            weight_rule="absolute",
            **common,
        )
        self.commit = HiveAcidCommitTransactionOperator(task_id="commit", **common)
        if self.commit.trigger_rule not in _WITHOUT_FAILURES:  # of default_args, which mean the author's own tasks
            self.commit.trigger_rule = TriggerRule.ALL_SUCCESS
        self.end = HiveAcidEndTransactionOperator(task_id="end", **common)
        self.begin >> self.keeper
        self.begin >> roots
        leaves >> self.commit
        self.commit >> self.end.as_teardown(setups=self.begin)

    def _document(self) -> str:
        """A template, because an argument that is an output would make every task a direct successor of the begin.

        In a mapped task group each index has a transaction of its own.
        """
        of_index = "" if self.begin.get_closest_mapped_task_group() is None else ", map_indexes=ti.map_index"
        return f"{{{{ ti.xcom_pull(task_ids='{self.begin.task_id}'{of_index}) | tojson }}}}"

    def _make_member(self, task: Any) -> None:
        """Let one of our operators work in the transaction; others are part of the group only."""
        mapped = isinstance(task, MappedOperator)
        kind = task.operator_class if mapped else type(task)
        if not (isinstance(kind, type) and issubclass(kind, HiveAcidOperator)):
            return
        given = task.partial_kwargs if mapped else {name: getattr(task, name, None) for name in _LOOKED_AT}
        if given.get("transaction") is not None:
            return
        where = f"task {task.task_id} in the transaction {self.group_id}"
        if kind.never_a_member is not None:
            raise ValueError(f"{where}: {kind.never_a_member}; or say transaction=False")
        if given.get("lease") is not None:
            raise ValueError(f"{where} is given a lease; a transaction across tasks works under none")
        if (given.get("hive_acid_conn_id") or DEFAULT_CONN_ID) != self._conn_id:
            raise ValueError(f"{where} has another hive_acid_conn_id than the transaction; say transaction=False")
        if mapped:
            task.partial_kwargs["transaction"] = self._document()
        else:
            task.transaction = self._document()

    def get_leaves(self) -> Generator[BaseOperator, None, None]:
        """What follows the group follows its commit; neither its keeper nor its end."""
        yield self.commit


_LOOKED_AT = ("transaction", "lease", "hive_acid_conn_id")


def hive_acid_transaction(
    group_id: str,
    *,
    tables: Mapping[str, str],
    max_age: timedelta | None = None,
    max_held_bytes: int | None = None,
    on_rerun: str = "apply",
    hive_acid_conn_id: str = DEFAULT_CONN_ID,
    spark_conn_id: str | None = None,
    **kwargs: Any,
) -> HiveAcidTransaction:
    """A TaskGroup whose tasks work in one transaction: ``with hive_acid_transaction("load", tables={…}) as txn:``.

    Operators that run statements take part by themselves, wherever in the group they stand; task functions get
    ``txn.output`` and use :meth:`HiveAcidHook.join`. Members work one after the other, whatever Airflow runs beside
    each other.

    :param tables: what may be done to each table: ``select``, ``insert``, ``delete``, ``update`` (MERGE, too) or
        ``overwrite``; each allows those before it. All tables that any task of the group reads or writes. (templated)
    :param max_age: aborted after so long; by default ``hive.acid.shared.txn.max.age``, a day.
    :param max_held_bytes: aborted when it holds back more from being cleaned; by default
        ``hive.acid.shared.txn.max.held.bytes``; 0 for any number.
    :param on_rerun: what clearing a group does that was committed: ``apply`` it again, or ``skip`` it.
    :param hive_acid_conn_id: of the whole group.
    :param kwargs: those of TaskGroup.
    """
    begin = {"max_age": _seconds(max_age), "max_held_bytes": max_held_bytes, "on_rerun": on_rerun}
    return HiveAcidTransaction(
        group_id, tables=tables, hive_acid_conn_id=hive_acid_conn_id, spark_conn_id=spark_conn_id, begin=begin, **kwargs
    )


def hive_acid_transaction_tries(
    group_id: str,
    *,
    tables: Mapping[str, str],
    tries: int = 3,
    retry_delay: timedelta = timedelta(seconds=30),
    retry_on: Sequence[str] = RETRY_ON,
    max_age: timedelta | None = None,
    max_held_bytes: int | None = None,
    on_rerun: str = "apply",
    hive_acid_conn_id: str = DEFAULT_CONN_ID,
    spark_conn_id: str | None = None,
    **kwargs: Any,
) -> Iterator[HiveAcidTransaction]:
    """A transaction that is tried again as a whole after a write conflict or deadlock.

    ::

        for txn in hive_acid_transaction_tries("load", tables={…}, tries=3):
            with txn:
                …your tasks…

    The body runs once for each try when the DAG file is parsed; each try is a group of its own in ``group_id``
    (``try_1``, ``try_2``, …), and later ones are skipped unless the one before was aborted for a reason that
    ``retry_on`` names. ``<group_id>.outcome`` comes last: it returns the result of the try that was committed, or
    fails.

    :param tries: at most so many.
    :param retry_delay: pause before the second try; it doubles with each further one, up to ten minutes.
    :param retry_on: names of errors (``airflow_hive_acid.errors``), subclasses included.
    :param tables: and the others, as of :func:`hive_acid_transaction`.
    """
    if tries < 1:
        raise ValueError(f"tries of the transaction {group_id} must be 1 or more, not {tries}")
    retried = check_retry_on(retry_on)
    begin = {"max_age": _seconds(max_age), "max_held_bytes": max_held_bytes, "on_rerun": on_rerun}
    groups: list[HiveAcidTransaction] = []
    with TaskGroup(group_id=group_id, **kwargs):
        for number in range(1, tries + 1):
            again: dict[str, Any] = {}
            if groups:
                before = groups[-1]
                again = {
                    "after": (before.begin.task_id, before.end.task_id),
                    "pause": pause_before(number, retry_delay).total_seconds(),
                    "retry_on": retried,
                    "trigger_rule": TriggerRule.ALL_DONE,
                }
            group = HiveAcidTransaction(
                f"try_{number}",
                tables=tables,
                hive_acid_conn_id=hive_acid_conn_id,
                spark_conn_id=spark_conn_id,
                begin={**begin, **again},
            )
            yield group
            if groups:
                groups[-1].end >> group.begin
            groups.append(group)
        outcome = HiveAcidTransactionOutcomeOperator(
            task_id="outcome",
            tries=[(g.begin.task_id, g.commit.task_id, g.end.task_id) for g in groups],
            trigger_rule=TriggerRule.ALL_DONE,
            **_OWN_TRIES,
        )
        for group in groups:
            [group.keeper, group.commit, group.end] >> outcome


def pause_before(number: int, delay: timedelta) -> timedelta:
    """Pause before a try, by its number: doubling from the second one on."""
    return min(delay * (1 << min(max(0, number - 2), 30)), max(delay, _LONGEST_PAUSE))


def _seconds(given: timedelta | None) -> float | None:
    return None if given is None else given.total_seconds()
