"""Whether files know their columns under the names of the table: a file that is read under wrong names reads NULLs."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql import types as T

from airflow_hive_acid.spark.read.evolution import renamed_columns
from airflow_hive_acid.spark.schema import TableColumn

COLUMNS = [TableColumn("id", "int", T.IntegerType()), TableColumn("leaves", "int", T.IntegerType())]


class Files:
    """Says which names are in a file, and remembers which files were opened."""

    def __init__(self, *names: tuple[str, ...]) -> None:
        self.names = {f"f{i}": found for i, found in enumerate(names)}
        self.opened: list[str] = []

    def orc_row_names(self, uri: str) -> tuple[str, ...]:
        self.opened.append(uri)
        return self.names[uri]

    def renamed(self) -> dict[str, Any]:
        files = [SimpleNamespace(uri=uri, min_write_id=i, max_write_id=i) for i, uri in enumerate(self.names)]
        return renamed_columns(self, files, COLUMNS)  # type: ignore[arg-type]


def test_the_oldest_file_alone_is_opened_if_it_has_all_columns_of_the_table() -> None:
    files = Files(("id", "leaves"), ("id", "leaves"))
    assert files.renamed() == {}
    assert files.opened == ["f0"]


@pytest.mark.parametrize("oldest", [("id",), ("key",)])
def test_a_column_that_was_added_after_the_oldest_file_and_renamed_later_is_found(oldest: tuple[str, ...]) -> None:
    found = Files(oldest, ("id", "pages"), ("id", "leaves")).renamed()
    assert found.pop("f1") == ("id", "pages")
    assert found == ({"f0": ("key",)} if oldest == ("key",) else {})


def test_columns_that_were_only_added_need_no_other_names() -> None:
    assert Files(("id",), ("id", "leaves")).renamed() == {}
