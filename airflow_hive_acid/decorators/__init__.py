"""TaskFlow decorators: ``@task.hive_acid_sql`` and ``@task.hive_acid_pyspark``."""
