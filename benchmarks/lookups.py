"""What a reader asks the metastore, one question at a time: write-id lists, and partitions of a large table."""

from __future__ import annotations

import random
import statistics
import time
import tracemalloc
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from clients import SETTINGS, TABLES

from airflow_hive_acid.format.jobs import Column
from airflow_hive_acid.format.write_ids import ValidWriteIdList
from airflow_hive_acid.metastore import MetastoreClient
from airflow_hive_acid.metastore.catalog.values.model import TableDefinition
from airflow_hive_acid.metastore.database.backends import pipeline
from airflow_hive_acid.metastore.database.database import chunks

if TYPE_CHECKING:
    from collections.abc import Callable

PARTITIONS = 100_000
HOURS = 100
EXCEPTIONS = 100_000


def measure_lookups(url: str) -> None:
    """Measure on an empty metastore, print a table in Markdown."""
    print("\n| lookup | median ms (min-max) | |\n|---|---|---|")
    with MetastoreClient(url, SETTINGS) as client:
        _lists(client)
        _exceptions()
        _partitions(client)


def _lists(client: MetastoreClient) -> None:
    """getValidWriteIds of all tables at once: each with two write ids, 50 txns open."""
    tables = [f"db.t{i}" for i in range(TABLES)]
    for table in tables:
        for _ in range(2):
            txn_id = client.open_txn()
            client.allocate_write_ids(table, txn_id)
            client.commit_txn(txn_id)
    client.open_txns(50)
    client.get_valid_write_ids(tables)
    trips = _count_round_trips(client, lambda: client.get_valid_write_ids(tables))
    _row(f"getValidWriteIds, {TABLES} tables", lambda: client.get_valid_write_ids(tables), f"round trips: {trips}")
    one = tables[:1]
    _row("getValidWriteIds, 1 table", lambda: client.get_valid_write_ids(one), "")
    txns = client.get_valid_txns()
    _row("the same for a given txn list", lambda: client.get_valid_write_ids(tables, txns), "")


def _exceptions() -> None:
    """A write-id list with many exceptions, half of them aborted."""
    ids = random.sample(range(1, 10 * EXCEPTIONS), EXCEPTIONS)
    half = EXCEPTIONS // 2
    text = str(ValidWriteIdList(10 * EXCEPTIONS, frozenset(ids[:half]), frozenset(ids[half:]), table="db.t"))
    asked = [random.randrange(1, 10 * EXCEPTIONS) for _ in range(1_000_000)]

    def ask() -> None:
        is_valid = ValidWriteIdList.parse(text).is_valid
        for write_id in asked:
            is_valid(write_id)

    parse = _timed(lambda: ValidWriteIdList.parse(text), 7)
    both = _timed(ask, 5)
    rate = 1000 * len(asked) / statistics.median(both)
    _print(f"ValidWriteIdList, {EXCEPTIONS:,} exceptions: parse", parse, f"{len(text):,} characters")
    _print(f"the same: parse and test {len(asked):,} ids", both, f"{rate / 1e6:.2f} M ids/s")


def _partitions(client: MetastoreClient) -> None:
    """A hundred of 100,000 partitions, by a condition that the server evaluates."""
    client.catalog.create_database("big", "file:/nowhere/big.db")
    columns = (Column("day", "string"), Column("hour", "int"))
    definition = TableDefinition("big", "t", (Column("a", "bigint"),), columns, location="file:/nowhere/big.db/t")
    client.catalog.create_table(definition)
    names = [f"day=d{d:04d}/hour={h}" for d in range(PARTITIONS // HOURS) for h in range(HOURS)]
    for part in chunks(names, 10_000):
        client.catalog.add_partitions("big.t", part)
    engine = sa.create_engine(client.database.url, isolation_level="AUTOCOMMIT", poolclass=sa.pool.NullPool)
    with engine.connect() as connection:
        connection.execute(sa.text("ANALYZE"))

    def some() -> Any:
        return client.catalog.list_partitions("big.t", {"day": "d0500"})

    assert len(some()) == HOURS
    statements: list[tuple[str, Any]] = []
    _watch(client, statements, some)
    text, parameters = statements[-1]
    with client.database.engine.connect() as connection:
        explain = f"EXPLAIN (ANALYZE, FORMAT JSON) {text}"
        plans = [connection.exec_driver_sql(explain, parameters).scalar_one()[0] for _ in range(7)]
    times = [float(plan["Planning Time"] + plan["Execution Time"]) for plan in plans]
    _print(f"{HOURS} of {PARTITIONS:,} partitions: at the server", times, "EXPLAIN ANALYZE, planning and execution")
    tracemalloc.start()
    some()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    _row("the same: the whole call", some, f"peak of Python's memory {peak / 1024:.0f} kB")


def _row(label: str, call: Callable[[], Any], note: str) -> None:
    _print(label, _timed(call, 30), note)


def _print(label: str, values: list[float], note: str) -> None:
    print(f"| {label} | {statistics.median(values):.2f} ({min(values):.2f}-{max(values):.2f}) | {note} |")


def _timed(call: Callable[[], Any], times: int) -> list[float]:
    """Milliseconds of each call."""
    found = []
    for _ in range(times):
        began = time.perf_counter()
        call()
        found.append(1000 * (time.perf_counter() - began))
    return found


def _count_round_trips(client: MetastoreClient, call: Callable[[], Any]) -> int:
    """Batches, and statements that travel alone; the driver sends a BEGIN and a COMMIT of its own for those."""
    alone: list[tuple[str, Any]] = []
    batches: list[int] = []
    run = pipeline.run

    def counted(*arguments: Any) -> Any:
        batches.append(1)
        return run(*arguments)

    pipeline.run = counted
    try:
        _watch(client, alone, call)
    finally:
        pipeline.run = run
    return len(batches) + (2 + len(alone) if alone else 0)


def _watch(client: MetastoreClient, statements: list[tuple[str, Any]], call: Callable[[], Any]) -> None:
    def note(connection: Any, cursor: Any, text: str, parameters: Any, context: Any, many: bool) -> None:
        statements.append((text, parameters))

    sa.event.listen(client.database.engine, "before_cursor_execute", note)
    try:
        call()
    finally:
        sa.event.remove(client.database.engine, "before_cursor_execute", note)
