"""A dump's documents as anybody may have written them: an error in words that names the document."""

from __future__ import annotations

import json
from typing import Any

import pytest

from airflow_hive_acid.errors import CorruptDumpError
from airflow_hive_acid.metastore.catalog.values.model import Storage, Table
from airflow_hive_acid.replication.dumps import dump

TABLE = Table(
    db="w", name="t", id=7, owner="ann", owner_type="USER", created=5, last_access=6, retention=0,
    storage=Storage(columns=(), location="file:/w/t", input_format="i", output_format="o", serde=(None, "s")),
    partition_keys=(), properties={}, type="MANAGED_TABLE", write_id=3,
)  # fmt: skip
GOOD = dump.Dump(TABLE, next(scope for scope in dump.Scope if scope is not dump.Scope.NONE), 7, "9")
METADATA = json.loads(dump.metadata_text(GOOD))


class Directory:
    """What lies there: texts by name."""

    def __init__(self, **texts: str) -> None:
        self._texts = texts

    def read_text(self, uri: str) -> str:
        return self._texts[uri.rpartition("/")[2]]


def test_the_metadata_that_the_others_are_made_of_is_sound() -> None:
    assert dump.parse_metadata(json.dumps(METADATA)).table == TABLE


@pytest.mark.parametrize("changed", [
    {"repl.event.id": 7}, {"repl.event.id": ["9"]}, {"repl.valid.writeid.list": 5}, {"repl.valid.writeid.list": {}},
    {"repl.scope": ["all"]}, {"repl.scope": "nothing"}, {dump.STATE_ID: "x"}, {"table": 7}, {"table": "[" * 100_000},
    {"partitions": 7}, {"partitions": [7]}, {"version": []},
], ids=str)  # fmt: skip
def test_metadata_with_values_of_other_types_is_refused(changed: dict[str, Any]) -> None:
    with pytest.raises(CorruptDumpError, match="_metadata"):
        dump.parse_metadata(json.dumps({**METADATA, **changed}))


@pytest.mark.parametrize("mark", ["[" * 100_000, "7", "[]", "{}", '{"format": 1}', '"x"'])
def test_a_mark_that_is_none_is_refused(mark: str) -> None:
    directory: Any = Directory(_COMPLETE=mark, _metadata=json.dumps(METADATA), _file_list="")
    with pytest.raises(CorruptDumpError, match="_COMPLETE cannot be read"):
        dump.read_dump(directory, "file:/d")
