"""The cache's pure rules: lists beside write ids, events to touches, gaps, and conditions in memory."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import example, given

from airflow_hive_acid.errors import InvalidArgumentsError
from airflow_hive_acid.format.jobs import Column
from airflow_hive_acid.format.write_ids import ValidWriteIdList
from airflow_hive_acid.metastore.cache.events import ALL_DATABASES, OpenWrites, database_key, fold, names_key
from airflow_hive_acid.metastore.cache.partitions import PartitionSet, UndecidableError
from airflow_hive_acid.metastore.cache.rules import (
    Age,
    Freshness,
    Gap,
    Verdict,
    WriteIds,
    compare,
    decide,
    find_gap,
    pending_of,
)
from airflow_hive_acid.metastore.catalog.values.model import Partition
from airflow_hive_acid.metastore.catalog.values.partition_conditions import And, Between, Compare, In, IsNull, Or
from airflow_hive_acid.metastore.names.objects import TableName
from airflow_hive_acid.metastore.notifications.events import GZIP_FORMAT, PLAIN_FORMAT, encode
from airflow_hive_acid.metastore.notifications.log import LoggedEvent
from tests.tables import flat_table

FIXTURES = Path(__file__).parents[3] / "fixtures"
T = TableName("d", "t")
IDS = st.frozensets(st.integers(1, 12), max_size=5)


@given(st.integers(0, 12), IDS, IDS, st.integers(0, 12), IDS, IDS)
@example(5, frozenset(), frozenset(), 5, frozenset(), frozenset())
def test_a_list_is_newer_or_older_by_the_commits_that_one_sees_and_the_other_does_not(
    mark: int, opened: Any, aborted: Any, reader_mark: int, reader_open: Any, reader_aborted: Any
) -> None:
    # Nothing above the largest id that was given exists in an entry; a list may have ids above its mark.
    opened, aborted = (frozenset(w for w in ids if w <= mark) for ids in (opened, aborted))
    entry = WriteIds(mark, opened, aborted - opened)
    reader = ValidWriteIdList(reader_mark, reader_open, reader_aborted - reader_open)
    known = {w for w in range(1, 13) if entry.is_committed(w)}
    seen = {w for w in range(1, 13) if reader.is_valid(w)}
    # Ids that the entry knows as aborted never bring anything, even if a list has forgotten that they are.
    newer, older = seen - known - entry.aborted, known - seen
    expected = Age.NEWER if newer else Age.OLDER if older else Age.SAME
    assert compare(entry, reader) is expected


@pytest.mark.parametrize(
    ("reader", "age"),
    [
        ("d.t:5:9223372036854775807::", Age.SAME),
        ("d.t:6:9223372036854775807::", Age.NEWER),
        ("d.t:6:6:6:", Age.SAME),  # 6 was given meanwhile, and is open
        ("d.t:7:6:6:", Age.NEWER),
        ("d.t:4:9223372036854775807::", Age.OLDER),
        ("d.t:5:3:3:", Age.OLDER),
        ("d.t:5:9223372036854775807::3", Age.OLDER),  # of an aborted id that the entry has forgotten
        ("d.t:6:3:3:", Age.NEWER),  # both: it may not be served what is older
        ("", Age.NEWER),  # everything is valid
    ],
)
def test_lists_beside_a_table_with_five_commits(reader: str, age: Age) -> None:
    assert compare(WriteIds(5), ValidWriteIdList.parse(reader)) is age


def test_a_commit_among_hidden_ids_is_a_commit() -> None:
    entry = WriteIds(9, frozenset({4, 6}), frozenset({5, 8}))
    assert not entry.commits_between(4, 6)
    assert entry.commits_between(4, 7)
    assert entry.commits_between(8, 9)
    assert not entry.commits_between(10, 12)


def test_a_reader_that_has_written_is_newer_than_any_entry() -> None:
    reader = ValidWriteIdList(5, table="d.t")
    entry = WriteIds(7, frozenset({6, 7}))
    assert compare(entry, reader) is Age.SAME
    own = reader.with_committed(7)
    assert str(own) == "d.t:7:6:6:"
    assert compare(entry, own) is Age.NEWER


@pytest.mark.parametrize(
    ("position", "end", "found", "gap"),
    [
        (5, 5, [], None),
        (5, 8, [6, 7, 8], None),
        (5, 8, [7, 8], Gap.PURGED),
        (5, 8, [6, 8], Gap.PURGED),
        (5, 8, [], Gap.PURGED),
        (5, 4, [], Gap.BACKWARDS),
        (5, 200, range(6, 201), Gap.TOO_MANY),
    ],
)
def test_what_is_missing_in_the_log_is_noticed(position: int, end: int, found: Any, gap: Gap | None) -> None:
    assert find_gap(position, end, list(found), 100) is gap


# --- events -----------------------------------------------------------------------------------------------------------


def event(
    number: int, kind: str, message: dict[str, Any], db: str | None = "d", table: str | None = "t",
    form: str = GZIP_FORMAT,
) -> LoggedEvent:  # fmt: skip
    return LoggedEvent(number, 0, kind, "hive" if db else None, db, table, encode(message, form), form)


def test_a_commit_touches_what_its_txn_had_write_ids_of() -> None:
    writes = OpenWrites()
    allocated = {"dbName": "D", "tableName": "T", "txnIdList": [7, 8], "writeIdList": [1, 2]}
    changes = fold([event(1, "ALLOC_WRITE_ID_EVENT", allocated)], writes)
    assert changes.of(T) is None
    old_hive = event(2, "COMMIT_TXN", {"txnid": 7}, None, None, PLAIN_FORMAT)
    changes = fold([old_hive, event(3, "ABORT_TXN", {"txnid": 9}, None, None)], writes)
    touch = changes.of(T)
    assert touch is not None
    assert (touch.last, touch.partitions, touch.all_partitions) == (2, set(), False)
    assert len(writes) == 1


def test_a_commit_of_a_txn_nobody_has_heard_of_touches_its_databases() -> None:
    commit = event(4, "COMMIT_TXN", {"txnid": 7, "writeIds": [3], "databases": ["D"]}, None, None)
    changes = fold([commit], OpenWrites())
    touch, other = changes.of(T), changes.of(TableName("e", "t"))
    assert touch is not None
    assert touch.last == 4
    assert other is None


def test_partition_events_name_the_partitions_they_touch() -> None:
    renamed = json.dumps({"1": {"lst": ["str", 2, "2024", "9"]}})
    changes = fold(
        [
            event(1, "ADD_PARTITION", {"partitions": [{"Y": "2024", "m": "1"}, {"Y": "2024", "m": "2"}]}),
            event(2, "ALTER_PARTITION", {"keyValues": {"y": "2024", "m": "3"}, "partitionObjAfterJson": renamed}),
        ],
        OpenWrites(),
    )
    touch = changes.of(T)
    assert touch is not None
    assert touch.partitions == {(("y", "2024"), ("m", month)) for month in "1239"}


@pytest.mark.parametrize("kind", ["ADD_PARTITION", "ALTER_PARTITION", "ALTER_PARTITIONS", "DROP_PARTITION"])
@pytest.mark.parametrize("message", [{}, {"partitions": 5}, {"keyValues": {"p": "1"}, "partitionObjAfterJson": "{"}])
def test_a_partition_event_that_says_too_little_touches_all_partitions(kind: str, message: dict[str, Any]) -> None:
    touch = fold([event(1, kind, message)], OpenWrites()).of(T)
    assert touch is not None
    assert touch.all_partitions


@pytest.mark.parametrize("kind", ["COMMIT_TXN", "ABORT_TXN", "ALLOC_WRITE_ID_EVENT", "ALTER_TABLE"])
@pytest.mark.parametrize("text", ["", "no base64 !", "H4sIAAAAAAAA", "[]"])
def test_a_message_that_cannot_be_read_could_have_said_anything(kind: str, text: str) -> None:
    broken = LoggedEvent(9, 0, kind, "hive", "d", "t", text, GZIP_FORMAT)
    assert fold([broken], OpenWrites()).unreadable == 9


def test_an_event_of_a_kind_that_came_later_touches_its_table() -> None:
    touch = fold([event(3, "ADD_NOTNULLCONSTRAINT", {}), event(4, "SOMETHING_NEW", {})], OpenWrites()).of(T)
    assert touch is not None
    assert (touch.last, touch.all_partitions) == (4, True)


def test_other_catalogs_of_a_server_are_none_of_our_business() -> None:
    other = LoggedEvent(1, 0, "DROP_TABLE", "spark", "d", "t", "{}", PLAIN_FORMAT)
    assert fold([other], OpenWrites()).tables == {}


def test_databases_and_lists_of_names_are_touched() -> None:
    changes = fold(
        [
            event(1, "CREATE_TABLE", {}), event(2, "ALTER_DATABASE", {}, "e", None),
            event(3, "DROP_DATABASE", {}, "f", None),
        ],
        OpenWrites(),
    )  # fmt: skip
    assert changes.of(names_key("d")) is not None
    assert changes.of(database_key("e")) is not None
    assert changes.of(ALL_DATABASES) is not None
    assert changes.of(TableName("f", "any")) is not None
    assert changes.of(TableName("e", "any")) is None


def test_events_that_a_real_hive_wrote_are_understood() -> None:
    rows = [json.loads(line) for line in (FIXTURES / "events.jsonl").read_text().splitlines()]
    events = [
        event(number, row["type"], row["message"], row["database"], row["table"])
        for number, row in enumerate((r for r in rows if r["type"] != "ACID_WRITE"), 1)
    ]
    changes = fold(events, OpenWrites())
    assert changes.unreadable is None
    assert {key.name for key, touch in changes.tables.items() if touch.gone} == {"f", "u", "v", "w"}
    of_t = next(
        fold([e], OpenWrites()).of(TableName("d1", "t")) for e in events if e.type == "ADD_PARTITION" and e.table == "t"
    )
    assert of_t is not None
    assert of_t.partitions
    assert not of_t.all_partitions
    assert all([column for column, _ in spec] == ["day", "hour"] for spec in of_t.partitions)


# --- partitions -------------------------------------------------------------------------------------------------------

TABLE = flat_table(
    "d", "t", 1, "file:/w", (Column("a", "int"),),
    (Column("n", "int"), Column("s", "string"), Column("x", "double")), {}, None, "MANAGED_TABLE",
)  # fmt: skip
NULL = "__HIVE_DEFAULT_PARTITION__"


def partition(n: str, s: str, x: str = "1.5") -> Partition:
    return Partition(f"n={n}/s={s}/x={x}", (n, s, x), f"file:/w/{n}")


SET = PartitionSet([partition("9", "b"), partition("85", "a"), partition(NULL, "B"), partition("-1", NULL)])


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        (None, ["-1", "85", "9", NULL]),
        ({"n": "9"}, ["9"]),
        ({"N": ["9", "85", "7"]}, ["85", "9"]),
        ({"n": None}, [NULL]),
        ({"n": ["09", "+7"]}, ["9"]),
        (Compare("n", "=", "+09"), ["9"]),
        (Compare("n", "<>", "09"), ["-1", "85"]),
        (In("n", ["09", "085"]), ["85", "9"]),
        ({"n": "9", "s": "b", "x": "1.5"}, ["9"]),
        ({"n": "9", "s": "zzz", "x": "1.5"}, []),
        (Compare("n", "<", 10), ["-1", "9"]),
        (Compare("n", "<>", 9), ["-1", "85"]),
        (Compare("s", ">=", "a"), ["85", "9"]),
        (Compare("s", "=", "B"), [NULL]),
        (In("n", [9, "85"]), ["85", "9"]),
        (In("n", []), []),
        (Between("n", 0, 85), ["85", "9"]),
        (IsNull("n"), [NULL]),
        (And(()), ["-1", "85", "9", NULL]),
        (Or(()), []),
        (Compare("n", ">", 0) & Compare("s", "=", "a") | IsNull("s"), ["-1", "85"]),
    ],
)
def test_conditions_find_in_memory_what_the_database_would_find(wanted: Any, found: list[str]) -> None:
    assert [p.values[0] for p in SET.select(TABLE, wanted)] == found


@pytest.mark.parametrize(
    ("kind", "values", "wanted", "found"),
    [
        ("date", ["2024-01-02", "2024-01-03"], Compare("k", "=", "2024-1-2"), ["2024-01-02"]),
        ("date", ["2024-01-02", "2024-01-03"], Compare("k", ">", "2024-1-2"), ["2024-01-03"]),
        ("date", ["2024-01-02", "2024-01-03"], {"k": ["2024-1-2", "2024-1-9"]}, ["2024-01-02"]),
        ("boolean", ["TRUE", "false", "true"], In("k", ["TRUE"]), ["TRUE", "true"]),
        ("boolean", ["TRUE", "false", "true"], Compare("k", "<>", "TRUE"), ["false"]),
        ("decimal(5,2)", ["1.5", "1.50", "2"], {"k": ["1.50", "3"]}, ["1.5", "1.50"]),
    ],
)
def test_values_are_found_in_memory_however_they_are_written(
    kind: str, values: list[str], wanted: Any, found: list[str]
) -> None:
    table = flat_table("d", "t", 1, "file:/w", (Column("a", "int"),), (Column("k", kind),), {}, None, "MANAGED_TABLE")
    known = PartitionSet([Partition(f"k={value}", (value,), f"file:/w/{value}") for value in values])
    assert [p.values[0] for p in known.select(table, wanted)] == found


@pytest.mark.parametrize("wanted", [Compare("x", "=", 1.5), In("x", [1.5]), Between("x", 1, 2), Compare("n", "~", 1)])
def test_what_databases_see_differently_is_left_to_them(wanted: Any) -> None:
    with pytest.raises(UndecidableError):
        SET.select(TABLE, wanted)


def test_numbers_that_are_none_are_left_to_the_database() -> None:
    with pytest.raises(UndecidableError):
        PartitionSet([partition("1e3", "a")]).select(TABLE, Compare("n", ">", 1))


@pytest.mark.parametrize("wanted", [{"z": "1"}, Compare("z", "=", 1), Compare("n", "=", "abc")])
def test_a_filter_that_the_database_would_refuse_is_refused(wanted: Any) -> None:
    with pytest.raises(InvalidArgumentsError):
        SET.select(TABLE, wanted)


def test_a_changed_set_is_another_one() -> None:
    other = SET.changed({"n=9/s=b/x=1.5": None, "n=1/s=q/x=1.5": partition("1", "q")})
    assert len(SET) == len(other) == 4
    assert [p.values[0] for p in other.select(TABLE, Compare("n", ">", 0))] == ["1", "85"]
    assert [p.values[0] for p in SET.select(TABLE, Compare("n", ">", 0))] == ["85", "9"]
    assert other.size == PartitionSet(other.select(TABLE, None)).size


@pytest.mark.parametrize(
    ("position", "end", "found", "most", "gap"),
    [
        (10, 10, (), 100, None),
        (10, 12, (11, 12), 2, None),  # so many may be followed
        (10, 13, (11, 12, 13), 2, Gap.TOO_MANY),
        (10, 9, (), 100, Gap.BACKWARDS),
        (10, 12, (12,), 100, Gap.PURGED),
        (10, 12, (10, 11), 100, Gap.PURGED),  # as many as there should be, but others
        (10, 12, (11, 13), 100, Gap.PURGED),
        (10, 12, (10, 12), 100, Gap.PURGED),
        (10, 11, (), 100, Gap.PURGED),
    ],
)
def test_a_gap_is_any_event_missing_at_the_beginning_the_end_or_between(
    position: int, end: int, found: tuple[int, ...], most: int, gap: Gap | None
) -> None:
    assert find_gap(position, end, found, most) is gap


def test_an_entry_is_usable_from_the_event_it_includes_on_until_it_is_touched() -> None:
    assert Freshness(5).is_usable(5)
    assert Freshness(5).is_usable(6)
    assert not Freshness(5).is_usable(4)
    assert not Freshness(5, since=7).is_usable(9)
    assert not Freshness(5, pending=frozenset({3})).is_usable(9)


def test_what_was_written_under_an_open_id_is_pending() -> None:
    entry = WriteIds(9, frozenset({3, 4}), frozenset({5}))
    assert pending_of(entry, (1, 4, 5, 10)) == {4}


def test_a_reader_is_answered_by_an_entry_that_sees_what_its_list_sees() -> None:
    """An entry with commits 1 to 3; readers with lists up to 3, 2 and 4."""
    entry, fresh, stale = WriteIds(3), Freshness(5), Freshness(5, since=6)
    same, older, newer = (ValidWriteIdList(mark) for mark in (3, 2, 4))
    assert decide(fresh, 5, entry, None) is Verdict.HIT
    assert decide(fresh, 5, entry, same) is Verdict.HIT
    assert decide(fresh, 5, entry, older) is Verdict.OLDER
    assert decide(fresh, 5, entry, newer) is Verdict.NEWER
    assert decide(stale, 9, entry, None) is Verdict.UNCONFIRMED
    assert decide(stale, 9, entry, same) is Verdict.UNCONFIRMED
    assert decide(stale, 9, entry, newer) is Verdict.NEWER


def test_nothing_before_an_event_that_was_seen_is_shown_again() -> None:
    entry, fresh = WriteIds(3), Freshness(5)
    assert decide(fresh, 7, entry, None, floor=7) is Verdict.HIT
    assert decide(fresh, 7, entry, None, floor=8) is Verdict.UNCONFIRMED
    assert decide(fresh, 7, entry, ValidWriteIdList(4), floor=8) is Verdict.NEWER
    assert decide(fresh, 0, entry, None) is Verdict.UNCONFIRMED
    assert decide(Freshness(0), 0, entry, None) is Verdict.HIT
