"""A mirror follows its table, whatever is done to that: on each kind of target, by key and by ROW__ID."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest

from tests.mirror.conftest import ACID

if TYPE_CHECKING:
    from pathlib import Path

    from tests.mirror.conftest import Mirroring

pytestmark = pytest.mark.mirror
_numbers = itertools.count()


@pytest.fixture(params=["iceberg:ice.db", "iceberg:sq.db", "delta:"])
def target(request: pytest.FixtureRequest, mirror_home: Path) -> str:
    """A target that nobody has used, of each kind."""
    place = f"delta:{mirror_home}/delta/t" if request.param == "delta:" else f"{request.param}.t"
    return f"{place}{next(_numbers)}"


@pytest.fixture(params=[["id"], []], ids=["key", "row_ids"])
def key(request: pytest.FixtureRequest) -> list[str]:
    return request.param


def test_statements_are_followed(mirroring: Mirroring, target: str, key: list[str]) -> None:
    m = mirroring
    more = "array(named_struct('a', 1S))"
    m.sql(
        "CREATE TABLE t (id int, b tinyint, c char(4), s string, d decimal(9,2), l array<struct<a:smallint>>) "
        f"PARTITIONED BY (p int, q string) {ACID}",
        f"INSERT INTO t VALUES (1, 1, 'ab', 'x', 1.5, {more}, 1, 'a/b'), (2, 2, NULL, 'y', NULL, NULL, 1, 'a/b'), "
        f"(3, NULL, 'e', NULL, 0, {more}, NULL, 'ü')",
    )
    m.follow(target, key, "bootstrap")
    m.sql("UPDATE t SET s = 'z' WHERE id = 1", "DELETE FROM t WHERE id = 2",
          f"INSERT INTO t VALUES (9, 9, 'q', 'new', 9, {more}, 3, 'n')")  # fmt: skip
    m.follow(target)
    m.sql(f"INSERT OVERWRITE TABLE t PARTITION (p = 3, q = 'n') VALUES (10, 9, 'q', 'over', 9, {more})")
    m.follow(target)
    m.sql("ALTER TABLE t DROP PARTITION (p = 3)")
    m.follow(target)
    m.sql("MERGE INTO t USING (SELECT 1 AS id UNION ALL SELECT 77) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET "
          "s = 'merged' WHEN NOT MATCHED THEN INSERT VALUES (s.id, 1, 'm', 'in', 1, NULL, 5, 'x')")  # fmt: skip
    m.follow(target)
    m.sql("ALTER TABLE t DROP PARTITION (p = 5)", "INSERT INTO t VALUES (78, 1, 'm', 'again', 1, NULL, 5, 'x')")
    m.follow(target)
    m.sql("TRUNCATE TABLE t")
    m.follow(target)


def test_partitions_that_swap_their_names_take_their_rows_along(
    mirroring: Mirroring, target: str, key: list[str]
) -> None:
    """No write id tells of it, and none of them is new."""
    m = mirroring
    m.sql(
        f"CREATE TABLE t (id int, s string) PARTITIONED BY (p int) {ACID}",
        "INSERT INTO t VALUES (1, 'a', 1), (2, 'b', 2), (3, 'c', 3)",
    )
    m.follow(target, key, "bootstrap")
    for old, new in ((1, 9), (2, 1), (9, 2)):
        m.sql(f"ALTER TABLE t PARTITION (p = {old}) RENAME TO PARTITION (p = {new})")
    m.sql("UPDATE t SET s = 'x' WHERE id = 2")
    m.follow(target)
    assert m.in_target(target, "id, s, p") == [(1, "a", 2), (2, "x", 1), (3, "c", 3)]


def test_columns_are_added_renamed_and_widened(mirroring: Mirroring, target: str, key: list[str]) -> None:
    """By their position, as Hive's are; Delta copies whole what it cannot rename or widen."""
    m = mirroring
    in_place = "bootstrap" if target.startswith("delta") else "follow"
    m.sql(f"CREATE TABLE t (id int, n int, s varchar(5)) {ACID}", "INSERT INTO t VALUES (1, 1, 'x'), (2, 2, 'y')")
    m.follow(target, key, "bootstrap")
    m.sql("ALTER TABLE t ADD COLUMNS (`more_ü` date)")
    m.follow(target)
    m.sql("INSERT INTO t VALUES (3, 3, 'z', DATE '2026-01-01')", "ALTER TABLE t CHANGE n m bigint")
    m.follow(target, todo=in_place)
    m.sql(f"UPDATE t SET m = {2**40} WHERE id = 3")
    m.follow(target)
    assert m.in_target(target, "m") == [(1,), (2**40,), (2,)]


def test_every_type_arrives(mirroring: Mirroring, target: str) -> None:
    m = mirroring
    m.sql(
        "CREATE TABLE t (id int, a boolean, b smallint, c bigint, d float, e double, f decimal(38,10), g varchar(5), "
        f"h binary, i date, j timestamp, k map<string,int>, l struct<x:timestamp,y:array<tinyint>>) {ACID}",
        "INSERT INTO t SELECT 1, true, 7, 8, 0.5, 0.25, 1.5, 'abc', X'00FF', DATE '1969-12-31', "
        "TIMESTAMP '2026-03-29 02:30:00.123456', map('a', 1, 'b', NULL), "
        "named_struct('x', TIMESTAMP '1900-01-01 00:00:00', 'y', array(1Y, NULL))",
        "INSERT INTO t (id) VALUES (2)",
    )
    m.follow(target, ["id"], "bootstrap")
    m.sql("UPDATE t SET g = 'abcde', e = double('NaN') WHERE id = 1", "INSERT INTO t (id, d) VALUES (3, float('-0.0'))")
    m.follow(target)
    rows = m.in_target(target, "id, cast(j as string), cast(l.x as string), cast(k as string), g, h")
    assert rows[0] == (
        1, "2026-03-29 02:30:00.123456", "1900-01-01 00:00:00", "{a -> 1, b -> null}", "abcde", bytearray(b"\x00\xff"),
    )  # fmt: skip


def test_a_key_column_that_gets_another_name_is_the_key(mirroring: Mirroring, target: str) -> None:
    m = mirroring
    m.sql(f"CREATE TABLE t (id int, s string) {ACID}", "INSERT INTO t VALUES (1, 'x'), (2, 'y')")
    m.follow(target, ["id"], "bootstrap")
    m.sql("ALTER TABLE t CHANGE id nr int", "UPDATE t SET s = 'z' WHERE nr = 1")
    m.run(target)
    assert m.in_target(target, "nr, s") == [(1, "z"), (2, "y")]
    m.same(target)


def test_insert_only_tables_are_appended_to(mirroring: Mirroring, target: str) -> None:
    """Their rows have no ids: what replaces rows is found by the key, or copied whole."""
    m = mirroring
    m.sql("CREATE TABLE t (id int) PARTITIONED BY (p int) STORED AS PARQUET TBLPROPERTIES ('transactional'='true', "
          "'transactional_properties'='insert_only')", "INSERT INTO t VALUES (1, 1), (2, 2)")  # fmt: skip
    m.follow(target, [], "bootstrap")
    m.sql("INSERT INTO t VALUES (1, 1), (4, 4)")
    report = m.follow(target)
    assert report.inserted == 2
    m.sql("INSERT OVERWRITE TABLE t PARTITION (p = 1) VALUES (7)")
    report = m.follow(target, todo="bootstrap")
    assert "which have no ids and no key to find them by" in report.reason
    m.follow(target, ["id", "p"], "bootstrap")
    m.sql("INSERT OVERWRITE TABLE t PARTITION (p = 1) VALUES (7), (8)")
    report = m.follow(target)
    assert (report.inserted, report.updated, report.deleted) == (1, 1, 0)


def test_nothing_is_mirrored_beyond_a_write_id_that_is_open(
    mirroring: Mirroring, other: Mirroring, target: str, key: list[str]
) -> None:
    """The state ends where all have ended:

    t1  A inserts with write id 2, and stays open
    t2                                             B inserts with write id 3, and commits
    t3  the mirror has write id 1
    t4  A commits
    t5  the mirror has write id 3
    """
    m = mirroring
    m.sql(f"CREATE TABLE t (id int) {ACID}", "INSERT INTO t VALUES (1)")
    with other.engine.begin({"default.t": "insert"}) as first:
        first.execute("INSERT INTO t VALUES (2)")
        m.sql("INSERT INTO t VALUES (3)")
        assert m.run(target, key).write_id == 1
        assert m.in_target(target, "id") == [(1,)]
        assert m.run(target).todo == "nothing"
        assert m.verify(target).source_rows == 1
    assert m.follow(target).write_id == 3


def test_a_key_that_is_null_is_a_key(mirroring: Mirroring, target: str) -> None:
    """The MERGE that bears no NULL is given up before anything is committed, and another one is run."""
    m = mirroring
    m.sql(f"CREATE TABLE t (id int, s string) {ACID}", "INSERT INTO t VALUES (NULL, 'x'), (2, 'y')")
    m.follow(target, ["id"], "bootstrap")
    m.sql("UPDATE t SET s = 'z'")
    assert m.follow(target).updated == 2
    m.sql("DELETE FROM t WHERE id IS NULL")
    assert m.follow(target).deleted == 1
    m.sql("INSERT INTO t VALUES (NULL, 'again'), (3, 'c')")
    assert m.follow(target).inserted == 2
