"""Which jobs may upload files under their final names, and why not."""

from types import SimpleNamespace

import pytest

from airflow_hive_acid.filesystem.s3_uploads import SETTING
from airflow_hive_acid.format.jobs import PartitionRef, Uploads
from airflow_hive_acid.maintenance.warehouse.uploads import (
    MOST_ELSEWHERE,
    naming,
    places_elsewhere,
    uploads_of_job,
)
from airflow_hive_acid.settings import Settings, Source


def table(location="s3a://bucket/w/t", **more):
    return SimpleNamespace(**{"location": location, "is_transactional": True, "is_insert_only": False, **more})


def found(of=None, kind="insert", way="parts", **elsewhere):
    return uploads_of_job(of or table(), kind, way, lambda most: dict(list(elsewhere.items())[:most]))


def test_new_and_changed_rows_and_what_compactions_merge_are_uploaded():
    kinds = ("insert", "update", "delete", "merge", "minor", "major", "rebalance")
    assert [found(kind=kind) for kind in kinds] == [Uploads("s3a://bucket/w/t")] * 7
    assert found(kind="another") is None


def test_only_full_tables_on_s3_are_uploaded_to():
    others = [table(f"{scheme}://bucket/w/t") for scheme in ("gs", "abfs", "hdfs", "file")]
    others += [table(is_transactional=False), table(is_insert_only=True)]
    assert [found(of=other) for other in others] == [None] * 6


def test_places_of_partitions_that_lie_elsewhere_are_told_unless_they_are_too_many():
    uploads = found(**{"p=1": "s3a://bucket/far/", "p=2": "s3a://bucket/w/t/p=02"})
    assert uploads == Uploads("s3a://bucket/w/t", {"p=1": "s3a://bucket/far", "p=2": "s3a://bucket/w/t/p=02"})
    places = {"p=1": "s3a://bucket/far", "p=2": "s3a://bucket/w/t/p=02", "p=3": "s3a://bucket/w/t/p=3"}
    assert {name: uploads.place_of(name) for name in places} == places
    assert uploads.place_of("") == "s3a://bucket/w/t"
    names = {f"p={i}": f"s3a://bucket/{i}" for i in range(MOST_ELSEWHERE + 1)}
    assert found(**names) is None
    names.pop("p=0")
    assert len(found(**names).elsewhere) == MOST_ELSEWHERE


@pytest.mark.parametrize(
    "place", ["s3a://other/far", "s3://bucket/far", "hdfs://n/far", "s3a://bucket/w//far", "far/.."]
)
def test_what_lies_in_another_bucket_or_may_be_two_places_is_copied(place):
    uploads = found(**{"p=1": place})
    assert (uploads, uploads.place_of("p=1")) == (Uploads("s3a://bucket/w/t", {"p=1": ""}), "")


def test_a_partition_lies_elsewhere_when_its_place_is_not_what_its_name_says():
    places = {
        "p=1": "s3a://bucket/w/t/p=1/",
        "p=2": "s3a://bucket/w/t/p=02",
        "p=3": "s3a://bucket/far",
        "": "s3a://b/t",
    }
    refs = [PartitionRef(name, location) for name, location in places.items()]
    assert places_elsewhere(table("s3a://bucket/w/t/"), refs) == {
        "p=2": "s3a://bucket/w/t/p=02",
        "p=3": "s3a://bucket/far",
    }


@pytest.mark.setting("hive.acid.spark.s3.uploads")
def test_the_setting_keeps_the_copy():
    assert Settings().string(SETTING) == "parts"
    chosen = Settings({Source.REQUEST: {"hive.acid.spark.s3.uploads": "copy"}})
    assert found(way=chosen.string(SETTING)) is None


@pytest.mark.parametrize(
    ("of", "kind", "way", "why"),
    [
        (
            table("gs://bucket/w/t"),
            "insert",
            "parts",
            "only files on S3 are uploaded under their names, and this is gs",
        ),
        (table(), "update", "copy", "hive.acid.spark.s3.uploads is copy"),
        (table(is_insert_only=True), "insert", "parts", "the table is insert-only"),
        (table(is_transactional=False), "insert", "parts", "the table is without transactions"),
        (table(), "another", "parts", "Spark's own writer writes the files of a another"),
    ],
)
def test_why_files_are_copied_is_said(of, kind, way, why):
    assert naming(of, kind, way) == (False, why)


def test_where_a_rename_costs_nothing_nothing_is_said():
    assert [naming(table(f"{scheme}://host/w/t"), "insert", "parts") for scheme in ("hdfs", "file")] == [None] * 2
    assert naming(table(), "delete", "parts").uploads
