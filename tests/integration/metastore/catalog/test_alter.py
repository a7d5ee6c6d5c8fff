"""ALTER and RENAME: Hive's rules, a write id without a delta, and nothing changed by what is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa

from airflow_hive_acid.errors import (
    AlreadyExistsError,
    InvalidArgumentsError,
    JobsAliveError,
    LockTimeoutError,
    NoSuchObjectError,
    TxnAbortedError,
)
from airflow_hive_acid.format.jobs import Column
from airflow_hive_acid.metastore.catalog.values.model import TableDefinition
from airflow_hive_acid.metastore.database.codes import LockType
from airflow_hive_acid.metastore.setup.schema import METADATA
from airflow_hive_acid.metastore.txns.statistics import RowChange, count_rows
from tests.prepared import prepare

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_hive_acid.metastore import MetastoreClient
    from airflow_hive_acid.metastore.statements.catalog import HiveCatalog

    Stored = Callable[[str], list[dict[str, Any]]]
    Counts = Callable[[], dict[str, int]]

ID, V = Column("id", "int"), Column("v", "string")
PLAIN = {"transactional": "false"}


def make_tables(catalog: HiveCatalog) -> None:
    catalog.set_warehouse("file:/warehouse")
    for definition in (
        TableDefinition("default", "t", (ID, V), comments={"v": "a value"}),
        TableDefinition("default", "p", (ID, V), (Column("k", "string"),)),
        TableDefinition("default", "b", (ID, V), bucket_columns=("id",), bucket_count=2),
        TableDefinition("default", "i", (ID,), properties={"transactional_properties": "insert_only"}),
        TableDefinition("default", "x", (ID,), properties=PLAIN, external=True),
        TableDefinition("default", "m", (ID,), properties=PLAIN),
    ):
        catalog.create_table(definition)
    catalog.add_partitions("default.p", [("a",), ("b",)])


@pytest.fixture
def catalog(client: MetastoreClient) -> HiveCatalog:
    """t (plain), p (partitioned by k), b (in buckets), i (insert-only), x (external), m (a managed table of old)."""
    prepare(client, None, __name__, lambda: make_tables(client.catalog))
    return client.catalog


def write_id(stored: Stored, table: str) -> list[int]:
    return [row["NWI_NEXT"] for row in stored("NEXT_WRITE_ID") if row["NWI_TABLE"] == table]


# --- properties ---------------------------------------------------------------------------------------------------


@pytest.mark.every_database
def test_what_was_counted_before_a_table_was_transactional_is_not_counted_on_from(
    catalog: HiveCatalog, client: MetastoreClient
) -> None:
    """Rows of a plain table are not counted; a Hive's compaction would call exact what commits added to nothing."""
    catalog.create_table(TableDefinition("default", "q", (ID,), (Column("k", "string"),), PLAIN))
    catalog.add_partitions("default.q", [("a",)])
    plain = catalog.get_table("default.m")
    assert (plain.properties["numRows"], catalog.partition_properties("default.q", "k=a")["numRows"]) == ("0", "0")
    for name in ("default.m", "default.q"):
        catalog.alter_properties(name, {"EXTERNAL": "FALSE", "transactional": "true"})
    gone = {"numRows", "COLUMN_STATS_ACCURATE"}
    assert not gone & catalog.get_table("default.m").properties.keys()
    assert not gone & catalog.partition_properties("default.q", "k=a").keys()
    with client.database.transaction() as connection:
        count_rows(connection, plain.id, {"": RowChange(5)})
    assert "numRows" not in catalog.get_table("default.m").properties


@pytest.mark.hive4("no WRITE_ID in the catalog")
def test_properties_are_set_and_removed_and_say_who_changed_them(
    catalog: HiveCatalog, client: MetastoreClient, stored: Stored
) -> None:
    changed = catalog.alter_properties("Default.T", {"compactor.x": "it's", "orc.compress": "ZSTD"})
    assert changed == catalog.get_table("default.t")
    assert (changed.properties["compactor.x"], changed.properties["orc.compress"]) == ("it's", "ZSTD")
    assert changed.properties["last_modified_by"] == client.user
    assert changed.properties["last_modified_time"] == changed.properties["transient_lastDdlTime"]
    assert "COLUMN_STATS_ACCURATE" in changed.properties
    changed = catalog.alter_properties("default.t", unset=["compactor.x"])
    assert "compactor.x" not in changed.properties
    assert catalog.alter_properties("default.t", unset=["compactor.x"], if_exists=True).properties["transactional"]
    assert changed.write_id == 2
    assert write_id(stored, "t") == [4]


@pytest.mark.hive4("no WRITE_ID in the catalog")
def test_a_change_takes_a_write_id_without_a_delta_and_commits_with_it(
    catalog: HiveCatalog, client: MetastoreClient, stored: Stored
) -> None:
    """As in the recorded case ``evolve``: a pair of txn and write id, no component, no write set."""
    before = client.get_valid_write_ids("default.t")["default.t"]
    catalog.add_columns("default.t", [Column("w", "date")])
    after = client.get_valid_write_ids("default.t")["default.t"]
    assert (before.high_watermark, after.high_watermark) == (0, 1)
    assert after.is_valid(1)
    assert catalog.get_table("default.t").write_id == 1
    assert [row["T2W_WRITEID"] for row in stored("TXN_TO_WRITE_ID")] == [1]
    for table in ("TXN_COMPONENTS", "COMPLETED_TXN_COMPONENTS", "WRITE_SET", "HIVE_LOCKS"):
        assert stored(table) == []
    catalog.alter_properties("default.x", {"a": "b"})
    assert write_id(stored, "x") == []


@pytest.mark.every_database
def test_a_plain_table_becomes_transactional_above_everything_it_holds(catalog: HiveCatalog, stored: Stored) -> None:
    """As in the recorded case ``original``: write ids start above 10,000,000 and the table stays where it is."""
    before = catalog.get_table("default.m")
    changed = catalog.alter_properties("default.m", {"EXTERNAL": "FALSE", "TRANSACTIONAL": "TRUE"})
    assert (changed.type, changed.is_transactional, changed.is_insert_only) == ("MANAGED_TABLE", True, False)
    assert changed.location == before.location
    assert changed.properties["transactional"] == "true"
    assert changed.properties["transactional_properties"] == "default"
    assert "COLUMN_STATS_ACCURATE" not in changed.properties
    assert write_id(stored, "m") == [10_000_001]
    assert catalog.get_table("default.i").is_insert_only


REFUSED_PROPERTIES = [
    ("t", {"transactional": "false"}, "is transactional, which cannot be revoked"),
    ("t", {"Transactional": "no"}, "transactional is 'true' or 'false', not 'no'"),
    ("t", {"EXTERNAL": "TRUE"}, "is transactional and cannot become external"),
    ("t", {"transactional_properties": "insert_only"}, "transactional_properties=default, which cannot be changed"),
    ("i", {"transactional_properties": "default"}, "transactional_properties=insert_only, which cannot be changed"),
    ("i", {"transactional_properties": "odd"}, "'default' or 'insert_only', not 'odd'"),
    ("b", {"bucketing_version": "1"}, "its rows would be looked for in the wrong buckets"),
    ("x", {"transactional": "true"}, "is external and cannot be transactional; set 'EXTERNAL'='FALSE'"),
    ("m", {"EXTERNAL": "FALSE"}, "is not transactional, and a managed table must be"),
    ("t", {"COLUMN_STATS_ACCURATE": "{}"}, "is maintained by the metastore"),
    ("t", {"": "x"}, "cannot be stored"),
    ("t", {"k" * 4096: "x"}, "cannot be stored"),
    ("t", {"a\0b": "x"}, "cannot be stored"),
]


# --- columns ------------------------------------------------------------------------------------------------------


@pytest.mark.every_database
def test_columns_are_added_renamed_and_widened_and_partitions_follow(catalog: HiveCatalog, stored: Stored) -> None:
    changed = catalog.add_columns("default.p", [Column("W", "DECIMAL(10, 2)")], {"W": "wide"})
    assert changed.columns == (ID, V, Column("w", "decimal(10,2)"))
    assert changed.comments == {"w": "wide"}
    changed = catalog.change_column("default.p", "id", Column("key", "bigint"), "the key")
    types = {"key": "bigint", "v2": "string", "w": "decimal(12,2)", "z": "array<int>"}
    changed = catalog.replace_columns("default.p", [Column(name, kind) for name, kind in types.items()])
    assert [c.type for c in changed.columns] == ["bigint", "string", "decimal(12,2)", "array<int>"]
    assert changed.comments == {}
    storage = {row["CD_ID"] for row in stored("SDS") if "/p" in row["LOCATION"]}
    assert len([row for row in stored("SDS") if "/p" in row["LOCATION"]]) == 3
    assert len(storage) == 1
    assert len(stored("CDS")) == 6
    assert {row["COLUMN_NAME"] for row in stored("COLUMNS_V2") if row["CD_ID"] in storage} == {"key", "v2", "w", "z"}


def test_without_cascade_partitions_keep_their_columns(catalog: HiveCatalog, stored: Stored) -> None:
    catalog.add_columns("default.p", [Column("w", "int")], cascade=False)
    columns = {row["LOCATION"]: row["CD_ID"] for row in stored("SDS")}
    assert columns["file:/warehouse/p/k=a"] == columns["file:/warehouse/p/k=b"] != columns["file:/warehouse/p"]
    assert len(stored("CDS")) == 7
    catalog.drop_table("default.p")
    assert len(stored("CDS")) == 5


def test_a_comment_moves_with_its_column_and_buckets_with_their_name(catalog: HiveCatalog) -> None:
    assert catalog.change_column("default.t", "v", Column("value", "string")).comments == {"value": "a value"}
    assert catalog.change_column("default.b", "id", Column("no", "int")).bucket_columns == ("no",)


@pytest.mark.parametrize(
    ("old", "new"),
    [("int", "bigint"), ("int", "string"), ("int", "decimal(12,2)"), ("float", "double"), ("varchar(5)", "varchar(9)"),
     ("char(5)", "varchar(5)"), ("decimal(10,2)", "decimal(12,3)"), ("date", "string"), ("bigint", "double")],
)  # fmt: skip
def test_types_become_wider(catalog: HiveCatalog, old: str, new: str) -> None:
    catalog.create_table(TableDefinition("default", "w", (Column("c", old),)))
    assert catalog.change_column("default.w", "c", Column("c", new)).columns == (Column("c", new),)


@pytest.mark.parametrize(
    ("old", "new"),
    [("bigint", "int"), ("string", "int"), ("decimal(10,2)", "decimal(10,3)"), ("varchar(9)", "varchar(5)"),
     ("int", "date"), ("array<int>", "string"), ("int", "decimal(10,2)"), ("string", "varchar(10)"),
     ("int", "boolean")],
)  # fmt: skip
def test_types_do_not_become_narrower(catalog: HiveCatalog, row_counts: Counts, old: str, new: str) -> None:
    catalog.create_table(TableDefinition("default", "w", (Column("c", old),)))
    counts = row_counts()
    with pytest.raises(InvalidArgumentsError, match="cannot become"):
        catalog.change_column("default.w", "c", Column("c", new))
    assert row_counts() == counts


def test_statistics_of_changed_columns_are_forgotten(catalog: HiveCatalog, stored: Stored) -> None:
    catalog.change_column("default.p", "v", Column("w", "string"))
    assert [r for r in stored("PARTITION_PARAMS") if r["PARAM_KEY"] == "COLUMN_STATS_ACCURATE"] == []
    assert catalog.change_column("default.t", "v", Column("w", "string")).properties["COLUMN_STATS_ACCURATE"] == (
        '{"BASIC_STATS":"true"}'
    )


# --- databases ----------------------------------------------------------------------------------------------------


def test_properties_of_a_database_are_set_and_removed(catalog: HiveCatalog) -> None:
    catalog.create_database("d")
    assert catalog.alter_database("D", {"a": "1", "b": "ünï"}).properties == {"a": "1", "b": "ünï"}
    assert catalog.alter_database("d", {"a": "2"}, unset=["b", "c"]).properties == {"a": "2"}
    catalog.drop_database("d")


# --- renaming -----------------------------------------------------------------------------------------------------


@pytest.mark.every_database
@pytest.mark.conformance("K27")
def test_a_renamed_table_takes_everything_known_of_it_along(
    catalog: HiveCatalog, client: MetastoreClient, stored: Stored
) -> None:
    with client.transaction({"default.p": "update"}, partitioned=["default.p"]) as txn:
        txn.add_partitions("default.p", ["k=a"])
    aborted = client.begin({"default.p": "update"}, partitioned=["default.p"])
    aborted.add_partitions("default.p", ["k=b"])
    aborted.abort("a test")
    client.compactions.enqueue("default.p", "k=a")
    client.compactions.did_not_initiate(client.compactions.active()[0].resource, "a test")
    catalog.create_database("d")
    renamed = catalog.rename_table("default.p", "D.New")
    assert (renamed.qualified_name, renamed.location) == ("d.new", "file:/warehouse/p")
    assert [p.name for p in catalog.list_partitions("d.new")] == ["k=a", "k=b"]
    assert catalog.find_tables(["default.p"]) == {}
    for table in METADATA.sorted_tables:
        names = [c for c in table.c if c.name.endswith(("_TABLE", "TBL_NAME")) and table.name != "NOTIFICATION_LOG"]
        for column in names:
            assert not [row for row in stored(table.name) if row[column.name] == "p"], table.name
    assert write_id(stored, "new") == [4]
    with client.transaction({"d.new": "insert"}, partitioned=["d.new"]) as txn:
        assert txn.write_ids["d.new"] == 4
        assert txn.snapshot["d.new"].is_valid(1)
        assert txn.snapshot["d.new"].is_aborted(2)
        txn.add_partitions("d.new", ["k=a"])
    assert [(row["CQ_DATABASE"], row["CQ_TABLE"]) for row in stored("COMPACTION_QUEUE")] == [("d", "new")]


def test_the_old_name_starts_anew_and_leftovers_of_the_new_one_do_not_count(
    catalog: HiveCatalog, client: MetastoreClient
) -> None:
    with client.transaction({"default.t": "insert"}):
        pass
    client.allocate_write_ids("default.fresh", client.open_txn())  # of a table that Hive dropped and kept the ids of
    catalog.rename_table("default.t", "default.fresh")
    catalog.create_table(TableDefinition("default", "t", (ID,), location="file:/warehouse/t2"))
    with client.transaction({"default.t": "insert", "default.fresh": "insert"}) as txn:
        assert dict(txn.write_ids.items()) == {"default.t": 1, "default.fresh": 3}


@pytest.mark.conformance("K27")
def test_a_renamed_partition_takes_everything_known_of_it_along(
    catalog: HiveCatalog, client: MetastoreClient, stored: Stored
) -> None:
    with client.transaction({"default.p": "update"}, partitioned=["default.p"]) as txn:
        txn.add_partitions("default.p", ["k=a", "k=b"])
    client.compactions.enqueue("default.p", "k=a")
    renamed = catalog.rename_partition("default.p", ("a",), {"K": "c/d"})
    assert (renamed.name, renamed.values, renamed.location) == ("k=c%2Fd", ("c/d",), "file:/warehouse/p/k=a")
    assert catalog.list_partitions("default.p", {"k": "c/d"}) == [renamed]
    assert sorted(row["CTC_PARTITION"] for row in stored("COMPLETED_TXN_COMPONENTS")) == ["k=b", "k=c%2Fd"]
    assert sorted(row["WS_PARTITION"] for row in stored("WRITE_SET")) == ["k=b", "k=c%2Fd"]
    assert [row["CQ_PARTITION"] for row in stored("COMPACTION_QUEUE")] == ["k=c%2Fd"]
    with pytest.raises(AlreadyExistsError, match="has a partition k=b already"):
        catalog.rename_partition("default.p", "k=c%2Fd", "k=b")


# --- locks and other people ---------------------------------------------------------------------------------------


def test_each_change_has_hives_locks(catalog: HiveCatalog, client: MetastoreClient, monkeypatch: Any) -> None:
    asked: list[tuple[str, LockType]] = []
    lock = client.lock

    def note(components: Any, **rest: Any) -> Any:
        asked.extend((c.describe(), c.type) for c in components)
        return lock(components, **rest)

    monkeypatch.setattr(client, "lock", note)
    catalog.alter_properties("default.t", {"a": "b"})
    catalog.alter_properties("default.t", unset=["a"])
    catalog.add_columns("default.t", [Column("w", "int")])
    catalog.rename_table("default.t", "default.u")
    catalog.rename_partition("default.p", "k=a", "k=z")
    assert asked == [
        ("default.t", LockType.SHARED_READ), ("default.t", LockType.EXCLUSIVE), ("default.t", LockType.EXCLUSIVE),
        ("default", LockType.SHARED_READ), ("default.t", LockType.EXCLUSIVE), ("default.u", LockType.EXCLUSIVE),
        ("default.p/k=a", LockType.EXCLUSIVE), ("default.p/k=z", LockType.EXCLUSIVE),
    ]  # fmt: skip
    assert client.show_locks() == []


def test_columns_wait_for_readers_and_leave_nothing_when_they_give_up(
    catalog: HiveCatalog, client: MetastoreClient, monkeypatch: Any
) -> None:
    """
    t1  A reads t
    t2            B adds a column: waits, gives up; its txn is aborted, t is as it was
    t3            C sets a property meanwhile: shares the table
    """
    monkeypatch.setattr("airflow_hive_acid.metastore.protocol.lock_wait.back_off_ms", lambda *_: [1, 1])
    before = catalog.get_table("default.t")
    with client.snapshot(["default.t"]):
        with pytest.raises(LockTimeoutError):
            catalog.add_columns("default.t", [Column("w", "int")])
        assert catalog.get_table("default.t") == before
        assert len(client.show_locks()) == 1
        catalog.alter_properties("default.t", {"a": "b"})
    catalog.add_columns("default.t", [Column("w", "int")])


def test_a_change_whose_txn_was_reaped_does_not_happen(
    catalog: HiveCatalog, client: MetastoreClient, monkeypatch: Any
) -> None:
    """
    t1  A renames t: locks, write id
    t2            the reaper aborts A's txn
    t3  A commits: refused, t is as it was
    """
    allocate = client.allocate_write_ids

    def reaped(table: str, txn_id: int) -> dict[int, int]:
        answer = allocate(table, txn_id)
        client.abort_txn(txn_id, "heartbeat time-out")
        return answer

    monkeypatch.setattr(client, "allocate_write_ids", reaped)
    before = catalog.get_table("default.t")
    with pytest.raises(TxnAbortedError, match="heartbeat time-out"):
        catalog.rename_table("default.t", "default.u")
    assert catalog.get_table("default.t") == before


# --- what is refused changes nothing ------------------------------------------------------------------------------

REFUSED: list[tuple[str, Callable[[HiveCatalog], Any], type[Exception], str]] = [
    *((f"{table} {change}"[:60], lambda c, t=table, p=change: c.alter_properties(f"default.{t}", p),
       InvalidArgumentsError, text) for table, change, text in REFUSED_PROPERTIES),
    ("unset transactional", lambda c: c.alter_properties("default.t", unset=["TRANSACTIONAL"]), InvalidArgumentsError,
     "cannot be revoked"),
    ("unset nothing", lambda c: c.alter_properties("default.t", unset=["nope"]), InvalidArgumentsError,
     "has no property 'nope'"),
    ("no such table", lambda c: c.alter_properties("default.tt", {"a": "b"}), NoSuchObjectError, "did you mean t"),
    ("bad name", lambda c: c.alter_properties("default.t'; --", {"a": "b"}), InvalidArgumentsError, "is no table name"),
    ("long name", lambda c: c.rename_table("default.t", "default." + "x" * 300), InvalidArgumentsError, "the limit is"),
    ("dots", lambda c: c.rename_table("default.t", "default..."), InvalidArgumentsError, "is no table name"),
    ("NUL", lambda c: c.rename_table("default.t", "default.a\0"), InvalidArgumentsError, "is no table name"),
    ("add nothing", lambda c: c.add_columns("default.t", []), InvalidArgumentsError, "no column is named"),
    ("add twice", lambda c: c.add_columns("default.t", [Column("ID", "int")]), InvalidArgumentsError, "twice"),
    ("add a key", lambda c: c.add_columns("default.p", [Column("k", "int")]), InvalidArgumentsError, "twice"),
    ("bad column", lambda c: c.add_columns("default.t", [Column("a;b", "int")]), InvalidArgumentsError,
     "no column name"),
    ("bad type", lambda c: c.add_columns("default.t", [Column("a", "int'")]), InvalidArgumentsError, "column type"),
    ("long comment", lambda c: c.add_columns("default.t", [Column("a", "int")], {"a": "x" * 4001}),
     InvalidArgumentsError, "at most 4000"),
    ("fewer", lambda c: c.replace_columns("default.t", [ID]), InvalidArgumentsError, "cannot be dropped"),
    ("swap", lambda c: c.replace_columns("default.t", [Column("v", "int"), Column("id", "string")]),
     InvalidArgumentsError, "cannot be moved"),
    ("change a key", lambda c: c.change_column("default.p", "k", Column("k", "int")), InvalidArgumentsError,
     "'k' is a partition column"),
    ("change none", lambda c: c.change_column("default.t", "zz", ID), InvalidArgumentsError, "is no column"),
    ("change a bucket", lambda c: c.change_column("default.b", "id", Column("id", "bigint")), InvalidArgumentsError,
     "is clustered by id"),
    ("database", lambda c: c.alter_database("nope", {"a": "b"}), NoSuchObjectError, "no database nope"),
    ("database key", lambda c: c.alter_database("default", {"k" * 181: "b"}), InvalidArgumentsError, "1 to 180"),
    ("database value", lambda c: c.alter_database("default", {"k": "b" * 4001}), InvalidArgumentsError, "is 4000"),
    ("taken", lambda c: c.rename_table("default.t", "default.p"), AlreadyExistsError, "exists already"),
    ("itself", lambda c: c.rename_table("default.t", "DEFAULT.T"), AlreadyExistsError, "exists already"),
    ("nowhere", lambda c: c.rename_table("default.t", "nope.t"), NoSuchObjectError, "no database nope"),
    ("part to part", lambda c: c.rename_partition("default.p", "k=a", "k=b"), AlreadyExistsError, "k=b already"),
    ("no part", lambda c: c.rename_partition("default.p", "k=zz", "k=b"), NoSuchObjectError, "no partition k=zz"),
    ("another key", lambda c: c.rename_partition("default.p", "k=a", "j=b"), InvalidArgumentsError, "is no partition"),
    ("not partitioned", lambda c: c.rename_partition("default.t", "k=a", "k=b"), InvalidArgumentsError,
     "is not partitioned"),
    ("long value", lambda c: c.rename_partition("default.p", "k=a", ("x" * 4096,)), InvalidArgumentsError,
     "at most 256"),
]  # fmt: skip


@pytest.mark.parametrize(("_", "call", "error", "text"), REFUSED, ids=[case[0] for case in REFUSED])
def test_what_is_refused_names_the_remedy_and_changes_no_row(
    catalog: HiveCatalog, row_counts: Counts, stored: Stored, _: str, call: Any, error: type[Exception], text: str
) -> None:
    counts = row_counts()
    before = {name: stored(name) for name in ("TABLE_PARAMS", "COLUMNS_V2", "TBLS", "SDS", "TXNS", "PARTITIONS")}
    with pytest.raises(error, match=text):
        call(catalog)
    assert row_counts() == counts
    assert {name: stored(name) for name in before} == before


@pytest.mark.rule("R4")
def test_a_table_with_a_job_that_may_still_write_is_not_renamed(catalog: HiveCatalog, client: MetastoreClient) -> None:
    txn = client.begin({"default.t": "insert"})
    client.jobs.start(job_id="j", txn_id=txn.txn_id, table="default.t", write_id=1, statement=0, kind="insert",
                      table_location="file:/warehouse/t", staging="file:/warehouse/t/_tmp_j")  # fmt: skip
    txn.abort("a test")
    with pytest.raises(JobsAliveError, match="the first is j of txn"):
        catalog.rename_table("default.t", "default.u")
    client.jobs.mark_fenced("j", "a test")
    catalog.rename_table("default.t", "default.u")
    assert client.jobs.get("j").table == "default.u"


@pytest.mark.every_database
def test_a_view_is_not_altered_as_a_table(catalog: HiveCatalog, client: MetastoreClient) -> None:
    with client.database.transaction() as connection:
        tables = METADATA.tables["TBLS"]
        connection.execute(sa.update(tables).where(tables.c.TBL_NAME == "m").values(TBL_TYPE="VIRTUAL_VIEW"))
    with pytest.raises(
        InvalidArgumentsError, match=r"default\.m is a virtual view; only tables can be altered here, views"
    ):
        catalog.alter_properties("default.m", {"a": "b"})
