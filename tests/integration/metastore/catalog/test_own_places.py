"""Two tables never share or nest directories, whoever makes them, however a directory is spelled; and what DROP does
where a Hive has let them."""

from __future__ import annotations

import contextlib
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest
from sqlalchemy import select, update

from airflow_hive_acid.errors import InvalidArgumentsError
from airflow_hive_acid.format.jobs import Column
from airflow_hive_acid.metastore import MetastoreClient
from airflow_hive_acid.metastore.catalog.rows.places import share_files
from airflow_hive_acid.metastore.catalog.values.model import TableDefinition
from airflow_hive_acid.metastore.schema.hive_catalog import SDS, TBLS
from airflow_hive_acid.settings import Settings, Source

A = (Column("a", "int"),)
SHARED = "would share files with"


def define(name: str, location: str | None = None, *, external: bool = True, keys: bool = False) -> TableDefinition:
    db, table = name.split(".")
    return TableDefinition(db, table, A, (Column("k", "int"),) if keys else (), location=location, external=external)


@pytest.fixture
def catalog(client: MetastoreClient):
    client.catalog.set_warehouse("file:/wh")
    client.catalog.create_database("w")
    return client.catalog


def respell(client: MetastoreClient, name: str, location: str) -> None:
    """What a real Hive has written, as it stands."""
    table = client.catalog.get_table(name)
    of_table = select(TBLS.c.SD_ID).where(TBLS.c.TBL_ID == table.id)
    change = update(SDS).where(SDS.c.SD_ID.in_(of_table)).values(LOCATION=location)
    client.database.run(lambda connection: connection.execute(change))


@pytest.mark.parametrize(
    ("stored", "others"),
    [
        ("file:/x/t", ["/x/t", "file:///x/t", "file:/x//t/", "FILE:/x/t", "file://localhost/x/t"]),
        ("/x//t/", ["file:/x/t"]),
        ("file:///x/t", ["/x/t"]),
        ("s3://b/x/t", ["s3a://b/x/t", "s3n://b/x//t/"]),
        ("s3a://b/x/t/", ["s3://b/x/t"]),
        ("hdfs://n:8020/x/t", ["hdfs://n/x/t", "hdfs://N:8020/x/t"]),
        ("hdfs://n/x/t", ["hdfs://n:8020/x/t"]),
    ],
)
def test_every_spelling_of_a_tables_directory_is_that_directory(client, catalog, stored, others):
    catalog.create_table(define("w.t", stored.replace("/x//t/", "/x/t")))
    respell(client, "w.t", stored)
    for other in others:
        for place in (other, f"{other.rstrip('/')}/in/it", other.rstrip("/").rsplit("/", 1)[0]):
            with pytest.raises(InvalidArgumentsError, match=f"{SHARED} table w.t"):
                catalog.create_table(define("w.u", place))
            with pytest.raises(InvalidArgumentsError, match=f"{SHARED} table w.t"):
                catalog.plan_table(define("w.u", place))
        assert share_files(stored, other)
    assert catalog.list_tables("w") == ["t"]


@pytest.mark.every_database
def test_neighbours_share_nothing(client, catalog):
    catalog.create_table(define("w.t", "file:/x/t"))
    for number, place in enumerate(
        ("file:/x/t2", "file:/x/T", "file:/x/t%", "file:/x/_", "s3://b/x/t", "s3://c/x/t", "hdfs://n:9000/x/t")
    ):
        assert not share_files("file:/x/t", place)
        catalog.create_table(define(f"w.u{number}", place))
    catalog.create_table(define("w.later", "hdfs://n/x/t"))
    catalog.drop_table("w.t")
    catalog.create_table(define("w.t", "file:/x/t"))
    catalog.create_table(define("w.managed", external=False))


@pytest.mark.parametrize("place", ["file:/wh/w.db", "/wh", "file:///", "file:/wh/w.db/t/p", "/wh/w.db/t"])
def test_a_table_takes_no_place_of_a_database_or_of_managed_tables(catalog, place):
    catalog.create_table(define("w.t", external=False))
    with pytest.raises(InvalidArgumentsError, match=SHARED):
        catalog.create_table(define("w.u", place))


def test_a_database_lies_in_no_table_but_may_lie_around_some(catalog):
    catalog.create_table(define("w.t", "file:/x/t"))
    for place in ("/x/t", "file:///x/t/db"):
        with pytest.raises(InvalidArgumentsError, match=f"{SHARED} table w.t"):
            catalog.create_database("v", place)
        with pytest.raises(InvalidArgumentsError, match=f"{SHARED} table w.t"):
            catalog.plan_database("v", place)
    assert catalog.create_database("v", "file:/x").location == "file:/x"
    with pytest.raises(InvalidArgumentsError, match=f"{SHARED} table w.t"):
        catalog.create_table(define("v.t"))


def test_partitions_keep_their_places_from_other_tables(catalog):
    catalog.create_table(define("w.p", "file:/x/p", keys=True))
    catalog.add_locked_partitions("w.p", ["k=1", "k=2"], locations={"k=1": "file:/y/one"})
    for place in ("/y/one", "/y", "/y//one/in", "/x/p/k=2"):
        with pytest.raises(InvalidArgumentsError, match=SHARED):
            catalog.create_table(define("w.u", place))
    catalog.create_table(define("w.u", "file:/z/u"))
    for place in ("/z/u", "file:///z", "/z/u/in", "/y//one", "/wh"):
        with pytest.raises(InvalidArgumentsError, match=SHARED):
            catalog.add_locked_partitions("w.p", ["k=3"], locations={"k=3": place})


def test_a_rename_does_not_move_a_table_to_anothers_place(catalog, client):
    class Still:
        def fence(self, jobs) -> None: ...

        @contextlib.contextmanager
        def moving(self, *args):
            yield

    catalog.create_table(define("w.t", external=False))
    catalog.create_table(define("w.u", "file:/wh/w.db/new/in"))
    with pytest.raises(InvalidArgumentsError, match=f"{SHARED} table w.u"):
        catalog.rename_table("w.t", "w.new", files=Still())
    catalog.rename_table("w.t", "w.other", files=Still())
    assert catalog.get_table("w.other").location == "file:/wh/w.db/other"


def test_of_two_who_take_one_place_at_one_moment_one_gets_it(client, catalog, metastore_url):
    """R3: both have looked before either commits."""
    barrier = Barrier(4)

    def create(number: int) -> bool:
        with MetastoreClient(metastore_url) as own:
            barrier.wait(60)
            try:
                own.catalog.create_table(define(f"w.t{number}", f"file:/x/a{'/b' * number}"))
            except InvalidArgumentsError:
                return False
            return True

    with ThreadPoolExecutor(4) as pool:
        assert sum(pool.map(create, range(4))) == 1
    assert len(catalog.list_tables("w")) == 1


@pytest.mark.every_database
@pytest.mark.setting("hive.acid.shared.locations")
def test_the_setting_lets_tables_share(client, catalog, metastore_url):
    catalog.create_table(define("w.t", "file:/x/t"))
    settings = Settings({Source.CONNECTION: {"hive.acid.shared.locations": "true"}})
    with MetastoreClient(metastore_url, settings) as sharing:
        sharing.catalog.create_table(define("w.u", "file:/x/t"))
    assert client.catalog.owner_of_location("file:///x//t") in ("w.t", "w.u")
