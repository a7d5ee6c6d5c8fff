"""A Kerberos realm, an HDFS and a YARN of their own on loopback, gone with the tests.

Each server is a process. The Hadoop is the one that PySpark's client speaks; its jars are those of the storage tests.
HDFS and YARN run in mount namespaces in which the checkout, the Python environment, the home directory and ``/tmp``
are empty: what an executor or a driver needs has to travel, as between machines. Each of the two NodeManagers has
directories that no other process sees; where the tests run as root, it is a user of its own, too.
"""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tests.storage.servers import SPARK_JARS, StorageError, free_port, jars, site

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

REALM = "HIVE-ACID.TEST"
CHECKOUT = Path(__file__).resolve().parents[2]
HEAP = "-Xmx320m"
#: Where the nodes have a Spark of their own (``spark.yarn.jars``).
NODES_SPARK = "local:/mnt/spark-on-nodes/*"
START_SECONDS = 180
#: The NodeManagers, and whom each runs as.
NODES = {"node1": "games", "node2": "backup"}
NODE_MEGABYTES = 3072
#: So long is a delegation token of HDFS valid that nobody renews.
TOKEN_SECONDS = 75
_OPENS = (
    "java.base/java.lang",
    "java.base/java.util",
    "java.base/java.net",
    "java.base/java.nio",
    "java.base/sun.nio.ch",
)
_SHARED = ("hadoop-client-", "slf4j-", "log4j-", "jcl-over-", "commons-cli", "zookeeper-")


@dataclass(frozen=True)
class Realm:
    """A running key distribution centre."""

    folder: Path

    @property
    def conf(self) -> Path:
        """Its ``krb5.conf``."""
        return self.folder / "krb5.conf"

    def keytab(self, *principals: str) -> Path:
        """A keytab of principals; they are new where it is."""
        path = self.folder / f"{principals[0].partition('/')[0]}.keytab"
        if path.exists():
            return path
        for principal in principals:
            self._admin(f"addprinc -randkey {principal}@{REALM}")
            self._admin(f"ktadd -k {path} {principal}@{REALM}")
        return path

    def tickets(self, cache: Path) -> str:
        """What a cache holds that has not expired, as klist prints it; empty when that is nothing."""
        valid = subprocess.run([_program("klist"), "-s", "-c", str(cache)], check=False).returncode == 0
        command = [_program("klist"), "-c", str(cache)]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout if valid else ""

    def limit(self, principal: str, lifetime: str) -> None:
        """No ticket of a principal may be valid for longer."""
        self._admin(f"modprinc -maxlife {lifetime} {principal}@{REALM}")

    def ticket(self, keytab: Path, principal: str, cache: Path, lifetime: str = "1d") -> None:
        """Log in: put a ticket into a cache.

        :param lifetime: as kinit reads it, for example ``20s``.
        """
        _run(["kinit", "-l", lifetime, "-c", str(cache), "-k", "-t", str(keytab), principal], self.environment)

    @property
    def environment(self) -> dict[str, str]:
        """Variables that lead to it."""
        return {"KRB5_CONFIG": str(self.conf), "KRB5_KDC_PROFILE": str(self.folder / "kdc.conf")}

    def _admin(self, query: str) -> None:
        _run([_program("kadmin.local"), "-r", REALM, "-q", query], self.environment)


@contextmanager
def realm(folder: Path) -> Iterator[Realm]:
    """A realm of its own, whose key distribution centre listens on loopback."""
    port = free_port()
    (folder / "krb5.conf").write_text(
        f"[libdefaults]\n default_realm = {REALM}\n rdns = false\n dns_canonicalize_hostname = false\n"
        " dns_lookup_kdc = false\n dns_lookup_realm = false\n udp_preference_limit = 1\n ticket_lifetime = 1d\n"
        # What has expired is over soon after that, not in five minutes.
        " clockskew = 15\n"
        f"[realms]\n {REALM} = {{\n  kdc = 127.0.0.1:{port}\n }}\n"
        f"[domain_realm]\n localhost = {REALM}\n"
    )
    (folder / "kdc.conf").write_text(
        f"[kdcdefaults]\n kdc_listen = 127.0.0.1:{port}\n kdc_tcp_listen = 127.0.0.1:{port}\n"
        f"[realms]\n {REALM} = {{\n  database_name = {folder}/principal\n  key_stash_file = {folder}/stash\n"
        "  max_life = 2d\n  supported_enctypes = aes256-cts-hmac-sha1-96:normal\n }\n"
    )
    made = Realm(folder)
    _run([_program("kdb5_util"), "-r", REALM, "create", "-s", "-P", secrets.token_hex(16)], made.environment)
    with server([_program("krb5kdc"), "-n", "-r", REALM], folder / "kdc.log", made.environment, port):
        yield made


@dataclass(frozen=True)
class Cluster:
    """A running HDFS and YARN under Kerberos.

    :param authority: of its ``hdfs:`` URIs.
    :param web: address of its WebHDFS.
    :param conf: directory with ``core-site.xml``, ``hdfs-site.xml`` and ``yarn-site.xml`` for clients.
    :param manager: address of the ResourceManager's REST interface.
    """

    realm: Realm
    authority: str
    web: str
    conf: Path
    manager: str


@contextmanager
def cluster(folder: Path, kerberos: Realm) -> Iterator[Cluster]:
    """A name node, a data node, a ResourceManager and a NodeManager; access is by Kerberos alone."""
    service = kerberos.keytab("hdfs/localhost", "yarn/localhost", "HTTP/localhost")
    names = ("namenode", "web", "data", "data_web", "data_ipc", "rm", "scheduler", "tracker", "rm_admin", "rm_web")
    workers = [f"{node}{what}" for node in NODES for what in ("", "_web", "_localizer")]
    ports = {name: free_port() for name in (*names, *workers)}
    conf, state = folders(folder, kerberos)
    at = {name: f"localhost:{port}" for name, port in ports.items()}
    site(conf / "core-site.xml", {"fs.defaultFS": f"hdfs://{at['namenode']}", **core_settings(service)})
    own = {"dfs.namenode.name.dir": "/mnt/state/name", "dfs.namenode.http-address": at["web"]}
    site(conf / "hdfs-site.xml", {**hdfs_settings(service, at), **own})
    site(
        conf / "yarn-site.xml",
        {
            "yarn.resourcemanager.address": at["rm"],
            "yarn.resourcemanager.scheduler.address": at["scheduler"],
            "yarn.resourcemanager.resource-tracker.address": at["tracker"],
            "yarn.resourcemanager.admin.address": at["rm_admin"],
            "yarn.resourcemanager.webapp.address": at["rm_web"],
            "yarn.nodemanager.local-dirs": "/mnt/state/nm-local",
            "yarn.nodemanager.log-dirs": "/mnt/state/containers",
            "yarn.nodemanager.resource.memory-mb": str(NODE_MEGABYTES),
            "yarn.nodemanager.resource.cpu-vcores": "8",
            "yarn.nodemanager.vmem-check-enabled": "false",
            "yarn.nodemanager.pmem-check-enabled": "false",
            "yarn.nodemanager.disk-health-checker.enable": "false",
            "yarn.nodemanager.delete.debug-delay-sec": "600",
            "yarn.scheduler.minimum-allocation-mb": "128",
            "yarn.resourcemanager.scheduler.class": (
                "org.apache.hadoop.yarn.server.resourcemanager.scheduler.fifo.FifoScheduler"
            ),
            **{f"yarn.{node}.principal": f"yarn/localhost@{REALM}" for node in ("resourcemanager", "nodemanager")},
            **{f"yarn.{node}.keytab": f"/mnt/realm/{service.name}" for node in ("resourcemanager", "nodemanager")},
        },
    )
    hdfs, yarn = "org.apache.hadoop.hdfs.server", "org.apache.hadoop.yarn.server"
    start = Hidden(folder, kerberos, conf, state)
    start.run(f"{hdfs}.namenode.NameNode", "-format", "-nonInteractive")
    with ExitStack() as running:
        for name, main, port in (
            ("namenode", f"{hdfs}.namenode.NameNode", "namenode"),
            ("datanode", f"{hdfs}.datanode.DataNode", "data"),
            ("resourcemanager", f"{yarn}.resourcemanager.ResourceManager", "rm"),
        ):
            log = folder / f"{name}.log"
            running.enter_context(server(start.command(main), log, kerberos.environment, ports[port]))
        for node, user in NODES.items():
            own = {
                "address": at[node],
                "webapp.address": at[f"{node}_web"],
                "localizer.address": at[f"{node}_localizer"],
            }
            options = [part for key, value in own.items() for part in ("-D", f"yarn.nodemanager.{key}={value}")]
            worker = Hidden(folder, kerberos, conf, _state_of(folder / node, user), user if _is_root() else None)
            command = worker.command(f"{yarn}.nodemanager.NodeManager", *options)
            running.enter_context(server(command, folder / f"{node}.log", kerberos.environment, ports[node]))
        yield Cluster(kerberos, at["namenode"], at["web"], conf, f"http://{at['rm_web']}")


def folders(folder: Path, kerberos: Realm) -> tuple[Path, Path]:
    """Make the directories of a cluster for its configuration and for its servers' files."""
    conf, state = folder / "conf", folder / "state"
    conf.mkdir()
    state.mkdir()
    (conf / "http.secret").write_text(secrets.token_hex(32))
    # Users of nodes see them through a mount; above them is a directory that is the tests' user's alone.
    for path in (folder, kerberos.folder):
        path.chmod(0o755)
    for keytab in kerberos.folder.glob("*.keytab"):
        keytab.chmod(0o644)
    return conf, state


def _state_of(folder: Path, user: str) -> Path:
    """The directory of a node's own files."""
    folder.mkdir()
    if _is_root():
        shutil.chown(folder, user)
    return folder


def _is_root() -> bool:
    return os.getuid() == 0


def core_settings(service: Path) -> dict[str, str]:
    """``core-site.xml`` of a cluster to which Kerberos alone gives access.

    :param service: keytab of its servers.
    """
    return {
        "hadoop.security.authentication": "kerberos",
        "hadoop.security.authorization": "true",
        "hadoop.rpc.protection": "privacy",
        "hadoop.user.group.static.mapping.overrides": "hdfs=hadoop;yarn=hadoop;airflow=users;owner=users;HTTP=hadoop",
        "hadoop.proxyuser.airflow.hosts": "*",
        "hadoop.proxyuser.airflow.users": "owner",
        "hadoop.tmp.dir": "/mnt/state/tmp",
        "hadoop.http.authentication.signature.secret.file": "/mnt/run/conf/http.secret",
        "hadoop.http.authentication.type": "kerberos",
        "hadoop.http.authentication.kerberos.principal": f"HTTP/localhost@{REALM}",
        "hadoop.http.authentication.kerberos.keytab": f"/mnt/realm/{service.name}",
    }


def hdfs_settings(service: Path, at: Mapping[str, str]) -> dict[str, str]:
    """``hdfs-site.xml``, without what is a name node's own.

    :param service: keytab of its servers.
    :param at: addresses of the data node.
    """
    return {
        "dfs.replication": "1",
        "dfs.permissions.superusergroup": "hadoop",
        "dfs.block.access.token.enable": "true",
        # What runs longer has to log in again, and to hand new tokens to its executors.
        "dfs.namenode.delegation.token.renew-interval": f"{TOKEN_SECONDS}000",
        "dfs.namenode.delegation.token.max-lifetime": f"{TOKEN_SECONDS * 10}000",
        "dfs.data.transfer.protection": "privacy",
        # The web port is above 1024 and without TLS; what goes to data nodes over SASL stays as it is.
        "ignore.secure.ports.for.testing": "true",
        "dfs.datanode.data.dir": "/mnt/state/data",
        "dfs.datanode.address": at["data"],
        "dfs.datanode.http.address": at["data_web"],
        "dfs.datanode.ipc.address": at["data_ipc"],
        "dfs.datanode.hostname": "localhost",
        "dfs.namenode.datanode.registration.ip-hostname-check": "false",
        **{f"dfs.{node}.kerberos.principal": f"hdfs/localhost@{REALM}" for node in ("namenode", "datanode")},
        **{f"dfs.{node}.keytab.file": f"/mnt/realm/{service.name}" for node in ("namenode", "datanode")},
        "dfs.web.authentication.kerberos.principal": f"HTTP/localhost@{REALM}",
        "dfs.web.authentication.kerberos.keytab": f"/mnt/realm/{service.name}",
    }


@dataclass(frozen=True)
class Hidden:
    """Starts Hadoop's programs where this checkout, this Python and ``/tmp`` cannot be seen.

    :param state: directory for what they write, which they see as ``/mnt/state``.
    :param user: whom they run as; None: whoever starts them.
    """

    folder: Path
    realm: Realm
    conf: Path
    state: Path
    user: str | None = None

    def command(self, main: str, *arguments: str) -> list[str]:
        home = Path(os.environ.get("JAVA_HOME") or Path(shutil.which("java") or "java").resolve().parents[1])
        shared = self.folder / "spark-jars"
        if not shared.exists():
            shared.mkdir()
            for jar in SPARK_JARS.glob("*.jar"):
                if jar.name.startswith(_SHARED):
                    shutil.copy(jar, shared)
        seen = {"jars": jars("hdfs")[0].parent, "spark": shared, "run/conf": self.conf, "spark-on-nodes": SPARK_JARS}
        seen |= {"realm": self.realm.folder, "state": self.state}
        binds = [f"mkdir -p /mnt/{name} && mount --bind '{path}' /mnt/{name}" for name, path in seen.items()]
        places = [Path(place) for place in ("/tmp", "/var/tmp", "/dev/shm", tempfile.gettempdir())]  # noqa: S108 - hidden
        hidden = _outermost(CHECKOUT, Path(sys.prefix), Path.home(), *places)
        script = [
            "set -e",
            "mount -t tmpfs tmpfs /mnt",
            *binds,
            # The nodes of a cluster know their realm from here.
            "touch /etc/krb5.conf && mount --bind /mnt/realm/krb5.conf /etc/krb5.conf",
            *(f"mount -t tmpfs tmpfs '{path}'" for path in hidden),
            "cd /mnt/state",
            f'exec setpriv --reuid {self.user} --regid nogroup --clear-groups "$@"' if self.user else 'exec "$@"',
        ]
        java = [str(home / "bin" / "java"), HEAP, "-Djava.net.preferIPv4Stack=true"]
        java += [f"--add-opens={package}=ALL-UNNAMED" for package in _OPENS]
        java += ["-Djava.security.krb5.conf=/mnt/realm/krb5.conf", "-Dlog4j2.level=INFO"]
        java += ["-cp", "/mnt/run/conf:/mnt/jars/*:/mnt/spark/*", main, *arguments]
        own = ["--map-root-user"] if os.getuid() else []
        return ["unshare", "-m", *own, "env", f"JAVA_HOME={home}", "bash", "-c", "\n".join(script), "cluster", *java]

    def run(
        self, main: str, *arguments: str, environment: Mapping[str, str] | None = None, answer: str | None = None
    ) -> None:
        """Run a program to its end.

        :param environment: more variables.
        :param answer: what it reads.
        """
        _run(self.command(main, *arguments), {**self.realm.environment, **(environment or {})}, answer)


def nodes_python() -> str:
    """A Python of this one's version that the nodes see, as Spark wants it on driver and executors.

    :raises StorageError: when there is none.
    """
    name = f"python{sys.version_info.major}.{sys.version_info.minor}"
    path = shutil.which(name, path="/usr/bin:/usr/local/bin:/bin")
    if path is None:
        raise StorageError(f"the nodes need {name} outside of this environment, for example in /usr/bin")
    return path


def _outermost(*paths: Path) -> list[Path]:
    """What a link leads to counts, and what lies in another one of them goes with it."""
    real = {path.resolve() for path in paths}
    return sorted(path for path in real if not any(other in path.parents for other in real))


@contextmanager
def server(
    command: list[str], log: Path, environment: Mapping[str, str], port: int
) -> Iterator[subprocess.Popen[bytes]]:
    """A process in a group of its own that listens on a port; its group is killed at the end."""
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            cwd=log.parent,
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        _wait(lambda: process.poll() is not None or _listens(port), f"{command[0]} … listens", log)
        if process.poll() is not None:
            raise StorageError(f"{log.stem} does not start; the end of its log:\n{log.read_text()[-4000:]}")
        yield process
    finally:
        os.killpg(process.pid, signal.SIGKILL) if process.poll() is None else None
        process.wait()


def _wait(ready: Callable[[], bool], what: str, log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while not ready():
        if time.monotonic() > deadline:
            raise StorageError(f"not in {START_SECONDS} s: {what}; the end of its log:\n{log.read_text()[-4000:]}")
        time.sleep(0.2)


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _program(name: str) -> str:
    path = shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
    if path is None:
        raise StorageError(f"{name} is missing: install Debian's packages krb5-kdc, krb5-admin-server and krb5-user")
    return path


def _run(command: list[str], environment: Mapping[str, str], answer: str | None = None) -> None:
    done = subprocess.run(
        command,
        env={**os.environ, **environment},
        input=answer or "",
        capture_output=True,
        text=True,
        check=False,
        timeout=START_SECONDS,
    )
    if done.returncode:
        raise StorageError(f"{command[0]} … failed:\n{(done.stdout + done.stderr)[-4000:]}")
