"""What ``make ui``, the screenshots and the tests of the page look at: real tables, and work that goes on with them.

The tables are ORC ACID tables as Hive and our Spark jobs write them, made here without Spark: rows with their ids in
``delta_N_N_0/bucket_00000``, committed through the metastore client. So readers read them, the Initiator measures and
judges them, and the Worker compacts them.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyarrow import orc
from sqlalchemy import insert, select, update

from airflow_hive_acid.filesystem import open_filesystem
from airflow_hive_acid.format.buckets import encode_bucket
from airflow_hive_acid.format.jobs import Column
from airflow_hive_acid.format.names import delete_delta_name, delta_name
from airflow_hive_acid.maintenance import run_initiator
from airflow_hive_acid.metastore.catalog.values.model import TableDefinition
from airflow_hive_acid.metastore.compaction.model import CompactionType
from airflow_hive_acid.metastore.database.clock import now_ms
from airflow_hive_acid.metastore.database.codes import LockType, Operation
from airflow_hive_acid.metastore.locks.interface import LockComponent
from airflow_hive_acid.metastore.schema.hive_transactions import COMPLETED_COMPACTIONS, NEXT_COMPACTION_QUEUE_ID
from airflow_hive_acid.metastore.schema.ours import HIVE_ACID_MEASURE
from airflow_hive_acid.replication.policies.state import ObjectState, Phase, PolicyRecord

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from sqlalchemy.engine import Connection

    from airflow_hive_acid.metastore import MetastoreClient, Transaction

DAYS = tuple(f"day=2026-11-{day:02}" for day in range(16, 21))
HOUR = 3_600_000
_NEXT = NEXT_COMPACTION_QUEUE_ID.c.NCQ_NEXT
_TYPES = {"bigint": pa.int64(), "double": pa.float64(), "string": pa.string()}


@dataclass
class OrcTable:
    """A full ACID table whose deltas are written here.

    :param columns: names and types (bigint, double, string); the first is a number that grows.
    """

    client: MetastoreClient
    name: str
    columns: tuple[tuple[str, str], ...]
    key: str | None = None
    ids: list[tuple[str | None, int, int, int]] = field(default_factory=list)

    def create(self, **properties: str) -> OrcTable:
        """Make it, if it is not there."""
        database, table = self.name.split(".")
        self.client.catalog.create_database(database, if_not_exists=True)
        if self.name not in self.client.catalog.find_tables([self.name]):
            keys = (Column(self.key, "string"),) if self.key else ()
            columns = tuple(Column(name, kind) for name, kind in self.columns)
            self.client.catalog.create_table(TableDefinition(database, table, columns, keys, properties=properties))
        Path(self.place(None)).mkdir(parents=True, exist_ok=True)
        return self

    def place(self, partition: str | None) -> str:
        """The directory of the table or a partition."""
        root = self.client.catalog.get_table(self.name).location.removeprefix("file:")
        return root if partition is None else f"{root}/{partition}"

    def begin(self, operation: str, agent: str) -> Transaction:
        """A txn that writes here."""
        return self.client.begin({self.name: operation}, partitioned=[self.name] if self.key else [], agent_info=agent)

    def insert(self, rows: Sequence[tuple[Any, ...]], partition: str | None = None, agent: str = "ui load") -> int:
        """Commit a delta; returns its write id."""
        with self.begin("insert", agent) as txn:
            return self.put(txn, rows, partition)

    def put(self, txn: Transaction, rows: Sequence[tuple[Any, ...]], partition: str | None = None) -> int:
        """Write a delta of an open txn; returns its write id."""
        write_id = txn.write_ids[self.name]
        statement = txn.next_statement_id(self.name)
        values = [dict(zip((name for name, _ in self.columns), row, strict=True)) for row in rows]
        bucket = encode_bucket(0, statement)
        self._write(delta_name(write_id, write_id, statement), partition, [
            (0, write_id, bucket, number, write_id, value) for number, value in enumerate(values)
        ])  # fmt: skip
        self._tell(txn, partition)
        self.ids += [(partition, write_id, bucket, number) for number in range(len(rows))]
        return write_id

    def delete(self, number: int, partition: str | None = None, agent: str = "ui load") -> int:
        """Delete some of the oldest rows; returns how many."""
        doomed = [row for row in self.ids if row[0] == partition][:number]
        if not doomed:
            return 0
        with self.begin("delete", agent) as txn:
            write_id = txn.write_ids[self.name]
            statement = txn.next_statement_id(self.name)
            self._write(delete_delta_name(write_id, write_id, statement), partition, [
                (2, original, bucket, row, write_id, None) for _, original, bucket, row in sorted(doomed, key=_order)
            ])  # fmt: skip
            self._tell(txn, partition)
        gone = set(doomed)
        self.ids = [row for row in self.ids if row not in gone]
        return len(doomed)

    def _tell(self, txn: Transaction, partition: str | None) -> None:
        if partition is not None:
            txn.add_partitions(self.name, [partition])
            self.client.catalog.add_partitions(self.name, [partition])

    def _write(self, name: str, partition: str | None, rows: Iterable[tuple[Any, ...]]) -> None:
        directory = Path(self.place(partition)) / name
        directory.mkdir(parents=True)
        (directory / "_orc_acid_version").write_text("2")
        row = pa.struct([(column, _TYPES[kind]) for column, kind in self.columns])
        schema = pa.schema([
            ("operation", pa.int32()), ("originalTransaction", pa.int64()), ("bucket", pa.int32()),
            ("rowId", pa.int64()), ("currentTransaction", pa.int64()), ("row", row),
        ])  # fmt: skip
        columns = list(zip(*rows, strict=True))
        table = pa.table([pa.array(column, one.type) for column, one in zip(columns, schema, strict=True)], schema)
        orc.write_table(table, str(directory / "bucket_00000"), compression="zlib")


def _order(row: tuple[str | None, int, int, int]) -> tuple[int, int, int]:
    return row[1:]


@dataclass
class Shop:
    """The tables, and what is held open so that there is something to see."""

    client: MetastoreClient
    orders: OrcTable
    customers: OrcTable
    returns: OrcTable
    number: int = 0

    @classmethod
    def open(cls, client: MetastoreClient) -> Shop:
        """The shop of a metastore; its tables are made if they are not there."""
        orders = (("id", "bigint"), ("customer", "string"), ("amount", "double"))
        return cls(
            client,
            OrcTable(client, "shop.orders", orders, "day").create(),
            OrcTable(client, "shop.customers", (("id", "bigint"), ("name", "string"))).create(),
            OrcTable(client, "shop.returns", (("id", "bigint"), ("reason", "string"))).create(),
        )  # fmt: skip

    def order(self, count: int, day: str, agent: str = "ui load") -> None:
        """Insert so many orders of a day."""
        self.orders.insert(
            [(self._next(), f"customer {self.number % 97}", self.number % 500 / 4) for _ in range(count)], day, agent
        )

    def change_customers(self, count: int, agent: str = "ui load") -> None:
        """Insert customers, and delete a few of the older ones."""
        self.customers.insert([(self._next(), f"name {self.number}") for _ in range(count)], agent=agent)
        self.customers.delete(count // 3, agent=agent)

    def _next(self) -> int:
        self.number += 1
        return self.number


def task(dag: str, name: str, number: int = 1, run: str = "scheduled__2026-11-22T06:00:00+00:00") -> str:
    """The agent info of an Airflow task."""
    return f"airflow/{dag}/{run}/{name}#{number}"


def write_tables(shop: Shop, rounds: int = 6) -> None:
    """Deltas enough for the Initiator to have an opinion."""
    for i in range(rounds):
        shop.order(400 - 40 * i, DAYS[i % len(DAYS)], task("shop_orders", "load_day"))
        shop.order(200, DAYS[-1], task("shop_orders", "load_day"))
        shop.change_customers(120, task("shop_customers", "merge_changes"))
    shop.returns.insert([(i, "too small") for i in range(50)])


def open_work(shop: Shop, waiters: int = 3) -> list[Transaction]:
    """A writer that holds its locks, who waits behind it, a reader, and leases; returns what must be ended."""
    client = shop.client
    agent = task("shop_customers", "merge_changes", 2)
    holder = client.begin({"shop.customers": "insert"}, agent_info=agent)
    reader = client.begin(
        {"shop.orders": "select"}, partitioned=["shop.orders"], agent_info=task("shop_report", "revenue")
    )
    ask(client, holder.txn_id, "shop.returns", agent)
    for i in range(waiters):
        queue_for(client, "shop.returns", task("shop_returns", f"book_{i}"))
    queue_for(client, "shop.returns", task("shop_report", "returns_by_day"), exclusive=False)
    # A table that nobody writes: a lease waits for writers, and keeps them off.
    client.leases.grab_lease(["shop.customers_2025"], 3600, user="ann", lease_type="s")
    client.leases.grab_lease([f"shop.orders/{DAYS[0]}"], 1800, user="night load")
    return [holder, reader]


def queue_for(client: MetastoreClient, table: str, agent: str, *, exclusive: bool = True) -> int:
    """Open a txn that asks for a lock and does not wait for it here; returns its id."""
    txn = client.open_txn(agent_info=agent)
    client.heartbeats.add(txn)
    ask(client, txn, table, agent, exclusive=exclusive)
    return txn


def ask(client: MetastoreClient, txn: int, table: str, agent: str, *, exclusive: bool = True) -> int:
    """Ask for a lock on a table, without a wait; returns the lock's id."""
    kind, operation = (LockType.EXCLUSIVE, Operation.NO_TXN) if exclusive else (LockType.SHARED_READ, Operation.SELECT)
    component = LockComponent(*table.split("."), None, kind, operation)
    return client.lock(component, txn_id=txn, agent_info=agent).lock_id


def queue_work(shop: Shop, warehouse: str) -> None:
    """One compaction that failed, one that a Worker has, and what the Initiator asks for."""
    queue = shop.client.compactions
    queue.enqueue("shop.returns", type=CompactionType.MAJOR)
    failed = queue.claim("@airflow-hive_acid_worker-scheduled__2026-11-22T08:00:00+00:00-compact[0]")
    if failed is None:
        raise RuntimeError("nobody else works on this queue, and yet the request is gone")
    queue.mark_failed(
        failed, "delta_0000002_0000002_0000/bucket_00000 is no ORC file: Malformed ORC file: invalid postscript"
    )
    queue.enqueue("shop.orders", DAYS[-1], CompactionType.MINOR)
    queue.claim("@airflow-hive_acid_worker-scheduled__2026-11-22T09:00:00+00:00-compact[1]")
    run_initiator(shop.client, open_filesystem(warehouse))


def write_history(client: MetastoreClient, table: str = "customers", days: int = 7) -> None:
    """Measurements and compactions of the days before, as the services would have left them; for pictures and tests.

    Rows are made for the past here, because nobody waits a week for a chart.
    """
    chance = random.Random(7)  # noqa: S311 - only shall always be the same

    def operation(connection: Connection) -> None:
        now = now_ms(connection)
        first = now - days * 24 * HOUR
        base, deltas, deletes, measures, done = 40_000, 0, 0, [], []
        number = int(connection.execute(select(_NEXT)).scalar_one()) - 1
        for step in range(days * 8):
            time = first + step * 3 * HOUR
            deltas += chance.randint(1, 3)
            deletes += chance.randint(0, 1)
            if deltas + deletes > 11:
                number += 1
                took = chance.randint(40, 400) * 1000
                done.append(
                    _done(number, table, time, took, CompactionType.MAJOR if step % 3 else CompactionType.MINOR)
                )
                base, deltas, deletes = base + 1_500 * deltas - 600 * deletes, 0, 0
            measures.append({
                "HME_DATABASE": "shop", "HME_TABLE": table, "HME_PART_NAME": "", "HME_NEWEST": "N", "HME_SINCE": time,
                "HME_UNTIL": time + 3 * HOUR, "HME_FILES": 1 + deltas + deletes, "HME_DELTAS": deltas + deletes,
                "HME_DELETE_DELTAS": deletes, "HME_BASE_BYTES": base,
                "HME_DELTA_BYTES": 1_500 * deltas + 600 * deletes, "HME_DELETE_BYTES": 600 * deletes,
            })  # fmt: skip
        connection.execute(insert(HIVE_ACID_MEASURE), measures)
        connection.execute(insert(COMPLETED_COMPACTIONS), done)
        connection.execute(update(NEXT_COMPACTION_QUEUE_ID).values({_NEXT: number + 1}))

    client.database.run(operation)


def replicate(client: MetastoreClient) -> None:
    """A policy that brings two tables from another metastore, as of now."""
    record = PolicyRecord(client.database, "shop-copy")
    epoch = record.begin("warehouse_berlin", task("hive_acid_replication", "follow")).epoch
    now = client.database.read(now_ms)
    record.note(epoch, [
        ObjectState("shop.prices", "berlin.prices", 4711, now, 0, 48_000, 3, "1 directories arrived, up to write 17"),
        ObjectState("shop.lines", "berlin.lines", 4702, now, 0, 1_200, 1, "replaced: state 4702 is newer than 4690"),
    ])  # fmt: skip
    record.change(epoch, phase=Phase.INCREMENTAL, position=4711, as_of=now)
    record.end(epoch, {"events": 12, "bytes": 49_200, "seconds": 1.4}, None)


def _done(number: int, table: str, end: int, took: int, kind: CompactionType) -> dict[str, Any]:
    return {
        "CC_ID": number, "CC_DATABASE": "shop", "CC_TABLE": table, "CC_PARTITION": None, "CC_STATE": "s",
        "CC_TYPE": kind.value, "CC_ENQUEUE_TIME": end - took - 30_000, "CC_START": end - took, "CC_END": end,
        "CC_WORKER_ID": "@airflow-hive_acid_worker-scheduled__2026-11-22T07:00:00+00:00-compact[0]",
        "CC_HIGHEST_WRITE_ID": 20, "CC_INITIATOR_ID": "airflow", "CC_COMMIT_TIME": end,
    }  # fmt: skip
