"""A DAG that keeps a copy of a table in Iceberg in step with it: it runs for each commit, whoever commits.

Readers can move to Iceberg first, while the pipelines that write the Hive table stay as they are. Each run makes one
commit of the copy; commits that come while a run is busy are the next run's, all together. Once a night both sides are
compared. When readers and writers are to move for good, ``orders_cut_over`` is triggered by hand: from then on the
table is read-only, and the copy is what is written.

Put it into your DAGs folder. It needs a connection ``hive_acid_default``, the table ``sales.orders``, and a Spark that
Iceberg has a jar for (docs/how-to/streams/mirrors.md).
"""

from __future__ import annotations

from datetime import datetime

from airflow.sdk import DAG

from airflow_hive_acid.operators import HiveAcidMirrorCutOverOperator, HiveAcidMirrorOperator
from airflow_hive_acid.triggers import watched_table

SPARK = {
    "spark.jars.packages": "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0",
    "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
    "spark.sql.catalog.lake.type": "hadoop",
    "spark.sql.catalog.lake.warehouse": "s3a://lake/warehouse",
}
MIRROR = {"table": "sales.orders", "target": "iceberg:lake.sales.orders", "key": ["id"], "spark_conf": SPARK}

with DAG(
    "orders_mirror", schedule=[watched_table("sales.orders")], catchup=False, max_active_runs=1, tags=["hive-acid"]
) as orders_mirror:
    HiveAcidMirrorOperator(task_id="follow", retries=3, **MIRROR)

with DAG(
    "orders_mirror_check", start_date=datetime(2026, 1, 1), schedule="@daily", catchup=False, tags=["hive-acid"]
) as orders_mirror_check:
    HiveAcidMirrorOperator(task_id="compare", verify=True, **MIRROR)

with DAG("orders_cut_over", schedule=None, catchup=False, tags=["hive-acid"]) as orders_cut_over:
    HiveAcidMirrorCutOverOperator(
        task_id="cut_over", retries=3, table=MIRROR["table"], target=MIRROR["target"], spark_conf=SPARK
    )
