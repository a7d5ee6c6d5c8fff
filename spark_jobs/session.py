"""A Spark application that runs the steps it finds in a spool directory, one after the other.

    spark-submit … session.py --spool file:///tmp/hive-acid/spool [--idle-seconds 60]

The protocol is described in ``airflow_hive_acid.spark.jobs.spool``; the control plane's end is
``engine/applications/spool.py``.
"""

from __future__ import annotations

import argparse

from airflow_hive_acid.spark.jobs.spool import Spool
from airflow_hive_acid.spark.session import session_builder


def main() -> None:
    """Serve the spool, then leave."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--spool", required=True, help="URI of the spool directory")
    parser.add_argument("--idle-seconds", type=float, default=60, help="leave after so long without a sign of life")
    arguments = parser.parse_args()
    spark = session_builder().getOrCreate()
    try:
        Spool(spark, arguments.spool, arguments.idle_seconds).serve()
    finally:
        spark.stop()


if __name__ == "__main__":
    main()
