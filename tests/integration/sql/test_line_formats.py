"""External tables of CSV, JSON and text with options, with a real Spark; Avro says which package is missing."""

# ruff: noqa: S608 - statements put together from paths of the tests

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from airflow_hive_acid.errors import BadRecordError, HiveAcidError, InvalidArgumentsError, UnsupportedStatementError
from tests.integration.sql.answers import rows

if TYPE_CHECKING:
    from pathlib import Path

    from airflow_hive_acid.engine import Engine

pytestmark = pytest.mark.spark

CSV = "ROW FORMAT SERDE 'org.apache.hadoop.hive.serde2.OpenCSVSerde'"
# As Hive 4 prints it, blanks at the ends of lines included.
HIVES_TEXT = "\n".join(
    (
        "CREATE EXTERNAL TABLE `c2`(",
        "  `a` string COMMENT 'from deserializer', ",
        "  `b` string COMMENT 'from deserializer')",
        "ROW FORMAT SERDE ",
        "  'org.apache.hadoop.hive.serde2.OpenCSVSerde' ",
        "WITH SERDEPROPERTIES ( ",
        "  'escapeChar'='\\\\', ",
        "  'quoteChar'='\\'', ",
        "  'separatorChar'=';') ",
        "STORED AS INPUTFORMAT ",
        "  'org.apache.hadoop.mapred.TextInputFormat' ",
        "OUTPUTFORMAT ",
        "  'org.apache.hadoop.hive.ql.io.HiveIgnoreKeyTextOutputFormat'",
        "LOCATION",
        "  '{place}'",
        "TBLPROPERTIES (",
        "  'bucketing_version'='2', ",
        "  'skip.header.line.count'='1', ",
        "  'transient_lastDdlTime'='1700000000')",
    )
)


def test_csv_tables_are_read_and_written_as_opencsvserde_does(real_engine: Engine, tmp_path: Path) -> None:
    engine, place = real_engine, tmp_path / "c2"
    place.mkdir()
    (place / "one.csv").write_text("a;b\n1;'two; \\'3'\n;\n4\n")
    (place / "two.csv").write_text("a;b\r\n5;six")
    engine.run(HIVES_TEXT.replace("{place}", str(place)))
    assert rows(engine, "SELECT a, b FROM c2 ORDER BY a, b") == [["", ""], ["1", "two; '3"], ["4", None], ["5", "six"]]
    with pytest.raises(UnsupportedStatementError, match=r"skip\.header\.line\.count"):
        engine.run("INSERT INTO c2 VALUES ('7', '8')")
    [shown] = rows(engine, "SHOW CREATE TABLE c2")[:1]
    assert "c2" in shown[0]
    text = "\n".join(line[0] for line in rows(engine, "SHOW CREATE TABLE c2"))
    engine.run("DROP TABLE c2;" + text)
    assert len(rows(engine, "SELECT * FROM c2")) == 4

    engine.run(f"CREATE EXTERNAL TABLE w (a STRING, b STRING) {CSV} STORED AS TEXTFILE LOCATION '{tmp_path}/w';"
               "INSERT INTO w VALUES ('x,\"y\"', 'back\\\\slash'), (NULL, 'z')")  # fmt: skip
    assert rows(engine, "SELECT * FROM w ORDER BY b DESC") == [["", "z"], ['x,"y"', "back\\slash"]]
    with pytest.raises(BadRecordError, match="line break"):
        engine.run("INSERT INTO w VALUES ('a\\nb', 'c')")
    for refused in (f"CREATE EXTERNAL TABLE n (a INT) {CSV}", f"CREATE TABLE n (a STRING) {CSV}"):
        with pytest.raises(InvalidArgumentsError):
            engine.run(refused)


def test_json_tables_are_read_and_written_as_jsonserde_does(real_engine: Engine, tmp_path: Path) -> None:
    engine, place = real_engine, tmp_path / "j"
    place.mkdir()
    (place / "one.json").write_text(
        '{"ID": 1, "Name": "a", "at": "2024-05-01 10:00:00", "tags": ["x", "y"], "s": {"n": 2.5}}\n'
        '{"id": 2, "other": true, "price": 3.25}\n'
    )
    columns = "id INT, name STRING, at TIMESTAMP, tags ARRAY<STRING>, s STRUCT<n: DOUBLE>, price DECIMAL(5,2)"
    for clause in (
        "STORED AS JSONFILE", "ROW FORMAT SERDE 'org.apache.hive.hcatalog.data.JsonSerDe'",
        "ROW FORMAT SERDE 'org.apache.hadoop.hive.serde2.JsonSerDe' STORED AS TEXTFILE",
    ):  # fmt: skip
        engine.run(f"CREATE EXTERNAL TABLE j ({columns}) {clause} LOCATION '{place}'")
        read = rows(
            engine, "SELECT id, name, CAST(at AS STRING), tags[1], s.n, CAST(price AS STRING) FROM j ORDER BY id"
        )
        assert read == [[1, "a", "2024-05-01 10:00:00", "y", 2.5, None], [2, None, None, None, None, "3.25"]]
        engine.run("DROP TABLE j")
    engine.run(f"CREATE EXTERNAL TABLE k ({columns}) PARTITIONED BY (k STRING) STORED AS JSONFILE "
               f"LOCATION '{tmp_path}/k'; INSERT INTO k PARTITION (k='p') SELECT 7, 'line\\nbreak', "
               "TIMESTAMP '2024-05-01 10:00:00', array('t'), named_struct('n', 1.5D), NULL")  # fmt: skip
    assert rows(engine, "SELECT id, name, CAST(at AS STRING), tags[0], s.n, price, k FROM k") == [
        [7, "line\nbreak", "2024-05-01 10:00:00", "t", 1.5, None, "p"]
    ]
    (place / "two.json").write_text("no json\n")
    engine.run(f"CREATE EXTERNAL TABLE j (id INT) STORED AS JSONFILE LOCATION '{place}'")
    with pytest.raises(HiveAcidError):
        rows(engine, "SELECT id FROM j")


def test_text_tables_have_headers_footers_escapes_and_a_null_of_their_own(real_engine: Engine, tmp_path: Path) -> None:
    engine, place = real_engine, tmp_path / "t"
    place.mkdir()
    (place / "one.txt").write_text("made by\nid|name\n1|a\\|b\n2|-\n\\\n3|back\\\\\nthe end\n")
    engine.run(f"""CREATE EXTERNAL TABLE t (id INT, name STRING) ROW FORMAT DELIMITED FIELDS TERMINATED BY '|'
        ESCAPED BY '\\\\' NULL DEFINED AS '-' STORED AS TEXTFILE LOCATION '{place}'
        TBLPROPERTIES ('skip.header.line.count'='2', 'skip.footer.line.count'='1')""")
    assert rows(engine, "SELECT id, name FROM t WHERE id IS NOT NULL ORDER BY id") == [
        [1, "a|b"], [2, None], [3, "back\\"],
    ]  # fmt: skip
    assert rows(engine, "SELECT count(*) FROM t") == [[4]]
    engine.run(f"""CREATE EXTERNAL TABLE u (id INT, name STRING, more STRING) ROW FORMAT DELIMITED
        FIELDS TERMINATED BY ',' ESCAPED BY '\\\\' STORED AS TEXTFILE LOCATION '{tmp_path}/u';
        INSERT INTO u VALUES (1, 'a,b\\\\', '\\\\N'), (2, '', NULL)""")
    assert rows(engine, "SELECT * FROM u ORDER BY id") == [[1, "a,b\\", "\\N"], [2, "", None]]
    [file] = [path for path in (tmp_path / "u").iterdir() if path.name[0] != "." and path.stat().st_size]
    assert sorted(file.read_text().splitlines()) == ["1,a\\,b\\\\,\\\\N", "2,,\\N"]


def test_avro_says_which_package_is_missing(real_engine: Engine, tmp_path: Path) -> None:
    place = tmp_path / "a"
    place.mkdir()
    (place / "one.avro").write_bytes(b"Obj\x01")
    real_engine.run(f"CREATE EXTERNAL TABLE a (id INT) STORED AS AVRO LOCATION '{place}'")
    with pytest.raises(UnsupportedStatementError, match=r"org\.apache\.spark:spark-avro_2\.1[23]:"):
        rows(real_engine, "SELECT * FROM a")
    with pytest.raises(UnsupportedStatementError, match="not written"):
        real_engine.run("INSERT INTO a VALUES (1)")
