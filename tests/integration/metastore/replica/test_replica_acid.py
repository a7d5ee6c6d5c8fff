"""The last step of an ACID sync: which write ids readers of the replica see, before, between and after."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

import pytest
import sqlalchemy as sa
from hypothesis import given
from hypothesis import strategies as st

from airflow_hive_acid.errors import CopyFailedError, ReplicaDivergedError, ReplicationBusyError, TxnAbortedError
from airflow_hive_acid.format.jobs import Column
from airflow_hive_acid.format.write_ids import ValidTxnList, ValidWriteIdList
from airflow_hive_acid.metastore import MetastoreClient
from airflow_hive_acid.metastore.catalog.values.model import TableDefinition
from airflow_hive_acid.metastore.compaction.model import CompactionType
from airflow_hive_acid.metastore.database.codes import TxnType
from airflow_hive_acid.metastore.names.objects import TableName
from airflow_hive_acid.metastore.replica.acid import advance
from airflow_hive_acid.metastore.replica.advances import Advance, IdState, TableAdvance, Written, rows_for
from airflow_hive_acid.metastore.replica.compactions import require_no_compaction
from airflow_hive_acid.metastore.replica.rebalances import known_rebalance, newest_rebalance_seen
from airflow_hive_acid.metastore.replica.records import begin_attempt, mark_target, read_records, read_sync
from airflow_hive_acid.metastore.replica.source import uncleaned_compactions
from airflow_hive_acid.metastore.schema.hive_transactions import (
    COMPACTION_QUEUE,
    COMPLETED_COMPACTIONS,
    TXN_COMPONENTS,
    TXNS,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from airflow_hive_acid.metastore.catalog.values.model import Table
    from airflow_hive_acid.metastore.compaction.model import Compaction

pytestmark = pytest.mark.hive4("no replica on a Hive 3")

NONE = ValidWriteIdList(0)


@pytest.fixture
def client(metastore_url: str, tmp_path: Path) -> Iterator[MetastoreClient]:
    with MetastoreClient(metastore_url) as found:
        found.catalog.set_warehouse((tmp_path / "warehouse").as_uri())
        yield found


def table(client: MetastoreClient, name: str = "t", *, partitioned: bool = False) -> Table:
    keys = (Column("p", "string"),) if partitioned else ()
    return client.catalog.create_table(TableDefinition("default", name, (Column("a", "int"),), keys))


class Sync:
    """A sync of tables that were copied by hand."""

    def __init__(self, client: MetastoreClient, state_id: int, policy: str = "p") -> None:
        self.client, self.state_id, self.policy = client, state_id, policy
        self.attempt = str(uuid.uuid4())

        def begin(connection) -> None:
            begin_attempt(connection, policy, self.attempt, ["default.t"])
            mark_target(connection, "default", policy)

        client.database.run(begin)
        self.txn = client.replica(policy).open_txns([-state_id])[0]

    def advance(self, *tables: TableAdvance) -> None:
        request = Advance(self.policy, self.attempt, self.state_id, self.txn, tables)
        self.client.database.run(lambda connection: advance(connection, self.client, request))


def becomes(found: Table, known: ValidWriteIdList, now: ValidWriteIdList, **rest) -> TableAdvance:
    rest.setdefault("source_txns", {w: 1000 + w for w in now.open})
    return TableAdvance(found, "default.t", 77, known, now, **rest)


def known(client: MetastoreClient, found: Table, policy: str = "p") -> ValidWriteIdList:
    return client.database.read(lambda connection: read_records(connection, policy))[found.id].write_ids


def visible(client: MetastoreClient, name: str = "default.t") -> ValidWriteIdList:
    return client.get_valid_write_ids(name)[name]


def ids(high: int, opened=(), aborted=()) -> ValidWriteIdList:
    return ValidWriteIdList(high, frozenset(opened), frozenset(aborted), None, "default.t")


@given(st.integers(0, 6), st.lists(st.sampled_from("coa"), max_size=7))
def test_a_run_of_committed_ids_needs_two_rows(mark: int, letters: list[str]) -> None:
    """Every id that is not committed has a row; of the others the first and the last."""
    states = {mark + 1 + i: letter for i, letter in enumerate(letters)}
    now = ids(
        mark + len(letters), [w for w, x in states.items() if x == "o"], [w for w, x in states.items() if x == "a"]
    )
    found = dict(rows_for(ids(mark), now))
    named = {"c": IdState.COMMITTED, "o": IdState.OPEN, "a": IdState.ABORTED}
    assert all(named[states[w]] is state for w, state in found.items())
    assert {w for w, x in states.items() if x != "c"} <= found.keys()
    done = [w for w, x in states.items() if x == "c"]
    assert {w for w in found if states[w] == "c"} <= {mark + 1, *done[-1:]}
    assert not states or (mark + 1 in found and (not done or done[-1] in found))


def test_readers_see_the_sources_list_and_readers_of_before_see_none_of_it(client: MetastoreClient) -> None:
    """Open and aborted ids are what they are at the source.

    t1  sync 1: ids 1..50, 7 open, 9 aborted
    t2  reader A begins, its lists are looked up late
    t3  sync 2: 7 committed, 51..60 new, 55 open
    t4  A's lists: as at t2; a reader of now: as at the source
    """
    found = table(client)
    first = ids(50, [7], [9])
    Sync(client, 100).advance(becomes(found, NONE, first, written=(Written(None, 50, False),)))
    assert visible(client) == first
    early = client.get_valid_txns()
    second = ids(60, [55], [9])
    Sync(client, 200).advance(becomes(found, known(client, found), second))
    assert visible(client) == second
    late = client.get_valid_write_ids("default.t", early)["default.t"]
    assert all(late.is_valid(w) == first.is_valid(w) for w in range(1, 70))
    assert client.max_allocated_write_id("default.t") == 60
    assert client.catalog.get_table("default.t").property("repl.last.id") == "200"


@pytest.mark.rule("R11")
def test_a_reader_between_the_syncs_txn_and_its_commit_sees_nothing_new(client: MetastoreClient) -> None:
    """It has a larger txn id than the sync, and takes its snapshot after the commit.

    t1  sync opens 5
    t2              reader opens 6
    t3  sync commits
    t4              snapshot of txn 6: sees 5, and none of the new write ids
    """
    found = table(client)
    Sync(client, 1).advance(becomes(found, NONE, ids(3)))
    sync = Sync(client, 2)
    reader = client.open_txn()
    sync.advance(becomes(found, known(client, found), ids(8)))
    txns = client.get_valid_txns(reader)
    assert txns.is_valid(sync.txn)
    mine = client.get_valid_write_ids("default.t", txns)["default.t"]
    assert [w for w in range(1, 10) if mine.is_valid(w)] == [1, 2, 3]


def test_purges_never_hide_what_came(client: MetastoreClient) -> None:
    """TXN_TO_WRITE_ID loses its oldest txns; open and committed ids stay what they are."""
    found = table(client)
    lists = [ids(10, [4, 10], [6]), ids(30, [10], [6, 12]), ids(30, [], [6, 12]), ids(31, [], [12])]
    for number, now in enumerate(lists, 1):
        before = NONE if number == 1 else known(client, found)
        Sync(client, number).advance(becomes(found, before, now))
        client.housekeeping.clean_txn_to_write_id()
        client.housekeeping.clean_empty_txns()
        seen = visible(client)
        gone = {6, 12}  # aborted, and nothing of them is here: they may be forgotten
        assert all(seen.is_valid(w) == now.is_valid(w) for w in range(1, 40) if w not in gone), f"sync {number}: {seen}"


def test_two_tables_share_the_txns_of_their_runs(client: MetastoreClient) -> None:
    """A policy of a thousand tables opens two txns, not two thousand."""
    tables = [table(client, f"t{i}") for i in range(20)]
    before = client.get_valid_txns().high_watermark
    Sync(client, 5).advance(*(TableAdvance(t, f"default.{t.name}", 9, NONE, ids(40)) for t in tables))
    assert client.get_valid_txns().high_watermark == before + 3
    assert {str(visible(client, f"default.{t.name}").high_watermark) for t in tables} == {"40"}


@pytest.mark.rule("R5")
def test_an_earlier_sync_that_wakes_up_changes_nothing(client: MetastoreClient) -> None:
    found = table(client)
    early = Sync(client, 1)
    Sync(client, 2).advance(becomes(found, NONE, ids(5)))
    with pytest.raises(ReplicationBusyError, match="taken over"):
        early.advance(becomes(found, NONE, ids(3)))
    assert visible(client) == ids(5)


def test_a_foreign_write_is_found_and_nothing_is_overwritten(client: MetastoreClient) -> None:
    found = table(client)
    Sync(client, 1).advance(becomes(found, NONE, ids(5)))
    with client.transaction({"default.t": "insert"}):
        pass
    sync = Sync(client, 2)
    with pytest.raises(ReplicaDivergedError, match=r"default\.t: write ids up to 6 .* left 5.*bootstrap") as raised:
        sync.advance(becomes(found, known(client, found), ids(9)))
    assert list(raised.value.tables) == ["default.t"]
    assert client.max_allocated_write_id("default.t") == 6


def test_an_open_id_that_others_aborted_here_and_the_source_committed_is_divergence(client: MetastoreClient) -> None:
    """The reaper after ``hive.repl.txn.timeout``, or an operator: ``repl.incompatible`` says so, too."""
    found = table(client)
    Sync(client, 1).advance(becomes(found, NONE, ids(5, [4])))
    [waiting] = [t.txn_id for t in client.show_transactions() if t.txn_id != 0 and t.state.value == "o"]
    client.abort_txn(waiting)
    assert client.catalog.get_database("default").properties["repl.incompatible"] == "true"
    with pytest.raises(ReplicaDivergedError, match="the txn of write id 4 was aborted here"):
        Sync(client, 2).advance(becomes(found, known(client, found), ids(5)))


@pytest.mark.every_database
@pytest.mark.rule("R9")
def test_a_sync_keeps_open_ids_alive_and_without_one_they_time_out(client: MetastoreClient) -> None:
    """``hive.repl.txn.timeout`` after the last sync the reaper aborts them, and says so in ``repl.incompatible``."""
    found = table(client)

    def silent(connection) -> None:
        connection.execute(sa.update(TXNS).where(TXNS.c.TXN_STATE == "o").values(TXN_LAST_HEARTBEAT=1))

    Sync(client, 1).advance(becomes(found, NONE, ids(5, [4])))
    client.database.run(silent)
    Sync(client, 2).advance(becomes(found, known(client, found), ids(6, [4])))
    client.housekeeping.perform_time_outs()
    assert visible(client) == ids(6, [4])
    client.database.run(silent)
    client.housekeeping.perform_time_outs()
    assert client.catalog.get_database("default").properties["repl.incompatible"] == "true"
    with pytest.raises(ReplicaDivergedError, match="write id 4 was aborted here"):
        Sync(client, 3).advance(becomes(found, known(client, found), ids(6)))
    Sync(client, 4).advance(becomes(found, known(client, found), ids(6, [], [4])))
    assert visible(client) == ids(6, [], [4])


def test_aborted_ids_that_the_source_forgets_stay_what_they_are(client: MetastoreClient) -> None:
    """After its Cleaner, the source's list no longer names them; they are not taken for new."""
    found = table(client)
    Sync(client, 1).advance(becomes(found, NONE, ids(5, [], [4])))
    Sync(client, 2).advance(becomes(found, known(client, found), ids(6)))
    assert known(client, found).aborted == {4}
    assert rows_for(known(client, found), ids(6)) == []


def test_a_sync_whose_txn_was_reaped_changes_nothing(client: MetastoreClient) -> None:
    found = table(client)
    sync = Sync(client, 1)
    client.abort_txn(sync.txn)
    with pytest.raises(TxnAbortedError):
        sync.advance(becomes(found, NONE, ids(5)))
    assert visible(client).high_watermark == 0
    assert client.database.read(lambda connection: read_sync(connection, "p")).state_id is None


def test_partitions_come_and_go_with_the_sync(client: MetastoreClient) -> None:
    """Their directories are left to the Cleaner, for readers of before; the Initiator hears of what came."""
    found = table(client, partitioned=True)
    written = (Written("p=1", 2, False), Written("p=2", 2, True))
    Sync(client, 1).advance(becomes(found, NONE, ids(2), added=("p=1", "p=2"), written=written))
    assert [p.name for p in client.catalog.list_partitions("default.t")] == ["p=1", "p=2"]
    assert {c.resource.partition for c in client.compactions.find_candidates()} == {"p=1", "p=2"}
    Sync(client, 2).advance(becomes(found, known(client, found), ids(2), gone=("p=1",)))
    assert [p.name for p in client.catalog.list_partitions("default.t")] == ["p=2"]
    [left] = client.compactions.show()
    assert left.soft_deleted_location == f"{found.location}/p=1"
    assert left.next_txn_id is not None


@pytest.mark.rule("R17")
def test_a_sync_that_is_asked_again_after_a_lost_reply_is_done(client: MetastoreClient) -> None:
    """Its own write ids are no foreign ones."""
    found = table(client)
    sync = Sync(client, 4)
    sync.advance(becomes(found, NONE, ids(5)))
    before = client.notifications.current_event_id()
    sync.advance(becomes(found, NONE, ids(5)))
    assert client.notifications.current_event_id() == before
    assert visible(client) == ids(5)


def compacted(client: MetastoreClient, highest: int) -> tuple[Compaction, int]:
    client.compactions.enqueue("default.t")
    request = client.compactions.claim("worker")
    txn = client.open_txn(type=TxnType.COMPACTION)
    client.compactions.update_state(request, highest_write_id=highest, txn_id=txn)
    client.compactions.mark_compacted(request, txn)
    client.commit_txn(txn)
    return client.compactions.get(request.id), txn


def uncleaned(client: MetastoreClient) -> set[int]:
    found = client.database.read(lambda connection: uncleaned_compactions(connection, TableName("default", "t")))
    return set().union(*found.values())


@pytest.mark.every_database
def test_what_compaction_replaced_is_trusted_only_while_no_cleaner_was_there(client: MetastoreClient) -> None:
    """A Cleaner notes that it begins, and its failures; what it ended may have removed what others replaced, too.

    t1  compactions 1 and 2 of the same write ids: both untouched
    t2  a Cleaner begins with 1: neither is trusted; it stops: both are
    t3  it fails: neither
    t4  1 is cleaned: 2 is not trusted, though its request says nothing
    t5  compaction 3: trusted
    """
    table(client)
    with client.transaction({"default.t": "insert"}):
        pass
    one, first = compacted(client, 1)
    assert uncleaned(client) == {first}
    client.compactions.start_cleaning(one)
    assert uncleaned(client) == set()
    client.compactions.stop_cleaning(one)
    assert uncleaned(client) == {first}
    client.compactions.retry_cleaning(one, "disk on fire", 300_000)
    assert uncleaned(client) == set()
    client.database.run(
        lambda connection: connection.execute(
            sa.update(COMPACTION_QUEUE).values(CQ_RETRY_RETENTION=0, CQ_ERROR_MESSAGE=None)
        )
    )
    with client.transaction({"default.t": "insert"}):
        pass
    _, second = compacted(client, 2)
    assert uncleaned(client) == {first, second}
    client.compactions.mark_cleaned(client.compactions.get(one.id))
    assert uncleaned(client) == set()
    client.database.run(lambda connection: connection.execute(sa.update(COMPLETED_COMPACTIONS).values(CC_END=1)))
    assert uncleaned(client) == {second}


def test_the_log_tells_of_what_came(client: MetastoreClient) -> None:
    """So that caches and watchers of the replica, and replicas of it, hear of it."""
    found = table(client)
    before = client.notifications.current_event_id()
    Sync(client, 1).advance(becomes(found, NONE, ids(5, [], [2])))
    told = [event.type for event in client.events_after(before)]
    assert told.count("ALLOC_WRITE_ID_EVENT") == 1
    assert told.count("COMMIT_TXN") == 3
    assert told.count("ABORT_TXN") == 1


@pytest.mark.rule("R4")
@pytest.mark.every_database
def test_the_txn_of_a_sync_is_remembered_while_something_may_carry_its_id(client: MetastoreClient) -> None:
    """Its places are those of a compaction; a commit takes them away, an abort leaves them to the Cleaner."""
    found, places = table(client, partitioned=True), [("default.t", "p=1", 3), ("default.t", None, 2)]

    def named(txn_id: int) -> list[tuple[object, ...]]:
        c = TXN_COMPONENTS.c
        rows = sa.select(c.TC_PARTITION, c.TC_OPERATION_TYPE, c.TC_WRITEID).where(c.TC_TXNID == txn_id)
        return sorted(map(tuple, client.database.read(lambda connection: connection.execute(rows).all())), key=str)

    given_up = client.replica("p").open_txns([-4])[0]
    for _ in range(2):
        client.replica("p").name_places(given_up, places)
    assert named(given_up) == [("p=1", "c", 3), (None, "c", 2)]
    client.abort_txns([given_up])
    assert len(named(given_up)) == 2
    with pytest.raises(TxnAbortedError):
        client.replica("p").name_places(given_up, places)
    sync = Sync(client, 5)
    client.replica("p").name_places(sync.txn, places)
    sync.advance(becomes(found, NONE, ValidWriteIdList(3)))
    assert named(sync.txn) == []


@pytest.mark.rule("R4")
@pytest.mark.every_database
@pytest.mark.parametrize("end", ["mark_cleaned", "mark_failed", "mark_refused"])
def test_compactions_that_a_sync_has_not_seen_refuse_it(client: MetastoreClient, end: str) -> None:
    table(client)
    of_t, of_u = TableName("default", "t"), TableName("default", "u")
    before = client.get_valid_txns()

    def refused(name: TableName, seen: ValidTxnList) -> bool:
        try:
            client.database.run(lambda connection: require_no_compaction(connection, [name], seen))
        except CopyFailedError as error:
            return f"compacts {name} here" in str(error)
        return False

    assert not refused(of_t, before)
    client.compactions.enqueue("default.t")
    request = client.compactions.claim("worker")
    txn_id = client.open_txn(type=TxnType.COMPACTION)
    assert refused(of_t, before)
    assert refused(of_u, before)  # it has not said yet what it compacts
    client.compactions.update_state(request, highest_write_id=0, txn_id=txn_id)
    assert refused(of_t, before)
    assert not refused(of_u, before)
    client.compactions.mark_compacted(request, txn_id)
    client.commit_txn(txn_id)
    for has_ended in (False, True):
        if has_ended:
            why = () if end == "mark_cleaned" else ("its clean-up is given up",)
            getattr(client.compactions, end)(client.compactions.get(request.id), *why)
        assert refused(of_t, before)
        assert not refused(of_t, client.get_valid_txns())


@pytest.mark.rule("R4")
def test_a_compaction_that_was_aborted_before_a_sync_looked_refuses_nothing(client: MetastoreClient) -> None:
    table(client)
    client.compactions.enqueue("default.t")
    request = client.compactions.claim("worker")
    txn_id = client.open_txn(type=TxnType.COMPACTION)
    client.compactions.update_state(request, highest_write_id=0, txn_id=txn_id)
    client.compactions.mark_failed(request, "a test")
    client.abort_txn(txn_id)
    seen = client.get_valid_txns()
    client.database.run(lambda connection: require_no_compaction(connection, [TableName("default", "t")], seen))


@pytest.mark.rule("R11")
@pytest.mark.every_database
@pytest.mark.parametrize("end", ["mark_cleaned", "mark_failed"])
def test_a_sync_notes_the_rebalance_that_its_snapshot_has_seen(client: MetastoreClient, end: str) -> None:
    found, name = table(client), TableName("default", "t")

    def newest(seen: ValidTxnList) -> int:
        return client.database.read(lambda connection: newest_rebalance_seen(connection, name, seen))

    client.compactions.enqueue("default.t", type=CompactionType.REBALANCE)
    request = client.compactions.claim("worker")
    txn_id = client.open_txn(type=TxnType.REBALANCE_COMPACTION)
    client.compactions.update_state(request, highest_write_id=0, txn_id=txn_id)
    client.compactions.mark_compacted(request, txn_id)
    before = client.get_valid_txns()
    client.commit_txn(txn_id)
    after = client.get_valid_txns()
    assert (newest(before), newest(after)) == (0, request.id)
    why = () if end == "mark_cleaned" else ("its clean-up is given up",)
    getattr(client.compactions, end)(client.compactions.get(request.id), *why)
    assert (newest(before), newest(after)) == (0, request.id)
    lists = [NONE, ValidWriteIdList(1), ValidWriteIdList(2), ValidWriteIdList(3)]
    for state_id, rebalanced in ((1, 4), (2, 9), (3, 0)):
        advanced = becomes(found, lists[state_id - 1], lists[state_id], rebalanced=rebalanced)
        Sync(client, state_id).advance(advanced)
        now = client.catalog.get_table("default.t")
        assert known_rebalance(now, 77) == rebalanced
        assert known_rebalance(now, 78) == 0  # of another table


def test_a_rebalance_that_failed_has_changed_no_ids(client: MetastoreClient) -> None:
    table(client)
    client.compactions.enqueue("default.t", type=CompactionType.REBALANCE)
    request = client.compactions.claim("worker")
    txn_id = client.open_txn(type=TxnType.REBALANCE_COMPACTION)
    client.compactions.update_state(request, highest_write_id=0, txn_id=txn_id)
    client.compactions.mark_failed(request, "a test")
    client.abort_txn(txn_id)
    forgotten, name = ValidTxnList(txn_id), TableName("default", "t")  # what is forgotten counts as committed
    assert client.database.read(lambda connection: newest_rebalance_seen(connection, name, forgotten)) == 0
