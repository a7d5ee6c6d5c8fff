"""One cluster for all tests of this directory: its start takes half a minute."""

from __future__ import annotations

from typing import TYPE_CHECKING

import fsspec
import pytest

from airflow_hive_acid.filesystem.webhdfs import CarefulWebHDFS

from .servers import Cluster, Realm, cluster, realm

if TYPE_CHECKING:
    from collections.abc import Iterator


#: Users whose tickets are not valid for long. Hadoop logs in anew once a minute at most.
LIVES = {"brief": "20s", "short": "90s"}


@pytest.fixture(scope="session")
def kerberos(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Realm]:
    """The realm of all clusters."""
    with realm(tmp_path_factory.mktemp("realm")) as made:
        yield made


@pytest.fixture(scope="session")
def hdfs_and_yarn(kerberos: Realm, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """The running cluster."""
    with cluster(tmp_path_factory.mktemp("cluster"), kerberos) as made:
        yield made


@pytest.fixture(scope="module")
def secured(kerberos: Realm, hdfs_and_yarn: Cluster) -> Iterator[Cluster]:
    """The cluster: ``/user/airflow`` is the user airflow's, and in ``/shared`` owner has the same rights as airflow."""
    folder, made = kerberos.folder, hdfs_and_yarn
    with pytest.MonkeyPatch.context() as patch:
        for user in ("airflow", *LIVES):
            kerberos.keytab(user)
        for user, lifetime in LIVES.items():
            kerberos.limit(user, lifetime)
        gateway = {"kerberos": True, "namenodes": {made.authority: made.web}}
        patch.setitem(fsspec.config.conf, "webhdfs", gateway)
        patch.setenv("KRB5_CONFIG", str(kerberos.conf))
        patch.setenv("KRB5CCNAME", str(folder / "admin.cache"))
        kerberos.ticket(folder / "hdfs.keytab", "hdfs/localhost", folder / "admin.cache")
        host, _, port = made.web.partition(":")
        admin = CarefulWebHDFS(host=host, port=int(port), kerberos=True, skip_instance_cache=True)
        for user in ("airflow", "owner", *LIVES):
            admin.mkdir(f"/user/{user}")
            admin.chown(f"/user/{user}", user, "users")
        admin.mkdir("/shared")
        admin.chown("/shared", "airflow", "users")
        rights = [f"{scope}user:{user}:rwx" for scope in ("", "default:") for user in ("", "airflow", "owner")]
        others = [f"{scope}{whom}::---" for scope in ("", "default:") for whom in ("group", "other")]
        admin._call("SETACL", method="put", path="/shared", aclspec=",".join([*rights, *others]))
        yield made


@pytest.fixture
def home(secured: Cluster, monkeypatch: pytest.MonkeyPatch) -> str:
    """The directory of the user airflow, who has a ticket."""
    folder = secured.realm.folder
    secured.realm.ticket(folder / "airflow.keytab", "airflow", folder / "airflow.cache")
    monkeypatch.setenv("KRB5CCNAME", str(folder / "airflow.cache"))
    CarefulWebHDFS.clear_instance_cache()  # a name node's cookie would say who logged in last
    return f"hdfs://{secured.authority}/user/airflow"
