"""Roles, members, owners and privileges follow the primary, and what the replica's admin did stays."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from airflow_hive_acid.format.jobs import Column
from airflow_hive_acid.metastore.catalog.rows.privileges import (
    Entries,
    Entry,
    Member,
    Owner,
    Principal,
    Privilege,
    Role,
    Securable,
    Value,
    put_entry,
    read_privileges,
    remove_entry,
)
from airflow_hive_acid.metastore.catalog.values.model import TableDefinition
from airflow_hive_acid.replication.policies.privileges import PrivilegeMode, PrivilegeReport, sync_privileges

if TYPE_CHECKING:
    from airflow_hive_acid.replication.site import Site

ADMIN = Principal("boss", "USER")
ANALYST = Principal("analyst", "ROLE")
SALES, ORDERS = Securable("sales"), Securable("sales", "orders")
EVERYWHERE = Securable()


def privilege(on: Securable, who: Principal, what: str = "SELECT") -> Privilege:
    return Privilege(on, who, what, ADMIN, "SQL")


def put(site: Site, entry: Entry, value: Value = False) -> None:
    def operation(connection: object) -> bool:
        return put_entry(connection, entry, value, read_privileges(connection, ["sales", "copy"]).ids)  # type: ignore[arg-type]

    assert site.client.database.run(operation)


def remove(site: Site, entry: Entry) -> None:
    def operation(connection: object) -> bool:
        return remove_entry(connection, entry, read_privileges(connection, ["sales", "copy"]).ids)  # type: ignore[arg-type]

    assert site.client.database.run(operation)


def entries(site: Site, *databases: str) -> Entries:
    return site.client.database.read(lambda connection: read_privileges(connection, databases or ("sales",))).entries


def make_tables(site: Site, database: str = "sales") -> None:
    catalog = site.client.catalog
    catalog.create_database(database)
    catalog.create_table(TableDefinition(database, "orders", (Column("id", "int"),), (Column("day", "string"),)))
    catalog.add_partitions(f"{database}.orders", [("mon",)])


@pytest.fixture
def both(primary: Site, replica: Site) -> tuple[Site, Site]:
    make_tables(primary)
    make_tables(replica)
    return primary, replica


def sync(both: tuple[Site, Site], mode: PrivilegeMode = PrivilegeMode.FOLLOW, **options: bool) -> PrivilegeReport:
    return sync_privileges(both[0].client, both[1].client, "p", {"sales": "sales"}, mode, **options)


def grant_everything(site: Site) -> list[Entry]:
    wanted: dict[Entry, Value] = {
        Role("analyst"): "boss",
        Role("staff"): "boss",
        Member("analyst", Principal("ann", "USER"), ADMIN): True,
        Member("staff", ANALYST, ADMIN): False,
        privilege(SALES, ANALYST): False,
        privilege(ORDERS, ANALYST, "INSERT"): True,
        privilege(ORDERS._replace(column="id"), Principal("bob", "USER")): False,
        privilege(ORDERS._replace(partition="day=mon"), Principal("bob", "USER")): False,
        privilege(ORDERS._replace(partition="day=mon", column="id"), Principal("devs", "GROUP")): False,
    }
    for entry, value in wanted.items():
        put(site, entry, value)
    return list(wanted)


@pytest.mark.every_database
def test_every_kind_of_grant_follows_and_is_taken_away_again(both: tuple[Site, Site]) -> None:
    primary, replica = both
    given = grant_everything(primary)
    put(primary, privilege(EVERYWHERE, ANALYST))
    put(primary, Role("unrelated"))
    report = sync(both)
    assert len(report.granted) == len(given)
    assert (report.revoked, report.kept, report.waiting) == ((), (), ())
    expected = entries(primary)
    del expected[privilege(EVERYWHERE, ANALYST)]  # holds for databases that nobody replicates
    del expected[Role("unrelated")]
    assert entries(replica) == expected
    assert sync(both) == PrivilegeReport()
    for entry in reversed(given):
        remove(primary, entry)
    assert len(sync(both).revoked) == len(given)
    assert set(entries(replica)) == {Owner(SALES), Owner(ORDERS)}
    assert sync(both) == PrivilegeReport()


def test_what_the_replicas_admin_took_away_is_not_granted_again(both: tuple[Site, Site]) -> None:
    primary, replica = both
    to_ann, to_bob = (privilege(ORDERS, Principal(name, "USER")) for name in ("ann", "bob"))
    put(primary, to_ann)
    put(primary, to_bob)
    sync(both)
    remove(replica, to_ann)
    for _ in range(2):
        assert sync(both).kept == ("SELECT on sales.orders of user ann by user boss: it was taken away at the replica",)
    assert to_ann not in entries(replica)
    remove(primary, to_ann)
    assert sync(both) == PrivilegeReport()
    put(primary, to_ann)  # granted anew by the primary's admin: another grant
    assert len(sync(both).granted) == 1
    remove(replica, to_ann)
    assert sync(both, PrivilegeMode.MIRROR).granted
    assert to_ann in entries(replica)


def test_what_the_replicas_admin_granted_stays_unless_the_policy_mirrors(both: tuple[Site, Site]) -> None:
    primary, replica = both
    own = privilege(SALES, Principal("auditor", "USER"))
    theirs = privilege(ORDERS, Principal("ann", "USER"))
    put(replica, own)
    put(primary, theirs)
    sync(both)
    put(replica, theirs, True)  # ann may pass it on here
    remove(primary, theirs)
    assert sync(both).kept == (
        "SELECT on sales.orders of user ann by user boss: it was changed at the replica after it came from the primary",
    )
    assert own in entries(replica)
    assert len(sync(both, PrivilegeMode.MIRROR).revoked) == 2
    assert entries(replica).keys() == {Owner(SALES), Owner(ORDERS)}


def test_nothing_is_granted_unless_a_policy_asks_for_it(both: tuple[Site, Site]) -> None:
    grant_everything(both[0])
    before = entries(both[1])
    assert sync(both, PrivilegeMode.NONE) == PrivilegeReport()
    assert entries(both[1]) == before


def test_privileges_on_the_whole_metastore_follow_only_when_asked_for(both: tuple[Site, Site]) -> None:
    put(both[0], privilege(EVERYWHERE, Principal("ann", "USER")))
    put(both[0], Role("admin"))
    put(both[0], Member("admin", Principal("ann", "USER"), ADMIN))
    assert sync(both) == PrivilegeReport()
    assert sync(both, with_global=True).granted == (
        "SELECT on the whole metastore of user ann by user boss: new at the primary",
    )
    assert Member("admin", Principal("ann", "USER"), ADMIN) not in entries(both[1])


def test_owners_follow_until_the_replica_has_one_of_its_own(both: tuple[Site, Site]) -> None:
    primary, replica = both
    put(primary, Owner(ORDERS), Principal("ann", "USER"))
    put(primary, Owner(SALES), Principal("ann", "USER"))
    report = sync(both)
    assert report.granted == ("owner of sales.orders: the table is the primary's",)
    assert report.kept == ("owner of database sales: the replica had it before, and otherwise",)
    put(primary, Owner(ORDERS), Principal("bob", "USER"))
    sync(both)
    assert entries(replica)[Owner(ORDERS)] == ("bob", "USER")
    put(replica, Owner(ORDERS), Principal("mine", "ROLE"))
    assert "owner of sales.orders: it was changed at the replica" in sync(both).kept
    assert entries(replica)[Owner(ORDERS)] == ("mine", "ROLE")


def test_a_table_that_was_made_anew_gets_its_grants_again(both: tuple[Site, Site]) -> None:
    primary, replica = both
    put(primary, privilege(ORDERS, ADMIN))
    sync(both)
    replica.client.catalog.drop_table("sales.orders")
    said = "SELECT on sales.orders of user boss by user boss: sales.orders has not been replicated yet"
    assert said in sync(both).waiting
    replica.client.catalog.create_table(TableDefinition("sales", "orders", (Column("id", "int"),)))
    assert sync(both).granted == ("SELECT on sales.orders of user boss by user boss: new at the primary",)


def test_a_database_may_have_another_name_and_only_some_of_its_tables_be_covered(primary: Site, replica: Site) -> None:
    make_tables(primary)
    primary.client.catalog.create_table(TableDefinition("sales", "secret", (Column("id", "int"),)))
    make_tables(replica, "copy")
    put(primary, privilege(ORDERS, ADMIN))
    put(primary, privilege(Securable("sales", "secret"), ADMIN))
    report = sync_privileges(
        primary.client, replica.client, "p", {"sales": "copy"}, PrivilegeMode.FOLLOW,
        tables=lambda database, table: (database, table) == ("sales", "orders"),
    )  # fmt: skip
    assert report.granted == ("SELECT on copy.orders of user boss by user boss: new at the primary",)
    assert privilege(Securable("copy", "orders"), ADMIN) in entries(replica, "copy")


def test_a_role_that_others_use_is_not_dropped(both: tuple[Site, Site]) -> None:
    primary, replica = both
    put(primary, Role("analyst"))
    put(primary, privilege(ORDERS, ANALYST))
    sync(both)
    replica.client.catalog.create_database("copy")
    put(replica, privilege(Securable("copy"), ANALYST))
    remove(primary, privilege(ORDERS, ANALYST))
    remove(primary, Role("analyst"))
    report = sync(both)
    assert report.kept == ("role analyst: others at the replica use it",)
    assert Role("analyst") in entries(replica)


def test_privileges_on_a_database_follow_only_where_all_of_it_is_replicated(both: tuple[Site, Site]) -> None:
    """At the replica they hold for tables, too, that are not the policy's; those there are its admin's."""
    primary, replica = both
    theirs = privilege(SALES, Principal("ann", "USER"))
    on_table = privilege(ORDERS, Principal("ann", "USER"))
    own = privilege(SALES, Principal("bob", "USER"))
    put(primary, theirs)
    put(primary, on_table)
    put(replica, own)
    sync_privileges(
        primary.client, replica.client, "p", {"sales": "sales"}, PrivilegeMode.MIRROR, whole=lambda _name: False
    )
    found = entries(replica)
    assert (theirs in found, on_table in found, own in found) == (False, True, True)
    sync_privileges(primary.client, replica.client, "p", {"sales": "sales"}, PrivilegeMode.MIRROR)
    found = entries(replica)
    assert (theirs in found, on_table in found, own in found) == (True, True, False)
