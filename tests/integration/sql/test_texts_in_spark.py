"""Planned texts, resolved by Spark itself: exchanged names must still find their columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from airflow_hive_acid.format.jobs import Column, Source
from airflow_hive_acid.spark.session import step_session
from airflow_hive_acid.sql import parse_script, plan
from airflow_hive_acid.sql.model.plans import (
    DeleteTemplate,
    InsertTemplate,
    MergeTemplate,
    SelectTemplate,
    UpdateTemplate,
)
from airflow_hive_acid.sql.text.literals import text_of
from tests.unit.sql.catalog import Facts

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import SparkSession

    from airflow_hive_acid.sql.model.plans import Plan

pytestmark = pytest.mark.spark


_TABLES = {
    table.qualified_name: table
    for table in (
        Facts("default.t", (Column("id", "int"), Column("name", "string"))),
        Facts("default.order", (Column("id", "int"), Column("group", "string"))),
        Facts("a.x", (Column("id", "int"), Column("s", "struct<f:int,g:struct<h:int>>")), (Column("p", "int"),)),
        Facts("b.x", (Column("id", "int"), Column("v", "string"))),
        Facts("default.times", (Column("start", "int"), Column("end", "int"), Column("limit", "int"))),
    )
}
_SOURCE = Source("src", "csv", {"path": "/in"}, (Column("id", "int"), Column("v", "string")))

STATEMENTS = [
    "SELECT default.t.id, t.name FROM default.t",
    "SELECT a.x.s.g.h, x.s.f, s.g.h, a.x.p FROM a.x WHERE a.x.p = 1",
    "SELECT a.x.*, b.x.v FROM a.x JOIN b.x ON a.x.id = b.x.id",
    "SELECT t.ROW__ID, *, t.*, u.*, u.row__id.writeid FROM t JOIN b.x u ON t.id = u.id ORDER BY t.row__id.rowid",
    "SELECT ROW__ID, *, row__id.writeid FROM t",
    "SELECT x.id FROM a.x x WHERE EXISTS (SELECT 1 FROM b.x y WHERE y.id = x.id AND y.row__id.rowid > 0)",
    "WITH t AS (SELECT id FROM t) SELECT t.id FROM t",
    "FROM t SELECT id, count(*) AS n GROUP BY id HAVING n > 1",
    "SELECT /*+ BROADCAST(o) */ o.`group` FROM `order` o JOIN src ON o.id = src.id -- the end",
    "SELECT `order`.`group` FROM `order`",
    "SELECT * FROM (t JOIN b.x ON t.id = b.x.id)",
    "SELECT t.id, w.part FROM t LATERAL VIEW explode(split(name, ';')) w AS part",
    "SELECT id FROM t TABLESAMPLE (10 PERCENT) x UNION ALL SELECT id FROM src",
    "SELECT trunc(d, 'MM'), date_trunc('MONTH', d) FROM (SELECT date '2024-01-15' AS d) q",
    "SELECT lag(id) OVER w, sum(id) OVER (ORDER BY name DESC, id ROWS 1 PRECEDING) FROM t WINDOW w AS (ORDER BY id) "
    "DISTRIBUTE BY id SORT BY CASE WHEN id = 1 THEN name END, id IS DISTINCT FROM 1 DESC",
    "SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY id) FROM t ORDER BY ALL",
    "SELECT CAST(name AS CHAR(3)), count(*) FROM t GROUP BY CAST(name AS CHAR(3)) ORDER BY CAST(name AS CHAR(3)) DESC",
    "SELECT end FROM times ORDER BY times.end, end DESC, (end - start), CASE WHEN NOT end > 1 THEN end END, "
    "limit LIMIT 1",
    "VALUES (1, 'a'), (2, \"it's\"), (3, 'a' 'b')",
    "INSERT INTO t SELECT a.x.id, concat('p', p) FROM a.x",
    "WITH q AS (SELECT id, v FROM src) INSERT INTO t SELECT * FROM q",
    "INSERT INTO t (name) VALUES ('x')",
    "UPDATE a.x SET id = a.x.id + (SELECT max(id) FROM b.x), s = NULL WHERE a.x.s.f = 1 AND p IN (SELECT id FROM src)",
    "DELETE FROM `order` WHERE `order`.`group` = 'x' OR row__id.writeid = 3 -- or so\n OR id = 1",
    "DELETE FROM t x WHERE x.id = (SELECT max(id) FROM t) AND NOT EXISTS (SELECT 1 FROM src WHERE src.id = x.id)",
    "MERGE INTO a.x USING src ON a.x.id = src.id AND x.p = 1 WHEN MATCHED AND src.v = 'd' THEN DELETE "
    "WHEN MATCHED THEN UPDATE SET id = a.x.id + src.id "
    "WHEN NOT MATCHED AND src.v > 'a' THEN INSERT (id, p) VALUES (src.id, 1)",
    "MERGE INTO t USING (SELECT b.x.id, max(v) AS v FROM b.x GROUP BY b.x.id) q ON t.id = q.id "
    "WHEN NOT MATCHED THEN INSERT VALUES (q.id, CASE WHEN q.v > 'a' THEN q.v ELSE 'b' END)",
    "MERGE INTO t USING b.x ON t.id = x.id WHEN MATCHED THEN UPDATE SET name = x.v",
]


LITERALS = [
    r"'\U0001F600'", r"'\ud83d\ude00'", r"'\u263a'", r"'\ud83d!'", r"'\u12'", r"'\065\101\377'", r"'a\%b\_c'",
    r"'\a\q\x41'",
    r"'\n\t\r\b\Z\0'", r"'\\n'", r"'it\'s \"it\"'", r'"\u00e4\""', "'a\\\nb'", "'plain'",
]  # fmt: skip


def test_texts_in_quotes_are_read_as_spark_reads_them(spark: SparkSession) -> None:
    """Partitions are chosen by our reading, and rows by Spark's."""
    read = spark.sql(f"SELECT {', '.join(LITERALS)}").collect()[0]
    assert [text_of(literal) for literal in LITERALS] == list(read)


def test_two_texts_in_a_row_are_one(spark: SparkSession) -> None:
    """A quote is not made by doubling it, as in Hive: Spark 4 would read ``it's``, and we choose partitions by its."""
    session = step_session(spark, {})
    read = session.sql("""SELECT 'it''s', "a""b", 'a' 'b', 'it\\'s'""").collect()[0]
    assert list(read) == ["its", "ab", "ab", "it's"]


_ROW_ID = "named_struct('writeid', 1L, 'bucketid', 1, 'rowid', 1L) AS row__id"
_IS_DELETED = "false AS row__is__deleted"


def _offer(spark: SparkSession, name: str, columns: Iterable[Column], *virtual: str) -> None:
    texts = [f"CAST(NULL AS {column.type}) AS `{column.name}`" for column in columns]
    texts += virtual
    spark.range(1).selectExpr(*texts).createOrReplaceTempView(name)


def _resolve(spark: SparkSession, plan: Plan) -> None:
    """Let Spark's analyser resolve the texts the way the steps of a job use them."""
    from pyspark.sql import functions as F

    match plan.template:
        case SelectTemplate(query=query) | InsertTemplate(query=query):
            assert spark.sql(query).schema.fields
        case UpdateTemplate(alias=alias, assignments=assignments, where=where):
            rows = spark.table("target").alias(alias)
            rows = rows if where is None else rows.where(F.expr(where))
            assert rows.select(*[F.expr(a.expression) for a in assignments]).schema.fields
        case DeleteTemplate(alias=alias, where=where):
            assert where is None or spark.table("target").alias(alias).where(F.expr(where)).schema.fields
        case MergeTemplate() as merge:
            source = spark.sql(merge.source).alias(merge.source_alias)
            joined = spark.table("target").alias(merge.target_alias).join(source, F.expr(merge.on))
            for clause in merge.clauses:
                rows = joined if clause.matched else source
                rows = rows if clause.condition is None else rows.where(F.expr(clause.condition))
                assert len(rows.select(*[F.expr(a.expression) for a in clause.assignments]).schema.fields) == len(
                    clause.assignments
                )


@pytest.mark.parametrize("sql", STATEMENTS)
def test_spark_resolves_what_is_planned(spark: SparkSession, sql: str) -> None:
    (statement,) = parse_script(sql)
    planned = plan(statement, _TABLES.__getitem__, {"src": _SOURCE})  # type: ignore[arg-type]
    for read in planned.reads:
        table = _TABLES[read.table]
        virtual = (_ROW_ID, _IS_DELETED) if read.pseudo_columns else ()
        _offer(spark, read.view, (*table.columns, *table.partition_columns), *virtual)
    for source in planned.sources:
        _offer(spark, source.name, source.columns)
    if planned.write is not None:
        target = _TABLES[planned.write.table]
        _offer(spark, "target", (*target.columns, *target.partition_columns), _ROW_ID)
    _resolve(spark, planned)
