"""Two name nodes: what a failover in the middle of publishing, cleaning and replicating leaves behind.

The engine's files go through WebHDFS, Spark's through Hadoop's own client; both know the nameservice by hdfs-site.xml.
"""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Any

import fsspec
import pytest

from airflow_hive_acid.engine import Engine, SparkSubmitLauncher
from airflow_hive_acid.filesystem import AnyFilesystem
from airflow_hive_acid.filesystem.webhdfs import CarefulWebHDFS
from airflow_hive_acid.maintenance.cleaner.cleaner import run_cleaner
from airflow_hive_acid.metastore import MetastoreClient
from airflow_hive_acid.replication.cycles.cycle import replicate
from airflow_hive_acid.replication.policies.policy import policy
from airflow_hive_acid.replication.site import Site

from .ha import NAMESERVICE, Pair, nameservice

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from .servers import Realm

pytestmark = [pytest.mark.cluster, pytest.mark.spark]
HOME = f"hdfs://{NAMESERVICE}/user/airflow"


@pytest.fixture(scope="module")
def pair(kerberos: Realm, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """A nameservice on which ``/user/airflow`` is the user airflow's, who has a ticket."""
    folder = tmp_path_factory.mktemp("ha")
    with nameservice(folder, kerberos) as made, pytest.MonkeyPatch.context() as patch:
        kerberos.keytab("airflow")
        patch.setitem(fsspec.config.conf, "webhdfs", {"kerberos": True})
        patch.setenv("HADOOP_CONF_DIR", str(made.conf))
        patch.setenv("KRB5_CONFIG", str(kerberos.conf))
        patch.setenv("KRB5CCNAME", str(folder / "admin.cache"))
        kerberos.ticket(kerberos.folder / "hdfs.keytab", "hdfs/localhost", folder / "admin.cache")
        admin = AnyFilesystem(skip_instance_cache=True).at(HOME)._fs  # type: ignore[attr-defined]
        admin.mkdir("/user/airflow")
        admin.chown("/user/airflow", "airflow", "users")
        kerberos.ticket(kerberos.folder / "airflow.keytab", "airflow", folder / "airflow.cache")
        patch.setenv("KRB5CCNAME", str(folder / "airflow.cache"))
        krb5 = f"-Djava.security.krb5.conf={kerberos.conf}"
        patch.setenv("SPARK_SUBMIT_OPTS", f"{os.environ.get('SPARK_SUBMIT_OPTS', '')} {krb5}".strip())
        yield made


@pytest.fixture
def client(tmp_path: Path) -> Iterator[MetastoreClient]:
    with MetastoreClient(f"sqlite:///{tmp_path / 'metastore.db'}") as client:
        client.create_schema()
        yield client


@pytest.fixture
def before(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[str]]:
    """Let something happen once, when WebHDFS is about to be asked: ``before("mv", "/delta_", what)``."""

    def arrange(method: str, part: str, what: Callable[[], object]) -> list[str]:
        real, happened = getattr(CarefulWebHDFS, method), []

        def asked(self: CarefulWebHDFS, path: str, *rest: Any, **options: Any) -> Any:
            if not happened and any(part in str(each) for each in (path, *rest)):
                happened.append(path)
                what()
            return real(self, path, *rest, **options)

        monkeypatch.setattr(CarefulWebHDFS, method, asked)
        return happened

    return arrange


def _rows(engine: Engine) -> list[list[Any]]:
    return engine.query("SELECT p, count(*), sum(id) FROM w.t GROUP BY p ORDER BY p").rows


@pytest.mark.rule("R17")
def test_a_failover_in_the_middle_of_publish_and_of_cleaning_and_of_replication_loses_nothing(
    pair: Pair, client: MetastoreClient, tmp_path: Path, before: Callable[..., list[str]]
) -> None:
    """Time line:

    t1  an INSERT has renamed some of its directories
    k   ends the active name node; the other one becomes active while it is asked
    t1  commits: all rows are there, once
    t2  the Cleaner deletes what a compaction has replaced; in the middle k fails over, in good order
    t3  a first copy is made; in the middle k ends the active one again
    t4  a cycle finds nothing that differs
    """
    launcher = SparkSubmitLauncher("local[2]", {}, log_directory=tmp_path / "logs")
    promoting: list[threading.Thread] = []

    def lose_the_active_one() -> None:
        dead = pair.kill_active()
        promoting.append(threading.Thread(target=pair.promote, name=f"instead of {dead}"))
        promoting[-1].start()

    with Engine(client, launcher, f"{HOME}/primary") as engine:
        engine.run(
            "CREATE DATABASE w; CREATE TABLE w.t (id INT, name STRING) PARTITIONED BY (p INT) STORED AS ORC "
            "TBLPROPERTIES ('transactional'='true'); INSERT INTO w.t SELECT id, 'a', id % 4 FROM range(0, 400, 1, 2)"
        )
        happened = before("mv", "/p=2/delta_", lose_the_active_one)
        engine.run("INSERT INTO w.t SELECT id, 'b', id % 4 FROM range(400, 800, 1, 2)")
        promoting.pop().join()
        assert happened
        expected = [[p, 200, sum(range(p, 800, 4))] for p in range(4)]
        assert _rows(engine) == expected
        pair.start_node("nn1" if pair.active == "nn2" else "nn2")
        engine.run("DELETE FROM w.t WHERE id >= 798; INSERT INTO w.t VALUES (798, 'c', 2), (799, 'c', 3)")
        for p in range(4):
            engine.run(f"ALTER TABLE w.t PARTITION (p={p}) COMPACT 'major'")
        engine.run_compactions("w")
        happened = before("rm", "/p=", pair.fail_over)
        outcomes = [*run_cleaner(client, AnyFilesystem()), *run_cleaner(client, AnyFilesystem())]
        assert happened
        assert _rows(engine) == expected
        left = AnyFilesystem().list_files(client.catalog.get_table("w.t").location, recursive=True)
        kinds = {entry.name.partition("_")[0] for entry in left if entry.is_dir and not entry.name.startswith("p=")}
        assert kinds == {"base"}, [each.reason for each in outcomes]
        with MetastoreClient(f"sqlite:///{tmp_path / 'replica.db'}") as other:
            other.create_schema()
            other.catalog.set_warehouse(f"{HOME}/replica")
            source = Site(client, name="primary", run_job=engine.run_job)
            target = Site(other, name="replica", run_job=engine.run_job)
            plan = policy({"name": "p", "source": "primary", "destination": "replica", "databases": ["w"]})
            happened = before("mv", "/replica/", lose_the_active_one)
            replicate(plan, source, target, holder="a test")
            promoting.pop().join()
            assert happened
            replicate(plan, source, target, holder="a test")
            with Engine(other, launcher, f"{HOME}/replica") as there:
                assert _rows(there) == expected
