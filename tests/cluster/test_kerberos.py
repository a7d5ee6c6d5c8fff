"""A warehouse on an HDFS under Kerberos: the control plane logs in by SPNEGO with the ticket that its process has."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING

import pytest

from airflow_hive_acid.engine import Engine, SparkSubmitLauncher
from airflow_hive_acid.engine.transactions.claims import Once
from airflow_hive_acid.errors import CorruptTableError, HiveAcidError, StorageUnavailableError
from airflow_hive_acid.filesystem import AnyFilesystem, fence_staging
from airflow_hive_acid.metastore import MetastoreClient

from .servers import TOKEN_SECONDS

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
    deadline = time.monotonic() + 120
    while True:
        _forget_cookies(files, home)
        try:
            assert files.exists(f"{home}/absent") is False
        except StorageUnavailableError as error:
            said = str(error)
            break
        assert time.monotonic() < deadline, "the ticket does not expire"
        time.sleep(0.5)
    assert re.search(r"login refused.*expired.*KRB5_CLIENT_KTNAME", said), said
    assert not realm.tickets(tmp_path / "cache")


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


@pytest.mark.spark
@pytest.mark.rule("R5")
def test_a_ticket_cache_that_nobody_renews_ends_statements_with_the_remedy_and_leaves_nothing_half_done(
    secured: Cluster, home: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Time line:

    t1  an INSERT; the application has tokens for TOKEN_SECONDS, its ticket is over before they can be renewed
    t2  another INSERT, when they are over: it fails and says what to do
    t3  somebody logs in again: it is tried again, and is there once
    """
    realm, insert = secured.realm, "INSERT INTO w.t SELECT id FROM range(0, 100, 1, 2)"
    monkeypatch.setenv("SPARK_SUBMIT_OPTS", f"-Djava.security.krb5.conf={realm.conf}")
    monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
    monkeypatch.setenv("HADOOP_CONF_DIR", str(secured.conf))
    monkeypatch.setenv("KRB5CCNAME", str(tmp_path / "cache"))
    realm.ticket(realm.folder / "airflow.keytab", "airflow", tmp_path / "cache", lifetime="40s")
    launcher = SparkSubmitLauncher("local[2]", {}, log_directory=tmp_path / "logs")
    once = Once(("test", "ticket"))
    with MetastoreClient(f"sqlite:///{tmp_path / 'metastore.db'}") as client:
        client.create_schema()
        with Engine(client, launcher, f"{home}/ticket") as engine:
            engine.run(
                "CREATE DATABASE w; CREATE TABLE w.t (id INT) STORED AS ORC TBLPROPERTIES ('transactional'='true'); "
                + insert
            )
            over = time.monotonic() + TOKEN_SECONDS + 10
            while time.monotonic() < over:
                time.sleep(0.5)
            with pytest.raises(HiveAcidError, match=r"KRB5_?C") as failed:
                engine.run(insert, once=once)
            assert failed.value.retryable
            assert not isinstance(failed.value, CorruptTableError)
        realm.ticket(realm.folder / "airflow.keytab", "airflow", tmp_path / "cache")
        with Engine(client, launcher, f"{home}/ticket") as engine:
            engine.run(insert, once=once)
            assert engine.query("SELECT count(*), sum(id) FROM w.t").rows == [[200, 9900]]


def _forget_cookies(files: AnyFilesystem, uri: str) -> None:
    files.at(uri)._fs.session.cookies.clear()  # type: ignore[attr-defined]
