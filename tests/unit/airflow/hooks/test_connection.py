"""Connections of type ``hive_acid``: what is read, what is refused, and that no character escapes its field."""

from __future__ import annotations

import pytest
import sqlalchemy as sa
from airflow.sdk import Connection
from hypothesis import given
from hypothesis import strategies as st

from airflow_hive_acid.errors import ConfigurationError, InvalidArgumentsError
from airflow_hive_acid.hooks.connection import read_connection, require_warehouse


def connection(extra=None, **fields) -> Connection:
    return Connection(conn_id="acid", conn_type=fields.pop("conn_type", "hive_acid"), extra=extra, **fields)


def connect(extra=None, **fields):
    import json

    return read_connection(connection(None if extra is None else json.dumps(extra), **fields))


def test_sqlite_file_is_the_default():
    read = connect({"warehouse": "/data/warehouse"}, host="/data/metastore.db")
    assert read.metastore_url == sa.make_url("sqlite:////data/metastore.db")
    assert read.warehouse == "file:///data/warehouse"
    assert read.spark_conn_id == "spark_default"


def test_postgresql_from_the_fields():
    read = connect(
        {"dialect": "postgresql"}, host="db.example.com", port=5433, login="hive", password="p", schema="metastore"
    )
    assert read.metastore_url.render_as_string(hide_password=False) == (
        "postgresql://hive:p@db.example.com:5433/metastore"
    )


@given(password=st.text(min_size=1), login=st.text(min_size=1))
def test_no_user_and_no_password_changes_where_the_url_points(password, login):
    url = connect({"dialect": "postgresql"}, host="db", login=login, password=password, schema="m").metastore_url
    again = sa.make_url(url.render_as_string(hide_password=False))
    assert (url.host, url.database, url.query) == ("db", "m", {})
    assert (url.username, url.password) == (login, password)
    assert (again.host, again.database) == ("db", "m")


def test_password_does_not_show_when_the_connection_is_printed():
    read = connect({"dialect": "postgresql"}, host="db", login="u", password="hunter2", schema="m")
    assert "hunter2" not in repr(read)
    assert "hunter2" not in str(read.metastore_url)


def test_metastore_url_takes_user_and_password_from_the_connection():
    read = connect({"metastore_url": "postgresql://db:5432/metastore"}, login="hive", password="a@b/c")
    assert (read.metastore_url.username, read.metastore_url.password) == ("hive", "a@b/c")
    assert (read.metastore_url.host, read.metastore_url.database) == ("db", "metastore")


def test_keys_of_hive_and_spark_are_settings():
    read = connect(
        {"hive.txn.timeout": "600s", "metastore.max.open.txns": 5, "spark.executor.memory": "4g", "hive.x": True},
        host="/m.db",
    )
    assert read.settings == {"hive.txn.timeout": "600s", "metastore.max.open.txns": "5", "hive.x": "true"}
    assert read.spark_conf == {"spark.executor.memory": "4g"}


def test_empty_fields_of_the_form_count_as_not_given():
    read = connect({"metastore_url": "", "warehouse": None, "spark_conn_id": ""}, host="/m.db")
    assert (read.warehouse, read.spark_conn_id) == (None, "spark_default")


@pytest.mark.parametrize(("given", "read"), [(None, None), ("", None), ("etl", "etl"), ("s3://b/etl", "s3://b/etl")])
def test_a_spark_service_is_named_or_given_by_its_uri(given, read):
    assert connect({"spark_service": given}, host="/m.db").spark_service == read


@pytest.mark.parametrize(("given", "read"), [(None, None), ("", None), ("owner", "owner"), ("a-b@REALM", "a-b@REALM")])
def test_a_user_is_named_whom_jobs_act_for(given, read):
    assert connect({"proxy_user": given}, host="/m.db").proxy_user == read


@pytest.mark.parametrize(
    ("extra", "fields", "words"),
    [
        ({}, {"conn_type": "postgres", "host": "h"}, ["'acid'", "'postgres'", "'hive_acid'"]),
        ({"warehous": "/w"}, {"host": "/m.db"}, ["'warehous'", "did you mean 'warehouse'"]),
        ({"zzz": 1}, {"host": "/m.db"}, ["'zzz'", "known are", "hive.*"]),
        ({}, {"host": "metastore.db"}, ["absolute", "'metastore.db'"]),
        ({}, {}, ["absolute", "SQLite"]),
        ({"dialect": "oracle"}, {"host": "h"}, ["sqlite, postgresql, mysql", "'oracle'"]),
        ({"dialect": "mysql"}, {"schema": "m"}, ["host", "mysql"]),
        ({"dialect": "postgresql"}, {"host": "h"}, ["Metastore database (schema)", "postgresql"]),
        ({"metastore_url": "postgresql://h/m"}, {"host": "other"}, ["metastore_url", "'host'"]),
        ([1], {"host": "/m.db"}, ["its extra must be a JSON object"]),
        ("text", {"host": "/m.db"}, ["its extra must be a JSON object"]),
        ({"warehouse": "warehouse"}, {"host": "/m.db"}, ["warehouse", "URI or an absolute path"]),
        ({"proxy_user": "ann --conf x=y"}, {"host": "/m.db"}, ["proxy_user", "'ann --conf x=y'", "one account"]),
        ({"spark_service": "../x"}, {"host": "/m.db"}, ["spark_service", "'../x'", "letters, digits"]),
    ],
)
def test_unusable_connection_is_refused_with_field_and_remedy(extra, fields, words):
    with pytest.raises(InvalidArgumentsError) as caught:
        connect(extra, **fields)
    assert [word for word in words if word not in str(caught.value)] == []


def test_url_that_cannot_be_read_is_not_repeated_because_it_may_hold_a_password():
    with pytest.raises(InvalidArgumentsError) as caught:
        connect({"metastore_url": "secret//not a url"})
    assert "secret" not in str(caught.value)


def test_missing_warehouse_is_told_to_who_needs_it():
    with pytest.raises(ConfigurationError, match="'acid' names no warehouse"):
        require_warehouse(connect({}, host="/m.db"))
