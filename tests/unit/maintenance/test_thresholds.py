"""Where the numbers of Initiator and Cleaner come from: which key, which layer, which spelling."""

import pytest

from airflow_hive_acid.errors import InvalidArgumentsError
from airflow_hive_acid.format.table_kinds import property_of
from airflow_hive_acid.maintenance.thresholds import (
    CleanerThresholds,
    InitiatorThresholds,
    job_defaults,
    threshold_overrides,
)
from airflow_hive_acid.settings import Settings, Source

INITIATOR = {
    "hive.compactor.delta.pct.threshold": ("0.25", "delta_pct", 0.25),
    "hive.compactor.delta.num.threshold": ("11", "delta_num", 11),
    "hive.compactor.abortedtxn.threshold": ("12", "aborted_txns", 12),
    "hive.compactor.aborted.txn.time.threshold": ("13s", "aborted_age_ms", 13_000),
    "hive.compactor.initiator.failed.compacts.threshold": ("2", "failed_compactions", 2),
    "hive.compactor.initiator.failed.retry.time": ("15s", "failed_retry_ms", 15_000),
    "hive.compactor.worker.timeout": ("16s", "worker_timeout_ms", 16_000),
    "hive.compactor.fetch.size": ("17", "fetch_size", 17),
    "hive.compactor.max.num.delta": ("18", "max_num_delta", 18),
    "hive.acid.initiator.policy": ("benefit", "policy", "benefit"),
    "hive.acid.initiator.benefit.horizon": ("19s", "benefit_horizon_ms", 19_000),
    "hive.acid.initiator.benefit.other.reads": ("20.5", "benefit_other_reads", 20.5),
    "hive.acid.initiator.benefit.job": ("2.5", "benefit_job", 2.5),
    "hive.acid.initiator.benefit.bound": ("7", "benefit_bound", 7.0),
}
CLEANER = {
    "hive.compactor.cleaner.retention.time.seconds": ("31s", "retention_ms", 31_000),
    "hive.compactor.cleaner.retry.retention.time": ("32s", "retry_pause_ms", 32_000),
    "hive.compactor.cleaner.retry.maxattempts": ("4", "max_attempts", 4),
    "hive.compactor.abortedtxn.threshold": ("34", "aborted_txns", 34),
    "hive.compactor.aborted.txn.time.threshold": ("35s", "aborted_age_ms", 35_000),
    "hive.compactor.fetch.size": ("36", "fetch_size", 36),
}


def settings(table, **more):
    return Settings().with_overrides(Source.CONNECTION, {key: each[0] for key, each in table.items()} | more)


def test_each_threshold_of_the_initiator_has_hives_key():
    found = InitiatorThresholds.of(settings(INITIATOR))
    assert found == InitiatorThresholds(**{field: value for _, field, value in INITIATOR.values()})


def test_each_threshold_of_the_cleaner_has_hives_key():
    found = CleanerThresholds.of(settings(CLEANER, **{"hive.compactor.delayed.cleanup.enabled": "true"}))
    assert found == CleanerThresholds(**{field: value for _, field, value in CLEANER.values()})


def test_nothing_is_retained_unless_delayed_clean_up_is_on():
    found = CleanerThresholds.of(settings(CLEANER, **{"hive.compactor.delayed.cleanup.enabled": "false"}))
    assert found.retention_ms == 0


def test_a_request_overrides_its_table_and_a_table_its_database():
    known = settings({})
    before = InitiatorThresholds.of(known)
    prefix = "compactorthreshold.hive.compactor.delta"
    database = {f"{prefix}.num.threshold": "21", f"{prefix}.pct.threshold": "0.5", "owner": "ann"}
    table = {f"{prefix.upper()}.NUM.THRESHOLD": "22", "comment": "x"}
    request = {f"{prefix}.num.threshold": "23"}
    found = before.for_table(known, table, database, request)
    assert (found.delta_num, found.delta_pct) == (23, 0.5)
    assert before.for_table(known, table, database).delta_num == 22
    assert before.for_table(known, {}, database).delta_num == 21
    assert before.for_table(known, {"comment": "x"}) is before


def test_an_override_of_another_type_is_an_error():
    known = settings({})
    wrong = {"compactorthreshold.hive.compactor.delta.num.threshold": "many"}
    with pytest.raises(InvalidArgumentsError, match=r"hive\.compactor\.delta\.num\.threshold"):
        InitiatorThresholds.of(known).for_table(known, wrong)


def test_of_one_key_in_two_spellings_the_later_layer_wins_in_its_own_spelling():
    found = threshold_overrides({"CompactorThreshold.A.b": "1", "x": "0"}, None, {"compactorthreshold.a.B": "2"})
    assert found == {"a.B": "2"}
    assert threshold_overrides(None) == {}


def test_a_table_keeps_its_job_properties_whatever_its_database_says():
    database = {"compactor.a": "db", "COMPACTOR.B": "db", "compactor.c": "db", "comment": "no"}
    assert job_defaults(database, {"Compactor.A": "t", "compactor.b": "t"}) == {"compactor.c": "db"}
    assert job_defaults(database, {}) == {"compactor.a": "db", "COMPACTOR.B": "db", "compactor.c": "db"}


def test_a_property_is_found_in_any_case_and_its_exact_spelling_wins():
    properties = {"NO_AUTO_COMPACTION": "1", "no_auto_compaction": "2"}
    assert property_of(properties, "no_auto_compaction") == "2"
    assert property_of({"No_Auto_Compaction": "3"}, "no_auto_compaction") == "3"
    assert property_of({"other": "3"}, "no_auto_compaction") is None
