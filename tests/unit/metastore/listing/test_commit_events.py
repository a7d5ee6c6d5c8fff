"""Events to commits: what is told of a txn and a table, and what is not known."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from airflow_hive_acid.errors import InvalidArgumentsError
from airflow_hive_acid.metastore.listing.commit_events import (
    CommitFacts,
    Component,
    Heard,
    TableCommit,
    Volume,
    commits_of,
    committed_txns,
    hear,
    txns_of_event,
    whole,
)
from airflow_hive_acid.metastore.listing.commit_log import Missed, gaps
from airflow_hive_acid.metastore.names.objects import TableName
from airflow_hive_acid.metastore.notifications.events import GZIP_FORMAT, PLAIN_FORMAT, encode
from airflow_hive_acid.metastore.notifications.log import LoggedEvent

T, U = TableName("db", "t"), TableName("db", "u")
FIXTURES = Path(__file__).parents[3] / "fixtures"


def event(number: int, kind: str, message: dict, form: str = PLAIN_FORMAT) -> LoggedEvent:
    return LoggedEvent(number, 1000 + number, kind, None, None, None, encode(message, form), form)


def commit(number: int, txn_id: int) -> LoggedEvent:
    return event(number, "COMMIT_TXN", {"txnid": txn_id})


def compaction(number: int, txn_id: int) -> LoggedEvent:
    return event(number, "COMMIT_COMPACTION_EVENT", {"txnid": txn_id, "compactionId": 1})


def heard(*events: LoggedEvent) -> list[Heard]:
    return [one for one in map(hear, events) if one is not None]


@pytest.mark.parametrize("form", [PLAIN_FORMAT, GZIP_FORMAT])
def test_commit_of_an_older_hive_names_the_txn_alone_and_the_allocation_its_tables(form):
    message = {"dbName": "DB", "tableName": "T", "txnIdList": [5, 6], "writeIdList": [11, 12]}
    first, second = heard(
        event(1, "ALLOC_WRITE_ID_EVENT", message, form), event(2, "COMMIT_TXN", {"txnid": 5, "writeIds": None}, form)
    )
    assert first.write_ids == {(5, T): 11, (6, T): 12}
    assert (second.txn_id, second.event_id, second.time) == (5, 2, 1002)


@pytest.mark.parametrize("kind", ["OPEN_TXN", "ABORT_TXN", "CREATE_TABLE", "SOMETHING_OF_A_LATER_HIVE"])
def test_other_events_are_passed_over_unread(kind):
    assert hear(LoggedEvent(1, 1, kind, None, None, None, "no JSON at all", "json-9")) is None


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("COMMIT_TXN", {}),
        ("COMMIT_TXN", {"txnid": "five"}),
        ("COMMIT_TXN", {"txnid": 5, "writeIdRanges": {"t": [[1, 2]]}}),
        ("COMMIT_TXN", {"txnid": 5, "writeIdRanges": [1, 2]}),
        ("ALLOC_WRITE_ID_EVENT", {"dbName": "d", "tableName": "t", "txnIdList": [1], "writeIdList": []}),
        ("INSERT", {"db": "d"}),
    ],
)
def test_event_that_is_not_what_its_type_promises_says_so(kind, message):
    with pytest.raises(InvalidArgumentsError, match=r"event 7 \(.+\) is not as Hive writes it"):
        hear(event(7, kind, message))
    with pytest.raises(InvalidArgumentsError):
        hear(LoggedEvent(7, 1, kind, None, None, None, "{", PLAIN_FORMAT))


def test_txn_that_only_compacted_is_no_commit_of_data():
    assert list(committed_txns(heard(commit(1, 5), commit(2, 6), compaction(3, 6), commit(4, 7)))) == [5, 7]


def test_full_page_does_not_part_a_commit_from_its_compaction():
    page = [commit(1, 5), commit(2, 6)]
    assert whole(page, 2) == page[:1]
    assert whole(page, 3) == page
    assert whole([commit(1, 5), compaction(2, 5)], 2) == [*page[:1], compaction(2, 5)]
    assert whole([], 2) == []


def test_one_commit_tells_of_each_table_what_is_known():
    facts = CommitFacts(
        write_ids={(5, T): 11, (5, U): 3, (6, T): 12},
        components={
            # A MERGE: k=a was updated and inserted into, k=b inserted into; the mark is the txn's.
            (5, T): [Component("k=a", True), Component("k=a", True), Component("k=b", True)],
            (5, U): [Component("", True)],
            (6, T): [Component("k=a", True)],
        },
        changes={(5, T): ["k=a"], (5, U): [""]},
        volumes={(5, T): Volume(1, 2, 0, 4, 500)},
        maybe={(6, T): frozenset({"k=a", "k=c"})},
        owners={5: ("ann", "airflow/d"), 6: ("bob", None)},
    )
    told = commits_of(heard(commit(1, 5), commit(2, 6)), facts)
    assert told == [
        TableCommit(1, 1001, T, 5, 11, ("insert", "update"), ("k=a", "k=b"), Volume(1, 2, 0, 4, 500), "ann",
                    "airflow/d"),
        TableCommit(1, 1001, U, 5, 3, ("change",), (), None, "ann", "airflow/d"),
        TableCommit(2, 1002, T, 6, 12, ("change",), ("k=a",), None, "bob", None, ("k=c",)),
    ]  # fmt: skip
    assert told[0].to_document() == {
        "kind": "commit", "event_id": 1, "time": 1001, "table": "db.t", "partitions": ["k=a", "k=b"],
        "maybe": [], "operations": ["insert", "update"], "txn_id": 5, "write_id": 11,
        "changes": {"table": "db.t", "from_write_id": 11, "to_write_id": 11},
        "rows": {"inserted": 1, "updated": 2, "deleted": 0}, "files": 4, "bytes": 500, "user": "ann",
        "agent_info": "airflow/d",
    }  # fmt: skip
    assert told[1].to_document()["rows"] is None
    assert json.loads(json.dumps(told[2].to_document())) == told[2].to_document()


def test_commit_of_a_sync_tells_each_run_of_the_write_ids_that_came():
    """The first of its txns tells of none, the last one of all."""
    runs = {"db.t": [[11, 13], [15, 15]]}
    first = event(1, "COMMIT_TXN", {"txnid": 5, "writeIds": [11], "databases": ["db"], "writeIdRanges": {"db.t": []}})
    last = event(2, "COMMIT_TXN", {"txnid": 6, "writeIds": [15], "databases": ["DB"], "writeIdRanges": runs})
    facts = CommitFacts(
        write_ids={(5, T): 11, (6, T): 15, (6, U): 3},
        components={(6, T): [Component("", True)], (6, U): [Component("", False)]},
        tidied=frozenset({(5, T)}),
    )
    told = commits_of(heard(first, last), facts)
    assert [(str(c.table), c.write_id, c.to_document()["changes"]) for c in told] == [
        ("db.t", 13, {"table": "db.t", "from_write_id": 11, "to_write_id": 13}),
        ("db.t", 15, {"table": "db.t", "from_write_id": 15, "to_write_id": 15}),
        ("db.u", 3, {"table": "db.u", "from_write_id": 3, "to_write_id": 3}),
    ]


def test_commit_says_in_which_databases_it_has_written_or_nothing():
    (named,) = heard(event(1, "COMMIT_TXN", {"txnid": 5, "writeIds": [1], "databases": ["X"]}))
    assert (named.may_have_written(T), named.may_have_written(TableName("x", "t"))) == (False, True)
    for message in ({"txnid": 5}, {"txnid": 5, "writeIds": [], "databases": ["X"]}):
        (silent,) = heard(event(1, "COMMIT_TXN", message))
        assert silent.may_have_written(T)


def test_txns_that_are_opened_or_aborted_are_named_unless_nobody_can_read_it():
    assert txns_of_event(event(1, "OPEN_TXN", {"txnIds": [5, 6]})) == (5, 6)
    assert txns_of_event(event(1, "ABORT_TXN", {"txnid": 7})) == (7,)
    assert txns_of_event(event(1, "OPEN_TXN", {"txnIds": None})) == ()
    assert txns_of_event(LoggedEvent(1, 1, "OPEN_TXN", None, None, None, "{", PLAIN_FORMAT)) == ()


def test_mark_of_a_txn_that_changed_rows_elsewhere_makes_an_insert_no_change():
    facts = CommitFacts(
        components={(5, T): [Component("k=b", True)], (5, U): [Component("", True)]},
        changes={(5, U): [""]},
    )
    assert [c.operations for c in commits_of(heard(commit(1, 5)), facts)] == [("insert",), ("change",)]


@pytest.mark.parametrize(
    ("volume", "operations"),
    [
        (None, ("change",)),
        (Volume(files=1), ("change",)),
        (Volume(0, 1, 0), ("update",)),
        (Volume(0, 0, 1), ("delete",)),
        (Volume(5, 0, 0), ("change", "insert")),
        (Volume(0, 0, 0), ("change",)),
    ],
)
def test_our_own_rows_say_what_a_change_was_and_an_overwrite_stays_one(volume, operations):
    volumes = {} if volume is None else {(5, T): volume}
    facts = CommitFacts(components={(5, T): [Component("", True)]}, changes={(5, T): [""]}, volumes=volumes)
    assert [c.operations for c in commits_of(heard(commit(1, 5)), facts)] == [operations]


def test_write_id_without_components_is_a_commit_only_if_they_were_tidied_up():
    facts = CommitFacts(write_ids={(5, T): 11, (6, T): 12}, tidied=frozenset({(6, T)}))
    (told,) = commits_of(heard(commit(1, 5), commit(2, 6)), facts)
    assert (told.txn_id, told.operations, told.partitions) == (6, (), None)


def test_rows_of_several_statements_are_added_and_unknown_ones_stay_unknown():
    assert Volume(1, 0, 2, 1, 10) + Volume(3, 1, 0, 2, 20) == Volume(4, 1, 2, 3, 30)
    assert Volume(1, 0, 2, 1, 10) + Volume(files=2, bytes=20) == Volume(None, None, None, 3, 30)
    unknown = TableCommit(1, 1, T, 5, 1, (), (), Volume(files=2, bytes=20)).to_document()
    assert (unknown["rows"], unknown["files"], unknown["bytes"]) == (None, 2, 20)


@pytest.mark.parametrize(
    ("table", "partition", "operations", "concerned"),
    [
        (T, None, None, True),
        (U, None, None, False),
        (T, "k=a/l=1", None, True),
        (T, "k=a", None, True),
        (T, "k=b", None, False),
        (T, "k=a/l=11", None, False),
        (T, None, ["insert"], True),
        (T, "k=a", ["insert", "delete"], True),
        (T, None, ["delete"], False),
    ],
)
def test_watcher_hears_of_what_it_watches(table, partition, operations, concerned):
    told = TableCommit(1, 1, T, 5, 1, ("insert",), ("k=a/l=1", "k=c/l=1"))
    assert told.concerns(table, partition, operations) is concerned


def test_what_is_not_known_concerns_everybody_who_watches_the_table():
    unknown = TableCommit(1, 1, T, 5, 1, (), None)
    assert unknown.concerns(T, "k=a", ["delete"])
    assert not unknown.concerns(U, None, None)
    changed = TableCommit(1, 1, T, 5, 1, ("change",), ("k=a",))
    assert changed.concerns(T, None, ["delete"])
    assert changed.concerns(T, None, ["update"])
    assert changed.concerns(T, None, ["change"])
    assert not changed.concerns(T, None, ["insert"])
    assert TableCommit(1, 1, T, 5, 1, ("delete",), ()).concerns(T, None, ["change"])
    assert TableCommit(1, 1, T, 5, 1, ("insert",), ("k=a",), maybe=("k=b",)).concerns(T, "k=b", None)


def test_hives_own_insert_into_a_plain_table_is_a_commit():
    lines = [json.loads(line) for line in (FIXTURES / "events.jsonl").read_text().splitlines()]
    inserts = [line for line in lines if line["type"] == "INSERT"]
    assert inserts, "Hive's events hold no INSERT"
    for line in inserts:
        told = hear(event(3, "INSERT", line["message"])).commit
        assert str(told.table) == f"{line['database']}.{line['table']}"
        assert told.operations == (("overwrite",) if line["message"]["replace"] == "true" else ("insert",))
        assert (told.txn_id, told.write_id) == (None, None)
        assert (told.partitions == ()) == (line["message"]["ptnObjJson"] is None)


def test_partition_of_an_insert_is_named_by_the_tables_columns():
    table = {"1": {"str": "x"}, "8": {"lst": ["rec", 2, {"1": {"str": "Day"}}, {"1": {"str": "h"}}]}}
    message = {"db": "D", "table": "X", "replace": "false", "tableObjJson": json.dumps(table)}
    partition = json.dumps({"1": {"lst": ["str", 2, "a/b", "1"]}})
    told = hear(event(1, "INSERT", {**message, "ptnObjJson": partition})).commit
    assert told.partitions == ("day=a%2Fb/h=1",)
    skewed = '{"1":{"lst":["str",1,"a"]},"9":{"map":["lst","str",1,{["str",1,"a"]:"x"}]}}'
    assert hear(event(1, "INSERT", {**message, "ptnObjJson": skewed})).commit.partitions is None


def test_gaps_are_found_before_and_between_events():
    assert gaps(4, [5, 6, 7]) == ()
    assert gaps(4, []) == ()
    purged = "purged before they were read"
    assert gaps(0, [3, 4, 7]) == (Missed(1, 2, purged), Missed(5, 6, purged))
