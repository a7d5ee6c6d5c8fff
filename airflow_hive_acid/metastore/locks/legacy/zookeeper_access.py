"""How ZooKeeper is reached: servers, TLS, and as whom; what is wrong with any of them is told (decision 65).

The client itself tells little. A handshake that fails and a server that is away look the same to it, and of a wrong
password it says something only with the next request. So the files are looked at before anything is sent, a server that
does not answer is asked for a handshake once more by ourselves, and a new session begins with a request.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import socket
import ssl
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow_hive_acid.errors import ConfigurationError, MetastoreUnavailableError

if TYPE_CHECKING:
    from airflow_hive_acid.settings import Settings

_TLS, _USER = "hive.zookeeper.ssl.client.enable", "hive.acid.zookeeper.user"
_CA, _CERTIFICATE = "hive.acid.zookeeper.ssl.ca", "hive.acid.zookeeper.ssl.certificate"
_KEY, _KEY_PASSWORD = "hive.acid.zookeeper.ssl.key", "hive.acid.zookeeper.ssl.key.password.file"
_PASSWORD = "hive.acid.zookeeper.password.file"  # noqa: S105 - a name
DIGEST, SASL = "digest", "sasl"
"""ZooKeeper's own users, which it need not know, and users of its JAAS file by SASL DIGEST-MD5."""
_READ = 1
"""Permission of an ACL that changes nothing."""
_TRIES = 2
"""To log in: a server that was just started refuses now and then."""
_CONNECTED = "CONNECTED"
"""State of a client that has a session."""


@dataclass(frozen=True, slots=True)
class Tls:
    """Encryption.

    :param ca: file of the certificates that sign servers' ones; empty: those of the system.
    :param certificate: of ours, with ``key``; both empty: we show none.
    """

    ca: str = ""
    certificate: str = ""
    key: str = ""
    key_password: str = field(default="", repr=False)

    def context(self) -> ssl.SSLContext:
        """What checks servers as the client does.

        :raises ConfigurationError: when a file is missing or is none of its kind; names the setting.
        """
        context = ssl.create_default_context()
        try:
            if self.ca:
                context.load_verify_locations(self.ca)
        except (OSError, ssl.SSLError) as error:
            raise ConfigurationError(f"{_CA}: {self.ca} holds no certificates in PEM: {error}") from error
        try:
            if self.certificate:
                # With a password always: without one, OpenSSL would ask for it on the terminal.
                context.load_cert_chain(self.certificate, self.key, password=self.key_password)
        except (OSError, ssl.SSLError) as error:
            raise ConfigurationError(
                f"{_CERTIFICATE} and {_KEY}: {self.certificate} and {self.key} are no certificate and its key in PEM, "
                f"or the password of the key ({_KEY_PASSWORD}) is wrong: {error}"
            ) from error
        return context


@dataclass(frozen=True, slots=True)
class Access:
    """How to reach ZooKeeper.

    :param hosts: ``host:port,…``.
    :param tls: None: without encryption.
    :param user: as whom; empty: as nobody, and all nodes are open to everybody.
    :param mechanism: ``digest`` or ``sasl``.
    """

    hosts: str
    session_seconds: float
    answer_seconds: float
    tls: Tls | None = None
    user: str = ""
    password: str = field(default="", repr=False)
    mechanism: str = DIGEST

    @classmethod
    def of(cls, settings: Settings) -> Access:
        """What the settings say.

        :raises ConfigurationError: for what is missing, or of no use without something else; names the setting.
        """
        user, tls = settings.string(_USER), None
        given = {key: settings.string(key) for key in (_CA, _CERTIFICATE, _KEY, _KEY_PASSWORD)}
        if settings.flag(_TLS):
            if bool(given[_CERTIFICATE]) != bool(given[_KEY]):
                raise ConfigurationError(f"{_CERTIFICATE} and {_KEY} go together; give both or none")
            tls = Tls(given[_CA], given[_CERTIFICATE], given[_KEY], _secret(_KEY_PASSWORD, given[_KEY_PASSWORD]))
            tls.context()
        elif any(given.values()):
            key = next(key for key, value in given.items() if value)
            raise ConfigurationError(
                f"{key} is given, but {_TLS} is off, so nothing would be encrypted; set it to true"
            )
        if bool(user) != bool(settings.string(_PASSWORD)):
            raise ConfigurationError(f"{_USER} and {_PASSWORD} go together; give both or none")
        if ":" in user:
            raise ConfigurationError(f"{_USER} is {user!r}; ZooKeeper's users have no colon in their names")
        return cls(
            hosts_of(settings.string("hive.zookeeper.quorum"), settings.integer("hive.zookeeper.client.port")),
            settings.seconds("hive.zookeeper.session.timeout"),
            settings.seconds("hive.zookeeper.connection.timeout"),
            tls,
            user,
            _secret(_PASSWORD, settings.string(_PASSWORD)),
            settings.string("hive.acid.zookeeper.auth"),
        )

    def connect(self, root: str) -> Any:
        """A new session, logged in.

        :param root: path below which all nodes lie; with a user nobody else may change it.
        :raises ConfigurationError: when the user is not let in, a certificate does not fit, or the root is open to all.
        :raises MetastoreUnavailableError: when no server answers.
        """
        errors, timed_out = kazoo_module("exceptions"), kazoo_module("handlers.threading").KazooTimeoutError
        for left in reversed(range(_TRIES)):
            kazoo, states = self._client(), list[str]()
            kazoo.add_listener(states.append)
            try:
                kazoo.start(timeout=self.answer_seconds)
                self._require_own(kazoo, root)
            except (errors.AuthFailedError, errors.ConnectionLoss, errors.SessionExpiredError, timed_out) as error:
                _end(kazoo)
                # Logging in comes after the connection: whoever is refused has had one for a moment. Which error tells
                # of it depends on how far the client's own thread has got.
                if not (self.user and _CONNECTED in states):
                    problem = self._handshake_problem()
                    raise (self.unavailable() if problem is None else ConfigurationError(problem)) from error
                if not left:
                    raise self.refused() from error
            except BaseException:
                _end(kazoo)
                raise
            else:
                return kazoo
        raise AssertionError("the last try returns or raises")

    def unavailable(self) -> MetastoreUnavailableError:
        """The error where no server answers."""
        return MetastoreUnavailableError(
            f"ZooKeeper at {self.hosts} (hive.zookeeper.quorum) does not answer within {self.answer_seconds:g} s "
            "(hive.zookeeper.connection.timeout)"
        )

    def refused(self) -> ConfigurationError:
        """The error where the user is not let in."""
        return ConfigurationError(
            f"ZooKeeper at {self.hosts} does not let {self.user!r} in: {_USER}, the password in {_PASSWORD} or "
            f"hive.acid.zookeeper.auth ({self.mechanism}) is wrong"
        )

    def forbidden(self, root: str) -> ConfigurationError:
        """The error where a node belongs to somebody else."""
        who = f"{self.user!r} ({_USER})" if self.user else f"somebody who has not logged in ({_USER} is empty)"
        return ConfigurationError(
            f"ZooKeeper at {self.hosts} does not allow {who} to work below {root}: its nodes were made by another "
            "user. All who work on a metastore log in as the same one; or choose another hive.zookeeper.namespace"
        )

    def _client(self) -> Any:
        options: dict[str, Any] = {}
        if self.tls is not None:
            handler = kazoo_module("handlers.threading").SequentialThreadingHandler()
            # The client's own way leaves the socket open when the other side is not who it should be.
            handler.create_connection = functools.partial(_connect_encrypted, self.tls.context())
            options |= {"use_ssl": True, "handler": handler}
        if self.user:
            options["default_acl"] = kazoo_module("security").CREATOR_ALL_ACL
        if self.user and self.mechanism == SASL:
            _require_sasl()
            login = {"mechanism": "DIGEST-MD5", "username": self.user, "password": self.password}
            options["sasl_options"] = login
        elif self.user:
            options["auth_data"] = [("digest", f"{self.user}:{self.password}")]
        return kazoo_module("client").KazooClient(hosts=self.hosts, timeout=self.session_seconds, **options)

    def _require_own(self, kazoo: Any, root: str) -> None:
        """Make the root if it is not there; one that everybody may change would let everybody remove our locks."""
        errors = kazoo_module("exceptions")
        if not self.user:
            return
        try:
            kazoo.ensure_path(root)
            acls, _ = kazoo.get_acls(root)
        except errors.NoAuthError as error:
            raise self.forbidden(root) from error
        if any(acl.id.scheme == "world" and acl.perms & ~_READ for acl in acls):
            raise ConfigurationError(
                f"the node {root} in ZooKeeper is open to everybody: it was made by somebody who had not logged in, "
                f"and anybody could remove locks below it. Remove it while nobody works on the metastore, or choose "
                f"another hive.zookeeper.namespace for {_USER} = {self.user}"
            )

    def _handshake_problem(self) -> str | None:
        """Why the servers and we do not understand each other; None when they are away."""
        for address in self.hosts.split(","):
            host, _, port = address.rpartition(":")
            host = host.strip("[]")
            context = self.tls.context() if self.tls is not None else _anything()
            try:
                with (
                    socket.create_connection((host, int(port)), timeout=self.answer_seconds) as plain,
                    context.wrap_socket(plain, server_hostname=host) as tls,
                ):
                    _hear_of_refusal(tls)
            except ssl.SSLCertVerificationError as error:
                return (
                    f"the certificate of ZooKeeper at {address} is not accepted: {error.verify_message}; {_CA} names "
                    "who signs it, and hive.zookeeper.quorum the host for which it was made"
                )
            except ssl.SSLError as error:
                if self.tls is not None:
                    return (
                        f"ZooKeeper at {address} and we find no common TLS ({error.reason or error}): does that "
                        "port speak TLS (secureClientPort), and does the server want a certificate of ours "
                        f"({_CERTIFICATE})?"
                    )
            except OSError:
                continue
            else:
                if self.tls is None:
                    return f"ZooKeeper at {address} speaks TLS: set {_TLS} to true, or name its plain port"
        return None


def hosts_of(quorum: str, port: int) -> str:
    """The servers as ``host:port,…``; a host that names no port gets the common one.

    :raises ConfigurationError: when there is none.
    """
    hosts = [host.strip() for host in quorum.split(",") if host.strip()]
    if not hosts:
        raise ConfigurationError(
            "hive.zookeeper.quorum is empty, and hive.lock.manager wants ZooKeeper; set it to host[:port],…"
        )
    return ",".join(host if ":" in host.rpartition("]")[2] else f"{host}:{port}" for host in hosts)


def kazoo_module(module: str) -> Any:
    """A module of the client.

    :raises ConfigurationError: when it is not installed.
    """
    try:
        return importlib.import_module(f"kazoo.{module}")
    except ImportError as error:
        raise ConfigurationError(
            "hive.lock.manager wants ZooKeeper, and its client is not installed: pip install "
            "'airflow-hive-acid[zookeeper]'"
        ) from error


def _require_sasl() -> None:
    try:
        importlib.import_module("puresasl.client")
    except ImportError as error:
        raise ConfigurationError(
            "hive.acid.zookeeper.auth is sasl, and what speaks it is not installed: pip install "
            "'airflow-hive-acid[zookeeper]'"
        ) from error


def _hear_of_refusal(tls: ssl.SSLSocket) -> None:
    """A server that wants a certificate says so only after the handshake; one that is content waits for us."""
    tls.settimeout(1.0)
    with contextlib.suppress(TimeoutError):
        tls.recv(1)


def _anything() -> ssl.SSLContext:
    """Only to learn whether a port speaks TLS; nothing is sent over it."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def _secret(key: str, path: str) -> str:
    """The first line of a file."""
    if not path:
        return ""
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError, ValueError) as error:
        raise ConfigurationError(f"{key}: {path} cannot be read: {error}") from error
    if not lines or not lines[0]:
        raise ConfigurationError(f"{key}: {path} is empty; its first line is the password")
    return lines[0]


def _connect_encrypted(
    context: ssl.SSLContext, address: tuple[str, int], hostname: str, timeout: float, **_: Any
) -> ssl.SSLSocket:
    plain = socket.create_connection(address, timeout)
    try:
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return context.wrap_socket(plain, server_hostname=hostname)
    except BaseException:
        plain.close()
        raise


def _end(kazoo: Any) -> None:
    kazoo.stop()
    kazoo.close()
