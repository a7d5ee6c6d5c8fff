"""Events: in which order they are taken, and what rows of a real Hive's log and of ours say."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_hive_acid.errors import InvalidArgumentsError, ReplicationGapError
from airflow_hive_acid.metastore.catalog.thrift import messages
from airflow_hive_acid.metastore.catalog.values.model import Database, FieldSchema, Storage, Table, WholePartition
from airflow_hive_acid.metastore.names.objects import TableName
from airflow_hive_acid.metastore.notifications import events as written
from airflow_hive_acid.metastore.notifications.log import LoggedEvent
from airflow_hive_acid.replication.events.decoder import NOT_REPLICATED, decode_event
from airflow_hive_acid.replication.events.event import EventKind as K
from airflow_hive_acid.replication.events.event import in_sequence, read_after
from tests.integration.metastore.catalog.conftest import parse_dump

FIXTURES = Path(__file__).parents[2] / "fixtures"
PLAIN = "json-0.2"


def row(event_id: int, kind: str = "OPEN_TXN", message: str = '{"txnIds": [1]}') -> LoggedEvent:
    return LoggedEvent(event_id, 0, kind, None, None, None, message, PLAIN)


def rows(*ids: int) -> list[LoggedEvent]:
    return [row(i) for i in ids]


class Log:
    """A source that has purged what is older than ``first``."""

    def __init__(self, first: int, last: int) -> None:
        self.first, self.last = first, last

    def events_after(self, event_id: int, limit: int = 1000) -> list[LoggedEvent]:
        return rows(*range(max(event_id + 1, self.first), self.last + 1))[:limit]

    def current_event_id(self) -> int:
        return self.last

    def first_event_id(self) -> int:
        return self.first


# --- order ---


def test_events_come_one_after_the_other_from_any_position() -> None:
    log = Log(1, 7)
    assert [e.event_id for e in read_after(log, 0, 3)] == [1, 2, 3]
    assert [e.event_id for e in read_after(log, 3, 10)] == [4, 5, 6, 7]
    assert read_after(log, 7) == []


@given(order=st.permutations([*range(4, 9), 5, 6, 3]))
def test_repeated_and_reordered_events_are_taken_once_and_in_order(order: list[int]) -> None:
    found = in_sequence(3, rows(*order), 1, 8)
    assert [event.event_id for event in found] == [4, 5, 6, 7, 8]


def test_events_behind_one_that_was_not_delivered_yet_wait() -> None:
    assert [e.event_id for e in in_sequence(3, rows(4, 5, 7, 8), 1, 8)] == [4, 5]


def test_a_purged_log_is_a_gap_that_proposes_a_bootstrap_and_names_what_is_lost() -> None:
    with pytest.raises(ReplicationGapError, match=r"stands at event 3.* is 6: 2 events were purged.*Bootstrap"):
        read_after(Log(6, 9), 3)
    with pytest.raises(ReplicationGapError, match="6 events were purged"):
        read_after(Log(10, 9), 3)  # all of them
    assert [e.event_id for e in read_after(Log(4, 9), 3, 1)] == [4]


def test_a_source_that_never_was_at_the_position_is_another_one() -> None:
    with pytest.raises(ReplicationGapError, match=r"stands at event 30, the source has only had 9.*restored"):
        read_after(Log(1, 9), 30)


def test_a_hole_at_the_position_is_not_passed() -> None:
    with pytest.raises(ReplicationGapError, match="event 4 is missing"):
        in_sequence(3, rows(5, 6), 1, 6)


def test_nothing_new_is_no_gap() -> None:
    assert read_after(Log(10, 9), 9) == []
    assert in_sequence(3, [], 1, 5) == [], "it will come"


def test_two_events_of_one_id_are_of_two_metastores() -> None:
    with pytest.raises(InvalidArgumentsError, match="two events have the id 5: OPEN_TXN and DROP_TABLE"):
        in_sequence(4, [row(5), row(5, "DROP_TABLE")], 1, 5)


@pytest.mark.parametrize(("position", "limit"), [(-1, 10), (0, 0)])
def test_positions_and_limits_that_cannot_be_are_refused(position: int, limit: int) -> None:
    with pytest.raises(InvalidArgumentsError, match=f"position {position}, limit {limit}"):
        read_after(Log(1, 2), position, limit)


# --- a real Hive's messages ---


def recorded(name: str) -> list[LoggedEvent]:
    """Decoded messages of ``events.jsonl``, as rows of a log."""
    lines = [json.loads(line) for line in (FIXTURES / "events.jsonl").read_text().splitlines()]
    return [
        LoggedEvent(number, 0, d["type"], "hive", d["database"], d["table"], json.dumps(d["message"]), PLAIN)
        for number, d in enumerate(lines, 1)
        if d["type"] == name and "message" in d
    ]


def log_of_hive(stage: Path) -> list[LoggedEvent]:
    """The log in a dump of a real Hive's metastore, ordered by event id."""
    found = [
        LoggedEvent(
            int(r["EVENT_ID"]), int(r["EVENT_TIME"]), r["EVENT_TYPE"], r["CAT_NAME"], r["DB_NAME"], r["TBL_NAME"],
            r["MESSAGE"], r["MESSAGE_FORMAT"],
        )
        for r in parse_dump((stage / "metastore.sql").read_text()).get("NOTIFICATION_LOG", [])
    ]  # fmt: skip
    return sorted(found, key=lambda event: event.event_id)


LOGS = [
    stage for case in ("unpart_dml", "part_dyn", "minor_major", "iow", "evolve")
    for stage in sorted(p for p in (FIXTURES / case).iterdir() if p.is_dir())[-1:]
]  # fmt: skip


@pytest.mark.conformance("E14", "E15", "E16")
@pytest.mark.parametrize("stage", LOGS, ids=lambda stage: stage.parent.name)
def test_every_event_of_a_real_hive_is_read(stage: Path) -> None:
    logged = log_of_hive(stage)
    assert len(logged) > 10
    assert {event.message_format for event in logged} == {"gzip(json-2.0)"}
    taken = in_sequence(0, reversed(logged), 1, logged[-1].event_id)
    assert [event.event_id for event in taken] == list(range(1, len(logged) + 1))
    events = [decode_event(event) for event in taken]
    assert {event.kind for event in events} <= set(K) - {K.UNKNOWN, K.UNREADABLE}
    opened = {i for event in events if event.kind is K.OPEN_TXN for i in event.txn_ids}
    ended = {i for event in events if event.kind in (K.COMMIT_TXN, K.ABORT_TXN) for i in event.txn_ids}
    assert ended
    assert ended <= opened
    for event in events:
        if event.kind is K.ALLOC_WRITE_ID:
            assert event.table is not None
            assert [txn_id for txn_id, _ in event.write_ids] == list(event.txn_ids)
        if event.table is not None and event.table_object is not None:
            assert event.table == TableName(event.table_object.db, event.table_object.name)
            assert event.transactional is True


@pytest.mark.conformance("E13")
def test_a_rename_of_a_real_hive_has_both_names_and_says_what_else_it_moved() -> None:
    first, second = recorded("ALTER_TABLE")[:2]
    plain, acid = decode_event(first), decode_event(second)
    assert (plain.kind, plain.table_before, plain.table) == (K.ALTER_TABLE, TableName("d1", "f"), TableName("d1", "g"))
    assert (plain.transactional, plain.was_transactional, plain.moved) == (False, False, False)
    assert (acid.table_before, acid.table) == (TableName("d1", "u"), TableName("d1", "v"))
    assert (acid.transactional, acid.moved) == (True, True)
    older = decode_event(replace(first, table="f"))  # a Hive that files it under the old name
    assert (older.table_before, older.table) == (TableName("d1", "f"), TableName("d1", "g"))


def test_a_renamed_partition_of_a_real_hive_has_both_names() -> None:
    event = decode_event(recorded("ALTER_PARTITION")[0])
    assert event.kind is K.ALTER_PARTITION
    assert event.partitions_before == ("day=2024-01-01/hour=1",)
    assert event.partitions == ("day=2024-01-02/hour=1",)
    assert event.partition_objects[0].values == ("2024-01-02", "1")


def test_partitions_of_a_real_hive_are_named_as_in_its_catalog() -> None:
    names = ("day=2024-01-01/hour=1", "day=2024-01-01/hour=2")
    added, dropped = decode_event(recorded("ADD_PARTITION")[0]), decode_event(recorded("DROP_PARTITION")[0])
    assert (added.kind, added.partitions) == (K.ADD_PARTITION, names)
    assert (dropped.kind, dropped.partitions) == (K.DROP_PARTITION, names)
    truncated = [decode_event(e) for e in recorded("ALTER_PARTITIONS")]
    assert [e.truncated for e in truncated] == [False, False, True]


def test_an_insert_of_a_real_hive_names_its_partition_and_its_files_without_their_decoration() -> None:
    event = decode_event(recorded("INSERT")[0])
    assert (event.kind, event.partitions, event.replace, event.transactional) == (K.INSERT, ("p=1",), True, False)
    assert event.files == ("file:@WH@_external/d1.db/e/p=1/000000_0",)


def test_views_and_databases_of_a_real_hive_are_read() -> None:
    view = decode_event(recorded("CREATE_TABLE")[0])
    assert view.table_object is not None
    assert (view.table_object.type, view.transactional) == ("VIRTUAL_VIEW", False)
    created, altered, dropped = (
        decode_event(recorded(name)[0]) for name in ("CREATE_DATABASE", "ALTER_DATABASE", "DROP_DATABASE")
    )
    assert (created.kind, created.database, created.about) == (K.CREATE_DATABASE, "d1", "d1")
    assert altered.database_object is not None
    assert altered.database_object.properties == {"a": "b", "c": "d"}
    assert dropped.kind is K.DROP_DATABASE


# --- our messages ---


COLUMNS = (FieldSchema("id", "int"),)
KEYS = (FieldSchema("Day", "string"), FieldSchema("hour", "int"))


def table(name: str = "t", location: str = "file:/w/t", **parameters: str) -> Table:
    storage = Storage(COLUMNS, location, None, None, (None, None))
    return Table("d", name, 7, "me", "USER", 1, 0, 0, storage, KEYS, parameters, "MANAGED_TABLE")


def partition(*values: str, location: str = "file:/w/t/p", **parameters: str) -> WholePartition:
    name = f"day={values[0]}/hour={values[1]}"
    return WholePartition(
        "d", "t", name, values, 1, 0, Storage(COLUMNS, location, None, None, (None, None)), parameters
    )


def logged(event: written.Event, message_format: str = "gzip(json-2.0)") -> LoggedEvent:
    message = written.encode(event.message, message_format)
    return LoggedEvent(9, 5, event.type.value, "hive", event.database, event.table, message, message_format)


@pytest.mark.conformance("E14")
@pytest.mark.parametrize("message_format", ["gzip(json-2.0)", "json-0.2"])
def test_our_events_are_read_in_both_formats(message_format: str) -> None:
    event = decode_event(logged(messages.create_table(table(transactional="TRUE")), message_format))
    assert (event.event_id, event.time, event.kind) == (9, 5, K.CREATE_TABLE)
    assert (event.table, event.transactional) == (TableName("d", "t"), True)
    assert str(event) == "event 9 CREATE_TABLE of d.t"


def test_what_our_events_say_of_names_and_changes() -> None:
    renamed = decode_event(logged(messages.alter_table(table("old"), table("new"))))
    assert (renamed.table_before, renamed.table) == (TableName("d", "old"), TableName("d", "new"))
    moved = decode_event(logged(messages.alter_table(table(), table(location="file:/elsewhere"))))
    assert (moved.moved, moved.truncated, moved.table_before) == (True, False, None)
    emptied = decode_event(logged(messages.alter_table(table(), table(), truncated=True)))
    assert (emptied.moved, emptied.truncated) == (False, True)
    names = decode_event(logged(messages.alter_table(table(), table(x="y"))))
    assert (names.moved, names.truncated) == (False, False)
    some = partition("a b", "1"), partition("a/b", "2")
    assert decode_event(logged(messages.add_partitions(table(), some))).partitions == (
        "day=a b/hour=1", "day=a%2Fb/hour=2",
    )  # fmt: skip
    alone = decode_event(logged(messages.alter_partition(table(), some[0], some[0])))
    assert (alone.partitions, alone.partitions_before, alone.moved) == (("day=a b/hour=1",), (), False)
    database = Database("d", 0, "file:/w", "file:/w")
    assert decode_event(logged(messages.drop_database(database))).kind is K.DROP_DATABASE


def test_a_hive_without_insert_events_shows_new_files_in_its_statistics() -> None:
    """``hive.metastore.dml.events`` is off by default: then an INSERT is an ALTER with other numbers of files."""
    event = messages.alter_table(table(numFiles="1", totalSize="9"), table(numFiles="2", totalSize="20"))
    assert decode_event(logged(event)).moved
    event = messages.alter_partition(table(), partition("a", "1", totalSize="1"), partition("a", "1", totalSize="2"))
    assert decode_event(logged(event)).moved


def test_events_of_txns() -> None:
    assert decode_event(logged(written.open_txn([4, 5]))).txn_ids == (4, 5)
    committed = decode_event(logged(written.commit_txn(4, [("d", 2), ("e", 7), ("d", 3)])))
    assert (committed.kind, committed.txn_ids, committed.databases) == (K.COMMIT_TXN, (4,), ("d", "e"))
    assert decode_event(logged(written.commit_txn(4, []))).databases is None, "older Hives say nothing"
    assert decode_event(logged(written.abort_txn(4, [("d", 2)]))).databases == ("d",)
    allocated = decode_event(logged(written.alloc_write_id("d", "t", {8: 3, 4: 2})))
    assert (allocated.table, allocated.write_ids) == (TableName("d", "t"), ((4, 2), (8, 3)))
    compacted = decode_event(logged(written.commit_compaction(9, 1, "MAJOR", "d", "t", "p=1")))
    assert (compacted.kind, compacted.partitions, compacted.txn_ids) == (K.COMMIT_COMPACTION, ("p=1",), (9,))


@pytest.mark.parametrize("suffix", ["", "_EVENT"])
def test_acid_writes_are_known_with_and_without_the_suffix(suffix: str) -> None:
    message = {"txnid": 3, "writeId": 2, "database": "D", "table": "T", "partition": "p=1", "files": ["file:/a###d"]}
    event = decode_event(LoggedEvent(1, 0, f"ACID_WRITE{suffix}", "hive", "d", "t", json.dumps(message), PLAIN))
    assert (event.kind, event.table, event.write_ids) == (K.ACID_WRITE, TableName("d", "t"), ((3, 2),))
    assert (event.partitions, event.files) == (("p=1",), ("file:/a",))
    batch = {"txnid": 3, "writeIds": [2, 2], "database": "d", "table": "t", "partitions": ["p=1", "p=2"]}
    event = decode_event(LoggedEvent(1, 0, f"BATCH_ACID_WRITE{suffix}", "hive", "d", "t", json.dumps(batch), PLAIN))
    assert (event.kind, event.write_ids, event.partitions) == (K.ACID_WRITE, ((3, 2),), ("p=1", "p=2"))


# --- bad input ---


def test_a_type_that_nobody_knows_is_kept_with_its_row() -> None:
    unknown = LoggedEvent(3, 0, "TELEPORT_TABLE", "hive", "D", "T", "not even JSON", "json-9")
    event = decode_event(unknown)
    assert (event.kind, event.type, event.table) == (K.UNKNOWN, "TELEPORT_TABLE", TableName("d", "t"))
    assert event.problem == "TELEPORT_TABLE is no type of event that this version knows"
    assert event.logged is unknown


@pytest.mark.parametrize("message", [
    "", "[]", "{}", "nonsense", '{"tableObjJson": 7}', '{"tableObjJson": "{}"}', '{"tableObjJson": "{\\"1\\":"}',
    '{"tableObjJson": "[[[[["}',
])  # fmt: skip
@pytest.mark.parametrize("kind", ["CREATE_TABLE", "DROP_TABLE", "INSERT", "ADD_PARTITION", "DROP_PARTITION"])
def test_a_message_that_cannot_be_read_is_kept_and_says_so(kind: str, message: str) -> None:
    event = decode_event(LoggedEvent(3, 0, kind, "hive", "d", "t", message, PLAIN))
    assert (event.kind, event.type) == (K.UNREADABLE, kind)
    assert event.problem is not None
    assert event.problem.startswith(f"the message of event 3 {kind} of d.t is not as Hive writes it: ")


def test_messages_in_a_format_that_they_do_not_have_are_kept() -> None:
    for message, message_format in (("{}", "gzip(json-2.0)"), ("H4sIAAAA", "gzip(json-2.0)"), ("H4sIAAAA", PLAIN)):
        assert (
            decode_event(LoggedEvent(1, 0, "OPEN_TXN", None, None, None, message, message_format)).kind is K.UNREADABLE
        )


_PARTITION = '{"1":{"lst":["str",1,"VALUE"]},"2":{"str":"d"},"3":{"str":"t"}}'
_TABLE = '{"1":{"str":"t"},"2":{"str":"d"},"8":{"lst":["rec",1,{"1":{"str":"p"},"2":{"str":"string"}}]}}'


@pytest.mark.parametrize(("kind", "message"), [
    ("CREATE_TABLE", "[" * 200_000), ("CREATE_TABLE", json.dumps({"tableObjJson": "[" * 200_000})),
    ("CREATE_TABLE", json.dumps({"tableObjJson": '{"[' + "[" * 200_000})),
    ("OPEN_TXN", '{"fromTxnId": 1, "toTxnId": 1000000000000}'), ("OPEN_TXN", '{"fromTxnId": 1, "toTxnId": 1e999}'),
    ("OPEN_TXN", '{"txnIds": [NaN]}'), ("OPEN_TXN", '{"txnIds": [-1]}'),
    ("OPEN_TXN", '{"txnIds": ["' + "9" * 5000 + '"]}'),
    ("COMMIT_TXN", '{"txnid": 1e300}'), ("COMMIT_TXN", '{"txnid": [1]}'),
    ("ALLOC_WRITE_ID_EVENT", '{"dbName": "d", "tableName": "a/../b", "txnIdList": [1], "writeIdList": [1]}'),
    ("ALLOC_WRITE_ID_EVENT", '{"dbName": "d", "tableName": "\\ud800", "txnIdList": [1], "writeIdList": [1]}'),
    ("ALLOC_WRITE_ID_EVENT", '{"dbName": "", "tableName": "t", "txnIdList": [1], "writeIdList": [1]}'),
    ("ALLOC_WRITE_ID_EVENT", '{"dbName": "d", "tableName": "t", "txnIdList": [1], "writeIdList": [1e19]}'),
    ("ADD_PARTITION", json.dumps(
        {"tableObjJson": _TABLE, "partitionListJson": [_PARTITION.replace("VALUE", "\\ud800")]}
    )),
    ("DROP_PARTITION", json.dumps({"tableObjJson": _TABLE, "partitions": [{"p": "a\ud800"}]})),
], ids=range(16))  # fmt: skip
def test_a_hostile_message_is_kept_like_any_that_cannot_be_read(kind: str, message: str) -> None:
    """Too deep, too many, no numbers, names that no query could be asked with."""
    event = decode_event(LoggedEvent(3, 0, kind, "hive", "d", "t", message, PLAIN))
    assert event.kind is K.UNREADABLE
    assert len(event.problem or "") < 1000


def test_a_partition_of_any_characters_that_a_catalog_can_have_is_read() -> None:
    message = json.dumps({"tableObjJson": _TABLE, "partitionListJson": [_PARTITION.replace("VALUE", "ü/../€ x")]})
    event = decode_event(LoggedEvent(3, 0, "ADD_PARTITION", "hive", "d", "t", message, PLAIN))
    assert (event.kind, event.partitions) == (K.ADD_PARTITION, ("p=ü%2F..%2F€ x",))


def test_a_packed_message_that_is_broken_or_unpacks_to_too_much_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(written, "MAX_MESSAGE", 1000)
    packed = written.encode({"txnIds": list(range(1000))}, "gzip(json-2.0)")
    broken = base64.b64encode(base64.b64decode(packed)[:20] + b"xxxxxxxxxxxxxxxxxxxx").decode()
    for message in (packed, broken):
        event = decode_event(LoggedEvent(1, 0, "OPEN_TXN", None, None, None, message, "gzip(json-2.0)"))
        assert event.kind is K.UNREADABLE


@pytest.mark.parametrize(("database", "table"), [("d", "a b"), ("../d", "t"), ("d", "t" * 300), ("d\ud800", "t")])
def test_a_row_that_names_no_possible_table_names_none(database: str, table: str) -> None:
    event = decode_event(LoggedEvent(3, 0, "ALTER_TABLE", "hive", database, table, "{}", PLAIN))
    assert (event.kind, event.table) == (K.UNREADABLE, None)


def test_a_table_whose_name_no_copy_can_have_is_kept_and_the_policy_goes_on() -> None:
    """A Hive with hive.support.special.characters.tablename has such names."""
    event = decode_event(LoggedEvent(3, 0, "CREATE_TABLE", "hive", "d", "a b", "{}", PLAIN))
    assert (event.kind, event.database, event.table) == (K.NOT_REPLICATED, "d", None)
    assert event.problem == "the table 'a b': names of letters, digits and _ are replicated; rename it"


def test_a_row_without_its_table_is_kept() -> None:
    event = logged(messages.drop_table(table()))
    assert "does not name its table" in str(decode_event(replace(event, table=None)).problem)


def test_types_without_a_copy_say_why() -> None:
    for name, why in NOT_REPLICATED.items():
        event = decode_event(LoggedEvent(1, 0, name, "hive", "d", "t", "{}", PLAIN))
        assert (event.kind, event.problem) == (K.NOT_REPLICATED, why)
    other = decode_event(replace(logged(messages.create_table(table())), catalog="spark"))
    assert (other.kind, other.problem) == (
        K.NOT_REPLICATED, "it is about the catalog 'spark'; only 'hive' is replicated",
    )  # fmt: skip
