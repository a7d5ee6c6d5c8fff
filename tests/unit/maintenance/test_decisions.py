"""What a decision says of itself: a line for a log, and plain values for the record."""

from dataclasses import replace

from airflow_hive_acid.maintenance.decisions import CleaningOutcome, CompactionOutcome, Decision, Kind
from airflow_hive_acid.metastore.compaction.horizon import Holder
from airflow_hive_acid.metastore.compaction.model import CompactionType, Resource

PLACE = Resource("db", "t", "ds=1")


def test_a_decision_names_its_object_request_kind_and_reason():
    decision = Decision(PLACE, Kind.MAJOR, "11 deltas, more than 10", request_id=42)
    assert str(decision) == f"{PLACE} (request 42): major compaction: 11 deltas, more than 10"
    assert str(replace(decision, request_id=None)) == f"{PLACE}: major compaction: 11 deltas, more than 10"
    outcome = CompactionOutcome(42, PLACE, CompactionType.MAJOR, Kind.FAILED, "no Java")
    assert str(outcome) == f"{PLACE} (request 42): failed: no Java"


def test_only_a_compaction_with_a_request_is_enqueued():
    """An explanation by hand decides MAJOR, too, and enqueues nothing; a request may be one that was refused."""
    assert Decision(PLACE, Kind.MAJOR, "", request_id=1).enqueued
    assert Decision(PLACE, Kind.MINOR, "", request_id=1).enqueued
    assert not Decision(PLACE, Kind.MAJOR, "").enqueued
    assert not Decision(PLACE, Kind.NOT_ACCEPTED, "", request_id=1).enqueued


def test_a_cleaning_says_what_went_and_for_whom_the_rest_stays():
    outcome = CleaningOutcome(PLACE, Kind.CLEANED, "nobody reads them")
    assert str(outcome) == f"{PLACE}: cleaned: nobody reads them"
    assert str(replace(outcome, removed=("file:/w/t/delta_1_1", "file:/w/t/delta_2_2"))) == (
        f"{PLACE}: cleaned: nobody reads them; removed: delta_1_1, delta_2_2"
    )
    assert str(replace(outcome, request_id=42)) == f"{PLACE} (request 42): cleaned: nobody reads them"
    many = tuple(f"file:/w/t/delta_{i}_{i}" for i in range(12))
    assert str(replace(outcome, removed=many)).endswith("delta_8_8, delta_9_9, and 2 more")
    assert str(replace(outcome, removed=many[:10])).endswith("delta_8_8, delta_9_9")
    kept = replace(outcome, kind=Kind.WAITING, removed=(), blocked_by=("txn 7", "pin 'a'"))
    assert str(kept) == f"{PLACE}: waiting: nobody reads them; kept for txn 7, pin 'a'"


def test_the_record_of_a_cleaning_has_names_and_each_blocker_once():
    holder = Holder(7, "ann@host", user="ann", host="host", agent="airflow/dag")
    uris = tuple(f"file:/w/t/delta_{i}_{i}" for i in range(201))
    outcome = CleaningOutcome(
        PLACE,
        Kind.CLEANED,
        "",
        {"files": 3},
        removed=uris,
        trashed=uris[:200],
        kept=("file:/w/t/base_9",),
        blocked_by=(str(holder), "pin 'a'"),
        holders=(holder,),
    )
    details = outcome.details()
    assert details["removed"][198:] == ["delta_198_198", "delta_199_199", "and 1 more"]
    assert details["trashed"][-1] == "delta_199_199"
    assert len(details["trashed"]) == 200
    assert {key: details[key] for key in ("numbers", "kept", "for")} == {
        "numbers": {"files": 3},
        "kept": ["base_9"],
        "for": [{"txn": 7, "user": "ann", "host": "host", "agent": "airflow/dag"}, {"what": "pin 'a'"}],
    }
