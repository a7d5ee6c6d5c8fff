"""Ways to write an insert delta, against a plain Spark ORC copy: what decision 6 was made from.

    python benchmarks/writers.py [--rows 1000000] [--rounds 3] [--cores 2]

Spark's own source and the optional jar go through the product; the third way, Arrow batches to pyarrow's ORC writer in
Python workers, is written out here: it knows local files only, and no key index, statistics, or char padding.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from dml import WITHOUT, job, paths
from measure import interleaved, markdown, parser_of
from tables import build, session, write_plain

from airflow_hive_acid.format.jobs import Insert

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pyarrow as pa
    from pyspark.sql import SparkSession

_BUCKET = 1 << 29


def main() -> None:
    """Build the plain table, measure, print a table in Markdown."""
    parser = parser_of(__doc__, rows=1_000_000)
    arguments = parser.parse_args()
    spark = session(arguments.cores)
    directory = Path(tempfile.mkdtemp(prefix="hive-acid-bench-"))
    try:
        plain, table = build(spark, directory, arguments.rows)
        schema = spark.read.orc(str(plain)).schema
        own = table.high + 1

        def copy() -> None:
            write_plain(spark.read.schema(schema).orc(str(plain)), directory / "copy")
            shutil.rmtree(directory / "copy")

        variants: dict[str, Callable[[], object]] = {"plain ORC copy": copy}
        for label, conf in paths(spark):
            name = "Spark's source, nested row" if label == WITHOUT else "jar, flat columns"
            variants[name] = job(table, Insert(table.snapshot(own), "select * from p", own, 0), plain, conf)
        variants["Arrow to pyarrow's writer"] = lambda: arrow_insert(spark, plain, directory / "arrow", own)
        found = interleaved(spark, variants, arguments.rounds, arguments.warm_up)
        print(markdown(f"insert, {arguments.rows:,} rows, {arguments.rounds} rounds", found, "plain ORC copy", {}))
    finally:
        spark.stop()
        shutil.rmtree(directory)


def arrow_insert(spark: SparkSession, plain: Path, target: Path, write_id: int) -> None:
    """Each task's rows as one ACID file, encoded in its Python worker."""
    target.mkdir()
    place = str(target)

    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import numpy as np
        import pyarrow as pa
        from pyarrow import orc
        from pyspark import TaskContext

        task = TaskContext.get().partitionId()  # type: ignore[union-attr]
        number = 0
        with orc.ORCWriter(f"{place}/bucket_{task:05d}", compression="zlib") as writer:
            for batch in batches:
                size = batch.num_rows
                columns = [
                    # With a time zone it would become another ORC type.
                    c.cast(pa.timestamp("us")) if pa.types.is_timestamp(c.type) else c
                    for c in batch.columns
                ]
                header = {
                    "operation": pa.repeat(pa.scalar(0, pa.int32()), size),
                    "originalTransaction": pa.repeat(pa.scalar(write_id, pa.int64()), size),
                    "bucket": pa.repeat(pa.scalar(_BUCKET | task << 16, pa.int32()), size),
                    "rowId": pa.array(np.arange(number, number + size, dtype="int64")),
                    "currentTransaction": pa.repeat(pa.scalar(write_id, pa.int64()), size),
                    "row": pa.StructArray.from_arrays(columns, batch.schema.names),
                }
                writer.write(pa.table(header))
                number += size
        yield pa.RecordBatch.from_pydict({"rows": pa.array([number], pa.int64())})

    rows = spark.read.orc(str(plain)).mapInArrow(write, "rows long")
    assert sum(r["rows"] for r in rows.collect()) > 0
    shutil.rmtree(target)


if __name__ == "__main__":
    main()
