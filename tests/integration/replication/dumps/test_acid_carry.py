"""Rows of new write ids carried by Spark out of what a compaction of the source has left."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
import sqlalchemy as sa

from airflow_hive_acid.engine import Engine
from airflow_hive_acid.engine.changes import change_range
from airflow_hive_acid.errors import ChangesNotCompleteError
from airflow_hive_acid.maintenance import run_cleaner
from airflow_hive_acid.metastore.names.objects import TableName
from airflow_hive_acid.metastore.schema.hive_transactions import COMPACTION_QUEUE, TXNS
from airflow_hive_acid.replication.acid.sync import sync_tables
from airflow_hive_acid.replication.dumps.dump import Scope
from airflow_hive_acid.replication.dumps.exports import export_table
from airflow_hive_acid.replication.dumps.import_plan import Asked
from airflow_hive_acid.replication.dumps.imports import import_table
from airflow_hive_acid.spark.jobs.run import execute

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from airflow_hive_acid.replication.site import Site


class InProcess:
    """A launcher, its application, and a site's Spark in one."""

    is_alive = True

    def __init__(self, spark: SparkSession, rows: str) -> None:
        self._spark, self._rows = spark, rows
        self.application_id = spark.sparkContext.applicationId
        self.steps: list[str] = []

    def start(self, application=None):
        return self

    def wait_ready(self):
        return self.application_id

    def rows_uri(self, job_id):
        return f"{self._rows}/{job_id}.json"

    def read_rows(self, uri):
        with open(uri.removeprefix("file:"), encoding="utf-8") as file:
            return iter([json.loads(line) for line in file])

    def run(self, spec):
        self.steps.append(spec.step.kind)
        result = execute(self._spark, spec)
        assert result.error is None, result.error
        return result

    def cancel(self):
        pass

    def close(self):
        pass


def pass_time(site: Site) -> None:
    """Nothing that has happened is recent any more: the Cleaner's delay is over."""

    def operation(connection: sa.Connection) -> None:
        connection.execute(sa.update(COMPACTION_QUEUE).values(CQ_COMMIT_TIME=1))
        connection.execute(sa.update(TXNS).where(TXNS.c.TXN_STATE == "c").values(TXN_STARTED=1))

    site.client.database.run(operation)


@pytest.mark.spark
@pytest.mark.backends("sqlite")
@pytest.mark.rule("R18")
def test_rows_and_deletes_of_new_write_ids_keep_their_ids(
    primary: Site, replica: Site, spark: SparkSession, tmp_path
) -> None:
    """A minor compaction over what is at the replica and what is new, and its Cleaner, between two syncs.

    The replica has write ids 1 and 2; the source's one delta and delete delta hold 1 to 5, of which 4 was aborted.
    """
    (tmp_path / "rows").mkdir()
    here, there = (InProcess(spark, f"file:{tmp_path}/rows") for _ in range(2))
    source, target = replace(primary, run_job=here.run), replace(replica, run_job=there.run)
    with Engine(source.client, here, None) as engine, Engine(target.client, there, None) as reader:
        engine.run(
            "CREATE TABLE t (id INT, v STRING) STORED AS ORC TBLPROPERTIES ('transactional'='true');"
            "INSERT INTO t SELECT id, concat('v', id) FROM (SELECT explode(sequence(1, 200)) AS id) s;"
            "DELETE FROM t WHERE id = 7"
        )
        sync_tables(source, target, "p", ["default.t"])
        engine.run("UPDATE t SET v = 'changed' WHERE id IN (1, 2)")
        with source.client.begin({"default.t": "insert"}) as given_up:
            given_up.abort()
        engine.run("INSERT INTO t VALUES (1000, 'new'); ALTER TABLE t COMPACT 'minor'")
        engine.run_compactions("worker")
        pass_time(source)
        run_cleaner(source.client, source.filesystem)
        report = sync_tables(source, target, "p", ["default.t"]).tables[0]
        assert there.steps == ["compact"], report
        assert (report.carried, report.directories, report.files) == (2, 2, 0)
        rows = "SELECT row__id, id, v FROM t ORDER BY id"
        wanted = list(engine.query(rows).rows)
        assert list(reader.query(rows).rows) == wanted
        assert len(wanted) == 200
        reader.run("ALTER TABLE t COMPACT 'major'")
        reader.run_compactions("replica")
        engine.run("DELETE FROM t WHERE id = 1000")
        sync_tables(source, target, "p", ["default.t"])
        assert list(reader.query(rows).rows) == list(engine.query(rows).rows)


@pytest.mark.crossing("batches x replication x export x changes")
@pytest.mark.spark
@pytest.mark.backends("sqlite")
@pytest.mark.rule("R18")
def test_a_batch_that_is_being_written_travels_is_exported_and_read_as_changes(
    primary: Site, replica: Site, spark: SparkSession, tmp_path
) -> None:
    """Real files, open in the driver: the committed rows of the batch, and no others, wherever they are looked at."""
    (tmp_path / "rows").mkdir()
    here, there = (InProcess(spark, f"file:{tmp_path}/rows") for _ in range(2))
    source, target = replace(primary, run_job=here.run), replace(replica, run_job=there.run)
    rows, ids = "SELECT row__id, id, v FROM t ORDER BY id", "SELECT id FROM %s ORDER BY id"
    changes = "SELECT change__kind, change__writeid, id FROM t CHANGES BETWEEN %d AND %d ORDER BY change__writeid, id"
    with Engine(source.client, here, None) as engine, Engine(target.client, there, None) as reader:
        engine.run(
            "CREATE TABLE t (id INT, v STRING) STORED AS ORC TBLPROPERTIES ('transactional'='true');"
            "INSERT INTO t VALUES (1, 'before')"
        )
        with engine.batch("default.t", transactions=4) as batch:  # write ids 2, the anchor, to 6
            batch.write([{"id": 2, "v": "b"}, {"id": 3, "v": "c"}])
            batch.commit()
            batch.write([{"id": 4, "v": "aborted"}])
            batch.abort()
            batch.write([{"id": 5, "v": "e"}])
            batch.commit()
            place = source.client.catalog.get_table("default.t").location
            known = {e.name for e in source.filesystem.list_files(place)}
            sync_tables(source, target, "p", ["default.t"])
            beside = {e.name for e in source.filesystem.list_files(place)}
            assert beside == known  # the replica's Spark writes nothing at the source
            wanted = list(engine.query(rows).rows)
            assert [row[1] for row in wanted] == [1, 2, 3, 5]
            assert list(reader.query(rows).rows) == wanted
            assert there.steps.count("compact") == 1
            seen = source.client.get_valid_write_ids(["default.t"])["default.t"]
            written = [i for i in range(2, seen.high_watermark + 1) if seen.is_valid(i)]
            assert [list(row) for row in engine.query(changes % (written[0], written[-1])).rows] == [
                ["insert", written[0], 2], ["insert", written[0], 3], ["insert", written[-1], 5],
            ]  # fmt: skip
            assert change_range(source.client, "default.t", 1).last == 1  # the anchor is open
            with pytest.raises(ChangesNotCompleteError, match="write ids 2 are open; read up to 1 now"):
                engine.query(changes % (1, written[-1]))
            export_table(source, "default.t", f"file:{tmp_path}/dump", scope=Scope.ALL)
            batch.write([{"id": 6, "v": "later"}])
            batch.commit()
        import_table(target, f"file:{tmp_path}/dump", Asked(TableName("default", "copied")))
        assert [row[0] for row in reader.query(ids % "copied").rows] == [1, 2, 3, 5]
        engine.run("DELETE FROM t WHERE id = 3")
        sync_tables(source, target, "p", ["default.t"])
        wanted = list(engine.query(rows).rows)
        assert [row[1] for row in wanted] == [1, 2, 5, 6]
        assert list(reader.query(rows).rows) == wanted
        last = change_range(source.client, "default.t", 1).last
        assert [(row[0], row[2]) for row in engine.query(changes % (1, last)).rows] == [
            ("insert", 1), ("insert", 2), ("insert", 3), ("insert", 5), ("insert", 6), ("delete", 3)
        ]  # fmt: skip
