"""Tests of an Airflow 2, which lies in an environment of its own (``make test-matrix CELLS=airflow-2.11``)."""

from __future__ import annotations

import os

# The program ``airflow`` of that environment. Without one there is nothing to test.
collect_ignore_glob = [] if "HIVE_ACID_AIRFLOW_2" in os.environ else ["test_*.py"]
