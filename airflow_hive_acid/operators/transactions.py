"""The tasks of a transaction across tasks: begin, keeper, commit, end; :mod:`.transaction_groups` puts them together.

The record in the metastore decides, whatever Airflow makes of a task: a retried commit finds what it had committed
(R17), a retried begin fences the transaction of the try before (R14), and the end gives up what is not committed. The
keeper waits in the triggerer, without a worker slot, and sends the heartbeats while no member runs (R9).
"""

from __future__ import annotations

import dataclasses
import time
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.sdk import BaseOperator

from airflow_hive_acid import errors
from airflow_hive_acid.airflow_versions import AirflowFailException, AirflowSkipException, seconds_of
from airflow_hive_acid.errors import HiveAcidError, InvalidArgumentsError
from airflow_hive_acid.faces import renamed
from airflow_hive_acid.hooks.arguments import Takes, check_parsed, count, mapping, seconds
from airflow_hive_acid.hooks.assets import tell_commits
from airflow_hive_acid.hooks.configuration import DEFAULT_CONN_ID
from airflow_hive_acid.hooks.links import LINKS, linked_to
from airflow_hive_acid.hooks.tasks import agent_info, error_of_event, fail_task
from airflow_hive_acid.operators.hive_acid import HiveAcidOperator, result_document
from airflow_hive_acid.triggers.shared_transactions import PauseTrigger, TransactionKeptTrigger

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import timedelta

    from airflow.sdk import Context

    from airflow_hive_acid.engine import Engine
    from airflow_hive_acid.hooks.hive_acid import HiveAcidHook

RETRY_ON = ("WriteConflictError", "DeadlockError")
"""Failures after which a whole transaction is tried again: somebody else was first, and next time may not be."""
_SKIPPED = "hive_acid_skipped"
_UI_COLOR = "#e8f0d8"


class HiveAcidBeginTransactionOperator(HiveAcidOperator):
    """Begins a transaction in which several tasks work: locks its tables, takes the one snapshot, allocates write ids.

    Where its locks have to be waited for, the triggerer waits. A retry fences and aborts the transaction of the try
    before; clearing it begins anew.

    :param tables: what may be done to each table: ``select``, ``insert``, ``delete``, ``update`` (MERGE, too) or
        ``overwrite``; each allows those before it. All tables that any member reads or writes. (templated)
    :param max_age: seconds, or a ``timedelta``, after which it is aborted; by default ``hive.acid.shared.txn.max.age``.
    :param max_held_bytes: aborted when it holds back more from being cleaned; by default
        ``hive.acid.shared.txn.max.held.bytes``; 0 for any number.
    :param after: task ids of ``begin`` and ``end`` of the try before: begin only if that was aborted because of one of
        ``retry_on``, and ``pause`` seconds after it.
    """

    template_fields: Sequence[str] = ("tables", "hive_acid_conn_id", "spark_conn_id")
    template_fields_renderers = {"tables": "json"}  # noqa: RUF012 - Airflow reads it from the class
    ui_color = _UI_COLOR
    never_a_member = "it begins one"
    takes: ClassVar[Takes] = {
        **HiveAcidOperator.takes,
        "tables": mapping("tables to what may be done to them"),
        "max_age": seconds(0.001, optional=True),
        "max_held_bytes": count(0, optional=True),
        "pause": seconds(),
    }

    def __init__(
        self,
        *,
        tables: Mapping[str, str],
        max_age: float | timedelta | None = None,
        max_held_bytes: int | None = None,
        after: tuple[str, str] | None = None,
        pause: float | timedelta = 0.0,
        retry_on: Sequence[str] = RETRY_ON,
        **kwargs: Any,
    ) -> None:
        super().__init__(sql="", **kwargs)
        self.tables = tables
        self.max_age = seconds_of(max_age)
        self.max_held_bytes = max_held_bytes
        self.after = after
        self.pause = seconds_of(pause)
        self.retry_on = tuple(retry_on)
        check_parsed(self, self.takes)

    def execute(self, context: Context) -> dict[str, Any]:
        """Begin.

        :return: what the other tasks need to know; it opens nothing.
        """
        if self.after is not None:
            self._check_try_before(context, *self.after)
            if self.pause > 0:
                self.log.info("The next try begins in %.0f s", self.pause)
                self.defer(trigger=PauseTrigger(time.time() + self.pause), method_name="after_pause")
        return self._begin(context)

    def after_pause(self, context: Context, event: dict[str, Any]) -> dict[str, Any]:
        """Begin the next try."""
        return self._begin(context)

    def resume(self, context: Context, event: dict[str, Any], waiting: dict[str, Any] | None = None) -> dict[str, Any]:
        """Go on after the locks have been waited for."""
        if event["status"] != "success":
            fail_task(error_of_event(event))
        return self._begin(context, waiting or event.get("handed_back"))

    def work(self, hook: HiveAcidHook, engine: Engine, **how: Any) -> dict[str, Any]:
        """Begin; no Spark application is started."""
        from airflow_hive_acid.hooks.transactions import transaction_document

        begun = engine.begin_shared(
            self.tables,
            how["once"],
            max_age=self.max_age,
            most_bytes=self.max_held_bytes,
            patience=how["patience"],
        )
        if isinstance(begun, list):
            return {_SKIPPED: True}
        return transaction_document(begun)

    def _begin(self, context: Context, waiting: dict[str, Any] | None = None) -> dict[str, Any]:
        document = self._run(context, waiting)
        if document.get(_SKIPPED):
            context["ti"].xcom_push(key=_SKIPPED, value=True)
            raise AirflowSkipException("it was committed before, and on_rerun says to skip it then")
        self.log.info("txn %d is open for %s", document["txn_id"], ", ".join(sorted(document["tables"])))
        return document

    def _check_try_before(self, context: Context, begin: str, end: str) -> None:
        """Skip this try unless the one before was aborted because of a failure that trying again can mend."""
        ended = _told(context, _states(context, [end]), end)
        if ended is None:
            raise AirflowSkipException(f"{begin} has begun nothing, so there is nothing to be tried again")
        if ended["state"] == "committed":
            raise AirflowSkipException(f"txn {ended['txn_id']} of the try before is committed")
        if not may_retry(ended["error"], self.retry_on):
            raise AirflowSkipException(f"{ended['error']} is none of {', '.join(self.retry_on)}: {ended['reason']}")
        self.log.warning("txn %d is tried again: %s: %s", ended["txn_id"], ended["error"], ended["reason"])


class _OfTransaction(BaseOperator):
    """Does something to a transaction that another task has begun.

    :param transaction: the output of the task that begins it. (templated)
    """

    template_fields: Sequence[str] = ("transaction", "hive_acid_conn_id")
    ui_color = _UI_COLOR

    def __init__(self, *, transaction: Any, hive_acid_conn_id: str = DEFAULT_CONN_ID, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.transaction = transaction
        self.hive_acid_conn_id = hive_acid_conn_id


class HiveAcidKeepTransactionOperator(_OfTransaction):
    """Keeps a transaction alive until it ends, from the triggerer; ending this task ends the transaction.

    :param transaction: the output of the task that begins it. (templated)
    """

    def execute(self, context: Context) -> dict[str, Any]:
        """Leave for the triggerer."""
        from airflow_hive_acid.hooks.hive_acid import HiveAcidHook  # not needed to parse a DAG file
        from airflow_hive_acid.hooks.transactions import read_transaction, tasks_run_one_by_one
        from airflow_hive_acid.metastore.records import NO_KEEPER

        try:
            txn_id = read_transaction(self.transaction)
            with HiveAcidHook(self.hive_acid_conn_id) as hook:
                one_by_one = tasks_run_one_by_one()
                hook.get_conn().shared_txns.keep(txn_id, NO_KEEPER if one_by_one else None)
        except HiveAcidError as error:
            fail_task(error)
        if one_by_one:
            self.log.info("dag.test() runs one task after the other: nobody can keep txn %d between them", txn_id)
            return {"txn_id": txn_id, "state": "not kept"}
        self.defer(trigger=TransactionKeptTrigger(txn_id, self.hive_acid_conn_id), method_name="ended")

    def ended(self, context: Context, event: dict[str, Any]) -> dict[str, Any]:
        """The transaction has ended.

        :raises AirflowFailException: when it was aborted for its age, or for what it held back from cleaning.
        """
        if event["status"] != "success":
            fail_task(error_of_event(event))
        if event["limit"]:
            raise AirflowFailException(event["reason"])
        self.log.info("txn %d is %s", event["txn_id"], event["state"])
        return {"txn_id": event["txn_id"], "state": event["state"]}


class HiveAcidCommitTransactionOperator(_OfTransaction):
    """Commits what all members of a transaction wrote; a retry finds out what became of the commit before it.

    :param transaction: the output of the task that begins it. (templated)
    """

    operator_extra_links = LINKS
    linked: dict[str, Any] | None = None

    def execute(self, context: Context) -> dict[str, Any]:
        """Commit.

        :return: ``txn_id``, ``statements`` of all members (one document each), and sums of ``inserted``, ``updated``
            and ``deleted``.
        """
        from airflow_hive_acid.engine import StatementResult
        from airflow_hive_acid.engine.transactions.claims import Once
        from airflow_hive_acid.hooks.hive_acid import HiveAcidHook
        from airflow_hive_acid.hooks.transactions import read_transaction
        from airflow_hive_acid.metastore.records import SharedState

        try:
            with (
                HiveAcidHook(self.hive_acid_conn_id) as hook,
                hook.get_engine(agent_info=agent_info(context)) as engine,
            ):
                txn_id = read_transaction(self.transaction)
                self._require_whole(context, hook, txn_id)
                try:
                    txn, records = engine.commit_shared(txn_id)
                except HiveAcidError as error:
                    ended = hook.get_conn().shared_txns.find(txn_id)
                    if ended is None or ended.state is SharedState.ABORTED:
                        # However the error is retried elsewhere: this commit cannot be.
                        raise AirflowFailException(f"{type(error).__name__}: {error}") from error
                    raise
                hook.acknowledge(Once(txn.scope))
        except HiveAcidError as error:
            fail_task(error)
        results = [dataclasses.replace(StatementResult.from_record(record), rows=None) for record in records]
        self.log.info("txn %d is committed: %d statements", txn.txn_id, len(results))
        document = {"txn_id": txn.txn_id, **result_document(results, 0)}
        self.linked = linked_to(document)
        with HiveAcidHook(self.hive_acid_conn_id) as hook:
            tell_commits(self, context, hook, document)
        return document

    def _require_whole(self, context: Context, hook: HiveAcidHook, txn_id: int) -> None:
        """Refuse to commit a part: what tasks did in a transaction before this one is none of its work.

        Who clears a task of a group clears its begin with it, and not the tasks that had succeeded before.

        :raises InvalidArgumentsError: names such a task.
        """
        from airflow_hive_acid.metastore.records import SharedState

        shared = hook.get_conn().shared_txns
        txn = shared.find(txn_id)
        earlier = shared.done_before(txn_id) if txn is not None and txn.state is SharedState.OPEN else []
        earlier = [name for name in earlier if self._is_member(name)]
        if not earlier:
            return
        states = _states(context, sorted({name[3] for name in earlier}))
        for *_, task_id, index in earlier:
            key = task_id if index == "-1" else f"{task_id}_{index}"
            if states.get(key) == "success":
                raise InvalidArgumentsError(
                    f"{txn} is not committed: task {key} has succeeded in an earlier transaction of this run, and what "
                    "it did there is none of this one's work, so a part would be committed. Clear the task that begins "
                    "the transaction with everything that follows it"
                )

    def _is_member(self, name: Sequence[str]) -> bool:
        """Whether a task that was a member of an earlier transaction is one still, as far as its DAG tells."""
        dag, task_id = self.get_dag(), name[3]
        if dag is None:
            return True
        if not dag.has_task(task_id):
            return False
        task: Any = dag.get_task(task_id)
        given = getattr(task, "partial_kwargs", {}).get("transaction", getattr(task, "transaction", None))
        return given is not False


class HiveAcidEndTransactionOperator(_OfTransaction):
    """The teardown: aborts a transaction that is not committed, because one of its tasks failed or timed out.

    :param transaction: the output of the task that begins it; None, of one that began nothing, is fine. (templated)
    """

    def execute(self, context: Context) -> dict[str, Any] | None:
        """Give up what is not committed.

        :return: ``txn_id``, ``state``, and of one that was aborted ``error`` and ``reason``.
        """
        from airflow_hive_acid.hooks.hive_acid import HiveAcidHook
        from airflow_hive_acid.hooks.transactions import EMPTY, read_transaction
        from airflow_hive_acid.maintenance.reaper.shared_txns import give_up

        if self.transaction in EMPTY:
            self.log.info("Nothing was begun")
            return None
        why = "a task of its group failed, timed out or was skipped"
        try:
            txn_id = read_transaction(self.transaction)
            with HiveAcidHook(self.hive_acid_conn_id) as hook:
                txn = give_up(hook.get_conn(), hook.get_filesystem(), txn_id, "TransactionEndedError", why)
        except HiveAcidError as error:
            fail_task(error)
        state = txn.state.name.lower()
        self.log.info("txn %d is %s%s", txn_id, state, f": {txn.error}: {txn.reason}" if txn.reason else "")
        return {"txn_id": txn_id, "state": state, "error": txn.error, "reason": txn.reason}


class HiveAcidTransactionOutcomeOperator(BaseOperator):
    """Says what came of a transaction that may have been tried several times.

    :param tries: task ids of ``begin``, ``commit`` and ``end`` of each try.
    """

    ui_color = _UI_COLOR

    def __init__(self, *, tries: Sequence[tuple[str, str, str]], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.tries = [tuple(ids) for ids in tries]

    def execute(self, context: Context) -> dict[str, Any]:
        """The result of the commit.

        :raises AirflowFailException: when no try was committed; says why the last one was not.
        """
        why = "none of its tries has begun"
        states = _states(context, [task_id for ids in self.tries for task_id in ids])
        for number, (begin, commit, end) in enumerate(self.tries, start=1):
            if _told(context, states, begin, _SKIPPED, "skipped"):
                raise AirflowSkipException("it was committed before, and on_rerun says to skip it then")
            committed, ended = _told(context, states, commit), _told(context, states, end)
            if committed is not None:
                return {"try": number, **committed}
            if ended is not None:
                why = f"try {number}: {ended['error']}: {ended['reason']}"
        raise AirflowFailException(f"the transaction is not committed; {why}")


def _states(context: Context, task_ids: Sequence[str]) -> dict[str, str]:
    """States of tasks of this run, by id; of mapped ones with ``_`` and the index behind it."""
    instance: Any = context["ti"]
    found = instance.get_task_states(dag_id=instance.dag_id, task_ids=list(task_ids), run_ids=[instance.run_id])
    return {name: str(state) for name, state in found.get(instance.run_id, {}).items()}


def _told(
    context: Context, states: Mapping[str, str], task_id: str, key: str = "return_value", state: str = "success"
) -> Any:
    """What a task of the group has told; in a mapped task group the one of the same index.

    What it told before it was cleared stays where it has not run again since: that is nothing.

    :param states: as of :func:`_states`.
    :param state: in which it is when it has told.
    """
    instance: Any = context["ti"]
    if states.get(f"{task_id}_{instance.map_index}", states.get(task_id)) != state:
        return None
    return instance.xcom_pull(task_ids=task_id, key=key, map_indexes=instance.map_index)


def may_retry(error: str | None, retry_on: Sequence[str]) -> bool:
    """Whether a whole transaction is tried again after an error.

    :param error: name of its class.
    """
    from airflow_hive_acid.metastore.records import is_one_of

    return is_one_of(error, retry_on, vars_of_errors())


def vars_of_errors() -> dict[str, type[HiveAcidError]]:
    """Our error classes by name."""
    found = vars(errors).items()
    return {name: kind for name, kind in found if isinstance(kind, type) and issubclass(kind, HiveAcidError)}


def check_retry_on(names: Sequence[str]) -> tuple[str, ...]:
    """Refuse names that are none of our errors.

    :raises InvalidArgumentsError: naming them.
    """
    unknown = [name for name in names if name not in vars_of_errors()]
    if unknown:
        raise InvalidArgumentsError(f"retry_on names {unknown[0]!r}, which is no error of airflow_hive_acid.errors")
    return tuple(names)


__getattr__ = renamed(
    __name__,
    {
        "BeginTransactionOperator": "HiveAcidBeginTransactionOperator",
        "CommitTransactionOperator": "HiveAcidCommitTransactionOperator",
        "EndTransactionOperator": "HiveAcidEndTransactionOperator",
        "KeepTransactionOperator": "HiveAcidKeepTransactionOperator",
        "TransactionOutcomeOperator": "HiveAcidTransactionOutcomeOperator",
    },
)
