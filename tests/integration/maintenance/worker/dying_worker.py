"""A Worker in a process of its own whose Spark job never ends; the test kills it.

python dying_worker.py <metastore URL> <warehouse> <worker id>
"""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

from airflow_hive_acid.filesystem import open_filesystem
from airflow_hive_acid.maintenance import run_worker
from airflow_hive_acid.metastore import MetastoreClient
from airflow_hive_acid.settings import Settings, Source

if TYPE_CHECKING:
    from airflow_hive_acid.format.jobs import JobResult, JobSpec


def main(url: str, warehouse: str, worker: str) -> None:
    """Claim, begin, write half a file, say so, and hang."""
    filesystem = open_filesystem(warehouse)

    def run(spec: JobSpec) -> JobResult:
        directory = f"{spec.staging}/data/base_half"
        filesystem.make_directory(directory)
        filesystem.write_text(f"{directory}/bucket_00000", "half a li")
        sys.stdout.write(f"{spec.staging}\n")
        sys.stdout.flush()
        time.sleep(600)
        raise AssertionError("nobody killed us")

    settings = Settings({Source.CONNECTION: {"hive.txn.opentxn.timeout": "150ms"}})
    with MetastoreClient(url, settings, user="ann", host="host1") as client:
        run_worker(client, filesystem, run, worker)


if __name__ == "__main__":
    main(*sys.argv[1:])
