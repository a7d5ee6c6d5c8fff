"""Callers who share a Spark service whose directory lies on storage that several machines reach."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

import pytest

from airflow_hive_acid.engine import Engine
from airflow_hive_acid.engine.applications import found_services, service
from airflow_hive_acid.engine.applications.found_services import find_services, service_directory
from airflow_hive_acid.engine.applications.service import ServiceSettings, WithService, serving
from airflow_hive_acid.engine.transactions.claims import Once
from airflow_hive_acid.errors import ConfigurationError, JobFailedError
from airflow_hive_acid.filesystem import AnyFilesystem

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_hive_acid.engine import SparkSubmitLauncher
    from airflow_hive_acid.metastore import MetastoreClient

LONG = "INSERT INTO w.t SELECT CAST(count(*) AS INT) FROM range(0, 1000000000, 1, 2) WHERE hash(id) <> 5"


def share_a_service(client: MetastoreClient, launcher: SparkSubmitLauncher, spool: str, warehouse: str) -> None:
    """
    t1  A, B and C hand statements to one service; a second service of that name does not start
    t2  the service is killed while it runs a statement of A
    t3                    A fails; it tries again under the same key, finds no service, and has a Spark of its own
    """
    uri = service_directory("etl", spool)
    said: list[str] = []
    once = Once(("long",), "1")

    def engine(name: str) -> Engine:
        return Engine(client, WithService(launcher, "etl", spool, say=said.append), warehouse, agent_info=name)

    with serving(launcher, uri, ServiceSettings(places=2)) as running:
        application = running.wait_ready()
        _await(lambda: bool(find_services(spool)))
        with pytest.raises(ConfigurationError, match="runs already"), serving(launcher, uri, ServiceSettings()):
            pass
        with engine("A") as first, engine("B") as second, engine("C") as third:
            first.run(
                "CREATE DATABASE w; CREATE TABLE w.t (id INT) STORED AS ORC TBLPROPERTIES ('transactional'='true')"
            )
            _at_once(lambda: second.run("INSERT INTO w.t VALUES (1)"), lambda: third.run("INSERT INTO w.t VALUES (2)"))
            answer = first.query("SELECT id FROM w.t ORDER BY id")
            assert answer.rows == [[1], [2]]
            assert not said, said
            failed: list[BaseException | None] = []
            caller = threading.Thread(target=lambda: failed.append(_failure(lambda: first.run(LONG, once=once))))
            caller.start()
            _await(lambda: any(one.running for found in find_services(spool) for one in found.state.callers))
            assert find_services(spool)[0].state.application_id == application
            running.cancel()
            caller.join(120)
            assert [type(failure) for failure in failed] == [JobFailedError], failed
    assert find_services(spool) == []
    with engine("A") as again:
        for _ in range(2):
            again.run(LONG, once=once)
        assert again.query("SELECT count(*), max(id) > 900000000 FROM w.t").rows == [[3, True]]
    assert len(said) == 1
    assert "there is none in" in said[0]
    files = AnyFilesystem()
    if files.exists(uri):  # an object store forgets directories that are empty
        assert files.list_files(uri) == []


def pretend_to_be_elsewhere(patch: pytest.MonkeyPatch) -> None:
    """A caller that cannot see the service's process, as on another machine."""
    patch.setattr(found_services, "place", lambda: "another machine")
    patch.setattr(service, "SILENT_SECONDS", 10.0)


def _await(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 120
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def _at_once(*calls: Callable[[], object]) -> None:
    failed: list[BaseException | None] = []
    threads = [threading.Thread(target=lambda call=call: failed.append(_failure(call))) for call in calls]  # type: ignore[misc]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert failed == [None] * len(calls)


def _failure(call: Callable[[], object]) -> BaseException | None:
    try:
        call()
    except Exception as failure:  # noqa: BLE001 - the test says what it may be
        return failure
    return None
