"""When the Cleaner may begin, for whom it waits, and what it takes for aborted."""

from __future__ import annotations

from dataclasses import replace

import pytest

from airflow_hive_acid.filesystem import FileInfo
from airflow_hive_acid.format.write_ids import MAX_ID
from airflow_hive_acid.maintenance.cleaner.rules import (
    CleaningDecision,
    TxnFate,
    Verdict,
    aborted_directories,
    attempts,
    may_clean,
    retry_pause_ms,
    write_ids_in_batches,
)
from airflow_hive_acid.metastore.compaction.horizon import Holder, Horizon, RegisteredReaders
from airflow_hive_acid.metastore.compaction.model import Compaction, CompactionState, CompactionType, Resource
from tests.folds import fold_open_txns

OLD = 10_000


def horizon(*rows: tuple[int, str], watermark: int, seen: int = MAX_ID, holders: tuple[Holder, ...] = ()) -> Horizon:
    return Horizon(watermark, seen, fold_open_txns([(i, s, 0, OLD) for i, s in rows], 1000), holders)


def compaction(txn: int | None = 9, next_txn: int | None = 9, highest: int | None = 5) -> Compaction:
    return Compaction(1, Resource("default", "t"), CompactionType.MAJOR, CompactionState.READY_FOR_CLEANING, True,
                      txn_id=txn, next_txn_id=next_txn, highest_write_id=highest)  # fmt: skip


QUIET = horizon((9, "c"), watermark=10)


def test_when_nobody_is_there_it_may_begin() -> None:
    decision = may_clean(compaction(), QUIET, TxnFate.COMMITTED)
    assert decision.verdict is Verdict.CLEAN
    assert decision.numbers == {"watermark": 10, "highest_write_id": 5, "next_txn_id": 9}


@pytest.mark.conformance("K03")
@pytest.mark.parametrize("reader", [8, 9])
def test_a_txn_opened_before_the_commit_holds_it_back_and_is_named(reader: int) -> None:
    """
    t1  reader opens 8 (or 9: after the compaction opened 7, before it committed)
    t2  compaction 7 commits with MAX(TXN_ID) = 9
    t3  the Cleaner looks: the reader may be reading what was replaced
    """
    who = Holder(reader, "ann@host, dag sales")
    decision = may_clean(
        compaction(txn=7, next_txn=9), horizon((reader, "o"), (12, "o"), watermark=reader, holders=(who,)),
        TxnFate.COMMITTED,
    )  # fmt: skip
    assert decision.verdict is Verdict.WAIT
    assert decision.blocked_by == (f"txn {reader} (ann@host, dag sales)",)


def test_a_reader_that_saw_the_compaction_open_holds_it_back() -> None:
    """Its id is above the commit's mark, its snapshot older than the commit: only MIN_HISTORY_LEVEL knows."""
    decision = may_clean(compaction(), horizon((12, "o"), watermark=12, seen=9), TxnFate.COMMITTED)
    assert decision.verdict is Verdict.WAIT
    assert "saw txn 9 open" in decision.reason
    assert may_clean(compaction(), horizon((12, "o"), watermark=12, seen=10), TxnFate.COMMITTED).verdict is (
        Verdict.CLEAN
    )


def test_a_registered_reader_holds_it_back_even_when_the_watermark_allows_it() -> None:
    who = Holder(20, "bob")
    decision = may_clean(compaction(), QUIET, TxnFate.COMMITTED, RegisteredReaders(5, (who,)))
    assert decision.verdict is Verdict.WAIT
    assert decision.blocked_by == ("txn 20 (bob)",)
    assert may_clean(compaction(), QUIET, TxnFate.COMMITTED, RegisteredReaders(6, (who,))).verdict is Verdict.CLEAN


@pytest.mark.parametrize(
    ("fate", "verdict"),
    [(TxnFate.OPEN, Verdict.WAIT), (TxnFate.ABORTED, Verdict.FAIL), (TxnFate.FORGOTTEN, Verdict.FAIL)],
)
@pytest.mark.rule("R17")
def test_a_compaction_that_did_not_commit_is_never_cleaned_up_after(fate: TxnFate, verdict: Verdict) -> None:
    """
    t1  worker marks its request compacted
    t2  worker dies; CQ_NEXT_TXN_ID stays NULL, which Hive's Cleaner takes for permission
    """
    assert may_clean(compaction(next_txn=None), QUIET, fate).verdict is verdict


def test_a_row_from_before_compaction_txns_is_cleaned_by_the_other_rules() -> None:
    assert may_clean(compaction(None, None), QUIET, TxnFate.FORGOTTEN).verdict is Verdict.CLEAN
    assert may_clean(compaction(None, None), QUIET, TxnFate.FORGOTTEN, RegisteredReaders(3)).verdict is Verdict.WAIT


def test_a_txn_that_may_still_appear_is_waited_for() -> None:
    decision = may_clean(compaction(), horizon((9, "c"), watermark=9), TxnFate.COMMITTED)
    assert decision.verdict is Verdict.WAIT
    assert decision.blocked_by == ()


def test_the_cleaners_list_ends_below_every_txn_that_is_open_or_was_seen_open() -> None:
    looked = horizon((3, "a"), (5, "o"), (7, "a"), (9, "c"), watermark=5)
    assert str(looked.txns()) == "4:9223372036854775807::3"
    assert str(replace(looked, min_seen_open=3).txns()) == "2:9223372036854775807::"


def test_pauses_double_and_tell_how_often_it_failed() -> None:
    pauses = [0]
    for _ in range(4):
        pauses.append(retry_pause_ms(pauses[-1], 300_000))
    assert pauses == [0, 300_000, 600_000, 1_200_000, 2_400_000]
    assert [attempts(pause, 300_000) for pause in pauses] == [0, 1, 2, 3, 4]


def test_only_what_certainly_is_aborted_is_taken_for_aborted() -> None:
    names = [
        "delta_0000003_0000003_0000", "delete_delta_0000003_0000003_0001", "base_0000003", "delta_0000004_0000004_0000",
        "delta_0000003_0000005_0000", "delta_0000003_0000004", "base_0000005_v0000012", "base_0000003_v0000013",
        "delta_0000001_0000003_v0000012", "_tmp_x", "delta_", "ds=1",
    ]  # fmt: skip
    listing = [FileInfo(f"file:/w/t/{name}", name, 0, True) for name in names]
    listing.append(FileInfo("file:/w/t/ds=1/delta_0000003_0000003", "ds=1/delta_0000003_0000003", 0, True))
    listing.append(FileInfo("file:/w/t/delta_0000003_0000003", "delta_0000003_0000003", 5, False))
    found = [info.relative for info in aborted_directories(listing, {3, 5}, {12})]
    assert found == [
        "delta_0000003_0000003_0000", "delete_delta_0000003_0000003_0001", "base_0000003", "base_0000005_v0000012",
        "delta_0000001_0000003_v0000012", "ds=1/delta_0000003_0000003",
    ]  # fmt: skip


def test_write_ids_among_those_of_others_in_the_delta_of_a_batch_are_not_forgotten() -> None:
    """R4: rows of write id 3 lie in delta_2_5, which holds committed ones as well; only a compaction takes them out."""
    names = ["delta_0000002_0000005", "delta_0000007_0000008", "delete_delta_0000010_0000012",
             "delta_0000013_0000019_v0000044", "base_0000001", "delta_0000020_0000020_0000"]  # fmt: skip
    listing = [FileInfo(f"file:/w/t/{name}", name, 0, True) for name in names]
    assert write_ids_in_batches(listing, {3, 7, 8, 11, 14, 20}) == {3, 11}
    assert write_ids_in_batches(listing, {2, 3, 4, 5}) == frozenset()


NUMBERS = {"watermark": 10, "highest_write_id": 5, "next_txn_id": 9}
ANN, BOB = Holder(9, "ann"), Holder(12, "bob")


def test_that_nobody_needs_it_is_said_with_the_numbers() -> None:
    assert may_clean(compaction(), QUIET, TxnFate.COMMITTED) == CleaningDecision(
        Verdict.CLEAN, "nobody can need what was replaced any more", NUMBERS
    )
    assert may_clean(compaction(None, None, None), QUIET, TxnFate.FORGOTTEN).numbers == {
        "watermark": 10, "highest_write_id": 0,
    }  # fmt: skip


@pytest.mark.conformance("K03")
def test_of_the_holders_only_those_up_to_the_commit_are_in_the_way() -> None:
    looked = horizon((9, "o"), (12, "o"), watermark=9, holders=(ANN, BOB))
    assert may_clean(compaction(), looked, TxnFate.COMMITTED) == CleaningDecision(
        Verdict.WAIT, "txns up to 9 may read what was replaced", NUMBERS | {"watermark": 9}, (ANN,)
    )
    later = horizon((12, "o"), watermark=9, holders=(BOB,))
    assert may_clean(compaction(), later, TxnFate.COMMITTED) == CleaningDecision(
        Verdict.WAIT, "a txn opened during the commit may still appear; looking again soon", NUMBERS | {"watermark": 9}
    )


def test_who_saw_the_compaction_open_is_named() -> None:
    looked = replace(horizon((12, "o"), watermark=12, seen=9, holders=(ANN,)), saw_oldest=(BOB,))
    assert may_clean(compaction(), looked, TxnFate.COMMITTED) == CleaningDecision(
        Verdict.WAIT, "an open txn saw txn 9 open, so it may not see the compaction",
        NUMBERS | {"watermark": 12, "min_seen_open": 9}, (BOB,),
    )  # fmt: skip


@pytest.mark.rule("R10")
@pytest.mark.parametrize(("highest", "verdict"), [(None, Verdict.CLEAN), (2, Verdict.CLEAN), (3, Verdict.WAIT)])
def test_who_registered_history_is_waited_for_up_to_what_was_compacted(highest: int | None, verdict: Verdict) -> None:
    decision = may_clean(compaction(highest=highest), QUIET, TxnFate.COMMITTED, RegisteredReaders(3, (BOB,)))
    assert decision.verdict is verdict
    assert decision.numbers == NUMBERS | {"highest_write_id": highest or 0, "min_registered_write_id": 3}
    if verdict is Verdict.WAIT:
        assert (decision.reason, decision.holders) == ("a reader needs the history from write id 3 on", (BOB,))


def test_a_reader_of_write_id_1_is_waited_for_only_if_1_was_compacted() -> None:
    decision = may_clean(compaction(highest=None), QUIET, TxnFate.COMMITTED, RegisteredReaders(1, (BOB,)))
    assert decision.verdict is Verdict.CLEAN


@pytest.mark.rule("R17")
@pytest.mark.parametrize(
    ("fate", "verdict", "reason"),
    [
        (TxnFate.OPEN, Verdict.WAIT, "compaction txn 9 has not committed yet"),
        (
            TxnFate.ABORTED, Verdict.FAIL,
            "compaction txn 9 was aborted before it committed; nothing was replaced",
        ),
        (TxnFate.FORGOTTEN, Verdict.FAIL, "compaction txn 9 is not known any more and left no commit"),
        (TxnFate.COMMITTED, Verdict.CLEAN, "nobody can need what was replaced any more"),
    ],
)  # fmt: skip
def test_without_a_commit_the_fate_of_the_compactions_txn_decides(fate: TxnFate, verdict: Verdict, reason: str) -> None:
    decision = may_clean(compaction(next_txn=None), QUIET, fate)
    assert (decision.verdict, decision.reason, decision.holders) == (verdict, reason, ())
    assert decision.numbers == {"watermark": 10, "highest_write_id": 5}


def test_without_a_first_pause_no_attempt_is_counted() -> None:
    assert attempts(300_000, 0) == 0
    assert attempts(1, 1) == 1
    assert attempts(4, 1) == 3
    assert attempts(299_999, 300_000) == 0
    assert retry_pause_ms(1, 300_000) == 2
    assert retry_pause_ms(-1, 300_000) == 300_000


def test_a_range_is_aborted_from_its_first_to_its_last_write_id() -> None:
    """Ids beside the range do not make up for one that is missing in it."""
    listing = [FileInfo("file:/w/t/delta_0000003_0000005", "delta_0000003_0000005", 0, True)]
    assert aborted_directories(listing, {3, 4, 5}, ()) == listing
    for missing in (3, 4, 5):
        assert aborted_directories(listing, {1, 2, 3, 4, 5, 6, 7} - {missing}, ()) == []


def test_what_is_no_directory_does_not_end_the_look_for_those_that_are() -> None:
    names = ["000000_0", "_tmp_x", "base_0000009", "delta_0000002_0000005"]
    listing = [FileInfo(f"file:/w/t/{name}", name, 0, name != "000000_0") for name in names]
    assert write_ids_in_batches(listing, {1, 2, 5, 6, 9}) == {2, 5}
    assert [info.name for info in aborted_directories(listing, {2, 3, 4, 5}, ())] == ["delta_0000002_0000005"]
    dead_first = [FileInfo("file:/w/t/delta_0000006_0000007", "delta_0000006_0000007", 0, True), *listing]
    assert write_ids_in_batches(dead_first, {6, 7, 5}) == {5}
