"""One partition under all of its spellings: nobody gets in, and nothing is forgotten, for the way a name is written.

A Hive spells a partition whose name needs escapes twice escaped in HIVE_LOCKS and in the components of static
partitions (``ds=a%252Fb`` for ``a/b``), and once everywhere else; users write columns in any order, numbers with zeros.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa

from airflow_hive_acid.errors import (
    AlreadyExistsError,
    InvalidArgumentsError,
    LeaseAlreadyExistsError,
    NoSuchObjectError,
    WriteConflictError,
)
from airflow_hive_acid.format.jobs import Column
from airflow_hive_acid.format.partitions import partition_name
from airflow_hive_acid.maintenance import run_cleaner, run_initiator, run_reaper
from airflow_hive_acid.maintenance.decisions import Kind
from airflow_hive_acid.metastore.catalog.values.model import TableDefinition
from airflow_hive_acid.metastore.compaction.model import CompactionState
from airflow_hive_acid.metastore.database.clock import now_ms
from airflow_hive_acid.metastore.database.codes import LockState, LockType, Operation
from airflow_hive_acid.metastore.leases import LeaseObject
from airflow_hive_acid.metastore.locks.interface import LockComponent
from airflow_hive_acid.metastore.schema.hive_transactions import (
    COMPLETED_TXN_COMPONENTS,
    HIVE_LOCKS,
    TXN_COMPONENTS,
    TXNS,
    WRITE_SET,
)
from airflow_hive_acid.triggers.locks import locks_question
from tests.integration.maintenance.cycles.steps import change, rows

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_hive_acid.filesystem import Filesystem
    from airflow_hive_acid.metastore import MetastoreClient


HOSTILE = ["a b", "a'b", 'a"b', "100%", "a/b", "a=b", "a:b", "é", ".a", "a ", "a%2Fb", "plain"]
SAME = ["day=1/hr=2", "hr=2/day=1", "day=1/hr=02", "HR=+2/Day=1"]
ABOVE = ["day=1", "hr=2", "hr=02"]
OTHER = ["day=1/hr=3", "day=2/hr=2", "hr=3", "day=2", "hr=2/day=01"]


def of(value: str) -> str:
    return partition_name([("k", value)])


def as_hive(name: str) -> str:
    """What a Hive makes of a name in a lock request."""
    return "/".join(partition_name([tuple(part.split("="))]) for part in name.split("/"))  # type: ignore[misc]


def hives_row(client: MetastoreClient, table: Any, name: str, **values: Any) -> None:
    """Give a table's rows the partition a Hive would give them."""
    prefix = next(iter(values)).split("_")[0]
    columns = table.c
    change(client, table.update().where(*(columns[k] == v for k, v in values.items())).values({
        f"{prefix}_PARTITION": as_hive(name)
    }))  # fmt: skip


@pytest.fixture
def settings(settings: dict[str, str]) -> dict[str, str]:
    return {**settings, "hive.compactor.abortedtxn.threshold": "0", "hive.acid.lease.mirror": "on"}


@pytest.fixture
def days(client: MetastoreClient) -> str:
    """A table partitioned by a text and a number."""
    keys = (Column("day", "string"), Column("hr", "int"))
    client.catalog.create_table(TableDefinition("default", "d", (Column("a", "int"),), keys))
    client.catalog.add_partitions("default.d", ["day=1/hr=2", "day=1/hr=3", "day=2/hr=2"])
    return "default.d"


def test_a_value_is_the_partition_that_is_there_whatever_zeros_its_name_has(client: MetastoreClient) -> None:
    """A lease on ``k=1.5`` kept nobody out of ``k=1.50``, which is the partition of that value."""
    keys = (Column("k", "decimal(10,2)"), Column("hr", "int"))
    client.catalog.create_table(TableDefinition("default", "n", (Column("a", "int"),), keys))
    there = "k=1.50/hr=1"
    client.catalog.add_partitions("default.n", [("1.50", "1"), ("2", "1"), ("2.0", "1")])
    assert client.catalog.get_partition("default.n", {"k": "1.5", "hr": "01"}).name == there
    lease = client.leases.grab_lease([LeaseObject("default", "n", "hr=1/k=1.5")], 60)
    assert [held.partition_name for held in client.leases.list_lease()] == [there]
    with pytest.raises(LeaseAlreadyExistsError):
        client.leases.grab_lease([LeaseObject("default", "n", there)], 60)
    client.leases.drop_lease(lease)
    client.compactions.enqueue("default.n", "k=1.5/hr=1")
    assert [one.resource.partition for one in client.compactions.show(database="default", table="n")] == [there]
    for given, meant in {"hr=1/k=2": "k=2/hr=1", "k=2.0/hr=1": "k=2.0/hr=1", "k=3.00/hr=01": "k=3/hr=1"}.items():
        held = client.leases.grab_lease([LeaseObject("default", "n", given)], 60)
        assert [other.partition_name for other in client.leases.list_lease()] == [meant]
        client.leases.drop_lease(held)


def test_a_name_of_the_catalog_means_no_other_partition_when_it_is_gone(client: MetastoreClient) -> None:
    """A drop that came twice dropped ``k=2.0`` after ``k=2``."""
    keys = (Column("k", "decimal(10,2)"),)
    client.catalog.create_table(TableDefinition("default", "n", (Column("a", "int"),), keys))
    client.catalog.add_partitions("default.n", [("2",), ("2.0",)])
    for dropped in ("k=2", None):
        found = client.catalog.drop_partition("default.n", "k=2", if_exists=True)
        assert (found and found.name) == dropped
    for gone in ("k=2", ("2",)):
        with pytest.raises(NoSuchObjectError, match="no partition k=2"):
            client.catalog.get_partition("default.n", gone)
    assert client.catalog.get_partition("default.n", {"k": "2"}).name == "k=2.0"
    assert client.catalog.list_partitions("default.n", {"k": "2"}) == []  # filters compare texts


def test_a_partition_does_not_get_the_value_of_another_by_a_rename(client: MetastoreClient) -> None:
    """Two of one value: no query could tell their rows from each other, and no INSERT OVERWRITE would replace both."""
    keys = (Column("k", "decimal(10,2)"),)
    client.catalog.create_table(TableDefinition("default", "n", (Column("a", "int"),), keys))
    client.catalog.add_partitions("default.n", [("2.0",), ("3",)])
    for given in ({"k": "2"}, "k=2", "k=2.00", ("2",)):
        with pytest.raises(AlreadyExistsError, match=r"has a partition k=2\.0 already"):
            client.catalog.rename_partition("default.n", "k=3", given)
    with pytest.raises(AlreadyExistsError, match="has a partition k=3 already"):
        client.catalog.rename_partition("default.n", "k=3", {"k": "3.00"})
    assert client.catalog.rename_partition("default.n", {"k": "2"}, {"k": "2"}).name == "k=2"


# --- clean-up ---------------------------------------------------------------------------------------------------------


@pytest.mark.rule("R4")
@pytest.mark.parametrize("known", [True, False], ids=["known", "never added"])
def test_aborted_writes_of_a_hive_are_removed_before_they_are_forgotten(
    client: MetastoreClient, fs: Filesystem, make_table: Callable[..., Any], known: bool
) -> None:
    """
    t1                        a Hive inserts into static partitions, and dies
    t2  our Cleaner: each directory is gone before its txn is forgotten
    """
    table = make_table("default.p", "k")
    where = []
    for value in HOSTILE:
        txn = table.begin()
        where.append(table.put(txn, 1, of(value)))
        client.add_partitions(txn.txn_id, "default.p", [of(value)])
        if known:
            client.catalog.add_partitions("default.p", [of(value)])
        hives_row(client, TXN_COMPONENTS, of(value), TC_TXNID=txn.txn_id)
        txn.abort("a test")
    table.settle()
    found = run_cleaner(client, fs)
    assert {outcome.kind for outcome in found} == {Kind.CLEANED}
    assert sorted(uri for outcome in found for uri in outcome.removed) == sorted(where)
    assert rows(client, TXN_COMPONENTS) == []
    assert not any(fs.exists(uri) for uri in where)


@pytest.mark.rule("R17")
def test_nothing_is_forgotten_for_an_unknown_partition_while_the_table_is_not_there(
    client: MetastoreClient, fs: Filesystem, make_table: Callable[..., Any]
) -> None:
    table = make_table("default.p", "k")
    txn = table.begin()
    where = table.put(txn, 1, "k=1")
    client.add_partitions(txn.txn_id, "default.p", ["k=1"])
    txn.abort("a test")
    table.settle()
    fs.rename(table.location, f"{table.location}_away")
    (outcome,) = run_cleaner(client, fs)
    assert outcome.kind is Kind.ERROR
    assert "is not there" in outcome.reason
    run_reaper(client, fs)
    assert len(rows(client, TXN_COMPONENTS)) == 1
    fs.rename(f"{table.location}_away", table.location)
    assert fs.exists(where)


@pytest.mark.rule("R4")
def test_a_directory_is_found_wherever_it_lies_when_the_catalog_does_not_know_the_name(
    client: MetastoreClient, fs: Filesystem, make_table: Callable[..., Any]
) -> None:
    """An aborted write under a name that nobody can make sense of: its directories are looked for everywhere."""
    table = make_table("default.p", "k")
    table.insert(partition="k=1")
    txn = table.begin()
    where = [table.put(txn, 1, place) for place in ("k=1", "K=1", "other/k=1")]
    client.add_partitions(txn.txn_id, "default.p", ["k=1"])
    change(client, TXN_COMPONENTS.update().where(TXN_COMPONENTS.c.TC_TXNID == txn.txn_id).values(TC_PARTITION="z"))
    txn.abort("a test")
    table.settle()
    (outcome,) = run_cleaner(client, fs)
    assert (outcome.kind, sorted(outcome.removed)) == (Kind.CLEANED, sorted(where))
    assert rows(client, TXN_COMPONENTS) == []


@pytest.mark.rule("R4")
def test_compacting_one_partition_forgets_no_aborted_write_of_another(
    client: MetastoreClient, fs: Filesystem, make_table: Callable[..., Any]
) -> None:
    """The value ``a%2Fb`` is called as a Hive spells ``a/b``: when the one is dropped, the other's aborts stay known.

    t1                        a Hive writes ``a/b`` and aborts: its component is called k=a%252Fb
    t2  the partition of the value a%2Fb is dropped, whose name is k=a%252Fb
    t3  the component of t1 is still there, and the Cleaner finds its directory
    """
    table = make_table("default.p", "k")
    client.catalog.add_partitions("default.p", [of("a/b"), of("a%2Fb")])
    txn = table.begin()
    where = table.put(txn, 1, of("a/b"))
    client.add_partitions(txn.txn_id, "default.p", [of("a/b")])
    hives_row(client, TXN_COMPONENTS, of("a/b"), TC_TXNID=txn.txn_id)
    txn.abort("a test")
    client.catalog.drop_partition("default.p", of("a%2Fb"))
    assert len(rows(client, TXN_COMPONENTS)) == 1
    table.settle()
    assert [o.removed for o in run_cleaner(client, fs)] == [(where,)]
    assert rows(client, TXN_COMPONENTS) == []


def test_the_initiator_knows_partitions_as_a_hive_spells_them(
    client: MetastoreClient, fs: Filesystem, make_table: Callable[..., Any]
) -> None:
    """Every partition is asked for once, under the catalog's name; ``a/b`` and ``a%2Fb`` share a spelling."""
    table = make_table("default.p", "k")
    for value in HOSTILE:
        for _ in range(4):
            table.insert(partition=of(value))
    for value in reversed(HOSTILE):  # what is called as another is spelled comes first
        hives_row(client, COMPLETED_TXN_COMPONENTS, of(value), CTC_PARTITION=of(value))
    table.settle()
    decided = {d.resource.partition: d.kind for d in run_initiator(client, fs)}
    assert decided == dict.fromkeys(map(of, HOSTILE), Kind.MAJOR)
    queued = client.compactions.show(database="default", table="p")
    assert sorted(str(one.resource.partition) for one in queued) == sorted(map(of, HOSTILE))
    for value in HOSTILE:
        (one,) = client.compactions.show(database="default", table="p", partition=of(value))
        assert (one.state, one.resource.partition) == (CompactionState.INITIATED, of(value))


# --- locks and conflicts ----------------------------------------------------------------------------------------------


@pytest.mark.every_database
@pytest.mark.parametrize("value", HOSTILE)
def test_our_locks_are_spelled_as_a_hives_and_shown_as_in_the_catalog(
    client: MetastoreClient, make_table: Callable[..., Any], value: str
) -> None:
    make_table("default.p", "k")
    component = LockComponent("default", "p", of(value), LockType.EXCL_WRITE, Operation.NO_TXN)
    held = client.lock(component)
    assert [row["HL_PARTITION"] for row in rows(client, HIVE_LOCKS)] == [as_hive(of(value))]
    assert [row.partition for row in client.show_locks("default.p", of(value))] == [of(value)]
    assert client.lock(component).state is LockState.WAITING
    change(
        client, HIVE_LOCKS.update().where(HIVE_LOCKS.c.HL_LOCK_EXT_ID == held.lock_id).values(HL_PARTITION=of(value))
    )
    assert client.lock(component).state is LockState.WAITING


@pytest.mark.every_database
@pytest.mark.rule("R12")
@pytest.mark.parametrize("spelled", [of, lambda value: as_hive(of(value))], ids=["dynamic", "static"])
@pytest.mark.parametrize("value", ["a/b", "a%2Fb", "100%", "plain"])
def test_a_write_of_a_hive_is_in_the_way_however_it_spells_the_partition(
    client: MetastoreClient, make_table: Callable[..., Any], value: str, spelled: Callable[[str], str]
) -> None:
    """
    t1  we begin to update a partition
    t2                        a Hive that began later has updated it, and commits
    t3  our commit is refused, and what we record of another one is under both names
    """
    make_table("default.p", "k")
    mine = client.begin({"default.p": "update"}, partitioned=["default.p"])
    mine.add_partitions("default.p", [of(value)])
    hive = client.open_txn()
    change(client, WRITE_SET.insert().values(
        WS_DATABASE="default", WS_TABLE="p", WS_PARTITION=spelled(value), WS_TXNID=hive, WS_COMMIT_ID=hive,
        WS_OPERATION_TYPE="u",
    ))  # fmt: skip
    change(client, TXNS.update().where(TXNS.c.TXN_ID == hive).values(TXN_STATE="c"))
    with pytest.raises(WriteConflictError):
        mine.commit()
    change(client, WRITE_SET.delete())
    with client.begin({"default.p": "update"}, partitioned=["default.p"]) as txn:
        txn.add_partitions("default.p", [of(value)])
    assert {row["WS_PARTITION"] for row in rows(client, WRITE_SET)} == {of(value), as_hive(of(value))}
    assert {row["CTC_PARTITION"] for row in rows(client, COMPLETED_TXN_COMPONENTS)} == {of(value)}


# --- what users write -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("held", [*SAME, *ABOVE, ""])
def test_a_lease_excludes_every_spelling_of_what_it_is_on(client: MetastoreClient, days: str, held: str) -> None:
    lease = client.leases.grab_lease(f"{days}/{held}" if held else days, 600)
    for wanted in [*SAME, *ABOVE]:
        with pytest.raises(LeaseAlreadyExistsError):
            client.leases.grab_lease(f"{days}/{wanted}", 1)
        assert client.leases.list_lease(f"{days}/{wanted}")
        assert not locks_question(days, wanted, None, None).ask(client).over
    again = client.leases.extend_lease(lease, f"{days}/hr=02/day=1" if held in SAME else None)
    assert client.leases.drop_lease(again, f"{days}/HR=2/day=1" if held in SAME else None).objects == ()
    assert locks_question(days, "day=1/hr=2", None, None).ask(client).over


@pytest.mark.parametrize("wanted", OTHER)
def test_a_lease_is_in_the_way_of_no_other_partition(client: MetastoreClient, days: str, wanted: str) -> None:
    client.leases.grab_lease(f"{days}/day=1/hr=2", 600)
    client.leases.grab_lease(f"{days}/{wanted}", 600)


def test_what_is_dropped_by_force_is_what_the_name_covers(client: MetastoreClient, days: str) -> None:
    for partition in ("day=1/hr=2", "day=1/hr=3", "day=2/hr=2"):
        client.leases.grab_lease(f"{days}/{partition}", 600)
    dropped = client.leases.force_drop_lease(f"{days}/hr=02", "ann", "a test")
    assert [lease.partition_name for lease in dropped] == ["day=1/hr=2", "day=2/hr=2"]
    assert [lease.partition_name for lease in client.leases.list_lease()] == ["day=1/hr=3"]


@pytest.mark.every_database
@pytest.mark.rule("R7")
def test_the_mirror_of_a_lease_on_several_partitions_stops_writers_of_each(client: MetastoreClient, days: str) -> None:
    """Hive has no lock on some of the partitions, so the mirror locks the table."""
    client.leases.grab_lease(f"{days}/day=1", 600)
    assert [row["HL_PARTITION"] for row in rows(client, HIVE_LOCKS)] == [None]
    component = LockComponent("default", "d", "hr=02/day=1", LockType.SHARED_WRITE, Operation.NO_TXN)
    assert client.lock(component).state is LockState.WAITING


def test_a_request_of_many_partitions_reads_the_columns_of_each_table_once(client: MetastoreClient, days: str) -> None:
    wanted = [LockComponent("default", "d", f"hr={n}/day=1", LockType.SHARED_READ, Operation.NO_TXN) for n in range(50)]
    asked: list[str] = []
    sa.event.listen(client.database.engine, "before_cursor_execute", lambda *a: asked.append(a[2]))
    client.lock(wanted)
    assert sum("PARTITION_KEYS" in statement for statement in asked) == 1
    assert len(client.show_locks()) == 50


@pytest.mark.parametrize("partition", SAME)
def test_every_verb_means_the_same_partition(client: MetastoreClient, days: str, partition: str) -> None:
    component = LockComponent("default", "d", partition, LockType.EXCL_WRITE, Operation.NO_TXN)
    held = client.lock(component)
    assert [row.partition for row in client.show_locks(days)] == ["day=1/hr=2"]
    for spelled in [*SAME, *ABOVE]:
        assert len(client.show_locks(days, spelled)) == 1
        assert not locks_question(days, spelled, None, None).ask(client).over
    for spelled in OTHER:
        assert client.show_locks(days, spelled) == []
        assert locks_question(days, spelled, None, None).ask(client).over
    client.unlock(held.lock_id)
    answer = client.compactions.enqueue(days, partition)
    assert client.compactions.get(answer.id).resource.partition == "day=1/hr=2"
    for spelled in SAME:
        assert not client.compactions.enqueue(days, spelled).accepted
        assert len(client.compactions.show(database="default", table="d", partition=spelled)) == 1


@pytest.mark.parametrize(
    ("table", "partition", "text"),
    [
        ("default.d", "day=1/hour=2", "no partition column hour"),
        ("default.d", "day=1/hr=two", "'two' is no value of that type"),
        ("default.d", "day=1/day=2", "gives a column two values"),
        ("default.flat", "day=1", "default.flat has no partitions"),
        ("default.d", "day", "not of the form column=value"),
    ],
)
def test_what_is_no_partition_of_the_table_is_refused_by_every_verb(
    client: MetastoreClient, make_table: Callable[..., Any], days: str, table: str, partition: str, text: str
) -> None:
    make_table("default.flat")
    name = table.partition(".")[2]
    verbs: list[Callable[[], object]] = [
        lambda: client.leases.grab_lease(f"{table}/{partition}", 1),
        lambda: client.leases.list_lease(f"{table}/{partition}"),
        lambda: client.leases.force_drop_lease(f"{table}/{partition}", "ann", "a test"),
        lambda: client.lock(LockComponent("default", name, partition, LockType.SHARED_READ, Operation.NO_TXN)),
        lambda: client.show_locks(table, partition),
        lambda: client.compactions.enqueue(table, partition),
        lambda: client.compactions.show(database="default", table=name, partition=partition),
        lambda: locks_question(table, partition, None, None).ask(client),
    ]
    for verb in verbs:
        with pytest.raises(InvalidArgumentsError, match=text):
            verb()


def test_a_table_that_the_catalog_does_not_know_takes_names_as_they_are(client: MetastoreClient) -> None:
    lease = client.leases.grab_lease("default.unknown/b=1/a=2", 600)
    assert lease.objects[0].partition_name == "b=1/a=2"
    with pytest.raises(LeaseAlreadyExistsError):
        client.leases.grab_lease("default.unknown/a=2/b=1", 600)
    assert client.database.read(now_ms) < lease.end_utc
