"""Rows of a policy at its destination: one cycle at a time, fenced by the epoch; events are kept once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from airflow_hive_acid.errors import ReplicationBusyError
from airflow_hive_acid.metastore.names.objects import TableName
from airflow_hive_acid.replication.policies.state import (
    KeptEvent,
    ObjectState,
    Phase,
    PolicyRecord,
    count_kept,
    read_objects,
    read_states,
)

if TYPE_CHECKING:
    from airflow_hive_acid.metastore import MetastoreClient


@pytest.fixture
def record(client: MetastoreClient) -> PolicyRecord:
    return PolicyRecord(client.database, "sales")


@pytest.mark.every_database
def test_a_policy_begins_without_position_and_each_cycle_has_its_epoch(record: PolicyRecord) -> None:
    assert record.read() is None
    first = record.begin("berlin", "me")
    assert (first.phase, first.epoch, first.position, first.holder) == (Phase.NEW, 1, None, "me")
    assert first.is_running
    record.change(1, phase=Phase.INCREMENTAL, position=7, as_of=1000)
    record.end(1, {"events": 3}, None)
    second = record.begin("berlin", "you")
    assert (second.epoch, second.position, second.phase) == (2, 7, Phase.INCREMENTAL)
    assert (second.report, second.error, second.lag_seconds(3500)) == ({"events": 3}, None, 2.5)


@pytest.mark.every_database
def test_a_cycle_that_was_taken_over_changes_nothing_any_more(record: PolicyRecord, client: MetastoreClient) -> None:
    """R3.

    t1  A begins, epoch 1, and stalls
    t2            B begins, epoch 2, applies up to event 9
    t3  A goes on: every verb of its is refused
    """
    record.begin("berlin", "A")
    record.begin("berlin", "B")
    record.change(2, position=9)
    event = KeptEvent(1, 1, "X", None, None, "why", "{}")
    for verb in (
        lambda: record.change(1, position=3),
        lambda: record.end(1, {}, None),
        lambda: record.note(1, [ObjectState("a.b", "a.b")]),
        lambda: record.keep(1, [event]),
    ):
        with pytest.raises(ReplicationBusyError, match=r"epoch 1 was taken over by B \(epoch 2\)"):
            verb()
    state = record.read()
    assert state is not None
    assert (state.position, state.is_running, record.objects(), record.kept_events()) == (9, True, [], [])
    with pytest.raises(ReplicationBusyError, match="its row is gone"):
        PolicyRecord(client.database, "other").change(1, position=1)


@pytest.mark.every_database
def test_each_table_has_one_row_until_it_is_dropped(record: PolicyRecord, client: MetastoreClient) -> None:
    record.begin("berlin", "me")
    record.note(1, [ObjectState("a.x", "b.x", 5, 50, bytes=10, files=1, said="created"), ObjectState("a.y", "b.y")])
    again = ObjectState("a.x", "b.x", 8, 80, bytes=4, files=2, said="ins\u00e9rt")
    record.note(1, [again, ObjectState("a.y", "b.y", error="no")])
    x, y = record.objects()
    assert (x.state_id, x.as_of, x.bytes, x.files, x.said, y.error) == (8, 80, 4, 2, "ins\\xe9rt", "no")
    record.note(1, [], [TableName("a", "x")])
    assert [one.source for one in record.objects()] == ["a.y"]
    assert client.database.read(lambda connection: list(read_objects(connection))) == ["sales"]


@pytest.mark.every_database
def test_an_event_that_nobody_could_apply_is_kept_once_as_it_was(record: PolicyRecord, client: MetastoreClient) -> None:
    record.begin("berlin", "me")
    event = KeptEvent(4, 1_700_000_000, "MAKE_COFFEE", "a", None, "unknown type", '{"cups": "d\u00e9j\u00e0 \u20ac"}')
    assert record.keep(1, [event, event]) == 1
    assert record.keep(1, [event, KeptEvent(5, 1, "X", None, None, "w" * 400, None)]) == 1
    kept = record.kept_events()
    assert [(e.event_id, e.type, e.message, len(e.why)) for e in kept] == [
        (4, "MAKE_COFFEE", '{"cups": "d\\u00e9j\\u00e0 \\u20ac"}', 12), (5, "X", None, 256),
    ]  # fmt: skip
    assert kept[0].kept > 1_700_000_000_000
    assert client.database.read(count_kept) == {"sales": 2}
    assert (record.forget_events(4), [e.event_id for e in record.kept_events()]) == (1, [5])


def test_policies_are_listed_by_name(client: MetastoreClient) -> None:
    for name in ("b", "a"):
        PolicyRecord(client.database, name).begin("x", "me")
    assert [s.policy for s in client.database.read(read_states)] == ["a", "b"]
