"""The layout of locks in ZooKeeper: names, numbers, data and the recipe's check, as values."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_hive_acid.errors import ConfigurationError
from airflow_hive_acid.metastore.locks.legacy.zookeeper_access import hosts_of
from airflow_hive_acid.metastore.locks.legacy.zookeeper_nodes import (
    LockData,
    LockNode,
    escape,
    first_in_the_way,
    is_object,
    object_at,
    path_of,
    txns_among,
)


def node(name: str) -> LockNode:
    found = LockNode.parse(name)
    assert found is not None
    return found


def first(mine: str, *siblings: str) -> str | None:
    found = first_in_the_way(node(mine), [mine, *siblings])
    return None if found is None else found.name


@pytest.mark.parametrize(
    ("mine", "siblings", "in_the_way"),
    [
        ("read-0000000005", ["read-0000000004"], None),
        ("read-0000000005", ["write-0000000004", "write-0000000002"], "write-0000000002"),
        ("read-0000000005", ["write-0000000006"], None),
        ("write-0000000005", ["read-0000000004"], "read-0000000004"),
        ("write-0000000005", ["write-0000000004"], "write-0000000004"),
        ("write-0000000005", ["read-0000000006", "write-0000000007"], None),
        ("write-0000000005", ["p=1", "txn-4", "read-me", "LOCK-SHARED-0000000001"], None),
    ],
)
def test_the_recipe_denies_for_an_earlier_lock_that_excludes(
    mine: str, siblings: list[str], in_the_way: str | None
) -> None:
    """The document: S is denied for a lower write-, X for any lower one."""
    assert first(mine, *siblings) == in_the_way


def test_the_counter_of_32_bits_may_overflow() -> None:
    assert node("read-2147483647").is_before(node("write--2147483648"))
    assert not node("write--2147483648").is_before(node("read-2147483647"))
    assert first("write--2147483648", "read-2147483647") == "read-2147483647"
    assert first("read-2147483647", "write--2147483648") is None
    assert node("read--000000001").is_before(node("read-0000000000"))


@given(st.text(min_size=1), st.text(), st.lists(st.text(min_size=1), max_size=3))
def test_any_name_can_be_locked_and_is_found_again(database: str, table: str, partitions: list[str]) -> None:
    """And none of them becomes another object, a lock's node, or what ZooKeeper refuses."""
    place = (database, table, "/".join(p.replace("/", "%2F") for p in partitions) if table else "")
    try:
        "".join(place).encode()
    except UnicodeEncodeError:
        return
    path = path_of("/root", place)
    assert object_at("/root", path) == place
    parts = path.split("/")[2:]
    assert all(is_object(part) and part not in ("", ".", "..") for part in parts)
    assert path.isascii()
    assert path.isprintable()


@pytest.mark.parametrize(
    ("name", "escaped"),
    [
        ("k=2024-01-01", "k=2024-01-01"),
        ("..", "%2E%2E"),
        (".", "%2E"),
        ("a/../b", "a%2F..%2Fb"),
        ("read-0000000001", "read%2D0000000001"),
        ("txn-5", "txn%2D5"),
        ("k=a%2Fb", "k=a%252Fb"),
        ("é\x00", "%C3%A9%00"),
    ],
)
def test_hostile_names_are_escaped(name: str, escaped: str) -> None:
    assert escape(name) == escaped


def test_data_begins_with_hives_fields_and_survives_colons() -> None:
    data = LockData("q1", 17, "SELECT ':' , '%3A'", "host:1", 99, 2, "ann", "airflow/d/manual__2026-01-01T00:00", 5)
    assert data.encode().split(b":")[:5] == [b"q1", b"17", b"IMPLICIT", b"SELECT '%3A' , '%253A'", b"host%3A1"]
    assert LockData.decode(data.encode()) == data
    hives = LockData.decode(b"q1:17:IMPLICIT:SELECT 1:10.0.0.1")
    assert (hives.query_id, hives.lock_time, hives.query, hives.host) == ("q1", 17, "SELECT 1", "10.0.0.1")
    assert (hives.lock_id, hives.user, hives.txn_id) == (0, "", 0)
    assert LockData.decode(b"\xff\x00").query_id is not None
    assert LockData.decode(b"").lock_time == 0


def test_txns_are_told_from_objects() -> None:
    assert txns_among(["txn-12", "txn-3", "txn-x", "read-0000000001", "p=1"]) == [3, 12]


def test_servers_get_the_common_port_where_they_name_none() -> None:
    assert hosts_of(" a, b:99 ,[::1], [::1]:7,", 2181) == "a:2181,b:99,[::1]:2181,[::1]:7"
    with pytest.raises(ConfigurationError, match=r"hive.zookeeper.quorum is empty"):
        hosts_of(" , ", 2181)
