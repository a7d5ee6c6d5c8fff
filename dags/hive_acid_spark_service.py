"""Spark services that tasks share; see ``airflow_hive_acid.dag_factories.services``."""

from airflow_hive_acid.dag_factories import spark_service_dags

# Airflow finds each DAG by itself when it is made; the names are those of [hive_acid] spark_services.
dags = spark_service_dags()
