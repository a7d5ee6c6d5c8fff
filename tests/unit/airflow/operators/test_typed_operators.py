"""Operators with typed arguments: the statement each makes, what they refuse, and what they never tell."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest
from airflow.sdk import DAG, task

from airflow_hive_acid.airflow_versions import AirflowException, AirflowFailException
from airflow_hive_acid.engine.outcomes.results import Rows, StatementResult
from airflow_hive_acid.engine.statements.exports import Destination, Exported
from airflow_hive_acid.engine.statements.programs import Call
from airflow_hive_acid.errors import InvalidArgumentsError
from airflow_hive_acid.format.jobs import Column
from airflow_hive_acid.hooks.hive_acid import HiveAcidHook
from airflow_hive_acid.operators.changes import (
    HiveAcidDeleteOperator,
    HiveAcidInsertOperator,
    HiveAcidMergeOperator,
    HiveAcidUpdateOperator,
    files_source,
)
from airflow_hive_acid.operators.export import HiveAcidExportOperator
from airflow_hive_acid.operators.hive_acid import HiveAcidOperator
from airflow_hive_acid.operators.spark import HiveAcidSparkOperator
from airflow_hive_acid.settings import Settings

CONTEXT = {
    "ti": SimpleNamespace(dag_id="d", run_id="r", task_id="t", map_index=-1, try_number=1, max_tries=2),
}
SECRET = "do-not-tell-5f1c"
TYPED = (
    HiveAcidInsertOperator, HiveAcidUpdateOperator, HiveAcidDeleteOperator, HiveAcidMergeOperator,
    HiveAcidExportOperator, HiveAcidSparkOperator,
)  # fmt: skip
TABLE = SimpleNamespace(
    qualified_name="db.t", columns=(Column("a", "int"), Column("b", "string")), partition_columns=(Column("p", "int"),)
)


class FakeEngine:
    """Remembers what it was asked."""

    def __init__(self):
        self.asked, self.views, self.once = [], [], None
        self.returned = {"n": 1}

    def __enter__(self):
        return self

    def __exit__(self, *error):
        pass

    def run(self, sql, *, once, **how):
        self.asked.append(sql)
        self.once = once
        return [StatementResult(sql, "insert", inserted=2, txn_id=7)]

    def define_view(self, source):
        self.views.append(source)

    def export(self, sql, destination, *, once, patience):
        self.asked.append((sql, destination))
        self.once = once
        return Exported(destination.uri, 5, 2, 99, None, 1.5)

    def call(self, call, *, once, **how):
        self.asked.append(call)
        self.once = once
        rows = Rows((Column("returned", "string"),), [[json.dumps(self.returned)]])
        return StatementResult("totals", "program", inserted=4, deleted=1, rows=rows, txn_id=7)


@pytest.fixture
def engine(monkeypatch):
    fake = FakeEngine()
    monkeypatch.setattr(HiveAcidHook, "get_engine", lambda self, agent_info: fake)
    monkeypatch.setattr(HiveAcidHook, "settings", Settings())
    monkeypatch.setattr(HiveAcidHook, "acknowledge", lambda self, once: None)
    catalog = SimpleNamespace(get_table=lambda name: TABLE)
    monkeypatch.setattr(HiveAcidHook, "get_conn", lambda self: SimpleNamespace(catalog=catalog))
    return fake


def run(kind, **arguments):
    return kind(task_id="t", **arguments).execute(CONTEXT)


def test_each_operator_makes_one_statement_of_its_arguments(engine):
    run(HiveAcidInsertOperator, table="db.t", query="SELECT :v, 'x'", parameters={"v": 1}, partition={"p": 6})
    run(HiveAcidUpdateOperator, table="db.t", set={"a": "a + 1"}, values={"b": "it's"}, where="a = 1")
    run(HiveAcidUpdateOperator, table="db.t", values={"b": None}, everything=True)
    run(HiveAcidDeleteOperator, table="db.t", where="a = :v", parameters={"v": "x' OR '1'='1"})
    run(HiveAcidDeleteOperator, table="t", everything=True)
    run(HiveAcidMergeOperator, target="db.t", source="db.s", on="t.a = s.a", clauses=[{"action": "delete"}])
    assert engine.asked == [
        "INSERT INTO `db`.`t` PARTITION (`p` = '6')\nSELECT 1, 'x'",
        "UPDATE `db`.`t`\nSET `a` = (a + 1), `b` = 'it\\'s'\nWHERE (a = 1)",
        "UPDATE `db`.`t`\nSET `b` = NULL",
        "DELETE FROM `db`.`t`\nWHERE (a = 'x\\' OR \\'1\\'=\\'1')",
        "DELETE FROM `default`.`t`",
        "MERGE INTO `db`.`t` AS `t`\nUSING `db`.`s` AS `s`\nON (t.a = s.a)\nWHEN MATCHED THEN DELETE",
    ]
    assert engine.once.scope == ("airflow", "d", "r", "t", "-1")


def test_rows_are_typed_by_the_table_and_name_the_columns_they_fill(engine):
    document = run(HiveAcidInsertOperator, table="db.t", rows=[{"a": 1, "p": 6}], overwrite=True)
    (sql,) = engine.asked
    assert sql.startswith("INSERT OVERWRITE TABLE `db`.`t` (`a`, `b`, `p`)\nSELECT CAST(c0 AS int) AS `a`")
    assert document["inserted"] == 2
    with pytest.raises(AirflowFailException, match="BadRecordError: row 1, column a: 'x' is no int"):
        run(HiveAcidInsertOperator, table="db.t", rows=[{"a": "x"}])


def test_rows_may_be_a_function_which_airflow_calls(engine):
    def rows(context, jinja_env):
        return [{"a": context["params"]["a"], "p": 6}]

    with DAG("d", params={"a": 41}) as dag:
        operator = HiveAcidInsertOperator(task_id="t", table="db.t", rows=rows)
    with pytest.raises(AirflowFailException, match="rows is a function, and only Airflow calls it"):
        operator.execute(CONTEXT)
    operator.render_template_fields({"params": dag.params.dump()})
    operator.execute(CONTEXT)
    assert '"c0":41' in engine.asked[-1]


def test_files_are_a_view_whose_options_stand_in_no_statement(engine):
    arguments = {"table": "db.t", "files": "s3a://in/*.csv", "format": "CSV"}
    operator = HiveAcidInsertOperator(
        task_id="t", options={"header": "true", "password": SECRET}, schema={"a": "int"}, **arguments
    )
    document = operator.execute(CONTEXT)
    (source,) = engine.views
    assert (source.format, source.options["path"], source.columns) == ("csv", "s3a://in/*.csv", (Column("a", "int"),))
    assert source.options["password"] == SECRET
    assert engine.asked == [f"INSERT INTO `db`.`t`\nSELECT * FROM {source.name}"]
    told = json.dumps([document, {name: getattr(operator, name) for name in operator.template_fields}])
    assert SECRET not in told
    # Files of another place are another statement: a retry cannot take their result for its own.
    assert files_source("other", "csv", {}, None).name != files_source("s3a://in/*.csv", "csv", {}, None).name


@pytest.mark.parametrize("kind", TYPED)
def test_what_may_hold_secrets_is_no_template_and_common_arguments_are(kind):
    assert not {"options", "spark_conf"} & set(kind.template_fields)
    assert {"lease", "hive_acid_conn_id", "spark_conn_id"} <= set(kind.template_fields)
    assert "sql" not in kind.template_fields


@pytest.mark.parametrize(
    ("kind", "arguments", "words"),
    [
        (HiveAcidInsertOperator, {"table": "t"}, "exactly one of query, files with format, and rows"),
        (HiveAcidInsertOperator, {"table": "t", "query": "SELECT 1", "rows": []}, "exactly one of"),
        (HiveAcidInsertOperator, {"table": "t", "rows": [], "files": "x"}, "need a format"),
        (HiveAcidUpdateOperator, {"table": "t", "set": {"a": "1"}}, "or everything=True"),
        (HiveAcidDeleteOperator, {"table": "t"}, "a forgotten condition would touch all rows"),
        (HiveAcidDeleteOperator, {"table": "t", "where": "a = 1", "everything": True}, "not both"),
        (HiveAcidExportOperator, {"path": "/x/y"}, "a query or a table, exactly one"),
        (HiveAcidExportOperator, {"path": "/x/y", "table": "t", "mode": "append"}, "'error' or 'overwrite'"),
        (HiveAcidExportOperator, {"path": "/x/y", "table": "t", "replace_anything": True}, "needs mode='overwrite'"),
        (HiveAcidSparkOperator, {"tables": {}}, "an application or a module, exactly one"),
    ],
)
def test_arguments_that_cannot_be_meant_are_refused_where_the_dag_is_parsed(kind, arguments, words):
    with pytest.raises(ValueError, match=words):
        kind(task_id="t", **arguments)


@pytest.mark.parametrize(
    ("kind", "arguments", "words"),
    [
        (HiveAcidInsertOperator, {"table": "t; DROP TABLE x", "query": "SELECT 1"}, "table must be"),
        (HiveAcidInsertOperator, {"table": "t", "files": "x", "format": "csv; x"}, "format must be"),
        (HiveAcidInsertOperator, {"table": "t", "format": "dataframe"}, "format must be"),
        (HiveAcidInsertOperator, {"table": "t", "files": " ", "format": "csv"}, "files must be"),
        (HiveAcidDeleteOperator, {"table": "t", "where": ""}, "where must be SQL text"),
        (HiveAcidDeleteOperator, {"table": "t", "where": "1 = 1; DROP TABLE t"}, "where must be one SQL expression"),
        (HiveAcidExportOperator, {"path": "/x/y", "query": "DROP TABLE t"}, "query must be one query"),
        (HiveAcidSparkOperator, {"tables": {"t": "drop"}, "module": "m"}, "must be one of select, insert"),
        (HiveAcidSparkOperator, {"tables": {"t`": "insert"}, "module": "m"}, "tables must be"),
        (HiveAcidSparkOperator, {"tables": {"t": "insert"}, "application": "/nowhere.py"}, "cannot be read"),
    ],
)
def test_hostile_argument_fails_for_good_and_runs_nothing(engine, monkeypatch, kind, arguments, words):
    monkeypatch.setattr(FakeEngine, "call", lambda self, call, **how: call.statement())
    with pytest.raises(AirflowFailException, match=words):
        run(kind, **arguments)
    assert engine.asked == []


def test_where_that_a_template_made_into_none_does_not_mean_all_rows(engine):
    operator = HiveAcidDeleteOperator(task_id="t", table="db.t", where="{{ none }}")
    operator.where = None
    with pytest.raises(AirflowFailException, match="where is empty"):
        operator.execute(CONTEXT)
    assert engine.asked == []


def test_templates_are_rendered_in_values_and_clauses():
    with DAG("d", schedule=None, params={"x": "o'clock"}) as dag:
        operator = HiveAcidMergeOperator(
            task_id="t",
            target="db.{{ params.x }}",
            source="db.s",
            on="t.a = s.a",
            clauses=[{"action": "insert", "values": {"a": "{{ params.x }}"}}],
        )
    operator.render_template_fields({"params": dag.params.dump()})
    assert operator.target == "db.o'clock"
    assert operator.clauses == [{"action": "insert", "values": {"a": "o'clock"}}]


def test_export_hands_on_the_query_and_returns_what_was_written(engine):
    document = run(
        HiveAcidExportOperator, path="/out/t", table="db.t", format="CSV", mode="overwrite", options={"a": 1}
    )
    assert engine.asked == [("SELECT * FROM `db`.`t`", Destination("/out/t", "csv", {"a": "1"}, overwrite=True))]
    assert document == {"uri": "/out/t", "rows": 5, "files": 2, "bytes": 99, "txn_id": None, "seconds": 1.5}


def test_spark_job_is_the_text_of_its_file_and_its_answer_goes_into_the_xcom(engine, tmp_path):
    (tmp_path / "job.py").write_text("def main(job, day): ...")
    application = str(tmp_path / "job.py")
    tables = {"db.t": "insert"}
    document = run(HiveAcidSparkOperator, tables=tables, application=application, arguments={"day": "1"})
    (call,) = engine.asked
    assert call == Call(application, tables, "def main(job, day): ...", arguments={"day": "1"})
    assert (document["returned"], document["inserted"], document["deleted"]) == ({"n": 1}, 4, 1)
    assert "rows" not in document


def test_call_is_identified_by_text_arguments_and_tables_and_says_neither():
    call = Call("job.py", {"T": "merge"}, f"token = '{SECRET}'", arguments={"password": SECRET})
    text = call.statement().text
    assert SECRET not in text
    assert text.startswith("job.py: main(job) [")
    assert text.endswith("on update default.t")
    others = [
        Call("job.py", {"T": "merge"}, "other", arguments={"password": SECRET}),
        Call("job.py", {"T": "merge"}, f"token = '{SECRET}'", arguments={"password": "x"}),
        Call("job.py", {"T": "insert"}, f"token = '{SECRET}'", arguments={"password": SECRET}),
    ]
    assert len({text, *(other.statement().text for other in others)}) == 4
    with pytest.raises(InvalidArgumentsError, match="what JSON can hold"):
        Call("job.py", {"T": "insert"}, "x", arguments={"a": object()}).statement()


def test_decorated_function_returns_sql_that_is_a_template_too(engine):
    with DAG("d", schedule=None):

        @task.hive_acid_sql
        def change(table):
            return ["{{ ds }} " + table]

        operator = change("db.t").operator
    assert isinstance(operator, HiveAcidOperator)
    document = operator.execute({**CONTEXT, "ds": "2026-01-01"})
    assert engine.asked == ["2026-01-01 db.t"]
    assert document["inserted"] == 2


@pytest.mark.parametrize("answer", [None, "", [], ["SELECT 1", 5], {"a": 1}])
def test_decorated_function_that_returns_no_sql_fails_for_good(engine, answer):
    with DAG("d", schedule=None):

        @task.hive_acid_sql
        def change():
            return answer

        operator = change().operator
    with pytest.raises(AirflowFailException, match="change must return SQL"):
        operator.execute(CONTEXT)
    assert engine.asked == []


def test_decorated_pyspark_function_travels_as_its_own_text_with_its_arguments(engine):
    with DAG("d", schedule=None):

        @task.hive_acid_pyspark(tables={"db.t": "insert"})
        def load(job, day, *, by=1, **more):
            """Runs elsewhere."""
            return day

        operator = load("2026-01-01", by=2, x=3).operator
    operator.execute(CONTEXT)
    (call,) = engine.asked
    assert (call.name, call.function, call.arguments) == ("load", "load", {"day": "2026-01-01", "by": 2, "x": 3})
    assert "@task" not in call.source
    names = {}
    exec(call.source, names)  # noqa: S102 - the function above
    assert names["load"](None, "today") == "today"


def test_decorated_pyspark_function_must_take_the_job_first():
    with DAG("d", schedule=None):

        @task.hive_acid_pyspark(tables={"db.t": "insert"})
        def load(day):
            return day

        with pytest.raises(ValueError, match="the first parameter of load must be job"):
            load("2026-01-01")


def test_spark_connection_that_does_not_exist_is_an_error_with_the_remedy(monkeypatch, tmp_path):
    extra = {"metastore_url": f"sqlite:///{tmp_path / 'm.db'}", "warehouse": str(tmp_path), "spark_conn_id": "nowhere"}
    monkeypatch.setenv("AIRFLOW_CONN_ACID", json.dumps({"conn_type": "hive_acid", "extra": extra}))
    for kind, arguments in (
        (HiveAcidDeleteOperator, {"table": "t", "where": "a = 1"}),
        (HiveAcidExportOperator, {"path": "/x/y", "table": "t"}),
        (HiveAcidSparkOperator, {"tables": {"t": "insert"}, "module": "m"}),
    ):
        with pytest.raises(AirflowException, match="nowhere"):
            run(kind, hive_acid_conn_id="acid", **arguments)


def test_decorated_pyspark_function_can_be_mapped():
    with DAG("d", schedule=None):

        @task.hive_acid_pyspark(tables={"db.t": "insert"})
        def load(job, day, by=1):
            return day

        mapped = load.partial(by=3).expand(day=["a", "b"]).operator
    call = mapped.unmap({"op_kwargs": {"day": "b"}}).call()
    assert (call.name, call.tables, call.arguments) == ("load", {"db.t": "insert"}, {"day": "b", "by": 3})
