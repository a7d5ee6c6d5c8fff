"""Many partitions that are dropped together: the Cleaner asks the catalog once for several, and keeps others' files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa

from airflow_hive_acid.maintenance import run_cleaner
from airflow_hive_acid.maintenance.cleaner.cleaner import explain_cleaning
from airflow_hive_acid.maintenance.decisions import Kind
from airflow_hive_acid.maintenance.warehouse.ddl_files import WarehouseFiles
from airflow_hive_acid.metastore.catalog import TableDefinition
from airflow_hive_acid.metastore.schema.hive_catalog import PARTITIONS, SDS
from airflow_hive_acid.metastore.schema.hive_transactions import COMPACTION_QUEUE, COMPLETED_TXN_COMPONENTS
from tests.integration.maintenance.cycles.steps import change, pass_time, rows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from airflow_hive_acid.filesystem import Filesystem
    from airflow_hive_acid.metastore import MetastoreClient
    from airflow_hive_acid.metastore.txns import Job


@pytest.fixture
def looks(client: MetastoreClient, monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, str]]:
    """Looks at the catalog for who lies in a table's directory."""
    looked, real = [], client.catalog.strangers_in

    def strangers_in(*place: Any) -> Any:
        looked.append(place)
        return real(*place)

    monkeypatch.setattr(client.catalog, "strangers_in", strangers_in)
    return looked


def dropped(client: MetastoreClient, fs: Filesystem, table: Any, partitions: Iterable[str]) -> list[str]:
    """Partitions with rows that are dropped by one statement."""
    names = list(partitions)
    for name in names:
        table.insert(2, name)
    client.catalog.drop_partitions(table.name, names, files=WarehouseFiles(client, fs))
    pass_time(client)
    return names


def relocate(client: MetastoreClient, partition: str, location: str) -> None:
    """What a real Hive has written, as it stands."""
    found = client.catalog.get_partition("default.p", partition)
    of_one = sa.select(PARTITIONS.c.SD_ID).where(PARTITIONS.c.PART_ID == found.id)
    change(client, sa.update(SDS).where(SDS.c.SD_ID.in_(of_one)).values(LOCATION=location))


@pytest.mark.every_database
def test_one_look_at_the_catalog_serves_many_dropped_partitions(
    client: MetastoreClient, fs: Filesystem, make_table: Callable[..., Any], looks: list[Any]
) -> None:
    table = make_table("default.p", "k")
    table.insert(1, "k=stays")
    names = dropped(client, fs, table, ["k=a", "k=b", "k=c", "k=d"])
    fs.delete(table.place("k=b"), inside=table.location)  # a Cleaner that was killed has got as far as that
    assert {outcome.kind for outcome in explain_cleaning(client, fs)} == {Kind.CLEANED}
    assert len(looks) == 1
    outcomes = run_cleaner(client, fs)
    assert [outcome.kind for outcome in outcomes] == [Kind.CLEANED] * 4
    assert len(looks) == 2
    assert not any(fs.exists(table.place(name)) for name in names)
    assert fs.exists(table.place("k=stays"))
    assert client.show_locks() == []


def test_what_is_others_by_now_stays_among_many_that_go(
    client: MetastoreClient, fs: Filesystem, make_table: Callable[..., Any], looks: list[Any]
) -> None:
    """
    t1  six partitions are dropped by one statement
    t2  k=b is added again where it was; k=c is added again, and lies elsewhere
    t3  a Hive lets another partition lie in the place of k=d, another table inside that of k=e
    t4  the Cleaner comes, and goes by one look at the catalog
    """
    table = make_table("default.p", "k")
    table.insert(1, "k=z")
    dropped(client, fs, table, ["k=a", "k=b", "k=c", "k=d", "k=e", "k=f"])
    client.catalog.add_partitions("default.p", ["k=b", "k=c"])
    relocate(client, "k=c", f"{table.location}/elsewhere")
    relocate(client, "k=z", table.place("k=d"))
    columns = client.catalog.get_table("default.p").columns
    client.catalog.create_table(TableDefinition("default", "x", columns, location="file:/x/x", external=True))
    moved = sa.update(SDS).where(SDS.c.LOCATION == "file:/x/x").values(LOCATION=f"{table.place('k=e')}/in")
    change(client, moved)
    pass_time(client)
    outcomes = {outcome.resource.partition: outcome for outcome in run_cleaner(client, fs)}
    kinds = {name: outcome.kind for name, outcome in outcomes.items()}
    refused = {"k=d": Kind.REFUSED, "k=e": Kind.REFUSED}
    assert kinds == {name: refused.get(name, Kind.CLEANED) for name in ("k=a", "k=b", "k=c", "k=d", "k=e", "k=f")}
    assert "belongs to partition k=z of default.p now" in outcomes["k=d"].reason
    assert "belongs to table default.x now" in outcomes["k=e"].reason
    left = [name for name in ("k=a", "k=b", "k=c", "k=d", "k=e", "k=f") if fs.exists(table.place(name))]
    assert left == ["k=b", "k=d", "k=e"]
    assert len(looks) == 1


@pytest.mark.every_database
def test_a_partition_that_is_added_again_behind_the_look_is_seen_under_the_lock(
    client: MetastoreClient, fs: Filesystem, make_table: Callable[..., Any], looks: list[Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """
    t1  the Cleaner has looked at the catalog, for k=a
    t2            k=b is added again, and its directory spelled as the catalog does not spell it
    t3  the Cleaner comes to k=b, with the same look
    """
    table = make_table("default.p", "k")
    dropped(client, fs, table, ["k=a", "k=b"])
    lock = client.lock

    def locking(*given: Any, **named: Any) -> Any:
        response = lock(*given, **named)
        if named.get("agent_info", "").startswith("cleaning") and given[0][0].partition == "k=b":
            client.catalog.add_partitions("default.p", ["k=b"])
            relocate(client, "k=b", f"{table.location}//k=b")
        return response

    monkeypatch.setattr(client, "lock", locking)
    kinds = {outcome.resource.partition: outcome.kind for outcome in run_cleaner(client, fs)}
    assert kinds == {"k=a": Kind.CLEANED, "k=b": Kind.WAITING}
    assert fs.exists(table.place("k=b"))
    assert len(looks) == 1


@pytest.mark.parametrize("place", ["k=b", "k=b/in", "", "k=z moves there"])
def test_who_is_given_a_directory_behind_the_look_keeps_his_files(
    client: MetastoreClient, fs: Filesystem, make_table: Callable[..., Any], looks: list[Any],
    monkeypatch: pytest.MonkeyPatch, place: str,
) -> None:  # fmt: skip
    """A Hive asks nobody before it gives a directory away.

    t1  two partitions are dropped; the Cleaner has looked at the catalog for both, and removed k=a
    t2            a Hive makes a table at, in or around the directory of k=b, or lets k=z lie there, and writes
    t3  the Cleaner comes to k=b
    """
    table = make_table("default.p", "k")
    table.insert(1, "k=z")
    dropped(client, fs, table, ["k=a", "k=b"])
    columns = client.catalog.get_table("default.p").columns
    client.catalog.create_table(TableDefinition("default", "x", columns, location="file:/x/x", external=True))
    lock, written = client.lock, f"{table.place('k=b')}/{'in/' if place.endswith('in') else ''}000000_0"

    def locking(*given: Any, **named: Any) -> Any:
        if given[0][0].partition == "k=b" and not fs.exists(written):
            if place.startswith("k=z"):
                relocate(client, "k=z", table.place("k=b"))
            else:
                there = f"{table.location}/{place}".rstrip("/")
                change(client, sa.update(SDS).where(SDS.c.LOCATION == "file:/x/x").values(LOCATION=there))
            fs.make_directory(written.rpartition("/")[0])
            fs.write_text(written, "a row")
        return lock(*given, **named)

    monkeypatch.setattr(client, "lock", locking)
    kinds = {outcome.resource.partition: outcome.kind for outcome in run_cleaner(client, fs)}
    assert kinds == {"k=a": Kind.CLEANED, "k=b": Kind.WAITING}
    assert len(looks) == 2
    assert [outcome.kind for outcome in run_cleaner(client, fs)] == [Kind.REFUSED]
    assert fs.read_text(written) == "a row"
    assert client.show_locks() == []


def test_what_is_remembered_of_many_goes_with_them_and_nothing_else(
    client: MetastoreClient, fs: Filesystem, make_table: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """More than one statement takes, and names that a Hive escapes twice."""
    monkeypatch.setattr("airflow_hive_acid.metastore.catalog.rows.drop._FORGOTTEN_AT_ONCE", 2)
    table = make_table("default.p", "k")
    table.insert(1, "k=stays")
    table.insert(1, "k=a%252Fb")  # the value a%2Fb, which is also how a Hive spells that of a/b
    for partition in ("k=a%2Fb", "k=c%2Fd"):
        table.insert(1, partition)
    spelled = COMPLETED_TXN_COMPONENTS.c.CTC_PARTITION
    change(client, sa.update(COMPLETED_TXN_COMPONENTS).where(spelled == "k=c%2Fd").values(CTC_PARTITION="k=c%252Fd"))
    client.compactions.enqueue("default.p", "k=stays")
    names = dropped(client, fs, table, [f"k={n}" for n in range(5)])
    client.catalog.drop_partitions("default.p", ["k=a%2Fb", "k=c%2Fd"], files=WarehouseFiles(client, fs))
    assert {row["CTC_PARTITION"] for row in rows(client, COMPLETED_TXN_COMPONENTS)} == {"k=stays", "k=a%252Fb"}
    assert len({row["CQ_ID"] for row in rows(client, COMPACTION_QUEUE)}) == 8
    left = {request.resource.partition: request.soft_deleted_location for request in client.compactions.show()}
    assert left == {"k=stays": None} | {name: table.place(name) for name in (*names, "k=a%2Fb", "k=c%2Fd")}


def test_a_drop_of_many_sends_as_many_statements_to_the_queue_as_one_of_few(
    client: MetastoreClient, fs: Filesystem, make_table: Callable[..., Any]
) -> None:
    """It has no index of partitions, and grows with the drop."""
    table = make_table("default.p", "k")
    seen: list[str] = []

    def note(_connection: object, _cursor: object, statement: str, *_rest: object) -> None:
        if "COMPACTION_QUEUE" in statement:
            seen.append(statement)

    def statements_of_drop(names: list[str]) -> int:
        client.catalog.add_partitions("default.p", names)
        seen.clear()
        client.catalog.drop_partitions(table.name, names, files=WarehouseFiles(client, fs))
        return len(seen)

    sa.event.listen(client.database.engine, "before_cursor_execute", note)
    try:
        assert statements_of_drop(["k=a", "k=b"]) == statements_of_drop([f"k={n}" for n in range(20)]) > 0
    finally:
        sa.event.remove(client.database.engine, "before_cursor_execute", note)


class Late(WarehouseFiles):
    """Files of a statement, while whose locks were waited for something else was done."""

    def __init__(self, client: MetastoreClient, fs: Filesystem, meanwhile: Callable[[], None]) -> None:
        super().__init__(client, fs)
        self.meanwhile = meanwhile

    def fence(self, jobs: Iterable[Job]) -> None:
        self.meanwhile()
        super().fence(list(jobs))


def test_a_drop_goes_by_where_its_partitions_lie_when_it_has_its_locks(
    client: MetastoreClient, fs: Filesystem, make_table: Callable[..., Any]
) -> None:
    """
    t1  DROP PARTITION knows where k=a lies, and waits for its lock
    t2            SET LOCATION of k=a
    t3  the drop is granted its lock
    """
    table = make_table("default.p", "k")
    table.insert(1, "k=a")
    new = f"{table.location}/elsewhere"

    def set_location() -> None:
        fs.make_directory(new)
        relocate(client, "k=a", new)

    (gone,) = client.catalog.drop_partitions("default.p", ["k=a"], files=Late(client, fs, set_location))
    assert gone.location == new
    (request,) = client.compactions.show(table="p")
    assert request.soft_deleted_location == new
    assert fs.list_files(new)


def test_a_rename_goes_by_where_its_partition_lies_when_it_has_its_locks(
    client: MetastoreClient, fs: Filesystem, make_table: Callable[..., Any]
) -> None:
    """
    t1  RENAME of k=a to k=b knows where k=a lies, and waits for its lock
    t2            SET LOCATION of k=a
    t3  the rename is granted its lock
    """
    table = make_table("default.p", "k")
    table.insert(1, "k=a")
    new = f"{table.location}/elsewhere"

    def set_location() -> None:
        fs.rename_directory(table.place("k=a"), new)
        relocate(client, "k=a", new)

    renamed = client.catalog.rename_partition("default.p", "k=a", "k=b", files=Late(client, fs, set_location))
    assert (renamed.name, renamed.location) == ("k=b", new)
    assert fs.list_files(new)
