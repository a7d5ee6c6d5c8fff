"""Which jobs may upload files under their final names."""

from types import SimpleNamespace

import pytest

from airflow_hive_acid.engine.transactions.uploads import MOST_ELSEWHERE, uploads_of_job
from airflow_hive_acid.filesystem.s3_uploads import SETTING
from airflow_hive_acid.format.jobs import Uploads
from airflow_hive_acid.settings import Settings, Source


def table(location="s3a://bucket/w/t", **more):
    return SimpleNamespace(**{"location": location, "is_transactional": True, "is_insert_only": False, **more})


def found(*elsewhere, of=None, kind="insert", way="parts"):
    return uploads_of_job(of or table(), kind, way, lambda most: list(elsewhere)[:most])


def test_new_rows_are_uploaded_and_changed_ones_are_not():
    assert found() == found(kind="merge") == Uploads("s3a://bucket/w/t")
    assert [found(kind=kind) for kind in ("update", "delete", "compact")] == [None] * 3


def test_only_full_tables_on_s3_are_uploaded_to():
    others = [table(f"{scheme}://bucket/w/t") for scheme in ("gs", "abfs", "hdfs", "file")]
    others += [table(is_transactional=False), table(is_insert_only=True)]
    assert [found(of=other) for other in others] == [None] * 6


def test_partitions_that_lie_elsewhere_are_named_unless_they_are_too_many():
    assert found("p=1", "p=2") == Uploads("s3a://bucket/w/t", ("p=1", "p=2"))
    names = [f"p={i}" for i in range(MOST_ELSEWHERE + 1)]
    assert len(found(*names[1:]).elsewhere) == MOST_ELSEWHERE
    assert found(*names) is None


@pytest.mark.setting("hive.acid.spark.s3.uploads")
def test_the_setting_keeps_the_copy():
    assert Settings().string(SETTING) == "parts"
    chosen = Settings({Source.REQUEST: {"hive.acid.spark.s3.uploads": "copy"}})
    assert found(way=chosen.string(SETTING)) is None
