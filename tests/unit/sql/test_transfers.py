"""EXPORT, IMPORT and FOR REPLICATION: what is read, and what is refused with its place."""

from __future__ import annotations

import inspect

import pytest

from airflow_hive_acid.errors import SqlSyntaxError
from airflow_hive_acid.sql import parse_script
from airflow_hive_acid.sql.model.origins import TableName
from airflow_hive_acid.sql.model.statements import DropTable
from airflow_hive_acid.sql.model.transfers import (
    DropPartitionsForReplication,
    DropTableForReplication,
    ExportTable,
    ImportTable,
)
from airflow_hive_acid.sql.planning.named_tables import touched

T = TableName("w", "t")


@pytest.mark.parametrize(("text", "statement"), [
    ("EXPORT TABLE w.t TO 'file:/d'", ExportTable(T, "file:/d")),
    ("export table w.t to '/d' for replication('7')", ExportTable(T, "/d", event_id="7")),
    ("EXPORT TABLE w.t PARTITION (ds='1', h=2) TO '/d' FOR METADATA REPLICATION('x')",
     ExportTable(T, "/d", ((("ds", "1"), ("h", "2")),), True, "x")),
    ("EXPORT TABLE w.t PARTITION (ds='1'), PARTITION (ds='2') TO '/d'",
     ExportTable(T, "/d", ((("ds", "1"),), (("ds", "2"),)))),
    ("IMPORT FROM '/d'", ImportTable("/d")),
    ("IMPORT TABLE w.t FROM '/d'", ImportTable("/d", T)),
    ("IMPORT EXTERNAL TABLE w.t PARTITION (ds='1') FROM '/d' LOCATION 's3a://b/t'",
     ImportTable("/d", T, ((("ds", "1"),),), True, "s3a://b/t")),
    ("DROP TABLE IF EXISTS w.t FOR REPLICATION('9')", DropTableForReplication(T, 9, True)),
    ("DROP TABLE w.t", DropTable(T)),
    ("ALTER TABLE w.t DROP PARTITION (ds='1'), PARTITION (ds='2') FOR REPLICATION('9')",
     DropPartitionsForReplication(T, ((("ds", "1"),), (("ds", "2"),)), 9)),
])  # fmt: skip
def test_what_is_read(text: str, statement: object) -> None:
    parsed = parse_script(text)[0]
    assert type(parsed) is type(statement)
    for name in inspect.get_annotations(type(statement)):
        assert getattr(parsed, name) == getattr(statement, name), name


@pytest.mark.parametrize(("text", "said"), [
    ("EXPORT w.t TO '/d'", "TABLE"),
    ("EXPORT TABLE w.t", "TO"),
    ("EXPORT TABLE w.t TO d", "directory"),
    ("EXPORT TABLE w.t TO '/d' FOR METADATA", "REPLICATION"),
    ("EXPORT TABLE w.t TO '/d' FOR REPLICATION(7)", "id of an event"),
    ("IMPORT TABLE w.t", "FROM"),
    ("IMPORT EXTERNAL FROM '/d'", "TABLE"),
    ("DROP TABLE w.t FOR REPLICATION('x')", "a number"),
    ("DROP TABLE w.t PURGE FOR REPLICATION('1')", "FOR"),
    ("ALTER TABLE w.t DROP PARTITION (ds < '1') FOR REPLICATION('1')", "column = value"),
])  # fmt: skip
def test_what_is_refused(text: str, said: str) -> None:
    with pytest.raises(SqlSyntaxError, match=said):
        parse_script(text)


def test_what_they_touch() -> None:
    found = touched(parse_script(
        "EXPORT TABLE w.a TO '/d'; IMPORT TABLE w.b FROM '/d'; IMPORT FROM '/e'; DROP TABLE w.c FOR REPLICATION('1');"
        "ALTER TABLE w.d DROP PARTITION (ds='1') FOR REPLICATION('1')"
    ))  # fmt: skip
    assert list(found.reads) == ["w.a"]
    assert found.writes == {"w.b": None, "w.c": "DROP", "w.d": "ALTER"}
