"""The way in: tables of Iceberg and Delta become ACID tables, at the version that is asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from airflow_hive_acid.engine.statements.foreign_tables import TableImport
from airflow_hive_acid.engine.transactions.claims import Once
from airflow_hive_acid.errors import HiveAcidError, InvalidArgumentsError
from airflow_hive_acid.mirrors.imports import verify_import
from tests.mirror.conftest import ACID

if TYPE_CHECKING:
    from pathlib import Path

    from tests.mirror.conftest import Mirroring

pytestmark = pytest.mark.mirror
ROWS = "SELECT id, s, d, ts, l, p FROM {} ORDER BY id"


@pytest.mark.parametrize("place", ["iceberg:ice.db.way_in", "iceberg:sq.db.way_in", "delta:{}/delta/way_in"])
def test_what_went_out_comes_in_again(mirroring: Mirroring, mirror_home: Path, place: str) -> None:
    m, target = mirroring, place.format(mirror_home)
    m.sql(f"CREATE TABLE t (id int, s string, d decimal(9,2), ts timestamp, l array<struct<a:int>>) "
          f"PARTITIONED BY (p string) {ACID}")  # fmt: skip
    m.sql("INSERT INTO t VALUES (1, 'x', 1.5, '1901-02-03 04:05:06.789', array(named_struct('a', 1)), 'ü/1'), "
          "(2, NULL, NULL, NULL, NULL, NULL), (3, '', -0.01, '2024-01-01 00:00:00', array(), 'b')")  # fmt: skip
    assert m.run(target, ["id"]).todo == "bootstrap"
    before = m.rows(ROWS.format("t"))
    wanted = TableImport.of(target, "u", partition_by="p")
    made = m.engine.import_table(wanted, once=Once(("way in",), "1"))
    assert made.rows == 3
    assert made.version is not None
    assert m.client.catalog.get_table("default.u").properties["hive.acid.imported.version"] == made.version
    assert m.rows(ROWS.format("u")) == before
    found = verify_import(m.client, m.engine, made)
    assert (found.source_rows, found.target_rows, found.partitions) == (3, 3, 3)
    # The source goes on; a retry still has made the table that it made, and older versions can be asked for.
    m.sql("UPDATE t SET s = 'changed' WHERE id = 1; DELETE FROM t WHERE id = 3")
    assert m.run(target).todo == "follow"
    assert m.engine.import_table(wanted, once=Once(("way in",), "1")).to_document() == made.to_document()
    m.engine.import_table(TableImport.of(target, "old", version=made.version, partition_by="p"))
    assert m.rows(ROWS.format("old")) == before
    newer = m.engine.import_table(TableImport.of(target, "u", partition_by="p", replace=True))
    assert newer.version != made.version
    assert m.rows(ROWS.format("u")) == m.rows(ROWS.format("t"))
    # What others write afterwards is no difference; what is different is named.
    m.sql("DELETE FROM u WHERE id = 1")
    assert verify_import(m.client, m.engine, newer).is_equal
    with pytest.raises(HiveAcidError):
        m.engine.import_table(TableImport.of(target, "none", version="999999"))
    assert m.client.catalog.find_tables(["default.none"]) == {}


def test_a_place_without_a_table_is_refused(mirroring: Mirroring, mirror_home: Path) -> None:
    (mirror_home / "empty" / "_delta_log").mkdir(parents=True)
    for source, error in (
        (f"delta:{mirror_home}/empty", InvalidArgumentsError),
        ("iceberg:ice.db.none", HiveAcidError),
    ):
        with pytest.raises(error):
            mirroring.engine.import_table(TableImport.of(source, "u"))
        assert mirroring.client.catalog.find_tables(["default.u"]) == {}
