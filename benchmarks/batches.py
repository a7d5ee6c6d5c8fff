"""Transaction batches against one INSERT for each txn: the same records, in turns, in one Spark application.

    python benchmarks/batches.py [TXNS] [ROWS]

Prints what a commit takes, files and bytes that are left, and what reading the table costs while the batch is open and
afterwards, as ratios of one interleaved run.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

from airflow_hive_acid.engine import Engine, SparkSubmitLauncher
from airflow_hive_acid.metastore import MetastoreClient
from airflow_hive_acid.sql.parsing.builders import insert_statement
from airflow_hive_acid.sql.parsing.records import rows_query

ACID = "STORED AS ORC TBLPROPERTIES ('transactional'='true', 'NO_AUTO_COMPACTION'='true')"
COLUMNS = "id INT, name STRING, price DECIMAL(10,2), at TIMESTAMP, flag BOOLEAN"


def main() -> None:
    given = [int(argument) for argument in sys.argv[1:]]
    txns, rows = (*given, *(60, 1000)[len(given) :])
    with tempfile.TemporaryDirectory() as home:
        client = MetastoreClient(f"sqlite:///{home}/metastore.db")
        client.create_schema()
        client.catalog.set_warehouse(f"file:{home}/warehouse")
        with client, Engine(client, SparkSubmitLauncher("local[2]"), f"file:{home}/warehouse") as engine:
            engine.run(f"CREATE DATABASE w; CREATE TABLE w.b ({COLUMNS}) {ACID}; CREATE TABLE w.i ({COLUMNS}) {ACID}")
            compare(engine, client, Path(home) / "warehouse", txns, rows)


def records(number: int, rows: int) -> list[dict[str, object]]:
    return [
        {
            "id": number * rows + i,
            "name": f"name {i % 97}",
            "price": f"{i}.25",
            "at": f"2026-11-22 10:{i % 60:02d}:00",
            "flag": i % 2 == 0,
        }
        for i in range(rows)
    ]


def compare(engine: Engine, client: MetastoreClient, warehouse: Path, txns: int, rows: int) -> None:
    seconds: dict[str, list[float]] = {"batch": [], "insert": []}
    table = client.catalog.get_table("w.i")
    with engine.batch("w.b", transactions=txns) as batch:
        for number in range(-3, txns - 3):
            made = records(max(number, 0), rows)
            started = time.perf_counter()
            batch.write(made)
            batch.commit()
            between = time.perf_counter()
            engine.run(insert_statement("w.i", rows_query(made, table, (), ())))
            ended = time.perf_counter()
            if number >= 0:  # the first ones warm up
                seconds["batch"].append(between - started)
                seconds["insert"].append(ended - between)
        open_read = read(engine)
    closed_read = read(engine)
    medians = {name: statistics.median(found) for name, found in seconds.items()}
    first, last = (statistics.median(part) for part in (seconds["batch"][:10], seconds["batch"][-10:]))
    print(f"{txns} txns of {rows} records each, local[2], {os.cpu_count()} cores")
    print(f"median commit: batch {medians['batch']:.3f} s, INSERT {medians['insert']:.3f} s, "
          f"ratio {medians['batch'] / medians['insert']:.2f}; of the batch the last ten against the first ten "
          f"{last / first:.2f}")  # fmt: skip
    for name in ("b", "i"):
        files = [p for p in (warehouse / "w.db" / name).rglob("bucket_*") if "_tmp_" not in str(p)]
        print(f"w.{name}: {len(files)} files, {sum(p.stat().st_size for p in files):,} bytes")
    print(f"reading, batch against INSERTs: open {open_read:.2f}, closed {closed_read:.2f}")


def read(engine: Engine) -> float:
    """Ratio of medians of a query over both tables, in turns."""
    seconds: dict[str, list[float]] = {"b": [], "i": []}
    for _ in range(5):
        for name, found in seconds.items():
            started = time.perf_counter()
            engine.query(f"SELECT sum(id), max(price), count(DISTINCT name) FROM w.{name}")  # noqa: S608 - ours
            found.append(time.perf_counter() - started)
    return statistics.median(seconds["b"]) / statistics.median(seconds["i"])


if __name__ == "__main__":
    main()
