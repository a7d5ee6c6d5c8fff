"""The page "Hive ACID" in Airflow: a plugin with a JSON API over the metastores, and static files that show it.

``hive_acid`` is what Airflow loads; everything else is imported by the API server alone, when it is first asked.
"""
