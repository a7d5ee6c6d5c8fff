"""Mirrors in DAGs: what the operator asks for, what it says, and what it refuses."""

from __future__ import annotations

import json
from datetime import timedelta
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from airflow_hive_acid.airflow_versions import AirflowException, AirflowFailException
from airflow_hive_acid.engine import Engine
from airflow_hive_acid.hooks.hive_acid import HiveAcidHook
from airflow_hive_acid.metastore.records.mirrors import Mirrors
from airflow_hive_acid.mirrors import cut_over as room
from airflow_hive_acid.operators import HiveAcidMirrorCutOverOperator, HiveAcidMirrorOperator
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


def cut_over(action: str = "cut-over", **more: Any) -> dict[str, Any]:
    given: dict[str, Any] = {"table": "w.t", "target": TARGET, "action": action, **more}
    return HiveAcidMirrorCutOverOperator(task_id="c", hive_acid_conn_id="acid", **given).execute(context())


def test_the_primary_moves_over_and_back_and_each_is_done_once(job: MirrorJob, client: MetastoreClient) -> None:
    mirror(key=["a"])
    done = cut_over()
    assert done["verified"]["target_rows"] == 1
    assert {**done, "verified": {}} == {
        "table": "w.t", "target": TARGET, "action": "cut-over", "done": True, "verified": {},
    }  # fmt: skip
    asked = len(job.asked)
    assert cut_over() == {"table": "w.t", "target": TARGET, "action": "cut-over", "done": False}
    assert (client.mirrors.primaries(["w.t"]), len(job.asked)) == ({"w.t": TARGET}, asked)
    assert (cut_over("take-back")["done"], client.mirrors.primaries(["w.t"])) == (True, {})
    assert cut_over("take-back")["done"] is False
    assert client.show_locks("w.t") == []
    cut_over()
    assert (cut_over("retire")["done"], client.catalog.find_tables(["w.t"])) == (True, {})
    assert cut_over("retire")["done"] is False
    assert client.mirrors.list() == []


def died(client: MetastoreClient, patch: pytest.MonkeyPatch, of: Any, name: str, action: str) -> None:
    """A task that dies when it comes to this."""

    def dies(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    with patch.context() as patched:
        patched.setattr(of, name, dies)
        with pytest.raises(KeyboardInterrupt):
            cut_over(action)


@pytest.mark.parametrize("place", ["_alone", "_drop", "forget"])
def test_a_retire_that_died_is_gone_on_with(
    job: MirrorJob, client: MetastoreClient, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    """Before its lease, before it drops the table, and before it forgets the mirror."""
    mirror(key=["a"])
    cut_over()
    died(client, monkeypatch, Mirrors if place == "forget" else room, place, "retire")
    assert client.mirrors.primaries(["w.t"]) == {}
    assert cut_over("retire")["done"] is True
    assert (client.catalog.find_tables(["w.t"]), client.mirrors.list()) == ({}, [])


def test_a_retire_that_died_drops_nothing_that_was_taken_back_or_written_since(
    job: MirrorJob, client: MetastoreClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    mirror(key=["a"])
    cut_over()
    died(client, monkeypatch, room, "_alone", "retire")
    write = client.open_txn()
    client.allocate_write_ids("w.t", write)
    client.commit_txn(write)
    with pytest.raises(AirflowFailException, match="was not dropped"):
        cut_over("retire")
    assert cut_over("take-back")["done"] is True
    with pytest.raises(AirflowFailException, match="not handed over"):
        cut_over("retire")
    assert client.catalog.find_tables(["w.t"])


def test_a_take_back_or_a_cut_over_that_died_is_no_reason_to_drop_the_table(
    job: MirrorJob, client: MetastoreClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The property of the table names the mirror, which is not the primary: taking it back takes that away, too."""
    mirror(key=["a"])
    cut_over()
    died(client, monkeypatch, room, "_alter", "take-back")
    died(client, monkeypatch, room, "_declare", "cut-over")
    with pytest.raises(AirflowFailException, match="not handed over"):
        cut_over("retire")
    assert "hive.acid.primary" in client.catalog.get_table("w.t").properties
    assert cut_over("take-back")["done"] is True
    assert "hive.acid.primary" not in client.catalog.get_table("w.t").properties


def test_writers_that_do_not_end_are_no_reason_to_give_up_and_a_difference_is(
    job: MirrorJob, client: MetastoreClient
) -> None:
    mirror(key=["a"])
    with client.begin({"w.t": "insert"}), pytest.raises(AirflowException, match="LeaseAlreadyExists") as raised:
        cut_over(wait=timedelta(seconds=0.1))
    assert not isinstance(raised.value, AirflowFailException)
    job.told = {"differ": 1, "different": [{"partition": "", "source_rows": 1, "target_rows": 2}]}
    with pytest.raises(AirflowFailException, match="Nothing was declared"):
        cut_over()
    assert client.mirrors.primaries(["w.t"]) == {}
    job.told = {}
    cut_over()
    job.told = {"differ": 1, "different": [{"partition": "", "source_rows": 1, "target_rows": 2}]}
    with pytest.raises(AirflowFailException, match="written since"):
        cut_over("take-back")
    assert cut_over("take-back", discard=True)["done"] is True


def test_a_task_that_is_killed_stops_spark_and_leaves_the_table_writable(
    job: MirrorJob, client: MetastoreClient
) -> None:
    mirror(key=["a"])
    task = HiveAcidMirrorCutOverOperator(task_id="c", hive_acid_conn_id="acid", table="w.t", target=TARGET)
    original = job.work

    def work(spec: Any) -> Any:
        task.on_kill()
        return original(spec)

    job.work = work  # type: ignore[method-assign]
    with pytest.raises(AirflowException):
        task.execute(context())
    assert (client.mirrors.primaries(["w.t"]), client.leases.list_lease(), client.show_locks("w.t")) == ({}, [], [])
    job.work = original  # type: ignore[method-assign]
    assert cut_over()["done"] is True


@pytest.mark.parametrize(("more", "said"), [
    ({"action": "drop"}, "must be 'cut-over', 'take-back' or 'retire', not 'drop'"),
    ({"discard": True}, "discard belongs to action='take-back'"), ({"lease": "x"}, "a lease of its own"),
])  # fmt: skip
def test_a_cut_over_that_cannot_be_meant_is_refused_where_it_is_written(more: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        HiveAcidMirrorCutOverOperator(task_id="c", **{"table": "w.t", "target": TARGET, **more})


@pytest.mark.parametrize("more", [{"target": "delta:/a/../b"}, {"target": "iceberg:x"}, {"table": "w.t; DROP"},
                                  {"table": "w.none"}, {"target": "delta:/none"}])  # fmt: skip
@pytest.mark.parametrize("action", ["cut-over", "take-back", "retire"])
def test_names_of_no_mirror_change_nothing(
    job: MirrorJob, client: MetastoreClient, action: str, more: dict[str, Any]
) -> None:
    mirror(key=["a"])
    if action == "retire" and more == {"table": "w.none"}:
        assert cut_over(action, **more)["done"] is False
    else:
        with pytest.raises(AirflowFailException):
            cut_over(action, **more)
    assert client.catalog.find_tables(["w.t"])
    assert client.mirrors.primaries(["w.t"]) == {}
