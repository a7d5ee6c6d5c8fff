"""What is about rows or files is refused for a view, with what to name instead."""

import pytest

from airflow_hive_acid.errors import InvalidArgumentsError
from airflow_hive_acid.metastore.catalog import FieldSchema, new_view

pytestmark = pytest.mark.backends("sqlite")


@pytest.mark.parametrize(
    "statement",
    [
        "TRUNCATE TABLE w.v", "BEGIN; TRUNCATE TABLE w.v; COMMIT", "ALTER TABLE w.v COMPACT 'major'",
        "ALTER TABLE w.v CONCATENATE", "ALTER TABLE w.v TOUCH", "MSCK REPAIR TABLE w.v",
        "ALTER TABLE w.v RECOVER PARTITIONS",
    ],
)  # fmt: skip
def test_a_view_has_no_rows_to_truncate_compact_or_repair(engine, client, fake, states, statement):
    text = "SELECT a FROM w.t"
    client.catalog.create_view(new_view("w.v", [FieldSchema("a", "int")], text, text))
    before = states()
    with pytest.raises(InvalidArgumentsError, match=r"w\.v is a view and has no rows of its own; name the tables"):
        engine.run(statement)
    assert states() == before
    assert fake.specs == []


def test_what_is_about_the_view_itself_names_the_statement_for_views(engine, client):
    text = "SELECT a FROM w.t"
    client.catalog.create_view(new_view("w.v", [FieldSchema("a", "int")], text, text))
    with pytest.raises(InvalidArgumentsError, match=r"ALTER TABLE: w\.v is a view; use ALTER VIEW"):
        engine.run("ALTER TABLE w.v SET TBLPROPERTIES ('a'='b')")
