"""Files of plain tables keep names that say a bucket, and get one where they say none; nothing is lost on the way."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from airflow_hive_acid.errors import InvalidArgumentsError
from airflow_hive_acid.filesystem import AnyFilesystem
from airflow_hive_acid.format.jobs import Column
from airflow_hive_acid.format.names import parse_original_file
from airflow_hive_acid.maintenance.warehouse.conversion import name_originals
from tests.tables import flat_table

if TYPE_CHECKING:
    from pathlib import Path

    from airflow_hive_acid.metastore.catalog.values.model import Table

SPARK = [f"part-{i:05d}-0b1c2d3e-aaaa-bbbb-cccc-121314151617-c000.zstd.orc" for i in range(3)]


def table(root: Path, buckets: int = 0) -> Table:
    return flat_table(
        db="default", name="t", id=1, location=root.as_uri(), columns=(Column("id", "int"),), partition_columns=(),
        properties={}, owner=None, type="EXTERNAL_TABLE", bucket_columns=("id",) if buckets else (),
        bucket_count=buckets or -1,
    )  # fmt: skip


def fill(root: Path, *names: str) -> None:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)


def contents(root: Path) -> list[str]:
    return sorted(p.read_text() for p in root.rglob("*") if p.is_file())


def convert(root: Path, buckets: int = 0) -> int:
    return len(name_originals(AnyFilesystem(), table(root, buckets), [root.as_uri()]))


def test_names_that_hive_knows_stay(tmp_path: Path) -> None:
    names = ["000000_0", "000000_0_copy_1", "000001_0", "HIVE_UNION_SUBDIR_1/000000_0", "_SUCCESS", ".hidden"]
    fill(tmp_path, *names)
    assert convert(tmp_path) == 0
    assert contents(tmp_path) == sorted(names)


def test_names_of_spark_become_buckets_behind_those_there_are(tmp_path: Path) -> None:
    fill(tmp_path, "000000_0", "000004_0", *SPARK, "_SUCCESS")
    before = contents(tmp_path)
    assert convert(tmp_path) == 3
    assert contents(tmp_path) == before
    originals = {p.read_text(): parse_original_file(p.name) for p in tmp_path.iterdir() if p.name[0] != "_"}
    assert [originals[name].bucket for name in SPARK] == [5, 6, 7]  # type: ignore[union-attr]
    assert convert(tmp_path) == 0


@pytest.mark.parametrize("stop", range(3))
def test_an_interrupted_conversion_is_finished_by_the_next(tmp_path: Path, stop: int) -> None:
    """
    t1  files 0 … stop-1 have their new names
    t2  file stop has been copied to its new name and not removed from its old one
    t3  the conversion is started again
    """
    fill(tmp_path, *SPARK)
    plan = tmp_path.parent / "plan"
    fill(plan, *SPARK)
    convert(plan)
    new = {p.read_text(): p.name for p in plan.iterdir()}
    for name in SPARK[:stop]:
        (tmp_path / name).rename(tmp_path / new[name])
    (tmp_path / new[SPARK[stop]]).write_text("half")
    assert convert(tmp_path) == 3 - stop
    assert contents(tmp_path) == sorted(SPARK)
    assert all(parse_original_file(p.name) for p in tmp_path.iterdir())


def test_more_files_than_buckets_share_numbers(tmp_path: Path) -> None:
    fill(tmp_path, *(f"part-{i:05d}.orc" for i in range(4100)))
    assert convert(tmp_path) == 4100
    names = [p.name for p in tmp_path.iterdir()]
    assert len(set(names)) == 4100
    assert {parse_original_file(name).bucket for name in names} == set(range(4096))  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("names", "buckets", "words"),
    [
        (["delta_0000001_0000001/bucket_00000"], 0, "is named like a directory of an ACID table"),
        (["base_5/x"], 0, "move it away before default.t becomes transactional"),
        (["000000_0", SPARK[0]], 4, "is bucketed, and .*part-00000.* does not say which bucket"),
        (["000004_0"], 4, "is bucket 4, and default.t has the buckets 0 to 3"),
        (["005000_0"], 0, "is bucket 5000, and default.t has the buckets 0 to 4095"),
    ],
)
def test_what_can_belong_to_no_acid_table_is_refused(
    tmp_path: Path, names: list[str], buckets: int, words: str
) -> None:
    fill(tmp_path, "part-1.orc" if not buckets else "000001_0", *names)
    before = {p.name for p in tmp_path.rglob("*")}
    with pytest.raises(InvalidArgumentsError, match=words):
        convert(tmp_path, buckets)
    assert {p.name for p in tmp_path.rglob("*")} == before
