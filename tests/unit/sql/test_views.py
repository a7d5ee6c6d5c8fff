"""Views in plans: their texts inside of queries, and the texts that the catalog keeps of them."""

from __future__ import annotations

import re

import pytest

from airflow_hive_acid.errors import (
    InvalidArgumentsError,
    NoSuchObjectError,
    SqlSyntaxError,
    UnsupportedStatementError,
)
from airflow_hive_acid.sql import parse_script, plan
from airflow_hive_acid.sql.model.plans import Plan, SelectTemplate
from airflow_hive_acid.sql.model.views import (
    AlterViewProperties,
    AlterViewQuery,
    CreateTemporaryQuery,
    CreateView,
    DropView,
    RenameView,
)
from airflow_hive_acid.sql.planning.references import References
from airflow_hive_acid.sql.planning.view_texts import hive_names, named_text
from tests.unit.sql.catalog import Facts, columns, table_of


def view(name: str, text: str, names: str) -> Facts:
    return Facts(name, columns(names), is_transactional=False, type="VIRTUAL_VIEW", view_text=text)


VIEWS = {
    facts.qualified_name: facts
    for facts in (
        view("demo.v", "select `t`.`id`, `t`.`name` from `default`.`t`", "id:int name:string"),
        view("demo.w", "SELECT `id` AS `a`, `_c1` AS `b` FROM (select `t`.`id`, `t`.`amount`*2 from `default`.`t` "
             "union all select 1, 2) `w`", "a:int b:decimal(12,2)"),
        view("demo.counted", "SELECT `id`, `_c1` AS `n` FROM (select `t`.`id`, count(*), upper('x') from `default`.`t` "
             "group by `t`.`id`) `c` WHERE `_c2` = 'X'", "id:int n:bigint"),
        view("demo.typo", "SELECT `_c2` FROM (select `t`.`id`, count(*) from `default`.`t` group by `t`.`id`) `c`",
             "n:bigint"),
        view("demo.nested", "select `x`.`a` from `demo`.`w` `x` join `demo`.`v` on `x`.`a` = `v`.`id`", "a:int"),
        view("demo.one", "select `two`.`id` from `demo`.`two`", "id:int"),
        view("demo.two", "select `one`.`id` from `demo`.`one`", "id:int"),
        view("demo.bad", "select from", "id:int"),
        view("demo.gone", "select `id` from `demo`.`gone_table`", "id:int"),
    )
}  # fmt: skip


def known(name: str) -> Facts:
    return VIEWS.get(name) or table_of(name)


def planned(text: str, **queries: str) -> Plan:
    (statement,) = parse_script(text)
    made = {name: parse_script(f"CREATE TEMPORARY VIEW {name} AS {query}")[0] for name, query in queries.items()}
    return plan(statement, known, {}, queries=made)


def query(text: str, **queries: str) -> str:
    template = planned(text, **queries).template
    assert isinstance(template, SelectTemplate)
    return re.sub(r"ha\d_", "ha_", template.query)


def kept(text: str) -> str:
    (statement,) = parse_script(text)
    return References(statement, known, {}, for_catalog=True, parse=parse_script).rewrite(statement.query)


def test_a_view_is_its_query_with_the_columns_of_the_catalog() -> None:
    made = planned("SELECT id FROM demo.v WHERE id > 1")
    assert (made.views_read, [read.table for read in made.reads]) == (("demo.v",), ["default.t"])
    assert query("SELECT id FROM demo.v WHERE id > 1") == (
        "SELECT id FROM (SELECT * FROM (select `t`.`id`, `t`.`name` from ha_t AS `t`) AS `v`(`id`, `name`)) AS `v` "
        "WHERE id > 1"
    )
    assert query("SELECT x.id FROM demo.v x") == (
        "SELECT x.id FROM (SELECT * FROM (select `t`.`id`, `t`.`name` from ha_t AS `t`) AS `x`(`id`, `name`)) x"
    )
    assert "`v`.id" in query("SELECT demo.v.id FROM demo.v")


def test_columns_that_hive_names_by_their_place_have_that_name() -> None:
    assert (
        "(select `t`.`id`, `t`.`amount`*2 AS `_c1` from ha_t AS `t` union all select 1 AS `_c0`, 2 AS `_c1`)"
        in query("SELECT b FROM demo.w")
    )


def test_a_view_may_read_columns_that_have_no_name_by_their_place() -> None:
    assert "(select `t`.`id`, count(*) AS `_c1`, upper('x') AS `_c2` from ha_t AS `t`" in query(
        "SELECT n FROM demo.counted"
    )
    with pytest.raises(InvalidArgumentsError, match=r"_c2"):
        planned("SELECT * FROM demo.typo")


def test_a_column_is_not_called_by_the_argument_of_its_function() -> None:
    for called in ("`count(1)`", "`upper(name)`"):
        planned(f"SELECT {called} FROM (SELECT count(*), upper('name') FROM t) x")  # noqa: S608 - names of this file
    planned("SELECT `name` FROM (SELECT CAST(name AS BINARY) FROM t) x")


def test_columns_of_a_temporary_view_have_the_names_of_spark() -> None:
    assert "SELECT CAST(id AS STRING), count(*) FROM" in query(
        "SELECT id FROM few", few="SELECT CAST(id AS STRING), count(*) FROM t GROUP BY id"
    )


def test_views_in_views_are_read_down_to_their_tables() -> None:
    made = planned("INSERT INTO demo.logs SELECT a FROM demo.nested")
    assert set(made.views_read) == {"demo.nested", "demo.w", "demo.v"}
    assert made.operations == {"default.t": "select", "demo.logs": "insert"}
    assert len(made.reads) == 1
    merge = "MERGE INTO default.t USING demo.v s ON t.id = s.id WHEN MATCHED THEN UPDATE SET name = s.name"
    assert planned(merge).views_read == ("demo.v",)


def test_a_view_that_reads_itself_is_refused_with_the_way_it_does() -> None:
    with pytest.raises(InvalidArgumentsError, match=r"demo\.one reads itself: demo\.one → demo\.two → demo\.one"):
        planned("SELECT * FROM demo.one")
    (statement,) = parse_script("SELECT id FROM demo.one")
    with pytest.raises(InvalidArgumentsError, match=r"demo\.two reads itself"):
        plan(statement, known, {}, path=("demo.two",))


def test_what_is_wrong_in_a_view_says_in_which() -> None:
    for name, error in (("bad", SqlSyntaxError), ("gone", NoSuchObjectError)):
        with pytest.raises(error) as raised:
            planned(f"SELECT * FROM demo.{name}")  # noqa: S608 - names of this file
        assert f"in the text of view demo.{name}" in raised.value.__notes__
    with pytest.raises(InvalidArgumentsError, match=r"demo\.v has no column 'nmae'"):
        planned("SELECT v.nmae FROM demo.v")


@pytest.mark.parametrize(
    "text",
    [
        "INSERT INTO demo.v VALUES (1, 'a')",
        "UPDATE demo.v SET name = 'a'",
        "DELETE FROM demo.v",
        "MERGE INTO demo.v USING default.t s ON v.id = s.id WHEN MATCHED THEN DELETE",
    ],
)
def test_rows_of_a_view_are_not_changed(text: str) -> None:
    with pytest.raises(UnsupportedStatementError, match=r"cannot change demo\.v: it is a view"):
        planned(text)


def test_options_of_tables_are_not_said_of_views() -> None:
    with pytest.raises(UnsupportedStatementError, match=r"demo\.v is a view"):
        planned("SELECT * FROM demo.v CHANGES BETWEEN 1 AND 2")


def test_names_around_a_view_do_not_reach_into_it() -> None:
    text = query("WITH t AS (SELECT 1 AS one) SELECT * FROM demo.v, t")
    assert "from ha_t AS `t`) AS `v`" in text
    assert "ha1_t" not in str(planned("WITH ha1_t AS (SELECT 1) SELECT v.id FROM demo.v, ha1_t").reads[0].view)


def test_a_temporary_view_is_its_query_where_it_was_made() -> None:
    assert (
        query("SELECT n FROM q", q="SELECT id AS n FROM t") == "SELECT n FROM (SELECT id AS n FROM ha_t AS `t`) AS `q`"
    )
    made = planned("SELECT * FROM r", q="SELECT id FROM demo.v", r="SELECT * FROM q")
    assert made.views_read == ("demo.v",)
    with pytest.raises(InvalidArgumentsError, match="q has no column 'm'"):
        planned("SELECT m FROM q", q="SELECT id AS n FROM t")
    with pytest.raises(NoSuchObjectError, match=r"default\.q"):
        planned("SELECT * FROM q", q="SELECT * FROM q")


def test_what_the_catalog_keeps_says_the_same_in_any_database() -> None:
    assert kept("SELECT * FROM t") == "SELECT `t`.`id`, `t`.`name`, `t`.`amount` FROM `default`.`t`"
    assert kept("SELECT f.*, t.id FROM demo.flights f JOIN t ON t.id = f.flight") == (
        "SELECT `f`.`carrier`, `f`.`flight`, `f`.`delay`, `f`.`s`, `f`.`month`, t.id FROM `demo`.`flights` f JOIN "
        "`default`.`t` ON t.id = f.flight"
    )
    assert kept("WITH c AS (SELECT id FROM demo.v) SELECT default.t.id FROM c, default.t") == (
        "WITH c AS (SELECT id FROM `demo`.`v`) SELECT `t`.id FROM c, `default`.`t`"
    )
    assert kept("SELECT count(*) FROM demo.airlines a, other.airlines") == (
        "SELECT count(*) FROM `demo`.`airlines` a, `other`.`airlines`"
    )
    assert kept("SELECT * FROM t JOIN demo.v USING (id)") == "SELECT * FROM `default`.`t` JOIN `demo`.`v` USING (id)"


def test_names_of_columns_are_hives() -> None:
    def names(text: str, *spark: str) -> list[str]:
        (statement,) = parse_script(text)
        return hive_names(statement.query.tree, spark)  # type: ignore[union-attr]

    assert names("SELECT id, 1, upper(name), s.a FROM t", "id", "1", "upper(name)", "a") == ["id", "_c1", "_c2", "a"]
    assert names("(SELECT 1 UNION ALL SELECT 2)", "1") == ["_c0"]
    assert names("SELECT *, 1 FROM t", "Id", "name", "amount", "(1 + 1)") == ["id", "name", "amount", "_c3"]
    assert named_text("SELECT 1", "v", ["_c0"], ["a"]) == "SELECT `_c0` AS `a` FROM (SELECT 1) `v`"


def test_statements_about_views_are_read() -> None:
    text = "CREATE OR REPLACE VIEW v (a COMMENT 'x', b) COMMENT 'c' TBLPROPERTIES ('k'='v') AS SELECT 1, 2"
    (made,) = parse_script(text)
    assert isinstance(made, CreateView)
    assert (str(made.view), made.columns, made.replace) == ("default.v", (("a", "x"), ("b", None)), True)
    assert (made.comment, made.properties) == ("c", {"k": "v"})
    kinds = [type(s) for s in parse_script(
        "CREATE VIEW IF NOT EXISTS d.v AS WITH c AS (SELECT 1) SELECT * FROM c; DROP VIEW IF EXISTS v; ALTER VIEW v AS "
        "SELECT 1; ALTER VIEW v SET TBLPROPERTIES ('a'='b'); ALTER VIEW v UNSET TBLPROPERTIES IF EXISTS ('a'); "
        "ALTER VIEW v RENAME TO w; CREATE OR REPLACE TEMPORARY VIEW v (a) AS SELECT 1"
    )]  # fmt: skip
    assert kinds == [CreateView, DropView, AlterViewQuery, AlterViewProperties, AlterViewProperties, RenameView,
                     CreateTemporaryQuery]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("CREATE MATERIALIZED VIEW v AS SELECT 1", "materialized views are not supported"),
        ("DROP MATERIALIZED VIEW v", "materialized views are not supported"),
        ("CREATE VIEW v PARTITIONED ON (a) AS SELECT 1", "PARTITIONED ON is not supported"),
        ("CREATE OR REPLACE VIEW IF NOT EXISTS v AS SELECT 1", "contradict each other"),
        ("CREATE VIEW v (a, a) AS SELECT 1, 2", "column a is given twice"),
        ("CREATE VIEW v COMMENT 'a' COMMENT 'b' AS SELECT 1", "COMMENT is given twice"),
        ("CREATE VIEW v SELECT 1", "expected COMMENT, TBLPROPERTIES or AS"),
        ("CREATE VIEW v AS INSERT INTO t SELECT 1", "statement of its own"),
        ("ALTER VIEW v ADD COLUMNS (a INT)", "expected AS and a query"),
    ],
)
def test_what_is_no_view_is_refused(text: str, why: str) -> None:
    with pytest.raises((SqlSyntaxError, UnsupportedStatementError), match=why):
        parse_script(text)


PARTED = {
    facts.qualified_name: facts
    for facts in (
        view("demo.d", "SELECT `days`.`ds` AS `day`, `days`.`v` AS `v` FROM `demo`.`days`", "day:string v:string"),
        view("demo.named", "SELECT `ds` AS `day`, `n` AS `n` FROM (SELECT ds, count(*) AS n FROM `demo`.`days` "
             "GROUP BY ds) `named`", "day:string n:bigint"),
        view("demo.around", "SELECT d.day, t.name FROM demo.d d JOIN default.t t ON t.name = d.v",
             "day:string n:string"),
        view("demo.both", "SELECT ds FROM demo.days UNION ALL SELECT ds FROM demo.plainp", "ds:string"),
        view("demo.first", "SELECT ds FROM demo.days ORDER BY ds LIMIT 1", "ds:string"),
        view("demo.numbered", "SELECT ds, row_number() OVER (ORDER BY id) AS n FROM demo.days", "ds:string n:int"),
        view("demo.cubed", "SELECT ds, h FROM demo.days GROUP BY ds, h WITH CUBE", "ds:string h:int"),
        view("demo.lefty", "SELECT d.ds FROM default.t t LEFT JOIN demo.days d ON d.id = t.id", "ds:string"),
        view("demo.cut", "SELECT substr(ds, 1, 4) AS ds FROM demo.days", "ds:string"),
    )
}  # fmt: skip


def kept_days(text: str, **queries: str) -> dict[str, list[str]]:
    """Which of three days a query reads, by table."""
    (statement,) = parse_script(text)
    made = {name: parse_script(f"CREATE TEMPORARY VIEW {name} AS {query}")[0] for name, query in queries.items()}
    found = plan(statement, lambda name: PARTED.get(name) or known(name), {}, queries=made)  # type: ignore[arg-type]
    days = ("1", "2", "10")
    return {r.table: [d for d in days if r.partitions.keeps((d, "0"))] for r in found.reads if r.partitions.columns}


@pytest.mark.parametrize(
    ("other", "condition", "days"),
    [
        ("UNION ALL SELECT ds FROM demo.plainp", "= '2'", ["2"]),
        ("UNION ALL (SELECT name FROM t)", "IN ('2')", ["2"]),
        # Beside a number '02' is '2', and beside a DATE '2024-1-5' is '2024-01-05'.
        ("UNION ALL SELECT id FROM t", "= '2'", ["1", "2", "10"]),
        ("UNION ALL SELECT name FROM t UNION SELECT id FROM t", "IN ('x', '2024-01-05')", ["1", "2", "10"]),
        ("UNION ALL SELECT current_date()", "= '2024-01-05'", ["1", "2", "10"]),
        ("UNION ALL SELECT id FROM t", "= 'x'", []),
        ("UNION ALL SELECT id FROM t", "IS NULL", []),
    ],
)
def test_a_text_is_compared_as_it_is_only_where_all_branches_are_texts(
    other: str, condition: str, days: list[str]
) -> None:
    found = kept_days(f"SELECT * FROM (SELECT ds FROM demo.days {other}) q WHERE ds {condition}")  # noqa: S608
    assert found["demo.days"] == days


@pytest.mark.parametrize(
    ("text", "days"),
    [
        ("SELECT * FROM demo.d WHERE day = '2'", ["2"]),
        ("SELECT * FROM demo.d x WHERE x.day > '1' AND v = 'a'", ["2", "10"]),
        ("SELECT * FROM demo.named WHERE day IN ('1', '2')", ["1", "2"]),
        ("SELECT * FROM demo.around WHERE day = '2'", ["2"]),
        ("SELECT * FROM (SELECT day AS other FROM demo.d) q WHERE other = '2'", ["2"]),
        ("SELECT * FROM q WHERE ds = '2'", ["2"]),
        ("SELECT a.day FROM demo.d a JOIN demo.d b ON a.v = b.v WHERE a.day = '1' AND b.day = '2'", ["1", "2"]),
        # What the condition drops could decide about other rows, or about the value itself.
        ("SELECT * FROM demo.first WHERE ds = '2'", ["1", "2", "10"]),
        ("SELECT * FROM demo.numbered WHERE ds = '2'", ["1", "2", "10"]),
        ("SELECT * FROM demo.cubed WHERE ds IS NULL", ["1", "2", "10"]),
        ("SELECT * FROM demo.lefty WHERE ds = '2' OR ds IS NULL", ["1", "2", "10"]),
        ("SELECT * FROM demo.cut WHERE ds = '2'", ["1", "2", "10"]),
        ("SELECT * FROM t LEFT JOIN demo.d d ON d.v = t.name WHERE d.day = '2'", ["1", "2", "10"]),
        ("SELECT * FROM demo.d WHERE day = (SELECT max(name) FROM t)", ["1", "2", "10"]),
    ],
)
def test_conditions_around_a_view_choose_partitions_of_the_table_below(text: str, days: list[str]) -> None:
    assert kept_days(text, q="SELECT * FROM demo.days")["demo.days"] == days


def test_of_a_union_only_conditions_that_mean_the_same_for_any_type_choose() -> None:
    everything = {"demo.days": ["1", "2", "10"], "demo.plainp": ["1", "2", "10"]}
    assert kept_days("SELECT * FROM demo.both WHERE ds = '2'") == {"demo.days": ["2"], "demo.plainp": ["2"]}
    assert kept_days("SELECT * FROM demo.both WHERE ds < '2'") == everything
