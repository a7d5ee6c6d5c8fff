"""Our catalog writes what a real Hive 4.1 writes, and reads what it wrote: compared with dumps of Hive's metastore."""

from __future__ import annotations

import base64
import gzip
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from airflow_hive_acid.format.jobs import Column
from airflow_hive_acid.metastore.catalog.values.model import TableDefinition
from airflow_hive_acid.metastore.names.objects import table_name

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_hive_acid.metastore import MetastoreClient

    Rows = dict[str, list[dict[str, Any]]]
    Stored = Callable[[str], list[dict[str, Any]]]

FIXTURES = Path(__file__).parents[3] / "fixtures"
IDS = {"TBL_ID", "SD_ID", "SERDE_ID", "CD_ID", "DB_ID", "PART_ID"}
TIMES = {"CREATE_TIME"}
#: The last recorded state of every case.
STAGES = sorted(
    str(max(case.glob("*/metastore.sql")).parent.relative_to(FIXTURES)) for case in FIXTURES.iterdir() if case.is_dir()
)

UNPART = TableDefinition(
    "default", "t", (Column("id", "int"), Column("name", "string"), Column("amt", "DECIMAL(10,2)")),
    properties={"transactional": "true"}, owner="root",
)  # fmt: skip
PART = TableDefinition("default", "T", (Column("ID", "INT"), Column("name", "string")),
                       (Column("ds", "string"), Column("H", "int")), properties={"transactional": "true"},
                       owner="root")  # fmt: skip
BUCKETED = TableDefinition("default", "t", (Column("id", "int"), Column("name", "string")),
                           bucket_columns=("id",), bucket_count=4, owner="root")  # fmt: skip


def hive_wrote(stage: str, dump: Callable[[str], Rows]) -> Rows:
    return dump((FIXTURES / stage / "metastore.sql").read_text())


def plain(rows: list[dict[str, Any]], *ignored: str) -> list[str]:
    """Rows without ids and times, in an order of their own."""
    dropped = IDS | TIMES | set(ignored)
    return sorted(json.dumps({k: v for k, v in row.items() if k not in dropped}, sort_keys=True) for row in rows)


def of_table(rows: Rows, table: str = "t") -> dict[str, Any]:
    return next(row for row in rows["TBLS"] if row["TBL_NAME"] == table)


def parameters(rows: list[dict[str, Any]], owner: str = "TBL_ID", id_: int = 1) -> dict[str, str]:
    found = {row["PARAM_KEY"]: row["PARAM_VALUE"] for row in rows if row[owner] == id_}
    return {k: "now" if k == "transient_lastDdlTime" else v for k, v in found.items()}


def created_by_hive(rows: Rows, type: str) -> dict[str, Any]:
    """The object of the first event of a type, from Hive's notification log."""
    event = next(row for row in rows["NOTIFICATION_LOG"] if row["EVENT_TYPE"] == type)
    return dict(json.loads(gzip.decompress(base64.b64decode(event["MESSAGE"]))))


@pytest.mark.parametrize(
    ("definition", "stage"),
    [(UNPART, "unpart_dml/1_insert"), (PART, "part_dyn/1_insert"), (BUCKETED, "bucketed_dml/1_insert")],
)
def test_a_new_table_has_the_rows_hive_writes(
    client: MetastoreClient, dump: Callable[[str], Rows], stored: Stored, definition: TableDefinition, stage: str
) -> None:
    hive = hive_wrote(stage, dump)
    client.catalog.set_warehouse("file:/warehouse")
    client.catalog.create_table(definition)
    assert plain(stored("TBLS"), "WRITE_ID") == plain(hive["TBLS"], "WRITE_ID")
    storage = of_table(hive)["SD_ID"]
    assert plain(stored("SDS")) == plain([row for row in hive["SDS"] if row["SD_ID"] == storage])
    assert plain(stored("SERDES")) == plain(hive["SERDES"][:1])
    for name in ("COLUMNS_V2", "PARTITION_KEYS", "BUCKETING_COLS"):
        assert plain(stored(name)) == plain(hive.get(name, [])), name
    assert len(stored("CDS")) == len(hive["CDS"])
    assert {row["WRITE_ID"] for row in stored("TBLS")} == {0}


def test_the_parameters_of_a_new_table_are_those_of_hives_event(
    client: MetastoreClient, dump: Callable[[str], Rows], stored: Stored
) -> None:
    """The dumps were taken after writes; what Hive stored at first is in the CREATE_TABLE event."""
    event = json.loads(created_by_hive(hive_wrote("unpart_dml/1_insert", dump), "CREATE_TABLE")["tableObjJson"])
    client.catalog.set_warehouse("file:/warehouse")
    client.catalog.create_table(UNPART)
    expected = {**event["9"]["map"][3], "transient_lastDdlTime": "now"}
    assert parameters(stored("TABLE_PARAMS")) == expected
    serde = event["7"]["rec"]["7"]["rec"]["3"]["map"][3]
    assert {row["PARAM_KEY"]: row["PARAM_VALUE"] for row in stored("SERDE_PARAMS")} == serde


@pytest.mark.hive4("no WRITE_ID in the catalog")
def test_a_new_partitioned_table_and_its_partitions_equal_hives_row_for_row(
    client: MetastoreClient, dump: Callable[[str], Rows], stored: Stored
) -> None:
    hive = hive_wrote("part_dyn/1_insert", dump)
    client.catalog.set_warehouse("file:/warehouse")
    client.catalog.create_table(PART)
    assert parameters(stored("TABLE_PARAMS")) == parameters(hive["TABLE_PARAMS"])
    assert plain(stored("SERDE_PARAMS")) == plain(hive["SERDE_PARAMS"])
    values = [("2024-01-01", "0"), ("2024-01-01", "1"), ("2024-01-02", "0"), (None, "0"), ("a b/c=d:e%f", "2")]
    with client.database.transaction() as connection:
        new = client.catalog.add_partitions_in(connection, table_name("default.t"), values, write_id=1)
    assert len(new) == 5
    for name in ("SDS", "SERDES", "PARTITIONS", "PARTITION_KEY_VALS"):
        assert plain(stored(name)) == plain(hive[name]), name
    assert len(stored("CDS")) == 1
    # Statistics are Hive's own; we claim none about what somebody has written.
    assert {row["PARAM_KEY"] for row in stored("PARTITION_PARAMS")} == {"transient_lastDdlTime"}


def test_an_empty_partition_has_the_rows_of_hives_add_partition(
    client: MetastoreClient, dump: Callable[[str], Rows], stored: Stored
) -> None:
    hive = hive_wrote("part_dyn/3_add_drop", dump)
    added = next(row for row in hive["PARTITIONS"] if row["PART_NAME"] == "ds=2024-01-03/h=9")
    client.catalog.set_warehouse("file:/warehouse")
    client.catalog.create_table(PART)
    assert client.catalog.add_partitions("default.t", [{"DS": "2024-01-03", "h": "9"}]) == ["ds=2024-01-03/h=9"]
    assert plain(stored("PARTITIONS")) == plain([added])
    assert parameters(stored("PARTITION_PARAMS"), "PART_ID", stored("PARTITIONS")[0]["PART_ID"]) == parameters(
        hive["PARTITION_PARAMS"], "PART_ID", added["PART_ID"]
    )


def test_a_table_without_transactions_becomes_external_as_in_hive(
    client: MetastoreClient, dump: Callable[[str], Rows], stored: Stored
) -> None:
    hive = hive_wrote("original/1_nonacid", dump)
    client.catalog.set_warehouse("file:/warehouse_ext")
    client.catalog.create_table(TableDefinition("default", "t", (Column("id", "int"), Column("name", "string")),
                                                properties={"transactional": "false"}, owner="root"))  # fmt: skip
    assert plain(stored("TBLS")) == plain([of_table(hive)])
    assert plain(stored("SDS")) == plain(hive["SDS"][:1])
    ours, theirs = parameters(stored("TABLE_PARAMS")), parameters(hive["TABLE_PARAMS"])
    statistics = {"numFiles", "numRows", "totalSize", "rawDataSize"}
    assert {k: v for k, v in ours.items() if k not in statistics} == {
        k: v for k, v in theirs.items() if k not in statistics
    }


def test_the_database_default_is_the_one_hive_makes(
    client: MetastoreClient, dump: Callable[[str], Rows], stored: Stored
) -> None:
    hive = hive_wrote("unpart_dml/1_insert", dump)
    assert client.catalog.set_warehouse("file:///warehouse/") == "file:/warehouse"
    assert client.catalog.set_warehouse("file:/elsewhere") == "file:/warehouse"
    assert plain(stored("DBS"), "DB_LOCATION_URI") == plain(hive["DBS"], "DB_LOCATION_URI")
    assert plain(stored("CTLGS")) == plain(hive["CTLGS"])


def test_ids_come_in_blocks_from_the_sequences_hive_uses(
    client: MetastoreClient, stored: Stored, load: Callable[[str], None]
) -> None:
    load((FIXTURES / "part_dyn/1_insert/metastore.sql").read_text())
    before = {row["SEQUENCE_NAME"]: row["NEXT_VAL"] for row in stored("SEQUENCE_TABLE")}
    prefix = "org.apache.hadoop.hive.metastore.model."
    assert before[f"{prefix}MTable"] == 11
    table = client.catalog.create_table(TableDefinition("default", "u", (Column("id", "int"),)))
    client.catalog.add_partitions("default.t", [(f"x{i}", "1") for i in range(25)])
    after = {row["SEQUENCE_NAME"]: row["NEXT_VAL"] for row in stored("SEQUENCE_TABLE")}
    assert table.id == 11
    assert after[f"{prefix}MTable"] == 21
    assert after[f"{prefix}MPartition"] == before[f"{prefix}MPartition"] + 30
    assert min(row["PART_ID"] for row in stored("PARTITIONS") if row["PART_NAME"].startswith("ds=x")) == 11


@pytest.mark.every_database
@pytest.mark.parametrize("stage", STAGES)
def test_every_catalog_a_hive_has_written_can_be_read(
    client: MetastoreClient, dump: Callable[[str], Rows], load: Callable[[str], None], stage: str
) -> None:
    hive = hive_wrote(stage, dump)
    load((FIXTURES / stage / "metastore.sql").read_text())
    names = client.catalog.list_tables("default")
    assert names == sorted(row["TBL_NAME"] for row in hive["TBLS"])
    for table, row in zip(client.catalog.get_tables([f"default.{n}" for n in names]), sorted(
            hive["TBLS"], key=lambda r: str(r["TBL_NAME"])), strict=True):  # fmt: skip
        storage = next(s for s in hive["SDS"] if s["SD_ID"] == row["SD_ID"])
        columns = [c for c in hive["COLUMNS_V2"] if c["CD_ID"] == storage["CD_ID"]]
        assert table.id == row["TBL_ID"]
        assert table.location == storage["LOCATION"]
        assert [(c.name, c.type) for c in table.columns] == [
            (c["COLUMN_NAME"], c["TYPE_NAME"]) for c in sorted(columns, key=lambda c: int(c["INTEGER_IDX"]))
        ]
        assert table.is_transactional == any(
            p["TBL_ID"] == row["TBL_ID"] and (p["PARAM_KEY"], p["PARAM_VALUE"]) == ("transactional", "true")
            for p in hive["TABLE_PARAMS"]
        )
        if table.is_partitioned:
            found = client.catalog.list_partitions(table.qualified_name)
            expected = [p for p in hive["PARTITIONS"] if p["TBL_ID"] == row["TBL_ID"]]
            assert {p.name for p in found} == {p["PART_NAME"] for p in expected}
            for partition in found:
                values = [v for v in hive["PARTITION_KEY_VALS"] if v["PART_ID"] == partition.id]
                assert partition.values == tuple(
                    v["PART_KEY_VAL"] for v in sorted(values, key=lambda v: int(v["INTEGER_IDX"]))
                )
                assert partition.location == f"{table.location}/{partition.name}"
