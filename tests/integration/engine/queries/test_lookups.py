"""Looking around: SHOW DATABASES, TABLES, VIEWS, PARTITIONS, COLUMNS, … and DESCRIBE."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa

from airflow_hive_acid.errors import InvalidArgumentsError, NoSuchObjectError, UnsupportedStatementError
from airflow_hive_acid.metastore.catalog.values.model import VIRTUAL_VIEW
from airflow_hive_acid.metastore.protocol import read_position
from airflow_hive_acid.metastore.schema.hive_catalog import TBLS
from airflow_hive_acid.sql.parsing.lookups import REFUSED

if TYPE_CHECKING:
    from airflow_hive_acid.engine import Engine
    from airflow_hive_acid.metastore import MetastoreClient

FULL = r"""
CREATE TABLE w.full (id INT COMMENT 'the "key" isn\'t', s STRUCT<a:INT,b:ARRAY<STRING>>, `odd name` DECIMAL(9,2))
  COMMENT 'all \\ items; 100 %' PARTITIONED BY (ds DATE COMMENT 'day', hr INT)
  CLUSTERED BY (id) INTO 4 BUCKETS STORED AS ORC TBLPROPERTIES ('transactional'='true', 'x'='y''z')
""".replace("''", r"\'")
TABLES = {
    "full ACID": FULL,
    "insert-only": "CREATE TABLE w.io (a STRING) STORED AS PARQUET TBLPROPERTIES ('transactional'='true', "
    "'transactional_properties'='insert_only')",
    "sorted": "CREATE TABLE w.so (a INT, b INT) CLUSTERED BY (a, b) SORTED BY (b DESC, a) INTO 2 BUCKETS STORED AS ORC "
    "TBLPROPERTIES ('transactional'='false')",
    "plain text": "CREATE TABLE w.pl (a INT) STORED AS TEXTFILE TBLPROPERTIES ('transactional'='false')",
    "external": "CREATE EXTERNAL TABLE w.ex (a INT) STORED AS ORC LOCATION '{place}/it\\'s here'",
}


def rows(engine: Engine, sql: str) -> list[list[Any]]:
    (result,) = engine.run(sql)
    assert result.rows is not None
    return result.rows.rows


def names(engine: Engine, sql: str) -> list[str]:
    return [row[0] for row in rows(engine, sql)]


@pytest.fixture
def parted(engine: Engine) -> Engine:
    days = [("2024-01-01", 1), ("2024-01-02", 2), ("2024-01-02", 10)]
    parts = " ".join(f"PARTITION (ds='{day}', hr={hour})" for day, hour in days)
    engine.run(f"{FULL}; ALTER TABLE w.full ADD {parts}")
    return engine


def test_databases_and_tables_are_listed_by_patterns_of_hive(engine: Engine, client: MetastoreClient) -> None:
    engine.run("CREATE DATABASE other; CREATE TABLE other.a_b (a INT); CREATE TABLE other.ab (a INT)")
    for word in ("DATABASES", "SCHEMAS"):
        assert names(engine, f"SHOW {word}") == client.catalog.list_databases()
    assert names(engine, "SHOW DATABASES LIKE 'OTH*|none'") == ["other"]
    assert names(engine, "SHOW TABLES IN other") == names(engine, "SHOW TABLES FROM other") == ["a_b", "ab"]
    assert names(engine, "SHOW TABLES IN other 'a_*'") == ["a_b"]
    assert names(engine, "SHOW TABLES IN other LIKE '%b'") == ["a_b", "ab"]
    for nothing in ("a.b", "a?b", "a[_]b", "[a]*", "", "*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*x"):
        assert names(engine, f"SHOW TABLES IN other LIKE '{nothing}'") == []
    assert names(engine, "SHOW TABLES") == client.catalog.list_tables("default")
    with pytest.raises(NoSuchObjectError, match="no database nowhere"):
        engine.run("SHOW TABLES IN nowhere")


def test_views_of_a_hive_are_listed_and_shown(engine: Engine, client: MetastoreClient) -> None:
    engine.run("CREATE TABLE w.v (a INT)")
    with client.database.transaction() as connection:
        connection.execute(
            sa.update(TBLS)
            .where(TBLS.c.TBL_NAME == "v")
            .values(TBL_TYPE=VIRTUAL_VIEW, VIEW_ORIGINAL_TEXT="select 1", VIEW_EXPANDED_TEXT="select `1`")
        )
    assert names(engine, "SHOW VIEWS IN w LIKE 'v*'") == ["v"]
    assert "v" in names(engine, "SHOW TABLES IN w")
    assert names(engine, "SHOW CREATE TABLE w.v") == ["CREATE VIEW `w`.`v` AS select `1`"]
    told = {row[0]: row[1] for row in rows(engine, "DESCRIBE FORMATTED w.v")}
    assert (told["Original Query:"], told["Expanded Query:"]) == ("select 1", "select `1`")
    assert told["Table Type:"] == VIRTUAL_VIEW


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ("", ["2024-01-01/1", "2024-01-02/10", "2024-01-02/2"]),
        ("PARTITION (hr=2)", ["2024-01-02/2"]),
        ("PARTITION (hr=2, ds='2024-01-01')", []),
        ("PARTITION (hr='02', ds='2024-1-2')", ["2024-01-02/2"]),
        ("PARTITION (ds='2024-1-1')", ["2024-01-01/1"]),
        ("PARTITION (hr='+2')", ["2024-01-02/2"]),
        ("PARTITION (hr='__HIVE_DEFAULT_PARTITION__')", []),
        ("WHERE ds IN ('2024-1-1', '2025-1-1')", ["2024-01-01/1"]),
        ("WHERE ds > '2024-1-1' AND hr < '03'", ["2024-01-02/2"]),
        ("WHERE hr > 1", ["2024-01-02/10", "2024-01-02/2"]),
        ("WHERE 9 > hr AND ds <> DATE '2024-01-01'", ["2024-01-02/2"]),
        ("WHERE NOT (ds = '2024-01-02' AND hr = 2)", ["2024-01-01/1", "2024-01-02/10"]),
        ("WHERE NOT (hr IN (1, 2) OR hr BETWEEN 100 AND 200)", ["2024-01-02/10"]),
        ("WHERE hr NOT BETWEEN 2 AND 9", ["2024-01-01/1", "2024-01-02/10"]),
        ("WHERE ds IS NOT NULL AND hr IS NOT NULL", ["2024-01-01/1", "2024-01-02/10", "2024-01-02/2"]),
        ("WHERE ds IS NULL OR NOT (NOT (hr = 1))", ["2024-01-01/1"]),
        ("PARTITION (ds='2024-01-02') WHERE hr = 2 LIMIT 5", ["2024-01-02/2"]),
        ("LIMIT 2", ["2024-01-01/1", "2024-01-02/10"]),
        ("LIMIT 0", []),
    ],
)  # fmt: skip
def test_partitions_are_chosen_by_values_conditions_and_number(parted: Engine, asked: str, found: list[str]) -> None:
    wanted = [f"ds={value.replace('/', '/hr=')}" for value in found]
    assert names(parted, f"SHOW PARTITIONS w.full {asked}") == wanted


def test_the_partition_of_null_is_listed_by_its_name(engine: Engine) -> None:
    engine.run(
        "CREATE TABLE w.nulls (a INT) PARTITIONED BY (k INT, s STRING);"
        "ALTER TABLE w.nulls ADD PARTITION (k='__HIVE_DEFAULT_PARTITION__', s='x') PARTITION (k=1, s='x')"
        " PARTITION (k=1, s='__HIVE_DEFAULT_PARTITION__')"
    )
    null = "__HIVE_DEFAULT_PARTITION__"
    assert names(engine, f"SHOW PARTITIONS w.nulls PARTITION (k='{null}')") == [f"k={null}/s=x"]
    assert names(engine, f"SHOW PARTITIONS w.nulls PARTITION (s='{null}')") == [f"k=1/s={null}"]


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        ("WHERE hr % 2 = 1", "'hr % 2 = 1': partitions of w.full are chosen by comparisons"),
        ("WHERE hr = ds", "partitions of w.full are chosen by"),
        ("WHERE hr IN (SELECT 1)", "partitions of w.full are chosen by"),
        ("WHERE id = 1", "id is no partition column of w.full; there are ds, hr"),
        ("PARTITION (id=1)", "id is no partition column of w.full; there are ds, hr"),
        ("WHERE NOT ds LIKE '2024%'", "partitions of w.full are chosen by"),
    ],
)  # fmt: skip
def test_a_condition_that_the_catalog_cannot_judge_exactly_is_refused(parted: Engine, asked: str, why: str) -> None:
    with pytest.raises(InvalidArgumentsError) as refused:
        parted.run(f"SHOW PARTITIONS w.full {asked}")
    assert why in str(refused.value)


def test_many_partitions_come_page_by_page(engine: Engine, client: MetastoreClient, monkeypatch: Any) -> None:
    from airflow_hive_acid.engine.queries import lookups

    monkeypatch.setattr(lookups, "_PAGE", 7)
    engine.run("CREATE TABLE w.many (a INT) PARTITIONED BY (p INT)")
    client.catalog.add_partitions("w.many", [f"p={number}" for number in range(21)])
    everything = sorted(f"p={number}" for number in range(21))
    assert names(engine, "SHOW PARTITIONS w.many") == everything
    assert names(engine, "SHOW PARTITIONS w.many LIMIT 14") == everything[:14]
    assert names(engine, "SHOW PARTITIONS w.many LIMIT 15") == everything[:15]


@pytest.mark.parametrize("kind", TABLES)
def test_the_statement_that_is_shown_makes_the_same_table(
    engine: Engine, client: MetastoreClient, tmp_path: Any, kind: str
) -> None:
    engine.run(TABLES[kind].replace("{place}", tmp_path.as_uri()))
    name = TABLES[kind].split()[3 if "EXTERNAL" in TABLES[kind] else 2]
    before = client.catalog.get_table(name)
    lines = names(engine, f"SHOW CREATE TABLE {name}")
    engine.run(f"DROP TABLE {name}")
    engine.run("\n".join(lines))
    after = client.catalog.get_table(name)
    moving = ("transient_lastDdlTime",)
    assert {k: v for k, v in after.properties.items() if k not in moving} == {
        k: v for k, v in before.properties.items() if k not in moving
    }
    assert replace(after, id=0, created=0, properties={}, write_id=0) == replace(
        before, id=0, created=0, properties={}, write_id=0
    )
    assert names(engine, f"SHOW CREATE TABLE {name}") == lines


def test_what_a_table_holds_is_not_printed_as_if_it_had_been_wanted(engine: Engine, client: MetastoreClient) -> None:
    """A table that is made by the text has none of the rows: where streams stand in them, whose state they are."""
    position = read_position(client, client.catalog.get_table("w.t").id, "tills")
    client.database.run(lambda connection: position.moved(connection, '{"offset": 17}'))
    states = "'repl.last.id'='4', 'hive.acid.repl.last.metadata.id'='5', 'repl.acid.overwritten'='1-2'"
    engine.run(f"ALTER TABLE w.t SET TBLPROPERTIES ({states}, 'owner'='books')")
    lines = "\n".join(names(engine, "SHOW CREATE TABLE w.t"))
    assert ("'owner'='books'" in lines, "_meta" in lines, "repl." in lines) == (True, False, False)
    assert ["_meta.position.tills", '{"offset": 17}'] in rows(engine, "SHOW TBLPROPERTIES w.t")


def test_describe_prints_hives_lines(parted: Engine) -> None:
    columns = [["id", "int", 'the "key" isn\'t'], ["s", "struct<a:int,b:array<string>>", ""],
               ["odd name", "decimal(9,2)", ""]]  # fmt: skip
    keys = [["", None, None], ["# Partition Information", None, None], ["# col_name", "data_type", "comment"],
            ["ds", "date", "day"], ["hr", "int", ""]]  # fmt: skip
    assert rows(parted, "DESCRIBE w.full") == rows(parted, "DESC TABLE w.full") == [*columns, *keys]
    assert rows(parted, "DESC w.full hr") == [["hr", "int", ""]]
    assert rows(parted, "DESC w.full `odd name`") == [columns[2]]
    whole = rows(parted, "DESCRIBE FORMATTED w.full")
    assert whole == rows(parted, "DESCRIBE EXTENDED w.full")
    assert whole[1:4] == columns
    told = {row[0]: row[1] for row in whole}
    assert (told["Database:"], told["Table Type:"], told["Num Buckets:"]) == ("w", "MANAGED_TABLE", "4")
    assert told["Bucket Columns:"] == "[id]"
    assert ["", "x", "y'z"] in whole
    part = rows(parted, "DESC FORMATTED w.full PARTITION (hr=10, ds='2024-01-02')")
    assert ["Partition Value:", "[2024-01-02, 10]", None] in part
    assert next(row[1] for row in part if row[0] == "Location:").endswith("/ds=2024-01-02/hr=10")
    with pytest.raises(NoSuchObjectError, match="has no column nothing; there are id, s, odd name, ds, hr"):
        parted.run("DESC w.full nothing")
    with pytest.raises(NoSuchObjectError, match="has no partition ds=2024-01-02/hr=3"):
        parted.run("DESC w.full PARTITION (ds='2024-01-02', hr=3)")


def test_columns_properties_and_databases_are_shown(parted: Engine) -> None:
    parted.run("CREATE DATABASE other COMMENT 'mine' WITH DBPROPERTIES ('a'='b', 'c'='d')")
    assert names(parted, "SHOW COLUMNS IN w.full") == ["id", "s", "odd name", "ds", "hr"]
    assert names(parted, "SHOW COLUMNS FROM full IN w LIKE 'o*|ds'") == ["odd name", "ds"]
    assert ["transactional", "true"] in rows(parted, "SHOW TBLPROPERTIES w.full")
    assert rows(parted, "SHOW TBLPROPERTIES w.full ('x')") == [["x", "y'z"]]
    assert rows(parted, "SHOW TBLPROPERTIES w.full ('none')") == [["none", "Table w.full does not have property: none"]]
    (plain,) = rows(parted, "DESCRIBE DATABASE other")
    (extended,) = rows(parted, "DESC SCHEMA EXTENDED other")
    assert (plain[:2], plain[-1]) == (["other", "mine"], "")
    assert (extended[:-1], extended[-1]) == (plain[:-1], "{a=b, c=d}")
    with pytest.raises(InvalidArgumentsError, match=r"w\.plain is not partitioned"):
        parted.run("CREATE TABLE w.plain (a INT); SHOW PARTITIONS w.plain")


def test_words_of_the_grammar_are_names_where_they_must_be(engine: Engine) -> None:
    engine.run("CREATE TABLE w.extended (a INT); CREATE TABLE w.database (b INT)")
    assert rows(engine, "DESC w.extended") == [["a", "int", ""]]
    assert rows(engine, "DESCRIBE FORMATTED w.database")[1] == ["b", "int", ""]


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_not_shown_is_refused_with_its_remedy(engine: Engine, what: str) -> None:
    with pytest.raises(UnsupportedStatementError) as refused:
        engine.run(f"SHOW {what}")
    assert REFUSED[what] in str(refused.value)
