"""The primary moves to Iceberg or Delta and back, with real targets."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from airflow_hive_acid.engine.statements.foreign_tables import TableImport
from airflow_hive_acid.errors import HandedOverError, MirrorDivergedError
from airflow_hive_acid.mirrors.cut_over import cut_over, retire, take_back
from tests.mirror.conftest import ACID
from tests.mirror.test_refusals import written

if TYPE_CHECKING:
    from pathlib import Path

    from tests.mirror.conftest import Mirroring

pytestmark = pytest.mark.mirror


@pytest.mark.parametrize("place", ["iceberg:ice.db.over", "delta:{}/over"])
def test_the_primary_moves_over_and_back_and_over_for_good(mirroring: Mirroring, mirror_home: Path, place: str) -> None:
    m, target = mirroring, place.format(mirror_home)
    m.sql(f"CREATE TABLE t (id int, s string) {ACID}", "INSERT INTO t VALUES (1, 'x'), (2, 'y')")
    m.run(target, ["id"])
    m.sql("UPDATE t SET s = 'late' WHERE id = 2")
    assert cut_over(m.client, m.opened, "default.t", target).target_rows == 2
    with pytest.raises(HandedOverError):
        m.sql("INSERT INTO t VALUES (3, 'z')")
    assert m.rows("SELECT id, s FROM t ORDER BY id") == [[1, "x"], [2, "late"]]
    take_back(m.client, m.opened, "default.t", target)
    m.sql("INSERT INTO t VALUES (3, 'z')")
    assert m.run(target).todo == "follow"
    assert cut_over(m.client, m.opened, "default.t", target).target_rows == 3
    # Now readers and writers are there: what they write is not given up by mistake, and can come back another way.
    written(m, target, "INSERT INTO {} VALUES (4, 'there')")
    with pytest.raises(MirrorDivergedError, match="written since"):
        take_back(m.client, m.opened, "default.t", target)
    m.engine.import_table(TableImport.of(target, "back"))
    assert m.rows("SELECT max(id) FROM back") == [[4]]
    retire(m.client, m.opened, "default.t", target)
    assert m.client.catalog.find_tables(["default.t"]) == {}
    assert m.client.mirrors.list() == []
