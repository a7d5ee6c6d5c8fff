"""Airflow sensors: wait for locks."""
