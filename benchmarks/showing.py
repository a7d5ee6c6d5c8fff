"""SHOW over 100,000 rows: how long until the first row is there, and how much memory all of them take.

Each case is a process of its own, because memory that one has used cannot be told from another's. Beside the stream
that SHOW and ``hive-acid show`` use stands the list that the client's verbs return, of the same rows.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from airflow_hive_acid.metastore import MetastoreClient
from airflow_hive_acid.metastore.setup import schema

if TYPE_CHECKING:
    from collections.abc import Iterator

ROWS = 100_000
CASES = ("nothing", "locks", "locks as a list", "compactions", "compactions as a list")
_PIECE = 10_000


def fill(client: MetastoreClient, rows: int = ROWS) -> None:
    """So many locks of 1,000 open txns; as many compactions, nine of ten of them history."""
    holders = client.open_txns(1000)
    for table, made in (
        (schema.HIVE_LOCKS, _locks(rows, holders)),
        (schema.COMPACTION_QUEUE, _compactions("CQ", 0, rows // 10)),
        (schema.COMPLETED_COMPACTIONS, _compactions("CC", rows // 10, rows)),
    ):
        every = list(made)
        for start in range(0, len(every), _PIECE):
            with client.database.transaction() as connection:
                connection.execute(sa.insert(table), every[start : start + _PIECE])


def _locks(rows: int, holders: list[int]) -> Iterator[dict[str, Any]]:
    for i in range(rows):
        yield {
            "HL_LOCK_EXT_ID": 1 + i, "HL_LOCK_INT_ID": 1, "HL_TXNID": holders[i % len(holders)], "HL_DB": "db",
            "HL_TABLE": f"t{i % 100}", "HL_PARTITION": f"day=d{i:06}", "HL_LOCK_STATE": "w" if i % 10 == 0 else "a",
            "HL_LOCK_TYPE": "r" if i % 2 else "w", "HL_LAST_HEARTBEAT": 0, "HL_USER": "hive", "HL_HOST": "hms",
            "HL_AGENT_INFO": f"airflow/dag_{i % 50}/task",
        }  # fmt: skip


def _compactions(prefix: str, first: int, end: int) -> Iterator[dict[str, Any]]:
    for i in range(first, end):
        values = {
            "ID": 1 + i, "DATABASE": "db", "TABLE": f"t{i % 100}", "PARTITION": f"day=d{i:06}", "TYPE": "i",
            "STATE": "i" if prefix == "CQ" else "s", "ENQUEUE_TIME": 1_700_000_000_000 + i,
        }  # fmt: skip
        if prefix == "CC":
            values |= {"START": 1_700_000_100_000 + i, "END": 1_700_000_200_000 + i, "WORKER_ID": "host-1"}
        yield {f"{prefix}_{name}": value for name, value in values.items()}


def measure_showing(url: str, rounds: int) -> None:
    """Every case once per round, and a table."""
    with MetastoreClient(url) as client:
        fill(client)
    found: dict[str, list[list[float]]] = {case: [] for case in CASES}
    for _ in range(rounds):
        for case in CASES:
            command = [sys.executable, __file__, url, case]
            answer = subprocess.run(command, capture_output=True, text=True, check=True).stdout
            found[case].append([float(number) for number in answer.split()])
    base = statistics.median(taken[3] for taken in found["nothing"])
    print("\n| 100,000 rows | first row, ms (min-max) | all rows, ms | CPU ms | MB more than nothing |")
    print("|---|---|---|---|---|")
    for case in CASES[1:]:
        first, whole, cpu, memory = (list(column) for column in zip(*found[case], strict=True))
        spread = f"{statistics.median(first):.0f} ({min(first):.0f}-{max(first):.0f})"
        more = statistics.median(memory) - base
        print(f"| {case} | {spread} | {statistics.median(whole):.0f} | {statistics.median(cpu):.0f} | {more:.1f} |")


def _once(url: str, case: str) -> tuple[float, float, float, float]:
    """Milliseconds to the first row and to the last, of CPU, and the process's largest memory in MB."""
    from airflow_hive_acid.engine.queries.shows import ShowRequest, stream

    with MetastoreClient(url) as client:
        client.check_schema()  # connected, and imported
        began, cpu, first, count = time.perf_counter(), time.process_time(), 0.0, 0
        kind = case.split()[0]
        rows: Any = ()
        if case.endswith("list"):
            rows = client.show_locks() if kind == "locks" else client.compactions.show()
        elif case != "nothing":
            rows = stream(client, ShowRequest(kind)).rows
        for _ in rows:
            if not count:
                first = time.perf_counter() - began
            count += 1
        whole, cpu = time.perf_counter() - began, time.process_time() - cpu
    if count != (0 if case == "nothing" else ROWS):
        raise AssertionError(f"{case}: {count} rows")
    return first * 1000, whole * 1000, cpu * 1000, _most_memory()


def _most_memory() -> float:
    """In MB; the kernel's own count of this process, because getrusage begins with that of whoever started it."""
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM")) / 1024


if __name__ == "__main__":
    print(*_once(*sys.argv[1:3]))
