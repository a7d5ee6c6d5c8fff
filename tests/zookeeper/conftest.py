"""A ZooKeeper for all tests here, a namespace for each, and engines without Spark."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import pytest

from airflow_hive_acid.metastore.locks.legacy.zookeeper import ZooKeeperLockManager
from airflow_hive_acid.settings import Settings, Source
from airflow_hive_acid.settings_table import DUMMY_TXN_MANAGER, ZOOKEEPER_LOCK_MANAGER
from tests.integration.engine.conftest import engine, events, fake, other, states  # noqa: F401 - fixtures
from tests.zookeeper.server import Server, running_server

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from airflow_hive_acid.metastore import MetastoreClient

_numbers = itertools.count(1)
_SOCKETS = "ignore:(?s).*unclosed <ssl.SSLSocket:pytest.PytestUnraisableExceptionWarning"
"""The client leaves the socket of a handshake that failed to the collector of rubbish, which warns tests later."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "tests/zookeeper/" in str(item.path):
            item.add_marker(pytest.mark.zookeeper)
            item.add_marker(pytest.mark.filterwarnings(_SOCKETS))


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A running ZooKeeper."""
    with running_server(tmp_path_factory.mktemp("zookeeper")) as server:
        yield server


@pytest.fixture
def zookeeper(server: Server) -> dict[str, str]:
    """Settings of a namespace of its own; one try for each request."""
    return {
        "hive.txn.manager": DUMMY_TXN_MANAGER,
        "hive.lock.manager": ZOOKEEPER_LOCK_MANAGER,
        "hive.zookeeper.quorum": server.address,
        "hive.zookeeper.namespace": f"test_{next(_numbers)}",
        "hive.zookeeper.session.timeout": "2s",
        "hive.lock.numretries": "0",
        "hive.lock.sleep.between.retries": "50ms",
    }


@pytest.fixture
def settings_of(zookeeper: dict[str, str]) -> Callable[..., Settings]:
    """Those settings, and others: ``settings_of(lock_numretries="3")``."""

    def of(**more: str) -> Settings:
        return Settings({Source.REQUEST: zookeeper | {f"hive.{k.replace('_', '.')}": v for k, v in more.items()}})

    return of


@pytest.fixture
def session(
    client: MetastoreClient, settings_of: Callable[..., Settings]
) -> Iterator[Callable[..., ZooKeeperLockManager]]:
    """Makes lock managers, each with a session of its own."""
    made: list[ZooKeeperLockManager] = []

    def make(**settings: str) -> ZooKeeperLockManager:
        made.append(ZooKeeperLockManager(client.database, settings_of(**settings)))
        return made[-1]

    yield make
    for manager in made:
        manager.close()


@pytest.fixture
def nodes(server: Server, zookeeper: dict[str, str]) -> Iterator[Callable[[], dict[str, list[str]]]]:
    """What lies below the namespace, as a ZooKeeper client sees it: names of leaves without their numbers, by path."""
    from kazoo.client import KazooClient

    client = KazooClient(hosts=server.address)
    client.start()
    root = "/" + zookeeper["hive.zookeeper.namespace"]

    def children(path: str, found: dict[str, list[str]]) -> dict[str, list[str]]:
        for name in sorted(client.get_children(path)) if client.exists(path) else ():
            kind, dash, number = name.partition("-")
            if dash and kind in ("read", "write") and number.isdecimal():
                found.setdefault(path.removeprefix(root), []).append(f"{kind}-")
            elif dash and kind == "txn":
                found.setdefault(path.removeprefix(root), []).append(name)
            else:
                children(f"{path}/{name}", found)
        return found

    yield lambda: children(root, {})
    client.stop()
    client.close()


@pytest.fixture
def end_session(server: Server) -> Callable[[ZooKeeperLockManager], None]:
    """Ends the session of a manager as the server does when it hears nothing; the manager is not told."""
    from kazoo.client import KazooClient

    def end(manager: Any) -> None:
        twin = KazooClient(hosts=server.address, client_id=manager._kazoo.client_id)
        twin.start()
        twin.stop()
        twin.close()

    return end
