"""Mirrors in DAGs: what the operator asks for, what it says, and what it refuses."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from airflow_hive_acid.airflow_versions import AirflowException, AirflowFailException
from airflow_hive_acid.engine import Engine
from airflow_hive_acid.hooks.hive_acid import HiveAcidHook
from airflow_hive_acid.operators import HiveAcidMirrorOperator
from tests.integration.mirrors.conftest import TARGET, MirrorJob

if TYPE_CHECKING:
    from pathlib import Path

    from airflow_hive_acid.metastore import MetastoreClient

pytestmark = pytest.mark.backends("sqlite")


@pytest.fixture
def job(metastore_url: str, client: MetastoreClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MirrorJob:
    """Takes the place of Spark; ``w.t`` has one row."""
    warehouse, job = (tmp_path / "warehouse").as_uri(), MirrorJob()
    extra = {"metastore_url": metastore_url, "warehouse": warehouse}
    monkeypatch.setenv("AIRFLOW_CONN_ACID", json.dumps({"conn_type": "hive_acid", "extra": extra}))
    client.catalog.set_warehouse(warehouse)
    with Engine(client, job, warehouse) as engine:
        engine.run("CREATE DATABASE w; CREATE TABLE w.t (a INT) STORED AS ORC TBLPROPERTIES ('transactional'='true');"
                   "INSERT INTO w.t VALUES (1)")  # fmt: skip
    job.starts = 0
    monkeypatch.setattr(HiveAcidHook, "job_launcher", lambda *_: job)
    return job


def context() -> Any:
    return {"ti": SimpleNamespace(dag_id="d", run_id="r", task_id="m", map_index=-1, try_number=1, max_tries=2)}


def mirror(**more: Any) -> dict[str, Any]:
    given = {"table": "w.t", "target": TARGET, **more}
    return HiveAcidMirrorOperator(task_id="m", hive_acid_conn_id="acid", **given).execute(context())


def test_a_task_follows_and_starts_no_spark_when_there_is_nothing_to_do(job: MirrorJob) -> None:
    done = mirror(key=["a"])
    assert done == {
        "table": "w.t", "target": TARGET, "todo": "bootstrap", "reason": "the target holds nothing yet", "write_id": 1,
        "key": ["a"], "inserted": 0, "updated": 0, "deleted": 0, "spark": True,
    }  # fmt: skip
    assert job.starts == 1
    done = mirror(key=["a"])
    assert (done["todo"], done["spark"], job.starts, len(job.asked)) == ("nothing", False, 1, 1)


def test_both_sides_are_compared_when_that_is_wanted(job: MirrorJob) -> None:
    done = mirror(verify=True)
    assert (done["verified"]["differ"], done["verified"]["source_rows"]) == (0, 1)
    assert [asked["function"] for asked in job.asked] == ["follow", "verify"]
    different = [{"partition": "k=a", "source_rows": 2, "target_rows": 1}]
    job.told = {"differ": 1, "different": different, "partitions": 3}
    with pytest.raises(AirflowFailException, match=r"differs from w\.t at write id 1 in 1 of 3 partitions: k=a\. Copy"):
        mirror(verify=True)


def test_a_conflict_is_tried_again_and_two_rows_of_a_key_are_not(job: MirrorJob) -> None:
    job.fail("MirrorConflictError", "somebody else changed it")
    with pytest.raises(AirflowException, match="somebody else changed it") as raised:
        mirror()
    assert not isinstance(raised.value, AirflowFailException)
    job.fail("MirrorKeyError", "two rows of w.t have the key a = 1")
    with pytest.raises(AirflowFailException, match="two rows"):
        mirror(key="a")


def test_what_excludes_each_other_is_refused_where_it_is_written() -> None:
    with pytest.raises(ValueError, match="bootstrap and refuse_bootstrap exclude each other"):
        HiveAcidMirrorOperator(task_id="m", table="w.t", target=TARGET, bootstrap=True, refuse_bootstrap=True)


@pytest.mark.parametrize("more", [{"target": "delta:/a/../b"}, {"target": "iceberg:x"}, {"table": "w.t; DROP"},
                                  {"key": ["a", "A"]}])  # fmt: skip
def test_names_that_are_none_start_nothing(job: MirrorJob, more: dict[str, Any]) -> None:
    with pytest.raises(AirflowFailException):
        mirror(**more)
    assert job.starts == 0


def test_its_lineage_reads_the_table() -> None:
    operator = HiveAcidMirrorOperator(task_id="m", table="w.t", target=TARGET)
    assert operator.lineage_script() == "SELECT * FROM `w`.`t`"
