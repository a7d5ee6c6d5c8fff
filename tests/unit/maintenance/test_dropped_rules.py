"""Who needs what lies in the directory of a dropped partition."""

from __future__ import annotations

import pytest

from airflow_hive_acid.filesystem import FileInfo
from airflow_hive_acid.format.write_ids import ValidWriteIdList
from airflow_hive_acid.maintenance.cleaner.dropped import judge_dropped

DROP = 5
#: 7 is open, 8 is aborted, nothing above 10 was given when the list was made.
LIST = ValidWriteIdList(10, frozenset({7}), frozenset({8}))


def kind_of(name: str, write_ids: ValidWriteIdList = LIST) -> str:
    is_dir = name.endswith("/")
    entry = FileInfo(f"file:/t/{name}".rstrip("/"), name.rstrip("/"), 1, is_dir)
    found = judge_dropped([entry], DROP, write_ids)
    return next(kind for kind in ("going", "hiding", "beginning", "later") if getattr(found, kind))


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("delta_0000001_0000005/", "going"),
        ("delete_delta_0000005_0000005_0001/", "going"),
        ("base_0000004/", "going"),
        ("base_0000004_v0000077/", "going"),
        ("base_0000005/", "hiding"),
        ("000000_0", "going"),
        ("_orc_acid_version", "going"),
        ("HIVE_UNION_SUBDIR_1/", "going"),
        ("delta_0000007_0000007_0000/", "beginning"),
        ("delta_0000006_0000009/", "beginning"),
        ("delta_0000011_0000011/", "beginning"),
        ("base_0000007/", "beginning"),
        ("delta_0000008_0000008_0000/", "going"),
        ("base_0000008/", "going"),
        ("delta_0000006_0000006_0000/", "later"),
        ("base_0000009/", "later"),
        ("base_0000010_v0000077/", "later"),
    ],
)
def test_each_directory_goes_with_the_drop_or_stays_for_whoever_writes_it(name: str, kind: str) -> None:
    assert kind_of(name) == kind


def test_staging_stays_as_long_as_somebody_writes() -> None:
    assert kind_of(".hive-staging_hive_2026/") == "beginning"
    assert kind_of(".hive-staging_hive_2026/", ValidWriteIdList(10)) == "going"


def test_what_lies_in_directories_goes_or_stays_with_them() -> None:
    entry = FileInfo("file:/t/delta_0000001_0000001/bucket_00000", "delta_0000001_0000001/bucket_00000", 1, False)
    found = judge_dropped([entry], DROP, LIST)
    assert [found.going, found.hiding, found.beginning, found.later] == [(), (), (), ()]
