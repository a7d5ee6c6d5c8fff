"""The crash and zombie matrix with a Spark service between the engine and its jobs (decision 62, R4, R5, R14).

    t1  A hands its statement to a service, stops in front of effect n: killed, or asleep
    t2              B hands it to the same service under the same key
    t3  A, if it only slept, wakes up and does what it was about to do
    t4                          one pass of reaper and Cleaner

To the effects of the other matrix come those of a spool: A stops in front of what it hands in, and behind it, when the
service runs its step and nobody waits. The service is real; what it runs is the model that the matrix looks through.
``make test-crashes`` takes every cell.
"""

from __future__ import annotations

import json
import threading
import time
import uuid
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from airflow_hive_acid.engine.applications import service as callers
from airflow_hive_acid.engine.applications import spool
from airflow_hive_acid.engine.applications.service import WithService
from airflow_hive_acid.errors import HiveAcidError
from airflow_hive_acid.format.jobs import Export, JobError, JobResult, Select
from airflow_hive_acid.spark.jobs import service as jobs
from airflow_hive_acid.spark.jobs.service import Service
from tests.integration.engine.crashes.crashing import effects_counted, process_here
from tests.integration.engine.crashes.statements import CASES as STATEMENTS
from tests.integration.engine.crashes.statements import LabelledSpark
from tests.integration.engine.crashes.world import World, cell, effects_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

    from airflow_hive_acid.engine import JobLauncher, JobSession
    from airflow_hive_acid.format.jobs import JobSpec
    from tests.integration.engine.crashes.crashing import Process

pytestmark = [pytest.mark.crossing("crashes x a Spark service"),
    pytest.mark.spark, pytest.mark.backends("sqlite"),
    pytest.mark.rule("R4"), pytest.mark.rule("R5"), pytest.mark.rule("R14"),
]  # fmt: skip

MOST = 200
#: Of `make test`; what is written, replaced, changed and made, and several statements in one transaction.
FEW = ("insert", "overwrite", "merge", "update that moves rows", "transaction", "create table as")


class Serving:
    """A service that runs the jobs of many models, each for the engine that it belongs to.

    :ivar models: by job.
    """

    def __init__(self, above: Path) -> None:
        self.above = above
        self.models: dict[str, LabelledSpark] = {}
        self.own = 0

    def launcher(self, spark: LabelledSpark) -> JobLauncher:
        return _Launcher(self, spark)

    def execute(self, _session: SparkSession, spec: JobSpec) -> JobResult:
        """In place of the service's own."""
        spark = self.models[spec.job_id]
        try:
            result = spark.run(spec)
        except HiveAcidError as error:
            return JobResult(spec.job_id, "model", error=JobError(type(error).__name__, str(error)))
        if isinstance(spec.step, Select | Export):
            lines = "".join(f"{json.dumps(row)}\n" for row in spark.answer)
            Path(spec.step.rows_uri.removeprefix("file://")).write_text(lines)
        return replace(result, application_id="model")


class _Launcher:
    """Tells the service whose jobs it will run."""

    def __init__(self, serving: Serving, spark: LabelledSpark) -> None:
        self._serving, self._spark = serving, spark
        self._inner = WithService(_Own(serving, spark), serving.above.as_uri(), None)

    def start(self, *application: Any) -> JobSession:
        self._spark.start()
        session = self._inner.start(*application)
        run = session.run

        def tell(spec: JobSpec) -> JobResult:
            self._serving.models[spec.job_id] = self._spark
            return run(spec)

        session.run = tell  # type: ignore[method-assign]
        return session


class _Own:
    """What must not be shared runs in the model itself."""

    def __init__(self, serving: Serving, spark: LabelledSpark) -> None:
        self._serving, self._spark = serving, spark

    def start(self, *application: Any) -> Any:
        self._serving.own += 1
        return self._spark.start(*application)


def _handed_in(put: Any, owners: dict[str, Process]) -> Any:
    """Files of a spool are effects of their process; a dead one gives no sign of life."""

    def handing_in(filesystem: Any, uri: str, text: str) -> None:
        directory, _, name = uri.rpartition("/")
        process = process_here()
        if process is not None:
            owners.setdefault(directory, process)
            process.effect(f"hand in {name}", lambda: put(filesystem, uri, text))
            if name.endswith(".spec.json"):
                process.effect(f"wait for {name}", lambda: None)
            return
        if directory in owners and owners[directory].dead:
            raise OSError("the process is gone")
        put(filesystem, uri, text)

    return handing_in


@pytest.fixture
def serving(tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Iterator[Serving]:
    """A service with short times."""
    above = tmp_path / "services" / "etl"
    incarnation = uuid.uuid4().hex
    for directory in (above.parent, above, above / incarnation):
        directory.mkdir(mode=0o700)
    found = Serving(above)
    owners: dict[str, Process] = {}
    monkeypatch.setattr(jobs, "execute", found.execute)
    monkeypatch.setattr(spool, "ALIVE_SECONDS", 0.05)
    for module in (spool, callers):
        monkeypatch.setattr(module, "put", _handed_in(module.put, owners))
    service = Service(spark, above.as_uri(), incarnation, places=2, max_callers=32, idle_seconds=2.0)
    thread = threading.Thread(target=service.serve)
    thread.start()
    while not (above / "state.json").exists():
        time.sleep(0.01)
    yield found
    try:
        _wait_until_nobody_is_left(above)
    finally:
        service.end()
        thread.join(30)
    assert not thread.is_alive()


def _wait_until_nobody_is_left(above: Path) -> None:
    """What the dead have handed in is gone with them."""
    deadline = time.monotonic() + 30
    while list(above.glob("*/session-*")):
        assert time.monotonic() < deadline, list(above.glob("*/session-*/*"))
        time.sleep(0.05)


@pytest.fixture
def world(metastore_url: str, warehouse: str, serving: Serving, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    world = World(metastore_url, warehouse, serving.launcher)
    with effects_counted(monkeypatch):
        yield world
    world.close()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Every statement, or a few, killed and asleep."""
    whole = metafunc.config.getoption("--crashes-every") > 0
    taken = [case for case in STATEMENTS if whole or case.name in FEW]
    metafunc.parametrize("case", taken, ids=lambda case: case.name.replace(" ", "-"))
    metafunc.parametrize("sleeps", [False, True], ids=["killed", "asleep"])


def test_a_statement_in_a_service_is_applied_once_wherever_a_try_of_it_has_stopped(
    world: World, serving: Serving, case: Any, sleeps: bool, request: pytest.FixtureRequest, record_property: Any
) -> None:
    every = request.config.getoption("--crashes-every")
    done = effects_of(world, case).done
    handed_in = [number for number, what in enumerate(done, 1) if what.startswith(("hand in", "wait for"))]
    assert handed_in or case.name not in FEW, done
    if not handed_in:
        return  # it needs no Spark: the other matrix has it
    # In the small form: where a spool is touched, and one place in between.
    stops = range(1 + (every > 1 and sleeps), MOST, every) if every else handed_in[1 + sleeps :: 3]
    run: Counter[str] = Counter()
    for stop in stops:
        where, waited = cell(world, case, stop, sleeps=sleeps)
        if where is None:
            break
        run["cells"] += 1
        run["waited for the reaper"] += waited
    else:
        assert not every, "there are more effects than were tried"
    assert run["cells"]
    print(f"matrix: {case.name} in a service | {'asleep' if sleeps else 'killed'} | {dict(run)}")  # noqa: T201
    record_property("cells", run["cells"])
