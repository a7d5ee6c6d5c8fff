"""DDL under a lease changes the metastore only while the lease is held, at its end as at its beginning (R8)."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa

from airflow_hive_acid.errors import LeaseEndedError
from airflow_hive_acid.format.jobs import Column
from airflow_hive_acid.metastore import MetastoreClient
from airflow_hive_acid.metastore.catalog.values.model import TableDefinition
from airflow_hive_acid.metastore.database.clock import now_ms
from airflow_hive_acid.metastore.schema.leases import HIVE_LEASE
from airflow_hive_acid.settings import Settings, Source

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

pytestmark = [pytest.mark.rule("R8"), pytest.mark.hive4("no mirrored leases")]


@pytest.fixture(params=["on", "off"])
def ann(request: pytest.FixtureRequest, metastore_url: str, warehouse: str) -> Iterator[MetastoreClient]:
    with MetastoreClient(metastore_url, Settings({Source.REQUEST: {"hive.acid.lease.mirror": request.param}})) as ann:
        ann.catalog.set_warehouse(warehouse)
        ann.catalog.create_database("db")
        ann.catalog.create_table(
            TableDefinition("db", "t", (Column("a", "int"),), (Column("k", "string"),), {"transactional": "true"})
        )
        ann.catalog.add_partitions("db.t", ["k=1"])
        yield ann


def end(client: MetastoreClient) -> None:
    """Every lease ends."""
    with client.database.transaction() as connection:
        connection.execute(sa.update(HIVE_LEASE).values(END_UTC=now_ms(connection) - 1))


class Files:
    """Files of a statement that takes so long that its lease ends meanwhile."""

    def __init__(self, meanwhile: Callable[[], None]) -> None:
        self._meanwhile = meanwhile
        self.moved: list[tuple[str, str]] = []

    def fence(self, jobs: Sequence[Any]) -> None:
        self._meanwhile()

    @contextlib.contextmanager
    def moving(self, txn_id: int, table: Any, moves: Iterable[tuple[str, str]]) -> Iterator[None]:
        there = [(source.rsplit("/", 1)[-1], target.rsplit("/", 1)[-1]) for source, target in moves]
        self.moved += there
        try:
            yield
        except BaseException:
            self.moved += [(target, source) for source, target in there]
            raise

    def name_originals(self, table: Any, places: Sequence[str]) -> None:
        raise AssertionError("no table is converted here")

    def hide(self, txn_id: int, write_id: int, table: Any, partitions: Sequence[Any]) -> None:
        """The partition's rows are hidden by a base of an aborted txn: by nothing."""


def rename(client: MetastoreClient, files: Files) -> None:
    client.catalog.rename_table("db.t", "db.u", files=files)


def drop_partitions(client: MetastoreClient, files: Files) -> None:
    client.catalog.drop_partitions("db.t", ["k=1"], files=files)


def state(client: MetastoreClient) -> tuple[Any, ...]:
    table = client.catalog.get_table("db.t")
    return table, [p.name for p in client.catalog.list_partitions("db.t")]


@pytest.mark.parametrize("change", [rename, drop_partitions])
def test_what_takes_longer_than_its_lease_changes_nothing(ann: MetastoreClient, rows: Any, change: Any) -> None:
    """
    t1  A has the lease, and the locks of its DDL
    t2            the lease ends
    t3  A's commit is refused: the txn is aborted, directories are back
    """
    before = state(ann)
    lease = ann.leases.grab_lease("db.t", 60)
    files = Files(lambda: end(ann))
    with ann.leases.under(lease), pytest.raises(LeaseEndedError, match="Grab a new one"):
        change(ann, files)
    assert state(ann) == before
    assert files.moved in ([], [("t", "u"), ("u", "t")])
    assert rows.count("TXNS", TXN_STATE="o") == 0


CHANGES: dict[str, Callable[[MetastoreClient], object]] = {
    "create": lambda c: c.catalog.create_table(TableDefinition("db", "new", (Column("a", "int"),))),
    "add partition": lambda c: c.catalog.add_partitions("db.t", ["k=2"]),
    "drop partition": lambda c: c.catalog.drop_partition("db.t", "k=1"),
    "drop": lambda c: c.catalog.drop_table("db.t"),
    "properties of a database": lambda c: c.catalog.alter_database("db", {"x": "y"}),
}


@pytest.mark.parametrize("what", CHANGES)
def test_verbs_without_a_txn_look_at_their_end_too(ann: MetastoreClient, what: str) -> None:
    before = (*state(ann), ann.catalog.list_tables("db"), ann.catalog.get_database("db"))
    lease = ann.leases.grab_lease("db.t", 60)
    end(ann)
    with ann.leases.under(lease), pytest.raises(LeaseEndedError):
        CHANGES[what](ann)
    assert (*state(ann), ann.catalog.list_tables("db"), ann.catalog.get_database("db")) == before
    with ann.leases.under(ann.leases.grab_lease("db.t", 60)):
        CHANGES[what](ann)
    assert (ann.catalog.list_tables("db"), ann.catalog.get_database("db")) != before[2:] or state(ann) != before[:2]


def test_under_a_lease_that_is_held_ddl_does_its_work(ann: MetastoreClient) -> None:
    lease = ann.leases.grab_lease("db.t", 60)
    with ann.leases.under(lease):
        ann.catalog.alter_properties("db.t", {"x": "y"})
        rename(ann, Files(lambda: None))
        assert ann.catalog.get_table("db.u").properties["x"] == "y"
