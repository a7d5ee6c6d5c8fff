"""Replication of tables by policies; see ``airflow_hive_acid.dag_factories.replication``."""

from airflow_hive_acid.dag_factories import replication_dags

# Airflow finds each DAG by itself when it is made; the policies are those of [hive_acid] replication_policies.
dags = replication_dags()
