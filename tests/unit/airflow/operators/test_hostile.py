"""Hostile texts in every argument of every operator and sensor, and in every field of the connections (S1, S2, S3, S6).

Whatever a DAG run's conf, an XCom or a connection form puts there is data: it is bound or quoted, or refused with the
name of what it stood in; it is never SQL, an option of a program, a path out of the warehouse, or code. Spark is made
up, the metastore is real.
"""

from __future__ import annotations

import ast
import itertools
import json
import logging
import re
import traceback
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa

import airflow_hive_acid
from airflow_hive_acid.airflow_versions import AirflowException, AirflowFailException, TaskDeferred
from airflow_hive_acid.engine import Engine
from airflow_hive_acid.errors import HiveAcidError
from airflow_hive_acid.hooks.hive_acid import HiveAcidHook
from airflow_hive_acid.hooks.leases import seal_lease
from airflow_hive_acid.hooks.spark_launcher import AirflowSparkLauncher, spark_target
from airflow_hive_acid.maintenance.worker.jobs import Application
from airflow_hive_acid.metastore import MetastoreClient
from airflow_hive_acid.metastore.setup import schema
from airflow_hive_acid.operators.changes import (
    HiveAcidDeleteOperator,
    HiveAcidInsertOperator,
    HiveAcidMergeOperator,
    HiveAcidUpdateOperator,
)
from airflow_hive_acid.operators.compact import HiveAcidCompactOperator
from airflow_hive_acid.operators.export import HiveAcidExportOperator
from airflow_hive_acid.operators.foreign_tables import HiveAcidImportForeignTableOperator
from airflow_hive_acid.operators.hive_acid import HiveAcidOperator
from airflow_hive_acid.operators.leases import (
    HiveAcidConfirmLeaseOperator,
    HiveAcidDropLeaseOperator,
    HiveAcidGrabLeaseOperator,
)
from airflow_hive_acid.operators.mirror import HiveAcidMirrorCutOverOperator, HiveAcidMirrorOperator
from airflow_hive_acid.operators.spark import HiveAcidSparkOperator
from airflow_hive_acid.sensors.commits import HiveAcidTableCommitSensor
from airflow_hive_acid.sensors.compactions import HiveAcidCompactionSensor
from airflow_hive_acid.sensors.leases import HiveAcidLeaseSensor
from airflow_hive_acid.sensors.locks import HiveAcidLockReleasedSensor
from airflow_hive_acid.sensors.transactions import HiveAcidTransactionSensor
from tests.integration.engine.conftest import FakeSpark

if TYPE_CHECKING:
    from collections.abc import Iterator

HOSTILE = (
    "'; DROP TABLE TXNS;-- `\"\\ %_$x${env:HOME}\u2019{{ 7 * 7 }}", "x' OR '1'='1", "a\0b", "t; DELETE FROM db.kept\n",
    "../../etc", "--conf", "", "x" * 4096,
)  # fmt: skip
SECRET = "do-not-tell-8c1e"
GIVEN = "<hostile>"
#: Arguments with one place for a hostile text each; what stands beside it could be meant.
ARGUMENTS: dict[type, list[dict[str, Any]]] = {
    HiveAcidOperator: [
        {"sql": "DELETE FROM db.t WHERE b = <hostile>"}, {"sql": GIVEN}, {"sql": "TRUNCATE TABLE db.t", "lease": GIVEN},
        {"sql": "TRUNCATE TABLE db.t", "hive_acid_conn_id": GIVEN},
        {"sql": "TRUNCATE TABLE db.t", "on_rerun": GIVEN},
    ],
    HiveAcidInsertOperator: [
        {"table": GIVEN, "query": "SELECT 1"}, {"table": f"db.{GIVEN}", "query": "SELECT 1"},
        {"table": "db.t", "query": GIVEN}, {"table": "db.t", "format": GIVEN, "files": "/in"},
        {"table": "db.t", "format": "csv", "files": GIVEN},
        {"table": "db.t", "format": "csv", "files": "/in", "options": {GIVEN: GIVEN}},
        {"table": "db.t", "format": "csv", "files": "/in", "schema": {GIVEN: "int"}},
        {"table": "db.t", "format": "csv", "files": "/in", "schema": {"a": GIVEN}},
        {"table": "db.t", "rows": [{"a": 1, "b": GIVEN}]}, {"table": "db.t", "rows": [{GIVEN: 1}]},
        {"table": "db.t", "rows": [{"a": GIVEN}]}, {"table": "db.t", "query": "SELECT 1", "columns": [GIVEN]},
        {"table": "db.p", "query": "SELECT 1", "partition": {GIVEN: "x"}},
        {"table": "db.p", "query": "SELECT 1", "partition": {"k": GIVEN}},
        {"table": "db.t", "query": "SELECT 1, :v", "parameters": {"v": GIVEN}},
        {"table": "db.t", "query": "SELECT 1, :v", "parameters": {GIVEN: 1}},
    ],
    HiveAcidUpdateOperator: [
        {"table": GIVEN, "set": {"a": "1"}, "everything": True}, {"table": "db.t", "set": {GIVEN: "1"}, "where": "a=1"},
        {"table": "db.t", "set": {"b": GIVEN}, "where": "a=1"},
        {"table": "db.t", "values": {"b": GIVEN}, "where": "a=1"},
        {"table": "db.t", "values": {GIVEN: "1"}, "where": "a=1"}, {"table": "db.t", "set": {"a": "1"}, "where": GIVEN},
        {"table": "db.t", "set": {"a": "1"}, "where": "b = :v", "parameters": {"v": GIVEN}},
    ],
    HiveAcidDeleteOperator: [
        {"table": GIVEN, "everything": True}, {"table": "db.t", "where": GIVEN},
        {"table": "db.t", "where": "b = :v", "parameters": {"v": GIVEN}},
    ],
    HiveAcidMergeOperator: [
        {"target": GIVEN, "source": "db.s", "on": "t.a = s.a", "clauses": [{"action": "delete"}]},
        {"target": "db.t", "source": GIVEN, "on": "t.a = s.a", "clauses": [{"action": "delete"}]},
        {"target": "db.t", "source": "db.s", "on": GIVEN, "clauses": [{"action": "delete"}]},
        {"target": "db.t", "source": "db.s", "on": "t.a = s.a", "clauses": [{"action": GIVEN}]},
        {"target": "db.t", "source": "db.s", "on": "t.a = s.a", "clauses": [{"action": "update", "set": {GIVEN: "1"}}]},
        {"target": "db.t", "source": "db.s", "on": "t.a = s.a", "clauses": [{"action": "update", "set": {"b": GIVEN}}]},
        {"target": "db.t", "source": "db.s", "on": "t.a = 1", "clauses": [{"action": "delete"}], "source_alias": GIVEN},
    ],
    HiveAcidExportOperator: [
        {"path": GIVEN, "table": "db.t"}, {"path": "{tmp}/out", "table": GIVEN}, {"path": "{tmp}/out", "query": GIVEN},
        {"path": "{tmp}/out", "table": "db.t", "format": GIVEN},
        {"path": "{tmp}/out", "table": "db.t", "partition_by": [GIVEN]},
    ],
    HiveAcidImportForeignTableOperator: [
        {"source": "parquet:{tmp}", "table": GIVEN}, {"source": GIVEN, "table": "db.n"},
        {"source": f"parquet:{GIVEN}", "table": "db.n"},
        {"source": f"iceberg:{GIVEN}", "table": "db.n"},
        {"source": "parquet:{tmp}", "table": "db.n", "partition_by": [GIVEN]},
        {"source": "parquet:{tmp}", "table": "db.n", "columns": {GIVEN: GIVEN}},
        {"source": "delta:{tmp}", "table": "db.n", "version": GIVEN},
        {"source": "parquet:{tmp}", "table": "db.n", "properties": {GIVEN: GIVEN}},
    ],
    HiveAcidMirrorOperator: [
        {"table": GIVEN, "target": "iceberg:ice.db.t"}, {"table": "db.t", "target": GIVEN},
        {"table": "db.t", "target": f"iceberg:{GIVEN}"}, {"table": "db.t", "target": f"delta:{GIVEN}"},
        {"table": "db.t", "target": "iceberg:ice.db.t", "key": [GIVEN]},
    ],
    HiveAcidMirrorCutOverOperator: [
        {"table": GIVEN, "target": "iceberg:ice.db.t"}, {"table": "db.t", "target": GIVEN},
        {"table": "db.t", "target": f"iceberg:{GIVEN}"}, {"table": "db.t", "target": f"delta:{GIVEN}"},
        {"table": "db.t", "target": "iceberg:ice.db.t", "action": GIVEN},
        {"table": GIVEN, "target": "iceberg:ice.db.t", "action": "take-back"},
        {"table": GIVEN, "target": "iceberg:ice.db.t", "action": "retire"},
    ],
    HiveAcidSparkOperator: [
        {"tables": {GIVEN: "insert"}, "module": "m"}, {"tables": {"db.t": GIVEN}, "module": "m"},
        {"tables": {"db.t": "insert"}, "application": GIVEN},
    ],
    HiveAcidCompactOperator: [
        {"table": GIVEN}, {"table": "db.p", "partition": GIVEN}, {"table": "db.p", "partition": {"k": GIVEN}},
        {"table": "db.t", "type": GIVEN}, {"table": "db.t", "properties": {GIVEN: GIVEN}},
        {"table": "db.t", "compaction_pool": GIVEN}, {"table": "db.t", "type": "rebalance", "order_by": GIVEN},
    ],
    HiveAcidGrabLeaseOperator: [{"objects": GIVEN}, {"objects": f"db.t/k={GIVEN}"}, {"objects": "db.t", "type": GIVEN}],
    HiveAcidDropLeaseOperator: [{"lease": GIVEN}, {"lease": {"sealed": GIVEN, "lease_id": 1}}],
    HiveAcidConfirmLeaseOperator: [{"lease": GIVEN}, {"lease": {"sealed": GIVEN, "lease_id": 1}}],
    HiveAcidLockReleasedSensor: [{"table": GIVEN}, {"table": "db.t", "partition": GIVEN}],
    HiveAcidLeaseSensor: [{"objects": GIVEN}, {"objects": "db.t", "type": GIVEN}],
    HiveAcidCompactionSensor: [{"table": GIVEN}, {"table": "db.p", "partition": GIVEN}, {"request_id": GIVEN}],
    HiveAcidTransactionSensor: [{"txn_id": GIVEN}],
    HiveAcidTableCommitSensor: [{"table": GIVEN}, {"table": "db.p", "partition": GIVEN}],
}  # fmt: skip
OF_A_LEASE = (HiveAcidConfirmLeaseOperator, HiveAcidDropLeaseOperator)
_numbers = itertools.count(1)


def context() -> dict[str, Any]:
    """Of a run of its own."""
    names = {"dag_id": "d", "run_id": f"r{next(_numbers)}", "task_id": "t"}
    return {"ti": SimpleNamespace(**names, map_index=-1, try_number=1, max_tries=0)}


def filled(arguments: Any, text: str, tmp: str) -> Any:
    """The arguments with a text in the place that is marked."""
    if isinstance(arguments, dict):
        return {filled(key, text, tmp): filled(value, text, tmp) for key, value in arguments.items()}
    if isinstance(arguments, list):
        return [filled(value, text, tmp) for value in arguments]
    return arguments.replace(GIVEN, text).replace("{tmp}", tmp) if isinstance(arguments, str) else arguments


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A metastore, a warehouse, and a file beside it that nobody may touch."""
    place = tmp_path_factory.mktemp("hostile")
    (place / "etc").write_text("kept")
    return place


@pytest.fixture(scope="module")
def client(place: Path) -> Iterator[MetastoreClient]:
    """The metastore with the tables that the arguments name, and one that nobody names."""
    with MetastoreClient(f"sqlite:///{place / 'metastore.db'}") as client:
        client.create_schema()
        warehouse = (place / "a" / "warehouse").as_uri()
        client.catalog.set_warehouse(warehouse)
        acid = "STORED AS ORC TBLPROPERTIES ('transactional'='true')"
        with Engine(client, FakeSpark(), warehouse) as engine:
            engine.run("CREATE DATABASE db")
            for name, more in (("t", ""), ("s", ""), ("kept", ""), ("p", "PARTITIONED BY (k STRING)")):
                engine.run(f"CREATE TABLE db.{name} (a INT, b STRING) {more} {acid}")
            engine.run("INSERT INTO db.kept VALUES (1, 'x')")
        yield client


@pytest.fixture
def connected(client: MetastoreClient, place: Path, monkeypatch: pytest.MonkeyPatch) -> FakeSpark:
    """Airflow's connection to it; what takes Spark's place."""
    extra = {"metastore_url": f"sqlite:///{place / 'metastore.db'}", "warehouse": f"{place}/a/warehouse"}
    monkeypatch.setenv("AIRFLOW_CONN_HIVE_ACID_DEFAULT", json.dumps({"conn_type": "hive_acid", "extra": extra}))
    fake = FakeSpark()
    fake.fail("JobFailedError", "what gets so far is data")

    def engine(hook: HiveAcidHook, *, agent_info: str) -> Engine:
        return Engine(hook.get_conn(), fake, hook.warehouse, agent_info=agent_info)

    monkeypatch.setattr(HiveAcidHook, "get_engine", engine)
    return fake


def kept(client: MetastoreClient, place: Path) -> Any:
    """What no argument may change: the metastore's tables, the catalog's, the rows of another one, files elsewhere."""
    with client.database.reading() as connection:
        tables = set(sa.inspect(connection).get_table_names())
        catalog = connection.execute(sa.select(sa.func.count()).select_from(schema.TBLS)).scalar_one()
    location = Path(client.catalog.get_table("db.kept").location.removeprefix("file:"))
    outside = sorted(p.name for p in place.iterdir() if not p.name.startswith("metastore.db"))
    return tables, catalog, sorted(str(p) for p in location.rglob("*")), outside, (place / "etc").read_text()


@pytest.mark.parametrize("kind", ARGUMENTS, ids=lambda kind: kind.__name__)
def test_s1_a_hostile_argument_is_data_or_is_refused_and_changes_nothing_else(
    kind: type, connected: FakeSpark, client: MetastoreClient, place: Path
) -> None:
    before = kept(client, place)
    for arguments, text in itertools.product(ARGUMENTS[kind], HOSTILE):
        given = filled(arguments, text, str(place / "a"))
        at = f"{arguments} with {text[:40]!r}"
        try:
            sensor = {"timeout": 0, "poke_interval": 0.001} if "Sensor" in kind.__name__ else {}
            kind(task_id="t", **given, **sensor).execute(context())
        except (AirflowException, HiveAcidError, ValueError) as refused:
            if not str(refused) or isinstance(refused.__cause__, sa.exc.SQLAlchemyError):
                raise AssertionError(f"{at}: {refused!r}") from refused
        except TaskDeferred as deferred:
            json.dumps(deferred.trigger.serialize())
        except BaseException as error:
            raise AssertionError(f"{at}: {error!r}") from error
        assert all(row.state.name != "OPEN" for row in client.show_transactions()), at
        for request in client.compactions.active():
            client.compactions.abort([request.id])
        client.leases.force_drop_lease([], "a test", "the next one begins without leases")
    assert kept(client, place) == before


@pytest.mark.parametrize("field", ["host", "login", "password", "schema"])
@pytest.mark.parametrize("dialect", ["sqlite", "postgresql", "mysql"])
def test_s1_a_hostile_field_of_the_connection_moves_no_other(
    field: str, dialect: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each stays in the part of the URL it belongs to, or the connection is refused by its name."""
    for text in HOSTILE:
        values = {"host": "/m.db" if dialect == "sqlite" else "h", "login": "u", "password": "p", "schema": "m"}
        connection = {"conn_type": "hive_acid", **values, field: text, "extra": {"dialect": dialect}}
        monkeypatch.setenv("AIRFLOW_CONN_HOSTILE", json.dumps(connection))
        try:
            url = HiveAcidHook("hostile").connection.metastore_url
        except HiveAcidError as refused:
            if "'hostile'" not in str(refused):
                raise
            continue
        if dialect == "sqlite":
            assert (url.database, url.host) == (values["host"] if field != "host" else text, None)
            continue
        parts = {"host": url.host, "login": url.username, "password": url.password, "schema": url.database}
        assert parts == {name: (values | {field: text})[name] or None for name in parts}
        assert not url.query


@pytest.mark.parametrize(
    "key", ["dialect", "metastore_url", "warehouse", "spark_conn_id", "spool", "hive.txn.timeout", "no.such.key"]
)
def test_s1_a_hostile_value_in_the_extra_is_refused_by_its_key_or_stays_there(
    key: str, monkeypatch: pytest.MonkeyPatch, place: Path
) -> None:
    for text in HOSTILE:
        extra = {"metastore_url": f"sqlite:///{place}/none.db", "warehouse": str(place / "none"), key: text}
        monkeypatch.setenv("AIRFLOW_CONN_HOSTILE", json.dumps({"conn_type": "hive_acid", "extra": extra}))
        monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps({"conn_type": "spark", "host": "local[1]"}))
        fine, told = HiveAcidHook("hostile").test_connection()
        assert not fine, told
        assert "Traceback" not in told
    assert not (place / "none.db").exists()
    assert not (place / "none").exists()


@pytest.mark.parametrize("field", ["host", "queue", "spark-binary", "principal"])
def test_s1_a_hostile_field_of_the_spark_connection_is_one_argument_or_refused(
    field: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, place: Path
) -> None:
    """There is no shell, and no text becomes an option of its own."""

    def command(text: str) -> list[str]:
        extra = {"queue": "etl", "deploy-mode": "client", "principal": "p@R", "namespace": "n"}
        fields: dict[str, Any] = {
            "conn_type": "spark",
            "host": "yarn",
            "extra": extra | {"spark-binary": "spark-submit"},
        }
        (fields if field == "host" else fields["extra"])[field] = text
        monkeypatch.setenv("AIRFLOW_CONN_HOSTILE", json.dumps(fields))
        launcher, target = AirflowSparkLauncher("hostile"), spark_target("hostile")
        hook = launcher._hook(target, tmp_path, ["--spool", "file:///spool"], Application(), load_defaults=True)
        return [str(each) for each in hook._build_spark_submit_command("/job.py")]

    monkeypatch.setenv("HIVE_ACID_CACHE", str(place / "a" / "cache"))
    options = [each for each in command("spark2-submit" if field == "spark-binary" else "fine") if each[:2] == "--"]
    for text in (HOSTILE[0], "a\nb", "--conf", ""):
        try:
            made = command(text)
        except (HiveAcidError, AirflowException, ValueError, RuntimeError) as refused:
            if not str(refused):
                raise
            continue
        assert Path(made[0]).name == "spark-submit"
        begun = [each for each in made if each[:2] == "--" and each != text]
        assert begun == [each for each in options if each in begun], made
        assert not [each for each in made if text and text in each and each != text], made


def harmless(kind: type) -> Any:
    """A task of this kind that asks for something that could be."""
    given = filled(ARGUMENTS[kind][0], "db.t", "/tmp")  # noqa: S108 - nothing is made there
    if kind in OF_A_LEASE:
        given |= {"lease": {"lease_id": 1, "sealed": "x"}}
    return kind(task_id="t", **given)


@pytest.mark.parametrize("kind", ARGUMENTS, ids=lambda kind: kind.__name__)
def test_a_connection_that_cannot_be_used_is_named_by_every_operator(
    kind: type, monkeypatch: pytest.MonkeyPatch, connected: FakeSpark, client: MetastoreClient
) -> None:
    """Missing or of another type: there is nothing to try again. Out of reach: Airflow may, and nothing was begun."""
    task: Any = harmless(kind)
    sealed = {**seal_lease(client, client.leases.grab_lease("db.t", 60)), "lease_id": 1}
    client.leases.force_drop_lease([], "a test", "only its form was needed")
    if kind is HiveAcidTransactionSensor:
        task.txn_id = 1
    task.hive_acid_conn_id = "nowhere"
    with pytest.raises(AirflowException, match="nowhere"):
        task.execute(context())
    monkeypatch.setenv("AIRFLOW_CONN_NOWHERE", json.dumps({"conn_type": "postgres", "host": "h"}))
    with pytest.raises(AirflowFailException, match="'nowhere' is of type 'postgres'; make it one of type 'hive_acid'"):
        task.execute(context())
    if kind in OF_A_LEASE:
        task.lease = sealed  # read before anything is asked
    extra = {"metastore_url": "postgresql://u@127.0.0.1:9/m", "warehouse": "/w"}
    monkeypatch.setenv("AIRFLOW_CONN_NOWHERE", json.dumps({"conn_type": "hive_acid", "extra": extra}))
    with pytest.raises(AirflowException, match=r"u@127\.0\.0\.1:9/m cannot be reached") as away:
        task.execute(context())
    assert not isinstance(away.value, AirflowFailException)
    assert connected.specs == []


class Code(ast.NodeVisitor):
    """Finds what would run or build something from data."""

    FORBIDDEN_CALLS = frozenset({"eval", "exec", "compile", "__import__"})
    FORBIDDEN_MODULES = frozenset({"pickle", "cPickle", "marshal", "shelve", "dill", "cloudpickle", "joblib"})

    WORDS = re.compile("|".join([*FORBIDDEN_CALLS, *FORBIDDEN_MODULES, "unsafe_load", "full_load"]))

    def __init__(self) -> None:
        self.found: list[str] = []

    def visit_Call(self, node: ast.Call) -> None:
        if isinstance(node.func, ast.Name) and node.func.id in self.FORBIDDEN_CALLS:
            self.found.append(f"{node.func.id} in line {node.lineno}")
        if isinstance(node.func, ast.Attribute) and node.func.attr in ("unsafe_load", "full_load"):
            self.found.append(f"{node.func.attr} in line {node.lineno}")
        self.generic_visit(node)

    def visit_Import(self, node: ast.Import) -> None:
        self.found += [a.name for a in node.names if a.name.split(".")[0] in self.FORBIDDEN_MODULES]

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        names = {(node.module or "").split(".")[0], *(alias.name for alias in node.names)}
        self.found += sorted(names & self.FORBIDDEN_MODULES)


def test_s3_nothing_read_is_unpickled_or_evaluated() -> None:
    """One file may: the job that a DAG author wrote is compiled in the Spark driver, where it was meant to run."""
    root = Path(airflow_hive_acid.__file__).parent
    found = {}
    for path in sorted(root.rglob("*.py")):
        visitor, text = Code(), path.read_text()
        if Code.WORDS.search(text):
            visitor.visit(ast.parse(text))
        if visitor.found:
            found[str(path.relative_to(root))] = visitor.found
    assert list(found) == ["spark/jobs/program.py"], found
    visitor = Code()
    visitor.visit(ast.parse("import pickle\nfrom yaml import x\neval('1')"))
    assert visitor.found == ["pickle", "eval in line 3"]


def _everything_told(error: BaseException, caplog: pytest.LogCaptureFixture, capfd: Any) -> str:
    captured = capfd.readouterr()
    return "".join([*traceback.format_exception(error), caplog.text, captured.out, captured.err])


@pytest.mark.parametrize("field", ["password", "metastore_url", "spark"])
def test_s6_a_failing_task_tells_no_secret(
    field: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, capfd: Any
) -> None:
    """The database cannot be reached, and the error goes all the way: message, causes, log, output."""
    caplog.set_level(logging.DEBUG)
    url = "postgresql://u@127.0.0.1:9/m" if field != "metastore_url" else f"postgresql://u:{SECRET}@127.0.0.1:9/m"
    extra = {"metastore_url": url, "warehouse": "/w", "spark.hadoop.fs.s3a.secret.key": SECRET}
    connection = {"conn_type": "hive_acid", "extra": extra}
    if field == "password":
        connection["password"] = SECRET
    monkeypatch.setenv("AIRFLOW_CONN_HIVE_ACID_DEFAULT", json.dumps(connection))
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps({"conn_type": "spark", "host": "local[1]"}))
    operator = HiveAcidInsertOperator(
        task_id="t", table="db.t", format="csv", files="/in", options={"password": SECRET}, schema={"a": "int"},
        spark_conf={"spark.hadoop.fs.azure.account.key": SECRET},
    )  # fmt: skip
    with pytest.raises(AirflowException, match="cannot be reached") as failed:
        operator.execute(context())
    assert SECRET not in _everything_told(failed.value, caplog, capfd)
    rendered = {name: getattr(operator, name) for name in operator.template_fields}
    assert SECRET not in json.dumps(rendered, default=str)
    fine, told = HiveAcidHook().test_connection()
    assert (fine, SECRET in told) == (False, False)
