"""When the Initiator asks for a compaction, and what it says when it does not."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from airflow_hive_acid.errors import InvalidArgumentsError
from airflow_hive_acid.format.acid_state import FileEntry, acid_state
from airflow_hive_acid.format.jobs import Column
from airflow_hive_acid.format.write_ids import ValidTxnList, ValidWriteIdList
from airflow_hive_acid.maintenance.decisions import Decision, Kind
from airflow_hive_acid.maintenance.initiator.rules import (
    CandidateFacts,
    Rule,
    Skip,
    decide,
    skip_reason,
    urgency,
)
from airflow_hive_acid.maintenance.thresholds import InitiatorThresholds, job_defaults
from airflow_hive_acid.maintenance.warehouse.directories import DirectorySizes
from airflow_hive_acid.metastore.compaction.horizon import Holder
from airflow_hive_acid.metastore.compaction.measures import Measure
from airflow_hive_acid.metastore.compaction.model import (
    Candidate,
    Compaction,
    CompactionState,
    CompactionType,
    Resource,
)
from airflow_hive_acid.metastore.compaction.writers import OpenWriter
from airflow_hive_acid.settings import Settings
from tests.tables import flat_table

if TYPE_CHECKING:
    from airflow_hive_acid.metastore.catalog.values.model import Table

DEFAULTS = InitiatorThresholds.of(Settings())
CANDIDATE = Candidate(Resource("default", "t"))
TRANSACTIONAL = {"transactional": "true", "transactional_properties": "default"}


def table(properties: dict[str, str] | None = None, *keys: Column, **stored: Any) -> Table:
    own = {**TRANSACTIONAL, **(properties or {})}
    return flat_table(
        "default", "t", 1, "file:/w/t", (Column("id", "int"),), keys, own, "u", "MANAGED_TABLE",
        **stored,
    )  # fmt: skip


def facts(**changes: object) -> CandidateFacts:
    known: dict[str, object] = {
        "candidate": CANDIDATE, "table": table(), "database_properties": {}, "partition_exists": True, "active": None,
        "failing": False,
    }  # fmt: skip
    return CandidateFacts(**{**known, **changes})  # type: ignore[arg-type]


@pytest.mark.conformance("C18")
@pytest.mark.parametrize(
    ("base", "delta", "count", "kind"),
    [
        (20, 4, 1, Kind.MAJOR),
        (50, 4, 1, Kind.NOTHING),
        (200, 11, 11, Kind.MINOR),
        (0, 11, 11, Kind.MAJOR),
        (0, 2, 2, Kind.NOTHING),
        (200, 0, 0, Kind.NOTHING),
        (0, 0, 0, Kind.NOTHING),
        (100, 10, 10, Kind.NOTHING),
    ],
)
def test_sizes_and_counts_decide_as_in_hive(base: int, delta: int, count: int, kind: Kind) -> None:
    decision = decide(CANDIDATE, DirectorySizes(base, delta, count), DEFAULTS)
    assert decision.kind is kind
    assert decision.numbers["base_bytes"] == base
    assert decision.numbers["deltas"] == count
    assert decision.reason


def test_the_reason_names_the_numbers_and_the_threshold() -> None:
    assert decide(CANDIDATE, DirectorySizes(20, 4, 1), DEFAULTS).reason == (
        "the deltas have 20% of the base's size, more than 10%"
    )
    assert decide(CANDIDATE, DirectorySizes(2000, 11, 11), DEFAULTS).reason == "11 deltas are more than 10"
    assert str(decide(CANDIDATE, DirectorySizes(0, 11, 11), DEFAULTS)) == (
        "default.t: major compaction: 11 deltas are more than 10, and there is no base yet"
    )


@pytest.mark.conformance("C23")
def test_a_table_that_is_only_a_base_needs_nothing() -> None:
    assert decide(CANDIDATE, DirectorySizes(500, 0, 0), DEFAULTS).kind is Kind.NOTHING


def test_an_obsolete_base_without_deltas_asks_for_a_major_compaction() -> None:
    assert decide(CANDIDATE, DirectorySizes(500, 0, 0, obsolete_bases=1), DEFAULTS).kind is Kind.MAJOR


def test_a_minor_compaction_that_cannot_be_done_becomes_a_major_one() -> None:
    assert decide(CANDIDATE, DirectorySizes(2000, 11, 11), DEFAULTS, minor_possible=False).kind is Kind.MAJOR


@pytest.mark.conformance("C15")
def test_too_many_aborts_ask_for_a_major_compaction() -> None:
    few = replace(DEFAULTS, aborted_txns=10)
    sizes = DirectorySizes(0, 0, 0)
    assert decide(Candidate(Resource("default", "t"), aborted_txns=11), sizes, few).kind is Kind.MAJOR
    assert decide(Candidate(Resource("default", "t"), aborted_txns=10), sizes, few).kind is Kind.NOTHING


@pytest.mark.conformance("C17")
def test_one_old_abort_asks_for_a_minor_compaction() -> None:
    candidate = Candidate(Resource("default", "t"), aborted_txns=1, has_old_abort=True)
    decision = decide(candidate, DirectorySizes(0, 0, 0), DEFAULTS)
    assert decision.kind is Kind.MINOR
    assert "12 hours" in decision.reason


def test_a_table_can_have_thresholds_of_its_own() -> None:
    own = DEFAULTS.for_table(Settings(), {
        "compactorthreshold.hive.compactor.delta.num.threshold": "3",
        "CompactorThreshold.hive.compactor.delta.pct.threshold": "0.5",
        "hive.compactor.delta.num.threshold": "99",
    })  # fmt: skip
    assert (own.delta_num, own.delta_pct) == (3, 0.5)
    assert decide(CANDIDATE, DirectorySizes(20, 4, 4), own).kind is Kind.MINOR
    with pytest.raises(InvalidArgumentsError, match=r"delta\.num\.threshold"):
        DEFAULTS.for_table(Settings(), {"compactorthreshold.hive.compactor.delta.num.threshold": "many"})


def test_a_database_gives_defaults_and_a_request_wins_over_all() -> None:
    number, part = "compactorthreshold.hive.compactor.delta.num.threshold", "hive.compactor.delta.pct.threshold"
    aborted = "COMPACTORTHRESHOLD.hive.compactor.abortedtxn.threshold"
    own = DEFAULTS.for_table(
        Settings(),
        {number: "3"},
        {number: "2", f"compactorthreshold.{part}": "0.5", aborted: "7"},
        {number.upper(): "4"},
    )
    assert (own.delta_num, own.delta_pct, own.aborted_txns) == (4, 0.5, 7)
    assert (own.max_num_delta, own.failed_compactions) == (500, 2)


def test_the_history_must_hold_more_failures_than_count_for_a_table_too() -> None:
    key = "compactorthreshold.hive.compactor.initiator.failed.compacts.threshold"
    assert DEFAULTS.for_table(Settings(), {key: "1"}).failed_compactions == 1
    with pytest.raises(InvalidArgumentsError, match=r"raise hive\.compactor\.history\.retention\.failed"):
        DEFAULTS.for_table(Settings(), {key: "3"})


def test_more_deltas_than_one_job_takes_are_told() -> None:
    decision = decide(CANDIDATE, DirectorySizes(100_000, 1, 501), DEFAULTS)
    assert (decision.kind, decision.numbers["max_num_delta"]) == (Kind.MINOR, 500)
    assert "several partial minor compactions come first" in decision.reason


def test_the_neediest_is_asked_for_first() -> None:
    decisions = [
        decide(CANDIDATE, sizes, DEFAULTS)
        for sizes in (DirectorySizes(1000, 110, 1), DirectorySizes(10**6, 11, 40), DirectorySizes(100, 90, 3))
    ]
    assert [round(urgency(decision), 1) for decision in decisions] == [1.1, 4.0, 9.0]


def test_job_properties_of_a_database_that_its_table_does_not_set() -> None:
    database = {"compactor.a": "1", "Compactor.B": "2", "compactorthreshold.c": "3", "d": "4"}
    assert job_defaults(database, {"COMPACTOR.A": "9"}) == {"Compactor.B": "2"}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"database_properties": {"repl.first.inc.pending": "true"}}, "replication"),
        ({"table": None}, "does not know the table"),
        ({"partition_exists": False}, "does not know the partition"),
        ({"table": table({"transactional": "false"})}, "not transactional"),
        (
            {"table": table({"transactional_properties": "insert_only"}, bucket_count=2)},
            "insert-only and bucketed",
        ),
        ({"table": table({"no_auto_compaction": "true"})}, "table has no_auto_compaction"),
        ({"table": table({"NO_AUTO_COMPACTION": "TRUE"})}, "table has no_auto_compaction"),
        ({"table": table({"No_Auto_Compaction": "True"})}, "table has no_auto_compaction"),
        ({"table": table(sort_columns=(("id", True),))}, "the table is sorted"),
        ({"database_properties": {"no_auto_compaction": "true"}}, "database default has no_auto_compaction"),
        ({"table": table(None, Column("p", "string"))}, "named no partition"),
    ],
)
def test_a_candidate_that_is_left_alone_says_why(changes: dict[str, object], said: str) -> None:
    found = skip_reason(facts(**changes))
    assert found is not None
    assert found.kind is Kind.SKIPPED
    assert said in found.reason


@pytest.mark.conformance("C20")
def test_a_setting_of_the_database_decides_alone() -> None:
    """As in Hive: false in the database switches compaction on for a table that says true."""
    disabled = table({"no_auto_compaction": "true"})
    assert skip_reason(facts(table=disabled, database_properties={"no_auto_compaction": "false"})) is None


def test_a_request_that_is_on_its_way_is_waited_for() -> None:
    active = Compaction(7, CANDIDATE.resource, CompactionType.MAJOR, CompactionState.WORKING, queued=True)
    found = skip_reason(facts(active=active))
    assert found is not None
    assert (found.kind, found.reason, found.request_id, found.again) == (
        Kind.SKIPPED, "request 7 for it is working", 7, True)  # fmt: skip


def test_a_table_whose_compactions_keep_failing_is_given_up() -> None:
    found = skip_reason(facts(failing=True))
    assert found is not None
    assert found.kind is Kind.GIVEN_UP


def test_only_current_directories_are_measured() -> None:
    listing = [
        FileEntry("base_0000005_v0000010/bucket_00000", 100),
        FileEntry("base_0000005_v0000010/_orc_acid_version", 1),
        FileEntry("delta_0000003_0000003_0000/bucket_00000", 1000),
        FileEntry("delta_0000006_0000006_0000/bucket_00000", 7),
        FileEntry("delete_delta_0000006_0000006_0000/bucket_00000", 5),
        FileEntry("delta_0000007_0000007_0000/bucket_00000", 1000),
        FileEntry("_tmp_x/data/delta_0000008_0000008_0000/bucket_00000", 1000),
    ]
    writes = ValidWriteIdList(8, aborted=frozenset({7}), table="default.t").for_compactor()
    sizes = DirectorySizes.of(acid_state(listing, writes, ValidTxnList(20)))
    assert sizes == DirectorySizes(
        100, 12, 2, files=3, delete_deltas=1, delete_bytes=5, base_files=1, base_write_id=5, newest_compaction=10
    )
    assert sizes.measure() == Measure(
        files=3, deltas=2, delete_deltas=1, base_bytes=100, delta_bytes=12, delete_bytes=5
    )
    originals = DirectorySizes.of(acid_state([FileEntry("000000_0", 40)], writes, ValidTxnList(20)))
    assert originals == DirectorySizes(base_bytes=40, delta_bytes=0, deltas=0, files=1, base_files=1)


PCT, NUM = "hive.compactor.delta.pct.threshold", "hive.compactor.delta.num.threshold"


def numbers(base: int, delta: int, deltas: int, **more: float) -> dict[str, float]:
    return {
        "base_bytes": base, "delta_bytes": delta, "deltas": deltas, "delta_pct_threshold": 0.1,
        "delta_num_threshold": 10, **more,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("sizes", "kind", "rule", "reason", "more"),
    [
        (DirectorySizes(30, 4, 1), Kind.MAJOR, PCT,
         "the deltas have 13% of the base's size, more than 10%", {"ratio": 0.1333}),
        (DirectorySizes(500, 0, 0, obsolete_bases=1), Kind.MAJOR, Rule.OBSOLETE_BASE,
         "there are no deltas, and an obsolete base is still there", {"ratio": 0.0}),
        (DirectorySizes(0, 0, 11), Kind.MINOR, NUM, "11 deltas are more than 10", {"ratio": 0.0}),
        (DirectorySizes(0, 1, 11), Kind.MAJOR, NUM, "11 deltas are more than 10, and there is no base yet", {}),
        (DirectorySizes(1, 0, 11), Kind.MINOR, NUM, "11 deltas are more than 10", {"ratio": 0.0}),
        (DirectorySizes(1000, 1, 500), Kind.MINOR, NUM, "500 deltas are more than 10", {"ratio": 0.001}),
        (DirectorySizes(1000, 1, 501), Kind.MINOR, NUM,
         "501 deltas are more than 10 (and than 500: several partial minor compactions come first)",
         {"ratio": 0.001, "max_num_delta": 500}),
        (DirectorySizes(1000, 1, 10, obsolete_bases=1), Kind.NOTHING, Rule.BELOW_THRESHOLDS,
         "no threshold is reached", {"ratio": 0.001}),
        (DirectorySizes(0, 5, 1, hidden_deltas=1), Kind.NOTHING, Rule.BELOW_THRESHOLDS,
         "no threshold is reached; 1 deltas above an open write id do not count yet", {}),
    ],
)  # fmt: skip
def test_a_decision_names_its_rule_its_reason_and_its_numbers(
    sizes: DirectorySizes, kind: Kind, rule: str, reason: str, more: dict[str, float]
) -> None:
    found = decide(CANDIDATE, sizes, DEFAULTS)
    known = numbers(sizes.base_bytes, sizes.delta_bytes, sizes.deltas, **more)
    assert found == Decision(CANDIDATE.resource, kind, reason, known, rule=rule)


def test_a_minor_compaction_that_cannot_be_done_is_told() -> None:
    found = decide(CANDIDATE, DirectorySizes(2000, 11, 11), DEFAULTS, minor_possible=False)
    assert (found.rule, found.reason) == (NUM, "11 deltas are more than 10, and a minor compaction is not possible")


def test_open_writers_are_named_and_looked_at_again() -> None:
    writers = (OpenWriter(Holder(7, "ann"), 5), OpenWriter(Holder(8, ""), 4))
    found = decide(CANDIDATE, DirectorySizes(500, 0, 0, hidden_deltas=2), DEFAULTS, writers=writers)
    assert found == Decision(
        CANDIDATE.resource, Kind.NOTHING,
        "no threshold is reached; 2 deltas above an open write id do not count yet",
        numbers(500, 0, 0, first_open_write_id=4, hidden_deltas=2, ratio=0.0), rule=Rule.BELOW_THRESHOLDS,
        blocked_by=("txn 7 (ann) is open and has write id 5", "txn 8 is open and has write id 4"), again=True,
    )  # fmt: skip


@pytest.mark.conformance("C15")
def test_aborts_are_told_with_their_number_or_their_age() -> None:
    many = decide(replace(CANDIDATE, aborted_txns=1001), DirectorySizes(0, 0, 0), DEFAULTS)
    assert many == Decision(
        CANDIDATE.resource, Kind.MAJOR, "1001 writes of aborted txns are more than 1000",
        numbers(0, 0, 0, aborted_txns=1001), rule="hive.compactor.abortedtxn.threshold",
    )  # fmt: skip
    old = decide(
        replace(CANDIDATE, aborted_txns=1, has_old_abort=True), DirectorySizes(0, 0, 0),
        replace(DEFAULTS, aborted_age_ms=5_400_000),
    )  # fmt: skip
    assert old == Decision(
        CANDIDATE.resource, Kind.MINOR, "an aborted txn has left writes for more than 1.5 hours",
        numbers(0, 0, 0), rule="hive.compactor.aborted.txn.time.threshold",
    )  # fmt: skip


def test_the_need_is_the_largest_of_number_size_and_aborts_over_their_thresholds() -> None:
    def need(**known: float) -> float:
        return urgency(Decision(CANDIDATE.resource, Kind.MAJOR, "", known))

    assert need(deltas=20, delta_num_threshold=10) == 2
    assert need(ratio=0.5, delta_pct_threshold=0.25) == 2
    assert need(ratio=0.5, delta_pct_threshold=0.25, deltas=30, delta_num_threshold=10, aborted_txns=2.5) == 3
    assert need(aborted_txns=7, deltas=30, delta_num_threshold=10) == 7
    assert need(deltas=20, delta_num_threshold=0) == 20
    assert need(deltas=20) == 20
    assert need() == 0


@pytest.mark.parametrize(
    ("changes", "skip"),
    [
        ({"database_properties": {"repl.first.inc.pending": "TRUE"}},
         Skip(Kind.SKIPPED, Rule.REPLICATION, "its database waits for a first incremental replication", again=True)),
        ({"active": Compaction(7, CANDIDATE.resource, CompactionType.MAJOR, CompactionState.INITIATED, queued=True)},
         Skip(Kind.SKIPPED, Rule.ACTIVE_REQUEST, "request 7 for it is initiated", ("request 7",), True, 7)),
        ({"table": None}, Skip(Kind.SKIPPED, Rule.UNKNOWN_TABLE, "the catalog does not know the table (any more)")),
        ({"table": table({"transactional": "false"})},
         Skip(Kind.SKIPPED, Rule.NOT_TRANSACTIONAL, "the table is not transactional")),
        ({"table": table({"transactional_properties": "insert_only"}, bucket_count=1)},
         Skip(Kind.SKIPPED, Rule.NOT_COMPACTABLE,
              "the table is insert-only and bucketed; such tables are compacted by Hive only")),
        ({"table": table(sort_columns=(("id", True),))},
         Skip(Kind.SKIPPED, Rule.NOT_COMPACTABLE, "the table is sorted, and rows with ids lie in their order")),
        ({"table": table({"no_auto_compaction": " true "})},
         Skip(Kind.SKIPPED, Rule.NO_AUTO_COMPACTION, "the table has no_auto_compaction=true",
              ("property no_auto_compaction of the table",))),
        ({"database_properties": {"no_auto_compaction": "true"}},
         Skip(Kind.SKIPPED, Rule.NO_AUTO_COMPACTION, "the database default has no_auto_compaction=true",
              ("property no_auto_compaction of the database default",))),
        ({"table": table(None, Column("p", "string"))},
         Skip(Kind.SKIPPED, Rule.NO_PARTITION,
              "a write to the partitioned table named no partition, and only partitions are compacted")),
        ({"table": table(None, Column("p", "string")), "candidate": replace(CANDIDATE, aborted_txns=1)},
         Skip(Kind.SKIPPED, Rule.NO_PARTITION,
              "a write to the partitioned table named no partition, and only partitions are compacted; with "
              "hive.compactor.clean.aborts.using.cleaner=true the Cleaner removes what it left")),
        ({"partition_exists": False},
         Skip(Kind.SKIPPED, Rule.UNKNOWN_PARTITION, "the catalog does not know the partition (any more)")),
        ({"failing": True},
         Skip(Kind.GIVEN_UP, "hive.compactor.initiator.failed.compacts.threshold",
              "its last compactions all failed; request one by hand once the cause is gone",
              ("the failures in its history",), again=True)),
        ({"database_properties": {"repl.first.inc.pending": "false"}}, None),
        ({"table": table(bucket_count=2)}, None),
        ({"table": table({"transactional_properties": "insert_only"}, bucket_count=0)}, None),
        ({"table": table({"transactional_properties": "insert_only"})}, None),
        ({"table": table({"transactional_properties": "insert_only"}, sort_columns=(("id", True),))}, None),
        ({"table": table({"no_auto_compaction": "true"}), "failing": True, "by_hand": True}, None),
        ({"table": table(None, Column("p", "string")), "candidate": Candidate(Resource("default", "t", "p=1"))}, None),
    ],
)  # fmt: skip
def test_what_is_left_alone_names_its_rule_and_what_is_in_the_way(
    changes: dict[str, object], skip: Skip | None
) -> None:
    assert skip_reason(facts(**changes)) == skip
