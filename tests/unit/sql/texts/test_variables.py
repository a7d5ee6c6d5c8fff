"""${hivevar:x} and ${hiveconf:x} in scripts, and USE, SET and RESET as they are read."""

from __future__ import annotations

import pytest

from airflow_hive_acid.errors import InvalidArgumentsError, SqlSyntaxError, UnsupportedStatementError
from airflow_hive_acid.settings import SESSION_SETTINGS, SETTINGS, session_setting, setting_of
from airflow_hive_acid.sql import parse_script
from airflow_hive_acid.sql.model.session import Reset, SetValue, ShowValues, Space, Use
from airflow_hive_acid.sql.text.masking import hide_secrets
from airflow_hive_acid.sql.text.variables import Variables, substitute


def exchanged(text: str, **hivevar: str) -> str:
    return substitute(text, Variables(hivevar))


def test_a_variable_is_exchanged_in_names_numbers_and_quotes() -> None:
    text = "SELECT ${hivevar:n} + ${n} FROM t_${hivevar:day} WHERE d = '${hivevar:day}' -- ${hivevar:none}"
    assert exchanged(text, n="5", day="x1") == "SELECT 5 + 5 FROM t_x1 WHERE d = 'x1' -- ${hivevar:none}"


def test_a_pattern_with_backslashes_stands_in_a_raw_text() -> None:
    assert exchanged("SELECT a RLIKE r'^${v}$', 'r'", v=r"\d+\.") == r"SELECT a RLIKE r'^\d+\.$', 'r'"
    with pytest.raises(SqlSyntaxError, match="holds a ', and would end the quotes"):
        exchanged("SELECT r'${v}'", v=r"\d'")


def test_what_is_set_above_counts_below() -> None:
    text = "SET hivevar:d='2026-01-01'; SET A.b = c; SELECT ${hivevar:d}, '${hiveconf:a.B}'; "
    text += "SET hivevar:d=${d}; SELECT ${d}"
    assert exchanged(text, d="1").endswith("SELECT '2026-01-01', 'c'; SET hivevar:d='2026-01-01'; SELECT '2026-01-01'")
    with pytest.raises(SqlSyntaxError, match="hiveconf a has no value"):
        exchanged("SET a=1; RESET; SELECT ${hiveconf:a}")


def test_places_of_a_script_stay_places_with_statements_around_them() -> None:
    text = "-- a; ${hivevar:x}\nSELECT '; ${x}' ;; /* ; */ SELECT `${x}`;"
    assert exchanged(text, x="y") == "-- a; ${hivevar:x}\nSELECT '; y' ;; /* ; */ SELECT `y`;"
    (first, second) = parse_script(text, variables=Variables({"x": "y"}))
    assert (first.text, first.line, second.text) == ("SELECT '; y'", 2, "SELECT `y`")


def test_a_setting_is_given_by_its_key() -> None:
    known = Variables(setting=lambda key: {"hive.lock.numretries": "7"}.get(key))
    assert substitute("SELECT ${hiveconf:hive.lock.numretries}", known) == "SELECT 7"


@pytest.mark.parametrize(
    ("text", "value", "why"),
    [
        ("SELECT ${v}", "1; DROP TABLE t", "semicolon"),
        ("SELECT ${v}", "1 -- rest", "comment"),
        ("SELECT ${v}", "1 /* rest", "never closed"),
        ("SELECT ${v}", "-- rest", "comment"),
        ("SELECT 1 -${v}", "-1", "a comment would begin"),
        ("SELECT 1 ${v}- 1", "-", "a comment would begin"),
        ("SELECT ${v}", "'a", "never closed"),
        ("SELECT ${v}", "1) FROM (SELECT 2", "parentheses"),
        ("SELECT (${v}", "1)", "parentheses"),
        ("SELECT '${v}'", "x' OR '1'='1", "end the quotes"),
        ("SELECT '${v}'", "x\\", "end the quotes"),
        ('SELECT "${v}"', 'x"', "end the quotes"),
        ("SELECT `${v}`", "a`.`b", "end the quotes"),
        ("SELECT r'${v}'", "x' OR '1'='1", "end the quotes"),
    ],
)
def test_a_value_stays_where_it_stands(text: str, value: str, why: str) -> None:
    with pytest.raises(SqlSyntaxError, match=why):
        exchanged(text, v=value)


def test_a_value_is_text_and_no_script() -> None:
    """It is not looked through again for variables."""
    assert exchanged("SELECT '${a}'", a="${b}", b="2") == "SELECT '${b}'"
    assert exchanged("SELECT ${a}", a="1 OR 1=1") == "SELECT 1 OR 1=1"


def test_what_has_no_value_is_refused_at_its_place_unless_it_is_text() -> None:
    assert exchanged("SELECT '${other}', '${my:x}'") == "SELECT '${other}', '${my:x}'"
    for text in ("SELECT ${x}", "SELECT '${hivevar:x}'", "SELECT '${hiveconf:x}'"):
        with pytest.raises(SqlSyntaxError, match="x has no value; give it one") as raised:
            exchanged(text)
        assert "^" in str(raised.value)
    for text in ("SELECT '${env:HOME}'", "SELECT '${system:user.name}'"):
        with pytest.raises(SqlSyntaxError, match="does not see the environment"):
            exchanged(text, HOME="x")
    with pytest.raises(InvalidArgumentsError, match="cannot be called 'a b'"):
        Variables({"a b": "1"})


def test_without_variables_the_text_is_left_alone() -> None:
    (statement,) = parse_script("SELECT '${hivevar:x}'")
    assert statement.text == "SELECT '${hivevar:x}'"


def test_use_and_set_are_read_as_hive_reads_them() -> None:
    first, *rest = parse_script("USE Shop; SELECT * FROM t; USE `other`; INSERT INTO t SELECT 1; USE database")
    assert isinstance(first, Use)
    assert [s.default_database for s in rest] == ["shop", "shop", "other", "other"]
    assert [(s.space, s.name, s.value) for s in parse_script("SET a.b = 'x;y' ; SET HIVEVAR:c=1 = 2;set hiveconf:d=")
            if isinstance(s, SetValue)] == [
        (Space.HIVECONF, "a.b", "'x;y'"), (Space.HIVEVAR, "c", "1 = 2"), (Space.HIVECONF, "d", ""),
    ]  # fmt: skip
    shown = parse_script("SET; SET -v; SET a.b; SET hivevar:c")
    assert [(s.name, s.everything) for s in shown if isinstance(s, ShowValues)] == [
        (None, False), (None, True), ("a.b", False), ("c", False),
    ]  # fmt: skip
    assert [s.names for s in parse_script("RESET; RESET a.b c") if isinstance(s, Reset)] == [(), ("a.b", "c")]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("ADD JAR /a/b.jar", "run no code of their own"),
        ("ADD FILE x", "run no code"),
        ("DELETE JAR x", "run no code"),
        ("LIST JARS", "run no code"),
        ("CREATE FUNCTION f AS 'a.b'", "functions are Spark's"),
        ("CREATE TEMPORARY FUNCTION f AS 'a.b'", "functions are Spark's"),
        ("CREATE TEMPORARY MACRO f(x INT) x + 1", "functions are Spark's"),
        ("SET spark.sql.shuffle.partitions=1", "spark_conf"),
        ("SET ROLE admin", "SET ROLE is not supported"),
        ("SET TIME ZONE LOCAL", "spark.sql.session.timeZone"),
        ("SET env:A=1", "environment"),
        ("SET system:a=1", "Java of a Hive server"),
    ],
)
def test_what_a_script_does_not_have_is_refused_with_the_reason(text: str, why: str) -> None:
    with pytest.raises(UnsupportedStatementError, match=why):
        parse_script(text)


@pytest.mark.parametrize("text", ["SET a b c", "SET other:a=1", "SET a'b=1", "USE", "USE a.b", "RESET 'x'"])
def test_what_is_no_set_is_underlined(text: str) -> None:
    with pytest.raises(SqlSyntaxError, match=r"line 1"):
        parse_script(text)


def test_settings_have_two_spellings_and_a_script_may_set_its_own() -> None:
    assert SESSION_SETTINGS <= set(SETTINGS)
    assert setting_of("METASTORE.txn.timeout") is SETTINGS["hive.txn.timeout"]
    assert session_setting("metastore.lock.numretries", "3") is SETTINGS["hive.lock.numretries"]
    assert session_setting("mapreduce.job.queuename", "x") is None
    assert session_setting("hive.exec.dynamic.partition", "true") is None
    with pytest.raises(InvalidArgumentsError, match=r"hive\.txn\.timeout cannot be set in a script"):
        session_setting("hive.txn.timeout", "1s")
    with pytest.raises(InvalidArgumentsError, match=r"did you mean hive\.lock\.numretries"):
        session_setting("hive.lock.numretires", "1")
    with pytest.raises(InvalidArgumentsError, match=r"hive\.lock\.numretries = 'x' \(SET in the script\)"):
        session_setting("hive.lock.numretries", "x")


def test_secrets_that_are_set_are_hidden() -> None:
    assert hide_secrets("SET fs.s3a.secret.key=abc") == "SET fs.s3a.secret.key=***"
    assert hide_secrets("SELECT 1;\n SET hivevar:password = abc def") == "SELECT 1;\n SET hivevar:password = ***"
    assert hide_secrets("UPDATE t SET token = f(x), a = 1") == "UPDATE t SET token = f(x), a = 1"
