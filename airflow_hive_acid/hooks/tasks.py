"""What a running Airflow task is called in the metastore, and how our errors end it."""

from __future__ import annotations

import hashlib
import logging
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn

from airflow_hive_acid import errors
from airflow_hive_acid.airflow_versions import AirflowException, AirflowFailException
from airflow_hive_acid.errors import HiveAcidError
from airflow_hive_acid.hooks import stats
from airflow_hive_acid.hooks.arguments import check_rendered

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from airflow_hive_acid.engine import Engine
    from airflow_hive_acid.engine.transactions.claims import Once
    from airflow_hive_acid.hooks.arguments import Takes
    from airflow_hive_acid.metastore.protocol import Patience
    from airflow_hive_acid.settings import Settings


log = logging.getLogger(__name__)

KILL_SECONDS = 20.0
"""How long ``on_kill`` waits for a Spark application to be stopped."""
#: Characters of TXN_AGENT_INFO.
_LONGEST = 128
#: A worker's txns name it beside the request, so its id must be shorter; the first character is worker_name's.
_LONGEST_WORKER = 89


def agent_info(context: Mapping[str, Any]) -> str:
    """Who opens a txn, for everybody who looks at it: ``airflow/<dag>/<run>/<task>[<map index>]#<try>``."""
    instance = context["ti"]
    task = f"{instance.dag_id}/{instance.run_id}/{instance.task_id}{_mapped(instance)}"
    return _fitting(f"airflow/{task}#{instance.try_number}")


def worker_id(context: Mapping[str, Any]) -> str:
    """Who claims a compaction request. The try is not part of it: a retry is the same worker.

    A worker of another Airflow, whose DAGs and runs are called the same, is another one: each takes what the other
    works on for what an earlier try of its own has left.

    The id is no host's: see :func:`~airflow_hive_acid.maintenance.worker.worker.worker_name`.
    """
    from airflow_hive_acid.maintenance.worker.worker import worker_name  # not needed to parse a DAG file

    instance = context["ti"]
    task = f"{instance.dag_id}-{instance.run_id}-{instance.task_id}{_mapped(instance)}"
    # Short, because most names fit then, and the page finds the task by them: it tells a few Airflows apart.
    unique = "".join(f"~{hashlib.sha256(part.encode()).hexdigest()[:4]}" for part in _unique(context))
    return worker_name(_fitting(f"airflow-{task}{unique}", _LONGEST_WORKER))


def task_scope(context: Mapping[str, Any]) -> tuple[str, ...]:
    """What a task instance is called among those of its run: the same in all its tries."""
    instance = context["ti"]
    index = -1 if instance.map_index is None else instance.map_index
    return ("airflow", instance.dag_id, instance.run_id, instance.task_id, str(index))


def unique_scope(context: Mapping[str, Any]) -> tuple[str, ...]:
    """The same, and what no task instance of another run or of another Airflow has, where that can be told."""
    return task_scope(context) + _unique(context)


def _unique(context: Mapping[str, Any]) -> tuple[str, ...]:
    """What tells a task from those of the same names: the deployment and the life of its run; empty without either."""
    from airflow_hive_acid.hooks.lives import deployment_id, run_life  # not needed to parse a DAG file

    unique = ".".join(part for part in (deployment_id(), run_life(context)) if part)
    return (unique,) if unique else ()


#: What is handed on between tries for locks of the Hive Concurrency Model: how many there were.
TRIED = "tried"
#: And of which request of the script.
TRIED_OF = "tried_of"


def once_of(context: Mapping[str, Any], on_rerun: str) -> Once:
    """What all tries of a task instance have in common, and no other task instance has (R14).

    Names alone do not tell a DAG run from one that was deleted, nor from that of another Airflow: the life of the run
    and the deployment belong to the key. Clearing a task gives it more tries than it had before; retries do not. So
    their highest number tells a deliberate re-run from a retry.

    :param on_rerun: ``apply`` or ``skip``.
    """
    from airflow_hive_acid.engine.transactions.claims import Once  # the SQL parser; triggers and sensors do without
    from airflow_hive_acid.hooks.lives import task_life
    from airflow_hive_acid.metastore.records import Rerun

    return Once(unique_scope(context), life=task_life(context), on_rerun=Rerun(on_rerun))


def patience(settings: Settings, waiting: Mapping[str, Any] | None) -> Patience:
    """How long a task waits for locks itself, and what a trigger has waited for on its behalf."""
    from airflow_hive_acid.metastore.protocol import Patience  # not needed to parse a DAG file

    seconds = settings.seconds("hive.acid.lock.defer.after")
    if waiting is not None and TRIED in waiting:
        return Patience(seconds, tried=int(waiting[TRIED]), of=str(waiting.get(TRIED_OF, "")))
    return Patience(seconds, waiting)


def longest_wait(settings: Settings) -> float:
    """Seconds after which a wait for locks is given up, as Hive's clients do."""
    from airflow_hive_acid.metastore.protocol import total_ms  # not needed to parse a DAG file

    tries = settings.integer("hive.lock.numretries")
    return total_ms(tries, settings.milliseconds("hive.lock.sleep.between.retries")) / 1000


def error_of_event(event: Mapping[str, Any]) -> HiveAcidError:
    """The error that a trigger has told of: of the same class, so that Airflow retries where that can help."""
    kind = getattr(errors, str(event.get("type")), None)
    message = str(event.get("message") or "the wait came to nothing; the log of the triggerer says why")
    if isinstance(kind, type) and issubclass(kind, errors.HiveAcidError) and kind is not errors.LocksPendingError:
        return kind(message)
    return errors.JobFailedError(message)


def stop_on_kill(stop: Callable[[], None]) -> None:
    """What ``on_kill`` does: stop the work, and wait a while for that.

    In a thread, because ``on_kill`` runs in a signal handler, and what it interrupted may hold a lock that is needed.
    """
    thread = threading.Thread(target=stop, name="hive-acid-kill", daemon=True)
    thread.start()
    thread.join(KILL_SECONDS)


@dataclass(frozen=True, slots=True)
class Running:
    """What a task is doing, for whoever has to stop it.

    :param holds: what it holds meanwhile, for messages.
    :param let_go: ends that; returns what became of it.
    """

    engine: Engine
    holds: str
    let_go: Callable[[], str]

    def stop(self) -> None:
        """Stop it; nothing of it will be visible, and nobody waits for what it held.

        Both at the same time: Airflow kills the process 5 seconds after it has asked it to end, and an application on
        a cluster may take longer than that to be stopped. What it may still write is fenced (R4).
        """
        stopping = threading.Thread(target=self.engine.cancel, name="hive-acid-cancel", daemon=True)
        stopping.start()
        try:
            said = self.let_go()
        except errors.HiveAcidError as error:
            log.warning("%s could not be let go of and will time out: %s", self.holds, error)
        else:
            log.info("stopped; %s", said)
        stopping.join()


def fail_task(error: HiveAcidError) -> NoReturn:
    """End the task with an error of ours.

    :raises AirflowException: when doing the same again can succeed; Airflow retries then.
    :raises AirflowFailException: when it cannot; the task fails at once, whatever retries it has.
    """
    text = f"{type(error).__name__}: {error}"
    stats.count("task_failures", None, labels={"error": type(error).__name__})
    if error.retryable:
        raise AirflowException(text) from error
    raise AirflowFailException(text) from error


def require_rendered(task: Any, takes: Takes) -> None:
    """End a task, before it begins anything, whose rendered fields are not what it takes.

    :raises AirflowFailException: names task, field and remedy.
    """
    try:
        check_rendered(task, takes)
    except HiveAcidError as error:
        fail_task(error)


def _fitting(text: str, longest: int = _LONGEST) -> str:
    """Shortened to what the metastore holds, and still different from every other one."""
    if len(text) <= longest:
        return text
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    return f"{text[: longest - len(digest) - 1]}-{digest}"


def _mapped(instance: Any) -> str:
    index = instance.map_index
    return f"[{index}]" if index is not None and index >= 0 else ""
