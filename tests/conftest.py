"""Fixtures shared by all layers: metastores on each database, a warehouse, Hive-written tables, a Spark session.

``--backend`` chooses the databases: ``sqlite`` and ``postgresql`` (both are the default), ``mariadb`` and ``mysql``
(``tests/mysql_servers.py``). PostgreSQL comes from a pip-installed server; each is started once per test session on a
directory of its own.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import gc
import importlib.util
import json
import os
import shlex
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from dataclasses import dataclass, replace
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa
import typer.main
import typer.testing

from tests import examples, hive3_schemas, mysql_servers, postgresql_servers
from tests.applications import OneApplication
from tests.options import pytest_addoption  # noqa: F401 - pytest finds it here

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pyspark.sql import SparkSession

    from airflow_hive_acid.metastore import MetastoreClient

FIXTURES = Path(__file__).parent / "fixtures"
DEFAULT_BACKENDS = ("sqlite", "postgresql")
ROOMS_OF_SQL = tuple(
    Path(__file__).parent / room
    for room in (
        "integration/airflow",
        "integration/metastore/compaction",
        "integration/metastore/leases",
        "integration/metastore/locks",
        "integration/metastore/records",
        "integration/metastore/schema",
        "integration/metastore/test_notifications.py",
        "integration/metastore/txns",
        "unit/metastore",
    )
)
"""Where a database makes a difference. What is built above them runs on SQLite, but for the marks
``every_database`` and ``instead``; ``make test-postgresql`` runs it on PostgreSQL."""


_MEMORY = Path("/dev/shm")  # noqa: S108 - a place for directories of their own, made by tempfile
_ENOUGH = 8 << 30
"""Bytes: the suite's files of one moment are a tenth of this."""


def _use_memory_for_files() -> None:
    """Where there is a large tmpfs, tests keep their files there: a commit of SQLite costs a hundredth then."""
    if "TMPDIR" in os.environ or not os.access(_MEMORY, os.W_OK):
        return
    if shutil.disk_usage(_MEMORY).free >= _ENOUGH:
        os.environ["TMPDIR"] = str(_MEMORY)
        tempfile.tempdir = None


def _make_spark_start_fast() -> None:
    """Its JVMs live for seconds: compiling less, and classes from an archive, cost them two thirds less CPU.

    ``make test`` has the archive made (scripts/class_archive.py). Java leaves it alone if it does not fit; its
    warnings would go to standard output, where tests look for other things.
    """
    options = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    # In the small cache for code that Java takes for it, a Spark that lives long looks for room all the time.
    options += " -XX:ReservedCodeCacheSize=240m -XX:-UseCodeCacheFlushing"
    archive = Path(__file__).parents[1] / "build" / "spark-classes.jsa"
    if archive.exists():
        options += f" -XX:SharedArchiveFile={shlex.quote(str(archive))} -Xlog:disable"
    os.environ.setdefault("SPARK_SUBMIT_OPTS", options)


_use_memory_for_files()
_make_spark_start_fast()


def _give_airflow_a_home() -> None:
    """Airflow reads its configuration while it is imported, so this is done before any test module is."""
    home = Path(tempfile.mkdtemp(prefix="hive-acid-airflow-"))
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    for name in [name for name in os.environ if name.startswith(("AIRFLOW_CONN_", "AIRFLOW__"))]:
        del os.environ[name]
    os.environ |= {
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__DAGS_FOLDER": str(Path(__file__).parent.parent / "dags"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{home / 'airflow.db'}",
        "AIRFLOW__LOGGING__LOGGING_LEVEL": "WARNING",
    }


_give_airflow_a_home()

# Each call of a command would build the tree of all commands anew, as the process of a user does once.
typer.testing._get_command = functools.cache(typer.main.get_command)


class _Failures:
    """Tells of a failure when it happens: a run that is ended from outside never prints its summary."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            crash = getattr(report.longrepr, "reprcrash", None)
            said = (report.longreprtext if crash is None else crash.message).strip().splitlines() or [""]
            writer = self._config.get_terminal_writer()
            writer.line()
            writer.line(f"{report.nodeid} failed at its {report.when}: {said[0 if crash else -1]}")


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(_Failures(config))
    if config.getoption("--schema") == "cdp":
        from airflow_hive_acid.settings import SETTINGS

        # There writing has to be insisted on.
        insist = SETTINGS["hive.acid.unverified.metastores"]
        SETTINGS[insist.key] = replace(insist, default="true")
    if not config.getoption("--repetitions"):
        examples.try_fewer()
    if sys.version_info >= (3, 13):
        # Since then Python tells of each connection to SQLite that was left to the garbage collector, in a later test.
        config.addinivalue_line("filterwarnings", "ignore:unclosed database:ResourceWarning")
    # psycopg does so with every Python, and the later test is not the one that left it.
    config.addinivalue_line("filterwarnings", "ignore:.* was deleted while still open:ResourceWarning")
    if importlib.util.find_spec("pyspark") is not None:
        from pyspark.version import __version__ as spark

        if tuple(map(int, spark.split(".")[:2])) < (4, 3):
            # Older PySparks leave the socket of collect() to the garbage collector.
            config.addinivalue_line("filterwarnings", "ignore:unclosed <socket:ResourceWarning")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """With ``--dist loadfile`` workers keep to what they have started (tests/scheduling.py)."""
    if config.getvalue("dist") != "loadfile":
        return None
    from tests.scheduling import Scheduling

    return Scheduling(config, log)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "backend" in metafunc.fixturenames:
        metafunc.parametrize("backend", _backends(metafunc), scope="session")


def _backends(metafunc: pytest.Metafunc) -> Sequence[str]:
    asked: list[str] | None = metafunc.config.getoption("--backend")
    if metafunc.config.getoption("--schema") and not asked:
        return ("postgresql",)
    if asked:
        return asked
    everywhere = metafunc.config.getoption("--every-database") or metafunc.definition.get_closest_marker(
        "every_database"
    )
    if everywhere or _is_in_a_room_of_sql(metafunc.definition.path):
        return DEFAULT_BACKENDS
    instead = metafunc.definition.get_closest_marker("instead")
    if instead is not None:
        return instead.args
    only = metafunc.definition.get_closest_marker("backends")
    named = [] if only is None else [name for name in only.args if name in DEFAULT_BACKENDS]
    return named or DEFAULT_BACKENDS[:1]


@functools.cache
def _is_in_a_room_of_sql(path: Path) -> bool:
    return any(path.is_relative_to(room) for room in ROOMS_OF_SQL)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out tests on databases that their mark ``backends`` does not name; long files come first.

    With ``--no-loadscope-reorder`` workers take files in this order, and none has a long one left at the end.
    """
    kept: list[pytest.Item] = []
    left_out: list[pytest.Item] = []
    of_hive_3 = config.getoption("--schema") is not None
    repetitions = config.getoption("--repetitions")
    for item in items:
        not_there = of_hive_3 and item.get_closest_marker("hive4") is not None
        not_now = not repetitions and item.get_closest_marker("repeats") is not None
        (left_out if not_there or not_now or _is_elsewhere(item) else kept).append(item)
    config.hook.pytest_deselected(items=left_out)
    long = {item.path for item in kept if item.get_closest_marker("spark") or item.get_closest_marker("airflow")}
    items[:] = sorted(kept, key=lambda item: item.path not in long)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """What is imported and collected stays until the end: the collector of rubbish does not look through it."""
    gc.disable()
    try:
        return (yield)  # type: ignore[misc]
    finally:
        gc.freeze()
        gc.set_threshold(10_000, 20, 100)
        gc.enable()


def _is_elsewhere(item: pytest.Item) -> bool:
    """Whether its mark ``backends`` leaves out the database that it has; a parameter's comes before the test's."""
    call = getattr(item, "callspec", None)
    if call is None:
        return False
    of_parameter = next((mark for mark in call.marks if mark.name == "backends"), None)
    only = of_parameter or item.get_closest_marker("backends")
    return only is not None and call.params.get("backend", only.args[0]) not in only.args


@pytest.fixture(scope="session")
def postgresql_server() -> Iterator[str]:
    """URL of the maintenance database of a running PostgreSQL server of this session."""
    with postgresql_servers.server() as url:
        yield url


@pytest.fixture(scope="session")
def postgresql_copies(
    postgresql_server: str, schema_templates: Callable[[str], str]
) -> Iterator[postgresql_servers.Copies]:
    """Databases with the full schema and nothing in them, for one test after the other."""
    with contextlib.closing(postgresql_servers.Copies(postgresql_server, schema_templates("postgresql"))) as copies:
        yield copies


@pytest.fixture(scope="session")
def mariadb_server() -> Iterator[str]:
    """URL of a running MariaDB server of this session; it listens on a socket in its own directory only."""
    with mysql_servers.server("mariadb") as url:
        yield url


@pytest.fixture(scope="session")
def mysql_server() -> Iterator[str]:
    """URL of a running MySQL 8 server of this session; it listens on a socket in its own directory only."""
    with mysql_servers.server("mysql") as url:
        yield url


@pytest.fixture(scope="session")
def schema_templates(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], str]:
    """Makes a database with the full schema on a backend, once; returns a file, or a database's name.

    It is no fixture with the backend as its parameter: pytest would end that with each change of the parameter, which
    is twice in a file that runs on two databases, and the spare databases of PostgreSQL with it.
    """
    from airflow_hive_acid.metastore import MetastoreClient

    @functools.cache
    def made(backend: str) -> str:
        if backend == "sqlite":
            path = tmp_path_factory.mktemp("template") / "metastore.db"
            with MetastoreClient(f"sqlite:///{path}") as client:
                client.create_schema()
            return str(path)
        if backend in mysql_servers.KINDS:
            url = mysql_servers.new_database(request.getfixturevalue(f"{backend}_server"))
        else:
            url = postgresql_servers.new_database(request.getfixturevalue("postgresql_server"))
        kind = request.config.getoption("--schema")
        if kind is not None:
            hive3_schemas.create(url, kind)
        with MetastoreClient(url) as client:
            client.create_schema()
        return str(sa.make_url(url).database)

    return made


@pytest.fixture(scope="session")
def schema_template(backend: str, schema_templates: Callable[[str], str]) -> str:
    """A database with the full schema, which is copied for each test."""
    return schema_templates(backend)


def _fresh_metastore(backend: str, template: str, request: pytest.FixtureRequest, path: Path) -> Iterator[str]:
    if backend == "sqlite":
        with sqlite3.connect(template) as source, sqlite3.connect(path) as target:
            source.backup(target)
        source.close()
        target.close()
        yield f"sqlite:///{path}"
    elif backend in mysql_servers.KINDS:
        server = request.getfixturevalue(f"{backend}_server")
        url = mysql_servers.new_database(server, template)
        yield url
        mysql_servers.drop_database(server, url)
    else:
        copies = request.getfixturevalue("postgresql_copies")
        url = copies.take()
        yield url
        copies.give_back(url)


@pytest.fixture
def metastore_url(backend: str, schema_template: str, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """URL of a fresh metastore with the full schema, one per test, on each backend."""
    yield from _fresh_metastore(backend, schema_template, request, tmp_path / "metastore.db")


@pytest.fixture
def replica_metastore_url(
    backend: str, schema_template: str, request: pytest.FixtureRequest, tmp_path: Path
) -> Iterator[str]:
    """URL of a second fresh metastore, for tests in which one is replicated to another."""
    yield from _fresh_metastore(backend, schema_template, request, tmp_path / "replica_metastore.db")


@pytest.fixture
def database_url(backend: str, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """URL of an empty database, one per test, on each backend."""
    if backend == "sqlite":
        yield f"sqlite:///{tmp_path / 'metastore.db'}"
    elif backend in mysql_servers.KINDS:
        server = request.getfixturevalue(f"{backend}_server")
        url = mysql_servers.new_database(server)
        yield url
        mysql_servers.drop_database(server, url)
    else:
        server = request.getfixturevalue("postgresql_server")
        url = postgresql_servers.new_database(server)
        yield url
        postgresql_servers.drop_database(server, url)


@pytest.fixture
def client(metastore_url: str) -> Iterator[MetastoreClient]:
    """A client of a fresh metastore with the full schema."""
    from airflow_hive_acid.metastore import MetastoreClient

    with MetastoreClient(metastore_url) as client:
        yield client


@pytest.fixture
def warehouse(tmp_path: Path) -> str:
    """URI of an empty warehouse directory."""
    path = tmp_path / "warehouse"
    path.mkdir()
    return path.as_uri()


@dataclass(frozen=True)
class GoldenTable:
    """One recorded state of a table that a real Hive wrote.

    ``root`` is a private copy of the warehouse tree; ``expected`` the rows Hive itself read, as
    ``{"columns": [[name, type]…], "rows": [[…]…]}``; ``snapshot`` its valid txn and write-id lists.
    """

    root: Path
    expected: dict[str, Any]
    snapshot: dict[str, Any]
    metastore_sql: str


@pytest.fixture
def golden(tmp_path: Path) -> Callable[..., GoldenTable]:
    """Load a Hive-written table: ``golden("unpart_dml", "3_delete", table="t")``."""

    def load(case: str, stage: str, table: str = "t") -> GoldenTable:
        source = FIXTURES / case / stage
        root = tmp_path / "golden" / case / stage
        if not root.exists():
            shutil.copytree(source / "tree", root)
        return GoldenTable(
            root=root / table,
            expected=json.loads((source / f"expected_{table}.json").read_text()),
            snapshot=json.loads((source / "snapshot.json").read_text()),
            metastore_sql=(source / "metastore.sql").read_text(),
        )

    return load


@pytest.fixture(scope="session")
def accelerator_jar() -> Path | None:
    """The optional jar for this Spark, up to date; None on a machine without a Java compiler."""
    from airflow_hive_acid.engine.applications.spark_conf import accelerator_jar
    from airflow_hive_acid.engine.applications.spark_version import spark_of_python

    script = Path(__file__).parent.parent / "scripts" / "build_accelerator.py"
    subprocess.run([sys.executable, str(script), "--if-javac"], check=True, capture_output=True)
    jar = accelerator_jar("auto", spark_of_python())
    return None if jar is None else Path(jar)


def _spark_conf(config: pytest.Config) -> dict[str, str]:
    """For tables of a few rows: what costs a Spark more than it saves is left out."""
    if config.getoption("--compiled"):
        return {}
    return {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}


@pytest.fixture(scope="session")
def spark(
    tmp_path_factory: pytest.TempPathFactory, accelerator_jar: Path | None, pytestconfig: pytest.Config
) -> Iterator[SparkSession]:
    """One local Spark session for in-process tests of the data plane, with the confs every job gets.

    The optional jar is loaded where it could be built; a test leaves it unused with ``accelerator.SESSION_KEY``, and
    ``--accelerator off`` does so for all.
    """
    unwanted = pytestconfig.getoption("--accelerator") == "off"
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    from airflow_hive_acid.spark.session import session_builder

    session = (
        session_builder("local[2]", "tests")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.warehouse.dir", tmp_path_factory.mktemp("spark").as_uri())
        .config(map=_spark_conf(pytestconfig))
        .config(map={} if accelerator_jar is None or unwanted else {"spark.jars": str(accelerator_jar)})
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


@pytest.fixture(scope="session")
def spark_application(
    tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config
) -> Iterator[OneApplication]:
    """Starts real Spark applications by spark-submit, the same one again and again."""
    from airflow_hive_acid.engine import SparkSubmitLauncher
    from airflow_hive_acid.spark.conf import ACCELERATOR_KEY

    logs = tmp_path_factory.mktemp("spark-logs")
    conf = _spark_conf(pytestconfig)
    if pytestconfig.getoption("--accelerator") == "off":
        conf[ACCELERATOR_KEY] = "off"
    one = OneApplication(SparkSubmitLauncher("local[2]", conf=conf, log_directory=logs))
    yield one
    one.stop()


@dataclass(frozen=True)
class HashedRow:
    """Values with the hashes that Hive gave them, by version; ``values`` as :mod:`format.bucketing` takes them."""

    types: tuple[str, ...]
    values: tuple[Any, ...]
    hashes: dict[int, int]


@pytest.fixture(scope="session")
def hashed_rows() -> list[HashedRow]:
    """Hive's own bucket hashes (see tests/interop/hashes)."""
    from airflow_hive_acid.format.bucketing import HiveType

    found = []
    for line in (FIXTURES / "bucket_hashes.jsonl").read_text().splitlines():
        row = json.loads(line)
        values = [_hashed_value(v, HiveType.parse(t)) for v, t in zip(row["values"], row["types"], strict=True)]
        found.append(HashedRow(tuple(row["types"]), tuple(values), {1: row["v1"], 2: row["v2"]}))
    return found


def _hashed_value(given: Any, kind: Any) -> Any:
    from airflow_hive_acid.format.bucketing import Instant

    if given is None:
        return None
    match kind.name:
        case "array":
            return [_hashed_value(item, kind.children[0]) for item in given]
        case "struct":
            return tuple(_hashed_value(item, child) for item, child in zip(given, kind.children, strict=True))
        case "map":
            key, value = kind.children
            return {_hashed_value(k, key): _hashed_value(v, value) for k, v in given.items()}
        case "boolean":
            return given == "true"
        case "tinyint" | "smallint" | "int" | "bigint":
            return int(given)
        case "float" | "double":
            return float(given)
        case "decimal":
            return Decimal(given)
        case "binary":
            return bytes.fromhex(given)
        case "date":
            return date.fromisoformat(given)
        case "string" | "varchar" | "char":
            return given
    text, _, fraction = given.removesuffix(" UTC").partition(".")
    since = datetime.fromisoformat(text) - datetime(1970, 1, 1)
    return Instant(since.days * 86400 + since.seconds, int(fraction.ljust(9, "0")))
