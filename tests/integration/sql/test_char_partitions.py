"""Partition columns of type CHAR: a Hive's catalog and directories hold their values filled up with blanks."""

# ruff: noqa: S608 - statements put together from names of the tests

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from airflow_hive_acid.errors import AlreadyExistsError, HiveAcidError
from airflow_hive_acid.metastore.database import LockType, Operation
from airflow_hive_acid.metastore.leases import LeaseObject
from airflow_hive_acid.metastore.locks import LockComponent

if TYPE_CHECKING:
    from pathlib import Path

    from airflow_hive_acid.engine import Engine
    from airflow_hive_acid.metastore import MetastoreClient

pytestmark = [pytest.mark.crossing("CHAR x partitions x statements"), pytest.mark.spark]


def rows(engine: Engine, query: str) -> list[list[Any]]:
    found = engine.run(query, database="c")[-1].rows
    assert found is not None
    return sorted(found.rows)


@pytest.mark.instead("postgresql")
@pytest.mark.parametrize("properties", ["'transactional'='true'", "'transactional'='false'"])
def test_values_are_filled_up_as_a_hive_does_and_found_with_any_blanks(
    real_engine: Engine, client: MetastoreClient, properties: str
) -> None:
    engine = real_engine
    acid = "true" in properties
    engine.run(f"""CREATE DATABASE c; USE c;
        CREATE TABLE t (id INT, n CHAR(5)) PARTITIONED BY (c CHAR(5)) STORED AS ORC TBLPROPERTIES ({properties});
        INSERT INTO t VALUES (1, 'ab', 'ab'), (2, 'ab ', 'ab '), (3, NULL, NULL);
        INSERT INTO t PARTITION (c = 'ab') VALUES (4, 'x');
        INSERT INTO t PARTITION (c = 'xy  ') VALUES (5, 'xy');
        ALTER TABLE t ADD IF NOT EXISTS PARTITION (c = 'ab') PARTITION (c = 'q')""")
    names = [p.name for p in client.catalog.list_partitions("c.t")]
    assert sorted(names) == ["c=__HIVE_DEFAULT_PARTITION__", "c=ab   ", "c=q    ", "c=xy   "]
    assert rows(engine, "SELECT id, concat('<', c, '>'), c, n = c FROM t WHERE c IS NOT NULL") == [
        [1, "<ab>", "ab   ", True], [2, "<ab>", "ab   ", True], [4, "<ab>", "ab   ", False],
        [5, "<xy>", "xy   ", True],
    ]  # fmt: skip
    for value in ("ab", "ab  ", "ab        "):
        assert rows(engine, f"SELECT id FROM t WHERE c = '{value}'") == [[1], [2], [4]]
        assert rows(engine, f"SELECT id FROM t WHERE c <> '{value}'") == [[5]]
    assert rows(engine, "SELECT id FROM t WHERE c IN ('xy', 'q')") == [[5]]
    assert rows(engine, "SELECT id FROM t WHERE c > 'ab'") == [[5]]
    assert rows(engine, "SELECT id FROM (SELECT * FROM t) x WHERE x.c = 'xy'") == [[5]]
    assert rows(engine, "SHOW PARTITIONS t PARTITION (c = 'xy')") == [["c=xy   "]]
    assert rows(engine, "SHOW PARTITIONS t WHERE c = 'q'") == [["c=q    "]]
    if acid:
        engine.run(
            """CREATE TABLE s (id INT, c CHAR(3)) STORED AS ORC; INSERT INTO s VALUES (1, 'ab'), (8, 'q');
            UPDATE t SET n = 'new' WHERE c = 'xy'; UPDATE t SET c = 'q' WHERE id = 4;
            MERGE INTO t USING s ON t.id = s.id AND t.c = s.c
            WHEN MATCHED THEN UPDATE SET n = 'met' WHEN NOT MATCHED THEN INSERT VALUES (s.id, 'none', s.c);
            ALTER TABLE t PARTITION (c = 'ab') COMPACT 'major' AND WAIT;
            DELETE FROM t WHERE c = 'ab' AND id = 2""",
            database="c",
        )
        assert rows(engine, "SELECT id, rtrim(n), rtrim(c) FROM t WHERE id <> 3") == [
            [1, "met", "ab"], [4, "x", "q"], [5, "new", "xy"], [8, "none", "q"],
        ]  # fmt: skip
    engine.run("INSERT OVERWRITE TABLE t PARTITION (c = 'xy') VALUES (6, 'over')", database="c")
    assert rows(engine, "SELECT id FROM t WHERE c = 'xy'") == [[6]]
    engine.run("ALTER TABLE t PARTITION (c = 'xy') RENAME TO PARTITION (c = 'z'); ANALYZE TABLE t PARTITION (c = 'z') "
               "COMPUTE STATISTICS; TRUNCATE TABLE t PARTITION (c = 'ab')", database="c")  # fmt: skip
    assert rows(engine, "SELECT id FROM t WHERE c = 'z' OR c = 'ab'") == [[6]]
    engine.run("ALTER TABLE t DROP PARTITION (c = 'z ')", database="c")
    assert sorted(p.name for p in client.catalog.list_partitions("c.t")) == [
        "c=__HIVE_DEFAULT_PARTITION__", "c=ab   ", "c=q    ",
    ]  # fmt: skip


def test_a_value_without_blanks_in_the_catalog_reads_like_one_with_them(
    real_engine: Engine, client: MetastoreClient
) -> None:
    """As earlier versions of this package wrote them; a row that moves there finds it."""
    engine = real_engine
    engine.run("""CREATE DATABASE c; USE c;
        CREATE TABLE t (id INT) PARTITIONED BY (c CHAR(5)) STORED AS ORC;
        INSERT INTO t VALUES (1, 'ab')""")
    client.catalog.add_partitions("c.t", ["c=xy"])
    engine.run("UPDATE t SET c = 'xy' WHERE id = 1", database="c")
    assert sorted(p.name for p in client.catalog.list_partitions("c.t")) == ["c=ab   ", "c=xy"]
    assert rows(engine, "SELECT id, c FROM t WHERE c = 'xy'") == [[1, "xy   "]]
    engine.run("ANALYZE TABLE t COMPUTE STATISTICS; ANALYZE TABLE t COMPUTE STATISTICS FOR COLUMNS id", database="c")


OLD = "c=xy"
WITH_BLANKS = "c=xy   "
SOME_BLANKS = pytest.param("xy ", marks=pytest.mark.repeats("a value with some of its blanks"))


def old_partition(engine: Engine, client: MetastoreClient, properties: str = "'transactional'='true'") -> None:
    """A table whose partition c=xy an earlier version wrote, with a row in it."""
    engine.run(f"""CREATE DATABASE c; USE c;
        CREATE TABLE t (id INT) PARTITIONED BY (c CHAR(5)) STORED AS ORC TBLPROPERTIES ({properties});
        INSERT INTO t VALUES (1, 'ab')""")
    client.catalog.add_partitions("c.t", [OLD])
    if "true" in properties:
        engine.run("INSERT INTO t VALUES (2, 'q'); UPDATE t SET c = 'xy' WHERE id = 2", database="c")
    assert OLD in names_of(client)


def names_of(client: MetastoreClient) -> list[str]:
    return sorted(p.name for p in client.catalog.list_partitions("c.t"))


@pytest.mark.every_database
@pytest.mark.parametrize("properties", ["'transactional'='true'", "'transactional'='false'"])
@pytest.mark.parametrize("value", ["xy", SOME_BLANKS, "xy   "])
def test_a_partition_without_blanks_is_dropped_by_its_value(
    real_engine: Engine, client: MetastoreClient, properties: str, value: str
) -> None:
    old_partition(real_engine, client, properties)
    real_engine.run(f"ALTER TABLE t DROP PARTITION (c = '{value}')", database="c")
    assert OLD not in names_of(client)
    assert "c=ab   " in names_of(client)


@pytest.mark.every_database
@pytest.mark.parametrize("value", ["xy", SOME_BLANKS, "xy   "])
def test_every_statement_means_the_partition_without_blanks_that_is_there(
    real_engine: Engine, client: MetastoreClient, value: str
) -> None:
    engine, clause = real_engine, f"PARTITION (c = '{value}')"
    old_partition(engine, client)
    assert rows(engine, f"SHOW PARTITIONS t {clause}") == [[OLD]]
    assert rows(engine, f"SHOW PARTITIONS t WHERE c = '{value}' OR c IN ('{value}')") == [[OLD]]
    assert client.catalog.list_partitions("c.t", {"c": value})[0].name == OLD
    described = engine.run(f"DESCRIBE FORMATTED t {clause}", database="c")[-1].rows
    assert described is not None
    assert any(str(row[1]).strip().endswith("/t/c=xy") for row in described.rows)
    engine.run(f"ALTER TABLE t TOUCH {clause}; ANALYZE TABLE t {clause} COMPUTE STATISTICS", database="c")
    engine.run(f"ALTER TABLE t {clause} SET SERDEPROPERTIES ('a'='b')", database="c")
    assert [row[2] for row in rows(engine, f"ALTER TABLE t {clause} COMPACT 'major'")] == [OLD]
    assert [row[3] for row in rows(engine, f"SHOW COMPACTIONS t {clause}")] == [OLD]
    client.leases.grab_lease([LeaseObject("c", "t", f"c={value}")], 60)
    assert [lease.partition_name for lease in client.leases.list_lease()] == [OLD]
    assert [row[4] for row in rows(engine, f"SHOW LEASE t {clause}")] == [OLD]
    assert [row[4] for row in rows(engine, f"DROP FORCE LEASE t {clause} COMMENT 'test'")] == [OLD]
    lock = client.lock([LockComponent("c", "t", f"c={value}", LockType.SHARED_READ, Operation.SELECT)])
    assert [row[3] for row in rows(engine, f"SHOW LOCKS t {clause}")] == [OLD]
    client.unlock(lock.lock_id)
    engine.run(f"TRUNCATE TABLE t {clause}", database="c")
    assert rows(engine, "SELECT id FROM t") == [[1]]
    assert OLD in names_of(client)
    engine.run(f"ALTER TABLE t {clause} RENAME TO PARTITION (c = 'xy')", database="c")
    assert names_of(client) == ["c=ab   ", "c=q    ", WITH_BLANKS]
    assert rows(engine, f"SHOW PARTITIONS t {clause}") == [[WITH_BLANKS]]


def test_where_both_spellings_are_there_a_value_with_all_blanks_means_one_and_any_other_is_refused(
    real_engine: Engine, client: MetastoreClient
) -> None:
    engine = real_engine
    old_partition(engine, client)
    engine.run("INSERT INTO t PARTITION (c = 'xy') VALUES (3)", database="c")
    before = names_of(client)
    assert {OLD, WITH_BLANKS} < set(before)
    for statement in (
        "ALTER TABLE t DROP PARTITION (c = 'xy')", "TRUNCATE TABLE t PARTITION (c = 'xy')",
        "ALTER TABLE t PARTITION (c = 'xy ') COMPACT 'major'", "DESCRIBE t PARTITION (c = 'xy')",
        "ALTER TABLE t TOUCH PARTITION (c = 'xy')", "SHOW LEASE t PARTITION (c = 'xy')",
        "SHOW LOCKS t PARTITION (c = 'xy')", "SHOW COMPACTIONS t PARTITION (c = 'xy')",
        "ALTER TABLE t PARTITION (c = 'xy') RENAME TO PARTITION (c = 'new')",
    ):  # fmt: skip
        with pytest.raises(HiveAcidError, match="has 2 partitions of the same value, 'c=xy   ' and 'c=xy'"):
            engine.run(statement, database="c")
    with pytest.raises(HiveAcidError, match="two partitions of the same values"):
        engine.run("ANALYZE TABLE t COMPUTE STATISTICS", database="c")
    assert names_of(client) == before
    assert rows(engine, "SELECT id FROM t WHERE c = 'xy'") == [[2], [3]]
    engine.run("TRUNCATE TABLE t PARTITION (c = 'xy   ')", database="c")
    assert rows(engine, "SELECT id FROM t WHERE c = 'xy'") == [[2]]
    lock = client.lock([LockComponent("c", "t", OLD, LockType.SHARED_READ, Operation.SELECT)])
    assert [row[3] for row in rows(engine, "SHOW LOCKS t")] == [OLD]  # the name of a partition means this one
    client.unlock(lock.lock_id)
    engine.run("ALTER TABLE t DROP PARTITION (c = 'xy   ')", database="c")
    assert names_of(client) == [n for n in before if n != WITH_BLANKS]


@pytest.mark.parametrize("properties", ["'transactional'='true'", "'transactional'='false'"])
def test_an_overwrite_beside_a_partition_of_the_same_value_is_refused(
    real_engine: Engine, client: MetastoreClient, properties: str
) -> None:
    old_partition(real_engine, client, properties)
    before = rows(real_engine, "SELECT * FROM t")
    with pytest.raises(HiveAcidError, match=r"'c=xy'.*without its blanks.*RENAME"):
        real_engine.run("INSERT OVERWRITE TABLE t PARTITION (c = 'xy') VALUES (9)", database="c")
    assert rows(real_engine, "SELECT * FROM t") == before
    assert WITH_BLANKS not in names_of(client)


def test_some_of_the_columns_mean_partitions_in_either_spelling(real_engine: Engine, client: MetastoreClient) -> None:
    engine = real_engine
    engine.run("CREATE DATABASE c; USE c; CREATE TABLE p (id INT) PARTITIONED BY (c CHAR(3), d INT) STORED AS ORC")
    client.catalog.add_partitions("c.p", ["c=x/d=1", "c=y/d=1", "c=y/d=2"])
    lease = client.leases.grab_lease([LeaseObject("c", "p", "c=x")], 60)
    assert [row[4] for row in rows(engine, "SHOW LEASE p PARTITION (c = 'x  ')")] == ["c=x"]
    assert rows(engine, "SHOW PARTITIONS p PARTITION (c = 'y')") == [["c=y/d=1"], ["c=y/d=2"]]
    client.leases.drop_lease(lease)
    engine.run("TRUNCATE TABLE p PARTITION (c = 'y'); ALTER TABLE p DROP PARTITION (c = 'y')", database="c")
    assert [p.name for p in client.catalog.list_partitions("c.p")] == ["c=x/d=1"]


def test_an_old_partition_is_not_added_again_and_is_exported_and_imported(
    real_engine: Engine, client: MetastoreClient, tmp_path: Path
) -> None:
    engine = real_engine
    old_partition(engine, client)
    before = names_of(client)
    engine.run("ALTER TABLE t ADD IF NOT EXISTS PARTITION (c = 'xy') PARTITION (c = 'ab ')", database="c")
    with pytest.raises(AlreadyExistsError, match="has a partition c=xy already"):
        engine.run("ALTER TABLE t ADD PARTITION (c = 'xy  ')", database="c")
    assert names_of(client) == before
    engine.run(f"EXPORT TABLE t PARTITION (c = 'xy ') TO '{tmp_path}/dump'", database="c")
    engine.run(f"IMPORT TABLE copy PARTITION (c = 'xy   ') FROM '{tmp_path}/dump'", database="c")
    assert [p.name for p in client.catalog.list_partitions("c.copy")] == [OLD]
    assert rows(engine, "SELECT * FROM copy") == [[2, "xy   "]]
