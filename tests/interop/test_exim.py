"""Dumps of ours that a real Hive imports, and dumps of a real Hive that we import."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from airflow_hive_acid.errors import CorruptDumpError
from airflow_hive_acid.metastore.objects import TableName
from airflow_hive_acid.replication.exporting import export_table
from airflow_hive_acid.replication.import_plan import Asked
from airflow_hive_acid.replication.importing import import_table
from airflow_hive_acid.replication.site import Site

if TYPE_CHECKING:
    from pathlib import Path

    from airflow_hive_acid.metastore import MetastoreClient

    from .hive import Hive

pytestmark = pytest.mark.interop
PLAIN = "(a int, b string) {} stored as textfile tblproperties ('transactional'='false')"


@pytest.mark.parametrize("partitioned", [False, True], ids=["unpartitioned", "partitioned"])
def test_dumps_go_both_ways(
    hive: Hive, client: MetastoreClient, hive_database: str, tmp_path: Path, partitioned: bool
) -> None:
    client.upgrade_schema()
    db, site = hive_database, Site(client)
    clause, place = ("partitioned by (ds string)", "partition (ds='a/b')") if partitioned else ("", "")
    hive.run(f"create table {db}.t {PLAIN.format(clause)}")
    hive.run(f"insert into {db}.t {place} values (1, 'one'), (2, 'two')")
    rows = sorted(hive.run(f"select * from {db}.t"))
    assert len(rows) == 2
    export_table(site, f"{db}.t", f"file:{tmp_path}/ours")
    hive.run(f"import table {db}.theirs from 'file:{tmp_path}/ours'")
    assert sorted(hive.run(f"select * from {db}.theirs")) == rows
    hive.run(f"export table {db}.t to 'file:{tmp_path}/theirs'")
    with pytest.raises(CorruptDumpError, match="unmarked"):
        import_table(site, f"file:{tmp_path}/theirs", Asked(TableName(db, "ours")))
    import_table(site, f"file:{tmp_path}/theirs", Asked(TableName(db, "ours")), unmarked=True)
    assert sorted(hive.run(f"select * from {db}.ours")) == rows
