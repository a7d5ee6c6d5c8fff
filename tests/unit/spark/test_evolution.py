"""Whether files know their columns under the names of the table: a file that is read under wrong names reads NULLs."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql import types as T

from airflow_hive_acid.spark.footers import orc_fields
from airflow_hive_acid.spark.read.evolution import renamed_columns, stored_columns
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


def test_files_without_names_are_told_also_where_the_table_calls_its_columns_like_that() -> None:
    nameless = [TableColumn("_col0", "int", T.IntegerType()), TableColumn("_col1", "int", T.IntegerType())]
    files = Files(("_col0", "_col1"), ("_col0", "_col1"))
    given = [SimpleNamespace(uri=uri, min_write_id=1, max_write_id=1) for uri in files.names]
    found = renamed_columns(files, given, nameless, altered=False)  # type: ignore[arg-type]
    assert found == dict.fromkeys(("f0", "f1"), ("_col0", "_col1"))


FOREIGN, OWN = False, True


@pytest.mark.parametrize(
    ("columns", "file", "own", "read"),
    [
        ("a b", "a b", FOREIGN, None),
        ("a b c", "a b", FOREIGN, None),
        ("x b", "a b", FOREIGN, "a b"),
        ("x b c", "a b", FOREIGN, "a b -"),
        ("a b", "b a", FOREIGN, None),
        ("b c", "a b z", FOREIGN, None),
        ("a b c", "b c", FOREIGN, None),
        ("x b a", "a b", FOREIGN, None),
        ("x b a", "a b", OWN, "a b -"),
        ("b a", "a b", OWN, "a b"),
        ("x y", "_col0 _col1", OWN, None),
    ],
)
def test_columns_of_files_without_acid_columns(columns: str, file: str, own: bool, read: str | None) -> None:
    """By position where columns may have been renamed; by name where files may have been there before the table."""

    table = [TableColumn(name, "int", T.IntegerType()) for name in columns.split()]
    fs: Any = SimpleNamespace(footers=SimpleNamespace(orc_columns=lambda uri: [(name, "int") for name in file.split()]))
    for altered in (True, False):
        found = stored_columns(fs, [SimpleNamespace(uri="f")], table, altered=altered, own=own)
        assert {uri: " ".join(c.name or "-" for c in stored) for uri, stored in found.items()} == (
            {} if read is None else {"f": read}
        )


def test_of_a_table_that_was_never_altered_one_file_without_acid_columns_speaks_for_all() -> None:
    asked = []

    def columns_of(uri: str) -> list[tuple[str, str]]:
        asked.append(uri)
        return [("a", "int")]

    fs: Any = SimpleNamespace(footers=SimpleNamespace(orc_columns=columns_of))
    files = [SimpleNamespace(uri=uri) for uri in ("f", "g")]
    assert stored_columns(fs, files, [TableColumn("a", "int", T.IntegerType())], altered=False) == {}
    assert asked == ["f"]
    assert stored_columns(fs, [], [], altered=True) == {}


def test_files_of_several_origins_each_speak_for_their_own() -> None:
    """LOAD DATA brings files whose columns are called as somebody else called them."""
    asked = []

    def columns_of(uri: str) -> list[tuple[str, str]]:
        asked.append(uri)
        return [("x" if uri == "h" else "a", "int")]

    fs: Any = SimpleNamespace(footers=SimpleNamespace(orc_columns=columns_of))
    files = [SimpleNamespace(uri=uri) for uri in ("f", "g", "h")]
    columns = [TableColumn("a", "int", T.IntegerType())]
    found = stored_columns(fs, files, columns, altered=False, origins=[1, 1, 2])
    assert {uri: [c.name for c in stored] for uri, stored in found.items()} == {"h": ["x"]}
    asked.clear()
    assert stored_columns(fs, files[:2], columns, altered=False, origins=[1, 1]) == {}
    assert asked == ["f"]


def test_a_column_of_texts_that_was_something_else_is_told() -> None:
    stored_as = [("a", "decimal(5,2)"), ("b", "char(3)")]
    fs: Any = SimpleNamespace(footers=SimpleNamespace(orc_columns=lambda uri: stored_as))
    table = [TableColumn(name, "string", T.StringType()) for name in ("a", "b")]
    [stored] = stored_columns(fs, [SimpleNamespace(uri="f")], table, altered=True).values()
    assert [(c.name, c.is_other) for c in stored] == [("a", True), ("b", False)]


def test_the_fields_of_a_struct_are_read_from_the_text_of_its_type() -> None:
    assert orc_fields("struct<a:int,`b,``c>`:decimal(5,2),d:struct<x:array<int>,`y>,`:map<int,string>>,e:string>") == [
        ("a", "int"), ("b,`c>", "decimal(5,2)"), ("d", "struct<x:array<int>,`y>,`:map<int,string>>"), ("e", "string"),
    ]  # fmt: skip
    assert orc_fields("struct<>") == []
