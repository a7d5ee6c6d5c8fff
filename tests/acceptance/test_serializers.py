"""A site whose Sparks serialise with Kryo, as guides to tuning advise it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from airflow_hive_acid.engine import Engine, SparkSubmitLauncher
from airflow_hive_acid.maintenance.decisions import Kind
from airflow_hive_acid.metastore import MetastoreClient

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.spark]


@pytest.mark.parametrize(
    "accelerator", ["auto", pytest.param("off", marks=pytest.mark.repeats("the same without the jar"))]
)
def test_rows_are_changed_and_compacted_where_spark_serialises_with_kryo(tmp_path: Path, accelerator: str) -> None:
    """And that demand that classes are registered, as those do who write applications of their own."""
    (tmp_path / "spark-defaults.conf").write_text(
        "spark.serializer org.apache.spark.serializer.KryoSerializer\nspark.kryo.registrationRequired true\n"
    )
    launcher = SparkSubmitLauncher(
        "local[2]",
        {"spark.hive.acid.range.bytes": "20k"},
        log_directory=tmp_path / "logs",
        accelerator=accelerator,
        environment={"SPARK_CONF_DIR": str(tmp_path)},
    )
    with MetastoreClient(f"sqlite:///{tmp_path / 'metastore.db'}") as client:
        client.create_schema()
        engine = Engine(client, launcher, f"file:{tmp_path}/w")
        try:
            engine.run(
                "CREATE DATABASE w; CREATE TABLE w.t (a INT, b STRING) PARTITIONED BY (p INT) STORED AS ORC "
                "TBLPROPERTIES ('transactional'='true', 'orc.compress'='NONE'); "
                "INSERT INTO w.t SELECT id, uuid(), id % 2 FROM range(0, 9000, 1, 1); "
                "UPDATE w.t SET b = 'x' WHERE a % 3 = 0; DELETE FROM w.t WHERE a % 3 = 1; "
                "UPDATE w.t SET p = 5 WHERE a = 2; "
                "MERGE INTO w.t USING (SELECT 6 AS i UNION ALL SELECT -1) s ON t.a = s.i "
                "WHEN MATCHED THEN UPDATE SET b = 'y' WHEN NOT MATCHED THEN INSERT VALUES (i, 'z', 0)"
            )
            look = "SELECT count(*), sum(a), sum(IF(b IN ('x', 'y', 'z'), 1, 0)), sum(p) FROM w.t"
            rows = engine.query(look).rows
            assert rows[0][0] == 6001
            for partition, kind in {0: "minor", 1: "major", 5: "rebalance"}.items():
                engine.run(f"ALTER TABLE w.t PARTITION (p = {partition}) COMPACT '{kind}'")
                (outcome,) = engine.run_compactions("w")
                assert outcome.kind is Kind.COMPACTED, outcome
                assert engine.query(look).rows == rows
        finally:
            engine.close()
