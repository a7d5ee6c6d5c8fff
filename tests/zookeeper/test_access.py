"""TLS and users on a real ZooKeeper: who is let in, whose the nodes are, what is said to others (decision 65)."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from airflow_hive_acid.errors import ConfigurationError, MetastoreUnavailableError
from tests.zookeeper.certificates import Authority
from tests.zookeeper.server import Guard, Server, running_server
from tests.zookeeper.test_lock_manager import DENIED, GRANTED, S, X, request_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


Session = "Callable[..., ZooKeeperLockManager]"


@dataclass(frozen=True)
class Guarded:
    """A server with TLS and users, and files for its clients."""

    server: Server
    folder: Path
    authority: Authority

    def secret(self, text: str) -> str:
        path = self.folder / f"secret-{text}"
        path.write_text(f"{text}\n")
        return str(path)

    def login(self, user: str, password: str, auth: str = "sasl") -> dict[str, str]:
        return {
            "acid_zookeeper_user": user,
            "acid_zookeeper_auth": auth,
            "acid_zookeeper_password_file": self.secret(password),
        }

    @property
    def plain(self) -> dict[str, str]:
        return {"zookeeper_quorum": self.server.address, "zookeeper_connection_timeout": "4s"}

    @property
    def tls(self) -> dict[str, str]:
        return {
            "zookeeper_quorum": f"127.0.0.1:{self.server.secure_port}",
            "zookeeper_connection_timeout": "4s",
            "zookeeper_ssl_client_enable": "true",
            "acid_zookeeper_ssl_ca": str(self.authority.file),
        }


@contextlib.contextmanager
def guarded(folder: Path, *, wants_certificate: bool = False) -> Iterator[Guarded]:
    authority = Authority(folder)
    certificate, key = authority.issue("server")
    store, jaas = folder / "store.pem", folder / "jaas.conf"
    store.write_bytes(key.read_bytes() + certificate.read_bytes())
    jaas.write_text(
        'Server { org.apache.zookeeper.server.auth.DigestLoginModule required\nuser_ann="secret" user_bob="other"; };\n'
    )
    guard = Guard(store, authority.file, jaas, wants_certificate)
    with running_server(folder, guard=guard) as server:
        yield Guarded(server, folder, authority)


@pytest.fixture(scope="module")
def there(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    with guarded(tmp_path_factory.mktemp("guarded")) as there:
        yield there


@pytest.fixture
def as_nobody(there: Guarded, zookeeper: dict[str, str]) -> Iterator[Callable[[], list[str]]]:
    """Has somebody who has not logged in look at the nodes, delete one and make one; what was refused."""
    from kazoo.client import KazooClient
    from kazoo.exceptions import NoAuthError

    client = KazooClient(hosts=there.server.address)
    client.start()

    def try_all() -> list[str]:
        root, refused = "/" + zookeeper["hive.zookeeper.namespace"], []
        for what in (
            lambda: client.get_children(root),
            lambda: client.delete(f"{root}/db"),
            lambda: client.create(f"{root}/db/t/read-", ephemeral=True, sequence=True),
        ):
            try:
                what()
            except NoAuthError:
                refused.append("refused")
        return refused

    yield try_all
    client.stop()
    client.close()


@pytest.mark.parametrize("auth", ["sasl", "digest"])
@pytest.mark.parametrize("encrypted", [True, False])
def test_a_users_locks_hold_and_belong_to_the_user(
    there: Guarded, session: Session, as_nobody: Callable[[], list[str]], auth: str, encrypted: bool
) -> None:
    reach = there.tls if encrypted else there.plain
    ann, again = (session(**reach, **there.login("ann", "secret", auth)) for _ in range(2))
    held = ann.lock(request_of(("db.t", X)))
    assert held.state is GRANTED
    assert again.lock(request_of(("db.t", S))).state is DENIED
    assert as_nobody() == ["refused"] * 3
    assert ann.check_lock(held.lock_id).state is GRANTED
    assert [row.table for row in again.stream_locks()] == ["t"]
    ann.unlock(held.lock_id)
    assert again.lock(request_of(("db.t", S))).state is GRANTED


@pytest.mark.parametrize("auth", ["sasl", "digest"])
def test_nodes_of_one_user_are_refused_to_another_and_to_nobody(there: Guarded, session: Session, auth: str) -> None:
    assert session(**there.plain, **there.login("ann", "secret", auth)).lock(request_of(("db.t", X))).state is GRANTED
    with pytest.raises(ConfigurationError, match=r"does not allow 'bob' \(hive\.acid\.zookeeper\.user\)"):
        session(**there.plain, **there.login("bob", "other", auth)).lock(request_of(("db.t", S)))
    with pytest.raises(ConfigurationError, match=r"does not allow somebody who has not logged in"):
        session(**there.plain).lock(request_of(("db.t", S)))


def test_a_root_that_was_made_by_nobody_is_refused(there: Guarded, session: Session) -> None:
    assert session(**there.plain).lock(request_of(("db.t", S))).state is GRANTED
    with pytest.raises(ConfigurationError, match="is open to everybody"):
        session(**there.plain, **there.login("ann", "secret")).lock(request_of(("db.t", S)))


@pytest.mark.parametrize("encrypted", [True, False])
def test_a_wrong_password_is_told(there: Guarded, session: Session, encrypted: bool) -> None:
    reach = there.tls if encrypted else there.plain
    with pytest.raises(ConfigurationError, match=r"does not let 'ann' in: hive\.acid\.zookeeper\.user, the password"):
        session(**reach, **there.login("ann", "wrong")).lock(request_of(("db.t", S)))


@pytest.mark.parametrize("name", ["ConnectionLoss", "ConnectionClosedError", "SessionExpiredError", "AuthFailedError"])
def test_a_refusal_is_told_whichever_way_the_client_hears_of_it(
    there: Guarded, session: Session, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    from kazoo import exceptions
    from kazoo.client import KazooClient

    def lost(*_: object) -> None:
        raise getattr(exceptions, name)

    monkeypatch.setattr(KazooClient, "ensure_path", lost)
    with pytest.raises(ConfigurationError, match="does not let 'ann' in"):
        session(**there.plain, **there.login("ann", "secret")).lock(request_of(("db.t", S)))


def test_what_is_wrong_with_tls_is_told(there: Guarded, session: Session, tmp_path: Path) -> None:
    """Another signer, another host, a port that speaks no TLS, and TLS that nobody asked for."""

    def says(text: str, **settings: str) -> None:
        with pytest.raises(ConfigurationError, match=text):
            session(**settings).lock(request_of(("db.t", S)))

    other = Authority(tmp_path, "others")
    says(
        r"is not accepted: .*; hive\.acid\.zookeeper\.ssl\.ca names",
        **there.tls | {"acid_zookeeper_ssl_ca": str(other.file)},
    )
    says("is not accepted: .*localhost", **there.tls | {"zookeeper_quorum": f"localhost:{there.server.secure_port}"})
    says("we find no common TLS", **there.tls | {"zookeeper_quorum": there.server.address})
    says(
        r"speaks TLS: set hive\.zookeeper\.ssl\.client\.enable",
        **there.plain | {"zookeeper_quorum": there.tls["zookeeper_quorum"]},
    )
    with pytest.raises(MetastoreUnavailableError, match="does not answer within 4 s"):
        session(**there.tls | {"zookeeper_quorum": "127.0.0.1:1"}).lock(request_of(("db.t", S)))


@pytest.mark.parametrize("password", ["", "of the key"])
def test_a_server_may_want_a_certificate(tmp_path: Path, session: Session, password: str) -> None:
    with guarded(tmp_path, wants_certificate=True) as there:
        certificate, key = there.authority.issue("client", password=password)
        shown = {"acid_zookeeper_ssl_certificate": str(certificate), "acid_zookeeper_ssl_key": str(key)}
        if password:
            shown["acid_zookeeper_ssl_key_password_file"] = there.secret(password)
        login = there.login("ann", "secret")
        assert session(**there.tls, **shown, **login).lock(request_of(("db.t", X))).state is GRANTED
        with pytest.raises(ConfigurationError, match=r"does the server want a certificate of ours"):
            session(**there.tls, **login).lock(request_of(("db.t", X)))


def test_after_a_break_the_same_user_is_there_again(tmp_path: Path, session: Session) -> None:
    """
    t1  A holds a lock
    t2  the server is killed, and started anew with what it knew
    t3  A's session goes on, logged in: the lock is held, another one is granted
    """
    with guarded(tmp_path) as there:
        ann = session(**there.tls, **there.login("ann", "secret"), zookeeper_session_timeout="20s")
        held = ann.lock(request_of(("db.t", X)))
        there.server.stop()
        there.server.start()
        assert ann.check_lock(held.lock_id).state is GRANTED
        assert ann.lock(request_of(("db.u", X))).state is GRANTED
        other = session(**there.tls, **there.login("ann", "secret"))
        assert other.lock(request_of(("db.t", S))).state is DENIED
