"""Our notification messages against those of a real Hive: the same object gives the same message.

Every message of Hive is read into our values and written again. What differs is named in one place, ``WHAT_HIVE_ADDS``.
"""

from __future__ import annotations

import base64
import gzip
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from airflow_hive_acid.metastore.catalog.thrift import messages
from airflow_hive_acid.metastore.catalog.thrift.text import database_text, partition_text, table_text
from airflow_hive_acid.metastore.catalog.values.model import Database, FieldSchema, Skew, Storage, Table, WholePartition
from airflow_hive_acid.metastore.notifications.events import (
    CATALOG,
    Event,
    EventType,
    commit_compaction,
    decode,
    encode,
)

if TYPE_CHECKING:
    from collections.abc import Callable

FIXTURES = Path(__file__).parents[3] / "fixtures"
CASES = ("unpart_dml", "part_dyn", "minor_major", "iow", "evolve")
EVERY_MESSAGE = {"server", "servicePrincipal", "timestamp"}
WHAT_HIVE_ADDS = {
    "13": "grants to the owner, of the client that creates the table",
    "14": "temporary",
    "20": "isStatsCompliant, of the client that changes the table",
    "22": "accessType, of the client that was told it",
    "27": "an empty ObjectDictionary",
    "28": "the client's txn",
}
_ROW = re.compile(
    r"""INSERT INTO public\."NOTIFICATION_LOG" \([^)]*\) VALUES \(\d+, \d+, \d+, '(\w+)', .*?'(H4sI[^']*)'"""
)


def hive_messages() -> list[dict[str, Any]]:
    """Every message of a catalog event or compaction that Hive wrote into the fixtures, each once."""
    found = [json.loads(line) for line in (FIXTURES / "events.jsonl").read_text().splitlines()]
    seen = set()
    for case in CASES:
        for dump in sorted((FIXTURES / case).glob("*/metastore.sql")):
            for kind, text in _ROW.findall(dump.read_text()):
                if text not in seen:
                    seen.add(text)
                    message = json.loads(gzip.decompress(base64.b64decode(text)))
                    found.append({"type": kind, "database": message.get("db"), "table": message.get("table"),
                                  "message": message})  # fmt: skip
    return [event for event in found if event["type"] in REBUILT or event["type"] == "ACID_WRITE"]


# --- Hive's objects as our values ---------------------------------------------------------------------------------


def columns(listed: list[Any]) -> tuple[FieldSchema, ...]:
    return tuple(FieldSchema(c["1"]["str"], c["2"]["str"], c.get("3", {}).get("str")) for c in listed[2:])


def storage(fields: dict[str, Any]) -> Storage:
    serde, skew = fields["7"]["rec"], fields["11"]["rec"]
    return Storage(
        columns=columns(fields["1"]["lst"]),
        location=fields.get("2", {}).get("str"),
        input_format=fields["3"]["str"],
        output_format=fields["4"]["str"],
        serde=(serde.get("1", {}).get("str"), serde.get("2", {}).get("str")),
        serde_properties=serde["3"]["map"][3],
        bucket_count=fields["6"]["i32"],
        bucket_columns=tuple(fields["8"]["lst"][2:]),
        sort_columns=tuple((s["1"]["str"], s["2"]["i32"]) for s in fields["9"]["lst"][2:]),
        properties=fields["10"]["map"][3],
        skew=Skew(tuple(skew["1"]["lst"][2:]), tuple(tuple(v[2:]) for v in skew["2"]["lst"][2:])),
        compressed=bool(fields["5"]["tf"]),
        subdirectories=bool(fields.get("12", {"tf": 0})["tf"]),
    )


def table_of(text: str) -> Table:
    fields = json.loads(text)
    return Table(
        db=fields["2"]["str"],
        name=fields["1"]["str"],
        id=fields["25"]["i64"],
        owner=fields["3"]["str"],
        owner_type={1: "USER", 2: "ROLE", 3: "GROUP"}[fields["18"]["i32"]],
        created=fields["4"]["i32"],
        last_access=fields["5"]["i32"],
        retention=fields["6"]["i32"],
        storage=storage(fields["7"]["rec"]),
        partition_keys=columns(fields["8"]["lst"]),
        properties=fields["9"]["map"][3],
        type=fields["12"]["str"],
        write_id=fields.get("19", {"i64": 0})["i64"],
        view_original=fields.get("10", {}).get("str"),
        view_expanded=fields.get("11", {}).get("str"),
        rewrite_enabled=bool(fields.get("15", {"tf": 0})["tf"]),
    )


def partition_of(text: str, name: str = "") -> WholePartition:
    fields = json.loads(text)
    return WholePartition(
        db=fields["2"]["str"],
        table=fields["3"]["str"],
        name=name,
        values=tuple(fields["1"]["lst"][2:]),
        created=fields["4"]["i32"],
        last_access=fields["5"]["i32"],
        storage=storage(fields["6"]["rec"]),
        properties=fields["7"]["map"][3],
        write_id=fields.get("10", {"i64": -1})["i64"],
    )


def database_of(text: str) -> Database:
    fields = json.loads(text)
    return Database(
        name=fields["1"]["str"],
        id=0,
        description=fields.get("2", {}).get("str"),
        location=fields["3"]["str"],
        managed_location="",
        own_managed_location=fields.get("10", {}).get("str"),
        owner=fields["6"]["str"],
        owner_type={1: "USER", 2: "ROLE", 3: "GROUP"}[fields["7"]["i32"]],
        created=fields["9"]["i32"],
        properties=fields["4"]["map"][3],
        type={1: "NATIVE", 2: "REMOTE"}[fields["11"]["i32"]],
    )


# --- written again ------------------------------------------------------------------------------------------------


def _partitions_of(m: dict[str, Any]) -> list[WholePartition]:
    names = [files["partitionName"] for files in m.get("partitionFiles", ())] or [""] * len(m["partitionListJson"])
    return [partition_of(text, name) for text, name in zip(m["partitionListJson"], names, strict=True)]


def _dropped(m: dict[str, Any]) -> list[WholePartition]:
    """DROP_PARTITION tells nothing but the values."""
    plain = Storage((), None, None, None, (None, None))
    return [WholePartition(m["db"], m["table"], "", tuple(p.values()), 0, 0, plain, {}) for p in m["partitions"]]


def _change(m: dict[str, Any]) -> dict[str, Any]:
    return {"write_id": m["writeId"], "truncated": m["isTruncateOp"] == "true"}


def _ptn(m: dict[str, Any]) -> WholePartition | None:
    return None if m["ptnObjJson"] is None else partition_of(m["ptnObjJson"])


REBUILT: dict[str, Callable[[dict[str, Any]], Event]] = {
    "CREATE_DATABASE": lambda m: messages.create_database(database_of(m["dbJson"])),
    "DROP_DATABASE": lambda m: messages.drop_database(database_of(m["dbJson"])),
    "ALTER_DATABASE": lambda m: messages.alter_database(
        database_of(m["dbObjBeforeJson"]), database_of(m["dbObjAfterJson"])),
    "CREATE_TABLE": lambda m: messages.create_table(table_of(m["tableObjJson"])),
    "DROP_TABLE": lambda m: messages.drop_table(table_of(m["tableObjJson"])),
    "ALTER_TABLE": lambda m: messages.alter_table(
        table_of(m["tableObjBeforeJson"]), table_of(m["tableObjAfterJson"]), **_change(m)),
    "ADD_PARTITION": lambda m: messages.add_partitions(table_of(m["tableObjJson"]), _partitions_of(m)),
    "DROP_PARTITION": lambda m: messages.drop_partitions(table_of(m["tableObjJson"]), _dropped(m)),
    "ALTER_PARTITION": lambda m: messages.alter_partition(
        table_of(m["tableObjJson"]), partition_of(m["partitionObjBeforeJson"]),
        partition_of(m["partitionObjAfterJson"]), **_change(m)),
    "ALTER_PARTITIONS": lambda m: messages.alter_partitions(
        table_of(m["tableObjJson"]), _partitions_of(m), truncated=m["isTruncateOp"] == "true")[0],
    "INSERT": lambda m: messages.insert(
        table_of(m["tableObjJson"]), _ptn(m), [f.removesuffix("###") for f in m["files"]],
        replace=m["replace"] == "true"),
    "COMMIT_COMPACTION_EVENT": lambda m: commit_compaction(
        m["txnid"], m["compactionId"], m["type"], m["dbname"], m["tableName"], m["partName"]),
}  # fmt: skip


def comparable(message: dict[str, Any]) -> dict[str, Any]:
    """A message with its objects parsed, without what is of the moment or of Hive's clients."""
    found = {}
    for key, value in message.items():
        if key.endswith("Json"):
            found[key] = [_object(v) for v in value] if isinstance(value, list) else _object(value)
        elif key not in EVERY_MESSAGE:
            found[key] = value
    return found


def _object(text: str | None) -> Any:
    if text is None:
        return None
    fields = json.loads(text)
    if "7" in fields and "rec" in fields["7"]:  # a table
        for number in WHAT_HIVE_ADDS:
            fields.pop(number, None)
        # Defaults that Hive leaves out as long as nobody has set them.
        fields.setdefault("15", {"tf": 0})
        fields.setdefault("19", {"i64": 0})
        fields["7"]["rec"].setdefault("12", {"tf": 0})
    elif "6" in fields and "rec" in fields["6"]:  # a partition
        fields.setdefault("10", {"i64": -1})
    return fields


HIVES = hive_messages()


def test_the_fixtures_hold_every_kind_of_event() -> None:
    assert {event["type"] for event in HIVES} == {*REBUILT, "ACID_WRITE"}
    assert {*REBUILT} == {kind.value for kind in EventType} - {
        "OPEN_TXN", "COMMIT_TXN", "ABORT_TXN", "ALLOC_WRITE_ID_EVENT"}  # fmt: skip
    assert len(HIVES) > 100


@pytest.mark.parametrize("hive", [e for e in HIVES if e["type"] in REBUILT], ids=lambda e: e["type"])
def test_a_message_of_hive_is_written_the_same_by_us(hive: dict[str, Any]) -> None:
    ours = REBUILT[hive["type"]](hive["message"])
    text = encode(ours.message, "json-0.2")
    written = decode(text, "json-0.2")
    assert ours.type.value == hive["type"]
    assert set(written) == set(hive["message"])
    assert comparable(written) == comparable(hive["message"])
    if hive["type"] != "COMMIT_COMPACTION_EVENT":
        after = hive["message"].get("tableObjAfterJson")
        renamed = json.loads(after)["1"]["str"] if after else hive["table"]
        assert (ours.database, ours.table) == (hive["database"], renamed)
    assert CATALOG == "hive"


@pytest.mark.parametrize("hive", [e for e in HIVES if e["type"] == "ACID_WRITE"], ids=lambda e: e["table"])
def test_a_row_of_a_write_is_hives(hive: dict[str, Any]) -> None:
    files = [tuple(f.split("###")) for f in hive["files"].split("]")]
    partition = None if hive["partition_object"] is None else partition_of(hive["partition_object"])
    ours = messages.acid_write_row(table_of(hive["table_object"]), partition, files)
    assert ours["files"] == hive["files"]
    assert _object(ours["table_object"]) == _object(hive["table_object"])
    assert _object(ours["partition_object"]) == _object(hive["partition_object"])


def test_texts_are_escaped_for_json_and_lists_may_be_keys() -> None:
    skew = Skew(("s",), (('a"b', "é"),), {('a"b', "é"): "file:/w/t/s=a"})
    place = Storage((FieldSchema("s", "string", 'x"\\\n\t😀'),), "file:/w/t", None, None, (None, None), skew=skew)
    table = Table("d", "t", 1, None, None, 0, 0, 0, place, (), {"k": ""}, "MANAGED_TABLE")
    text = table_text(table)
    assert '"3":{"str":"x\\"\\\\\\n\\t😀"}' in text
    assert '"3":{"map":["lst","str",1,{["str",2,"a\\"b","é"]:"file:/w/t/s=a"}]}' in text
    assert '"9":{"map":["str","str",1,{"k":""}]}' in text
    assert '"3":{"str":null}' not in text
    partition = WholePartition("d", "t", "p=1", ("1",), 0, 0, place, {}, 7)
    assert '"10":{"i64":7}' in partition_text(partition)
    database = Database("d", 0, "file:/w", "file:/w")
    assert json.loads(database_text(database)) == {
        "1": {"str": "d"}, "3": {"str": "file:/w"}, "4": {"map": ["str", "str", 0, {}]}, "8": {"str": "hive"},
        "11": {"i32": 1},
    }  # fmt: skip
