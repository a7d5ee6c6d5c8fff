"""Gives the tests in this folder the fixtures ``hive_acid`` and ``run_dag``."""

pytest_plugins = ["airflow_hive_acid.testing.pytest_plugin"]
