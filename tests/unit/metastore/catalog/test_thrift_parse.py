"""What thrift.text writes can be read back, value for value; and what a Hive writes besides."""

from __future__ import annotations

from dataclasses import replace

import pytest

from airflow_hive_acid.errors import InvalidArgumentsError
from airflow_hive_acid.metastore.catalog.thrift.parser import parse_database, parse_partition, parse_table
from airflow_hive_acid.metastore.catalog.thrift.text import database_text, partition_text, table_text
from airflow_hive_acid.metastore.catalog.values.model import Database, FieldSchema, Skew, Storage, Table, WholePartition

STORAGE = Storage(
    columns=(FieldSchema("a", "int", "the \"a\", ä"), FieldSchema("b", "struct<x:int,y:string>")),
    location="file:/w/t", input_format="org.Input", output_format="org.Output", serde=(None, "org.SerDe"),
    serde_properties={"field.delim": "\x01"}, bucket_count=4, bucket_columns=("a",), sort_columns=(("a", 1), ("b", 0)),
    properties={"k": "v"}, compressed=True,
)  # fmt: skip
SKEWED = replace(STORAGE, skew=Skew(("a", "b"), (("1", "x"), ("2", "]}")), {("1", "x"): "file:/w/t/a=1/b=x"}))
TABLE = Table(
    db="w", name="t", id=7, owner="ann", owner_type="USER", created=5, last_access=6, retention=0, storage=STORAGE,
    partition_keys=(FieldSchema("ds", "string", None),), properties={"repl.last.id": "12", "empty": ""},
    type="MANAGED_TABLE", write_id=3,
)  # fmt: skip
PARTITION = WholePartition(
    db="w", table="t", name="ds=a%2Fb", values=("a/b",), created=1, last_access=2, storage=STORAGE,
    properties={"x": "y"}, write_id=3,
)  # fmt: skip


@pytest.mark.parametrize("storage", [STORAGE, SKEWED], ids=["plain", "skewed"])
def test_what_is_written_is_read_back(storage: Storage) -> None:
    table = replace(TABLE, storage=storage)
    assert parse_table(table_text(table)) == table
    partition = replace(PARTITION, storage=storage)
    assert parse_partition(partition_text(partition), table.partition_columns) == partition


def test_a_database_is_read_back() -> None:
    database = Database(
        "w", 0, "file:/e/w.db", "file:/m/w.db", "ann", "about", {"repl.source.for": "p"}, "file:/m/w.db", "ROLE", 9
    )
    assert parse_database(database_text(database)) == database


@pytest.mark.parametrize("text", [
    "", "[]", "7", '{"1":{"str":"t"}}', '{"1":"t"}', '{"1":{"str":"t"},"2":{"str":"w"}',
    '{"1":{"str":"t"},"2":{"str":"w"}} x',
])  # fmt: skip
def test_what_is_no_table_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgumentsError, match="table"):
        parse_table(text)


def test_a_partition_of_another_table_is_refused() -> None:
    with pytest.raises(InvalidArgumentsError, match="partition columns"):
        parse_partition(partition_text(PARTITION), ())


def test_fields_of_newer_hives_are_skipped() -> None:
    text = table_text(TABLE).removesuffix("}") + ',"99":{"rec":{"1":{"i64":4}}}}'
    assert parse_table(text) == TABLE


@pytest.mark.parametrize("field", [
    '"1":{"str":7}', '"1":{"str":"\\ud800"}', '"3":{"str":["ann"]}', '"4":{"i32":"x"}', '"4":{"i32":1e999}',
    '"19":{"i64":9223372036854775808}', '"8":{"lst":7}', '"8":{"lst":["rec",1,7]}', '"7":{"rec":7}',
    '"9":{"map":["str","str",1,["a"]]}', '"9":{"map":["str","str",1,{"a":7}]}', '"9":{"map":7}', '"9":7',
    '"7":{"rec":{"8":{"lst":["str",1,{}]}}}', '"7":{"rec":{"6":{"i32":"4"}}}', '"18":{"i32":[]}',
    '"9":' + "[" * 100_000, '"9":{"map":["str","str",1,{"\\ud800":"x"}]}',
])  # fmt: skip
def test_a_field_of_another_type_is_refused(field: str) -> None:
    """Values, lists, maps and structs that are something else, halves of characters, and too deep a nesting."""
    rest = "".join(f',"{n}":{{"str":"x"}}' for n in (1, 2) if not field.startswith(f'"{n}"'))
    with pytest.raises(InvalidArgumentsError, match=r"Thrift text|of a (table|storage|order|column|serde)"):
        parse_table("{" + field + rest + "}")
