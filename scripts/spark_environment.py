"""Puts another PySpark than that of ``make install`` into ``build/sparks/<version>``, with the optional jar for it.

    python scripts/spark_environment.py 3.5.9

prints where it is. Tests run with it when that is the first of their ``PYTHONPATH``, and ``SPARK_HOME`` is ``pyspark``
in it. It comes from PyPI; what is there is kept.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def main(version: str) -> None:
    """Make what is missing."""
    site = ROOT / "build" / "sparks" / version
    if not (site / f"pyspark-{version}.dist-info").exists():
        print(f"installing PySpark {version} into {site}", file=sys.stderr)
        shutil.rmtree(site, ignore_errors=True)
        command = [sys.executable, "-m", "pip", "install", "-q", "--target", str(site), f"pyspark=={version}"]
        subprocess.run(command, check=True)
    jar = [sys.executable, str(ROOT / "scripts" / "build_accelerator.py"), "--spark-home", str(site / "pyspark")]
    subprocess.run(jar, check=True, stdout=sys.stderr)
    print(site)


if __name__ == "__main__":
    main(sys.argv[1])
