"""Passwords in statements: hidden in what is shown and kept, whatever their names look like."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_hive_acid.engine.outcomes.results import StatementResult
from airflow_hive_acid.sql.text.masking import hide_secrets, is_secret, secrets_in
from tests.examples import examples

KEYS = (
    "password",
    "PASSWORD",
    "dbPassword",
    "fs.s3a.secret.key",
    "api_key",
    "accessKey",
    "sasl.token",
    "my-pwd",
    "apikey",
)
SECRET = "S3 cret'' \\' ö)"


def test_a_raw_text_is_hidden_too() -> None:
    text = """CREATE VIEW v USING jdbc OPTIONS (password r'a\\', user R"b", secret R"'", other r'kept')"""
    hidden = "CREATE VIEW v USING jdbc OPTIONS (password '***', user R\"b\", secret '***', other r'kept')"
    assert hide_secrets(text) == hidden
    assert secrets_in(text) == {"a\\", "'"}
    assert hide_secrets("(r'password' = 'x', R\"token\" r'y')") == "(r'password' = '***', R\"token\" '***')"


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("shape", ["{k} '{v}'", "{k}='{v}'", "'{k}' = '{v}'", "`{k}`  '{v}'", "\"{k}\"=\n'{v}'"])
def test_the_value_of_a_secret_is_hidden_and_told(key: str, shape: str) -> None:
    text = f"CREATE VIEW v USING jdbc OPTIONS (path '/in', {shape.format(k=key, v=SECRET)}, other 'kept')"
    hidden = hide_secrets(text)
    assert "S3 cret" not in hidden
    assert "path '/in'" in hidden
    assert "other 'kept'" in hidden
    assert hide_secrets(hidden) == hidden
    assert secrets_in(text) == {SECRET}
    assert is_secret(key)


def test_a_password_in_a_uri_is_hidden_and_other_text_is_as_it_was() -> None:
    assert hide_secrets("url 'jdbc:postgresql://u:geheim@h/db'") == "url 'jdbc:postgresql://u:***@h/db'"
    for text in ("SELECT password FROM t", "SELECT 'x' AS token_count", "INSERT INTO t VALUES ('a', 'b')", "/* :// */"):
        assert hide_secrets(text) == text
        assert secrets_in(text) == set()


def test_results_never_hold_one() -> None:
    result = StatementResult("CREATE VIEW v USING csv OPTIONS (password 'S3')", "create_view")
    assert "S3" not in f"{result!r} {result.to_document()} {result.to_record()}"
    assert StatementResult.from_record(result.to_record()) == result


@given(st.text(alphabet="pasword '\"=\\`:/@.-", max_size=200))
@settings(max_examples=examples(200), deadline=None)
def test_any_text_can_be_asked(text: str) -> None:
    assert hide_secrets(hide_secrets(text)) == hide_secrets(text)


@pytest.mark.parametrize(
    "text", ["password" * 20_000, "pass'" * 20_000, "password '" + "\\" * 99_999, "a://b:" * 20_000]
)
def test_long_texts_come_to_an_end(text: str) -> None:
    assert hide_secrets(hide_secrets(text)) == hide_secrets(text)
