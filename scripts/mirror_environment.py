"""Makes the environment of ``make test-mirror`` in ``build/mirror``: Iceberg, Delta, and a Spark they have jars for.

PySpark comes from PyPI, the jars through Maven. What is there is kept. Nothing of it is a dependency of this package.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
HOME = ROOT / "build" / "mirror"
SPARK = "4.1.4"  # the newest line that both have jars for
ARTIFACTS = (
    "io.delta:delta-spark_4.1_2.13:4.4.0",
    "io.delta:delta-storage:4.4.0",
    "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0",
    "org.xerial:sqlite-jdbc:3.50.3.0",
)


def main() -> None:
    """Make what is missing."""
    site = HOME / "site"
    if not (site / f"pyspark-{SPARK}.dist-info").exists():
        print(f"installing PySpark {SPARK} into {site}", file=sys.stderr)
        shutil.rmtree(site, ignore_errors=True)
        command = [sys.executable, "-m", "pip", "install", "-q", "--target", str(site), f"pyspark=={SPARK}"]
        subprocess.run(command, check=True)
    for artifact in ARTIFACTS:
        _, name, version = artifact.split(":")
        if (HOME / "jars" / f"{name}-{version}.jar").exists():
            continue
        maven = shutil.which("mvn")
        if maven is None:
            sys.exit("Maven is needed to fetch the jars: install it (Debian: apt-get install maven)")
        goal = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy"
        where = f"-DoutputDirectory={HOME / 'jars'}"
        subprocess.run([maven, "-q", "-B", goal, f"-Dartifact={artifact}", where], check=True, cwd=HOME)


if __name__ == "__main__":
    main()
