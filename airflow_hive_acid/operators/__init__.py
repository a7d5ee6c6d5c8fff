"""Airflow operators: SQL on transactional tables, compaction requests."""
