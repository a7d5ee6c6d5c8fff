"""The replication DAG between two metastores: first copy, following, waiting, and an asset event for each commit."""

from __future__ import annotations

import json
import random
from datetime import timedelta
from types import SimpleNamespace

import pytest
from airflow.sdk import DAG

from airflow_hive_acid.airflow_versions import (
    AirflowException,
    AirflowFailException,
    AssetOrTimeSchedule,
    TaskDeferred,
    interval_of,
)
from airflow_hive_acid.dag_factories.replication import replication_dags
from airflow_hive_acid.errors import InvalidArgumentsError
from airflow_hive_acid.hooks.replication import configured_policies, policy_asset
from airflow_hive_acid.metastore import MetastoreClient
from airflow_hive_acid.operators.replication import HiveAcidReplicationOperator
from airflow_hive_acid.replication.policies.state import PolicyRecord
from airflow_hive_acid.replication.site import Site
from airflow_hive_acid.sensors.replication import HiveAcidReplicationLagSensor
from airflow_hive_acid.triggers.replication import ReplicationFreeTrigger, ReplicationNewsTrigger
from tests.integration.replication.world import Watch, World

pytestmark = [pytest.mark.crossing("replication x DAG runs"), pytest.mark.airflow]

POLICY = {"name": "sales", "source": "berlin", "destination": "madrid", "databases": ["sales"]}


@pytest.fixture
def sites(metastore_url, replica_metastore_url, tmp_path, monkeypatch):
    """Connections ``berlin`` and ``madrid``, and the sites behind them."""
    found = []
    for name, url in (("berlin", metastore_url), ("madrid", replica_metastore_url)):
        warehouse = tmp_path / name
        warehouse.mkdir()
        extra = {"metastore_url": url, "warehouse": str(warehouse)}
        monkeypatch.setenv(f"AIRFLOW_CONN_{name.upper()}", json.dumps({"conn_type": "hive_acid", "extra": extra}))
        client = MetastoreClient(url)
        client.catalog.set_warehouse(warehouse.as_uri())
        found.append(Site(client, name=name))
    yield tuple(found)
    for site in found:
        site.client.close()


@pytest.fixture
def world(sites):
    primary, replica = sites
    found = World(primary, random.Random(3))
    found.create()
    replica.client.catalog.create_database("sales")
    found.write()
    return found


def commits_told(name):
    """What the asset events of a policy say, in order, since Airflow's database was made."""
    from airflow.models.asset import AssetEvent, AssetModel
    from airflow.utils.session import create_session  # noqa: TID251 - the test reads Airflow's own database
    from sqlalchemy import select

    with create_session() as session:
        rows = session.execute(
            select(AssetEvent.extra).join(AssetModel, AssetModel.id == AssetEvent.asset_id)
            .where(AssetModel.uri == policy_asset(name).uri).order_by(AssetEvent.id)
        )  # fmt: skip
        return [row[0] for row in rows]


def test_dag_copies_follows_and_tells_of_each_commit_once(sites, world, run, registered):
    _, replica = sites
    before = len(commits_told("sales"))
    (dag,) = replication_dags([POLICY])
    registered(dag)
    assert run(dag, wait_seconds=0) == {"": "success", "sales.bootstrap": "success", "sales.follow": "success"}
    watch = Watch(world, replica)
    watch.look(must_be_current=True)
    world.two_tables()
    world.write()
    run(dag, wait_seconds=0)
    watch.look(must_be_current=True)
    assert run(dag, wait_seconds=0.01)[""] == "success"  # waits in a trigger, in vain
    told = commits_told("sales")[before:]
    assert [one["kind"] for one in told] == ["first_copy", "replicated", "replicated"]
    assert told[1]["tables"] == ["sales.parts", "sales.plain"]
    assert len({one["event_id"] for one in told}) == 3
    with DAG("fresh", schedule=None) as waits:
        HiveAcidReplicationLagSensor(task_id="lag", policy="sales", max_lag=3600, hive_acid_conn_id="madrid")
    registered(waits)
    assert run(waits) == {"": "success", "lag": "success"}


def context(store=None, tries=2, **told):
    """As much of a task's context as the operator needs."""

    class Events(list):
        def add(self, asset, extra):
            self.append((asset.uri, extra))

    class Instance:
        dag_id, run_id, task_id, map_index, try_number, max_tries = "d", "r", "t", -1, 1, tries

    events = Events()
    return {
        "ti": Instance(), "outlet_events": type("All", (), {"__getitem__": lambda _self, _key: events})(),
        "task_state_store": store, "told": events, **told,
    }  # fmt: skip


class Store(dict):
    def set(self, key, value, retention=None):
        self[key] = value


@pytest.mark.backends("sqlite")
def test_a_retry_tells_of_what_the_try_before_brought_and_could_not_tell_of(sites, world, monkeypatch):
    """Killed between the commit at the replica and the end of the task: exactly once all the same."""
    operator = HiveAcidReplicationOperator(task_id="t", policy=POLICY)
    operator.execute(context(Store()))
    world.write()
    tell = HiveAcidReplicationOperator._tell
    monkeypatch.setattr(HiveAcidReplicationOperator, "_tell", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    store = Store()
    with pytest.raises(KeyboardInterrupt):
        operator.execute(context(store))
    monkeypatch.setattr(HiveAcidReplicationOperator, "_tell", tell)
    world.two_tables()
    retry = context(store)
    assert operator.execute(retry)["events"] > 0
    assert [extra["kind"] for _, extra in retry["told"]] == ["replicated", "replicated"]
    # The run after it tells of nothing again, and neither does the same one, run anew on purpose.
    for later in (context(Store()), context(store, tries=5)):
        operator.execute(later)
        assert later["told"] == []


@pytest.mark.backends("sqlite")
def test_a_clear_after_the_retries_were_lowered_tells_of_nothing_again(sites, world):
    """
    t1  retries=1: the task brings a commit and tells of it, in its first try of 2 at most
    t2  the DAG says retries=0; the task is cleared: one try was, and none is to follow (max_tries stays)
    """
    operator = HiveAcidReplicationOperator(task_id="t", policy=POLICY)
    operator.execute(context(Store()))
    world.write()

    def task_of(retries, clears):
        return {"task": SimpleNamespace(retries=retries), "dag_run": SimpleNamespace(clear_number=clears)}

    store = Store()
    first = context(store, tries=1, **task_of(retries=1, clears=0))
    operator.execute(first)
    assert [extra["kind"] for _, extra in first["told"]] == ["replicated"]
    cleared = context(store, tries=1, **task_of(retries=0, clears=1))
    operator.execute(cleared)
    assert cleared["told"] == []


@pytest.mark.backends("sqlite")
def test_without_news_a_task_waits_in_a_trigger_and_goes_on_with_what_has_come(sites, world):
    primary, replica = sites
    operator = HiveAcidReplicationOperator(task_id="t", policy=POLICY, wait_seconds="300")
    position = operator.execute(context())["position"]
    with pytest.raises(TaskDeferred) as deferred:
        operator.execute(context())
    trigger = deferred.value.trigger
    assert isinstance(trigger, ReplicationNewsTrigger)
    assert (trigger.position, trigger.hive_acid_conn_id) == (position, "berlin")
    assert trigger.check(primary.client) is None
    world.write()
    assert trigger.check(primary.client) == {"news": True}
    done = operator.execute_complete(context(), {"status": "success", "news": True})
    assert done["before"] == position
    Watch(world, replica).look(must_be_current=True)


@pytest.mark.backends("sqlite")
def test_while_another_cycle_is_at_work_a_task_waits_once_and_then_leaves_it_to_a_retry(sites, world):
    _, replica = sites
    operator = HiveAcidReplicationOperator(task_id="t", policy=POLICY)
    with replica.client.mutexes.hold(PolicyRecord(replica.client.database, "sales").mutex):
        with pytest.raises(TaskDeferred) as deferred:
            operator.execute(context())
        trigger = deferred.value.trigger
        assert isinstance(trigger, ReplicationFreeTrigger)
        with MetastoreClient(replica.client.database.url) as other:
            assert trigger.check(other) is None
        with pytest.raises(AirflowException, match="one runs at a time") as failed:
            operator.execute_complete(context(), {"status": "success", "free": True})
        assert not isinstance(failed.value, AirflowFailException)  # Airflow tries again
    assert trigger.check(replica.client) == {"free": True}


@pytest.mark.backends("sqlite")
def test_a_purged_log_ends_the_task_with_the_proposal_to_copy_again(sites, world):
    primary, replica = sites
    operator = HiveAcidReplicationOperator(task_id="t", policy=POLICY)
    operator.execute(context())
    world.write()
    primary.client.notifications.purge(-1000, 1000)
    with pytest.raises(AirflowFailException, match=r"hive-acid replication bootstrap sales.*nothing is copied again"):
        operator.execute(context())
    again = HiveAcidReplicationOperator(task_id="t", policy=POLICY, bootstrap=["sales"], only_first=True)
    told = context()
    assert again.execute(told)["first"] is True
    assert [extra["kind"] for _, extra in told["told"]] == ["first_copy"]
    Watch(world, replica).look(must_be_current=True)
    assert HiveAcidReplicationOperator(task_id="t", policy=POLICY, only_first=True).execute(context())["first"] is False


@pytest.mark.backends("sqlite")
def test_policies_with_a_schedule_have_a_dag_of_their_own(monkeypatch, tmp_path):
    hr = {"name": "hr", "source": "madrid", "destination": "berlin", "databases": ["hr"], "schedule": "@hourly"}
    logs = {**POLICY, "name": "logs", "databases": ["logs"]}
    file = tmp_path / "policies.json"
    file.write_text(json.dumps([POLICY, hr, logs]))
    monkeypatch.setenv("AIRFLOW__HIVE_ACID__REPLICATION_POLICIES", str(file))
    shared, own = replication_dags()
    assert (shared.dag_id, own.dag_id) == ("hive_acid_replication", "hive_acid_replication_hr")
    assert sorted(shared.task_ids) == ["logs.bootstrap", "logs.follow", "sales.bootstrap", "sales.follow"]
    assert shared.get_task("sales.follow").upstream_task_ids == {"sales.bootstrap"}
    assert isinstance(shared.timetable, AssetOrTimeSchedule)
    assert interval_of(shared.timetable.timetable) == timedelta(minutes=5)
    assert (shared.params["wait_seconds"], own.params["wait_seconds"]) == (60, 0)
    assert "| sales | berlin | madrid | `sales.*` |" in shared.doc_md
    monkeypatch.setenv("AIRFLOW__HIVE_ACID__REPLICATION_POLICIES", json.dumps([{**hr, "schedule": "soon"}]))
    with pytest.raises(InvalidArgumentsError, match="replication policy 'hr': schedule = 'soon' is no schedule"):
        replication_dags()
    monkeypatch.setenv("AIRFLOW_VAR_REPLICATED", json.dumps([POLICY]))
    monkeypatch.setenv("AIRFLOW__HIVE_ACID__REPLICATION_POLICIES", "variable:replicated")
    assert [one.name for one in configured_policies()] == ["sales"]
    monkeypatch.setenv("AIRFLOW__HIVE_ACID__REPLICATION_POLICIES", "variable:nobody")
    with pytest.raises(InvalidArgumentsError, match="Airflow has no variable 'nobody'"):
        configured_policies()
