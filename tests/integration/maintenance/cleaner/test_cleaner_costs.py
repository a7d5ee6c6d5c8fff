"""What a clean-up costs on storage: one listing of each directory, one delete for each obsolete one."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from airflow_hive_acid.format.names import PLACE_MARKER
from airflow_hive_acid.maintenance import run_cleaner, run_worker
from airflow_hive_acid.maintenance.decisions import Kind
from tests.integration.maintenance.cycles.steps import pass_time, start_job

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_hive_acid.filesystem import FileInfo, Filesystem
    from airflow_hive_acid.format.jobs import JobResult, JobSpec
    from airflow_hive_acid.metastore import MetastoreClient

    RunJob = Callable[[JobSpec], JobResult]


pytestmark = pytest.mark.backends("sqlite")


class CountingFilesystem:
    """A filesystem that counts what it is asked for, by verb and last part of the path."""

    def __init__(self, inner: Filesystem) -> None:
        self._inner = inner
        self.calls: Counter[tuple[str, str]] = Counter()

    def list_files(self, uri: str, recursive: bool = False, **named: Any) -> list[FileInfo]:
        self.calls["list", uri.rstrip("/").rpartition("/")[2]] += 1
        return self._inner.list_files(uri, recursive, **named)

    def delete(self, uri: str, *, inside: str) -> bool:
        self.calls["delete", uri.rpartition("/")[2]] += 1
        return self._inner.delete(uri, inside=inside)

    def __getattr__(self, verb: str) -> Any:
        def counted(uri: str, *arguments: Any) -> Any:
            self.calls[verb, uri.rpartition("/")[2]] += 1
            return getattr(self._inner, verb)(uri, *arguments)

        return counted


@pytest.fixture
def settings(settings: dict[str, str]) -> dict[str, str]:
    return {**settings, "hive.compactor.abortedtxn.threshold": "0"}


@pytest.fixture
def counting(fs: Filesystem) -> CountingFilesystem:
    return CountingFilesystem(fs)


def test_ten_partitions_are_listed_once_each_and_every_obsolete_directory_is_one_delete(
    client: MetastoreClient, fs: Filesystem, counting: Any, make_table: Callable[..., Any], compact_lines: RunJob
) -> None:
    table = make_table("default.p", "k")
    partitions = [f"k={letter}" for letter in "abcdefghij"]
    for partition in partitions:
        for _ in range(2):
            table.insert(partition=partition)
        client.compactions.enqueue("default.p", partition)
    run_worker(client, fs, compact_lines, "w")
    obsolete = [name for p in partitions for name in table.directories(p) if name.startswith("delta")]
    assert len(obsolete) == 20
    pass_time(client)
    outcomes = run_cleaner(client, counting)
    assert {outcome.kind for outcome in outcomes} == {Kind.CLEANED}
    expected = Counter({("list", partition): 1 for partition in partitions})
    expected.update(("delete", name) for name in obsolete)
    # Once in a pass, whether the warehouse is there (R17); it is seen for the first time, and marked.
    expected.update([("exists", "p"), ("read_text", PLACE_MARKER), ("write_text", PLACE_MARKER)])
    assert counting.calls == expected
    assert [len(table.directories(p)) for p in partitions] == [1] * 10


def test_a_clean_up_that_has_to_wait_costs_storage_nothing(
    client: MetastoreClient, fs: Filesystem, counting: Any, table: Any, compact_lines: RunJob
) -> None:
    table.insert()
    table.insert()
    with client.snapshot(["default.t"]):
        client.compactions.enqueue("default.t")
        run_worker(client, fs, compact_lines, "w")
        pass_time(client)
        assert [o.kind for o in run_cleaner(client, counting)] == [Kind.WAITING]
    assert counting.calls == Counter()


@pytest.mark.rule("R4")
def test_it_is_looked_at_twice_only_where_aborted_txns_of_others_are_forgotten(
    client: MetastoreClient, fs: Filesystem, counting: Any, table: Any, compact_lines: RunJob
) -> None:
    """Our own job is fenced before the listing: nothing of it can appear any more. Somebody else's may."""
    for own in (True, False):
        txn = table.begin()
        if own:
            start_job(client, table, txn, "job1")
        table.put(txn, 1)
        txn.abort("a test")
        table.insert()
        table.insert()
        client.compactions.enqueue("default.t")
        run_worker(client, fs, compact_lines, "w")
        pass_time(client)
        counting.calls.clear()
        assert {o.kind for o in run_cleaner(client, counting)} == {Kind.CLEANED}
        assert counting.calls["list", "t"] == (1 if own else 2)
        deletes = [name for (verb, name), number in counting.calls.items() for _ in range(number) if verb == "delete"]
        assert len(deletes) == len(set(deletes))
        assert [name for name in table.directories() if not name.startswith(("base", "_tmp"))] == []


@pytest.mark.rule("R4")
def test_aborted_writes_of_our_own_jobs_are_listed_once(client: MetastoreClient, counting: Any, table: Any) -> None:
    txn = table.begin()
    start_job(client, table, txn, "job1")
    table.put(txn, 1)
    txn.abort("a test")
    pass_time(client)
    assert [o.kind for o in run_cleaner(client, counting)] == [Kind.CLEANED]
    assert counting.calls["list", "t"] == 1
