"""Hive's ACID tables run by Airflow, with Spark as the only engine.

Importing this package imports neither Airflow nor PySpark; each room is imported by its own name, for example
``from airflow_hive_acid.metastore import MetastoreClient``.
"""

__version__ = "0.1.0"
