"""count(*) without the optional jar: from footers where they can tell, else by the scan."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from airflow_hive_acid.errors import CorruptTableError
from airflow_hive_acid.format.jobs import Select, View
from airflow_hive_acid.spark.accelerator import SESSION_KEY
from airflow_hive_acid.spark.read import counts

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = pytest.mark.spark


@pytest.mark.parametrize(
    ("query", "column"),
    [
        ("select count(*) from v1", "count(1)"),
        ("SELECT COUNT ( 1 )\n  FROM v1 AS `t` ", "count(1)"),
        ("select count(*) as n from v1 t", "n"),
        ("select count(*) `how many` from v1", None),
        ("select count(*) from v1 where id > 1", None),
        ("select count(id) from v1", None),
        ("select count(*), 1 from v1", None),
        ("select count(*) from v1, v1 as u", None),
        ("select count(*) from v1 union all select 1", None),
        ("select count(*) from other", None),
    ],
)
def test_only_the_number_of_rows_of_one_table_comes_from_footers(
    acid_table: Callable, query: str, column: str | None
) -> None:
    table = acid_table("id int", partitioned_by="p int")
    table.insert("select cast(id as int), cast(id % 3 as int) from range(20)")
    found = counts.counted(table.spark, query, [View("v1", table.snapshot())])
    assert (None if found is None else (found.columns, found.first()[0])) == (
        None if column is None else ([column], 20)
    )


def test_a_statement_counts_the_same_rows_either_way(
    acid_table: Callable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = acid_table("id int")
    table.insert("select cast(id as int) from range(0, 20, 1, 2)")
    read: list[int | None] = []
    whole = counts.live_rows
    monkeypatch.setattr(counts, "live_rows", lambda *a: read.append(whole(*a)) or read[-1])

    def counted() -> Any:
        rows = tmp_path / f"rows{len(list(tmp_path.iterdir()))}"
        view = View("v1", table.snapshot())
        result = table.run(Select("select count(*) from v1", f"file:{rows}"), [view], **{SESSION_KEY: "off"})
        assert [c.name for c in result.columns] == ["count(1)"]
        return json.loads(rows.read_text())

    assert (counted(), read.pop()) == ([20], 20)
    table.delete("id < 5")
    assert (counted(), read.pop()) == ([15], None)
    table.compact("major")
    assert (counted(), read.pop()) == ([15], 15)
    (base,) = [d for d in table.directories() if d.startswith("base")]
    (file, *_) = (table.root / base).glob("bucket_*")
    file.write_bytes(file.read_bytes()[:-10])
    with pytest.raises(CorruptTableError, match="cannot be read"):
        counted()
