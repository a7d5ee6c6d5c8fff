"""A txn that waited between its open and its snapshot sees nobody who began after it, however old they are by then."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from airflow_hive_acid.metastore import MetastoreClient

OLD_MS = 60_000
TABLES = ["db.t", "db.u"]


@pytest.mark.rule("R10", "R11")
@pytest.mark.parametrize("age", [0, OLD_MS])
@pytest.mark.parametrize("before", [0, 1], ids=["a new table", "a table with rows"])
@pytest.mark.parametrize("use", ["select", "update"])
def test_who_began_later_is_not_seen(client: MetastoreClient, rows: Any, use: str, before: int, age: int) -> None:
    """
    t1  A opens, and waits
    t2                    B opens, inserts into both tables, commits; and grows older than the timeout
    t3  A takes its snapshot: B is in none of its lists
    """
    for _ in range(before):
        with client.transaction(dict.fromkeys(TABLES, "insert")):
            pass
    pending = client.start(dict.fromkeys(TABLES, "select") | {"db.t": use})
    with client.transaction(dict.fromkeys(TABLES, "insert")) as later:
        pass
    client.open_txn()  # anybody's: below an old row nothing is looked at one by one
    rows.age_txns(age)
    waited = client.finish(pending)
    assert waited is not None
    assert later.txn_id > waited.txn_id
    for table in TABLES:
        assert not waited.snapshot[table].is_valid(later.write_ids[table])
        assert waited.snapshot[table].is_valid(1) == bool(before)
    waited.abort()


@pytest.mark.rule("R10", "R11")
@pytest.mark.parametrize("age", [0, OLD_MS])
def test_who_began_later_is_not_seen_below_a_larger_write_id_either(
    client: MetastoreClient, rows: Any, age: int
) -> None:
    """
    t1  Z opens 1; A opens 2, and waits
    t2                                 B opens 3, write id 1; Z goes on, write id 2; both commit
    t3  A takes its snapshot: write id 2 is in it, 1 is not
    """
    first = client.start({"db.t": "insert"})
    pending = client.start({"db.t": "select"})
    with client.transaction({"db.t": "insert"}) as later:
        earlier = client.finish(first)
        assert earlier is not None
        assert (later.write_ids["db.t"], earlier.write_ids["db.t"]) == (1, 2)
    earlier.commit()
    client.open_txn()  # anybody's: below an old row nothing is looked at one by one
    rows.age_txns(age)
    waited = client.finish(pending)
    assert waited is not None
    assert waited.snapshot["db.t"].is_valid(2)
    assert not waited.snapshot["db.t"].is_valid(1)
    waited.abort()
