"""A real ZooKeeper on loopback, gone with the tests. Its jars are among those that Spark comes with."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyspark

if TYPE_CHECKING:
    from collections.abc import Iterator

SPARK_JARS = Path(pyspark.__file__).parent / "jars"
_JARS = ("zookeeper", "audience-annotations", "commons-io", "metrics-core", "slf4j-api", "snappy-java")
_START_SECONDS = 60


class ServerError(Exception):
    """The server does not start; the text holds the end of what it said."""


@dataclass(frozen=True)
class Guard:
    """TLS and users of a server.

    :param store: file of its key and certificate; ``trusted``: of those who sign clients' certificates. PEM.
    :param wants_certificate: whether clients must show one.
    :param jaas: file of the users that log in by SASL.
    """

    store: Path
    trusted: Path
    jaas: Path
    wants_certificate: bool = False

    @property
    def options(self) -> tuple[str, ...]:
        """For its Java."""
        return (f"-Djava.security.auth.login.config={self.jaas}",)

    def lines(self, port: int) -> str:
        """For ``zoo.cfg``."""
        return (
            f"secureClientPort={port}\nsecureClientPortAddress=127.0.0.1\n"
            "serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory\n"
            f"ssl.keyStore.location={self.store}\nssl.trustStore.location={self.trusted}\n"
            f"ssl.clientAuth={'need' if self.wants_certificate else 'none'}\n"
            "authProvider.1=org.apache.zookeeper.server.auth.SASLAuthenticationProvider\n"
        )


class Server:
    """A running server.

    :param durable: it answers a write when that is on the disk, as servers do by default.
    :param guard: TLS on ``secure_port``, and users.
    :ivar port: where it listens, on 127.0.0.1.
    """

    def __init__(self, folder: Path, *, durable: bool = False, guard: Guard | None = None) -> None:
        self.port = _free_port()
        self.secure_port = _free_port()
        self._guard = guard
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None
        # Sessions of one second and more: a client that was killed is given up soon.
        (folder / "zoo.cfg").write_text(
            f"tickTime=500\ndataDir={folder / 'data'}\nclientPort={self.port}\nclientPortAddress=127.0.0.1\n"
            "admin.enableServer=false\nmaxClientCnxns=0\n4lw.commands.whitelist=srvr\nautopurge.purgeInterval=0\n"
            f"forceSync={'yes' if durable else 'no'}\n" + ("" if guard is None else guard.lines(self.secure_port))
        )

    @property
    def address(self) -> str:
        """What ``hive.zookeeper.quorum`` names."""
        return f"127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start it, with what it knew when it was stopped, and wait until it serves."""
        java = str(Path(os.environ["JAVA_HOME"]) / "bin" / "java") if os.environ.get("JAVA_HOME") else "java"
        names = _JARS if self._guard is None else (*_JARS, "netty", "slf4j", "log4j")
        jars = [str(path) for name in names for path in sorted(SPARK_JARS.glob(f"{name}-*.jar"))]
        options = () if self._guard is None else self._guard.options
        command = [
            java, *options, "-Xmx96m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", os.pathsep.join(jars),
            "org.apache.zookeeper.server.ZooKeeperServerMain", str(self._folder / "zoo.cfg"),
        ]  # fmt: skip
        log = self._folder / "zookeeper.log"
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                command, cwd=self._folder, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT
            )
        deadline = time.monotonic() + _START_SECONDS
        while not self._serves():
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.stop()
                raise ServerError(f"ZooKeeper does not start; the end of its log:\n{log.read_text()[-4000:]}")
            time.sleep(0.05)

    def stop(self) -> None:
        """Kill it; what it has written stays."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()

    def _serves(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=2) as connection:
                connection.sendall(b"srvr")
                return b"Mode: standalone" in connection.recv(4096)
        except OSError:
            return False


@contextmanager
def running_server(folder: Path, *, durable: bool = False, guard: Guard | None = None) -> Iterator[Server]:
    """A server that runs until the block ends."""
    server = Server(folder, durable=durable, guard=guard)
    server.start()
    try:
        yield server
    finally:
        server.stop()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
