"""Orders from a directory of JSON files into shop.orders and shop.customers: one stream each, exactly once.

spark-submit stream_orders.py <directory of JSON files> <directory of checkpoints>
"""

import sys

from pyspark.sql import SparkSession

from airflow_hive_acid.spark.streaming import hive_acid_sink


def main(source: str, checkpoints: str) -> None:
    spark = SparkSession.builder.getOrCreate()
    schema = "id bigint, customer string, city string, amount decimal(10,2), day date, at timestamp"
    orders = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).json(source)

    # Every micro-batch is one transaction; partitions come from the rows.
    append = hive_acid_sink("shop.orders", stream="orders", on_new_column="ignore")
    # A row for each customer: the latest of a micro-batch changes the one that is there, or is new.
    upsert = hive_acid_sink(
        "shop.customers", stream="customers", mode="upsert", keys=["customer"], latest_by="at", on_new_column="ignore"
    )
    for name, rows, sink in (("orders", orders, append), ("customers", orders, upsert)):
        query = (
            rows.writeStream.queryName(name)
            .foreachBatch(sink)
            .option("checkpointLocation", f"{checkpoints}/{name}")
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        sink.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
