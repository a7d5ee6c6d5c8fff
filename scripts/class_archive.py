"""Makes an archive of the classes that a Spark loads when it starts and works, for the many Sparks of the tests.

    python scripts/class_archive.py ARCHIVE

A short application costs 7.8 CPU seconds with it and 12.5 without. ``tests/conftest.py`` gives it to each Spark of the
tests. Users have ``hive-acid spark archive``.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from airflow_hive_acid.engine.applications.class_archive import make_class_archive
from airflow_hive_acid.errors import HiveAcidError


def main() -> int:
    """Write the archive; 0 also where Java cannot make one, since all works without it."""
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    archive = Path(sys.argv[1]).resolve()
    archive.unlink(missing_ok=True)
    try:
        make_class_archive(str(Path(sys.executable).parent / "spark-submit"), archive, os.environ)
    except HiveAcidError as error:
        print(f"{error}\nThe tests take longer.", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
