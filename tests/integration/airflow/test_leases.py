"""The DAG of examples/lease_dag.py, run by Airflow on a metastore and an engine whose Spark is made up."""

from __future__ import annotations

import importlib.util
import os
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from airflow_hive_acid.errors import JobFailedError
from airflow_hive_acid.hooks import leases as crossing

if TYPE_CHECKING:
    from airflow.sdk import DAG

    from airflow_hive_acid.metastore import MetastoreClient
    from tests.integration.engine.conftest import FakeSpark

pytestmark = pytest.mark.airflow

EXAMPLE = Path(__file__).parents[3] / "examples" / "lease_dag.py"


@pytest.fixture
def client(sales: MetastoreClient) -> MetastoreClient:
    return sales


@pytest.fixture
def spark(fake_spark: FakeSpark) -> FakeSpark:
    return fake_spark


@pytest.fixture
def secrets(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The secrets that were made."""
    made: list[str] = []
    make = crossing.new_secret

    def remembered() -> str:
        made.append(make())
        return made[-1]

    monkeypatch.setattr(crossing, "new_secret", remembered)
    return made


@pytest.fixture
def example(registered: Any) -> DAG:
    """The DAG of the file."""
    specification = importlib.util.spec_from_file_location("lease_dag", EXAMPLE)
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return registered(module.dag)


def states_of(finished: Any) -> dict[str, str]:
    return {instance.task_id: str(instance.state) for instance in finished.get_task_instances()}


@pytest.mark.rule("R6")
@pytest.mark.rule("R8")
@pytest.mark.story("examples of leases")
def test_the_example_waits_works_under_its_lease_and_gives_it_back(
    example: DAG, client: MetastoreClient, spark: FakeSpark, secrets: list[str], capfd: Any, caplog: Any
) -> None:
    """
    t1  somebody holds sales.orders
    t2                               grab stands in line in the triggerer
    t3  released
    t4                               orders, returns: write under the lease, each sees it held
    t5                               drop; report holds a lease of its own; nobody holds anything
    """
    held = client.leases.grab_lease("sales.orders", 600)
    seen: list[Any] = []

    def release() -> None:
        deadline = time.monotonic() + 120
        while not _queued(client) and time.monotonic() < deadline:
            time.sleep(0.05)
        client.leases.drop_lease(held)

    releasing = threading.Thread(target=release)
    releasing.start()
    spark.meanwhile = lambda spec: seen.append([(h.describe(), h.user) for h in client.leases.list_lease()])
    try:
        finished = example.test()
    finally:
        releasing.join(60)
    assert states_of(finished) == dict.fromkeys(("grab", "orders", "returns", "drop", "report", "free"), "success")
    holder = f"airflow/sales_rebuild/{finished.run_id}/grab#1"
    assert [[name for name, _ in each] for each in seen] == [["sales.orders", "sales.returns"]] * 2
    assert {user[:40] for each in seen for _, user in each} == {holder[:40]}
    assert client.leases.list_lease() == []

    pulled = {i.task_id: i.xcom_pull(task_ids=i.task_id) for i in finished.get_task_instances()}
    assert pulled["report"]["fencing_token"] > pulled["grab"]["lease_id"] > held.lease_id
    captured = capfd.readouterr()
    # XCom, rendered templates, triggers and task state are all in there.
    files = [path.read_bytes() for path in Path(os.environ["AIRFLOW_HOME"]).glob("airflow.db*")]
    everything = b"".join([*files, (captured.out + captured.err + caplog.text).encode()])
    assert pulled["grab"]["sealed"].encode() in everything
    assert len(secrets) == 2
    assert not [secret for secret in secrets if secret.encode() in everything]


def test_a_failed_task_leaves_no_lease(example: DAG, client: MetastoreClient, spark: FakeSpark) -> None:
    def fail(spec: Any) -> None:
        raise JobFailedError("no space left")

    spark.meanwhile = fail
    states = states_of(example.test())
    assert (states["grab"], states["orders"], states["drop"]) == ("success", "failed", "success")
    assert client.leases.list_lease() == []


def _queued(client: MetastoreClient) -> bool:
    import sqlalchemy as sa

    from airflow_hive_acid.metastore.schema.leases import HIVE_ACID_LEASE_QUEUE

    return bool(client.database.read(lambda connection: connection.execute(sa.select(HIVE_ACID_LEASE_QUEUE)).first()))
