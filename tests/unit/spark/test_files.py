"""Which files a snapshot reads, and which of them need a delete filter, decided from names alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from airflow_hive_acid.errors import CorruptTableError, WarehouseMissingError
from airflow_hive_acid.format.jobs import PartitionRef, TableSnapshot
from airflow_hive_acid.format.write_ids import ValidWriteIdList
from airflow_hive_acid.spark.hadoop import Entry
from airflow_hive_acid.spark.read.files import SnapshotFiles, plain_files, snapshot_files

if TYPE_CHECKING:
    from collections.abc import Iterable

ROOT = "file:/w/t"


class Listing:
    """A warehouse of names: ``{directory: {name: bytes}}`` made of paths."""

    def __init__(self, *paths: str) -> None:
        self._entries: dict[str, dict[str, Entry]] = {}
        for path in paths:
            text, _, size = path.partition("#")
            parts = text.strip("/").split("/")
            for depth in range(1, len(parts) + 1):
                uri = ROOT + "/" + "/".join(parts[:depth])
                directory = depth < len(parts) or text.endswith("/")
                entry = Entry(uri, 0 if directory else int(size or 10), directory)
                self._entries.setdefault(uri.rpartition("/")[0], {})[uri] = entry

    def qualify(self, uri: str) -> str:
        return uri.replace("file:///", "file:/")

    def exists(self, uri: str) -> bool:
        return uri in self._entries

    def list_many(self, uris: Iterable[str]) -> dict[str, list[Entry] | None]:
        return {u: [*self._entries[u].values()] if u in self._entries else None for u in uris}


def files(*paths: str, write_ids: str = "db.t:20:9223372036854775807::", partitions: str = "") -> SnapshotFiles:
    refs = tuple(PartitionRef(p, f"file:///w/t/{p}", ("x",)) for p in partitions.split()) or (
        PartitionRef("", "file:///w/t"),
    )
    snapshot = TableSnapshot("db.t", "file:///w/t", (), (), refs, write_ids, "100:9223372036854775807::")
    return snapshot_files(Listing(*paths), snapshot, ValidWriteIdList.parse(write_ids))  # type: ignore[arg-type]


def names(found: Iterable[object]) -> list[str]:
    return [f.uri.removeprefix(ROOT + "/") for f in found]  # type: ignore[attr-defined]


def test_only_buckets_that_a_delete_can_reach_are_filtered() -> None:
    found = files(
        "base_0000003/bucket_00000",
        "base_0000003/bucket_00001",
        "delta_0000004_0000004_0000/bucket_00001",
        "delta_0000006_0000006_0000/bucket_00001",
        "delete_delta_0000005_0000005_0000/bucket_00001",
        "base_0000003/_orc_acid_version",
    )
    assert names(found.filtered) == ["base_0000003/bucket_00001", "delta_0000004_0000004_0000/bucket_00001"]
    assert names(found.clean) == ["base_0000003/bucket_00000", "delta_0000006_0000006_0000/bucket_00001"]
    assert found.buckets() == (0, 1)


def test_a_delete_reaches_rows_of_its_own_transaction() -> None:
    found = files("delta_0000004_0000004_0000/bucket_00000", "delete_delta_0000004_0000004_0001/bucket_00000")
    assert names(found.filtered) == ["delta_0000004_0000004_0000/bucket_00000"]


def test_a_delete_of_one_partition_does_not_touch_another() -> None:
    found = files(
        "p=1/delta_0000004_0000004_0000/bucket_00000",
        "p=2/delta_0000004_0000004_0000/bucket_00000",
        "p=1/delete_delta_0000005_0000005_0000/bucket_00000",
        partitions="p=1 p=2 p=3",
    )
    assert [(f.partition, f.bucket) for f in found.filtered] == [(0, 0)]
    assert [(f.partition, f.bucket) for f in found.clean] == [(1, 0)]


def test_files_with_hidden_write_ids_are_filtered_without_any_delete() -> None:
    found = files("delta_0000002_0000006_v0000050/bucket_00000", write_ids="db.t:8:5:5:3")
    assert [f.check_rows for f in found.filtered] == [True]


def test_attempt_suffixes_original_files_and_hidden_names() -> None:
    found = files(
        "000000_0",
        "000000_0_copy_1",
        "_tmp_x/data/delta_0000001_0000001_0000/bucket_00000",
        ".hive-staging/x",
        "-tmp.delta_0000009_0000009_0000/bucket_00000",
        "delta_0000002_0000002_0000/bucket_00000_1",
        "delta_0000003_0000003_0000/000001_0",
    )
    assert names(found.clean) == ["delta_0000002_0000002_0000/bucket_00000_1"]
    assert [(f.write_id, f.bucket, f.in_delta) for f in found.originals] == [(0, 0, False), (0, 0, False), (3, 1, True)]


@pytest.mark.rule("R17")
def test_a_missing_table_directory_is_an_error_and_never_an_empty_table() -> None:
    with pytest.raises(WarehouseMissingError, match=f"{ROOT} of db.t is not there"):
        files()
    with pytest.raises(WarehouseMissingError, match=f"{ROOT} of db.t is not there"):
        files(partitions="p=x")


def test_a_partition_that_was_never_written_is_empty() -> None:
    assert files("p=y/delta_0000001_0000001_0000/bucket_00000", partitions="p=x") == SnapshotFiles((), (), (), ())


@pytest.mark.parametrize(
    ("path", "complaint"),
    [
        ("delete_delta_0000005_0000005_0000/_orc_acid_version", "holds no data file"),
        ("delta_0000005_0000005_0000/bucket_04096", "bucket numbers end at 4095"),
        ("delta_0000004_0000004_0000/bucket_00000#0", "has 0 bytes"),
        ("delta_0000005_0000005_0000/part-00000.orc", "neither a bucket file nor"),
        ("export.orc", "neither a bucket file nor"),
    ],
)
def test_a_layout_that_contradicts_itself_is_damage(path: str, complaint: str) -> None:
    with pytest.raises(CorruptTableError, match=complaint):
        files("delta_0000004_0000004_0000/bucket_00000", path)


def test_plain_tables_are_all_visible_files() -> None:
    snapshot = TableSnapshot("db.t", ROOT, (), (), (PartitionRef("", ROOT),), "", "", transactional=False)
    listing = Listing("part-0.orc", "sub/part-1.orc", "_SUCCESS", ".x/y", "empty#0")
    assert plain_files(listing, snapshot) == [(f"{ROOT}/part-0.orc", 0), (f"{ROOT}/sub/part-1.orc", 0)]  # type: ignore[arg-type]
