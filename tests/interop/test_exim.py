"""Dumps of ours that a real Hive imports, and dumps of a real Hive that we import."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from airflow_hive_acid.engine import Engine  # noqa: TC001 (pytest asks for it)
from airflow_hive_acid.errors import CorruptDumpError
from airflow_hive_acid.metastore.names.objects import TableName
from airflow_hive_acid.replication.dumps.exports import export_table
from airflow_hive_acid.replication.dumps.import_plan import Asked
from airflow_hive_acid.replication.dumps.imports import import_table
from airflow_hive_acid.replication.site import Site

from .hive import HiveError

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


@pytest.mark.spark
def test_a_dump_with_bases_and_deltas_is_refused_by_hive_and_imported_by_us(
    hive: Hive, client: MetastoreClient, engine: Engine, hive_database: str, tmp_path: Path
) -> None:
    """Hive's IMPORT would put directories below a delta of its own and read nothing there, so it must refuse them."""
    db, site = hive_database, Site(client)
    hive.run(f"create table {db}.t (a int, b string) stored as orc tblproperties ('transactional'='true')")
    hive.run(f"insert into {db}.t values (1, 'one'), (2, 'two')")
    engine.run(f"INSERT INTO {db}.t VALUES (3, 'three')")
    engine.run(f"DELETE FROM {db}.t WHERE a = 1; ALTER TABLE {db}.t COMPACT 'major'")
    engine.run_compactions("exim")
    hive.run(f"delete from {db}.t where a = 2")
    rows = sorted(hive.run(f"select * from {db}.t"))
    assert rows == [(3, "three")]
    export_table(site, f"{db}.t", f"file:{tmp_path}/dump")
    with pytest.raises(HiveError, match="Not forward compatible"):
        hive.run(f"import table {db}.theirs from 'file:{tmp_path}/dump'")
    assert hive.run(f"show tables in {db} like 'theirs'") == []
    import_table(site, f"file:{tmp_path}/dump", Asked(TableName(db, "ours")))
    assert sorted(hive.run(f"select * from {db}.ours")) == rows
