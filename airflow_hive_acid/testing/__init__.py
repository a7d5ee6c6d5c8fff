"""For tests of your own DAGs: a metastore and a warehouse of a test's own, and what a test wants to know of them.

With pytest, ``pytest_plugins = ["airflow_hive_acid.testing.pytest_plugin"]`` in the top ``conftest.py`` gives the
fixtures ``hive_acid`` and ``run_dag``; without it, use :class:`HiveAcidTestbed` as a context manager, and
``testing.dags``. Needs Java and ``pyspark`` only when statements run.
"""

from airflow_hive_acid.testing.checks import assert_aborted, assert_at_rest, assert_committed, assert_rows
from airflow_hive_acid.testing.testbed import HiveAcidTestbed

__all__ = ["HiveAcidTestbed", "assert_aborted", "assert_at_rest", "assert_committed", "assert_rows"]
