"""Leases in pages: those that are held, who waits for one, and what was dropped by force."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlalchemy import select

from airflow_hive_acid.metastore.database.clock import clock_ms
from airflow_hive_acid.metastore.leases.model import LeaseType, describe_place
from airflow_hive_acid.metastore.leases.rows import COLUMNS, LeaseRow, lease_row
from airflow_hive_acid.metastore.listing.pages import Key, Page, Slice, fetch
from airflow_hive_acid.metastore.schema.leases import HIVE_ACID_LEASE_AUDIT, HIVE_ACID_LEASE_QUEUE, HIVE_LEASE

if TYPE_CHECKING:
    import sqlalchemy as sa
    from sqlalchemy.engine import Connection

    from airflow_hive_acid.metastore.database.database import Features

L, Q, A = HIVE_LEASE.c, HIVE_ACID_LEASE_QUEUE.c, HIVE_ACID_LEASE_AUDIT.c
#: Whether the lock that stands for it is still there (R7): the last of the columns.
_THERE = COLUMNS[-1]


@dataclass(frozen=True, slots=True)
class LeasesWanted:
    """Which leases; None does not restrict."""

    database: str | None = None
    table: str | None = None
    user: str | None = None
    type: LeaseType | None = None


@dataclass(frozen=True, slots=True)
class Waiter:
    """Somebody who stands in line for a lease, one row for each object; times are milliseconds.

    :param ticket: says who was first.
    :param alive_until: when the place is lost unless it is kept.
    """

    ticket: int
    number: int
    database: str
    table: str
    partition: str
    type: LeaseType
    user: str
    since: int
    alive_until: int

    def describe(self) -> str:
        """``db.table`` or ``db.table/partition``."""
        return describe_place((self.database, self.table, self.partition))


@dataclass(frozen=True, slots=True)
class Drop:
    """A lease that was dropped by force, and by whom; times are milliseconds."""

    id: int
    time: int
    who: str
    why: str
    lease_id: int
    user: str
    database: str
    table: str
    partition: str
    type: LeaseType
    started: int
    ended: int

    def describe(self) -> str:
        """``db.table`` or ``db.table/partition``."""
        return describe_place((self.database, self.table, self.partition))


def leases_page(connection: Connection, wanted: LeasesWanted, part: Slice) -> Page[LeaseRow]:
    """Leases that are held now, in the order in which they were granted."""
    statement: sa.Select[Any] = select(*COLUMNS).where(L.END_UTC > clock_ms(), _THERE.element == 1)
    statement = _restricted(
        statement,
        (L.DB_NAME, _lower(wanted.database)),
        (L.TABLE_NAME, _lower(wanted.table)),
        (L.LEASE_USER, wanted.user),
        (L.LEASE_TYPE, None if wanted.type is None else wanted.type.value),
    )
    keys = (Key(L.LEASE_ID), Key(L.LEASE_NUMBER))
    return fetch(connection, statement, keys, part, lease_row, lambda row: (row.lease.lease_id, row.number))


def waiters_page(connection: Connection, database: str | None, table: str | None, part: Slice) -> Page[Waiter]:
    """Who waits for a lease, the first in line first."""
    statement: sa.Select[Any] = select(
        Q.HLQ_TICKET, Q.HLQ_NUMBER, Q.HLQ_DATABASE, Q.HLQ_TABLE, Q.HLQ_PARTITION, Q.HLQ_TYPE, Q.HLQ_USER, Q.HLQ_SINCE,
        Q.HLQ_ALIVE_UNTIL,
    ).where(Q.HLQ_ALIVE_UNTIL > clock_ms())  # fmt: skip
    statement = _restricted(statement, (Q.HLQ_DATABASE, _lower(database)), (Q.HLQ_TABLE, _lower(table)))
    keys = (Key(Q.HLQ_TICKET), Key(Q.HLQ_NUMBER))
    return fetch(connection, statement, keys, part, _waiter, lambda w: (w.ticket, w.number))


def drops_page(connection: Connection, part: Slice, lease_id: int | None = None) -> Page[Drop]:
    """Leases that were dropped by force, the latest first."""
    statement: sa.Select[Any] = select(
        A.HLA_ID, A.HLA_TIME, A.HLA_WHO, A.HLA_WHY, A.HLA_LEASE_ID, A.HLA_USER, A.HLA_DATABASE, A.HLA_TABLE,
        A.HLA_PARTITION, A.HLA_TYPE, A.HLA_START, A.HLA_END,
    )  # fmt: skip
    statement = _restricted(statement, (A.HLA_LEASE_ID, lease_id))
    return fetch(
        connection, statement, (Key(A.HLA_ID, True),), part, _drop,
        lambda drop: (drop.id,),
    )  # fmt: skip


def rows_of_lease(connection: Connection, lease_id: int) -> list[LeaseRow]:
    """What a lease is on, ended or not."""
    statement = select(*COLUMNS).where(L.LEASE_ID == lease_id).order_by(L.LEASE_NUMBER)
    return [lease_row(row) for row in connection.execute(statement)]


def lease_of_lock(connection: Connection, lock_id: int, features: Features) -> str | None:
    """What a lock of Hive's stands for, if it is one of ours for a lease (R7): ``lease 5`` or a place in the line."""
    if not features.leases:
        return None
    lease = connection.execute(select(L.LEASE_ID).where(L.MIRROR_EXT_ID == lock_id).limit(1)).scalar()
    if lease is not None:
        return f"lease {lease}"
    ticket = connection.execute(select(Q.HLQ_TICKET).where(Q.HLQ_HIVE_ID == lock_id).limit(1)).scalar()
    return None if ticket is None else f"place {ticket} in the line for a lease"


def _waiter(row: Any) -> Waiter:
    ticket, number, database, table, partition, kind, user, since, alive_until = row
    return Waiter(ticket, number, database, table, partition, LeaseType(kind), user, since, alive_until)


def _drop(row: Any) -> Drop:
    drop_id, time, who, why, lease_id, user, database, table, partition, kind, started, ended = row
    return Drop(
        drop_id, time, who, why, lease_id, user, database, table, partition, LeaseType(kind), started, ended
    )  # fmt: skip


def _restricted(statement: sa.Select[Any], *conditions: tuple[sa.ColumnElement[Any], Any]) -> sa.Select[Any]:
    for column, value in conditions:
        if value is not None:
            statement = statement.where(column == value)
    return statement


def _lower(name: str | None) -> str | None:
    return None if name is None else name.lower()
