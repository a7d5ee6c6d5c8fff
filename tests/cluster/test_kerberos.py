"""A warehouse on an HDFS under Kerberos: the control plane logs in by SPNEGO with the ticket that its process has."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from airflow_hive_acid.errors import StorageUnavailableError
from airflow_hive_acid.filesystem import AnyFilesystem, fence_staging

if TYPE_CHECKING:
    from .servers import Cluster

pytestmark = pytest.mark.cluster


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
