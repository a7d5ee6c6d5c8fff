"""The follower of the metastore cache: its failures, its thread, and what it tells."""

from __future__ import annotations

import contextlib
import threading
import time
from typing import Any

import pytest
import sqlalchemy as sa

from airflow_hive_acid.errors import HiveAcidError, MetastoreUnavailableError
from airflow_hive_acid.metastore import MetastoreClient
from airflow_hive_acid.metastore.cache.cache import CachedCatalog
from airflow_hive_acid.metastore.cache.state import CacheState
from airflow_hive_acid.settings import Settings, Source
from tests.integration.metastore.cache.conftest import Clock, Reader, T, X


class Crash(BaseException):
    """The thread is gone: nothing in between catches this."""


def statements_of_a_look(reader: Reader) -> int:
    count = 0

    def counting(*_: Any) -> None:
        nonlocal count
        count += 1

    engine = reader.client.database.engine
    sa.event.listen(engine, "before_cursor_execute", counting)
    try:
        reader.follow()
    finally:
        sa.event.remove(engine, "before_cursor_execute", counting)
    return count


def change_everything(reader: Reader, value: str) -> None:
    reader.client.catalog.alter_properties(T, {"note": value})
    reader.client.catalog.add_locked_partitions(T, [f"p={value}"])
    reader.client.catalog.alter_properties(X, {"note": value})


@pytest.mark.every_database
def test_a_follower_that_dies_at_any_statement_leaves_a_cache_that_is_right(reader: Reader) -> None:
    change_everything(reader, "0")
    reader.partitions()
    reader.follow()
    reader.follow()
    change_everything(reader, "1")
    steps = statements_of_a_look(reader)
    assert steps > 5
    engine = reader.client.database.engine
    for step in range(steps):
        value = str(step + 2)
        change_everything(reader, value)
        left = step

        def dying(*_: Any) -> None:
            nonlocal left
            if left == 0:
                raise Crash
            left -= 1

        sa.event.listen(engine, "before_cursor_execute", dying)
        with contextlib.suppress(Crash):
            reader.follow()
        sa.event.remove(engine, "before_cursor_execute", dying)
        reader.counted()
        assert reader.table().properties["note"] == value
        assert f"p={value}" in {p.name for p in reader.partitions()}
        assert reader.counted().get("hit", 0) == 0
        assert int(reader.table(X).properties["note"]) >= step + 1
        reader.follow()
        assert reader.table().properties["note"] == value
        assert reader.table(X).properties["note"] == value
        assert f"p={value}" in {p.name for p in reader.partitions()}
        reader.follow()
        reader.counted()
        assert reader.table().properties["note"] == value
        assert reader.counted() == {"hit": 1}


@pytest.mark.parametrize("where", ["plan", "apply"])
def test_a_follower_that_dies_while_it_thinks_leaves_a_cache_that_is_right(
    reader: Reader, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    change_everything(reader, "1")

    def dying(*_: Any) -> None:
        raise Crash

    with monkeypatch.context() as patched:
        patched.setattr(CacheState, where, dying)
        with pytest.raises(Crash):
            reader.follow()
    reader.counted()
    assert reader.table().properties["note"] == "1"
    assert reader.counted() == {"newer": 1}
    reader.follow()
    assert reader.table(X).properties["note"] == "1"
    assert reader.counted() == {"hit": 1}


def test_a_database_that_is_away_is_noted_and_an_error_of_ours_empties_the_cache(
    reader: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_: Any, **__: Any) -> None:
        raise MetastoreUnavailableError("the database is away")

    change_everything(reader, "1")
    with monkeypatch.context() as patched:
        patched.setattr(reader.client.database, "read", away)
        assert not reader.cache.follower.try_to_look()
        with pytest.raises(HiveAcidError):
            reader.cache.list_databases()
    assert reader.cache.statistics().failures == 1
    assert reader.cache.statistics().entries == 2

    def wrong(*_: Any) -> None:
        raise ZeroDivisionError

    with monkeypatch.context() as patched:
        patched.setattr(CacheState, "apply", wrong)
        assert not reader.cache.follower.try_to_look()
    assert reader.cache.statistics().entries == 0
    assert reader.cache.statistics().state == "off"
    assert reader.table(X).properties["note"] == "1"
    assert reader.cache.follower.try_to_look()
    reader.table(X)
    reader.follow()
    reader.counted()
    assert reader.table(X).properties["note"] == "1"
    assert reader.counted() == {"hit": 1}


def test_the_thread_follows_by_itself_and_goes_on_after_a_failure(metastore_url: str, client: MetastoreClient) -> None:
    """With a thread of its own; whatever is waited for comes, and how long it takes is not asked."""
    settings = Settings({Source.CONNECTION: {"hive.acid.cache.poll.interval": "10ms"}})
    with MetastoreClient(metastore_url, settings) as other, CachedCatalog(other, other.catalog) as cache:
        reader = Reader(other, cache)
        failed = threading.Event()
        look = cache.follower.look

        def failing() -> None:
            if not failed.is_set():
                failed.set()
                raise MetastoreUnavailableError("away for a moment")
            look()

        cache.follower.look = failing  # type: ignore[method-assign]
        client.catalog.alter_properties(X, {"note": "new"})
        deadline = time.monotonic() + 60
        while reader.table(X).properties.get("note") != "new" or not reader.counted().get("hit"):
            assert time.monotonic() < deadline
        assert failed.is_set()
        assert cache.statistics().failures == 1
        # However often it is read meanwhile, a table comes into memory: what waits for the log is not replaced.
        client.catalog.alter_properties(T, {"note": "new"})
        while reader.table(T).properties.get("note") != "new" or not reader.counted().get("hit"):
            assert time.monotonic() < deadline


def test_the_statistics_are_told_once_a_minute_and_a_listener_that_fails_ends_nothing(
    reader: Reader, clock: Clock
) -> None:
    told: list[str] = []

    def tell() -> None:
        told.append(reader.cache.statistics(ask_log=True).state)
        raise ZeroDivisionError

    follower = reader.cache.follower
    follower.tell = tell
    for _ in range(3):
        follower._tell()
    assert told == ["following"]
    clock.now += 60
    follower._tell()
    assert told == ["following", "behind"]
