"""Rebalance compaction numbers rows as Hive does: through the whole table, in even shares."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from airflow_hive_acid.errors import InvalidArgumentsError
from airflow_hive_acid.format.buckets import encode_bucket

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.integration.spark.conftest import AcidTable

    MakeTable = Callable[..., AcidTable]

pytestmark = pytest.mark.spark


def by_number(table: AcidTable) -> list[tuple[int, int, int, int]]:
    """Row number, bucket value, write id and id of all rows."""
    return sorted((number, bucket, write_id, row[0]) for (write_id, bucket, number, _), row in table.ids().items())


def ten_rows(acid_table: MakeTable) -> AcidTable:
    """Ten rows of three write ids, one of them deleted, one changed."""
    table = acid_table("id int, name string")
    table.insert("select /*+ REPARTITION(2) */ cast(id as int), 'a' from range(6)")
    table.insert("values (6, 'b'), (7, 'b'), (8, 'b')")
    table.insert("values (9, 'c'), (10, 'c')")
    table.delete("id = 7")
    table.update("id = 2", name="upper(name)")
    return table


@pytest.fixture
def uneven(begun: Callable[[Callable[..., AcidTable]], AcidTable]) -> AcidTable:
    return begun(ten_rows)


def test_rows_are_numbered_through_in_the_order_of_their_ids(uneven: AcidTable) -> None:
    before = sorted(uneven.ids().items())
    order = [row[0] for _, row in before]
    write_ids = [key[0] for key, _ in before]
    uneven.compact("rebalance", buckets=3)
    # Ten rows into three buckets: four, four and two.
    buckets = [encode_bucket(n // 4, 0) for n in range(10)]
    assert by_number(uneven) == list(zip(range(10), buckets, write_ids, order, strict=True))
    assert uneven.rows() == sorted((row for _, row in before), key=repr)
    assert uneven.files()["base_0000005_v0000101"] == ["bucket_00000", "bucket_00001", "bucket_00002"]


def test_an_order_that_is_asked_for_gives_all_rows_the_highest_write_id(uneven: AcidTable) -> None:
    before = uneven.rows()
    uneven.compact("rebalance", buckets=2, order_by="ORDER BY name DESC, id")
    wanted = [row[0] for row in sorted(before, key=lambda row: ([-ord(c) for c in row[1]], row[0]))]
    assert by_number(uneven) == [(n, encode_bucket(n // 5, 0), 5, i) for n, i in enumerate(wanted)]
    # They are rows like others afterwards.
    uneven.delete("id = 10")
    assert uneven.rows() == [row for row in before if row[0] != 10]


def test_by_default_there_are_as_many_buckets_as_before(uneven: AcidTable) -> None:
    uneven.compact("rebalance", buckets=2)
    uneven.delete("id = 10")
    uneven.compact("rebalance")
    assert uneven.files()["base_0000006_v0000102"] == ["bucket_00000", "bucket_00001"]
    assert len(uneven.rows()) == 9


def test_a_table_without_rows_becomes_an_empty_base(uneven: AcidTable) -> None:
    uneven.delete("true")
    uneven.compact("rebalance", buckets=3)
    assert uneven.rows() == []
    assert "base_0000006_v0000101" in uneven.directories()


def test_an_order_that_cannot_be_read_and_too_many_buckets_are_refused(uneven: AcidTable) -> None:
    with pytest.raises(InvalidArgumentsError, match=r"list of columns.* this is none: 'name; drop table t'"):
        uneven.compact("rebalance", order_by="name; drop table t")
    with pytest.raises(InvalidArgumentsError, match="a rebalance into 5000 buckets: a directory has 1 to 4096"):
        uneven.compact("rebalance", buckets=5000)
