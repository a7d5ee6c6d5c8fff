"""The metastore cache beside a real Hive: its DDL and rows are followed, whatever its server writes into the log."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from airflow_hive_acid.errors import NoSuchObjectError
from airflow_hive_acid.metastore import MetastoreClient
from airflow_hive_acid.metastore.cache import CachedCatalog
from airflow_hive_acid.metastore.cache_rules import Verdict
from airflow_hive_acid.settings import Settings, Source

if TYPE_CHECKING:
    from collections.abc import Iterator

    from airflow_hive_acid.metastore.catalog_model import Table

    from .hive import Hive

pytestmark = pytest.mark.interop

READS, STATEMENTS = 10_000, 10


@pytest.fixture
def cache(client: MetastoreClient) -> Iterator[CachedCatalog]:
    """A cache whose follower looks when a test says so."""
    cache = CachedCatalog(client)
    cache.follower.look()
    yield cache
    cache.close()


def read(cache: CachedCatalog, name: str) -> tuple[Table, Verdict]:
    """A table under a list of now, and from where it came."""
    before = dict(cache._counts)
    found = cache.view([name]).get_table(name)
    (verdict,) = [v for v, count in cache._counts.items() if count > before[v]]
    return found, verdict


def test_every_ddl_and_write_of_hive_is_seen_by_the_first_read_after_it(
    hive: Hive, hive_database: str, client: MetastoreClient, cache: CachedCatalog
) -> None:
    """After each statement of Hive: what is read equals the database, before the log was followed and after."""
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
    cache.view([name]).list_partitions(name)
    cache.follower.look()
    for statement in statements:
        hive.run(statement)
        for _ in range(2):
            view = cache.view([name])
            assert view.get_table(name) == client.catalog.get_table(name), statement
            expected = sorted(client.catalog.list_partitions(name), key=lambda partition: partition.name)
            assert view.list_partitions(name) == expected, statement
            cache.follower.look()
            cache.view([name]).list_partitions(name)
            cache.follower.look()
        assert read(cache, name)[1] is Verdict.HIT, statement


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
    assert read(cache, name)[1] in (Verdict.NEWER, Verdict.UNCONFIRMED)
    cache.follower.look()
    assert read(cache, name)[1] is Verdict.HIT
    assert [p.name for p in cache.view([name]).list_partitions(name)] == ["p=1"]


def test_ten_thousand_reads_while_hive_and_we_alter_and_write(
    hive: Hive, hive_database: str, client: MetastoreClient
) -> None:
    """Hive's statements run while we read: the n-th version of a table is never read after the n+1st, and each reader
    sees at least what had been committed when its list was taken."""
    settings = Settings({Source.CONNECTION: {"hive.acid.cache.poll.interval": "20ms"}})
    names = [f"{hive_database}.t{number}" for number in range(2)]
    for name in names:
        hive.run(f"create table {name} (a int) stored as orc tblproperties ('transactional'='true', 'v'='0')")
    dice, committed, shown, reads = random.Random(1), dict.fromkeys(names, 0), dict.fromkeys(names, 0), 0
    with MetastoreClient(client.database.url, settings) as own, CachedCatalog(own) as cache:
        version, running = 0, None
        while reads < READS or version < STATEMENTS:
            if running is None or running[2].done():
                if running is not None:
                    running[2].result()
                    committed[running[0]] = running[1]
                version += 1
                name = dice.choice(names)
                if version % 3 == 0:
                    client.catalog.alter_properties(name, {"v": str(version)})
                    committed[name] = version
                    running = None
                    version += 1
                    name = dice.choice(names)
                running = (name, version, hive.submit(f"alter table {name} set tblproperties ('v'='{version}')"))
            required = dict(committed)
            view = cache.view(names)
            for _ in range(50):
                name = dice.choice(names)
                found = int(view.get_table(name).properties["v"])
                assert found >= required[name], "older than the reader's list"
                assert found >= shown[name], "backwards"
                shown[name] = found
                reads += 1
        assert running is not None
        running[2].result()
        assert cache.statistics().hits > READS / 10
