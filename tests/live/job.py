"""A job that begins, says so, and goes on when it is told to."""

import os
import time
from pathlib import Path


def main(job, directory):
    here = Path(directory)
    (here / f"driver-{os.getpid()}").touch()
    deadline = time.monotonic() + 600
    while not (here / "go-on").exists():
        assert time.monotonic() < deadline, "nobody let the job go on"
        time.sleep(0.05)
    job.insert("w.killed", job.spark.range(7).selectExpr("CAST(id AS INT)"))
    (here / f"done-{os.getpid()}").touch()
    return os.getpid()
