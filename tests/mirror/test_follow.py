"""A mirror follows its table, whatever is done to that: on each kind of target, by key and by ROW__ID."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from tests.mirror.conftest import Mirroring

pytestmark = pytest.mark.mirror
ACID = "STORED AS ORC TBLPROPERTIES ('transactional'='true')"
_numbers = itertools.count()


@pytest.fixture(params=["iceberg:ice.db", "iceberg:sq.db", "delta:"])
def target(request: pytest.FixtureRequest, mirror_home: Path) -> str:
    """A target that nobody has used, of each kind."""
    place = f"delta:{mirror_home}/delta/t" if request.param == "delta:" else f"{request.param}.t"
    return f"{place}{next(_numbers)}"


@pytest.fixture(params=[["id"], []], ids=["key", "row_ids"])
def key(request: pytest.FixtureRequest) -> list[str]:
    return request.param


def followed(m: Mirroring, target: str, key: list[str] | None, todo: str = "follow", table: str = "default.t") -> None:
    """One run does this, another one nothing without Spark, and both sides are equal."""
    report = m.run(table, target, key)
    assert (report.todo, report.spark) == (todo, True), report.reason
    started = m.started
    assert m.run(table, target, key).todo == "nothing"
    assert m.started == started
    found = m.verify(table, target)
    assert found.is_equal, found.different
    assert found.source_rows == found.target_rows == m.rows(f"SELECT count(*) FROM {table}")[0][0]


def test_statements_are_followed(mirroring: Mirroring, target: str, key: list[str]) -> None:
    m = mirroring
    m.sql(f"CREATE TABLE t (id int, b tinyint, c char(4), s string, d decimal(9,2), l array<struct<a:smallint>>) "
          f"PARTITIONED BY (p int, q string) {ACID}")  # fmt: skip
    more = "array(named_struct('a', 1S))"
    m.sql(f"INSERT INTO t VALUES (1, 1, 'ab', 'x', 1.5, {more}, 1, 'a/b'), (2, 2, NULL, 'y', NULL, NULL, 1, 'a/b'), "
          f"(3, NULL, 'e', NULL, 0, {more}, NULL, 'ü')")  # fmt: skip
    followed(m, target, key, "bootstrap")
    m.sql("UPDATE t SET s = 'z' WHERE id = 1; DELETE FROM t WHERE id = 2; "
          f"INSERT INTO t VALUES (9, 9, 'q', 'new', 9, {more}, 3, 'n')")  # fmt: skip
    followed(m, target, None)
    m.sql(f"INSERT OVERWRITE TABLE t PARTITION (p = 3, q = 'n') VALUES (10, 9, 'q', 'over', 9, {more})")
    followed(m, target, None)
    m.sql("ALTER TABLE t DROP PARTITION (p = 3)")
    followed(m, target, None)
    m.sql("MERGE INTO t USING (SELECT 1 AS id UNION ALL SELECT 77) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET "
          "s = 'merged' WHEN NOT MATCHED THEN INSERT VALUES (s.id, 1, 'm', 'in', 1, NULL, 5, 'x')")  # fmt: skip
    followed(m, target, None)
    m.sql("ALTER TABLE t DROP PARTITION (p = 5)")
    m.sql("INSERT INTO t VALUES (78, 1, 'm', 'again', 1, NULL, 5, 'x')")
    followed(m, target, None)
    m.sql("TRUNCATE TABLE t")
    followed(m, target, None)
