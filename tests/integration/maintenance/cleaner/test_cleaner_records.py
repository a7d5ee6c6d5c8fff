"""What the Cleaner writes down, and 'hive-acid cleaning explain' shows: what went, what stays, and for whom."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa
from typer.testing import CliRunner

from airflow_hive_acid.cli.main import app
from airflow_hive_acid.maintenance import run_cleaner, run_worker
from airflow_hive_acid.maintenance.cleaner.cleaner import explain_cleaning
from airflow_hive_acid.maintenance.decisions import Kind
from airflow_hive_acid.metastore import MetastoreClient as Client
from airflow_hive_acid.metastore.database.codes import TxnType
from airflow_hive_acid.metastore.schema.cleaning import HIVE_ACID_CLEANING
from airflow_hive_acid.metastore.schema.hive_transactions import MIN_HISTORY_LEVEL, MIN_HISTORY_WRITE_ID
from airflow_hive_acid.settings import Settings, Source
from tests.integration.maintenance.cycles.steps import change, pass_time, rows

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_hive_acid.filesystem import Filesystem
    from airflow_hive_acid.metastore import MetastoreClient, ReaderSnapshot


DAG_RUN = "dag sales, run manual__1, task report"
DELTAS = ["delta_0000001_0000001_0000", "delta_0000002_0000002_0000"]


@pytest.fixture
def compact_behind(
    client: MetastoreClient, fs: Filesystem, table: Any, compact_lines: Any
) -> Callable[..., list[ReaderSnapshot]]:
    """Two inserts, a reader for each name given, a major compaction; the readers see the deltas."""

    def make(*agents: str) -> list[ReaderSnapshot]:
        table.insert()
        table.insert()
        readers = [client.open_snapshot(["default.t"], agent_info=agent) for agent in agents]
        client.compactions.enqueue("default.t")
        run_worker(client, fs, compact_lines, "w")
        pass_time(client)
        return readers

    return make


@pytest.mark.every_database
def test_a_wait_is_one_row_that_names_the_dag_run_and_the_clean_up_is_another(
    client: MetastoreClient, fs: Filesystem, compact_behind: Callable[..., list[ReaderSnapshot]]
) -> None:
    (reader,) = compact_behind(DAG_RUN)
    for _ in range(3):
        (outcome,) = run_cleaner(client, fs)
        assert str(outcome).endswith(f"kept for txn {reader.txn_id} (ann@host1, {DAG_RUN})")
    (record,) = client.cleanings.newest("default", "t")
    assert (record.kind, record.request_id) == ("waiting", 1)
    assert record.details["for"] == [{"txn": reader.txn_id, "user": "ann", "host": "host1", "agent": DAG_RUN}]
    reader.close()
    (outcome,) = run_cleaner(client, fs)
    assert str(outcome).endswith(f"directories and files were removed; removed: {', '.join(DELTAS)}")
    newest, older = client.cleanings.newest("default", "t")
    assert (newest.kind, older.id) == ("cleaned", record.id)
    assert newest.details["removed"] == DELTAS
    assert client.cleanings.newest("default", "other") == []


def test_another_reader_in_the_way_is_another_row(
    client: MetastoreClient, fs: Filesystem, compact_behind: Callable[..., list[ReaderSnapshot]]
) -> None:
    first, second = compact_behind("first", "second")
    run_cleaner(client, fs)
    first.close()
    run_cleaner(client, fs)
    second.close()
    named = [[holder["agent"] for holder in record.details["for"]] for record in client.cleanings.newest()]
    assert sorted(named, key=len, reverse=True) == [["first", "second"], ["second"]]


@pytest.mark.backends("sqlite")
def test_explaining_changes_nothing(
    client: MetastoreClient, fs: Filesystem, table: Any, compact_behind: Callable[..., list[ReaderSnapshot]]
) -> None:
    (reader,) = compact_behind(DAG_RUN)
    before, queue = table.directories(), client.compactions.show()
    deltas = [f"{table.location}/{name}" for name in DELTAS]
    (waiting,) = explain_cleaning(client, fs)
    assert (waiting.kind, list(waiting.kept), waiting.removed) == (Kind.WAITING, deltas, ())
    assert [holder.txn_id for holder in waiting.holders] == [reader.txn_id]
    reader.close()
    (free,) = explain_cleaning(client, fs)
    assert (free.kind, list(free.removed)) == (Kind.CLEANED, deltas)
    assert free.reason == "2 obsolete or aborted directories and files would be removed"
    assert table.directories() == before
    assert client.compactions.show() == queue
    assert rows(client, HIVE_ACID_CLEANING) == []


@pytest.mark.backends("sqlite")
def test_what_waits_for_its_time_is_explained_too(client: MetastoreClient, fs: Filesystem, compacted: Any) -> None:
    request = client.compactions.show()[0]
    client.compactions.retry_cleaning(request, "the disk was full", 300_000)
    compacted.abort()
    pass_time(client)
    later, aborted = explain_cleaning(client, fs)
    assert later.reason == "its clean-up failed (the disk was full); it is tried again 300 s later"
    assert aborted.reason.startswith("1 components of aborted txns; they are removed when there are more than 1000")


@pytest.mark.backends("sqlite")
def test_the_command_prints_both(
    client: MetastoreClient, fs: Filesystem, compact_behind: Callable[..., list[ReaderSnapshot]], metastore_url: str
) -> None:
    def explain(*arguments: str) -> list[dict[str, Any]]:
        line = ["--metastore-url", metastore_url, "--set", "hive.txn.opentxn.timeout=150ms", "cleaning", "explain"]
        done = CliRunner().invoke(app, [*line, *arguments, "--format", "json"])
        assert done.exit_code == 0, done.output
        return [row for text in done.stdout.splitlines() for row in _rows(text)]

    (reader,) = compact_behind(DAG_RUN)
    (now,) = explain("default.t")
    assert (now["outcome"], now["since"]) == ("waiting", "now")
    assert now["for"] == f"txn {reader.txn_id} (ann@host1, {DAG_RUN})"
    assert now["directories"] == ", ".join(DELTAS)
    assert explain("default.other") == []
    reader.close()
    run_cleaner(client, fs)
    (before,) = explain("default")
    assert (before["outcome"], before["request"]) == ("cleaned", 1)


def _rows(text: str) -> list[dict[str, Any]]:
    found = json.loads(text)
    return found if isinstance(found, list) else [found]


@pytest.mark.backends("sqlite")
def test_a_record_that_cannot_be_written_stops_no_clean_up(
    client: MetastoreClient, fs: Filesystem, compacted: Any, caplog: pytest.LogCaptureFixture
) -> None:
    with client.database.transaction() as connection:
        HIVE_ACID_CLEANING.drop(connection)
    pass_time(client)
    assert [o.kind for o in run_cleaner(client, fs)] == [Kind.CLEANED]
    assert "what was cleaned could not be written down" in caplog.text


@pytest.mark.backends("sqlite")
def test_a_failure_nobody_thought_of_does_not_stop_the_other_clean_ups(
    client: MetastoreClient, fs: Filesystem, compacted: Any, make_table: Any, compact_lines: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    other = make_table("default.u")
    other.insert()
    other.insert()
    client.compactions.enqueue("default.u")
    run_worker(client, fs, compact_lines, "w")
    pass_time(client)
    delete = type(fs).delete

    def refuse(self: Any, uri: str, *, inside: str) -> bool:
        if "/t/" in uri:
            raise RuntimeError("a bug")
        return delete(self, uri, inside=inside)

    monkeypatch.setattr(type(fs), "delete", refuse)
    outcomes = {outcome.resource.table: outcome.kind for outcome in run_cleaner(client, fs)}
    assert outcomes == {"t": Kind.ERROR, "u": Kind.CLEANED}
    assert [r.error for r in client.compactions.show(table="t")] == ["RuntimeError: a bug"]


@pytest.mark.backends("sqlite")
def test_tables_that_have_to_wait_do_not_keep_a_later_one_from_its_turn(
    metastore_url: str, fs: Filesystem, make_table: Any, client: MetastoreClient, compact_lines: Any
) -> None:
    """Two are read at a time; the first three wait for a reader who registered their history, the fourth does not."""
    for name in "abcd":
        table = make_table(f"default.{name}")
        table.insert()
        table.insert()
        client.compactions.enqueue(table.name)
    run_worker(client, fs, compact_lines, "w")
    pass_time(client)
    reader = client.open_txn(type=TxnType.READ_ONLY)
    registered = [{"MH_TXNID": reader, "MH_DATABASE": "default", "MH_TABLE": t, "MH_WRITEID": 1} for t in "abc"]
    change(client, sa.insert(MIN_HISTORY_WRITE_ID).values(registered))
    change(client, sa.delete(MIN_HISTORY_LEVEL))
    pass_time(client)
    few = {"hive.compactor.fetch.size": "2", "hive.txn.opentxn.timeout": "150ms"}
    with Client(metastore_url, Settings({Source.CONNECTION: few})) as patient:
        kinds = {outcome.resource.table: outcome.kind for outcome in run_cleaner(patient, fs)}
    assert kinds == {"a": Kind.WAITING, "b": Kind.WAITING, "c": Kind.WAITING, "d": Kind.CLEANED}
