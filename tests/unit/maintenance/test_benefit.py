"""When the policy ``benefit`` asks for a compaction: a table of cases, and what must hold for all of them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_hive_acid.maintenance.decisions import Decision, Kind
from airflow_hive_acid.maintenance.initiator.benefit import (
    POLICY,
    Benefit,
    CostModel,
    Known,
    Overhead,
    Reads,
    benefits,
    bounds,
    weigh,
)
from airflow_hive_acid.maintenance.initiator.rules import decide, urgency
from airflow_hive_acid.maintenance.thresholds import InitiatorThresholds
from airflow_hive_acid.maintenance.warehouse.directories import DirectorySizes
from airflow_hive_acid.metastore.compaction.model import Candidate, Resource
from airflow_hive_acid.metastore.records.reads import Mark, ReadCount
from airflow_hive_acid.settings import Settings, Source

CANDIDATE = Candidate(Resource("default", "t"))
HOUR = 3_600_000
# Round numbers: a file costs 0.1 s, a thousand events 0.2 s; a compaction 1 s, and 1 s each 10 MB of deltas (minor) or
# of all (major).
MODEL = CostModel(
    open_file=0.1, delete_event=2e-4, event_bytes=10, file_bytes=0, minor_byte=1e-7,
    major_byte=1e-7,
)  # fmt: skip
OWN = {"hive.acid.initiator.benefit.other.reads": "0", "hive.acid.initiator.benefit.job": "1"}
THRESHOLDS = InitiatorThresholds.of(Settings({Source.CONNECTION: OWN}))
MB = 1_000_000


def sizes(deltas: int = 4, delete_deltas: int = 0, *, base: int = 100 * MB, delta_bytes: int = MB, events: int = 0,
          buckets: int = 1) -> DirectorySizes:  # fmt: skip
    """A base of so many bytes, and so many deltas of one file each for a bucket."""
    return DirectorySizes(
        base, delta_bytes, deltas, files=(deltas + (base > 0)) * buckets, delete_deltas=delete_deltas,
        delete_bytes=events * 10, base_files=buckets if base else 0, base_write_id=5 if base else 0,
    )  # fmt: skip


def known(reads: int, since_base: int | None = None, hours: float = 1) -> Known:
    """So many reads since the newest compaction, and since the base."""
    age = round(hours * HOUR)
    found = Reads(reads, age), Reads(reads if since_base is None else since_base, age)
    return Known(*found, marks=ReadCount(), is_first=False)


def decided(found: DirectorySizes, reads: Known | None, thresholds: InitiatorThresholds = THRESHOLDS) -> Decision:
    decision = decide(CANDIDATE, found, bounds(thresholds, reads))
    return weigh(decision, found, reads, thresholds, MODEL)


@pytest.mark.parametrize(
    ("found", "reads", "kind"),
    [
        # Three files less cost a read 0.3 s less; a minor compaction of 1 MB costs 1.1 s.
        (sizes(), known(0), Kind.NOTHING),
        (sizes(), known(3), Kind.NOTHING),
        (sizes(), known(4), Kind.MINOR),
        # A major one costs 11.1 s, and saves four files.
        (sizes(), known(30), Kind.MINOR),
        # 10,000 events cost a read 2 s: a major one pays after 6 reads.
        (sizes(4, 4, events=10_000), known(4), Kind.MINOR),
        (sizes(4, 4, events=10_000), known(6), Kind.MAJOR),
        # What was read before the newest compaction has paid for deletes, too, and not for the files of today.
        (sizes(2, 2, events=10_000), known(1, since_base=1), Kind.NOTHING),
        (sizes(2, 2, events=10_000), known(1, since_base=20), Kind.MAJOR),
        # Without a base a major one costs what a minor one does, and is worth as much.
        (sizes(4, base=0), known(5), Kind.MAJOR),
        # One delta: there is nothing to merge, and a major one costs more than it saves.
        (sizes(1), known(20), Kind.NOTHING),
        (sizes(0, delta_bytes=0), known(1000), Kind.NOTHING),
        # Four buckets: four times the files.
        (sizes(buckets=4), known(1), Kind.MINOR),
    ],
)  # fmt: skip
def test_what_readers_pay_decides(found: DirectorySizes, reads: Known, kind: Kind) -> None:
    decision = decided(found, reads)
    assert decision.kind is kind, decision.reason
    assert decision.reason


def test_the_reason_and_the_numbers_name_each_term() -> None:
    decision = decided(sizes(4, 2, events=10_000), known(4, since_base=5, hours=2))
    assert decision.reason == (
        "it pays: 4 reads are expected; in CPU seconds, a minor one costs 1.09 and saves 0.8; "
        "a major one costs 11.1 and saves 11.6"
    )
    assert {key: decision.numbers[key] for key in list(decision.numbers)[-12:]} == {
        "reads_since_compaction": 4, "hours_since_compaction": 2.0, "reads_since_base": 5, "hours_since_base": 2.0,
        "reads_expected": 4.0, "reads_expected_with_deletes": 5.0, "read_pays_for_files_s": 0.4,
        "read_pays_for_deletes_s": 2.0, "minor_saves_s": 0.8, "minor_costs_s": 1.09, "major_saves_s": 11.6,
        "major_costs_s": 11.09,
    }  # fmt: skip
    assert decision.rule == POLICY
    assert not decision.again
    assert urgency(decision) > 1


def test_what_does_not_pay_yet_is_looked_at_again_without_a_write() -> None:
    """Reads go on when nobody writes."""
    decision = decided(sizes(), known(1))
    assert decision.reason.startswith("no compaction pays yet: 1 reads are expected")
    assert (decision.again, decision.rule) == (True, POLICY)


def test_reads_are_expected_for_as_long_as_they_were_counted_and_within_the_horizon() -> None:
    assert Reads(12, 2 * HOUR).expected(24 * HOUR, 0) == 12
    assert Reads(12, 48 * HOUR).expected(24 * HOUR, 0) == 6
    assert Reads(0, 12 * HOUR).expected(24 * HOUR, 10) == 5
    assert Reads(0, 480 * HOUR).expected(24 * HOUR, 10) == 10
    assert Reads(3, 0).expected(24 * HOUR, 10) == 3
    assert Reads(3, -5).expected(24 * HOUR, 10) == 3  # a clock that was put back


def test_a_table_that_nobody_is_known_to_read_is_compacted_at_the_last_bound() -> None:
    most = THRESHOLDS.delta_num * 5
    assert decided(sizes(most), known(0)).kind is Kind.NOTHING
    decision = decided(sizes(most + 1), known(0))
    assert (decision.kind, decision.rule) == (Kind.MINOR, "hive.compactor.delta.num.threshold")
    assert decision.reason.endswith("the last bound of the policy benefit is 5 times Hive's thresholds")
    assert decided(sizes(1, delta_bytes=51 * MB), known(0)).kind is Kind.MAJOR


def test_the_last_bound_stays_below_what_one_compaction_takes() -> None:
    assert bounds(replace(THRESHOLDS, delta_num=200), known(0)).delta_num == 500
    assert bounds(replace(THRESHOLDS, delta_num=600), known(0)).delta_num == 600


@pytest.mark.parametrize(
    ("reads", "told"),
    [
        (None, "reads are not counted here, run 'hive-acid schema upgrade'"),
        (replace(known(1000), is_first=True), "its reads are counted from now on"),
    ],
)
def test_without_statistics_hives_thresholds_decide(reads: Known | None, told: str) -> None:
    nothing, minor = decided(sizes(10), reads), decided(sizes(11), reads)
    assert (nothing.kind, minor.kind) == (Kind.NOTHING, Kind.MINOR)
    assert minor.rule == "hive.compactor.delta.num.threshold"
    assert told in nothing.reason
    assert nothing.again is (reads is not None)


def test_aborted_writes_count_as_ever() -> None:
    found = weigh(
        decide(replace(CANDIDATE, aborted_txns=1001), sizes(), bounds(THRESHOLDS, known(0))), sizes(), known(0),
        THRESHOLDS, MODEL,
    )  # fmt: skip
    assert found.kind is Kind.MAJOR


# --- what is known about reads --------------------------------------------------------------------------------------


def test_the_first_look_marks_the_count_and_knows_nothing() -> None:
    found = Known.of(ReadCount(40), sizes(), now=1000)
    assert found.is_first
    assert found.since_base == found.since_compaction == Reads(0, 0)
    assert found.marks == ReadCount(40, Mark(0, 40, 1000), Mark(5, 40, 1000))
    assert Known.of(None, sizes(), now=1000).marks == ReadCount(0, Mark(0, 0, 1000), Mark(5, 0, 1000))


def test_a_minor_compaction_starts_the_count_for_files_and_not_for_deletes() -> None:
    """By whomever: a real Hive's leaves its txn in the names, too."""
    before = ReadCount(40, Mark(0, 10, 1000), Mark(5, 4, 500))
    same = Known.of(before, sizes(), now=3000)
    assert (same.since_compaction, same.since_base) == (Reads(30, 2000), Reads(36, 2500))
    assert same.marks == before
    minor = Known.of(before, replace(sizes(), newest_compaction=77), now=3000)
    assert (minor.since_compaction, minor.since_base) == (Reads(0, 0), Reads(36, 2500))
    assert minor.marks == ReadCount(40, Mark(77, 40, 3000), Mark(5, 4, 500))


def test_a_new_base_starts_both_counts() -> None:
    """An INSERT OVERWRITE leaves no txn in its name."""
    before = ReadCount(40, Mark(0, 10, 1000), Mark(5, 4, 500))
    found = Known.of(before, replace(sizes(), base_write_id=9), now=3000)
    assert (found.since_compaction, found.since_base) == (Reads(0, 0), Reads(0, 0))
    assert not found.is_first


def test_a_count_that_went_backwards_is_no_negative_number_of_reads() -> None:
    """Somebody has deleted the row, and another one began."""
    found = Known.of(ReadCount(1, Mark(0, 10, 1000), Mark(5, 10, 1000)), sizes(), now=3000)
    assert found.since_compaction.counted == found.since_base.counted == 0


# --- properties -----------------------------------------------------------------------------------------------------

SIZES = st.builds(
    sizes,
    deltas=st.integers(1, 40),
    base=st.sampled_from((0, 1, MB, 100 * MB, 10_000 * MB)),
    delta_bytes=st.integers(0, 100 * MB),
    buckets=st.integers(1, 8),
)
READS = st.integers(0, 10_000)
DELETES = st.integers(0, 1_000_000)


def with_deletes(found: DirectorySizes, events: int) -> DirectorySizes:
    """The same with all of its deltas delete deltas of so many events more; their bytes are beside those of rows."""
    return replace(
        found, delete_deltas=found.deltas, delete_bytes=events * 10, delta_bytes=found.delta_bytes + events * 10
    )


@given(SIZES, READS, READS, DELETES)
def test_more_reads_never_make_a_compaction_less_likely(
    found: DirectorySizes, fewer: int, more: int, events: int
) -> None:
    fewer, more = sorted((fewer, more))
    found = with_deletes(found, events) if events else found
    if decided(found, known(fewer)).kind in (Kind.MINOR, Kind.MAJOR):
        assert decided(found, known(more)).kind in (Kind.MINOR, Kind.MAJOR)


@given(SIZES, READS, DELETES, DELETES)
def test_more_deletes_never_make_a_read_cheaper_and_save_more_for_it(
    found: DirectorySizes, reads: int, fewer: int, more: int
) -> None:
    fewer, more = sorted((fewer, more))
    few, many = with_deletes(found, fewer), with_deletes(found, more)
    assert Overhead.of(many, MODEL).deletes >= Overhead.of(few, MODEL).deletes
    assert benefits(many, known(reads), THRESHOLDS, MODEL)[1].saved >= (
        benefits(few, known(reads), THRESHOLDS, MODEL)[1].saved
    )


@given(SIZES, READS, DELETES, DELETES)
def test_more_deletes_never_make_a_compaction_less_likely(
    found: DirectorySizes, reads: int, fewer: int, more: int
) -> None:
    fewer, more = sorted((fewer, more))
    if decided(with_deletes(found, fewer), known(reads)).kind in (Kind.MINOR, Kind.MAJOR):
        assert decided(with_deletes(found, more), known(reads)).kind in (Kind.MINOR, Kind.MAJOR)


@given(SIZES, READS, DELETES)
def test_what_is_asked_for_pays_or_is_beyond_a_bound(found: DirectorySizes, reads: int, events: int) -> None:
    found = with_deletes(found, events) if events else found
    decision = decided(found, known(reads))
    if decision.rule == POLICY and decision.kind is not Kind.NOTHING:
        chosen = {one.kind: one for one in benefits(found, known(reads), THRESHOLDS, MODEL)}
        assert chosen[decision.kind].net > 0
        assert chosen[decision.kind].net == max(one.net for one in chosen.values())


def test_a_benefit_is_what_is_saved_without_what_it_costs() -> None:
    assert Benefit(Kind.MINOR, 3.0, 1.0).net == 2.0
