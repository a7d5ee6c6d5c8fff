"""FROM … INSERT … INSERT, TRUNCATE and CREATE TABLE … AS as values."""

from __future__ import annotations

import pytest

from airflow_hive_acid.errors import SqlSyntaxError, UnsupportedStatementError
from airflow_hive_acid.format.jobs import Column, PartitionRef, TableSnapshot
from airflow_hive_acid.sql import parse_script, plan
from airflow_hive_acid.sql.model.plans import StepContext
from airflow_hive_acid.sql.model.statements import CreateTable, MultiInsert, Select, TableName, Truncate
from airflow_hive_acid.sql.planning.common import Common
from tests.unit.sql.catalog import Facts, columns, table_of


def text_of(statement, fragment):
    return " ".join(statement.script[begin:end] for begin, end in fragment.ranges)


def test_each_branch_is_an_insert_with_the_common_from_clause():
    (statement,) = parse_script(
        "FROM (SELECT id, name FROM src WHERE id > 0) s\n"
        "INSERT INTO TABLE a SELECT s.id, 'from; INSERT' WHERE name LIKE 'x%' GROUP BY s.id\n"
        "INSERT OVERWRITE TABLE db.p PARTITION (k='v') SELECT id\n"
        "INSERT INTO c (x) SELECT name LIMIT 3"
    )
    assert isinstance(statement, MultiInsert)
    common = "FROM (SELECT id, name FROM src WHERE id > 0) s"
    assert [(str(i.table), i.overwrite, i.partition, i.columns) for i in statement.inserts] == [
        ("default.a", False, (), ()),
        ("db.p", True, (("k", "v"),), ()),
        ("default.c", False, (), ("x",)),
    ]
    assert [text_of(statement, i.query) for i in statement.inserts] == [
        f"SELECT s.id, 'from; INSERT' {common} WHERE name LIKE 'x%' GROUP BY s.id",
        f"SELECT id {common}",
        f"SELECT name {common} LIMIT 3",
    ]


def test_a_query_that_begins_with_from_is_still_a_query():
    (statement,) = parse_script("FROM t SELECT id")
    assert isinstance(statement, Select)


@pytest.mark.parametrize(
    "common",
    [
        "(SELECT id, uuid() AS key FROM t) s",
        "(SELECT id, rand() < 0.5 AS half FROM t) s",
        "(SELECT id FROM t ORDER BY shuffle(tags)[0] LIMIT 5) s",
        "(SELECT id, monotonically_increasing_id() AS n FROM t) s",
        "t TABLESAMPLE (10 PERCENT) s",
        "t TABLESAMPLE (10 PERCENT) s JOIN t TABLESAMPLE (10 PERCENT) REPEATABLE (3) o ON s.id = o.id",
        "t TABLESAMPLE (5 ROWS) s",
        "(SELECT order_id FROM t LIMIT 5) s",
        "(SELECT uniform(length(concat('a', name)), 9) AS n FROM t) s",
        "(SELECT reflect('java.util.UUID', 'randomUUID') AS n FROM t) s",
        "(SELECT id, row_number() OVER (ORDER BY id) AS n FROM t LIMIT 5) s",
    ],
)
def test_a_common_from_clause_that_each_branch_would_read_otherwise_is_refused(common):
    """A Hive reads it once: keys that two tables share, or halves that make a whole, would not be."""
    with pytest.raises(UnsupportedStatementError, match=r"each branch .* may get other rows"):
        parse_script(f"FROM {common} INSERT INTO a SELECT id INSERT INTO b SELECT id")
    (alone,) = parse_script(f"FROM {common} INSERT INTO a SELECT id")
    assert isinstance(alone, MultiInsert)


@pytest.mark.parametrize(
    "text",
    [
        "FROM (SELECT rand(7) AS r, s.uuid AS u, 'rand()' FROM t s) q INSERT INTO a SELECT u INSERT INTO b SELECT r",
        "FROM (SELECT uniform(1, 9, 7), randn(3) FROM t) q INSERT INTO a SELECT 2 INSERT INTO b SELECT 1",
        "FROM t TABLESAMPLE (10 PERCENT) REPEATABLE (3) s INSERT INTO a SELECT id INSERT INTO b SELECT id",
        "FROM t INSERT INTO a SELECT id, uuid() INSERT INTO b SELECT id WHERE rand() < 0.5 LIMIT 3",
        "FROM (SELECT id FROM t ORDER BY id LIMIT 5) s INSERT INTO a SELECT id INSERT INTO b SELECT id",
        "FROM (SELECT id, s.limit AS n FROM t s LIMIT ALL) q INSERT INTO a SELECT id INSERT INTO b SELECT n",
        "FROM (SELECT * FROM t WHERE EXISTS (SELECT 1 FROM u LIMIT 1)) INSERT INTO a SELECT id INSERT INTO b SELECT id",
    ],
)
def test_what_is_the_same_for_each_branch_or_of_one_alone_is_not(text):
    (statement,) = parse_script(text)
    assert len(statement.inserts) == 2


NOW_MS = 1_795_900_496_123  # 2026-11-28 21:14:56.123 UTC


def branches(text: str, **queries: str) -> list[str]:
    """The queries of the branches; ``v`` is a view of the catalog that reads ``w``, which is one as well."""
    (statement,) = parse_script(text)
    texts = {"default.v": "SELECT `x`.`id` FROM `default`.`w` `x`", "default.w": "SELECT id FROM t WHERE rand() < 0.5"}
    texts |= {"default.clock": "SELECT id, current_date, id FROM t", "default.sure": "SELECT id FROM t WHERE id > 1"}

    def known(name: str) -> Facts:
        if name == "default.many":
            return Facts(name, columns(" ".join(f"c{number}:string" for number in range(9))))
        if name not in texts:
            return table_of(name)
        names = columns("id:int day:date current_date:int" if name == "default.clock" else "id:int")
        return Facts(name, names, is_transactional=False, type="VIRTUAL_VIEW", view_text=texts[name])

    made = {name: parse_script(f"CREATE TEMPORARY VIEW {name} AS {query}")[0] for name, query in queries.items()}
    return [
        plan(insert, known, {}, queries=made, common=Common(lambda: NOW_MS).of_branch(insert.query)).template.query
        for insert in statement.inserts
    ]


@pytest.mark.parametrize(
    ("source", "where"),
    [
        ("w", ["w"]),
        ("v", ["w", "v"]),
        ("(SELECT id FROM t WHERE id IN (SELECT id FROM w)) s", ["w"]),
        ("q", ["q"]),
    ],
)
def test_chance_in_the_text_of_a_view_is_refused_as_in_the_clause_itself(source, where):
    """A Hive reads the view once for all branches."""
    text = f"FROM {source} INSERT INTO t (id) SELECT id INSERT INTO t (id) SELECT id"
    with pytest.raises(UnsupportedStatementError, match=r"each branch .* may get other rows, by (rand|LIMIT)") as told:
        branches(text, q="SELECT id FROM t LIMIT 2")
    named = [note.rpartition(" ")[2].rpartition(".")[2] for note in told.value.__notes__]
    assert named == where


def test_a_view_that_one_branch_alone_reads_may_be_of_chance():
    first, second = branches("FROM sure INSERT INTO t (id) SELECT id WHERE id IN (SELECT id FROM v) "
                             "INSERT INTO t (id) SELECT id")  # fmt: skip
    assert "rand() < 0.5" in first
    assert "rand() < 0.5" not in second


def test_the_time_is_the_same_in_all_branches_and_in_the_views_that_they_read():
    first, second = branches(
        "FROM clock c INSERT INTO t (id) SELECT unix_timestamp() + NOW() WHERE c.day < current_timestamp() "
        "INSERT INTO many SELECT id AS current_date, 'now()', CURRENT_TIMESTAMP x, localtimestamp(), curdate( ), "
        "current_date + 1, c.current_date, `current_date`, unix_timestamp('2026')"
    )
    assert first.startswith("SELECT 1795900496L + TIMESTAMP '2026-11-28 21:14:56.123Z' FROM ")
    assert first.endswith("WHERE c.day < TIMESTAMP '2026-11-28 21:14:56.123Z'")
    assert second.startswith(
        "SELECT id AS current_date, 'now()', TIMESTAMP '2026-11-28 21:14:56.123Z' x, "
        "TIMESTAMP_NTZ '2026-11-28 21:14:56.123', DATE '2026-11-28', "
        "DATE '2026-11-28' + 1, c.current_date, `current_date`, unix_timestamp('2026') FROM "
    )
    for text in (first, second):
        assert "SELECT id, DATE '2026-11-28'" in text
        assert "current_date FROM" not in text


def test_the_time_of_a_merge_is_that_of_its_updates_and_of_its_inserts():
    """Spark runs them one after the other."""
    (statement,) = parse_script(
        "MERGE INTO t USING (SELECT id, CURRENT_DATE AS day FROM demo.users) s ON t.id = s.id AND s.day < current_date "
        "WHEN MATCHED AND now() > s.day THEN UPDATE SET name = cast(current_timestamp() AS STRING) "
        "WHEN NOT MATCHED THEN INSERT VALUES (s.id, current_timestamp, rand())"
    )
    template = plan(statement, table_of, {}, common=Common(lambda: NOW_MS)).template
    time = "TIMESTAMP '2026-11-28 21:14:56.123Z'"
    assert template.source.startswith("SELECT id, DATE '2026-11-28' AS day FROM")
    assert template.on == "t.id = s.id AND s.day < DATE '2026-11-28'"
    changed, new = template.clauses
    assert changed.condition == f"{time} > s.day"
    assert [a.expression for a in changed.assignments] == [f"cast({time} AS STRING)"]
    assert [a.expression for a in new.assignments] == ["s.id", time, "rand()"]
    (statement,) = parse_script("MERGE INTO t USING demo.users s ON t.id = s.id WHEN MATCHED THEN DELETE")
    plan(statement, table_of, {}, common=Common(lambda: pytest.fail("nothing here reads the clock")))


def of_clock(name: str) -> Facts:
    """The tables of these tests, and one whose DEFAULTs read the clock."""
    if name != "default.h":
        return table_of(name)
    given = (("id", None), ("at", "current_timestamp()"), ("day", "CURRENT_DATE"), ("word", "'now()'"))
    return Facts(name, tuple(Column(column, "string", default=default) for column, default in given))


def defaults_of(template) -> list[str | None]:
    """The DEFAULTs with which the job of a plan writes ``h``."""
    place = PartitionRef("", "file:/h")
    target = TableSnapshot("default.h", place.location, of_clock("default.h").columns, (), (place,), "", "")
    step = template.build(StepContext(target, 2, (0, 1)))
    return [column.default for column in step.target.columns]


def test_the_defaults_of_one_statement_have_its_time():
    """A column that one branch or clause gives a value, and another does not, by two queries of Spark."""
    time, day = "TIMESTAMP '2026-11-28 21:14:56.123Z'", "DATE '2026-11-28'"
    (several,) = parse_script(
        "FROM demo.users INSERT INTO h SELECT id, now(), current_date, 'x' INSERT INTO h (id) SELECT id"
    )
    common = Common(lambda: NOW_MS)
    for insert in several.inserts:
        template = plan(insert, of_clock, {}, common=common.of_branch(insert.query)).template
        assert defaults_of(template) == [None, time, day, "'now()'"]
    (merge,) = parse_script(
        "MERGE INTO h USING demo.users s ON h.id = s.id WHEN MATCHED THEN UPDATE SET at = DEFAULT, word = DEFAULT "
        "WHEN NOT MATCHED THEN INSERT (id, day) VALUES (s.id, DEFAULT)"
    )
    template = plan(merge, of_clock, {}, common=common).template
    changed, new = template.clauses
    assert [a.expression for a in changed.assignments] == [f"({time})", "('now()')"]
    assert [a.expression for a in new.assignments] == ["s.id", f"({day})"]
    assert defaults_of(template) == [None, time, day, "'now()'"]
    (alone,) = parse_script("INSERT INTO h (id, at) VALUES (1, DEFAULT)")
    template = plan(alone, of_clock, {}).template
    assert template.query == "VALUES (1, (current_timestamp()))"
    assert defaults_of(template) == [None, "current_timestamp()", "CURRENT_DATE", "'now()'"]


def test_a_comparison_by_is_distinct_from_is_no_from_clause():
    (statement,) = parse_script("FROM t INSERT INTO a SELECT id IS DISTINCT FROM name WHERE id IS NOT DISTINCT FROM 1")
    assert [text_of(statement, i.query) for i in statement.inserts] == [
        "SELECT id IS DISTINCT FROM name FROM t WHERE id IS NOT DISTINCT FROM 1"
    ]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("FROM t INSERT INTO a VALUES (1)", "expected SELECT"),
        ("FROM t INSERT INTO a SELECT id FROM u", "has a FROM clause already"),
        ("FROM t INSERT INTO a", "expected VALUES or SELECT"),
    ],
)
def test_a_branch_that_is_no_select_is_underlined(text, problem):
    with pytest.raises(SqlSyntaxError, match=problem):
        parse_script(text)


def test_truncate_names_a_table_and_perhaps_partitions():
    whole, some = parse_script("TRUNCATE TABLE db.t; TRUNCATE t PARTITION (k='a', n=1)")
    assert isinstance(whole, Truncate)
    assert (whole.table, whole.partition) == (TableName("db", "t"), ())
    assert some.partition == (("k", "a"), ("n", "1"))


def test_create_table_as_has_a_query_and_no_columns():
    (statement,) = parse_script(
        "CREATE TABLE IF NOT EXISTS db.t COMMENT 'x' STORED AS PARQUET TBLPROPERTIES ('a'='b') AS SELECT 1 AS id"
    )
    assert isinstance(statement, CreateTable)
    assert (statement.columns, statement.stored_as, statement.comment) == ((), "parquet", "x")
    assert text_of(statement, statement.query) == "SELECT 1 AS id"


@pytest.mark.parametrize(
    ("text", "kind", "problem"),
    [
        ("CREATE TABLE t (a INT) AS SELECT 1", SqlSyntaxError, "takes its columns from the query"),
        ("CREATE EXTERNAL TABLE t AS SELECT 1", UnsupportedStatementError, "CREATE EXTERNAL TABLE … AS"),
        ("TRUNCATE TABLE t COLUMNS (a)", UnsupportedStatementError, "COLUMNS is not supported"),
    ],
)
def test_what_cannot_be_is_refused(text, kind, problem):
    with pytest.raises(kind, match=problem):
        parse_script(text)
