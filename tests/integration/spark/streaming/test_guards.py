"""What the SQL of a step cannot reach, in whatever clause it says so."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyspark
import pytest
from pyspark.errors import ParseException
from pyspark.sql import SparkSession

from airflow_hive_acid.errors import (
    ConfigurationError,
    HiveAcidError,
    InvalidArgumentsError,
    SqlSyntaxError,
    UnsupportedStatementError,
)
from airflow_hive_acid.format.jobs import (
    Append,
    Assignment,
    Column,
    Delete,
    Export,
    Insert,
    JobSpec,
    Merge,
    MergeClause,
    Select,
    Source,
    Update,
    View,
)
from airflow_hive_acid.spark import guards
from airflow_hive_acid.spark.failures import explain
from airflow_hive_acid.spark.parsed_texts import check_texts
from airflow_hive_acid.spark.session import step_session
from airflow_hive_acid.spark.streaming.job import rows_of
from airflow_hive_acid.spark.versions import version_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from airflow_hive_acid.format.jobs import Step

pytestmark = pytest.mark.spark


@pytest.fixture
def table(acid_table: Callable[..., Any]) -> Any:
    return acid_table("id int")


def test_no_clause_reads_a_file_by_its_path(table: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the relations of the parsed text, and, if one were not seen there, by the session, which knows no files."""
    secret = tmp_path / "secret.txt"
    secret.write_text("secret-of-the-file\n")
    file = f"text.`{secret.as_uri()}`"
    queries = (
        "SELECT * FROM {}", "SELECT * FROM IDENTIFIER('{}')", "SELECT * FROM (TABLE {})",
        "SELECT (SELECT max(value) FROM IDENTIFIER('{}'))", "SELECT 1 WHERE EXISTS (TABLE {})",
        "WITH x AS (SELECT * FROM {}) SELECT * FROM x", "SELECT * FROM range(1), LATERAL (SELECT * FROM {})",
    )  # fmt: skip
    for seen, said in ((True, "as a relation"), (False, "TABLE_OR_VIEW_NOT_FOUND")):
        if not seen:
            monkeypatch.setattr("airflow_hive_acid.spark.jobs.run.check_texts", lambda session, spec: None)
        for number, query in enumerate(queries if seen else queries[:2]):
            with pytest.raises(HiveAcidError, match=said) as refused:
                table.run(Select(query.format(file), f"{table.location}/rows-{number}"))
            assert "secret-of-the-file" not in str(refused.value)


REFUSED = r"function (reflect|java_method|range|stack) is refused by spark\.hive\.acid\.functions\.refused"
SPARK = version_of(pyspark.__version__)
RELATIONS = (
    "SELECT * FROM v", "TABLE v", "FROM V |> WHERE id > 1", "SELECT * FROM range(3)", "VALUES (1)",
    "WITH a AS (WITH b AS (FROM v) FROM b) SELECT * FROM a JOIN (WITH c AS (SELECT 1) FROM c)",
    "SELECT id, explode(array(1)) FROM v WHERE id IN (FROM v) ORDER BY (SELECT max(id) FROM v)",
    "SELECT row_number() OVER w FROM v WINDOW w AS (ORDER BY (SELECT max(id) FROM v))",
    "SELECT * FROM v, LATERAL (SELECT * FROM range(v.id)) PIVOT (max(1) FOR id IN (1))",
)  # fmt: skip
if SPARK < (4, 0):
    # Spark 3.5 has no pipes, and no FROM without SELECT.
    RELATIONS = tuple(query.replace("(FROM ", "(SELECT * FROM ") for query in RELATIONS if "|>" not in query)
    RELATIONS = tuple(re.sub(r"\) FROM ([bc])\b", r") SELECT * FROM \1", query) for query in RELATIONS)


def test_spark_itself_says_which_relations_a_text_names(spark: SparkSession, table: Any) -> None:
    """Every clause in which ``v`` is fine is refused with the name of something else in the place of ``v``."""
    session = step_session(spark, {})

    def refused(step: Any) -> str | None:
        spec = JobSpec("j", step, (View("v", table.snapshot()),))
        try:
            check_texts(session, spec)
        except (HiveAcidError, ParseException) as failure:
            return str(explain(session, failure, []))
        return None

    for query in RELATIONS:
        assert refused(Select(query, "file:/x")) is None, query
        for other in ("w", "global_temp.v", "ice.db.v", "text.`/etc/passwd`"):
            changed = query.replace("FROM V", "FROM v").replace("FROM v", f"FROM {other}").replace("TABLE v", "TABLE w")
            found = refused(Select(changed, "file:/x"))
            assert (found is None) is (changed == query), changed
            assert found is None or "as a relation" in found
    if SPARK >= (4, 1):  # before, it is a function that does not exist
        stream = Export("SELECT * FROM STREAM(ice.db.t)", "file:/x", "orc", {}, (), "file:/y")
        assert "`ice`.`db`.`t` as a relation" in (refused(stream) or "")
    for query, said in (
        ("SELECT * FROM explode(TABLE(ice.db.t))", "`ice`.`db`.`t` as a relation"),
        ("SELECT * FROM v VERSION AS OF 1", "RelationTimeTravel"),
        ("SELECT * FROM (FROM v MAP id USING 'cat' AS x)", "USING are not supported"),
        ("WITH c AS (FROM v MAP id USING 'cat' AS x) SELECT * FROM c", "USING are not supported"),
        ("INSERT INTO v SELECT 1", "PARSE_SYNTAX_ERROR"),
        ("DROP VIEW v", "PARSE_SYNTAX_ERROR"),
    ):
        assert said in (refused(Export(query, "file:/x", "orc", {}, (), "file:/y")) or ""), query
    assert refused(Select("SELECT 'ScriptTransformation', ': ScriptTransformation' FROM v", "file:/x")) is None


def test_conditions_and_values_name_only_views(spark: SparkSession, table: Any) -> None:
    session, target = step_session(spark, {}), table.snapshot(1)

    def merge(source: str, on: str, *clauses: MergeClause) -> Merge:
        return Merge(target, "t", source, "s", on, clauses, 1, 0, 1)

    for text in ("id IN (TABLE w)", "EXISTS (SELECT max(id) FROM w)"):
        assigned = (Assignment("id", f"if({text}, 1, 2)"),)
        steps: tuple[Step, ...] = (
            Delete(target, "t", text, 1, 0),
            Update(target, "t", (), text, 1, 0, 1),
            Update(target, "t", assigned, None, 1, 0, 1),
            merge("SELECT * FROM w", "true"),
            merge("SELECT 1 AS i", text),
            merge("SELECT 1 AS i", "t.id = s.i", MergeClause("delete", True, text)),
            merge("SELECT 1 AS i", "t.id = s.i", MergeClause("insert", False, None, assigned)),
            Insert(target, "SELECT * FROM w", 1, 0),
            Append(Insert(target, "SELECT * FROM w", 1, 0), "b", 1, 2),
        )
        for step in steps:
            with pytest.raises(UnsupportedStatementError, match="`w` as a relation"):
                check_texts(session, JobSpec("j", step))
            check_texts(session, JobSpec("j", step, sources=(Source("W", "csv", {}),)))
    with pytest.raises(SqlSyntaxError):
        table.delete("true) OR (true")


def test_a_function_of_the_list_is_refused_in_every_clause(
    spark: SparkSession, table: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    table.insert("SELECT 1")
    call = "reflect('java.lang.System', 'getenv', 'PATH')"
    truth = f"({call} > '')"

    def select(query: str) -> Callable[[], Any]:
        return lambda: table.run(
            Select(query.replace("CALL", call), f"{table.location}_rows"), [View("v", table.snapshot())]
        )

    calls: dict[str, Callable[[], Any]] = {
        "select": select("SELECT CALL"),
        "any case": select(f"SELECT {call.replace('reflect', '`ReFlect`')}"),
        "another name": select(f"SELECT {call.replace('reflect', 'java_method')}"),
        "by its path": select("SELECT system.builtin.CALL"),
        "by half its path": select("SELECT builtin.CALL"),
        "where": select("SELECT id FROM v WHERE CALL > ''"),
        "nested": select("SELECT transform(array('PATH'), x -> reflect('java.lang.System', 'getenv', x))"),
        "sub-query": select("SELECT 1 WHERE EXISTS (WITH a AS (SELECT CALL) SELECT * FROM a)"),
        "lateral view": select("SELECT * FROM v LATERAL VIEW CALL t AS x"),
        "insert": lambda: table.insert(f"SELECT length({call})"),
        "update": lambda: table.update(None, id=f"length({call})"),
        "delete": lambda: table.delete(truth),
        "merge on": lambda: table.merge("SELECT 1 AS i", f"t.id = s.i AND {truth}", MergeClause("delete", True)),
        "merge source": lambda: table.merge(f"SELECT {call} AS i", "t.id = s.i", MergeClause("delete", True)),
        # What the catalog keeps of a table runs in the job of whoever writes it.
        "check": lambda: table.run(Insert(replace(table.snapshot(9), checks={"c": truth}), "SELECT 1", 9, 0)),
        "default": lambda: table.run(
            Insert(
                replace(table.snapshot(9), columns=(Column("id", "int"), Column("d", "string", default=call))),
                "SELECT 1",
                9,
                0,
                columns=("id",),
            )
        ),
        "merge clause": lambda: table.merge("SELECT 1 AS i", "t.id = s.i", MergeClause("delete", True, truth)),
    }
    refused = {"functions": ["REFLECT", "java_method", "stack", "range"]}
    monkeypatch.setattr(guards, "_listed", lambda session, key: refused["functions"] if key == guards.FUNCTIONS else [])
    if SPARK < (4, 2):
        # There a function with two names before it is somebody else's, and is not found.
        with pytest.raises(InvalidArgumentsError, match="REQUIRES_SINGLE_PART_NAMESPACE"):
            calls.pop("by its path")()
    for clause, run in calls.items():
        with pytest.raises(UnsupportedStatementError, match=REFUSED):
            pytest.fail(f"{clause}: {run()}")
    queries = ["SELECT * FROM range(3)", "SELECT stack(1, 1)"]
    if SPARK >= (4, 2):
        queries.append("SELECT * FROM system.builtin.stack(1, 1)")
    for query in queries:
        with pytest.raises(UnsupportedStatementError, match=REFUSED):
            select(query)()
    # A column may have the name; what is written and read otherwise needs none of them.
    select("SELECT 1 AS reflect, id AS range FROM v")()
    table.update("id = 1", id="id + 1")
    assert table.rows() == [(2,)]
    assert len(spark.newSession().range(3).selectExpr(call, "stack(1, 1)").collect()) == 3
    with pytest.raises(InvalidArgumentsError, match="reflekt"):
        select("SELECT reflekt('a')")()
    source = {"format": "rate", "query": f"SELECT {call}"}
    with pytest.raises(UnsupportedStatementError, match=REFUSED):
        rows_of(spark.newSession(), source)
    refused["functions"] = ["reflekt"]
    with pytest.raises(ConfigurationError, match="names reflekt, which is no function"):
        select("SELECT 1")()


def test_sources_outside_of_a_list_are_refused(table: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.csv").write_text("1\n")
    monkeypatch.setattr(
        guards, "_listed", lambda session, key: [(tmp_path / "in").as_uri()] if key == guards.SOURCES else []
    )
    inside = Source("v", "csv", {"path": (tmp_path / "in" / "a.csv").as_uri()})
    table.run(Select("SELECT * FROM v", f"{table.location}/rows"), sources=[inside])
    for number, here in enumerate(("in", "in/", "in/*.csv", "in/{a,b}.csv")):
        source = Source("v", "csv", {"path": f"{tmp_path.as_uri()}/{here}"})
        table.run(Select("SELECT * FROM v", f"{table.location}/rows{number}"), sources=[source])
    for options in ({"path": tmp_path.as_uri()}, {"path": f"{tmp_path.as_uri()}/in/../b"}, {"url": "jdbc:x"}, {}):
        with pytest.raises(UnsupportedStatementError, match="is outside of what"):
            table.run(Select("SELECT 1", f"{table.location}/no"), sources=[Source("v", "csv", options)])


@pytest.mark.parametrize("pattern", ["in/\\.\\./secret.csv", "in/.\\./secret.csv", "in/{./.,b}./secret.csv"])
def test_a_pattern_leads_nowhere_outside_of_a_list(
    pattern: str, spark: SparkSession, table: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark finds the file by it: Hadoop makes ``..`` of what has no such part."""
    (tmp_path / "in" / "b").mkdir(parents=True)
    (tmp_path / "secret.csv").write_text("1\n")
    assert spark.read.text(f"{tmp_path.as_uri()}/{pattern}").count() == 1
    monkeypatch.setattr(
        guards, "_listed", lambda session, key: [(tmp_path / "in").as_uri()] if key == guards.SOURCES else []
    )
    outside = Source("v", "csv", {"path": f"{tmp_path.as_uri()}/{pattern}"})
    with pytest.raises(UnsupportedStatementError, match="is outside of what"):
        table.run(Select("SELECT * FROM v", f"{table.location}/no"), sources=[outside])


def test_a_stream_reads_nothing_outside_of_a_list(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither as its source nor in its query; without a list it reads what it likes."""
    inside, outside = (tmp_path / "in" / "a").as_uri(), (tmp_path / "out").as_uri()
    for name in ("in/a", "out"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "a.txt").write_text("1\n")
    job = {"format": "text", "options": {"path": inside}, "schema": "value string"}
    both = f"SELECT * FROM source WHERE value IN (SELECT value FROM text.`{outside}/a.txt`)"  # noqa: S608
    assert rows_of(spark.newSession(), {**job, "options": {"path": outside}}).columns == ["value"]
    assert rows_of(spark.newSession(), {**job, "query": both}).columns == ["value"]
    monkeypatch.setattr(
        guards, "_listed", lambda session, key: [(tmp_path / "in").as_uri()] if key == guards.SOURCES else []
    )
    assert rows_of(spark.newSession(), job).columns == ["value"]
    query = "WITH a AS (SELECT upper(value) AS value FROM source) SELECT value FROM a"
    assert rows_of(spark.newSession(), {**job, "query": query}).columns == ["value"]
    for options in ({"path": outside}, {"path": f"{inside}/../../out"}, {"PATH": outside}, {}):
        with pytest.raises(UnsupportedStatementError, match="source of the stream of format text is outside of what"):
            rows_of(spark.newSession(), {**job, "options": options})
    with pytest.raises(UnsupportedStatementError, match="of format rate is outside of what"):
        rows_of(spark.newSession(), {"format": "rate"})
    with pytest.raises(UnsupportedStatementError, match="as a relation, which is no table"):
        rows_of(spark.newSession(), {**job, "query": both})


def test_the_plan_that_was_checked_is_the_one_that_runs(
    table: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A query is parsed once: its second parse cost as much as the first, 4 s for 20,000 rows of VALUES."""
    steps: list[Step] = [
        Select("SELECT count(*) FROM v", f"{tmp_path.as_uri()}/rows"),
        Export("SELECT * FROM v", f"{tmp_path.as_uri()}/out", "parquet", {}, (), f"{tmp_path.as_uri()}/counted"),
        Merge(table.snapshot(9), "t", "SELECT id FROM v", "s", "t.id = s.id", (MergeClause("delete", True),), 9, 0, 1),
    ]
    monkeypatch.setattr(SparkSession, "sql", lambda *_: pytest.fail("a query is parsed a second time"))
    table.insert("SELECT 1")
    for step in steps:
        table.run(step, [View("v", table.snapshot())])
