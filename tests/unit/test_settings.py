"""Settings: where a value comes from, what a bad one says."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from airflow_hive_acid.errors import InvalidArgumentsError
from airflow_hive_acid.settings import SETTINGS, Kind, Settings, Source, parse_duration, read_hive_site

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("text", "unit", "milliseconds"),
    [("300", "s", 300_000), ("12h", "s", 43_200_000), ("5000", "ms", 5000), ("2m", "s", 120_000),
     ("-1", "h", -3_600_000), ("7 days", "s", 604_800_000), ("100SEC", "ms", 100_000),
     ("30 seconds", "ms", 30_000), ("5minutes", "s", 300_000), ("300L", "s", 300_000), ("250000us", "s", 250),
     ("24 hours", "s", 86_400_000), ("90msecs", "s", 90)],
)  # fmt: skip
def test_durations_are_read_as_hive_reads_them(text: str, unit: str, milliseconds: int) -> None:
    assert parse_duration(text, unit) == milliseconds


def test_defaults_are_what_transactions_require() -> None:
    settings = Settings()
    assert settings.flag("hive.support.concurrency")
    assert settings.string("hive.txn.manager").endswith("DbTxnManager")
    assert settings.flag("hive.compactor.initiator.on")
    assert settings.flag("hive.compactor.cleaner.on")
    assert settings.integer("hive.compactor.worker.threads") > 0
    assert settings.string("hive.exec.dynamic.partition.mode") == "nonstrict"
    assert SETTINGS["hive.txn.manager"].hive_default.endswith("DummyTxnManager")


def test_the_strongest_source_wins_whatever_the_case_of_the_key() -> None:
    settings = Settings(
        {
            Source.HIVE_SITE: {"hive.txn.timeout": "600"},
            Source.AIRFLOW: {"HIVE.TXN.TIMEOUT": "400s"},
            Source.CONNECTION: {"metastore.txn.timeout": "200s"},
        }
    )
    assert settings.milliseconds("hive.txn.timeout") == 200_000
    assert settings["hive.txn.timeout"].source is Source.CONNECTION


def test_a_table_overrides_thresholds_under_hives_prefix() -> None:
    table = {"compactorthreshold.hive.compactor.delta.num.threshold": "4", "comment": "flights"}
    settings = Settings().with_overrides(Source.TABLE, table)
    assert settings.integer("hive.compactor.delta.num.threshold") == 4
    assert settings["hive.compactor.delta.num.threshold"].source is Source.TABLE
    request = settings.with_overrides(Source.REQUEST, {"compactorthreshold.hive.compactor.delta.num.threshold": "5"})
    assert request.integer("hive.compactor.delta.num.threshold") == 5


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ("hive.txn.timeout", "soon", "is no duration"),
        ("hive.txn.timeout", "3 weeks", "unknown unit"),
        ("hive.txn.timeout", "0", "at least"),
        ("hive.lock.numretries", "many", "must be a whole number"),
        ("hive.compactor.initiator.on", "maybe", "true or false"),
        ("hive.exec.dynamic.partition.mode", "lax", "one of strict, nonstrict"),
    ],
)
def test_a_bad_value_names_key_value_and_source(key: str, value: str, says: str) -> None:
    with pytest.raises(InvalidArgumentsError, match=says) as caught:
        Settings({Source.HIVE_SITE: {key: value}})
    assert key in str(caught.value)
    assert "hive-site.xml" in str(caught.value)


def test_history_must_hold_the_failures_that_stop_scheduling() -> None:
    with pytest.raises(InvalidArgumentsError, match=r"history\.retention\.failed"):
        Settings({Source.AIRFLOW: {"hive.compactor.initiator.failed.compacts.threshold": "4"}})


def test_an_unknown_key_is_named() -> None:
    with pytest.raises(InvalidArgumentsError, match=r"hive\.no\.such\.key"):
        Settings()["hive.no.such.key"]


def test_hive_site_is_read(tmp_path: Path) -> None:
    path = tmp_path / "hive-site.xml"
    path.write_text(
        "<configuration><property><name>hive.txn.timeout</name><value> 600s </value></property>"
        "<property><name>empty</name></property></configuration>"
    )
    assert read_hive_site(path) == {"hive.txn.timeout": "600s"}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("<configuration>", "cannot be read"),
        ("<settings/>", "no Hadoop configuration"),
        ('<!DOCTYPE x [<!ENTITY a "b">]><configuration/>', "document type"),
    ],
)
def test_a_broken_hive_site_is_refused(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "hive-site.xml"
    path.write_text(text)
    with pytest.raises(InvalidArgumentsError, match=says):
        read_hive_site(path)
    with pytest.raises(InvalidArgumentsError, match="cannot be read"):
        read_hive_site(tmp_path / "absent.xml")


@pytest.mark.parametrize(
    "key", [s.key for s in SETTINGS.values() if s.kind in (Kind.DURATION, Kind.INTEGER, Kind.NUMBER)]
)
def test_no_number_is_taken_that_no_clock_or_column_can_hold(key: str) -> None:
    for text in ("9" * 40, "-" + "9" * 40, "1e400", "-1e400", "NaN", "9" * 30 + "d"):
        with pytest.raises(InvalidArgumentsError, match=re.escape(key)):
            Settings({Source.CONNECTION: {key: text}})


def test_defaults_are_made_once_for_all() -> None:
    """Every hook reads all settings, and hardly any of them is given."""
    one, other = Settings(), Settings({Source.REQUEST: {"hive.txn.timeout": "7s"}})
    given = [setting.setting.key for setting in one if other[setting.setting.key] is not setting]
    assert given == ["hive.txn.timeout"]
