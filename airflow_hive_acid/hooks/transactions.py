"""Working in a transaction across tasks: what a task is called in it, and how its statements get there.

What goes from task to task is a document that opens nothing: it names the txn. Who wants to work in it needs the
connection, and must belong to the DAG run that has begun it.
"""

from __future__ import annotations

import ast
import contextlib
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from airflow.sdk import get_current_context

from airflow_hive_acid.airflow_versions import AirflowFailException, AirflowSkipException, TaskDeferred
from airflow_hive_acid.errors import HiveAcidError, InvalidArgumentsError
from airflow_hive_acid.hooks.tasks import agent_info, fail_task, longest_wait, task_scope

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from airflow_hive_acid.engine import Engine, StatementResult
    from airflow_hive_acid.engine.outcomes.results import Rows
    from airflow_hive_acid.engine.transactions.members import Membership
    from airflow_hive_acid.hooks.interface import ConnectedHook
    from airflow_hive_acid.metastore.records import SharedTxn

DOCUMENT_VERSION = 1
EMPTY = (None, False, "", "None", "null")
"""What stands for no transaction, as templates render it."""


def transaction_document(txn: SharedTxn) -> dict[str, Any]:
    """What the other tasks get to know of a transaction; plain JSON values, nothing in it needs to be hidden."""
    return {
        "version": DOCUMENT_VERSION,
        "txn_id": txn.txn_id,
        "tables": dict(txn.document["operations"]),
        "write_ids": dict(txn.document["txn"]["write_ids"]),
        "begun_ms": txn.begun,
        "until_ms": txn.until,
    }


def read_transaction(given: object) -> int:
    """The txn that a document names.

    :param given: the document, or its text, as a template renders it.
    :raises InvalidArgumentsError: when it is none, or of another version.
    """
    document = given
    if isinstance(given, str):
        for read in (json.loads, ast.literal_eval):
            with contextlib.suppress(ValueError, SyntaxError, RecursionError, MemoryError):
                document = read(given)
                break
    if not isinstance(document, Mapping) or not isinstance(document.get("txn_id"), int):
        raise InvalidArgumentsError(
            f"transaction is {str(given)[:80]!r}, and must be what the task returned that begins it (txn.output)"
        )
    if document.get("version") != DOCUMENT_VERSION:
        raise InvalidArgumentsError(
            f"the transaction's document has version {document.get('version')!r}, and this release reads version "
            f"{DOCUMENT_VERSION}; clear the task that begins it"
        )
    return int(document["txn_id"])


def member_name(context: Mapping[str, Any]) -> tuple[str, ...]:
    """What a task instance is called in a transaction: the same in all its tries."""
    return task_scope(context)


def member_key(context: Mapping[str, Any]) -> str:
    """The key of a task instance in the transaction's record."""
    from airflow_hive_acid.engine.transactions.shared import member_id  # the SQL parser; not needed to parse a DAG file

    return member_id(member_name(context))


def is_final(context: Mapping[str, Any]) -> Callable[[BaseException], bool]:
    """Tells failures after which Airflow does not try the task again."""
    instance = context["ti"]
    last = instance.try_number > instance.max_tries

    def final(failure: BaseException) -> bool:
        if isinstance(failure, AirflowSkipException | TaskDeferred):
            return False
        if isinstance(failure, AirflowFailException):
            return True
        return last or (isinstance(failure, HiveAcidError) and not failure.retryable)

    return final


@contextlib.contextmanager
def member_of(engine: Engine, context: Mapping[str, Any], transaction: object, patience: float) -> Iterator[Membership]:
    """Let what an engine runs be this task's part of a transaction; see :meth:`Engine.joined`.

    :param transaction: document of it.
    :param patience: seconds to wait for other members.
    """
    txn_id, name = read_transaction(transaction), member_name(context)
    with engine.joined(txn_id, name, patience=patience, is_final=is_final(context)) as membership:
        yield membership


class JoinedTransaction:
    """A transaction across tasks, in a task function that works in it.

    What it writes belongs to the transaction when the block ends; an exception undoes it.
    """

    def __init__(self, engine: Engine, membership: Membership) -> None:
        self._engine = engine
        self._membership = membership

    @property
    def txn_id(self) -> int:
        """The txn's id."""
        return self._membership.txn_id

    @property
    def is_done(self) -> bool:
        """Whether an earlier try of this task has finished: its results are given again, and nothing is applied."""
        return self._membership.is_done

    @property
    def snapshot(self) -> dict[str, str]:
        """What it sees of each table, as Hive writes it (ValidWriteIdList)."""
        return self._membership.snapshot

    def execute(self, sql: str) -> list[StatementResult]:
        """Run statements: they see what finished tasks of the transaction wrote, and what this one wrote before."""
        return self._engine.run(sql)

    def query(self, sql: str) -> Rows:
        """Rows of one SELECT.

        :raises InvalidArgumentsError: when an earlier try has finished, and they were too many to be kept (1,000).
        """
        if not self.is_done:
            return self._engine.query(sql)
        rows = self._engine.run(sql)[0].rows
        if rows is None:
            raise InvalidArgumentsError(
                f"an earlier try of this task has finished, and the rows of {sql.strip()[:80]!r} were too many to be "
                "kept for this one; clear the task that begins the transaction"
            )
        return rows


@contextlib.contextmanager
def join(hook: ConnectedHook, transaction: object) -> Iterator[JoinedTransaction]:
    """Work in a transaction across tasks while a block of a task function runs.

    :param transaction: what the task returned that begins it (``txn.output``).
    :raises AirflowException: for failures of ours that a retry can mend; AirflowFailException for others.
    """
    context: Any = get_current_context()
    try:
        with (
            hook.get_engine(agent_info=agent_info(context)) as engine,
            member_of(engine, context, transaction, longest_wait(hook.settings)) as membership,
        ):
            yield JoinedTransaction(engine, membership)
    except HiveAcidError as error:
        fail_task(error)


def tasks_run_one_by_one() -> bool:
    """Whether this is ``dag.test()``, which runs every task, its trigger included, to its end before the next."""
    from airflow.sdk.execution_time import task_runner

    return type(getattr(task_runner, "SUPERVISOR_COMMS", None)).__name__ == "InProcessSupervisorComms"
