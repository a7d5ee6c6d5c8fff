"""ALTER … PARTITION: properties, columns, serde and directory; a write id without a delta, and an event."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from airflow_hive_acid.errors import (
    InvalidArgumentsError,
    JobsAliveError,
    NoSuchObjectError,
    TxnAbortedError,
    UnsafePathError,
)
from airflow_hive_acid.format.jobs import Column
from airflow_hive_acid.metastore.catalog.values.model import TableDefinition
from airflow_hive_acid.metastore.catalog.values.partition_alteration import PartitionAlteration as Alter
from airflow_hive_acid.metastore.database.codes import LockType
from tests.prepared import prepare

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_hive_acid.metastore import MetastoreClient
    from airflow_hive_acid.metastore.statements.catalog import HiveCatalog

    Stored = Callable[[str], list[dict[str, Any]]]
    Counts = Callable[[], dict[str, int]]

ID, V = Column("id", "int"), Column("v", "string")


def make_tables(catalog: HiveCatalog) -> None:
    catalog.set_warehouse("file:/warehouse")
    key = (Column("k", "string"),)
    for definition in (
        TableDefinition("default", "p", (ID, V), key, comments={"v": "a value"}),
        TableDefinition("default", "q", (ID, V), key),
        TableDefinition("default", "t", (ID,)),
        TableDefinition("default", "x", (ID,), key, properties={"transactional": "false"}, external=True),
    ):
        catalog.create_table(definition)
    catalog.add_partitions("default.p", [("a",), ("b",)])
    catalog.add_partitions("default.q", [("a",)])
    catalog.add_partitions("default.x", [("a",)])


@pytest.fixture
def catalog(client: MetastoreClient) -> HiveCatalog:
    """p (partitions a and b), q (another table, partition a), t (no partitions), x (external, partition a)."""
    prepare(client, None, __name__, lambda: make_tables(client.catalog))
    return client.catalog


def test_properties_are_set_and_removed_while_readers_go_on(
    catalog: HiveCatalog, client: MetastoreClient, stored: Stored
) -> None:
    with client.snapshot(["default.p"]):
        catalog.alter_partition("Default.P", ("a",), Alter(properties={"no_cleanup": "it's", "ü": "%_"}))
    properties = catalog.partition_properties("default.p", "k=a")
    assert (properties["no_cleanup"], properties["ü"]) == ("it's", "%_")
    assert properties["last_modified_by"] == client.user
    assert properties["last_modified_time"] == properties["transient_lastDdlTime"]
    assert "COLUMN_STATS_ACCURATE" in properties
    catalog.alter_partition("default.p", "k=a", Alter(unset=("ü", "none"), if_exists=True))
    assert "ü" not in catalog.partition_properties("default.p", "k=a")
    assert "no_cleanup" not in catalog.partition_properties("default.p", "k=b")


@pytest.mark.hive4("no WRITE_ID in the catalog")
def test_a_change_takes_a_write_id_without_a_delta_and_tells_of_it(
    catalog: HiveCatalog, client: MetastoreClient, stored: Stored
) -> None:
    """As a real Hive: a pair of txn and write id, no component; ALTER_PARTITION comes before COMMIT_TXN."""
    last = client.notifications.current_event_id()
    changed = catalog.alter_partition("default.p", {"K": "a"}, Alter(properties={"a": "b"}))
    assert changed.write_id == catalog.get_table("default.p").write_id == 1
    assert catalog.get_partition("default.p", "k=b").write_id == 0
    assert client.get_valid_write_ids("default.p")["default.p"].is_valid(1)
    for table in ("TXN_COMPONENTS", "COMPLETED_TXN_COMPONENTS", "WRITE_SET", "HIVE_LOCKS"):
        assert stored(table) == []
    events = client.notifications.events_after(last)
    assert [event.type for event in events][-2:] == ["ALTER_PARTITION", "COMMIT_TXN"]
    told = next(event for event in events if event.type == "ALTER_PARTITION")
    message = told.message()
    assert (message["keyValues"], message["writeId"], message["table"]) == ({"k": "a"}, 1, "p")
    assert message["partitionObjAfterJson"] != message["partitionObjBeforeJson"]
    catalog.alter_partition("default.x", "k=a", Alter(properties={"a": "b"}))
    assert [row["T2W_TABLE"] for row in stored("TXN_TO_WRITE_ID")] == ["p"]


@pytest.mark.every_database
def test_serde_properties_are_the_partitions_own(catalog: HiveCatalog, stored: Stored) -> None:
    before = len(stored("SERDE_PARAMS"))
    catalog.alter_partition("default.p", "k=a", Alter(serde_properties={"field.delim": ","}))
    catalog.alter_partition("default.p", "k=a", Alter(serde_properties={"field.delim": ";"}))
    assert len(stored("SERDE_PARAMS")) == before + 1
    assert [row["PARAM_VALUE"] for row in stored("SERDE_PARAMS") if row["PARAM_KEY"] == "field.delim"] == [";"]


def test_a_partition_has_columns_of_its_own_until_they_are_the_tables_again(
    catalog: HiveCatalog, stored: Stored
) -> None:
    """As Hive: equal to the table's, they are the table's descriptor; a descriptor that nothing uses goes."""

    def columns_ids() -> dict[str, int]:
        return {row["LOCATION"].rpartition("/p")[2]: row["CD_ID"] for row in stored("SDS") if "/p" in row["LOCATION"]}

    descriptors = len(stored("CDS"))
    catalog.add_columns("default.p", [Column("w", "date")], cascade=False)
    assert len(stored("CDS")) == descriptors + 1
    catalog.alter_partition("default.p", "k=b", Alter(columns=(ID, V, Column("z", "int"))))
    ids = columns_ids()
    assert len({ids[""], ids["/k=a"], ids["/k=b"]}) == 3
    mine = sorted((r["INTEGER_IDX"], r["COLUMN_NAME"]) for r in stored("COLUMNS_V2") if r["CD_ID"] == ids["/k=b"])
    assert mine == [(0, "id"), (1, "v"), (2, "z")]
    catalog.alter_partition("default.p", "k=a", Alter(columns=(ID, V, Column("w", "date")), comments={"v": "a value"}))
    ids = columns_ids()
    assert ids["/k=a"] == ids[""] != ids["/k=b"]
    assert len(stored("CDS")) == descriptors + 1


@pytest.mark.every_database
def test_statistics_of_changed_columns_and_directories_are_forgotten(catalog: HiveCatalog) -> None:
    """Hive itself goes on answering from them after SET LOCATION."""
    catalog.alter_partition("default.p", "k=a", Alter(columns=(ID, Column("v2", "string"))))
    assert catalog.partition_properties("default.p", "k=a")["COLUMN_STATS_ACCURATE"] == '{"BASIC_STATS":"true"}'
    catalog.alter_partition("default.p", "k=b", Alter(location="file:/elsewhere/b"))
    assert "COLUMN_STATS_ACCURATE" not in catalog.partition_properties("default.p", "k=b")


@pytest.mark.every_database
def test_a_partition_lies_elsewhere_and_comes_home(catalog: HiveCatalog) -> None:
    """As Hive does with ACID tables, too: nothing is moved."""
    for location, stored_as in (
        ("file:///elsewhere/a/", "file:/elsewhere/a"),
        ("file:/warehouse/p/archive/a", "file:/warehouse/p/archive/a"),
        ("hdfs://nn:8020/x/it's 100%", "hdfs://nn:8020/x/it's 100%"),
        ("file:/warehouse/p/k=a", "file:/warehouse/p/k=a"),
    ):
        changed = catalog.alter_partition("default.p", "k=a", Alter(location=location))
        assert changed.location == stored_as == catalog.get_partition("default.p", "k=a").location
    assert catalog.get_partition("default.p", "k=b").location == "file:/warehouse/p/k=b"
    assert catalog.alter_partition("default.x", "k=a", Alter(location="file:/data/x")).location == "file:/data/x"


def test_locks_are_hives(catalog: HiveCatalog, client: MetastoreClient, monkeypatch: Any) -> None:
    asked: list[tuple[str, LockType]] = []
    lock = client.lock

    def note(components: Any, **rest: Any) -> Any:
        asked.extend((c.describe(), c.type) for c in components)
        return lock(components, **rest)

    monkeypatch.setattr(client, "lock", note)
    for change in (
        Alter(properties={"a": "b"}), Alter(serde_properties={"a": "b"}), Alter(unset=("a",)),
        Alter(columns=(ID, V, Column("w", "int"))), Alter(location="file:/elsewhere"),
    ):  # fmt: skip
        catalog.alter_partition("default.p", "k=a", change)
    shared, alone = LockType.SHARED_READ, LockType.EXCLUSIVE
    assert asked == [("default.p/k=a", type) for type in (shared, shared, alone, alone, alone)]
    assert client.show_locks() == []


@pytest.mark.every_database
@pytest.mark.rule("R4")
def test_a_directory_does_not_change_under_a_job_that_may_still_write(
    catalog: HiveCatalog, client: MetastoreClient
) -> None:
    """
    t1  A writes p with a Spark job, and is aborted; its job may live on
    t2            B gives p/k=a another directory: refused until the job is fenced; properties may change
    """
    txn = client.begin({"default.p": "insert"}, partitioned=["default.p"])
    client.jobs.start(job_id="j", txn_id=txn.txn_id, table="default.p", write_id=1, statement=0, kind="insert",
                      table_location="file:/warehouse/p", staging="file:/warehouse/p/_tmp_j")  # fmt: skip
    txn.abort("a test")
    catalog.alter_partition("default.p", "k=a", Alter(properties={"a": "b"}))
    with pytest.raises(JobsAliveError, match="the first is j of txn"):
        catalog.alter_partition("default.p", "k=a", Alter(location="file:/elsewhere"))
    assert catalog.get_partition("default.p", "k=a").location == "file:/warehouse/p/k=a"
    client.jobs.mark_fenced("j", "a test")
    catalog.alter_partition("default.p", "k=a", Alter(location="file:/elsewhere"))


def test_a_change_whose_txn_was_reaped_does_not_happen(
    catalog: HiveCatalog, client: MetastoreClient, monkeypatch: Any
) -> None:
    """
    t1  A alters p/k=a: lock, write id
    t2            the reaper aborts A's txn
    t3  A commits: refused, the partition is as it was
    """
    allocate = client.allocate_write_ids

    def reaped(table: str, txn_id: int) -> dict[int, int]:
        answer = allocate(table, txn_id)
        client.abort_txn(txn_id, "heartbeat time-out")
        return answer

    monkeypatch.setattr(client, "allocate_write_ids", reaped)
    before = catalog.get_partition("default.p", "k=a")
    with pytest.raises(TxnAbortedError, match="heartbeat time-out"):
        catalog.alter_partition("default.p", "k=a", Alter(location="file:/elsewhere"))
    assert catalog.get_partition("default.p", "k=a") == before


REFUSED: list[tuple[str, str, Any, Alter, type[Exception], str]] = [
    ("nothing", "p", "k=a", Alter(), InvalidArgumentsError, "nothing is said"),
    ("no partition", "p", "k=c", Alter(properties={"a": "b"}), NoSuchObjectError, "has no partition k=c"),
    ("another key", "p", "j=a", Alter(properties={"a": "b"}), InvalidArgumentsError, "give a value for each of: k"),
    ("two keys", "p", ("a", "b"), Alter(properties={"a": "b"}), InvalidArgumentsError, "give a value for each of: k"),
    ("none at all", "t", "k=a", Alter(properties={"a": "b"}), InvalidArgumentsError, "is not partitioned"),
    ("no table", "pp", "k=a", Alter(properties={"a": "b"}), NoSuchObjectError, "did you mean p"),
    ("empty key", "p", "k=a", Alter(properties={"": "b"}), InvalidArgumentsError, "cannot be stored"),
    ("long key", "p", "k=a", Alter(properties={"k" * 4096: "b"}), InvalidArgumentsError, "cannot be stored"),
    ("NUL", "p", "k=a", Alter(properties={"a": "b\0"}), InvalidArgumentsError, "cannot be stored"),
    ("NUL serde", "p", "k=a", Alter(serde_properties={"a\0": "b"}), InvalidArgumentsError, "cannot be stored"),
    ("maintained", "p", "k=a", Alter(properties={"COLUMN_STATS_ACCURATE": "{}"}), InvalidArgumentsError, "maintained"),
    ("of the table", "p", "k=a", Alter(properties={"TRANSACTIONAL": "false"}), InvalidArgumentsError,
     "is a property of tables"),
    ("unset none", "p", "k=a", Alter(unset=("nope",)), InvalidArgumentsError, "has no property 'nope'"),
    ("fewer columns", "p", "k=a", Alter(columns=(ID,)), InvalidArgumentsError, "cannot be dropped"),
    ("no columns", "p", "k=a", Alter(columns=()), InvalidArgumentsError, "cannot be dropped"),
    ("narrower", "p", "k=a", Alter(columns=(Column("id", "tinyint"), V)), InvalidArgumentsError, "cannot become"),
    ("swapped", "p", "k=a", Alter(columns=(Column("v", "int"), Column("id", "string"))), InvalidArgumentsError,
     "cannot be moved"),
    ("the key", "p", "k=a", Alter(columns=(ID, V, Column("k", "int"))), InvalidArgumentsError, "twice"),
    ("relative", "p", "k=a", Alter(location="elsewhere/a"), UnsafePathError, "not an absolute location"),
    ("upwards", "p", "k=a", Alter(location="file:/warehouse/p/../q/k=z"), UnsafePathError, "'..'"),
    ("encoded", "p", "k=a", Alter(location="file:/warehouse/p/%2e%2e/q"), UnsafePathError, "%2e%2e"),
    ("NUL place", "p", "k=a", Alter(location="file:/a\0b"), UnsafePathError, "not an absolute location"),
    ("the table's", "p", "k=a", Alter(location="file:/warehouse/p"), InvalidArgumentsError, "the table's directory"),
    ("around it", "p", "k=a", Alter(location="file:/warehouse"), InvalidArgumentsError, "share files with table"),
    ("a sister's", "p", "k=a", Alter(location="file:/warehouse/p/k=b"), InvalidArgumentsError, "one day"),
    ("a future one's", "p", "k=a", Alter(location="file:/warehouse/p/K=zz/x"), InvalidArgumentsError, "one day"),
    ("hidden", "p", "k=a", Alter(location="file:/warehouse/p/_tmp/a"), InvalidArgumentsError, "a way of its own"),
    ("a delta", "p", "k=a", Alter(location="file:/warehouse/p/x/delta_1_1"), InvalidArgumentsError, "a way of its own"),
    ("another table", "p", "k=a", Alter(location="file:/warehouse/q/z"), InvalidArgumentsError, "table default.q"),
    ("another's partition", "p", "k=a", Alter(location="file:/warehouse/q/k=a/z"), InvalidArgumentsError, "default.q"),
]  # fmt: skip


@pytest.mark.parametrize(("_", "table", "spec", "change", "error", "text"), REFUSED, ids=[case[0] for case in REFUSED])
def test_what_is_refused_names_the_remedy_and_changes_no_row(
    catalog: HiveCatalog, row_counts: Counts, stored: Stored, _: str, table: str, spec: Any, change: Alter,
    error: type[Exception], text: str,
) -> None:  # fmt: skip
    counts = row_counts()
    names = ("PARTITIONS", "PARTITION_PARAMS", "SDS", "SERDE_PARAMS", "COLUMNS_V2", "TBLS", "TXNS")
    before = {name: stored(name) for name in names}
    with pytest.raises(error, match=text):
        catalog.alter_partition(f"default.{table}", spec, change)
    assert row_counts() == counts
    assert {name: stored(name) for name in names} == before


def test_partitions_outside_of_their_tables_do_not_share_files(catalog: HiveCatalog, row_counts: Counts) -> None:
    catalog.alter_partition("default.p", "k=a", Alter(location="file:/elsewhere/a"))
    counts = row_counts()
    for place in ("file:/elsewhere/a", "file:/elsewhere/a/b", "file:/elsewhere"):
        with pytest.raises(InvalidArgumentsError, match=r"share files with partition k=a of default\.p"):
            catalog.alter_partition("default.p", "k=b", Alter(location=place))
    assert row_counts() == counts
    catalog.alter_partition("default.p", "k=b", Alter(location="file:/elsewhere/ab"))
