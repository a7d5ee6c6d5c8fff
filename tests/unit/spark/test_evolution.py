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
        self.footers = self

    def orc_row_names(self, uri: str) -> tuple[str, ...]:
        self.opened.append(uri)
        return self.names[uri]

    def renamed(self, *, altered: bool = True) -> dict[str, Any]:
        files = [SimpleNamespace(uri=uri, min_write_id=i, max_write_id=i) for i, uri in enumerate(self.names)]
        return renamed_columns(self, files, COLUMNS, altered=altered)  # type: ignore[arg-type]


def test_the_oldest_file_alone_is_opened_of_a_table_that_was_never_altered() -> None:
    files = Files(("id", "leaves"), ("id", "leaves"))
    assert files.renamed(altered=False) == {}
    assert files.opened == ["f0"]


@pytest.mark.parametrize("altered", [True, False])
def test_a_file_with_other_names_is_found_even_where_nobody_has_noted_the_change(altered: bool) -> None:
    assert Files(("key", "leaves"), ("id", "leaves")).renamed(altered=altered) == {"f0": ("key", "leaves")}


def test_a_column_that_had_another_name_for_a_while_is_found() -> None:
    """The oldest file may also be a compaction of the rows before the rename that was written after it."""
    assert Files(("id", "leaves"), ("id", "pages"), ("id", "leaves")).renamed() == {"f1": ("id", "pages")}


@pytest.mark.parametrize("oldest", [("id",), ("key",)])
def test_a_column_that_was_added_after_the_oldest_file_and_renamed_later_is_found(oldest: tuple[str, ...]) -> None:
    found = Files(oldest, ("id", "pages"), ("id", "leaves")).renamed()
    assert found.pop("f1") == ("id", "pages")
    assert found == ({"f0": ("key",)} if oldest == ("key",) else {})


def test_columns_that_were_only_added_need_no_other_names() -> None:
    assert Files(("id",), ("id", "leaves")).renamed() == {}
