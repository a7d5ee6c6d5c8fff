"""Airflow with the page "Hive ACID", the demo's data and work that goes on: what ``make ui`` starts.

    python scripts/ui.py [--port 8080] [--fresh] [--no-demo]

Everything lies in build/ui: Airflow's home, the metastore (SQLite) and the warehouse. A second start goes on with it.
Writers insert and delete in real ORC ACID tables, readers hold snapshots, locks wait for each other, a lease is
prolonged, and a table with a broken file has a compaction that fails. The maintenance DAGs run, Spark included, and the
demo's DAG runs once. Ctrl-C ends all of it.
"""

from __future__ import annotations

import argparse
import contextlib
import shutil
import signal
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).parent))

from ui_airflow import REPOSITORY, UiAirflow
from ui_data import DAYS, OrcTable, Shop, queue_for, task, write_tables

from airflow_hive_acid.errors import HiveAcidError
from airflow_hive_acid.metastore import MetastoreClient
from airflow_hive_acid.metastore.compaction.model import CompactionType
from airflow_hive_acid.settings import Settings, Source

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

STATE = REPOSITORY / "build" / "ui"
DAGS = ("hive_acid_initiator", "hive_acid_worker", "hive_acid_cleaner", "hive_acid_reaper", "hive_acid_demo")
#: So short that there is something to see within minutes.
SETTINGS = {
    "hive.compactor.check.interval": "60s",
    "hive.compactor.delta.num.threshold": "6",
    "hive.compactor.worker.threads": "1",
    "hive.timedout.txn.reaper.interval": "60s",
}


class Load:
    """What goes on in the shop, each part in a thread of its own until ``stopped``."""

    def __init__(self, url: str, warehouse: str) -> None:
        self.stopped = threading.Event()
        self._url, self._warehouse = url, warehouse
        self._threads: list[threading.Thread] = []

    def client(self, host: str) -> MetastoreClient:
        """A client of the metastore, as a program on that host would have."""
        return MetastoreClient(self._url, Settings({Source.CONNECTION: SETTINGS}), user="shop", host=host)

    def prepare(self) -> None:
        """The metastore, the tables and a table that cannot be compacted."""
        with self.client("setup") as client:
            client.create_schema()
            client.catalog.set_warehouse(self._warehouse)
            fresh = not client.catalog.find_tables(["shop.orders"])
            shop = Shop.open(client)
            if fresh:
                write_tables(shop, 3)
                broken = OrcTable(client, "shop.broken", (("id", "bigint"),)).create()
                for number in range(3):
                    broken.insert([(number,)])
                for file in Path(broken.place(None)).glob("delta_*/bucket_00000"):
                    file.write_bytes(b"this was never an ORC file")

    def start(self) -> None:
        """Begin."""
        for body in (self._write, self._read, self._wait_for_each_other, self._lease, self._fail):
            thread = threading.Thread(target=self._guarded, args=(body,), name=body.__name__)
            thread.start()
            self._threads.append(thread)

    def stop(self) -> None:
        """End all of it; locks and txns are released."""
        self.stopped.set()
        for thread in self._threads:
            thread.join(60)

    def _guarded(self, body: Callable[[], None]) -> None:
        while not self.stopped.is_set():
            try:
                body()
            except HiveAcidError as error:
                # Somebody aborted its txn or dropped its lease on the page, which is what the page is for.
                say(f"{body.__name__.lstrip('_')}: {error}")
                self.stopped.wait(5)

    def _write(self) -> None:
        with self.client("loader-1") as client:
            shop = Shop.open(client)
            for turn in self._turns(4):
                shop.number = turn * 10_000 + int(time.time()) % 10_000
                shop.order(50 + turn % 7 * 20, DAYS[turn % len(DAYS)], task("shop_orders", "load_day"))
                if turn % 2:
                    shop.change_customers(30, task("shop_customers", "merge_changes"))

    def _read(self) -> None:
        with self.client("report-1") as client:
            for _ in self._turns(1):
                with client.snapshot(["shop.orders", "shop.customers"]):
                    self.stopped.wait(20)

    def _wait_for_each_other(self) -> None:
        """A holder, and a queue behind it, for a minute and a half; then anew."""
        with self.client("worker-3") as client:
            for _ in self._turns(10):
                txns = [queue_for(client, "shop.returns", task("shop_returns", f"book_{i}")) for i in range(4)]
                txns.append(queue_for(client, "shop.returns", task("shop_report", "returns_by_day"), exclusive=False))
                try:
                    self.stopped.wait(90)
                finally:
                    for txn in txns:
                        client.heartbeats.remove(txn)
                        with contextlib.suppress(HiveAcidError):
                            client.abort_txn(txn, "the load goes on with others")

    def _lease(self) -> None:
        with self.client("night") as client:
            for _ in self._turns(5):
                lease = client.leases.grab_lease([f"shop.orders/{DAYS[0]}"], 120, user="night load")
                try:
                    for _ in self._turns(60, 5):
                        lease = client.leases.extend_lease(lease, lease_duration_sec=120)
                finally:
                    client.leases.drop_lease(lease)

    def _fail(self) -> None:
        """The Worker finds no ORC files in this table, and says so."""
        with self.client("ann") as client:
            for _ in self._turns(600):
                client.compactions.enqueue("shop.broken", type=CompactionType.MAJOR)

    def _turns(self, pause: float, most: int | None = None) -> Iterator[int]:
        turn = 0
        while not self.stopped.is_set() and (most is None or turn < most):
            yield turn
            turn += 1
            self.stopped.wait(pause)


def main() -> int:
    """Start, tell, wait for Ctrl-C, stop."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, help="of the web server; a free one by default")
    parser.add_argument("--state", type=Path, default=STATE, help="directory for everything it makes")
    parser.add_argument("--fresh", action="store_true", help="begin with an empty directory")
    parser.add_argument("--no-demo", action="store_true", help="without the run of the demo's DAG")
    options = parser.parse_args()
    for how in (signal.SIGINT, signal.SIGTERM):
        signal.signal(how, _interrupt)
    state = options.state.absolute()
    marker = state / ".hive-acid-ui"
    if state.is_dir() and any(state.iterdir()) and not marker.exists():
        say(f"{state} holds other files; name an empty directory with --state")
        return 2
    if options.fresh:
        shutil.rmtree(state, ignore_errors=True)
    state.mkdir(parents=True, exist_ok=True)
    marker.write_text("Made by scripts/ui.py; may be removed with everything in this directory.\n")
    url, warehouse = f"sqlite:///{state / 'metastore.db'}", f"file:{state / 'warehouse'}"
    load = Load(url, warehouse)
    # The DAGs' schedules are read from Airflow's configuration: while they are parsed no connection can be asked.
    configured = {f"hive_acid.{key.replace('.', '_')}": value for key, value in SETTINGS.items()}
    airflow = UiAirflow(
        state / "airflow", {"hive_acid_default": {"metastore_url": url, "warehouse": warehouse, **SETTINGS}},
        options={"core.dags_are_paused_at_creation": True, "dag_processor.parsing_processes": 1, **configured},
        port=options.port,
    )  # fmt: skip
    try:
        say("The metastore and its tables …")
        load.prepare()
        say("Airflow starts; that takes a minute on a small machine …")
        airflow.start(whole=True)
        load.start()
        say("", f"  Hive ACID:  {airflow.url}/plugin/hive-acid", f"  log in as:  {airflow_roles()}",
            f"  logs:       {airflow.log}", "", "Ctrl-C stops all of it.", "")  # fmt: skip
        # Not before somebody answers: a task that finds nobody to report to has failed.
        if all(airflow.wait_for_dag(dag) for dag in DAGS):
            airflow.run("dags", "unpause", "--treat-dag-id-as-regex", "--yes", "hive_acid_.*")
            say("The maintenance DAGs run.")
        if not options.no_demo:
            run_demo(airflow, state)
        while airflow.is_running():
            time.sleep(1)
        say(f"Airflow has ended; its log says why: {airflow.log}")
        return 1
    except KeyboardInterrupt:
        say("Stopping …")
        return 0
    finally:
        for how in (signal.SIGINT, signal.SIGTERM):
            signal.signal(how, signal.SIG_IGN)
        load.stop()
        airflow.stop()


def airflow_roles() -> str:
    """What to log in with."""
    return "admin / admin   (also op / op, user / user and viewer / viewer: the password is the name)"


def run_demo(airflow: UiAirflow, state: Path) -> None:
    """Let the demo's DAG run once, when the DAG processor has found it."""
    done = state / "demo-ran"
    if done.exists():
        return
    if airflow.wait_for_dag("hive_acid_demo"):
        airflow.run("dags", "trigger", "hive_acid_demo", "--conf", f'{{"directory": "{state / "demo"}"}}')
        done.touch()
        say("The demo's DAG runs; its tables appear in the database demo.")


def say(*lines: str) -> None:
    """Print lines."""
    sys.stdout.write("\n".join(lines) + "\n")
    sys.stdout.flush()


def _interrupt(_signal: int, _frame: object) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
