"""The terminal surface, ``hive-acid``. Imports the engine and never Airflow; heavy parts only when they are needed."""
