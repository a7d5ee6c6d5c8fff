"""Databases, tables and partitions: made, found, listed and dropped as a whole or not at all."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa

from airflow_hive_acid.errors import AlreadyExistsError, InvalidArgumentsError, NoSuchObjectError, UnsafePathError
from airflow_hive_acid.format.jobs import Column
from airflow_hive_acid.metastore.catalog.values.model import TableDefinition
from airflow_hive_acid.metastore.catalog.values.partition_alteration import PartitionAlteration
from airflow_hive_acid.metastore.names.objects import table_name
from airflow_hive_acid.metastore.schema.hive_catalog import KEY_CONSTRAINTS, SDS, TBLS
from airflow_hive_acid.metastore.setup.schema import MV_CREATION_METADATA, MV_TABLES_USED

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_hive_acid.metastore import MetastoreClient
    from airflow_hive_acid.metastore.catalog.catalog import Catalog

    Stored = Callable[[str], list[dict[str, Any]]]
    Counts = Callable[[], dict[str, int]]

ID = (Column("id", "int"),)
KEYS = (Column("ds", "string"), Column("h", "int"))
SEQUENCES = {"SEQUENCE_TABLE", "NOTIFICATION_LOG"}


@pytest.fixture
def catalog(client: MetastoreClient) -> Catalog:
    client.catalog.set_warehouse("file:/warehouse")
    return client.catalog


@pytest.fixture
def partitioned(catalog: Catalog) -> Catalog:
    catalog.create_table(TableDefinition("default", "p", ID, KEYS))
    return catalog


def without_sequences(counts: dict[str, int]) -> dict[str, int]:
    return {name: number for name, number in counts.items() if name not in SEQUENCES}


# --- databases and tables -----------------------------------------------------------------------------------------


def test_databases_lie_below_the_warehouse_unless_they_say_otherwise(catalog: Catalog) -> None:
    sales = catalog.create_database("Sales", description="orders")
    assert (sales.name, sales.location, sales.description) == ("sales", "file:/warehouse/sales.db", "orders")
    away = catalog.create_database("away", "s3a://bucket/away/")
    assert (away.location, away.managed_location) == ("s3a://bucket/away", "file:/warehouse/away.db")
    assert catalog.list_databases() == ["away", "default", "sales"]
    assert catalog.create_table(TableDefinition("sales", "o", ID)).location == "file:/warehouse/sales.db/o"
    external = TableDefinition("away", "o", ID, properties={"transactional": "false"})
    assert catalog.create_table(external).location == "s3a://bucket/away/o"


def test_creating_twice_is_an_error_unless_asked_otherwise(catalog: Catalog, row_counts: Counts) -> None:
    catalog.create_database("d")
    first = catalog.create_table(TableDefinition("d", "t", ID, location="/data/t"))
    counts = without_sequences(row_counts())
    with pytest.raises(AlreadyExistsError, match=r"database d exists already, at file:/warehouse/d\.db"):
        catalog.create_database("D")
    with pytest.raises(AlreadyExistsError, match=r"table d\.t exists already, at file:/data/t"):
        catalog.create_table(TableDefinition("d", "T", (Column("x", "string"),)))
    assert catalog.create_database("d", if_not_exists=True).name == "d"
    assert catalog.create_table(TableDefinition("d", "t", (Column("x", "string"),)), if_not_exists=True) == first
    assert without_sequences(row_counts()) == counts


def test_what_is_not_there_is_named_with_what_looks_like_it(catalog: Catalog) -> None:
    catalog.create_database("sales")
    for name in ("orders", "order_items", "customers"):
        catalog.create_table(TableDefinition("sales", name, ID))
    with pytest.raises(NoSuchObjectError, match=r"no table sales\.ordres; did you mean orders"):
        catalog.get_table("sales.ordres")
    with pytest.raises(NoSuchObjectError, match="no database slaes; did you mean sales"):
        catalog.get_table("slaes.orders")
    with pytest.raises(NoSuchObjectError, match="no database sale; did you mean sales"):
        catalog.list_tables("sale")
    with pytest.raises(NoSuchObjectError, match=r"no table sales\.zzz$"):
        catalog.get_table("sales.zzz")
    with pytest.raises(NoSuchObjectError, match=r"no table default\.orders; did you mean sales\.orders\?"):
        catalog.get_table("default.orders")


@pytest.mark.every_database
def test_several_tables_are_read_together_in_the_order_asked_for(catalog: Catalog) -> None:
    for name in ("a", "b", "c"):
        catalog.create_table(TableDefinition("default", name, (Column(f"col_{name}", "int"),), comments={"x": "y"}))
    names = ["default.c", "default.A", "default.b", "default.c"]
    assert [t.qualified_name for t in catalog.get_tables(names)] == ["default.c", "default.a", "default.b", "default.c"]
    assert set(catalog.find_tables(["default.a", "default.nope", "nope.a"])) == {"default.a"}
    with pytest.raises(NoSuchObjectError, match=r"default\.d"):
        catalog.get_tables(["default.a", "default.d"])


def test_a_table_comes_back_as_it_was_defined(catalog: Catalog) -> None:
    made = catalog.create_table(TableDefinition(
        "default", "t", (Column("ID", "integer"), Column("näme", "struct<a:array<int>>")), (Column("P", "date"),),
        properties={"orc.compress": "ZSTD", "comment": "it's \"quoted\"; ünï €"}, location="file:///data/t/",
        owner="ann", bucket_columns=("ID",), bucket_count=8, comments={"ID": "the key"},
    ))  # fmt: skip
    found = catalog.get_table("DEFAULT.T")
    assert found == made
    assert found.columns == (Column("id", "int"), Column("näme", "struct<a:array<int>>"))
    assert found.partition_columns == (Column("p", "date"),)
    assert (found.location, found.owner, found.type) == ("file:/data/t", "ann", "MANAGED_TABLE")
    assert (found.bucket_columns, found.bucket_count, found.comments) == (("id",), 8, {"id": "the key"})
    assert found.properties["comment"] == 'it\'s "quoted"; ünï €'
    assert found.property("ORC.COMPRESS") == "ZSTD"
    assert found.is_transactional
    assert not found.is_insert_only


@pytest.mark.parametrize(
    "name",
    ["", ".", "t", "a.b.c", "default.", ".t", "default.a b", "default.a'b", 'default.a"b', "default.a;b", "default...",
     "default.a/b", "default.a\0b", "default.é", "default.%", "default." + "x" * 4096, "x" * 4096 + ".t"],
)  # fmt: skip
def test_a_name_that_is_none_changes_nothing(catalog: Catalog, row_counts: Counts, name: str) -> None:
    counts = row_counts()
    database, _, table = name.partition(".")
    for call in (
        lambda: catalog.get_table(name), lambda: catalog.drop_table(name), lambda: catalog.list_partitions(name),
        lambda: catalog.add_partitions(name, ["p=1"]),
        lambda: catalog.create_table(TableDefinition(database, table, ID)),
    ):  # fmt: skip
        with pytest.raises(InvalidArgumentsError):
            call()
    assert row_counts() == counts


@pytest.mark.every_database
def test_a_definition_that_is_refused_changes_nothing(catalog: Catalog, row_counts: Counts) -> None:
    counts = row_counts()
    with pytest.raises(UnsafePathError):
        catalog.create_table(TableDefinition("default", "t", ID, location="/data/../etc"))
    with pytest.raises(InvalidArgumentsError):
        catalog.create_table(TableDefinition("default", "t", (Column("id", "int'); DROP TABLE x"),)))
    with pytest.raises(NoSuchObjectError):
        catalog.create_table(TableDefinition("nowhere", "t", ID))
    assert without_sequences(row_counts()) == without_sequences(counts)


def test_without_a_warehouse_a_table_needs_a_place(client: MetastoreClient) -> None:
    with pytest.raises(InvalidArgumentsError, match="HIVE_ACID_WAREHOUSE"):
        client.catalog.create_database("d")
    assert client.catalog.create_database("d", "file:/w/d").location == "file:/w/d"
    assert client.catalog.warehouse() is None


def test_two_who_create_the_same_table_get_one(catalog: Catalog, stored: Stored) -> None:
    """
    t1  A and B see that there is no table t
    t2  both insert: one of them is refused by the unique key, and says so
    """
    start = threading.Barrier(4)

    def create(number: int) -> str:
        start.wait(timeout=30)
        try:
            catalog.create_table(TableDefinition("default", "t", (Column(f"c{number}", "int"),)))
        except AlreadyExistsError:
            return "exists"
        return "created"

    with ThreadPoolExecutor(4) as pool:
        answers = sorted(pool.map(create, range(4)))
    assert answers == ["created", "exists", "exists", "exists"]
    assert len(stored("TBLS")) == len(stored("SDS")) == len(stored("CDS")) == len(stored("COLUMNS_V2")) == 1


# --- dropping -----------------------------------------------------------------------------------------------------


@pytest.mark.conformance("K26")
def test_a_dropped_table_leaves_nothing_behind(
    partitioned: Catalog, client: MetastoreClient, row_counts: Counts
) -> None:
    partitioned.create_table(TableDefinition("default", "other", ID))
    counts = row_counts()
    made = TableDefinition("default", "t", ID, KEYS, bucket_columns=("id",), bucket_count=2)
    partitioned.create_table(made)
    partitioned.add_partitions("default.t", [("a", "1"), ("b", "2")])
    with client.transaction({"default.t": "insert"}, partitioned=["default.t"]) as txn:
        txn.add_partitions("default.t", ["ds=a/h=1"])
    aborted = client.begin({"default.t": "update"}, partitioned=["default.t"])
    aborted.abort("a test")
    client.compactions.enqueue("default.t", "ds=a/h=1")
    client.compactions.did_not_initiate(client.compactions.active()[0].resource, "a test")
    assert row_counts()["TXN_COMPONENTS"] == 1
    dropped = partitioned.drop_table("default.t")
    assert dropped is not None
    assert dropped.table.qualified_name == "default.t"
    assert dropped.locations == ("file:/warehouse/t",)
    assert dropped.delete_data
    ignored = {*SEQUENCES, "TXNS", "AUX_TABLE", "WRITE_SET", "NOTIFICATION_LOG"}
    left = {k: n for k, n in row_counts().items() if k not in ignored}
    assert left == {k: n for k, n in counts.items() if k in left}
    assert partitioned.drop_table("default.t", if_exists=True) is None
    with pytest.raises(NoSuchObjectError):
        partitioned.drop_table("default.t")


def test_a_drop_tells_which_files_go_and_where_they_are(partitioned: Catalog, client: MetastoreClient) -> None:
    partitioned.add_partitions("default.p", [("a", "1"), ("b", "2")])
    sds = client.catalog.get_partition("default.p", ("b", "2"))
    with client.database.transaction() as connection:
        table = sa.table("SDS", sa.column("LOCATION"))
        connection.execute(
            sa.update(table).where(table.c.LOCATION == sds.location).values(LOCATION="file:/elsewhere/b")
        )
    dropped = partitioned.drop_table("default.p")
    assert dropped is not None
    assert dropped.locations == ("file:/warehouse/p", "file:/elsewhere/b")
    for external, purge, gone in ((False, False, True), (True, False, False), (True, True, True)):
        properties = {"transactional": "false"}
        partitioned.create_table(TableDefinition("default", "e", ID, properties=properties, external=external))
        dropped = partitioned.drop_table("default.e", purge=purge)
        assert dropped is not None
        assert dropped.delete_data is gone


def test_a_database_is_dropped_only_when_it_is_empty_or_with_everything(catalog: Catalog, row_counts: Counts) -> None:
    counts = without_sequences(row_counts())
    catalog.create_database("d")
    for name in ("a", "b"):
        catalog.create_table(TableDefinition("d", name, ID, KEYS))
    with pytest.raises(InvalidArgumentsError, match="2 tables, among them a; drop them first or use CASCADE"):
        catalog.drop_database("d")
    assert catalog.list_tables("d") == ["a", "b"]
    dropped = catalog.drop_database("D", cascade=True)
    assert [d.locations for d in dropped] == [("file:/warehouse/d.db/a",), ("file:/warehouse/d.db/b",)]
    assert catalog.drop_database("d", if_exists=True) == []
    with pytest.raises(NoSuchObjectError):
        catalog.drop_database("d")
    with pytest.raises(InvalidArgumentsError, match="default"):
        catalog.drop_database("default", cascade=True)
    assert without_sequences(row_counts()) == counts


@pytest.mark.every_database
def test_a_table_that_a_materialized_view_needs_is_not_dropped(catalog: Catalog, client: MetastoreClient) -> None:
    table = catalog.create_table(TableDefinition("default", "t", ID))
    with client.database.transaction() as connection:
        connection.execute(sa.insert(MV_CREATION_METADATA), {"MV_CREATION_METADATA_ID": 1, "CAT_NAME": "hive",
                           "DB_NAME": "default", "TBL_NAME": "mv", "MATERIALIZATION_TIME": 0})  # fmt: skip
        connection.execute(sa.insert(MV_TABLES_USED), {"MV_CREATION_METADATA_ID": 1, "TBL_ID": table.id})
    with pytest.raises(InvalidArgumentsError, match="materialized view"):
        catalog.drop_table("default.t")
    assert catalog.get_table("default.t") == table


# --- partitions ---------------------------------------------------------------------------------------------------


def test_partitions_are_added_once_and_found_by_name_values_or_columns(partitioned: Catalog) -> None:
    specs = [("2024", "1"), "ds=2024/h=1", {"h": "2", "DS": "a/b"}, (None, "3")]
    added = partitioned.add_partitions("default.p", specs)
    assert added == ["ds=2024/h=1", "ds=a%2Fb/h=2", "ds=__HIVE_DEFAULT_PARTITION__/h=3"]
    assert partitioned.add_partitions("default.p", [("2024", "1"), ("2025", "1")]) == ["ds=2025/h=1"]
    with pytest.raises(AlreadyExistsError, match=r"partition ds=2024/h=1 of default\.p exists already"):
        partitioned.add_partitions("default.p", [("2026", "1"), ("2024", "1")], if_not_exists=False)
    assert partitioned.get_partition("default.p", {"ds": "a/b", "h": "2"}).values == ("a/b", "2")
    assert partitioned.get_partition("default.p", "ds=2024/h=1").location == "file:/warehouse/p/ds=2024/h=1"
    with pytest.raises(NoSuchObjectError, match="no partition ds=2026/h=1"):
        partitioned.get_partition("default.p", ("2026", "1"))
    assert set(partitioned.find_partitions("default.p", ["ds=2024/h=1", "ds=nope/h=1"])) == {"ds=2024/h=1"}


@pytest.mark.every_database
def test_partitions_that_do_not_lie_where_their_names_say_are_found(
    partitioned: Catalog, client: MetastoreClient
) -> None:
    partitioned.add_partitions("default.p", [(f"a/{d}", "1") for d in range(4)])
    assert partitioned.partitions_elsewhere("default.p", 5) == {}
    moved = {"ds=a%2F1/h=1": "file:/elsewhere", "ds=a%2F3/h=1": "file:/warehouse/p/ds=a%2F3/h=1_old"}
    for name, place in moved.items():
        storage = client.catalog.get_partition("default.p", name)
        assert storage.location == f"file:/warehouse/p/{name}"
        with client.database.transaction() as connection:
            connection.execute(sa.update(SDS).where(SDS.c.LOCATION == storage.location).values(LOCATION=place))
    assert partitioned.partitions_elsewhere("default.p", 5) == moved
    assert partitioned.partitions_elsewhere("default.p", 1) == {"ds=a%2F1/h=1": "file:/elsewhere"}
    third = {"ds=a%2F3/h=1": "file:/warehouse/p/ds=a%2F3/h=1_old"}
    for only, found in (("ds=a%2F3/h=1", third), ("ds=a%2F0/h=1", {}), ("ds=a%2F9/h=1", {})):
        assert partitioned.partitions_elsewhere("default.p", 5, only) == found


@pytest.mark.every_database
def test_a_filter_on_values_is_part_of_the_statement(partitioned: Catalog, client: MetastoreClient) -> None:
    partitioned.add_partitions("default.p", [(f"d{d:03}", str(h)) for d in range(50) for h in range(4)])
    seen: list[str] = []
    sa.event.listen(client.database.engine, "before_cursor_execute", lambda *a: seen.append(a[2]))

    def names(filter: dict[str, Any], limit: int | None = None) -> list[str]:
        return [p.name for p in partitioned.list_partitions("default.p", filter, limit)]

    assert names({"ds": "d007"}) == [f"ds=d007/h={h}" for h in range(4)]
    assert names({"DS": ["d001", "d002"], "h": "3"}) == ["ds=d001/h=3", "ds=d002/h=3"]
    assert names({"ds": "d001", "h": "3"}) == ["ds=d001/h=3"]
    assert names({"h": "3"}, limit=2) == ["ds=d000/h=3", "ds=d001/h=3"]
    assert names({"ds": None}) == []
    assert names({"ds": "%"}) == []
    assert names({"ds": []}) == []
    assert len(names({})) == 200
    assert any("PART_KEY_VAL" in statement for statement in seen)
    with pytest.raises(InvalidArgumentsError, match="'id' is no partition column"):
        names({"id": "1"})


def test_only_partitioned_tables_have_partitions(catalog: Catalog) -> None:
    catalog.create_table(TableDefinition("default", "t", ID))
    for call in (lambda: catalog.list_partitions("default.t"), lambda: catalog.add_partitions("default.t", ["a=1"]),
                 lambda: catalog.get_partition("default.t", "a=1")):  # fmt: skip
        with pytest.raises(InvalidArgumentsError, match="not partitioned"):
            call()


@pytest.mark.parametrize(
    "value", ["a'b", 'a"b', "a;b", "..", ".", "a/b", "%", "_", "%00", " ", "é€", "x" * 256, "a\nb", "a=b", "a{b}"]
)
def test_any_text_can_be_a_partition_value(partitioned: Catalog, value: str) -> None:
    added = partitioned.add_partitions("default.p", [(value, "1")])
    found = partitioned.get_partition("default.p", (value, "1"))
    assert found.values == (value, "1")
    assert [p.name for p in partitioned.list_partitions("default.p", {"ds": value})] == added == [found.name]
    assert found.location == f"file:/warehouse/p/{found.name}"


def test_every_script_can_be_a_partition_value_where_the_database_stores_it(
    partitioned: Catalog, client: MetastoreClient, backend: str
) -> None:
    """Hive's schema for MySQL stores text as latin1, and other characters cannot be told apart there."""
    value = "é漢😀"
    if backend in ("mariadb", "mysql"):
        told = r"cannot store these characters.*latin1.*nothing changed"
        with pytest.raises(InvalidArgumentsError, match=told):
            partitioned.add_partitions("default.p", [(value, "1")])
        with pytest.raises(InvalidArgumentsError, match=told):
            partitioned.create_table(TableDefinition("default", "t", ID, properties={"comment": value}))
        assert partitioned.list_partitions("default.p") == []
        assert partitioned.list_tables("default") == ["p"]
        return
    partitioned.add_partitions("default.p", [(value, "1")])
    assert partitioned.get_partition("default.p", (value, "1")).values == (value, "1")
    made = partitioned.create_table(TableDefinition("default", "t", ID, properties={"comment": value}))
    assert made.properties["comment"] == value


@pytest.mark.parametrize("value", ["a\0b", "x" * 257, "%" * 256])
def test_a_value_hive_cannot_hold_adds_nothing(partitioned: Catalog, row_counts: Counts, value: str) -> None:
    counts = row_counts()
    with pytest.raises(InvalidArgumentsError):
        partitioned.add_partitions("default.p", [("fine", "1"), (value, "1")])
    assert without_sequences(row_counts()) == without_sequences(counts)


def test_two_writers_that_add_the_same_partition_share_it(partitioned: Catalog, stored: Stored) -> None:
    """
    t1  A and B commit rows of partition ds=x
    t2  neither sees it in the catalog; the second waits for the table's row and looks again (R3)
    """
    start = threading.Barrier(4)

    def add(number: int) -> list[str]:
        start.wait(timeout=30)
        return partitioned.add_partitions("default.p", [("x", "1"), (f"own{number}", "1")])

    with ThreadPoolExecutor(4) as pool:
        added = [name for names in pool.map(add, range(4)) for name in names]
    assert sorted(added) == ["ds=own0/h=1", "ds=own1/h=1", "ds=own2/h=1", "ds=own3/h=1", "ds=x/h=1"]
    assert len(stored("PARTITIONS")) == 5
    assert len(stored("SDS")) == 6


def test_a_dropped_partition_leaves_its_table_alone(partitioned: Catalog, client: MetastoreClient,
                                                    row_counts: Counts) -> None:  # fmt: skip
    partitioned.add_partitions("default.p", [("a", "1")])
    with client.transaction({"default.p": "insert"}, partitioned=["default.p"]) as txn:
        txn.add_partitions("default.p", ["ds=a/h=1"])
    counts = row_counts()
    partitioned.add_partitions("default.p", [("b", "1")])
    with client.transaction({"default.p": "insert"}, partitioned=["default.p"]) as txn:
        txn.add_partitions("default.p", ["ds=b/h=1"])
    client.compactions.enqueue("default.p", "ds=b/h=1")
    dropped = partitioned.drop_partition("default.p", ("b", "1"))
    assert dropped is not None
    assert dropped.location == "file:/warehouse/p/ds=b/h=1"
    ignored = {*SEQUENCES, "TXNS", "AUX_TABLE", "TXN_TO_WRITE_ID", "NOTIFICATION_LOG"}
    assert {k: n for k, n in row_counts().items() if k not in ignored} == {
        k: n for k, n in counts.items() if k not in ignored
    }
    assert partitioned.drop_partition("default.p", ("b", "1"), if_exists=True) is None
    with pytest.raises(NoSuchObjectError):
        partitioned.drop_partition("default.p", ("b", "1"))


# --- statistics ---------------------------------------------------------------------------------------------------


@pytest.mark.hive4("no WRITE_ID in the catalog")
def test_a_write_takes_back_what_the_catalog_says_about_an_empty_table(
    partitioned: Catalog, client: MetastoreClient, stored: Stored
) -> None:
    """Hive answers count(*) from the catalog as long as COLUMN_STATS_ACCURATE is there."""
    partitioned.create_table(TableDefinition("default", "t", ID))
    partitioned.create_table(TableDefinition("default", "untouched", ID))
    partitioned.add_partitions("default.p", [("a", "1"), ("b", "1")])

    def exact() -> tuple[int, int]:
        tables = [r for r in stored("TABLE_PARAMS") if r["PARAM_KEY"] == "COLUMN_STATS_ACCURATE"]
        return len(tables), len([r for r in stored("PARTITION_PARAMS") if r["PARAM_KEY"] == "COLUMN_STATS_ACCURATE"])

    assert exact() == (2, 2)
    with client.transaction({"default.t": "insert", "default.p": "delete"}, partitioned=["default.p"]) as txn:
        txn.add_partitions("default.p", ["ds=a/h=1"])
        txn.before_commit(lambda connection: None)
    assert exact() == (1, 1)
    assert {r["TBL_NAME"]: r["WRITE_ID"] for r in stored("TBLS")} == {"p": 0, "t": 1, "untouched": 0}
    assert {r["PART_NAME"]: r["WRITE_ID"] for r in stored("PARTITIONS")} == {"ds=a/h=1": 1, "ds=b/h=1": 0}
    with client.transaction({"default.t": "insert"}):
        pass
    assert {r["TBL_NAME"]: r["WRITE_ID"] for r in stored("TBLS")}["t"] == 1


@pytest.mark.hive4("no WRITE_ID in the catalog")
def test_an_older_writer_does_not_set_the_catalogs_write_id_back(
    partitioned: Catalog, client: MetastoreClient, stored: Stored
) -> None:
    """
    t1  A writes t and p/ds=a/h=1 with write id 1
    t2            B sets a property of t, and of the partition, with write id 2: shares them with A, and commits
    t3  A commits: what was exact is forgotten, the catalog stays at 2
    """
    partitioned.create_table(TableDefinition("default", "t", ID))
    partitioned.add_partitions("default.p", [("a", "1")])
    older = client.begin({"default.t": "insert", "default.p": "insert"}, partitioned=["default.p"])
    older.add_partitions("default.p", ["ds=a/h=1"])
    client.catalog.alter_properties("default.t", {"a": "b"})
    client.catalog.alter_partition("default.p", "ds=a/h=1", PartitionAlteration(properties={"a": "b"}))
    last = client.notifications.current_event_id()
    older.commit()
    assert {r["TBL_NAME"]: r["WRITE_ID"] for r in stored("TBLS")} == {"p": 2, "t": 2}
    assert [r["WRITE_ID"] for r in stored("PARTITIONS")] == [2]
    parameters = [*stored("TABLE_PARAMS"), *stored("PARTITION_PARAMS")]
    assert not [r for r in parameters if r["PARAM_KEY"] == "COLUMN_STATS_ACCURATE"]
    told = [e.message() for e in client.events_after(last) if e.type.startswith("ALTER_")]
    assert {m["table"] for m in told} == {"p", "t"}


@pytest.mark.hive4("no WRITE_ID in the catalog")
def test_partitions_of_a_commit_are_added_with_its_write_id(partitioned: Catalog, client: MetastoreClient,
                                                            stored: Stored) -> None:  # fmt: skip
    with client.transaction({"default.p": "insert"}, partitioned=["default.p"]) as txn:
        txn.add_partitions("default.p", ["ds=a/h=1"])
        write_id = txn.write_ids["default.p"]
        txn.before_commit(
            lambda connection: (
                client.catalog.add_partitions_in(connection, table_name("default.p"), ["ds=a/h=1"], write_id=write_id)
                and None
            )
        )
    assert [(r["PART_NAME"], r["WRITE_ID"]) for r in stored("PARTITIONS")] == [("ds=a/h=1", write_id)]


@pytest.mark.every_database
def test_columns_that_hive_declared_not_null_are_known(catalog: Catalog, client: MetastoreClient) -> None:
    """Only those whose constraint Hive enforces (ENABLE); the other kinds say nothing about NULL."""
    columns = tuple(Column(name, "int") for name in "abcd")
    table = catalog.create_table(TableDefinition("default", "keyed", columns))
    with client.database.transaction() as connection:
        column_ids = sa.select(SDS.c.CD_ID).join(TBLS, TBLS.c.SD_ID == SDS.c.SD_ID).where(TBLS.c.TBL_ID == table.id)
        place = {"PARENT_CD_ID": connection.execute(column_ids).scalar_one(), "PARENT_TBL_ID": table.id, "POSITION": 1}
        for index, (kind, enabled) in enumerate([(3, 4), (3, 1), (2, 4), (3, 7)]):
            connection.execute(
                sa.insert(KEY_CONSTRAINTS).values(
                    **place, PARENT_INTEGER_IDX=index, CONSTRAINT_NAME=f"c{index}", CONSTRAINT_TYPE=kind,
                    ENABLE_VALIDATE_RELY=enabled,
                )
            )  # fmt: skip
    assert [(c.name, c.required) for c in catalog.get_table("default.keyed").columns] == [
        ("a", True), ("b", False), ("c", False), ("d", True),
    ]  # fmt: skip
