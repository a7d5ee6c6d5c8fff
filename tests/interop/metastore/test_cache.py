"""The metastore cache beside a real Hive: its DDL and rows are followed, whatever its server writes into the log."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from airflow_hive_acid.errors import NoSuchObjectError
from airflow_hive_acid.metastore import MetastoreClient
from airflow_hive_acid.metastore.cache.cache import CachedCatalog
from airflow_hive_acid.metastore.cache.rules import Verdict
from airflow_hive_acid.metastore.notifications.events import Event, EventType
from airflow_hive_acid.settings import Settings, Source

if TYPE_CHECKING:
    from collections.abc import Iterator

    from airflow_hive_acid.metastore.catalog.values.model import Table
    from tests.interop.hive import Hive

pytestmark = pytest.mark.interop

READS, STATEMENTS = 10_000, 10


@pytest.fixture
def cache(client: MetastoreClient) -> Iterator[CachedCatalog]:
    """A cache whose follower looks when a test says so."""
    cache = CachedCatalog(client, client.catalog)
    cache.follower.look()
    yield cache
    cache.close()


def read(cache: CachedCatalog, name: str) -> tuple[Table, Verdict]:
    """A table under a list of now, and from where it came."""
    before = dict(cache._counts)
    found = cache.view([name]).get_table(name)
    (verdict,) = [v for v, count in cache._counts.items() if count > before[v]]
    return found, verdict


def tell(client: MetastoreClient, kind: EventType, name: str) -> None:
    """The event that Hive's listener would have written, as bare as can be: this Hive has no listener, because its jar
    is not in Maven Central. Logs that a Hive wrote itself are in the fixtures."""
    db, _, table = name.partition(".")
    event = Event(kind, {"db": db, "table": table}, db, table)
    client.database.run(lambda connection: client.notifications.write(connection, [event]))


#: DDL for which a Hive 4.1 takes no write id: no list tells of it, only its event does.
WITHOUT_WRITE_ID = {
    "alter table t set tblproperties ('note'='1')",
    "alter table t unset tblproperties ('note')",
}


def test_every_ddl_and_write_of_hive_is_seen_by_the_first_read_after_it(
    hive: Hive, hive_database: str, client: MetastoreClient, cache: CachedCatalog
) -> None:
    """After each statement of Hive that takes a write id, what is read equals the database, though no event tells of
    it; after the others it does so once their event was read."""
    name = f"{hive_database}.t"
    hive.run(f"create table {name} (a int) partitioned by (p int) stored as orc tblproperties ('transactional'='true')")
    statements = [
        f"insert into {name} partition (p=1) values (1), (2)",
        f"alter table {name} set tblproperties ('note'='1')",
        f"alter table {name} add columns (b string)",
        f"alter table {name} add partition (p=2)",
        f"update {name} set a = 5 where a = 1",
        f"insert into {name} partition (p) values (1, 'x', 3), (1, 'x', 4)",
        f"alter table {name} partition (p=2) rename to partition (p=7)",
        f"delete from {name} where a = 5",
        f"alter table {name} drop partition (p=3)",
        f"truncate table {name} partition (p=4)",
        f"alter table {name} change column b c string",
        f"alter table {name} unset tblproperties ('note')",
    ]
    untold = set()
    for statement in statements:
        cache.view([name]).list_partitions(name)
        cache.follower.look()
        before = client.max_allocated_write_id(name)
        hive.run(statement)
        if client.max_allocated_write_id(name) > before:
            check(client, cache, name, statement)
        else:
            untold.add(statement.replace(name, "t"))
        tell(client, EventType.ALTER_TABLE, name)
        cache.follower.look()
        check(client, cache, name, statement)
        cache.follower.look()
        assert read(cache, name)[1] is Verdict.HIT, statement
    assert untold == WITHOUT_WRITE_ID


def check(client: MetastoreClient, cache: CachedCatalog, name: str, statement: str) -> None:
    view = cache.view([name])
    assert view.get_table(name) == client.catalog.get_table(name), statement
    expected = sorted(client.catalog.list_partitions(name), key=lambda partition: partition.name)
    assert view.list_partitions(name) == expected, statement


def test_a_table_that_hive_renames_drops_and_makes_anew_is_never_taken_for_another(
    hive: Hive, hive_database: str, cache: CachedCatalog
) -> None:
    name, other = f"{hive_database}.t", f"{hive_database}.u"
    create = "create table {} (a int) stored as orc tblproperties ('transactional'='true')"
    hive.run(create.format(name))
    first, _ = read(cache, name)
    cache.follower.look()
    hive.run(f"alter table {name} rename to {other}")
    hive.run(create.format(name))
    for _ in range(3):
        assert read(cache, other)[0].id == first.id
        assert read(cache, name)[0].id != first.id
        cache.follower.look()
    assert read(cache, name)[1] is Verdict.HIT
    hive.run(f"drop table {name}")
    with pytest.raises(NoSuchObjectError):
        read(cache, name)
    cache.follower.look()
    with pytest.raises(NoSuchObjectError):
        read(cache, name)


def test_an_open_transaction_of_hive_keeps_its_ddl_from_others_only_by_its_commit(
    hive: Hive, hive_database: str, cache: CachedCatalog
) -> None:
    """Hive's catalog shows a new partition before the insert that made it commits; the entry waits for that commit."""
    name = f"{hive_database}.t"
    hive.run(f"create table {name} (a int) partitioned by (p int) stored as orc tblproperties ('transactional'='true')")
    hive.begin("writer")
    hive.run(f"insert into {name} partition (p=1) values (1)", "writer")
    cache.view([name]).list_partitions(name)
    cache.follower.look()
    assert read(cache, name)[1] in (Verdict.UNCONFIRMED, Verdict.HIT)
    hive.commit("writer")
    # This Hive tells nobody: the list does, and as the log was followed to its end, what is read then is kept.
    assert read(cache, name)[1] is Verdict.NEWER
    assert read(cache, name)[1] is Verdict.HIT
    assert [p.name for p in cache.view([name]).list_partitions(name)] == ["p=1"]


def test_ten_thousand_reads_while_hive_and_we_alter_and_write(
    hive: Hive, hive_database: str, client: MetastoreClient
) -> None:
    """Hive adds columns while we read and set properties: no table is ever read as it was before a read that was made
    earlier, or before the commits that were there when its list was taken."""
    settings = Settings({Source.CONNECTION: {"hive.acid.cache.poll.interval": "20ms"}})
    names = [f"{hive_database}.t{number}" for number in range(2)]
    for name in names:
        hive.run(f"create table {name} (a int) stored as orc tblproperties ('transactional'='true', 'v'='0')")
    dice, reads, number = random.Random(1), 0, 0
    committed, shown = (dict.fromkeys(names, (1, 0)) for _ in range(2))
    with MetastoreClient(client.database.url, settings) as own, CachedCatalog(own, own.catalog) as cache:
        name, running = names[0], hive.submit("show databases")
        while reads < READS or number < STATEMENTS:
            if running.done():
                running.result()
                if number:
                    committed[name] = (committed[name][0] + 1, committed[name][1])
                number += 1
                other = dice.choice(names)
                client.catalog.alter_properties(other, {"v": str(number)})
                committed[other] = (committed[other][0], number)
                name = dice.choice(names)
                running = hive.submit(f"alter table {name} add columns (c{number} int)")
            required = dict(committed)
            view = cache.view(names)
            for _ in range(50):
                asked = dice.choice(names)
                table = view.get_table(asked)
                found = (len(table.columns), int(table.properties["v"]))
                assert min(f - r for f, r in zip(found, required[asked], strict=True)) >= 0, "older than the list"
                assert min(f - s for f, s in zip(found, shown[asked], strict=True)) >= 0, "backwards"
                shown[asked] = found
                reads += 1
        running.result()
        assert cache.statistics().hits > 0
