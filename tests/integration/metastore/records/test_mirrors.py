"""The record of mirrors: how far each has come, by numbers that only grow."""

from __future__ import annotations

import pytest

from airflow_hive_acid.errors import NoSuchObjectError

TABLE, TARGET = "w.t", "iceberg:ice.db.t"


def came(client, sequence, write_id, did=("follow", "write ids 1 to 2")):
    client.mirrors.note_state(TABLE, TARGET, sequence, write_id, f"state {sequence}", did)


def test_a_mirror_is_registered_once_and_knows_nothing_at_first(client):
    first = client.mirrors.register(TABLE, TARGET, "me")
    again = client.mirrors.register(TABLE.upper(), TARGET, "somebody else")
    assert first == again
    assert (first.table, first.target, first.user) == (TABLE, TARGET, "me")
    assert (first.sequence, first.write_id, first.state, first.error, first.verified) == (0, None, None, None, None)


def test_a_run_that_wakes_up_late_does_not_take_back_what_a_later_one_noted(client):
    """Numbers of states only grow:

    t1  run 1 writes state 1 to the target, and sleeps
    t2                                         run 2 writes state 2, and notes it
    t3  run 1 notes state 1: left out
    """
    client.mirrors.register(TABLE, TARGET, "me")
    came(client, 2, 9)
    came(client, 1, 4)
    found = client.mirrors.find(TABLE, TARGET)
    assert (found.sequence, found.write_id, found.state) == (2, 9, "state 2")
    came(client, 2, 9, None)
    assert client.mirrors.find(TABLE, TARGET).todo == "follow"


def test_a_failure_is_shown_until_a_run_succeeds(client):
    client.mirrors.register(TABLE, TARGET, "me")
    client.mirrors.note_failure(TABLE, TARGET, "x" * 10_000)
    found = client.mirrors.find(TABLE, TARGET)
    assert found.error == "x" * 4000
    assert found.failed is not None
    client.mirrors.note_looked(TABLE, TARGET)
    found = client.mirrors.find(TABLE, TARGET)
    assert (found.error, found.failed) == (None, None)
    assert found.looked is not None
    client.mirrors.note_failure(TABLE, TARGET, "again")
    came(client, 1, 2)
    assert client.mirrors.find(TABLE, TARGET).error is None


def test_what_a_comparison_found_is_kept_as_far_as_it_fits(client):
    client.mirrors.register(TABLE, TARGET, "me")
    different = [{"partition": f"p={'x' * 90}{n}", "source_rows": n, "target_rows": 0} for n in range(100)]
    client.mirrors.note_verified(TABLE, TARGET, 100, different)
    found = client.mirrors.find(TABLE, TARGET)
    assert found.differ == 100
    assert list(found.different) == different[: len(found.different)]
    assert 10 < len(found.different) < 100
    client.mirrors.note_verified(TABLE, TARGET, 0, [])
    assert client.mirrors.find(TABLE, TARGET).different == ()


def test_mirrors_are_listed_by_table_and_forgotten_by_name(client):
    for table, target in (("w.t", "delta:/a"), ("w.t", "delta:/b"), ("w.s", "delta:/c")):
        client.mirrors.register(table, target, "me")
    assert next((m.table, m.target) for m in client.mirrors.list()) == ("w.s", "delta:/c")
    assert {m.target for m in client.mirrors.list("W.T")} == {"delta:/a", "delta:/b"}
    client.mirrors.forget("w.t", "delta:/a")
    assert [m.target for m in client.mirrors.list("w.t")] == ["delta:/b"]
    with pytest.raises(NoSuchObjectError, match=r"no mirror of w\.t in delta:/a is known; hive-acid mirror list"):
        client.mirrors.forget("w.t", "delta:/a")
    assert client.mirrors.find("w.t", "delta:/a") is None
