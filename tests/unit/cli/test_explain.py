"""``hive-acid explain``: which script explains a text."""

import pytest

from airflow_hive_acid.cli.commands.statements.explain import explained
from airflow_hive_acid.errors import InvalidArgumentsError, SqlSyntaxError

VIEW = "CREATE TEMPORARY VIEW v (id INT) USING csv OPTIONS (path '/a')"
INSERT = "INSERT INTO w.t SELECT * FROM v"


@pytest.mark.parametrize(
    ("text", "locks", "script"),
    [
        ("DELETE FROM w.t", False, "EXPLAIN DELETE FROM w.t"),
        ("  SELECT 1 ; ", True, "EXPLAIN LOCKS SELECT 1"),
        (f"{VIEW}; {INSERT};", False, f"{VIEW};\nEXPLAIN {INSERT}"),
    ],
)
def test_the_last_statement_is_explained_and_views_stand_before_it(text, locks, script):
    assert explained(text, locks=locks) == script


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("-- nothing", InvalidArgumentsError, "no statement"),
        ("SELECT 1;\nDROP TABLE w.t;\nSELECT 2", InvalidArgumentsError, "line 1: only views, USE and SET"),
        ("SELEC 1", SqlSyntaxError, "did you mean SELECT"),
    ],
)
def test_what_would_be_run_is_refused(text, error, message):
    with pytest.raises(error, match=message):
        explained(text, locks=False)
