"""Partitions are found by their names as they are, whatever a database takes for the same text."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from airflow_hive_acid.metastore.catalog.rows.partitions import find_partitions


class Lenient:
    """A MySQL: blanks at the end do not count, nor does the case by a collation that somebody has chosen."""

    def execute(self, _statement: object, asked: dict[str, Any]) -> list[SimpleNamespace]:
        there = ["k=a", "k=B", "k=c"]
        same = {name.rstrip().lower() for name in asked["names"]}
        return [
            SimpleNamespace(PART_NAME=name, LOCATION=f"/t/{name}", PART_ID=1, WRITE_ID=0, INPUT_FORMAT=None)
            for name in there
            if name.lower() in same
        ]


def test_a_partition_whose_name_only_a_database_takes_for_the_same_is_not_found() -> None:
    table: Any = SimpleNamespace(id=1)
    connection: Any = Lenient()
    assert list(find_partitions(connection, table, ["k=a ", "k=b", "k=c"])) == ["k=c"]
