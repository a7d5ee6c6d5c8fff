"""The demo; see ``airflow_hive_acid.dag_factories.demo``."""

from airflow_hive_acid.dag_factories.demo.dag import demo_dag

# Airflow looks for a DAG in the globals of this file.
dag = demo_dag()
