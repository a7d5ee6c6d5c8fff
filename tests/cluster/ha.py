"""An HDFS with two name nodes and a quorum of journal nodes, under the realm of the tests."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tests.storage.servers import free_port, site

from .servers import REALM, Hidden, Realm, core_settings, folders, hdfs_settings, server

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator
    from pathlib import Path

NAMESERVICE = "ns"
_NODES = ("nn1", "nn2")
_JOURNALS = ("j1", "j2", "j3")
_HDFS = "org.apache.hadoop.hdfs"


@dataclass
class Pair:
    """A running nameservice.

    :param conf: directory with ``core-site.xml`` and ``hdfs-site.xml`` for clients.
    :param active: which of the two was made active last.
    """

    realm: Realm
    conf: Path
    start: Hidden
    folder: Path
    ports: dict[str, int]
    running: ExitStack
    active: str = ""
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def start_node(self, name: str) -> None:
        """Start a name node, as a standby."""
        main = f"{_HDFS}.server.namenode.NameNode"
        command = self.start.command(main, "-D", f"dfs.ha.namenode.id={name}")
        log = self.folder / f"{name}-{len(self.processes)}.log"
        made = server(command, log, self.realm.environment, self.ports[f"{name}_rpc"])
        self.processes[name] = self.running.enter_context(made)

    def fail_over(self) -> None:
        """Make the standby the active one, in good order."""
        other = self._other()
        self._admin("-failover", self.active, other)
        self.active = other

    def kill_active(self) -> str:
        """End the active name node as a loss of power does; nobody is active then. Returns which it was."""
        self.processes[self.active].kill()
        self.processes[self.active].wait()
        return self.active

    def promote(self) -> None:
        """Make the other one active, whatever has become of this one."""
        other = self._other()
        self._admin("-transitionToActive", "--forceactive", other)
        self.active = other

    def start_other(self) -> None:
        """Start the one that is not active, which was killed."""
        self.start_node(self._other())

    def _other(self) -> str:
        return _NODES[1 - _NODES.index(self.active)]

    def _admin(self, *arguments: str) -> None:
        self.realm.ticket(self.realm.folder / "hdfs.keytab", "hdfs/localhost", self.realm.folder / "ha.cache")
        ticket = {"KRB5CCNAME": "/mnt/realm/ha.cache"}
        self.start.run(f"{_HDFS}.tools.DFSHAAdmin", *arguments, environment=ticket, answer="y\n")


@contextmanager
def nameservice(folder: Path, kerberos: Realm) -> Iterator[Pair]:
    """Two name nodes, three journal nodes and a data node; failover is by hand, as ``hdfs haadmin`` does it."""
    service = kerberos.keytab("hdfs/localhost", "yarn/localhost", "HTTP/localhost")
    names = [f"{node}_{what}" for node in (*_NODES, *_JOURNALS) for what in ("rpc", "web")]
    ports = {name: free_port() for name in (*names, "data", "data_web", "data_ipc")}
    at = {name: f"localhost:{port}" for name, port in ports.items()}
    conf, state = folders(folder, kerberos)
    site(conf / "core-site.xml", {"fs.defaultFS": f"hdfs://{NAMESERVICE}", **core_settings(service)})
    settings = {
        **hdfs_settings(service, at),
        "dfs.nameservices": NAMESERVICE,
        f"dfs.ha.namenodes.{NAMESERVICE}": ",".join(_NODES),
        "dfs.namenode.shared.edits.dir": (
            f"qjournal://{';'.join(at[f'{journal}_rpc'] for journal in _JOURNALS)}/{NAMESERVICE}"
        ),
        f"dfs.client.failover.proxy.provider.{NAMESERVICE}": (
            f"{_HDFS}.server.namenode.ha.ConfiguredFailoverProxyProvider"
        ),
        "dfs.ha.fencing.methods": "shell(/bin/true)",
        "dfs.journalnode.kerberos.principal": f"hdfs/localhost@{REALM}",
        "dfs.journalnode.kerberos.internal.spnego.principal": f"HTTP/localhost@{REALM}",
        "dfs.journalnode.keytab.file": f"/mnt/realm/{service.name}",
    }
    for node in _NODES:
        settings[f"dfs.namenode.rpc-address.{NAMESERVICE}.{node}"] = at[f"{node}_rpc"]
        settings[f"dfs.namenode.http-address.{NAMESERVICE}.{node}"] = at[f"{node}_web"]
        settings[f"dfs.namenode.name.dir.{NAMESERVICE}.{node}"] = f"/mnt/state/{node}"
    site(conf / "hdfs-site.xml", settings)
    start = Hidden(folder, kerberos, conf, state)
    with ExitStack() as running:
        for journal in _JOURNALS:
            own = {
                "dfs.journalnode.rpc-address": at[f"{journal}_rpc"],
                "dfs.journalnode.http-address": at[f"{journal}_web"],
                "dfs.journalnode.edits.dir": f"/mnt/state/{journal}",
            }
            options = [part for key, value in own.items() for part in ("-D", f"{key}={value}")]
            command = start.command(f"{_HDFS}.qjournal.server.JournalNode", *options)
            log = folder / f"{journal}.log"
            running.enter_context(server(command, log, kerberos.environment, ports[f"{journal}_rpc"]))
        main = f"{_HDFS}.server.namenode.NameNode"
        start.run(main, "-D", "dfs.ha.namenode.id=nn1", "-format", "-nonInteractive")
        pair = Pair(kerberos, conf, start, folder, ports, running, active="nn2")
        pair.start_node("nn1")
        start.run(main, "-D", "dfs.ha.namenode.id=nn2", "-bootstrapStandby", "-nonInteractive")
        pair.start_node("nn2")
        pair.promote()
        command = start.command(f"{_HDFS}.server.datanode.DataNode")
        running.enter_context(server(command, folder / "datanode.log", kerberos.environment, ports["data"]))
        yield pair
