"""The Worker of ACID tables; see ``airflow_hive_acid.dag_factories.maintenance``."""

from airflow_hive_acid.dag_factories import worker_dag

# Airflow looks for a DAG in the globals of this file.
dag = worker_dag()
