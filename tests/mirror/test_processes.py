"""Mirrors as users run them: spark-submit, the command line, a DAG; processes that are killed at any moment."""

from __future__ import annotations

import contextlib
import importlib.util
import itertools
import json
import os
import random
import signal
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

from airflow_hive_acid.cli.main import app
from airflow_hive_acid.engine import Engine, SparkSubmitLauncher
from airflow_hive_acid.engine.statements.foreign_tables import TableImport
from airflow_hive_acid.engine.transactions.claims import Once
from airflow_hive_acid.errors import HandedOverError, HiveAcidError
from airflow_hive_acid.mirrors.imports import verify_import
from airflow_hive_acid.mirrors.runner import run_mirror
from airflow_hive_acid.testing import HiveAcidTestbed
from airflow_hive_acid.testing.dags import run_dag
from tests.mirror.conftest import ACID, Mirroring, conf_of

if TYPE_CHECKING:
    from airflow_hive_acid.metastore import MetastoreClient

pytestmark = [pytest.mark.mirror, pytest.mark.spark]
EXAMPLES = Path(__file__).parents[2] / "examples"
_numbers = itertools.count()


@pytest.fixture
def launcher(mirror_home: Path, tmp_path: Path) -> SparkSubmitLauncher:
    """Starts the Spark of build/mirror by spark-submit."""
    return SparkSubmitLauncher("local[2]", conf=conf_of(mirror_home), log_directory=tmp_path / "logs")


class Doomed:
    """A launcher whose application is killed some time after it was ready.

    :ivar process: of spark-submit, which leads a process group.
    """

    def __init__(self, launcher: SparkSubmitLauncher, seconds: float) -> None:
        self._session = launcher.start()
        self._session.wait_ready()
        self._timer = threading.Timer(seconds, self._kill)

    def start(self, application: Any = None) -> Any:
        self._timer.start()
        return self._session

    def _kill(self) -> None:
        """End all of it, as a lost machine does."""
        os.killpg(os.getpgid(self._session._driver._process.pid), signal.SIGKILL)

    def stop(self) -> None:
        """Nobody is killed any more."""
        self._timer.cancel()
        self._session.close()


@pytest.mark.timeout(3600)  # of 50 kills
def test_a_spark_that_is_killed_at_any_moment_leaves_a_whole_state(
    mirroring: Mirroring, client: MetastoreClient, warehouse: str, launcher: SparkSubmitLauncher, mirror_home: Path,
    pytestconfig: pytest.Config,
) -> None:  # fmt: skip
    """With SIGKILL, after a random time in the job; the next run finds the target before or after its commit."""
    m, chance = mirroring, random.Random(7)
    targets = [f"iceberg:ice.killed.t{next(_numbers)}", f"delta:{mirror_home}/killed/t{next(_numbers)}"]
    m.sql(f"CREATE TABLE t (id int, s string) {ACID}", "INSERT INTO t SELECT id, 'x' FROM VALUES (1), (2), (3) v(id)")
    for target in targets:
        m.follow(target, ["id"], "bootstrap")
    killed = 0
    for number in range(pytestconfig.getoption("--mirror-kills")):
        target = targets[number % len(targets)]
        m.sql(f"INSERT INTO t VALUES ({100 + number}, 'n')", f"UPDATE t SET s = 'u{number}' WHERE id <= 2",
              f"DELETE FROM t WHERE id = {98 + number}")  # fmt: skip
        doomed = Doomed(launcher, chance.uniform(0.5, 15))
        engine = Engine(client, doomed, warehouse, agent_info="victim")
        try:
            run_mirror(client, lambda engine=engine: contextlib.nullcontext(engine), "default.t", target)
        except HiveAcidError:
            killed += 1
        finally:
            doomed.stop()
        report = m.run(target)
        assert report.todo in ("follow", "nothing"), report.reason
        m.same(target)
    assert killed, "none was killed in time"


@pytest.mark.timeout(3600)
def test_an_import_whose_spark_is_killed_at_any_moment_is_made_once(
    mirroring: Mirroring, client: MetastoreClient, warehouse: str, launcher: SparkSubmitLauncher, mirror_home: Path,
    pytestconfig: pytest.Config,
) -> None:  # fmt: skip
    """With SIGKILL; the table is there whole or not at all, and what tries again makes it, or finds it made."""
    m, chance = mirroring, random.Random(11)
    sources = [f"iceberg:ice.killed.t{next(_numbers)}", f"delta:{mirror_home}/killed/t{next(_numbers)}"]
    m.sql(f"CREATE TABLE t (id int, s string) {ACID}", "INSERT INTO t SELECT id, 'x' FROM VALUES (1), (2), (3) v(id)")
    for source in sources:
        m.run(source, ["id"])
    killed = 0
    for number in range(max(2, pytestconfig.getoption("--mirror-kills") // 2)):
        wanted, once = TableImport.of(sources[number % 2], f"i{number}"), Once(("import", str(number)), "1")
        doomed = Doomed(launcher, chance.uniform(0.5, 10))
        try:
            Engine(client, doomed, warehouse, agent_info="victim").import_table(wanted, once=once)
        except HiveAcidError:
            killed += 1
            there = client.catalog.find_tables([f"default.i{number}"])
            assert not there or m.rows(f"SELECT count(*) FROM i{number}") == [[3]]
        finally:
            doomed.stop()
        made = m.engine.import_table(wanted, once=once)
        assert (made.rows, verify_import(m.client, m.engine, made).is_equal) == (3, True)
    assert killed, "none was killed in time"


def test_the_example_follows_each_commit_compares_and_cuts_over(
    tmp_path: Path, mirror_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A DAG run, by spark-submit; the second one has nothing to do."""
    spec = importlib.util.spec_from_file_location("mirror_dag", EXAMPLES / "mirror_dag.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    catalog = "spark.sql.catalog.lake"
    conf = {**conf_of(mirror_home), catalog: "org.apache.iceberg.spark.SparkCatalog", f"{catalog}.type": "hadoop",
            f"{catalog}.warehouse": str(tmp_path / "lake")}  # fmt: skip
    with HiveAcidTestbed(tmp_path / "hive-acid") as testbed:
        testbed.sql("CREATE DATABASE sales; CREATE TABLE sales.orders (id INT, state STRING, amount DECIMAL(10,2)) "
                    f"{ACID}; INSERT INTO sales.orders VALUES (1, 'new', 10), (2, 'new', 20)")  # fmt: skip
        for dag in (module.orders_mirror, module.orders_mirror_check, module.orders_cut_over):
            for task in dag.tasks:
                task.spark_conf = conf

        def told(dag: Any) -> dict[str, Any]:
            run = run_dag(dag)
            assert str(run.state) == "success"
            (instance,) = run.get_task_instances()
            return instance.xcom_pull(task_ids=instance.task_id)

        first = told(module.orders_mirror)
        assert (first["todo"], first["write_id"], first["target"]) == ("bootstrap", 1, "iceberg:lake.sales.orders")
        testbed.sql("UPDATE sales.orders SET state = 'paid' WHERE id = 1; DELETE FROM sales.orders WHERE id = 2")
        second = told(module.orders_mirror)
        assert (second["todo"], second["updated"], second["deleted"]) == ("follow", 1, 1)
        again = told(module.orders_mirror)
        assert (again["todo"], again["spark"]) == ("nothing", False)
        compared = told(module.orders_mirror_check)
        assert compared["verified"] == {
            "table": "sales.orders", "target": "iceberg:lake.sales.orders", "write_id": 3, "source_rows": 1,
            "target_rows": 1, "partitions": 1, "differ": 0, "different": [],
        }  # fmt: skip
        testbed.sql("INSERT INTO sales.orders VALUES (3, 'late', 30)")
        over = told(module.orders_cut_over)
        assert (over["done"], over["verified"]["differ"], over["verified"]["target_rows"]) == (True, 0, 2)
        with pytest.raises(HandedOverError, match=r"handed over to iceberg:lake\.sales\.orders"):
            testbed.sql("INSERT INTO sales.orders VALUES (4, 'too late', 40)")
        assert told(module.orders_cut_over) == {
            "table": "sales.orders", "target": "iceberg:lake.sales.orders", "action": "cut-over", "done": False,
        }  # fmt: skip


def test_the_command_line_runs_lists_compares_and_forgets(
    mirroring: Mirroring, metastore_url: str, mirror_home: Path
) -> None:
    m, target = mirroring, f"iceberg:ice.cli.t{next(_numbers)}"
    m.sql(f"CREATE TABLE t (id int, s string) PARTITIONED BY (p int) {ACID}",
          "INSERT INTO t VALUES (1, 'x', 1), (2, 'y', 2)")  # fmt: skip

    def call(*arguments: str, code: int = 0) -> str:
        pairs = [word for key, value in conf_of(mirror_home).items() for word in ("--spark-conf", f"{key}={value}")]
        where = ["--metastore-url", metastore_url, "--spark-master", "local[2]", *pairs]
        done = CliRunner().invoke(app, [*where, "mirror", *arguments])
        assert done.exit_code == code, (done.output, done.exception)
        return done.output

    assert f"{target} has default.t up to write id 1: copied whole, because the target holds nothing yet" in call(
        "run", "default.t", target, "--key", "id"
    )
    assert "nothing to do" in call("run", "default.t", target)
    assert "equal at write id 1: 2 rows, 2 partitions" in call("verify", "default.t", target)
    listed = json.loads(call("list", "--format", "json"))
    assert (listed[0]["table"], listed[0]["target"], listed[0]["behind"], listed[0]["differ"]) == (
        "default.t", target, 0, 0,
    )  # fmt: skip
    m.spark.sql(f"DELETE FROM {target.partition(':')[2]} WHERE id = 2")
    said = call("verify", "default.t", target, "--format", "json", code=3)
    assert '[{"partition": "p=2", "source_rows": 1, "target_rows": 0}]' in said
    assert "1 of 2 partitions differ at write id 1" in said
    assert "is forgotten; the target was not touched" in call("forget", "default.t", target)
    assert json.loads(call("list", "--format", "json")) == []
