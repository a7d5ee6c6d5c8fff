"""Airflow triggers: what waits without a worker slot."""
