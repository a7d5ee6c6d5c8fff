"""The cache's promises over recorded histories: thousands of reads, two caches, and none of them stale or backwards."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from airflow_hive_acid.metastore import MetastoreClient
from airflow_hive_acid.metastore.cache.cache import CachedCatalog
from airflow_hive_acid.metastore.cache.rules import Age, Verdict
from airflow_hive_acid.settings import Settings, Source
from tests.examples import examples
from tests.integration.metastore.cache.cache_history import TABLES, Change, History, Judge, write_id_of

if TYPE_CHECKING:
    from collections.abc import Iterator

READS = examples(10_500)


@pytest.fixture
def two_clients(metastore_url: str) -> Iterator[list[MetastoreClient]]:
    with MetastoreClient(metastore_url) as first, MetastoreClient(metastore_url) as second:
        yield [first, second]


def test_no_read_of_a_history_is_older_than_its_list_or_goes_backwards(two_clients: list[MetastoreClient]) -> None:
    """DDL, rows, aborts, partitions and tables made anew; lists as old as a long query's; own changes are seen."""
    history = History(two_clients, 1)
    history.run(READS)
    assert history.judge.broken == []
    assert history.judge.reads >= READS
    counts = {v: sum(cache._counts[v] for cache in history.caches) for v in Verdict}
    assert counts[Verdict.HIT] > READS / 3
    assert min(counts[v] for v in (Verdict.NEWER, Verdict.OLDER, Verdict.UNCONFIRMED, Verdict.MISSING)) > 10
    assert sum(map(len, history.judge.changes.values())) > examples(28)


def test_the_judge_finds_a_cache_that_serves_what_is_older(
    two_clients: list[MetastoreClient], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A judge that finds nothing must be able to."""
    monkeypatch.setattr("airflow_hive_acid.metastore.cache.rules.compare", lambda *_: Age.SAME)
    history = History(two_clients, 3)
    for reads in range(100, 1100, 100):
        history.run(reads)
        if found := any("which shows" in text for text in history.judge.broken):
            break
    assert found


@pytest.mark.every_database
def test_another_process_with_a_cache_of_its_own_reads_nothing_stale(metastore_url: str) -> None:
    """
    This process alters tables all the time, the other one reads them with a cache and a follower of its own.
    """
    with MetastoreClient(metastore_url) as client:
        History([client], 1)  # the tables
        arguments = [sys.executable, "-m", "cache_history", metastore_url, "1500"]
        with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parent) as process:
            assert process.stdout is not None
            try:
                assert process.stdout.readline() == "reading\n"
                answers: list[str] = []
                listener = threading.Thread(target=lambda out=process.stdout: answers.extend(out))  # type: ignore[misc]
                listener.start()
                number = 0
                while listener.is_alive() and number < 5000:
                    name = TABLES[number % len(TABLES)]
                    number += 1
                    client.catalog.alter_properties(name, {"v": str((number - 1) // len(TABLES) + 1)})
                listener.join(120)
            finally:
                process.kill()
    found = json.loads(answers[-1])
    assert found["broken"] == []
    assert found["reads"] >= 1500
    assert found["hits"] > 0
    assert found["latest"] > 1


@pytest.mark.every_database
def test_threads_that_read_while_others_alter_are_never_served_stale(metastore_url: str) -> None:
    """Two writers, two readers and one cache with its thread; each reader judges what it was given."""
    settings = Settings({Source.CONNECTION: {"hive.acid.cache.poll.interval": "10ms"}})
    with MetastoreClient(metastore_url, settings) as client:
        History([client], 1)
        reads = examples(200)
        judge, lock, done = Judge(), threading.Lock(), threading.Event()

        def write(number: int) -> None:
            with MetastoreClient(metastore_url) as own:
                version = 0
                while not done.is_set():
                    version += 1
                    table = own.catalog.alter_properties(TABLES[number], {"v": str(version)})
                    change = Change(table.id, write_id_of(own, table), version)
                    with lock:
                        judge.committed(change)

        def read(number: int, cache: CachedCatalog) -> None:
            for _ in range(reads):
                view = cache.view(TABLES[:2])
                with lock:  # what is committed and noted by now: lists may show more, which nobody judges
                    known = {table_id: list(changes) for table_id, changes in judge.changes.items()}
                for name in TABLES[:2] * 2:
                    found = view.get_table(name)
                    with lock:
                        own = Judge(known, judge.shown)
                        own.read(f"reader {number}", view.ids[name], found, None)
                        judge.broken += own.broken
                        judge.reads += 1

        with CachedCatalog(client, client.catalog) as cache, ThreadPoolExecutor(4) as pool:
            writers = [pool.submit(write, number) for number in range(2)]
            readers = [pool.submit(read, number, cache) for number in range(2)]
            try:
                for reader in readers:
                    reader.result(120)
            finally:
                done.set()
            for writer in writers:
                writer.result(60)
        assert judge.broken == []
        assert judge.reads == 8 * reads
