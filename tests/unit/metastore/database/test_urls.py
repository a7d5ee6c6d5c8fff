"""Metastore URLs: what cannot be one is refused with the remedy, and no secret in one is ever printed."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from airflow_hive_acid.errors import InvalidArgumentsError
from airflow_hive_acid.metastore.database.urls import normalize_url, safe_url


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("postgresql://u:geheim@h:port/db", "cannot be read"),
        ("postgresql://u:geheim@h:99999999999/db", "port"),
        ("postgresql://u:ge@heim@h/db", "write @ as %40"),
        ("jdbc:postgresql://u:geheim@h/db", "without jdbc:"),
        ("/data/metastore.db", "sqlite:////data/metastore.db"),
        ("postgresql://u:geheim@h", "names no database"),
        ("sqlite:////data/a?b/metastore.db", "write ? as %3F"),
        ("oracle://u:geheim@h/db", "not supported"),
        ("postgresql://u:geheim@h/d\ud800", "half a character"),
    ],
)
def test_a_url_that_is_none_is_refused_without_a_word_of_its_password(url: str, message: str) -> None:
    with pytest.raises(InvalidArgumentsError) as refused:
        normalize_url(url)
    assert message in str(refused.value)
    assert "geheim" not in str(refused.value)
    assert "heim@" not in str(refused.value)
    assert refused.value.__suppress_context__ or refused.value.__context__ is None


_PG, _MY = "postgresql://u:geheim@db.example/m?", "mysql://u:geheim@db.example/m?"


@pytest.mark.parametrize(
    "url",
    [
        # What would read or write files, or run something, for the server.
        *(f"{_MY}{p}" for p in ("local_infile=1", "local_infile=0", "init_command=SET+x", "read_default_file=/x",
                               "read_default_group=client", "auth_plugin_map=x", "client_flag=128", "conv=x",
                               "cursorclass=x", "server_public_key=x", "sql_mode=x", "plugin=x", "passwd=geheim",
                               "host=evil", "db=x", "autocommit=true", "charset=utf7")),
        *(f"{_PG}{p}" for p in ("passfile=/etc/passwd", "service=x", "servicefile=/x", "sslkeylogfile=/tmp/keys",
                               "gssdelegation=1", "oauth_issuer=https://evil", "replication=true", "plugin=x",
                               "context=x", "cursor_factory=x", "autocommit=true", "prepare_threshold=1", "dbname=x",
                               "user=x", "password=geheim", "require_auth=%0A", "LOCAL_INFILE=1")),
        # What makes the line, the login or commits weaker.
        *(f"{_MY}{p}" for p in ("ssl_disabled=true", "ssl_check_hostname=false", "ssl_verify_cert=false",
                               "ssl_verify_identity=true", "ssl_cipher=NULL", "ssl=false")),
        *(f"{_PG}{p}" for p in ("sslmode=disable", "sslmode=allow", "sslmode=require&sslmode=disable",
                               "ssl_min_protocol_version=TLSv1", "channel_binding=disable", "sslcompression=1",
                               "options=-c+synchronous_commit%3Doff", "options=-c+search_path%3Dx+-c+role%3Dadmin",
                               "target_session_attrs=read-only", "client_encoding=latin1",
                               "host=127.0.0.1,evil&sslmode=disable")),
        "postgresql://u@127.0.0.1/m?hostaddr=10.0.0.1&sslmode=disable",
        "postgresql:///m?host=evil&sslmode=disable",
    ],
)  # fmt: skip
def test_a_parameter_of_a_driver_that_is_not_on_its_list_is_refused_by_name(url: str) -> None:
    with pytest.raises(InvalidArgumentsError) as refused:
        normalize_url(url)
    name = url.partition("?")[2].split("=")[0]
    assert name.split("&")[0] in str(refused.value) or "sslmode" in str(refused.value)
    assert "geheim" not in str(refused.value)


@pytest.mark.parametrize(
    "url",
    [
        f"{_PG}sslmode=verify-full&sslrootcert=/ca.pem&sslcert=/c.pem&sslkey=/k.pem&channel_binding=require",
        f"{_PG}options=-csearch_path%3Dhive&application_name=x&connect_timeout=3&keepalives_idle=30",
        f"{_PG}options=-c+search_path%3Dhive+-c+lock_timeout%3D5s&gssencmode=disable&krbsrvname=postgres",
        "postgresql:///m?host=/var/run/postgresql&sslmode=disable",
        "postgresql://u@127.0.0.1:5432/m?sslmode=disable",
        "postgresql:///m?host=a:1&host=b:2&target_session_attrs=read-write",
        f"{_MY}charset=utf8mb4&ssl_ca=/ca.pem&ssl_cert=/c&ssl_key=/k&ssl_check_hostname=true&read_timeout=30",
        "mysql://root@localhost/m?unix_socket=/run/mysqld/mysqld.sock",
    ],
)
def test_the_parameters_that_people_need_pass_as_they_are(url: str) -> None:
    assert normalize_url(url).query == sa.make_url(url).query


def test_a_password_is_hidden_wherever_it_stands_in_a_url() -> None:
    url = sa.make_url("postgresql://u:geheim@h/db?password=geheim&sslpassword=geheim&Token=geheim&sslmode=require")
    assert safe_url(url) == "postgresql://u:***@h/db?Token=***&password=***&sslmode=require&sslpassword=***"
    assert url.query["password"] == "geheim"  # what connects is not changed


def test_a_url_that_names_no_user_is_printed_as_it_is() -> None:
    assert safe_url(sa.make_url("mysql://h:3306/db?charset=utf8mb4")) == "mysql://h:3306/db?charset=utf8mb4"
