"""Damaged files of a full ACID table are told, never read as fewer rows: every damage x which file x who reads."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyspark
import pytest

from airflow_hive_acid.errors import CorruptTableError, JobFailedError
from airflow_hive_acid.format.jobs import Expected, Select, View
from airflow_hive_acid.spark.accelerator import SESSION_KEY, accelerator
from tests import orc_footers

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = [pytest.mark.crossing("damages x files x readers"), pytest.mark.spark]

INSERTS, DELETES = "delta_0000001_0000001_0000", "delete_delta_0000002_0000002_0000"


def _empty(file: Path) -> None:
    file.write_bytes(b"")


def _three_bytes(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:3])


def _without_its_end(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-10])


def _gone(file: Path) -> None:
    file.unlink()


def _fewer_rows_in_the_footer(file: Path) -> None:
    orc_footers.lie(file, orc_footers.ROWS, 1)


def _fewer_rows_in_the_stripe(file: Path) -> None:
    orc_footers.lie(file, orc_footers.STRIPE, 1)


DAMAGES = (_empty, _three_bytes, _without_its_end, _gone, _fewer_rows_in_the_footer, _fewer_rows_in_the_stripe)
#: Not seen by a scan of Spark's own source: it shows no footers, and the stripes say how much to read.
UNSEEN_BY_A_SCAN_OF_SPARK = (_fewer_rows_in_the_footer, _fewer_rows_in_the_stripe)


@pytest.mark.parametrize("jar", [True, False], ids=["jar", "stock"])
def test_no_damage_to_a_file_is_read_as_fewer_rows(
    acid_table: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, jar: bool
) -> None:
    """Scan, count(*), and both compactions, with the optional jar and without; the error names the file."""
    table = acid_table("id int")
    if jar and accelerator(table.spark) is None:
        pytest.fail("the optional jar is not built")
    table.insert("select cast(id as int) from range(0, 20, 1, 1)")
    table.delete("id < 5")
    whole = tmp_path / "whole"
    shutil.copytree(table.root, whole)
    conf = {} if jar else {SESSION_KEY: "off"}

    def select(query: str) -> object:
        rows = Select(query, f"file:{tmp_path}/rows{len(list(tmp_path.iterdir()))}")
        return table.run(rows, [View("v", table.snapshot())], **conf)

    def scan() -> object:
        return select("select id from v where id >= 0")

    def count() -> object:
        return select("select count(*) from v")

    def compact(kind: str) -> Callable[[], object]:
        def run() -> object:
            with monkeypatch.context() as patch:
                run_step = table.run
                patch.setattr(table, "run", lambda step, *more: run_step(step, *more, **conf))
                return table.compact(kind)

        return run

    readers = {"scan": scan, "count": count, "minor": compact("minor"), "major": compact("major")}
    assert table.rows() == [(i,) for i in sorted(range(5, 20), key=lambda i: repr((i,)))]
    told = 0
    for directory in (INSERTS, DELETES):
        for damage in DAMAGES:
            for name, read in readers.items():
                shutil.rmtree(table.root)
                shutil.copytree(whole, table.root)
                (file,) = (table.root / directory).glob("bucket_*")
                file.with_name(f".{file.name}.crc").unlink(missing_ok=True)
                damage(file)
                before = table.directories()
                if not jar and damage in UNSEEN_BY_A_SCAN_OF_SPARK and name in ("scan", "count"):
                    continue
                if not jar and pyspark.__version__.startswith("3."):
                    # Spark 3.5 does not always say in which file it was; an error it is all the same.
                    with pytest.raises((CorruptTableError, JobFailedError)):
                        read()
                else:
                    with pytest.raises(CorruptTableError, match=directory):
                        read()
                # Staging of a job that failed is the control plane's to remove.
                assert [d for d in table.directories() if not d.startswith("_tmp_")] == before
                told += 1
    assert told == len(DAMAGES) * 2 * 4 - (0 if jar else 2 * 2 * 2)


def test_a_scan_of_sparks_own_source_compares_footers_if_reads_are_verified(
    acid_table: Callable[..., Any], tmp_path: Path
) -> None:
    """Nothing else is known of the table: no number of rows, no manifest."""
    table = acid_table("id int")
    table.insert("select cast(id as int) from range(0, 20, 1, 1)")
    table.delete("id < 5")
    for number, directory in enumerate((INSERTS, DELETES)):
        (file,) = (table.root / directory).glob("bucket_*")
        data = file.read_bytes()
        for damage in UNSEEN_BY_A_SCAN_OF_SPARK:
            damage(file)
            view = View("v", replace(table.snapshot(), expected={"": Expected(footers=True)}))
            rows = Select("select id from v where id >= 0", f"file:{tmp_path}/rows{number}{damage.__name__}")
            with pytest.raises(CorruptTableError, match=f"{directory}/{file.name} has a footer that says"):
                table.run(rows, [view], **{SESSION_KEY: "off"})
            file.write_bytes(data)


@pytest.mark.parametrize("jar", [True, False], ids=["jar", "stock"])
def test_a_count_from_footers_refuses_one_that_contradicts_itself(
    acid_table: Callable[..., Any], tmp_path: Path, jar: bool
) -> None:
    table = acid_table("id int")
    table.insert("select cast(id as int) from range(0, 20, 1, 1)")
    (file,) = (table.root / INSERTS).glob("bucket_*")
    data = file.read_bytes()
    for where in (orc_footers.ROWS, orc_footers.STRIPE, orc_footers.STATISTICS):
        file.write_bytes(data)
        orc_footers.lie(file, where, 3)
        with pytest.raises(CorruptTableError, match="the file is damaged"):
            table.run(
                Select("select count(*) from v", f"file:{tmp_path}/rows{where[0]}"),
                [View("v", table.snapshot())],
                **({} if jar else {SESSION_KEY: "off"}),
            )


def test_a_copy_of_a_delta_under_another_statement_is_not_read_twice(acid_table: Callable[..., Any]) -> None:
    table = acid_table("id int")
    table.insert("select 1")
    table.insert("select 2", write_id=1, statement=3)
    assert table.rows() == [(1,), (2,)], "two statements may well write files of the same size"
    shutil.copytree(table.root / INSERTS, table.root / "delta_0000001_0000001_0007")
    with pytest.raises(CorruptTableError, match="delta_0000001_0000001_0007/bucket_00000 holds rows of statement 0"):
        table.rows()


@pytest.mark.parametrize("jar", [True, False], ids=["jar", "stock"])
def test_a_file_without_row_index_need_not_have_statistics(
    acid_table: Callable[..., Any], tmp_path: Path, jar: bool
) -> None:
    """As a Hive 3.1 leaves one that compacts deltas into one: its statistics count nothing."""
    table = acid_table("id int")
    table.insert("select cast(id as int) from range(0, 20, 1, 1)")
    (file,) = (table.root / INSERTS).glob("bucket_*")
    orc_footers.lie(file, orc_footers.STATISTICS, 0)
    orc_footers.lie(file, orc_footers.STRIDE, 0)
    for name, query, answer in (
        ("count", "select count(*) from v", 20),
        ("sum", "select sum(id) from v where id >= 0", 190),
    ):
        rows = Select(query, f"file:{tmp_path}/{name}")
        table.run(rows, [View("v", table.snapshot())], **({} if jar else {SESSION_KEY: "off"}))
        assert json.loads((tmp_path / name).read_text()) == [answer]
    table.compact("major")
    assert len(table.rows()) == 20
