"""Partition columns of type CHAR: a Hive's catalog and directories hold their values filled up with blanks."""

# ruff: noqa: S608 - statements put together from names of the tests

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from airflow_hive_acid.engine import Engine
    from airflow_hive_acid.metastore import MetastoreClient

pytestmark = pytest.mark.spark


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
    assert rows(engine, "SELECT id, concat('<', c, '>'), n = c FROM t WHERE c IS NOT NULL") == [
        [1, "<ab   >", True], [2, "<ab   >", True], [4, "<ab   >", False], [5, "<xy   >", True],
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
