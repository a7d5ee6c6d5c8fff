"""A warehouse on an HDFS under Kerberos: the control plane logs in by SPNEGO with the ticket that its process has."""

from __future__ import annotations

from typing import TYPE_CHECKING

import fsspec
import pytest

from airflow_hive_acid.errors import StorageUnavailableError
from airflow_hive_acid.filesystem import AnyFilesystem, fence_staging
from airflow_hive_acid.filesystem.webhdfs import CarefulWebHDFS

from .servers import Cluster, cluster, realm

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """The cluster, on which ``/user/airflow`` is the user airflow's."""
    folder = tmp_path_factory.mktemp("realm")
    with (
        realm(folder) as kerberos,
        cluster(tmp_path_factory.mktemp("cluster"), kerberos) as made,
        pytest.MonkeyPatch.context() as patch,
    ):
        kerberos.keytab("airflow")
        gateway = {"kerberos": True, "namenodes": {made.authority: made.web}}
        patch.setitem(fsspec.config.conf, "webhdfs", gateway)
        patch.setenv("KRB5_CONFIG", str(kerberos.conf))
        patch.setenv("KRB5CCNAME", str(folder / "admin.cache"))
        kerberos.ticket(folder / "hdfs.keytab", "hdfs/localhost", folder / "admin.cache")
        host, _, port = made.web.partition(":")
        admin = CarefulWebHDFS(host=host, port=int(port), kerberos=True, skip_instance_cache=True)
        admin.mkdir("/user/airflow")
        admin.chown("/user/airflow", "airflow", "users")
        yield made


@pytest.fixture
def home(secured: Cluster, monkeypatch: pytest.MonkeyPatch) -> str:
    """The directory of the user airflow, who has a ticket."""
    folder = secured.realm.folder
    secured.realm.ticket(folder / "airflow.keytab", "airflow", folder / "airflow.cache")
    monkeypatch.setenv("KRB5CCNAME", str(folder / "airflow.cache"))
    return f"hdfs://{secured.authority}/user/airflow"


@pytest.mark.rule("R4")
def test_files_are_written_renamed_and_fenced_with_a_ticket(home: str) -> None:
    files = AnyFilesystem(skip_instance_cache=True)
    files.write_text(f"{home}/t/_tmp_1/data/delta_1/bucket_0", "one")
    files.rename_directory(f"{home}/t/_tmp_1/data/delta_1", f"{home}/t/delta_1")
    assert files.read_text(f"{home}/t/delta_1/bucket_0") == "one"
    assert fence_staging(files, f"{home}/t/_tmp_1", inside=f"{home}/t", note="fenced") is True
    assert [entry.name for entry in files.list_files(f"{home}/t")] == ["_tmp_1", "delta_1"]
    assert not files.exists(f"{home}/t/delta_2")


def test_what_belongs_to_somebody_else_is_refused(home: str) -> None:
    with pytest.raises(StorageUnavailableError, match="Permission denied: user=airflow"):
        AnyFilesystem(skip_instance_cache=True).make_directory(home.replace("/user/airflow", "/else"))


@pytest.mark.rule("R17")
def test_without_a_ticket_nothing_counts_as_absent(
    secured: Cluster, home: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KRB5CCNAME", str(secured.realm.folder / "none"))
    with pytest.raises(StorageUnavailableError):
        AnyFilesystem(skip_instance_cache=True).exists(f"{home}/absent")
