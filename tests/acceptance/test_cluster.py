"""A Spark standalone cluster on loopback: two workers, nothing shared with the driver but the warehouse.

The workers know nothing of this checkout: what executors need of the package comes with the application.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import time
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING

import pyspark
import pytest

from airflow_hive_acid.engine import Engine, SparkSubmitLauncher
from airflow_hive_acid.maintenance.decisions import Kind
from airflow_hive_acid.metastore import MetastoreClient

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.spark, pytest.mark.story("a table on a standalone cluster")]


@pytest.fixture(scope="module")
def master(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a master with two workers of one core each."""
    folder = tmp_path_factory.mktemp("cluster")
    home = Path(pyspark.__file__).parent
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "SPARK_", "PYSPARK_"))}
    environment |= {"SPARK_HOME": str(home), "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_DAEMON_MEMORY": "256m"}
    environment["SPARK_DAEMON_JAVA_OPTS"] = os.environ["SPARK_SUBMIT_OPTS"]
    main = [str(home / "bin" / "spark-class"), "org.apache.spark.deploy"]
    processes: list[subprocess.Popen[bytes]] = []
    deadline = time.monotonic() + 600

    def start(kind: str, *arguments: str) -> Path:
        log = folder / f"log{len(processes)}"
        command = [main[0], f"{main[1]}.{kind}", "--host", "127.0.0.1", "--webui-port", "0", *arguments]
        with log.open("wb") as output:
            processes.append(
                subprocess.Popen(command, env=environment, cwd=folder, stdout=output, stderr=subprocess.STDOUT)
            )
        return log

    def wait() -> None:
        logs = "\n".join(p.read_text()[-2000:] for p in sorted(folder.glob("log*")))
        assert all(p.poll() is None for p in processes), logs
        assert time.monotonic() < deadline, logs
        time.sleep(0.2)

    try:
        # Both ports are the master's choice: one that was free a moment ago may be somebody else's by then.
        log = start("master.Master", "--port", "0")
        while not (page := re.search(r"MasterUI' on port (\d+)", log.read_text())):
            wait()
        url = re.search(r"Starting Spark master at (\S+)", log.read_text())[1]
        for i in (1, 2):
            start("worker.Worker", "--cores", "1", "--memory", "1g", "--work-dir", str(folder / f"work{i}"), url)
        while _alive_workers(int(page[1])) < 2:
            wait()
        yield url
    finally:
        for process in processes:
            process.kill()
            process.wait()


def _alive_workers(page: int) -> int:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{page}/json/", timeout=5) as answer:
            return int(json.load(answer)["aliveworkers"])
    except OSError:
        return 0


def test_a_table_lives_on_a_cluster_of_two_workers(master: str, warehouse: str, tmp_path: Path) -> None:
    client = MetastoreClient(f"sqlite:///{tmp_path / 'metastore.db'}")
    client.create_schema()
    launcher = SparkSubmitLauncher(
        master,
        conf={
            "spark.executor.memory": "512m",
            "spark.cores.max": "2",
            "spark.driver.host": "127.0.0.1",
            "spark.executor.extraJavaOptions": os.environ["SPARK_SUBMIT_OPTS"],
            "spark.sql.shuffle.partitions": "2",
        },
        log_directory=tmp_path / "logs",
        environment={"SPARK_LOCAL_IP": "127.0.0.1"},
    )
    with client, Engine(client, launcher, warehouse) as engine:
        engine.run(
            "CREATE DATABASE w; CREATE TABLE w.t (id INT, name STRING) PARTITIONED BY (p INT) STORED AS ORC "
            "TBLPROPERTIES ('transactional'='true')"
        )
        loaded = engine.run("INSERT INTO w.t SELECT id, concat('n', id), id % 3 FROM range(0, 3000, 1, 4)")[0]
        assert loaded.inserted == 3000
        engine.run(
            "UPDATE w.t SET name = upper(name) WHERE id % 10 = 0; DELETE FROM w.t WHERE id < 30; "
            "MERGE INTO w.t USING (SELECT 35 AS i UNION ALL SELECT 5000) s ON t.id = s.i "
            "WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT VALUES (s.i, 'new', 0); "
            "ALTER TABLE w.t PARTITION (p=0) COMPACT 'major'"
        )
        (outcome,) = engine.run_compactions("cluster-1")
        assert outcome.kind is Kind.COMPACTED, outcome
        found = engine.query("SELECT p, count(*), sum(id), count_if(name like 'N%') FROM w.t GROUP BY p ORDER BY p")
        assert found.rows == [[p, *_expected(p)] for p in range(3)]


def _expected(p: int) -> tuple[int, int, int]:
    left = {i: f"{'N' if i % 10 == 0 else 'n'}{i}" for i in range(30, 3000) if i != 35} | {5000: "new"}
    chosen = [i for i in left if (0 if i == 5000 else i % 3) == p]
    return len(chosen), sum(chosen), sum(left[i].startswith("N") for i in chosen)
