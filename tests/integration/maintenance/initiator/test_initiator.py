"""The Initiator: what it looks at, what it remembers, and that nobody waits for ever."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa

from airflow_hive_acid.filesystem import FileInfo
from airflow_hive_acid.maintenance import run_history_purge, run_initiator
from airflow_hive_acid.maintenance.decisions import Kind
from airflow_hive_acid.maintenance.initiator.candidates import Looks
from airflow_hive_acid.maintenance.initiator.initiator import MUTEX, WALK, WATERMARK, request
from airflow_hive_acid.maintenance.thresholds import InitiatorThresholds
from airflow_hive_acid.metastore import MetastoreClient
from airflow_hive_acid.metastore.compaction.decisions import CompactionDecisions
from airflow_hive_acid.metastore.compaction.model import Candidate, CompactionState, Resource
from airflow_hive_acid.metastore.compaction.rows import move_to_history
from airflow_hive_acid.metastore.database.codes import TxnType
from airflow_hive_acid.metastore.schema.hive_transactions import AUX_TABLE
from airflow_hive_acid.metastore.setup.schema import COMPLETED_TXN_COMPONENTS, HIVE_ACID_DECISION
from airflow_hive_acid.settings import Settings, Source
from tests.integration.maintenance.cycles.steps import change, rows

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from airflow_hive_acid.filesystem import Filesystem


T = Resource("default", "t")
DAY_MS = 86_400_000
LOOK = """
import sys
from airflow_hive_acid.filesystem import AnyFilesystem
from airflow_hive_acid.maintenance import run_initiator
from airflow_hive_acid.metastore import MetastoreClient
from airflow_hive_acid.settings import Settings, Source
settings = Settings({Source.CONNECTION: {"hive.compactor.delta.num.threshold": "3"}})
with MetastoreClient(sys.argv[1], settings) as client:
    client.check_schema()
    print("ready", flush=True)
    sys.stdin.readline()
    print([d.request_id for d in run_initiator(client, AnyFilesystem()) if d.enqueued], flush=True)
"""


# --- what it remembers ----------------------------------------------------------------------------------------------


def test_each_outcome_is_stored_with_its_numbers_and_its_rule(
    client: MetastoreClient, fs: Filesystem, table: Any
) -> None:
    for _ in range(2):
        table.insert()
        run_initiator(client, fs)
    (stored,) = client.compactions.decisions.of(T)
    assert (stored.kind, stored.rule, stored.looks) == ("NOTHING", "no threshold reached", 2)
    assert (stored.numbers["deltas"], stored.numbers["delta_num_threshold"]) == (2, 3)
    assert stored.since < stored.looked
    for _ in range(2):
        table.insert()
    (decision,) = run_initiator(client, fs)
    newest, before = client.compactions.decisions.of(T)
    assert (newest.kind, newest.rule, newest.request_id, newest.looks) == (
        "MAJOR", "hive.compactor.delta.num.threshold", decision.request_id, 1)  # fmt: skip
    assert before == stored
    assert run_initiator(client, fs) == []
    table.insert()
    (waits,) = run_initiator(client, fs)
    assert (waits.kind, waits.rule, waits.blocked_by) == (Kind.SKIPPED, "active request", ("request 1",))
    assert [d.kind for d in run_initiator(client, fs)] == [Kind.SKIPPED]  # until the request is over


@pytest.mark.conformance("C22")
def test_a_compaction_that_waits_for_the_cleaner_is_not_in_the_way(
    client: MetastoreClient, fs: Filesystem, table: Any
) -> None:
    for _ in range(4):
        table.insert()
    assert [d.enqueued for d in run_initiator(client, fs)] == [True]
    request = client.compactions.claim("w")
    assert request is not None
    table.insert()
    assert [d.rule for d in run_initiator(client, fs)] == ["active request"]
    txn = client.open_txn(type=TxnType.COMPACTION)
    client.compactions.update_state(request, highest_write_id=4, txn_id=txn)
    client.compactions.mark_compacted(request)
    client.commit_txn(txn)
    assert [d.enqueued for d in run_initiator(client, fs)] == [True]


def test_old_outcomes_are_forgotten(client: MetastoreClient, fs: Filesystem, make_table: Callable[..., Any]) -> None:
    one, gone = make_table("default.t"), make_table("default.gone")
    one.insert()
    gone.insert()
    run_initiator(client, fs)
    (row,) = [r for r in rows(client, HIVE_ACID_DECISION) if r["HAD_TABLE"] == "t"]
    decisions = HIVE_ACID_DECISION
    change(client, sa.delete(decisions).where(decisions.c.HAD_ID == row.pop("HAD_ID")))
    for number in range(7):
        change(client, sa.insert(decisions).values({**row, "HAD_NEWEST": "N", "HAD_REASON": str(number)}))
    change(client, sa.insert(decisions).values(row))
    change(client, sa.update(decisions).where(decisions.c.HAD_NEWEST == "Y").values(HAD_LOOKED=1))
    client.catalog.drop_table("default.gone")
    assert run_history_purge(client).decisions == 4
    assert [r["HAD_REASON"] for r in rows(client, decisions)] == ["3", "4", "5", "6", row["HAD_REASON"]]


def test_a_metastore_without_our_table_of_decisions_is_looked_at_as_by_hive(
    client: MetastoreClient, fs: Filesystem, table: Any
) -> None:
    """Its schema has not been upgraded yet."""
    with client.database.transaction() as connection:
        HIVE_ACID_DECISION.drop(connection)
    client.database.forget_features()
    assert run_initiator(client, fs) == []
    for _ in range(4):
        table.insert()
    # The time of a look that is still to come says nothing: the clock went back.
    change(client, sa.update(AUX_TABLE).values(MT_KEY2=2 * int(time.time() * 1000)).where(AUX_TABLE.c.MT_KEY1 == MUTEX))
    assert [d.kind for d in run_initiator(client, fs)] == [Kind.MAJOR]
    assert client.compactions.decisions.of(T) == []


# --- what it looks at -----------------------------------------------------------------------------------------------


@pytest.mark.every_database
def test_a_write_that_became_visible_late_is_not_missed(client: MetastoreClient, fs: Filesystem, table: Any) -> None:
    """Its time is that of its commit's beginning; Hive's Initiator, which asks for newer ones, never looks at it.

    t1  a commit begins (its components carry this time)
    t2  the Initiator looks
    t3  the commit becomes visible
    t4  the Initiator looks again
    """
    table.insert()
    run_initiator(client, fs)
    for _ in range(3):
        table.insert()
    change(client, sa.update(COMPLETED_TXN_COMPONENTS).values(CTC_TIMESTAMP=datetime(2020, 1, 1)))
    assert [d.kind for d in run_initiator(client, fs)] == [Kind.MAJOR]


@pytest.mark.conformance("C27")
def test_what_an_open_writer_hides_is_counted_when_it_ends(client: MetastoreClient, fs: Filesystem, table: Any) -> None:
    """An abort writes no completed component, so nothing but the stored decision says that there is more now.

    t1  A gets write id 1 and stays open
    t2  four others commit above it: a compaction would reach up to 0
    t3  A aborts
    """
    writer = table.begin()
    for _ in range(4):
        table.insert()
    (decision,) = run_initiator(client, fs)
    assert (decision.kind, decision.numbers["hidden_deltas"], decision.numbers["first_open_write_id"]) == (
        Kind.NOTHING, 4, 1)  # fmt: skip
    assert decision.blocked_by[0].startswith(f"txn {writer.txn_id} (ann@host1")
    assert client.compactions.decisions.of(T)[0].blocked_by == decision.blocked_by
    writer.abort("a test")
    assert [d.kind for d in run_initiator(client, fs)] == [Kind.MAJOR]


def test_a_directory_that_cannot_be_listed_is_one_tables_failure(
    client: MetastoreClient, fs: Filesystem, make_table: Callable[..., Any]
) -> None:
    bad, good = make_table("default.bad"), make_table("default.good")
    for _ in range(4):
        bad.insert()
        good.insert()

    class Forbidden:
        def list_files(self, uri: str, *arguments: Any, **options: Any) -> list[FileInfo]:
            if uri == bad.location:
                raise PermissionError(f"{uri}: permission denied")
            return fs.list_files(uri, *arguments, **options)

    decisions = {d.resource.table: d for d in run_initiator(client, Forbidden())}  # type: ignore[arg-type]
    assert (decisions["bad"].kind, decisions["good"].kind) == (Kind.ERROR, Kind.MAJOR)
    assert "permission denied" in client.compactions.get(decisions["bad"].request_id or 0).error
    assert {d.resource.table for d in run_initiator(client, fs)} == {"bad"}  # it is tried again without a write


@pytest.mark.conformance("C15")
@pytest.mark.conformance("C16")
@pytest.mark.conformance("C17")
@pytest.mark.parametrize(
    ("properties", "partitions", "kinds"),
    [
        ({"hive.compactor.abortedtxn.threshold": "2"}, [None, None, None], ["MAJOR"]),
        ({"hive.compactor.abortedtxn.threshold": "2"}, ["k=a", "k=b", "k=c"], []),
        ({"hive.compactor.aborted.txn.time.threshold": "0"}, ["k=a"], ["MINOR"]),
        ({"hive.compactor.aborted.txn.time.threshold": "-1"}, ["k=a"], []),
    ],
)
@pytest.mark.setting("hive.compactor.clean.aborts.using.cleaner")
def test_aborts_ask_for_compactions_where_the_cleaner_does_not_see_to_them(
    metastore_url: str, client: MetastoreClient, fs: Filesystem, make_table: Callable[..., Any],
    properties: dict[str, str], partitions: Sequence[str | None], kinds: list[str],
) -> None:  # fmt: skip
    table = make_table("default.t", *(["k"] if partitions[0] else []))
    for partition in partitions:
        table.abort(partition=partition)
    legacy = {"hive.compactor.clean.aborts.using.cleaner": "false", **properties}
    assert run_initiator(client, fs) == []
    with MetastoreClient(metastore_url, Settings({Source.CONNECTION: legacy})) as other:
        assert [d.kind.name for d in run_initiator(other, fs)] == kinds


@pytest.mark.parametrize(("of_hive_3", "wanted"), [(False, "MINOR"), (True, "MAJOR")])
def test_a_metastore_of_hive_3_is_asked_for_a_major_compaction_in_the_place_of_a_minor_one(
    client: MetastoreClient, fs: Filesystem, table: Any, monkeypatch: pytest.MonkeyPatch, of_hive_3: bool, wanted: str
) -> None:
    """That Hive cannot read what its own minor compactions leave of tables without buckets."""
    table.insert()
    table.directory("base_0000001", lines=1000)
    for _ in range(4):
        table.insert()
    layout = replace(client.database.layout(), counts_txns=of_hive_3)
    monkeypatch.setattr(client.database, "layout", lambda: layout)
    (decision,) = run_initiator(client, fs)
    (asked,) = client.compactions.active()
    assert (decision.kind.name, asked.type.name) == (wanted, wanted)
    assert of_hive_3 == ("a Hive 3 cannot read what its minor compactions leave" in decision.reason)


@pytest.mark.conformance("C20")
@pytest.mark.conformance("C29")
def test_what_database_and_table_say_about_compaction(
    client: MetastoreClient, fs: Filesystem, make_table: Callable[..., Any]
) -> None:
    """A database gives defaults: thresholds for its tables, the pool, properties of the job; tables override them."""
    properties = {
        "CompactorThreshold.hive.compactor.delta.num.threshold": "1", "compactor.mapreduce.map.memory.mb": "1024",
        "compactor.hive.tez.container.size": "2048", "hive.compactor.worker.pool": "night",
    }  # fmt: skip
    tables = {
        "a": {},
        "b": {"compactorthreshold.hive.compactor.delta.num.threshold": "9", "compactor.hive.tez.container.size": "512"},
        "c": {"compactor.HIVE.tez.container.size": "512", "hive.compactor.worker.pool": "day"},
        "d": {"No_Auto_Compaction": "TRUE"},
    }
    for name, own in tables.items():
        table = make_table(f"w.{name}", properties=own)
        for _ in range(2):
            table.insert()
    client.catalog.alter_database("w", properties)
    assert {d.resource.table: d.kind.name for d in run_initiator(client, fs)} == {
        "a": "MAJOR", "b": "NOTHING", "c": "MAJOR", "d": "SKIPPED",
    }  # fmt: skip
    requests = {r.resource.table: r for r in client.compactions.active()}
    assert {name: r.pool for name, r in requests.items()} == {"a": "night", "c": "day"}
    memory = {"compactor.mapreduce.map.memory.mb": "1024"}
    assert requests["a"].properties == {**memory, "compactor.hive.tez.container.size": "2048"}
    assert requests["c"].properties == memory
    assert requests["a"].run_as == client.catalog.get_table("w.a").owner


def test_a_request_that_the_queue_cannot_hold_is_one_tables_failure(
    client: MetastoreClient, fs: Filesystem, make_table: Callable[..., Any]
) -> None:
    odd, good = make_table("default.odd", properties={"hive.compactor.worker.pool": "p" * 200}), make_table("default.t")
    for _ in range(4):
        odd.insert()
        good.insert()
    decisions = {d.resource.table: d for d in run_initiator(client, fs)}
    assert (decisions["odd"].kind, decisions["t"].enqueued) == (Kind.ERROR, True)
    assert "name of the compaction pool" in decisions["odd"].reason


# --- two at once ----------------------------------------------------------------------------------------------------


@pytest.mark.every_database
def test_two_processes_that_look_at_once_ask_once(
    metastore_url: str, client: MetastoreClient, make_table: Callable[..., Any]
) -> None:
    names = ("default.a", "default.b", "default.c")
    for name in names:
        table = make_table(name)
        for _ in range(4):
            table.insert()
    processes = [
        subprocess.Popen([sys.executable, "-c", LOOK, metastore_url], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                         text=True)
        for _ in range(2)
    ]  # fmt: skip
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    answers = [process.communicate("\n", timeout=120)[0] for process in processes]
    assert [process.returncode for process in processes] == [0, 0]
    assert sorted(number for answer in answers for number in json.loads(answer)) == [1, 2, 3]
    assert sorted(str(r.resource) for r in client.compactions.active()) == sorted(names)


@pytest.mark.every_database
def test_an_initiator_that_knows_no_mutex_gets_no_second_request(
    metastore_url: str, client: MetastoreClient, fs: Filesystem, make_table: Callable[..., Any]
) -> None:
    """Both have decided before either asks: the queue lets one in, and tells the other which."""
    resources = []
    for number in range(5):
        table = make_table(f"default.t{number}")
        resources.append(Resource("default", f"t{number}"))
        for _ in range(4):
            table.insert()
    both = threading.Barrier(2, timeout=60)
    answers: list[Any] = []

    def look() -> None:
        settings = Settings({Source.CONNECTION: {"hive.compactor.delta.num.threshold": "3"}})
        with MetastoreClient(metastore_url, settings) as other:
            looked = Looks(other, fs, InitiatorThresholds.of(settings)).at([Candidate(r) for r in resources])
            both.wait()
            answers.append(request(other, looked))

    threads = [threading.Thread(target=look) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=120)
    kinds = sorted(tuple(sorted({d.kind.name for d in answer.values()})) for answer in answers)
    assert kinds == [("MAJOR",), ("NOT_ACCEPTED",)]
    asked = {r.resource: r.id for r in client.compactions.active()}
    assert len(asked) == len(resources)
    assert all(d.request_id == asked[r] for answer in answers for r, d in answer.items())


# --- fairness -------------------------------------------------------------------------------------------------------


class SameEverywhere:
    """Every directory holds a base and twelve deltas."""

    def list_files(self, uri: str, recursive: bool = False, **_: Any) -> list[FileInfo]:
        names = ["base_0000001", *(f"delta_{i:07d}_{i:07d}_0000" for i in range(2, 14))]
        found = []
        for name in names:
            found.append(FileInfo(f"{uri}/{name}", name, 0, is_dir=True))
            found.append(FileInfo(f"{uri}/{name}/bucket_00000", f"{name}/bucket_00000", 100, is_dir=False))
        return found


@pytest.mark.backends("sqlite")
def test_hundreds_are_served_in_time_with_room_for_a_few(
    client: MetastoreClient, metastore_url: str, make_table: Callable[..., Any]
) -> None:
    """200 partitions need compaction; a look reads 2 at a time and 8 in all. Before each of them 4 hot partitions are
    written again and a new one appears, and of the 200 five keep failing. Each is asked for within 40 looks.

    Time line of a round: hot and new ones are written, the Initiator looks, a worker serves the 12 oldest requests.
    """
    table = make_table("default.p", "k")
    for _ in range(13):
        with table.begin() as txn:
            txn.add_partitions(table.name, [])
    change(client, sa.delete(COMPLETED_TXN_COMPONENTS))
    clock = iter(range(1, 10_000_000))

    def write(names: Sequence[str]) -> None:
        change(client, sa.insert(COMPLETED_TXN_COMPONENTS).values([
            {"CTC_TXNID": next(clock), "CTC_DATABASE": "default", "CTC_TABLE": "p", "CTC_PARTITION": name,
             "CTC_WRITEID": 13, "CTC_UPDATE_DELETE": "N"} for name in names
        ]))  # fmt: skip

    def serve(*, failing: set[str]) -> None:
        with client.database.transaction() as connection:
            for served in client.compactions.active()[:12]:
                name = served.resource.partition or ""
                state = CompactionState.FAILED if name in failing else CompactionState.SUCCEEDED
                move_to_history(connection, served, state, None)
                if state is CompactionState.SUCCEEDED:
                    ctc = COMPLETED_TXN_COMPONENTS
                    connection.execute(sa.delete(ctc).where(ctc.c.CTC_PARTITION == name))

    cold = [f"k=cold{i:04d}" for i in range(200)]
    hot, failing = [f"k=hot{i:02d}" for i in range(4)], set(cold[::40])
    client.catalog.add_partitions("default.p", [*cold, *hot])
    write(cold)
    asked: dict[str, int] = {}
    settings = Settings({Source.CONNECTION: {"hive.compactor.fetch.size": "2"}})
    everywhere: Any = SameEverywhere()
    with MetastoreClient(metastore_url, settings) as small:
        for number in range(100):
            new = [f"k=new{number:03d}"]
            client.catalog.add_partitions("default.p", new)
            write([*hot, *new])
            for decision in run_initiator(small, everywhere, limit=8):
                assert decision.kind in (Kind.MAJOR, Kind.MINOR, Kind.SKIPPED, Kind.GIVEN_UP), decision
                if decision.enqueued:
                    asked.setdefault(decision.resource.partition or "", number)
            serve(failing=failing)
            if {*cold, *hot} <= set(asked):
                break
    assert {*cold, *hot} <= set(asked)
    # 200 cold ones, at 8 in a look of which a quarter may go to others that were looked at before, and 4 hot ones and
    # a new one in between: no later than in the fortieth look.
    assert max(asked[name] for name in cold) <= 40
    assert max(asked[name] for name in hot) <= 40


# --- how it finds what has changed ------------------------------------------------------------------------------------


@pytest.mark.every_database
def test_a_later_look_asks_for_what_has_changed_and_compares_everything_once_an_hour(
    client: MetastoreClient, fs: Filesystem, make_table: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A rename has no txn of the new name: the walk finds it."""
    walks: list[int] = []
    walk = CompactionDecisions.walk_changed

    def counted(self: CompactionDecisions, look: int, size: int) -> Any:
        walks.append(look)
        return walk(self, look, size)

    monkeypatch.setattr(CompactionDecisions, "walk_changed", counted)
    one, other = make_table("default.one"), make_table("default.other")
    one.insert()
    other.insert()
    assert len(run_initiator(client, fs)) == 2
    assert len(walks) == 1
    other.insert()
    assert [d.resource for d in run_initiator(client, fs)] == [Resource("default", "other")]
    other.settle()  # until then a txn with a smaller id might still appear
    assert run_initiator(client, fs) == []
    assert len(walks) == 1
    change(client, sa.update(COMPLETED_TXN_COMPONENTS).values(CTC_TABLE="two").where(
        COMPLETED_TXN_COMPONENTS.c.CTC_TABLE == "one"))  # fmt: skip
    assert run_initiator(client, fs) == []
    change(client, sa.update(AUX_TABLE).values(MT_KEY2=1).where(AUX_TABLE.c.MT_KEY1 == WALK))
    assert [d.resource for d in run_initiator(client, fs)] == [Resource("default", "two")]
    assert len(walks) == 2


@pytest.mark.every_database
def test_a_txn_that_was_open_during_a_look_is_found_by_the_next_one(
    client: MetastoreClient, fs: Filesystem, make_table: Callable[..., Any]
) -> None:
    """
    t1  A opens its txn and writes
    t2                     B, with a larger id, writes and commits
    t3                     a look sees B
    t4  A commits
    t5                     a look sees A, whose id is smaller than what was seen
    """
    early, late = make_table("default.early"), make_table("default.late")
    late.insert()
    run_initiator(client, fs)
    with client.transaction({"default.early": "insert"}):
        late.insert()
        assert [d.resource for d in run_initiator(client, fs)] == [Resource("default", "late")]
    assert [d.resource for d in run_initiator(client, fs)] == [Resource("default", "early")]
    assert early is not None


@pytest.mark.every_database
@pytest.mark.parametrize("ids_go_back", [False, True], ids=["the clock", "and txn ids"])
def test_what_is_written_after_the_clock_went_back_is_looked_at(
    client: MetastoreClient, fs: Filesystem, make_table: Callable[..., Any], ids_go_back: bool
) -> None:
    """The database moved to a machine whose clock is a day behind, or was wrong by a day until now.

    t1  a look at ``one`` and ``other``
    t2  it is the day before; ``one`` is written, and ``other`` renamed
    t3  a look sees both
    """
    one, other = make_table("default.one"), make_table("default.other")
    one.insert()
    other.insert()
    run_initiator(client, fs)
    change(client, sa.update(HIVE_ACID_DECISION).values(HAD_LOOKED=HIVE_ACID_DECISION.c.HAD_LOOKED + DAY_MS))
    change(client, sa.update(AUX_TABLE).values(MT_KEY2=AUX_TABLE.c.MT_KEY2 + DAY_MS).where(
        AUX_TABLE.c.MT_KEY1.in_([WALK, MUTEX])))  # fmt: skip
    if ids_go_back:
        change(client, sa.update(AUX_TABLE).values(MT_KEY2=10**9).where(AUX_TABLE.c.MT_KEY1 == WATERMARK))
    one.insert()
    change(client, sa.update(COMPLETED_TXN_COMPONENTS).values(CTC_TABLE="two").where(
        COMPLETED_TXN_COMPONENTS.c.CTC_TABLE == "other"))  # fmt: skip
    assert [d.resource.table for d in run_initiator(client, fs)] == ["one", "two"]
    one.insert()
    assert [d.resource.table for d in run_initiator(client, fs)] == ["one"]


def test_a_blocked_table_is_looked_at_again_after_the_clock_went_back(
    client: MetastoreClient, fs: Filesystem, table: Any
) -> None:
    for _ in range(4):
        table.insert()
    run_initiator(client, fs)
    table.insert()
    assert [d.rule for d in run_initiator(client, fs)] == ["active request"]
    change(client, sa.update(HIVE_ACID_DECISION).values(HAD_LOOKED=HIVE_ACID_DECISION.c.HAD_LOOKED + DAY_MS))
    assert [d.rule for d in run_initiator(client, fs)] == ["active request"]
    change(client, sa.update(HIVE_ACID_DECISION).values(HAD_LOOKED=HIVE_ACID_DECISION.c.HAD_LOOKED + DAY_MS))
    assert [d.rule for d in run_initiator(client, fs, limit=5)] == ["active request"]


def test_a_look_that_did_not_come_to_its_end_is_not_what_the_next_one_goes_on_from(
    client: MetastoreClient, fs: Filesystem, table: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    table.insert()

    def broken(*_: object) -> None:
        raise RuntimeError("the disk is full")

    with monkeypatch.context() as patched:
        patched.setattr(Looks, "at", broken)
        with pytest.raises(RuntimeError, match="disk"):
            run_initiator(client, fs)
    assert [d.resource for d in run_initiator(client, fs)] == [T]
