"""The control plane on a database server of its own: write transactions per second beside Hive and the floor.


    python benchmarks/control_plane.py [--seconds 4] [--rounds 3] [--no-fsync] [--no-hive] [--part verbs|load|lookups]
    python benchmarks/control_plane.py --part load --seconds 3 --rounds 2     # the table of load, 1 and 8 clients
    python benchmarks/control_plane.py --part verbs --server mariadb          # or mysql: without fsync

Every round runs every case once, so that ratios come from the same minutes of the same machine and the same server: one
``INSERT`` with its ``COMMIT`` through the plain driver (the floor), Hive's four verbs (openTxn, lock,
allocateTableWriteIds, commitTxn; a SHARED_WRITE on one of 100 tables) by Hive and by us, and ``client.transaction()``,
which adds registration and snapshot. Verbs carry the names of Hive's ACIDBenchmarks. Hive takes part when it has been
built: ``python tests/interop/oracle/oracle.py``.
"""

from __future__ import annotations

import argparse
import os
import socket
import statistics
import sys
import tempfile
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from clients import RAW, SETTINGS, TABLES, VERBS, Hive, Run, run_ours
from lookups import measure_lookups

from airflow_hive_acid.metastore import MetastoreClient
from airflow_hive_acid.metastore.setup import schema

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from tests import hive_scripts, mysql_servers
from tests.interop.oracle import oracle

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PARTS = ("verbs", "load", "lookups")
_TICKS = os.sysconf("SC_CLK_TCK")


class Bench:
    """One server, and the metastores on it."""

    def __init__(self, stack: ExitStack, *, durable: bool) -> None:
        self._stack = stack
        self.server = oracle.Postgres.start(durable=durable)
        stack.callback(self.server.stop)

    def ours(self, name: str, *, locks: int = 0, history: int = 0) -> str:
        """URL of a metastore made by us, with that much in it."""
        url = self.server.create_database(name)
        with MetastoreClient(url, SETTINGS) as client:
            client.create_schema()
            with client.database.transaction() as connection:
                RAW.create(connection)
        fill(url, locks, history)
        return url

    def hive(self, name: str, *, locks: int = 0, history: int = 0) -> Hive:
        """Hive on a metastore made by its own scripts, with that much in it."""
        url = self.server.create_hive_metastore(name)
        fill(url, locks, history)
        hive = Hive(oracle.verbs_command(oracle.jdbc_url(url), TABLES))
        self._stack.callback(hive.close)
        hive.warm_up()
        return hive

    def measure(self, run: Callable[[], Run]) -> Run:
        """One run, with the CPU time of the server."""
        before = self._server_cpu()
        result = run()
        result.server = self._server_cpu() - before
        return result

    def describe(self) -> str:
        """The settings that matter."""
        engine = sa.create_engine(self.server.url("postgres"), poolclass=sa.pool.NullPool)
        with engine.connect() as connection:
            setting = {name: connection.execute(sa.text(f"SHOW {name}")).scalar() for name in _SHOWN}
        return ", ".join(f"{name} {value}" for name, value in setting.items()) + f"; {os.cpu_count()} cores"

    def _server_cpu(self) -> float:
        return cpu_seconds(self.server)


class MysqlBench(Bench):
    """A MariaDB or MySQL server, which keeps its data in memory where it can, and waits for no disk.

    :param kind: ``mariadb`` or ``mysql``.
    """

    def __init__(self, stack: ExitStack, kind: str) -> None:
        self._stack = stack
        self._port = _free_port()
        # Hive's driver knows no socket in a file; who is measured beside it comes the same way.
        network = ("--skip-networking=0", "--bind-address=127.0.0.1", f"--port={self._port}")
        self._url = stack.enter_context(mysql_servers.server(kind, *network))
        engine = sa.create_engine(self._url, isolation_level="AUTOCOMMIT", poolclass=sa.pool.NullPool)
        with engine.connect() as connection:
            connection.execute(sa.text(f"CREATE USER '{_USER}'@'%' IDENTIFIED BY ''"))
            connection.execute(sa.text(f"GRANT ALL ON *.* TO '{_USER}'@'%'"))
        self._pid = next(pid for pid in children(os.getpid()) if _program(pid) in ("mariadbd", "mysqld"))

    def ours(self, name: str, *, locks: int = 0, history: int = 0) -> str:
        """See :class:`Bench`; an empty one."""
        if locks or history:
            raise SystemExit("--part load needs PostgreSQL")
        url = self._new_database()
        with MetastoreClient(url, SETTINGS) as client:
            client.create_schema()
            with client.database.transaction() as connection:
                RAW.create(connection)
        return url

    def hive(self, name: str, *, locks: int = 0, history: int = 0) -> Hive:
        """See :class:`Bench`; on an empty metastore."""
        url = self._new_database()
        hive_scripts.create(url, "4.1.0")
        folder = Path(self._stack.enter_context(tempfile.TemporaryDirectory()))
        driver = mysql_servers.fetch(_DRIVER, folder)
        address = f"jdbc:mysql://127.0.0.1:{self._port}/{sa.make_url(url).database}?useSSL=false"
        hive = Hive(oracle.verbs_command(address, TABLES, user=_USER, jars=[driver]))
        self._stack.callback(hive.close)
        hive.warm_up()
        return hive

    def _new_database(self) -> str:
        database = sa.make_url(mysql_servers.new_database(self._url)).database
        url = sa.URL.create("mysql+pymysql", _USER, host="127.0.0.1", port=self._port, database=database)
        return url.render_as_string(hide_password=False)

    def describe(self) -> str:
        """The settings that matter."""
        engine = sa.create_engine(sa.make_url(self._url).set(drivername="mysql+pymysql"), poolclass=sa.pool.NullPool)
        with engine.connect() as connection:
            return f"{connection.execute(sa.select(sa.func.version())).scalar()}, no fsync; {os.cpu_count()} cores"

    def _server_cpu(self) -> float:
        return sum(_times(self._pid)[:2]) / _TICKS


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


_USER = "bench"
_DRIVER = "com.mysql:mysql-connector-j:8.3.0"
_SHOWN = ("server_version", "fsync", "synchronous_commit", "shared_buffers")


def cpu_seconds(server: oracle.Postgres) -> float:
    """Of the server's processes, those that have ended included."""
    pid = int((server.home / "postmaster.pid").read_text().split()[0])
    return (sum(_times(pid)[:4]) + sum(sum(_times(child)[:2]) for child in children(pid))) / _TICKS


def children(pid: int) -> list[int]:
    """The processes that a process has started."""
    with open(f"/proc/{pid}/task/{pid}/children") as found:
        return [int(child) for child in found.read().split()]


def _program(pid: int) -> str:
    with suppress(OSError), open(f"/proc/{pid}/comm") as name:
        return name.read().strip()
    return ""


def _times(pid: int) -> list[int]:
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return [int(ticks) for ticks in stat.read().rpartition(")")[2].split()[11:15]]
    except OSError:
        return [0, 0, 0, 0]


def fill(url: str, locks: int, history: int) -> None:
    """Locks that others hold, and write ids and components that nobody has cleaned up."""
    with MetastoreClient(url, SETTINGS) as client:
        holders = client.open_txns(max(1, locks // 10)) if locks else []
        number = sa.func.generate_series(1, history).column_valued("n")
        of_table = (sa.literal("db"), sa.func.concat("t", number % TABLES))
        with client.database.transaction() as connection:
            if holders:
                connection.execute(sa.insert(schema.HIVE_LOCKS), list(_lock_rows(locks, holders)))
            if history:
                for table, columns, more in (
                    (schema.TXN_TO_WRITE_ID, ("T2W_TXNID", "T2W_DATABASE", "T2W_TABLE", "T2W_WRITEID"), ()),
                    (
                        schema.COMPLETED_TXN_COMPONENTS,
                        ("CTC_TXNID", "CTC_DATABASE", "CTC_TABLE", "CTC_WRITEID", "CTC_UPDATE_DELETE"),
                        (sa.literal("N"),),
                    ),
                ):
                    rows = sa.select(-number, *of_table, -number, *more)
                    connection.execute(sa.insert(table).from_select(columns, rows))
            connection.execute(sa.update(schema.NEXT_LOCK_ID).values(NL_NEXT=locks + 1))
        engine = sa.create_engine(client.database.url, isolation_level="AUTOCOMMIT", poolclass=sa.pool.NullPool)
        with engine.connect() as connection:
            connection.execute(sa.text("ANALYZE"))


def _lock_rows(locks: int, holders: list[int]) -> Iterator[dict[str, Any]]:
    for i in range(locks):
        yield {
            "HL_LOCK_EXT_ID": 1 + i,
            "HL_LOCK_INT_ID": 1,
            "HL_TXNID": holders[i % len(holders)],
            "HL_DB": "db",
            "HL_TABLE": f"t{i % TABLES}",
            "HL_LOCK_STATE": "a",
            "HL_LOCK_TYPE": "r",
            "HL_LAST_HEARTBEAT": 0,
            "HL_USER": "hive",
            "HL_HOST": "hms",
        }


Case = tuple[str, int]
Results = dict[Case, list[Run]]


def run_rounds(bench: Bench, cases: dict[str, Callable[[int], Run]], rounds: int, clients: list[int]) -> Results:
    """Every case once in every round."""
    results: Results = {}
    for number in range(rounds):
        for count in clients:
            for name, run in cases.items():
                found = bench.measure(lambda run=run, count=count: run(count))  # type: ignore[misc]
                results.setdefault((name, count), []).append(found)
                print(f"  round {number} {name} {count}: {found.rate:.0f}/s", file=sys.stderr, flush=True)
    return results


def report(title: str, results: Results, base: dict[str, str]) -> None:
    """A table in Markdown: rates and ratios to another case of the same round, each median (min-max); CPU; latencies.

    :param base: for each case the one it is compared with.
    """
    print(f"\n| {title} | clients | per second | ratio | CPU ms: client, server | median ms: {', '.join(VERBS)} |")
    print("|---|---|---|---|---|---|")
    for (case, clients), runs in results.items():
        rates = [r.rate for r in runs]
        other = base.get(case, "")
        ratios = [a.rate / b.rate for a, b in zip(runs, results.get((other, clients), []), strict=False)]
        latencies = [latency for r in runs for latency in r.latencies]
        ms = ", ".join(f"{statistics.median(x[i] for x in latencies):.2f}" for i in range(4)) if latencies else ""
        ratio = f"{_spread(ratios, '.2f')} x {other}" if ratios else ""
        cpu = [statistics.median(1000 * spent(r) / r.done for r in runs) for spent in _CPU]
        print(
            f"| {case} | {clients} | {_spread(rates, '.0f')} | {ratio} | {cpu[0]:.2f}, {cpu[1]:.2f} | {ms} |",
            flush=True,
        )


_CPU: tuple[Callable[[Run], float], ...] = (lambda r: r.cpu, lambda r: r.server)


def _spread(values: list[float], form: str) -> str:
    return f"{statistics.median(values):{form}} ({min(values):{form}}-{max(values):{form}})"


def measure_verbs(bench: Bench, options: argparse.Namespace, *, with_hive: bool) -> None:
    """The four verbs, by us, by Hive, and the floor."""
    url, seconds = bench.ours("ours"), options.seconds
    cases: dict[str, Callable[[int], Run]] = {"floor": lambda n: run_ours("floor", url, n, seconds)}
    base = {"insert": "floor", "update": "floor", "transaction": "floor"}
    if with_hive:
        hive = bench.hive("theirs")
        for operation in ("insert", "update"):
            cases[f"Hive {operation}"] = lambda n, operation=operation: hive.run(operation, n, seconds)  # type: ignore[misc]
            base[operation] = f"Hive {operation}"
    for case in ("insert", "update", "transaction"):
        cases[case] = lambda n, case=case: run_ours(case, url, n, seconds)  # type: ignore[misc]
    results = run_rounds(bench, cases, options.rounds, options.clients)
    report("verbs", results, base)


def measure_load(bench: Bench, options: argparse.Namespace, *, with_hive: bool) -> None:
    """The same with locks of others and with history, beside an empty metastore."""
    loads = {"": {}, "10,000 locks: ": {"locks": 10_000}, "1,000,000 rows: ": {"history": options.history}}
    cases: dict[str, Callable[[int], Run]] = {}
    base = {}
    for number, (label, load) in enumerate(loads.items()):
        url = bench.ours(f"ours_{number}", **load)
        for case in ("insert", "update"):
            cases[label + case] = lambda n, case=case, url=url: run_ours(case, url, n, options.seconds)  # type: ignore[misc]
            if label:
                base[label + case] = case
        if with_hive and label != "1,000,000 rows: ":
            hive = bench.hive(f"theirs_{number}", **load)
            cases[f"{label}Hive insert"] = lambda n, hive=hive: hive.run("insert", n, options.seconds)  # type: ignore[misc]
            if label:
                base[f"{label}Hive insert"] = "Hive insert"
    report("under load", run_rounds(bench, cases, options.rounds, [n for n in options.clients if n in (1, 8)]), base)


def main() -> None:
    """Measure, print tables in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=4.0, help="of each case in each round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--clients", type=lambda text: [int(n) for n in text.split(",")], default=[1, 2, 8, 64])
    parser.add_argument("--history", type=int, default=1_000_000, help="rows of history")
    parser.add_argument("--no-fsync", action="store_true", help="a server without fsync: the CPU counts, not the disk")
    parser.add_argument("--no-hive", action="store_true", help="without Hive, whose JVM takes a minute to warm up")
    parser.add_argument("--server", choices=("postgresql", *mysql_servers.KINDS), default="postgresql")
    parser.add_argument("--part", choices=PARTS, action="append", help="default: all")
    options = parser.parse_args()
    on_postgresql = options.server == "postgresql"
    parts = options.part or (PARTS if on_postgresql else PARTS[:1])
    with_hive = oracle.is_built() and not options.no_hive
    if not oracle.is_built():
        print("Without Hive: build it with python tests/interop/oracle/oracle.py (needs Maven and a JDK 17).")
    with ExitStack() as stack:
        durable = not options.no_fsync
        bench = Bench(stack, durable=durable) if on_postgresql else MysqlBench(stack, options.server)
        load = os.getloadavg()[0]
        print(f"{options.server}: {bench.describe()}; load {load:.1f}")
        if "verbs" in parts:
            measure_verbs(bench, options, with_hive=with_hive)
        if "load" in parts:
            measure_load(bench, options, with_hive=with_hive)
        if "lookups" in parts:
            measure_lookups(bench.ours("lookups"))


if __name__ == "__main__":
    main()
