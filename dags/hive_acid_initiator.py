"""The Initiator of ACID tables; see ``airflow_hive_acid.dag_factories.maintenance``."""

from airflow_hive_acid.dag_factories import initiator_dag

# Airflow looks for a DAG in the globals of this file.
dag = initiator_dag()
