"""From what the metastore knows of a worker back to its task in Airflow: the inverse of ``hooks.tasks``.

``TXN_AGENT_INFO``, ``HL_AGENT_INFO`` and the user of a lease say ``airflow/<dag>/<run>/<task>[<index>]#<try>``; the id
of a compaction's worker says ``@airflow-<dag>-<run>-<task>``, and behind ``~`` which Airflow's it is. Both may be cut
off, and anybody may write them: what is not certain is left out, and what looks like no id of Airflow's is no link.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import quote

_ID = r"[\w.-]{1,250}"
_TASK = re.compile(rf"airflow/({_ID})/(.{{1,250}})/({_ID}?)(?:\[(\d{{1,9}})\])?#(\d{{1,9}})")
#: Cut off: ``-`` and the digest of the whole at the end.
_CUT = re.compile(rf"airflow/({_ID})/.*-[0-9a-f]{{16}}", re.DOTALL)
_RUN = r"(?:manual|scheduled|backfill|asset_triggered)__\d{4}-\d\d-\d\dT[\d:.+Z]+(?:_[A-Za-z0-9]+)?"
_INDEX = r"(?:\[(\d{1,9})\])?"
_WORKER = re.compile(rf"(?:compaction \d+ by )?@airflow-({_ID}?)-({_RUN})-({_ID}?){_INDEX}(?:~[0-9a-f]{{4}})?")
_COMPACTION = re.compile(r"compaction (\d{1,19}) by ")


@dataclass(frozen=True, slots=True)
class TaskOf:
    """A task of Airflow, as far as it is known; URLs are relative to Airflow's own.

    :param try_number: None when it is not known, as with compactions: a retry is the same worker.
    """

    dag_id: str
    run_id: str | None = None
    task_id: str | None = None
    map_index: int | None = None
    try_number: int | None = None

    @property
    def dag_url(self) -> str:
        """The DAG's page."""
        return f"dags/{_quoted(self.dag_id)}"

    @property
    def run_url(self) -> str | None:
        """The DAG run's page."""
        return None if self.run_id is None else f"{self.dag_url}/runs/{_quoted(self.run_id)}"

    @property
    def log_url(self) -> str | None:
        """The log of the try."""
        if self.run_id is None or self.task_id is None:
            return None
        mapped = "" if self.map_index is None else f"/mapped/{self.map_index}"
        attempt = "" if self.try_number is None else f"?try_number={self.try_number}"
        return f"{self.run_url}/tasks/{_quoted(self.task_id)}{mapped}{attempt}"


def task_of(text: str | None) -> TaskOf | None:
    """The task that agent information, a lease's user or a worker's id speaks of; None when it is none."""
    if not text:
        return None
    match = _TASK.fullmatch(text)
    if match is not None:
        return _task(match, int(match.group(5)))
    match = _WORKER.fullmatch(text)
    if match is not None:
        return _task(match, None)
    match = _CUT.fullmatch(text)
    return TaskOf(match.group(1)) if match is not None and _is_id(match.group(1)) else None


def compaction_of(agent_info: str | None) -> int | None:
    """The compaction request that a txn serves, by its agent information."""
    match = _COMPACTION.match(agent_info or "")
    return None if match is None else int(match.group(1))


def _task(match: re.Match[str], try_number: int | None) -> TaskOf | None:
    dag_id, run_id, task_id, index = match.group(1, 2, 3, 4)
    if not all(map(_is_id, (dag_id, run_id, task_id))):
        return None
    return TaskOf(dag_id, run_id, task_id, None if index is None else int(index), try_number)


def _is_id(text: str) -> bool:
    """Whether it may stand in a path: one of dots alone would climb."""
    return text.strip(".") != "" and text.isprintable()


def _quoted(text: str) -> str:
    return quote(text, safe="")
