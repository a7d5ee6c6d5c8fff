"""A warehouse on an HDFS under Kerberos: the control plane logs in by SPNEGO with the ticket that its process has."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from airflow_hive_acid.errors import StorageUnavailableError
from airflow_hive_acid.filesystem import AnyFilesystem, fence_staging

if TYPE_CHECKING:
    from pathlib import Path

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


@pytest.mark.rule("R17")
def test_a_ticket_that_has_expired_in_the_middle_is_an_error_with_the_remedy(
    secured: Cluster, home: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name node keeps its cookie for ten hours; who has none, as after a failover, has to log in again."""
    realm, files = secured.realm, AnyFilesystem(skip_instance_cache=True)
    realm.ticket(realm.folder / "brief.keytab", "brief", tmp_path / "cache")
    monkeypatch.setenv("KRB5CCNAME", str(tmp_path / "cache"))
    assert files.exists(home) is True
    deadline = time.monotonic() + 60
    while realm.tickets(tmp_path / "cache"):
        assert time.monotonic() < deadline, "the ticket does not expire"
        time.sleep(0.5)
    _forget_cookies(files, home)
    with pytest.raises(StorageUnavailableError, match=r"login refused.*expired.*KRB5_CLIENT_KTNAME"):
        files.exists(f"{home}/absent")


def test_a_ticket_is_renewed_from_the_keytab_by_the_process_that_needs_it(
    secured: Cluster, home: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    realm, files = secured.realm, AnyFilesystem(skip_instance_cache=True)
    monkeypatch.setenv("KRB5_CLIENT_KTNAME", f"FILE:{realm.folder / 'brief.keytab'}")
    monkeypatch.setenv("KRB5CCNAME", str(tmp_path / "cache"))
    mine = home.replace("/user/airflow", "/user/brief")
    files.write_text(f"{mine}/a", "one")
    first = realm.tickets(tmp_path / "cache")
    deadline = time.monotonic() + 60
    while realm.tickets(tmp_path / "cache") == first:
        _forget_cookies(files, home)
        assert files.read_text(f"{mine}/a") == "one"
        assert time.monotonic() < deadline, "the ticket was not renewed"
        time.sleep(0.5)


def _forget_cookies(files: AnyFilesystem, uri: str) -> None:
    files.at(uri)._fs.session.cookies.clear()  # type: ignore[attr-defined]
