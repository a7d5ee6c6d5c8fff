"""What a running Airflow task is called in the metastore, and how our errors end it."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, NoReturn

from airflow.sdk.exceptions import AirflowException, AirflowFailException

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from airflow_hive_acid.errors import HiveAcidError


#: Characters of TXN_AGENT_INFO and CQ_WORKER_ID.
_LONGEST = 128


def agent_info(context: Mapping[str, Any]) -> str:
    """Who opens a txn, for everybody who looks at it: ``airflow/<dag>/<run>/<task>[<map index>]#<try>``."""
    instance = context["ti"]
    task = f"{instance.dag_id}/{instance.run_id}/{instance.task_id}{_mapped(instance)}"
    return _fitting(f"airflow/{task}#{instance.try_number}")


def worker_id(context: Mapping[str, Any]) -> str:
    """Who claims a compaction request. The try is not part of it: a retry is the same worker.

    Hive takes what stands before the first hyphen for the host of a metastore service; ``airflow`` is none.
    """
    instance = context["ti"]
    return _fitting(f"airflow-{instance.dag_id}-{instance.run_id}{_mapped(instance)}")


def fail_task(error: HiveAcidError) -> NoReturn:
    """End the task with an error of ours.

    :raises AirflowException: when doing the same again can succeed; Airflow retries then.
    :raises AirflowFailException: when it cannot; the task fails at once, whatever retries it has.
    """
    text = f"{type(error).__name__}: {error}"
    if error.retryable:
        raise AirflowException(text) from error
    raise AirflowFailException(text) from error


def _fitting(text: str) -> str:
    """Shortened to what the metastore holds, and still different from every other one."""
    if len(text) <= _LONGEST:
        return text
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    return f"{text[: _LONGEST - len(digest) - 1]}-{digest}"


def _mapped(instance: Any) -> str:
    index = instance.map_index
    return f"[{index}]" if index is not None and index >= 0 else ""
