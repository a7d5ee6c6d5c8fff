"""A Spark application that serves any number of callers, each through a spool of its own.

    spark-submit … service.py --spool URI --service URI --incarnation NAME --places 4 --max-callers 32 [--max-idle 3600]

Whoever started it says through the spool that it is to stay, or to leave; see ``airflow_hive_acid.spark.jobs.service``.
"""

from __future__ import annotations

import argparse
import threading

from airflow_hive_acid.spark.jobs.service import Service
from airflow_hive_acid.spark.jobs.spool import Spool
from airflow_hive_acid.spark.session import session_builder


def main() -> None:
    """Serve, then leave."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--spool", required=True, help="URI of the spool of whoever started this")
    parser.add_argument("--service", required=True, help="URI of the service's directory")
    parser.add_argument("--incarnation", required=True, help="name of the directory of this start, in there")
    parser.add_argument("--places", type=int, required=True, help="steps at a time")
    parser.add_argument("--max-callers", type=int, required=True, help="callers at a time")
    parser.add_argument("--max-idle", type=float, help="leave after so many seconds without a caller")
    parser.add_argument("--idle-seconds", type=float, default=60, help="how long a caller may be silent")
    arguments = parser.parse_args()
    spark = session_builder().getOrCreate()
    service = Service(
        spark,
        arguments.service,
        arguments.incarnation,
        places=arguments.places,
        max_callers=arguments.max_callers,
        max_idle=arguments.max_idle,
        idle_seconds=arguments.idle_seconds,
    )
    serving = threading.Thread(target=service.serve, name="service", daemon=True)
    serving.start()
    try:
        service.require_storage()
        Spool(spark, arguments.spool, arguments.idle_seconds, is_over=lambda: service.has_ended).serve()
    finally:
        service.end()
        serving.join(10)
        spark.stop()


if __name__ == "__main__":
    main()
