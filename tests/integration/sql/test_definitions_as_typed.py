"""Everyday spellings of CREATE and ALTER, Hive's and Spark's, and what writes make of constraints."""

# ruff: noqa: S608 - statements put together from paths of the tests

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import sqlalchemy as sa

from airflow_hive_acid.errors import (
    AlreadyExistsError,
    BadRecordError,
    HiveAcidError,
    InvalidArgumentsError,
    NoSuchObjectError,
    UnsupportedStatementError,
)
from airflow_hive_acid.metastore.schema.hive_catalog import KEY_CONSTRAINTS, TBLS
from tests.integration.sql.answers import rows

if TYPE_CHECKING:
    from pathlib import Path

    from airflow_hive_acid.engine import Engine
    from airflow_hive_acid.metastore import MetastoreClient

# With the blanks at the ends of lines that a Hive prints.
HIVES_TEXT = "\n".join(
    (
        "CREATE TABLE `w`.`sc`(",
        "  `a` int COMMENT 'key', ",
        "  `b` decimal(10,2))",
        "PARTITIONED BY ( ",
        "  `k` string)",
        "CLUSTERED BY ( ",
        "  a) ",
        "INTO 2 BUCKETS",
        "ROW FORMAT SERDE ",
        "  'org.apache.hadoop.hive.ql.io.orc.OrcSerde' ",
        "STORED AS INPUTFORMAT ",
        "  'org.apache.hadoop.hive.ql.io.orc.OrcInputFormat' ",
        "OUTPUTFORMAT ",
        "  'org.apache.hadoop.hive.ql.io.orc.OrcOutputFormat'",
        "LOCATION",
        "  '{place}'",
        "TBLPROPERTIES (",
        "  'bucketing_version'='2', ",
        "  'transactional'='true', ",
        "  'transactional_properties'='default', ",
        "  'transient_lastDdlTime'='1700000000')",
    )
)


def _shown(engine: Engine, table: str) -> str:
    return "\n".join(line for (line,) in rows(engine, f"SHOW CREATE TABLE {table}"))


@pytest.fixture
def engine(real_engine: Engine) -> Engine:
    real_engine.run(
        "CREATE DATABASE w; CREATE TABLE w.p (a INT COMMENT 'key', b STRING) PARTITIONED BY (k STRING) "
        "CLUSTERED BY (a) INTO 2 BUCKETS STORED AS ORC;"
        "CREATE TABLE w.n (a INT) STORED AS TEXTFILE TBLPROPERTIES ('transactional'='false')"
    )
    return real_engine


def test_the_text_of_hives_show_create_table_runs_as_it_is(
    engine: Engine, client: MetastoreClient, tmp_path: Path
) -> None:
    engine.run(HIVES_TEXT.replace("{place}", f"file:{tmp_path}/sc"))
    table = client.catalog.get_table("w.sc")
    assert (table.format, table.is_transactional, table.bucket_count) == ("orc", True, 2)
    assert table.location == f"file:{tmp_path}/sc"
    with pytest.raises(UnsupportedStatementError, match="this combination of SERDE, INPUTFORMAT and OUTPUTFORMAT"):
        engine.run("CREATE TABLE w.q (a INT) STORED AS INPUTFORMAT 'some.Input' OUTPUTFORMAT 'some.Output'")


def test_what_show_create_table_prints_makes_the_same_table(engine: Engine) -> None:
    engine.run(
        "CREATE TABLE w.c (a INT NOT NULL COMMENT 'the key', b STRING DEFAULT concat('x', 'y'), c INT, "
        "CONSTRAINT pos CHECK (c > 0) DISABLE, PRIMARY KEY (a) DISABLE NOVALIDATE) STORED AS ORC;"
        "CREATE EXTERNAL TABLE w.x (a INT) ROW FORMAT DELIMITED FIELDS TERMINATED BY '|' NULL DEFINED AS 'NULL'"
    )
    for table in ("w.c", "w.x", "w.p"):
        before = _shown(engine, table)
        engine.run(f"DROP TABLE {table}; {before}")
        assert _shown(engine, table) == before


def test_like_takes_the_definition_and_no_rows(engine: Engine, client: MetastoreClient) -> None:
    engine.run(
        "CREATE TABLE w.l LIKE w.p TBLPROPERTIES ('x'='y'); CREATE TABLE w.m LIKE w.n;"
        "CREATE TABLE w.o LIKE w.l STORED AS PARQUET"
    )
    like, source = client.catalog.get_table("w.l"), client.catalog.get_table("w.p")
    assert (like.columns, like.partition_columns, like.comments) == (
        source.columns,
        source.partition_columns,
        source.comments,
    )
    assert (like.bucket_count, like.is_transactional, like.property("x")) == (2, True, "y")
    plain = client.catalog.get_table("w.m")
    assert (plain.is_transactional, plain.format) == (False, "text")
    with pytest.raises(UnsupportedStatementError, match="PARTITIONED BY is what CREATE TABLE … LIKE takes"):
        engine.run("CREATE TABLE w.q LIKE w.p PARTITIONED BY (z INT)")


@pytest.mark.spark
def test_a_table_of_a_query_may_have_partitions_and_buckets(engine: Engine) -> None:
    query = "SELECT 'x' AS k, 1 AS a, DATE '2024-01-01' AS d UNION ALL SELECT NULL, 2, DATE '2024-01-02'"
    for name, options in (
        ("acid", "CLUSTERED BY (a) INTO 2 BUCKETS STORED AS ORC"),
        ("mm", "STORED AS PARQUET"),
        ("plain", "STORED AS ORC TBLPROPERTIES ('transactional'='false')"),
    ):
        [result] = engine.run(f"CREATE TABLE w.{name} PARTITIONED BY (k, d) {options} AS {query}")
        assert (result.kind, result.inserted) == ("create_table", 2)
        found = rows(engine, f"SELECT a, k, cast(d AS STRING) FROM w.{name} ORDER BY a")
        assert found == [[1, "x", "2024-01-01"], [2, None, "2024-01-02"]]
        assert len(rows(engine, f"SHOW PARTITIONS w.{name}")) == 2
    with pytest.raises(InvalidArgumentsError, match="the query gives no column z to partition by; it gives k, a, d"):
        engine.run(f"CREATE TABLE w.q PARTITIONED BY (z) AS {query}")
    assert "q" not in [name for name, *_ in rows(engine, "SHOW TABLES IN w")]


def test_sparks_spellings_of_tables_and_columns(engine: Engine, client: MetastoreClient) -> None:
    engine.run(
        "CREATE TABLE w.s (a INT, k STRING, b STRING) USING orc PARTITIONED BY (k) COMMENT 'c';"
        "ALTER TABLE w.s ADD COLUMN c INT COMMENT 'new'; ALTER TABLE w.s ADD COLUMNS d INT, e INT;"
        "ALTER TABLE w.s RENAME COLUMN c TO cc; ALTER TABLE w.s ALTER COLUMN a TYPE BIGINT;"
        "ALTER TABLE w.s ALTER COLUMN d COMMENT 'said'; ALTER TABLE w.s SET OWNER ROLE admins;"
    )
    table = client.catalog.get_table("w.s")
    assert [(c.name, c.type) for c in table.columns] == [
        ("a", "bigint"), ("b", "string"), ("cc", "int"), ("d", "int"), ("e", "int"),
    ]  # fmt: skip
    assert [c.name for c in table.partition_columns] == ["k"]
    assert table.comments == {"cc": "new", "d": "said"}
    assert (table.owner, table.owner_type) == ("admins", "ROLE")
    with pytest.raises(UnsupportedStatementError, match="AFTER is not supported"):
        engine.run("ALTER TABLE w.s ADD COLUMN z INT AFTER a")
    with pytest.raises(UnsupportedStatementError, match="USING delta is not supported for tables"):
        engine.run("CREATE TABLE w.q (a INT) USING delta")


@pytest.mark.spark
def test_a_column_that_was_added_and_renamed_later_keeps_its_values(engine: Engine) -> None:
    """The oldest file does not know the column, the second knows it by its first name."""
    engine.run(
        "CREATE TABLE w.r (id INT) STORED AS ORC; INSERT INTO w.r VALUES (1); ALTER TABLE w.r ADD COLUMNS (pages INT);"
        "INSERT INTO w.r VALUES (2, 300); ALTER TABLE w.r CHANGE COLUMN pages leaves INT; UPDATE w.r SET id = id + 1"
    )
    assert rows(engine, "SELECT id, leaves FROM w.r ORDER BY id") == [[2, None], [3, 300]]


@pytest.mark.spark
def test_a_column_that_had_another_name_for_a_while_keeps_its_values(engine: Engine) -> None:
    """The oldest file and the table agree, and a file between them does not."""
    engine.run(
        "CREATE TABLE w.s (id INT, pages INT) STORED AS ORC; INSERT INTO w.s VALUES (1, 100);"
        "ALTER TABLE w.s CHANGE COLUMN pages leaves INT; INSERT INTO w.s VALUES (2, 200);"
        "ALTER TABLE w.s CHANGE COLUMN leaves pages INT; UPDATE w.s SET id = id + 1"
    )
    assert rows(engine, "SELECT id, pages FROM w.s ORDER BY id") == [[2, 100], [3, 200]]


def test_a_database_is_altered(engine: Engine, client: MetastoreClient, tmp_path: Path) -> None:
    engine.run(
        f"CREATE DATABASE e; ALTER DATABASE e SET DBPROPERTIES ('a'='b'); ALTER SCHEMA e SET OWNER USER joe;"
        f"ALTER DATABASE e SET LOCATION 'file:{tmp_path}/e2'; CREATE EXTERNAL TABLE e.x (a INT) STORED AS ORC"
    )
    database = client.catalog.get_database("e")
    assert (database.properties, database.owner, database.owner_type) == ({"a": "b"}, "joe", "USER")
    assert client.catalog.get_table("e.x").location == f"file:{tmp_path}/e2/x"
    with pytest.raises(InvalidArgumentsError, match=r"table e\.x lies at .* and would stay there"):
        engine.run(f"ALTER DATABASE e SET LOCATION 'file:{tmp_path}/e3'")
    with pytest.raises(InvalidArgumentsError, match=r"would share files with table e\.x|share files"):
        engine.run(f"ALTER DATABASE w SET LOCATION 'file:{tmp_path}/e2/x/y'")
    with pytest.raises(NoSuchObjectError):
        engine.run("ALTER DATABASE nowhere SET OWNER USER joe")


def test_constraints_are_the_rows_that_hive_keeps(engine: Engine, client: MetastoreClient) -> None:
    engine.run(
        "CREATE TABLE w.c (a INT NOT NULL, b STRING DEFAULT 'x', c INT CONSTRAINT pos CHECK (c > 0) DISABLE, "
        "PRIMARY KEY (a, c) DISABLE NOVALIDATE) STORED AS ORC;"
        "ALTER TABLE w.c ADD CONSTRAINT u UNIQUE (b) DISABLE RELY;"
        "ALTER TABLE w.c ADD COLUMNS (d INT); ALTER TABLE w.c CHANGE d d INT CONSTRAINT dn NOT NULL ENABLE"
    )
    c = KEY_CONSTRAINTS.c
    with client.database.engine.connect() as connection:
        found = connection.execute(
            sa.select(c.CONSTRAINT_NAME, c.CONSTRAINT_TYPE, c.POSITION, c.PARENT_INTEGER_IDX, c.ENABLE_VALIDATE_RELY,
                      c.DEFAULT_VALUE)
            .join(TBLS, TBLS.c.TBL_ID == c.PARENT_TBL_ID).where(TBLS.c.TBL_NAME == "c")
            .order_by(c.CONSTRAINT_NAME, c.POSITION)
        ).all()  # fmt: skip
    assert [tuple(row) for row in found] == [
        ("dc_b", 4, 1, 1, 5, "'x'"), ("dn", 3, 1, 3, 5, None), ("nn_a", 3, 1, 0, 5, None), ("pk_a_c", 0, 1, 0, 0, None),
        ("pk_a_c", 0, 2, 2, 0, None), ("pos", 5, 1, 2, 0, "c > 0"), ("u", 2, 1, 1, 1, None),
    ]  # fmt: skip
    # The list of columns is another one after ADD COLUMNS, and the constraints went along.
    table = client.catalog.get_table("w.c")
    assert (table.required, table.defaults, table.checks) == ({"a", "d"}, {"b": "'x'"}, {})
    with pytest.raises(AlreadyExistsError, match="has a constraint u already"):
        engine.run("ALTER TABLE w.c ADD CONSTRAINT u CHECK (a > 1)")
    with pytest.raises(AlreadyExistsError, match="column a has NOT NULL already"):
        engine.run("ALTER TABLE w.c ALTER COLUMN a SET NOT NULL")
    engine.run("ALTER TABLE w.c DROP CONSTRAINT nn_a")
    assert client.catalog.get_table("w.c").required == {"d"}
    with pytest.raises(NoSuchObjectError, match="no constraint nn_a; it has dc_b"):
        engine.run("ALTER TABLE w.c DROP CONSTRAINT nn_a")


@pytest.mark.parametrize(
    ("columns", "problem"),
    [
        ("a INT PRIMARY KEY", "Please use DISABLE NOVALIDATE instead"),
        ("a INT NOT NULL VALIDATE", "VALIDATE feature not supported yet"),
        ("a INT CHECK (b > 0)", "names b, which is none of the columns a"),
        ("a INT CHECK (a IN (SELECT 1))", "no queries, aggregates"),
        ("a INT DEFAULT a", "constants and functions of constants"),
        ("a INT NOT NULL NOT NULL", "column a has NOT NULL twice"),
        ("a INT, b INT, FOREIGN KEY (a) REFERENCES w.p (a) DISABLE", "which is no PRIMARY KEY or UNIQUE"),
        ("a INT, CONSTRAINT c CHECK (a > 0), CONSTRAINT c CHECK (a > 1)", "two constraints are called c"),
        ("a INT, PRIMARY KEY (z) DISABLE", "is none of its columns"),
    ],
)
def test_a_constraint_that_cannot_be_leaves_no_table(engine: Engine, columns: str, problem: str) -> None:
    with pytest.raises(HiveAcidError, match=problem):
        engine.run(f"CREATE TABLE w.q ({columns}) STORED AS ORC")
    assert "q" not in [name for name, *_ in rows(engine, "SHOW TABLES IN w")]


@pytest.mark.spark
@pytest.mark.parametrize(
    "options",
    [
        "STORED AS ORC",
        "STORED AS PARQUET",
        pytest.param(
            "STORED AS ORC TBLPROPERTIES ('transactional'='false')", marks=pytest.mark.repeats("a table without txns")
        ),
    ],
)
def test_inserts_obey_what_is_enabled(engine: Engine, options: str) -> None:
    engine.run(
        "CREATE TABLE w.c (a INT NOT NULL, b STRING DEFAULT concat('x', 'y'), c INT CHECK (c > a), "
        f"d INT DEFAULT 7 DISABLE) {options}; INSERT INTO w.c (a, c) VALUES (1, 5);"
        "INSERT INTO w.c VALUES (2, DEFAULT, 9, DEFAULT), (3, NULL, NULL, 1)"
    )
    assert rows(engine, "SELECT * FROM w.c ORDER BY a") == [[1, "xy", 5, None], [2, "xy", 9, None], [3, None, None, 1]]
    for values, problem in (
        ("(9, 'x', 5, 1)", "CHECK constraint violated! cc_c of w.c: c > a"),
        ("(NULL, 'x', 5, 1)", "NOT NULL"),
    ):
        with pytest.raises(BadRecordError, match=problem):
            engine.run(f"INSERT INTO w.c VALUES {values}")
    assert rows(engine, "SELECT count(*) FROM w.c") == [[3]]


@pytest.mark.spark
def test_changes_obey_what_is_enabled(engine: Engine) -> None:
    engine.run(
        "CREATE TABLE w.c (a INT, b STRING DEFAULT 'dd', c INT, CONSTRAINT pos CHECK (c > 0)) PARTITIONED BY (k INT) "
        "STORED AS ORC;"
        "INSERT INTO w.c VALUES (1, 'x', 1, 1), (2, 'y', 2, 1)"
    )
    for change in (
        "UPDATE w.c SET c = c - 1",
        "UPDATE w.c SET c = -1, k = 5 WHERE a = 1",
        "MERGE INTO w.c t USING (SELECT 1 a) s ON t.a = s.a WHEN MATCHED THEN UPDATE SET c = 0",
        "MERGE INTO w.c t USING (SELECT 7 a) s ON t.a = s.a WHEN NOT MATCHED THEN INSERT (a, c, k) VALUES (7, -1, 1)",
    ):
        with pytest.raises(BadRecordError, match=r"CHECK constraint violated! pos of w\.c: c > 0"):
            engine.run(change)
    engine.run(
        "UPDATE w.c SET b = DEFAULT WHERE a = 1; DELETE FROM w.c WHERE a = 2;"
        "MERGE INTO w.c t USING (VALUES (7), (8), (1)) AS s(a) ON t.a = s.a "
        "WHEN MATCHED THEN UPDATE SET b = DEFAULT, c = 4 "
        "WHEN NOT MATCHED AND s.a = 7 THEN INSERT (a, c, k) VALUES (7, 1, 1) "
        "WHEN NOT MATCHED THEN INSERT (a, b, c, k) VALUES (s.a, 'said', 1, 1)"
    )
    assert rows(engine, "SELECT a, b, c FROM w.c ORDER BY a") == [[1, "dd", 4], [7, "dd", 1], [8, "said", 1]]


@pytest.mark.spark
def test_repair_adds_the_partitions_of_external_tables(engine: Engine, tmp_path: Path) -> None:
    for part, text in (("k=1/l=a b", "1|x"), ("k=2/l=c", "2|y"), ("_tmp/l=c", "3|z"), ("k=3", "4|q")):
        (tmp_path / "x" / part).mkdir(parents=True)
        (tmp_path / "x" / part / "file").write_text(text + "\n")
    engine.run(
        "CREATE EXTERNAL TABLE w.x (a INT, b STRING) PARTITIONED BY (k INT, l STRING) "
        f"ROW FORMAT DELIMITED FIELDS TERMINATED BY '|' STORED AS TEXTFILE LOCATION 'file:{tmp_path}/x';"
        "ALTER TABLE w.x ADD PARTITION (k=2, l='c')"
    )
    assert rows(engine, "MSCK REPAIR TABLE w.x") == [["k=1/l=a b"]]
    assert rows(engine, "ALTER TABLE w.x RECOVER PARTITIONS") == []
    assert rows(engine, "SELECT * FROM w.x ORDER BY a") == [[1, "x", 1, "a b"], [2, "y", 2, "c"]]
    with pytest.raises(UnsupportedStatementError, match="registered by the transactions that write them"):
        engine.run("MSCK REPAIR TABLE w.p")
    with pytest.raises(UnsupportedStatementError, match="may be on a disk that is not mounted"):
        engine.run("MSCK REPAIR TABLE w.x SYNC PARTITIONS")
    (tmp_path / "x" / "k=07" / "l=c").mkdir(parents=True)
    with pytest.raises(InvalidArgumentsError, match=r"k=07/l=c: .*give the directory that name"):
        engine.run("MSCK REPAIR TABLE w.x")


def test_a_transactional_table_that_is_not_orc_says_what_it_is(engine: Engine) -> None:
    [made] = engine.run("CREATE TABLE w.q (a INT) STORED AS PARQUET TBLPROPERTIES ('transactional'='true')")
    assert "w.q is transactional and not ORC, so it is insert_only" in str(made)
    [said] = engine.run(
        "CREATE TABLE w.r (a INT) STORED AS PARQUET "
        "TBLPROPERTIES ('transactional'='true', 'transactional_properties'='insert_only')"
    )
    assert said.note == ""


@pytest.mark.spark
def test_constants_of_bytes_are_read_and_written(real_engine: Engine) -> None:
    real_engine.run(
        "CREATE TABLE b (id INT, v BINARY); INSERT INTO b VALUES (1, X'01ff'), (2, x''); DELETE FROM b WHERE v = X'';"
        "UPDATE b SET v = X'02' WHERE v = x'01FF'"
    )
    assert rows(real_engine, "SELECT id, hex(v), X'0a' = unhex('0A') FROM b") == [[1, "02", True]]
