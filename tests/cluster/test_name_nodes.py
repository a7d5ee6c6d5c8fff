"""Two name nodes: what a failover in the middle of publishing, cleaning and replicating leaves behind.

The engine's files go through WebHDFS, Spark's through Hadoop's own client; both know the nameservice by hdfs-site.xml.
"""

# ruff: noqa: S608 - names of tables are constants here

from __future__ import annotations

import os
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import fsspec
import pytest
import requests

from airflow_hive_acid.engine import Engine, SparkSubmitLauncher
from airflow_hive_acid.filesystem import AnyFilesystem
from airflow_hive_acid.filesystem.webhdfs import CarefulWebHDFS
from airflow_hive_acid.maintenance.decisions import Kind
from airflow_hive_acid.metastore import MetastoreClient
from airflow_hive_acid.replication.cycles.cycle import replicate
from airflow_hive_acid.replication.policies.policy import policy
from airflow_hive_acid.replication.site import Site
from airflow_hive_acid.settings import Settings, Source
from tests.storage.conftest import clean

from .ha import NAMESERVICE, Pair, nameservice

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from .servers import Realm

pytestmark = [pytest.mark.cluster, pytest.mark.spark]
HOME = f"hdfs://{NAMESERVICE}/user/airflow"
_SECONDS = 240


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


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MetastoreClient]:
    settings = Settings().with_overrides(Source.REQUEST, {"hive.compactor.cleaner.retry.retention.time": "1s"})
    with MetastoreClient(f"sqlite:///{tmp_path_factory.mktemp('metastore') / 'metastore.db'}", settings) as client:
        client.create_schema()
        yield client


@pytest.fixture(scope="module")
def launcher(tmp_path_factory: pytest.TempPathFactory) -> SparkSubmitLauncher:
    return SparkSubmitLauncher("local[2]", {}, log_directory=tmp_path_factory.mktemp("logs"))


@pytest.fixture(scope="module")
def engine(pair: Pair, client: MetastoreClient, launcher: SparkSubmitLauncher) -> Iterator[Engine]:
    """One Spark application for all tests here; it meets each failover as well."""
    with Engine(client, launcher, f"{HOME}/primary") as engine:
        engine.run("CREATE DATABASE w")
        yield engine


@dataclass
class Outage:
    """What happens once, at a question of ours, and who becomes active meanwhile."""

    pair: Pair
    asked: list[str] = field(default_factory=list)
    promoting: list[threading.Thread] = field(default_factory=list)

    def lose_the_active_one(self) -> None:
        """Kill the active name node; the other one becomes active in a while."""
        dead = self.pair.kill_active()
        self.promoting.append(threading.Thread(target=self.pair.promote, name=f"instead of {dead}"))
        self.promoting[-1].start()

    def over(self) -> list[str]:
        """Wait until there are two again, and say at which questions it happened."""
        for thread in self.promoting:
            thread.join(_SECONDS)
        self.promoting.clear()
        if self.asked:
            self.pair.start_other()
        return self.asked


@pytest.fixture
def outage(pair: Pair) -> Outage:
    return Outage(pair)


@pytest.fixture
def before(monkeypatch: pytest.MonkeyPatch, outage: Outage) -> Callable[[str, str], None]:
    """Lose the active name node when WebHDFS is about to be asked: ``before("mv", "/delta_")``."""

    def arrange(method: str, part: str) -> None:
        real = getattr(CarefulWebHDFS, method)

        def asked(self: CarefulWebHDFS, path: str, *rest: Any, **options: Any) -> Any:
            if not outage.asked and any(part in str(each) for each in (path, *rest)):
                outage.asked.append(path)
                outage.lose_the_active_one()
            return real(self, path, *rest, **options)

        monkeypatch.setattr(CarefulWebHDFS, method, asked)

    return arrange


@pytest.fixture
def behind(monkeypatch: pytest.MonkeyPatch, outage: Outage) -> Callable[[str, str], None]:
    """Lose the active name node when it has done something and its answer is under way: ``behind("DELETE", "/p=")``."""

    def arrange(operation: str, part: str) -> None:
        real = requests.Session.request

        def asked(self: requests.Session, method: Any, url: Any, *args: Any, **kwargs: Any) -> requests.Response:
            answer = real(self, method, url, *args, **kwargs)
            if not outage.asked and answer.ok and (kwargs.get("params") or {}).get("op") == operation and part in url:
                outage.asked.append(url)
                outage.lose_the_active_one()
                raise requests.ConnectionError("Remote end closed connection without response")
            return answer

        monkeypatch.setattr(requests.Session, "request", asked)

    return arrange


def _rows(engine: Engine, table: str) -> list[list[Any]]:
    return engine.query(f"SELECT p, count(*), sum(id) FROM {table} GROUP BY p ORDER BY p").rows


def _make(engine: Engine, table: str) -> None:
    engine.run(
        f"CREATE TABLE {table} (id INT, name STRING) PARTITIONED BY (p INT) STORED AS ORC "
        f"TBLPROPERTIES ('transactional'='true'); INSERT INTO {table} SELECT id, 'a', id % 4 FROM range(0, 400, 1, 2)"
    )


def _of(first: int, last: int) -> list[list[int]]:
    """Rows by partition of a table that holds the ids between."""
    return [[p, len(range(first + p, last, 4)), sum(range(first + p, last, 4))] for p in range(4)]


def _kinds(client: MetastoreClient, table: str) -> list[str]:
    left = AnyFilesystem().list_files(client.catalog.get_table(table).location, recursive=True)
    return sorted(e.name.partition("_")[0] for e in left if e.is_dir and not e.name.startswith("p="))


@pytest.mark.rule("R17")
def test_publishing_goes_on_behind_a_failover(
    engine: Engine, client: MetastoreClient, outage: Outage, before: Callable[[str, str], None]
) -> None:
    """Time line:

    t1  an INSERT has renamed some of its directories
    k   ends the active name node; the other one becomes active while it is asked
    t1  commits: all rows are there, once
    """
    _make(engine, "w.published")
    before("mv", "/published/p=2/delta_")
    engine.run("INSERT INTO w.published SELECT id, 'b', id % 4 FROM range(400, 800, 1, 2)")
    assert outage.over()
    assert _rows(engine, "w.published") == _of(0, 800)
    assert _kinds(client, "w.published") == ["delta"] * 8


@pytest.mark.rule("R17")
def test_a_rename_whose_answer_went_down_with_the_name_node_is_not_repeated(
    engine: Engine, client: MetastoreClient, outage: Outage, behind: Callable[[str, str], None]
) -> None:
    _make(engine, "w.renamed")
    behind("RENAME", "/renamed/_tmp_")
    engine.run("INSERT INTO w.renamed SELECT id, 'b', id % 4 FROM range(400, 800, 1, 2)")
    assert outage.over()
    assert _rows(engine, "w.renamed") == _of(0, 800)
    assert _kinds(client, "w.renamed") == ["delta"] * 8


def _compacted(engine: Engine, table: str) -> None:
    _make(engine, table)
    engine.run(f"INSERT INTO {table} SELECT id, 'b', id % 4 FROM range(400, 800, 1, 2)")
    for p in range(4):
        engine.run(f"ALTER TABLE {table} PARTITION (p={p}) COMPACT 'major'")
    assert [outcome.kind for outcome in engine.run_compactions("w")] == [Kind.COMPACTED] * 4


@pytest.mark.rule("R17")
def test_the_cleaner_goes_on_behind_a_failover(
    engine: Engine, client: MetastoreClient, outage: Outage, before: Callable[[str, str], None]
) -> None:
    """Time line:

    t1  the Cleaner has deleted some of what compactions have replaced
    k   ends the active name node
    t1  deletes the rest through the other one: the bases stay, and all rows
    """
    _compacted(engine, "w.cleaned")
    before("rm", "/cleaned/p=2/")
    cleaned = clean(client, AnyFilesystem())
    assert outage.over()
    assert [outcome.kind for outcome in cleaned] == [Kind.CLEANED] * 4, cleaned
    assert _kinds(client, "w.cleaned") == ["base"] * 4
    assert _rows(engine, "w.cleaned") == _of(0, 800)


@pytest.mark.rule("R17")
def test_a_delete_whose_answer_went_down_with_the_name_node_is_healed_by_the_next_pass(
    engine: Engine, client: MetastoreClient, outage: Outage, behind: Callable[[str, str], None]
) -> None:
    """Time line:

    t1  the Cleaner asks for a delete; it is done, and the name node ends before it has said so
    t1  says that it does not know, and leaves the request
    t2  the next pass finds it gone, and deletes what is left
    """
    _compacted(engine, "w.lost")
    behind("DELETE", "/lost/p=")
    first = clean(client, AnyFilesystem())
    assert outage.over()
    assert sorted(outcome.kind.name for outcome in first) == ["CLEANED"] * 3 + ["ERROR"], first
    assert _rows(engine, "w.lost") == _of(0, 800)
    deadline = time.monotonic() + 60
    while _kinds(client, "w.lost") != ["base"] * 4:
        assert time.monotonic() < deadline, _kinds(client, "w.lost")
        clean(client, AnyFilesystem())
    assert _rows(engine, "w.lost") == _of(0, 800)


@pytest.mark.rule("R17")
def test_replication_goes_on_behind_a_failover(
    engine: Engine,
    client: MetastoreClient,
    launcher: SparkSubmitLauncher,
    tmp_path: Path,
    outage: Outage,
    before: Callable[[str, str], None],
) -> None:
    """Time line:

    t1  a first copy has moved some of its directories to their places
    k   ends the active name node
    t1  ends; a cycle afterwards finds nothing that differs
    """
    _make(engine, "w.copied")
    with MetastoreClient(f"sqlite:///{tmp_path / 'replica.db'}") as other:
        other.create_schema()
        other.catalog.set_warehouse(f"{HOME}/replica")
        with Engine(other, launcher, f"{HOME}/replica") as there:
            there.run("CREATE DATABASE w")
        source = Site(client, name="primary", run_job=engine.run_job)
        target = Site(other, name="replica", run_job=engine.run_job)
        plan = policy({"name": "p", "source": "primary", "destination": "replica", "databases": ["w"]})
        before("mv", "/replica/")
        replicate(plan, source, target, holder="a test")
        assert outage.over()
        replicate(plan, source, target, holder="a test")
        with Engine(other, launcher, f"{HOME}/replica") as there:
            assert _rows(there, "w.copied") == _of(0, 400)
            assert _kinds(other, "w.copied") == ["delta"] * 4
