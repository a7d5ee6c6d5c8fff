"""A nameservice: which name nodes it has, and that a failover between them loses nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import fsspec
import pytest
import requests

from airflow_hive_acid.errors import ConfigurationError, StorageUnavailableError
from airflow_hive_acid.filesystem import AnyFilesystem, webhdfs
from airflow_hive_acid.filesystem.name_nodes import gateways

from .name_node import NameNode, name_node

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

T = "hdfs://ns/w/t"


def _site(folder: Path, **settings: str) -> dict[str, str]:
    lines = [f"<property><name>{k.replace('__', '-')}</name><value>{v}</value></property>" for k, v in settings.items()]
    (folder / "hdfs-site.xml").write_text(f"<configuration>{''.join(lines)}</configuration>")
    return {"HADOOP_CONF_DIR": str(folder)}


HA = {
    "dfs.ha.namenodes.ns": "nn1, nn2",
    "dfs.namenode.http-address.ns.nn1": "a:9870",
    "dfs.namenode.http-address.ns.nn2": "b:9870",
    "dfs.namenode.https-address.ns.nn1": "a:9871",
    "dfs.namenode.https-address.ns.nn2": "b:9871",
}


def test_name_nodes_of_a_nameservice_are_those_of_hadoops_configuration(tmp_path: Path) -> None:
    environment = _site(tmp_path, **HA)
    assert gateways("ns", {"kerberos": True}, environment) == ("a:9870", "b:9870")
    assert gateways("ns", {"use_https": True}, environment) == ("a:9871", "b:9871")
    assert gateways("other", {"kerberos": True}, environment) == ()


def test_what_is_configured_for_webhdfs_wins_and_without_it_there_is_none(tmp_path: Path) -> None:
    environment = _site(tmp_path, **HA)
    assert gateways("ns", {"namenodes": {"ns": "c:1, d:2"}}, environment) == ("c:1", "d:2")
    assert gateways("ns", {}, environment) == ()
    assert gateways("ns", {"kerberos": True}, {}) == ()
    assert gateways("ns", {"kerberos": True}, {"HADOOP_CONF_DIR": str(tmp_path / "none")}) == ()


def test_a_name_node_without_an_address_is_an_error_that_names_the_property(tmp_path: Path) -> None:
    environment = _site(tmp_path, **{"dfs.ha.namenodes.ns": "nn1"})
    with pytest.raises(ConfigurationError, match=r"no dfs\.namenode\.http-address\.ns\.nn1: set it there"):
        gateways("ns", {"kerberos": True}, environment)


@pytest.fixture
def nodes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[NameNode, NameNode]]:
    """Two name nodes over one namespace."""
    with name_node(tmp_path / "hdfs") as first, name_node(tmp_path / "hdfs") as second:
        both = f"127.0.0.1:{first.port},127.0.0.1:{second.port}"
        monkeypatch.setitem(fsspec.config.conf, "webhdfs", {"user": "hive", "namenodes": {"ns": both}})
        yield first, second


@pytest.mark.parametrize("failure", ["standby", "retriable", "closed"])
@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.rule("R17")
def test_whatever_is_asked_is_asked_of_the_one_that_is_active(
    nodes: tuple[NameNode, NameNode], failure: str, which: int
) -> None:
    files = AnyFilesystem(skip_instance_cache=True)
    with nodes[which].failing(failure):
        files.write_text(f"{T}/_tmp_1/data/delta_1/bucket_0", "one")
    with nodes[1 - which].failing(failure):
        files.rename_directory(f"{T}/_tmp_1/data/delta_1", f"{T}/delta_1")
    with nodes[which].failing(failure):
        assert files.read_text(f"{T}/delta_1/bucket_0") == "one"
        assert files.exists(f"{T}/delta_2") is False
        assert files.delete(f"{T}/_tmp_1", inside=T) is True
    assert nodes[0].tree() == {"w": "/", "w/t": "/", "w/t/delta_1": "/", "w/t/delta_1/bucket_0": "one"}


@pytest.mark.rule("R17")
def test_while_none_is_active_nothing_counts_as_absent_and_nothing_is_done(
    nodes: tuple[NameNode, NameNode], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webhdfs, "_FAILOVER_SECONDS", 0.5)
    files = AnyFilesystem(skip_instance_cache=True)
    files.write_text(f"{T}/a", "one")
    with nodes[0].failing("standby"), nodes[1].failing("closed"):
        with pytest.raises(StorageUnavailableError):
            files.exists(f"{T}/a")
        with pytest.raises(StorageUnavailableError):
            files.rename(f"{T}/a", f"{T}/b")
        assert nodes[0].asked > 2
    assert files.read_text(f"{T}/a") == "one"


def test_a_rename_whose_answer_is_lost_in_a_failover_has_happened(nodes: tuple[NameNode, NameNode]) -> None:
    files = AnyFilesystem(skip_instance_cache=True)
    files.write_text(f"{T}/a/f", "one")
    gateway = files.at(T)._fs  # type: ignore[attr-defined]
    nodes[0].answers_lost = 1
    gateway.mv("/w/t/a", "/w/t/b")
    assert nodes[0].answers_lost == 0
    assert nodes[0].tree() == {"w": "/", "w/t": "/", "w/t/b": "/", "w/t/b/f": "one"}


def test_a_rename_that_was_cut_off_before_it_happened_is_asked_for_again(
    nodes: tuple[NameNode, NameNode], monkeypatch: pytest.MonkeyPatch
) -> None:
    files = AnyFilesystem(skip_instance_cache=True)
    files.write_text(f"{T}/a/f", "one")
    gateway = files.at(T)._fs  # type: ignore[attr-defined]
    info = gateway.info

    def after_the_failover(path: str) -> object:
        nodes[0].failure = "standby"
        return info(path)

    monkeypatch.setattr(gateway, "info", after_the_failover)
    nodes[0].failure = "cut"
    gateway.mv("/w/t/a", "/w/t/b")
    assert nodes[1].tree() == {"w": "/", "w/t": "/", "w/t/b": "/", "w/t/b/f": "one"}


def test_a_delete_whose_answer_is_lost_is_not_asked_again(nodes: tuple[NameNode, NameNode]) -> None:
    """A second answer would be that there was nothing, which says nothing of who deleted it."""
    files = AnyFilesystem(skip_instance_cache=True)
    files.write_text(f"{T}/a", "one")
    nodes[0].answers_lost = 1
    with pytest.raises(StorageUnavailableError):
        files.delete(f"{T}/a", inside=T)
    assert files.exists(f"{T}/a") is False


def test_a_single_name_node_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with name_node(tmp_path / "hdfs") as node:
        conf = {"user": "hive", "namenodes": {"ns": f"127.0.0.1:{node.port}"}}
        monkeypatch.setitem(fsspec.config.conf, "webhdfs", conf)
        files = AnyFilesystem(skip_instance_cache=True)
        with node.failing("standby"), pytest.raises(StorageUnavailableError):
            files.exists(f"{T}/a")
        assert node.asked == 1
        node.answers_lost = 1
        with pytest.raises(requests.ConnectionError):
            files.at(T)._fs.mv("/a", "/b")  # type: ignore[attr-defined]


def test_a_refused_kerberos_login_says_what_to_do(nodes: tuple[NameNode, NameNode]) -> None:
    files = AnyFilesystem(skip_instance_cache=True)
    files.at(T)._fs.kerb = True  # type: ignore[attr-defined]
    with (
        nodes[0].failing("no login"),
        pytest.raises(StorageUnavailableError, match=r"login refused.*KRB5_CLIENT_KTNAME"),
    ):
        files.exists(f"{T}/a")
