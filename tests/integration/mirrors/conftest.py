"""The control side of mirrors without Spark: the job's answer is made up, what it was asked is looked at."""

from __future__ import annotations

import contextlib
import json
from typing import TYPE_CHECKING, Any

import pytest

from airflow_hive_acid.engine import Engine
from airflow_hive_acid.format.jobs import Column, JobResult
from airflow_hive_acid.format.mirrors import SourceTable, event_of, next_state
from airflow_hive_acid.mirrors.runner import run_mirror
from tests.integration.engine.conftest import FakeSpark

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from airflow_hive_acid.format.jobs import JobSpec
    from airflow_hive_acid.metastore import MetastoreClient

TARGET = "iceberg:ice.db.t"
_ANSWER = (Column("changes", "string"), Column("returned", "string"))


class MirrorJob(FakeSpark):
    """Answers as a job of a mirror does.

    :ivar asked: arguments of each call.
    :ivar told: what is answered over what a run that copies the table would say.
    :ivar unknown: the event of the target's state, which nobody has noted here.
    """

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[dict[str, Any]] = []
        self.told: dict[str, Any] = {}
        self.unknown: list[int] | None = None

    def work(self, spec: JobSpec) -> JobResult:
        step: Any = spec.step
        if not hasattr(step, "function"):
            return super().work(spec)
        given = json.loads(json.dumps(step.arguments))
        self.asked.append({"function": step.function, **given})
        source = SourceTable.from_document(given["source"])
        event = event_of(given.get("event"))
        state = next_state(source, given.get("key") or (), given.get("sequence", 0), event)
        answer = {"todo": "bootstrap", "reason": "the target holds nothing yet", "state": state.to_text(),
                  "inserted": 0, "updated": 0, "deleted": 0, "rows": [1, 1], "partitions": 1, "differ": 0,
                  "different": [], **self.told}  # fmt: skip
        if self.unknown is not None and "other_log" not in given:
            answer = {"unknown": self.unknown}
        self.answer = [["[]", json.dumps(answer)]]
        return JobResult(spec.job_id, self.application_id, columns=_ANSWER, rows=1)


@pytest.fixture
def job() -> MirrorJob:
    return MirrorJob()


@pytest.fixture
def engine(client: MetastoreClient, job: MirrorJob, tmp_path: Path) -> Iterator[Engine]:
    """An engine on a metastore with ``w.t``, and ``w.p``, which is partitioned by ``k``."""
    warehouse = (tmp_path / "warehouse").as_uri()
    client.catalog.set_warehouse(warehouse)
    with Engine(client, job, warehouse, agent_info="tests") as engine:
        engine.run(
            "CREATE DATABASE w;"
            "CREATE TABLE w.t (A INT, b STRING) STORED AS ORC TBLPROPERTIES ('transactional'='true');"
            "CREATE TABLE w.p (a INT) PARTITIONED BY (k STRING) STORED AS ORC TBLPROPERTIES ('transactional'='true')"
        )
        yield engine


@pytest.fixture
def run(client: MetastoreClient, engine: Engine) -> Any:
    """Runs a mirror of ``w.t``."""

    def run(table: str = "w.t", target: str = TARGET, **how: Any) -> Any:
        return run_mirror(client, lambda: contextlib.nullcontext(engine), table, target, **how)

    return run
