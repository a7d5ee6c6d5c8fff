"""Statements over many partitions ask once whose their directories are, and find each that is somebody else's."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import pytest
import sqlalchemy as sa

from airflow_hive_acid.errors import InvalidArgumentsError
from airflow_hive_acid.format.jobs import Column
from airflow_hive_acid.metastore.catalog.rows.sharing import read_owned
from airflow_hive_acid.metastore.catalog.values.model import TableDefinition
from airflow_hive_acid.metastore.schema.hive_catalog import PARTITIONS, SDS, TBLS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from airflow_hive_acid.metastore import MetastoreClient
    from airflow_hive_acid.metastore.statements.catalog import HiveCatalog

SHARED = "would share files with"


@pytest.fixture
def catalog(client: MetastoreClient) -> HiveCatalog:
    client.catalog.set_warehouse("file:/wh")
    client.catalog.create_database("w")
    return client.catalog


def make(catalog: HiveCatalog, name: str, location: str, partitions: Sequence[str] = ()) -> None:
    keys = (Column("k", "string"),) if partitions else ()
    definition = TableDefinition("w", name, (Column("a", "int"),), keys, location=location, external=True)
    catalog.create_table(definition)
    if partitions:
        catalog.add_partitions(f"w.{name}", partitions)


def move(client: MetastoreClient, name: str, location: str, partition: str | None = None) -> None:
    """What a real Hive has written, as it stands."""
    table = client.catalog.get_table(f"w.{name}")
    of_one = sa.select(TBLS.c.SD_ID).where(TBLS.c.TBL_ID == table.id)
    if partition is not None:
        part = client.catalog.get_partition(f"w.{name}", partition)
        of_one = sa.select(PARTITIONS.c.SD_ID).where(PARTITIONS.c.PART_ID == part.id)
    change = sa.update(SDS).where(SDS.c.SD_ID.in_(of_one)).values(LOCATION=location)
    client.database.run(lambda connection: connection.execute(change))


@contextlib.contextmanager
def looks(client: MetastoreClient) -> Iterator[list[str]]:
    """The statements that look at the locations of the whole catalog."""
    seen: list[str] = []

    def note(_connection: object, _cursor: object, statement: str, *_rest: object) -> None:
        if "SDS" in statement and " LIKE " in statement.upper():
            seen.append(statement)

    sa.event.listen(client.database.engine, "before_cursor_execute", note)
    try:
        yield seen
    finally:
        sa.event.remove(client.database.engine, "before_cursor_execute", note)


def test_adding_many_partitions_with_locations_looks_as_often_as_adding_one(client, catalog):
    make(catalog, "p", "file:/x/p", ["k=0"])
    counts = []
    for first, number in ((1, 1), (100, 60)):
        places = {f"k={n}": f"file:/y/{n}" for n in range(first, first + number)}
        with looks(client) as seen:
            assert len(catalog.add_locked_partitions("w.p", list(places), locations=places)) == number
        counts.append(len(seen))
    assert counts[0] == counts[1] > 0


def test_dropping_many_partitions_looks_as_often_as_dropping_one(client, catalog):
    make(catalog, "p", "file:/x/p", [f"k={n}" for n in range(120)])
    table, partitions = catalog.get_table("w.p"), catalog.list_partitions("w.p")
    counts = []
    for some in (partitions[:1], partitions):
        with looks(client) as seen:
            assert catalog.shared_partition_places(table, some) == {}
        counts.append(len(seen))
    assert counts[0] == counts[1] > 0


def test_of_many_that_are_added_two_do_not_share(catalog):
    make(catalog, "p", "file:/x/p", ["k=0"])
    places = {f"k={n}": f"file:/y/{n}" for n in range(20)[1:]}
    for place in ("/y/7", "file:///y//7/in"):
        with pytest.raises(InvalidArgumentsError, match=f"{SHARED} partition k=(7|20) of w.p"):
            catalog.add_locked_partitions("w.p", [*places, "k=20"], locations=places | {"k=20": place})
    assert [part.name for part in catalog.list_partitions("w.p")] == ["k=0"]


@pytest.mark.parametrize(
    ("place", "whose"),
    [
        ("/v/0", "partition k=0 of w.p"), ("/v/0/in", "partition k=0 of w.p"), ("/v", "partition k=0 of w.p"),
        ("file:///x", "table w.p"), ("/u", "table w.u"), ("/u/in", "table w.u"),
        ("/wh", "(the tables of database|the warehouse)"), ("/wh/w.db", "the tables of database w"),
    ],
)  # fmt: skip
def test_of_many_that_are_added_none_shares_with_others(client, catalog, place, whose):
    make(catalog, "p", "file:/x/p", ["k=0"])
    make(catalog, "u", "file:/u")
    move(client, "p", "file:///v/0", "k=0")
    places = {f"k={n}": f"file:/y/{n}" for n in range(20)[1:]}
    with pytest.raises(InvalidArgumentsError, match=f"partition k=20 of w.p cannot lie at .* {SHARED} {whose}"):
        catalog.add_locked_partitions("w.p", [*places, "k=20"], locations=places | {"k=20": place})
    assert [part.name for part in catalog.list_partitions("w.p")] == ["k=0"]


def test_many_that_lie_elsewhere_are_added_beside_those_at_home(catalog):
    make(catalog, "p", "file:/x/p", ["k=0"])
    places = {"k=1": "file:/y/1", "k=2": "file:/x/p/k=2", "k=3": "file:/x/p/other"}
    catalog.add_locked_partitions("w.p", [*places, "k=4"], locations=places)
    assert {part.name: part.location for part in catalog.list_partitions("w.p")} == {
        "k=0": "file:/x/p/k=0", **places, "k=4": "file:/x/p/k=4",
    }  # fmt: skip


@pytest.mark.every_database
def test_of_many_that_are_dropped_those_that_others_share_are_found(client, catalog):
    make(catalog, "p", "file:/x/p", [f"k={n}" for n in range(30)])
    make(catalog, "inside", "file:/i")
    make(catalog, "r", "file:/r", ["k=9"])
    make(catalog, "around", "file:/a")
    move(client, "inside", "file:///x/p/k=2/in")
    move(client, "p", "s3://b/three", "k=3")
    move(client, "r", "s3a://b/three/", "k=9")
    move(client, "p", "/x//p/k=4", "k=5")
    move(client, "p", "file:/z/6/in", "k=6")
    move(client, "around", "file:/z/6")
    table, there = catalog.get_table("w.p"), {part.name: part for part in catalog.list_partitions("w.p")}
    four = "file:/x/p/k=4"
    others = {
        "file:/x/p/k=2": "table w.inside", "s3://b/three": "partition k=9 of w.r", "file:/z/6/in": "table w.around",
    }  # fmt: skip
    without_five = [part for name, part in there.items() if name != "k=5"]
    assert catalog.shared_partition_places(table, without_five) == {**others, four: "partition k=5 of w.p"}
    assert catalog.shared_partition_places(table, list(there.values())) == others
    assert catalog.shared_partition_places(table, [there["k=5"]]) == {"/x//p/k=4": "partition k=4 of w.p"}
    assert catalog.owned_homes(table, ["file:/x/p/k=3", "file:/x/p/k=5", "file:/x/p/k=2"]) == {"file:/x/p/k=2"}
    assert catalog.taken_places(["file:/x/p/k=1", "file:/x/p/k=2/in/it", "file:/wh", "/z/6/in"]) == {
        "file:/x/p/k=1", "/z/6/in",
    }  # fmt: skip
    assert catalog.taken_places(["file:/wh", "file:/none"], homes=True) == {"file:/wh"}


@pytest.mark.every_database
def test_strangers_of_a_table_are_all_but_itself_and_its_partitions_at_home(client, catalog):
    make(catalog, "p", "file:/x/p", ["k=0", "k=1", "k=2"])
    make(catalog, "u", "file:/u")
    table = catalog.get_table("w.p")
    assert catalog.strangers_in(table.id, table.location).sharing("file:/x/p/k=1") is None
    move(client, "u", "/x/p/k=1/in")
    move(client, "p", "file:/x/p/gone", "k=2")
    strangers = catalog.strangers_in(table.id, table.location)
    assert strangers.sharing("file:/x/p/k=1") == "table w.u"
    assert strangers.sharing("file:/x/p/k=0") is None
    assert strangers.sharing("file:/x/p/gone") == "partition k=2 of w.p"
    move(client, "u", "file:/x/p/../p/k=1")
    assert catalog.strangers_in(table.id, table.location) is None


@pytest.mark.every_database
def test_places_of_a_dropped_table_that_others_share_are_found(client, catalog):
    make(catalog, "p", "file:/x/p", [f"k={n}" for n in range(12)])
    make(catalog, "u", "file:/u")
    for number in range(12):
        move(client, "p", f"file:/y/{number}", f"k={number}")
    places = ["file:/x/p", *(f"file:/y/{number}" for number in range(12))]
    assert catalog.shared_places(places, "w", "p") == {}
    move(client, "u", "file:/y/3/in")
    assert catalog.shared_places(places, "w", "p") == {"file:/y/3": "table w.u"}
    assert catalog.shared_places(places, "w") == {}
    owned = client.database.read(lambda connection: read_owned(connection, ["/y/3", "/y/30", "/y", "/none"]))
    assert owned == {"/y/3", "/y"}
