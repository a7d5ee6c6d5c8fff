"""What happens before a job starts: a MERGE of 200 lines, and a predicate over a table of very many partitions.

Nothing of Spark is started. Directories that are listed are counted: those of pruned partitions must not be among
them. CPU seconds beside wall; each variant runs once in every round, and ratios are taken within the run.

    python benchmarks/planning.py [--rounds 15] [--part plan|show] [--partitions 100000] [--url URL]

The part ``show`` is what SHOW LOCKS and SHOW COMPACTIONS cost with 100,000 rows (``showing``).
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from many_partitions import make_table
from showing import measure_showing

from airflow_hive_acid.engine.context import Context
from airflow_hive_acid.engine.locking.requests import Statements
from airflow_hive_acid.engine.queries import explain as explaining
from airflow_hive_acid.engine.queries.explain import explain
from airflow_hive_acid.engine.tables.partitions import KnownPartitions
from airflow_hive_acid.format.jobs import Column
from airflow_hive_acid.metastore import MetastoreClient
from airflow_hive_acid.metastore.catalog.values.model import TableDefinition
from airflow_hive_acid.sql import parse_script, plan

if TYPE_CHECKING:
    from collections.abc import Callable

COLUMNS = 90
WARM_UP = 2
EXACT = "SELECT count(*) FROM db.events WHERE day = 'd00500' AND hour = '7'"
RANGE = "SELECT count(*) FROM db.events WHERE day BETWEEN 'd00500' AND 'd00501' AND hour IN ('7', '8', '9')"
CHANGE = "UPDATE db.events SET v = 0 WHERE day = 'd00500' AND hour = '7' AND id IN (SELECT id FROM db.wide)"


def merge_text(lines: int = 200) -> str:
    """A MERGE of so many lines: a source with many expressions, several clauses."""
    names = [f"c{i}" for i in range(COLUMNS)]
    source = [f"         coalesce(u.{name}, 0) + {i} AS {name}," for i, name in enumerate(names[1:])]
    updates = [f"  {name} = CASE WHEN s.{name} > t.{name} THEN s.{name} ELSE t.{name} END," for name in names[1:]]
    text = [
        "MERGE INTO db.wide AS t",
        "USING (",
        "  SELECT u.id, u.c0,",
        *source,
        "         max(u.c0) OVER (PARTITION BY u.id) AS most",
        "  FROM db.feed u JOIN db.wide w ON u.id = w.id AND w.c0 > 0",
        "  WHERE u.c1 IN (SELECT c1 FROM db.feed WHERE c2 BETWEEN 1 AND 100)",
        ") AS s",
        "ON t.id = s.id",
        "WHEN MATCHED AND s.most < 0 THEN DELETE",
        "WHEN MATCHED THEN UPDATE SET",
        *updates,
        "  c0 = s.c0",
        "WHEN NOT MATCHED AND s.most > 0 THEN INSERT VALUES",
        f"  (s.id, {', '.join(f's.{name}' for name in names)})",
    ]
    text += ["  -- the rest of the lines"] * (lines - len(text))
    return "\n".join(text)


def main() -> None:
    """Measure, and print a table in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--partitions", type=int, default=100_000, help="more than 50,200, of which some are asked for")
    parser.add_argument("--url", help="an empty metastore; by default an embedded one")
    parser.add_argument("--part", choices=("plan", "show"), action="append", help="default: both")
    options = parser.parse_args()
    parts = options.part or ["plan", "show"]
    with tempfile.TemporaryDirectory() as home:
        url = options.url or f"sqlite:///{home}/metastore.db"
        with MetastoreClient(url) as client:
            client.create_schema()
            if "plan" in parts:
                make(client, home, options.partitions)
                context = Context(client, None, None, lambda _event: None, "benchmark", client.settings)  # type: ignore[arg-type]
                measure(context, options.rounds)
        if "show" in parts:
            measure_showing(url, options.rounds)


def make(client: MetastoreClient, home: str, partitions: int) -> None:
    """Two wide tables, and one with so many partitions of which only one has a directory."""
    client.catalog.set_warehouse(f"file:{home}/warehouse")
    client.catalog.create_database("db")
    wide = (Column("id", "bigint"), *(Column(f"c{i}", "bigint") for i in range(COLUMNS)))
    for name in ("wide", "feed"):
        client.catalog.create_table(TableDefinition("db", name, wide))
    table = make_table(client, partitions, hour="string")
    place = Path(table.location.removeprefix("file:")) / "day=d00500" / "hour=7" / "delta_0000001_0000001_0000"
    place.mkdir(parents=True)
    (place / "bucket_00000").write_bytes(b"ORC")


def measure(context: Context, rounds: int) -> None:
    """Run every variant once per round."""
    catalog = context.client.catalog
    text = merge_text()
    if len(text.splitlines()) != 200:
        raise AssertionError(len(text.splitlines()))
    counted = _Listed()
    explaining.list_many = counted  # type: ignore[assignment]

    def planned(sql: str) -> Any:
        (statement,) = parse_script(sql)
        return plan(statement, context.table)  # type: ignore[arg-type]

    def kept(sql: str) -> int:
        (read,) = [read for read in planned(sql).reads if read.table == "db.events"]
        return len(KnownPartitions(catalog, context.table("db.events")).matching(read.partitions))

    def everything(sql: str) -> object:
        found = planned(sql)
        return context.locking.plan(Statements([found])), explain(context, found.statement, [found])

    number_of = catalog.count_partitions("db.events")
    variants: dict[str, Callable[[], object]] = {
        "parse a MERGE of 200 lines": lambda: parse_script(text),
        "parse and plan it": lambda: planned(text),
        f"parse, plan, find 1 of {number_of:,} partitions": lambda: kept(EXACT),
        f"parse, plan, find 6 of {number_of:,} partitions": lambda: kept(RANGE),
        "the same with locks and EXPLAIN of 1": lambda: everything(EXACT),
        "the same with locks and EXPLAIN of an UPDATE": lambda: everything(CHANGE),
        f"all {number_of:,} partitions, for comparison": lambda: len(catalog.list_partitions("db.events")),
    }
    samples: dict[str, list[tuple[float, float]]] = {name: [] for name in variants}
    for number in range(WARM_UP + rounds):
        for name, run in variants.items():
            wall, cpu = time.perf_counter(), time.process_time()
            run()
            wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
            if number >= WARM_UP:
                samples[name].append((wall * 1000, cpu * 1000))
    show(samples)
    print(f"\npartitions found: {kept(EXACT)} and {kept(RANGE)} of {catalog.count_partitions('db.events'):,}; ")
    print(f"directories listed by EXPLAIN: {sorted(counted.uris)}")


class _Listed:
    """Lists, and remembers what."""

    def __init__(self) -> None:
        self._list_many = explaining.list_many
        self.uris: set[str] = set()

    def __call__(self, filesystem: Any, uris: Any, *rest: Any, **more: Any) -> Any:
        wanted = list(uris)
        self.uris |= {uri.partition("/warehouse/")[2] for uri in wanted}
        return self._list_many(filesystem, wanted, *rest, **more)


def show(samples: dict[str, list[tuple[float, float]]]) -> None:
    """A table: median, least and most; the ratio to reading all partitions in the same run."""
    *_, last = samples.values()
    whole = statistics.median(cpu for _, cpu in last)
    print("| before the job | wall ms median (min-max) | CPU ms median | x all partitions (CPU) |\n|---|---|---|---|")
    for name, taken in samples.items():
        walls, cpus = [wall for wall, _ in taken], [cpu for _, cpu in taken]
        cpu = statistics.median(cpus)
        spread = f"{statistics.median(walls):.1f} ({min(walls):.1f}-{max(walls):.1f})"
        print(f"| {name} | {spread} | {cpu:.1f} | {cpu / whole:.4f} |")


if __name__ == "__main__":
    main()
