"""How ZooKeeper is reached, before anything is sent: what goes together, and what is in the files."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from airflow_hive_acid.errors import ConfigurationError
from airflow_hive_acid.metastore.locks.legacy.zookeeper_access import Access, Tls
from airflow_hive_acid.settings import Settings, Source

if TYPE_CHECKING:
    from pathlib import Path

KEYS = {
    "tls": "hive.zookeeper.ssl.client.enable", "ca": "hive.acid.zookeeper.ssl.ca",
    "certificate": "hive.acid.zookeeper.ssl.certificate", "key": "hive.acid.zookeeper.ssl.key",
    "key_password": "hive.acid.zookeeper.ssl.key.password.file", "user": "hive.acid.zookeeper.user",
    "password": "hive.acid.zookeeper.password.file", "auth": "hive.acid.zookeeper.auth",
}  # fmt: skip


def access(**given: object) -> Access:
    said = {KEYS[name]: str(value) for name, value in given.items()}
    return Access.of(Settings({Source.REQUEST: {"hive.zookeeper.quorum": "zk1", **said}}))


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    (tmp_path / "secret").write_text("hush\nmore\n")
    return tmp_path / "secret"


def test_nothing_is_said() -> None:
    assert access() == Access("zk1:2181", 120.0, 15.0)


@pytest.mark.setting("hive.acid.zookeeper.user", "hive.acid.zookeeper.password.file", "hive.acid.zookeeper.auth")
def test_a_user_with_the_first_line_of_a_file(secret: Path) -> None:
    found = access(user="ann", password=secret, auth="sasl")
    assert (found.user, found.password, found.mechanism) == ("ann", "hush", "sasl")
    assert "hush" not in repr(found)
    assert access(user="ann", password=secret).mechanism == "digest"


@pytest.mark.setting(
    "hive.acid.zookeeper.ssl.ca", "hive.acid.zookeeper.ssl.certificate", "hive.acid.zookeeper.ssl.key",
    "hive.acid.zookeeper.ssl.key.password.file",
)  # fmt: skip
def test_files_of_certificates(tmp_path: Path, secret: Path) -> None:
    from tests.zookeeper.certificates import Authority

    authority = Authority(tmp_path)
    certificate, key = authority.issue("client", password="hush")
    found = access(tls="true", ca=authority.file, certificate=certificate, key=key, key_password=secret)
    assert found.tls == Tls(str(authority.file), str(certificate), str(key), "hush")
    assert "hush" not in repr(found)
    with pytest.raises(ConfigurationError, match=r"the password of the key \(.*password\.file\) is wrong"):
        access(tls="true", certificate=certificate, key=key)  # nothing asks on the terminal
    for name, given in (("ca", {"ca": secret}), ("certificate", {"certificate": secret, "key": key})):
        with pytest.raises(ConfigurationError, match=rf"hive\.acid\.zookeeper\.ssl\.{name}.*in PEM"):
            access(tls="true", **given)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"ca": "/ca.pem"}, r"hive\.acid\.zookeeper\.ssl\.ca is given, but .* is off"),
        ({"tls": "true", "ca": "/not/there"}, r"ssl\.ca: /not/there"),
        ({"tls": "true", "key": "/key.pem"}, "go together; give both or none"),
        ({"user": "ann"}, "go together; give both or none"),
        ({"password": "/file"}, "go together; give both or none"),
        ({"user": "ann", "password": "/not/there"}, r"password\.file: /not/there cannot be read"),
        ({"user": "ann", "password": "/dev/null"}, r"password\.file: /dev/null is empty"),
        ({"user": "a:b", "password": "/dev/null"}, "no colon"),
    ],
)
def test_what_does_not_go_together_is_told_before_anything_is_sent(given: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        access(**given)


def test_what_speaks_sasl_may_be_missing(secret: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("kazoo")
    monkeypatch.setitem(sys.modules, "puresasl.client", None)
    with pytest.raises(ConfigurationError, match=r"airflow-hive-acid\[zookeeper\]"):
        access(user="ann", password=secret, auth="sasl").connect("/root")
