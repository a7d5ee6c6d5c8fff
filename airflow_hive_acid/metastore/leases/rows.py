"""What leases read and write, as statements; each is of one table, partition or row, so that it can travel in batches.

R3: rows are locked by statements of their own, and whatever decides is read after them. R8: the row that is locked is
that of the table in HIVE_ACID_LEASE_OBJECT, in the order of names: one row for a table and all of its partitions.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from sqlalchemy import and_, bindparam, case, delete, exists, func, insert, or_, select, update

from airflow_hive_acid.metastore.database.backend import Result, Step
from airflow_hive_acid.metastore.database.clock import clock_ms
from airflow_hive_acid.metastore.leases.model import HiveLease, LeaseObject, LeaseType
from airflow_hive_acid.metastore.names.partitions import overlap_parameters, overlapping
from airflow_hive_acid.metastore.schema.hive_transactions import HIVE_LOCKS, NEXT_LOCK_ID
from airflow_hive_acid.metastore.schema.leases import (
    HIVE_ACID_LEASE_AUDIT,
    HIVE_ACID_LEASE_OBJECT,
    HIVE_ACID_LEASE_QUEUE,
    HIVE_LEASE,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

L, G, Q, H = HIVE_LEASE.c, HIVE_ACID_LEASE_OBJECT.c, HIVE_ACID_LEASE_QUEUE.c, HIVE_LOCKS.c
_DB, _TBL = bindparam("db", type_=sa.String), bindparam("tbl", type_=sa.String)
_PART, _STORED = bindparam("part", type_=sa.String), bindparam("stored", type_=sa.String)
_ID, _HASH = bindparam("lease_id", type_=sa.BigInteger), bindparam("hash", type_=sa.String)
_TICKET = bindparam("ticket", type_=sa.BigInteger)
_EXT, _INT = bindparam("ext", type_=sa.BigInteger), bindparam("int", type_=sa.BigInteger)
ANY_TICKET = 2**63 - 1
"""In the place of a ticket: everybody who waits was there before."""
_WRITERS = ("w", "x", "e")
"""Lock types that EXCL_WRITE waits for (Hive's compatibility matrix); readers are not stopped (R7)."""

# --- locking, the clock and the next id ---------------------------------------------------------------------------

_GUARD = select(G.HLO_TABLE).where(G.HLO_DATABASE == _DB, G.HLO_TABLE == _TBL).with_for_update()
INSERT_GUARD = insert(HIVE_ACID_LEASE_OBJECT).values(HLO_DATABASE=_DB, HLO_TABLE=_TBL)
FIND_GUARD = select(G.HLO_TABLE).where(G.HLO_DATABASE == _DB, G.HLO_TABLE == _TBL)
NOW = Step(select(clock_ms()))
#: Held to the commit: ids of leases, tickets and Hive's locks become visible in order, smaller ones first.
NEXT_ID = Step(select(NEXT_LOCK_ID.c.NL_NEXT).with_for_update())
_ADVANCE = update(NEXT_LOCK_ID).values(NL_NEXT=bindparam("next"))


def guard_steps(objects: Iterable[LeaseObject | HiveLease]) -> list[Step]:
    """Lock the rows of the tables, in the order of names, so that two clients never wait for each other here."""
    tables = sorted({o.place[:2] for o in objects})
    return [Step(_GUARD, {"db": db, "tbl": tbl}) for db, tbl in tables]


def advance(to: int) -> Step:
    """Give out all ids below ``to``; the row must be locked."""
    return Step(_ADVANCE, {"next": to})


# --- leases -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LeaseRow:
    """A row of HIVE_LEASE.

    :param there: whether the lock that stands for it is still in HIVE_LOCKS; without it the lease has ended (R7).
    """

    lease: HiveLease
    number: int
    mirror: tuple[int, int] | None
    there: bool

    def is_live(self, now: int) -> bool:
        """Whether it is held."""
        return self.there and self.lease.end_utc > now


_MIRROR_LOCK = exists().where(H.HL_LOCK_EXT_ID == L.MIRROR_EXT_ID, H.HL_LOCK_INT_ID == L.MIRROR_INT_ID)
_THERE = case((L.MIRROR_EXT_ID.is_(None), 1), (_MIRROR_LOCK, 1), else_=0)
COLUMNS = (
    L.LEASE_USER,
    L.LEASE_ID,
    L.DB_NAME,
    L.TABLE_NAME,
    L.PARTITION_NAME,
    L.START_UTC,
    L.END_UTC,
    L.LEASE_TYPE,
    L.LEASE_NUMBER,
    L.MIRROR_EXT_ID,
    L.MIRROR_INT_ID,
    _THERE.label("there"),
)
ALL = select(*COLUMNS).order_by(L.DB_NAME, L.TABLE_NAME, L.PARTITION_NAME, L.LEASE_ID)
#: What its holder may see of a lease: nothing without the secret.
MINE = select(*COLUMNS).where(L.LEASE_ID == _ID, L.SECRET_HASH == _HASH).order_by(L.LEASE_NUMBER)
OF_MIRROR = select(*COLUMNS).where(L.MIRROR_EXT_ID == _EXT)
ENDED = select(*COLUMNS).where(L.END_UTC <= clock_ms()).order_by(L.END_UTC).limit(bindparam("limit"))
STILL_ENDED = select(*COLUMNS).where(L.LEASE_ID == _ID, L.LEASE_NUMBER == bindparam("number"), L.END_UTC <= clock_ms())
ENDED_OF_MIRROR = OF_MIRROR.where(L.END_UTC <= clock_ms())
_ON_TABLE = and_(L.DB_NAME == _DB, L.TABLE_NAME == _TBL)
ON_TABLE = select(*COLUMNS).where(_ON_TABLE)
#: Of one whose answer was lost.
OF_SECRET = ON_TABLE.where(L.SECRET_HASH == _HASH)
_SHARED_MIRROR = (
    select(L.MIRROR_EXT_ID, L.MIRROR_INT_ID)
    .where(_ON_TABLE, L.PARTITION_NAME == _PART, L.LEASE_TYPE == "s", L.MIRROR_EXT_ID.is_not(None), _MIRROR_LOCK)
    .limit(1)
)
_INSERT = insert(HIVE_LEASE).values(
    LEASE_ID=_ID,
    LEASE_NUMBER=bindparam("number"),
    LEASE_USER=bindparam("user"),
    DB_NAME=_DB,
    TABLE_NAME=_TBL,
    PARTITION_NAME=_PART,
    START_UTC=bindparam("start"),
    END_UTC=bindparam("end"),
    LEASE_TYPE=bindparam("type"),
    SECRET_HASH=_HASH,
    MIRROR_EXT_ID=bindparam("ext"),
    MIRROR_INT_ID=bindparam("int"),
)
_DELETE = delete(HIVE_LEASE).where(L.LEASE_ID == _ID, L.LEASE_NUMBER == bindparam("number"))
_EXTEND = update(HIVE_LEASE).where(L.LEASE_ID == _ID, L.LEASE_NUMBER == bindparam("number")).values(
    END_UTC=bindparam("end")
)  # fmt: skip


@cache
def _conflicting(keys: int, shared: bool) -> sa.Select[Any]:
    """Leases, live or not, that exclude one of this type on a table, or on what has these values of partition columns.

    :param keys: how many columns are named.
    """
    statement = select(*COLUMNS).where(_ON_TABLE)
    statement = statement.where(*overlapping(L.PARTITION_NAME, keys))
    if shared:
        statement = statement.where(L.LEASE_TYPE == "x")
    return statement.order_by(L.END_UTC.desc())


def lease_rows(results: Iterable[Result]) -> list[LeaseRow]:
    """Rows with :data:`COLUMNS`, each once."""
    found: dict[tuple[int, int], LeaseRow] = {}
    for result in results:
        for r in result.rows:
            row = lease_row(r)
            found[(row.lease.lease_id, row.number)] = row
    return list(found.values())


def lease_row(row: Any) -> LeaseRow:
    """A row with :data:`COLUMNS`."""
    user, lease_id, database, table, partition, start, end, kind, number, lock_id, internal_id, there = row
    lease = HiveLease(user, lease_id, database, table, partition, start, end, LeaseType(kind))
    return LeaseRow(lease, number, None if lock_id is None else (lock_id, internal_id), bool(there))


def conflict_step(wanted: LeaseObject) -> Step:
    """Leases that exclude the one wanted, ended ones among them."""
    return _of_object(_conflicting, wanted)


def shared_mirror_step(wanted: LeaseObject) -> Step:
    """The lock that stands for all s leases of an object, if there are any (R7)."""
    return Step(_SHARED_MIRROR, _place(wanted))


def insert_step(
    lease_id: int,
    number: int,
    wanted: LeaseObject,
    user: str,
    start: int,
    end: int,
    secret_hash: str,
    mirror: tuple[int, int] | None,
) -> Step:
    """One row of a lease."""
    ext, internal = mirror if mirror is not None else (None, None)
    return Step(
        _INSERT,
        {
            "lease_id": lease_id,
            "number": number,
            "user": user,
            **_place(wanted),
            "start": start,
            "end": end,
            "type": wanted.lease_type.value,
            "hash": secret_hash,
            "ext": ext,
            "int": internal,
        },
    )


def extend_steps(rows: Sequence[LeaseRow], end: int) -> list[Step]:
    """Let rows of a lease, and the locks that stand for them, last until then."""
    steps = []
    for row in rows:
        steps.append(Step(_EXTEND, {"lease_id": row.lease.lease_id, "number": row.number, "end": end}))
        if row.mirror is not None:
            steps.append(mirror_until(row.mirror, end))
    return steps


def remove_steps(rows: Sequence[LeaseRow]) -> list[Step]:
    """Remove rows of leases, and the locks that stand for them unless other leases share them (R7)."""
    steps = [Step(_DELETE, {"lease_id": row.lease.lease_id, "number": row.number}) for row in rows]
    for row in rows:
        if row.mirror is not None:
            mirror = {"ext": row.mirror[0], "int": row.mirror[1]}
            steps.append(Step(_UNMIRROR, mirror))
            if row.lease.lease_type is LeaseType.SHARED:
                steps.append(Step(_SHORTEN_MIRROR, mirror))
    return steps


# --- those who wait -----------------------------------------------------------------------------------------------

_WAITER_COLUMNS = (Q.HLQ_TICKET, Q.HLQ_DATABASE, Q.HLQ_TABLE, Q.HLQ_PARTITION, Q.HLQ_TYPE, Q.HLQ_USER)
MY_TICKET = select(Q.HLQ_NUMBER, Q.HLQ_ALIVE_UNTIL).where(Q.HLQ_TICKET == _TICKET)
MY_HIVE_ID = select(Q.HLQ_HIVE_ID).where(Q.HLQ_TICKET == _TICKET).limit(1)
_ENQUEUE = insert(HIVE_ACID_LEASE_QUEUE).values(
    HLQ_TICKET=_TICKET,
    HLQ_NUMBER=bindparam("number"),
    HLQ_DATABASE=_DB,
    HLQ_TABLE=_TBL,
    HLQ_PARTITION=_PART,
    HLQ_TYPE=bindparam("type"),
    HLQ_USER=bindparam("user"),
    HLQ_SINCE=bindparam("since"),
    HLQ_ALIVE_UNTIL=bindparam("until"),
    HLQ_HIVE_ID=bindparam("hive_id", type_=sa.BigInteger),
)
_ENTER_HIVES = update(HIVE_ACID_LEASE_QUEUE).where(Q.HLQ_TICKET == _TICKET).values(HLQ_HIVE_ID=bindparam("hive_id"))
_STAY = update(HIVE_ACID_LEASE_QUEUE).where(Q.HLQ_TICKET == _TICKET).values(HLQ_ALIVE_UNTIL=bindparam("until"))
_LEAVE = delete(HIVE_ACID_LEASE_QUEUE).where(Q.HLQ_TICKET == _TICKET)
_WAITERS = (
    select(*_WAITER_COLUMNS)
    .where(Q.HLQ_DATABASE == _DB, Q.HLQ_TABLE == _TBL, Q.HLQ_ALIVE_UNTIL > clock_ms())
    .order_by(Q.HLQ_TICKET)
)
GONE = (
    select(Q.HLQ_TICKET, Q.HLQ_HIVE_ID)
    .where(Q.HLQ_ALIVE_UNTIL <= clock_ms())
    .distinct()
    .order_by(Q.HLQ_TICKET)
    .limit(bindparam("limit"))
)


@cache
def _ahead(keys: int, shared: bool) -> sa.Select[Any]:
    """Those with a smaller ticket who want what excludes one of this type; the first of them."""
    statement = select(*_WAITER_COLUMNS).where(
        Q.HLQ_DATABASE == _DB, Q.HLQ_TABLE == _TBL, Q.HLQ_TICKET < _TICKET, Q.HLQ_ALIVE_UNTIL > clock_ms()
    )
    statement = statement.where(*overlapping(Q.HLQ_PARTITION, keys))
    if shared:
        statement = statement.where(Q.HLQ_TYPE == "x")
    return statement.order_by(Q.HLQ_TICKET).limit(1)


@dataclass(frozen=True, slots=True)
class Waiter:
    """Somebody who waits for a lease on an object."""

    ticket: int
    wanted: LeaseObject
    user: str


def ahead_step(wanted: LeaseObject, ticket: int) -> Step:
    """The first who waits for what excludes the lease wanted."""
    step = _of_object(_ahead, wanted)
    return Step(step.statement, {**step.parameters, "ticket": ticket})


def waiter(row: Any) -> Waiter:
    """A row of :func:`ahead_step`."""
    ticket, database, table, partition, kind, user = row
    return Waiter(ticket, LeaseObject(database, table, partition, kind), user)


def waiters_steps(objects: Iterable[LeaseObject | HiveLease]) -> list[Step]:
    """Who waits for something in these tables: rows for :func:`waiter`."""
    return [Step(_WAITERS, {"db": db, "tbl": tbl}) for db, tbl in sorted({o.place[:2] for o in objects})]


def enqueue_steps(
    ticket: int, wanted: Sequence[LeaseObject], user: str, now: int, until: int, hive_id: int | None
) -> list[Step]:
    """Take a place in the queue.

    :param hive_id: of the lock that waits in Hive's queue, if one does.
    """
    return [
        Step(
            _ENQUEUE,
            {
                "ticket": ticket,
                "number": number,
                **_place(each),
                "type": each.lease_type.value,
                "user": user,
                "since": now,
                "until": until,
                "hive_id": hive_id,
            },
        )
        for number, each in enumerate(wanted, 1)
    ]


def enter_hives(ticket: int, hive_id: int) -> Step:
    """Note the lock that waits in Hive's queue for somebody who stood in ours only."""
    return Step(_ENTER_HIVES, {"ticket": ticket, "hive_id": hive_id})


def stay_steps(ticket: int, hive_id: int | None, now: int, until: int) -> list[Step]:
    """Keep a place in the queue, and in Hive's."""
    steps = [Step(_STAY, {"ticket": ticket, "until": until})]
    return steps if hive_id is None else [*steps, Step(_STAY_IN_HIVES, {"ext": hive_id, "until": now})]


def leave_steps(ticket: int, hive_id: int | None) -> list[Step]:
    """Leave the queue, and Hive's."""
    steps = [Step(_LEAVE, {"ticket": ticket})]
    return steps if hive_id is None else [*steps, Step(_LEAVE_HIVES, {"ext": hive_id})]


# --- the mirror in HIVE_LOCKS -------------------------------------------------------------------------------------

_MIRROR = insert(HIVE_LOCKS).values(
    HL_LOCK_EXT_ID=_EXT,
    HL_LOCK_INT_ID=_INT,
    HL_TXNID=0,
    HL_DB=_DB,
    HL_TABLE=_TBL,
    HL_PARTITION=_PART,
    HL_LOCK_STATE=bindparam("state"),
    HL_LOCK_TYPE="x",
    HL_LAST_HEARTBEAT=bindparam("until"),
    HL_ACQUIRED_AT=bindparam("acquired"),
    HL_USER=bindparam("user"),
    HL_HOST=bindparam("host"),
    HL_AGENT_INFO=bindparam("agent"),
)
_THIS_LOCK = and_(H.HL_LOCK_EXT_ID == _EXT, H.HL_LOCK_INT_ID == _INT)
_SHARERS = exists().where(L.MIRROR_EXT_ID == _EXT, L.MIRROR_INT_ID == _INT)
_LATEST_END = select(func.max(L.END_UTC)).where(L.MIRROR_EXT_ID == _EXT, L.MIRROR_INT_ID == _INT).scalar_subquery()
_UNMIRROR = delete(HIVE_LOCKS).where(_THIS_LOCK, ~_SHARERS)
_SHORTEN_MIRROR = update(HIVE_LOCKS).where(_THIS_LOCK, _SHARERS).values(HL_LAST_HEARTBEAT=_LATEST_END)
_MIRROR_UNTIL = (
    update(HIVE_LOCKS)
    .where(_THIS_LOCK, H.HL_LAST_HEARTBEAT < bindparam("until"))
    .values(HL_LAST_HEARTBEAT=bindparam("until"))
)
_MIRROR_ACQUIRED = (
    update(HIVE_LOCKS)
    .where(_THIS_LOCK)
    .values(
        HL_LOCK_STATE="a",
        HL_ACQUIRED_AT=bindparam("acquired"),
        HL_LAST_HEARTBEAT=bindparam("until"),
        HL_AGENT_INFO=bindparam("agent"),
    )
)
_LEAVE_HIVES = delete(HIVE_LOCKS).where(H.HL_LOCK_EXT_ID == _EXT, H.HL_LOCK_STATE == "w")
_LEAVE_HIVES_ONE = _LEAVE_HIVES.where(H.HL_LOCK_INT_ID == _INT)
_STAY_IN_HIVES = (
    update(HIVE_LOCKS)
    .where(H.HL_LOCK_EXT_ID == _EXT, H.HL_LOCK_STATE == "w")
    .values(HL_LAST_HEARTBEAT=bindparam("until"))
)
#: So that nobody removes them between the look and the commit.
_LOCK_MINE = select(H.HL_LOCK_INT_ID).where(H.HL_LOCK_EXT_ID == _EXT).with_for_update()
LOCK_MIRROR = select(H.HL_LOCK_INT_ID).where(_THIS_LOCK).with_for_update()
_OF_A_LEASE = exists().where(L.MIRROR_EXT_ID == H.HL_LOCK_EXT_ID, L.MIRROR_INT_ID == H.HL_LOCK_INT_ID)
_OF_A_WAITER = exists().where(Q.HLQ_HIVE_ID == H.HL_LOCK_EXT_ID)


def _hive_locks(whole: bool) -> sa.Select[Any]:
    """Hive's locks on a table, or that reach into a partition, that EXCL_WRITE waits for; none of a lease."""
    statement = _IN_HIVES.where(H.HL_TABLE == _TBL)
    if whole:
        return statement
    return statement.where(or_(H.HL_PARTITION.is_(None), H.HL_PARTITION == _PART, H.HL_PARTITION == _STORED))


_IN_HIVES = (
    select(H.HL_LOCK_EXT_ID, H.HL_LOCK_INT_ID, H.HL_LOCK_TYPE, H.HL_USER, H.HL_TXNID, H.HL_AGENT_INFO)
    .where(
        H.HL_DB == _DB,
        H.HL_LOCK_EXT_ID < _TICKET,
        or_(*(H.HL_LOCK_TYPE == t for t in _WRITERS)),
        ~_OF_A_LEASE,
        ~_OF_A_WAITER,
    )
    .limit(1)
)
_ON_DATABASE = _IN_HIVES.where(H.HL_TABLE.is_(None))
_HIVE_LOCKS = {whole: _hive_locks(whole) for whole in (False, True)}


def hive_lock_steps(wanted: LeaseObject, below: int, mirrored: str | None) -> list[Step]:
    """Locks of Hive's transactions that a mirrored lease waits for; the look at databases apart, for the index.

    :param mirrored: the partition that its mirror locks; None for the whole table.
    """
    whole = mirrored is None
    parameters: dict[str, Any] = {"db": wanted.db_name, "tbl": wanted.table_name, "ticket": below}
    if not whole:
        parameters |= {"part": wanted.partition_name, "stored": mirrored}
    return [
        Step(_HIVE_LOCKS[whole], parameters),
        Step(_ON_DATABASE, {"db": wanted.db_name, "ticket": below}),
    ]


def mirror_step(
    mirror: tuple[int, int], wanted: LeaseObject, mirrored: str | None, *, acquired: int | None, until: int, user: str,
    host: str, agent: str,
) -> Step:  # fmt: skip
    """A lock that stands for a lease, or (not acquired) for somebody who waits for one.

    :param mirrored: the partition that it locks, as HIVE_LOCKS spells it; None for the whole table.
    """
    return Step(
        _MIRROR,
        {
            "ext": mirror[0],
            "int": mirror[1],
            "db": wanted.db_name,
            "tbl": wanted.table_name,
            "part": mirrored,
            "state": "w" if acquired is None else "a",
            "until": until,
            "acquired": acquired,
            "user": user,
            "host": host,
            "agent": agent,
        },
    )


def mirror_acquired(mirror: tuple[int, int], now: int, until: int, agent: str) -> Step:
    """A waiting lock stands for a lease now; it keeps its place in Hive's queue."""
    return Step(_MIRROR_ACQUIRED, {"ext": mirror[0], "int": mirror[1], "acquired": now, "until": until, "agent": agent})


def mirror_until(mirror: tuple[int, int], until: int) -> Step:
    """Let a lock stand at least until then."""
    return Step(_MIRROR_UNTIL, {"ext": mirror[0], "int": mirror[1], "until": until})


def leave_hives(mirror: tuple[int, int]) -> Step:
    """Take one waiting lock away."""
    return Step(_LEAVE_HIVES_ONE, {"ext": mirror[0], "int": mirror[1]})


def lock_waiting_locks(hive_id: int) -> Step:
    """Lock, and count, what waits in Hive's queue for somebody."""
    return Step(_LOCK_MINE, {"ext": hive_id})


# --- the record of what was done by force -------------------------------------------------------------------------

A = HIVE_ACID_LEASE_AUDIT.c
_RECORD = insert(HIVE_ACID_LEASE_AUDIT).values({c.name: bindparam(c.name) for c in A if c.name != "HLA_ID"})


def audit_step(row: HiveLease, who: str, why: str, now: int) -> Step:
    """Remember a lease that is dropped by force."""
    values = {
        "HLA_TIME": now, "HLA_WHO": who, "HLA_WHY": why, "HLA_LEASE_ID": row.lease_id, "HLA_USER": row.user,
        "HLA_DATABASE": row.db_name, "HLA_TABLE": row.table_name, "HLA_PARTITION": row.partition_name,
        "HLA_TYPE": row.lease_type.value, "HLA_START": row.start_utc, "HLA_END": row.end_utc,
    }  # fmt: skip
    return Step(_RECORD, values)


def _of_object(statement: Callable[[int, bool], sa.Select[Any]], wanted: LeaseObject) -> Step:
    named = overlap_parameters(wanted.partition_name)
    keys, shared = len(named) // 2, wanted.lease_type is LeaseType.SHARED
    return Step(statement(keys, shared), {"db": wanted.db_name, "tbl": wanted.table_name, **named})


def _place(wanted: LeaseObject) -> dict[str, Any]:
    return {"db": wanted.db_name, "tbl": wanted.table_name, "part": wanted.partition_name}
