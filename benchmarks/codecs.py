"""What the codec of a table's files costs: the same table with each, written, read and changed.

    python benchmarks/codecs.py [--rows 5000000] [--rounds 3] [--cores 2] [--codecs ZLIB,ZSTD]

Reads and writes pack and unpack in native code, which a profile of Java methods does not show: only a comparison does.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from measure import interleaved, markdown, parser_of
from tables import AGGREGATE, BenchTable, generated, plain_source, session, write_plain

from airflow_hive_acid.format.jobs import Assignment, Insert, Update
from airflow_hive_acid.spark.read.reader import read_snapshot

if TYPE_CHECKING:
    from collections.abc import Callable

ONE_PERCENT = "pmod(t.id, 100) = 7"
BASE = "plain ORC copy, zlib"


def main() -> None:
    """Make the tables, measure, print a table in Markdown and the sizes."""
    parser = parser_of(__doc__, rows=5_000_000)
    parser.add_argument("--codecs", default="ZLIB,ZSTD,SNAPPY,NONE", help="values of orc.compress")
    arguments = parser.parse_args()
    spark = session(arguments.cores)
    directory = Path(tempfile.mkdtemp(prefix="hive-acid-bench-"))
    try:
        plain = directory / "plain"
        write_plain(generated(spark, arguments.rows), plain)
        schema = spark.read.orc(str(plain)).schema
        sizes = []
        variants: dict[str, Callable[[], object]] = {
            BASE: lambda: write_plain(spark.read.schema(schema).orc(str(plain)), directory / "copy")
        }
        for codec in arguments.codecs.split(","):
            table = BenchTable(spark, directory / codec, codec=codec)
            table.root.mkdir()
            table.publish(table.run(Insert(table.snapshot(1), "select * from p", 1, 0), plain_source(plain)))
            sizes.append(f"{codec} {sum(f.stat().st_size for f in table.root.rglob('bucket_*')):,} bytes")
            variants |= statements(table, codec, plain)
        found = interleaved(spark, variants, arguments.rounds, arguments.warm_up)
        print(markdown(f"{arguments.rows:,} rows, 10 columns, {arguments.rounds} rounds", found, BASE, {}))
        print("; ".join(sizes))
    finally:
        spark.stop()
        shutil.rmtree(directory)


def statements(table: BenchTable, codec: str, plain: Path) -> dict[str, Callable[[], object]]:
    """What is measured of a table; it is the same afterwards."""
    own = table.high + 1
    insert = Insert(table.snapshot(own), "select * from p", own, 0)
    update = Update(table.snapshot(own), "t", (Assignment("name", "'changed'"),), ONE_PERCENT, own, 0, 1)
    return {
        f"insert, {codec}": lambda: table.discard(table.run(insert, plain_source(plain))),
        f"full scan, {codec}": lambda: read_snapshot(table.spark, table.snapshot()).selectExpr(*AGGREGATE).collect(),
        f"update 1 %, {codec}": lambda: table.discard(table.run(update)),
    }


if __name__ == "__main__":
    main()
