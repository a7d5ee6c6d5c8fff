"""The oracle itself: what the other tests take for granted about the Hive they talk to."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING

import pytest

from .hive import HiveError, RowId

if TYPE_CHECKING:
    from .hive import Hive

pytestmark = pytest.mark.interop


def directories(hive: Hive, table: str) -> list[str]:
    """Names of the directories of ``db.t``."""
    database, name = table.split(".")
    return sorted(path.name for path in (hive.warehouse / f"{database}.db" / name).iterdir() if path.is_dir())


def test_hive_writes_compacts_and_cleans_a_table(hive: Hive, hive_database: str) -> None:
    table = f"{hive_database}.t"
    hive.run(
        f"create table {table} (id int, name string, amount decimal(10,2)) stored as orc "
        "tblproperties ('transactional'='true')"
    )
    hive.run(f"insert into {table} values (1, 'a', 1.5), (2, 'b', null)")
    hive.run(f"update {table} set name = 'B' where id = 2")
    first = RowId(1, 536870912, 0)
    updated = RowId(2, 536870913, 0)
    assert hive.row_ids(table) == {first: (1, "a", "1.5"), updated: (2, "B", None)}
    assert directories(hive, table) == [
        "delete_delta_0000002_0000002_0000",
        "delta_0000001_0000001_0000",
        "delta_0000002_0000002_0001",
    ]

    hive.run(f"alter table {table} compact 'major'")
    hive.worker()
    hive.clean(table)

    assert [name.rsplit("_v", 1)[0] for name in directories(hive, table)] == ["base_0000002"]
    assert hive.row_ids(table) == {first: (1, "a", "1.5"), updated: (2, "B", None)}


def test_values_arrive_with_their_types(hive: Hive) -> None:
    (row,) = hive.run(
        "select 1, 1.5d, cast('1.10' as decimal(5,2)), true, null, 'x\ty', date '2024-02-29', array(1, 2)"
    )
    assert row == (1, 1.5, "1.1", True, None, "x\ty", "2024-02-29", "[1,2]")
    assert Decimal(row[2]) == Decimal("1.10")


def test_sessions_run_beside_each_other(hive: Hive, hive_database: str) -> None:
    """
    t1  one: begins, inserts
    t2                        two: reads nothing
    t3  one: commits
    t4                        two: reads the row
    """
    table = f"{hive_database}.t"
    hive.run(f"create table {table} (id int) stored as orc tblproperties ('transactional'='true')")
    hive.begin("one")
    hive.run(f"insert into {table} values (1)", "one")
    assert hive.run(f"select * from {table}", "two") == []
    hive.commit("one")
    assert hive.run(f"select * from {table}", "two") == [(1,)]


def test_a_failing_statement_says_why_and_the_session_goes_on(hive: Hive) -> None:
    with pytest.raises(HiveError, match="Table not found 'nowhere'"):
        hive.run("select * from nowhere")
    assert hive.run("select 1") == [(1,)]
