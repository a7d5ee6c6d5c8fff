"""The purge of the compaction history; see ``airflow_hive_acid.dag_factories.maintenance``."""

from airflow_hive_acid.dag_factories import history_purge_dag

# Airflow looks for a DAG in the globals of this file.
dag = history_purge_dag()
