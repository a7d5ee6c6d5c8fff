"""Makes an archive of the classes that a Spark loads when it starts and works, for the many Sparks of the tests.

    python scripts/class_archive.py ARCHIVE

Java maps such an archive into memory (class data sharing) where it would read, check and link each class from a jar: a
short application costs 7.8 CPU seconds with it and 12.5 without. Java itself looks whether an archive fits its version
and its jars, and goes on without one that does not. ``tests/conftest.py`` gives it to each Spark of the tests.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

#: What short jobs do: ORC written and read, joins, aggregates, windows, texts, dates, decimals, Python functions.
_PROGRAM = """
import sys
from pyspark.sql import SparkSession
session = (
    SparkSession.builder.master("local[2]")
    .config("spark.ui.enabled", "false")
    .config("spark.sql.shuffle.partitions", "2")
    .getOrCreate()
)
session.sparkContext.setLogLevel("ERROR")
columns = ["id", "id % 10 AS k", "CAST(id AS STRING) AS s", "CAST(id AS DECIMAL(10, 2)) AS d", "DATE '2024-01-01' AS t"]
rows = session.range(100).selectExpr(*columns, "STRUCT(id, id + 1 AS x) AS r")
rows.write.mode("overwrite").orc(sys.argv[1] + "/rows")
rows.write.mode("overwrite").partitionBy("k").orc(sys.argv[1] + "/parts")
session.read.schema(rows.schema).orc(sys.argv[1] + "/rows").createOrReplaceTempView("v")
session.read.orc(sys.argv[1] + "/parts").createOrReplaceTempView("w")
session.sql("SELECT v.k, count(*), max(v.s), sum(v.d) FROM v JOIN w ON v.id = w.id GROUP BY v.k ORDER BY 1").collect()
session.sql("SELECT * FROM v LEFT ANTI JOIN w ON v.id = w.id + 5 WHERE v.t > DATE '2020-01-01'").collect()
session.sql("SELECT upper(s), CAST(d AS INT) FROM v WHERE s LIKE '1%' AND k IN (1, 2) LIMIT 3").collect()
session.sql("SELECT id, row_number() OVER (PARTITION BY k ORDER BY id) FROM v").toJSON().take(3)
session.createDataFrame([(1, "a")], "x INT, y STRING").repartition(2, "x").sortWithinPartitions("y").collect()
session.stop()
"""
_OPTIONS = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xlog:disable"


def main() -> int:
    """Write the archive; 0 also where Java cannot make one, since all works without it."""
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    archive = Path(sys.argv[1]).resolve()
    archive.parent.mkdir(parents=True, exist_ok=True)
    archive.unlink(missing_ok=True)
    with tempfile.TemporaryDirectory() as place:
        program = Path(place) / "program.py"
        program.write_text(_PROGRAM, encoding="utf-8")
        made = Path(place) / "archive"
        environment = os.environ | {
            "SPARK_SUBMIT_OPTS": f"{_OPTIONS} -XX:ArchiveClassesAtExit={made}",
            "PYSPARK_PYTHON": sys.executable,
            "PYSPARK_DRIVER_PYTHON": sys.executable,
            "SPARK_LOCAL_IP": "127.0.0.1",
        }
        submit = Path(sys.executable).parent / "spark-submit"
        done = subprocess.run([submit, program, place], env=environment, capture_output=True, text=True, check=False)
        if done.returncode or not made.exists():
            print(f"no archive of Spark's classes; the tests take longer:\n{done.stderr[-2000:]}", file=sys.stderr)
            return 0
        # Under its name only when it is whole; a rename across filesystems would not be one step.
        whole = archive.with_name(f".{archive.name}.{os.getpid()}")
        whole.write_bytes(made.read_bytes())
        whole.replace(archive)
    return 0


if __name__ == "__main__":
    sys.exit(main())
