"""What a table's properties make of it: keys and values count in any case, as in Hive."""

import pytest

from airflow_hive_acid.format.table_kinds import (
    TableKind,
    is_insert_only,
    is_transactional,
    no_auto_compaction,
    property_of,
    table_kind,
)


@pytest.mark.parametrize(
    ("properties", "kind"),
    [
        ({"transactional": "true"}, TableKind.FULL),
        ({"TRANSACTIONAL": "TRUE", "x": "y"}, TableKind.FULL),
        ({"transactional": "true", "transactional_properties": "default"}, TableKind.FULL),
        ({"Transactional": "true", "Transactional_Properties": "INSERT_ONLY"}, TableKind.INSERT_ONLY),
        ({"transactional_properties": "insert_only"}, TableKind.PLAIN),
        ({"transactional": "false", "transactional_properties": "insert_only"}, TableKind.PLAIN),
        ({"transactional": "yes"}, TableKind.PLAIN),
        ({"transactional": "true "}, TableKind.PLAIN),
        ({}, TableKind.PLAIN),
    ],
)
def test_kind_of_a_table(properties, kind):
    assert table_kind(properties) is kind
    assert is_transactional(properties) is (kind is not TableKind.PLAIN)
    assert is_insert_only(properties) is (kind is TableKind.INSERT_ONLY)


def test_a_statement_that_does_not_say_makes_an_acid_table():
    assert is_transactional({}, unsaid=True) is True
    assert is_transactional({"TRANSACTIONAL": "false"}, unsaid=True) is False
    assert is_transactional({"Transactional": "true"}, unsaid=False) is True


def test_the_very_spelling_of_a_key_wins():
    assert property_of({"A": "1", "a": "2"}, "a") == "2"
    assert property_of({"a": "1", "A": "2"}, "A") == "2"
    assert property_of({"a": "1"}, "A") == "1"
    assert property_of({"b": "0", "A": "1"}, "a") == "1"
    assert property_of({"b": "0"}, "a") is None


def test_a_database_that_says_something_of_automatic_compaction_decides_for_its_tables():
    on, off = {"no_auto_compaction": "false"}, {"NO_AUTO_COMPACTION": "True "}
    assert no_auto_compaction({}, {}) is None
    assert no_auto_compaction({}, on) is None
    assert no_auto_compaction({}, off) == "table"
    assert no_auto_compaction(off, {}) == "database"
    assert no_auto_compaction(off, on) == "database"
    assert no_auto_compaction(on, off) is None
