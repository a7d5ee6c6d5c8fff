"""USE, SET, RESET and variables: what one script says, and what is left of it for the next."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from airflow_hive_acid.engine.outcomes.events import SettingUnread
from airflow_hive_acid.errors import InvalidArgumentsError, NoSuchObjectError, SqlSyntaxError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from airflow_hive_acid.engine import Engine
    from airflow_hive_acid.metastore import MetastoreClient

PARTED = "CREATE TABLE w.parted (id INT) PARTITIONED BY (ds STRING) STORED AS ORC"


def lines(engine: Engine, sql: str, settings: Mapping[str, object] | None = None) -> list[str]:
    rows = engine.run(sql, settings=settings, variables={})[-1].rows
    assert rows is not None
    return [row[0] for row in rows.rows]


def test_use_holds_to_the_end_of_the_script(engine: Engine, client: MetastoreClient) -> None:
    engine.run("CREATE DATABASE one; USE one; CREATE TABLE t (a INT); USE default; CREATE TABLE in_default (a INT)")
    assert client.catalog.list_tables("one") == ["t"]
    engine.run("CREATE TABLE again (a INT)")
    assert {"again", "in_default"} <= set(client.catalog.list_tables("default"))
    engine.run("CREATE TABLE mine (a INT)", database="one")
    assert client.catalog.list_tables("one") == ["mine", "t"]
    with pytest.raises(NoSuchObjectError, match="no database nowhere"):
        engine.run("USE nowhere; CREATE TABLE t (a INT)")


def test_a_setting_counts_from_its_line_to_the_end(engine: Engine) -> None:
    engine.run(PARTED)
    insert = "INSERT INTO w.parted SELECT 1, '2024-01-01'"
    strict = "SET hive.exec.dynamic.partition.mode=strict"
    engine.run(insert)
    with pytest.raises(InvalidArgumentsError, match="mode is strict"):
        engine.run(f"{strict}; {insert}")
    engine.run(insert)
    engine.run(f"{strict}; RESET; {insert}")
    engine.run(f"{strict}; SET metastore.exec.dynamic.partition.mode = nonstrict; {insert}")
    with pytest.raises(InvalidArgumentsError, match="mode is strict"):
        engine.run(insert, settings={"metastore.exec.dynamic.partition.mode": "strict"})
    engine.run(f"RESET hive.exec.dynamic.partition.mode; {strict.replace('strict', 'nonstrict')}; {insert}")


def test_locks_follow_what_is_set(engine: Engine, client: MetastoreClient) -> None:
    explain = "EXPLAIN LOCKS UPDATE w.t SET a = 1"
    assert any("EXCL_WRITE" in line for line in lines(engine, f"SET hive.txn.xlock.write=true; {explain}"))
    assert not any("EXCL_WRITE" in line for line in lines(engine, explain))
    with engine.begin({"w.t": "update"}) as transaction:
        transaction.execute("SET hive.lock.numretries=1")
        assert client.settings.integer("hive.lock.numretries") == 100
    assert engine.run("SET hive.lock.numretries=2; SET hive.lock.numretries")[1].rows.rows == [  # type: ignore[union-attr]
        ["hive.lock.numretries=2"]
    ]
    assert client.settings.integer("hive.lock.numretries") == 100


def test_set_prints_what_was_set_and_with_v_everything(engine: Engine) -> None:
    script = "SET hive.lock.numretries=3; SET x.y=1; SET hivevar:Name=a b; SET hivevar:my_token=t; "
    settings = {"metastore.locks.max.partitions": 5}
    assert lines(engine, f"{script} SET", settings) == [
        "hive.lock.numretries=3", "hive.locks.max.partitions=5", "hivevar:Name=a b", "hivevar:my_token=***", "x.y=1",
    ]  # fmt: skip
    assert lines(engine, f"{script} RESET; SET", settings) == [
        "hive.locks.max.partitions=5", "hivevar:Name=a b", "hivevar:my_token=***",
    ]  # fmt: skip
    assert "hive.txn.timeout=300s" in lines(engine, "SET -v")
    assert lines(engine, "SET metastore.txn.timeout") == ["metastore.txn.timeout=300s"]
    assert lines(engine, "SET nothing.of.that") == ["nothing.of.that is undefined"]
    assert lines(engine, "SET hivevar:n") == ["hivevar:n is undefined"]


def test_what_nobody_reads_is_said_and_kept_for_variables(engine: Engine, events: list[object]) -> None:
    engine.run(
        "SET mapreduce.job.queuename=q; CREATE TABLE w.${hiveconf:mapreduce.job.queuename} (a INT)", variables={}
    )
    assert [event.key for event in events if isinstance(event, SettingUnread)] == ["mapreduce.job.queuename"]
    assert lines(engine, "SHOW TABLES IN w LIKE 'q'") == ["q"]


def test_variables_come_with_the_script(engine: Engine) -> None:
    engine.run("CREATE TABLE w.t_${hivevar:n} (a INT); CREATE TABLE w.${hiveconf:hive.lock.numretries}x (a INT)",
               variables={"n": 7}, settings={"hive.lock.numretries": 12})  # fmt: skip
    assert lines(engine, "SHOW TABLES IN w LIKE '12x|t_7'") == ["12x", "t_7"]
    with pytest.raises(SqlSyntaxError, match="hivevar n has no value"):
        engine.run("CREATE TABLE w.t_${hivevar:n} (a INT)", variables={})


def test_nothing_runs_when_something_cannot_be_set(engine: Engine, client: MetastoreClient) -> None:
    for wrong in ("hive.txn.timeout=1s", "hive.lock.numretries=many", "hive.lock.numretrie=1"):
        with pytest.raises(InvalidArgumentsError, match="line 2: "):
            engine.run(f"CREATE TABLE w.never (a INT);\nSET {wrong}")
    with pytest.raises(InvalidArgumentsError, match="cannot be set in a script"):
        engine.run("CREATE TABLE w.never (a INT)", settings={"hive.txn.manager": "x"})
    assert "never" not in client.catalog.list_tables("w")
