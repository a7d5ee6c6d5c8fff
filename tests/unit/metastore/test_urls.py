"""Metastore URLs: what cannot be one is refused with the remedy, and no secret in one is ever printed."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from airflow_hive_acid.errors import InvalidArgumentsError
from airflow_hive_acid.metastore.urls import normalize_url, safe_url


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("postgresql://u:geheim@h:port/db", "cannot be read"),
        ("postgresql://u:geheim@h:99999999999/db", "port"),
        ("postgresql://u:ge@heim@h/db", "write @ as %40"),
        ("jdbc:postgresql://u:geheim@h/db", "cannot be read"),
        ("/data/metastore.db", "sqlite:////data/metastore.db"),
        ("postgresql://u:geheim@h", "names no database"),
        ("sqlite:////data/a?b/metastore.db", "write ? as %3F"),
        ("oracle://u:geheim@h/db", "not supported"),
    ],
)
def test_a_url_that_is_none_is_refused_without_a_word_of_its_password(url: str, message: str) -> None:
    with pytest.raises(InvalidArgumentsError) as refused:
        normalize_url(url)
    assert message in str(refused.value)
    assert "geheim" not in str(refused.value)
    assert "heim@" not in str(refused.value)
    assert refused.value.__suppress_context__ or refused.value.__context__ is None


def test_a_password_is_hidden_wherever_it_stands_in_a_url() -> None:
    url = sa.make_url("postgresql://u:geheim@h/db?password=geheim&sslpassword=geheim&Token=geheim&sslmode=require")
    assert safe_url(url) == "postgresql://u:***@h/db?Token=***&password=***&sslmode=require&sslpassword=***"
    assert url.query["password"] == "geheim"  # what connects is not changed


def test_a_url_that_names_no_user_is_printed_as_it_is() -> None:
    assert safe_url(sa.make_url("mysql://h:3306/db?charset=utf8mb4")) == "mysql://h:3306/db?charset=utf8mb4"
